//! Tokens whose meaning depends on the next byte: `\`, `$`, operators and escapes.
//!
//! 1. A pending token keeps its bytes in `pending_bytes`; none of them has been emitted.
//! 2. The next byte either extends the token, completes it, or shows that it is complete or plain text.
//! 3. In the last case the byte is not consumed: it is stepped again, without a pending token.

use super::super::chunk::{Chunk, ChunkSink, DecidedOffset};
use super::command::ends;
use super::word::{AnsiEscape, EscapeStep};
use super::{CommandScope, PendingToken, ShellContext, ShellView};

impl ShellView {
    /// Steps a byte of skipped text, or the byte after a pending token. Returns false if the byte was not consumed
    /// and must be stepped again.
    pub(super) fn resolve_pending(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) -> bool {
        if self.skips(chunk.bytes[0]) {
            return true;
        }
        if self.skipped > 0 {
            return self.too_deep(chunk, sink);
        }
        match self.pending {
            PendingToken::Backslash => self.after_backslash(chunk, sink),
            PendingToken::Dollar => self.after_dollar(chunk, sink),
            PendingToken::DollarParen => self.after_dollar_paren(chunk, sink),
            PendingToken::Operator => self.after_operator(chunk, sink),
            PendingToken::Escape(escape) => self.after_escape(escape, chunk, sink),
            PendingToken::None => false,
        }
    }

    #[inline]
    pub(super) fn begin_pending(&mut self, pending: PendingToken, chunk: Chunk<'_>) {
        self.pending = pending;
        self.pending_bytes
            .push((chunk.bytes[0], chunk.offsets, chunk.decided));
    }

    /// Reads the pending bytes as plain text.
    pub(super) fn push_pending(&mut self, now: u64, sink: &mut impl ChunkSink) {
        self.pending = PendingToken::None;
        let pending_bytes = std::mem::take(&mut self.pending_bytes);
        for &(byte, offsets, decided) in &pending_bytes {
            let bytes = &[byte];
            let chunk = Chunk {
                bytes,
                offsets,
                decided,
            };
            self.push_word(chunk.decided_no_earlier(now), true, sink);
        }
        self.pending_bytes = pending_bytes;
        self.pending_bytes.clear();
    }

    /// Returns the offset at which the pending token starts.
    #[inline]
    pub(super) fn pending_start(&self) -> u64 {
        self.pending_bytes
            .first()
            .map_or(0, |pending_bytes| ends(pending_bytes.1).0)
    }

    #[inline]
    fn clear_pending(&mut self) {
        self.pending = PendingToken::None;
        self.pending_bytes.clear();
    }

    fn after_backslash(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) -> bool {
        let byte = chunk.bytes[0];
        let stays = matches!(
            self.frame(),
            ShellContext::Double | ShellContext::Arithmetic(_)
        ) && !matches!(byte, b'$' | b'`' | b'"' | b'\\' | b'\n');
        if stays {
            self.push_pending(chunk.decided(0), sink);
            return false;
        }
        if byte == b'\n' {
            self.clear_pending();
            return true;
        }
        self.begin_word(self.pending_start());
        self.clear_pending();
        self.push_word(chunk, true, sink);
        true
    }

    fn after_dollar(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) -> bool {
        let quotes = matches!(
            self.frame(),
            ShellContext::Commands(..) | ShellContext::Brace { quoted: false }
        );
        let now = chunk.decided(0);
        match chunk.bytes[0] {
            b'(' => self.begin_pending(PendingToken::DollarParen, chunk),
            b'{' => {
                self.push_pending(now, sink);
                self.push_word(chunk, true, sink);
                let quoted = matches!(
                    self.frame(),
                    ShellContext::Double | ShellContext::Brace { quoted: true }
                );
                self.enter(ShellContext::Brace { quoted });
            }
            b'\'' if quotes => self.quote_dollar(ShellContext::Ansi, chunk),
            b'"' if quotes => self.quote_dollar(ShellContext::Double, chunk),
            _ => {
                self.push_pending(now, sink);
                return false;
            }
        }
        true
    }

    #[inline]
    fn quote_dollar(&mut self, frame: ShellContext, chunk: Chunk<'_>) {
        self.begin_word(self.pending_start());
        self.clear_pending();
        self.quote(frame, chunk);
    }

    fn after_dollar_paren(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) -> bool {
        self.push_pending(chunk.decided(0), sink);
        if chunk.bytes[0] == b'(' {
            self.push_word(chunk, true, sink);
            if !self.enter(ShellContext::Arithmetic(2)) {
                self.skipped = 2;
            }
            return true;
        }
        self.substitute(CommandScope::Parens);
        false
    }

    fn after_operator(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) -> bool {
        let byte = chunk.bytes[0];
        let pending_bytes = |index: usize| {
            self.pending_bytes
                .get(index)
                .map_or(0, |pending_bytes| pending_bytes.0)
        };
        if matches!(
            (pending_bytes(0), pending_bytes(1), byte),
            (b'<' | b'>', 0, b'(')
        ) {
            self.push_pending(chunk.decided(0), sink);
            self.push_word(chunk, true, sink);
            self.substitute(CommandScope::Parens);
            return true;
        }
        let goes_on = match (pending_bytes(0), pending_bytes(1), self.pending_bytes.len()) {
            (b'>', _, 1) => matches!(byte, b'>' | b'&' | b'|'),
            (b'<', _, 1) => matches!(byte, b'<' | b'>' | b'&'),
            (b'&', _, 1) => byte == b'>',
            (b'<', b'<', 2) => matches!(byte, b'<' | b'-'),
            (b'&', b'>', 2) => byte == b'>',
            _ => false,
        };
        if goes_on {
            self.begin_pending(PendingToken::Operator, chunk);
            return true;
        }
        self.end_operator(chunk.decided(0), sink);
        false
    }

    pub(super) fn end_operator(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if !self.command().drop_number() {
            let end = DecidedOffset {
                offset: self.pending_start(),
                decided: now,
            };
            self.end_word(end, sink);
        }
        let pending_bytes = std::mem::take(&mut self.pending_bytes);
        let is = |operator: &[u8]| {
            pending_bytes
                .iter()
                .map(|pending_bytes| pending_bytes.0)
                .eq(operator.iter().copied())
        };
        if is(b"&") {
            self.end_command(now, sink);
        } else if is(b"<<") {
            self.command().begin_heredoc(false);
        } else if is(b"<<-") {
            self.command().begin_heredoc(true);
        } else {
            self.end_redirect();
            self.command().begin_redirect(&pending_bytes, now);
        }
        self.pending_bytes = pending_bytes;
        self.clear_pending();
    }

    fn after_escape(
        &mut self,
        escape: AnsiEscape,
        chunk: Chunk<'_>,
        sink: &mut impl ChunkSink,
    ) -> bool {
        let start = self.pending_start();
        let now = chunk.decided(0);
        match escape.next(chunk.bytes[0]) {
            EscapeStep::More(escape) => {
                self.pending = PendingToken::Escape(escape);
                self.pending_bytes
                    .push((chunk.bytes[0], chunk.offsets, chunk.decided));
                true
            }
            EscapeStep::Done(utf8, len) => {
                self.clear_pending();
                let end = chunk.end(0);
                self.push_word(
                    Chunk::replacement(&utf8[..len], start..end, now),
                    true,
                    sink,
                );
                true
            }
            EscapeStep::Before(utf8, len) => {
                self.push_escape(&utf8[..len], start, now, sink);
                false
            }
            EscapeStep::Nothing => {
                self.push_pending(now, sink);
                false
            }
        }
    }

    /// Pushes the value of an escape that ended with the last pending byte.
    pub(super) fn push_escape(
        &mut self,
        utf8: &[u8],
        start: u64,
        now: u64,
        sink: &mut impl ChunkSink,
    ) {
        let end = self
            .pending_bytes
            .last()
            .map_or(start, |pending_bytes| ends(pending_bytes.1).1);
        self.clear_pending();
        self.push_word(Chunk::replacement(utf8, start..end, now), true, sink);
    }
}
