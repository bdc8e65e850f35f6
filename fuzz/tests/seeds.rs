//! Runs every target on its seeds, on its regressions, and on seeds that proptest mutates at random and minimizes. Runs
//! on the stable toolchain without a fuzzer.
//!
//! `FUZZ_CASES` sets the number of mutated seeds per target (default 2,000).

use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ttsr_fuzz::targets::ALL;

/// Maximum input length in bytes.
const LONGEST: usize = 2048;

fn inputs(folder: &str, target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join(target);
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    files.sort();
    let read = |file: &PathBuf| fs::read(file).expect("it can be read");
    files.iter().map(read).collect()
}

#[test]
fn seeds_and_regressions_pass() {
    let mut ran = 0;
    for (name, run) in ALL {
        let seeds = inputs("seeds", name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (number, input) in seeds.iter().chain(&inputs("regressions", name)).enumerate() {
            println!("{name}, input {number}");
            run(input);
            ran += 1;
        }
    }
    println!("{ran} inputs of {} targets", ALL.len());
}

/// A mutation of an input: its kind, place and byte.
#[derive(Clone, Debug)]
enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index, u8),
    /// Copies some bytes from one place to another.
    Copy(prop::sample::Index, prop::sample::Index, u8),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (place(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        (place(), 1..9u8).prop_map(|(at, count)| Change::Remove(at, count)),
        (place(), place(), 1..40u8).prop_map(|(from, to, count)| Change::Copy(from, to, count)),
    ]
}

fn changed(seed: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut input = seed.to_vec();
    for change in changes {
        let len = input.len();
        let until = |at: usize, count: u8| len.min(at + usize::from(count));
        match change {
            Change::Set(at, byte) if len > 0 => input[at.index(len)] = *byte,
            Change::Remove(at, count) if len > 0 => {
                let at = at.index(len);
                input.drain(at..until(at, *count));
            }
            Change::Copy(from, to, count) if len > 0 => {
                let from = from.index(len);
                let bytes = input[from..until(from, *count)].to_vec();
                let to = to.index(len + 1);
                input.splice(to..to, bytes);
            }
            Change::Insert(at, byte) => input.insert(at.index(len + 1), *byte),
            Change::Set(..) | Change::Remove(..) | Change::Copy(..) => {}
        }
    }
    input.truncate(LONGEST);
    input
}

#[test]
fn changed_seeds_pass() {
    let cases = std::env::var("FUZZ_CASES").ok();
    let cases = cases.and_then(|text| text.parse().ok()).unwrap_or(2000);
    for (name, run) in ALL {
        let seeds = inputs("seeds", name);
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        let strategy = (any::<prop::sample::Index>(), vec(change(), 1..8));
        let found = TestRunner::new(config).run(&strategy, |(seed, changes)| {
            let seed: &Vec<u8> = seed.get(&seeds);
            run(&changed(seed, &changes));
            Ok(())
        });
        if let Err(error) = found {
            panic!("{name}: {error}");
        }
    }
    println!("{cases} changed seeds of each of {} targets", ALL.len());
}
