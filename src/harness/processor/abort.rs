//! What ends an attempt before its end, and what follows: another attempt, or no answer.

use std::mem;

use super::{Processor, State, retract};
use crate::harness::consult::Consultation;
use crate::harness::fallback::error_text;
use crate::harness::hooks::{Answered, Fault};
use crate::harness::message::{Content, Message, Role};
use crate::harness::provider::Failure;
use crate::harness::reply::{PartState, Reply, ReplyPart};
use crate::harness::step::{
    AbortStage, Aborted, AbortedBlock, AbortedCall, End, Observation, Reason, Replay, Source, Step,
};
use crate::{Action, Channel, Decision, Hit, PartId, Partial, Rule, Severity, Stream};

/// Why an attempt ends.
#[derive(Debug)]
pub(super) struct Cause {
    reason: Reason,
    source: Source,
    detail: String,
    part: Option<PartId>,
    /// Whether the reply is taken again.
    again: Again,
    /// Whether the transport is still there.
    is_connected: bool,
    /// What of the reply stays in the context if it is taken again.
    stays: Stays,
    model: Option<String>,
    temperature: Option<u32>,
    /// What is said to the model where a rule retries.
    steering: Option<String>,
    /// The rule's decision to retry.
    decision: Option<Decision>,
    /// The failure of the provider, which rules have not read yet.
    is_failure: bool,
    stage: AbortStage,
}

/// What the next attempt begins with.
#[derive(Debug, Default)]
pub(super) struct Retake {
    /// The decision that brings it about, to be delivered once it is on its way.
    pub(super) decision: Option<Decision>,
    /// What stays of the one before.
    pub(super) kept: Option<Message>,
    pub(super) steering: Vec<Message>,
    pub(super) model: Option<String>,
    pub(super) temperature: Option<u32>,
    /// What `session.status` says of it; `None` for the first attempt of a reply.
    pub(super) status: Option<String>,
}

/// What of a reply that was cut stays in the context. Tool input never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stays {
    Nothing,
    /// All of it, up to the cut.
    All,
    /// What came before that part, and so many bytes of it.
    Before(PartId, usize),
}

impl Stays {
    /// What the rule that retries says. Where a match begins nobody knows, nothing of its part stays.
    fn of(rule: &Rule, stream: &Stream, hit: &Hit) -> Stays {
        match rule.partial {
            Partial::Keep => Stays::All,
            Partial::KeepBeforeMatch => {
                let start = stream.start(hit).unwrap_or(0);
                Stays::Before(hit.part, usize::try_from(start).unwrap_or(usize::MAX))
            }
            Partial::Discard => Stays::Nothing,
        }
    }

    /// How many bytes stay of each part of the reply, in order. Reasoning does not where it is signed: a
    /// piece of it has no signature.
    fn bytes(self, reply: &Reply, signs_reasoning: bool) -> Vec<usize> {
        let parts = reply.parts().iter();
        let cut = match self {
            Stays::Before(part, _) => parts.clone().position(|other| other.part == part),
            Stays::Nothing | Stays::All => None,
        };
        let of_part = |(place, part): (usize, &ReplyPart)| match self {
            _ if part.channel == Channel::ToolInput => 0,
            _ if part.channel == Channel::Reasoning && signs_reasoning => 0,
            Stays::Nothing => 0,
            Stays::All => part.characters(part.raw.len()),
            Stays::Before(_, bytes) if Some(place) == cut => part.characters(part.place(bytes)),
            Stays::Before(..) if Some(place) > cut => 0,
            Stays::Before(..) => part.characters(part.raw.len()),
        };
        parts.enumerate().map(of_part).collect()
    }
}

/// What stays of the reply, as the model's message.
fn kept(reply: &Reply, stays: &[usize]) -> Option<Message> {
    let parts = reply.parts().iter().zip(stays);
    let content = parts.filter(|(_, bytes)| **bytes > 0).map(|(part, bytes)| {
        let text = String::from_utf8_lossy(&part.raw[..*bytes]).into_owned();
        match part.channel {
            Channel::Reasoning => Content::Reasoning { text },
            _ => Content::Text {
                text,
                synthetic: false,
            },
        }
    });
    let content: Vec<Content> = content.collect();
    let role = Role::Assistant;
    (!content.is_empty()).then_some(Message { role, content })
}

#[derive(Debug, PartialEq, Eq)]
enum Again {
    /// A rule retries, and says this to the model; nothing to say if it is empty.
    Rule,
    /// If a hook asks for it.
    IfAsked,
    /// In no case.
    Never,
}

impl Cause {
    fn new(reason: Reason, source: Source, detail: String) -> Cause {
        Cause {
            reason,
            source,
            detail,
            part: None,
            again: Again::IfAsked,
            is_connected: true,
            stays: Stays::Nothing,
            model: None,
            temperature: None,
            steering: None,
            decision: None,
            is_failure: false,
            stage: AbortStage::Reply,
        }
    }

    /// The cause of the end of a turn; `None` for an end that is no abort.
    fn of_end(end: &End) -> Option<Cause> {
        let End::Aborted {
            reason,
            source,
            detail,
        } = end
        else {
            return None;
        };
        Some(Cause {
            again: Again::Never,
            is_connected: false,
            stage: AbortStage::Tools,
            ..Cause::new(*reason, source.clone(), detail.clone())
        })
    }

    /// The same, of a request that is not sent. Another attempt would have the same request.
    fn before_sending(self) -> Cause {
        Cause {
            again: Again::Never,
            is_connected: false,
            stage: AbortStage::Request,
            ..self
        }
    }

    /// As the end of a reply.
    pub(super) fn end(self) -> End {
        End::Aborted {
            reason: self.reason,
            source: self.source,
            detail: self.detail,
        }
    }

    /// What it says, or else who it is.
    pub(super) fn why(&self) -> String {
        match (&*self.detail, &self.source) {
            ("", Source::Rule { id, .. }) => id.clone(),
            (detail, _) => detail.to_owned(),
        }
    }

    /// The same, of no part of the reply.
    pub(super) fn without_part(self) -> Cause {
        Cause { part: None, ..self }
    }

    pub(super) fn cancelled() -> Cause {
        Cause {
            again: Again::Never,
            ..Cause::new(Reason::User, Source::User, String::new())
        }
    }

    /// The bound `reply` leaves no time for another attempt.
    pub(super) fn timeout(bound: &'static str) -> Cause {
        let again = match bound {
            "reply" => Again::Never,
            _ => Again::IfAsked,
        };
        Cause {
            again,
            ..Cause::new(Reason::Timeout, Source::Limit(bound), String::new())
        }
    }

    /// The transport is gone.
    pub(super) fn failed(failure: &Failure) -> Cause {
        Cause {
            is_connected: false,
            is_failure: true,
            ..Cause::new(
                Reason::Error,
                Source::Provider,
                error_text(&failure.to_string(), failure.status()),
            )
        }
    }

    /// The provider reported an error in the stream.
    pub(super) fn reported(kind: &str, message: &str) -> Cause {
        let failure = Failure::new(kind, message);
        Cause {
            is_failure: true,
            ..Cause::new(Reason::Error, Source::Provider, failure.to_string())
        }
    }

    /// The stream ended, the reply did not.
    pub(super) fn cut_off() -> Cause {
        let failure = Failure::new("cut-off", "the stream ended before the reply did");
        Cause::failed(&failure)
    }

    pub(super) fn hook(name: String, part: PartId) -> Cause {
        Cause {
            part: Some(part),
            ..Cause::new(Reason::Plugin, Source::Hook(name), String::new())
        }
    }

    pub(super) fn fault(name: String, fault: Fault, part: Option<PartId>) -> Cause {
        if fault == Fault::Cancelled {
            return Cause::cancelled();
        }
        let detail = format!("the hook {}", fault.what());
        Cause {
            part,
            // It is not called again in this reply: another attempt would go unguarded.
            again: Again::Never,
            ..Cause::new(fault.reason(), Source::Hook(name), detail)
        }
    }

    pub(super) fn limit(name: &'static str, part: PartId) -> Cause {
        Cause {
            part: Some(part),
            ..Cause::new(Reason::Error, Source::Limit(name), String::new())
        }
    }
}

impl Cause {
    /// The cause of a decision that cuts. Where a critical rule aborts, no hook brings the reply back.
    pub(super) fn of(stream: &Stream, decision: &Decision, message: String) -> Cause {
        let hit = match decision.source {
            crate::Source::Rule(hit) => hit,
            crate::Source::Limit { name, part, .. } => return Cause::limit(name, part),
        };
        let rule = stream.pack().rule(hit.rule);
        let again = match decision.action {
            Action::Retry => Again::Rule,
            _ if rule.severity == Severity::Critical => Again::Never,
            _ => Again::IfAsked,
        };
        let source = Source::Rule {
            rule: hit.rule,
            id: rule.id.clone(),
        };
        let cause = Cause {
            part: Some(hit.part),
            again,
            ..Cause::new(Reason::Plugin, source, message)
        };
        match decision.action {
            Action::Retry => Cause {
                stays: Stays::of(rule, stream, &hit),
                model: rule.retry.model.clone(),
                temperature: rule.retry.temperature,
                steering: Some(cause.detail.clone()).filter(|text| !text.is_empty()),
                decision: Some(*decision),
                ..cause
            },
            _ => cause,
        }
    }
}

impl Processor {
    /// Ends the attempt: the hooks hear of it, once, and then it is taken again or that was it.
    pub(super) fn cut(&mut self, cause: Cause, out: &mut Vec<Step>) {
        let mut cause = cause;
        if cause.is_connected {
            out.push(Step::CancelUpstream);
        }
        // From here on nothing belongs to this reply any more, whatever the hooks do.
        self.state = State::Asking;
        self.forget_attempt();
        self.calls = self.calls_before.clone();
        self.publish_aborted_calls(out);
        if cause.is_failure {
            self.read_failure(&mut cause, out);
        }
        let mut aborted = self.aborted(&cause);
        let mut steering: Vec<Message> = cause
            .steering
            .take()
            .map(Message::steering)
            .into_iter()
            .collect();
        let wants_retry = self.tell_hooks(&aborted, &cause.again, &mut steering, out);
        if wants_retry && cause.again == Again::IfAsked {
            self.hook_retries += 1;
        }
        if !wants_retry && cause.again != Again::Rule {
            out.push(Step::Aborted(Box::new(aborted)));
            return self.give_up(cause, out);
        }
        aborted.retry = true;
        let stays = cause
            .stays
            .bytes(&aborted.partial, self.settings.signs_reasoning);
        let has_failed = matches!(cause.reason, Reason::Error | Reason::Timeout);
        let status = match has_failed && !cause.detail.is_empty() {
            true => cause.detail,
            false => "retry".to_owned(),
        };
        let retake = Retake {
            status: Some(status),
            decision: cause.decision,
            kept: kept(&aborted.partial, &stays),
            steering,
            model: cause.model,
            temperature: cause.temperature,
        };
        let mut retracts = Vec::new();
        retract(&aborted.partial, &stays, &mut retracts);
        out.push(Step::Aborted(Box::new(aborted)));
        out.append(&mut retracts);
        self.ask(retake, out);
    }

    /// Ends a reply whose request must not be sent: the hooks hear of it, and there is no retry. Where it would
    /// have been a retry that the user or the clock calls off, they heard of the abort that it follows, and
    /// nothing was aborted since. Does nothing unless a request was asked for and is not on its way.
    pub(super) fn refuse(&mut self, cause: Cause, out: &mut Vec<Step>) {
        if self.state != State::Asking {
            return;
        }
        self.take_back();
        let is_retry = self.progress.attempts > 1;
        if is_retry && matches!(cause.source, Source::User | Source::Limit(_)) {
            self.give_up(cause, out);
        } else {
            self.cut(cause.before_sending(), out);
        }
    }

    /// Ends a turn between two replies: while its tools run, or because it had its last reply. Tells the hooks
    /// at `stream.aborted`, which cannot retry it, and forgets what waited for its calls.
    /// [`Turn`](crate::harness::Turn) says so by itself. Does nothing for an `end` that is no abort, and
    /// while a reply is under way.
    ///
    /// # Example: the user cancels a tool
    /// ```
    /// use std::sync::mpsc;
    /// use ttsr::Pack;
    /// use ttsr::harness::{AbortStage, End, Hooks, Processor, Reason, Settings, Source, Step};
    /// let (told, heard) = mpsc::channel();
    /// let mut hooks = Hooks::default();
    /// hooks.on_aborted("count", move |aborted, _| drop(told.send((aborted.reason, aborted.stage))));
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, hooks, Settings::default());
    /// let end = End::Aborted { reason: Reason::User, source: Source::User, detail: String::new() };
    /// let mut steps = Vec::new();
    /// processor.end_turn(&end, &mut steps);
    /// assert!(matches!(steps[..], [Step::Aborted(_)]));
    /// assert_eq!(heard.try_recv(), Ok((Reason::User, AbortStage::Tools)));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn end_turn(&mut self, end: &End, out: &mut Vec<Step>) {
        let cause = Cause::of_end(end).filter(|_| self.state == State::Idle);
        let Some(cause) = cause else {
            return;
        };
        self.forget_attempt();
        let aborted = self.aborted(&cause);
        self.tell_hooks(&aborted, &cause.again, &mut Vec::new(), out);
        out.push(Step::Aborted(Box::new(aborted)));
    }

    /// Tells the hooks of an abort. Returns whether one of them gets its retry.
    fn tell_hooks(
        &mut self,
        aborted: &Aborted,
        again: &Again,
        steering: &mut Vec<Message>,
        out: &mut Vec<Step>,
    ) -> bool {
        let may_retry = self.may_retry(again);
        let mut wants_retry = false;
        for answered in self.hooks.aborted(aborted) {
            wants_retry |= self.heed(answered, may_retry, steering, out);
        }
        wants_retry
    }

    /// Releases what the attempt wanted done once it is complete: it never will be.
    pub(super) fn forget_attempt(&mut self) {
        let consultations = mem::take(&mut self.consultations).into_iter();
        let consultations = consultations.filter_map(|consultation| consultation.decision);
        let handoffs = self
            .handoffs
            .extract_if(.., |handoff| handoff.is_of_attempt);
        let decisions = consultations.chain(handoffs.map(|handoff| handoff.decision));
        decisions.for_each(|decision| self.session.dropped(&decision));
    }

    /// Releases what was wanted of calls that will not run, for they were never completed.
    pub(super) fn forget_aborted_calls(&mut self) {
        let aborted = self.reply.tool_calls();
        let aborted = aborted.filter(|part| part.state == PartState::Aborted);
        let aborted: Vec<PartId> = aborted.map(|part| part.part).collect();
        let is_about_one = |wanted: &mut Consultation| {
            let part = wanted.decision.map(|decision| decision.part());
            part.is_some_and(|part| aborted.contains(&part))
        };
        let forgotten: Vec<Consultation> =
            self.consultations.extract_if(.., is_about_one).collect();
        self.forget_consultations(&forgotten);
    }

    /// Marks the calls that were published and will not run.
    fn publish_aborted_calls(&self, out: &mut Vec<Step>) {
        let calls = self.reply.tool_calls();
        let calls = calls.filter(|part| part.is_published && part.state != PartState::Aborted);
        out.extend(calls.map(|part| Step::ToolAborted {
            part: part.part,
            call: part.call.clone(),
        }));
    }

    /// Lets rules read how the provider failed: they may take another model, or ask it again.
    fn read_failure(&mut self, cause: &mut Cause, out: &mut Vec<Step>) {
        let (detail, verdicts) = self.check_error(&cause.detail, out);
        cause.detail = detail;
        let injected = verdicts.injected.into_iter();
        injected.for_each(|guidance| self.queue(guidance, out));
        if let Some(abort) = verdicts.abort {
            *cause = Cause {
                is_connected: cause.is_connected,
                ..abort
            };
            return;
        }
        if let Some(decision) = verdicts.fallback {
            if let Some(model) = self.next_model() {
                cause.again = Again::Rule;
                cause.model = Some(model);
                cause.decision = Some(decision);
                return;
            }
            self.session.dropped(&decision);
            out.push(Step::Observe(Observation::NoFallback));
        }
        if let Some(retry) = verdicts.retry {
            cause.again = Again::Rule;
            cause.steering = retry.steering;
            cause.model = retry.model;
            cause.temperature = retry.temperature;
            cause.decision = retry.decision;
        }
    }

    /// The next model of the chain that was not tried in this session.
    fn next_model(&mut self) -> Option<String> {
        let origin = self.session.origin();
        if let Some(model) = self.progress.model.take().or(origin.model.clone())
            && !self.tried.contains(&model)
        {
            self.tried.push(model);
        }
        let agent = self.session.origin().agent.as_deref();
        let next = self.settings.fallback.next(agent, &self.tried)?.to_owned();
        self.tried.push(next.clone());
        Some(next)
    }

    /// Ends the reply without an answer.
    pub(super) fn give_up(&mut self, cause: Cause, out: &mut Vec<Step>) {
        self.reply = Reply::default();
        self.finish_with(cause.end(), out);
    }

    fn may_retry(&self, again: &Again) -> bool {
        match again {
            Again::Rule => true,
            Again::IfAsked => self.hook_retries < self.settings.hook_retries,
            Again::Never => false,
        }
    }

    /// Takes the answer of one hook; whether it gets its retry.
    fn heed(
        &mut self,
        answered: Answered,
        may_retry: bool,
        steering: &mut Vec<Message>,
        out: &mut Vec<Step>,
    ) -> bool {
        let Answered { hook, answer } = answered;
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                self.note_fault(hook, fault, out);
                return false;
            }
        };
        if answer.retry && may_retry {
            steering.extend(answer.inject_message.map(Message::steering));
            return true;
        }
        if answer.retry {
            self.tally.refused_retries += 1;
            out.push(Step::Observe(Observation::RetryRefused { hook }));
        } else if answer.inject_message.is_some() {
            self.tally.ignored_messages += 1;
            out.push(Step::Observe(Observation::MessageIgnored { hook }));
        }
        false
    }

    /// Returns the model of the attempt, if the host named one.
    fn model(&self) -> Option<String> {
        let progress = self
            .progress
            .asked
            .as_ref()
            .or(self.progress.model.as_ref());
        let model = progress.or(self.session.origin().model.as_ref());
        model.cloned()
    }

    /// Says what was aborted. Takes the reply: no call of it runs.
    fn aborted(&mut self, cause: &Cause) -> Aborted {
        let mut partial = mem::take(&mut self.reply);
        let calls = partial.tool_calls().map(|part| AbortedCall {
            part: part.part,
            tool: part.tool.clone(),
            call: part.call.clone(),
            is_complete: part.state == PartState::Complete,
            is_blamed: cause.part == Some(part.part),
        });
        let calls = calls.collect();
        partial.abort_calls();
        let signs_reasoning = self.settings.signs_reasoning;
        let blocks = partial.parts().iter();
        let blocks = blocks.map(|part| block(part, signs_reasoning)).collect();
        Aborted {
            session: self.settings.session.clone(),
            parent: self.settings.parent.clone(),
            message: self.progress.message.clone(),
            model: self.model(),
            prompt: self.prompt,
            stage: cause.stage,
            attempt: self.stream.attempt(),
            reason: cause.reason,
            source: cause.source.clone(),
            detail: cause.detail.clone(),
            part: cause.part,
            calls,
            partial,
            blocks,
            retry: cause.again == Again::Rule,
            counters: self.stream.counters(),
        }
    }
}

/// What of a part that was aborted may be sent again.
fn block(part: &ReplyPart, signs_reasoning: bool) -> AbortedBlock {
    let whole = part.characters(part.raw.len()) as u64;
    let replay = match part.channel {
        Channel::ToolInput => Replay::Never,
        Channel::Reasoning if signs_reasoning => Replay::Never,
        Channel::Reasoning => Replay::Unsigned(whole),
        _ => Replay::UpTo(whole),
    };
    AbortedBlock {
        part: part.part,
        channel: part.channel,
        replay,
    }
}
