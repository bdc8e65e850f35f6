//! Cost per byte of each view, each detector, and a syntax tree.
//!
//! Reveals: the cost of a region, a fold or a detector compared with the same rule on the plain text. The goals are at
//! most three times the plain path for views and at most 20 ns per byte for detectors.
//!
//! Data: a Markdown reply with fenced code, a file written by a tool, an edit and commands, all generated, 64 KiB each
//! in deltas of 32 bytes. Each ends with one text that every rule matches, and each pass must have exactly one hit for
//! every rule that can see it.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ttsr::{Channel, Pack, PartId};

const BYTES: usize = 64 << 10;
const DELTA: usize = 32;
const RULES: usize = 50;
const PART: PartId = PartId(0);

/// A text and its channel.
struct Input {
    channel: Channel,
    bytes: Vec<u8>,
}

/// A line of code as agents write it, and one that rule 7 matches.
const CODE: &str =
    "    let total = items.iter().map(|item| item.price * 2).sum::<u32>(); // \"in cents\"\n";
const BROKEN: &str = "    let token_7_x = \"token_7_x\"; // token_7_x\n";
const PROSE: &str =
    "The price of an item is read once, and *kept* in `price` until the order is closed.\n\n";
const COMMAND: &str =
    "cd \"$HOME/src\" && cargo test --all -- 'one name' | tail -n 20; echo done\n";

fn lines(line: &str) -> String {
    line.repeat(BYTES / line.len())
}

/// Returns the text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Input {
    fn markdown() -> Input {
        let block = format!("{}```rust\n{}```\n\n", PROSE.repeat(8), CODE.repeat(8));
        let text = lines(&block) + "token_7_x\n\n```rust\n" + BROKEN + "```\n";
        Input::of(Channel::Text, text)
    }

    fn file() -> Input {
        let text = quoted(&(lines(CODE) + BROKEN));
        Input::of(
            Channel::ToolInput,
            format!("{{\"path\":\"a.rs\",\"content\":{text}}}"),
        )
    }

    /// Returns an edit that keeps half of the lines.
    fn edit() -> Input {
        let half = CODE.repeat(BYTES / CODE.len() / 2);
        let old = quoted(&half);
        let new = quoted(&(half.replace("price", "cost") + BROKEN));
        let text = format!("{{\"path\":\"a.rs\",\"old_string\":{old},\"new_string\":{new}}}");
        Input::of(Channel::ToolInput, text)
    }

    fn command() -> Input {
        let text = quoted(&(lines(COMMAND) + "token_7_x\n"));
        Input::of(Channel::ToolInput, format!("{{\"command\":{text}}}"))
    }

    fn of(channel: Channel, text: String) -> Input {
        Input {
            channel,
            bytes: text.into_bytes(),
        }
    }

    fn pass(&self, pack: &Pack) -> (Duration, usize) {
        let begun = Instant::now();
        let mut stream = pack.stream();
        stream.open(PART, self.channel);
        let mut hits = stream.set_tool(PART, "tool", "call").len();
        for delta in self.bytes.chunks(DELTA) {
            hits += stream.push(PART, delta).len();
        }
        hits += stream.finish().len();
        (begun.elapsed(), hits)
    }
}

/// Returns rules with these keys in their patterns; one of them hits.
fn patterns(channel: Channel, keys: &str) -> Pack {
    let mut text = head(channel);
    for rule in 0..RULES {
        text += &format!(
            "[rule.r{rule}]\ndescription = 'd'\nmatch.any = [{{ literal = 'token_{rule}_x'{keys} }}]\n\
             examples.match = ['token_{rule}_x']\n"
        );
    }
    Pack::from_toml(&text).expect("the rules are right")
}

fn detector(channel: Channel, condition: &str) -> Pack {
    let text = head(channel);
    let rule = format!("[rule.r]\ndescription = 'd'\n{condition}\nexamples.match = ['x']\n");
    Pack::from_toml(&(text + &rule)).expect("the rule is right")
}

fn head(channel: Channel) -> String {
    let channel = channel.name();
    format!(
        "schema = 1\n[pack]\nname = 'bench'\n[defaults]\nseverity = 'info'\non = ['{channel}']\n"
    )
}

fn views(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("views");
    group.sample_size(10);
    let mut time = |name: &str, input: &Input, pack: &Pack, hits: usize| {
        assert_eq!(input.pass(pack).1, hits, "{name}");
        group.throughput(Throughput::Bytes(input.bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|passes| (0..passes).map(|_| input.pass(pack).0).sum());
        });
    };
    let (markdown, file) = (Input::markdown(), Input::file());
    let (edit, command) = (Input::edit(), Input::command());
    for (what, input, views) in [
        (
            "text",
            &markdown,
            &[
                ("plain", ""),
                ("prose", ", region = 'prose'"),
                ("code", ", region = 'code'"),
                ("string", ", region = 'string'"),
                ("fold case", ", fold = 'case'"),
                ("fold invisible", ", fold = 'invisible'"),
                #[cfg(feature = "unicode")]
                ("fold nfkc", ", fold = 'nfkc'"),
                #[cfg(feature = "unicode")]
                ("fold confusables", ", fold = 'confusables'"),
            ][..],
        ),
        (
            "file",
            &file,
            &[
                ("plain", ""),
                ("added", ", region = 'added'"),
                ("comment", ", region = ['added', 'comment']"),
            ],
        ),
        (
            "edit",
            &edit,
            &[("plain", ""), ("added", ", region = 'added'")],
        ),
        (
            "command",
            &command,
            &[("plain", ""), ("shell", ", region = 'shell'")],
        ),
    ] {
        for (view, keys) in views {
            let pack = patterns(input.channel, keys);
            time(&format!("{what}: {view}"), input, &pack, 1);
        }
    }
    for (name, condition, hits) in [
        // The lines of the text repeat.
        (
            "repetition",
            "match.repetition = { unit-chars = [1, 4], times = 100 }",
            0,
        ),
        ("leak", "match.leak = true", 0),
        (
            "limit",
            "match.limit = { bytes = 1000000000, lines = 1000000000 }",
            0,
        ),
        ("script", "match.script = { expect = ['en'] }", 0),
        ("unknown-name", "match.unknown-name = {}", 0),
    ] {
        let pack = detector(Channel::Text, condition);
        time(&format!("detector: {name}"), &markdown, &pack, hits);
    }
    #[cfg(feature = "ast")]
    for (what, input, pattern, hits) in [
        ("text", &markdown, "let token_7_x = $V;", 1),
        ("file", &file, "let token_7_x = $V;", 1),
        (
            "file, of which nothing matches",
            &file,
            "let nothing = $V;",
            0,
        ),
    ] {
        let ast = format!("match.ast = {{ languages = ['rust'], any = ['{pattern}'] }}");
        let pack = detector(input.channel, &ast);
        time(&format!("ast: {what}"), input, &pack, hits);
    }
}

criterion_group!(benches, views);
criterion_main!(benches);
