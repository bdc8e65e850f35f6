//! The composition of the crate: the number of packages of the core, licences, sources, the places of `unsafe`, and
//! lazily built values.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// Maximum number of packages of the core besides the crate itself, those of this workspace included.
const MAX_PACKAGES: usize = 18;

/// The parts of `deny.toml` that these tests check.
#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: BTreeSet<String>,
}

#[derive(Deserialize)]
struct LockFile {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    source: Option<String>,
    checksum: Option<String>,
}

/// Returns the files below `folder` with that ending, as paths from the root of the repository.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut left = vec![root.join(folder)];
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|it| it.unwrap().path()),
            );
        } else if path.to_str().unwrap().ends_with(ending) {
            let path = path.strip_prefix(root).unwrap();
            found.push(path.to_str().unwrap().replace('\\', "/"));
        }
    }
    found.sort();
    found
}

/// Time is what the host passes in. `Instant::now` and `SystemTime::now` panic on `wasm32-unknown-unknown`.
#[test]
fn the_core_reads_no_clock() {
    let optional = ["src/harness/"];
    let mut readers = Vec::new();
    let folders = ["src", "crates/automata/src", "crates/views/src"];
    for path in folders.iter().flat_map(|folder| files(folder, ".rs")) {
        let is_core = !optional.iter().any(|start| path.starts_with(start));
        if !is_core || path.contains("/tests") {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            let line = line.trim();
            let names_clock = ["Instant", "SystemTime"].iter().any(|it| line.contains(it));
            if names_clock && !line.starts_with("//") {
                readers.push((path.clone(), number + 1));
            }
        }
    }
    assert!(readers.is_empty(), "{readers:?}");
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn deny() -> Deny {
    toml::from_str(&read("deny.toml")).unwrap()
}

fn locked() -> Vec<Locked> {
    let file: LockFile = toml::from_str(&read("Cargo.lock")).unwrap();
    file.package
}

/// Returns the output of cargo, run without network access.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the packages with their versions, without duplicates.
fn tree(features: &[&str], edges: &str) -> BTreeSet<String> {
    let format = [
        "tree", "--prefix", "none", "--format", "{p}|{l}", "--edges", edges,
    ];
    let features = match features {
        [] => &["--package", "ttsr"],
        features => features,
    };
    let lines = cargo(&[&format[..], features].concat());
    let lines = lines.lines().map(|line| line.trim_end_matches(" (*)"));
    let others = lines.filter(|line| !line.is_empty() && !is_ours(line));
    others.map(str::to_owned).collect()
}

/// Returns true for a package of this workspace.
fn is_ours(name: &str) -> bool {
    name.split(' ')
        .next()
        .is_some_and(|name| name == "ttsr" || name.starts_with("ttsr-"))
}

/// Returns true if a user may choose licences that are all in the list.
fn is_allowed(expression: &str, allow: &BTreeSet<String>) -> bool {
    // The expressions in use have at most one level of parentheses.
    let one = |license: &str| allow.contains(license.trim_matches([' ', '(', ')']));
    let any = |part: &str| part.replace('/', " OR ").split(" OR ").any(one);
    !expression.is_empty() && expression.split(" AND ").all(any)
}

#[test]
fn the_core_needs_few_packages() {
    let packages = tree(&[], "normal");
    let ours = ["ttsr-automata", "ttsr-views"];
    assert!(
        packages.len() + ours.len() <= MAX_PACKAGES,
        "{} packages and {ours:?}: {packages:#?}",
        packages.len()
    );
    // A tree that could not be read would also be small.
    assert!(
        packages
            .iter()
            .any(|line| line.starts_with("regex-automata "))
    );
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let direct = manifest["dependencies"].as_table().unwrap();
    let direct: Vec<&str> = direct
        .keys()
        .map(String::as_str)
        .filter(|it| is_ours(it))
        .collect();
    assert_eq!(direct, ours);
}

#[test]
fn the_core_has_no_async_runtime_and_no_command_line() {
    for package in tree(&[], "normal") {
        let name = package.split(' ').next().unwrap();
        assert!(
            !["tokio", "hyper", "clap", "futures-core"].contains(&name),
            "{name}"
        );
    }
}

#[test]
fn every_license_is_one_that_is_allowed() {
    let allow = deny().licenses.allow;
    let packages = tree(&["--workspace", "--all-features"], "normal,build,dev");
    assert!(packages.len() > 100, "{} packages", packages.len());
    for package in packages {
        let (package, license) = package.split_once('|').unwrap();
        assert!(
            is_allowed(license, &allow),
            "{package} is under `{license}`"
        );
    }
}

#[test]
fn a_license_that_asks_for_more_is_seen() {
    let allow = deny().licenses.allow;
    for allowed in [
        "MIT",
        "MIT OR GPL-3.0",
        "Unlicense/MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
    ] {
        assert!(is_allowed(allowed, &allow), "{allowed}");
    }
    for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "AGPL-3.0 OR SSPL-1.0"] {
        assert!(!is_allowed(refused, &allow), "{refused}");
    }
}

#[test]
fn every_package_comes_from_the_registry_and_is_what_it_was() {
    let registries = deny().sources.allow_registry;
    for package in locked().iter().filter(|package| !is_ours(&package.name)) {
        let source = package.source.as_deref().unwrap_or_default();
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        assert!(
            registries.contains(registry),
            "{} comes from `{source}`",
            package.name
        );
        assert!(
            package.checksum.is_some(),
            "{} has no checksum",
            package.name
        );
    }
}

#[test]
fn no_package_is_one_that_is_banned() {
    let banned = deny().bans.deny;
    assert!(!banned.is_empty());
    for package in locked() {
        let is_banned = banned.iter().any(|banned| banned.name == package.name);
        assert!(!is_banned, "{}", package.name);
    }
}

/// Collects the files below that folder that allow a lint that the crate denies.
fn allowing(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            allowing(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let is_test = path.components().any(|part| part.as_os_str() == "tests");
            if text.contains("(unsafe_code") && !is_test && !path.ends_with("models.rs") {
                found.push(path.display().to_string().replace('\\', "/"));
            }
        }
    }
}

/// The files with `unsafe` code, in this order, besides those of the modules in `table`.
const UNSAFE: [&str; 7] = [
    // Callers of unchecked steps, which own the states that they step.
    "crates/automata/src/lazy_dfa/search.rs",
    "crates/automata/src/lazy_dfa/short_input.rs",
    "crates/automata/src/lazy_dfa/speculative.rs",
    // Vector instructions.
    "crates/automata/src/prefilter/probe.rs",
    "crates/automata/src/suffix.rs",
    // Unchecked steps.
    "crates/automata/src/table.rs",
    // An allocator.
    "crates/proxy/src/allocator.rs",
];

#[test]
fn unsafe_is_denied_except_in_named_files() {
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    assert_eq!(
        manifest["workspace"]["lints"]["rust"]["unsafe_code"].as_str(),
        Some("deny")
    );
    let mut found = Vec::new();
    for folder in ["src", "crates"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        allowing(&folder, &mut found);
    }
    found.sort_unstable();
    let is_named = found.len() == UNSAFE.len()
        && found
            .iter()
            .zip(UNSAFE)
            .all(|(path, named)| path.ends_with(named));
    assert!(is_named, "{found:#?}");
}

/// Values built lazily while text is read. Each can be built for every set of rules: a value that depends on a pattern
/// must not turn out to be too large once text arrives.
const BUILT_LATE: [(&str, &str); 11] = [
    // A tree whose bytes were checked at load by the function that decodes them.
    ("crates/automata/src/encoding.rs", "OnceLock<Arc<Hir>>"),
    // Compiling a program cannot fail.
    ("src/program/lazy_pike.rs", "OnceLock<PikeVm>"),
    // A copy of the states of an existing automaton.
    ("crates/automata/src/lazy_dfa.rs", "OnceLock<BitNfa>"),
    // Constant tables of the crate.
    (
        "crates/automata/src/prefilter.rs",
        "static FREQUENCIES: LazyLock<",
    ),
    (
        "crates/automata/src/prefilter.rs",
        "static SHARING: LazyLock<",
    ),
    (
        "crates/views/src/detect/script.rs",
        "static RANGES: LazyLock<",
    ),
    (
        "crates/views/src/detect/script.rs",
        "static SMALL_WORDS: LazyLock<",
    ),
    (
        "crates/views/src/fold/unicode.rs",
        "static ASCII: LazyLock<",
    ),
    // The tables of programs by name.
    (
        "crates/views/src/command/program.rs",
        "static INDEX: LazyLock<",
    ),
    // Built at load unless `fits_alphabet` shows that building cannot fail.
    (
        "src/program.rs",
        "type LazyMatcher = LazyLock<Matcher, BuildMatcher>;",
    ),
    // The lengths that a matcher knows.
    ("src/program.rs", "reaches: OnceLock<RuleReaches>"),
];

#[test]
fn nothing_that_can_fail_is_built_while_text_is_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    for folder in [
        "crates/automata/src",
        "crates/views/src",
        "src/stream",
        "src/session",
        "src/ast",
        "src/pack/compile",
        "src/program",
    ] {
        sources(&root.join(folder), &mut |path, text| {
            let path = path.strip_prefix(root).unwrap().display().to_string();
            let path = path.replace('\\', "/");
            for line in text.lines().map(str::trim) {
                let types = ["OnceLock<", "LazyLock<", "OnceCell<", "LazyCell<"];
                let is_late = types.iter().any(|name| line.contains(name));
                if is_late && !line.starts_with("//") {
                    found.insert((path.clone(), line.to_owned()));
                }
                // Engines of other crates must be built at load.
                let is_engine = line.contains("meta::Regex") || line.contains("meta::Builder");
                let is_test = path.contains("tests");
                assert!(!is_engine || is_test, "{path}: {line}");
            }
        });
    }
    for (path, line) in &found {
        let is_known = |(known, part): &(&str, &str)| path == known && line.contains(part);
        assert!(BUILT_LATE.iter().any(is_known), "{path}: {line}");
    }
    for (path, part) in BUILT_LATE {
        let is_it = |(known, line): &(String, String)| known == path && line.contains(part);
        assert!(
            found.iter().any(is_it),
            "{path}: {part} is gone; take it out here"
        );
    }
}

/// Passes every Rust file below the folder, and the file of the module itself, to `on`.
fn sources(folder: &Path, on: &mut dyn FnMut(&Path, &str)) {
    let module = folder.with_extension("rs");
    if let Ok(text) = std::fs::read_to_string(&module) {
        on(&module, &text);
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, on);
        } else if path.extension().is_some_and(|end| end == "rs") {
            on(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
