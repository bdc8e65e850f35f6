//! From bytes to records: what is whole, what is damaged, what is torn.

use std::io::{self, Read};

use super::error::{StoreError, StoreErrorKind};
use super::record::{self, HEADER, Line, MAGIC, Record};

/// What stands at one place of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Piece {
    /// A record, checksum right.
    Record(Record),
    /// A line whose checksum is wrong. It is not believed, and what stands behind it is read.
    Damaged {
        /// Where it begins, in bytes.
        at: u64,
        /// How long it is.
        bytes: u64,
    },
    /// A record whose checksum is right and whose contents this version does not understand.
    Strange {
        /// Where it begins, in bytes.
        at: u64,
        /// What is not understood.
        why: String,
    },
    /// A record whose number was there already, or is lower than one before.
    Repeated {
        /// Its number.
        seq: u64,
    },
    /// The end of the last line is missing: whoever wrote it was stopped half way. It was never reported
    /// as written.
    Torn {
        /// Where it begins, in bytes.
        at: u64,
        /// How much of it there is.
        bytes: u64,
    },
}

/// Reads a file piece by piece, without changing or locking it. A file that is being written to can be read;
/// its last record may then look torn.
///
/// # Example: a file that ends in the middle of a record
/// ```
/// use ttsr_agent::store::{Entry, Piece, Reader, Store};
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
/// let pieces: Vec<Piece> = Reader::new(&*bytes)?.collect::<Result<_, _>>()?;
/// assert!(matches!(pieces[..], [Piece::Record(_), Piece::Torn { .. }]));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    latest: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the first line, which says whether it is such a file.
    ///
    /// # Errors
    /// If it is none, of another version, or cannot be read.
    pub fn new(from: R) -> Result<Reader<R>, StoreError> {
        let mut lines = Lines::new(from, LINE);
        let first = lines.next()?;
        match first {
            Some(RawLine::Whole { ref line, .. })
                if line.as_slice() == HEADER.trim_end().as_bytes() =>
            {
                Ok(Reader { lines, latest: 0 })
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

    /// Where the next piece begins, in bytes.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.lines.place
    }

    fn piece(&mut self, line: RawLine) -> Piece {
        match line {
            RawLine::Whole { at, line } => self.judge(at, &line),
            RawLine::TooLong { at, bytes } => Piece::Damaged { at, bytes },
            RawLine::Torn { at, line } => Piece::Torn {
                at,
                bytes: line.len() as u64,
            },
        }
    }

    fn judge(&mut self, at: u64, line: &[u8]) -> Piece {
        match record::read(line) {
            Line::Whole(record) if record.seq == u64::MAX => Piece::Strange {
                at,
                why: "no number can follow that one".to_owned(),
            },
            Line::Whole(record) if record.seq <= self.latest => Piece::Repeated { seq: record.seq },
            Line::Whole(record) => {
                self.latest = record.seq;
                Piece::Record(record)
            }
            Line::Strange(why) => Piece::Strange { at, why },
            Line::Damaged => Piece::Damaged {
                at,
                bytes: line.len() as u64 + 1,
            },
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Piece, StoreError>;

    fn next(&mut self) -> Option<Result<Piece, StoreError>> {
        loop {
            match self.lines.next() {
                // An empty line stands before what each process writes first.
                Ok(Some(RawLine::Whole { line, .. })) if line.is_empty() => {}
                Ok(line) => return line.map(|line| Ok(self.piece(line))),
                Err(error) => {
                    self.lines.is_over = true;
                    return Some(Err(error.into()));
                }
            }
        }
    }
}

/// Whether that is what a loss of power leaves of a first line: its beginning, and zeros where the length
/// came to the disk and the bytes did not.
fn is_beginning(line: &[u8]) -> bool {
    let written = line.iter().rposition(|byte| *byte != 0);
    let written = &line[..written.map_or(0, |last| last + 1)];
    line.len() <= HEADER.len() && HEADER.as_bytes().starts_with(written)
}

/// Why a first line is not ours.
fn foreign(line: &[u8]) -> StoreError {
    let version = line.strip_prefix(MAGIC.as_bytes());
    let version = version.and_then(|version| str::from_utf8(version).ok()?.parse().ok());
    match version {
        Some(version) => StoreErrorKind::Version(version).into(),
        None => StoreErrorKind::Foreign.into(),
    }
}

/// The longest line that is read; what a store writes is shorter.
pub(super) const LINE: usize = 256 << 20;

#[derive(Debug)]
struct Lines<R> {
    from: R,
    /// What is read at once.
    chunk: Box<[u8]>,
    buffer: Vec<u8>,
    /// What of the buffer was given out.
    used: usize,
    /// Where in the file `used` is.
    place: u64,
    /// The longest line.
    longest: usize,
    is_over: bool,
}

enum RawLine {
    Whole { at: u64, line: Vec<u8> },
    TooLong { at: u64, bytes: u64 },
    Torn { at: u64, line: Vec<u8> },
}

impl<R: Read> Lines<R> {
    fn new(from: R, longest: usize) -> Lines<R> {
        Lines {
            from,
            chunk: vec![0; 64 << 10].into(),
            buffer: Vec::new(),
            used: 0,
            place: 0,
            longest,
            is_over: false,
        }
    }

    fn next(&mut self) -> io::Result<Option<RawLine>> {
        let at = self.place;
        let mut searched = 0;
        let mut dropped = 0;
        while !self.is_over {
            let rest = &self.buffer[self.used..];
            if let Some(end) = memchr::memchr(b'\n', &rest[searched..]) {
                let line = rest[..searched + end].to_vec();
                self.advance(line.len() + 1);
                if dropped > 0 {
                    let bytes = self.place - at;
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
        self.place += line.len() as u64;
        Ok((!line.is_empty() || dropped > 0).then_some(match dropped {
            0 => RawLine::Torn { at, line },
            _ => RawLine::TooLong {
                at,
                bytes: self.place - at,
            },
        }))
    }

    fn advance(&mut self, bytes: usize) {
        self.used += bytes;
        self.place += bytes as u64;
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
