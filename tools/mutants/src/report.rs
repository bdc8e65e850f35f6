//! Summarizes the results and writes the page of surviving mutants with their reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::list::{Mutant, Sample};
use crate::run::{Finding, Outcome};

/// The reasons why mutants survive, written by hand in `tools/mutants/reasons.toml`.
#[derive(Debug, Default, Deserialize)]
pub struct Reasons {
    #[serde(default)]
    group: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    reason: String,
    /// Functions whose survivors are all covered by the reason: `src/verdict.rs: Retry::of`.
    #[serde(default)]
    functions: BTreeSet<String>,
    /// Single mutants, by key.
    #[serde(default)]
    mutants: BTreeSet<String>,
}

impl Reasons {
    pub fn read(path: &Path) -> Result<Reasons> {
        match std::fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).with_context(|| path.display().to_string()),
            Err(_) => Ok(Reasons::default()),
        }
    }

    /// Returns the names that no mutant has: those of code that was renamed or removed.
    pub fn stale(&self, mutants: &[Mutant]) -> Vec<&str> {
        let functions: BTreeSet<String> = mutants.iter().map(function).collect();
        let keys: BTreeSet<&str> = mutants.iter().map(|it| it.key.as_str()).collect();
        let mut stale = Vec::new();
        for group in &self.group {
            let own = group.functions.iter();
            stale.extend(own.filter(|&it| !functions.contains(it)));
            let own = group.mutants.iter();
            stale.extend(own.filter(|&it| !keys.contains(it.as_str())));
        }
        stale.into_iter().map(String::as_str).collect()
    }

    fn of(&self, mutant: &Mutant) -> Option<usize> {
        let function = function(mutant);
        let single = |it: &Group| it.mutants.contains(&mutant.key);
        let groups = &self.group;
        groups.iter().position(single).or_else(|| {
            groups
                .iter()
                .position(|it| it.functions.contains(&function))
        })
    }
}

/// Returns the function of a mutant, as the reasons name it.
fn function(mutant: &Mutant) -> String {
    format!("{}: {}", mutant.file, mutant.function())
}

/// The result of each mutant.
pub struct Report<'a> {
    pub mutants: &'a [Mutant],
    pub unviable: &'a BTreeSet<usize>,
    /// The sample that was drawn; `None` if all mutants were.
    pub sample: Option<Sample>,
    /// The date of the run, for the page.
    pub date: &'a str,
    pub findings: &'a BTreeMap<String, Finding>,
    pub reasons: &'a Reasons,
}

#[derive(Default)]
struct Tally {
    mutants: usize,
    unviable: usize,
    not_run: usize,
    caught: usize,
    timed_out: usize,
    survived: usize,
    not_reached: usize,
    /// Those that survived or were not reached, and have a reason.
    explained: usize,
}

impl Tally {
    fn add(&mut self, fate: Fate, is_explained: bool) {
        self.mutants += 1;
        if let Fate::Run(Outcome::Survived | Outcome::NotReached) = fate {
            self.explained += usize::from(is_explained);
        }
        *match fate {
            Fate::Unviable => &mut self.unviable,
            Fate::NotRun => &mut self.not_run,
            Fate::Run(Outcome::Caught) => &mut self.caught,
            Fate::Run(Outcome::TimedOut) => &mut self.timed_out,
            Fate::Run(Outcome::Survived) => &mut self.survived,
            Fate::Run(Outcome::NotReached) => &mut self.not_reached,
        } += 1;
    }

    fn run(&self) -> usize {
        self.mutants - self.unviable - self.not_run
    }

    /// Returns the percentage of run mutants that were caught.
    fn score(&self) -> f64 {
        let caught = self.caught + self.timed_out;
        100.0 * caught as f64 / self.run().max(1) as f64
    }

    /// Returns the percentage that was caught of the run mutants that are not explained.
    fn score_of_unexplained(&self) -> f64 {
        let caught = self.caught + self.timed_out;
        100.0 * caught as f64 / (self.run() - self.explained).max(1) as f64
    }

    fn row(&self, name: &str) -> String {
        format!(
            "| {name} | {} of {} | {} | {} | {} | {} | {} | {:.1} % | {:.1} % |\n",
            self.run(),
            self.mutants - self.unviable,
            self.caught,
            self.timed_out,
            self.survived,
            self.not_reached,
            self.explained,
            self.score(),
            self.score_of_unexplained(),
        )
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unviable,
    NotRun,
    Run(Outcome),
}

impl Report<'_> {
    fn fate(&self, index: usize) -> Fate {
        if self.unviable.contains(&index) {
            return Fate::Unviable;
        }
        match self.findings.get(&self.mutants[index].key) {
            Some(finding) => Fate::Run(finding.outcome),
            None => Fate::NotRun,
        }
    }

    fn survivors(&self) -> impl Iterator<Item = &Mutant> {
        let survives = |index: &usize| {
            matches!(
                self.fate(*index),
                Fate::Run(Outcome::Survived | Outcome::NotReached)
            )
        };
        (0..self.mutants.len())
            .filter(survives)
            .map(|it| &self.mutants[it])
    }

    /// Returns the percentage of all run mutants that were caught.
    pub fn score(&self) -> f64 {
        self.tally().score()
    }

    fn add(&self, tally: &mut Tally, index: usize) {
        let is_explained = self.reasons.of(&self.mutants[index]).is_some();
        tally.add(self.fate(index), is_explained);
    }

    fn tally(&self) -> Tally {
        let mut all = Tally::default();
        (0..self.mutants.len()).for_each(|it| self.add(&mut all, it));
        all
    }

    /// Returns a sentence that tells how many mutants were run, and how they were drawn.
    pub fn summary(&self) -> String {
        let all = self.tally();
        let (run, of) = (all.run(), all.mutants - all.unviable);
        match self.sample {
            Some(Sample { size, seed }) => format!(
                "A sample of {run} of {of} mutants: at most {size} of each module, drawn with seed {seed}."
            ),
            None => format!("{run} of {of} mutants."),
        }
    }

    /// Returns a table by module or by file.
    pub fn table(&self, by: impl Fn(&Mutant) -> String) -> String {
        let mut rows: BTreeMap<String, Tally> = BTreeMap::new();
        for (index, mutant) in self.mutants.iter().enumerate() {
            self.add(rows.entry(by(mutant)).or_default(), index);
        }
        rows.retain(|_, tally| tally.run() > 0);
        let mut out = String::from(
            "| | run | caught | timed out | survived | not reached | explained | score | score without explained |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        rows.iter()
            .for_each(|(name, tally)| out += &tally.row(name));
        out + &self.tally().row("all")
    }

    /// Returns the survivors without a reason.
    pub fn unexplained(&self) -> Vec<&Mutant> {
        self.survivors()
            .filter(|it| self.reasons.of(it).is_none())
            .collect()
    }

    /// Returns the page of survivors.
    pub fn page(&self) -> String {
        let mut groups: BTreeMap<usize, Vec<&Mutant>> = BTreeMap::new();
        for mutant in self.survivors() {
            let group = self.reasons.of(mutant).unwrap_or(usize::MAX);
            groups.entry(group).or_default().push(mutant);
        }
        let mut out = format!("{HEAD}Run on {}. {}\n\n", self.date, self.summary());
        out += &self.table(|it| it.module().to_owned());
        for (group, mutants) in groups {
            let reason = self.reasons.group.get(group).map(|it| it.reason.trim());
            let reason = reason.unwrap_or("No reason is known: a test is missing.");
            let survivors = match mutants.len() {
                1 => "1 survivor".to_owned(),
                count => format!("{count} survivors"),
            };
            let _ = write!(out, "\n## {survivors}\n\n{reason}\n\n");
            mutants
                .iter()
                .for_each(|it| out += &format!("- `{}`\n", it.key));
        }
        out
    }
}

const HEAD: &str = "\
# Surviving mutants

Generated by `scripts/mutants` with the reasons from `tools/mutants/reasons.toml`. [trust.md](trust.md#mutation) describes
the method. The column *run* says how many of the mutants of a module were run. *Explained* are those that survived or
were not reached and have a reason below. The score is the percentage that was caught or timed out; the last column leaves
out those that are explained.

";
