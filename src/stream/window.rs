//! The window: the last bytes of a haystack, kept for excerpts and for the starts of matches.

use ttsr_automata::MAX_SHORT_LEN;

/// Number of bytes that a window guarantees to keep, unless it is created to keep fewer.
pub(super) const WINDOW: usize = 256;

/// The last bytes of a haystack: at least `KEPT` of them, or all if there are fewer. `CAPACITY` is the size of the buffer in
/// bytes: at least `KEPT` and [`MAX_SHORT_LEN`].
#[derive(Clone, Debug, Default)]
// In the order of the source: a delta does not touch the last field.
#[repr(C)]
pub(super) struct Window<const KEPT: usize = WINDOW, const CAPACITY: usize = { capacity(WINDOW) }> {
    /// The buffer, of which the first `len` bytes are used. Allocated with the first byte.
    bytes: Option<Box<[u8; CAPACITY]>>,
    len: usize,
    /// Number of bytes of the haystack before `bytes`.
    dropped: u64,
}

/// Returns the size in bytes of a buffer for a window of `kept` bytes. It has half as many bytes more, so that bytes are moved
/// only once for as many that are appended, and room for a short delta.
// PERF: a reply of text has seven windows. Of 800 streams behind the proxy, a stream takes 1.8 KiB less than with buffers of
// twice the window.
pub(super) const fn capacity(kept: usize) -> usize {
    kept + kept / 2 + MAX_SHORT_LEN
}

impl<const KEPT: usize, const CAPACITY: usize> Window<KEPT, CAPACITY> {
    /// Starts another haystack.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.dropped = 0;
    }

    /// Returns the number of bytes of the haystack so far.
    pub(super) fn haystack_len(&self) -> u64 {
        self.dropped + self.len as u64
    }

    /// Returns the unused bytes that a short delta is written to before [`advance`](Self::advance) appends it.
    #[inline(always)]
    pub(super) fn spare_capacity(&mut self) -> &mut [u8; MAX_SHORT_LEN] {
        if self.bytes.is_none() || self.len > CAPACITY - MAX_SHORT_LEN {
            self.shift(&[]);
        }
        let room = self
            .bytes
            .as_mut()
            .and_then(|bytes| bytes[self.len..].first_chunk_mut());
        room.expect("room was made")
    }

    /// Appends the first `len` bytes of the [spare capacity](Self::spare_capacity).
    #[inline(always)]
    pub(super) fn advance(&mut self, len: usize) {
        self.len += len;
    }

    /// Appends the first `len` bytes of `padded`, without a branch on `len`.
    #[inline(always)]
    pub(super) fn push_padded(&mut self, padded: [u8; MAX_SHORT_LEN], len: usize) {
        *self.spare_capacity() = padded;
        self.advance(len);
    }

    /// Appends bytes. Copies at most `KEPT` of them, and sometimes moves at most as many within the buffer.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let kept = self.bytes.as_deref_mut();
        match kept.and_then(|kept| kept.get_mut(self.len..self.len + bytes.len())) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.shift(bytes),
        }
    }

    /// Returns the last `KEPT` bytes of the haystack continued by `more`, and true if they are the whole haystack. The
    /// result does not depend on how the bytes are divided between the window and `more`.
    pub(super) fn last_with(&self, more: &[u8]) -> (Vec<u8>, bool) {
        let tail = &more[more.len().saturating_sub(KEPT)..];
        let (kept, is_all) = self.last(KEPT - tail.len());
        ([kept, tail].concat(), is_all && tail.len() == more.len())
    }

    /// Returns the last `max` bytes, at most `KEPT`, and true if they are the whole haystack.
    pub(super) fn last(&self, max: usize) -> (&[u8], bool) {
        let from = self.len.saturating_sub(max.min(KEPT));
        (&self.bytes()[from..], self.dropped == 0 && from == 0)
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |bytes| &bytes[..self.len])
    }

    #[cold]
    #[inline(never)]
    fn shift(&mut self, bytes: &[u8]) {
        // PERF: with zeros it would be `calloc`, which does not take freed blocks from the cache of the thread in glibc. That
        // costs four times the instructions, and a reply of a text part has seven windows.
        let kept = self.bytes.get_or_insert_with(|| Box::new([b' '; CAPACITY]));
        let tail = &bytes[bytes.len().saturating_sub(KEPT)..];
        let keep = (KEPT - tail.len()).min(self.len);
        let from = self.len - keep;
        self.dropped += (from + bytes.len() - tail.len()) as u64;
        kept.copy_within(from..self.len, 0);
        kept[keep..keep + tail.len()].copy_from_slice(tail);
        self.len = keep + tail.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = capacity(WINDOW);

    #[test]
    fn the_last_bytes_are_kept_whatever_the_pieces() {
        let text: Vec<u8> = (0..2000u32).map(|n| (n * 7 % 251) as u8).collect();
        for piece in [1, 3, 100, 255, 256, 257, 513, 2000] {
            let mut window = Window::<WINDOW, CAPACITY>::default();
            let mut seen = 0;
            for bytes in text.chunks(piece) {
                if bytes.len() <= MAX_SHORT_LEN && seen % 2 == 0 {
                    let mut padded = [0; MAX_SHORT_LEN];
                    padded[..bytes.len()].copy_from_slice(bytes);
                    window.push_padded(padded, bytes.len());
                } else {
                    window.push(bytes);
                }
                seen += bytes.len();
                let (kept, whole) = window.last_with(&[]);
                assert_eq!(
                    kept,
                    text[seen.saturating_sub(WINDOW)..seen],
                    "pieces of {piece}"
                );
                assert_eq!(whole, seen <= WINDOW, "pieces of {piece}");
                assert!(window.bytes().len() <= CAPACITY);
            }
        }
    }

    #[test]
    fn the_excerpt_of_a_text_does_not_depend_on_its_cuts() {
        let text: Vec<u8> = (0..600u32).map(|n| (n * 7 % 251) as u8).collect();
        for end in [0, 1, 100, WINDOW - 1, WINDOW, WINDOW + 1, 400, 600] {
            for cut in 0..=end {
                let mut window = Window::<WINDOW, CAPACITY>::default();
                window.push(&text[..cut]);
                let (kept, whole) = window.last_with(&text[cut..end]);
                let last = &text[end.saturating_sub(WINDOW)..end];
                assert_eq!((&kept[..], whole), (last, end <= WINDOW), "{cut} of {end}");
            }
        }
    }

    #[test]
    fn there_is_room_for_a_short_delta_however_full_it_is() {
        let text: Vec<u8> = (0..CAPACITY).map(|n| (n * 7 % 251) as u8).collect();
        for filled in [
            0,
            1,
            WINDOW,
            CAPACITY - MAX_SHORT_LEN - 1,
            CAPACITY - MAX_SHORT_LEN,
            CAPACITY - MAX_SHORT_LEN + 1,
            CAPACITY,
        ] {
            let mut window = Window::<WINDOW, CAPACITY>::default();
            window.push(&text[..filled.min(WINDOW)]);
            window.push(&text[filled.min(WINDOW)..filled]);
            window.push_padded([b'x'; MAX_SHORT_LEN], 3);
            let all = [&text[..filled], b"xxx"].concat();
            let (last, whole) = window.last(64);
            assert_eq!(last, &all[all.len().saturating_sub(64)..], "{filled}");
            assert_eq!(whole, all.len() <= 64, "{filled}");
            let (kept, whole) = window.last_with(&[]);
            assert_eq!(kept, all[all.len().saturating_sub(WINDOW)..], "{filled}");
            assert_eq!(whole, all.len() <= WINDOW, "{filled}");
        }
    }
}
