//! The simple commands of a shell text: a resumable reader that reports each word of a command, unquoted and with its
//! role, at the byte where the word ends.
//!
//! # Grammar
//!
//! The input is a *list* of *pipelines* in the grammar of POSIX shells with the extensions of bash. A pipeline consists
//! of *simple commands* (assignment words, words, redirections) and *compound commands* (`{ … }`, `( … )`, `if`, `for`,
//! `while`, `case`, functions), whose simple commands are reported like any other. Each simple command has a
//! [`CommandId`]. It has a parent if it is part of another command:
//!
//! - **wrapped**: the words after a program that runs them, such as `sudo`, `env`, `xargs` or `find -exec`;
//! - **script**: the text that a program runs as shell code: `sh -c`, `eval`, `ssh host …`, `trap`, here-documents and
//!   here-strings of a shell, constant output that a shell reads from a pipe or a process substitution, constant text that
//!   the same text has written to the file, the value of a variable such as `GIT_EDITOR`, the lines of a crontab, and the
//!   constant arguments of functions that run a command in the code of another language (`os.system("…")`);
//! - **substitution**: `$( … )`, backquotes, `<( … )` and `>( … )`, also in double quotes and here-documents.
//!
//! The code that other interpreters run (`python -c`, `node -e`, a here-document of `psql`) is reported as
//! [`CommandEvent::Code`] with its language; the commands in it follow its end. All other text is data: operands, comments, here-documents of `cat`, array
//! elements, patterns of `case`.
//!
//! Redirections without a program (`> file`) are those of the program `:`. After a compound command they are a command of
//! their own, in a pipe from the commands inside, or to them.
//!
//! The reader runs nothing. It expands braces, `$'…'`, `$IFS`, variables, arrays and positional
//! parameters that the same text sets to constants, defaults (`${a:-b}`) of other variables, and substitutions whose output is constant: that of `echo`, `printf` and here-documents of `cat`. Any other expansion remains in the word as written, and [`WordTraits::expanded`] is true. It follows `cd` and `pushd` with
//! constant operands: a command after them gets its working directory ([`CommandEvent::Directory`]). Subshells,
//! substitutions and scripts of other shells restore that of their parent.
//!
//! # Invariants
//!
//! - The events and their `decided` offsets do not depend on how the input is cut.
//! - An event is emitted at the earliest byte where it is certain: a word at the byte after it, or at the next one
//!   after `<` and `>`, a flag of a command before the command ends, the end of a command at its separator. The text of
//!   a script is read when its word ends, and a here-document of a shell line by line.
//! - [`CommandEvent::Begin`] precedes every other event of the command, and [`CommandEvent::End`] follows them, except
//!   for the events of a here-document, whose body follows the line of its command.
//! - The code of a command ([`CommandEvent::Code`]) ends before another command begins and before other code begins.
//! - The commands in `((a) b)`, which begins like an arithmetic expression, are certain at the byte after the first closing
//!   parenthesis that no other one follows.
//! - Every limit that is reached is counted in [`CommandCounters`].
//!
//! # Complexity
//!
//! Linear in the input for each level of nested scripts ([`CommandLimits::scripts`]). Memory is bounded by the limits:
//! one word for each open substitution and script.
//!
//! # Example: the flags and operands of a wrapped command
//!
//! ```
//! use ttsr_views::chunk::Chunk;
//! use ttsr_views::command::{CommandLimits, CommandReader, CommandTrace};
//!
//! let mut reader = CommandReader::new(CommandLimits::default());
//! let mut trace = CommandTrace::default();
//! for (at, delta) in [(0, "curl -s https://x.y | sudo ba"), (29, "sh; r\\m -fr \"$HOME\"")] {
//!     reader.push(&Chunk::verbatim(delta.as_bytes(), at), &mut trace);
//! }
//! reader.finish(&mut trace);
//! assert_eq!(
//!     trace.to_string(),
//!     "1: curl [-s] (https://x.y)\n\
//!      2: sudo <-1\n\
//!      3: bash <-1 stdin:sh wrapped by 2\n\
//!      4: rm [-f] [-r] ($HOME)\n"
//! );
//! ```

mod arguments;
mod arithmetic;
mod body;
mod braces;
mod calls;
mod echo;
mod embedded;
mod event;
mod expansion;
pub mod files;
mod flags;
mod ids;
mod input;
mod layer;
mod lexer;
mod list;
mod loose;
mod parallel;
mod path;
mod program;
mod programs;
mod script;
mod simple;
mod stored;
mod text;
mod trace;
mod variables;
mod view;
mod word;

pub use super::shell::may_have_commands;
pub use event::{
    CommandEvent, CommandId, CommandSink, CommandWord, ParentCommand, ParentRelation, WordRole,
    WordTraits,
};
pub use path::normalize_path;
pub use program::{FlagStyle, ProgramSpec, SubcommandSpec, program_spec};
pub use trace::CommandTrace;
pub use view::CommandView;

use super::chunk::{Chunk, DecidedOffset};
use arguments::WordLists;
use expansion::Constants;
use script::ScriptReader;
use stored::StoredFiles;

/// The limits on nesting and buffering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandLimits {
    /// The most nested quotes, expansions and substitutions of one script. A deeper one is read as part of its word.
    pub depth: usize,
    /// The most nested scripts, such as `sh -c "sh -c …"`. A deeper one is data.
    pub scripts: usize,
    /// The most bytes of the text of a word. The rest of the word is dropped.
    pub word: usize,
    /// The most commands of one chain of wrappers, such as `sudo env nice …`. The words after them are operands.
    pub wrappers: usize,
    /// The most here-documents of one line. The bodies of further ones are read as commands.
    pub heredocs: usize,
    /// The most variables whose constant values are remembered, and the most words that a brace expansion yields.
    pub expansions: usize,
}

impl Default for CommandLimits {
    fn default() -> CommandLimits {
        CommandLimits {
            depth: 48,
            scripts: 8,
            word: 32 << 10,
            wrappers: 16,
            heredocs: 8,
            expansions: 32,
        }
    }
}

/// Counts of the limits that were reached and of the text that was not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounters {
    /// The number of quotes, expansions and substitutions that were nested too deep.
    pub too_deep: u64,
    /// The number of scripts that were nested too deep.
    pub deep_scripts: u64,
    /// The number of words that were truncated.
    pub long_words: u64,
    /// The number of wrapped commands that were read as operands.
    pub wrappers: u64,
    /// The number of here-documents beyond the limit.
    pub heredocs: u64,
    /// The number of expansions beyond the limit, which remain as written.
    pub expansions: u64,
    /// The number of places that are not shell text or whose text is encoded: an open quote at the end, a closing
    /// parenthesis without an opening one, `powershell -EncodedCommand`.
    pub unreadable: u64,
}

impl CommandCounters {
    /// Returns the sum of all counts.
    #[inline]
    pub fn total(&self) -> u64 {
        self.too_deep
            + self.deep_scripts
            + self.long_words
            + self.wrappers
            + self.heredocs
            + self.expansions
            + self.unreadable
    }
}

/// The syntax of a shell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ShellSyntax {
    /// POSIX shells and bash.
    #[default]
    Posix,
    /// PowerShell: the backquote escapes, the backslash does not, and names are not case-sensitive.
    PowerShell,
    /// `cmd.exe`: `^` escapes, flags begin with `/`, and names are not case-sensitive.
    Cmd,
}

/// The reader of the simple commands of one text, or of one array of words.
#[derive(Clone, Debug)]
pub struct CommandReader {
    state: ReaderState,
    script: ScriptReader,
}

/// The state that a script shares with the scripts inside it.
#[derive(Clone, Debug, Default)]
struct ReaderState {
    limits: CommandLimits,
    counters: CommandCounters,
    /// The number of delivered bytes at the byte that is being read.
    now: u64,
    /// The end of the byte that is being read.
    at: u64,
    last_id: u64,
    constants: Constants,
    stored: StoredFiles,
    lists: WordLists,
}

/// The shared state and the sink, as they are passed through the reader.
struct ReadContext<'a, S> {
    state: &'a mut ReaderState,
    sink: &'a mut S,
}

impl<S: CommandSink> ReadContext<'_, S> {
    fn emit(&mut self, event: CommandEvent<'_>) {
        self.sink.event(event, self.state.now);
    }

    /// Emits the working directory of a command, if the text has changed it.
    fn emit_directory(&mut self, command: CommandId) {
        let ReadContext { state, sink } = self;
        if let Some(path) = state.directory() {
            sink.event(CommandEvent::Directory { command, path }, state.now);
        }
    }

    fn next_id(&mut self) -> CommandId {
        self.state.last_id += 1;
        CommandId(self.state.last_id)
    }

    fn counters(&mut self) -> &mut CommandCounters {
        &mut self.state.counters
    }
}

impl CommandReader {
    /// Creates a reader of POSIX shell text.
    pub fn new(limits: CommandLimits) -> CommandReader {
        CommandReader::with_syntax(limits, ShellSyntax::Posix)
    }

    /// Creates a reader of text in the given syntax.
    pub fn with_syntax(limits: CommandLimits, syntax: ShellSyntax) -> CommandReader {
        CommandReader {
            state: ReaderState {
                limits,
                ..ReaderState::default()
            },
            script: ScriptReader::new(syntax),
        }
    }

    /// Returns the counts of the limits that were reached so far.
    #[inline]
    pub fn counters(&self) -> CommandCounters {
        self.state.counters
    }

    /// Reads the next bytes of the text.
    pub fn push(&mut self, chunk: &Chunk<'_>, sink: &mut impl CommandSink) {
        let state = &mut self.state;
        self.script.push(chunk, &mut ReadContext { state, sink });
    }

    /// Reads the next bytes of a word that is an element of an array, such as `["rm", "-rf", "/"]`. They are not
    /// expanded.
    pub fn push_word(&mut self, chunk: &Chunk<'_>, sink: &mut impl CommandSink) {
        let state = &mut self.state;
        self.script
            .push_element(chunk, &mut ReadContext { state, sink });
    }

    /// Ends a word that is an element of an array, at its end in the part.
    pub fn end_word(&mut self, end: DecidedOffset, sink: &mut impl CommandSink) {
        let state = &mut self.state;
        state.now = state.now.max(end.decided());
        state.at = end.offset;
        self.script.end_element(&mut ReadContext { state, sink });
    }

    /// Records that `decided` bytes of the part have been delivered.
    #[inline]
    pub fn advance(&mut self, decided: u64) {
        self.state.now = self.state.now.max(decided);
    }

    /// Ends the text or the array. The reader is then ready for another one; variables keep their values.
    pub fn finish(&mut self, sink: &mut impl CommandSink) {
        let state = &mut self.state;
        self.script.finish(&mut ReadContext { state, sink });
    }
}

#[cfg(test)]
mod tests;
