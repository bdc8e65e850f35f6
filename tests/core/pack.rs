//! Rule packs: the files that load, the files that are refused, and the messages for their authors.
//!
//! Each `tests/core/pack/*.toml` is loaded, and the output is compared with the `.txt` of the same name. Cases that
//! need files, folders or limits create them and compare in the same way. `UPDATE_GOLDEN=1` rewrites the golden files.

mod accepts;
mod any;
mod builtin;
mod compiled;
mod complaint;
mod compose;
mod file;
mod fragment;
mod key;
mod pattern;
mod rule;
mod schema;
mod shown;

use std::fs;
use std::path::{Path, PathBuf};

use ttsr::{Diagnostic, Level, Limits, LoadError, Pack, PackBuilder};

use ttsr_testing::Folder;

const HEADER: &str = "schema = 1\n[pack]\nname = \"demo\"\n";

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/core/pack")
}

/// Returns a minimal rule with that pattern table, and with more lines.
fn rule(id: &str, pattern: &str, more: &str) -> String {
    format!(
        "[rule.{id}]\ndescription = \"d\"\nmatch.any = [{pattern}]\nexamples.match = [\"x\"]\n{more}\n"
    )
}

fn with_rules(rules: &str) -> String {
    format!("{HEADER}{rules}")
}

/// Returns the text that an author sees.
fn shown(result: &Result<Pack, LoadError>) -> String {
    let diagnostics = match result {
        Ok(pack) => pack.warnings(),
        Err(error) => error.diagnostics(),
    };
    let mut text: String = diagnostics
        .iter()
        .map(|problem| problem.render() + "\n")
        .collect();
    match result {
        Ok(pack) => {
            text.push_str("loaded\n");
            for rule in pack.rules() {
                text.push_str(&format!("{rule:#?}\n"));
            }
        }
        Err(error) => text.push_str(&format!("not loaded: {:?}\n", error.kind())),
    }
    text
}

/// Compares `found` with the golden file `name.txt`, or writes it.
fn golden(name: &str, found: &str) {
    let path = golden_folder().join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        found,
        expected,
        "{} differs; UPDATE_GOLDEN=1 rewrites it",
        path.display()
    );
}

fn golden_pack(name: &str, builder: PackBuilder) {
    golden(name, &shown(&builder.build()));
}

fn errors(text: &str) -> Vec<Diagnostic> {
    let error = Pack::from_toml(text).expect_err(text);
    let errors = error
        .diagnostics()
        .iter()
        .filter(|problem| problem.level() == Level::Error);
    errors.cloned().collect()
}

fn error_codes(text: &str) -> Vec<&'static str> {
    errors(text).iter().map(Diagnostic::code).collect()
}

trait GoldenFolder {
    /// Loads the folder and compares the output, without the path of the folder.
    fn golden(&self, name: &str, limits: Limits);
}

impl GoldenFolder for Folder {
    fn golden(&self, name: &str, limits: Limits) {
        let result = Pack::builder().file(&self.0).limits(limits).build();
        golden(
            name,
            &shown(&result).replace(self.0.to_str().unwrap(), "rules"),
        );
    }
}

fn shown_problems(problems: &[Diagnostic]) -> String {
    let shown: Vec<String> = problems.iter().map(Diagnostic::render).collect();
    shown.join("\n")
}

fn golden_error(name: &str, builder: PackBuilder) {
    golden(
        name,
        &shown_problems(builder.build().unwrap_err().diagnostics()),
    );
}

fn pack_of(name: &str, head: &str, body: &str) -> String {
    format!("schema = 1\n[pack]\nname = \"{name}\"\n{head}\n{body}\n")
}
