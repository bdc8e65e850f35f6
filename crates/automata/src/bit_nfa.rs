//! Bit-parallel simulation of the NFA, for a cursor in the fallback.
//!
//! Text that multiplies states does so with counted repeats (`1[01]{20}x`). Their NFA states have consecutive
//! numbers, so a shift moves a word of 64 of them at once. States without such a neighbour are stepped one by one.
//! On such text, building every state ran at 1.0 MiB/s and this at 11.7 MiB/s (same busy machine, default budget).
//!
//! # Invariants
//!
//! 1. A word is nonzero exactly if its index is in `active`, and no index occurs twice. The bits of all other words
//!    are zero, so clearing a set costs as much as it has words, not as much as the NFA has.
//! 2. A shift only moves a state to its only target, a class with a number one less. It needs no epsilon closure.
//!
//! # Complexity
//!
//! A step costs one operation for each nonzero word, and a closure for each state that is not shifted. It is exact and
//! linear in the NFA, however many DFA states the text would need.

use super::alphabet::Column;
use super::nfa::{Nfa, NfaState, NfaStateId};

/// The masks of an NFA, by word of 64 states.
#[derive(Debug)]
pub(super) struct BitNfa {
    words: usize,
    /// By column and word: the states whose class contains the column.
    by_column: Box<[u64]>,
    /// The states whose only target is the state numbered one less.
    shifted: Box<[u64]>,
    /// The assertions that the next symbol decides.
    assertions: Box<[u64]>,
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
            by_column: vec![0; words * nfa.alphabet.len()].into(),
            shifted: vec![0; words].into(),
            assertions: vec![0; words].into(),
        };
        // One bit for each state and column, transposed, so that a step reads only the words of one column.
        for (at, state) in nfa.states.iter().enumerate() {
            let (word, bit) = (at / 64, 1 << (at % 64));
            match *state {
                NfaState::Class { class, next } => {
                    let columns = nfa
                        .alphabet
                        .columns()
                        .filter(|&column| nfa.class_contains(class, column));
                    columns.for_each(|column| {
                        bit_nfa.by_column[column.index() * words + word] |= bit;
                    });
                    // The target must be a class: a split, an assertion or a match would need a closure.
                    let is_shifted = next.index() + 1 == at
                        && matches!(nfa.states[next.index()], NfaState::Class { .. });
                    bit_nfa.shifted[word] |= if is_shifted { bit } else { 0 };
                }
                NfaState::Look { .. } => bit_nfa.assertions[word] |= bit,
                _ => {}
            }
        }
        bit_nfa
    }
}

impl BitStateSet {
    /// Returns the states in order.
    pub(super) fn states(&self) -> impl Iterator<Item = NfaStateId> {
        // Sorted, because callers step and encode states in ascending order.
        let mut active = self.active.clone();
        active.sort_unstable();
        active.into_iter().flat_map(|word| {
            let bits = self.bits[word as usize];
            (0..64)
                .filter(move |bit| bits >> bit & 1 == 1)
                .map(move |bit| NfaStateId::from_number(word * 64 + bit))
        })
    }

    /// Replaces the states.
    pub(super) fn replace(
        &mut self,
        bit_nfa: &BitNfa,
        states: impl IntoIterator<Item = NfaStateId>,
    ) {
        self.clear(bit_nfa);
        states.into_iter().for_each(|state| self.add(state));
    }

    pub(super) fn add(&mut self, state: NfaStateId) {
        self.add_bits(state.index() / 64, 1 << (state.number() % 64));
    }

    /// Returns true if the set contains an assertion that the next symbol decides.
    pub(super) fn has_assertion(&self, bit_nfa: &BitNfa) -> bool {
        let mut active = self.active.iter().map(|&word| word as usize);
        active.any(|word| self.bits[word] & bit_nfa.assertions[word] != 0)
    }

    /// Steps the states over a symbol. Consecutive states move into `next` by a shift; each other state that takes the
    /// symbol is passed to `on`.
    pub(super) fn step(
        &self,
        bit_nfa: &BitNfa,
        column: Column,
        next: &mut BitStateSet,
        mut on: impl FnMut(&mut BitStateSet, NfaStateId),
    ) {
        next.clear(bit_nfa);
        let consumers = &bit_nfa.by_column[column.index() * bit_nfa.words..][..bit_nfa.words];
        for &word in &self.active {
            let word = word as usize;
            // All states of the word that match the symbol, in one operation.
            let bits = self.bits[word] & consumers[word];
            let shifted = bits & bit_nfa.shifted[word];
            // States move to lower numbers. The lowest bit of a word moves into the highest bit of the word before.
            if shifted >> 1 != 0 {
                next.add_bits(word, shifted >> 1);
            }
            if shifted & 1 == 1 {
                // State 0 has no target with a lower number, so there is always a word before.
                next.add_bits(word - 1, 1 << 63);
            }
            let mut others = bits & !shifted;
            while others != 0 {
                let state = word as u32 * 64 + others.trailing_zeros();
                on(next, NfaStateId::from_number(state));
                // Clears the lowest bit, so the loop runs once for each state.
                others &= others - 1;
            }
        }
    }

    /// Removes the states of a bit vector.
    pub(super) fn remove(&mut self, removed: &[u64]) {
        let bits = &mut self.bits;
        // A word that becomes zero leaves `active` (invariant 1).
        self.active.retain(|&word| {
            bits[word as usize] &= !removed[word as usize];
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
    fn a_bit_state_set_has_an_assertion_while_one_of_its_states_is_one() {
        let patterns = parsed(&["[a-c]{70}x", r"a\b", "q{3}"]);
        let nfa = Nfa::new(SymbolSpace::Chars, &patterns, None).expect("few classes");
        let bit_nfa = BitNfa::new(&nfa);
        let mut bit_states = BitStateSet::default();
        assert!(!bit_states.has_assertion(&bit_nfa));
        let all = (0..nfa.states.len() as u32).map(NfaStateId::from_number);
        bit_states.replace(&bit_nfa, all.clone());
        assert!(bit_states.has_assertion(&bit_nfa));
        let is_look =
            |state: &NfaStateId| matches!(nfa.states[state.index()], NfaState::Look { .. });
        let (looks, others): (Vec<NfaStateId>, Vec<NfaStateId>) = all.partition(is_look);
        assert_eq!(looks.len(), 1);
        let mut removed = vec![0; nfa.states.len().div_ceil(64)];
        removed[looks[0].index() / 64] = 1 << (looks[0].number() % 64);
        bit_states.remove(&removed);
        assert!(!bit_states.has_assertion(&bit_nfa));
        assert_eq!(bit_states.states().collect::<Vec<NfaStateId>>(), others);
        bit_states.replace(&bit_nfa, others);
        assert!(!bit_states.has_assertion(&bit_nfa));
    }
}
