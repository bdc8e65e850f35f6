//! Detectors: conditions that no pattern expresses. They find repetition, leaked control tokens, exceeded limits, the
//! wrong language or script, unknown names, high entropy, wrong checksums, and loops of tool calls.
//!
//! Each detector is a small state machine over the chunks of a haystack. Its detections do not depend on how the text
//! is cut, except for those that count deltas or time. No detector reads a clock or knows a rule, and each holds a
//! fixed amount of memory, which its module states.

pub mod checksum;
pub mod control_tokens;
pub mod doom_loop;
pub mod entropy;
pub mod limit;
pub mod near_duplicate;
pub mod repetition;
pub mod script;
mod std_names;
#[cfg(test)]
mod tests;
pub mod turns;
pub mod unknown_file;
pub mod unknown_name;
mod words;

use std::collections::VecDeque;

use crate::chunk::{Chunk, OffsetMap};

/// A range of the part in which a detector found something, in bytes as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    /// The start: for a repetition, the first repeated byte. The text before it is worth keeping.
    pub start: u64,
    /// The end of the text that the detection depends on.
    pub end: u64,
    /// The number of bytes of the part that had been delivered when the detection was certain.
    pub decided: u64,
}

/// A state machine that reads a haystack in chunks and reports detections.
pub trait Detector {
    /// Reads the next chunk.
    fn push(&mut self, chunk: Chunk<'_>, found: &mut dyn FnMut(Detection));

    /// Ends the haystack, which is certain at `decided`.
    fn finish(&mut self, decided: u64, found: &mut dyn FnMut(Detection));
}

/// A mapping from indices in a haystack to offsets in the part, for the last bytes of the haystack.
#[derive(Clone, Debug, Default)]
pub struct OffsetIndex {
    /// Pairs of index and offset: from that index on, the offsets are consecutive from that offset on.
    marks: VecDeque<(u64, u64)>,
    next: u64,
}

impl OffsetIndex {
    /// Appends the bytes of a chunk.
    pub fn push(&mut self, chunk: &Chunk<'_>) {
        match chunk.offsets {
            OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => {
                self.mark(at);
                self.next += chunk.bytes.len() as u64;
            }
            OffsetMap::Replacement { start, .. } => {
                for _ in chunk.bytes {
                    self.mark(start);
                    self.next += 1;
                }
            }
        }
    }

    #[inline]
    fn mark(&mut self, at: u64) {
        let expected = self.marks.back().map(|mark| mark.1 + (self.next - mark.0));
        if expected != Some(at) {
            self.marks.push_back((self.next, at));
        }
    }

    /// Returns the offset in the part at which the byte at `index` starts.
    #[inline]
    pub fn start(&self, index: u64) -> u64 {
        let after = self.marks.partition_point(|mark| mark.0 <= index);
        let (from, at) = self.marks[after.saturating_sub(1)];
        at + index.saturating_sub(from)
    }

    /// Returns the number of bytes of the haystack so far.
    #[inline]
    pub fn byte_len(&self) -> u64 {
        self.next
    }

    /// Returns the number of bytes of the haystack before an offset of the part, as far as it is remembered. If the
    /// offsets were not in order, the last such bytes count.
    #[inline]
    pub fn before(&self, offset: u64) -> u64 {
        let ends = self.marks.iter().skip(1).map(|mark| mark.0);
        let ends: Vec<u64> = ends.chain([self.next]).collect();
        let mut marks = self.marks.iter().zip(ends).rev();
        let before = marks.find(|((_, at), _)| *at < offset);
        before.map_or(0, |(&(from, at), end)| (from + (offset - at)).min(end))
    }

    /// Forgets the bytes before index `before`.
    #[inline]
    pub fn forget(&mut self, before: u64) {
        while self.marks.get(1).is_some_and(|mark| mark.0 <= before) {
            self.marks.pop_front();
        }
    }
}
