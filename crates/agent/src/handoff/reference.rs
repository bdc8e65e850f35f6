//! References to files in a text: `@src/lib.rs`.
//!
//! Knows how they are written, not whether the files are there.

use std::collections::HashSet;

/// The files that a text refers to, without the `@`, each once, in the order of their first mention.
///
/// A reference begins with an `@` that does not follow an ASCII letter, digit, `_` or a backtick, so
/// mail addresses and code are none. It goes on to the next white space, backtick or comma; of dots in
/// a row only the one directly before other characters belongs to it, and one at the end does not.
///
/// # Example: files, and what looks like them
/// ```
/// use ttsr_agent::handoff::references;
/// let text = "Look at @src/lib.rs and @docs/a.md, then write to me@example.org. @src/lib.rs again.";
/// assert_eq!(references(text), ["src/lib.rs", "docs/a.md"]);
/// ```
#[must_use]
pub fn references(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut from = 0;
    while let Some(at) = text[from..].find('@') {
        let at = from + at;
        from = at + 1;
        if text[..at].chars().next_back().is_some_and(forbids) {
            continue;
        }
        let reference = &text[from..from + reference_len(&text[from..])];
        from += reference.len();
        if !reference.is_empty() && seen.insert(reference) {
            found.push(reference);
        }
    }
    found
}

/// Whether an `@` after this character begins no reference.
fn forbids(before: char) -> bool {
    before.is_ascii_alphanumeric() || matches!(before, '_' | '`')
}

/// How much of the text belongs to a reference that begins with it.
fn reference_len(text: &str) -> usize {
    let mut len = usize::from(text.starts_with('.'));
    len += segment_len(&text[len..]);
    while let Some(after) = text[len..].strip_prefix('.') {
        let segment = segment_len(after);
        if segment == 0 {
            break;
        }
        len += 1 + segment;
    }
    len
}

fn segment_len(text: &str) -> usize {
    let end = text.find(|c| matches!(c, '`' | ',' | '.') || is_space(c));
    end.unwrap_or(text.len())
}

/// White space as JavaScript's `\s` has it: with the byte order mark, without U+0085.
fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}
