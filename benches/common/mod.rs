//! What the benches share: text, rules, and how a pass over the text is timed and checked.

#![allow(dead_code)] // shared; each bench uses some of it

pub(crate) mod rescan;
pub(crate) mod rules;
pub(crate) mod text;

use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Throughput};
use ttsr::{Channel, Pack, PartId, Stream};

use rules::KEY;
use text::Text;

pub(crate) const PART: PartId = PartId(0);

/// A case to be timed: what one pass over it reads, and how many hits it must have.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) deltas: usize,
    pub(crate) bytes: usize,
    pub(crate) hits: usize,
}

impl Case {
    /// Times passes. Each gives the time that counts and its hits.
    ///
    /// Criterion reports time and throughput of a pass; the fastest one is printed per delta.
    pub(crate) fn time(
        &self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        mut pass: impl FnMut() -> (Duration, usize),
    ) {
        group.throughput(Throughput::ElementsAndBytes {
            elements: self.deltas as u64,
            bytes: self.bytes as u64,
        });
        let mut least = None;
        group.bench_function(&self.name, |bencher| {
            bencher.iter_custom(|passes| {
                let mut total = Duration::ZERO;
                for _ in 0..passes {
                    let (took, hits) = pass();
                    assert_eq!(hits, self.hits, "hits of `{}`", self.name);
                    least = Some(least.map_or(took, |least: Duration| least.min(took)));
                    total += took;
                }
                total
            });
        });
        if let Some(least) = least {
            println!(
                "{}: {:.1} ns per delta ({} bytes in {} deltas, {} hits)",
                self.name,
                least.as_secs_f64() * 1e9 / self.deltas as f64,
                self.bytes,
                self.deltas,
                self.hits,
            );
        }
    }
}

/// A stream with an open part; tool input is inside its argument already.
pub(crate) fn open(pack: &Pack, channel: Channel) -> Stream {
    let mut stream = pack.stream();
    stream.open(PART, channel);
    if channel == Channel::ToolInput {
        assert!(stream.push(PART, br#"{"content":""#).is_empty());
    }
    stream
}

/// Ends a part with [`KEY`]; gives the hits of that.
pub(crate) fn close(stream: &mut Stream, channel: Channel) -> usize {
    let mut hits = stream.push(PART, KEY).len();
    if channel == Channel::ToolInput {
        hits += stream.push(PART, br#""}"#).len();
    }
    hits + stream.close(PART).len()
}

/// One pass: every stream opens, the deltas arrive in turn (timed), every stream closes.
pub(crate) fn pass(
    pack: &Pack,
    channel: Channel,
    text: &Text,
    streams: usize,
) -> (Duration, usize) {
    let mut open: Vec<Stream> = (0..streams).map(|_| open(pack, channel)).collect();
    let (mut next, mut hits) = (0, 0);
    let started = Instant::now();
    for delta in text.deltas() {
        hits += open[next].push(PART, delta).len();
        next = if next + 1 == streams { 0 } else { next + 1 };
    }
    let took = started.elapsed();
    let closed = open.iter_mut().map(|stream| close(stream, channel));
    (took, hits + closed.sum::<usize>())
}
