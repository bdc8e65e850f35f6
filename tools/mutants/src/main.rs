//! Mutation testing of the crate with all mutants in one build.
//!
//! `scripts/mutants` runs it in the root of the repository. The mutants are those that cargo-mutants lists. They are
//! written into a copy of the sources, where each place selects the mutant of the process ([`write`]). The tests of the
//! copy are built once. Each test is run alone to record the places it executes ([`measure`]). Then each mutant is run
//! with the tests that reach it ([`run`]). Results are kept, so that a run can be stopped and resumed.

mod build;
mod list;
mod measure;
mod place;
mod process;
mod report;
mod run;
mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use build::{Built, Folders};
use list::{Mutant, Sample};
use report::{Reasons, Report};
use run::{Finding, Outcome, Run};

/// Minimum percentage of mutants that must be caught.
const LEAST: f64 = 95.0;

struct Options {
    /// Prefixes of the files whose mutants are run; empty for all.
    files: Vec<String>,
    /// Earlier outcomes that are run again.
    again: Vec<Outcome>,
    /// Test programs besides the unit tests: `core` of the root package, `ttsr-cli/cli` of another one.
    tests: Vec<String>,
    jobs: usize,
    /// Time limit for the tests of one mutant, in seconds.
    budget: f64,
    /// Maximum time of a test; longer ones are left out.
    longest: Duration,
    /// Number of mutants drawn from each module; `None` for all.
    sample: Option<usize>,
    /// Selects another sample.
    seed: u64,
    /// The date that the page of survivors gives.
    date: String,
    /// The folder of the copy and the results.
    scratch: PathBuf,
    /// Runs the previous build, even if the sources have changed.
    is_built: bool,
    /// Only prints the results.
    report: bool,
}

impl Options {
    fn of_arguments() -> Result<Options> {
        let mut options = Options {
            files: Vec::new(),
            again: Vec::new(),
            tests: Vec::new(),
            jobs: 2,
            budget: f64::INFINITY,
            longest: measure::LONGEST,
            sample: None,
            seed: 1,
            date: "an unknown date".into(),
            scratch: "target/mutants".into(),
            is_built: false,
            report: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .with_context(|| format!("{argument} of what?"))
            };
            match argument.as_str() {
                "--file" => options.files.push(value()?),
                "--again" => options.again.push(serde_json::from_value(value()?.into())?),
                "--test" => options.tests.push(value()?),
                "--jobs" => options.jobs = value()?.parse()?,
                "--budget" => options.budget = value()?.parse()?,
                "--longest" => options.longest = Duration::from_secs(value()?.parse()?),
                "--sample" => options.sample = Some(value()?.parse()?),
                "--seed" => options.seed = value()?.parse()?,
                "--date" => options.date = value()?,
                "--scratch" => options.scratch = value()?.into(),
                "--built" => options.is_built = true,
                "--report" => options.report = true,
                _ => bail!("{argument}: not known"),
            }
        }
        Ok(options)
    }

    fn wants(&self, mutant: &Mutant) -> bool {
        self.files.is_empty() || self.files.iter().any(|it| mutant.file.starts_with(it))
    }
}

fn main() -> Result<ExitCode> {
    let options = Options::of_arguments()?;
    std::fs::create_dir_all(&options.scratch)?;
    let scratch = std::fs::canonicalize(&options.scratch)?;
    let results = scratch.join("results.jsonl");
    let folders = Folders::at(&scratch);
    let sample = options.sample.map(|size| Sample {
        size,
        seed: options.seed,
    });
    let built = match options.is_built || options.report {
        true => Built::read(&folders)?,
        false => build::build(&folders, list::all()?, sample, &options.tests)?,
    };
    if !options.report {
        find(&options, &folders, &built, &results)?;
    }
    let findings = run::findings(&results);
    let reasons = Reasons::read(Path::new("tools/mutants/reasons.toml"))?;
    let report = Report {
        mutants: &built.mutants,
        unviable: &built.unviable,
        sample: built.sample,
        date: &options.date,
        findings: &findings,
        reasons: &reasons,
    };
    std::fs::write(scratch.join("survivors.md"), report.page())?;
    println!("{}", report.table(|it| it.file.clone()));
    println!("{}", report.table(|it| it.module().to_owned()));
    println!("{}", report.summary());
    let unexplained = report.unexplained();
    unexplained.iter().for_each(|it| println!("{}", it.name));
    println!(
        "{} survive without a reason; {}",
        unexplained.len(),
        scratch.join("survivors.md").display()
    );
    let stale = reasons.stale(&built.mutants);
    stale
        .iter()
        .for_each(|it| println!("tools/mutants/reasons.toml names no mutant: {it}"));
    let is_explained = unexplained.is_empty() && stale.is_empty();
    Ok(match is_explained && report.score() >= LEAST {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs the selected mutants that have no result.
fn find(options: &Options, folders: &Folders, built: &Built, results: &Path) -> Result<()> {
    let mutants = &built.mutants;
    let tests = measure::measure(folders, &built.programs, options.jobs, options.longest)?;
    let by_place = measure::by_place(&tests);
    let old = run::findings(results);
    let run = Run::new(
        &folders.tree,
        mutants,
        &tests,
        &by_place,
        numbers(built),
        options.budget,
    );
    // The build may have a larger sample than the one that is asked for.
    let sample = Sample {
        size: options.sample.unwrap_or(usize::MAX),
        ..built.sample.unwrap_or(Sample::ALL)
    };
    let is_written: BTreeSet<usize> = built.numbers.iter().map(|it| it.mutant).collect();
    let drawn = sample.draw(mutants, |it| is_written.contains(&it));
    let mut chosen: Vec<usize> = drawn.into_iter().collect();
    chosen.retain(|&it| options.wants(&mutants[it]) && is_open(&old, &mutants[it], &options.again));
    // A fixed pseudo-random order, so that a run that is stopped early has sampled all files.
    chosen.sort_by_cached_key(|&it| sample.rank(&mutants[it]));
    println!("{} mutants to run", chosen.len());
    // A mutant that survived earlier will probably survive again, so the check below does not apply.
    if options.again.is_empty() {
        run.can_fail(&chosen)?;
    }
    run.all(&chosen, results, options.jobs)
}

/// Returns each mutant's number with the first number of its place.
fn numbers(built: &Built) -> HashMap<usize, (u32, u32)> {
    let numbered = built.numbers.iter().zip(1..);
    numbered
        .map(|(it, number)| (it.mutant, (number, it.place)))
        .collect()
}

fn is_open(old: &BTreeMap<String, Finding>, mutant: &Mutant, again: &[Outcome]) -> bool {
    old.get(&mutant.key)
        .is_none_or(|it| again.contains(&it.outcome))
}
