//! The line and column of a byte offset, and the excerpt of the source line to show.

use std::ops::Range;

use crate::pack::escape;

/// The longest line that is shown whole, in characters.
const WHOLE: usize = 120;

/// The number of characters shown before the caret in a longer line.
const BEFORE: usize = 40;

/// A source line for display, and the position of its carets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pack) struct Excerpt {
    /// The line, escaped and cut around the place.
    pub(super) line: String,
    /// The number of characters of `line` before the first caret.
    pub(super) caret: usize,
    /// The number of carets, at least one.
    pub(super) width: usize,
}

impl Excerpt {
    /// Returns the excerpt of the line in which `span` begins. The number of characters that are read is bounded, however
    /// long the line is.
    pub(in crate::pack) fn new(text: &str, span: &Range<usize>) -> Excerpt {
        let start = text.floor_char_boundary(span.start.min(text.len()));
        let (left, cut_left) = left_of(&text[..start]);
        let room = WHOLE - left.chars().count();
        let (right, cut_right) = right_of(&text[start..], room);
        let marked = right.floor_char_boundary(span.end.saturating_sub(start).min(right.len()));

        let mut line = String::from(if cut_left { "…" } else { "" });
        show(&mut line, left);
        let caret = line.chars().count();
        show(&mut line, &right[..marked]);
        let width = (line.chars().count() - caret).max(1);
        show(&mut line, &right[marked..]);
        if cut_right {
            line.push('…');
        }
        Excerpt { line, caret, width }
    }
}

/// Returns the shown part of the line before the place, and true if something is left out.
fn left_of(before: &str) -> (&str, bool) {
    let mut kept = before.len();
    for (count, (at, c)) in before.char_indices().rev().enumerate() {
        if c == '\n' {
            return (&before[kept..], false);
        }
        if count == WHOLE * 2 / 3 {
            let near = before
                .char_indices()
                .rev()
                .nth(BEFORE - 1)
                .map_or(0, |(at, _)| at);
            return (&before[near..], true);
        }
        kept = at;
    }
    (&before[kept..], false)
}

/// Returns the shown part of the rest of the line, and true if something is left out.
fn right_of(after: &str, room: usize) -> (&str, bool) {
    for (count, (at, c)) in after.char_indices().enumerate() {
        if c == '\n' {
            return (after[..at].trim_end_matches('\r'), false);
        }
        if count == room {
            return (&after[..at], true);
        }
    }
    (after, false)
}

fn show(line: &mut String, piece: &str) {
    for c in piece.chars() {
        match c {
            '\t' => line.push_str("    "),
            c => escape::push(line, c),
        }
    }
}

/// Converts increasing offsets to lines and columns; all conversions together read the text once.
#[derive(Debug)]
pub(in crate::pack) struct TextCursor<'t> {
    text: &'t str,
    offset: usize,
    line: u32,
    column: u32,
}

impl<'t> TextCursor<'t> {
    pub(in crate::pack) fn new(text: &'t str) -> TextCursor<'t> {
        TextCursor {
            text,
            offset: 0,
            line: 1,
            column: 1,
        }
    }

    /// Returns the line and column of `offset`, both counted from 1. `offset` must not be less than the previous one.
    pub(in crate::pack) fn line_column(&mut self, offset: usize) -> (u32, u32) {
        let end = self
            .text
            .floor_char_boundary(offset.min(self.text.len()))
            .max(self.offset);
        for c in self.text[self.offset..end].chars() {
            if c == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.offset = end;
        (self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, span: Range<usize>) -> (String, String) {
        let Excerpt { line, caret, width } = Excerpt::new(text, &span);
        (line, " ".repeat(caret) + &"^".repeat(width))
    }

    fn pair(line: &str, carets: &str) -> (String, String) {
        (line.to_owned(), carets.to_owned())
    }

    #[test]
    fn carets_stand_under_their_characters() {
        assert_eq!(excerpt("é = 1\r\nb", 3..6), pair("é = 1", "  ^^^"));
        assert_eq!(
            excerpt("\ta\u{1b}b", 3..4),
            pair("    a\\u{1b}b", "           ^")
        );
        assert_eq!(excerpt("a\nbc", 3..9), pair("bc", " ^"));
        assert_eq!(excerpt("", 0..0), pair("", "^"));
        assert_eq!(excerpt("a\n", 2..2), pair("", "^"));
    }

    #[test]
    fn a_long_line_is_cut_around_the_caret() {
        let text = format!("{}X{}", "é".repeat(10_000), "z".repeat(10_000));
        let (line, carets) = excerpt(&text, 20_000..20_001);
        assert_eq!(carets, " ".repeat(BEFORE + 1) + "^");
        assert_eq!(line.chars().count(), WHOLE + 2);
        assert_eq!(line.chars().nth(BEFORE + 1), Some('X'));
    }

    #[test]
    fn places_count_characters() {
        let mut cursor = TextCursor::new("aé\nü=x");
        let places: Vec<_> = [0, 1, 3, 4, 6, 7, 99]
            .map(|at| cursor.line_column(at))
            .into();
        assert_eq!(
            places,
            [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (2, 4)]
        );
    }
}
