//! The baselines: what a host does that has a regex engine and no streaming one.

use std::hint::black_box;
use std::time::{Duration, Instant};

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

use super::text::Text;

/// All patterns in one regex, searched for every one that matches.
pub(crate) struct Rescan {
    regex: Regex,
    ending: Vec<u8>,
    found: PatternSet,
}

impl Rescan {
    pub(crate) fn new(patterns: &[String], ending: &[u8]) -> Rescan {
        // Room for all states the text visits: the engine falls back to its slowest search without. The text
        // is ASCII, so Unicode's classes would only make it larger: gitleaks takes over ten gigabytes.
        let config = Regex::config()
            .hybrid_cache_capacity(64 << 20)
            .nfa_size_limit(Some(1 << 30))
            .match_kind(MatchKind::All);
        let build = |unicode| {
            let syntax = syntax::Config::new().unicode(unicode).utf8(false);
            let config = config.clone().utf8_empty(false);
            let regex = Regex::builder()
                .configure(config)
                .syntax(syntax)
                .build_many(patterns);
            regex.map_err(Box::new)
        };
        let regex = build(false).or_else(|_| build(true));
        Rescan {
            regex: regex.expect("the patterns parse"),
            ending: ending.to_vec(),
            found: PatternSet::new(patterns.len()),
        }
    }

    /// Accumulates each delta behind `seen` and searches the last `window` bytes before it and the delta
    /// itself; gives the time and the number of patterns that were found at the end, those of the ending
    /// included.
    ///
    /// With a window the patterns found add up; without one the last search has them all.
    pub(crate) fn pass(&mut self, seen: &[u8], text: &Text, window: usize) -> (Duration, usize) {
        let mut buffer = seen.to_vec();
        self.found.clear();
        let started = Instant::now();
        for delta in text.deltas() {
            self.search(&mut buffer, delta, window);
        }
        let took = started.elapsed();
        let ending = std::mem::take(&mut self.ending);
        self.search(&mut buffer, &ending, window);
        self.ending = ending;
        (took, self.found.len())
    }

    fn search(&mut self, buffer: &mut Vec<u8>, delta: &[u8], window: usize) {
        let start = buffer.len().saturating_sub(window);
        buffer.extend_from_slice(delta);
        if start == 0 {
            self.found.clear();
        }
        let input = Input::new(buffer).range(start..);
        self.regex
            .which_overlapping_matches(&input, &mut self.found);
    }
}

/// What merely looking at each byte of each delta costs.
pub(crate) fn sum(text: &Text) -> Duration {
    let started = Instant::now();
    let bytes = |delta: &[u8]| {
        black_box(delta)
            .iter()
            .map(|&byte| u64::from(byte))
            .sum::<u64>()
    };
    black_box(text.deltas().map(bytes).sum::<u64>());
    started.elapsed()
}
