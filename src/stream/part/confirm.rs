//! Patterns that look around or refer back: where they may end, until what decides is there.
//!
//! The automaton finds candidates: places where such a pattern may end. A candidate waits until as many
//! characters have come after it as its pattern looks ahead, or until the haystack ends, and is then
//! checked on the bytes kept. Everything is counted in bytes and characters of the haystack, so deltas
//! make no difference. What a check costs and how it is done is `matcher::confirm`'s to know.

use std::collections::VecDeque;

use super::haystack::{EXCERPT, Haystack, Near};
use super::judge::Judge;
use crate::pack::{Confirms, ViewRules};
use crate::stream::window::WINDOW;
use crate::view::json::ArgPath;
use ttsr_automata::MatchEvent;
use ttsr_automata::lookaround::verify::{Confirm, Confirmed, nth_end};
use ttsr_automata::utf8::Utf8Decoder;

/// Bytes that are stepped before candidates are looked at.
const PIECE: usize = 256;

/// A pattern that spent its budget so often in one haystack is not tried again there.
const TRIES: usize = 8;

/// Bytes kept besides those before a candidate: a piece, and the widest look ahead.
const BEYOND: usize = PIECE + 4 * (ttsr_automata::lookaround::approximate::REACH + 2);

/// An end can be certain at once, and again one character later: so many bytes at most.
const LATE: u64 = 4;

/// A place where a pattern may end.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    pattern: u32,
    /// Bytes of the haystack before its end.
    at: u64,
    /// The same in bytes of the part as delivered.
    end: u64,
    /// Bytes of the haystack that had been read when the automaton was certain of it.
    seen: u64,
    /// Characters known when it can be decided, by the clock.
    due: u64,
}

/// The candidates of one haystack, and the bytes they are checked on.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The last bytes of the haystack.
    bytes: Vec<u8>,
    /// Bytes of the haystack that are not kept any more.
    dropped: u64,
    /// Bytes of a candidate's past that are kept.
    past: usize,
    limit: usize,
    /// Candidates that the automaton has reported and the clock has not come to, as they became certain.
    reported: VecDeque<Candidate>,
    /// Pattern and end of those that the clock came to within the last [`LATE`] bytes.
    lately: VecDeque<(u32, u64)>,
    /// Candidates that wait for characters, by their ends.
    pending: VecDeque<Candidate>,
    clock: Clock,
    /// Patterns that spent their budget, once for each time.
    spent: Vec<u32>,
}

/// Counts characters while something waits for them.
#[derive(Debug, Default)]
struct Clock {
    decoder: Utf8Decoder,
    known: u64,
    /// Bytes of the haystack that it has seen.
    at: u64,
}

impl Waiting {
    /// `None` where no pattern is confirmed.
    pub(super) fn new(confirms: &Confirms) -> Option<Box<Waiting>> {
        (!confirms.is_empty()).then(|| {
            Box::new(Waiting {
                bytes: Vec::new(),
                dropped: 0,
                past: confirms.bytes,
                limit: confirms.pending,
                reported: VecDeque::new(),
                lately: VecDeque::new(),
                pending: VecDeque::new(),
                clock: Clock::default(),
                spent: Vec::new(),
            })
        })
    }

    /// Begins a new haystack.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.dropped = 0;
        self.reported.clear();
        self.lately.clear();
        self.pending.clear();
        self.spent.clear();
    }

    fn total(&self) -> u64 {
        self.dropped + self.bytes.len() as u64
    }

    /// Appends at most [`PIECE`] bytes.
    fn keep(&mut self, bytes: &[u8]) {
        let keep = self.past.max(WINDOW).saturating_add(BEYOND);
        if self.bytes.len() + bytes.len() > keep.saturating_mul(2) {
            let drop = self.bytes.len().saturating_sub(keep);
            self.bytes.drain(..drop);
            self.dropped += drop as u64;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn index(&self, at: u64) -> usize {
        usize::try_from(at - self.dropped).expect("what candidates need is kept")
    }

    fn report(&mut self, pattern: u32, at: u64, end: u64, seen: u64) {
        // Automata are stepped one after the other, each over the whole piece.
        let place = self.reported.partition_point(|known| known.seen <= seen);
        let before = self.reported.range(..place).rev();
        let mut near = before.take_while(|known| known.seen + LATE >= seen);
        let is_known = near.any(|known| (known.pattern, known.at) == (pattern, at))
            || self.lately.contains(&(pattern, at));
        if !is_known {
            let candidate = Candidate {
                pattern,
                at,
                end,
                seen,
                due: 0,
            };
            self.reported.insert(place, candidate);
        }
    }

    /// Goes over what was appended since, byte by byte; `decided` tells the number of bytes delivered
    /// with that byte of the haystack.
    fn advance(&mut self, on: &mut Confirming<'_, '_>, decided: impl Fn(u64) -> u64) {
        let total = self.total();
        loop {
            if self.pending.is_empty() {
                let Some(next) = self.reported.front() else {
                    return;
                };
                // The clock starts at the end of a match: nothing is incomplete there.
                self.clock = Clock {
                    at: next.at,
                    ..Clock::default()
                };
                let seen = next.seen;
                while self.clock.at < seen {
                    self.tick();
                }
                self.admit(on, decided(seen), known_in);
                continue;
            }
            if self.clock.at == total {
                return;
            }
            self.tick();
            let decided = decided(self.clock.at);
            self.settle(on, decided);
            self.admit(on, decided, known_in);
        }
    }

    fn tick(&mut self) {
        let byte = self.bytes[self.index(self.clock.at)];
        let Clock { decoder, known, at } = &mut self.clock;
        decoder.push(byte, |_, _| *known += 1);
        *at += 1;
    }

    /// What was incomplete is complete: nothing that follows belongs to it.
    fn flush(&mut self, on: &mut Confirming<'_, '_>, decided: u64) {
        let Clock { decoder, known, .. } = &mut self.clock;
        decoder.flush(|_, _| *known += 1);
        self.settle(on, decided);
        self.admit(on, decided, |bytes| nth_end(bytes, usize::MAX).1);
    }

    /// Takes over the candidates that were reported at the byte that the clock has just seen; `known`
    /// counts the characters behind an end.
    fn admit(&mut self, on: &mut Confirming<'_, '_>, decided: u64, known: impl Fn(&[u8]) -> usize) {
        while let Some(&candidate) = self.reported.front() {
            if candidate.seen > self.clock.at {
                return;
            }
            self.reported.pop_front();
            self.note(&candidate);
            let Some(confirm) = on.confirm(&candidate, decided) else {
                continue;
            };
            let (from, to) = (self.index(candidate.at), self.index(self.clock.at));
            let behind = known(&self.bytes[from..to]);
            if behind >= confirm.ahead() {
                self.check(on, confirm, &candidate, decided);
            } else if self.pending.len() >= self.limit {
                on.unknown(self, &candidate, candidate.at, decided);
            } else {
                let due = self.clock.known - behind as u64 + confirm.ahead() as u64;
                self.pending.push_back(Candidate { due, ..candidate });
            }
        }
    }

    /// Remembers a candidate that the clock came to, as long as it may be reported again.
    fn note(&mut self, candidate: &Candidate) {
        let is_old = |known: &(u32, u64)| known.1 + LATE < candidate.seen;
        while self.lately.front().is_some_and(is_old) {
            self.lately.pop_front();
        }
        self.lately.push_back((candidate.pattern, candidate.at));
    }

    /// Checks the candidates that are due.
    fn settle(&mut self, on: &mut Confirming<'_, '_>, decided: u64) {
        let mut index = 0;
        while let Some(&candidate) = self.pending.get(index) {
            if candidate.due > self.clock.known {
                index += 1;
                continue;
            }
            self.pending.remove(index);
            if let Some(confirm) = on.confirm(&candidate, decided) {
                self.check(on, confirm, &candidate, decided);
            }
        }
    }

    /// The haystack has ended, whatever is still missing.
    fn finish(&mut self, on: &mut Confirming<'_, '_>, decided: u64) {
        let left: Vec<Candidate> = self
            .pending
            .drain(..)
            .chain(self.reported.drain(..))
            .collect();
        for candidate in left {
            if let Some(confirm) = on.confirm(&candidate, decided) {
                self.check(on, confirm, &candidate, decided);
            }
        }
    }

    fn check(
        &mut self,
        on: &mut Confirming<'_, '_>,
        confirm: &Confirm,
        candidate: &Candidate,
        decided: u64,
    ) {
        let spent = self
            .spent
            .iter()
            .filter(|&&pattern| pattern == candidate.pattern);
        if spent.count() >= TRIES {
            return on.unknown(self, candidate, candidate.at, decided);
        }
        let end = self.index(candidate.at);
        let from = end.saturating_sub(self.past);
        let to = end + nth_end(&self.bytes[end..], confirm.ahead()).0;
        let is_whole = self.dropped == 0 && from == 0;
        let confirmed = confirm.check(&self.bytes[from..to], is_whole, end - from);
        let place = |start: usize| self.dropped + (from + start) as u64;
        match confirmed {
            Confirmed::Nothing => {}
            Confirmed::Match(start) => on.hit(self, candidate, place(start), decided),
            Confirmed::CutOff(start) => on.unknown(self, candidate, place(start), decided),
            Confirmed::Spent(start) => {
                let start = place(start);
                self.spent.push(candidate.pattern);
                on.unknown(self, candidate, start, decided);
            }
        }
    }

    /// The text around a candidate, for the quote of its hit.
    fn near(&self, candidate: &Candidate, start: u64) -> Near {
        let end = self.index(candidate.at);
        let from = end.saturating_sub(WINDOW);
        let to = (end + EXCERPT / 4).min(self.index(self.clock.at));
        let start = self.index(start.max(self.dropped + from as u64));
        Near {
            bytes: self.bytes[from..to].to_vec(),
            begins_haystack: self.dropped == 0 && from == 0,
            end: end - from,
            start: Some(start - from),
        }
    }
}

/// Number of characters that these bytes are certain to hold.
fn known_in(bytes: &[u8]) -> usize {
    let mut decoder = Utf8Decoder::default();
    let mut known = 0;
    for &byte in bytes {
        decoder.push(byte, |_, _| known += 1);
    }
    known
}

/// Where what was confirmed goes.
struct Confirming<'a, 'j> {
    judge: &'a mut Judge<'j>,
    arg: Option<&'a ArgPath>,
}

impl<'j> Confirming<'_, 'j> {
    /// The check of the candidate's pattern, unless its outcome would change nothing.
    fn confirm(&self, candidate: &Candidate, decided: u64) -> Option<&'j Confirm> {
        let rules: &'j ViewRules = self.judge.view;
        let rule = rules.patterns[candidate.pattern as usize].rule;
        self.judge
            .is_open(rule, self.arg, candidate.end, decided)
            .then(|| rules.confirms.get(candidate.pattern))
            .flatten()
    }

    fn hit(&mut self, waiting: &Waiting, candidate: &Candidate, start: u64, decided: u64) {
        let event = MatchEvent {
            pattern: candidate.pattern,
            at: 0,
            back: 0,
        };
        let near = || waiting.near(candidate, start);
        self.judge
            .judge(self.arg, &event, candidate.end, decided, near);
    }

    /// Nobody knows whether the candidate matches: a critical rule takes no chance.
    fn unknown(&mut self, waiting: &Waiting, candidate: &Candidate, start: u64, decided: u64) {
        let rule = self.judge.view.patterns[candidate.pattern as usize].rule;
        if self.judge.pack.scope(rule).is_critical {
            self.hit(waiting, candidate, start, decided);
        } else {
            self.judge.found.counters.unconfirmed += 1;
        }
    }
}

impl Haystack {
    /// [`Haystack::run`], where some pattern is confirmed.
    pub(super) fn run_confirming(
        &mut self,
        waiting: &mut Waiting,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        bytes: &[u8],
        at: u64,
    ) {
        for (number, piece) in bytes.chunks(PIECE).enumerate() {
            let at = at + (number * PIECE) as u64;
            let begin = waiting.total();
            self.step(waiting, judge, arg, piece, |behind| {
                let decided = at + (piece.len() - behind.seen) as u64;
                (decided - behind.back as u64, decided)
            });
            waiting.keep(piece);
            waiting.advance(&mut Confirming { judge, arg }, |seen| at + (seen - begin));
            self.window.push(piece);
        }
    }

    /// [`Haystack::take`] of what was held back, where some pattern is confirmed; `place` is what it says there.
    /// `decided` tells of each byte when it was certain: the bytes of a piece need not be so all at once.
    pub(super) fn held_confirming(
        &mut self,
        waiting: &mut Waiting,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        bytes: &[u8],
        place: impl Fn(usize) -> u64,
        decided: impl Fn(usize) -> u64,
    ) {
        for (number, piece) in bytes.chunks(PIECE).enumerate() {
            let begin = waiting.total();
            let last = |seen: usize| decided(number * PIECE + seen - 1);
            let rest = bytes.len() - (number * PIECE + piece.len());
            self.step(waiting, judge, arg, piece, |behind| {
                let end = place(rest + behind.seen + behind.back);
                (end, last(piece.len() - behind.seen))
            });
            waiting.keep(piece);
            waiting.advance(&mut Confirming { judge, arg }, |seen| {
                last((seen - begin) as usize)
            });
            self.window.push(piece);
        }
    }

    /// Steps a piece; what needs no check is judged, the rest is reported to `waiting`.
    fn step(
        &mut self,
        waiting: &mut Waiting,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        piece: &[u8],
        place: impl Fn(Behind) -> (u64, u64),
    ) {
        let begin = waiting.total();
        let Haystack { cursor, window, .. } = self;
        judge.view.matcher.push(cursor, piece, |event| {
            let seen = event.at + 1;
            let (end, decided) = place(Behind {
                seen: piece.len() - seen,
                back: event.back,
            });
            if judge.view.confirms.get(event.pattern).is_some() {
                let seen = begin + seen as u64;
                waiting.report(event.pattern, seen - event.back as u64, end, seen);
            } else {
                judge.judge(arg, &event, end, decided, || {
                    Near::new(window, &piece[..seen], event.back)
                });
            }
        });
    }

    /// [`Haystack::flush`] and [`Haystack::finish`], where some pattern is confirmed.
    pub(super) fn end_confirming(
        &mut self,
        waiting: &mut Waiting,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        end: u64,
        decided: u64,
        is_last: bool,
    ) {
        let total = waiting.total();
        let Haystack { cursor, window, .. } = self;
        let matcher = &judge.view.matcher;
        let mut on = |event: MatchEvent| {
            let back = event.back as u64;
            if judge.view.confirms.get(event.pattern).is_some() {
                waiting.report(event.pattern, total - back, end - back, total);
            } else {
                judge.judge(arg, &event, end - back, decided, || {
                    Near::new(window, &[], event.back)
                });
            }
        };
        if is_last {
            matcher.finish(cursor, &mut on);
        } else {
            matcher.flush(cursor, &mut on);
        }
        let on = &mut Confirming { judge, arg };
        waiting.advance(on, |_| decided);
        waiting.flush(on, decided);
        if is_last {
            waiting.finish(on, decided);
        }
    }
}

/// Where an event stands, counted from the end of the bytes that are being pushed.
#[derive(Clone, Copy)]
struct Behind {
    /// Bytes after the one that made it certain.
    seen: usize,
    /// Bytes between the end of the match and the end of that one.
    back: usize,
}

#[cfg(test)]
mod tests;
