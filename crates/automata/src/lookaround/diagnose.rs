//! What is wrong with a pattern that looks around, told by the parser that does not know look-around.
//!
//! That parser's messages are the better ones, so it is given the pattern with everything it does not know
//! replaced, byte for byte, by something that it does. Nothing is matched with that.

use regex_syntax::Error;
use regex_syntax::ast::ErrorKind;

/// The error of the regular expression that `text` would be without look-around, back-references and atomic
/// groups, if it is one that has nothing to do with those. Its span is right for `text` too.
pub(super) fn error(text: &str) -> Option<Error> {
    let mut parser = regex_syntax::ParserBuilder::new();
    let error = parser
        .utf8(false)
        .build()
        .parse(&without_looks(text))
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
        Error::Translate(_) => true,
        _ => false,
    };
    is_plain.then_some(error)
}

/// The pattern, of the same length, with plain groups and letters in place of what only some engines know.
fn without_looks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // How many brackets of classes are open.
    let mut classes = 0_usize;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\\' => escape(rest, classes > 0),
            '[' => class(rest),
            '(' if classes == 0 => group(rest),
            _ => first.len_utf8(),
        };
        match first {
            '[' => classes += 1,
            ']' => classes = classes.saturating_sub(1),
            _ => {}
        }
        let (piece, after) = rest.split_at(length);
        match (first, piece.len()) {
            ('(', 3) => out.push_str("(?:"),
            ('(', 4) => out.push_str("(?s:"),
            ('\\', _) if classes == 0 && is_reference(piece) => {
                out.extend(std::iter::repeat_n('a', length));
            }
            _ => out.push_str(piece),
        }
        rest = after;
    }
    out
}

/// Bytes of the opening of a group: more than one if it looks around or is atomic.
fn group(text: &str) -> usize {
    let starts = |openings: &[&str]| openings.iter().any(|opening| text.starts_with(opening));
    match () {
        () if starts(&["(?<=", "(?<!"]) => 4,
        () if starts(&["(?=", "(?!", "(?>"]) => 3,
        () => 1,
    }
}

/// Bytes of the opening of a class, with the `]` that stands for itself behind it.
fn class(text: &str) -> usize {
    let openings = ["[^]", "[]", "[^", "["];
    let opening = openings.iter().find(|opening| text.starts_with(**opening));
    opening.map_or(1, |opening| opening.len())
}

/// Bytes of an escape; a reference to a group has all of its number or name.
fn escape(text: &str, is_in_class: bool) -> usize {
    let mut chars = text.chars().skip(1);
    let Some(kind) = chars.next() else {
        return 1;
    };
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
    fn what_is_left_is_as_long_and_looks_nowhere() {
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
            assert_eq!(without_looks(text), expected, "{text}");
            assert_eq!(text.len(), expected.len());
        }
    }

    #[test]
    fn errors_are_those_of_the_plain_parser_and_only_those() {
        let told = |text| match error(text) {
            Some(Error::Parse(error)) => {
                Some((error.kind().to_string(), error.span().start.offset))
            }
            Some(Error::Translate(error)) => {
                Some((error.kind().to_string(), error.span().start.offset))
            }
            _ => None,
        };
        let at = |message: &str, at| Some((message.to_owned(), at));
        assert_eq!(told("(?=a)b)"), at("unopened group", 6));
        assert_eq!(told("é(?<!x)(foo"), at("unclosed group", 8));
        assert_eq!(told("(?=a)[b"), at("unclosed character class", 5));
        assert_eq!(told(r"(?=a)\p{Foo}"), at("Unicode property not found", 5));
        assert_eq!(told(r"a\Kb(?=c)"), None, "it is for others to say");
        assert_eq!(told("a(?=b)"), None);
    }
}
