//! Times engines against each other: in turn, round by round, with the median of the ratios.

use std::fmt;

use serde::Serialize;

use crate::common::text::Text;
use crate::ours::Ours;

/// An engine that can be fed deltas.
pub(crate) trait Engine {
    fn name(&self) -> String;

    /// Returns the first end of each rule in the text as one stream, or `None` if the engine does not report ends.
    fn firsts(&mut self, text: &Text) -> Option<Vec<Option<u64>>> {
        let _ = text;
        None
    }

    /// Returns the rules that match the text, for engines that do not report ends.
    fn broken(&mut self, text: &Text) -> Option<Vec<bool>> {
        let _ = text;
        None
    }

    /// Returns the time of one pass over deltas distributed over `streams` interleaved streams.
    fn seconds(&mut self, text: &Text, streams: usize) -> f64;

    /// Returns the memory of an open stream, if the engine reports it.
    fn stream_bytes(&self) -> Option<usize> {
        None
    }
}

/// The deltas of a text and the number of streams.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) streams: usize,
}

impl Case {
    pub(crate) fn new(name: &'static str, streams: usize) -> Case {
        Case { name, streams }
    }
}

/// A case for one set of rules.
pub(crate) struct Duel<'a> {
    pub(crate) set: &'a str,
    pub(crate) case: &'a Case,
    pub(crate) text: &'a Text,
    pub(crate) rounds: usize,
}

/// The times of an engine in a case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) rules: String,
    pub(crate) case: &'static str,
    pub(crate) engine: String,
    /// Median.
    pub(crate) nanoseconds_per_delta: f64,
    /// Median.
    pub(crate) gigabytes_per_second: f64,
    /// Median over the rounds of its time divided by that of this crate in the same round.
    pub(crate) ratio: f64,
}

impl Duel<'_> {
    /// Returns the row of this crate first, then those of the other engines.
    pub(crate) fn fight(&self, ours: &mut Ours, others: &mut [Box<dyn Engine + '_>]) -> Vec<Row> {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); others.len() + 1];
        // The first round builds states and fills caches, for all engines.
        let mut passes = vec![1; others.len() + 1];
        for round in 0..=self.rounds {
            let first = self.seconds(ours, passes[0]);
            let others = others.iter_mut().zip(&passes[1..]);
            let others = others.map(|(engine, &passes)| self.seconds(&mut **engine, passes));
            let all: Vec<f64> = std::iter::once(first).chain(others).collect();
            match round {
                0 => passes = all.iter().map(|&seconds| passes_of(seconds)).collect(),
                _ => times
                    .iter_mut()
                    .zip(all)
                    .for_each(|(times, seconds)| times.push(seconds)),
            }
        }
        let names = std::iter::once(ours.name()).chain(others.iter().map(|engine| engine.name()));
        names
            .zip(&times)
            .map(|(name, seconds)| self.row(name, seconds, &times[0]))
            .collect()
    }

    /// Returns the mean time of some passes of an engine.
    fn seconds(&self, engine: &mut dyn Engine, passes: usize) -> f64 {
        let times = (0..passes).map(|_| engine.seconds(self.text, self.case.streams));
        times.sum::<f64>() / passes as f64
    }

    fn row(&self, engine: String, seconds: &[f64], ours: &[f64]) -> Row {
        let ratios = seconds.iter().zip(ours).map(|(theirs, ours)| theirs / ours);
        let median_seconds = median(seconds.to_vec());
        Row {
            rules: self.set.to_owned(),
            case: self.case.name,
            engine,
            nanoseconds_per_delta: median_seconds * 1e9 / (self.text.deltas.len() - 1) as f64,
            gigabytes_per_second: self.text.bytes.len() as f64 / median_seconds / 1e9,
            ratio: median(ratios.collect()),
        }
    }
}

/// Returns the number of passes of an engine in a round, if one takes that many seconds: enough for a millisecond, because a
/// pass over 4 KB takes 40 µs and depends on what the engine before it has left in the caches.
fn passes_of(seconds: f64) -> usize {
    (1e-3 / seconds).ceil().clamp(1.0, 1000.0) as usize
}

/// Returns the median, the higher one of an even number of values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "| {} | {} | {} | {:.1} ns | {:.4} GB/s | {:.2} |",
            self.rules,
            self.case,
            self.engine,
            self.nanoseconds_per_delta,
            self.gigabytes_per_second,
            self.ratio
        )
    }
}
