//! What a state of a lazily built DFA stands for, and how one follows from another: a step through the NFA.
//!
//! A state of the search is what stands before the position, and the NFA states that are live *beyond*
//! those of a new search: every position also starts all patterns anew, and what that contributes is
//! computed once per (look-behind, column) and left out of the state. A state of a tail is the NFA
//! states that are live behind one cut. A state knows two lists of what it reports: what is there
//! whatever comes next, and what was there before the last symbol and needed it to be sure. Reported
//! are patterns, and by the search also cuts that were reached.

use super::crowd::{Crowd, Masks};
use super::look::{After, Before, holds};
use super::nfa::{Nfa, State};

/// What a state of the automaton stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Live {
    /// The cut whose tail it is; the search itself has none.
    pub(super) cut: Option<u32>,
    pub(super) before: Before,
    /// NFA states, for the search those beyond a new one; sorted.
    pub(super) states: Vec<u32>,
}

impl Live {
    /// Whether there is nothing beyond a new search.
    pub(super) fn is_base(&self) -> bool {
        self.states.is_empty()
    }

    /// A tail in which nothing is live any more, whichever it was.
    pub(super) fn dead() -> Live {
        Live {
            cut: Some(BURIED),
            before: Before::Other,
            states: Vec::new(),
        }
    }
}

/// In a list of what is reported: this is a cut, not a pattern.
pub(super) const CUT: u32 = 1 << 31;

/// The cut of tails that are over, whichever theirs was. There are not so many.
const BURIED: u32 = !CUT;

/// The NFA states of a new search.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) states: Box<[u32]>,
    pub(super) holds: Box<[u64]>,
    /// Cuts that it reaches at once.
    pub(super) cuts: Box<[u32]>,
}

impl Base {
    pub(super) fn holds(&self, state: u32) -> bool {
        self.holds[state as usize / 64] >> (state % 64) & 1 == 1
    }
}

/// What a step leads to; in order once it is joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) live: Live,
    pub(super) now: Vec<u32>,
    pub(super) late: Vec<u32>,
}

/// Scratch space of one step through the NFA, and its outcome.
#[derive(Debug)]
pub(super) struct Step {
    /// In which round each NFA state was last reached.
    seen: Vec<u64>,
    round: u64,
    stack: Vec<u32>,
    resolved: Vec<u32>,
    /// Whether cuts are passed, as tails do, and not reported.
    passes_cuts: bool,
    pub(super) outcome: Outcome,
}

impl Step {
    pub(super) fn new(states: usize) -> Step {
        Step {
            seen: vec![0; states],
            round: 0,
            stack: Vec::new(),
            resolved: Vec::new(),
            passes_cuts: false,
            outcome: Outcome::default(),
        }
    }

    /// How many states the NFA has.
    pub(super) fn states(&self) -> usize {
        self.seen.len()
    }

    /// The NFA states of a new search.
    pub(super) fn base(&mut self, nfa: &Nfa, before: Before) -> Base {
        self.round += 1;
        let mut states = Vec::new();
        for &start in &nfa.starts {
            self.close(nfa, start, before, After::Unknown, &mut states);
        }
        let mut cuts = Vec::new();
        states.retain(|&state| match nfa.states[state as usize] {
            State::Cut { cut, .. } => {
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
        Base {
            states: states.into_boxed_slice(),
            holds,
            cuts: cuts.into_boxed_slice(),
        }
    }

    /// Adds to `out` the states reached from `state` without taking a symbol: sets, matches, cuts that
    /// are not passed, and assertions that `after` does not decide yet.
    fn close(&mut self, nfa: &Nfa, state: u32, before: Before, after: After, out: &mut Vec<u32>) {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[state as usize], self.round) == self.round {
                continue;
            }
            match &nfa.states[state as usize] {
                State::Set { .. } | State::Match(_) => out.push(state),
                State::Split(next) => self.stack.extend_from_slice(next),
                State::Cut { next, .. } if self.passes_cuts => self.stack.push(*next),
                State::Cut { .. } => out.push(state),
                State::Look { look, next } => match holds(*look, before, after) {
                    Some(true) => self.stack.push(*next),
                    Some(false) => {}
                    None => out.push(state),
                },
            }
        }
    }

    /// Steps the states of `live` over a symbol of that column.
    pub(super) fn run(&mut self, nfa: &Nfa, live: &Live, column: usize, after: Before) {
        let mut resolved = std::mem::take(&mut self.resolved);
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.clear();
        resolved.clear();
        let flags = After::Symbol(nfa.alphabet.flags(column));
        let states = live.states.iter().copied();
        self.resolve(nfa, states, live.before, flags, &mut resolved);
        self.round += 1;
        for &state in &resolved {
            match nfa.states[state as usize] {
                State::Set { set, next } if nfa.holds(set, column) => {
                    let states = &mut outcome.live.states;
                    self.close(nfa, next, after, After::Unknown, states);
                }
                State::Match(pattern) => outcome.late.push(pattern),
                State::Cut { cut, .. } => outcome.late.push(CUT | cut),
                _ => {}
            }
        }
        outcome.live.cut = live.cut;
        outcome.live.before = after;
        outcome.take_reports(nfa);
        self.resolved = resolved;
        self.outcome = outcome;
    }

    /// Steps a crowd. Of the outcome only what is reported is told, the lists not in order and maybe with repeats.
    pub(super) fn crowd(
        &mut self,
        nfa: &Nfa,
        masks: &Masks,
        (crowd, next): (&Crowd, &mut Crowd),
        column: usize,
        after: Before,
    ) {
        let mut reached = std::mem::take(&mut self.resolved);
        self.outcome.clear();
        self.round += 1;
        crowd.step(masks, column, next, |next, state| {
            let State::Set { next: to, .. } = nfa.states[state as usize] else {
                return;
            };
            reached.clear();
            self.close(nfa, to, after, After::Unknown, &mut reached);
            for &state in &reached {
                match nfa.states[state as usize] {
                    State::Match(pattern) => self.outcome.now.push(pattern),
                    State::Cut { cut, .. } => self.outcome.now.push(CUT | cut),
                    _ => next.add(state),
                }
            }
        });
        self.resolved = reached;
    }

    /// Steps a tail.
    pub(super) fn tail(&mut self, nfa: &Nfa, live: &Live, column: usize) {
        let cut = live.cut.expect("a tail has a cut");
        let has_look = nfa.cuts[cut as usize].has_look;
        let after = match has_look {
            true => live.before.after(nfa.alphabet.flags(column), nfa.asked),
            false => Before::Other,
        };
        self.passes_cuts = true;
        self.run(nfa, live, column, after);
        self.passes_cuts = false;
        self.outcome.sort(nfa);
        self.outcome.bury();
    }

    /// Wakes the tail of a cut, which may be in `live` already.
    pub(super) fn wake(&mut self, nfa: &Nfa, live: &Live, cut: u32, before: Before) {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.clear();
        let about = nfa.cuts[cut as usize];
        let before = if about.has_look {
            before
        } else {
            Before::Other
        };
        self.passes_cuts = true;
        self.round += 1;
        let states = &mut outcome.live.states;
        self.close(nfa, about.entry, before, After::Unknown, states);
        self.passes_cuts = false;
        states.extend_from_slice(&live.states);
        outcome.live.cut = Some(cut);
        outcome.live.before = before;
        outcome.take_reports(nfa);
        outcome.sort(nfa);
        outcome.bury();
        self.outcome = outcome;
    }

    /// The states that `states` stand for once it is known what comes next.
    fn resolve(
        &mut self,
        nfa: &Nfa,
        states: impl Iterator<Item = u32>,
        before: Before,
        after: After,
        out: &mut Vec<u32>,
    ) {
        if !nfa.has_look {
            return out.extend(states);
        }
        self.round += 1;
        states.for_each(|state| self.close(nfa, state, before, after, out));
    }

    /// Adds what a new search contributes, and puts the lists in order.
    pub(super) fn join(&mut self, nfa: &Nfa, spawned: &Outcome, base: &Base) {
        let outcome = &mut self.outcome;
        outcome.live.states.retain(|&state| !base.holds(state));
        outcome.live.states.extend_from_slice(&spawned.live.states);
        outcome.now.extend_from_slice(&spawned.now);
        outcome.late.extend_from_slice(&spawned.late);
        outcome.sort(nfa);
    }

    pub(super) fn at_end(
        &mut self,
        nfa: &Nfa,
        before: Before,
        states: impl Iterator<Item = u32>,
    ) -> Vec<u32> {
        let mut reached = Vec::new();
        self.passes_cuts = true;
        self.resolve(nfa, states, before, After::End, &mut reached);
        self.passes_cuts = false;
        let mut patterns: Vec<u32> = reached
            .into_iter()
            .filter_map(|state| match nfa.states[state as usize] {
                State::Match(pattern) => Some(pattern),
                _ => None,
            })
            .collect();
        patterns.sort_unstable();
        patterns.dedup();
        patterns
    }
}

impl Outcome {
    pub(super) fn clear(&mut self) {
        self.live.states.clear();
        self.live.cut = None;
        self.now.clear();
        self.late.clear();
    }

    /// Moves what is reported now out of the states.
    fn take_reports(&mut self, nfa: &Nfa) {
        let now = &mut self.now;
        self.live
            .states
            .retain(|&state| match nfa.states[state as usize] {
                State::Match(pattern) => {
                    now.push(pattern);
                    false
                }
                State::Cut { cut, .. } => {
                    now.push(CUT | cut);
                    false
                }
                _ => true,
            });
    }

    fn sort(&mut self, nfa: &Nfa) {
        for list in [&mut self.live.states, &mut self.now, &mut self.late] {
            list.sort_unstable();
            list.dedup();
        }
        nfa.prune(&mut self.live.states);
    }

    /// Makes all tails that are over the same.
    fn bury(&mut self) {
        if self.live.states.is_empty() && self.now.is_empty() && self.late.is_empty() {
            self.live.cut = Live::dead().cut;
            self.live.before = Live::dead().before;
        }
    }

    /// Whether this is a tail that is over.
    pub(super) fn is_dead(&self) -> bool {
        self.live.states.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::Space;
    use super::super::forced::parsed;
    use super::*;

    #[test]
    fn a_new_search_holds_its_states_and_no_others() {
        // More states than a word has bits, and beginnings on both sides of it.
        let patterns = parsed(&["[a-c]{70}x", "^y", r"\bz", "q{3}"]);
        let nfa = Nfa::new(Space::Chars, &patterns, None).expect("few classes");
        assert!(nfa.states.len() > 64);
        let mut step = Step::new(nfa.states.len());
        for before in Before::ALL {
            let base = step.base(&nfa, before);
            let held = (0..nfa.states.len() as u32).filter(|&state| base.holds(state));
            let mut states = base.states.to_vec();
            states.sort_unstable();
            assert_eq!(held.collect::<Vec<u32>>(), states, "{before:?}");
            assert!(states.len() >= 2 && states.len() < nfa.states.len());
        }
    }
}
