//! The list of mutants of cargo-mutants: the replaced spans and their replacements.

use std::collections::HashMap;
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

    /// Returns the module for the summary: `automata`, `views`, ….
    pub fn module(&self) -> &str {
        let path = self.file.strip_prefix("crates/");
        let path = path.or_else(|| self.file.strip_prefix("src/"));
        let path = path.unwrap_or(&self.file);
        path.split(['/', '.']).next().unwrap_or(path)
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
