//! Instruction counts of fixed cases: a gate that is immune to noise.
//!
//! `cargo bench --all-features --bench instructions [-- --update|--growth]`
//!
//! Reveals: whether a change makes a delta, a load or the loop more expensive, also on a busy machine. Each case runs in
//! a child process under valgrind's callgrind, which counts the instructions of one warm pass without its set-up, and is
//! compared with `counts.toml`. An increase of more than 3 % fails.
//!
//! The counts approximate the work of a user's processor. Valgrind has no AVX-512, so the code paths selected at run
//! time are those of a processor without it. Instructions are not nanoseconds: a cache miss is not counted. Another
//! compiler generates other code, so counts are only compared if compiler and processor are those of the file;
//! elsewhere the table is printed without a verdict.
//!
//! With `--growth`, checks that work does not grow faster than the text: for the hostile pairs in `growth`, twice the
//! text may cost 2.1 times the instructions. That comparison is made on every machine.
//!
//! Data: generated patterns and text, and for the packs that ship the recording of `ttsr bench`: the same on every machine;
//! the corpus is not used. Hits are planted and asserted.
//! With `--test` every case runs once, without valgrind.

#[path = "../../crates/cli/src/bench/callgrind.rs"]
mod callgrind;
mod cases;
#[path = "../common/mod.rs"]
mod common;
mod gate;
mod growth;
#[path = "../../crates/cli/src/bench/host.rs"]
mod host;
#[path = "../common/recordings.rs"]
mod recordings;

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
