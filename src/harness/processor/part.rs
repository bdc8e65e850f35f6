//! The parts of a reply: hooks first, then rules, then accumulate and publish.

use serde::de::IgnoredAny;

use super::abort::Cause;
use super::redact::{Replacing, floor_char};
use super::{Guidance, Processor, Progress, Settings, State, WantedHandoff};
use crate::harness::consult::Consultation;
use crate::harness::hooks::{At, Fault, Faults, Point};
use crate::harness::message::Message;
use crate::harness::reply::{PartState, ReplyPart};
use crate::harness::step::{Observation, Step};
use crate::{Action, Channel, Decision, PartId, RuleId, Stream};

/// How many identical tool calls in a row are worth an event.
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
        if self.is_ending(out, part, 0) {
            return;
        }
        if self.reply.index(part).is_some() {
            self.stream.open(part, channel); // counts the second open
            return;
        }
        let mut new = ReplyPart::new(part, name, channel);
        new.tool.clone_from(&tool);
        new.call.clone_from(&call);
        self.reply.open(new);
        if self.reply.bytes > self.settings.reply_bytes {
            return self.cut(Cause::limit("reply_bytes", part), out);
        }
        self.stream.open(part, channel);
        // An empty delta asks for what the opening decided, and for nothing else.
        let _verdict = self.session.push(&mut self.stream, part, b"");
        if self.act(out) {
            return;
        }
        if let Some(tool) = &tool {
            let call = call.as_deref().unwrap_or_default();
            let _verdict = self.session.tool(&mut self.stream, part, tool, call);
            if self.act(out) {
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
        let Some(index) = self.growing(part, 0, out) else {
            return;
        };
        let named = &mut self.reply.parts[index];
        named.tool.get_or_insert_with(|| tool.clone());
        if named.call.is_none() {
            let made = named.call_id();
            named.call.clone_from(&call);
            let given = named.call_id();
            // A rule may have wanted it asked about before it had an id.
            let about_it = self.consultations.iter_mut().filter(|it| it.call == made);
            about_it.for_each(|it| it.call.clone_from(&given));
        }
        let id = call.as_deref().unwrap_or_default();
        let _verdict = self.session.tool(&mut self.stream, part, &tool, id);
        if self.act(out) {
            return;
        }
        out.push(Step::Named { part, tool, call });
        if self.holds {
            self.release(index, out); // what waited for the name
        }
    }

    pub(super) fn delta(&mut self, part: PartId, bytes: Vec<u8>, out: &mut Vec<Step>) {
        if bytes.is_empty() {
            return;
        }
        let Some(index) = self.growing(part, bytes.len() as u64, out) else {
            return;
        };
        self.reply.parts[index].received += bytes.len() as u64;
        let bytes = if self.hooks.is_empty(Point::Delta) {
            bytes
        } else {
            match self.ask_hooks(index, bytes, out) {
                Some(bytes) if !bytes.is_empty() => bytes,
                _ => return,
            }
        };
        self.reply.bytes += bytes.len() as u64;
        if self.reply.bytes > self.settings.reply_bytes {
            return self.cut(Cause::limit("reply_bytes", part), out);
        }
        let _verdict = self.session.push(&mut self.stream, part, &bytes);
        if self.act(out) {
            return;
        }
        if self.holds {
            let known = &mut self.reply.parts[index];
            known.held.extend_from_slice(&bytes);
            known
                .scalars
                .iter_mut()
                .for_each(|scalars| scalars.push(&bytes));
            return self.release(index, out);
        }
        self.reply.parts[index].raw.extend_from_slice(&bytes);
        out.push(Step::Forward { part, bytes });
    }

    /// Lets go what no rule holds any more; says how much still waits.
    fn release(&mut self, index: usize, out: &mut Vec<Step>) {
        let part = self.reply.parts[index].part;
        let decided = self.stream.releasable(part);
        let known = &self.reply.parts[index];
        let whole = known.scalars.as_ref();
        let decided = whole.map_or(decided, |scalars| scalars.floor(decided));
        let mut free = usize::try_from(decided - known.released.min(decided)).unwrap_or(usize::MAX);
        if known.scalars.is_some() {
            free = floor_char(&known.held, free.min(known.held.len()));
        }
        self.let_go(index, free, out);
        let bytes = self.reply.parts[index].held.len() as u64;
        if bytes > 0 {
            out.push(Step::Hold { part, bytes });
        }
    }

    /// Lets the first of the bytes go that wait, so many, without what rules take out.
    fn let_go(&mut self, index: usize, free: usize, out: &mut Vec<Step>) {
        let known = &mut self.reply.parts[index];
        let leaving: Vec<u8> = known.held.drain(..free.min(known.held.len())).collect();
        if leaving.is_empty() {
            return;
        }
        let from = known.released;
        known.released += leaving.len() as u64;
        let part = known.part;
        let redacting = &self.redacting;
        let is_live = |rule: RuleId| redacting.contains(&(rule, part));
        let stretches = Stretch::all(&self.stream, part, from, is_live);
        let mut skip = known.replaced.last().map_or(0, |last| last.to);
        let at = known.raw.len();
        let replacing = Replacing {
            from,
            scalars: known.scalars.as_deref(),
            skip: &mut skip,
            replaced: &mut known.replaced,
            at,
        };
        let bytes = replacing.apply(&leaving, stretches);
        let released = known.released;
        let scalars = known.scalars.iter_mut();
        scalars.for_each(|scalars| scalars.forget(released));
        known.is_rewritten |= !known.replaced.is_empty();
        if bytes.is_empty() {
            return;
        }
        known.raw.extend_from_slice(&bytes);
        out.push(Step::Forward { part, bytes });
    }

    /// The part is over: lets everything go that waits.
    fn let_go_all(&mut self, index: usize, out: &mut Vec<Step>) {
        let scalars = self.reply.parts[index].scalars.iter_mut();
        scalars.for_each(|scalars| scalars.finish());
        self.let_go(index, usize::MAX, out);
    }

    pub(super) fn close(&mut self, part: PartId, out: &mut Vec<Step>) {
        let index = self.reply.index(part);
        let index = index.filter(|index| self.reply.parts[*index].state == PartState::Open);
        let Some(index) = index else {
            let _verdict = self.session.close(&mut self.stream, part); // counts the stray close
            return;
        };
        let _verdict = self.session.close(&mut self.stream, part);
        if self.act(out) {
            return;
        }
        self.let_go_all(index, out);
        let replaced = match self.reply.parts[index].channel {
            Channel::Text if !self.hooks.is_empty(Point::TextComplete) => {
                match self.complete_text(index, out) {
                    Ok(replaced) => replaced,
                    Err(cause) => return self.cut(*cause, out),
                }
            }
            _ => None,
        };
        self.reply.parts[index].state = PartState::Complete;
        out.push(Step::Close { part, replaced });
        if self.reply.parts[index].channel == Channel::ToolInput {
            self.note_call(index, out);
        }
    }

    /// The reply ended and the part did not. Text ends with it; a tool call was never completed.
    pub(super) fn close_unfinished(&mut self, part: PartId, out: &mut Vec<Step>) {
        let Some(index) = self.reply.index(part) else {
            return;
        };
        if self.reply.parts[index].channel != Channel::ToolInput {
            return self.close(part, out);
        }
        let _verdict = self.session.close(&mut self.stream, part);
        if self.act(out) {
            return;
        }
        self.let_go_all(index, out);
        let unfinished = &mut self.reply.parts[index];
        unfinished.state = PartState::Aborted;
        let call = unfinished.call.clone();
        out.push(Step::ToolAborted { part, call });
    }

    /// The provider stopped the reply at a limit. It ends the call that was being written as if it were whole,
    /// and only its input tells that it is not.
    pub(super) fn abort_partial_calls(&mut self, out: &mut Vec<Step>) {
        let calls =
            self.reply.parts.iter_mut().filter(|part| {
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

    /// The provider repeats a part. What was not delivered of it yet is read like a delta.
    pub(super) fn snapshot(&mut self, part: PartId, bytes: Vec<u8>, out: &mut Vec<Step>) {
        let known = self.reply.index(part).map(|index| &self.reply.parts[index]);
        let Some(known) = known else {
            return self.delta(part, bytes, out);
        };
        let received = usize::try_from(known.received).unwrap_or(usize::MAX);
        let is_same = match bytes.get(..received) {
            // A hook changed what was delivered, so only lengths can be compared.
            Some(_) if known.is_rewritten => true,
            Some(start) => {
                let (left, waits) = start.split_at(known.raw.len().min(start.len()));
                left == known.raw && waits == known.held
            }
            None => false,
        };
        if is_same {
            return self.delta(part, bytes[received..].to_vec(), out);
        }
        self.tally.mismatches += 1;
        self.tally.unscanned_bytes += bytes.len() as u64;
        out.push(Step::Observe(Observation::Mismatch { part }));
    }

    pub(super) fn note_fault(&mut self, hook: String, fault: Fault, out: &mut Vec<Step>) {
        let observation = match fault {
            Fault::Panicked => {
                self.tally.hook_panics += 1;
                Observation::HookPanicked { hook }
            }
            Fault::TimedOut => {
                self.tally.hook_timeouts += 1;
                Observation::HookTimedOut { hook }
            }
            Fault::Cancelled => return,
        };
        out.push(Step::Observe(observation));
    }

    /// The part's place, opening it as text if it is unknown; none if it can grow no more.
    fn growing(&mut self, part: PartId, bytes: u64, out: &mut Vec<Step>) -> Option<usize> {
        if self.is_ending(out, part, bytes) {
            return None;
        }
        let Some(index) = self.reply.index(part) else {
            // The rules' stream does the same when it meets the part, and counts it.
            let text = ReplyPart::new(part, String::new(), Channel::Text);
            let index = self.reply.open(text);
            self.publish_open(part, out);
            return Some(index);
        };
        if self.reply.parts[index].state == PartState::Open {
            return Some(index);
        }
        self.late(part, bytes, out);
        None
    }

    fn publish_open(&mut self, part: PartId, out: &mut Vec<Step>) {
        let Some(index) = self.reply.index(part) else {
            return;
        };
        let opened = &mut self.reply.parts[index];
        opened.is_published = true;
        out.push(Step::Open {
            part,
            name: opened.name.clone(),
            channel: opened.channel,
            tool: opened.tool.clone(),
            call: opened.call.clone(),
        });
    }

    fn is_ending(&mut self, out: &mut Vec<Step>, part: PartId, bytes: u64) -> bool {
        let is_ending = matches!(self.state, State::Ending { .. });
        if is_ending {
            self.late(part, bytes, out);
        }
        is_ending
    }

    fn late(&mut self, part: PartId, bytes: u64, out: &mut Vec<Step>) {
        self.tally.late_bytes += bytes;
        out.push(Step::Observe(Observation::Late { part, bytes }));
    }

    /// Runs a delta through the hooks; nothing if the reply was cut.
    fn ask_hooks(&mut self, index: usize, bytes: Vec<u8>, out: &mut Vec<Step>) -> Option<Vec<u8>> {
        let known = &self.reply.parts[index];
        let part = known.part;
        let at = at(&self.settings, &self.progress, self.stream.attempt(), known);
        let passed = self.hooks.delta(&at, bytes, self.settings.on_hook_fault);
        self.reply.parts[index].is_rewritten |= passed.is_rewritten;
        let failed = self.fault_in(passed.faults, part, out);
        // Whichever came first: after an abort no further hook was called.
        let aborted = passed.aborted_by.map(|name| Cause::hook(name, part));
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
    ) -> Result<Option<Vec<u8>>, Box<Cause>> {
        let known = &self.reply.parts[index];
        let part = known.part;
        let passed = self.hooks.text_complete(&at(
            &self.settings,
            &self.progress,
            self.stream.attempt(),
            known,
        ));
        if let Some(cause) = self.fault_in(passed.faults, part, out) {
            return Err(Box::new(cause));
        }
        if !passed.is_rewritten {
            return Ok(None);
        }
        let known = &mut self.reply.parts[index];
        known.raw.clone_from(&passed.bytes);
        known.is_rewritten = true;
        Ok(Some(passed.bytes))
    }

    /// Counts what failed; why the reply must end, if that ends it.
    fn fault_in(&mut self, faults: Faults, part: PartId, out: &mut Vec<Step>) -> Option<Cause> {
        let (hook, fault) = self.note_faults(faults, out)?;
        Some(Cause::fault(hook, fault, Some(part)))
    }

    /// Acts on the decisions of the last call; whether the reply was cut.
    #[inline]
    pub(super) fn act(&mut self, out: &mut Vec<Step>) -> bool {
        !self.session.decisions().is_empty() && self.act_on_decisions(out)
    }

    #[cold]
    fn act_on_decisions(&mut self, out: &mut Vec<Step>) -> bool {
        let mut cutting = None;
        for decision in self.session.decisions().to_vec() {
            out.push(Step::Observe(Observation::Decision(decision)));
            if decision.is_suppressed() {
                continue;
            }
            let text = self.stream.message(&decision);
            match decision.action {
                Action::Warn => {
                    self.session.delivered(&decision);
                    out.push(Step::Notify { decision, text });
                }
                Action::Inject => {
                    let message = Message::steering(text);
                    self.queue(Guidance { decision, message }, out);
                }
                Action::Redact => {
                    self.session.delivered(&decision);
                    let rule = decision.rule();
                    self.redacting
                        .extend(rule.map(|rule| (rule, decision.part())));
                }
                Action::Consult => self.note_consult(decision),
                Action::Handoff => self.handoffs.push(WantedHandoff {
                    decision,
                    text,
                    is_of_attempt: true,
                }),
                Action::Retry | Action::Abort => cutting = Some((decision, text)),
                // What is for whole texts no rule of a stream asks for.
                Action::Observe
                | Action::Append
                | Action::Prepend
                | Action::SetHeader
                | Action::Fallback => self.session.delivered(&decision),
            }
        }
        let Some((decision, text)) = cutting else {
            return false;
        };
        if decision.action == Action::Abort {
            self.session.delivered(&decision);
        }
        let cause = Cause::of(&self.stream, &decision, text);
        self.cut(cause, out);
        true
    }

    /// Queues guidance, once per rule: the queue is as long as the pack at most.
    pub(super) fn queue(&mut self, guidance: Guidance, out: &mut Vec<Step>) {
        let Guidance { decision, message } = &guidance;
        let is_queued = |other: &Guidance| other.decision.rule() == decision.rule();
        if self.waiting.iter().any(is_queued) {
            self.session.dropped(decision);
            return;
        }
        out.push(Step::Inject {
            decision: *decision,
            message: message.clone(),
        });
        self.waiting.push_back(guidance);
    }

    /// Somebody is to be asked about the call of that part before it runs.
    fn note_consult(&mut self, decision: Decision) {
        let part = self.reply.part(decision.part());
        let rule = self.stream.rule(&decision);
        let asks = rule.and_then(|rule| Some((rule, rule.consult.clone()?)));
        let (Some(part), Some((rule, mut consult)), Some(prompt)) =
            (part, asks, self.stream.prompt(&decision))
        else {
            return;
        };
        consult.prompt = prompt;
        let consultation = Consultation::new(rule.id.clone(), part.call_id(), consult);
        self.consultations.push(Consultation {
            decision: Some(decision),
            ..consultation
        });
    }

    fn note_call(&mut self, index: usize, out: &mut Vec<Step>) {
        let known = &self.reply.parts[index];
        let part = known.part;
        out.push(Step::Observe(Observation::ToolCall { part }));
        let call = Some((known.tool.clone(), canonical(&known.raw)));
        let is_same = self.calls.last == call;
        self.calls.same = if is_same { self.calls.same + 1 } else { 1 };
        self.calls.last = call;
        if self.calls.same >= DOOM_LOOP {
            let times = self.calls.same;
            out.push(Step::Observe(Observation::DoomLoop { part, times }));
        }
    }
}

/// A stretch of a text that a rule wants replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) with: Vec<u8>,
}

impl Stretch {
    /// Those of that part which end behind `from`, of rules that are not silent, in order.
    fn all<'a>(
        stream: &'a Stream,
        part: PartId,
        from: u64,
        is_live: impl Fn(RuleId) -> bool + 'a,
    ) -> impl Iterator<Item = Stretch> + 'a {
        let known = stream.redactions().iter();
        let known = known.filter(move |known| known.part == part && known.end > from);
        let known = known.filter(move |known| is_live(known.rule));
        known.map(move |known| {
            let rule = stream.pack().rule(known.rule);
            let with = rule.replacement.as_deref().unwrap_or("[redacted]");
            let with = match stream.channel(part) {
                Some(Channel::ToolInput) => in_json(with),
                _ => with.to_owned(),
            };
            Stretch {
                from: known.start,
                to: known.end,
                with: with.into_bytes(),
            }
        })
    }

    /// Those that the rule of a decision wants, of a whole text.
    pub(super) fn of(stream: &Stream, decision: &Decision) -> Vec<Stretch> {
        let of_rule = |rule| Some(rule) == decision.rule();
        Stretch::all(stream, decision.part(), 0, of_rule).collect()
    }
}

/// The text as it stands in a string of JSON.
fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The same for inputs that mean the same: JSON without its white space and with its keys sorted.
pub(super) fn canonical(input: &[u8]) -> String {
    match serde_json::from_slice::<serde_json::Value>(input) {
        Ok(value) => value.to_string(),
        Err(_) => String::from_utf8_lossy(input).into_owned(),
    }
}

fn at<'a>(
    settings: &'a Settings,
    progress: &'a Progress,
    attempt: u32,
    part: &'a ReplyPart,
) -> At<'a> {
    At {
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
