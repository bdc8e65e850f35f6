//! `ttsr check`: reports all problems of rule files.

use std::cmp::Reverse;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use ttsr::pack::Lock;
use ttsr::{Diagnostic, Level, Pack, PackBuilder};

use crate::args::{ReportArg, TodayArg};
use crate::explain::CompileCost;
use crate::fix::fix;
use crate::input::InputProblems;
use crate::output::{DiagnosticRecord, Escaped, OutputRecord, print_message};
use crate::replace::create;
use crate::report::{Finding, FindingProblem, FindingReport, SourceLocation};
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus};

/// Check rule files and report all their problems in one run
///
/// The files are checked as one pack, so that an id used twice is found. If there are no errors, the command
/// lists how many bytes of a part each rule may retain, largest first.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rule files or folders of rule files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Apply unambiguous fixes to the files: a misspelled key, value or name with one near match, missing brackets
    /// around a list, a quoted number, a duplicate example, a missing `schema = 1`
    #[arg(long)]
    fix: bool,
    /// Also show the other costs of each rule: the states of its automaton, whether its patterns have a literal, and
    /// about how long a byte takes in the worst text
    #[arg(long)]
    costs: bool,
    /// Do not list the bytes that rules retain
    #[arg(long, short, conflicts_with = "costs")]
    quiet: bool,
    /// Compare the packs, including those they extend, with this lock file: any difference is an error. If the
    /// file does not exist, it is written
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    #[command(flatten)]
    today: TodayArg,
    #[command(flatten)]
    format: ReportArg,
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let mut problems = InputProblems::default();
    let mut paths = options.paths.clone();
    // A path that does not exist is a usage error, not a finding.
    paths.retain(|path| match path.metadata() {
        Ok(_) => true,
        Err(error) => {
            problems.report(&path.to_string_lossy(), &error);
            false
        }
    });
    if options.fix {
        let names: Vec<String> = paths
            .iter()
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        let fixed = fix(&names)?;
        print_message(&format_args!("{}", Quantity(fixed, "edit")));
    }
    let mut diagnostics = checked(options.today.apply(builder(&paths).lints()));
    if let Some(file) = &options.lock {
        diagnostics.extend(locked(file, &paths)?);
    }
    let mut report = FindingReport::new(options.format.format);
    for diagnostic in &diagnostics {
        report.add(&DiagnosticRecord::new(diagnostic), || finding(diagnostic))?;
    }
    let is_human = report.is_human();
    let pack = loaded(&paths).filter(|_| !options.quiet);
    match &pack {
        Some(pack) if is_human && !options.costs => report.write_extra(table(pack))?,
        Some(pack) if !is_human => report.write_extra(retained_bytes(pack).into_iter())?,
        _ => {}
    }
    report.end()?;
    if let Some(pack) = pack.filter(|_| is_human && options.costs) {
        costs(&pack)?;
    }
    let errors = count(&diagnostics, Level::Error);
    print_message(&format_args!(
        "{}, {}{}",
        Quantity(errors, "error"),
        Quantity(count(&diagnostics, Level::Warning), "warning"),
        match count(&diagnostics, Level::Note) {
            0 => String::new(),
            notes => format!(", {}", Quantity(notes, "note")),
        }
    ));
    Ok(match errors {
        _ if problems.any => ExitStatus::Incomplete,
        0 => ExitStatus::Clean,
        _ => ExitStatus::Findings,
    })
}

/// Returns all problems of a load, as `ttsr::check` lists them.
fn checked(builder: PackBuilder) -> Vec<Diagnostic> {
    match builder.build() {
        Ok(pack) => pack.warnings().to_vec(),
        Err(error) => error.diagnostics().to_vec(),
    }
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
        wrong: Some(FindingProblem {
            level: diagnostic.level(),
            code: diagnostic.code().into(),
            message: format!("{}{help}", diagnostic.message()),
        }),
        place: Some(SourceLocation {
            file: diagnostic.file().to_owned(),
            line,
            column,
        }),
        matched: None,
    }
}

fn builder(paths: &[PathBuf]) -> PackBuilder {
    paths
        .iter()
        .fold(Pack::builder(), |builder, path| builder.file(path))
}

/// Returns the pack if it loads. If it does not, its problems have been reported already.
fn loaded(paths: &[PathBuf]) -> Option<Pack> {
    builder(paths).build().ok()
}

/// Returns the differences between the packs and the lock in `file`. Writes the file if it does not exist.
fn locked(file: &Path, paths: &[PathBuf]) -> Result<Vec<Diagnostic>, CommandError> {
    let name = file.to_string_lossy();
    let because = |why: &dyn Display| CommandError::Message(format!("{}: {why}", Escaped(&name)));
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(pack) = loaded(paths) {
                create(file, pack.lock().to_string().as_bytes())
                    .map_err(|error| because(&error))?;
                let name = Escaped(&name);
                print_message(&format_args!(
                    "wrote {name}: later differences will be reported"
                ));
            }
            return Ok(Vec::new());
        }
        Err(error) => return Err(because(&error)),
    };
    let lock = Lock::parse(&text).map_err(|why| because(&Escaped(&why)))?;
    let Err(error) = builder(paths).lock(lock).build() else {
        return Ok(Vec::new());
    };
    let problems = error.diagnostics().iter();
    let differences = problems.filter(|problem| problem.code() == "lock-mismatch");
    Ok(differences.cloned().collect())
}

/// The maximum number of bytes of a part that a rule retains.
#[derive(Serialize)]
#[serde(tag = "event", rename = "kept")]
struct RetainedBytes<'a> {
    rule: &'a str,
    retained_bytes: u64,
}

impl OutputRecord for RetainedBytes<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{} bytes  {}", self.retained_bytes, Escaped(self.rule))
    }
}

/// Returns the retained bytes of each rule, largest first.
fn retained_bytes(pack: &Pack) -> Vec<RetainedBytes<'_>> {
    let rules = pack.rules().iter().map(|rule| RetainedBytes {
        rule: &rule.id,
        retained_bytes: rule.retained_bytes(pack.limits()),
    });
    let mut kept: Vec<RetainedBytes<'_>> = rules.collect();
    // The sort is stable: rules with equal sizes stay in the order of their ids.
    kept.sort_by_key(|kept| Reverse(kept.retained_bytes));
    kept
}

/// Maximum number of rules with one line each. In a longer list, rules with equal sizes share a line.
const LINES: usize = 40;

/// Returns the lines of the table for people.
fn table(pack: &Pack) -> impl Iterator<Item = TableRow> {
    let kept = retained_bytes(pack);
    let is_long = kept.len() > LINES;
    let together = (kept.len() > 1).then(|| pack.retained_bytes());
    let most = kept.first().map_or(0, |kept| kept.retained_bytes);
    let most = together.map_or(most, |together| together.max(most));
    let width = most.to_string().len();
    let groups = kept.chunk_by(|a, b| is_long && a.retained_bytes == b.retained_bytes);
    let rows = groups.map(|group| {
        let ids: Vec<String> = group
            .iter()
            .map(|it| Escaped(it.rule).to_string())
            .collect();
        let bytes = group[0].retained_bytes;
        TableRow(format!("  {bytes:>width$}  {}", ids.join(", ")))
    });
    let head = (!kept.is_empty())
        .then(|| TableRow("maximum bytes retained of a part, by rule:".to_owned()));
    let last = together.map(|bytes| TableRow(format!("  {bytes:>width$}  all rules together")));
    let rows: Vec<TableRow> = head.into_iter().chain(rows).chain(last).collect();
    rows.into_iter()
}

/// A line of the table.
#[derive(Serialize)]
struct TableRow(String);

impl OutputRecord for TableRow {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.0)
    }
}

/// Prints the cost of each rule when it is compiled alone.
fn costs(pack: &Pack) -> Result<(), CommandError> {
    let mut out = anstream::stdout().lock();
    for rule in pack.rules() {
        let cost = CompileCost::measure(rule)?.summary();
        writeln!(out, "cost: {}: {cost}", Escaped(&rule.id))?;
    }
    out.flush()?;
    Ok(())
}
