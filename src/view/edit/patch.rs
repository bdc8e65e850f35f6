//! Changes written as text: `apply_patch` envelopes, unified diffs, search/replace blocks. They are found
//! wherever they stand in a value; what stands around them belongs to nothing.
//!
//! It reads leniently: a patch that a tool would refuse is seen too. The line counts of a diff only tell a
//! header from a removed line that begins with two dashes.

use super::super::piece::{Piece, Sink};
use super::EditLimits;
use super::hunk::{Hunk, Kind};
use super::lines::{Event, Line, Lines, split};
use super::out::Out;

/// A value that may hold patches.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    limits: EditLimits,
    mode: Mode,
    lines: Lines,
    /// What the long line is that is being handed on; none: it belongs to nothing.
    long: Option<Kind>,
    hunk: Hunk,
    dashes: Option<Dashes>,
    /// A header named the file.
    named: bool,
}

/// A line that begins with three dashes: a header if the next one begins with three pluses.
#[derive(Clone, Debug)]
struct Dashes {
    lines: Lines,
    newline: Option<(super::super::piece::Place, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Outside,
    /// `*** Add File: `
    Add,
    /// `*** Update File: `
    Update,
    /// `*** Delete File: `
    Delete,
    /// A hunk of a unified diff, with the old and new lines that its header says are left.
    Diff(Option<(u64, u64)>),
    Search {
        /// Nothing but directives (`:start_line:3`) has come.
        begins: bool,
    },
    Replace,
}

/// A line of an `apply_patch` envelope that is no text.
#[derive(Clone, Copy, Debug)]
enum Header<'a> {
    Begin,
    End,
    Add(&'a [u8]),
    Update(&'a [u8]),
    Delete(&'a [u8]),
    Move(&'a [u8]),
    EndOfFile,
}

impl Patch {
    pub(super) fn new(limits: EditLimits) -> Patch {
        Patch {
            limits,
            mode: Mode::Outside,
            lines: Lines::new(limits.waiting),
            long: None,
            hunk: Hunk::new(limits),
            dashes: None,
            named: false,
        }
    }

    pub(super) fn take(&mut self, piece: Piece<'_>, out: &mut Out, sink: &mut impl Sink) {
        let mut rest = piece;
        loop {
            self.begin_added(&mut rest, out, sink);
            let Some(event) = self.lines.next(&mut rest) else {
                return;
            };
            match event {
                Event::End(newline) => self.end_line(Some(newline), newline.decided(0), out, sink),
                Event::Long(now) => {
                    self.long_line(now, out, sink);
                    self.lines.release();
                }
                Event::More(piece) => {
                    if let Some(kind) = self.long {
                        self.hunk.more(kind, piece, out, sink);
                    }
                }
            }
        }
    }

    /// The value ends.
    pub(super) fn end(&mut self, now: u64, out: &mut Out, sink: &mut impl Sink) {
        if !self.lines.at_start() {
            self.end_line(None, now, out, sink);
        }
        self.read_dashes(b"", now, out, sink);
        self.lines.restart();
        self.leave(Mode::Outside, now, out, sink);
        self.named = false;
    }

    /// A line of a new file needs not wait for its end.
    fn begin_added(&mut self, rest: &mut Piece<'_>, out: &mut Out, sink: &mut impl Sink) {
        if self.mode == Mode::Add && self.lines.at_start() && rest.bytes.first() == Some(&b'+') {
            let plus = split(rest, 1);
            self.lines.release();
            self.long = Some(Kind::Added);
            out.begin(Kind::Added.regions(), plus.decided(0), sink);
        }
    }

    fn end_line(
        &mut self,
        newline: Option<Piece<'_>>,
        now: u64,
        out: &mut Out,
        sink: &mut impl Sink,
    ) {
        let mut lines = std::mem::replace(&mut self.lines, Lines::new(self.limits.waiting));
        let line = lines.line(0, newline);
        if !line.long {
            let plain = line.text().trim_ascii_end();
            if !self.read_dashes(plain, now, out, sink) {
                self.line(line, now, out, sink);
            }
        } else if let Some(kind) = self.long {
            self.hunk.line(kind, line, now, out, sink);
        }
        lines.clear();
        self.lines = lines;
    }

    /// What the waiting line with three dashes is, as the next line shows; whether both were a header.
    fn read_dashes(&mut self, next: &[u8], now: u64, out: &mut Out, sink: &mut impl Sink) -> bool {
        let Some(dashes) = self.dashes.take() else {
            return false;
        };
        let mut line = dashes.lines.line(0, None);
        if let Some(new) = next.strip_prefix(b"+++ ") {
            let old = file_of_diff(&line.text().trim_ascii_end()[4..], b"a/");
            let new = file_of_diff(new, b"b/");
            self.leave(Mode::Outside, now, out, sink);
            self.name(if new == b"/dev/null" { old } else { new }, now, out, sink);
            return true;
        }
        if matches!(self.mode, Mode::Diff(_)) {
            (line.from, line.newline) = (1, dashes.newline);
            self.hunk.line(Kind::Removed, line, now, out, sink);
        }
        false
    }

    fn line(&mut self, line: Line<'_>, now: u64, out: &mut Out, sink: &mut impl Sink) {
        let text = line.text().trim_ascii_end();
        match self.mode {
            Mode::Search { .. } | Mode::Replace => self.block_line(line, now, out, sink),
            Mode::Diff(left) => self.diff_line(left, line, now, out, sink),
            _ => match (header(text), self.mode) {
                (Some(header), _) => self.header(header, now, out, sink),
                (None, Mode::Add) => self.hand_on(Kind::Added, line, now, out, sink),
                (None, Mode::Update) => self.update_line(line, now, out, sink),
                (None, Mode::Delete) => {}
                _ => self.outside(line, now, out, sink),
            },
        }
    }

    fn header(&mut self, header: Header<'_>, now: u64, out: &mut Out, sink: &mut impl Sink) {
        match header {
            Header::Begin | Header::End => self.leave(Mode::Outside, now, out, sink),
            Header::EndOfFile => self.leave(self.mode, now, out, sink),
            Header::Add(name) => self.section(Mode::Add, name, now, out, sink),
            Header::Update(name) => self.section(Mode::Update, name, now, out, sink),
            Header::Delete(name) => self.section(Mode::Delete, name, now, out, sink),
            Header::Move(name) => self.section(self.mode, name, now, out, sink),
        }
    }

    fn section(&mut self, mode: Mode, name: &[u8], now: u64, out: &mut Out, sink: &mut impl Sink) {
        self.leave(mode, now, out, sink);
        self.name(name, now, out, sink);
    }

    fn name(&mut self, name: &[u8], now: u64, out: &mut Out, sink: &mut impl Sink) {
        self.named = true;
        if name.len() > self.limits.path_bytes {
            out.counters.long_paths += 1;
            return out.unknown_file(now, sink);
        }
        out.file(&String::from_utf8_lossy(name), now, sink);
    }

    /// A hunk or a file ends, and that comes next.
    fn leave(&mut self, next: Mode, now: u64, out: &mut Out, sink: &mut impl Sink) {
        self.hunk.end(now, out, sink);
        self.mode = next;
    }

    /// A line of a new file that does not begin as it should.
    fn hand_on(
        &mut self,
        kind: Kind,
        line: Line<'_>,
        now: u64,
        out: &mut Out,
        sink: &mut impl Sink,
    ) {
        out.begin_with(kind.regions(), line.pieces(), now, sink);
        out.end(line.newline);
    }

    fn update_line(&mut self, line: Line<'_>, now: u64, out: &mut Out, sink: &mut impl Sink) {
        if line.text().starts_with(b"@@") {
            return self.leave(Mode::Update, now, out, sink);
        }
        let (kind, from) = kind_of(line.text()).unwrap_or((Kind::Context, 0));
        self.hunk.line(kind, Line { from, ..line }, now, out, sink);
    }

    fn outside(&mut self, line: Line<'_>, now: u64, out: &mut Out, sink: &mut impl Sink) {
        let text = line.text().trim_ascii_end();
        if text.starts_with(b"--- ") {
            self.hold_dashes(line);
        } else if is_marker(text, b"<", &["SEARCH", "ORIGINAL"])
            || is_marker(text, b"-", &["SEARCH"])
        {
            self.leave(Mode::Search { begins: true }, now, out, sink);
        } else if let Some(counts) = counts(text) {
            self.leave(Mode::Diff(Some(counts)), now, out, sink);
        } else if self.named && text.starts_with(b"@@") {
            self.leave(Mode::Diff(None), now, out, sink);
        }
    }

    fn hold_dashes(&mut self, line: Line<'_>) {
        let mut lines = Lines::new(self.limits.waiting);
        lines.copy(line);
        self.dashes = Some(Dashes {
            lines,
            newline: line.newline,
        });
    }

    fn diff_line(
        &mut self,
        left: Option<(u64, u64)>,
        line: Line<'_>,
        now: u64,
        out: &mut Out,
        sink: &mut impl Sink,
    ) {
        let text = line.text();
        let complete = left.is_none_or(|left| left == (0, 0));
        if complete && text.starts_with(b"--- ") {
            return self.hold_dashes(line);
        }
        let is_blank = text.trim_ascii_end().is_empty();
        match kind_of(text) {
            Some((Kind::Context, _))
                if is_blank && left == Some((0, 0)) && !text.starts_with(b" ") =>
            {
                self.leave(Mode::Outside, now, out, sink);
            }
            Some((kind, from)) => {
                self.mode = Mode::Diff(left.map(|left| count_down(left, kind)));
                self.hunk.line(kind, Line { from, ..line }, now, out, sink);
            }
            None if text.starts_with(b"\\") => {}
            None => {
                self.leave(Mode::Outside, now, out, sink);
                self.line(line, now, out, sink);
            }
        }
    }

    fn block_line(&mut self, line: Line<'_>, now: u64, out: &mut Out, sink: &mut impl Sink) {
        let text = line.text().trim_ascii_end();
        if is_marker(text, b">", &["REPLACE", "UPDATED"]) || is_marker(text, b"+", &["REPLACE"]) {
            return self.leave(Mode::Outside, now, out, sink);
        }
        let Mode::Search { begins } = self.mode else {
            return self.hunk.line(Kind::Added, line, now, out, sink);
        };
        let is_directive = text.starts_with(b":start_line:") || text.starts_with(b":end_line:");
        if is_divider(text) {
            self.hunk.know_old();
            self.mode = Mode::Replace;
        } else if !begins || !is_directive && text != b"-------" {
            self.mode = Mode::Search { begins: false };
            self.hunk.line(Kind::Removed, line, now, out, sink);
        }
    }

    /// A line is longer than what may wait.
    fn long_line(&mut self, now: u64, out: &mut Out, sink: &mut impl Sink) {
        let lines = std::mem::replace(&mut self.lines, Lines::new(self.limits.waiting));
        let mut line = lines.line(0, None);
        self.read_dashes(b"", now, out, sink);
        let kind = match self.mode {
            Mode::Outside | Mode::Delete => None,
            Mode::Add | Mode::Replace => Some((Kind::Added, 0)),
            Mode::Search { .. } => Some((Kind::Removed, 0)),
            Mode::Update => kind_of(line.text()).or(Some((Kind::Context, 0))),
            Mode::Diff(_) => kind_of(line.text()),
        };
        self.long = kind.map(|(kind, _)| kind);
        if let Some((kind, from)) = kind {
            if let Mode::Diff(Some(left)) = self.mode {
                self.mode = Mode::Diff(Some(count_down(left, kind)));
            }
            line.from = from;
            self.hunk.long(kind, line, now, out, sink);
        } else if matches!(self.mode, Mode::Diff(_)) {
            self.leave(Mode::Outside, now, out, sink);
        }
        self.lines = lines;
    }
}

/// What a line of a hunk is, and how long its marker; none if it is no line of a hunk.
fn kind_of(line: &[u8]) -> Option<(Kind, usize)> {
    match line.first() {
        Some(b'+') => Some((Kind::Added, 1)),
        Some(b'-') => Some((Kind::Removed, 1)),
        Some(b' ') => Some((Kind::Context, 1)),
        // The blank of an empty line is often lost.
        None | Some(b'\r') => Some((Kind::Context, 0)),
        Some(_) => None,
    }
}

fn count_down((old, new): (u64, u64), kind: Kind) -> (u64, u64) {
    match kind {
        Kind::Added => (old, new.saturating_sub(1)),
        Kind::Removed => (old.saturating_sub(1), new),
        Kind::Context => (old.saturating_sub(1), new.saturating_sub(1)),
    }
}

fn header(text: &[u8]) -> Option<Header<'_>> {
    let text = text.strip_prefix(b"*** ")?;
    let name = |prefix: &str| Some(text.strip_prefix(prefix.as_bytes())?.trim_ascii());
    match text {
        b"Begin Patch" => Some(Header::Begin),
        b"End Patch" => Some(Header::End),
        b"End of File" => Some(Header::EndOfFile),
        _ => (name("Add File: ").map(Header::Add))
            .or_else(|| name("Update File: ").map(Header::Update))
            .or_else(|| name("Delete File: ").map(Header::Delete))
            .or_else(|| name("Move to: ").map(Header::Move)),
    }
}

/// The file that a header of a diff names: without the time behind a tab, quotes, and `a/` or `b/`.
fn file_of_diff<'a>(name: &'a [u8], side: &[u8]) -> &'a [u8] {
    let name = name.split(|&byte| byte == b'\t').next().unwrap_or(name);
    let name = name.trim_ascii();
    let bare = name
        .strip_prefix(b"\"")
        .and_then(|name| name.strip_suffix(b"\""));
    let name = bare.unwrap_or(name);
    name.strip_prefix(side).unwrap_or(name)
}

/// The line counts of `@@ -1,2 +1,3 @@`.
fn counts(text: &[u8]) -> Option<(u64, u64)> {
    let text = text.strip_prefix(b"@@ -")?;
    let ascii = text.iter().take(48).take_while(|byte| byte.is_ascii());
    let text = std::str::from_utf8(&text[..ascii.count()]).ok()?;
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    Some((count(old)?, count(new)?))
}

fn count(range: &str) -> Option<u64> {
    let (start, count) = range.split_once(',').unwrap_or((range, "1"));
    start.parse::<u64>().ok()?;
    count.parse().ok()
}

/// Whether the line is five or more of that byte, a blank and one of the words.
fn is_marker(text: &[u8], byte: &[u8; 1], words: &[&str]) -> bool {
    let signs = text.iter().take_while(|&&sign| sign == byte[0]).count();
    let word = text[signs..].strip_prefix(b" ");
    signs >= 5 && word.is_some_and(|word| words.iter().any(|one| one.as_bytes() == word))
}

fn is_divider(text: &[u8]) -> bool {
    (5..=9).contains(&text.len()) && text.iter().all(|&byte| byte == b'=')
}
