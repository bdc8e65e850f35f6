//! This crate as one of the engines, through its public `push`.

use std::hint::black_box;
use std::time::Instant;

use ttsr::{Channel, Limits, Pack, Stream};

use crate::common::rules::{PART, pack};
use crate::common::text::Text;
use crate::duel::Engine;
use crate::report::Figure;
use crate::sets::Set;

/// A pack and its load time.
pub(crate) struct Ours {
    pub(crate) pack: Pack,
    /// Load time in seconds.
    pub(crate) loaded_in: f64,
}

impl Ours {
    pub(crate) fn load(set: &Set) -> Ours {
        let started = Instant::now();
        let pack = pack(&set.patterns, Channel::Text, Limits::default());
        let loaded_in = started.elapsed().as_secs_f64();
        Ours { pack, loaded_in }
    }

    pub(crate) fn open(&self) -> Stream {
        let mut stream = self.pack.stream();
        stream.open(PART, Channel::Text);
        stream
    }

    /// Returns the current size of the table.
    pub(crate) fn sizes(&self, set: &str) -> Vec<Figure> {
        let size = self.pack.automata(Channel::Text).next();
        let size = size.expect("a rule reads text");
        vec![
            Figure::new(
                format!("{set} rules, table"),
                size.table_bytes as f64 / 1e6,
                "MB",
            ),
            Figure::new(
                format!("{set} rules, sets"),
                size.set_bytes as f64 / 1e6,
                "MB",
            ),
            Figure::new(format!("{set} rules, states"), size.states as f64, ""),
            Figure::new(format!("{set} rules, columns"), size.columns as f64, ""),
            // A table beyond its budget is replaced; the times above are then not those of a warm table.
            Figure::new(
                format!("{set} rules, tables spent"),
                f64::from(size.generation) + f64::from(u8::from(size.is_full)),
                "",
            ),
        ]
    }
}

impl Engine for Ours {
    fn name(&self) -> String {
        "ttsr".to_owned()
    }

    fn firsts(&mut self, text: &Text) -> Option<Vec<Option<u64>>> {
        let mut firsts = vec![None; self.pack.rules().len()];
        let mut stream = self.open();
        for delta in text.deltas() {
            for hit in stream.push(PART, delta) {
                firsts[hit.rule.index()] = Some(hit.end);
            }
        }
        for hit in stream.close(PART) {
            firsts[hit.rule.index()] = Some(hit.end);
        }
        Some(firsts)
    }

    fn seconds(&mut self, text: &Text, streams: usize) -> f64 {
        let mut open: Vec<Stream> = (0..streams).map(|_| self.open()).collect();
        let (mut next, mut hits) = (0, 0);
        let started = Instant::now();
        for delta in text.deltas() {
            hits += open[next].push(PART, delta).len();
            next = if next + 1 == streams { 0 } else { next + 1 };
        }
        black_box(hits);
        started.elapsed().as_secs_f64()
    }

    fn stream_bytes(&self) -> Option<usize> {
        Some(Stream::STATE_BYTES)
    }
}
