//! `\b` beside a character that is not part of a word. It requires a word character on its other side, so it does not
//! match beside a space, which is seldom intended: `\b--force`, `rm -rf /\b`.

use std::ops::Range;

use regex_syntax::ast::{self, AssertionKind, Ast};

/// A boundary that requires a word character outside of the pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnintendedBoundary {
    /// The range of the boundary and the character beside it in the text of the pattern.
    pub(super) at: Range<usize>,
    pub(super) sign: char,
    /// True if the boundary is at the start of the pattern, false if it is at its end.
    pub(super) is_front: bool,
}

/// Returns the odd boundary at either end of a regular expression, if there is one.
pub(super) fn unintended_boundary(regex: &str) -> Option<UnintendedBoundary> {
    let tree = ast::parse::Parser::new().parse(regex).ok()?;
    at_end(&tree, true).or_else(|| at_end(&tree, false))
}

fn at_end(tree: &Ast, is_front: bool) -> Option<UnintendedBoundary> {
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
            boundary_between(end, next, is_front).or_else(|| at_end(end, is_front))
        }
        _ => None,
    }
}

fn boundary_between(end: &Ast, next: &Ast, is_front: bool) -> Option<UnintendedBoundary> {
    let (Ast::Assertion(assertion), Ast::Literal(literal)) = (end, next) else {
        return None;
    };
    let is_odd = assertion.kind == AssertionKind::WordBoundary
        && !literal.c.is_alphanumeric()
        && literal.c != '_';
    let (one, other) = (end.span(), next.span());
    is_odd.then(|| UnintendedBoundary {
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
            let found = unintended_boundary(regex).map(|odd| (&regex[odd.at], odd.is_front));
            assert_eq!(found, expected, "{regex}");
        }
    }
}
