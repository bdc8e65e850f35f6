//! The start of a line: the containers it continues, and the block it starts.
//!
//! Sections are those of CommonMark 0.31.
//!
//! 1. Each byte is appended to the line's buffer and stepped, until the kind of the line is known.
//! 2. The buffer is then emitted, or passed to the code spans, and the rest of the line goes the same way.
//! 3. Only a line of `-` or `*` that is not a thematic break is read a second time, once: it can be nested list items.

use super::super::chunk::{Chunk, ChunkBuffer, ChunkSink, Language};
use super::{
    BlankLines, Container, Fence, Indentation, LeafBlock, MarkdownEmitter, MarkdownView, after,
    heading,
};

/// The position in the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LinePhase {
    /// In blanks, at the start or after a marker.
    #[default]
    Blank,
    /// After `>`.
    Quoted,
    /// After the marker of a list item.
    Marker(ListMarker),
    /// In the blanks after such a marker.
    AfterMarker(ListMarker),
    /// In digits that can number a list item.
    Digits { count: u8, value: u32 },
    /// In `#`s that can start a heading.
    Hashes(usize),
    /// In the blanks after them.
    AfterHashes,
    /// In repeated marks: a thematic break, an underline, or nested list items.
    ThematicBreak(ThematicBreak),
    /// In `=`s that can underline a paragraph; `has_trailing_blank` is true after a blank.
    Underline { has_trailing_blank: bool },
    /// In a run of marks that can open a fence.
    FenceRun { mark: u8, len: usize },
    /// In the info string after such a run.
    Opening { mark: u8, len: usize },
    /// In a run of marks that can close the fence; `has_trailing_blank` is true after a blank.
    Closing {
        len: usize,
        has_trailing_blank: bool,
    },
    /// The rest of the line is text of a paragraph.
    Prose,
    /// The rest of the line is text of a heading.
    Heading,
    /// The rest of the line is code.
    Code,
    /// The rest of the line has no region.
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListMarker {
    /// The column after it.
    column: usize,
    /// The index in the buffer at which it ends.
    end: usize,
    /// True if it can interrupt a paragraph.
    interrupts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThematicBreak {
    mark: u8,
    count: usize,
    /// True if blanks have followed.
    has_trailing_blank: bool,
    /// True if marks follow blanks.
    has_inner_blank: bool,
    /// The column and the index in the buffer at which it starts.
    column: usize,
    at: usize,
}

/// The state of the current line.
#[derive(Clone, Debug, Default)]
pub(super) struct LineState {
    pub(super) phase: LinePhase,
    /// The buffered bytes, from after the last marker.
    held: ChunkBuffer,
    /// The column in which they start.
    held_column: usize,
    /// The column of the next byte.
    column: usize,
    /// The column in which the content of the innermost matched container starts.
    base: usize,
    /// The number of open containers that the line continues.
    matched_containers: usize,
    /// True if a container started on this line.
    has_new_container: bool,
    /// True if a carriage return waits for its line feed.
    has_pending_cr: bool,
    /// The number of next bytes that cannot start a thematic break, because they have already been read as one.
    marks_ruled_out: usize,
    /// Two empty buffers, to avoid allocations: the remainder of `held`, and the line that is read again.
    spare: ChunkBuffer,
    replay: ChunkBuffer,
}

impl LineState {
    #[inline]
    pub(super) fn clear(&mut self) {
        self.held.clear();
        *self = LineState {
            held: std::mem::take(&mut self.held),
            spare: std::mem::take(&mut self.spare),
            replay: std::mem::take(&mut self.replay),
            ..LineState::default()
        };
    }

    /// Returns true if no byte of the line was read.
    pub(super) fn is_fresh(&self) -> bool {
        let is_empty = self.held.bytes().is_empty() && !self.has_pending_cr;
        is_empty && !self.has_new_container && self.column == 0 && self.matched_containers == 0
    }

    #[inline]
    fn indent(&self) -> usize {
        self.column.saturating_sub(self.base)
    }

    /// Returns the index of the last buffered byte, which is the one being stepped.
    #[inline]
    fn here(&self) -> usize {
        self.held.bytes().len().saturating_sub(1)
    }

    #[inline]
    fn drop_until(&mut self, from: usize) {
        for chunk in self.held.chunks(from..self.held.bytes().len()) {
            self.spare.push(chunk);
        }
        std::mem::swap(&mut self.held, &mut self.spare);
        self.spare.clear();
    }
}

/// A byte that starts no block, in place of any such byte.
const PARAGRAPH_BYTE: u8 = b'x';

/// Returns true if `byte` can only start a paragraph.
#[inline]
pub(super) fn starts_only_paragraph(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte >= 0x80 || b"|(){}[]<\"'/:;,.!?@$%^&\\".contains(&byte)
}

impl MarkdownView {
    /// Consumes one byte, or several blanks, of a line whose kind is not known.
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
        if std::mem::take(&mut self.line.has_pending_cr) && byte != b'\n' {
            // A carriage return without a line feed is an ordinary character.
            self.step(PARAGRAPH_BYTE, decided, out);
            if self.is_known() {
                return 0;
            }
        }
        match byte {
            b' ' if self.line.phase == LinePhase::Blank => return self.spaces(rest, room),
            // This byte alone determines the kind of the line.
            _ if self.line.phase == LinePhase::Blank && starts_only_paragraph(byte) => {
                self.block(byte, decided, out);
                return 0;
            }
            _ => self.line.held.push(rest.slice(0..1)),
        }
        match byte {
            b'\r' => self.line.has_pending_cr = true,
            _ => self.step(byte, decided, out),
        }
        1
    }

    #[inline]
    fn spaces(&mut self, rest: Chunk<'_>, room: usize) -> usize {
        let spaces = rest.bytes.iter().take(room).take_while(|&&b| b == b' ');
        let count = spaces.count();
        self.line.held.push(rest.slice(0..count));
        self.line.column += count;
        self.line.marks_ruled_out = self.line.marks_ruled_out.saturating_sub(count);
        count
    }

    #[inline]
    fn is_known(&self) -> bool {
        matches!(
            self.line.phase,
            LinePhase::Prose | LinePhase::Heading | LinePhase::Code | LinePhase::Ignored
        )
    }

    /// Ends the text, as a line feed would.
    pub(super) fn end_line(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        // The carriage return may have filled the buffer, which has determined the kind of the line.
        if std::mem::take(&mut self.line.has_pending_cr) && !self.is_known() {
            self.step(PARAGRAPH_BYTE, decided, out);
        }
        match self.line.phase {
            LinePhase::Heading => {
                let tags = heading(self.tags());
                self.spans.finish(decided, tags, out);
            }
            _ if !self.is_known() => self.step(b'\n', decided, out),
            _ => {}
        }
    }

    /// Determines the kind of a line that fills the buffer.
    fn decide_at_limit(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        match self.line.phase {
            LinePhase::Blank | LinePhase::Quoted | LinePhase::AfterMarker(_) => {
                self.step(PARAGRAPH_BYTE, decided, out)
            }
            LinePhase::Closing { .. } => self.code_line(decided, out),
            LinePhase::Opening { mark: b'~', len } => {
                self.open_fence(b'~', len, decided, out);
                self.line.phase = LinePhase::Ignored;
            }
            _ => self.prose(decided, out),
        }
    }

    /// Steps the last buffered byte, or a line feed for the end of the text.
    fn step(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        match self.line.phase {
            LinePhase::Blank => self.blank(byte, decided, out),
            LinePhase::Quoted => self.quoted(byte, decided, out),
            LinePhase::Marker(marker) => self.marker(marker, byte, decided, out),
            LinePhase::AfterMarker(marker) => self.after_marker(marker, byte, decided, out),
            LinePhase::Digits { count, value } => self.digits(count, value, byte, decided, out),
            LinePhase::Hashes(count) => self.hashes(count, byte, decided, out),
            LinePhase::AfterHashes => self.after_hashes(byte, decided, out),
            // It counts the columns itself, because it may read the line again.
            LinePhase::ThematicBreak(rule) => return self.rule(rule, byte, decided, out),
            LinePhase::Underline { has_trailing_blank } => {
                self.underline(has_trailing_blank, byte, decided, out)
            }
            LinePhase::FenceRun { mark, len } => self.run(mark, len, byte, decided, out),
            LinePhase::Opening { mark, len } => self.opening(mark, len, byte, decided, out),
            LinePhase::Closing {
                len,
                has_trailing_blank,
            } => self.closing(len, has_trailing_blank, byte, decided, out),
            LinePhase::Prose | LinePhase::Heading | LinePhase::Code | LinePhase::Ignored => {
                unreachable!("the kind of the line is known")
            }
        }
        if byte != b'\n' {
            self.line.column = after(self.line.column, byte);
            self.line.marks_ruled_out = self.line.marks_ruled_out.saturating_sub(1);
        }
    }

    fn blank(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        // Containers are matched at the first byte that is not blank: a blank line continues others than a line with
        // text.
        match byte {
            b' ' | b'\t' => {}
            b'\n' => self.blank_line(decided, out),
            _ => self.block(byte, decided, out),
        }
    }

    fn quoted(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        self.line.phase = LinePhase::Blank;
        self.line.held_column = self.line.column;
        self.line.base = self.line.column;
        // 5.1: the marker includes one blank after it. Of a tab it is one column (2.2); the others indent the content.
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

    /// Ends a blank line.
    fn blank_line(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        if !self.line.has_new_container {
            self.match_blank();
        }
        let all = self.line.matched_containers == self.containers.len();
        // 4.4, 4.5: blank lines within a code block belong to it. Those at the end of an indented block do not, so they
        // wait for the next line of code. A blank line ends a paragraph (4.8).
        match self.leaf {
            LeafBlock::Fenced(fence) if all => return self.blank_code(fence, decided, out),
            LeafBlock::Indented if all => return self.hold_blank(decided, out),
            _ => {}
        }
        self.close_unmatched(decided, out);
        self.release_text(decided, out);
        self.line.clear();
    }

    /// Matches the containers that a blank line continues: every item that is not empty, and no quote.
    #[inline]
    fn match_blank(&mut self) {
        // 5.2: an item that begins with a blank line ends at a second one.
        while let Some(Container::Item {
            width,
            empty: false,
        }) = self.containers.get(self.line.matched_containers)
        {
            self.line.base += (*width).min(self.line.indent());
            self.line.matched_containers += 1;
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
        let BlankLines { held, lines } = &mut self.blanks;
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

    /// Handles the first byte that is not blank after the markers so far.
    fn block(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        if !self.line.has_new_container && self.match_containers(byte) {
            return self.open_quote();
        }
        let all = self.line.matched_containers == self.containers.len();
        let indented = self.line.indent() >= 4;
        match self.leaf {
            // 4.5: a closing fence is indented by less than four columns. All other lines in the block are code.
            LeafBlock::Fenced(fence) if all && !indented && byte == fence.mark => {
                self.line.phase = LinePhase::Closing {
                    len: 1,
                    has_trailing_blank: false,
                };
            }
            LeafBlock::Fenced(_) if all => self.code_line(decided, out),
            LeafBlock::Indented if all && indented => self.code_line(decided, out),
            // 4.4: indented code does not interrupt a paragraph. Without all containers the line is lazy (5.1).
            LeafBlock::Paragraph if indented => self.prose(decided, out),
            LeafBlock::Paragraph => self.begin(byte, decided, out),
            _ => {
                self.close_unmatched(decided, out);
                if indented {
                    out.cut(decided);
                    self.leaf = LeafBlock::Indented;
                    self.code_line(decided, out);
                } else {
                    self.begin(byte, decided, out);
                }
            }
        }
    }

    /// Matches the containers that the line continues. Returns true if `byte` is the marker of one.
    fn match_containers(&mut self, byte: u8) -> bool {
        while let Some(container) = self.containers.get_mut(self.line.matched_containers) {
            let indent = self.line.column.saturating_sub(self.line.base);
            match container {
                Container::Quote if indent < 4 && byte == b'>' => return true,
                // 5.2: the content of an item is indented by the width of its marker and of the blanks after it.
                Container::Item { width, empty } if indent >= *width => {
                    *empty = false;
                    self.line.base += *width;
                }
                _ => return false,
            }
            self.line.matched_containers += 1;
        }
        false
    }

    /// Enters a quote after its marker; the quote continues or is new.
    #[inline]
    fn open_quote(&mut self) {
        self.line.held.clear();
        self.line.matched_containers += 1;
        self.line.phase = LinePhase::Quoted;
    }

    /// Handles a byte that can start a block, indented by less than four columns.
    fn begin(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        let within = self.in_paragraph();
        let (column, at) = (self.line.column, self.line.here());
        // In a paragraph, containers stay open until the start of a block is certain: text would be a lazy continuation
        // line (5.1).
        self.line.phase = match byte {
            // 5.1: a quote needs no blank after its marker, and interrupts a paragraph.
            b'>' if self.may_nest() => {
                self.close_unmatched(decided, out);
                self.open_container(Container::Quote);
                return self.open_quote();
            }
            b'#' => LinePhase::Hashes(1),
            b'`' | b'~' => LinePhase::FenceRun { mark: byte, len: 1 },
            // 4.1: a thematic break takes precedence over a list item.
            b'-' | b'*' | b'_' if self.line.marks_ruled_out == 0 => {
                LinePhase::ThematicBreak(ThematicBreak {
                    mark: byte,
                    count: 1,
                    has_trailing_blank: false,
                    has_inner_blank: false,
                    column,
                    at,
                })
            }
            b'-' | b'*' | b'+' => self.item(true),
            // 4.3: an underline is no lazy continuation line, so it needs all containers.
            b'=' if within => LinePhase::Underline {
                has_trailing_blank: false,
            },
            b'0'..=b'9' => LinePhase::Digits {
                count: 1,
                value: u32::from(byte - b'0'),
            },
            _ => return self.prose(decided, out),
        };
    }

    /// Returns true if the line so far continues the paragraph, other than lazily.
    #[inline]
    fn in_paragraph(&self) -> bool {
        self.leaf == LeafBlock::Paragraph && self.line.matched_containers == self.containers.len()
    }

    /// Returns true if another container can be opened here.
    #[inline]
    fn may_nest(&self) -> bool {
        self.line.matched_containers < self.depth
    }

    #[inline]
    fn item(&self, interrupts: bool) -> LinePhase {
        LinePhase::Marker(ListMarker {
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
            // 5.2: at most nine digits.
            b'0'..=b'9' if count < 9 => {
                self.line.phase = LinePhase::Digits {
                    count: count + 1,
                    value: value * 10 + u32::from(byte - b'0'),
                };
            }
            // 5.2: only a list that starts with 1 interrupts a paragraph.
            b'.' | b')' => self.line.phase = self.item(value == 1),
            _ => self.prose(decided, out),
        }
    }

    fn marker(
        &mut self,
        marker: ListMarker,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        // 5.2: an empty item does not interrupt a paragraph either.
        let barred = self.in_paragraph() && (!marker.interrupts || byte == b'\n');
        match byte {
            b' ' | b'\t' | b'\n' if !barred && self.may_nest() => {
                self.line.phase = LinePhase::AfterMarker(marker);
                if byte == b'\n' {
                    self.after_marker(marker, byte, decided, out);
                }
            }
            _ => self.prose(decided, out),
        }
    }

    fn after_marker(
        &mut self,
        marker: ListMarker,
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
                // 5.2: with five blanks or more, only the first is of the marker: the item begins with indented code.
                let blanks = if blanks > 4 { 1 } else { blanks };
                self.open_item(marker, blanks, false, decided, out);
                self.blank(byte, decided, out);
            }
        }
    }

    fn open_item(
        &mut self,
        marker: ListMarker,
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
        self.line.matched_containers += 1;
        self.line.phase = LinePhase::Blank;
    }

    #[inline]
    fn open_container(&mut self, container: Container) {
        self.containers.push(container);
        self.line.has_new_container = true;
    }

    fn hashes(
        &mut self,
        count: usize,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        match byte {
            // 4.2: one to six marks, then a blank or the end of the line. A heading interrupts a paragraph.
            b'#' if count < 6 => self.line.phase = LinePhase::Hashes(count + 1),
            b' ' | b'\t' | b'\n' => {
                self.close_unmatched(decided, out);
                self.line.phase = LinePhase::AfterHashes;
                self.after_hashes(byte, decided, out);
            }
            _ => self.prose(decided, out),
        }
    }

    fn after_hashes(&mut self, byte: u8, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        match byte {
            // The marks and the blanks after them are not content (4.2), and no region contains them.
            b' ' | b'\t' => self.line.held.clear(),
            b'\n' => {
                self.keep_line_ending();
                self.release_text(decided, out);
                self.line.clear();
            }
            _ => {
                let tags = heading(self.tags());
                self.feed_spans(tags, decided, out);
                self.rest(LinePhase::Heading);
            }
        }
    }

    /// Drops the buffer except for the line ending.
    #[inline]
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
        let is_mark = byte == rule.mark;
        if continues_break(rule, byte) {
            self.line.column = after(self.line.column, byte);
            self.line.phase = LinePhase::ThematicBreak(ThematicBreak {
                count: rule.count + usize::from(is_mark),
                has_trailing_blank: rule.has_trailing_blank || !is_mark,
                has_inner_blank: rule.has_inner_blank || (is_mark && rule.has_trailing_blank),
                ..rule
            });
            return;
        }
        // 4.3: the marks of an underline are not separated by blanks. One is enough; a thematic break has three (4.1).
        let underlines = rule.mark == b'-' && !rule.has_inner_blank && self.in_paragraph();
        if byte == b'\n' && (rule.count >= 3 || underlines) {
            self.close_unmatched(decided, out);
            self.release_text(decided, out);
            self.line.clear();
        } else {
            self.reread(rule, byte, decided, out);
        }
    }

    /// Reads a line again that is not a thematic break.
    fn reread(
        &mut self,
        rule: ThematicBreak,
        last: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let replay = std::mem::take(&mut self.line.held);
        self.line.held = std::mem::take(&mut self.line.replay);
        for chunk in replay.chunks(0..rule.at) {
            self.line.held.push(chunk);
        }
        let marks = replay.bytes()[rule.at..].iter();
        self.line.marks_ruled_out = marks
            .take_while(|&&mark| continues_break(rule, mark))
            .count();
        self.line.column = rule.column;
        self.line.phase = LinePhase::Blank;
        for at in rule.at..replay.bytes().len() {
            let mut byte = replay.chunks(at..at + 1);
            let byte = byte.next().expect("it waits").decided_no_earlier(decided);
            self.read_again(byte, last, decided, out);
        }
        let text_ends = last == b'\n' && replay.bytes().last() != Some(&b'\n');
        if text_ends && !self.is_known() {
            self.step(last, decided, out);
        }
        self.line.replay = replay;
        self.line.replay.clear();
    }

    /// Reads a byte again. `last` is the byte that ended the marks, the only other byte that is read again.
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
        has_trailing_blank: bool,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        match byte {
            // 4.3: blanks may follow the marks, but not separate them.
            b'=' if !has_trailing_blank => {}
            b' ' | b'\t' => {
                self.line.phase = LinePhase::Underline {
                    has_trailing_blank: true,
                }
            }
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
            self.line.phase = LinePhase::FenceRun { mark, len: len + 1 };
        } else if len < 3 {
            // 4.5: a fence has at least three marks. A shorter run may begin a code span.
            self.prose(decided, out);
        } else {
            self.line.phase = LinePhase::Opening { mark, len };
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
            // 4.5: the info string of a fence of backticks has none, or a code span in one line would be a fence.
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
        self.leaf = LeafBlock::Fenced(Fence {
            mark,
            len,
            indent: column - self.line.base,
            language: language(&bytes[blanks + len..]),
        });
    }

    fn closing(
        &mut self,
        len: usize,
        has_trailing_blank: bool,
        byte: u8,
        decided: u64,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let LeafBlock::Fenced(fence) = self.leaf else {
            unreachable!("only a fence is closed")
        };
        // 4.5: a closing fence is at least as long as the opening one, and only blanks follow it.
        let long = len >= fence.len;
        match byte {
            _ if byte == fence.mark && !has_trailing_blank => {
                self.line.phase = LinePhase::Closing {
                    len: len + 1,
                    has_trailing_blank,
                };
            }
            b' ' | b'\t' if long => {
                self.line.phase = LinePhase::Closing {
                    len,
                    has_trailing_blank: true,
                }
            }
            b'\n' if long => {
                self.end_leaf(decided, out);
                self.line.clear();
            }
            _ => self.code_line(decided, out),
        }
    }

    /// Emits the line as code, without the indentation of the block. The line may already be complete.
    fn code_line(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        let indent = match self.leaf {
            LeafBlock::Fenced(fence) => fence.indent,
            _ => 4,
        };
        self.blanks.release(self.code(), decided, out);
        let strip = self.line.base + indent;
        self.release_code(strip, decided, out);
        self.rest(LinePhase::Code);
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

    /// Passes the line to the code spans as text of the open paragraph or of a new one. The line may already be
    /// complete.
    fn prose(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        // In a paragraph nothing is closed: without all containers, this is a lazy continuation line (5.1, 5.2).
        if self.leaf != LeafBlock::Paragraph {
            self.close_unmatched(decided, out);
            self.leaf = LeafBlock::Paragraph;
        }
        self.feed_spans(self.tags(), decided, out);
        self.rest(LinePhase::Prose);
    }

    /// Enters the phase for the rest of the line, or starts the next line if the buffer ended this one.
    #[inline]
    fn rest(&mut self, phase: LinePhase) {
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
            self.spans
                .push(chunk.decided_no_earlier(decided), tags, out);
        }
    }

    fn release_text(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        let all = 0..self.line.held.bytes().len();
        out.emit_all(self.text(), self.line.held.chunks(all), decided);
    }

    /// Closes the leaf block and the containers that the line does not continue.
    fn close_unmatched(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        self.end_leaf(decided, out);
        self.containers.truncate(self.line.matched_containers);
    }
}

/// Returns true if `byte` continues the run of marks and blanks.
#[inline]
fn continues_break(rule: ThematicBreak, byte: u8) -> bool {
    byte == rule.mark || matches!(byte, b' ' | b'\t')
}

/// Returns the language that an info string names.
#[inline]
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
    /// Returns the number of buffered bytes.
    #[inline]
    pub(super) fn buffered_len(&self) -> usize {
        self.held.bytes().len()
    }
}
