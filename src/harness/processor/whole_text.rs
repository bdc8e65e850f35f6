//! Checks of whole texts: requests before they are sent, tool calls before they run, and the outputs of tools and
//! errors of providers. Each text passes the hooks, then the rules.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::abort::AbortCause;
use super::part::canonical;
use super::{AskedCall, CallTreatment, PendingHandoff, Processor};
use crate::conversation::TextEdits;
use crate::harness::aborted::{AbortReason, PromptRef};
use crate::harness::call::{Gate, PendingCall, RequestTarget, ToolCall, ToolOutput};
use crate::harness::consultation::{ConsultOutcome, Consultation, PAUSED};
use crate::harness::event::{DecisionEvent, LoopEvent};
use crate::harness::fallback::SessionEvent;
use crate::harness::hooks::{Faults, HookFault, HookPoint, OnHookFault};
use crate::harness::message::{Content, Message, Request, Role};
use crate::harness::step::{End, Step};
use crate::rule::{Header, ToolOutcome};
use crate::{Action, Channel, Decision, Stream};

/// The most user messages for which the edits of rules are remembered.
pub(super) const CHECKED_MESSAGES: usize = 1000;

/// The marker of a message with which the agent itself starts a request. Rules on `user-input` read such a message
/// instead of the user's last message, also if all of it is synthetic. They never read steering messages.
pub(super) const INTERNAL_INITIATOR: &str = "<!-- SLIM_INTERNAL_INITIATOR -->";

/// The separator of the texts of one message when rules read them: no match spans two texts, and a rule can tell the
/// first text from the others.
const TEXT_SEPARATOR: &str = "\u{1e}";

/// Headers that a package sets itself, by the name of the package. Rules do not set them.
const OWN_HEADERS: [(&str, &str); 1] = [("@ai-sdk/github-copilot", "x-initiator")];

/// A request that is ready to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedRequest {
    /// The request to send.
    pub request: Request,
    /// The messages in `request` that rules added. They belong to the conversation from now on.
    pub added: Vec<Message>,
}

/// The edits that rules made to the user's messages. A message is sent with every request of a turn, and rules read it
/// once per turn.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckedMessages {
    known: VecDeque<(u64, TextEdits)>,
}

/// The message of a decision, for the next request.
#[derive(Debug)]
pub(super) struct Guidance {
    pub(super) decision: Decision,
    pub(super) text: String,
}

/// The decisions about a whole text that do not edit it.
#[derive(Debug, Default)]
pub(super) struct OtherDecisions {
    pub(super) injected: Vec<Guidance>,
    pub(super) fallback: Option<Decision>,
    pub(super) retry: Option<(Guidance, AbortCause)>,
    pub(super) abort: Option<AbortCause>,
}

impl CheckedMessages {
    fn get(&self, key: u64) -> Option<&TextEdits> {
        let known = self.known.iter().find(|(other, _)| *other == key);
        known.map(|(_, whole)| whole)
    }

    fn insert(&mut self, key: u64, whole: TextEdits) {
        if self.known.len() >= CHECKED_MESSAGES {
            self.known.pop_front();
        }
        self.known.push_back((key, whole));
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}

impl Processor {
    /// Prepares the request of the last [`Step::Send`]: hooks edit its messages, rules read the user's last message,
    /// and headers are set. Edits of messages apply to this request only, except for those in
    /// [`added`](PreparedRequest::added).
    ///
    /// Returns `None` if the request must not be sent: the reply is over, and the steps in `out` give the reason.
    ///
    /// # Example: a rule that adds a header
    /// ```
    /// use ttsr::harness::{Hooks, Message, Processor, Request, Settings};
    /// use ttsr::rule::Header;
    /// use ttsr::{Action, Channel, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/think", vec![Pattern::word("ultrathink")]);
    /// rule.on = vec![Channel::UserInput];
    /// rule.action = Action::SetHeader;
    /// rule.header = Some(Header { name: "x-effort".into(), value: "high".into() });
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// let request = Request::new("a-model", vec![Message::user("ultrathink: why?")]);
    /// let prepared = processor.prepare(&request, &mut steps).expect("it may be sent");
    /// assert_eq!(prepared.request.headers, [("x-effort".into(), "high".into())]);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn prepare(&mut self, request: &Request, out: &mut Vec<Step>) -> Option<PreparedRequest> {
        let mut prepared = PreparedRequest {
            request: request.clone(),
            added: Vec::new(),
        };
        self.turn.prompt = PromptRef::new(self.conversation.turns(), &request.messages);
        self.progress.request_model = Some(request.model.clone()).filter(|model| !model.is_empty());
        let target = self.target(&request.model);
        if !self.hooks.is_empty(HookPoint::Messages) {
            let faults = self.hooks.messages(&target, &mut prepared.request.messages);
            self.refuse_on_fault(faults, out).ok()?;
        }
        self.check_prompt(&target, &mut prepared, out).ok()?;
        if !self.hooks.is_empty(HookPoint::Headers) {
            let faults = self.hooks.headers(&target, &mut prepared.request.headers);
            self.refuse_on_fault(faults, out).ok()?;
        }
        self.progress.is_prepared = true;
        Some(prepared)
    }

    /// Checks a tool call of the last reply before it runs: hooks, then rules if a hook changed its input, then the
    /// questions of rules and hooks to sub-agents.
    ///
    /// # Example: a call without objections
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Gate, Hooks, Processor, Settings, ToolCall};
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// let call = ToolCall { tool: "read".into(), input: "{}".into(), ..ToolCall::default() };
    /// assert_eq!(processor.before_tool(call.clone(), &mut Vec::new()), Gate::Run(call));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn before_tool(&mut self, call: ToolCall, out: &mut Vec<Step>) -> Gate {
        let mut call = call;
        let of_call = |wanted: &Consultation| wanted.call == call.call;
        let came = self
            .progress
            .at_gate
            .iter()
            .filter(|wanted| of_call(wanted));
        let mut wanted: Vec<Consultation> = came.cloned().collect();
        let new = self
            .attempt
            .consultations
            .extract_if(.., |wanted| of_call(wanted));
        let new: Vec<Consultation> = new.collect();
        self.progress.at_gate.extend_from_slice(&new);
        wanted.extend(new);
        if !self.hooks.is_empty(HookPoint::ToolBefore)
            && let Err(why) = self.run_before_hooks(&mut call, &mut wanted, out)
        {
            return self.block(call, why, out);
        }
        match self.treatment(&call) {
            None if wanted.is_empty() => return Gate::Run(call),
            None => {}
            Some(advice) => {
                let advice = advice.clone();
                self.drop_consultations(&wanted);
                return match advice {
                    CallTreatment::Asked | CallTreatment::Waits => {
                        self.block(call, PAUSED.to_owned(), out)
                    }
                    CallTreatment::Blocked(why) => self.block(call, why, out),
                    CallTreatment::Unanswered | CallTreatment::Heard | CallTreatment::Taken => {
                        Gate::Run(call)
                    }
                };
            }
        }
        if self.settings.depth == 0 {
            self.set_treatment(&call, CallTreatment::Asked);
            for wanted in &mut wanted {
                let session = wanted.assign_session(&self.settings.session, &self.turn.sub_agents);
                self.turn.sub_agents.push(session.clone());
                out.push(Step::Observe(LoopEvent::SubAgent {
                    call: call.call.clone(),
                    by: wanted.by.clone(),
                    session,
                    parent: self.settings.session.clone(),
                }));
            }
            return Gate::Ask(call, wanted);
        }
        let refused = LoopEvent::ConsultRefused {
            call: call.call.clone(),
        };
        out.push(Step::Observe(refused));
        let nobody = wanted.into_iter().map(|it| (it, ConsultOutcome::Nested));
        let (gate, _) = self.consulted(call, nobody.collect(), out);
        gate
    }

    /// Reports the outcomes of the questions about a call. If somebody answered, the call does not run: the answers are
    /// messages to add after the results of the reply's calls, and an equal call of a later reply runs. If nobody
    /// answered, the call runs or is blocked, as the rule or hook that asked specifies. Equal calls of the same reply
    /// are treated like this one without further questions.
    ///
    /// # Example: the answer goes to the model
    /// ```
    /// use ttsr::harness::consult::ConsultOutcome;
    /// use ttsr::harness::{Gate, Hooks, Processor, Settings, ToolCall};
    /// use ttsr::rule::Consult;
    /// use ttsr::Pack;
    /// let mut hooks = Hooks::default();
    /// hooks.on_tool_before("review", |_, before| before.consult(Consult::new("May it?")));
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let mut steps = Vec::new();
    /// let call = ToolCall { call: "call_1".into(), tool: "bash".into(), ..ToolCall::default() };
    /// let Gate::Ask(call, asked) = processor.before_tool(call, &mut steps) else { panic!("it asks") };
    /// let answer = ConsultOutcome::Answered("Better not.".into());
    /// let said = asked.into_iter().map(|question| (question, answer.clone())).collect();
    /// let (gate, answers) = processor.consulted(call.clone(), said, &mut steps);
    /// assert!(matches!(gate, Gate::Blocked(..)));
    /// assert!(answers[0].text().ends_with("Better not."));
    /// let again = processor.before_tool(call.clone(), &mut steps);
    /// assert!(matches!(again, Gate::Blocked(..)), "the model has not seen the answer yet");
    /// processor.proceed("msg_2", &mut steps);
    /// assert!(matches!(processor.before_tool(call, &mut steps), Gate::Run(_)), "the model insists");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn consulted(
        &mut self,
        call: ToolCall,
        said: Vec<(Consultation, ConsultOutcome)>,
        out: &mut Vec<Step>,
    ) -> (Gate, Vec<Message>) {
        let mut answers = Vec::new();
        let mut why = None;
        for (consultation, consulted) in said {
            if let Some(decision) = &consultation.decision {
                self.conversation.delivered_decision(decision);
            }
            match &consulted {
                ConsultOutcome::Answered(text) => answers.push(consultation.answer_message(text)),
                _ if consultation.consult.blocks_on_failure => {
                    why.get_or_insert_with(|| consultation.blocked_output(&consulted));
                }
                _ => {}
            }
            out.push(Step::Observe(LoopEvent::Consulted {
                call: call.call.clone(),
                by: consultation.by,
                consulted,
            }));
        }
        if let Some(why) = why {
            self.set_treatment(&call, CallTreatment::Blocked(why.clone()));
            return (self.block(call, why, out), answers);
        }
        if answers.is_empty() {
            self.set_treatment(&call, CallTreatment::Unanswered);
            return (Gate::Run(call), answers);
        }
        self.set_treatment(&call, CallTreatment::Waits);
        (self.block(call, PAUSED.to_owned(), out), answers)
    }

    /// Drops the decisions of questions that are not asked.
    pub(in crate::harness) fn drop_consultations(&mut self, wanted: &[Consultation]) {
        let unused = wanted.iter().filter_map(|wanted| wanted.decision);
        unused.for_each(|decision| self.conversation.dropped_decision(&decision));
    }

    /// Returns the treatment of a call, if a sub-agent was asked about an equal one. A call whose answer the model has
    /// read counts as run from now on.
    fn treatment(&mut self, call: &ToolCall) -> Option<&CallTreatment> {
        let input = canonical(call.input.as_bytes());
        let equal = |known: &&mut AskedCall| known.tool == call.tool && known.input == input;
        let known = self.turn.asked_calls.iter_mut().find(equal)?;
        if known.state == CallTreatment::Heard {
            known.state = CallTreatment::Taken;
        }
        Some(&known.state)
    }

    /// Sets the treatment of calls that equal this one.
    fn set_treatment(&mut self, call: &ToolCall, state: CallTreatment) {
        let input = canonical(call.input.as_bytes());
        self.turn
            .asked_calls
            .retain(|known| known.tool != call.tool || known.input != input);
        self.turn.asked_calls.push(AskedCall {
            tool: call.tool.clone(),
            input,
            state,
        });
    }

    /// Checks the output of a tool: hooks, then rules. Returns the output for the model.
    ///
    /// # Errors
    /// Returns the end of the turn if a rule aborts it. The tool has run, and its output must be dropped: call
    /// [`tool_cancelled`](Self::tool_cancelled) for its result. The hooks were notified as by
    /// [`report_turn_abort`](Self::report_turn_abort).
    ///
    /// # Example: a rule appends to an output
    /// ```
    /// use ttsr::harness::{Hooks, Processor, Settings, ToolCall, ToolOutput};
    /// use ttsr::{Action, Channel, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/full", vec![Pattern::literal("No space left")]);
    /// rule.on = vec![Channel::ToolOutput];
    /// rule.action = Action::Append;
    /// rule.message = Some("Delete build outputs first.".into());
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// let call = ToolCall { tool: "bash".into(), ..ToolCall::default() };
    /// let after = ToolOutput::error("No space left on device");
    /// let after = processor.after_tool(&call, after, &mut steps).unwrap();
    /// assert_eq!(after.output, "No space left on device\n\nDelete build outputs first.");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn after_tool(
        &mut self,
        call: &ToolCall,
        after: ToolOutput,
        out: &mut Vec<Step>,
    ) -> Result<ToolOutput, End> {
        let mut after = after;
        if !self.hooks.is_empty(HookPoint::ToolAfter) {
            let (changed, faults) = self.hooks.tool_after(call, after);
            after = changed;
            if let Some((hook, fault)) = self.record_faults(faults, out) {
                after = ToolOutput::error(format!(
                    "What the tool gave back is withheld: the hook `{hook}` {}.",
                    fault.predicate()
                ));
            }
        }
        let outcome = match after.is_error {
            true => ToolOutcome::Error,
            false => ToolOutcome::Ok,
        };
        let output = (Channel::ToolOutput, Some(outcome));
        let error = after.is_error.then_some((Channel::Error, None));
        for read_as in [output].into_iter().chain(error) {
            let (whole, verdicts) = self.check_text(read_as, Some(&call.tool), &after.output, out);
            if let Some(cause) = verdicts.abort {
                let end = cause.end();
                self.report_turn_abort(&end, out);
                return Err(end);
            }
            verdicts
                .injected
                .into_iter()
                .for_each(|guidance| self.queue(guidance, out));
            verdicts
                .fallback
                .iter()
                .for_each(|decision| self.conversation.dropped_decision(decision));
            after.output = whole.apply(&after.output);
        }
        out.push(result(call, &after));
        Ok(after)
    }

    /// Returns the output for the model of a call that was cancelled or whose turn ended.
    ///
    /// # Example: the output of a cancelled call
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Hooks, Processor, Settings, Step, TOOL_ABORTED, ToolCall};
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// let mut steps = Vec::new();
    /// let after = processor.tool_cancelled(&ToolCall::default(), &mut steps);
    /// assert_eq!((after.is_error, &*after.output), (true, TOOL_ABORTED));
    /// assert!(matches!(steps[0], Step::ToolResult { is_error: true, .. }));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn tool_cancelled(&mut self, call: &ToolCall, out: &mut Vec<Step>) -> ToolOutput {
        let after = ToolOutput::error(crate::harness::TOOL_ABORTED);
        out.push(result(call, &after));
        after
    }

    /// Notifies the hooks of an event of a session.
    ///
    /// The loop calls this for its own session: before a request (`session.status`: `busy`, or for
    /// another attempt the failure of the one before, or `retry`), when a sub-agent begins
    /// (`subagent.session.created`, in its session), at the end of a reply (`message.updated`), after an abort by an error
    /// or a timeout (`session.error`), and after an abort or an answer without tool calls (`session.idle`). The host
    /// calls it for events of a server and of other sessions.
    ///
    /// # Example: a hook receives an event
    /// ```
    /// use std::sync::mpsc;
    /// use ttsr::Pack;
    /// use ttsr::harness::fallback::SessionEvent;
    /// use ttsr::harness::{Hook, HookPoint, Hooks, Processor, Settings};
    /// struct Hears(mpsc::Sender<String>);
    /// impl Hook for Hears {
    ///     fn points(&self) -> &[HookPoint] {
    ///         &[HookPoint::Event]
    ///     }
    ///     fn event(&mut self, event: &SessionEvent) {
    ///         self.0.send(event.session().to_owned()).ok();
    ///     }
    /// }
    /// let (sender, heard) = mpsc::channel();
    /// let mut hooks = Hooks::default();
    /// hooks.register("hears", Hears(sender));
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let event = SessionEvent::Idle { session: "ses_1".into() };
    /// processor.session_event(&event, &mut Vec::new());
    /// assert_eq!(heard.recv().as_deref(), Ok("ses_1"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn session_event(&mut self, event: &SessionEvent, out: &mut Vec<Step>) {
        if !self.hooks.is_empty(HookPoint::Event) {
            let faults = self.hooks.event(event);
            self.record_faults(faults, out);
        }
    }

    /// Notifies the hooks of the end of a reply.
    pub(super) fn report_end(&mut self, end: &End, out: &mut Vec<Step>) {
        if self.hooks.is_empty(HookPoint::Event) {
            return;
        }
        let session = self.settings.session.clone();
        let origin = self.conversation.origin();
        let error = match end {
            End::Complete { .. } | End::Truncated { .. } => None,
            End::Aborted { reason, detail, .. } => match reason {
                AbortReason::Error | AbortReason::Timeout => Some(detail.clone()),
                _ => None,
            },
        };
        let is_idle = match end {
            End::Complete { .. } | End::Truncated { .. } => {
                self.attempt.reply.tool_calls().next().is_none()
            }
            End::Aborted { .. } => true,
        };
        let updated = SessionEvent::MessageUpdated {
            session: session.clone(),
            agent: origin.agent.clone(),
            model: origin.model.clone(),
            error: error.clone(),
        };
        let failed = error.map(|error| SessionEvent::Error {
            session: session.clone(),
            error,
        });
        let idle = is_idle.then_some(SessionEvent::Idle { session });
        for event in [Some(updated), failed, idle].into_iter().flatten() {
            self.session_event(&event, out);
        }
    }

    /// Lets rules read an error. Returns the edited text and the other decisions.
    pub(super) fn check_error(
        &mut self,
        text: &str,
        out: &mut Vec<Step>,
    ) -> (String, OtherDecisions) {
        let (whole, verdicts) = self.check_whole(Channel::Error, None, text, out);
        (whole.apply(text), verdicts)
    }

    /// Counts hook failures. Returns the failure that ends the stream: a cancel always ends it, and the first failure
    /// ends it if [`Settings::on_hook_fault`](crate::harness::Settings::on_hook_fault) says so.
    pub(super) fn record_faults(
        &mut self,
        faults: Faults,
        out: &mut Vec<Step>,
    ) -> Option<(String, HookFault)> {
        let is_cancel = |(_, fault): &&(String, HookFault)| *fault == HookFault::Cancelled;
        let first = faults.first();
        let first = first.filter(|_| self.settings.on_hook_fault == OnHookFault::Abort);
        let ends = faults.iter().find(is_cancel).or(first).cloned();
        faults
            .into_iter()
            .for_each(|(hook, fault)| self.record_fault(hook, fault, out));
        ends
    }

    fn target(&self, model: &str) -> RequestTarget {
        let origin = self.conversation.origin();
        RequestTarget {
            session: self.settings.session.clone(),
            parent: self.settings.parent.clone(),
            agent: origin.agent.clone(),
            provider: origin.provider.clone(),
            model: model.to_owned(),
            package: self.settings.package.clone(),
        }
    }

    /// Calls the hooks before a tool call. Returns the reason as an error if the call is blocked.
    fn run_before_hooks(
        &mut self,
        call: &mut ToolCall,
        wanted: &mut Vec<Consultation>,
        out: &mut Vec<Step>,
    ) -> Result<(), String> {
        let (mut before, faults) = self.hooks.tool_before(call);
        if let Some((hook, fault)) = self.record_faults(faults, out) {
            return Err(format!(
                "The call was blocked: the hook `{hook}` {}.",
                fault.predicate()
            ));
        }
        if let Some(why) = before.take_block() {
            return Err(why);
        }
        let PendingCall { input, consult, .. } = before;
        let asks = consult.into_iter();
        wanted.extend(asks.map(|(by, consult)| Consultation::new(by, &call.call, consult)));
        if input == call.input {
            return Ok(());
        }
        call.input = input;
        let (whole, verdicts) =
            self.check_whole(Channel::ToolInput, Some(&call.tool), &call.input, out);
        call.input = whole.apply(&call.input);
        let injected = verdicts.injected.into_iter();
        injected.for_each(|guidance| self.queue(guidance, out));
        let retry = verdicts.retry.map(|(_, cause)| cause);
        match verdicts.abort.or(retry) {
            Some(cause) => Err(format!("The call was blocked: {}", cause.description())),
            None => Ok(()),
        }
    }

    fn block(&mut self, call: ToolCall, why: String, out: &mut Vec<Step>) -> Gate {
        let after = ToolOutput::error(why);
        out.push(result(&call, &after));
        Gate::Blocked(call, after)
    }

    /// Counts hook failures, and ends the reply with an error if one of them ends the stream.
    fn refuse_on_fault(&mut self, faults: Faults, out: &mut Vec<Step>) -> Result<(), ()> {
        match self.record_faults(faults, out) {
            None => Ok(()),
            Some((hook, fault)) => {
                self.refuse(AbortCause::fault(hook, fault, None), out);
                Err(())
            }
        }
    }

    /// Lets rules read the user's last message.
    fn check_prompt(
        &mut self,
        target: &RequestTarget,
        prepared: &mut PreparedRequest,
        out: &mut Vec<Step>,
    ) -> Result<(), ()> {
        if !self.pack().wants(Channel::UserInput, None) {
            return Ok(());
        }
        let messages = prepared.request.messages.iter_mut().rev();
        let is_prompt = |message: &&mut Message| {
            is_written(message) || is_initiated(message) || has_only_images(message)
        };
        let Some(message) = messages.into_iter().find(is_prompt) else {
            return Ok(());
        };
        // Rules read no images, and the message before was read when it was the last one.
        if has_only_images(message) {
            return Ok(());
        }
        let text = message.texts().join(TEXT_SEPARATOR);
        let mut hash = DefaultHasher::new();
        let turn = self.conversation.turns();
        (&text, turn, &target.agent, &target.provider, &target.model).hash(&mut hash);
        let key = hash.finish();
        let whole = match self.checked.get(key) {
            Some(whole) => whole.clone(),
            None => {
                let (whole, verdicts) = self.check_whole(Channel::UserInput, None, &text, out);
                if let Some(cause) = verdicts.abort {
                    self.refuse(cause, out);
                    return Err(());
                }
                for Guidance { decision, text } in verdicts.injected {
                    let message = Message::steering(text.clone());
                    prepared.added.push(message.clone());
                    self.progress.added.push(message.clone());
                    out.push(Step::Inject { decision, message });
                    self.conversation.add_to_request(&decision, text);
                }
                self.checked.insert(key, whole.clone());
                whole
            }
        };
        apply_to_message(&whole, message);
        for header in &whole.headers {
            if !sets_itself(target, &header.name) {
                set(&mut prepared.request.headers, header);
            }
        }
        let added = prepared.added.iter().cloned();
        prepared.request.messages.extend(added);
        Ok(())
    }

    /// Lets rules read a whole text. Returns their edits and their other decisions.
    fn check_whole(
        &mut self,
        channel: Channel,
        tool: Option<&str>,
        text: &str,
        out: &mut Vec<Step>,
    ) -> (TextEdits, OtherDecisions) {
        self.check_text((channel, None), tool, text, out)
    }

    /// Reads a whole text; a text on [`Channel::ToolOutput`] has an outcome.
    fn check_text(
        &mut self,
        (channel, outcome): (Channel, Option<ToolOutcome>),
        tool: Option<&str>,
        text: &str,
        out: &mut Vec<Step>,
    ) -> (TextEdits, OtherDecisions) {
        let (checked, whole) = self.conversation.read_whole(channel, outcome, tool, text);
        let mut verdicts = OtherDecisions::default();
        for decision in checked.decisions() {
            let record = DecisionEvent::new(decision, checked.stream(), String::new());
            out.push(Step::Observe(LoopEvent::Decision(Box::new(record))));
            if !decision.is_suppressed() {
                self.apply_decision(checked.stream(), *decision, &mut verdicts, out);
            }
        }
        (whole, verdicts)
    }

    /// Acts on a decision that does not edit the text.
    fn apply_decision(
        &mut self,
        stream: &Stream,
        decision: Decision,
        verdicts: &mut OtherDecisions,
        out: &mut Vec<Step>,
    ) {
        let text = stream.message(&decision);
        match decision.action {
            Action::Warn => out.push(Step::Notify { decision, text }),
            Action::Handoff => self.turn.handoffs.push(PendingHandoff {
                decision,
                text,
                is_of_attempt: false,
            }),
            Action::Inject => verdicts.injected.push(Guidance { decision, text }),
            Action::Fallback => {
                verdicts.fallback.get_or_insert(decision);
            }
            Action::Retry => {
                let cause = AbortCause::from_decision(stream, &decision, text.clone());
                verdicts.retry = Some((Guidance { decision, text }, cause.without_part()));
            }
            Action::Abort => {
                let cause = AbortCause::from_decision(stream, &decision, text);
                verdicts.abort = Some(cause.without_part());
            }
            // The first four are among the edits. On a consultation: a hook has changed the call, and rules have asked
            // their questions about its first input already.
            Action::Append
            | Action::Prepend
            | Action::SetHeader
            | Action::Redact
            | Action::Consult
            | Action::Observe => {}
        }
    }
}

/// Redacts the texts of a message that rules have read, prepends to the first one that a person wrote, and appends to
/// the last.
fn apply_to_message(edits: &TextEdits, message: &mut Message) {
    let texts = message.content.iter_mut();
    let texts = texts.filter_map(|content| match content {
        Content::Text { text, .. } => Some(text),
        _ => None,
    });
    edits.redact(texts, TEXT_SEPARATOR);
    let texts = message.content.iter_mut();
    let texts = texts.filter_map(|content| match content {
        Content::Text {
            text,
            synthetic: false,
        } => Some(text),
        _ => None,
    });
    edits.surround(&mut texts.collect::<Vec<_>>());
}

/// Returns true if a person wrote at least part of the message.
fn is_written(message: &Message) -> bool {
    let mut content = message.content.iter();
    let is_own = |content: &Content| {
        matches!(
            content,
            Content::Text {
                synthetic: false,
                ..
            }
        )
    };
    message.role == Role::User && content.any(is_own)
}

/// Returns true if the message is the user's and contains images and nothing else.
fn has_only_images(message: &Message) -> bool {
    let mut content = message.content.iter();
    let is_image = |content: &Content| matches!(content, Content::Image { .. });
    message.role == Role::User && !message.content.is_empty() && content.all(is_image)
}

/// Returns true if the agent itself wrote the message to start a request.
fn is_initiated(message: &Message) -> bool {
    message.role == Role::User && message.text().contains(INTERNAL_INITIATOR)
}

fn sets_itself(target: &RequestTarget, header: &str) -> bool {
    let package = target.package.as_deref();
    OWN_HEADERS
        .iter()
        .any(|(of, own)| package == Some(of) && header.eq_ignore_ascii_case(own))
}

fn set(headers: &mut Vec<(String, String)>, header: &Header) {
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case(&header.name));
    headers.push((header.name.clone(), header.value.clone()));
}

fn result(call: &ToolCall, after: &ToolOutput) -> Step {
    Step::ToolResult {
        call: call.call.clone(),
        tool: call.tool.clone(),
        output: after.output.clone(),
        is_error: after.is_error,
    }
}

impl HookFault {
    /// Returns the end of a sentence about the hook.
    pub(super) fn predicate(self) -> &'static str {
        match self {
            HookFault::Panicked => "panicked",
            HookFault::TimedOut => "did not return in time",
            HookFault::Cancelled => "was not waited for: the user cancelled",
        }
    }

    pub(super) fn reason(self) -> AbortReason {
        match self {
            HookFault::Panicked => AbortReason::Error,
            HookFault::TimedOut => AbortReason::Timeout,
            HookFault::Cancelled => AbortReason::User,
        }
    }
}
