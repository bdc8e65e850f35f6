//! Outside quotes: blanks, operators, and words that are handed on as they stand.

use std::ops::Range;

use super::super::piece::{Piece, Place, Sink};
use super::command::Dest;
use super::heredoc::Body;
use super::out::hand_on;
use super::special::{BARE, is_plain, is_single_blank, plain};
use super::{Frame, Kind, Look, STRETCH, Shell};

impl Shell {
    /// Reads on between words, or in one outside quotes: how many bytes were read.
    // PERF: what is frequent is told apart here. Byte by byte, word by word through `held`, and each space by itself,
    // a byte cost 4.7 times the plain path (`cargo bench --bench views -- command`).
    pub(super) fn bare(
        &mut self,
        kind: Kind,
        parens: u32,
        piece: &Piece<'_>,
        at: usize,
        sink: &mut impl Sink,
    ) -> usize {
        let byte = piece.bytes[at];
        if is_plain(byte) {
            return self.bare_text(piece, at, sink);
        }
        let here = piece.slice(at..at + 1);
        match byte {
            b'\'' => self.quote(Frame::Single, here),
            b'"' => self.quote(Frame::Double, here),
            b'$' => self.dollar(piece, at, sink),
            b'\\' => self.look_at(Look::Backslash, here),
            b'<' | b'>' => self.look_at(Look::Operator, here),
            b'`' => self.backquote(here, sink),
            b')' if kind == Kind::Parens && parens == 0 => self.leave(here, sink),
            b'#' if !self.command().in_word => self.comment = true,
            b'#' => self.put(here, false, sink),
            b'&' => return self.and(piece, at, sink),
            b' ' | b'\t' => {
                self.end_word(here.start(0), here.decided(0), sink);
                return self.next_words(piece, at, sink);
            }
            // A newline, `;`, `|`, and parentheses that are no substitution.
            _ => self.end_simple(byte, parens, here, sink),
        }
        1
    }

    /// The byte ends a simple command.
    fn end_simple(&mut self, byte: u8, parens: u32, here: Piece<'_>, sink: &mut impl Sink) {
        self.end_word(here.start(0), here.decided(0), sink);
        self.end_command(here.decided(0), sink);
        match byte {
            b'(' => self.set_parens(parens.saturating_add(1)),
            b')' => self.set_parens(parens.saturating_sub(1)),
            b'\n' if !self.heredocs.is_empty() => {
                self.body = Some(Body::new(self.heredocs.remove(0)));
            }
            _ => {}
        }
    }

    /// Of two operators alike the first ends the command, the second nothing, once the byte behind it is there.
    fn and(&mut self, piece: &Piece<'_>, at: usize, sink: &mut impl Sink) -> usize {
        self.end_word(piece.start(at), piece.decided(at), sink);
        if matches!(piece.bytes[at + 1..], [b'&', next, ..] if !matches!(next, b'&' | b'>')) {
            self.end_command(piece.decided(at + 1), sink);
            return 2;
        }
        self.look_at(Look::Operator, piece.slice(at..at + 1));
        1
    }

    pub(super) fn dollar(&mut self, piece: &Piece<'_>, at: usize, sink: &mut impl Sink) {
        let dollar = piece.slice(at..at + 1);
        match piece.bytes.get(at + 1) {
            // Text, as it turns out one byte later.
            Some(next) if !matches!(next, b'(' | b'{' | b'\'' | b'"') => {
                self.put(dollar.later(piece.decided(at + 1)), true, sink);
            }
            _ => self.look_at(Look::Dollar, dollar),
        }
    }

    /// Bytes that stand for nothing but themselves, from there on, outside quotes.
    fn bare_text(&mut self, piece: &Piece<'_>, at: usize, sink: &mut impl Sink) -> usize {
        if self.begins_argument(piece, at, sink) {
            return self.words(piece, at, sink);
        }
        let plain = plain(&piece.bytes[at..], BARE);
        if self.is_whole_word(piece, at, plain) {
            self.whole_word(piece, at..at + plain, sink);
        } else {
            self.put(piece.slice(at..at + plain), false, sink);
        }
        plain
    }

    /// Whether what follows can be handed on as it comes: an argument of the outermost command has begun, or does now
    /// with a byte that makes it no number of a redirection.
    fn begins_argument(&mut self, piece: &Piece<'_>, at: usize, sink: &mut impl Sink) -> bool {
        let [command] = &mut self.commands[..] else {
            return false;
        };
        if !command.is_argument() || !matches!(piece.place, Place::Verbatim(_)) {
            return false;
        }
        if command.in_word || piece.bytes[at].is_ascii_digit() {
            return command.dest.is_some();
        }
        command.begin_argument(piece.start(at));
        self.space(piece.decided(at), sink);
        true
    }

    /// Behind a blank that ended an argument: more of them, with that blank, if they go on right there.
    fn next_words(&mut self, piece: &Piece<'_>, blank: usize, sink: &mut impl Sink) -> usize {
        let goes_on = self.commands.len() == 1
            && self.commands[0].is_argument()
            && self.commands[0].ended_at(piece.start(blank))
            && self.open.is_some()
            && matches!(piece.place, Place::Verbatim(_))
            && is_single_blank(piece.bytes, blank);
        if !goes_on {
            return 1;
        }
        self.commands[0].begin_argument(piece.end(blank));
        self.words(piece, blank, sink)
    }

    /// Hands on what begins at `from`, arguments as they stand, with single blanks between.
    fn words(&mut self, piece: &Piece<'_>, from: usize, sink: &mut impl Sink) -> usize {
        let mut end = from + plain(&piece.bytes[from..], BARE);
        while is_single_blank(piece.bytes, end) {
            end += 1 + plain(&piece.bytes[end + 1..], BARE);
        }
        hand_on(&mut self.open, piece.slice(from..end).words(), sink);
        end - from
    }

    /// Whether these bytes are a whole word of the outermost command, as it stands; of an argument, if they are digits.
    fn is_whole_word(&self, piece: &Piece<'_>, at: usize, plain: usize) -> bool {
        let is_end = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'|' | b'(' | b')');
        (1..STRETCH).contains(&plain)
            && matches!(piece.place, Place::Verbatim(_))
            && self.commands.len() == 1
            && self.commands[0].awaits_word()
            && (!self.commands[0].is_argument()
                || piece.bytes[at..at + plain].iter().all(u8::is_ascii_digit))
            && piece.bytes.get(at + plain).is_some_and(is_end)
    }

    /// What [`put`](Self::put) and [`end_word`](Self::end_word) do, without a copy; and the space before the word
    /// goes with it where it stands there.
    fn whole_word(&mut self, piece: &Piece<'_>, word: Range<usize>, sink: &mut impl Sink) {
        let (end, now) = (piece.start(word.end), piece.decided(word.end));
        self.begin_word(piece.start(word.start));
        let (dest, first) =
            self.commands[0].place_word(&piece.bytes[word.clone()], true, self.scripts);
        let has_space = word.start >= 2
            && piece.bytes[word.start - 1] == b' '
            // What is no whole character is over where something stands in.
            && piece.bytes[word.start - 2].is_ascii()
            && self.commands[0].space_bytes() == 1;
        let goes_on = self.open.is_some();
        if dest != Dest::Command || !self.commands[0].is_plain() {
            let pieces = std::iter::once(piece.slice(word));
            self.place(dest, first, pieces, now, sink);
            self.bound(now, sink);
        } else if goes_on && has_space {
            let both = piece.slice(word.start - 1..word.end);
            hand_on(&mut self.open, both.later(now), sink);
        } else {
            self.space(now, sink);
            hand_on(&mut self.open, piece.slice(word).later(now), sink);
        }
        self.word_ended(end);
    }
}
