//! Runs the tests that reach a mutant until one of them fails.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::list::{Genre, Mutant};
use crate::measure::Test;
use crate::process::{End, Process};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Caught,
    TimedOut,
    Survived,
    /// Survived because no test executes it.
    NotReached,
}

/// A line of the results file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finding {
    /// [`Mutant::key`].
    pub mutant: String,
    pub outcome: Outcome,
    /// The test that caught it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub seconds: f64,
}

/// The inputs of a run.
pub struct Run<'a> {
    pub tree: &'a Path,
    pub mutants: &'a [Mutant],
    pub tests: &'a [Test],
    /// Tests by the first number of a place, fastest first.
    pub by_place: &'a BTreeMap<u32, Vec<usize>>,
    /// Each mutant's number, and the first number of its place.
    pub numbers: HashMap<usize, (u32, u32)>,
    /// Time limit for the tests of one mutant, in seconds of the unmutated program.
    pub budget: f64,
    /// Tests that caught other mutants of the same function or file; tried first.
    catchers: Mutex<HashMap<String, Vec<usize>>>,
}

/// Maximum time limit for a batch of tests, in seconds of CPU time, unless twice its usual time is longer.
const LONGEST: f64 = 60.0;

/// Number of tests tried first because they caught mutants of the same function, and of the same file.
const CATCHERS: [usize; 2] = [3, 8];

impl<'a> Run<'a> {
    pub fn new(
        tree: &'a Path,
        mutants: &'a [Mutant],
        tests: &'a [Test],
        by_place: &'a BTreeMap<u32, Vec<usize>>,
        numbers: HashMap<usize, (u32, u32)>,
        budget: f64,
    ) -> Self {
        Run {
            tree,
            mutants,
            tests,
            by_place,
            numbers,
            budget,
            catchers: Mutex::default(),
        }
    }

    /// Runs `chosen` and appends the results to the file.
    pub fn all(&self, chosen: &[usize], results: &Path, jobs: usize) -> Result<()> {
        let file = Mutex::new(File::options().append(true).create(true).open(results)?);
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            loop {
                let at = next.fetch_add(1, Relaxed);
                let Some(&mutant) = chosen.get(at) else {
                    return Ok(());
                };
                let finding = self.run_mutant(mutant)?;
                let mut line = serde_json::to_vec(&finding)?;
                line.push(b'\n');
                file.lock().expect("no worker panics").write_all(&line)?;
                if at % 100 == 99 {
                    println!("{} of {}", at + 1, chosen.len());
                }
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|it| it.join().expect("no worker panics"))
        })
    }

    /// Checks that mutants can be caught: of the first twenty emptied functions that tests reach, one must be.
    pub fn can_fail(&self, chosen: &[usize]) -> Result<()> {
        let emptied = chosen.iter().filter(|&&it| {
            self.mutants[it].genre == Genre::FnValue
                && self.by_place.contains_key(&self.numbers[&it].1)
        });
        let mut tried = 0;
        for &mutant in emptied.take(20) {
            if self.run_mutant(mutant)?.outcome == Outcome::Caught {
                return Ok(());
            }
            tried += 1;
        }
        ensure!(tried == 0, "nothing is ever caught: mutants are not chosen");
        Ok(())
    }

    fn run_mutant(&self, index: usize) -> Result<Finding> {
        let mutant = &self.mutants[index];
        let (number, place) = self.numbers[&index];
        let started = Instant::now();
        let (mut outcome, mut by) = (Outcome::NotReached, None);
        for batch in self.batches(self.order(mutant, place)) {
            outcome = Outcome::Survived;
            match self.batch(number, &batch)? {
                End::Passed => continue,
                End::Failed(test) => (outcome, by) = (Outcome::Caught, Some(test)),
                End::TimedOut(test) => (outcome, by) = (Outcome::TimedOut, Some(test)),
            }
            let catcher = batch
                .iter()
                .find(|&&it| Some(&self.tests[it].name) == by.as_ref());
            if let (Some(&catcher), Outcome::Caught) = (catcher, outcome) {
                self.has_caught(mutant, catcher);
            }
            break;
        }
        Ok(Finding {
            mutant: mutant.key.clone(),
            outcome,
            by,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    fn has_caught(&self, mutant: &Mutant, test: usize) {
        let mut catchers = self.catchers.lock().expect("no worker panics");
        for (of, most) in neighbourhoods(mutant).into_iter().zip(CATCHERS) {
            let own = catchers.entry(of).or_default();
            own.retain(|&it| it != test);
            own.insert(0, test);
            own.truncate(most);
        }
    }

    /// Returns the tests that reach a place: those that caught neighbouring mutants, then the fastest.
    fn order(&self, mutant: &Mutant, place: u32) -> Vec<usize> {
        let reaching = self.by_place.get(&place).map_or(&[][..], Vec::as_slice);
        let mut order: Vec<usize> = Vec::new();
        let catchers = self.catchers.lock().expect("no worker panics");
        for of in neighbourhoods(mutant) {
            for test in catchers.get(&of).into_iter().flatten() {
                if reaching.contains(test) && !order.contains(test) {
                    order.push(*test);
                }
            }
        }
        drop(catchers);
        let seconds = |it: &usize| self.tests[*it].seconds;
        let mut spent: f64 = order.iter().map(seconds).sum();
        for test in reaching {
            if !order.contains(test) {
                spent += seconds(test);
                if spent > self.budget && !order.is_empty() {
                    break;
                }
                order.push(*test);
            }
        }
        order
    }

    /// Returns the batches of tests of one program that share a process. They start small, because most mutants are caught
    /// early.
    fn batches(&self, order: Vec<usize>) -> Vec<Vec<usize>> {
        let mut batches = Vec::new();
        let mut rest = order.into_iter().peekable();
        let mut most = 0.1;
        while rest.peek().is_some() {
            let mut spent = 0.0;
            let mut of_program: BTreeMap<&PathBuf, Vec<usize>> = BTreeMap::new();
            while let Some(test) = rest.next_if(|_| spent < most) {
                spent += self.tests[test].seconds;
                of_program
                    .entry(&self.tests[test].program)
                    .or_default()
                    .push(test);
            }
            batches.extend(of_program.into_values());
            most *= 3.0;
        }
        batches
    }

    fn batch(&self, number: u32, batch: &[usize]) -> Result<End> {
        let seconds: f64 = batch.iter().map(|&it| self.tests[it].seconds).sum();
        let tests: Vec<&str> = batch
            .iter()
            .map(|&it| self.tests[it].name.as_str())
            .collect();
        let process = Process {
            tree: self.tree,
            program: &self.tests[batch[0]].program,
            tests: &tests,
            processor: Duration::from_secs_f64(
                (5.0 * seconds + 0.5).min(LONGEST.max(2.0 * seconds)),
            ),
            // Generous: on a busy machine a process may wait for minutes, and only a deadlock waits forever.
            patience: Duration::from_secs_f64(20.0 * seconds + 300.0),
        };
        Ok(process.run(("TTSR_MUTANT", number.to_string().as_ref()))?.0)
    }
}

fn neighbourhoods(mutant: &Mutant) -> [String; 2] {
    let function = format!("{} {}", mutant.file, mutant.function());
    [function, mutant.file.clone()]
}

/// Returns the last result of each mutant in the results file.
pub fn findings(results: &Path) -> BTreeMap<String, Finding> {
    let text = fs::read_to_string(results).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Finding>(line).ok());
    lines.map(|it| (it.mutant.clone(), it)).collect()
}
