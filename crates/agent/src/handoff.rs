//! Handoffs: continuing the work of a session in a new one.
//!
//! This module owns the steps that show a continuation prompt as a draft, the template for the model's own summary, the
//! tools `handoff_session` and `read_session`, and the set of sessions whose files were injected. It opens no session
//! and sends nothing: the host carries out a [`DraftStep`] or an [`Injection`]. `ttsr run` is such a host.

mod file;
mod reference;
mod tools;
mod transcript;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use ttsr::harness::{Content, HANDOFF_MARKER, Message, Role};

pub use ttsr::harness::Handoff;

pub use file::{FileSource, MAX_LINE_CHARS, MAX_LINES, ProjectFiles, is_binary, read_part};
pub use reference::file_references;
pub use tools::{
    HANDOFF_SESSION, HandoffTools, READ_SESSION, StoredSessions, TranscriptFuture, Transcripts,
    definitions,
};
pub use transcript::{ReadSession, Speaker, TranscriptMessage, TranscriptPart};

/// The template of `/handoff`: the prompt for the model, with `$ARGUMENTS` for the user's text.
pub const TEMPLATE: &str = "\
GOAL: You are creating a handoff message to continue work in a new session.

<context>
A new session knows nothing of this one. It would spend its first minutes finding the files and the
decisions that you know already. What you put into the handoff message it has from the start.
</context>

<instructions>
1. Identify all relevant files: those to be changed, their tests, and what they depend on. Name 8 to 15
   files, up to 20 where the work is complex. Give paths relative to the project folder.
2. Draft the context and goal description: what was decided and why, constraints, what the user prefers,
   patterns to keep to, what is done and what is open. Leave out what the files say themselves.

If the user input below is empty, describe the natural continuation of this conversation.
</instructions>

<user_input>
USER: $ARGUMENTS
</user_input>

---

After generating the handoff message, IMMEDIATELY call handoff_session with your prompt and files.
";

/// Returns the goal of a `/handoff` command, empty if it has none; `None` for any other text.
///
/// # Example: a goal, and another command
/// ```
/// use ttsr_agent::handoff::command;
/// assert_eq!(command("/handoff finish the parser"), Some("finish the parser"));
/// assert_eq!(command("/handoffs"), None);
/// ```
#[must_use]
pub fn command(text: &str) -> Option<&str> {
    let rest = text.trim().strip_prefix("/handoff")?;
    let is_whole_word = rest.is_empty() || rest.starts_with(char::is_whitespace);
    is_whole_word.then(|| rest.trim())
}

/// Returns the [`TEMPLATE`] with that goal. The goal is inserted as it is.
///
/// # Example: the prompt for the model
/// ```
/// let prompt = ttsr_agent::handoff::summary_prompt("finish the parser");
/// assert!(prompt.contains("USER: finish the parser"));
/// ```
#[must_use]
pub fn summary_prompt(goal: &str) -> String {
    TEMPLATE.replace("$ARGUMENTS", goal)
}

/// A step that shows a continuation prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DraftStep {
    /// Open a new session.
    OpenSession,
    /// Wait that long.
    Wait(Duration),
    /// Append the text to the prompt that is being edited.
    Append(String),
    /// Show a message.
    Toast {
        /// The text.
        text: &'static str,
        /// The time for which it is shown.
        lasts: Duration,
    },
}

impl DraftStep {
    /// Returns the steps by which the host shows the prompt of a handoff for editing, in order.
    ///
    /// # Example: a handoff that the model called for, as the user sees it
    /// ```
    /// use ttsr_agent::handoff::{DraftStep, Handoff};
    /// let input = r#"{"prompt": "Finish the parser.", "files": ["@src/parse.rs"]}"#;
    /// let handoff = Handoff::from_tool_input("ses_1", input)?;
    /// let draft = DraftStep::steps(&handoff);
    /// assert_eq!(draft[0], DraftStep::OpenSession);
    /// assert_eq!(draft[2], DraftStep::Append(handoff.prompt()));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn steps(handoff: &Handoff) -> [DraftStep; 4] {
        [
            DraftStep::OpenSession,
            // The input field of a new session appears with a delay.
            DraftStep::Wait(Duration::from_millis(150)),
            DraftStep::Append(handoff.prompt()),
            DraftStep::Toast {
                text: "Handoff Ready — Review and edit the draft, then send",
                lasts: Duration::from_secs(4),
            },
        ]
    }
}

impl Injection {
    /// Returns the files as a message of the conversation, to precede the prompt that refers to them.
    #[must_use]
    pub fn message(&self) -> Message {
        Message {
            role: Role::User,
            content: self.parts.clone(),
        }
    }
}

/// Content that is added to a session without requesting a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Injection {
    /// Two synthetic texts for each file.
    pub parts: Vec<Content>,
    /// The session's model, unchanged.
    pub model: String,
    /// The session's agent, unchanged.
    pub agent: String,
    /// Always true: the model replies to the user's message, not to the files.
    pub no_reply: bool,
}

/// A message that arrived in a session.
#[derive(Clone, Copy, Debug)]
pub struct IncomingMessage<'a> {
    /// The session's id.
    pub session: &'a str,
    /// The model that will reply.
    pub model: &'a str,
    /// The agent that will reply.
    pub agent: &'a str,
    /// The message.
    pub content: &'a [Content],
}

/// The most sessions that [`HandoffTracker`] tracks; past it the oldest one is dropped.
pub const MAX_SESSIONS: usize = 10_000;

/// The most bytes of files injected into one session. A file that would exceed it is omitted, with all files after it.
pub const MAX_INJECTED_BYTES: usize = 16 << 20;

/// The sessions whose files were injected for their continuation prompt.
///
/// # Example: files are injected once
/// ```
/// use std::{io, path::{Path, PathBuf}};
/// use ttsr::harness::Message;
/// use ttsr_agent::handoff::{IncomingMessage, FileSource, Handoff, HandoffTracker};
/// struct One;
/// impl FileSource for One {
///     fn resolve(&self, reference: &str) -> Option<PathBuf> {
///         (reference == "a.txt").then(|| "/project/a.txt".into())
///     }
///     fn read(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
///         Ok(b"one".to_vec())
///     }
/// }
/// let prompt = Message::user(Handoff::new("ses_1", "Go on.").files(["a.txt"]).prompt());
/// let content = &prompt.content;
/// let arrived = IncomingMessage { session: "ses_2", model: "large", agent: "build", content };
/// let mut handoffs = HandoffTracker::default();
/// let injection = handoffs.on_message(&arrived, &One).expect("it refers to a file");
/// assert_eq!(injection.parts.len(), 2);
/// assert_eq!(handoffs.on_message(&arrived, &One), None);
/// handoffs.deleted("ses_2");
/// assert!(handoffs.on_message(&arrived, &One).is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct HandoffTracker {
    processed: HashSet<String>,
    order: VecDeque<String>,
}

impl HandoffTracker {
    /// Handles a message that arrived; returns the files to inject, once per session.
    ///
    /// Synthetic text is ignored: only a [`HANDOFF_MARKER`] and references that the user sent count.
    pub fn on_message(
        &mut self,
        message: &IncomingMessage<'_>,
        files: &impl FileSource,
    ) -> Option<Injection> {
        if self.processed.contains(message.session) {
            return None;
        }
        let text = authored_text(message.content);
        if !text.contains(HANDOFF_MARKER) {
            return None;
        }
        self.remember(message.session);
        let parts = file_parts(&text, files);
        (!parts.is_empty()).then(|| Injection {
            parts,
            model: message.model.to_owned(),
            agent: message.agent.to_owned(),
            no_reply: true,
        })
    }

    /// Resumes a session of an earlier process: if its messages contain a continuation prompt, its files were injected
    /// with it, and are not injected again.
    pub fn resume_session(&mut self, session: &str, messages: &[Message]) {
        let mut users = messages.iter().filter(|message| message.role == Role::User);
        let had = users.any(|message| authored_text(&message.content).contains(HANDOFF_MARKER));
        if had && !self.processed.contains(session) {
            self.remember(session);
        }
    }

    /// Drops a deleted session.
    pub fn deleted(&mut self, session: &str) {
        if self.processed.remove(session) {
            self.order.retain(|other| other != session);
        }
    }

    fn remember(&mut self, session: &str) {
        if self.order.len() == MAX_SESSIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.processed.remove(&oldest);
        }
        self.processed.insert(session.to_owned());
        self.order.push_back(session.to_owned());
    }
}

/// Returns the text of a message without synthetic text.
fn authored_text(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|content| match content {
        Content::Text {
            text,
            synthetic: false,
        } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn file_parts(text: &str, files: &impl FileSource) -> Vec<Content> {
    let mut parts = Vec::new();
    let mut bytes = 0;
    for reference in file_references(text) {
        let Some(read) = read_part(files, reference) else {
            continue;
        };
        bytes += read.iter().map(String::len).sum::<usize>();
        if bytes > MAX_INJECTED_BYTES {
            break;
        }
        parts.extend(read.map(|text| Content::Text {
            text,
            synthetic: true,
        }));
    }
    parts
}
