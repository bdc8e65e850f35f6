//! The order in which parts are published, where text waits for a rule.
//!
//! A part that opens while text of an earlier part waits is published once that text has left: whoever watches sees
//! what the model wrote before a tool call before the call. Text that comes after a part opened delays nothing of it.
//!
//! Memory: the steps that wait, which hold no more than the reply does.

use super::Processor;
use crate::PartId;
use crate::harness::step::{Observation, Step};

/// A part that is published once text before it has left.
#[derive(Debug)]
pub(super) struct Later {
    part: PartId,
    /// Places of earlier parts in the reply, each with how many of its bytes must have left.
    after: Vec<(usize, u64)>,
    steps: Vec<Step>,
}

/// What a step has to do with the order of parts.
enum Order {
    /// It publishes that part.
    Of(PartId),
    /// It ends the attempt, or voids it: nothing waits past it.
    Last,
    /// It may come at any time.
    Any,
}

impl Processor {
    /// Puts back the steps from `first` on that are to wait, and appends those that have waited long enough.
    pub(super) fn put_in_order(&mut self, first: usize, out: &mut Vec<Step>) {
        let opens = |step: &Step| matches!(step, Step::Open { .. });
        if self.later.is_empty() && !out[first..].iter().any(opens) {
            return;
        }
        for step in out.split_off(first) {
            match order(&step) {
                Order::Any => out.push(step),
                Order::Last => {
                    let later = self.later.drain(..);
                    out.extend(later.flat_map(|later| later.steps));
                    out.push(step);
                }
                Order::Of(part) => self.put(part, step, out),
            }
        }
        self.publish_ready(out);
    }

    fn put(&mut self, part: PartId, step: Step, out: &mut Vec<Step>) {
        if self.later.iter().any(|later| later.part == part) {
            self.publish_ready(out);
        }
        if matches!(step, Step::Open { .. }) {
            let after = self.waiting_before(part);
            if !after.is_empty() {
                self.later.push_back(Later {
                    part,
                    after,
                    steps: vec![step],
                });
                return;
            }
        }
        match self.later.iter_mut().find(|later| later.part == part) {
            Some(later) => later.steps.push(step),
            None => out.push(step),
        }
    }

    /// Publishes the parts whose turn it is. One that opened later waits for as much, or for more.
    fn publish_ready(&mut self, out: &mut Vec<Step>) {
        while let Some(later) = self.later.front() {
            let has_left = |&(index, bytes): &(usize, u64)| {
                let part = self.reply.parts.get(index);
                part.is_none_or(|part| part.released >= bytes)
            };
            if !later.after.iter().all(has_left) {
                return;
            }
            let steps = self.later.pop_front().map(|later| later.steps);
            out.extend(steps.into_iter().flatten());
        }
    }

    /// Text that waits in parts before that one.
    fn waiting_before(&self, part: PartId) -> Vec<(usize, u64)> {
        let before = self.reply.parts.iter().enumerate();
        let before = before.take_while(|(_, other)| other.part != part);
        let waiting = before.filter(|(_, other)| !other.held.is_empty());
        let place =
            |other: &crate::harness::reply::ReplyPart| other.released + other.held.len() as u64;
        waiting
            .map(|(index, other)| (index, place(other)))
            .collect()
    }
}

fn order(step: &Step) -> Order {
    match step {
        Step::Open { part, .. }
        | Step::Named { part, .. }
        | Step::Forward { part, .. }
        | Step::Hold { part, .. }
        | Step::Close { part, .. }
        | Step::ToolAborted { part, .. }
        | Step::Observe(Observation::ToolCall { part } | Observation::DoomLoop { part, .. }) => {
            Order::Of(*part)
        }
        Step::Send { .. }
        | Step::Retract { .. }
        | Step::CancelUpstream
        | Step::Aborted(_)
        | Step::Finish(_)
        | Step::Observe(Observation::StepFinished { .. } | Observation::Restarted) => Order::Last,
        _ => Order::Any,
    }
}
