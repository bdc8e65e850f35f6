//! The state of a stream beyond its open parts, split by lifetime: [`CallResults`] for one call, [`StreamState`] for
//! the whole reply.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::closed::ClosedParts;
use super::history::RuleHistories;
use super::part::condition::{ConditionState, FullMatch};
use super::{Counters, Redaction};
use crate::pack::CapturedTexts;
use crate::program::{PatternRole, Program};
use crate::rule::{Count, Per};
use crate::verdict::{Hit, NO_ARG, PartId, RuleId, Source};
use ttsr_views::detect::unknown_name::KnownNames;
use ttsr_views::json::ArgPath;

/// The state of a stream that its parts share.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    pub(super) results: CallResults,
    pub(super) state: StreamState,
}

/// The results of the current call.
#[derive(Debug, Default)]
pub(super) struct CallResults {
    pub(super) hits: Vec<Hit>,
    /// The limit that was reached, until a session asks for it.
    pub(super) limit: Option<Source>,
    /// Matches for conditions that are decided on a part or on the reply.
    pub(super) queued: Vec<QueuedMatch>,
    /// Matches of rules that count.
    pub(super) counting: Vec<RecordedMatch>,
}

/// The state that lasts for the whole reply.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    /// The number of the attempt in its turn, from 1.
    pub(super) attempt: u32,
    /// Number of packs that the session had before the pack of this stream.
    pub(super) generation: u32,
    /// True if the session is in shadow: nothing is held back or redacted.
    pub(super) is_shadow: bool,
    /// By rule: true if the rule is out of scope in this stream. `None` if no rule is.
    pub(super) excluded: Option<Arc<[bool]>>,
    /// The histories of rules from earlier replies.
    pub(super) histories: RuleHistories,
    /// Names that the host knows.
    pub(super) known: Option<Arc<KnownNames>>,
    /// The time of the last tick.
    pub(super) now: Duration,
    /// Number of parts opened so far.
    pub(super) opened: u32,
    pub(super) closed: ClosedParts,
    /// The text of every hit.
    pub(super) records: Vec<RecordedMatch>,
    /// The argument paths that hits refer to by index.
    pub(super) args: Vec<Box<str>>,
    pub(super) counters: Counters,
    pub(super) counts: Vec<MatchCount>,
    /// Conditions that are decided on the whole reply. None of them waits for its end.
    pub(super) conditions: ConditionState,
    /// Ordered by part, start, end and rule.
    pub(super) redactions: Vec<Redaction>,
    /// Captures of rules that hit a text which was delivered whole.
    pub(super) captures: Vec<(RuleId, CapturedTexts)>,
}

/// A match with its text, which is copied while it is available.
#[derive(Clone, Debug)]
pub(crate) struct RecordedMatch {
    pub(crate) hit: Hit,
    /// Offset of the first byte of the match in the part as delivered, if it is known.
    pub(crate) start: Option<u64>,
    /// The file that the text belongs to, if the text itself names it.
    pub(super) file: Option<Arc<str>>,
    /// Up to [`WINDOW`](super::window::WINDOW) bytes around the match.
    pub(crate) text: Box<str>,
    /// The range of the match in `text`.
    pub(crate) matched: Range<usize>,
}

/// A match for a condition that is decided on a part or on the reply.
#[derive(Debug)]
pub(super) struct QueuedMatch {
    pub(super) role: PatternRole,
    pub(super) found: FullMatch,
    pub(super) record: RecordedMatch,
}

/// Number of matches of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchCount {
    pub(super) rule: RuleId,
    /// The part, for a rule that counts by part.
    part: Option<PartId>,
    pub(super) matches: u64,
}

impl RecordedMatch {
    /// Returns the match with its hit certain no earlier than at `decided`.
    pub(super) fn decided_at(mut self, decided: u64) -> RecordedMatch {
        self.hit.decided = self.hit.decided.max(decided);
        self
    }
}

impl CallResults {
    /// Returns the index of the rule's hit in that part, if it is one of this call.
    pub(super) fn hit_index(&self, rule: RuleId, part: PartId) -> Option<usize> {
        self.hits
            .iter()
            .position(|hit| (hit.rule, hit.part) == (rule, part))
    }

    /// Counts the matches of this call in the order in which they became certain, and reports those that reach the
    /// number of their rule.
    pub(super) fn resolve_counts(&mut self, program: &Program, state: &mut StreamState) {
        let mut counting = std::mem::take(&mut self.counting);
        counting.sort_by_key(|record| (record.hit.decided, record.hit.end, record.hit.rule));
        for record in counting {
            let Hit { rule, part, .. } = record.hit;
            let Some(compound) = program.compound(rule) else {
                continue;
            };
            let Some(Count { times, per }) = compound.count else {
                continue;
            };
            let counted_in = (per == Per::Part).then_some(part);
            let before = match (per, state.histories.get(rule)) {
                (Per::Turn, Some(history)) => history.turn,
                (Per::Session, Some(history)) => history.session,
                _ => 0,
            };
            let matches = before + state.increment_count(rule, counted_in);
            if matches < u64::from(times) {
                continue;
            }
            if compound.reports_every() {
                state.records.push(record);
            } else if !state.has_record(rule, part) {
                self.hits.push(record.hit);
                state.records.push(record);
            }
        }
    }
}

impl StreamState {
    /// Returns the recorded match of a hit, or `None` for a hit of another stream.
    pub(super) fn record(&self, hit: &Hit) -> Option<&RecordedMatch> {
        self.records.iter().find(|record| record.hit == *hit)
    }

    /// Returns the index that hits refer to an argument by.
    pub(super) fn arg_index(&mut self, arg: Option<&ArgPath>) -> u32 {
        let Some(arg) = arg else {
            return NO_ARG;
        };
        let dotted = arg.dotted();
        let known = self.args.iter().rposition(|known| **known == *dotted);
        let index = known.unwrap_or_else(|| {
            self.args.push(dotted.into());
            self.args.len() - 1
        });
        index as u32
    }

    /// Counts a match that cannot be decided, because too many of its rule wait already. Its text is redacted if the rule
    /// redacts: text that may have to be redacted is never released.
    pub(super) fn add_undecided(&mut self, program: &Program, record: &RecordedMatch) {
        self.counters.unconfirmed += 1;
        self.redact(program, record);
    }

    /// Adds the redaction of a match, if its rule redacts.
    pub(super) fn redact(&mut self, program: &Program, record: &RecordedMatch) {
        let Hit {
            rule, part, end, ..
        } = record.hit;
        let redacts = program.compound(rule).is_some_and(|it| it.redacts);
        let Some(start) = record.start else {
            return;
        };
        if !redacts || !program.rule(rule).holds_live() {
            return;
        }
        let redaction = Redaction {
            part,
            rule,
            start,
            end,
        };
        // The views of one delta are read one after the other, so matches are not found in the order of their offsets.
        let key = |it: &Redaction| (it.part, it.start, it.end, it.rule);
        let index = self
            .redactions
            .partition_point(|known| key(known) <= key(&redaction));
        self.redactions.insert(index, redaction);
    }

    /// Counts one more match of the rule and returns the number of its matches.
    fn increment_count(&mut self, rule: RuleId, part: Option<PartId>) -> u64 {
        let counts = &mut self.counts;
        let known = counts
            .iter()
            .position(|known| (known.rule, known.part) == (rule, part));
        let index = known.unwrap_or_else(|| {
            counts.push(MatchCount {
                rule,
                part,
                matches: 0,
            });
            counts.len() - 1
        });
        counts[index].matches += 1;
        counts[index].matches
    }

    fn has_record(&self, rule: RuleId, part: PartId) -> bool {
        self.records
            .iter()
            .any(|record| (record.hit.rule, record.hit.part) == (rule, part))
    }
}
