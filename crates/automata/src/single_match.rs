//! Patterns that match nearly any text, each of which is reported once (Hyperscan: SINGLEMATCH).
//!
//! They would report at every other byte of a reply. They have an automaton of their own, which is not stepped any
//! more once all of them have been reported.

use regex_syntax::hir::Look;

use super::nfa::{Nfa, NfaState, NfaStateId};
use super::report::{CutId, PatternId};
use super::suffix::CursorExtra;

/// The most patterns of such an automaton.
pub(crate) const MAX_SINGLE_MATCH: usize = 64;

/// Sets of patterns, as bits.
#[derive(Debug)]
pub(super) struct SingleMatch {
    /// The patterns of which at least one alternative can start anywhere.
    anywhere: u64,
    /// By cut: the patterns after it.
    patterns_after_cut: Box<[u64]>,
}

impl SingleMatch {
    pub(super) fn new(nfa: &Nfa) -> SingleMatch {
        let bits = |patterns: Vec<PatternId>| {
            let patterns = patterns.iter();
            patterns.fold(0u64, |bits, pattern| bits | 1 << pattern.0)
        };
        // A pattern with several starts can start anywhere if one of them can.
        let anywhere = nfa
            .starts
            .iter()
            .copied()
            .filter(|&start| !is_anchored(nfa, start));
        SingleMatch {
            anywhere: nfa
                .patterns_reachable_from(anywhere)
                .into_iter()
                .map(bits)
                .fold(0, |all, bits| all | bits),
            patterns_after_cut: nfa.patterns_after_cuts().into_iter().map(bits).collect(),
        }
    }

    /// Returns true the first time it is called for a pattern, and marks the pattern as reported.
    pub(super) fn is_first(&self, extra: &mut CursorExtra, pattern: PatternId) -> bool {
        // The shift is in range: such an automaton has at most `MAX_SINGLE_MATCH` patterns.
        let is_first = extra.reported >> pattern.0 & 1 == 0;
        extra.reported |= 1 << pattern.0;
        self.update_exhausted(extra);
        is_first
    }

    /// Returns true if all patterns after the cut have been reported.
    pub(super) fn is_cut_exhausted(&self, extra: &CursorExtra, cut: CutId) -> bool {
        self.patterns_after_cut[cut.index()] & !extra.reported == 0
    }

    /// Drops the suffixes whose patterns have all been reported.
    pub(super) fn drop_exhausted_suffixes(&self, extra: &mut CursorExtra) {
        let reported = extra.reported;
        let is_open = |cut: CutId| self.patterns_after_cut[cut.index()] & !reported != 0;
        // A suffix may still match, but no report of it would get through: stepping it would only delay exhaustion.
        extra.suffixes.retain(|suffix| is_open(suffix.cut));
        if let Some(nfa_cursor) = &mut extra.nfa_cursor {
            nfa_cursor.suffixes.retain(|suffix| is_open(suffix.0));
        }
        self.update_exhausted(extra);
    }

    /// Recomputes whether every pattern has been reported or can no longer match.
    fn update_exhausted(&self, extra: &mut CursorExtra) {
        let has_suffixes = match &extra.nfa_cursor {
            Some(nfa_cursor) => !nfa_cursor.suffixes.is_empty(),
            None => !extra.suffixes.is_empty(),
        };
        // A pattern that is not in `anywhere` can match only through a suffix that is live now, because it starts only
        // at the start of the haystack.
        extra.is_exhausted = self.anywhere & !extra.reported == 0 && !has_suffixes;
    }
}

/// Returns true if this start is `\A` followed by a cut: nothing of it remains in the search afterwards.
fn is_anchored(nfa: &Nfa, start: NfaStateId) -> bool {
    let NfaState::Look {
        look: Look::Start,
        next,
    } = nfa.states[start.index()]
    else {
        return false;
    };
    matches!(nfa.states[next.index()], NfaState::Cut { .. })
}

#[cfg(test)]
mod tests {
    use super::super::suffix::Suffix;
    use super::*;

    #[test]
    fn a_cut_is_over_when_all_behind_it_have_hit_whatever_else_has() {
        let single_match = SingleMatch {
            anywhere: 0b1011,
            patterns_after_cut: [0b0011, 0b0100].into(),
        };
        let suffix = |cut| {
            let state = crate::table::StateId::for_test(8);
            let next = state;
            Suffix { cut, state, next }
        };
        let mut extra = CursorExtra {
            suffixes: vec![suffix(CutId(0)), suffix(CutId(1))],
            ..CursorExtra::default()
        };
        for (pattern, nfa_cursor, suffixes) in [
            (0, [false, false], 2),
            (3, [false, false], 2),
            (1, [true, false], 1),
            (2, [true, true], 0),
        ] {
            let pattern = PatternId(pattern);
            assert!(
                single_match.is_first(&mut extra, pattern)
                    && !single_match.is_first(&mut extra, pattern)
            );
            assert_eq!(
                [0, 1].map(|cut| single_match.is_cut_exhausted(&extra, CutId(cut))),
                nfa_cursor,
                "{pattern:?}"
            );
            assert!(!extra.is_exhausted, "a tail is live");
            single_match.drop_exhausted_suffixes(&mut extra);
            assert_eq!(extra.suffixes.len(), suffixes, "{pattern:?}");
            assert_eq!(extra.is_exhausted, suffixes == 0, "{pattern:?}");
        }
    }
}
