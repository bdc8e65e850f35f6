//! The strategy for long input: speculative parallel stepping.
//!
//! A step waits for the load of the step before it, so one search leaves the processor idle. A tile of text is cut
//! into as many stretches as there are lanes. The first lane starts in the true state. Each other lane starts a few
//! bytes before its stretch in an idle state, which is where searches are most of the time. If the lane before it ends
//! in another state than guessed, the stretch is stepped again from the true state until both meet. The result is
//! exact whatever the text; only the speed depends on the guess.
//!
//! Contract: a tile with a special state or a byte that needs decoding is declined and leaves the search as it was. The
//! scalar search then steps the tile, and reports.

use super::super::MatchEvent;
use super::super::alphabet::{Alphabet, Column};
use super::super::look::LookBehind;
use super::super::table::{StateId, Table};
use super::{DfaCache, DfaCursor, LazyDfa};

/// The tiles that a long delta is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) size: TileSize,
    /// The bytes that a lane starts early; fewer than those of a stretch.
    pub(crate) early: usize,
    /// The least bytes of a delta for which tiles pay.
    pub(crate) min_len: usize,
}

/// The number of stretches that are stepped in parallel, and the bytes of a stretch.
// PERF: known to the compiler, so the lanes share one pointer to the text: 2.38 million instructions for bulk text, and 2.82
// with sizes in variables (`cargo bench --bench instructions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TileSize {
    FourBy16,
    EightBy64,
    #[cfg(any(test, feature = "test-support"))]
    EightBy2,
    #[cfg(any(test, feature = "test-support"))]
    FourBy3,
    #[cfg(any(test, feature = "test-support"))]
    EightBy5,
    #[cfg(any(test, feature = "test-support"))]
    FourBy10,
}

impl Tile {
    /// For a kilobyte or more, which holds two tiles. A stretch is long against its early bytes.
    pub(crate) const USUAL: Tile = Tile {
        size: TileSize::EightBy64,
        early: 8,
        min_len: 1024,
    };

    /// For shorter input and for the remainder.
    pub(crate) const SMALL: Tile = Tile {
        size: TileSize::FourBy16,
        early: 8,
        min_len: 64,
    };
}

impl TileSize {
    /// Returns the number of bytes of a tile.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            TileSize::FourBy16 => 4 * 16,
            TileSize::EightBy64 => 8 * 64,
            #[cfg(any(test, feature = "test-support"))]
            TileSize::EightBy2 => 8 * 2,
            #[cfg(any(test, feature = "test-support"))]
            TileSize::FourBy3 => 4 * 3,
            #[cfg(any(test, feature = "test-support"))]
            TileSize::EightBy5 => 8 * 5,
            #[cfg(any(test, feature = "test-support"))]
            TileSize::FourBy10 => 4 * 10,
        }
    }
}

impl LazyDfa {
    /// Steps the bytes in tiles of each size in turn, and the remainder in the scalar search. Returns the number of
    /// bytes stepped in lanes.
    pub(super) fn push_speculative(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        on: &mut dyn FnMut(MatchEvent),
    ) -> usize {
        let (mut at, mut in_lanes) = (0, 0);
        for tile in self.tiles {
            if bytes.len() - at >= tile.min_len {
                let (end, accepted) = self.push_tiles(tile, cursor, bytes, at, on);
                at = end;
                in_lanes += accepted;
            }
        }
        self.push_scalar(cursor, bytes, at, on);
        in_lanes
    }

    /// Steps whole tiles in speculative lanes, and those that decline in the scalar search. Returns the index of the
    /// byte after the last tile, and the number of bytes stepped in lanes.
    pub(super) fn push_tiles(
        &self,
        tile: Tile,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut dyn FnMut(MatchEvent),
    ) -> (usize, usize) {
        let size = tile.size.bytes();
        let mut in_lanes = 0;
        // The number of tiles that are not tried after one declines. It doubles with each that declines, because a
        // declined tile is stepped twice. The limit of 64 lets a long text return to lanes after a passage of matches.
        let (mut misses, mut skip) = (0u32, 0u32);
        while let Some(text) = bytes.get(at..at + size) {
            let is_ready = skip == 0 && cursor.is_single_state();
            let next = is_ready
                .then(|| self.step_tile(tile, cursor, text))
                .flatten();
            match next {
                Some(state) => {
                    cursor.state = state;
                    cursor.decoder.advance_ascii();
                    misses = 0;
                    in_lanes += size;
                }
                None => {
                    if is_ready {
                        misses = (misses + 1).min(6);
                        skip = 1 << misses;
                    }
                    skip = skip.saturating_sub(1);
                    self.push_scalar(cursor, &bytes[..at + size], at, on);
                }
            }
            at += size;
        }
        (at, in_lanes)
    }

    #[allow(unsafe_code, reason = "unchecked steps")]
    fn step_tile(&self, tile: Tile, cursor: &DfaCursor, text: &[u8]) -> Option<StateId> {
        let DfaCache {
            table,
            start_states,
            ..
        } = &**cursor.generation;
        let lanes = SpeculativeLanes {
            table,
            alphabet: &self.nfa.alphabet,
            start_states,
            look_behind_after: &self.look_behind_after,
        };
        let (state, early) = (cursor.state, tile.early);
        // SAFETY: 1. the state of a cursor is one of its table (invariant of `DfaCursor`). 2. Both are of one cache.
        unsafe {
            match tile.size {
                TileSize::FourBy16 => lanes.step_tile::<4, 16>(state, text, early),
                TileSize::EightBy64 => lanes.step_tile::<8, 64>(state, text, early),
                #[cfg(any(test, feature = "test-support"))]
                TileSize::EightBy2 => lanes.step_tile::<8, 2>(state, text, early),
                #[cfg(any(test, feature = "test-support"))]
                TileSize::FourBy3 => lanes.step_tile::<4, 3>(state, text, early),
                #[cfg(any(test, feature = "test-support"))]
                TileSize::EightBy5 => lanes.step_tile::<8, 5>(state, text, early),
                #[cfg(any(test, feature = "test-support"))]
                TileSize::FourBy10 => lanes.step_tile::<4, 10>(state, text, early),
            }
        }
    }
}

/// The tables that lanes step through.
struct SpeculativeLanes<'a> {
    table: &'a Table,
    alphabet: &'a Alphabet,
    /// The states without a partial match, by look-behind.
    start_states: &'a [StateId; LookBehind::ALL.len()],
    /// The look-behind after each column.
    look_behind_after: &'a [LookBehind],
}

impl SpeculativeLanes<'_> {
    /// Returns the state after a tile that starts in `state`; `None` if it declines. The lanes start `early` bytes early.
    ///
    /// # Safety
    ///
    /// 1. `state` was made by `self.table`.
    /// 2. So were `self.start_states`.
    // PERF: not inlined, because the registers of the caller then leave too few for the lanes: 2.38 million instructions for
    // bulk text, and 2.86 inlined (`cargo bench --bench instructions`).
    #[inline(never)]
    #[allow(unsafe_code, reason = "unchecked steps")]
    unsafe fn step_tile<const LANES: usize, const STRETCH: usize>(
        &self,
        state: StateId,
        text: &[u8],
        early: usize,
    ) -> Option<StateId> {
        let (stretches, _) = text.as_chunks::<STRETCH>();
        // A tile has as many bytes (`TileSize::bytes`).
        let stretches: &[[u8; STRETCH]; LANES] = stretches.first_chunk()?;
        let mut bits = 0;
        // The first lane needs no guess: it repeats the early bytes of the second, and its guess is replaced.
        let before = |lane: usize| &stretches[lane.max(1) - 1];
        let mut guess = [state; LANES];
        for (lane, guess) in guess.iter_mut().enumerate().skip(1) {
            *guess = self.start_state(before(lane)[STRETCH - early - 1])?;
        }
        guess[0] = guess[1];
        // `bits` also collects the states of wrong guesses. One of them may be special where the true search has no
        // special state; the tile is then declined, which costs time and changes nothing.
        let early_texts = std::array::from_fn(before);
        let never = |_| false;
        // SAFETY: 1. every guess is a start state or `state`; both are of the table by the contract.
        unsafe { self.step_lanes(&mut guess, early_texts, STRETCH - early, &mut bits, never) };
        guess[0] = state;
        // The true state is the caller's, which has a full row, and so have start states: `next` may be used (invariant
        // 3 of `search`). A byte that is not ASCII leads to `UNKNOWN` and shows in `bits` (invariant 4 of `search`).
        let mut states = guess;
        // SAFETY: 1. the first is `state`; the others were returned by steps.
        unsafe { self.step_lanes(&mut states, stretches.each_ref(), 0, &mut bits, never) };
        // Invariant: `last` is the true state at the end of the stretch before `lane`. Two searches in one state stay
        // equal, so after a meeting the end of the guess is the true end. If they do not meet, the true search was
        // stepped to the end.
        let mut last = states[0];
        for lane in 1..LANES {
            // PERF: the true search and the guess meet after a few bytes. Stepping the whole stretch again costs 24 %
            // of a bulk text of 100 rules (`cargo bench --bench instructions`).
            let mut pair = [last, guess[lane]];
            let has_met = last == guess[lane] || {
                let stretch = [&stretches[lane]; 2];
                // SAFETY: 1. both were returned by steps.
                unsafe { self.step_lanes(&mut pair, stretch, 0, &mut bits, |[a, b]| a == b) }
            };
            last = if has_met { states[lane] } else { pair[0] };
        }
        (!self.table.any_special(bits)).then_some(last)
    }

    /// Steps each lane over its text, beginning with byte `from`, until `stop` returns true. Returns true if it did. ORs the
    /// bits of all states into `bits`.
    ///
    /// # Safety
    ///
    /// 1. Each state was made by `self.table` or returned by a step of it.
    #[inline(always)]
    #[allow(unsafe_code, reason = "unchecked steps")]
    unsafe fn step_lanes<const LANES: usize, const STRETCH: usize>(
        &self,
        states: &mut [StateId; LANES],
        texts: [&[u8; STRETCH]; LANES],
        from: usize,
        bits: &mut u32,
        stop: impl Fn([StateId; LANES]) -> bool,
    ) -> bool {
        let columns = self.alphabet.bytes();
        // PERF: with locals, states stay in registers: 563,700 instructions for 64 KB of bulk text instead of 601,300
        // (`cargo bench --bench instructions`).
        let (mut lanes, mut all) = (*states, *bits);
        let mut has_stopped = false;
        for at in from..STRETCH {
            for (state, text) in lanes.iter_mut().zip(&texts) {
                let column = columns[usize::from(text[at])];
                // SAFETY: 1. by the contract for the first column, for the others the state is that of the step before.
                *state = unsafe { self.table.next(*state, Column::from(column)) };
                all |= state.bits();
            }
            if stop(lanes) {
                has_stopped = true;
                break;
            }
        }
        (*states, *bits) = (lanes, all);
        has_stopped
    }

    /// Returns the idle state after an ASCII byte.
    fn start_state(&self, byte: u8) -> Option<StateId> {
        let column = usize::from(self.alphabet.bytes()[usize::from(byte)]);
        byte.is_ascii()
            .then(|| self.start_states[self.look_behind_after[column] as usize])
    }
}
