//! The state of a stream beyond its open parts, split by lifetime: [`CallResults`] for one call, [`StreamState`] for
//! the whole reply.

use std::collections::{BTreeMap, BTreeSet};
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
use crate::verdict::{Hit, PartId, RuleId, Source};
use ttsr_views::detect::unknown_name::KnownNames;
use ttsr_views::glob::GlobSet;

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
    pub(super) counters: Counters,
    /// The counts of the rules that count over the reply or longer, by rule.
    pub(super) counts: Vec<MatchCount>,
    /// Conditions that are decided on the whole reply. None of them waits for its end.
    pub(super) conditions: ConditionState,
    // Boxed: most replies have none of it, and a stream is opened and dropped for each of them.
    pub(super) by_part: Option<Box<MatchesByPart>>,
    /// Captures of rules that hit a text which was delivered whole.
    pub(super) captures: Vec<(RuleId, CapturedTexts)>,
}

/// The redactions and the counts of the parts.
#[derive(Debug, Default)]
pub(super) struct MatchesByPart {
    /// By part, each ordered by start, end and rule.
    redactions: BTreeMap<PartId, Vec<Redaction>>,
    /// The counts of the rules that count in a part, of the open parts.
    counts: BTreeMap<PartId, Vec<MatchCount>>,
    /// The rules that count and the parts in which they have hit.
    counted_hits: BTreeSet<(RuleId, PartId)>,
}

/// A match with its text, which is copied while it is available.
#[derive(Clone, Debug)]
pub(crate) struct RecordedMatch {
    pub(crate) hit: Hit,
    /// Offset of the first byte of the match in the part as delivered, if it is known.
    pub(crate) start: Option<u64>,
    /// The file that the text belongs to, if the text itself names it.
    pub(super) file: Option<Arc<str>>,
    /// The dotted path of the argument that the text belongs to.
    pub(crate) arg: Option<Box<str>>,
    /// Matches of its rule that are decided like this one, and were not kept because too many wait.
    pub(super) merged: Option<Box<MergedMatches>>,
    /// For each allow entry of the rule: true if its globs on the text match the matched text, or if it has none. Empty if
    /// no entry has any.
    pub(super) allowed_texts: Box<[bool]>,
    /// Up to [`WINDOW`](super::window::WINDOW) bytes around the match.
    pub(crate) text: Box<str>,
    /// The range of the match in `text`.
    pub(crate) matched: Range<usize>,
}

/// Matches that another one stands for.
#[derive(Clone, Debug, Default)]
pub(super) struct MergedMatches {
    count: u64,
    /// The least start of them.
    from: Option<u64>,
    /// Their ranges, if their rule redacts.
    ranges: Vec<Range<u64>>,
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
    pub(super) matches: u64,
}

impl RecordedMatch {
    /// Compares the matched text with the globs of the allow entries.
    pub(super) fn compare_allowed(&mut self, program: &Program, matched: &str) {
        self.set_allowed(program, |globs| globs.is_match(matched));
    }

    /// Lets no allow entry with globs on the text apply.
    pub(super) fn allow_no_text(&mut self, program: &Program) {
        self.set_allowed(program, |_| false);
    }

    fn set_allowed(&mut self, program: &Program, matches: impl Fn(&GlobSet) -> bool) {
        let entries = program.allows(self.hit.rule).iter();
        if entries.clone().any(|entry| entry.text.is_some()) {
            let matches = |globs: &Arc<GlobSet>| matches(globs);
            self.allowed_texts = entries
                .map(|entry| entry.text.as_ref().is_none_or(matches))
                .collect();
        }
    }

    /// Returns the number of matches that it stands for.
    fn matches(&self) -> u64 {
        1 + self.merged.as_ref().map_or(0, |merged| merged.count)
    }

    /// Returns the least start of the matches that it stands for.
    pub(super) fn first_start(&self) -> Option<u64> {
        let merged = self.merged.as_ref().and_then(|merged| merged.from);
        self.start.into_iter().chain(merged).min()
    }

    /// Stands for another match from now on, and for those that it stood for.
    pub(super) fn merge(&mut self, mut other: RecordedMatch, redacts: bool) {
        self.take_merged(&mut other);
        let merged = self.merged.get_or_insert_default();
        merged.count += 1;
        merged.from = merged.from.into_iter().chain(other.start).min();
        if redacts && let Some(start) = other.start {
            merged.ranges.push(start..other.hit.end);
        }
    }

    /// Stands for the matches that another one stood for.
    pub(super) fn take_merged(&mut self, other: &mut RecordedMatch) {
        match (&mut self.merged, other.merged.take()) {
            (_, None) => {}
            (Some(merged), Some(others)) => {
                merged.count += others.count;
                merged.from = merged.from.into_iter().chain(others.from).min();
                merged.ranges.extend(others.ranges);
            }
            (merged, others) => *merged = others,
        }
    }

    /// Returns true if the allow entry with this index has no globs on the text, or one that matches the matched text.
    pub(super) fn has_allowed_text(&self, entry: usize) -> bool {
        self.allowed_texts.get(entry).is_none_or(|matches| *matches)
    }

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
            let before = match (per, state.histories.get(rule)) {
                (Per::Turn, Some(history)) => history.turn,
                (Per::Session, Some(history)) => history.session,
                _ => 0,
            };
            let by_part = state.by_part.get_or_insert_default();
            let counts = match per {
                Per::Part => by_part.counts.entry(part).or_default(),
                _ => &mut state.counts,
            };
            if before + add_count(counts, rule, record.matches()) < u64::from(times) {
                continue;
            }
            if compound.reports_every() {
                state.records.push(record);
                continue;
            }
            state.redact(program, &record);
            let by_part = state.by_part.get_or_insert_default();
            if by_part.counted_hits.insert((rule, part)) {
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

    /// Adds the redactions of a match and of those that it stands for, if their rule redacts.
    pub(super) fn redact(&mut self, program: &Program, record: &RecordedMatch) {
        let Hit {
            rule, part, end, ..
        } = record.hit;
        let redacts = program.compound(rule).is_some_and(|it| it.redacts);
        let is_excluded = |excluded: &Arc<[bool]>| excluded[rule.index()];
        if !redacts
            || !program.rule(rule).holds_live()
            || self.excluded.as_ref().is_some_and(is_excluded)
        {
            return;
        }
        let by_part = self.by_part.get_or_insert_default();
        let known = by_part.redactions.entry(part).or_default();
        // The views of one delta are read one after the other, so matches are not found in the order of their offsets.
        let key = |it: &Redaction| (it.start, it.end, it.rule);
        let redaction = |range: Range<u64>| Redaction {
            part,
            rule,
            start: range.start,
            end: range.end,
        };
        if let Some(start) = record.start {
            let redaction = redaction(start..end);
            let index = known.partition_point(|known| key(known) <= key(&redaction));
            known.insert(index, redaction);
        }
        if let Some(merged) = &record.merged {
            known.extend(merged.ranges.iter().cloned().map(redaction));
            known.sort_by_key(key);
        }
    }

    /// Returns the redactions of a part.
    pub(super) fn redactions(&self, part: PartId) -> &[Redaction] {
        let by_part = self.by_part.as_deref();
        let known = by_part.and_then(|it| it.redactions.get(&part));
        known.map_or(&[], Vec::as_slice)
    }

    /// Drops the redactions of a part that begin before `offset`.
    pub(super) fn forget_redactions(&mut self, part: PartId, offset: u64) {
        let by_part = self.by_part.as_deref_mut();
        if let Some(known) = by_part.and_then(|it| it.redactions.get_mut(&part)) {
            known.drain(..known.partition_point(|it| it.start < offset));
        }
    }

    /// Drops what is kept of a part only while it is open.
    pub(super) fn end_part(&mut self, part: PartId) {
        if let Some(by_part) = &mut self.by_part {
            by_part.counts.remove(&part);
        }
    }
}

/// Counts more matches of the rule and returns the number of its matches. The counts are ordered by rule.
fn add_count(counts: &mut Vec<MatchCount>, rule: RuleId, matches: u64) -> u64 {
    let index = counts.partition_point(|known| known.rule < rule);
    match counts.get_mut(index) {
        Some(known) if known.rule == rule => {
            known.matches += matches;
            known.matches
        }
        _ => {
            counts.insert(index, MatchCount { rule, matches });
            matches
        }
    }
}
