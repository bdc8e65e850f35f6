//! Bytes that the next one decides about: `\`, `$`, operators, escapes.

use super::super::piece::{Piece, Sink};
use super::command::ends;
use super::word::{Escape, Escaped};
use super::{Frame, Kind, Look, Shell};

impl Shell {
    /// What skipped text or a byte that was looked at makes of the next. Whether it was taken; if not, it is looked at
    /// again.
    pub(super) fn odd(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> bool {
        if self.skips(piece.bytes[0]) {
            return true;
        }
        if self.skipped > 0 {
            return self.too_deep(piece, sink);
        }
        match self.look {
            Look::Backslash => self.after_backslash(piece, sink),
            Look::Dollar => self.after_dollar(piece, sink),
            Look::DollarParen => self.after_dollar_paren(piece, sink),
            Look::Operator => self.after_operator(piece, sink),
            Look::Escape(escape) => self.after_escape(escape, piece, sink),
            Look::None => false,
        }
    }

    pub(super) fn look_at(&mut self, look: Look, piece: Piece<'_>) {
        self.look = look;
        self.seen.push((piece.bytes[0], piece.place, piece.decided));
    }

    /// What was looked at is text.
    pub(super) fn put_seen(&mut self, now: u64, sink: &mut impl Sink) {
        self.look = Look::None;
        let seen = std::mem::take(&mut self.seen);
        for &(byte, place, decided) in &seen {
            let bytes = &[byte];
            let piece = Piece {
                bytes,
                place,
                decided,
            };
            self.put(piece.later(now), true, sink);
        }
        self.seen = seen;
        self.seen.clear();
    }

    /// Where what was looked at begins.
    pub(super) fn seen_from(&self) -> u64 {
        self.seen.first().map_or(0, |seen| ends(seen.1).0)
    }

    fn forget_seen(&mut self) {
        self.look = Look::None;
        self.seen.clear();
    }

    fn after_backslash(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> bool {
        let byte = piece.bytes[0];
        let stays = matches!(self.frame(), Frame::Double | Frame::Sum(_))
            && !matches!(byte, b'$' | b'`' | b'"' | b'\\' | b'\n');
        if stays {
            self.put_seen(piece.decided(0), sink);
            return false;
        }
        if byte == b'\n' {
            self.forget_seen();
            return true;
        }
        self.begin_word(self.seen_from());
        self.forget_seen();
        self.put(piece, true, sink);
        true
    }

    fn after_dollar(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> bool {
        let quotes = matches!(
            self.frame(),
            Frame::Commands(..) | Frame::Brace { quoted: false }
        );
        let now = piece.decided(0);
        match piece.bytes[0] {
            b'(' => self.look_at(Look::DollarParen, piece),
            b'{' => {
                self.put_seen(now, sink);
                self.put(piece, true, sink);
                let quoted = matches!(self.frame(), Frame::Double | Frame::Brace { quoted: true });
                self.enter(Frame::Brace { quoted });
            }
            b'\'' if quotes => self.quote_dollar(Frame::Ansi, piece),
            b'"' if quotes => self.quote_dollar(Frame::Double, piece),
            _ => {
                self.put_seen(now, sink);
                return false;
            }
        }
        true
    }

    fn quote_dollar(&mut self, frame: Frame, piece: Piece<'_>) {
        self.begin_word(self.seen_from());
        self.forget_seen();
        self.quote(frame, piece);
    }

    fn after_dollar_paren(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> bool {
        self.put_seen(piece.decided(0), sink);
        if piece.bytes[0] == b'(' {
            self.put(piece, true, sink);
            if !self.enter(Frame::Sum(2)) {
                self.skipped = 2;
            }
            return true;
        }
        self.substitute(Kind::Parens);
        false
    }

    fn after_operator(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> bool {
        let byte = piece.bytes[0];
        let seen = |index: usize| self.seen.get(index).map_or(0, |seen| seen.0);
        if matches!((seen(0), seen(1), byte), (b'<' | b'>', 0, b'(')) {
            self.put_seen(piece.decided(0), sink);
            self.put(piece, true, sink);
            self.substitute(Kind::Parens);
            return true;
        }
        let goes_on = match (seen(0), seen(1), self.seen.len()) {
            (b'>', _, 1) => matches!(byte, b'>' | b'&' | b'|'),
            (b'<', _, 1) => matches!(byte, b'<' | b'>' | b'&'),
            (b'&', _, 1) => byte == b'>',
            (b'<', b'<', 2) => matches!(byte, b'<' | b'-'),
            (b'&', b'>', 2) => byte == b'>',
            _ => false,
        };
        if goes_on {
            self.look_at(Look::Operator, piece);
            return true;
        }
        self.end_operator(piece.decided(0), sink);
        false
    }

    pub(super) fn end_operator(&mut self, now: u64, sink: &mut impl Sink) {
        if !self.command().drop_number() {
            self.end_word(self.seen_from(), now, sink);
        }
        let seen = std::mem::take(&mut self.seen);
        let is = |operator: &[u8]| seen.iter().map(|seen| seen.0).eq(operator.iter().copied());
        if is(b"&") {
            self.end_command(now, sink);
        } else if is(b"<<") {
            self.command().begin_heredoc(false);
        } else if is(b"<<-") {
            self.command().begin_heredoc(true);
        } else {
            self.end_redirect();
            self.command().begin_redirect(&seen, now);
        }
        self.seen = seen;
        self.forget_seen();
    }

    fn after_escape(&mut self, escape: Escape, piece: Piece<'_>, sink: &mut impl Sink) -> bool {
        let start = self.seen_from();
        let now = piece.decided(0);
        match escape.next(piece.bytes[0]) {
            Escaped::More(escape) => {
                self.look = Look::Escape(escape);
                self.seen.push((piece.bytes[0], piece.place, piece.decided));
                true
            }
            Escaped::Done(utf8, len) => {
                self.forget_seen();
                let end = piece.end(0);
                self.put(Piece::stand_in(&utf8[..len], start, end, now), true, sink);
                true
            }
            Escaped::Before(utf8, len) => {
                self.put_escape(&utf8[..len], start, now, sink);
                false
            }
            Escaped::Nothing => {
                self.put_seen(now, sink);
                false
            }
        }
    }

    /// An escape that ended with the byte seen last.
    pub(super) fn put_escape(&mut self, utf8: &[u8], start: u64, now: u64, sink: &mut impl Sink) {
        let end = self.seen.last().map_or(start, |seen| ends(seen.1).1);
        self.forget_seen();
        self.put(Piece::stand_in(utf8, start, end, now), true, sink);
    }
}
