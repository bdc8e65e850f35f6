//! Hits, decisions and verdicts: ids and numbers, and the one pure function that ranks several hits.

use std::cmp::Ordering;

use crate::rule::{Action, Rule};

/// One block of a reply, as the host numbers it. Any numbers will do; parts are not indexed by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub u32);

/// A rule of a pack: its place in [`Pack::rules`](crate::Pack::rules).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub(crate) u32);

impl RuleId {
    /// The place of the rule in [`Pack::rules`](crate::Pack::rules).
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A rule's condition became true. Ids and offsets only; text is asked for with
/// [`Stream::excerpt`](crate::Stream::excerpt).
///
/// Both offsets count bytes of the part *as delivered*, also where the rule saw decoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use]
pub struct Hit {
    /// The end of the match, in bytes.
    pub end: u64,
    /// Number of bytes of the part delivered when the hit became certain: `decided >= end`.
    pub decided: u64,
    /// The part it was found in.
    pub part: PartId,
    /// The rule that was broken.
    pub rule: RuleId,
    pub(crate) arg: u32,
}

/// `Hit::arg` of a hit that is not inside an argument.
pub(crate) const NO_ARG: u32 = u32::MAX;

/// Why a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// A rule was broken.
    Rule(RuleId),
    /// A bound of [`Limits`](crate::Limits) was reached; the text names the bound.
    Limit(&'static str),
}

/// What the harness must do, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// The rule or limit that decided.
    pub source: Source,
    /// The hit it rests on; for a limit, where the limit was reached.
    pub hit: Hit,
    /// The attempt it was made in, counted from 1 within a turn.
    pub attempt: u32,
    /// The policy kept this one silent: nothing to do, but worth a line in a log.
    pub suppressed: bool,
}

/// What to do after a delta: nothing, or one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Verdict {
    /// Forward the delta.
    Continue,
    /// Act on the decision; if its action [cuts](Action::cuts), before the delta is forwarded.
    Act(Decision),
}

/// Ranks hits that became certain at the same byte: the stronger action first, then the higher
/// priority, then the worse severity, then the full rule id.
pub(crate) fn rank(a: &Rule, b: &Rule) -> Ordering {
    let key = |rule: &Rule| (rule.action, rule.priority, rule.severity);
    key(b).cmp(&key(a)).then_with(|| a.id.cmp(&b.id))
}
