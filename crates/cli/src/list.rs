//! `ttsr list`: lists the rules as they take effect.

use clap::Args;

use crate::args::{FormatArg, PackArgs};
use crate::output::{RecordWriter, RuleRecord};
use crate::{CommandError, ExitStatus, load};

/// List every rule as it takes effect, with defaults filled in and lists expanded
///
/// Long lists are shortened; `--format json` and `ttsr explain RULE` show them whole.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: PackArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let pack = load::load(&options.packs, &[])?;
    let mut out = RecordWriter::new(options.format.format);
    for rule in pack.rules() {
        out.write(&RuleRecord::new(rule))?;
    }
    out.flush()?;
    Ok(ExitStatus::Clean)
}
