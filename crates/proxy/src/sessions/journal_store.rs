//! Sessions in a file, so that they outlive the process.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{MemoryStore, SessionError, SessionStore, StoreFuture, StoredSession};

/// The size in bytes from which the file is compacted, if most of it is obsolete.
const COMPACT_BYTES: u64 = 1 << 20;

/// The most bytes that are copied to a new file while saves wait, unless lines are written faster than they are copied.
const LAST_BYTES: u64 = 64 << 10;

/// The most times that lines are copied while further ones are written.
const COPIES: usize = 16;

/// Sessions in memory and in a file of one process, to which each write appends one line of JSON. A process that is killed
/// loses nothing that was written; after a failure of the system, the last lines may be missing.
///
/// A line that is damaged counts as not written. The file is rewritten when it is opened, and when it has become four
/// times as long as the sessions that are known: into a file beside it, while further lines are appended to the present
/// one. They are copied to the new file before it takes the place of the present one, so a process that is killed at any
/// time leaves a file with all lines.
///
/// The file is written in threads for blocking calls of tokio, one write after the other, so that a slow disk keeps only
/// the requests waiting whose sessions it writes. A write that has begun is completed, also if its future is dropped.
///
/// # Panics
/// If a future of [`save`](SessionStore::save) is polled outside of a tokio runtime.
pub struct JournalStore(Arc<Journal>);

struct Journal {
    memory: MemoryStore,
    path: PathBuf,
    file: Arc<Mutex<OpenJournal>>,
    /// True while the file is rewritten.
    is_rewritten: Arc<AtomicBool>,
    /// Held until the last write has ended, so that no other process writes the file.
    _lock: File,
}

struct OpenJournal {
    file: File,
    bytes: u64,
    /// The size of the file when it was rewritten.
    compact_bytes: u64,
    /// True if the last line may have been written in part.
    is_torn: bool,
}

/// A rewrite of the file that has begun.
struct JournalRewrite {
    /// The sessions of all lines up to `end`.
    sessions: Vec<(Arc<str>, Arc<StoredSession>)>,
    /// The length of the file when it began.
    end: u64,
    /// [`Journal::is_rewritten`], which is reset at the end of the rewrite, however it ends.
    is_rewritten: Arc<AtomicBool>,
}

impl Drop for JournalRewrite {
    fn drop(&mut self) {
        self.is_rewritten.store(false, Ordering::Release);
    }
}

/// One line of the file.
#[derive(Deserialize, Serialize)]
struct JournalLine {
    key: String,
    version: u64,
    /// The state, which is JSON itself.
    state: String,
}

impl JournalStore {
    /// Opens the file, or creates it, and a file beside it that is locked while the store is open. The bounds are those of
    /// [`MemoryStore::new`].
    ///
    /// # Errors
    /// If the file cannot be read or written, if it has text and no line of a session, or if another process has opened it.
    pub fn open(
        path: &Path,
        sessions: usize,
        idle_time: Duration,
    ) -> Result<JournalStore, SessionError> {
        let shown = path.display();
        let because = |error: io::Error| SessionError::new(format!("{shown}: {error}"));
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = File::create(lock_path).map_err(because)?;
        if lock.try_lock().is_err() {
            return Err(SessionError::new(format!(
                "{shown}: another process uses it"
            )));
        }
        let memory = MemoryStore::new(sessions, idle_time);
        let written = match fs::read(path) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(because(error)),
        };
        let now = Instant::now();
        // The only line may have been written in part.
        let is_torn = written.starts_with(b"{\"key\":") && !written.contains(&b'\n');
        let mut is_journal = is_torn || written.trim_ascii().is_empty();
        for line in written.split(|byte| *byte == b'\n') {
            if let Ok(line) = serde_json::from_slice::<JournalLine>(line) {
                is_journal = true;
                let session = StoredSession {
                    version: line.version,
                    state: line.state.into_bytes(),
                };
                memory.restore(&line.key, session, now);
            }
        }
        if !is_journal {
            // It would be replaced, and may be a file of the user that was named by mistake.
            return Err(SessionError::new(format!(
                "{shown}: the file has no session, so it is not overwritten"
            )));
        }
        let file = rewritten(path, &memory).map_err(because)?;
        Ok(JournalStore(Arc::new(Journal {
            memory,
            path: path.to_owned(),
            file: Arc::new(Mutex::new(file)),
            is_rewritten: Arc::default(),
            _lock: lock,
        })))
    }
}

impl Journal {
    /// Writes a session to `file`, the open journal, and to memory, whose writes must have the order of the lines.
    fn write(
        &self,
        file: &mut OpenJournal,
        key: &str,
        state: &[u8],
        expected: u64,
    ) -> Result<bool, SessionError> {
        let now = Instant::now();
        if self.memory.version(key, now) != expected {
            return Ok(false);
        }
        let line = encode_line(key, expected + 1, state);
        // A state that is not in the file must not be in memory: the request that it is of is refused, and comes again.
        file.append(&line).map_err(|_| unwritten())?;
        Ok(self.memory.put(key, state, expected, now))
    }

    /// Begins a rewrite of `file`, the open journal, if it is due.
    fn begin_rewrite(&self, file: &OpenJournal) -> Option<JournalRewrite> {
        let is_due = file.bytes > COMPACT_BYTES.max(4 * file.compact_bytes);
        if !is_due || self.is_rewritten.swap(true, Ordering::Acquire) {
            return None;
        }
        let mut rewrite = JournalRewrite {
            sessions: Vec::new(),
            end: 0,
            is_rewritten: Arc::clone(&self.is_rewritten),
        };
        rewrite.end = file.file.metadata().ok()?.len();
        rewrite.sessions = self.memory.all();
        Some(rewrite)
    }

    /// Rewrites the file. Other threads append to it meanwhile, but for the last step.
    fn rewrite(&self, mut rewrite: JournalRewrite) {
        if self.try_rewrite(&mut rewrite).is_err() {
            // All lines are there. It is tried again when there are four times as many.
            let mut file = self.file.blocking_lock();
            file.compact_bytes = file.bytes;
        }
    }

    fn try_rewrite(&self, rewrite: &mut JournalRewrite) -> io::Result<()> {
        let sessions = std::mem::take(&mut rewrite.sessions);
        let (mut new, compact_bytes) = write_beside(&self.path, &sessions)?;
        drop(sessions);
        let Ok(mut old) = File::open(&self.path) else {
            return self.rewrite_waiting();
        };
        old.seek(SeekFrom::Start(rewrite.end))?;
        let mut bytes = compact_bytes;
        for _ in 0..COPIES {
            let copied = io::copy(&mut old, &mut new)?;
            bytes += copied;
            new.sync_data()?;
            if copied <= LAST_BYTES {
                break;
            }
        }
        let mut file = self.file.blocking_lock();
        if !is_same_file(&old, &file.file)? {
            drop(file);
            return self.rewrite_waiting();
        }
        // The disk is not waited for: after a failure of the system, the last lines may be missing anyway.
        bytes += io::copy(&mut old, &mut new)?;
        fs::rename(beside(&self.path), &self.path)?;
        file.file = new;
        file.bytes = bytes;
        file.compact_bytes = compact_bytes;
        drop(file);
        sync_folder(&self.path);
        Ok(())
    }

    /// Rewrites the file while saves wait, because the path does not lead to it any more: it was removed or replaced.
    fn rewrite_waiting(&self) -> io::Result<()> {
        let mut file = self.file.blocking_lock();
        *file = rewritten(&self.path, &self.memory)?;
        Ok(())
    }
}

impl OpenJournal {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
            self.bytes += 1;
        }
        self.is_torn = true;
        self.file.write_all(line)?;
        self.is_torn = false;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

fn unwritten() -> SessionError {
    SessionError::new("the file of sessions cannot be written")
}

fn encode_line(key: &str, version: u64, state: &[u8]) -> Vec<u8> {
    let line = serde_json::json!({
        "key": key, "version": version, "state": String::from_utf8_lossy(state),
    });
    format!("{line}\n").into_bytes()
}

/// Returns the path of the file that takes the place of the journal.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    beside.into()
}

#[cfg(unix)]
fn is_same_file(one: &File, other: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let id = |file: &File| Ok::<_, io::Error>((file.metadata()?.dev(), file.metadata()?.ino()));
    Ok(id(one)? == id(other)?)
}

/// An open file keeps its path there.
#[cfg(not(unix))]
fn is_same_file(_: &File, _: &File) -> io::Result<bool> {
    Ok(true)
}

/// Writes sessions to the file beside the journal. Returns it and its length.
fn write_beside(
    path: &Path,
    sessions: &[(Arc<str>, Arc<StoredSession>)],
) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(beside(path))?;
    let mut bytes = 0;
    for (key, session) in sessions {
        let line = encode_line(key, session.version, &session.state);
        file.write_all(&line)?;
        bytes += line.len() as u64;
    }
    file.sync_data()?;
    Ok((file, bytes))
}

/// Waits until the folder of the file is on disk, where the system can do that. Otherwise a failure of the system could
/// bring back the file that was replaced.
fn sync_folder(path: &Path) {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        File::open(folder).and_then(|it| it.sync_all()).ok();
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Replaces the journal by a new file with all sessions.
fn rewritten(path: &Path, memory: &MemoryStore) -> io::Result<OpenJournal> {
    let (file, bytes) = write_beside(path, &memory.all())?;
    fs::rename(beside(path), path)?;
    sync_folder(path);
    Ok(OpenJournal {
        file,
        bytes,
        compact_bytes: bytes,
        is_torn: false,
    })
}

#[cfg(test)]
impl JournalStore {
    /// Writes further lines to another file, and returns the present one.
    pub(crate) fn write_to(&self, file: File) -> File {
        let mut open = self.0.file.try_lock().unwrap();
        std::mem::replace(&mut open.file, file)
    }

    fn write(&self, key: &str, state: &[u8], expected: u64) -> Result<bool, SessionError> {
        let mut open = self.0.file.try_lock().unwrap();
        let written = self.0.write(&mut open, key, state, expected);
        let due = self.0.begin_rewrite(&open);
        drop(open);
        due.into_iter().for_each(|due| self.0.rewrite(due));
        written
    }
}

impl SessionStore for JournalStore {
    fn load<'s>(&'s self, key: &'s str) -> StoreFuture<'s, Option<StoredSession>> {
        self.0.memory.load(key)
    }

    fn save<'s>(&'s self, key: &'s str, state: &'s [u8], expected: u64) -> StoreFuture<'s, bool> {
        Box::pin(async move {
            let journal = Arc::clone(&self.0);
            // Writes have the order of the calls, and one thread at most waits for the disk.
            let mut file = Arc::clone(&journal.file).lock_owned().await;
            let (key, state) = (key.to_owned(), state.to_vec());
            let write = move || {
                let written = journal.write(&mut file, &key, &state, expected);
                if let Some(due) = journal.begin_rewrite(&file) {
                    tokio::task::spawn_blocking(move || journal.rewrite(due));
                }
                written
            };
            let written = tokio::task::spawn_blocking(write).await;
            written.map_err(|_| unwritten())?
        })
    }
}

impl fmt::Debug for JournalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalStore")
            .field("memory", &self.0.memory)
            .field("path", &self.0.path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use ttsr_testing::Folder;

    fn open(path: &Path) -> Result<JournalStore, SessionError> {
        JournalStore::open(path, 10, Duration::from_secs(60))
    }

    #[test]
    fn sessions_outlive_the_store_and_a_damaged_line_is_left_out() {
        let folder = Folder::new();
        let path = folder.0.join("sessions");
        let store = open(&path).unwrap();
        assert!(store.write("a", b"{\"n\":1}", 0).unwrap());
        assert!(store.write("a", b"{\"n\":2}", 1).unwrap());
        assert!(!store.write("a", b"{\"n\":9}", 1).unwrap());
        assert!(store.write("b", b"{}", 0).unwrap());
        let error = open(&path).unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        drop(store);
        let written = fs::read(&path).unwrap();
        assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 3);
        for cut in [written.len(), written.len() - 1, written.len() - 7] {
            fs::write(&path, &written[..cut]).unwrap();
            let store = open(&path).unwrap();
            let known = store.0.memory.get("a", Instant::now()).unwrap();
            assert_eq!((known.version, &*known.state), (2, &b"{\"n\":2}"[..]));
            let is_whole = cut + 1 >= written.len();
            assert_eq!(store.0.memory.get("b", Instant::now()).is_some(), is_whole);
        }
    }

    #[test]
    fn a_file_that_is_mostly_old_is_rewritten() {
        let folder = Folder::new();
        let path = folder.0.join("sessions");
        let store = open(&path).unwrap();
        let state = vec![b'x'; 100_000];
        for version in 0..30 {
            assert!(store.write("a", &state, version).unwrap());
            assert!(fs::metadata(&path).unwrap().len() < COMPACT_BYTES + 200_000);
        }
        drop(store);
        let known = open(&path)
            .unwrap()
            .0
            .memory
            .get("a", Instant::now())
            .unwrap();
        assert_eq!((known.version, known.state), (30, state));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_disk_that_does_not_answer_keeps_no_other_task_waiting() {
        use std::io::Read as _;
        let folder = Folder::new();
        let store = Arc::new(open(&folder.0.join("sessions")).unwrap());
        let (mut disk, written) = io::pipe().unwrap();
        drop(store.write_to(File::from(std::os::fd::OwnedFd::from(written))));
        let (goes_on, others) = std::sync::mpsc::channel();
        let disk = std::thread::spawn(move || {
            let go_on = others.recv_timeout(Duration::from_secs(5)).is_ok();
            let mut bytes = Vec::new();
            disk.read_to_end(&mut bytes).unwrap();
            (go_on, bytes)
        });
        // More than a pipe takes.
        let state = vec![b'x'; 1 << 19];
        let save = |state: Vec<u8>, expected| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.save("a", &state, expected).await.unwrap() })
        };
        let saves = [
            save(state.clone(), 0),
            save(b"y".to_vec(), 1),
            save(state, 0),
        ];
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(
            store.load("a").await.unwrap(),
            None,
            "it is not written yet"
        );
        goes_on.send(()).ok();
        let mut results = Vec::new();
        for save in saves {
            results.push(save.await.unwrap());
        }
        assert_eq!(results, [true, true, false], "in the order of the calls");
        drop(store);
        let (go_on, bytes) = disk.join().unwrap();
        assert!(go_on, "the runtime waited for the disk");
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let versions =
            lines.map(|line| serde_json::from_slice::<JournalLine>(line).unwrap().version);
        assert_eq!(versions.collect::<Vec<_>>(), [1, 2]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_write_that_fails_in_the_middle_of_a_line_changes_nothing() {
        let folder = Folder::new();
        let path = folder.0.join("sessions");
        let store = open(&path).unwrap();
        assert!(store.write("a", b"{\"n\":1}", 0).unwrap());
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut usual = store.write_to(full);
        store.write("a", b"{\"n\":2}", 1).unwrap_err();
        let known = store.0.memory.get("a", Instant::now()).unwrap();
        assert_eq!((known.version, &*known.state), (1, &b"{\"n\":1}"[..]));
        usual.write_all(b"{\"key\":\"a\",\"vers").unwrap();
        drop(store.write_to(usual));
        assert!(store.write("a", b"{\"n\":3}", 1).unwrap());
        drop(store);
        let known = open(&path).unwrap().0.memory.get("a", Instant::now());
        let known = known.unwrap();
        assert_eq!((known.version, &*known.state), (2, &b"{\"n\":3}"[..]));
    }

    /// The sessions of a journal, by their key.
    fn all(store: &JournalStore) -> BTreeMap<String, (u64, Vec<u8>)> {
        let all = store.0.memory.all().into_iter();
        all.map(|(key, it)| (key.to_string(), (it.version, it.state.clone())))
            .collect()
    }

    /// Opens the journal once no other thread uses it.
    fn open_again(path: &Path) -> JournalStore {
        for _ in 0..2000 {
            match open(path) {
                Ok(store) => return store,
                Err(error) => assert!(error.to_string().contains("another process"), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the journal is never free");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_file_that_is_rewritten_slowly_keeps_no_write_waiting() {
        let folder = Folder::new();
        let path = folder.0.join("sessions");
        let store = open(&path).unwrap();
        // A pipe without a reader: the thread that rewrites the file waits when it opens it.
        let pipe = beside(&path);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let state = vec![b'x'; 100_000];
        for version in 0..30 {
            let save = store.save("a", &state, version);
            let saved = tokio::time::timeout(Duration::from_secs(20), save).await;
            assert!(saved.expect("it does not wait").unwrap());
        }
        assert!(store.0.is_rewritten.load(Ordering::Acquire));
        let mut reader = File::open(&pipe).unwrap();
        let mut line = Vec::new();
        io::Read::read_to_end(&mut reader, &mut line).unwrap();
        let line: JournalLine = serde_json::from_slice(&line).unwrap();
        assert!(line.version < 30, "it began before the last write");
        fs::remove_file(&pipe).unwrap();
        drop(store);
        // A pipe cannot be the journal: the old file is still written.
        assert_eq!(all(&open_again(&path))["a"], (30, state));
    }

    #[test]
    fn a_process_that_ends_while_the_file_is_rewritten_loses_nothing() {
        let folder = Folder::new();
        let path = folder.0.join("sessions");
        let store = open(&path).unwrap();
        assert!(store.write("a", b"{\"n\":1}", 0).unwrap());
        assert!(store.write("a", b"{\"n\":2}", 1).unwrap());
        assert!(store.write("b", b"{\"n\":3}", 0).unwrap());
        let mut file = store.0.file.try_lock().unwrap();
        // The bound is exceeded.
        file.bytes += COMPACT_BYTES;
        let rewrite = store.0.begin_rewrite(&file).unwrap();
        assert!(store.0.begin_rewrite(&file).is_none(), "there is one");
        let mut steps = Vec::new();
        for (key, state, expected) in [("b", "{}", 1), ("c", "[]", 0)] {
            assert!(
                store
                    .0
                    .write(&mut file, key, state.as_bytes(), expected)
                    .unwrap()
            );
            steps.push((fs::read(&path).unwrap(), all(&store)));
        }
        // A line that was written in part when the new file takes the place of the old one.
        file.is_torn = true;
        file.file.write_all(b"{\"key\":\"c\",\"ver").unwrap();
        drop(file);
        store.0.rewrite(rewrite);
        assert!(!store.0.is_rewritten.load(Ordering::Acquire));
        let new = fs::read(&path).unwrap();
        let is_new = |line: &[u8]| new.split(|byte| *byte == b'\n').any(|known| known == line);
        assert!(!is_new(
            steps[0].0.split(|byte| *byte == b'\n').next().unwrap()
        ));
        assert!(store.write("c", b"null", 1).unwrap());
        let last = fs::read(&path).unwrap();
        let after = all(&store);
        drop(store);
        // Before the new file takes its place, it is not read, however much of it was written.
        for (old, known) in &steps {
            for cut in 0..=new.len() {
                fs::write(&path, old).unwrap();
                fs::write(beside(&path), &new[..cut]).unwrap();
                assert_eq!(all(&open(&path).unwrap()), *known, "{cut}");
            }
        }
        fs::write(&path, &new).unwrap();
        assert_eq!(all(&open(&path).unwrap()), steps[1].1);
        // The next line may be written in part as well.
        for cut in new.len()..last.len() - 1 {
            fs::write(&path, &last[..cut]).unwrap();
            assert_eq!(all(&open(&path).unwrap()), steps[1].1, "{cut}");
        }
        fs::write(&path, &last).unwrap();
        assert_eq!(all(&open(&path).unwrap()), after);
        assert_eq!(after["c"], (2, b"null".to_vec()));
    }

    #[tokio::test]
    async fn no_write_is_lost_while_the_file_is_rewritten_again_and_again() {
        let folder = Folder::new();
        let path = folder.0.join("sessions");
        let store = Arc::new(open(&path).unwrap());
        let writers = ["a", "b", "c", "d"].map(|key| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for version in 0..100 {
                    let state = format!("{version}-{}", key.repeat(20_000));
                    assert!(store.save(key, state.as_bytes(), version).await.unwrap());
                }
            })
        });
        for writer in writers {
            writer.await.unwrap();
        }
        let rest = async || {
            while store.0.is_rewritten.load(Ordering::Acquire) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        rest().await;
        // Lines that were written during the last rewrite are obsolete as well.
        assert!(store.save("e", b"{}", 0).await.unwrap());
        rest().await;
        let size = fs::metadata(&path).unwrap().len();
        assert!(size < 2 * COMPACT_BYTES, "{size} of 8 MB");
        let known = all(&store);
        let versions: Vec<u64> = known.values().map(|(version, _)| *version).collect();
        assert_eq!(versions, [100, 100, 100, 100, 1]);
        drop(store);
        let store = open_again(&path);
        assert_eq!(all(&store), known);
        let size = fs::metadata(&path).unwrap().len();
        assert!(size < 100_000, "{size}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_removed_or_replaced_is_written_again() {
        for other in [None, Some("another file\n")] {
            let folder = Folder::new();
            let path = folder.0.join("sessions");
            let store = open(&path).unwrap();
            assert!(store.write("b", b"{}", 0).unwrap());
            fs::rename(&path, folder.0.join("elsewhere")).unwrap();
            other
                .into_iter()
                .for_each(|it| fs::write(&path, it).unwrap());
            let state = vec![b'x'; 100_000];
            for version in 0..30 {
                assert!(store.write("a", &state, version).unwrap());
            }
            let known = all(&store);
            drop(store);
            assert_eq!(all(&open(&path).unwrap()), known);
        }
    }

    #[test]
    fn a_file_that_cannot_be_rewritten_is_still_written() {
        let folder = Folder::new();
        let path = folder.0.join("sessions");
        let store = open(&path).unwrap();
        let beside = folder.0.join("sessions.new");
        fs::create_dir(&beside).unwrap();
        let state = vec![b'x'; 100_000];
        for version in 0..30 {
            assert!(store.write("a", &state, version).unwrap());
        }
        let size = fs::metadata(&path).unwrap().len();
        assert!(size > 30 * 100_000, "{size}");
        fs::remove_dir(&beside).unwrap();
        for version in 30..120 {
            assert!(store.write("a", &state, version).unwrap());
        }
        let size = fs::metadata(&path).unwrap().len();
        assert!(size < 30 * 100_000, "{size}");
    }
}
