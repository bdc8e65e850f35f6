//! From the matches of a rule's patterns to its condition: what must be there too, what must not, and
//! how far apart.
//!
//! A [`Book`] keeps what it takes for the rules of one haystack, of one part, or of one reply. Memory does
//! not grow with the text: per rule the matches that may still matter, and at most [`WAITING`] that wait.

use std::collections::VecDeque;
use std::ops::Range;

use super::judge::Judge;
use crate::pack::{Compound, Extent, Role};
use crate::rule::Within;
use crate::stream::{Counters, Quote};
use crate::verdict::RuleId;

/// Most matches of one rule that wait for an exception, and most that a sequence remembers.
pub(in crate::stream) const WAITING: usize = 256;

/// A place: in the part as delivered, and in the haystack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::stream) struct Position {
    pub(super) offset: u64,
    pub(super) line: u64,
    pub(super) char: u64,
}

/// A whole match of a pattern.
#[derive(Clone, Debug)]
pub(in crate::stream) struct Match {
    pub(super) pattern: u32,
    /// Where its first character begins.
    pub(super) start: Position,
    /// Where its last character ends; its line is that of the last character.
    pub(super) end: Position,
    /// The same in the stretch that it was found in.
    pub(super) text: Range<usize>,
    pub(super) decided: u64,
}

/// What is known of the conditions of some rules.
#[derive(Debug, Default)]
pub(in crate::stream) struct Book {
    rules: Vec<(RuleId, Progress)>,
    /// Whether anything waits.
    waits: bool,
}

/// What is known of one rule's condition.
#[derive(Debug, Default)]
struct Progress {
    /// Of each pattern that must be there: the match that begins last.
    all: Vec<Option<Span>>,
    /// Of each pattern of a sequence: the places where the sequence up to it can end, with the latest
    /// place it can begin.
    sequence: Vec<VecDeque<Span>>,
    /// Matches of a sequence over several parts: those need not come in the order of their places.
    scattered: Vec<(Span, u32)>,
    /// The exception that begins last.
    none: Option<Span>,
    /// Matches that an exception may still take back, or that are too early for the end of the text.
    waiting: VecDeque<Waiting>,
    /// A place where none of them begins before.
    earliest: Position,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: Position,
    end: Position,
}

/// A match that is not decided.
#[derive(Debug)]
struct Waiting {
    span: Span,
    quote: Quote,
}

impl Book {
    /// Whether something waits for text that is to come.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.waits
    }

    /// Returns the start of the text that a rule that holds has not decided.
    pub(in crate::stream) fn undecided_from(&self, holds: impl Fn(RuleId) -> bool) -> Option<u64> {
        let held = self.rules.iter().filter(|(rule, _)| holds(*rule));
        let waiting = held.flat_map(|(_, known)| &known.waiting);
        waiting.map(|waiting| waiting.span.start.offset).min()
    }

    /// Takes a match; gives it back if it completes the rule's condition, and nothing can take that back.
    pub(super) fn note(
        &mut self,
        compound: &Compound,
        role: Role,
        known: &Match,
        quote: Quote,
        counters: &mut Counters,
    ) -> Option<Quote> {
        let span = Span {
            start: known.start,
            end: known.end,
        };
        let progress = self.progress(quote.hit.rule, compound);
        let whole = progress.complete(compound, role, span);
        let waits = compound.has_none || compound.last.is_some();
        if !waits {
            return whole.map(|_| quote);
        }
        if let Some(whole) = whole {
            progress.wait(compound, whole, quote, counters);
        }
        self.waits = self
            .rules
            .iter()
            .any(|(_, known)| !known.waiting.is_empty());
        None
    }

    /// Everything before `place` is known; gives what that decides.
    pub(super) fn pass(&mut self, place: Position, judge: &mut Judge<'_>, decided: u64) {
        if !self.waits {
            return;
        }
        for (rule, progress) in &mut self.rules {
            let Some(compound) = judge.pack.compound(*rule) else {
                continue;
            };
            // PERF: looking at each of 256 that wait, at every byte, took 52,000 instructions a byte
            // (`cargo bench --bench instructions -- --growth`).
            let is_due = is_past(compound.within, progress.earliest, place);
            if compound.last.is_some() || !is_due {
                continue;
            }
            let waiting = std::mem::take(&mut progress.waiting);
            for waiting in waiting {
                if is_past(compound.within, waiting.span.start, place) {
                    judge.offer(waiting.quote.at(decided));
                } else {
                    progress.let_wait(waiting);
                }
            }
        }
        self.waits = self
            .rules
            .iter()
            .any(|(_, known)| !known.waiting.is_empty());
    }

    /// The text ends, after so many characters: gives what still waits.
    pub(super) fn end(self, chars: u64, judge: &mut Judge<'_>, decided: u64) {
        for quote in self.decide(chars, judge, decided) {
            judge.offer(quote);
        }
    }

    /// What is decided once the text is over, in the order of the matches.
    fn decide(self, chars: u64, judge: &Judge<'_>, decided: u64) -> Vec<Quote> {
        let mut quotes = Vec::new();
        for (rule, progress) in self.rules {
            let Some(compound) = judge.pack.compound(rule) else {
                continue;
            };
            for Waiting { span, quote } in progress.waiting {
                let is_in = compound
                    .last
                    .is_none_or(|last| span.start.char + u64::from(last) >= chars);
                if is_in {
                    quotes.push(quote.at(decided));
                }
            }
        }
        quotes
    }

    fn progress(&mut self, rule: RuleId, compound: &Compound) -> &mut Progress {
        let index = match self.rules.iter().position(|(known, _)| *known == rule) {
            Some(index) => index,
            None => {
                let progress = Progress {
                    all: vec![None; compound.all],
                    sequence: vec![VecDeque::new(); compound.sequence],
                    ..Progress::default()
                };
                self.rules.push((rule, progress));
                self.rules.len() - 1
            }
        };
        &mut self.rules[index].1
    }
}

impl Progress {
    /// Takes a match; gives the extent of what it completes, exceptions aside.
    fn complete(&mut self, compound: &Compound, role: Role, span: Span) -> Option<Span> {
        match role {
            Role::Any => Some(span),
            Role::All(index) => self.complete_all(compound, index as usize, span),
            Role::Sequence(index) => self.complete_sequence(compound, index as usize, span),
            Role::None => {
                self.except(compound, span);
                None
            }
        }
    }

    fn complete_all(&mut self, compound: &Compound, index: usize, span: Span) -> Option<Span> {
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
        is_near(compound.within, whole).then_some(whole)
    }

    fn complete_sequence(&mut self, compound: &Compound, index: usize, span: Span) -> Option<Span> {
        if compound.extent() == Extent::Message {
            return self.complete_scattered(index, span);
        }
        let whole = match index.checked_sub(1) {
            None => span,
            Some(before) => {
                let ends = self.sequence[before].iter();
                let reachable = ends.filter(|known| known.end.offset <= span.start.offset);
                let latest = reachable.max_by_key(|known| known.start)?;
                Span {
                    start: latest.start,
                    end: span.end,
                }
            }
        };
        if !is_near(compound.within, whole) {
            return None;
        }
        if index + 1 == self.sequence.len() {
            return Some(whole);
        }
        let ends = &mut self.sequence[index];
        let distance = matches!(compound.within, Within::Lines(_) | Within::Chars(_));
        if !distance && !ends.is_empty() {
            // Where distance is no matter, the first end is the best there is.
            return None;
        }
        if ends.len() == WAITING {
            ends.pop_front();
        }
        ends.push_back(whole);
        None
    }

    /// The same where parts interleave: all matches are kept until the sequence is complete.
    fn complete_scattered(&mut self, index: usize, span: Span) -> Option<Span> {
        if self.scattered.len() == WAITING {
            self.scattered.remove(0);
        }
        self.scattered.push((span, index as u32));
        self.scattered.sort_by_key(|(span, _)| span.end.offset);
        let mut whole: Option<Span> = None;
        let mut next = 0;
        for &(span, index) in &self.scattered {
            let follows = whole.is_none_or(|whole| whole.end.offset <= span.start.offset);
            if index == next && follows {
                whole = Some(whole.map_or(span, |whole| whole.with(span)));
                next += 1;
            }
        }
        let is_complete = next as usize == self.sequence.len();
        if is_complete {
            self.scattered.clear();
        }
        whole.filter(|_| is_complete)
    }

    /// An exception: what it stands beside does not count.
    fn except(&mut self, compound: &Compound, span: Span) {
        if self.none.is_none_or(|known| known.start <= span.start) {
            self.none = Some(span);
        }
        self.waiting
            .retain(|waiting| !is_near(compound.within, waiting.span.with(span)));
    }

    fn let_wait(&mut self, waiting: Waiting) {
        let start = waiting.span.start;
        self.earliest = match self.waiting.is_empty() {
            true => start,
            false => self.earliest.min(start),
        };
        self.waiting.push_back(waiting);
    }

    /// Lets a complete match wait for what may take it back.
    fn wait(&mut self, compound: &Compound, span: Span, quote: Quote, counters: &mut Counters) {
        let is_excepted = self
            .none
            .is_some_and(|known| is_near(compound.within, span.with(known)));
        if is_excepted {
            return;
        }
        if let Some(last) = compound.last {
            // What is too far from here is too far from the end.
            let is_far = |from: Position| span.end.char - from.char > u64::from(last);
            self.waiting.retain(|waiting| !is_far(waiting.span.start));
        }
        if compound.reports_every() || self.waiting.len() < WAITING {
            self.let_wait(Waiting { span, quote });
        } else {
            counters.unconfirmed += 1;
        }
    }
}

impl Span {
    /// From where the first of both begins to where the last one ends.
    fn with(self, other: Span) -> Span {
        Span {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// Whether a stretch of that extent is within the distance.
fn is_near(within: Within, span: Span) -> bool {
    match within {
        Within::Lines(lines) => span.end.line - span.start.line < u64::from(lines),
        Within::Chars(chars) => span.end.char - span.start.char <= u64::from(chars),
        Within::Part | Within::Message => true,
    }
}

/// Whether nothing that begins at `place` or later can be near what begins at `start`.
fn is_past(within: Within, start: Position, place: Position) -> bool {
    match within {
        Within::Lines(lines) => place.line - start.line >= u64::from(lines),
        Within::Chars(chars) => place.char - start.char >= u64::from(chars),
        Within::Part | Within::Message => false,
    }
}
