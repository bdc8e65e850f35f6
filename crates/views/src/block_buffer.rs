//! A buffer of bytes that grows by blocks of one size.

/// The size of a block in bytes.
// PERF: a host with many streams has two buffers for each. Vectors that grow leave holes of as many sizes in the heap: of
// 2,000 streams behind the proxy with 2,500 bytes of text each, a stream takes 2 KiB more with them.
const BLOCK: usize = 256;

/// Bytes in blocks of 256 bytes, which are never moved. At most one block is not full.
///
/// ```
/// use ttsr_views::block_buffer::BlockBuffer;
///
/// let mut buffer = BlockBuffer::default();
/// buffer.extend(b"streaming ");
/// buffer.extend(b"rules");
/// let mut text = Vec::new();
/// buffer.copy_to(12, &mut text);
/// assert_eq!((buffer.len(), &text[..]), (15, &b"streaming ru"[..]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct BlockBuffer {
    #[expect(
        clippy::vec_box,
        reason = "a vector of blocks would move them as it grows"
    )]
    blocks: Vec<Box<[u8; BLOCK]>>,
    len: usize,
}

impl BlockBuffer {
    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the buffer has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = self.write(self.len, rest);
            rest = &rest[written..];
        }
    }

    /// Writes bytes at `at`, which is at most the number of bytes, up to the end of a block. Returns the number of bytes that
    /// were written: at least one, if there are any.
    #[inline]
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) -> usize {
        if at / BLOCK == self.blocks.len() {
            self.add_block();
        }
        let room = &mut self.blocks[at / BLOCK][at % BLOCK..];
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.len = self.len.max(at + len);
        len
    }

    #[cold]
    fn add_block(&mut self) {
        // PERF: with zeros it would be `calloc`, which does not take freed blocks from the cache of the thread in glibc.
        self.blocks.push(Box::new([b' '; BLOCK]));
    }

    /// Returns the byte at `at`.
    ///
    /// # Panics
    /// There is no such byte.
    #[inline]
    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.blocks[at / BLOCK][at % BLOCK]
    }

    /// Returns the bytes from `at` to the end of its block, which may be more than were written.
    ///
    /// # Panics
    /// There is no byte at `at`.
    #[inline]
    pub(crate) fn rest_of_block(&self, at: usize) -> &[u8] {
        &self.blocks[at / BLOCK][at % BLOCK..]
    }

    /// Appends the first `len` bytes to `out`, or all if there are fewer.
    pub fn copy_to(&self, len: usize, out: &mut Vec<u8>) {
        let mut rest = len.min(self.len);
        for block in &self.blocks {
            let bytes = &block[..rest.min(BLOCK)];
            out.extend_from_slice(bytes);
            rest -= bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_whatever_the_pieces() {
        let text: Vec<u8> = (0..1500u32).map(|n| (n * 7 % 251) as u8).collect();
        for piece in [1, 3, 100, 255, 256, 257, 513, 1500] {
            let mut buffer = BlockBuffer::default();
            assert!(buffer.is_empty());
            for bytes in text.chunks(piece) {
                buffer.extend(bytes);
            }
            assert_eq!(buffer.len(), text.len());
            for len in [0, 1, 255, 256, 257, 512, 1499, 1500, 2000] {
                let mut out = b"<".to_vec();
                buffer.copy_to(len, &mut out);
                let first = &text[..len.min(text.len())];
                assert_eq!((out[0], &out[1..]), (b'<', first), "pieces of {piece}");
            }
            for at in [0, 255, 256, 1499] {
                assert_eq!(buffer.byte(at), text[at]);
                let rest = buffer.rest_of_block(at);
                assert_eq!(rest.len(), BLOCK - at % BLOCK);
                let written = rest.len().min(text.len() - at);
                assert_eq!(rest[..written], text[at..at + written]);
            }
        }
    }

    #[test]
    fn a_write_ends_with_its_block() {
        let mut buffer = BlockBuffer::default();
        buffer.extend(&[b'a'; 300]);
        assert_eq!(buffer.write(250, b"0123456789"), 6);
        assert_eq!(buffer.write(256, b"6789"), 4);
        assert_eq!(buffer.len(), 300);
        let mut out = Vec::new();
        buffer.copy_to(262, &mut out);
        assert_eq!(&out[248..], b"aa0123456789aa");
    }
}
