//! The bytes of a judged reply on their way to the client.

use bytes::Bytes;

/// The bytes for the client.
#[derive(Debug, Default)]
pub(super) struct JudgedOutput {
    /// The first event, which is not copied if it is the only one.
    first: Bytes,
    /// The bytes after it.
    pub(super) rest: Vec<u8>,
}

impl JudgedOutput {
    /// Appends an event.
    pub(super) fn push(&mut self, bytes: Bytes) {
        match self.first.is_empty() && self.rest.is_empty() {
            true => self.first = bytes,
            false => self.rest.extend_from_slice(&bytes),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_their_order_and_one_event_is_not_copied() {
        let event = Bytes::from_static(b"one");
        let mut output = JudgedOutput::default();
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
}
