//! Text that repeats one unit without end, from a single character to several paragraphs.
//!
//! 1. A period is proposed if the last [`GRAM`] bytes occurred before: the distance between the two occurrences.
//! 2. It is kept as long as every byte equals the byte one period before it. At most two periods are tracked at a time,
//!    because shorter ones come and go inside a unit.
//! 3. Once it has held for a whole unit, the text is scanned backwards to the start of the repetition. The start is
//!    therefore exact, and the cost of a byte is constant.
//!
//! Memory: the last [`WINDOW`] bytes, and 64 KiB for the positions of hashed grams.

use super::{Detection, Detector, OffsetIndex};
use crate::chunk::Chunk;

/// The number of bytes of text that are kept for the backward scan.
pub const WINDOW: usize = 16 << 10;
/// The length of the longest unit, in bytes.
pub(crate) const UNIT_BYTES: usize = WINDOW / 4;
/// The number of bytes that must recur for their distance to be proposed.
pub const GRAM: usize = 16;
const SLOTS: usize = 8 << 10;

/// The limits above which repetition is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepetitionLimits {
    /// The shortest and the longest unit, in characters. A shorter period counts as a multiple of itself.
    pub unit_chars: (usize, usize),
    /// The number of consecutive occurrences of the unit, at least 3.
    pub times: usize,
    /// The fewest characters of all occurrences together.
    pub chars: usize,
    /// `times` for regular text: blanks, ruled lines, numbers, tables, code.
    pub regular_times: usize,
    /// `chars` for regular text.
    pub regular_chars: usize,
}

impl Default for RepetitionLimits {
    fn default() -> RepetitionLimits {
        RepetitionLimits {
            unit_chars: (1, 2000),
            times: 4,
            chars: 240,
            regular_times: 40,
            regular_chars: 1200,
        }
    }
}

/// Detects the first repetition of a haystack.
#[derive(Clone, Debug)]
pub struct RepetitionDetector {
    limits: RepetitionLimits,
    /// True if the following chunks are code, which is regular.
    code: bool,
    text: Vec<u8>,
    places: OffsetIndex,
    len: u64,
    gram: u128,
    /// A hash table of grams: the end of the last gram in each slot, and more bits of its hash.
    seen: Vec<(u32, u32)>,
    periods: [Period; 2],
    is_found: bool,
}

/// A period that is tracked.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    /// The length of the period in bytes; 0 if the slot is free.
    distance: usize,
    /// The number of bytes for which it has held since it was proposed.
    held: usize,
    /// The start of the repetition, once it is known.
    start: u64,
    /// The length of the haystack at which the limit is exceeded.
    limit: u64,
}

impl RepetitionDetector {
    /// Creates a detector for one haystack.
    pub fn new(limits: RepetitionLimits) -> RepetitionDetector {
        RepetitionDetector {
            limits,
            code: false,
            text: Vec::new(),
            places: OffsetIndex::default(),
            len: 0,
            gram: 0,
            seen: Vec::new(),
            periods: [Period::default(); 2],
            is_found: false,
        }
    }

    /// Sets whether the following chunks are code.
    pub fn set_code(&mut self, code: bool) {
        self.code = code;
    }

    /// Returns the byte at `index`, one of the last [`WINDOW`] bytes.
    #[inline]
    fn byte(&self, index: u64) -> u8 {
        self.text[index as usize & (WINDOW - 1)]
    }

    #[inline]
    fn keep(&mut self, byte: u8) {
        if self.text.len() < WINDOW {
            self.text.push(byte);
        } else {
            self.text[self.len as usize & (WINDOW - 1)] = byte;
        }
    }

    /// Consumes a byte. Returns the start of the repeated text if this byte exceeds the limit.
    #[inline]
    fn step(&mut self, byte: u8) -> Option<u64> {
        self.keep(byte);
        self.len += 1;
        self.gram = self.gram << 8 | u128::from(byte);
        let proposed = self.proposed();
        let mut hit = None;
        for at in 0..2 {
            if self.periods[at].distance != 0 {
                hit = hit.or(self.follow(at, byte));
            }
        }
        if hit.is_none() && proposed != 0 {
            self.propose(proposed);
        }
        hit
    }

    /// Returns the distance to the previous occurrence of the last gram; 0 if there is none.
    #[inline]
    fn proposed(&mut self) -> usize {
        if self.len < GRAM as u64 {
            return 0;
        }
        let folded = (self.gram as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ ((self.gram >> 64) as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
        let hash = (folded ^ folded >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let (slot, tag) = ((hash >> 51) as usize & (SLOTS - 1), hash as u32);
        if self.seen.is_empty() {
            self.seen = vec![(0, 0); SLOTS];
        }
        let before = std::mem::replace(&mut self.seen[slot], (self.len as u32, tag));
        let distance = (self.len as u32).wrapping_sub(before.0) as usize;
        let is_near = before.0 != 0 && before.1 == tag && distance <= UNIT_BYTES;
        if is_near { distance } else { 0 }
    }

    fn propose(&mut self, distance: usize) {
        let [first, second] = &mut self.periods;
        let period = Period {
            distance,
            ..Period::default()
        };
        if first.distance == 0 {
            *first = period;
        } else if first.distance != distance && second.distance == 0 {
            *second = period;
        }
    }

    #[inline]
    fn follow(&mut self, at: usize, byte: u8) -> Option<u64> {
        let period = self.periods[at];
        if self.byte(self.len - 1 - period.distance as u64) != byte {
            self.periods[at] = Period::default();
            if at == 0 {
                self.periods.swap(0, 1);
                return self.follow_second(byte);
            }
            return None;
        }
        let held = period.held + 1;
        self.periods[at].held = held;
        if held == period.distance.max(GRAM) {
            self.look_back(at);
        }
        let period = self.periods[at];
        let is_known = held >= period.distance.max(GRAM);
        (is_known && self.len >= period.limit).then_some(period.start + period.distance as u64)
    }

    /// Steps the second period after it has become the first in the middle of a step.
    fn follow_second(&mut self, byte: u8) -> Option<u64> {
        match self.periods[0].distance {
            0 => None,
            _ => self.follow(0, byte),
        }
    }

    /// Finds the start of a period that has held for a whole unit, and the length at which it exceeds the limit.
    #[cold]
    fn look_back(&mut self, at: usize) {
        let distance = self.periods[at].distance as u64;
        let oldest = self.len.saturating_sub(self.text.len() as u64);
        let mut from = self.len;
        while from > oldest + distance && self.byte(from - 1) == self.byte(from - 1 - distance) {
            from -= 1;
        }
        let start = from - distance;
        self.periods[at].start = start;
        self.periods[at].limit = match self.needed(start, distance) {
            Some(needed) => start + needed,
            None => u64::MAX,
        };
    }

    /// Returns the number of bytes from `start` at which the limit is exceeded, or `None` for an unlimited repetition.
    fn needed(&self, start: u64, distance: u64) -> Option<u64> {
        let unit: Vec<u8> = (self.len - distance..self.len)
            .map(|index| self.byte(index))
            .collect();
        let chars = unit
            .iter()
            .filter(|byte| !is_continuation(**byte))
            .count()
            .max(1);
        let (least, most) = self.limits.unit_chars;
        if chars > most || self.is_encoded_data(start, &unit) {
            return None;
        }
        let unit_chars = chars * least.div_ceil(chars).max(1);
        let limits = &self.limits;
        let (times, all_chars) = match self.code || is_regular(&unit) {
            true => (limits.regular_times, limits.regular_chars),
            false => (limits.times, limits.chars),
        };
        let wanted = (unit_chars * times).max(all_chars);
        Some((wanted * unit.len()).div_ceil(chars) as u64)
    }

    /// Returns true if the unit is surrounded by encoded data.
    fn is_encoded_data(&self, start: u64, unit: &[u8]) -> bool {
        const BEFORE: u64 = 32;
        let oldest = self.len.saturating_sub(self.text.len() as u64);
        if start < oldest + BEFORE || !unit.iter().copied().all(is_encoded) {
            return false;
        }
        let before: Vec<u8> = (start - BEFORE..start)
            .map(|index| self.byte(index))
            .collect();
        let has = |kind: fn(&u8) -> bool| before.iter().any(kind);
        before.iter().copied().all(is_encoded)
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
    }
}

impl Detector for RepetitionDetector {
    fn push(&mut self, chunk: Chunk<'_>, found: &mut dyn FnMut(Detection)) {
        if self.is_found {
            return;
        }
        self.places.push(&chunk);
        for (index, &byte) in chunk.bytes.iter().enumerate() {
            if let Some(start) = self.step(byte) {
                self.is_found = true;
                return found(Detection {
                    start: self.places.start(start),
                    end: chunk.end(index),
                    decided: chunk.decided(index),
                });
            }
        }
        self.places.forget(self.len.saturating_sub(WINDOW as u64));
    }

    fn finish(&mut self, _: u64, _: &mut dyn FnMut(Detection)) {}
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte)
}

/// Returns true if the unit is of a kind that repeats in normal text: blanks, rulers, numbers, rows of a table or of
/// code. The order of its bytes is irrelevant, because a unit can start anywhere.
pub(super) fn is_regular(unit: &[u8]) -> bool {
    let count = |is: &dyn Fn(u8) -> bool| unit.iter().filter(|byte| is(**byte)).count();
    let letters = count(&|byte| byte.is_ascii_alphabetic());
    let digits = count(&|byte| byte.is_ascii_digit());
    let ruling = count(&|byte| b"-=_*#~+.|:/\\<>^".contains(&byte) || is_drawn(byte));
    let blank = count(&|byte| byte.is_ascii_whitespace());
    let marks = count(&|byte| b"{}[]()|,;:\"'=<>\\/".contains(&byte));
    let hex = count(&|byte| byte.is_ascii_hexdigit() || byte == b'x');
    let is_ruled = letters + digits == 0 && ruling + blank == unit.len();
    let is_numeric = digits > 0 && letters + digits == hex;
    is_ruled || is_numeric || marks * 8 >= unit.len()
}

/// Returns true for the bytes of box-drawing and block characters (U+2500 to U+259F).
fn is_drawn(byte: u8) -> bool {
    byte == 0xE2 || (0x80..=0xBF).contains(&byte)
}
