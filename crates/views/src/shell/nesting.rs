//! Nested constructs: quotes, expansions, arithmetic and substitutions.

use super::super::chunk::{Chunk, ChunkSink};
use super::command::SimpleCommand;
use super::metachars::{ANSI, INSIDE, SINGLE, plain};
use super::word::AnsiEscape;
use super::{CommandScope, PendingToken, ShellContext, ShellView};

impl ShellView {
    /// Reads on inside quotes, an expansion or arithmetic. Returns the number of bytes consumed.
    pub(super) fn inside(
        &mut self,
        frame: ShellContext,
        chunk: &Chunk<'_>,
        at: usize,
        sink: &mut impl ChunkSink,
    ) -> usize {
        let class = match frame {
            ShellContext::Single => SINGLE,
            ShellContext::Ansi => ANSI,
            _ => INSIDE,
        };
        let plain = plain(&chunk.bytes[at..], class);
        if plain > 0 {
            self.push_word(chunk.slice(at..at + plain), false, sink);
            return plain;
        }
        let here = chunk.slice(at..at + 1);
        match (frame, chunk.bytes[at]) {
            (ShellContext::Single | ShellContext::Ansi, b'\'') | (ShellContext::Double, b'"') => {
                self.unquote()
            }
            (ShellContext::Single | ShellContext::Ansi, b'`') if !self.in_backquotes() => {
                self.push_word(here, true, sink);
            }
            (_, b'`') => self.backquote(here, sink),
            (ShellContext::Ansi, _) => {
                self.begin_pending(PendingToken::Escape(AnsiEscape::default()), here)
            }
            (_, b'$') => self.dollar(chunk, at, sink),
            (_, b'\\') => self.begin_pending(PendingToken::Backslash, here),
            (ShellContext::Brace { .. }, b'"') => self.quote(ShellContext::Double, here),
            (ShellContext::Brace { quoted: false }, b'\'') => {
                self.quote(ShellContext::Single, here)
            }
            (ShellContext::Brace { .. }, b'}') => {
                self.frames.pop();
                self.push_word(here, true, sink);
            }
            (ShellContext::Arithmetic(parens), byte @ (b'(' | b')')) => {
                let parens = if byte == b'(' { parens + 1 } else { parens - 1 };
                self.frames.pop();
                if parens > 0 {
                    self.frames.push(ShellContext::Arithmetic(parens));
                }
                self.push_word(here, true, sink);
            }
            _ => self.push_word(here, true, sink),
        }
        1
    }

    pub(super) fn in_backquotes(&self) -> bool {
        let commands = |frame: &&ShellContext| matches!(frame, ShellContext::Commands(..));
        matches!(
            self.frames.iter().rfind(commands),
            Some(ShellContext::Commands(CommandScope::Backquotes, _))
        )
    }

    /// Opens a substitution, or closes the current one and everything that is open in it.
    pub(super) fn backquote(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        if !self.in_backquotes() {
            self.push_word(chunk, true, sink);
            return self.substitute(CommandScope::Backquotes);
        }
        while !matches!(self.frame(), ShellContext::Commands(..)) {
            self.frames.pop();
        }
        self.leave(chunk, sink);
    }

    pub(super) fn substitute(&mut self, kind: CommandScope) {
        if self.enter(ShellContext::Commands(kind, 0)) {
            self.commands.push(SimpleCommand::default());
        } else if kind == CommandScope::Parens {
            self.skipped = 1;
        }
    }

    /// Ends a substitution at this byte.
    pub(super) fn leave(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        let end = chunk.decided_start(0);
        self.end_word(end, sink);
        self.end_command(end.decided, sink);
        self.frames.pop();
        self.commands.pop();
        self.push_word(chunk, true, sink);
    }

    pub(super) fn enter(&mut self, frame: ShellContext) -> bool {
        let fits = self.frames.len() <= self.limits.depth;
        self.counters.too_deep += u64::from(!fits);
        if fits {
            self.frames.push(frame);
        }
        fits
    }

    pub(super) fn quote(&mut self, frame: ShellContext, chunk: Chunk<'_>) {
        self.begin_word(chunk.start(0));
        self.command().mark_quoted();
        self.enter(frame);
    }

    fn unquote(&mut self) {
        self.frames.pop();
    }

    /// Consumes a byte of a substitution that is nested too deep, in which only parentheses are counted.
    pub(super) fn too_deep(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) -> bool {
        match chunk.bytes[0] {
            b'(' => self.skipped += 1,
            b')' => self.skipped -= 1,
            _ => {}
        }
        self.push_word(chunk, true, sink);
        true
    }

    pub(super) fn set_parens(&mut self, count: u32) {
        if let Some(ShellContext::Commands(_, parens)) = self.frames.last_mut() {
            *parens = count;
        }
    }
}
