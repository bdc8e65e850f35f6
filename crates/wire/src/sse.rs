//! An incremental parser of server-sent events: bytes in, fields and events out.
//!
//! Implements the event stream of the WHATWG HTML standard, section 9.2 "Server-sent events": CR, LF and CRLF end a
//! line, also mixed and cut between the two; `data` lines are joined by LF; a byte order mark at the start and comments
//! are ignored. It differs in two points, because recordings can be cut anywhere: [`Sse::finish`] dispatches an event
//! without its blank line and marks it `incomplete` (a last line without its line end is part of it), and lines that
//! are not a field are reported. This module knows no JSON.

use memchr::memchr2;

/// The default cap of one event, in bytes.
pub const CAP: usize = 64 << 20;

/// An item of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SseEvent<'a> {
    /// An event with at least one `data` line.
    Message {
        /// The `event` field, or empty.
        event: &'a str,
        /// The last `id` field of the stream so far, or empty.
        id: &'a str,
        /// The `data` lines, joined by LF.
        data: &'a [u8],
        /// True if the input ended before the blank line that completes the event.
        incomplete: bool,
    },
    /// A line that is neither a comment nor a field of the standard.
    Stray(&'a [u8]),
    /// An event over the cap, which was dropped whole.
    Dropped {
        /// Its length in bytes without line ends.
        bytes: u64,
    },
}

/// The incremental parser.
///
/// # Example: an event cut in two
/// ```
/// use ttsr_wire::sse::{Sse, SseEvent};
/// let mut seen = Vec::new();
/// let mut keep = |event: SseEvent<'_>| {
///     if let SseEvent::Message { data, .. } = event {
///         seen.push(data.to_vec());
///     }
/// };
/// let mut sse = Sse::new();
/// sse.push(b"data: one\r", &mut keep);
/// sse.push(b"\ndata:two\n\n", &mut keep);
/// assert_eq!(seen, [b"one\ntwo"]);
/// ```
#[derive(Clone, Debug)]
pub struct Sse {
    cap: usize,
    line: Vec<u8>,
    event: String,
    data: Vec<u8>,
    has_data: bool,
    id: String,
    retry: Option<u64>,
    /// True if the last byte was CR, so that an LF now belongs to it.
    after_cr: bool,
    /// True until the first line is complete: it may start with a byte order mark.
    first_line: bool,
    /// Set while an event over the cap is skipped.
    over: Option<OversizedEvent>,
}

#[derive(Clone, Copy, Debug)]
struct OversizedEvent {
    /// Bytes of the event so far.
    bytes: u64,
    /// True if the current line has bytes, so that its end does not end the event.
    in_line: bool,
}

impl Default for Sse {
    fn default() -> Sse {
        Sse::new()
    }
}

impl Sse {
    /// Returns a parser with the default [`CAP`].
    #[must_use]
    pub fn new() -> Sse {
        Sse::with_cap(CAP)
    }

    /// Returns a parser that drops events of more than `cap` bytes.
    ///
    /// # Example: an event over the cap
    /// ```
    /// use ttsr_wire::sse::{Sse, SseEvent};
    /// let mut dropped = 0;
    /// Sse::with_cap(8).push(b"data: 0123456789\n\n", &mut |event| {
    ///     if let SseEvent::Dropped { bytes } = event {
    ///         dropped += bytes;
    ///     }
    /// });
    /// assert_eq!(dropped, 16);
    /// ```
    #[must_use]
    pub fn with_cap(cap: usize) -> Sse {
        Sse {
            cap,
            line: Vec::new(),
            event: String::new(),
            data: Vec::new(),
            has_data: false,
            id: String::new(),
            retry: None,
            after_cr: false,
            first_line: true,
            over: None,
        }
    }

    /// Returns the last valid `retry` field, in milliseconds.
    #[must_use]
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Reads the next bytes. The same bytes give the same items however they are cut.
    ///
    /// # Complexity
    /// Linear in the number of bytes; memory is bounded by the cap and the longest argument.
    pub fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(SseEvent<'_>)) {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.after_cr = false;
        }
        while let Some(end) = memchr2(b'\r', b'\n', rest) {
            // A line that arrives whole is not copied.
            if self.line.is_empty() && self.over.is_none() && self.has_room(end) {
                self.whole_line(&rest[..end], on);
            } else {
                self.extend(&rest[..end]);
                self.end_line(on);
            }
            let crlf = rest[end] == b'\r' && rest.get(end + 1) == Some(&b'\n');
            self.after_cr = rest[end] == b'\r' && end + 1 == rest.len();
            rest = &rest[end + 1 + usize::from(crlf)..];
        }
        self.extend(rest);
    }

    /// Returns true if the next byte begins an event, whatever came before it.
    pub(super) fn is_between_events(&self) -> bool {
        let is_unread = self.first_line || self.after_cr || self.over.is_some();
        !is_unread && self.line.is_empty() && !self.has_data && self.event.is_empty()
    }

    /// Returns true if an event of that many bytes is not dropped.
    pub(super) fn has_room_for_event(&self, bytes: usize) -> bool {
        bytes <= self.cap
    }

    /// Ends the input: dispatches an unfinished event that has data, and resets the parser.
    ///
    /// # Example: no blank line after the last event
    /// ```
    /// use ttsr_wire::sse::{Sse, SseEvent};
    /// let mut sse = Sse::new();
    /// sse.push(b"data: one", &mut |_| unreachable!("the event may continue"));
    /// let mut count = 0;
    /// sse.finish(&mut |event| {
    ///     assert!(matches!(event, SseEvent::Message { data: b"one", .. }));
    ///     count += 1;
    /// });
    /// assert_eq!(count, 1);
    /// ```
    pub fn finish(&mut self, on: &mut dyn FnMut(SseEvent<'_>)) {
        if !self.line.is_empty() {
            self.end_line(on);
        }
        self.dispatch(true, on);
        *self = Sse::with_cap(self.cap);
    }

    fn extend(&mut self, bytes: &[u8]) {
        if let Some(over) = &mut self.over {
            over.bytes += bytes.len() as u64;
            over.in_line |= !bytes.is_empty();
            return;
        }
        if !self.has_room(bytes.len()) {
            self.over = Some(OversizedEvent {
                bytes: (self.kept_len() + bytes.len()) as u64,
                in_line: true,
            });
            self.line = Vec::new();
            self.data = Vec::new();
            return;
        }
        self.line.extend_from_slice(bytes);
    }

    fn kept_len(&self) -> usize {
        self.line.len() + self.data.len() + self.event.len()
    }

    fn has_room(&self, len: usize) -> bool {
        len <= self.cap.saturating_sub(self.kept_len())
    }

    fn end_line(&mut self, on: &mut dyn FnMut(SseEvent<'_>)) {
        if let Some(over) = &mut self.over {
            if !std::mem::take(&mut over.in_line) {
                self.dispatch(false, on);
            }
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        self.whole_line(&line, on);
        line.clear();
        self.line = line;
    }

    fn whole_line(&mut self, line: &[u8], on: &mut dyn FnMut(SseEvent<'_>)) {
        let mark = std::mem::take(&mut self.first_line) && line.starts_with(b"\xEF\xBB\xBF");
        let text = if mark { &line[3..] } else { line };
        if text.is_empty() {
            self.dispatch(false, on);
        } else {
            self.field(text, on);
        }
    }

    fn field(&mut self, line: &[u8], on: &mut dyn FnMut(SseEvent<'_>)) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"" => {}
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            b"id" if value.contains(&0) => {}
            b"id" => self.id = String::from_utf8_lossy(value).into_owned(),
            b"retry" => {
                let digits = std::str::from_utf8(value)
                    .ok()
                    .filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                self.retry = digits.and_then(|text| text.parse().ok()).or(self.retry);
            }
            _ => on(SseEvent::Stray(line)),
        }
    }

    fn dispatch(&mut self, incomplete: bool, on: &mut dyn FnMut(SseEvent<'_>)) {
        if let Some(OversizedEvent { bytes, .. }) = self.over.take() {
            on(SseEvent::Dropped { bytes });
        } else if self.has_data {
            on(SseEvent::Message {
                event: &self.event,
                id: &self.id,
                data: &self.data,
                incomplete,
            });
        }
        self.event.clear();
        self.data.clear();
        self.has_data = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one line per item: `event|id|data`, with `!` if incomplete, `?line`, or `-bytes`.
    fn events(cap: usize, pieces: &[&[u8]]) -> Vec<String> {
        let mut seen = Vec::new();
        let mut on = |event: SseEvent<'_>| {
            seen.push(match event {
                SseEvent::Message {
                    event,
                    id,
                    data,
                    incomplete,
                } => {
                    let data = String::from_utf8_lossy(data).replace('\n', "/");
                    format!("{event}|{id}|{data}{}", if incomplete { "!" } else { "" })
                }
                SseEvent::Stray(line) => format!("?{}", String::from_utf8_lossy(line)),
                SseEvent::Dropped { bytes } => format!("-{bytes}"),
            });
        };
        let mut sse = Sse::with_cap(cap);
        for piece in pieces {
            sse.push(piece, &mut on);
        }
        sse.finish(&mut on);
        seen
    }

    fn check(name: &str, cap: usize, text: &str, expected: &[&str]) {
        let text = text.as_bytes();
        assert_eq!(events(cap, &[text]), expected, "{name}: whole");
        let single: Vec<_> = text.chunks(1).collect();
        assert_eq!(events(cap, &single), expected, "{name}: byte by byte");
        for cut in 0..=text.len() {
            assert_eq!(
                events(cap, &[&text[..cut], b"", &text[cut..]]),
                expected,
                "{name}: cut at {cut}"
            );
        }
    }

    #[test]
    fn framing() {
        let cases: &[(&str, &str, &[&str])] = &[
            (
                "mixed line endings",
                "data: a\rdata: b\r\ndata: c\n\r\ndata: d\r\r",
                &["||a/b/c", "||d"],
            ),
            (
                "CRLF counted twice ends the event early",
                "data: a\r\ndata: b\r\n\r\n",
                &["||a/b"],
            ),
            (
                "several data lines",
                "data: a\ndata:\ndata:  b\n\n",
                &["||a// b"],
            ),
            ("comments", ": hi\n:\ndata: a\n:x\n\n:\n\n", &["||a"]),
            (
                "event, id and retry",
                "event: e\nid: 7\nretry: 10\ndata: a\n\ndata: b\n\n",
                &["e|7|a", "|7|b"],
            ),
            ("no space after the colon", "data:a\nevent:e\n\n", &["e||a"]),
            (
                "byte order mark",
                "\u{feff}data: a\n\n\u{feff}data: b\n\n",
                &["||a", "?\u{feff}data: b"],
            ),
            (
                "field without colon",
                "data\n\ndata\ndata\n\nevent\ndata: x\n\n",
                &["||", "||/", "||x"],
            ),
            ("event without data", "event: e\n\ndata: a\n\n", &["||a"]),
            (
                "no final blank line",
                "data: a\n\ndata: b\n",
                &["||a", "||b!"],
            ),
            ("no final line end", "data: a\ndata: b", &["||a/b!"]),
            (
                "cut inside the field name",
                "data: a\n\nda",
                &["||a", "?da"],
            ),
            (
                "unknown field",
                "foo: bar\n{\"error\":1}\n\n",
                &["?foo: bar", "?{\"error\":1}"],
            ),
            ("id with NUL", "id: 1\nid: a\0b\ndata: a\n\n", &["|1|a"]),
        ];
        for (name, text, expected) in cases {
            check(name, CAP, text, expected);
        }
    }

    #[test]
    fn event_over_the_cap_is_dropped_and_counted() {
        check(
            "long line",
            20,
            "data: 012345678901234567890\n\ndata: a\n\n",
            &["-27", "||a"],
        );
        check(
            "many lines",
            20,
            "data: 0123456\ndata: 0123456\ndata: x\n\ndata: a\n\n",
            &["-22", "||a"],
        );
        check("at the end", 8, "data: 0123456", &["-13"]);
        check("exactly the cap", 8, "data: 01\n\n", &["||01"]);
    }

    #[test]
    fn retry_takes_digits_only() {
        let mut sse = Sse::new();
        sse.push(
            b"retry: 250\nretry: 1e9\nretry: -1\nretry: 999999999999999999999\n",
            &mut |_| {},
        );
        assert_eq!(sse.retry(), Some(250));
    }
}
