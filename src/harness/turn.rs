//! A turn: replies and the tool calls between them, until the model calls no tool.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use tokio::time::{Instant, timeout};

use super::aborted::{AbortReason, AbortSource};
use super::call::{Gate, ToolCall, ToolFuture, ToolOutput, Tools};
use super::cancel::Cancel;
use super::consult::{ParentSession, SubAgent};
use super::consultation::{ConsultOutcome, Consultation};
use super::fallback::SessionEvent;
use super::handoff::Handoff;
use super::hooks::Hooks;
use super::message::{Content, Message, Request, Role};
use super::processor::Processor;
use super::provider::Provider;
use super::record::TurnRecorder;
use super::reply::{PartState, Reply};
use super::run::Run;
use super::step::{End, ReplyOutcome, Step};
use crate::Conversation;

/// The default of [`AgentTurn::max_replies`].
const MAX_REPLIES: u32 = 50;

/// A turn, from the user's prompt to the answer.
///
/// # Example: a tool runs, and the model continues with its output
/// ```
/// use ttsr::Pack;
/// use ttsr::harness::{
///     Cancel, Hooks, Message, Processor, Request, Scripted, ScriptedReply, Settings, Tool, ToolCall,
///     ToolFuture, ToolOutput, Tools, AgentTurn,
/// };
/// struct Clock;
/// impl Tools for Clock {
///     fn tools(&self) -> Vec<Tool> {
///         let input = serde_json::json!({"type": "object"});
///         vec![Tool { name: "clock".into(), description: "The time.".into(), input }]
///     }
///     fn call<'a>(&'a self, _: &'a ToolCall) -> ToolFuture<'a> {
///         Box::pin(async { ToolOutput::output("12:00") })
///     }
/// }
/// let asks = ScriptedReply::default().tool("clock", "call_1", "{}").finish("tool_use");
/// let says = ScriptedReply::default().text("It is noon.").finish("stop");
/// let mut provider = Scripted::new([asks, says]);
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
/// let tools = Clock;
/// let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
/// let request = Request::new("a-model", vec![Message::user("What time is it?")]);
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let outcome = runtime.block_on(turn.run(request, "msg", &mut |_| {}));
/// assert_eq!(outcome.reply.text(ttsr::Channel::Text), "It is noon.");
/// assert_eq!(outcome.added.len(), 3, "the call, its result, and the answer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a turn does nothing until it is run"]
pub struct AgentTurn<'a, P: Provider + ?Sized> {
    processor: &'a mut Processor,
    provider: &'a mut P,
    tools: &'a dyn Tools,
    cancel: Cancel,
    max_replies: u32,
    recorder: Option<&'a mut dyn TurnRecorder>,
}

impl<P: Provider + ?Sized> std::fmt::Debug for AgentTurn<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentTurn")
            .field("processor", &self.processor)
            .field("max_replies", &self.max_replies)
            .finish_non_exhaustive()
    }
}

/// The result of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnOutcome {
    /// The end of the last reply or of the turn.
    pub end: End,
    /// The answer; empty if there is none.
    pub reply: Reply,
    /// All messages that belong to the conversation from now on, in order, the answer included.
    pub added: Vec<Message>,
    /// The number of replies.
    pub replies: u32,
    /// The handoff to a new session that a rule asked for.
    pub handoff: Option<Handoff>,
}

/// A callback that sees the steps of a turn, except those of sub-agents.
pub(super) type StepWatcher<'a> = &'a mut (dyn FnMut(&Step) + Send);

/// The state of a turn in progress.
struct TurnState {
    request: Request,
    /// The number of messages in the request at the start.
    known: usize,
    message: String,
    replies: u32,
    reply: Reply,
    handoff: Option<Handoff>,
    /// The calls of the last reply that were not checked yet.
    calls: VecDeque<ToolCall>,
    /// The time at which the last reply began.
    began: Instant,
    /// The answers of sub-agents, to be added after the results of the calls.
    answers: Vec<Message>,
}

/// The point at which a turn stops to advance.
enum Advanced {
    Ended(End),
    Ask(ToolCall, Vec<Consultation>),
}

impl<'a, P: Provider + ?Sized> AgentTurn<'a, P> {
    /// Returns a turn of the processor's conversation.
    pub fn new(
        processor: &'a mut Processor,
        provider: &'a mut P,
        tools: &'a dyn Tools,
        cancel: Cancel,
    ) -> AgentTurn<'a, P> {
        AgentTurn {
            processor,
            provider,
            tools,
            cancel,
            max_replies: MAX_REPLIES,
            recorder: None,
        }
    }

    /// Sets the most replies of the turn. If the model asks for more, the turn is aborted. Default 50.
    ///
    /// # Example: a model that only calls tools
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{
    ///     Cancel, End, Hooks, NoTools, Processor, Request, Scripted, ScriptedReply, Settings, AgentTurn,
    /// };
    /// let calls = ScriptedReply::default().tool("clock", "call_1", "{}").finish("tool_use");
    /// let mut provider = Scripted::new([calls]);
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// let tools = NoTools;
    /// let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default()).max_replies(2);
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let outcome = runtime.block_on(turn.run(Request::default(), "msg", &mut |_| {}));
    /// assert!(matches!(outcome.end, End::Aborted { .. }));
    /// assert_eq!(outcome.replies, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_replies(self, max_replies: u32) -> AgentTurn<'a, P> {
        AgentTurn {
            max_replies,
            ..self
        }
    }

    /// Records the turn: each step before it is published, and each message that is added. The host records the
    /// messages of the first request. If the recorder fails, the turn is cancelled.
    ///
    /// # Example: the steps of a turn are counted
    /// ```
    /// use std::time::Duration;
    /// use ttsr::harness::{
    ///     Cancel, Hooks, Message, NoTools, NotRecorded, Processor, Request, Scripted, ScriptedReply, Settings, Step,
    ///     AgentTurn, TurnRecorder,
    /// };
    /// use ttsr::{Conversation, Pack};
    /// struct Count(usize);
    /// impl TurnRecorder for Count {
    ///     fn record_step(&mut self, _: Duration, _: &Step, _: &Conversation) -> Result<(), NotRecorded> {
    ///         self.0 += 1;
    ///         Ok(())
    ///     }
    ///     fn record_message(&mut self, _: &Message, _: &Conversation) -> Result<(), NotRecorded> {
    ///         Ok(())
    ///     }
    /// }
    /// let mut recorder = Count(0);
    /// let mut provider = Scripted::new([ScriptedReply::default().text("Hello.").finish("stop")]);
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// let tools = NoTools;
    /// let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
    /// let turn = turn.record(&mut recorder);
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let mut seen = 0;
    /// runtime.block_on(turn.run(Request::default(), "msg", &mut |_| seen += 1));
    /// assert_eq!(recorder.0, seen + 1, "the end is recorded, and returned");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record(self, recorder: &'a mut dyn TurnRecorder) -> AgentTurn<'a, P> {
        AgentTurn {
            recorder: Some(recorder),
            ..self
        }
    }

    /// Runs the turn to its end. `message` is the id of the first reply; later replies append `-2`, `-3` and so on.
    /// `watch` sees every step, except `Step::Finish` and those of sub-agents. If the request names no tools, all tools
    /// are offered.
    ///
    /// Dropping the future closes the transport and ends the running tool; no hook is called after that.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with time enabled.
    pub async fn run(
        mut self,
        request: Request,
        message: &str,
        watch: StepWatcher<'_>,
    ) -> TurnOutcome {
        let mut state = self.begin(request, message);
        loop {
            let (call, consultations) = match self.advance(&mut state, watch).await {
                Advanced::Ended(end) => return self.finish(state, end),
                Advanced::Ask(call, consultations) => (call, consultations),
            };
            let parent = self.parent(&state);
            let mut said = Vec::new();
            for consultation in consultations {
                let asking = ask_sub_agent(
                    self.provider,
                    self.tools,
                    self.processor.hooks_mut(),
                    &parent,
                    &consultation,
                    &self.cancel,
                    |_| {},
                );
                let consulted = asking.await;
                said.push((consultation, consulted));
            }
            if let Some(end) = self.report_answers(&mut state, call, said, watch).await {
                return self.finish(state, end);
            }
        }
    }

    /// Ends the turn. The answers of sub-agents are added to the conversation even if the model has not read them,
    /// because the results of the calls refer to them.
    fn finish(&mut self, mut state: TurnState, end: End) -> TurnOutcome {
        self.add_answers(&mut state);
        state.finish(end)
    }

    /// Runs the turn of a sub-agent, in which no further sub-agent is asked.
    pub(super) async fn run_alone(
        mut self,
        request: Request,
        message: &str,
        watch: StepWatcher<'_>,
    ) -> TurnOutcome {
        let mut state = self.begin(request, message);
        loop {
            match self.advance(&mut state, watch).await {
                Advanced::Ended(end) => return state.finish(end),
                Advanced::Ask(call, wanted) => {
                    let nobody = wanted.into_iter().map(|it| (it, ConsultOutcome::Nested));
                    let nobody = nobody.collect();
                    if let Some(end) = self.report_answers(&mut state, call, nobody, watch).await {
                        return state.finish(end);
                    }
                }
            }
        }
    }

    fn begin(&self, mut request: Request, message: &str) -> TurnState {
        if request.tools.is_empty() {
            request.tools = self.tools.tools();
        }
        TurnState {
            known: request.messages.len(),
            request,
            message: message.to_owned(),
            replies: 0,
            reply: Reply::default(),
            handoff: None,
            calls: VecDeque::new(),
            began: Instant::now(),
            answers: Vec::new(),
        }
    }

    fn parent(&self, state: &TurnState) -> ParentSession {
        ParentSession {
            settings: self.processor.settings().clone(),
            pack: self.processor.pack().clone(),
            origin: self.processor.conversation().origin().clone(),
            model: state.request.model.clone(),
        }
    }

    /// Advances until the turn is over or a sub-agent must be asked.
    async fn advance(&mut self, state: &mut TurnState, watch: StepWatcher<'_>) -> Advanced {
        loop {
            while !state.calls.is_empty() {
                let gates = self.check_calls(state, watch);
                match self.run_gates(state, gates, watch).await {
                    Ok(None) => {}
                    Ok(Some((call, consultations))) => return Advanced::Ask(call, consultations),
                    Err(end) => return Advanced::Ended(end),
                }
            }
            self.add_answers(state);
            if state.replies >= self.max_replies {
                let end = End::Aborted {
                    reason: AbortReason::Error,
                    source: AbortSource::Limit("max_replies"),
                    detail: format!("the turn took {} replies", state.replies),
                };
                let mut out = Vec::new();
                self.processor.report_turn_abort(&end, &mut out);
                self.publish(state, &out, watch);
                return Advanced::Ended(end);
            }
            let end = self.reply(state, watch).await;
            if matches!(end, End::Aborted { .. }) || state.calls.is_empty() {
                return Advanced::Ended(end);
            }
        }
    }

    /// Runs one reply and queues its tool calls.
    async fn reply(&mut self, state: &mut TurnState, watch: StepWatcher<'_>) -> End {
        state.replies += 1;
        state.began = Instant::now();
        let request = state.request.clone();
        let cancel = self.cancel.clone();
        let mut run = match state.replies {
            1 => {
                let message = state.message.clone();
                Run::begin(self.processor, self.provider, request, message, cancel)
            }
            number => {
                let message = format!("{}-{number}", state.message);
                Run::proceed(self.processor, self.provider, request, message, cancel)
            }
        };
        let outcome = loop {
            let step = run.next().await.expect("a reply ends with `Step::Finish`");
            write(
                &mut self.recorder,
                state,
                &step,
                run.conversation(),
                &self.cancel,
            );
            match step {
                Step::Finish(outcome) => break outcome,
                Step::Handoff { ref handoff, .. } => state.handoff = Some(handoff.clone()),
                _ => {}
            }
            watch(&step);
        };
        state.apply_outcome(*outcome, &self.processor.settings().session)
    }

    /// Reports the answers about a call to the processor. Returns the end of the turn if it ends here.
    async fn report_answers(
        &mut self,
        state: &mut TurnState,
        call: ToolCall,
        said: Vec<(Consultation, ConsultOutcome)>,
        watch: StepWatcher<'_>,
    ) -> Option<End> {
        let mut out = Vec::new();
        let (gate, mut answers) = match self.cancel.is_cancelled() {
            true => {
                let (unheard, _): (Vec<_>, Vec<_>) = said.into_iter().unzip();
                self.processor.drop_consultations(&unheard);
                (Gate::Run(call), Vec::new())
            }
            false => self.processor.consulted(call, said, &mut out),
        };
        self.publish(state, &out, watch);
        state.answers.append(&mut answers);
        // The answer about a call is never another question.
        self.run_gates(state, vec![gate], watch).await.err()
    }

    /// Checks the next call and, while the tools are concurrent, those that follow it, up to a call about which a
    /// sub-agent is asked.
    fn check_calls(&mut self, state: &mut TurnState, watch: StepWatcher<'_>) -> Vec<Gate> {
        let mut gates = Vec::new();
        while let Some(call) = state.calls.front() {
            let is_concurrent = self.tools.is_concurrent(&call.tool);
            if !gates.is_empty() && !is_concurrent {
                break;
            }
            let Some(call) = state.calls.pop_front() else {
                break;
            };
            let mut out = Vec::new();
            let gate = self.processor.before_tool(call, &mut out);
            self.publish(state, &out, watch);
            let is_last = !is_concurrent || matches!(gate, Gate::Ask(..));
            gates.push(gate);
            if is_last {
                break;
            }
        }
        gates
    }

    /// Runs the calls of the gates at the same time, then adds the results in order. Returns the call about which a
    /// sub-agent must be asked, which can only be the last, or the end of the turn. A cancel takes precedence over the
    /// tools.
    async fn run_gates(
        &mut self,
        state: &mut TurnState,
        gates: Vec<Gate>,
        watch: StepWatcher<'_>,
    ) -> Result<Option<(ToolCall, Vec<Consultation>)>, End> {
        let outputs = run_calls(self.tools, &gates, &self.cancel).await;
        let mut out = Vec::new();
        let mut ended = None;
        let mut question = None;
        for (gate, output) in gates.into_iter().zip(outputs) {
            match gate {
                Gate::Run(call) if ended.is_none() => {
                    let told = match output {
                        Some(after) => self.processor.after_tool(&call, after, &mut out),
                        None => {
                            let end = End::Aborted {
                                reason: AbortReason::User,
                                source: AbortSource::User,
                                detail: String::new(),
                            };
                            self.processor.report_turn_abort(&end, &mut out);
                            Err(end)
                        }
                    };
                    match told {
                        Ok(after) => state.push_result(&call, after),
                        Err(end) => {
                            self.cancel_call(state, &call, &mut out);
                            ended = Some(end);
                        }
                    }
                }
                Gate::Run(call) => self.cancel_call(state, &call, &mut out),
                Gate::Blocked(call, after) => state.push_result(&call, after),
                Gate::Ask(call, consultations) if ended.is_none() => {
                    question = Some((call, consultations));
                }
                Gate::Ask(call, consultations) => {
                    self.processor.drop_consultations(&consultations);
                    self.cancel_call(state, &call, &mut out);
                }
            }
        }
        if ended.is_some() {
            for call in std::mem::take(&mut state.calls) {
                self.cancel_call(state, &call, &mut out);
            }
        }
        self.publish(state, &out, watch);
        match ended {
            Some(end) => Err(end),
            None => Ok(question),
        }
    }

    /// Adds the result of a call that did not run or whose output is not used: every call in a conversation needs one.
    fn cancel_call(&mut self, state: &mut TurnState, call: &ToolCall, out: &mut Vec<Step>) {
        let after = self.processor.tool_cancelled(call, out);
        state.push_result(call, after);
    }

    /// Records and publishes steps that are made between replies.
    fn publish(&mut self, state: &TurnState, steps: &[Step], watch: StepWatcher<'_>) {
        for step in steps {
            let conversation = self.processor.conversation();
            write(&mut self.recorder, state, step, conversation, &self.cancel);
            watch(step);
        }
    }

    /// Adds the answers of sub-agents to the conversation.
    fn add_answers(&mut self, state: &mut TurnState) {
        for message in state.answers.drain(..) {
            if let Some(recorder) = &mut self.recorder
                && recorder
                    .record_message(&message, self.processor.conversation())
                    .is_err()
            {
                self.cancel.cancel();
            }
            state.request.messages.push(message);
        }
    }
}

/// Runs the calls of the gates at the same time. A call has no output if it may not run, or if the cancel came first:
/// then it was dropped, or has not started.
async fn run_calls(tools: &dyn Tools, gates: &[Gate], cancel: &Cancel) -> Vec<Option<ToolOutput>> {
    let mut outputs: Vec<Option<ToolOutput>> = gates.iter().map(|_| None).collect();
    // A call starts when it is polled, which is after the cancel was polled.
    let mut running: Vec<Option<ToolFuture<'_>>> = gates.iter().map(|_| None).collect();
    let all = poll_fn(|context| {
        let mut is_pending = false;
        for ((gate, future), output) in gates.iter().zip(&mut running).zip(&mut outputs) {
            let Gate::Run(call) = gate else { continue };
            if output.is_none() {
                let future = future.get_or_insert_with(|| tools.call(call));
                match future.as_mut().poll(context) {
                    Poll::Ready(after) => *output = Some(after),
                    Poll::Pending => is_pending = true,
                }
            }
        }
        match is_pending {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    });
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        () = all => {}
    }
    outputs
}

fn write(
    recorder: &mut Option<&mut dyn TurnRecorder>,
    state: &TurnState,
    step: &Step,
    conversation: &Conversation,
    cancel: &Cancel,
) {
    if let Some(recorder) = recorder
        && recorder
            .record_step(state.began.elapsed(), step, conversation)
            .is_err()
    {
        cancel.cancel();
    }
}

impl TurnState {
    /// Adds the messages of a finished reply to the request and queues its tool calls. Returns the end of the reply.
    fn apply_outcome(&mut self, outcome: ReplyOutcome, session: &str) -> End {
        self.request.messages.extend(outcome.added);
        if let Some(model) = outcome.model {
            self.request.model = model;
        }
        if !matches!(outcome.end, End::Aborted { .. }) {
            let message = Message::reply(&outcome.reply);
            if !message.content.is_empty() {
                self.request.messages.push(message);
            }
            let calls = outcome.reply.tool_calls();
            let calls = calls.filter(|call| call.state == PartState::Complete);
            self.calls = calls
                .map(|call| ToolCall {
                    session: session.to_owned(),
                    call: call.call_id(),
                    tool: call.tool.clone().unwrap_or_default(),
                    input: call.text(),
                })
                .collect();
        }
        self.reply = outcome.reply;
        outcome.end
    }

    fn push_result(&mut self, call: &ToolCall, after: ToolOutput) {
        let content = Content::ToolResult {
            call: call.call.clone(),
            output: after.output,
            is_error: after.is_error,
        };
        self.request.messages.push(Message {
            role: Role::Tool,
            content: vec![content],
        });
    }

    fn finish(mut self, end: End) -> TurnOutcome {
        let reply = match end {
            End::Complete { .. } | End::Truncated { .. } => self.reply,
            End::Aborted { .. } => Reply::default(),
        };
        TurnOutcome {
            end,
            reply,
            added: self.request.messages.split_off(self.known),
            replies: self.replies,
            handoff: self.handoff,
        }
    }
}

/// Asks a sub-agent in a session of its own, below that of `parent`, over the same provider and with the tools that
/// the consultation allows. `watch` sees the steps of its turn.
///
/// Returns within the consultation's timeout, and at once if the user cancels: then the transport and the running
/// tool are dropped. If `parent` is a sub-agent itself, nobody is asked and the outcome is [`ConsultOutcome::Nested`].
///
/// `hooks` are called in the sub-agent's session at every point, so that a hook that blocks a call in the session of
/// `parent` blocks it here too. They are moved into that session, and moved back when the future is done or dropped.
///
/// # Panics
/// If it is polled outside of a tokio runtime with time enabled.
///
/// # Example: a host asks
/// ```
/// use ttsr::rule::Consult;
/// use ttsr::{Origin, Pack};
/// use ttsr::harness::consult::{Consultation, ConsultOutcome, ParentSession};
/// use ttsr::harness::{Cancel, Hooks, NoTools, Scripted, ScriptedReply, Settings, ask_sub_agent};
/// let mut provider = Scripted::new([ScriptedReply::default().text("Looks fine.").finish("stop")]);
/// let parent = ParentSession {
///     settings: Settings { session: "ses_1".into(), ..Settings::default() },
///     pack: Pack::builder().build()?,
///     origin: Origin::default(),
///     model: "large".into(),
/// };
/// let mut question = Consult::new("Is this commit fit to go?");
/// question.model = Some("small".into());
/// let question = Consultation::new("review", "call_1", question);
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let (tools, mut hooks, cancel) = (NoTools, Hooks::default(), Cancel::default());
/// let asking =
///     ask_sub_agent(&mut provider, &tools, &mut hooks, &parent, &question, &cancel, |_| {});
/// assert_eq!(runtime.block_on(asking), ConsultOutcome::Answered("Looks fine.".into()));
/// assert_eq!(provider.requests()[0].model, "small");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn ask_sub_agent<P: Provider + ?Sized>(
    provider: &mut P,
    tools: &dyn Tools,
    hooks: &mut Hooks,
    parent: &ParentSession,
    consultation: &Consultation,
    cancel: &Cancel,
    mut watch: impl FnMut(&Step) + Send,
) -> ConsultOutcome {
    let Some(mut sub_agent) = SubAgent::open(tools, hooks, parent, consultation) else {
        return ConsultOutcome::Nested;
    };
    let SubAgent {
        processor, tools, ..
    } = &mut sub_agent;
    let created = SessionEvent::SubagentCreated {
        session: processor.settings().session.clone(),
        agent: parent
            .origin
            .agent
            .clone()
            .unwrap_or_else(|| consultation.by.clone()),
    };
    let mut steps = Vec::new();
    processor.session_event(&created, &mut steps);
    steps.iter().for_each(&mut watch);
    let turn = AgentTurn::new(processor, provider, tools, cancel.clone());
    let request = consultation.request(parent);
    let asking = turn.run_alone(request, &consultation.call, &mut watch);
    match timeout(consultation.timeout(), asking).await {
        Err(_elapsed) => ConsultOutcome::TimedOut,
        Ok(outcome) => ConsultOutcome::from_turn(outcome.end, &outcome.reply),
    }
}
