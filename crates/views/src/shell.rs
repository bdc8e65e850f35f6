//! The commands of a shell text. Each simple command is one haystack: its words without quotes and escapes, joined by
//! one space, tagged [`RegionSet::SHELL`](super::chunk::RegionSet::SHELL).
//!
//! This is a lexer. It expands and runs nothing, so it does not see the effects of `eval`, aliases, variables, encoded
//! text or a heredoc that is passed to a shell.
//!
//! # Haystacks
//!
//! - A command ends at `;`, `&`, `&&`, `|`, `||`, `|&`, a newline, `(` or `)`. Keywords, comments, bodies of heredocs
//!   and the assignments before a command are left out.
//! - A substitution appears in its word as `$()`, `` `` ``, `<()` or `>()`; its content is a command of its own. `${…}`
//!   and `$((…))` appear as written, except for substitutions inside them.
//! - A redirection is a haystack of its own, `>> file`, without the file descriptor before it.
//! - After a wrapper such as `sudo`, `env` or `xargs` a command is emitted twice: as written, and from the first word
//!   that is neither a wrapper nor an option or an assignment of one.
//! - The script passed to `sh -c` and to other shells is read as a shell text too, one level deep.
//!
//! # Order and timing
//!
//! - The haystack of a command precedes the haystacks of the commands inside it.
//! - A nested command is buffered until the outermost command ends.
//! - A word that can still be a keyword, an assignment or an option is emitted when it ends, or every [`MAX_WORD`]
//!   bytes.
//! - An argument of the outermost command is emitted as it arrives. Only its leading digits wait, because they can be
//!   the file descriptor of a redirection.

mod command;
mod emit;
mod heredoc;
mod metachars;
mod nesting;
mod pending;
mod unquoted;
pub(crate) mod word;
mod words;

use super::chunk::{Chunk, ChunkBuffer, ChunkSink, DecidedOffset, OffsetMap};
use super::json::{ArgPath, RAW};
use command::SimpleCommand;
use emit::QueuedCommand;
use heredoc::{HeredocBody, HeredocDelimiter};
use word::AnsiEscape;

/// The most bytes of a word that are buffered. No keyword, option or heredoc delimiter is longer.
pub const MAX_WORD: usize = 256;

/// The limits on nesting and buffering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellLimits {
    /// The most nested quotes and substitutions. A deeper one is read as part of its word.
    pub depth: usize,
    /// The most bytes of nested commands buffered until the outer one ends. Beyond it the outer command and the
    /// buffered ones are each cut into two haystacks.
    pub waiting: usize,
}

impl Default for ShellLimits {
    fn default() -> ShellLimits {
        ShellLimits {
            depth: 32,
            waiting: 64 << 10,
        }
    }
}

/// Counts of the limits that were reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShellCounters {
    /// The number of quotes and substitutions that were nested too deep.
    pub too_deep: u64,
    /// The number of times that commands were cut because too many bytes were buffered.
    pub cut: u64,
    /// The number of scripts of `sh -c` that were too long to be read. They were still emitted as words.
    pub long_scripts: u64,
}

impl ShellCounters {
    /// Returns the sum of all counts.
    #[inline]
    pub fn total(&self) -> u64 {
        self.too_deep + self.cut + self.long_scripts
    }
}

/// The shell view of one part.
#[derive(Clone, Debug)]
pub struct ShellView {
    limits: ShellLimits,
    source: ShellInput,
    /// True if the value that starts is not the next word of the current command.
    restarts: bool,
    frames: Vec<ShellContext>,
    /// The commands being read, outermost first: one, and one for each open substitution.
    commands: Vec<SimpleCommand>,
    pending: PendingToken,
    /// The bytes of `pending`, each with its offsets and `decided`.
    pending_bytes: Vec<(u8, OffsetMap, u64)>,
    comment: bool,
    /// The number of parentheses to close before a substitution that is too deep ends.
    skipped: u32,
    heredocs: Vec<HeredocDelimiter>,
    body: Option<HeredocBody>,
    /// The complete commands that wait for the end of the outermost one.
    queue: ChunkBuffer,
    queued: Vec<QueuedCommand>,
    scripts: ScriptReading,
    /// The end of what was emitted of the outermost command; `None` if its haystack has not started.
    open: Option<u64>,
    counters: ShellCounters,
}

/// The reading of the script of `sh -c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptReading {
    /// Its commands are read.
    Commands,
    /// It is one word, because it is in another script.
    Word,
}

/// The role of the current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShellInput {
    None,
    Text,
    /// An element of an array of words.
    Word,
}

/// The innermost construct that contains the current byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShellContext {
    /// A list of commands, with the number of parentheses open in it.
    Commands(CommandScope, u32),
    Single,
    /// `$'`
    Ansi,
    Double,
    /// `${`
    Brace {
        quoted: bool,
    },
    /// `$((`, with the number of parentheses to close.
    Arithmetic(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandScope {
    Outermost,
    /// `$(`, `<(`, `>(`
    Parens,
    Backquotes,
}

/// A token whose meaning depends on the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingToken {
    None,
    Backslash,
    Dollar,
    DollarParen,
    Operator,
    Escape(AnsiEscape),
}

/// The keys of texts that are shell text.
pub(crate) const TEXT_KEYS: [&str; 4] = ["command", "cmd", "script", "input"];

/// The key of an array whose elements are shell text, one command after the other.
pub(crate) const TEXT_LIST_KEY: &str = "commands";

/// The keys of arrays whose elements are the words of a command.
pub(crate) const WORD_KEYS: [&str; 3] = ["command", "cmd", "argv"];

/// Returns true if a glob on arguments can select one that commands are read from.
#[must_use]
pub fn may_have_commands(glob: &str) -> bool {
    let (list, last) = match glob.rsplit_once('.') {
        Some((before, last)) => (before.rsplit('.').next().unwrap_or(before), last),
        None => ("", glob),
    };
    let is_glob = |name: &str| name.contains(['*', '?', '[', ']', '{', '}', ',', '\\']);
    let is_list = is_glob(list) || list == TEXT_LIST_KEY || WORD_KEYS.contains(&list);
    let is_index = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    is_glob(last) || last == RAW || TEXT_KEYS.contains(&last) || is_index && is_list
}

impl ShellInput {
    /// Returns the role of the value at a path.
    pub(crate) fn from_path(path: &ArgPath) -> ShellInput {
        let depth = path.len();
        let key = |index: usize| path.segment(index).unwrap_or_default();
        let last = path.last().unwrap_or_default();
        let list = match depth > 1 && last.bytes().all(|byte| byte.is_ascii_digit()) {
            true => key(depth - 2),
            false => "",
        };
        if last == RAW || TEXT_KEYS.contains(&last) || list == TEXT_LIST_KEY {
            ShellInput::Text
        } else if WORD_KEYS.contains(&list) {
            ShellInput::Word
        } else {
            ShellInput::None
        }
    }

    /// Returns true for one word of a list, false for a text of commands, and `None` for any other value.
    #[inline]
    pub(crate) fn reads(self) -> Option<bool> {
        match self {
            ShellInput::None => None,
            ShellInput::Text => Some(false),
            ShellInput::Word => Some(true),
        }
    }
}

impl ShellView {
    /// Creates a view of one part.
    pub fn new(limits: ShellLimits) -> ShellView {
        ShellView {
            limits,
            source: ShellInput::None,
            restarts: false,
            frames: vec![ShellContext::Commands(CommandScope::Outermost, 0)],
            commands: vec![SimpleCommand::default()],
            pending: PendingToken::None,
            pending_bytes: Vec::new(),
            comment: false,
            skipped: 0,
            heredocs: Vec::new(),
            body: None,
            queue: ChunkBuffer::default(),
            queued: Vec::new(),
            scripts: ScriptReading::Commands,
            open: None,
            counters: ShellCounters::default(),
        }
    }

    /// Returns the counts of the limits that were reached so far.
    #[inline]
    pub fn counters(&self) -> ShellCounters {
        self.counters
    }

    /// Starts a value: a text, a word of a command, or neither.
    pub fn open(&mut self, path: &ArgPath) {
        self.source = ShellInput::from_path(path);
        self.restarts = self.source != ShellInput::Word || path.last() == Some("0");
    }

    /// Starts a shell text that does not come from a tool argument.
    #[inline]
    pub(crate) fn open_text(&mut self) {
        self.source = ShellInput::Text;
        self.restarts = true;
    }

    /// Returns true if the current value is one word of a list, false if it is a text of commands, and `None` if it is
    /// neither.
    #[inline]
    pub fn reads(&self) -> Option<bool> {
        self.source.reads()
    }

    /// Consumes the next bytes of the value.
    ///
    /// # Complexity
    /// Linear. At most [`ShellLimits::waiting`] bytes of nested commands, a script of that length, and [`MAX_WORD`]
    /// bytes for each level of nesting are buffered.
    pub fn push(&mut self, chunk: &Chunk<'_>, sink: &mut impl ChunkSink) {
        if chunk.bytes.is_empty() {
            return;
        }
        if self.restarts {
            self.begin_value(chunk.decided(0), sink);
        }
        match self.source {
            ShellInput::Text => self.text(chunk, sink),
            // Read as if quoted: a list element is never a keyword, an assignment or a file descriptor.
            ShellInput::Word => self.push_word(*chunk, true, sink),
            ShellInput::None => {}
        }
    }

    /// Ends the value.
    pub fn close(&mut self, end: DecidedOffset, sink: &mut impl ChunkSink) {
        let now = end.decided();
        let end = DecidedOffset {
            decided: now,
            ..end
        };
        self.begin_value(now, sink);
        match self.source {
            ShellInput::Text => self.end_text(end, sink),
            ShellInput::Word => {
                self.begin_word(end.offset);
                self.end_word(end, sink);
            }
            ShellInput::None => {}
        }
        self.source = ShellInput::None;
    }

    /// Ends the part.
    pub fn finish(&mut self, end: u64, sink: &mut impl ChunkSink) {
        if self.source != ShellInput::None {
            self.close(DecidedOffset::at_once(end), sink);
        }
        self.end_command(end, sink);
    }

    /// Ends the command of the preceding value, at the first byte or the end of a value that does not continue it.
    /// Further calls for the same value do nothing.
    pub fn begin_value(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if std::mem::take(&mut self.restarts) {
            self.end_command(now, sink);
        }
    }

    fn text(&mut self, chunk: &Chunk<'_>, sink: &mut impl ChunkSink) {
        let mut at = 0;
        while at < chunk.bytes.len() {
            at += if self.pending != PendingToken::None || self.is_outside_commands() {
                usize::from(self.resolve_pending(chunk.slice(at..at + 1), sink))
            } else {
                match self.frame() {
                    ShellContext::Commands(kind, parens) => {
                        self.unquoted(kind, parens, chunk, at, sink)
                    }
                    frame => self.inside(frame, chunk, at, sink),
                }
            };
        }
    }

    #[inline]
    fn frame(&self) -> ShellContext {
        *self.frames.last().expect("the outermost frame stays")
    }

    #[inline]
    fn command(&mut self) -> &mut SimpleCommand {
        self.commands
            .last_mut()
            .expect("the outermost command stays")
    }

    /// Ends a text and every construct that is still open in it.
    fn end_text(&mut self, end: DecidedOffset, sink: &mut impl ChunkSink) {
        let now = end.decided;
        match self.pending {
            PendingToken::Operator => self.end_operator(now, sink),
            PendingToken::Escape(escape) => match escape.end() {
                Some((utf8, len)) => {
                    self.push_escape(&utf8[..len], self.pending_start(), now, sink);
                }
                None => self.push_pending(now, sink),
            },
            _ => self.push_pending(now, sink),
        }
        while self.commands.len() > 1 {
            self.end_word(end, sink);
            self.end_command(now, sink);
            self.commands.pop();
        }
        self.end_word(end, sink);
        self.end_command(now, sink);
        self.frames.truncate(1);
        self.set_parens(0);
        (self.comment, self.skipped, self.body) = (false, 0, None);
        self.heredocs.clear();
    }
}

#[cfg(test)]
mod tests;
