//! Syntax-tree patterns on the code of a part: code blocks of text, and the files that a tool call writes.
//!
//! A block is parsed at the ends of its lines and at its own end, so the findings depend on the text alone. This module
//! maps ranges of the code to offsets in the part; the trees themselves are in [`crate::ast`].

use std::ops::Range;

use memchr::memchr;
use tree_sitter::Parser;

use super::admit::{Admission, HaystackScope};
use super::haystack::MatchContext;
use crate::ast::{AstPatternSet, Budget, Grammar, Snippet};
use crate::program::ViewSource;
use crate::rule::Severity;
use crate::verdict::RuleId;
use ttsr_views::chunk::{Chunk, RegionSet, Tag};
use ttsr_views::detect::{Detection, OffsetIndex};

/// The code of a part that is read for syntax-tree patterns.
pub(super) struct CodeTrees {
    source: ViewSource,
    /// The block that is being read.
    block: Option<CodeBlock>,
    /// Complete blocks whose language is known only with the name of their file.
    unnamed: Vec<CodeBlock>,
    /// The tag of the region that the text is in.
    tag: Tag,
    parser: Option<Parser>,
}

/// A block of code: a fenced code block, or a run of lines of a file.
#[derive(Debug)]
struct CodeBlock {
    /// `None` while the language is not known; `line` then has the whole block.
    snippet: Option<Snippet>,
    /// The incomplete last line.
    line: Vec<u8>,
    /// Number of bytes of the block.
    len: usize,
    offsets: OffsetIndex,
    /// Offset in the part of the end of the last byte.
    end: u64,
    /// The ranges of the block that the call adds. A match counts only if it overlaps one of them.
    added: Vec<Range<usize>>,
    /// True if the block exceeded a limit and is no longer read.
    is_abandoned: bool,
}

impl CodeTrees {
    pub(super) fn new(source: ViewSource) -> CodeTrees {
        CodeTrees {
            source,
            block: None,
            unnamed: Vec::new(),
            tag: Tag::default(),
            parser: None,
        }
    }

    /// Returns the view whose output is read.
    pub(super) fn source(&self) -> ViewSource {
        self.source
    }

    /// Enters a region of the text.
    pub(super) fn enter_region(
        &mut self,
        tag: Tag,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        // A region outside of code has no language, so this also ends a block that is left.
        if tag.language != self.tag.language {
            self.cut(admission, scope, decided);
        }
        self.tag = tag;
    }

    /// Reads the next chunk.
    pub(super) fn push(
        &mut self,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        chunk: Chunk<'_>,
    ) {
        let Some(shapes) = admission.context.rules.shapes.as_deref() else {
            return;
        };
        let Some(grammar) = self.grammar(shapes) else {
            return;
        };
        let block = self.block.get_or_insert_with(|| CodeBlock::new(grammar));
        if block.is_abandoned {
            return;
        }
        let mut rest = chunk;
        while !rest.bytes.is_empty() {
            let room = admission.context.program.limits().ast_bytes - block.len;
            let line = memchr(b'\n', rest.bytes).map(|at| at + 1);
            let len = line.unwrap_or(rest.bytes.len());
            if len > room {
                block.abandon(shapes, admission, scope, rest.decided(room));
                return;
            }
            let part = rest.slice(0..len);
            let is_added =
                self.source == ViewSource::Markdown || self.tag.regions.contains(RegionSet::ADDED);
            block.append(part, is_added);
            if line.is_some() {
                let decided = part.decided(len - 1);
                block.end_line(shapes, &mut self.parser, admission, scope, decided);
            }
            if block.is_abandoned {
                return;
            }
            rest = rest.slice(len..rest.bytes.len());
        }
    }

    /// Returns the grammar of the region that the text is in: `None` if it is not read, `Some(None)` if its language is
    /// not known yet.
    fn grammar(&self, shapes: &AstPatternSet) -> Option<Option<Grammar>> {
        let wanted = match self.source {
            ViewSource::Markdown => RegionSet::CODE,
            _ => RegionSet::FILE,
        };
        if !self.tag.regions.contains(wanted) {
            return None;
        }
        match self.tag.language {
            Some(language) => {
                let grammar = Grammar::from_language(language.name())?;
                shapes.reads(grammar).then_some(Some(grammar))
            }
            None => (self.source == ViewSource::Edits).then_some(None),
        }
    }

    /// Ends the block.
    pub(super) fn cut(
        &mut self,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        let Some(mut block) = self.block.take().filter(|block| !block.is_abandoned) else {
            return;
        };
        let Some(shapes) = admission.context.rules.shapes.as_deref() else {
            return;
        };
        if block.snippet.is_some() {
            block.finish(shapes, &mut self.parser, admission, scope, decided);
            return;
        }
        // The blocks that wait for a name are together limited like a single block.
        let unnamed: usize = self.unnamed.iter().map(|block| block.len).sum();
        if unnamed + block.len <= admission.context.program.limits().ast_bytes {
            self.unnamed.push(block);
        } else {
            admission.state.counters.unconfirmed += 1;
        }
    }

    /// Sets the file of the blocks that wait for its name.
    pub(super) fn set_file(
        &mut self,
        path: &str,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        let shapes = admission.context.rules.shapes.as_deref();
        let (Some(shapes), false) = (shapes, path.is_empty()) else {
            self.unnamed.clear();
            return;
        };
        let extension = path.rsplit_once('.').map(|(_, extension)| extension);
        let extension = extension.map(str::to_ascii_lowercase);
        let grammar = extension.and_then(|name| Grammar::from_language(&name));
        let grammar = grammar.filter(|grammar| shapes.reads(*grammar));
        for mut block in std::mem::take(&mut self.unnamed) {
            if let Some(grammar) = grammar {
                block.snippet = Some(Snippet::new(grammar));
                block.finish(shapes, &mut self.parser, admission, scope, decided);
            }
        }
    }
}

impl CodeBlock {
    fn new(grammar: Option<Grammar>) -> CodeBlock {
        CodeBlock {
            snippet: grammar.map(Snippet::new),
            line: Vec::new(),
            len: 0,
            offsets: OffsetIndex::default(),
            end: 0,
            added: Vec::new(),
            is_abandoned: false,
        }
    }

    fn append(&mut self, chunk: Chunk<'_>, is_added: bool) {
        let from = self.len;
        self.line.extend_from_slice(chunk.bytes);
        self.len += chunk.bytes.len();
        self.offsets.push(&chunk);
        self.end = chunk.end(chunk.bytes.len() - 1);
        if is_added {
            match self.added.last_mut() {
                Some(last) if last.end == from => last.end = self.len,
                _ => self.added.push(from..self.len),
            }
        }
    }

    /// Ends a line, and parses the block if enough lines were added.
    fn end_line(
        &mut self,
        shapes: &AstPatternSet,
        parser: &mut Option<Parser>,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        let Some(mut snippet) = self.snippet.take() else {
            return;
        };
        snippet.add(&self.line);
        self.line.clear();
        if !snippet.is_due() {
            self.snippet = Some(snippet);
            return;
        }
        let mut found = Vec::new();
        let parser = parser.get_or_insert_default();
        let checked = snippet.check(shapes, parser, budget(admission), |rule, range| {
            found.push((rule, range));
        });
        self.admit(&snippet, found, admission, scope, decided);
        self.snippet = Some(snippet);
        if checked.is_err() {
            self.abandon(shapes, admission, scope, decided);
        }
    }

    /// Ends the block, and parses it.
    fn finish(
        &mut self,
        shapes: &AstPatternSet,
        parser: &mut Option<Parser>,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        let (Some(mut snippet), false) = (self.snippet.take(), self.is_abandoned) else {
            return;
        };
        snippet.add(&self.line);
        let mut found = Vec::new();
        let parser = parser.get_or_insert_default();
        let checked = snippet.finish(shapes, parser, budget(admission), |rule, range| {
            found.push((rule, range));
        });
        self.admit(&snippet, found, admission, scope, decided);
        self.snippet = Some(snippet);
        if checked.is_err() {
            self.abandon(shapes, admission, scope, decided);
        }
    }

    /// Admits the matches that overlap an added range.
    fn admit(
        &self,
        snippet: &Snippet,
        found: Vec<(u32, Range<usize>)>,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        for (rule, range) in found {
            let overlaps =
                |added: &Range<usize>| added.start < range.end && range.start < added.end;
            if !self.added.iter().any(overlaps) {
                continue;
            }
            let end = match range.end < self.len {
                true => self.offsets.start(range.end as u64),
                false => self.end,
            };
            let finding = Detection {
                start: self.offsets.start(range.start as u64),
                end,
                decided,
            };
            let text = snippet.text().as_bytes();
            let context = MatchContext::in_text(&text[..range.end], &range);
            admission.admit_finding(RuleId(rule), scope, finding, Some(context));
        }
    }

    /// Stops reading a block that exceeds a limit: this is a hit of critical rules, and is counted as unconfirmed.
    fn abandon(
        &mut self,
        shapes: &AstPatternSet,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        admission.state.counters.unconfirmed += 1;
        let grammar = self.snippet.take().map(|snippet| snippet.grammar());
        let mut rules: Vec<u32> = grammar
            .into_iter()
            .flat_map(|grammar| shapes.owners(grammar))
            .collect();
        rules.dedup();
        let finding = Detection {
            start: self.end,
            end: self.end,
            decided,
        };
        for rule in rules.into_iter().map(RuleId) {
            if admission.context.program.rule(rule).severity == Severity::Critical {
                admission.admit_finding(rule, scope, finding, None);
            }
        }
        *self = CodeBlock {
            is_abandoned: true,
            ..CodeBlock::new(None)
        };
    }
}

fn budget(admission: &Admission<'_>) -> Budget {
    Budget {
        steps: admission.context.program.limits().ast_steps,
    }
}

impl std::fmt::Debug for CodeTrees {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeTrees")
            .field("block", &self.block)
            .field("unnamed", &self.unnamed)
            .finish_non_exhaustive()
    }
}
