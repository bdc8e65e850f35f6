//! The text that `echo`, `printf` and lists of commands write.

use super::super::chunk::OffsetMap;
use super::super::shell::word::{AnsiEscape, EscapeStep};
use super::text::MappedText;

/// The operands of `echo` or `printf`.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenText {
    text: MappedText,
    /// The end of each operand in the text.
    ends: Vec<usize>,
    pub(super) form: TextForm,
    /// True if the text is the output of a command.
    pub(super) is_known: bool,
    /// True if the text contains expansions as written, or if something else may have been written.
    pub(super) has_gaps: bool,
}

/// The way in which a text is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TextForm {
    /// Joined by blanks, as by `echo`.
    #[default]
    Operands,
    /// The first operand is a format, as for `printf`.
    Format,
    /// As it is, without escapes.
    Raw,
}

/// The text that a list of commands writes to its standard output, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownOutput {
    pub(super) text: MappedText,
    /// True if a command may have written something else.
    pub(super) has_gaps: bool,
}

impl KnownOutput {
    /// Appends the output of a command, unless the text gets longer than `most` or comes from an earlier place of the part.
    pub(super) fn append(&mut self, text: &MappedText, has_gaps: bool, most: usize) {
        let follows = self.text.len() == 0 || self.text.source().end <= text.source().start;
        let fits = self.text.len() + text.len() <= most;
        self.has_gaps |= has_gaps || !follows || !fits;
        if follows && fits {
            self.text.append(text);
        }
    }
}

impl WrittenText {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.form = TextForm::Operands;
        (self.is_known, self.has_gaps) = (false, false);
    }

    /// Records that the text of the element is not known; `may_write` if it may not be empty.
    pub(super) fn set_unknown(&mut self, may_write: bool) {
        (self.is_known, self.has_gaps) = (false, may_write);
    }

    /// Replaces the text by one that is written as it is.
    pub(super) fn set_raw(&mut self, output: &KnownOutput) {
        self.clear();
        self.push(&output.text);
        (self.is_known, self.form) = (true, TextForm::Raw);
        self.has_gaps = output.has_gaps;
    }

    pub(super) fn push(&mut self, operand: &MappedText) {
        self.text.append(operand);
        self.ends.push(self.text.len());
    }

    fn operands(&self) -> impl Iterator<Item = MappedText> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let ranges = starts.zip(self.ends.iter().copied());
        ranges.map(|(from, to)| self.text.slice(from, to))
    }

    /// Returns the text that is written.
    pub(super) fn output(&self) -> MappedText {
        if self.form == TextForm::Raw {
            return self.text.clone();
        }
        let mut text = MappedText::default();
        let mut rest = self.operands();
        let format = match self.form {
            TextForm::Format => rest.next(),
            _ => None,
        };
        if let Some(format) = &format {
            write_format(format, &mut rest, &mut text);
        }
        for (index, operand) in rest.enumerate() {
            if index > 0 || format.is_some() {
                push_mark(b" ", &mut text);
            }
            text.append(&unescape(&operand));
        }
        if format.is_none() {
            push_mark(b"\n", &mut text);
        }
        text
    }
}

/// Appends bytes that no byte of the part stands for.
fn push_mark(bytes: &[u8], text: &mut MappedText) {
    let end = text.source().end;
    text.push(bytes, OffsetMap::Replacement { start: end, end });
}

/// Writes a format of `printf` whose `%s` the operands replace.
fn write_format(
    format: &MappedText,
    operands: &mut impl Iterator<Item = MappedText>,
    text: &mut MappedText,
) {
    let format = unescape(format);
    let mut percent = false;
    for chunk in format.chunks(0) {
        for index in 0..chunk.bytes.len() {
            let byte = chunk.slice(index..index + 1);
            match (std::mem::take(&mut percent), byte.bytes[0]) {
                (false, b'%') => percent = true,
                (true, b's' | b'b' | b'd') => {
                    if let Some(operand) = operands.next() {
                        text.append(&unescape(&operand));
                    }
                }
                (true, b'q') => {
                    if let Some(operand) = operands.next() {
                        write_quoted(&operand, text);
                    }
                }
                _ => text.push(byte.bytes, byte.offsets),
            }
        }
    }
}

/// Writes a text as a word that a shell reads as that text.
pub(super) fn write_quoted(operand: &MappedText, text: &mut MappedText) {
    let start = operand.chunks(0).next().map_or(0, |chunk| chunk.start(0));
    let mark = OffsetMap::Replacement { start, end: start };
    let mut end = start;
    text.push(b"'", mark);
    for chunk in operand.chunks(0) {
        for index in 0..chunk.bytes.len() {
            let byte = chunk.slice(index..index + 1);
            end = chunk.end(index);
            match byte.bytes {
                b"'" => text.push(b"'\\''", mark),
                _ => text.push(byte.bytes, byte.offsets),
            }
        }
    }
    // A word ends with its closing quote.
    text.push(b"'", OffsetMap::Replacement { start: end, end });
}

/// Decodes the escapes that `printf` and `echo -e` decode.
fn unescape(text: &MappedText) -> MappedText {
    if !text.bytes().contains(&b'\\') {
        return text.clone();
    }
    let mut decoded = MappedText::default();
    let mut escape: Option<AnsiEscape> = None;
    for chunk in text.chunks(0) {
        for index in 0..chunk.bytes.len() {
            let byte = chunk.bytes[index];
            let (start, end) = (chunk.start(index), chunk.end(index));
            let offsets = OffsetMap::Replacement { start, end };
            if let Some(state) = escape.take() {
                match state.next(byte) {
                    EscapeStep::More(state) => {
                        escape = Some(state);
                        continue;
                    }
                    EscapeStep::Done(utf8, len) => {
                        decoded.push(&utf8[..len], offsets);
                        continue;
                    }
                    EscapeStep::Before(utf8, len) => decoded.push(&utf8[..len], offsets),
                    EscapeStep::Nothing => {}
                }
            }
            match byte {
                b'\\' => escape = Some(AnsiEscape::default()),
                _ => decoded.push(&[byte], offsets),
            }
        }
    }
    if let Some((utf8, len)) = escape.and_then(AnsiEscape::end) {
        push_mark(&utf8[..len], &mut decoded);
    }
    decoded
}
