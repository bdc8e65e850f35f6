//! A parser of Amazon's binary event stream (`application/vnd.amazon.eventstream`): bytes in, messages out.
//!
//! Source: the "Amazon Event Stream" specification of Smithy 2.0.
//!
//! A message is its length, the length of its headers, a CRC-32 of both, the headers, the payload and a CRC-32 of all.
//! After a prelude with a wrong checksum the next message cannot be located, so the rest of the input is counted. This
//! module knows no JSON.

/// The number of bytes before the headers.
pub(super) const PRELUDE: usize = 12;

/// A message, or damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventStreamFrame<'a> {
    Message {
        /// The type of the event or of the exception.
        event: &'a str,
        exception: bool,
        payload: &'a [u8],
    },
    /// Bytes that are not a valid message, and the kind that they are counted under.
    Lost { bytes: u64, kind: &'static str },
}

#[derive(Clone, Debug)]
pub(super) struct EventStreamParser {
    cap: usize,
    pending: Vec<u8>,
    /// The bytes yet to skip of a message over the cap; `over` is its whole length.
    skip: u64,
    over: u64,
    /// Bytes after a damaged prelude.
    lost: Option<u64>,
}

impl EventStreamParser {
    /// Returns true if bytes wait for the rest of their message.
    pub(super) fn has_partial(&self) -> bool {
        self.skip > 0 || !self.pending.is_empty()
    }

    pub(super) fn with_cap(cap: usize) -> EventStreamParser {
        EventStreamParser {
            cap,
            pending: Vec::new(),
            skip: 0,
            over: 0,
            lost: None,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(EventStreamFrame<'_>)) {
        let bytes = self.skipped(bytes, on);
        if let Some(lost) = &mut self.lost {
            *lost += bytes.len() as u64;
            return;
        }
        self.pending.extend_from_slice(bytes);
        let mut pending = std::mem::take(&mut self.pending);
        let left = self.messages(&pending, on);
        pending.drain(..pending.len() - left);
        self.pending = pending;
    }

    /// Emits the complete messages; returns the number of bytes after them.
    fn messages(&mut self, bytes: &[u8], on: &mut dyn FnMut(EventStreamFrame<'_>)) -> usize {
        let mut rest = bytes;
        while rest.len() >= PRELUDE {
            let Some(length) = length(rest) else {
                self.lost = Some(rest.len() as u64);
                return 0;
            };
            if length > self.cap {
                (self.skip, self.over) = (length as u64, length as u64);
                rest = self.skipped(rest, on);
                continue;
            }
            let Some(message) = rest.get(..length) else {
                break;
            };
            on(read(message));
            rest = &rest[length..];
        }
        rest.len()
    }

    pub(super) fn finish(&mut self, on: &mut dyn FnMut(EventStreamFrame<'_>)) {
        let mut lose = |bytes: u64, kind| {
            if bytes > 0 {
                on(EventStreamFrame::Lost { bytes, kind });
            }
        };
        lose(self.over - self.skip, "too-long");
        lose(self.lost.unwrap_or(0), "not-event-stream");
        lose(self.pending.len() as u64, "incomplete-message");
        *self = EventStreamParser::with_cap(self.cap);
    }

    /// Returns the bytes after a message over the cap.
    fn skipped<'a>(
        &mut self,
        bytes: &'a [u8],
        on: &mut dyn FnMut(EventStreamFrame<'_>),
    ) -> &'a [u8] {
        let count = usize::try_from(self.skip).map_or(bytes.len(), |skip| skip.min(bytes.len()));
        self.skip -= count as u64;
        if self.over > 0 && self.skip == 0 {
            let bytes = std::mem::take(&mut self.over);
            let kind = "too-long";
            on(EventStreamFrame::Lost { bytes, kind });
        }
        &bytes[count..]
    }
}

/// Returns the length of the message that starts here, or `None` if its prelude is damaged. `bytes` has at least
/// [`PRELUDE`] bytes.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let (total, headers) = (number(bytes, 0)?, number(bytes, 4)?);
    let sound = crc32fast::hash(&bytes[..8]) == number(bytes, 8)?;
    let fits = u64::from(headers) + PRELUDE as u64 + 4 <= u64::from(total);
    (sound && fits).then_some(total as usize)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Parses a complete message.
fn read(message: &[u8]) -> EventStreamFrame<'_> {
    let lost = |kind| EventStreamFrame::Lost {
        bytes: message.len() as u64,
        kind,
    };
    let end = message.len() - 4;
    if number(message, end) != Some(crc32fast::hash(&message[..end])) {
        return lost("bad-checksum");
    }
    let headers = number(message, 4).map_or(0, |length| length as usize);
    let (headers, payload) = message[PRELUDE..end].split_at(headers);
    let (mut event, mut exception) = ("", false);
    let mut rest = headers;
    while let Some((name, value, after)) = header(rest) {
        match name {
            b":event-type" => event = value,
            b":exception-type" | b":error-code" => (event, exception) = (value, true),
            _ => {}
        }
        rest = after;
    }
    if !rest.is_empty() {
        return lost("bad-headers");
    }
    EventStreamFrame::Message {
        event,
        exception,
        payload,
    }
}

/// Parses the first header: returns its name, its value if that is a string, and the rest.
fn header(bytes: &[u8]) -> Option<(&[u8], &str, &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(length.into())?;
    let (&kind, rest) = rest.split_first()?;
    let (size, rest) = match kind {
        0 | 1 => (0, rest),
        2 => (1, rest),
        3 => (2, rest),
        4 => (4, rest),
        5 | 8 => (8, rest),
        6 | 7 => {
            let (size, rest) = rest.split_first_chunk()?;
            (u16::from_be_bytes(*size).into(), rest)
        }
        9 => (16, rest),
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(size)?;
    let text = std::str::from_utf8(value).unwrap_or_default();
    Some((name, if kind == 7 { text } else { "" }, rest))
}
