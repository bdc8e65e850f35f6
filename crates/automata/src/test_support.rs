//! Forced layouts, and searches that return what was found: for the tests of this crate and `examples/collide.rs`. With the
//! feature `test-support`, which is not part of the interface of the crate: anything here may change in any version.

use std::collections::BTreeMap;

use regex_syntax::hir::Hir;

use crate::lazy_dfa::speculative::{Tile, TileSize};
use crate::partition::{AutomatonCount, PartitionPlan};
use crate::simd::SimdLevel;
use crate::split::GapCriteria;
use crate::table::FIRST_BUDGET;
use crate::table::sparse::SparseRows;
use crate::{MAX_SHORT_LEN, Matcher, is_short};
#[cfg(test)]
use crate::{PatternLimits, pattern};
#[cfg(test)]
use ttsr_testing::{Random, pattern_text};

/// By pattern: its first end, and the number of bytes after which that was certain.
pub type FirstEnds = BTreeMap<u32, (usize, usize)>;

/// By pattern and end of a match: the number of bytes after which that was certain.
pub type EveryEnd = BTreeMap<(u32, usize), usize>;

#[cfg(test)]
pub(crate) fn parsed(patterns: &[&str]) -> Vec<Hir> {
    let limits = PatternLimits::default();
    let parse = |text: &&str| pattern::parse(text, &limits).expect(text);
    patterns.iter().map(parse).collect()
}

/// Criteria by which every gap is cut, however narrow and wherever it is.
pub(crate) const EVERY_GAP: GapCriteria = GapCriteria {
    min_characters: 0,
    min_repeats: 1,
    min_selectivity: 0,
};

/// The usual layout, and forced ones.
pub(crate) const PLANS: [PartitionPlan; 11] = [
    PartitionPlan::USUAL,
    PartitionPlan {
        level: Some(SimdLevel::Portable),
        ..PartitionPlan::USUAL
    },
    // Sparse rows for all states without a report, and for those after the first few.
    PartitionPlan {
        sparse: SparseRows {
            full_rows: 0,
            entries: 2,
        },
        ..plan(Some(EVERY_GAP), 1, None)
    },
    PartitionPlan {
        sparse: SparseRows {
            full_rows: 12,
            entries: 1,
        },
        level: Some(SimdLevel::Portable),
        ..PartitionPlan::USUAL
    },
    PartitionPlan {
        sparse: SparseRows {
            full_rows: 0,
            ..SparseRows::USUAL
        },
        ..plan(None, 2, None)
    },
    plan(None, 1, None),
    plan(Some(EVERY_GAP), 1, Some(SimdLevel::Portable)),
    plan(Some(EVERY_GAP), 2, None),
    plan(None, 3, Some(SimdLevel::Portable)),
    plan(Some(EVERY_GAP), usize::MAX, None),
    // A first table for a few states, as small as where memory cannot be reserved: the next ones grow from it.
    PartitionPlan {
        first_budget: 2 << 10,
        ..plan(Some(EVERY_GAP), 1, None)
    },
];

pub(crate) const fn plan(
    gaps: Option<GapCriteria>,
    automata: usize,
    level: Option<SimdLevel>,
) -> PartitionPlan {
    PartitionPlan {
        gaps,
        automaton_count: AutomatonCount::RoundRobin(automata),
        level,
        sparse: SparseRows::USUAL,
        first_budget: FIRST_BUDGET,
    }
}

#[cfg(test)]
pub(crate) fn matcher_of(hirs: &[Hir], table_bytes: usize, plan: PartitionPlan) -> Matcher {
    matcher_of_ends(hirs, table_bytes, plan, &[])
}

/// As `matcher_of`; every end of the patterns marked in `every_end` is reported.
pub(crate) fn matcher_of_ends(
    hirs: &[Hir],
    table_bytes: usize,
    plan: PartitionPlan,
    every_end: &[bool],
) -> Matcher {
    Matcher::planned(hirs, table_bytes, every_end, plan, None)
        .expect("few patterns tell few characters apart")
}

/// A layout that a matcher is forced to have.
#[derive(Clone, Copy, Debug)]
pub struct ForcedLayout {
    plan: PartitionPlan,
    /// `None` for the usual tiles.
    tile: Option<Tile>,
    /// The least bytes of a delta that is prefiltered, and the vector instructions; `None` for the usual ones.
    prefiltered: Option<(usize, SimdLevel)>,
}

impl ForcedLayout {
    /// The number of partitions that [`with_plan`](Self::with_plan) forces.
    pub const PLANS: usize = PLANS.len();

    /// The number of tiles that [`with_tile`](Self::with_tile) forces.
    pub const TILES: usize = TILES.len();

    /// Returns the layout with the partition of this number, below [`PLANS`](Self::PLANS).
    ///
    /// # Panics
    /// There is no such partition.
    pub fn with_plan(number: usize) -> ForcedLayout {
        ForcedLayout {
            plan: PLANS[number],
            tile: None,
            prefiltered: None,
        }
    }

    /// Cuts deltas into the tiles of this number, below [`TILES`](Self::TILES).
    ///
    /// # Panics
    /// There are no such tiles.
    #[must_use]
    pub fn with_tile(mut self, number: usize) -> ForcedLayout {
        self.tile = Some(TILES[number]);
        self
    }

    /// Prefilters deltas of at least this many bytes, with the vector instructions of the processor or, if
    /// `is_portable`, without any.
    #[must_use]
    pub fn with_prefilter_from(mut self, bytes: usize, is_portable: bool) -> ForcedLayout {
        let level = match is_portable {
            true => SimdLevel::Portable,
            false => SimdLevel::best(),
        };
        self.prefiltered = Some((bytes, level));
        self
    }

    /// Compiles a matcher of this layout, of which every end of the patterns marked in `every_end` is reported.
    ///
    /// # Panics
    /// The patterns distinguish too many characters.
    pub fn matcher(self, hirs: &[Hir], table_bytes: usize, every_end: &[bool]) -> Matcher {
        let mut matcher = matcher_of_ends(hirs, table_bytes, self.plan, every_end);
        if let Some(tile) = self.tile {
            matcher.set_tile(tile);
        }
        if let Some((min_len, level)) = self.prefiltered {
            matcher.set_prefiltered(min_len, level);
        }
        matcher
    }
}

/// Searches the text cut at `cuts` (offsets in rising order).
pub fn first_ends(matcher: &Matcher, text: &[u8], cuts: &[usize]) -> FirstEnds {
    let mut found = FirstEnds::new();
    run(matcher, text, cuts, |pattern, end, decided| {
        found.entry(pattern).or_insert((end, decided));
    });
    found
}

/// Returns all reported ends, with the number of bytes after which each was certain.
pub fn every_end(matcher: &Matcher, text: &[u8], cuts: &[usize]) -> EveryEnd {
    let mut found = EveryEnd::new();
    run(matcher, text, cuts, |pattern, end, decided| {
        found.entry((pattern, end)).or_insert(decided);
    });
    found
}

/// Calls `note` for each event with its pattern, its end, and the number of bytes after which it was certain.
fn run(matcher: &Matcher, text: &[u8], cuts: &[usize], mut note: impl FnMut(u32, usize, usize)) {
    let mut cursor = matcher.start();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        let delta = &text[from..to];
        // In the order in which streams try the paths.
        let is_done = is_short(delta)
            && (cursor.push_short(delta, &mut [0; MAX_SHORT_LEN], |_| true)
                || matcher
                    .push_short_with_suffixes(&mut cursor, delta)
                    .is_some());
        if !is_done {
            matcher.push(&mut cursor, delta, |event| {
                let decided = from + event.at + 1;
                note(event.pattern.0, decided - event.back, decided);
            });
        }
        from = to;
    }
    matcher.finish(&mut cursor, |event| {
        note(event.pattern.0, text.len() - event.back, text.len());
    });
}

#[cfg(test)]
pub(crate) fn ends(first_ends: &FirstEnds) -> Vec<(u32, usize)> {
    first_ends
        .iter()
        .map(|(&pattern, &(end, _))| (pattern, end))
        .collect()
}

/// Tiles for short texts, the shortest first.
pub(crate) const TILES: [Tile; 7] = [
    Tile {
        size: TileSize::EightBy2,
        early: 1,
        min_len: 16,
    },
    short_tile(TileSize::EightBy2, 1),
    short_tile(TileSize::FourBy3, 1),
    short_tile(TileSize::FourBy3, 2),
    short_tile(TileSize::EightBy5, 4),
    short_tile(TileSize::FourBy10, 1),
    short_tile(TileSize::FourBy10, 8),
];

/// Tiles for deltas of any length.
const fn short_tile(size: TileSize, early: usize) -> Tile {
    Tile {
        size,
        early,
        min_len: 1,
    }
}

#[cfg(test)]
pub(crate) fn random_patterns(random: &mut Random, count: usize) -> (Vec<String>, Vec<Hir>) {
    let limits = PatternLimits::default();
    let (mut patterns, mut hirs) = (Vec::new(), Vec::new());
    while patterns.len() < count {
        let text = pattern_text(random);
        if let Ok(hir) = pattern::parse(&text, &limits) {
            patterns.push(text);
            hirs.push(hir);
        }
    }
    (patterns, hirs)
}
