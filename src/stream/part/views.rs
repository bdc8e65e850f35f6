//! The views of one part: the haystacks they make of it, and what reads those.
//!
//! A reader is there for each [`Sight`] that rules of the channel have. It reads each longest run of what it
//! sees as a haystack of its own; without regions, the whole haystack, folded.

use std::sync::Arc;

use super::judge::Judge;
use super::reader::Reader;
#[cfg(feature = "ast")]
use super::trees::Trees;
use super::watch::Watch;
use crate::pack::{ChannelRules, Source, ViewRules};
use crate::stream::Counters;
use crate::view::chunk::{Chunk, ChunkSink, Tag};
use crate::view::code::CodeView;
use crate::view::edit::{EditLimits, EditView};
use crate::view::fence::MarkdownView;
use crate::view::fold::FoldView;
use crate::view::json::ArgPath;
use crate::view::path::normalise;
use crate::view::shell::{ShellLimits, ShellView};

/// The views that rules of a channel want, of one part.
#[derive(Debug)]
pub(super) struct Views {
    /// By [`ChannelRules::views`].
    readers: Box<[Sighted]>,
    /// Detectors, in the order of [`ChannelRules::watches`].
    watches: Box<[Watch]>,
    markdown: Option<MarkdownView>,
    /// Where what Markdown has handed on ends, whoever sees it.
    handed: u64,
    edits: Option<EditView>,
    shell: Option<ShellView>,
    /// Where rules tell comments and strings from other code.
    code: Option<CodeView>,
    /// Where rules look for shapes of code.
    #[cfg(feature = "ast")]
    trees: Option<Trees>,
    /// The file that an edit is of, where the text says so.
    file: Option<Arc<str>>,
    /// The argument that the last command is of: of a list of words, the list.
    command: Option<ArgPath>,
    /// Whether a value began of which no byte has come.
    is_fresh: bool,
}

/// What reads for one sight.
#[derive(Debug)]
struct Sighted {
    reader: Reader,
    fold: Option<FoldView>,
    /// Whether what comes now is seen.
    sees: bool,
    /// Whether a haystack is open.
    is_open: bool,
    /// Where what was read last ends.
    end: u64,
}

impl Views {
    /// None where rules want none.
    pub(super) fn new(rules: &ChannelRules, is_tool_input: bool) -> Option<Box<Views>> {
        let watches = rules.watches.iter();
        let watches: Box<[Watch]> = watches
            .filter_map(|watched| Watch::new(watched, is_tool_input))
            .collect();
        #[cfg(feature = "ast")]
        let shapes = rules.shapes.as_ref();
        #[cfg(feature = "ast")]
        let trees = shapes.map(|_| Trees::new(Source::of_code(is_tool_input)));
        #[cfg(feature = "ast")]
        let has_trees = trees.is_some();
        #[cfg(not(feature = "ast"))]
        let has_trees = false;
        if rules.views.is_empty() && watches.is_empty() && !has_trees {
            return None;
        }
        Some(Box::new(Views {
            readers: rules.views.iter().map(Sighted::new).collect(),
            watches,
            markdown: rules
                .wants(Source::Markdown, is_tool_input)
                .then(MarkdownView::new),
            handed: 0,
            edits: rules
                .wants(Source::Edits, is_tool_input)
                .then(|| EditView::new(EditLimits::default())),
            shell: rules
                .wants(Source::Shell, is_tool_input)
                .then(|| ShellView::new(ShellLimits::default())),
            code: rules.tells_code_apart().then(CodeView::default),
            #[cfg(feature = "ast")]
            trees,
            file: None,
            command: None,
            is_fresh: false,
        }))
    }

    /// A value of a tool input begins.
    pub(super) fn open(&mut self, arg: &ArgPath) {
        self.edits.iter_mut().for_each(|edits| edits.open(arg));
        self.shell.iter_mut().for_each(|shell| shell.open(arg));
        self.is_fresh = self.shell.is_some();
    }

    /// Reads a piece of the text, of the value, or of an object key. A key is neither an edit nor a command, so
    /// it is read only as it stands or folded.
    pub(super) fn take(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, piece: &Chunk<'_>) {
        self.each_whole(judge, |reader, judge, view| {
            reader.take(view, judge, arg, *piece);
        });
        let is_key = arg.is_some_and(ArgPath::is_key);
        let whole = self.watches.iter_mut();
        whole
            .filter(|watch| watch.source.is_none() && (!is_key || watch.reads_keys()))
            .for_each(|watch| watch.take(judge, arg, *piece));
        if is_key {
            return;
        }
        if self.markdown.is_some() || self.edits.is_some() {
            self.pass(
                judge,
                |markdown, sink| markdown.push(*piece, sink),
                |edits, sink| edits.push(*piece, sink),
                |_, _| (),
            );
        }
        if self.shell.is_none() {
            return;
        }
        if !piece.bytes.is_empty() {
            self.enter(judge, arg, piece.decided(0));
        }
        self.pass(
            judge,
            |_, _| (),
            |_, _| (),
            |shell, sink| shell.push(piece, sink),
        );
    }

    /// At the first byte of a value, or its end: the last command is over, and what follows is of this argument.
    fn enter(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, now: u64) {
        if !std::mem::take(&mut self.is_fresh) {
            return;
        }
        self.pass(
            judge,
            |_, _| (),
            |_, _| (),
            |shell, sink| shell.begin_value(now, sink),
        );
        if let Some(is_word) = self.shell.as_ref().and_then(ShellView::reads) {
            self.command = arg.cloned();
            if let (Some(list), true) = (&mut self.command, is_word) {
                list.pop();
            }
        }
    }

    /// The text or the value ends at `end`.
    pub(super) fn close(
        &mut self,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        end: u64,
        decided: u64,
    ) {
        self.each_whole(judge, |reader, judge, view| {
            reader.finish(view, judge, arg, end, decided);
        });
        let is_key = arg.is_some_and(ArgPath::is_key);
        let whole = self.watches.iter_mut();
        whole
            .filter(|watch| watch.source.is_none() && (!is_key || watch.reads_keys()))
            .for_each(|watch| watch.cut(judge, arg, decided));
        if is_key {
            return;
        }
        self.pass(
            judge,
            |markdown, sink| markdown.cut(end, decided, sink),
            |edits, sink| edits.close(end, decided, sink),
            |_, _| (),
        );
        self.enter(judge, arg, decided.max(end));
        self.pass(
            judge,
            |_, _| (),
            |_, _| (),
            |shell, sink| shell.close(end, decided, sink),
        );
    }

    /// The part ends, after so many bytes.
    pub(super) fn finish(&mut self, judge: &mut Judge<'_>, end: u64) {
        self.pass(
            judge,
            |_, sink| sink.cut(end, end),
            |edits, sink| edits.finish(end, sink),
            |shell, sink| shell.finish(end, sink),
        );
        let behind = self.watches.iter_mut();
        behind
            .filter(|watch| watch.source.is_some())
            .for_each(|watch| watch.finish(judge, None, end));
        let rules = judge.rules;
        for (reader, view) in self.readers.iter_mut().zip(&rules.views) {
            let arg = match view.sight.source {
                Some(Source::Shell) => self.command.as_ref(),
                _ => None,
            };
            reader.finish(view, judge, arg, reader.end, end);
        }
        judge.view = &rules.raw;
    }

    /// Where the text begins that a rule that holds has not decided.
    pub(super) fn undecided_from(&self, rules: &ChannelRules) -> Option<u64> {
        let held = self.readers.iter().zip(&rules.views);
        let held = held.filter(|(_, view)| view.spans.iter().any(|spans| spans.holds));
        let read = held.map(|(reader, view)| {
            let handed = match view.sight.source {
                None => reader.end,
                Some(source) => self.handed_by(source),
            };
            reader.undecided_from(view).unwrap_or(handed).min(handed)
        });
        let held = self.watches.iter().filter(|watch| watch.holds);
        let watched = held.map(|watch| {
            // What no view holds back was read.
            let handed = watch.source.map_or(u64::MAX, |it| self.handed_by(it));
            watch.undecided_from().unwrap_or(handed).min(handed)
        });
        read.chain(watched).min()
    }

    /// Up to where in the part the view holds nothing back.
    fn handed_by(&self, source: Source) -> u64 {
        match source {
            Source::Markdown => self.handed,
            // What edits and commands have does not come in order.
            Source::Edits | Source::Shell => 0,
        }
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        if let Some(edits) = &self.edits {
            let edits = edits.counters();
            counters.long_paths += edits.long_paths;
            counters.released_edits += edits.released + edits.long_lines + edits.forgotten;
        }
        let folds = self
            .readers
            .iter()
            .filter_map(|reader| reader.fold.as_ref());
        counters.overlong_folds += folds.map(FoldView::overlong).sum::<u64>();
        if let Some(shell) = &self.shell {
            counters.cut_commands += shell.counters().total();
        }
    }

    /// Those that see all of a haystack, only folded.
    fn each_whole<'r>(
        &mut self,
        judge: &mut Judge<'r>,
        mut on: impl FnMut(&mut Sighted, &mut Judge<'r>, &'r ViewRules),
    ) {
        let rules = judge.rules;
        for (reader, view) in self.readers.iter_mut().zip(&rules.views) {
            if view.sight.source.is_none() {
                on(reader, judge, view);
            }
        }
        judge.view = &rules.raw;
    }

    /// Hands something to each view that is there, each with the readers behind it.
    fn pass(
        &mut self,
        judge: &mut Judge<'_>,
        markdown: impl FnOnce(&mut MarkdownView, &mut Coded<'_, '_, '_>),
        edits: impl FnOnce(&mut EditView, &mut Coded<'_, '_, '_>),
        shell: impl FnOnce(&mut ShellView, &mut Split<'_, '_>),
    ) {
        let raw = &judge.rules.raw;
        let mut sink = Split {
            readers: &mut self.readers,
            watches: &mut self.watches,
            #[cfg(feature = "ast")]
            trees: &mut self.trees,
            file: &mut self.file,
            handed: &mut self.handed,
            arg: None,
            source: Source::Markdown,
            judge,
        };
        if let Some(view) = &mut self.markdown {
            let code = self.code.as_mut();
            markdown(
                view,
                &mut Coded {
                    code,
                    sink: &mut sink,
                },
            );
        }
        if let Some(view) = &mut self.edits {
            sink.source = Source::Edits;
            sink.judge.file.clone_from(sink.file);
            let code = self.code.as_mut();
            edits(
                view,
                &mut Coded {
                    code,
                    sink: &mut sink,
                },
            );
            sink.judge.file = None;
        }
        if let Some(view) = &mut self.shell {
            sink.source = Source::Shell;
            sink.arg = self.command.as_ref();
            shell(view, &mut sink);
        }
        judge.view = raw;
    }
}

impl Sighted {
    fn new(rules: &ViewRules) -> Sighted {
        let folds = rules.sight.folds;
        Sighted {
            reader: Reader::new(rules),
            fold: (!folds.is_empty()).then(|| FoldView::new(folds)),
            sees: rules.sight.source.is_none(),
            is_open: false,
            end: 0,
        }
    }

    #[inline]
    fn take<'r>(
        &mut self,
        view: &'r ViewRules,
        judge: &mut Judge<'r>,
        arg: Option<&ArgPath>,
        piece: Chunk<'_>,
    ) {
        if !self.sees || piece.bytes.is_empty() {
            return;
        }
        judge.view = view;
        if !self.is_open {
            self.reader.restart(view);
            self.is_open = true;
        }
        let Sighted { reader, fold, .. } = self;
        match fold {
            Some(fold) => fold.push(piece, &mut |piece| reader.take(judge, arg, piece)),
            None => reader.take(judge, arg, piece),
        }
        self.end = piece.end(piece.bytes.len() - 1);
    }

    /// Where the text begins that a rule that holds has not decided.
    fn undecided_from(&self, view: &ViewRules) -> Option<u64> {
        let folding = self.fold.as_ref().and_then(FoldView::pending_from);
        let reading = self.reader.undecided_from(view);
        folding.into_iter().chain(reading).min()
    }

    /// Ends the haystack, if one is open.
    fn finish<'r>(
        &mut self,
        view: &'r ViewRules,
        judge: &mut Judge<'r>,
        arg: Option<&ArgPath>,
        end: u64,
        decided: u64,
    ) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        judge.view = view;
        let Sighted { reader, fold, .. } = self;
        if let Some(fold) = fold {
            fold.finish(decided, &mut |piece| reader.take(judge, arg, piece));
        }
        reader.finish(judge, arg, end, decided);
    }
}

/// Splits what a view hands on among the readers that see it.
struct Split<'v, 'j> {
    readers: &'v mut [Sighted],
    watches: &'v mut [Watch],
    #[cfg(feature = "ast")]
    trees: &'v mut Option<Trees>,
    file: &'v mut Option<Arc<str>>,
    /// Where what Markdown has handed on ends.
    handed: &'v mut u64,
    /// The argument that it stands in, where it is one.
    arg: Option<&'v ArgPath>,
    source: Source,
    judge: &'v mut Judge<'j>,
}

impl<'j> Split<'_, 'j> {
    #[inline]
    fn each(&mut self, mut on: impl FnMut(&mut Sighted, &'j ViewRules, &mut Judge<'j>)) {
        for (reader, view) in self.readers.iter_mut().zip(&self.judge.rules.views) {
            if view.sight.source == Some(self.source) {
                on(reader, view, self.judge);
            }
        }
    }
}

impl Split<'_, '_> {
    /// Does something with the trees, if they read behind this view.
    #[cfg(feature = "ast")]
    #[inline]
    fn with_trees(&mut self, on: impl FnOnce(&mut Trees, &mut Judge<'_>)) {
        let source = self.source;
        let trees = self.trees.as_mut();
        if let Some(trees) = trees.filter(|trees| trees.source() == source) {
            on(trees, self.judge);
        }
    }

    #[inline]
    fn each_watch(&mut self, mut on: impl FnMut(&mut Watch, &mut Judge<'_>)) {
        let source = Some(self.source);
        for watch in self
            .watches
            .iter_mut()
            .filter(|watch| watch.source == source)
        {
            on(watch, self.judge);
        }
    }
}

impl ChunkSink for Split<'_, '_> {
    fn set_tag(&mut self, tag: Tag, _at: u64, decided: u64) {
        #[cfg(feature = "ast")]
        self.with_trees(|trees, judge| trees.turn(tag, judge, decided));
        let arg = self.arg;
        self.each_watch(|watch, judge| watch.turn(tag, judge, decided));
        self.each(|reader, view, judge| {
            reader.sees = view.sight.sees(tag);
            if !reader.sees {
                let end = reader.end;
                reader.finish(view, judge, arg, end, decided.max(end));
            }
        });
    }

    #[inline]
    fn push(&mut self, piece: Chunk<'_>) {
        if self.source == Source::Markdown {
            *self.handed = piece.end(piece.bytes.len() - 1);
        }
        #[cfg(feature = "ast")]
        self.with_trees(|trees, judge| trees.take(judge, piece));
        let arg = self.arg;
        self.each(|reader, view, judge| reader.take(view, judge, arg, piece));
        self.each_watch(|watch, judge| watch.take(judge, None, piece));
    }

    fn cut(&mut self, end: u64, decided: u64) {
        #[cfg(feature = "ast")]
        self.with_trees(|trees, judge| trees.cut(judge, decided.max(end)));
        let arg = self.arg;
        self.each_watch(|watch, judge| watch.cut(judge, None, decided.max(end)));
        self.each(|reader, view, judge| {
            let last = reader.end.min(end);
            reader.finish(view, judge, arg, last, decided.max(end));
        });
    }

    fn set_file(&mut self, path: &str, decided: u64) {
        let path = normalise(path, self.judge.pack.root());
        let file = (!path.is_empty()).then(|| Arc::from(path.as_str()));
        self.file.clone_from(&file);
        self.judge.file = file;
        #[cfg(feature = "ast")]
        self.with_trees(|trees, judge| trees.file(&path, judge, decided));
        #[cfg(not(feature = "ast"))]
        let _ = decided;
    }
}

/// Tells comments and strings from the rest of code, where rules do, before it is split.
struct Coded<'c, 'v, 'j> {
    code: Option<&'c mut CodeView>,
    sink: &'c mut Split<'v, 'j>,
}

impl ChunkSink for Coded<'_, '_, '_> {
    fn set_tag(&mut self, tag: Tag, at: u64, decided: u64) {
        match &mut self.code {
            Some(code) => code.set_tag(tag, at, decided, self.sink),
            None => self.sink.set_tag(tag, at, decided),
        }
    }

    fn push(&mut self, piece: Chunk<'_>) {
        match &mut self.code {
            Some(code) => code.push(piece, self.sink),
            None => self.sink.push(piece),
        }
    }

    fn cut(&mut self, end: u64, decided: u64) {
        match &mut self.code {
            Some(code) => code.cut(end, decided, self.sink),
            None => self.sink.cut(end, decided),
        }
    }

    fn set_file(&mut self, path: &str, decided: u64) {
        self.sink.set_file(path, decided);
    }
}

#[cfg(test)]
mod tests;
