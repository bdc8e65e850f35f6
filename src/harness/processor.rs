//! The reference loop without I/O: events in, steps out, one reply at a time.
//!
//! The processor opens no connection, reads no clock and never waits: the host (or [`run`](super::run())) carries out
//! the steps and passes the time in. Each delta passes the hooks, then the rules; only then is it accumulated and
//! published.

mod abort;
mod order;
mod part;
mod whole_text;

use std::collections::VecDeque;
use std::time::Duration;

use super::aborted::PromptRef;
use super::cancel::Cancel;
use super::consultation::Consultation;
use super::event::LoopEvent;
use super::fallback::{Chains, SessionEvent};
use super::handoff::Handoff;
use super::hooks::{HookPoint, Hooks, OnHookFault};
use super::message::Message;
use super::reply::{PartState, Reply};
use super::step::{End, Input, ReplyOutcome, Step, is_truncation};
use crate::session::Lost;
use crate::{Channel, Conversation, Decision, Event, Origin, Pack, PartId, Rule, Stream};
use abort::{AbortCause, NextAttempt};
use order::DelayedPart;
use whole_text::CheckedMessages;
pub use whole_text::PreparedRequest;

/// The identity and the bounds of a [`Processor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The session's id, for hooks and records. Default empty.
    pub session: String,
    /// The id of the session that opened this one. Default `None`.
    pub parent: Option<String>,
    /// The number of sessions above this one. Sub-agents are asked only in a session of depth 0. Default 0.
    pub depth: u32,
    /// The package through which the provider is reached, by its name in OpenCode's configuration. Some packages set
    /// headers themselves, which rules then do not set. Default `None`.
    pub package: Option<String>,
    /// True if the provider signs reasoning, so that part of a reasoning text cannot be sent back. Default false.
    pub signs_reasoning: bool,
    /// The models to use, in order, if a rule asks for another model. Default none.
    pub fallback: Chains,
    /// True if the input of a tool call is published only once the call is complete and no rule has cut the reply, where
    /// rules may cut or review calls. Default false: it is published as it arrives, and the host must discard the call
    /// at [`Step::ToolAborted`]. [`AgentTurn`](super::AgentTurn) runs no call before its reply is complete.
    pub holds_tool_input: bool,
    /// The longest silence of the provider within an attempt. Default `None`: unbounded.
    pub stall: Option<Duration>,
    /// The longest time of one attempt. Default `None`: unbounded.
    pub attempt: Option<Duration>,
    /// The longest time of a reply over all attempts. Once it is over there is no retry. Default 10 min.
    pub reply: Option<Duration>,
    /// The longest wait for the end of the stream, and for events such as usage before it, after the provider said that
    /// the reply is complete. Default 2 s.
    pub linger: Duration,
    /// The most retries that hooks may ask for in one turn, over all its replies. Retries of rules are bounded by the
    /// rules. Default 3.
    pub hook_retries: u32,
    /// The most bytes accumulated for one reply. Default 64 MiB.
    pub reply_bytes: u64,
    /// The consequence for the stream of a hook that panics or does not return in time.
    pub on_hook_fault: OnHookFault,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            session: String::new(),
            parent: None,
            depth: 0,
            package: None,
            signs_reasoning: false,
            fallback: Chains::default(),
            holds_tool_input: false,
            stall: None,
            attempt: None,
            reply: Some(Duration::from_secs(600)),
            linger: Duration::from_secs(2),
            hook_retries: 3,
            reply_bytes: 64 << 20,
            on_hook_fault: OnHookFault::default(),
        }
    }
}

/// Counters of irregular inputs and failures, over all replies of a [`Processor`]. All are zero in a well-behaved
/// conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessorCounters {
    /// Inputs outside a reply: after its end, or after the end of an attempt that was cut.
    pub stray_inputs: u64,
    /// Replies that were given up because another reply began.
    pub abandoned_replies: u64,
    /// Bytes of parts that were complete. They are neither published nor accumulated.
    pub late_bytes: u64,
    /// Bytes of string content that no decoder reads.
    pub unscanned_bytes: u64,
    /// Parts that the provider repeated with a different text.
    pub mismatches: u64,
    /// Panics of hooks.
    pub hook_panics: u64,
    /// Hooks that did not return before their deadline.
    pub hook_timeouts: u64,
    /// Retries that hooks asked for and that were not allowed.
    pub refused_retries: u64,
    /// Messages that hooks gave without asking for a retry.
    pub ignored_messages: u64,
}

/// The state machine of a conversation's replies.
///
/// A reply begins with [`begin`](Self::begin) (the first reply to a prompt of the user) or
/// [`proceed`](Self::proceed) (the next one, after tools ran) and ends with exactly one [`Step::Finish`], however many
/// attempts it takes. After the end, and between a cut and the next [`Input::Sent`], inputs are ignored and counted.
/// Guidance that was not sent yet waits for the next request, in this turn or a later one.
///
/// # Example: rules see a delta before it is published
/// ```
/// use std::time::Duration;
/// use ttsr::harness::{Hooks, Input, Processor, Settings, Step};
/// use ttsr::{Event, Pack, PartId};
/// let pack = Pack::from_toml(r#"
/// schema = 1
/// [pack]
/// name = "demo"
/// [rule.no-rm]
/// description = "No recursive deletes"
/// severity = "critical"
/// match.any = [{ literal = "rm -rf" }]
/// examples.match = ["rm -rf /"]
/// "#)?;
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
/// let mut steps = Vec::new();
/// processor.begin("msg_1", &mut steps);
/// processor.step(Duration::ZERO, Input::Sent, &mut steps);
/// for delta in ["try rm", " -rf /"] {
///     let event = Event::Delta { part: PartId(0), bytes: delta.into() };
///     processor.step(Duration::ZERO, Input::Event(event), &mut steps);
/// }
/// let published = steps.iter().filter_map(|step| match step {
///     Step::Forward { bytes, .. } => Some(bytes.as_slice()),
///     _ => None,
/// });
/// assert_eq!(published.collect::<Vec<_>>(), [b"try rm"]);
/// assert!(matches!(steps.last(), Some(Step::Finish(_))));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Debug)]
pub struct Processor {
    /// Reads the replies: it decides, holds text back, and keeps the guidance for the next request.
    conversation: Conversation,
    hooks: Hooks,
    settings: Settings,
    state: ReplyState,
    /// The edits that rules made to the user's messages.
    checked: CheckedMessages,
    /// Models that were used in this session and refused.
    tried: Vec<String>,
    counters: ProcessorCounters,
    turn: TurnProgress,
    progress: ReplyProgress,
    attempt: LoopAttempt,
}

/// The state of one turn: the replies to one prompt of the user.
#[derive(Debug, Default)]
struct TurnProgress {
    calls: RepeatedCalls,
    /// The ids of the sub-agents' sessions.
    sub_agents: Vec<String>,
    /// The handoffs that rules asked for, to be made after the next complete reply.
    handoffs: Vec<PendingHandoff>,
    /// The calls that a sub-agent was asked about.
    asked_calls: Vec<AskedCall>,
    /// The number of retries that hooks were granted.
    hook_retries: u32,
    prompt: PromptRef,
}

/// The state of one attempt at a reply.
#[derive(Debug)]
struct LoopAttempt {
    reply: Reply,
    /// The turn's calls before the attempt, restored if the attempt is cut: its calls do not run.
    calls_before: RepeatedCalls,
    /// True if text may wait before it is published.
    delays_text: bool,
    /// True if a rule of the pack bounds time.
    is_timed: bool,
    /// The questions to ask about tool calls.
    consultations: Vec<Consultation>,
}

impl LoopAttempt {
    /// Returns the state of the attempt that the conversation has begun.
    fn new(conversation: &Conversation, calls: &RepeatedCalls) -> LoopAttempt {
        let rules = conversation
            .stream()
            .map_or(&[][..], |stream| stream.pack().rules());
        LoopAttempt {
            delays_text: conversation.delays_text(),
            is_timed: rules.iter().any(bounds_time),
            reply: Reply::default(),
            calls_before: calls.clone(),
            consultations: Vec::new(),
        }
    }
}

/// The position of the processor in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReplyState {
    /// No reply is in progress.
    Idle,
    /// A request was asked for and is not sent yet.
    Asking,
    /// The reply arrives.
    Streaming,
    /// The provider said that the reply is complete; events such as usage may follow.
    Ending { reason: String },
}

/// The state of one reply. All times count from its beginning.
#[derive(Debug, Default)]
struct ReplyProgress {
    message: String,
    /// The latest time passed in.
    now: Duration,
    /// The time at which the attempt began.
    attempt_began: Duration,
    /// The time since which the provider has been silent.
    quiet_since: Duration,
    /// The number of requests asked for.
    attempts: u32,
    /// True if the request of this attempt was [prepared](Processor::prepare).
    is_prepared: bool,
    added: Vec<Message>,
    /// The number of messages of `added` that are in requests that were sent.
    added_and_sent: usize,
    /// The model, if it is not that of the first request.
    model: Option<String>,
    /// The model of this attempt's request, once the request is prepared.
    request_model: Option<String>,
    /// The parts whose publication waits for held text before them, in the order in which they opened.
    delayed: VecDeque<DelayedPart>,
    /// The consultations of calls that came to a gate. If a provider gives several calls one id, they apply to each.
    at_gate: Vec<Consultation>,
}

/// A handoff that a rule asked for.
#[derive(Debug)]
struct PendingHandoff {
    decision: Decision,
    text: String,
    /// True if the rule read the attempt in progress: the handoff is dropped with the attempt. A handoff of a rule that
    /// read a whole text outlives attempts.
    is_of_attempt: bool,
}

/// A call that a sub-agent was asked about. Equal calls have the same tool and the same canonical input.
#[derive(Debug)]
struct AskedCall {
    tool: String,
    input: String,
    state: CallTreatment,
}

/// The treatment of calls that equal a call that a sub-agent was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CallTreatment {
    /// The question is being asked: equal calls wait. If the host never reports the outcome, this has no effect.
    Asked,
    /// A sub-agent answered in this reply, and the model has not read the answer: equal calls wait.
    Waits,
    /// Nobody answered and the call was blocked for this reason in this reply: equal calls are blocked too.
    Blocked(String),
    /// Nobody answered and the call ran in this reply: equal calls run too.
    Unanswered,
    /// The answer is in the request: equal calls run.
    Heard,
    /// As `Heard`, and an equal call ran. Equal calls of later replies are asked about again.
    Taken,
}

/// The last tool call and the number of its repetitions.
#[derive(Clone, Debug, Default)]
struct RepeatedCalls {
    /// The tool and the canonical input of the last call.
    last: Option<(Option<String>, String)>,
    /// The number of identical calls in a row, the last one included.
    same: u32,
}

impl Processor {
    /// Returns a processor for a conversation, which continues with its guidance, or for a new conversation under the rules
    /// of a pack. An attempt in progress ends.
    #[must_use]
    pub fn new(
        conversation: impl Into<Conversation>,
        hooks: Hooks,
        settings: Settings,
    ) -> Processor {
        let conversation = conversation.into();
        let conversation = conversation.into_loop_mode(!settings.holds_tool_input);
        let turn = TurnProgress::default();
        Processor {
            attempt: LoopAttempt::new(&conversation, &turn.calls),
            conversation,
            hooks,
            settings,
            state: ReplyState::Idle,
            checked: CheckedMessages::default(),
            tried: Vec::new(),
            counters: ProcessorCounters::default(),
            turn,
            progress: ReplyProgress::default(),
        }
    }

    /// Begins the first reply to a new prompt of the user. `message` is the id of the reply. The time passed to
    /// [`step`](Self::step) counts from here.
    ///
    /// A reply in progress is given up without calling a hook.
    pub fn begin(&mut self, message: impl Into<String>, out: &mut Vec<Step>) {
        self.unsend();
        self.conversation.start_turn();
        let turn = TurnProgress {
            prompt: PromptRef::new(self.conversation.turns(), &[]),
            ..TurnProgress::default()
        };
        let ended = std::mem::replace(&mut self.turn, turn);
        for handoff in ended.handoffs {
            self.conversation.dropped_decision(&handoff.decision);
        }
        self.proceed(message, out);
    }

    /// Begins the next reply of the same turn, with the results of the tools in the request. The bounds of a turn
    /// continue to count.
    ///
    /// # Example: the reply after the results of tools
    /// ```
    /// use std::time::Duration;
    /// use ttsr::harness::{Hooks, Input, Processor, Settings, Step};
    /// use ttsr::{Event, Pack};
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// let finish = Event::Finish { reason: "tool_use".into() };
    /// for input in [Input::Sent, Input::Event(finish), Input::End] {
    ///     processor.step(Duration::ZERO, input, &mut steps);
    /// }
    /// assert!(processor.is_idle());
    /// processor.proceed("msg_2", &mut steps);
    /// assert!(matches!(steps.last(), Some(Step::Send { .. })));
    /// assert_eq!(processor.conversation().turns(), 1, "it is the same turn");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn proceed(&mut self, message: impl Into<String>, out: &mut Vec<Step>) {
        if self.state != ReplyState::Idle {
            self.counters.abandoned_replies += 1;
        }
        self.unsend();
        self.conversation.continue_turn();
        self.drop_attempt();
        self.turn.asked_calls.retain_mut(AskedCall::outlasts_reply);
        self.hooks.begin_reply();
        self.progress = ReplyProgress {
            message: message.into(),
            ..ReplyProgress::default()
        };
        self.request_attempt(NextAttempt::default(), out);
    }

    /// Processes one input and appends the steps that follow to `out`. `now` is the time since the reply began; a time
    /// before the latest one counts as the latest one.
    pub fn step(&mut self, now: Duration, input: Input, out: &mut Vec<Step>) {
        self.progress.now = self.progress.now.max(now);
        let first = out.len();
        match (&self.state, input) {
            (ReplyState::Idle, Input::Tick) => {}
            (ReplyState::Idle, _) => self.counters.stray_inputs += 1,
            (ReplyState::Asking, input) => self.step_asking(input, out),
            (_, input) => self.step_streaming(input, out),
        }
        if self.attempt.delays_text || !self.progress.delayed.is_empty() {
            self.order_steps(first, out);
        }
    }

    /// Marks the moment at which the host begins to wait for the provider. Returns the time at which it must pass
    /// [`Tick`](Input::Tick) if nothing arrives. The provider's silence counts from here, so that the host's own work
    /// does not count.
    ///
    /// # Example: a silent provider
    /// ```
    /// use std::time::Duration;
    /// use ttsr::Pack;
    /// use ttsr::harness::{Hooks, Input, Processor, Settings, Step};
    /// let minute = Duration::from_secs(60);
    /// let settings = Settings { stall: Some(minute), ..Settings::default() };
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), settings);
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// processor.step(Duration::ZERO, Input::Sent, &mut steps);
    /// assert_eq!(processor.wait(Duration::ZERO), Some(minute));
    /// processor.step(minute, Input::Tick, &mut steps);
    /// assert!(matches!(steps.last(), Some(Step::Finish(_))));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn wait(&mut self, now: Duration) -> Option<Duration> {
        self.progress.now = self.progress.now.max(now);
        self.progress.quiet_since = self.progress.now;
        let bounds = self.bounds(TimeCheck::Tick);
        let deadlines = bounds.into_iter().flatten().map(|bound| bound.deadline);
        let is_asked = self.attempt.is_timed && self.state == ReplyState::Streaming;
        let rules = is_asked.then(|| self.progress.now.saturating_add(RULES_ASKED));
        deadlines.chain(rules).min()
    }

    /// Returns true if no reply is in progress.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state == ReplyState::Idle
    }

    /// Returns the reply accumulated so far.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.attempt.reply
    }

    /// Returns the stream of the current attempt, or of the last one between replies. `None` before the first reply.
    #[must_use]
    pub fn stream(&self) -> Option<&Stream> {
        self.conversation.stream()
    }

    /// Returns the pack whose rules apply.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        self.conversation.pack()
    }

    /// Returns the counters over all replies.
    #[must_use]
    pub fn counters(&self) -> ProcessorCounters {
        self.counters
    }

    /// Replaces the pack from the next attempt on. See [`Conversation::reload`].
    ///
    /// # Example: another pack
    /// ```
    /// use ttsr::harness::{Hooks, Processor, Settings};
    /// use ttsr::{Pack, Pattern, Rule};
    /// let pack = |text: &str| Pack::builder().rule(Rule::new("demo/a", vec![Pattern::literal(text)])).build();
    /// let mut processor = Processor::new(&pack("foo")?, Hooks::default(), Settings::default());
    /// let lost = processor.reload(pack("bar")?);
    /// assert!(lost.is_empty(), "it had not acted");
    /// assert_eq!(processor.pack().rules(), pack("bar")?.rules());
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn reload(&mut self, pack: Pack) -> Vec<Lost> {
        self.checked.clear();
        self.conversation.reload(pack)
    }

    /// Sets the agent, provider and model of the replies from the next attempt on. See
    /// [`Conversation::set_origin`].
    ///
    /// # Example: a rule for one agent
    /// ```
    /// use ttsr::harness::{Hooks, Processor, Settings};
    /// use ttsr::{Origin, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/plan-only", vec![Pattern::literal("I will now edit")]);
    /// rule.agents = vec!["plan".into()];
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// processor.set_origin(Origin { agent: Some("plan".into()), ..Origin::default() });
    /// assert!(processor.conversation().applies(pack.find("demo/plan-only").unwrap()));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn set_origin(&mut self, origin: Origin) {
        self.conversation.set_origin(origin);
    }

    pub(super) fn hooks_mut(&mut self) -> &mut Hooks {
        &mut self.hooks
    }

    /// Returns the conversation. Its [`snapshot`](Conversation::snapshot) contains the guidance that waits.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets the switch that ends the wait for a hook with a deadline (see [`Hooks::register_within`]).
    /// [`Run`](super::Run) calls this itself.
    pub fn set_cancel(&mut self, cancel: &Cancel) {
        self.hooks.set_cancel(cancel);
    }

    /// Records that earlier messages left the model's context. See [`Conversation::compacted`].
    pub fn compacted(&mut self) {
        self.conversation.compacted();
    }

    /// Returns the conversation, with the guidance that waits. A reply in progress ends without a report.
    ///
    /// # Example: a conversation moves to another processor
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Hooks, Processor, Settings};
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// processor.begin("msg_1", &mut Vec::new());
    /// let mut processor = Processor::new(processor.into_conversation(), Hooks::default(), Settings::default());
    /// processor.begin("msg_2", &mut Vec::new());
    /// assert_eq!(processor.conversation().turns(), 2);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn into_conversation(mut self) -> Conversation {
        self.unsend();
        self.drop_attempt();
        for handoff in &self.turn.handoffs {
            self.conversation.dropped_decision(&handoff.decision);
        }
        self.conversation.into_host_mode()
    }

    /// Processes an input while no request of the attempt was sent.
    fn step_asking(&mut self, input: Input, out: &mut Vec<Step>) {
        match input {
            Input::Sent if self.lacks_preparation() => {
                self.mark_sent();
                self.cut(AbortCause::not_prepared(), out);
            }
            Input::Sent => {
                self.mark_sent();
                out.push(Step::Observe(LoopEvent::StepStarted));
            }
            Input::Failed(failure) => {
                self.mark_sent();
                self.cut(AbortCause::failed(&failure), out);
            }
            Input::Cancel => self.refuse(AbortCause::cancelled(), out),
            Input::Tick => {
                if let Some(bound) = self
                    .reached_time_bound(TimeCheck::Input)
                    .filter(|bound| *bound == "reply")
                {
                    self.refuse(AbortCause::timeout(bound), out);
                }
            }
            Input::Event(_) | Input::End => self.counters.stray_inputs += 1,
        }
    }

    fn step_streaming(&mut self, input: Input, out: &mut Vec<Step>) {
        if matches!(input, Input::Cancel) {
            return self.cut(AbortCause::cancelled(), out);
        }
        let check = match input {
            Input::Tick => TimeCheck::Tick,
            _ => TimeCheck::Input,
        };
        if let Some(bound) = self.reached_time_bound(check) {
            return match self.state {
                ReplyState::Ending { .. } => self.finish_early(out),
                _ => self.cut(AbortCause::timeout(bound), out),
            };
        }
        if self.attempt.is_timed && self.state == ReplyState::Streaming {
            let now = self
                .progress
                .now
                .saturating_sub(self.progress.attempt_began);
            let flow = self.conversation.tick(now);
            if self.act(flow, out) {
                return;
            }
        }
        match (&self.state, input) {
            (ReplyState::Ending { .. }, Input::Event(Event::Error { .. })) => {
                self.finish_early(out)
            }
            (_, Input::Event(event)) => {
                self.progress.quiet_since = self.progress.now;
                self.event(event, out);
            }
            (ReplyState::Ending { .. }, Input::End | Input::Failed(_)) => self.finish(out),
            (_, Input::End) => self.cut(AbortCause::cut_off(), out),
            (_, Input::Failed(failure)) => self.cut(AbortCause::failed(&failure), out),
            (_, Input::Tick | Input::Cancel) => {}
            (_, Input::Sent) => self.counters.stray_inputs += 1,
        }
    }

    // Called for each delta: without the hint, the event is moved into the callee.
    #[inline(always)]
    fn event(&mut self, event: Event, out: &mut Vec<Step>) {
        match event {
            Event::Delta { part, bytes } => self.delta(part, bytes, out),
            Event::PartStart {
                part,
                name,
                channel,
                tool,
                call,
            } => self.open(part, name, channel, (tool, call), out),
            Event::Tool { part, tool, call } => self.name_tool(part, tool, call, out),
            Event::Outcome { part, outcome } => self.set_outcome(part, outcome, out),
            Event::PartEnd { part } => self.close(part, out),
            Event::Snapshot { part, bytes } => self.snapshot(part, bytes, out),
            Event::Usage { input, output } => {
                out.push(Step::Observe(LoopEvent::Usage { input, output }));
            }
            Event::Unscanned { bytes, kind } => {
                self.counters.unscanned_bytes += bytes;
                out.push(Step::Observe(LoopEvent::Unscanned { bytes, kind }));
            }
            Event::Finish { reason } => self.end_reply(reason, out),
            Event::Error { kind, message } => {
                self.cut(AbortCause::reported(&kind, &message), out);
            }
            Event::Restart => self.restart(out),
        }
    }

    /// Asks for the next attempt. Its messages are the text kept of the previous attempt, the guidance that waited, and
    /// the messages that steer the retry, in this order.
    fn request_attempt(&mut self, next_attempt: NextAttempt, out: &mut Vec<Step>) {
        self.begin_attempt();
        let guidance = self.conversation.guidance();
        let guidance = guidance.map(|note| Message::steering(note.text));
        let kept = next_attempt.kept.into_iter();
        let messages: Vec<Message> = kept.chain(guidance).chain(next_attempt.steering).collect();
        self.progress.added.extend_from_slice(&messages);
        self.progress.attempts += 1;
        self.progress.is_prepared = false;
        if next_attempt.model.is_some() {
            self.progress.model.clone_from(&next_attempt.model);
            self.progress.request_model = None;
        }
        self.state = ReplyState::Asking;
        if !self.hooks.is_empty(HookPoint::Event) {
            let status = SessionEvent::Status {
                session: self.settings.session.clone(),
                message: next_attempt.status.unwrap_or_else(|| "busy".to_owned()),
            };
            self.session_event(&status, out);
        }
        out.push(Step::Send {
            attempt: self.attempt_number(),
            messages,
            model: next_attempt.model,
            temperature: next_attempt.temperature,
        });
    }

    /// Records that the request was sent, and with it its guidance.
    fn mark_sent(&mut self) {
        self.state = ReplyState::Streaming;
        self.progress.attempt_began = self.progress.now;
        self.progress.quiet_since = self.progress.now;
        self.progress.added_and_sent = self.progress.added.len();
        self.conversation.mark_sent();
    }

    /// Returns true if the request was not prepared although rules read the user's messages or hooks edit requests.
    fn lacks_preparation(&self) -> bool {
        let edits = [HookPoint::Messages, HookPoint::Headers];
        !self.progress.is_prepared
            && (self.pack().wants(Channel::UserInput, None)
                || edits.iter().any(|point| !self.hooks.is_empty(*point)))
    }

    /// Undoes the preparation of a request that is never sent: its guidance waits again, and its messages were not
    /// added.
    fn unsend(&mut self) {
        let sent = self.progress.added_and_sent;
        self.progress.added.truncate(sent);
        self.conversation.withdraw_request();
    }

    /// Begins an attempt with the guidance that waits.
    fn begin_attempt(&mut self) {
        self.conversation.start_attempt();
        self.attempt = LoopAttempt::new(&self.conversation, &self.turn.calls);
    }

    /// Returns the number of the attempt in its turn, from 1; 0 before the first one.
    fn attempt_number(&self) -> u32 {
        self.conversation.stream().map_or(0, Stream::attempt_number)
    }

    /// Starts the reply over on a new transport, without a new request.
    fn restart(&mut self, out: &mut Vec<Step>) {
        if self.state != ReplyState::Streaming {
            self.counters.stray_inputs += 1;
            return;
        }
        out.push(Step::Observe(LoopEvent::Restarted));
        retract(
            &self.attempt.reply,
            &vec![0; self.attempt.reply.parts.len()],
            out,
        );
        self.drop_attempt();
        // The provider sends the calls again, and each must count once.
        self.turn.calls = self.attempt.calls_before.clone();
        let flow = self.conversation.restart();
        self.attempt = LoopAttempt::new(&self.conversation, &self.turn.calls);
        self.act(flow, out);
    }

    /// Ends the open parts, and the reply, when the provider says that the reply is complete.
    fn end_reply(&mut self, reason: String, out: &mut Vec<Step>) {
        if let ReplyState::Ending { .. } = self.state {
            self.counters.stray_inputs += 1;
            return;
        }
        let open = self.attempt.reply.parts.iter();
        let open = open.filter(|part| part.state == PartState::Open);
        let open: Vec<PartId> = open.map(|part| part.part).collect();
        for part in open {
            self.close_unfinished(part, out);
            if self.state != ReplyState::Streaming {
                return;
            }
        }
        let flow = self.conversation.finish();
        if self.act(flow, out) {
            return;
        }
        if is_truncation(&reason) {
            self.abort_partial_calls(out);
        }
        self.drop_aborted_calls();
        out.push(Step::Observe(LoopEvent::StepFinished {
            reason: reason.clone(),
        }));
        // `Settings::linger` counts from here.
        self.progress.attempt_began = self.progress.now;
        self.state = ReplyState::Ending { reason };
    }

    /// Ends a complete reply without waiting for the rest of the stream.
    fn finish_early(&mut self, out: &mut Vec<Step>) {
        out.push(Step::CancelUpstream);
        self.finish(out);
    }

    /// Ends a complete reply with an answer.
    fn finish(&mut self, out: &mut Vec<Step>) {
        let ReplyState::Ending { reason } = std::mem::replace(&mut self.state, ReplyState::Idle)
        else {
            return;
        };
        // Not before: a cut drops the handoffs of its attempt.
        for PendingHandoff { decision, text, .. } in std::mem::take(&mut self.turn.handoffs) {
            self.conversation.delivered_decision(&decision);
            let handoff = Handoff::new(&self.settings.session, text);
            out.push(Step::Handoff { decision, handoff });
        }
        self.finish_with(End::from_stop_reason(reason), out);
    }

    fn finish_with(&mut self, end: End, out: &mut Vec<Step>) {
        self.state = ReplyState::Idle;
        self.report_end(&end, out);
        out.push(Step::Finish(Box::new(ReplyOutcome {
            end,
            reply: std::mem::take(&mut self.attempt.reply),
            attempts: self.progress.attempts,
            added: std::mem::take(&mut self.progress.added),
            consultations: self.attempt.consultations.clone(),
            model: self.progress.model.take(),
            counters: self.conversation.counters(),
        })));
    }

    /// Returns the name of the bound of time that is reached.
    fn reached_time_bound(&self, check: TimeCheck) -> Option<&'static str> {
        let mut bounds = self.bounds(check).into_iter().flatten();
        let overdue = bounds.find(|bound| self.progress.now >= bound.deadline)?;
        Some(overdue.name)
    }

    /// Returns the bounds of time that apply now. A bound that forbids a retry comes before those that allow one.
    // Called for each delta. Inlined, the search for the first bound that is reached builds no array.
    #[inline(always)]
    fn bounds(&self, check: TimeCheck) -> [Option<TimeBound>; 4] {
        let bound = |name, since: Duration, longest: Option<Duration>| {
            longest.map(|longest| TimeBound {
                name,
                deadline: since.saturating_add(longest),
            })
        };
        let Settings {
            reply,
            attempt,
            stall,
            linger,
            ..
        } = self.settings;
        let progress = &self.progress;
        let is_ending = matches!(self.state, ReplyState::Ending { .. });
        [
            bound("reply", Duration::ZERO, reply),
            bound("attempt", progress.attempt_began, attempt),
            bound(
                "stall",
                progress.quiet_since,
                stall.filter(|_| check == TimeCheck::Tick),
            ),
            bound(
                "linger",
                progress.attempt_began,
                is_ending.then_some(linger),
            ),
        ]
    }
}

impl AskedCall {
    /// Advances the state at the end of a reply. Returns false if equal calls need no special treatment any more.
    fn outlasts_reply(&mut self) -> bool {
        match self.state {
            CallTreatment::Waits => self.state = CallTreatment::Heard,
            CallTreatment::Heard => {}
            CallTreatment::Asked
            | CallTreatment::Blocked(_)
            | CallTreatment::Unanswered
            | CallTreatment::Taken => {
                return false;
            }
        }
        true
    }
}

/// The interval at which rules about time are checked while nothing arrives.
const RULES_ASKED: Duration = Duration::from_secs(1);

fn bounds_time(rule: &Rule) -> bool {
    let limit = rule.condition.limit.as_ref();
    limit.is_some_and(|limit| limit.millis.is_some() || limit.stall_millis.is_some())
}

/// An occasion to compare the time with its bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeCheck {
    /// Time has passed without an input, so the bound on silence counts.
    Tick,
    /// An input arrived, which ends the silence.
    Input,
}

/// A bound of time with its deadline, counted from the beginning of the reply.
struct TimeBound {
    name: &'static str,
    deadline: Duration,
}

/// Retracts the published parts of a reply, except for the first bytes of each part that `stays` gives.
fn retract(reply: &Reply, stays: &[usize], out: &mut Vec<Step>) {
    let parts = reply.parts.iter().zip(stays);
    let published = parts.filter(|(part, _)| part.is_published);
    out.extend(published.map(|(part, stays)| Step::Retract {
        part: part.part,
        from: *stays as u64,
    }));
}
