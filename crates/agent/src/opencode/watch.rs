//! Rules against what a server's sessions write: notices in, what was seen and what is to be done out.
//!
//! It opens no connection and waits for nothing. What a decision becomes on a server that others drive is
//! settled here: stop, delete, steer, put aside, or only tell.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::time::Duration;

use super::server::{Api, Prompt};
use crate::handoff::{Handoff, Injection};
use ttsr::harness::fallback::{Foreground, SessionEvent, error_text};
use ttsr::{
    Action, Channel, Decision, Event, Mode, Pack, PartId, Partial, Session, Stream, Verdict,
};
use ttsr_wire::MALFORMED;
use ttsr_wire::opencode::{Notice, Stage, ToolState, Trouble};

/// Most sessions watched at once; past it the one that was quiet for longest is forgotten.
const SESSIONS: usize = 1024;

/// Most acts of a session that wait for the end of the reply; further ones are dropped.
const HELD: usize = 64;

/// Most tool calls, permission requests and parts joined midway that are remembered of a reply.
const REMEMBERED: usize = 64;

/// Something worth telling.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Seen {
    /// The event stream is open.
    Connected,
    /// The event stream broke, or could not be opened.
    Disconnected {
        /// Why.
        why: String,
        /// In how many milliseconds it is tried again.
        again_in: u64,
    },
    /// The model begins to write.
    Message {
        /// The session.
        session: String,
        /// The message.
        message: String,
    },
    /// An event of the server could not be read. Whatever a model wrote in it was held against no rule.
    Malformed {
        /// How long it was.
        bytes: u64,
    },
    /// A decision was made.
    Judged(Judged),
    /// Something is done about it.
    Act(Act),
    /// It was done.
    Done(Act),
    /// It was not done, or not all of it: the user acted first.
    Yielded {
        /// The act.
        act: Act,
        /// What the user did.
        why: String,
    },
    /// The provider of a session refuses, and another model takes over (not in a dry run).
    Refused {
        /// The session.
        session: String,
        /// The provider and the model that take over.
        model: (String, String),
    },
    /// An act that an earlier run of the watcher had begun is completed.
    Resumed(Act),
    /// The journal cannot be read or written. Acts go on without it.
    NoJournal {
        /// The reason.
        why: String,
    },
    /// It could not be done.
    Failed {
        /// What.
        act: Act,
        /// Why not.
        why: String,
    },
    /// A message is complete, or broke off.
    Finish {
        /// The session.
        session: String,
        /// The message.
        message: String,
        /// Why it ended, as the server says it: `aborted`, `retry`, or the model's reason.
        reason: String,
        /// Bytes that rules could not read.
        unscanned: u64,
    },
    /// The model asks its user something.
    Question {
        /// The session.
        session: String,
        /// The question.
        question: String,
    },
}

/// A decision, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judged {
    /// The session.
    pub session: String,
    /// The message.
    pub message: String,
    /// The part, as the server calls it.
    pub part: String,
    /// What kind of part it is.
    pub channel: Option<Channel>,
    /// The tool's name.
    pub tool: Option<String>,
    /// The full id of the rule, if one was broken.
    pub rule: Option<String>,
    /// The limit that was reached, if none was.
    pub limit: Option<String>,
    /// What the rule wants.
    pub action: Action,
    /// The end of the match, in bytes of the part.
    pub end: Option<u64>,
    /// Bytes of the part that had come.
    pub decided: u64,
    /// The turn, from 1.
    pub turn: u32,
    /// Why the policy keeps it silent, if it does.
    pub suppressed: Option<&'static str>,
    /// The rule's message.
    pub text: String,
    /// The tool runs already: stopping what follows is all that can be done.
    pub is_late: bool,
    /// There is no way to do this from outside; it is only told.
    pub is_beyond: bool,
    /// The part was already being written when the watcher connected: `end` and `decided` count from the first
    /// byte that it received.
    pub is_midway: bool,
}

/// Something to be done on the server.
///
/// # Example: what a host sends
/// ```
/// use ttsr_agent::opencode::{Act, Api, Seen, Watch};
/// use ttsr_wire::opencode::Feed;
/// use ttsr::{Pack, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-unwrap", vec![Pattern::literal(".unwrap()")]);
/// rule.message = Some("Use `?`.".into());
/// let mut watch = Watch::new(Pack::builder().rule(rule).build()?, Api::Classic);
/// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"text","text":"x.unwrap()"}}}
///
/// data: {"type":"session.idle","properties":{"sessionID":"s"}}
///
/// "#;
/// let mut seen = Vec::new();
/// Feed::default().push(body, &mut |session, notice| watch.notice(session, notice, &mut seen));
/// let Some(Seen::Act(act)) = seen.last() else { panic!("the rule is broken") };
/// assert_eq!(act.session(), "s");
/// match act {
///     Act::Inject { prompt, .. } => assert!(prompt.is_aside && prompt.text.ends_with("Use `?`.")),
///     act => panic!("the reply goes on: {act:?}"),
/// }
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// Stop the session; delete the message, if `delete` says so; then say something, if there is something
    /// to say. In this order: each begins when the one before is done.
    Stop {
        /// The session.
        session: String,
        /// The message that is being written.
        message: String,
        /// Whether the model is not to see it again. False where a tool call of the message has run: the
        /// message is the only record of that.
        delete: bool,
        /// What steers the next try.
        steer: Option<Prompt>,
        /// The session that is steered: this one, or for the session of a sub-agent its parent, which is told
        /// before the stop so that its next request contains it.
        to: String,
        /// A tool call of the message has run. What became of it is appended to `steer`.
        has_run: bool,
        /// The permission request that waits for a tool call of the message. It is rejected after the stop.
        permission: Option<String>,
        /// The decision, for [`Watch::done`]; none for an act of an earlier run.
        decision: Option<Decision>,
    },
    /// Put something into the conversation, and let the model go on. It is issued when a tool call of the reply
    /// makes another request certain, or when the session is idle, because a message that arrives during the last
    /// reply of a turn makes the server ask the model again.
    Inject {
        /// The session.
        session: String,
        /// What is said.
        prompt: Prompt,
        /// What it rests on, for [`Watch::done`].
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
        /// What is handed over.
        handoff: Handoff,
        /// The directory of the session, where it is known.
        directory: Option<String>,
        /// The decision, for [`Watch::done`].
        decision: Decision,
    },
    /// Put the files that a continuation prompt refers to into its session.
    AddFiles {
        /// The session.
        session: String,
        /// The files.
        injection: Injection,
    },
}

impl Act {
    /// The session concerned.
    #[must_use]
    pub fn session(&self) -> &str {
        match self {
            Act::Stop { session, .. }
            | Act::Inject { session, .. }
            | Act::Switch { session, .. }
            | Act::HandOver { session, .. }
            | Act::AddFiles { session, .. } => session,
        }
    }

    fn decision(&self) -> Option<&Decision> {
        match self {
            Act::Stop { decision, .. } => decision.as_ref(),
            Act::Inject { decision, .. } | Act::HandOver { decision, .. } => Some(decision),
            Act::Switch { .. } | Act::AddFiles { .. } => None,
        }
    }

    /// The session that gets a message in the user's name.
    fn prompts(&self) -> Option<&str> {
        match self {
            Act::Stop { steer: None, .. } | Act::HandOver { .. } => None,
            Act::Stop { to, .. } => Some(to),
            _ => Some(self.session()),
        }
    }
}

/// The rules, and what they know of every session of a server.
///
/// # Example: a rule is broken in reasoning
/// ```
/// use ttsr_agent::opencode::{Act, Api, Seen, Watch};
/// use ttsr_wire::opencode::Feed;
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
/// let mut watch = Watch::new(pack, Api::Classic);
/// let mut seen = Vec::new();
/// Feed::default().push(body, &mut |session, notice| watch.notice(session, notice, &mut seen));
/// let Some(Seen::Act(Act::Stop { message, delete, steer: Some(steer), .. })) = seen.last() else {
///     panic!("it is stopped");
/// };
/// assert_eq!((message.as_str(), *delete), ("m", true));
/// assert_eq!(steer.text, "demo/no-unwrap: Use `?`.");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Debug)]
pub struct Watch {
    pack: Pack,
    api: Api,
    only: Option<String>,
    is_dry: bool,
    sessions: HashMap<String, Watched>,
    /// Notices so far.
    clock: u64,
    /// The time of the next notice, of the host's clock.
    now: Duration,
    foreground: Option<Foreground>,
}

/// One session of the server.
#[derive(Debug)]
struct Watched {
    session: Session,
    /// The session whose tool call opened this one.
    parent: Option<String>,
    directory: Option<String>,
    /// Whether `parent` and `directory` are known.
    is_described: bool,
    /// The message that an act stops.
    stopping: Option<Stopping>,
    /// The message that ended with an abort.
    aborted: Option<String>,
    /// Acts that wait for the end of the reply or for a tool call.
    held: Vec<Act>,
    /// Permission requests without an answer, each with its call.
    permissions: VecDeque<(String, Option<String>)>,
    /// The next part that starts was open before its first event arrived.
    is_joining: bool,
    /// The reply that is being written.
    reply: Option<Reply>,
    /// Prompts of ours that the server did not tell of yet.
    ours: u32,
    agent: Option<String>,
    model: Option<(String, String)>,
    /// When it was heard of last.
    heard: u64,
}

#[derive(Debug)]
struct Stopping {
    message: String,
    /// The session is prompted after the stop.
    steers: bool,
    /// How often the session reported to be idle since the verdict.
    idles: u32,
}

#[derive(Debug)]
struct Reply {
    message: String,
    stream: Stream,
    /// In the order in which they opened. Parts past a limit are not here.
    parts: Vec<Part>,
    /// The names of the parts, one after the other.
    names: String,
    /// Of what was delivered of each open part.
    sums: HashMap<PartId, crc32fast::Hasher>,
    unscanned: u64,
    /// The last tool calls, each with its part.
    calls: VecDeque<(PartId, String)>,
    /// The last parts that were open before their first event arrived.
    midway: VecDeque<PartId>,
    /// The message has a tool call, so the turn has another request.
    has_call: bool,
    /// A tool call of the message has begun to run.
    has_run: bool,
}

/// What is kept of a part to the end of the reply, in 24 bytes.
#[derive(Debug)]
struct Part {
    id: PartId,
    /// Where its name ends in the names of all.
    name_ends: u32,
    /// Of what was delivered, once it is closed.
    sum: u32,
    /// Number of bytes, in halves, which need no padding.
    bytes: [u32; 2],
    channel: Channel,
}

impl Part {
    fn bytes(&self) -> u64 {
        u64::from(self.bytes[1]) << 32 | u64::from(self.bytes[0])
    }
}

impl Reply {
    fn new(message: String, stream: Stream) -> Reply {
        Reply {
            message,
            stream,
            parts: Vec::new(),
            names: String::new(),
            sums: HashMap::new(),
            unscanned: 0,
            calls: VecDeque::new(),
            midway: VecDeque::new(),
            has_call: false,
            has_run: false,
        }
    }

    fn place(&self, id: PartId) -> Option<usize> {
        self.parts.iter().rposition(|part| part.id == id)
    }

    /// What the server calls the part; its number where it is not known.
    fn name(&self, id: PartId) -> String {
        let name = self.place(id).and_then(|place| {
            let before = place.checked_sub(1).map(|before| &self.parts[before]);
            let start = before.map_or(0, |before| before.name_ends as usize);
            self.names.get(start..self.parts[place].name_ends as usize)
        });
        name.map_or_else(|| id.0.to_string(), str::to_owned)
    }

    fn delivered(&mut self, id: PartId, bytes: &[u8]) {
        let place = self.sums.contains_key(&id).then(|| self.place(id));
        if let (Some(place), Some(sum)) = (place.flatten(), self.sums.get_mut(&id)) {
            sum.update(bytes);
            let part = &mut self.parts[place];
            let delivered = part.bytes() + bytes.len() as u64;
            part.bytes = [delivered as u32, (delivered >> 32) as u32];
        }
    }

    fn close(&mut self, id: PartId) {
        if let (Some(place), Some(sum)) = (self.place(id), self.sums.remove(&id)) {
            self.parts[place].sum = sum.finalize();
        }
    }

    /// A part to read a repetition as, if it is not what was delivered: the server has it otherwise, or the
    /// connection was lost in the middle of it.
    fn again(&mut self, id: PartId, bytes: &[u8]) -> Option<(PartId, Channel)> {
        let part = &self.parts[self.place(id)?];
        let open = self.sums.get(&id);
        let sum = open.map_or(part.sum, |sum| sum.clone().finalize());
        let is_same = part.bytes() == bytes.len() as u64 && sum == crc32fast::hash(bytes);
        let (name, channel) = (self.name(id), part.channel);
        // Parts of the server are numbered from the other end.
        let id = PartId(u32::MAX - u32::try_from(self.parts.len()).ok()?);
        (!is_same).then(|| {
            self.open(id, &name, channel);
            (id, channel)
        })
    }

    fn open(&mut self, id: PartId, name: &str, channel: Channel) {
        self.names.push_str(name);
        if self.parts.len() == self.parts.capacity() {
            // Not twice the room that is needed: there may be very many.
            self.parts.reserve_exact(4.max(self.parts.len() / 8));
        }
        self.parts.push(Part {
            id,
            name_ends: u32::try_from(self.names.len()).unwrap_or(u32::MAX),
            sum: 0,
            bytes: [0; 2],
            channel,
        });
        self.sums.insert(id, crc32fast::Hasher::new());
    }
}

impl Watch {
    /// A watch with these rules over the sessions that are driven through that interface.
    #[must_use]
    pub fn new(pack: Pack, api: Api) -> Watch {
        Watch {
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

    /// The same with other models for sessions whose provider refuses: an [`Act::Switch`] for each refusal that
    /// `foreground` sees. Models are named `provider/model`. Classic interface only.
    #[must_use]
    pub fn fallback(self, foreground: Foreground) -> Watch {
        Watch {
            foreground: Some(foreground),
            ..self
        }
    }

    /// Sets the time of the notices that follow; any clock that does not go back.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
    }

    /// Only that session.
    #[must_use]
    pub fn only(self, session: impl Into<String>) -> Watch {
        Watch {
            only: Some(session.into()),
            ..self
        }
    }

    /// Nothing is done; decisions are told as suppressed.
    ///
    /// # Example: what would be done in one session
    /// ```
    /// use ttsr_agent::opencode::{Api, Seen, Watch};
    /// use ttsr_wire::opencode::Feed;
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
    ///     let mut watch = Watch::new(pack.clone(), Api::Classic).only(only).dry_run();
    ///     let mut seen = Vec::new();
    ///     Feed::default().push(body, &mut |session, notice| watch.notice(session, notice, &mut seen));
    ///     seen
    /// };
    /// assert!(seen("another").is_empty());
    /// let seen = seen("s");
    /// assert!(seen.iter().any(|it| matches!(it, Seen::Judged(it) if it.suppressed == Some("shadow"))));
    /// assert!(!seen.iter().any(|it| matches!(it, Seen::Act(_))));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn dry_run(self) -> Watch {
        Watch {
            is_dry: true,
            ..self
        }
    }

    /// Takes a notice of that session; appends what is to be told and done to `out`.
    pub fn notice(&mut self, session: &str, notice: Notice, out: &mut Vec<Seen>) {
        if let Notice::Event(Event::Unscanned { bytes, kind }) = &notice
            && MALFORMED.contains(&kind.as_str())
        {
            // Nobody can tell which session it is of.
            return out.push(Seen::Malformed { bytes: *bytes });
        }
        if self.only.as_deref().is_some_and(|only| only != session) {
            return;
        }
        self.clock += 1;
        self.make_room(session);
        let (pack, is_dry, api) = (&self.pack, self.is_dry, self.api);
        let watched = self.sessions.entry(session.to_owned());
        let watched = watched.or_insert_with(|| Watched::new(pack, is_dry));
        watched.heard = self.clock;
        let is_deleted = notice == Notice::Deleted;
        let switch = match api {
            Api::Classic => session_event(session, &notice)
                .and_then(|event| self.foreground.as_mut()?.see(self.now, &event)),
            Api::Next => None,
        };
        let from = out.len();
        watched.take(session, api, notice, out);
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
            out.push(Seen::Refused {
                session: session.clone(),
                model: model.clone(),
            });
            if !is_dry {
                out.push(Seen::Act(Act::Switch { session, model }));
            }
        }
        let prompted = out[from..].iter().filter_map(|seen| match seen {
            Seen::Act(act) => act.prompts().map(str::to_owned),
            _ => None,
        });
        for session in prompted.collect::<Vec<_>>() {
            self.expect_prompt(&session);
        }
    }

    /// A message of the watcher is about to be sent to that session: it begins no turn.
    pub(super) fn expect_prompt(&mut self, session: &str) {
        if let Some(watched) = self.sessions.get_mut(session) {
            watched.ours += 1;
        }
    }

    /// A stopped sub-agent is not prompted: nobody waits for its reply any more. Its parent is told.
    fn steer_parents(&self, out: &mut [Seen]) {
        for seen in out {
            let Seen::Act(Act::Stop {
                session, steer, to, ..
            }) = seen
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

    /// Whether the description of the session is still to be asked for: it was created before the first event
    /// arrived.
    pub(super) fn wants_description(&mut self, session: &str) -> bool {
        let watched = self.sessions.get_mut(session);
        watched.is_some_and(|watched| {
            watched.reply.is_some() && !mem::replace(&mut watched.is_described, true)
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

    /// The agent and the model that the user spoke to last, and the directory.
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

    /// Whether `message` ended with an abort, and how often the session reported to be idle since it was to be
    /// stopped.
    pub(super) fn ended(&self, session: &str, message: &str) -> (bool, u32) {
        let Some(watched) = self.sessions.get(session) else {
            return (false, 0);
        };
        let is_aborted = watched.aborted.as_deref() == Some(message);
        let stopping = watched.stopping.as_ref();
        let stopping = stopping.filter(|stopping| stopping.message == message);
        (is_aborted, stopping.map_or(0, |stopping| stopping.idles))
    }

    /// Whether the session was opened by the tool call of another.
    pub(super) fn is_child(&self, session: &str) -> bool {
        let watched = self.sessions.get(session);
        watched.is_some_and(|watched| watched.parent.is_some())
    }

    pub(super) fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// What became of an act: the policy counts on it.
    ///
    /// # Example: a message that did not arrive is sent again
    /// ```
    /// use ttsr_agent::opencode::{Act, Api, Seen, Watch};
    /// use ttsr_wire::opencode::Feed;
    /// use ttsr::{Pack, Pattern, Rule};
    /// let rule = Rule::new("demo/no-unwrap", vec![Pattern::literal(".unwrap()")]);
    /// let mut watch = Watch::new(Pack::builder().rule(rule).build()?, Api::Classic);
    /// let mut acts = |watch: &mut Watch, message: &str| {
    ///     let body = format!(
    ///         r#"data: {{"type":"message.part.updated","properties":{{"sessionID":"s","part":{{"id":"p{message}","messageID":"{message}","type":"text","text":"x.unwrap()"}}}}}}"#
    ///     ) + "\n\ndata: {\"type\":\"session.idle\",\"properties\":{\"sessionID\":\"s\"}}\n\n";
    ///     let mut seen = Vec::new();
    ///     let mut feed = Feed::default();
    ///     feed.push(body.as_bytes(), &mut |session, notice| watch.notice(session, notice, &mut seen));
    ///     let act = |seen: Seen| if let Seen::Act(act) = seen { Some(act) } else { None };
    ///     seen.into_iter().filter_map(act).collect::<Vec<Act>>()
    /// };
    /// let first = acts(&mut watch, "m1");
    /// watch.done(&first[0], false);
    /// let second = acts(&mut watch, "m2");
    /// watch.done(&second[0], true);
    /// assert!(acts(&mut watch, "m3").is_empty(), "it was said");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn done(&mut self, act: &Act, is_done: bool) {
        if let (false, Some(prompted)) = (is_done, act.prompts())
            && let Some(watched) = self.sessions.get_mut(prompted)
        {
            watched.ours = watched.ours.saturating_sub(1);
        }
        let Some(watched) = self.sessions.get_mut(act.session()) else {
            return;
        };
        if let Act::Stop { message, .. } = act {
            watched
                .stopping
                .take_if(|stopping| stopping.message == *message);
        }
        match (act.decision(), is_done) {
            (Some(decision), true) => watched.session.delivered(decision),
            (Some(decision), false) => watched.session.dropped(decision),
            (None, _) => {}
        }
    }

    fn make_room(&mut self, session: &str) {
        if self.sessions.len() < SESSIONS || self.sessions.contains_key(session) {
            return;
        }
        let quietest = self
            .sessions
            .iter()
            .min_by_key(|(_, watched)| watched.heard);
        let quietest = quietest.map(|(id, _)| id.clone());
        quietest.map(|id| self.sessions.remove(&id));
    }
}

impl Watched {
    fn new(pack: &Pack, is_dry: bool) -> Watched {
        let mut session = pack.session();
        if is_dry {
            session.set_mode(Mode::Shadow);
        }
        // The turn under way, if there is one, began before anyone watched.
        session.begin_turn();
        Watched {
            session,
            parent: None,
            directory: None,
            is_described: false,
            stopping: None,
            aborted: None,
            held: Vec::new(),
            permissions: VecDeque::new(),
            is_joining: false,
            reply: None,
            ours: 0,
            agent: None,
            model: None,
            heard: 0,
        }
    }

    fn take(&mut self, id: &str, api: Api, notice: Notice, out: &mut Vec<Seen>) {
        match notice {
            Notice::Prompt { agent, model, .. } => self.prompted(agent, model),
            Notice::Message(message) => {
                self.reply = Some(Reply::new(message.clone(), self.session.stream()));
                out.push(Seen::Message {
                    session: id.to_owned(),
                    message,
                });
            }
            Notice::Event(event) => self.event(id, api, event, out),
            Notice::Question { id: question, .. } => out.push(Seen::Question {
                session: id.to_owned(),
                question,
            }),
            Notice::Tool(state) => self.called(&state, out),
            Notice::Joined => self.is_joining = true,
            Notice::Created {
                parent,
                agent,
                directory,
            } => {
                self.is_described = true;
                self.parent = parent;
                self.directory = directory;
                self.agent = agent.or(self.agent.take());
            }
            Notice::Permission { id, call } => remember(&mut self.permissions, (id, call)),
            Notice::PermissionClosed(id) => self.permission_closed(&id),
            Notice::Answer {
                message,
                error: Some(error),
                ..
            } if error.is_abort() => self.aborted = Some(message),
            Notice::Idle | Notice::IdleAgain => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.idles += 1;
                }
                // A session that is steered goes on: what waits is not for the end of the stopped reply.
                if !self.stopping.as_ref().is_some_and(|it| it.steers) {
                    self.release(out);
                }
            }
            _ => {}
        }
    }

    /// A tool call that does not wait for a permission has begun.
    fn called(&mut self, state: &ToolState, out: &mut Vec<Seen>) {
        let is_waiting = self.waiting(&state.call).is_some();
        if let Some(reply) = &mut self.reply {
            reply.has_call = true;
            reply.has_run |= state.stage != Stage::Pending && !is_waiting;
        }
        self.release(out);
    }

    /// The permission request that waits for that call.
    fn waiting(&self, call: &str) -> Option<&str> {
        let of_call = |(_, of): &&(String, Option<String>)| of.as_deref() == Some(call);
        self.permissions.iter().find(of_call).map(|(id, _)| &**id)
    }

    /// The call of an answered request may run from now on.
    fn permission_closed(&mut self, id: &str) {
        let Some(closed) = self.permissions.iter().position(|(known, _)| known == id) else {
            return;
        };
        let closed = self.permissions.remove(closed);
        if let (Some(reply), Some((_, Some(_)))) = (&mut self.reply, closed) {
            reply.has_run = true;
        }
    }

    /// Issues the acts that waited.
    fn release(&mut self, out: &mut Vec<Seen>) {
        out.extend(self.held.drain(..).map(Seen::Act));
    }

    fn hold(&mut self, act: Act) {
        match (self.held.len() < HELD, act.decision()) {
            (false, Some(decision)) => self.session.dropped(decision),
            _ => self.held.push(act),
        }
    }

    /// Someone spoke to the model: a new turn, unless it was us.
    fn prompted(&mut self, agent: Option<String>, model: Option<(String, String)>) {
        match self.ours {
            0 => self.session.begin_turn(),
            _ => self.ours -= 1,
        }
        self.agent = agent.or(self.agent.take());
        self.model = model.or(self.model.take());
    }

    fn event(&mut self, id: &str, api: Api, event: Event, out: &mut Vec<Seen>) {
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
                    remember(&mut reply.midway, part);
                }
                if let Some(call) = &call {
                    remember(&mut reply.calls, (part, call.clone()));
                }
                let opened = session.open(&mut reply.stream, part, channel);
                let is_read = reply.stream.channel(part).is_some();
                if is_read || opened != Verdict::Continue {
                    reply.open(part, &name, channel);
                }
                let call = call.as_deref().unwrap_or_default();
                match tool {
                    Some(tool) if opened == Verdict::Continue => {
                        session.tool(&mut reply.stream, part, &tool, call)
                    }
                    _ => opened,
                }
            }
            Event::Tool { part, tool, call } => {
                let call = call.as_deref().unwrap_or_default();
                session.tool(&mut reply.stream, part, &tool, call)
            }
            Event::Delta { part, bytes } => {
                reply.delivered(part, &bytes);
                session.push(&mut reply.stream, part, &bytes)
            }
            Event::Snapshot { part, bytes } => match reply.again(part, &bytes) {
                Some((again, channel)) => {
                    let opened = session.open(&mut reply.stream, again, channel);
                    match opened {
                        Verdict::Continue => session.push(&mut reply.stream, again, &bytes),
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
                *reply = Reply {
                    unscanned: reply.unscanned,
                    ..Reply::new(message, session.stream())
                };
                return;
            }
            Event::Finish { reason } => return self.finish(id, api, reason, out),
            Event::Usage { .. } | Event::Error { .. } => return,
        };
        if verdict != Verdict::Continue || !self.session.decisions().is_empty() {
            self.judged(id, api, out);
        }
    }

    fn finish(&mut self, id: &str, api: Api, reason: String, out: &mut Vec<Seen>) {
        let Some(reply) = &mut self.reply else {
            return;
        };
        if reason == "aborted" {
            self.aborted = Some(reply.message.clone());
        }
        let has_next = reason == "tool-calls";
        // What broke off is no reply: nothing is decided on it as a whole.
        if !matches!(reason.as_str(), "aborted" | "retry" | "truncated" | "error") {
            let _ = self.session.finish(&mut reply.stream);
            self.judged(id, api, out);
        }
        if let Some(reply) = self.reply.take() {
            out.push(Seen::Finish {
                session: id.to_owned(),
                message: reply.message,
                reason,
                unscanned: reply.unscanned + reply.stream.counters().unscanned_bytes,
            });
        }
        // The second interface does not report when a session is idle: its turn ends with its last step.
        if api == Api::Next && !has_next {
            self.release(out);
        }
    }

    /// Tells of the decisions of the last call, and acts on those that want it.
    fn judged(&mut self, id: &str, api: Api, out: &mut Vec<Seen>) {
        let Some(reply) = &self.reply else {
            return;
        };
        let decisions = self.session.decisions().to_vec();
        // One act that cuts takes the place of all others.
        let is_live = |decision: &&Decision| !decision.is_suppressed();
        let cut = decisions
            .iter()
            .filter(is_live)
            .find(|decision| decision.action.cuts());
        let mut acts = Vec::new();
        let has_call = reply.has_call;
        for decision in &decisions {
            let judged = self.judge(id, api, reply, decision);
            let is_silent = judged.suppressed.is_some() || judged.is_beyond;
            out.push(Seen::Judged(judged));
            match (is_silent, decision.action) {
                (true, _) => {}
                (false, Action::Inject) => acts.push(self.inject(id, reply, decision)),
                (false, Action::Handoff) => acts.push(self.hand_over(id, reply, decision)),
                (false, _) if Some(decision) == cut => {
                    acts.push(self.stop(id, api, reply, decision));
                }
                (false, _) => {}
            }
        }
        for act in acts {
            match &act {
                Act::Stop { message, steer, .. } => {
                    self.stopping = Some(Stopping {
                        message: message.clone(),
                        steers: steer.is_some(),
                        idles: 0,
                    });
                }
                Act::Inject { .. } if !has_call => {
                    self.hold(act);
                    continue;
                }
                Act::HandOver { .. } => {
                    self.hold(act);
                    continue;
                }
                _ => {}
            }
            out.push(Seen::Act(act));
        }
        for decision in &decisions {
            if matches!(decision.action, Action::Warn | Action::Observe) {
                self.session.delivered(decision);
            }
        }
    }

    fn inject(&self, id: &str, reply: &Reply, decision: &Decision) -> Act {
        let text = reply.stream.message(decision);
        Act::Inject {
            session: id.to_owned(),
            prompt: Prompt {
                is_aside: true,
                ..self.prompt(text)
            },
            decision: *decision,
        }
    }

    fn hand_over(&self, id: &str, reply: &Reply, decision: &Decision) -> Act {
        Act::HandOver {
            session: id.to_owned(),
            handoff: Handoff::new(id, reply.stream.message(decision)),
            directory: self.directory.clone(),
            decision: *decision,
        }
    }

    fn stop(&self, id: &str, api: Api, reply: &Reply, decision: &Decision) -> Act {
        let rule = reply.stream.rule(decision);
        let partial = rule.map_or(Partial::Discard, |rule| rule.partial);
        let text = reply.stream.message(decision);
        let steers = decision.action == Action::Retry && !text.is_empty();
        let has_run = api == Api::Classic && reply.has_run;
        let mut calls = reply.calls.iter();
        let permission = calls.find_map(|(_, call)| self.waiting(call));
        Act::Stop {
            session: id.to_owned(),
            message: reply.message.clone(),
            // Nobody outside can cut a message short: what must not stay whole does not stay. Where a tool has
            // run, the message is the record of it.
            delete: api == Api::Classic && partial != Partial::Keep && !has_run,
            steer: steers.then(|| self.prompt(text)),
            to: id.to_owned(),
            has_run,
            permission: permission.map(str::to_owned),
            decision: Some(*decision),
        }
    }

    /// Said to whom the user spoke last.
    fn prompt(&self, text: String) -> Prompt {
        Prompt {
            text,
            agent: self.agent.clone(),
            model: self.model.clone(),
            is_aside: false,
        }
    }
}

impl Watched {
    fn judge(&self, id: &str, api: Api, reply: &Reply, decision: &Decision) -> Judged {
        let stream = &reply.stream;
        let part = decision.part();
        let channel = stream.channel(part);
        let limit = match decision.source {
            ttsr::Source::Limit { name, .. } => Some(name.to_owned()),
            ttsr::Source::Rule(_) => None,
        };
        let mut calls = reply.calls.iter();
        let is_waiting = calls.any(|(of, call)| *of == part && self.waiting(call).is_some());
        Judged {
            session: id.to_owned(),
            message: reply.message.clone(),
            part: reply.name(part),
            channel,
            tool: stream.tool_name(part).map(str::to_owned),
            rule: stream.rule(decision).map(|rule| rule.id.clone()),
            limit,
            action: decision.action,
            end: decision.hit().map(|hit| hit.end),
            decided: decision.decided(),
            turn: decision.turn,
            suppressed: decision.suppression.map(|why| why.name()),
            text: stream.message(decision),
            is_late: api == Api::Classic && channel == Some(Channel::ToolInput) && !is_waiting,
            is_beyond: !can_act(decision.action, api),
            is_midway: reply.midway.contains(&part),
        }
    }
}

/// Adds to a list of what came last.
fn remember<T>(last: &mut VecDeque<T>, one: T) {
    if last.len() >= REMEMBERED {
        last.pop_front();
    }
    last.push_back(one);
}

/// Whether an action has an effect from outside. `warn` and `observe` have: they are reported.
pub(super) fn can_act(action: Action, api: Api) -> bool {
    match action {
        Action::Inject | Action::Warn | Action::Observe => true,
        Action::Handoff => api == Api::Classic,
        action => action.cuts(),
    }
}

/// A notice as [`Foreground`] reads it.
fn session_event(session: &str, notice: &Notice) -> Option<SessionEvent> {
    let session = session.to_owned();
    let text = |trouble: &Trouble| {
        let text = format!("{}: {}", trouble.kind, trouble.message);
        error_text(&text, trouble.status)
    };
    Some(match notice {
        Notice::Answer {
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
        Notice::Trouble(trouble) => SessionEvent::Error {
            session,
            error: text(trouble),
        },
        Notice::Retrying { message } => SessionEvent::Status {
            session,
            message: message.clone(),
        },
        Notice::Created {
            agent: Some(agent), ..
        } => SessionEvent::SubagentCreated {
            session,
            agent: agent.clone(),
        },
        Notice::Deleted => SessionEvent::Deleted { session },
        Notice::Idle => SessionEvent::Idle { session },
        _ => return None,
    })
}
