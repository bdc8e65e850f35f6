//! The acts that are under way, on disk, so that a restarted watcher completes them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::server::Prompt;
use super::watch::Act;
use ttsr::harness::Failure;

/// The version of the format.
const VERSION: u32 = 1;

/// The acts of [`Watch`](super::Watch) that are under way: one JSON file, which is replaced as a whole when an
/// act begins, gets further, or ends.
///
/// The file is `{"version": 1, "acts": [...]}`. An act has `id`, `at` (seconds since 1970), `session`, `message`,
/// `delete`, `to`, `steer` (`text`, `agent`, `model`), `has_run`, `permission`, and `stage`: `begun`, `told` (the
/// parent was prompted), `stopping`, `stopped`. Beside it lies an empty file of the same name with `.lock`
/// appended, which is locked while a watcher uses the journal.
///
/// # Example: one watcher at a time
/// ```
/// use ttsr_agent::opencode::Journal;
/// let folder = std::env::temp_dir().join(format!("ttsr-journal-{}", std::process::id()));
/// let path = folder.join("acts.json");
/// let journal = Journal::open(&path)?;
/// assert_eq!(Journal::open(&path).unwrap_err().kind(), "taken");
/// drop(journal);
/// assert!(Journal::open(&path).is_ok());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Locked as long as the journal is open.
    _lock: File,
    acts: Vec<Entry>,
    next: u64,
}

/// An act that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) id: u64,
    /// Seconds since 1970.
    at: u64,
    pub(super) session: String,
    pub(super) message: String,
    delete: bool,
    to: String,
    steer: Option<Steer>,
    has_run: bool,
    permission: Option<String>,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Steer {
    text: String,
    agent: Option<String>,
    model: Option<(String, String)>,
}

/// How far an act is. A stage is written before its request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// Nothing was sent.
    Begun,
    /// The parent of a sub-agent was prompted.
    Told,
    /// The stop was sent.
    Stopping,
    /// The session is stopped and the message deleted, if it was to be.
    Stopped,
}

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    acts: Vec<Entry>,
}

impl Journal {
    /// Most acts kept; past it the oldest is dropped.
    pub const MAX_ACTS: usize = 64;

    /// Most bytes of the text of a prompt that are kept. A longer text is cut at a character boundary.
    pub const MAX_TEXT: usize = 16 << 10;

    /// Most bytes of the file. A longer one is not read, and past it the oldest acts are dropped.
    pub const MAX_BYTES: u64 = 1 << 20;

    /// Acts that are older are dropped: the user has gone on by then.
    pub const MAX_AGE: Duration = Duration::from_secs(60 * 60);

    /// Opens the journal at `path`, and creates it and its folder if they do not exist. A file that is no
    /// journal counts as an empty one and is replaced by the next write.
    ///
    /// # Errors
    /// Of the kind `taken` if another process has it open; of the kind `io` if it cannot be created or read.
    pub fn open(path: impl AsRef<Path>) -> Result<Journal, Failure> {
        let path = path.as_ref().to_owned();
        let because = |error: io::Error| {
            let path = path.display();
            Failure::new("io", format!("the journal {path} cannot be used: {error}"))
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(because)?;
        }
        let mut name = path.clone().into_os_string();
        name.push(".lock");
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .open(name)
            .map_err(because)?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => taken(),
            fs::TryLockError::Error(error) => because(error),
        })?;
        let acts = read(&path).map_err(because)?;
        let next = acts.iter().map(|act| act.id + 1).max().unwrap_or(0);
        Ok(Journal {
            path,
            _lock: lock,
            acts,
            next,
        })
    }

    /// The acts that were not completed, oldest first.
    pub(super) fn pending(&self) -> Vec<Entry> {
        self.acts.clone()
    }

    /// Records that an act begins; its id. Only stops are recorded: every other act is a single request.
    pub(super) fn begin(&mut self, act: &Act) -> io::Result<Option<u64>> {
        let Act::Stop {
            session,
            message,
            delete,
            steer,
            to,
            has_run,
            permission,
            ..
        } = act
        else {
            return Ok(None);
        };
        let id = self.next;
        self.next += 1;
        self.acts.push(Entry {
            id,
            at: now(),
            session: session.clone(),
            message: message.clone(),
            delete: *delete,
            to: to.clone(),
            steer: steer.as_ref().map(Steer::of),
            has_run: *has_run,
            permission: permission.clone(),
            stage: Stage::Begun,
        });
        let excess = self.acts.len().saturating_sub(Journal::MAX_ACTS);
        self.acts.drain(..excess);
        self.write()?;
        Ok(Some(id))
    }

    pub(super) fn advance(&mut self, id: u64, stage: Stage) -> io::Result<()> {
        for act in self.acts.iter_mut().filter(|act| act.id == id) {
            act.stage = stage;
        }
        self.write()
    }

    pub(super) fn end(&mut self, id: u64) -> io::Result<()> {
        self.acts.retain(|act| act.id != id);
        self.write()
    }

    /// Replaces the file: a process that ends in the middle leaves the old one.
    fn write(&mut self) -> io::Result<()> {
        let text = loop {
            let written = Written {
                version: VERSION,
                acts: self.acts.clone(),
            };
            let text = serde_json::to_vec(&written)?;
            if text.len() as u64 <= Journal::MAX_BYTES || self.acts.is_empty() {
                break text;
            }
            self.acts.remove(0);
        };
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true);
        // Messages may quote what the model wrote.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&name)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(&name, &self.path)
    }
}

/// Another watcher acts on the same server.
pub(super) fn taken() -> Failure {
    let why = "another `ttsr watch` acts on this server; `--dry-run` watches beside it";
    Failure::new("taken", why)
}

fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let length = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    if length > Journal::MAX_BYTES {
        return Ok(Vec::new());
    }
    let written: Option<Written> = serde_json::from_slice(&fs::read(path)?).ok();
    let acts = written.filter(|written| written.version == VERSION);
    Ok(acts.map_or_else(Vec::new, |written| written.acts))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

impl Steer {
    fn of(prompt: &Prompt) -> Steer {
        let mut text = prompt.text.clone();
        text.truncate(text.floor_char_boundary(Journal::MAX_TEXT));
        Steer {
            text,
            agent: prompt.agent.clone(),
            model: prompt.model.clone(),
        }
    }
}

impl Entry {
    /// The act.
    pub(super) fn act(&self) -> Act {
        Act::Stop {
            session: self.session.clone(),
            message: self.message.clone(),
            delete: self.delete,
            steer: self.steer.as_ref().map(|steer| Prompt {
                text: steer.text.clone(),
                agent: steer.agent.clone(),
                model: steer.model.clone(),
                is_aside: false,
            }),
            to: self.to.clone(),
            has_run: self.has_run,
            permission: self.permission.clone(),
            decision: None,
        }
    }

    pub(super) fn is_old(&self) -> bool {
        now().saturating_sub(self.at) > Journal::MAX_AGE.as_secs()
    }
}
