//! The `ttsr` command: parses the arguments, runs one subcommand and reports how it ended.
//!
//! Each subcommand has one file. Only this crate prints: data goes to the standard output, everything else to the
//! standard error.

mod args;
mod bench;
mod check;
mod chunk;
mod compile;
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
mod line_index;
mod list;
mod load;
mod log;
mod man;
mod mask;
mod new;
mod output;
mod progress;
mod proxy;
mod replace;
mod replay;
mod reply;
mod report;
mod run;
mod scan;
mod schema;
mod source_index;
mod test;
mod totals;
mod watch;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::{Escaped, print_message};

/// A stream of `ttsr proxy` takes a tenth less memory with it.
#[global_allocator]
static ALLOCATOR: ttsr_proxy::SlabAllocator = ttsr_proxy::SlabAllocator::new();

const EXIT_CODES: &str = "\
Exit codes: 0 clean; 1 findings (hits; errors under `check`; failed examples under `test`); 2 the command could not run, or could not \
read all of its input.";

/// Rules over a model's reply, applied while the reply streams in.
#[derive(Debug, Parser)]
#[command(name = "ttsr", version = VERSION, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

/// The version and, on a line of its own, the optional parts of the rule language and of the agent that this package's
/// manifest switches on.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nfeatures: ast lookaround opencode providers tools unicode"
);

#[derive(Debug, Subcommand)]
enum CliCommand {
    Demo(demo::Options),
    Run(run::Options),
    Proxy(proxy::Options),
    Replay(replay::Options),
    Scan(scan::Options),
    Check(check::Options),
    Test(test::Options),
    List(list::Options),
    Docs(docs::Options),
    Explain(explain::Options),
    Compile(compile::Options),
    Schema(schema::Options),
    Completions(completions::Options),
    Man(man::Options),
    Bench(bench::Options),
    Import(import::Options),
    New(new::Options),
    Fmt(fmt::Options),
    Diff(diff::Options),
    Log(log::Options),
    Watch(watch::Options),
}

/// The status of a subcommand that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExitStatus {
    Clean,
    Findings,
    /// Some input could not be read; the reason has been printed.
    Incomplete,
    /// A command that the subcommand ran has ended with this code.
    OfCommand(u8),
}

/// The reason why a subcommand stopped early.
#[derive(Debug)]
enum CommandError {
    /// The reader of the output has closed it.
    ReaderGone,
    Message(String),
}

impl CommandError {
    /// Returns the error of a file that cannot be read or written.
    fn of_file(path: &Path, error: &io::Error) -> CommandError {
        CommandError::Message(format!("{}: {error}", Escaped(&path.display().to_string())))
    }
}

/// Only writes to the standard output return a plain `io::Error`; code that reads reports its own errors.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> CommandError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CommandError::ReaderGone,
            _ => CommandError::Message(format!("cannot write to the standard output: {error}")),
        }
    }
}

fn main() -> ExitCode {
    #[cfg(unix)]
    ttsr_agent::tools::supervise_if_asked();
    let ended = match Cli::parse().command {
        CliCommand::Demo(options) => demo::run(&options),
        CliCommand::Run(options) => run::run(&options),
        CliCommand::Proxy(options) => proxy::run(&options),
        CliCommand::Replay(options) => replay::run(&options),
        CliCommand::Scan(options) => scan::run(&options),
        CliCommand::Check(options) => check::run(&options),
        CliCommand::Test(options) => test::run(&options),
        CliCommand::List(options) => list::run(&options),
        CliCommand::Docs(options) => docs::run(&options),
        CliCommand::Explain(options) => explain::run(&options),
        CliCommand::Compile(options) => compile::run(&options),
        CliCommand::Schema(options) => schema::run(&options),
        CliCommand::Completions(options) => completions::run(&options),
        CliCommand::Man(options) => man::run(&options),
        CliCommand::Bench(options) => bench::run(&options),
        CliCommand::Import(options) => import::run(&options),
        CliCommand::New(options) => new::run(&options),
        CliCommand::Fmt(options) => fmt::run(&options),
        CliCommand::Diff(options) => diff::run(&options),
        CliCommand::Log(options) => log::run(&options),
        CliCommand::Watch(options) => watch::run(&options),
    };
    ExitCode::from(match ended {
        Ok(ExitStatus::Clean) => 0,
        Ok(ExitStatus::Findings) => 1,
        Ok(ExitStatus::Incomplete) => 2,
        Ok(ExitStatus::OfCommand(code)) => code,
        // The status that a shell reports for a program ended by SIGPIPE.
        Err(CommandError::ReaderGone) => 141,
        Err(CommandError::Message(reason)) => {
            print_message(&reason);
            2
        }
    })
}
