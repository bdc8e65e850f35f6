//! An aborted attempt or turn, as hooks, logs and hosts receive it.
//!
//! Plain data: the [`Processor`](super::Processor) decides what is aborted and what follows.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::message::Message;
use super::reply::Reply;
use crate::session::fnv1a;
use crate::stream::Counters;
use crate::{Channel, PartId, RuleId};

/// The kind of reason for an abort.
///
/// # Example: a reply without an answer has a reason
/// ```
/// use ttsr::Pack;
/// use ttsr::harness::{
///     Cancel, End, Failure, Hooks, Processor, Request, Scripted, ScriptedReply, Settings, run,
/// };
/// let failure = Failure::new("overloaded_error", "try again");
/// let mut provider = Scripted::new([ScriptedReply::default().text("It is").fail(failure)]);
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
/// let request = Request::new("a-model", Vec::new());
/// let running = run(&mut processor, &mut provider, request, "msg_1", Cancel::default(), |_| {});
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let End::Aborted { reason, .. } = runtime.block_on(running).end else { panic!("it failed") };
/// assert_eq!(reason.name(), "error");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AbortReason {
    /// The user cancelled.
    User,
    /// A rule or a hook cut the reply.
    Plugin,
    /// The provider failed, a hook panicked, or a bound other than time was reached.
    Error,
    /// A bound of time was reached.
    Timeout,
}

impl AbortReason {
    /// Returns the name used in every output: `user`, `plugin`, `error` or `timeout`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AbortReason::User => "user",
            AbortReason::Plugin => "plugin",
            AbortReason::Error => "error",
            AbortReason::Timeout => "timeout",
        }
    }
}

/// The rule, hook, bound or party that caused an abort.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AbortSource {
    /// A rule of the pack.
    Rule {
        /// The rule.
        rule: RuleId,
        /// Its full id, `pack/rule`.
        id: String,
    },
    /// A hook, by the name it was registered with.
    Hook(String),
    /// A bound of [`Limits`](crate::Limits) or [`Settings`](super::Settings), by the name of its field; or `prepare`, if
    /// the host did not [prepare](super::Processor::prepare) a request that rules or hooks must see.
    Limit(&'static str),
    /// The provider, or the connection to it.
    Provider,
    /// The user.
    User,
}

impl AbortSource {
    /// Returns the name of the kind: `rule`, `hook`, `limit`, `provider` or `user`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            AbortSource::Rule { .. } => "rule",
            AbortSource::Hook(_) => "hook",
            AbortSource::Limit(_) => "limit",
            AbortSource::Provider => "provider",
            AbortSource::User => "user",
        }
    }

    /// Returns the full id of the rule, or the name of the hook or bound; `None` for the provider and the user.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            AbortSource::Rule { id, .. } => Some(id),
            AbortSource::Hook(name) => Some(name),
            AbortSource::Limit(name) => Some(name),
            AbortSource::Provider | AbortSource::User => None,
        }
    }
}

/// The part of a turn that an abort ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AbortStage {
    /// The request, before it was sent: a rule or a hook refused it, the user cancelled, or time was over.
    Request,
    /// The reply, from the sent request to the provider's last event.
    Reply,
    /// The tool calls of a complete reply: a rule refused the output of a tool, the user cancelled, or the turn
    /// reached its last reply. The turn ends; hooks cannot retry it.
    Tools,
}

impl AbortStage {
    /// Returns the name used in every output: `request`, `reply` or `tools`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AbortStage::Request => "request",
            AbortStage::Reply => "reply",
            AbortStage::Tools => "tools",
        }
    }
}

/// Identifies the prompt that a reply answers, without its text. Written as `TURN` or `TURN:HASH`, the hash
/// with 16 hexadecimal digits.
///
/// # Example: the same prompt in another session
/// ```
/// use ttsr::harness::{Message, PromptRef};
/// let asked = PromptRef::new(3, &[Message::user("Go."), Message::steering("Be brief.")]);
/// assert_eq!(asked.to_string(), "3:eaffad19987476bf");
/// assert_eq!(asked.hash, PromptRef::new(1, &[Message::user("Go.")]).hash);
/// assert_eq!(PromptRef::new(1, &[]).to_string(), "1", "nobody wrote anything");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PromptRef {
    /// The number of the turn in its session, from 1.
    pub turn: u32,
    /// The 64-bit FNV-1a hash of the user's last text, before hooks and rules changed it. It groups equal prompts;
    /// anybody who can guess a prompt can confirm the guess. `None` until the request of the turn is
    /// [prepared](super::Processor::prepare).
    pub hash: Option<u64>,
}

impl PromptRef {
    /// Returns the reference to the last message in `messages` that a person wrote.
    #[must_use]
    pub fn new(turn: u32, messages: &[Message]) -> PromptRef {
        let written = messages.iter().rev().find_map(Message::user_text);
        PromptRef {
            turn,
            hash: written.map(|text| fnv1a(&text)),
        }
    }
}

impl fmt::Display for PromptRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hash {
            Some(hash) => write!(f, "{}:{hash:016x}", self.turn),
            None => write!(f, "{}", self.turn),
        }
    }
}

/// An attempt or a turn that was aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Aborted {
    /// The session's id, from [`Settings::session`](super::Settings::session).
    pub session: String,
    /// The id of the session that opened this one; `None` for a session of the host.
    pub parent: Option<String>,
    /// The id of the reply, which all its attempts share.
    pub message: String,
    /// The model of the attempt. `None` if the host named none, neither in a request that it
    /// [prepared](super::Processor::prepare) nor in the [`Origin`](crate::Origin).
    pub model: Option<String>,
    /// The prompt that the reply answers.
    pub prompt: PromptRef,
    /// The part of the turn that ends.
    pub stage: AbortStage,
    /// The number of the attempt in its turn, from 1.
    pub attempt: u32,
    /// The kind of reason.
    pub reason: AbortReason,
    /// The rule, hook, bound or party that caused the abort.
    pub source: AbortSource,
    /// The rule's message or the provider's error; may be empty.
    pub detail: String,
    /// The part that caused the abort; `None` if no part did.
    pub part: Option<PartId>,
    /// The tool calls of the attempt. None of them runs, complete or not.
    pub calls: Vec<AbortedCall>,
    /// The reply accumulated before the abort. It contains neither the delta that caused the abort nor bytes that a
    /// rule held.
    pub partial: Reply,
    /// For each part of `partial`, the bytes that may be sent to the provider again.
    pub blocks: Vec<AbortedBlock>,
    /// True if the reply is retried. Hooks see true only if a rule retries.
    pub retry: bool,
    /// The counters of the attempt's stream.
    pub counters: Counters,
}

/// A part of an aborted attempt, as a block of a later request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbortedBlock {
    /// The part.
    pub part: PartId,
    /// The part's channel.
    pub channel: Channel,
    /// The bytes that may be sent again.
    pub replay: BlockReplay,
}

/// The bytes of an aborted part that may be sent to the provider again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BlockReplay {
    /// Text: this number of bytes from the start of the part, up to the last complete character.
    UpTo(u64),
    /// Reasoning without a signature: this number of bytes from the start of the part. Used only if the provider
    /// does not sign reasoning (see [`Settings::signs_reasoning`](super::Settings::signs_reasoning)).
    Unsigned(u64),
    /// No bytes: a tool call that did not run and has no result, or reasoning whose signature is missing.
    Never,
}

impl BlockReplay {
    /// Returns the name used in every output: `up-to`, `unsigned` or `never`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BlockReplay::UpTo(_) => "up-to",
            BlockReplay::Unsigned(_) => "unsigned",
            BlockReplay::Never => "never",
        }
    }
}

/// A tool call of an aborted attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbortedCall {
    /// The part that contains the call's input.
    pub part: PartId,
    /// The tool's name, if it was known.
    pub tool: Option<String>,
    /// The id of the call, if it was known.
    pub call: Option<String>,
    /// True if the model had completed the call.
    pub is_complete: bool,
    /// True if this call caused the abort.
    pub is_blamed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_written_with_its_kind_and_the_name_of_who_caused_it() {
        let rule = AbortSource::Rule {
            rule: RuleId(0),
            id: "p/r".into(),
        };
        for (source, name, id) in [
            (rule, "rule", Some("p/r")),
            (AbortSource::Hook("guard".into()), "hook", Some("guard")),
            (AbortSource::Limit("parts"), "limit", Some("parts")),
            (AbortSource::Provider, "provider", None),
            (AbortSource::User, "user", None),
        ] {
            assert_eq!((source.name(), source.id()), (name, id));
        }
    }
}
