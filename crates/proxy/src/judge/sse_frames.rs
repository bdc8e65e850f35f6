//! Splits an event stream into events without changing a byte.
//!
//! `ttsr_wire::sse` parses fields; here the bytes of each event stay as they arrived, so that an event that no rule
//! changes is forwarded as it is. Line ends are those of the WHATWG HTML standard, section 9.2: CR, LF and CRLF.

use std::borrow::Cow;

use super::frames::FrameBuffer;

/// Splits bytes that are cut anywhere into events, each with the blank line that ends it.
#[derive(Debug, Default)]
pub(crate) struct SseFrames {
    pub(super) buffer: FrameBuffer,
    /// True if the line that ends at [`FrameBuffer::searched`] is not empty.
    is_in_line: bool,
    last_cr: LastCr,
    /// True if a line of the stream ended with CRLF.
    has_crlf: bool,
}

/// A CR that was the last byte, to which an LF may belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastCr {
    #[default]
    None,
    OfLine,
    /// The event ends with it, and waits for the LF.
    OfBlankLine,
}

impl SseFrames {
    /// Returns the end of the first complete event. An LF that follows the CR of a blank line belongs to the event. It is
    /// waited for if the stream has lines that end with CRLF; otherwise an LF that arrives later begins the next event.
    pub(super) fn next_end(&mut self) -> Option<usize> {
        let bytes = self.buffer.bytes();
        let mut at = self.buffer.searched;
        let end = loop {
            let Some(&byte) = bytes.get(at) else {
                break None;
            };
            if self.last_cr == LastCr::OfBlankLine {
                self.last_cr = LastCr::None;
                at += usize::from(byte == b'\n');
                break Some(at);
            }
            let rest = &bytes[at..];
            let len = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
            if len > 0 {
                // The rest of a line.
                at += len;
                self.is_in_line = true;
                self.last_cr = LastCr::None;
            }
            let Some(&byte) = bytes.get(at) else {
                break None;
            };
            at += 1;
            let last_cr = std::mem::take(&mut self.last_cr);
            if last_cr == LastCr::OfLine && byte == b'\n' {
                self.has_crlf = true;
                continue;
            }
            let is_blank = !std::mem::replace(&mut self.is_in_line, false);
            if byte == b'\n' {
                if is_blank {
                    break Some(at);
                }
                continue;
            }
            match (is_blank, bytes.get(at)) {
                (false, _) => self.last_cr = LastCr::OfLine,
                (true, Some(next)) => {
                    at += usize::from(*next == b'\n');
                    break Some(at);
                }
                (true, None) if self.has_crlf => self.last_cr = LastCr::OfBlankLine,
                (true, None) => {
                    self.last_cr = LastCr::OfLine;
                    break Some(at);
                }
            }
        };
        self.buffer.searched = at;
        end
    }
}

/// Returns the lines of an event, each with its line end.
fn lines(event: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = event;
    std::iter::from_fn(move || {
        let end = memchr::memchr2(b'\r', b'\n', rest);
        let len = match end {
            Some(at) if rest[at] == b'\r' && rest.get(at + 1) == Some(&b'\n') => at + 2,
            Some(at) => at + 1,
            None => rest.len(),
        };
        let (line, after) = rest.split_at(len);
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

/// Splits a `data` line into its field name with colon and space, its value, and its line end.
fn data_line(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let end = line
        .iter()
        .rev()
        .take_while(|byte| is_line_end(byte))
        .count();
    let (text, line_end) = line.split_at(line.len() - end);
    let mark: &[u8] = if text.starts_with(b"\xEF\xBB\xBFdata") {
        b"\xEF\xBB\xBF"
    } else {
        b""
    };
    let after = text[mark.len()..].strip_prefix(b"data")?;
    let name = mark.len()
        + 4
        + match after {
            [b':', b' ', ..] => 2,
            [b':', ..] => 1,
            [] => 0,
            _ => return None,
        };
    Some((&text[..name], &text[name..], line_end))
}

/// Returns the data of an event, its lines joined by LF, or `None` if it has no data.
pub(crate) fn sse_data(event: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut values = lines(event).filter_map(|line| Some(data_line(line)?.1));
    let first = values.next()?;
    let mut joined = Cow::Borrowed(first);
    for value in values {
        let joined = joined.to_mut();
        joined.push(b'\n');
        joined.extend_from_slice(value);
    }
    Some(joined)
}

/// Returns true if an event has data, or a line that is neither blank nor a comment nor a field without content.
pub(crate) fn has_sse_text(event: &[u8]) -> bool {
    lines(event).any(|line| {
        let text = line.trim_ascii_end();
        let name = text.split(|byte| *byte == b':').next();
        !text.is_empty() && !matches!(name, Some(b"" | b"event" | b"id" | b"retry"))
    })
}

/// Returns the event with other data, which is one line; its other lines stay.
pub(crate) fn with_data(event: &[u8], data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(event.len() + data.len());
    let mut is_written = false;
    for line in lines(event) {
        match data_line(line) {
            Some((name, _, line_end)) if !is_written => {
                is_written = true;
                out.extend_from_slice(name);
                // Between tokens a line end is a space, and no string of JSON has one.
                out.extend(data.iter().map(|byte| match byte {
                    b'\r' | b'\n' => b' ',
                    byte => *byte,
                }));
                out.extend_from_slice(line_end);
            }
            Some(_) => {}
            None => out.extend_from_slice(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::judge::BodyFrames;

    fn split(pieces: &[&[u8]]) -> Vec<String> {
        let found = split_frames(pieces).into_iter();
        found
            .map(|event| String::from_utf8(event.into()).unwrap())
            .collect()
    }

    #[test]
    fn events_keep_their_bytes_however_they_are_cut() {
        for (text, events) in [
            (
                "data: a\n\ndata: b\n\n",
                &["data: a\n\n", "data: b\n\n", ""][..],
            ),
            (
                "data: a\r\n\r\n: c\r\n\r\nx",
                &["data: a\r\n\r\n", ": c\r\n\r\n", "x"],
            ),
            (
                "data: a\r\rdata: b\r\n\n",
                &["data: a\r\r", "data: b\r\n\n", ""],
            ),
            ("\n\ndata: a\n\n", &["\n", "\n", "data: a\n\n", ""]),
            ("data: a\ndata: é\n\n", &["data: a\ndata: é\n\n", ""]),
            ("", &[""]),
        ] {
            let bytes = text.as_bytes();
            assert_eq!(split(&[bytes]), events, "{text:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(split_bytes(&single), text);
            for cut in 0..=bytes.len() {
                let pieces = [&bytes[..cut], &bytes[cut..]];
                assert_eq!(split_bytes(&pieces), text, "{text:?} at {cut}");
                assert_eq!(
                    data_of(&split(&pieces)),
                    data_of(&split(&[bytes])),
                    "{text:?}"
                );
            }
        }
    }

    fn split_frames(pieces: &[&[u8]]) -> Vec<Bytes> {
        let mut frames = BodyFrames::events();
        let mut found = Vec::new();
        for piece in pieces {
            frames.push(Bytes::copy_from_slice(piece));
            found.extend(std::iter::from_fn(|| frames.next_frame()));
        }
        found.push(frames.finish());
        found
    }

    fn split_bytes(pieces: &[&[u8]]) -> String {
        String::from_utf8(split_frames(pieces).concat()).unwrap()
    }

    fn data_of(events: &[String]) -> Vec<Vec<u8>> {
        let data = events.iter().filter_map(|event| sse_data(event.as_bytes()));
        data.map(Cow::into_owned).collect()
    }

    #[test]
    fn data_is_joined_and_replaced() {
        let event = b"event: e\r\ndata: {\"a\":\r\ndata:1}\r\nid: 4\r\n\r\n";
        assert_eq!(sse_data(event).unwrap(), &b"{\"a\":\n1}"[..]);
        let other = with_data(event, b"{\"a\":\n2}");
        assert_eq!(other, b"event: e\r\ndata: {\"a\": 2}\r\nid: 4\r\n\r\n");
        assert!(has_sse_text(event) && !has_sse_text(b": comment\nid: 1\nretry: 2\n\n"));
        assert!(has_sse_text(b"{\"a\": 1}") && has_sse_text(b"event: e\n data: x\n\n"));
        assert_eq!(sse_data(b": comment\n\n"), None);
        assert_eq!(sse_data(b"database: x\n\n"), None);
        assert_eq!(sse_data(b"data\n\n").unwrap(), &b""[..]);
    }
}
