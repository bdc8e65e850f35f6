//! Takes text apart at its newlines and holds the line that is not complete.

use memchr::memchr;

use super::super::chunk::{Chunk, ChunkBuffer, OffsetMap};

/// The current line of a text.
#[derive(Clone, Debug)]
pub(super) struct LineSplitter {
    held: ChunkBuffer,
    most: usize,
    /// More than may be held has come of it, or its owner wants it at once.
    long: bool,
    /// Whether anything has come of the text.
    any: bool,
}

/// What comes next of a text.
#[derive(Debug)]
pub(super) enum LineEvent<'a> {
    /// The line is complete; its newline.
    End(Chunk<'a>),
    /// The line is longer than may be held; what is held is its beginning. Certain at the byte that is too
    /// much.
    Long(u64),
    /// More of such a line.
    More(Chunk<'a>),
}

/// A complete line, or the rest of one whose beginning was handed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct EditLine<'a> {
    pub(super) held: &'a ChunkBuffer,
    /// Bytes of marker before its text.
    pub(super) from: usize,
    pub(super) newline: Option<(OffsetMap, u64)>,
    pub(super) long: bool,
}

impl<'a> EditLine<'a> {
    pub(super) fn chunks(self) -> impl Iterator<Item = Chunk<'a>> {
        self.held.chunks(self.from..self.held.bytes().len())
    }

    pub(super) fn text(self) -> &'a [u8] {
        &self.held.bytes()[self.from..]
    }
}

impl LineSplitter {
    pub(super) fn new(most: usize) -> LineSplitter {
        LineSplitter {
            held: ChunkBuffer::default(),
            most,
            long: false,
            any: false,
        }
    }

    /// Takes what it can of `rest`; none if that was all.
    pub(super) fn next<'a>(&mut self, rest: &mut Chunk<'a>) -> Option<LineEvent<'a>> {
        if rest.bytes.is_empty() {
            return None;
        }
        self.any = true;
        let line = memchr(b'\n', rest.bytes).unwrap_or(rest.bytes.len());
        if self.long {
            return Some(match line {
                0 => LineEvent::End(split(rest, 1)),
                _ => LineEvent::More(split(rest, line)),
            });
        }
        let room = self.most - self.held.bytes().len();
        self.held.push(split(rest, line.min(room)));
        if line > room {
            self.long = true;
            return Some(LineEvent::Long(rest.decided(0)));
        }
        (!rest.bytes.is_empty()).then(|| LineEvent::End(split(rest, 1)))
    }

    /// The line as it is, without its marker.
    pub(super) fn line(&self, from: usize, newline: Option<Chunk<'_>>) -> EditLine<'_> {
        EditLine {
            held: &self.held,
            from,
            newline: newline.map(|newline| (newline.offsets, newline.decided)),
            long: self.long,
        }
    }

    /// Holds a line that another one held.
    pub(super) fn copy(&mut self, line: EditLine<'_>) {
        line.chunks().for_each(|chunk| self.held.push(chunk));
    }

    /// Whether nothing has come of the line.
    pub(super) fn at_start(&self) -> bool {
        self.held.is_empty() && !self.long
    }

    /// Whether there is a line: there is none in an empty text.
    pub(super) fn begun(&self) -> bool {
        self.any
    }

    /// Holds nothing more of this line.
    pub(super) fn release(&mut self) {
        self.held.clear();
        self.long = true;
    }

    /// The next line begins.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.long = false;
    }

    /// The next text begins.
    pub(super) fn restart(&mut self) {
        self.clear();
        self.any = false;
    }
}

/// Cuts the first bytes off.
pub(super) fn split<'a>(rest: &mut Chunk<'a>, at: usize) -> Chunk<'a> {
    let first = rest.slice(0..at);
    *rest = rest.slice(at..rest.bytes.len());
    first
}
