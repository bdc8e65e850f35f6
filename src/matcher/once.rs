//! Patterns that hit in nearly any text, each of which is reported once.
//!
//! They would report something at every other byte for as long as a reply lasts. Apart from the others
//! they cost something only until each has hit; then their automaton is not stepped any more.

use super::nfa::{Nfa, State};
use super::tails::Aside;

/// Most patterns of such an automaton.
pub(crate) const MOST_ONCE: usize = 64;

/// Sets of patterns, as bits.
#[derive(Debug)]
pub(super) struct Once {
    /// Those that can begin anywhere.
    anywhere: u64,
    /// By cut: those behind it.
    behind: Box<[u64]>,
}

impl Once {
    pub(super) fn new(nfa: &Nfa, patterns: usize) -> Once {
        let bits = |patterns: Vec<u32>| patterns.iter().fold(0u64, |bits, at| bits | 1 << at);
        let behind: Box<[u64]> = nfa.behind_cuts().into_iter().map(bits).collect();
        let all = u64::MAX >> (MOST_ONCE - patterns);
        // Behind an anchor there is nothing but its cut.
        let anchored = nfa.starts.iter().filter_map(|&start| {
            let State::Look { look, next } = nfa.states[start as usize] else {
                return None;
            };
            match nfa.states[next as usize] {
                State::Cut { cut, .. } if look == regex_syntax::hir::Look::Start => Some(cut),
                _ => None,
            }
        });
        let anchored = anchored.fold(0, |bits, cut| bits | behind[cut as usize]);
        Once {
            anywhere: all & !anchored,
            behind,
        }
    }

    /// Whether the pattern has not hit yet; from now on it has.
    pub(super) fn is_first(&self, aside: &mut Aside, pattern: u32) -> bool {
        let is_first = aside.hit >> pattern & 1 == 0;
        aside.hit |= 1 << pattern;
        self.note(aside);
        is_first
    }

    /// Whether all patterns behind the cut have hit.
    pub(super) fn is_over(&self, aside: &Aside, cut: u32) -> bool {
        self.behind[cut as usize] & !aside.hit == 0
    }

    /// Drops the tails that nothing can come of any more.
    pub(super) fn drop_tails(&self, aside: &mut Aside) {
        let hit = aside.hit;
        let is_open = |cut: u32| self.behind[cut as usize] & !hit != 0;
        aside.tails.retain(|tail| is_open(tail.cut));
        if let Some(over) = &mut aside.over {
            over.tails.retain(|tail| is_open(tail.0));
        }
        self.note(aside);
    }

    /// Notes whether nothing can hit any more.
    fn note(&self, aside: &mut Aside) {
        let has_tails = match &aside.over {
            Some(over) => !over.tails.is_empty(),
            None => !aside.tails.is_empty(),
        };
        aside.is_through = self.anywhere & !aside.hit == 0 && !has_tails;
    }
}
