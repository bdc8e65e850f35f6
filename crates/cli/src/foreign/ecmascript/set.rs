//! Sets of code units or code points, and which of them a pattern that ignores case takes for the same.

use std::collections::HashMap;
use std::sync::OnceLock;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// The first halves of surrogate pairs.
pub(super) const HIGH: (u32, u32) = (0xD800, 0xDBFF);
/// The second halves.
pub(super) const LOW: (u32, u32) = (0xDC00, 0xDFFF);
/// The code points beyond the first plane, which are a pair of surrogates each.
pub(super) const BEYOND: (u32, u32) = (0x1_0000, MAX_POINT);
/// The largest code unit.
pub(super) const MAX_UNIT: u32 = 0xFFFF;
/// The largest code point.
pub(super) const MAX_POINT: u32 = 0x10_FFFF;

/// A set of numbers, as ranges in ascending order with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Set(Vec<(u32, u32)>);

impl Set {
    pub(super) fn of(ranges: impl IntoIterator<Item = (u32, u32)>) -> Set {
        let mut all: Vec<(u32, u32)> = ranges.into_iter().collect();
        all.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (start, end) in all {
            match merged.last_mut() {
                Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Set(merged)
    }

    pub(super) fn one(number: u32) -> Set {
        Set(vec![(number, number)])
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

    pub(super) fn union(&self, other: &Set) -> Set {
        Set::of(self.0.iter().chain(&other.0).copied())
    }

    /// What is in `0..=max` and not in the set.
    pub(super) fn complement(&self, max: u32) -> Set {
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
        Set(gaps)
    }

    pub(super) fn intersect(&self, other: &Set) -> Set {
        let pairs = self
            .0
            .iter()
            .flat_map(|a| other.0.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))));
        Set::of(pairs.filter(|(start, end)| start <= end))
    }

    pub(super) fn minus(&self, other: &Set) -> Set {
        self.intersect(&other.complement(MAX_POINT))
    }

    pub(super) fn is_subset(&self, other: &Set) -> bool {
        self.minus(other).is_empty()
    }

    /// The only number in it, if there is one.
    pub(super) fn single(&self) -> Option<u32> {
        match self.0[..] {
            [(start, end)] if start == end => Some(start),
            _ => None,
        }
    }

    pub(super) fn surrogates() -> Set {
        Set(vec![(HIGH.0, LOW.1)])
    }

    /// The code points whose surrogate pairs have a half of `high` and one of `low`.
    pub(super) fn pairs(high: &Set, low: &Set) -> Set {
        let mut ranges = Vec::new();
        for &(high_start, high_end) in &high.intersect(&Set(vec![HIGH])).0 {
            for &(low_start, low_end) in &low.intersect(&Set(vec![LOW])).0 {
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
        Set::of(ranges)
    }

    /// The set with everything that has the same canonical form as a member, for patterns by code unit: two
    /// units are the same if their upper case is, where that is one unit and does not lead from beyond ASCII
    /// into it.
    pub(super) fn close_units(&self) -> Set {
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
        Set::of(ranges)
    }

    /// The same for patterns by code point: two are the same if their simple case folding is.
    pub(super) fn close_points(&self) -> Set {
        let mut class = self.class();
        class.case_fold_simple();
        Set::from_class(&class)
    }

    /// The characters in it.
    pub(super) fn class(&self) -> ClassUnicode {
        let scalars = self.minus(&Set::surrogates());
        let bound = |number| char::from_u32(number).expect("surrogates are left out");
        ClassUnicode::new(
            scalars
                .0
                .iter()
                .map(|&(start, end)| ClassUnicodeRange::new(bound(start), bound(end))),
        )
    }

    pub(super) fn from_class(class: &ClassUnicode) -> Set {
        Set::of(
            class
                .iter()
                .map(|range| (u32::from(range.start()), u32::from(range.end()))),
        )
    }
}

/// The canonical form of a code unit.
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

pub(super) fn digits() -> Set {
    Set::of([(0x30, 0x39)])
}

pub(super) fn words() -> Set {
    Set::of([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
}

pub(super) fn line_ends() -> Set {
    Set::of([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
}

pub(super) fn spaces() -> Set {
    Set::of([
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
