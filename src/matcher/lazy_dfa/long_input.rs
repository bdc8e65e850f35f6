//! Long deltas: in lanes, or from one place where a match may begin to the next.

use super::super::MatchEvent;
use super::super::prefilter::{Prefilter, ScanEffort};
use super::super::speculative::{SpeculativeLanes, Tile};
use super::super::table::StateId;
use super::{DfaCache, DfaCursor, LazyDfa};

/// Bytes stepped with live tails before a filter asks whether they are dead.
const AWAKE: usize = 16;

impl LazyDfa {
    /// Steps only where a match can be, and the end.
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
            at = self.push_busy(cursor, bytes, at, on);
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
                self.push_plain(cursor, bytes, at, on);
                break;
            }
            effort.stepped += candidate + 1 - at;
            effort.candidates += 1;
            self.push_plain(cursor, &bytes[..=candidate], at, on);
            at = candidate + 1;
        }
        effort.looks = candidates.looks;
        filter.record_filtered(bytes.len(), effort);
    }

    /// Steps until nothing is in progress, in the search or in a tail; gives where.
    fn push_busy(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(MatchEvent),
    ) -> usize {
        let columns = self.nfa.alphabet.bytes();
        while let Some(&byte) = bytes.get(at) {
            if cursor.has_suffixes() {
                let end = bytes.len().min(at + AWAKE);
                self.push_plain(cursor, &bytes[..end], at, on);
                at = end;
                continue;
            }
            let is_alone = cursor.is_alone();
            let table = &cursor.generation.table;
            if is_alone && cursor.generation.is_base(cursor.state) {
                break;
            }
            let next = table.next(cursor.state, usize::from(columns[usize::from(byte)]));
            if is_alone && !table.is_special(next) {
                cursor.state = next;
                cursor.decoder.passed_ascii();
                at += 1;
            } else {
                at = self.push_slow(cursor, bytes, at, on);
            }
        }
        at
    }

    /// Steps whole tiles in lanes, those with something special in them plainly, which adds their bytes to
    /// `stepped`; gives where they end.
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
        // After a miss that many tiles are not tried: twice as many after each.
        let (mut misses, mut skip) = (0u32, 0u32);
        while let Some(text) = bytes.get(at..at + size) {
            let is_ready = skip == 0 && cursor.is_alone();
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
                    self.push_plain(cursor, &bytes[..at + size], at, on);
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
        let columns = self.nfa.alphabet.bytes();
        let look_behind_after = &self.look_behind_after;
        SpeculativeLanes {
            table,
            columns,
            start_states,
            look_behind_after,
        }
        .step(cursor.state, text, tile)
    }
}
