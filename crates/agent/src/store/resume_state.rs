//! The state that a file holds for resuming a session.

use super::error::{StoreError, StoreErrorKind};
use super::read::StoredItem;
use super::record::{Entry, Record};
use ttsr::harness::Message;
use ttsr::session::Lost;
use ttsr::{Conversation, Pack, Snapshot};

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
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ResumeState {
    /// The messages, each with the number and the time of its record.
    messages: Vec<(u64, u64, Message)>,
    /// Guidance that an earlier version of the crate wrote as messages, and that no request has carried.
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

    /// Returns the messages of the conversation, oldest first. Guidance that waits is not among them: the restored
    /// [conversation](Self::conversation) gives it to the next request. Only guidance that a file of an earlier version
    /// of the crate has as messages is at the end.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let messages = self.messages.iter().map(|(_, _, message)| message);
        messages.chain(&self.waiting).cloned().collect()
    }

    /// Returns the conversation in the state of the last record, with the guidance that waits, or a new conversation;
    /// and the rules whose state could not be restored. See [`Conversation::restore`].
    ///
    /// # Example: guidance that waits, and a changed rule
    /// ```
    /// use ttsr_agent::store::{Entry, Store};
    /// use ttsr::{Conversation, Pack, PartId, Pattern, Rule};
    /// let path = std::env::temp_dir().join(format!("ttsr-rules-{}.ttsr", std::process::id()));
    /// # std::fs::remove_file(&path).ok();
    /// let pack = |text: &str| {
    ///     let mut rule = Rule::new("demo/it", vec![Pattern::literal(text)]);
    ///     rule.message = Some("Not that.".into());
    ///     Pack::builder().rule(rule).build()
    /// };
    /// let mut conversation = Conversation::new(&pack("foo")?);
    /// conversation.turn("Go.").attempt().push(PartId(0), b"foo").ok()?;
    /// let (mut store, _) = Store::open(&path)?;
    /// store.append(vec![Entry::Snapshot { snapshot: Box::new(conversation.snapshot()) }])?;
    /// store.close()?;
    ///
    /// let (_store, found) = Store::open(&path)?;
    /// let (conversation, lost) = found.conversation(&pack("foo")?);
    /// assert!(lost.is_empty());
    /// assert_eq!(conversation.guidance().map(|note| note.text).collect::<Vec<_>>(), ["Not that."]);
    /// let (_, lost) = found.conversation(&pack("bar")?);
    /// assert_eq!((&*lost[0].rule, lost[0].is_changed), ("demo/it", true));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn conversation(&self, pack: &Pack) -> (Conversation, Vec<Lost>) {
        match &self.snapshot {
            Some(snapshot) => Conversation::restore(pack, snapshot),
            None => (Conversation::new(pack), Vec::new()),
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
            StoredItem::Unrecognized { why, .. } => {
                return Err(StoreError::with_reason(StoreErrorKind::Unrecognized, why));
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
        // The process that resumed such a file sent the guidance with its first request.
        let is_resumed = matches!(entries.first(), Some(Entry::Begin { .. }));
        if is_resumed && !entries.contains(&Entry::Sent) {
            let sent = self.waiting.drain(..).map(|message| (seq, at, message));
            self.messages.extend(sent);
        }
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
        let mut entries: Vec<Entry> = waiting.map(|message| Entry::Message { message }).collect();
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
