//! Patterns that hit in nearly any text, each of which is reported once.
//!
//! They would report something at every other byte for as long as a reply lasts. Apart from the others
//! they cost something only until each has hit; then their automaton is not stepped any more.

use regex_syntax::hir::Look;

use super::nfa::{Nfa, State, StateId};
use super::tails::Aside;

/// Most patterns of such an automaton.
pub(crate) const MOST_ONCE: usize = 64;

/// Sets of patterns, as bits.
#[derive(Debug)]
pub(super) struct Once {
    /// Those that can begin anywhere, in one of their branches at least.
    anywhere: u64,
    /// By cut: those behind it.
    behind: Box<[u64]>,
}

impl Once {
    pub(super) fn new(nfa: &Nfa) -> Once {
        let bits = |patterns: Vec<u32>| patterns.iter().fold(0u64, |bits, at| bits | 1 << at);
        // A pattern with several beginnings can begin anywhere if one of them can.
        let anywhere = nfa
            .starts
            .iter()
            .copied()
            .filter(|&start| !is_anchored(nfa, start));
        Once {
            anywhere: nfa
                .behind(anywhere)
                .into_iter()
                .map(bits)
                .fold(0, |all, bits| all | bits),
            behind: nfa.behind_cuts().into_iter().map(bits).collect(),
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

/// Whether a haystack only begins with this, and everything behind it is in a tail from then on.
fn is_anchored(nfa: &Nfa, start: StateId) -> bool {
    let State::Look {
        look: Look::Start,
        next,
    } = nfa.states[start as usize]
    else {
        return false;
    };
    matches!(nfa.states[next as usize], State::Cut { .. })
}

#[cfg(test)]
mod tests {
    use super::super::tails::Tail;
    use super::*;

    #[test]
    fn a_cut_is_over_when_all_behind_it_have_hit_whatever_else_has() {
        let once = Once {
            anywhere: 0b1011,
            behind: [0b0011, 0b0100].into(),
        };
        let tail = |cut| {
            let state = crate::matcher::table::StateId::of_bits(8).expect("not the first");
            let next = state;
            Tail { cut, state, next }
        };
        let mut aside = Aside {
            tails: vec![tail(0), tail(1)],
            ..Aside::default()
        };
        for (pattern, over, tails) in [
            (0, [false, false], 2),
            (3, [false, false], 2),
            (1, [true, false], 1),
            (2, [true, true], 0),
        ] {
            assert!(once.is_first(&mut aside, pattern) && !once.is_first(&mut aside, pattern));
            assert_eq!(
                [0, 1].map(|cut| once.is_over(&aside, cut)),
                over,
                "{pattern}"
            );
            assert!(!aside.is_through, "a tail is live");
            once.drop_tails(&mut aside);
            assert_eq!(aside.tails.len(), tails, "{pattern}");
            assert_eq!(aside.is_through, tails == 0, "{pattern}");
        }
    }
}
