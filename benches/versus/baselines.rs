//! The alternatives of a host, and the lower bounds.
//!
//! *Stepped* engines keep a state between deltas and report first ends, as this crate does. *Searching* ones are hosts
//! with a regex engine: they accumulate the reply and search all of it, or its tail, at every delta. Their cost grows
//! with the reply, so they get only a few kilobytes. A pass of more than a second is stopped, and the rest is assumed to
//! cost no more per delta, which is in their favour.
//!
//! The text is ASCII, so the regex engines are built without Unicode if the patterns permit: the automata are smaller
//! and the matches the same.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA as Literals;
use aho_corasick::{Anchored, MatchKind as LiteralKind};
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA as Hybrid};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

use crate::common::text::Text;
use crate::duel::Engine;
use crate::sets::Set;

/// Cache size of lazily built automata, large enough that no cache is cleared in the timed passes.
const CACHE: usize = 1 << 30;

/// Time after which a pass is stopped.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sums the bytes of each delta.
pub(crate) struct Floor;

impl Engine for Floor {
    fn name(&self) -> String {
        "floor: sum of the bytes".to_owned()
    }

    fn seconds(&mut self, text: &Text, _: usize) -> f64 {
        crate::common::rescan::sum(text).as_secs_f64()
    }
}

/// Calls an empty function for each delta.
pub(crate) struct EmptyCall;

impl Engine for EmptyCall {
    fn name(&self) -> String {
        "floor: empty call".to_owned()
    }

    fn seconds(&mut self, text: &Text, _: usize) -> f64 {
        #[inline(never)]
        fn nothing(delta: &[u8]) {
            black_box(delta);
        }
        let started = Instant::now();
        text.deltas().for_each(nothing);
        started.elapsed().as_secs_f64()
    }
}

/// Returns engines of the ecosystem that can carry a state from delta to delta.
pub(crate) fn stepped(set: &Set) -> Vec<Box<dyn Engine>> {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(LazyDfa::new(&set.patterns))];
    if let Some(literals) = &set.literals {
        engines.push(Box::new(LiteralDfa::new(literals)));
    }
    engines
}

/// Returns hosts that search again at each delta.
pub(crate) fn searching(set: &Set) -> Vec<Box<dyn Engine>> {
    let each = one_by_one(&set.patterns);
    let all = together(&set.patterns);
    let window = |(bytes, what): (usize, &str)| -> Box<dyn Engine> {
        Box::new(Searching::new(
            format!("RegexSet, {what}"),
            bytes,
            How::Set(all.clone()),
        ))
    };
    let sets = [
        (usize::MAX, "whole reply"),
        (4096, "last 4,096 bytes"),
        (512, "last 512 bytes"),
        (128, "last 128 bytes"),
    ];
    let shared = How::Shared(each.clone());
    let cloned = How::Cloned(each);
    let mut engines: Vec<Box<dyn Engine>> = vec![
        Box::new(Searching::new(
            "regex, whole reply".to_owned(),
            usize::MAX,
            shared,
        )),
        Box::new(Searching::new(
            "regex, whole reply, cloned".to_owned(),
            usize::MAX,
            cloned,
        )),
    ];
    engines.extend(sets.map(window));
    engines
}

fn one_by_one(patterns: &[String]) -> Vec<Regex> {
    let regex = |pattern: &String| {
        let build = |unicode| {
            RegexBuilder::new(pattern)
                .unicode(unicode)
                .size_limit(CACHE)
                .build()
        };
        build(false)
            .or_else(|_| build(true))
            .expect("the pattern parses")
    };
    patterns.iter().map(regex).collect()
}

fn together(patterns: &[String]) -> RegexSet {
    let build = |unicode| {
        RegexSetBuilder::new(patterns)
            .unicode(unicode)
            .size_limit(CACHE)
            .dfa_size_limit(CACHE)
            .build()
    };
    build(false)
        .or_else(|_| build(true))
        .expect("the patterns parse")
}

/// The lazy DFA of regex-automata over all patterns, stepped byte by byte.
struct LazyDfa {
    dfa: Hybrid,
    cache: Cache,
}

impl LazyDfa {
    fn new(patterns: &[String]) -> LazyDfa {
        let build = |unicode| {
            let config = Hybrid::config()
                .match_kind(MatchKind::All)
                .cache_capacity(CACHE)
                .unicode_word_boundary(true);
            Hybrid::builder()
                .configure(config)
                .syntax(syntax::Config::new().unicode(unicode).utf8(false))
                .thompson(thompson::Config::new().utf8(false).nfa_size_limit(None))
                .build_many(patterns)
                .map_err(Box::new)
        };
        let dfa = build(false)
            .or_else(|_| build(true))
            .expect("the patterns parse");
        let cache = dfa.create_cache();
        LazyDfa { dfa, cache }
    }

    fn start(&mut self) -> LazyStateID {
        let start = self
            .dfa
            .start_state_forward(&mut self.cache, &Input::new(""));
        start.expect("an automaton without a prefilter has a start")
    }

    #[inline(always)]
    fn step(&mut self, state: LazyStateID, byte: u8) -> LazyStateID {
        self.dfa
            .next_state(&mut self.cache, state, byte)
            .expect("the cache is cleared, never full")
    }

    /// Records a match. A match state is entered one byte late.
    fn record_matches(&self, state: LazyStateID, end: u64, firsts: &mut [Option<u64>]) {
        if state.is_match() {
            for index in 0..self.dfa.match_len(&self.cache, state) {
                let pattern = self.dfa.match_pattern(&self.cache, state, index).as_usize();
                firsts[pattern].get_or_insert(end);
            }
        }
    }
}

impl Engine for LazyDfa {
    fn name(&self) -> String {
        "regex-automata lazy DFA, stepped".to_owned()
    }

    fn firsts(&mut self, text: &Text) -> Option<Vec<Option<u64>>> {
        let mut firsts = vec![None; self.dfa.pattern_len()];
        let mut state = self.start();
        for (at, &byte) in text.bytes.iter().enumerate() {
            state = self.step(state, byte);
            self.record_matches(state, at as u64, &mut firsts);
        }
        let end = self.dfa.next_eoi_state(&mut self.cache, state);
        let end = end.expect("the cache is cleared, never full");
        self.record_matches(end, text.bytes.len() as u64, &mut firsts);
        Some(firsts)
    }

    fn seconds(&mut self, text: &Text, streams: usize) -> f64 {
        assert_eq!(
            streams, 1,
            "other streams' states are lost when the cache is cleared"
        );
        let mut state = self.start();
        let mut matches = 0;
        let started = Instant::now();
        for delta in text.deltas() {
            for &byte in black_box(delta) {
                state = self.step(state, byte);
                matches += usize::from(state.is_match());
            }
        }
        black_box(matches);
        started.elapsed().as_secs_f64()
    }
}

/// The DFA of aho-corasick, stepped byte by byte.
struct LiteralDfa(Literals);

impl LiteralDfa {
    fn new(literals: &[String]) -> LiteralDfa {
        let dfa = Literals::builder()
            .match_kind(LiteralKind::Standard)
            .build(literals);
        LiteralDfa(dfa.expect("a thousand words fit"))
    }

    fn start(&self) -> StateID {
        self.0
            .start_state(Anchored::No)
            .expect("it searches unanchored")
    }
}

impl Engine for LiteralDfa {
    fn name(&self) -> String {
        "aho-corasick DFA, stepped".to_owned()
    }

    fn firsts(&mut self, text: &Text) -> Option<Vec<Option<u64>>> {
        let mut firsts = vec![None; self.0.patterns_len()];
        let mut state = self.start();
        for (at, &byte) in text.bytes.iter().enumerate() {
            state = self.0.next_state(Anchored::No, state, byte);
            if self.0.is_match(state) {
                for index in 0..self.0.match_len(state) {
                    let pattern = self.0.match_pattern(state, index).as_usize();
                    firsts[pattern].get_or_insert(at as u64 + 1);
                }
            }
        }
        Some(firsts)
    }

    fn seconds(&mut self, text: &Text, _: usize) -> f64 {
        let mut state = self.start();
        let mut matches = 0;
        let started = Instant::now();
        for delta in text.deltas() {
            for &byte in black_box(delta) {
                state = self.0.next_state(Anchored::No, state, byte);
                matches += usize::from(self.0.is_special(state) && self.0.is_match(state));
            }
        }
        black_box(matches);
        started.elapsed().as_secs_f64()
    }
}

/// A host that accumulates the reply and searches its last bytes at each delta.
struct Searching {
    name: String,
    window: usize,
    how: How,
}

enum How {
    /// One regex per rule.
    Shared(Vec<Regex>),
    /// One regex per rule, cloned for each delta, so that every search begins with an empty cache.
    Cloned(Vec<Regex>),
    Set(RegexSet),
}

impl Searching {
    fn new(name: String, window: usize, how: How) -> Searching {
        Searching { name, window, how }
    }
}

impl How {
    fn broken(&self, text: &[u8]) -> usize {
        // The text is ASCII, and a host has a string.
        let text = std::str::from_utf8(text).expect("the text is ASCII");
        match self {
            How::Shared(all) => all.iter().filter(|regex| regex.is_match(text)).count(),
            How::Cloned(all) => all
                .iter()
                .filter(|&regex| regex.clone().is_match(text))
                .count(),
            How::Set(set) => set.matches(text).iter().count(),
        }
    }
}

impl Engine for Searching {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// Only a search of the whole reply finds all matching rules; a window forgets earlier ones.
    fn broken(&mut self, text: &Text) -> Option<Vec<bool>> {
        let all = std::str::from_utf8(&text.bytes).expect("the text is ASCII");
        match &self.how {
            _ if self.window < usize::MAX => None,
            How::Shared(each) | How::Cloned(each) => {
                Some(each.iter().map(|regex| regex.is_match(all)).collect())
            }
            How::Set(set) => {
                let matches = set.matches(all);
                Some((0..set.len()).map(|index| matches.matched(index)).collect())
            }
        }
    }

    fn seconds(&mut self, text: &Text, _: usize) -> f64 {
        let mut reply = Vec::new();
        let (mut broken, mut done) = (0, 0);
        let started = Instant::now();
        for delta in text.deltas() {
            let start = reply.len() - self.window.min(reply.len());
            reply.extend_from_slice(delta);
            broken += self.how.broken(&reply[start..]);
            done += 1;
            if started.elapsed() > PATIENCE {
                break;
            }
        }
        black_box(broken);
        let deltas = text.deltas.len() - 1;
        started.elapsed().as_secs_f64() * deltas as f64 / f64::from(done)
    }
}
