//! Speculative parallel stepping of long input.
//!
//! A step waits for the load of the step before it, so one search leaves the processor idle. A tile of text is cut
//! into as many stretches as there are lanes. The first lane starts in the true state. Each other lane starts a few
//! bytes before its stretch in an idle state, which is where searches are most of the time. If the lane before it ends
//! in another state than guessed, the stretch is stepped again from the true state until both meet. The result is
//! exact whatever the text; only the speed depends on the guess.
//!
//! Contract: a tile with a special state or a byte that needs decoding is declined before the cursor is touched, and
//! nothing is reported.

use super::alphabet::Alphabet;
use super::look::LookBehind;
use super::table::{BLOCK, StateId, Table};

/// The size of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// The number of stretches stepped in parallel: 4 or 8.
    pub(crate) lanes: usize,
    /// The bytes of a stretch.
    pub(crate) stretch: usize,
    /// The bytes that a lane starts early; fewer than those of a stretch.
    pub(crate) early: usize,
    /// The least bytes of a delta for which tiles pay.
    pub(crate) least: usize,
}

impl Tile {
    /// 8 lanes of 64 bytes: a kilobyte holds two tiles, and a stretch is long against its early bytes.
    pub(crate) const USUAL: Tile = Tile {
        lanes: 8,
        stretch: 64,
        early: 8,
        least: 1024,
    };

    /// 4 lanes of 16 bytes, for shorter input and for the remainder.
    pub(crate) const SMALL: Tile = Tile {
        lanes: 4,
        stretch: 16,
        early: 8,
        least: 64,
    };

    pub(crate) fn bytes(self) -> usize {
        self.lanes * self.stretch
    }
}

/// The tables that lanes step through.
pub(crate) struct SpeculativeLanes<'a> {
    pub(crate) table: &'a Table,
    pub(crate) alphabet: &'a Alphabet,
    /// The states without a partial match, by look-behind.
    pub(crate) start_states: &'a [StateId; LookBehind::ALL.len()],
    /// The look-behind after each column.
    pub(crate) look_behind_after: &'a [LookBehind],
}

impl SpeculativeLanes<'_> {
    /// Returns the state after a tile that starts in `state`; `None` if it declines.
    pub(crate) fn step(&self, state: StateId, text: &[u8], tile: Tile) -> Option<StateId> {
        match tile.lanes {
            4 => self.step_lanes::<4>(state, text, tile),
            _ => self.step_lanes::<8>(state, text, tile),
        }
    }

    fn step_lanes<const LANES: usize>(
        &self,
        state: StateId,
        text: &[u8],
        tile: Tile,
    ) -> Option<StateId> {
        let stretch = |lane: usize| &text[lane * tile.stretch..][..tile.stretch];
        let mut bits = 0;
        let mut guess = [state; LANES];
        for (lane, guess) in guess.iter_mut().enumerate().skip(1) {
            let begin = lane * tile.stretch;
            let early = begin - tile.early;
            *guess = self.start_state(text[early - 1])?;
            for block in text[early..begin].chunks(BLOCK) {
                *guess = self
                    .table
                    .step_block(*guess, self.alphabet.block(block), &mut bits);
            }
        }
        let texts: [&[u8]; LANES] = std::array::from_fn(stretch);
        let mut states = guess;
        for at in 0..tile.stretch {
            for (state, text) in states.iter_mut().zip(texts) {
                *state = self.next(*state, text[at]);
                bits |= state.bits();
            }
        }
        if self.table.any_special(bits) {
            return None;
        }
        let mut last = states[0];
        for lane in 1..LANES {
            last = match last == guess[lane] {
                true => states[lane],
                false => self.repair(last, guess[lane], states[lane], texts[lane])?,
            };
        }
        Some(last)
    }

    /// Returns the state after `text` from the true state, given the guessed state and where the guess led.
    // PERF: both meet after a few bytes. Stepping the whole stretch again costs 24 % of a bulk text of 100 rules
    // (`cargo bench --bench instructions`).
    fn repair(&self, state: StateId, guess: StateId, led: StateId, text: &[u8]) -> Option<StateId> {
        let (mut state, mut guess) = (state, guess);
        for &byte in text {
            state = self.next(state, byte);
            guess = self.next(guess, byte);
            if self.table.is_special(state) {
                return None;
            }
            if state == guess {
                return Some(led);
            }
        }
        Some(state)
    }

    /// Returns the idle state after an ASCII byte.
    fn start_state(&self, byte: u8) -> Option<StateId> {
        let column = usize::from(self.alphabet.bytes()[usize::from(byte)]);
        byte.is_ascii()
            .then(|| self.start_states[self.look_behind_after[column] as usize])
    }

    #[inline(always)]
    fn next(&self, state: StateId, byte: u8) -> StateId {
        self.table
            .next(state, usize::from(self.alphabet.bytes()[usize::from(byte)]))
    }
}
