//! Checks that every test named in the docs exists: in the tables of `docs/harness.md` and in `docs/faults.md`, which is
//! generated here from `tests/data/faults.toml` (with `UPDATE_GOLDEN=1`).

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Collects every Rust and TOML file below the folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            _ if path.is_dir() => files(&path, found),
            Some("rs" | "toml") => found.push(path),
            _ => {}
        }
    }
}

/// Returns the names of test functions and cases in files below the folders.
fn names(folders: &[&str]) -> HashSet<String> {
    let mut paths = Vec::new();
    for folder in folders {
        files(&root().join(folder), &mut paths);
    }
    let mut names = HashSet::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        names.extend(if is_code { tests(&text) } else { cases(&text) });
    }
    names
}

fn tests(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in code.lines().map(str::trim) {
        is_test |= line == "#[test]" || line == "#[tokio::test]";
        let function = line
            .strip_prefix("async ")
            .unwrap_or(line)
            .strip_prefix("fn ")
            .and_then(|rest| rest.split('(').next());
        if let Some(function) = function {
            names.extend(is_test.then(|| function.to_owned()));
            is_test = false;
        }
    }
    names
}

fn cases(toml: &str) -> Vec<String> {
    let names = toml.lines().filter_map(|line| {
        let name = line.strip_prefix("name = \"")?;
        name.split('"').next()
    });
    names.map(str::to_owned).collect()
}

#[test]
fn each_test_that_a_row_names_exists() {
    let text = fs::read_to_string(root().join("docs/harness.md")).unwrap();
    let names = names(&["tests", "crates", "src/harness/conformance"]);
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let is_row = |cell: &str| {
            let (letter, number) = cell.split_at_checked(1).unwrap_or_default();
            ("A".."F").contains(&letter) && number.parse::<u32>().is_ok()
        };
        let [_, row, _, tests, _] = cells[..] else {
            continue;
        };
        if !is_row(row) {
            continue;
        }
        rows.push(row);
        for test in tests.split(", ").filter(|test| !test.is_empty()) {
            let test = test.trim_matches('`');
            assert!(
                names.contains(test),
                "{row} names `{test}`, which is no test"
            );
        }
    }
    let counts = [("A", 10), ("B", 7), ("C", 7), ("D", 4), ("E", 8)];
    let all = counts
        .into_iter()
        .flat_map(|(letter, count)| (1..=count).map(move |n| format!("{letter}{n}")));
    assert_eq!(rows, all.collect::<Vec<_>>());
}

#[test]
fn each_test_that_a_fault_names_exists() {
    let text = fs::read_to_string(root().join("docs/harness.md")).unwrap();
    let names = names(&["tests", "crates", "src/harness/conformance"]);
    let mut count = 0;
    for line in text.lines().filter(|line| line.starts_with("| F")) {
        let tests = line.split('|').nth(3).unwrap_or_default();
        for test in tests.split(',').map(|test| test.trim().trim_matches('`')) {
            assert!(names.contains(test), "`{test}` is no test: {line}");
            count += 1;
        }
    }
    assert!(count > 20, "the faults are gone: {count}");
}

#[test]
fn each_test_that_the_regressions_name_exists() {
    let text = include_str!("../data/regressions.toml");
    let comments = text.lines().filter_map(|line| line.strip_prefix("# "));
    let comments: Vec<&str> = comments.collect();
    let comments = comments.join(" ");
    let quoted = comments.split('`').skip(1).step_by(2);
    let named: Vec<&str> = quoted
        .filter(|name| name.contains('_') && !name.contains(['.', '/', ':']))
        .collect();
    assert!(named.len() > 25, "the list of tests is gone");
    let known = names(&["src", "tests", "crates"]);
    let missing: Vec<&&str> = named
        .iter()
        .filter(|&&name| !known.contains(name))
        .collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}

/// Environment variables that tests may read directly: they change a test or its scale, but skip nothing. A test that
/// needs a resource asks for it with `crates/testing/src/skip.rs`, which reports that it is missing.
const MAY_BE_READ: [&str; 15] = [
    "\"CARGO_HOME\"",
    "\"FUZZ_CASES\"",
    "\"HOME\"",
    "\"PATH\"",
    "\"TTSR_BLESS\"",
    "\"TTSR_E2E\"",
    "\"TTSR_E2E_BIN\"",
    "\"TTSR_E2E_KILLED\"",
    "\"TTSR_EQUALITY\"",
    "\"TTSR_TEST_SCALE\"",
    "\"TTSR_UPDATE_TABLES\"",
    "\"UPDATE_GOLDEN\"",
    "FILE",
    "INNER",
    "variable",
];

/// Returns the test functions of a file, each with its lines and the number of the first one.
fn bodies(code: &str) -> Vec<(usize, Vec<&str>)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if line.trim() != "#[test]" {
            continue;
        }
        let is_function = |line: &&str| line.trim_start().starts_with("fn ");
        let start = at + lines[at..].iter().position(is_function).unwrap();
        let indent = lines[start].len() - lines[start].trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let length = lines[start..].iter().position(|line| *line == end);
        let length = length.unwrap_or_else(|| panic!("no end: {}", lines[start]));
        found.push((start + 1, lines[start..=start + length].to_vec()));
    }
    found
}

/// Returns true if a line of code returns. The word in a string, a comment or a longer word does not count.
fn returns(line: &str) -> bool {
    let line = line.trim_start();
    let (_, arm) = line.split_once("=> ").unwrap_or_default();
    let (_, block) = line.split_once("{ ").unwrap_or_default();
    [line, arm, block].iter().any(|code| {
        let rest = code.strip_prefix("return");
        rest.is_some_and(|rest| rest.starts_with([' ', ';', '(']))
    })
}

/// Returns the line at which a test ends early without reporting that it is skipped.
fn silent_end(body: &[&str]) -> Option<usize> {
    (0..body.len()).find(|&at| {
        let near = &body[at.saturating_sub(2)..=at];
        let is_told = near
            .iter()
            .any(|line| line.contains("skip::") || line.contains("skip_or_"));
        returns(body[at]) && !is_told
    })
}

#[test]
fn no_test_ends_early_in_silence() {
    let mut paths = Vec::new();
    for folder in [
        "src",
        "tests",
        "crates",
        "fuzz/src",
        "fuzz/tests",
        "tools/oracle/src",
        "tools/mutants/src",
    ] {
        files(&root().join(folder), &mut paths);
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let (mut tests, mut skips) = (0, 0);
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let place = path.strip_prefix(root()).unwrap().display();
        for (line, body) in bodies(&text) {
            tests += 1;
            skips += usize::from(body.iter().any(|line| line.contains("skip::")));
            let end = silent_end(&body).map(|at| line + at);
            assert_eq!(end, None, "{place}: a test returns without `skip::`");
        }
        let place = place.to_string();
        let own = match place.starts_with("tests/") || place.contains("/tests") {
            true => text.as_str(),
            false => text
                .split_once("#[cfg(test)]")
                .map_or("", |(_, tests)| tests),
        };
        let own = own.lines().filter(|_| place != "tests/core/rows.rs");
        for line in own {
            let read = ["env::var(", "env::var_os("].iter().find_map(|call| {
                let (_, rest) = line.split_once(call)?;
                rest.split(')').next()
            });
            let is_known = read.is_none_or(|name| MAY_BE_READ.contains(&name));
            assert!(is_known, "{place}: `{line}` is for `skip::unless_set`");
        }
    }
    assert!(tests > 1_000 && skips > 15, "{tests} tests, {skips} skips");
}

/// Tests, each with true if it ends early without a report.
const ENDS: [(&str, bool); 6] = [
    ("fn a() {\n    if no() {\n        return;\n    }\n}", true),
    ("fn a() {\n    let Some(x) = x() else { return };\n}", true),
    (
        "fn a() {\n    if no() {\n        return println!(\"x\");\n    }\n}",
        true,
    ),
    (
        "fn a() {\n    let Some(x) = skip::corpus() else {\n        return;\n    };\n}",
        false,
    ),
    (
        "fn a() {\n    if no() {\n        return skip::test(\"x\");\n    }\n}",
        false,
    ),
    (
        "fn a() {\n    // return\n    b(\"return\");\n    returns();\n}",
        false,
    ),
];

#[test]
fn an_early_end_is_found() {
    for (code, is_silent) in ENDS {
        let body: Vec<&str> = code.lines().collect();
        assert_eq!(silent_end(&body).is_some(), is_silent, "{code}");
    }
}

/// An entry of `tests/data/faults.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    id: String,
    what: String,
    #[serde(default)]
    outcome: String,
    #[serde(default)]
    cases: Vec<String>,
    /// The reason why it does not apply.
    #[serde(default)]
    none: String,
}

fn faults() -> Vec<Fault> {
    #[derive(Deserialize)]
    struct Faults {
        line: Vec<Fault>,
    }
    let faults: Faults = toml::from_str(include_str!("../data/faults.toml")).unwrap();
    faults.line
}

/// Sections: letter, title, and number of the last row. Numbers continue over sections, except in the last one, which
/// lists defects of other projects.
const SECTIONS: [(char, &str, u32); 8] = [
    ('A', "Deltas and their encoding", 22),
    ('B', "Parts and their order", 36),
    ('C', "Tool input as JSON", 47),
    ('D', "Loading packs", 68),
    ('E', "Hooks, verdicts and the loop", 84),
    ('F', "Providers and their formats", 97),
    ('G', "Logs, crashes and resources", 110),
    ('H', "Defects of other projects", 17),
];

fn ids() -> Vec<String> {
    let mut ids = Vec::new();
    let mut first = 1;
    for (letter, _, last) in SECTIONS {
        if letter == 'H' {
            first = 1;
        }
        ids.extend((first..=last).map(|number| format!("{letter}{number}")));
        first = last + 1;
    }
    ids
}

fn written(faults: &[Fault]) -> String {
    let apply = faults.iter().filter(|fault| fault.none.is_empty());
    let cases: HashSet<&String> = faults.iter().flat_map(|fault| &fault.cases).collect();
    let shown = apply.count();
    let mut text = format!(
        "# Faults\n\n\
         Invalid inputs and failures of the environment, with the outcome of each and the tests that show it. {shown} of {} lines\n\
         have cases, {} by name; not applicable: {}, with the reason. The names are those of tests, and of cases in `tests/data` and\n\
         `src/harness/conformance`. The name of a case states the defect that it would reveal. Each case of\n\
         `tests/data` is run under many splits into deltas, and the hits must be the same under all of them.\n\n\
         `tests/core/rows.rs` generates this page from `tests/data/faults.toml` and checks that every case exists.\n\
         `UPDATE_GOLDEN=1 cargo test -p ttsr --test core rows` updates it.\n",
        faults.len(),
        cases.len(),
        faults.len() - shown,
    );
    for (letter, about, _) in SECTIONS {
        write!(text, "\n## {letter}. {about}\n\n").unwrap();
        text.push_str("| line | input or fault | outcome | cases |\n|---|---|---|---|\n");
        for fault in faults.iter().filter(|fault| fault.id.starts_with(letter)) {
            let Fault { id, what, .. } = fault;
            let (outcome, cases) = if fault.none.is_empty() {
                let cases: Vec<_> = fault.cases.iter().map(|case| format!("`{case}`")).collect();
                (fault.outcome.clone(), cases.join(", "))
            } else {
                (format!("does not apply: {}", fault.none), "–".to_owned())
            };
            writeln!(text, "| {id} | {what} | {outcome} | {cases} |").unwrap();
        }
    }
    text
}

#[test]
fn each_fault_has_its_cases_or_says_why_it_has_none() {
    let faults = faults();
    let found: Vec<&String> = faults.iter().map(|fault| &fault.id).collect();
    assert_eq!(found, ids().iter().collect::<Vec<_>>());
    let names = names(&["tests", "src", "crates"]);
    for fault in &faults {
        let Fault { id, cases, .. } = fault;
        let applies = fault.none.is_empty();
        assert_eq!(
            applies,
            !cases.is_empty(),
            "{id}: cases, or why there are none"
        );
        assert_eq!(applies, !fault.outcome.is_empty(), "{id}: an outcome");
        let distinct: HashSet<&String> = cases.iter().collect();
        assert_eq!(distinct.len(), cases.len(), "{id} names a case twice");
        for case in cases {
            assert!(
                names.contains(case),
                "{id} names `{case}`, which is no test"
            );
        }
    }
}

#[test]
fn the_table_of_faults_is_that_of_its_data() {
    let path = root().join("docs/faults.md");
    let text = written(&faults());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, text).unwrap();
    } else {
        let there = fs::read_to_string(path).unwrap_or_default();
        assert_eq!(there, text, "run again with UPDATE_GOLDEN=1");
    }
}
