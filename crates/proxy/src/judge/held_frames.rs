//! The events of a reply that are not released, in the order in which they arrived.

use std::collections::VecDeque;

use bytes::Bytes;

use super::api::ReplyEvent;
use super::parts::FrameTexts;

/// An event that is not released.
pub(super) struct HeldFrame {
    pub(super) bytes: Bytes,
    pub(super) has_text: bool,
    pub(super) records: Vec<ReplyEvent>,
    pub(super) texts: FrameTexts,
    /// The tool call that it is part of.
    pub(super) call: Option<u64>,
}

/// The events that are held, and the sum of their lengths.
#[derive(Default)]
pub(super) struct HeldFrames {
    frames: VecDeque<HeldFrame>,
    bytes: usize,
}

impl HeldFrames {
    pub(super) fn push(&mut self, mut frame: HeldFrame) {
        if self.frames.is_empty() {
            self.frames.reserve_exact(1);
        }
        // The memory in which the bytes arrived may be much larger.
        frame.bytes = Bytes::copy_from_slice(&frame.bytes);
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
    }

    /// Removes the first event.
    pub(super) fn pop(&mut self) -> Option<HeldFrame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.bytes.len();
        if self.frames.is_empty() {
            // A stream takes no memory for events that are held while there are none.
            self.frames = VecDeque::new();
        }
        Some(frame)
    }

    pub(super) fn front(&self) -> Option<&HeldFrame> {
        self.frames.front()
    }

    pub(super) fn clear(&mut self) {
        *self = HeldFrames::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the sum of the lengths of the events.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
