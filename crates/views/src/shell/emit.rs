//! Output: the outermost command is emitted as it arrives; the commands inside it are queued until it ends.

use super::super::chunk::{Chunk, ChunkBuffer, ChunkSink, DecidedOffset, RegionSet, Tag};
use super::command::SimpleCommand;
use super::{ScriptReading, ShellView};

/// A command in the queue, with the index at which it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedCommand {
    pub(super) end: usize,
    pub(super) script: bool,
}

impl ShellView {
    pub(super) fn end_redirect(&mut self) {
        let command = self
            .commands
            .last_mut()
            .expect("the outermost command stays");
        if !command.redirect.is_empty() {
            queue(&mut self.queue, &mut self.queued, &command.redirect, false);
            command.redirect.clear();
        }
    }

    /// Ends the command. The end of the outermost command emits the queue.
    pub(super) fn end_command(&mut self, now: u64, sink: &mut impl ChunkSink) {
        self.end_redirect();
        let outermost = self.commands.len() == 1;
        let command = self
            .commands
            .last_mut()
            .expect("the outermost command stays");
        for text in [&mut command.text, &mut command.unwrapped] {
            if !text.is_empty() {
                queue(&mut self.queue, &mut self.queued, text, false);
                text.clear();
            }
        }
        if !command.script.is_empty() && !command.script_is_long {
            queue(&mut self.queue, &mut self.queued, &command.script, true);
        }
        command.restart();
        if outermost {
            self.flush(now, sink);
        }
    }

    /// Emits everything that is buffered if it exceeds the limit.
    pub(super) fn enforce_limit(&mut self, now: u64, sink: &mut impl ChunkSink) {
        let held = |command: &SimpleCommand| {
            command.text.bytes().len()
                + command.unwrapped.bytes().len()
                + command.redirect.bytes().len()
        };
        let waiting = self.queue.bytes().len() + self.commands.iter().map(held).sum::<usize>();
        if waiting <= self.limits.waiting {
            return;
        }
        self.counters.cut += 1;
        for command in &mut self.commands {
            for text in [
                &mut command.text,
                &mut command.unwrapped,
                &mut command.redirect,
            ] {
                if !text.is_empty() {
                    queue(&mut self.queue, &mut self.queued, text, false);
                    text.clear();
                }
            }
        }
        self.flush(now, sink);
    }

    fn flush(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if let Some(end) = self.open.take() {
            sink.cut(DecidedOffset {
                offset: end,
                decided: now,
            });
        }
        if self.queued.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.queue);
        let mut stretches = waiting.chunks(0..waiting.bytes().len());
        let (mut rest, mut from) = (Chunk::verbatim(b"", 0), 0);
        let mut queued = std::mem::take(&mut self.queued);
        for QueuedCommand { end, script } in queued.drain(..) {
            let mut left = end - from;
            from = end;
            let chunks = std::iter::from_fn(|| {
                if rest.bytes.is_empty() {
                    rest = stretches.next()?;
                }
                let most = left.min(rest.bytes.len());
                left -= most;
                let chunk = rest.slice(0..most);
                rest = rest.slice(most..rest.bytes.len());
                (most > 0).then_some(chunk)
            });
            if script {
                self.read_script(chunks, now, sink);
                continue;
            }
            let mut open = None;
            chunks.for_each(|chunk| emit(&mut open, chunk.decided_no_earlier(now), sink));
            if let Some(end) = open {
                sink.cut(DecidedOffset {
                    offset: end,
                    decided: now,
                });
            }
        }
        drop(stretches);
        (self.queue, self.queued) = (waiting, queued);
        self.queue.clear();
    }

    /// Reads the script passed to `sh -c`. Scripts inside it are not read.
    fn read_script<'a>(
        &mut self,
        chunks: impl Iterator<Item = Chunk<'a>>,
        now: u64,
        sink: &mut impl ChunkSink,
    ) {
        let mut inner = ShellView::new(self.limits);
        inner.scripts = ScriptReading::Word;
        inner.open_text();
        chunks.for_each(|chunk| inner.push(&chunk.decided_no_earlier(now), sink));
        inner.close(DecidedOffset::at_once(now), sink);
        self.counters.too_deep += inner.counters.too_deep;
        self.counters.cut += inner.counters.cut;
    }
}

/// Emits a chunk of a haystack and updates `open`, the end of what was emitted of it.
#[inline]
pub(super) fn emit(open: &mut Option<u64>, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
    if open.is_none() {
        let tag = Tag {
            regions: RegionSet::SHELL,
            ..Tag::default()
        };
        sink.set_tag(tag, chunk.decided_start(0));
    }
    *open = Some(chunk.end(chunk.bytes.len() - 1));
    sink.push(chunk);
}

/// Appends to a buffered haystack; a space precedes the first bytes of a word, unless the haystack is empty.
pub(super) fn append<'a>(
    into: &mut ChunkBuffer,
    first: bool,
    space: Chunk<'_>,
    chunks: impl Iterator<Item = Chunk<'a>>,
    now: u64,
) {
    if first && !into.is_empty() {
        into.push(space.decided_no_earlier(now));
    }
    chunks.for_each(|chunk| into.push(chunk.decided_no_earlier(now)));
}

fn queue(
    into: &mut ChunkBuffer,
    queued: &mut Vec<QueuedCommand>,
    text: &ChunkBuffer,
    script: bool,
) {
    for chunk in text.chunks(0..text.bytes().len()) {
        into.push(chunk);
    }
    queued.push(QueuedCommand {
        end: into.bytes().len(),
        script,
    });
}
