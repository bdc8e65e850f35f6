//! The baselines: a host with a regex engine that searches again.

use std::hint::black_box;
use std::time::{Duration, Instant};

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

use super::text::Text;

/// All patterns in one regex that reports every matching pattern.
pub(crate) struct Rescan {
    regex: Regex,
    ending: Vec<u8>,
    found: PatternSet,
}

impl Rescan {
    pub(crate) fn new(patterns: &[String], ending: &[u8]) -> Rescan {
        // Enough cache for all states that the text visits; otherwise the engine falls back to its slowest search. The text is
        // ASCII, and Unicode classes would only enlarge the automaton: gitleaks would need more than ten gigabytes.
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

    /// Appends each delta to `seen` and searches the delta with the last `window` bytes before it. Returns the time and the
    /// number of patterns found, including those in the ending.
    ///
    /// With a window the patterns of all searches are united; without one the last search finds all of them.
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

/// Times a sum of the bytes of each delta.
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
