//! The early end of an attempt, and what follows: another attempt, or a reply without an answer.

use std::mem;

use super::{Processor, ReplyState, retract};
use crate::harness::aborted::{
    AbortReason, AbortSource, AbortStage, Aborted, AbortedBlock, AbortedCall, BlockReplay,
};
use crate::harness::consultation::Consultation;
use crate::harness::event::LoopEvent;
use crate::harness::fallback::error_text;
use crate::harness::hooks::{AbortAnswer, HookFault};
use crate::harness::message::{Content, Message, Role};
use crate::harness::provider::Failure;
use crate::harness::reply::{PartState, Reply, ReplyPart};
use crate::harness::step::{End, Step};
use crate::{Action, Channel, Conversation, Cut, Decision, PartId, Partial, Severity, Stream};

/// The cause of an abort, and the conditions of a retry.
#[derive(Debug)]
pub(super) struct AbortCause {
    reason: AbortReason,
    source: AbortSource,
    detail: String,
    part: Option<PartId>,
    /// The condition for a retry.
    retry_condition: RetryCondition,
    /// True if the transport is open and must be closed.
    is_connected: bool,
    /// The text that stays in the context if the reply is retried.
    kept_text: PartialText,
    model: Option<String>,
    temperature: Option<u32>,
    /// True if the provider failed and rules on `error` have not read the failure.
    is_failure: bool,
    stage: AbortStage,
}

/// The properties of the next attempt.
#[derive(Debug, Default)]
pub(super) struct NextAttempt {
    /// The text kept of the previous attempt.
    pub(super) kept: Option<Message>,
    pub(super) steering: Vec<Message>,
    pub(super) model: Option<String>,
    pub(super) temperature: Option<u32>,
    /// The text of `session.status` for the attempt; `None` for the first attempt of a reply.
    pub(super) status: Option<String>,
}

/// The text of a reply that stays in the context after a cut. Tool input never stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartialText {
    Nothing,
    /// All text up to the cut.
    All,
    /// The parts before this part, and this number of bytes of it, as they were released.
    UpTo(PartId, usize),
}

impl PartialText {
    /// Returns the number of bytes that stay of each part of the reply, in order. Signed reasoning never stays, because
    /// the signature covers the whole text.
    fn bytes(self, reply: &Reply, signs_reasoning: bool) -> Vec<usize> {
        let parts = reply.parts().iter();
        let cut = match self {
            PartialText::UpTo(part, _) => parts.clone().position(|other| other.part == part),
            PartialText::Nothing | PartialText::All => None,
        };
        let of_part = |(place, part): (usize, &ReplyPart)| {
            let is_signed = part.channel == Channel::Reasoning && signs_reasoning;
            if part.channel == Channel::ToolInput || is_signed {
                return 0;
            }
            match self {
                PartialText::Nothing => 0,
                PartialText::All => part.whole_characters(part.raw.len()),
                PartialText::UpTo(_, bytes) if Some(place) == cut => part.whole_characters(bytes),
                PartialText::UpTo(..) if Some(place) > cut => 0,
                PartialText::UpTo(..) => part.whole_characters(part.raw.len()),
            }
        };
        parts.enumerate().map(of_part).collect()
    }
}

/// Returns the text that stays, as a message of the model.
fn retained_message(reply: &Reply, stays: &[usize]) -> Option<Message> {
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
enum RetryCondition {
    /// A rule retries.
    Rule,
    /// The reply is retried if a hook asks for it.
    IfAsked,
    /// The reply is not retried.
    Never,
}

impl AbortCause {
    fn new(reason: AbortReason, source: AbortSource, detail: String) -> AbortCause {
        AbortCause {
            reason,
            source,
            detail,
            part: None,
            retry_condition: RetryCondition::IfAsked,
            is_connected: true,
            kept_text: PartialText::Nothing,
            model: None,
            temperature: None,
            is_failure: false,
            stage: AbortStage::Reply,
        }
    }

    /// Returns the cause of the end of a turn; `None` if the end is not an abort.
    fn from_end(end: &End) -> Option<AbortCause> {
        let End::Aborted {
            reason,
            source,
            detail,
        } = end
        else {
            return None;
        };
        Some(AbortCause {
            retry_condition: RetryCondition::Never,
            is_connected: false,
            stage: AbortStage::Tools,
            ..AbortCause::new(*reason, source.clone(), detail.clone())
        })
    }

    /// Marks the cause as a request that is not sent. There is no retry, which would send the same request.
    fn before_sending(self) -> AbortCause {
        AbortCause {
            retry_condition: RetryCondition::Never,
            is_connected: false,
            stage: AbortStage::Request,
            ..self
        }
    }

    /// Returns the end of the reply with this cause.
    pub(super) fn end(self) -> End {
        End::Aborted {
            reason: self.reason,
            source: self.source,
            detail: self.detail,
        }
    }

    /// Returns the detail or, if it is empty, the id of the rule.
    pub(super) fn description(&self) -> String {
        match (&*self.detail, &self.source) {
            ("", AbortSource::Rule { id, .. }) => id.clone(),
            (detail, _) => detail.to_owned(),
        }
    }

    /// Removes the part from the cause.
    pub(super) fn without_part(self) -> AbortCause {
        AbortCause { part: None, ..self }
    }

    pub(super) fn cancelled() -> AbortCause {
        AbortCause {
            retry_condition: RetryCondition::Never,
            ..AbortCause::new(AbortReason::User, AbortSource::User, String::new())
        }
    }

    /// Returns the cause of a bound of time. The bound `reply` leaves no time for a retry.
    pub(super) fn timeout(bound: &'static str) -> AbortCause {
        let retry_condition = match bound {
            "reply" => RetryCondition::Never,
            _ => RetryCondition::IfAsked,
        };
        AbortCause {
            retry_condition,
            ..AbortCause::new(
                AbortReason::Timeout,
                AbortSource::Limit(bound),
                String::new(),
            )
        }
    }

    /// Returns the cause of a request that was sent without its preparation. It allows no retry, because the host would
    /// send that request without preparation too.
    pub(super) fn not_prepared() -> AbortCause {
        let detail = "the request was sent without `Processor::prepare`, so rules on `user-input` and hooks have not seen it";
        AbortCause {
            retry_condition: RetryCondition::Never,
            ..AbortCause::new(
                AbortReason::Error,
                AbortSource::Limit("prepare"),
                detail.to_owned(),
            )
        }
    }

    /// Returns the cause of a failed request or stream, whose transport is closed.
    pub(super) fn failed(failure: &Failure) -> AbortCause {
        AbortCause {
            is_connected: false,
            is_failure: true,
            ..AbortCause::new(
                AbortReason::Error,
                AbortSource::Provider,
                error_text(&failure.to_string(), failure.status()),
            )
        }
    }

    /// Returns the cause of an error event in the stream.
    pub(super) fn reported(kind: &str, message: &str) -> AbortCause {
        let failure = Failure::new(kind, message);
        AbortCause {
            is_failure: true,
            ..AbortCause::new(
                AbortReason::Error,
                AbortSource::Provider,
                failure.to_string(),
            )
        }
    }

    /// Returns the cause of a stream that ended before the reply.
    pub(super) fn cut_off() -> AbortCause {
        let failure = Failure::new("cut-off", "the stream ended before the reply did");
        AbortCause::failed(&failure)
    }

    pub(super) fn hook(name: String, part: PartId) -> AbortCause {
        AbortCause {
            part: Some(part),
            ..AbortCause::new(AbortReason::Plugin, AbortSource::Hook(name), String::new())
        }
    }

    pub(super) fn fault(name: String, fault: HookFault, part: Option<PartId>) -> AbortCause {
        if fault == HookFault::Cancelled {
            return AbortCause::cancelled();
        }
        let detail = format!("the hook {}", fault.predicate());
        AbortCause {
            part,
            // The hook is not called again in this reply, so a retry would be unguarded.
            retry_condition: RetryCondition::Never,
            ..AbortCause::new(fault.reason(), AbortSource::Hook(name), detail)
        }
    }

    pub(super) fn limit(name: &'static str, part: PartId) -> AbortCause {
        AbortCause {
            part: Some(part),
            ..AbortCause::new(AbortReason::Error, AbortSource::Limit(name), String::new())
        }
    }
}

impl AbortCause {
    /// Returns the cause of a decision that cuts. If a critical rule aborts, no hook can retry the reply.
    pub(super) fn from_decision(
        stream: &Stream,
        decision: &Decision,
        message: String,
    ) -> AbortCause {
        let hit = match decision.source {
            crate::Source::Rule(hit) => hit,
            crate::Source::Limit { name, part, .. } => return AbortCause::limit(name, part),
        };
        let rule = stream.pack().rule(hit.rule);
        let retry_condition = match decision.action {
            Action::Retry => RetryCondition::Rule,
            _ if rule.severity == Severity::Critical => RetryCondition::Never,
            _ => RetryCondition::IfAsked,
        };
        let source = AbortSource::Rule {
            rule: hit.rule,
            id: rule.id.clone(),
        };
        let cause = AbortCause {
            part: Some(hit.part),
            retry_condition,
            ..AbortCause::new(AbortReason::Plugin, source, message)
        };
        match decision.action {
            Action::Retry => AbortCause {
                model: rule.retry.model.clone(),
                temperature: rule.retry.temperature,
                ..cause
            },
            _ => cause,
        }
    }
}

impl AbortCause {
    /// Sets the text that stays: what the rule that retries keeps of the text that was released. If the start of the
    /// match is unknown, nothing of its part stays.
    pub(super) fn keep_released(&mut self, conversation: &Conversation, decision: &Decision) {
        let rule = conversation
            .stream()
            .and_then(|stream| Some((stream, stream.rule(decision)?, decision.hit()?)));
        let Some((stream, rule, hit)) = rule.filter(|_| decision.action == Action::Retry) else {
            return;
        };
        self.kept_text = match rule.partial {
            Partial::Keep => PartialText::All,
            Partial::KeepBeforeMatch => {
                let start = stream.start(&hit).unwrap_or(0);
                PartialText::UpTo(hit.part, conversation.released_len(hit.part, start))
            }
            Partial::Discard => PartialText::Nothing,
        };
    }

    /// Returns the cause of a cut that no decision of this attempt explains.
    pub(super) fn refused(cut: &Cut) -> AbortCause {
        AbortCause {
            part: cut.part,
            retry_condition: RetryCondition::Never,
            ..AbortCause::new(
                AbortReason::Error,
                AbortSource::Limit("attempt"),
                cut.message.clone(),
            )
        }
    }
}

impl Processor {
    /// Ends the attempt: notifies the hooks once, then retries or finishes the reply.
    pub(super) fn cut(&mut self, cause: AbortCause, out: &mut Vec<Step>) {
        let mut cause = cause;
        if cause.is_connected {
            out.push(Step::CancelUpstream);
        }
        // From here on no input belongs to this attempt, whatever the hooks do.
        self.state = ReplyState::Asking;
        self.drop_attempt();
        self.turn.calls = self.attempt.calls_before.clone();
        self.publish_aborted_calls(out);
        if cause.is_failure {
            self.read_failure(&mut cause, out);
        }
        let mut aborted = self.aborted(&cause);
        let mut steering = Vec::new();
        let wants_retry = self.notify_hooks(&aborted, &cause.retry_condition, &mut steering, out);
        if wants_retry && cause.retry_condition == RetryCondition::IfAsked {
            self.turn.hook_retries += 1;
        }
        if !wants_retry && cause.retry_condition != RetryCondition::Rule {
            out.push(Step::Aborted(Box::new(aborted)));
            return self.give_up(cause, out);
        }
        aborted.retry = true;
        let stays = cause
            .kept_text
            .bytes(&aborted.partial, self.settings.signs_reasoning);
        let has_failed = matches!(cause.reason, AbortReason::Error | AbortReason::Timeout);
        let status = match has_failed && !cause.detail.is_empty() {
            true => cause.detail,
            false => "retry".to_owned(),
        };
        let next_attempt = NextAttempt {
            status: Some(status),
            kept: retained_message(&aborted.partial, &stays),
            steering,
            model: cause.model,
            temperature: cause.temperature,
        };
        let mut retracts = Vec::new();
        retract(&aborted.partial, &stays, &mut retracts);
        out.push(Step::Aborted(Box::new(aborted)));
        out.append(&mut retracts);
        self.request_attempt(next_attempt, out);
    }

    /// Ends a reply whose request must not be sent, without a retry. The hooks are notified, except if the request is a
    /// retry cancelled by the user or a time limit before it is sent: then the abort that led to the retry was the last
    /// one. Does nothing unless a request was asked for and is not sent yet.
    pub(super) fn refuse(&mut self, cause: AbortCause, out: &mut Vec<Step>) {
        if self.state != ReplyState::Asking {
            return;
        }
        self.unsend();
        let is_retry = self.progress.attempts > 1;
        if is_retry && matches!(cause.source, AbortSource::User | AbortSource::Limit(_)) {
            self.give_up(cause, out);
        } else {
            self.cut(cause.before_sending(), out);
        }
    }

    /// Ends a turn between two replies: while its tools run, or because it reached its last reply. Notifies the hooks
    /// at `stream.aborted`, which cannot retry it, and drops the questions and handoffs of the reply.
    /// [`AgentTurn`](crate::harness::AgentTurn) calls this itself. Does nothing if `end` is not an abort or a reply is in
    /// progress.
    ///
    /// # Example: the user cancels a tool
    /// ```
    /// use std::sync::mpsc;
    /// use ttsr::Pack;
    /// use ttsr::harness::{AbortReason, AbortSource, AbortStage, End, Hooks, Processor, Settings, Step};
    /// let (told, heard) = mpsc::channel();
    /// let mut hooks = Hooks::default();
    /// hooks.on_aborted("count", move |aborted, _| drop(told.send((aborted.reason, aborted.stage))));
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let end = End::Aborted { reason: AbortReason::User, source: AbortSource::User, detail: String::new() };
    /// let mut steps = Vec::new();
    /// processor.report_turn_abort(&end, &mut steps);
    /// assert!(matches!(steps[..], [Step::Aborted(_)]));
    /// assert_eq!(heard.try_recv(), Ok((AbortReason::User, AbortStage::Tools)));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn report_turn_abort(&mut self, end: &End, out: &mut Vec<Step>) {
        let cause = AbortCause::from_end(end).filter(|_| self.state == ReplyState::Idle);
        let Some(cause) = cause else {
            return;
        };
        self.drop_attempt();
        let aborted = self.aborted(&cause);
        self.notify_hooks(&aborted, &cause.retry_condition, &mut Vec::new(), out);
        out.push(Step::Aborted(Box::new(aborted)));
    }

    /// Notifies the hooks of an abort. Returns true if one of them is granted a retry.
    fn notify_hooks(
        &mut self,
        aborted: &Aborted,
        retry_condition: &RetryCondition,
        steering: &mut Vec<Message>,
        out: &mut Vec<Step>,
    ) -> bool {
        let may_retry = self.may_retry(retry_condition);
        // Every hook is notified, also after one that was granted a retry.
        let mut wants_retry = false;
        for answered in self.hooks.aborted(aborted) {
            wants_retry |= self.apply_answer(answered, may_retry, steering, out);
        }
        wants_retry
    }

    /// Drops the questions and handoffs of the attempt, which take effect only if the attempt completes.
    pub(super) fn drop_attempt(&mut self) {
        let consultations = mem::take(&mut self.attempt.consultations).into_iter();
        let consultations = consultations.filter_map(|consultation| consultation.decision);
        let handoffs = self
            .turn
            .handoffs
            .extract_if(.., |handoff| handoff.is_of_attempt);
        let decisions = consultations.chain(handoffs.map(|handoff| handoff.decision));
        decisions.for_each(|decision| self.conversation.dropped_decision(&decision));
    }

    /// Drops the questions about tool calls that do not run because they were not completed.
    pub(super) fn drop_aborted_calls(&mut self) {
        let aborted = self.attempt.reply.tool_calls();
        let aborted = aborted.filter(|part| part.state == PartState::Aborted);
        let aborted: Vec<PartId> = aborted.map(|part| part.part).collect();
        let is_about_one = |wanted: &mut Consultation| {
            let part = wanted.decision.map(|decision| decision.part());
            part.is_some_and(|part| aborted.contains(&part))
        };
        let forgotten: Vec<Consultation> = self
            .attempt
            .consultations
            .extract_if(.., is_about_one)
            .collect();
        self.drop_consultations(&forgotten);
    }

    /// Publishes the abort of the calls that were published.
    fn publish_aborted_calls(&self, out: &mut Vec<Step>) {
        let calls = self.attempt.reply.tool_calls();
        let calls = calls.filter(|part| part.is_published && part.state != PartState::Aborted);
        out.extend(calls.map(|part| Step::ToolAborted {
            part: part.part,
            call: part.call.clone(),
        }));
    }

    /// Lets rules on `error` read the provider's failure. They may choose another model, retry or abort.
    fn read_failure(&mut self, cause: &mut AbortCause, out: &mut Vec<Step>) {
        let (detail, verdicts) = self.check_error(&cause.detail, out);
        cause.detail = detail;
        let injected = verdicts.injected.into_iter();
        injected.for_each(|guidance| self.queue(guidance, out));
        if let Some(abort) = verdicts.abort {
            *cause = AbortCause {
                is_connected: cause.is_connected,
                ..abort
            };
            return;
        }
        if let Some(decision) = verdicts.fallback {
            if let Some(model) = self.next_model() {
                cause.retry_condition = RetryCondition::Rule;
                cause.model = Some(model);
                // The request for the other model tells the fate of the decision.
                self.conversation.queue_without_message(&decision);
                return;
            }
            self.conversation.dropped_decision(&decision);
            out.push(Step::Observe(LoopEvent::NoFallback));
        }
        if let Some((guidance, retry)) = verdicts.retry {
            cause.retry_condition = RetryCondition::Rule;
            cause.model = retry.model;
            cause.temperature = retry.temperature;
            self.conversation.queue(&guidance.decision, guidance.text);
        }
    }

    /// Returns the next model of the chain that was not tried in this session, and records it as tried.
    fn next_model(&mut self) -> Option<String> {
        let model = self.conversation.origin().model.clone();
        if let Some(model) = self.progress.model.take().or(model)
            && !self.tried.contains(&model)
        {
            self.tried.push(model);
        }
        let agent = self.conversation.origin().agent.as_deref();
        let next = self.settings.fallback.next(agent, &self.tried)?.to_owned();
        self.tried.push(next.clone());
        Some(next)
    }

    /// Ends the reply without an answer.
    pub(super) fn give_up(&mut self, cause: AbortCause, out: &mut Vec<Step>) {
        self.attempt.reply = Reply::default();
        self.finish_with(cause.end(), out);
    }

    fn may_retry(&self, retry_condition: &RetryCondition) -> bool {
        match retry_condition {
            RetryCondition::Rule => true,
            RetryCondition::IfAsked => self.turn.hook_retries < self.settings.hook_retries,
            RetryCondition::Never => false,
        }
    }

    /// Applies the answer of one hook. Returns true if the hook is granted a retry.
    fn apply_answer(
        &mut self,
        answered: AbortAnswer,
        may_retry: bool,
        steering: &mut Vec<Message>,
        out: &mut Vec<Step>,
    ) -> bool {
        let AbortAnswer { hook, answer } = answered;
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                self.record_fault(hook, fault, out);
                return false;
            }
        };
        if answer.retry && may_retry {
            steering.extend(answer.inject_message.map(Message::steering));
            return true;
        }
        if answer.retry {
            self.counters.refused_retries += 1;
            out.push(Step::Observe(LoopEvent::RetryRefused { hook }));
        } else if answer.inject_message.is_some() {
            self.counters.ignored_messages += 1;
            out.push(Step::Observe(LoopEvent::MessageIgnored { hook }));
        }
        false
    }

    /// Returns the model of the attempt, if the host named one.
    fn model(&self) -> Option<String> {
        let progress = self
            .progress
            .request_model
            .as_ref()
            .or(self.progress.model.as_ref());
        let model = progress.or(self.conversation.origin().model.as_ref());
        model.cloned()
    }

    /// Returns the record of the abort. Moves the reply out, so that no call of it runs.
    fn aborted(&mut self, cause: &AbortCause) -> Aborted {
        let mut partial = mem::take(&mut self.attempt.reply);
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
            prompt: self.turn.prompt,
            stage: cause.stage,
            attempt: self.attempt_number(),
            reason: cause.reason,
            source: cause.source.clone(),
            detail: cause.detail.clone(),
            part: cause.part,
            calls,
            partial,
            blocks,
            retry: cause.retry_condition == RetryCondition::Rule,
            counters: self.conversation.counters(),
        }
    }
}

/// Returns the bytes of an aborted part that may be sent again.
fn block(part: &ReplyPart, signs_reasoning: bool) -> AbortedBlock {
    let whole = part.whole_characters(part.raw.len()) as u64;
    let replay = match part.channel {
        Channel::ToolInput => BlockReplay::Never,
        Channel::Reasoning if signs_reasoning => BlockReplay::Never,
        Channel::Reasoning => BlockReplay::Unsigned(whole),
        _ => BlockReplay::UpTo(whole),
    };
    AbortedBlock {
        part: part.part,
        channel: part.channel,
        replay,
    }
}
