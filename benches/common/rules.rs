//! The timed rules, text that some of them match, and the naive model that counts the expected hits.

#![allow(dead_code)] // shared; each bench uses some of it

use std::sync::Arc;
use std::time::{Duration, Instant};

use regex_automata::meta::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};
use ttsr::{Channel, Limits, Pack, PartId, Pattern, Rule, Stream};

use super::is_test;
use super::text::{Text, corpus};

pub(crate) const PART: PartId = PartId(0);

/// The text at the end of every part matches one pattern out of this many.
const BROKEN: usize = 40;

/// Returns the first `count` patterns of the corpus' pool, or generated ones.
pub(crate) fn pool(count: usize) -> Vec<String> {
    let Some(corpus) = corpus() else {
        eprintln!("TTSR_CORPUS is not set: patterns and text made here are used");
        return made(count);
    };
    let file = corpus.join("rules/pool-7000.txt");
    let text = std::fs::read_to_string(file).expect("the corpus holds pool-7000.txt");
    text.lines().take(count).map(str::to_owned).collect()
}

/// Returns the rule sets of a bench, by name; only few if cases run once.
pub(crate) fn sets() -> Vec<(String, Vec<String>)> {
    let counts: &[usize] = if is_test() {
        &[1, 100]
    } else {
        &[1, 10, 100, 1000, 5000]
    };
    let of_pool = counts
        .iter()
        .map(|&count| (format!("{count} rules"), pool(count)));
    let mut sets: Vec<_> = of_pool.collect();
    sets.extend(gitleaks().map(|patterns| ("gitleaks".to_owned(), patterns)));
    sets.sort_by_key(|(_, patterns)| patterns.len());
    sets
}

/// Returns the rules of gitleaks, if the corpus is available.
pub(crate) fn gitleaks() -> Option<Vec<String>> {
    let file = std::fs::read_to_string(corpus()?.join("rules/gitleaks.jsonl"));
    let file = file.expect("the corpus holds gitleaks.jsonl");
    let patterns = file.lines().filter_map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(value["pattern"].as_str()?.to_owned())
    });
    Some(patterns.collect())
}

/// Returns generated patterns, the same on every machine.
pub(crate) fn made(count: usize) -> Vec<String> {
    let made = |n| format!(r"(?i)\bneedle{n}_[a-z]{{2,9}}\s*[:=]\s*\w+");
    (0..count).map(made).collect()
}

/// Returns a pack with one rule per pattern on that channel, with its automata.
pub(crate) fn pack(patterns: &[String], channel: Channel, limits: Limits) -> Pack {
    let rules = patterns.iter().enumerate().map(|(number, text)| {
        let pattern = Pattern::regex(text.clone());
        let mut rule = Rule::new(format!("bench/p{number:05}"), vec![pattern]);
        rule.description = "A pattern of the pool".to_owned();
        rule.on = vec![channel];
        rule
    });
    let builder = rules.fold(Pack::builder().limits(limits), |pack, rule| pack.rule(rule));
    let pack = builder.build().expect("the patterns load");
    pack.prepare();
    pack
}

/// Returns text that matches every 40th pattern, from the first, each match with a space on both sides.
pub(crate) fn broken(patterns: &[String]) -> Vec<u8> {
    let samples = patterns.iter().step_by(BROKEN).map(|pattern| {
        let hir = regex_syntax::parse(pattern).expect("the pattern parses");
        let mut text = String::new();
        sample(&hir, &mut text);
        format!("{text} ")
    });
    format!(" {}", samples.collect::<String>()).into()
}

/// A pack on one channel, and its expected hits.
pub(crate) struct Rules {
    pub(crate) pack: Pack,
    pub(crate) channel: Channel,
    /// The naive model: each pattern alone, searched in the whole of a part, with true if it has an anchor.
    model: Arc<[(Regex, bool)]>,
    /// The end of every part, pushed after the timed deltas: some rules match it.
    pub(crate) ending: Vec<u8>,
    /// The ending in deltas.
    closing: Text,
}

impl Rules {
    pub(crate) fn new(patterns: &[String], channel: Channel) -> Rules {
        let regex = |text: &String| {
            let hir = regex_syntax::parse(text).expect("the pattern parses");
            let has_edge = hir.properties().look_set().contains_anchor();
            let config = Regex::config().nfa_size_limit(None);
            let regex = Regex::builder().configure(config).build(text);
            (regex.expect("the pattern parses"), has_edge)
        };
        let ending = broken(patterns);
        Rules {
            closing: arriving(&Text::of_bytes(ending.clone()), channel),
            pack: pack(patterns, channel, Limits::default()),
            channel,
            model: patterns.iter().map(regex).collect(),
            ending,
        }
    }

    /// Returns the same rules with an empty table.
    pub(crate) fn loaded_again(&self) -> Rules {
        let rules = self.pack.rules().iter().cloned();
        let builder = rules.fold(Pack::builder(), |pack, rule| pack.rule(rule));
        let pack = builder.build().expect("the rules were loaded before");
        pack.prepare();
        Rules {
            pack,
            channel: self.channel,
            model: Arc::clone(&self.model),
            ending: self.ending.clone(),
            closing: self.closing.clone(),
        }
    }

    /// Returns the number of rules that match a part of this text and the ending.
    pub(crate) fn hits(&self, text: &[u8]) -> usize {
        let text = [text, &self.ending].concat();
        let broken = self.model.iter().filter(|(regex, _)| regex.is_match(&text));
        let hits = broken.count();
        assert!(hits > 0, "the ending breaks no rule");
        hits
    }

    /// Returns the sum over interleaved streams.
    pub(crate) fn hits_of(&self, text: &Text, streams: usize) -> usize {
        let mut parts = vec![Vec::new(); streams];
        for (number, delta) in text.deltas().enumerate() {
            parts[number % streams].extend_from_slice(delta);
        }
        parts
            .iter_mut()
            .for_each(|part| part.extend_from_slice(&self.ending));
        // Thousands of parts by thousands of patterns are too many searches. A pattern that does not match all parts joined
        // together matches none of them, unless it has an anchor.
        let together = parts.join(&b"\n\n"[..]);
        let may_match = |regex: &&(Regex, bool)| regex.1 || regex.0.is_match(&together);
        let candidates: Vec<&Regex> = self
            .model
            .iter()
            .filter(may_match)
            .map(|(regex, _)| regex)
            .collect();
        let hits = |part: &Vec<u8>| {
            candidates
                .iter()
                .filter(|regex| regex.is_match(part))
                .count()
        };
        parts.iter().map(hits).sum()
    }

    /// Returns a stream with an open part; tool input has its argument opened already.
    pub(crate) fn open(&self) -> Stream {
        let mut stream = self.pack.stream();
        stream.open(PART, self.channel);
        if self.channel == Channel::ToolInput {
            assert!(stream.push(PART, br#"{"content":""#).is_empty());
        }
        stream
    }

    /// Returns the text as it arrives: inside JSON if it is tool input.
    pub(crate) fn arriving(&self, text: &Text) -> Text {
        arriving(text, self.channel)
    }

    /// Pushes the ending in small pieces, closes the part, and returns the hits.
    pub(crate) fn close(&self, stream: &mut Stream) -> usize {
        let mut hits = push_all(stream, &self.closing);
        if self.channel == Channel::ToolInput {
            hits += stream.push(PART, br#""}"#).len();
        }
        hits + stream.close(PART).len()
    }

    /// Runs one pass: opens every stream, pushes the deltas interleaved (timed), closes every stream. Returns the time and
    /// the hits.
    pub(crate) fn pass(&self, arriving: &Text, streams: usize) -> (Duration, usize) {
        let mut open: Vec<Stream> = (0..streams).map(|_| self.open()).collect();
        let (mut next, mut hits) = (0, 0);
        let started = Instant::now();
        for delta in arriving.deltas() {
            hits += open[next].push(PART, delta).len();
            next = if next + 1 == streams { 0 } else { next + 1 };
        }
        let took = started.elapsed();
        let closed = open.iter_mut().map(|stream| self.close(stream));
        (took, hits + closed.sum::<usize>())
    }
}

fn arriving(text: &Text, channel: Channel) -> Text {
    match channel {
        Channel::ToolInput => text.escaped(),
        _ => text.clone(),
    }
}

/// Pushes every delta and returns the number of hits.
pub(crate) fn push_all(stream: &mut Stream, text: &Text) -> usize {
    let hits = text.deltas().map(|delta| stream.push(PART, delta).len());
    hits.sum()
}

/// Appends a short text that the expression matches, assuming that its anchors hold.
fn sample(hir: &Hir, text: &mut String) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(Class::Unicode(class)) => {
            text.extend(class.ranges().first().map(|range| range.start()));
        }
        HirKind::Class(Class::Bytes(class)) => {
            text.extend(
                class
                    .ranges()
                    .first()
                    .map(|range| char::from(range.start())),
            );
        }
        HirKind::Repetition(repetition) => {
            (0..repetition.min).for_each(|_| sample(&repetition.sub, text));
        }
        HirKind::Capture(capture) => sample(&capture.sub, text),
        HirKind::Concat(all) => all.iter().for_each(|hir| sample(hir, text)),
        HirKind::Alternation(any) => sample(&any[0], text),
    }
}
