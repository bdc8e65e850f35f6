//! `ttsr completions`: prints completion scripts for shells.

use std::io::{self, Write};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{Cli, CommandError, ExitStatus};

/// Print a completion script for a shell
///
/// For example: `ttsr completions bash > ~/.local/share/bash-completion/completions/ttsr`
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    // `clap_complete` panics if a write fails, so the script goes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "ttsr", &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    out.flush()?;
    Ok(ExitStatus::Clean)
}
