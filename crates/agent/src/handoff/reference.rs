//! Parses references to files in a text, such as `@src/lib.rs`. It does not check that the files exist.

use std::collections::HashSet;

/// Returns the files that a text refers to, without the `@` and without duplicates, in the order of their first
/// mention.
///
/// A reference starts with an `@` that does not follow an ASCII letter, digit, `_` or a backtick, so mail addresses and
/// code are not references. It ends before white space, a backtick or a comma; of consecutive dots only one directly
/// before other characters is part of it, and a dot at the end is not.
///
/// # Example: references and a mail address
/// ```
/// use ttsr_agent::handoff::file_references;
/// let text = "Look at @src/lib.rs and @docs/a.md, then write to me@example.org. @src/lib.rs again.";
/// assert_eq!(file_references(text), ["src/lib.rs", "docs/a.md"]);
/// ```
#[must_use]
pub fn file_references(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut from = 0;
    while let Some(at) = text[from..].find('@') {
        let at = from + at;
        from = at + 1;
        if text[..at]
            .chars()
            .next_back()
            .is_some_and(precedes_no_reference)
        {
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

/// Returns true if an `@` after this character does not start a reference.
fn precedes_no_reference(before: char) -> bool {
    before.is_ascii_alphanumeric() || matches!(before, '_' | '`')
}

/// Returns the length of the reference at the start of `text`, in bytes.
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

/// Returns true for white space of JavaScript's `\s`, which includes the byte order mark and excludes U+0085.
fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}
