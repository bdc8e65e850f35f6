//! Shapes of code in a part: fenced blocks of text, and what the edits of a tool call leave of files.
//!
//! A block of code, or a run of a file, is parsed at the ends of its lines and where it ends, so what is
//! found depends on the text alone. It knows where in the part the text stands; the trees are `ast`'s.

use std::ops::Range;

use memchr::memchr;
use tree_sitter::Parser;

use super::haystack::Near;
use super::judge::Judge;
use crate::ast::{AstPatternSet, Budget, Grammar, Snippet};
use crate::detect::{Detection, OffsetIndex};
use crate::pack::Source;
use crate::rule::Severity;
use crate::verdict::RuleId;
use crate::view::chunk::{Chunk, RegionSet, Tag};

/// What is read of a part for rules that look for shapes.
pub(super) struct Trees {
    source: Source,
    /// The code that is being read.
    code: Option<Code>,
    /// Code that has ended and whose language its file will tell.
    unnamed: Vec<Code>,
    /// What comes now.
    tag: Tag,
    parser: Option<Parser>,
}

/// One piece of code.
#[derive(Debug)]
struct Code {
    /// None while the language is not known; then all of the text is in `line`.
    snippet: Option<Snippet>,
    /// The line that is not complete.
    line: Vec<u8>,
    /// Bytes of it.
    len: usize,
    places: OffsetIndex,
    /// Where the last byte ends.
    end: u64,
    /// What is new of it, by its bytes: only what touches that counts.
    added: Vec<Range<usize>>,
    /// It was too much: it is no longer read.
    is_over: bool,
}

impl Trees {
    pub(super) fn new(source: Source) -> Trees {
        Trees {
            source,
            code: None,
            unnamed: Vec::new(),
            tag: Tag::default(),
            parser: None,
        }
    }

    /// The view that it reads behind.
    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// What comes from here on is of that kind.
    pub(super) fn turn(&mut self, tag: Tag, judge: &mut Judge<'_>, decided: u64) {
        // Code that is left is, too: what is not code has no language.
        if tag.language != self.tag.language {
            self.cut(judge, decided);
        }
        self.tag = tag;
    }

    pub(super) fn take(&mut self, judge: &mut Judge<'_>, piece: Chunk<'_>) {
        let rules = judge.rules;
        let Some(shapes) = rules.shapes.as_deref() else {
            return;
        };
        let Some(reading) = self.reading(shapes) else {
            return;
        };
        let code = self.code.get_or_insert_with(|| Code::new(reading));
        if code.is_over {
            return;
        }
        let mut rest = piece;
        while !rest.bytes.is_empty() {
            let room = judge.pack.limits().ast_bytes - code.len;
            let line = memchr(b'\n', rest.bytes).map(|at| at + 1);
            let len = line.unwrap_or(rest.bytes.len());
            if len > room {
                code.give_up(shapes, judge, rest.decided(room));
                return;
            }
            let part = rest.slice(0..len);
            let is_added =
                self.source == Source::Markdown || self.tag.regions.contains(RegionSet::ADDED);
            code.add(part, is_added);
            if line.is_some() {
                code.end_line(shapes, &mut self.parser, judge, part.decided(len - 1));
            }
            if code.is_over {
                return;
            }
            rest = rest.slice(len..rest.bytes.len());
        }
    }

    /// What is read of what comes now: nothing, code of a language, or code of which the language is not known.
    fn reading(&self, shapes: &AstPatternSet) -> Option<Option<Grammar>> {
        let wanted = match self.source {
            Source::Markdown => RegionSet::CODE,
            _ => RegionSet::FILE,
        };
        if !self.tag.regions.contains(wanted) {
            return None;
        }
        match self.tag.language {
            Some(language) => {
                let grammar = Grammar::of(language.name())?;
                shapes.reads(grammar).then_some(Some(grammar))
            }
            None => (self.source == Source::Edits).then_some(None),
        }
    }

    /// The code ends.
    pub(super) fn cut(&mut self, judge: &mut Judge<'_>, decided: u64) {
        let Some(mut code) = self.code.take().filter(|code| !code.is_over) else {
            return;
        };
        let rules = judge.rules;
        let Some(shapes) = rules.shapes.as_deref() else {
            return;
        };
        if code.snippet.is_some() {
            code.finish(shapes, &mut self.parser, judge, decided);
            return;
        }
        // All that waits together is no more than one piece of code may be.
        let waiting: usize = self.unnamed.iter().map(|code| code.len).sum();
        if waiting + code.len <= judge.pack.limits().ast_bytes {
            self.unnamed.push(code);
        } else {
            judge.found.counters.unconfirmed += 1;
        }
    }

    /// The file of what was read without one is known now.
    pub(super) fn file(&mut self, path: &str, judge: &mut Judge<'_>, decided: u64) {
        let rules = judge.rules;
        let (Some(shapes), false) = (rules.shapes.as_deref(), path.is_empty()) else {
            self.unnamed.clear();
            return;
        };
        let extension = path.rsplit_once('.').map(|(_, extension)| extension);
        let extension = extension.map(str::to_ascii_lowercase);
        let grammar = extension.and_then(|name| Grammar::of(&name));
        let grammar = grammar.filter(|grammar| shapes.reads(*grammar));
        for mut code in std::mem::take(&mut self.unnamed) {
            if let Some(grammar) = grammar {
                code.snippet = Some(Snippet::new(grammar));
                code.finish(shapes, &mut self.parser, judge, decided);
            }
        }
    }
}

impl Code {
    fn new(grammar: Option<Grammar>) -> Code {
        Code {
            snippet: grammar.map(Snippet::new),
            line: Vec::new(),
            len: 0,
            places: OffsetIndex::default(),
            end: 0,
            added: Vec::new(),
            is_over: false,
        }
    }

    fn add(&mut self, piece: Chunk<'_>, is_added: bool) {
        let from = self.len;
        self.line.extend_from_slice(piece.bytes);
        self.len += piece.bytes.len();
        self.places.push(&piece);
        self.end = piece.end(piece.bytes.len() - 1);
        if is_added {
            match self.added.last_mut() {
                Some(last) if last.end == from => last.end = self.len,
                _ => self.added.push(from..self.len),
            }
        }
    }

    /// A line is complete.
    fn end_line(
        &mut self,
        shapes: &AstPatternSet,
        parser: &mut Option<Parser>,
        judge: &mut Judge<'_>,
        decided: u64,
    ) {
        let Some(mut snippet) = self.snippet.take() else {
            return;
        };
        snippet.add(&self.line);
        self.line.clear();
        if snippet.is_due() {
            let mut found = Vec::new();
            let parser = parser.get_or_insert_default();
            let budget = budget(judge);
            let looked = snippet.check(shapes, parser, budget, |rule, range| {
                found.push((rule, range));
            });
            self.tell(&snippet, found, judge, decided);
            self.snippet = Some(snippet);
            if looked.is_err() {
                self.give_up(shapes, judge, decided);
            }
        } else {
            self.snippet = Some(snippet);
        }
    }

    /// It is complete.
    fn finish(
        &mut self,
        shapes: &AstPatternSet,
        parser: &mut Option<Parser>,
        judge: &mut Judge<'_>,
        decided: u64,
    ) {
        let (Some(mut snippet), false) = (self.snippet.take(), self.is_over) else {
            return;
        };
        snippet.add(&self.line);
        let mut found = Vec::new();
        let parser = parser.get_or_insert_default();
        let looked = snippet.finish(shapes, parser, budget(judge), |rule, range| {
            found.push((rule, range));
        });
        self.tell(&snippet, found, judge, decided);
        self.snippet = Some(snippet);
        if looked.is_err() {
            self.give_up(shapes, judge, decided);
        }
    }

    fn tell(
        &self,
        snippet: &Snippet,
        found: Vec<(u32, Range<usize>)>,
        judge: &mut Judge<'_>,
        decided: u64,
    ) {
        for (rule, range) in found {
            let touches = |added: &Range<usize>| added.start < range.end && range.start < added.end;
            if !self.added.iter().any(touches) {
                continue;
            }
            let end = match range.end < self.len {
                true => self.places.start(range.end as u64),
                false => self.end,
            };
            let place = Detection {
                start: self.places.start(range.start as u64),
                end,
                decided,
            };
            let text = snippet.text().as_bytes();
            let near = Near::around(&[], &text[..range.end], &range, true);
            judge.found_by_detector(RuleId(rule), None, place, Some(near));
        }
    }

    /// It is too much to be read: rules that are critical take it for a hit, others for not confirmed.
    fn give_up(&mut self, shapes: &AstPatternSet, judge: &mut Judge<'_>, decided: u64) {
        self.is_over = true;
        judge.found.counters.unconfirmed += 1;
        let grammar = self.snippet.take().map(|snippet| snippet.grammar());
        let mut rules: Vec<u32> = grammar
            .into_iter()
            .flat_map(|it| shapes.owners(it))
            .collect();
        rules.dedup();
        let (start, end) = (self.end, self.end);
        for rule in rules {
            if judge.pack.rule(RuleId(rule)).severity == Severity::Critical {
                let place = Detection {
                    start,
                    end,
                    decided,
                };
                judge.found_by_detector(RuleId(rule), None, place, None);
            }
        }
        // Nothing of it is wanted any more.
        *self = Code {
            is_over: true,
            ..Code::new(None)
        };
    }
}

fn budget(judge: &Judge<'_>) -> Budget {
    Budget {
        steps: judge.pack.limits().ast_steps,
    }
}

impl std::fmt::Debug for Trees {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trees")
            .field("code", &self.code)
            .field("unnamed", &self.unnamed)
            .finish_non_exhaustive()
    }
}
