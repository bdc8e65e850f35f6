//! The state that a file holds for resuming a session.

use super::error::{StoreError, StoreErrorKind};
use super::read::StoredItem;
use super::record::{Entry, Record};
use ttsr::harness::Message;
use ttsr::session::Lost;
use ttsr::{Pack, Session, Snapshot};

/// The contents of a session file, for resuming the session.
///
/// # Example: a file with a torn last record
/// ```
/// use std::io::Write;
/// use ttsr::harness::Message;
/// use ttsr_agent::store::{Entry, Store};
/// let path = std::env::temp_dir().join(format!("ttsr-kept-{}.ttsr", std::process::id()));
/// # std::fs::remove_file(&path).ok();
/// let (mut store, found) = Store::open(&path)?;
/// assert!(found.is_new());
/// store.append(vec![Entry::Message { message: Message::user("Hi.") }])?;
/// store.close()?;
/// std::fs::OpenOptions::new().append(true).open(&path)?.write_all(b"0000 half a rec")?;
///
/// let (_store, found) = Store::open(&path)?;
/// assert_eq!(found.messages(), [Message::user("Hi.")]);
/// assert_eq!((found.torn_bytes(), found.damaged(), found.missing()), (15, 0, 0));
/// assert!(found.waiting().is_empty());
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ResumeState {
    /// The messages, each with the number and the time of its record.
    messages: Vec<(u64, u64, Message)>,
    waiting: Vec<Message>,
    snapshot: Option<Snapshot>,
    pub(super) is_new: bool,
    /// The number of the last record.
    pub(super) latest: u64,
    /// The length of the complete lines, in bytes.
    pub(super) whole_bytes: u64,
    pub(super) torn_bytes: u64,
    records: u64,
    damaged: u64,
    repeated: u64,
    missing: u64,
    /// The number of entries that only a later version understands.
    pub(super) unknown: u64,
}

impl ResumeState {
    /// Returns the contents of an empty file.
    pub(super) fn empty() -> ResumeState {
        ResumeState {
            is_new: true,
            // An incomplete first line, if there is one, is cut off.
            torn_bytes: 1,
            ..ResumeState::default()
        }
    }

    /// Returns the conversation, oldest message first.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let messages = self.messages.iter();
        messages.map(|(_, _, message)| message.clone()).collect()
    }

    /// Returns guidance that waited for a request which was never sent: it belongs into the next one.
    #[must_use]
    pub fn waiting(&self) -> &[Message] {
        &self.waiting
    }

    /// Returns the session in the state of the last record, or a new one; and the rules whose state could not be
    /// restored. See [`Pack::restore`].
    ///
    /// # Example: a changed rule
    /// ```
    /// use ttsr_agent::store::{Entry, Store};
    /// use ttsr::{Pack, PartId, Pattern, Rule, Verdict};
    /// let path = std::env::temp_dir().join(format!("ttsr-rules-{}.ttsr", std::process::id()));
    /// # std::fs::remove_file(&path).ok();
    /// let pack = |text: &str| Pack::builder().rule(Rule::new("demo/it", vec![Pattern::literal(text)])).build();
    /// let mut session = pack("foo")?.session();
    /// let mut stream = session.stream();
    /// assert_ne!(session.push(&mut stream, PartId(0), b"foo"), Verdict::Continue);
    /// let (mut store, _) = Store::open(&path)?;
    /// store.append(vec![Entry::Snapshot { snapshot: Box::new(session.snapshot()) }])?;
    /// store.close()?;
    ///
    /// let (_store, found) = Store::open(&path)?;
    /// let (_session, lost) = found.session(&pack("foo")?);
    /// assert!(lost.is_empty());
    /// let (_session, lost) = found.session(&pack("bar")?);
    /// assert_eq!((&*lost[0].rule, lost[0].is_changed), ("demo/it", true));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn session(&self, pack: &Pack) -> (Session, Vec<Lost>) {
        match &self.snapshot {
            Some(snapshot) => pack.restore(snapshot),
            None => (pack.session(), Vec::new()),
        }
    }

    /// Returns true if the file did not exist, or was empty.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the number of records that were read.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the length of an incomplete last record in bytes. It was cut off.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        if self.is_new { 0 } else { self.torn_bytes }
    }

    /// Returns the number of lines that were skipped because their checksum is wrong.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Returns the number of records that were skipped because their number occurred before.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Returns the number of lost records, from the gaps between record numbers.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Adds the next item of the file.
    pub(super) fn add_item(&mut self, item: StoredItem) -> Result<(), StoreError> {
        match item {
            StoredItem::Record(record) => self.add_record(record),
            StoredItem::Damaged { .. } => self.damaged += 1,
            StoredItem::Repeated { .. } => self.repeated += 1,
            StoredItem::Strange { why, .. } => {
                return Err(StoreError::with_reason(StoreErrorKind::Strange, why));
            }
            StoredItem::Torn { bytes, .. } => self.torn_bytes = bytes,
        }
        Ok(())
    }

    fn add_record(&mut self, record: Record) {
        let Record { seq, at, entries } = record;
        self.records += 1;
        self.missing += seq - self.latest - 1;
        self.latest = seq;
        for entry in entries {
            match entry {
                Entry::Message { message } => self.messages.push((seq, at, message)),
                Entry::Waiting { message } => self.waiting.push(message),
                Entry::Sent => self.waiting.clear(),
                Entry::Snapshot { snapshot } => self.snapshot = Some(*snapshot),
                Entry::Compacted => self.missing = 0,
                Entry::Unknown => self.unknown += 1,
                Entry::Begin { .. } | Entry::Event { .. } | Entry::Lost { .. } => {}
            }
        }
    }

    /// Returns the records of a file with only this state.
    pub(super) fn compacted(self, now: u64) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        for (seq, at, message) in self.messages {
            let entry = Entry::Message { message };
            match records.last_mut().filter(|last| last.seq == seq) {
                Some(last) => last.entries.push(entry),
                None => records.push(Record {
                    seq,
                    at,
                    entries: vec![entry],
                }),
            }
        }
        let waiting = self.waiting.into_iter();
        let mut entries: Vec<Entry> = waiting.map(|message| Entry::Waiting { message }).collect();
        let snapshot = self.snapshot.map(Box::new);
        entries.extend(snapshot.map(|snapshot| Entry::Snapshot { snapshot }));
        entries.push(Entry::Compacted);
        records.push(Record {
            seq: self.latest + 1,
            at: now,
            entries,
        });
        records
    }
}
