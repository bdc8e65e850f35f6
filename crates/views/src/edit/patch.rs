//! Changes written as text: `apply_patch` envelopes, unified diffs and search/replace blocks. They are found anywhere
//! in a value; the text around them has no region.
//!
//! The reader is lenient: it also reads patches that a tool would refuse. It uses the line counts of a diff only to
//! tell a file header from a removed line that starts with two dashes.

use super::super::chunk::{Chunk, ChunkSink};
use super::EditLimits;
use super::emit::EditEmitter;
use super::hunk::{Hunk, LineKind};
use super::lines::{EditLine, LineEvent, LineSplitter, split};

/// The reader of a value that can contain patches.
#[derive(Clone, Debug)]
pub(super) struct PatchReader {
    limits: EditLimits,
    mode: PatchState,
    lines: LineSplitter,
    /// The kind of the long line that is being emitted; `None` if the line has no region.
    long: Option<LineKind>,
    hunk: Hunk,
    file_header: Option<PendingFileHeader>,
    /// True if a header has named the file.
    named: bool,
}

/// A line that starts with three dashes. It is a file header if the next line starts with three pluses.
#[derive(Clone, Debug)]
struct PendingFileHeader {
    lines: LineSplitter,
    newline: Option<(super::super::chunk::OffsetMap, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchState {
    Outside,
    /// `*** Add File: `
    Add,
    /// `*** Update File: `
    Update,
    /// `*** Delete File: `
    Delete,
    /// A hunk of a unified diff, with the numbers of old and new lines that remain according to its header.
    Diff(Option<(u64, u64)>),
    Search {
        /// True if only directives (`:start_line:3`) have been read.
        begins: bool,
    },
    Replace,
}

/// A directive line of an `apply_patch` envelope.
#[derive(Clone, Copy, Debug)]
enum PatchHeader<'a> {
    Begin,
    End,
    Add(&'a [u8]),
    Update(&'a [u8]),
    Delete(&'a [u8]),
    Move(&'a [u8]),
    EndOfFile,
}

impl PatchReader {
    pub(super) fn new(limits: EditLimits) -> PatchReader {
        PatchReader {
            limits,
            mode: PatchState::Outside,
            lines: LineSplitter::new(limits.waiting),
            long: None,
            hunk: Hunk::new(limits),
            file_header: None,
            named: false,
        }
    }

    pub(super) fn push(
        &mut self,
        chunk: Chunk<'_>,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        let mut rest = chunk;
        loop {
            self.begin_added(&mut rest, out, sink);
            let Some(event) = self.lines.next(&mut rest) else {
                return;
            };
            match event {
                LineEvent::End(newline) => {
                    self.end_line(Some(newline), newline.decided(0), out, sink)
                }
                LineEvent::Long(now) => {
                    self.long_line(now, out, sink);
                    self.lines.release();
                }
                LineEvent::More(chunk) => {
                    if let Some(kind) = self.long {
                        self.hunk.more(kind, chunk, out, sink);
                    }
                }
            }
        }
    }

    /// Ends the value.
    pub(super) fn end(&mut self, now: u64, out: &mut EditEmitter, sink: &mut impl ChunkSink) {
        if !self.lines.at_start() {
            self.end_line(None, now, out, sink);
        }
        self.resolve_file_header(b"", now, out, sink);
        self.lines.restart();
        self.leave(PatchState::Outside, now, out, sink);
        self.named = false;
    }

    /// Starts a `+` line of a new file. It is emitted without waiting for its end.
    fn begin_added(
        &mut self,
        rest: &mut Chunk<'_>,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        if self.mode == PatchState::Add
            && self.lines.at_start()
            && rest.bytes.first() == Some(&b'+')
        {
            let plus = split(rest, 1);
            self.lines.release();
            self.long = Some(LineKind::Added);
            out.begin(LineKind::Added.regions(), plus.decided(0), sink);
        }
    }

    fn end_line(
        &mut self,
        newline: Option<Chunk<'_>>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        let mut lines = std::mem::replace(&mut self.lines, LineSplitter::new(self.limits.waiting));
        let line = lines.line(0, newline);
        if !line.long {
            let plain = line.text().trim_ascii_end();
            if !self.resolve_file_header(plain, now, out, sink) {
                self.line(line, now, out, sink);
            }
        } else if let Some(kind) = self.long {
            self.hunk.line(kind, line, now, out, sink);
        }
        lines.clear();
        self.lines = lines;
    }

    /// Resolves the pending line with three dashes at the next line. Returns true if both are a file header.
    fn resolve_file_header(
        &mut self,
        next: &[u8],
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) -> bool {
        let Some(file_header) = self.file_header.take() else {
            return false;
        };
        let mut line = file_header.lines.line(0, None);
        if let Some(new) = next.strip_prefix(b"+++ ") {
            let old = file_of_diff(&line.text().trim_ascii_end()[4..], b"a/");
            let new = file_of_diff(new, b"b/");
            self.leave(PatchState::Outside, now, out, sink);
            self.set_file(if new == b"/dev/null" { old } else { new }, now, out, sink);
            return true;
        }
        // No file header: in a hunk the line is one that was removed, and its text begins with two dashes.
        if matches!(self.mode, PatchState::Diff(_)) {
            (line.from, line.newline) = (1, file_header.newline);
            self.hunk.line(LineKind::Removed, line, now, out, sink);
        }
        false
    }

    fn line(
        &mut self,
        line: EditLine<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        let text = line.text().trim_ascii_end();
        match self.mode {
            PatchState::Search { .. } | PatchState::Replace => {
                self.push_block_line(line, now, out, sink)
            }
            PatchState::Diff(left) => self.push_diff_line(left, line, now, out, sink),
            _ => match (parse_header(text), self.mode) {
                (Some(header), _) => self.apply_header(header, now, out, sink),
                (None, PatchState::Add) => self.emit_line(LineKind::Added, line, now, out, sink),
                (None, PatchState::Update) => self.push_update_line(line, now, out, sink),
                (None, PatchState::Delete) => {}
                _ => self.push_outside_line(line, now, out, sink),
            },
        }
    }

    fn apply_header(
        &mut self,
        header: PatchHeader<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        match header {
            PatchHeader::Begin | PatchHeader::End => {
                self.leave(PatchState::Outside, now, out, sink)
            }
            PatchHeader::EndOfFile => self.leave(self.mode, now, out, sink),
            PatchHeader::Add(name) => self.begin_section(PatchState::Add, name, now, out, sink),
            PatchHeader::Update(name) => {
                self.begin_section(PatchState::Update, name, now, out, sink)
            }
            PatchHeader::Delete(name) => {
                self.begin_section(PatchState::Delete, name, now, out, sink)
            }
            PatchHeader::Move(name) => self.begin_section(self.mode, name, now, out, sink),
        }
    }

    fn begin_section(
        &mut self,
        mode: PatchState,
        name: &[u8],
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        self.leave(mode, now, out, sink);
        self.set_file(name, now, out, sink);
    }

    fn set_file(
        &mut self,
        name: &[u8],
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        self.named = true;
        if name.len() > self.limits.path_bytes {
            out.counters.long_paths += 1;
            return out.unknown_file(now, sink);
        }
        out.file(&String::from_utf8_lossy(name), now, sink);
    }

    /// Ends the current hunk or file and enters the state `next`.
    fn leave(
        &mut self,
        next: PatchState,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        self.hunk.end(now, out, sink);
        self.mode = next;
    }

    /// Emits a line of a new file that lacks the `+`.
    fn emit_line(
        &mut self,
        kind: LineKind,
        line: EditLine<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        out.begin_with(kind.regions(), line.chunks(), now, sink);
        out.end(line.newline);
    }

    fn push_update_line(
        &mut self,
        line: EditLine<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        if line.text().starts_with(b"@@") {
            return self.leave(PatchState::Update, now, out, sink);
        }
        let (kind, from) = kind_of(line.text()).unwrap_or((LineKind::Context, 0));
        self.hunk
            .line(kind, EditLine { from, ..line }, now, out, sink);
    }

    fn push_outside_line(
        &mut self,
        line: EditLine<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        let text = line.text().trim_ascii_end();
        if text.starts_with(b"--- ") {
            self.hold_file_header(line);
        } else if is_marker(text, b"<", &["SEARCH", "ORIGINAL"])
            || is_marker(text, b"-", &["SEARCH"])
        {
            self.leave(PatchState::Search { begins: true }, now, out, sink);
        } else if let Some(counts) = counts(text) {
            self.leave(PatchState::Diff(Some(counts)), now, out, sink);
        } else if self.named && text.starts_with(b"@@") {
            self.leave(PatchState::Diff(None), now, out, sink);
        }
    }

    fn hold_file_header(&mut self, line: EditLine<'_>) {
        let mut lines = LineSplitter::new(self.limits.waiting);
        lines.copy(line);
        self.file_header = Some(PendingFileHeader {
            lines,
            newline: line.newline,
        });
    }

    fn push_diff_line(
        &mut self,
        left: Option<(u64, u64)>,
        line: EditLine<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        let text = line.text();
        let complete = left.is_none_or(|left| left == (0, 0));
        if complete && text.starts_with(b"--- ") {
            return self.hold_file_header(line);
        }
        let is_blank = text.trim_ascii_end().is_empty();
        match kind_of(text) {
            Some((LineKind::Context, _))
                if is_blank && left == Some((0, 0)) && !text.starts_with(b" ") =>
            {
                self.leave(PatchState::Outside, now, out, sink);
            }
            Some((kind, from)) => {
                self.mode = PatchState::Diff(left.map(|left| count_down(left, kind)));
                self.hunk
                    .line(kind, EditLine { from, ..line }, now, out, sink);
            }
            None if text.starts_with(b"\\") => {}
            None => {
                self.leave(PatchState::Outside, now, out, sink);
                self.line(line, now, out, sink);
            }
        }
    }

    fn push_block_line(
        &mut self,
        line: EditLine<'_>,
        now: u64,
        out: &mut EditEmitter,
        sink: &mut impl ChunkSink,
    ) {
        let text = line.text().trim_ascii_end();
        if is_marker(text, b">", &["REPLACE", "UPDATED"]) || is_marker(text, b"+", &["REPLACE"]) {
            return self.leave(PatchState::Outside, now, out, sink);
        }
        let PatchState::Search { begins } = self.mode else {
            return self.hunk.line(LineKind::Added, line, now, out, sink);
        };
        let is_directive = text.starts_with(b":start_line:") || text.starts_with(b":end_line:");
        if is_divider(text) {
            self.hunk.complete_removed();
            self.mode = PatchState::Replace;
        } else if !begins || !is_directive && text != b"-------" {
            self.mode = PatchState::Search { begins: false };
            self.hunk.line(LineKind::Removed, line, now, out, sink);
        }
    }

    /// Handles a line that exceeds the buffer.
    fn long_line(&mut self, now: u64, out: &mut EditEmitter, sink: &mut impl ChunkSink) {
        let lines = std::mem::replace(&mut self.lines, LineSplitter::new(self.limits.waiting));
        let mut line = lines.line(0, None);
        self.resolve_file_header(b"", now, out, sink);
        let kind = match self.mode {
            PatchState::Outside | PatchState::Delete => None,
            PatchState::Add | PatchState::Replace => Some((LineKind::Added, 0)),
            PatchState::Search { .. } => Some((LineKind::Removed, 0)),
            PatchState::Update => kind_of(line.text()).or(Some((LineKind::Context, 0))),
            PatchState::Diff(_) => kind_of(line.text()),
        };
        self.long = kind.map(|(kind, _)| kind);
        if let Some((kind, from)) = kind {
            if let PatchState::Diff(Some(left)) = self.mode {
                self.mode = PatchState::Diff(Some(count_down(left, kind)));
            }
            line.from = from;
            self.hunk.long(kind, line, now, out, sink);
        } else if matches!(self.mode, PatchState::Diff(_)) {
            self.leave(PatchState::Outside, now, out, sink);
        }
        self.lines = lines;
    }
}

/// Returns the kind of a hunk line and the length of its marker, or `None` if it cannot be part of a hunk.
fn kind_of(line: &[u8]) -> Option<(LineKind, usize)> {
    match line.first() {
        Some(b'+') => Some((LineKind::Added, 1)),
        Some(b'-') => Some((LineKind::Removed, 1)),
        Some(b' ') => Some((LineKind::Context, 1)),
        // Models often omit the blank of an empty context line.
        None | Some(b'\r') => Some((LineKind::Context, 0)),
        Some(_) => None,
    }
}

fn count_down((old, new): (u64, u64), kind: LineKind) -> (u64, u64) {
    match kind {
        LineKind::Added => (old, new.saturating_sub(1)),
        LineKind::Removed => (old.saturating_sub(1), new),
        LineKind::Context => (old.saturating_sub(1), new.saturating_sub(1)),
    }
}

fn parse_header(text: &[u8]) -> Option<PatchHeader<'_>> {
    let text = text.strip_prefix(b"*** ")?;
    let name = |prefix: &str| Some(text.strip_prefix(prefix.as_bytes())?.trim_ascii());
    match text {
        b"Begin Patch" => Some(PatchHeader::Begin),
        b"End Patch" => Some(PatchHeader::End),
        b"End of File" => Some(PatchHeader::EndOfFile),
        _ => (name("Add File: ").map(PatchHeader::Add))
            .or_else(|| name("Update File: ").map(PatchHeader::Update))
            .or_else(|| name("Delete File: ").map(PatchHeader::Delete))
            .or_else(|| name("Move to: ").map(PatchHeader::Move)),
    }
}

/// Returns the file named by a diff header: without the time after a tab, quotes, and `a/` or `b/`.
fn file_of_diff<'a>(name: &'a [u8], side: &[u8]) -> &'a [u8] {
    let name = name.split(|&byte| byte == b'\t').next().unwrap_or(name);
    let name = name.trim_ascii();
    let bare = name
        .strip_prefix(b"\"")
        .and_then(|name| name.strip_suffix(b"\""));
    let name = bare.unwrap_or(name);
    name.strip_prefix(side).unwrap_or(name)
}

/// Returns the line counts of `@@ -1,2 +1,3 @@`.
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

/// Returns true if the line is five or more of `byte`, a blank and one of `words`.
fn is_marker(text: &[u8], byte: &[u8; 1], words: &[&str]) -> bool {
    let signs = text.iter().take_while(|&&sign| sign == byte[0]).count();
    let word = text[signs..].strip_prefix(b" ");
    signs >= 5 && word.is_some_and(|word| words.iter().any(|one| one.as_bytes() == word))
}

fn is_divider(text: &[u8]) -> bool {
    (5..=9).contains(&text.len()) && text.iter().all(|&byte| byte == b'=')
}
