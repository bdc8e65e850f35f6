//! What a file holds that is needed to go on.

use super::error::{StoreError, StoreErrorKind};
use super::read::Piece;
use super::record::{Entry, Record};
use ttsr::harness::Message;
use ttsr::session::Lost;
use ttsr::{Pack, Session, Snapshot};

/// What was found in the file of a session.
///
/// # Example: a file whose last record was torn
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
pub struct Kept {
    /// Messages with the number and the time of the record they are of.
    messages: Vec<(u64, u64, Message)>,
    waiting: Vec<Message>,
    snapshot: Option<Snapshot>,
    pub(super) is_new: bool,
    /// The number of the last record.
    pub(super) latest: u64,
    /// Up to where the file is whole lines.
    pub(super) whole_bytes: u64,
    pub(super) torn_bytes: u64,
    records: u64,
    damaged: u64,
    repeated: u64,
    missing: u64,
    /// Entries that only a later version knows.
    pub(super) unknown: u64,
}

impl Kept {
    /// Of a file with nothing in it.
    pub(super) fn nothing() -> Kept {
        Kept {
            is_new: true,
            // The beginning of a first line, if there is one, is cut off.
            torn_bytes: 1,
            ..Kept::default()
        }
    }

    /// The conversation, oldest message first.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let messages = self.messages.iter();
        messages.map(|(_, _, message)| message.clone()).collect()
    }

    /// Guidance that waited for a request which never was sent: it belongs into the next one.
    #[must_use]
    pub fn waiting(&self) -> &[Message] {
        &self.waiting
    }

    /// The session as it was when the last record was written, or a new one; and the rules whose state
    /// could not be kept. See [`Pack::restore`].
    ///
    /// # Example: other rules than before
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

    /// Whether there was no such file, or nothing in it.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// How many records were read.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes of a last record that was never completed. They were cut off.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        if self.is_new { 0 } else { self.torn_bytes }
    }

    /// Lines that were not believed, because their checksum is wrong: the disk or someone else changed them.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Records whose number was there already: not believed either.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Records that were written and are not there, as far as the numbers of the others tell.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Takes the next piece of a file.
    pub(super) fn take(&mut self, piece: Piece) -> Result<(), StoreError> {
        match piece {
            Piece::Record(record) => self.take_record(record),
            Piece::Damaged { .. } => self.damaged += 1,
            Piece::Repeated { .. } => self.repeated += 1,
            Piece::Strange { why, .. } => {
                return Err(StoreError::of(StoreErrorKind::Strange, why));
            }
            Piece::Torn { bytes, .. } => self.torn_bytes = bytes,
        }
        Ok(())
    }

    fn take_record(&mut self, record: Record) {
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

    /// The records of a file that holds only this.
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
