//! One haystack, read for whole matches: those that `regex` finds, one after the other.
//!
//! The automaton says where nothing is in progress. What lies between two such places is a *stretch*: no
//! match leaves it. A stretch in which a pattern was reported is searched with that pattern as it is
//! written; all others are forgotten unread. Where stretches begin and end depends on the text alone, so
//! deltas make no difference, and each byte is stepped once and searched at most once per pattern.

use std::ops::Range;

use regex_automata::Input;

use super::condition::{Book, Match, Position};
use super::haystack::Near;
use super::judge::Judge;
use crate::matcher::{Cursor, Matcher};
use crate::pack::{Extent, Role, SpanPattern, SpanRules};
use crate::stream::Counters;
use crate::verdict::Hit;
use crate::view::json::ArgPath;
use crate::view::piece::{Held, Piece};

/// Bytes kept before a stretch, for what looks back at it and for excerpts.
const BEFORE: usize = 64;

/// A haystack that is being read for whole matches.
#[derive(Debug)]
pub(super) struct Spans {
    cursor: Cursor,
    /// The last bytes before the stretch.
    before: Vec<u8>,
    /// Whether those are all there are.
    is_whole: bool,
    /// The stretch.
    held: Held,
    /// Patterns reported in it, sorted.
    reported: Vec<u32>,
    /// Where it begins, in lines and characters of the haystack.
    lines: u64,
    chars: u64,
    book: Book,
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
            before: Vec::new(),
            is_whole: true,
            held: Held::default(),
            reported: Vec::new(),
            lines: 0,
            chars: 0,
            book: Book::default(),
        }
    }

    pub(super) fn restart(&mut self, rules: &SpanRules) {
        rules.matcher.restart(&mut self.cursor);
        self.before.clear();
        self.is_whole = true;
        self.held.clear();
        self.reported.clear();
        (self.lines, self.chars) = (0, 0);
        self.book.clear();
    }

    /// Where in the part the text begins that a match in progress, or one that is not decided, may hold.
    pub(super) fn undecided_from(&self) -> Option<u64> {
        let stretch = self.held.piece_at(0).map(|piece| piece.start(0));
        stretch.into_iter().chain(self.book.undecided_from()).min()
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        counters.invalid_utf8 += Matcher::invalid_bytes(&self.cursor);
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
        // Of the piece: where the stretch begins, and where the last place is that one may end.
        let mut from = 0;
        let mut quiet = 0;
        for at in 0..piece.bytes.len() {
            let Spans {
                cursor, reported, ..
            } = self;
            rules.matcher.push(cursor, &piece.bytes[at..=at], |event| {
                if let Err(place) = reported.binary_search(&event.pattern) {
                    reported.insert(place, event.pattern);
                }
            });
            let is_quiet = rules.matcher.is_quiet(&self.cursor);
            let is_full = !is_quiet && self.held.bytes().len() + (at + 1 - quiet) >= limit;
            if is_full {
                judge.found.counters.cut_matches += 1;
                rules.matcher.restart(&mut self.cursor);
            }
            if !is_quiet && !is_full {
                continue;
            }
            if self.reported.is_empty() && !self.book.is_waiting() {
                quiet = at + 1;
                continue;
            }
            self.pass(piece.slice(from..quiet));
            self.held.push(piece.slice(quiet..at + 1));
            let here = Here {
                end: piece.end(at),
                decided: piece.decided(at),
            };
            self.settle(rules, judge, arg, here);
            (from, quiet) = (at + 1, at + 1);
        }
        self.pass(piece.slice(from..quiet));
        self.held.push(piece.slice(quiet..piece.bytes.len()));
    }

    /// What is pending cannot be completed: other bytes follow.
    pub(super) fn flush(&mut self, rules: &SpanRules) {
        let Spans {
            cursor, reported, ..
        } = self;
        rules.matcher.flush(cursor, |event| {
            if let Err(place) = reported.binary_search(&event.pattern) {
                reported.insert(place, event.pattern);
            }
        });
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
        book.end(self.chars, judge, decided);
    }

    /// Nothing that was reported lies in these bytes, nor in the stretch: both are behind us.
    fn pass(&mut self, piece: Piece<'_>) {
        if piece.bytes.is_empty() {
            return;
        }
        self.held.push(piece);
        self.forget();
    }

    /// The stretch is over: what follows begins a new one.
    fn forget(&mut self) {
        let bytes = self.held.bytes();
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.chars += chars(bytes);
        let tail = &bytes[bytes.len().saturating_sub(BEFORE)..];
        let keep = (BEFORE - tail.len()).min(self.before.len());
        self.is_whole &= tail.len() == bytes.len() && keep == self.before.len();
        self.before.drain(..self.before.len() - keep);
        self.before.extend_from_slice(tail);
        self.held.clear();
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
            let mut found = self.search(rules, &reported, here);
            found.sort_by_key(|known| (known.end.offset, known.start.offset, known.pattern));
            for known in &found {
                self.note(rules, judge, arg, known);
            }
        }
        self.forget();
        let place = Position {
            offset: here.end,
            line: self.lines,
            char: self.chars,
        };
        self.book.pass(place, judge, here.decided);
    }

    /// The matches of the stretch, of those patterns.
    fn search(&self, rules: &SpanRules, reported: &[u32], here: Here) -> Vec<Match> {
        let text = [&self.before, self.held.bytes()].concat();
        let mut found = Vec::new();
        for &pattern in reported {
            let written = &rules.patterns[pattern as usize];
            for range in matches(written, &text, self.before.len()) {
                found.push(self.place(pattern, range, here));
            }
        }
        found
    }

    /// Where a match stands; `range` is in the text with what stands before it.
    fn place(&self, pattern: u32, range: Range<usize>, here: Here) -> Match {
        let (from, to) = (
            range.start - self.before.len(),
            range.end - self.before.len(),
        );
        let place = |index: usize| {
            self.held
                .piece_at(index)
                .expect("a match is made of bytes of the stretch")
        };
        let text = self.held.bytes();
        let line =
            |upto: usize| self.lines + memchr::memchr_iter(b'\n', &text[..upto]).count() as u64;
        Match {
            pattern,
            start: Position {
                offset: place(from).start(0),
                line: line(from),
                char: self.chars + chars(&text[..from]),
            },
            end: Position {
                offset: place(to - 1).end(0),
                line: line(to - 1),
                char: self.chars + chars(&text[..to]),
            },
            text: from..to,
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
        let near = Near::around(&self.before, self.held.bytes(), &known.text, self.is_whole);
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

/// Number of characters that begin in these bytes, a byte of no character being one.
fn chars(bytes: &[u8]) -> u64 {
    let starts = bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80);
    starts.count() as u64
}

/// The matches of the pattern from `from` on, as `regex` finds them.
fn matches(pattern: &SpanPattern, text: &[u8], from: usize) -> Vec<Range<usize>> {
    let input = Input::new(text).range(from..);
    let regex = pattern.regex();
    let Some(capture) = &pattern.capture else {
        return regex.find_iter(input).map(|found| found.range()).collect();
    };
    regex
        .captures_iter(input)
        .filter(|captures| capture.accepts(captures, text))
        .filter_map(|captures| captures.get_match().map(|found| found.range()))
        .collect()
}

#[cfg(test)]
mod tests;
