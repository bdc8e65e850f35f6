//! `ttsr bench`: what rules cost on a stream, and which of them.
//!
//! `script` reads the stream and plays it, `measure` times it and looks at each rule, `report` shows what was
//! found, `page` makes a page of it.

mod measure;
mod page;
mod report;
mod script;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::PackArgs;
use crate::input::{Problems, inputs};
use crate::output::Record;
use crate::{Outcome, Stop, packs};
use report::Report;
use script::Script;

/// Measure what rules cost on a stream: per delta and byte, rule by rule, and against searching again
///
/// Times are those of this machine, now: run it on a quiet one. The same stream is played again and again,
/// so what is timed is warm; states and memory are counted, and the same on every machine.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: PackArgs,
    /// A recording, a folder of them, or `-` for the standard input; may be repeated [default: a reply that
    /// comes with the command]
    #[arg(long = "stream", value_name = "FILE")]
    streams: Vec<PathBuf>,
    /// How the result is written
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    format: Format,
    /// Where it is written [default: the standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// How the result is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For readers
    #[default]
    Human,
    /// One object
    Json,
    /// One page with charts, which needs nothing else
    Html,
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let pack = packs::load(&options.packs)?;
    let mut problems = Problems::default();
    let script = match options.streams.is_empty() {
        true => Script::embedded(),
        false => Script::read(&inputs(&options.streams, &mut problems), &mut problems),
    };
    if script.deltas == 0 {
        return Err(Stop::Because(
            "there is no delta to measure with".to_owned(),
        ));
    }
    let report = measure::measure(&pack, &script)?;
    match &options.out {
        None => write(&report, options.format, standard_output(options.format))?,
        Some(path) => File::create(path)
            .and_then(|file| write(&report, options.format, Box::new(file)))
            .map_err(|error| Stop::Because(format!("{}: {error}", path.display())))?,
    }
    Ok(match problems.any {
        true => Outcome::Incomplete,
        false => Outcome::Clean,
    })
}

fn standard_output(format: Format) -> Box<dyn Write> {
    match format {
        // Colour where a terminal shows it and nobody said no.
        Format::Human => Box::new(anstream::stdout().lock()),
        _ => Box::new(io::stdout().lock()),
    }
}

fn write(report: &Report, format: Format, to: Box<dyn Write>) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    match format {
        Format::Human => report.show(&mut to)?,
        Format::Json => {
            serde_json::to_writer(&mut to, report)?;
            to.write_all(b"\n")?;
        }
        Format::Html => page::write(report, &mut to)?,
    }
    to.flush()
}
