//! Input that is not JSON, but nearly: an object in the syntax of Python or JavaScript, or a further document after the
//! first. Many hosts read it in spite of its mistakes and run the command in it.

use super::super::chunk::{Chunk, ChunkBuffer, DecidedOffset};
use super::super::shell::word::{AnsiEscape, EscapeStep};
use super::super::shell::{TEXT_KEYS, TEXT_LIST_KEY, WORD_KEYS};
use super::{CommandReader, CommandSink};

/// The most bytes that are buffered until it is known if the input is an object.
const BUFFERED: usize = 128;

/// The longest key that is kept, in bytes.
const KEY: usize = 16;

/// The reader of one input that is not JSON.
#[derive(Clone, Debug, Default)]
pub(super) enum LooseInput {
    /// The value is not such an input.
    #[default]
    None,
    /// It is not known yet what it is.
    Unknown(ChunkBuffer),
    /// The input is shell text.
    Shell,
    /// The values of some keys are shell text.
    Object(LooseObject),
}

/// The state of the reader of an object: the values of its keys, at any depth.
#[derive(Clone, Debug, Default)]
pub(super) struct LooseObject {
    /// The last key, truncated.
    key: Vec<u8>,
    /// True between the colon after a key and the end of its value.
    is_in_value: bool,
    /// The role of the strings of the array that is being read.
    list: Option<StringRole>,
    string: Option<LooseString>,
}

/// The string that contains the current byte.
#[derive(Clone, Copy, Debug)]
struct LooseString {
    quote: u8,
    role: StringRole,
    /// An incomplete escape, with the offset of its backslash.
    escape: Option<(AnsiEscape, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringRole {
    Key,
    Script,
    Word,
    Data,
}

impl LooseInput {
    pub(super) fn is_some(&self) -> bool {
        !matches!(self, LooseInput::None)
    }

    pub(super) fn push(
        &mut self,
        chunk: &Chunk<'_>,
        reader: &mut CommandReader,
        sink: &mut impl CommandSink,
    ) {
        match self {
            LooseInput::None => {}
            LooseInput::Shell => reader.push(chunk, sink),
            LooseInput::Object(object) => object.push(chunk, reader, sink),
            LooseInput::Unknown(buffer) => {
                for index in 0..chunk.bytes.len() {
                    buffer.push(chunk.slice(index..index + 1));
                    let Some(is_object) = is_object(buffer.bytes()) else {
                        continue;
                    };
                    self.decide(is_object, chunk.decided(index), reader, sink);
                    return self.push(&chunk.slice(index + 1..chunk.bytes.len()), reader, sink);
                }
            }
        }
    }

    /// Ends the input.
    pub(super) fn finish(
        &mut self,
        end: DecidedOffset,
        reader: &mut CommandReader,
        sink: &mut impl CommandSink,
    ) {
        if let LooseInput::Unknown(_) = self {
            self.decide(false, end.decided, reader, sink);
        }
        reader.advance(end.decided);
        match std::mem::take(self) {
            LooseInput::None => {}
            LooseInput::Object(mut object) => {
                if object.string.is_some() {
                    object.end_string(end, reader, sink);
                }
                object.end_list(end.decided, reader, sink);
            }
            LooseInput::Shell | LooseInput::Unknown(_) => reader.finish(sink),
        }
    }

    /// Reads the buffered bytes, which have become certain.
    fn decide(
        &mut self,
        is_object: bool,
        decided: u64,
        reader: &mut CommandReader,
        sink: &mut impl CommandSink,
    ) {
        let next = match is_object {
            true => LooseInput::Object(LooseObject::default()),
            false => LooseInput::Shell,
        };
        let LooseInput::Unknown(buffer) = std::mem::replace(self, next) else {
            return;
        };
        for chunk in buffer.chunks(0..buffer.bytes().len()) {
            self.push(&chunk.decided_no_earlier(decided), reader, sink);
        }
    }
}

/// Returns true if the text begins an object, which has a key and a colon, false if it does not, and `None` if more
/// bytes must tell. A key without quotes needs a string or an array as its value, because `a:b` is a word of a shell.
fn is_object(text: &[u8]) -> Option<bool> {
    if text.len() >= BUFFERED {
        return Some(false);
    }
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"{").unwrap_or(text).trim_ascii_start();
    let (&first, rest) = text.split_first()?;
    let is_quoted = is_quote(first);
    let after = match is_quoted {
        true => &rest[rest.iter().position(|&byte| byte == first)? + 1..],
        false if is_name(first) => &text[text.iter().position(|&byte| !is_name(byte))?..],
        false => return Some(false),
    };
    let after = after.trim_ascii_start();
    let (&colon, value) = after.split_first()?;
    if colon != b':' || is_quoted {
        return Some(colon == b':');
    }
    let &value = value.trim_ascii_start().first()?;
    Some(is_quote(value) || value == b'[')
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

impl LooseObject {
    fn push(&mut self, chunk: &Chunk<'_>, reader: &mut CommandReader, sink: &mut impl CommandSink) {
        for index in 0..chunk.bytes.len() {
            let byte = chunk.slice(index..index + 1);
            match self.string {
                Some(string) => self.push_in_string(string, byte, reader, sink),
                None => self.push_between(byte, reader, sink),
            }
        }
    }

    fn push_between(
        &mut self,
        chunk: Chunk<'_>,
        reader: &mut CommandReader,
        sink: &mut impl CommandSink,
    ) {
        let is_one_of = |keys: &[&str]| keys.iter().any(|key| key.as_bytes() == self.key);
        match chunk.bytes[0] {
            quote @ (b'"' | b'\'') => {
                let role = match (self.list, self.is_in_value) {
                    (Some(role), _) => role,
                    (None, true) if is_one_of(&TEXT_KEYS) => StringRole::Script,
                    (None, true) => StringRole::Data,
                    (None, false) => StringRole::Key,
                };
                if role == StringRole::Key {
                    self.key.clear();
                }
                self.string = Some(LooseString {
                    quote,
                    role,
                    escape: None,
                });
            }
            b':' => self.is_in_value = true,
            b'[' if self.is_in_value && is_one_of(&WORD_KEYS) => {
                self.list = Some(StringRole::Word);
            }
            b'[' if self.is_in_value && is_one_of(&[TEXT_LIST_KEY]) => {
                self.list = Some(StringRole::Script);
            }
            b']' => self.end_list(chunk.decided(0), reader, sink),
            b',' if self.list.is_some() => {}
            b',' | b'{' | b'}' => {
                self.is_in_value = false;
                self.key.clear();
            }
            byte if is_name(byte) && !self.is_in_value && self.key.len() < KEY => {
                self.key.push(byte);
            }
            _ => {}
        }
    }

    fn push_in_string(
        &mut self,
        mut string: LooseString,
        chunk: Chunk<'_>,
        reader: &mut CommandReader,
        sink: &mut impl CommandSink,
    ) {
        let byte = chunk.bytes[0];
        let (start, end, decided) = (chunk.start(0), chunk.end(0), chunk.decided(0));
        if let Some((escape, from)) = string.escape.take() {
            let (decoded, is_complete) = match escape.next(byte) {
                EscapeStep::More(escape) => {
                    string.escape = Some((escape, from));
                    self.string = Some(string);
                    return;
                }
                EscapeStep::Done(utf8, len) => (Some((utf8, len)), true),
                EscapeStep::Before(utf8, len) => (Some((utf8, len)), false),
                EscapeStep::Nothing => (None, false),
            };
            if let Some((utf8, len)) = decoded {
                let end = if is_complete { end } else { start };
                let text = Chunk::replacement(&utf8[..len], from..end, decided);
                self.push_text(string.role, text, reader, sink);
            }
            self.string = Some(string);
            if is_complete {
                return;
            }
        }
        match byte {
            b'\\' => string.escape = Some((AnsiEscape::default(), start)),
            _ if byte == string.quote => {
                let end = DecidedOffset {
                    offset: end,
                    decided,
                };
                return self.end_string(end, reader, sink);
            }
            _ => self.push_text(string.role, chunk, reader, sink),
        }
        self.string = Some(string);
    }

    fn push_text(
        &mut self,
        role: StringRole,
        chunk: Chunk<'_>,
        reader: &mut CommandReader,
        sink: &mut impl CommandSink,
    ) {
        match role {
            StringRole::Script => reader.push(&chunk, sink),
            StringRole::Word => reader.push_word(&chunk, sink),
            StringRole::Key if self.key.len() < KEY => self.key.extend_from_slice(chunk.bytes),
            StringRole::Key | StringRole::Data => {}
        }
    }

    fn end_string(
        &mut self,
        end: DecidedOffset,
        reader: &mut CommandReader,
        sink: &mut impl CommandSink,
    ) {
        match self.string.take().map(|string| string.role) {
            Some(StringRole::Script) => {
                reader.advance(end.decided);
                reader.finish(sink);
            }
            Some(StringRole::Word) => reader.end_word(end, sink),
            _ => {}
        }
    }

    /// Ends an array. An array of words is one command.
    fn end_list(&mut self, decided: u64, reader: &mut CommandReader, sink: &mut impl CommandSink) {
        if self.list.take() == Some(StringRole::Word) {
            reader.advance(decided);
            reader.finish(sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::json::ArgPath;
    use super::super::{CommandEvent, CommandLimits, CommandTrace, CommandView};
    use super::*;
    use ttsr_testing::Random;

    /// The events with their decided offsets.
    #[derive(Default, PartialEq, Eq, Debug)]
    struct EventList(Vec<String>);

    impl CommandSink for EventList {
        fn event(&mut self, event: CommandEvent<'_>, decided: u64) {
            self.0.push(format!("{decided} {event:?}"));
        }
    }

    fn read<S: CommandSink + Default>(deltas: &[&[u8]]) -> S {
        let mut path = ArgPath::new(64);
        path.set_raw();
        let mut view = CommandView::new(CommandLimits::default());
        let mut sink = S::default();
        let mut at = 0;
        view.open(&path);
        for delta in deltas {
            view.push(&Chunk::verbatim(delta, at), &mut sink);
            at += delta.len() as u64;
        }
        view.close(DecidedOffset::at_once(at), &mut sink);
        view.finish(at, &mut sink);
        sink
    }

    fn commands(text: &str) -> String {
        let trace: CommandTrace = read(&[text.as_bytes()]);
        trace.to_string()
    }

    /// Objects that are no JSON, and the commands in them.
    const OBJECTS: [(&str, &str); 10] = [
        (
            "{'commands': ['ls', 'rm -r a'], 'b': 'rm'}",
            "1: ls\n2: rm [-r] (a)\n",
        ),
        ("{'command': 'rm -rf /'}", "1: rm [-r] [-f] (/)\n"),
        // The decoder of JSON has read the brace.
        ("'command': 'rm -rf /'}", "1: rm [-r] [-f] (/)\n"),
        (
            r#"{"description":"rm -rf /","command":"ls; rm a"}"#,
            "1: ls\n2: rm (a)\n",
        ),
        (
            r#"{command: "echo \"a\"\nrm b"}"#,
            "1: echo (a)\n2: rm (b)\n",
        ),
        ("{'cmd': ['rm', '-rf', 'a b']}", "1: rm [-r] [-f] (a b)\n"),
        (r"{'a': {'cmd': 'rm \'a\' \\\x62'}}", "1: rm (a) (b)\n"),
        ("{'command': 'rm a", "1: rm (a)\n"),
        ("{'command': ['rm', 'a", "1: rm (a)\n"),
        ("{'path': 'rm', 'content': 'rm -rf /'}", ""),
    ];

    #[test]
    fn the_command_of_an_object_in_another_syntax_is_read() {
        for (text, expected) in OBJECTS {
            assert_eq!(commands(text), expected, "{text}");
        }
    }

    #[test]
    fn shell_text_that_begins_like_an_object_is_shell_text() {
        for (text, expected) in [
            ("{ rm a; }", "1: rm (a)\n"),
            ("{rm,a}", "1: rm (a)\n"),
            ("'rm' a", "1: rm (a)\n"),
            ("\"rm\" a", "1: rm (a)\n"),
            ("rm", "1: rm\n"),
            ("a:b c", "1: a:b (c)\n"),
        ] {
            assert_eq!(commands(text), expected, "{text}");
        }
    }

    #[test]
    fn events_do_not_depend_on_the_cuts() {
        let mut random = Random::new(18);
        let mut texts: Vec<String> = OBJECTS.iter().map(|(text, _)| (*text).to_owned()).collect();
        let pieces = [
            "{", "}", "'", "\"", ":", ",", "[", "]", "command", "cmd", " ", "rm a", "\\", "x41",
            "\n", ";", "a",
        ];
        for _ in 0..500 {
            let count = random.below(24);
            let text = (0..count).map(|_| pieces[random.below(pieces.len())]);
            texts.push(text.collect());
        }
        for text in texts {
            let bytes = text.as_bytes();
            let whole: EventList = read(&[bytes]);
            for at in 0..=bytes.len() {
                let (first, second) = bytes.split_at(at);
                assert_eq!(
                    read::<EventList>(&[first, second]),
                    whole,
                    "{text:?} at {at}"
                );
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(read::<EventList>(&single), whole, "{text:?} by byte");
        }
    }
}
