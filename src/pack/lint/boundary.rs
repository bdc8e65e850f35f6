//! `\b` beside a sign that is no part of a word. It asks for a letter on the other side of that sign, and so does
//! not match where there is a blank, which is seldom meant: `\b--force`, `rm -rf /\b`.

use std::ops::Range;

use regex_syntax::ast::{self, AssertionKind, Ast};

/// A boundary that asks for a word where the pattern has none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Odd {
    /// The boundary and the sign, in the text of the pattern.
    pub(super) at: Range<usize>,
    pub(super) sign: char,
    /// Whether it stands at the front of the pattern, not at its back.
    pub(super) is_front: bool,
}

/// The first one at either end of a regular expression.
pub(super) fn odd(regex: &str) -> Option<Odd> {
    let tree = ast::parse::Parser::new().parse(regex).ok()?;
    at_end(&tree, true).or_else(|| at_end(&tree, false))
}

fn at_end(tree: &Ast, is_front: bool) -> Option<Odd> {
    match tree {
        Ast::Group(group) => at_end(&group.ast, is_front),
        Ast::Alternation(alternation) => {
            let mut asts = alternation.asts.iter();
            asts.find_map(|ast| at_end(ast, is_front))
        }
        Ast::Concat(concat) => {
            let (end, next) = match (is_front, &concat.asts[..]) {
                (true, [end, next, ..]) | (false, [.., next, end]) => (end, next),
                _ => return None,
            };
            beside(end, next, is_front).or_else(|| at_end(end, is_front))
        }
        _ => None,
    }
}

fn beside(end: &Ast, next: &Ast, is_front: bool) -> Option<Odd> {
    let (Ast::Assertion(assertion), Ast::Literal(literal)) = (end, next) else {
        return None;
    };
    let is_odd = assertion.kind == AssertionKind::WordBoundary
        && !literal.c.is_alphanumeric()
        && literal.c != '_';
    let (one, other) = (end.span(), next.span());
    is_odd.then(|| Odd {
        at: one.start.offset.min(other.start.offset)..one.end.offset.max(other.end.offset),
        sign: literal.c,
        is_front,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_beside_a_sign_is_odd_and_beside_a_word_is_not() {
        for (regex, expected) in [
            (r"\b--force", Some((r"\b-", true))),
            (r"rm -rf /\b", Some((r"/\b", false))),
            (r"(?:yes|\b\$x) y", Some((r"\b\$", true))),
            (r"\bx\b", None),
            (r"\b_x", None),
            (r"\b(?:-|x)", None),
            (r"\B-x", None),
            (r"a\b-b", None),
            (r"\b\w+-\b", Some((r"-\b", false))),
        ] {
            let found = odd(regex).map(|odd| (&regex[odd.at], odd.is_front));
            assert_eq!(found, expected, "{regex}");
        }
    }
}
