//! The framing of a streamed body: server-sent events, or one JSON document on each line.

use std::borrow::Cow;

use super::sse_frames::{SseFrames, has_sse_text, sse_data, with_data};

/// The form of a streamed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFraming {
    /// Server-sent events.
    Events,
    /// One JSON document on each line.
    Lines,
}

/// Splits a body into frames without changing a byte.
#[derive(Debug)]
pub(crate) enum BodyFrames {
    /// Server-sent events, each with the blank line that ends it.
    Events(SseFrames),
    /// Lines, each with its line feed. The field has the bytes after the last one.
    Lines(Vec<u8>),
}

impl BodyFrames {
    pub(crate) fn new(framing: StreamFraming) -> BodyFrames {
        match framing {
            StreamFraming::Events => BodyFrames::events(),
            StreamFraming::Lines => BodyFrames::lines(),
        }
    }

    pub(crate) fn events() -> BodyFrames {
        BodyFrames::Events(SseFrames::default())
    }

    pub(crate) fn lines() -> BodyFrames {
        BodyFrames::Lines(Vec::new())
    }

    /// Reads bytes and passes each complete frame to `on`.
    pub(crate) fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(Vec<u8>)) {
        let pending = match self {
            BodyFrames::Events(frames) => return frames.push(bytes, on),
            BodyFrames::Lines(pending) => pending,
        };
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            pending.extend_from_slice(&rest[..=end]);
            on(std::mem::take(pending));
            rest = &rest[end + 1..];
        }
        pending.extend_from_slice(rest);
    }

    /// Returns the number of bytes of the frame that is not complete.
    pub(crate) fn pending_len(&self) -> usize {
        match self {
            BodyFrames::Events(frames) => frames.pending_len(),
            BodyFrames::Lines(pending) => pending.len(),
        }
    }

    /// Returns the bytes after the last complete frame.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        match self {
            BodyFrames::Events(frames) => frames.finish(),
            BodyFrames::Lines(pending) => std::mem::take(pending),
        }
    }

    /// Returns the data of a frame, or `None` if it has none, such as a comment or a blank line.
    pub(crate) fn data<'f>(&self, frame: &'f [u8]) -> Option<Cow<'f, [u8]>> {
        match self {
            BodyFrames::Events(_) => sse_data(frame),
            BodyFrames::Lines(_) => {
                let line = frame.trim_ascii();
                (!line.is_empty()).then_some(Cow::Borrowed(line))
            }
        }
    }

    /// Returns the frame with other data.
    pub(crate) fn with_data(&self, frame: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            BodyFrames::Events(_) => with_data(frame, data),
            BodyFrames::Lines(_) => {
                let end = frame.len() - frame.trim_ascii_end().len();
                [data, &frame[frame.len() - end..]].concat()
            }
        }
    }

    /// Returns true if the frame has text that a client may read: data, or, in an event stream, a line that is neither a
    /// comment nor a field.
    pub(crate) fn has_text(&self, frame: &[u8]) -> bool {
        match self {
            BodyFrames::Events(_) => has_sse_text(frame),
            BodyFrames::Lines(_) => !frame.trim_ascii().is_empty(),
        }
    }

    pub(crate) fn is_lines(&self) -> bool {
        matches!(self, BodyFrames::Lines(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_bytes_however_they_are_cut() {
        let text = b"{\"a\":1}\n\r\n{\"b\":2}\r\n{}";
        for size in 1..=text.len() {
            let mut frames = BodyFrames::lines();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                frames.push(piece, &mut |frame| found.push(frame));
            }
            found.push(frames.finish());
            assert_eq!(found.concat(), text);
            for frame in &found {
                assert_eq!(frames.has_text(frame), frames.data(frame).is_some());
            }
            let data: Vec<_> = found
                .iter()
                .filter_map(|frame| frames.data(frame))
                .collect();
            assert_eq!(data, [&b"{\"a\":1}"[..], b"{\"b\":2}", b"{}"]);
            assert_eq!(frames.with_data(&found[2], b"[]"), b"[]\r\n");
        }
    }
}
