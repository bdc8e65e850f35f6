//! The modules of the loop are layers: no module imports, directly or through others, a module that imports it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ttsr_testing::source::{names_at_root, tokens, without_tests};

/// For each module of the loop, the modules that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Reads the modules of the loop. A file `a.rs` and the files of the folder `a` are one module.
fn imports(root: &Path) -> Imports {
    let mut imports = Imports::new();
    let mut folders = vec![(root.to_owned(), None::<String>, 1)];
    while let Some((folder, module, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let module = module.clone().unwrap_or_else(|| stem.clone());
            if path.is_dir() {
                folders.push((path, Some(module), depth + 1));
            } else {
                let source = fs::read_to_string(path).unwrap();
                let own = imports.entry(module).or_default();
                own.extend(imported_names(&source, depth));
            }
        }
    }
    let names: BTreeSet<String> = imports.keys().cloned().collect();
    for (name, imported) in &mut imports {
        imported.retain(|path| names.contains(path) && path != name);
    }
    imports
}

/// The first name of each path below `crate::harness` in a module that is `depth` levels below it, outside of comments
/// and unit tests.
fn imported_names(source: &str, depth: usize) -> BTreeSet<String> {
    let (kept, _) = without_tests(&tokens(source));
    let mut tokens = Vec::new();
    let mut rest = &kept[..];
    while let [first, others @ ..] = rest {
        // `names_at_root` calls the root `crate`: here it is `crate::harness`, and other paths of the crate lead out.
        let harness = ["crate", ":", ":", "harness", ":", ":"];
        let is_harness =
            rest.len() > harness.len() && rest.iter().zip(harness).all(|(a, b)| a == b);
        tokens.push(match first.as_str() {
            "crate" if !is_harness => "elsewhere".to_owned(),
            _ => first.clone(),
        });
        rest = if is_harness { &rest[4..] } else { others };
    }
    names_at_root(&tokens, depth)
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
    // One import more closes a cycle in the real graph.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/harness");
    let mut real = self::imports(&folder);
    real.get_mut("step").unwrap().insert("run".to_owned());
    let found = cycle(real);
    assert!(
        ["run", "step"]
            .iter()
            .all(|name| found.contains(&(*name).to_owned()))
    );
}

#[test]
fn imports_of_the_loop_are_found_however_they_are_written() {
    let source = "use super::{run::Run, step};\nuse crate::harness::hooks::Hook;\nuse crate::harness::{call::Gate, turn};
        use crate::{Channel, rule::Rule}; // use super::fallback;\n#[cfg(test)]\nmod tests { use super::reply; }";
    let names = imported_names(source, 1);
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        ["call", "hooks", "run", "step", "turn"]
    );
    let deeper = imported_names("use super::super::{run::Run, step}; use super::sibling;", 2);
    assert_eq!(deeper.into_iter().collect::<Vec<_>>(), ["run", "step"]);
}
