//! The splits of a part into deltas.

use std::fmt::{self, Display};
use std::num::NonZeroUsize;

use serde::{Serialize, Serializer};

use crate::chunk::ChunkSize;

/// One way to split a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartSplit {
    ChunkSize(ChunkSize),
    /// In two, after this many bytes.
    At(usize),
}

impl Display for PartSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartSplit::ChunkSize(ChunkSize::Original) => f.write_str("original"),
            PartSplit::ChunkSize(ChunkSize::Whole) => f.write_str("whole"),
            PartSplit::ChunkSize(ChunkSize::Size(size)) if size.get() == 1 => f.write_str("bytes"),
            PartSplit::ChunkSize(ChunkSize::Size(size)) => write!(f, "{size}"),
            PartSplit::ChunkSize(ChunkSize::Random(seed)) => write!(f, "random:{seed}"),
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
pub(super) fn splits(chunks: &[ChunkSize], length: usize) -> Vec<PartSplit> {
    if !chunks.is_empty() {
        return chunks.iter().copied().map(PartSplit::ChunkSize).collect();
    }
    let places = length.saturating_sub(1);
    let cuts = places.min(CUTS);
    let mut splits = vec![
        PartSplit::ChunkSize(ChunkSize::Whole),
        PartSplit::ChunkSize(ChunkSize::Size(NonZeroUsize::MIN)),
    ];
    splits.extend((0..cuts).map(|cut| PartSplit::At(1 + cut * places / cuts)));
    splits
}
