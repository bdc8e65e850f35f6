//! How many instructions fixed cases take: a gate that noise cannot fool.
//!
//! `cargo bench --all-features --bench instructions [-- --update|--growth]`
//!
//! Reveals: whether a change makes a delta, a load or the loop dearer, on a machine that is busy too. Each
//! case runs in a process of its own under valgrind's callgrind, which counts the instructions of one pass,
//! warm and without its setup, and is compared with `counts.toml`. More than 3 % over it fails.
//!
//! What is counted is not what a user's processor runs, but near: valgrind knows no AVX-512, so the paths
//! that are chosen at run time are those of a processor without it. And instructions are no nanoseconds:
//! a cache miss counts nothing. Another compiler makes other code, so counts are compared only where compiler
//! and processor are those of the file; elsewhere the table is printed without a verdict.
//!
//! And whether work grows faster than the text: of `growth`'s hostile pairs, twice the text may cost 2.1 times the
//! instructions. That is a matter of this machine alone, and is asserted everywhere.
//!
//! Data: patterns and text made here, the same everywhere; the corpus is not used. Hits are planted, and
//! asserted. With `--test` every case runs once, without valgrind.

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod gate;
mod growth;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let after = |name: &str| {
        let mut rest = arguments.iter().skip_while(|argument| *argument != name);
        rest.nth(1)
    };
    if let Some(name) = after("--case") {
        cases::run(name);
        ExitCode::SUCCESS
    } else if let Some(name) = after("--pair") {
        growth::run(name, if has("--twice") { 2 } else { 1 });
        ExitCode::SUCCESS
    } else if has("--growth") {
        gate::check_growth()
    } else if has("--test") || !has("--bench") {
        cases::NAMES.iter().for_each(|name| cases::run(name));
        for pair in growth::PAIRS {
            growth::run(pair.name, 1);
        }
        ExitCode::SUCCESS
    } else if has("--update") {
        gate::update()
    } else {
        let growth = gate::check_growth();
        let counts = gate::check();
        if growth == ExitCode::SUCCESS {
            counts
        } else {
            growth
        }
    }
}
