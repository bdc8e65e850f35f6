//! A command of a tool call whose patterns may still match, and its buffers.

use std::borrow::Cow;

use crate::program::{CommandProgress, CommandSet, ReadMatches, WordNeeds};
use ttsr_views::command::files::{self, ReadOperands, WrittenOperands};
use ttsr_views::command::{CommandId, CommandWord, ParentCommand};

/// The most bytes of a command that are quoted, and of a path or a value that is kept.
pub(super) const MAX_TEXT_BYTES: usize = 1024;

/// The most files that the words of a command name as outputs.
const MAX_OUTPUT_FILES: usize = 4;

/// The span of [`TrackedCommand::last_word`] while code is quoted, which no word has.
const CODE_SPAN: (u64, u64) = (u64::MAX, u64::MAX);

/// The longest name of a program that is kept, in bytes.
pub(super) const MAX_PROGRAM_BYTES: usize = 64;

/// The most commands whose output a command is known to get.
const MAX_SOURCES: usize = 64;

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

/// The use that a program makes of its operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandUse {
    /// True if they may be files that it reads.
    pub(super) are_read: bool,
    /// True if they may be files that it passes on.
    pub(super) are_passed: bool,
    /// True if they are URLs.
    pub(super) are_urls: bool,
    /// The operands that may be files which it reads.
    pub(super) read: ReadOperands,
}

/// The input of a command, and the use of its output.
#[derive(Debug, Default)]
pub(super) struct CommandLinks {
    /// The commands whose output is the input of this one, directly or not.
    pub(super) sources: SourceList,
    /// True if the command is a source of another.
    pub(super) is_source: bool,
    /// True if the command runs its input as code that a pattern has requirements on. It is quoted, because the words do
    /// not contain it.
    pub(super) input_is_code: bool,
}

/// At most [`MAX_SOURCES`] commands.
#[derive(Debug, Default)]
pub(super) struct SourceList {
    /// Sorted.
    ids: Vec<CommandId>,
}

impl SourceList {
    pub(super) fn ids(&self) -> &[CommandId] {
        &self.ids
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn contains(&self, id: CommandId) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// Adds a command, unless the list is full.
    pub(super) fn add(&mut self, id: CommandId) {
        if self.ids.len() == MAX_SOURCES {
            return;
        }
        // Commands are numbered as they begin, and most sources of a list are added in this order.
        if self.ids.last().is_none_or(|last| *last < id) {
            self.ids.push(id);
        } else if let Err(index) = self.ids.binary_search(&id) {
            self.ids.insert(index, id);
        }
    }

    /// Adds the commands of another list, up to the most.
    pub(super) fn add_all(&mut self, others: &SourceList) {
        others.ids.iter().for_each(|id| self.add(*id));
    }

    pub(super) fn clear(&mut self) {
        self.ids.clear();
    }
}

/// The patterns of `pipe-to`, `pipe-from` and `runs` that commands have met, each with the number of these commands.
#[derive(Debug, Default)]
pub(super) struct MetPatterns(Vec<(u32, usize)>);

impl MetPatterns {
    /// Counts a command that has met a pattern.
    pub(super) fn add(&mut self, set: &CommandSet, pattern: u32) {
        if set.pattern(pattern).owner.is_some() {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == pattern) {
            Some((_, count)) => *count += 1,
            None => self.0.push((pattern, 1)),
        }
    }

    /// Takes back a command that has met a pattern. A pattern that is not counted has no effect.
    pub(super) fn remove(&mut self, pattern: u32) {
        let Some(index) = self.0.iter().position(|(known, _)| *known == pattern) else {
            return;
        };
        self.0[index].1 -= 1;
        if self.0[index].1 == 0 {
            self.0.swap_remove(index);
        }
    }

    pub(super) fn contains(&self, pattern: u32) -> bool {
        self.0.iter().any(|(known, _)| *known == pattern)
    }
}

/// A command of a call.
#[derive(Debug)]
pub(super) struct TrackedCommand {
    pub(super) id: CommandId,
    pub(super) parent: Option<ParentCommand>,
    pub(super) progress: Vec<CommandProgress>,
    /// True once the requirements of one of these patterns on the command itself are met.
    pub(super) has_met: bool,
    /// The words that the patterns in `progress` have requirements on.
    pub(super) needs: WordNeeds,
    pub(super) links: CommandLinks,
    /// The names and the values of the variables, in turn.
    pub(super) variables: TextList,
    /// The files that redirections write and read.
    pub(super) written: TextList,
    pub(super) read: TextList,
    /// The results of `reads` for the files in `read`.
    pub(super) read_matches: ReadMatches,
    /// Those of `read` that redirections name, which the commands that this one wraps read too.
    pub(super) redirected: TextList,
    /// The name of the program, at most [`MAX_PROGRAM_BYTES`] bytes.
    pub(super) program: Vec<u8>,
    /// The last operand, which the command may read or write.
    pub(super) waiting: Vec<u8>,
    /// The files that operands and flags name and that the program writes.
    output_files: TextList,
    /// The files that downloads of its URLs are written to, if the program saves them.
    downloads: TextList,
    pub(super) saves_downloads: bool,
    pub(super) operands: OperandUse,
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
            has_met: false,
            needs: WordNeeds::default(),
            links: CommandLinks::default(),
            variables: TextList::default(),
            written: TextList::default(),
            read: TextList::default(),
            read_matches: ReadMatches::default(),
            redirected: TextList::default(),
            program: Vec::new(),
            waiting: Vec::new(),
            output_files: TextList::default(),
            downloads: TextList::default(),
            saves_downloads: false,
            operands: OperandUse {
                are_read: true,
                are_passed: true,
                are_urls: false,
                read: ReadOperands::All,
            },
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
    // In place: a command is several cache lines, and most are only a few words.
    pub(super) fn clear(&mut self) {
        let empty = TrackedCommand::default();
        let TrackedCommand {
            id,
            parent,
            progress,
            has_met,
            needs,
            links,
            variables,
            written,
            read,
            read_matches,
            redirected,
            program,
            waiting,
            output_files,
            downloads,
            saves_downloads,
            operands,
            is_ended,
            text,
            last_word,
            start,
            end,
        } = self;
        progress.clear();
        links.sources.clear();
        (links.is_source, links.input_is_code) = (false, false);
        for texts in [
            variables,
            written,
            read,
            redirected,
            output_files,
            downloads,
        ] {
            texts.clear();
        }
        program.clear();
        waiting.clear();
        text.clear();
        (*id, *parent, *needs) = (empty.id, empty.parent, empty.needs);
        (*saves_downloads, *operands) = (empty.saves_downloads, empty.operands);
        *is_ended = empty.is_ended;
        *has_met = empty.has_met;
        *read_matches = empty.read_matches;
        *last_word = empty.last_word;
        (*start, *end) = (empty.start, empty.end);
    }

    /// Adds an operand that may be a file that the program writes.
    pub(super) fn add_written_operand(&mut self, path: &[u8]) {
        if self.operands.are_urls && self.downloads.len() < MAX_OUTPUT_FILES {
            let file = files::downloaded_file(path).filter(|file| file.len() <= MAX_TEXT_BYTES);
            if let Some(file) = file {
                self.downloads.push(file);
            }
        }
        let assigned = path.strip_prefix(b"of=");
        let is_assigned = assigned.is_some() && self.output_files.len() < MAX_OUTPUT_FILES;
        let path = assigned.unwrap_or(path);
        let keeps = match files::written_operands(&self.program) {
            WrittenOperands::None => return,
            WrittenOperands::All => self.output_files.len() < MAX_OUTPUT_FILES,
            WrittenOperands::Assigned => is_assigned,
            WrittenOperands::First => self.output_files.len() == 0,
            WrittenOperands::Last => {
                self.output_files.clear();
                true
            }
        };
        if keeps && path.len() <= MAX_TEXT_BYTES {
            self.output_files.push(path);
        }
    }

    /// Adds the value of a flag that may be a file that the program writes.
    pub(super) fn add_output(&mut self, flag: &[u8], path: &[u8]) {
        let is_written = files::is_written(&self.program, flag);
        if is_written && self.output_files.len() < MAX_OUTPUT_FILES && path.len() <= MAX_TEXT_BYTES
        {
            self.output_files.push(path);
        }
    }

    pub(super) fn add_flag(&mut self, flag: &[u8]) {
        self.saves_downloads |= files::saves_downloads(&self.program, Some(flag));
    }

    /// Returns the files that the command writes: the targets of its redirections, and those that its words name.
    pub(super) fn written_files(&self) -> impl Iterator<Item = &[u8]> {
        let downloads = self.downloads.iter().filter(|_| self.saves_downloads);
        self.written
            .iter()
            .chain(self.output_files.iter())
            .chain(downloads)
    }

    /// Adds code that the command reads from its standard input to the quoted text.
    pub(super) fn quote_code(&mut self, code: &[u8]) {
        if !self.links.input_is_code {
            return;
        }
        let begins = self.last_word != CODE_SPAN;
        self.last_word = CODE_SPAN;
        let room = MAX_TEXT_BYTES.saturating_sub(self.text.len());
        if room > 1 {
            if begins {
                self.text.push(b' ');
            }
            self.text
                .extend_from_slice(&code[..code.len().min(room - 1)]);
        }
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
        let room = MAX_TEXT_BYTES.saturating_sub(self.text.len());
        if room > 1 {
            if !self.text.is_empty() {
                self.text.push(b' ');
            }
            self.text
                .extend_from_slice(&word.text[..word.text.len().min(room - 1)]);
        }
    }
}
