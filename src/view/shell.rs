//! The commands of a shell text: for each simple command one haystack, its words without quotes and escapes,
//! joined by one space, tagged [`RegionSet::SHELL`].
//!
//! A lexer, no shell: nothing is expanded or run. It does not see what `eval`, aliases, variables, encoded text
//! or a heredoc that is fed to a shell do.
//!
//! - Commands end at `;`, `&`, `&&`, `|`, `||`, `|&`, a newline, `(` and `)`. Keywords and assignments before a
//!   command are left out, comments and the bodies of heredocs too.
//! - A substitution stands in its word as `$()`, `` `` ``, `<()` or `>()`; what is in it is a command of its own.
//!   `${…}` and `$((…))` stand as they are written, substitutions inside aside.
//! - A redirection is a haystack of its own: `>> file`, without the number before it.
//! - Behind `sudo`, `env`, `xargs` and their like a command is there twice: as it is written, and from the first
//!   word that is no such word, nor an option or an assignment of one.
//! - The script of `sh -c` and its kin is read as a shell text too, once.
//!
//! The haystack of a command comes first, then what is in it. A word that may still be something else is certain
//! when it ends, a long one in stretches of [`MAX_WORD`] bytes; an argument of the outermost command as it comes, but
//! for digits, which may be the number of a redirection.

mod command;
mod emit;
mod heredoc;
mod metachars;
mod nesting;
mod pending;
mod unquoted;
mod word;
mod words;

use super::chunk::{Chunk, ChunkBuffer, ChunkSink, OffsetMap};
use super::json::{ArgPath, RAW};
use command::SimpleCommand;
use emit::QueuedCommand;
use heredoc::{HeredocBody, HeredocDelimiter};
use word::AnsiEscape;

/// Most bytes of a word that wait for its end. No keyword, option or end of a heredoc is longer.
const MAX_WORD: usize = 256;

/// How deep a text may be nested, and how much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShellLimits {
    /// Most quotes and substitutions inside each other. What is deeper is part of a word.
    pub(crate) depth: usize,
    /// Most bytes of nested commands that wait for the end of the outer one. Past it the outer one is cut in
    /// two haystacks, and so are those that wait.
    pub(crate) waiting: usize,
}

impl Default for ShellLimits {
    fn default() -> ShellLimits {
        ShellLimits {
            depth: 32,
            waiting: 64 << 10,
        }
    }
}

/// What reached a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellCounters {
    /// Quotes and substitutions that were too deep.
    pub(crate) too_deep: u64,
    /// Times that commands were cut because too much waited.
    pub(crate) cut: u64,
    /// Scripts of `sh -c` that were too long to be read; as a word they were handed on.
    pub(crate) long_scripts: u64,
}

impl ShellCounters {
    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.too_deep + self.cut + self.long_scripts
    }
}

/// The view of one part.
#[derive(Clone, Debug)]
pub(crate) struct ShellView {
    limits: ShellLimits,
    source: ShellInput,
    /// The value that begins is not the next word of the command before.
    restarts: bool,
    frames: Vec<ShellContext>,
    /// The commands being read, the outermost first: one for each open substitution, and one.
    commands: Vec<SimpleCommand>,
    pending: PendingToken,
    /// The bytes of an operator, or of a beginning that may be something else.
    pending_bytes: Vec<(u8, OffsetMap, u64)>,
    comment: bool,
    /// Parentheses to close before something too deep ends.
    skipped: u32,
    heredocs: Vec<HeredocDelimiter>,
    body: Option<HeredocBody>,
    /// Complete commands that wait for the end of the outermost one.
    queue: ChunkBuffer,
    queued: Vec<QueuedCommand>,
    /// Whether the script of `sh -c` is to be read.
    scripts: bool,
    /// Behind a haystack of the outermost command that is not cut yet: where it ended.
    open: Option<u64>,
    counters: ShellCounters,
}

/// What the value being read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShellInput {
    None,
    Text,
    /// An element of an array of words.
    Word,
}

/// What a byte stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShellContext {
    /// Commands; with the parentheses open in there.
    Commands(CommandScope, u32),
    Single,
    /// `$'`
    Ansi,
    Double,
    /// `${`
    Brace {
        quoted: bool,
    },
    /// `$((`, with the parentheses to close.
    Arithmetic(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandScope {
    Outermost,
    /// `$(`, `<(`, `>(`
    Parens,
    Backquotes,
}

/// What the next byte decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingToken {
    None,
    Backslash,
    Dollar,
    DollarParen,
    Operator,
    Escape(AnsiEscape),
}

const TEXTS: [&str; 5] = ["command", "cmd", "script", "input", RAW];
const WORDS: [&str; 3] = ["command", "cmd", "argv"];

impl ShellView {
    pub(crate) fn new(limits: ShellLimits) -> ShellView {
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
            scripts: true,
            open: None,
            counters: ShellCounters::default(),
        }
    }

    pub(crate) fn counters(&self) -> ShellCounters {
        self.counters
    }

    /// A value begins: a text, a word of a command, or neither.
    pub(crate) fn open(&mut self, path: &ArgPath) {
        let depth = path.len();
        let key = |index: usize| path.segment(index).unwrap_or_default();
        let last = path.last().unwrap_or_default();
        self.source = if TEXTS.contains(&last) {
            ShellInput::Text
        } else if depth > 1
            && last.bytes().all(|byte| byte.is_ascii_digit())
            && WORDS.contains(&key(depth - 2))
        {
            ShellInput::Word
        } else {
            ShellInput::None
        };
        self.restarts = self.source != ShellInput::Word || last == "0";
    }

    /// Opens a text that is no argument.
    pub(crate) fn open_text(&mut self) {
        self.source = ShellInput::Text;
        self.restarts = true;
    }

    /// Whether the value being read holds commands, and whether it is one word of a list of them.
    pub(crate) fn reads(&self) -> Option<bool> {
        match self.source {
            ShellInput::None => None,
            ShellInput::Text => Some(false),
            ShellInput::Word => Some(true),
        }
    }

    /// Takes the next bytes of the value.
    ///
    /// # Complexity
    /// Linear. At most [`ShellLimits::waiting`] bytes of nested commands, a script as long, and a stretch of a
    /// word for each level wait.
    pub(crate) fn push(&mut self, chunk: &Chunk<'_>, sink: &mut impl ChunkSink) {
        if chunk.bytes.is_empty() {
            return;
        }
        if self.restarts {
            self.begin_value(chunk.decided(0), sink);
        }
        match self.source {
            ShellInput::Text => self.text(chunk, sink),
            // As if in quotes: it is no keyword, assignment or number.
            ShellInput::Word => self.push_word(*chunk, true, sink),
            ShellInput::None => {}
        }
    }

    /// The value ends.
    pub(crate) fn close(&mut self, end: u64, decided: u64, sink: &mut impl ChunkSink) {
        let now = decided.max(end);
        self.begin_value(now, sink);
        match self.source {
            ShellInput::Text => self.end_text(end, now, sink),
            ShellInput::Word => {
                self.begin_word(end);
                self.end_word(end, now, sink);
            }
            ShellInput::None => {}
        }
        self.source = ShellInput::None;
    }

    /// The part ends.
    pub(crate) fn finish(&mut self, end: u64, sink: &mut impl ChunkSink) {
        if self.source != ShellInput::None {
            self.close(end, end, sink);
        }
        self.end_command(end, sink);
    }

    /// The first byte of a value, or its end, has come: the command of another one is over. Again is nothing.
    pub(crate) fn begin_value(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if std::mem::take(&mut self.restarts) {
            self.end_command(now, sink);
        }
    }

    fn text(&mut self, chunk: &Chunk<'_>, sink: &mut impl ChunkSink) {
        let mut at = 0;
        while at < chunk.bytes.len() {
            at += if self.pending != PendingToken::None || self.skips_text() {
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

    fn frame(&self) -> ShellContext {
        *self.frames.last().expect("the outermost frame stays")
    }

    fn command(&mut self) -> &mut SimpleCommand {
        self.commands
            .last_mut()
            .expect("the outermost command stays")
    }

    /// A text ends, whatever is open in it.
    fn end_text(&mut self, end: u64, now: u64, sink: &mut impl ChunkSink) {
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
            self.end_word(end, now, sink);
            self.end_command(now, sink);
            self.commands.pop();
        }
        self.end_word(end, now, sink);
        self.end_command(now, sink);
        self.frames.truncate(1);
        self.set_parens(0);
        (self.comment, self.skipped, self.body) = (false, 0, None);
        self.heredocs.clear();
    }
}

#[cfg(test)]
mod tests;
