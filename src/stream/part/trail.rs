//! The last bytes of what a detector reads, for the excerpts of its hits.

use super::haystack::Near;
use crate::detect::{Detection, OffsetIndex};
use crate::stream::window::{WINDOW, Window};
use crate::view::chunk::Chunk;

/// The last bytes that came, and where in the part they stand.
#[derive(Debug, Default)]
pub(super) struct Trail {
    window: Window,
    places: OffsetIndex,
}

impl Trail {
    /// The piece is about to be read.
    pub(super) fn begin(&mut self, piece: &Chunk<'_>) {
        self.places.push(piece);
    }

    /// The piece was read.
    pub(super) fn end(&mut self, piece: &Chunk<'_>) {
        self.window.push(piece.bytes);
        self.places
            .forget(self.places.len().saturating_sub(2 * WINDOW as u64));
    }

    /// Another text begins.
    pub(super) fn clear(&mut self) {
        self.window.clear();
        self.places = OffsetIndex::default();
    }

    /// The text of what was found while `piece` was read, or behind all of them: at most [`WINDOW`] bytes before
    /// the one that decided it, however the text was cut.
    pub(super) fn near(&self, found: Detection, piece: &[u8]) -> Near {
        let (before, _) = self.window.with(&[]);
        // Index in the haystack of the first byte that is at hand.
        let from = self.places.len() - (piece.len() + before.len()) as u64;
        let seen = self.places.before(found.decided.max(found.end));
        let end = self.places.before(found.end).min(seen);
        let least = seen.saturating_sub(WINDOW as u64).max(from);
        let start = self.places.before(found.start + 1).saturating_sub(1);
        let (end, start) = (end.max(least), start.clamp(least, end.max(least)));
        let at = |index: u64| (index - from) as usize;
        let mut bytes = before;
        bytes.extend_from_slice(&piece[..at(end).saturating_sub(bytes.len()).min(piece.len())]);
        bytes.truncate(at(end));
        bytes.drain(..at(least).min(bytes.len()));
        let text = at(start) - at(least)..at(end) - at(least);
        Near::around(&[], &bytes, &text, least == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_quoted_from_its_beginning_also_over_text_that_was_left_out() {
        let mut trail = Trail::default();
        for (text, at) in [("ab", 0), ("cd", 4), ("ef", 8)] {
            let piece = Chunk::verbatim(text.as_bytes(), at);
            trail.begin(&piece);
            trail.end(&piece);
        }
        let found = |start, end| Detection {
            start,
            end,
            decided: end,
        };
        for (place, bytes, text) in [
            (found(1, 10), &b"abcdef"[..], "bcdef"),
            (found(4, 9), b"abcde", "cde"),
            (found(5, 6), b"abcd", "d"),
        ] {
            let near = trail.near(place, &[]);
            assert_eq!(
                (&*near.bytes, near.begins_haystack),
                (bytes, true),
                "{place:?}"
            );
            let from = near.match_start().unwrap();
            assert_eq!(near.bytes[from..near.end], *text.as_bytes(), "{place:?}");
        }
        trail.clear();
        let piece = Chunk::verbatim(b"gh", 20);
        trail.begin(&piece);
        assert_eq!(trail.near(found(20, 22), piece.bytes).bytes, b"gh");
    }
}
