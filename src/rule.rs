//! A validated rule as plain data.
//!
//! Everything here is already checked: a [`Rule`] cannot name a channel that does not exist or hold a
//! pattern that does not parse. How a rule is written in TOML is the business of `pack`; how it is
//! matched that of `matcher`; what happens after a hit that of `session`.

use serde::{Deserialize, Serialize};

/// The kind of a part of a reply.
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
}

impl Channel {
    /// Every channel, in the order of their declaration.
    pub const ALL: [Channel; 3] = [Channel::Text, Channel::Reasoning, Channel::ToolInput];

    /// The name used in rules and in every output: `text`, `reasoning` or `tool-input`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Channel::Text => "text",
            Channel::Reasoning => "reasoning",
            Channel::ToolInput => "tool-input",
        }
    }

    /// The channel with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Channel> {
        Channel::ALL
            .into_iter()
            .find(|channel| channel.name() == name)
    }
}

/// How bad it is to break a rule. It picks the action unless the rule names one.
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

/// What a harness must do about a broken rule. Ordered by strength, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// Note it; nothing changes.
    Observe,
    /// Show the message to the user, not to the model.
    Warn,
    /// Let the stream go on; the message enters the next request.
    Inject,
    /// Cut the stream, add the message to the context, generate again.
    Retry,
    /// Cut the stream; the turn ends with this rule as the reason.
    Abort,
}

impl Action {
    /// Every action, weakest first.
    pub const ALL: [Action; 5] = [
        Action::Observe,
        Action::Warn,
        Action::Inject,
        Action::Retry,
        Action::Abort,
    ];

    /// The name used in rules and in every output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Action::Observe => "observe",
            Action::Warn => "warn",
            Action::Inject => "inject",
            Action::Retry => "retry",
            Action::Abort => "abort",
        }
    }

    /// The action with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }

    /// Whether the stream ends here: nothing after the deciding byte may be used.
    #[must_use]
    pub fn cuts(self) -> bool {
        matches!(self, Action::Retry | Action::Abort)
    }
}

/// How the text of a [`Pattern`] is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PatternKind {
    /// The exact text.
    Literal,
    /// The exact text, not inside a longer word (Unicode word boundaries on both sides).
    Word,
    /// A regular expression in the syntax of the `regex` crate, Unicode on.
    Regex,
}

/// One thing to match inside a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pattern {
    /// How `text` is read.
    pub kind: PatternKind,
    /// The literal, the word or the regular expression as written.
    pub text: String,
}

impl Pattern {
    /// The pattern as a regular expression in the syntax of the `regex` crate.
    ///
    /// # Example: a word is bounded on both sides
    /// ```
    /// use ttsr::{Pattern, PatternKind};
    /// let word = Pattern { kind: PatternKind::Word, text: "a.b".into() };
    /// assert_eq!(word.to_regex(), r"\b{start-half}a\.b\b{end-half}");
    /// ```
    #[must_use]
    pub fn to_regex(&self) -> String {
        match self.kind {
            PatternKind::Literal => regex_syntax::escape(&self.text),
            PatternKind::Word => {
                format!(
                    r"\b{{start-half}}{}\b{{end-half}}",
                    regex_syntax::escape(&self.text)
                )
            }
            PatternKind::Regex => self.text.clone(),
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

/// What an author wrote, checked and complete: defaults are filled in, lists expanded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rule {
    /// Full id, `pack/rule`.
    pub id: String,
    /// What the rule is about, in a sentence.
    pub description: String,
    /// Why the rule exists, in the author's words.
    pub why: Option<String>,
    /// How bad a hit is.
    pub severity: Severity,
    /// The channels it reads; never empty, no channel twice, in [`Channel::ALL`]'s order.
    pub on: Vec<Channel>,
    /// Globs on the tool's name, case-insensitive. Empty: every tool. Only `tool-input` has tools.
    pub tools: Vec<String>,
    /// Dotted globs on the argument's path (`command`, `edits.*.new_text`, `$raw`). Empty: every argument.
    pub args: Vec<String>,
    /// Globs on the file the tool call is about; those that begin with `!` exclude. Empty: every file and none.
    pub paths: Vec<String>,
    /// The rule is broken where any of these matches; never empty.
    pub any: Vec<Pattern>,
    /// What to do about a hit.
    pub action: Action,
    /// What to do instead, for the message.
    pub instead: Option<String>,
    /// The text that steers: a template.
    pub message: Option<String>,
    /// Between hits that become certain at the same byte and have the same action, the higher number wins.
    pub priority: i32,
    /// Text that must and must not break the rule.
    pub examples: Examples,
}

impl Rule {
    /// A rule with that full id, broken where any of `any` matches: on every channel, severity `warning`.
    ///
    /// For rules made in code; [`Pack::from_toml`](crate::Pack::from_toml) is the usual way.
    #[must_use]
    pub fn new(id: impl Into<String>, any: Vec<Pattern>) -> Rule {
        Rule {
            id: id.into(),
            description: String::new(),
            why: None,
            severity: Severity::Warning,
            on: Channel::ALL.to_vec(),
            tools: Vec::new(),
            args: Vec::new(),
            paths: Vec::new(),
            any,
            action: Severity::Warning.default_action(),
            instead: None,
            message: None,
            priority: 0,
            examples: Examples::default(),
        }
    }
}
