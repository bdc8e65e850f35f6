//! Replaces ranges of a text while the text is forwarded in pieces.
//!
//! Tool input stays valid JSON. A range inside a string is replaced inside the string. A number, `true`, `false` or
//! `null` that a range touches is replaced as a whole, by a string, because neither a part of a number nor unquoted
//! text is a JSON value. Such a scalar is therefore forwarded in one piece, and so is each character.

use super::part::Replacement;
use crate::harness::json_scalars::JsonScalars;
use crate::harness::reply::RedactedRange;

/// Returns the largest offset up to `at` that is not inside a UTF-8 character. Invalid bytes count as characters.
pub(super) fn floor_char(bytes: &[u8], at: usize) -> usize {
    match char_around(bytes, at) {
        Some((start, _)) => start,
        None => at,
    }
}

/// Returns the start and the end of the character that contains offset `at` in its inside, complete or not.
fn char_around(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    for back in 1..=at.min(3) {
        let len = match bytes.get(at - back)? {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return None,
        };
        return (len > back).then_some((at - back, at - back + len));
    }
    None
}

/// Replaces redactions in one piece of a text.
pub(super) struct Redactor<'a> {
    /// The offset of the piece in the text as delivered.
    pub(super) from: u64,
    /// The scalars of the text if it is tool input. The piece contains each unquoted scalar whole or not at all.
    pub(super) scalars: Option<&'a JsonScalars>,
    /// The end of the last redaction. Bytes before it are left out.
    pub(super) skip: &'a mut u64,
    /// Receives the redactions made.
    pub(super) replaced: &'a mut Vec<RedactedRange>,
    /// The offset of the result in the text as forwarded.
    pub(super) at: usize,
}

impl Redactor<'_> {
    /// Returns the piece with its redactions replaced. `stretches` must be sorted by their start. Overlapping
    /// redactions are merged and replaced by the text of the first.
    pub(super) fn apply(
        mut self,
        bytes: &[u8],
        stretches: impl Iterator<Item = Replacement>,
    ) -> Vec<u8> {
        let from = self.from;
        let end = from + bytes.len() as u64;
        let slice = |start: u64, stop: u64| {
            let (start, stop) = (start.clamp(from, end), stop.clamp(from, end));
            (start - from) as usize..(stop.max(start) - from) as usize
        };
        let mut left = Vec::with_capacity(bytes.len());
        let mut next = self.from;
        // True while the redaction that ends at `skip` has begun and its end was not reached.
        let mut is_open = *self.skip > self.from;
        for stretch in stretches.filter(|stretch| stretch.from < end) {
            let (start, is_bare) = self.redaction_start(bytes, stretch.from);
            if start >= stretch.to {
                continue;
            }
            if is_open && start >= *self.skip {
                next = self.end_redaction(bytes, &mut left);
                is_open = false;
            }
            if is_open {
                *self.skip = stretch.to.max(*self.skip);
                continue;
            }
            if start < next {
                continue;
            }
            left.extend_from_slice(&bytes[slice(next, start)]);
            self.replaced.push(RedactedRange {
                from: start,
                to: stretch.to,
                at: self.at + left.len(),
                len: stretch.with.len() + usize::from(is_bare),
            });
            left.extend(is_bare.then_some(b'"'));
            left.extend_from_slice(&stretch.with);
            *self.skip = stretch.to;
            is_open = true;
        }
        if is_open && *self.skip <= end {
            next = self.end_redaction(bytes, &mut left);
        } else if is_open {
            next = end;
        }
        if let Some(last) = self.replaced.last_mut() {
            last.to = *self.skip;
        }
        left.extend_from_slice(&bytes[slice(next, end)]);
        left
    }

    /// Returns the start of a redaction, moved back to the start of a character or an unquoted scalar, and true if it
    /// is an unquoted scalar. Characters between scalars are not replaced.
    fn redaction_start(&self, bytes: &[u8], from: u64) -> (u64, bool) {
        let Some(scalars) = self.scalars else {
            return (from, false);
        };
        match scalars.ending_after(from) {
            Some(known) if known.is_bare || known.start > from => (known.start, known.is_bare),
            _ => {
                let inside = usize::try_from(from.saturating_sub(self.from)).unwrap_or(usize::MAX);
                let start = self.from + floor_char(bytes, inside.min(bytes.len())) as u64;
                (from.min(start), false)
            }
        }
    }

    /// Ends a redaction after a whole character or scalar. Returns the offset at which the text continues.
    fn end_redaction(&mut self, bytes: &[u8], left: &mut Vec<u8>) -> u64 {
        let (end, is_bare) = self.redaction_end(bytes);
        left.extend(is_bare.then_some(b'"'));
        if let Some(last) = self.replaced.last_mut() {
            (last.to, last.len) = (end, last.len + usize::from(is_bare));
        }
        *self.skip = end;
        end
    }

    /// Returns the end of a redaction, and true if it is the end of an unquoted scalar.
    fn redaction_end(&self, bytes: &[u8]) -> (u64, bool) {
        let skip = *self.skip;
        let Some(scalars) = self.scalars else {
            return (skip, false);
        };
        match scalars.starting_before(skip) {
            Some(known) if known.is_bare || known.end < skip => (known.end, known.is_bare),
            _ => {
                let inside = usize::try_from(skip.saturating_sub(self.from)).unwrap_or(usize::MAX);
                let around = char_around(bytes, inside);
                let end = around.map_or(inside, |(_, end)| end.min(bytes.len()));
                let rest = bytes.get(inside..end).unwrap_or_default().iter();
                let rest = rest.take_while(|byte| **byte & 0xC0 == 0x80);
                (skip + rest.count() as u64, false)
            }
        }
    }
}
