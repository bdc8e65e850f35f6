//! Here-documents: the lines up to the delimiter, and what reads them.

use super::super::chunk::Chunk;
use super::embedded::{has_commands, run_embedded};
use super::event::{CommandEvent, CommandId, CommandSink};
use super::lexer::LexContext;
use super::script::ScriptReader;
use super::stored::OutputFile;
use super::text::MappedText;
use super::word::{InputByte, WordBuffer};
use super::{ReadContext, ShellSyntax};

/// A here-document whose body follows or is being read.
#[derive(Clone, Debug)]
pub(super) struct HereDocument {
    pub(super) command: CommandId,
    pub(super) consumer: HereConsumer,
    delimiter: HereDelimiter,
    /// True if the body is not expanded, as the delimiter is quoted or too many contexts are open.
    quoted: bool,
    /// A backslash whose next byte is not known yet.
    backslash: Option<InputByte>,
    /// The number of bytes of the delimiter that the line matches; `None` if the line differs.
    matched: Option<usize>,
    line_begins: bool,
    /// The bytes of the line that match the delimiter.
    held: MappedText,
    /// The text of the body, if it is needed when it ends: the command writes it to its standard output, or it is code that
    /// may run commands.
    copy: Option<Box<BodyCopy>>,
    /// The file that the command, or one that gets its output, writes the body to.
    pub(super) file: Option<OutputFile>,
    /// True if the body is not part of the output of the list.
    pub(super) is_redirected: bool,
    /// The number of lists that are open before the body; until it begins, the number at the operator.
    lists: usize,
    script: Option<Box<ScriptReader>>,
    /// The here-document of a substitution in this body whose body is being read.
    inner: Option<Box<HereDocument>>,
    /// The here-documents of substitutions in this body whose bodies follow the current line.
    inner_heredocs: Vec<HereDocument>,
}

/// The line that ends a here-document.
#[derive(Clone, Debug)]
struct HereDelimiter {
    text: Vec<u8>,
    /// True if a part is quoted: the body is not expanded, and a backslash at the end of a line has no meaning.
    is_quoted: bool,
    /// True if tabs at the start of lines are removed: `<<-`.
    removes_tabs: bool,
}

/// The text of a body, without the escapes of one that is expanded.
#[derive(Clone, Debug, Default)]
struct BodyCopy {
    text: MappedText,
    /// True if the text contains expansions as written, or is truncated.
    has_gaps: bool,
    is_truncated: bool,
    backslash: Option<InputByte>,
}

impl BodyCopy {
    fn push(&mut self, byte: InputByte, quoted: bool, most: usize) {
        if self.text.len() + 1 >= most {
            (self.has_gaps, self.is_truncated) = (true, true);
            return;
        }
        if let Some(backslash) = self.backslash.take() {
            if byte.byte == b'\n' {
                return;
            }
            if !matches!(byte.byte, b'$' | b'`' | b'\\') {
                self.text.push(b"\\", backslash.offsets());
            }
        } else if !quoted {
            if byte.byte == b'\\' {
                self.backslash = Some(byte);
                return;
            }
            self.has_gaps |= matches!(byte.byte, b'$' | b'`');
        }
        self.text.push(&[byte.byte], byte.offsets());
    }
}

/// The reader of a here-document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HereConsumer {
    /// A program that does not run it.
    Data,
    /// A program that writes it to its standard output.
    Passed,
    /// A program that runs it as code.
    Code {
        command: CommandId,
        language: &'static str,
    },
}

impl HereDocument {
    /// Returns a here-document whose operator is within so many lists.
    pub(super) fn new(
        command: CommandId,
        delimiter: &WordBuffer,
        tabs: bool,
        lists: usize,
    ) -> HereDocument {
        HereDocument {
            command,
            consumer: HereConsumer::Data,
            delimiter: HereDelimiter {
                text: delimiter.text.bytes().to_vec(),
                is_quoted: delimiter.traits.quoted(),
                removes_tabs: tabs,
            },
            quoted: delimiter.traits.quoted(),
            backslash: None,
            matched: Some(0),
            line_begins: true,
            held: MappedText::default(),
            copy: None,
            file: None,
            is_redirected: false,
            lists,
            script: None,
            inner: None,
            inner_heredocs: Vec::new(),
        }
    }

    /// Returns true if substitutions in the body are run by the shell that reads the here-document.
    fn is_expanded(&self) -> bool {
        !self.quoted && !matches!(self.consumer, HereConsumer::Code { .. })
    }

    /// Reads a byte of a line. Returns true if the byte is part of a delimiter so far.
    fn matches(&mut self, byte: InputByte) -> bool {
        if self.line_begins && self.delimiter.removes_tabs && byte.byte == b'\t' {
            return true;
        }
        self.line_begins = false;
        let next = self
            .matched
            .filter(|&at| self.delimiter.text.get(at) == Some(&byte.byte));
        self.matched = next.map(|at| at + 1);
        if next.is_some() {
            self.held.push(&[byte.byte], byte.offsets());
        }
        next.is_some()
    }

    /// Returns true if the line is the delimiter.
    fn is_ended(&self) -> bool {
        self.matched == Some(self.delimiter.text.len())
    }

    fn begin_line(&mut self) {
        (self.matched, self.line_begins) = (Some(0), true);
        self.held.clear();
    }
}

impl ScriptReader {
    /// Begins the body of the first here-document of the line. A newline in a substitution begins no body of a
    /// here-document around the substitution, whose line goes on after it.
    pub(super) fn begin_body<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        let lists = self.lists.len();
        let first = self.heredocs.iter().position(|it| it.lists >= lists);
        let Some(first) = first.filter(|_| self.body.is_none()) else {
            return;
        };
        let mut body = self.heredocs.remove(first);
        match body.consumer {
            HereConsumer::Code {
                command,
                language: "sh",
            } if self.level < cx.state.limits.scripts => {
                let script = ScriptReader::nested(ShellSyntax::Posix, self.level + 1, command, &[]);
                body.script = Some(Box::new(script));
            }
            HereConsumer::Code { language, .. } if has_commands(language) => {
                body.copy = Some(Box::default());
            }
            HereConsumer::Passed => {
                body.is_redirected |= !self.list().writes_output_of(body.command);
                if body.file.is_some() || !body.is_redirected {
                    body.copy = Some(Box::default());
                }
            }
            _ => {}
        }
        body.lists = lists;
        if body.is_expanded() {
            match self.enter(LexContext::Body, cx) {
                true => self.lists.push(ScriptReader::body_list(body.command)),
                false => body.quoted = true,
            }
        }
        self.body = Some(Box::new(body));
    }

    /// Reads a byte of a body.
    pub(super) fn read_body<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(mut body) = self.body.take() else {
            return;
        };
        match body.backslash.take() {
            Some(backslash) if byte.byte == b'\n' => {
                // The lines are one, which goes on to match the delimiter.
                self.release(&mut body, cx);
                self.read_body_byte(&mut body, backslash, cx);
                self.read_body_byte(&mut body, byte, cx);
                self.body = Some(body);
                return;
            }
            Some(backslash) => {
                self.read_line_byte(&mut body, backslash, cx);
                self.read_line_byte(&mut body, byte, cx);
            }
            None if byte.byte == b'\\' && !body.delimiter.is_quoted => body.backslash = Some(byte),
            None if byte.byte == b'\n' => {
                if body.is_ended() {
                    return self.end_body(*body, cx);
                }
                self.release(&mut body, cx);
                self.read_body_byte(&mut body, byte, cx);
                body.begin_line();
            }
            None => self.read_line_byte(&mut body, byte, cx),
        }
        self.body = Some(body);
    }

    /// Reads a byte of a line, unless it is a part of the delimiter so far.
    fn read_line_byte<S: CommandSink>(
        &mut self,
        body: &mut HereDocument,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        if !body.matches(byte) {
            self.release(body, cx);
            self.read_body_byte(body, byte, cx);
        }
    }

    /// Reads the bytes that were held as a part of the delimiter.
    fn release<S: CommandSink>(&mut self, body: &mut HereDocument, cx: &mut ReadContext<'_, S>) {
        let held = std::mem::take(&mut body.held);
        for chunk in held.chunks(0) {
            for index in 0..chunk.bytes.len() {
                let byte = InputByte {
                    byte: chunk.bytes[index],
                    start: chunk.start(index),
                    end: chunk.end(index),
                };
                self.read_body_byte(body, byte, cx);
            }
        }
    }

    /// Reads a byte that is part of the text of the body.
    fn read_body_byte<S: CommandSink>(
        &mut self,
        body: &mut HereDocument,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        if let Some(copy) = &mut body.copy {
            copy.push(byte, body.quoted, cx.state.limits.word);
        }
        let at = std::mem::replace(&mut cx.state.at, byte.end);
        let chunk = Chunk {
            bytes: &[byte.byte],
            offsets: byte.offsets(),
            decided: cx.state.now,
        };
        match (&mut body.script, body.consumer) {
            (Some(script), _) => script.push(&chunk, cx),
            (None, HereConsumer::Code { command, language }) => cx.emit(CommandEvent::Code {
                command,
                language,
                chunk,
            }),
            (None, _) if !body.quoted => {
                self.swap_inner(body);
                self.read(byte, cx);
                self.swap_inner(body);
            }
            (None, _) => {}
        }
        cx.state.at = at;
    }

    /// Exchanges the here-documents of the line that holds `body` with those in `body`. Each expanded body has its own:
    /// a substitution in a body can have a here-document, which is read from the text of that body.
    fn swap_inner(&mut self, body: &mut HereDocument) {
        std::mem::swap(&mut self.body, &mut body.inner);
        std::mem::swap(&mut self.heredocs, &mut body.inner_heredocs);
    }

    fn end_body<S: CommandSink>(&mut self, mut body: HereDocument, cx: &mut ReadContext<'_, S>) {
        if body.is_expanded() {
            self.swap_inner(&mut body);
            self.finish_body(cx);
            self.heredocs.clear();
            self.swap_inner(&mut body);
            self.leave_body(cx);
        }
        match (body.script.take(), body.consumer) {
            (Some(mut script), _) => script.finish(cx),
            (None, HereConsumer::Code { command, language }) => {
                cx.emit(CommandEvent::CodeEnd { command });
                if let Some(copy) = body.copy.take() {
                    cx.counters().long_words += u64::from(copy.is_truncated);
                    run_embedded(&copy.text, command, language, (self.level, &[]), cx);
                }
            }
            (None, _) => {}
        }
        if let Some(copy) = body.copy.take() {
            let most = cx.state.limits.word;
            if !body.is_redirected && self.lists.len() == body.lists {
                self.list().append_output(&copy.text, copy.has_gaps, most);
            }
            if let Some(file) = &body.file {
                cx.state.stored.write(file, Some(copy.text), most);
            }
        }
        self.begin_body(cx);
    }

    /// Closes what is open in a body that is expanded.
    fn leave_body<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        self.finish_token(cx);
        (self.comment, self.skipped) = (false, 0);
        while self.context() != LexContext::Body && self.contexts.len() > 1 {
            match self.context() {
                LexContext::Commands => {
                    self.leave_list(cx);
                }
                _ => {
                    self.contexts.pop();
                }
            }
        }
        if self.contexts.len() > 1 {
            self.contexts.pop();
            self.lists.pop();
        }
    }

    /// Ends the body at the end of the text, and the bodies that have not begun.
    pub(super) fn finish_body<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        while let Some(mut body) = self.body.take() {
            if let Some(backslash) = body.backslash.take() {
                self.read_line_byte(&mut body, backslash, cx);
            }
            if !body.is_ended() {
                self.release(&mut body, cx);
            }
            self.end_body(*body, cx);
        }
    }
}
