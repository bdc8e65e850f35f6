//! `ttsr bench`: measures the cost of rules on a stream, in total and per rule.
//!
//! `script` reads the stream, `rows` lists how a host uses the rules and `host` is that host, `measure` times it and examines
//! each rule, `instructions` counts with `callgrind`, `report` prints the results, `page` renders them as a web page.

mod callgrind;
mod host;
mod instructions;
mod measure;
mod page;
mod report;
mod rows;
mod script;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::PackArgs;
use crate::input::{InputProblems, inputs};
use crate::output::OutputRecord;
use crate::{CommandError, ExitStatus, load};
use report::BenchReport;
use script::ReplayScript;

/// Measure the cost of rules on a stream: per delta, per rule, and compared with rescanning
///
/// Times depend on the machine and its load: run this on an idle one. The stream is replayed many times, so all
/// times are warm. Counts of states and memory are the same on every machine.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: PackArgs,
    /// A recording, a folder of recordings, or `-` for the standard input; may be repeated [default: a built-in
    /// reply]
    #[arg(long = "stream", value_name = "FILE")]
    streams: Vec<PathBuf>,
    /// Count instructions too, with valgrind
    #[arg(long)]
    instructions: bool,
    /// Output format of the result
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    format: BenchFormat,
    /// Output file [default: the standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    child: instructions::ChildArgs,
}

/// The output format of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum BenchFormat {
    /// Text for people
    #[default]
    Human,
    /// One JSON object
    Json,
    /// One self-contained page with charts
    Html,
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let pack = load::load(&options.packs, &load::OFF_BY_DEFAULT)?;
    let mut problems = InputProblems::default();
    let script = match options.streams.is_empty() {
        true => ReplayScript::embedded(),
        false => ReplayScript::read(&inputs(&options.streams, &mut problems), &mut problems),
    };
    if script.deltas == 0 {
        return Err(CommandError::Message(
            "the streams have no delta to measure".to_owned(),
        ));
    }
    if let Some(pieces) = options.child.run(&pack, &script) {
        println!("{pieces}");
        return Ok(ExitStatus::Clean);
    }
    if options.instructions {
        // Before anything is measured, which takes seconds.
        instructions::check(options)?;
    }
    let mut report = measure::measure(&pack, &script)?;
    if options.instructions {
        instructions::count(&mut report.rows)?;
    }
    match &options.out {
        None => write(&report, options.format, standard_output(options.format))?,
        Some(path) => File::create(path)
            .and_then(|file| write(&report, options.format, Box::new(file)))
            .map_err(|error| CommandError::Message(format!("{}: {error}", path.display())))?,
    }
    Ok(match problems.any {
        true => ExitStatus::Incomplete,
        false => ExitStatus::Clean,
    })
}

fn standard_output(format: BenchFormat) -> Box<dyn Write> {
    match format {
        // `anstream` drops the colours if the output is not a terminal or the user disabled them.
        BenchFormat::Human => Box::new(anstream::stdout().lock()),
        _ => Box::new(io::stdout().lock()),
    }
}

fn write(report: &BenchReport, format: BenchFormat, to: Box<dyn Write>) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    match format {
        BenchFormat::Human => report.show(&mut to)?,
        BenchFormat::Json => {
            serde_json::to_writer(&mut to, report)?;
            to.write_all(b"\n")?;
        }
        BenchFormat::Html => page::write(report, &mut to)?,
    }
    to.flush()
}
