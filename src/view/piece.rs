//! What passes from view to view: stretches of text that know where in the part they stand, and what
//! kind of text they are.
//!
//! The promise that every view keeps: however its input is cut, the concatenation of what it hands on,
//! with the same tags, places and `decided`, is the same.

use std::ops::{BitOr, Range};

/// A stretch of bytes of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) place: Place,
    /// Number of bytes of the part that had to be delivered before it was certain that these belong here.
    /// It counts only where it is past the end of a byte: a byte is never certain before it is there.
    pub(crate) decided: u64,
}

/// Where in the part, as delivered, the bytes of a [`Piece`] stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// As they are: the byte with index `i` at the offset plus `i`.
    Verbatim(u64),
    /// As they are too, but each is certain only with the byte behind it: the next character may yet
    /// change it.
    Late(u64),
    /// As they are too, words with single blanks between them: a blank is certain only with the byte behind it,
    /// for without a word behind it there would be none.
    Words(u64),
    /// All of them together stand for these bytes: an escape, a character that was folded.
    StandIn {
        /// Offset of the first byte that is stood for.
        start: u64,
        /// Offset behind the last one.
        end: u64,
    },
}

// PERF: out of line each copies the piece from memory that was just written in other widths, which the processor
// waits for: a view of shell text took 1.3 times as long (`cargo bench --bench views -- command`).
impl<'a> Piece<'a> {
    /// Bytes as they stand in the part from `at`, certain at once.
    #[inline(always)]
    pub(crate) fn verbatim(bytes: &'a [u8], at: u64) -> Piece<'a> {
        Piece {
            bytes,
            place: Place::Verbatim(at),
            decided: 0,
        }
    }

    /// Bytes that stand for the bytes `start..end` of the part.
    #[inline(always)]
    pub(crate) fn stand_in(bytes: &'a [u8], start: u64, end: u64, decided: u64) -> Piece<'a> {
        Piece {
            bytes,
            place: Place::StandIn { start, end },
            decided,
        }
    }

    /// Where in the part the byte with that index begins.
    #[inline(always)]
    pub(crate) fn start(&self, index: usize) -> u64 {
        match self.place {
            Place::Verbatim(at) | Place::Late(at) | Place::Words(at) => at + index as u64,
            Place::StandIn { start, .. } => start,
        }
    }

    /// Where in the part the byte with that index ends.
    #[inline(always)]
    pub(crate) fn end(&self, index: usize) -> u64 {
        match self.place {
            Place::Verbatim(at) | Place::Late(at) | Place::Words(at) => at + index as u64 + 1,
            Place::StandIn { end, .. } => end,
        }
    }

    /// Bytes of the part that were delivered when the byte with that index was certain.
    #[inline(always)]
    pub(crate) fn decided(&self, index: usize) -> u64 {
        let late = match self.place {
            Place::Verbatim(_) | Place::StandIn { .. } => false,
            Place::Late(_) => true,
            Place::Words(_) => self.bytes[index] == b' ',
        };
        self.decided.max(self.end(index) + u64::from(late))
    }

    /// A stretch of it. A stand-in may be cut too: both halves stand for the same bytes.
    #[inline(always)]
    pub(crate) fn slice(&self, range: Range<usize>) -> Piece<'a> {
        Piece {
            place: match self.place {
                Place::Verbatim(at) => Place::Verbatim(at + range.start as u64),
                Place::Late(at) => Place::Late(at + range.start as u64),
                Place::Words(at) => Place::Words(at + range.start as u64),
                place @ Place::StandIn { .. } => place,
            },
            bytes: &self.bytes[range],
            decided: self.decided,
        }
    }

    /// The same bytes, which stand as they are, as words with single blanks between them.
    #[inline(always)]
    pub(crate) fn words(self) -> Piece<'a> {
        match self.place {
            Place::Verbatim(at) => Piece {
                place: Place::Words(at),
                ..self
            },
            _ => self,
        }
    }

    /// The same, certain no earlier than at `decided`.
    #[inline(always)]
    pub(crate) fn later(self, decided: u64) -> Piece<'a> {
        Piece {
            decided: self.decided.max(decided),
            ..self
        }
    }
}

/// Kinds of text, as a set: what a rule's `region` names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Regions(pub(crate) u16);

impl Regions {
    pub(crate) const PROSE: Regions = Regions(1);
    pub(crate) const CODE: Regions = Regions(1 << 1);
    pub(crate) const INLINE_CODE: Regions = Regions(1 << 2);
    pub(crate) const QUOTE: Regions = Regions(1 << 3);
    pub(crate) const HEADING: Regions = Regions(1 << 4);
    pub(crate) const ADDED: Regions = Regions(1 << 5);
    pub(crate) const REMOVED: Regions = Regions(1 << 6);
    pub(crate) const FILE: Regions = Regions(1 << 7);
    pub(crate) const SHELL: Regions = Regions(1 << 8);
    pub(crate) const COMMENT: Regions = Regions(1 << 9);
    pub(crate) const STRING: Regions = Regions(1 << 10);
    pub(crate) const CODE_ONLY: Regions = Regions(1 << 11);

    /// Whether all of `other` are among these.
    pub(crate) fn contains(self, other: Regions) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is among these.
    pub(crate) fn meets(self, other: Regions) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Regions {
    type Output = Regions;
    fn bitor(self, other: Regions) -> Regions {
        Regions(self.0 | other.0)
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
    pub(crate) regions: Regions,
    /// The language of code, where it is known.
    pub(crate) language: Option<Language>,
}

/// What takes the pieces of a view.
///
/// A rule that asks for some regions reads, as one haystack, each longest run of pieces whose tags have
/// all of them and between which there is no [`cut`](Self::cut). Bytes that belong to no haystack (fences,
/// markers of added lines) are not handed on at all; a marker that is left out does not end a run.
pub(crate) trait Sink {
    /// The pieces from here on have that tag; `at` is where in the part it begins. A haystack of regions that
    /// it lacks ends here, even if another turn follows at once: so two strings next to each other are two,
    /// and what is around them is still one.
    fn turn(&mut self, tag: Tag, at: u64, decided: u64);

    /// Takes the next piece, at least one byte.
    fn take(&mut self, piece: Piece<'_>);

    /// Every haystack ends here, also if the next one is of the same kind: two fenced blocks, two hunks.
    /// `end` is where in the part the last one ended.
    fn cut(&mut self, end: u64, decided: u64);

    /// The file that the pieces from here on belong to, as written.
    fn file(&mut self, _path: &str, _decided: u64) {}
}

/// Pieces that wait until it is known what they are. The owner bounds how many bytes it lets wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    bytes: Vec<u8>,
    /// Where in `bytes` each stretch begins, where that stands, and when it was certain.
    marks: Vec<(usize, Place, u64)>,
}

impl Held {
    /// The bytes that wait.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Keeps a piece. Pieces that stand next to each other become one, so the cut of the input leaves no trace.
    #[inline]
    pub(crate) fn push(&mut self, piece: Piece<'_>) {
        if piece.bytes.is_empty() {
            return;
        }
        if !self.continues(piece) {
            self.marks
                .push((self.bytes.len(), piece.place, piece.decided));
        }
        self.bytes.extend_from_slice(piece.bytes);
    }

    #[inline]
    fn continues(&self, piece: Piece<'_>) -> bool {
        let Some(&(from, place, decided)) = self.marks.last() else {
            return false;
        };
        match (place, piece.place) {
            (Place::Verbatim(at), Place::Verbatim(next))
            | (Place::Late(at), Place::Late(next))
            | (Place::Words(at), Place::Words(next)) => {
                decided == piece.decided && at + (self.bytes.len() - from) as u64 == next
            }
            _ => false,
        }
    }

    /// The pieces that the bytes of `range` consist of.
    pub(crate) fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Piece<'_>> + Clone {
        let ends = self.marks.iter().skip(1).map(|mark| mark.0);
        let ends = ends.chain([self.bytes.len()]);
        self.marks
            .iter()
            .zip(ends)
            .filter_map(move |(&(from, place, decided), to)| {
                let piece = Piece {
                    bytes: &self.bytes[from..to],
                    place,
                    decided,
                };
                let within = range.start.max(from)..range.end.min(to);
                (within.start < within.end)
                    .then(|| piece.slice(within.start - from..within.end - from))
            })
    }

    /// Where in the part the byte with that index stands: its own place, not that of its neighbours.
    pub(crate) fn piece_at(&self, index: usize) -> Option<Piece<'_>> {
        self.pieces(index..index + 1).next()
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
        let mut whole = Held::default();
        whole.push(Piece::verbatim(b"abc", 10));
        whole.push(Piece::stand_in(b"\n", 13, 15, 15));
        whole.push(Piece::verbatim(b"de", 15));
        let mut cut = Held::default();
        for at in 0..3 {
            cut.push(Piece::verbatim(&b"abc"[at..=at], 10 + at as u64));
        }
        cut.push(Piece::stand_in(b"\n", 13, 15, 15));
        cut.push(Piece::verbatim(b"d", 15));
        cut.push(Piece::verbatim(b"e", 16));
        for range in [0..6, 1..5, 2..3, 3..4, 4..6, 2..2] {
            let pieces = |held: &Held| -> Vec<(Vec<u8>, Place)> {
                held.pieces(range.clone())
                    .map(|piece| (piece.bytes.to_vec(), piece.place))
                    .collect()
            };
            assert_eq!(pieces(&whole), pieces(&cut), "{range:?}");
            let bytes: Vec<u8> = pieces(&whole).concat_bytes();
            assert_eq!(bytes, &b"abc\nde"[range]);
        }
        let last = whole.pieces(4..6).next().unwrap();
        assert_eq!((last.start(0), last.end(1), last.decided(1)), (15, 17, 17));
        assert_eq!(last.later(20).decided(0), 20);
    }

    #[test]
    fn a_slice_stands_where_it_did_and_is_certain_when_it_was() {
        for place in [
            Place::Verbatim(10),
            Place::Late(10),
            Place::Words(10),
            Place::StandIn { start: 10, end: 14 },
        ] {
            let piece = Piece {
                bytes: b"a bc",
                place,
                decided: 0,
            };
            let slice = piece.slice(1..3);
            assert_eq!(slice.bytes, b" b");
            for index in 0..2 {
                let both = [(piece, index + 1), (slice, index)];
                let [whole, part] = both.map(|(it, at)| (it.start(at), it.end(at), it.decided(at)));
                assert_eq!(part, whole, "{place:?}");
            }
        }
        let words = Piece::verbatim(b"a b", 4).words();
        assert_eq!([0, 1, 2].map(|at| words.decided(at)), [5, 7, 7]);
    }

    trait ConcatBytes {
        fn concat_bytes(&self) -> Vec<u8>;
    }

    impl ConcatBytes for Vec<(Vec<u8>, Place)> {
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
        let both = Regions::CODE | Regions::COMMENT;
        assert!(both.contains(Regions::CODE) && !Regions::CODE.contains(both));
        assert_eq!(both | Regions::CODE, both);
        assert!(both.meets(Regions::CODE) && Regions::CODE.meets(Regions::CODE));
        assert!(!Regions::CODE.meets(Regions::COMMENT));
    }
}
