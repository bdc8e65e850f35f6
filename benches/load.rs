//! Load time of packs, cost of the first megabyte, and memory on hostile text.
//!
//! Reveals: whether loading is linear in the number of patterns, the time that a compiled pack saves, the time and memory of building states on text that a
//! pack sees for the first time, and whether hostile text can grow the table beyond its budget.
//!
//! Data: `pool-7000.txt` of the corpus (one realistic code pattern per line), the rules of gitleaks and a megabyte of
//! replies if `TTSR_CORPUS` is set, else generated patterns and text. Hostile text is random binary digits.

mod common;
#[path = "common/counting.rs"]
mod counting;

use std::hint::black_box;
use std::sync::atomic::Ordering;

use common::is_test;
use common::rules::{self, Rules};
use common::text::{Random, Text};
use counting::LIVE;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ttsr::{Channel, Limits, Pack, PartId, Stream};

fn load(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    for (set, patterns) in rules::sets() {
        group.throughput(Throughput::Elements(patterns.len() as u64));
        group.bench_function(&set, |bencher| {
            bencher.iter(|| {
                let pack = rules::pack(black_box(&patterns), Channel::Text, Limits::default());
                assert_eq!(pack.rules().len(), patterns.len());
                pack
            });
        });
        let bytes = rules::pack(&patterns, Channel::Text, Limits::default()).to_bytes();
        group.bench_function(
            format!("{set}, compiled ({} bytes)", bytes.len()),
            |bencher| {
                bencher.iter(|| {
                    let pack = Pack::from_bytes(black_box(&bytes)).expect("bytes just written");
                    assert_eq!(pack.rules().len(), patterns.len());
                    pack
                });
            },
        );
    }
    group.finish();
    builtins(criterion);
    println!(
        "matching state of a stream and active view: {} bytes",
        Stream::STATE_BYTES
    );
}

/// Times the load of all built-in packs but `std/pii`, as the command loads them, from TOML and from bytes.
fn builtins(criterion: &mut Criterion) {
    let names = Pack::builtin_names().filter(|name| *name != "std/pii");
    let names: Vec<&str> = names.collect();
    let load = || {
        let builder = names
            .iter()
            .fold(Pack::builder(), |builder, name| builder.builtin(*name));
        builder.build().expect("the built-in packs are valid")
    };
    let pack = load();
    let bytes = pack.to_bytes();
    let rules = pack.rules().len();
    let mut group = criterion.benchmark_group("load");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(rules as u64));
    group.bench_function("built-in packs", |bencher| {
        bencher.iter(|| assert_eq!(load().rules().len(), rules));
    });
    group.bench_function(
        format!("built-in packs, compiled ({} bytes)", bytes.len()),
        |bencher| {
            bencher.iter(|| {
                let pack = Pack::from_bytes(black_box(&bytes)).expect("bytes just written");
                assert_eq!(pack.rules().len(), rules);
            });
        },
    );
    group.finish();
}

/// Times the first megabyte that a pack reads, and the same text again.
fn first_megabyte(_: &mut Criterion) {
    let text = Text::of_length(if is_test() { 64 << 10 } else { 1 << 20 });
    for (set, patterns) in rules::sets() {
        let rules = Rules::new(&patterns, Channel::Text);
        let expected = rules.hits(&text.bytes);
        let before = LIVE.load(Ordering::Relaxed);
        let (cold, hits) = rules.pass(&text, 1);
        let allocated = LIVE.load(Ordering::Relaxed) - before;
        assert_eq!(hits, expected, "{set}, cold");
        let (warm, hits) = rules.pass(&text, 1);
        assert_eq!(hits, expected, "{set}, warm");
        let size = rules.pack.automata(Channel::Text).next();
        let size = size.expect("a rule reads text");
        println!(
            "{set}: {} bytes of text: {:.2} ms cold, {:.2} ms warm, {:.1} times; {} states built, table {} + \
             sets {} bytes, {allocated} bytes more allocated ({hits} hits)",
            text.bytes.len(),
            cold.as_secs_f64() * 1e3,
            warm.as_secs_f64() * 1e3,
            cold.as_secs_f64() / warm.as_secs_f64(),
            size.states,
            size.table_bytes,
            size.set_bytes,
        );
    }
}

/// Times text that leads to a new state at nearly every byte, with the budget exhausted.
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
    let mut digits = Random::default();
    let text: Vec<u8> = (0..1 << 20).map(|_| b'0' + digits.below(2) as u8).collect();
    let mut group = criterion.benchmark_group("hostile");
    group
        .sample_size(10)
        .throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("new states at every byte, 1 MiB table", |bencher| {
        bencher.iter(|| assert_eq!(push_all(&pack, &text, 1), 0));
    });
    group.finish();
    if is_test() {
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

/// Pushes the text `times` times through one stream in deltas of 4 bytes. Returns the number of hits.
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

/// Returns the resident memory, if the system reports it.
fn resident_kib() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or("unknown".to_owned(), |line| {
        line.trim().trim_end_matches(" kB").to_owned()
    })
}

criterion_group!(benches, load, first_megabyte, hostile);
criterion_main!(benches);
