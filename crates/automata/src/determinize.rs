//! The determinizer: which NFA states a DFA state stands for, and how to compute its successor.
//!
//! A state of the search is a look-behind and the live NFA states *beyond* the start closure. The search is
//! unanchored, so every position adds the start closure; its contribution to a successor depends only on the
//! look-behind and the column, is computed once for each pair, and is left out of the set. A state of a suffix is the
//! NFA states that are live after one cut.
//!
//! A successor has two lists of reports: patterns that match whatever comes next, and patterns that matched before
//! the last symbol and needed it to be certain. A successor of the search also reports the cuts it reached.

pub(super) mod state_repr;

use super::bit_nfa::{BitNfa, BitStateSet};
use super::look::{LookAhead, LookBehind, holds};
use super::nfa::{Nfa, NfaState};

/// The set of NFA states that a DFA state stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StateSet {
    /// The cut whose suffix this is; `None` for the search.
    pub(super) cut: Option<u32>,
    pub(super) before: LookBehind,
    /// The sorted NFA states; for the search, those beyond the start closure.
    pub(super) states: Vec<u32>,
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

/// The flag of a cut in a list of reports; a pattern does not have it.
pub(super) const CUT: u32 = 1 << 31;

/// The cut of all dead suffixes. No pattern set has so many cuts.
const DEAD_CUT: u32 = !CUT;

/// The epsilon closure of the start of every pattern.
#[derive(Debug)]
pub(super) struct StartClosure {
    pub(super) states: Box<[u32]>,
    pub(super) holds: Box<[u64]>,
    /// The cuts in the closure.
    pub(super) cuts: Box<[u32]>,
}

impl StartClosure {
    pub(super) fn holds(&self, state: u32) -> bool {
        self.holds[state as usize / 64] >> (state % 64) & 1 == 1
    }
}

/// The successor of a state: its set and its reports. The lists are sorted by [`Determinizer::add_start_contribution`].
#[derive(Clone, Debug, Default)]
pub(super) struct Successor {
    pub(super) state_set: StateSet,
    pub(super) now: Vec<u32>,
    pub(super) late: Vec<u32>,
}

/// The scratch space of the subset construction, with the successor it computed last.
#[derive(Debug)]
pub(super) struct Determinizer {
    /// The round in which each NFA state was last reached.
    seen: Vec<u64>,
    round: u64,
    stack: Vec<u32>,
    resolved: Vec<u32>,
    /// True if cuts are passed, as in a suffix, and not reported.
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
    pub(super) fn states(&self) -> usize {
        self.seen.len()
    }

    /// Computes the start closure after this look-behind.
    pub(super) fn start_closure(&mut self, nfa: &Nfa, before: LookBehind) -> StartClosure {
        self.round += 1;
        let mut states = Vec::new();
        for &start in &nfa.starts {
            self.epsilon_closure(nfa, start, before, LookAhead::Unknown, &mut states);
        }
        let mut cuts = Vec::new();
        states.retain(|&state| match nfa.states[state as usize] {
            NfaState::Cut { cut, .. } => {
                cuts.push(CUT | cut);
                false
            }
            _ => true,
        });
        let mut holds = vec![0u64; nfa.states.len().div_ceil(64)].into_boxed_slice();
        for &state in &states {
            holds[state as usize / 64] |= 1 << (state % 64);
        }
        cuts.sort_unstable();
        StartClosure {
            states: states.into_boxed_slice(),
            holds,
            cuts: cuts.into_boxed_slice(),
        }
    }

    /// Adds the epsilon closure of `state` to `out`: classes, matches, cuts that are not passed, and assertions that
    /// `after` does not decide yet.
    fn epsilon_closure(
        &mut self,
        nfa: &Nfa,
        state: u32,
        before: LookBehind,
        after: LookAhead,
        out: &mut Vec<u32>,
    ) {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[state as usize], self.round) == self.round {
                continue;
            }
            match &nfa.states[state as usize] {
                NfaState::Class { .. } | NfaState::Match(_) => out.push(state),
                NfaState::Split(next) => self.stack.extend_from_slice(next),
                NfaState::Cut { next, .. } if self.passes_cuts => self.stack.push(*next),
                NfaState::Cut { .. } => out.push(state),
                NfaState::Look { look, next } => match holds(*look, before, after) {
                    Some(true) => self.stack.push(*next),
                    Some(false) => {}
                    None => out.push(state),
                },
            }
        }
    }

    /// Computes the successor of `state_set` on a column.
    pub(super) fn step(
        &mut self,
        nfa: &Nfa,
        state_set: &StateSet,
        column: usize,
        after: LookBehind,
    ) {
        let mut resolved = std::mem::take(&mut self.resolved);
        let mut successor = std::mem::take(&mut self.successor);
        successor.clear();
        resolved.clear();
        let flags = LookAhead::Symbol(nfa.alphabet.flags(column));
        let states = state_set.states.iter().copied();
        self.resolve(nfa, states, state_set.before, flags, &mut resolved);
        self.round += 1;
        for &state in &resolved {
            match nfa.states[state as usize] {
                NfaState::Class { class, next } if nfa.holds(class, column) => {
                    let states = &mut successor.state_set.states;
                    self.epsilon_closure(nfa, next, after, LookAhead::Unknown, states);
                }
                NfaState::Match(pattern) => successor.late.push(pattern),
                NfaState::Cut { cut, .. } => successor.late.push(CUT | cut),
                _ => {}
            }
        }
        successor.state_set.cut = state_set.cut;
        successor.state_set.before = after;
        successor.split_off_reports(nfa);
        self.resolved = resolved;
        self.successor = successor;
    }

    /// Steps a bit-parallel set. Of the successor only the reports are set, unsorted and possibly with duplicates.
    pub(super) fn step_bit_states(
        &mut self,
        nfa: &Nfa,
        bit_nfa: &BitNfa,
        (step_bit_states, next): (&BitStateSet, &mut BitStateSet),
        column: usize,
        after: LookBehind,
    ) {
        let mut reached = std::mem::take(&mut self.resolved);
        self.successor.clear();
        self.round += 1;
        step_bit_states.step(bit_nfa, column, next, |next, state| {
            let NfaState::Class { next: to, .. } = nfa.states[state as usize] else {
                return;
            };
            reached.clear();
            self.epsilon_closure(nfa, to, after, LookAhead::Unknown, &mut reached);
            for &state in &reached {
                match nfa.states[state as usize] {
                    NfaState::Match(pattern) => self.successor.now.push(pattern),
                    NfaState::Cut { cut, .. } => self.successor.now.push(CUT | cut),
                    _ => next.add(state),
                }
            }
        });
        self.resolved = reached;
    }

    /// Computes the successor of a suffix.
    pub(super) fn step_suffix(&mut self, nfa: &Nfa, state_set: &StateSet, column: usize) {
        let cut = state_set.cut.expect("a tail has a cut");
        let has_look = nfa.cuts[cut as usize].has_look;
        let after = match has_look {
            true => state_set
                .before
                .after(nfa.alphabet.flags(column), nfa.look_needs),
            false => LookBehind::Other,
        };
        self.passes_cuts = true;
        self.step(nfa, state_set, column, after);
        self.passes_cuts = false;
        self.successor.sort(nfa);
        self.successor.canonicalize_dead();
    }

    /// Adds the start of a suffix to `state_set`, in which it may be live already.
    pub(super) fn activate_suffix(
        &mut self,
        nfa: &Nfa,
        state_set: &StateSet,
        cut: u32,
        before: LookBehind,
    ) {
        let mut successor = std::mem::take(&mut self.successor);
        successor.clear();
        let about = nfa.cuts[cut as usize];
        let before = if about.has_look {
            before
        } else {
            LookBehind::Other
        };
        self.passes_cuts = true;
        self.round += 1;
        let states = &mut successor.state_set.states;
        self.epsilon_closure(nfa, about.entry, before, LookAhead::Unknown, states);
        self.passes_cuts = false;
        states.extend_from_slice(&state_set.states);
        successor.state_set.cut = Some(cut);
        successor.state_set.before = before;
        successor.split_off_reports(nfa);
        successor.sort(nfa);
        successor.canonicalize_dead();
        self.successor = successor;
    }

    /// Replaces assertions by their targets or drops them, now that the look-ahead is known.
    fn resolve(
        &mut self,
        nfa: &Nfa,
        states: impl Iterator<Item = u32>,
        before: LookBehind,
        after: LookAhead,
        out: &mut Vec<u32>,
    ) {
        if !nfa.has_look {
            return out.extend(states);
        }
        self.round += 1;
        states.for_each(|state| self.epsilon_closure(nfa, state, before, after, out));
    }

    /// Adds the contribution of the start closure, and sorts the lists.
    pub(super) fn add_start_contribution(
        &mut self,
        nfa: &Nfa,
        start_contributions: &Successor,
        start_closure: &StartClosure,
    ) {
        let successor = &mut self.successor;
        successor
            .state_set
            .states
            .retain(|&state| !start_closure.holds(state));
        successor
            .state_set
            .states
            .extend_from_slice(&start_contributions.state_set.states);
        successor.now.extend_from_slice(&start_contributions.now);
        successor.late.extend_from_slice(&start_contributions.late);
        successor.sort(nfa);
    }

    pub(super) fn at_end(
        &mut self,
        nfa: &Nfa,
        before: LookBehind,
        states: impl Iterator<Item = u32>,
    ) -> Vec<u32> {
        let mut reached = Vec::new();
        self.passes_cuts = true;
        self.resolve(nfa, states, before, LookAhead::End, &mut reached);
        self.passes_cuts = false;
        let mut patterns: Vec<u32> = reached
            .into_iter()
            .filter_map(|state| match nfa.states[state as usize] {
                NfaState::Match(pattern) => Some(pattern),
                _ => None,
            })
            .collect();
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

    /// Moves matches and cuts from the states to the reports.
    fn split_off_reports(&mut self, nfa: &Nfa) {
        let now = &mut self.now;
        self.state_set
            .states
            .retain(|&state| match nfa.states[state as usize] {
                NfaState::Match(pattern) => {
                    now.push(pattern);
                    false
                }
                NfaState::Cut { cut, .. } => {
                    now.push(CUT | cut);
                    false
                }
                _ => true,
            });
    }

    fn sort(&mut self, nfa: &Nfa) {
        for list in [&mut self.state_set.states, &mut self.now, &mut self.late] {
            list.sort_unstable();
            list.dedup();
        }
        nfa.drop_subsumed(&mut self.state_set.states);
    }

    /// Gives all dead suffixes the same set.
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
    fn a_new_search_holds_its_states_and_no_others() {
        // More states than a word has bits, and starts on both sides of it.
        let patterns = parsed(&["[a-c]{70}x", "^y", r"\bz", "q{3}"]);
        let nfa = Nfa::new(SymbolSpace::Chars, &patterns, None).expect("few classes");
        assert!(nfa.states.len() > 64);
        let mut step = Determinizer::new(nfa.states.len());
        for before in LookBehind::ALL {
            let start_closure = step.start_closure(&nfa, before);
            let held = (0..nfa.states.len() as u32).filter(|&state| start_closure.holds(state));
            let mut states = start_closure.states.to_vec();
            states.sort_unstable();
            assert_eq!(held.collect::<Vec<u32>>(), states, "{before:?}");
            assert!(states.len() >= 2 && states.len() < nfa.states.len());
        }
    }
}
