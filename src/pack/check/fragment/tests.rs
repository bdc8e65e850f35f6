//! The uses of fragments are those groups that the parser of regular expressions would read.

use proptest::prelude::*;
use regex_syntax::ast::{self, Ast};

use super::{OPENING, References};

/// Collects the offsets of groups.
struct Groups(Vec<usize>);

impl ast::Visitor for Groups {
    type Output = Vec<usize>;
    type Err = ();

    fn finish(self) -> Result<Vec<usize>, ()> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), ()> {
        if let Ast::Group(group) = ast {
            self.0.push(group.span.start.offset);
        }
        Ok(())
    }
}

/// Returns the offsets of the uses that the parser reads as groups, or `None` if the text is not a regular expression.
/// A use has as many bytes as the group `(?:name)`.
fn by_parser(text: &str) -> Option<Vec<usize>> {
    let groups = text.replace(OPENING, "(?:");
    let ast = ast::parse::Parser::new().parse(&groups).ok()?;
    let mut found = ast::visit(&ast, Groups(Vec::new())).ok()?;
    found.retain(|at| text[*at..].starts_with(OPENING));
    found.sort_unstable();
    Some(found)
}

fn found(text: &str) -> Vec<usize> {
    let list = References::find(text).list;
    list.iter().map(|reference| reference.range.start).collect()
}

#[test]
fn escapes_classes_and_comments_contain_no_use() {
    let uses = [
        (r"(?&a)(?&b-1)", 2),
        (r"\(?&a)", 0),
        (r"\\(?&a)", 1),
        (r"[(?&a)]", 0),
        (r"[](?&a)](?&a)", 1),
        (r"[^](?&a)](?&a)", 1),
        (r"[a[^b](?&a)](?&a)", 1),
        (r"[[:alpha:](?&a)](?&a)", 1),
        // `[` is the last character of a range, and `--` is an operator.
        (r"[)-[](?&a)", 1),
        (r"[a--[b]](?&a)", 1),
        ("(?x) # (?&a)\n(?&a)", 1),
        ("(?x:# [\n(?&a))# (?&a)", 2),
        ("(?i)# (?&a)", 1),
        ("((?x))#(?&a)", 1),
        ("(?x)(?-x:#(?&a)) #(?&a)", 1),
    ];
    for (text, count) in uses {
        assert_eq!(found(text).len(), count, "{text}");
    }
    let verbose = References::find("(?&a)(?x)(?&a)(?-x:(?&a))(?&a)").list;
    let flags: Vec<bool> = verbose
        .iter()
        .map(|reference| reference.is_verbose)
        .collect();
    assert_eq!(flags, [false, true, false, true]);
    assert!(References::find("(?x)a # b").ends_in_comment);
    assert!(!References::find("(?x)a # b\nc").ends_in_comment);
}

const PIECES: [&str; 24] = [
    "(?&a)",
    "(?&a)",
    "(",
    ")",
    "[",
    "]",
    "^",
    "-",
    "\\",
    "#",
    "\n",
    " ",
    "(?x)",
    "(?-x)",
    "(?x:",
    "(?i-x:",
    "(?P<n>",
    "[:alpha:]",
    "&&",
    "a",
    "é",
    "|",
    "{2}",
    "*",
];

proptest! {
    #[test]
    fn uses_are_those_that_the_parser_reads(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..14)
    ) {
        let text = pieces.concat();
        if let Some(expected) = by_parser(&text) {
            prop_assert_eq!(found(&text), expected, "{}", text);
        }
        References::find(&text);
    }
}
