//! Removes the texts that matched from the messages of rules: they may be secrets.
//!
//! A message inserts a match as `{{ match.text }}`, with control characters escaped, or, with `{{ capture.NAME }}`, pieces of
//! it in which a run of white space is one space. Both may be shortened.

use ttsr::{DecisionRecord, Pack};

/// The fewest bytes of a match that are removed.
const SHORTEST: usize = 6;

/// The longest text that is searched for in a message, in bytes. The longest insertion is half of it.
const LONGEST: usize = 8 << 10;

/// Returns the message without the texts that matched. Short matches stay. `whole` is the text in which they are, if it is
/// known: what a message captures may be longer than the match, which ends where it is certain.
pub(crate) fn without_matches<'d>(
    mut message: String,
    decisions: impl IntoIterator<Item = &'d DecisionRecord>,
    pack: &Pack,
    whole: Option<&str>,
) -> String {
    for decision in decisions {
        let matched = &decision.matched;
        let has_pieces = inserts_pieces(decision, pack);
        let captured = whole
            .filter(|_| has_pieces)
            .map(|whole| from_match(whole, decision));
        if matched.len() >= SHORTEST {
            message = without(&message, first_bytes(matched), has_pieces);
        }
        if let Some(captured) = captured {
            message = without(&message, captured, true);
        }
    }
    message
}

fn first_bytes(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

/// Returns the text from the start of a match.
fn from_match<'t>(whole: &'t str, decision: &DecisionRecord) -> &'t str {
    let start = usize::try_from(decision.start.unwrap_or(0)).unwrap_or(usize::MAX);
    first_bytes(&whole[whole.floor_char_boundary(start)..])
}

/// Returns true if the message of the rule inserts pieces of its match.
fn inserts_pieces(decision: &DecisionRecord, pack: &Pack) -> bool {
    let rules = pack.rules().iter();
    let mut messages = rules
        .filter(|rule| Some(&rule.id) == decision.rule.as_ref())
        .filter_map(|rule| rule.message.as_deref());
    messages.any(|message| message.contains("capture."))
}

/// Returns the message without the insertions of `matched`, and without those of its pieces if `has_pieces`.
fn without(message: &str, matched: &str, has_pieces: bool) -> String {
    let (mut out, mut rest) = (String::new(), message);
    while let Some(first) = rest.chars().next() {
        let len = match has_pieces {
            true => {
                let starts = matched.char_indices().map(|(at, _)| &matched[at..]);
                let pieces = starts.map(|start| common(rest, start).0);
                pieces.max().unwrap_or(0)
            }
            false => {
                let (len, is_whole) = common(rest, matched);
                let is_cut = rest[len..].starts_with('…');
                if is_whole || is_cut { len } else { 0 }
            }
        };
        if len >= SHORTEST {
            out.push('…');
            let after = &rest[len..];
            rest = after.strip_prefix('…').unwrap_or(after);
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Returns the length of the longest prefix of `text` that inserts a prefix of `matched`, and true if it inserts all of it.
fn common(text: &str, matched: &str) -> (usize, bool) {
    let mut rest = text;
    let mut chars = matched.chars().peekable();
    while let Some(char) = chars.next() {
        let escaped = || rest.strip_prefix(&*char.escape_default().to_string());
        let after = rest.strip_prefix(char);
        if let Some(after) = after.or_else(|| (!char.is_ascii_graphic()).then(escaped)?) {
            rest = after;
        } else if char.is_whitespace() {
            // A run of white space is one space, or nothing at an end.
            rest = rest.strip_prefix(' ').unwrap_or(rest);
            while chars.next_if(|next| next.is_whitespace()).is_some() {}
        } else {
            return (text.len() - rest.len(), false);
        }
    }
    (text.len() - rest.len(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_removed_in_each_form_that_a_message_inserts() {
        for (message, matched, expected) in [
            ("No KEY-1234.", "KEY-1234", "No …."),
            (r"No KEY\n1234.", "KEY\n1234", "No …."),
            (r"No KEY\u{1}1234.", "KEY\u{1}1234", "No …."),
            ("No KEY-1234… here.", "KEY-123456789", "No … here."),
            ("No KEY-12 here.", "KEY-1234", "No KEY-12 here."),
            ("No KÉY-1234, KÉY-1234.", "KÉY-1234", "No …, …."),
        ] {
            assert_eq!(without(message, matched, false), expected);
        }
    }

    #[test]
    fn pieces_of_a_match_are_removed_where_the_message_inserts_them() {
        for (message, matched, expected) in [
            (
                "The key hunter2 x is out.",
                "PASS=hunter2\n\tx;",
                "The key … is out.",
            ),
            ("The key abcd is out.", "PASS=abcd", "The key abcd is out."),
        ] {
            assert_eq!(without(message, matched, true), expected);
        }
    }
}
