//! A record, and the line it is written as.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::ser::{CharEscape, Formatter, Serializer};

use ttsr::Snapshot;
use ttsr::harness::Message;
use ttsr::harness::log::LogEvent;

/// The first line of every file: what it is, and the version of what follows.
pub(super) const HEADER: &str = "ttsr-session 1\n";
/// What the first line of a file of any version begins with.
pub(super) const MAGIC: &str = "ttsr-session ";

/// What was written at once: all of it is there, or nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// Its number, from 1; never twice in a file, and rising.
    pub seq: u64,
    /// When it was written, in milliseconds since 1970, as that machine's clock had it. Clocks go back: the
    /// order is that of `seq`.
    pub at: u64,
    /// What it says, in order.
    pub entries: Vec<Entry>,
}

/// One thing that a record says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Entry {
    /// A process took the session up.
    Begin {
        /// The version of the crate that wrote it.
        version: String,
    },
    /// A message that belongs to the conversation.
    Message {
        /// The message.
        message: Message,
    },
    /// Guidance that waits for the next request, and becomes a message with it.
    Waiting {
        /// The message that it will be.
        message: Message,
    },
    /// The guidance that waited is in a request, or was given up.
    Sent,
    /// What the rules know.
    Snapshot {
        /// The state of the session.
        snapshot: Box<Snapshot>,
    },
    /// Something that happened.
    Event {
        /// What it was.
        event: LogEvent,
    },
    /// Events that could not be written when they happened.
    Lost {
        /// How many.
        events: u64,
    },
    /// The file was written anew without what nobody needs to go on: numbers missing before here are not
    /// lost.
    Compacted,
    /// Something that a later version of the crate writes.
    #[serde(other)]
    Unknown,
}

impl Record {
    /// The record as a line of the file.
    pub(super) fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = vec![0; SUM];
        let mut serializer = Serializer::with_formatter(&mut line, OneLine);
        self.serialize(&mut serializer)?;
        let sum = sum(&line[SUM..]);
        line[..SUM].copy_from_slice(&sum);
        line.push(b'\n');
        Ok(line)
    }
}

/// What a line holds.
pub(super) enum Line {
    Whole(Record),
    /// The checksum is right and the contents are not understood.
    Strange(String),
    Damaged,
}

/// Reads a line, without its end.
pub(super) fn read(line: &[u8]) -> Line {
    let Some((written, json)) = line.split_at_checked(SUM) else {
        return Line::Damaged;
    };
    if written != sum(json) {
        return Line::Damaged;
    }
    match serde_json::from_slice(json) {
        Ok(record) => Line::Whole(record),
        Err(error) => Line::Strange(error.to_string()),
    }
}

/// Bytes of a checksum and the space after it.
const SUM: usize = 9;

fn sum(json: &[u8]) -> [u8; SUM] {
    let mut written = [b' '; SUM];
    let hex = format!("{:08x}", crc32fast::hash(json));
    written[..8].copy_from_slice(hex.as_bytes());
    written
}

/// Compact JSON in which no character ends a line, moves a cursor or turns the direction of text around,
/// whatever the model wrote: a record is one line in every viewer.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut plain = 0;
        for (place, character) in fragment.char_indices().filter(|(_, c)| is_unruly(*c)) {
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

/// ASCII controls are escaped by JSON already, but for DEL.
fn is_unruly(character: char) -> bool {
    matches!(character,
        '\u{7F}'..='\u{9F}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2066}'..='\u{2069}' | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}')
}
