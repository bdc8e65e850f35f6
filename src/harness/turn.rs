//! A whole turn: replies, and the tools between them, until the model has nothing left to call.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::call::{After, Gate, ToolCall, Tools};
use super::consult::{Consultation, Consulted, Parent, consult};
use super::handoff::Handoff;
use super::message::{Content, Message, Request, Role};
use super::processor::Processor;
use super::provider::Provider;
use super::record::TurnRecorder;
use super::reply::{PartState, Reply};
use super::run::{Cancel, Run};
use super::step::{End, Outcome, Reason, Source, Step};
use crate::Session;

/// Replies of one turn, where the host does not say.
const MAX_REPLIES: u32 = 50;

/// One turn, from the user's prompt to the answer.
///
/// # Example: a tool runs, and the model goes on with what it gave back
/// ```
/// use ttsr::Pack;
/// use ttsr::harness::{
///     After, Cancel, Hooks, Message, Processor, Request, Script, Scripted, Settings, Tool, ToolCall,
///     ToolFuture, Tools, Turn,
/// };
/// struct Clock;
/// impl Tools for Clock {
///     fn tools(&self) -> Vec<Tool> {
///         let input = serde_json::json!({"type": "object"});
///         vec![Tool { name: "clock".into(), description: "The time.".into(), input }]
///     }
///     fn call<'a>(&'a mut self, _: &'a ToolCall) -> ToolFuture<'a> {
///         Box::pin(async { After::output("12:00") })
///     }
/// }
/// let asks = Script::default().tool("clock", "call_1", "{}").finish("tool_use");
/// let says = Script::default().text("It is noon.").finish("stop");
/// let mut provider = Scripted::new([asks, says]);
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(pack.session(), Hooks::default(), Settings::default());
/// let mut tools = Clock;
/// let turn = Turn::new(&mut processor, &mut provider, &mut tools, Cancel::default());
/// let request = Request::new("a-model", vec![Message::user("What time is it?")]);
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let outcome = runtime.block_on(turn.run(request, "msg", &mut |_| {}));
/// assert_eq!(outcome.reply.text(ttsr::Channel::Text), "It is noon.");
/// assert_eq!(outcome.added.len(), 3, "the call, its result, and the answer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a turn does nothing until it is run"]
pub struct Turn<'a, P: Provider + ?Sized> {
    processor: &'a mut Processor,
    provider: &'a mut P,
    tools: &'a mut dyn Tools,
    cancel: Cancel,
    max_replies: u32,
    recorder: Option<&'a mut dyn TurnRecorder>,
}

impl<P: Provider + ?Sized> std::fmt::Debug for Turn<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("processor", &self.processor)
            .field("max_replies", &self.max_replies)
            .finish_non_exhaustive()
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnOutcome {
    /// Answered, or aborted by whom.
    pub end: End,
    /// The answer; empty if there is none.
    pub reply: Reply,
    /// Every message that belongs to the conversation from now on, the answer included, in order.
    pub added: Vec<Message>,
    /// How many replies it took.
    pub replies: u32,
    /// What a rule wants handed over to a new session.
    pub handoff: Option<Handoff>,
}

/// Sees the steps of a turn. Steps of sub-agents are not among them.
pub(super) type Watch<'a> = &'a mut (dyn FnMut(&Step) + Send);

/// A turn under way.
struct State {
    request: Request,
    /// How many of its messages were there before.
    known: usize,
    message: String,
    replies: u32,
    reply: Reply,
    handoff: Option<Handoff>,
    /// Calls of the last reply that have not been decided about.
    calls: VecDeque<ToolCall>,
    /// When the last reply began.
    began: Instant,
    /// What sub-agents said, for after the results of the calls.
    advice: Vec<Message>,
}

/// How far a turn came.
enum Went {
    Over(End),
    Ask(ToolCall, Vec<Consultation>),
}

impl<'a, P: Provider + ?Sized> Turn<'a, P> {
    /// A turn of that conversation.
    pub fn new(
        processor: &'a mut Processor,
        provider: &'a mut P,
        tools: &'a mut dyn Tools,
        cancel: Cancel,
    ) -> Turn<'a, P> {
        Turn {
            processor,
            provider,
            tools,
            cancel,
            max_replies: MAX_REPLIES,
            recorder: None,
        }
    }

    /// At most so many replies; the turn is aborted where the model wants more. Default 50.
    ///
    /// # Example: a model that only calls tools
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{
    ///     Cancel, End, Hooks, NoTools, Processor, Request, Script, Scripted, Settings, Turn,
    /// };
    /// let calls = Script::default().tool("clock", "call_1", "{}").finish("tool_use");
    /// let mut provider = Scripted::new([calls]);
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// let mut tools = NoTools;
    /// let turn = Turn::new(&mut processor, &mut provider, &mut tools, Cancel::default()).max_replies(2);
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let outcome = runtime.block_on(turn.run(Request::default(), "msg", &mut |_| {}));
    /// assert!(matches!(outcome.end, End::Aborted { .. }));
    /// assert_eq!(outcome.replies, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_replies(self, max_replies: u32) -> Turn<'a, P> {
        Turn {
            max_replies,
            ..self
        }
    }

    /// Records the turn: every step before anybody sees it, and every message except those of the first request,
    /// which the host records. Where the recorder fails, the turn is cancelled.
    ///
    /// # Example: the steps of a turn are counted
    /// ```
    /// use std::time::Duration;
    /// use ttsr::harness::{
    ///     Cancel, Hooks, Message, NoTools, NotRecorded, Processor, Request, Script, Scripted, Settings, Step, Turn,
    ///     TurnRecorder,
    /// };
    /// use ttsr::{Pack, Session};
    /// struct Count(usize);
    /// impl TurnRecorder for Count {
    ///     fn record_step(&mut self, _: Duration, _: &Step, _: &Session) -> Result<(), NotRecorded> {
    ///         self.0 += 1;
    ///         Ok(())
    ///     }
    ///     fn record_message(&mut self, _: &Message, _: &Session) -> Result<(), NotRecorded> {
    ///         Ok(())
    ///     }
    /// }
    /// let mut recorder = Count(0);
    /// let mut provider = Scripted::new([Script::default().text("Hello.").finish("stop")]);
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// let mut tools = NoTools;
    /// let turn = Turn::new(&mut processor, &mut provider, &mut tools, Cancel::default());
    /// let turn = turn.record(&mut recorder);
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let mut seen = 0;
    /// runtime.block_on(turn.run(Request::default(), "msg", &mut |_| seen += 1));
    /// assert_eq!(recorder.0, seen);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record(self, recorder: &'a mut dyn TurnRecorder) -> Turn<'a, P> {
        Turn {
            recorder: Some(recorder),
            ..self
        }
    }

    /// Runs it to its end. `message` is the id of its first reply, those after it have a number behind;
    /// `watch` sees every step, those of sub-agents excepted. Where the request names no tools, those
    /// that there are.
    ///
    /// Dropping the future closes the transport and ends the tool at work; no hook is called after that.
    pub async fn run(mut self, request: Request, message: &str, watch: Watch<'_>) -> TurnOutcome {
        let mut state = self.begin(request, message);
        loop {
            let (call, consultations) = match self.advance(&mut state, watch).await {
                Went::Over(end) => return self.over(state, end),
                Went::Ask(call, consultations) => (call, consultations),
            };
            let parent = self.parent(&state);
            let mut said = Vec::new();
            for consultation in consultations {
                let asking = consult(
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
            if let Some(end) = self.answered(&mut state, call, said, watch).await {
                return self.over(state, end);
            }
        }
    }

    /// The turn is over. What sub-agents said is in the conversation also where the turn ends before the model
    /// hears of it, for the results of the calls promise it.
    fn over(&mut self, mut state: State, end: End) -> TurnOutcome {
        self.advise(&mut state);
        state.over(end)
    }

    /// Runs it without anybody being asked: the turn of a sub-agent.
    pub(super) async fn run_alone(
        mut self,
        request: Request,
        message: &str,
        watch: Watch<'_>,
    ) -> TurnOutcome {
        let mut state = self.begin(request, message);
        loop {
            match self.advance(&mut state, watch).await {
                Went::Over(end) => return state.over(end),
                Went::Ask(call, wanted) => {
                    let nobody = wanted.into_iter().map(|it| (it, Consulted::Nested));
                    let nobody = nobody.collect();
                    if let Some(end) = self.answered(&mut state, call, nobody, watch).await {
                        return state.over(end);
                    }
                }
            }
        }
    }

    fn begin(&self, mut request: Request, message: &str) -> State {
        if request.tools.is_empty() {
            request.tools = self.tools.tools();
        }
        State {
            known: request.messages.len(),
            request,
            message: message.to_owned(),
            replies: 0,
            reply: Reply::default(),
            handoff: None,
            calls: VecDeque::new(),
            began: Instant::now(),
            advice: Vec::new(),
        }
    }

    fn parent(&self, state: &State) -> Parent {
        Parent {
            settings: self.processor.settings().clone(),
            pack: self.processor.pack().clone(),
            origin: self.processor.session().origin().clone(),
            model: state.request.model.clone(),
        }
    }

    /// Goes on until the turn is over or somebody is to be asked.
    async fn advance(&mut self, state: &mut State, watch: Watch<'_>) -> Went {
        loop {
            while let Some(call) = state.calls.pop_front() {
                let mut out = Vec::new();
                let gate = self.processor.before_tool(call, &mut out);
                self.tell(state, &out, watch);
                if let Gate::Ask(call, consultations) = gate {
                    return Went::Ask(call, consultations);
                }
                if let Some(end) = self.pass(state, gate, watch).await {
                    return Went::Over(end);
                }
            }
            self.advise(state);
            if state.replies >= self.max_replies {
                let end = End::Aborted {
                    reason: Reason::Error,
                    source: Source::Limit("max_replies"),
                    detail: format!("the turn took {} replies", state.replies),
                };
                let mut out = Vec::new();
                self.processor.end_turn(&end, &mut out);
                self.tell(state, &out, watch);
                return Went::Over(end);
            }
            let end = self.reply(state, watch).await;
            if matches!(end, End::Aborted { .. }) || state.calls.is_empty() {
                return Went::Over(end);
            }
        }
    }

    /// One reply; its tool calls wait.
    async fn reply(&mut self, state: &mut State, watch: Watch<'_>) -> End {
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
                run.session(),
                &self.cancel,
            );
            match step {
                Step::Finish(outcome) => break outcome,
                Step::Handoff { ref handoff, .. } => state.handoff = Some(handoff.clone()),
                _ => {}
            }
            watch(&step);
        };
        state.went_on(*outcome, &self.processor.settings().session)
    }

    /// What came of asking about a call; how the turn ends, if it ends here.
    async fn answered(
        &mut self,
        state: &mut State,
        call: ToolCall,
        said: Vec<(Consultation, Consulted)>,
        watch: Watch<'_>,
    ) -> Option<End> {
        let mut out = Vec::new();
        let (gate, mut answers) = match self.cancel.is_cancelled() {
            true => {
                let (unheard, _): (Vec<_>, Vec<_>) = said.into_iter().unzip();
                self.processor.forget_consultations(&unheard);
                (Gate::Run(call), Vec::new())
            }
            false => self.processor.consulted(call, said, &mut out),
        };
        self.tell(state, &out, watch);
        state.advice.append(&mut answers);
        self.pass(state, gate, watch).await
    }

    /// Runs a call, or not; how the turn ends, if it ends here. The user wins over the tool.
    async fn pass(&mut self, state: &mut State, gate: Gate, watch: Watch<'_>) -> Option<End> {
        let call = match gate {
            Gate::Run(call) => call,
            Gate::Blocked(call, after) => {
                state.result(&call, after);
                return None;
            }
            Gate::Ask(..) => return None,
        };
        let ended = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            // Not before it is known that the user did not cancel.
            after = async { self.tools.call(&call).await } => Some(after),
        };
        let mut out = Vec::new();
        let told = match ended {
            Some(after) => self.processor.after_tool(&call, after, &mut out),
            None => {
                let end = End::Aborted {
                    reason: Reason::User,
                    source: Source::User,
                    detail: String::new(),
                };
                self.processor.end_turn(&end, &mut out);
                Err(end)
            }
        };
        let end = match told {
            Ok(after) => {
                state.result(&call, after);
                None
            }
            Err(end) => {
                // Each call of a conversation has a result, also those that nobody waits for.
                state.calls.push_front(call);
                for call in std::mem::take(&mut state.calls) {
                    let after = self.processor.tool_cancelled(&call, &mut out);
                    state.result(&call, after);
                }
                Some(end)
            }
        };
        self.tell(state, &out, watch);
        end
    }

    /// Steps that came outside a reply.
    fn tell(&mut self, state: &State, steps: &[Step], watch: Watch<'_>) {
        for step in steps {
            let session = self.processor.session();
            write(&mut self.recorder, state, step, session, &self.cancel);
            watch(step);
        }
    }

    /// What sub-agents said goes into the conversation.
    fn advise(&mut self, state: &mut State) {
        for message in state.advice.drain(..) {
            if let Some(recorder) = &mut self.recorder
                && recorder
                    .record_message(&message, self.processor.session())
                    .is_err()
            {
                self.cancel.cancel();
            }
            state.request.messages.push(message);
        }
    }
}

fn write(
    recorder: &mut Option<&mut dyn TurnRecorder>,
    state: &State,
    step: &Step,
    session: &Session,
    cancel: &Cancel,
) {
    if let Some(recorder) = recorder
        && recorder
            .record_step(state.began.elapsed(), step, session)
            .is_err()
    {
        cancel.cancel();
    }
}

impl State {
    /// A reply is over: what it leaves to the next one, and how it ended.
    fn went_on(&mut self, outcome: Outcome, session: &str) -> End {
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

    fn result(&mut self, call: &ToolCall, after: After) {
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

    fn over(mut self, end: End) -> TurnOutcome {
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
