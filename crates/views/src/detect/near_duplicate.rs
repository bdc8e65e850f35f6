//! Lines and sentences that are repeated in nearly the same words.
//!
//! A segment ends with its line or sentence. Short segments and rows of a table or of code are ignored. Any other
//! segment is compared, as a set of lowercase words with equal numbers, with the [`BEFORE`] segments before it. A
//! detection is reported when most of the last segments had been there before.
//!
//! Memory: about 5 KiB.

use std::collections::VecDeque;

use super::words::{Sketch, Words};
use super::{Detection, Detector};
use crate::chunk::Chunk;

/// The number of preceding segments that a segment is compared with.
pub const BEFORE: usize = 32;
/// The number of words of a segment that are compared: those with the smallest hashes.
const WORDS: usize = 32;

/// The limits above which near-duplicates are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearDuplicateLimits {
    /// The fewest distinct words of a segment that counts. All numbers are one word.
    pub words: usize,
    /// The percentage of shared words from which two segments are near-duplicates.
    pub percent: usize,
    /// The number of near-duplicates among the last `of` segments.
    pub times: usize,
    /// The number of last segments considered, at most 64.
    pub of: usize,
}

impl Default for NearDuplicateLimits {
    fn default() -> NearDuplicateLimits {
        NearDuplicateLimits {
            words: 7,
            percent: 70,
            times: 8,
            of: 10,
        }
    }
}

/// Detects the start of near-duplicates in a haystack.
#[derive(Clone, Debug)]
pub struct NearDuplicateDetector {
    limits: NearDuplicateLimits,
    code: bool,
    words: Words,
    segment: SegmentSketch,
    before: VecDeque<Sketch<WORDS>>,
    /// For each of the last segments, its start if it is a near-duplicate.
    again: VecDeque<Option<u64>>,
    last: u8,
    end: u64,
    is_found: bool,
}

#[derive(Clone, Debug, Default)]
struct SegmentSketch {
    sketch: Sketch<WORDS>,
    bytes: usize,
    marks: usize,
    start: u64,
    is_row: bool,
}

impl NearDuplicateDetector {
    /// Creates a detector for one haystack.
    pub fn new(limits: NearDuplicateLimits) -> NearDuplicateDetector {
        NearDuplicateDetector {
            limits,
            code: false,
            words: Words::default(),
            segment: SegmentSketch::default(),
            before: VecDeque::with_capacity(BEFORE),
            again: VecDeque::with_capacity(limits.of),
            last: b'\n',
            end: 0,
            is_found: false,
        }
    }

    /// Sets whether the following chunks are code, which is ignored.
    pub fn set_code(&mut self, code: bool) {
        self.code = code;
    }

    /// Consumes a byte. Returns true if it ends a segment.
    #[inline]
    fn step(&mut self, byte: u8, start: u64) -> bool {
        if let Some(word) = self.words.step(byte) {
            self.add(word);
        }
        let last = std::mem::replace(&mut self.last, byte);
        if byte == b'\n' || byte.is_ascii_whitespace() && matches!(last, b'.' | b'!' | b'?') {
            return true;
        }
        let segment = &mut self.segment;
        if segment.bytes == 0 {
            if byte.is_ascii_whitespace() {
                return false;
            }
            segment.start = start;
            segment.is_row = self.code || matches!(byte, b'|' | b'{' | b'}' | b'[' | b'<');
        }
        segment.bytes += 1;
        segment.marks += usize::from(is_mark(byte));
        false
    }

    fn add(&mut self, word: u32) {
        self.segment.sketch.add(word);
    }

    /// Ends the segment. Returns the start of the near-duplicates if this segment exceeds the limit.
    fn end_segment(&mut self) -> Option<u64> {
        let segment = std::mem::take(&mut self.segment);
        let is_row = segment.is_row || segment.marks * 10 >= segment.bytes;
        if segment.sketch.members().len() < self.limits.words || is_row {
            return None;
        }
        let is_near = |before: &Sketch<WORDS>| {
            before.similarity_percent(&segment.sketch) >= self.limits.percent
        };
        let again = self.before.iter().any(is_near).then_some(segment.start);
        if self.before.len() == BEFORE {
            self.before.pop_front();
        }
        self.before.push_back(segment.sketch);
        if self.again.len() == self.limits.of.clamp(1, 64) {
            self.again.pop_front();
        }
        self.again.push_back(again);
        let count = self.again.iter().flatten().count();
        (count >= self.limits.times).then(|| self.again.iter().flatten().copied().next())?
    }
}

impl Detector for NearDuplicateDetector {
    fn push(&mut self, chunk: Chunk<'_>, found: &mut dyn FnMut(Detection)) {
        if self.is_found {
            return;
        }
        for (index, &byte) in chunk.bytes.iter().enumerate() {
            let is_end = self.step(byte, chunk.start(index));
            self.end = chunk.end(index);
            if is_end && let Some(start) = self.end_segment() {
                self.is_found = true;
                let decided = chunk.decided(index);
                return found(Detection {
                    start,
                    end: self.end,
                    decided,
                });
            }
        }
    }

    fn finish(&mut self, decided: u64, found: &mut dyn FnMut(Detection)) {
        if self.is_found {
            return;
        }
        if let Some(word) = self.words.end() {
            self.add(word);
        }
        if let Some(start) = self.end_segment() {
            self.is_found = true;
            found(Detection {
                start,
                end: self.end,
                decided,
            });
        }
    }
}

fn is_mark(byte: u8) -> bool {
    MARKS[usize::from(byte)]
}

/// Punctuation that is frequent in rows of data and code and rare in sentences.
static MARKS: [bool; 256] = {
    let mut marks = [false; 256];
    let of = b"{}[]()|;=<>\"\\/_";
    let mut at = 0;
    while at < of.len() {
        marks[of[at] as usize] = true;
        at += 1;
    }
    marks
};
