//! `ttsr import`: rules of other tools become a pack.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ttsr::import::{Foreign, Format, import};

use crate::output::{Escaped, tell};
use crate::tally::Count;
use crate::{Outcome, Stop};

/// Turn rules of other tools into a pack: gitleaks, oh-my-pi, Cursor, Windsurf, Cline, Claude Code
///
/// What cannot be carried over is told, and stands as a comment in the file; then the exit code is 1. The
/// file loads as it is.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The format [default: found by looking at each file]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<Format>,
    /// The name of the pack
    #[arg(long, value_name = "NAME", default_value = "imported")]
    name: String,
    /// Where the pack is written [default: the standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A format, if it is named here, and the files
    #[arg(required = true, value_name = "[FORMAT] FILE")]
    files: Vec<PathBuf>,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .map(|name| Format::from_name(&name).expect("only names of formats are possible values"))
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let (format, files) = split(options);
    let texts: Vec<(String, String)> = files.iter().map(read).collect::<Result<_, _>>()?;
    let foreign = texts.iter().map(|(name, text)| {
        let format = format.or_else(|| Format::of_text(text));
        let format = format
            .ok_or_else(|| Stop::Because(format!("{}: no format that is known", Escaped(name))))?;
        Ok(Foreign { name, format, text })
    });
    let foreign: Vec<Foreign<'_>> = foreign.collect::<Result<_, Stop>>()?;
    let imported = import(&options.name, &foreign)
        .map_err(|error| Stop::Because(Escaped(&error).to_string()))?;
    crate::new::write(options.out.as_deref(), &imported.toml)?;
    for left_out in &imported.left_out {
        tell(&Escaped(&left_out.to_string()));
    }
    tell(&format_args!(
        "{}, {} left out or changed",
        Count(imported.rules as u64, "rule"),
        Count(imported.left_out.len() as u64, "thing")
    ));
    Ok(match imported.left_out.is_empty() {
        true => Outcome::Clean,
        false => Outcome::Findings,
    })
}

/// The format, and the files behind it. A file that is called like a format is read as `./name`.
fn split(options: &Options) -> (Option<Format>, &[PathBuf]) {
    let first = options.files[0].to_str().and_then(Format::from_name);
    match options.from.is_none() && options.files.len() > 1 && first.is_some() {
        true => (first, &options.files[1..]),
        false => (options.from, &options.files),
    }
}

fn read(path: &PathBuf) -> Result<(String, String), Stop> {
    let name = path.to_string_lossy().into_owned();
    match fs::read_to_string(path) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Stop::Because(format!("{}: {error}", Escaped(&name)))),
    }
}
