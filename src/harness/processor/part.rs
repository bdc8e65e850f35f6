//! The parts of a reply: each delta passes hooks, then rules, and is then accumulated and published.

use serde::de::IgnoredAny;

use super::abort::AbortCause;
use super::whole_text::Guidance;
use super::{PendingHandoff, Processor, ReplyProgress, ReplyState, Settings};
use crate::conversation::LoopDecision;
use crate::harness::consultation::Consultation;
use crate::harness::event::{DecisionEvent, EventPart, LoopEvent};
use crate::harness::hooks::{Faults, HookContext, HookFault, HookPoint};
use crate::harness::message::Message;
use crate::harness::reply::{PartState, Reply, ReplyPart};
use crate::harness::step::Step;
use crate::rule::{Consult, ToolOutcome};
use crate::{Action, Channel, Decision, Flow, PartId};

/// The number of identical tool calls in a row that is reported.
const DOOM_LOOP: u32 = 3;

impl Processor {
    pub(super) fn open(
        &mut self,
        part: PartId,
        name: String,
        channel: Channel,
        (tool, call): (Option<String>, Option<String>),
        out: &mut Vec<Step>,
    ) {
        if self.reject_after_end(out, part, 0) {
            return;
        }
        if self.attempt.reply.index(part).is_some() {
            // The conversation counts the second opening.
            let flow = self.conversation.open(part, channel);
            self.act(flow, out);
            return;
        }
        let mut new = ReplyPart::new(part, name, channel);
        new.tool.clone_from(&tool);
        new.call.clone_from(&call);
        self.attempt.reply.open(new);
        if self.attempt.reply.bytes > self.settings.reply_bytes {
            return self.cut(AbortCause::limit("reply_bytes", part), out);
        }
        let flow = self.conversation.open(part, channel);
        if self.act(flow, out) {
            return;
        }
        if let Some(tool) = &tool {
            let call = call.as_deref().unwrap_or_default();
            let flow = self.conversation.set_tool(part, tool, call);
            if self.act(flow, out) {
                return;
            }
        }
        self.publish_open(part, out);
    }

    pub(super) fn name_tool(
        &mut self,
        part: PartId,
        tool: String,
        call: Option<String>,
        out: &mut Vec<Step>,
    ) {
        let Some(index) = self.open_part_index(part, 0, out) else {
            return;
        };
        let named = &mut self.attempt.reply.parts[index];
        named.tool.get_or_insert_with(|| tool.clone());
        if named.call.is_none() {
            let made = named.call_id();
            named.call.clone_from(&call);
            let given = named.call_id();
            // A rule may have asked a question about the call before the call had an id.
            let about_it = self
                .attempt
                .consultations
                .iter_mut()
                .filter(|it| it.call == made);
            about_it.for_each(|it| it.call.clone_from(&given));
        }
        let id = call.as_deref().unwrap_or_default();
        let flow = self.conversation.set_tool(part, &tool, id);
        if self.act(flow, out) {
            return;
        }
        out.push(Step::Named { part, tool, call });
        // Text may have been held until the tool was named.
        self.forward_released(index, out);
        let waiting = self.conversation.waiting_text(part).len();
        report_held(part, waiting, out);
    }

    pub(super) fn delta(&mut self, part: PartId, bytes: Vec<u8>, out: &mut Vec<Step>) {
        if bytes.is_empty() {
            return;
        }
        let Some(index) = self.open_part_index(part, bytes.len() as u64, out) else {
            return;
        };
        // Counted before hooks change the delta: a snapshot repeats the bytes that the provider has sent.
        self.attempt.reply.parts[index].received += bytes.len() as u64;
        let bytes = if self.hooks.is_empty(HookPoint::Delta) {
            bytes
        } else {
            match self.ask_hooks(index, bytes, out) {
                Some(bytes) if !bytes.is_empty() => bytes,
                _ => return,
            }
        };
        self.attempt.reply.bytes += bytes.len() as u64;
        if self.attempt.reply.bytes > self.settings.reply_bytes {
            return self.cut(AbortCause::limit("reply_bytes", part), out);
        }
        // Rules read what the hooks have returned. Nothing is accumulated or published before they have: a delta that
        // causes a cut is in no reply.
        match self.conversation.pass(part, &bytes) {
            None => self.forward(index, bytes, out),
            Some(flow) => {
                if !self.act(flow, out) {
                    self.forward_released(index, out);
                    let waiting = self.conversation.waiting_text(part).len();
                    report_held(part, waiting, out);
                }
            }
        }
    }

    /// Publishes the text of a part that the conversation has released.
    fn forward_released(&mut self, index: usize, out: &mut Vec<Step>) {
        let part = self.attempt.reply.parts[index].part;
        let released = self.conversation.take(part).to_vec();
        self.forward(index, released, out);
    }

    #[inline]
    fn forward(&mut self, index: usize, bytes: Vec<u8>, out: &mut Vec<Step>) {
        if bytes.is_empty() {
            return;
        }
        let known = &mut self.attempt.reply.parts[index];
        known.raw.extend_from_slice(&bytes);
        let part = known.part;
        out.push(Step::Forward { part, bytes });
    }

    pub(super) fn close(&mut self, part: PartId, out: &mut Vec<Step>) {
        // The conversation counts a close of a part that is not open.
        let flow = self.conversation.close(part);
        if self.act(flow, out) {
            return;
        }
        let index = self.attempt.reply.index(part);
        let index = index.filter(|index| self.attempt.reply.parts[*index].state == PartState::Open);
        let Some(index) = index else {
            return;
        };
        self.forward_released(index, out);
        // These hooks get the text that rules have released, and no rule reads what they return.
        let replaced = match self.attempt.reply.parts[index].channel {
            Channel::Text if !self.hooks.is_empty(HookPoint::TextComplete) => {
                match self.complete_text(index, out) {
                    Ok(replaced) => replaced,
                    Err(cause) => return self.cut(*cause, out),
                }
            }
            _ => None,
        };
        self.attempt.reply.parts[index].state = PartState::Complete;
        out.push(Step::Close { part, replaced });
        if self.attempt.reply.parts[index].channel == Channel::ToolInput {
            self.record_call(index, out);
        }
    }

    /// Ends a part that is open at the end of the reply. A text part is complete; a tool call is aborted.
    pub(super) fn close_unfinished(&mut self, part: PartId, out: &mut Vec<Step>) {
        let Some(index) = self.attempt.reply.index(part) else {
            return;
        };
        if self.attempt.reply.parts[index].channel != Channel::ToolInput {
            return self.close(part, out);
        }
        let flow = self.conversation.close(part);
        if self.act(flow, out) {
            return;
        }
        self.forward_released(index, out);
        let unfinished = &mut self.attempt.reply.parts[index];
        unfinished.state = PartState::Aborted;
        let call = unfinished.call.clone();
        out.push(Step::ToolAborted { part, call });
    }

    /// Aborts complete tool calls whose input is not JSON. If a limit of the model cuts the reply, providers end the
    /// call in progress as if it were complete, and only its input shows that it is not.
    pub(super) fn abort_partial_calls(&mut self, out: &mut Vec<Step>) {
        let calls =
            self.attempt.reply.parts.iter_mut().filter(|part| {
                part.channel == Channel::ToolInput && part.state == PartState::Complete
            });
        for call in calls {
            if serde_json::from_slice::<IgnoredAny>(&call.raw).is_err() {
                call.state = PartState::Aborted;
                let (part, call) = (call.part, call.call.clone());
                out.push(Step::ToolAborted { part, call });
            }
        }
    }

    /// Compares the provider's repetition of a part with the part, and processes new bytes like a delta.
    pub(super) fn snapshot(&mut self, part: PartId, bytes: Vec<u8>, out: &mut Vec<Step>) {
        let known = self
            .attempt
            .reply
            .index(part)
            .map(|index| &self.attempt.reply.parts[index]);
        let Some(known) = known else {
            return self.delta(part, bytes, out);
        };
        let received = usize::try_from(known.received).unwrap_or(usize::MAX);
        let is_same = match bytes.get(..received) {
            // A hook or a rule changed the delivered text, which was not kept, so only the lengths can be compared.
            Some(_) if known.is_rewritten || self.conversation.is_redacted(part) => true,
            Some(start) => {
                let (left, waits) = start.split_at(known.raw.len().min(start.len()));
                left == known.raw && waits == self.conversation.waiting_text(part)
            }
            None => false,
        };
        if is_same {
            return self.delta(part, bytes[received..].to_vec(), out);
        }
        self.counters.mismatches += 1;
        self.counters.unscanned_bytes += bytes.len() as u64;
        let part = event_part(&self.attempt.reply, part);
        out.push(Step::Observe(LoopEvent::Mismatch(part)));
    }

    pub(super) fn record_fault(&mut self, hook: String, fault: HookFault, out: &mut Vec<Step>) {
        let observation = match fault {
            HookFault::Panicked => {
                self.counters.hook_panics += 1;
                LoopEvent::HookPanicked { hook }
            }
            HookFault::TimedOut => {
                self.counters.hook_timeouts += 1;
                LoopEvent::HookTimedOut { hook }
            }
            HookFault::Cancelled => return,
        };
        out.push(Step::Observe(observation));
    }

    /// Sets the outcome of the tool call whose output the part is.
    pub(super) fn set_outcome(&mut self, part: PartId, outcome: ToolOutcome, out: &mut Vec<Step>) {
        let stream = self.conversation.stream();
        if stream.and_then(|stream| stream.channel(part)) == Some(Channel::ToolOutput) {
            let flow = self.conversation.set_outcome(part, outcome);
            self.act(flow, out);
        } else {
            // A part that is unknown opens as text, which has no outcome.
            self.open_part_index(part, 0, out);
        }
    }

    /// Returns the index of a part, which is opened as text if it is unknown; `None` if the part is complete.
    fn open_part_index(&mut self, part: PartId, bytes: u64, out: &mut Vec<Step>) -> Option<usize> {
        if self.reject_after_end(out, part, bytes) {
            return None;
        }
        let Some(index) = self.attempt.reply.index(part) else {
            // The stream opens an unknown part as text too, and counts it.
            let text = ReplyPart::new(part, String::new(), Channel::Text);
            let index = self.attempt.reply.open(text);
            self.publish_open(part, out);
            return Some(index);
        };
        if self.attempt.reply.parts[index].state == PartState::Open {
            return Some(index);
        }
        self.record_late(part, bytes, out);
        None
    }

    fn publish_open(&mut self, part: PartId, out: &mut Vec<Step>) {
        let Some(index) = self.attempt.reply.index(part) else {
            return;
        };
        let opened = &mut self.attempt.reply.parts[index];
        opened.is_published = true;
        out.push(Step::Open {
            part,
            name: opened.name.clone(),
            channel: opened.channel,
            tool: opened.tool.clone(),
            call: opened.call.clone(),
        });
    }

    fn reject_after_end(&mut self, out: &mut Vec<Step>, part: PartId, bytes: u64) -> bool {
        let is_ending = matches!(self.state, ReplyState::Ending { .. });
        if is_ending {
            self.record_late(part, bytes, out);
        }
        is_ending
    }

    fn record_late(&mut self, part: PartId, bytes: u64, out: &mut Vec<Step>) {
        self.counters.late_bytes += bytes;
        let part = event_part(&self.attempt.reply, part);
        out.push(Step::Observe(LoopEvent::Late { part, bytes }));
    }

    /// Passes a delta to the hooks. Returns `None` if the reply was cut.
    fn ask_hooks(&mut self, index: usize, bytes: Vec<u8>, out: &mut Vec<Step>) -> Option<Vec<u8>> {
        let known = &self.attempt.reply.parts[index];
        let part = known.part;
        let at = at(&self.settings, &self.progress, self.attempt_number(), known);
        let passed = self.hooks.delta(&at, bytes, self.settings.on_hook_fault);
        self.attempt.reply.parts[index].is_rewritten |= passed.is_rewritten;
        let failed = self.cause_of_faults(passed.faults, part, out);
        // At most one of the two is set, because no hook is called after either.
        let aborted = passed.aborted_by.map(|name| AbortCause::hook(name, part));
        match failed.or(aborted) {
            Some(cause) => {
                self.cut(cause, out);
                None
            }
            None => Some(passed.bytes),
        }
    }

    fn complete_text(
        &mut self,
        index: usize,
        out: &mut Vec<Step>,
    ) -> Result<Option<Vec<u8>>, Box<AbortCause>> {
        let known = &self.attempt.reply.parts[index];
        let part = known.part;
        let passed = self.hooks.text_complete(&at(
            &self.settings,
            &self.progress,
            self.attempt_number(),
            known,
        ));
        if let Some(cause) = self.cause_of_faults(passed.faults, part, out) {
            return Err(Box::new(cause));
        }
        if !passed.is_rewritten {
            return Ok(None);
        }
        let known = &mut self.attempt.reply.parts[index];
        known.raw.clone_from(&passed.bytes);
        known.is_rewritten = true;
        Ok(Some(passed.bytes))
    }

    /// Records hook failures. Returns the cause of the abort if a failure ends the reply.
    fn cause_of_faults(
        &mut self,
        faults: Faults,
        part: PartId,
        out: &mut Vec<Step>,
    ) -> Option<AbortCause> {
        let (hook, fault) = self.record_faults(faults, out)?;
        Some(AbortCause::fault(hook, fault, Some(part)))
    }

    /// Acts on the decisions of the conversation's last call, which returned `flow`. Returns true if the reply was cut.
    #[inline]
    pub(super) fn act(&mut self, flow: Flow, out: &mut Vec<Step>) -> bool {
        // Most decisions do not cut, and suppressed ones are recorded as well.
        match flow {
            Flow::Go if !self.conversation.has_new_decisions() => false,
            flow => self.act_on_decisions(&flow, out),
        }
    }

    #[cold]
    fn act_on_decisions(&mut self, flow: &Flow, out: &mut Vec<Step>) -> bool {
        let mut cause = None;
        for made in self.conversation.take_new_decisions() {
            let LoopDecision {
                decision, message, ..
            } = made;
            let Some(stream) = self.conversation.stream() else {
                break;
            };
            let part = event_part(&self.attempt.reply, decision.part());
            let record = DecisionEvent::new(&decision, stream, part.name);
            out.push(Step::Observe(LoopEvent::Decision(Box::new(record))));
            if decision.is_suppressed() {
                continue;
            }
            match decision.action {
                Action::Warn => out.push(Step::Notify {
                    decision,
                    text: message,
                }),
                Action::Inject if made.is_queued => out.push(Step::Inject {
                    decision,
                    message: Message::steering(message),
                }),
                Action::Consult => self.queue_consultation(decision),
                Action::Handoff => self.turn.handoffs.push(PendingHandoff {
                    decision,
                    text: message,
                    is_of_attempt: true,
                }),
                Action::Retry | Action::Abort => {
                    let mut new = AbortCause::from_decision(stream, &decision, message);
                    new.keep_released(&self.conversation, &decision);
                    cause = Some(new);
                }
                // The conversation has acted on these. The last four exist only for whole texts; a rule on a stream never
                // decides on them.
                Action::Inject
                | Action::Redact
                | Action::Observe
                | Action::Append
                | Action::Prepend
                | Action::SetHeader
                | Action::Fallback => {}
            }
        }
        let Flow::Cut(cut) = flow else {
            return false;
        };
        self.cut(cause.unwrap_or_else(|| AbortCause::refused(cut)), out);
        true
    }

    /// Queues the review that the rule of a decision requires. It is asked before the call runs.
    fn queue_consultation(&mut self, decision: Decision) {
        let stream = self.conversation.stream();
        let rule = stream.and_then(|stream| Some(stream.rule(&decision)?.id.clone()));
        let review = rule.and_then(|rule| self.conversation.take_review(decision.part(), &rule));
        let part = self.attempt.reply.part(decision.part());
        let (Some(part), Some(review)) = (part, review) else {
            return;
        };
        let consult = Consult {
            prompt: review.prompt,
            model: review.model,
            timeout_millis: review.timeout_millis,
            tools: review.tools,
            blocks_on_failure: review.blocks_on_failure,
        };
        let consultation = Consultation::new(review.rule, part.call_id(), consult);
        self.attempt.consultations.push(Consultation {
            decision: Some(decision),
            ..consultation
        });
    }

    /// Queues the message of a decision about a whole text for the next request, once for each rule.
    pub(super) fn queue(&mut self, guidance: Guidance, out: &mut Vec<Step>) {
        let Guidance { decision, text } = guidance;
        if self.conversation.queue(&decision, text.clone()) {
            let message = Message::steering(text);
            out.push(Step::Inject { decision, message });
        }
    }

    fn record_call(&mut self, index: usize, out: &mut Vec<Step>) {
        let known = &self.attempt.reply.parts[index];
        let part = event_part(&self.attempt.reply, known.part);
        out.push(Step::Observe(LoopEvent::ToolCall(part.clone())));
        let call = Some((known.tool.clone(), canonical(&known.raw)));
        let is_same = self.turn.calls.last == call;
        self.turn.calls.same = if is_same { self.turn.calls.same + 1 } else { 1 };
        self.turn.calls.last = call;
        if self.turn.calls.same >= DOOM_LOOP {
            let times = self.turn.calls.same;
            out.push(Step::Observe(LoopEvent::DoomLoop { part, times }));
        }
    }
}

/// Adds a step with the number of held bytes of a part, unless it is 0.
fn report_held(part: PartId, held: usize, out: &mut Vec<Step>) {
    if held > 0 {
        let bytes = held as u64;
        out.push(Step::Hold { part, bytes });
    }
}

/// Returns the canonical form of a tool input: JSON without white space and with sorted keys; other text unchanged.
pub(super) fn canonical(input: &[u8]) -> String {
    match serde_json::from_slice::<serde_json::Value>(input) {
        Ok(value) => value.to_string(),
        Err(_) => String::from_utf8_lossy(input).into_owned(),
    }
}

fn at<'a>(
    settings: &'a Settings,
    progress: &'a ReplyProgress,
    attempt: u32,
    part: &'a ReplyPart,
) -> HookContext<'a> {
    HookContext {
        session: &settings.session,
        message: &progress.message,
        attempt,
        time: progress.now,
        part: part.part,
        part_name: &part.name,
        channel: part.channel,
        tool: part.tool.as_deref(),
        call: part.call.as_deref(),
        so_far: &part.raw,
    }
}

/// Returns the description of a part for events. A part without a name is named by its number.
fn event_part(reply: &Reply, id: PartId) -> EventPart {
    let known = reply.part(id);
    let name = known.map(|part| part.name.clone());
    EventPart {
        id: Some(id),
        name: name
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| id.0.to_string()),
        channel: known.map(|part| part.channel),
        tool: known.and_then(|part| part.tool.clone()),
        call: known.and_then(|part| part.call.clone()),
    }
}
