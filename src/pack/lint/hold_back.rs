//! Text that is held back for a pattern of a rule that holds or redacts.
//!
//! Text is held back while a match may be in progress. If nearly every text may begin a match, nearly all text is held
//! back. That cannot be read off a pattern (`\w+\s+x` continues from word to word), so the pattern is tried on ordinary
//! text.

use std::ops::Range;

use regex_syntax::ast::{self, Ast, RepetitionKind, RepetitionRange};

use super::LintTrial;
use crate::limits::Limits;
use crate::pack::Pack;
use crate::rule::{Action, Channel, Pattern, Rule};

/// Bytes of ordinary text that may be held back without a warning: longer than its words, shorter than its lines.
const SHORT: u64 = 64;

/// Returns the largest number of bytes of ordinary text that are held back at once for that pattern, if it is larger
/// than [`SHORT`].
pub(super) fn held_bytes(written: &Pattern, limits: &Limits, trial: LintTrial) -> Option<u64> {
    let mut pattern = Pattern::new(written.kind, written.text.clone());
    pattern.fold.clone_from(&written.fold);
    let mut rule = Rule::new("held/text", vec![pattern]);
    rule.on = vec![Channel::Text];
    rule.action = Action::Redact;
    let pack = Pack::builder().limits(limits.clone()).rule(rule).build();
    let held = (trial.most_held)(&pack.ok()?);
    Some(held).filter(|held| *held > SHORT)
}

/// Returns the range, in the text of a regular expression, of the first class that a match may begin with, including
/// its repetition operator.
pub(super) fn opening(regex: &str) -> Option<Range<usize>> {
    // `regex-syntax` does not parse look-around.
    let tree = ast::parse::Parser::new().parse(regex).ok()?;
    let span = first_class(&tree)?.span();
    Some(span.start.offset..span.end.offset)
}

fn first_class(tree: &Ast) -> Option<&Ast> {
    match tree {
        Ast::Dot(_) | Ast::ClassUnicode(_) | Ast::ClassPerl(_) | Ast::ClassBracketed(_) => {
            Some(tree)
        }
        Ast::Repetition(repetition) => match &*repetition.ast {
            Ast::Group(group) => first_class(&group.ast),
            sub => first_class(sub).map(|_| tree),
        },
        Ast::Group(group) => first_class(&group.ast),
        Ast::Alternation(alternation) => alternation.asts.iter().find_map(first_class),
        Ast::Concat(concat) => {
            let must = concat.asts.iter().position(|ast| !is_optional(ast));
            let last = must.map_or(concat.asts.len(), |must| must + 1);
            concat.asts[..last].iter().find_map(first_class)
        }
        _ => None,
    }
}

fn is_optional(tree: &Ast) -> bool {
    match tree {
        Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => true,
        Ast::Repetition(repetition) => matches!(
            repetition.op.kind,
            RepetitionKind::ZeroOrOne
                | RepetitionKind::ZeroOrMore
                | RepetitionKind::Range(
                    RepetitionRange::Bounded(0, _)
                        | RepetitionRange::AtLeast(0)
                        | RepetitionRange::Exactly(0)
                )
        ),
        Ast::Group(group) => is_optional(&group.ast),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opening_is_the_first_class_with_its_repetition() {
        for (regex, class) in [
            ("[^;]*secret", "[^;]*"),
            ("[^%]secret", "[^%]"),
            (r"(?s).{0,20}secret", ".{0,20}"),
            (r"\w+\s+secret", r"\w+"),
            (".*secret", ".*"),
            (r"x?(?:key|[^\n]{3})secret", r"[^\n]{3}"),
        ] {
            let at = opening(regex).expect(regex);
            assert_eq!(&regex[at], class);
        }
        assert_eq!(opening("key.*"), None);
    }
}
