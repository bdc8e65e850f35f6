//! The framing of a streamed body: server-sent events, one JSON document on each line, or the elements of a JSON array.

use std::borrow::Cow;

use bytes::Bytes;

use super::array_frames::{ArrayFrames, element};
use super::sse_frames::{SseFrames, has_sse_text, sse_data, with_data};

/// The form of a streamed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFraming {
    /// Server-sent events.
    Events,
    /// One JSON document on each line.
    Lines,
    /// One JSON array.
    Array,
}

/// The bytes that arrived and are not part of a complete frame.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    /// Bytes of the last piece, which are not copied. Empty if `pending` is not.
    piece: Bytes,
    /// The bytes of a frame that is not complete, and those after them.
    pending: Vec<u8>,
    /// Number of the bytes that were searched for the end of the frame.
    pub(super) searched: usize,
}

impl FrameBuffer {
    pub(super) fn push(&mut self, bytes: Bytes) {
        if self.len() == 0 {
            self.piece = bytes;
            return;
        }
        self.keep_pending();
        self.pending.extend_from_slice(&bytes);
    }

    /// Returns the bytes since the last frame.
    pub(super) fn bytes(&self) -> &[u8] {
        match self.pending.is_empty() {
            true => &self.piece,
            false => &self.pending,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Returns the frame that ends at `end`.
    pub(super) fn take_frame(&mut self, end: usize) -> Bytes {
        self.searched = 0;
        if self.pending.is_empty() {
            return self.piece.split_to(end);
        }
        self.piece = self.pending.split_off(end).into();
        std::mem::take(&mut self.pending).into()
    }

    /// Copies the bytes of an incomplete frame, so that the memory in which they arrived is not kept for it.
    pub(super) fn keep_pending(&mut self) {
        if self.pending.is_empty() {
            self.pending.extend_from_slice(&self.piece);
            self.piece = Bytes::new();
        }
    }

    fn into_bytes(self) -> Bytes {
        match self.pending.is_empty() {
            true => self.piece,
            false => self.pending.into(),
        }
    }
}

/// Splits a body into frames without changing a byte.
#[derive(Debug)]
pub(crate) enum BodyFrames {
    /// Server-sent events, each with the blank line that ends it.
    Events(SseFrames),
    /// Lines, each with its line feed.
    Lines(FrameBuffer),
    /// Elements, each with the bytes before it.
    Array(ArrayFrames),
}

impl BodyFrames {
    pub(crate) fn new(framing: StreamFraming) -> BodyFrames {
        match framing {
            StreamFraming::Events => BodyFrames::events(),
            StreamFraming::Lines => BodyFrames::lines(),
            StreamFraming::Array => BodyFrames::array(),
        }
    }

    pub(crate) fn events() -> BodyFrames {
        BodyFrames::Events(SseFrames::default())
    }

    pub(crate) fn lines() -> BodyFrames {
        BodyFrames::Lines(FrameBuffer::default())
    }

    pub(crate) fn array() -> BodyFrames {
        BodyFrames::Array(ArrayFrames::default())
    }

    pub(crate) fn framing(&self) -> StreamFraming {
        match self {
            BodyFrames::Events(_) => StreamFraming::Events,
            BodyFrames::Lines(_) => StreamFraming::Lines,
            BodyFrames::Array(_) => StreamFraming::Array,
        }
    }

    fn buffer(&self) -> &FrameBuffer {
        match self {
            BodyFrames::Events(frames) => &frames.buffer,
            BodyFrames::Lines(buffer) => buffer,
            BodyFrames::Array(frames) => &frames.buffer,
        }
    }

    fn buffer_mut(&mut self) -> &mut FrameBuffer {
        match self {
            BodyFrames::Events(frames) => &mut frames.buffer,
            BodyFrames::Lines(buffer) => buffer,
            BodyFrames::Array(frames) => &mut frames.buffer,
        }
    }

    /// Adds bytes, whose frames [`next_frame`](Self::next_frame) returns.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.buffer_mut().push(bytes);
    }

    /// Returns the next complete frame. The concatenation of all frames, [`take_ending`](Self::take_ending) and
    /// [`finish`](Self::finish) is the input.
    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        let end = match self {
            BodyFrames::Events(frames) => frames.next_end(),
            BodyFrames::Lines(buffer) => {
                let unread = &buffer.bytes()[buffer.searched..];
                let end = memchr::memchr(b'\n', unread);
                buffer.searched = end.map_or(buffer.len(), |at| buffer.searched + at + 1);
                end.map(|_| buffer.searched)
            }
            BodyFrames::Array(frames) => frames.next_end(),
        };
        let buffer = self.buffer_mut();
        match end {
            Some(end) => Some(buffer.take_frame(end)),
            None => {
                buffer.keep_pending();
                None
            }
        }
    }

    /// Returns the number of bytes of the frame that is not complete.
    pub(crate) fn pending_len(&self) -> usize {
        self.buffer().len()
    }

    /// Returns the bytes at the end of an array that are part of no element, such as the bracket that closes it.
    pub(crate) fn take_ending(&mut self) -> Bytes {
        match self {
            BodyFrames::Array(frames) if frames.is_between_elements() => {
                std::mem::take(&mut frames.buffer).into_bytes()
            }
            _ => Bytes::new(),
        }
    }

    /// Returns the bytes after the last complete frame.
    pub(crate) fn finish(&mut self) -> Bytes {
        let rest = match self {
            BodyFrames::Events(frames) => std::mem::take(frames).buffer,
            BodyFrames::Lines(buffer) => std::mem::take(buffer),
            BodyFrames::Array(frames) => std::mem::take(frames).buffer,
        };
        rest.into_bytes()
    }

    /// Begins with the body of another attempt, after the rest of this one. `has_elements` is true if the client has been
    /// sent elements of the array that it continues.
    pub(crate) fn begin_again(&mut self, has_elements: bool) {
        *self = match (self.framing(), has_elements) {
            (StreamFraming::Array, true) => BodyFrames::Array(ArrayFrames::continuing()),
            (framing, _) => BodyFrames::new(framing),
        };
    }

    /// Returns true if the last frame is damaged, which its data may not show, once.
    pub(crate) fn take_damage(&mut self) -> bool {
        match self {
            BodyFrames::Array(frames) => frames.take_damage(),
            BodyFrames::Events(_) | BodyFrames::Lines(_) => false,
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
            BodyFrames::Array(_) => element(frame).map(Cow::Borrowed),
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
            BodyFrames::Array(_) => {
                let end = frame.len() - element(frame).map_or(0, <[u8]>::len);
                [&frame[..end], data].concat()
            }
        }
    }

    /// Returns true if the frame has text that a client may read: data, or, in an event stream, a line that is neither a
    /// comment nor a field.
    pub(crate) fn has_text(&self, frame: &[u8]) -> bool {
        match self {
            BodyFrames::Events(_) => has_sse_text(frame),
            BodyFrames::Lines(_) | BodyFrames::Array(_) => !frame.trim_ascii().is_empty(),
        }
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
                frames.push(Bytes::copy_from_slice(piece));
                found.extend(std::iter::from_fn(|| frames.next_frame()));
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
