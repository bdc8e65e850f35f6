//! Inline code: runs of backticks inside one paragraph or heading.
//!
//! A run may open a code span, and whether it does is known only when a run of the same length comes, or
//! never: so what follows it waits. It knows nothing of lines; whoever feeds it says where the text ends.

use memchr::memchr;

use super::super::chunk::{Chunk, ChunkBuffer, ChunkSink, Tag};
use super::MarkdownEmitter;

/// The code spans of a text that is read in pieces.
#[derive(Clone, Debug)]
pub(super) struct CodeSpans {
    /// What waits, from the first backtick of the run that may open a span.
    held: ChunkBuffer,
    /// The runs in what waits; the first may open a span, and none so far closes it.
    runs: Vec<BacktickRun>,
    /// The last run may yet grow.
    growing: bool,
    /// In a run that is too long to wait for.
    endless: bool,
    /// The text so far ends in an odd number of backslashes.
    escaping: bool,
    limit: usize,
    /// An empty store, to build in what is left of `held`.
    spare: ChunkBuffer,
}

#[derive(Clone, Copy, Debug)]
struct BacktickRun {
    /// Where in what waits it begins.
    at: usize,
    len: usize,
    /// A backslash stands before it: it opens with one backtick less, and closes with all.
    escaped: bool,
}

impl BacktickRun {
    fn opening(&self) -> usize {
        self.len - usize::from(self.escaped)
    }

    fn end(&self) -> usize {
        self.at + self.len
    }
}

/// What the two kinds of text are called.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpanTags {
    pub(super) text: Tag,
    pub(super) code: Tag,
}

impl CodeSpans {
    /// `limit`: most bytes that wait, at least one.
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

    /// Whether nothing waits, and text without backticks goes on as it is.
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty() && !self.endless
    }

    /// Text without backticks went on as it is.
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        self.escaping = ends_escaping(bytes, self.escaping);
    }

    /// Takes the next stretch of text.
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

    /// The paragraph or heading ends: a run that is open is text.
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

    fn grow(&mut self, rest: Chunk<'_>, more: usize) -> usize {
        self.held.push(rest.slice(0..more));
        self.runs.last_mut().expect("a run is growing").len += more;
        more
    }

    /// The last run has all its backticks.
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

    /// Hands on what waits from `from`, through the span between two runs.
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

    /// The first run opens no span: it is text, and so is what follows up to the next run that may.
    /// With `all`, no other run may wait any longer either.
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

    /// The run that closes the span which the run with that index opens. One that grows closes none yet.
    ///
    /// A run that is asked for in vain has a length that no later run has, and there is room for few
    /// different lengths, so looking through all runs stays linear in the text.
    fn closing(&self, open: usize) -> Option<usize> {
        let complete = self.runs.len() - usize::from(self.growing);
        let len = self.runs[open].opening();
        (open + 1..complete).find(|&run| self.runs[run].len == len)
    }

    /// Waits on, from the run with that index.
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

    fn forget(&mut self) {
        self.escaping = ends_escaping(self.held.bytes(), false);
        self.held.clear();
        self.runs.clear();
        self.growing = false;
    }
}

fn backticks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|&&byte| byte == b'`').count()
}

/// Whether the text ends in an odd number of backslashes; `before`: whether what stands before it does.
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
    /// Bytes that wait.
    pub(super) fn waits(&self) -> usize {
        self.held.bytes().len()
    }
}
