//! The commands of tool calls: a reader that knows which arguments are shell text.

use super::super::chunk::{Chunk, ChunkBuffer, DecidedOffset};
use super::super::json::ArgPath;
use super::super::shell::ShellInput;
use super::loose::LooseInput;
use super::{CommandCounters, CommandLimits, CommandReader, CommandSink};

/// The commands in the arguments of one tool call.
///
/// A text named `command`, `cmd`, `script` or `input`, an element of an array named `commands`, and input that is not
/// JSON, is shell text. An array of texts named `command`, `cmd` or `argv` is one command, of which each element is a word.
/// Input that is not JSON, but an object in the syntax of Python or JavaScript or a further document, is searched for texts
/// and arrays of these names.
#[derive(Clone, Debug)]
pub struct CommandView {
    reader: CommandReader,
    input: ShellInput,
    loose: LooseInput,
    /// True if the value that starts is not the next word of the current command.
    restarts: bool,
    /// True if the elements of an array have been read and the array may go on.
    is_in_array: bool,
}

impl CommandView {
    /// Creates a view of one tool call.
    pub fn new(limits: CommandLimits) -> CommandView {
        CommandView {
            reader: CommandReader::new(limits),
            input: ShellInput::None,
            loose: LooseInput::None,
            restarts: false,
            is_in_array: false,
        }
    }

    /// Returns the counts of the limits that were reached so far.
    #[inline]
    pub fn counters(&self) -> CommandCounters {
        self.reader.counters()
    }

    /// Starts a value.
    pub fn open(&mut self, path: &ArgPath) {
        self.input = ShellInput::from_path(path);
        self.restarts = self.input != ShellInput::Word || path.last() == Some("0");
        self.loose = match path.is_raw() {
            true => LooseInput::Unknown(ChunkBuffer::default()),
            false => LooseInput::None,
        };
    }

    /// Returns true if the current value is one word of a list, false if it is shell text, and `None` if it is neither.
    #[inline]
    pub fn reads(&self) -> Option<bool> {
        self.input.reads()
    }

    /// Returns true if a value was opened that does not continue the current command, and nothing of it was read.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.restarts
    }

    /// Ends the command of the preceding value, at the first byte or the end of a value that does not continue it.
    /// `decided` is the number of bytes of the part that were delivered then. Further calls for the same value do
    /// nothing.
    pub fn begin_value(&mut self, decided: u64, sink: &mut impl CommandSink) {
        if std::mem::take(&mut self.restarts) {
            self.end_array(decided, sink);
        }
    }

    /// Reads the next bytes of the value.
    pub fn push(&mut self, chunk: &Chunk<'_>, sink: &mut impl CommandSink) {
        if chunk.bytes.is_empty() {
            return;
        }
        self.begin_value(chunk.decided(0), sink);
        match self.input {
            ShellInput::Text if self.loose.is_some() => {
                self.loose.push(chunk, &mut self.reader, sink);
            }
            ShellInput::Text => self.reader.push(chunk, sink),
            ShellInput::Word => self.reader.push_word(chunk, sink),
            ShellInput::None => {}
        }
    }

    /// Ends the value.
    pub fn close(&mut self, end: DecidedOffset, sink: &mut impl CommandSink) {
        let now = end.decided();
        let end = DecidedOffset {
            decided: now,
            ..end
        };
        self.begin_value(now, sink);
        match std::mem::replace(&mut self.input, ShellInput::None) {
            ShellInput::Text if self.loose.is_some() => {
                self.loose.finish(end, &mut self.reader, sink);
            }
            ShellInput::Text => {
                self.reader.advance(now);
                self.reader.finish(sink);
            }
            ShellInput::Word => {
                self.is_in_array = true;
                self.reader.end_word(end, sink);
            }
            ShellInput::None => {}
        }
    }

    /// Ends the part, which has `end` bytes.
    pub fn finish(&mut self, end: u64, sink: &mut impl CommandSink) {
        if self.input != ShellInput::None {
            self.close(DecidedOffset::at_once(end), sink);
        }
        self.end_array(end, sink);
    }

    fn end_array(&mut self, decided: u64, sink: &mut impl CommandSink) {
        if std::mem::take(&mut self.is_in_array) {
            self.reader.advance(decided);
            self.reader.finish(sink);
        }
    }
}
