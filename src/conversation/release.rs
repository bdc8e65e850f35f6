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
use ttsr_views::block_buffer::BlockBuffer;

/// The least capacity of the buffer of a part that has text, in bytes: deltas are short.
const FIRST_BYTES: usize = 64;

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
    /// The bytes that wait, and those that were released with the last delta.
    text: Vec<u8>,
    /// The number of bytes before `text`.
    dropped: u64,
    /// The bytes before `text`, if a retry may keep them.
    kept: Option<BlockBuffer>,
    /// Offset of the first byte that is not released.
    base: u64,
    /// Offset from which redactions may not have been applied.
    redact_from: u64,
    /// End of the range that was replaced last.
    skip_to: u64,
    /// The scalars of the part, if rules redact tool input.
    scalars: Option<Box<ScalarTracker>>,
}

impl PartText {
    pub(super) fn new(part: PartId, channel: Channel, plan: &ReleasePlan) -> PartText {
        let is_input = channel == Channel::ToolInput;
        PartText {
            part,
            channel,
            is_closed: false,
            waits_for_close: is_input && plan.gates_input,
            is_free: !plan.holds(channel),
            text: Vec::new(),
            dropped: 0,
            kept: (!is_input && plan.keeps_text).then(BlockBuffer::default),
            base: 0,
            redact_from: 0,
            skip_to: 0,
            scalars: (is_input && plan.redacts_input).then(Box::default),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.drop_released();
        if self.text.capacity() == 0 {
            self.text.reserve(FIRST_BYTES);
        }
        self.text.extend_from_slice(bytes);
        if let Some(scalars) = &mut self.scalars {
            scalars.push(bytes);
        }
    }

    /// Releases a delta that the stream has read, if nothing of the part waits and no rule may yet hold, cut or redact the
    /// delta. Returns false if it must wait. `live` is as for [`release`](Self::release).
    #[inline]
    pub(super) fn pass(
        &mut self,
        stream: &mut Stream,
        live: &[(RuleId, PartId)],
        bytes: &[u8],
    ) -> bool {
        let end = self.base + bytes.len() as u64;
        // A rule that has redacted something makes no further decision for a range that it redacts in the delta.
        let is_unchanged = || live.is_empty() && self.scalars.is_none();
        // Order: a delta may not overtake bytes that wait.
        let passes = !self.waits_for_close
            && !self.is_closed
            && self.waiting().is_empty()
            && (self.is_free || is_unchanged() && stream.releasable(self.part) == end);
        if passes {
            self.base = end;
            self.redact_from = end;
            // Released at once, so it does not go through `text`.
            if let Some(kept) = &mut self.kept {
                kept.extend(&self.text);
                kept.extend(bytes);
            }
            self.dropped = end;
            self.text.clear();
        }
        passes
    }

    /// Drops the bytes in `text` that were released. A retry may keep them.
    #[inline]
    fn drop_released(&mut self) {
        let released = self.released_len();
        if released > 0 {
            if let Some(kept) = &mut self.kept {
                kept.extend(&self.text[..released]);
            }
            self.dropped = self.base;
            // Most often all of them.
            match released == self.text.len() {
                true => self.text.clear(),
                false => drop(self.text.drain(..released)),
            }
        }
    }

    /// Returns the number of bytes in `text` that were released.
    #[inline]
    fn released_len(&self) -> usize {
        (self.base - self.dropped) as usize
    }

    /// Returns the bytes that were delivered and are not released.
    #[inline]
    pub(super) fn waiting(&self) -> &[u8] {
        &self.text[self.released_len()..]
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
        if let Some(scalars) = &mut self.scalars {
            scalars.finish();
        }
    }

    /// Releases bytes, and returns them with redactions of `live` rules applied. `out` is a buffer for redacted text.
    #[inline]
    pub(super) fn release<'o>(
        &'o mut self,
        stream: &mut Stream,
        live: &[(RuleId, PartId)],
        out: &'o mut Vec<u8>,
    ) -> &'o [u8] {
        let from = self.released_len();
        let len = match self.waits_for_close && !self.is_closed {
            true => 0,
            false if self.is_free => self.text.len() - from,
            false => self.releasable_len(stream),
        };
        if self.is_free || live.is_empty() && self.scalars.is_none() {
            // No rule redacts the part, or none has redacted anything yet.
            self.base += len as u64;
            self.redact_from = self.base;
            return &self.text[from..from + len];
        }
        if len > 0 {
            self.redact(stream, live, len, out);
        }
        out
    }

    /// Appends the next `len` bytes to `out`, with redactions applied.
    // PERF: not inlined, because its registers would be saved at each call of `release`.
    #[inline(never)]
    fn redact(
        &mut self,
        stream: &mut Stream,
        live: &[(RuleId, PartId)],
        len: usize,
        out: &mut Vec<u8>,
    ) {
        let from = self.released_len();
        let piece = RedactedPiece {
            bytes: &self.text[from..from + len],
            base: self.base,
            scalars: self.scalars.as_deref(),
        };
        let ranges = redactions(stream, self.part, self.redact_from, live);
        let deferred = piece.copy_redacted(ranges, &mut self.skip_to, out);
        self.base += len as u64;
        // A range whose scalar is not complete yet is given to the next piece again.
        self.redact_from = deferred.unwrap_or(self.base);
        if self.kept.is_none() {
            stream.forget_redactions(self.part, self.redact_from);
        }
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
        let waiting = self.waiting();
        if self.is_closed {
            return waiting.len();
        }
        // A partly released number cannot be replaced by a string, so the end moves before it.
        let decided = stream.releasable(self.part);
        let decided = match &self.scalars {
            Some(scalars) => scalars.floor(decided),
            None => decided,
        };
        let len = usize::try_from(decided.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let len = len.min(waiting.len());
        match self.scalars {
            Some(_) => floor_char(waiting, len),
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
        let mut delivered = Vec::new();
        if let Some(kept) = &self.kept {
            kept.copy_to(kept.len(), &mut delivered);
            delivered.extend_from_slice(&self.text);
        }
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        // The text becomes part of the next request, which is JSON, so it ends with a whole character.
        let end = floor_char(&delivered, end.min(delivered.len()));
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

#[cfg(feature = "harness")]
impl PartText {
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
    // A part may have many redactions in text that is already released.
    let all = stream.redactions(part);
    let first = all.partition_point(|known| known.start < from);
    let redacted = all[first..].iter();
    let redacted = redacted.filter(move |known| live.contains(&(known.rule, part)));
    redacted.map(|known: &Redaction| RedactionEdit {
        start: known.start,
        end: known.end,
        with: replacement_of(stream.pack().rule(known.rule)),
    })
}

#[cfg(all(test, feature = "harness"))]
mod tests {
    use super::*;

    #[test]
    fn released_bytes_are_dropped_unless_a_retry_may_keep_them() {
        let pack = crate::Pack::builder().build().unwrap();
        let mut stream = pack.stream();
        for (keeps_text, kept) in [(false, ""), (true, "abcd")] {
            let mut plan = ReleasePlan::default();
            plan.keeps_text = keeps_text;
            let mut text = PartText::new(PartId(0), Channel::Text, &plan);
            let out = &mut Vec::new();
            for delta in ["ab", "cd"] {
                text.push(delta.as_bytes());
                assert_eq!(text.text, delta.as_bytes());
                assert_eq!(text.waiting(), delta.as_bytes());
                assert_eq!(text.release(&mut stream, &[], out), delta.as_bytes());
                assert_eq!(text.waiting(), b"");
                assert_eq!(text.release(&mut stream, &[], out), b"");
            }
            assert_eq!(text.released(), 4);
            assert_eq!(text.retained_prefix(&stream, &[], 9), kept);
        }
    }

    #[test]
    fn what_a_tool_of_the_provider_prints_is_redacted_like_other_text() {
        for channel in [Channel::Text, Channel::ToolOutput] {
            let mut rule = crate::Rule::new("t/key", vec![crate::Pattern::regex("key-[0-9]{4}")]);
            rule.on = vec![channel];
            rule.action = crate::Action::Redact;
            let pack = crate::Pack::builder().rule(rule).build().unwrap();
            let mut conversation = crate::Conversation::new(&pack);
            let mut turn = conversation.turn("");
            let mut attempt = turn.attempt();
            let part = PartId(0);
            assert_eq!(attempt.open(part, channel), crate::Flow::Go);
            let mut out = attempt.forward(part, b"my key-12").unwrap().to_vec();
            assert_eq!(out, b"my ", "{channel:?}");
            out.extend_from_slice(attempt.forward(part, b"34.").unwrap());
            assert_eq!(out, b"my [redacted].", "{channel:?}");
        }
    }

    #[test]
    fn a_delta_leaves_at_once_until_its_part_is_closed() {
        let pack = crate::Pack::builder().build().unwrap();
        let mut stream = pack.stream();
        let plan = ReleasePlan::default();
        let mut text = PartText::new(PartId(0), Channel::Text, &plan);
        assert!(text.pass(&mut stream, &[], b"ab"));
        assert_eq!((text.released(), text.waiting()), (2, &[][..]));
        text.close();
        assert!(!text.pass(&mut stream, &[], b"c"), "the part is closed");
        assert_eq!(text.released(), 2);
    }
}
