//! What passes from view to view: stretches of text that know where in the part they stand, and what
//! kind of text they are.
//!
//! The promise that every view keeps: however its input is cut, the concatenation of what it hands on,
//! with the same tags, places and `decided`, is the same.

use std::ops::{BitOr, Range};

/// A stretch of bytes of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) offsets: OffsetMap,
    /// Number of bytes of the part that had to be delivered before it was certain that these belong here.
    /// It counts only where it is past the end of a byte: a byte is never certain before it is there.
    pub(crate) decided: u64,
}

/// Where in the part, as delivered, the bytes of a [`Chunk`] stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetMap {
    /// As they are: the byte with index `i` at the offset plus `i`.
    Verbatim(u64),
    /// As they are too, but each is certain only with the byte behind it: the next character may yet
    /// change it.
    Late(u64),
    /// As they are too, words with single blanks between them: a blank is certain only with the byte behind it,
    /// for without a word behind it there would be none.
    Words(u64),
    /// All of them together stand for these bytes: an escape, a character that was folded.
    Replacement {
        /// Offset of the first byte that is stood for.
        start: u64,
        /// Offset behind the last one.
        end: u64,
    },
}

// PERF: out of line each copies the piece from memory that was just written in other widths, which the processor
// waits for: a view of shell text took 1.3 times as long (`cargo bench --bench views -- command`).
impl<'a> Chunk<'a> {
    /// Bytes as they stand in the part from `at`, certain at once.
    #[inline(always)]
    pub(crate) fn verbatim(bytes: &'a [u8], at: u64) -> Chunk<'a> {
        Chunk {
            bytes,
            offsets: OffsetMap::Verbatim(at),
            decided: 0,
        }
    }

    /// Bytes that stand for the bytes `start..end` of the part.
    #[inline(always)]
    pub(crate) fn replacement(bytes: &'a [u8], start: u64, end: u64, decided: u64) -> Chunk<'a> {
        Chunk {
            bytes,
            offsets: OffsetMap::Replacement { start, end },
            decided,
        }
    }

    /// Where in the part the byte with that index begins.
    #[inline(always)]
    pub(crate) fn start(&self, index: usize) -> u64 {
        match self.offsets {
            OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => {
                at + index as u64
            }
            OffsetMap::Replacement { start, .. } => start,
        }
    }

    /// Where in the part the byte with that index ends.
    #[inline(always)]
    pub(crate) fn end(&self, index: usize) -> u64 {
        match self.offsets {
            OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => {
                at + index as u64 + 1
            }
            OffsetMap::Replacement { end, .. } => end,
        }
    }

    /// Bytes of the part that were delivered when the byte with that index was certain.
    #[inline(always)]
    pub(crate) fn decided(&self, index: usize) -> u64 {
        let late = match self.offsets {
            OffsetMap::Verbatim(_) | OffsetMap::Replacement { .. } => false,
            OffsetMap::Late(_) => true,
            OffsetMap::Words(_) => self.bytes[index] == b' ',
        };
        self.decided.max(self.end(index) + u64::from(late))
    }

    /// A stretch of it. A stand-in may be cut too: both halves stand for the same bytes.
    #[inline(always)]
    pub(crate) fn slice(&self, range: Range<usize>) -> Chunk<'a> {
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

    /// The same bytes, which stand as they are, as words with single blanks between them.
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

    /// The same, certain no earlier than at `decided`.
    #[inline(always)]
    pub(crate) fn not_before(self, decided: u64) -> Chunk<'a> {
        Chunk {
            decided: self.decided.max(decided),
            ..self
        }
    }
}

/// Kinds of text, as a set: what a rule's `region` names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RegionSet(pub(crate) u16);

impl RegionSet {
    pub(crate) const PROSE: RegionSet = RegionSet(1);
    pub(crate) const CODE: RegionSet = RegionSet(1 << 1);
    pub(crate) const INLINE_CODE: RegionSet = RegionSet(1 << 2);
    pub(crate) const QUOTE: RegionSet = RegionSet(1 << 3);
    pub(crate) const HEADING: RegionSet = RegionSet(1 << 4);
    pub(crate) const ADDED: RegionSet = RegionSet(1 << 5);
    pub(crate) const REMOVED: RegionSet = RegionSet(1 << 6);
    pub(crate) const FILE: RegionSet = RegionSet(1 << 7);
    pub(crate) const SHELL: RegionSet = RegionSet(1 << 8);
    pub(crate) const COMMENT: RegionSet = RegionSet(1 << 9);
    pub(crate) const STRING: RegionSet = RegionSet(1 << 10);
    pub(crate) const CODE_ONLY: RegionSet = RegionSet(1 << 11);

    /// Whether all of `other` are among these.
    pub(crate) fn contains(self, other: RegionSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is among these.
    pub(crate) fn intersects(self, other: RegionSet) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for RegionSet {
    type Output = RegionSet;
    fn bitor(self, other: RegionSet) -> RegionSet {
        RegionSet(self.0 | other.0)
    }
}

/// The name of a language, lower case, as an info string or a file's extension gives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Language {
    bytes: [u8; Language::BYTES],
    len: u8,
}

impl Language {
    /// Longest name that is told apart; a longer one is no language.
    pub(crate) const BYTES: usize = 23;

    /// The language of that name; none if the name is empty or too long.
    pub(crate) fn new(name: &str) -> Option<Language> {
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

    pub(crate) fn name(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len.into()]).expect("it was made from a str")
    }
}

impl std::fmt::Debug for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What kind of text follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) regions: RegionSet,
    /// The language of code, where it is known.
    pub(crate) language: Option<Language>,
}

/// What takes the pieces of a view.
///
/// A rule that asks for some regions reads, as one haystack, each longest run of pieces whose tags have
/// all of them and between which there is no [`cut`](Self::cut). Bytes that belong to no haystack (fences,
/// markers of added lines) are not handed on at all; a marker that is left out does not end a run.
pub(crate) trait ChunkSink {
    /// The pieces from here on have that tag; `at` is where in the part it begins. A haystack of regions that
    /// it lacks ends here, even if another turn follows at once: so two strings next to each other are two,
    /// and what is around them is still one.
    fn set_tag(&mut self, tag: Tag, at: u64, decided: u64);

    /// Takes the next piece, at least one byte.
    fn push(&mut self, chunk: Chunk<'_>);

    /// Every haystack ends here, also if the next one is of the same kind: two fenced blocks, two hunks.
    /// `end` is where in the part the last one ended.
    fn cut(&mut self, end: u64, decided: u64);

    /// The file that the pieces from here on belong to, as written.
    fn set_file(&mut self, _path: &str, _decided: u64) {}
}

/// Pieces that wait until it is known what they are. The owner bounds how many bytes it lets wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkBuffer {
    bytes: Vec<u8>,
    /// Where in `bytes` each stretch begins, where that stands, and when it was certain.
    marks: Vec<(usize, OffsetMap, u64)>,
}

impl ChunkBuffer {
    /// The bytes that wait.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Keeps a piece. Pieces that stand next to each other become one, so the cut of the input leaves no trace.
    #[inline]
    pub(crate) fn push(&mut self, chunk: Chunk<'_>) {
        if chunk.bytes.is_empty() {
            return;
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

    /// The pieces that the bytes of `range` consist of.
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

    /// Where in the part the byte with that index stands: its own offsets, not that of its neighbours.
    pub(crate) fn chunk_at(&self, index: usize) -> Option<Chunk<'_>> {
        self.chunks(index..index + 1).next()
    }

    /// Forgets everything; keeps the memory.
    pub(crate) fn clear(&mut self) {
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
        whole.push(Chunk::replacement(b"\n", 13, 15, 15));
        whole.push(Chunk::verbatim(b"de", 15));
        let mut cut = ChunkBuffer::default();
        for at in 0..3 {
            cut.push(Chunk::verbatim(&b"abc"[at..=at], 10 + at as u64));
        }
        cut.push(Chunk::replacement(b"\n", 13, 15, 15));
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
        let last = whole.chunks(4..6).next().unwrap();
        assert_eq!((last.start(0), last.end(1), last.decided(1)), (15, 17, 17));
        assert_eq!(last.not_before(20).decided(0), 20);
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
