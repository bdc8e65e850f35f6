//! Arguments that several commands share.

use clap::{Args, ValueEnum};
use ttsr::{Date, PackBuilder};

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
