//! Sets of code units or code points, and their closure under case equivalence.

use std::collections::HashMap;
use std::sync::OnceLock;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// The high surrogates.
pub(super) const HIGH: (u32, u32) = (0xD800, 0xDBFF);
/// The low surrogates.
pub(super) const LOW: (u32, u32) = (0xDC00, 0xDFFF);
/// The code points above U+FFFF, which UTF-16 encodes as surrogate pairs.
pub(super) const BEYOND: (u32, u32) = (0x1_0000, MAX_POINT);
/// The largest code unit.
pub(super) const MAX_UNIT: u32 = 0xFFFF;
/// The largest code point.
pub(super) const MAX_POINT: u32 = 0x10_FFFF;

/// A set of integers as sorted, disjoint, nonadjacent ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CharSet(Vec<(u32, u32)>);

impl CharSet {
    pub(super) fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> CharSet {
        let mut all: Vec<(u32, u32)> = ranges.into_iter().collect();
        all.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (start, end) in all {
            match merged.last_mut() {
                Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        CharSet(merged)
    }

    pub(super) fn from_point(number: u32) -> CharSet {
        CharSet(vec![(number, number)])
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.0
            .iter()
            .any(|&(start, end)| (start..=end).contains(&number))
    }

    pub(super) fn union(&self, other: &CharSet) -> CharSet {
        CharSet::from_ranges(self.0.iter().chain(&other.0).copied())
    }

    /// Returns the complement within `0..=max`.
    pub(super) fn complement(&self, max: u32) -> CharSet {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for &(start, end) in &self.0 {
            if start > next {
                gaps.push((next, start - 1));
            }
            next = end + 1;
        }
        if next <= max {
            gaps.push((next, max));
        }
        CharSet(gaps)
    }

    pub(super) fn intersect(&self, other: &CharSet) -> CharSet {
        let pairs = self
            .0
            .iter()
            .flat_map(|a| other.0.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))));
        CharSet::from_ranges(pairs.filter(|(start, end)| start <= end))
    }

    pub(super) fn minus(&self, other: &CharSet) -> CharSet {
        self.intersect(&other.complement(MAX_POINT))
    }

    pub(super) fn is_subset(&self, other: &CharSet) -> bool {
        self.minus(other).is_empty()
    }

    /// Returns the only member of the set, if it has exactly one.
    pub(super) fn single(&self) -> Option<u32> {
        match self.0[..] {
            [(start, end)] if start == end => Some(start),
            _ => None,
        }
    }

    pub(super) fn surrogates() -> CharSet {
        CharSet(vec![(HIGH.0, LOW.1)])
    }

    /// Returns the code points whose surrogate pairs combine a member of `high` with a member of `low`.
    pub(super) fn pairs(high: &CharSet, low: &CharSet) -> CharSet {
        let mut ranges = Vec::new();
        for &(high_start, high_end) in &high.intersect(&CharSet(vec![HIGH])).0 {
            for &(low_start, low_end) in &low.intersect(&CharSet(vec![LOW])).0 {
                let point =
                    |high: u32, low: u32| 0x1_0000 + ((high - HIGH.0) << 10) + (low - LOW.0);
                match (low_start, low_end) == LOW {
                    true => ranges.push((point(high_start, low_start), point(high_end, low_end))),
                    false => ranges.extend(
                        (high_start..=high_end)
                            .map(|high| (point(high, low_start), point(high, low_end))),
                    ),
                }
            }
        }
        CharSet::from_ranges(ranges)
    }

    /// Returns the closure of the set for patterns by code unit. Two units are equivalent if their canonical forms are equal:
    /// the upper case, if it is one code unit and does not map from outside ASCII into ASCII.
    pub(super) fn close_units(&self) -> CharSet {
        static VARIANTS: OnceLock<HashMap<u32, Vec<u32>>> = OnceLock::new();
        let variants = VARIANTS.get_or_init(|| {
            let mut by_upper: HashMap<u32, Vec<u32>> = HashMap::new();
            for unit in 0..=MAX_UNIT {
                by_upper.entry(upper(unit)).or_default().push(unit);
            }
            by_upper.retain(|_, units| units.len() > 1);
            by_upper
        });
        let mut ranges = self.0.clone();
        for &(start, end) in &self.0 {
            for unit in start..=end.min(MAX_UNIT) {
                if let Some(same) = variants.get(&upper(unit)) {
                    ranges.extend(same.iter().map(|&same| (same, same)));
                }
            }
        }
        CharSet::from_ranges(ranges)
    }

    /// Returns the closure of the set for patterns by code point, under simple case folding.
    pub(super) fn close_points(&self) -> CharSet {
        let mut class = self.class();
        class.case_fold_simple();
        CharSet::from_class(&class)
    }

    /// Returns the characters in the set.
    pub(super) fn class(&self) -> ClassUnicode {
        let scalars = self.minus(&CharSet::surrogates());
        let bound = |number| char::from_u32(number).expect("surrogates are left out");
        ClassUnicode::new(
            scalars
                .0
                .iter()
                .map(|&(start, end)| ClassUnicodeRange::new(bound(start), bound(end))),
        )
    }

    pub(super) fn from_class(class: &ClassUnicode) -> CharSet {
        CharSet::from_ranges(
            class
                .iter()
                .map(|range| (u32::from(range.start()), u32::from(range.end()))),
        )
    }
}

/// Returns the canonical form of a code unit.
fn upper(unit: u32) -> u32 {
    let Some(c) = char::from_u32(unit) else {
        return unit;
    };
    let mut upper = c.to_uppercase();
    match (upper.next().map(u32::from), upper.next()) {
        (Some(upper), None) if upper <= MAX_UNIT && !(unit >= 0x80 && upper < 0x80) => upper,
        _ => unit,
    }
}

pub(super) fn digits() -> CharSet {
    CharSet::from_ranges([(0x30, 0x39)])
}

pub(super) fn words() -> CharSet {
    CharSet::from_ranges([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
}

pub(super) fn line_ends() -> CharSet {
    CharSet::from_ranges([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
}

pub(super) fn spaces() -> CharSet {
    CharSet::from_ranges([
        (0x09, 0x0D),
        (0x20, 0x20),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    ])
}
