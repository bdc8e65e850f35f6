//! What goes into the processor and what comes out of it.

use std::fmt;

use super::consult::{Consultation, Consulted};
use super::handoff::Handoff;
use super::message::Message;
use super::provider::Failure;
use super::reply::Reply;
use crate::session::fnv1a;
use crate::stream::Counters;
use crate::{Channel, Decision, Event, PartId, RuleId};

/// What the processor is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// The request of the last [`Step::Send`] is on its way: what follows belongs to its reply. What
    /// comes after a cut and before this is of the old reply, and is dropped and counted.
    Sent,
    /// An event of the reply.
    Event(Event),
    /// The reply's stream ended.
    End,
    /// The reply's stream, or the request, failed.
    Failed(Failure),
    /// The user wants no more of it. Always wins.
    Cancel,
    /// Nothing happened but time.
    Tick,
}

/// What the host must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Send the request, with these messages added to those it had; answer with [`Input::Sent`].
    Send {
        /// The number of the attempt in its turn, from 1.
        attempt: u32,
        /// What stays of the reply that was cut, guidance that waited for a request, and what steers a
        /// retry.
        messages: Vec<Message>,
        /// The model to take from now on, by the name that the rule which retries has for it.
        model: Option<String>,
        /// The temperature to take from now on, in thousandths.
        temperature: Option<u32>,
    },
    /// Publish: a part opens.
    Open {
        /// Its number in the stream.
        part: PartId,
        /// What the provider calls it.
        name: String,
        /// What kind of part it is.
        channel: Channel,
        /// The tool's name, where it is known already.
        tool: Option<String>,
        /// The id of the tool call, where it is known already.
        call: Option<String>,
    },
    /// Publish: the tool of a part is known now.
    Named {
        /// The part concerned.
        part: PartId,
        /// The tool's name.
        tool: String,
        /// The id of the tool call.
        call: Option<String>,
    },
    /// Publish: a part grew. Hooks and rules have seen these bytes.
    Forward {
        /// The part concerned.
        part: PartId,
        /// The bytes, as the hooks left them.
        bytes: Vec<u8>,
    },
    /// Publish: so many bytes of a part arrived and wait, because a rule that
    /// [holds](crate::Rule::holds) may yet concern them. They are forwarded once that is decided. A part that opens
    /// meanwhile is published once they have left, so a tool call never comes before the text before it.
    Hold {
        /// The part concerned.
        part: PartId,
        /// How many bytes of it wait now.
        bytes: u64,
    },
    /// Publish: a part is complete.
    Close {
        /// The part concerned.
        part: PartId,
        /// The whole text, if a hook replaced it at the end.
        replaced: Option<Vec<u8>>,
    },
    /// Publish: the tool call does not run, because it was never completed or its attempt was aborted; see
    /// [`TOOL_ABORTED`](super::TOOL_ABORTED). Comes before the [`Step::Aborted`] of the attempt.
    ToolAborted {
        /// The part concerned.
        part: PartId,
        /// The id of the tool call, if it was known.
        call: Option<String>,
    },
    /// Publish: what was forwarded of this part is void from that byte on, for the reply is taken
    /// again. Comes before the [`Step::Send`] of the retry.
    Retract {
        /// The part concerned.
        part: PartId,
        /// Number of its bytes that stay.
        from: u64,
    },
    /// Drop the transport of the reply now.
    CancelUpstream,
    /// Guidance waits for the next request. Nothing to do: its message will be in a [`Step::Send`].
    Inject {
        /// The decision it rests on.
        decision: Decision,
        /// What the model will be told.
        message: Message,
    },
    /// Show this to the user.
    Notify {
        /// The decision it rests on.
        decision: Decision,
        /// The rule's message.
        text: String,
    },
    /// Publish: what a tool gave back, after hooks and rules; or why it did not run.
    ToolResult {
        /// The id of the call.
        call: String,
        /// The tool's name.
        tool: String,
        /// What the model is told.
        output: String,
        /// Whether the tool failed, or was kept from running.
        is_error: bool,
    },
    /// After this reply go on in a new session.
    Handoff {
        /// The decision it rests on.
        decision: Decision,
        /// What the new session begins with.
        handoff: Handoff,
    },
    /// Something worth a line in a log.
    Observe(Observation),
    /// An attempt was aborted, or the turn while its tools ran; see [`Aborted::stage`]. Once per abort: a
    /// retry that the user or the clock calls off before it is sent is no abort of its own.
    Aborted(Box<Aborted>),
    /// The reply is over. Once per reply, and nothing after it.
    Finish(Box<Outcome>),
}

/// Something worth a line in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// A decision was made, or kept silent by the policy.
    Decision(Decision),
    /// The request is on its way: a step of the model begins.
    StepStarted,
    /// The provider said that the step is complete.
    StepFinished {
        /// The provider's reason to stop, as it names it.
        reason: String,
    },
    /// A tool call is complete.
    ToolCall {
        /// The part it was written in.
        part: PartId,
    },
    /// The model makes the same tool call again and again.
    DoomLoop {
        /// The part of the last one.
        part: PartId,
        /// How many identical calls in a row, at least three.
        times: u32,
    },
    /// Tokens used, as the provider counts them.
    Usage {
        /// Tokens of the request.
        input: u64,
        /// Tokens of the reply.
        output: u64,
    },
    /// String content that no reader knows.
    Unscanned {
        /// How many bytes.
        bytes: u64,
        /// The kind of event, as the provider names it.
        kind: String,
    },
    /// Bytes of a part that was complete already: not published, not accumulated.
    Late {
        /// The part concerned.
        part: PartId,
        /// How many bytes.
        bytes: u64,
    },
    /// The provider repeated a part and it is not what it delivered before.
    Mismatch {
        /// The part concerned.
        part: PartId,
    },
    /// The provider starts the reply over.
    Restarted,
    /// A hook panicked; it is not called again in this reply.
    HookPanicked {
        /// The hook's name.
        hook: String,
    },
    /// A hook did not return before its deadline; it is not called again in this reply.
    HookTimedOut {
        /// The hook's name.
        hook: String,
    },
    /// A rule wants another model, and the chain has none that was not tried.
    NoFallback,
    /// A sub-agent is asked about a tool call.
    Consulting {
        /// The id of the tool call.
        call: String,
        /// Who asks: the full id of a rule, or the name of a hook.
        by: String,
        /// The id of the sub-agent's session.
        session: String,
        /// The id of the session that opens it.
        parent: String,
    },
    /// What came of it.
    Consulted {
        /// The id of the tool call.
        call: String,
        /// Who asked.
        by: String,
        /// What came of it.
        consulted: Consulted,
    },
    /// A rule or a hook wants a sub-agent asked, and this is one: it asks nobody.
    ConsultRefused {
        /// The id of the tool call.
        call: String,
    },
    /// A hook asked for a retry that it cannot have: the user cancelled, a critical rule was broken, the
    /// reply's time is over, or hooks had their retries already.
    RetryRefused {
        /// The hook's name.
        hook: String,
    },
    /// A hook gave a message to inject without asking for a retry.
    MessageIgnored {
        /// The hook's name.
        hook: String,
    },
}

/// The kind of reason for an abort.
///
/// # Example: why there is no answer
/// ```
/// use ttsr::Pack;
/// use ttsr::harness::{
///     Cancel, End, Failure, Hooks, Processor, Request, Script, Scripted, Settings, run,
/// };
/// let failure = Failure::new("overloaded_error", "try again");
/// let mut provider = Scripted::new([Script::default().text("It is").fail(failure)]);
/// let session = Pack::builder().build()?.session();
/// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
/// let request = Request::new("a-model", Vec::new());
/// let running = run(&mut processor, &mut provider, request, "msg_1", Cancel::default(), |_| {});
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let End::Aborted { reason, .. } = runtime.block_on(running).end else { panic!("it failed") };
/// assert_eq!(reason.name(), "error");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The user cancelled.
    User,
    /// A rule or a hook cut the reply.
    Plugin,
    /// The provider failed, a hook panicked, or a bound was reached.
    Error,
    /// It took too long.
    Timeout,
}

impl Reason {
    /// `user`, `plugin`, `error` or `timeout`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::User => "user",
            Reason::Plugin => "plugin",
            Reason::Error => "error",
            Reason::Timeout => "timeout",
        }
    }
}

/// Who is behind an abort.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// A rule of the pack.
    Rule {
        /// The rule.
        rule: RuleId,
        /// Its full id, `pack/rule`.
        id: String,
    },
    /// A hook, by the name it was registered with.
    Hook(String),
    /// A bound of [`Limits`](crate::Limits) or [`Settings`](super::Settings), by its name there.
    Limit(&'static str),
    /// The provider, or the way to it.
    Provider,
    /// The user.
    User,
}

/// The part of a turn that an abort ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AbortStage {
    /// The request, before it was sent: a rule or a hook refused it, the user cancelled, or time was over.
    Request,
    /// The reply, from the sent request to the provider's last event.
    Reply,
    /// The tool calls of a complete reply: a rule refused what a tool gave back, the user cancelled, or the
    /// turn had its last reply. The turn ends; hooks cannot retry it.
    Tools,
}

impl AbortStage {
    /// `request`, `reply` or `tools`.
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
    /// The 64-bit FNV-1a hash of what the user wrote last, before hooks and rules changed it. It groups equal
    /// prompts; whoever can guess a prompt can confirm the guess. `None` until the request of the turn is
    /// [prepared](super::Processor::prepare).
    pub hash: Option<u64>,
}

impl PromptRef {
    /// The reference to the last message in `messages` that a person wrote.
    #[must_use]
    pub fn new(turn: u32, messages: &[Message]) -> PromptRef {
        let written = messages.iter().rev().find_map(Message::written);
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

/// An attempt, or a turn, that was aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Aborted {
    /// The session's id, from [`Settings::session`](super::Settings::session).
    pub session: String,
    /// The id of the session that opened this one, if one did.
    pub parent: Option<String>,
    /// The id of the reply: the same for every attempt at it.
    pub message: String,
    /// The model of the attempt. `None` where the host named none, neither in a request that it
    /// [prepared](super::Processor::prepare) nor in the [`Origin`](crate::Origin).
    pub model: Option<String>,
    /// The prompt that the reply answers.
    pub prompt: PromptRef,
    /// The part of the turn that ends.
    pub stage: AbortStage,
    /// The number of the attempt in its turn, from 1.
    pub attempt: u32,
    /// The kind of reason.
    pub reason: Reason,
    /// Who is behind it.
    pub source: Source,
    /// The rule's message or the provider's error; empty where there is nothing to add.
    pub detail: String,
    /// The part in which it was decided. Every other part is innocent.
    pub part: Option<PartId>,
    /// The tool calls of the attempt. None of them runs, complete or not.
    pub calls: Vec<AbortedCall>,
    /// What was accumulated before the abort; the delta that brought it is not in here, and neither is
    /// what was held.
    pub partial: Reply,
    /// For each part of the partial what of it may be sent to the provider again.
    pub blocks: Vec<AbortedBlock>,
    /// Whether the reply is taken again. Hooks see here whether a rule retries.
    pub retry: bool,
    /// What the rules' stream counted.
    pub counters: Counters,
}

/// A part of an aborted attempt, as a block of a later request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbortedBlock {
    /// The part.
    pub part: PartId,
    /// What kind of part it is.
    pub channel: Channel,
    /// What of it may be sent.
    pub replay: Replay,
}

/// What of an aborted part may be sent to the provider again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replay {
    /// Its first bytes, so many: text. A character that is not complete is not among them.
    UpTo(u64),
    /// Its first bytes, so many, as reasoning without a signature: only where the provider does not sign
    /// reasoning (see [`Settings::signs_reasoning`](super::Settings::signs_reasoning)).
    Unsigned(u64),
    /// None: a tool call that did not run and has no result, or reasoning whose signature is missing.
    Never,
}

/// A tool call of an aborted attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbortedCall {
    /// The part it was written in.
    pub part: PartId,
    /// The tool's name, if it was known.
    pub tool: Option<String>,
    /// The id of the call, if it was known.
    pub call: Option<String>,
    /// Whether the model had written all of it.
    pub is_complete: bool,
    /// Whether the abort is about this call. The others were only running beside it.
    pub is_blamed: bool,
}

/// How a reply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Answered, or aborted by whom.
    pub end: End,
    /// The answer; empty if there is none. An aborted partial is never an answer.
    pub reply: Reply,
    /// How many attempts it took.
    pub attempts: u32,
    /// Every message that was added to the request, in order: they belong to the
    /// conversation from now on.
    pub added: Vec<Message>,
    /// Whom to ask before tool calls of the answer run, in the order of the decisions.
    pub consultations: Vec<Consultation>,
    /// The model that answered, where a rule took another than the request's.
    pub model: Option<String>,
    /// What the rules' stream of the last attempt counted.
    pub counters: Counters,
}

/// Answered, or aborted by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The model answered.
    Complete {
        /// The provider's reason to stop, as it names it.
        reason: String,
    },
    /// The model ran into a limit of its output or context: the reply holds what it wrote until then. Tool
    /// calls that are not whole do not run.
    Truncated {
        /// The provider's reason to stop, as it names it: `length`, `max_tokens` and the like.
        reason: String,
    },
    /// There is no answer.
    Aborted {
        /// The kind of reason.
        reason: Reason,
        /// Who is behind it.
        source: Source,
        /// As in [`Aborted::detail`].
        detail: String,
    },
}

impl End {
    /// The end of a reply that the provider stopped for that reason.
    pub(super) fn stopped(reason: String) -> End {
        match is_truncation(&reason) {
            true => End::Truncated { reason },
            false => End::Complete { reason },
        }
    }
}

/// Returns true if a reply that stopped for this reason lacks its end, by the names that providers use.
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
