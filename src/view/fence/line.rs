//! The beginning of a line: which quotes and items it continues, and what it begins.
//!
//! Byte by byte, until the kind of the line is known; what waits until then is the line's own. Nothing is
//! read twice but a line of `-` or `*` that turns out to be no rule, once.

use super::super::chunk::{Chunk, ChunkBuffer, ChunkSink, Language};
use super::{
    Blanks, Container, Fence, Indentation, Leaf, MarkdownEmitter, MarkdownView, after, heading,
};

/// Where in a line the text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Blanks, behind markers or nothing.
    #[default]
    Blank,
    /// Behind `>`.
    Quoted,
    /// Behind the marker of a list item, that stands in those columns of its container.
    Marker(Marker),
    /// Blanks behind such a marker.
    AfterMarker(Marker),
    /// Digits that may number an item.
    Digits { count: u8, value: u32 },
    /// `#`s that may begin a heading.
    Hashes(usize),
    /// Blanks behind them.
    AfterHashes,
    /// The same mark again and again: a rule, an underline, or list items in each other.
    ThematicBreak(ThematicBreak),
    /// `=` that may underline a paragraph; whether blanks have followed.
    Underline { ended: bool },
    /// A run of marks that may open a fence.
    FenceRun { mark: u8, len: usize },
    /// What follows such a run.
    Opening { mark: u8, len: usize },
    /// A run of marks that may close the fence, and whether blanks have followed.
    Closing { len: usize, ended: bool },
    /// The line is text of a paragraph from here on.
    Prose,
    /// The line is text of a heading.
    Heading,
    /// The line is code.
    Code,
    /// The rest of the line is in no region.
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// The column behind it.
    column: usize,
    /// Where in what waits it ends.
    end: usize,
    /// Whether it may end a paragraph.
    interrupts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThematicBreak {
    mark: u8,
    count: usize,
    /// Blanks have followed.
    ended: bool,
    /// Marks stand behind blanks.
    broken: bool,
    /// The column and the place in what waits where it begins.
    column: usize,
    at: usize,
}

/// The line that is read.
#[derive(Clone, Debug, Default)]
pub(super) struct LineState {
    pub(super) phase: Phase,
    /// What waits, from behind the last marker.
    held: ChunkBuffer,
    /// The column in which that begins.
    held_column: usize,
    /// The column of the next byte.
    column: usize,
    /// The column in which the content of the innermost container that was found begins.
    base: usize,
    /// How many of the open containers the line continues.
    matched: usize,
    /// A container began on this line.
    fresh: bool,
    /// A carriage return waits for its line feed.
    returned: bool,
    /// That many more bytes begin no rule: they were taken for one before.
    no_rule: usize,
    /// Two empty stores: to build in what is left of `held`, and to read it again from.
    spare: ChunkBuffer,
    again: ChunkBuffer,
}

impl LineState {
    pub(super) fn clear(&mut self) {
        self.held.clear();
        *self = LineState {
            held: std::mem::take(&mut self.held),
            spare: std::mem::take(&mut self.spare),
            again: std::mem::take(&mut self.again),
            ..LineState::default()
        };
    }

    fn indent(&self) -> usize {
        self.column.saturating_sub(self.base)
    }

    /// Where the last byte that waits stands; the one that is being read.
    fn here(&self) -> usize {
        self.held.bytes().len().saturating_sub(1)
    }

    fn drop_until(&mut self, from: usize) {
        for chunk in self.held.chunks(from..self.held.bytes().len()) {
            self.spare.push(chunk);
        }
        std::mem::swap(&mut self.held, &mut self.spare);
        self.spare.clear();
    }
}

/// What stands for a byte that begins nothing.
const OTHER: u8 = b'x';

/// Whether no block but a paragraph begins with that byte.
fn begins_nothing(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte >= 0x80 || b"|(){}[]<\"'/:;,.!?@$%^&\\".contains(&byte)
}

impl MarkdownView {
    /// Takes one byte, or several blanks, of a line whose kind is not known.
    pub(super) fn head(
        &mut self,
        rest: Chunk<'_>,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) -> usize {
        let (byte, decided) = (rest.bytes[0], rest.decided(0));
        let room = self.held.saturating_sub(self.line.held.bytes().len());
        if room == 0 {
            self.decide_at_limit(decided, out);
            return 0;
        }
        if std::mem::take(&mut self.line.returned) && byte != b'\n' {
            // The carriage return alone is like any other character.
            self.step(OTHER, decided, out);
            if self.is_known() {
                return 0;
            }
        }
        match byte {
            b' ' if self.line.phase == Phase::Blank => return self.spaces(rest, room),
            // What the line is does not depend on more than that byte.
            _ if self.line.phase == Phase::Blank && begins_nothing(byte) => {
                self.block(byte, decided, out);
                return 0;
            }
            _ => self.line.held.push(rest.slice(0..1)),
        }
        match byte {
            b'\r' => self.line.returned = true,
            _ => self.step(byte, decided, out),
        }
        1
    }

    fn spaces(&mut self, rest: Chunk<'_>, room: usize) -> usize {
        let spaces = rest.bytes.iter().take(room).take_while(|&&b| b == b' ');
        let count = spaces.count();
        self.line.held.push(rest.slice(0..count));
        self.line.column += count;
        self.line.no_rule = self.line.no_rule.saturating_sub(count);
        count
    }

    fn is_known(&self) -> bool {
        matches!(
            self.line.phase,
            Phase::Prose | Phase::Heading | Phase::Code | Phase::Ignored
        )
    }

    /// The text ends here, as if with a line feed.
    pub(super) fn end_line(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        // It may have been the last byte there was room for, and the line is known since.
        if std::mem::take(&mut self.line.returned) && !self.is_known() {
            self.step(OTHER, decided, out);
        }
        match self.line.phase {
            Phase::Heading => {
                let tags = heading(self.tags());
                self.spans.finish(decided, tags, out);
            }
            _ if !self.is_known() => self.step(b'\n', decided, out),
            _ => {}
        }
    }

    /// So much of the line is there that it is not waited for any longer.
    fn decide_at_limit(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        match self.line.phase {
            Phase::Blank | Phase::Quoted | Phase::AfterMarker(_) => self.step(OTHER, decided, out),
            Phase::Closing { .. } => self.code_line(decided, out),
            Phase::Opening { mark: b'~', len } => {
                self.open_fence(b'~', len, decided, out);
                self.line.phase = Phase::Ignored;
            }
            _ => self.prose(decided, out),
        }
    }

    /// One more byte, the last that waits, or the end of the text, which is like a line feed.
    fn step(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        match self.line.phase {
            Phase::Blank => self.blank(byte, decided, out),
            Phase::Quoted => self.quoted(byte, decided, out),
            Phase::Marker(marker) => self.marker(marker, byte, decided, out),
            Phase::AfterMarker(marker) => self.after_marker(marker, byte, decided, out),
            Phase::Digits { count, value } => self.digits(count, value, byte, decided, out),
            Phase::Hashes(count) => self.hashes(count, byte, decided, out),
            Phase::AfterHashes => self.after_hashes(byte, decided, out),
            // It counts the columns itself if it is read again.
            Phase::ThematicBreak(rule) => return self.rule(rule, byte, decided, out),
            Phase::Underline { ended } => self.underline(ended, byte, decided, out),
            Phase::FenceRun { mark, len } => self.run(mark, len, byte, decided, out),
            Phase::Opening { mark, len } => self.opening(mark, len, byte, decided, out),
            Phase::Closing { len, ended } => self.closing(len, ended, byte, decided, out),
            Phase::Prose | Phase::Heading | Phase::Code | Phase::Ignored => {
                unreachable!("the kind of the line is known")
            }
        }
        if byte != b'\n' {
            self.line.column = after(self.line.column, byte);
            self.line.no_rule = self.line.no_rule.saturating_sub(1);
        }
    }

    fn blank(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        match byte {
            b' ' | b'\t' => {}
            b'\n' => self.blank_line(decided, out),
            _ => self.block(byte, decided, out),
        }
    }

    fn quoted(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        self.line.phase = Phase::Blank;
        self.line.held_column = self.line.column;
        self.line.base = self.line.column;
        match byte {
            b' ' => {
                self.line.held.clear();
                self.line.held_column += 1;
                self.line.base += 1;
            }
            b'\t' => self.line.base += 1,
            _ => self.blank(byte, decided, out),
        }
    }

    /// The line holds nothing more.
    fn blank_line(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        if !self.line.fresh {
            self.match_blank();
        }
        let all = self.line.matched == self.containers.len();
        match self.leaf {
            Leaf::Fenced(fence) if all => return self.blank_code(fence, decided, out),
            Leaf::Indented if all => return self.hold_blank(decided, out),
            _ => {}
        }
        self.close_unmatched(decided, out);
        self.release_text(decided, out);
        self.line.clear();
    }

    /// Which containers a blank line continues: all items but empty ones, and no quotes.
    fn match_blank(&mut self) {
        while let Some(Container::Item {
            width,
            empty: false,
        }) = self.containers.get(self.line.matched)
        {
            self.line.base += (*width).min(self.line.indent());
            self.line.matched += 1;
        }
    }

    fn blank_code(
        &mut self,
        fence: Fence,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let strip = self.line.base + fence.indent;
        self.release_code(strip, decided, out);
        self.line.clear();
    }

    fn hold_blank(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        let Blanks { held, lines } = &mut self.blanks;
        lines.push(Indentation {
            at: held.bytes().len(),
            column: self.line.held_column,
            strip: self.line.base + 4,
        });
        for chunk in self.line.held.chunks(0..self.line.held.bytes().len()) {
            held.push(chunk);
        }
        if held.bytes().len() > self.held {
            self.end_leaf(decided, out);
        }
        self.line.clear();
    }

    /// The first byte that is not blank, behind all markers so far.
    fn block(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        if !self.line.fresh && self.match_containers(byte) {
            return self.open_quote();
        }
        let all = self.line.matched == self.containers.len();
        let indented = self.line.indent() >= 4;
        match self.leaf {
            Leaf::Fenced(fence) if all && !indented && byte == fence.mark => {
                self.line.phase = Phase::Closing {
                    len: 1,
                    ended: false,
                };
            }
            Leaf::Fenced(_) if all => self.code_line(decided, out),
            Leaf::Indented if all && indented => self.code_line(decided, out),
            Leaf::Paragraph if indented => self.prose(decided, out),
            Leaf::Paragraph => self.begin(byte, decided, out),
            _ => {
                self.close_unmatched(decided, out);
                if indented {
                    out.cut(decided);
                    self.leaf = Leaf::Indented;
                    self.code_line(decided, out);
                } else {
                    self.begin(byte, decided, out);
                }
            }
        }
    }

    /// Goes on through the containers that the line continues; whether `byte` is the marker of one.
    fn match_containers(&mut self, byte: u8) -> bool {
        while let Some(container) = self.containers.get_mut(self.line.matched) {
            let indent = self.line.column.saturating_sub(self.line.base);
            match container {
                Container::Quote if indent < 4 && byte == b'>' => return true,
                Container::Item { width, empty } if indent >= *width => {
                    *empty = false;
                    self.line.base += *width;
                }
                _ => return false,
            }
            self.line.matched += 1;
        }
        false
    }

    /// Behind the marker of a quote, one that goes on or a new one.
    fn open_quote(&mut self) {
        self.line.held.clear();
        self.line.matched += 1;
        self.line.phase = Phase::Quoted;
    }

    /// What a byte may begin that is indented by less than four columns.
    fn begin(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        let within = self.in_paragraph();
        let (column, at) = (self.line.column, self.line.here());
        self.line.phase = match byte {
            b'>' if self.may_nest() => {
                self.close_unmatched(decided, out);
                self.open_container(Container::Quote);
                return self.open_quote();
            }
            b'#' => Phase::Hashes(1),
            b'`' | b'~' => Phase::FenceRun { mark: byte, len: 1 },
            b'-' | b'*' | b'_' if self.line.no_rule == 0 => Phase::ThematicBreak(ThematicBreak {
                mark: byte,
                count: 1,
                ended: false,
                broken: false,
                column,
                at,
            }),
            b'-' | b'*' | b'+' => self.item(true),
            b'=' if within => Phase::Underline { ended: false },
            b'0'..=b'9' => Phase::Digits {
                count: 1,
                value: u32::from(byte - b'0'),
            },
            _ => return self.prose(decided, out),
        };
    }

    /// Whether the line, so far, goes on in the paragraph, and not only lazily.
    fn in_paragraph(&self) -> bool {
        self.leaf == Leaf::Paragraph && self.line.matched == self.containers.len()
    }

    /// Whether there is room for one more container where the line stands.
    fn may_nest(&self) -> bool {
        self.line.matched < self.depth
    }

    fn item(&self, interrupts: bool) -> Phase {
        Phase::Marker(Marker {
            column: self.line.column + 1,
            end: self.line.here() + 1,
            interrupts,
        })
    }

    fn digits(
        &mut self,
        count: u8,
        value: u32,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        match byte {
            b'0'..=b'9' if count < 9 => {
                self.line.phase = Phase::Digits {
                    count: count + 1,
                    value: value * 10 + u32::from(byte - b'0'),
                };
            }
            b'.' | b')' => self.line.phase = self.item(value == 1),
            _ => self.prose(decided, out),
        }
    }

    fn marker(
        &mut self,
        marker: Marker,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let barred = self.in_paragraph() && (!marker.interrupts || byte == b'\n');
        match byte {
            b' ' | b'\t' | b'\n' if !barred && self.may_nest() => {
                self.line.phase = Phase::AfterMarker(marker);
                if byte == b'\n' {
                    self.after_marker(marker, byte, decided, out);
                }
            }
            _ => self.prose(decided, out),
        }
    }

    fn after_marker(
        &mut self,
        marker: Marker,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        match byte {
            b' ' | b'\t' => {}
            b'\n' if self.in_paragraph() => self.prose(decided, out),
            b'\n' => {
                self.open_item(marker, 1, true, decided, out);
                self.blank(byte, decided, out);
            }
            _ => {
                let blanks = self.line.column - marker.column;
                let blanks = if blanks > 4 { 1 } else { blanks };
                self.open_item(marker, blanks, false, decided, out);
                self.blank(byte, decided, out);
            }
        }
    }

    fn open_item(
        &mut self,
        marker: Marker,
        blanks: usize,
        empty: bool,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        self.close_unmatched(decided, out);
        let base = marker.column + blanks;
        let width = base - self.line.base;
        out.emit_all(self.text(), self.line.held.chunks(0..marker.end), decided);
        self.open_container(Container::Item { width, empty });
        self.line.drop_until(marker.end);
        self.line.held_column = marker.column;
        self.line.base = base;
        self.line.matched += 1;
        self.line.phase = Phase::Blank;
    }

    fn open_container(&mut self, container: Container) {
        self.containers.push(container);
        self.line.fresh = true;
    }

    fn hashes(
        &mut self,
        count: usize,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        match byte {
            b'#' if count < 6 => self.line.phase = Phase::Hashes(count + 1),
            b' ' | b'\t' | b'\n' => {
                self.close_unmatched(decided, out);
                self.line.phase = Phase::AfterHashes;
                self.after_hashes(byte, decided, out);
            }
            _ => self.prose(decided, out),
        }
    }

    fn after_hashes(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        match byte {
            b' ' | b'\t' => self.line.held.clear(),
            b'\n' => {
                self.keep_line_ending();
                self.release_text(decided, out);
                self.line.clear();
            }
            _ => {
                let tags = heading(self.tags());
                self.feed_spans(tags, decided, out);
                self.rest(Phase::Heading);
            }
        }
    }

    /// Only the line's ending waits on, if it is there.
    fn keep_line_ending(&mut self) {
        let bytes = self.line.held.bytes();
        let ending = match bytes {
            [.., b'\r', b'\n'] => 2,
            [.., b'\n'] => 1,
            _ => 0,
        };
        let from = bytes.len() - ending;
        self.line.drop_until(from);
    }

    fn rule(
        &mut self,
        rule: ThematicBreak,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let again = byte == rule.mark;
        if continues_break(rule, byte) {
            self.line.column = after(self.line.column, byte);
            self.line.phase = Phase::ThematicBreak(ThematicBreak {
                count: rule.count + usize::from(again),
                ended: rule.ended || !again,
                broken: rule.broken || (again && rule.ended),
                ..rule
            });
            return;
        }
        let underlines = rule.mark == b'-' && !rule.broken && self.in_paragraph();
        if byte == b'\n' && (rule.count >= 3 || underlines) {
            self.close_unmatched(decided, out);
            self.release_text(decided, out);
            self.line.clear();
        } else {
            self.no_rule(rule, byte, decided, out);
        }
    }

    /// What looked like a rule is read again, as anything else.
    fn no_rule(
        &mut self,
        rule: ThematicBreak,
        last: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let again = std::mem::take(&mut self.line.held);
        self.line.held = std::mem::take(&mut self.line.again);
        for chunk in again.chunks(0..rule.at) {
            self.line.held.push(chunk);
        }
        let marks = again.bytes()[rule.at..].iter();
        self.line.no_rule = marks
            .take_while(|&&mark| continues_break(rule, mark))
            .count();
        self.line.column = rule.column;
        self.line.phase = Phase::Blank;
        for at in rule.at..again.bytes().len() {
            let mut byte = again.chunks(at..at + 1);
            let byte = byte.next().expect("it waits").not_before(decided);
            self.read_again(byte, last, decided, out);
        }
        let text_ends = last == b'\n' && again.bytes().last() != Some(&b'\n');
        if text_ends && !self.is_known() {
            self.step(last, decided, out);
        }
        self.line.again = again;
        self.line.again.clear();
    }

    /// `last` is what ended the marks, and the only thing besides them that is read again.
    fn read_again(
        &mut self,
        byte: Chunk<'_>,
        last: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        if self.is_known() {
            self.flow(byte, out);
            return;
        }
        self.line.held.push(byte);
        match byte.bytes[0] {
            b'\r' if last == b'\n' => {}
            b'\r' => self.step(last, decided, out),
            byte => self.step(byte, decided, out),
        }
    }

    fn underline(
        &mut self,
        ended: bool,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        match byte {
            b'=' if !ended => {}
            b' ' | b'\t' => self.line.phase = Phase::Underline { ended: true },
            b'\n' => {
                self.close_unmatched(decided, out);
                self.release_text(decided, out);
                self.line.clear();
            }
            _ => self.prose(decided, out),
        }
    }

    fn run(
        &mut self,
        mark: u8,
        len: usize,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        if byte == mark {
            self.line.phase = Phase::FenceRun { mark, len: len + 1 };
        } else if len < 3 {
            self.prose(decided, out);
        } else {
            self.line.phase = Phase::Opening { mark, len };
            self.opening(mark, len, byte, decided, out);
        }
    }

    fn opening(
        &mut self,
        mark: u8,
        len: usize,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        match byte {
            b'`' if mark == b'`' => self.prose(decided, out),
            b'\n' => {
                self.open_fence(mark, len, decided, out);
                self.line.clear();
            }
            _ => {}
        }
    }

    fn open_fence(
        &mut self,
        mark: u8,
        len: usize,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        self.close_unmatched(decided, out);
        out.cut(decided);
        let bytes = self.line.held.bytes();
        let blanks = bytes.iter().take_while(|&&byte| byte != mark).count();
        let column = bytes[..blanks]
            .iter()
            .fold(self.line.held_column, |column, &blank| after(column, blank));
        self.leaf = Leaf::Fenced(Fence {
            mark,
            len,
            indent: column - self.line.base,
            language: language(&bytes[blanks + len..]),
        });
    }

    fn closing(
        &mut self,
        len: usize,
        ended: bool,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let Leaf::Fenced(fence) = self.leaf else {
            unreachable!("only a fence is closed")
        };
        let long = len >= fence.len;
        match byte {
            _ if byte == fence.mark && !ended => {
                self.line.phase = Phase::Closing {
                    len: len + 1,
                    ended,
                };
            }
            b' ' | b'\t' if long => self.line.phase = Phase::Closing { len, ended: true },
            b'\n' if long => {
                self.end_leaf(decided, out);
                self.line.clear();
            }
            _ => self.code_line(decided, out),
        }
    }

    /// The line is code, without the indentation that belongs to the block. It may end already.
    fn code_line(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        let indent = match self.leaf {
            Leaf::Fenced(fence) => fence.indent,
            _ => 4,
        };
        self.blanks.release(self.code(), decided, out);
        let strip = self.line.base + indent;
        self.release_code(strip, decided, out);
        self.rest(Phase::Code);
    }

    fn release_code(
        &mut self,
        strip: usize,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let from = Indentation {
            at: 0,
            column: self.line.held_column,
            strip,
        };
        let end = self.line.held.bytes().len();
        out.indented(self.code(), &self.line.held, from, end, decided);
    }

    /// The line is text, of the paragraph that is open or of a new one. It may end already.
    fn prose(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        if self.leaf != Leaf::Paragraph {
            self.close_unmatched(decided, out);
            self.leaf = Leaf::Paragraph;
        }
        self.feed_spans(self.tags(), decided, out);
        self.rest(Phase::Prose);
    }

    /// The kind of the line is known; if it ended with what waited, another begins.
    fn rest(&mut self, phase: Phase) {
        if self.line.held.bytes().last() == Some(&b'\n') {
            self.line.clear();
        } else {
            self.line.held.clear();
            self.line.phase = phase;
        }
    }

    fn feed_spans(
        &mut self,
        tags: super::SpanTags,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let all = 0..self.line.held.bytes().len();
        for chunk in self.line.held.chunks(all) {
            self.spans.push(chunk.not_before(decided), tags, out);
        }
    }

    fn release_text(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        let all = 0..self.line.held.bytes().len();
        out.emit_all(self.text(), self.line.held.chunks(all), decided);
    }

    /// The line continues no more of the containers than it has: the leaf ends, and those others.
    fn close_unmatched(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        self.end_leaf(decided, out);
        self.containers.truncate(self.line.matched);
    }
}

/// Whether it goes on with that byte.
fn continues_break(rule: ThematicBreak, byte: u8) -> bool {
    byte == rule.mark || matches!(byte, b' ' | b'\t')
}

/// The language that an info string names.
fn language(info: &[u8]) -> Option<Language> {
    let word = info.trim_ascii_start();
    let begin = word
        .iter()
        .take_while(|byte| matches!(byte, b'{' | b'.'))
        .count();
    let word = word[begin..]
        .split(|byte| byte.is_ascii_whitespace() || b",:;{}".contains(byte))
        .next()?;
    Language::new(std::str::from_utf8(word).ok()?)
}

#[cfg(test)]
impl LineState {
    /// Bytes that wait.
    pub(super) fn waits(&self) -> usize {
        self.held.bytes().len()
    }
}
