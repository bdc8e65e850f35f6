//! The strategy for long input with few patterns: only the text around the candidates of the [`Prefilter`] is stepped.
//!
//! Contract: it skips text only while the search is idle and no suffix is live. It moves the cursor over skipped text
//! to a start state, and hands every other byte to `push_plain` or to the scalar search, so it reports nothing itself.

use super::super::MatchEvent;
use super::super::prefilter::{Prefilter, ScanEffort};
use super::{DfaCursor, LazyDfa};

/// The bytes stepped with live suffixes before the prefilter checks whether they are dead.
const SUFFIX_BATCH: usize = 16;

impl LazyDfa {
    /// Steps the bytes around each candidate of the prefilter, and the end of the delta.
    #[inline(never)]
    pub(super) fn push_prefiltered(
        &self,
        filter: &Prefilter,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        on: &mut dyn FnMut(MatchEvent),
    ) {
        let unfiltered_bytes = bytes.len().saturating_sub(filter.unfiltered_bytes());
        let mut candidates = filter.candidates(bytes);
        let mut effort = ScanEffort::default();
        let mut at = 0;
        loop {
            let from = at;
            at = self.push_until_idle(cursor, bytes, at, on);
            effort.stepped += at - from;
            if at == bytes.len() {
                break;
            }
            // The loop ends: each round moves `at` past a candidate, or breaks.
            let candidate = candidates.next(at);
            let begin = candidate
                .saturating_sub(filter.look_back())
                .min(unfiltered_bytes);
            // No match starts in the skipped text: its window would be a candidate before this one. A partial match
            // that is alive at `begin` all the same will fail its window, so an idle state can replace it. The byte
            // before `begin` alone decides which: it is ASCII, because any other byte is a candidate.
            if begin > at {
                let column = self.nfa.alphabet.bytes()[usize::from(bytes[begin - 1])];
                let before = self.look_behind_after[usize::from(column)];
                cursor.state = cursor.generation.start_states[before as usize];
                cursor.decoder.advance_ascii();
                at = begin;
            }
            // Windows that start here may extend past the delta, into text that is not known yet.
            if candidate >= unfiltered_bytes {
                self.push_scalar(cursor, bytes, at, on);
                break;
            }
            effort.stepped += candidate + 1 - at;
            effort.candidates += 1;
            self.push_scalar(cursor, &bytes[..=candidate], at, on);
            at = candidate + 1;
        }
        effort.compared = candidates.compared;
        filter.record_filtered(bytes.len(), effort);
    }

    /// Steps until there is no partial match, in the search or in a suffix. Returns the index of the next byte.
    fn push_until_idle(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut dyn FnMut(MatchEvent),
    ) -> usize {
        while at < bytes.len() {
            // In batches, for which the loop over blocks can be used: a suffix may live for the rest of the text.
            if cursor.has_suffixes() {
                let end = bytes.len().min(at + SUFFIX_BATCH);
                self.push_scalar(cursor, &bytes[..end], at, on);
                at = end;
                continue;
            }
            if cursor.is_single_state() {
                if cursor.generation.is_start_state(cursor.state) {
                    break;
                }
                let plain = self.push_plain(cursor, &bytes[at..], |char| char.is_idle());
                at += plain;
                if plain > 0 {
                    continue;
                }
            }
            // `push_plain` has stepped nothing, so the next symbol needs the slow path, which consumes at least one
            // byte.
            at = self.push_special(cursor, bytes, at, on);
        }
        at
    }
}
