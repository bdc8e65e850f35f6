//! The limits on a part as a whole: its length, its time, and repeated calls and replies.

use super::admit::{Admission, HaystackScope};
use super::haystack::MatchContext;
use super::tail_window::TailWindow;
use crate::program::{ChannelRules, DetectorSpec};
use crate::rule::Channel;
use crate::verdict::RuleId;
use ttsr_views::chunk::Chunk;
use ttsr_views::detect::Detection;
use ttsr_views::detect::doom_loop::{CallDigest, LoopLimits};
use ttsr_views::detect::limit::BoundMonitor;
use ttsr_views::detect::turns::{ReplyDigester, TurnLimits};
use ttsr_views::json::ArgPath;

/// The limits of one part.
#[derive(Debug)]
pub(super) struct PartLimits {
    limits: Vec<RuleLimit>,
    /// True for tool input, of which each argument is counted separately instead of the whole part.
    is_tool_input: bool,
    loops: Vec<(RuleId, LoopLimits)>,
    /// The input of the tool call; `None` if no rule compares calls, or if the input exceeds the limit.
    call_input: Option<Vec<u8>>,
    /// The last bytes of the part as delivered.
    tail: TailWindow,
    delivered: u64,
    /// The last bytes of the argument that is being read.
    arg_tail: TailWindow,
    turns: Vec<(RuleId, TurnLimits)>,
    /// The channel and the digest of this reply, if a rule compares replies.
    reply: Option<(Channel, Box<ReplyDigester>)>,
}

/// The limit of one rule.
#[derive(Debug)]
struct RuleLimit {
    rule: RuleId,
    limit: BoundMonitor,
    /// True if the argument that is being read is in the scope of the rule.
    reads: bool,
}

impl PartLimits {
    /// Returns `None` if no rule of the channel has such a limit.
    pub(super) fn new(
        rules: &ChannelRules,
        channel: Channel,
        now: std::time::Duration,
    ) -> Option<Box<PartLimits>> {
        let mut limits = PartLimits {
            limits: Vec::new(),
            is_tool_input: channel == Channel::ToolInput,
            loops: Vec::new(),
            call_input: None,
            tail: TailWindow::default(),
            delivered: 0,
            arg_tail: TailWindow::default(),
            turns: Vec::new(),
            reply: None,
        };
        for detector in &rules.detectors {
            let rule = detector.rule;
            match &detector.spec {
                DetectorSpec::Limit(bounds) => limits.limits.push(RuleLimit {
                    rule,
                    limit: BoundMonitor::new(*bounds, now),
                    reads: false,
                }),
                DetectorSpec::Turns(bounds) if channel != Channel::ToolInput => {
                    limits.turns.push((rule, *bounds));
                    limits
                        .reply
                        .get_or_insert_with(|| (channel, Box::default()));
                }
                DetectorSpec::DoomLoop(bounds) => limits.loops.push((rule, *bounds)),
                _ => {}
            }
        }
        limits.call_input = (!limits.loops.is_empty()).then(Vec::new);
        let is_empty =
            limits.limits.is_empty() && limits.loops.is_empty() && limits.turns.is_empty();
        (!is_empty).then(|| Box::new(limits))
    }

    /// Counts a delta.
    pub(super) fn push(&mut self, admission: &mut Admission<'_>, chunk: Chunk<'_>) {
        let now = admission.state.now;
        self.tail.begin(&chunk);
        for RuleLimit { rule, limit, .. } in &mut self.limits {
            let mut on_exceeded = |_, found: Detection| {
                let context = self.tail.context(found, chunk.bytes);
                admission.admit_finding(*rule, HaystackScope::default(), found, Some(context));
            };
            limit.delivered(self.delivered);
            limit.delta(now, &mut on_exceeded);
            if !self.is_tool_input {
                limit.push(chunk, &mut on_exceeded);
            }
        }
        // After the limits, for which it is the offset of this delta.
        self.delivered += chunk.bytes.len() as u64;
        self.tail.end(&chunk);
        if let Some((_, reply)) = &mut self.reply {
            reply.push(chunk);
        }
        let most = admission.context.program.limits().stretch_bytes;
        if let Some(input) = &mut self.call_input {
            if input.len() + chunk.bytes.len() <= most {
                input.extend_from_slice(chunk.bytes);
            } else {
                // A call that is not stored completely is never equal to another.
                self.call_input = None;
                admission.state.counters.unconfirmed += 1;
            }
        }
    }

    /// Starts the argument at that path.
    pub(super) fn open_arg(&mut self, admission: &Admission<'_>, path: &ArgPath) {
        self.arg_tail.clear();
        for RuleLimit { rule, limit, reads } in &mut self.limits {
            let args = admission.context.program.scope(*rule).args.as_ref();
            *reads = args.is_none_or(|args| args.applies(path));
            limit.begin_text();
        }
    }

    /// Starts an object key, which no limit counts.
    pub(super) fn open_key(&mut self) {
        self.arg_tail.clear();
        self.limits
            .iter_mut()
            .for_each(|limited| limited.reads = false);
    }

    /// Counts decoded text of the argument at that path.
    pub(super) fn push_arg(
        &mut self,
        admission: &mut Admission<'_>,
        path: &ArgPath,
        chunk: Chunk<'_>,
    ) {
        if self.limits.is_empty() {
            return;
        }
        let tail = &mut self.arg_tail;
        let scope = HaystackScope::from_arg(Some(path));
        tail.begin(&chunk);
        for RuleLimit { rule, limit, reads } in &mut self.limits {
            if *reads {
                limit.push(chunk, &mut |_, found: Detection| {
                    let context = tail.context(found, chunk.bytes);
                    admission.admit_finding(*rule, scope, found, Some(context));
                });
            }
        }
        tail.end(&chunk);
    }

    /// Compares the time of the stream with the limits.
    pub(super) fn tick(&mut self, admission: &mut Admission<'_>) {
        let now = admission.state.now;
        for RuleLimit { rule, limit, .. } in &mut self.limits {
            limit.delivered(self.delivered);
            limit.time(now, &mut |_, found| {
                let context = self.tail.context(found, &[]);
                admission.admit_finding(*rule, HaystackScope::default(), found, Some(context));
            });
        }
    }

    /// Sets the number of tokens of the whole part, as counted by the host. It does not apply to rules that are limited
    /// to some arguments.
    pub(super) fn set_tokens(&mut self, admission: &mut Admission<'_>, tokens: u64) {
        for RuleLimit { rule, limit, .. } in &mut self.limits {
            if self.is_tool_input && admission.context.program.scope(*rule).args.is_some() {
                continue;
            }
            limit.delivered(self.delivered);
            limit.counted(tokens, &mut |_, found| {
                let context = self.tail.context(found, &[]);
                admission.admit_finding(*rule, HaystackScope::default(), found, Some(context));
            });
        }
    }

    /// Ends the part: compares the reply or the call with earlier ones.
    pub(super) fn finish(&mut self, admission: &mut Admission<'_>, end: u64) {
        self.compare_reply(admission, end);
        // The name of the tool may have come after the input, so calls are compared at the end.
        let tool = admission.scope.tool.as_deref().unwrap_or_default();
        let Some(input) = self.call_input.take() else {
            return;
        };
        let call = CallDigest::new(tool, &input);
        for (rule, limits) in &self.loops {
            let history = admission.state.histories.get_or_default(*rule);
            if history.calls.push(limits, call.clone()).is_some() {
                let context = MatchContext::in_text(&input, &(0..input.len()));
                admission.admit_finding(
                    *rule,
                    HaystackScope::default(),
                    whole_part(end),
                    Some(context),
                );
            }
        }
    }

    /// Compares the whole reply with those before it, for the rules that limit equal turns.
    fn compare_reply(&mut self, admission: &mut Admission<'_>, end: u64) {
        let Some((channel, reply)) = self.reply.take() else {
            return;
        };
        let digest = reply.digest();
        for (rule, limits) in &self.turns {
            let history = admission.state.histories.get_or_default(*rule);
            let turns = history.turns.entry(channel).or_default();
            if turns.push(limits, digest.clone()) {
                let found = whole_part(end);
                let context = self.tail.context(found, &[]);
                admission.admit_finding(*rule, HaystackScope::default(), found, Some(context));
            }
        }
    }
}

/// Returns the finding of a part of `end` bytes.
fn whole_part(end: u64) -> Detection {
    Detection {
        start: 0,
        end,
        decided: end,
    }
}
