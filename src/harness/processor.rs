//! The reference loop without its I/O: events in, steps out, one reply at a time.
//!
//! It opens no connection, reads no clock and waits for nothing: the host (or [`run`](super::run()))
//! does what the steps say and passes the time in. For every delta the order is: hooks, rules, and only
//! then accumulate and publish.

mod abort;
mod boundary;
mod order;
mod part;
mod redact;

use std::collections::VecDeque;
use std::time::Duration;

use super::consult::Consultation;
use super::fallback::Chains;
use super::handoff::Handoff;
use super::hooks::{Hooks, OnHookFault};
use super::message::Message;
use super::reply::{PartState, Reply};
use super::run::Cancel;
use super::step::{End, Input, Observation, Outcome, PromptRef, Step, is_truncation};
use crate::session::Lost;
use crate::{Decision, Event, Origin, Pack, PartId, Rule, RuleId, Session, Stream};
use abort::{Cause, Retake};
use boundary::CheckedMessages;
pub use boundary::Prepared;
use order::Later;
pub(super) use redact::Scalars;

/// The bounds and names of a [`Processor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The session's id, for hooks. Default empty.
    pub session: String,
    /// The id of the session that opened this one, if one did. Default none.
    pub parent: Option<String>,
    /// How many sessions are above this one. Only one with none above it has sub-agents asked. Default 0.
    pub depth: u32,
    /// The package through which the provider is reached, by its name in OpenCode's configuration: some
    /// set headers of their own. Default none.
    pub package: Option<String>,
    /// Whether the provider signs reasoning, so that a piece of it cannot be sent back. Default false.
    pub signs_reasoning: bool,
    /// The models to take where a rule asks for another. Default none.
    pub fallback: Chains,
    /// Longest silence of a provider. Default none.
    pub stall: Option<Duration>,
    /// Longest time of one attempt. Default none.
    pub attempt: Option<Duration>,
    /// Longest time of a reply, all attempts together; when it is over there is no retry. Default 10 min.
    pub reply: Option<Duration>,
    /// How long to wait, once the provider said that the reply is complete, for the end of the stream
    /// and what may come before it (usage, mostly). Default 2 s.
    pub linger: Duration,
    /// Most retries that hooks may ask for in one turn, over all its replies. The rules have bounds of
    /// their own. Default 3.
    pub hook_retries: u32,
    /// Most bytes accumulated for one reply. Default 64 MiB.
    pub reply_bytes: u64,
    /// What a hook that panics, or does not return in time, does to the stream.
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

/// What a processor met that was not as it should be. All zero in a well-behaved conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Inputs that came when nothing was expected: after the end of a reply, or of an attempt that was cut.
    pub stray_inputs: u64,
    /// Replies begun while another one was under way; that one was given up.
    pub abandoned_replies: u64,
    /// Bytes of parts that were complete already: not published, not accumulated.
    pub late_bytes: u64,
    /// String content that no reader knows, in bytes.
    pub unscanned_bytes: u64,
    /// Parts that the provider repeated differently.
    pub mismatches: u64,
    /// Panics of hooks.
    pub hook_panics: u64,
    /// Hooks that did not return in time.
    pub hook_timeouts: u64,
    /// Retries that hooks asked for and could not have.
    pub refused_retries: u64,
    /// Messages of hooks that came without a retry.
    pub ignored_messages: u64,
}

/// The state machine of one conversation's replies.
///
/// A reply begins with [`begin`](Self::begin) (the first one to a prompt of the user) or
/// [`proceed`](Self::proceed) (the next one, after tools ran) and ends with exactly one
/// [`Step::Finish`], whatever number of attempts it takes. After that, and between a cut and the next
/// [`Input::Sent`], inputs change nothing and are counted. Guidance that was decided and not yet sent
/// waits for the next request, be it in this turn or the next one.
///
/// # Example: a delta is judged before it is published
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
/// let mut processor = Processor::new(pack.session(), Hooks::default(), Settings::default());
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
    session: Session,
    hooks: Hooks,
    settings: Settings,
    state: State,
    stream: Stream,
    reply: Reply,
    progress: Progress,
    calls: Calls,
    /// What `calls` was before the attempt: an attempt that is taken again did not call.
    calls_before: Calls,
    /// Guidance that waits for a request.
    waiting: VecDeque<Guidance>,
    /// Guidance in a request that was asked for and is not on its way.
    sending: VecDeque<Guidance>,
    /// The decision of a rule that brought about the request that was asked for.
    retaking: Option<Decision>,
    /// Whether text may have to wait for a rule.
    holds: bool,
    /// Parts of this attempt that are published later, in the order in which they opened.
    later: VecDeque<Later>,
    /// Whether a rule bounds time.
    is_timed: bool,
    /// Rules that take text out of parts of this attempt.
    redacting: Vec<(RuleId, PartId)>,
    /// What is to be asked about tool calls of this attempt.
    consultations: Vec<Consultation>,
    /// Those that came to a gate. Where a provider gives several calls one id, they are for each of them.
    at_gate: Vec<Consultation>,
    /// The sessions of sub-agents that were opened in this turn.
    children: Vec<String>,
    /// What rules want handed over after the next complete reply of this turn.
    handoffs: Vec<WantedHandoff>,
    /// Calls of this turn that somebody was asked about.
    advised: Vec<Advised>,
    /// Retries that hooks had in this turn.
    hook_retries: u32,
    /// The prompt of this turn.
    prompt: PromptRef,
    /// What rules said of the user's messages.
    checked: CheckedMessages,
    /// Models that were taken in this session and refused.
    tried: Vec<String>,
    tally: Tally,
}

/// Where in a reply the processor is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// None is wanted.
    Idle,
    /// A request is to be sent.
    Asking,
    /// A reply arrives.
    Streaming,
    /// The reply is complete; what else the provider has to say (usage, mostly) may follow.
    Ending { reason: String },
}

/// What is true of one reply only. All times count from its beginning.
#[derive(Debug, Default)]
struct Progress {
    message: String,
    /// Latest time seen.
    now: Duration,
    /// When the attempt began.
    attempt_began: Duration,
    /// Since when the provider has been silent.
    quiet_since: Duration,
    /// Requests asked for.
    attempts: u32,
    added: Vec<Message>,
    /// How many of them are in requests that were sent.
    added_and_sent: usize,
    /// The model, where it is not the one that was asked for first.
    model: Option<String>,
    /// The model of the request of this attempt, once it is prepared.
    asked: Option<String>,
}

/// A handoff that a rule wants.
#[derive(Debug)]
struct WantedHandoff {
    decision: Decision,
    text: String,
    /// The rule read the attempt that is under way, so the handoff goes with the attempt. What a rule read in
    /// a whole text outlives attempts.
    is_of_attempt: bool,
}

/// A call that somebody was asked about. Equal calls have the same tool and the same input.
#[derive(Debug)]
struct Advised {
    tool: String,
    input: String,
    state: Advice,
}

/// What becomes of calls that equal one that somebody was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Advice {
    /// The question is being asked: they wait. Nothing comes of a question that the host forgets.
    Asked,
    /// Somebody answered in this reply, and the model has not seen it: they wait.
    Waits,
    /// Nobody answered, and the call of this reply was blocked for that reason: so are they.
    Blocked(String),
    /// Nobody answered, and the call of this reply ran: so do they.
    Unanswered,
    /// The answer is in the request: they run.
    Heard,
    /// The same, and one did. Equal calls of later replies are asked about again.
    Taken,
}

/// The tool calls made in a row.
#[derive(Clone, Debug, Default)]
struct Calls {
    /// The tool and the input of the last one.
    last: Option<(Option<String>, String)>,
    /// How many of the last ones were the same.
    same: u32,
}

#[derive(Debug)]
struct Guidance {
    decision: Decision,
    message: Message,
}

impl Processor {
    /// A processor for the conversation of that session.
    #[must_use]
    pub fn new(session: Session, hooks: Hooks, settings: Settings) -> Processor {
        let stream = session.pack().stream();
        Processor {
            session,
            hooks,
            settings,
            state: State::Idle,
            stream,
            reply: Reply::default(),
            progress: Progress::default(),
            calls: Calls::default(),
            calls_before: Calls::default(),
            waiting: VecDeque::new(),
            sending: VecDeque::new(),
            retaking: None,
            holds: false,
            later: VecDeque::new(),
            is_timed: false,
            redacting: Vec::new(),
            consultations: Vec::new(),
            at_gate: Vec::new(),
            children: Vec::new(),
            handoffs: Vec::new(),
            advised: Vec::new(),
            hook_retries: 0,
            prompt: PromptRef::default(),
            checked: CheckedMessages::default(),
            tried: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Begins the first reply to a new prompt of the user. `message` is the id of the reply; time counts
    /// from now.
    ///
    /// A reply that is still under way is given up: no hook hears of it.
    pub fn begin(&mut self, message: impl Into<String>, out: &mut Vec<Step>) {
        self.session.begin_turn();
        self.calls = Calls::default();
        self.advised.clear();
        self.children.clear();
        self.hook_retries = 0;
        self.prompt = PromptRef::new(self.session.turn(), &[]);
        for handoff in std::mem::take(&mut self.handoffs) {
            self.session.dropped(&handoff.decision);
        }
        self.proceed(message, out);
    }

    /// Begins the next reply of the same turn: the results of the tools are in the request. What rules
    /// may still do in this turn does not begin anew.
    ///
    /// # Example: behind the results of the tools
    /// ```
    /// use std::time::Duration;
    /// use ttsr::harness::{Hooks, Input, Processor, Settings, Step};
    /// use ttsr::{Event, Pack};
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// let finish = Event::Finish { reason: "tool_use".into() };
    /// for input in [Input::Sent, Input::Event(finish), Input::End] {
    ///     processor.step(Duration::ZERO, input, &mut steps);
    /// }
    /// assert!(processor.is_idle());
    /// processor.proceed("msg_2", &mut steps);
    /// assert!(matches!(steps.last(), Some(Step::Send { .. })));
    /// assert_eq!(processor.session().turn(), 1, "it is the same turn");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn proceed(&mut self, message: impl Into<String>, out: &mut Vec<Step>) {
        if self.state != State::Idle {
            self.tally.abandoned_replies += 1;
        }
        self.take_back();
        self.later.clear();
        self.forget_attempt();
        self.at_gate.clear();
        self.advised.retain_mut(Advised::outlasts_reply);
        self.hooks.begin_reply();
        self.progress = Progress {
            message: message.into(),
            ..Progress::default()
        };
        self.ask(Retake::default(), out);
    }

    /// Takes one input; appends what is to be done to `out`. `now` is the time since the reply began;
    /// where it goes backwards the latest time counts.
    pub fn step(&mut self, now: Duration, input: Input, out: &mut Vec<Step>) {
        self.progress.now = self.progress.now.max(now);
        let first = out.len();
        match (&self.state, input) {
            (State::Idle, Input::Tick) => {}
            (State::Idle, _) => self.tally.stray_inputs += 1,
            (State::Asking, input) => self.step_asking(input, out),
            (_, input) => self.step_streaming(input, out),
        }
        if self.holds || !self.later.is_empty() {
            self.put_in_order(first, out);
        }
    }

    /// The host begins to wait for the provider: until when it may wait before it must
    /// [`Tick`](Input::Tick). The provider's silence counts from here, not the host's.
    ///
    /// # Example: a provider that says nothing
    /// ```
    /// use std::time::Duration;
    /// use ttsr::Pack;
    /// use ttsr::harness::{Hooks, Input, Processor, Settings, Step};
    /// let minute = Duration::from_secs(60);
    /// let settings = Settings { stall: Some(minute), ..Settings::default() };
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), settings);
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
        let bounds = self.bounds(true);
        let deadlines = bounds.into_iter().flatten().map(|bound| bound.deadline);
        let is_asked = self.is_timed && self.state == State::Streaming;
        let rules = is_asked.then(|| self.progress.now.saturating_add(RULES_ASKED));
        deadlines.chain(rules).min()
    }

    /// Whether no reply is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// The reply as far as it was accumulated.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// What the rules know of the current attempt.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The pack whose rules apply.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        self.session.pack()
    }

    /// What was counted so far, over all replies.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Takes another pack, from the next attempt on. See [`Session::reload`].
    ///
    /// # Example: another rule
    /// ```
    /// use ttsr::harness::{Hooks, Processor, Settings};
    /// use ttsr::{Pack, Pattern, Rule};
    /// let pack = |text: &str| Pack::builder().rule(Rule::new("demo/a", vec![Pattern::literal(text)])).build();
    /// let mut processor = Processor::new(pack("foo")?.session(), Hooks::default(), Settings::default());
    /// let lost = processor.reload(pack("bar")?);
    /// assert!(lost.is_empty(), "it had not acted");
    /// assert_eq!(processor.pack().rules(), pack("bar")?.rules());
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn reload(&mut self, pack: Pack) -> Vec<Lost> {
        self.checked.clear();
        self.session.reload(pack)
    }

    /// Who is behind the replies from the next attempt on. See [`Session::set_origin`].
    ///
    /// # Example: a rule for one agent
    /// ```
    /// use ttsr::harness::{Hooks, Processor, Settings};
    /// use ttsr::{Origin, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/plan-only", vec![Pattern::literal("I will now edit")]);
    /// rule.agents = vec!["plan".into()];
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut processor = Processor::new(pack.session(), Hooks::default(), Settings::default());
    /// processor.set_origin(Origin { agent: Some("plan".into()), ..Origin::default() });
    /// assert!(processor.session().applies(pack.find("demo/plan-only").unwrap()));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn set_origin(&mut self, origin: Origin) {
        self.session.set_origin(origin);
    }

    pub(super) fn hooks_mut(&mut self) -> &mut Hooks {
        &mut self.hooks
    }

    /// The session whose rules apply.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The bounds and names that it was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// From now on a hook with a deadline (see [`Hooks::register_within`]) is waited for until `cancel` is
    /// switched on, at most. [`Run`](super::Run) says so by itself.
    pub fn cancelled_by(&mut self, cancel: &Cancel) {
        self.hooks.heed(cancel);
    }

    /// Earlier messages left the model's context. See [`Session::compacted`].
    pub fn compacted(&mut self) {
        self.session.compacted();
    }

    /// The session. Guidance that was not sent is released: its rules may give it again.
    ///
    /// # Example: one conversation, another processor
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Hooks, Processor, Settings};
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// processor.begin("msg_1", &mut Vec::new());
    /// let mut processor = Processor::new(processor.into_session(), Hooks::default(), Settings::default());
    /// processor.begin("msg_2", &mut Vec::new());
    /// assert_eq!(processor.session().turn(), 2);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn into_session(mut self) -> Session {
        self.take_back();
        self.forget_attempt();
        for handoff in &self.handoffs {
            self.session.dropped(&handoff.decision);
        }
        for guidance in &self.waiting {
            self.session.dropped(&guidance.decision);
        }
        self.session
    }

    /// Nothing was sent yet, or the reply was cut and is to be taken again.
    fn step_asking(&mut self, input: Input, out: &mut Vec<Step>) {
        match input {
            Input::Sent => {
                self.sent();
                out.push(Step::Observe(Observation::StepStarted));
            }
            Input::Failed(failure) => {
                self.sent();
                self.cut(Cause::failed(&failure), out);
            }
            Input::Cancel => self.refuse(Cause::cancelled(), out),
            Input::Tick => {
                if let Some(bound) = self.overdue(false).filter(|bound| *bound == "reply") {
                    self.refuse(Cause::timeout(bound), out);
                }
            }
            Input::Event(_) | Input::End => self.tally.stray_inputs += 1,
        }
    }

    fn step_streaming(&mut self, input: Input, out: &mut Vec<Step>) {
        if input == Input::Cancel {
            return self.cut(Cause::cancelled(), out);
        }
        let is_tick = input == Input::Tick;
        if let Some(bound) = self.overdue(is_tick) {
            return match self.state {
                State::Ending { .. } => self.leave(out),
                _ => self.cut(Cause::timeout(bound), out),
            };
        }
        if self.is_timed && self.state == State::Streaming {
            let now = self
                .progress
                .now
                .saturating_sub(self.progress.attempt_began);
            let _verdict = self.session.tick(&mut self.stream, now);
            if self.act(out) {
                return;
            }
        }
        match (&self.state, input) {
            (State::Ending { .. }, Input::Event(Event::Error { .. })) => self.leave(out),
            (_, Input::Event(event)) => {
                self.progress.quiet_since = self.progress.now;
                self.event(event, out);
            }
            (State::Ending { .. }, Input::End | Input::Failed(_)) => self.finish(out),
            (_, Input::End) => self.cut(Cause::cut_off(), out),
            (_, Input::Failed(failure)) => self.cut(Cause::failed(&failure), out),
            (_, Input::Tick | Input::Cancel) => {}
            (_, Input::Sent) => self.tally.stray_inputs += 1,
        }
    }

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
            Event::PartEnd { part } => self.close(part, out),
            Event::Snapshot { part, bytes } => self.snapshot(part, bytes, out),
            Event::Usage { input, output } => {
                out.push(Step::Observe(Observation::Usage { input, output }));
            }
            Event::Unscanned { bytes, kind } => {
                self.tally.unscanned_bytes += bytes;
                out.push(Step::Observe(Observation::Unscanned { bytes, kind }));
            }
            Event::Finish { reason } => self.end_reply(reason, out),
            Event::Error { kind, message } => {
                self.cut(Cause::reported(&kind, &message), out);
            }
            Event::Restart => self.restart(out),
        }
    }

    /// Asks for the (next) attempt: first what stays of the one before, then the guidance that waited,
    /// then what steers it.
    fn ask(&mut self, retake: Retake, out: &mut Vec<Step>) {
        self.sending.append(&mut self.waiting);
        let guidance = self.sending.iter();
        let guidance = guidance.map(|guidance| guidance.message.clone());
        let kept = retake.kept.into_iter();
        let messages: Vec<Message> = kept.chain(guidance).chain(retake.steering).collect();
        self.progress.added.extend_from_slice(&messages);
        self.progress.attempts += 1;
        self.retaking = retake.decision;
        if retake.model.is_some() {
            self.progress.model.clone_from(&retake.model);
            self.progress.asked = None;
        }
        self.start_over();
        self.state = State::Asking;
        out.push(Step::Send {
            attempt: self.stream.attempt(),
            messages,
            model: retake.model,
            temperature: retake.temperature,
        });
    }

    /// The request is on its way.
    fn sent(&mut self) {
        self.state = State::Streaming;
        self.progress.attempt_began = self.progress.now;
        self.progress.quiet_since = self.progress.now;
        self.progress.added_and_sent = self.progress.added.len();
        for guidance in self.sending.drain(..) {
            self.session.delivered(&guidance.decision);
        }
        if let Some(decision) = self.retaking.take() {
            self.session.delivered(&decision);
        }
    }

    /// The request will never be sent: what was added to it was not said.
    fn take_back(&mut self) {
        let sent = self.progress.added_and_sent;
        self.progress.added.truncate(sent);
        if let Some(decision) = self.retaking.take() {
            self.session.dropped(&decision);
        }
        self.sending.append(&mut self.waiting);
        std::mem::swap(&mut self.sending, &mut self.waiting);
    }

    /// A new attempt knows nothing of the one before.
    fn start_over(&mut self) {
        self.stream = self.session.stream();
        let rules = self.stream.pack().rules();
        self.holds = rules.iter().any(Rule::holds);
        self.is_timed = rules.iter().any(bounds_time);
        self.redacting.clear();
        self.reply = Reply::default();
        self.calls_before = self.calls.clone();
    }

    /// The reply starts over on a new transport, without a new request.
    fn restart(&mut self, out: &mut Vec<Step>) {
        if self.state != State::Streaming {
            self.tally.stray_inputs += 1;
            return;
        }
        out.push(Step::Observe(Observation::Restarted));
        retract(&self.reply, &vec![0; self.reply.parts.len()], out);
        self.forget_attempt();
        self.calls = self.calls_before.clone();
        self.start_over();
    }

    /// The provider said that the reply is complete.
    fn end_reply(&mut self, reason: String, out: &mut Vec<Step>) {
        if let State::Ending { .. } = self.state {
            self.tally.stray_inputs += 1;
            return;
        }
        let open = self.reply.parts.iter();
        let open = open.filter(|part| part.state == PartState::Open);
        let open: Vec<PartId> = open.map(|part| part.part).collect();
        for part in open {
            self.close_unfinished(part, out);
            if self.state != State::Streaming {
                return;
            }
        }
        let _verdict = self.session.finish(&mut self.stream);
        if self.act(out) {
            return;
        }
        if is_truncation(&reason) {
            self.abort_partial_calls(out);
        }
        self.forget_aborted_calls();
        out.push(Step::Observe(Observation::StepFinished {
            reason: reason.clone(),
        }));
        // The linger counts from here.
        self.progress.attempt_began = self.progress.now;
        self.state = State::Ending { reason };
    }

    /// The reply is complete, and there is no point in waiting for more.
    fn leave(&mut self, out: &mut Vec<Step>) {
        out.push(Step::CancelUpstream);
        self.finish(out);
    }

    /// The reply is over and there is an answer.
    fn finish(&mut self, out: &mut Vec<Step>) {
        let State::Ending { reason } = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        for WantedHandoff { decision, text, .. } in std::mem::take(&mut self.handoffs) {
            self.session.delivered(&decision);
            let handoff = Handoff::new(&self.settings.session, text);
            out.push(Step::Handoff { decision, handoff });
        }
        self.finish_with(End::stopped(reason), out);
    }

    fn finish_with(&mut self, end: End, out: &mut Vec<Step>) {
        self.state = State::Idle;
        self.tell_end(&end, out);
        out.push(Step::Finish(Box::new(Outcome {
            end,
            reply: std::mem::take(&mut self.reply),
            attempts: self.progress.attempts,
            added: std::mem::take(&mut self.progress.added),
            consultations: self.consultations.clone(),
            model: self.progress.model.take(),
            counters: self.stream.counters(),
        })));
    }

    /// The bound of time that is reached. Silence counts only when nothing came.
    fn overdue(&self, is_quiet: bool) -> Option<&'static str> {
        let mut bounds = self.bounds(is_quiet).into_iter().flatten();
        let overdue = bounds.find(|bound| self.progress.now >= bound.deadline)?;
        Some(overdue.name)
    }

    /// The bounds of time that apply now, the strictest about retries first.
    fn bounds(&self, is_quiet: bool) -> [Option<Bound>; 4] {
        let bound = |name, since: Duration, longest: Option<Duration>| {
            longest.map(|longest| Bound {
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
        let is_ending = matches!(self.state, State::Ending { .. });
        [
            bound("reply", Duration::ZERO, reply),
            bound("attempt", progress.attempt_began, attempt),
            bound("stall", progress.quiet_since, stall.filter(|_| is_quiet)),
            bound(
                "linger",
                progress.attempt_began,
                is_ending.then_some(linger),
            ),
        ]
    }
}

impl Advised {
    /// The reply is over. Returns whether anything is left to say of equal calls.
    fn outlasts_reply(&mut self) -> bool {
        match self.state {
            Advice::Waits => self.state = Advice::Heard,
            Advice::Heard => {}
            Advice::Asked | Advice::Blocked(_) | Advice::Unanswered | Advice::Taken => {
                return false;
            }
        }
        true
    }
}

/// How often rules about time are asked while nothing arrives.
const RULES_ASKED: Duration = Duration::from_secs(1);

fn bounds_time(rule: &Rule) -> bool {
    let limit = rule.condition.limit.as_ref();
    limit.is_some_and(|limit| limit.millis.is_some() || limit.stall_millis.is_some())
}

/// A bound of time.
struct Bound {
    name: &'static str,
    deadline: Duration,
}

/// What was published of the reply is void, but for the first bytes of each part that stay.
fn retract(reply: &Reply, stays: &[usize], out: &mut Vec<Step>) {
    let parts = reply.parts.iter().zip(stays);
    let published = parts.filter(|(part, _)| part.is_published);
    out.extend(published.map(|(part, stays)| Step::Retract {
        part: part.part,
        from: *stays as u64,
    }));
}
