//! The order in which parts are published while text is held.
//!
//! A part that opens while text of an earlier part is held is published after that text has left, so that a tool call
//! is never published before the text that precedes it. Text delivered after a part opened does not delay that part.
//!
//! Memory: the steps that wait, which contain no more bytes than the reply.

use super::Processor;
use crate::PartId;
use crate::harness::event::LoopEvent;
use crate::harness::step::Step;

/// A part whose steps wait until text before it has left.
#[derive(Debug)]
pub(super) struct DelayedPart {
    part: PartId,
    /// The earlier parts with held text, each with the number of its bytes that must have left.
    after: Vec<(PartId, u64)>,
    steps: Vec<Step>,
}

/// The constraint on the position of a step.
enum PublishOrder {
    /// The step belongs to this part and stays in order with its other steps.
    Of(PartId),
    /// The step ends or voids the attempt, so all waiting steps are published before it.
    Last,
    /// The step has no constraint.
    Any,
}

impl Processor {
    /// Reorders the steps of `out` from index `first` on: steps of parts that must wait are withheld, and steps that
    /// have waited long enough are appended.
    pub(super) fn order_steps(&mut self, first: usize, out: &mut Vec<Step>) {
        let opens = |step: &Step| matches!(step, Step::Open { .. });
        if self.progress.delayed.is_empty() && !out[first..].iter().any(opens) {
            return;
        }
        for step in out.split_off(first) {
            match order(&step) {
                PublishOrder::Any => out.push(step),
                PublishOrder::Last => {
                    let delayed = self.progress.delayed.drain(..);
                    out.extend(delayed.flat_map(|delayed| delayed.steps));
                    out.push(step);
                }
                PublishOrder::Of(part) => self.place_step(part, step, out),
            }
        }
        self.publish_ready(out);
    }

    fn place_step(&mut self, part: PartId, step: Step, out: &mut Vec<Step>) {
        if self
            .progress
            .delayed
            .iter()
            .any(|delayed| delayed.part == part)
        {
            self.publish_ready(out);
        }
        if matches!(step, Step::Open { .. }) {
            let after = self.waiting_before(part);
            if !after.is_empty() {
                self.progress.delayed.push_back(DelayedPart {
                    part,
                    after,
                    steps: vec![step],
                });
                return;
            }
        }
        match self
            .progress
            .delayed
            .iter_mut()
            .find(|delayed| delayed.part == part)
        {
            Some(delayed) => delayed.steps.push(step),
            None => out.push(step),
        }
    }

    /// Publishes the waiting parts whose text before them has left. A part that opened later waits for at least as much
    /// text, so the search stops at the first part that must wait.
    fn publish_ready(&mut self, out: &mut Vec<Step>) {
        while let Some(delayed) = self.progress.delayed.front() {
            let has_left = |&(part, bytes): &(PartId, u64)| {
                let released = self.conversation.released(part);
                released.is_none_or(|released| released >= bytes)
            };
            if !delayed.after.iter().all(has_left) {
                return;
            }
            let steps = self
                .progress
                .delayed
                .pop_front()
                .map(|delayed| delayed.steps);
            out.extend(steps.into_iter().flatten());
        }
    }

    /// Returns the earlier parts with held text, each with the number of bytes that must have left.
    fn waiting_before(&self, part: PartId) -> Vec<(PartId, u64)> {
        let before = self.attempt.reply.parts.iter().map(|other| other.part);
        let before = before.take_while(|other| *other != part);
        let waiting = before.filter_map(|other| {
            let held = self.conversation.waiting_text(other).len() as u64;
            let released = self.conversation.released(other)?;
            (held > 0).then_some((other, released + held))
        });
        waiting.collect()
    }
}

fn order(step: &Step) -> PublishOrder {
    match step {
        Step::Open { part, .. }
        | Step::Named { part, .. }
        | Step::Forward { part, .. }
        | Step::Hold { part, .. }
        | Step::Close { part, .. }
        | Step::ToolAborted { part, .. } => PublishOrder::Of(*part),
        Step::Observe(LoopEvent::ToolCall(part) | LoopEvent::DoomLoop { part, .. }) => {
            part.id.map_or(PublishOrder::Any, PublishOrder::Of)
        }
        Step::Send { .. }
        | Step::Retract { .. }
        | Step::CancelUpstream
        | Step::Aborted(_)
        | Step::Finish(_)
        | Step::Observe(LoopEvent::StepFinished { .. } | LoopEvent::Restarted) => {
            PublishOrder::Last
        }
        _ => PublishOrder::Any,
    }
}
