//! The list of mutants of cargo-mutants: the replaced spans and their replacements.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mutant {
    pub file: String,
    /// The replaced span.
    pub span: Span,
    pub replacement: String,
    pub genre: Genre,
    /// The name with its location: `src/verdict.rs:60:9: replace …`.
    pub name: String,
    function: Option<Function>,
    /// The name without lines and columns, which stays valid when lines move; see [`name_all`].
    #[serde(default)]
    pub key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Genre {
    BinaryOperator,
    FnValue,
    MatchArm,
    MatchArmGuard,
    StructField,
    UnaryOperator,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Span {
    pub start: Position,
    pub end: Position,
}

/// A line and column, counted from one; columns are characters.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Function {
    function_name: String,
    return_type: String,
}

impl Mutant {
    /// Returns the enclosing function, as cargo-mutants names it; empty outside of functions.
    pub fn function(&self) -> &str {
        self.function.as_ref().map_or("", |it| &it.function_name)
    }

    /// Returns true if the return type is `impl Trait`: another body would have another type.
    pub fn returns_inferred(&self) -> bool {
        let function = self.function.as_ref();
        function.is_some_and(|it| it.return_type.contains("impl "))
    }

    /// Returns the top-level module of the crate: `src/stream`, `crates/views/src/json`. Its files have this prefix.
    pub fn module(&self) -> &str {
        let root = self.file.find("src/").map_or(0, |at| at + "src/".len());
        let end = self.file[root..].find(['/', '.']);
        end.map_or(&self.file, |end| &self.file[..root + end])
    }
}

/// A pseudo-random order of mutants and the number of them that is drawn from each module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub size: usize,
    pub seed: u64,
}

impl Sample {
    /// Every mutant.
    pub const ALL: Sample = Sample {
        size: usize::MAX,
        seed: 0,
    };

    /// Returns the position of a mutant in the order. It depends on the name alone, so it survives changed lines, and a
    /// larger sample with the same seed contains the smaller one.
    pub fn rank(self, mutant: &Mutant) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, &mutant.key).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the first `size` mutants of each module among those that `can_run` accepts.
    pub fn draw(self, mutants: &[Mutant], can_run: impl Fn(usize) -> bool) -> BTreeSet<usize> {
        let mut order: Vec<usize> = (0..mutants.len()).filter(|&it| can_run(it)).collect();
        order.sort_by_cached_key(|&it| self.rank(&mutants[it]));
        let mut drawn: HashMap<&str, usize> = HashMap::new();
        order.retain(|&it| {
            let count = drawn.entry(mutants[it].module()).or_default();
            *count += 1;
            *count <= self.size
        });
        order.into_iter().collect()
    }
}

/// Returns every mutant of the package in the working directory.
pub fn all() -> Result<Vec<Mutant>> {
    let output = Command::new("cargo")
        .args(["mutants", "--workspace", "--list", "--json"])
        .output()
        .context("cargo-mutants is needed: cargo install --locked cargo-mutants")?;
    ensure!(
        output.status.success(),
        "cargo mutants --list: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut mutants: Vec<Mutant> = serde_json::from_slice(&output.stdout)?;
    name_all(&mut mutants);
    Ok(mutants)
}

/// Sets the keys: `src/verdict.rs: replace … in …`, with a number if several are equal: ` #2`.
fn name_all(mutants: &mut [Mutant]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for mutant in mutants {
        let what = mutant.name.splitn(4, ':').nth(3).unwrap_or(&mutant.name);
        let mut key = format!("{}:{what}", mutant.file);
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        if *count > 1 {
            key.push_str(&format!(" #{count}"));
        }
        mutant.key = key;
    }
}
