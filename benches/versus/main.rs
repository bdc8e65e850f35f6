//! Compares the crate with all alternatives in one run.
//!
//! `TTSR_CORPUS=… cargo bench --all-features --bench versus [-- [SETS] [--out DIR] [--quick]]`, with sets of
//! `1,10,100,gitleaks,1000,5000,literals`.
//!
//! Reveals: the cost of a delta by number of rules, chunk size and number of streams; the comparison with Vectorscan and
//! Hyperscan in streaming mode, with engines that can be stepped, and with hosts that search the reply again; and which
//! targets of this crate are met.
//!
//! Needs `libhs.so.5` (Debian: `libvectorscan-dev`). `TTSR_LIBHS` names more builds of it, such as Hyperscan's, as paths
//! separated by colons. Without a library a note is printed and the targets count as not met.
//!
//! Data: the corpus' streams and transcripts, and 10 MB of distinct source files of this machine. Bytes that are not
//! ASCII are replaced by `?`, because the fastest mode of the other engines only supports bytes. The deltas have the
//! measured sizes of OpenAI's text streams. The text ends with matches of every 40th rule. All engines must find the
//! same first ends before a time is printed. `--test` checks only that, on 64 KB and few rules.

#![allow(missing_docs)] // a bench has no public items worth documenting

mod alone;
mod baselines;
mod chart;
#[path = "../common/mod.rs"]
mod common;
mod duel;
mod hyperscan;
mod ours;
mod report;
mod sets;
mod targets;

use std::path::{Path, PathBuf};

use common::text::{Text, corpus};
use duel::{Case, Duel, Engine};
use hyperscan::Library;
use ours::Ours;
use report::{Figure, Report};
use sets::Set;

/// Number of streams of the interleaved case.
const STREAMS: usize = 4096;

/// Bytes for stepped engines that build large states slowly.
const SLICE: usize = 64 << 10;

/// Bytes of a reply that is searched again at each delta, which is quadratic.
const REPLY: usize = 4 << 10;

/// The parsed arguments.
struct Wanted {
    sets: Option<String>,
    out: PathBuf,
    /// Number of rounds, in each of which all engines run in turn; medians count.
    rounds: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let libraries = Library::all();
    if arguments.iter().any(|argument| argument == "--test") {
        return test(&libraries);
    }
    let Some(corpus) = corpus() else {
        println!("skipped: TTSR_CORPUS is not set");
        return;
    };
    let wanted = wanted(&arguments);
    if libraries.is_empty() {
        println!(
            "libhs.so.5 is not installed (Debian: libvectorscan-dev): every target against it counts as unmet"
        );
    }
    let text = Text::new(&corpus);
    let mut report = Report::new(&text, &libraries, wanted.rounds);
    println!("{}", report.environment);
    println!(
        "| rules | case | engine | a delta | bulk | of ttsr's time |\n|---|---|---|---|---|---|"
    );
    for set in sets::all(&corpus) {
        if wanted
            .sets
            .as_ref()
            .is_none_or(|list| list.split(',').any(|name| name == set.name))
        {
            compare(set, &text, &libraries, wanted.rounds, &mut report);
        }
    }
    alone::measure(&text, wanted.rounds, &mut report);
    println!("\n| figure | value |\n|---|---|");
    report
        .figures
        .iter()
        .for_each(|figure| println!("{figure}"));
    report.rate_targets();
    println!("\n| | what | target | found | |\n|---|---|---|---|---|");
    report
        .targets
        .iter()
        .for_each(|target| println!("{target}"));
    let (met, all) = (
        report.targets.iter().filter(|target| target.met).count(),
        report.targets.len(),
    );
    println!("\n{met} of {all} met; S7, the hard real sets, has a bench of its own: `hard`");
    write(&report, &wanted.out);
}

fn wanted(arguments: &[String]) -> Wanted {
    let mut wanted = Wanted {
        sets: None,
        out: Path::new(env!("CARGO_MANIFEST_DIR")).join("target/versus"),
        rounds: 7,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--out" => wanted.out = arguments.next().expect("--out names a folder").into(),
            "--quick" => wanted.rounds = 3,
            option if option.starts_with('-') => {}
            sets => wanted.sets = Some(sets.to_owned()),
        }
    }
    wanted
}

fn write(report: &Report, folder: &Path) {
    let json = serde_json::to_string_pretty(report).expect("numbers and texts serialise");
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("versus.json"), json + "\n"))
        .and_then(|()| std::fs::write(folder.join("versus.svg"), chart::svg(report)));
    match written {
        Ok(()) => println!("versus.json and versus.svg are in {}", folder.display()),
        Err(error) => println!("cannot write to {}: {error}", folder.display()),
    }
}

/// Checks that all engines agree on one set of rules, then times them.
fn compare(set: Set, text: &Text, libraries: &[Library], rounds: usize, report: &mut Report) {
    let set = set.accepted(libraries);
    let mut ours = Ours::load(&set);
    let compiled: Vec<_> = libraries
        .iter()
        .flat_map(|library| library.compile_all(&set.patterns))
        .collect();
    for database in &compiled {
        let name = format!(
            "{} rules, compile time of {} / load",
            set.name,
            database.name()
        );
        report.figures.push(Figure::new(
            name,
            database.compiled_in / ours.loaded_in,
            "×",
        ));
    }
    report.figures.push(Figure::new(
        format!("{} rules, load", set.name),
        ours.loaded_in * 1e3,
        "ms",
    ));
    let mut native: Vec<Box<dyn Engine + '_>> =
        vec![Box::new(baselines::Floor), Box::new(baselines::EmptyCall)];
    native.extend(
        compiled
            .into_iter()
            .map(|database| Box::new(database) as Box<dyn Engine>),
    );
    agree(&set, &mut ours, &mut native, text);

    let slice = text.truncated(SLICE);
    let mut stepped = baselines::stepped(&set);
    agree(&set, &mut ours, &mut stepped, &slice);
    let reply = text.truncated(REPLY);
    let mut searching = baselines::searching(&set);
    agree(&set, &mut ours, &mut searching, &reply);

    let chunks = |size| Text {
        bytes: text.bytes.clone(),
        deltas: text.fixed(size),
    };
    let (bytes, deltas) = text.interleave(&text.deltas, STREAMS);
    let turns = Text { bytes, deltas };
    let cases = [
        (Case::new("delta", 1), text.clone()),
        (Case::new("4096 streams", STREAMS), turns),
        (Case::new("64 B", 1), chunks(64)),
        (Case::new("1 KB", 1), chunks(1 << 10)),
        (Case::new("64 KB", 1), chunks(64 << 10)),
    ];
    for (case, text) in &cases {
        duel(&set, case, text, &mut ours, &mut native, rounds, report);
    }
    duel(
        &set,
        &Case::new("delta, 64 KB of text", 1),
        &slice,
        &mut ours,
        &mut stepped,
        rounds,
        report,
    );
    duel(
        &set,
        &Case::new("delta, 4 KB of text", 1),
        &reply,
        &mut ours,
        &mut searching,
        rounds.min(3),
        report,
    );
    report.figures.extend(ours.sizes(&set.name));
    for engine in &native {
        if let Some(bytes) = engine.stream_bytes() {
            let name = format!("{} rules, a stream of {}", set.name, engine.name());
            report.figures.push(Figure::new(name, bytes as f64, "B"));
        }
    }
}

fn duel(
    set: &Set,
    case: &Case,
    text: &Text,
    ours: &mut Ours,
    others: &mut [Box<dyn Engine + '_>],
    rounds: usize,
    report: &mut Report,
) {
    let rows = Duel {
        set: &set.name,
        case,
        text,
        rounds,
    }
    .fight(ours, others);
    rows.iter().for_each(|row| println!("{row}"));
    report.rows.extend(rows);
}

/// Checks that every engine finds the same matches, in the text and in its ending.
fn agree(set: &Set, ours: &mut Ours, others: &mut [Box<dyn Engine + '_>], text: &Text) {
    let text = set.with_ending(text);
    let expected = ours.firsts(&text).expect("we tell first ends");
    let found = expected.iter().flatten().count();
    assert!(found > 0, "{}: the ending breaks no rule", set.name);
    for engine in others {
        if let Some(firsts) = engine.firsts(&text) {
            assert_eq!(
                firsts,
                expected,
                "{} rules: first ends of {}",
                set.name,
                engine.name()
            );
        }
        if let Some(broken) = engine.broken(&text) {
            let expected: Vec<bool> = expected.iter().map(Option::is_some).collect();
            assert_eq!(
                broken,
                expected,
                "{} rules: what {} finds",
                set.name,
                engine.name()
            );
        }
    }
}

/// Checks the agreement of all engines on a short text.
fn test(libraries: &[Library]) {
    let text = Text::of_length(SLICE);
    for count in [1, 10, 100] {
        let set = Set::pool(count).accepted(libraries);
        let mut ours = Ours::load(&set);
        let databases = libraries
            .iter()
            .flat_map(|library| library.compile_all(&set.patterns));
        let mut engines: Vec<Box<dyn Engine + '_>> = databases
            .map(|database| Box::new(database) as Box<dyn Engine>)
            .collect();
        engines.extend(baselines::stepped(&set));
        agree(&set, &mut ours, &mut engines, &text);
        agree(
            &set,
            &mut ours,
            &mut baselines::searching(&set),
            &text.truncated(REPLY),
        );
        println!(
            "versus: {} engines agree on {count} rules",
            engines.len() + 1
        );
    }
}
