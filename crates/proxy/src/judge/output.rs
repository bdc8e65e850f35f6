//! The bytes of a judged reply on their way to the client.

use bytes::Bytes;
use serde_json::Value;

use super::array_frames::element;
use super::frames::StreamFraming;

/// The bytes for the client.
#[derive(Debug)]
pub(super) struct JudgedOutput {
    /// The first event, which is not copied if it is the only one.
    first: Bytes,
    /// The bytes after it.
    pub(super) rest: Vec<u8>,
    /// The array that the client is sent, or `None` in another framing.
    array: Option<SentArray>,
    /// True if the last event that was sent lacks its end.
    lacks_end: bool,
}

/// An array as the client has seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SentArray {
    /// Nothing was sent but whitespace.
    #[default]
    Unsent,
    /// It has begun, and has no element.
    Empty,
    /// It has elements, and more can follow.
    Open,
    /// Nothing can follow. This is also the state after a body that is one object.
    Closed,
}

impl JudgedOutput {
    pub(super) fn new(framing: StreamFraming) -> JudgedOutput {
        JudgedOutput {
            first: Bytes::new(),
            rest: Vec::new(),
            array: (framing == StreamFraming::Array).then(SentArray::default),
            lacks_end: false,
        }
    }

    /// Appends an event.
    pub(super) fn push(&mut self, bytes: Bytes) {
        let bytes = match self.array {
            Some(array) => self.with_separator(array, bytes),
            None => bytes,
        };
        match self.first.is_empty() && self.rest.is_empty() {
            true => self.first = bytes,
            false => self.rest.extend_from_slice(&bytes),
        }
    }

    /// Returns the frame of an array with the separator that it needs after the elements that were sent. It is another one
    /// if the frame follows the elements of another attempt, or if those before it were dropped.
    fn with_separator(&mut self, array: SentArray, frame: Bytes) -> Bytes {
        let is_separator = |byte: &u8| matches!(byte, b'[' | b',');
        let separator = element(&frame).map(|element| {
            let before = &frame[..frame.len() - element.len()];
            before.iter().position(is_separator)
        });
        match (separator, array) {
            (Some(Some(at)), SentArray::Unsent | SentArray::Empty | SentArray::Open) => {
                self.array = Some(SentArray::Open);
                if frame[at] == array.separator() {
                    return frame;
                }
                let mut frame = Vec::from(frame);
                frame[at] = array.separator();
                frame.into()
            }
            // One object that is the body.
            (Some(None), SentArray::Empty) => {
                self.array = Some(SentArray::Closed);
                [&frame[..], b"]"].concat().into()
            }
            _ => {
                // One object as well, or damage that passes.
                if !frame.trim_ascii().is_empty() {
                    self.array = Some(SentArray::Closed);
                }
                frame
            }
        }
    }

    /// Sets whether the last event that was sent lacks its end: the line end or the blank line with which the body ended.
    pub(super) fn set_lacks_end(&mut self, lacks_end: bool) {
        self.lacks_end = lacks_end && self.array.is_none();
    }

    /// Ends the last event that was sent, so that others can follow.
    pub(super) fn end_event(&mut self) {
        if std::mem::take(&mut self.lacks_end) {
            self.rest.extend_from_slice(b"\n\n");
        }
    }

    /// Appends an event with a name.
    pub(super) fn push_event(&mut self, name: &str, data: &Value) {
        let event = format!("event: {name}\ndata: {data}\n\n");
        self.rest.extend_from_slice(event.as_bytes());
    }

    /// Appends a comment, for a reply in which no event is possible.
    pub(super) fn push_comment(&mut self) {
        self.rest.extend_from_slice(b": keep-alive\n\n");
    }

    /// Appends an event that has data alone.
    pub(super) fn push_data(&mut self, data: &Value) {
        let text = match self.array {
            None => format!("data: {data}\n\n"),
            Some(SentArray::Closed) => return,
            Some(array) => {
                self.array = Some(SentArray::Open);
                format!("{}{data}", char::from(array.separator()))
            }
        };
        self.rest.extend_from_slice(text.as_bytes());
    }

    /// Appends whitespace if it keeps the client waiting in this framing. Returns false if an event is needed. `is_object` is
    /// true if the body is known to be one object. Otherwise an array begins before the whitespace: Google's client for
    /// Python accepts none before the bracket.
    pub(super) fn push_whitespace(&mut self, is_object: bool) -> bool {
        let text: &[u8] = match (self.array, is_object) {
            (None, _) => return false,
            (Some(SentArray::Unsent), false) => {
                self.array = Some(SentArray::Empty);
                b"[\n"
            }
            (Some(_), _) => b"\n",
        };
        self.rest.extend_from_slice(text);
        true
    }

    /// Closes the array, if the client is sent one.
    pub(super) fn close(&mut self) {
        let end: &[u8] = match self.array {
            Some(SentArray::Unsent) => b"[]",
            Some(SentArray::Empty | SentArray::Open) => b"]",
            Some(SentArray::Closed) | None => return,
        };
        self.array = Some(SentArray::Closed);
        self.rest.extend_from_slice(end);
    }

    /// Returns true if the client has been sent an element of an array.
    pub(super) fn has_elements(&self) -> bool {
        matches!(self.array, Some(SentArray::Open | SentArray::Closed))
    }

    /// Returns true if events of another attempt cannot follow.
    pub(super) fn is_closed(&self) -> bool {
        self.array == Some(SentArray::Closed)
    }

    /// Drains the output.
    pub(super) fn take(&mut self) -> Bytes {
        let first = std::mem::take(&mut self.first);
        if self.rest.is_empty() {
            return first;
        }
        let mut rest = std::mem::take(&mut self.rest);
        if !first.is_empty() {
            rest.splice(..0, first);
        }
        rest.into()
    }
}

impl SentArray {
    /// Returns the byte before the next element.
    fn separator(self) -> u8 {
        match self {
            SentArray::Unsent => b'[',
            SentArray::Empty => b' ',
            SentArray::Open | SentArray::Closed => b',',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_their_order_and_one_event_is_not_copied() {
        let event = Bytes::from_static(b"one");
        let mut output = JudgedOutput::new(StreamFraming::Events);
        assert!(output.take().is_empty());
        output.push(event.clone());
        assert_eq!(output.take().as_ptr(), event.as_ptr());
        output.push(event.clone());
        output.rest.extend_from_slice(b" two");
        output.push(Bytes::from_static(b" three"));
        assert_eq!(output.take(), "one two three");
        output.rest.extend_from_slice(b"four ");
        output.push(event);
        assert_eq!(output.take(), "four one");
        assert!(output.take().is_empty());
    }

    #[test]
    fn an_array_is_well_formed_whatever_it_has() {
        let data = serde_json::json!({"a": [1]});
        let frame = Bytes::from_static;
        let whitespace = |output: &mut JudgedOutput, is_object| {
            assert!(output.push_whitespace(is_object));
        };
        type Push<'p> = &'p dyn Fn(&mut JudgedOutput);
        let cases: [(&[Push<'_>], &str); 8] = [
            (&[], "[]"),
            (&[&|it| whitespace(it, false)], "[\n]"),
            (&[&|it| it.push_data(&data)], "[{\"a\":[1]}]"),
            (
                &[&|it| whitespace(it, false), &|it| it.push_data(&data)],
                "[\n {\"a\":[1]}]",
            ),
            (
                &[
                    &|it| it.push(frame(b" [ {}")),
                    &|it| it.push(frame(b"\n")),
                    &|it| it.push(frame(b"\n[{}")),
                    &|it| it.push_data(&data),
                ],
                " [ {}\n\n,{},{\"a\":[1]}]",
            ),
            (&[&|it| it.push(frame(b",{}"))], "[{}]"),
            (
                &[&|it| whitespace(it, false), &|it| it.push(frame(b"{}"))],
                "[\n{}]",
            ),
            (
                &[
                    &|it| whitespace(it, true),
                    &|it| it.push(frame(b" {}")),
                    &|it| it.push_data(&data),
                ],
                "\n {}",
            ),
        ];
        for (pushes, want) in cases {
            let mut output = JudgedOutput::new(StreamFraming::Array);
            pushes.iter().for_each(|push| push(&mut output));
            output.close();
            output.close();
            assert_eq!(output.take(), want);
        }
        let mut events = JudgedOutput::new(StreamFraming::Events);
        assert!(!events.push_whitespace(false) && !events.is_closed());
        events.close();
        assert!(events.take().is_empty());
    }
}
