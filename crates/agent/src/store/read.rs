//! Parses a file into records, and detects damaged and torn lines.

use std::io::{self, Read};

use super::error::{StoreError, StoreErrorKind};
use super::record::{self, HEADER, MAGIC, Record, RecordLine};

/// An item of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StoredItem {
    /// A record with a valid checksum.
    Record(Record),
    /// A line with an invalid checksum. It is skipped, and reading continues after it.
    Damaged {
        /// Its offset, in bytes.
        at: u64,
        /// Its length, in bytes.
        bytes: u64,
    },
    /// A record with a valid checksum and contents that this version does not understand.
    Unrecognized {
        /// Its offset, in bytes.
        at: u64,
        /// The reason.
        why: String,
    },
    /// A record whose number is not higher than that of a record before it.
    Repeated {
        /// Its number.
        seq: u64,
    },
    /// A last line without its end: the write was interrupted. It was never reported as written.
    Torn {
        /// Its offset, in bytes.
        at: u64,
        /// Its length, in bytes.
        bytes: u64,
    },
}

/// Reads a file item by item, without changing or locking it. A file in use can be read; its last record may then
/// appear torn.
///
/// # Example: a file that ends within a record
/// ```
/// use ttsr_agent::store::{Entry, StoredItem, StoreReader, Store};
/// let folder = std::env::temp_dir().join(format!("ttsr-reader-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let path = folder.join("talk.ttsr");
/// # std::fs::remove_file(&path).ok();
/// let (mut store, _) = Store::open(&path)?;
/// store.append(vec![Entry::Sent])?;
/// store.append(vec![Entry::Sent])?;
/// drop(store);
/// let mut bytes = std::fs::read(&path)?;
/// bytes.truncate(bytes.len() - 3);
/// let items: Vec<StoredItem> = StoreReader::new(&*bytes)?.collect::<Result<_, _>>()?;
/// assert!(matches!(items[..], [StoredItem::Record(_), StoredItem::Torn { .. }]));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StoreReader<R> {
    lines: LineReader<R>,
    latest: u64,
}

impl<R: Read> StoreReader<R> {
    /// Reads the first line, which identifies the format.
    ///
    /// # Errors
    /// If the file is of another format or version, or cannot be read.
    pub fn new(from: R) -> Result<StoreReader<R>, StoreError> {
        let mut lines = LineReader::new(from, LINE);
        let first = lines.next()?;
        match first {
            Some(RawLine::Whole { ref line, .. })
                if line.as_slice() == HEADER.trim_end().as_bytes() =>
            {
                Ok(StoreReader { lines, latest: 0 })
            }
            Some(RawLine::Whole { line, .. }) => Err(foreign(&line)),
            Some(RawLine::Torn { line, .. }) if is_beginning(&line) => {
                Err(StoreErrorKind::Empty.into())
            }
            None => Err(StoreErrorKind::Empty.into()),
            Some(RawLine::Torn { .. } | RawLine::TooLong { .. }) => {
                Err(StoreErrorKind::Foreign.into())
            }
        }
    }

    /// Returns the offset of the next item, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.lines.offset
    }

    fn parse_item(&mut self, line: RawLine) -> StoredItem {
        match line {
            RawLine::Whole { at, line } => self.classify(at, &line),
            RawLine::TooLong { at, bytes } => StoredItem::Damaged { at, bytes },
            RawLine::Torn { at, line } => StoredItem::Torn {
                at,
                bytes: line.len() as u64,
            },
        }
    }

    fn classify(&mut self, at: u64, line: &[u8]) -> StoredItem {
        match record::read(line) {
            RecordLine::Whole(record) if record.seq == u64::MAX => StoredItem::Unrecognized {
                at,
                why: "no number can follow that one".to_owned(),
            },
            RecordLine::Whole(record) if record.seq <= self.latest => {
                StoredItem::Repeated { seq: record.seq }
            }
            RecordLine::Whole(record) => {
                self.latest = record.seq;
                StoredItem::Record(record)
            }
            RecordLine::Unrecognized(why) => StoredItem::Unrecognized { at, why },
            RecordLine::Damaged => StoredItem::Damaged {
                at,
                bytes: line.len() as u64 + 1,
            },
        }
    }
}

impl<R: Read> Iterator for StoreReader<R> {
    type Item = Result<StoredItem, StoreError>;

    fn next(&mut self) -> Option<Result<StoredItem, StoreError>> {
        loop {
            match self.lines.next() {
                // An empty line precedes the first record of each process.
                Ok(Some(RawLine::Whole { line, .. })) if line.is_empty() => {}
                Ok(line) => return line.map(|line| Ok(self.parse_item(line))),
                Err(error) => {
                    self.lines.is_over = true;
                    return Some(Err(error.into()));
                }
            }
        }
    }
}

/// Returns true if a loss of power can leave these bytes of a first line: its start, followed by zeros if the length
/// reached the disk and the rest did not.
fn is_beginning(line: &[u8]) -> bool {
    let written = line.iter().rposition(|byte| *byte != 0);
    let written = &line[..written.map_or(0, |last| last + 1)];
    line.len() <= HEADER.len() && HEADER.as_bytes().starts_with(written)
}

/// Returns the error for a first line of another format or version.
fn foreign(line: &[u8]) -> StoreError {
    let version = line.strip_prefix(MAGIC.as_bytes());
    let version = version.and_then(|version| str::from_utf8(version).ok()?.parse().ok());
    match version {
        Some(version) => StoreErrorKind::Version(version).into(),
        None => StoreErrorKind::Foreign.into(),
    }
}

/// The longest line that is read, in bytes; a store writes shorter ones.
pub(super) const LINE: usize = 256 << 20;

#[derive(Debug)]
struct LineReader<R> {
    from: R,
    /// The read buffer.
    chunk: Box<[u8]>,
    buffer: Vec<u8>,
    /// The number of bytes of `buffer` that were returned.
    used: usize,
    /// The offset of `used` in the file.
    offset: u64,
    /// The longest line, in bytes.
    longest: usize,
    is_over: bool,
}

enum RawLine {
    Whole { at: u64, line: Vec<u8> },
    TooLong { at: u64, bytes: u64 },
    Torn { at: u64, line: Vec<u8> },
}

impl<R: Read> LineReader<R> {
    fn new(from: R, longest: usize) -> LineReader<R> {
        LineReader {
            from,
            chunk: vec![0; 64 << 10].into(),
            buffer: Vec::new(),
            used: 0,
            offset: 0,
            longest,
            is_over: false,
        }
    }

    fn next(&mut self) -> io::Result<Option<RawLine>> {
        let at = self.offset;
        let mut searched = 0;
        let mut dropped = 0;
        while !self.is_over {
            let rest = &self.buffer[self.used..];
            if let Some(end) = memchr::memchr(b'\n', &rest[searched..]) {
                let line = rest[..searched + end].to_vec();
                self.advance(line.len() + 1);
                if dropped > 0 {
                    let bytes = self.offset - at;
                    return Ok(Some(RawLine::TooLong { at, bytes }));
                }
                return Ok(Some(RawLine::Whole { at, line }));
            }
            searched = rest.len();
            if searched > self.longest {
                dropped += searched;
                self.advance(searched);
                searched = 0;
            }
            self.fill()?;
        }
        let line = self.buffer.split_off(self.used);
        self.buffer.clear();
        self.used = 0;
        self.offset += line.len() as u64;
        Ok((!line.is_empty() || dropped > 0).then_some(match dropped {
            0 => RawLine::Torn { at, line },
            _ => RawLine::TooLong {
                at,
                bytes: self.offset - at,
            },
        }))
    }

    fn advance(&mut self, bytes: usize) {
        self.used += bytes;
        self.offset += bytes as u64;
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let mut patience = super::PATIENCE;
        let read = loop {
            match self.from.read(&mut self.chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted && patience > 0 => {
                    patience -= 1;
                }
                read => break read?,
            }
        };
        self.buffer.extend_from_slice(&self.chunk[..read]);
        self.is_over = read == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads one byte at a time. Every second call is interrupted first.
    struct Slow<'b> {
        rest: &'b [u8],
        calls: u32,
    }

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(2) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.rest.read(&mut into[..1])
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_in_the_middle_and_at_the_end() {
        let rest = b"one\n0123456789\ntwo\n01234567".as_slice();
        let mut lines = LineReader::new(Slow { rest, calls: 0 }, 4);
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            assert!(lines.buffer.len() <= 6, "a long line is not kept");
            found.push(match line {
                RawLine::Whole { at, line } => (at, line.len() as u64, true),
                RawLine::TooLong { at, bytes } => (at, bytes, false),
                RawLine::Torn { .. } => panic!("the last line is too long"),
            });
        }
        assert_eq!(
            found,
            [(0, 3, true), (4, 11, false), (15, 3, true), (19, 8, false)]
        );
        assert_eq!(lines.offset, rest.len() as u64);
    }

    #[test]
    fn a_record_that_is_too_long_is_damaged() {
        let mut lines = LineReader::new(&b""[..], LINE);
        assert!(lines.next().unwrap().is_none());
        let mut reader = StoreReader { lines, latest: 0 };
        let item = reader.parse_item(RawLine::TooLong { at: 7, bytes: 99 });
        assert_eq!(item, StoredItem::Damaged { at: 7, bytes: 99 });
    }
}
