//! Cost of a delta late in its part.
//!
//! Reveals: whether the cost of a delta grows with the reply. It must be constant from 1 KB to 1 MB, in text and in an
//! argument of a tool call. Searching the accumulated reply again at every delta grows with it.
//!
//! Data: the corpus' replies in deltas of OpenAI's measured sizes and 1,000 patterns of its pool if `TTSR_CORPUS` is
//! set, else generated ones. The timed text is always the same 16 KiB, after a prefix of the given length; the regex
//! engine gets the first 1 KiB of them.

mod common;

use std::time::{Duration, Instant};

use common::Case;
use common::rescan::Rescan;
use common::rules::{PART, Rules, pool, push_all};
use common::text::Text;
use criterion::{Criterion, criterion_group, criterion_main};
use ttsr::Channel;

const RULES: usize = 1000;

fn growth(criterion: &mut Criterion) {
    let timed = Text::of_length(16 << 10);
    let before = Text::of_length((16 << 10) + 1_000_000);
    let before = before.bytes[16 << 10..].to_vec();
    let patterns = pool(RULES);
    let mut group = criterion.benchmark_group("growth");
    group.sample_size(10);
    for channel in [Channel::Text, Channel::ToolInput] {
        let rules = Rules::new(&patterns, channel);
        let arriving = rules.arriving(&timed);
        for kilobytes in [1, 10, 100, 1000] {
            let seen = &before[..kilobytes * 1000];
            let name = format!("{}, after {kilobytes} KB", channel.name());
            let hits = rules.hits(&[seen, &timed.bytes].concat());
            let seen = rules.arriving(&Text::of_bytes(seen.to_vec()));
            pass(&rules, &seen, &arriving); // builds the states
            let case = Case::new(name, &arriving, hits);
            case.time(&mut group, || pass(&rules, &seen, &arriving));
        }
    }
    let rules = Rules::new(&patterns, Channel::Text);
    let mut rescan = Rescan::new(&patterns, &rules.ending);
    let beginning = timed.truncated(1 << 10);
    for kilobytes in [1, 10] {
        let seen = &before[..kilobytes * 1000];
        let name = format!("baseline: search the whole reply again, after {kilobytes} KB");
        let hits = rules.hits(&[seen, &beginning.bytes].concat());
        rescan.pass(seen, &beginning, usize::MAX); // builds the states
        let case = Case::new(name, &beginning, hits);
        case.time(&mut group, || rescan.pass(seen, &beginning, usize::MAX));
    }
}

/// Runs one pass. The prefix is not timed.
fn pass(rules: &Rules, seen: &Text, arriving: &Text) -> (Duration, usize) {
    let mut stream = rules.open();
    let mut hits = push_all(&mut stream, seen);
    let started = Instant::now();
    for delta in arriving.deltas() {
        hits += stream.push(PART, delta).len();
    }
    let took = started.elapsed();
    (took, hits + rules.close(&mut stream))
}

criterion_group!(benches, growth);
criterion_main!(benches);
