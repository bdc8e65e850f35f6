//! Fallback models for a provider that refuses: chains per agent, and the models tried in each session.
//!
//! The module reads no clock: the host passes the time. It knows no patterns either: rules with the action `fallback`
//! recognize a refusal, such as those of the pack `opencode/foreground-fallback`.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::session::Session;
use crate::{Action, Channel, Pack};

/// The time after a refusal within which further refusals of the same session are ignored.
pub const SAME_TRIGGER: Duration = Duration::from_secs(5);

/// The most sessions that are remembered. Beyond it, the session without events for the longest time is dropped.
pub const MAX_SESSIONS: usize = 10_000;

/// For each agent, the models to try in order.
///
/// # Example: the next model, and no loop
/// ```
/// use ttsr::harness::fallback::Chains;
/// let chains = Chains::default().chain("orchestrator", ["anthropic/opus", "openai/gpt-5"]);
/// let tried = ["anthropic/opus".to_owned()];
/// assert_eq!(chains.next(Some("orchestrator"), &tried), Some("openai/gpt-5"));
/// let tried = ["anthropic/opus".to_owned(), "openai/gpt-5".to_owned()];
/// assert_eq!(chains.next(Some("orchestrator"), &tried), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chains {
    of: Vec<(String, Vec<String>)>,
    any: Vec<String>,
}

impl Chains {
    /// Adds the chain of an agent, by the agent's name.
    #[must_use]
    pub fn chain<M: Into<String>>(
        mut self,
        agent: impl Into<String>,
        models: impl IntoIterator<Item = M>,
    ) -> Chains {
        let models = models.into_iter().map(Into::into).collect();
        self.of.push((agent.into(), models));
        self
    }

    /// Sets the chain of every agent without a chain of its own.
    ///
    /// # Example: a default chain
    /// ```
    /// use ttsr::harness::fallback::Chains;
    /// let chains = Chains::default().any(["small"]).chain("plan", ["large"]);
    /// assert_eq!(chains.next(Some("build"), &[]), Some("small"));
    /// assert_eq!(chains.next(Some("plan"), &[]), Some("large"));
    /// ```
    #[must_use]
    pub fn any<M: Into<String>>(mut self, models: impl IntoIterator<Item = M>) -> Chains {
        self.any = models.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the first model of the agent's chain that was not tried.
    #[must_use]
    pub fn next(&self, agent: Option<&str>, tried: &[String]) -> Option<&str> {
        let own = agent.and_then(|agent| self.of.iter().find(|(of, _)| of == agent));
        let models = own.map_or(&self.any, |(_, models)| models);
        let next = models.iter().find(|model| !tried.contains(model));
        next.map(String::as_str)
    }

    /// Returns true if there is no chain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty() && self.any.is_empty()
    }
}

/// Returns an error as rules read it: the text, with the HTTP status appended unless the text contains it.
///
/// # Example: a status that is not in the text
/// ```
/// use ttsr::harness::fallback::error_text;
/// assert_eq!(error_text("http: busy", Some(529)), "http: busy (HTTP 529)");
/// assert_eq!(error_text("http: 529: busy", Some(529)), "http: 529: busy");
/// assert_eq!(error_text("connect: refused", None), "connect: refused");
/// ```
#[must_use]
pub fn error_text(text: &str, status: Option<u16>) -> String {
    match status.map(|status| status.to_string()) {
        Some(status) if !text.contains(&status) => format!("{text} (HTTP {status})"),
        _ => text.to_owned(),
    }
}

/// An event of a session, as an agent's server reports it.
///
/// # Example: a session is remembered until it is deleted
/// ```
/// use std::time::Duration;
/// use ttsr::Pack;
/// use ttsr::harness::fallback::{Chains, ForegroundFallback, SessionEvent};
/// let mut foreground = ForegroundFallback::new(&Pack::builder().build()?, Chains::default());
/// let idle = SessionEvent::Idle { session: "ses_1".into() };
/// assert_eq!(idle.session(), "ses_1");
/// foreground.see(Duration::ZERO, &idle);
/// assert_eq!(foreground.len(), 1);
/// foreground.see(Duration::ZERO, &SessionEvent::Deleted { session: "ses_1".into() });
/// assert!(foreground.is_empty());
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event")]
#[non_exhaustive]
pub enum SessionEvent {
    /// `message.updated`: a message of the model changed. It may contain an error.
    #[serde(rename = "message.updated")]
    MessageUpdated {
        /// The session.
        session: String,
        /// The agent that wrote the message.
        agent: Option<String>,
        /// The model that wrote the message.
        model: Option<String>,
        /// The error that ended the message, with the HTTP status of the provider's response if it is known.
        error: Option<String>,
    },
    /// `session.error`: a session cannot continue.
    #[serde(rename = "session.error")]
    Error {
        /// The session.
        session: String,
        /// The error, with the HTTP status of the provider's response if it is known.
        error: String,
    },
    /// `session.status`: a session waits, retries or works.
    #[serde(rename = "session.status")]
    Status {
        /// The session.
        session: String,
        /// The text of the status.
        message: String,
    },
    /// `subagent.session.created`: an agent opened a session for another agent.
    #[serde(rename = "subagent.session.created")]
    SubagentCreated {
        /// The new session.
        session: String,
        /// The agent of the new session.
        agent: String,
    },
    /// `session.deleted`: a session was deleted.
    #[serde(rename = "session.deleted")]
    Deleted {
        /// The session.
        session: String,
    },
    /// `session.idle`: a session has no work left.
    #[serde(rename = "session.idle")]
    Idle {
        /// The session.
        session: String,
    },
}

impl SessionEvent {
    /// Returns the name that the server uses, such as `session.idle`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            SessionEvent::MessageUpdated { .. } => "message.updated",
            SessionEvent::Error { .. } => "session.error",
            SessionEvent::Status { .. } => "session.status",
            SessionEvent::SubagentCreated { .. } => "subagent.session.created",
            SessionEvent::Deleted { .. } => "session.deleted",
            SessionEvent::Idle { .. } => "session.idle",
        }
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn session(&self) -> &str {
        match self {
            SessionEvent::MessageUpdated { session, .. }
            | SessionEvent::Error { session, .. }
            | SessionEvent::Status { session, .. }
            | SessionEvent::SubagentCreated { session, .. }
            | SessionEvent::Deleted { session }
            | SessionEvent::Idle { session } => session,
        }
    }

    /// Returns the text that may be a refusal.
    fn refusal_text(&self) -> Option<&str> {
        match self {
            SessionEvent::MessageUpdated { error, .. } => error.as_deref(),
            SessionEvent::Error { error, .. } => Some(error),
            SessionEvent::Status { message, .. } => Some(message),
            _ => None,
        }
    }
}

/// The reaction to a refusal: abort the session's prompt, then send its last user message again to another model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelSwitch {
    /// The session.
    pub session: String,
    /// The model to use from now on.
    pub model: String,
}

/// Watches the sessions of a server and switches a session to another model when its provider refuses.
///
/// # Example: each refusal switches to the next model once
/// ```
/// use std::time::Duration;
/// use ttsr::Pack;
/// use ttsr::harness::fallback::{Chains, ForegroundFallback, SessionEvent};
/// let pack = Pack::builtin("opencode/foreground-fallback").unwrap();
/// let mut foreground = ForegroundFallback::new(&pack, Chains::default().any(["a", "b"]));
/// let refused = |session: &str| SessionEvent::Error {
///     session: session.into(),
///     error: "429 Too Many Requests".into(),
/// };
/// let first = foreground.see(Duration::ZERO, &refused("ses_1")).unwrap();
/// assert_eq!(first.model, "a");
/// assert_eq!(foreground.see(Duration::from_secs(4), &refused("ses_1")), None, "the same trigger");
/// let second = foreground.see(Duration::from_secs(9), &refused("ses_1")).unwrap();
/// assert_eq!(second.model, "b");
/// assert_eq!(foreground.see(Duration::from_secs(20), &refused("ses_1")), None, "all were tried");
/// ```
#[derive(Debug)]
pub struct ForegroundFallback {
    rules: Session,
    chains: Chains,
    sessions: HashMap<String, TrackedSession>,
}

/// The state of a session.
#[derive(Clone, Debug, Default)]
struct TrackedSession {
    agent: Option<String>,
    model: Option<String>,
    tried: Vec<String>,
    triggered: Option<Duration>,
    /// The time of its last event.
    heard: Duration,
}

impl ForegroundFallback {
    /// Returns a watcher with these rules and chains.
    #[must_use]
    pub fn new(pack: &Pack, chains: Chains) -> ForegroundFallback {
        ForegroundFallback {
            rules: pack.session(),
            chains,
            sessions: HashMap::new(),
        }
    }

    /// Processes an event. Returns the switch to make if the event is a refusal and a model is left. `now` is the time
    /// of a clock that does not go back.
    pub fn see(&mut self, now: Duration, event: &SessionEvent) -> Option<ModelSwitch> {
        if let SessionEvent::Deleted { session } = event {
            self.sessions.remove(session);
            return None;
        }
        self.update(now, event);
        let is_refusal = event
            .refusal_text()
            .is_some_and(|text| self.is_refusal(text));
        let known = self.sessions.get_mut(event.session())?;
        let is_same = |at: Duration| now.saturating_sub(at) < SAME_TRIGGER;
        if !is_refusal || known.triggered.is_some_and(is_same) {
            return None;
        }
        known.triggered = Some(now);
        if let Some(model) = known.model.take() {
            known.tried.push(model);
        }
        let model = self.chains.next(known.agent.as_deref(), &known.tried)?;
        known.tried.push(model.to_owned());
        Some(ModelSwitch {
            session: event.session().to_owned(),
            model: model.to_owned(),
        })
    }

    /// Returns the number of sessions that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns true if no session is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    fn update(&mut self, now: Duration, event: &SessionEvent) {
        let is_new = !self.sessions.contains_key(event.session());
        if is_new && self.sessions.len() >= MAX_SESSIONS {
            let quiet = self.sessions.iter().min_by_key(|(_, known)| known.heard);
            if let Some(session) = quiet.map(|(session, _)| session.clone()) {
                self.sessions.remove(&session);
            }
        }
        let known = self.sessions.entry(event.session().to_owned());
        let known = known.or_default();
        known.heard = now;
        match event {
            SessionEvent::MessageUpdated { agent, model, .. } => {
                known.agent = agent.clone().or(known.agent.take());
                known.model = model.clone().or(known.model.take());
            }
            SessionEvent::SubagentCreated { agent, .. } => known.agent = Some(agent.clone()),
            _ => {}
        }
    }

    fn is_refusal(&mut self, text: &str) -> bool {
        let checked = self.rules.check(Channel::Error, None, text.as_bytes());
        let mut acted = checked.decisions().iter().filter(|it| !it.is_suppressed());
        acted.any(|decision| decision.action == Action::Fallback)
    }
}
