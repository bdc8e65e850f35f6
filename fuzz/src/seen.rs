//! A sink that records the output of a view byte by byte.

use ttsr_views::chunk::{Chunk, ChunkSink, DecidedOffset, Tag};

/// The recorded output: each byte with its tag, its offset and its deciding offset, and the cuts.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) bytes: Vec<(u8, Tag, u64, u64, u64)>,
    cuts: Vec<(usize, u64, u64)>,
    turns: Vec<(usize, Tag, u64, u64)>,
}

impl ChunkSink for Seen {
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset) {
        let DecidedOffset {
            offset: at,
            decided,
        } = at;
        self.turns.push((self.bytes.len(), tag, at, decided));
    }

    fn push(&mut self, piece: Chunk<'_>) {
        let tag = self.turns.last().expect("a piece before any turn").1;
        for (index, &byte) in piece.bytes.iter().enumerate() {
            let (start, end) = (piece.start(index), piece.end(index));
            assert!(start < end && end <= piece.decided(index));
            self.bytes
                .push((byte, tag, start, end, piece.decided(index)));
        }
    }

    fn cut(&mut self, end: DecidedOffset) {
        let DecidedOffset {
            offset: end,
            decided,
        } = end;
        self.cuts.push((self.bytes.len(), end, decided));
    }
}

/// Returns the pieces of a text with their start offsets.
pub(crate) fn pieces(text: &[u8], size: usize) -> impl Iterator<Item = Chunk<'_>> {
    let starts = (0..).step_by(size);
    text.chunks(size)
        .zip(starts)
        .map(|(bytes, at)| Chunk::verbatim(bytes, at))
}
