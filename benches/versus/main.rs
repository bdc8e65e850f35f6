//! The crate against Vectorscan (or Hyperscan) in streaming mode, in one run.
//!
//! `TTSR_CORPUS=… cargo bench --bench versus [-- 1,10,100,gitleaks,1000,5000]`
//!
//! Reveals: what a delta costs, by number of rules, chunk size and number of streams, and how that
//! compares with the C++ engine on its own ground. Needs `libhs.so.5` (Debian: `libvectorscan-dev`); says
//! so where it is not installed, and prints our own figures alone.
//!
//! Data: the corpus streams and transcripts, and 10 MB of distinct sources from cargo's registry. Bytes
//! that are not ASCII are replaced by `?`, since the other engine's fastest mode knows only bytes; the
//! deltas have the sizes that OpenAI's text streams were measured to have. Both engines must find the
//! same first ends before a time is printed.

#![allow(missing_docs)] // a bench has no public items worth documenting

mod hyperscan;
#[path = "../common/text.rs"]
mod text;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hyperscan::{Library, SINGLE_MATCH};
use ttsr::{Channel, Pack, PartId, Pattern, Rule, Stream};

/// Streams of the interleaved case.
const STREAMS: usize = 4096;

/// Times each case is measured, all engines in turn; the least counts.
const ROUNDS: usize = 5;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        println!("versus: nothing to test; run it without --test");
        return;
    }
    let Some(corpus) = std::env::var_os("TTSR_CORPUS").map(PathBuf::from) else {
        println!("skipped: TTSR_CORPUS is not set");
        return;
    };
    let library = Library::load();
    if library.is_none() {
        println!("libhs.so.5 is not installed (Debian: libvectorscan-dev): our figures alone");
    }
    let wanted: Option<String> = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let is_wanted = |name: &str| {
        wanted
            .as_ref()
            .is_none_or(|list| list.split(',').any(|n| n == name))
    };
    let text = text::Text::new(&corpus);
    println!(
        "{} bytes in {} deltas",
        text.bytes.len(),
        text.deltas.len() - 1
    );
    println!("| rules | case | floor | ttsr | VS | VS / ttsr |");
    println!("|---|---|---|---|---|---|");
    for (name, patterns) in sets(&corpus) {
        if is_wanted(&name) {
            compare(&name, patterns, &text, library.as_ref());
        }
    }
}

fn sets(corpus: &Path) -> Vec<(String, Vec<String>)> {
    let read =
        |name: &str| std::fs::read_to_string(corpus.join("rules").join(name)).expect("a rule set");
    let pool: Vec<String> = read("pool-7000.txt").lines().map(str::to_owned).collect();
    let gitleaks = read("gitleaks.jsonl");
    let gitleaks = gitleaks.lines().filter_map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(value["pattern"].as_str()?.to_owned())
    });
    let mut sets = vec![("1".to_owned(), vec!["AKIA[0-9A-Z]{16}".to_owned()])];
    for count in [10, 100] {
        sets.push((count.to_string(), pool[..count].to_vec()));
    }
    sets.push(("gitleaks".to_owned(), gitleaks.collect()));
    for count in [1000, 5000] {
        sets.push((count.to_string(), pool[..count].to_vec()));
    }
    sets
}

fn pack(patterns: &[String]) -> Pack {
    let rules = patterns.iter().enumerate().map(|(number, text)| {
        let pattern = Pattern::regex(text.clone());
        let mut rule = Rule::new(format!("versus/p{number:05}"), vec![pattern]);
        rule.description = "A pattern".to_owned();
        rule.on = vec![Channel::Text];
        rule
    });
    rules
        .fold(Pack::builder(), |pack, rule| pack.rule(rule))
        .build()
        .expect("the patterns load")
}

fn compare(name: &str, mut patterns: Vec<String>, text: &text::Text, library: Option<&Library>) {
    let mut databases = Vec::new();
    let mut compile = f64::NAN;
    if let Some(library) = library {
        patterns = library.accepted(patterns);
        let started = Instant::now();
        databases.push(library.compile(&patterns, 0));
        compile = started.elapsed().as_secs_f64();
        databases.push(library.compile(&patterns, SINGLE_MATCH));
    }
    let started = Instant::now();
    let pack = pack(&patterns);
    let load = started.elapsed().as_secs_f64();
    let firsts = ours(&pack, text);
    for database in &databases {
        assert_eq!(
            database.firsts(&text.bytes, &text.deltas, patterns.len()),
            firsts,
            "first ends differ"
        );
    }
    let cases: [(&str, Vec<u32>, usize); 5] = [
        ("delta", text.deltas.clone(), 1),
        ("delta, 4096 streams", text.deltas.clone(), STREAMS),
        ("64 B", text.fixed(64), 1),
        ("1 KB", text.fixed(1 << 10), 1),
        ("64 KB", text.fixed(64 << 10), 1),
    ];
    for (case, cuts, streams) in cases {
        let (bytes, cuts) = text.interleave(&cuts, streams);
        let (mut floor, mut us, mut them) = (f64::MAX, f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            floor = floor.min(time_floor(&bytes, &cuts));
            us = us.min(time_ours(&pack, &bytes, &cuts, streams));
            for database in &databases {
                them = them.min(database.time(&bytes, &cuts, streams));
            }
        }
        let per_delta = |seconds: f64| seconds * 1e9 / (cuts.len() - 1) as f64;
        let show = |seconds: f64| match case {
            _ if seconds == f64::MAX => "none".to_owned(),
            "delta" | "delta, 4096 streams" => format!("{:.1} ns", per_delta(seconds)),
            _ => format!("{:.3} GB/s", bytes.len() as f64 / seconds / 1e9),
        };
        let ratio = if them == f64::MAX {
            "none".to_owned()
        } else {
            format!("{:.2}", them / us)
        };
        println!(
            "| {name} | {case} | {} | {} | {} | {ratio} |",
            show(floor),
            show(us),
            show(them)
        );
    }
    let size = pack
        .automata(Channel::Text)
        .next()
        .expect("a rule reads text");
    println!(
        "| {name} | load | | {:.1} ms | {:.1} ms | {:.1} |",
        load * 1e3,
        compile * 1e3,
        compile / load
    );
    println!(
        "| {name} | memory | | {} rules hit, {} states, {} columns, table {:.1} MB + sets {:.1} MB, {} B a stream | {} B a stream | |",
        firsts.iter().flatten().count(),
        size.states,
        size.columns,
        size.table_bytes as f64 / 1e6,
        size.set_bytes as f64 / 1e6,
        Stream::STATE_BYTES,
        databases
            .first()
            .map_or(0, hyperscan::Database::stream_bytes)
    );
}

/// The first end of each pattern.
fn ours(pack: &Pack, text: &text::Text) -> Vec<Option<u64>> {
    let mut firsts = vec![None; pack.rules().len()];
    let mut stream = open(pack);
    for cut in text.deltas.windows(2) {
        for hit in stream.push(PartId(0), &text.bytes[cut[0] as usize..cut[1] as usize]) {
            firsts[hit.rule.index()] = Some(hit.end);
        }
    }
    for hit in stream.close(PartId(0)) {
        firsts[hit.rule.index()] = Some(hit.end);
    }
    firsts
}

fn open(pack: &Pack) -> Stream {
    let mut stream = pack.stream();
    stream.open(PartId(0), Channel::Text);
    stream
}

fn time_ours(pack: &Pack, bytes: &[u8], cuts: &[u32], streams: usize) -> f64 {
    let mut open: Vec<Stream> = (0..streams).map(|_| open(pack)).collect();
    let mut next = 0;
    let started = Instant::now();
    let mut hits = 0;
    for cut in cuts.windows(2) {
        hits += open[next]
            .push(PartId(0), &bytes[cut[0] as usize..cut[1] as usize])
            .len();
        next = if next + 1 == streams { 0 } else { next + 1 };
    }
    black_box(hits);
    started.elapsed().as_secs_f64()
}

/// What merely looking at each byte of each delta costs.
fn time_floor(bytes: &[u8], cuts: &[u32]) -> f64 {
    let started = Instant::now();
    let mut sum = 0u64;
    for cut in cuts.windows(2) {
        let delta = black_box(&bytes[cut[0] as usize..cut[1] as usize]);
        sum += delta.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    black_box(sum);
    started.elapsed().as_secs_f64()
}
