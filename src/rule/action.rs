//! The actions of a rule, and the limits on them.

use serde::{Deserialize, Serialize};

/// The action that a host must take for a hit. Ordered by strength, weakest first.
///
/// # Example: actions that cut the stream, and actions that need no grant
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
    /// Log the hit. Nothing else changes.
    Observe,
    /// Show the message to the user and not to the model.
    Warn,
    /// Append the message to the text (whole channels only: tool output, user input, errors).
    Append,
    /// Prepend the message to the text (whole channels only).
    Prepend,
    /// Set a header of the next request (whole channels only).
    SetHeader,
    /// Let the stream continue, and add the message to the next request.
    Inject,
    /// After the reply, continue in a new session with the message as its prompt.
    Handoff,
    /// Before the tool call runs, ask a sub-agent, whose answer is added to the context (tool input only).
    Consult,
    /// Replace the matched text before it is delivered.
    Redact,
    /// Send the request again with the next model of the chain (whole channels only).
    Fallback,
    /// Cut the stream, add the message to the context, and generate again.
    Retry,
    /// Cut the stream and end the turn, with this rule as the reason.
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

    /// Returns the name used in rules and in every output.
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

    /// Returns the action with that [`name`](Self::name).
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

    /// Returns true if the stream ends here: no byte after the deciding one may be used.
    #[must_use]
    pub fn cuts(self) -> bool {
        matches!(self, Action::Retry | Action::Abort)
    }

    /// Returns true if the action must be granted: every action stronger than a warning. If a pack has `grants`, it
    /// must be among them, and if the host states its [grants](crate::PackBuilder::grants), among those too.
    #[must_use]
    pub fn needs_grant(self) -> bool {
        self > Action::Warn
    }

    /// Returns true if the action requires the whole text: at the hooks for tool output, user input, requests and
    /// errors.
    #[must_use]
    pub fn is_for_whole_text(self) -> bool {
        matches!(
            self,
            Action::Append | Action::Prepend | Action::SetHeader | Action::Fallback
        )
    }
}

/// The handling of the partial reply that a retry cut.
///
/// # Example: a key of the rule file
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
    /// It is not part of the next request.
    #[default]
    Discard,
    /// It is kept up to the cut, except for tool input.
    Keep,
    /// It is kept up to the start of the match, except for tool input.
    KeepBeforeMatch,
}

/// The options of a rule's retries.
///
/// # Example: one retry, then an abort
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
    /// The most retries of the rule in one turn. Default 2.
    pub max: u32,
    /// The model for the retry, by a name that the host resolves. `None`: the same model.
    pub model: Option<String>,
    /// The temperature for the retry, in thousandths. `None`: the same temperature.
    pub temperature: Option<u32>,
    /// The action after the last retry. `None`: `warn`, or `abort` if the rule is critical.
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

/// The limits on how often a rule acts. `None` is unlimited.
///
/// # Example: at most every second turn
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
    /// The number of turns that must start after an action before the next one.
    pub cooldown_turns: Option<u32>,
    /// The most actions in one turn.
    pub per_turn: Option<u32>,
    /// The most actions in one session.
    pub per_session: Option<u32>,
}

/// The number of times a rule may act at all. Once it is spent the rule is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Allowance {
    /// The most actions in one turn.
    pub per_turn: Option<u32>,
    /// The most actions in one session.
    pub per_session: Option<u32>,
}

/// A sub-agent that is asked before a tool call runs.
///
/// # Example: every push is reviewed
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
    /// The template of the prompt.
    pub prompt: String,
    /// The model of the sub-agent, by a name that the host resolves. `None`: the model of the session.
    pub model: Option<String>,
    /// The timeout in milliseconds. Default 30,000.
    pub timeout_millis: u64,
    /// Globs on the names of the tools it may use, as in [`Rule::tools`](crate::Rule::tools). Empty: none. Default:
    /// bash, read, grep, glob.
    pub tools: Vec<String>,
    /// True if the tool call is blocked when no answer arrives. Default: false, the call runs.
    pub blocks_on_failure: bool,
}

impl Consult {
    /// Creates a consultation with this prompt and the default options.
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
    /// The name, in lower case.
    pub name: String,
    /// The value.
    pub value: String,
}

/// The mode of a rule.
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
    /// The rule acts.
    #[default]
    Live,
    /// The rule decides and is logged, and never acts.
    Shadow,
}

/// The maturity of a rule.
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
    /// The rule may change.
    Experimental,
    /// The rule is complete.
    #[default]
    Stable,
    /// The rule is to be replaced or removed. It still works, and `check` reports it.
    Deprecated,
}

impl Partial {
    /// Every value, in the order of declaration.
    pub const ALL: [Partial; 3] = [Partial::Discard, Partial::Keep, Partial::KeepBeforeMatch];

    /// Returns the name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Partial::Discard => "discard",
            Partial::Keep => "keep",
            Partial::KeepBeforeMatch => "keep-before-match",
        }
    }

    /// Returns the value with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Partial> {
        Partial::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl Mode {
    /// Every mode, in the order of declaration.
    pub const ALL: [Mode; 2] = [Mode::Live, Mode::Shadow];

    /// Returns the name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Live => "live",
            Mode::Shadow => "shadow",
        }
    }

    /// Returns the mode with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl Status {
    /// Every status, in the order of declaration.
    pub const ALL: [Status; 3] = [Status::Experimental, Status::Stable, Status::Deprecated];

    /// Returns the name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Status::Experimental => "experimental",
            Status::Stable => "stable",
            Status::Deprecated => "deprecated",
        }
    }

    /// Returns the status with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|one| one.name() == name)
    }
}
