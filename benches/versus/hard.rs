//! Rule sets that multiply states: four real ones with thousands of wide gaps (`A.*B`, `A[^x]{1,200}B`).
//!
//! `TTSR_CORPUS=… cargo bench --bench hard [-- uap-core,recog]`
//!
//! Reveals: whether the text visits few states, the cost of a delta, the time of planning, and the difference between
//! cold and warm. Vectorscan is timed beside it if `libhs.so.5` is installed, on the patterns that both accept; the
//! first ends of both are compared before a time is printed.
//!
//! Data: as in `versus`: the corpus' replies and 10 MB of source files, ASCII, in deltas of measured sizes.

#![allow(missing_docs)] // a bench has no public items worth documenting

// Shared with `versus`, which uses all of it.
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
mod duel;
#[allow(dead_code)]
mod hyperscan;
#[allow(dead_code)]
mod ours;
#[allow(dead_code)]
mod report;
#[allow(dead_code)]
mod sets;
#[allow(dead_code)]
mod targets;

use std::path::{Path, PathBuf};
use std::time::Instant;

use common::text::Text;
use duel::Engine;
use hyperscan::Library;
use ttsr::pack::AutomatonSize;
use ttsr::{Channel, Pack, PartId, Pattern, Rule, Stream};

const SETS: [&str; 4] = ["uap-core", "recog", "kingfisher", "crs"];

/// Bytes of the cold case.
const FIRST: usize = 1 << 20;

/// Number of rounds; the minimum counts.
const ROUNDS: usize = 3;

/// Maximum time of a pass of the other engine, in seconds, before it is left out.
const PATIENCE: f64 = 60.0;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        println!("hard: nothing to test; run it without --test");
        return;
    }
    let Some(corpus) = std::env::var_os("TTSR_CORPUS").map(PathBuf::from) else {
        println!("skipped: TTSR_CORPUS is not set");
        return;
    };
    let library = Library::all().into_iter().next();
    if library.is_none() {
        println!("libhs.so.5 is not installed (Debian: libvectorscan-dev): our figures alone");
    }
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let text = Text::new(&corpus);
    println!(
        "{} bytes in {} deltas",
        text.bytes.len(),
        text.deltas.len() - 1
    );
    println!(
        "| set | patterns | hit | automata | cuts | states | table MB | sets MB | load ms | 1st MB cold / warm | ns a delta | VS ns | VS / ttsr |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for set in SETS {
        let is_wanted = |list: &String| list.split(',').any(|name| name == set);
        if wanted.as_ref().is_none_or(is_wanted) {
            measure(set, &corpus, &text, library.as_ref());
        }
    }
}

fn measure(set: &str, corpus: &Path, text: &Text, library: Option<&Library>) {
    let patterns = loadable(&corpus.join("rules").join(format!("{set}.jsonl")));
    let started = Instant::now();
    let pack = pack(&patterns);
    let load = started.elapsed().as_secs_f64();
    let first: Vec<u32> = text.truncated(FIRST).deltas;
    let cold = time(&pack, text, &first);
    let warm = time(&pack, text, &first);
    let firsts = firsts(&pack, text);
    let mut least = f64::MAX;
    for _ in 0..ROUNDS {
        least = least.min(time(&pack, text, &text.deltas));
    }
    let sizes: Vec<AutomatonSize> = pack.automata(Channel::Text).collect();
    let sum = |of: fn(&AutomatonSize) -> usize| sizes.iter().map(of).sum::<usize>();
    let nanos = |seconds: f64| seconds * 1e9 / (text.deltas.len() - 1) as f64;
    let theirs = library.and_then(|library| versus(library, &patterns, &firsts, text));
    let ratio = |them: f64| format!("{:.0} | {:.1}", nanos(them), them / least);
    println!(
        "| {set} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {:.0} | {:.1} | {:.1} | {} |",
        patterns.len(),
        firsts.iter().flatten().count(),
        sizes.len(),
        sum(|size| size.cuts),
        sum(|size| size.states),
        sum(|size| size.table_bytes) as f64 / 1e6,
        sum(|size| size.set_bytes) as f64 / 1e6,
        load * 1e3,
        cold / warm,
        nanos(least),
        theirs.map_or("none | none".to_owned(), ratio),
    );
}

/// Returns the time of the other engine on the patterns it accepts, if its first ends are equal.
fn versus(
    library: &Library,
    patterns: &[String],
    ours: &[Option<u64>],
    text: &Text,
) -> Option<f64> {
    let accepted = library.accepted(patterns.to_vec());
    let [_, mut database] = library.compile_all(&accepted);
    let probe = database.seconds(&text.truncated(FIRST), 1);
    if probe * text.bytes.len() as f64 / FIRST as f64 > PATIENCE {
        println!(
            "the other engine takes {:.1} s for the first MB of this set",
            probe
        );
        return None;
    }
    let theirs = database.firsts(text).expect("it knows ends");
    let mut differ = 0;
    for (pattern, their) in accepted.iter().zip(&theirs) {
        let index = patterns.iter().position(|known| known == pattern);
        differ += usize::from(ours[index.expect("it is one of ours")] != *their);
    }
    // Without UTF-8 mode the other engine has no Unicode classes, which rarely matters on ASCII.
    if differ > 0 {
        println!("{differ} of {} first ends differ", accepted.len());
    }
    Some(database.seconds(text, 1))
}

/// Returns the patterns of a set that load.
fn loadable(file: &Path) -> Vec<String> {
    let lines = std::fs::read_to_string(file).expect("a rule set");
    let patterns = lines.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a JSON object a line");
        value["pattern"].as_str().unwrap_or_default().to_owned()
    });
    let loads = |text: &String| Pack::builder().rule(rule(0, text)).build().is_ok();
    patterns.filter(loads).collect()
}

fn rule(number: usize, text: &str) -> Rule {
    let pattern = Pattern::regex(text);
    let mut rule = Rule::new(format!("hard/p{number:05}"), vec![pattern]);
    rule.description = "A pattern of the set".to_owned();
    rule.on = vec![Channel::Text];
    rule
}

fn pack(patterns: &[String]) -> Pack {
    let rules = patterns.iter().enumerate();
    let builder = rules.fold(Pack::builder(), |pack, (number, text)| {
        pack.rule(rule(number, text))
    });
    builder.build().expect("rules that load one by one")
}

fn open(pack: &Pack) -> Stream {
    let mut stream = pack.stream();
    stream.open(PartId(0), Channel::Text);
    stream
}

fn time(pack: &Pack, text: &Text, cuts: &[u32]) -> f64 {
    let mut stream = open(pack);
    let mut hits = 0;
    let started = Instant::now();
    for cut in cuts.windows(2) {
        let delta = &text.bytes[cut[0] as usize..cut[1] as usize];
        hits += stream.push(PartId(0), delta).len();
    }
    let seconds = started.elapsed().as_secs_f64();
    std::hint::black_box(hits);
    seconds
}

/// Returns the first end of each pattern.
fn firsts(pack: &Pack, text: &Text) -> Vec<Option<u64>> {
    let mut firsts = vec![None; pack.rules().len()];
    let mut stream = open(pack);
    for delta in text.deltas() {
        for hit in stream.push(PartId(0), delta) {
            firsts[hit.rule.index()] = Some(hit.end);
        }
    }
    for hit in stream.close(PartId(0)) {
        firsts[hit.rule.index()] = Some(hit.end);
    }
    firsts
}
