//! The text around a match, from which its excerpt and its start are taken.

use std::ops::Range;

use crate::stream::state::RecordedMatch;
use crate::stream::window::{WINDOW, Window};
use crate::verdict::Hit;
use ttsr_automata::pike::PikeVm;

/// Most bytes of an excerpt before the match.
const MAX_BEFORE_MATCH: usize = 40;

/// Most bytes of an excerpt up to the end of the match.
pub(super) const MAX_EXCERPT: usize = 160;

/// The end of a match and the bytes around it, up to the byte that decided the match.
pub(in crate::stream::part) struct MatchContext {
    pub(in crate::stream::part) bytes: Vec<u8>,
    /// True if `bytes` begin with the first byte of the haystack.
    pub(in crate::stream::part) begins_haystack: bool,
    /// Index in `bytes` of the end of the match.
    pub(in crate::stream::part) end: usize,
    /// Index in `bytes` of the start of the match, if it is known.
    pub(in crate::stream::part) start: Option<usize>,
}

impl MatchContext {
    /// Returns the context of a match that ends `back` bytes before the end of `more`, which follows `window`.
    pub(super) fn at_end(window: &Window, more: &[u8], back: usize) -> MatchContext {
        let (bytes, begins_haystack) = window.last_with(more);
        let end = bytes.len().saturating_sub(back);
        MatchContext {
            bytes,
            begins_haystack,
            end,
            start: None,
        }
    }

    /// Returns the context of a match that is a whole text outside of the part, such as the name of a tool.
    pub(in crate::stream::part) fn whole(text: &[u8]) -> MatchContext {
        MatchContext {
            bytes: text.to_vec(),
            begins_haystack: true,
            end: text.len(),
            start: Some(0),
        }
    }

    /// Returns the context of the match at `range` of a text that begins a haystack.
    pub(in crate::stream::part) fn in_text(text: &[u8], range: &Range<usize>) -> MatchContext {
        MatchContext::in_stretch(&[], text, range, true)
    }

    /// Returns the context of the match at `range` of `stretch`, which follows `before`.
    pub(in crate::stream::part) fn in_stretch(
        before: &[u8],
        stretch: &[u8],
        range: &Range<usize>,
        begins_haystack: bool,
    ) -> MatchContext {
        MatchContext {
            bytes: [before, stretch].concat(),
            begins_haystack,
            end: before.len() + range.end,
            start: Some(before.len() + range.start),
        }
    }

    /// Returns the leftmost start, inside of the context, of a match that ends at its end.
    pub(in crate::stream::part) fn find_start(&self, vm: &PikeVm) -> Option<usize> {
        // Index 0 of a window that does not begin the haystack must not satisfy `^`.
        vm.leftmost_start(&self.bytes, usize::from(!self.begins_haystack), self.end)
    }

    /// Returns the match with its excerpt. Invalid UTF-8 is replaced by U+FFFD.
    pub(in crate::stream::part) fn record(&self, hit: Hit, start: Option<usize>) -> RecordedMatch {
        let lossy = |range: Range<usize>| String::from_utf8_lossy(&self.bytes[range]).into_owned();
        let start = start
            .unwrap_or(self.end)
            .max(self.end.saturating_sub(MAX_EXCERPT - MAX_BEFORE_MATCH));
        let start = floor_char_boundary(&self.bytes, start);
        let before = floor_char_boundary(&self.bytes, start.saturating_sub(MAX_BEFORE_MATCH));
        let before = lossy(before..start);
        let matched = lossy(start..self.end);
        // Text after the match is present up to the deciding byte only, but the deciding byte may be far away.
        let after = self.bytes.len().min(self.end + WINDOW - MAX_EXCERPT);
        let text = before.clone() + &matched + &lossy(self.end..after);
        let matched = before.len()..before.len() + matched.len();
        RecordedMatch {
            hit,
            start: None,
            file: None,
            text: text.into_boxed_str(),
            matched,
        }
    }
}

/// Returns the index of the first byte of the character that contains `at`, where the bytes are valid UTF-8.
fn floor_char_boundary(bytes: &[u8], at: usize) -> usize {
    let is_continuation = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&at| !is_continuation(at))
        .unwrap_or(at)
}
