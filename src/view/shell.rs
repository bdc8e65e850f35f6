//! The commands of a shell text: for each simple command one haystack, its words without quotes and escapes,
//! joined by one space, tagged [`Regions::SHELL`].
//!
//! A lexer, no shell: nothing is expanded or run. It does not see what `eval`, aliases, variables, encoded text
//! or a heredoc that is fed to a shell do.
//!
//! - Commands end at `;`, `&`, `&&`, `|`, `||`, `|&`, a newline, `(` and `)`. Keywords and assignments before a
//!   command are left out, comments and the bodies of heredocs too.
//! - A substitution stands in its word as `$()`, `` `` ``, `<()` or `>()`; what is in it is a command of its own.
//!   `${…}` and `$((…))` stand as they are written, substitutions inside aside.
//! - A redirection is a haystack of its own: `>> file`, without the number before it.
//! - Behind `sudo`, `env`, `xargs` and their like a command is there twice: as it is written, and from the first
//!   word that is no such word, nor an option or an assignment of one.
//! - The script of `sh -c` and its kin is read as a shell text too, once.
//!
//! The haystack of a command comes first, then what is in it. A word that may still be something else is certain
//! when it ends, a long one in stretches of [`STRETCH`] bytes; an argument of the outermost command as it comes, but
//! for digits, which may be the number of a redirection.

mod command;
mod word;

use std::ops::Range;

use super::json::{ArgPath, RAW};
use super::piece::{Held, Piece, Place, Regions, Sink, Tag};
use command::{Command, Dest, ends};
use word::{Escape, Escaped};

/// Most bytes of a word that wait for its end. No keyword, option or end of a heredoc is longer.
const STRETCH: usize = 256;

/// Most ends of heredocs that are remembered on one line.
const HEREDOCS: usize = 8;

/// How deep a text may be nested, and how much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShellLimits {
    /// Most quotes and substitutions inside each other. What is deeper is part of a word.
    pub(crate) depth: usize,
    /// Most bytes of nested commands that wait for the end of the outer one. Past it the outer one is cut in
    /// two haystacks, and so are those that wait.
    pub(crate) waiting: usize,
}

impl Default for ShellLimits {
    fn default() -> ShellLimits {
        ShellLimits {
            depth: 32,
            waiting: 64 << 10,
        }
    }
}

/// What reached a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellCounters {
    /// Quotes and substitutions that were too deep.
    pub(crate) too_deep: u64,
    /// Times that commands were cut because too much waited.
    pub(crate) cut: u64,
    /// Scripts of `sh -c` that were too long to be read; as a word they were handed on.
    pub(crate) long_scripts: u64,
}

impl ShellCounters {
    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.too_deep + self.cut + self.long_scripts
    }
}

/// The view of one part.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    limits: ShellLimits,
    source: Source,
    /// The value that begins is not the next word of the command before.
    restarts: bool,
    frames: Vec<Frame>,
    /// The commands being read, the outermost first: one for each open substitution, and one.
    commands: Vec<Command>,
    look: Look,
    /// The bytes of an operator, or of a beginning that may be something else.
    seen: Vec<(u8, Place, u64)>,
    comment: bool,
    /// Parentheses to close before something too deep ends.
    skipped: u32,
    heredocs: Vec<Heredoc>,
    body: Option<Body>,
    /// Complete commands that wait for the end of the outermost one.
    queue: Held,
    queued: Vec<Queued>,
    /// Whether the script of `sh -c` is to be read.
    scripts: bool,
    /// Behind a haystack of the outermost command that is not cut yet: where it ended.
    open: Option<u64>,
    counters: ShellCounters,
}

/// What the value being read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    None,
    Text,
    /// An element of an array of words.
    Word,
}

/// What a byte stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// Commands; with the parentheses open in there.
    Commands(Kind, u32),
    Single,
    /// `$'`
    Ansi,
    Double,
    /// `${`
    Brace {
        quoted: bool,
    },
    /// `$((`, with the parentheses to close.
    Sum(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Outermost,
    /// `$(`, `<(`, `>(`
    Parens,
    Backquotes,
}

/// What the next byte decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    None,
    Backslash,
    Dollar,
    DollarParen,
    Operator,
    Escape(Escape),
}

#[derive(Clone, Debug)]
struct Heredoc {
    end: Vec<u8>,
    tabs: bool,
}

/// The body of a heredoc that is being skipped.
#[derive(Clone, Debug)]
struct Body {
    heredoc: Heredoc,
    /// How much of its end the line has; none if it is another line.
    matched: Option<usize>,
    begins: bool,
}

/// How far in the queue a command goes.
#[derive(Clone, Copy, Debug)]
struct Queued {
    end: usize,
    script: bool,
}

const TEXTS: [&str; 5] = ["command", "cmd", "script", "input", RAW];
const WORDS: [&str; 3] = ["command", "cmd", "argv"];

/// Where a byte stands for more than itself: between words, in single quotes, in `$'`, in all else.
const BARE: u8 = 1;
const SINGLE: u8 = 2;
const ANSI: u8 = 4;
const INSIDE: u8 = 8;

static SPECIAL: [u8; 256] = {
    let mut special = [0; 256];
    let classes: [(&[u8], u8); 4] = [
        (b" \t\n;|&()<>'\"`$\\#", BARE),
        (b"'`", SINGLE),
        (b"'`\\", ANSI),
        (b"\"'`$\\}()", INSIDE),
    ];
    let mut class = 0;
    while class < classes.len() {
        let (bytes, mut at) = (classes[class].0, 0);
        while at < bytes.len() {
            special[bytes[at] as usize] |= classes[class].1;
            at += 1;
        }
        class += 1;
    }
    special
};

impl Shell {
    pub(crate) fn new(limits: ShellLimits) -> Shell {
        Shell {
            limits,
            source: Source::None,
            restarts: false,
            frames: vec![Frame::Commands(Kind::Outermost, 0)],
            commands: vec![Command::default()],
            look: Look::None,
            seen: Vec::new(),
            comment: false,
            skipped: 0,
            heredocs: Vec::new(),
            body: None,
            queue: Held::default(),
            queued: Vec::new(),
            scripts: true,
            open: None,
            counters: ShellCounters::default(),
        }
    }

    pub(crate) fn counters(&self) -> ShellCounters {
        self.counters
    }

    /// A value begins: a text, a word of a command, or neither.
    pub(crate) fn open(&mut self, path: &ArgPath) {
        let depth = path.len();
        let key = |index: usize| path.segment(index).unwrap_or_default();
        let last = path.last().unwrap_or_default();
        self.source = if TEXTS.contains(&last) {
            Source::Text
        } else if depth > 1
            && last.bytes().all(|byte| byte.is_ascii_digit())
            && WORDS.contains(&key(depth - 2))
        {
            Source::Word
        } else {
            Source::None
        };
        self.restarts = self.source != Source::Word || last == "0";
    }

    /// Opens a text that is no argument.
    pub(crate) fn open_text(&mut self) {
        self.source = Source::Text;
        self.restarts = true;
    }

    /// Whether the value being read holds commands, and whether it is one word of a list of them.
    pub(crate) fn reads(&self) -> Option<bool> {
        match self.source {
            Source::None => None,
            Source::Text => Some(false),
            Source::Word => Some(true),
        }
    }

    /// Takes the next bytes of the value.
    ///
    /// # Complexity
    /// Linear. At most [`ShellLimits::waiting`] bytes of nested commands, a script as long, and a stretch of a
    /// word for each level wait.
    pub(crate) fn take(&mut self, piece: &Piece<'_>, sink: &mut impl Sink) {
        if piece.bytes.is_empty() {
            return;
        }
        if self.restarts {
            self.arrive(piece.decided(0), sink);
        }
        match self.source {
            Source::Text => self.text(piece, sink),
            // As if in quotes: it is no keyword, assignment or number.
            Source::Word => self.put(*piece, true, sink),
            Source::None => {}
        }
    }

    /// The value ends.
    pub(crate) fn close(&mut self, end: u64, decided: u64, sink: &mut impl Sink) {
        let now = decided.max(end);
        self.arrive(now, sink);
        match self.source {
            Source::Text => self.end_text(end, now, sink),
            Source::Word => {
                self.begin_word(end);
                self.end_word(end, now, sink);
            }
            Source::None => {}
        }
        self.source = Source::None;
    }

    /// The part ends.
    pub(crate) fn finish(&mut self, end: u64, sink: &mut impl Sink) {
        if self.source != Source::None {
            self.close(end, end, sink);
        }
        self.end_command(end, sink);
    }

    /// The first byte of a value, or its end, has come: the command of another one is over. Again is nothing.
    pub(crate) fn arrive(&mut self, now: u64, sink: &mut impl Sink) {
        if std::mem::take(&mut self.restarts) {
            self.end_command(now, sink);
        }
    }

    fn text(&mut self, piece: &Piece<'_>, sink: &mut impl Sink) {
        let mut at = 0;
        while at < piece.bytes.len() {
            at += if self.look != Look::None || self.skips_text() {
                usize::from(self.odd(piece.slice(at..at + 1), sink))
            } else {
                match self.frame() {
                    Frame::Commands(kind, parens) => self.bare(kind, parens, piece, at, sink),
                    frame => self.inside(frame, piece, at, sink),
                }
            };
        }
    }

    /// Reads on between words, or in one outside quotes: how many bytes were read.
    // PERF: what is frequent is told apart here. Byte by byte, word by word through `held`, and each space by itself,
    // a byte cost 4.7 times the plain path (`cargo bench --bench views -- command`).
    fn bare(
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

    fn dollar(&mut self, piece: &Piece<'_>, at: usize, sink: &mut impl Sink) {
        let dollar = piece.slice(at..at + 1);
        match piece.bytes.get(at + 1) {
            // Text, as it turns out one byte later.
            Some(next) if !matches!(next, b'(' | b'{' | b'\'' | b'"') => {
                self.put(dollar.later(piece.decided(at + 1)), true, sink);
            }
            _ => self.look_at(Look::Dollar, dollar),
        }
    }

    /// Reads on in quotes, an expansion or a sum: how many bytes were read.
    fn inside(
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

    /// What stands between an argument that begins and what was there before.
    fn space(&mut self, now: u64, sink: &mut impl Sink) {
        if self.open.is_some() {
            hand_on(&mut self.open, self.commands[0].space(now), sink);
        }
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

    /// Whether text here is part of no command.
    fn skips_text(&self) -> bool {
        self.comment || self.body.is_some() || self.skipped > 0
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

    fn frame(&self) -> Frame {
        *self.frames.last().expect("the outermost frame stays")
    }

    fn command(&mut self) -> &mut Command {
        self.commands
            .last_mut()
            .expect("the outermost command stays")
    }

    /// Whether the byte belongs to a comment or to the body of a heredoc.
    fn skips(&mut self, byte: u8) -> bool {
        if self.comment {
            // The newline ends the command, and a backquote the substitution.
            self.comment = byte != b'\n' && !(byte == b'`' && self.in_backquotes());
            return self.comment;
        }
        let Some(body) = &mut self.body else {
            return false;
        };
        if body.ends_with(byte) {
            self.body = (!self.heredocs.is_empty()).then(|| Body::new(self.heredocs.remove(0)));
        }
        true
    }

    /// What skipped text or a byte that was looked at makes of the next. Whether it was taken; if not, it is looked at
    /// again.
    fn odd(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> bool {
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

    fn set_parens(&mut self, count: u32) {
        if let Some(Frame::Commands(_, parens)) = self.frames.last_mut() {
            *parens = count;
        }
    }

    fn look_at(&mut self, look: Look, piece: Piece<'_>) {
        self.look = look;
        self.seen.push((piece.bytes[0], piece.place, piece.decided));
    }

    /// What was looked at is text.
    fn put_seen(&mut self, now: u64, sink: &mut impl Sink) {
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
    fn seen_from(&self) -> u64 {
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

    fn end_operator(&mut self, now: u64, sink: &mut impl Sink) {
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
    fn put_escape(&mut self, utf8: &[u8], start: u64, now: u64, sink: &mut impl Sink) {
        let end = self.seen.last().map_or(start, |seen| ends(seen.1).1);
        self.forget_seen();
        self.put(Piece::stand_in(utf8, start, end, now), true, sink);
    }

    fn in_backquotes(&self) -> bool {
        let commands = |frame: &&Frame| matches!(frame, Frame::Commands(..));
        matches!(
            self.frames.iter().rfind(commands),
            Some(Frame::Commands(Kind::Backquotes, _))
        )
    }

    /// Opens a substitution, or closes the one it is in, whatever is open in there.
    fn backquote(&mut self, piece: Piece<'_>, sink: &mut impl Sink) {
        if !self.in_backquotes() {
            self.put(piece, true, sink);
            return self.substitute(Kind::Backquotes);
        }
        while !matches!(self.frame(), Frame::Commands(..)) {
            self.frames.pop();
        }
        self.leave(piece, sink);
    }

    fn substitute(&mut self, kind: Kind) {
        if self.enter(Frame::Commands(kind, 0)) {
            self.commands.push(Command::default());
        } else if kind == Kind::Parens {
            self.skipped = 1;
        }
    }

    /// A substitution ends with that byte.
    fn leave(&mut self, piece: Piece<'_>, sink: &mut impl Sink) {
        let (at, now) = (piece.start(0), piece.decided(0));
        self.end_word(at, now, sink);
        self.end_command(now, sink);
        self.frames.pop();
        self.commands.pop();
        self.put(piece, true, sink);
    }

    fn enter(&mut self, frame: Frame) -> bool {
        let fits = self.frames.len() <= self.limits.depth;
        self.counters.too_deep += u64::from(!fits);
        if fits {
            self.frames.push(frame);
        }
        fits
    }

    fn quote(&mut self, frame: Frame, piece: Piece<'_>) {
        self.begin_word(piece.start(0));
        self.command().note_quote();
        self.enter(frame);
    }

    fn unquote(&mut self) {
        self.frames.pop();
    }

    /// Inside a substitution that is too deep only parentheses count.
    fn too_deep(&mut self, piece: Piece<'_>, sink: &mut impl Sink) -> bool {
        match piece.bytes[0] {
            b'(' => self.skipped += 1,
            b')' => self.skipped -= 1,
            _ => {}
        }
        self.put(piece, true, sink);
        true
    }

    fn begin_word(&mut self, start: u64) {
        self.command().begin_word(start);
    }

    /// Bytes of the word.
    fn put(&mut self, piece: Piece<'_>, quoted: bool, sink: &mut impl Sink) {
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

    fn end_word(&mut self, end: u64, now: u64, sink: &mut impl Sink) {
        if !self.command().in_word {
            return;
        }
        if self.command().dest.is_none() || !self.command().held.is_empty() {
            self.stretch(true, now, sink);
        }
        self.word_ended(end);
    }

    /// All of the word is where it belongs.
    fn word_ended(&mut self, end: u64) {
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
    fn place<'a>(
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

    fn end_redirect(&mut self) {
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
    fn end_command(&mut self, now: u64, sink: &mut impl Sink) {
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
    fn bound(&mut self, now: u64, sink: &mut impl Sink) {
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

    /// A text ends, whatever is open in it.
    fn end_text(&mut self, end: u64, now: u64, sink: &mut impl Sink) {
        match self.look {
            Look::Operator => self.end_operator(now, sink),
            Look::Escape(escape) => match escape.end() {
                Some((utf8, len)) => {
                    self.put_escape(&utf8[..len], self.seen_from(), now, sink);
                }
                None => self.put_seen(now, sink),
            },
            _ => self.put_seen(now, sink),
        }
        while self.commands.len() > 1 {
            self.end_word(end, now, sink);
            self.end_command(now, sink);
            self.commands.pop();
        }
        self.end_word(end, now, sink);
        self.end_command(now, sink);
        self.frames.truncate(1);
        self.set_parens(0);
        (self.comment, self.skipped, self.body) = (false, 0, None);
        self.heredocs.clear();
    }
}

impl Body {
    fn new(heredoc: Heredoc) -> Body {
        Body {
            heredoc,
            matched: Some(0),
            begins: true,
        }
    }

    /// Takes a byte; whether it ends the body.
    fn ends_with(&mut self, byte: u8) -> bool {
        let end = &self.heredoc.end;
        if byte == b'\n' {
            let ends = self.matched == Some(end.len());
            (self.matched, self.begins) = (Some(0), true);
            return ends;
        }
        if self.begins && self.heredoc.tabs && byte == b'\t' {
            return false;
        }
        self.begins = false;
        self.matched = self
            .matched
            .filter(|&at| end.get(at) == Some(&byte))
            .map(|at| at + 1);
        false
    }
}

fn is_plain(byte: u8) -> bool {
    SPECIAL[usize::from(byte)] & BARE == 0
}

/// How many bytes stand for nothing but themselves in text of that class.
#[inline]
fn plain(bytes: &[u8], class: u8) -> usize {
    let special = |&byte: &u8| SPECIAL[usize::from(byte)] & class != 0;
    bytes.iter().position(special).unwrap_or(bytes.len())
}

/// Whether one blank stands there between two arguments as they are. Digits may be the number of a redirection, and
/// what is no whole character is over where something stands in.
#[inline]
fn is_single_blank(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at..], [b' ', next, ..] if is_plain(next) && !next.is_ascii_digit())
        && at > 0
        && bytes[at - 1].is_ascii()
}

/// Hands on a piece of a haystack; `open` says where it ended so far.
#[inline]
fn hand_on(open: &mut Option<u64>, piece: Piece<'_>, sink: &mut impl Sink) {
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
fn keep<'a>(
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

#[cfg(test)]
mod tests;
