//! The parts of a reply: hooks first, then rules, then accumulate and publish.

use super::abort::Cause;
use super::{Guidance, Processor, Progress, Settings, State};
use crate::harness::hooks::{At, OnHookPanic, Point};
use crate::harness::message::Message;
use crate::harness::reply::{PartState, ReplyPart};
use crate::harness::step::{Observation, Step};
use crate::{Action, Channel, Decision, PartId};

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
            named.call.clone_from(&call);
        }
        let id = call.as_deref().unwrap_or_default();
        let _verdict = self.session.tool(&mut self.stream, part, &tool, id);
        if !self.act(out) {
            out.push(Step::Named { part, tool, call });
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
        self.reply.parts[index].raw.extend_from_slice(&bytes);
        out.push(Step::Forward { part, bytes });
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
        let replaced = match self.reply.parts[index].channel {
            Channel::Text if !self.hooks.is_empty(Point::TextComplete) => {
                match self.complete_text(index, out) {
                    Ok(replaced) => replaced,
                    Err(cause) => return self.cut(cause, out),
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
        let unfinished = &mut self.reply.parts[index];
        unfinished.state = PartState::Aborted;
        let call = unfinished.call.clone();
        out.push(Step::ToolAborted { part, call });
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
            Some(start) => start == known.raw,
            None => false,
        };
        if is_same {
            return self.delta(part, bytes[received..].to_vec(), out);
        }
        self.tally.mismatches += 1;
        self.tally.unscanned_bytes += bytes.len() as u64;
        out.push(Step::Observe(Observation::Mismatch { part }));
    }

    pub(super) fn note_panic(&mut self, hook: String, out: &mut Vec<Step>) {
        self.tally.hook_panics += 1;
        out.push(Step::Observe(Observation::HookPanicked { hook }));
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
        let passed = self.hooks.delta(&at, bytes, self.settings.on_hook_panic);
        self.reply.parts[index].is_rewritten |= passed.is_rewritten;
        let panicked = self.note_panics(passed.panicked, part, out);
        // Whichever came first: after an abort no further hook was called.
        let aborted = passed.aborted_by.map(|name| Cause::hook(name, part));
        match panicked.or(aborted) {
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
    ) -> Result<Option<Vec<u8>>, Cause> {
        let known = &self.reply.parts[index];
        let part = known.part;
        let passed = self.hooks.text_complete(&at(
            &self.settings,
            &self.progress,
            self.stream.attempt(),
            known,
        ));
        if let Some(cause) = self.note_panics(passed.panicked, part, out) {
            return Err(cause);
        }
        if !passed.is_rewritten {
            return Ok(None);
        }
        let known = &mut self.reply.parts[index];
        known.raw.clone_from(&passed.bytes);
        known.is_rewritten = true;
        Ok(Some(passed.bytes))
    }

    /// Counts panics; why the reply must end, if they end it.
    fn note_panics(
        &mut self,
        hooks: Vec<String>,
        part: PartId,
        out: &mut Vec<Step>,
    ) -> Option<Cause> {
        let first = hooks.first().cloned();
        hooks
            .into_iter()
            .for_each(|hook| self.note_panic(hook, out));
        match self.settings.on_hook_panic {
            OnHookPanic::Abort => first.map(|name| Cause::panicked(name, part)),
            OnHookPanic::Continue => None,
        }
    }

    /// Acts on the decisions of the last call; whether the reply was cut.
    #[inline]
    fn act(&mut self, out: &mut Vec<Step>) -> bool {
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
                // What is for whole text is done at its hooks; the rest is the host's to do.
                Action::Observe
                | Action::Append
                | Action::Prepend
                | Action::SetHeader
                | Action::Fallback
                | Action::Handoff
                | Action::Consult
                | Action::Redact => {}
                Action::Warn => out.push(Step::Notify { decision, text }),
                Action::Inject => self.inject(decision, text, out),
                Action::Retry | Action::Abort => cutting = Some((decision, text)),
            }
        }
        let Some((decision, text)) = cutting else {
            return false;
        };
        let cause = self.cause_of(&decision, text);
        self.cut(cause, out);
        true
    }

    /// Queues guidance, once per rule: the queue is as long as the pack at most.
    fn inject(&mut self, decision: Decision, text: String, out: &mut Vec<Step>) {
        let is_queued = |other: &Guidance| other.decision.rule() == decision.rule();
        if self.waiting.iter().any(is_queued) {
            self.session.dropped(&decision);
            return;
        }
        let message = Message::steering(text);
        self.waiting.push_back(Guidance {
            decision,
            message: message.clone(),
        });
        out.push(Step::Inject { decision, message });
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

/// The same for inputs that mean the same: JSON without its white space and with its keys sorted.
fn canonical(input: &[u8]) -> String {
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
