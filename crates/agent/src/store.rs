//! Sessions on disk: the conversation, the state of the rules and a log of events, in one append-only file.
//!
//! This module owns the file and its recovery after a crash. A [`Record`] is one line with a checksum, and is written
//! completely or not at all. A record that [`Store::append`] reported as written survives `kill -9` and, with
//! [`Durability::Power`], a loss of power. [`SessionRecorder`] converts the steps of a [`Processor`](ttsr::harness::Processor) to
//! records. This module does not decide when the model is asked again. Format: `docs/store.md`.

mod disk;
mod error;
mod read;
mod record;
mod recorder;
mod resume_state;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub use disk::{Disk, DiskFile, RealDisk};
pub use error::{StoreError, StoreErrorKind};
pub use read::{StoreReader, StoredItem};
use record::HEADER;
pub use record::{Entry, Record};
pub use recorder::{OnFailure, SessionRecorder};
pub use resume_state::ResumeState;

/// The failures that a durable record survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// A loss of power: every record is synced before it is reported.
    #[default]
    Power,
    /// The death of the process, also by `kill -9`. The file is synced when it is created, compacted and closed.
    Process,
}

/// The options of a [`Store`].
#[derive(Debug)]
pub struct StoreOptions {
    /// The durability of a record. Default [`Durability::Power`].
    pub durability: Durability,
    /// The longest record, in bytes. Default 64 MiB.
    pub record_bytes: usize,
    /// The clock, in milliseconds since 1970. Default the system clock.
    pub clock: fn() -> u64,
    /// The disk. Default [`RealDisk`].
    pub disk: Box<dyn Disk>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
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
/// # Example: a conversation that another process continues
/// ```
/// use ttsr::Pack;
/// use ttsr::harness::Message;
/// use ttsr_agent::store::{Entry, Store};
/// let folder = std::env::temp_dir().join(format!("ttsr-store-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let pack = Pack::builtin("std/secrets")?;
///
/// let (mut store, found) = Store::open(folder.join("talk.ttsr"))?;
/// let (mut conversation, _) = found.conversation(&pack);
/// let prompt = conversation.begin_turn("Which key is it?");
/// store.append(vec![
///     Entry::Message { message: Message::user(prompt.text) },
///     Entry::Snapshot { snapshot: Box::new(conversation.snapshot()) },
/// ])?;
/// drop(store); // or the process was killed
///
/// let (_store, found) = Store::open(folder.join("talk.ttsr"))?;
/// let (conversation, lost) = found.conversation(&pack);
/// assert_eq!((conversation.turns(), lost.len()), (1, 0));
/// assert_eq!(found.messages()[0].text(), "Which key is it?");
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store {
    path: PathBuf,
    options: StoreOptions,
    file: Box<dyn DiskFile>,
    /// The length of the complete lines, in bytes.
    length: u64,
    next: u64,
    state: FileState,
    /// True if this process has not written yet.
    is_fresh: bool,
}

/// The state of the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    /// The file has `length` bytes.
    Clean,
    /// The file may have bytes after `length`.
    Torn,
    /// A sync failed, so the contents on the disk are unknown.
    Unsure,
}

/// The most consecutive errors of the kinds interrupted and would-block before an operation fails.
const PATIENCE: u32 = 1000;

impl Store {
    /// Opens the file, creates it if it does not exist, and returns its contents. Bytes after the last complete line
    /// are cut off.
    ///
    /// # Errors
    /// See [`StoreErrorKind`]. A file that is refused is left unchanged.
    pub fn open(path: impl Into<PathBuf>) -> Result<(Store, ResumeState), StoreError> {
        Store::open_with(path, StoreOptions::default())
    }

    /// Opens the file with options.
    ///
    /// # Errors
    /// See [`StoreErrorKind`].
    ///
    /// # Example: faster, without protection against a loss of power
    /// ```
    /// use ttsr_agent::store::{Durability, StoreOptions, Store};
    /// let path = std::env::temp_dir().join(format!("ttsr-options-{}.ttsr", std::process::id()));
    /// # std::fs::remove_file(&path).ok();
    /// let options = StoreOptions { durability: Durability::Process, ..StoreOptions::default() };
    /// let (store, found) = Store::open_with(&path, options)?;
    /// assert!(found.is_new());
    /// store.close()?;
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_with(
        path: impl Into<PathBuf>,
        mut options: StoreOptions,
    ) -> Result<(Store, ResumeState), StoreError> {
        let path = path.into();
        let at = |error: StoreError| error.at(&path);
        let mut file = lock(&mut *options.disk, &path).map_err(at)?;
        let state = read_all(&mut *file).map_err(at)?;
        let mut store = Store {
            length: state.whole_bytes,
            next: state.latest + 1,
            state: match state.torn_bytes {
                0 => FileState::Clean,
                _ => FileState::Torn,
            },
            is_fresh: true,
            options,
            file,
            path: path.clone(),
        };
        store.begin(state.is_new).map_err(|error| {
            if state.is_new {
                // An incomplete header, or one that was not synced, is removed again.
                store.file.cut(0).ok();
            }
            at(error)
        })?;
        Ok((store, state))
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of the next record.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    /// Returns the length of the file, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Writes a record with all of the entries, or none. Returns its number once it is durable.
    ///
    /// # Errors
    /// If the disk is full or failed: the record is then not in the file, and another attempt may succeed. (If this
    /// process ends before the next attempt, the record may be in the file.) A record over the length limit is refused.
    pub fn append(&mut self, entries: Vec<Entry>) -> Result<u64, StoreError> {
        let record = Record {
            seq: self.next,
            at: (self.options.clock)(),
            entries,
        };
        let written = self.write(&record);
        written.map_err(|error| error.at(&self.path))
    }

    /// Rewrites the file with only the data needed to resume: the conversation, waiting guidance and the state of the
    /// rules. Events are dropped. The old file stays until the new one is complete.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    ///
    /// # Example: events are dropped, messages stay
    /// ```
    /// use ttsr::harness::Message;
    /// use ttsr::harness::event::LoopEvent;
    /// use ttsr_agent::store::{Entry, Store};
    /// let path = std::env::temp_dir().join(format!("ttsr-compact-{}.ttsr", std::process::id()));
    /// # std::fs::remove_file(&path).ok();
    /// let (mut store, _) = Store::open(&path)?;
    /// store.append(vec![Entry::Message { message: Message::user("Hi.") }])?;
    /// for _ in 0..100 {
    ///     store.append(vec![Entry::Event { event: LoopEvent::Usage { input: 1, output: 2 } }])?;
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
        let compacted = self.rewrite();
        compacted.map_err(|error| error.at(&self.path))
    }

    /// Syncs the file, whatever the [`Durability`], and unlocks it.
    ///
    /// # Errors
    /// If the disk fails to sync.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.file
            .sync()
            .map_err(|error| StoreError::from(error).at(&self.path))
    }

    /// Prepares the file for writing.
    fn begin(&mut self, is_new: bool) -> Result<(), StoreError> {
        // Left by a compaction in a process that was killed.
        match self.options.disk.remove(&temporary_path(&self.path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.restore()?;
        if is_new {
            append_all(&mut *self.file, HEADER.as_bytes())?;
            self.length = HEADER.len() as u64;
        }
        // Syncs the contents that were found: the process that wrote them may have ended before its own sync.
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
            // If the disk lost the end of the previous process's last line, this record must not continue that line.
            line.insert(0, b'\n');
        }
        self.restore()?;
        self.state = FileState::Torn;
        append_all(&mut *self.file, &line)?;
        if self.options.durability == Durability::Power {
            self.sync()?;
        }
        self.state = FileState::Clean;
        self.is_fresh = false;
        self.length += line.len() as u64;
        self.next += 1;
        Ok(record.seq)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync().map_err(|error| {
            self.state = FileState::Unsure;
            error.into()
        })
    }

    /// Restores the file to the records that were reported as written.
    ///
    /// After a failed sync, the system may treat the pages as clean, so a second sync would succeed without writing
    /// them: the whole file is rewritten instead.
    fn restore(&mut self) -> Result<(), StoreError> {
        match self.state {
            FileState::Clean => {}
            FileState::Torn => {
                self.file.cut(self.length)?;
                self.state = FileState::Clean;
            }
            FileState::Unsure => {
                let whole = self.whole()?;
                self.replace(&whole, self.next)?;
            }
        }
        Ok(())
    }

    fn rewrite(&mut self) -> Result<(), StoreError> {
        self.restore()?;
        let state = self.reread()?;
        if state.unknown > 0 {
            let why = "it holds what only a later version can rewrite";
            return Err(StoreError::with_reason(StoreErrorKind::Unrecognized, why));
        }
        let records = state.compacted((self.options.clock)());
        let mut bytes = HEADER.as_bytes().to_vec();
        for record in &records {
            bytes.extend_from_slice(&record.line()?);
        }
        let next = records.last().map_or(self.next, |last| last.seq + 1);
        self.replace(&bytes, next)
    }

    /// Replaces this file by one with these contents. The old file stays in use until then.
    fn replace(&mut self, contents: &[u8], next: u64) -> Result<(), StoreError> {
        let beside = temporary_path(&self.path);
        let written = self.write_beside(&beside, contents);
        self.file = written.inspect_err(|_| {
            // If this fails too, the file is removed when the store is opened next.
            self.options.disk.remove(&beside).ok();
        })?;
        (self.length, self.next) = (contents.len() as u64, next);
        // Until the folder is synced, records in the new file could be lost with its name.
        self.state = FileState::Unsure;
        self.options.disk.sync_folder(&self.path)?;
        self.state = FileState::Clean;
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

    /// Returns the contents that were reported as written.
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

    fn reread(&mut self) -> Result<ResumeState, StoreError> {
        self.file.rewind()?;
        let state = read_all(&mut *self.file)?;
        match state.whole_bytes == self.length && state.torn_bytes == 0 {
            true => Ok(state),
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

/// Returns the path of the file that is written before it replaces another.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".compacting");
    name.into()
}

fn changed() -> StoreError {
    StoreError::with_reason(StoreErrorKind::Disk, "the file was changed by someone else")
}

/// Reads the whole file.
fn read_all(file: &mut dyn DiskFile) -> Result<ResumeState, StoreError> {
    let mut reader = match StoreReader::new(Bytes(file)) {
        Ok(reader) => reader,
        Err(error) if error.kind() == StoreErrorKind::Empty => return Ok(ResumeState::empty()),
        Err(error) => return Err(error),
    };
    let mut state = ResumeState::default();
    for item in &mut reader {
        state.add_item(item?)?;
    }
    state.whole_bytes = reader.offset() - state.torn_bytes;
    Ok(state)
}

struct Bytes<'a>(&'a mut dyn DiskFile);

impl Read for Bytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut patience = PATIENCE;
        loop {
            match self.0.read(into) {
                Err(error) if is_passing(&error) && patience > 0 => patience -= 1,
                // The standard library would retry for ever.
                Err(error) if is_passing(&error) => return Err(io::Error::other(error)),
                read => return read,
            }
        }
    }
}

/// Writes all of `bytes`, in as many calls as the disk needs.
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
