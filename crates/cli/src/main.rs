//! The `ttsr` command: reads its arguments, runs one command, says how it ended.
//!
//! One file per command. Only here and below is anything printed: data on the standard output, everything
//! else on the standard error.

mod args;
mod bench;
mod check;
mod chunk;
mod completions;
mod demo;
mod diff;
mod docs;
mod effective;
mod explain;
mod fingerprint;
mod fix;
mod fmt;
mod import;
mod input;
mod list;
mod log;
mod mask;
mod new;
mod output;
mod packs;
mod places;
mod progress;
mod replay;
mod reply;
mod report;
mod run;
mod scan;
mod schema;
mod tally;
mod test;
mod watch;
mod written;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::tell;

const EXIT_CODES: &str = "\
Exit codes: 0 clean; 1 findings (hits; errors under `check`; failed examples under `test`); 2 the command could not run, or could not \
read all of its input.";

/// Rules over a model's reply as it arrives, decided at the byte where they are broken.
#[derive(Debug, Parser)]
#[command(name = "ttsr", version = VERSION, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The version and, on a line of its own, the optional parts of the rule language and of the agent that this package's
/// manifest switches on.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nfeatures: ast lookaround opencode providers tools unicode"
);

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Options),
    Run(run::Options),
    Replay(replay::Options),
    Scan(scan::Options),
    Check(check::Options),
    Test(test::Options),
    List(list::Options),
    Docs(docs::Options),
    Explain(explain::Options),
    Schema(schema::Options),
    Completions(completions::Options),
    Bench(bench::Options),
    Import(import::Options),
    New(new::Options),
    Fmt(fmt::Options),
    Diff(diff::Options),
    Log(log::Options),
    Watch(watch::Options),
}

/// How a command that ran to its end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Clean,
    Findings,
    /// Some input could not be read, which was told when it was met.
    Incomplete,
}

/// Why a command broke off.
#[derive(Debug)]
enum Stop {
    /// Nobody reads the output any more.
    ReaderGone,
    Because(String),
}

/// The one source of plain `io::Error`s is the standard output; what is read tells its own.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::ReaderGone,
            _ => Stop::Because(format!("cannot write to the standard output: {error}")),
        }
    }
}

fn main() -> ExitCode {
    #[cfg(unix)]
    ttsr_agent::tools::supervise_if_asked();
    let ended = match Cli::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Scan(options) => scan::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Test(options) => test::run(&options),
        Command::List(options) => list::run(&options),
        Command::Docs(options) => docs::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Schema(options) => schema::run(&options),
        Command::Completions(options) => completions::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Import(options) => import::run(&options),
        Command::New(options) => new::run(&options),
        Command::Fmt(options) => fmt::run(&options),
        Command::Diff(options) => diff::run(&options),
        Command::Log(options) => log::run(&options),
        Command::Watch(options) => watch::run(&options),
    };
    ExitCode::from(match ended {
        Ok(Outcome::Clean) => 0,
        Ok(Outcome::Findings) => 1,
        Ok(Outcome::Incomplete) => 2,
        // What the shell reports of a program that was ended by the signal SIGPIPE.
        Err(Stop::ReaderGone) => 141,
        Err(Stop::Because(reason)) => {
            tell(&reason);
            2
        }
    })
}
