//! `ttsr check`: every problem of rule files.

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
use crate::explain::Cost;
use crate::fix::fix;
use crate::input::Problems;
use crate::new::write;
use crate::output::{DiagnosticRecord, Escaped, Record, tell};
use crate::report::{Finding, Place, Report, Wrong};
use crate::tally::Count;
use crate::{Outcome, Stop};

/// Check rule files: every problem of all of them, in one run
///
/// The files are checked as one pack, so that an id used in two of them is found. Where they are in order it says
/// how many bytes of a part each rule keeps at most, the most greedy first.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rule files, and folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Mend what is certain, in the files: a key, a value or a name that is one typing error away, a text that
    /// wants brackets, a number that wants no quotes, an example that stands twice, a missing `schema = 1`
    #[arg(long)]
    fix: bool,
    /// Show what else each rule costs: its automaton's states, and whether text in its patterns can be searched for
    #[arg(long)]
    costs: bool,
    /// Leave out what rules keep
    #[arg(long, short, conflicts_with = "costs")]
    quiet: bool,
    /// Compare the packs, those they extend among them, with this lock: a difference is an error. Where there is
    /// no such file, it is written
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    #[command(flatten)]
    today: TodayArg,
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
    let mut diagnostics = checked(options.today.apply(builder(&paths).lints()));
    if let Some(file) = &options.lock {
        diagnostics.extend(locked(file, &paths)?);
    }
    let mut report = Report::new(options.format.format);
    for diagnostic in &diagnostics {
        report.add(&DiagnosticRecord::new(diagnostic), || finding(diagnostic))?;
    }
    let is_human = report.is_human();
    let pack = loaded(&paths).filter(|_| !options.quiet);
    match &pack {
        Some(pack) if is_human && !options.costs => report.note_each(table(pack))?,
        Some(pack) if !is_human => report.note_each(kept(pack).into_iter())?,
        _ => {}
    }
    report.end()?;
    if let Some(pack) = pack.filter(|_| is_human && options.costs) {
        costs(&pack)?;
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

/// Every problem of a load, as `ttsr::check` lists them.
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
        wrong: Some(Wrong {
            level: diagnostic.level(),
            code: diagnostic.code().into(),
            message: format!("{}{help}", diagnostic.message()),
        }),
        place: Some(Place {
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

/// The rules, if all of them load: of others nothing can be said that is not told above.
fn loaded(paths: &[PathBuf]) -> Option<Pack> {
    builder(paths).build().ok()
}

/// Where the packs are not those of the lock in `file`; writes it where there is none.
fn locked(file: &Path, paths: &[PathBuf]) -> Result<Vec<Diagnostic>, Stop> {
    let name = file.to_string_lossy();
    let because = |why: &dyn Display| Stop::Because(format!("{}: {why}", Escaped(&name)));
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(pack) = loaded(paths) {
                write(file, &pack.lock().to_string())?;
                let name = Escaped(&name);
                tell(&format_args!(
                    "wrote {name}: what changes from now on is told"
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

/// How much text of a part a rule keeps at most.
#[derive(Serialize)]
#[serde(tag = "event", rename = "kept")]
struct Kept<'a> {
    rule: &'a str,
    retained_bytes: u64,
}

impl Record for Kept<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{} bytes  {}", self.retained_bytes, Escaped(self.rule))
    }
}

/// What each rule keeps, the most first.
fn kept(pack: &Pack) -> Vec<Kept<'_>> {
    let rules = pack.rules().iter().map(|rule| Kept {
        rule: &rule.id,
        retained_bytes: rule.retained_bytes(pack.limits()),
    });
    let mut kept: Vec<Kept<'_>> = rules.collect();
    // Those that keep the same stay in the order of their ids.
    kept.sort_by_key(|kept| Reverse(kept.retained_bytes));
    kept
}

/// Most rules that have a line each in a table for a reader; of more, those that keep the same share one.
const LINES: usize = 40;

/// The same for a reader.
fn table(pack: &Pack) -> impl Iterator<Item = Row> {
    let kept = kept(pack);
    let is_long = kept.len() > LINES;
    let most = kept.first().map_or(0, |kept| kept.retained_bytes);
    let width = most.to_string().len();
    let groups = kept.chunk_by(|a, b| is_long && a.retained_bytes == b.retained_bytes);
    let rows = groups.map(|group| {
        let ids: Vec<String> = group
            .iter()
            .map(|it| Escaped(it.rule).to_string())
            .collect();
        let bytes = group[0].retained_bytes;
        Row(format!("  {bytes:>width$}  {}", ids.join(", ")))
    });
    let head = (!kept.is_empty()).then(|| Row("most bytes kept of a part, by rule:".to_owned()));
    let rows: Vec<Row> = head.into_iter().chain(rows).collect();
    rows.into_iter()
}

/// A line of the table.
#[derive(Serialize)]
struct Row(String);

impl Record for Row {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.0)
    }
}

/// What each rule costs by itself.
fn costs(pack: &Pack) -> Result<(), Stop> {
    let mut out = anstream::stdout().lock();
    for rule in pack.rules() {
        let cost = Cost::of(rule)?.shown();
        writeln!(out, "cost: {}: {cost}", Escaped(&rule.id))?;
    }
    out.flush()?;
    Ok(())
}
