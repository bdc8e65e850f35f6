//! One prompt, from the moment it is sent to the whole reply: events and time in, things to do out.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::RouterSettings;
use crate::question::QuestionRequest;
use ttsr::harness::is_truncation;

/// What is sent where the agent said nothing.
pub const EMPTY: &str = "(empty response)";

/// What stands below a reply that the model could not finish, because it reached a limit of its length.
pub const TRUNCATED: &str = "(The reply is cut off: the model reached its length limit.)";

/// The reply to `/cancel`.
pub const CANCELLED: &str = "Cancelled.";

/// What the user is told where a question that they were asked was answered or rejected by somebody else.
pub const CLOSED_ELSEWHERE: &str = "The question was closed elsewhere. No answer is needed.";

/// What an agent's server says. It says so for every session at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentEvent {
    /// A message exists; parts of the user's own messages are no reply.
    Message {
        /// The session.
        session: String,
        /// The message.
        message: String,
        /// Whether the user wrote it.
        is_user: bool,
    },
    /// A part as it is now: a snapshot.
    Part {
        /// The session.
        session: String,
        /// The message that it is of.
        message: String,
        /// The part.
        part: String,
        /// What is in it.
        content: AgentPart,
    },
    /// A part grew. Of reasoning this says `text`, too: what it is, its snapshot says.
    Delta {
        /// The session.
        session: String,
        /// The message that it is of.
        message: String,
        /// The part.
        part: String,
        /// The field that grew.
        field: String,
        /// By what.
        delta: String,
    },
    /// The agent waits for an answer.
    Question {
        /// The session.
        session: String,
        /// What it wants to know.
        request: QuestionRequest,
    },
    /// Questions that the agent asked were answered or rejected, by whomever.
    QuestionClosed {
        /// The session.
        session: String,
        /// The request that they were asked in.
        request: String,
    },
    /// The model stopped writing a message.
    Stopped {
        /// The session.
        session: String,
        /// The message.
        message: String,
        /// The reason, as the server names it: `stop`, `tool-calls`, `length`, …
        reason: String,
    },
    /// The agent is done.
    Idle {
        /// The session.
        session: String,
    },
    /// The agent cannot go on, or was told not to.
    Failed {
        /// The session.
        session: String,
        /// Whether somebody aborted it.
        is_abort: bool,
        /// What went wrong.
        message: String,
    },
}

/// What is in a part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentPart {
    /// Text of the reply, all there is so far.
    Text(String),
    /// Reasoning.
    Reasoning,
    /// A tool call.
    Tool {
        /// The tool's name.
        tool: String,
        /// The id of the call.
        call: String,
        /// How far it is.
        status: ToolStatus,
        /// What it does, in a few words.
        title: Option<String>,
    },
    /// Anything else.
    Other,
}

/// How far a tool call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolStatus {
    /// It is being written, or waits.
    Pending,
    /// It runs.
    Running,
    /// It is done.
    Completed,
    /// It failed.
    Error,
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Do {
    /// Show that somebody writes, where the channel can.
    Typing,
    /// Read the events of the server from now on.
    Subscribe,
    /// Send the prompt, and do not wait for its reply.
    Prompt,
    /// Send this to the user.
    Note(String),
    /// Send this to the user; the next message is the answer. Where it cannot be sent,
    /// [`Prompting::not_asked`].
    Ask {
        /// The request.
        request: String,
        /// What the user is shown.
        text: String,
    },
    /// Answer the questions of that request.
    Answer {
        /// The request.
        request: String,
        /// The answers, one list for each question.
        answers: Vec<Vec<String>>,
    },
    /// Reject the questions of that request: nobody answered.
    Reject {
        /// The request.
        request: String,
    },
    /// Tell the agent to stop.
    Abort,
    /// Read no more events.
    Unsubscribe,
    /// The prompt is over: deliver the whole reply, as one message, or tell the user why there is none.
    Done(Result<String, PromptError>),
    /// The last thing to do, once the reply is delivered: show no longer that somebody writes.
    StopTyping,
}

/// Why there is no reply.
///
/// # Example: what a user is told
/// ```
/// use ttsr_agent::progress::PromptError;
/// let failed = PromptError::Failed("connection refused".into());
/// assert_eq!(failed.to_string(), "connection refused", "for a log");
/// assert_eq!(failed.text(), Some("Something went wrong while the agent was working."));
/// assert_eq!(PromptError::Aborted.text(), None, "they know");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptError {
    /// It took too long.
    Timeout,
    /// Somebody aborted it.
    Aborted,
    /// The agent or its server failed.
    Failed(String),
}

impl PromptError {
    /// What the user is told; nothing where the user did it.
    #[must_use]
    pub fn text(&self) -> Option<&'static str> {
        match self {
            PromptError::Timeout => Some("Request timed out. The agent took too long to respond."),
            PromptError::Aborted => None,
            PromptError::Failed(_) => Some("Something went wrong while the agent was working."),
        }
    }
}

impl fmt::Display for PromptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PromptError::Timeout => f.write_str("timeout"),
            PromptError::Aborted => f.write_str("aborted"),
            PromptError::Failed(message) => f.write_str(message),
        }
    }
}

impl Error for PromptError {}

/// One prompt under way. All times count from its beginning.
///
/// # Example: a tool runs, and then the reply comes
/// ```
/// use std::time::Duration;
/// use ttsr_agent::progress::{AgentEvent, AgentPart, Do, Prompting, RouterSettings, ToolStatus};
/// let mut out = Vec::new();
/// let mut prompting = Prompting::begin("ses_1", RouterSettings::default(), &mut out);
/// assert_eq!(out, [Do::Typing, Do::Subscribe, Do::Prompt]);
/// out.clear();
/// let part = |part: &str, content| AgentEvent::Part {
///     session: "ses_1".into(),
///     message: "msg_1".into(),
///     part: part.into(),
///     content,
/// };
/// let reads = AgentPart::Tool {
///     tool: "read".into(),
///     call: "call_1".into(),
///     status: ToolStatus::Running,
///     title: Some("Reading src/lib.rs".into()),
/// };
/// prompting.see(Duration::ZERO, &part("prt_1", reads), &mut out);
/// prompting.see(Duration::ZERO, &part("prt_2", AgentPart::Text("Done.".into())), &mut out);
/// prompting.see(Duration::ZERO, &AgentEvent::Idle { session: "ses_1".into() }, &mut out);
/// assert_eq!(out[0], Do::Note("🔧 Reading src/lib.rs...".into()));
/// assert_eq!(out[out.len() - 2..], [Do::Done(Ok("Done.".into())), Do::StopTyping]);
/// ```
#[derive(Debug)]
pub struct Prompting {
    session: String,
    settings: RouterSettings,
    now: Duration,
    /// When the user heard something last.
    heard: Duration,
    noted: Option<Duration>,
    /// Calls that had their note, or would have had.
    seen_calls: HashSet<String>,
    users: HashSet<String>,
    parts: Vec<Part>,
    /// The message that the model stopped writing at its limit, if that was the last one.
    truncated: Option<String>,
    /// What the agent wants to know; the first one is before the user.
    questions: Vec<QuestionRequest>,
    /// Since when the user is asked.
    asked: Option<Duration>,
    /// For how long the clock stood still.
    paused: Duration,
    is_over: bool,
}

#[derive(Debug)]
struct Part {
    message: String,
    id: String,
    /// None until its snapshot says what it is.
    is_text: Option<bool>,
    text: String,
}

impl Prompting {
    /// Begins: typing is shown at once, and events are read before the prompt is sent, so that none is
    /// missed.
    pub fn begin(
        session: impl Into<String>,
        settings: RouterSettings,
        out: &mut Vec<Do>,
    ) -> Prompting {
        out.extend([Do::Typing, Do::Subscribe, Do::Prompt]);
        Prompting {
            session: session.into(),
            settings,
            now: Duration::ZERO,
            heard: Duration::ZERO,
            noted: None,
            seen_calls: HashSet::new(),
            users: HashSet::new(),
            parts: Vec::new(),
            truncated: None,
            questions: Vec::new(),
            asked: None,
            paused: Duration::ZERO,
            is_over: false,
        }
    }

    /// Takes an event. Those of other sessions change nothing.
    pub fn see(&mut self, now: Duration, event: &AgentEvent, out: &mut Vec<Do>) {
        self.tick(now, out);
        if self.is_over || *event.session() != self.session {
            return;
        }
        match event {
            AgentEvent::Message {
                message, is_user, ..
            } => {
                if *is_user {
                    self.users.insert(message.clone());
                }
                self.writes(message);
            }
            AgentEvent::Part {
                message,
                part,
                content,
                ..
            } => self.part(message, part, content, out),
            AgentEvent::Delta {
                message,
                part,
                field,
                delta,
                ..
            } => {
                if field == "text" {
                    self.place(message, part).text.push_str(delta);
                }
            }
            AgentEvent::Question { request, .. } => self.question(request, out),
            AgentEvent::QuestionClosed { request, .. } => self.closed(request, out),
            AgentEvent::Stopped {
                message, reason, ..
            } => self.truncated = is_truncation(reason).then(|| message.clone()),
            AgentEvent::Idle { .. } => self.end(Ok(self.text()), out),
            AgentEvent::Failed { is_abort: true, .. } => self.end(Err(PromptError::Aborted), out),
            AgentEvent::Failed { message, .. } => {
                self.end(Err(PromptError::Failed(message.clone())), out);
            }
        }
    }

    /// Time has passed: it may be too late, or time for a heartbeat.
    ///
    /// # Example: an agent that says nothing
    /// ```
    /// use ttsr_agent::progress::{Do, PromptError, Prompting, RouterSettings};
    /// let mut out = Vec::new();
    /// let mut prompting = Prompting::begin("ses_1", RouterSettings::default(), &mut out);
    /// while !prompting.is_over() {
    ///     prompting.tick(prompting.deadline(), &mut out);
    /// }
    /// assert!(out.contains(&Do::Note("⏳ Still working...".into())), "meanwhile the user hears of it");
    /// assert!(out.contains(&Do::Abort));
    /// assert!(out.contains(&Do::Done(Err(PromptError::Timeout))));
    /// ```
    pub fn tick(&mut self, now: Duration, out: &mut Vec<Do>) {
        self.now = self.now.max(now);
        if self.is_over {
            return;
        }
        if let Some(asked) = self.asked {
            if self.now >= asked.saturating_add(self.timeout()) {
                self.reject(out);
            }
            return;
        }
        if self.now >= self.timeout().saturating_add(self.paused) {
            out.push(Do::Abort);
            return self.end(Err(PromptError::Timeout), out);
        }
        let is_silent = self.now >= self.heard.saturating_add(self.heartbeat());
        if self.settings.progress().is_enabled() && is_silent {
            self.heard = self.now;
            out.extend([Do::Typing, Do::Note("⏳ Still working...".to_owned())]);
        }
    }

    /// Until when to wait before the next [`tick`](Self::tick).
    #[must_use]
    pub fn deadline(&self) -> Duration {
        match self.asked {
            None if self.settings.progress().is_enabled() => {
                let heartbeat = self.heard.saturating_add(self.heartbeat());
                heartbeat.min(self.limit())
            }
            _ => self.limit(),
        }
    }

    /// Returns the time at which the prompt times out or, while the user is asked, the question.
    pub(super) fn limit(&self) -> Duration {
        let since = self.asked.unwrap_or(self.paused);
        since.saturating_add(self.timeout())
    }

    /// Whether the prompt is over: nothing changes any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the user's next message is an answer.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns the request whose questions are before the user.
    pub(super) fn asking(&self) -> Option<&str> {
        let first = self.questions.first().filter(|_| self.is_asking());
        first.map(|request| request.id.as_str())
    }

    /// The user answered: all questions of the request that is before them.
    ///
    /// # Example: a question, and then the reply
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{AgentEvent, Do, Prompting, RouterSettings};
    /// use ttsr_agent::question::{Question, QuestionRequest};
    /// let mut out = Vec::new();
    /// let mut prompting = Prompting::begin("ses_1", RouterSettings::default(), &mut out);
    /// let question = Question { text: "Which one?".into(), ..Question::default() };
    /// let request = QuestionRequest { id: "que_1".into(), questions: vec![question] };
    /// let asks = AgentEvent::Question { session: "ses_1".into(), request };
    /// prompting.see(Duration::ZERO, &asks, &mut out);
    /// assert!(prompting.is_asking());
    /// prompting.answer(Duration::from_secs(1), "the red one", &mut out);
    /// let answers = vec![vec!["the red one".to_owned()]];
    /// assert!(out.contains(&Do::Answer { request: "que_1".into(), answers }));
    /// assert!(!prompting.is_asking());
    /// ```
    pub fn answer(&mut self, now: Duration, text: &str, out: &mut Vec<Do>) {
        self.now = self.now.max(now);
        if self.asked.is_none() || self.is_over {
            return;
        }
        let request = self.questions.remove(0);
        out.push(Do::Answer {
            answers: request.answers(text),
            request: request.id,
        });
        self.asked_no_more(out);
    }

    /// The questions of that request could not be sent to the user: they are rejected at once, and the agent
    /// goes on.
    ///
    /// # Example: a chat that is gone
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{AgentEvent, Do, Prompting, RouterSettings};
    /// use ttsr_agent::question::QuestionRequest;
    /// let mut out = Vec::new();
    /// let mut prompting = Prompting::begin("ses_1", RouterSettings::default(), &mut out);
    /// let request = QuestionRequest { id: "que_1".into(), ..QuestionRequest::default() };
    /// let asks = AgentEvent::Question { session: "ses_1".into(), request };
    /// prompting.see(Duration::ZERO, &asks, &mut out);
    /// prompting.not_asked(Duration::ZERO, "que_1", &mut out);
    /// assert_eq!(out.last(), Some(&Do::Reject { request: "que_1".into() }));
    /// assert!(!prompting.is_asking());
    /// ```
    pub fn not_asked(&mut self, now: Duration, request: &str, out: &mut Vec<Do>) {
        self.now = self.now.max(now);
        if self.asking() == Some(request) {
            self.reject(out);
        }
    }

    /// The user wants no more of it, and is told that they were heard.
    ///
    /// # Example: the user has enough
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{Do, PromptError, Prompting, RouterSettings};
    /// let mut prompting = Prompting::begin("ses_1", RouterSettings::default(), &mut Vec::new());
    /// let mut out = Vec::new();
    /// prompting.cancel(Duration::ZERO, &mut out);
    /// assert_eq!(out[..2], [Do::Abort, Do::Note("Cancelled.".into())]);
    /// assert!(out.contains(&Do::Done(Err(PromptError::Aborted))));
    /// ```
    pub fn cancel(&mut self, now: Duration, out: &mut Vec<Do>) {
        self.now = self.now.max(now);
        if !self.is_over {
            out.extend([Do::Abort, Do::Note(CANCELLED.to_owned())]);
            self.end(Err(PromptError::Aborted), out);
        }
    }

    /// The events ended without the agent being done: what there is, is the reply.
    ///
    /// # Example: half a reply
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{AgentEvent, AgentPart, Do, Prompting, RouterSettings};
    /// let mut out = Vec::new();
    /// let mut prompting = Prompting::begin("ses_1", RouterSettings::default(), &mut out);
    /// let half = AgentEvent::Part {
    ///     session: "ses_1".into(),
    ///     message: "msg_1".into(),
    ///     part: "prt_1".into(),
    ///     content: AgentPart::Text("Once upon".into()),
    /// };
    /// prompting.see(Duration::ZERO, &half, &mut out);
    /// prompting.disconnected(Duration::ZERO, &mut out);
    /// assert!(out.contains(&Do::Done(Ok("Once upon".into()))));
    /// ```
    pub fn disconnected(&mut self, now: Duration, out: &mut Vec<Do>) {
        self.now = self.now.max(now);
        self.end(Ok(self.text()), out);
    }

    /// The prompt could not be sent, or the events not be read.
    ///
    /// # Example: a server that is not there
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{Do, PromptError, Prompting, RouterSettings};
    /// let mut out = Vec::new();
    /// let mut prompting = Prompting::begin("ses_1", RouterSettings::default(), &mut out);
    /// prompting.failed(Duration::ZERO, "connection refused", &mut out);
    /// let error = PromptError::Failed("connection refused".into());
    /// assert!(out.contains(&Do::Done(Err(error))));
    /// ```
    pub fn failed(&mut self, now: Duration, message: impl Into<String>, out: &mut Vec<Do>) {
        self.now = self.now.max(now);
        self.end(Err(PromptError::Failed(message.into())), out);
    }

    fn part(&mut self, message: &str, id: &str, content: &AgentPart, out: &mut Vec<Do>) {
        let part = self.place(message, id);
        part.is_text = Some(matches!(content, AgentPart::Text(_)));
        match content {
            AgentPart::Text(text) => part.text.clone_from(text),
            AgentPart::Tool {
                call,
                status: ToolStatus::Running,
                title: Some(title),
                ..
            } => self.tool_runs(call, title, out),
            _ => {}
        }
    }

    fn tool_runs(&mut self, call: &str, title: &str, out: &mut Vec<Do>) {
        let is_new = !title.is_empty() && self.seen_calls.insert(call.to_owned());
        let throttle = Duration::from_millis(self.settings.progress().tool_throttle_ms());
        let is_soon = |noted: Duration| self.now < noted.saturating_add(throttle);
        if !self.settings.progress().is_enabled() || !is_new || self.noted.is_some_and(is_soon) {
            return;
        }
        self.noted = Some(self.now);
        self.heard = self.now;
        out.push(Do::Note(format!("🔧 {title}...")));
    }

    fn question(&mut self, request: &QuestionRequest, out: &mut Vec<Do>) {
        if !self.settings.progress().is_enabled() {
            // Nobody forwards it, so the agent must not wait for it.
            return out.push(Do::Reject {
                request: request.id.clone(),
            });
        }
        if self.questions.iter().any(|known| known.id == request.id) {
            return;
        }
        self.questions.push(request.clone());
        if self.asked.is_none() {
            self.ask(out);
        }
    }

    fn ask(&mut self, out: &mut Vec<Do>) {
        if let Some(request) = self.questions.first() {
            self.asked = Some(self.now);
            out.push(Do::Ask {
                request: request.id.clone(),
                text: request.text(),
            });
        }
    }

    /// Somebody else answered or rejected a request, or what was answered here is told back.
    fn closed(&mut self, request: &str, out: &mut Vec<Do>) {
        let is_asked = self.asking() == Some(request);
        self.questions.retain(|known| known.id != request);
        if is_asked {
            out.push(Do::Note(CLOSED_ELSEWHERE.to_owned()));
            self.asked_no_more(out);
        }
    }

    fn reject(&mut self, out: &mut Vec<Do>) {
        let request = self.questions.remove(0).id;
        out.push(Do::Reject { request });
        self.asked_no_more(out);
    }

    /// The clock goes on, unless there is more to ask.
    fn asked_no_more(&mut self, out: &mut Vec<Do>) {
        let asked = self.asked.take().unwrap_or(self.now);
        self.paused = self.paused.saturating_add(self.now.saturating_sub(asked));
        self.heard = self.now;
        self.ask(out);
    }

    fn end(&mut self, result: Result<String, PromptError>, out: &mut Vec<Do>) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        self.asked = None;
        let open = std::mem::take(&mut self.questions).into_iter();
        out.extend(open.map(|request| Do::Reject {
            request: request.id,
        }));
        out.extend([Do::Unsubscribe, Do::Done(result), Do::StopTyping]);
    }

    /// Text of the reply, part after part.
    fn text(&self) -> String {
        let parts = self.parts.iter();
        let own = parts.filter(|part| !self.users.contains(&part.message));
        let texts = own.filter(|part| part.is_text != Some(false));
        let text: String = texts.map(|part| part.text.as_str()).collect();
        let text = match text.trim() {
            "" => EMPTY.to_owned(),
            _ => text,
        };
        match self.truncated {
            Some(_) => format!("{}\n\n{TRUNCATED}", text.trim_end()),
            None => text,
        }
    }

    /// A message is being written: what the one before it lacks does not matter any more.
    fn writes(&mut self, message: &str) {
        let is_written = |known: &String| known == message || self.users.contains(message);
        self.truncated = self.truncated.take().filter(is_written);
    }

    fn place(&mut self, message: &str, id: &str) -> &mut Part {
        self.writes(message);
        let known = self.parts.iter().position(|part| part.id == id);
        let index = known.unwrap_or_else(|| {
            self.parts.push(Part {
                message: message.to_owned(),
                id: id.to_owned(),
                is_text: None,
                text: String::new(),
            });
            self.parts.len() - 1
        });
        &mut self.parts[index]
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.settings.timeout_ms())
    }

    fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.settings.progress().heartbeat_ms())
    }
}

impl AgentEvent {
    fn session(&self) -> &String {
        match self {
            AgentEvent::Message { session, .. }
            | AgentEvent::Part { session, .. }
            | AgentEvent::Delta { session, .. }
            | AgentEvent::Question { session, .. }
            | AgentEvent::QuestionClosed { session, .. }
            | AgentEvent::Stopped { session, .. }
            | AgentEvent::Idle { session }
            | AgentEvent::Failed { session, .. } => session,
        }
    }
}
