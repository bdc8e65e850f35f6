//! `ttsr check`: every problem of rule files.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use ttsr::{Diagnostic, Level, Limits, Lock, Pack, PackBuilder, Pattern, Rule};

use crate::args::ReportArg;
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
/// The files are checked as one pack, so that an id used in two of them is found. Of rules that keep more of a
/// reply than an excerpt it says how much that is at most.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rule files, and folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Mend what is certain, in the files: a key, a value or a name that is one typing error away, a text that
    /// wants brackets, a number that wants no quotes, an example that stands twice, a missing `schema = 1`
    #[arg(long)]
    fix: bool,
    /// Also show what each rule costs: automaton states, and bytes of a reply that are kept
    #[arg(long)]
    costs: bool,
    /// Compare the packs, those they extend among them, with this lock: a difference is an error. Where there is
    /// no such file, it is written
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
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
    let mut diagnostics = ttsr::check(&paths, &Limits::default());
    if let Some(file) = &options.lock {
        diagnostics.extend(locked(file, &paths)?);
    }
    let mut report = Report::new(options.format.format);
    for diagnostic in &diagnostics {
        report.add(&DiagnosticRecord::new(diagnostic), || finding(diagnostic))?;
    }
    let is_human = report.is_human();
    if let Some(pack) = loaded(&paths) {
        report.note_each(pack.rules().iter().filter_map(|rule| Kept::of(rule, &pack)))?;
        report.end()?;
        if options.costs && is_human {
            costs(&pack)?;
        }
    } else {
        report.end()?;
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

/// How much text of a part a rule keeps, where that is more than the excerpt that any rule keeps.
#[derive(Serialize)]
#[serde(tag = "event", rename = "kept")]
struct Kept<'a> {
    rule: &'a str,
    retained_bytes: u64,
}

impl<'a> Kept<'a> {
    fn of(rule: &'a Rule, pack: &Pack) -> Option<Kept<'a>> {
        let mut plain = Rule::new("a/plain", vec![Pattern::literal("x")]);
        plain.on.clone_from(&rule.on);
        let of = |rule: &Rule| rule.retained_bytes(pack.limits());
        (of(rule) > of(&plain)).then(|| Kept {
            rule: &rule.id,
            retained_bytes: of(rule),
        })
    }
}

impl Record for Kept<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let rule = Escaped(self.rule);
        let bytes = self.retained_bytes;
        writeln!(out, "keeps: {rule}: at most {bytes} bytes of a part")
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
