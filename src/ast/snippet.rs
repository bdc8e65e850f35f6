//! Code that grows: its text, its tree, and the part of the tree that is final.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use ast_grep_core::source::Edit;
use ast_grep_core::tree_sitter::LanguageExt;
use ast_grep_core::{AstGrep, Doc};
use tree_sitter::{InputEdit, Node, ParseOptions, Parser, Point, Tree};

use super::Grammar;
use super::patterns::AstPatternSet;

/// The limit on the work for one snippet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The most steps of one parse, in hundreds, in addition to [`STEPS_A_BYTE`].
    pub(crate) steps: usize,
}

/// The steps of one parse that each byte allows, in hundredths. Ordinary files need one or less.
const STEPS_A_BYTE: usize = 4;

/// A check follows the preceding one when the text has grown by this fraction. A small text is checked at every line,
/// and the checks of a large one cost no more than some dozens of whole parses.
const GROWTH: usize = 64;

/// Code of one language that is searched while it grows.
#[derive(Debug)]
pub(crate) struct Snippet {
    grammar: Grammar,
    text: Arc<String>,
    tree: Option<Tree>,
    /// The number of bytes and lines that the tree covers.
    parsed: (usize, usize),
    /// The number of lines.
    rows: usize,
    /// The length of the text at which it is parsed next.
    next: usize,
    /// The end of the text whose nodes have been searched.
    tried: usize,
    /// The matches that have been reported.
    reported: HashSet<(u32, usize, usize)>,
}

/// The parser has exceeded its budget, because the text is unlike any code of the language.
#[derive(Debug)]
pub(crate) struct BudgetExceeded;

/// The nodes that are searched.
#[derive(Clone, Copy)]
enum NodeSet {
    /// Complete nodes: those followed by another token.
    Complete,
    All,
}

impl Snippet {
    pub(crate) fn new(grammar: Grammar) -> Snippet {
        Snippet {
            grammar,
            text: Arc::default(),
            tree: None,
            parsed: (0, 0),
            rows: 0,
            next: 0,
            tried: 0,
            reported: HashSet::new(),
        }
    }

    pub(crate) fn grammar(&self) -> Grammar {
        self.grammar
    }

    /// Returns the text so far, with a `?` for each byte that is not UTF-8.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Appends a line with its newline, or the last line.
    pub(crate) fn add(&mut self, line: &[u8]) {
        let text = Arc::make_mut(&mut self.text);
        for chunk in line.utf8_chunks() {
            text.push_str(chunk.valid());
            // One character for each invalid byte, so that offsets do not change.
            text.extend(chunk.invalid().iter().map(|_| '?'));
        }
        self.rows += usize::from(line.ends_with(b"\n"));
    }

    /// Returns true if the text has grown enough since the last check.
    pub(crate) fn is_due(&self) -> bool {
        self.text.len() >= self.next
    }

    /// Searches the complete nodes that have not been searched. The text ends with a line.
    pub(crate) fn check(
        &mut self,
        shapes: &AstPatternSet,
        parser: &mut Parser,
        budget: Budget,
        on: impl FnMut(u32, Range<usize>),
    ) -> Result<(), BudgetExceeded> {
        self.next = self.text.len() + (self.text.len() / GROWTH).max(1);
        self.search(shapes, parser, budget, NodeSet::Complete, on)
    }

    /// Searches the whole text, parsed at once.
    pub(crate) fn finish(
        &mut self,
        shapes: &AstPatternSet,
        parser: &mut Parser,
        budget: Budget,
        on: impl FnMut(u32, Range<usize>),
    ) -> Result<(), BudgetExceeded> {
        self.tree = None;
        self.tried = 0;
        self.search(shapes, parser, budget, NodeSet::All, on)
    }

    fn search(
        &mut self,
        shapes: &AstPatternSet,
        parser: &mut Parser,
        budget: Budget,
        which: NodeSet,
        mut on: impl FnMut(u32, Range<usize>),
    ) -> Result<(), BudgetExceeded> {
        let Some(table) = shapes.for_grammar(self.grammar) else {
            return Ok(());
        };
        let tree = self.parse(parser, budget)?;
        self.tree = Some(tree.clone());
        let parsed = AstGrep::doc(ParsedSnippet {
            text: Arc::clone(&self.text),
            tree,
            grammar: self.grammar,
        });
        let root = parsed.root().get_inner_node();
        let is_whole = matches!(which, NodeSet::All);
        let last = match which {
            NodeSet::Complete => last_token(root),
            NodeSet::All => self.text.len(),
        };
        let reported = &mut self.reported;
        each_node(root, self.tried, |node| {
            let is_final = is_whole || node.end_byte() <= last && !node.has_error();
            if !is_final || !table.wants(node.kind_id()) {
                return;
            }
            let range = node.byte_range();
            for owner in table.matching(&parsed.adopt(node)) {
                if reported.insert((owner, range.start, range.end)) {
                    on(owner, range.clone());
                }
            }
        });
        self.tried = last;
        Ok(())
    }

    fn parse(&mut self, parser: &mut Parser, budget: Budget) -> Result<Tree, BudgetExceeded> {
        let language = self.grammar.get_ts_language();
        parser.set_language(&language).map_err(|_| BudgetExceeded)?;
        let mut old = self.tree.take();
        if let Some(tree) = &mut old {
            let (from, row) = self.parsed;
            tree.edit(&InputEdit {
                start_byte: from,
                old_end_byte: from,
                new_end_byte: self.text.len(),
                start_position: Point::new(row, 0),
                old_end_position: Point::new(row, 0),
                new_end_position: Point::new(self.rows, 0),
            });
        }
        self.parsed = (self.text.len(), self.rows);
        let mut left = budget.steps + self.text.len() * STEPS_A_BYTE / 100;
        let mut progress = |_: &tree_sitter::ParseState| match left.checked_sub(1) {
            Some(fewer) => {
                left = fewer;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let text = self.text.as_bytes();
        let parsed = parser.parse_with_options(
            &mut |at, _| text.get(at..).unwrap_or_default(),
            old.as_ref(),
            Some(options),
        );
        parsed.ok_or_else(|| {
            parser.reset();
            BudgetExceeded
        })
    }
}

/// Calls `on` for each node that ends after `from`, outer nodes first.
fn each_node<'t>(root: Node<'t>, from: usize, mut on: impl FnMut(Node<'t>)) {
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        let is_new = node.end_byte() > from;
        if is_new {
            on(node);
        }
        if is_new && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

/// Returns the start of the last token that is not a comment.
fn last_token(root: Node<'_>) -> usize {
    let mut node = root;
    let mut cursor = root.walk();
    loop {
        let children = node.children(&mut cursor);
        let is_token =
            |child: &Node<'_>| !child.is_extra() && child.end_byte() > child.start_byte();
        match children.filter(is_token).last() {
            Some(last) => node = last,
            None => return node.start_byte(),
        }
    }
}

/// A text with its tree, in the form that ast-grep requires.
#[derive(Clone)]
struct ParsedSnippet {
    text: Arc<String>,
    tree: Tree,
    grammar: Grammar,
}

impl Doc for ParsedSnippet {
    type Source = String;
    type Lang = Grammar;
    type Node<'r> = Node<'r>;

    fn get_lang(&self) -> &Grammar {
        &self.grammar
    }

    fn get_source(&self) -> &String {
        &self.text
    }

    fn do_edit(&mut self, _: &Edit<String>) -> Result<(), String> {
        Err("the text of a reply is not edited".into())
    }

    fn root_node(&self) -> Node<'_> {
        self.tree.root_node()
    }

    fn get_node_text<'a>(&'a self, node: &Node<'a>) -> Cow<'a, str> {
        Cow::Borrowed(self.text.get(node.byte_range()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::super::AstPatternSource;
    use super::*;

    #[test]
    fn the_tree_covers_the_bytes_and_the_lines_that_were_added() {
        let mut shapes = AstPatternSet::default();
        let any = ["print($A)".to_owned()];
        let source = AstPatternSource {
            any: &any,
            inside: &[],
            not: &[],
        };
        shapes.add(0, Grammar::Python, source);
        let mut snippet = Snippet::new(Grammar::Python);
        let mut parser = Parser::new();
        let budget = Budget { steps: 1000 };
        for (line, parsed) in [("a = 1\n", (6, 1)), ("b = 2\n", (12, 2)), ("c", (13, 2))] {
            snippet.add(line.as_bytes());
            let checked = snippet.check(&shapes, &mut parser, budget, |_, _| {});
            assert!(checked.is_ok(), "{line}");
            assert_eq!(snippet.parsed, parsed, "{line}");
        }
    }

    #[test]
    fn code_of_a_language_without_patterns_is_not_parsed() {
        let mut snippet = Snippet::new(Grammar::Go);
        snippet.add(b"package p\n");
        let shapes = AstPatternSet::default();
        let (mut parser, budget) = (Parser::new(), Budget { steps: 0 });
        let checked = snippet.finish(&shapes, &mut parser, budget, |_, _| panic!("no pattern"));
        assert!(checked.is_ok());
        assert!(snippet.tree.is_none());
    }
}
