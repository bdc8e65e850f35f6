//! The tools `handoff_session` and `read_session` of an [`AgentTurn`](ttsr::harness::AgentTurn).

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::future::{Future, ready};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use super::transcript::{DEFAULT_LIMIT, MAX_LIMIT};
use super::{Handoff, ReadSession, TranscriptMessage};
use crate::store::{Entry, StoreReader, StoredItem};
use ttsr::harness::Tool;
use ttsr::harness::{ToolCall, ToolFuture, ToolOutput, Tools};

/// The name of the tool by which a model hands over.
pub const HANDOFF_SESSION: &str = "handoff_session";

/// The name of the tool by which a model reads an earlier session.
pub const READ_SESSION: &str = "read_session";

/// The result of a call of `handoff_session`.
const READY: &str = "The handoff is ready. When this turn is over a new session opens with it as a draft, which the user \
                     reviews, edits and sends.";

/// Returns the definitions of `handoff_session` and `read_session`.
///
/// # Example: the schemas of the inputs
/// ```
/// let [hand_over, read] = ttsr_agent::handoff::definitions();
/// assert_eq!(hand_over.input["required"], serde_json::json!(["prompt"]));
/// assert_eq!(read.input["properties"]["limit"]["type"], "number");
/// ```
#[must_use]
pub fn definitions() -> [Tool; 2] {
    [
        Tool {
            name: HANDOFF_SESSION.to_owned(),
            description: "Creates a new session with the handoff prompt as an editable draft.".to_owned(),
            input: json!({
                "type": "object", "additionalProperties": false, "required": ["prompt"],
                "properties": {
                    "prompt": {"type": "string", "description": "The generated handoff prompt."},
                    "files": {
                        "type": "array", "items": {"type": "string"},
                        "description": "Paths of the files to load into the new session, relative to the project folder.",
                    },
                },
            }),
        },
        Tool {
            name: READ_SESSION.to_owned(),
            description: "Reads the conversation of an earlier session. Use it when the handoff lacks specific information.".to_owned(),
            input: json!({
                "type": "object", "additionalProperties": false, "required": ["sessionID"],
                "properties": {
                    "sessionID": {"type": "string", "description": "The full id of the session."},
                    "limit": {
                        "type": "number", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
                        "description": "Most messages to read; the most recent ones are shown.",
                    },
                },
            }),
        },
    ]
}

/// The messages of a session, or the reason why it cannot be read.
pub type TranscriptFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<TranscriptMessage>, String>> + Send + 'a>>;

/// A source of earlier sessions, such as files or a server.
pub trait Transcripts: Send + Sync {
    /// Returns the last messages of a session, oldest first, at most `most`; or the reason why it cannot be read,
    /// worded for the model. The model chooses the id, so it may be any text.
    fn recent<'a>(&'a self, session: &'a str, most: usize) -> TranscriptFuture<'a>;
}

/// The sessions in a folder: the session `talk` is the file `talk.ttsr`, or else `talk`, of a
/// [`Store`](crate::store::Store).
///
/// # Example: the last message
/// ```
/// use ttsr::harness::Message;
/// use ttsr_agent::handoff::StoredSessions;
/// use ttsr_agent::store::{Entry, Store};
/// let folder = std::env::temp_dir().join(format!("ttsr-stored-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let (mut store, _) = Store::open(folder.join("talk.ttsr"))?;
/// let says = |text: &str| Entry::Message { message: Message::user(text) };
/// store.append(vec![says("Mend it."), says("And test it.")])?;
/// let sessions = StoredSessions::new(&folder);
/// let said = sessions.read("talk", 1)?;
/// assert_eq!(said.len(), 1);
/// assert!(sessions.read("../talk", 1).is_err());
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoredSessions {
    folder: PathBuf,
}

impl StoredSessions {
    /// Returns the sessions in that folder.
    pub fn new(folder: impl Into<PathBuf>) -> StoredSessions {
        StoredSessions {
            folder: folder.into(),
        }
    }

    fn open(&self, session: &str) -> Option<File> {
        // A name that is empty, `..` or has separators would lead outside the folder.
        let is_name = Path::new(session)
            .file_name()
            .is_some_and(|name| name == session);
        let names = is_name.then(|| [format!("{session}.ttsr"), session.to_owned()]);
        let mut paths = names
            .into_iter()
            .flatten()
            .map(|name| self.folder.join(name));
        File::open(paths.find(|path| path.is_file())?).ok()
    }

    /// Returns the last messages of a session, oldest first, at most `most`. The file is neither locked nor changed, so
    /// the session may be in use. Damaged records are omitted.
    ///
    /// # Errors
    /// If there is no such session, or its file has another format or cannot be read.
    pub fn read(&self, session: &str, most: usize) -> Result<Vec<TranscriptMessage>, String> {
        let file = self.open(session).ok_or("there is no such session")?;
        let reader =
            StoreReader::new(std::io::BufReader::new(file)).map_err(|error| error.to_string())?;
        let mut recent = VecDeque::new();
        for piece in reader {
            let StoredItem::Record(record) = piece.map_err(|error| error.to_string())? else {
                continue;
            };
            for entry in record.entries {
                if let Entry::Message { message } = entry
                    && let Some(said) = TranscriptMessage::from_message(&message)
                {
                    recent.push_back(said);
                    if recent.len() > most {
                        recent.pop_front();
                    }
                }
            }
        }
        Ok(recent.into())
    }
}

impl Transcripts for StoredSessions {
    fn recent<'a>(&'a self, session: &'a str, most: usize) -> TranscriptFuture<'a> {
        Box::pin(ready(self.read(session, most)))
    }
}

/// A tool set extended by `handoff_session` and `read_session`.
///
/// A call of `handoff_session` does not open a session during the turn: after the turn the host calls
/// [`take_handoff`](Self::take_handoff) and carries out the steps of its [draft](super::DraftStep::steps). Calls from the
/// sessions of sub-agents may read sessions, but may not hand over.
///
/// # Example: a model hands over
/// ```
/// use ttsr::Pack;
/// use ttsr_agent::handoff::{HandoffTools, StoredSessions, summary_prompt};
/// use ttsr::harness::{
///     Cancel, Hooks, Message, NoTools, Processor, Request, Scripted, ScriptedReply, Settings, AgentTurn,
/// };
/// let input = r#"{"prompt": "Finish the parser.", "files": ["src/parse.rs"]}"#;
/// let mut provider = Scripted::new([
///     ScriptedReply::default().tool("handoff_session", "call_1", input).finish("tool_use"),
///     ScriptedReply::default().text("Handed over.").finish("stop"),
/// ]);
/// let settings = Settings { session: "talk".into(), ..Settings::default() };
/// let mut processor = Processor::new(&Pack::builder().build()?, Hooks::default(), settings);
/// let (others, sessions) = (NoTools, StoredSessions::new("."));
/// let mut tools = HandoffTools::new("talk", &others, &sessions);
/// let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
/// let prompt = Message::user(summary_prompt("finish the parser"));
/// let request = Request::new("a-model", vec![prompt]);
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// runtime.block_on(turn.run(request, "msg", &mut |_| {}));
/// let handoff = tools.take_handoff().expect("the model called the tool");
/// assert!(handoff.prompt().ends_with("@src/parse.rs\n\nFinish the parser."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HandoffTools<'a> {
    session: String,
    others: &'a dyn Tools,
    transcripts: &'a dyn Transcripts,
    handoff: Mutex<Option<Handoff>>,
}

impl<'a> HandoffTools<'a> {
    /// Returns the tools of that session.
    pub fn new(
        session: impl Into<String>,
        others: &'a dyn Tools,
        transcripts: &'a dyn Transcripts,
    ) -> HandoffTools<'a> {
        HandoffTools {
            session: session.into(),
            others,
            transcripts,
            handoff: Mutex::default(),
        }
    }

    /// Takes the last handoff that the model called for.
    pub fn take_handoff(&mut self) -> Option<Handoff> {
        self.handoff
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn hand_over(&self, call: &ToolCall) -> ToolOutput {
        if call.session != self.session {
            return ToolOutput::error("a sub-agent cannot hand over the session it works for");
        }
        match Handoff::from_tool_input(&self.session, &call.input) {
            Ok(handoff) => {
                *self.handoff.lock().unwrap_or_else(PoisonError::into_inner) = Some(handoff);
                ToolOutput::output(READY)
            }
            Err(error) => ToolOutput::error(format!("the input of the tool is wrong: {error}")),
        }
    }

    async fn read(&self, call: &ToolCall) -> ToolOutput {
        let read = match ReadSession::from_tool_input(&call.input) {
            Ok(read) => read,
            Err(error) => {
                return ToolOutput::error(format!("the input of the tool is wrong: {error}"));
            }
        };
        let recent = self.transcripts.recent(read.session(), read.limit() + 1);
        let recent = recent.await;
        let failed = recent.is_err();
        let shown = read.transcript(|_, _| recent);
        match failed {
            true => ToolOutput::error(shown),
            false => ToolOutput::output(shown),
        }
    }
}

impl Tools for HandoffTools<'_> {
    fn tools(&self) -> Vec<Tool> {
        let mut tools = self.others.tools();
        tools.extend(definitions());
        tools
    }

    fn is_concurrent(&self, tool: &str) -> bool {
        match tool {
            HANDOFF_SESSION => false,
            READ_SESSION => true,
            _ => self.others.is_concurrent(tool),
        }
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        match call.tool.as_str() {
            HANDOFF_SESSION => Box::pin(ready(self.hand_over(call))),
            READ_SESSION => Box::pin(self.read(call)),
            _ => self.others.call(call),
        }
    }
}

impl fmt::Debug for HandoffTools<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoffTools")
            .field("session", &self.session)
            .field("handoff", &self.handoff)
            .finish_non_exhaustive()
    }
}
