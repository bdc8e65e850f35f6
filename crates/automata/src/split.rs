//! Decides where a pattern is cut: before its first wide gap.
//!
//! `A.*B` in a set of thousands of patterns multiplies the states: for every other pattern there is a state with
//! the gap open and one without. So the search only looks for `A`. The rest is a *suffix*, an automaton of its own
//! that is stepped after a match of `A`, while it is live. This module does not know how suffixes are stepped.

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// The selectivity of a prefix, in hundredths of a bit: the negative binary logarithm of how often text matches it.
pub(crate) type Selectivity = u32;

/// The selectivity of one character.
pub(crate) const CHAR_SELECTIVITY: Selectivity = 500;

/// The definition of a wide gap, and the least selectivity of the prefix before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GapCriteria {
    /// The least number of printable ASCII characters in the class of the gap.
    pub(crate) min_characters: usize,
    /// The least number of optional repeats.
    pub(crate) min_repeats: u32,
    /// The least selectivity before the gap: a suffix that any text activates only costs an additional step.
    pub(crate) min_selectivity: Selectivity,
}

impl GapCriteria {
    /// Four bits, less than one letter. With eight bits, the prefixes that multiply most (`; `) were not cut, and
    /// uap-core visited 200,865 states instead of 17,057.
    pub(crate) const USUAL: GapCriteria = GapCriteria {
        min_characters: 40,
        min_repeats: 8,
        min_selectivity: 400,
    };

    /// Returns true if this element is a gap to cut before.
    pub(crate) fn is_gap(&self, hir: &Hir, before: Selectivity) -> bool {
        let HirKind::Repetition(repetition) = without_captures(hir).kind() else {
            return false;
        };
        before >= self.min_selectivity
            && repeats(repetition) >= self.min_repeats
            && class(&repetition.sub).is_some_and(|class| characters(class) >= self.min_characters)
    }

    /// Returns true if the element contains a gap to cut before. Gaps in counted repeats do not count: there would be
    /// a cut for each copy.
    pub(crate) fn contains_gap(&self, hir: &Hir, before: Selectivity) -> bool {
        if self.is_gap(hir, before) {
            return true;
        }
        match hir.kind() {
            HirKind::Capture(capture) => self.contains_gap(&capture.sub, before),
            HirKind::Repetition(repetition) => {
                is_single(repetition) && self.contains_gap(&repetition.sub, before)
            }
            HirKind::Alternation(subs) => subs.iter().any(|sub| self.contains_gap(sub, before)),
            HirKind::Concat(subs) => {
                let mut before = before;
                subs.iter().any(|sub| {
                    let is_inside = self.contains_gap(sub, before);
                    before += selectivity(sub);
                    is_inside
                })
            }
            _ => false,
        }
    }
}

/// Returns true if the repetition is compiled once, not unrolled.
pub(crate) fn is_single(repetition: &Repetition) -> bool {
    match repetition.max {
        None => repetition.min <= 1,
        Some(max) => max <= 1,
    }
}

/// Returns the selectivity of the least selective alternative.
pub(crate) fn selectivity(hir: &Hir) -> Selectivity {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(Look::Start) => 0,
        // An assertion excludes some positions, but fewer than any character does.
        HirKind::Look(_) => 50,
        HirKind::Literal(literal) => CHAR_SELECTIVITY * literal.0.len().min(64) as u32,
        HirKind::Class(class) => of_class(class),
        HirKind::Capture(capture) => selectivity(&capture.sub),
        // Optional copies exclude nothing. The product fits: the result of each level is bounded below.
        HirKind::Repetition(repetition) => repetition.min.min(64) * selectivity(&repetition.sub),
        HirKind::Concat(subs) => subs
            .iter()
            .map(selectivity)
            .fold(0, Selectivity::saturating_add),
        HirKind::Alternation(subs) => subs.iter().map(selectivity).min().unwrap_or(0),
    }
    .min(1 << 20)
}

fn of_class(class: &Class) -> Selectivity {
    // Of the 95 printable ASCII characters. Classes with one of them or none get the selectivity of one literal
    // character by the clamp.
    let share = 95.0 / (characters(class) as f32).max(1.5);
    (share.log2() * 100.0).clamp(0.0, CHAR_SELECTIVITY as f32) as Selectivity
}

fn repeats(repetition: &Repetition) -> u32 {
    // The parser refuses a maximum below the minimum.
    repetition.max.unwrap_or(u32::MAX) - repetition.min
}

fn without_captures(hir: &Hir) -> &Hir {
    match hir.kind() {
        HirKind::Capture(capture) => without_captures(&capture.sub),
        _ => hir,
    }
}

fn class(hir: &Hir) -> Option<&Class> {
    match without_captures(hir).kind() {
        HirKind::Class(class) => Some(class),
        _ => None,
    }
}

/// Returns the number of printable ASCII characters in the class.
fn characters(class: &Class) -> usize {
    // Ranges are sorted and disjoint.
    let count = |start: u32, end: u32| (end.min(126) + 1).saturating_sub(start.max(32)) as usize;
    match class {
        Class::Unicode(class) => {
            let ranges = class.ranges().iter();
            let ascii = ranges.take_while(|range| range.start().is_ascii());
            ascii
                .map(|range| count(range.start().into(), range.end().into()))
                .sum()
        }
        Class::Bytes(class) => {
            let ranges = class.ranges().iter();
            ranges
                .map(|range| count(range.start().into(), range.end().into()))
                .sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Hir {
        regex_syntax::parse(text).unwrap()
    }

    #[test]
    fn a_gap_is_wide_long_and_stands_behind_something() {
        let is_gap = |text| GapCriteria::USUAL.is_gap(&parse(text), 400);
        for gap in [".*", "(.)*?", "[^;]{1,200}", "(?s:.)+", r"[^\n]{3,}"] {
            assert!(is_gap(gap), "{gap}");
        }
        for other in [r"\d*", ".", ".{3}", ".{0,7}", "(?:ab)*", "[a-z]*"] {
            assert!(!is_gap(other), "{other}");
        }
        assert!(!GapCriteria::USUAL.is_gap(&parse(".*"), 399));
    }

    #[test]
    fn gaps_inside_alternations_and_loops_count_and_those_in_copies_do_not() {
        let is_inside = |text| GapCriteria::USUAL.contains_gap(&parse(text), 0);
        assert!(is_inside("(?:a.*b|c)d"));
        assert!(is_inside("(?:a.*b)+"));
        assert!(!is_inside("(?:a.*b){2,9}"));
        assert!(!is_inside("(?:.*b|c)d"), "nothing stands before it");
    }

    #[test]
    fn the_evidence_of_a_class_is_how_seldom_printable_text_is_in_it() {
        // A hundred times the binary logarithm of 95 divided by the number of characters.
        for (class, want) in [
            ("[a-d]", 456),
            ("[a-dé-ü]", 456),
            ("(?-u:[a-d\\xFF])", 456),
            ("(?-u:[ -~])", 0),
            ("[\\x00- ~-\u{100}]", CHAR_SELECTIVITY),
            ("(?-u:[\\x00- ~-\\xFF])", CHAR_SELECTIVITY),
            ("[é-ü]", CHAR_SELECTIVITY),
            (".", 0),
        ] {
            let parser = regex_syntax::ParserBuilder::new()
                .utf8(false)
                .build()
                .parse(class);
            assert_eq!(selectivity(&parser.unwrap()), want, "{class}");
        }
    }

    #[test]
    fn evidence_is_that_of_the_least_telling_way() {
        assert_eq!(selectivity(&parse("abc")), 1500);
        assert_eq!(selectivity(&parse("(?:abc|d)")), 500);
        assert_eq!(selectivity(&parse("^")), 0);
        assert!(selectivity(&parse(r"\d")) > selectivity(&parse(r"[a-z]")));
        assert_eq!(selectivity(&parse("a{0,9}")), 0);
    }
}
