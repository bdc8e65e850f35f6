//! The splits of a part into deltas.

use std::fmt::{self, Display};
use std::num::NonZeroUsize;

use serde::{Serialize, Serializer};

use crate::chunk::Chunk;

/// One way to split a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartSplit {
    Chunk(Chunk),
    /// In two, after this many bytes.
    At(usize),
}

impl Display for PartSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartSplit::Chunk(Chunk::Original) => f.write_str("original"),
            PartSplit::Chunk(Chunk::Whole) => f.write_str("whole"),
            PartSplit::Chunk(Chunk::Size(size)) if size.get() == 1 => f.write_str("bytes"),
            PartSplit::Chunk(Chunk::Size(size)) => write!(f, "{size}"),
            PartSplit::Chunk(Chunk::Random(seed)) => write!(f, "random:{seed}"),
            PartSplit::At(at) => write!(f, "cut:{at}"),
        }
    }
}

impl Serialize for PartSplit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Maximum number of two-way splits of one part.
pub(super) const CUTS: usize = 400;

/// Returns the requested splits, or all of them.
pub(super) fn splits(chunks: &[Chunk], length: usize) -> Vec<PartSplit> {
    if !chunks.is_empty() {
        return chunks.iter().copied().map(PartSplit::Chunk).collect();
    }
    let places = length.saturating_sub(1);
    let cuts = places.min(CUTS);
    let mut splits = vec![
        PartSplit::Chunk(Chunk::Whole),
        PartSplit::Chunk(Chunk::Size(NonZeroUsize::MIN)),
    ];
    splits.extend((0..cuts).map(|cut| PartSplit::At(1 + cut * places / cuts)));
    splits
}
