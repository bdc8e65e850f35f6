//! The search for the full matches of one rule.
//!
//! An automaton of the rule tells at which positions none of its matches is in progress. The text between two such
//! positions is a *stretch*: no match crosses its ends. A stretch in which a pattern was reported is searched for the
//! full matches of that pattern. The ends of stretches depend on the text and the rule alone, so deltas and other rules
//! make no difference. Each byte is stepped once and searched at most once for each pattern.

use std::ops::Range;

use super::super::condition::{ConditionState, FullMatch};
use super::super::context::MatchContext;
use super::FullMatchInput;
use super::held_text::{HeldText, PrecedingCounts};
use crate::program::{
    ConditionExtent, FullMatchPattern, FullMatchRule, FullMatchRules, PatternRole,
};
use ttsr_automata::Cursor;
use ttsr_views::chunk::DecidedOffset;

/// The bytes before a position that decide its look-behind: they contain the last character, even if they begin within
/// another one.
const LOOK_BEHIND: usize = 8;

/// The search of one rule. Indices are those of the held text.
#[derive(Debug)]
pub(super) struct RuleSearch {
    /// The index in [`FullMatchRules::rules`].
    rule: usize,
    cursor: Cursor,
    /// The index after the last byte that was read.
    at: usize,
    /// The start of the stretch.
    start: usize,
    /// The lines and characters before it.
    counts: PrecedingCounts,
    /// The patterns reported in the stretch, sorted.
    reported: Vec<u32>,
    /// The least index at which the search could begin again with the same result from here on, and without repeating a
    /// match or a cut.
    repeatable_from: usize,
}

impl RuleSearch {
    /// Begins at an index at which no match of the rule is in progress.
    pub(super) fn new(
        rules: &FullMatchRules,
        rule: usize,
        text: &HeldText,
        from: usize,
    ) -> RuleSearch {
        let matcher = &rules.rules[rule].matcher;
        let mut cursor = matcher.start();
        let (before, _) = text.before(from);
        if !before.is_empty() {
            let look_behind = before.len().saturating_sub(LOOK_BEHIND);
            matcher.restart_after(&mut cursor, &before[look_behind..]);
        }
        RuleSearch {
            rule,
            cursor,
            at: from,
            start: from,
            counts: text.counts_at(from),
            reported: Vec::new(),
            repeatable_from: from,
        }
    }

    pub(super) fn rule(&self) -> usize {
        self.rule
    }

    /// Returns the start of the stretch.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Returns false if the search need not go on: no match is in progress or waits, and the search could begin again at
    /// `idle_until`.
    pub(super) fn is_needed(
        &self,
        rules: &FullMatchRules,
        conditions: &ConditionState,
        idle_until: usize,
    ) -> bool {
        let FullMatchRule { rule, matcher, .. } = &rules.rules[self.rule];
        self.repeatable_from > idle_until
            || !self.reported.is_empty()
            || conditions.is_waiting(*rule)
            || !matcher.is_idle(&self.cursor)
    }

    /// Records that the search cannot begin again at `index`, because a match may be in progress there.
    pub(super) fn forbid_restart_at(&mut self, index: usize) {
        self.repeatable_from = index + 1;
    }

    /// Adapts the indices: the first `count` bytes of the held text are gone.
    pub(super) fn drop_front(&mut self, count: usize) {
        self.at -= count;
        self.start -= count;
        self.repeatable_from = self.repeatable_from.saturating_sub(count);
    }

    /// Reads the text up to its end.
    pub(super) fn advance(
        &mut self,
        text: &HeldText,
        conditions: &mut ConditionState,
        input: &mut FullMatchInput<'_, '_>,
    ) {
        let FullMatchRule { rule, matcher, .. } = &input.rules.rules[self.rule];
        let limit = input.limit();
        let bytes = text.bytes();
        while self.at < bytes.len() {
            let is_quiet = self.reported.is_empty() && !conditions.is_waiting(*rule);
            if is_quiet {
                let room = limit.saturating_sub(self.at - self.start + 1);
                let end = bytes.len().min(self.at + room);
                let run = matcher.run(&mut self.cursor, &bytes[self.at..end]);
                if run.idle_until > 0 {
                    self.begin_stretch(text, self.at + run.idle_until);
                }
                self.at += run.stepped;
                if run.stepped > 0 {
                    continue;
                }
            }
            self.step(input.rules, bytes[self.at]);
            let is_idle = matcher.is_idle(&self.cursor);
            // A match in progress that has reached the limit is cut: the stretch ends here all the same.
            let is_cut = !is_idle && self.at - self.start >= limit;
            if !is_idle && !is_cut {
                continue;
            }
            if !is_quiet || !self.reported.is_empty() {
                self.end_stretch(text, conditions, input, text.end_at(self.at));
            }
            if is_cut {
                input.admission.state.counters.cut_matches += 1;
                // The automaton starts anew, and sees what precedes this position.
                let (before, _) = text.before(self.at);
                matcher.restart_after(&mut self.cursor, &before);
            }
            self.begin_stretch(text, self.at);
        }
    }

    /// Steps a byte.
    fn step(&mut self, rules: &FullMatchRules, byte: u8) {
        let FullMatchRule {
            matcher, patterns, ..
        } = &rules.rules[self.rule];
        let RuleSearch {
            cursor, reported, ..
        } = self;
        let mut is_reported = false;
        matcher.push(cursor, &[byte], |event| {
            is_reported = true;
            insert(reported, patterns.start + event.pattern.0);
        });
        self.at += 1;
        if is_reported {
            self.repeatable_from = self.at;
        }
    }

    /// Ends the haystack.
    pub(super) fn finish(
        &mut self,
        text: &HeldText,
        conditions: &mut ConditionState,
        input: &mut FullMatchInput<'_, '_>,
        end: DecidedOffset,
    ) {
        self.advance(text, conditions, input);
        let FullMatchRule {
            matcher, patterns, ..
        } = &input.rules.rules[self.rule];
        matcher.finish(&mut self.cursor, |event| {
            insert(&mut self.reported, patterns.start + event.pattern.0);
        });
        self.end_stretch(text, conditions, input, end);
    }

    fn begin_stretch(&mut self, text: &HeldText, start: usize) {
        self.counts = text.count(self.counts, &text.bytes()[self.start..start]);
        self.start = start;
    }

    /// Ends the stretch: finds its matches, and decides the matches of the rule that wait for a position up to here.
    fn end_stretch(
        &mut self,
        text: &HeldText,
        conditions: &mut ConditionState,
        input: &mut FullMatchInput<'_, '_>,
        end: DecidedOffset,
    ) {
        let stretch = Stretch {
            range: self.start..self.at,
            counts: self.counts,
        };
        stretch.search(text, &self.reported, conditions, input, end);
        self.reported.clear();
        let counts = text.count(self.counts, &text.bytes()[stretch.range]);
        let position = counts.position(end.offset);
        let rule = input.rules.rules[self.rule].rule;
        conditions.resolve_before(rule, position, input.admission, end.decided);
    }
}

/// Inserts a pattern into a sorted list without duplicates.
fn insert(patterns: &mut Vec<u32>, pattern: u32) {
    if let Err(index) = patterns.binary_search(&pattern) {
        patterns.insert(index, pattern);
    }
}

/// A part of the held text that no match crosses.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) range: Range<usize>,
    /// The lines and characters before it.
    pub(super) counts: PrecedingCounts,
}

impl Stretch {
    /// Adds the matches of these patterns, which are of one rule, to its condition.
    pub(super) fn search(
        &self,
        text: &HeldText,
        patterns: &[u32],
        conditions: &mut ConditionState,
        input: &mut FullMatchInput<'_, '_>,
        end: DecidedOffset,
    ) {
        if patterns.is_empty() {
            return;
        }
        let (before, begins_haystack) = text.before(self.range.start);
        let stretch = &text.bytes()[self.range.clone()];
        let haystack = [&before, stretch].concat();
        let mut found = Vec::new();
        for &pattern in patterns {
            let compiled = &input.rules.patterns[pattern as usize];
            let (ranges, are_all) = compiled.matches(&haystack, before.len());
            input.admission.state.counters.unconfirmed += u64::from(!are_all);
            let mut counts = CountCursor::new(text, self);
            for range in ranges {
                let range = range.start - before.len()..range.end - before.len();
                found.push(self.locate(text, &mut counts, pattern, range, end.decided));
            }
        }
        found.sort_by_key(|it| (it.end.offset, it.start.offset, it.pattern));
        for found in &found {
            let context = MatchContext::in_stretch(&before, stretch, &found.range, begins_haystack);
            let skipped = text.skipped() + self.range.start as u64;
            add_match(conditions, input, found, &context, skipped);
        }
    }

    /// Returns the match at `range` of the stretch with its positions.
    fn locate(
        &self,
        text: &HeldText,
        counts: &mut CountCursor<'_>,
        pattern: u32,
        range: Range<usize>,
        decided: u64,
    ) -> FullMatch {
        let byte = |index: usize| text.byte(self.range.start + index);
        let start = counts.at(range.start);
        let last = counts.at(range.end - 1);
        let mut end = counts.at(range.end).position(byte(range.end - 1).end(0));
        end.line = last.lines;
        FullMatch {
            pattern,
            start: start.position(byte(range.start).start(0)),
            end,
            range,
            decided,
        }
    }
}

/// Counts the lines and characters before rising indices of a stretch.
// PERF: a stretch may have a match at every byte, and each counts from the match before: to count from the start of the
// stretch takes quadratic time, 33 µs a byte with a stretch of 64 KiB.
struct CountCursor<'t> {
    text: &'t HeldText,
    stretch: &'t [u8],
    first: PrecedingCounts,
    /// The index that was asked for last, and the counts before it.
    latest: (usize, PrecedingCounts),
}

impl<'t> CountCursor<'t> {
    fn new(text: &'t HeldText, stretch: &Stretch) -> CountCursor<'t> {
        CountCursor {
            text,
            stretch: &text.bytes()[stretch.range.clone()],
            first: stretch.counts,
            latest: (0, stretch.counts),
        }
    }

    /// Returns the counts before `index`. An index before the last one is counted from the start.
    fn at(&mut self, index: usize) -> PrecedingCounts {
        let (mut from, mut counts) = self.latest;
        if index < from {
            (from, counts) = (0, self.first);
        }
        counts = self.text.count(counts, &self.stretch[from..index]);
        self.latest = (index, counts);
        counts
    }
}

/// Adds a match to the condition of its rule. `skipped` is the number of bytes of the haystack before its stretch.
fn add_match(
    conditions: &mut ConditionState,
    input: &mut FullMatchInput<'_, '_>,
    found: &FullMatch,
    context: &MatchContext,
    skipped: u64,
) {
    let FullMatchInput {
        rules,
        ref mut admission,
        scope,
        exceptions,
    } = *input;
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
    let is_excluded = unless.zip(exceptions).is_some_and(|(unless, exceptions)| {
        exceptions.excludes(unless, skipped + found.range.end as u64)
    });
    if is_too_late || is_excluded || !in_arg || !admission.is_in_scope(rule, scope) {
        return;
    }
    let end = DecidedOffset {
        offset: found.end.offset,
        decided: found.decided,
    };
    let hit = admission.hit(rule, scope, end);
    let mut record = context.record(hit, context.start);
    record.start = Some(found.start.offset);
    record.file = scope.file.cloned();
    if compound.extent() == ConditionExtent::Haystack || compound.last.is_some() {
        let counters = &mut admission.state.counters;
        let complete = conditions.add_match(compound, role, found, record, counters);
        complete
            .into_iter()
            .for_each(|record| admission.admit(record));
    } else {
        admission.queue(role, found.clone(), record);
    }
}
