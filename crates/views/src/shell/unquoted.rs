//! Text outside quotes: blanks, operators and plain words.

use std::ops::Range;

use super::super::chunk::{Chunk, ChunkSink, OffsetMap};
use super::command::WordRoute;
use super::emit::emit;
use super::heredoc::HeredocBody;
use super::metachars::{BARE, is_plain, is_single_blank, plain};
use super::{CommandScope, MAX_WORD, PendingToken, ShellContext, ShellView};

impl ShellView {
    /// Reads on outside quotes, between words or in one. Returns the number of bytes consumed.
    // PERF: the frequent cases have paths of their own. Byte by byte, each word through `held` and each space by
    // itself, a byte cost 4.7 times as much (`cargo bench --bench views -- command`).
    pub(super) fn unquoted(
        &mut self,
        kind: CommandScope,
        parens: u32,
        chunk: &Chunk<'_>,
        at: usize,
        sink: &mut impl ChunkSink,
    ) -> usize {
        let byte = chunk.bytes[at];
        if is_plain(byte) {
            return self.bare_text(chunk, at, sink);
        }
        let here = chunk.slice(at..at + 1);
        match byte {
            b'\'' => self.quote(ShellContext::Single, here),
            b'"' => self.quote(ShellContext::Double, here),
            b'$' => self.dollar(chunk, at, sink),
            b'\\' => self.begin_pending(PendingToken::Backslash, here),
            b'<' | b'>' => self.begin_pending(PendingToken::Operator, here),
            b'`' => self.backquote(here, sink),
            b')' if kind == CommandScope::Parens && parens == 0 => self.leave(here, sink),
            b'#' if !self.command().in_word => self.comment = true,
            b'#' => self.push_word(here, false, sink),
            b'&' => return self.and(chunk, at, sink),
            b' ' | b'\t' => {
                self.end_word(here.decided_start(0), sink);
                return self.emit_next_words(chunk, at, sink);
            }
            // A newline, `;`, `|`, and parentheses outside substitutions.
            _ => self.end_simple(byte, parens, here, sink),
        }
        1
    }

    /// Ends a simple command at this byte.
    fn end_simple(&mut self, byte: u8, parens: u32, here: Chunk<'_>, sink: &mut impl ChunkSink) {
        self.end_word(here.decided_start(0), sink);
        self.end_command(here.decided(0), sink);
        match byte {
            b'(' => self.set_parens(parens.saturating_add(1)),
            b')' => self.set_parens(parens.saturating_sub(1)),
            b'\n' if !self.heredocs.is_empty() => {
                self.body = Some(HeredocBody::new(self.heredocs.remove(0)));
            }
            _ => {}
        }
    }

    /// Handles `&`. The first `&` of `&&` ends the command and the second has no effect, which is known at the byte
    /// after them.
    fn and(&mut self, chunk: &Chunk<'_>, at: usize, sink: &mut impl ChunkSink) -> usize {
        self.end_word(chunk.decided_start(at), sink);
        if matches!(chunk.bytes[at + 1..], [b'&', next, ..] if !matches!(next, b'&' | b'>')) {
            self.end_command(chunk.decided(at + 1), sink);
            return 2;
        }
        self.begin_pending(PendingToken::Operator, chunk.slice(at..at + 1));
        1
    }

    pub(super) fn dollar(&mut self, chunk: &Chunk<'_>, at: usize, sink: &mut impl ChunkSink) {
        let dollar = chunk.slice(at..at + 1);
        match chunk.bytes.get(at + 1) {
            // Plain text, certain one byte later.
            Some(next) if !matches!(next, b'(' | b'{' | b'\'' | b'"') => {
                self.push_word(dollar.decided_no_earlier(chunk.decided(at + 1)), true, sink);
            }
            _ => self.begin_pending(PendingToken::Dollar, dollar),
        }
    }

    /// Reads a run of bytes that are not metacharacters outside quotes.
    fn bare_text(&mut self, chunk: &Chunk<'_>, at: usize, sink: &mut impl ChunkSink) -> usize {
        if self.begins_argument(chunk, at, sink) {
            return self.emit_words(chunk, at, sink);
        }
        let plain = plain(&chunk.bytes[at..], BARE);
        if self.is_whole_word(chunk, at, plain) {
            self.whole_word(chunk, at..at + plain, sink);
        } else {
            self.push_word(chunk.slice(at..at + plain), false, sink);
        }
        plain
    }

    /// Returns true if the bytes from `at` are emitted as they arrive: an argument of the outermost command has
    /// started, or starts now with a byte that is not a digit.
    fn begins_argument(&mut self, chunk: &Chunk<'_>, at: usize, sink: &mut impl ChunkSink) -> bool {
        let [command] = &mut self.commands[..] else {
            return false;
        };
        if !command.is_argument() || !matches!(chunk.offsets, OffsetMap::Verbatim(_)) {
            return false;
        }
        if command.in_word || chunk.bytes[at].is_ascii_digit() {
            return command.route.is_some();
        }
        command.begin_argument(chunk.start(at));
        self.space(chunk.decided(at), sink);
        true
    }

    /// Emits the arguments after the blank at `blank`, if an argument ended there and another one follows directly.
    fn emit_next_words(
        &mut self,
        chunk: &Chunk<'_>,
        blank: usize,
        sink: &mut impl ChunkSink,
    ) -> usize {
        let goes_on = self.commands.len() == 1
            && self.commands[0].is_argument()
            && self.commands[0].ended_at(chunk.start(blank))
            && self.open.is_some()
            && matches!(chunk.offsets, OffsetMap::Verbatim(_))
            && is_single_blank(chunk.bytes, blank);
        if !goes_on {
            return 1;
        }
        self.commands[0].begin_argument(chunk.end(blank));
        self.emit_words(chunk, blank, sink)
    }

    /// Emits plain arguments from `from` on that are separated by single blanks.
    fn emit_words(&mut self, chunk: &Chunk<'_>, from: usize, sink: &mut impl ChunkSink) -> usize {
        let mut end = from + plain(&chunk.bytes[from..], BARE);
        while is_single_blank(chunk.bytes, end) {
            end += 1 + plain(&chunk.bytes[end + 1..], BARE);
        }
        emit(&mut self.open, chunk.slice(from..end).as_words(), sink);
        end - from
    }

    /// Returns true if the bytes are a whole word of the outermost command; an argument only if it consists of digits.
    fn is_whole_word(&self, chunk: &Chunk<'_>, at: usize, plain: usize) -> bool {
        let is_end = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'|' | b'(' | b')');
        (1..MAX_WORD).contains(&plain)
            && matches!(chunk.offsets, OffsetMap::Verbatim(_))
            && self.commands.len() == 1
            && self.commands[0].awaits_word()
            && (!self.commands[0].is_argument()
                || chunk.bytes[at..at + plain].iter().all(u8::is_ascii_digit))
            && chunk.bytes.get(at + plain).is_some_and(is_end)
    }

    /// Does what [`push_word`](Self::push_word) and [`end_word`](Self::end_word) do, without a copy. The space before
    /// the word is emitted together with it if the two are adjacent in the part.
    fn whole_word(&mut self, chunk: &Chunk<'_>, word: Range<usize>, sink: &mut impl ChunkSink) {
        let (end, now) = (chunk.start(word.end), chunk.decided(word.end));
        self.begin_word(chunk.start(word.start));
        let (route, first) =
            self.commands[0].route_word(&chunk.bytes[word.clone()], true, self.scripts);
        let has_space = word.start >= 2
            && chunk.bytes[word.start - 1] == b' '
            // An incomplete character ends at a replacement.
            && chunk.bytes[word.start - 2].is_ascii()
            && self.commands[0].space_bytes() == 1;
        let goes_on = self.open.is_some();
        if route != WordRoute::Command || !self.commands[0].is_plain() {
            let chunks = std::iter::once(chunk.slice(word));
            self.emit_word(route, first, chunks, now, sink);
            self.enforce_limit(now, sink);
        } else if goes_on && has_space {
            let both = chunk.slice(word.start - 1..word.end);
            emit(&mut self.open, both.decided_no_earlier(now), sink);
        } else {
            self.space(now, sink);
            emit(
                &mut self.open,
                chunk.slice(word).decided_no_earlier(now),
                sink,
            );
        }
        self.finish_word(end);
    }
}
