//! Limits on a part: bytes, lines, deltas, tokens, and time, which the caller passes in.
//!
//! A part may reach a limit; the detection is the first byte beyond it. Bytes, lines and estimated tokens depend on the
//! text alone, deltas on how it is cut. Memory: a few numbers.

use std::time::Duration;

use super::Detection;
use crate::chunk::Chunk;

/// The limits of a part; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundLimits {
    /// Bytes of the part as delivered.
    pub bytes: Option<u64>,
    /// Lines with at least one byte, including the last one.
    pub lines: Option<u64>,
    /// Deltas, including empty ones.
    pub deltas: Option<u64>,
    /// Tokens, as estimated from the text or [counted](BoundMonitor::counted) by the host.
    pub tokens: Option<u64>,
    /// The time since the start of the part.
    pub time: Option<Duration>,
    /// The time from the start to the first delta.
    pub first: Option<Duration>,
    /// The time between two deltas.
    pub stall: Option<Duration>,
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundKind {
    /// [`BoundLimits::bytes`].
    Bytes,
    /// [`BoundLimits::lines`].
    Lines,
    /// [`BoundLimits::deltas`].
    Deltas,
    /// [`BoundLimits::tokens`].
    Tokens,
    /// [`BoundLimits::time`].
    Time,
    /// [`BoundLimits::first`].
    First,
    /// [`BoundLimits::stall`].
    Stall,
}

/// Monitors the limits of one part and reports each at most once.
#[derive(Clone, Debug)]
pub struct BoundMonitor {
    bounds: BoundLimits,
    bytes: u64,
    lines: u64,
    deltas: u64,
    at_line_start: bool,
    /// The estimate; `None` if the host counts the tokens.
    tokens: Option<Tokens>,
    started: Duration,
    last: Option<Duration>,
    end: u64,
    passed: u8,
}

impl BoundMonitor {
    /// Creates a monitor that estimates tokens until the host [counts](Self::counted) them. `now` is the reading of any
    /// monotonic clock.
    pub fn new(bounds: BoundLimits, now: Duration) -> BoundMonitor {
        BoundMonitor {
            bounds,
            bytes: 0,
            lines: 0,
            deltas: 0,
            at_line_start: true,
            tokens: Some(Tokens::default()),
            started: now,
            last: None,
            end: 0,
            passed: 0,
        }
    }

    /// Counts a delta, before its chunks.
    #[inline]
    pub fn delta(&mut self, now: Duration, passed: &mut dyn FnMut(BoundKind, Detection)) {
        self.time(now, passed);
        self.last = Some(now);
        self.deltas += 1;
        if self.bounds.deltas.is_some_and(|most| self.deltas > most) {
            self.pass(BoundKind::Deltas, self.here(), passed);
        }
    }

    /// Checks the limits on time, with or without a delta.
    pub fn time(&mut self, now: Duration, passed: &mut dyn FnMut(BoundKind, Detection)) {
        let over = |since: Duration, most: Option<Duration>| {
            most.is_some_and(|most| now.saturating_sub(since) > most)
        };
        if over(self.started, self.bounds.time) {
            self.pass(BoundKind::Time, self.here(), passed);
        }
        match self.last {
            None if over(self.started, self.bounds.first) => {
                self.pass(BoundKind::First, self.here(), passed);
            }
            Some(last) if over(last, self.bounds.stall) => {
                self.pass(BoundKind::Stall, self.here(), passed);
            }
            _ => {}
        }
    }

    /// Starts another text of the same part: the next byte starts a line and a token.
    #[inline]
    pub fn begin_text(&mut self) {
        self.at_line_start = true;
        self.tokens.iter_mut().for_each(Tokens::begin_text);
    }

    /// Sets the number of bytes of the part that are delivered, including those that are not [read](Self::push).
    #[inline]
    pub fn delivered(&mut self, end: u64) {
        self.end = end;
    }

    /// Sets the number of tokens that the host has counted so far, and stops estimating.
    #[inline]
    pub fn counted(&mut self, tokens: u64, passed: &mut dyn FnMut(BoundKind, Detection)) {
        self.tokens = None;
        if self.bounds.tokens.is_some_and(|most| tokens > most) {
            self.pass(BoundKind::Tokens, self.here(), passed);
        }
    }

    /// Reads the next chunk.
    pub fn push(&mut self, chunk: Chunk<'_>, passed: &mut dyn FnMut(BoundKind, Detection)) {
        for (index, &byte) in chunk.bytes.iter().enumerate() {
            self.end = chunk.end(index);
            self.bytes += 1;
            self.lines += u64::from(self.at_line_start);
            self.at_line_start = byte == b'\n';
            let tokens = self.tokens.as_mut().map_or(0, |tokens| tokens.step(byte));
            let counts = [self.bytes, self.lines, tokens];
            let most = [self.bounds.bytes, self.bounds.lines, self.bounds.tokens];
            let kinds = [BoundKind::Bytes, BoundKind::Lines, BoundKind::Tokens];
            for at in 0..3 {
                if most[at].is_some_and(|most| counts[at] > most) {
                    let (end, decided) = (chunk.end(index), chunk.decided(index));
                    let found = Detection {
                        start: chunk.start(index),
                        end,
                        decided,
                    };
                    self.pass(kinds[at], found, passed);
                }
            }
        }
    }

    #[inline]
    fn here(&self) -> Detection {
        Detection {
            start: self.end,
            end: self.end,
            decided: self.end,
        }
    }

    fn pass(
        &mut self,
        bound: BoundKind,
        found: Detection,
        passed: &mut dyn FnMut(BoundKind, Detection),
    ) {
        let bit = 1 << bound as u8;
        if self.passed & bit == 0 {
            self.passed |= bit;
            passed(bound, found);
        }
    }
}

/// An estimate of tokens that depends on the text alone. A word is one token, and one more for each six letters after
/// the sixth; three digits are one; four bytes of the same punctuation or blank are one; a single blank before a word
/// is not counted; two bytes that are not ASCII are one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tokens {
    count: u64,
    run: u32,
    kind: CharClass,
    last: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CharClass {
    #[default]
    Blank,
    Letter,
    Digit,
    Mark,
    Wide,
}

impl Tokens {
    /// Starts another text.
    #[inline]
    fn begin_text(&mut self) {
        *self = Tokens {
            count: self.count,
            ..Tokens::default()
        };
    }

    /// Consumes a byte. Returns the number of tokens so far.
    #[inline]
    pub(crate) fn step(&mut self, byte: u8) -> u64 {
        let kind = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => CharClass::Letter,
            b'0'..=b'9' => CharClass::Digit,
            0x80.. => CharClass::Wide,
            _ if byte.is_ascii_whitespace() => CharClass::Blank,
            _ => CharClass::Mark,
        };
        let is_same = kind == self.kind && (kind != CharClass::Mark || byte == self.last);
        self.run = if is_same { self.run + 1 } else { 0 };
        self.kind = kind;
        self.last = byte;
        self.count += u64::from(match kind {
            CharClass::Letter => self.run.is_multiple_of(6) && self.run != 6,
            CharClass::Digit => self.run.is_multiple_of(3),
            CharClass::Mark => self.run.is_multiple_of(4),
            CharClass::Blank => self.run % 8 == 1 || byte == b'\n' && self.run == 0,
            CharClass::Wide => self.run.is_multiple_of(2),
        });
        self.count
    }
}
