//! The mutants, as cargo-mutants lists them: what is changed, where, and into what. None is ours.

use std::collections::HashMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mutant {
    pub file: String,
    /// What is replaced.
    pub span: Span,
    pub replacement: String,
    pub genre: Genre,
    /// With its place: `src/verdict.rs:60:9: replace …`.
    pub name: String,
    function: Option<Function>,
    /// The same without lines and columns, so that it outlives changes above it: see [`name_all`].
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

/// Both count from one; columns are characters.
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
    /// The function it is in, as cargo-mutants names it; empty outside of functions.
    pub fn function(&self) -> &str {
        self.function.as_ref().map_or("", |it| &it.function_name)
    }

    /// `-> impl Iterator`: a type that is inferred from the body, so that another body makes another type.
    pub fn returns_inferred(&self) -> bool {
        let function = self.function.as_ref();
        function.is_some_and(|it| it.return_type.contains("impl "))
    }

    /// Returns the module whose mutants are summed up together: `automata`, `view`, ….
    pub fn module(&self) -> &str {
        if self.file.starts_with("crates/automata/") {
            return "automata";
        }
        let path = self.file.strip_prefix("src/").unwrap_or(&self.file);
        path.split(['/', '.']).next().unwrap_or(path)
    }
}

/// Every mutant of the package in the working directory.
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

/// `src/verdict.rs: replace … in …`, and which of those that are called the same: ` #2`.
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
