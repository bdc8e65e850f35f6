//! One haystack, read for whole matches: those that `regex` finds, one after the other.
//!
//! The automaton says where nothing is in progress. What lies between two such places is a *stretch*: no
//! match leaves it. A stretch in which a pattern was reported is searched for its whole matches; all others are forgotten unread. Where stretches begin and end depends on the text alone, so
//! deltas make no difference, and each byte is stepped once and searched at most once per pattern.

use std::ops::Range;

use super::condition::{Book, Match, Position};
use super::haystack::Near;
use super::judge::Judge;
use crate::pack::{Extent, Role, SpanPattern, SpanRules};
use crate::stream::Counters;
use crate::stream::window::Window;
use crate::verdict::Hit;
use crate::view::json::ArgPath;
use crate::view::piece::{Held, Piece};
use ttsr_automata::{Cursor, Matcher, SHORT};

/// Bytes before a stretch that are looked back at, and shown in excerpts.
const BEFORE: usize = 64;

/// A haystack that is being read for whole matches.
#[derive(Debug)]
pub(super) struct Spans {
    cursor: Cursor,
    before: Behind,
    /// The stretch.
    held: Held,
    /// Patterns reported in it, sorted.
    reported: Vec<u32>,
    book: Book,
}

/// The haystack before the stretch.
#[derive(Debug, Default)]
struct Behind {
    /// Its last bytes.
    window: Window,
    /// Its lines, but for the last one, and its characters.
    lines: u64,
    chars: u64,
}

/// A place in the part where a stretch may end.
#[derive(Clone, Copy)]
struct Here {
    /// Offset of the end of what was read.
    end: u64,
    decided: u64,
}

impl Spans {
    pub(super) fn new(rules: &SpanRules) -> Spans {
        Spans {
            cursor: rules.matcher.start(),
            before: Behind::default(),
            held: Held::default(),
            reported: reported_at_start(rules).collect(),
            book: Book::default(),
        }
    }

    pub(super) fn restart(&mut self, rules: &SpanRules) {
        rules.matcher.restart(&mut self.cursor);
        self.before.clear();
        self.held.clear();
        self.reported.clear();
        self.reported.extend(reported_at_start(rules));
        self.book = Book::default();
    }

    /// Where in the part the text begins that a match in progress, or one that is not decided, may hold.
    pub(super) fn undecided_from(&self) -> Option<u64> {
        let stretch = self.held.piece_at(0).map(|piece| piece.start(0));
        stretch
            .into_iter()
            .chain(self.book.undecided_from(|_| true))
            .min()
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        counters.invalid_utf8 += Matcher::invalid_bytes(&self.cursor);
    }

    /// The fast path: a short delta that brings nothing special. Says whether it was that; if not, nothing
    /// has happened.
    #[inline]
    pub(super) fn push_short(&mut self, rules: &SpanRules, piece: Piece<'_>, limit: usize) -> bool {
        let len = piece.bytes.len();
        let has_room = self.held.bytes().len() + len < limit;
        if !has_room || !self.has_nothing_to_settle() {
            return false;
        }
        let Some((padded, idle_until)) = rules
            .matcher
            .push_short_tracking_idle(&mut self.cursor, piece.bytes)
        else {
            return false;
        };
        if idle_until > 0 {
            self.forget();
            self.before.push_short(padded, idle_until);
        }
        if idle_until < len {
            self.held.push(piece.slice(idle_until..len));
        }
        true
    }

    /// Reads a piece.
    pub(super) fn take(
        &mut self,
        rules: &SpanRules,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        piece: Piece<'_>,
    ) {
        let limit = judge.pack.limits().stretch_bytes;
        if rules.is_unbroken {
            self.keep_all(rules, judge, arg, piece, limit);
            return;
        }
        // Of the piece: where what is not behind us begins, and where the last place is that a stretch may
        // end. What is held stands before the piece, so it is behind us as soon as there is such a place.
        let (mut from, mut idle_until) = (0, 0);
        let mut at = 0;
        while at < piece.bytes.len() {
            let held = if idle_until > from {
                0
            } else {
                self.held.bytes().len()
            };
            if self.has_nothing_to_settle() {
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
            let is_full = self.step(
                rules,
                piece.bytes[at],
                limit.saturating_sub(held + at - idle_until),
            );
            judge.found.counters.cut_matches += u64::from(is_full);
            at += 1;
            if !is_full && !rules.matcher.is_idle(&self.cursor) {
                continue;
            }
            if self.has_nothing_to_settle() {
                idle_until = at;
                continue;
            }
            self.pass(piece.slice(from..idle_until));
            self.held.push(piece.slice(idle_until..at));
            let here = Here {
                end: piece.end(at - 1),
                decided: piece.decided(at - 1),
            };
            self.settle(rules, judge, arg, here);
            (from, idle_until) = (at, at);
        }
        self.pass(piece.slice(from..idle_until));
        self.held.push(piece.slice(idle_until..piece.bytes.len()));
    }

    /// Keeps a piece for the search at the end of the haystack; beyond `limit` bytes it is searched in parts.
    fn keep_all(
        &mut self,
        rules: &SpanRules,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        piece: Piece<'_>,
        limit: usize,
    ) {
        if self.held.bytes().len() + piece.bytes.len() > limit && !self.held.is_empty() {
            let last = self.held.piece_at(self.held.bytes().len() - 1);
            let last = last.expect("there is a last byte");
            let here = Here {
                end: last.end(0),
                decided: last.decided(0),
            };
            self.settle(rules, judge, arg, here);
            self.reported.extend(reported_at_start(rules));
            judge.found.counters.cut_matches += 1;
        }
        self.held.push(piece);
    }

    fn has_nothing_to_settle(&self) -> bool {
        self.reported.is_empty() && !self.book.is_waiting()
    }

    /// Steps a byte; says whether a match in progress has become as long as may be, so that it is cut here.
    fn step(&mut self, rules: &SpanRules, byte: u8, room: usize) -> bool {
        let Spans {
            cursor, reported, ..
        } = self;
        rules.matcher.push(cursor, &[byte], |event| {
            if let Err(place) = reported.binary_search(&event.pattern) {
                reported.insert(place, event.pattern);
            }
        });
        let is_full = room <= 1 && !rules.matcher.is_idle(cursor);
        if is_full {
            rules.matcher.restart(cursor);
        }
        is_full
    }

    /// Ends the haystack.
    pub(super) fn finish(
        &mut self,
        rules: &SpanRules,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        end: u64,
        decided: u64,
    ) {
        let Spans {
            cursor, reported, ..
        } = self;
        rules.matcher.finish(cursor, |event| {
            if let Err(place) = reported.binary_search(&event.pattern) {
                reported.insert(place, event.pattern);
            }
        });
        let here = Here { end, decided };
        self.settle(rules, judge, arg, here);
        let book = std::mem::take(&mut self.book);
        book.end(self.before.chars, judge, decided);
    }

    /// Nothing that was reported lies in these bytes, nor in the stretch: both are behind us.
    fn pass(&mut self, piece: Piece<'_>) {
        if !piece.bytes.is_empty() {
            self.forget();
            self.before.push(piece.bytes);
        }
    }

    /// The stretch is over: what follows begins a new one.
    fn forget(&mut self) {
        if !self.held.is_empty() {
            self.before.push(self.held.bytes());
            self.held.clear();
        }
    }

    /// The stretch ends here: finds its matches, and decides what waits for a place behind it.
    fn settle(
        &mut self,
        rules: &SpanRules,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        here: Here,
    ) {
        let reported = std::mem::take(&mut self.reported);
        if !reported.is_empty() {
            let (mut found, given_up) = self.search(rules, &reported, here);
            judge.found.counters.unconfirmed += given_up;
            found.sort_by_key(|known| (known.end.offset, known.start.offset, known.pattern));
            for known in &found {
                self.note(rules, judge, arg, known);
            }
        }
        self.forget();
        let place = Position {
            offset: here.end,
            line: self.before.lines,
            char: self.before.chars,
        };
        self.book.pass(place, judge, here.decided);
    }

    /// The matches of the stretch, of those patterns, and the number of patterns whose search was given up.
    fn search(&self, rules: &SpanRules, reported: &[u32], here: Here) -> (Vec<Match>, u64) {
        let (before, _) = self.before.last();
        let text = [before, self.held.bytes()].concat();
        let mut found = Vec::new();
        let mut given_up = 0;
        for &pattern in reported {
            let written = &rules.patterns[pattern as usize];
            let (ranges, are_all) = written.matches(&text, before.len());
            given_up += u64::from(!are_all);
            for range in ranges {
                let range = range.start - before.len()..range.end - before.len();
                found.push(self.place(pattern, range, here));
            }
        }
        (found, given_up)
    }

    /// Where a match stands; `range` is in the stretch.
    fn place(&self, pattern: u32, range: Range<usize>, here: Here) -> Match {
        let place = |index: usize| {
            self.held
                .piece_at(index)
                .expect("a match is made of bytes of the stretch")
        };
        let text = self.held.bytes();
        let Behind {
            lines: behind_lines,
            chars: behind_chars,
            ..
        } = self.before;
        let line = |upto: usize| behind_lines + lines(&text[..upto]);
        Match {
            pattern,
            start: Position {
                offset: place(range.start).start(0),
                line: line(range.start),
                char: behind_chars + chars(&text[..range.start]),
            },
            end: Position {
                offset: place(range.end - 1).end(0),
                line: line(range.end - 1),
                char: behind_chars + chars(&text[..range.end]),
            },
            text: range,
            decided: here.decided,
        }
    }

    fn note(
        &mut self,
        rules: &SpanRules,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        known: &Match,
    ) {
        let SpanPattern {
            rule,
            role,
            arg: ref wanted,
            ..
        } = rules.patterns[known.pattern as usize];
        let Some(compound) = judge.pack.compound(rule) else {
            return;
        };
        let is_too_late = role != Role::None
            && compound
                .first
                .is_some_and(|first| known.end.char > u64::from(first));
        let in_arg = match (wanted, arg) {
            (Some(wanted), Some(arg)) => wanted.applies(arg),
            _ => true,
        };
        if is_too_late || !in_arg || !judge.is_in_scope(rule, arg) {
            return;
        }
        let hit = Hit {
            rule,
            part: judge.part,
            end: known.end.offset,
            decided: known.decided,
            arg: judge.found.arg_of(arg),
        };
        let (before, is_whole) = self.before.last();
        let near = Near::around(before, self.held.bytes(), &known.text, is_whole);
        let mut quote = near.quote(hit, near.match_start());
        quote.start = Some(known.start.offset);
        quote.file = judge.file.clone();
        if compound.extent() == Extent::Haystack || compound.last.is_some() {
            let counters = &mut judge.found.counters;
            let complete = self.book.note(compound, role, known, quote, counters);
            complete.into_iter().for_each(|quote| judge.offer(quote));
        } else {
            judge.queue(role, known, quote);
        }
    }
}

impl Behind {
    fn clear(&mut self) {
        self.window.clear();
        (self.lines, self.chars) = (0, 0);
    }

    /// The bytes that are looked back at, and whether they are all there are.
    fn last(&self) -> (&[u8], bool) {
        self.window.last(BEFORE)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.lines += lines(bytes);
        self.chars += chars(bytes);
        self.window.push(bytes);
    }

    /// Appends the first `len` bytes, at least one, all of them ASCII.
    #[inline(always)]
    fn push_short(&mut self, padded: [u8; SHORT], len: usize) {
        let kept = u128::from_le_bytes(padded) << (8 * (SHORT - len));
        self.lines += lines(&kept.to_le_bytes());
        self.chars += len as u64;
        self.window.push_short(padded, len);
    }
}

/// The patterns that count as reported before anything is read: all of those that are searched without the automaton,
/// so that nothing of the haystack is let go.
fn reported_at_start(rules: &SpanRules) -> Range<u32> {
    match rules.is_unbroken {
        true => 0..rules.patterns.len() as u32,
        false => 0..0,
    }
}

/// Number of line feeds.
fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Number of characters that begin in these bytes, a byte of no character being one.
fn chars(bytes: &[u8]) -> u64 {
    let starts = bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80);
    starts.count() as u64
}

#[cfg(test)]
mod tests;
