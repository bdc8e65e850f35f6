//! Long deltas: several stretches of a text are stepped at once, the later ones speculatively.
//!
//! A step waits for the load of the step before it, so one search leaves the processor idle. Here a
//! tile of text is cut into as many stretches as there are lanes. The first lane begins in the true
//! state; each other one begins a little before its stretch, in the state that nothing is in progress
//! in, which is where searches are most of the time. Where the lane before it ends in another state
//! than that, the stretch is stepped again from the true state until the two meet. So the outcome is
//! exact, whatever the text; only its speed is a guess.
//!
//! A tile in which anything special turns up (a match, a state not built yet, a byte that needs
//! decoding) is left to the plain path.

use super::look::LookBehind;
use super::table::{StateId, Table};

/// How tiles are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Stretches side by side: 4 or 8.
    pub(crate) lanes: usize,
    /// Bytes of a stretch.
    pub(crate) stretch: usize,
    /// Bytes that a lane begins early; less than a stretch.
    pub(crate) early: usize,
    /// Least bytes of a delta that are worth tiles.
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

    /// 4 lanes of 16 bytes, for what is shorter and for the rest.
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

/// What tiles are stepped with.
pub(crate) struct SpeculativeLanes<'a> {
    pub(crate) table: &'a Table,
    pub(crate) columns: &'a [u8; 256],
    /// The states that nothing is in progress in, by what stands before.
    pub(crate) start_states: &'a [StateId; LookBehind::ALL.len()],
    /// What stands behind each column.
    pub(crate) look_behind_after: &'a [LookBehind],
}

impl SpeculativeLanes<'_> {
    /// The state after a tile that begins in `state`; nothing if anything special is in it.
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
            *guess = self.run(*guess, &text[early..begin], &mut bits);
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

    /// The state after `text` from the true state, given the one guessed and where the guess led.
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

    /// The state of a search in which nothing is in progress, after an ASCII byte.
    fn start_state(&self, byte: u8) -> Option<StateId> {
        let column = usize::from(self.columns[usize::from(byte)]);
        byte.is_ascii()
            .then(|| self.start_states[self.look_behind_after[column] as usize])
    }

    fn run(&self, state: StateId, text: &[u8], bits: &mut u32) -> StateId {
        text.iter().fold(state, |state, &byte| {
            let next = self.next(state, byte);
            *bits |= next.bits();
            next
        })
    }

    #[inline(always)]
    fn next(&self, state: StateId, byte: u8) -> StateId {
        self.table
            .next(state, usize::from(self.columns[usize::from(byte)]))
    }
}
