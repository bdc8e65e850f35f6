//! Confirms the ends of patterns with look-around or back-references.
//!
//! The automaton reports *candidates*: ends at which such a pattern may match. A candidate waits until as many
//! characters follow it as its pattern looks ahead, or until the haystack ends, and is then verified on the bytes kept.
//! All distances are in bytes and characters of the haystack, so the cuts of deltas make no difference. The
//! verification itself is in [`verify`](ttsr_automata::lookaround::verify).

use std::collections::VecDeque;

use super::context::{MAX_EXCERPT, MatchContext};
use super::exceptions::Exceptions;
use super::first_end::{StopKind, is_taken};
use super::{Admission, HaystackScope};
use crate::program::{ConfirmTable, FirstEndPattern, FirstEndRole, ViewRules};
use crate::stream::window::{WINDOW, Window};
use ttsr_automata::lookaround::verify::{Verification, Verifier, nth_char_end};
use ttsr_automata::utf8::Utf8Decoder;
use ttsr_automata::{Cursor, MatchEvent, PatternId};
use ttsr_views::chunk::{Chunk, DecidedOffset};

/// Bytes that are stepped before the candidates in them are verified.
const BLOCK: usize = 256;

/// A pattern whose verification exceeded its budget this often in one haystack is not verified there again.
const MAX_EXHAUSTED: usize = 8;

/// Bytes kept after the bytes before a candidate: a block, and the widest look-ahead.
const BYTES_AFTER: usize = BLOCK + 4 * (ttsr_automata::lookaround::approximate::REACH + 2);

/// The automaton may report one end twice: at once, and again one character later, which is at most this many bytes.
const REPEAT_BYTES: u64 = 4;

/// An end at which a pattern may match.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    pattern: PatternId,
    /// Bytes of the haystack before the end.
    at: u64,
    /// Offset of the end in the part as delivered.
    end: u64,
    /// Bytes of the haystack read when the automaton reported the end.
    seen: u64,
    /// The value of [`CharClock::known`] at which the candidate can be verified.
    due: u64,
}

/// The candidates of one haystack, and the bytes they are verified on.
#[derive(Debug)]
pub(super) struct CandidateQueue {
    /// The last bytes of the haystack.
    bytes: Vec<u8>,
    /// Number of bytes of the haystack before `bytes`.
    dropped: u64,
    /// Bytes kept before a candidate.
    bytes_before: usize,
    /// Most candidates that may wait.
    limit: usize,
    /// Reported candidates that the clock has not reached, in the order in which they were reported.
    reported: VecDeque<Candidate>,
    /// Pattern and end of the candidates that the clock reached within the last [`REPEAT_BYTES`].
    recent: VecDeque<(PatternId, u64)>,
    /// Candidates that wait for characters, in the order of their ends.
    pending: VecDeque<Candidate>,
    clock: CharClock,
    /// Patterns that exceeded their budget, once for each time.
    exhausted: Vec<PatternId>,
}

/// Counts characters while a candidate waits for them.
#[derive(Debug, Default)]
struct CharClock {
    decoder: Utf8Decoder,
    /// Number of complete characters counted.
    known: u64,
    /// Bytes of the haystack that the clock has read.
    at: u64,
}

impl CandidateQueue {
    /// Returns `None` if no pattern is confirmed.
    pub(super) fn new(confirms: &ConfirmTable) -> Option<Box<CandidateQueue>> {
        (!confirms.is_empty()).then(|| {
            Box::new(CandidateQueue {
                bytes: Vec::new(),
                dropped: 0,
                bytes_before: confirms.bytes,
                limit: confirms.pending,
                reported: VecDeque::new(),
                recent: VecDeque::new(),
                pending: VecDeque::new(),
                clock: CharClock::default(),
                exhausted: Vec::new(),
            })
        })
    }

    /// Starts another haystack.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.dropped = 0;
        self.reported.clear();
        self.recent.clear();
        self.pending.clear();
        self.exhausted.clear();
    }

    /// Returns the number of bytes of the haystack so far.
    fn total(&self) -> u64 {
        self.dropped + self.bytes.len() as u64
    }

    /// Appends at most [`BLOCK`] bytes, and drops bytes that no candidate can need.
    fn append(&mut self, bytes: &[u8]) {
        let keep = self.bytes_before.max(WINDOW).saturating_add(BYTES_AFTER);
        if self.bytes.len() + bytes.len() > keep.saturating_mul(2) {
            let drop = self.bytes.len().saturating_sub(keep);
            self.bytes.drain(..drop);
            self.dropped += drop as u64;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn index(&self, at: u64) -> usize {
        usize::try_from(at - self.dropped).expect("the bytes that candidates need are kept")
    }

    /// Keeps a candidate, unless it is known from an earlier report.
    fn report(&mut self, pattern: PatternId, at: u64, end: u64, seen: u64) {
        // Automata are stepped one after the other, each over the whole block, so `seen` does not only increase.
        let index = self.reported.partition_point(|known| known.seen <= seen);
        let before = self.reported.range(..index).rev();
        let mut near = before.take_while(|known| known.seen + REPEAT_BYTES >= seen);
        let is_known = near.any(|known| (known.pattern, known.at) == (pattern, at))
            || self.recent.contains(&(pattern, at));
        if !is_known {
            let candidate = Candidate {
                pattern,
                at,
                end,
                seen,
                due: 0,
            };
            self.reported.insert(index, candidate);
        }
    }

    /// Advances the clock over the bytes appended since the last call. `decided` returns the number of bytes delivered
    /// with that byte of the haystack.
    fn advance(&mut self, confirmer: &mut Confirmer<'_, '_>, decided: impl Fn(u64) -> u64) {
        let total = self.total();
        loop {
            if self.pending.is_empty() {
                let Some(next) = self.reported.front() else {
                    return;
                };
                // The clock starts at the end of a match, where no character is incomplete.
                self.clock = CharClock {
                    at: next.at,
                    ..CharClock::default()
                };
                let seen = next.seen;
                while self.clock.at < seen {
                    self.tick();
                }
                self.accept_reported(confirmer, decided(seen), complete_chars);
                continue;
            }
            if self.clock.at == total {
                return;
            }
            self.tick();
            let decided = decided(self.clock.at);
            self.verify_due(confirmer, decided);
            self.accept_reported(confirmer, decided, complete_chars);
        }
    }

    fn tick(&mut self) {
        let byte = self.bytes[self.index(self.clock.at)];
        let CharClock { decoder, known, at } = &mut self.clock;
        decoder.push(byte, |_, _| *known += 1);
        *at += 1;
    }

    /// Ends an incomplete character: the next bytes do not continue it.
    fn flush(&mut self, confirmer: &mut Confirmer<'_, '_>, decided: u64) {
        let CharClock { decoder, known, .. } = &mut self.clock;
        decoder.flush(|_, _| *known += 1);
        self.verify_due(confirmer, decided);
        self.accept_reported(confirmer, decided, |bytes| {
            nth_char_end(bytes, usize::MAX).1
        });
    }

    /// Verifies the candidates that were reported at the last byte of the clock, or adds them to `pending`. `chars`
    /// counts the characters after an end.
    fn accept_reported(
        &mut self,
        confirmer: &mut Confirmer<'_, '_>,
        decided: u64,
        chars: impl Fn(&[u8]) -> usize,
    ) {
        while let Some(&candidate) = self.reported.front() {
            if candidate.seen > self.clock.at {
                return;
            }
            self.reported.pop_front();
            self.add_recent(&candidate);
            let Some(confirm) = confirmer.confirm(&candidate, decided) else {
                continue;
            };
            let (from, to) = (self.index(candidate.at), self.index(self.clock.at));
            let after = chars(&self.bytes[from..to]);
            if after >= confirm.ahead() {
                self.verify(confirmer, confirm, &candidate, decided);
            } else if self.pending.len() >= self.limit {
                confirmer.admit_undecided(self, &candidate, candidate.at, decided);
            } else {
                let due = self.clock.known - after as u64 + confirm.ahead() as u64;
                self.pending.push_back(Candidate { due, ..candidate });
            }
        }
    }

    /// Remembers a candidate as long as it may be reported again.
    fn add_recent(&mut self, candidate: &Candidate) {
        let is_old = |known: &(PatternId, u64)| known.1 + REPEAT_BYTES < candidate.seen;
        while self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        self.recent.push_back((candidate.pattern, candidate.at));
    }

    /// Verifies the pending candidates that are due.
    fn verify_due(&mut self, confirmer: &mut Confirmer<'_, '_>, decided: u64) {
        let mut index = 0;
        while let Some(&candidate) = self.pending.get(index) {
            if candidate.due > self.clock.known {
                index += 1;
                continue;
            }
            self.pending.remove(index);
            if let Some(confirm) = confirmer.confirm(&candidate, decided) {
                self.verify(confirmer, confirm, &candidate, decided);
            }
        }
    }

    /// Ends the haystack: verifies the remaining candidates.
    fn finish(&mut self, confirmer: &mut Confirmer<'_, '_>, decided: u64) {
        let left: Vec<Candidate> = self
            .pending
            .drain(..)
            .chain(self.reported.drain(..))
            .collect();
        for candidate in left {
            if let Some(confirm) = confirmer.confirm(&candidate, decided) {
                self.verify(confirmer, confirm, &candidate, decided);
            }
        }
    }

    /// Verifies a candidate on its window, and admits it if it is a match or cannot be decided.
    fn verify(
        &mut self,
        confirmer: &mut Confirmer<'_, '_>,
        confirm: &Verifier,
        candidate: &Candidate,
        decided: u64,
    ) {
        let exhausted = self.exhausted.iter();
        let tries = exhausted.filter(|&&pattern| pattern == candidate.pattern);
        if tries.count() >= MAX_EXHAUSTED {
            return confirmer.admit_undecided(self, candidate, candidate.at, decided);
        }
        let end = self.index(candidate.at);
        let from = end.saturating_sub(self.bytes_before);
        let to = end + nth_char_end(&self.bytes[end..], confirm.ahead()).0;
        let is_whole = self.dropped == 0 && from == 0;
        let confirmed = confirm.verify_end(&self.bytes[from..to], is_whole, end - from);
        let in_haystack = |start: usize| self.dropped + (from + start) as u64;
        match confirmed {
            Verification::NoMatch => {}
            Verification::Match(start) => {
                confirmer.admit(self, candidate, in_haystack(start), decided);
            }
            Verification::WindowTooShort(start) => {
                confirmer.admit_undecided(self, candidate, in_haystack(start), decided);
            }
            Verification::BudgetSpent(start) => {
                let start = in_haystack(start);
                self.exhausted.push(candidate.pattern);
                confirmer.admit_undecided(self, candidate, start, decided);
            }
        }
    }

    /// Returns the text around a candidate.
    fn context(&self, candidate: &Candidate, start: u64) -> MatchContext {
        let end = self.index(candidate.at);
        let from = end.saturating_sub(WINDOW);
        let to = (end + MAX_EXCERPT / 4).min(self.index(self.clock.at));
        let start = self.index(start.max(self.dropped + from as u64));
        MatchContext {
            bytes: self.bytes[from..to].to_vec(),
            begins_haystack: self.dropped == 0 && from == 0,
            end: end - from,
            start: Some(start - from),
        }
    }
}

/// Returns the number of characters that are complete in these bytes.
fn complete_chars(bytes: &[u8]) -> usize {
    let mut decoder = Utf8Decoder::default();
    let mut complete = 0;
    for &byte in bytes {
        decoder.push(byte, |_, _| complete += 1);
    }
    complete
}

/// Looks up the verification of a candidate, and admits what is confirmed.
struct Confirmer<'a, 'j> {
    view: &'a ViewRules,
    admission: &'a mut Admission<'j>,
    scope: HaystackScope<'a>,
    exceptions: &'a mut Option<Box<Exceptions>>,
}

impl<'a> Confirmer<'a, '_> {
    /// Returns the verification of the candidate's pattern, or `None` if a match would not count.
    fn confirm(&self, candidate: &Candidate, decided: u64) -> Option<&'a Verifier> {
        let FirstEndPattern { rule, role, .. } = self.view.patterns[candidate.pattern.index()];
        let end = DecidedOffset {
            offset: candidate.end,
            decided,
        };
        let exceptions = self.exceptions.as_deref();
        let is_excluded = exceptions.is_some_and(|exceptions| match role {
            FirstEndRole::MatchUnless(unless) => exceptions.excludes(unless, candidate.at),
            _ => false,
        });
        (!is_excluded && self.admission.can_hit(rule, self.scope, end))
            .then(|| self.view.confirms.get(candidate.pattern))
            .flatten()
    }

    /// Admits a verified match.
    fn admit(&mut self, queue: &CandidateQueue, candidate: &Candidate, start: u64, decided: u64) {
        let event = MatchEvent {
            pattern: candidate.pattern,
            at: 0,
            back: 0,
        };
        let end = DecidedOffset {
            offset: candidate.end,
            decided,
        };
        let context = || queue.context(candidate, start);
        self.admission
            .admit_first_end(self.view, self.scope, &event, end, context);
    }

    /// Handles a candidate that could not be verified: it is a hit of a critical rule, and is counted as unconfirmed
    /// for any other.
    fn admit_undecided(
        &mut self,
        queue: &CandidateQueue,
        candidate: &Candidate,
        start: u64,
        decided: u64,
    ) {
        let rule = self.view.patterns[candidate.pattern.index()].rule;
        if self.admission.context.program.scope(rule).is_critical {
            self.admit(queue, candidate, start, decided);
        } else {
            self.admission.state.counters.unconfirmed += 1;
        }
    }
}

/// The search of a view in which some pattern looks around.
pub(super) struct ConfirmingSearch<'r> {
    pub(super) cursor: &'r mut Cursor,
    pub(super) window: &'r mut Window,
    pub(super) exceptions: &'r mut Option<Box<Exceptions>>,
    pub(super) queue: &'r mut CandidateQueue,
}

impl ConfirmingSearch<'_> {
    /// Reads bytes that are in the part unchanged, from offset `at`.
    pub(super) fn push_verbatim(
        self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        bytes: &[u8],
        at: u64,
    ) {
        let ConfirmingSearch {
            cursor,
            window,
            exceptions,
            queue,
        } = self;
        let mut confirmer = Confirmer {
            view,
            admission,
            scope,
            exceptions,
        };
        for (number, block) in bytes.chunks(BLOCK).enumerate() {
            let at = at + (number * BLOCK) as u64;
            let begin = queue.total();
            step(cursor, window, queue, &mut confirmer, block, |from_end| {
                let decided = at + (block.len() - from_end.read) as u64;
                DecidedOffset {
                    offset: decided - from_end.back as u64,
                    decided,
                }
            });
            queue.append(block);
            queue.advance(&mut confirmer, |seen| at + (seen - begin));
            window.push(block);
        }
    }

    /// Reads a chunk that was held back. `offset` returns the offset in the part that is the given number of bytes before the
    /// end of the chunk. The bytes of such a chunk may have become certain at different times.
    pub(super) fn push_held(
        self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        chunk: Chunk<'_>,
        offset: impl Fn(usize) -> u64,
    ) {
        let ConfirmingSearch {
            cursor,
            window,
            exceptions,
            queue,
        } = self;
        let mut confirmer = Confirmer {
            view,
            admission,
            scope,
            exceptions,
        };
        for (number, block) in chunk.bytes.chunks(BLOCK).enumerate() {
            let begin = queue.total();
            let decided = |read: usize| chunk.decided(number * BLOCK + read - 1);
            let rest = chunk.bytes.len() - (number * BLOCK + block.len());
            step(cursor, window, queue, &mut confirmer, block, |from_end| {
                DecidedOffset {
                    offset: offset(rest + from_end.read + from_end.back),
                    decided: decided(block.len() - from_end.read),
                }
            });
            queue.append(block);
            queue.advance(&mut confirmer, |seen| decided((seen - begin) as usize));
            window.push(block);
        }
    }

    /// Reports the matches that the end of the text decides.
    pub(super) fn stop(
        self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        end: DecidedOffset,
        kind: StopKind,
    ) {
        let ConfirmingSearch {
            cursor,
            window,
            exceptions,
            queue,
        } = self;
        let total = queue.total();
        let offset = |event: &MatchEvent| end.offset - event.back as u64;
        let mut admit = |event: MatchEvent| {
            let end = DecidedOffset {
                offset: offset(&event),
                ..end
            };
            admission.admit_first_end(view, scope, &event, end, || {
                MatchContext::at_end(window, &[], event.back)
            });
        };
        let on_match = |event: MatchEvent| {
            let at = total - event.back as u64;
            if view.confirms.get(event.pattern).is_some() {
                return queue.report(event.pattern, at, offset(&event), total);
            }
            let exceptions = exceptions.as_deref_mut();
            if !exceptions.is_some_and(|it| it.takes(view, event, at)) {
                admit(event);
            }
        };
        match kind {
            StopKind::Flush => view.matcher.flush(cursor, on_match),
            StopKind::Finish => view.matcher.finish(cursor, on_match),
        }
        if let Some(exceptions) = exceptions {
            exceptions.take_matches(view).for_each(admit);
        }
        let confirmer = &mut Confirmer {
            view,
            admission,
            scope,
            exceptions,
        };
        queue.advance(confirmer, |_| end.decided);
        queue.flush(confirmer, end.decided);
        if kind == StopKind::Finish {
            queue.finish(confirmer, end.decided);
        }
    }
}

/// Steps a block: matches that need no confirmation are admitted, the others are reported to `queue`.
fn step(
    cursor: &mut Cursor,
    window: &Window,
    queue: &mut CandidateQueue,
    confirmer: &mut Confirmer<'_, '_>,
    block: &[u8],
    end_of: impl Fn(OffsetFromEnd) -> DecidedOffset,
) {
    let begin = queue.total();
    let Confirmer {
        view,
        admission,
        scope,
        exceptions,
    } = confirmer;
    let end_of = |event: &MatchEvent| {
        end_of(OffsetFromEnd {
            read: block.len() - event.at - 1,
            back: event.back,
        })
    };
    let mut admit = |event: MatchEvent| {
        admission.admit_first_end(view, *scope, &event, end_of(&event), || {
            MatchContext::at_end(window, &block[..=event.at], event.back)
        });
    };
    view.matcher.push(cursor, block, |event| {
        if view.confirms.get(event.pattern).is_some() {
            let seen = begin + (event.at + 1) as u64;
            let at = seen - event.back as u64;
            queue.report(event.pattern, at, end_of(&event).offset, seen);
        } else if !is_taken(exceptions, view, event, window) {
            admit(event);
        }
    });
    if let Some(exceptions) = exceptions {
        exceptions.take_matches(view).for_each(admit);
    }
}

/// The position of a match event, counted from the end of the bytes that are pushed.
#[derive(Clone, Copy)]
struct OffsetFromEnd {
    /// Bytes after the byte that made the match certain.
    read: usize,
    /// Bytes between the end of the match and the byte that made it certain, inclusive.
    back: usize,
}

#[cfg(test)]
mod tests;
