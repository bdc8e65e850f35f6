//! The modules of the loop are layers: no module imports, directly or through others, a module that imports it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// For each module of the loop, the modules that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Reads the modules of a folder. A file `a.rs` and the files of the folder `a` are one module.
fn imports(folder: &Path) -> Imports {
    let mut sources = BTreeMap::<String, String>::new();
    let mut folders = vec![(folder.to_owned(), None::<String>)];
    while let Some((folder, module)) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let module = module.clone().unwrap_or(stem);
            if path.is_dir() {
                folders.push((path, Some(module)));
            } else if module != "mod" {
                *sources.entry(module).or_default() += &fs::read_to_string(path).unwrap();
            }
        }
    }
    let names: BTreeSet<String> = sources.keys().cloned().collect();
    let imported = |(name, source): (String, String)| {
        let mut imported = paths(&source);
        imported.retain(|path| names.contains(path) && *path != name);
        (name, imported)
    };
    sources.into_iter().map(imported).collect()
}

/// The first name after each `crate::harness::` and `super::`, outside comments and unit tests.
fn paths(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let after = |prefix: &'static str| code.split(prefix).skip(1).map(first_name);
    after("crate::harness::").chain(after("super::")).collect()
}

fn first_name(path: &str) -> String {
    let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    path.chars().take_while(is_name).collect()
}

/// Returns the modules of a cycle, if there is one: what is left after modules without imports are removed in turn.
fn cycle(mut imports: Imports) -> Vec<String> {
    loop {
        let lowest: Vec<String> = imports
            .iter()
            .filter(|(_, imported)| imported.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        if lowest.is_empty() {
            return imports.into_keys().collect();
        }
        for name in lowest {
            imports.remove(&name);
            imports.values_mut().for_each(|imported| {
                imported.remove(&name);
            });
        }
    }
}

#[test]
fn no_module_of_the_loop_imports_one_above_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/harness");
    let imports = imports(&folder);
    assert!(imports["turn"].contains("run") && imports["run"].contains("processor"));
    assert!(
        imports["processor"].contains("hooks"),
        "a folder's files count"
    );
    assert_eq!(cycle(imports), [""; 0]);
}

#[test]
fn a_cycle_is_found() {
    let module = |name: &str, imported: &[&str]| {
        let imported = imported.iter().map(|&name| name.to_owned()).collect();
        (name.to_owned(), imported)
    };
    let imports = [
        module("run", &["processor"]),
        module("processor", &["hooks", "step"]),
        module("hooks", &["run"]),
        module("step", &[]),
    ];
    assert_eq!(cycle(imports.into()), ["hooks", "processor", "run"]);
    assert_eq!(
        paths("use super::{a, b};\nuse crate::harness::step::Step;").len(),
        2
    );
}
