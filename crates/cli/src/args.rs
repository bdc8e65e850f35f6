//! Arguments shared by several subcommands.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, io};

use clap::{Args, ValueEnum};
use ttsr::PackBuilder;
use ttsr::pack::Date;

use crate::CommandError;

/// The output format of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for people
    #[default]
    Human,
    /// One JSON object per line
    Json,
}

/// The output format of a report on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Text for people
    #[default]
    Human,
    /// One JSON object per line
    Json,
    /// JUnit XML, for test reports
    Junit,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Workflow commands of GitHub Actions, shown as annotations
    Github,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArg {
    /// Output format of the report
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct FormatArg {
    /// Output format of the findings
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: OutputFormat,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct PackArgs {
    /// A built-in pack, or a rule file or folder of rule files; may be repeated. A file that `ttsr compile` wrote is
    /// loaded alone [default: all built-in packs]
    ///
    /// `std/pii` (personal data) judges text only if it is named; `explain`, `list`, `docs` and `test` always
    /// load it.
    ///
    /// A built-in name wins over a path of the same spelling: write `./name` for the path.
    #[arg(long = "pack", value_name = "PACK")]
    pub(crate) packs: Vec<String>,
    #[command(flatten)]
    pub(crate) today: TodayArg,
}

impl PackArgs {
    /// Returns the arguments of a subcommand that takes its packs from another option.
    pub(crate) fn from_names(packs: Vec<String>) -> PackArgs {
        PackArgs {
            packs,
            today: TodayArg::default(),
        }
    }
}

/// The packs of a subcommand that reads tool calls, and the workspace the calls refer to.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkspaceArgs {
    #[command(flatten)]
    pub(crate) packs: PackArgs,
    #[command(flatten)]
    pub(crate) root: RootArg,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RootArg {
    /// The workspace to which globs in `paths` are relative. An absolute path below it matches as a relative path; any
    /// other absolute path matches as it is [default: the top level of the git work tree that contains the current
    /// folder, or the current folder]
    ///
    /// The folder need not exist: a recording may come from another machine.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl RootArg {
    /// Returns the workspace as an absolute path. `usual` is the default of subcommands that have their own.
    pub(crate) fn folder(&self, usual: Option<&Path>) -> Result<PathBuf, CommandError> {
        let because = |error: io::Error| CommandError::Message(format!("the workspace: {error}"));
        match self.root.as_deref().or(usual) {
            Some(folder) => std::path::absolute(folder).map_err(because),
            None => Ok(work_tree(&env::current_dir().map_err(because)?).to_owned()),
        }
    }
}

/// Returns the nearest ancestor of `folder` (or itself) with a `.git` entry, or else `folder`. In a linked work tree
/// `.git` is a file.
fn work_tree(folder: &Path) -> &Path {
    let mut above = folder.ancestors();
    let top = above.find(|folder| folder.join(".git").exists());
    top.unwrap_or(folder)
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TodayArg {
    /// The date against which `until` of an `[[allow]]` is compared, such as 2027-01-31 [default: today, in UTC]
    #[arg(long, value_name = "DAY", value_parser = day)]
    today: Option<Date>,
}

impl TodayArg {
    /// Sets the date used by the loader.
    pub(crate) fn apply(&self, builder: PackBuilder) -> PackBuilder {
        match self.today.or_else(current_day) {
            Some(today) => builder.today(today),
            // The loader warns about each entry with a last day.
            None => builder,
        }
    }
}

/// Returns the current day in UTC, or `None` if the system's clock is before 1970 or after 9999.
fn current_day() -> Option<Date> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Date::from_unix_seconds(since.as_secs())
}

fn day(text: &str) -> Result<Date, String> {
    Date::parse(text).ok_or_else(|| "expected a date such as 2027-01-31".to_owned())
}
