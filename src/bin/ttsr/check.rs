//! `ttsr check`: every problem of rule files.

use std::path::PathBuf;

use clap::Args;
use ttsr::{Level, Limits};

use crate::args::FormatArg;
use crate::input::Problems;
use crate::output::{DiagnosticRecord, Out, tell};
use crate::tally::Count;
use crate::{Outcome, Stop};

/// Check rule files: every problem of all of them, in one run
///
/// The files are checked as one pack, so that an id used in two of them is found.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rule files, and folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let mut problems = Problems::default();
    let mut paths = options.paths.clone();
    // What does not exist is no finding: the command was called wrongly.
    paths.retain(|path| match path.metadata() {
        Ok(_) => true,
        Err(error) => {
            problems.tell(&path.to_string_lossy(), &error);
            false
        }
    });
    let diagnostics = ttsr::check(&paths, &Limits::default());
    let mut out = Out::new(options.format.format);
    for diagnostic in &diagnostics {
        out.write(&DiagnosticRecord::new(diagnostic))?;
    }
    out.flush()?;
    let count = |level| {
        diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.level() == level)
            .count() as u64
    };
    let errors = count(Level::Error);
    tell(&format_args!(
        "{}, {}",
        Count(errors, "error"),
        Count(count(Level::Warning), "warning")
    ));
    Ok(match errors {
        _ if problems.any => Outcome::Incomplete,
        0 => Outcome::Clean,
        _ => Outcome::Findings,
    })
}
