//! Bytes of words: where they go, and which wait for the end of their word.

use super::super::piece::{Piece, Sink};
use super::command::Dest;
use super::heredoc::HEREDOCS;
use super::out::{hand_on, keep};
use super::{STRETCH, Shell};

impl Shell {
    pub(super) fn begin_word(&mut self, start: u64) {
        self.command().begin_word(start);
    }

    /// Bytes of the word.
    pub(super) fn put(&mut self, piece: Piece<'_>, quoted: bool, sink: &mut impl Sink) {
        self.begin_word(piece.start(0));
        if quoted {
            self.command().note_quote();
        }
        let mut at = 0;
        while at < piece.bytes.len() {
            let rest = piece.slice(at..piece.bytes.len());
            at += match self.commands.len() == 1 && self.commands[0].is_argument() {
                true => self.put_argument(rest, sink),
                false => self.hold(rest, sink),
            };
        }
    }

    /// Bytes of an argument: they wait only while it may be the number of a redirection. How many were taken.
    fn put_argument(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> usize {
        if self.commands[0].dest.is_none() {
            let digits = self.commands[0].number(piece.bytes);
            if digits > 0 {
                return self.hold(piece.slice(0..digits), sink);
            }
            if self.commands[0].held.is_empty() {
                self.commands[0].dest = Some(Dest::Command);
                self.space(piece.decided(0), sink);
            } else {
                self.stretch(false, piece.decided(0), sink);
            }
        }
        hand_on(&mut self.open, piece, sink);
        piece.bytes.len()
    }

    /// What stands between an argument that begins and what was there before.
    pub(super) fn space(&mut self, now: u64, sink: &mut impl Sink) {
        if self.open.is_some() {
            hand_on(&mut self.open, self.commands[0].space(now), sink);
        }
    }

    /// Bytes of a word wait for its end, or until there are enough for a stretch of it. How many were taken.
    fn hold(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> usize {
        let room = STRETCH - self.command().held.bytes().len();
        let most = room.min(piece.bytes.len());
        self.command().held.push(piece.slice(0..most));
        if most == room {
            self.stretch(false, piece.decided(most - 1), sink);
        }
        most
    }

    pub(super) fn end_word(&mut self, end: u64, now: u64, sink: &mut impl Sink) {
        if !self.command().in_word {
            return;
        }
        if self.command().dest.is_none() || !self.command().held.is_empty() {
            self.stretch(true, now, sink);
        }
        self.word_ended(end);
    }

    /// All of the word is where it belongs.
    pub(super) fn word_ended(&mut self, end: u64) {
        if let Some(heredoc) = self.command().end_word(end)
            && self.heredocs.len() < HEREDOCS
        {
            self.heredocs.push(heredoc);
        }
        if self.command().dest == Some(Dest::Redirect) {
            self.end_redirect();
        }
        self.command().dest = None;
    }

    /// What is held of the word goes where it belongs.
    fn stretch(&mut self, complete: bool, now: u64, sink: &mut impl Sink) {
        let scripts = self.scripts;
        let command = self.command();
        let held = std::mem::take(&mut command.held);
        let (dest, first) = command.place_word(held.bytes(), complete, scripts);
        self.place(dest, first, held.pieces(0..held.bytes().len()), now, sink);
        let keep = dest == Dest::Heredoc && complete;
        self.command().held = held;
        if !keep {
            self.command().held.clear();
        }
        self.bound(now, sink);
    }

    /// Puts a stretch of a word, if it is the first with what stands between it and the word before.
    pub(super) fn place<'a>(
        &mut self,
        dest: Dest,
        first: bool,
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
        now: u64,
        sink: &mut impl Sink,
    ) {
        let level = self.commands.len() - 1;
        let command = &mut self.commands[level];
        match dest {
            Dest::Command => {
                let space = command.space(now);
                if level > 0 {
                    keep(&mut command.text, first, space, pieces.clone(), now);
                }
                if command.twice {
                    keep(&mut command.rest, first, space, pieces.clone(), now);
                }
                if command.is_script() {
                    let long = command.keep_script(pieces.clone(), now, self.limits.waiting);
                    self.counters.long_scripts += u64::from(long);
                }
                if level == 0 {
                    if first {
                        self.space(now, sink);
                    }
                    pieces.for_each(|piece| hand_on(&mut self.open, piece.later(now), sink));
                }
            }
            Dest::Redirect => {
                let space = command.space_behind_operator(now);
                keep(&mut command.redirect, first, space, pieces, now);
            }
            Dest::Nowhere | Dest::Heredoc => {}
        }
    }
}
