//! A bounded text with the offsets of its bytes in the part.

use std::ops::Range;

use super::super::chunk::{Chunk, OffsetMap};

/// A text whose bytes keep their offsets, as runs.
#[derive(Clone, Debug, Default)]
pub(super) struct MappedText {
    bytes: Vec<u8>,
    /// The index of the first byte of each run, and its offsets.
    runs: Vec<(usize, OffsetMap)>,
}

impl MappedText {
    /// Returns the text that replaces the range `source` of the part.
    pub(super) fn replacement(bytes: &[u8], source: Range<u64>) -> MappedText {
        let mut text = MappedText::default();
        let Range { start, end } = source;
        text.push(bytes, OffsetMap::Replacement { start, end });
        text
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends bytes, and merges them with the run before them if they follow it in the part.
    pub(super) fn push(&mut self, bytes: &[u8], offsets: OffsetMap) {
        if bytes.is_empty() {
            return;
        }
        let continues = match (self.runs.last(), offsets) {
            (Some(&(from, OffsetMap::Verbatim(at))), OffsetMap::Verbatim(next)) => {
                at + (self.bytes.len() - from) as u64 == next
            }
            (Some(&(_, last)), OffsetMap::Replacement { .. }) => last == offsets,
            _ => false,
        };
        if !continues {
            self.runs.push((self.bytes.len(), offsets));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends another text.
    pub(super) fn append(&mut self, other: &MappedText) {
        for chunk in other.chunks(0) {
            self.push(chunk.bytes, chunk.offsets);
        }
    }

    /// Returns a part of the text.
    pub(super) fn slice(&self, from: usize, to: usize) -> MappedText {
        let mut part = MappedText::default();
        let first = self.runs.partition_point(|run| run.0 <= from);
        let runs = &self.runs[first.saturating_sub(1)..];
        for (index, &(at, offsets)) in runs.iter().enumerate() {
            if at >= to {
                break;
            }
            let end = runs.get(index + 1).map_or(self.bytes.len(), |run| run.0);
            let chunk = Chunk {
                bytes: &self.bytes[at..end],
                offsets,
                decided: 0,
            };
            let chunk = chunk.slice(from.max(at) - at..to.min(end) - at);
            part.push(chunk.bytes, chunk.offsets);
        }
        part
    }

    /// Returns the range of the part from the start of the first byte to the end of the last one.
    pub(super) fn source(&self) -> Range<u64> {
        let (Some(first), Some(&(from, offsets))) = (self.chunks(0).next(), self.runs.last())
        else {
            return 0..0;
        };
        let last = Chunk {
            bytes: &self.bytes[from..],
            offsets,
            decided: 0,
        };
        first.start(0)..last.end(last.bytes.len() - 1)
    }

    /// Removes the bytes from `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
        while self.runs.last().is_some_and(|run| run.0 >= len) {
            self.runs.pop();
        }
    }

    pub(super) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Returns the chunks that the text consists of, certain when `decided` bytes have been delivered.
    pub(super) fn chunks(&self, decided: u64) -> impl Iterator<Item = Chunk<'_>> {
        let ends = self.runs.iter().skip(1).map(|run| run.0);
        let ends = ends.chain([self.bytes.len()]);
        self.runs
            .iter()
            .zip(ends)
            .map(move |(&(from, offsets), to)| Chunk {
                bytes: &self.bytes[from..to],
                offsets,
                decided,
            })
    }
}
