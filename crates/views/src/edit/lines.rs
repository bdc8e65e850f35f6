//! Splits text at its newlines and buffers the incomplete line.

use memchr::memchr;

use super::super::chunk::{Chunk, ChunkBuffer, OffsetMap};

/// The current line of a text.
#[derive(Clone, Debug)]
pub(super) struct LineSplitter {
    held: ChunkBuffer,
    most: usize,
    /// True if the line exceeds the buffer, or its bytes are passed on without buffering.
    long: bool,
    /// True if a byte of the text has arrived.
    any: bool,
}

/// The next event of a text.
#[derive(Debug)]
pub(super) enum LineEvent<'a> {
    /// The line is complete; holds its newline.
    End(Chunk<'a>),
    /// The line exceeds the buffer, which contains its start; holds the value of `decided` at the byte that exceeds
    /// it.
    Long(u64),
    /// More of a long line.
    More(Chunk<'a>),
}

/// A complete line, or the rest of a long one.
#[derive(Clone, Copy, Debug)]
pub(super) struct EditLine<'a> {
    pub(super) held: &'a ChunkBuffer,
    /// The number of marker bytes before its text.
    pub(super) from: usize,
    pub(super) newline: Option<(OffsetMap, u64)>,
    pub(super) long: bool,
}

impl<'a> EditLine<'a> {
    pub(super) fn chunks(self) -> impl Iterator<Item = Chunk<'a>> {
        self.held.chunks(self.from..self.held.bytes().len())
    }

    #[inline]
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

    /// Consumes bytes of `rest` up to the next event. Returns `None` if `rest` is used up.
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

    /// Returns the current line without its first `from` bytes.
    #[inline]
    pub(super) fn line(&self, from: usize, newline: Option<Chunk<'_>>) -> EditLine<'_> {
        EditLine {
            held: &self.held,
            from,
            newline: newline.map(|newline| (newline.offsets, newline.decided)),
            long: self.long,
        }
    }

    /// Copies a line into the buffer.
    #[inline]
    pub(super) fn copy(&mut self, line: EditLine<'_>) {
        line.chunks().for_each(|chunk| self.held.push(chunk));
    }

    /// Returns true if no byte of the line has arrived.
    #[inline]
    pub(super) fn at_start(&self) -> bool {
        self.held.is_empty() && !self.long
    }

    /// Returns true if the text has a line. An empty text has none.
    #[inline]
    pub(super) fn begun(&self) -> bool {
        self.any
    }

    /// Clears the buffer and stops buffering for this line.
    #[inline]
    pub(super) fn release(&mut self) {
        self.held.clear();
        self.long = true;
    }

    /// Starts the next line.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.long = false;
    }

    /// Starts the next text.
    #[inline]
    pub(super) fn restart(&mut self) {
        self.clear();
        self.any = false;
    }
}

/// Splits off and returns the first `at` bytes.
#[inline]
pub(super) fn split<'a>(rest: &mut Chunk<'a>, at: usize) -> Chunk<'a> {
    let first = rest.slice(0..at);
    *rest = rest.slice(at..rest.bytes.len());
    first
}
