//! The text that matches in progress may contain, and the text before it.

use super::super::condition::TextPosition;
use super::super::context::floor_char_boundary;
use crate::program::TextCounts;
use crate::stream::window::Window;
use ttsr_automata::MAX_SHORT_LEN;
use ttsr_views::chunk::{Chunk, ChunkBuffer, DecidedOffset};

/// Bytes before a stretch that look-behind and excerpts may use.
pub(super) const MAX_BEFORE: usize = 64;

/// The text of a haystack from the first byte that a match in progress may contain.
#[derive(Debug)]
pub(super) struct HeldText {
    held: ChunkBuffer,
    /// The last bytes before it: only [`before`](Self::before) reads them.
    // PERF: a reply of text has three of these. With buffers for 256 bytes, it takes 0.75 KiB more.
    window: Window<MAX_BEFORE, { 2 * MAX_BEFORE + MAX_SHORT_LEN }>,
    /// The lines and characters before it.
    before: PrecedingCounts,
    counts: TextCounts,
}

/// The lines and characters of a haystack before some position. Both are 0 if no condition compares positions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PrecedingCounts {
    /// Number of line feeds.
    pub(super) lines: u64,
    /// Number of characters that begin before the position. A byte that belongs to no character counts as one.
    pub(super) chars: u64,
}

impl PrecedingCounts {
    /// Returns the counts after these bytes.
    pub(super) fn after(self, bytes: &[u8]) -> PrecedingCounts {
        let feeds = bytes.iter().filter(|&&byte| byte == b'\n');
        let starts = bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80);
        PrecedingCounts {
            lines: self.lines + feeds.count() as u64,
            chars: self.chars + starts.count() as u64,
        }
    }

    /// Returns the position with that offset in the part.
    pub(super) fn position(self, offset: u64) -> TextPosition {
        TextPosition {
            offset,
            line: self.lines,
            char: self.chars,
        }
    }
}

impl HeldText {
    pub(super) fn new(counts: TextCounts) -> HeldText {
        HeldText {
            held: ChunkBuffer::default(),
            window: Window::default(),
            before: PrecedingCounts::default(),
            counts,
        }
    }

    /// Starts another haystack.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.window.clear();
        self.before = PrecedingCounts::default();
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.held.bytes()
    }

    /// Returns the offset in the part of the first held byte.
    pub(super) fn start(&self) -> Option<u64> {
        self.held.start()
    }

    /// Returns the end of the last byte.
    ///
    /// # Panics
    /// No text is held.
    pub(super) fn end(&self) -> DecidedOffset {
        self.end_at(self.bytes().len())
    }

    /// Returns the end of the byte before `index`.
    ///
    /// # Panics
    /// `index` is 0, or there is no such byte.
    pub(super) fn end_at(&self, index: usize) -> DecidedOffset {
        let byte = self.byte(index - 1);
        DecidedOffset {
            offset: byte.end(0),
            decided: byte.decided(0),
        }
    }

    /// Returns the chunk of a byte.
    ///
    /// # Panics
    /// There is no such byte.
    pub(super) fn byte(&self, index: usize) -> Chunk<'_> {
        let byte = self.held.chunk_at(index);
        byte.expect("a match consists of held bytes")
    }

    /// Returns the start of the character that `index` is in, or `index` if it is in none.
    pub(super) fn floor_char(&self, index: usize) -> usize {
        floor_char_boundary(self.bytes(), index)
    }

    /// Returns the number of bytes of the haystack before the held text.
    pub(super) fn skipped(&self) -> u64 {
        self.window.haystack_len()
    }

    /// Returns the last bytes before `index`, at most [`MAX_BEFORE`], and true if they are all bytes of the haystack
    /// before it.
    pub(super) fn before(&self, index: usize) -> (Vec<u8>, bool) {
        let held = &self.bytes()[..index];
        let tail = &held[held.len().saturating_sub(MAX_BEFORE)..];
        let (kept, is_all) = self.window.last(MAX_BEFORE - tail.len());
        ([kept, tail].concat(), is_all && tail.len() == held.len())
    }

    /// Returns the lines and characters of the haystack before `index`.
    pub(super) fn counts_at(&self, index: usize) -> PrecedingCounts {
        self.count(self.before, &self.bytes()[..index])
    }

    /// Returns the counts after these bytes, if a condition needs them.
    pub(super) fn count(&self, counts: PrecedingCounts, bytes: &[u8]) -> PrecedingCounts {
        match self.counts {
            TextCounts::LinesAndChars => counts.after(bytes),
            TextCounts::Nothing => counts,
        }
    }

    /// Appends a chunk.
    #[inline]
    pub(super) fn push(&mut self, chunk: Chunk<'_>) {
        self.held.push(chunk);
    }

    /// Advances past `bytes` without holding them. The held text must be empty.
    pub(super) fn advance_past(&mut self, bytes: &[u8]) {
        debug_assert!(self.held.is_empty());
        self.before = self.count(self.before, bytes);
        self.window.push(bytes);
    }

    /// As [`advance_past`](Self::advance_past) for the first `len` bytes of `padded`: at least one, all of them ASCII.
    #[inline(always)]
    pub(super) fn advance_past_short(&mut self, padded: &[u8; MAX_SHORT_LEN], len: usize) {
        if self.counts == TextCounts::LinesAndChars {
            let skipped = u128::from_le_bytes(*padded) << (8 * (MAX_SHORT_LEN - len));
            let zeros = (MAX_SHORT_LEN - len) as u64;
            self.before = self.before.after(&skipped.to_le_bytes());
            self.before.chars -= zeros;
        }
        self.window.push_padded(*padded, len);
    }

    /// Drops the held text.
    #[inline]
    pub(super) fn drop_all(&mut self) {
        if !self.held.is_empty() {
            self.before = self.count(self.before, self.held.bytes());
            self.window.push(self.held.bytes());
            self.held.clear();
        }
    }

    /// Drops the first `count` bytes of the held text.
    pub(super) fn drop_front(&mut self, count: usize) {
        if count == self.bytes().len() {
            return self.drop_all();
        }
        self.before = self.counts_at(count);
        self.window.push(&self.held.bytes()[..count]);
        self.held.drop_front(count);
    }
}
