//! The input of the [`Processor`](super::Processor) and the steps that it returns.

use serde::Serialize;

use super::aborted::{AbortReason, AbortSource, Aborted};
use super::consultation::Consultation;
use super::event::LoopEvent;
use super::handoff::Handoff;
use super::message::Message;
use super::provider::Failure;
use super::reply::Reply;
use crate::stream::Counters;
use crate::{Channel, Decision, Event, PartId};

/// An input of the [`Processor`](super::Processor).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// The request of the last [`Step::Send`] was prepared and sent, and later inputs belong to its reply. Inputs between
    /// a cut and `Sent` belong to the old reply: they are dropped and counted. If the request had to be
    /// [prepared](super::Processor::prepare) and was not, the reply is aborted.
    Sent,
    /// The reply's next event.
    Event(Event),
    /// The reply's stream ended.
    End,
    /// The request or the reply's stream failed.
    Failed(Failure),
    /// The user cancelled. Takes precedence over everything else.
    Cancel,
    /// Time passed and nothing else happened.
    Tick,
}

impl Input {
    /// Returns the name used in every output, such as `sent`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Input::Sent => "sent",
            Input::Event(_) => "event",
            Input::End => "end",
            Input::Failed(_) => "failed",
            Input::Cancel => "cancel",
            Input::Tick => "tick",
        }
    }
}

/// An instruction to the host. Steps are carried out in order.
///
/// # Example: a request is prepared before it is sent
/// ```
/// use std::time::Duration;
/// use ttsr::harness::{Hooks, Input, Message, Processor, Request, Settings, Step};
/// use ttsr::{Action, Channel, Pack, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-keys", vec![Pattern::literal("sk-live")]);
/// rule.on = vec![Channel::UserInput];
/// rule.action = Action::Abort;
/// let pack = Pack::builder().rule(rule).build()?;
///
/// /// Begins a turn with a prompt. Returns the requests that leave the host.
/// fn ask(processor: &mut Processor, prompt: &str) -> Vec<Request> {
///     let mut sent = Vec::new();
///     let mut steps = Vec::new();
///     processor.begin("msg_1", &mut steps);
///     for step in std::mem::take(&mut steps) {
///         if let Step::Send { messages, .. } = step {
///             let mut request = Request::new("a-model", vec![Message::user(prompt)]);
///             request.messages.extend(messages);
///             // `None`: a rule refused the prompt, and `steps` has the abort.
///             if let Some(prepared) = processor.prepare(&request, &mut steps) {
///                 sent.push(prepared.request);
///                 processor.step(Duration::ZERO, Input::Sent, &mut steps);
///             }
///         }
///     }
///     sent
/// }
///
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
/// assert_eq!(ask(&mut processor, "Hello.").len(), 1);
/// assert_eq!(ask(&mut processor, "Use sk-live-1."), []);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Append these messages to those of the request, pass it to [`Processor::prepare`](super::Processor::prepare), send
    /// the request that this returns, and answer with [`Input::Sent`].
    ///
    /// Every attempt is prepared: `prepare` is where rules read the user's messages, and where they edit the request. If it
    /// returns `None`, nothing is sent. If rules read the user's messages or hooks edit requests, and the request was not
    /// prepared, [`Input::Sent`] aborts the reply: nothing of it is published. [`run`](super::run()) and
    /// [`AgentTurn`](super::AgentTurn) do all this.
    Send {
        /// The number of the attempt in its turn, from 1.
        attempt: u32,
        /// The text kept of the reply that was cut, guidance that waited for a request, and the messages that steer a
        /// retry, in this order.
        messages: Vec<Message>,
        /// The model to use from now on, by the name that the retrying rule gives it; `None` to keep the model.
        model: Option<String>,
        /// The temperature to use from now on, in thousandths; `None` to keep it.
        temperature: Option<u32>,
    },
    /// Publish: a part opens.
    Open {
        /// The part's id in the stream.
        part: PartId,
        /// The provider's name for the part.
        name: String,
        /// The part's channel.
        channel: Channel,
        /// The tool's name, if it is known.
        tool: Option<String>,
        /// The id of the tool call, if it is known.
        call: Option<String>,
    },
    /// Publish: the tool of a part became known.
    Named {
        /// The part.
        part: PartId,
        /// The tool's name.
        tool: String,
        /// The id of the tool call.
        call: Option<String>,
    },
    /// Publish: a part grew. Hooks and rules have seen these bytes.
    Forward {
        /// The part.
        part: PartId,
        /// The bytes after the hooks.
        bytes: Vec<u8>,
    },
    /// Publish: bytes of a part were delivered and are held, because a rule that [holds](crate::Rule::holds) may yet
    /// act on them. They are forwarded once the rule is decided. A part that opens meanwhile is published after they
    /// have left, so that a tool call is never published before the text that precedes it.
    Hold {
        /// The part.
        part: PartId,
        /// The number of bytes of the part held now.
        bytes: u64,
    },
    /// Publish: a part is complete.
    Close {
        /// The part.
        part: PartId,
        /// The whole text, if a hook replaced it at the end.
        replaced: Option<Vec<u8>>,
    },
    /// Publish: the tool call does not run, because it was not completed or its attempt was aborted; see
    /// [`TOOL_ABORTED`](super::TOOL_ABORTED). Precedes the [`Step::Aborted`] of the attempt.
    ToolAborted {
        /// The part.
        part: PartId,
        /// The id of the tool call, if it is known.
        call: Option<String>,
    },
    /// Publish: the bytes forwarded of this part from an offset on are void, because the reply is retried. Precedes
    /// the [`Step::Send`] of the retry.
    Retract {
        /// The part.
        part: PartId,
        /// The offset: the number of bytes of the part that stay valid.
        from: u64,
    },
    /// Close the transport of the reply now.
    CancelUpstream,
    /// Guidance waits for the next request. The host does nothing: the message will be in a [`Step::Send`].
    Inject {
        /// The decision to inject.
        decision: Decision,
        /// The message for the model.
        message: Message,
    },
    /// Show this text to the user.
    Notify {
        /// The decision to warn.
        decision: Decision,
        /// The rule's message.
        text: String,
    },
    /// Publish: the output of a tool after hooks and rules, or the reason why it did not run.
    ToolResult {
        /// The id of the call.
        call: String,
        /// The tool's name.
        tool: String,
        /// The output for the model.
        output: String,
        /// True if the tool failed or did not run.
        is_error: bool,
    },
    /// Continue in a new session after this reply.
    Handoff {
        /// The decision to hand over.
        decision: Decision,
        /// The first prompt of the new session.
        handoff: Handoff,
    },
    /// An event for logs.
    Observe(LoopEvent),
    /// An attempt was aborted, or the turn while its tools ran; see [`Aborted::stage`]. Occurs once per abort, which does
    /// not include a retry cancelled by the user or a time limit before it is sent.
    Aborted(Box<Aborted>),
    /// The reply ended. Occurs once per reply, as its last step.
    Finish(Box<ReplyOutcome>),
}

impl Step {
    /// Returns the name used in every output, such as `forward`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Step::Send { .. } => "send",
            Step::Open { .. } => "open",
            Step::Named { .. } => "named",
            Step::Forward { .. } => "forward",
            Step::Hold { .. } => "hold",
            Step::Close { .. } => "close",
            Step::ToolAborted { .. } => "tool-aborted",
            Step::Retract { .. } => "retract",
            Step::CancelUpstream => "cancel-upstream",
            Step::Inject { .. } => "inject",
            Step::Notify { .. } => "notify",
            Step::ToolResult { .. } => "tool-result",
            Step::Handoff { .. } => "handoff",
            Step::Observe(_) => "observe",
            Step::Aborted(_) => "aborted",
            Step::Finish(_) => "finish",
        }
    }
}

/// The result of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplyOutcome {
    /// The end of the reply.
    pub end: End,
    /// The answer; empty if there is none. The partial reply of an aborted attempt is never an answer.
    pub reply: Reply,
    /// The number of attempts.
    pub attempts: u32,
    /// All messages that were added to the request, in order. They belong to the conversation from now on.
    pub added: Vec<Message>,
    /// The questions to ask before tool calls of the answer run, in the order of the decisions.
    pub consultations: Vec<Consultation>,
    /// The model that answered, if a rule chose another one than the request's.
    pub model: Option<String>,
    /// The counters of the last attempt's stream.
    pub counters: Counters,
}

/// The end of a reply or a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum End {
    /// The model answered.
    Complete {
        /// The provider's reason to stop.
        reason: String,
    },
    /// The model reached a limit of its output or context. The reply contains the text up to there; incomplete tool
    /// calls do not run.
    Truncated {
        /// The provider's reason to stop, such as `length` or `max_tokens`.
        reason: String,
    },
    /// There is no answer.
    Aborted {
        /// The kind of reason.
        reason: AbortReason,
        /// The rule, hook, bound or party that caused the abort.
        source: AbortSource,
        /// The rule's message or the provider's error, as in [`Aborted::detail`].
        detail: String,
    },
}

impl End {
    /// Returns the name used in every output: `complete`, `truncated` or `aborted`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            End::Complete { .. } => "complete",
            End::Truncated { .. } => "truncated",
            End::Aborted { .. } => "aborted",
        }
    }

    /// Returns the end of a reply that the provider stopped for this reason.
    pub(super) fn from_stop_reason(reason: String) -> End {
        match is_truncation(&reason) {
            true => End::Truncated { reason },
            false => End::Complete { reason },
        }
    }

    /// Returns true if there is no answer.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        matches!(self, End::Aborted { .. })
    }
}

/// Returns true if the provider's reason to stop means that a limit of the model cut the reply, by the names that
/// providers use.
#[must_use]
pub fn is_truncation(reason: &str) -> bool {
    const NAMES: [&str; 7] = [
        "length",
        "max_tokens",
        "max_output_tokens",
        "max_completion_tokens",
        "model_length",
        "model_context_window_exceeded",
        "incomplete",
    ];
    NAMES.iter().any(|name| reason.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_and_steps_have_the_names_of_the_log() {
        let inputs = [Input::Sent, Input::End, Input::Cancel, Input::Tick];
        let names = inputs.map(|input| input.name());
        assert_eq!(names, ["sent", "end", "cancel", "tick"]);
        let part = PartId(1);
        let (call, tool, output) = (String::new(), String::new(), String::new());
        let open = Step::Open {
            part,
            name: String::new(),
            channel: Channel::Text,
            tool: None,
            call: None,
        };
        let steps = [
            open,
            Step::Named {
                part,
                tool: String::new(),
                call: None,
            },
            Step::Forward {
                part,
                bytes: Vec::new(),
            },
            Step::Hold { part, bytes: 1 },
            Step::Close {
                part,
                replaced: None,
            },
            Step::ToolAborted { part, call: None },
            Step::Retract { part, from: 0 },
            Step::CancelUpstream,
            Step::ToolResult {
                call,
                tool,
                output,
                is_error: false,
            },
        ];
        let names = [
            "open",
            "named",
            "forward",
            "hold",
            "close",
            "tool-aborted",
            "retract",
            "cancel-upstream",
            "tool-result",
        ];
        assert_eq!(steps.map(|step| step.name()), names);
    }

    #[test]
    fn only_an_end_without_an_answer_is_aborted() {
        let aborted = End::Aborted {
            reason: AbortReason::User,
            source: AbortSource::User,
            detail: String::new(),
        };
        for (end, expected) in [
            (End::from_stop_reason("stop".into()), false),
            (End::from_stop_reason("LENGTH".into()), false),
            (aborted, true),
        ] {
            assert_eq!(end.is_aborted(), expected, "{end:?}");
        }
    }
}
