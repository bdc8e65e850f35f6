//! `ttsr man`: writes the manual pages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use crate::output::{Escaped, print_message};
use crate::totals::Quantity;
use crate::{Cli, CommandError, ExitStatus};

/// Write the manual pages into a folder: `ttsr.1`, and one page for each subcommand
///
/// For example: `ttsr man ~/.local/share/man/man1`
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The folder; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let folder = &options.folder;
    // The version of the command line has a second line with the features, which the head of a page cannot hold.
    let command = Cli::command().version(env!("CARGO_PKG_VERSION"));
    let pages = 1 + command.get_subcommands().count() as u64;
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command.disable_help_subcommand(true), folder))
        .map_err(|error| {
            let name = folder.display().to_string();
            CommandError::Message(format!("{}: {error}", Escaped(&name)))
        })?;
    print_message(&format_args!("wrote {}", Quantity(pages, "manual page")));
    Ok(ExitStatus::Clean)
}
