//! Lines and columns of a file that goes by block by block.

use crate::input::BLOCK;

/// The last bytes of a file, and where they stand. Of what is further back no line is known any more.
#[derive(Debug)]
pub(crate) struct Places {
    window: Vec<u8>,
    /// Offset, line and column of the first byte of the window; line and column count from 1.
    start: u64,
    line: u64,
    column: u64,
}

impl Places {
    pub(crate) fn new() -> Places {
        Places {
            window: Vec::new(),
            start: 0,
            line: 1,
            column: 1,
        }
    }

    pub(crate) fn push(&mut self, block: &[u8]) {
        if self.window.len() > BLOCK {
            let gone = self.window.len() - BLOCK;
            (self.line, self.column) = self.advance(gone);
            self.window.drain(..gone);
            self.start += gone as u64;
        }
        self.window.extend_from_slice(block);
    }

    /// Line and column of a match that ends at `end`: of its first byte if the text stands there as it was
    /// matched, else (it is written with escapes) of its last one.
    pub(crate) fn of_match(&self, end: u64, matched: &str) -> Option<(u64, u64)> {
        let end = usize::try_from(end.checked_sub(self.start)?).ok()?;
        let before = self.window.get(..end)?;
        let start = match before.strip_suffix(matched.as_bytes()) {
            Some(before) => before.len(),
            None => end.saturating_sub(1),
        };
        Some(self.advance(start))
    }

    /// Line and column of the byte at `length` in the window; columns count characters.
    fn advance(&self, length: usize) -> (u64, u64) {
        let passed = &self.window[..length];
        let characters =
            |bytes: &[u8]| bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
        match memchr::memrchr(b'\n', passed) {
            None => (self.line, self.column + characters(passed)),
            Some(last) => {
                let lines = memchr::memchr_iter(b'\n', passed).count() as u64;
                (self.line + lines, 1 + characters(&passed[last + 1..]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(blocks: &[&[u8]], end: u64, matched: &str) -> Option<(u64, u64)> {
        let mut places = Places::new();
        blocks.iter().for_each(|block| places.push(block));
        places.of_match(end, matched)
    }

    #[test]
    fn places_count_lines_and_characters() {
        let text = "aé\nüxy\n".as_bytes();
        assert_eq!(
            place(&[text], 4, "aé\n"),
            Some((1, 1)),
            "from the first byte on"
        );
        assert_eq!(
            place(&[text], 7, "x"),
            Some((2, 2)),
            "a character is one column"
        );
        assert_eq!(
            place(&[text], 7, "?"),
            Some((2, 2)),
            "the last byte of an escaped match"
        );
        assert_eq!(
            place(&[text], 9, "xy\n"),
            Some((2, 2)),
            "the end of the file"
        );
        assert_eq!(place(&[text], 10, "x"), None, "past the end");
        assert_eq!(place(&[], 0, ""), Some((1, 1)), "an empty file");
    }

    #[test]
    fn places_hold_over_blocks() {
        let block = [b"x".repeat(99), b"\n".to_vec()]
            .concat()
            .repeat(BLOCK / 100);
        let blocks = vec![&block[..]; 5];
        let total = 5 * block.len() as u64;
        assert_eq!(place(&blocks, total - 1, "xx"), Some((total / 100, 98)));
        assert_eq!(place(&blocks, 5, "xx"), None, "long gone");
    }
}
