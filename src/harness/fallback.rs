//! Another model where the provider refuses: chains per agent, and what was tried in each session.
//!
//! Knows no clock (the host tells the time) and no patterns: what a refusal looks like is for rules with
//! the action `fallback` to say, such as those of the pack `opencode/foreground-fallback`.

use std::collections::HashMap;
use std::time::Duration;

use crate::{Action, Channel, Session};

/// Triggers of a session that come so soon after another one count as the same.
pub const SAME_TRIGGER: Duration = Duration::from_secs(5);

/// Most sessions remembered; then the one that was quiet longest is forgotten.
pub const MAX_SESSIONS: usize = 10_000;

/// For each agent the models to take, in order.
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
    /// The chain of an agent, by its name.
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

    /// The chain of every agent that has none of its own.
    ///
    /// # Example: a chain for everyone
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

    /// The first model of the agent's chain that was not tried.
    #[must_use]
    pub fn next(&self, agent: Option<&str>, tried: &[String]) -> Option<&str> {
        let own = agent.and_then(|agent| self.of.iter().find(|(of, _)| of == agent));
        let models = own.map_or(&self.any, |(_, models)| models);
        let next = models.iter().find(|model| !tried.contains(model));
        next.map(String::as_str)
    }

    /// Whether there is no chain at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty() && self.any.is_empty()
    }
}

/// An error as rules read it: the text, and the HTTP status unless the text contains it already.
///
/// # Example: a status that the text does not mention
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

/// Something that happened to a session, as an agent's server tells it.
///
/// # Example: a session comes and goes
/// ```
/// use std::time::Duration;
/// use ttsr::Pack;
/// use ttsr::harness::fallback::{Chains, Foreground, SessionEvent};
/// let mut foreground = Foreground::new(Pack::builder().build()?.session(), Chains::default());
/// let idle = SessionEvent::Idle { session: "ses_1".into() };
/// assert_eq!(idle.session(), "ses_1");
/// foreground.see(Duration::ZERO, &idle);
/// assert_eq!(foreground.len(), 1);
/// foreground.see(Duration::ZERO, &SessionEvent::Deleted { session: "ses_1".into() });
/// assert!(foreground.is_empty());
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// `message.updated`: a message of the model changed; it may hold an error.
    MessageUpdated {
        /// The session.
        session: String,
        /// The agent that wrote it.
        agent: Option<String>,
        /// The model that wrote it.
        model: Option<String>,
        /// The error that ended it, with the HTTP status of the provider's answer where it is known.
        error: Option<String>,
    },
    /// `session.error`: a session could not go on.
    Error {
        /// The session.
        session: String,
        /// The error, with the HTTP status of the provider's answer where it is known.
        error: String,
    },
    /// `session.status`: a session waits, retries, or works.
    Status {
        /// The session.
        session: String,
        /// What it says.
        message: String,
    },
    /// `subagent.session.created`: an agent opened a session for another.
    SubagentCreated {
        /// The new session.
        session: String,
        /// The agent in it.
        agent: String,
    },
    /// `session.deleted`: a session is gone.
    Deleted {
        /// The session.
        session: String,
    },
    /// `session.idle`: a session has nothing left to do.
    Idle {
        /// The session.
        session: String,
    },
}

impl SessionEvent {
    /// The session it is about.
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

    /// Text in it that may be a refusal.
    fn trouble(&self) -> Option<&str> {
        match self {
            SessionEvent::MessageUpdated { error, .. } => error.as_deref(),
            SessionEvent::Error { error, .. } => Some(error),
            SessionEvent::Status { message, .. } => Some(message),
            _ => None,
        }
    }
}

/// What the host does about a refusal, in this order: abort the session's prompt, and queue its last user
/// message again with that model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Switch {
    /// The session.
    pub session: String,
    /// The model to take from now on.
    pub model: String,
}

/// Watches the sessions of a server and says when one is to go on with another model.
///
/// # Example: a session that hits a limit goes on with the next model, once
/// ```
/// use std::time::Duration;
/// use ttsr::Pack;
/// use ttsr::harness::fallback::{Chains, Foreground, SessionEvent};
/// let rules = Pack::builtin("opencode/foreground-fallback").unwrap().session();
/// let mut foreground = Foreground::new(rules, Chains::default().any(["a", "b"]));
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
pub struct Foreground {
    rules: Session,
    chains: Chains,
    sessions: HashMap<String, Known>,
}

/// What is known of a session.
#[derive(Clone, Debug, Default)]
struct Known {
    agent: Option<String>,
    model: Option<String>,
    tried: Vec<String>,
    triggered: Option<Duration>,
    /// When it was heard of last.
    heard: Duration,
}

impl Foreground {
    /// Watches with these rules and chains.
    #[must_use]
    pub fn new(rules: Session, chains: Chains) -> Foreground {
        Foreground {
            rules,
            chains,
            sessions: HashMap::new(),
        }
    }

    /// Takes an event; `now` is any clock that does not go back.
    pub fn see(&mut self, now: Duration, event: &SessionEvent) -> Option<Switch> {
        if let SessionEvent::Deleted { session } = event {
            self.sessions.remove(session);
            return None;
        }
        self.note(now, event);
        let is_refusal = event.trouble().is_some_and(|text| self.is_refusal(text));
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
        Some(Switch {
            session: event.session().to_owned(),
            model: model.to_owned(),
        })
    }

    /// How many sessions are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether no session is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    fn note(&mut self, now: Duration, event: &SessionEvent) {
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
