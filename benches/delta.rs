//! What a delta costs through `Stream::push`, warm.
//!
//! Reveals: whether the price of a delta depends on the number of rules, on streams that take turns, on
//! the channel or on the script, and how far it is from merely looking at the bytes, from searching the
//! whole reply again at every delta, and from searching its last 512 bytes.
//!
//! Data: 256 KiB of the corpus' replies in deltas of OpenAI's measured sizes and its pattern pool where
//! `TTSR_CORPUS` is set, else text and patterns made here; 64 KiB of made text in other scripts, beside
//! ASCII of the same bytes cut in the same places. The regex engine gets the first 20 KB.

mod common;

use common::Case;
use common::rescan::{Rescan, sum};
use common::rules::{Rules, pool};
use common::text::Text;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use ttsr::Channel;

/// Rules where something else is varied.
const RULES: usize = 1000;

/// Bytes of the tail that is searched at each delta.
const TAIL: usize = 512;

fn by_rules(criterion: &mut Criterion) {
    let text = Text::of_length(256 << 10);
    let (bytes, deltas) = text.interleave(&text.deltas, 256);
    let interleaved = Text { bytes, deltas };
    let beginning = text.truncated(20_000);
    let mut group = criterion.benchmark_group("delta/rules");
    group.sample_size(10);
    Case::new("baseline: sum of the bytes", &text, 0).time(&mut group, || (sum(&text), 0));
    for count in [1, 10, 100, RULES] {
        let patterns = pool(count);
        let rules = Rules::new(&patterns, Channel::Text);
        for (streams, text) in [(1, &text), (256, &interleaved)] {
            let name = format!("{count} rules, {streams} streams");
            time(&mut group, name, &rules, text, streams);
        }
        let hits = rules.hits(&beginning.bytes);
        let mut rescan = Rescan::new(&patterns, &rules.ending);
        for (name, window) in [("whole reply", usize::MAX), ("last 512 bytes", TAIL)] {
            let name = format!("{count} rules, baseline: search the {name} again");
            rescan.pass(b"", &beginning, window); // builds the states
            let case = Case::new(name, &beginning, hits);
            case.time(&mut group, || rescan.pass(b"", &beginning, window));
        }
    }
}

fn by_channel(criterion: &mut Criterion) {
    let text = Text::of_length(256 << 10);
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

/// Times our own passes over a text, warm.
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

criterion_group!(benches, by_rules, by_channel, by_script);
criterion_main!(benches);
