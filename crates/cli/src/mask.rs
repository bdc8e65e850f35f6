//! Masks secrets in excerpts: matches of rules that redact, or all matches with `--redact`.

use std::ops::Range;

use ttsr::Rule;

/// Maximum number of bytes of a part that one byte of an excerpt represents: a JSON escape takes up to twelve.
const ESCAPED: u64 = 12;

/// The hidden bytes of one part.
#[derive(Debug, Default)]
pub(crate) struct HiddenRanges {
    /// Sorted and disjoint.
    ranges: Vec<Range<u64>>,
    /// The texts of the ranges, where they are known.
    texts: Vec<String>,
}

/// An excerpt, and the range of the match in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MaskedExcerpt {
    pub(crate) text: String,
    pub(crate) matched: Range<usize>,
}

impl HiddenRanges {
    pub(crate) fn new(
        ranges: impl Iterator<Item = Range<u64>>,
        texts: impl Iterator<Item = String>,
    ) -> HiddenRanges {
        let mut ranges: Vec<Range<u64>> = ranges.collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, last| {
            let meets = next.start <= last.end;
            if meets {
                last.end = last.end.max(next.end);
            }
            meets
        });
        let texts = texts.filter(|text| text.len() >= 4);
        HiddenRanges {
            ranges,
            texts: texts.collect(),
        }
    }

    /// Returns true if any of these bytes is hidden.
    pub(crate) fn hides(&self, range: Range<u64>) -> bool {
        let next = self
            .ranges
            .partition_point(|hidden| hidden.end <= range.start);
        let next = self.ranges.get(next);
        next.is_some_and(|hidden| hidden.start < range.end)
    }

    /// Returns the excerpt of a match at `place` with hidden text masked. A hidden match is replaced by the replacement of
    /// its rule. Context is dropped if it may contain hidden text.
    pub(crate) fn apply(
        &self,
        excerpt: MaskedExcerpt,
        place: Range<u64>,
        rule: &Rule,
    ) -> MaskedExcerpt {
        if self.ranges.is_empty() {
            return excerpt;
        }
        let MaskedExcerpt { text, matched } = excerpt;
        let (before, rest) = text.split_at(matched.start);
        let (shown, after) = rest.split_at(matched.len());
        let reach = |text: &str| text.len() as u64 * ESCAPED;
        // The excerpt of a match longer than 120 bytes is cut at the front, so the context before it belongs to the match.
        let is_cut = shown.len() > 110;
        let holds_text = |text: &str| {
            self.texts
                .iter()
                .any(|hidden| text.contains(hidden.as_str()))
        };
        let is_hidden = self.hides(place.clone());
        let from = place.start.saturating_sub(reach(before));
        let to = if is_cut { place.end } else { place.start };
        let hides_before = self.hides(from..to) || holds_text(before);
        let hides_after = self.hides(place.end..place.end + reach(after)) || holds_text(after);
        let before = if hides_before { "" } else { before };
        let after = if hides_after { "" } else { after };
        let replacement = rule.replacement.as_deref().unwrap_or("[redacted]");
        let shown = if is_hidden { replacement } else { shown };
        MaskedExcerpt {
            matched: before.len()..before.len() + shown.len(),
            text: [before, shown, after].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, matched: &str) -> MaskedExcerpt {
        let start = text.find(matched).unwrap();
        MaskedExcerpt {
            text: text.to_owned(),
            matched: start..start + matched.len(),
        }
    }

    fn shown(hidden: &[Range<u64>], text: &str, matched: &str) -> String {
        let mask = HiddenRanges::new(hidden.iter().cloned(), std::iter::empty());
        let start = text.find(matched).unwrap() as u64;
        let place = start..start + matched.len() as u64;
        mask.apply(excerpt(text, matched), place, &Rule::new("t/r", Vec::new()))
            .text
    }

    #[test]
    fn hidden_text_is_in_no_excerpt() {
        let text = "key=sekret and TODO then other=hidden";
        let secrets = [4..10, 31..37];
        for matched in ["sekret", "hidden", "TODO", "key=", "sekret and"] {
            let shown = shown(&secrets, text, matched);
            assert!(
                !shown.contains("sekret") && !shown.contains("hidden"),
                "{matched}: {shown}"
            );
        }
        assert_eq!(
            shown(&secrets[..1], text, "sekret"),
            "key=[redacted] and TODO then other=hidden"
        );
        assert_eq!(shown(&[], text, "sekret"), text);
    }

    #[test]
    fn a_secret_longer_than_its_excerpt_leaves_nothing_of_itself() {
        let secret = "s".repeat(400);
        let mask = HiddenRanges::new(std::iter::once(10..410), std::iter::empty());
        let text = format!("{} after", &secret[..160]);
        let cut = MaskedExcerpt {
            text,
            matched: 40..160,
        };
        let shown = mask.apply(cut, 10..410, &Rule::new("t/r", Vec::new()));
        assert_eq!(shown.text, "[redacted] after");
        assert_eq!(&shown.text[shown.matched], "[redacted]");
    }

    #[test]
    fn hidden_ranges_that_meet_are_one() {
        let mask = HiddenRanges::new([5..9, 1..3, 3..4, 8..12].into_iter(), std::iter::empty());
        assert_eq!(mask.ranges, [1..4, 5..12]);
        assert!(mask.hides(0..2) && mask.hides(11..20) && mask.hides(2..3));
        assert!(!mask.hides(4..5) && !mask.hides(12..13) && !mask.hides(0..1));
    }
}
