//! Copies the crate, writes the mutants into the copy, and builds its tests once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::list::{Mutant, Sample};
use crate::write::{Numbered, Written, write};

/// The built test programs and the numbering of the mutants.
#[derive(Default, Serialize, Deserialize)]
pub struct Built {
    pub mutants: Vec<Mutant>,
    /// The sample that is written; `None` for all mutants.
    pub sample: Option<Sample>,
    /// The programs by their names for `--test` (the name of a library for its unit tests), with their paths.
    pub programs: Vec<(String, PathBuf)>,
    /// Mutants by number, from one.
    pub numbers: Vec<Numbered>,
    /// Mutants that do not compile.
    pub unviable: BTreeSet<usize>,
    /// Mutants that cannot be selected at run time.
    pub elsewhere: BTreeSet<usize>,
}

impl Built {
    /// Returns the result of the previous build.
    pub fn read(folders: &Folders) -> Result<Built> {
        let text = fs::read(folders.built()).context("nothing is built")?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn keep(&self, folders: &Folders) -> Result<()> {
        Ok(fs::write(folders.built(), serde_json::to_vec(self)?)?)
    }

    /// Starts with the mutants that did not compile in the previous build, because finding them takes several rounds.
    fn begin(folders: &Folders, mutants: Vec<Mutant>, sample: Option<Sample>) -> Built {
        let old = Built::read(folders).unwrap_or_default();
        let keys = old.unviable.iter().map(|&it| old.mutants[it].key.as_str());
        let keys: BTreeSet<&str> = keys.collect();
        let known = |it: &usize| keys.contains(mutants[*it].key.as_str());
        Built {
            unviable: (0..mutants.len()).filter(known).collect(),
            mutants,
            sample,
            ..Built::default()
        }
    }

    /// Returns the mutants to write: all or a sample of those that compile and can be selected at run time.
    fn chosen(&self) -> BTreeSet<usize> {
        let can_run = |it| !self.unviable.contains(&it) && !self.elsewhere.contains(&it);
        self.sample
            .unwrap_or(Sample::ALL)
            .draw(&self.mutants, can_run)
    }
}

/// The folders of a run.
pub struct Folders {
    pub scratch: PathBuf,
    pub tree: PathBuf,
    target: PathBuf,
}

impl Folders {
    pub fn at(scratch: &Path) -> Folders {
        Folders {
            scratch: scratch.to_owned(),
            tree: scratch.join("tree"),
            target: scratch.join("build"),
        }
    }

    fn built(&self) -> PathBuf {
        self.scratch.join("built.json")
    }
}

pub fn build(
    folders: &Folders,
    mutants: Vec<Mutant>,
    sample: Option<Sample>,
    tests: &[String],
) -> Result<Built> {
    copy(&folders.tree)?;
    let mut built = Built::begin(folders, mutants, sample);
    // One error may hide others, so several rounds are needed.
    for round in 1.. {
        let lines = write_all(&folders.tree, &mut built)?;
        let wrong = failing(folders, &lines)?;
        println!("round {round}: {} more mutants do not compile", wrong.len());
        if wrong.is_empty() {
            break;
        }
        built.unviable.extend(wrong);
        built.keep(folders)?;
    }
    built.programs = programs(folders, tests)?;
    built.keep(folders)?;
    Ok(built)
}

/// Copies all tracked and new files.
fn copy(tree: &Path) -> Result<()> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()?;
    ensure!(output.status.success(), "git ls-files failed");
    let output = String::from_utf8(output.stdout)?;
    let names: BTreeSet<&str> = output.split_terminator('\0').collect();
    for name in &names {
        // The sources are written below, with the mutants.
        let is_mutated = LIBRARIES
            .iter()
            .any(|library| Path::new(name).starts_with(library));
        if Path::new(name).is_file() && !is_mutated {
            write_if_changed(&tree.join(name), &fs::read(name)?)?;
        }
    }
    // A moved test would otherwise exist twice, and so would the rules of a moved file of a pack.
    for folder in ["tests", "rules"] {
        for file in sources(&tree.join(folder))? {
            let name = file.strip_prefix(tree)?.to_str();
            if name.is_none_or(|name| !names.contains(name)) {
                fs::remove_file(file)?;
            }
        }
    }
    Ok(())
}

/// Writes a file if its content differs. An unchanged modification time keeps cargo from rebuilding.
fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    fs::write(path, content).with_context(|| path.display().to_string())
}

/// The sources of the libraries that are mutated.
const LIBRARIES: [&str; 3] = ["src", "crates/automata/src", "crates/views/src"];

/// Their packages.
const PACKAGES: [&str; 3] = ["ttsr", "ttsr-automata", "ttsr-views"];

/// The mutants by file and line range.
type Lines = BTreeMap<String, Vec<(std::ops::Range<usize>, usize)>>;

/// Writes the sources with the chosen mutants that may compile, and renumbers them.
fn write_all(tree: &Path, built: &mut Built) -> Result<Lines> {
    loop {
        let known = built.elsewhere.len();
        let lines = write_chosen(tree, built)?;
        // A mutant that cannot be selected is replaced by another one in a sample.
        if built.sample.is_none() || built.elsewhere.len() == known {
            return Ok(lines);
        }
    }
}

fn write_chosen(tree: &Path, built: &mut Built) -> Result<Lines> {
    built.numbers.clear();
    let chosen = built.chosen();
    let mutants = &built.mutants;
    let mut of_file: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for index in chosen {
        of_file.entry(&mutants[index].file).or_default().push(index);
    }
    let mut lines = Lines::new();
    let mut files = Vec::new();
    for library in LIBRARIES {
        files.extend(sources(Path::new(library))?);
    }
    for file in files {
        let name = file.to_str().context("a path is text")?;
        let mut source = fs::read_to_string(&file)?;
        if let Some(here) = of_file.get(name) {
            let first = built.numbers.len() as u32 + 1;
            let Written {
                text,
                mutants,
                lines: own,
                elsewhere,
            } = write(&source, mutants, here, first).with_context(|| name.to_owned())?;
            source = text;
            lines.insert(
                name.to_owned(),
                own.into_iter()
                    .zip(mutants.iter().map(|it| it.mutant))
                    .collect(),
            );
            built.numbers.extend(mutants);
            built.elsewhere.extend(elsewhere);
        }
        if LIBRARIES
            .iter()
            .any(|library| file == Path::new(library).join("lib.rs"))
        {
            source.push_str("\nmod mutant;\npub(crate) use mutant::mutant;\n");
        }
        write_if_changed(&tree.join(name), source.as_bytes())?;
    }
    for library in LIBRARIES {
        let chooser = tree.join(library).join("mutant.rs");
        write_if_changed(&chooser, include_bytes!("choose.rs"))?;
    }
    Ok(lines)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|it| Ok(it?.path()))
        .collect::<Result<_>>()?;
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => found.extend(sources(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

fn cargo(folders: &Folders, command: &str) -> Command {
    let mut cargo = Command::new("cargo");
    // Mutants need not pass the lints.
    cargo
        .args([command, "--all-features", "--message-format=json"])
        .current_dir(&folders.tree)
        .env("CARGO_TARGET_DIR", &folders.target)
        .env("CARGO_INCREMENTAL", "1")
        .env("RUSTFLAGS", "--cap-lints=allow")
        .stderr(Stdio::inherit());
    cargo
}

/// Returns the mutants on whose lines the compiler reports errors.
fn failing(folders: &Folders, lines: &Lines) -> Result<BTreeSet<usize>> {
    let output = cargo(folders, "check")
        .args(PACKAGES.iter().flat_map(|package| ["-p", package]))
        .args(["--lib", "--profile=test"])
        .output()?;
    let mut wrong = BTreeSet::new();
    let mut of_none = String::new();
    for message in messages(&output.stdout) {
        let message = &message["message"];
        if message["level"] != "error" || message["spans"].as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        match blamed(message, lines) {
            Some(mutant) => {
                wrong.insert(mutant);
            }
            None => of_none.push_str(message["rendered"].as_str().unwrap_or_default()),
        }
    }
    if wrong.is_empty() && !output.status.success() {
        bail!("errors of no mutant:\n{of_none}");
    }
    Ok(wrong)
}

/// Returns the mutant to which an error points: its primary span, or else any other.
fn blamed(message: &Value, lines: &Lines) -> Option<usize> {
    let mut spans: Vec<&Value> = message["spans"].as_array()?.iter().collect();
    spans.sort_by_key(|it| it["is_primary"] != true);
    spans.into_iter().find_map(|span| {
        let line = span["line_start"].as_u64()? as usize;
        let here = lines.get(span["file_name"].as_str()?)?;
        let found = here.iter().find(|(range, _)| range.contains(&line));
        found.map(|&(_, mutant)| mutant)
    })
}

fn programs(folders: &Folders, tests: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let mut cargo = cargo(folders, "test");
    cargo.args(["--no-run", "--lib"]);
    for package in PACKAGES {
        cargo.args(["-p", package]);
    }
    for test in tests {
        // `core` of the root package, or `ttsr-cli/cli`.
        let name = match test.split_once('/') {
            Some((package, name)) => {
                cargo.args(["-p", package]);
                name
            }
            None => test,
        };
        cargo.args(["--test", name]);
    }
    let output = cargo.output()?;
    ensure!(output.status.success(), "the tests do not build");
    let mut found = Vec::new();
    for message in messages(&output.stdout) {
        let target = &message["target"];
        let (Some(path), Some(kind)) = (message["executable"].as_str(), target["kind"][0].as_str())
        else {
            continue;
        };
        match kind {
            "lib" => found.push((
                target["name"].as_str().unwrap_or_default().to_owned(),
                path.into(),
            )),
            "test" => found.push((
                target["name"].as_str().unwrap_or_default().to_owned(),
                path.into(),
            )),
            _ => {}
        }
    }
    Ok(found)
}

fn messages(output: &[u8]) -> Vec<Value> {
    let lines = output.split(|&byte| byte == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}
