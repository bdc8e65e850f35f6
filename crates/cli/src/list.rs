//! `ttsr list`: the rules as they take effect.

use clap::Args;

use crate::args::{FormatArg, PackArgs};
use crate::output::{Out, RuleRecord};
use crate::{Outcome, Stop, packs};

/// Show every rule as it takes effect: defaults filled in, lists expanded
///
/// A line names the first entries of long lists; `--format json` and `ttsr explain RULE` show all.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: PackArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let pack = packs::load(&options.packs)?;
    let mut out = Out::new(options.format.format);
    for rule in pack.rules() {
        out.write(&RuleRecord::new(rule))?;
    }
    out.flush()?;
    Ok(Outcome::Clean)
}
