//! Quotes, expansions, sums and substitutions: what begins and ends inside each other.

use super::super::piece::{Piece, Sink};
use super::command::Command;
use super::special::{ANSI, INSIDE, SINGLE, plain};
use super::word::Escape;
use super::{Frame, Kind, Look, Shell};

impl Shell {
    /// Reads on in quotes, an expansion or a sum: how many bytes were read.
    pub(super) fn inside(
        &mut self,
        frame: Frame,
        piece: &Piece<'_>,
        at: usize,
        sink: &mut impl Sink,
    ) -> usize {
        let class = match frame {
            Frame::Single => SINGLE,
            Frame::Ansi => ANSI,
            _ => INSIDE,
        };
        let plain = plain(&piece.bytes[at..], class);
        if plain > 0 {
            self.put(piece.slice(at..at + plain), false, sink);
            return plain;
        }
        let here = piece.slice(at..at + 1);
        match (frame, piece.bytes[at]) {
            (Frame::Single | Frame::Ansi, b'\'') | (Frame::Double, b'"') => self.unquote(),
            (Frame::Single | Frame::Ansi, b'`') if !self.in_backquotes() => {
                self.put(here, true, sink);
            }
            (_, b'`') => self.backquote(here, sink),
            (Frame::Ansi, _) => self.look_at(Look::Escape(Escape::default()), here),
            (_, b'$') => self.dollar(piece, at, sink),
            (_, b'\\') => self.look_at(Look::Backslash, here),
            (Frame::Brace { .. }, b'"') => self.quote(Frame::Double, here),
            (Frame::Brace { quoted: false }, b'\'') => self.quote(Frame::Single, here),
            (Frame::Brace { .. }, b'}') => {
                self.frames.pop();
                self.put(here, true, sink);
            }
            (Frame::Sum(parens), byte @ (b'(' | b')')) => {
                let parens = if byte == b'(' { parens + 1 } else { parens - 1 };
                self.frames.pop();
                if parens > 0 {
                    self.frames.push(Frame::Sum(parens));
                }
                self.put(here, true, sink);
            }
            _ => self.put(here, true, sink),
        }
        1
    }

    pub(super) fn in_backquotes(&self) -> bool {
        let commands = |frame: &&Frame| matches!(frame, Frame::Commands(..));
        matches!(
            self.frames.iter().rfind(commands),
            Some(Frame::Commands(Kind::Backquotes, _))
        )
    }

    /// Opens a substitution, or closes the one it is in, whatever is open in there.
    pub(super) fn backquote(&mut self, piece: Piece<'_>, sink: &mut impl Sink) {
        if !self.in_backquotes() {
            self.put(piece, true, sink);
            return self.substitute(Kind::Backquotes);
        }
        while !matches!(self.frame(), Frame::Commands(..)) {
            self.frames.pop();
        }
        self.leave(piece, sink);
    }

    pub(super) fn substitute(&mut self, kind: Kind) {
        if self.enter(Frame::Commands(kind, 0)) {
            self.commands.push(Command::default());
        } else if kind == Kind::Parens {
            self.skipped = 1;
        }
    }

    /// A substitution ends with that byte.
    pub(super) fn leave(&mut self, piece: Piece<'_>, sink: &mut impl Sink) {
        let (at, now) = (piece.start(0), piece.decided(0));
        self.end_word(at, now, sink);
        self.end_command(now, sink);
        self.frames.pop();
        self.commands.pop();
        self.put(piece, true, sink);
    }

    pub(super) fn enter(&mut self, frame: Frame) -> bool {
        let fits = self.frames.len() <= self.limits.depth;
        self.counters.too_deep += u64::from(!fits);
        if fits {
            self.frames.push(frame);
        }
        fits
    }

    pub(super) fn quote(&mut self, frame: Frame, piece: Piece<'_>) {
        self.begin_word(piece.start(0));
        self.command().note_quote();
        self.enter(frame);
    }

    fn unquote(&mut self) {
        self.frames.pop();
    }

    /// Inside a substitution that is too deep only parentheses count.
    pub(super) fn too_deep(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> bool {
        match piece.bytes[0] {
            b'(' => self.skipped += 1,
            b')' => self.skipped -= 1,
            _ => {}
        }
        self.put(piece, true, sink);
        true
    }

    pub(super) fn set_parens(&mut self, count: u32) {
        if let Some(Frame::Commands(_, parens)) = self.frames.last_mut() {
            *parens = count;
        }
    }
}
