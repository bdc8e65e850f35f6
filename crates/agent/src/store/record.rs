//! A record and its line in the file.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::ser::{CharEscape, Formatter, Serializer};

use ttsr::Snapshot;
use ttsr::harness::Message;
use ttsr::harness::event::LoopEvent;

/// The first line of every file: the format and its version.
pub(super) const HEADER: &str = "ttsr-session 1\n";
/// The start of the first line of a file of any version.
pub(super) const MAGIC: &str = "ttsr-session ";

/// The entries that are written at once, completely or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// Its number, from 1; unique and rising in a file.
    pub seq: u64,
    /// The time of the write, in milliseconds since 1970, by the clock of that machine. Clocks can go back: the order
    /// is that of `seq`.
    pub at: u64,
    /// The entries, in order.
    pub entries: Vec<Entry>,
}

/// One entry of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Entry {
    /// A process opened the session.
    Begin {
        /// The version of the crate that wrote it.
        version: String,
    },
    /// A message of the conversation.
    Message {
        /// The message.
        message: Message,
    },
    /// Guidance for the next request, with which it becomes a message. Only earlier versions of the crate write it: now
    /// the snapshot contains the guidance that waits.
    Waiting {
        /// The message.
        message: Message,
    },
    /// The guidance of [`Entry::Waiting`] was sent in a request, or was dropped.
    Sent,
    /// The state of the conversation: of its rules, and the guidance that waits.
    Snapshot {
        /// The state.
        snapshot: Box<Snapshot>,
    },
    /// An event for the log.
    Event {
        /// The event.
        event: LoopEvent,
    },
    /// Events that could not be written when they happened.
    Lost {
        /// Their number.
        events: u64,
    },
    /// The file was rewritten with only the data needed to resume: numbers missing before this entry are not lost.
    Compacted,
    /// An entry of a later version of the crate.
    #[serde(other)]
    Unknown,
}

impl Record {
    /// Returns the record as a line of the file.
    pub(super) fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = vec![0; CHECKSUM_LEN];
        let mut serializer = Serializer::with_formatter(&mut line, OneLineFormatter);
        self.serialize(&mut serializer)?;
        let checksum = checksum_field(&line[CHECKSUM_LEN..]);
        line[..CHECKSUM_LEN].copy_from_slice(&checksum);
        line.push(b'\n');
        Ok(line)
    }
}

/// A parsed line.
pub(super) enum RecordLine {
    Whole(Record),
    /// The checksum is valid, but the contents are not understood.
    Unrecognized(String),
    Damaged,
}

/// Parses a line without its end.
pub(super) fn read(line: &[u8]) -> RecordLine {
    let Some((written, json)) = line.split_at_checked(CHECKSUM_LEN) else {
        return RecordLine::Damaged;
    };
    if written != checksum_field(json) {
        return RecordLine::Damaged;
    }
    match serde_json::from_slice(json) {
        Ok(record) => RecordLine::Whole(record),
        Err(error) => RecordLine::Unrecognized(error.to_string()),
    }
}

/// The length of a checksum and the space after it, in bytes.
const CHECKSUM_LEN: usize = 9;

/// Returns the checksum of a record as eight hexadecimal digits, and the space after it.
fn checksum_field(json: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut written = [b' '; CHECKSUM_LEN];
    let hex = format!("{:08x}", crc32fast::hash(json));
    written[..8].copy_from_slice(hex.as_bytes());
    written
}

/// Writes compact JSON without a character that ends a line, moves the cursor or changes the text direction, so that a
/// record is one line in every viewer.
struct OneLineFormatter;

impl Formatter for OneLineFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut plain = 0;
        for (place, character) in fragment.char_indices().filter(|(_, c)| must_escape(*c)) {
            to.write_all(&fragment.as_bytes()[plain..place])?;
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(to, "\\u{unit:04x}")?;
            }
            plain = place + character.len_utf8();
        }
        to.write_all(&fragment.as_bytes()[plain..])
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(to, escape)
    }
}

/// Returns true for characters to escape. JSON already escapes the ASCII controls except DEL.
fn must_escape(character: char) -> bool {
    matches!(character,
        '\u{7F}'..='\u{9F}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2066}'..='\u{2069}' | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}')
}
