//! Haystacks on their way: the outermost command as it comes, and what waits for its end.

use super::super::piece::{Held, Piece, Regions, Sink, Tag};
use super::Shell;
use super::command::Command;

/// How far in the queue a command goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) end: usize,
    pub(super) script: bool,
}

impl Shell {
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

    /// The command ends, and with the outermost one all that waits for it.
    pub(super) fn end_command(&mut self, now: u64, sink: &mut impl Sink) {
        self.end_redirect();
        let outermost = self.commands.len() == 1;
        let command = self
            .commands
            .last_mut()
            .expect("the outermost command stays");
        for text in [&mut command.text, &mut command.rest] {
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

    /// Hands on what waits if it is too much.
    pub(super) fn bound(&mut self, now: u64, sink: &mut impl Sink) {
        let held = |command: &Command| {
            command.text.bytes().len() + command.rest.bytes().len() + command.redirect.bytes().len()
        };
        let waiting = self.queue.bytes().len() + self.commands.iter().map(held).sum::<usize>();
        if waiting <= self.limits.waiting {
            return;
        }
        self.counters.cut += 1;
        for command in &mut self.commands {
            for text in [&mut command.text, &mut command.rest, &mut command.redirect] {
                if !text.is_empty() {
                    queue(&mut self.queue, &mut self.queued, text, false);
                    text.clear();
                }
            }
        }
        self.flush(now, sink);
    }

    fn flush(&mut self, now: u64, sink: &mut impl Sink) {
        if let Some(end) = self.open.take() {
            sink.cut(end, now);
        }
        if self.queued.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.queue);
        let mut stretches = waiting.pieces(0..waiting.bytes().len());
        let (mut rest, mut from) = (Piece::verbatim(b"", 0), 0);
        let mut queued = std::mem::take(&mut self.queued);
        for Queued { end, script } in queued.drain(..) {
            let mut left = end - from;
            from = end;
            let pieces = std::iter::from_fn(|| {
                if rest.bytes.is_empty() {
                    rest = stretches.next()?;
                }
                let most = left.min(rest.bytes.len());
                left -= most;
                let piece = rest.slice(0..most);
                rest = rest.slice(most..rest.bytes.len());
                (most > 0).then_some(piece)
            });
            if script {
                self.read_script(pieces, now, sink);
                continue;
            }
            let mut open = None;
            pieces.for_each(|piece| hand_on(&mut open, piece.later(now), sink));
            if let Some(end) = open {
                sink.cut(end, now);
            }
        }
        drop(stretches);
        (self.queue, self.queued) = (waiting, queued);
        self.queue.clear();
    }

    /// What `sh -c` is given. A script in there is not read.
    fn read_script<'a>(
        &mut self,
        pieces: impl Iterator<Item = Piece<'a>>,
        now: u64,
        sink: &mut impl Sink,
    ) {
        let mut inner = Shell::new(self.limits);
        inner.scripts = false;
        inner.open_text();
        pieces.for_each(|piece| inner.take(&piece.later(now), sink));
        inner.close(now, now, sink);
        self.counters.too_deep += inner.counters.too_deep;
        self.counters.cut += inner.counters.cut;
    }
}

/// Hands on a piece of a haystack; `open` says where it ended so far.
#[inline]
pub(super) fn hand_on(open: &mut Option<u64>, piece: Piece<'_>, sink: &mut impl Sink) {
    if open.is_none() {
        let tag = Tag {
            regions: Regions::SHELL,
            language: None,
        };
        sink.turn(tag, piece.start(0), piece.decided(0));
    }
    *open = Some(piece.end(piece.bytes.len() - 1));
    sink.take(piece);
}

/// Keeps more of a haystack; before the first of a word the space, unless it begins with that.
pub(super) fn keep<'a>(
    into: &mut Held,
    first: bool,
    space: Piece<'_>,
    pieces: impl Iterator<Item = Piece<'a>>,
    now: u64,
) {
    if first && !into.is_empty() {
        into.push(space.later(now));
    }
    pieces.for_each(|piece| into.push(piece.later(now)));
}

fn queue(into: &mut Held, queued: &mut Vec<Queued>, text: &Held, script: bool) {
    for piece in text.pieces(0..text.bytes().len()) {
        into.push(piece);
    }
    queued.push(Queued {
        end: into.bytes().len(),
        script,
    });
}
