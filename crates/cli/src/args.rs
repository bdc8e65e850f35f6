//! Arguments that several commands share.

use std::path::{Path, PathBuf};
use std::{env, io};

use clap::{Args, ValueEnum};
use ttsr::PackBuilder;
use ttsr::pack::Date;

use crate::Stop;

/// How findings are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For readers
    #[default]
    Human,
    /// One object a line
    Json,
}

/// How a report on files is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For readers
    #[default]
    Human,
    /// One object a line
    Json,
    /// JUnit's XML, for test reports
    Junit,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Commands of a GitHub workflow, which show as annotations
    Github,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArg {
    /// How the report is written
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct FormatArg {
    /// How findings are written
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    /// A built-in pack, or a rule file or folder of rule files; may be repeated [default: all built-in
    /// packs]
    ///
    /// A built-in name wins over a path of the same spelling: write `./name` for the path.
    #[arg(long = "pack", value_name = "PACK")]
    pub(crate) packs: Vec<String>,
    #[command(flatten)]
    pub(crate) today: TodayArg,
}

impl PackArgs {
    /// The arguments of a command that names its packs otherwise.
    pub(crate) fn of(packs: Vec<String>) -> PackArgs {
        PackArgs {
            packs,
            today: TodayArg::default(),
        }
    }
}

/// The packs of a command that reads tool calls, and the workspace that these are about.
#[derive(Debug, Args)]
pub(crate) struct WorkspaceArgs {
    #[command(flatten)]
    pub(crate) packs: PackArgs,
    #[command(flatten)]
    pub(crate) root: RootArg,
}

#[derive(Debug, Args)]
pub(crate) struct RootArg {
    /// The workspace that globs in `paths` are relative to: absolute paths below it match as relative ones, others
    /// match as absolute ones [default: the top level of the git work tree that the current folder is in, else the
    /// current folder]
    ///
    /// The folder need not exist here: a recording may come from another machine.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl RootArg {
    /// The workspace, as an absolute path; `usual` is the default of a command that has one of its own.
    pub(crate) fn folder(&self, usual: Option<&Path>) -> Result<PathBuf, Stop> {
        let because = |error: io::Error| Stop::Because(format!("the workspace: {error}"));
        match self.root.as_deref().or(usual) {
            Some(folder) => std::path::absolute(folder).map_err(because),
            None => Ok(work_tree(&env::current_dir().map_err(because)?).to_owned()),
        }
    }
}

/// The nearest folder at or above `folder` that has a `.git`, which is a file in linked work trees; else `folder`.
fn work_tree(folder: &Path) -> &Path {
    let mut above = folder.ancestors();
    let top = above.find(|folder| folder.join(".git").exists());
    top.unwrap_or(folder)
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TodayArg {
    /// The day that `until` of an `[[allow]]` is compared with, such as 2027-01-31 [default: today, in UTC]
    #[arg(long, value_name = "DAY", value_parser = day)]
    today: Option<Date>,
}

impl TodayArg {
    /// Sets the day of the load.
    pub(crate) fn apply(&self, builder: PackBuilder) -> PackBuilder {
        match self.today {
            Some(today) => builder.today(today),
            None => builder,
        }
    }
}

fn day(text: &str) -> Result<Date, String> {
    Date::parse(text).ok_or_else(|| "a day is written as 2027-01-31".to_owned())
}
