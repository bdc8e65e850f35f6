//! Measures and asserts the memory bounds of streams and tables, however long, numerous or hostile the replies are.
//!
//! `cargo run --release --example bounds [-- [--percent N] [NAME…]]`
//!
//! Names: `long` (5 GiB through one stream), `open` (100,000 streams open at once, 1,000 rules), `closed` (1,000,000
//! streams opened and closed), `hostile` (text that leads to a new state at every byte), `rules` (the time of a byte in
//! each built-in rule, on texts made from its own examples). `--percent` reduces the amount of work. Memory is the
//! resident memory that the system reports, so nothing is asserted about it without `/proc`.
//! `crates/agent/tests/agent/allocations.rs` counts allocations per delta, `benches/instructions` measures work on
//! hostile text.

use std::process::ExitCode;
use std::time::Instant;

use ttsr::stream::Counters;
use ttsr::{Channel, Limits, Pack, PartId, Pattern, Rule, Stream, Verdict};

const PART: PartId = PartId(0);

const MIB: usize = 1 << 20;

/// Maximum growth of resident memory that counts as no growth.
const FLAT: usize = MIB;

/// A measurement, run with that percentage of its work.
type Measure = fn(usize);

const ALL: [(&str, Measure); 5] = [
    ("long", long),
    ("open", open),
    ("closed", closed),
    ("hostile", hostile),
    ("rules", rules),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut percent, mut chosen) = (100, Vec::new());
    while let Some(argument) = arguments.next() {
        if argument == "--percent" {
            let number = arguments.next().and_then(|number| number.parse().ok());
            percent = number.expect("--percent takes a number");
        } else if let Some(found) = ALL.iter().find(|(name, _)| *name == argument) {
            chosen.push(*found);
        } else {
            eprintln!("there is no `{argument}`: long, open, closed, hostile, rules");
            return ExitCode::FAILURE;
        }
    }
    if chosen.is_empty() {
        chosen = ALL.to_vec();
    }
    for (name, measure) in chosen {
        let started = Instant::now();
        measure(percent);
        println!("{name}: {:.0} s", started.elapsed().as_secs_f64());
    }
    ExitCode::SUCCESS
}

/// Rules of many kinds that stay active on [`Text`] and never match it: a gap, windows of lines and characters, a count,
/// held text, a region, a fold, a detector.
const BUSY: &str = r#"
schema = 1
[pack]
name = "busy"
[defaults]
on = ["text"]
severity = "info"
[rule.gap]
description = "armed again and again"
match.any = [{ regex = 'BEGIN[^;]*END' }]
[rule.line]
description = "every match has its exception beside it"
match.any = [{ literal = "unwrap()" }]
match.none = [{ literal = "// fine" }]
match.within = { lines = 1 }
[rule.both]
description = "waits for the other"
match.all = [{ word = "yarn" }, { word = "npm" }]
match.within = { chars = 400 }
[rule.sequence]
description = "waits for what never follows"
match.sequence = [{ literal = "cat .env" }, { literal = "| curl" }]
match.within = { lines = 3 }
[rule.count]
description = "counts on"
match.any = [{ word = "sorry" }]
match.count = 1_000_000_000
[rule.held]
description = "holds what may be a key"
action = "redact"
match.any = [{ regex = 'sk-[a-z0-9]{24}' }]
[rule.code]
description = "only in code"
match.any = [{ literal = "dbg!(y", region = "code" }]
[rule.fold]
description = "whatever its case"
match.any = [{ literal = "forbidden", fold = "case" }]
[rule.loops]
description = "goes round in circles"
match.repetition = { unit-chars = [20, 400], times = 4 }
"#;

/// Fragments of text: prose, and beginnings of matches of [`BUSY`].
const PIECES: [&str; 24] = [
    "the function ",
    "reads a file ",
    "and returns ",
    "what it found, ",
    "so we test ",
    "again. ",
    "Größe: 3 €, ",
    "😀 ",
    "let count = items.len();\n",
    "it's ",
    "then ",
    "no error\n",
    "value.unwrap() // fine\n",
    "BEGIN ",
    "; ",
    "yarn ",
    "cat .env ",
    "sorry ",
    "sk-0123456789abcdef ",
    "dbg!(x) ",
    "forbidde ",
    "```rust\n",
    "\n```\n",
    "\n",
];

/// An endless text in a buffer of constant size.
struct Text {
    state: u64,
    buffer: Vec<u8>,
}

impl Text {
    const LENGTH: usize = 64 << 10;

    fn new() -> Text {
        Text {
            state: 0x9E37_79B9_7F4A_7C15,
            buffer: Vec::with_capacity(Text::LENGTH + 64),
        }
    }

    fn random(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % bound
    }

    /// Returns the next piece.
    fn more(&mut self) -> &[u8] {
        self.buffer.clear();
        while self.buffer.len() < Text::LENGTH {
            let piece = self.random(PIECES.len());
            self.buffer.extend_from_slice(PIECES[piece].as_bytes());
        }
        &self.buffer
    }
}

/// Returns the resident memory in bytes, or `None` if the system does not report it.
fn resident() -> Option<usize> {
    // This file is exact; `statm` lags by some pages for each processor.
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kib: usize = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

/// Returns the growth of resident memory since `before`.
fn growth(before: Option<usize>) -> Option<usize> {
    Some(resident()?.saturating_sub(before?))
}

fn said(bytes: Option<usize>) -> String {
    bytes.map_or("unknown".to_owned(), |bytes| format!("{} KiB", bytes >> 10))
}

fn assert_flat(growth: Option<usize>, what: &str) {
    assert!(
        growth.is_none_or(|growth| growth < FLAT),
        "{what}: resident memory grew by {}",
        said(growth)
    );
}

/// Pushes 5 GiB through one stream. All memory it needs is allocated in the first 64 MiB.
fn long(percent: usize) {
    let whole = (5 << 30) / 100 * percent;
    let warm = (64 * MIB).min(whole / 10);
    let pack = Pack::from_toml(BUSY).expect("the rules load");
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    let mut text = Text::new();
    let at_first = resident();
    let (mut read, mut deltas, mut held) = (0, 0u64, 0);
    let mut after_warm = None;
    let mut peak = Some(0);
    let started = Instant::now();
    while read < whole {
        // Delta sizes cycle from 1 to 64 bytes.
        let mut size = 1;
        let mut rest = text.more();
        while !rest.is_empty() {
            size = size % 64 + 1;
            let (delta, after) = rest.split_at(size.min(rest.len()));
            if let Some(hit) = stream.push(PART, delta).first() {
                panic!("`{}` is broken at byte {}", pack.rule(hit.rule).id, hit.end);
            }
            rest = after;
            deltas += 1;
            read += delta.len();
        }
        held = held.max(stream.delivered_bytes(PART) - stream.releasable(PART));
        if read >= warm && after_warm.is_none() {
            after_warm = resident();
        } else if after_warm.is_some() && deltas.is_multiple_of(1024) {
            peak = peak.max(growth(after_warm));
        }
    }
    let took = started.elapsed();
    let counters = stream.counters();
    let grown = growth(after_warm).max(peak);
    println!(
        "long: {read} bytes in {deltas} deltas through one stream, {} rules: resident memory grew by {} after the \
         first {} MiB, by {} from the beginning; at most {held} bytes held back; {:.0} MB/s",
        pack.rules().len(),
        said(grown),
        warm / MIB,
        said(growth(at_first)),
        read as f64 / took.as_secs_f64() / 1e6,
    );
    assert_eq!(counters, Counters::default(), "every byte was read");
    assert!(stream.close(PART).is_empty(), "no rule is broken");
    assert_flat(grown, "long");
}

/// Returns a pack of `count` rules with patterns of the same kind.
fn needles(count: usize) -> Pack {
    let rules = (0..count).map(|number| {
        let pattern = format!(r"(?i)\bneedle{number}_[a-z]{{2,9}}\s*[:=]\s*\w+");
        let mut rule = Rule::new(format!("bounds/n{number}"), vec![Pattern::regex(pattern)]);
        rule.description = "A needle".to_owned();
        rule.on = vec![Channel::Text, Channel::ToolInput];
        rule
    });
    let builder = rules.fold(Pack::builder(), |pack, rule| pack.rule(rule));
    builder.build().expect("the patterns load")
}

/// Opens many streams at once. Each reads 2,000 bytes, interleaved, and then a match of one rule.
fn open(percent: usize) {
    let streams = 1000 * percent;
    const RULES: usize = 1000;
    const READ: usize = 2000;
    let pack = needles(RULES);
    let mut text = Text::new();
    let slices = text.more().to_vec();
    let slices: Vec<&[u8]> = slices.chunks_exact(READ).collect();
    let read = |streams: &mut [Stream]| {
        for turn in 0..READ / 20 {
            for (number, stream) in streams.iter_mut().enumerate() {
                let slice = slices[number % slices.len()];
                let hits = stream.push(PART, &slice[turn * 20..][..20]);
                assert!(hits.is_empty(), "no rule is broken");
            }
        }
    };
    let opened = |count: usize| -> Vec<Stream> {
        let opened = (0..count).map(|_| {
            let mut stream = pack.stream();
            stream.open(PART, Channel::Text);
            stream
        });
        opened.collect()
    };
    // The table belongs to the pack and is built beforehand.
    let mut few = opened(slices.len());
    read(&mut few);
    for rule in 0..RULES {
        let _ = few[0].push(PART, needle(rule).as_bytes());
    }
    drop(few);

    let before = resident();
    let mut all = opened(streams);
    let unread = growth(before);
    read(&mut all);
    let whole = growth(before);
    let hits: usize = all
        .iter_mut()
        .enumerate()
        .map(|(number, stream)| stream.push(PART, needle(number % RULES).as_bytes()).len())
        .sum();
    let each = |bytes: Option<usize>| {
        bytes.map_or("unknown".to_owned(), |bytes| (bytes / streams).to_string())
    };
    println!(
        "open: {streams} streams of {READ} bytes at once, {RULES} rules: {} bytes each, {} once they are open; {hits} hits",
        each(whole),
        each(unread),
    );
    assert_eq!(hits, streams, "each stream breaks one rule");
    const MOST: usize = 2048;
    assert!(
        whole.is_none_or(|whole| whole / streams < MOST),
        "a stream weighs more than {MOST} bytes"
    );
}

fn needle(rule: usize) -> String {
    format!(" needle{rule}_abc = value ")
}

/// Opens and closes streams one after another, as attempts of sessions with a text and a tool call each.
fn closed(percent: usize) {
    let streams = 10_000 * percent;
    let pack = needles(100);
    let mut session = pack.session();
    let mut text = Text::new();
    let slice = text.more()[..400].to_vec();
    let mut after_warm = None;
    let mut acts = 0;
    let started = Instant::now();
    for number in 0..streams {
        // Starts a new conversation at intervals; one of them has a tenth of all streams.
        if number < streams / 2 && number.is_multiple_of(20) || number == streams * 9 / 10 {
            session = pack.session();
        }
        session.begin_turn();
        let mut stream = session.stream();
        let _ = session.open(&mut stream, PART, Channel::Text);
        for delta in slice.chunks(37) {
            acts += usize::from(session.push(&mut stream, PART, delta) != Verdict::Continue);
        }
        let _ = session.close(&mut stream, PART);
        let call = PartId(1);
        let _ = session.open(&mut stream, call, Channel::ToolInput);
        let _ = session.set_tool(&mut stream, call, "bash", "call_1");
        for delta in [&br#"{"command":"ls -la && "#[..], br#"needle7_abc = 1 "}"#] {
            acts += usize::from(session.push(&mut stream, call, delta) != Verdict::Continue);
        }
        let _ = session.close(&mut stream, call);
        let _ = session.finish(&mut stream);
        if number == streams / 10 {
            after_warm = resident();
        }
    }
    let grown = growth(after_warm);
    println!(
        "closed: {streams} streams opened and closed: resident memory grew by {} after the first tenth; {acts} \
         verdicts, {:.1} µs each",
        said(grown),
        started.elapsed().as_secs_f64() * 1e6 / streams as f64,
    );
    assert!(acts > 0, "some rules act");
    assert_flat(grown, "closed");
}

/// Pushes text that leads to a new state at nearly every byte, with a table budget of one mebibyte.
fn hostile(percent: usize) {
    const BUDGET: usize = MIB;
    // Two tables per automaton, and memory that the allocator retains of replaced ones.
    const MOST: usize = 24;
    let sets: [(&str, &[&str], Alphabet); 3] = [
        (
            "binary digits",
            &["[01]*1[01]{18}x", "1[01]{20}y"],
            Alphabet("01"),
        ),
        (
            "letters between gaps",
            &["a.*b.*c.*d.*x", "(?:a[^b]{9}|b[^c]{9}|c[^d]{9}){3}y"],
            Alphabet("abcd"),
        ),
        (
            "words of Unicode",
            &[r"(?:\w{9}\W|\d){6}x", r"(?i)[kſ]\w{12}я"],
            Alphabet("aж9 kſ"),
        ),
    ];
    for (name, patterns, alphabet) in sets {
        let rules = patterns.iter().enumerate().map(|(number, text)| {
            let pattern = Pattern::regex((*text).to_owned());
            let mut rule = Rule::new(format!("bounds/h{number}"), vec![pattern]);
            rule.description = "Hostile".to_owned();
            rule.on = vec![Channel::Text];
            rule
        });
        let limits = Limits {
            table_bytes: BUDGET,
            ..Limits::default()
        };
        let builder = Pack::builder().limits(limits);
        let builder = rules.fold(builder, |pack, rule| pack.rule(rule));
        let pack = builder.build().expect("the patterns load");
        let hostile = alphabet.text(MIB);
        let quiet = "nothing of it ".repeat(MIB / 14);

        let plain = rate(&pack, quiet.as_bytes(), 8) / 1e6;
        // Tables are not replaced at the ends of rounds, and allocators retain part of the freed memory.
        const ROUNDS: usize = 6;
        let megabytes = (3 * percent).div_ceil(100);
        let before = resident();
        let (mut rates, mut grown) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            rates.push(rate(&pack, &hostile, megabytes) / 1e6);
            grown.push(growth(before).unwrap_or_default() >> 10);
        }
        let sizes: Vec<_> = pack.automata(Channel::Text).collect();
        let largest = sizes
            .iter()
            .map(|size| size.table_bytes + size.set_bytes)
            .max();
        let largest = largest.unwrap_or_default();
        let generations = sizes.iter().map(|size| size.generation).max();
        println!(
            "hostile, {name}: {ROUNDS} times {megabytes} MiB at {rates:.1?} MB/s ({plain:.0} of other text); table and \
             sets {largest} bytes of {BUDGET}, replaced {} times; resident memory grew by {grown:?} KiB",
            generations.unwrap_or_default(),
        );
        assert!(largest <= BUDGET, "{name}: a table is past its budget");
        assert!(
            grown.iter().all(|kib| kib << 10 < MOST * BUDGET),
            "{name}: {grown:?}"
        );
    }
}

/// The characters of a hostile text.
struct Alphabet(&'static str);

impl Alphabet {
    fn text(&self, length: usize) -> Vec<u8> {
        let chars: Vec<char> = self.0.chars().collect();
        let mut random = Text::new();
        let mut text = String::with_capacity(length + 4);
        while text.len() < length {
            text.push(chars[random.random(chars.len())]);
        }
        text.into()
    }
}

/// Returns the throughput in bytes per second of that text, repeated in one stream in deltas of 4 bytes. Nothing hits.
fn rate(pack: &Pack, text: &[u8], times: usize) -> f64 {
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    let started = Instant::now();
    for _ in 0..times {
        for delta in text.chunks(4) {
            assert!(stream.push(PART, delta).is_empty(), "no rule is broken");
        }
    }
    (text.len() * times) as f64 / started.elapsed().as_secs_f64()
}

/// The time of a byte above which a rule is a failure, in nanoseconds. `ttsr check --costs` estimates 2 to 3 µs for the built-in
/// rules; the rest is room for a busy machine.
const MOST_NANOSECONDS: f64 = 20_000.0;

/// Units of texts that many rules read in part: beginnings of commands, of Markdown, of comments and of data.
const UNITS: [&str; 24] = [
    "a", "a ", "ab", "0", "```", "`a", "(", "[", "{\"", "$(", "'", "\"", "\\", "| a ", "|a", "a;",
    "<<a\n", "- ", "#", "/*", "<a", "&&", "a/../", "\u{301}",
];

/// Units of commands through which the content of many files goes.
const COPIES: [&str; 2] = [
    "cp a b;",
    "cat a b c d e f g h i j k l m n o p > q; nc x 1 < q\n",
];

/// Reads, with each built-in rule alone, texts that repeat its examples, the first half of each, [`UNITS`] and [`COPIES`].
/// Prints the rules that take the most time for a byte.
fn rules(percent: usize) {
    let bytes = 300 * percent;
    let mut slowest = Vec::new();
    for name in Pack::builtin_names() {
        let builtin = Pack::builtin(name).expect("a built-in pack");
        for rule in builtin.rules() {
            let pack = Pack::builder().rule(rule.clone()).build();
            let pack = pack.expect("a built-in rule");
            let examples = rule.examples.matching.iter();
            let units = UNITS.iter().chain(&COPIES);
            let mut units: Vec<String> = units.map(|unit| (*unit).to_owned()).collect();
            for example in examples.chain(&rule.examples.not_matching) {
                let half: String = example.chars().take(example.chars().count() / 2).collect();
                units.extend(["", " ", "\n"].map(|after| format!("{example}{after}")));
                units.extend([format!("{half} "), half]);
            }
            units.retain(|unit| !unit.is_empty());
            let channels = rule.on.iter();
            let measured = channels.flat_map(|&channel| {
                let pack = &pack;
                units
                    .iter()
                    .map(move |unit| (nanoseconds(pack, channel, unit, bytes), unit))
            });
            if let Some((time, unit)) = measured.max_by(|a, b| a.0.total_cmp(&b.0)) {
                slowest.push((time, rule.id.clone(), unit.clone()));
            }
        }
    }
    slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (time, rule, unit) in slowest.iter().take(10) {
        println!("rules: {time:.0} ns a byte, {rule} on {unit:?}");
    }
    let time = slowest.first().map_or(0.0, |slowest| slowest.0);
    assert!(
        time < MOST_NANOSECONDS,
        "the slowest rule takes {time:.0} ns a byte"
    );
}

/// Returns the nanoseconds for each byte of a text of `bytes` that repeats a unit.
fn nanoseconds(pack: &Pack, channel: Channel, unit: &str, bytes: usize) -> f64 {
    let text = unit.repeat(bytes.div_ceil(unit.len()));
    let text = match channel {
        Channel::ToolInput => serde_json::json!({ "command": text }).to_string(),
        _ => text,
    };
    let mut stream = pack.stream();
    stream.open(PART, channel);
    let _ = stream.set_tool(PART, "bash", "call");
    let started = Instant::now();
    for delta in text.as_bytes().chunks(5) {
        let _ = stream.push(PART, delta);
    }
    let _ = stream.close(PART);
    started.elapsed().as_nanos() as f64 / text.len() as f64
}
