//! `ttsr completions`: completions for shells.

use std::io::{self, Write};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{Cli, Outcome, Stop};

/// Print completions for a shell, to be sourced or put where it looks for them
///
/// For example: `ttsr completions bash > ~/.local/share/bash-completion/completions/ttsr`
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    // What cannot be written would be a panic there: it is made first and written then.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "ttsr", &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    out.flush()?;
    Ok(Outcome::Clean)
}
