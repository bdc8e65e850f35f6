//! Keeps secrets out of excerpts: matches of rules that redact, and with `--redact` all matches.

use std::ops::Range;

use ttsr::Rule;

/// Bytes of a part that one byte of an excerpt may stand for: an escape in JSON takes up to twelve.
const ESCAPED: u64 = 12;

/// The bytes of one part that may not be shown.
#[derive(Debug, Default)]
pub(crate) struct Mask {
    /// Sorted, apart from each other.
    ranges: Vec<Range<u64>>,
    /// The same as text, as far as it is known.
    texts: Vec<String>,
}

/// An excerpt, and where the match is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(crate) text: String,
    pub(crate) matched: Range<usize>,
}

impl Mask {
    pub(crate) fn new(
        ranges: impl Iterator<Item = Range<u64>>,
        texts: impl Iterator<Item = String>,
    ) -> Mask {
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
        Mask {
            ranges,
            texts: texts.collect(),
        }
    }

    /// Whether any of these bytes may not be shown.
    pub(crate) fn hides(&self, range: Range<u64>) -> bool {
        let next = self
            .ranges
            .partition_point(|hidden| hidden.end <= range.start);
        let next = self.ranges.get(next);
        next.is_some_and(|hidden| hidden.start < range.end)
    }

    /// The excerpt of a match at `place` as it may be shown. A match that is hidden gives way to what its rule puts
    /// in its place; text around it is left out where it may hold something hidden.
    pub(crate) fn apply(&self, excerpt: Excerpt, place: Range<u64>, rule: &Rule) -> Excerpt {
        if self.ranges.is_empty() {
            return excerpt;
        }
        let Excerpt { text, matched } = excerpt;
        let (before, rest) = text.split_at(matched.start);
        let (shown, after) = rest.split_at(matched.len());
        let reach = |text: &str| text.len() as u64 * ESCAPED;
        // Of a match that is longer than 120 bytes the excerpt shows the end, and before it more of the match.
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
        Excerpt {
            matched: before.len()..before.len() + shown.len(),
            text: [before, shown, after].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, matched: &str) -> Excerpt {
        let start = text.find(matched).unwrap();
        Excerpt {
            text: text.to_owned(),
            matched: start..start + matched.len(),
        }
    }

    fn shown(hidden: &[Range<u64>], text: &str, matched: &str) -> String {
        let mask = Mask::new(hidden.iter().cloned(), std::iter::empty());
        let start = text.find(matched).unwrap() as u64;
        let place = start..start + matched.len() as u64;
        mask.apply(excerpt(text, matched), place, &Rule::new("t/r", Vec::new()))
            .text
    }

    #[test]
    fn what_is_hidden_is_not_shown_in_any_excerpt() {
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
        let mask = Mask::new(std::iter::once(10..410), std::iter::empty());
        let text = format!("{} after", &secret[..160]);
        let cut = Excerpt {
            text,
            matched: 40..160,
        };
        let shown = mask.apply(cut, 10..410, &Rule::new("t/r", Vec::new()));
        assert_eq!(shown.text, "[redacted] after");
        assert_eq!(&shown.text[shown.matched], "[redacted]");
    }

    #[test]
    fn hidden_ranges_that_meet_are_one() {
        let mask = Mask::new([5..9, 1..3, 3..4, 8..12].into_iter(), std::iter::empty());
        assert_eq!(mask.ranges, [1..4, 5..12]);
        assert!(mask.hides(0..2) && mask.hides(11..20) && mask.hides(2..3));
        assert!(!mask.hides(4..5) && !mask.hides(12..13) && !mask.hides(0..1));
    }
}
