//! The instructions of each row, counted by callgrind: other work of the machine does not change them.
//!
//! A child process runs a row once to build the states, and then one pass or three. The difference of their counts is two
//! passes without what only the first of them does. Valgrind has no AVX-512, so the counts are those of a processor without it.

use std::process::Command;

use crate::rows::{Row, pieces, rows};

/// Prints the instructions of the rows whose names contain `filter`.
pub(crate) fn print(filter: &str) {
    for Row { name, unit, .. } in rows() {
        // Allocations are no work in itself.
        let Some((_, unit)) = unit.split_once("ns ").filter(|_| name.contains(filter)) else {
            continue;
        };
        let [(one, pieces), (three, _)] = [1, 3].map(|passes| count(&name, passes));
        let each = (three - one) as f64 / (2 * pieces) as f64;
        println!("{name:<58} {each:>9.0} instructions {unit}");
    }
}

/// Runs passes of the row with that name in this process, and prints the number of pieces of a pass.
pub(crate) fn run(name: &str, passes: usize) {
    let row = rows().into_iter().find(|row| row.name == name);
    let mut measure = (row.expect("the parent knows the rows").measure)();
    for _ in 0..=passes {
        measure();
    }
    println!("{}", pieces());
}

/// Returns the instructions of passes in a child process, and the number of pieces of a pass.
fn count(name: &str, passes: usize) -> (u64, u64) {
    let program = std::env::current_exe().expect("a program knows where it is");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .args([
            "--toggle-collect=*rows*timed*",
            "--callgrind-out-file=/dev/null",
        ])
        .arg(program)
        .args(["--row", name, "--passes", &passes.to_string()])
        .output()
        .expect("valgrind is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed:\n{said}");
    let collected = said
        .lines()
        .find_map(|line| line.split("Collected :").nth(1));
    let instructions = collected.and_then(|count| count.trim().parse().ok());
    let pieces = String::from_utf8_lossy(&output.stdout);
    (
        instructions.expect("callgrind says its count"),
        pieces.trim().parse().expect("the child says its pieces"),
    )
}
