//! The bytes of words: which are emitted at once and which are buffered until the word ends.

use super::super::chunk::{Chunk, ChunkSink, DecidedOffset};
use super::command::WordRoute;
use super::emit::{append, emit};
use super::heredoc::HEREDOCS;
use super::{MAX_WORD, ShellView};

impl ShellView {
    #[inline]
    pub(super) fn begin_word(&mut self, start: u64) {
        self.command().begin_word(start);
    }

    /// Pushes bytes of the current word.
    pub(super) fn push_word(&mut self, chunk: Chunk<'_>, quoted: bool, sink: &mut impl ChunkSink) {
        self.begin_word(chunk.start(0));
        if quoted {
            self.command().mark_quoted();
        }
        let mut at = 0;
        while at < chunk.bytes.len() {
            let rest = chunk.slice(at..chunk.bytes.len());
            at += match self.commands.len() == 1 && self.commands[0].is_argument() {
                true => self.push_argument(rest, sink),
                false => self.hold(rest, sink),
            };
        }
    }

    /// Pushes bytes of an argument. Only leading digits are buffered, because they can be a file descriptor. Returns
    /// the number of bytes consumed.
    fn push_argument(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) -> usize {
        if self.commands[0].route.is_none() {
            let digits = self.commands[0].number(chunk.bytes);
            if digits > 0 {
                return self.hold(chunk.slice(0..digits), sink);
            }
            if self.commands[0].held.is_empty() {
                self.commands[0].route = Some(WordRoute::Command);
                self.space(chunk.decided(0), sink);
            } else {
                self.flush_word(false, chunk.decided(0), sink);
            }
        }
        emit(&mut self.open, chunk, sink);
        chunk.bytes.len()
    }

    /// Emits the space before an argument, unless it is the first.
    pub(super) fn space(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if self.open.is_some() {
            emit(&mut self.open, self.commands[0].space(now), sink);
        }
    }

    /// Buffers bytes of a word, and emits them when [`MAX_WORD`] bytes are there. Returns the number of bytes consumed.
    fn hold(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) -> usize {
        let room = MAX_WORD - self.command().held.bytes().len();
        let most = room.min(chunk.bytes.len());
        self.command().held.push(chunk.slice(0..most));
        if most == room {
            self.flush_word(false, chunk.decided(most - 1), sink);
        }
        most
    }

    pub(super) fn end_word(&mut self, end: DecidedOffset, sink: &mut impl ChunkSink) {
        if !self.command().in_word {
            return;
        }
        if self.command().route.is_none() || !self.command().held.is_empty() {
            self.flush_word(true, end.decided, sink);
        }
        self.finish_word(end.offset);
    }

    /// Ends a word whose bytes have all been emitted.
    pub(super) fn finish_word(&mut self, end: u64) {
        if let Some(heredoc) = self.command().end_word(end)
            && self.heredocs.len() < HEREDOCS
        {
            self.heredocs.push(heredoc);
        }
        if self.command().route == Some(WordRoute::Redirect) {
            self.end_redirect();
        }
        self.command().route = None;
    }

    /// Emits the buffered bytes of the word to the route of the word.
    fn flush_word(&mut self, complete: bool, now: u64, sink: &mut impl ChunkSink) {
        let scripts = self.scripts;
        let command = self.command();
        let held = std::mem::take(&mut command.held);
        let (route, first) = command.route_word(held.bytes(), complete, scripts);
        self.emit_word(route, first, held.chunks(0..held.bytes().len()), now, sink);
        let append = route == WordRoute::Heredoc && complete;
        self.command().held = held;
        if !append {
            self.command().held.clear();
        }
        self.enforce_limit(now, sink);
    }

    /// Emits bytes of a word to a route; a space precedes the first ones.
    pub(super) fn emit_word<'a>(
        &mut self,
        route: WordRoute,
        first: bool,
        chunks: impl Iterator<Item = Chunk<'a>> + Clone,
        now: u64,
        sink: &mut impl ChunkSink,
    ) {
        let level = self.commands.len() - 1;
        let command = &mut self.commands[level];
        match route {
            WordRoute::Command => {
                let space = command.space(now);
                if level > 0 {
                    append(&mut command.text, first, space, chunks.clone(), now);
                }
                if command.has_unwrapped {
                    append(&mut command.unwrapped, first, space, chunks.clone(), now);
                }
                if command.is_script() {
                    let long = command.append_to_script(chunks.clone(), now, self.limits.waiting);
                    self.counters.long_scripts += u64::from(long);
                }
                if level == 0 {
                    if first {
                        self.space(now, sink);
                    }
                    chunks.for_each(|chunk| {
                        emit(&mut self.open, chunk.decided_no_earlier(now), sink)
                    });
                }
            }
            WordRoute::Redirect => {
                let space = command.space_after_operator(now);
                append(&mut command.redirect, first, space, chunks, now);
            }
            WordRoute::Nowhere | WordRoute::Heredoc => {}
        }
    }
}
