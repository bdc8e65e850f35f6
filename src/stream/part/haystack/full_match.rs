//! Reads a haystack for full matches: the successive matches that `regex` finds.
//!
//! One automaton searches for the patterns of all rules. While no pattern is reported, nothing else is done: text in
//! which no match is in progress is dropped, and the rest is held. A report begins the search of its rule
//! ([`RuleSearch`]), which reads the held text and what follows with an automaton of that rule alone. Its matches and the
//! bytes at which they become certain therefore do not depend on other rules.
//!
//! # Invariants
//!
//! 1. The automaton of all rules has read exactly the held text and what was dropped before it. It is never restarted
//!    within a haystack, so it reports a superset of what the searches report: a report is only a reason to search.
//! 2. No match of a rule without a search, and none that may still follow, begins before `idle_until` and ends after it; no
//!    pattern of such a rule was reported after it. A search that begins there therefore finds what it would have found
//!    from the start of the haystack. Two kinds of positions are of that kind: those at which the automaton of all rules is
//!    idle, and, if matches are bounded, those that are further back than a match in progress can begin
//!    ([`MatchReach`](crate::program::MatchReach)).
//! 3. The held text begins at or before `idle_until` and at or before the stretch of each search.
//! 4. `idle_until` is at most [`FullMatchRules::most_detected`] before the end of the held text once a block has been read.
//!    Where the automaton of all rules was not idle for as long, the rules whose matches are not bounded are searched, because
//!    only the search of such a rule knows where its match in progress began, and so what can be dropped and where a match is
//!    cut that exceeds [`Limits::stretch_bytes`](crate::Limits::stretch_bytes).
//! 5. A search ends only where it could begin again at `idle_until` (`RuleSearch::is_needed`). No match is added twice.
//!
//! Deltas make no difference: whether text is read by `try_step_short`, `push_until_report` or `push_with_searches`
//! changes when a search begins, and by 2 not what it finds.

mod held_text;
mod rule_search;

use super::condition::{ConditionState, TextPosition};
use super::exceptions::Exceptions;
use super::{Admission, HaystackScope};
use crate::program::FullMatchRules;
use crate::stream::Counters;
use held_text::HeldText;
use rule_search::{ReportedPattern, RuleSearch, Stretch};
use ttsr_automata::{Cursor, MAX_SHORT_LEN, Matcher, ShortStep};
use ttsr_views::chunk::{Chunk, DecidedOffset};

/// Most bytes that are added to the held text before it is searched and dropped.
const BLOCK: usize = 4096;

/// The state of the search for full matches.
#[derive(Debug)]
pub(super) struct FullMatchReader {
    /// The cursor of the automaton of all rules.
    pub(super) cursor: Cursor,
    text: HeldText,
    /// The index in the held text at which the search of another rule begins, see invariant 2. It is 0 while no rule has a
    /// search.
    idle_until: usize,
    /// The searches of the rules that were reported, or that have matches that wait.
    searches: Vec<RuleSearch>,
    conditions: ConditionState,
}

/// The rules that read a haystack, and the receiver of their matches.
pub(super) struct FullMatchInput<'i, 'a> {
    pub(super) rules: &'i FullMatchRules,
    pub(super) admission: &'i mut Admission<'a>,
    pub(super) scope: HaystackScope<'i>,
    pub(super) exceptions: Option<&'i Exceptions>,
}

impl FullMatchInput<'_, '_> {
    /// Returns the most bytes of a stretch, at least one: with none no byte could be read.
    fn limit(&self) -> usize {
        self.rules.stretch_bytes
    }
}

impl FullMatchReader {
    pub(super) fn new(rules: &FullMatchRules) -> FullMatchReader {
        FullMatchReader {
            cursor: rules.matcher.start(),
            text: HeldText::new(rules.counts),
            idle_until: 0,
            searches: Vec::new(),
            conditions: ConditionState::default(),
        }
    }

    /// Starts another haystack.
    pub(super) fn restart(&mut self, rules: &FullMatchRules) {
        rules.matcher.restart(&mut self.cursor);
        self.text.clear();
        self.idle_until = 0;
        self.searches.clear();
        self.conditions = ConditionState::default();
    }

    /// Returns the offset of the first byte that a match in progress or an undecided match may contain.
    pub(super) fn undecided_from(&self, rules: &FullMatchRules) -> Option<u64> {
        let held = match self.undecided_index(rules) {
            0 => self.text.start(),
            index => Some(self.text.byte(index).start(0)),
        };
        match self.conditions.undecided_from(|_| true) {
            None => held,
            Some(pending) => Some(held.map_or(pending, |start| start.min(pending))),
        }
    }

    /// Returns the index in the held text before which no match in progress can begin.
    fn undecided_index(&self, rules: &FullMatchRules) -> usize {
        match self.searches.is_empty() && rules.are_bounded() {
            true => self.decided_index(rules, self.text.bytes().len()),
            false => 0,
        }
    }

    /// Returns the index before which no bounded match begins that is in progress at `end`.
    fn decided_index(&self, rules: &FullMatchRules, end: usize) -> usize {
        match rules.reaches().longest.bytes() {
            // No rule is bounded.
            0 => end,
            reach => self.text.floor_char(end.saturating_sub(reach)),
        }
    }

    /// Drops held text that no match in progress can contain, if no rule has a search.
    fn drop_decided(&mut self, rules: &FullMatchRules) {
        // Not at every delta, because the rest is moved.
        let most = rules.reaches().longest.most_held();
        if self.text.bytes().len() >= most && rules.are_bounded() {
            self.text.drop_front(self.undecided_index(rules));
        }
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        counters.invalid_utf8 += Matcher::invalid_bytes(&self.cursor);
    }

    /// Returns true if text without a report is only held or dropped: no rule has a search, and fewer than `max_held` bytes
    /// are held.
    pub(super) fn is_detecting(&self, rules: &FullMatchRules, max_held: usize) -> bool {
        let most = max_held.min(rules.most_detected());
        !rules.is_unbroken() && self.searches.is_empty() && self.text.bytes().len() < most
    }

    /// The fast path: steps a short delta in which no pattern is reported. Returns `None`, and changes nothing, if the
    /// delta is not of that kind.
    #[inline]
    pub(super) fn try_step_short(
        &mut self,
        rules: &FullMatchRules,
        bytes: &[u8],
    ) -> Option<ShortStep> {
        let has_room = self.text.bytes().len() + bytes.len() < rules.most_detected();
        match has_room && self.searches.is_empty() {
            true => rules.matcher.try_step_short(&mut self.cursor, bytes),
            false => None,
        }
    }

    /// Moves over a delta that [`try_step_short`](Self::try_step_short) has stepped. `padded` are its bytes, padded
    /// with zeros.
    #[inline]
    pub(super) fn accept_short(
        &mut self,
        rules: &FullMatchRules,
        chunk: Chunk<'_>,
        padded: &[u8; MAX_SHORT_LEN],
        step: ShortStep,
    ) {
        let idle_until = step.idle_until();
        rules
            .matcher
            .accept_short(&mut self.cursor, chunk.bytes, step);
        if idle_until > 0 {
            self.text.drop_all();
            self.text.advance_past_short(padded, idle_until);
        }
        if idle_until < chunk.bytes.len() {
            self.text.push(chunk.slice(idle_until..chunk.bytes.len()));
            self.drop_decided(rules);
        }
    }

    /// Advances over text that the cursor has stepped without a report. No match was in progress after the first `idle_until`
    /// bytes, if it is not 0.
    pub(super) fn advance(&mut self, rules: &FullMatchRules, chunk: Chunk<'_>, idle_until: usize) {
        if idle_until > 0 {
            self.text.drop_all();
            self.text.advance_past(&chunk.bytes[..idle_until]);
        }
        if idle_until < chunk.bytes.len() {
            self.text.push(chunk.slice(idle_until..chunk.bytes.len()));
            self.drop_decided(rules);
        }
    }

    /// Reads a chunk.
    pub(super) fn push(&mut self, mut input: FullMatchInput<'_, '_>, chunk: Chunk<'_>) {
        if input.rules.is_unbroken() {
            self.push_unbroken(&mut input, chunk);
            return;
        }
        let mut at = 0;
        while at < chunk.bytes.len() {
            let rest = chunk.slice(at..chunk.bytes.len());
            // Chosen anew each time: a report begins searches, and searches end within a chunk.
            at += match self.searches.is_empty() {
                true => self.push_until_report(&mut input, rest),
                false => self.push_with_searches(&mut input, rest),
            };
        }
    }

    /// Reads while no rule has a search, up to the first report. Returns the number of bytes that were read.
    fn push_until_report(&mut self, input: &mut FullMatchInput<'_, '_>, chunk: Chunk<'_>) -> usize {
        let FullMatchInput { rules, .. } = *input;
        let limit = rules.most_detected();
        let held = self.text.bytes().len();
        let (mut at, mut idle_until) = (0, 0);
        let mut reported = Vec::new();
        while at < chunk.bytes.len() && reported.is_empty() {
            // An idle position in the chunk ends what was held before it.
            let held_before = if idle_until > 0 { 0 } else { held };
            let in_progress = held_before + at - idle_until;
            if in_progress >= limit {
                break;
            }
            let end = chunk.bytes.len().min(at + limit - in_progress);
            let run = rules.matcher.run(&mut self.cursor, &chunk.bytes[at..end]);
            if run.idle_until > 0 {
                idle_until = at + run.idle_until;
            }
            at += run.stepped;
            if run.stepped > 0 {
                continue;
            }
            // A special state: a pattern may be reported, or a state must be built.
            reported = self.step(rules, chunk.bytes[at]);
            at += 1;
            // The match that was just reported may begin before this position, although nothing is in progress.
            if reported.is_empty() && rules.matcher.is_idle(&self.cursor) {
                idle_until = at;
            }
        }
        // The text is pushed only here, so text before an idle position is counted but never copied.
        if idle_until > 0 {
            self.text.drop_all();
            self.text.advance_past(&chunk.bytes[..idle_until]);
        }
        self.text.push(chunk.slice(idle_until..at));
        self.drop_decided(rules);
        if !reported.is_empty() {
            self.idle_until = self.undecided_index(rules);
            for rule in reported {
                self.begin_search(rules, rule);
            }
            // After the searches have begun: a search begins at `idle_until`, and its match lies before this position.
            if rules.matcher.is_idle(&self.cursor) {
                self.idle_until = self.text.bytes().len();
            }
        }
        self.advance_searches(input);
        at
    }

    /// Reads a block while some rules have searches. Returns the number of bytes that were read.
    fn push_with_searches(
        &mut self,
        input: &mut FullMatchInput<'_, '_>,
        chunk: Chunk<'_>,
    ) -> usize {
        let FullMatchInput { rules, .. } = *input;
        let limit = rules.most_detected();
        // Text is dropped after each block, so a long chunk is not held as a whole.
        let block = chunk.slice(0..chunk.bytes.len().min(BLOCK));
        let before = self.text.bytes().len();
        self.text.push(block);
        let mut at = 0;
        while at < block.bytes.len() {
            // Here too, not only at the end of the block: `idle_until` may move past a match that has reached the limit.
            self.pass_decided(rules, before + at);
            self.begin_long_searches(rules, before + at);
            // A run ends where a match in progress would reach the limit, so that the next round sees it.
            let room = limit.saturating_sub(before + at - self.idle_until);
            let room = if room > 0 { room } else { BLOCK };
            let end = block.bytes.len().min(at + room);
            let run = rules.matcher.run(&mut self.cursor, &block.bytes[at..end]);
            if run.idle_until > 0 {
                self.idle_until = before + at + run.idle_until;
            }
            at += run.stepped;
            if run.stepped > 0 {
                continue;
            }
            let reported = self.step(rules, block.bytes[at]);
            at += 1;
            if !reported.is_empty() {
                self.pass_decided(rules, before + at);
            }
            for rule in reported {
                self.begin_search(rules, rule);
            }
            if rules.matcher.is_idle(&self.cursor) {
                self.idle_until = before + at;
            }
        }
        self.advance_searches(input);
        block.bytes.len()
    }

    /// Steps a byte with the automaton of all rules. Returns the rules whose patterns are reported.
    fn step(&mut self, rules: &FullMatchRules, byte: u8) -> Vec<usize> {
        let mut reported = Vec::new();
        rules.matcher.push(&mut self.cursor, &[byte], |event| {
            reported.push(rules.rule_of(event.pattern));
        });
        reported
    }

    /// Begins the search of a rule where it may have a match, if it has no search.
    fn begin_search(&mut self, rules: &FullMatchRules, rule: usize) {
        if !self.searches.iter().any(|search| search.rule() == rule) {
            let search = RuleSearch::new(rules, rule, &self.text, self.idle_until);
            self.searches.push(search);
        }
    }

    /// Moves `idle_until` up to where no bounded match begins that is in progress at `end`, if no other match can be.
    fn pass_decided(&mut self, rules: &FullMatchRules, end: usize) {
        let has_search = |rule: &usize| self.searches.iter().any(|it| it.rule() == *rule);
        if rules.reaches().unbounded.iter().all(has_search) {
            self.idle_until = self.idle_until.max(self.decided_index(rules, end));
        }
    }

    /// Begins the searches of the rules whose matches are not bounded, if so much text is held at `end` that one of their
    /// matches may be in progress: only the search of its rule knows where it began. Returns true if it may.
    fn begin_long_searches(&mut self, rules: &FullMatchRules, end: usize) -> bool {
        let is_long = end - self.idle_until >= rules.most_detected();
        if is_long {
            for &rule in &rules.reaches().unbounded {
                self.begin_search(rules, rule);
            }
        }
        is_long
    }

    /// Searches the held text up to its end, and drops what no match in progress can contain.
    fn advance_searches(&mut self, input: &mut FullMatchInput<'_, '_>) {
        let FullMatchInput { rules, .. } = *input;
        let end = self.text.bytes().len();
        if !self.searches.is_empty() {
            self.pass_decided(rules, end);
        }
        let is_long = self.begin_long_searches(rules, end);
        if self.searches.is_empty() {
            return;
        }
        for search in &mut self.searches {
            search.advance(&self.text, &mut self.conditions, input);
        }
        // Invariant 4: all rules with unbounded matches have a search, so the position needs to be idle for none of them.
        if is_long {
            self.idle_until = self.idle_until.max(self.decided_index(rules, end));
        }
        let idle_until = self.idle_until;
        self.searches
            .retain(|search| search.is_needed(rules, &self.conditions, idle_until));
        // Invariant 3.
        let starts = self.searches.iter().map(RuleSearch::start);
        let first = starts.fold(idle_until, usize::min);
        if first > 0 {
            self.text.drop_front(first);
            self.idle_until -= first;
            for search in &mut self.searches {
                search.drop_front(first);
            }
        }
    }

    /// Keeps a chunk for the search at the end of the haystack. A haystack that exceeds the limit is searched in parts.
    fn push_unbroken(&mut self, input: &mut FullMatchInput<'_, '_>, chunk: Chunk<'_>) {
        let limit = input.limit();
        let mut at = 0;
        while at < chunk.bytes.len() {
            if self.text.bytes().len() >= limit {
                let end = self.text.end();
                self.search_unbroken(input, end);
                self.text.drop_all();
                input.admission.state.counters.cut_matches += 1;
            }
            let room = limit - self.text.bytes().len();
            let to = chunk.bytes.len().min(at + room);
            self.text.push(chunk.slice(at..to));
            at = to;
        }
    }

    /// Searches the held text for the matches of all rules.
    fn search_unbroken(&mut self, input: &mut FullMatchInput<'_, '_>, end: DecidedOffset) {
        let FullMatchInput { rules, .. } = *input;
        let stretch = Stretch {
            range: 0..self.text.bytes().len(),
            counts: self.text.counts_at(0),
        };
        for rule in &rules.rules {
            let patterns = rule.patterns.clone();
            let mut patterns: Vec<ReportedPattern> = patterns
                .map(|pattern| ReportedPattern::new(pattern, 0))
                .collect();
            stretch.search(
                &self.text,
                &mut patterns,
                &mut self.conditions,
                input,
                end,
                None,
            );
            let position = self.position_at_end(end);
            self.conditions
                .resolve_before(rule.rule, position, input.admission, end.decided);
        }
    }

    fn position_at_end(&self, end: DecidedOffset) -> TextPosition {
        let counts = self.text.counts_at(self.text.bytes().len());
        counts.position(end.offset)
    }

    /// Ends the haystack.
    pub(super) fn finish(&mut self, mut input: FullMatchInput<'_, '_>, end: DecidedOffset) {
        let FullMatchInput { rules, .. } = input;
        if rules.is_unbroken() {
            self.search_unbroken(&mut input, end);
        } else {
            let mut reported = Vec::new();
            rules.matcher.finish(&mut self.cursor, |event| {
                reported.push(rules.rule_of(event.pattern));
            });
            for rule in reported {
                self.begin_search(rules, rule);
            }
            for search in &mut self.searches {
                search.finish(&self.text, &mut self.conditions, &mut input, end);
            }
        }
        let chars = self.position_at_end(end).char;
        let conditions = std::mem::take(&mut self.conditions);
        conditions.finish(chars, input.admission, end.decided);
        self.text.drop_all();
        self.searches.clear();
        self.idle_until = 0;
    }
}

#[cfg(test)]
mod tests;
