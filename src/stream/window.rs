//! The last bytes of a haystack, kept for excerpts and for the starts of matches.

/// Most bytes kept between deltas.
pub(super) const WINDOW: usize = 256;

/// The last bytes of a haystack: at least the last [`WINDOW`], where there are as many.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    bytes: Vec<u8>,
    /// Number of bytes of the haystack that are not kept any more.
    dropped: u64,
}

impl Window {
    /// Begins a new haystack.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.dropped = 0;
    }

    /// Appends; copies at most [`WINDOW`] bytes of what is given, and moves as many once in a while.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() <= 2 * WINDOW {
            if self.bytes.capacity() == 0 {
                self.bytes.reserve_exact(2 * WINDOW);
            }
            self.bytes.extend_from_slice(bytes);
        } else {
            self.shift(bytes);
        }
    }

    /// The kept bytes followed by `more`, and whether they begin the haystack.
    pub(super) fn with(&self, more: &[u8]) -> (Vec<u8>, bool) {
        let kept = self.bytes.len().saturating_sub(WINDOW);
        let all = [&self.bytes[kept..], more].concat();
        (all, self.dropped == 0 && kept == 0)
    }

    #[cold]
    fn shift(&mut self, bytes: &[u8]) {
        let tail = &bytes[bytes.len().saturating_sub(WINDOW)..];
        let keep = (WINDOW - tail.len()).min(self.bytes.len());
        let from = self.bytes.len() - keep;
        self.dropped += (from + bytes.len() - tail.len()) as u64;
        self.bytes.copy_within(from.., 0);
        self.bytes.truncate(keep);
        self.bytes.extend_from_slice(tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_whatever_the_pieces() {
        let text: Vec<u8> = (0..2000u32).map(|n| (n * 7 % 251) as u8).collect();
        for piece in [1, 3, 100, 255, 256, 257, 513, 2000] {
            let mut window = Window::default();
            let mut seen = 0;
            for bytes in text.chunks(piece) {
                window.push(bytes);
                seen += bytes.len();
                let (kept, whole) = window.with(&[]);
                assert_eq!(
                    kept,
                    text[seen.saturating_sub(WINDOW)..seen],
                    "pieces of {piece}"
                );
                assert_eq!(whole, seen <= WINDOW, "pieces of {piece}");
                assert!(window.bytes.capacity() <= 2 * WINDOW);
            }
        }
    }
}
