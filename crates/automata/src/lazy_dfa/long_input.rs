//! The accelerators for long input: the prefilter skips text in which no match can start, and speculative lanes
//! step several stretches at once.
//!
//! Contract: both step only states that are not special and hand every other byte to the scalar search, so they
//! report nothing themselves.

use super::super::MatchEvent;
use super::super::prefilter::{Prefilter, ScanEffort};
use super::super::speculative::{SpeculativeLanes, Tile};
use super::super::table::StateId;
use super::{DfaCache, DfaCursor, LazyDfa};

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
        on: &mut impl FnMut(MatchEvent),
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
            let candidate = candidates.next(at);
            let begin = candidate
                .saturating_sub(filter.look_back())
                .min(unfiltered_bytes);
            if begin > at {
                let column = self.nfa.alphabet.bytes()[usize::from(bytes[begin - 1])];
                let before = self.look_behind_after[usize::from(column)];
                cursor.state = cursor.generation.start_states[before as usize];
                cursor.decoder.passed_ascii();
                at = begin;
            }
            if candidate >= unfiltered_bytes {
                self.push_scalar(cursor, bytes, at, on);
                break;
            }
            effort.stepped += candidate + 1 - at;
            effort.candidates += 1;
            self.push_scalar(cursor, &bytes[..=candidate], at, on);
            at = candidate + 1;
        }
        effort.looks = candidates.looks;
        filter.record_filtered(bytes.len(), effort);
    }

    /// Steps until there is no partial match, in the search or in a suffix. Returns the index of the next byte.
    fn push_until_idle(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(MatchEvent),
    ) -> usize {
        while at < bytes.len() {
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
                let run = self.step_ascii::<true>(cursor, &bytes[at..]);
                at += run.stepped;
                if run.stepped > 0 {
                    continue;
                }
            }
            at = self.push_special(cursor, bytes, at, on);
        }
        at
    }

    /// Steps whole tiles in speculative lanes, and those that decline in the scalar search, whose bytes it adds to
    /// `stepped`. Returns the index of the byte after the last tile.
    pub(super) fn push_tiles(
        &self,
        tile: Tile,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        stepped: &mut usize,
        on: &mut impl FnMut(MatchEvent),
    ) -> usize {
        let size = tile.bytes();
        // After a tile declines, so many are not tried; the number doubles each time.
        let (mut misses, mut skip) = (0u32, 0u32);
        while let Some(text) = bytes.get(at..at + size) {
            let is_ready = skip == 0 && cursor.is_single_state();
            let next = is_ready
                .then(|| self.step_tile(tile, cursor, text))
                .flatten();
            match next {
                Some(state) => {
                    cursor.state = state;
                    cursor.decoder.passed_ascii();
                    misses = 0;
                }
                None => {
                    if is_ready {
                        misses = (misses + 1).min(6);
                        skip = 1 << misses;
                    }
                    skip = skip.saturating_sub(1);
                    self.push_scalar(cursor, &bytes[..at + size], at, on);
                    *stepped += size;
                }
            }
            at += size;
        }
        at
    }

    fn step_tile(&self, tile: Tile, cursor: &DfaCursor, text: &[u8]) -> Option<StateId> {
        let DfaCache {
            table,
            start_states,
            ..
        } = &**cursor.generation;
        let alphabet = &self.nfa.alphabet;
        let look_behind_after = &self.look_behind_after;
        SpeculativeLanes {
            table,
            alphabet,
            start_states,
            look_behind_after,
        }
        .step(cursor.state, text, tile)
    }
}
