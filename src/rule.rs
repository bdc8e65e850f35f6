//! A validated rule as plain data.
//!
//! Everything here has been checked: a [`Rule`] cannot name a channel that does not exist or contain a pattern that
//! does not parse. The TOML format of a rule belongs to `pack`, matching to `matcher`, and the policy after a hit to
//! `session`.

mod action;
mod condition;

use serde::{Deserialize, Serialize};

pub use action::{Action, Allowance, Consult, Header, Mode, Partial, Repeat, Retry, Status};
pub use condition::{
    Ast, Bound, Capture, Checksum, CommandRequirements, Condition, Count, DoomLoop, Fold,
    KnownList, Named, Pattern, PatternKind, Per, Region, Repetition, Script, UnknownName, Within,
};

/// The kind of a part of a reply.
///
/// # Example: a rule that reads only reasoning
/// ```
/// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-guess", vec![Pattern::literal("I guess")]);
/// rule.on = vec![Channel::Reasoning];
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// stream.open(PartId(0), Channel::Text);
/// stream.open(PartId(1), Channel::Reasoning);
/// assert_eq!(stream.push(PartId(0), b"I guess so.").len(), 0);
/// assert_eq!(stream.push(PartId(1), b"I guess so.").len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Channel {
    /// Text for the reader of the reply.
    Text,
    /// Reasoning ("thinking"), if the provider returns it.
    Reasoning,
    /// The input of a tool call as the model writes it, usually JSON.
    ToolInput,
    /// The output of a tool, whole, before the model receives it.
    ToolOutput,
    /// The input of the user, whole, before it is sent.
    UserInput,
    /// An error of the provider or of a tool, whole.
    Error,
}

impl Channel {
    /// Every channel, in the order of declaration.
    pub const ALL: [Channel; 6] = [
        Channel::Text,
        Channel::Reasoning,
        Channel::ToolInput,
        Channel::ToolOutput,
        Channel::UserInput,
        Channel::Error,
    ];

    /// The channels that a model writes, delta by delta. The others arrive whole, at the hooks of the host.
    pub const STREAMED: [Channel; 3] = [Channel::Text, Channel::Reasoning, Channel::ToolInput];

    /// Returns the name used in rules and in every output, such as `tool-input`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Channel::Text => "text",
            Channel::Reasoning => "reasoning",
            Channel::ToolInput => "tool-input",
            Channel::ToolOutput => "tool-output",
            Channel::UserInput => "user-input",
            Channel::Error => "error",
        }
    }

    /// Returns the channel with that [`name`](Self::name).
    ///
    /// # Example: by name and back
    /// ```
    /// use ttsr::Channel;
    /// assert_eq!(Channel::from_name("tool-input"), Some(Channel::ToolInput));
    /// assert_eq!(Channel::ToolInput.name(), "tool-input");
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Channel> {
        Channel::ALL
            .into_iter()
            .find(|channel| channel.name() == name)
    }
}

/// The way in which a tool call ended. A scope of rules on [`Channel::ToolOutput`].
///
/// # Example: by name and back
/// ```
/// use ttsr::rule::ToolOutcome;
/// assert_eq!(ToolOutcome::from_name("error"), Some(ToolOutcome::Error));
/// assert_eq!(ToolOutcome::default().name(), "ok");
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ToolOutcome {
    /// The call succeeded. Also the default for an output without a reported outcome.
    #[default]
    Ok,
    /// The tool failed: its output is an error.
    Error,
}

impl ToolOutcome {
    /// Every outcome, in the order of their declaration.
    pub const ALL: [ToolOutcome; 2] = [ToolOutcome::Ok, ToolOutcome::Error];

    /// Returns the name used in rules: `ok` or `error`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ToolOutcome::Ok => "ok",
            ToolOutcome::Error => "error",
        }
    }

    /// Returns the outcome with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<ToolOutcome> {
        ToolOutcome::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// The severity of a violation. It determines the action unless the rule names one.
///
/// # Example: a rule that names no action
/// ```
/// use ttsr::{Action, Pack, Severity};
/// let pack = Pack::from_toml(r#"
/// schema = 1
/// pack.name = "demo"
/// [rule.no-any]
/// description = "Say what the type is"
/// severity = "error"
/// match.any = [{ literal = ": any" }]
/// examples.match = ["x: any"]
/// "#)?;
/// let rule = &pack.rules()[0];
/// assert_eq!((rule.severity, rule.action), (Severity::Error, Action::Retry));
/// assert_eq!(Severity::from_name("error"), Some(rule.severity));
/// assert!(Severity::Warning < rule.severity && rule.severity < Severity::Critical);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Severity {
    /// The hit is logged: [`Action::Observe`].
    Info,
    /// The model is told in the next request: [`Action::Inject`].
    Warning,
    /// The reply is cut and generated again: [`Action::Retry`].
    Error,
    /// The turn ends: [`Action::Abort`].
    Critical,
}

impl Severity {
    /// Every severity, weakest first.
    pub const ALL: [Severity; 4] = [
        Severity::Info,
        Severity::Warning,
        Severity::Error,
        Severity::Critical,
    ];

    /// Returns the name used in rules: `info`, `warning`, `error` or `critical`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Critical => "critical",
        }
    }

    /// Returns the severity with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Severity> {
        Severity::ALL
            .into_iter()
            .find(|severity| severity.name() == name)
    }

    /// Returns the action of a rule with this severity that names none.
    ///
    /// # Example: a higher severity has a stronger action
    /// ```
    /// use ttsr::{Action, Severity};
    /// assert_eq!(Severity::from_name("error").map(Severity::default_action), Some(Action::Retry));
    /// assert!(Severity::Critical.default_action().cuts());
    /// assert!(!Severity::Warning.default_action().cuts());
    /// ```
    #[must_use]
    pub fn default_action(self) -> Action {
        match self {
            Severity::Info => Action::Observe,
            Severity::Warning => Action::Inject,
            Severity::Error => Action::Retry,
            Severity::Critical => Action::Abort,
        }
    }
}

/// Texts that must hit and texts that must not hit. `ttsr test` runs them under every split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examples {
    /// Texts that the rule must hit.
    pub matching: Vec<String>,
    /// Texts that the rule must not hit.
    pub not_matching: Vec<String>,
}

/// A reply with the expected decision. `ttsr test` runs it under every split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The channel of the text.
    pub channel: Channel,
    /// The text, or the input of a tool as the model writes it.
    pub text: String,
    /// The name of the tool, for tool input.
    pub tool: Option<String>,
    /// The file that the text is about, if the input does not name it.
    pub path: Option<String>,
    /// The action that the rule must decide; `None`: no hit.
    pub expect: Option<Action>,
    /// The most bytes of `text` that may be delivered before the hit is certain.
    pub by_byte: Option<u64>,
}

/// A rule, checked and complete: defaults are filled in, lists expanded, and overrides applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rule {
    /// The full id, `pack/rule`.
    pub id: String,
    /// A one-sentence description.
    pub description: String,
    /// The author's reason for the rule.
    pub why: Option<String>,
    /// A link to further documentation.
    pub docs: Option<String>,
    /// Keywords to find the rule by.
    pub tags: Vec<String>,
    /// Addresses of sources and discussions, each beginning with `https://` or `http://`.
    #[serde(default)]
    pub references: Vec<String>,
    /// The maturity of the rule.
    pub status: Status,
    /// The full id of the rule that replaces a deprecated one.
    pub replaced_by: Option<String>,
    /// The severity of a hit.
    pub severity: Severity,
    /// The channels it reads: not empty, without duplicates, in the order of [`Channel::ALL`].
    pub on: Vec<Channel>,
    /// Globs on the name of the tool, case-insensitive. A glob that starts with `!` excludes, and the last matching
    /// glob decides. Empty: every tool. Only tool input and output have a tool.
    pub tools: Vec<String>,
    /// The outcome of the tool call, on [`Channel::ToolOutput`]; `None`: either. Other channels have none.
    pub outcome: Option<ToolOutcome>,
    /// Dotted globs on the path of the argument (`command`, `edits.*.new_text`, `$raw`). Empty: every argument.
    pub args: Vec<String>,
    /// Globs on the file that the tool call is about; `!` excludes. Empty: every file, and calls without a file.
    pub paths: Vec<String>,
    /// Globs on the name of the agent; `!` excludes. Empty: every agent.
    pub agents: Vec<String>,
    /// Globs on the name of the model; `!` excludes. Empty: every model.
    pub models: Vec<String>,
    /// Globs on the name of the provider; `!` excludes. Empty: every provider.
    pub providers: Vec<String>,
    /// The condition that a violation meets.
    pub condition: Condition,
    /// The action for a hit.
    pub action: Action,
    /// The mode: the rule acts, or is only logged.
    pub mode: Mode,
    /// The handling of the partial reply that a retry cut.
    pub partial: Partial,
    /// The options of its retries.
    pub retry: Retry,
    /// The limits on its actions. `None`: the defaults of its action and severity.
    pub repeat: Option<Repeat>,
    /// The number of times it may act at all; the rule is silent once it is spent.
    pub allowance: Allowance,
    /// True if text that can still become a violation is held back.
    pub hold: bool,
    /// The plain text that replaces text removed by [`Action::Redact`]. Default `[redacted]`.
    pub replacement: Option<String>,
    /// The sub-agent of [`Action::Consult`] and its prompt.
    pub consult: Option<Consult>,
    /// The header of [`Action::SetHeader`].
    pub header: Option<Header>,
    /// The recommended alternative, for the message.
    pub instead: Option<String>,
    /// The template of the message to the model.
    pub message: Option<String>,
    /// The tie-breaker between hits that become certain at the same byte and have the same action: the higher wins.
    pub priority: i32,
    /// Texts that must hit and texts that must not.
    pub examples: Examples,
    /// Replies with the expected decisions.
    pub cases: Vec<Case>,
}

impl Rule {
    /// Creates a rule with this full id that any of `any` breaks, on every channel that a model writes, with severity
    /// `warning` and action [`inject`](Action::Inject). Changing `severity` does not change the action.
    ///
    /// For rules made in code. [`Pack::from_toml`](crate::Pack::from_toml) is the usual way.
    ///
    /// # Example: a rule for one tool
    /// ```
    /// use ttsr::{Action, Channel, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("team/no-rm", vec![Pattern::regex(r"\brm\s+-rf\b")]);
    /// rule.on = vec![Channel::ToolInput];
    /// rule.tools = vec!["bash".into()];
    /// rule.action = Action::Abort;
    /// let pack = Pack::builder().rule(rule).build()?;
    /// assert_eq!(pack.rules()[0].action, Action::Abort);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn new(id: impl Into<String>, any: Vec<Pattern>) -> Rule {
        Rule {
            id: id.into(),
            description: String::new(),
            why: None,
            docs: None,
            tags: Vec::new(),
            references: Vec::new(),
            status: Status::default(),
            replaced_by: None,
            severity: Severity::Warning,
            on: Channel::STREAMED.to_vec(),
            tools: Vec::new(),
            outcome: None,
            args: Vec::new(),
            paths: Vec::new(),
            agents: Vec::new(),
            models: Vec::new(),
            providers: Vec::new(),
            condition: Condition::any(any),
            action: Severity::Warning.default_action(),
            mode: Mode::default(),
            partial: Partial::default(),
            retry: Retry::default(),
            repeat: None,
            allowance: Allowance::default(),
            hold: false,
            replacement: None,
            consult: None,
            header: None,
            instead: None,
            message: None,
            priority: 0,
            examples: Examples::default(),
            cases: Vec::new(),
        }
    }

    /// Returns true if text that can still become a violation is held back: if the rule holds or redacts.
    ///
    /// # Example: a rule that redacts also holds
    /// ```
    /// use ttsr::{Action, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-key", vec![Pattern::regex("sk-[0-9]{4}")]);
    /// assert!(!rule.holds());
    /// rule.action = Action::Redact;
    /// assert!(rule.holds());
    /// ```
    #[must_use]
    pub fn holds(&self) -> bool {
        self.hold || self.action == Action::Redact
    }

    /// Returns true if the rule holds text and is not in shadow.
    pub(crate) fn holds_live(&self) -> bool {
        self.holds() && self.mode == Mode::Live
    }
}
