//! Runs the cases under callgrind and compares the counts with the committed file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde::Deserialize;

use crate::callgrind::{self, Counted, has_valgrind};
use crate::cases;
use crate::growth::{self, PAIRS};

/// Relative increase over the committed count that fails.
const BAND: f64 = 0.03;

/// The committed file.
#[derive(Debug, Default, Deserialize)]
struct Counts {
    /// The output of `rustc --version`.
    rustc: String,
    /// The processor features that select between code paths.
    processor: String,
    /// Instructions of a whole pass, by case.
    instructions: BTreeMap<String, u64>,
}

/// Prints the table. Fails if a case exceeds its committed count or has none.
pub(crate) fn check() -> ExitCode {
    if !has_valgrind() {
        println!(
            "instructions: valgrind is not installed, so nothing is counted and nothing is checked"
        );
        return ExitCode::SUCCESS;
    }
    let known = read();
    let here = environment();
    let is_same = known.rustc == here.rustc && known.processor == here.processor;
    println!("{} on {}", here.rustc, here.processor);
    if !is_same {
        println!(
            "note: the counts were taken with {} on {}, so they are printed and not compared",
            known.rustc, known.processor
        );
    }
    println!("| case | instructions | a piece | of the file | |\n|---|---|---|---|---|");
    let mut failed = 0;
    for &name in cases::NAMES {
        let counted = count(&["--case", name]);
        let of_file = known
            .instructions
            .get(name)
            .map(|&before| counted.instructions as f64 / before as f64);
        let verdict = verdict(of_file);
        failed += usize::from(verdict.is_failure && is_same);
        println!(
            "| {name} | {} | {:.1} | {} | {} |",
            counted.instructions,
            counted.instructions as f64 / counted.pieces as f64,
            of_file.map_or("none".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0)),
            verdict.words,
        );
    }
    if failed == 0 {
        return ExitCode::SUCCESS;
    }
    println!(
        "{failed} cases failed. Where that is meant: cargo bench --all-features --bench instructions -- --update"
    );
    ExitCode::FAILURE
}

/// Prints the cost of twice the text for every hostile pair. Fails if it is too high.
pub(crate) fn check_growth() -> ExitCode {
    if !has_valgrind() {
        println!("growth: valgrind is not installed, so nothing is counted and nothing is checked");
        return ExitCode::SUCCESS;
    }
    println!("| hostile pair | instructions a byte | twice the text | |\n|---|---|---|---|");
    let mut failed = 0;
    for pair in PAIRS {
        let once = count(&["--pair", pair.name]);
        let twice = count(&["--pair", pair.name, "--twice"]);
        let ratio = twice.instructions as f64 / once.instructions as f64;
        let per_byte = twice.instructions as f64 / twice.pieces as f64;
        let verdict = match (ratio > growth::MAX_RATIO, per_byte > growth::MAX_PER_BYTE) {
            (true, _) => "GROWS",
            (false, true) => "SLOW",
            (false, false) => "",
        };
        failed += usize::from(!verdict.is_empty());
        println!(
            "| {} | {per_byte:.0} | {ratio:.3} times | {verdict} |",
            pair.name
        );
    }
    println!(
        "{} pairs, of which {failed} grow faster than their text or take more than {} instructions a byte",
        PAIRS.len(),
        growth::MAX_PER_BYTE
    );
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Counts all cases and writes the file.
pub(crate) fn update() -> ExitCode {
    if !has_valgrind() {
        println!("instructions: valgrind is not installed");
        return ExitCode::FAILURE;
    }
    let mut counts = environment();
    for &name in cases::NAMES {
        let counted = count(&["--case", name]);
        println!("{name}: {}", counted.instructions);
        counts
            .instructions
            .insert(name.to_owned(), counted.instructions);
    }
    let text = format!(
        "# Instructions of each case, under callgrind. Written by:\n\
         #     cargo bench --all-features --bench instructions -- --update\n\n{}",
        toml_of(&counts)
    );
    std::fs::write(file(), text).expect("the file can be written");
    println!("written to {}", file().display());
    ExitCode::SUCCESS
}

struct Verdict {
    words: &'static str,
    is_failure: bool,
}

fn verdict(of_file: Option<f64>) -> Verdict {
    let (words, is_failure) = match of_file {
        None => ("not in the file: update it", true),
        Some(ratio) if ratio > 1.0 + BAND => ("DEARER", true),
        // A decrease is not a failure, but an outdated file would hide the next increase.
        Some(ratio) if ratio < 1.0 - BAND => ("cheaper: update the file", false),
        Some(_) => ("", false),
    };
    Verdict { words, is_failure }
}

/// Counts a pass of this program in a child process with these arguments.
fn count(arguments: &[&str]) -> Counted {
    // Without fastbins, glibc never merges the free chunks of the set-up while the pass is counted.
    let environment = [("GLIBC_TUNABLES", "glibc.malloc.mxfast=0")];
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    callgrind::count(Some("*measured_pass*"), &arguments, &environment)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn environment() -> Counts {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    Counts {
        rustc: version.unwrap_or_else(|_| "an unknown compiler".to_owned()),
        processor: processor().to_owned(),
        instructions: BTreeMap::new(),
    }
}

/// Returns the features: valgrind supports AVX2 if the machine has it, and never AVX-512.
#[cfg(target_arch = "x86_64")]
fn processor() -> &'static str {
    match std::arch::is_x86_feature_detected!("avx2") {
        true => "x86_64 with AVX2",
        false => "x86_64 without AVX2",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn processor() -> &'static str {
    std::env::consts::ARCH
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions/counts.toml")
}

fn read() -> Counts {
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    match text.is_empty() {
        true => Counts::default(),
        false => toml::from_str(&text).expect("counts.toml is as `--update` writes it"),
    }
}

/// Writes the file by hand: the `toml` dependency is built without serialization.
fn toml_of(counts: &Counts) -> String {
    let line = |(name, count): (&String, &u64)| format!("{name:?} = {count}\n");
    format!(
        "rustc = {:?}\nprocessor = {:?}\n\n[instructions]\n{}",
        counts.rustc,
        counts.processor,
        counts.instructions.iter().map(line).collect::<String>(),
    )
}
