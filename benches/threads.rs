//! Cost of a delta when threads share a pack.
//!
//! Reveals: whether threads that read warm streams of one pack slow each other down. With a core for each, a pass of two
//! threads takes as long as a pass of one; it has twice the deltas, so the time per delta halves.
//!
//! Data: 256 KiB of the corpus' replies in deltas of OpenAI's measured sizes and 1,000 patterns of its pool if
//! `TTSR_CORPUS` is set, else generated ones. Every thread reads all of it.

mod common;

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use common::Case;
use common::rules::{Rules, pool};
use common::text::Text;
use criterion::{Criterion, criterion_group, criterion_main};
use ttsr::Channel;

const RULES: usize = 1000;

fn threads(criterion: &mut Criterion) {
    let text = Text::of_length(256 << 10);
    let rules = Rules::new(&pool(RULES), Channel::Text);
    let hits = rules.hits(&text.bytes);
    let mut group = criterion.benchmark_group("threads");
    group.sample_size(10);
    for threads in [1, 2] {
        let case = Case {
            name: format!("{threads} threads, {RULES} rules"),
            deltas: text.deltas().count() * threads,
            bytes: text.bytes.len() * threads,
            hits: hits * threads,
        };
        together(&rules, &text, threads); // builds the states
        case.time(&mut group, || together(&rules, &text, threads));
    }
}

/// Starts all threads at once and returns the time of the slowest.
fn together(rules: &Rules, text: &Text, threads: usize) -> (Duration, usize) {
    let barrier = Barrier::new(threads);
    let read = || {
        barrier.wait();
        rules.pass(text, 1)
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
        let passes = running
            .into_iter()
            .map(|thread| thread.join().expect("a pass"));
        passes.fold((Duration::ZERO, 0), |(slowest, hits), (took, more)| {
            (slowest.max(took), hits + more)
        })
    })
}

criterion_group!(benches, threads);
criterion_main!(benches);
