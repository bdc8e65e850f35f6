//! The reader of one script: its open contexts, lists and here-documents.

use std::ops::Range;

use super::super::chunk::{Chunk, OffsetMap};
use super::arithmetic::OpenArithmetic;
use super::body::HereDocument;
use super::event::{CommandId, CommandSink, ParentCommand, ParentRelation};
use super::lexer::{LexContext, LexToken};
use super::list::ListReader;
use super::text::MappedText;
use super::word::InputByte;
use super::{ReadContext, ShellSyntax};

/// The reader of a text of commands.
#[derive(Clone, Debug)]
pub(super) struct ScriptReader {
    pub(super) syntax: ShellSyntax,
    /// The number of scripts that contain this one.
    pub(super) level: usize,
    /// The open contexts, innermost last. There is one list for each [`LexContext::Commands`].
    pub(super) contexts: Vec<LexContext>,
    pub(super) lists: Vec<ListReader>,
    pub(super) token: LexToken,
    /// The bytes of a token that have not been appended to a word.
    pub(super) token_bytes: MappedText,
    pub(super) token_start: u64,
    pub(super) comment: bool,
    /// The number of parentheses to close before a substitution that is too deep ends.
    pub(super) skipped: u32,
    /// The here-documents whose bodies follow the current line, and those whose bodies are being read.
    pub(super) heredocs: Vec<HereDocument>,
    pub(super) body: Option<Box<HereDocument>>,
    /// The arithmetic expression that is open.
    pub(super) arithmetic: Option<Box<OpenArithmetic>>,
    /// The number of expressions that are being read again as commands.
    pub(super) reread: u32,
}

impl ScriptReader {
    pub(super) fn new(syntax: ShellSyntax) -> ScriptReader {
        ScriptReader {
            syntax,
            level: 0,
            contexts: vec![LexContext::Commands],
            lists: vec![ListReader::default()],
            token: LexToken::None,
            token_bytes: MappedText::default(),
            token_start: 0,
            comment: false,
            skipped: 0,
            heredocs: Vec::new(),
            body: None,
            arithmetic: None,
            reread: 0,
        }
    }

    /// Creates the reader of a script that `command` runs; `stdin` are the commands that write its standard input.
    pub(super) fn nested(
        syntax: ShellSyntax,
        level: usize,
        command: CommandId,
        stdin: &[CommandId],
    ) -> ScriptReader {
        let mut script = ScriptReader::new(syntax);
        script.level = level;
        let parent = ParentCommand {
            command,
            relation: ParentRelation::Script,
        };
        script.lists[0] = ListReader::new(Some(parent), stdin);
        script
    }

    #[inline]
    pub(super) fn list(&mut self) -> &mut ListReader {
        self.lists.last_mut().expect("the outermost list stays")
    }

    #[inline]
    pub(super) fn context(&self) -> LexContext {
        *self.contexts.last().expect("the outermost list stays")
    }

    pub(super) fn push<S: CommandSink>(&mut self, chunk: &Chunk<'_>, cx: &mut ReadContext<'_, S>) {
        let mut at = 0;
        while at < chunk.bytes.len() {
            let run = self.plain_run(chunk, at);
            if run > 0 {
                let last = at + run - 1;
                cx.state.now = cx.state.now.max(chunk.decided(last));
                cx.state.at = chunk.end(last);
                let (start, end) = (chunk.start(at), chunk.end(last));
                self.push_run(&chunk.bytes[at..at + run], start..end, cx);
                at += run;
                continue;
            }
            cx.state.now = cx.state.now.max(chunk.decided(at));
            cx.state.at = chunk.end(at);
            let byte = InputByte {
                byte: chunk.bytes[at],
                start: chunk.start(at),
                end: chunk.end(at),
            };
            self.keep_arithmetic(byte, cx);
            self.read(byte, cx);
            at += 1;
        }
    }

    /// Returns the number of bytes from `at` on that are part of the current word, whatever follows.
    fn plain_run(&self, chunk: &Chunk<'_>, at: usize) -> usize {
        let verbatim = !matches!(chunk.offsets, OffsetMap::Replacement { .. });
        if !verbatim || self.token != LexToken::None || self.arithmetic.is_some() || self.skips() {
            return 0;
        }
        let is_plain = self.plain_bytes();
        let rest = &chunk.bytes[at..];
        let special = |&byte: &u8| !is_plain(byte);
        rest.iter().position(special).unwrap_or(rest.len())
    }

    /// Returns true if the text here is not read as words.
    pub(super) fn skips(&self) -> bool {
        self.comment || self.body.is_some() || self.skipped > 0
    }

    /// Appends verbatim bytes to the current word.
    pub(super) fn push_run<S: CommandSink>(
        &mut self,
        bytes: &[u8],
        source: Range<u64>,
        cx: &mut ReadContext<'_, S>,
    ) {
        let most = cx.state.limits.word;
        let list = self.list();
        if list.discards() {
            return;
        }
        let start = source.start;
        list.word.begin(source);
        let fits = list.word.push(bytes, OffsetMap::Verbatim(start), most);
        cx.counters().long_words += u64::from(!fits);
    }

    /// Appends a byte to the current word.
    pub(super) fn push_byte<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        self.push_text(&[byte.byte], byte.offsets(), byte.start..byte.end, cx);
    }

    pub(super) fn push_text<S: CommandSink>(
        &mut self,
        bytes: &[u8],
        offsets: OffsetMap,
        source: Range<u64>,
        cx: &mut ReadContext<'_, S>,
    ) {
        let most = cx.state.limits.word;
        let list = self.list();
        if list.discards() {
            return;
        }
        list.word.begin(source);
        let fits = list.word.push(bytes, offsets, most);
        cx.counters().long_words += u64::from(!fits);
    }

    /// Reads a byte of a word that is an element of an array.
    pub(super) fn push_element<S: CommandSink>(
        &mut self,
        chunk: &Chunk<'_>,
        cx: &mut ReadContext<'_, S>,
    ) {
        for (index, &byte) in chunk.bytes.iter().enumerate() {
            cx.state.now = cx.state.now.max(chunk.decided(index));
            cx.state.at = chunk.end(index);
            let (start, end) = (chunk.start(index), chunk.end(index));
            let list = self.list();
            list.word.begin(start..end);
            list.word.mark_quoted();
            self.push_byte(InputByte { byte, start, end }, cx);
        }
    }

    pub(super) fn end_element<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        let at = cx.state.at;
        let list = self.list();
        list.word.begin(at..at);
        list.word.mark_quoted();
        self.end_word(cx);
    }

    /// Reads a byte: as part of the current token, then as often as a token ends before it.
    pub(super) fn read<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        if self.body.is_some() {
            return self.read_body(byte, cx);
        }
        self.read_text(byte, cx);
    }

    /// Ends the text and every construct that is still open in it.
    pub(super) fn finish<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        self.finish_body(cx);
        self.finish_token(cx);
        let open = self.contexts[1..]
            .iter()
            .any(|context| *context != LexContext::Commands);
        cx.counters().unreadable += u64::from(open || self.skipped > 0 || self.lists.len() > 1);
        while self.lists.len() > 1 {
            self.leave_list(cx);
        }
        self.end_word(cx);
        self.end_command(cx);
        self.end_list(cx);
        self.contexts.truncate(1);
        self.heredocs.clear();
        self.arithmetic = None;
        (self.comment, self.skipped) = (false, 0);
        let root = self.list();
        let mut ended = std::mem::take(root);
        *root = ListReader::new(ended.parent, &[]);
        (root.outputs, root.stdin_code) = (ended.outputs, ended.stdin_code);
        ended.word.clear();
        (root.word, root.command) = (ended.word, ended.command);
    }
}
