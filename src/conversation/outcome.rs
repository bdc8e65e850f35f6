//! The owned, serialisable results of a conversation: values for the host, without borrows and without ids.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::rule::{Action, Channel, Rule};
use crate::stream::Stream;
use crate::verdict::{Decision, PartId, Source, Suppression};

/// The result of every call that reads a reply: continue, or stop because the attempt is cut.
///
/// A cut repeats: every later call of the same attempt returns it again, whatever the host did with the first one.
/// `Go` allocates nothing.
///
/// # Example: a cut repeats
/// ```
/// use ttsr::{Action, Conversation, Flow, Pack, PartId, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-any", vec![Pattern::literal(": any")]);
/// rule.action = Action::Abort;
/// let mut conversation = Conversation::new(&Pack::builder().rule(rule).build()?);
/// let mut turn = conversation.turn("Write it in TypeScript.");
/// let mut attempt = turn.attempt();
/// assert_eq!(attempt.push(PartId(0), b"let x"), Flow::Go);
/// for delta in [": any", " = 1", ";"] {
///     assert!(attempt.push(PartId(0), delta.as_bytes()).ok().is_err());
/// }
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[must_use = "a cut ends the attempt: drop the connection and show nothing more"]
pub enum Flow {
    /// Go on.
    Go,
    /// Stop: drop the connection, show nothing more, and run no tool call of this attempt.
    Cut(#[serde(serialize_with = "Cut::serialize_shared")] Arc<Cut>),
}

impl Flow {
    /// Returns the cut as an error, to be passed on with `?`.
    ///
    /// # Errors
    /// If the attempt is cut.
    pub fn ok(self) -> Result<(), Arc<Cut>> {
        match self {
            Flow::Go => Ok(()),
            Flow::Cut(cut) => Err(cut),
        }
    }

    /// Returns the cut, if there is one.
    #[must_use]
    pub fn cut(&self) -> Option<&Cut> {
        match self {
            Flow::Go => None,
            Flow::Cut(cut) => Some(cut),
        }
    }

    /// Returns the name used in every output: `go` or `cut`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Flow::Go => "go",
            Flow::Cut(_) => "cut",
        }
    }
}

/// The reason why an attempt, or a whole turn, ends here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cut {
    /// The rule, the limit or the misuse that cut.
    pub source: CutSource,
    /// The message of the rule, or a sentence that names the limit or the misuse; never empty.
    pub message: String,
    /// The part in which it was decided, if it was decided in one.
    pub part: Option<PartId>,
    /// The options of the next attempt, if the rule retries. The message is among the
    /// [guidance](crate::Turn::guidance) of that attempt already.
    pub retry: Option<RetryOptions>,
    /// The text and reasoning of this attempt that the next request repeats, as the rule's
    /// [`partial`](crate::Rule::partial) says, with redactions applied. The same however the reply was split.
    pub keep: Vec<RetainedText>,
}

impl Cut {
    pub(super) fn from_misuse(message: &str) -> Arc<Cut> {
        Arc::new(Cut {
            source: CutSource::Misuse,
            message: message.to_owned(),
            part: None,
            retry: None,
            keep: Vec::new(),
        })
    }

    /// Returns the cut of a decision of that stream, with the message already rendered.
    pub(super) fn from_decision(
        decision: &Decision,
        rule: Option<&Rule>,
        message: &str,
        keep: Vec<RetainedText>,
    ) -> Arc<Cut> {
        let source = match (decision.source, rule) {
            (Source::Limit { name, .. }, _) => CutSource::Limit { name: name.into() },
            (Source::Rule(_), rule) => CutSource::Rule {
                id: rule.map_or_else(String::new, |rule| rule.id.clone()),
            },
        };
        let message = match (message, &source) {
            ("", CutSource::Rule { id }) => format!("the rule {id} cut the reply"),
            (message, _) => message.to_owned(),
        };
        let retry = rule.filter(|_| decision.action == Action::Retry);
        Arc::new(Cut {
            source,
            message,
            part: Some(decision.part()),
            retry: retry.map(|rule| RetryOptions {
                model: rule.retry.model.clone(),
                temperature: rule.retry.temperature,
            }),
            keep,
        })
    }

    /// Returns the full id of the rule, unless a limit or a misuse cut.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match &self.source {
            CutSource::Rule { id } => Some(id),
            CutSource::Limit { .. } | CutSource::Misuse => None,
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Cut {}

impl Cut {
    /// Serializes a shared cut as the cut itself.
    pub(crate) fn serialize_shared<S: Serializer>(
        cut: &Arc<Cut>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        Cut::serialize(cut, to)
    }
}

/// The source of a cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum CutSource {
    /// A rule was broken.
    Rule {
        /// Its full id. It stays the same when the pack is reloaded.
        id: String,
    },
    /// A bound of [`Limits`](crate::Limits) was reached.
    Limit {
        /// The bound, by its name in [`Limits`](crate::Limits).
        name: String,
    },
    /// The host made a call out of order, such as an attempt outside of a turn.
    Misuse,
}

impl CutSource {
    /// Returns the name used in every output: `rule`, `limit` or `misuse`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            CutSource::Rule { .. } => "rule",
            CutSource::Limit { .. } => "limit",
            CutSource::Misuse => "misuse",
        }
    }
}

/// Options of the next attempt, as the rule that retries asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetryOptions {
    /// The model, by a name that the host resolves; `None`: the same one.
    pub model: Option<String>,
    /// The temperature in thousandths; `None`: the same one.
    pub temperature: Option<u32>,
}

/// The text of one part that a retry keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetainedText {
    /// The part.
    pub part: PartId,
    /// Its channel: text or reasoning.
    pub channel: Channel,
    /// The text up to the cut, never a character in part.
    pub text: String,
}

/// A message of a rule to the model, for the next request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Note {
    /// The full id of the rule.
    pub rule: String,
    /// The message.
    pub text: String,
}

/// A tool call that a rule wants reviewed before it runs. No byte of its input can be
/// [taken](crate::Attempt::take) until it is [approved](crate::Attempt::approve).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallReview {
    /// The part that holds the input.
    pub part: PartId,
    /// The full id of the rule.
    pub rule: String,
    /// The question, with placeholders filled in.
    pub prompt: String,
    /// The model to ask, by a name that the host resolves; `None`: the session's.
    pub model: Option<String>,
    /// The time that a review may take, in milliseconds.
    pub timeout_millis: u64,
    /// Globs on the names of the tools that the reviewer may use.
    pub tools: Vec<String>,
    /// True if the call must not run where no answer comes.
    pub blocks_on_failure: bool,
}

/// An owned copy of a decision: everything that a log, a binding or another process needs, by name.
///
/// # Example: what was decided, as JSON
/// ```
/// use ttsr::{Action, Conversation, Flow, Pack, PartId, Pattern, Rule};
/// let mut rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
/// rule.action = Action::Warn;
/// let mut conversation = Conversation::new(&Pack::builder().rule(rule).build()?);
/// let mut turn = conversation.turn("Write it.");
/// let mut attempt = turn.attempt();
/// assert_eq!(attempt.push(PartId(0), b"// TODO: more"), Flow::Go);
/// let record = serde_json::to_value(&attempt.decisions()[0]).unwrap();
/// assert_eq!(record["rule"], "demo/todo");
/// assert_eq!((&record["action"], &record["start"], &record["end"]), (&"warn".into(), &3.into(), &7.into()));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DecisionRecord {
    /// The full id of the rule, unless a limit decided.
    pub rule: Option<String>,
    /// The bound of [`Limits`](crate::Limits) that was reached, if a limit decided.
    pub limit: Option<String>,
    /// The action.
    pub action: Action,
    /// The reason why the policy suppresses the action; `None` if the action is taken. Shadow rules are among these.
    pub suppression: Option<Suppression>,
    /// The message of the rule, or a sentence that names the limit.
    pub message: String,
    /// The part.
    pub part: PartId,
    /// The channel of the part, if the part was opened.
    pub channel: Option<Channel>,
    /// The name of the tool, if it is known.
    pub tool: Option<String>,
    /// The dotted path of the argument, if the match is in one.
    pub arg: Option<String>,
    /// The start of the match, in bytes of the part as delivered, if it is known.
    pub start: Option<u64>,
    /// The end of the match, in bytes of the part as delivered.
    pub end: u64,
    /// Number of bytes of the part delivered when it was decided.
    pub decided: u64,
    /// The text that matched, or the replacement if the rule redacts.
    pub matched: String,
    /// The attempt, from 1 in each turn; 0 before the first one.
    pub attempt: u32,
    /// The turn, from 1.
    pub turn: u32,
}

impl DecisionRecord {
    pub(super) fn new(stream: &Stream, decision: &Decision, message: String) -> DecisionRecord {
        let rule = stream.rule(decision);
        let hit = decision.hit();
        let matched = match (rule, &hit) {
            (Some(rule), _) if rule.action == Action::Redact => replacement_of(rule),
            (_, Some(hit)) => stream.matched(hit),
            (_, None) => "",
        };
        DecisionRecord {
            rule: rule.map(|rule| rule.id.clone()),
            limit: match decision.source {
                Source::Limit { name, .. } => Some(name.to_owned()),
                Source::Rule(_) => None,
            },
            action: decision.action,
            suppression: decision.suppression,
            message,
            part: decision.part(),
            channel: stream.channel(decision.part()),
            tool: stream.tool_name(decision.part()).map(str::to_owned),
            arg: hit.and_then(|hit| stream.arg(&hit).map(str::to_owned)),
            start: hit.and_then(|hit| stream.start(&hit)),
            end: hit.map_or(decision.decided(), |hit| hit.end),
            decided: decision.decided(),
            matched: matched.to_owned(),
            attempt: decision.attempt,
            turn: decision.turn,
        }
    }

    /// Returns true if the policy suppresses the action.
    #[must_use]
    pub fn is_suppressed(&self) -> bool {
        self.suppression.is_some()
    }
}

/// Returns the replacement of the text that a rule redacts.
pub(super) fn replacement_of(rule: &Rule) -> &str {
    rule.replacement.as_deref().unwrap_or("[redacted]")
}
