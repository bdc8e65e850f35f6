//! Measures the time of each test and the places it executes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::build::Folders;
use crate::process::{End, Process};

/// Default maximum time of a test. Slower ones are left out: each would be run for hundreds of mutants.
pub const LONGEST: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Test {
    pub program: PathBuf,
    pub name: String,
    pub seconds: f64,
    /// The first number of each executed place.
    pub reaches: BTreeSet<u32>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// Identifies the measured program. A changed program is measured again.
    stamp: (u64, u64),
    /// The maximum time of a test.
    longest: Duration,
    tests: Vec<Test>,
    left_out: Vec<String>,
}

/// Measures the tests of all programs that have changed. A test that takes longer than `longest` is left out.
pub fn measure(
    folders: &Folders,
    programs: &[(String, PathBuf)],
    jobs: usize,
    longest: Duration,
) -> Result<Vec<Test>> {
    let Folders { scratch, tree, .. } = folders;
    let mut all = Vec::new();
    for (name, program) in programs {
        // The number of random cases determines the time of a test and the places it reaches.
        let scale = std::env::var("TTSR_TEST_SCALE").unwrap_or_default();
        let file = scratch.join(format!("measured-{name}-{scale}.json"));
        let metadata = fs::metadata(program)?;
        let changed = metadata.modified()?.duration_since(UNIX_EPOCH)?;
        let stamp = (metadata.len(), changed.as_nanos() as u64);
        let old = fs::read(&file)
            .ok()
            .and_then(|it| serde_json::from_slice::<Kept>(&it).ok());
        let kept = match old {
            Some(old) if old.stamp == stamp && old.longest == longest => old,
            _ => {
                let (tests, left_out) = each(scratch, tree, program, jobs, longest)?;
                let new = Kept {
                    stamp,
                    longest,
                    tests,
                    left_out,
                };
                fs::write(&file, serde_json::to_vec(&new)?)?;
                new
            }
        };
        let seconds: f64 = kept.tests.iter().map(|it| it.seconds).sum();
        println!("{name}: {} tests in {seconds:.1} s", kept.tests.len());
        kept.left_out
            .iter()
            .for_each(|it| println!("    left out: {it}"));
        all.extend(kept.tests);
    }
    Ok(all)
}

fn each(
    scratch: &Path,
    tree: &Path,
    program: &Path,
    jobs: usize,
    longest: Duration,
) -> Result<(Vec<Test>, Vec<String>)> {
    let names = names(tree, program)?;
    let next = AtomicUsize::new(0);
    let found = Mutex::new((Vec::new(), Vec::new()));
    std::thread::scope(|scope| -> Result<()> {
        let work = |worker: usize| -> Result<()> {
            let reach = scratch.join(format!("reach-{worker}"));
            while let Some(name) = names.get(next.fetch_add(1, Relaxed)) {
                let one = measure_test(tree, program, name, &reach, longest)?;
                let mut found = found.lock().expect("no worker panics");
                match one {
                    Ok(test) => found.0.push(test),
                    Err(why) => found.1.push(format!("{name}: {why}")),
                }
            }
            Ok(())
        };
        let workers: Vec<_> = (0..jobs)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        workers
            .into_iter()
            .try_for_each(|it| it.join().expect("no worker panics"))
    })?;
    Ok(found.into_inner().expect("no worker panics"))
}

fn names(tree: &Path, program: &Path) -> Result<Vec<String>> {
    let output = std::process::Command::new(program)
        .args(["--list", "--format=terse"])
        .current_dir(tree)
        .output()?;
    ensure!(output.status.success(), "{} --list", program.display());
    let text = String::from_utf8(output.stdout)?;
    Ok(text
        .lines()
        .filter_map(|it| it.strip_suffix(": test"))
        .map(str::to_owned)
        .collect())
}

/// Runs one test twice: once unchanged for its time, once to record its places. The inner error is the reason why it
/// cannot be used.
fn measure_test(
    tree: &Path,
    program: &Path,
    name: &str,
    reach: &Path,
    longest: Duration,
) -> Result<Result<Test, &'static str>> {
    let process = Process {
        tree,
        program,
        tests: &[name],
        processor: longest,
        patience: 60 * longest,
    };
    // A test that takes no time still needs a process.
    let least = Duration::from_millis(2);
    let seconds = match process.run(("TTSR_MUTANT", "0".as_ref()))? {
        (End::Passed, spent) => spent.max(least),
        (End::Failed(_), _) => return Ok(Err("fails by itself")),
        (End::TimedOut(_), _) => return Ok(Err("takes too long")),
    };
    if seconds > longest {
        return Ok(Err("takes too long"));
    }
    let _ = fs::remove_file(reach);
    // A failure does not matter here: writing the file may disturb the test.
    process.run(("TTSR_MUTANT_REACH", reach.as_os_str()))?;
    let places = fs::read(reach).unwrap_or_default();
    let reaches = places
        .chunks_exact(4)
        .map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]));
    Ok(Ok(Test {
        program: program.to_owned(),
        name: name.to_owned(),
        seconds: seconds.as_secs_f64(),
        reaches: reaches.collect(),
    }))
}

/// Returns the tests that execute each place, fastest first.
pub fn by_place(tests: &[Test]) -> BTreeMap<u32, Vec<usize>> {
    let mut order: Vec<usize> = (0..tests.len()).collect();
    order.sort_by(|&one, &other| tests[one].seconds.total_cmp(&tests[other].seconds));
    let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for test in order {
        for &place in &tests[test].reaches {
            places.entry(place).or_default().push(test);
        }
    }
    places
}
