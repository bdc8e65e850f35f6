//! The last bytes that a detector has read, for the excerpts of its hits.

use super::haystack::MatchContext;
use crate::stream::window::{WINDOW, Window};
use ttsr_views::chunk::Chunk;
use ttsr_views::detect::{Detection, OffsetIndex};

/// The last bytes read, with their offsets in the part.
#[derive(Debug, Default)]
pub(super) struct TailWindow {
    window: Window,
    offsets: OffsetIndex,
}

impl TailWindow {
    /// Adds the offsets of a chunk that is about to be read.
    pub(super) fn begin(&mut self, chunk: &Chunk<'_>) {
        self.offsets.push(chunk);
    }

    /// Adds the bytes of a chunk that has been read.
    pub(super) fn end(&mut self, chunk: &Chunk<'_>) {
        self.window.push(chunk.bytes);
        self.offsets
            .forget(self.offsets.byte_len().saturating_sub(2 * WINDOW as u64));
    }

    /// Starts another text.
    pub(super) fn clear(&mut self) {
        self.window.clear();
        self.offsets = OffsetIndex::default();
    }

    /// Returns the text of a finding that was made while `chunk` was read, or after all chunks if `chunk` is empty: at
    /// most [`WINDOW`] bytes before the byte that decided it, however the text was cut.
    pub(super) fn context(&self, found: Detection, chunk: &[u8]) -> MatchContext {
        let (before, _) = self.window.last_with(&[]);
        // All indices are in the haystack. `from` is the index of the first byte in the window.
        let from = self.offsets.byte_len() - (chunk.len() + before.len()) as u64;
        let seen = self.offsets.before(found.decided.max(found.end));
        let end = self.offsets.before(found.end).min(seen);
        let least = seen.saturating_sub(WINDOW as u64).max(from);
        let start = self.offsets.before(found.start + 1).saturating_sub(1);
        let (end, start) = (end.max(least), start.clamp(least, end.max(least)));
        let at = |index: u64| (index - from) as usize;
        let mut bytes = before;
        bytes.extend_from_slice(&chunk[..at(end).saturating_sub(bytes.len()).min(chunk.len())]);
        bytes.truncate(at(end));
        bytes.drain(..at(least).min(bytes.len()));
        let range = at(start) - at(least)..at(end) - at(least);
        MatchContext::in_stretch(&[], &bytes, &range, least == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_quoted_from_its_start_across_omitted_text() {
        let mut tail = TailWindow::default();
        for (text, at) in [("ab", 0), ("cd", 4), ("ef", 8)] {
            let chunk = Chunk::verbatim(text.as_bytes(), at);
            tail.begin(&chunk);
            tail.end(&chunk);
        }
        let found = |start, end| Detection {
            start,
            end,
            decided: end,
        };
        for (found, bytes, text) in [
            (found(1, 10), &b"abcdef"[..], "bcdef"),
            (found(4, 9), b"abcde", "cde"),
            (found(5, 6), b"abcd", "d"),
        ] {
            let context = tail.context(found, &[]);
            assert_eq!(
                (&*context.bytes, context.begins_haystack),
                (bytes, true),
                "{found:?}"
            );
            let from = context.start.unwrap();
            assert_eq!(
                context.bytes[from..context.end],
                *text.as_bytes(),
                "{found:?}"
            );
        }
        tail.clear();
        let chunk = Chunk::verbatim(b"gh", 20);
        tail.begin(&chunk);
        assert_eq!(tail.context(found(20, 22), chunk.bytes).bytes, b"gh");
    }
}
