//! Bit-parallel simulation of the NFA, for a cursor in the fallback.
//!
//! Text that multiplies states does so with counted repeats (`1[01]{20}x`). Their NFA states have consecutive
//! numbers, so a shift moves a word of 64 of them at once. States without such a neighbour are stepped one by one.
//! On such text, building every state ran at 1.0 MiB/s and this at 11.7 MiB/s (same busy machine, default budget).

use super::nfa::{Nfa, NfaState};

/// The masks of an NFA, by word of 64 states.
#[derive(Debug)]
pub(super) struct BitNfa {
    words: usize,
    /// By column and word: the states whose class contains the column.
    takes: Box<[u64]>,
    /// The states whose only target is the state numbered one less.
    rows: Box<[u64]>,
    /// The assertions that the next symbol decides.
    looks: Box<[u64]>,
}

/// A set of NFA states as a bit vector.
#[derive(Clone, Debug, Default)]
pub(super) struct BitStateSet {
    bits: Vec<u64>,
    /// The indices of the nonzero words, unordered.
    active: Vec<u32>,
}

impl BitNfa {
    pub(super) fn new(nfa: &Nfa) -> BitNfa {
        let words = nfa.states.len().div_ceil(64);
        let mut bit_nfa = BitNfa {
            words,
            takes: vec![0; words * nfa.alphabet.len()].into(),
            rows: vec![0; words].into(),
            looks: vec![0; words].into(),
        };
        for (at, state) in nfa.states.iter().enumerate() {
            let (word, bit) = (at / 64, 1 << (at % 64));
            match *state {
                NfaState::Class { class, next } => {
                    let columns =
                        (0..nfa.alphabet.len()).filter(|&column| nfa.holds(class, column));
                    columns.for_each(|column| bit_nfa.takes[column * words + word] |= bit);
                    let is_row = next as usize + 1 == at
                        && matches!(nfa.states[next as usize], NfaState::Class { .. });
                    bit_nfa.rows[word] |= if is_row { bit } else { 0 };
                }
                NfaState::Look { .. } => bit_nfa.looks[word] |= bit,
                _ => {}
            }
        }
        bit_nfa
    }
}

impl BitStateSet {
    /// Returns the states in order.
    pub(super) fn states(&self) -> impl Iterator<Item = u32> {
        let mut active = self.active.clone();
        active.sort_unstable();
        active.into_iter().flat_map(|word| {
            let bits = self.bits[word as usize];
            (0..64)
                .filter(move |bit| bits >> bit & 1 == 1)
                .map(move |bit| word * 64 + bit)
        })
    }

    /// Replaces the states.
    pub(super) fn replace(&mut self, bit_nfa: &BitNfa, states: impl IntoIterator<Item = u32>) {
        self.clear(bit_nfa);
        states.into_iter().for_each(|state| self.add(state));
    }

    pub(super) fn add(&mut self, state: u32) {
        self.add_bits(state as usize / 64, 1 << (state % 64));
    }

    /// Returns true if the set contains an assertion that the next symbol decides.
    pub(super) fn looks(&self, bit_nfa: &BitNfa) -> bool {
        let mut active = self.active.iter().map(|&word| word as usize);
        active.any(|word| self.bits[word] & bit_nfa.looks[word] != 0)
    }

    /// Steps the states over a symbol. Consecutive states move into `next` by a shift; each other state that takes the
    /// symbol is passed to `on`.
    pub(super) fn step(
        &self,
        bit_nfa: &BitNfa,
        column: usize,
        next: &mut BitStateSet,
        mut on: impl FnMut(&mut BitStateSet, u32),
    ) {
        next.clear(bit_nfa);
        let takes = &bit_nfa.takes[column * bit_nfa.words..][..bit_nfa.words];
        for &word in &self.active {
            let word = word as usize;
            let bits = self.bits[word] & takes[word];
            let row = bits & bit_nfa.rows[word];
            if row >> 1 != 0 {
                next.add_bits(word, row >> 1);
            }
            if row & 1 == 1 {
                next.add_bits(word - 1, 1 << 63);
            }
            let mut others = bits & !row;
            while others != 0 {
                on(next, word as u32 * 64 + others.trailing_zeros());
                others &= others - 1;
            }
        }
    }

    /// Removes the states of a bit vector.
    pub(super) fn remove(&mut self, holds: &[u64]) {
        let bits = &mut self.bits;
        self.active.retain(|&word| {
            bits[word as usize] &= !holds[word as usize];
            bits[word as usize] != 0
        });
    }

    fn add_bits(&mut self, word: usize, bits: u64) {
        if self.bits[word] == 0 {
            self.active.push(word as u32);
        }
        self.bits[word] |= bits;
    }

    fn clear(&mut self, bit_nfa: &BitNfa) {
        self.bits.resize(bit_nfa.words, 0);
        for word in self.active.drain(..) {
            self.bits[word as usize] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::SymbolSpace;
    use super::super::test_support::parsed;
    use super::*;

    #[test]
    fn a_crowd_looks_ahead_while_one_of_its_states_is_an_assertion() {
        let patterns = parsed(&["[a-c]{70}x", r"a\b", "q{3}"]);
        let nfa = Nfa::new(SymbolSpace::Chars, &patterns, None).expect("few classes");
        let bit_nfa = BitNfa::new(&nfa);
        let mut bit_states = BitStateSet::default();
        assert!(!bit_states.looks(&bit_nfa));
        bit_states.replace(&bit_nfa, 0..nfa.states.len() as u32);
        assert!(bit_states.looks(&bit_nfa));
        let is_look = |&state: &u32| matches!(nfa.states[state as usize], NfaState::Look { .. });
        let (looks, others): (Vec<u32>, Vec<u32>) = (0..nfa.states.len() as u32).partition(is_look);
        assert_eq!(looks.len(), 1);
        let mut holds = vec![0; nfa.states.len().div_ceil(64)];
        holds[looks[0] as usize / 64] = 1 << (looks[0] % 64);
        bit_states.remove(&holds);
        assert!(!bit_states.looks(&bit_nfa));
        assert_eq!(bit_states.states().collect::<Vec<u32>>(), others);
        bit_states.replace(&bit_nfa, others);
        assert!(!bit_states.looks(&bit_nfa));
    }
}
