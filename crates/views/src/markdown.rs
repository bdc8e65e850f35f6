//! Regions of Markdown: splits text into prose and code as it arrives.
//!
//! This module implements the part of CommonMark that separates code from prose, line by line. It knows no rule and
//! does not interpret the text.
//!
//! # Regions
//!
//! - `code`: the lines of a fenced or an indented code block, with their line endings. Fences, info strings and the
//!   indentation that Markdown removes have no region. The language of a fenced block is the first word of its info
//!   string, in lower case: up to the first blank or one of `,:;{}`, after any leading `{` or `.`. Each block is a
//!   haystack of its own.
//! - `inline-code`: the text between two backtick runs of equal length in one paragraph or heading, as written. The
//!   backticks have no region.
//! - `heading`: the text of a heading that starts with `#`: everything after the `#`s and the blanks that follow them,
//!   up to the end of the line. The opening `#`s have no region. A setext heading (underlined) is only prose, because
//!   the underline arrives too late.
//! - `prose`: everything else, and the text of headings: paragraphs, list markers, tables, thematic breaks, blank
//!   lines. Code and inline code are not prose and end a run of it; the end of a paragraph does not.
//! - `quote`: in addition to one of the others, for text in a block quote, including lazy continuation lines and line
//!   endings. The marker `>`, the blanks before it and one space after it have no region.
//!
//! # Differences from CommonMark
//!
//! - HTML, autolinks, link destinations and link reference definitions are read like any other text: a fence between
//!   HTML tags is a fence, and backticks in a link destination can be inline code.
//! - A carriage return ends a line only before a line feed, and remains part of the line.
//! - Bounds: containers (quotes and list items) nest up to [`DEPTH`]; the start of a line is text if [`HELD`] bytes of
//!   it do not determine its kind; a backtick run is text if no run of equal length is complete within [`HELD`] bytes;
//!   blank lines of more than [`HELD`] bytes end an indented block.
//!
//! # Buffering
//!
//! Three buffers hold text, each up to [`HELD`] bytes. All other text is emitted as it arrives.
//!
//! 1. The start of a line: leading blanks, and a line that can still be a fence, a thematic break or an underline.
//! 2. Text after a backtick run that can open inline code, until it is closed or the paragraph ends.
//! 3. Blank lines after indented code, which are code if more code follows.

mod line;
mod span;
mod verbatim;

use memchr::{memchr, memchr2};

use super::chunk::{
    Chunk, ChunkBuffer, ChunkSink, DecidedOffset, Language, OffsetMap, RegionSet, Tag,
};
use line::{LinePhase, LineState};
use span::{CodeSpans, SpanTags};
pub use verbatim::{VerbatimEmission, VerbatimState};

/// The most bytes that are buffered of the start of a line, of inline code, and of blank lines in indented code, each.
pub const HELD: usize = 4096;

/// The most nested quotes and list items.
pub const DEPTH: usize = 64;

/// The view of Markdown text.
#[derive(Clone, Debug)]
pub struct MarkdownView {
    /// The open quotes and list items, outermost first.
    containers: Vec<Container>,
    /// The leaf block that is open in the innermost container.
    leaf: LeafBlock,
    line: LineState,
    spans: CodeSpans,
    blanks: BlankLines,
    last: LastEmitted,
    held: usize,
    depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Quote,
    /// A list item; its lines are indented by `width` columns.
    Item {
        width: usize,
        empty: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeafBlock {
    None,
    Paragraph,
    Fenced(Fence),
    Indented,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence {
    mark: u8,
    len: usize,
    indent: usize,
    language: Option<Language>,
}

/// Blank lines that are code if more code follows.
#[derive(Clone, Debug, Default)]
struct BlankLines {
    held: ChunkBuffer,
    lines: Vec<Indentation>,
}

/// The blanks at the start of a line, some of which Markdown removes.
#[derive(Clone, Copy, Debug, Default)]
struct Indentation {
    /// The index in the buffer at which they start.
    at: usize,
    /// The column in which they start.
    column: usize,
    /// The column up to which they are removed.
    strip: usize,
}

/// The state of the output.
#[derive(Clone, Copy, Debug, Default)]
struct LastEmitted {
    tag: Option<Tag>,
    end: u64,
    /// True if a chunk has been emitted since the last cut.
    open: bool,
}

impl Default for MarkdownView {
    fn default() -> MarkdownView {
        MarkdownView::new()
    }
}

impl MarkdownView {
    /// Creates a view of one part, with the limits [`HELD`] and [`DEPTH`].
    pub fn new() -> MarkdownView {
        MarkdownView::with_limits(HELD, DEPTH)
    }

    /// Creates a view with limits: `held` bytes in each buffer, and `depth` containers.
    pub fn with_limits(held: usize, depth: usize) -> MarkdownView {
        MarkdownView {
            containers: Vec::new(),
            leaf: LeafBlock::None,
            line: LineState::default(),
            spans: CodeSpans::new(held),
            blanks: BlankLines::default(),
            last: LastEmitted::default(),
            held,
            depth,
        }
    }

    /// Consumes the next chunk of the text.
    ///
    /// # Complexity
    /// Linear in the text, whatever it contains and however it is cut.
    pub fn push(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        let mut last = self.last;
        let mut out = MarkdownEmitter {
            sink,
            last: &mut last,
        };
        let mut rest = chunk;
        // The fast path: most deltas are a few words of a paragraph.
        if self.line.phase == LinePhase::Prose && self.spans.is_idle() {
            let plain = memchr2(b'\n', b'`', rest.bytes).unwrap_or(rest.bytes.len());
            self.spans.advance(&rest.bytes[..plain]);
            out.emit(self.text(), rest.slice(0..plain));
            rest = rest.slice(plain..rest.bytes.len());
        }
        while !rest.bytes.is_empty() {
            let used = match self.line.phase {
                LinePhase::Prose | LinePhase::Heading | LinePhase::Code | LinePhase::Ignored => {
                    self.flow(rest, &mut out)
                }
                _ => self.head(rest, &mut out),
            };
            rest = rest.slice(used..rest.bytes.len());
        }
        self.last = last;
    }

    /// Ends the text at `end`: emits the buffers and resets the state.
    pub fn cut(&mut self, end: DecidedOffset, sink: &mut impl ChunkSink) {
        let mut last = self.last;
        let mut out = MarkdownEmitter {
            sink,
            last: &mut last,
        };
        self.end_line(end.decided, &mut out);
        self.end_leaf(end.decided, &mut out);
        self.containers.clear();
        self.line.clear();
        self.last = LastEmitted::default();
        sink.cut(end);
    }

    /// Consumes the rest of a line whose kind is known.
    fn flow(&mut self, rest: Chunk<'_>, out: &mut MarkdownEmitter<impl ChunkSink>) -> usize {
        let feed = memchr(b'\n', rest.bytes);
        let len = feed.map_or(rest.bytes.len(), |at| at + 1);
        let chunk = rest.slice(0..len);
        match self.line.phase {
            LinePhase::Prose => self.spans.push(chunk, self.tags(), out),
            LinePhase::Heading => self.heading(chunk, feed, out),
            LinePhase::Code => out.emit(self.code(), chunk),
            _ => {}
        }
        if feed.is_some() {
            self.line.clear();
        }
        len
    }

    fn heading(
        &mut self,
        chunk: Chunk<'_>,
        feed: Option<usize>,
        out: &mut MarkdownEmitter<impl ChunkSink>,
    ) {
        let text = feed.unwrap_or(chunk.bytes.len());
        let tags = heading(self.tags());
        self.spans.push(chunk.slice(0..text), tags, out);
        if feed.is_some() {
            let decided = chunk.decided(text);
            self.spans.finish(decided, tags, out);
            out.emit(self.text(), chunk.slice(text..text + 1));
        }
    }

    /// Ends the open leaf block and emits its buffer.
    fn end_leaf(&mut self, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        let leaf = std::mem::replace(&mut self.leaf, LeafBlock::None);
        match leaf {
            LeafBlock::None => {}
            LeafBlock::Paragraph => self.spans.finish(decided, self.tags(), out),
            LeafBlock::Fenced(_) => out.cut(decided),
            LeafBlock::Indented => {
                out.cut(decided);
                let all = 0..self.blanks.held.bytes().len();
                out.emit_all(self.text(), self.blanks.held.chunks(all), decided);
                self.blanks.clear();
            }
        }
    }

    #[inline]
    fn text(&self) -> Tag {
        self.tag(RegionSet::PROSE)
    }

    #[inline]
    fn tags(&self) -> SpanTags {
        SpanTags {
            text: self.text(),
            code: self.tag(RegionSet::INLINE_CODE),
        }
    }

    #[inline]
    fn code(&self) -> Tag {
        let language = match self.leaf {
            LeafBlock::Fenced(fence) => fence.language,
            _ => None,
        };
        Tag {
            language,
            ..self.tag(RegionSet::CODE)
        }
    }

    fn tag(&self, regions: RegionSet) -> Tag {
        let quoted = self.containers.contains(&Container::Quote);
        Tag {
            regions: if quoted {
                regions | RegionSet::QUOTE
            } else {
                regions
            },
            ..Tag::default()
        }
    }
}

/// Returns the same tags, in a heading.
#[inline]
fn heading(tags: SpanTags) -> SpanTags {
    let within = |tag: Tag| Tag {
        regions: tag.regions | RegionSet::HEADING,
        ..tag
    };
    SpanTags {
        text: within(tags.text),
        code: within(tags.code),
    }
}

impl BlankLines {
    /// Emits the lines as code.
    fn release(&mut self, tag: Tag, decided: u64, out: &mut MarkdownEmitter<impl ChunkSink>) {
        let ends = self.lines.iter().skip(1).map(|line| line.at);
        let ends = ends.chain([self.held.bytes().len()]);
        for (&line, end) in self.lines.iter().zip(ends) {
            out.indented(tag, &self.held, line, end, decided);
        }
        self.clear();
    }

    #[inline]
    fn clear(&mut self) {
        self.held.clear();
        self.lines.clear();
    }
}

/// The sink of text that was emitted already.
struct Unemitted;

impl ChunkSink for Unemitted {
    fn set_tag(&mut self, tag: Tag, _: DecidedOffset) {
        let is_prose = tag.regions.contains(RegionSet::PROSE);
        debug_assert!(is_prose, "text that passes begins the region {tag:?}");
    }

    fn push(&mut self, _: Chunk<'_>) {}

    fn cut(&mut self, _: DecidedOffset) {
        debug_assert!(false, "text that passes ends a region");
    }
}

/// Calls the sink, and sets a tag only if it changes.
#[derive(Debug)]
struct MarkdownEmitter<'a, S> {
    sink: &'a mut S,
    last: &'a mut LastEmitted,
}

impl<S: ChunkSink> MarkdownEmitter<'_, S> {
    fn emit(&mut self, tag: Tag, chunk: Chunk<'_>) {
        if chunk.bytes.is_empty() {
            return;
        }
        if self.last.tag != Some(tag) {
            self.sink.set_tag(tag, chunk.decided_start(0));
        }
        *self.last = LastEmitted {
            tag: Some(tag),
            end: chunk.end(chunk.bytes.len() - 1),
            open: true,
        };
        self.sink.push(chunk);
    }

    /// Emits buffered chunks, certain at `decided`.
    fn emit_all<'a>(&mut self, tag: Tag, chunks: impl Iterator<Item = Chunk<'a>>, decided: u64) {
        for chunk in chunks {
            self.emit(tag, chunk.decided_no_earlier(decided));
        }
    }

    /// Emits the buffer up to `end` as a line of code without its indentation. A tab that is removed in part leaves
    /// spaces.
    fn indented(
        &mut self,
        tag: Tag,
        held: &ChunkBuffer,
        from: Indentation,
        end: usize,
        decided: u64,
    ) {
        let (mut at, mut column) = (from.at, from.column);
        while let Some(&blank) = held.bytes()[at..end].first() {
            let next = after(column, blank);
            if column >= from.strip || !matches!(blank, b' ' | b'\t') {
                break;
            }
            if next > from.strip {
                let mut tab = held.chunks(at..at + 1);
                let tab_chunk = tab
                    .next()
                    .expect("the byte is there")
                    .decided_no_earlier(decided);
                let left = Chunk {
                    bytes: &b"   "[..next - from.strip],
                    offsets: OffsetMap::Replacement {
                        start: tab_chunk.start(0),
                        end: tab_chunk.end(0),
                    },
                    decided: tab_chunk.decided(0),
                };
                self.emit(tag, left);
            }
            (at, column) = (at + 1, next);
        }
        self.emit_all(tag, held.chunks(at..end), decided);
    }

    /// Ends the haystacks, if a chunk has been emitted since the last cut.
    #[inline]
    fn cut(&mut self, decided: u64) {
        if self.last.open {
            self.sink.cut(DecidedOffset {
                offset: self.last.end,
                decided: decided.max(self.last.end),
            });
            self.last.open = false;
        }
    }
}

/// Returns the column after `byte` in `column`.
#[inline]
fn after(column: usize, byte: u8) -> usize {
    match byte {
        b'\t' => (column / 4 + 1) * 4,
        _ => column + 1,
    }
}

#[cfg(test)]
mod tests;
