//! `ttsr compile`: writes packs as one file that loads without parsing and checking.

use std::path::PathBuf;

use clap::Args;

use crate::args::PackArgs;
use crate::output::{Escaped, print_message};
use crate::replace::replace;
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus, load};

/// Compile packs into one file, which `--pack` accepts and which loads several times as fast
///
/// The file has the rules as they take effect, with `extends`, overrides and `[[allow]]` entries applied; it is loaded
/// alone. Only the version of ttsr that wrote it reads it. Compile again after an update of ttsr or of a rule.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: PackArgs,
    /// The file to write; replaced if it exists
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let pack = load::load(&options.packs, &load::OFF_BY_DEFAULT)?;
    let bytes = pack.to_bytes();
    let name = options.out.display().to_string();
    replace(&options.out, &bytes).map_err(|error| CommandError::of_file(&options.out, &error))?;
    print_message(&format_args!(
        "compiled {} into {}",
        Quantity(pack.rules().len() as u64, "rule"),
        Escaped(&name),
    ));
    Ok(ExitStatus::Clean)
}
