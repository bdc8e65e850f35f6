//! Reads a haystack for full matches: the successive matches that `regex` finds.
//!
//! The automaton tells at which positions no match is in progress. The text between two such positions is a *stretch*:
//! no match crosses its ends. A stretch in which a pattern was reported is searched for its full matches; all others are
//! dropped unsearched. The ends of stretches depend on the text alone, so deltas make no difference. Each byte is
//! stepped once and searched at most once for each pattern.

use std::ops::Range;

use super::condition::{ConditionState, FullMatch, TextPosition};
use super::context::MatchContext;
use super::exceptions::Exceptions;
use super::{Admission, HaystackScope, TextEnd};
use crate::program::{ConditionExtent, FullMatchPattern, FullMatchRules, PatternRole, TextCounts};
use crate::stream::Counters;
use crate::stream::window::Window;
use ttsr_automata::{Cursor, Matcher, SHORT, ShortStep};
use ttsr_views::chunk::{Chunk, ChunkBuffer};

/// Bytes before a stretch that look-behind and excerpts may use.
const BEFORE: usize = 64;

/// The state of the search for full matches.
#[derive(Debug)]
pub(super) struct FullMatchReader {
    cursor: Cursor,
    before: PrecedingText,
    /// The current stretch.
    stretch: ChunkBuffer,
    /// The patterns reported in the stretch, sorted.
    reported: Vec<u32>,
    conditions: ConditionState,
}

/// The haystack before the current stretch.
#[derive(Debug, Default)]
struct PrecedingText {
    /// Its last bytes.
    window: Window,
    /// Number of line feeds; 0 if [`FullMatchRules::counts`] is `Nothing`.
    lines: u64,
    /// Number of characters; 0 if [`FullMatchRules::counts`] is `Nothing`.
    chars: u64,
}

impl FullMatchReader {
    pub(super) fn new(rules: &FullMatchRules) -> FullMatchReader {
        FullMatchReader {
            cursor: rules.matcher.start(),
            before: PrecedingText::default(),
            stretch: ChunkBuffer::default(),
            reported: initially_reported(rules).collect(),
            conditions: ConditionState::default(),
        }
    }

    /// Starts another haystack.
    pub(super) fn restart(&mut self, rules: &FullMatchRules) {
        rules.matcher.restart(&mut self.cursor);
        self.before.clear();
        self.stretch.clear();
        self.reported.clear();
        self.reported.extend(initially_reported(rules));
        self.conditions = ConditionState::default();
    }

    /// Returns the offset of the first byte that a match in progress or an undecided match may contain.
    pub(super) fn undecided_from(&self) -> Option<u64> {
        let stretch = self.stretch.start();
        match self.conditions.undecided_from(|_| true) {
            None => stretch,
            Some(pending) => Some(stretch.map_or(pending, |start| start.min(pending))),
        }
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        counters.invalid_utf8 += Matcher::invalid_bytes(&self.cursor);
    }

    /// The fast path: steps a short delta in which no pattern is reported. Returns `None`, and changes nothing, if the
    /// delta is not of that kind.
    #[inline]
    pub(super) fn try_short(
        &mut self,
        rules: &FullMatchRules,
        bytes: &[u8],
        limit: usize,
    ) -> Option<ShortStep> {
        let has_room = self.stretch.bytes().len() + bytes.len() < limit;
        match has_room && self.has_nothing_to_resolve() {
            true => rules.matcher.try_step_short(&mut self.cursor, bytes),
            false => None,
        }
    }

    /// Moves over a delta that [`try_short`](Self::try_short) has stepped. `padded` are its bytes, padded with zeros.
    #[inline]
    pub(super) fn accept_short(
        &mut self,
        rules: &FullMatchRules,
        piece: Chunk<'_>,
        padded: &[u8; SHORT],
        step: ShortStep,
    ) {
        let idle_until = step.idle_until();
        rules
            .matcher
            .accept_short(&mut self.cursor, piece.bytes, step);
        if idle_until > 0 {
            self.drop_stretch(rules);
            self.before.push_short(*padded, idle_until, rules.counts);
        }
        if idle_until < piece.bytes.len() {
            self.stretch
                .push(piece.slice(idle_until..piece.bytes.len()));
        }
    }

    /// Reads a piece.
    pub(super) fn push(
        &mut self,
        rules: &FullMatchRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        exceptions: Option<&Exceptions>,
        piece: Chunk<'_>,
    ) {
        if rules.is_unbroken {
            self.push_unbroken(rules, admission, scope, exceptions, piece);
            return;
        }
        let limit = admission.context.program.limits().stretch_bytes;
        // Indices in the piece: `from` is the first byte that is in neither `before` nor the stretch, `idle_until` the
        // last end of a stretch. If there is such an end, the bytes of the stretch come before it.
        let (mut from, mut idle_until) = (0, 0);
        let mut at = 0;
        while at < piece.bytes.len() {
            let held = if idle_until > from {
                0
            } else {
                self.stretch.bytes().len()
            };
            if self.has_nothing_to_resolve() {
                let room = limit.saturating_sub(held + at - idle_until + 1);
                let end = piece.bytes.len().min(at + room);
                let run = rules.matcher.run(&mut self.cursor, &piece.bytes[at..end]);
                if run.idle_until > 0 {
                    idle_until = at + run.idle_until;
                }
                at += run.stepped;
                if run.stepped > 0 {
                    continue;
                }
            }
            let is_cut = self.step(
                rules,
                piece.bytes[at],
                limit.saturating_sub(held + at - idle_until),
            );
            admission.state.counters.cut_matches += u64::from(is_cut);
            at += 1;
            if !is_cut && !rules.matcher.is_idle(&self.cursor) {
                continue;
            }
            if self.has_nothing_to_resolve() {
                idle_until = at;
                continue;
            }
            self.skip(rules, piece.slice(from..idle_until));
            self.stretch.push(piece.slice(idle_until..at));
            let end = TextEnd {
                offset: piece.end(at - 1),
                decided: piece.decided(at - 1),
            };
            self.resolve_stretch(rules, admission, scope, exceptions, end);
            (from, idle_until) = (at, at);
        }
        self.skip(rules, piece.slice(from..idle_until));
        self.stretch
            .push(piece.slice(idle_until..piece.bytes.len()));
    }

    /// Keeps a piece for the search at the end of the haystack. A haystack that exceeds the limit is searched in parts.
    fn push_unbroken(
        &mut self,
        rules: &FullMatchRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        exceptions: Option<&Exceptions>,
        piece: Chunk<'_>,
    ) {
        let limit = admission.context.program.limits().stretch_bytes;
        let len = self.stretch.bytes().len();
        if len + piece.bytes.len() > limit && !self.stretch.is_empty() {
            let last = self.stretch.chunk_at(len - 1);
            let last = last.expect("the stretch is not empty");
            let end = TextEnd {
                offset: last.end(0),
                decided: last.decided(0),
            };
            self.resolve_stretch(rules, admission, scope, exceptions, end);
            self.reported.extend(initially_reported(rules));
            admission.state.counters.cut_matches += 1;
        }
        self.stretch.push(piece);
    }

    fn has_nothing_to_resolve(&self) -> bool {
        self.reported.is_empty() && !self.conditions.is_waiting()
    }

    /// Steps a byte. Returns true if a match in progress has reached the limit on its length, so that it is cut here.
    fn step(&mut self, rules: &FullMatchRules, byte: u8, room: usize) -> bool {
        let FullMatchReader {
            cursor, reported, ..
        } = self;
        rules.matcher.push(cursor, &[byte], |event| {
            if let Err(index) = reported.binary_search(&event.pattern) {
                reported.insert(index, event.pattern);
            }
        });
        let is_cut = room <= 1 && !rules.matcher.is_idle(cursor);
        if is_cut {
            rules.matcher.restart(cursor);
        }
        is_cut
    }

    /// Ends the haystack.
    pub(super) fn finish(
        &mut self,
        rules: &FullMatchRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        exceptions: Option<&Exceptions>,
        end: TextEnd,
    ) {
        let FullMatchReader {
            cursor, reported, ..
        } = self;
        rules.matcher.finish(cursor, |event| {
            if let Err(index) = reported.binary_search(&event.pattern) {
                reported.insert(index, event.pattern);
            }
        });
        self.resolve_stretch(rules, admission, scope, exceptions, end);
        let conditions = std::mem::take(&mut self.conditions);
        conditions.finish(self.before.chars, admission, end.decided);
    }

    /// Skips bytes that follow the stretch. No match is in progress at their end, and no pattern was reported in the
    /// stretch or in them.
    fn skip(&mut self, rules: &FullMatchRules, piece: Chunk<'_>) {
        if !piece.bytes.is_empty() {
            self.drop_stretch(rules);
            self.before.push(piece.bytes, rules.counts);
        }
    }

    /// Ends the stretch without a search.
    #[inline]
    fn drop_stretch(&mut self, rules: &FullMatchRules) {
        if !self.stretch.is_empty() {
            self.before.push(self.stretch.bytes(), rules.counts);
            self.stretch.clear();
        }
    }

    /// Ends the stretch: finds its matches, and decides the conditions that wait for a position up to here.
    fn resolve_stretch(
        &mut self,
        rules: &FullMatchRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        exceptions: Option<&Exceptions>,
        end: TextEnd,
    ) {
        let reported = std::mem::take(&mut self.reported);
        if !reported.is_empty() {
            let (mut found, incomplete) = self.search(rules, &reported, end.decided);
            admission.state.counters.unconfirmed += incomplete;
            found.sort_by_key(|it| (it.end.offset, it.start.offset, it.pattern));
            for found in &found {
                self.add_match(rules, admission, scope, exceptions, found);
            }
        }
        self.drop_stretch(rules);
        let position = TextPosition {
            offset: end.offset,
            line: self.before.lines,
            char: self.before.chars,
        };
        self.conditions
            .resolve_before(position, admission, end.decided);
    }

    /// Returns the matches of these patterns in the stretch, and the number of patterns whose search was incomplete.
    fn search(
        &self,
        rules: &FullMatchRules,
        patterns: &[u32],
        decided: u64,
    ) -> (Vec<FullMatch>, u64) {
        let (before, _) = self.before.last();
        let text = [before, self.stretch.bytes()].concat();
        let mut found = Vec::new();
        let mut incomplete = 0;
        for &pattern in patterns {
            let compiled = &rules.patterns[pattern as usize];
            let (ranges, are_all) = compiled.matches(&text, before.len());
            incomplete += u64::from(!are_all);
            for range in ranges {
                let range = range.start - before.len()..range.end - before.len();
                found.push(self.locate(pattern, range, decided));
            }
        }
        (found, incomplete)
    }

    /// Returns the match at `range` of the stretch with its positions.
    fn locate(&self, pattern: u32, range: Range<usize>, decided: u64) -> FullMatch {
        let chunk_at = |index: usize| {
            let piece = self.stretch.chunk_at(index);
            piece.expect("a match consists of bytes of the stretch")
        };
        let text = self.stretch.bytes();
        let PrecedingText {
            lines: lines_before,
            chars: chars_before,
            ..
        } = self.before;
        let line = |index: usize| lines_before + lines(&text[..index]);
        FullMatch {
            pattern,
            start: TextPosition {
                offset: chunk_at(range.start).start(0),
                line: line(range.start),
                char: chars_before + chars(&text[..range.start]),
            },
            end: TextPosition {
                offset: chunk_at(range.end - 1).end(0),
                line: line(range.end - 1),
                char: chars_before + chars(&text[..range.end]),
            },
            range,
            decided,
        }
    }

    /// Adds a match to the condition of its rule.
    fn add_match(
        &mut self,
        rules: &FullMatchRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        exceptions: Option<&Exceptions>,
        found: &FullMatch,
    ) {
        let FullMatchPattern {
            rule,
            role,
            arg: ref wanted,
            unless,
            ..
        } = rules.patterns[found.pattern as usize];
        let Some(compound) = admission.context.program.compound(rule) else {
            return;
        };
        let is_too_late = role != PatternRole::None
            && compound
                .first
                .is_some_and(|first| found.end.char > u64::from(first));
        let in_arg = match (wanted, scope.arg) {
            (Some(wanted), Some(arg)) => wanted.applies(arg),
            _ => true,
        };
        let end_in_haystack = self.before.window.total() + found.range.end as u64;
        let is_excluded = unless
            .zip(exceptions)
            .is_some_and(|(unless, exceptions)| exceptions.excludes(unless, end_in_haystack));
        if is_too_late || is_excluded || !in_arg || !admission.is_in_scope(rule, scope) {
            return;
        }
        let end = TextEnd {
            offset: found.end.offset,
            decided: found.decided,
        };
        let hit = admission.hit(rule, scope, end);
        let (before, is_all) = self.before.last();
        let context = MatchContext::in_stretch(before, self.stretch.bytes(), &found.range, is_all);
        let mut record = context.record(hit, context.start);
        record.start = Some(found.start.offset);
        record.file = scope.file.cloned();
        if compound.extent() == ConditionExtent::Haystack || compound.last.is_some() {
            let counters = &mut admission.state.counters;
            let complete = self
                .conditions
                .add_match(compound, role, found, record, counters);
            complete
                .into_iter()
                .for_each(|record| admission.admit(record));
        } else {
            admission.queue(role, found.clone(), record);
        }
    }
}

impl PrecedingText {
    fn clear(&mut self) {
        self.window.clear();
        (self.lines, self.chars) = (0, 0);
    }

    /// Returns the last bytes, and true if they are all bytes before the stretch.
    fn last(&self) -> (&[u8], bool) {
        self.window.last(BEFORE)
    }

    /// Appends bytes, and counts their lines and characters if a condition needs them.
    fn push(&mut self, bytes: &[u8], counts: TextCounts) {
        if counts == TextCounts::LinesAndChars {
            self.lines += lines(bytes);
            self.chars += chars(bytes);
        }
        self.window.push(bytes);
    }

    /// As [`push`](Self::push) for the first `len` bytes of `padded`: at least one, all of them ASCII.
    #[inline(always)]
    fn push_short(&mut self, padded: [u8; SHORT], len: usize, counts: TextCounts) {
        if counts == TextCounts::LinesAndChars {
            let kept = u128::from_le_bytes(padded) << (8 * (SHORT - len));
            self.lines += lines(&kept.to_le_bytes());
            self.chars += len as u64;
        }
        self.window.push_short(padded, len);
    }
}

/// Returns the patterns that count as reported in any stretch: those that are searched without the automaton, so that
/// no text of the haystack is dropped.
fn initially_reported(rules: &FullMatchRules) -> Range<u32> {
    match rules.is_unbroken {
        true => 0..rules.patterns.len() as u32,
        false => 0..0,
    }
}

/// Returns the number of line feeds.
fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Returns the number of characters that begin in these bytes. A byte that belongs to no character counts as one.
fn chars(bytes: &[u8]) -> u64 {
    let starts = bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80);
    starts.count() as u64
}

#[cfg(test)]
mod tests;
