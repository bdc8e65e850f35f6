//! The rules that are timed, and the naive model that says how often they must hit.

#![allow(dead_code)] // shared; each bench uses some of it

use regex_automata::meta::Regex;
use ttsr::{Channel, Limits, Pack, Pattern, PatternKind, Rule};

/// What every part ends with, so that every pass has a hit: the first pattern of [`patterns`].
pub(crate) const KEY: &[u8] = b" AKIA\x51RSTUVWXYZ234567 ";

/// The first `count` patterns of the corpus' pool, or as many made here.
pub(crate) fn pool(count: usize) -> Vec<String> {
    let Some(corpus) = super::text::corpus() else {
        eprintln!("TTSR_CORPUS is not set: patterns and text made here are used");
        let made = |n| format!(r"(?i)\bneedle{n}_[a-z]{{2,9}}\s*[:=]\s*\w+");
        return (0..count).map(made).collect();
    };
    let file = corpus.join("rules/pool-7000.txt");
    let text = std::fs::read_to_string(file).expect("the corpus holds pool-7000.txt");
    text.lines().take(count).map(str::to_owned).collect()
}

/// A pattern that [`KEY`] matches, and `count - 1` of the pool.
pub(crate) fn patterns(count: usize) -> Vec<String> {
    let mut patterns = vec!["AKIA[0-9A-Z]{16}".to_owned()];
    patterns.extend(pool(count - 1));
    patterns
}

/// A rule for each pattern, on that channel.
pub(crate) fn pack(patterns: &[String], channel: Channel, limits: Limits) -> Pack {
    let rules = patterns.iter().enumerate().map(|(number, text)| {
        let pattern = Pattern {
            kind: PatternKind::Regex,
            text: text.clone(),
        };
        let mut rule = Rule::new(format!("bench/p{number:05}"), vec![pattern]);
        rule.description = "A pattern of the pool".to_owned();
        rule.on = vec![channel];
        rule
    });
    let builder = rules.fold(Pack::builder().limits(limits), |pack, rule| pack.rule(rule));
    builder.build().expect("the patterns load")
}

/// The naive model: each pattern by itself, searched in the whole of a part.
pub(crate) struct Model(Vec<Regex>);

impl Model {
    pub(crate) fn new(patterns: &[String]) -> Model {
        let regex = |text: &String| Regex::new(text).expect("the pattern parses");
        Model(patterns.iter().map(regex).collect())
    }

    /// Number of the patterns that match in a part of this text and [`KEY`].
    pub(crate) fn hits(&self, text: &[u8]) -> usize {
        let text = [text, KEY].concat();
        let matching = self.0.iter().filter(|regex| regex.is_match(&text));
        matching.count()
    }

    /// The same, summed over streams that take turns, a delta each.
    pub(crate) fn hits_of(&self, text: &super::text::Text, streams: usize) -> usize {
        let mut parts = vec![Vec::new(); streams];
        for (number, delta) in text.deltas().enumerate() {
            parts[number % streams].extend_from_slice(delta);
        }
        parts.iter().map(|part| self.hits(part)).sum()
    }
}
