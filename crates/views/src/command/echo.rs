//! The text that `echo` and `printf` write.

use super::super::chunk::OffsetMap;
use super::super::shell::word::{AnsiEscape, EscapeStep};
use super::text::MappedText;

/// The operands of `echo` or `printf`.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenText {
    text: MappedText,
    /// The end of each operand in the text.
    ends: Vec<usize>,
    /// True if the first operand is a format.
    pub(super) is_format: bool,
    /// True if the text is the whole output of a command.
    pub(super) is_known: bool,
}

impl WrittenText {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        (self.is_format, self.is_known) = (false, false);
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
        let mut text = MappedText::default();
        let mut rest = self.operands();
        let format = if self.is_format { rest.next() } else { None };
        if let Some(format) = &format {
            write_format(format, &mut rest, &mut text);
        }
        for (index, operand) in rest.enumerate() {
            if index > 0 || format.is_some() {
                text.push(b" ", OffsetMap::Replacement { start: 0, end: 0 });
            }
            text.append(&unescape(&operand));
        }
        text
    }
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
        decoded.push(&utf8[..len], OffsetMap::Replacement { start: 0, end: 0 });
    }
    decoded
}
