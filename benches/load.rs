//! How long packs take to load, what a stream weighs, and that memory stays flat past the budget.
//!
//! Reveals: whether loading is linear in the number of patterns, and whether hostile text can grow the
//! table. Data: `pool-7000.txt` of the corpus (one realistic code pattern a line) where `TTSR_CORPUS`
//! is set, else patterns made here; hostile text is random binary digits.

mod common;

use std::hint::black_box;
use std::time::Instant;

use common::rules;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ttsr::{Channel, Limits, Pack, PartId, Stream};

fn load(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    for count in [1, 100, 1000] {
        let patterns = rules::pool(count);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("{count} patterns"), |bencher| {
            bencher.iter(|| {
                let pack = rules::pack(black_box(&patterns), Channel::Text, Limits::default());
                assert_eq!(pack.rules().len(), patterns.len());
                pack
            });
        });
    }
    let started = Instant::now();
    let loaded = rules::pack(&rules::pool(1000), Channel::Text, Limits::default());
    println!(
        "load of 1,000 patterns: {:.1} ms, once, cold",
        started.elapsed().as_secs_f64() * 1e3
    );
    println!("{:?}", loaded.automata(Channel::Text).next());
    println!(
        "matching state of a stream and active view: {} bytes",
        Stream::STATE_BYTES
    );
}

/// Past the budget: text that leads to a new state at nearly every byte.
fn hostile(criterion: &mut Criterion) {
    let limits = Limits {
        table_bytes: 1 << 20,
        ..Limits::default()
    };
    let pack = rules::pack(
        &["[01]*1[01]{18}x".to_owned(), "1[01]{20}y".to_owned()],
        Channel::Text,
        limits,
    );
    let mut digits = 0x9E37_79B9u64;
    let text: Vec<u8> = (0..1 << 20)
        .map(|_| {
            digits ^= digits << 13;
            digits ^= digits >> 7;
            digits ^= digits << 17;
            b'0' + (digits >> 40) as u8 % 2
        })
        .collect();
    let mut group = criterion.benchmark_group("hostile");
    group
        .sample_size(10)
        .throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("new states at every byte, 1 MiB table", |bencher| {
        bencher.iter(|| assert_eq!(push_all(&pack, &text, 1), 0));
    });
    group.finish();
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    for megabytes in [1, 10, 100] {
        assert_eq!(push_all(&pack, &text, megabytes), 0);
        let size = pack
            .automata(Channel::Text)
            .next()
            .expect("a rule reads text");
        println!(
            "after {megabytes} MB more of hostile text: table {} + sets {} bytes, full: {}, resident {} KiB",
            size.table_bytes,
            size.set_bytes,
            size.is_full,
            resident_kib()
        );
    }
}

/// Pushes the text so many times through one stream, in deltas of 4 bytes; gives the hits.
fn push_all(pack: &Pack, text: &[u8], times: usize) -> usize {
    let mut stream = pack.stream();
    stream.open(PartId(0), Channel::Text);
    let mut hits = 0;
    for _ in 0..times {
        hits += text
            .chunks(4)
            .map(|delta| stream.push(PartId(0), delta).len())
            .sum::<usize>();
    }
    hits
}

/// Resident memory, where the system tells it.
fn resident_kib() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or("unknown".to_owned(), |line| {
        line.trim().trim_end_matches(" kB").to_owned()
    })
}

criterion_group!(benches, load, hostile);
criterion_main!(benches);
