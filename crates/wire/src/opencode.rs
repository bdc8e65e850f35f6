//! What a running OpenCode server tells of its sessions: the bytes of its event stream in, [`Notice`]s out.
//!
//! Both of its interfaces are read: the classic one (`/event`, and `/global/event`, which covers every
//! directory) and the second (`/api/event`). Only one of them may be fed to a [`Feed`], because the first repeats
//! what the second tells. The input of a tool comes as
//! deltas in the second one only; in the classic one it comes whole, when the tool already runs. It does no
//! I/O and sends nothing back.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::json::Json;
use super::reply::{Naming, Reply, TRUNCATED};
use super::sse::{self, Sse, SseEvent};
use ttsr::{Channel, Event};

/// What happened in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A user wrote a message, or someone in his name.
    Prompt {
        /// Its id.
        message: String,
        /// The agent that is asked, if it is told.
        agent: Option<String>,
        /// The provider and the model that are asked, if they are told.
        model: Option<(String, String)>,
    },
    /// The model begins to write the message of that id; the parts of the events that follow are numbered
    /// from 0.
    Message(String),
    /// An event of that message. [`Event::Finish`] is the last one; its reason is `retry` if the server asks
    /// the provider again, and `aborted` if someone stopped it. Where a session fails or is stopped before
    /// it has a message, that comes alone.
    Event(Event),
    /// A tool call is at another stage. What the tool is given is told by events.
    Tool(ToolState),
    /// A question waits for an answer.
    Question {
        /// Its id.
        id: String,
        /// The questions, as the server wrote them (JSON).
        questions: Vec<u8>,
    },
    /// The question of that id was answered or rejected.
    QuestionClosed(String),
    /// The session waits for a prompt. An abort makes two of them on the wire, of which one is told; the
    /// second interface has none.
    Idle,
    /// A repetition of [`Notice::Idle`] with no reply in between. One abort of one session makes one.
    IdleAgain,
    /// A part of a user's message. Classic interface only.
    PromptPart {
        /// The message.
        message: String,
        /// The part.
        part: String,
        /// Its text; empty for a part that is no text.
        text: String,
        /// True for text that a program added.
        is_synthetic: bool,
    },
    /// The next part that starts was already open before the first event of it arrived, so offsets in it count
    /// from the first byte received.
    Joined,
    /// A session was created.
    Created {
        /// The session whose tool call opened it, for the session of a sub-agent.
        parent: Option<String>,
        /// The agent in it, where the event names one.
        agent: Option<String>,
        /// The directory it works in.
        directory: Option<String>,
    },
    /// The session was deleted.
    Deleted,
    /// A message of the model was created, or has a new error. Classic interface only.
    Answer {
        /// The message.
        message: String,
        /// The agent that writes it.
        agent: Option<String>,
        /// The provider and the model that write it.
        model: Option<(String, String)>,
        /// The error that ended it.
        error: Option<Trouble>,
    },
    /// The session failed (`session.error`).
    Trouble(Trouble),
    /// The server asks the provider again after a failure, which `message` describes.
    Retrying {
        /// The description.
        message: String,
    },
    /// A tool call waits for a permission.
    Permission {
        /// The id of the request.
        id: String,
        /// The id of the call.
        call: Option<String>,
    },
    /// The permission request of that id was answered.
    PermissionClosed(String),
    /// A command for the server's terminal interface. It belongs to no session: the id is empty.
    Command(String),
}

/// An error as a server describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Its name, such as `APIError` or `MessageAbortedError`.
    pub kind: String,
    /// Its message.
    pub message: String,
    /// The HTTP status of the provider's answer.
    pub status: Option<u16>,
}

impl Trouble {
    /// True if the error says that somebody stopped the reply.
    #[must_use]
    pub fn is_abort(&self) -> bool {
        self.kind == "MessageAbortedError"
    }

    fn read(error: &Json<'_>) -> Trouble {
        let kind = error.text("name").or(error.text("type"));
        let data = error.get("data").unwrap_or(error);
        Trouble {
            kind: kind.unwrap_or_default().into_owned(),
            message: data.text("message").unwrap_or_default().into_owned(),
            status: data
                .number("statusCode")
                .and_then(|it| u16::try_from(it).ok()),
        }
    }
}

/// How far a tool call is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolState {
    /// The id of the call.
    pub call: String,
    /// The tool's name; empty where it is not told again.
    pub tool: String,
    /// The stage.
    pub stage: Stage,
    /// What it does, in a few words: the server's title or, while it has none, what the model wrote into the
    /// member `description` of the input.
    pub title: Option<String>,
}

/// A stage of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It is being written, or waits.
    Pending,
    /// It runs.
    Running,
    /// It is done.
    Completed,
    /// It failed.
    Error,
}

/// Where notices go, with the id of their session.
type Sink<'a> = &'a mut dyn FnMut(&str, Notice);

/// Most sessions kept at once; past it the one that was quiet for longest is forgotten.
const SESSIONS: usize = 1024;

/// Ids of user messages kept for each session.
const USERS: usize = 64;

/// Reads one event stream.
///
/// # Example: reasoning and text come under the same field
/// ```
/// use ttsr_wire::opencode::{Feed, Notice};
/// use ttsr::{Channel, Event};
/// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"reasoning","text":""}}}
///
/// data: {"type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"Hm"}}
///
/// "#;
/// let mut notices = Vec::new();
/// Feed::default().push(body, &mut |_, notice| notices.push(notice));
/// let Notice::Event(Event::PartStart { channel, .. }) = &notices[1] else { panic!("a part opens") };
/// assert_eq!(*channel, Channel::Reasoning);
/// ```
#[derive(Debug)]
pub struct Feed {
    sse: Sse,
    watch: Watch,
    /// Events that could not be read.
    malformed: u64,
}

impl Default for Feed {
    fn default() -> Feed {
        Feed {
            sse: Sse::with_cap(sse::CAP),
            watch: Watch::default(),
            malformed: 0,
        }
    }
}

impl Feed {
    /// Takes the next bytes of the stream, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(&str, Notice)) {
        let Feed {
            sse,
            watch,
            malformed,
        } = self;
        sse.push(bytes, &mut |event| {
            *malformed += u64::from(!watch.sse(event, on));
        });
    }

    /// The number of events so far that could not be read. Each is told as [`Event::Unscanned`] of no session.
    #[must_use]
    pub fn malformed_events(&self) -> u64 {
        self.malformed
    }

    /// The connection ended: replies under way break off, and nothing of them is kept.
    ///
    /// # Example: a connection that broke
    /// ```
    /// use ttsr::Event;
    /// use ttsr_wire::opencode::{Feed, Notice};
    /// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"text","text":"Hm"}}}
    ///
    /// "#;
    /// let mut notices = Vec::new();
    /// let mut feed = Feed::default();
    /// feed.push(body, &mut |_, notice| notices.push(notice));
    /// feed.finish(&mut |_, notice| notices.push(notice));
    /// let end = Notice::Event(Event::Finish { reason: "truncated".into() });
    /// assert_eq!(notices.last(), Some(&end));
    /// ```
    pub fn finish(&mut self, on: &mut dyn FnMut(&str, Notice)) {
        let Feed {
            sse,
            watch,
            malformed,
        } = self;
        sse.finish(&mut |event| {
            *malformed += u64::from(!watch.sse(event, on));
        });
        for session in &mut std::mem::take(watch).sessions {
            session.finish(TRUNCATED, on);
        }
    }
}

#[derive(Debug, Default)]
struct Watch {
    /// The one that spoke last comes last.
    sessions: VecDeque<Session>,
}

#[derive(Debug)]
struct Session {
    id: String,
    message: Option<Message>,
    /// The message that ended last: what is still told of it is no new reply.
    ended: String,
    users: VecDeque<String>,
    idle: bool,
    /// The last message that [`Notice::Answer`] named, and whether its error was reported.
    answered: (String, bool),
}

#[derive(Debug)]
struct Message {
    id: String,
    reply: Reply,
}

impl Watch {
    /// Reads an event; says whether it could be read.
    fn sse(&mut self, event: SseEvent<'_>, on: Sink<'_>) -> bool {
        let (data, lost) = match event {
            SseEvent::Message { data, .. } => (data, data.len() as u64),
            SseEvent::Stray(line) => (&[][..], line.len() as u64),
            SseEvent::Dropped { bytes } => (&[][..], bytes),
        };
        match Json::parse(data) {
            Some((frame, _)) if frame.is_object() => {
                self.frame(&frame, on);
                true
            }
            _ => {
                on("", unscanned(lost, "malformed-json"));
                false
            }
        }
    }

    fn frame(&mut self, frame: &Json<'_>, on: Sink<'_>) {
        // `/global/event` wraps each event, and repeats the durable ones as `sync`, which has no properties.
        let wrapped = frame.get("payload").filter(|payload| payload.is_object());
        let frame = wrapped.unwrap_or(frame);
        let kind = frame.text("type").unwrap_or_default();
        let Some(event) = frame.get("properties").or(frame.get("data")) else {
            return;
        };
        // Events without a session concern the server: plugins, catalogues, files.
        let named = event.text("sessionID");
        let info = event.get("info").filter(|_| kind.starts_with("session."));
        if let Some(id) = named.or_else(|| info.and_then(|info| info.text("id"))) {
            self.session(&id, on).take(&kind, event, on);
            if kind == "session.deleted" {
                self.sessions.pop_back();
            }
        } else if kind == "tui.command.execute" {
            let command = event.text("command").unwrap_or_default().into_owned();
            on("", Notice::Command(command));
        }
    }

    fn session(&mut self, id: &str, on: Sink<'_>) -> &mut Session {
        let known = self.sessions.iter().rposition(|known| known.id == id);
        let session = known.and_then(|place| self.sessions.remove(place));
        let session = session.unwrap_or_else(|| Session::new(id));
        if self.sessions.len() >= SESSIONS {
            let oldest = self.sessions.pop_front();
            oldest
                .into_iter()
                .for_each(|mut old| old.finish(TRUNCATED, on));
        }
        self.sessions.push_back(session);
        self.sessions.back_mut().expect("one was pushed")
    }
}

impl Session {
    fn new(id: &str) -> Session {
        Session {
            id: id.to_owned(),
            message: None,
            ended: String::new(),
            users: VecDeque::new(),
            idle: false,
            answered: (String::new(), false),
        }
    }

    fn take(&mut self, kind: &str, event: &Json<'_>, on: Sink<'_>) {
        match kind {
            "message.updated" => self.message_updated(event, on),
            "message.part.updated" => self.part_updated(event, on),
            "message.part.delta" => self.part_delta(event, on),
            "session.status" => self.status(event, on),
            "session.error" => self.failed(event, on),
            "session.idle" => self.idle(on),
            "session.created" | "subagent.session.created" => self.created(event, on),
            "session.deleted" => {
                self.finish(TRUNCATED, on);
                on(&self.id, Notice::Deleted);
            }
            "permission.asked" => {
                let id = event.text("id").unwrap_or_default().into_owned();
                let call = event.get("tool").and_then(|tool| tool.text("callID"));
                let call = call.map(Cow::into_owned);
                on(&self.id, Notice::Permission { id, call });
            }
            "permission.replied" => {
                let id = event.text("requestID").or(event.text("permissionID"));
                let id = id.unwrap_or_default().into_owned();
                on(&self.id, Notice::PermissionClosed(id));
            }
            "question.asked" => {
                let id = event.text("id").unwrap_or_default().into_owned();
                let questions = event.get("questions").unwrap_or(event).raw().to_vec();
                on(&self.id, Notice::Question { id, questions });
            }
            "question.replied" | "question.rejected" => {
                let id = event.text("requestID").or(event.text("id"));
                let id = id.unwrap_or_default().into_owned();
                on(&self.id, Notice::QuestionClosed(id));
            }
            _ => match kind.strip_prefix("session.next.") {
                Some(step) => self.next(step, event, on),
                None if kind.starts_with("session.") || kind.starts_with("message.") => {}
                None => on(&self.id, unscanned(event.content(), kind)),
            },
        }
    }

    /// Who writes a message is told before its parts.
    fn message_updated(&mut self, event: &Json<'_>, on: Sink<'_>) {
        let Some(info) = event.get("info") else {
            return;
        };
        let id = info.text("id").unwrap_or_default().into_owned();
        if info.text("role").as_deref() != Some("user") {
            self.answer(&id, info, on);
            let finish = info.text("finish").map(|reason| reason.into_owned());
            let current = self.message.as_mut().filter(|message| message.id == id);
            if let (Some(message), Some(reason)) = (current, finish) {
                message.reply.reason.get_or_insert(reason);
                self.finish("finish", on);
            }
        } else if !self.users.contains(&id) {
            if self.users.len() >= USERS {
                self.users.pop_front();
            }
            self.users.push_back(id.clone());
            let model = info.get("model").and_then(model);
            let agent = info.text("agent").map(Cow::into_owned);
            let prompt = Notice::Prompt {
                message: id,
                agent,
                model,
            };
            on(&self.id, prompt);
        }
    }

    /// Reports a message of the model once when it is new, and once more when it has an error.
    fn answer(&mut self, id: &str, info: &Json<'_>, on: Sink<'_>) {
        let error = info.get("error").map(Trouble::read);
        let is_new = self.answered.0 != id;
        if !is_new && (error.is_none() || self.answered.1) {
            return;
        }
        self.answered = (id.to_owned(), error.is_some());
        let answer = Notice::Answer {
            message: id.to_owned(),
            agent: info.text("agent").map(Cow::into_owned),
            model: model(info),
            error,
        };
        on(&self.id, answer);
    }

    fn created(&self, event: &Json<'_>, on: Sink<'_>) {
        let info = event.get("info").unwrap_or(event);
        let owned = |name: &str| info.text(name).map(Cow::into_owned);
        let created = Notice::Created {
            parent: owned("parentID"),
            agent: owned("agent").or_else(|| owned("agentName")),
            directory: owned("directory"),
        };
        on(&self.id, created);
    }

    /// The message of that id, begun if it is new; nothing if a user wrote it or if it ended.
    fn message(&mut self, id: &str, on: Sink<'_>) -> Option<&mut Message> {
        if self.users.iter().any(|user| user == id) || self.ended == id {
            return None;
        }
        if self.message.as_ref().is_none_or(|message| message.id != id) {
            self.finish("next message", on);
            self.idle = false;
            on(&self.id, Notice::Message(id.to_owned()));
            self.message = Some(Message {
                id: id.to_owned(),
                reply: Reply::new(self.id.clone()),
            });
        }
        self.message.as_mut()
    }

    fn finish(&mut self, reason: &str, on: Sink<'_>) {
        if let Some(message) = self.message.take() {
            self.ended = message.id;
            message
                .reply
                .finish(reason, &mut |id, event| on(id, Notice::Event(event)));
        }
    }

    fn part_updated(&mut self, event: &Json<'_>, on: Sink<'_>) {
        let Some(part) = event.get("part") else {
            return;
        };
        let (id, owner) = (part.text("id"), part.text("messageID"));
        let id = id.unwrap_or_default();
        if let Some(user) = self
            .users
            .iter()
            .find(|user| Some(&***user) == owner.as_deref())
        {
            let prompt = Notice::PromptPart {
                message: user.clone(),
                part: id.into_owned(),
                text: part.text("text").unwrap_or_default().into_owned(),
                is_synthetic: part.get("synthetic").is_some_and(|it| it.raw() == b"true"),
            };
            return on(&self.id, prompt);
        }
        let session = self.id.clone();
        let Some(message) = self.message(&owner.unwrap_or_default(), on) else {
            return;
        };
        if let Some(state) = tool_state(part) {
            on(&session, Notice::Tool(state));
        }
        let on = &mut |id: &str, event| on(id, Notice::Event(event));
        match part.text("type").unwrap_or_default().as_ref() {
            "text" => message.written(&id, Channel::Text, part, on),
            "reasoning" => message.written(&id, Channel::Reasoning, part, on),
            "tool" => message.tool(&id, part, on),
            "step-finish" => {
                let reason = part.text("reason").map(|reason| reason.into_owned());
                message.reply.reason = message.reply.reason.take().or(reason);
                message.usage(part, on);
            }
            "step-start" | "snapshot" | "patch" => {}
            kind => message.reply.unscanned(part.content(), kind, on),
        }
    }

    fn part_delta(&mut self, event: &Json<'_>, on: Sink<'_>) {
        let (id, owner) = (event.text("partID"), event.text("messageID"));
        let id = id.unwrap_or_default();
        let session = self.id.clone();
        let Some(message) = self.message(&owner.unwrap_or_default(), on) else {
            return;
        };
        let written = [Channel::Text, Channel::Reasoning];
        let known = message.reply.channel(&id);
        let known = known.filter(|channel| written.contains(channel));
        let field = event.text("field");
        if known.is_none() && field.as_deref() == Some("text") && !message.reply.is_open(&id) {
            on(&session, Notice::Joined);
        }
        let on = &mut |id: &str, event| on(id, Notice::Event(event));
        let delta = event.bytes("delta").unwrap_or_default();
        match (field.as_deref(), known) {
            (Some("text"), Some(channel)) => {
                message
                    .reply
                    .delta(Naming::new(&id, &id, channel), delta, on);
            }
            // The part opened before the first event arrived. Its kind is unknown; it is scanned as text.
            (Some("text"), None) => {
                message.reply.unknown(0, "part-of-unknown-kind", on);
                message
                    .reply
                    .delta(Naming::new(&id, &id, Channel::Text), delta, on);
            }
            (field, _) => {
                let kind = field.unwrap_or("message.part.delta");
                message.reply.unscanned(delta.len() as u64, kind, on);
            }
        }
    }

    fn status(&mut self, event: &Json<'_>, on: Sink<'_>) {
        let status = event.get("status").and_then(|status| status.text("type"));
        if status.as_deref() == Some("retry") {
            let message = event
                .get("status")
                .and_then(|status| status.text("message"));
            let message = message.unwrap_or_default().into_owned();
            on(&self.id, Notice::Retrying { message });
            if let Some(message) = &mut self.message {
                message.reply.reason = Some("retry".to_owned());
            }
            self.finish("retry", on);
            // The next try writes into the same message.
            self.ended.clear();
        }
    }

    fn failed(&mut self, event: &Json<'_>, on: Sink<'_>) {
        let Some(error) = event.get("error") else {
            return;
        };
        let trouble = Trouble::read(error);
        let is_abort = trouble.is_abort();
        on(&self.id, Notice::Trouble(trouble.clone()));
        let Trouble {
            kind,
            message: text,
            ..
        } = trouble;
        match &mut self.message {
            Some(message) if is_abort => message.reply.reason = Some("aborted".to_owned()),
            Some(message) => {
                let on = &mut |id: &str, event| on(id, Notice::Event(event));
                message.reply.error(&kind, &text, on);
            }
            None if is_abort => {
                let reason = "aborted".to_owned();
                on(&self.id, Notice::Event(Event::Finish { reason }));
            }
            None => {
                let message = text;
                on(&self.id, Notice::Event(Event::Error { kind, message }));
            }
        }
    }

    fn idle(&mut self, on: Sink<'_>) {
        self.finish("idle", on);
        let notice = match std::mem::replace(&mut self.idle, true) {
            false => Notice::Idle,
            true => Notice::IdleAgain,
        };
        on(&self.id, notice);
    }

    /// The second interface.
    fn next(&mut self, step: &str, event: &Json<'_>, on: Sink<'_>) {
        if step == "prompted" {
            let prompt = Notice::Prompt {
                message: event.text("messageID").unwrap_or_default().into_owned(),
                agent: None,
                model: None,
            };
            return on(&self.id, prompt);
        }
        let Some(owner) = event.text("assistantMessageID") else {
            return;
        };
        let session = self.id.clone();
        let Some(message) = self.message(&owner, on) else {
            return;
        };
        let (stem, verb) = step.rsplit_once('.').unwrap_or((step, ""));
        if let ("tool", Some(stage)) = (stem, Stage::of_verb(verb)) {
            let state = ToolState::new(stage, event, event.get("input"), None);
            return on(&session, Notice::Tool(state));
        }
        match (stem, verb) {
            ("text", _) => message.piece("textID", Channel::Text, verb, event, on),
            ("reasoning", _) => message.piece("reasoningID", Channel::Reasoning, verb, event, on),
            ("tool.input", _) => message.piece("callID", Channel::ToolInput, verb, event, on),
            ("step", "ended") => {
                let reason = event.text("finish").map(|reason| reason.into_owned());
                message.reply.reason = reason;
                message.usage(event, &mut |id, event| on(id, Notice::Event(event)));
                self.finish("step", on);
            }
            ("step", "failed") => {
                self.failed(event, on);
                self.finish("error", on);
            }
            ("step" | "tool", _) => {}
            _ => {
                let on = &mut |id: &str, event| on(id, Notice::Event(event));
                message.reply.unscanned(event.content(), step, on);
            }
        }
    }
}

/// The provider and the model that `holder` names.
fn model(holder: &Json<'_>) -> Option<(String, String)> {
    let provider = holder.text("providerID")?.into_owned();
    Some((provider, holder.text("modelID")?.into_owned()))
}

/// What a part of the classic interface says of a tool call, if it is one.
fn tool_state(part: &Json<'_>) -> Option<ToolState> {
    let state = part.get("state")?;
    let stage = match state.text("status")?.as_ref() {
        "pending" => Stage::Pending,
        "running" => Stage::Running,
        "completed" => Stage::Completed,
        "error" => Stage::Error,
        _ => return None,
    };
    let title = state.text("title");
    Some(ToolState::new(stage, part, state.get("input"), title))
}

impl ToolState {
    fn new(
        stage: Stage,
        call: &Json<'_>,
        input: Option<&Json<'_>>,
        title: Option<Cow<'_, str>>,
    ) -> ToolState {
        let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
        let description = input.and_then(|input| input.text("description"));
        ToolState {
            call: owned(call.text("callID")).unwrap_or_default(),
            tool: owned(call.text("tool")).unwrap_or_default(),
            stage,
            title: owned(title.or(description)),
        }
    }
}

impl Stage {
    /// What the second interface calls it.
    fn of_verb(verb: &str) -> Option<Stage> {
        match verb {
            "called" => Some(Stage::Running),
            "success" => Some(Stage::Completed),
            "failed" => Some(Stage::Error),
            _ => None,
        }
    }
}

type EventSink<'a> = &'a mut dyn FnMut(&str, Event);

impl Message {
    /// Text or reasoning of the classic interface as it opens or as it closes.
    fn written(&mut self, id: &str, channel: Channel, part: &Json<'_>, on: EventSink<'_>) {
        let naming = Naming::new(id, id, channel);
        if self.reply.delivered(id).is_none() {
            self.reply.open(naming, on);
        }
        let text = part.bytes("text").unwrap_or_default();
        self.reply.whole(naming, text, on);
        if part
            .get("time")
            .is_some_and(|time| time.get("end").is_some())
        {
            self.reply.end(id, on);
        }
    }

    /// A tool call of the classic interface: its input is there once it runs.
    fn tool(&mut self, id: &str, part: &Json<'_>, on: EventSink<'_>) {
        let (tool, call) = (part.text("tool"), part.text("callID"));
        let naming = Naming {
            tool: tool.as_deref(),
            call: call.as_deref(),
            ..Naming::new(id, id, Channel::ToolInput)
        };
        if self.reply.delivered(id).is_none() {
            self.reply.open(naming, on);
        }
        let Some(state) = part.get("state") else {
            return;
        };
        if !self.reply.is_open(id) || state.text("status").as_deref() == Some("pending") {
            return;
        }
        match state.get("input") {
            Some(input) if !input.members().is_empty() => self.reply.whole(naming, input.raw(), on),
            _ => {}
        }
        self.reply.end(id, on);
    }

    /// A piece of the second interface: `started`, `delta` or `ended`.
    fn piece(&mut self, named: &str, channel: Channel, verb: &str, event: &Json<'_>, on: Sink<'_>) {
        let name = event.text(named).unwrap_or_default();
        let key = format!("{}:{name}", channel.name());
        let tool = event.text("name");
        let naming = Naming {
            tool: tool.as_deref(),
            call: (channel == Channel::ToolInput).then_some(&*name),
            ..Naming::new(&key, &name, channel)
        };
        if verb == "delta" && !self.reply.is_open(&key) {
            on(self.reply.name(), Notice::Joined);
        }
        let on = &mut |id: &str, event| on(id, Notice::Event(event));
        match verb {
            "started" => drop(self.reply.open(naming, on)),
            "delta" => {
                let delta = event.bytes("delta").unwrap_or_default();
                self.reply.delta(naming, delta, on);
            }
            "ended" => {
                let text = event.bytes("text").unwrap_or_default();
                self.reply.whole(naming, text, on);
                self.reply.end(&key, on);
            }
            _ => self.reply.unscanned(event.content(), verb, on),
        }
    }

    fn usage(&mut self, holder: &Json<'_>, on: EventSink<'_>) {
        if let Some(tokens) = holder.get("tokens") {
            let output = tokens.number("output");
            self.reply.usage(tokens.number("input"), output, on);
        }
    }
}

fn unscanned(bytes: u64, kind: &str) -> Notice {
    let kind = kind.to_owned();
    Notice::Event(Event::Unscanned { bytes, kind })
}
