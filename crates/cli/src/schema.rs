//! `ttsr schema`: the rule language for editors.

use std::io::{self, Write};

use clap::Args;

use crate::{Outcome, Stop};

/// Print the JSON Schema of rule files, for editors to complete and check them with
///
/// Write it beside the rules and name it in their first line:
///
///     ttsr schema > ttsr-pack-1.schema.json
///
///     #:schema ./ttsr-pack-1.schema.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {}

pub(crate) fn run(_: &Options) -> Result<Outcome, Stop> {
    let schema = ttsr::pack::schema();
    let mut out = io::stdout().lock();
    writeln!(out, "{}", schema.trim_end())?;
    out.flush()?;
    Ok(Outcome::Clean)
}
