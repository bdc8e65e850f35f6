//! `ttsr check`: every problem of rule files.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use ttsr::{Diagnostic, Level, Limits, Pack};

use crate::args::ReportArg;
use crate::explain::Cost;
use crate::fix::fix;
use crate::input::Problems;
use crate::output::{DiagnosticRecord, Escaped, tell};
use crate::report::{Finding, Place, Report, Wrong};
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
    /// Mend what is certain, in the files: a key or a value that is one typing error away, an example that
    /// stands twice
    #[arg(long)]
    fix: bool,
    /// Also show what each rule costs: automaton states, and bytes of a reply that are kept
    #[arg(long)]
    costs: bool,
    #[command(flatten)]
    format: ReportArg,
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
    if options.fix {
        let names: Vec<String> = paths
            .iter()
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        let fixed = fix(&names)?;
        tell(&format_args!("{}", Count(fixed, "edit")));
    }
    let diagnostics = ttsr::check(&paths, &Limits::default());
    let mut report = Report::new(options.format.format);
    for diagnostic in &diagnostics {
        report.add(&DiagnosticRecord::new(diagnostic), || finding(diagnostic))?;
    }
    let is_human = report.is_human();
    report.end()?;
    if options.costs && is_human {
        costs(&paths)?;
    }
    let errors = count(&diagnostics, Level::Error);
    tell(&format_args!(
        "{}, {}{}",
        Count(errors, "error"),
        Count(count(&diagnostics, Level::Warning), "warning"),
        match count(&diagnostics, Level::Note) {
            0 => String::new(),
            notes => format!(", {}", Count(notes, "note")),
        }
    ));
    Ok(match errors {
        _ if problems.any => Outcome::Incomplete,
        0 => Outcome::Clean,
        _ => Outcome::Findings,
    })
}

fn count(diagnostics: &[Diagnostic], level: Level) -> u64 {
    let of_level = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.level() == level);
    of_level.count() as u64
}

fn finding(diagnostic: &Diagnostic) -> Finding {
    let (line, column) = (diagnostic.line(), diagnostic.column());
    let help = diagnostic
        .help()
        .map_or_else(String::new, |help| format!(" ({help})"));
    Finding {
        subject: diagnostic.rule().unwrap_or(diagnostic.file()).to_owned(),
        case: format!("{} at {line}:{column}", diagnostic.code()),
        wrong: Some(Wrong {
            level: diagnostic.level(),
            code: diagnostic.code(),
            message: format!("{}{help}", diagnostic.message()),
        }),
        place: Some(Place {
            file: diagnostic.file().to_owned(),
            line,
            column,
        }),
    }
}

/// What each rule costs by itself. Rules that do not load have no cost: why is told above.
fn costs(paths: &[PathBuf]) -> Result<(), Stop> {
    let files = paths
        .iter()
        .fold(Pack::builder(), |builder, path| builder.file(path));
    let Ok(pack) = files.build() else {
        return Ok(());
    };
    let mut out = anstream::stdout().lock();
    for rule in pack.rules() {
        let cost = Cost::of(rule)?.shown();
        writeln!(out, "cost: {}: {cost}", Escaped(&rule.id))?;
    }
    out.flush()?;
    Ok(())
}
