//! Lines and columns of offsets in a file that is read block by block.

use serde::Serialize;

/// A place in a text; line and columns count from 1. Lines end with a line feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Position {
    pub(crate) line: u64,
    /// In characters.
    pub(crate) column: u64,
    /// In UTF-16 code units.
    pub(crate) column_utf16: u64,
}

/// Finds the positions of offsets, which are asked for in ascending order. Bytes behind the last offset are not
/// looked at.
#[derive(Debug)]
pub(crate) struct Locator {
    /// Ascending.
    offsets: Vec<u64>,
    /// Of the first offsets, as far as their bytes were read.
    found: Vec<Position>,
    /// Bytes read.
    at: u64,
    here: Position,
}

impl Locator {
    pub(crate) fn new(mut offsets: Vec<u64>) -> Locator {
        offsets.sort_unstable();
        offsets.dedup();
        Locator {
            offsets,
            found: Vec::new(),
            at: 0,
            here: Position {
                line: 1,
                column: 1,
                column_utf16: 1,
            },
        }
    }

    /// Whether every offset is found, so that no more bytes are needed.
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
            // Each character counts at its first byte; one of four bytes is two code units.
            let starts = u64::from(byte & 0xC0 != 0x80);
            self.here.column += starts;
            self.here.column_utf16 += starts + u64::from(*byte >= 0xF0);
        }
    }

    /// The position of an offset that was asked for; of one past the end of the file, the end.
    pub(crate) fn position(&self, offset: u64) -> Position {
        let found = self.offsets.binary_search(&offset).ok();
        let found = found.and_then(|index| self.found.get(index));
        found.copied().unwrap_or(self.here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(text: &str, block: usize, offsets: &[u64]) -> Vec<(u64, u64, u64)> {
        let mut locator = Locator::new(offsets.to_vec());
        text.as_bytes()
            .chunks(block)
            .for_each(|block| locator.push(block));
        let position = |offset: &u64| {
            let Position {
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
        assert!(Locator::new(Vec::new()).is_done());
    }
}
