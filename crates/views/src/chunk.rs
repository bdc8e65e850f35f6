//! The interface between views: runs of bytes with their offsets in the part, and tags that name their regions.
//!
//! Every view keeps one promise: the concatenation of its output, with the same tags, offsets and `decided`, does not
//! depend on how its input is cut.

use std::ops::{BitOr, Range};

/// A run of bytes that a view emits, with their offsets in the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The bytes, as patterns search them.
    pub bytes: &'a [u8],
    /// The mapping from `bytes` to offsets in the part.
    pub offsets: OffsetMap,
    /// The number of bytes of the part that had been delivered when these bytes became certain. For a byte that ends
    /// later, [`Self::decided`] returns the end of the byte, because no byte is certain before it is delivered.
    pub decided: u64,
}

/// An offset in the part, and when it was certain.
///
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedOffset {
    /// The offset in the part as delivered, in bytes.
    pub offset: u64,
    /// The number of bytes of the part that had been delivered when the offset became certain. If it is smaller than
    /// the offset, [`Self::decided`] returns the offset, because none is certain before it is delivered.
    pub decided: u64,
}

impl DecidedOffset {
    /// Returns an offset that is certain as soon as the bytes up to it are delivered.
    ///
    /// ```
    /// use ttsr_views::chunk::DecidedOffset;
    ///
    /// let end = DecidedOffset::at_once(7);
    /// assert_eq!((end.offset, end.decided), (7, 7));
    /// ```
    #[inline(always)]
    pub const fn at_once(offset: u64) -> DecidedOffset {
        DecidedOffset {
            offset,
            decided: offset,
        }
    }

    /// Returns the number of bytes of the part that had been delivered when the offset became certain.
    #[inline(always)]
    pub fn decided(self) -> u64 {
        self.decided.max(self.offset)
    }
}

/// The mapping from the bytes of a [`Chunk`] to offsets in the part as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetMap {
    /// The chunk is copied from the part: byte `i` is at the given offset plus `i`.
    Verbatim(u64),
    /// Like `Verbatim`, but each byte is certain only with the byte after it, because the next character can still
    /// change it.
    Late(u64),
    /// Like `Verbatim`, for words separated by single blanks. A blank is certain only with the byte after it, because
    /// a blank that no word follows is not emitted.
    Words(u64),
    /// The chunk replaces `start..end` as a whole, such as a decoded escape or a folded character.
    Replacement {
        /// The offset of the first byte that is replaced.
        start: u64,
        /// The offset after the last byte that is replaced.
        end: u64,
    },
}

// PERF: out of line, each of these copies the chunk from memory that was just written with other widths, and the
// processor stalls: a view of shell text took 1.3 times as long (`cargo bench --bench views -- command`).
impl<'a> Chunk<'a> {
    /// Returns a chunk copied from the part at offset `at`, certain at once.
    #[inline(always)]
    pub fn verbatim(bytes: &'a [u8], at: u64) -> Chunk<'a> {
        Chunk {
            bytes,
            offsets: OffsetMap::Verbatim(at),
            decided: 0,
        }
    }

    /// Returns a chunk that replaces the range `source` of the part.
    #[inline(always)]
    pub fn replacement(bytes: &'a [u8], source: Range<u64>, decided: u64) -> Chunk<'a> {
        Chunk {
            bytes,
            offsets: OffsetMap::Replacement {
                start: source.start,
                end: source.end,
            },
            decided,
        }
    }

    /// Returns the offset in the part at which the byte at `index` starts.
    #[inline(always)]
    pub fn start(&self, index: usize) -> u64 {
        match self.offsets {
            OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => {
                at + index as u64
            }
            OffsetMap::Replacement { start, .. } => start,
        }
    }

    /// Returns the offset in the part at which the byte at `index` ends.
    #[inline(always)]
    pub fn end(&self, index: usize) -> u64 {
        match self.offsets {
            OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => {
                at + index as u64 + 1
            }
            OffsetMap::Replacement { end, .. } => end,
        }
    }

    /// Returns the start of the byte at `index`, which is certain when the byte is.
    #[inline(always)]
    pub(crate) fn decided_start(&self, index: usize) -> DecidedOffset {
        DecidedOffset {
            offset: self.start(index),
            decided: self.decided(index),
        }
    }

    /// Returns the number of bytes of the part that had been delivered when the byte at `index` became certain.
    #[inline(always)]
    pub fn decided(&self, index: usize) -> u64 {
        let late = match self.offsets {
            OffsetMap::Verbatim(_) | OffsetMap::Replacement { .. } => false,
            OffsetMap::Late(_) => true,
            OffsetMap::Words(_) => self.bytes[index] == b' ',
        };
        self.decided.max(self.end(index) + u64::from(late))
    }

    /// Returns a part of the chunk. Both halves of a replacement map to the same bytes.
    ///
    /// # Panics
    /// If the range is not within [`bytes`](Self::bytes).
    #[inline(always)]
    pub fn slice(&self, range: Range<usize>) -> Chunk<'a> {
        Chunk {
            offsets: match self.offsets {
                OffsetMap::Verbatim(at) => OffsetMap::Verbatim(at + range.start as u64),
                OffsetMap::Late(at) => OffsetMap::Late(at + range.start as u64),
                OffsetMap::Words(at) => OffsetMap::Words(at + range.start as u64),
                offsets @ OffsetMap::Replacement { .. } => offsets,
            },
            bytes: &self.bytes[range],
            decided: self.decided,
        }
    }

    /// Returns a verbatim chunk as [`OffsetMap::Words`], and any other chunk unchanged.
    #[inline(always)]
    pub(crate) fn as_words(self) -> Chunk<'a> {
        match self.offsets {
            OffsetMap::Verbatim(at) => Chunk {
                offsets: OffsetMap::Words(at),
                ..self
            },
            _ => self,
        }
    }

    /// Returns the chunk with `decided` as its earliest decision offset.
    #[inline(always)]
    pub(crate) fn decided_no_earlier(self, decided: u64) -> Chunk<'a> {
        Chunk {
            decided: self.decided.max(decided),
            ..self
        }
    }
}

/// A set of the regions that a rule's `region` can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegionSet(pub(crate) u16);

impl RegionSet {
    /// Markdown text outside code, quotes and headings.
    pub const PROSE: RegionSet = RegionSet(1);
    /// A code block, fenced or indented.
    pub const CODE: RegionSet = RegionSet(1 << 1);
    /// Code between backticks.
    pub const INLINE_CODE: RegionSet = RegionSet(1 << 2);
    /// A block quote, in addition to the region of its content.
    pub const QUOTE: RegionSet = RegionSet(1 << 3);
    /// A heading.
    pub const HEADING: RegionSet = RegionSet(1 << 4);
    /// Lines that an edit adds.
    pub const ADDED: RegionSet = RegionSet(1 << 5);
    /// Lines that an edit removes.
    pub const REMOVED: RegionSet = RegionSet(1 << 6);
    /// The content of a whole file.
    pub const FILE: RegionSet = RegionSet(1 << 7);
    /// A simple command of shell text.
    pub const SHELL: RegionSet = RegionSet(1 << 8);
    /// A comment in code.
    pub const COMMENT: RegionSet = RegionSet(1 << 9);
    /// A string or character literal in code.
    pub const STRING: RegionSet = RegionSet(1 << 10);
    /// Code, in which a string is reduced to its quotes and a comment to its first character.
    pub const CODE_ONLY: RegionSet = RegionSet(1 << 11);
    /// Code with its strings and without its comments. Quotes in the content of a string are left out, so each quote
    /// begins or ends a string.
    pub const UNCOMMENTED: RegionSet = RegionSet(1 << 12);

    /// Returns true if every region of `other` is in the set.
    #[inline]
    pub fn contains(self, other: RegionSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if any region of `other` is in the set.
    #[inline]
    pub fn intersects(self, other: RegionSet) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for RegionSet {
    type Output = RegionSet;
    #[inline]
    fn bitor(self, other: RegionSet) -> RegionSet {
        RegionSet(self.0 | other.0)
    }
}

/// The lowercase name of a language, from an info string or a file extension.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Language {
    bytes: [u8; Language::BYTES],
    len: u8,
}

impl Language {
    /// Returns the language of the file with that path: its extension, if a stem precedes it.
    #[inline]
    pub fn from_path(path: &str) -> Option<Language> {
        let name = path.rsplit(['/', '\\']).next()?;
        let (stem, extension) = name.rsplit_once('.')?;
        (!stem.is_empty()).then(|| Language::new(extension))?
    }

    /// The longest name of a language, in bytes. A longer name is not a language.
    pub(crate) const BYTES: usize = 23;

    /// Returns the language with this name, or `None` if the name is empty or too long.
    pub fn new(name: &str) -> Option<Language> {
        let mut bytes = [0; Language::BYTES];
        let len = name.len();
        bytes
            .get_mut(..len)
            .filter(|bytes| !bytes.is_empty())?
            .copy_from_slice(name.to_ascii_lowercase().as_bytes());
        Some(Language {
            bytes,
            len: len as u8,
        })
    }

    /// Returns the name.
    #[inline]
    #[expect(clippy::missing_panics_doc, reason = "the bytes are those of a str")]
    pub fn name(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len.into()]).expect("it was made from a str")
    }
}

impl std::fmt::Debug for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The regions and the language of the chunks that follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// The regions, or the empty set for text in no region.
    pub regions: RegionSet,
    /// The language of the code, if it is known.
    pub language: Option<Language>,
    /// The regions that the text interrupts: it is not in them, and they continue after it.
    pub interrupted: RegionSet,
}

/// The consumer of the chunks that a view emits.
///
/// A rule with a set of regions reads each longest run of chunks whose tags contain the set, without a
/// [`cut`](Self::cut) between them, as one haystack. Bytes in no region (fences, markers of added lines) are not
/// emitted; they do not end a run. Chunks whose tags contain the set only together with
/// [`Tag::interrupted`] are left out of the haystack, and do not end it.
pub trait ChunkSink {
    /// Sets the tag of the chunks that follow; it applies from `at`. Every haystack whose regions the tag lacks and
    /// does not interrupt ends here, even if another `set_tag` follows at once. Two adjacent strings are therefore two
    /// haystacks, while the code around them remains one.
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset);

    /// Consumes the next chunk, which is not empty.
    fn push(&mut self, chunk: Chunk<'_>);

    /// Ends every haystack, even if the next one has the same tag, as between two fenced blocks or two hunks.
    /// `end` is the end of the last one.
    fn cut(&mut self, end: DecidedOffset);

    /// Sets the file that the chunks that follow belong to, as its path is written.
    fn set_file(&mut self, _path: &str, _decided: u64) {}
}

/// The least capacity of a [`ChunkBuffer`] that is not empty, in bytes.
const FIRST_BYTES: usize = 64;

/// A buffer of chunks whose region is not yet known. Its owner bounds the number of bytes in it.
#[derive(Clone, Debug, Default)]
pub struct ChunkBuffer {
    bytes: Vec<u8>,
    /// For each run: its start in `bytes`, its offsets and its `decided`.
    marks: Vec<(usize, OffsetMap, u64)>,
}

impl ChunkBuffer {
    /// Returns the buffered bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if nothing is buffered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends a chunk. Contiguous chunks are merged, so that the cuts of the input leave no trace.
    #[inline]
    pub fn push(&mut self, chunk: Chunk<'_>) {
        if chunk.bytes.is_empty() {
            return;
        }
        let len = self.bytes.len();
        if len + chunk.bytes.len() > self.bytes.capacity() {
            // Text comes in deltas of a few bytes: growing from eight bytes takes four allocations. Later by a quarter, because
            // a host has many buffers, and one that doubles is half empty at worst.
            let more = chunk.bytes.len().max(len / 4).max(FIRST_BYTES);
            self.bytes.reserve_exact(more);
        }
        if !self.continues(chunk) {
            self.marks
                .push((self.bytes.len(), chunk.offsets, chunk.decided));
        }
        self.bytes.extend_from_slice(chunk.bytes);
    }

    #[inline]
    fn continues(&self, chunk: Chunk<'_>) -> bool {
        let Some(&(from, offsets, decided)) = self.marks.last() else {
            return false;
        };
        match (offsets, chunk.offsets) {
            (OffsetMap::Verbatim(at), OffsetMap::Verbatim(next))
            | (OffsetMap::Late(at), OffsetMap::Late(next))
            | (OffsetMap::Words(at), OffsetMap::Words(next)) => {
                decided == chunk.decided && at + (self.bytes.len() - from) as u64 == next
            }
            _ => false,
        }
    }

    /// Returns the chunks that the bytes of `range` consist of.
    pub(crate) fn chunks(&self, range: Range<usize>) -> impl Iterator<Item = Chunk<'_>> + Clone {
        let ends = self.marks.iter().skip(1).map(|mark| mark.0);
        let ends = ends.chain([self.bytes.len()]);
        self.marks
            .iter()
            .zip(ends)
            .filter_map(move |(&(from, offsets, decided), to)| {
                let chunk = Chunk {
                    bytes: &self.bytes[from..to],
                    offsets,
                    decided,
                };
                let within = range.start.max(from)..range.end.min(to);
                (within.start < within.end)
                    .then(|| chunk.slice(within.start - from..within.end - from))
            })
    }

    /// Returns the chunk of the single byte at `index`.
    #[inline]
    pub fn chunk_at(&self, index: usize) -> Option<Chunk<'_>> {
        self.chunks(index..index + 1).next()
    }

    /// Returns the offset in the part at which the first byte starts, or `None` if nothing is buffered.
    #[inline]
    pub fn start(&self) -> Option<u64> {
        let &(_, offsets, _) = self.marks.first()?;
        Some(match offsets {
            OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => at,
            OffsetMap::Replacement { start, .. } => start,
        })
    }

    /// Removes the first `count` bytes, at most all.
    pub fn drop_front(&mut self, count: usize) {
        if count >= self.bytes.len() {
            return self.clear();
        }
        self.bytes.drain(..count);
        // The last run that begins at or before the new first byte becomes the first one.
        let first = self.marks.partition_point(|mark| mark.0 <= count);
        self.marks.drain(..first.saturating_sub(1));
        for (from, offsets, _) in &mut self.marks {
            let dropped = count.saturating_sub(*from) as u64;
            *from = from.saturating_sub(count);
            match offsets {
                OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => {
                    *at += dropped;
                }
                OffsetMap::Replacement { .. } => {}
            }
        }
    }

    /// Removes everything and keeps the allocation.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_pieces_come_back_as_they_were_whatever_the_cut() {
        let mut whole = ChunkBuffer::default();
        whole.push(Chunk::verbatim(b"abc", 10));
        whole.push(Chunk::replacement(b"\n", 13..15, 15));
        whole.push(Chunk::verbatim(b"de", 15));
        let mut cut = ChunkBuffer::default();
        for at in 0..3 {
            cut.push(Chunk::verbatim(&b"abc"[at..=at], 10 + at as u64));
        }
        cut.push(Chunk::replacement(b"\n", 13..15, 15));
        cut.push(Chunk::verbatim(b"d", 15));
        cut.push(Chunk::verbatim(b"e", 16));
        for range in [0..6, 1..5, 2..3, 3..4, 4..6, 2..2] {
            let chunks = |held: &ChunkBuffer| -> Vec<(Vec<u8>, OffsetMap)> {
                held.chunks(range.clone())
                    .map(|chunk| (chunk.bytes.to_vec(), chunk.offsets))
                    .collect()
            };
            assert_eq!(chunks(&whole), chunks(&cut), "{range:?}");
            let bytes: Vec<u8> = chunks(&whole).concat_bytes();
            assert_eq!(bytes, &b"abc\nde"[range]);
        }
        assert_eq!((whole.start(), cut.start()), (Some(10), Some(10)));
        assert_eq!(ChunkBuffer::default().start(), None);
        let last = whole.chunks(4..6).next().unwrap();
        assert_eq!((last.start(0), last.end(1), last.decided(1)), (15, 17, 17));
        assert_eq!(last.decided_no_earlier(20).decided(0), 20);
    }

    #[test]
    fn what_is_left_of_a_buffer_keeps_its_places() {
        let mut all = ChunkBuffer::default();
        all.push(Chunk::verbatim(b"abc", 10));
        all.push(Chunk::replacement(b"xy", 13..19, 20));
        all.push(Chunk::verbatim(b"de", 19));
        let chunk = |held: &ChunkBuffer, index| {
            let chunk = held.chunk_at(index).unwrap();
            let place = (chunk.start(0), chunk.end(0), chunk.decided(0));
            (chunk.bytes.to_vec(), place)
        };
        for count in 0..=8 {
            let mut left = all.clone();
            left.drop_front(count);
            assert_eq!(left.bytes(), &all.bytes()[count.min(7)..]);
            for index in 0..left.bytes().len() {
                assert_eq!(chunk(&left, index), chunk(&all, count + index), "{count}");
            }
            assert_eq!(
                left.start(),
                all.chunk_at(count).map(|chunk| chunk.start(0))
            );
            // Later bytes are appended to what is left.
            left.push(Chunk::verbatim(b"f", 21));
            let last = left.bytes().len() - 1;
            assert_eq!(chunk(&left, last), (b"f".to_vec(), (21, 22, 22)));
        }
    }

    #[test]
    fn a_slice_stands_where_it_did_and_is_certain_when_it_was() {
        for offsets in [
            OffsetMap::Verbatim(10),
            OffsetMap::Late(10),
            OffsetMap::Words(10),
            OffsetMap::Replacement { start: 10, end: 14 },
        ] {
            let chunk = Chunk {
                bytes: b"a bc",
                offsets,
                decided: 0,
            };
            let slice = chunk.slice(1..3);
            assert_eq!(slice.bytes, b" b");
            for index in 0..2 {
                let both = [(chunk, index + 1), (slice, index)];
                let [whole, part] = both.map(|(it, at)| (it.start(at), it.end(at), it.decided(at)));
                assert_eq!(part, whole, "{offsets:?}");
            }
        }
        let words = Chunk::verbatim(b"a b", 4).as_words();
        assert_eq!([0, 1, 2].map(|at| words.decided(at)), [5, 7, 7]);
    }

    trait ConcatBytes {
        fn concat_bytes(&self) -> Vec<u8>;
    }

    impl ConcatBytes for Vec<(Vec<u8>, OffsetMap)> {
        fn concat_bytes(&self) -> Vec<u8> {
            self.iter()
                .flat_map(|(bytes, _)| bytes.iter().copied())
                .collect()
        }
    }

    #[test]
    fn languages_are_lower_case_and_short() {
        assert_eq!(Language::new("Rust").unwrap().name(), "rust");
        assert_eq!(format!("{:?}", Language::new("Rust").unwrap()), "rust");
        assert_eq!(Language::new(""), None);
        assert_eq!(Language::new(&"x".repeat(24)), None);
        let both = RegionSet::CODE | RegionSet::COMMENT;
        assert!(both.contains(RegionSet::CODE) && !RegionSet::CODE.contains(both));
        assert_eq!(both | RegionSet::CODE, both);
        assert!(both.intersects(RegionSet::CODE) && RegionSet::CODE.intersects(RegionSet::CODE));
        assert!(!RegionSet::CODE.intersects(RegionSet::COMMENT));
    }
}
