//! What patterns do on a sample of text: which of them hit all the time, and which
//! states there would be if some of the patterns shared an automaton.
//!
//! The sample is made of this project's own sources and of text written for it: prose, several
//! programming languages, a shell, a log. It decides nothing but speed.

use regex_syntax::hir::Hir;

use super::alphabet::{Space, TooManyClasses};
use super::build::Builder;
use super::decode::Symbol;
use super::lazy::Lazy;
use super::live::{CUT, Live};
use super::nfa::Nfa;
use super::table::{Config, SHORT, Table};
use super::tree::Cuts;

/// The text.
pub(super) const TEXT: &str = include_str!("sample.txt");

/// Bytes after which a new haystack begins.
const WINDOW: usize = 2048;

/// How one automaton did on the sample.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) states: usize,
    /// By pattern: the number of windows that it hits.
    pub(super) hits: Vec<u32>,
    pub(super) windows: u32,
}

impl Trial {
    /// Steps the sample through the automaton.
    pub(super) fn new(lazy: &Lazy, patterns: usize) -> Trial {
        let mut trial = Trial {
            states: 0,
            hits: vec![0; patterns],
            windows: 0,
        };
        for window in TEXT.as_bytes().chunks(WINDOW) {
            trial.windows += 1;
            let mut cursor = lazy.start();
            let mut hit = vec![false; patterns];
            // Short deltas meet every state: a filter skips some in long ones.
            for delta in window.chunks(SHORT) {
                lazy.push(&mut cursor, delta, &mut |event| {
                    hit[event.pattern as usize] = true;
                });
            }
            let hits = trial.hits.iter_mut().zip(hit);
            hits.for_each(|(hits, hit)| *hits += u32::from(hit));
        }
        trial.states = lazy.size().states;
        trial
    }

    /// Whether the pattern hits nearly any text.
    pub(super) fn is_common(&self, pattern: usize) -> bool {
        self.hits[pattern] * 2 >= self.windows
    }
}

/// Where each pattern has something in progress, and what, as a hash: the states of an automaton of
/// several patterns are the different sums of their hashes.
#[derive(Debug)]
pub(super) struct Trace {
    /// By symbol: a hash of what stands before.
    pub(super) before: Vec<u64>,
    /// By pattern: symbols, and the hash there.
    pub(super) patterns: Vec<Vec<(u32, u64)>>,
}

impl Trace {
    pub(super) fn new(
        space: Space,
        patterns: &[Hir],
        cuts: Option<Cuts<'_>>,
    ) -> Result<Trace, TooManyClasses> {
        let (nfa, owners) = Nfa::apart(space, patterns, cuts)?;
        let table = Table::new(&nfa.alphabet, Config::BARE);
        let mut builder = Builder::new(&nfa, &table, 0);
        let cut_owners: Vec<u32> = nfa
            .cuts
            .iter()
            .map(|cut| owners[cut.entry as usize])
            .collect();
        let mut trace = Trace {
            before: Vec::new(),
            patterns: vec![Vec::new(); patterns.len()],
        };
        for window in TEXT.as_bytes().chunks(WINDOW) {
            let mut search = Live::default();
            for char in String::from_utf8_lossy(window).chars() {
                nfa.alphabet.symbol(Symbol::Char(char), |column, _| {
                    builder.step_live(&nfa, &search, column);
                    let outcome = &mut builder.step.outcome;
                    std::mem::swap(&mut search, &mut outcome.live);
                    let at = trace.before.len() as u32;
                    trace.before.push(hash(1 << 40 | search.before as u64));
                    let states = search.states.iter();
                    states.for_each(|&state| trace.note(owners[state as usize], at, state.into()));
                    for (list, tag) in [(&outcome.now, 1), (&outcome.late, 2)] {
                        for &reported in list {
                            let pattern = match reported & CUT {
                                0 => reported,
                                _ => cut_owners[(reported & !CUT) as usize],
                            };
                            trace.note(pattern, at, tag << 32 | u64::from(reported));
                        }
                    }
                });
            }
        }
        Ok(trace)
    }

    fn note(&mut self, pattern: u32, at: u32, what: u64) {
        let entries = &mut self.patterns[pattern as usize];
        let hash = hash(what);
        match entries.last_mut() {
            Some(last) if last.0 == at => last.1 = last.1.wrapping_add(hash),
            _ => entries.push((at, hash)),
        }
    }
}

/// Mixes so well that sums of different sets differ.
pub(super) fn hash(value: u64) -> u64 {
    let mixed = (value + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ mixed >> 32
}
