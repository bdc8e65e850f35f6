//! What a rule does, and how often.

use serde::{Deserialize, Serialize};

/// What a harness must do about a broken rule. Ordered by strength, weakest first.
///
/// # Example: which end a stream, and which are free
/// ```
/// use ttsr::Action;
/// let of = |is: fn(Action) -> bool| Action::ALL.into_iter().filter(move |it| is(*it)).map(Action::name);
/// assert!(of(Action::cuts).eq(["retry", "abort"]));
/// assert!(of(|action| !action.needs_grant()).eq(["observe", "warn"]));
/// assert!(Action::Abort > Action::Retry, "of two rules broken at one byte the stronger is done first");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// Note it; nothing changes.
    Observe,
    /// Show the message to the user, not to the model.
    Warn,
    /// Put the message behind the text (whole channels only: tool output, user input, errors).
    Append,
    /// Put the message before the text (whole channels only).
    Prepend,
    /// Set a header of the next request (whole channels only).
    SetHeader,
    /// Let the stream go on; the message enters the next request.
    Inject,
    /// After the reply: go on in a new session, with the message as its prompt.
    Handoff,
    /// Before the tool call runs: ask a sub-agent, whose answer enters the context (tool input only).
    Consult,
    /// Replace what matched before it leaves.
    Redact,
    /// Take the next model of the chain and send the request again (whole channels only).
    Fallback,
    /// Cut the stream, add the message to the context, generate again.
    Retry,
    /// Cut the stream; the turn ends with this rule as the reason.
    Abort,
}

impl Action {
    /// Every action, weakest first.
    pub const ALL: [Action; 12] = [
        Action::Observe,
        Action::Warn,
        Action::Append,
        Action::Prepend,
        Action::SetHeader,
        Action::Inject,
        Action::Handoff,
        Action::Consult,
        Action::Redact,
        Action::Fallback,
        Action::Retry,
        Action::Abort,
    ];

    /// The name used in rules and in every output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Action::Observe => "observe",
            Action::Warn => "warn",
            Action::Append => "append",
            Action::Prepend => "prepend",
            Action::SetHeader => "set-header",
            Action::Inject => "inject",
            Action::Handoff => "handoff",
            Action::Consult => "consult",
            Action::Redact => "redact",
            Action::Fallback => "fallback",
            Action::Retry => "retry",
            Action::Abort => "abort",
        }
    }

    /// The action with that [`name`](Self::name).
    ///
    /// # Example: by name and back
    /// ```
    /// use ttsr::Action;
    /// let action = Action::from_name("set-header").unwrap();
    /// assert_eq!(action.name(), "set-header");
    /// assert!(action.needs_grant() && action.is_for_whole_text() && !action.cuts());
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }

    /// Whether the stream ends here: nothing after the deciding byte may be used.
    #[must_use]
    pub fn cuts(self) -> bool {
        matches!(self, Action::Retry | Action::Abort)
    }

    /// Whether it must be granted: everything stronger than a warning. Where a pack has `grants` it must be
    /// among them, and where the host says what it [grants](crate::PackBuilder::grants), among those.
    #[must_use]
    pub fn needs_grant(self) -> bool {
        self > Action::Warn
    }

    /// Whether it makes sense only where the text is there whole: at the hooks for tool output, user
    /// input, requests and errors.
    #[must_use]
    pub fn is_for_whole_text(self) -> bool {
        matches!(
            self,
            Action::Append | Action::Prepend | Action::SetHeader | Action::Fallback
        )
    }
}

/// What becomes of the reply that a retry cut.
///
/// # Example: what a rule file says
/// ```
/// use ttsr::{Pack, Partial};
/// let pack = Pack::from_toml(r#"
/// schema = 1
/// pack.name = "demo"
/// [rule.no-any]
/// description = "Say what the type is"
/// severity = "error"
/// partial = "keep-before-match"
/// match.any = [{ literal = ": any" }]
/// examples.match = ["x: any"]
/// "#)?;
/// assert_eq!(pack.rules()[0].partial, Partial::KeepBeforeMatch);
/// assert_eq!(Partial::from_name("keep-before-match"), Some(Partial::KeepBeforeMatch));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Partial {
    /// It is not in the next request.
    #[default]
    Discard,
    /// It stays, up to the cut; tool input never does.
    Keep,
    /// It stays up to where the match begins; tool input never does.
    KeepBeforeMatch,
}

/// How a rule's retries go.
///
/// # Example: once more, and no more
/// ```
/// use ttsr::rule::Retry;
/// use ttsr::{Action, Pack, PartId, Pattern, Rule, Verdict};
/// let mut rule = Rule::new("demo/no-any", vec![Pattern::literal(": any")]);
/// rule.action = Action::Retry;
/// rule.retry = Retry { max: 1, then: Some(Action::Abort), ..Retry::default() };
/// let mut session = Pack::builder().rule(rule).build()?.session();
/// session.begin_turn();
/// let mut attempt = || {
///     let mut stream = session.stream();
///     let verdict = session.push(&mut stream, PartId(0), b"let x: any");
///     let Verdict::Act(decision) = verdict else { panic!("the rule is broken") };
///     decision.action
/// };
/// assert_eq!([attempt(), attempt()], [Action::Retry, Action::Abort]);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Most retries of the rule in one turn. Default 2.
    pub max: u32,
    /// The model to take, by a name that the host resolves; none: the same one.
    pub model: Option<String>,
    /// The temperature to take, in thousandths; none: the same one.
    pub temperature: Option<u32>,
    /// What the rule does once its retries are spent; none: `warn`, or `abort` if it is critical.
    pub then: Option<Action>,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            max: 2,
            model: None,
            temperature: None,
            then: None,
        }
    }
}

/// How often a rule may act, and when it may again. A bound that is not given does not bind.
///
/// # Example: every second turn at most
/// ```
/// use ttsr::rule::Repeat;
/// use ttsr::{Action, Pack, PartId, Pattern, Rule, Verdict};
/// let mut rule = Rule::new("demo/no-todo", vec![Pattern::literal("TODO")]);
/// rule.action = Action::Warn;
/// rule.repeat = Some(Repeat { cooldown_turns: Some(2), ..Repeat::default() });
/// let mut session = Pack::builder().rule(rule).build()?.session();
/// let acts = [(); 4].map(|()| {
///     session.begin_turn();
///     let mut stream = session.stream();
///     session.push(&mut stream, PartId(0), b"// TODO") != Verdict::Continue
/// });
/// assert_eq!(acts, [true, false, true, false]);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Repeat {
    /// Turns that must begin after it acted before it acts again.
    pub cooldown_turns: Option<u32>,
    /// Most times in one turn.
    pub per_turn: Option<u32>,
    /// Most times in one session.
    pub per_session: Option<u32>,
}

/// How often a rule's hits count at all: past it the rule is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Allowance {
    /// Most acts in one turn.
    pub per_turn: Option<u32>,
    /// Most acts in one session.
    pub per_session: Option<u32>,
}

/// A sub-agent that is asked before a tool call runs.
///
/// # Example: somebody looks at every push
/// ```
/// use ttsr::rule::Consult;
/// use ttsr::{Action, Channel, Pack, Pattern, Rule};
/// let mut rule = Rule::new("team/look-at-pushes", vec![Pattern::literal("git push")]);
/// rule.on = vec![Channel::ToolInput];
/// rule.action = Action::Consult;
/// rule.consult = Some(Consult { blocks_on_failure: true, ..Consult::new("May this be pushed?") });
/// let pack = Pack::builder().rule(rule).build()?;
/// let asked = pack.rules()[0].consult.as_ref().unwrap();
/// assert_eq!(asked.tools, ["bash", "read", "grep", "glob"]);
/// assert_eq!(asked.timeout_millis, 30_000);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consult {
    /// What it is asked: a template.
    pub prompt: String,
    /// The model to take, by a name that the host resolves; none: the session's.
    pub model: Option<String>,
    /// How long it may take, in milliseconds. Default 30,000.
    pub timeout_millis: u64,
    /// Globs on the names of the tools it may use, as in [`Rule::tools`](crate::Rule::tools). Empty: none. Default: bash,
    /// read, grep, glob.
    pub tools: Vec<String>,
    /// Whether the tool call is blocked where there is no answer; otherwise it runs. Default: it runs.
    pub blocks_on_failure: bool,
}

impl Consult {
    /// A consultation with that prompt, and the defaults.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Consult {
        Consult {
            prompt: prompt.into(),
            model: None,
            timeout_millis: 30_000,
            tools: ["bash", "read", "grep", "glob"].map(str::to_owned).to_vec(),
            blocks_on_failure: false,
        }
    }
}

/// A header of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its name, lower case.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Whether a rule acts.
///
/// # Example: a rule on trial
/// ```
/// use ttsr::{Mode, Pack, PartId, Pattern, Rule, Verdict};
/// let mut rule = Rule::new("demo/no-todo", vec![Pattern::literal("TODO")]);
/// rule.mode = Mode::from_name("shadow").unwrap();
/// let mut session = Pack::builder().rule(rule).build()?.session();
/// let mut stream = session.stream();
/// assert_eq!(session.push(&mut stream, PartId(0), b"// TODO"), Verdict::Continue);
/// assert!(session.decisions()[0].is_suppressed(), "it is there, for a log");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// It does.
    #[default]
    Live,
    /// It decides and is logged, and never acts.
    Shadow,
}

/// How far a rule is.
///
/// # Example: by name and back
/// ```
/// use ttsr::rule::Status;
/// assert_eq!(Status::from_name("deprecated"), Some(Status::Deprecated));
/// assert_eq!(Status::default().name(), "stable");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Status {
    /// It may change.
    Experimental,
    /// It is done.
    #[default]
    Stable,
    /// Another rule took its place, or none; it still works, and `check` says so.
    Deprecated,
}

impl Partial {
    /// Every one, in the order of their declaration.
    pub const ALL: [Partial; 3] = [Partial::Discard, Partial::Keep, Partial::KeepBeforeMatch];

    /// The name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Partial::Discard => "discard",
            Partial::Keep => "keep",
            Partial::KeepBeforeMatch => "keep-before-match",
        }
    }

    /// The one with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Partial> {
        Partial::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl Mode {
    /// Every one, in the order of their declaration.
    pub const ALL: [Mode; 2] = [Mode::Live, Mode::Shadow];

    /// The name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Live => "live",
            Mode::Shadow => "shadow",
        }
    }

    /// The one with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl Status {
    /// Every one, in the order of their declaration.
    pub const ALL: [Status; 3] = [Status::Experimental, Status::Stable, Status::Deprecated];

    /// The name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Status::Experimental => "experimental",
            Status::Stable => "stable",
            Status::Deprecated => "deprecated",
        }
    }

    /// The one with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|one| one.name() == name)
    }
}
