//! What was said in an earlier session, as the tool `read_session` shows it.
//!
//! Owns the form and the bounds. Where the messages are kept is the host's business.

use std::fmt::Display;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::file::file_of_header;
use ttsr::harness::{Content, Message, Role};

/// Messages shown where the call does not say how many.
pub(super) const DEFAULT_LIMIT: usize = 100;

/// Most messages shown, whatever the call says.
pub(super) const MAX_LIMIT: usize = 500;

/// A call of the tool `read_session`.
///
/// # Example: the last message of a session
/// ```
/// use ttsr::harness::Message;
/// use ttsr_agent::handoff::{ReadSession, Said};
/// let call = ReadSession::from_tool_input(r#"{"sessionID": "ses_1", "limit": 1}"#)?;
/// assert_eq!(call.limit(), 1);
/// let shown = call.transcript(|session, most| {
///     assert_eq!((session, most), ("ses_1", 2));
///     let messages = [Message::user("Mend it."), Message::user("And test it.")];
///     Ok::<_, String>(messages.iter().filter_map(Said::from_message).collect())
/// });
/// assert!(shown.starts_with("## User\nAnd test it.\n"));
/// assert!(shown.ends_with("Use a higher 'limit' to see more.)"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReadSession {
    /// The session to read.
    #[serde(rename = "sessionID")]
    session: String,
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// A number of JSON, whose fraction is left out; models write `10.0` as well.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    // A negative number is 0 then, and one beyond the range its end.
    Ok(number.map(|number| number as u64))
}

impl ReadSession {
    /// Reads that session; without a limit, its last 100 messages.
    pub fn new(session: impl Into<String>, limit: Option<u64>) -> ReadSession {
        ReadSession {
            session: session.into(),
            limit,
        }
    }

    /// What a call of the tool asks for.
    ///
    /// # Errors
    /// If the input is not an object with a `sessionID` and, if any, a `limit`.
    pub fn from_tool_input(input: &str) -> Result<ReadSession, serde_json::Error> {
        serde_json::from_str(input)
    }

    /// The session to read.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// How many messages are shown at most: 100 by default, 500 whatever the call says, at least 1.
    #[must_use]
    pub fn limit(&self) -> usize {
        let limit = self.limit.map(usize::try_from);
        let limit = limit.map_or(DEFAULT_LIMIT, |limit| limit.unwrap_or(MAX_LIMIT));
        limit.clamp(1, MAX_LIMIT)
    }

    /// The tool's output. `recent` gives the last messages of a session, oldest first, at most as many
    /// as it is asked for: one more than are shown, to know whether there are more.
    pub fn transcript<E: Display>(
        &self,
        recent: impl FnOnce(&str, usize) -> Result<Vec<Said>, E>,
    ) -> String {
        match recent(&self.session, self.limit() + 1) {
            Ok(said) => self.show(&said),
            Err(error) => format!("Could not read session {}: {error}", self.session),
        }
    }

    fn show(&self, said: &[Said]) -> String {
        let shown = &said[said.len().saturating_sub(self.limit())..];
        let mut text: String = shown.iter().map(Said::show).collect();
        let count = shown.len();
        text += &if count < said.len() {
            format!("(Showing {count} most recent messages. Use a higher 'limit' to see more.)")
        } else {
            format!("(End of session - {count} messages)")
        };
        text
    }
}

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Speaker {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// One message of a transcript.
///
/// # Example: what a transcript shows
/// ```
/// use ttsr::harness::{Message, Role};
/// use ttsr_agent::handoff::{Said, SaidPart, Speaker};
/// let said = Said::from_message(&Message::user("Mend it.")).unwrap();
/// assert_eq!(said.by, Speaker::User);
/// assert_eq!(said.parts, [SaidPart::Text("Mend it.".into())]);
/// assert_eq!(Said::from_message(&Message::new(Role::System, "Be brief.")), None);
/// assert_eq!(Said::from_message(&Message::steering("No lists.")), None, "nobody said that");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Who said it.
    pub by: Speaker,
    /// What was said, in order.
    pub parts: Vec<SaidPart>,
}

/// A part of a message, as far as a transcript shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaidPart {
    /// Text.
    Text(String),
    /// A file that was attached, by its name.
    Attached(String),
    /// A tool that ran.
    Tool {
        /// Its name.
        name: String,
        /// What it did, in a few words.
        title: String,
    },
}

impl Said {
    /// A message of a conversation: its text, the names of files that were [injected](super::Injection), and its tool
    /// calls, each with a title made of its input: the description, else the command, file, pattern or address. None
    /// for what is neither the user's nor the model's, and for what holds nothing that is shown, such as other
    /// synthetic text, reasoning and results of tools.
    #[must_use]
    pub fn from_message(message: &Message) -> Option<Said> {
        let by = match message.role {
            Role::User => Speaker::User,
            Role::Assistant => Speaker::Assistant,
            Role::System | Role::Tool => return None,
        };
        let parts = message.content.iter().filter_map(|content| match content {
            Content::Text {
                text,
                synthetic: false,
            } => Some(SaidPart::Text(text.clone())),
            Content::Text { text, .. } if by == Speaker::User => {
                file_of_header(text).map(SaidPart::Attached)
            }
            Content::ToolCall { tool, input, .. } => Some(SaidPart::Tool {
                name: tool.clone(),
                title: title(input),
            }),
            _ => None,
        });
        let parts: Vec<SaidPart> = parts.collect();
        (!parts.is_empty()).then_some(Said { by, parts })
    }

    fn show(&self) -> String {
        let mut shown = String::from(match self.by {
            Speaker::User => "## User\n",
            Speaker::Assistant => "## Assistant\n",
        });
        for part in &self.parts {
            match part {
                SaidPart::Text(text) => shown += text,
                SaidPart::Attached(name) => shown += &format!("[Attached: {name}]"),
                SaidPart::Tool { name, title } => {
                    shown += format!("[Tool: {name}] {title}").trim_end();
                }
            }
            shown += "\n";
        }
        shown + "\n"
    }
}

/// What a call did, in a few words: the first of these members of its input that is a text, its first line, at most
/// [`TITLE`] characters.
fn title(input: &str) -> String {
    const MEMBERS: [&str; 9] = [
        "description",
        "command",
        "filePath",
        "path",
        "pattern",
        "query",
        "url",
        "sessionID",
        "prompt",
    ];
    let input: Value = serde_json::from_str(input).unwrap_or_default();
    let said = MEMBERS
        .iter()
        .find_map(|member| input.get(member)?.as_str());
    let line = said.unwrap_or_default().trim().lines().next();
    line.unwrap_or_default().chars().take(TITLE).collect()
}

/// Most characters of a title.
const TITLE: usize = 80;
