//! The instructions of each row: other work of the machine does not change them.
//!
//! A child process loads the packs, runs a pass to build the states, and then few or many passes. The difference of the
//! two counts is that of the passes alone. It needs no symbols of the program.

use std::ffi::OsString;

use super::Options;
use super::callgrind::{self, Counted};
use super::rows::{Row, RowCost};
use super::script::ReplayScript;
use crate::CommandError;

/// The time of the passes by which the two counts differ, in nanoseconds: so long that what varies between two processes
/// (the seeds of hash tables) is less than one percent.
const PASSES_NS: f64 = 20e6;

/// The arguments of the child process.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct ChildArgs {
    /// Runs passes of this row and prints the number of their pieces
    #[arg(long, hide = true, requires = "passes")]
    row: Option<Row>,
    #[arg(long, hide = true, requires = "row")]
    passes: Option<usize>,
}

/// Returns an error if instructions cannot be counted here.
pub(super) fn check(options: &Options) -> Result<(), CommandError> {
    if options
        .streams
        .iter()
        .any(|stream| stream.as_os_str() == "-")
    {
        return Err(CommandError::Message(
            "--instructions reads the streams several times, and the standard input can be read once"
                .to_owned(),
        ));
    }
    if !callgrind::has_valgrind() {
        return Err(CommandError::Message(
            "--instructions needs valgrind, which is not installed".to_owned(),
        ));
    }
    Ok(())
}

/// Counts the instructions of the rows.
pub(super) fn count(rows: &mut [RowCost]) -> Result<(), CommandError> {
    for cost in rows {
        let passes = PASSES_NS / (cost.ns * cost.pieces as f64);
        let passes = passes.clamp(2.0, 1e6) as usize;
        let few = count_passes(cost.row, 1)?;
        let many = count_passes(cost.row, 1 + passes)?;
        let counted = many.instructions.saturating_sub(few.instructions);
        let pieces = passes as u64 * many.pieces;
        cost.instructions = Some(counted as f64 / pieces as f64);
    }
    Ok(())
}

/// Counts this command again with one row.
fn count_passes(row: Row, passes: usize) -> Result<Counted, CommandError> {
    let row = clap::ValueEnum::to_possible_value(&row);
    let row = row.map_or(String::new(), |row| row.get_name().to_owned());
    let passes = passes.to_string();
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    arguments.extend(["--row", &row, "--passes", &passes].map(OsString::from));
    callgrind::count(None, &arguments, &[]).map_err(CommandError::Message)
}

impl ChildArgs {
    /// Runs the passes if this is the child process. Returns the number of pieces of a pass.
    pub(super) fn run(&self, pack: &ttsr::Pack, script: &ReplayScript) -> Option<usize> {
        let work = self.row?.prepare(script)?;
        for _ in 0..=self.passes? {
            work.pass(pack);
        }
        Some(work.pieces())
    }
}
