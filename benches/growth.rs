//! What a delta costs when much of its part was seen already.
//!
//! Reveals: whether the price of a delta grows with the reply. Ours must be flat from 1 KB to 1 MB;
//! searching the accumulated reply again at every delta grows with it.
//!
//! Data: the corpus' replies in deltas of OpenAI's measured sizes and 1,000 patterns of its pool where
//! `TTSR_CORPUS` is set, else made here. What is timed is always the same 16 KiB of text, which follow
//! so many bytes of other text; the regex engine gets the first 1 KiB of them.

mod common;

use std::time::{Duration, Instant};

use common::rescan::Rescan;
use common::rules::{self, Model};
use common::text::Text;
use common::{Case, PART, close, open};
use criterion::{Criterion, criterion_group, criterion_main};
use ttsr::{Channel, Limits, Pack};

const RULES: usize = 1000;

fn growth(criterion: &mut Criterion) {
    let timed = Text::of_length(16 << 10);
    let beginning = timed.truncated(1 << 10);
    let before = Text::of_length((16 << 10) + 1_000_000)
        .bytes
        .split_off(16 << 10);
    let patterns = rules::patterns(RULES);
    let model = Model::new(&patterns);
    let pack = rules::pack(&patterns, Channel::Text, Limits::default());
    let mut rescan = Rescan::new(&patterns);
    let mut group = criterion.benchmark_group("growth");
    group.sample_size(10);
    for kilobytes in [1, 10, 100, 1000] {
        let seen = &before[..kilobytes * 1000];
        let case = |name: &str, text: &Text| Case {
            name: format!("{name}after {kilobytes} KB, {RULES} rules"),
            deltas: text.deltas().count(),
            bytes: text.bytes.len(),
            hits: model.hits(&[seen, &text.bytes].concat()),
        };
        pass(&pack, seen, &timed); // builds the states
        case("", &timed).time(&mut group, || pass(&pack, seen, &timed));
        if kilobytes <= 10 {
            let mut pass = || rescan.pass(seen, &beginning, usize::MAX);
            pass();
            case("baseline: search the whole reply again, ", &beginning).time(&mut group, pass);
        }
    }
}

/// What was seen before is not timed.
fn pass(pack: &Pack, seen: &[u8], text: &Text) -> (Duration, usize) {
    let mut stream = open(pack, Channel::Text);
    let mut hits = 0;
    for delta in seen.chunks(4 << 10) {
        hits += stream.push(PART, delta).len();
    }
    let started = Instant::now();
    for delta in text.deltas() {
        hits += stream.push(PART, delta).len();
    }
    let took = started.elapsed();
    (took, hits + close(&mut stream, Channel::Text))
}

criterion_group!(benches, growth);
criterion_main!(benches);
