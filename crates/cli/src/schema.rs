//! `ttsr schema`: prints the JSON Schema of rule files.

use std::io::{self, Write};

use clap::Args;

use crate::{CommandError, ExitStatus};

/// Print the JSON Schema of rule files, used by editors for completion and validation
///
/// Write it beside the rules and name it in the first line of each file:
///
///     ttsr schema > ttsr-pack-1.schema.json
///
///     #:schema ./ttsr-pack-1.schema.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {}

pub(crate) fn run(_: &Options) -> Result<ExitStatus, CommandError> {
    let schema = ttsr::pack::schema();
    let mut out = io::stdout().lock();
    writeln!(out, "{}", schema.trim_end())?;
    out.flush()?;
    Ok(ExitStatus::Clean)
}
