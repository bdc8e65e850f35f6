//! Profiles patterns on a sample of text: which of them match all the time, and which states an automaton of some of
//! them would have.
//!
//! The sample consists of sources of this project and of text written for it: prose, several programming languages, a
//! shell, a log. It decides nothing but speed.

use regex_syntax::hir::Hir;

use super::super::alphabet::{SymbolSpace, TooManyClasses};
use super::super::cache::CacheBuilder;
use super::super::determinize::StateSet;
use super::super::hash;
use super::super::lazy_dfa::{LazyDfa, ShortPath};
use super::super::nfa::Nfa;
use super::super::prefix_tree::SplitConfig;
use super::super::report::{PatternId, Reported};
use super::super::table::{MAX_SHORT_LEN, Table, TableConfig};
use super::super::utf8::Symbol;

/// The sample.
pub(crate) const TEXT: &str = include_str!("sample.txt");

/// The size of one haystack of the sample, in bytes.
const WINDOW: usize = 2048;

/// The result of stepping the sample through one automaton.
#[derive(Debug)]
pub(super) struct ProfileRun {
    pub(super) states: usize,
    /// By pattern: the number of haystacks that it matches.
    pub(super) hits: Vec<u32>,
    pub(super) windows: u32,
}

impl ProfileRun {
    /// Steps the sample through the automaton.
    pub(super) fn new(lazy: &LazyDfa, patterns: usize) -> ProfileRun {
        let mut run = ProfileRun {
            states: 0,
            hits: vec![0; patterns],
            windows: 0,
        };
        // Several haystacks, because a pattern that matches early would hide how often it matches.
        for window in TEXT.as_bytes().chunks(WINDOW) {
            run.windows += 1;
            let mut cursor = lazy.start();
            // Once for each haystack, however often the pattern matches in it.
            let mut hit = vec![false; patterns];
            // Short deltas visit every state; the prefilter skips some of them in long deltas.
            for delta in window.chunks(MAX_SHORT_LEN) {
                lazy.push(&mut cursor, delta, ShortPath::Declined, &mut |event| {
                    hit[event.pattern.index()] = true;
                });
            }
            let hits = run.hits.iter_mut().zip(hit);
            hits.for_each(|(hits, hit)| *hits += u32::from(hit));
        }
        // Read at the end: the states of all haystacks are in one table.
        run.states = lazy.size().states;
        run
    }

    /// Returns true if the pattern matches nearly any text.
    pub(super) fn is_common(&self, pattern: usize) -> bool {
        self.hits[pattern] * 2 >= self.windows
    }
}

/// A hash of the partial matches of each pattern at each symbol of the sample. The states of an automaton of several
/// patterns are the distinct sums of their hashes.
// A DFA state is a set of NFA states and its reports. A sum over hashes of its members identifies the set, and the sum
// of two patterns is the sum of their sums, so a trace of each pattern is enough for every grouping.
#[derive(Debug)]
pub(super) struct StateTrace {
    /// By symbol: a hash of the look-behind.
    pub(super) before: Vec<u64>,
    /// By pattern: the symbols with a partial match, and its hash.
    pub(super) patterns: Vec<Vec<(u32, u64)>>,
}

impl StateTrace {
    pub(super) fn new(
        space: SymbolSpace,
        patterns: &[Hir],
        cuts: Option<SplitConfig<'_>>,
    ) -> Result<StateTrace, TooManyClasses> {
        // Without shared prefixes every NFA state belongs to one pattern.
        let (nfa, owners) = Nfa::without_prefix_sharing(space, patterns, cuts)?;
        let table = Table::new(&nfa.alphabet, TableConfig::MINIMAL);
        // Only the successor function is used: a budget of 0 keeps the cache from building rows.
        let mut cache = CacheBuilder::new(&nfa, &table, 0);
        let cut_owners: Vec<PatternId> = nfa
            .cuts
            .iter()
            .map(|cut| owners[cut.entry.index()])
            .collect();
        let mut trace = StateTrace {
            before: Vec::new(),
            patterns: vec![Vec::new(); patterns.len()],
        };
        for window in TEXT.as_bytes().chunks(WINDOW) {
            // Every haystack starts anew, like a part of a reply.
            let mut search = StateSet::default();
            // A character that the edge of a haystack cuts becomes U+FFFD, which hardly changes the profile.
            for char in String::from_utf8_lossy(window).chars() {
                nfa.alphabet.symbol(Symbol::Char(char), |column, _| {
                    cache.step_set(&nfa, &search, column);
                    let successor = &mut cache.determinizer.successor;
                    // Before the contribution of the next symbol is computed in the same scratch space.
                    std::mem::swap(&mut search, &mut successor.state_set);
                    let at = trace.before.len() as u32;
                    trace
                        .before
                        .push(hash::hash_number(1 << 40 | search.before as u64));
                    let states = search.states.iter();
                    states.for_each(|&state| {
                        trace.record(owners[state.index()], at, state.number().into())
                    });
                    // The reports belong to the state. Their tags keep them apart from NFA states with the same number.
                    for (list, tag) in [(&successor.now, 1), (&successor.late, 2)] {
                        for report in list {
                            let pattern = match report.decode() {
                                Reported::Pattern(pattern) => pattern,
                                Reported::Cut(cut) => cut_owners[cut.index()],
                            };
                            trace.record(pattern, at, tag << 32 | u64::from(report.bits()));
                        }
                    }
                });
            }
        }
        Ok(trace)
    }

    fn record(&mut self, pattern: PatternId, at: u32, key: u64) {
        let entries = &mut self.patterns[pattern.index()];
        let hash = hash::hash_number(key);
        // States of one pattern at one symbol become one entry, because only their sum is used.
        match entries.last_mut() {
            Some(last) if last.0 == at => last.1 = last.1.wrapping_add(hash),
            _ => entries.push((at, hash)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::test_support::parsed;
    use super::*;

    #[test]
    fn a_pattern_that_hits_half_of_the_windows_is_common() {
        let run = ProfileRun {
            states: 0,
            hits: vec![4, 3],
            windows: 8,
        };
        assert!(run.is_common(0) && !run.is_common(1));
    }

    #[test]
    fn a_trace_says_once_a_symbol_what_is_in_progress_there() {
        // The first has several partial matches at once; the last never starts.
        let patterns = parsed(&["[a-z]{3}X", "fn", "\u{1F980}\u{1F980}"]);
        let trace = StateTrace::new(SymbolSpace::Chars, &patterns, None).expect("few classes");
        assert_eq!(trace.before.len(), TEXT.chars().count());
        let [letters, word, never] = &trace.patterns[..] else {
            panic!("{} patterns", trace.patterns.len());
        };
        assert!(never.is_empty());
        for entries in [letters, word] {
            assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "each symbol once");
        }
        let is_letter = |&(_, char): &(usize, char)| char.is_ascii_lowercase();
        let letters_of_text = TEXT.chars().enumerate().filter(is_letter).count();
        assert_eq!(letters.len(), letters_of_text);
        // One letter, two letters, and three or more.
        let kinds = |entries: &[(u32, u64)]| {
            let mut kinds: Vec<u64> = entries.iter().map(|entry| entry.1).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds.len()
        };
        assert_eq!(kinds(letters), 3);
        assert_eq!(kinds(word), 2, "behind the `f`, and where it hits");
    }
}
