//! The handoff of a conversation to a new session, as plain data. The host shows and performs it.

use std::collections::HashSet;

use serde::Deserialize;

/// The words at the start of every continuation prompt, by which a session recognizes one.
pub const HANDOFF_MARKER: &str = "Continuing work from session";

/// The text and files that one session hands over to the next.
///
/// # Example: a rule's message becomes the draft of the next session
/// ```
/// use ttsr::harness::Handoff;
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
    /// Returns a handoff of a session, with the text that the next session begins with.
    pub fn new(session: impl Into<String>, text: impl Into<String>) -> Handoff {
        Handoff {
            session: session.into(),
            files: Vec::new(),
            text: text.into(),
        }
    }

    /// Adds files for the next session, each once. A leading `@` is removed.
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

    /// Parses the input of the tool `handoff_session`.
    ///
    /// # Errors
    /// Returns an error if the input is not an object with a string `prompt` and, if present, a list of strings
    /// `files`.
    pub fn from_tool_input(session: &str, input: &str) -> Result<Handoff, serde_json::Error> {
        let input: HandoffInput = serde_json::from_str(input)?;
        Ok(Handoff::new(session, input.prompt).files(input.files))
    }

    /// Returns the continuation prompt.
    #[must_use]
    pub fn prompt(&self) -> String {
        let mut prompt = format!(
            "{HANDOFF_MARKER} {}. When you lack specific information you can use read_session to get it.\n\n",
            self.session
        );
        if !self.files.is_empty() {
            prompt += &format!("@{}\n\n", self.files.join(" @"));
        }
        prompt + &self.text
    }
}
