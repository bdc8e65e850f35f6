//! Old and new lines of one change: what is in both stays, the rest was removed or added.

use std::collections::HashMap;
use std::hash::BuildHasher;

use super::super::piece::{Held, Piece, Place, Regions, Sink};
use super::EditLimits;
use super::lines::{Line, split};
use super::out::Out;

/// The lines of one change, as far as they wait.
#[derive(Clone, Debug)]
pub(super) struct Hunk {
    limits: EditLimits,
    /// Removed lines by their hash. The hash is keyed by chance, so that nobody can prepare a line that
    /// passes for another one.
    removed: HashMap<u64, Count>,
    old: Waiting,
    new: Waiting,
    /// All removed lines have come.
    old_known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Added,
    Removed,
    Context,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    removed: u32,
    /// How many of them are among the new lines.
    stay: u32,
}

#[derive(Clone, Debug, Default)]
struct Waiting {
    held: Held,
    lines: Vec<WaitingLine>,
}

#[derive(Clone, Copy, Debug)]
struct WaitingLine {
    /// Where its text ends among what is held; it begins where the one before ends.
    end: usize,
    newline: Option<(Place, u64)>,
    kind: Kind,
    hash: u64,
    /// The line before it in the file is not the one that waits before it.
    apart: bool,
}

impl Kind {
    pub(super) fn regions(self) -> Regions {
        match self {
            Kind::Added => Regions::FILE | Regions::ADDED,
            Kind::Removed => Regions::REMOVED,
            Kind::Context => Regions::FILE,
        }
    }
}

impl Hunk {
    pub(super) fn new(limits: EditLimits) -> Hunk {
        Hunk {
            limits,
            removed: HashMap::new(),
            old: Waiting::default(),
            new: Waiting::default(),
            old_known: false,
        }
    }

    /// No more removed lines come: whether a new line was there is known at its end.
    pub(super) fn know_old(&mut self) {
        self.old_known = true;
    }

    /// Takes a complete line, or the end of a long one.
    pub(super) fn line(
        &mut self,
        kind: Kind,
        line: Line<'_>,
        now: u64,
        out: &mut Out,
        sink: &mut impl Sink,
    ) {
        if line.long {
            return self.end_long(kind, line, now, out, sink);
        }
        let hash = self.removed.hasher().hash_one(comparable(line.text()));
        if kind == Kind::Removed {
            self.remember(hash, out);
        }
        if kind != Kind::Removed && self.old_known {
            let kind = self.compare(kind, hash);
            out.begin_with(kind.regions(), line.pieces(), now, sink);
            return out.end(line.newline);
        }
        self.wait(kind, line, hash, now, out, sink);
    }

    /// The beginning of a line that is too long to be compared, as the byte that was too much shows: it is
    /// added or removed, whatever the other side has. What waits before it is handed on.
    pub(super) fn long(
        &mut self,
        kind: Kind,
        line: Line<'_>,
        now: u64,
        out: &mut Out,
        sink: &mut impl Sink,
    ) {
        out.counters.long_lines += 1;
        self.release(kind, now, out, sink);
        out.begin_with(kind.regions(), line.pieces(), now, sink);
    }

    /// More of such a line.
    pub(super) fn more(
        &mut self,
        kind: Kind,
        piece: Piece<'_>,
        out: &mut Out,
        sink: &mut impl Sink,
    ) {
        out.put(kind.regions(), piece, sink);
    }

    /// No more lines come.
    pub(super) fn end(&mut self, now: u64, out: &mut Out, sink: &mut impl Sink) {
        self.settle_new(now, out, sink);
        out.cut(now, sink);
        self.settle_old(now, out, sink);
        out.cut(now, sink);
        self.removed.clear();
        self.old_known = false;
    }

    fn end_long(
        &mut self,
        kind: Kind,
        line: Line<'_>,
        now: u64,
        out: &mut Out,
        sink: &mut impl Sink,
    ) {
        out.end(line.newline);
        if kind == Kind::Removed {
            out.cut(now, sink);
        }
    }

    fn remember(&mut self, hash: u64, out: &mut Out) {
        if self.removed.len() >= self.limits.lines && !self.removed.contains_key(&hash) {
            out.counters.forgotten += 1;
            return;
        }
        let count = self.removed.entry(hash).or_default();
        count.removed = count.removed.saturating_add(1);
    }

    /// What a new line is, all old ones being known.
    fn compare(&mut self, kind: Kind, hash: u64) -> Kind {
        match self.removed.get_mut(&hash) {
            Some(count) if kind == Kind::Added && count.stay < count.removed => {
                count.stay += 1;
                Kind::Context
            }
            _ => kind,
        }
    }

    fn wait(
        &mut self,
        kind: Kind,
        line: Line<'_>,
        hash: u64,
        now: u64,
        out: &mut Out,
        sink: &mut impl Sink,
    ) {
        let most = self.limits.waiting;
        let side = self.side(kind);
        if !side.lines.is_empty() && side.weight() + line.text().len() + 1 > most {
            out.counters.released += 1;
            self.release(kind, now, out, sink);
        }
        if kind == Kind::Context
            && let Some(last) = self.old.lines.last_mut()
        {
            last.apart = true;
        }
        self.side(kind).push(kind, line, hash);
    }

    fn side(&mut self, kind: Kind) -> &mut Waiting {
        match kind {
            Kind::Removed => &mut self.old,
            Kind::Added | Kind::Context => &mut self.new,
        }
    }

    fn settle_new(&mut self, now: u64, out: &mut Out, sink: &mut impl Sink) {
        let mut new = std::mem::take(&mut self.new);
        new.drain(|line, pieces| {
            let regions = self.compare(line.kind, line.hash).regions();
            put_line(line, regions, pieces, now, out, sink);
        });
        self.new = new;
    }

    fn settle_old(&mut self, now: u64, out: &mut Out, sink: &mut impl Sink) {
        let mut old = std::mem::take(&mut self.old);
        old.drain(|line, pieces| {
            match self.removed.get_mut(&line.hash) {
                Some(count) if count.stay > 0 => {
                    count.stay -= 1;
                    out.cut(now, sink);
                }
                _ => put_line(line, Regions::REMOVED, pieces, now, out, sink),
            }
            if line.apart {
                out.cut(now, sink);
            }
        });
        self.old = old;
    }

    /// Too much waits: what is new passes for added, what is old for removed. New lines that come later may
    /// still be found among the old ones.
    fn release(&mut self, kind: Kind, now: u64, out: &mut Out, sink: &mut impl Sink) {
        let is_old = kind == Kind::Removed;
        if is_old {
            out.cut(now, sink);
        }
        let mut side = std::mem::take(self.side(kind));
        side.drain(|line, pieces| {
            put_line(line, line.kind.regions(), pieces, now, out, sink);
            if line.apart {
                out.cut(now, sink);
            }
        });
        if is_old {
            out.cut(now, sink);
        }
        *self.side(kind) = side;
    }
}

fn put_line<S: Sink>(
    line: WaitingLine,
    regions: Regions,
    pieces: &mut dyn Iterator<Item = Piece<'_>>,
    now: u64,
    out: &mut Out,
    sink: &mut S,
) {
    out.begin_with(regions, pieces, now, sink);
    out.end(line.newline);
}

/// A line without the carriage return at its end.
fn comparable(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl Waiting {
    /// Bytes that wait, newlines among them.
    fn weight(&self) -> usize {
        self.held.bytes().len() + self.lines.len()
    }

    fn push(&mut self, kind: Kind, line: Line<'_>, hash: u64) {
        for piece in line.pieces() {
            self.held.push(piece);
        }
        self.lines.push(WaitingLine {
            end: self.held.bytes().len(),
            newline: line.newline,
            kind,
            hash,
            apart: false,
        });
    }

    /// Gives out the lines, and forgets them.
    fn drain(&mut self, mut each: impl FnMut(WaitingLine, &mut dyn Iterator<Item = Piece<'_>>)) {
        let mut stretches = self.held.pieces(0..self.held.bytes().len());
        let mut rest = Piece::verbatim(b"", 0);
        let mut from = 0;
        for line in self.lines.drain(..) {
            let mut left = line.end - from;
            from = line.end;
            let mut pieces = std::iter::from_fn(|| {
                if rest.bytes.is_empty() {
                    rest = stretches.next()?;
                }
                let most = left.min(rest.bytes.len());
                left -= most;
                (most > 0).then(|| split(&mut rest, most))
            });
            each(line, &mut pieces);
            // What a line that stays leaves behind.
            pieces.for_each(drop);
        }
        drop(stretches);
        self.held.clear();
    }
}
