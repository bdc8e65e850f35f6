//! What rules bound of a part as a whole: its length, its time, and how often the same call was made.

use super::haystack::Near;
use super::judge::Judge;
use super::trail::Trail;
use crate::detect::Detection;
use crate::detect::doom_loop::{CallDigest, LoopLimits};
use crate::detect::limit::BoundMonitor;
use crate::detect::turns::{ReplyDigester, TurnLimits};
use crate::pack::{ChannelRules, What};
use crate::rule::Channel;
use crate::verdict::RuleId;
use crate::view::chunk::Chunk;
use crate::view::json::ArgPath;

/// The bounds of one part.
#[derive(Debug)]
pub(super) struct Bounds {
    limits: Vec<Limited>,
    /// Whether the text that is counted is that of the arguments, each by itself, instead of the whole part.
    is_tool_input: bool,
    loops: Vec<(RuleId, LoopLimits)>,
    /// The input of a tool, where calls are compared; none once it is too long.
    input: Option<Vec<u8>>,
    /// The part as delivered, and how much of it.
    trail: Trail,
    delivered: u64,
    /// The argument that is being read.
    arg: Trail,
    /// Where replies are compared: the channel, for whom, and what is kept of this one.
    turns: Vec<(RuleId, TurnLimits)>,
    reply: Option<(Channel, Box<ReplyDigester>)>,
}

/// The limit of one rule.
#[derive(Debug)]
struct Limited {
    rule: RuleId,
    limit: BoundMonitor,
    /// Whether the text that comes next counts: in tool input that of the arguments in the scope of the rule.
    reads: bool,
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
            is_tool_input: channel == Channel::ToolInput,
            loops: Vec::new(),
            input: None,
            trail: Trail::default(),
            delivered: 0,
            arg: Trail::default(),
            turns: Vec::new(),
            reply: None,
        };
        for watched in &rules.watches {
            match &watched.what {
                What::Limit(limit) => {
                    let limit = BoundMonitor::new(*limit, now);
                    bounds.limits.push(Limited {
                        rule: watched.rule,
                        limit,
                        reads: false,
                    });
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

    /// A delta has come, which is `piece`.
    pub(super) fn push(&mut self, judge: &mut Judge<'_>, piece: Chunk<'_>) {
        let now = judge.found.now;
        self.trail.begin(&piece);
        for Limited { rule, limit, .. } in &mut self.limits {
            let mut on = |_, found: Detection| {
                let near = self.trail.near(found, piece.bytes);
                judge.found_by_detector(*rule, None, found, Some(near));
            };
            limit.delivered(self.delivered);
            limit.delta(now, &mut on);
            if !self.is_tool_input {
                limit.push(piece, &mut on);
            }
        }
        self.delivered += piece.bytes.len() as u64;
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

    /// The argument at that path begins.
    pub(super) fn open_arg(&mut self, judge: &Judge<'_>, path: &ArgPath) {
        self.arg.clear();
        for Limited { rule, limit, reads } in &mut self.limits {
            let args = judge.pack.scope(*rule).args.as_ref();
            *reads = args.is_none_or(|args| args.applies(path));
            limit.begin_text();
        }
    }

    /// Starts an object key, which no limit counts.
    pub(super) fn open_key(&mut self) {
        self.arg.clear();
        self.limits
            .iter_mut()
            .for_each(|limited| limited.reads = false);
    }

    /// Reads decoded text of the argument at that path.
    pub(super) fn push_arg(&mut self, judge: &mut Judge<'_>, path: &ArgPath, piece: Chunk<'_>) {
        if self.limits.is_empty() {
            return;
        }
        let arg = &mut self.arg;
        arg.begin(&piece);
        for Limited { rule, limit, reads } in &mut self.limits {
            if *reads {
                limit.push(piece, &mut |_, found: Detection| {
                    let near = arg.near(found, piece.bytes);
                    judge.found_by_detector(*rule, Some(path), found, Some(near));
                });
            }
        }
        arg.end(&piece);
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, judge: &mut Judge<'_>) {
        let now = judge.found.now;
        for Limited { rule, limit, .. } in &mut self.limits {
            limit.delivered(self.delivered);
            limit.time(now, &mut |_, found| {
                let near = self.trail.near(found, &[]);
                judge.found_by_detector(*rule, None, found, Some(near));
            });
        }
    }

    /// The host has counted that many tokens of the whole part: none of the arguments of a rule.
    pub(super) fn tokens(&mut self, judge: &mut Judge<'_>, tokens: u64) {
        for Limited { rule, limit, .. } in &mut self.limits {
            if self.is_tool_input && judge.pack.scope(*rule).args.is_some() {
                continue;
            }
            limit.delivered(self.delivered);
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
        let call = CallDigest::new(tool, &input);
        for (rule, limits) in &self.loops {
            let past = judge.found.pasts.entry(*rule).or_default();
            if past.calls.push(limits, call.clone()).is_some() {
                let found = Detection {
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
                let found = Detection {
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
