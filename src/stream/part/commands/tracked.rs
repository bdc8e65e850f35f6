//! A command of a tool call whose patterns may still match, and its buffers.

use std::borrow::Cow;

use crate::program::CommandProgress;
use ttsr_views::command::{CommandId, CommandWord, ParentCommand};

/// The most bytes of a command that are quoted, and of a path or a value that is kept.
pub(super) const TEXT: usize = 1024;

/// Texts in one buffer, which is reused.
#[derive(Debug, Default)]
pub(super) struct TextList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl TextList {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let ranges = starts.zip(self.ends.iter().copied());
        ranges.map(|(from, to)| &self.bytes[from..to])
    }

    /// Returns the texts, which are paths, as UTF-8.
    pub(super) fn paths(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.iter().map(String::from_utf8_lossy)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn copy_from(&mut self, other: &TextList) {
        self.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend_from_slice(&other.ends);
    }
}

/// A command of a call.
#[derive(Debug)]
pub(super) struct TrackedCommand {
    pub(super) id: CommandId,
    pub(super) parent: Option<ParentCommand>,
    pub(super) progress: Vec<CommandProgress>,
    /// The commands whose output is the input of this one, directly or not.
    pub(super) sources: Vec<CommandId>,
    /// The names and the values of the variables, in turn.
    pub(super) variables: TextList,
    /// The files that redirections write and read.
    pub(super) written: TextList,
    pub(super) read: TextList,
    /// True if the operands of the program may be files that it passes on.
    pub(super) passes_files: bool,
    /// True if the operands of the program are URLs.
    pub(super) fetches: bool,
    pub(super) is_ended: bool,
    /// The words so far, joined by blanks.
    pub(super) text: Vec<u8>,
    /// The span of the last word in `text`.
    pub(super) last_word: (u64, u64),
    /// The range of the part from the first to the last word so far.
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Default for TrackedCommand {
    fn default() -> TrackedCommand {
        TrackedCommand {
            id: CommandId(0),
            parent: None,
            progress: Vec::new(),
            sources: Vec::new(),
            variables: TextList::default(),
            written: TextList::default(),
            read: TextList::default(),
            passes_files: true,
            fetches: false,
            is_ended: false,
            text: Vec::new(),
            last_word: (0, 0),
            start: u64::MAX,
            end: 0,
        }
    }
}

impl TrackedCommand {
    /// Empties the command and keeps its buffers.
    pub(super) fn clear(&mut self) {
        let mut buffers = std::mem::take(self);
        buffers.progress.clear();
        buffers.sources.clear();
        buffers.variables.clear();
        buffers.written.clear();
        buffers.read.clear();
        buffers.text.clear();
        *self = TrackedCommand {
            progress: buffers.progress,
            sources: buffers.sources,
            variables: buffers.variables,
            written: buffers.written,
            read: buffers.read,
            text: buffers.text,
            ..TrackedCommand::default()
        };
    }

    /// Adds a word to the quoted text, if a pattern may match. The flags of one word have the same span.
    pub(super) fn quote(&mut self, word: &CommandWord<'_>) {
        if self.progress.is_empty() {
            return;
        }
        let span = (word.span.start, word.span.end);
        self.end = self.end.max(span.1);
        if span == self.last_word && !self.text.is_empty() {
            return;
        }
        self.last_word = span;
        let room = TEXT.saturating_sub(self.text.len());
        if room > 1 {
            if !self.text.is_empty() {
                self.text.push(b' ');
            }
            self.text
                .extend_from_slice(&word.text[..word.text.len().min(room - 1)]);
        }
    }
}
