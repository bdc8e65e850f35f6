//! What rules bound of a part as a whole: its length, its time, and how often the same call was made.

use super::judge::Judge;
use crate::detect::Found;
use crate::detect::doom_loop::{Call, LoopLimits};
use crate::detect::limit::Limit;
use crate::pack::{ChannelRules, What};
use crate::verdict::RuleId;
use crate::view::piece::Piece;

/// The bounds of one part.
#[derive(Debug)]
pub(super) struct Bounds {
    limits: Vec<(RuleId, Limit)>,
    loops: Vec<(RuleId, LoopLimits)>,
    /// The input of a tool, where calls are compared; none once it is too long.
    input: Option<Vec<u8>>,
}

impl Bounds {
    /// None where no rule bounds anything.
    pub(super) fn new(rules: &ChannelRules, now: std::time::Duration) -> Option<Box<Bounds>> {
        let mut bounds = Bounds {
            limits: Vec::new(),
            loops: Vec::new(),
            input: None,
        };
        for watched in &rules.watches {
            match &watched.what {
                What::Limit(limit) => {
                    bounds.limits.push((watched.rule, Limit::new(*limit, now)));
                }
                What::DoomLoop(limits) => bounds.loops.push((watched.rule, *limits)),
                _ => {}
            }
        }
        bounds.input = (!bounds.loops.is_empty()).then(Vec::new);
        (!bounds.limits.is_empty() || !bounds.loops.is_empty()).then(|| Box::new(bounds))
    }

    /// A delta has come.
    pub(super) fn push(&mut self, judge: &mut Judge<'_>, piece: Piece<'_>) {
        let now = judge.found.now;
        for (rule, limit) in &mut self.limits {
            let mut on = |_, found: Found| judge.found_by_detector(*rule, None, found);
            limit.delta(now, &mut on);
            limit.push(piece, &mut on);
        }
        let most = judge.pack.limits().stretch_bytes;
        if let Some(input) = &mut self.input {
            if input.len() + piece.bytes.len() <= most {
                input.extend_from_slice(piece.bytes);
            } else {
                // A call that is not whole is like no other.
                self.input = None;
                judge.found.counters.unconfirmed += 1;
            }
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, judge: &mut Judge<'_>) {
        let now = judge.found.now;
        for (rule, limit) in &mut self.limits {
            limit.time(now, &mut |_, found| {
                judge.found_by_detector(*rule, None, found);
            });
        }
    }

    /// The part is complete: so is the call that it was.
    pub(super) fn finish(&mut self, judge: &mut Judge<'_>, end: u64) {
        let tool = judge.scoped.tool.as_deref().unwrap_or_default();
        let Some(input) = self.input.take() else {
            return;
        };
        let call = Call::new(tool, &input);
        for (rule, limits) in &self.loops {
            let past = judge.found.pasts.entry(*rule).or_default();
            if past.calls.push(limits, call.clone()).is_some() {
                let found = Found {
                    start: 0,
                    end,
                    decided: end,
                };
                judge.found_by_detector(*rule, None, found);
            }
        }
    }
}
