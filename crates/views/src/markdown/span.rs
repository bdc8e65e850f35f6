//! Inline code: pairs of backtick runs in one paragraph or heading.
//!
//! A backtick run can open a code span. That is decided when a run of the same length follows, or when the paragraph
//! ends, so the text after the run is buffered. This module knows no lines; its caller ends the paragraph.

use memchr::memchr;

use super::super::chunk::{Chunk, ChunkBuffer, ChunkSink, Tag};
use super::MarkdownEmitter;

/// The reader of the code spans of a text.
#[derive(Clone, Debug)]
pub(super) struct CodeSpans {
    /// The buffered bytes, from the first backtick of the run that can open a span.
    held: ChunkBuffer,
    /// The runs in the buffer. The first can open a span; none of the others closes it.
    runs: Vec<BacktickRun>,
    /// True if the last run can still grow.
    growing: bool,
    /// True inside a run that is too long to be buffered.
    endless: bool,
    /// True if the text so far ends in an odd number of backslashes.
    escaping: bool,
    limit: usize,
    /// An empty buffer for the remainder of `held`, to avoid allocations.
    spare: ChunkBuffer,
}

#[derive(Clone, Copy, Debug)]
struct BacktickRun {
    /// The index in the buffer at which it starts.
    at: usize,
    len: usize,
    /// True after a backslash: the run then opens with one backtick less, and closes with all.
    escaped: bool,
}

impl BacktickRun {
    #[inline]
    fn opening(&self) -> usize {
        self.len - usize::from(self.escaped)
    }

    #[inline]
    fn end(&self) -> usize {
        self.at + self.len
    }
}

/// The tags of text and of code spans.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpanTags {
    pub(super) text: Tag,
    pub(super) code: Tag,
}

impl CodeSpans {
    /// Creates a reader that buffers at most `limit` bytes, at least one.
    pub(super) fn new(limit: usize) -> CodeSpans {
        CodeSpans {
            held: ChunkBuffer::default(),
            runs: Vec::new(),
            growing: false,
            endless: false,
            escaping: false,
            limit,
            spare: ChunkBuffer::default(),
        }
    }

    /// Returns true if the buffer is empty, and text without backticks can be emitted directly.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty() && !self.endless
    }

    /// Records text without backticks that was emitted directly.
    #[inline]
    pub(super) fn advance(&mut self, bytes: &[u8]) {
        self.escaping = ends_escaping(bytes, self.escaping);
    }

    /// Consumes the next chunk of text.
    pub(super) fn push(
        &mut self,
        chunk: Chunk<'_>,
        tags: SpanTags,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let mut rest = chunk;
        while !rest.bytes.is_empty() {
            let used = if self.endless {
                self.endless(rest, tags, out)
            } else if self.runs.is_empty() {
                self.flow(rest, tags, out)
            } else {
                self.hold(rest, tags, out)
            };
            rest = rest.slice(used..rest.bytes.len());
        }
    }

    /// Ends the paragraph or heading. An open run is text.
    pub(super) fn finish(
        &mut self,
        decided: u64,
        tags: SpanTags,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        if self.growing {
            self.complete(decided, tags, out);
        }
        if !self.runs.is_empty() {
            self.give_up(true, decided, tags, out);
        }
        (self.endless, self.escaping) = (false, false);
    }

    fn endless(
        &mut self,
        rest: Chunk<'_>,
        tags: SpanTags,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) -> usize {
        let more = backticks(rest.bytes);
        self.endless = more == rest.bytes.len();
        self.escaping = false;
        out.emit(tags.text, rest.slice(0..more));
        more
    }

    fn flow(
        &mut self,
        rest: Chunk<'_>,
        tags: SpanTags,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) -> usize {
        let Some(at) = memchr(b'`', rest.bytes) else {
            self.escaping = ends_escaping(rest.bytes, self.escaping);
            out.emit(tags.text, rest);
            return rest.bytes.len();
        };
        let escaped = ends_escaping(&rest.bytes[..at], self.escaping);
        out.emit(tags.text, rest.slice(0..at));
        self.held.push(rest.slice(at..at + 1));
        self.begin(0, escaped);
        at + 1
    }

    #[inline]
    fn begin(&mut self, at: usize, escaped: bool) {
        self.runs.push(BacktickRun {
            at,
            len: 1,
            escaped,
        });
        self.growing = true;
    }

    fn hold(
        &mut self,
        rest: Chunk<'_>,
        tags: SpanTags,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) -> usize {
        let decided = rest.decided(0);
        if self.growing && rest.bytes[0] != b'`' {
            self.complete(decided, tags, out);
            return 0;
        }
        let room = self.limit.saturating_sub(self.held.bytes().len());
        if room == 0 {
            self.give_up(false, decided, tags, out);
            return 0;
        }
        let near = &rest.bytes[..rest.bytes.len().min(room)];
        if self.growing {
            return self.grow(rest, backticks(near));
        }
        let plain = memchr(b'`', near).unwrap_or(near.len());
        self.held.push(rest.slice(0..plain));
        if plain < near.len() {
            let escaped = ends_escaping(self.held.bytes(), false);
            self.begin(self.held.bytes().len(), escaped);
            self.held.push(rest.slice(plain..plain + 1));
            return plain + 1;
        }
        plain
    }

    #[inline]
    fn grow(&mut self, rest: Chunk<'_>, more: usize) -> usize {
        self.held.push(rest.slice(0..more));
        self.runs.last_mut().expect("a run is growing").len += more;
        more
    }

    /// Completes the last run.
    fn complete(
        &mut self,
        decided: u64,
        tags: SpanTags,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        self.growing = false;
        let (first, last) = (self.runs[0], self.runs[self.runs.len() - 1]);
        if self.runs.len() > 1 {
            if last.len == first.opening() {
                self.span(0, first, last, decided, tags, out);
                self.forget();
            }
        } else if first.opening() == 0 {
            out.emit_all(tags.text, self.held.chunks(0..1), decided);
            self.forget();
        }
    }

    /// Emits the buffer from `from` through the span between two runs.
    fn span(
        &self,
        from: usize,
        open: BacktickRun,
        close: BacktickRun,
        decided: u64,
        tags: SpanTags,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let text = from..open.end() - open.opening();
        out.emit_all(tags.text, self.held.chunks(text), decided);
        let code = open.end()..close.at;
        out.emit_all(tags.code, self.held.chunks(code), decided);
    }

    /// Emits the first run, which opens no span, as text, and the text up to the next run that can open one. With
    /// `all`, every other run is decided too.
    fn give_up(
        &mut self,
        all: bool,
        decided: u64,
        tags: SpanTags,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let (mut from, mut next) = (0, 1);
        while let Some(&open) = self.runs.get(next) {
            let grows = self.growing && next + 1 == self.runs.len();
            let close = self.closing(next);
            next = match close {
                Some(close) => {
                    self.span(from, open, self.runs[close], decided, tags, out);
                    from = self.runs[close].end();
                    close + 1
                }
                None if all || (open.opening() == 0 && !grows) => next + 1,
                None => {
                    out.emit_all(tags.text, self.held.chunks(from..open.at), decided);
                    return self.keep(next);
                }
            };
        }
        let rest = from..self.held.bytes().len();
        out.emit_all(tags.text, self.held.chunks(rest), decided);
        self.endless = self.growing;
        self.forget();
    }

    /// Returns the index of the run that closes the span opened by the run at `open`. A growing run closes none.
    ///
    /// Scanning all runs is linear in the text: the length of a run that finds no match does not occur again, and the
    /// buffer has room for few different lengths.
    #[inline]
    fn closing(&self, open: usize) -> Option<usize> {
        let complete = self.runs.len() - usize::from(self.growing);
        let len = self.runs[open].opening();
        (open + 1..complete).find(|&run| self.runs[run].len == len)
    }

    /// Keeps the buffer from the run at `first`.
    fn keep(&mut self, first: usize) {
        let from = self.runs[first].at;
        for chunk in self.held.chunks(from..self.held.bytes().len()) {
            self.spare.push(chunk);
        }
        std::mem::swap(&mut self.held, &mut self.spare);
        self.spare.clear();
        self.runs.drain(..first);
        for run in &mut self.runs {
            run.at -= from;
        }
    }

    #[inline]
    fn forget(&mut self) {
        self.escaping = ends_escaping(self.held.bytes(), false);
        self.held.clear();
        self.runs.clear();
        self.growing = false;
    }
}

#[inline]
fn backticks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|&&byte| byte == b'`').count()
}

/// Returns true if the text ends in an odd number of backslashes; `before` is that result for the preceding text.
#[inline]
fn ends_escaping(bytes: &[u8], before: bool) -> bool {
    let count = bytes
        .iter()
        .rev()
        .take_while(|&&byte| byte == b'\\')
        .count();
    (count % 2 == 1) != (count == bytes.len() && before)
}

#[cfg(test)]
impl CodeSpans {
    /// Returns the number of buffered bytes.
    #[inline]
    pub(super) fn buffered_len(&self) -> usize {
        self.held.bytes().len()
    }
}
