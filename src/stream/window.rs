//! The last bytes of a haystack, kept for excerpts and for the starts of matches.

use crate::matcher::SHORT;

/// Most bytes kept between deltas.
pub(super) const WINDOW: usize = 256;

/// The last bytes of a haystack: at least the last [`WINDOW`], where there are as many.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// Empty or [`ROOM`] bytes, of which the first `len` count.
    bytes: Box<[u8]>,
    len: usize,
    /// Number of bytes of the haystack that are not kept any more.
    dropped: u64,
}

/// Twice the window, so that bytes are moved once in a window's time; and a short delta beyond it.
const ROOM: usize = 2 * WINDOW + SHORT;

impl Window {
    /// Begins a new haystack.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.dropped = 0;
    }

    /// Appends the first `len` bytes of `padded`, without a branch on how many they are.
    #[inline(always)]
    pub(super) fn push_short(&mut self, padded: [u8; SHORT], len: usize) {
        match self.bytes.get_mut(self.len..self.len + SHORT) {
            Some(room) => {
                room.copy_from_slice(&padded);
                self.len += len;
            }
            None => self.shift(&padded[..len]),
        }
    }

    /// Appends; copies at most [`WINDOW`] bytes of what is given, and moves as many once in a while.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self.bytes.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.shift(bytes),
        }
    }

    /// The kept bytes followed by `more`, and whether they begin the haystack.
    pub(super) fn with(&self, more: &[u8]) -> (Vec<u8>, bool) {
        let from = self.len.saturating_sub(WINDOW);
        let all = [&self.bytes[from..self.len], more].concat();
        (all, self.dropped == 0 && from == 0)
    }

    #[cold]
    #[inline(never)]
    fn shift(&mut self, bytes: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes = vec![0; ROOM].into_boxed_slice();
        }
        let tail = &bytes[bytes.len().saturating_sub(WINDOW)..];
        let keep = (WINDOW - tail.len()).min(self.len);
        let from = self.len - keep;
        self.dropped += (from + bytes.len() - tail.len()) as u64;
        self.bytes.copy_within(from..self.len, 0);
        self.bytes[keep..keep + tail.len()].copy_from_slice(tail);
        self.len = keep + tail.len();
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
                if bytes.len() <= SHORT && seen % 2 == 0 {
                    let mut padded = [0; SHORT];
                    padded[..bytes.len()].copy_from_slice(bytes);
                    window.push_short(padded, bytes.len());
                } else {
                    window.push(bytes);
                }
                seen += bytes.len();
                let (kept, whole) = window.with(&[]);
                assert_eq!(
                    kept,
                    text[seen.saturating_sub(WINDOW)..seen],
                    "pieces of {piece}"
                );
                assert_eq!(whole, seen <= WINDOW, "pieces of {piece}");
                assert!(window.bytes.len() <= ROOM);
            }
        }
    }
}
