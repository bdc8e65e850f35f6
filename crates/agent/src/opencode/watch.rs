//! Rules over the sessions of a server: notices in, observations and actions out.
//!
//! This module opens no connection and does not wait. It determines the [`ServerAction`] that a decision causes on a server that
//! other clients drive: stop the session, delete the message, steer, queue, or only report.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::time::Duration;

use super::server::{Prompt, ServerApi};
use crate::handoff::{Handoff, Injection};
use ttsr::harness::event::DecisionEvent;
use ttsr::harness::fallback::{ForegroundFallback, SessionEvent, error_text};
use ttsr::session::Session;
use ttsr::{Action, Channel, Decision, Event, Mode, Pack, PartId, Partial, Stream, Verdict};
use ttsr_wire::MALFORMED;
use ttsr_wire::opencode::{ServerError, ServerNotice, ToolStage, ToolState};

/// The most sessions watched at once; past it the least recently active one is dropped.
const MAX_SESSIONS: usize = 1024;

/// The most actions of a session that wait for the end of the reply; further ones are dropped.
const MAX_HELD: usize = 64;

/// The most tool calls, permission requests and parts joined midway that are kept for a reply.
const MAX_REMEMBERED: usize = 64;

/// An observation of the watcher, for its log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The event stream is open.
    Connected,
    /// The event stream broke, or could not be opened.
    Disconnected {
        /// The reason.
        why: String,
        /// The time until the next attempt, in milliseconds.
        retry_in_ms: u64,
    },
    /// The model begins a message.
    Message {
        /// The session.
        session: String,
        /// The message.
        message: String,
    },
    /// An event of the server could not be read. No rule saw what a model wrote in it.
    Malformed {
        /// Its length in bytes.
        bytes: u64,
    },
    /// A decision was made.
    Decision(WatchedDecision),
    /// An action begins.
    Started(ServerAction),
    /// The action was completed.
    Done(ServerAction),
    /// The action was not completed, because the user acted first.
    Yielded {
        /// The action.
        action: ServerAction,
        /// The action of the user.
        why: String,
    },
    /// The provider of a session refuses, and another model takes over (not in a dry run).
    Refused {
        /// The session.
        session: String,
        /// The provider and the model that take over.
        model: (String, String),
    },
    /// An action that an earlier process had begun is completed.
    Resumed(ServerAction),
    /// The journal cannot be read or written. Actions continue without it.
    NoJournal {
        /// The reason.
        why: String,
    },
    /// An action failed.
    Failed {
        /// The action.
        action: ServerAction,
        /// The reason.
        why: String,
    },
    /// A message is complete, or broke off.
    Finish {
        /// The session.
        session: String,
        /// The message.
        message: String,
        /// The reason that the server gave: `aborted`, `retry`, or the model's finish reason.
        reason: String,
        /// Bytes that rules could not read.
        unscanned: u64,
    },
    /// The model asks the user a question.
    Question {
        /// The session.
        session: String,
        /// The id of the question.
        question: String,
    },
}

/// A decision of a rule on a watched session, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchedDecision {
    /// The session.
    pub session: String,
    /// The message.
    pub message: String,
    /// The decision, with the server's name for its part.
    pub decision: DecisionEvent,
    /// The rule's message.
    pub text: String,
    /// True if the tool is already running; only later steps can be stopped.
    pub is_late: bool,
    /// True if the server cannot perform the action, so that it is only reported.
    pub is_unsupported: bool,
    /// True if the part was open when the watcher connected: `end` and `decided` count from the first byte received.
    pub is_midway: bool,
}

/// A change to make on the server.
///
/// # Example: the message that a host sends
/// ```
/// use ttsr_agent::opencode::{ServerAction, ServerApi, WatchEvent, SessionWatcher};
/// use ttsr_wire::opencode::OpenCodeReader;
/// use ttsr::{Pack, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-unwrap", vec![Pattern::literal(".unwrap()")]);
/// rule.message = Some("Use `?`.".into());
/// let mut watch = SessionWatcher::new(Pack::builder().rule(rule).build()?, ServerApi::Classic);
/// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"text","text":"x.unwrap()"}}}
///
/// data: {"type":"session.idle","properties":{"sessionID":"s"}}
///
/// "#;
/// let mut seen = Vec::new();
/// OpenCodeReader::default().push(body, &mut |session, notice| watch.notice(session, notice, &mut seen));
/// let Some(WatchEvent::Started(action)) = seen.last() else { panic!("the rule matches") };
/// assert_eq!(action.session(), "s");
/// match action {
///     ServerAction::Inject { prompt, .. } => assert!(prompt.is_aside && prompt.text.ends_with("Use `?`.")),
///     action => panic!("the reply is not stopped: {action:?}"),
/// }
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerAction {
    /// Stop the session.
    Stop(StopAction),
    /// Add a message to the conversation and let the model continue. This action is issued when a tool call of the reply
    /// makes another request certain, or when the session is idle, because a message that arrives during the last reply
    /// of a turn causes another reply.
    Inject {
        /// The session.
        session: String,
        /// The message.
        prompt: Prompt,
        /// The decision, for [`SessionWatcher::record_result`].
        decision: Decision,
    },
    /// Stop the session and send its last user message again, to another model.
    Switch {
        /// The session.
        session: String,
        /// The provider and the model.
        model: (String, String),
    },
    /// Open a new session in the terminal interface, with the continuation prompt as an editable draft.
    HandOver {
        /// The session that is continued.
        session: String,
        /// The handoff.
        handoff: Handoff,
        /// The directory of the session, if it is known.
        directory: Option<String>,
        /// The decision, for [`SessionWatcher::record_result`].
        decision: Decision,
    },
    /// Add the files that a continuation prompt refers to.
    AddFiles {
        /// The session.
        session: String,
        /// The files.
        injection: Injection,
    },
}

/// The stop of a session: stop it, then delete the message if `delete`, then send `steer` if there is one. Each step begins
/// when the previous one is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopAction {
    /// The session.
    pub session: String,
    /// The message in progress.
    pub message: String,
    /// True if the message is deleted, so that the model does not see it again. False if a tool call of the message has
    /// run: the message is the only record of the call.
    pub delete: bool,
    /// The prompt that steers the next attempt.
    pub steer: Option<Prompt>,
    /// The session that is prompted: this one, or for the session of a sub-agent its parent. A parent is prompted before
    /// the stop, so that its next request contains the prompt.
    pub to: String,
    /// True if a tool call of the message has run. The results of the calls are appended to `steer`.
    pub has_run: bool,
    /// The permission request of a tool call of the message. It is rejected after the stop.
    pub permission: Option<String>,
    /// The decision, for [`SessionWatcher::record_result`]; `None` for an action begun by an earlier process.
    pub decision: Option<Decision>,
}

impl ServerAction {
    /// Returns the session that the action is about.
    #[must_use]
    pub fn session(&self) -> &str {
        match self {
            ServerAction::Stop(StopAction { session, .. })
            | ServerAction::Inject { session, .. }
            | ServerAction::Switch { session, .. }
            | ServerAction::HandOver { session, .. }
            | ServerAction::AddFiles { session, .. } => session,
        }
    }

    fn decision(&self) -> Option<&Decision> {
        match self {
            ServerAction::Stop(stop) => stop.decision.as_ref(),
            ServerAction::Inject { decision, .. } | ServerAction::HandOver { decision, .. } => {
                Some(decision)
            }
            ServerAction::Switch { .. } | ServerAction::AddFiles { .. } => None,
        }
    }

    /// Returns the session that the action prompts.
    fn prompts(&self) -> Option<&str> {
        match self {
            ServerAction::Stop(StopAction { steer: None, .. }) | ServerAction::HandOver { .. } => {
                None
            }
            ServerAction::Stop(StopAction { to, .. }) => Some(to),
            _ => Some(self.session()),
        }
    }
}

/// The rules and their state for every session of a server.
///
/// # Example: a rule matches reasoning
/// ```
/// use ttsr_agent::opencode::{ServerAction, ServerApi, SessionWatcher, StopAction, WatchEvent};
/// use ttsr_wire::opencode::OpenCodeReader;
/// use ttsr::Pack;
/// let pack = Pack::from_toml(r#"
/// schema = 1
/// [pack]
/// name = "demo"
/// [rule.no-unwrap]
/// description = "Use `?`."
/// severity = "error"
/// on = ["text", "reasoning"]
/// match.any = [{ literal = ".unwrap()" }]
/// examples.match = ["x.unwrap()"]
/// "#)?;
/// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"reasoning","text":""}}}
///
/// data: {"type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"x.unwrap()"}}
///
/// "#;
/// let mut watch = SessionWatcher::new(pack, ServerApi::Classic);
/// let mut seen = Vec::new();
/// OpenCodeReader::default().push(body, &mut |session, notice| watch.notice(session, notice, &mut seen));
/// let Some(WatchEvent::Started(ServerAction::Stop(StopAction { message, delete, steer: Some(steer), .. }))) = seen.last() else {
///     panic!("the session is stopped");
/// };
/// assert_eq!((message.as_str(), *delete), ("m", true));
/// assert_eq!(steer.text, "demo/no-unwrap: Use `?`.");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Debug)]
pub struct SessionWatcher {
    pack: Pack,
    api: ServerApi,
    only: Option<String>,
    is_dry: bool,
    sessions: HashMap<String, WatchedSession>,
    /// The number of notices so far.
    clock: u64,
    /// The time of the next notice, by the host's clock.
    now: Duration,
    foreground: Option<ForegroundFallback>,
}

/// One session of the server.
#[derive(Debug)]
struct WatchedSession {
    session: Session,
    /// The session whose tool call opened this one.
    parent: Option<String>,
    directory: Option<String>,
    /// True if `parent` and `directory` are known, or were requested.
    is_description_requested: bool,
    /// The message that an action stops.
    stopping: Option<PendingStop>,
    /// The message that ended with an abort.
    aborted: Option<String>,
    /// The actions that wait for the end of the reply or for a tool call.
    held: Vec<ServerAction>,
    /// The unanswered permission requests, each with its call.
    permissions: VecDeque<(String, Option<String>)>,
    /// True if the next part that starts was open before its first event arrived.
    is_joining: bool,
    /// The reply in progress.
    reply: Option<WatchedReply>,
    /// The number of prompts of the watcher that the server did not report yet.
    own_prompts: u32,
    agent: Option<String>,
    model: Option<(String, String)>,
    /// The number of the last notice.
    last_notice: u64,
}

/// The events of a session that is being stopped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StopProgress {
    /// True if the message ended with an abort.
    pub(super) is_aborted: bool,
    /// The number of idle notices since the decision.
    pub(super) idles: u32,
    /// True if the session was opened by the tool call of another one.
    pub(super) is_child: bool,
}

#[derive(Debug)]
struct PendingStop {
    message: String,
    /// True if the session is prompted after the stop.
    steers: bool,
    /// The number of idle notices since the decision.
    idles: u32,
}

#[derive(Debug)]
struct WatchedReply {
    message: String,
    stream: Stream,
    /// In the order in which they opened, without parts over the limit of the stream.
    parts: Vec<WatchedPart>,
    /// The names of the parts, concatenated.
    names: String,
    /// The running checksums of the open parts.
    checksums: HashMap<PartId, crc32fast::Hasher>,
    unscanned: u64,
    /// The last tool calls, each with its part.
    calls: VecDeque<(PartId, String)>,
    /// The most recent parts that were open before their first event arrived.
    opened_midway: VecDeque<PartId>,
    /// True if the message has a tool call, so that the turn has another request.
    has_call: bool,
    /// True if a tool call of the message has begun to run.
    has_run: bool,
}

/// The state of a part that is kept until the end of the reply, in 24 bytes.
#[derive(Debug)]
struct WatchedPart {
    id: PartId,
    /// The end of its name in the names of all parts.
    name_ends: u32,
    /// The checksum of its content, once it is closed.
    sum: u32,
    /// The number of bytes as two halves, which need no padding.
    bytes: [u32; 2],
    channel: Channel,
}

impl WatchedPart {
    fn bytes(&self) -> u64 {
        u64::from(self.bytes[1]) << 32 | u64::from(self.bytes[0])
    }
}

impl WatchedReply {
    fn new(message: String, stream: Stream) -> WatchedReply {
        WatchedReply {
            message,
            stream,
            parts: Vec::new(),
            names: String::new(),
            checksums: HashMap::new(),
            unscanned: 0,
            calls: VecDeque::new(),
            opened_midway: VecDeque::new(),
            has_call: false,
            has_run: false,
        }
    }

    fn index_of(&self, id: PartId) -> Option<usize> {
        self.parts.iter().rposition(|part| part.id == id)
    }

    /// Returns the server's id of the part, or its number if that is not known.
    fn name(&self, id: PartId) -> String {
        let name = self.index_of(id).and_then(|index| {
            let before = index.checked_sub(1).map(|before| &self.parts[before]);
            let start = before.map_or(0, |before| before.name_ends as usize);
            self.names.get(start..self.parts[index].name_ends as usize)
        });
        name.map_or_else(|| id.0.to_string(), str::to_owned)
    }

    fn record_delta(&mut self, id: PartId, bytes: &[u8]) {
        let index = self.checksums.contains_key(&id).then(|| self.index_of(id));
        if let (Some(index), Some(sum)) = (index.flatten(), self.checksums.get_mut(&id)) {
            sum.update(bytes);
            let part = &mut self.parts[index];
            let delivered = part.bytes() + bytes.len() as u64;
            part.bytes = [delivered as u32, (delivered >> 32) as u32];
        }
    }

    fn close(&mut self, id: PartId) {
        // A part over the limit is not open, and a search for it would read all parts.
        if let Some(sum) = self.checksums.remove(&id)
            && let Some(index) = self.index_of(id)
        {
            self.parts[index].sum = sum.finalize();
        }
    }

    /// Opens a new part for a snapshot that differs from the delivered text, and returns it; `None` if they are equal.
    /// They differ if the server changed the text, or if the connection was lost in the middle of the part.
    fn reopen_for_snapshot(&mut self, id: PartId, bytes: &[u8]) -> Option<(PartId, Channel)> {
        // A part over the limit is not in the stream; see `close` for the search.
        self.stream.channel(id)?;
        let part = &self.parts[self.index_of(id)?];
        let open = self.checksums.get(&id);
        let sum = open.map_or(part.sum, |sum| sum.clone().finalize());
        let is_same = part.bytes() == bytes.len() as u64 && sum == crc32fast::hash(bytes);
        let (name, channel) = (self.name(id), part.channel);
        // The server's own parts are numbered from 0 up.
        let id = PartId(u32::MAX - u32::try_from(self.parts.len()).ok()?);
        (!is_same).then(|| {
            self.open(id, &name, channel);
            (id, channel)
        })
    }

    fn open(&mut self, id: PartId, name: &str, channel: Channel) {
        self.names.push_str(name);
        if self.parts.len() == self.parts.capacity() {
            // The capacity grows by an eighth and is not doubled: a reply can have very many parts.
            self.parts.reserve_exact(4.max(self.parts.len() / 8));
        }
        self.parts.push(WatchedPart {
            id,
            name_ends: u32::try_from(self.names.len()).unwrap_or(u32::MAX),
            sum: 0,
            bytes: [0; 2],
            channel,
        });
        self.checksums.insert(id, crc32fast::Hasher::new());
    }
}

impl SessionWatcher {
    /// Returns a watcher with these rules for the sessions that are driven through that interface.
    #[must_use]
    pub fn new(pack: Pack, api: ServerApi) -> SessionWatcher {
        SessionWatcher {
            pack,
            api,
            only: None,
            is_dry: false,
            sessions: HashMap::new(),
            clock: 0,
            now: Duration::ZERO,
            foreground: None,
        }
    }

    /// Enables fallback models: an [`ServerAction::Switch`] for each refusal that `foreground` detects. Models are named
    /// `provider/model`. Classic interface only.
    #[must_use]
    pub fn fallback(self, foreground: ForegroundFallback) -> SessionWatcher {
        SessionWatcher {
            foreground: Some(foreground),
            ..self
        }
    }

    /// Sets the time of the notices that follow, by any monotonic clock.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
    }

    /// Restricts the watcher to one session.
    #[must_use]
    pub fn only(self, session: impl Into<String>) -> SessionWatcher {
        SessionWatcher {
            only: Some(session.into()),
            ..self
        }
    }

    /// Reports decisions as suppressed and issues no actions.
    ///
    /// # Example: a dry run of one session
    /// ```
    /// use ttsr_agent::opencode::{ServerApi, WatchEvent, SessionWatcher};
    /// use ttsr_wire::opencode::OpenCodeReader;
    /// use ttsr::{Action, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-unwrap", vec![Pattern::literal(".unwrap()")]);
    /// rule.action = Action::Retry;
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"text","text":""}}}
    ///
    /// data: {"type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"x.unwrap()"}}
    ///
    /// "#;
    /// let seen = |only: &str| {
    ///     let mut watch = SessionWatcher::new(pack.clone(), ServerApi::Classic).only(only).dry_run();
    ///     let mut seen = Vec::new();
    ///     OpenCodeReader::default().push(body, &mut |session, notice| watch.notice(session, notice, &mut seen));
    ///     seen
    /// };
    /// assert!(seen("another").is_empty());
    /// let seen = seen("s");
    /// assert!(seen.iter().any(|it| matches!(it, WatchEvent::Decision(it) if it.decision.suppressed.as_deref() == Some("shadow"))));
    /// assert!(!seen.iter().any(|it| matches!(it, WatchEvent::Started(_))));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn dry_run(self) -> SessionWatcher {
        SessionWatcher {
            is_dry: true,
            ..self
        }
    }

    /// Handles a notice of a session; appends observations and actions to `out`.
    pub fn notice(&mut self, session: &str, notice: ServerNotice, out: &mut Vec<WatchEvent>) {
        if let ServerNotice::Event(Event::Unscanned { bytes, kind }) = &notice
            && MALFORMED.contains(&kind.as_str())
        {
            // The session of a damaged event is unknown.
            return out.push(WatchEvent::Malformed { bytes: *bytes });
        }
        if self.only.as_deref().is_some_and(|only| only != session) {
            return;
        }
        self.clock += 1;
        self.make_room(session);
        let (pack, is_dry, api) = (&self.pack, self.is_dry, self.api);
        let watched = self.sessions.entry(session.to_owned());
        let watched = watched.or_insert_with(|| WatchedSession::new(pack, is_dry));
        watched.last_notice = self.clock;
        let is_deleted = notice == ServerNotice::Deleted;
        let switch = match api {
            ServerApi::Classic => session_event(session, &notice)
                .and_then(|event| self.foreground.as_mut()?.see(self.now, &event)),
            ServerApi::Next => None,
        };
        let from = out.len();
        watched.on_notice(session, api, notice, out);
        if is_deleted {
            self.sessions.remove(session);
        }
        self.steer_parents(&mut out[from..]);
        let model = switch.and_then(|switch| {
            let (provider, model) = switch.model.split_once('/')?;
            Some((provider.to_owned(), model.to_owned()))
        });
        if let Some(model) = model {
            let session = session.to_owned();
            out.push(WatchEvent::Refused {
                session: session.clone(),
                model: model.clone(),
            });
            if !is_dry {
                out.push(WatchEvent::Started(ServerAction::Switch { session, model }));
            }
        }
        let prompted = out[from..].iter().filter_map(|seen| match seen {
            WatchEvent::Started(action) => action.prompts().map(str::to_owned),
            _ => None,
        });
        for session in prompted.collect::<Vec<_>>() {
            self.expect_prompt(&session);
        }
    }

    /// Announces that the watcher is about to prompt a session: that prompt begins no turn.
    pub(super) fn expect_prompt(&mut self, session: &str) {
        if let Some(watched) = self.sessions.get_mut(session) {
            watched.own_prompts += 1;
        }
    }

    /// Addresses the prompt for a stopped sub-agent to its parent, because nobody waits for the sub-agent's reply.
    fn steer_parents(&self, out: &mut [WatchEvent]) {
        for seen in out {
            let WatchEvent::Started(ServerAction::Stop(StopAction {
                session, steer, to, ..
            })) = seen
            else {
                continue;
            };
            let watched = self.sessions.get(session.as_str());
            let (Some(watched), Some(prompt)) = (watched, steer) else {
                continue;
            };
            let Some(parent) = &watched.parent else {
                continue;
            };
            let agent = watched.agent.as_deref().unwrap_or("sub-agent");
            let text = mem::take(&mut prompt.text);
            let known = self.sessions.get(parent);
            *prompt = Prompt {
                text: format!("The agent `{agent}` in the session {session} was stopped: {text}"),
                agent: known.and_then(|known| known.agent.clone()),
                model: known.and_then(|known| known.model.clone()),
                is_aside: false,
            };
            to.clone_from(parent);
        }
    }

    /// Returns true once for a session that was created before the first event arrived and whose description must be
    /// requested.
    pub(super) fn wants_description(&mut self, session: &str) -> bool {
        let watched = self.sessions.get_mut(session);
        watched.is_some_and(|watched| {
            watched.reply.is_some() && !mem::replace(&mut watched.is_description_requested, true)
        })
    }

    pub(super) fn describe(
        &mut self,
        session: &str,
        parent: Option<String>,
        directory: Option<String>,
    ) {
        if let Some(watched) = self.sessions.get_mut(session) {
            watched.parent = parent.or(watched.parent.take());
            watched.directory = directory.or(watched.directory.take());
        }
    }

    /// Returns the agent and the model that the user addressed last, and the directory.
    pub(super) fn described(
        &self,
        session: &str,
    ) -> (Option<String>, Option<(String, String)>, Option<String>) {
        match self.sessions.get(session) {
            Some(known) => (
                known.agent.clone(),
                known.model.clone(),
                known.directory.clone(),
            ),
            None => (None, None, None),
        }
    }

    /// Returns the events of the session since the stop of `message` was decided.
    pub(super) fn stop_progress(&self, session: &str, message: &str) -> StopProgress {
        let Some(watched) = self.sessions.get(session) else {
            return StopProgress::default();
        };
        let stopping = watched.stopping.as_ref();
        let stopping = stopping.filter(|stopping| stopping.message == message);
        StopProgress {
            is_aborted: watched.aborted.as_deref() == Some(message),
            idles: stopping.map_or(0, |stopping| stopping.idles),
            is_child: watched.parent.is_some(),
        }
    }

    pub(super) fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// Reports the outcome of an action to the policy.
    ///
    /// # Example: a message that did not arrive is sent again
    /// ```
    /// use ttsr_agent::opencode::{ServerAction, ServerApi, WatchEvent, SessionWatcher};
    /// use ttsr_wire::opencode::OpenCodeReader;
    /// use ttsr::{Pack, Pattern, Rule};
    /// let rule = Rule::new("demo/no-unwrap", vec![Pattern::literal(".unwrap()")]);
    /// let mut watch = SessionWatcher::new(Pack::builder().rule(rule).build()?, ServerApi::Classic);
    /// let mut actions = |watch: &mut SessionWatcher, message: &str| {
    ///     let body = format!(
    ///         r#"data: {{"type":"message.part.updated","properties":{{"sessionID":"s","part":{{"id":"p{message}","messageID":"{message}","type":"text","text":"x.unwrap()"}}}}}}"#
    ///     ) + "\n\ndata: {\"type\":\"session.idle\",\"properties\":{\"sessionID\":\"s\"}}\n\n";
    ///     let mut seen = Vec::new();
    ///     let mut feed = OpenCodeReader::default();
    ///     feed.push(body.as_bytes(), &mut |session, notice| watch.notice(session, notice, &mut seen));
    ///     let action = |seen: WatchEvent| if let WatchEvent::Started(action) = seen { Some(action) } else { None };
    ///     seen.into_iter().filter_map(action).collect::<Vec<ServerAction>>()
    /// };
    /// let first = actions(&mut watch, "m1");
    /// watch.record_result(&first[0], false);
    /// let second = actions(&mut watch, "m2");
    /// watch.record_result(&second[0], true);
    /// assert!(actions(&mut watch, "m3").is_empty(), "the message was delivered");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn record_result(&mut self, action: &ServerAction, is_done: bool) {
        if let (false, Some(prompted)) = (is_done, action.prompts())
            && let Some(watched) = self.sessions.get_mut(prompted)
        {
            watched.own_prompts = watched.own_prompts.saturating_sub(1);
        }
        let Some(watched) = self.sessions.get_mut(action.session()) else {
            return;
        };
        if let ServerAction::Stop(StopAction { message, .. }) = action {
            watched
                .stopping
                .take_if(|stopping| stopping.message == *message);
        }
        match (action.decision(), is_done) {
            (Some(decision), true) => watched.session.mark_delivered(decision),
            (Some(decision), false) => watched.session.mark_dropped(decision),
            (None, _) => {}
        }
    }

    fn make_room(&mut self, session: &str) {
        if self.sessions.len() < MAX_SESSIONS || self.sessions.contains_key(session) {
            return;
        }
        let quietest = self
            .sessions
            .iter()
            .min_by_key(|(_, watched)| watched.last_notice);
        let quietest = quietest.map(|(id, _)| id.clone());
        quietest.map(|id| self.sessions.remove(&id));
    }
}

impl WatchedSession {
    fn new(pack: &Pack, is_dry: bool) -> WatchedSession {
        let mut session = pack.session();
        if is_dry {
            session.set_mode(Mode::Shadow);
        }
        // The turn in progress, if there is one, began before the watcher connected.
        session.begin_turn();
        WatchedSession {
            session,
            parent: None,
            directory: None,
            is_description_requested: false,
            stopping: None,
            aborted: None,
            held: Vec::new(),
            permissions: VecDeque::new(),
            is_joining: false,
            reply: None,
            own_prompts: 0,
            agent: None,
            model: None,
            last_notice: 0,
        }
    }

    fn on_notice(
        &mut self,
        id: &str,
        api: ServerApi,
        notice: ServerNotice,
        out: &mut Vec<WatchEvent>,
    ) {
        match notice {
            ServerNotice::Prompt { agent, model, .. } => self.on_prompt(agent, model),
            ServerNotice::Message(message) => {
                self.reply = Some(WatchedReply::new(message.clone(), self.session.stream()));
                out.push(WatchEvent::Message {
                    session: id.to_owned(),
                    message,
                });
            }
            ServerNotice::Event(event) => self.event(id, api, event, out),
            ServerNotice::Question { id: question, .. } => out.push(WatchEvent::Question {
                session: id.to_owned(),
                question,
            }),
            ServerNotice::Tool(state) => self.on_tool_state(&state, out),
            ServerNotice::Joined => self.is_joining = true,
            ServerNotice::Created {
                parent,
                agent,
                directory,
            } => {
                self.is_description_requested = true;
                self.parent = parent;
                self.directory = directory;
                self.agent = agent.or(self.agent.take());
            }
            ServerNotice::Permission { id, call } => {
                push_bounded(&mut self.permissions, (id, call))
            }
            ServerNotice::PermissionClosed(id) => self.permission_closed(&id),
            ServerNotice::Answer {
                message,
                error: Some(error),
                ..
            } if error.is_abort() => self.aborted = Some(message),
            ServerNotice::Idle | ServerNotice::IdleAgain => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.idles += 1;
                }
                // A steered session continues: queued actions do not wait for the end of the stopped reply.
                if !self.stopping.as_ref().is_some_and(|it| it.steers) {
                    self.release(out);
                }
            }
            _ => {}
        }
    }

    /// Records the state of a tool call. A call that does not wait for a permission has begun to run.
    fn on_tool_state(&mut self, state: &ToolState, out: &mut Vec<WatchEvent>) {
        let is_waiting = self.permission_for(&state.call).is_some();
        if let Some(reply) = &mut self.reply {
            reply.has_call = true;
            reply.has_run |= state.stage != ToolStage::Pending && !is_waiting;
        }
        self.release(out);
    }

    /// Returns the permission request of that call.
    fn permission_for(&self, call: &str) -> Option<&str> {
        let of_call = |(_, of): &&(String, Option<String>)| of.as_deref() == Some(call);
        self.permissions.iter().find(of_call).map(|(id, _)| &**id)
    }

    /// Records the answer to a permission request: its call may run from now on.
    fn permission_closed(&mut self, id: &str) {
        let Some(closed) = self.permissions.iter().position(|(known, _)| known == id) else {
            return;
        };
        let closed = self.permissions.remove(closed);
        if let (Some(reply), Some((_, Some(_)))) = (&mut self.reply, closed) {
            reply.has_run = true;
        }
    }

    /// Issues the queued actions.
    fn release(&mut self, out: &mut Vec<WatchEvent>) {
        out.extend(self.held.drain(..).map(WatchEvent::Started));
    }

    fn hold(&mut self, action: ServerAction) {
        match (self.held.len() < MAX_HELD, action.decision()) {
            (false, Some(decision)) => self.session.mark_dropped(decision),
            _ => self.held.push(action),
        }
    }

    /// Records a user prompt: it begins a turn, unless the watcher sent it.
    fn on_prompt(&mut self, agent: Option<String>, model: Option<(String, String)>) {
        match self.own_prompts {
            0 => self.session.begin_turn(),
            _ => self.own_prompts -= 1,
        }
        self.agent = agent.or(self.agent.take());
        self.model = model.or(self.model.take());
    }

    fn event(&mut self, id: &str, api: ServerApi, event: Event, out: &mut Vec<WatchEvent>) {
        let Some(reply) = &mut self.reply else {
            return;
        };
        let session = &mut self.session;
        let verdict = match event {
            Event::PartStart {
                part,
                name,
                channel,
                tool,
                call,
            } => {
                if mem::take(&mut self.is_joining) {
                    push_bounded(&mut reply.opened_midway, part);
                }
                if let Some(call) = &call {
                    push_bounded(&mut reply.calls, (part, call.clone()));
                }
                let opened = session.open(&mut reply.stream, part, channel);
                let is_read = reply.stream.channel(part).is_some();
                if is_read || opened != Verdict::Continue {
                    reply.open(part, &name, channel);
                }
                let call = call.as_deref().unwrap_or_default();
                match tool {
                    Some(tool) if opened == Verdict::Continue => {
                        session.set_tool(&mut reply.stream, part, &tool, call)
                    }
                    _ => opened,
                }
            }
            Event::Tool { part, tool, call } => {
                let call = call.as_deref().unwrap_or_default();
                session.set_tool(&mut reply.stream, part, &tool, call)
            }
            Event::Outcome { part, outcome } => {
                reply.stream.set_outcome(part, outcome);
                return;
            }
            Event::Delta { part, bytes } => {
                reply.record_delta(part, &bytes);
                session.push(&mut reply.stream, part, &bytes)
            }
            Event::Snapshot { part, bytes } => match reply.reopen_for_snapshot(part, &bytes) {
                Some((reopened, channel)) => {
                    let opened = session.open(&mut reply.stream, reopened, channel);
                    match opened {
                        Verdict::Continue => session.push(&mut reply.stream, reopened, &bytes),
                        _ => opened,
                    }
                }
                None => return,
            },
            Event::PartEnd { part } => {
                reply.close(part);
                session.close(&mut reply.stream, part)
            }
            Event::Unscanned { bytes, .. } => {
                reply.unscanned += bytes;
                return;
            }
            Event::Restart => {
                let message = mem::take(&mut reply.message);
                *reply = WatchedReply {
                    unscanned: reply.unscanned,
                    ..WatchedReply::new(message, session.stream())
                };
                return;
            }
            Event::Finish { reason } => return self.finish(id, api, reason, out),
            Event::Usage { .. } | Event::Error { .. } => return,
        };
        if verdict != Verdict::Continue || !self.session.decisions().is_empty() {
            self.report_decisions(id, api, out);
        }
    }

    fn finish(&mut self, id: &str, api: ServerApi, reason: String, out: &mut Vec<WatchEvent>) {
        let Some(reply) = &mut self.reply else {
            return;
        };
        if reason == "aborted" {
            self.aborted = Some(reply.message.clone());
        }
        let has_next = reason == "tool-calls";
        // A reply that broke off is not judged as a whole.
        if !matches!(reason.as_str(), "aborted" | "retry" | "truncated" | "error") {
            let verdict = self.session.finish(&mut reply.stream);
            if verdict != Verdict::Continue || !self.session.decisions().is_empty() {
                self.report_decisions(id, api, out);
            }
        }
        if let Some(reply) = self.reply.take() {
            out.push(WatchEvent::Finish {
                session: id.to_owned(),
                message: reply.message,
                reason,
                unscanned: reply.unscanned + reply.stream.counters().unscanned_bytes,
            });
        }
        // The second interface does not report idle sessions: a turn ends with its last step.
        if api == ServerApi::Next && !has_next {
            self.release(out);
        }
    }

    /// Reports the decisions of the session's last call, and issues or queues their actions.
    fn report_decisions(&mut self, id: &str, api: ServerApi, out: &mut Vec<WatchEvent>) {
        let Some(reply) = &self.reply else {
            return;
        };
        let decisions = self.session.decisions().to_vec();
        // One action that cuts replaces all other actions that cut.
        let is_live = |decision: &&Decision| !decision.is_suppressed();
        let cut = decisions
            .iter()
            .filter(is_live)
            .find(|decision| decision.action.cuts());
        let mut actions = Vec::new();
        let has_call = reply.has_call;
        for decision in &decisions {
            let judged = self.describe_decision(id, api, reply, decision);
            let is_silent = judged.decision.is_suppressed() || judged.is_unsupported;
            out.push(WatchEvent::Decision(judged));
            match (is_silent, decision.action) {
                (true, _) => {}
                (false, Action::Inject) => actions.push(self.inject(id, reply, decision)),
                (false, Action::Handoff) => actions.push(self.hand_over(id, reply, decision)),
                (false, _) if Some(decision) == cut => {
                    actions.push(self.stop(id, api, reply, decision));
                }
                (false, _) => {}
            }
        }
        for action in actions {
            match &action {
                ServerAction::Stop(StopAction { message, steer, .. }) => {
                    self.stopping = Some(PendingStop {
                        message: message.clone(),
                        steers: steer.is_some(),
                        idles: 0,
                    });
                }
                ServerAction::Inject { .. } if !has_call => {
                    self.hold(action);
                    continue;
                }
                ServerAction::HandOver { .. } => {
                    self.hold(action);
                    continue;
                }
                _ => {}
            }
            out.push(WatchEvent::Started(action));
        }
        for decision in &decisions {
            if matches!(decision.action, Action::Warn | Action::Observe) {
                self.session.mark_delivered(decision);
            }
        }
    }

    fn inject(&self, id: &str, reply: &WatchedReply, decision: &Decision) -> ServerAction {
        let text = reply.stream.message(decision);
        ServerAction::Inject {
            session: id.to_owned(),
            prompt: Prompt {
                is_aside: true,
                ..self.prompt(text)
            },
            decision: *decision,
        }
    }

    fn hand_over(&self, id: &str, reply: &WatchedReply, decision: &Decision) -> ServerAction {
        ServerAction::HandOver {
            session: id.to_owned(),
            handoff: Handoff::new(id, reply.stream.message(decision)),
            directory: self.directory.clone(),
            decision: *decision,
        }
    }

    fn stop(
        &self,
        id: &str,
        api: ServerApi,
        reply: &WatchedReply,
        decision: &Decision,
    ) -> ServerAction {
        let rule = reply.stream.rule(decision);
        let partial = rule.map_or(Partial::Discard, |rule| rule.partial);
        let text = reply.stream.message(decision);
        let steers = decision.action == Action::Retry && !text.is_empty();
        let has_run = api == ServerApi::Classic && reply.has_run;
        let mut calls = reply.calls.iter();
        let permission = calls.find_map(|(_, call)| self.permission_for(call));
        ServerAction::Stop(StopAction {
            session: id.to_owned(),
            message: reply.message.clone(),
            // A message cannot be shortened from outside: if a part of it must not stay, the whole message is deleted.
            // After a tool call has run, the message is kept as its record.
            delete: api == ServerApi::Classic && partial != Partial::Keep && !has_run,
            steer: steers.then(|| self.prompt(text)),
            to: id.to_owned(),
            has_run,
            permission: permission.map(str::to_owned),
            decision: Some(*decision),
        })
    }

    /// Returns a prompt to the agent and the model that the user addressed last.
    fn prompt(&self, text: String) -> Prompt {
        Prompt {
            text,
            agent: self.agent.clone(),
            model: self.model.clone(),
            is_aside: false,
        }
    }
}

impl WatchedSession {
    fn describe_decision(
        &self,
        id: &str,
        api: ServerApi,
        reply: &WatchedReply,
        decision: &Decision,
    ) -> WatchedDecision {
        let stream = &reply.stream;
        let part = decision.part();
        let channel = stream.channel(part);
        let mut calls = reply.calls.iter();
        let is_waiting = calls.any(|(of, call)| *of == part && self.permission_for(call).is_some());
        WatchedDecision {
            session: id.to_owned(),
            message: reply.message.clone(),
            decision: DecisionEvent::new(decision, stream, reply.name(part)),
            text: stream.message(decision),
            is_late: api == ServerApi::Classic
                && channel == Some(Channel::ToolInput)
                && !is_waiting,
            is_unsupported: !can_act(decision.action, api),
            is_midway: reply.opened_midway.contains(&part),
        }
    }
}

/// Appends to a bounded list of the most recent items.
fn push_bounded<T>(last: &mut VecDeque<T>, one: T) {
    if last.len() >= MAX_REMEMBERED {
        last.pop_front();
    }
    last.push_back(one);
}

/// Returns true if an action has an effect from outside. `warn` and `observe` have one: they are reported.
pub(super) fn can_act(action: Action, api: ServerApi) -> bool {
    match action {
        Action::Inject | Action::Warn | Action::Observe => true,
        Action::Handoff => api == ServerApi::Classic,
        action => action.cuts(),
    }
}

/// Converts a notice for [`ForegroundFallback`].
fn session_event(session: &str, notice: &ServerNotice) -> Option<SessionEvent> {
    let session = session.to_owned();
    let text = |error: &ServerError| {
        let text = format!("{}: {}", error.kind, error.message);
        error_text(&text, error.status)
    };
    Some(match notice {
        ServerNotice::Answer {
            agent,
            model,
            error,
            ..
        } => SessionEvent::MessageUpdated {
            session,
            agent: agent.clone(),
            model: model
                .as_ref()
                .map(|(provider, model)| format!("{provider}/{model}")),
            error: error.as_ref().map(text),
        },
        ServerNotice::SessionError(error) => SessionEvent::Error {
            session,
            error: text(error),
        },
        ServerNotice::Retrying { message } => SessionEvent::Status {
            session,
            message: message.clone(),
        },
        ServerNotice::Created {
            agent: Some(agent), ..
        } => SessionEvent::SubagentCreated {
            session,
            agent: agent.clone(),
        },
        ServerNotice::Deleted => SessionEvent::Deleted { session },
        ServerNotice::Idle => SessionEvent::Idle { session },
        _ => return None,
    })
}
