//! Throughput on large pieces: 64 bytes, 1 KB, 64 KB per push.
//!
//! Reveals: gigabytes per second by number of rules and piece size, compared with a sum of the bytes and with one
//! search of the whole text by the regex engine, which keeps no state between pieces and may read the text in any
//! order.
//!
//! Data: 1 MiB of the corpus' replies, its pattern pool and the rules of gitleaks if `TTSR_CORPUS` is set, else
//! generated text and patterns.

mod common;

use common::rescan::{Rescan, sum};
use common::rules::{Rules, sets};
use common::text::Text;
use common::{Case, is_test};
use criterion::{Criterion, criterion_group, criterion_main};
use ttsr::Channel;

/// Sizes of a piece in bytes.
const SIZES: [usize; 3] = [64, 1 << 10, 64 << 10];

/// Maximum number of patterns for the regex engine: with more it would build states for minutes.
const SEARCHED: usize = 1000;

fn bulk(criterion: &mut Criterion) {
    let text = Text::of_length(if is_test() { 128 << 10 } else { 1 << 20 });
    let mut group = criterion.benchmark_group("bulk");
    group.sample_size(10);
    let pieces = |size| Text {
        bytes: text.bytes.clone(),
        deltas: text.fixed(size),
    };
    for size in SIZES {
        let text = pieces(size);
        let name = format!("{size} bytes, baseline: sum of the bytes");
        Case::new(name, &text, 0).time(&mut group, || (sum(&text), 0));
    }
    let whole = pieces(text.bytes.len());
    for (set, patterns) in sets() {
        let rules = Rules::new(&patterns, Channel::Text);
        let hits = rules.hits(&text.bytes);
        for size in SIZES {
            let text = pieces(size);
            rules.pass(&text, 1); // builds the states
            let case = Case::new(format!("{size} bytes, {set}"), &text, hits);
            case.time(&mut group, || rules.pass(&text, 1));
        }
        if patterns.len() <= SEARCHED {
            let mut rescan = Rescan::new(&patterns, &rules.ending);
            rescan.pass(b"", &whole, usize::MAX); // builds the states
            let case = Case::new(
                format!("{set}, baseline: one search of it all"),
                &whole,
                hits,
            );
            case.time(&mut group, || rescan.pass(b"", &whole, usize::MAX));
        }
    }
}

criterion_group!(benches, bulk);
criterion_main!(benches);
