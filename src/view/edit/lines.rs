//! Takes text apart at its newlines and holds the line that is not complete.

use memchr::memchr;

use super::super::piece::{Held, Piece, Place};

/// The current line of a text.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    held: Held,
    most: usize,
    /// More than may be held has come of it, or its owner wants it at once.
    long: bool,
    /// Whether anything has come of the text.
    any: bool,
}

/// What comes next of a text.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// The line is complete; its newline.
    End(Piece<'a>),
    /// The line is longer than may be held; what is held is its beginning. Certain at the byte that is too
    /// much.
    Long(u64),
    /// More of such a line.
    More(Piece<'a>),
}

/// A complete line, or the rest of one whose beginning was handed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) held: &'a Held,
    /// Bytes of marker before its text.
    pub(super) from: usize,
    pub(super) newline: Option<(Place, u64)>,
    pub(super) long: bool,
}

impl<'a> Line<'a> {
    pub(super) fn pieces(self) -> impl Iterator<Item = Piece<'a>> {
        self.held.pieces(self.from..self.held.bytes().len())
    }

    pub(super) fn text(self) -> &'a [u8] {
        &self.held.bytes()[self.from..]
    }
}

impl Lines {
    pub(super) fn new(most: usize) -> Lines {
        Lines {
            held: Held::default(),
            most,
            long: false,
            any: false,
        }
    }

    /// Takes what it can of `rest`; none if that was all.
    pub(super) fn next<'a>(&mut self, rest: &mut Piece<'a>) -> Option<Event<'a>> {
        if rest.bytes.is_empty() {
            return None;
        }
        self.any = true;
        let line = memchr(b'\n', rest.bytes).unwrap_or(rest.bytes.len());
        if self.long {
            return Some(match line {
                0 => Event::End(split(rest, 1)),
                _ => Event::More(split(rest, line)),
            });
        }
        let room = self.most - self.held.bytes().len();
        self.held.push(split(rest, line.min(room)));
        if line > room {
            self.long = true;
            return Some(Event::Long(rest.decided(0)));
        }
        (!rest.bytes.is_empty()).then(|| Event::End(split(rest, 1)))
    }

    /// The line as it is, without its marker.
    pub(super) fn line(&self, from: usize, newline: Option<Piece<'_>>) -> Line<'_> {
        Line {
            held: &self.held,
            from,
            newline: newline.map(|newline| (newline.place, newline.decided)),
            long: self.long,
        }
    }

    /// Holds a line that another one held.
    pub(super) fn copy(&mut self, line: Line<'_>) {
        line.pieces().for_each(|piece| self.held.push(piece));
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
pub(super) fn split<'a>(rest: &mut Piece<'a>, at: usize) -> Piece<'a> {
    let first = rest.slice(0..at);
    *rest = rest.slice(at..rest.bytes.len());
    first
}
