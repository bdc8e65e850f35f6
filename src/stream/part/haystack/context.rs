//! The text around a match, from which its excerpt and its start are taken.

use std::ops::Range;

use crate::stream::window::{WINDOW, Window};
use ttsr_automata::pike::PikeVm;

/// Most bytes of an excerpt before the match.
const MAX_BEFORE_MATCH: usize = 40;

/// Most bytes of an excerpt up to the end of the match.
pub(super) const MAX_EXCERPT: usize = 160;

/// Most bytes of a character.
const MAX_CHAR: usize = 4;

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

    /// Returns the context of the match at `range` of `stretch`, which follows `before`. Of a long stretch, it has the bytes
    /// of the excerpt.
    pub(in crate::stream::part) fn in_stretch(
        before: &[u8],
        stretch: &[u8],
        range: &Range<usize>,
        begins_haystack: bool,
    ) -> MatchContext {
        // PERF: only what `record` needs is copied. A stretch may have a match at every byte.
        let from = range.end.saturating_sub(MAX_EXCERPT + 2 * MAX_CHAR);
        let to = stretch.len().min(range.end + WINDOW - MAX_EXCERPT);
        let before = if from == 0 { before } else { &[] };
        let index = |in_stretch: usize| before.len() + in_stretch.saturating_sub(from);
        MatchContext {
            bytes: [before, &stretch[from..to]].concat(),
            begins_haystack: begins_haystack && from == 0,
            end: index(range.end),
            start: Some(index(range.start)),
        }
    }

    /// Returns the leftmost start, inside of the context, of a match that ends at its end.
    pub(in crate::stream::part) fn find_start(&self, vm: &PikeVm) -> Option<usize> {
        // Index 0 of a window that does not begin the haystack must not satisfy `^`.
        vm.leftmost_start(&self.bytes, usize::from(!self.begins_haystack), self.end)
    }

    /// Returns the excerpt of the match, and the range of the match in it. Invalid UTF-8 is replaced by U+FFFD.
    pub(in crate::stream::part) fn excerpt(
        &self,
        start: Option<usize>,
    ) -> (Box<str>, Range<usize>) {
        let start = start
            .unwrap_or(self.end)
            .max(self.end.saturating_sub(MAX_EXCERPT - MAX_BEFORE_MATCH));
        let start = floor_char_boundary(&self.bytes, start);
        let before = floor_char_boundary(&self.bytes, start.saturating_sub(MAX_BEFORE_MATCH));
        // Text after the match is present up to the deciding byte only, but the deciding byte may be far away.
        let after = self.bytes.len().min(self.end + WINDOW - MAX_EXCERPT);
        let mut text = String::with_capacity(after - before);
        // Each by itself, so that an invalid byte at a boundary does not take bytes of the next one.
        let mut push_lossy = |range: Range<usize>| {
            let bytes = &self.bytes[range];
            // PERF: tests valid text in words; `from_utf8_lossy` tests each byte.
            match std::str::from_utf8(bytes) {
                Ok(valid) => text.push_str(valid),
                Err(_) => text.push_str(&String::from_utf8_lossy(bytes)),
            }
            text.len()
        };
        let match_start = push_lossy(before..start);
        let match_end = push_lossy(start..self.end);
        push_lossy(self.end..after);
        (text.into_boxed_str(), match_start..match_end)
    }
}

/// Returns the index of the first byte of the character that contains `at`, where the bytes are valid UTF-8.
pub(in crate::stream::part) fn floor_char_boundary(bytes: &[u8], at: usize) -> usize {
    let is_continuation = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&at| !is_continuation(at))
        .unwrap_or(at)
}
