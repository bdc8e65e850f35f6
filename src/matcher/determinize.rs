//! What a state of a lazily built DFA stands for, and how one follows from another: a step through the NFA.
//!
//! A state of the search is what stands before the position, and the NFA states that are live *beyond*
//! those of a new search: every position also starts all patterns anew, and what that contributes is
//! computed once per (look-behind, column) and left out of the state. A state of a tail is the NFA
//! states that are live behind one cut. A state knows two lists of what it reports: what is there
//! whatever comes next, and what was there before the last symbol and needed it to be sure. Reported
//! are patterns, and by the search also cuts that were reached.

pub(super) mod state_repr;

use super::bit_nfa::{BitNfa, BitStateSet};
use super::look::{LookAhead, LookBehind, holds};
use super::nfa::{Nfa, NfaState};

/// What a state of the automaton stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StateSet {
    /// The cut whose tail it is; the search itself has none.
    pub(super) cut: Option<u32>,
    pub(super) before: LookBehind,
    /// NFA states, for the search those beyond a new one; sorted.
    pub(super) states: Vec<u32>,
}

impl StateSet {
    /// Whether there is nothing beyond a new search.
    pub(super) fn is_base(&self) -> bool {
        self.states.is_empty()
    }

    /// A tail in which nothing is live any more, whichever it was.
    pub(super) fn dead() -> StateSet {
        StateSet {
            cut: Some(DEAD_CUT),
            before: LookBehind::Other,
            states: Vec::new(),
        }
    }
}

/// In a list of what is reported: this is a cut, not a pattern.
pub(super) const CUT: u32 = 1 << 31;

/// The cut of tails that are over, whichever theirs was. There are not so many.
const DEAD_CUT: u32 = !CUT;

/// The NFA states of a new search.
#[derive(Debug)]
pub(super) struct StartClosure {
    pub(super) states: Box<[u32]>,
    pub(super) holds: Box<[u64]>,
    /// Cuts that it reaches at once.
    pub(super) cuts: Box<[u32]>,
}

impl StartClosure {
    pub(super) fn holds(&self, state: u32) -> bool {
        self.holds[state as usize / 64] >> (state % 64) & 1 == 1
    }
}

/// What a step leads to; in order once it is joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Successor {
    pub(super) state_set: StateSet,
    pub(super) now: Vec<u32>,
    pub(super) late: Vec<u32>,
}

/// Scratch space of one step through the NFA, and its outcome.
#[derive(Debug)]
pub(super) struct Determinizer {
    /// In which round each NFA state was last reached.
    seen: Vec<u64>,
    round: u64,
    stack: Vec<u32>,
    resolved: Vec<u32>,
    /// Whether cuts are passed, as tails do, and not reported.
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

    /// How many states the NFA has.
    pub(super) fn states(&self) -> usize {
        self.seen.len()
    }

    /// The NFA states of a new search.
    pub(super) fn start_closures(&mut self, nfa: &Nfa, before: LookBehind) -> StartClosure {
        self.round += 1;
        let mut states = Vec::new();
        for &start in &nfa.starts {
            self.close(nfa, start, before, LookAhead::Unknown, &mut states);
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

    /// Adds to `out` the states reached from `state` without taking a symbol: sets, matches, cuts that
    /// are not passed, and assertions that `after` does not decide yet.
    fn close(
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

    /// Steps the states of `state_set` over a symbol of that column.
    pub(super) fn run(
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
                    self.close(nfa, next, after, LookAhead::Unknown, states);
                }
                NfaState::Match(pattern) => successor.late.push(pattern),
                NfaState::Cut { cut, .. } => successor.late.push(CUT | cut),
                _ => {}
            }
        }
        successor.state_set.cut = state_set.cut;
        successor.state_set.before = after;
        successor.take_reports(nfa);
        self.resolved = resolved;
        self.successor = successor;
    }

    /// Steps a crowd. Of the outcome only what is reported is told, the lists not in order and maybe with repeats.
    pub(super) fn bit_states(
        &mut self,
        nfa: &Nfa,
        bit_nfa: &BitNfa,
        (bit_states, next): (&BitStateSet, &mut BitStateSet),
        column: usize,
        after: LookBehind,
    ) {
        let mut reached = std::mem::take(&mut self.resolved);
        self.successor.clear();
        self.round += 1;
        bit_states.step(bit_nfa, column, next, |next, state| {
            let NfaState::Class { next: to, .. } = nfa.states[state as usize] else {
                return;
            };
            reached.clear();
            self.close(nfa, to, after, LookAhead::Unknown, &mut reached);
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

    /// Steps a tail.
    pub(super) fn suffix(&mut self, nfa: &Nfa, state_set: &StateSet, column: usize) {
        let cut = state_set.cut.expect("a tail has a cut");
        let has_look = nfa.cuts[cut as usize].has_look;
        let after = match has_look {
            true => state_set
                .before
                .after(nfa.alphabet.flags(column), nfa.look_needs),
            false => LookBehind::Other,
        };
        self.passes_cuts = true;
        self.run(nfa, state_set, column, after);
        self.passes_cuts = false;
        self.successor.sort(nfa);
        self.successor.canonicalize_dead();
    }

    /// Wakes the tail of a cut, which may be in `state_set` already.
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
        self.close(nfa, about.entry, before, LookAhead::Unknown, states);
        self.passes_cuts = false;
        states.extend_from_slice(&state_set.states);
        successor.state_set.cut = Some(cut);
        successor.state_set.before = before;
        successor.take_reports(nfa);
        successor.sort(nfa);
        successor.canonicalize_dead();
        self.successor = successor;
    }

    /// The states that `states` stand for once it is known what comes next.
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
        states.for_each(|state| self.close(nfa, state, before, after, out));
    }

    /// Adds what a new search contributes, and puts the lists in order.
    pub(super) fn join(
        &mut self,
        nfa: &Nfa,
        start_contributions: &Successor,
        start_closures: &StartClosure,
    ) {
        let successor = &mut self.successor;
        successor
            .state_set
            .states
            .retain(|&state| !start_closures.holds(state));
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

    /// Moves what is reported now out of the states.
    fn take_reports(&mut self, nfa: &Nfa) {
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

    /// Makes all tails that are over the same.
    fn canonicalize_dead(&mut self) {
        if self.state_set.states.is_empty() && self.now.is_empty() && self.late.is_empty() {
            self.state_set.cut = StateSet::dead().cut;
            self.state_set.before = StateSet::dead().before;
        }
    }

    /// Whether this is a tail that is over.
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
        // More states than a word has bits, and beginnings on both sides of it.
        let patterns = parsed(&["[a-c]{70}x", "^y", r"\bz", "q{3}"]);
        let nfa = Nfa::new(SymbolSpace::Chars, &patterns, None).expect("few classes");
        assert!(nfa.states.len() > 64);
        let mut step = Determinizer::new(nfa.states.len());
        for before in LookBehind::ALL {
            let start_closures = step.start_closures(&nfa, before);
            let held = (0..nfa.states.len() as u32).filter(|&state| start_closures.holds(state));
            let mut states = start_closures.states.to_vec();
            states.sort_unstable();
            assert_eq!(held.collect::<Vec<u32>>(), states, "{before:?}");
            assert!(states.len() >= 2 && states.len() < nfa.states.len());
        }
    }
}
