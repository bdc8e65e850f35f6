//! What rules bound of a part as a whole: its length, its time, and how often the same call was made.

use super::haystack::Near;
use super::judge::Judge;
use super::trail::Trail;
use crate::detect::Found;
use crate::detect::doom_loop::{Call, LoopLimits};
use crate::detect::limit::Limit;
use crate::detect::turns::{Reply, TurnLimits};
use crate::pack::{ChannelRules, What};
use crate::rule::Channel;
use crate::verdict::RuleId;
use crate::view::piece::Piece;

/// The bounds of one part.
#[derive(Debug)]
pub(super) struct Bounds {
    limits: Vec<(RuleId, Limit)>,
    loops: Vec<(RuleId, LoopLimits)>,
    /// The input of a tool, where calls are compared; none once it is too long.
    input: Option<Vec<u8>>,
    trail: Trail,
    /// Where replies are compared: the channel, for whom, and what is kept of this one.
    turns: Vec<(RuleId, TurnLimits)>,
    reply: Option<(Channel, Box<Reply>)>,
}

impl Bounds {
    /// None where no rule bounds anything.
    pub(super) fn new(
        rules: &ChannelRules,
        channel: Channel,
        now: std::time::Duration,
    ) -> Option<Box<Bounds>> {
        let mut bounds = Bounds {
            limits: Vec::new(),
            loops: Vec::new(),
            input: None,
            trail: Trail::default(),
            turns: Vec::new(),
            reply: None,
        };
        for watched in &rules.watches {
            match &watched.what {
                What::Limit(limit) => {
                    bounds.limits.push((watched.rule, Limit::new(*limit, now)));
                }
                What::Turns(limits) if channel != Channel::ToolInput => {
                    bounds.turns.push((watched.rule, *limits));
                    bounds
                        .reply
                        .get_or_insert_with(|| (channel, Box::default()));
                }
                What::DoomLoop(limits) => bounds.loops.push((watched.rule, *limits)),
                _ => {}
            }
        }
        bounds.input = (!bounds.loops.is_empty()).then(Vec::new);
        let is_idle =
            bounds.limits.is_empty() && bounds.loops.is_empty() && bounds.turns.is_empty();
        (!is_idle).then(|| Box::new(bounds))
    }

    /// A delta has come.
    pub(super) fn push(&mut self, judge: &mut Judge<'_>, piece: Piece<'_>) {
        let now = judge.found.now;
        self.trail.begin(&piece);
        for (rule, limit) in &mut self.limits {
            let mut on = |_, found: Found| {
                let near = self.trail.near(found, piece.bytes);
                judge.found_by_detector(*rule, None, found, Some(near));
            };
            limit.delta(now, &mut on);
            limit.push(piece, &mut on);
        }
        self.trail.end(&piece);
        if let Some((_, reply)) = &mut self.reply {
            reply.push(piece);
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
                let near = self.trail.near(found, &[]);
                judge.found_by_detector(*rule, None, found, Some(near));
            });
        }
    }

    /// The host has counted that many tokens.
    pub(super) fn tokens(&mut self, judge: &mut Judge<'_>, tokens: u64) {
        for (rule, limit) in &mut self.limits {
            limit.counted(tokens, &mut |_, found| {
                let near = self.trail.near(found, &[]);
                judge.found_by_detector(*rule, None, found, Some(near));
            });
        }
    }

    /// The part is complete: so is the call that it was.
    pub(super) fn finish(&mut self, judge: &mut Judge<'_>, end: u64) {
        self.compare(judge, end);
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
                let near = Near::around(&[], &input, &(0..input.len()), true);
                judge.found_by_detector(*rule, None, found, Some(near));
            }
        }
    }

    /// Compares the reply with those before it.
    fn compare(&mut self, judge: &mut Judge<'_>, end: u64) {
        let Some((channel, reply)) = self.reply.take() else {
            return;
        };
        let digest = reply.digest();
        for (rule, limits) in &self.turns {
            let past = judge.found.pasts.entry(*rule).or_default();
            let turns = past.turns.entry(channel).or_default();
            if turns.push(limits, digest.clone()) {
                let (start, decided) = (0, end);
                let found = Found {
                    start,
                    end,
                    decided,
                };
                let near = self.trail.near(found, &[]);
                judge.found_by_detector(*rule, None, found, Some(near));
            }
        }
    }
}
