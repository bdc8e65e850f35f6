//! The instructions of each row, counted by callgrind: other work of the machine does not change them.
//!
//! A child process runs a row once to build the states, and then one pass or three. The difference of their counts is two
//! passes without what only the first of them does. Valgrind has no AVX-512, so the counts are those of a processor without it.

use std::ffi::OsString;

use crate::callgrind::{count, has_valgrind};
use crate::rows::{Row, pieces, rows};

/// Prints the instructions of the rows whose names contain `filter`.
pub(crate) fn print(filter: &str) {
    if !has_valgrind() {
        println!("valgrind is not installed, so nothing is counted");
        return;
    }
    for Row { name, unit, .. } in rows() {
        // Allocations are no work in itself.
        let Some((_, unit)) = unit.split_once("ns ").filter(|_| name.contains(filter)) else {
            continue;
        };
        let [one, three] = ["1", "3"].map(|passes| {
            let arguments = ["--row", &name, "--passes", passes].map(OsString::from);
            count(Some("*rows*timed*"), &arguments, &[]).unwrap_or_else(|error| panic!("{error}"))
        });
        let passes = (three.instructions - one.instructions) as f64;
        let each = passes / (2 * one.pieces) as f64;
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
