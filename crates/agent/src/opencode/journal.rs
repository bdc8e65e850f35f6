//! The journal of actions in progress, from which a restarted watcher completes them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::server::Prompt;
use super::watch::StopAction;
use ttsr::harness::Failure;

/// The time to wait for a locked journal. A killed process holds its lock until the system has closed its files, which
/// happens after `kill` has returned, so a process that is started at once finds the journal locked.
const RELEASE: Duration = Duration::from_secs(1);

/// The version of the format.
const VERSION: u32 = 1;

/// The actions of a [`SessionWatcher`](super::SessionWatcher) in progress: one JSON file, which is replaced as a whole
/// when an action begins, advances, or ends.
///
/// The file is `{"version": 1, "acts": [...]}`. Each element of `acts` has `id`, `at` (seconds since 1970), `session`,
/// `message`, `delete`, `to`, `steer` (`text`, `agent`, `model`), `has_run`, `permission`, and `stage`: `begun`, `told`
/// (the parent was prompted), `stopping`, `stopped`. While files are put before a continuation prompt, the file also has
/// `continuations`: `id`, `at`, `session`, and, before the prompt is deleted or sent again, `prompt`: its id (`message`)
/// and the `body` of the request that sends it again.
///
/// An empty file of the same name with `.lock` appended is locked while a watcher uses the journal. Dropping the journal
/// releases the lock at once, also if another thread starts a process at that moment, which inherits the open file for a
/// moment. A process that is killed holds the lock until the system has closed its files: some milliseconds after the
/// signal, and never after `wait` has returned.
///
/// # Example: one watcher at a time
/// ```
/// use ttsr_agent::opencode::ActionJournal;
/// let folder = std::env::temp_dir().join(format!("ttsr-journal-{}", std::process::id()));
/// let path = folder.join("acts.json");
/// let journal = ActionJournal::open(&path)?;
/// assert_eq!(ActionJournal::open(&path).unwrap_err().kind(), "taken");
/// drop(journal);
/// assert!(ActionJournal::open(&path).is_ok());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ActionJournal {
    path: PathBuf,
    /// Locked while the journal is open.
    lock: File,
    acts: Vec<JournalEntry>,
    continuations: Vec<JournaledContinuation>,
    next: u64,
}

impl Drop for ActionJournal {
    fn drop(&mut self) {
        // Closing the file releases the lock only if no other descriptor refers to it, and a process that another
        // thread forks has one until it calls `exec`.
        self.lock.unlock().ok();
    }
}

/// A continuation prompt whose files are being added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct JournaledContinuation {
    pub(super) id: u64,
    /// Seconds since 1970.
    at: u64,
    pub(super) session: String,
    /// The prompt, once it may be deleted from the session or sent again.
    pub(super) prompt: Option<ResentPrompt>,
}

impl JournaledContinuation {
    pub(super) fn is_expired(&self) -> bool {
        is_expired(self.at)
    }
}

/// A prompt that is sent again, after it was deleted from its session if no tool has run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ResentPrompt {
    /// The id of the message.
    pub(super) message: String,
    /// The body of the request that sends it again; `None` if it is too long to be kept. Then it is not deleted.
    pub(super) body: Option<serde_json::Value>,
}

/// An action in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalEntry {
    pub(super) id: u64,
    /// Seconds since 1970.
    at: u64,
    pub(super) session: String,
    pub(super) message: String,
    delete: bool,
    to: String,
    steer: Option<JournaledPrompt>,
    has_run: bool,
    permission: Option<String>,
    pub(super) stage: ActionStage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct JournaledPrompt {
    text: String,
    agent: Option<String>,
    model: Option<(String, String)>,
}

/// The progress of an action. A stage is written before its request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ActionStage {
    /// No request was sent.
    Begun,
    /// The parent of a sub-agent was prompted.
    Told,
    /// The stop was sent.
    Stopping,
    /// The session is stopped and, if the action deletes the message, the message is deleted.
    Stopped,
}

#[derive(Default, Serialize, Deserialize)]
struct JournalFile {
    version: u32,
    acts: Vec<JournalEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    continuations: Vec<JournaledContinuation>,
}

impl ActionJournal {
    /// The most actions kept; past it the oldest is dropped.
    pub const MAX_ACTIONS: usize = 64;

    /// The most bytes of a prompt's text that are kept. A longer text is cut at a character boundary.
    pub const MAX_TEXT: usize = 16 << 10;

    /// The most bytes of the file. A longer file is not read, and the oldest actions are dropped to stay below it.
    pub const MAX_BYTES: u64 = 1 << 20;

    /// The most continuations kept. The files of a further one are added without deleting its prompt.
    pub const MAX_CONTINUATIONS: usize = 4;

    /// The most bytes of a continuation prompt that is kept. A longer prompt is not deleted from its session.
    pub const MAX_PROMPT: usize = 128 << 10;

    /// The age at which actions are dropped: the user has continued by then.
    pub const MAX_AGE: Duration = Duration::from_secs(60 * 60);

    /// Opens the journal at `path`, and creates it and its folder if they do not exist. A file that is not a journal is
    /// treated as empty and is replaced by the next write. Waits up to a second while another process has it open: one
    /// that was killed may take a moment to end.
    ///
    /// # Errors
    /// Of the kind `taken` if another process still has it open; of the kind `io` if it cannot be created or read.
    pub fn open(path: impl AsRef<Path>) -> Result<ActionJournal, Failure> {
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
        let began = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(fs::TryLockError::WouldBlock) if began.elapsed() < RELEASE => {
                    sleep(Duration::from_millis(10));
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(another_watcher(&format!(
                        "it has the journal {} open",
                        path.display()
                    )));
                }
                Err(fs::TryLockError::Error(error)) => return Err(because(error)),
            }
        }
        let JournalFile {
            acts,
            continuations,
            ..
        } = read(&path).map_err(because)?;
        let ids = acts.iter().map(|action| action.id);
        let ids = ids.chain(continuations.iter().map(|it| it.id));
        let next = ids.max().map_or(0, |last| last + 1);
        Ok(ActionJournal {
            path,
            lock,
            acts,
            continuations,
            next,
        })
    }

    /// Returns the stops that were not completed, oldest first.
    pub(super) fn pending(&self) -> Vec<JournalEntry> {
        self.acts.clone()
    }

    /// Returns the continuations that were not completed, oldest first.
    pub(super) fn pending_continuations(&self) -> Vec<JournaledContinuation> {
        self.continuations.clone()
    }

    /// Records that files are put before the continuation prompt of a session and returns the id of the action, or
    /// `None` if there are too many.
    pub(super) fn begin_continuation(&mut self, session: &str) -> io::Result<Option<u64>> {
        if self.continuations.len() >= ActionJournal::MAX_CONTINUATIONS {
            return Ok(None);
        }
        let id = self.next;
        self.next += 1;
        self.continuations.push(JournaledContinuation {
            id,
            at: now(),
            session: session.to_owned(),
            prompt: None,
        });
        self.write()?;
        Ok(Some(id))
    }

    /// Records the prompt of a continuation before it is deleted or sent again. Returns true if it may be deleted: its
    /// `body` is recorded.
    pub(super) fn record_prompt(&mut self, id: u64, mut prompt: ResentPrompt) -> io::Result<bool> {
        let length = serde_json::to_vec(&prompt)?.len();
        prompt.body.take_if(|_| length > ActionJournal::MAX_PROMPT);
        let is_kept = prompt.body.is_some();
        let Some(known) = self.continuations.iter_mut().find(|it| it.id == id) else {
            return Ok(false);
        };
        known.prompt = Some(prompt);
        self.write()?;
        Ok(is_kept)
    }

    /// Records that a stop begins and returns its id. Actions of a single request are not recorded.
    pub(super) fn begin(&mut self, stop: &StopAction) -> io::Result<u64> {
        let id = self.next;
        self.next += 1;
        self.acts.push(JournalEntry {
            id,
            at: now(),
            session: stop.session.clone(),
            message: stop.message.clone(),
            delete: stop.delete,
            to: stop.to.clone(),
            steer: stop.steer.as_ref().map(JournaledPrompt::from_prompt),
            has_run: stop.has_run,
            permission: stop.permission.clone(),
            stage: ActionStage::Begun,
        });
        let excess = self.acts.len().saturating_sub(ActionJournal::MAX_ACTIONS);
        self.acts.drain(..excess);
        self.write()?;
        Ok(id)
    }

    pub(super) fn advance(&mut self, id: u64, stage: ActionStage) -> io::Result<()> {
        for action in self.acts.iter_mut().filter(|action| action.id == id) {
            action.stage = stage;
        }
        self.write()
    }

    pub(super) fn end(&mut self, id: u64) -> io::Result<()> {
        self.acts.retain(|action| action.id != id);
        self.continuations.retain(|it| it.id != id);
        self.write()
    }

    /// Replaces the file atomically: if the process ends during the write, the old file stays.
    fn write(&mut self) -> io::Result<()> {
        let text = loop {
            let written = JournalFile {
                version: VERSION,
                acts: self.acts.clone(),
                continuations: self.continuations.clone(),
            };
            let text = serde_json::to_vec(&written)?;
            if text.len() as u64 <= ActionJournal::MAX_BYTES || self.acts.is_empty() {
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

/// Returns the failure for a server on which another watcher acts; `evidence` says how it was noticed.
pub(super) fn another_watcher(evidence: &str) -> Failure {
    let why = format!(
        "another `ttsr watch` acts on this server ({evidence}); `--dry-run` watches beside it"
    );
    Failure::new("taken", why)
}

fn read(path: &Path) -> io::Result<JournalFile> {
    let length = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(JournalFile::default()),
        Err(error) => return Err(error),
    };
    if length > ActionJournal::MAX_BYTES {
        return Ok(JournalFile::default());
    }
    let written: Option<JournalFile> = serde_json::from_slice(&fs::read(path)?).ok();
    let written = written.filter(|written| written.version == VERSION);
    Ok(written.unwrap_or_default())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn is_expired(at: u64) -> bool {
    now().saturating_sub(at) > ActionJournal::MAX_AGE.as_secs()
}

impl JournaledPrompt {
    fn from_prompt(prompt: &Prompt) -> JournaledPrompt {
        let mut text = prompt.text.clone();
        text.truncate(text.floor_char_boundary(ActionJournal::MAX_TEXT));
        JournaledPrompt {
            text,
            agent: prompt.agent.clone(),
            model: prompt.model.clone(),
        }
    }
}

impl JournalEntry {
    /// Returns the action.
    pub(super) fn stop(&self) -> StopAction {
        StopAction {
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

    pub(super) fn is_expired(&self) -> bool {
        is_expired(self.at)
    }
}
