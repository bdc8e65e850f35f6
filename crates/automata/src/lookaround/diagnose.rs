//! Finds the error to report for a pattern with look-around that does not parse.
//!
//! The messages of `regex-syntax` are more precise than those of `fancy-regex`, but it does not know look-around. So it
//! parses the pattern with every construct that it does not know replaced, byte for byte, by one that it knows. The
//! result is used for the error only, never for matching.

use regex_syntax::Error;
use regex_syntax::ast::ErrorKind;

/// Returns the error of `text` with look-around, back-references and atomic groups replaced. Returns `None` if that
/// text parses, or if the error could come from the replacement. The span of the error is valid in `text`.
pub(super) fn error(text: &str) -> Option<Error> {
    let mut parser = regex_syntax::ParserBuilder::new();
    let error = parser
        .utf8(false)
        .build()
        .parse(&without_lookaround(text))
        // Errors of structure occur in both texts at the same place. All other kinds may be an effect of the
        // replacement.
        .err()?;
    let is_plain = match &error {
        Error::Parse(error) => matches!(
            error.kind(),
            ErrorKind::GroupUnopened
                | ErrorKind::GroupUnclosed
                | ErrorKind::ClassUnclosed
                | ErrorKind::ClassRangeInvalid
                | ErrorKind::ClassRangeLiteral
                | ErrorKind::RepetitionMissing
                | ErrorKind::RepetitionCountInvalid
                | ErrorKind::RepetitionCountUnclosed
                | ErrorKind::EscapeUnexpectedEof
        ),
        // Found after parsing, in a part of the pattern that was not replaced.
        Error::Translate(_) => true,
        _ => false,
    };
    is_plain.then_some(error)
}

/// Replaces the constructs that `regex-syntax` does not know by plain groups and letters of the same length.
fn without_lookaround(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // The number of open brackets: classes nest.
    let mut classes = 0_usize;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\\' => escape_len(rest, classes > 0),
            '[' => class_opening(rest),
            '(' if classes == 0 => group_opening(rest),
            _ => first.len_utf8(),
        };
        match first {
            '[' => classes += 1,
            // A lone `]` is a literal, so the count must not go below zero.
            ']' => classes = classes.saturating_sub(1),
            _ => {}
        }
        let (piece, after) = rest.split_at(length);
        match (first, piece.len()) {
            // Replacements keep the length: `(?=`, `(?>` -> `(?:`; `(?<=` has four bytes -> `(?s:`.
            ('(', 3) => out.push_str("(?:"),
            ('(', 4) => out.push_str("(?s:"),
            ('\\', _) if classes == 0 && is_reference(piece) => {
                // A letter for each byte: a back-reference matches text, and so do letters.
                out.extend(std::iter::repeat_n('a', length));
            }
            _ => out.push_str(piece),
        }
        rest = after;
    }
    out
}

/// Returns the length of the opening of a group: more than one byte for look-around and atomic groups.
fn group_opening(text: &str) -> usize {
    let starts = |openings: &[&str]| openings.iter().any(|opening| text.starts_with(opening));
    match () {
        () if starts(&["(?<=", "(?<!"]) => 4,
        () if starts(&["(?=", "(?!", "(?>"]) => 3,
        () => 1,
    }
}

/// Returns the length of the opening of a class, including a `]` in first position, which is a literal.
fn class_opening(text: &str) -> usize {
    let openings = ["[^]", "[]", "[^", "["];
    let opening = openings.iter().find(|opening| text.starts_with(**opening));
    opening.map_or(1, |opening| opening.len())
}

/// Returns the length of an escape, including the whole number or name of a back-reference.
fn escape_len(text: &str, is_in_class: bool) -> usize {
    let mut chars = text.chars().skip(1);
    let Some(kind) = chars.next() else {
        return 1;
    };
    // Any other escape: `regex-syntax` decides if it exists.
    let plain = 1 + kind.len_utf8();
    let named = |close: char| text[3..].find(close).map(|at| 3 + at + 1);
    let length = match (kind, chars.next()) {
        ('1'..='9', _) => {
            let digits = text[1..].bytes().take_while(u8::is_ascii_digit);
            Some(1 + digits.count())
        }
        ('k', Some('<')) => named('>'),
        ('k', Some('\'')) => named('\''),
        _ => None,
    };
    // In a class a number or a name is not a back-reference.
    length.filter(|_| !is_in_class).unwrap_or(plain)
}

fn is_reference(escape: &str) -> bool {
    let kind = escape.as_bytes().get(1);
    kind.is_some_and(|kind| matches!(kind, b'1'..=b'9') || (*kind == b'k' && escape.len() > 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_pattern_has_the_same_length_and_no_look_around() {
        for (text, expected) in [
            ("(?<=a)b(?!c)", "(?s:a)b(?:c)"),
            (r"(?<!\()a(?>b)", r"(?s:\()a(?:b)"),
            (r"(a)\12\k<n>x\\1", r"(a)aaaaaaaax\\1"),
            (r"[(?=]\(?=[]\]\1(?!](?=é)", r"[(?=]\(?=[]\]\1(?!](?:é)"),
            ("[[:alpha:](?=]a(?=b)", "[[:alpha:](?=]a(?:b)"),
            (r"\k<never", r"\k<never"),
            (r"(?<n>a)\k'n'(?=b)", r"(?<n>a)aaaaa(?:b)"),
            (r"[\k<](?=a)>", r"[\k<](?:a)>"),
            ("é\\", "é\\"),
        ] {
            assert_eq!(without_lookaround(text), expected, "{text}");
            assert_eq!(text.len(), expected.len());
        }
    }

    #[test]
    fn errors_are_those_of_the_plain_parser_and_only_those() {
        let kind_at = |text| match error(text) {
            Some(Error::Parse(error)) => {
                Some((error.kind().to_string(), error.span().start.offset))
            }
            Some(Error::Translate(error)) => {
                Some((error.kind().to_string(), error.span().start.offset))
            }
            _ => None,
        };
        let at = |message: &str, at| Some((message.to_owned(), at));
        assert_eq!(kind_at("(?=a)b)"), at("unopened group", 6));
        assert_eq!(kind_at("é(?<!x)(foo"), at("unclosed group", 8));
        assert_eq!(kind_at("(?=a)[b"), at("unclosed character class", 5));
        assert_eq!(
            kind_at(r"(?=a)\p{Foo}"),
            at("Unicode property not found", 5)
        );
        assert_eq!(
            kind_at(r"a\Kb(?=c)"),
            None,
            "the error is about a construct of fancy-regex"
        );
        assert_eq!(kind_at("a(?=b)"), None);
    }
}
