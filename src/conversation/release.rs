//! The text of a part between its arrival and its release to the host.
//!
//! The stream decides how far the text is released, and the session which rules redact it; this module applies both.

use super::outcome::replacement_of;
use super::redact::{RedactedPiece, RedactionEdit, floor_char};
use super::scalars::ScalarTracker;
use crate::program::ReleasePlan;
use crate::rule::Channel;
use crate::stream::{Redaction, Stream};
use crate::verdict::{PartId, RuleId};

/// The least capacity of the buffer of a part that has text, in bytes: deltas are short.
const FIRST_BYTES: usize = 64;

/// The least capacity of the buffer with all bytes of a part, in bytes.
const FIRST_DELIVERED_BYTES: usize = 256;

/// The text of one part that the host has not taken.
#[derive(Debug)]
pub(super) struct PartText {
    pub(super) part: PartId,
    pub(super) channel: Channel,
    /// True after the close: everything is decided.
    pub(super) is_closed: bool,
    /// True if nothing is released before the close.
    waits_for_close: bool,
    /// True if no rule holds text of this part.
    is_free: bool,
    /// Bytes that were delivered and not released.
    waiting: Vec<u8>,
    /// Offset of the first waiting byte in the part.
    base: u64,
    /// Offset from which redactions may not have been applied.
    redact_from: u64,
    /// End of the range that was replaced last.
    skip_to: u64,
    /// The scalars of the part, if rules redact tool input.
    scalars: Option<Box<ScalarTracker>>,
    /// All bytes that were delivered, if a retry may keep them.
    delivered: Option<Vec<u8>>,
}

impl PartText {
    pub(super) fn new(part: PartId, channel: Channel, plan: &ReleasePlan) -> PartText {
        let is_input = channel == Channel::ToolInput;
        let keeps = plan.keeps_text && !is_input;
        PartText {
            part,
            channel,
            is_closed: false,
            waits_for_close: is_input && plan.gates_input,
            is_free: !plan.holds(channel),
            waiting: Vec::new(),
            base: 0,
            redact_from: 0,
            skip_to: 0,
            scalars: (is_input && plan.redacts_input).then(Box::default),
            delivered: keeps.then(Vec::new),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.waiting.capacity() == 0 {
            self.waiting.reserve(FIRST_BYTES);
        }
        self.waiting.extend_from_slice(bytes);
        if let Some(scalars) = &mut self.scalars {
            scalars.push(bytes);
        }
        if let Some(delivered) = &mut self.delivered {
            if delivered.capacity() == 0 {
                delivered.reserve(FIRST_DELIVERED_BYTES);
            }
            delivered.extend_from_slice(bytes);
        }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
        if let Some(scalars) = &mut self.scalars {
            scalars.finish();
        }
    }

    /// Moves the releasable bytes into `out`, which is empty, with redactions of `live` rules applied.
    pub(super) fn release(
        &mut self,
        stream: &mut Stream,
        live: &[(RuleId, PartId)],
        out: &mut Vec<u8>,
    ) {
        if self.waits_for_close && !self.is_closed {
            return;
        }
        // `out` is empty, so both buffers keep their capacity and no byte is copied.
        if self.is_free {
            std::mem::swap(&mut self.waiting, out);
            self.base += out.len() as u64;
            return;
        }
        let len = self.releasable_len(stream);
        if len == 0 {
            return;
        }
        if live.is_empty() && self.scalars.is_none() {
            // No rule has redacted anything yet.
            if len == self.waiting.len() {
                std::mem::swap(&mut self.waiting, out);
            } else {
                out.extend_from_slice(&self.waiting[..len]);
                self.waiting.drain(..len);
            }
            self.base += len as u64;
            self.redact_from = self.base;
            return;
        }
        let piece = RedactedPiece {
            bytes: &self.waiting[..len],
            base: self.base,
            scalars: self.scalars.as_deref(),
        };
        let ranges = redactions(stream, self.part, self.redact_from, live);
        let deferred = piece.copy_redacted(ranges, &mut self.skip_to, out);
        self.waiting.drain(..len);
        self.base += len as u64;
        // A range whose scalar is not complete yet is given to the next piece again.
        self.redact_from = deferred.unwrap_or(self.base);
        // Scalars already released cannot be redacted later.
        if let Some(scalars) = &mut self.scalars {
            scalars.discard_before(self.base);
        }
    }

    /// Returns the number of released bytes of the part, counted as delivered.
    pub(super) fn released(&self) -> u64 {
        self.base
    }

    /// Returns the number of waiting bytes that no rule may yet hold, cut or redact.
    fn releasable_len(&self, stream: &mut Stream) -> usize {
        if self.is_closed {
            return self.waiting.len();
        }
        // A partly released number cannot be replaced by a string, so the end moves before it.
        let decided = stream.releasable(self.part);
        let decided = match &self.scalars {
            Some(scalars) => scalars.floor(decided),
            None => decided,
        };
        let len = usize::try_from(decided.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let len = len.min(self.waiting.len());
        match self.scalars {
            Some(_) => floor_char(&self.waiting, len),
            None => len,
        }
    }

    /// Returns the redacted form of the first `end` bytes, cut at a character boundary. Empty unless the pack has rules
    /// that keep text.
    pub(super) fn retained_prefix(
        &self,
        stream: &Stream,
        live: &[(RuleId, PartId)],
        end: u64,
    ) -> String {
        let kept = self.kept_bytes(stream, live, end);
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// Returns the bytes of [`retained_prefix`](Self::retained_prefix).
    pub(super) fn kept_bytes(
        &self,
        stream: &Stream,
        live: &[(RuleId, PartId)],
        end: u64,
    ) -> Vec<u8> {
        let delivered = self.delivered.as_deref().unwrap_or_default();
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        // The text becomes part of the next request, which is JSON, so it ends with a whole character.
        let end = floor_char(delivered, end.min(delivered.len()));
        let piece = RedactedPiece {
            bytes: &delivered[..end],
            base: 0,
            scalars: None,
        };
        let mut out = Vec::with_capacity(end);
        let deferred =
            piece.copy_redacted(redactions(stream, self.part, 0, live), &mut 0, &mut out);
        debug_assert_eq!(deferred, None, "only scalars are replaced later");
        out
    }
}

/// The methods that only the reference loop needs.
#[cfg(feature = "harness")]
impl PartText {
    /// Reads a delta that is released at once, if nothing of the part waits. Returns false if it must wait.
    #[inline]
    pub(super) fn pass(&mut self, bytes: &[u8]) -> bool {
        // Order: a delta may not overtake bytes that wait.
        let passes =
            self.is_free && !self.waits_for_close && !self.is_closed && self.waiting.is_empty();
        if passes {
            self.base += bytes.len() as u64;
            if let Some(delivered) = &mut self.delivered {
                delivered.extend_from_slice(bytes);
            }
        }
        passes
    }

    /// Returns the bytes that were delivered and are not released.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.waiting
    }

    /// Returns true if the released text differs from the delivered text.
    pub(super) fn is_redacted(&self) -> bool {
        self.skip_to > 0
    }
}

/// Returns the redactions of a part by `live` rules that begin at or after `from`, in the order of their starts.
pub(super) fn redactions<'a>(
    stream: &'a Stream,
    part: PartId,
    from: u64,
    live: &'a [(RuleId, PartId)],
) -> impl Iterator<Item = RedactionEdit<'a>> {
    // Redactions are sorted by part and start, and a part may have many in text that is already released.
    let all = stream.redactions();
    let first = all.partition_point(|known| (known.part, known.start) < (part, from));
    let of_part = all[first..]
        .iter()
        .take_while(move |known| known.part == part);
    let of_part = of_part.filter(move |known| live.contains(&(known.rule, part)));
    of_part.map(|known: &Redaction| RedactionEdit {
        start: known.start,
        end: known.end,
        with: replacement_of(stream.pack().rule(known.rule)),
    })
}

#[cfg(all(test, feature = "harness"))]
mod tests {
    use super::*;

    #[test]
    fn a_delta_leaves_at_once_until_its_part_is_closed() {
        let plan = ReleasePlan::default();
        let mut text = PartText::new(PartId(0), Channel::Text, &plan);
        assert!(text.pass(b"ab"));
        assert_eq!((text.released(), text.waiting()), (2, &[][..]));
        text.close();
        assert!(!text.pass(b"c"), "the part is closed");
        assert_eq!(text.released(), 2);
    }
}
