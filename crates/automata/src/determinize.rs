//! The determinizer: subset construction, one successor at a time.
//!
//! A DFA state of the search is a look-behind and the live NFA states *beyond* the start closure. The search is
//! unanchored, so every position adds the epsilon closure of the start of every pattern. The contribution of that start
//! closure to a successor depends only on the look-behind and the column. It is computed once for each pair and left
//! out of the set. A DFA state of a suffix is the set of NFA states that are live after one cut.
//!
//! A successor has two lists of reports: patterns that match whatever symbol comes next (`now`), and patterns that
//! matched before the last symbol and needed it to be certain (`late`). A successor of the search also reports the cuts
//! that it reached.
//!
//! # Invariants
//!
//! 1. A set contains only classes and undecided assertions. Splits are followed, and matches and cuts are moved to the
//!    reports.
//! 2. The set of the search contains no state of the start closure after its look-behind, because that closure is
//!    implied. The successor of the full set is the successor of the stored set united with the start contribution.
//! 3. The lists are sorted and free of duplicates before they are encoded, so equal sets have equal representations.
//! 4. An assertion stays in the set until the next symbol or the end of the haystack decides it. It is evaluated with
//!    the look-behind at its own position, which is the look-behind of the whole set.
//!
//! # Complexity
//!
//! A step visits each NFA state and each epsilon transition at most twice, once to resolve assertions and once to close
//! the targets: `O(states + transitions)`. Sorting adds a logarithm. Nothing is allocated once the buffers have grown.

pub(super) mod state_repr;

use super::alphabet::Column;
use super::bit_nfa::{BitNfa, BitStateSet};
use super::look::{LookAhead, LookBehind, holds};
use super::nfa::{Nfa, NfaCut, NfaState, NfaStateId};
use super::report::{CutId, EncodedReport, NO_INDEX, PatternId};

/// The set of NFA states that a DFA state represents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StateSet {
    /// The cut whose suffix this is; `None` for the search.
    pub(super) cut: Option<CutId>,
    pub(super) before: LookBehind,
    /// The sorted NFA states; for the search, those beyond the start closure.
    pub(super) states: Vec<NfaStateId>,
}

impl StateSet {
    /// Returns true if there is no state beyond the start closure.
    pub(super) fn is_start_closure(&self) -> bool {
        self.states.is_empty()
    }

    /// Returns the set of a suffix that can no longer match, the same for every cut.
    pub(super) fn dead() -> StateSet {
        StateSet {
            cut: Some(DEAD_CUT),
            before: LookBehind::Other,
            states: Vec::new(),
        }
    }
}

/// The cut of all dead suffixes. No pattern set has that many cuts.
const DEAD_CUT: CutId = CutId(NO_INDEX);

/// The epsilon closure of the start of every pattern, after one look-behind.
#[derive(Debug)]
pub(super) struct StartClosure {
    /// The states as a list, to be stepped.
    pub(super) states: Box<[NfaStateId]>,
    /// The same states as a bit vector, to be removed from a successor.
    pub(super) bits: Box<[u64]>,
    /// The cuts in the closure, as a state reports them.
    pub(super) cuts: Box<[EncodedReport]>,
}

impl StartClosure {
    pub(super) fn contains(&self, state: NfaStateId) -> bool {
        self.bits[state.index() / 64] >> (state.number() % 64) & 1 == 1
    }
}

/// The successor of a state: its set and its reports. The lists are sorted by [`Determinizer::add_start_contribution`].
#[derive(Clone, Debug, Default)]
pub(super) struct Successor {
    pub(super) state_set: StateSet,
    pub(super) now: Vec<EncodedReport>,
    pub(super) late: Vec<EncodedReport>,
}

/// The scratch space of the subset construction, with the successor it computed last.
#[derive(Debug)]
pub(super) struct Determinizer {
    /// By NFA state: the round in which the closure last reached it.
    seen: Vec<u64>,
    // A round is a generation number for `seen`, so the marks need not be cleared. It has 64 bits and never wraps.
    round: u64,
    stack: Vec<NfaStateId>,
    resolved: Vec<NfaStateId>,
    /// True while a suffix is stepped: its closure continues past cuts instead of reporting them.
    passes_cuts: bool,
    pub(super) successor: Successor,
}

impl Determinizer {
    pub(super) fn new(states: usize) -> Determinizer {
        Determinizer {
            seen: vec![0; states],
            round: 0,
            stack: Vec::new(),
            resolved: Vec::new(),
            passes_cuts: false,
            successor: Successor::default(),
        }
    }

    /// Returns the number of NFA states.
    pub(super) fn nfa_states(&self) -> usize {
        self.seen.len()
    }

    /// Computes the start closure after this look-behind.
    pub(super) fn start_closure(&mut self, nfa: &Nfa, before: LookBehind) -> StartClosure {
        self.round += 1;
        let mut states = Vec::new();
        // One round for all starts: a state that several patterns share is listed once.
        for &start in &nfa.starts {
            self.epsilon_closure(nfa, start, before, LookAhead::Unknown, &mut states);
        }
        // A cut at the start of a pattern is reached at every position. `CacheBuilder` adds it to each contribution.
        let mut cuts = Vec::new();
        states.retain(|&state| match nfa.states[state.index()] {
            NfaState::Cut { cut, .. } => {
                cuts.push(EncodedReport::of_cut(cut));
                false
            }
            _ => true,
        });
        // The closure stops at undecided assertions: the assertion is in the list, its targets are not.
        let mut bits = vec![0u64; nfa.states.len().div_ceil(64)].into_boxed_slice();
        for &state in &states {
            bits[state.index() / 64] |= 1 << (state.number() % 64);
        }
        cuts.sort_unstable();
        StartClosure {
            states: states.into_boxed_slice(),
            bits,
            cuts: cuts.into_boxed_slice(),
        }
    }

    /// Adds the epsilon closure of `state` to `out`: its classes and matches, the cuts that are not passed, and the
    /// assertions that `after` does not decide yet.
    ///
    /// The caller starts a round. Within a round each state is visited once, however many calls reach it.
    fn epsilon_closure(
        &mut self,
        nfa: &Nfa,
        state: NfaStateId,
        before: LookBehind,
        after: LookAhead,
        out: &mut Vec<NfaStateId>,
    ) {
        // The order of visits does not matter: all ends are reported, so there are no priorities as in a Pike VM.
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[state.index()], self.round) == self.round {
                continue;
            }
            match &nfa.states[state.index()] {
                NfaState::Class { .. } | NfaState::Match(_) => out.push(state),
                // A split is never in a set: its targets are.
                NfaState::Split(next) => self.stack.extend_from_slice(next),
                NfaState::Cut { next, .. } if self.passes_cuts => self.stack.push(*next),
                NfaState::Cut { .. } => out.push(state),
                NfaState::Look { look, next } => match holds(*look, before, after) {
                    Some(true) => self.stack.push(*next),
                    // Decided: no other symbol can make it true at this position.
                    Some(false) => {}
                    // Kept as a member of the set. `resolve` continues from here when the next symbol is known.
                    None => out.push(state),
                },
            }
        }
    }

    /// Computes the successor of `state_set` on a column. `after` is the look-behind after that symbol.
    ///
    /// The start closure is not added; [`add_start_contribution`](Self::add_start_contribution) does that.
    pub(super) fn step(
        &mut self,
        nfa: &Nfa,
        state_set: &StateSet,
        column: Column,
        after: LookBehind,
    ) {
        // Buffers are taken out and given back: the closure below borrows `self` mutably.
        let mut resolved = std::mem::take(&mut self.resolved);
        let mut successor = std::mem::take(&mut self.successor);
        successor.clear();
        resolved.clear();
        // First decide the assertions, with the symbol as look-ahead: `a\b` matches before the symbol is consumed.
        let flags = LookAhead::Symbol(nfa.alphabet.flags(column));
        let states = state_set.states.iter().copied();
        self.resolve(nfa, states, state_set.before, flags, &mut resolved);
        // A second round, because a state that was resolved may also be a target of this symbol.
        self.round += 1;
        for &state in &resolved {
            match nfa.states[state.index()] {
                NfaState::Class { class, next } if nfa.class_contains(class, column) => {
                    let states = &mut successor.state_set.states;
                    self.epsilon_closure(nfa, next, after, LookAhead::Unknown, states);
                }
                // Only a resolved assertion leads here: a match that needed no look-ahead was moved out of the set
                // when it was reached. The match ends before this symbol, so the report is late.
                NfaState::Match(pattern) => successor.late.push(EncodedReport::of_pattern(pattern)),
                NfaState::Cut { cut, .. } => successor.late.push(EncodedReport::of_cut(cut)),
                _ => {}
            }
        }
        successor.state_set.cut = state_set.cut;
        successor.state_set.before = after;
        // The matches in this closure need no further symbol, so they are `now`.
        successor.split_off_reports(nfa);
        self.resolved = resolved;
        self.successor = successor;
    }

    /// Steps a bit-parallel set. Of the successor only the reports are set, unsorted and possibly with duplicates.
    ///
    /// The set contains no assertion, so there are no late reports.
    pub(super) fn step_bit_states(
        &mut self,
        nfa: &Nfa,
        bit_nfa: &BitNfa,
        (states, next): (&BitStateSet, &mut BitStateSet),
        column: Column,
        after: LookBehind,
    ) {
        let mut reached = std::mem::take(&mut self.resolved);
        self.successor.clear();
        self.round += 1;
        states.step(bit_nfa, column, next, |next, state| {
            // Only states that are not shifted come here: targets of a shift are classes and need no closure. Subsumed
            // copies of a repeat are not dropped, because a shift moves 64 of them at once, which is cheaper.
            let NfaState::Class { next: to, .. } = nfa.states[state.index()] else {
                return;
            };
            reached.clear();
            self.epsilon_closure(nfa, to, after, LookAhead::Unknown, &mut reached);
            for &state in &reached {
                match nfa.states[state.index()] {
                    NfaState::Match(pattern) => {
                        self.successor.now.push(EncodedReport::of_pattern(pattern))
                    }
                    NfaState::Cut { cut, .. } => {
                        self.successor.now.push(EncodedReport::of_cut(cut))
                    }
                    _ => next.add(state),
                }
            }
        });
        self.resolved = reached;
    }

    /// Computes the successor of a suffix. Without an assertion in the suffix, its look-behind is always the same.
    pub(super) fn step_suffix(&mut self, nfa: &Nfa, state_set: &StateSet, column: Column) {
        let cut = state_set.cut.expect("a suffix has a cut");
        let has_look = nfa.cuts[cut.index()].has_look;
        // One look-behind for all contexts gives one DFA state instead of up to seven.
        let after = match has_look {
            true => state_set
                .before
                .after(nfa.alphabet.flags(column), nfa.look_needs),
            false => LookBehind::Other,
        };
        self.passes_cuts = true;
        self.step(nfa, state_set, column, after);
        self.passes_cuts = false;
        self.successor.sort_lists(nfa);
        self.successor.canonicalize_dead();
    }

    /// Adds the start of a suffix to `state_set`, in which it may be live already.
    ///
    /// Two live copies of one suffix are one set: this bounds the live suffixes of a cursor by the number of cuts.
    pub(super) fn activate_suffix(
        &mut self,
        nfa: &Nfa,
        state_set: &StateSet,
        cut: CutId,
        before: LookBehind,
    ) {
        let mut successor = std::mem::take(&mut self.successor);
        successor.clear();
        let NfaCut { entry, has_look } = nfa.cuts[cut.index()];
        let before = if has_look { before } else { LookBehind::Other };
        self.passes_cuts = true;
        self.round += 1;
        let states = &mut successor.state_set.states;
        self.epsilon_closure(nfa, entry, before, LookAhead::Unknown, states);
        self.passes_cuts = false;
        // The live states follow the new ones; duplicates are removed by the sort below.
        states.extend_from_slice(&state_set.states);
        // The suffix starts at the position where the prefix ended. Both copies are at that position, so they have one
        // look-behind and invariant 4 holds for the union.
        successor.state_set.cut = Some(cut);
        successor.state_set.before = before;
        successor.split_off_reports(nfa);
        successor.sort_lists(nfa);
        successor.canonicalize_dead();
        self.successor = successor;
    }

    /// Replaces each assertion by its targets if it holds, and drops it if not, now that the look-ahead is known.
    fn resolve(
        &mut self,
        nfa: &Nfa,
        states: impl Iterator<Item = NfaStateId>,
        before: LookBehind,
        after: LookAhead,
        out: &mut Vec<NfaStateId>,
    ) {
        if !nfa.has_look {
            // Without assertions the set is its own closure.
            return out.extend(states);
        }
        self.round += 1;
        states.for_each(|state| self.epsilon_closure(nfa, state, before, after, out));
    }

    /// Adds the contribution of the start closure, and sorts the lists.
    ///
    /// States of the start closure are removed first (invariant 2). Nothing is lost: from one NFA state at one position
    /// the same ends can be reached, whether the match is partial or starts here.
    pub(super) fn add_start_contribution(
        &mut self,
        nfa: &Nfa,
        start_contribution: &Successor,
        start_closure: &StartClosure,
    ) {
        let successor = &mut self.successor;
        successor
            .state_set
            .states
            .retain(|&state| !start_closure.contains(state));
        successor
            .state_set
            .states
            .extend_from_slice(&start_contribution.state_set.states);
        successor.now.extend_from_slice(&start_contribution.now);
        successor.late.extend_from_slice(&start_contribution.late);
        successor.sort_lists(nfa);
    }

    /// Returns the patterns that match because the haystack ends, sorted.
    pub(super) fn at_end(
        &mut self,
        nfa: &Nfa,
        before: LookBehind,
        states: impl Iterator<Item = NfaStateId>,
    ) -> Vec<PatternId> {
        let mut reached = Vec::new();
        // A cut after an assertion that only the end decides can no longer activate its suffix, so it is passed.
        self.passes_cuts = true;
        self.resolve(nfa, states, before, LookAhead::End, &mut reached);
        self.passes_cuts = false;
        let mut patterns: Vec<PatternId> = reached
            .into_iter()
            .filter_map(|state| match nfa.states[state.index()] {
                NfaState::Match(pattern) => Some(pattern),
                _ => None,
            })
            .collect();
        // In the order of pattern ids, so that reports at the end do not depend on the order of states.
        patterns.sort_unstable();
        patterns.dedup();
        patterns
    }
}

impl Successor {
    pub(super) fn clear(&mut self) {
        self.state_set.states.clear();
        self.state_set.cut = None;
        self.now.clear();
        self.late.clear();
    }

    /// Moves matches and cuts from the states to the reports that are certain now.
    fn split_off_reports(&mut self, nfa: &Nfa) {
        let now = &mut self.now;
        self.state_set
            .states
            .retain(|&state| match nfa.states[state.index()] {
                NfaState::Match(pattern) => {
                    now.push(EncodedReport::of_pattern(pattern));
                    false
                }
                NfaState::Cut { cut, .. } => {
                    now.push(EncodedReport::of_cut(cut));
                    false
                }
                _ => true,
            });
    }

    fn sort_lists(&mut self, nfa: &Nfa) {
        self.state_set.states.sort_unstable();
        self.state_set.states.dedup();
        for list in [&mut self.now, &mut self.late] {
            list.sort_unstable();
            list.dedup();
        }
        // `drop_subsumed` compares neighbours, so it needs the sorted list.
        nfa.drop_subsumed(&mut self.state_set.states);
    }

    /// Gives all dead suffixes the same set, so that the table has one dead state, which the search recognizes.
    fn canonicalize_dead(&mut self) {
        if self.state_set.states.is_empty() && self.now.is_empty() && self.late.is_empty() {
            self.state_set.cut = StateSet::dead().cut;
            self.state_set.before = StateSet::dead().before;
        }
    }

    /// Returns true if this is a dead suffix.
    pub(super) fn is_dead(&self) -> bool {
        self.state_set.states.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::SymbolSpace;
    use super::super::test_support::parsed;
    use super::*;

    #[test]
    fn a_start_closure_contains_its_states_and_no_others() {
        // More states than a word has bits, and starts in more than one word.
        let patterns = parsed(&["[a-c]{70}x", "^y", r"\bz", "q{3}"]);
        let nfa = Nfa::new(SymbolSpace::Chars, &patterns, None).expect("few classes");
        assert!(nfa.states.len() > 64);
        let mut determinizer = Determinizer::new(nfa.states.len());
        for before in LookBehind::ALL {
            let start_closure = determinizer.start_closure(&nfa, before);
            let held = (0..nfa.states.len() as u32)
                .map(NfaStateId::from_number)
                .filter(|&state| start_closure.contains(state));
            let mut states = start_closure.states.to_vec();
            states.sort_unstable();
            assert_eq!(held.collect::<Vec<NfaStateId>>(), states, "{before:?}");
            assert!(states.len() >= 2 && states.len() < nfa.states.len());
        }
    }
}
