//! The prompt that continues a conversation in a new session.
//!
//! Plain data: [`handoff`](super::handoff) reads the files that the prompt refers to.

use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;

/// The words at the start of every continuation prompt, by which a session recognizes one.
pub const MARKER: &str = "Continuing work from session";

/// What one session hands over to the next.
///
/// # Example: a rule's message becomes the draft of the next session
/// ```
/// use ttsr::harness::handoff::Handoff;
/// let handoff = Handoff::new("ses_1", "Finish the parser.").files(["src/parse.rs"]);
/// let first = handoff.prompt().lines().next().map(str::to_owned);
/// assert!(first.unwrap().starts_with("Continuing work from session ses_1."));
/// assert!(handoff.prompt().contains("\n@src/parse.rs\n"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handoff {
    session: String,
    files: Vec<String>,
    text: String,
}

/// The input of the tool `handoff_session`.
#[derive(Deserialize)]
struct HandoffInput {
    prompt: String,
    #[serde(default)]
    files: Vec<String>,
}

impl Handoff {
    /// A handoff of that session, whose next one begins with that text.
    pub fn new(session: impl Into<String>, text: impl Into<String>) -> Handoff {
        Handoff {
            session: session.into(),
            files: Vec::new(),
            text: text.into(),
        }
    }

    /// The files that the next session is to have, each once. An `@` in front is left out.
    #[must_use]
    pub fn files<F: AsRef<str>>(mut self, files: impl IntoIterator<Item = F>) -> Handoff {
        let mut seen: HashSet<String> = self.files.iter().cloned().collect();
        for file in files {
            let file = file.as_ref();
            let file = file.strip_prefix('@').unwrap_or(file);
            if !file.is_empty() && seen.insert(file.to_owned()) {
                self.files.push(file.to_owned());
            }
        }
        self
    }

    /// What a call of the tool `handoff_session` asks for.
    ///
    /// # Errors
    /// If the input is not an object with a `prompt` and, if any, a list of `files`.
    pub fn from_tool_input(session: &str, input: &str) -> Result<Handoff, serde_json::Error> {
        let input: HandoffInput = serde_json::from_str(input)?;
        Ok(Handoff::new(session, input.prompt).files(input.files))
    }

    /// The continuation prompt.
    #[must_use]
    pub fn prompt(&self) -> String {
        let mut prompt = format!(
            "{MARKER} {}. When you lack specific information you can use read_session to get it.\n\n",
            self.session
        );
        if !self.files.is_empty() {
            prompt += &format!("@{}\n\n", self.files.join(" @"));
        }
        prompt + &self.text
    }

    /// What the host does, in this order, to show the prompt for editing.
    ///
    /// # Example: what the model asked for, as the user sees it
    /// ```
    /// use ttsr::harness::handoff::{Draft, Handoff};
    /// let input = r#"{"prompt": "Finish the parser.", "files": ["@src/parse.rs"]}"#;
    /// let handoff = Handoff::from_tool_input("ses_1", input)?;
    /// let draft = handoff.draft();
    /// assert_eq!(draft[0], Draft::OpenSession);
    /// assert_eq!(draft[2], Draft::Append(handoff.prompt()));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn draft(&self) -> [Draft; 4] {
        [
            Draft::OpenSession,
            // The input field of a new session is not there at once.
            Draft::Wait(Duration::from_millis(150)),
            Draft::Append(self.prompt()),
            Draft::Toast {
                text: "Handoff Ready — Review and edit the draft, then send",
                lasts: Duration::from_secs(4),
            },
        ]
    }
}

/// One step of showing a continuation prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Draft {
    /// Open a new session.
    OpenSession,
    /// Wait that long.
    Wait(Duration),
    /// Append this to the prompt that is being written.
    Append(String),
    /// Show this for that long.
    Toast {
        /// The text.
        text: &'static str,
        /// How long it is shown.
        lasts: Duration,
    },
}
