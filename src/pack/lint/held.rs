//! How much text waits for a pattern of a rule that holds or redacts: tried on text in which nothing is wrong.
//!
//! Text waits while a match may have begun in it. Where nearly everything may begin one, nearly everything waits;
//! whether it does cannot be read off a pattern (`\w+\s+x` chains from word to word), so it is tried.

use std::ops::Range;

use regex_syntax::ast::{self, Ast, RepetitionKind, RepetitionRange};

use crate::limits::Limits;
use crate::pack::Pack;
use crate::rule::{Action, Channel, Pattern, Rule};
use crate::verdict::PartId;

/// Ordinary text: lines of prose, and of code.
const ORDINARY: &str = "The parser reads each file once and keeps what it found in a table, so that a second look\n\
    costs nothing. When a file changes on disk, the entry is dropped and read again the next time\n\
    somebody asks for it; nobody has to think about the order. Errors are collected, not thrown:\n\
    the caller sees all of them at the end, with the line and the column of each (1 is the first).\n\
    \n\
    fn main() {\n    let table = read_all(\"src\", &options)?;\n    for entry in table.values() {\n\
    \x20       log.add(\"{}: {} lines, {:?}\", entry.name, entry.lines, entry.first);\n    }\n}\n\
    \n\
    Run it with `make check` and look at what it prints. If a number is not what you expect, open\n\
    the file that is named there and search for the word; most of the time it is a typing error,\n\
    such as a comma too many or a name that was changed in one place and not in the other two.\n";

/// Bytes of ordinary text that may wait without a word: longer than its words, shorter than its lines.
const SHORT: u64 = 64;

/// Most bytes of ordinary text that wait at once for that pattern, if they are many.
pub(super) fn bytes(written: &Pattern, limits: &Limits) -> Option<u64> {
    let mut pattern = Pattern::new(written.kind, written.text.clone());
    pattern.fold.clone_from(&written.fold);
    let mut rule = Rule::new("held/text", vec![pattern]);
    rule.on = vec![Channel::Text];
    rule.action = Action::Redact;
    let pack = Pack::builder().limits(limits.clone()).rule(rule).build();
    let mut stream = pack.ok()?.stream();
    let part = PartId(0);
    stream.open(part, Channel::Text);
    let mut most = 0;
    for byte in ORDINARY.as_bytes() {
        let _ = stream.push(part, &[*byte]);
        most = most.max(stream.delivered(part) - stream.releasable(part));
    }
    Some(most).filter(|most| *most > SHORT)
}

/// Where in the text of a regular expression its first class stands, with what says how often it comes.
pub(super) fn opening(regex: &str) -> Option<Range<usize>> {
    // Where it looks around there is no tree.
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
    fn what_nearly_everything_may_begin_holds_much() {
        let all = ORDINARY.len() as u64;
        for (regex, least, opening) in [
            ("[^;]*secret", 200, "[^;]*"),
            ("[^%]secret", all - 10, "[^%]"),
            (r"(?s).{0,20}secret", all - 10, ".{0,20}"),
            (r"\w+\s+secret", 65, r"\w+"),
            (".*secret", 65, ".*"),
            (r"x?(?:key|[^\n]{3})secret", 65, r"[^\n]{3}"),
        ] {
            let held = bytes(&Pattern::regex(regex), &Limits::default());
            assert!(held.is_some_and(|held| held >= least), "{regex}: {held:?}");
            let at = super::opening(regex).expect(regex);
            assert_eq!(&regex[at], opening);
        }
    }

    #[test]
    fn words_and_texts_hold_little() {
        for regex in [
            r"sk-[a-z]{20,}",
            r"\w+secret",
            r"\S+@",
            r"(?i)key\s*=.*",
            "[a-z]{40}",
        ] {
            let held = bytes(&Pattern::regex(regex), &Limits::default());
            assert_eq!(held, None, "{regex}");
        }
        assert_eq!(opening("key.*"), None);
    }
}
