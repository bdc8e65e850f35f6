//! Transcripts of earlier sessions, as the tool `read_session` shows them.
//!
//! This module owns their form and bounds. The host provides the messages.

use std::fmt::Display;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::file::file_of_header;
use ttsr::harness::{Content, Message, Role};

/// The default number of messages.
pub(super) const DEFAULT_LIMIT: usize = 100;

/// The most messages, whatever the call asks for.
pub(super) const MAX_LIMIT: usize = 500;

/// A call of the tool `read_session`.
///
/// # Example: the last message of a session
/// ```
/// use ttsr::harness::Message;
/// use ttsr_agent::handoff::{ReadSession, TranscriptMessage};
/// let call = ReadSession::from_tool_input(r#"{"sessionID": "ses_1", "limit": 1}"#)?;
/// assert_eq!(call.limit(), 1);
/// let shown = call.transcript(|session, most| {
///     assert_eq!((session, most), ("ses_1", 2));
///     let messages = [Message::user("Mend it."), Message::user("And test it.")];
///     Ok::<_, String>(messages.iter().filter_map(TranscriptMessage::from_message).collect())
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

/// Deserializes a JSON number and drops its fraction: models also write `10.0`.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    // The cast saturates: a negative number becomes 0.
    Ok(number.map(|number| number as u64))
}

impl ReadSession {
    /// Returns a call for that session; without a limit, for its last 100 messages.
    pub fn new(session: impl Into<String>, limit: Option<u64>) -> ReadSession {
        ReadSession {
            session: session.into(),
            limit,
        }
    }

    /// Parses the input of the tool.
    ///
    /// # Errors
    /// If the input is not an object with a `sessionID` and, optionally, a `limit`.
    pub fn from_tool_input(input: &str) -> Result<ReadSession, serde_json::Error> {
        serde_json::from_str(input)
    }

    /// Returns the session to read.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the most messages to show: from 1 to 500, 100 by default.
    #[must_use]
    pub fn limit(&self) -> usize {
        let limit = self.limit.map(usize::try_from);
        let limit = limit.map_or(DEFAULT_LIMIT, |limit| limit.unwrap_or(MAX_LIMIT));
        limit.clamp(1, MAX_LIMIT)
    }

    /// Returns the tool's output. `recent` returns the last messages of a session, oldest first, at most the given
    /// number, which is one more than are shown, to detect that there are more.
    pub fn transcript<E: Display>(
        &self,
        recent: impl FnOnce(&str, usize) -> Result<Vec<TranscriptMessage>, E>,
    ) -> String {
        match recent(&self.session, self.limit() + 1) {
            Ok(said) => self.show(&said),
            Err(error) => format!("Could not read session {}: {error}", self.session),
        }
    }

    fn show(&self, said: &[TranscriptMessage]) -> String {
        let shown = &said[said.len().saturating_sub(self.limit())..];
        let mut text: String = shown.iter().map(TranscriptMessage::show).collect();
        let count = shown.len();
        text += &if count < said.len() {
            format!("(Showing {count} most recent messages. Use a higher 'limit' to see more.)")
        } else {
            format!("(End of session - {count} messages)")
        };
        text
    }
}

/// The author of a message.
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
/// # Example: messages in a transcript
/// ```
/// use ttsr::harness::{Message, Role};
/// use ttsr_agent::handoff::{TranscriptMessage, TranscriptPart, Speaker};
/// let said = TranscriptMessage::from_message(&Message::user("Mend it.")).unwrap();
/// assert_eq!(said.by, Speaker::User);
/// assert_eq!(said.parts, [TranscriptPart::Text("Mend it.".into())]);
/// assert_eq!(TranscriptMessage::from_message(&Message::new(Role::System, "Be brief.")), None);
/// assert_eq!(TranscriptMessage::from_message(&Message::steering("No lists.")), None, "it is synthetic");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptMessage {
    /// The author.
    pub by: Speaker,
    /// The parts, in order.
    pub parts: Vec<TranscriptPart>,
}

/// A part of a message that a transcript shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TranscriptPart {
    /// Text.
    Text(String),
    /// An attached file, by its name, or by its media type if it has no name.
    Attached(String),
    /// A tool call.
    Tool {
        /// The tool's name.
        name: String,
        /// A short description of the call.
        title: String,
    },
}

impl TranscriptMessage {
    /// Converts a message of a conversation: its text, the names of [injected](super::Injection) files, the media types
    /// of its images, and its tool calls, each with a title from its input: the description, or else the command, file,
    /// pattern or address. Returns `None` for a message of neither the user nor the model, and for one without content
    /// to show: other synthetic text, reasoning and tool results are omitted.
    #[must_use]
    pub fn from_message(message: &Message) -> Option<TranscriptMessage> {
        let by = match message.role {
            Role::User => Speaker::User,
            Role::Assistant => Speaker::Assistant,
            Role::System | Role::Tool => return None,
        };
        let parts = message.content.iter().filter_map(|content| match content {
            Content::Text {
                text,
                synthetic: false,
            } => Some(TranscriptPart::Text(text.clone())),
            Content::Text { text, .. } if by == Speaker::User => {
                file_of_header(text).map(TranscriptPart::Attached)
            }
            Content::ToolCall { tool, input, .. } => Some(TranscriptPart::Tool {
                name: tool.clone(),
                title: title(input),
            }),
            // An image has no name; its media type replaces it.
            Content::Image { media_type, .. } => Some(TranscriptPart::Attached(media_type.clone())),
            Content::Text { .. } | Content::Reasoning { .. } | Content::ToolResult { .. } => None,
        });
        let parts: Vec<TranscriptPart> = parts.collect();
        (!parts.is_empty()).then_some(TranscriptMessage { by, parts })
    }

    fn show(&self) -> String {
        let mut shown = String::from(match self.by {
            Speaker::User => "## User\n",
            Speaker::Assistant => "## Assistant\n",
        });
        for part in &self.parts {
            match part {
                TranscriptPart::Text(text) => shown += text,
                TranscriptPart::Attached(name) => shown += &format!("[Attached: {name}]"),
                TranscriptPart::Tool { name, title } => {
                    shown += format!("[Tool: {name}] {title}").trim_end();
                }
            }
            shown += "\n";
        }
        shown + "\n"
    }
}

/// Returns a short description of a call: the first line of the first of these members of its input that is a string,
/// at most [`TITLE`] characters.
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

/// The most characters of a title.
const TITLE: usize = 80;
