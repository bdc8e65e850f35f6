//! The event stream of a running OpenCode server: bytes in, [`ServerNotice`]s out.
//!
//! Source: the event schemas of the OpenAPI document that a server serves at `/doc`, and captures of OpenCode 1.18.
//!
//! Two interfaces are read: the classic one (`/event`, and `/global/event`, which covers every directory) and the
//! second one (`/api/event`). A [`OpenCodeReader`] must read only one of them, because the classic one repeats the events of the
//! second. The second interface streams the input of a tool as deltas; the classic one sends it whole, when the tool
//! already runs. This module does no I/O and sends nothing.
//!
//! Bounds: [`sse::CAP`] bytes per event, 1024 sessions, 64 user messages per session.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::json::JsonValue;
use super::reply::{EventSink, PartSpec, RecentCalls, ReplyEmitter, TRUNCATED};
use super::sse::{self, Sse, SseEvent};
use ttsr::rule::ToolOutcome;
use ttsr::{Channel, Event};

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerNotice {
    /// A user message was created, by the user or by a program on the user's behalf.
    Prompt {
        /// Its id.
        message: String,
        /// The agent that it addresses, if the event names one.
        agent: Option<String>,
        /// The provider and the model that it addresses, if the event names them.
        model: Option<(String, String)>,
    },
    /// The model begins the message of that id; the parts of the events that follow are numbered from 0.
    Message(String),
    /// An event of the current message. [`Event::Finish`] is the last one; its reason is `retry` if the server asks the
    /// provider again, and `aborted` if the reply was stopped. If a session fails or is stopped before it has a
    /// message, that event comes alone.
    Event(Event),
    /// A tool call changed its stage. The tool's input comes as [`ServerNotice::Event`].
    Tool(ToolState),
    /// A question waits for an answer.
    Question {
        /// Its id.
        id: String,
        /// The questions as JSON, as the server wrote them.
        questions: Vec<u8>,
    },
    /// The question of that id was answered or rejected.
    QuestionClosed(String),
    /// The session waits for a prompt. Classic interface only; of the two idle events after an abort, the first.
    Idle,
    /// A repetition of [`ServerNotice::Idle`] without a reply in between. One abort of one session causes one.
    IdleAgain,
    /// A part of a user message. Classic interface only.
    PromptPart {
        /// The id of the message.
        message: String,
        /// The id of the part.
        part: String,
        /// Its text; empty for a part without text.
        text: String,
        /// True for text that a program added.
        is_synthetic: bool,
    },
    /// The next part that starts was open before its first event arrived, so its offsets count from the first byte
    /// received.
    Joined,
    /// A session was created.
    Created {
        /// The parent session, if this is the session of a sub-agent.
        parent: Option<String>,
        /// The agent of the session, if the event names one.
        agent: Option<String>,
        /// Its working directory.
        directory: Option<String>,
    },
    /// The session was deleted.
    Deleted,
    /// An assistant message was created, or has a new error. Classic interface only.
    Answer {
        /// The id of the message.
        message: String,
        /// The agent that writes it.
        agent: Option<String>,
        /// The provider and the model that write it.
        model: Option<(String, String)>,
        /// The error that ended it.
        error: Option<ServerError>,
    },
    /// The session failed (`session.error`).
    SessionError(ServerError),
    /// The server asks the provider again after a failure.
    Retrying {
        /// The description of the failure.
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
    /// A command for the server's terminal interface. It belongs to no session: the session id is empty.
    Command(String),
}

/// An error as the server describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    /// Its name, such as `APIError` or `MessageAbortedError`.
    pub kind: String,
    /// Its message.
    pub message: String,
    /// The HTTP status of the provider's response.
    pub status: Option<u16>,
}

impl ServerError {
    /// Returns true if the reply was stopped, by the user or by a program.
    #[must_use]
    pub fn is_abort(&self) -> bool {
        self.kind == "MessageAbortedError"
    }

    fn read(error: &JsonValue<'_>) -> ServerError {
        let kind = error.text("name").or(error.text("type"));
        let data = error.get("data").unwrap_or(error);
        ServerError {
            kind: kind.unwrap_or_default().into_owned(),
            message: data.text("message").unwrap_or_default().into_owned(),
            status: data
                .number("statusCode")
                .and_then(|it| u16::try_from(it).ok()),
        }
    }
}

/// The state of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolState {
    /// The id of the call.
    pub call: String,
    /// The tool's name; empty if the event does not repeat it.
    pub tool: String,
    /// The stage.
    pub stage: ToolStage,
    /// A short description: the server's title or, before there is one, the member `description` of the input.
    pub title: Option<String>,
}

/// A stage of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolStage {
    /// Its input is being written, or it waits to run.
    Pending,
    /// It runs.
    Running,
    /// It completed.
    Completed,
    /// It failed.
    Error,
}

/// Receives notices, each with the id of its session.
type NoticeSink<'a> = &'a mut dyn FnMut(&str, ServerNotice);

/// The most sessions that are tracked; past it the least recently active one is dropped.
const SESSIONS: usize = 1024;

/// The number of ids of user messages kept for each session.
const USERS: usize = 64;

/// Reads one event stream.
///
/// # Example: reasoning has the same field as text
/// ```
/// use ttsr_wire::opencode::{OpenCodeReader, ServerNotice};
/// use ttsr::{Channel, Event};
/// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"reasoning","text":""}}}
///
/// data: {"type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"Hm"}}
///
/// "#;
/// let mut notices = Vec::new();
/// OpenCodeReader::default().push(body, &mut |_, notice| notices.push(notice));
/// let ServerNotice::Event(Event::PartStart { channel, .. }) = &notices[1] else { panic!("a part opens") };
/// assert_eq!(*channel, Channel::Reasoning);
/// ```
#[derive(Debug)]
pub struct OpenCodeReader {
    sse: Sse,
    tracker: SessionTracker,
    /// The number of events that could not be read.
    malformed: u64,
}

impl Default for OpenCodeReader {
    fn default() -> OpenCodeReader {
        OpenCodeReader {
            sse: Sse::with_cap(sse::CAP),
            tracker: SessionTracker::default(),
            malformed: 0,
        }
    }
}

impl OpenCodeReader {
    /// Reads the next bytes of the stream, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(&str, ServerNotice)) {
        let OpenCodeReader {
            sse,
            tracker,
            malformed,
        } = self;
        sse.push(bytes, &mut |event| {
            *malformed += u64::from(!tracker.sse(event, on));
        });
    }

    /// Returns the number of events that could not be read. Each is reported as [`Event::Unscanned`] with an empty
    /// session id.
    #[must_use]
    pub fn malformed_events(&self) -> u64 {
        self.malformed
    }

    /// Ends the connection: replies in progress end as `truncated`, and the tracked state is dropped.
    ///
    /// # Example: a broken connection
    /// ```
    /// use ttsr::Event;
    /// use ttsr_wire::opencode::{OpenCodeReader, ServerNotice};
    /// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"text","text":"Hm"}}}
    ///
    /// "#;
    /// let mut notices = Vec::new();
    /// let mut feed = OpenCodeReader::default();
    /// feed.push(body, &mut |_, notice| notices.push(notice));
    /// feed.finish(&mut |_, notice| notices.push(notice));
    /// let end = ServerNotice::Event(Event::Finish { reason: "truncated".into() });
    /// assert_eq!(notices.last(), Some(&end));
    /// ```
    pub fn finish(&mut self, on: &mut dyn FnMut(&str, ServerNotice)) {
        let OpenCodeReader {
            sse,
            tracker,
            malformed,
        } = self;
        sse.finish(&mut |event| {
            *malformed += u64::from(!tracker.sse(event, on));
        });
        for session in &mut std::mem::take(tracker).sessions {
            session.finish(TRUNCATED, on);
        }
    }
}

#[derive(Debug, Default)]
struct SessionTracker {
    /// The most recently active session is last.
    sessions: VecDeque<OpenSession>,
}

#[derive(Debug)]
struct OpenSession {
    id: String,
    message: Option<TrackedMessage>,
    /// The message that ended last; further events of it do not begin a reply.
    ended: String,
    users: VecDeque<String>,
    idle: bool,
    /// The message of the last [`ServerNotice::Answer`], and whether its error was reported.
    answered: (String, bool),
}

#[derive(Debug)]
struct TrackedMessage {
    id: String,
    reply: ReplyEmitter,
    /// The calls of the second interface, whose results do not name the tool.
    calls: RecentCalls,
}

impl SessionTracker {
    /// Reads an event; returns false if it is malformed.
    fn sse(&mut self, event: SseEvent<'_>, on: NoticeSink<'_>) -> bool {
        let (data, lost) = match event {
            SseEvent::Message { data, .. } => (data, data.len() as u64),
            SseEvent::Stray(line) => (&[][..], line.len() as u64),
            SseEvent::Dropped { bytes } => (&[][..], bytes),
        };
        match JsonValue::parse(data) {
            Some((frame, _)) if frame.is_object() => {
                self.read_frame(&frame, on);
                true
            }
            _ => {
                on("", unscanned(lost, "malformed-json"));
                false
            }
        }
    }

    fn read_frame(&mut self, frame: &JsonValue<'_>, on: NoticeSink<'_>) {
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
            self.session(&id, on).read_event(&kind, event, on);
            if kind == "session.deleted" {
                self.sessions.pop_back();
            }
        } else if kind == "tui.command.execute" {
            let command = event.text("command").unwrap_or_default().into_owned();
            on("", ServerNotice::Command(command));
        }
    }

    fn session(&mut self, id: &str, on: NoticeSink<'_>) -> &mut OpenSession {
        let known = self.sessions.iter().rposition(|known| known.id == id);
        let session = known.and_then(|place| self.sessions.remove(place));
        let session = session.unwrap_or_else(|| OpenSession::new(id));
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

impl OpenSession {
    fn new(id: &str) -> OpenSession {
        OpenSession {
            id: id.to_owned(),
            message: None,
            ended: String::new(),
            users: VecDeque::new(),
            idle: false,
            answered: (String::new(), false),
        }
    }

    fn read_event(&mut self, kind: &str, event: &JsonValue<'_>, on: NoticeSink<'_>) {
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
                on(&self.id, ServerNotice::Deleted);
            }
            "permission.asked" => {
                let id = event.text("id").unwrap_or_default().into_owned();
                let call = event.get("tool").and_then(|tool| tool.text("callID"));
                let call = call.map(Cow::into_owned);
                on(&self.id, ServerNotice::Permission { id, call });
            }
            "permission.replied" => {
                let id = event.text("requestID").or(event.text("permissionID"));
                let id = id.unwrap_or_default().into_owned();
                on(&self.id, ServerNotice::PermissionClosed(id));
            }
            "question.asked" => {
                let id = event.text("id").unwrap_or_default().into_owned();
                let questions = event.get("questions").unwrap_or(event).raw().to_vec();
                on(&self.id, ServerNotice::Question { id, questions });
            }
            "question.replied" | "question.rejected" => {
                let id = event.text("requestID").or(event.text("id"));
                let id = id.unwrap_or_default().into_owned();
                on(&self.id, ServerNotice::QuestionClosed(id));
            }
            _ => match kind.strip_prefix("session.next.") {
                Some(step) => self.read_next_event(step, event, on),
                None if kind.starts_with("session.") || kind.starts_with("message.") => {}
                None => on(&self.id, unscanned(event.content(), kind)),
            },
        }
    }

    /// Reads `message.updated`, which names the author of a message before its parts come.
    fn message_updated(&mut self, event: &JsonValue<'_>, on: NoticeSink<'_>) {
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
            let prompt = ServerNotice::Prompt {
                message: id,
                agent,
                model,
            };
            on(&self.id, prompt);
        }
    }

    /// Reports an assistant message once when it is new, and once more when it has an error.
    fn answer(&mut self, id: &str, info: &JsonValue<'_>, on: NoticeSink<'_>) {
        let error = info.get("error").map(ServerError::read);
        let is_new = self.answered.0 != id;
        if !is_new && (error.is_none() || self.answered.1) {
            return;
        }
        self.answered = (id.to_owned(), error.is_some());
        let answer = ServerNotice::Answer {
            message: id.to_owned(),
            agent: info.text("agent").map(Cow::into_owned),
            model: model(info),
            error,
        };
        on(&self.id, answer);
    }

    fn created(&self, event: &JsonValue<'_>, on: NoticeSink<'_>) {
        let info = event.get("info").unwrap_or(event);
        let owned = |name: &str| info.text(name).map(Cow::into_owned);
        let created = ServerNotice::Created {
            parent: owned("parentID"),
            agent: owned("agent").or_else(|| owned("agentName")),
            directory: owned("directory"),
        };
        on(&self.id, created);
    }

    /// Returns the message of that id, and begins it if it is new; `None` if it is a user's or has ended.
    fn message(&mut self, id: &str, on: NoticeSink<'_>) -> Option<&mut TrackedMessage> {
        if self.users.iter().any(|user| user == id) || self.ended == id {
            return None;
        }
        if self.message.as_ref().is_none_or(|message| message.id != id) {
            self.finish("next message", on);
            self.idle = false;
            on(&self.id, ServerNotice::Message(id.to_owned()));
            self.message = Some(TrackedMessage {
                id: id.to_owned(),
                reply: ReplyEmitter::new(self.id.clone()),
                calls: RecentCalls::default(),
            });
        }
        self.message.as_mut()
    }

    fn finish(&mut self, reason: &str, on: NoticeSink<'_>) {
        if let Some(message) = self.message.take() {
            self.ended = message.id;
            message.reply.finish(reason, &mut |id, event, _| {
                on(id, ServerNotice::Event(event))
            });
        }
    }

    fn part_updated(&mut self, event: &JsonValue<'_>, on: NoticeSink<'_>) {
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
            let prompt = ServerNotice::PromptPart {
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
            on(&session, ServerNotice::Tool(state));
        }
        let on = &mut |id: &str, event, _| on(id, ServerNotice::Event(event));
        match part.text("type").unwrap_or_default().as_ref() {
            "text" => message.read_text_part(&id, Channel::Text, part, on),
            "reasoning" => message.read_text_part(&id, Channel::Reasoning, part, on),
            "tool" => message.read_tool_part(&id, part, on),
            "step-finish" => {
                let reason = part.text("reason").map(|reason| reason.into_owned());
                message.reply.reason = message.reply.reason.take().or(reason);
                message.usage(part, on);
            }
            "step-start" | "snapshot" | "patch" => {}
            kind => message.reply.count_unread(part, &[], kind, on),
        }
    }

    fn part_delta(&mut self, event: &JsonValue<'_>, on: NoticeSink<'_>) {
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
            on(&session, ServerNotice::Joined);
        }
        let on = &mut |id: &str, event, _| on(id, ServerNotice::Event(event));
        let delta = event.bytes("delta").unwrap_or_default();
        match (field.as_deref(), known) {
            (Some("text"), Some(channel)) => {
                message
                    .reply
                    .push_delta(PartSpec::new(&id, &id, channel), delta, on);
            }
            // The part opened before the first event arrived. Its kind is unknown; it is scanned as text.
            (Some("text"), None) => {
                message.reply.count_unknown(0, "part-of-unknown-kind", on);
                message
                    .reply
                    .push_delta(PartSpec::new(&id, &id, Channel::Text), delta, on);
            }
            (field, _) => {
                let kind = field.unwrap_or("message.part.delta");
                message.reply.count_unscanned(delta.len() as u64, kind, on);
            }
        }
    }

    fn status(&mut self, event: &JsonValue<'_>, on: NoticeSink<'_>) {
        let status = event.get("status").and_then(|status| status.text("type"));
        if status.as_deref() == Some("retry") {
            let message = event
                .get("status")
                .and_then(|status| status.text("message"));
            let message = message.unwrap_or_default().into_owned();
            on(&self.id, ServerNotice::Retrying { message });
            if let Some(message) = &mut self.message {
                message.reply.reason = Some("retry".to_owned());
            }
            self.finish("retry", on);
            // The next attempt writes into the same message.
            self.ended.clear();
        }
    }

    fn failed(&mut self, event: &JsonValue<'_>, on: NoticeSink<'_>) {
        let Some(error) = event.get("error") else {
            return;
        };
        let error = ServerError::read(error);
        let is_abort = error.is_abort();
        on(&self.id, ServerNotice::SessionError(error.clone()));
        let ServerError {
            kind,
            message: text,
            ..
        } = error;
        match &mut self.message {
            Some(message) if is_abort => message.reply.reason = Some("aborted".to_owned()),
            Some(message) => {
                let on = &mut |id: &str, event, _| on(id, ServerNotice::Event(event));
                message.reply.error(&kind, &text, on);
            }
            None if is_abort => {
                let reason = "aborted".to_owned();
                on(&self.id, ServerNotice::Event(Event::Finish { reason }));
            }
            None => {
                let message = text;
                on(
                    &self.id,
                    ServerNotice::Event(Event::Error { kind, message }),
                );
            }
        }
    }

    fn idle(&mut self, on: NoticeSink<'_>) {
        self.finish("idle", on);
        let notice = match std::mem::replace(&mut self.idle, true) {
            false => ServerNotice::Idle,
            true => ServerNotice::IdleAgain,
        };
        on(&self.id, notice);
    }

    /// Reads an event of the second interface.
    fn read_next_event(&mut self, step: &str, event: &JsonValue<'_>, on: NoticeSink<'_>) {
        if step == "prompted" {
            let prompt = ServerNotice::Prompt {
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
        if let ("tool", Some(stage)) = (stem, ToolStage::from_verb(verb)) {
            let state = ToolState::new(stage, event, event.get("input"), None);
            on(&session, ServerNotice::Tool(state));
            let on = &mut |id: &str, event, _| on(id, ServerNotice::Event(event));
            return message.read_tool_stage(stage, event, on);
        }
        match (stem, verb) {
            ("text", _) => message.read_part_event("textID", Channel::Text, verb, event, on),
            ("reasoning", _) => {
                message.read_part_event("reasoningID", Channel::Reasoning, verb, event, on)
            }
            ("tool.input", _) => {
                message.read_part_event("callID", Channel::ToolInput, verb, event, on)
            }
            ("step", "ended") => {
                let reason = event.text("finish").map(|reason| reason.into_owned());
                message.reply.reason = reason;
                message.usage(event, &mut |id, event, _| {
                    on(id, ServerNotice::Event(event))
                });
                self.finish("step", on);
            }
            ("step", "failed") => {
                self.failed(event, on);
                self.finish("error", on);
            }
            ("step" | "tool", _) => {}
            _ => {
                let on = &mut |id: &str, event, _| on(id, ServerNotice::Event(event));
                message.reply.count_unread(event, &[], step, on);
            }
        }
    }
}

/// Returns the provider and the model that `holder` names.
fn model(holder: &JsonValue<'_>) -> Option<(String, String)> {
    let provider = holder.text("providerID")?.into_owned();
    Some((provider, holder.text("modelID")?.into_owned()))
}

/// Returns the state of the tool call in a part of the classic interface, if the part is one.
fn tool_state(part: &JsonValue<'_>) -> Option<ToolState> {
    let state = part.get("state")?;
    let stage = match state.text("status")?.as_ref() {
        "pending" => ToolStage::Pending,
        "running" => ToolStage::Running,
        "completed" => ToolStage::Completed,
        "error" => ToolStage::Error,
        _ => return None,
    };
    let title = state.text("title");
    Some(ToolState::new(stage, part, state.get("input"), title))
}

impl ToolState {
    fn new(
        stage: ToolStage,
        call: &JsonValue<'_>,
        input: Option<&JsonValue<'_>>,
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

impl ToolStage {
    /// Returns the stage for a verb of the second interface.
    fn from_verb(verb: &str) -> Option<ToolStage> {
        match verb {
            "called" => Some(ToolStage::Running),
            "success" => Some(ToolStage::Completed),
            "failed" => Some(ToolStage::Error),
            _ => None,
        }
    }
}

impl TrackedMessage {
    /// Reads text or reasoning of the classic interface at its start or end.
    fn read_text_part(
        &mut self,
        id: &str,
        channel: Channel,
        part: &JsonValue<'_>,
        on: EventSink<'_>,
    ) {
        let spec = PartSpec::new(id, id, channel);
        if self.reply.delivered(id).is_none() {
            self.reply.open(spec, on);
        }
        let text = part.bytes("text").unwrap_or_default();
        self.reply.push_whole(spec, text, on);
        if part
            .get("time")
            .is_some_and(|time| time.get("end").is_some())
        {
            self.reply.end(id, on);
        }
    }

    /// Reads a tool call of the classic interface, which has its input once it runs.
    fn read_tool_part(&mut self, id: &str, part: &JsonValue<'_>, on: EventSink<'_>) {
        let (tool, call) = (part.text("tool"), part.text("callID"));
        let spec = PartSpec {
            tool: tool.as_deref(),
            call: call.as_deref(),
            ..PartSpec::new(id, id, Channel::ToolInput)
        };
        if self.reply.delivered(id).is_none() {
            self.reply.open(spec, on);
        }
        let Some(state) = part.get("state") else {
            return;
        };
        let status = state.text("status");
        if self.reply.is_open(id) && status.as_deref() != Some("pending") {
            match state.get("input") {
                Some(input) if !input.members().is_empty() => {
                    self.reply.push_whole(spec, input.raw(), on)
                }
                _ => {}
            }
            self.reply.end(id, on);
        }
        let (outcome, output) = match status.as_deref() {
            Some("completed") => (ToolOutcome::Ok, state.bytes("output")),
            Some("error") => (ToolOutcome::Error, state.bytes("error")),
            _ => return,
        };
        self.read_output(spec, outcome, output.unwrap_or_default(), on);
    }

    /// Reads the output of the tool call in the part `input`, as a part of its own.
    fn read_output(
        &mut self,
        input: PartSpec<'_>,
        outcome: ToolOutcome,
        output: &[u8],
        on: EventSink<'_>,
    ) {
        let (key, name) = (
            format!("{}/output", input.key),
            format!("{}/output", input.name),
        );
        let spec = PartSpec {
            key: &key,
            name: &name,
            channel: Channel::ToolOutput,
            ..input
        };
        self.reply.push_output(spec, outcome, output, on);
    }

    /// Reads a stage of a tool call in the second interface, which reports the output with the last one.
    fn read_tool_stage(&mut self, stage: ToolStage, event: &JsonValue<'_>, on: EventSink<'_>) {
        let call = event.text("callID").unwrap_or_default();
        self.calls
            .record(Some(&call), event.text("tool").as_deref());
        let mut output = Vec::new();
        let outcome = match stage {
            ToolStage::Pending | ToolStage::Running => return,
            ToolStage::Completed => {
                for item in event.list("content") {
                    output.extend_from_slice(item.bytes("text").unwrap_or_default());
                }
                ToolOutcome::Ok
            }
            ToolStage::Error => {
                let error = event.get("error");
                let message = error.and_then(|error| error.bytes("message"));
                output.extend_from_slice(message.unwrap_or_default());
                ToolOutcome::Error
            }
        };
        let tool = self.calls.tool_of(&call).map(str::to_owned);
        let key = format!("{}:{call}", Channel::ToolInput.name());
        let input = PartSpec {
            tool: tool.as_deref(),
            call: Some(&call),
            ..PartSpec::new(&key, &call, Channel::ToolInput)
        };
        self.read_output(input, outcome, &output, on);
    }

    /// Reads an event of a part in the second interface: `started`, `delta` or `ended`.
    fn read_part_event(
        &mut self,
        named: &str,
        channel: Channel,
        verb: &str,
        event: &JsonValue<'_>,
        on: NoticeSink<'_>,
    ) {
        let name = event.text(named).unwrap_or_default();
        let key = format!("{}:{name}", channel.name());
        let tool = event.text("name");
        if channel == Channel::ToolInput {
            self.calls.record(Some(&name), tool.as_deref());
        }
        let spec = PartSpec {
            tool: tool.as_deref(),
            call: (channel == Channel::ToolInput).then_some(&*name),
            ..PartSpec::new(&key, &name, channel)
        };
        if verb == "delta" && !self.reply.is_open(&key) {
            on(self.reply.name(), ServerNotice::Joined);
        }
        let on = &mut |id: &str, event, _| on(id, ServerNotice::Event(event));
        match verb {
            "started" => drop(self.reply.open(spec, on)),
            "delta" => {
                let delta = event.bytes("delta").unwrap_or_default();
                self.reply.push_delta(spec, delta, on);
            }
            "ended" => {
                let text = event.bytes("text").unwrap_or_default();
                self.reply.push_whole(spec, text, on);
                self.reply.end(&key, on);
            }
            _ => self.reply.count_unread(event, &[], verb, on),
        }
    }

    fn usage(&mut self, holder: &JsonValue<'_>, on: EventSink<'_>) {
        if let Some(tokens) = holder.get("tokens") {
            let output = tokens.number("output");
            self.reply.usage(tokens.number("input"), output, on);
        }
    }
}

fn unscanned(bytes: u64, kind: &str) -> ServerNotice {
    let kind = kind.to_owned();
    ServerNotice::Event(Event::Unscanned { bytes, kind })
}
