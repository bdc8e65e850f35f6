//! The search for the full matches of one rule.
//!
//! An automaton of the rule tells at which positions none of its matches is in progress. The text between two such
//! positions is a *stretch*: no match crosses its ends. A stretch in which a pattern was reported is searched for the
//! full matches of that pattern.
//!
//! In some text a match is always in progress: a pattern that begins with `[^a-z]` may match at every character of
//! Chinese. If the matches of the rule are bounded ([`MatchReach`]), those that end more than a reach before a position are
//! decided there, and the stretch continues with the rest. These positions are multiples of
//! [`MatchReach::interval`] in the haystack. If they are not bounded, a stretch of
//! [`Limits::stretch_bytes`](crate::Limits::stretch_bytes) ends with a cut.
//!
//! All these positions depend on the text and the rule alone, so deltas and other rules make no difference. Each byte is
//! stepped once, and searched a few times at most for each pattern.

use std::ops::Range;

use super::super::condition::{ConditionState, FullMatch};
use super::super::context::MatchContext;
use super::FullMatchInput;
use super::held_text::{HeldText, PrecedingCounts};
use crate::program::{
    ConditionExtent, FoundMatch, FullMatchPattern, FullMatchRule, FullMatchRules, MatchReach,
    PatternRole,
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
    /// `None` if the matches of the rule are not bounded.
    reach: Option<MatchReach>,
    cursor: Cursor,
    /// The index after the last byte that was read.
    at: usize,
    /// The start of the stretch.
    start: usize,
    /// The lines and characters before it.
    counts: PrecedingCounts,
    /// The patterns reported in the stretch, sorted.
    reported: Vec<ReportedPattern>,
    /// The least index at which the search could begin again with the same result from here on, and without repeating a
    /// match or a cut.
    repeatable_from: usize,
}

/// A pattern that was reported in a stretch.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportedPattern {
    /// The index in [`FullMatchRules::patterns`].
    pattern: u32,
    /// The index from which its matches have not been added.
    from: usize,
    /// True if a match after `from` was found that ends later than those that were added.
    is_open: bool,
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
            reach: rules.rules[rule].reach(rules.stretch_bytes),
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
        // A bounded match in progress began later.
        let begins_later = |reach: MatchReach| idle_until + reach.bytes() <= self.at;
        self.repeatable_from > idle_until
            || !self.reported.is_empty()
            || conditions.is_waiting(*rule)
            || !(self.reach.is_some_and(begins_later) || matcher.is_idle(&self.cursor))
    }

    /// Adapts the indices: the first `count` bytes of the held text are gone.
    pub(super) fn drop_front(&mut self, count: usize) {
        self.at -= count;
        self.start -= count;
        self.repeatable_from = self.repeatable_from.saturating_sub(count);
        for reported in &mut self.reported {
            reported.from = reported.from.saturating_sub(count);
        }
    }

    /// Reads the text up to its end.
    pub(super) fn advance(
        &mut self,
        text: &HeldText,
        conditions: &mut ConditionState,
        input: &mut FullMatchInput<'_, '_>,
    ) {
        let FullMatchRule { rule, matcher, .. } = &input.rules.rules[self.rule];
        let limit = match self.reach {
            Some(reach) => reach.most_held(),
            None => input.limit(),
        };
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
            let is_quiet = is_quiet && self.reported.is_empty();
            if let (false, Some(reach)) = (is_idle, self.reach) {
                self.continue_stretch(text, conditions, input, reach, is_quiet);
                continue;
            }
            // A match in progress that has reached the limit is cut: the stretch ends here all the same.
            let is_cut = !is_idle && self.at - self.start >= limit;
            if !is_idle && !is_cut {
                continue;
            }
            if !is_quiet {
                self.end_stretch(text, conditions, input, text.end_at(self.at));
            }
            if is_cut {
                input.admission.state.counters.cut_matches += 1;
                self.repeatable_from = self.at;
                // The automaton starts anew, and sees what precedes this position.
                let (before, _) = text.before(self.at);
                matcher.restart_after(&mut self.cursor, &before);
            }
            self.begin_stretch(text, self.at);
        }
    }

    /// Continues a stretch at whose present end a bounded match is in progress: adds the matches that are decided, and moves
    /// the start of the stretch past them. `is_quiet` is true if nothing was reported in the stretch and nothing waits.
    fn continue_stretch(
        &mut self,
        text: &HeldText,
        conditions: &mut ConditionState,
        input: &mut FullMatchInput<'_, '_>,
        reach: MatchReach,
        is_quiet: bool,
    ) {
        // Every match that ends up to here has begun so long ago that the text decides it. Matches are added in the order of
        // their ends, so those that end later wait, even if they are decided.
        let decided = text.floor_char(self.at.saturating_sub(reach.bytes()));
        if is_quiet {
            if self.at - self.start >= reach.most_held() {
                self.begin_stretch(text, decided);
            }
            return;
        }
        let position = text.skipped() + self.at as u64;
        if !position.is_multiple_of(reach.interval() as u64) || decided <= self.start {
            return;
        }
        let end = text.end_at(self.at);
        let stretch = self.stretch();
        let next = stretch.search(
            text,
            &mut self.reported,
            conditions,
            input,
            end,
            Some(decided),
        );
        // Unless a match ends after it, the next one begins there or later.
        let start = next.unwrap_or(decided).min(decided);
        self.begin_stretch(text, start);
        // A pattern whose matches all end before is reported again with the next one.
        self.reported
            .retain(|reported| reported.is_open || reported.from > start);
        let rule = input.rules.rules[self.rule].rule;
        let position = self.counts.position(text.byte(start).start(0));
        conditions.resolve_before(rule, position, input.admission, end.decided);
    }

    /// Steps a byte.
    fn step(&mut self, rules: &FullMatchRules, byte: u8) {
        let FullMatchRule {
            matcher, patterns, ..
        } = &rules.rules[self.rule];
        let RuleSearch {
            cursor,
            reported,
            start,
            ..
        } = self;
        let mut is_reported = false;
        matcher.push(cursor, &[byte], |event| {
            is_reported = true;
            insert(reported, patterns.start + event.pattern.0, *start);
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
            let pattern = patterns.start + event.pattern.0;
            insert(&mut self.reported, pattern, self.start);
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
        let stretch = self.stretch();
        stretch.search(text, &mut self.reported, conditions, input, end, None);
        self.reported.clear();
        let counts = text.count(self.counts, &text.bytes()[stretch.range]);
        let position = counts.position(end.offset);
        let rule = input.rules.rules[self.rule].rule;
        conditions.resolve_before(rule, position, input.admission, end.decided);
    }

    /// Returns the stretch up to the last byte that was read.
    fn stretch(&self) -> Stretch {
        Stretch {
            range: self.start..self.at,
            counts: self.counts,
        }
    }
}

impl ReportedPattern {
    /// Returns a pattern none of whose matches has been added.
    pub(super) fn new(pattern: u32, from: usize) -> ReportedPattern {
        ReportedPattern {
            pattern,
            from,
            is_open: false,
        }
    }
}

/// Inserts a pattern into a sorted list without duplicates. `from` is the start of the stretch.
fn insert(patterns: &mut Vec<ReportedPattern>, pattern: u32, from: usize) {
    if let Err(index) = patterns.binary_search_by_key(&pattern, |known| known.pattern) {
        patterns.insert(index, ReportedPattern::new(pattern, from));
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
    /// Adds the matches of these patterns, which are of one rule, to its condition: all of them, or those that end up to the
    /// index `until`. Returns the start of the first match that ends later.
    pub(super) fn search(
        &self,
        text: &HeldText,
        patterns: &mut [ReportedPattern],
        conditions: &mut ConditionState,
        input: &mut FullMatchInput<'_, '_>,
        end: DecidedOffset,
        until: Option<usize>,
    ) -> Option<usize> {
        if patterns.is_empty() {
            return None;
        }
        let (before, begins_haystack) = text.before(self.range.start);
        let stretch = &text.bytes()[self.range.clone()];
        let haystack = [&before, stretch].concat();
        let until = until.unwrap_or(self.range.end) - self.range.start;
        let mut found = Vec::new();
        let mut open: Option<usize> = None;
        for reported in patterns {
            let compiled = &input.rules.patterns[reported.pattern as usize];
            let from = reported.from.saturating_sub(self.range.start);
            let (matches, are_all) = compiled.matches(&haystack, before.len() + from);
            input.admission.state.counters.unconfirmed += u64::from(!are_all);
            let mut counts = CountCursor::new(text, self);
            reported.is_open = false;
            for FoundMatch { range, is_accepted } in matches {
                let range = range.start - before.len()..range.end - before.len();
                // Those after it end later, too.
                if range.end > until {
                    reported.is_open = true;
                    let start = self.range.start + range.start;
                    open = Some(open.map_or(start, |open| open.min(start)));
                    break;
                }
                reported.from = self.range.start + range.end;
                if is_accepted {
                    let pattern = reported.pattern;
                    found.push(self.locate(text, &mut counts, pattern, range, end.decided));
                }
            }
        }
        found.sort_by_key(|it| (it.end.offset, it.start.offset, it.pattern));
        for found in &found {
            let context = MatchContext::in_stretch(&before, stretch, &found.range, begins_haystack);
            let skipped = text.skipped() + self.range.start as u64;
            let matched = &stretch[found.range.clone()];
            add_match(conditions, input, found, matched, &context, skipped);
        }
        open
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
    matched: &[u8],
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
    let mut record = admission.record(rule, scope, end, context.excerpt(context.start));
    record.start = Some(found.start.offset);
    if matched.len() > record.matched.len() {
        // The excerpt has only the end of the match.
        record.compare_allowed(admission.context.program, &String::from_utf8_lossy(matched));
    }
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
