//! The state machine of one prompt, from the start to the whole reply: events and times in, actions out.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::RouterSettings;
use crate::user_prompt::QuestionRequest;
use ttsr::harness::is_truncation;

/// The reply if the agent wrote no text.
pub const EMPTY: &str = "(empty response)";

/// The note below a reply that reached the model's length limit.
pub const TRUNCATED: &str = "(The reply is cut off: the model reached its length limit.)";

/// The reply to `/cancel`.
pub const CANCELLED: &str = "Cancelled.";

/// The note to a user whose question was answered or rejected elsewhere.
pub const CLOSED_ELSEWHERE: &str = "The question was closed elsewhere. No answer is needed.";

/// An event of an agent's server. The server sends the events of every session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentEvent {
    /// A message was created. Parts of the user's own messages are not part of the reply.
    Message {
        /// The session.
        session: String,
        /// The message.
        message: String,
        /// True if the user wrote it.
        is_user: bool,
    },
    /// A snapshot of a part.
    Part {
        /// The session.
        session: String,
        /// The message of the part.
        message: String,
        /// The part.
        part: String,
        /// The content.
        content: AgentPart,
    },
    /// A part grew. The field of reasoning is `text` too; only its snapshot identifies it as reasoning.
    Delta {
        /// The session.
        session: String,
        /// The message of the part.
        message: String,
        /// The part.
        part: String,
        /// The field that grew.
        field: String,
        /// The appended text.
        delta: String,
    },
    /// The agent waits for an answer.
    Question {
        /// The session.
        session: String,
        /// The questions.
        request: QuestionRequest,
    },
    /// A question request was answered or rejected, here or elsewhere.
    QuestionClosed {
        /// The session.
        session: String,
        /// The request.
        request: String,
    },
    /// The model stopped writing a message.
    Stopped {
        /// The session.
        session: String,
        /// The message.
        message: String,
        /// The reason that the server gave: `stop`, `tool-calls`, `length`, …
        reason: String,
    },
    /// The agent is done.
    Idle {
        /// The session.
        session: String,
    },
    /// The agent failed, or was stopped.
    Failed {
        /// The session.
        session: String,
        /// True if it was aborted.
        is_abort: bool,
        /// The description of the failure.
        message: String,
    },
}

/// The content of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentPart {
    /// The text of the reply so far.
    Text(String),
    /// Reasoning.
    Reasoning,
    /// A tool call.
    Tool {
        /// The tool's name.
        tool: String,
        /// The id of the call.
        call: String,
        /// The state of the call.
        status: ToolStatus,
        /// A short description of the call.
        title: Option<String>,
    },
    /// Any other content.
    Other,
}

/// The state of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolStatus {
    /// Its input is being written, or it waits to run.
    Pending,
    /// It runs.
    Running,
    /// It completed.
    Completed,
    /// It failed.
    Error,
}

/// An action for the host. Actions are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChatAction {
    /// Show the typing indicator, if the channel has one.
    Typing,
    /// Open the event stream of the server.
    Subscribe,
    /// Send the prompt, without waiting for its reply.
    Prompt,
    /// Send this text to the user.
    Note(String),
    /// Send this text to the user, whose next message is the answer. If it cannot be sent, call
    /// [`PendingPrompt::not_asked`].
    Ask {
        /// The request.
        request: String,
        /// The text.
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
    /// Stop the agent.
    Abort,
    /// Close the event stream.
    Unsubscribe,
    /// The prompt is done: deliver the whole reply as one message, or the reason for its absence.
    Done(Result<String, PromptError>),
    /// Hide the typing indicator, once the reply is delivered. The last action.
    StopTyping,
}

/// The reason why there is no reply.
///
/// # Example: texts for the log and for the user
/// ```
/// use ttsr_agent::progress::PromptError;
/// let failed = PromptError::Failed("connection refused".into());
/// assert_eq!(failed.to_string(), "connection refused", "for a log");
/// assert_eq!(failed.text(), Some("Something went wrong while the agent was working."));
/// assert_eq!(PromptError::Aborted.text(), None, "the user caused it");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptError {
    /// The time limit passed.
    Timeout,
    /// It was aborted.
    Aborted,
    /// The agent or its server failed.
    Failed(String),
}

impl PromptError {
    /// Returns the text for the user, or `None` if the user caused the error.
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

/// A prompt in progress. All times count from its start.
///
/// # Example: a tool runs, and then the reply comes
/// ```
/// use std::time::Duration;
/// use ttsr_agent::progress::{AgentEvent, AgentPart, ChatAction, PendingPrompt, RouterSettings, ToolStatus};
/// let mut out = Vec::new();
/// let mut prompting = PendingPrompt::begin("ses_1", RouterSettings::default(), &mut out);
/// assert_eq!(out, [ChatAction::Typing, ChatAction::Subscribe, ChatAction::Prompt]);
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
/// prompting.push_event(Duration::ZERO, &part("prt_1", reads), &mut out);
/// prompting.push_event(Duration::ZERO, &part("prt_2", AgentPart::Text("Done.".into())), &mut out);
/// prompting.push_event(Duration::ZERO, &AgentEvent::Idle { session: "ses_1".into() }, &mut out);
/// assert_eq!(out[0], ChatAction::Note("🔧 Reading src/lib.rs...".into()));
/// assert_eq!(out[out.len() - 2..], [ChatAction::Done(Ok("Done.".into())), ChatAction::StopTyping]);
/// ```
#[derive(Debug)]
pub struct PendingPrompt {
    session: String,
    settings: RouterSettings,
    now: Duration,
    /// The time of the last message to the user.
    heard: Duration,
    noted: Option<Duration>,
    /// The calls that were noted, or were skipped by the throttle.
    seen_calls: HashSet<String>,
    users: HashSet<String>,
    parts: Vec<ChatPart>,
    /// The last message, if the model reached its length limit in it.
    truncated: Option<String>,
    /// The open questions; the first one was sent to the user.
    questions: Vec<QuestionRequest>,
    /// The time at which the first question was sent.
    asked: Option<Duration>,
    /// The total time for which the time limit was paused.
    paused: Duration,
    is_over: bool,
}

#[derive(Debug)]
struct ChatPart {
    message: String,
    id: String,
    /// `None` until a snapshot identifies the part.
    is_text: Option<bool>,
    text: String,
}

impl PendingPrompt {
    /// Starts a prompt: shows the typing indicator, and opens the event stream before the prompt is sent, so that no
    /// event is missed.
    pub fn begin(
        session: impl Into<String>,
        settings: RouterSettings,
        out: &mut Vec<ChatAction>,
    ) -> PendingPrompt {
        out.extend([
            ChatAction::Typing,
            ChatAction::Subscribe,
            ChatAction::Prompt,
        ]);
        PendingPrompt {
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

    /// Handles an event. Events of other sessions are ignored.
    pub fn push_event(&mut self, now: Duration, event: &AgentEvent, out: &mut Vec<ChatAction>) {
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
                self.on_writing(message);
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
                    self.part_mut(message, part).text.push_str(delta);
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

    /// Advances the time: a time limit may have passed, or a heartbeat may be due.
    ///
    /// # Example: a silent agent
    /// ```
    /// use ttsr_agent::progress::{ChatAction, PromptError, PendingPrompt, RouterSettings};
    /// let mut out = Vec::new();
    /// let mut prompting = PendingPrompt::begin("ses_1", RouterSettings::default(), &mut out);
    /// while !prompting.is_over() {
    ///     prompting.tick(prompting.deadline(), &mut out);
    /// }
    /// assert!(out.contains(&ChatAction::Note("⏳ Still working...".into())), "a heartbeat");
    /// assert!(out.contains(&ChatAction::Abort));
    /// assert!(out.contains(&ChatAction::Done(Err(PromptError::Timeout))));
    /// ```
    pub fn tick(&mut self, now: Duration, out: &mut Vec<ChatAction>) {
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
            out.push(ChatAction::Abort);
            return self.end(Err(PromptError::Timeout), out);
        }
        let is_silent = self.now >= self.heard.saturating_add(self.heartbeat());
        if self.settings.progress().is_enabled() && is_silent {
            self.heard = self.now;
            out.extend([
                ChatAction::Typing,
                ChatAction::Note("⏳ Still working...".to_owned()),
            ]);
        }
    }

    /// Returns the time of the next [`tick`](Self::tick).
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

    /// Returns true once the prompt is over; its state no longer changes.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true if the user's next message is an answer.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns the request whose questions were sent to the user.
    pub(super) fn asking(&self) -> Option<&str> {
        let first = self.questions.first().filter(|_| self.is_asking());
        first.map(|request| request.id.as_str())
    }

    /// Answers all questions of the request that was sent to the user.
    ///
    /// # Example: a question and its answer
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{AgentEvent, ChatAction, PendingPrompt, RouterSettings};
    /// use ttsr_agent::user_prompt::{Question, QuestionRequest};
    /// let mut out = Vec::new();
    /// let mut prompting = PendingPrompt::begin("ses_1", RouterSettings::default(), &mut out);
    /// let question = Question { text: "Which one?".into(), ..Question::default() };
    /// let request = QuestionRequest { id: "que_1".into(), questions: vec![question] };
    /// let asks = AgentEvent::Question { session: "ses_1".into(), request };
    /// prompting.push_event(Duration::ZERO, &asks, &mut out);
    /// assert!(prompting.is_asking());
    /// prompting.answer(Duration::from_secs(1), "the red one", &mut out);
    /// let answers = vec![vec!["the red one".to_owned()]];
    /// assert!(out.contains(&ChatAction::Answer { request: "que_1".into(), answers }));
    /// assert!(!prompting.is_asking());
    /// ```
    pub fn answer(&mut self, now: Duration, text: &str, out: &mut Vec<ChatAction>) {
        self.now = self.now.max(now);
        if self.asked.is_none() || self.is_over {
            return;
        }
        let request = self.questions.remove(0);
        out.push(ChatAction::Answer {
            answers: request.answers(text),
            request: request.id,
        });
        self.resume_clock(out);
    }

    /// Rejects a request whose questions could not be sent to the user, so that the agent continues.
    ///
    /// # Example: a channel that failed
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{AgentEvent, ChatAction, PendingPrompt, RouterSettings};
    /// use ttsr_agent::user_prompt::QuestionRequest;
    /// let mut out = Vec::new();
    /// let mut prompting = PendingPrompt::begin("ses_1", RouterSettings::default(), &mut out);
    /// let request = QuestionRequest { id: "que_1".into(), ..QuestionRequest::default() };
    /// let asks = AgentEvent::Question { session: "ses_1".into(), request };
    /// prompting.push_event(Duration::ZERO, &asks, &mut out);
    /// prompting.not_asked(Duration::ZERO, "que_1", &mut out);
    /// assert_eq!(out.last(), Some(&ChatAction::Reject { request: "que_1".into() }));
    /// assert!(!prompting.is_asking());
    /// ```
    pub fn not_asked(&mut self, now: Duration, request: &str, out: &mut Vec<ChatAction>) {
        self.now = self.now.max(now);
        if self.asking() == Some(request) {
            self.reject(out);
        }
    }

    /// Cancels the prompt for the user, and acknowledges it.
    ///
    /// # Example: the user cancels
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{ChatAction, PromptError, PendingPrompt, RouterSettings};
    /// let mut prompting = PendingPrompt::begin("ses_1", RouterSettings::default(), &mut Vec::new());
    /// let mut out = Vec::new();
    /// prompting.cancel(Duration::ZERO, &mut out);
    /// assert_eq!(out[..2], [ChatAction::Abort, ChatAction::Note("Cancelled.".into())]);
    /// assert!(out.contains(&ChatAction::Done(Err(PromptError::Aborted))));
    /// ```
    pub fn cancel(&mut self, now: Duration, out: &mut Vec<ChatAction>) {
        self.now = self.now.max(now);
        if !self.is_over {
            out.extend([ChatAction::Abort, ChatAction::Note(CANCELLED.to_owned())]);
            self.end(Err(PromptError::Aborted), out);
        }
    }

    /// Ends the prompt after its event stream ended early: the reply is the text so far.
    ///
    /// # Example: half a reply
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{AgentEvent, AgentPart, ChatAction, PendingPrompt, RouterSettings};
    /// let mut out = Vec::new();
    /// let mut prompting = PendingPrompt::begin("ses_1", RouterSettings::default(), &mut out);
    /// let half = AgentEvent::Part {
    ///     session: "ses_1".into(),
    ///     message: "msg_1".into(),
    ///     part: "prt_1".into(),
    ///     content: AgentPart::Text("Once upon".into()),
    /// };
    /// prompting.push_event(Duration::ZERO, &half, &mut out);
    /// prompting.disconnected(Duration::ZERO, &mut out);
    /// assert!(out.contains(&ChatAction::Done(Ok("Once upon".into()))));
    /// ```
    pub fn disconnected(&mut self, now: Duration, out: &mut Vec<ChatAction>) {
        self.now = self.now.max(now);
        self.end(Ok(self.text()), out);
    }

    /// Ends the prompt because it could not be sent, or its events could not be read.
    ///
    /// # Example: a server that does not run
    /// ```
    /// use std::time::Duration;
    /// use ttsr_agent::progress::{ChatAction, PromptError, PendingPrompt, RouterSettings};
    /// let mut out = Vec::new();
    /// let mut prompting = PendingPrompt::begin("ses_1", RouterSettings::default(), &mut out);
    /// prompting.failed(Duration::ZERO, "connection refused", &mut out);
    /// let error = PromptError::Failed("connection refused".into());
    /// assert!(out.contains(&ChatAction::Done(Err(error))));
    /// ```
    pub fn failed(&mut self, now: Duration, message: impl Into<String>, out: &mut Vec<ChatAction>) {
        self.now = self.now.max(now);
        self.end(Err(PromptError::Failed(message.into())), out);
    }

    fn part(&mut self, message: &str, id: &str, content: &AgentPart, out: &mut Vec<ChatAction>) {
        let part = self.part_mut(message, id);
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

    fn tool_runs(&mut self, call: &str, title: &str, out: &mut Vec<ChatAction>) {
        let is_new = !title.is_empty() && self.seen_calls.insert(call.to_owned());
        let throttle = Duration::from_millis(self.settings.progress().tool_throttle_ms());
        let is_soon = |noted: Duration| self.now < noted.saturating_add(throttle);
        if !self.settings.progress().is_enabled() || !is_new || self.noted.is_some_and(is_soon) {
            return;
        }
        self.noted = Some(self.now);
        self.heard = self.now;
        out.push(ChatAction::Note(format!("🔧 {title}...")));
    }

    fn question(&mut self, request: &QuestionRequest, out: &mut Vec<ChatAction>) {
        if !self.settings.progress().is_enabled() {
            // Questions are not forwarded, so the agent must not wait for an answer.
            return out.push(ChatAction::Reject {
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

    fn ask(&mut self, out: &mut Vec<ChatAction>) {
        if let Some(request) = self.questions.first() {
            self.asked = Some(self.now);
            out.push(ChatAction::Ask {
                request: request.id.clone(),
                text: request.text(),
            });
        }
    }

    /// Handles the end of a request: answered or rejected elsewhere, or the confirmation of the answer sent here.
    fn closed(&mut self, request: &str, out: &mut Vec<ChatAction>) {
        let is_asked = self.asking() == Some(request);
        self.questions.retain(|known| known.id != request);
        if is_asked {
            out.push(ChatAction::Note(CLOSED_ELSEWHERE.to_owned()));
            self.resume_clock(out);
        }
    }

    fn reject(&mut self, out: &mut Vec<ChatAction>) {
        let request = self.questions.remove(0).id;
        out.push(ChatAction::Reject { request });
        self.resume_clock(out);
    }

    /// Resumes the time limit, and asks the next question if there is one.
    fn resume_clock(&mut self, out: &mut Vec<ChatAction>) {
        let asked = self.asked.take().unwrap_or(self.now);
        self.paused = self.paused.saturating_add(self.now.saturating_sub(asked));
        self.heard = self.now;
        self.ask(out);
    }

    fn end(&mut self, result: Result<String, PromptError>, out: &mut Vec<ChatAction>) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        self.asked = None;
        let open = std::mem::take(&mut self.questions).into_iter();
        out.extend(open.map(|request| ChatAction::Reject {
            request: request.id,
        }));
        out.extend([
            ChatAction::Unsubscribe,
            ChatAction::Done(result),
            ChatAction::StopTyping,
        ]);
    }

    /// Returns the text of the reply, part by part.
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

    /// Records that a message is being written, so that a truncation of an earlier one no longer matters.
    fn on_writing(&mut self, message: &str) {
        let is_written = |known: &String| known == message || self.users.contains(message);
        self.truncated = self.truncated.take().filter(is_written);
    }

    fn part_mut(&mut self, message: &str, id: &str) -> &mut ChatPart {
        self.on_writing(message);
        let known = self.parts.iter().position(|part| part.id == id);
        let index = known.unwrap_or_else(|| {
            self.parts.push(ChatPart {
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
