//! The views of one part, and the readers of their output.
//!
//! There is a reader for each [`ViewKey`] of the channel. It reads each longest run of text
//! that its key sees as a haystack of its own; without regions, the whole haystack, folded.
//!
//! # Invariants
//!
//! 1. The views read the same chunk one after the other, and each passes its output on at once, to the syntax trees,
//!    the detectors and the readers that see it. None of these reads what another has found, and the matches of a call
//!    are sorted by the byte at which they became certain (invariants 1 and 3 of `admit`). So the order decides
//!    nothing.
//! 2. A change of the region reaches all of them before the first chunk of that region, so each can end what it was
//!    reading. The file of an edit is set before the trees learn of it, because they then match the blocks that waited
//!    for its name.
//! 3. A reader has a haystack from the first chunk that its key sees to the end of the region, the value or the part.
//!    Only an open haystack is ended, so `close` and `finish` may both end a reader.
//! 4. The output of Markdown is in the order of offsets: what it has not emitted lies after `markdown_end`. That of
//!    edits and commands is not, so as long as a rule that holds reads them nothing after the start of the part is
//!    released.
//! 5. Deferred text is stepped by the product of all readers ([`add_members`](Views::add_members)), and all of them
//!    [advance](Views::advance) over it.

use std::sync::Arc;

use super::admit::{Admission, HaystackScope};
#[cfg(feature = "ast")]
use super::ast::CodeTrees;
use super::commands::CallCommandReader;
use super::deferred::{MemberList, SteppedText};
use super::detectors::DetectorReader;
use crate::program::{ChannelRules, ViewKey, ViewRules, ViewSource};
use crate::rule::Channel;
use crate::stream::Counters;
use code::{CodeReader, CodeTagger};
use reader::ViewReader;
use ttsr_views::chunk::{Chunk, ChunkSink, DecidedOffset, RegionSet, Tag};
use ttsr_views::edit::{EditLimits, EditView};
use ttsr_views::fold::FoldView;
use ttsr_views::json::ArgPath;
use ttsr_views::markdown::{MarkdownView, VerbatimState};
use ttsr_views::path::normalise;
use ttsr_views::shell::{ShellLimits, ShellView};

mod code;
mod reader;

/// The views that the rules of a channel need, for one part.
#[derive(Debug)]
pub(super) struct Views {
    markdown: Option<MarkdownView>,
    // Those of tool input are boxed: a part of text has no room for them.
    edits: Option<Box<EditView>>,
    shell: Option<Box<ShellView>>,
    /// Set if a rule distinguishes comments, strings and the rest of code.
    code: Option<CodeReader>,
    /// Set if a rule has command patterns.
    commands: Option<Box<CallCommandReader>>,
    /// The argument that the current command is in. For a command given as a list of words, the list.
    command: Option<ArgPath>,
    /// True if a value was opened and none of its bytes has arrived.
    is_fresh: bool,
    outputs: ViewOutputs,
    /// In the order of [`ChannelRules::detectors`].
    detectors: Box<[DetectorReader]>,
}

/// The readers of the views' output but the detectors, and what they share.
#[derive(Debug)]
struct ViewOutputs {
    /// In the order of [`ChannelRules::views`].
    readers: Box<[ViewReader]>,
    /// Set if a rule has syntax-tree patterns.
    #[cfg(feature = "ast")]
    trees: Option<CodeTrees>,
    /// The file that an edit changes, if the text names it.
    file: Option<Arc<str>>,
    /// Offset of the end of the last Markdown output.
    markdown_end: u64,
}

impl Views {
    /// Returns `None` if the rules of the channel need no views.
    pub(super) fn new(rules: &ChannelRules, channel: Channel) -> Option<Box<Views>> {
        let detectors = rules.detectors.iter();
        let detectors: Box<[DetectorReader]> = detectors
            .filter_map(|detector| DetectorReader::new(detector, channel))
            .collect();
        #[cfg(feature = "ast")]
        let shapes = rules.shapes.as_ref();
        #[cfg(feature = "ast")]
        let trees = shapes.map(|_| CodeTrees::new(ViewSource::code_view(channel)));
        #[cfg(feature = "ast")]
        let has_trees = trees.is_some();
        #[cfg(not(feature = "ast"))]
        let has_trees = false;
        let has_commands = !rules.commands.is_empty();
        if rules.views.is_empty() && detectors.is_empty() && !has_trees && !has_commands {
            return None;
        }
        let wants = |source: ViewSource| rules.wants(source, channel);
        Some(Box::new(Views {
            markdown: wants(ViewSource::Markdown).then(MarkdownView::new),
            edits: wants(ViewSource::Edits).then(|| Box::new(EditView::new(EditLimits::default()))),
            shell: wants(ViewSource::Shell)
                .then(|| Box::new(ShellView::new(ShellLimits::default()))),
            code: rules.distinguishes_code().then(CodeReader::default),
            commands: has_commands.then(|| Box::new(CallCommandReader::new())),
            command: None,
            is_fresh: false,
            outputs: ViewOutputs {
                readers: rules.views.iter().map(ViewReader::new).collect(),
                #[cfg(feature = "ast")]
                trees,
                file: None,
                markdown_end: 0,
            },
            detectors,
        }))
    }

    /// Starts a value of a tool input.
    pub(super) fn open_value(&mut self, arg: &ArgPath) {
        self.edits.iter_mut().for_each(|edits| edits.open(arg));
        self.shell.iter_mut().for_each(|shell| shell.open(arg));
        if let Some(commands) = &mut self.commands {
            commands.open(arg);
        }
        self.is_fresh = self.shell.is_some();
    }

    /// Reads a chunk of the text, of a value, or of an object key, which is only read whole.
    pub(super) fn push(
        &mut self,
        admission: &mut Admission<'_>,
        arg: Option<&ArgPath>,
        chunk: &Chunk<'_>,
    ) {
        self.push_whole(admission, HaystackScope::from_arg(arg), *chunk);
        // A key is neither an edit nor a command.
        if arg.is_some_and(ArgPath::is_key) {
            return;
        }
        self.with_markdown(admission, |markdown, sink| markdown.push(*chunk, sink));
        self.with_edits(admission, |edits, sink| edits.push(*chunk, sink));
        if let Some(commands) = &mut self.commands {
            commands.push(admission, arg, chunk);
        }
        if self.shell.is_none() {
            return;
        }
        if !chunk.bytes.is_empty() {
            self.enter_command(admission, arg, chunk.decided(0));
        }
        self.with_shell(admission, |shell, sink| shell.push(chunk, sink));
    }

    /// Adds the matchers that read the text now. Returns false if some text without a match needs more than their steps:
    /// a view changes the text, or the next byte begins a haystack.
    pub(super) fn add_members<'a>(
        &'a self,
        rules: &'a ChannelRules,
        max_held: usize,
        members: &mut MemberList<'a>,
    ) -> bool {
        match self.markdown.as_ref().map(MarkdownView::verbatim_state) {
            None => {}
            Some(Some(state)) => members.set_markdown(state),
            Some(None) => return false,
        }
        self.add_reading_members(rules, max_held, members)
    }

    /// Begins the text of a part that begins with prose, and adds the matchers that read it. Returns false under the
    /// conditions of [`add_members`](Self::add_members).
    pub(super) fn add_members_at_start<'a>(
        &'a mut self,
        rules: &'a ChannelRules,
        max_held: usize,
        members: &mut MemberList<'a>,
    ) -> bool {
        let prose = Tag {
            regions: RegionSet::PROSE,
            ..Tag::default()
        };
        if self.markdown.is_some() {
            members.set_markdown(VerbatimState::START);
        }
        for (reader, view) in self.outputs.readers.iter_mut().zip(&rules.views) {
            reader.accepts_tag = match view.key.source {
                None => true,
                Some(_) => view.key.accepts_tag(prose),
            };
            if reader.accepts_tag {
                reader.open(view, HaystackScope::default());
            }
        }
        self.add_reading_members(rules, max_held, members)
    }

    /// Undoes [`add_members_at_start`](Self::add_members_at_start).
    pub(super) fn return_to_start(&mut self) {
        for reader in &mut self.outputs.readers {
            reader.is_open = false;
        }
    }

    /// Begins prose, which the readers that [`add_members_at_start`](Self::add_members_at_start) has opened read.
    pub(super) fn begin_prose(&mut self) {
        self.markdown.iter_mut().for_each(MarkdownView::begin_prose);
    }

    fn add_reading_members<'a>(
        &'a self,
        rules: &'a ChannelRules,
        max_held: usize,
        members: &mut MemberList<'a>,
    ) -> bool {
        if !self.is_markdown_only() || self.detectors.iter().any(|it| it.holds) {
            return false;
        }
        let readers = self.outputs.readers.iter().zip(&rules.views).enumerate();
        let mut reading = readers.filter(|(_, (reader, _))| reader.accepts_tag);
        reading.all(|(index, (reader, view))| {
            members.add_view(index);
            let haystack = reader.reader.as_ref().filter(|_| reader.is_open);
            reader.fold.is_none()
                && haystack.is_some_and(|it| it.add_members(view, max_held, members))
        })
    }

    /// Advances the readers over deferred text, which Markdown emits unchanged or without the marks of headings.
    pub(super) fn advance(
        &mut self,
        rules: &ChannelRules,
        chunk: Chunk<'_>,
        stepped: &mut SteppedText<'_>,
    ) {
        let end = chunk.end(chunk.bytes.len() - 1);
        if let Some(markdown) = &mut self.markdown {
            markdown.advance(chunk, end);
            self.outputs.markdown_end = end;
        }
        for (reader, view) in self.outputs.readers.iter_mut().zip(&rules.views) {
            if let (true, Some(haystack)) = (reader.accepts_tag, &mut reader.reader) {
                haystack.advance(view, chunk, stepped);
                reader.end = end;
            }
        }
    }

    /// Reads a chunk for the detectors, which the views emit as it is.
    pub(super) fn push_detectors(&mut self, admission: &mut Admission<'_>, chunk: Chunk<'_>) {
        for detector in &mut self.detectors {
            detector.push(admission, HaystackScope::default(), chunk);
        }
    }

    /// Reads a chunk of the text that the detectors have read.
    pub(super) fn push_without_detectors(
        &mut self,
        admission: &mut Admission<'_>,
        chunk: &Chunk<'_>,
    ) {
        debug_assert!(self.is_markdown_only(), "no other view defers text");
        let scope = HaystackScope::default();
        self.outputs.push_whole(admission, scope, *chunk);
        if let Some(markdown) = &mut self.markdown {
            let source = ViewSource::Markdown;
            let fanout = self.outputs.fanout(&mut [], source, None, admission);
            markdown.push(*chunk, &mut CodeTagger::new(self.code.as_mut(), fanout));
        }
    }

    /// Returns a number of bytes within which no detector can report, whatever they are.
    pub(super) fn bytes_until_report(&self) -> usize {
        let detectors = self.detectors.iter();
        let until_report = detectors.map(DetectorReader::bytes_until_report);
        until_report.min().unwrap_or(usize::MAX)
    }

    /// Returns true if no view but Markdown reads the part, and nothing needs its output but readers and detectors.
    fn is_markdown_only(&self) -> bool {
        #[cfg(feature = "ast")]
        if self.outputs.trees.is_some() {
            return false;
        }
        self.edits.is_none()
            && self.shell.is_none()
            && self.code.is_none()
            && self.commands.is_none()
    }

    /// Reads a chunk for the readers and detectors that see the whole haystack.
    fn push_whole(
        &mut self,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        chunk: Chunk<'_>,
    ) {
        self.outputs.push_whole(admission, scope, chunk);
        for detector in whole_detectors(&mut self.detectors, scope) {
            detector.push(admission, scope, chunk);
        }
    }

    /// Ends the last command at the first byte of the next value, or at its end if it is empty.
    fn enter_command(
        &mut self,
        admission: &mut Admission<'_>,
        arg: Option<&ArgPath>,
        decided: u64,
    ) {
        if !std::mem::take(&mut self.is_fresh) {
            return;
        }
        // `command` still has the argument of the last command, in which that command ends.
        self.with_shell(admission, |shell, sink| shell.begin_value(decided, sink));
        if let Some(is_word) = self.shell.as_deref().and_then(ShellView::reads) {
            self.command = arg.cloned();
            if let (Some(list), true) = (&mut self.command, is_word) {
                list.pop();
            }
        }
    }

    /// Ends the text or the value.
    pub(super) fn close(
        &mut self,
        admission: &mut Admission<'_>,
        arg: Option<&ArgPath>,
        end: DecidedOffset,
    ) {
        let scope = HaystackScope::from_arg(arg);
        let rules = admission.context.rules;
        for (reader, view) in self.outputs.readers.iter_mut().zip(&rules.views) {
            if view.key.source.is_none() {
                reader.finish(view, admission, scope, end);
            }
        }
        for detector in whole_detectors(&mut self.detectors, scope) {
            detector.cut(admission, scope, end.decided);
        }
        if arg.is_some_and(ArgPath::is_key) {
            return;
        }
        self.with_markdown(admission, |markdown, sink| markdown.cut(end, sink));
        self.with_edits(admission, |edits, sink| edits.close(end, sink));
        if let Some(commands) = &mut self.commands {
            commands.close(admission, arg, end);
        }
        self.enter_command(admission, arg, end.decided());
        self.with_shell(admission, |shell, sink| shell.close(end, sink));
    }

    /// Ends the part, which has `end` bytes.
    pub(super) fn finish(&mut self, admission: &mut Admission<'_>, end: u64) {
        // The views end first, because each may hold text back that the readers have not read.
        self.with_markdown(admission, |_, sink| sink.cut(DecidedOffset::at_once(end)));
        self.with_edits(admission, |edits, sink| edits.finish(end, sink));
        self.with_shell(admission, |shell, sink| shell.finish(end, sink));
        if let Some(commands) = &mut self.commands {
            commands.finish(admission, end);
        }
        let detectors = self.detectors.iter_mut();
        for detector in detectors.filter(|it| it.source.is_some()) {
            detector.finish(admission, HaystackScope::default(), end);
        }
        let rules = admission.context.rules;
        for (reader, view) in self.outputs.readers.iter_mut().zip(&rules.views) {
            let arg = match view.key.source {
                Some(ViewSource::Shell) => self.command.as_ref(),
                _ => None,
            };
            let last = DecidedOffset {
                offset: reader.end,
                decided: end,
            };
            reader.finish(view, admission, HaystackScope::from_arg(arg), last);
        }
    }

    /// Returns the offset of the first byte that an undecided match of a rule that holds may contain.
    pub(super) fn undecided_from(&self, rules: &ChannelRules) -> Option<u64> {
        let held = self.outputs.readers.iter().zip(&rules.views);
        let held = held.filter(|(_, view)| view.full.iter().any(|full| full.holds()));
        let readers = held.map(|(reader, view)| {
            let emitted = match view.key.source {
                None => reader.end,
                Some(source) => self.emitted_until(source),
            };
            reader.undecided_from(view).unwrap_or(emitted).min(emitted)
        });
        let held = self.detectors.iter().filter(|it| it.holds);
        let detectors = held.map(|detector| {
            // A detector without a view has read everything.
            let source = detector.source;
            let emitted = source.map_or(u64::MAX, |source| self.emitted_until(source));
            detector.undecided_from().unwrap_or(emitted).min(emitted)
        });
        let commands = self.commands.as_ref();
        let commands = commands.and_then(|it| it.undecided_from(&rules.commands));
        readers.chain(detectors).chain(commands).min()
    }

    /// Returns the offset up to which the view holds nothing back.
    fn emitted_until(&self, source: ViewSource) -> u64 {
        match source {
            ViewSource::Markdown => self.outputs.markdown_end,
            // The output of edits and commands is not in the order of offsets.
            ViewSource::Edits | ViewSource::Shell => 0,
        }
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        if let Some(edits) = &self.edits {
            let edits = edits.counters();
            counters.long_paths += edits.long_paths;
            counters.released_edits += edits.released + edits.long_lines + edits.forgotten;
        }
        let readers = self.outputs.readers.iter();
        let folds = readers.filter_map(|reader| reader.fold.as_ref());
        counters.overlong_folds += folds.map(FoldView::overlong).sum::<u64>();
        self.commands.iter().for_each(|it| it.count(counters));
        if let Some(shell) = &self.shell {
            counters.cut_commands += shell.counters().total();
        }
    }

    /// Returns true if some commands could not be read.
    pub(super) fn has_unread_commands(&self) -> bool {
        self.commands
            .as_deref()
            .is_some_and(CallCommandReader::has_unread)
    }

    fn with_markdown(
        &mut self,
        admission: &mut Admission<'_>,
        feed: impl FnOnce(&mut MarkdownView, &mut CodeTagger<'_, '_>),
    ) {
        if let Some(markdown) = &mut self.markdown {
            let (detectors, source) = (&mut self.detectors[..], ViewSource::Markdown);
            let fanout = self.outputs.fanout(detectors, source, None, admission);
            feed(markdown, &mut CodeTagger::new(self.code.as_mut(), fanout));
        }
    }

    fn with_edits(
        &mut self,
        admission: &mut Admission<'_>,
        feed: impl FnOnce(&mut EditView, &mut CodeTagger<'_, '_>),
    ) {
        if let Some(edits) = &mut self.edits {
            let (detectors, source) = (&mut self.detectors[..], ViewSource::Edits);
            let fanout = self.outputs.fanout(detectors, source, None, admission);
            feed(edits, &mut CodeTagger::new(self.code.as_mut(), fanout));
        }
    }

    fn with_shell(
        &mut self,
        admission: &mut Admission<'_>,
        feed: impl FnOnce(&mut ShellView, &mut ViewFanout<'_, '_>),
    ) {
        if let Some(shell) = &mut self.shell {
            let arg = self.command.as_ref();
            let (detectors, source) = (&mut self.detectors[..], ViewSource::Shell);
            let mut fanout = self.outputs.fanout(detectors, source, arg, admission);
            feed(shell, &mut fanout);
        }
    }
}

impl ViewOutputs {
    /// Distributes the output of `source` to these readers and to `detectors`.
    fn fanout<'v, 'j>(
        &'v mut self,
        detectors: &'v mut [DetectorReader],
        source: ViewSource,
        arg: Option<&'v ArgPath>,
        admission: &'v mut Admission<'j>,
    ) -> ViewFanout<'v, 'j> {
        ViewFanout {
            outputs: self,
            detectors,
            source,
            arg,
            admission,
        }
    }

    /// Reads a chunk for the readers that see the whole haystack.
    fn push_whole(
        &mut self,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        chunk: Chunk<'_>,
    ) {
        let rules = admission.context.rules;
        for (reader, view) in self.readers.iter_mut().zip(&rules.views) {
            if view.key.source.is_none() {
                reader.push(view, admission, scope, chunk);
            }
        }
    }
}

/// Returns the detectors that read a haystack in that scope whole.
fn whole_detectors<'d>(
    detectors: &'d mut [DetectorReader],
    scope: HaystackScope<'_>,
) -> impl Iterator<Item = &'d mut DetectorReader> {
    let is_key = scope.arg.is_some_and(ArgPath::is_key);
    let detectors = detectors.iter_mut();
    detectors.filter(move |it| it.source.is_none() && (!is_key || it.reads_keys()))
}

/// Distributes the output of a view to the readers that see it.
struct ViewFanout<'v, 'j> {
    outputs: &'v mut ViewOutputs,
    detectors: &'v mut [DetectorReader],
    source: ViewSource,
    /// The argument that the output belongs to, if it is a single one.
    arg: Option<&'v ArgPath>,
    admission: &'v mut Admission<'j>,
}

/// Returns the scope of the output of `source`: only edits name files.
fn output_scope<'a>(
    source: ViewSource,
    arg: Option<&'a ArgPath>,
    file: &'a Option<Arc<str>>,
) -> HaystackScope<'a> {
    HaystackScope {
        arg,
        file: file.as_ref().filter(|_| source == ViewSource::Edits),
    }
}

impl<'j> ViewFanout<'_, 'j> {
    /// Calls `on` with the readers of the output of this view whose key `reads` accepts.
    #[inline]
    fn for_each_reader(
        &mut self,
        reads: impl Fn(&ViewKey) -> bool,
        mut on: impl FnMut(&mut ViewReader, &'j ViewRules, &mut Admission<'j>, HaystackScope<'_>),
    ) {
        let ViewOutputs { readers, file, .. } = &mut *self.outputs;
        let scope = output_scope(self.source, self.arg, file);
        let rules = self.admission.context.rules;
        for (reader, view) in readers.iter_mut().zip(&rules.views) {
            if view.key.source == Some(self.source) && reads(&view.key) {
                on(reader, view, self.admission, scope);
            }
        }
    }

    #[inline]
    fn for_each_detector(
        &mut self,
        mut on: impl FnMut(&mut DetectorReader, &mut Admission<'j>, HaystackScope<'_>),
    ) {
        let scope = output_scope(self.source, None, &self.outputs.file);
        let source = Some(self.source);
        let detectors = self.detectors.iter_mut();
        for detector in detectors.filter(|it| it.source == source) {
            on(detector, self.admission, scope);
        }
    }

    /// Calls `on` with the syntax trees, if they read the output of this view.
    #[cfg(feature = "ast")]
    #[inline]
    fn with_trees(
        &mut self,
        on: impl FnOnce(&mut CodeTrees, &mut Admission<'j>, HaystackScope<'_>),
    ) {
        let source = self.source;
        let ViewOutputs { trees, file, .. } = &mut *self.outputs;
        let scope = output_scope(source, None, file);
        if let Some(trees) = trees.as_mut().filter(|trees| trees.source() == source) {
            on(trees, self.admission, scope);
        }
    }
}

impl ViewFanout<'_, '_> {
    #[inline]
    fn set_reader_tags(&mut self, reads: impl Fn(&ViewKey) -> bool, tag: Tag, at: DecidedOffset) {
        let decided = at.decided;
        self.for_each_reader(reads, |reader, view, admission, scope| {
            reader.accepts_tag = view.key.accepts_tag(tag);
            if !reader.accepts_tag && !view.key.continues_in(tag) {
                let end = DecidedOffset {
                    offset: reader.end,
                    decided: decided.max(reader.end),
                };
                reader.finish(view, admission, scope, end);
            }
        });
    }

    #[inline]
    fn push_readers(&mut self, reads: impl Fn(&ViewKey) -> bool, chunk: Chunk<'_>) {
        self.for_each_reader(reads, |reader, view, admission, scope| {
            reader.push(view, admission, scope, chunk);
        });
    }

    #[inline]
    fn cut_readers(&mut self, reads: impl Fn(&ViewKey) -> bool, end: DecidedOffset) {
        self.for_each_reader(reads, |reader, view, admission, scope| {
            let end = DecidedOffset {
                offset: reader.end.min(end.offset),
                decided: end.decided(),
            };
            reader.finish(view, admission, scope, end);
        });
    }
}

impl ChunkSink for ViewFanout<'_, '_> {
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset) {
        let decided = at.decided;
        #[cfg(feature = "ast")]
        self.with_trees(|trees, admission, scope| {
            trees.enter_region(tag, admission, scope, decided);
        });
        self.for_each_detector(|detector, admission, scope| {
            detector.enter_region(tag, admission, scope, decided);
        });
        self.set_reader_tags(|_| true, tag, at);
    }

    #[inline]
    fn push(&mut self, chunk: Chunk<'_>) {
        if self.source == ViewSource::Markdown {
            self.outputs.markdown_end = chunk.end(chunk.bytes.len() - 1);
        }
        #[cfg(feature = "ast")]
        self.with_trees(|trees, admission, scope| trees.push(admission, scope, chunk));
        self.push_readers(|_| true, chunk);
        self.for_each_detector(|detector, admission, scope| detector.push(admission, scope, chunk));
    }

    fn cut(&mut self, end: DecidedOffset) {
        let decided = end.decided();
        #[cfg(feature = "ast")]
        self.with_trees(|trees, admission, scope| trees.cut(admission, scope, decided));
        self.for_each_detector(|detector, admission, scope| {
            detector.cut(admission, scope, decided);
        });
        self.cut_readers(|_| true, end);
    }

    fn set_file(&mut self, path: &str, decided: u64) {
        let path = normalise(path, self.admission.context.program.root());
        // Before the trees: blocks that wait for the name are matched now, in the scope of the file.
        self.outputs.file = (!path.is_empty()).then(|| Arc::from(path.as_str()));
        #[cfg(feature = "ast")]
        self.with_trees(|trees, admission, scope| {
            trees.set_file(&path, admission, scope, decided);
        });
        #[cfg(not(feature = "ast"))]
        let _ = decided;
    }
}

#[cfg(test)]
mod tests;
