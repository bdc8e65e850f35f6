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

use common::rescan::{Rescan, sum};
use common::rules::{self, Model};
use common::text::Text;
use common::{Case, pass};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use ttsr::{Channel, Limits, Pack};

/// Rules where something else is varied.
const RULES: usize = 1000;

/// Bytes of the tail that is searched at each delta.
const TAIL: usize = 512;

/// A pack on one channel, and what says how often it must hit.
struct Rules {
    pack: Pack,
    channel: Channel,
    model: Model,
}

impl Rules {
    fn new(patterns: &[String], channel: Channel) -> Rules {
        Rules {
            pack: rules::pack(patterns, channel, Limits::default()),
            channel,
            model: Model::new(patterns),
        }
    }

    /// Times `text`, which is how the part arrives and may be escaped; `plain` is what patterns see.
    fn time(
        &self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: String,
        (text, plain): (&Text, &Text),
        streams: usize,
    ) {
        let case = case(name, text, self.model.hits_of(plain, streams));
        let pass = || pass(&self.pack, self.channel, text, streams);
        pass(); // builds the states
        case.time(group, pass);
    }
}

fn case(name: String, text: &Text, hits: usize) -> Case {
    Case {
        name,
        deltas: text.deltas().count(),
        bytes: text.bytes.len(),
        hits,
    }
}

fn by_rules(criterion: &mut Criterion) {
    let text = Text::of_length(256 << 10);
    let (bytes, deltas) = text.interleave(&text.deltas, 256);
    let interleaved = Text { bytes, deltas };
    let beginning = text.truncated(20_000);
    let mut group = criterion.benchmark_group("delta/rules");
    group.sample_size(10);
    case("baseline: sum of the bytes".to_owned(), &text, 0).time(&mut group, || (sum(&text), 0));
    for count in [1, 10, 100, RULES] {
        let patterns = rules::patterns(count);
        let rules = Rules::new(&patterns, Channel::Text);
        for (streams, text) in [(1, &text), (256, &interleaved)] {
            let name = format!("{count} rules, {streams} streams");
            rules.time(&mut group, name, (text, text), streams);
        }
        let hits = rules.model.hits(&beginning.bytes);
        let mut rescan = Rescan::new(&patterns);
        for (name, window) in [("whole reply", usize::MAX), ("last 512 bytes", TAIL)] {
            let name = format!("{count} rules, baseline: search the {name} again");
            let mut pass = || rescan.pass(b"", &beginning, window);
            pass();
            case(name, &beginning, hits).time(&mut group, pass);
        }
    }
}

fn by_channel(criterion: &mut Criterion) {
    let text = Text::of_length(256 << 10);
    let escaped = text.escaped();
    let patterns = rules::patterns(RULES);
    let mut group = criterion.benchmark_group("delta/channel");
    group.sample_size(10);
    for channel in Channel::ALL {
        let is_escaped = channel == Channel::ToolInput;
        let arriving = if is_escaped { &escaped } else { &text };
        let name = format!("{}, {RULES} rules", channel.name());
        Rules::new(&patterns, channel).time(&mut group, name, (arriving, &text), 1);
    }
}

fn by_script(criterion: &mut Criterion) {
    let patterns = rules::patterns(RULES);
    let rules = Rules::new(&patterns, Channel::Text);
    let ascii = Text::made("ASCII", 65 << 10);
    let mut group = criterion.benchmark_group("delta/script");
    group.sample_size(10);
    for script in ["Chinese", "Russian", "emoji"] {
        let text = Text::made(script, 64 << 10);
        let name = format!("{script}, {RULES} rules");
        rules.time(&mut group, name, (&text, &text), 1);
        let same = ascii.cut_like(&text);
        let name = format!("ASCII cut like {script}, {RULES} rules");
        rules.time(&mut group, name, (&same, &same), 1);
    }
}

criterion_group!(benches, by_rules, by_channel, by_script);
criterion_main!(benches);
