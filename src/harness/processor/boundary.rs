//! Whole texts at the boundary: requests before they are sent, tool calls before they run, and what
//! tools and providers give back. Hooks first, then rules, then whoever is meant to have them.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::abort::Cause;
use super::part::{Stretch, canonical};
use super::redact::{Replacing, Scalars};
use super::{Advice, Advised, Guidance, Processor, WantedHandoff};
use crate::harness::call::{After, Before, Gate, Target, ToolCall};
use crate::harness::consult::{Consultation, Consulted, PAUSED, advice, blocked};
use crate::harness::fallback::SessionEvent;
use crate::harness::hooks::{Fault, Faults, OnHookFault, Point};
use crate::harness::message::{Content, Message, Request, Role};
use crate::harness::step::{End, Observation, PromptRef, Reason, Step};
use crate::rule::Header;
use crate::session::Checked;
use crate::{Action, Channel, Decision};

/// Most messages of the user of which the processor remembers what rules said.
pub(super) const CHECKED_MESSAGES: usize = 1000;

/// What stands in a message with which the system itself starts a request. Rules read such a message in place of the
/// user's last words, also where all of it is synthetic; what steers the model stays unread.
pub(super) const INTERNAL_INITIATOR: &str = "<!-- SLIM_INTERNAL_INITIATOR -->";

/// Headers that packages set themselves, by the package's name: no rule sets them there.
const OWN_HEADERS: [(&str, &str); 1] = [("@ai-sdk/github-copilot", "x-initiator")];

/// A request as it is to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// What is sent.
    pub request: Request,
    /// Messages that it has and that belong to the conversation from now on.
    pub added: Vec<Message>,
}

/// What the rules said of messages of the user, so that one that is sent with every request is judged
/// once a turn.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckedMessages {
    known: VecDeque<(u64, Whole)>,
}

/// What is to be done to a whole text.
#[derive(Clone, Debug, Default)]
struct Whole {
    before: Vec<String>,
    after: Vec<String>,
    stretches: Vec<Stretch>,
    headers: Vec<Header>,
}

/// What else rules decided about it.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    pub(super) injected: Vec<Guidance>,
    pub(super) fallback: Option<Decision>,
    pub(super) retry: Option<Cause>,
    pub(super) abort: Option<Cause>,
}

impl Whole {
    fn apply(&self, text: &str) -> String {
        self.apply_with(text, None)
    }

    /// The same for the input of a tool, which stays JSON.
    fn apply_to_call(&self, input: &str) -> String {
        self.apply_with(input, Some(&Scalars::of(input.as_bytes())))
    }

    fn apply_with(&self, text: &str, scalars: Option<&Scalars>) -> String {
        let stretches = self.stretches.iter().cloned();
        let replacing = Replacing {
            from: 0,
            scalars,
            skip: &mut 0,
            replaced: &mut Vec::new(),
            at: 0,
        };
        let replaced = replacing.apply(text.as_bytes(), stretches);
        let text = String::from_utf8_lossy(&replaced).into_owned();
        let before = self.before.iter().map(String::as_str);
        let after = self.after.iter().map(String::as_str);
        let pieces = before.chain([text.as_str()]).chain(after);
        pieces.collect::<Vec<_>>().join("\n\n")
    }
}

impl CheckedMessages {
    fn get(&self, key: u64) -> Option<&Whole> {
        let known = self.known.iter().find(|(other, _)| *other == key);
        known.map(|(_, whole)| whole)
    }

    fn keep(&mut self, key: u64, whole: Whole) {
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
    /// Makes the request of the last [`Step::Send`] ready to be sent: hooks see its messages, rules read
    /// what the user wrote last, and headers are set. What changes in its messages changes for this
    /// request only, but for what is [`added`](Prepared::added).
    ///
    /// None if it must not be sent: then the reply is over, and `out` says why.
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
    /// let session = Pack::builder().rule(rule).build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// let request = Request::new("a-model", vec![Message::user("ultrathink: why?")]);
    /// let prepared = processor.prepare(&request, &mut steps).expect("it may be sent");
    /// assert_eq!(prepared.request.headers, [("x-effort".into(), "high".into())]);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn prepare(&mut self, request: &Request, out: &mut Vec<Step>) -> Option<Prepared> {
        let mut prepared = Prepared {
            request: request.clone(),
            added: Vec::new(),
        };
        self.prompt = PromptRef::new(self.session.turn(), &request.messages);
        self.progress.asked = Some(request.model.clone()).filter(|model| !model.is_empty());
        let target = self.target(&request.model);
        if !self.hooks.is_empty(Point::Messages) {
            let faults = self.hooks.messages(&target, &mut prepared.request.messages);
            self.faults_or_refuse(faults, out).ok()?;
        }
        self.check_prompt(&target, &mut prepared, out).ok()?;
        if !self.hooks.is_empty(Point::Headers) {
            let faults = self.hooks.headers(&target, &mut prepared.request.headers);
            self.faults_or_refuse(faults, out).ok()?;
        }
        Some(prepared)
    }

    /// A tool call of the last reply is about to run: hooks, then rules where a hook changed its input,
    /// then whoever wants it asked about.
    ///
    /// # Example: a call that nobody minds
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Gate, Hooks, Processor, Settings, ToolCall};
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// let call = ToolCall { tool: "read".into(), input: "{}".into(), ..ToolCall::default() };
    /// assert_eq!(processor.before_tool(call.clone(), &mut Vec::new()), Gate::Run(call));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn before_tool(&mut self, call: ToolCall, out: &mut Vec<Step>) -> Gate {
        let mut call = call;
        let of_call = |wanted: &Consultation| wanted.call == call.call;
        let came = self.at_gate.iter().filter(|wanted| of_call(wanted));
        let mut wanted: Vec<Consultation> = came.cloned().collect();
        let new = self.consultations.extract_if(.., |wanted| of_call(wanted));
        let new: Vec<Consultation> = new.collect();
        self.at_gate.extend_from_slice(&new);
        wanted.extend(new);
        if !self.hooks.is_empty(Point::ToolBefore)
            && let Err(why) = self.ask_before(&mut call, &mut wanted, out)
        {
            return self.block(call, why, out);
        }
        match self.advice(&call) {
            None if wanted.is_empty() => return Gate::Run(call),
            None => {}
            Some(advice) => {
                let advice = advice.clone();
                self.forget_consultations(&wanted);
                return match advice {
                    Advice::Asked | Advice::Waits => self.block(call, PAUSED.to_owned(), out),
                    Advice::Blocked(why) => self.block(call, why, out),
                    Advice::Unanswered | Advice::Heard | Advice::Taken => Gate::Run(call),
                };
            }
        }
        if self.settings.depth == 0 {
            self.advise(&call, Advice::Asked);
            for wanted in &mut wanted {
                let session = wanted.open_below(&self.settings.session, &self.children);
                self.children.push(session.clone());
                out.push(Step::Observe(Observation::Consulting {
                    call: call.call.clone(),
                    by: wanted.by.clone(),
                    session,
                    parent: self.settings.session.clone(),
                }));
            }
            return Gate::Ask(call, wanted);
        }
        let refused = Observation::ConsultRefused {
            call: call.call.clone(),
        };
        out.push(Step::Observe(refused));
        let nobody = wanted.into_iter().map(|it| (it, Consulted::Nested));
        let (gate, _) = self.consulted(call, nobody.collect(), out);
        gate
    }

    /// What came of asking about a call. Where somebody answered, the call does not run now: the model
    /// has the answers, as messages for after the results of its calls, and decides; the same call in a later
    /// reply runs. Where nobody did, it runs or is blocked as the one who wanted to know says. Equal calls of
    /// the same reply go the way of this one, and nobody is asked about them.
    ///
    /// # Example: the answer goes to the model
    /// ```
    /// use ttsr::harness::consult::Consulted;
    /// use ttsr::harness::{Gate, Hooks, Processor, Settings, ToolCall};
    /// use ttsr::rule::Consult;
    /// use ttsr::Pack;
    /// let mut hooks = Hooks::default();
    /// hooks.on_tool_before("review", |_, before| before.consult(Consult::new("May it?")));
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, hooks, Settings::default());
    /// let mut steps = Vec::new();
    /// let call = ToolCall { call: "call_1".into(), tool: "bash".into(), ..ToolCall::default() };
    /// let Gate::Ask(call, asked) = processor.before_tool(call, &mut steps) else { panic!("it asks") };
    /// let answer = Consulted::Answered("Better not.".into());
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
        said: Vec<(Consultation, Consulted)>,
        out: &mut Vec<Step>,
    ) -> (Gate, Vec<Message>) {
        let mut answers = Vec::new();
        let mut why = None;
        for (consultation, consulted) in said {
            if let Some(decision) = &consultation.decision {
                self.session.delivered(decision);
            }
            match &consulted {
                Consulted::Answered(text) => answers.push(advice(&consultation, text)),
                _ if consultation.consult.blocks_on_failure => {
                    why.get_or_insert_with(|| blocked(&consultation, &consulted));
                }
                _ => {}
            }
            out.push(Step::Observe(Observation::Consulted {
                call: call.call.clone(),
                by: consultation.by,
                consulted,
            }));
        }
        if let Some(why) = why {
            self.advise(&call, Advice::Blocked(why.clone()));
            return (self.block(call, why, out), answers);
        }
        if answers.is_empty() {
            self.advise(&call, Advice::Unanswered);
            return (Gate::Run(call), answers);
        }
        self.advise(&call, Advice::Waits);
        (self.block(call, PAUSED.to_owned(), out), answers)
    }

    /// Releases the decisions behind questions that are not asked.
    pub(in crate::harness) fn forget_consultations(&mut self, wanted: &[Consultation]) {
        let unused = wanted.iter().filter_map(|wanted| wanted.decision);
        unused.for_each(|decision| self.session.dropped(&decision));
    }

    /// Returns what becomes of a call, if somebody was asked about an equal one. An answer that the model has
    /// heard counts as taken from then on.
    fn advice(&mut self, call: &ToolCall) -> Option<&Advice> {
        let input = canonical(call.input.as_bytes());
        let equal = |known: &&mut Advised| known.tool == call.tool && known.input == input;
        let known = self.advised.iter_mut().find(equal)?;
        if known.state == Advice::Heard {
            known.state = Advice::Taken;
        }
        Some(&known.state)
    }

    /// Sets what becomes of calls that equal this one.
    fn advise(&mut self, call: &ToolCall, state: Advice) {
        let input = canonical(call.input.as_bytes());
        self.advised
            .retain(|known| known.tool != call.tool || known.input != input);
        self.advised.push(Advised {
            tool: call.tool.clone(),
            input,
            state,
        });
    }

    /// A tool has given something back: hooks, then rules. Gives what the model is told.
    ///
    /// # Errors
    /// If a rule ends the turn here. The tool has run; what it gave back is for nobody: then
    /// [`tool_cancelled`](Self::tool_cancelled). The hooks have heard of it, as at
    /// [`end_turn`](Self::end_turn).
    ///
    /// # Example: a word behind an output
    /// ```
    /// use ttsr::harness::{After, Hooks, Processor, Settings, ToolCall};
    /// use ttsr::{Action, Channel, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/full", vec![Pattern::literal("No space left")]);
    /// rule.on = vec![Channel::ToolOutput];
    /// rule.action = Action::Append;
    /// rule.message = Some("Delete build outputs first.".into());
    /// let session = Pack::builder().rule(rule).build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// let call = ToolCall { tool: "bash".into(), ..ToolCall::default() };
    /// let after = After::error("No space left on device");
    /// let after = processor.after_tool(&call, after, &mut steps).unwrap();
    /// assert_eq!(after.output, "No space left on device\n\nDelete build outputs first.");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn after_tool(
        &mut self,
        call: &ToolCall,
        after: After,
        out: &mut Vec<Step>,
    ) -> Result<After, End> {
        let mut after = after;
        if !self.hooks.is_empty(Point::ToolAfter) {
            let (changed, faults) = self.hooks.tool_after(call, after);
            after = changed;
            if let Some((hook, fault)) = self.note_faults(faults, out) {
                after = After::error(format!(
                    "What the tool gave back is withheld: the hook `{hook}` {}.",
                    fault.what()
                ));
            }
        }
        let channels: &[Channel] = match after.is_error {
            true => &[Channel::ToolOutput, Channel::Error],
            false => &[Channel::ToolOutput],
        };
        for channel in channels {
            let (whole, verdicts) =
                self.check_whole(*channel, Some(&call.tool), &after.output, out);
            if let Some(cause) = verdicts.abort {
                let end = cause.end();
                self.end_turn(&end, out);
                return Err(end);
            }
            verdicts
                .injected
                .into_iter()
                .for_each(|guidance| self.queue(guidance, out));
            verdicts
                .fallback
                .iter()
                .for_each(|decision| self.session.dropped(decision));
            after.output = whole.apply(&after.output);
        }
        out.push(result(call, &after));
        Ok(after)
    }

    /// The call was given up, or its turn ended with it. Gives what the model would be told.
    ///
    /// # Example: what the model is told
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Hooks, Processor, Settings, Step, TOOL_ABORTED, ToolCall};
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// let mut steps = Vec::new();
    /// let after = processor.tool_cancelled(&ToolCall::default(), &mut steps);
    /// assert_eq!((after.is_error, &*after.output), (true, TOOL_ABORTED));
    /// assert!(matches!(steps[0], Step::ToolResult { is_error: true, .. }));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn tool_cancelled(&mut self, call: &ToolCall, out: &mut Vec<Step>) -> After {
        let after = After::error(crate::harness::TOOL_ABORTED);
        out.push(result(call, &after));
        after
    }

    /// Something happened to a session: tells the hooks.
    ///
    /// The loop calls it itself for its own session: when a reply is over (`message.updated`), when it was aborted by an
    /// error or a timeout (`session.error`), and when nothing is left to do (`session.idle`): after an abort, and after
    /// an answer that calls no tool. What happens elsewhere, on a server or to other sessions, is the host's to tell.
    ///
    /// # Example: a hook that hears of it
    /// ```
    /// use std::sync::mpsc;
    /// use ttsr::Pack;
    /// use ttsr::harness::fallback::SessionEvent;
    /// use ttsr::harness::{Hook, Hooks, Point, Processor, Settings};
    /// struct Hears(mpsc::Sender<String>);
    /// impl Hook for Hears {
    ///     fn points(&self) -> &[Point] {
    ///         &[Point::Event]
    ///     }
    ///     fn event(&mut self, event: &SessionEvent) {
    ///         self.0.send(event.session().to_owned()).ok();
    ///     }
    /// }
    /// let (sender, heard) = mpsc::channel();
    /// let mut hooks = Hooks::default();
    /// hooks.register("hears", Hears(sender));
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, hooks, Settings::default());
    /// let event = SessionEvent::Idle { session: "ses_1".into() };
    /// processor.session_event(&event, &mut Vec::new());
    /// assert_eq!(heard.recv().as_deref(), Ok("ses_1"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn session_event(&mut self, event: &SessionEvent, out: &mut Vec<Step>) {
        if !self.hooks.is_empty(Point::Event) {
            let faults = self.hooks.event(event);
            self.note_faults(faults, out);
        }
    }

    /// Tells the hooks how a reply of this session ended.
    pub(super) fn tell_end(&mut self, end: &End, out: &mut Vec<Step>) {
        if self.hooks.is_empty(Point::Event) {
            return;
        }
        let session = self.settings.session.clone();
        let origin = self.session.origin();
        let error = match end {
            End::Complete { .. } | End::Truncated { .. } => None,
            End::Aborted { reason, detail, .. } => match reason {
                Reason::Error | Reason::Timeout => Some(detail.clone()),
                _ => None,
            },
        };
        let is_idle = match end {
            End::Complete { .. } | End::Truncated { .. } => {
                self.reply.tool_calls().next().is_none()
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

    /// Reads an error; says what rules decided. What they put before or behind it is in the text.
    pub(super) fn check_error(&mut self, text: &str, out: &mut Vec<Step>) -> (String, Verdicts) {
        let (whole, verdicts) = self.check_whole(Channel::Error, None, text, out);
        (whole.apply(text), verdicts)
    }

    /// Counts what failed; the first of it, if the host wants the stream to end with it. Where the user has
    /// cancelled, that ends it whatever the host wants.
    pub(super) fn note_faults(
        &mut self,
        faults: Faults,
        out: &mut Vec<Step>,
    ) -> Option<(String, Fault)> {
        let is_cancel = |(_, fault): &&(String, Fault)| *fault == Fault::Cancelled;
        let first = faults.first();
        let first = first.filter(|_| self.settings.on_hook_fault == OnHookFault::Abort);
        let ends = faults.iter().find(is_cancel).or(first).cloned();
        faults
            .into_iter()
            .for_each(|(hook, fault)| self.note_fault(hook, fault, out));
        ends
    }

    fn target(&self, model: &str) -> Target {
        let origin = self.session.origin();
        Target {
            session: self.settings.session.clone(),
            parent: self.settings.parent.clone(),
            agent: origin.agent.clone(),
            provider: origin.provider.clone(),
            model: model.to_owned(),
            package: self.settings.package.clone(),
        }
    }

    /// Asks the hooks about a call; why it is blocked, if it is.
    fn ask_before(
        &mut self,
        call: &mut ToolCall,
        wanted: &mut Vec<Consultation>,
        out: &mut Vec<Step>,
    ) -> Result<(), String> {
        let (mut before, faults) = self.hooks.tool_before(call);
        if let Some((hook, fault)) = self.note_faults(faults, out) {
            return Err(format!(
                "The call was blocked: the hook `{hook}` {}.",
                fault.what()
            ));
        }
        if let Some(why) = before.take_block() {
            return Err(why);
        }
        let Before { input, consult, .. } = before;
        let asks = consult.into_iter();
        wanted.extend(asks.map(|(by, consult)| Consultation::new(by, &call.call, consult)));
        if input == call.input {
            return Ok(());
        }
        call.input = input;
        let (whole, verdicts) =
            self.check_whole(Channel::ToolInput, Some(&call.tool), &call.input, out);
        call.input = whole.apply_to_call(&call.input);
        let injected = verdicts.injected.into_iter();
        injected.for_each(|guidance| self.queue(guidance, out));
        match verdicts.abort.or(verdicts.retry) {
            Some(cause) => Err(format!("The call was blocked: {}", cause.why())),
            None => Ok(()),
        }
    }

    fn block(&mut self, call: ToolCall, why: String, out: &mut Vec<Step>) -> Gate {
        let after = After::error(why);
        out.push(result(&call, &after));
        Gate::Blocked(call, after)
    }

    /// Notes what failed; ends the reply if the host wants that.
    fn faults_or_refuse(&mut self, faults: Faults, out: &mut Vec<Step>) -> Result<(), ()> {
        match self.note_faults(faults, out) {
            None => Ok(()),
            Some((hook, fault)) => {
                self.refuse(Cause::fault(hook, fault, None), out);
                Err(())
            }
        }
    }

    /// Lets rules read what the user wrote last.
    fn check_prompt(
        &mut self,
        target: &Target,
        prepared: &mut Prepared,
        out: &mut Vec<Step>,
    ) -> Result<(), ()> {
        let pack = self.session.pack();
        if !pack.wants(Channel::UserInput, None) {
            return Ok(());
        }
        let messages = prepared.request.messages.iter_mut().rev();
        let is_prompt = |message: &&mut Message| is_written(message) || is_initiated(message);
        let Some(message) = messages.into_iter().find(is_prompt) else {
            return Ok(());
        };
        let text = message.text();
        let mut hash = DefaultHasher::new();
        let turn = self.session.turn();
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
                for guidance in verdicts.injected {
                    prepared.added.push(guidance.message.clone());
                    self.progress.added.push(guidance.message.clone());
                    out.push(Step::Inject {
                        decision: guidance.decision,
                        message: guidance.message.clone(),
                    });
                    self.sending.push_back(guidance);
                }
                self.checked.keep(key, whole.clone());
                whole
            }
        };
        whole.apply_to(message);
        for header in &whole.headers {
            if !sets_itself(target, &header.name) {
                set(&mut prepared.request.headers, header);
            }
        }
        let added = prepared.added.iter().cloned();
        prepared.request.messages.extend(added);
        Ok(())
    }

    /// Lets rules read a whole text: what is to be done to it, and what else they decided.
    fn check_whole(
        &mut self,
        channel: Channel,
        tool: Option<&str>,
        text: &str,
        out: &mut Vec<Step>,
    ) -> (Whole, Verdicts) {
        let checked = self.session.check(channel, tool, text.as_bytes());
        let mut whole = Whole::default();
        let mut verdicts = Verdicts::default();
        for decision in checked.decisions() {
            out.push(Step::Observe(Observation::Decision(*decision)));
            if !decision.is_suppressed() {
                self.take(&checked, *decision, &mut whole, &mut verdicts, out);
            }
        }
        whole.stretches.sort_by_key(|stretch| stretch.from);
        (whole, verdicts)
    }

    fn take(
        &mut self,
        checked: &Checked,
        decision: Decision,
        whole: &mut Whole,
        verdicts: &mut Verdicts,
        out: &mut Vec<Step>,
    ) {
        let stream = checked.stream();
        let text = stream.message(&decision);
        match decision.action {
            Action::Append => whole.after.push(text),
            Action::Prepend => whole.before.push(text),
            Action::SetHeader => {
                let header = stream.rule(&decision).and_then(|rule| rule.header.clone());
                whole.headers.extend(header);
            }
            Action::Redact => whole.stretches.extend(Stretch::of(stream, &decision)),
            Action::Warn => out.push(Step::Notify { decision, text }),
            Action::Handoff => {
                self.handoffs.push(WantedHandoff {
                    decision,
                    text,
                    is_of_attempt: false,
                });
                return;
            }
            Action::Inject => {
                let message = Message::steering(text);
                verdicts.injected.push(Guidance { decision, message });
                return;
            }
            Action::Fallback => {
                verdicts.fallback.get_or_insert(decision);
                return;
            }
            Action::Retry => {
                let cause = Cause::of(stream, &decision, text);
                verdicts.retry = Some(cause.without_part());
                return;
            }
            Action::Abort => {
                let cause = Cause::of(stream, &decision, text);
                verdicts.abort = Some(cause.without_part());
            }
            // The call is being changed by a hook: who wants it asked about has said so by now.
            Action::Consult | Action::Observe => {}
        }
        self.session.delivered(&decision);
    }
}

impl Whole {
    /// Puts words before the first and behind the last text that a person wrote.
    fn apply_to(&self, message: &mut Message) {
        let texts = message
            .content
            .iter_mut()
            .filter_map(|content| match content {
                Content::Text {
                    text,
                    synthetic: false,
                } => Some(text),
                _ => None,
            });
        let mut written: Vec<&mut String> = texts.collect();
        if let Some(last) = written.last_mut() {
            let after = self.after.iter().map(|more| format!("\n\n{more}"));
            last.extend(after);
        }
        if let Some(first) = written.first_mut() {
            let before = self.before.iter().map(|more| format!("{more}\n\n"));
            let before: String = before.collect();
            first.insert_str(0, &before);
        }
    }
}

/// Whether a person wrote it, or some of it.
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

/// Whether the system itself has written it to start a request, and says so.
fn is_initiated(message: &Message) -> bool {
    message.role == Role::User && message.text().contains(INTERNAL_INITIATOR)
}

fn sets_itself(target: &Target, header: &str) -> bool {
    let package = target.package.as_deref();
    OWN_HEADERS
        .iter()
        .any(|(of, own)| package == Some(of) && header.eq_ignore_ascii_case(own))
}

fn set(headers: &mut Vec<(String, String)>, header: &Header) {
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case(&header.name));
    headers.push((header.name.clone(), header.value.clone()));
}

fn result(call: &ToolCall, after: &After) -> Step {
    Step::ToolResult {
        call: call.call.clone(),
        tool: call.tool.clone(),
        output: after.output.clone(),
        is_error: after.is_error,
    }
}

impl Fault {
    /// What is said of the hook.
    pub(super) fn what(self) -> &'static str {
        match self {
            Fault::Panicked => "panicked",
            Fault::TimedOut => "did not return in time",
            Fault::Cancelled => "was not waited for: the user cancelled",
        }
    }

    pub(super) fn reason(self) -> Reason {
        match self {
            Fault::Panicked => Reason::Error,
            Fault::TimedOut => Reason::Timeout,
            Fault::Cancelled => Reason::User,
        }
    }
}
