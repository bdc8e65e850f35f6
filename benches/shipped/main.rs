//! Cost of the packs that ship, for a host that uses [`Conversation`].
//!
//! `TTSR_CORPUS=… cargo bench --all-features --bench shipped [-- [FILTER] [--rounds N|--instructions]]`
//!
//! Reveals: the price of switching the default packs on. Each row names its data; the columns are the median of several
//! rounds and the goal.
//!
//! Data: the recorded streams of the corpus with their own boundaries if `TTSR_CORPUS` is set, else the recording that
//! `ttsr bench` embeds. Processor time of the thread is measured, which other processes influence less than the time of
//! day. Every pass asserts that rules cut few replies, because nothing is read after a cut.

#[path = "../common/allocations.rs"]
mod allocations;
#[path = "../../crates/cli/src/bench/callgrind.rs"]
mod callgrind;
#[path = "../../crates/cli/src/bench/host.rs"]
mod host;
mod instructions;
#[path = "../common/packs.rs"]
mod packs;
#[path = "../common/recordings.rs"]
mod recordings;
mod rows;

use rows::{Row, rows};

/// Rounds of which the median is printed.
const ROUNDS: usize = 7;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` and `cargo bench -- --test` run each row once.
    let is_test =
        !arguments.iter().any(|it| it == "--bench") || arguments.iter().any(|it| it == "--test");
    let after = |name: &str| {
        let at = arguments.iter().position(|it| it == name)?;
        arguments.get(at + 1)
    };
    let value = |name: &str| after(name)?.parse::<usize>().ok();
    if let Some(name) = after("--row") {
        return instructions::run(name, value("--passes").unwrap_or(1));
    }
    let rounds = if is_test {
        1
    } else {
        value("--rounds").unwrap_or(ROUNDS)
    };
    let filter = arguments
        .iter()
        .find(|it| !it.starts_with('-') && it.parse::<usize>().is_err());
    if arguments.iter().any(|it| it == "--instructions") {
        return instructions::print(filter.map_or("", String::as_str));
    }
    let mut met = 0;
    let mut measured = 0;
    for Row {
        name,
        unit,
        goal,
        measure,
    } in rows()
    {
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let mut measure = measure();
        measure(); // builds the states
        let mut values: Vec<f64> = (0..rounds).map(|_| measure()).collect();
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        let least = values[0];
        let verdict = match goal {
            Some(goal) if median <= goal => "met",
            Some(_) => "missed",
            None => "",
        };
        measured += usize::from(goal.is_some());
        met += usize::from(verdict == "met");
        let goal = goal.map_or(String::new(), |goal| format!("{goal:.0}"));
        println!(
            "{name:<58} {median:>9.1} (least {least:>8.1}) {unit:<14} goal {goal:>4} {verdict}"
        );
    }
    println!("{met} of {measured} goals met");
}
