//! The events of a conversation: one type for logs, the session store, `tracing` and tests.
//!
//! The [`Processor`](super::Processor) emits events with [`Step::Observe`](super::Step::Observe). An
//! [`EventTracker`](super::EventTracker) adds the events that follow from other steps and from the time at which they
//! are made. Events contain no text of the model, of a prompt or of a rule's message, so that they may be logged.

use serde::{Deserialize, Serialize};

use super::aborted::{AbortReason, AbortStage};
use super::consultation::ConsultOutcome;
use crate::{Action, Channel, Decision, PartId, Stream};

/// An event of a conversation. Serialized with its [`name`](Self::name) as the tag `event`.
///
/// # Example: an event as JSON
/// ```
/// use ttsr::harness::event::LoopEvent;
/// let event = LoopEvent::Usage { input: 20, output: 10 };
/// let json = serde_json::to_string(&event)?;
/// assert_eq!(json, r#"{"event":"usage","input":20,"output":10}"#);
/// assert_eq!(serde_json::from_str::<LoopEvent>(&json)?, event);
/// let later = serde_json::from_str::<LoopEvent>(r#"{"event":"of a later version"}"#)?;
/// assert_eq!(later, LoopEvent::Unknown);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LoopEvent {
    /// A request is to be sent.
    Send {
        /// The number of the attempt in its turn, from 1.
        attempt: u32,
        /// The number of messages added to the request.
        messages: usize,
        /// The model, if it changes with this attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The request was sent: a step of the model begins.
    StepStarted,
    /// The provider said that the reply is complete: the step of the model ends.
    StepFinished {
        /// The provider's reason to stop.
        reason: String,
    },
    /// The first bytes of an attempt were forwarded.
    FirstToken {
        /// Milliseconds since the request was sent.
        after: u64,
    },
    /// The session decided on a hit or a limit. Contains decisions that the policy suppresses.
    Decision(Box<DecisionEvent>),
    /// A tool call is complete.
    ToolCall(EventPart),
    /// The model made the same tool call at least three times in a row.
    DoomLoop {
        /// The part of the last call.
        #[serde(flatten)]
        part: EventPart,
        /// The number of identical calls in a row, at least 3.
        times: u32,
    },
    /// The provider reported the tokens used.
    Usage {
        /// Tokens of the request.
        input: u64,
        /// Tokens of the reply.
        output: u64,
    },
    /// The provider sent string content that no decoder reads, so that no rule saw it.
    Unscanned {
        /// The content's length in bytes.
        bytes: u64,
        /// The kind of provider event.
        #[serde(rename = "of")]
        kind: String,
    },
    /// The provider sent bytes of a part that was complete. They are neither published nor accumulated.
    Late {
        /// The part.
        #[serde(flatten)]
        part: EventPart,
        /// The number of bytes.
        bytes: u64,
    },
    /// The provider repeated a part, and the text differs from what it delivered before.
    Mismatch(EventPart),
    /// The provider starts the reply over, without a new request.
    Restarted,
    /// A hook panicked. It is not called again in this reply.
    HookPanicked {
        /// The hook's name.
        hook: String,
    },
    /// A hook did not return before its deadline. It is not called again in this reply.
    HookTimedOut {
        /// The hook's name.
        hook: String,
    },
    /// A rule asks for another model, and the chain has none that was not tried.
    NoFallback,
    /// A session was opened for a sub-agent that is asked about a tool call.
    SubAgent {
        /// The id of the sub-agent's session.
        session: String,
        /// The id of the session that opened it.
        parent: String,
        /// The id of the tool call.
        call: String,
        /// The full id of the rule that asks, or the name of the hook.
        by: String,
    },
    /// A consultation ended.
    Consulted {
        /// The id of the tool call.
        call: String,
        /// The full id of the rule that asked, or the name of the hook.
        by: String,
        /// The outcome.
        consulted: ConsultOutcome,
    },
    /// A rule or a hook asked for a sub-agent in the session of a sub-agent, which has none.
    ConsultRefused {
        /// The id of the tool call.
        call: String,
    },
    /// A hook asked for a retry that is not allowed: the user cancelled, a critical rule was broken, the reply's
    /// time is over, or hooks had their retries of the turn.
    RetryRefused {
        /// The hook's name.
        hook: String,
    },
    /// A hook gave a message to inject without asking for a retry.
    MessageIgnored {
        /// The hook's name.
        hook: String,
    },
    /// An attempt or a turn was aborted.
    Aborted(Box<AbortRecord>),
    /// A reply ended.
    Finish(Box<FinishRecord>),
    /// An event that a later version of the crate wrote.
    #[serde(other)]
    Unknown,
}

impl LoopEvent {
    /// Returns the name used in every output, such as `tool-call`: the tag of the serialized form.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            LoopEvent::Send { .. } => "send",
            LoopEvent::StepStarted => "step-started",
            LoopEvent::StepFinished { .. } => "step-finished",
            LoopEvent::FirstToken { .. } => "first-token",
            LoopEvent::Decision(_) => "decision",
            LoopEvent::ToolCall(_) => "tool-call",
            LoopEvent::DoomLoop { .. } => "doom-loop",
            LoopEvent::Usage { .. } => "usage",
            LoopEvent::Unscanned { .. } => "unscanned",
            LoopEvent::Late { .. } => "late",
            LoopEvent::Mismatch(_) => "mismatch",
            LoopEvent::Restarted => "restarted",
            LoopEvent::HookPanicked { .. } => "hook-panicked",
            LoopEvent::HookTimedOut { .. } => "hook-timed-out",
            LoopEvent::NoFallback => "no-fallback",
            LoopEvent::SubAgent { .. } => "sub-agent",
            LoopEvent::Consulted { .. } => "consulted",
            LoopEvent::ConsultRefused { .. } => "consult-refused",
            LoopEvent::RetryRefused { .. } => "retry-refused",
            LoopEvent::MessageIgnored { .. } => "message-ignored",
            LoopEvent::Aborted(_) => "aborted",
            LoopEvent::Finish(_) => "finish",
            LoopEvent::Unknown => "unknown",
        }
    }

    /// Returns the name of the hook, or the id of the rule or hook that asked, of an event that names one and has
    /// no other fields to show.
    #[must_use]
    pub fn by(&self) -> Option<&str> {
        match self {
            LoopEvent::HookPanicked { hook }
            | LoopEvent::HookTimedOut { hook }
            | LoopEvent::RetryRefused { hook }
            | LoopEvent::MessageIgnored { hook } => Some(hook),
            LoopEvent::SubAgent { by, .. } | LoopEvent::Consulted { by, .. } => Some(by),
            _ => None,
        }
    }
}

/// The part of a reply that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventPart {
    /// The part's id in its stream. Ids have no meaning outside their stream and are not serialized: `None` in an
    /// event that was read back.
    #[serde(skip)]
    pub id: Option<PartId>,
    /// The provider's name for the part.
    #[serde(default, rename = "part", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The part's channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The tool's name, if the part is a tool call and the name is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The id of the tool call, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

impl EventPart {
    /// Returns a description of a part of a stream, with the provider's name for it.
    #[must_use]
    pub fn new(stream: &Stream, part: PartId, name: impl Into<String>) -> EventPart {
        EventPart {
            id: Some(part),
            name: name.into(),
            channel: stream.channel(part),
            tool: stream.tool_name(part).map(str::to_owned),
            call: stream.call_id(part).map(str::to_owned),
        }
    }
}

/// A decision with the names of the rule and the part that it rests on. Contains no text.
///
/// # Example: a decision as a line of a log
/// ```
/// use ttsr::harness::event::DecisionEvent;
/// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
/// let pack = Pack::builder().rule(Rule::new("demo/no-todo", vec![Pattern::word("TODO")])).build()?;
/// let mut session = pack.session();
/// session.begin_turn();
/// let mut stream = session.stream();
/// stream.open(PartId(0), Channel::Text);
/// let _ = session.push(&mut stream, PartId(0), b"TODO ");
/// let record = DecisionEvent::new(&session.decisions()[0], &stream, "msg_1/0");
/// assert_eq!((record.rule.as_deref(), &*record.part.name), (Some("demo/no-todo"), "msg_1/0"));
/// assert_eq!((record.end, record.is_suppressed()), (Some(4), false));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DecisionEvent {
    /// The decision with the ids of its session. Ids are not serialized: `None` in a record that was read back.
    #[serde(skip)]
    pub decision: Option<Decision>,
    /// The full id of the rule, `pack/rule`; `None` if a limit decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The name of the limit; `None` if a rule decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The action of the rule.
    pub action: Action,
    /// The number of the turn, from 1.
    pub turn: u32,
    /// The number of the attempt in its turn, from 1.
    pub attempt: u32,
    /// The part with the hit.
    #[serde(flatten)]
    pub part: EventPart,
    /// The end of the match, in bytes of the part; `None` if a limit decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// The number of bytes of the part delivered when the decision was made.
    pub decided: u64,
    /// The reason why the policy suppresses the decision, if it does: a [name](crate::Suppression::name) of
    /// [`Suppression`](crate::Suppression).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<String>,
}

impl DecisionEvent {
    /// Returns the record of a decision about `stream`. `part_name` is the provider's name for the decision's part.
    #[must_use]
    pub fn new(
        decision: &Decision,
        stream: &Stream,
        part_name: impl Into<String>,
    ) -> DecisionEvent {
        let limit = match decision.source {
            crate::Source::Limit { name, .. } => Some(name.to_owned()),
            crate::Source::Rule(_) => None,
        };
        DecisionEvent {
            decision: Some(*decision),
            rule: stream.rule(decision).map(|rule| rule.id.clone()),
            limit,
            action: decision.action,
            turn: decision.turn,
            attempt: decision.attempt,
            part: EventPart::new(stream, decision.part(), part_name),
            end: decision.hit().map(|hit| hit.end),
            decided: decision.decided(),
            suppressed: decision.suppression.map(|why| why.name().to_owned()),
        }
    }

    /// Returns true if the policy suppresses the decision, so that nothing is done.
    #[must_use]
    pub fn is_suppressed(&self) -> bool {
        self.suppressed.is_some()
    }

    /// Returns the full id of the rule or the name of the limit.
    #[must_use]
    pub fn rule_or_limit(&self) -> &str {
        let id = self.rule.as_deref().or(self.limit.as_deref());
        id.unwrap_or_default()
    }
}

/// An aborted attempt or turn without its text: the record of an [`Aborted`](super::Aborted).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AbortRecord {
    /// The kind of reason.
    pub reason: AbortReason,
    /// The [name](super::AbortSource::name) of the kind of source: `rule`, `hook`, `limit`, `provider` or `user`.
    pub source: String,
    /// The [id](super::AbortSource::id) of the rule, hook or limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The number of the attempt in its turn, from 1.
    pub attempt: u32,
    /// The id of the reply.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The model, if the host named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The prompt, as [`PromptRef`](super::PromptRef) displays it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// The part of the turn that ended; `None` in files that were written before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<AbortStage>,
    /// The number of bytes of the attempt that were forwarded.
    pub bytes: u64,
    /// The number of tool calls that do not run.
    pub calls: usize,
    /// True if the reply is retried.
    pub retry: bool,
}

/// The end of a reply with its measurements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FinishRecord {
    /// True if the model completed an answer.
    pub complete: bool,
    /// The provider's reason to stop; for an abort the [name](AbortReason::name) of its reason.
    pub reason: String,
    /// The number of attempts.
    pub attempts: u32,
    /// The number of bytes forwarded of the last attempt.
    pub bytes: u64,
    /// Milliseconds from the first request to the end, over all attempts.
    pub millis: u64,
    /// Milliseconds from the last request to its first bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token: Option<u64>,
    /// Tokens per second in thousandths, from the first bytes to the end; `None` if the provider counts no tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_rate: Option<u64>,
    /// An estimate of the bytes saved by cuts: for each attempt that was cut, the expected length minus the bytes
    /// that were forwarded. The expected length is that of the answer or, without an answer, the mean of the
    /// conversation's answers.
    pub saved: u64,
    /// The number of bytes that rules could not read.
    pub unscanned: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_serialized_under_its_name_and_read_back() {
        let hook = || "guard".to_owned();
        let part = EventPart {
            name: "0".to_owned(),
            tool: Some("bash".to_owned()),
            ..EventPart::default()
        };
        let decision = DecisionEvent {
            decision: None,
            rule: Some("a/b".to_owned()),
            limit: None,
            action: Action::Warn,
            turn: 1,
            attempt: 2,
            part: part.clone(),
            end: Some(3),
            decided: 4,
            suppressed: Some("shadow".to_owned()),
        };
        let aborted = AbortRecord {
            reason: AbortReason::Plugin,
            source: "rule".to_owned(),
            by: Some("a/b".to_owned()),
            attempt: 1,
            message: "msg".to_owned(),
            model: None,
            prompt: "1".to_owned(),
            stage: Some(AbortStage::Reply),
            bytes: 5,
            calls: 0,
            retry: true,
        };
        let finish = FinishRecord {
            complete: true,
            reason: "stop".to_owned(),
            attempts: 1,
            bytes: 2,
            millis: 3,
            first_token: Some(4),
            token_rate: None,
            saved: 5,
            unscanned: 6,
        };
        let consulted = ConsultOutcome::Failed {
            reason: AbortReason::Error,
            detail: String::new(),
        };
        let events = [
            LoopEvent::Send {
                attempt: 1,
                messages: 2,
                model: None,
            },
            LoopEvent::StepStarted,
            LoopEvent::StepFinished {
                reason: "stop".to_owned(),
            },
            LoopEvent::FirstToken { after: 7 },
            LoopEvent::Decision(Box::new(decision)),
            LoopEvent::ToolCall(part.clone()),
            LoopEvent::DoomLoop {
                part: part.clone(),
                times: 3,
            },
            LoopEvent::Usage {
                input: 1,
                output: 2,
            },
            LoopEvent::Unscanned {
                bytes: 1,
                kind: "logprobs".to_owned(),
            },
            LoopEvent::Late {
                part: part.clone(),
                bytes: 9,
            },
            LoopEvent::Mismatch(part),
            LoopEvent::Restarted,
            LoopEvent::HookPanicked { hook: hook() },
            LoopEvent::HookTimedOut { hook: hook() },
            LoopEvent::NoFallback,
            LoopEvent::SubAgent {
                session: "s/c".to_owned(),
                parent: "s".to_owned(),
                call: "c".to_owned(),
                by: "a/b".to_owned(),
            },
            LoopEvent::Consulted {
                call: "c".to_owned(),
                by: "a/b".to_owned(),
                consulted,
            },
            LoopEvent::ConsultRefused {
                call: "c".to_owned(),
            },
            LoopEvent::RetryRefused { hook: hook() },
            LoopEvent::MessageIgnored { hook: hook() },
            LoopEvent::Aborted(Box::new(aborted)),
            LoopEvent::Finish(Box::new(finish)),
            LoopEvent::Unknown,
        ];
        for event in events {
            let json = serde_json::to_value(&event).unwrap();
            assert_eq!(json["event"], event.name());
            assert_eq!(serde_json::from_value::<LoopEvent>(json).unwrap(), event);
        }
    }

    #[test]
    fn an_answer_and_a_failures_detail_are_not_serialized() {
        let consulted = [
            ConsultOutcome::Answered("the answer".to_owned()),
            ConsultOutcome::TimedOut,
            ConsultOutcome::Failed {
                reason: AbortReason::Error,
                detail: "the detail".to_owned(),
            },
            ConsultOutcome::Refused {
                reason: "length".to_owned(),
            },
            ConsultOutcome::Cancelled,
            ConsultOutcome::Nested,
        ];
        for consulted in consulted {
            let name = consulted.name();
            let event = LoopEvent::Consulted {
                call: String::new(),
                by: String::new(),
                consulted,
            };
            let json = serde_json::to_string(&event).unwrap();
            assert!(json.contains(name), "{json}");
            assert!(
                !json.contains("the answer") && !json.contains("the detail"),
                "{json}"
            );
            let read: LoopEvent = serde_json::from_str(&json).unwrap();
            assert_eq!(read.name(), "consulted");
        }
    }
}
