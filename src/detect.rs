//! Detectors: what no pattern says. Repetition, leaked control tokens, limits, the wrong language or
//! script, names nobody knows, entropy, and calls that go round in circles.
//!
//! Each is a small machine that reads the pieces of a haystack and says where something is found. However
//! the text is cut, it finds the same at the same places (what counts deltas or time aside). None reads a
//! clock, none knows a rule, and each holds a fixed amount of memory, which it states.

pub(crate) mod control_tokens;
pub(crate) mod doom_loop;
pub(crate) mod entropy;
pub(crate) mod limit;
pub(crate) mod near_duplicate;
pub(crate) mod repetition;
pub(crate) mod script;
mod std_names;
#[cfg(test)]
mod tests;
pub(crate) mod turns;
pub(crate) mod unknown_file;
pub(crate) mod unknown_name;
mod words;

use std::collections::VecDeque;

use crate::view::chunk::{Chunk, OffsetMap};

/// Where something was found, in bytes of the part as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detection {
    /// Where it begins: for a repetition, what only repeats; text up to here is worth keeping.
    pub(crate) start: u64,
    /// Where it ends, as far as it had to be read.
    pub(crate) end: u64,
    /// Bytes of the part that had been delivered when it was certain.
    pub(crate) decided: u64,
}

/// What reads a haystack in pieces.
pub(crate) trait Detector {
    /// Reads the next piece.
    fn push(&mut self, chunk: Chunk<'_>, found: &mut dyn FnMut(Detection));

    /// The haystack ends, which is certain at `decided`.
    fn finish(&mut self, decided: u64, found: &mut dyn FnMut(Detection));
}

/// Where in the part the last bytes of a haystack begin, found by their index in the haystack.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffsetIndex {
    /// From that index on, bytes stand one after the other from that offset on.
    marks: VecDeque<(u64, u64)>,
    next: u64,
}

impl OffsetIndex {
    /// The bytes of the piece follow.
    pub(crate) fn push(&mut self, chunk: &Chunk<'_>) {
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

    fn mark(&mut self, at: u64) {
        let expected = self.marks.back().map(|mark| mark.1 + (self.next - mark.0));
        if expected != Some(at) {
            self.marks.push_back((self.next, at));
        }
    }

    /// Where the byte with that index begins.
    pub(crate) fn start(&self, index: u64) -> u64 {
        let after = self.marks.partition_point(|mark| mark.0 <= index);
        let (from, at) = self.marks[after.saturating_sub(1)];
        at + index.saturating_sub(from)
    }

    /// Number of bytes of the haystack that have come.
    pub(crate) fn len(&self) -> u64 {
        self.next
    }

    /// Number of bytes of the haystack that stand before that place of the part, as far as is remembered: the
    /// last such bytes, where text did not come in the order of its places.
    pub(crate) fn before(&self, offset: u64) -> u64 {
        let ends = self.marks.iter().skip(1).map(|mark| mark.0);
        let ends: Vec<u64> = ends.chain([self.next]).collect();
        let mut marks = self.marks.iter().zip(ends).rev();
        let before = marks.find(|((_, at), _)| *at < offset);
        before.map_or(0, |(&(from, at), end)| (from + (offset - at)).min(end))
    }

    /// Forgets the bytes before that index.
    pub(crate) fn forget(&mut self, before: u64) {
        while self.marks.get(1).is_some_and(|mark| mark.0 <= before) {
            self.marks.pop_front();
        }
    }
}
