//! The state of compound conditions: which of the patterns of a rule have matched, and where.
//!
//! A [`ConditionState`] belongs to one haystack, one part or one reply. Its memory does not grow with the text: it keeps,
//! for each rule, the matches that may still matter, and at most [`PENDING_MATCHES`] that wait. Further ones merge with one
//! that is kept, as those in [`pending`](super::pending) do: the rule may then hit where it should not, but never misses.

use std::collections::VecDeque;
use std::ops::Range;

use super::admit::Admission;
use super::pending::last_alike;
use crate::program::{CompoundCondition, ConditionExtent, PatternRole};
use crate::rule::Within;
use crate::stream::Counters;
use crate::stream::buffers::PENDING_MATCHES;
use crate::stream::state::RecordedMatch;
use crate::verdict::RuleId;

/// A position in the part and in the haystack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::stream) struct TextPosition {
    /// Offset in the part as delivered.
    pub(in crate::stream) offset: u64,
    /// Number of line feeds of the haystack before it.
    pub(super) line: u64,
    /// Number of characters of the haystack before it.
    pub(super) char: u64,
}

/// A full match of a pattern.
#[derive(Clone, Debug)]
pub(in crate::stream) struct FullMatch {
    pub(super) pattern: u32,
    /// The position of its first character.
    pub(in crate::stream) start: TextPosition,
    /// The position after its last character; its line is that of the last character.
    pub(in crate::stream) end: TextPosition,
    /// The range of the match in its stretch.
    pub(super) range: Range<usize>,
    pub(in crate::stream) decided: u64,
}

/// The state of the conditions of several rules.
#[derive(Debug, Default)]
pub(in crate::stream) struct ConditionState {
    rules: Vec<(RuleId, RuleProgress)>,
    /// True if a match waits.
    has_pending: bool,
}

/// The state of the condition of one rule.
#[derive(Debug, Default)]
struct RuleProgress {
    /// For each pattern of `all`: its match that begins last.
    all: Vec<Option<MatchSpan>>,
    /// For each pattern of `sequence`: the ends that the sequence up to it can have, each with the latest start.
    sequence: Vec<VecDeque<MatchSpan>>,
    /// For each pattern of a sequence over several parts: its matches that the sequence may contain, in the order of
    /// their positions, in which they need not arrive.
    over_parts: Vec<VecDeque<MatchSpan>>,
    /// The exception that begins last.
    none: Option<MatchSpan>,
    /// Complete matches that an exception may still cancel, or that wait for the end of the text.
    pending: VecDeque<PendingMatch>,
    /// A position that no pending match begins before.
    earliest_pending: TextPosition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MatchSpan {
    start: TextPosition,
    end: TextPosition,
}

/// A match that completes its condition, but may be cancelled.
#[derive(Debug)]
struct PendingMatch {
    /// The span of the condition; of several matches, the earliest start and the end of the last one.
    span: MatchSpan,
    /// The start of the condition; of several matches, that of the last one.
    start: TextPosition,
    /// The match of the pattern that completed the condition.
    last: MatchSpan,
    record: RecordedMatch,
}

impl ConditionState {
    /// Returns true if a match of the rule waits for later text.
    #[inline]
    pub(super) fn is_waiting(&self, rule: RuleId) -> bool {
        let mut rules = self.rules.iter();
        self.has_pending
            && rules.any(|(known, progress)| *known == rule && !progress.pending.is_empty())
    }

    /// Returns true if no rule with a condition has matched.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the offset of the first byte of a pending match of a rule that holds.
    pub(in crate::stream) fn undecided_from(&self, holds: impl Fn(RuleId) -> bool) -> Option<u64> {
        let held = self.rules.iter().filter(|(rule, _)| holds(*rule));
        let pending = held.flat_map(|(_, known)| &known.pending);
        pending.map(|pending| pending.span.start.offset).min()
    }

    /// Adds a match of a pattern. Returns a match that completes the condition and that nothing can cancel, or that is one
    /// too many of those that wait.
    pub(super) fn add_match(
        &mut self,
        compound: &CompoundCondition,
        role: PatternRole,
        found: &FullMatch,
        record: RecordedMatch,
        counters: &mut Counters,
    ) -> Option<RecordedMatch> {
        let span = MatchSpan {
            start: found.start,
            end: found.end,
        };
        let progress = self.progress(record.hit.rule, compound);
        let whole = progress.complete(compound, role, span, counters);
        let waits = compound.has_none || compound.last.is_some();
        let mut complete = None;
        if let Some(whole) = whole {
            if !waits {
                return Some(record);
            }
            let pending = PendingMatch {
                span: whole,
                start: whole.start,
                last: span,
                record,
            };
            if matches!(role, PatternRole::All(_)) {
                progress.drop_superseded(&pending);
            }
            complete = progress.add_pending(compound, pending, counters);
        }
        self.update_has_pending();
        complete
    }

    /// Admits the pending matches of the rule that no text at `position` or later can cancel.
    pub(super) fn resolve_before(
        &mut self,
        rule: RuleId,
        position: TextPosition,
        admission: &mut Admission<'_>,
        decided: u64,
    ) {
        if !self.is_waiting(rule) {
            return;
        }
        let Some(compound) = admission.context.program.compound(rule) else {
            return;
        };
        let progress = self.progress(rule, compound);
        // PERF: testing each of 256 pending matches at every byte took 52,000 instructions a byte
        // (`cargo bench --bench instructions -- --growth`).
        if compound.last.is_some()
            || !is_out_of_reach(compound.within, progress.earliest_pending, position)
        {
            return;
        }
        for pending in std::mem::take(&mut progress.pending) {
            if is_out_of_reach(compound.within, pending.span.start, position) {
                admission.admit(pending.record.decided_at(decided));
            } else {
                progress.push_pending(pending);
            }
        }
        self.update_has_pending();
    }

    fn update_has_pending(&mut self) {
        let mut rules = self.rules.iter();
        self.has_pending = rules.any(|(_, progress)| !progress.pending.is_empty());
    }

    /// Ends the text, which has `chars` characters: admits the pending matches, in the order in which they were added.
    pub(super) fn finish(self, chars: u64, admission: &mut Admission<'_>, decided: u64) {
        for (rule, progress) in self.rules {
            let Some(compound) = admission.context.program.compound(rule) else {
                continue;
            };
            for PendingMatch { start, record, .. } in progress.pending {
                let is_in_reach = compound
                    .last
                    .is_none_or(|last| start.char + u64::from(last) >= chars);
                if is_in_reach {
                    admission.admit(record.decided_at(decided));
                }
            }
        }
    }

    /// Returns the progress of a rule, and adds it if it is new.
    fn progress(&mut self, rule: RuleId, compound: &CompoundCondition) -> &mut RuleProgress {
        let index = match self.rules.iter().position(|(known, _)| *known == rule) {
            Some(index) => index,
            None => {
                let progress = RuleProgress {
                    all: vec![None; compound.all],
                    sequence: vec![VecDeque::new(); compound.sequence],
                    over_parts: vec![VecDeque::new(); compound.sequence],
                    ..RuleProgress::default()
                };
                self.rules.push((rule, progress));
                self.rules.len() - 1
            }
        };
        &mut self.rules[index].1
    }
}

impl RuleProgress {
    /// Adds a match. Returns the span of the condition if the match completes it, exceptions aside.
    fn complete(
        &mut self,
        compound: &CompoundCondition,
        role: PatternRole,
        span: MatchSpan,
        counters: &mut Counters,
    ) -> Option<MatchSpan> {
        match role {
            PatternRole::Any => Some(span),
            PatternRole::All(index) => self.complete_all(compound, index as usize, span),
            PatternRole::Sequence(index) if compound.extent() == ConditionExtent::Message => {
                self.complete_over_parts(index as usize, span, counters)
            }
            PatternRole::Sequence(index) => {
                self.complete_sequence(compound, index as usize, span, counters)
            }
            PatternRole::None => {
                self.add_exception(compound, span);
                None
            }
        }
    }

    /// Adds a match of pattern `index` of `all`. Returns the span of all patterns if each has matched within the
    /// distance.
    fn complete_all(
        &mut self,
        compound: &CompoundCondition,
        index: usize,
        span: MatchSpan,
    ) -> Option<MatchSpan> {
        // Of the matches of one pattern, the one that begins last is the nearest to any later match of another.
        let known = &mut self.all[index];
        if known.is_none_or(|known| known.start <= span.start) {
            *known = Some(span);
        }
        let mut whole = span;
        for (other, known) in self.all.iter().enumerate() {
            if other != index {
                whole = whole.with((*known)?);
            }
        }
        fits_within(compound.within, whole).then_some(whole)
    }

    /// Adds a match of step `index` of the sequence. Returns the span of the steps if it is the last one and follows
    /// the others within the distance.
    fn complete_sequence(
        &mut self,
        compound: &CompoundCondition,
        index: usize,
        span: MatchSpan,
        counters: &mut Counters,
    ) -> Option<MatchSpan> {
        let whole = match index.checked_sub(1) {
            None => span,
            Some(before) => {
                let ends = self.sequence[before].iter();
                let reachable = ends.filter(|known| known.end.offset <= span.start.offset);
                let latest = reachable.max_by_key(|known| known.start)?;
                MatchSpan {
                    start: latest.start,
                    end: span.end,
                }
            }
        };
        if !fits_within(compound.within, whole) {
            return None;
        }
        if index + 1 == self.sequence.len() {
            return Some(whole);
        }
        let ends = &mut self.sequence[index];
        let distance = matches!(compound.within, Within::Lines(_) | Within::Chars(_));
        if !distance && !ends.is_empty() {
            // Without a bound on the distance, the first end is as good as any later one.
            return None;
        }
        // An end that is too far from this match is too far from any later one as well. The oldest end is the farthest.
        let is_far = |known: &mut MatchSpan| !fits_within(compound.within, known.with(span));
        while ends.len() >= PENDING_MATCHES && ends.pop_front_if(is_far).is_some() {}
        ends.push_back(whole);
        limit_spans(ends, counters);
        None
    }

    /// As [`complete_sequence`](Self::complete_sequence), for a sequence over parts, which may interleave.
    fn complete_over_parts(
        &mut self,
        index: usize,
        span: MatchSpan,
        counters: &mut Counters,
    ) -> Option<MatchSpan> {
        let matches = &mut self.over_parts[index];
        let at = matches.partition_point(|known| known.end.offset <= span.end.offset);
        matches.insert(at, span);
        let mut whole: Option<MatchSpan> = None;
        for matches in &mut self.over_parts {
            let from = whole.map_or(0, |whole| whole.end.offset);
            let Some(&first) = matches.iter().find(|it| it.start.offset >= from) else {
                whole = None;
                break;
            };
            // The patterns before end no earlier than at `from`, and a match that is found later can only move that
            // end to the front. So of the matches after it only the one that ends first can be needed.
            matches.retain(|it| it.start.offset < from || *it == first);
            whole = Some(whole.map_or(first, |whole| whole.with(first)));
        }
        if whole.is_some() {
            self.over_parts.iter_mut().for_each(VecDeque::clear);
            return whole;
        }
        limit_spans(&mut self.over_parts[index], counters);
        None
    }

    /// Adds an exception, and cancels the pending matches that it is near.
    fn add_exception(&mut self, compound: &CompoundCondition, span: MatchSpan) {
        // The exception that begins last is the nearest to any later match.
        if self.none.is_none_or(|known| known.start <= span.start) {
            self.none = Some(span);
        }
        self.pending
            .retain(|pending| !fits_within(compound.within, pending.span.with(span)));
    }

    /// Keeps a match until no exception near it can follow.
    fn push_pending(&mut self, pending: PendingMatch) {
        let start = pending.span.start;
        self.earliest_pending = match self.pending.is_empty() {
            true => start,
            false => self.earliest_pending.min(start),
        };
        self.pending.push_back(pending);
    }

    /// Drops the pending match that the same text completed. Several patterns of `all` may match the same text: the first
    /// of them completes the condition with an older match of the others, the last one with their matches of this text,
    /// which begin later. Only the match that begins last counts.
    fn drop_superseded(&mut self, by: &PendingMatch) {
        self.pending.retain(|pending| {
            pending.last != by.last || pending.record.hit.part != by.record.hit.part
        });
    }

    /// Adds a complete match that an exception or the end of the text may cancel. If too many wait, the last one whose
    /// scope is decided like that of one before it merges with that one. If there is none, returns the match.
    fn add_pending(
        &mut self,
        compound: &CompoundCondition,
        pending: PendingMatch,
        counters: &mut Counters,
    ) -> Option<RecordedMatch> {
        let span = pending.span;
        let is_excepted = self
            .none
            .is_some_and(|known| fits_within(compound.within, span.with(known)));
        if is_excepted {
            return None;
        }
        if let Some(last) = compound.last {
            // A match that is too far from here is also too far from the end.
            let is_far = |from: TextPosition| span.end.char - from.char > u64::from(last);
            self.pending.retain(|pending| !is_far(pending.start));
        }
        if compound.reports_every() || self.pending.len() < PENDING_MATCHES {
            self.push_pending(pending);
            return None;
        }
        counters.unconfirmed += 1;
        self.earliest_pending = self.earliest_pending.min(span.start);
        // PERF: in most text all are alike. With the search below for each match, the pair of `growth` with matches that wait
        // to the end of the line takes 3 % more instructions.
        if let Some(newest) = self.pending.back_mut().filter(|it| it.is_alike(&pending)) {
            newest.merge(pending, compound);
            return None;
        }
        self.push_pending(pending);
        let is_alike = |a: usize, b: usize| self.pending[a].is_alike(&self.pending[b]);
        let Some((kept, merged)) = last_alike(0..self.pending.len(), is_alike) else {
            return self.pending.pop_back().map(|pending| pending.record);
        };
        let merged = self.pending.remove(merged)?;
        self.pending[kept].merge(merged, compound);
        None
    }
}

impl PendingMatch {
    /// Returns true if the scopes of both are decided alike.
    fn is_alike(&self, other: &PendingMatch) -> bool {
        let (one, other) = (&self.record, &other.record);
        one.allowed_texts == other.allowed_texts && one.file == other.file
    }

    /// Merges with a match that was added later: what cancels both must be near both. If the match that begins last decides,
    /// that one is kept.
    fn merge(&mut self, mut later: PendingMatch, compound: &CompoundCondition) {
        self.span = self.span.with(later.span);
        self.start = self.start.max(later.start);
        if compound.last.is_some() {
            std::mem::swap(&mut self.record, &mut later.record);
        }
        self.record.merge(later.record, compound.redacts);
    }
}

impl MatchSpan {
    /// Returns a span that follows and precedes whatever this one or a later one does.
    fn either(self, later: MatchSpan) -> MatchSpan {
        MatchSpan {
            start: self.start.max(later.start),
            end: self.end.min(later.end),
        }
    }

    /// Returns the smallest span that contains both.
    fn with(self, other: MatchSpan) -> MatchSpan {
        MatchSpan {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// Limits the number of matches of a step: the first two merge. The sequence may then seem to follow where it does not, and
/// is not missed.
fn limit_spans(spans: &mut VecDeque<MatchSpan>, counters: &mut Counters) {
    if spans.len() > PENDING_MATCHES
        && let Some(first) = spans.pop_front()
    {
        spans[0] = first.either(spans[0]);
        counters.unconfirmed += 1;
    }
}

/// Returns true if the span is no longer than `within`.
fn fits_within(within: Within, span: MatchSpan) -> bool {
    match within {
        Within::Lines(lines) => span.end.line - span.start.line < u64::from(lines),
        Within::Chars(chars) => span.end.char - span.start.char <= u64::from(chars),
        Within::Part | Within::Message => true,
    }
}

/// Returns true if nothing that begins at `position` or later can be near a match that begins at `start`.
fn is_out_of_reach(within: Within, start: TextPosition, position: TextPosition) -> bool {
    match within {
        Within::Lines(lines) => position.line - start.line >= u64::from(lines),
        Within::Chars(chars) => position.char - start.char >= u64::from(chars),
        Within::Part | Within::Message => false,
    }
}
