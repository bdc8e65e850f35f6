//! The splits of a part into deltas.

use std::fmt::{self, Display};
use std::num::NonZeroUsize;

use serde::{Serialize, Serializer};

use crate::chunk::Chunking;

/// One way to split a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartSplit {
    /// As `--chunk` asks.
    Chunked(Chunking),
    /// In two, after this many bytes.
    At(usize),
}

impl Display for PartSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartSplit::Chunked(Chunking::Original) => f.write_str("original"),
            PartSplit::Chunked(Chunking::Whole) => f.write_str("whole"),
            PartSplit::Chunked(Chunking::Size(size)) if size.get() == 1 => f.write_str("bytes"),
            PartSplit::Chunked(Chunking::Size(size)) => write!(f, "{size}"),
            PartSplit::Chunked(Chunking::Random(seed)) => write!(f, "random:{seed}"),
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
pub(super) fn splits(chunkings: &[Chunking], length: usize) -> Vec<PartSplit> {
    if !chunkings.is_empty() {
        return chunkings.iter().copied().map(PartSplit::Chunked).collect();
    }
    let places = length.saturating_sub(1);
    let cuts = places.min(CUTS);
    let mut splits = vec![
        PartSplit::Chunked(Chunking::Whole),
        PartSplit::Chunked(Chunking::Size(NonZeroUsize::MIN)),
    ];
    splits.extend((0..cuts).map(|cut| PartSplit::At(1 + cut * places / cuts)));
    splits
}
