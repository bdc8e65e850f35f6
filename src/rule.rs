//! A validated rule as plain data.
//!
//! Everything here is already checked: a [`Rule`] cannot name a channel that does not exist or hold a
//! pattern that does not parse. How a rule is written in TOML is the business of `pack`; how it is
//! matched that of `matcher`; what happens after a hit that of `session`.

mod action;
mod condition;

use serde::{Deserialize, Serialize};

pub use action::{Action, Allowance, Consult, Header, Mode, Partial, Repeat, Retry, Status};
pub use condition::{
    Ast, Bound, Capture, Condition, Count, DoomLoop, Fold, KnownList, Named, Pattern, PatternKind,
    Per, Region, Repetition, Script, UnknownName, Within,
};

/// The kind of a part of a reply.
///
/// # Example: what is thought is not what is said
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
    /// Text meant for the reader of the reply.
    Text,
    /// Reasoning ("thinking"), where the provider shows it.
    Reasoning,
    /// The input of a tool call, JSON in most cases, as the model writes it.
    ToolInput,
    /// What a tool gave back: whole, before the model sees it.
    ToolOutput,
    /// What the user wrote: whole, before it is sent.
    UserInput,
    /// An error of the provider or of a tool: whole.
    Error,
}

impl Channel {
    /// Every channel, in the order of their declaration.
    pub const ALL: [Channel; 6] = [
        Channel::Text,
        Channel::Reasoning,
        Channel::ToolInput,
        Channel::ToolOutput,
        Channel::UserInput,
        Channel::Error,
    ];

    /// The channels that a model writes, delta by delta; the others come whole, at the host's hooks.
    pub const STREAMED: [Channel; 3] = [Channel::Text, Channel::Reasoning, Channel::ToolInput];

    /// The name used in rules and in every output, such as `tool-input`.
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

    /// The channel with that [`name`](Self::name).
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

/// How bad it is to break a rule. It picks the action unless the rule names one.
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
    /// Worth an event: [`Action::Observe`].
    Info,
    /// The model should hear of it: [`Action::Inject`].
    Warning,
    /// The reply is taken again: [`Action::Retry`].
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

    /// The name used in rules: `info`, `warning`, `error` or `critical`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Critical => "critical",
        }
    }

    /// The severity with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Severity> {
        Severity::ALL
            .into_iter()
            .find(|severity| severity.name() == name)
    }

    /// What a rule of this severity does when it does not say.
    ///
    /// # Example: the worse, the stronger
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

/// Text that must and text that must not break a rule. Run under every split by `ttsr test`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examples {
    /// Each of these breaks the rule.
    pub matching: Vec<String>,
    /// None of these does.
    pub not_matching: Vec<String>,
}

/// A reply and what must come of it. Run under every split by `ttsr test`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The channel that the text is of.
    pub channel: Channel,
    /// The text, or a tool's input as the model writes it.
    pub text: String,
    /// The tool, for tool input.
    pub tool: Option<String>,
    /// The file that the text is about, where the input itself does not say.
    pub path: Option<String>,
    /// What the rule must do; none: nothing.
    pub expect: Option<Action>,
    /// Most bytes of `text` that may be delivered before that is certain.
    pub by_byte: Option<u64>,
}

/// What an author wrote, checked and complete: defaults are filled in, lists expanded, overrides applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rule {
    /// Full id, `pack/rule`.
    pub id: String,
    /// What the rule is about, in a sentence.
    pub description: String,
    /// Why the rule exists, in the author's words.
    pub why: Option<String>,
    /// Where to read more.
    pub docs: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// How far the rule is.
    pub status: Status,
    /// The full id of the rule to use instead of a deprecated one.
    pub replaced_by: Option<String>,
    /// How bad a hit is.
    pub severity: Severity,
    /// The channels it reads; never empty, no channel twice, in [`Channel::ALL`]'s order.
    pub on: Vec<Channel>,
    /// Globs on the tool's name, case-insensitive; those that begin with `!` exclude, and the last one that
    /// matches decides. Empty: every tool. Only tool input and output have tools.
    pub tools: Vec<String>,
    /// Dotted globs on the argument's path (`command`, `edits.*.new_text`, `$raw`). Empty: every argument.
    pub args: Vec<String>,
    /// Globs on the file the tool call is about; those that begin with `!` exclude. Empty: every file and none.
    pub paths: Vec<String>,
    /// Globs on the name of the agent; `!` excludes. Empty: every agent.
    pub agents: Vec<String>,
    /// Globs on the name of the model; `!` excludes. Empty: every model.
    pub models: Vec<String>,
    /// Globs on the name of the provider; `!` excludes. Empty: every provider.
    pub providers: Vec<String>,
    /// When it is broken.
    pub condition: Condition,
    /// What to do about a hit.
    pub action: Action,
    /// Whether it does it, or is only logged.
    pub mode: Mode,
    /// What becomes of the reply that a retry cut.
    pub partial: Partial,
    /// How retries go.
    pub retry: Retry,
    /// How often it may act, where it says so; else what its action and severity imply.
    pub repeat: Option<Repeat>,
    /// How often its hits count at all.
    pub allowance: Allowance,
    /// Whether text that may yet turn out to break the rule waits instead of leaking.
    pub hold: bool,
    /// What stands in place of text that [`Action::Redact`] takes out: plain text. Default `[redacted]`.
    pub replacement: Option<String>,
    /// Whom [`Action::Consult`] asks, and what.
    pub consult: Option<Consult>,
    /// The header of [`Action::SetHeader`].
    pub header: Option<Header>,
    /// What to do instead, for the message.
    pub instead: Option<String>,
    /// The text that steers: a template.
    pub message: Option<String>,
    /// Between hits that become certain at the same byte and have the same action, the higher number wins.
    pub priority: i32,
    /// Text that must and must not break the rule.
    pub examples: Examples,
    /// Replies and what must come of them.
    pub cases: Vec<Case>,
}

impl Rule {
    /// A rule with that full id, broken where any of `any` matches: on every channel that a model writes,
    /// severity `warning`, action [`inject`](Action::Inject). The action stays where `severity` is changed.
    ///
    /// For rules made in code; [`Pack::from_toml`](crate::Pack::from_toml) is the usual way.
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
            status: Status::default(),
            replaced_by: None,
            severity: Severity::Warning,
            on: Channel::STREAMED.to_vec(),
            tools: Vec::new(),
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

    /// Whether text that may yet break the rule waits: it says so, or takes text out.
    ///
    /// # Example: text that is taken out must not have left
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
