//! Sessions on disk: the conversation, what the rules know and what happened, in one file that only grows.
//!
//! Owns the file and what a crash leaves of it. A [`Record`] is one line with a checksum: all of it is
//! there or nothing, and one that [`Store::append`] reported as written is there after `kill -9`, and with
//! [`Durability::Power`] after a loss of power. [`Recorder`] makes records of what a
//! [`Processor`](super::Processor) says. When to ask the model again is not known here. The format is in
//! `docs/store.md`.

mod disk;
mod error;
mod kept;
mod read;
mod record;
mod recorder;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub use disk::{Disk, DiskFile, RealDisk};
pub use error::{StoreError, StoreErrorKind};
pub use kept::Kept;
pub use read::{Piece, Reader};
use record::HEADER;
pub use record::{Entry, Record};
pub use recorder::{OnFailure, Recorder};

/// What a record survives once it is reported as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// A loss of power: every record is synced before it is reported.
    #[default]
    Power,
    /// The death of the process, however sudden. The file is synced when it is made, compacted and closed.
    Process,
}

/// How a [`Store`] works.
#[derive(Debug)]
pub struct Options {
    /// What a record survives. Default [`Durability::Power`].
    pub durability: Durability,
    /// Longest record, in bytes. Default 64 MiB.
    pub record_bytes: usize,
    /// Milliseconds since 1970. Default the clock of the system.
    pub clock: fn() -> u64,
    /// Where the files are. Default [`RealDisk`].
    pub disk: Box<dyn Disk>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::default(),
            record_bytes: 64 << 20,
            clock: system_clock,
            disk: Box::new(RealDisk),
        }
    }
}

fn system_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The file of one conversation, open and locked.
///
/// # Example: a conversation that goes on in another process
/// ```
/// use ttsr::Pack;
/// use ttsr::harness::Message;
/// use ttsr_agent::store::{Entry, Store};
/// let folder = std::env::temp_dir().join(format!("ttsr-store-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let pack = Pack::builtin("std/secrets")?;
///
/// let (mut store, found) = Store::open(folder.join("talk.ttsr"))?;
/// let (mut session, _) = found.session(&pack);
/// session.begin_turn();
/// store.append(vec![
///     Entry::Message { message: Message::user("Which key is it?") },
///     Entry::Snapshot { snapshot: Box::new(session.snapshot()) },
/// ])?;
/// drop(store); // or the process was killed
///
/// let (_store, found) = Store::open(folder.join("talk.ttsr"))?;
/// let (session, lost) = found.session(&pack);
/// assert_eq!((session.turn(), lost.len()), (1, 0));
/// assert_eq!(found.messages()[0].text(), "Which key is it?");
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store {
    path: PathBuf,
    options: Options,
    file: Box<dyn DiskFile>,
    /// Bytes of the file that are whole lines.
    length: u64,
    next: u64,
    state: State,
    /// Nothing was written since it was opened.
    is_fresh: bool,
}

/// What is known of the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is `length` bytes long.
    Clean,
    /// Something may stand behind `length`.
    Torn,
    /// The disk failed to sync, and nobody knows what it kept.
    Unsure,
}

/// How often in a row the disk may say that it was interrupted, or is busy.
const PATIENCE: u32 = 1000;

impl Store {
    /// Opens the file, makes it if it is not there, and says what was found in it. What stands behind the
    /// last whole line is cut off.
    ///
    /// # Errors
    /// See [`StoreErrorKind`]. A file that is refused is left as it was.
    pub fn open(path: impl Into<PathBuf>) -> Result<(Store, Kept), StoreError> {
        Store::open_with(path, Options::default())
    }

    /// The same with other options.
    ///
    /// # Errors
    /// See [`StoreErrorKind`].
    ///
    /// # Example: faster, and gone with the power
    /// ```
    /// use ttsr_agent::store::{Durability, Options, Store};
    /// let path = std::env::temp_dir().join(format!("ttsr-options-{}.ttsr", std::process::id()));
    /// # std::fs::remove_file(&path).ok();
    /// let options = Options { durability: Durability::Process, ..Options::default() };
    /// let (store, found) = Store::open_with(&path, options)?;
    /// assert!(found.is_new());
    /// store.close()?;
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_with(
        path: impl Into<PathBuf>,
        mut options: Options,
    ) -> Result<(Store, Kept), StoreError> {
        let path = path.into();
        let at = |error: StoreError| error.at(&path);
        let mut file = lock(&mut *options.disk, &path).map_err(at)?;
        let kept = read_all(&mut *file).map_err(at)?;
        let mut store = Store {
            length: kept.whole_bytes,
            next: kept.latest + 1,
            state: match kept.torn_bytes {
                0 => State::Clean,
                _ => State::Torn,
            },
            is_fresh: true,
            options,
            file,
            path: path.clone(),
        };
        store.begin(kept.is_new).map_err(|error| {
            if kept.is_new {
                // Half a beginning, or one that the disk may have dropped, is no beginning.
                store.file.cut(0).ok();
            }
            at(error)
        })?;
        Ok((store, kept))
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number that the next record will have.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    /// How long the file is, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Writes a record: all of the entries, or none. Its number is the proof that it is durable.
    ///
    /// # Errors
    /// If the disk is full or failed: then the record is not there, and another try may succeed. (If this
    /// process ends before one does, it may be there all the same.) A record that is too large is refused.
    pub fn append(&mut self, entries: Vec<Entry>) -> Result<u64, StoreError> {
        let record = Record {
            seq: self.next,
            at: (self.options.clock)(),
            entries,
        };
        let written = self.write(&record);
        written.map_err(|error| error.at(&self.path))
    }

    /// Writes the file anew with what is needed to go on: the conversation, guidance that waits, what the
    /// rules know. What happened is dropped. The old file stays until the new one is complete.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    ///
    /// # Example: events are dropped, messages stay
    /// ```
    /// use ttsr::harness::Message;
    /// use ttsr::harness::log::LogEvent;
    /// use ttsr_agent::store::{Entry, Store};
    /// let path = std::env::temp_dir().join(format!("ttsr-compact-{}.ttsr", std::process::id()));
    /// # std::fs::remove_file(&path).ok();
    /// let (mut store, _) = Store::open(&path)?;
    /// store.append(vec![Entry::Message { message: Message::user("Hi.") }])?;
    /// for _ in 0..100 {
    ///     store.append(vec![Entry::Event { event: LogEvent::Usage { input: 1, output: 2 } }])?;
    /// }
    /// let before = store.bytes();
    /// store.compact()?;
    /// assert!(store.bytes() < before);
    /// store.close()?;
    /// let (_store, found) = Store::open(&path)?;
    /// assert_eq!(found.messages(), [Message::user("Hi.")]);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compact(&mut self) -> Result<(), StoreError> {
        let compacted = self.write_anew();
        compacted.map_err(|error| error.at(&self.path))
    }

    /// Syncs what was written, whatever the [`Durability`], and unlocks the file.
    ///
    /// # Errors
    /// If the disk fails to sync.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.file
            .sync()
            .map_err(|error| StoreError::from(error).at(&self.path))
    }

    /// Brings the file into the state that it is written to in.
    fn begin(&mut self, is_new: bool) -> Result<(), StoreError> {
        // What a compaction left that was killed.
        match self.options.disk.remove(&beside(&self.path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.mend()?;
        if is_new {
            append_all(&mut *self.file, HEADER.as_bytes())?;
            self.length = HEADER.len() as u64;
        }
        // What was found is durable from here on, though whoever wrote it may have died before it was.
        self.file.sync()?;
        if is_new {
            self.options.disk.sync_folder(&self.path)?;
        }
        Ok(())
    }

    fn write(&mut self, record: &Record) -> Result<u64, StoreError> {
        let mut line = record.line()?;
        if line.len() > self.options.record_bytes {
            return Err(StoreErrorKind::TooLarge.into());
        }
        if self.is_fresh {
            // If the disk lost the last line of whoever had the file before, its end with it, this one is
            // not to stand on the same line.
            line.insert(0, b'\n');
        }
        self.mend()?;
        self.state = State::Torn;
        append_all(&mut *self.file, &line)?;
        if self.options.durability == Durability::Power {
            self.sync()?;
        }
        self.state = State::Clean;
        self.is_fresh = false;
        self.length += line.len() as u64;
        self.next += 1;
        Ok(record.seq)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync().map_err(|error| {
            self.state = State::Unsure;
            error.into()
        })
    }

    /// Brings the file back to what was reported as written.
    ///
    /// After a sync that failed, the system may take what it could not write for written, and another try
    /// would succeed and mean nothing: then everything is written anew.
    fn mend(&mut self) -> Result<(), StoreError> {
        match self.state {
            State::Clean => {}
            State::Torn => {
                self.file.cut(self.length)?;
                self.state = State::Clean;
            }
            State::Unsure => {
                let whole = self.whole()?;
                self.replace(&whole, self.next)?;
            }
        }
        Ok(())
    }

    fn write_anew(&mut self) -> Result<(), StoreError> {
        self.mend()?;
        let kept = self.kept_again()?;
        if kept.unknown > 0 {
            let why = "it holds what only a later version can write anew";
            return Err(StoreError::of(StoreErrorKind::Strange, why));
        }
        let records = kept.compacted((self.options.clock)());
        let mut bytes = HEADER.as_bytes().to_vec();
        for record in &records {
            bytes.extend_from_slice(&record.line()?);
        }
        let next = records.last().map_or(self.next, |last| last.seq + 1);
        self.replace(&bytes, next)
    }

    /// Puts a file with these contents in place of this one. Until that is done this one is in use.
    fn replace(&mut self, contents: &[u8], next: u64) -> Result<(), StoreError> {
        let beside = beside(&self.path);
        let written = self.write_beside(&beside, contents);
        self.file = written.inspect_err(|_| {
            // If this fails too, it is removed when the file is opened next.
            self.options.disk.remove(&beside).ok();
        })?;
        (self.length, self.next) = (contents.len() as u64, next);
        // Until the folder is synced, what is written to the new file might be lost with its name.
        self.state = State::Unsure;
        self.options.disk.sync_folder(&self.path)?;
        self.state = State::Clean;
        Ok(())
    }

    fn write_beside(
        &mut self,
        beside: &Path,
        contents: &[u8],
    ) -> Result<Box<dyn DiskFile>, StoreError> {
        let mut file = lock(&mut *self.options.disk, beside)?;
        file.cut(0)?;
        append_all(&mut *file, contents)?;
        file.sync()?;
        self.options.disk.rename(beside, &self.path)?;
        Ok(file)
    }

    /// The contents of the file as far as they were reported as written.
    fn whole(&mut self) -> Result<Vec<u8>, StoreError> {
        self.file.rewind()?;
        let mut whole = Vec::new();
        Bytes(&mut *self.file)
            .take(self.length)
            .read_to_end(&mut whole)?;
        match whole.len() as u64 == self.length {
            true => Ok(whole),
            false => Err(changed()),
        }
    }

    fn kept_again(&mut self) -> Result<Kept, StoreError> {
        self.file.rewind()?;
        let kept = read_all(&mut *self.file)?;
        match kept.whole_bytes == self.length && kept.torn_bytes == 0 {
            true => Ok(kept),
            false => Err(changed()),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path)
            .field("length", &self.length)
            .field("next", &self.next)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

fn lock(disk: &mut dyn Disk, path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
    disk.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StoreErrorKind::Locked.into(),
        io::ErrorKind::InvalidInput => StoreErrorKind::NotPlain.into(),
        _ => error.into(),
    })
}

/// Where a file is written before it takes the place of another.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".compacting");
    name.into()
}

fn changed() -> StoreError {
    StoreError::of(StoreErrorKind::Disk, "the file was changed by someone else")
}

/// Everything that is needed of a file.
fn read_all(file: &mut dyn DiskFile) -> Result<Kept, StoreError> {
    let mut reader = match Reader::new(Bytes(file)) {
        Ok(reader) => reader,
        Err(error) if error.kind() == StoreErrorKind::Empty => return Ok(Kept::nothing()),
        Err(error) => return Err(error),
    };
    let mut kept = Kept::default();
    for piece in &mut reader {
        kept.take(piece?)?;
    }
    kept.whole_bytes = reader.place() - kept.torn_bytes;
    Ok(kept)
}

struct Bytes<'a>(&'a mut dyn DiskFile);

impl Read for Bytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut patience = PATIENCE;
        loop {
            match self.0.read(into) {
                Err(error) if is_passing(&error) && patience > 0 => patience -= 1,
                // The standard library would try that for ever.
                Err(error) if is_passing(&error) => return Err(io::Error::other(error)),
                read => return read,
            }
        }
    }
}

/// Writes all of it, however many pieces the disk takes it in.
fn append_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    let mut patience = PATIENCE;
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                patience = PATIENCE;
            }
            Err(error) if is_passing(&error) && patience > 0 => patience -= 1,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}
