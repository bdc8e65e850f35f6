//! The old and new lines of one change: lines in both are kept, the others are removed or added.

use std::collections::HashMap;
use std::hash::BuildHasher;

use super::super::chunk::{Chunk, ChunkBuffer, ChunkSink, OffsetMap, RegionSet};
use super::EditLimits;
use super::emit::EditEmitter;
use super::lines::{EditLine, split};

/// The buffered lines of one change.
#[derive(Clone, Debug)]
pub(super) struct Hunk {
    limits: EditLimits,
    /// The counts of removed lines by their hash. The hash is randomly keyed, so that nobody can construct a line
    /// that collides with another one.
    removed: HashMap<u64, LineCount>,
    old: PendingLines,
    new: PendingLines,
    /// True if all removed lines have arrived.
    old_known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Added,
    Removed,
    Context,
}

#[derive(Clone, Copy, Debug, Default)]
struct LineCount {
    removed: u32,
    /// The number of them that recur among the new lines.
    stay: u32,
}

#[derive(Clone, Debug, Default)]
struct PendingLines {
    held: ChunkBuffer,
    lines: Vec<PendingLine>,
}

#[derive(Clone, Copy, Debug)]
struct PendingLine {
    /// The end of its text in the buffer; it starts where the preceding line ends.
    end: usize,
    newline: Option<(OffsetMap, u64)>,
    kind: LineKind,
    hash: u64,
    /// True if the next buffered line is not the next line of the file.
    ends_run: bool,
}

impl LineKind {
    pub(super) fn regions(self) -> RegionSet {
        match self {
            LineKind::Added => RegionSet::FILE | RegionSet::ADDED,
            LineKind::Removed => RegionSet::REMOVED,
            LineKind::Context => RegionSet::FILE,
        }
    }
}

impl Hunk {
    pub(super) fn new(limits: EditLimits) -> Hunk {
        Hunk {
            limits,
            removed: HashMap::new(),
            old: PendingLines::default(),
            new: PendingLines::default(),
            old_known: false,
        }
    }

    /// Marks the removed lines as complete, so that a new line is classified at its end.
    pub(super) fn complete_removed(&mut self) {
        self.old_known = true;
    }

    /// Handles a complete line, or the end of a long one.
    pub(super) fn line(
        &mut self,
        kind: LineKind,
        line: EditLine<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        if line.long {
            return self.end_long(kind, line, now, out, sink);
        }
        let hash = self.removed.hasher().hash_one(comparable(line.text()));
        if kind == LineKind::Removed {
            self.record_removed_line(hash, out);
        }
        if kind != LineKind::Removed && self.old_known {
            let kind = self.classify(kind, hash);
            out.begin_with(kind.regions(), line.chunks(), now, sink);
            return out.end(line.newline);
        }
        self.hold(kind, line, hash, now, out, sink);
    }

    /// Handles the start of a line that is too long to be compared, at the byte that exceeds the limit. The line is
    /// added or removed, whatever the other side contains. The lines buffered before it are emitted.
    pub(super) fn long(
        &mut self,
        kind: LineKind,
        line: EditLine<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        out.counters.long_lines += 1;
        self.release(kind, now, out, sink);
        out.begin_with(kind.regions(), line.chunks(), now, sink);
    }

    /// Emits more of a long line.
    pub(super) fn more(
        &mut self,
        kind: LineKind,
        chunk: Chunk<'_>,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        out.emit(kind.regions(), chunk, sink);
    }

    /// Ends the change.
    pub(super) fn end(&mut self, now: u64, out: &mut EditEmitter, sink: &mut impl ChunkSink) {
        self.emit_new(now, out, sink);
        out.cut(now, sink);
        self.emit_old(now, out, sink);
        out.cut(now, sink);
        self.removed.clear();
        self.old_known = false;
    }

    fn end_long(
        &mut self,
        kind: LineKind,
        line: EditLine<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        out.end(line.newline);
        if kind == LineKind::Removed {
            out.cut(now, sink);
        }
    }

    fn record_removed_line(&mut self, hash: u64, out: &mut EditEmitter) {
        if self.removed.len() >= self.limits.lines && !self.removed.contains_key(&hash) {
            out.counters.forgotten += 1;
            return;
        }
        let count = self.removed.entry(hash).or_default();
        count.removed = count.removed.saturating_add(1);
    }

    /// Classifies a new line, after all removed lines.
    fn classify(&mut self, kind: LineKind, hash: u64) -> LineKind {
        match self.removed.get_mut(&hash) {
            Some(count) if kind == LineKind::Added && count.stay < count.removed => {
                count.stay += 1;
                LineKind::Context
            }
            _ => kind,
        }
    }

    fn hold(
        &mut self,
        kind: LineKind,
        line: EditLine<'_>,
        hash: u64,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        let most = self.limits.waiting;
        let side = self.side(kind);
        if !side.lines.is_empty() && side.weight() + line.text().len() + 1 > most {
            out.counters.released += 1;
            self.release(kind, now, out, sink);
        }
        if kind == LineKind::Context
            && let Some(last) = self.old.lines.last_mut()
        {
            last.ends_run = true;
        }
        self.side(kind).push(kind, line, hash);
    }

    fn side(&mut self, kind: LineKind) -> &mut PendingLines {
        match kind {
            LineKind::Removed => &mut self.old,
            LineKind::Added | LineKind::Context => &mut self.new,
        }
    }

    fn emit_new(&mut self, now: u64, out: &mut EditEmitter, sink: &mut impl ChunkSink) {
        let mut new = std::mem::take(&mut self.new);
        new.drain(|line, chunks| {
            let regions = self.classify(line.kind, line.hash).regions();
            emit_line(line, regions, chunks, now, out, sink);
        });
        self.new = new;
    }

    fn emit_old(&mut self, now: u64, out: &mut EditEmitter, sink: &mut impl ChunkSink) {
        let mut old = std::mem::take(&mut self.old);
        old.drain(|line, chunks| {
            match self.removed.get_mut(&line.hash) {
                Some(count) if count.stay > 0 => {
                    count.stay -= 1;
                    out.cut(now, sink);
                }
                _ => emit_line(line, RegionSet::REMOVED, chunks, now, out, sink),
            }
            if line.ends_run {
                out.cut(now, sink);
            }
        });
        self.old = old;
    }

    /// Emits the buffered lines of a side as added or removed because the limit is exceeded. Later new lines are still
    /// compared with the old ones.
    fn release(
        &mut self,
        kind: LineKind,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        let is_old = kind == LineKind::Removed;
        if is_old {
            out.cut(now, sink);
        }
        let mut side = std::mem::take(self.side(kind));
        side.drain(|line, chunks| {
            emit_line(line, line.kind.regions(), chunks, now, out, sink);
            if line.ends_run {
                out.cut(now, sink);
            }
        });
        if is_old {
            out.cut(now, sink);
        }
        *self.side(kind) = side;
    }
}

fn emit_line<S: ChunkSink>(
    line: PendingLine,
    regions: RegionSet,
    chunks: &mut dyn Iterator<Item = Chunk<'_>>,
    now: u64,
    out: &mut EditEmitter,
    sink: &mut S,
) {
    out.begin_with(regions, chunks, now, sink);
    out.end(line.newline);
}

/// Returns the line without a trailing carriage return.
fn comparable(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl PendingLines {
    /// Returns the number of buffered bytes, including newlines.
    fn weight(&self) -> usize {
        self.held.bytes().len() + self.lines.len()
    }

    fn push(&mut self, kind: LineKind, line: EditLine<'_>, hash: u64) {
        for chunk in line.chunks() {
            self.held.push(chunk);
        }
        self.lines.push(PendingLine {
            end: self.held.bytes().len(),
            newline: line.newline,
            kind,
            hash,
            ends_run: false,
        });
    }

    /// Passes each line to `each` and clears the buffer.
    fn drain(&mut self, mut each: impl FnMut(PendingLine, &mut dyn Iterator<Item = Chunk<'_>>)) {
        let mut stretches = self.held.chunks(0..self.held.bytes().len());
        let mut rest = Chunk::verbatim(b"", 0);
        let mut from = 0;
        for line in self.lines.drain(..) {
            let mut left = line.end - from;
            from = line.end;
            let mut chunks = std::iter::from_fn(|| {
                if rest.bytes.is_empty() {
                    rest = stretches.next()?;
                }
                let most = left.min(rest.bytes.len());
                left -= most;
                (most > 0).then(|| split(&mut rest, most))
            });
            each(line, &mut chunks);
            // Skips the chunks of a kept line, which `each` does not consume.
            chunks.for_each(drop);
        }
        drop(stretches);
        self.held.clear();
    }
}
