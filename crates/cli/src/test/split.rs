//! How a part is cut.

use std::fmt::{self, Display};
use std::num::NonZeroUsize;

use serde::{Serialize, Serializer};

use crate::chunk::Chunk;

/// One way to cut a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    Chunk(Chunk),
    /// In two, behind so many bytes.
    At(usize),
}

impl Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Split::Chunk(Chunk::Original) => f.write_str("original"),
            Split::Chunk(Chunk::Whole) => f.write_str("whole"),
            Split::Chunk(Chunk::Size(size)) if size.get() == 1 => f.write_str("bytes"),
            Split::Chunk(Chunk::Size(size)) => write!(f, "{size}"),
            Split::Chunk(Chunk::Random(seed)) => write!(f, "random:{seed}"),
            Split::At(at) => write!(f, "cut:{at}"),
        }
    }
}

impl Serialize for Split {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Most cuts in two of one part.
pub(super) const CUTS: usize = 400;

/// What was asked for, or else everything.
pub(super) fn splits(chunks: &[Chunk], length: usize) -> Vec<Split> {
    if !chunks.is_empty() {
        return chunks.iter().copied().map(Split::Chunk).collect();
    }
    let places = length.saturating_sub(1);
    let cuts = places.min(CUTS);
    let mut splits = vec![
        Split::Chunk(Chunk::Whole),
        Split::Chunk(Chunk::Size(NonZeroUsize::MIN)),
    ];
    splits.extend((0..cuts).map(|cut| Split::At(1 + cut * places / cuts)));
    splits
}
