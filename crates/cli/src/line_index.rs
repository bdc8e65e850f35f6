//! Converts offsets to lines and columns in a file that is read block by block.

use serde::Serialize;

/// A position in a text. Line and column count from 1; a line ends with a line feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LineColumn {
    pub(crate) line: u64,
    /// In characters.
    pub(crate) column: u64,
    /// In UTF-16 code units.
    pub(crate) column_utf16: u64,
}

/// Computes the positions of a fixed set of offsets in one pass over the file. Bytes after the last offset are not
/// examined.
#[derive(Debug)]
pub(crate) struct LineIndex {
    /// The requested offsets, ascending.
    offsets: Vec<u64>,
    /// The positions of the offsets reached so far, in the same order.
    found: Vec<LineColumn>,
    /// Number of bytes read.
    at: u64,
    here: LineColumn,
}

impl LineIndex {
    pub(crate) fn new(mut offsets: Vec<u64>) -> LineIndex {
        offsets.sort_unstable();
        offsets.dedup();
        LineIndex {
            offsets,
            found: Vec::new(),
            at: 0,
            here: LineColumn {
                line: 1,
                column: 1,
                column_utf16: 1,
            },
        }
    }

    /// Returns true if every offset has been reached, so that no more bytes are needed.
    pub(crate) fn is_done(&self) -> bool {
        self.found.len() == self.offsets.len()
    }

    /// Reads the next bytes of the file.
    pub(crate) fn push(&mut self, block: &[u8]) {
        let mut rest = block;
        while let Some(&offset) = self.offsets.get(self.found.len()) {
            let ahead = usize::try_from(offset - self.at).unwrap_or(usize::MAX);
            let Some((passed, left)) = rest.split_at_checked(ahead) else {
                break;
            };
            self.pass(passed);
            self.found.push(self.here);
            rest = left;
        }
        self.pass(rest);
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.at += bytes.len() as u64;
        let line = match memchr::memrchr(b'\n', bytes) {
            None => bytes,
            Some(last) => {
                self.here.line += memchr::memchr_iter(b'\n', bytes).count() as u64;
                (self.here.column, self.here.column_utf16) = (1, 1);
                &bytes[last + 1..]
            }
        };
        for byte in line {
            // A character counts at its first byte; a character of four bytes is two code units.
            let starts = u64::from(byte & 0xC0 != 0x80);
            self.here.column += starts;
            self.here.column_utf16 += starts + u64::from(*byte >= 0xF0);
        }
    }

    /// Returns the position of a requested offset, or the end of the file if the offset lies after it.
    pub(crate) fn position(&self, offset: u64) -> LineColumn {
        let found = self.offsets.binary_search(&offset).ok();
        let found = found.and_then(|index| self.found.get(index));
        found.copied().unwrap_or(self.here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(text: &str, block: usize, offsets: &[u64]) -> Vec<(u64, u64, u64)> {
        let mut locator = LineIndex::new(offsets.to_vec());
        text.as_bytes()
            .chunks(block)
            .for_each(|block| locator.push(block));
        let position = |offset: &u64| {
            let LineColumn {
                line,
                column,
                column_utf16,
            } = locator.position(*offset);
            (line, column, column_utf16)
        };
        offsets.iter().map(position).collect()
    }

    #[test]
    fn columns_count_characters_and_utf16_code_units() {
        let text = "aé\n😀x\r\ny";
        for block in [1, 2, 3, 100] {
            assert_eq!(
                positions(text, block, &[0, 1, 3, 4, 8, 9, 11, 12, 99]),
                [
                    (1, 1, 1),
                    (1, 2, 2),
                    (1, 3, 3),
                    (2, 1, 1),
                    (2, 2, 3),
                    (2, 3, 4),
                    (3, 1, 1),
                    (3, 2, 2),
                    (3, 2, 2),
                ],
                "blocks of {block}"
            );
        }
    }

    #[test]
    fn offsets_may_be_asked_for_in_any_order_and_twice() {
        assert_eq!(
            positions("ab\ncd", 2, &[4, 0, 4]),
            [(2, 2, 2), (1, 1, 1), (2, 2, 2)]
        );
        assert!(LineIndex::new(Vec::new()).is_done());
    }
}
