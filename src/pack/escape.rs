//! Escapes of untrusted text for display: characters that move a cursor, hide text or reorder it.
//!
//! This module does not know the origin or the destination of the text.

/// The longest piece of untrusted text that a message quotes, in bytes.
const QUOTE_BYTES: usize = 80;

/// Returns true if `c`, shown as it is, could change how the text around it is read.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Appends `c` to `out`, escaped if it is unsafe: as `\n`, `\t`, `\r` or `\u{1b}`.
pub(super) fn push(out: &mut String, c: char) {
    if is_unsafe(c) {
        out.extend(c.escape_default());
    } else {
        out.push(c);
    }
}

/// Returns `text` escaped and cut to `limit` bytes, with `…` appended if it was cut. An escape sequence is never cut in
/// two.
pub(super) fn capped(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let before = out.len();
        push(&mut out, c);
        if out.len() > limit {
            out.truncate(before);
            out.push('…');
            break;
        }
    }
    out
}

/// Returns all of `text`, escaped.
pub(super) fn all(text: &str) -> String {
    capped(text, usize::MAX)
}

/// Returns `text` in backticks, escaped and shortened, for a message.
pub(super) fn quote(text: &str) -> String {
    format!("`{}`", capped(text, QUOTE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_move_the_cursor_are_escaped() {
        assert_eq!(
            all("a\u{1b}[31m\n\t\r\u{85}\u{202e}"),
            r"a\u{1b}[31m\n\t\r\u{85}\u{202e}"
        );
        assert_eq!(all("naïve 👩\u{200d}👧"), "naïve 👩\u{200d}👧");
    }

    #[test]
    fn the_cap_cuts_between_characters_and_never_inside_an_escape() {
        assert_eq!(capped("aéb", 2), "a…");
        assert_eq!(capped("aéb", 4), "aéb");
        assert_eq!(capped("a\u{1b}b", 6), "a…");
        assert_eq!(capped("", 0), "");
    }
}
