//! Replaces redacted ranges of a text that is released piece by piece.
//!
//! Tool input stays JSON. A range inside a string is replaced inside that string. A number, `true`, `false` or `null`
//! that a range touches is replaced whole, by a string: part of a number is no value, and neither is text without
//! quotes. Characters are replaced whole. Overlapping ranges are merged and get the replacement of the first.

use super::scalars::ScalarTracker;

/// A range of a part, in bytes as delivered, and its replacement.
#[derive(Clone, Copy, Debug)]
pub(super) struct RedactionEdit<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) with: &'a str,
}

/// One piece of a text, to be copied without its redacted ranges.
///
/// Invariants: pieces are passed in order and without gaps; no scalar without quotes is split between two pieces; all
/// ranges that begin in the piece are known.
pub(super) struct RedactedPiece<'a> {
    pub(super) bytes: &'a [u8],
    /// Offset of the first byte of the piece in the part.
    pub(super) base: u64,
    /// The scalars of the part, if the part is tool input.
    pub(super) scalars: Option<&'a ScalarTracker>,
}

impl RedactedPiece<'_> {
    /// Appends the piece to `out`, with `replacements`, sorted by their start, applied.
    ///
    /// `skip_to` is the end of the range that was replaced last, which may lie in a later piece. Returns the start of the
    /// first range that the next piece must be given too, because the scalar that it reaches is not in this one.
    pub(super) fn copy_redacted<'r>(
        &self,
        replacements: impl Iterator<Item = RedactionEdit<'r>>,
        skip_to: &mut u64,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let end = self.base + self.bytes.len() as u64;
        let mut deferred = None;
        let mut next = self.base;
        // True while a range has begun and its end has not been reached.
        let mut is_open = *skip_to > self.base;
        for found in replacements.take_while(|found| found.start < end) {
            let (start, is_bare) = self.widened_start(found.start);
            // The range lies between two scalars, in structure that must stay for the input to be JSON.
            if start >= found.end {
                continue;
            }
            // The scalar that the range reaches begins in a later piece.
            if start >= end {
                deferred = deferred.or(Some(found.start));
                continue;
            }
            // Ranges that overlap are one; a range that begins where another ends is separate.
            if is_open && start >= *skip_to {
                next = self.end_range(skip_to, out);
                is_open = false;
            }
            if is_open {
                *skip_to = found.end.max(*skip_to);
                continue;
            }
            // The last range was widened to a whole scalar, and this one lies in the same scalar.
            if start < next {
                continue;
            }
            out.extend_from_slice(self.slice(next, start));
            out.extend(is_bare.then_some(b'"'));
            match self.scalars {
                Some(_) => push_json_escaped(found.with, out),
                None => out.extend_from_slice(found.with.as_bytes()),
            }
            *skip_to = found.end;
            is_open = true;
        }
        // A range that ends in a later piece stays open: `skip_to` carries its end to that piece.
        if is_open && *skip_to <= end {
            next = self.end_range(skip_to, out);
        } else if is_open {
            next = end;
        }
        out.extend_from_slice(self.slice(next, end));
        deferred
    }

    fn slice(&self, start: u64, end: u64) -> &[u8] {
        let limit = self.base + self.bytes.len() as u64;
        let start = start.clamp(self.base, limit);
        let end = end.clamp(start, limit);
        &self.bytes[(start - self.base) as usize..(end - self.base) as usize]
    }

    /// Returns the start of the replaced range, moved to the start of a character or of a scalar without quotes, and
    /// true if it is the latter. Bytes between scalars are not replaced.
    fn widened_start(&self, start: u64) -> (u64, bool) {
        let Some(scalars) = self.scalars else {
            return (start, false);
        };
        match scalars.first_ending_after(start) {
            Some(known) if known.is_bare || known.start > start => (known.start, known.is_bare),
            _ => {
                let inside = usize::try_from(start.saturating_sub(self.base)).unwrap_or(usize::MAX);
                let floor = self.base + floor_char(self.bytes, inside.min(self.bytes.len())) as u64;
                (start.min(floor), false)
            }
        }
    }

    /// Ends the replaced range after a whole character or scalar, and returns the offset at which the text continues.
    fn end_range(&self, skip_to: &mut u64, out: &mut Vec<u8>) -> u64 {
        let (end, is_bare) = self.widened_end(*skip_to);
        out.extend(is_bare.then_some(b'"'));
        *skip_to = end;
        end
    }

    fn widened_end(&self, end: u64) -> (u64, bool) {
        let Some(scalars) = self.scalars else {
            return (end, false);
        };
        match scalars.last_starting_before(end) {
            Some(known) if known.is_bare || known.end < end => (known.end, known.is_bare),
            _ => {
                let inside = usize::try_from(end.saturating_sub(self.base)).unwrap_or(usize::MAX);
                let around = char_around(self.bytes, inside);
                let char_end = around.map_or(inside, |(_, end)| end.min(self.bytes.len()));
                let rest = self.bytes.get(inside..char_end).unwrap_or_default().iter();
                let rest = rest.take_while(|byte| **byte & 0xC0 == 0x80);
                (end + rest.count() as u64, false)
            }
        }
    }
}

/// Returns the largest index up to `at` that is not inside a UTF-8 character; `at` itself where the bytes are invalid.
pub(super) fn floor_char(bytes: &[u8], at: usize) -> usize {
    char_around(bytes, at).map_or(at, |(start, _)| start)
}

/// Returns the range of the character that `at` is inside of; its end may lie beyond `bytes`.
fn char_around(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    // A character has at most three bytes before its last one.
    for back in 1..=at.min(3) {
        let len = match bytes.get(at - back)? {
            0x80..=0xBF => continue,
            // 0xC0 and 0xC1 would encode ASCII, so they begin no character.
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return None,
        };
        return (len > back).then_some((at - back, at - back + len));
    }
    None
}

/// Appends the text as it is written inside a JSON string.
pub(crate) fn push_json_escaped(text: &str, out: &mut Vec<u8>) {
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend_from_slice(&[b'\\', char as u8]),
            '\u{0}'..='\u{1F}' => {
                out.extend_from_slice(format!("\\u{:04x}", char as u32).as_bytes())
            }
            _ => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Redacts `ranges` of a text released in pieces that end at `cuts`, to the extent that a scalar allows.
    fn redacted(text: &str, ranges: &[(u64, u64)], cuts: &[usize]) -> String {
        let scalars = ScalarTracker::of_complete(text.as_bytes());
        let is_input = text.starts_with('{');
        let mut out = Vec::new();
        let (mut base, mut skip_to) = (0, 0);
        for &cut in cuts.iter().chain([&text.len()]) {
            let mut end = cut as u64;
            if is_input && cut < text.len() {
                end = scalars.floor(end);
                end = floor_char(text.as_bytes(), end as usize) as u64;
            }
            let end = end.max(base);
            let piece = RedactedPiece {
                bytes: &text.as_bytes()[base as usize..end as usize],
                base,
                scalars: is_input.then_some(&scalars),
            };
            let replacements = ranges.iter().filter(|range| range.1 > base);
            let replacements = replacements.map(|&(start, end)| RedactionEdit {
                start,
                end,
                with: "[\"x\"]",
            });
            let _ = piece.copy_redacted(replacements, &mut skip_to, &mut out);
            base = end;
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_result_is_the_same_however_the_text_is_released() {
        type Case<'c> = (&'c str, &'c [(u64, u64)], &'c str);
        let cases: &[Case<'_>] = &[
            ("my key-1234.", &[(3, 11)], "my [\"x\"]."),
            ("abcdef", &[(1, 3), (2, 5)], "a[\"x\"]f"),
            ("abcdef", &[(1, 3), (3, 5)], "a[\"x\"][\"x\"]f"),
            (r#"{"a":"key-1"}"#, &[(6, 11)], r#"{"a":"[\"x\"]"}"#),
            (
                r#"{"a":12345,"b":1}"#,
                &[(6, 8)],
                r#"{"a":"[\"x\"]","b":1}"#,
            ),
            (r#"{"a":true}"#, &[(5, 9)], r#"{"a":"[\"x\"]"}"#),
            (r#"{"key-1":"é"}"#, &[(2, 7)], r#"{"[\"x\"]":"é"}"#),
            (r#"{"a":"éé"}"#, &[(7, 9)], r#"{"a":"[\"x\"]"}"#),
            (r#"{"a":["b","c"]}"#, &[(9, 12)], r#"{"a":["b","[\"x\"]"]}"#),
        ];
        for (text, ranges, want) in cases {
            for cut in 0..=text.len() {
                for second in cut..=text.len() {
                    let got = redacted(text, ranges, &[cut, second]);
                    assert_eq!(got, *want, "{text} released at {cut} and {second}");
                }
            }
        }
    }

    #[test]
    fn control_characters_and_quotes_are_escaped_in_json() {
        let mut out = Vec::new();
        push_json_escaped("a\"\\\n\u{1}é", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "a\\\"\\\\\\u000a\\u0001é");
    }
}
