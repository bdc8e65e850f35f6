//! The events that the reader emits, and their consumer.

use std::ops::Range;

use super::super::chunk::Chunk;

/// The number of a simple command; the first one that begins in a reader has number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// The command that contains another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentCommand {
    /// The containing command.
    pub command: CommandId,
    /// The relation of the contained command to it.
    pub relation: ParentRelation,
}

/// The relation of a command to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParentRelation {
    /// The parent runs the words of this command, as `sudo` does. The command has the assignments, redirections and
    /// pipes of its parent, of which only the pipes are reported again.
    Wrapped,
    /// The command is part of a script that the parent runs.
    Script,
    /// The command is part of a substitution in a word of the parent.
    Substitution,
}

/// An event of the reader.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CommandEvent<'a> {
    /// A simple command begins.
    Begin {
        /// The command.
        command: CommandId,
        /// The command that contains it.
        parent: Option<ParentCommand>,
    },
    /// The standard output of a command is the standard input of another one. Emitted after both have begun; for the
    /// redirections of a compound command, after the commands inside have ended.
    Pipe {
        /// The command that writes.
        from: CommandId,
        /// The command that reads.
        to: CommandId,
    },
    /// The text changes the working directory before the command. Emitted after the program.
    Directory {
        /// The command.
        command: CommandId,
        /// The working directory, normalized like an operand. A relative path begins at the directory of the whole text.
        path: &'a [u8],
    },
    /// A word of a command. A word that is a cluster of flags is several events with the same text.
    Word(CommandWord<'a>),
    /// An assignment before a command or as an operand of `env` and `sudo`, or by itself.
    Assignment {
        /// The command.
        command: CommandId,
        /// The name of the variable.
        name: &'a [u8],
        /// The value, in the role [`WordRole::Value`] of the name.
        value: CommandWord<'a>,
    },
    /// A redirection.
    Redirection {
        /// The command.
        command: CommandId,
        /// The file descriptor before the operator.
        descriptor: Option<u32>,
        /// The operator: `<`, `>`, `>>`, `>|`, `<>`, `<&`, `>&`, `&>`, `&>>`, `<<`, `<<-` or `<<<`.
        operator: &'static str,
        /// The path, the file descriptor, the delimiter or the here-string after the operator.
        target: CommandWord<'a>,
    },
    /// The command runs its standard input as code. Emitted when the command ends.
    StdinIsCode {
        /// The command.
        command: CommandId,
        /// The language, `"sh"` for shells.
        language: &'static str,
    },
    /// The command runs the output of another one as code, as in `eval "$(curl …)"` or `bash <(curl …)`.
    OutputIsCode {
        /// The command that runs the code.
        command: CommandId,
        /// The command that writes the code.
        from: CommandId,
    },
    /// The command runs the code of a file: its program with a folder, the script of a shell or an interpreter, or the
    /// operand of `source`.
    FileIsCode {
        /// The command.
        command: CommandId,
        /// The word that names the file.
        file: CommandWord<'a>,
    },
    /// A word of a command contains the output of another one, which a variable holds. Emitted before the word.
    Output {
        /// The command that has written the output.
        from: CommandId,
        /// The command whose word contains it.
        to: CommandId,
    },
    /// A chunk of code that the command runs in a language other than that of shells.
    Code {
        /// The command.
        command: CommandId,
        /// The lowercase name of the language.
        language: &'static str,
        /// The text. Its cuts follow those of the input.
        chunk: Chunk<'a>,
    },
    /// The code of the command ends.
    CodeEnd {
        /// The command.
        command: CommandId,
    },
    /// A simple command ends.
    End {
        /// The command.
        command: CommandId,
        /// The offset in the part of the end of the byte that ends the command.
        at: u64,
    },
}

/// A word of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandWord<'a> {
    /// The command.
    pub command: CommandId,
    /// The role of the word.
    pub role: WordRole<'a>,
    /// The text without quotes and escapes, at most [`CommandLimits::word`](super::CommandLimits::word) bytes.
    pub text: &'a [u8],
    /// The range of the part that the word comes from, with its quotes.
    pub span: Range<u64>,
    /// The number of operands and subcommands of the command before this word.
    pub index: u32,
    /// The properties of the text.
    pub traits: WordTraits,
}

/// The role of a word in its command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WordRole<'a> {
    /// The name of the program.
    Program {
        /// The base name: without directories, and without `.exe`.
        name: &'a [u8],
    },
    /// A subcommand of a program in the tables.
    Subcommand,
    /// A flag.
    Flag {
        /// The flag with its leading dashes, as the table of the program spells it: an abbreviated long flag is
        /// complete, and each letter of a cluster is a flag of its own.
        name: &'a [u8],
        /// The value that is attached to the flag.
        value: Option<&'a [u8]>,
    },
    /// The value of the preceding flag, as a word of its own.
    Value {
        /// The name of the flag.
        flag: &'a [u8],
    },
    /// An operand; for a program without a table also a subcommand or the value of a flag.
    Operand,
    /// `--`, after which no word is a flag.
    Separator,
    /// The target of a redirection.
    Target,
}

/// The properties of the text of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WordTraits(u8);

impl WordTraits {
    pub(super) const QUOTED: WordTraits = WordTraits(1);
    pub(super) const EXPANDED: WordTraits = WordTraits(2);
    pub(super) const GLOB: WordTraits = WordTraits(4);
    pub(super) const TILDE: WordTraits = WordTraits(8);
    pub(super) const TRUNCATED: WordTraits = WordTraits(16);
    pub(super) const CONSTANT: WordTraits = WordTraits(32);

    #[inline]
    pub(super) fn insert(&mut self, other: WordTraits) {
        self.0 |= other.0;
    }

    #[inline]
    fn contains(self, other: WordTraits) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if a part of the word is quoted or escaped.
    #[inline]
    pub fn quoted(self) -> bool {
        self.contains(Self::QUOTED)
    }

    /// Returns true if a part of the word is an expansion whose value is unknown; the text contains it as written,
    /// and `$()` for a substitution.
    #[inline]
    pub fn expanded(self) -> bool {
        self.contains(Self::EXPANDED)
    }

    /// Returns true if the word contains an unquoted `*`, `?` or `[`.
    #[inline]
    pub fn glob(self) -> bool {
        self.contains(Self::GLOB)
    }

    /// Returns true if the word begins with an unquoted tilde.
    #[inline]
    pub fn tilde(self) -> bool {
        self.contains(Self::TILDE)
    }

    /// Returns true if the text is only the beginning of the word.
    #[inline]
    pub fn truncated(self) -> bool {
        self.contains(Self::TRUNCATED)
    }

    /// Returns true if a part of the word is the value of a variable or an alternative of a brace expansion.
    #[inline]
    pub fn constant(self) -> bool {
        self.contains(Self::CONSTANT)
    }
}

/// The consumer of the events of a reader.
pub trait CommandSink {
    /// Consumes an event. `decided` is the number of bytes of the part that had been delivered when the event became
    /// certain.
    fn event(&mut self, event: CommandEvent<'_>, decided: u64);
}
