//! Cost of a delta through `Stream::push`, warm and cold.
//!
//! Reveals: whether the cost of a delta depends on the number of rules, on interleaved streams, on the channel, on the
//! script or on the providers' boundaries; the cost of building states in the first reply; and the distance from a sum
//! of the bytes, from searching the whole reply again at every delta, and from searching its last 512 bytes.
//!
//! Data: 256 KiB of the corpus' replies in deltas of OpenAI's measured sizes, or as recorded, its pattern pool and the
//! rules of gitleaks if `TTSR_CORPUS` is set, else generated text and patterns; 64 KiB of generated text in other
//! scripts, beside ASCII with the same number of bytes and the same boundaries. The regex engine gets the first 20 KB.

mod common;

use common::rescan::{Rescan, sum};
use common::rules::{Rules, pool, sets};
use common::text::{Text, corpus};
use common::{Case, is_test};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use ttsr::Channel;

/// Number of rules if something else is varied.
const RULES: usize = 1000;

/// Number of interleaved streams.
const STREAMS: usize = 4096;

/// Bytes of text in a pass.
const LENGTH: usize = 256 << 10;

/// Bytes of the tail that is searched at each delta.
const TAIL: usize = 512;

fn by_rules(criterion: &mut Criterion) {
    let text = Text::of_length(LENGTH);
    let streams = if is_test() { 64 } else { STREAMS };
    let (bytes, deltas) = text.interleave(&text.deltas, streams);
    let interleaved = Text { bytes, deltas };
    let beginning = text.truncated(20_000);
    let mut group = criterion.benchmark_group("delta/rules");
    group.sample_size(10);
    Case::new("baseline: sum of the bytes", &text, 0).time(&mut group, || (sum(&text), 0));
    for (set, patterns) in sets() {
        let rules = Rules::new(&patterns, Channel::Text);
        for (streams, text) in [(1, &text), (streams, &interleaved)] {
            let name = format!("{set}, {streams} streams");
            time(&mut group, name, &rules, text, streams);
        }
        // With more than some hundred rules this takes minutes and shows nothing new.
        if patterns.len() > RULES {
            continue;
        }
        let hits = rules.hits(&beginning.bytes);
        let mut rescan = Rescan::new(&patterns, &rules.ending);
        for (name, window) in [("whole reply", usize::MAX), ("last 512 bytes", TAIL)] {
            let name = format!("{set}, baseline: search the {name} again");
            rescan.pass(b"", &beginning, window); // builds the states
            let case = Case::new(name, &beginning, hits);
            case.time(&mut group, || rescan.pass(b"", &beginning, window));
        }
    }
}

/// Times the first text that a pack reads, and the same text again.
fn cold(criterion: &mut Criterion) {
    let text = Text::of_length(LENGTH);
    let mut group = criterion.benchmark_group("delta/cold");
    group.sample_size(10);
    for (set, patterns) in sets() {
        let rules = Rules::new(&patterns, Channel::Text);
        let hits = rules.hits(&text.bytes);
        let case = Case::new(format!("{set}, cold"), &text, hits);
        case.time(&mut group, || rules.loaded_again().pass(&text, 1));
        time(&mut group, format!("{set}, warm"), &rules, &text, 1);
    }
}

/// Times deltas with recorded boundaries, and the same text in deltas of measured sizes.
fn by_boundaries(criterion: &mut Criterion) {
    let Some(corpus) = corpus() else {
        return eprintln!("TTSR_CORPUS is not set: recorded boundaries are left out");
    };
    let mut group = criterion.benchmark_group("delta/boundaries");
    group.sample_size(10);
    for (kind, channel) in [("text", Channel::Text), ("reasoning", Channel::Reasoning)] {
        let rules = Rules::new(&pool(RULES), channel);
        let recorded = Text::as_recorded(&corpus, kind, LENGTH);
        let cut = Text::of_bytes(recorded.bytes.clone());
        time(
            &mut group,
            format!("{kind} as recorded"),
            &rules,
            &recorded,
            1,
        );
        time(&mut group, format!("{kind} cut anew"), &rules, &cut, 1);
    }
}

fn by_channel(criterion: &mut Criterion) {
    let text = Text::of_length(LENGTH);
    let mut group = criterion.benchmark_group("delta/channel");
    group.sample_size(10);
    for channel in Channel::ALL {
        let name = format!("{}, {RULES} rules", channel.name());
        let rules = Rules::new(&pool(RULES), channel);
        time(&mut group, name, &rules, &text, 1);
    }
}

fn by_script(criterion: &mut Criterion) {
    let rules = Rules::new(&pool(RULES), Channel::Text);
    let ascii = Text::made("ASCII", 65 << 10);
    let mut group = criterion.benchmark_group("delta/script");
    group.sample_size(10);
    for script in ["Chinese", "Russian", "emoji"] {
        let text = Text::made(script, 64 << 10);
        let same = ascii.cut_like(&text);
        time(&mut group, script.to_owned(), &rules, &text, 1);
        let name = format!("ASCII cut like {script}");
        time(&mut group, name, &rules, &same, 1);
    }
}

/// Times passes of this crate over a text, warm.
fn time(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: String,
    rules: &Rules,
    text: &Text,
    streams: usize,
) {
    let arriving = rules.arriving(text);
    rules.pass(&arriving, streams); // builds the states
    let case = Case::new(name, &arriving, rules.hits_of(text, streams));
    case.time(group, || rules.pass(&arriving, streams));
}

criterion_group!(
    benches,
    by_rules,
    cold,
    by_boundaries,
    by_channel,
    by_script
);
criterion_main!(benches);
