//! Shared by the benches: text, rules, and timing and checking of passes.

#![allow(dead_code)] // shared; each bench uses some of it

pub(crate) mod packs;
#[cfg(feature = "harness")]
pub(crate) mod processor;
pub(crate) mod rescan;
pub(crate) mod rules;
pub(crate) mod text;

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Throughput};

use text::Text;

/// Returns true if cases only have to run once. Slow cases are then skipped.
pub(crate) fn is_test() -> bool {
    let has = |name: &str| std::env::args().any(|argument| argument == name);
    has("--test") || !has("--bench")
}

/// A timed case: the text of one pass and the expected number of hits.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) deltas: usize,
    pub(crate) bytes: usize,
    pub(crate) hits: usize,
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, text: &Text, hits: usize) -> Case {
        Case {
            name: name.into(),
            deltas: text.deltas().count(),
            bytes: text.bytes.len(),
            hits,
        }
    }

    /// Times passes. Each returns its own time and its hits.
    ///
    /// Criterion reports time and throughput of a pass; the fastest pass is also printed per delta.
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
