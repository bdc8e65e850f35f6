//! Text that the view emits unchanged, or without the marks of headings, recognized without the view.
//!
//! A caller that knows that the view would emit a text as it is need not push it. [`VerbatimState`] is an automaton over
//! such text. It knows less than the view and never more: it has no transition wherever a region other than a heading could
//! begin or end, or wherever that would depend on containers that it does not track.
//!
//! A heading is prose without the marks at its start. So a caller that does not distinguish headings from other prose can
//! step them, too: [`VerbatimState::emits`] tells which bytes the view emits.

use std::ops::Range;

use memchr::{memchr_iter, memrchr, memrchr_iter};

use super::super::chunk::Chunk;
use super::line::{LinePhase, starts_only_paragraph};
use super::{Container, LeafBlock, MarkdownEmitter, MarkdownView, Unemitted, heading};

/// A state of the text that a [view](MarkdownView) emits unchanged but for the marks of headings, see
/// [`MarkdownView::verbatim_state`].
///
/// In a [settled](Self::is_settled) state the view has emitted all text. In the others it buffers the text after the last
/// line feed.
// A line start needs few states because its outcome does not matter, as long as all outcomes are prose: `- a` is an item
// or a continuation line, and both are emitted as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerbatimState {
    /// Within a line of a quote, until it ends. It may be a heading.
    Quoted,
    /// Within the text of a heading outside of quotes.
    Heading,
    /// Within a line of code, until it ends.
    LastCode,
    /// Within a line of code of a fenced block that is in no container and not indented.
    Code,
    /// At the start of such a line.
    CodeStart,
    /// After blanks at the start of such a line.
    CodeIndent,
    /// Within a line of a paragraph outside of quotes.
    Paragraph,
    /// At the start of a line after such a line.
    LineStart,
    /// After blanks at the start of a line after such a line.
    Indent,
    /// At the start of a line after a blank line.
    BlockStart,
    /// After one blank at the start of a line after a blank line.
    BlockIndent1,
    /// After two blanks there.
    BlockIndent2,
    /// After three blanks there. With a fourth the line may be indented code.
    BlockIndent3,
    /// After `#` at the start of a line.
    Hash1,
    /// After two of them.
    Hash2,
    /// After three.
    Hash3,
    /// After four.
    Hash4,
    /// After five.
    Hash5,
    /// After six.
    Hash6,
    /// After these and blanks: what follows is the text of a heading.
    AfterHashes,
    /// After `-` at the start of a line.
    Dash1,
    /// After two of them.
    Dash2,
    /// After at least three, which are a thematic break or an underline if the line ends.
    Dashes,
    /// After other marks at the start of a line: of a list item, of a thematic break or of emphasis.
    Marks,
    /// After digits at the start of a line.
    Digits,
    /// After what can be the marker of a list item and nothing else.
    Marker,
    /// After such a marker, or after marks, and one blank.
    AfterMarker,
    /// After such a marker, or after marks, and two blanks.
    AfterMarker2,
    /// With three blanks.
    AfterMarker3,
    /// With four blanks. With a fifth the content of an item may be indented code.
    AfterMarker4,
}

impl VerbatimState {
    /// The state at the start of a part, in which the first text is prose.
    pub const START: VerbatimState = VerbatimState::BlockStart;

    /// The number of states.
    pub const COUNT: usize = 30;

    const ALL: [VerbatimState; VerbatimState::COUNT] = [
        VerbatimState::Quoted,
        VerbatimState::Heading,
        VerbatimState::LastCode,
        VerbatimState::Code,
        VerbatimState::CodeStart,
        VerbatimState::CodeIndent,
        VerbatimState::Paragraph,
        VerbatimState::LineStart,
        VerbatimState::Indent,
        VerbatimState::BlockStart,
        VerbatimState::BlockIndent1,
        VerbatimState::BlockIndent2,
        VerbatimState::BlockIndent3,
        VerbatimState::Hash1,
        VerbatimState::Hash2,
        VerbatimState::Hash3,
        VerbatimState::Hash4,
        VerbatimState::Hash5,
        VerbatimState::Hash6,
        VerbatimState::AfterHashes,
        VerbatimState::Dash1,
        VerbatimState::Dash2,
        VerbatimState::Dashes,
        VerbatimState::Marks,
        VerbatimState::Digits,
        VerbatimState::Marker,
        VerbatimState::AfterMarker,
        VerbatimState::AfterMarker2,
        VerbatimState::AfterMarker3,
        VerbatimState::AfterMarker4,
    ];

    /// Returns a number below [`COUNT`](Self::COUNT) for the state.
    pub fn index(self) -> u8 {
        self as u8
    }

    /// Returns the state with that [index](Self::index).
    pub fn from_index(index: u8) -> Option<VerbatimState> {
        VerbatimState::ALL.get(usize::from(index)).copied()
    }

    /// Returns true if the view has emitted all text, except for the marks of headings. Otherwise it buffers the text after
    /// the last line feed, and it emits that text as [`emits`](Self::emits) tells only if a settled state follows.
    pub fn is_settled(self) -> bool {
        match self {
            VerbatimState::Quoted
            | VerbatimState::Heading
            | VerbatimState::LastCode
            | VerbatimState::Code
            | VerbatimState::CodeStart
            | VerbatimState::Paragraph
            | VerbatimState::LineStart
            | VerbatimState::BlockStart => true,
            VerbatimState::CodeIndent
            | VerbatimState::Indent
            | VerbatimState::BlockIndent1
            | VerbatimState::BlockIndent2
            | VerbatimState::BlockIndent3
            | VerbatimState::Hash1
            | VerbatimState::Hash2
            | VerbatimState::Hash3
            | VerbatimState::Hash4
            | VerbatimState::Hash5
            | VerbatimState::Hash6
            | VerbatimState::AfterHashes
            | VerbatimState::Dash1
            | VerbatimState::Dash2
            | VerbatimState::Dashes
            | VerbatimState::Marks
            | VerbatimState::Digits
            | VerbatimState::Marker
            | VerbatimState::AfterMarker
            | VerbatimState::AfterMarker2
            | VerbatimState::AfterMarker3
            | VerbatimState::AfterMarker4 => false,
        }
    }

    /// Returns what the view emits at a byte that leads from this state to `after`.
    pub fn emits(self, after: VerbatimState) -> VerbatimEmission {
        match (self.hashes(), after.hashes()) {
            // The marks of a heading or of text: what follows them decides it.
            (_, Some(_)) => VerbatimEmission::Nothing,
            (Some(marks), None) if after == VerbatimState::Paragraph => {
                VerbatimEmission::MarksAndByte(marks)
            }
            _ => VerbatimEmission::Byte,
        }
    }

    /// Returns true if a heading may begin or end at a byte that leads from this state to `after`.
    pub fn changes_heading(self, after: VerbatimState) -> bool {
        let ends = self == VerbatimState::Heading && after != VerbatimState::Heading;
        ends || after.hashes().is_some()
    }

    /// Returns the ranges of a text that the view emits after the first `from` bytes. Some may be empty. The text leads from
    /// this state to a settled one; its first `from` bytes lead to a settled state or are whole lines.
    pub fn emitted(self, text: &[u8], from: usize) -> impl Iterator<Item = Range<usize>> + Clone {
        let mut markers = self.lines_of_hashes(text, from).filter_map(|start| {
            let end = start + heading_marker_len(&text[start..])?;
            Some(start..end)
        });
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let start = next?;
            let marker = markers.next();
            next = marker.as_ref().map(|marker| marker.end);
            Some(start..marker.map_or(text.len(), |marker| marker.start))
        })
    }

    /// Returns the indices from `from` at which lines outside of code begin with `#`.
    fn lines_of_hashes(self, text: &[u8], from: usize) -> impl Iterator<Item = usize> + Clone {
        let is_at_start = matches!(self, VerbatimState::LineStart | VerbatimState::BlockStart);
        let searched = match self.is_code() {
            true => &[],
            false => &text[from..],
        };
        let hashes = memchr_iter(b'#', searched).map(move |at| from + at);
        hashes.filter(move |&at| match at.checked_sub(1) {
            None => is_at_start,
            Some(before) => text[before] == b'\n',
        })
    }

    /// Returns true in a line of code. No other line follows.
    fn is_code(self) -> bool {
        matches!(
            self,
            VerbatimState::LastCode
                | VerbatimState::Code
                | VerbatimState::CodeStart
                | VerbatimState::CodeIndent
        )
    }

    /// Returns the number of `#` that the view buffers, if they are all that it buffers. 0 in the blanks after them, where it
    /// has dropped them.
    fn hashes(self) -> Option<usize> {
        match self {
            VerbatimState::AfterHashes => Some(0),
            VerbatimState::Hash1 => Some(1),
            VerbatimState::Hash2 => Some(2),
            VerbatimState::Hash3 => Some(3),
            VerbatimState::Hash4 => Some(4),
            VerbatimState::Hash5 => Some(5),
            VerbatimState::Hash6 => Some(6),
            _ => None,
        }
    }

    /// Returns the state after a byte, or `None` if a region may end or begin there. Of a character beyond ASCII the first
    /// byte is enough: it counts as text.
    pub fn after(self, byte: u8) -> Option<VerbatimState> {
        match self {
            VerbatimState::LastCode => (byte != b'\n').then_some(VerbatimState::LastCode),
            VerbatimState::Quoted => (!matches!(byte, b'\n' | b'`')).then_some(self),
            VerbatimState::Heading => match byte {
                b'\n' => Some(VerbatimState::BlockStart),
                b'`' => None,
                _ => Some(VerbatimState::Heading),
            },
            VerbatimState::Code => Some(match byte {
                b'\n' => VerbatimState::CodeStart,
                _ => VerbatimState::Code,
            }),
            VerbatimState::CodeStart | VerbatimState::CodeIndent => match byte {
                b'\n' => Some(VerbatimState::CodeStart),
                b' ' | b'\t' => Some(VerbatimState::CodeIndent),
                // The block may end here, or a line feed may follow the carriage return.
                b'`' | b'~' | b'\r' => None,
                _ => Some(VerbatimState::Code),
            },
            VerbatimState::Paragraph => match byte {
                b'\n' => Some(VerbatimState::LineStart),
                b'`' => None,
                _ => Some(VerbatimState::Paragraph),
            },
            _ => self.after_in_start(byte),
        }
    }

    /// Returns the state after a byte at the start of a line that is not code.
    fn after_in_start(self, byte: u8) -> Option<VerbatimState> {
        let is_marked = matches!(
            self,
            VerbatimState::Dash1
                | VerbatimState::Dash2
                | VerbatimState::Marks
                | VerbatimState::Marker
                | VerbatimState::AfterMarker
                | VerbatimState::AfterMarker2
                | VerbatimState::AfterMarker3
                | VerbatimState::AfterMarker4
        );
        match byte {
            b'`' | b'\r' => None,
            // A break, an underline or an empty item.
            b'\n' if is_marked => None,
            // Digits alone are text.
            b'\n' if self == VerbatimState::Digits => Some(VerbatimState::LineStart),
            b'\n' => Some(VerbatimState::BlockStart),
            b' ' | b'\t' => self.after_blank(byte),
            b'#' => match self {
                VerbatimState::LineStart | VerbatimState::BlockStart => Some(VerbatimState::Hash1),
                VerbatimState::Hash1 => Some(VerbatimState::Hash2),
                VerbatimState::Hash2 => Some(VerbatimState::Hash3),
                VerbatimState::Hash3 => Some(VerbatimState::Hash4),
                VerbatimState::Hash4 => Some(VerbatimState::Hash5),
                VerbatimState::Hash5 => Some(VerbatimState::Hash6),
                _ => self.after_text(byte),
            },
            b'-' => match self {
                VerbatimState::LineStart | VerbatimState::BlockStart => Some(VerbatimState::Dash1),
                VerbatimState::Dash1 => Some(VerbatimState::Dash2),
                VerbatimState::Dash2 | VerbatimState::Dashes => Some(VerbatimState::Dashes),
                _ => self.after_text(byte),
            },
            _ => self.after_text(byte),
        }
    }

    /// Returns the state after a byte that is no blank, no line feed and none of the marks that are counted.
    fn after_text(self, byte: u8) -> Option<VerbatimState> {
        Some(match self {
            VerbatimState::AfterHashes => VerbatimState::Heading,
            // Text after marks without a blank is text of a paragraph.
            VerbatimState::Dash1
            | VerbatimState::Dash2
            | VerbatimState::Dashes
            | VerbatimState::Marks => match byte {
                b'-' | b'*' | b'_' => VerbatimState::Marks,
                _ => VerbatimState::Paragraph,
            },
            VerbatimState::Digits => match byte {
                b'0'..=b'9' => VerbatimState::Digits,
                b'.' | b')' => VerbatimState::Marker,
                _ => VerbatimState::Paragraph,
            },
            VerbatimState::Marker => VerbatimState::Paragraph,
            _ if self.hashes().is_some() => VerbatimState::Paragraph,
            _ => return VerbatimState::after_indent(byte),
        })
    }

    fn after_blank(self, blank: u8) -> Option<VerbatimState> {
        match self {
            // A paragraph continues, however far the line is indented.
            VerbatimState::LineStart | VerbatimState::Indent => Some(VerbatimState::Indent),
            // Digits alone are no marker.
            VerbatimState::Digits => Some(VerbatimState::Paragraph),
            _ if self.hashes().is_some() => Some(VerbatimState::AfterHashes),
            // The content of an item may be indented code, and so may any block.
            _ if blank == b'\t' => None,
            VerbatimState::BlockStart => Some(VerbatimState::BlockIndent1),
            VerbatimState::BlockIndent1 => Some(VerbatimState::BlockIndent2),
            VerbatimState::BlockIndent2 => Some(VerbatimState::BlockIndent3),
            VerbatimState::Dash1
            | VerbatimState::Dash2
            | VerbatimState::Dashes
            | VerbatimState::Marks
            | VerbatimState::Marker => Some(VerbatimState::AfterMarker),
            VerbatimState::AfterMarker => Some(VerbatimState::AfterMarker2),
            VerbatimState::AfterMarker2 => Some(VerbatimState::AfterMarker3),
            VerbatimState::AfterMarker3 => Some(VerbatimState::AfterMarker4),
            _ => None,
        }
    }

    /// Returns the state after the first byte of a block that is no indented code.
    fn after_indent(byte: u8) -> Option<VerbatimState> {
        match byte {
            b'-' | b'*' | b'_' => Some(VerbatimState::Marks),
            b'+' => Some(VerbatimState::Marker),
            b'0'..=b'9' => Some(VerbatimState::Digits),
            _ => starts_only_paragraph(byte).then_some(VerbatimState::Paragraph),
        }
    }
}

/// The text that the view emits at a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerbatimEmission {
    /// The byte.
    Byte,
    /// Nothing, until a byte decides it.
    Nothing,
    /// As many `#` as it has buffered, and the byte.
    MarksAndByte(usize),
}

impl MarkdownView {
    /// Returns the state of text that the view emits unchanged, with the tag of the byte before. It is settled, and holds
    /// until [`VerbatimState::after`] returns `None`. `None` if the view buffers text or is about to change the tag.
    #[inline]
    pub fn verbatim_state(&self) -> Option<VerbatimState> {
        let is_quoted = || self.containers.contains(&Container::Quote);
        let (tag, state) = match self.line.phase {
            LinePhase::Code if self.is_in_plain_fence() => (self.code(), VerbatimState::Code),
            LinePhase::Code => (self.code(), VerbatimState::LastCode),
            LinePhase::Prose | LinePhase::Heading if !self.spans.is_idle() => return None,
            LinePhase::Heading => {
                let state = match is_quoted() {
                    true => VerbatimState::Quoted,
                    false => VerbatimState::Heading,
                };
                (heading(self.tags()).text, state)
            }
            LinePhase::Prose if is_quoted() => (self.text(), VerbatimState::Quoted),
            LinePhase::Prose => (self.text(), VerbatimState::Paragraph),
            LinePhase::Blank if self.line.is_fresh() && self.spans.is_idle() => match self.leaf {
                LeafBlock::Fenced(_) if self.is_in_plain_fence() => {
                    (self.code(), VerbatimState::CodeStart)
                }
                LeafBlock::Paragraph if !is_quoted() => (self.text(), VerbatimState::LineStart),
                LeafBlock::None if !is_quoted() => (self.text(), VerbatimState::BlockStart),
                _ => return None,
            },
            _ => return None,
        };
        (self.last.open && self.last.tag == Some(tag)).then_some(state)
    }

    /// Begins prose at the start of a part, before its first byte is known. Nothing is emitted, and no tag is told. Afterwards
    /// the view [advances](Self::advance) from [`VerbatimState::START`].
    pub fn begin_prose(&mut self) {
        self.last.tag = Some(self.text());
        self.last.open = true;
    }

    /// Moves over text on which [`VerbatimState::after`] has returned a state for each byte, and a settled one for the last.
    /// That byte ends at offset `end` of the part. Nothing is emitted, and no change of the tag is told: text may become that
    /// of a heading or of other prose.
    ///
    /// # Complexity
    /// Reads the lines from the last one that starts a block whatever precedes it. Those before it are only searched for
    /// line feeds.
    pub fn advance(&mut self, chunk: Chunk<'_>, end: u64) {
        match memrchr(b'\n', chunk.bytes) {
            None if self.line.phase == LinePhase::Code => {}
            None if matches!(self.line.phase, LinePhase::Prose | LinePhase::Heading) => {
                self.spans.advance(chunk.bytes);
            }
            // The text does not end the block, so all lines but the last are complete lines of it.
            Some(feed) if self.is_in_plain_fence() => {
                self.line.clear();
                self.push(chunk.slice(feed + 1..chunk.bytes.len()), &mut Unemitted);
            }
            _ => {
                let from = last_independent_line(chunk.bytes);
                if from.is_some() {
                    self.end_blocks();
                }
                let rest = chunk.slice(from.unwrap_or(0)..chunk.bytes.len());
                self.push(rest, &mut Unemitted);
            }
        }
        self.last.end = end;
    }

    /// Ends all blocks before a line that continues none of them. Nothing is buffered.
    fn end_blocks(&mut self) {
        let mut last = self.last;
        let mut out = MarkdownEmitter {
            sink: &mut Unemitted,
            last: &mut last,
        };
        self.end_leaf(0, &mut out);
        self.containers.clear();
        self.line.clear();
    }

    /// Returns true if the view is in a fenced block whose lines are emitted with their indentation.
    fn is_in_plain_fence(&self) -> bool {
        let is_indented = |leaf| match leaf {
            LeafBlock::Fenced(fence) => fence.indent > 0,
            _ => true,
        };
        self.containers.is_empty() && !is_indented(self.leaf)
    }
}

/// Returns the index of the last line that ends all blocks before it and starts one, whatever precedes it outside of fenced
/// blocks: an item of a bullet list, a heading, or any block after a blank line, none of which is indented.
// An ordered item is none of these: its number and the block before it decide whether it interrupts a paragraph (5.2). A
// thematic break without blanks needs no other line to be one.
fn last_independent_line(bytes: &[u8]) -> Option<usize> {
    memrchr_iter(b'\n', bytes)
        .map(|feed| feed + 1)
        .find(|&start| match bytes[start..] {
            [b'-' | b'*' | b'+', b' ', ..] => true,
            [b' ' | b'\n', ..] | [] => false,
            ref line => bytes[..start].ends_with(b"\n\n") || heading_marker_len(line).is_some(),
        })
}

/// Returns the number of bytes at the start of a line that mark a heading: up to six `#` and the blanks after them. `None` if
/// the line is no heading. At least one byte follows them.
fn heading_marker_len(line: &[u8]) -> Option<usize> {
    let hashes = line.iter().take_while(|&&byte| byte == b'#').count();
    let (1..=6, Some(b' ' | b'\t' | b'\n')) = (hashes, line.get(hashes)) else {
        return None;
    };
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    Some(hashes + line[hashes..].iter().take_while(is_blank).count())
}
