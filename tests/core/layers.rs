//! The layers of the crate: the table in ARCHITECTURE.md names each top-level module and its imports: other top-level
//! modules, and crates of the workspace. The imports in the sources must be exactly those, and a module may import only
//! rows above its own, so there is no cycle. The table of the loops that step a state and the code map are compared, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ttsr_testing::source::{names_at_root, tokens, without_tests};

/// The imports of each top-level module.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The names of the crates of the workspace begin with this.
const CRATE: &str = "ttsr_";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of the table below that heading, in their order.
fn table(text: &str, heading: &str) -> Vec<(String, BTreeSet<String>)> {
    let heading = format!("\n## {heading}\n");
    let section = text.split(&heading).nth(1).expect("a section");
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let [name] = &quoted(cells[1])[..] else {
            panic!("one module in the first cell: {row}");
        };
        (name.clone(), quoted(cells[2]).into_iter().collect())
    });
    rows.collect()
}

/// The crates of the workspace that paths in these tokens begin with.
fn workspace_crates(tokens: &[String]) -> impl Iterator<Item = &String> {
    let is_path = |at: usize| tokens.get(at).is_some_and(|token| token == ":");
    let indexed = tokens.iter().enumerate();
    let names = indexed.filter(move |(at, name)| {
        name.starts_with(CRATE) && is_path(at + 1) && !(*at > 0 && is_path(at - 1))
    });
    names.map(|(_, name)| name)
}

/// The modules of `lib.rs`, and the module of each name that it re-exports.
fn exports(tokens: &[String], modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for at in 0..tokens.len() {
        let is_use = tokens[at] == "use" && at > 0 && tokens[at - 1] == "pub";
        let Some(module) = tokens
            .get(at + 1)
            .filter(|it| is_use && modules.contains(*it))
        else {
            continue;
        };
        for name in tokens[at + 2..].iter().take_while(|it| *it != ";") {
            exports.insert(name.clone(), module.clone());
        }
    }
    exports
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The imports of the library's top-level modules, tests left out.
fn imports() -> Imports {
    imports_of(&root().join("src"))
}

/// The imports of the top-level modules of the library in that folder, tests left out.
fn imports_of(src: &Path) -> Imports {
    let (lib, hidden) = without_tests(&tokens(&read(&src.join("lib.rs"))));
    let declared = lib.windows(3).filter(|it| it[0] == "mod" && it[2] == ";");
    let modules: BTreeSet<String> = declared.map(|it| it[1].clone()).collect();
    let exports = exports(&lib, &modules);
    let mut paths = Vec::new();
    sources(src, &mut paths);
    let mut files = Vec::new();
    let mut tests: BTreeSet<PathBuf> = hidden.iter().map(|name| src.join(name)).collect();
    for path in paths {
        let (kept, hidden) = without_tests(&tokens(&read(&path)));
        // The folder that submodules of this file are in.
        let folder = match path.file_stem().unwrap().to_str().unwrap() {
            "mod" | "lib" | "main" => path.parent().unwrap().to_owned(),
            _ => path.with_extension(""),
        };
        tests.extend(hidden.iter().map(|name| folder.join(name)));
        files.push((folder, kept));
    }
    let mut imports: Imports = modules
        .iter()
        .map(|it| (it.clone(), BTreeSet::new()))
        .collect();
    for (folder, kept) in files {
        let module: Vec<&str> = folder
            .strip_prefix(src)
            .unwrap()
            .iter()
            .map(|it| it.to_str().unwrap())
            .collect();
        let Some(top) = module.first().filter(|top| modules.contains(**top)) else {
            continue;
        };
        if tests.iter().any(|test| folder.starts_with(test)) {
            continue;
        }
        let crates = workspace_crates(&kept).cloned();
        imports.get_mut(*top).unwrap().extend(crates);
        for name in names_at_root(&kept, module.len()) {
            let target = exports.get(&name).unwrap_or(&name);
            let is_other = modules.contains(target) && target != top;
            if is_other {
                imports.get_mut(*top).unwrap().insert(target.clone());
            }
        }
    }
    imports
}

/// A cycle of modules, if there is one.
fn cycle(imports: &Imports) -> Option<Vec<String>> {
    fn visit<'i>(
        imports: &'i Imports,
        path: &mut Vec<&'i str>,
        done: &mut BTreeSet<&'i str>,
    ) -> bool {
        let last = *path.last().unwrap();
        for next in imports.get(last).into_iter().flatten() {
            if path.contains(&&**next) {
                path.push(next);
                return true;
            }
            path.push(next);
            if done.insert(next) && visit(imports, path, done) {
                return true;
            }
            path.pop();
        }
        false
    }
    let mut done = BTreeSet::new();
    imports.keys().find_map(|start| {
        let mut path = vec![start.as_str()];
        let is_found = visit(imports, &mut path, &mut done);
        is_found.then(|| path.into_iter().map(str::to_owned).collect())
    })
}

#[test]
fn the_root_exports_at_most_35_names_and_one_handle_for_hosts() {
    let (lib, _) = without_tests(&tokens(&read(&root().join("src/lib.rs"))));
    let declared = lib.windows(3).filter(|it| it[0] == "mod" && it[2] == ";");
    let modules: BTreeSet<String> = declared.map(|it| it[1].clone()).collect();
    let mut names = exports(&lib, &modules);
    names.retain(|name, _| name.starts_with(char::is_alphabetic));
    assert!(names.contains_key("Conversation"));
    assert!(names.len() <= 35, "{}: {names:?}", names.len());
    // The methods of `Conversation` exist again on `Session`, where nothing repeats a cut or holds text back.
    assert!(!names.contains_key("Session"));
}

#[test]
fn no_top_level_module_imports_itself_by_way_of_others() {
    assert_eq!(cycle(&imports()), None);
}

#[test]
fn each_layer_imports_what_the_table_says_and_only_layers_above_it() {
    let rows = table(&read(&root().join("ARCHITECTURE.md")), "Layers");
    assert_eq!(wrong_row(&rows, imports()), None);
}

#[test]
fn each_module_of_the_proxy_imports_what_its_table_says_and_only_rows_above_it() {
    let rows = table(&read(&root().join("ARCHITECTURE.md")), "The proxy");
    let src = root().join("crates/proxy/src");
    assert_eq!(wrong_row(&rows, imports_of(&src)), None);
    let mut paths = Vec::new();
    sources(&src.join("judge"), &mut paths);
    paths.push(src.join("judge.rs"));
    assert!(paths.len() > 5, "{paths:?}");
    for path in paths {
        let (kept, _) = without_tests(&tokens(&read(&path)));
        let transports = ["hyper", "tokio", "http_body_util", "std::net", "std::time"];
        let text = kept.concat();
        for transport in transports {
            let is_named = text.contains(&format!("{transport}::"));
            assert!(!is_named, "{}: {transport}", path.display());
        }
    }
}

/// The rows of the first table with this heading in its first cell, as trimmed cells. The text may be in doc comments.
fn cells<'t>(text: &'t str, first: &str) -> Vec<Vec<&'t str>> {
    let lines = text
        .lines()
        .map(|line| line.trim_start_matches("//!").trim());
    let head = format!("| {first} |");
    let after_head = lines.skip_while(|line| !line.starts_with(&head)).skip(2);
    let rows = after_head.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn both_tables_of_the_loops_that_step_a_state_have_the_same_rows() {
    let architecture = read(&root().join("ARCHITECTURE.md"));
    let src = root().join("crates/automata/src");
    let search = read(&src.join("lazy_dfa/search.rs"));
    let loops = cells(&architecture, "loop");
    assert_eq!(loops, cells(&search, "loop"));
    assert_eq!(loops.len(), 7, "the texts above the tables count them");
    for text in [&architecture, &search] {
        assert!(text.contains("Seven loops step a state: six that of a lazy DFA"));
    }
    for row in loops {
        let [name, file] = [row[0], row[1]].map(|cell| cell.trim_matches('`'));
        let function = name.rsplit("::").next().unwrap();
        let (kept, _) = without_tests(&tokens(&read(&src.join(file))));
        let mut pairs = kept.windows(2);
        let is_defined = pairs.any(|pair| pair[0] == "fn" && pair[1] == function);
        assert!(is_defined, "{name} is not in {file}");
    }
}

/// Returns the modules that the file of that folder declares, tests left out.
fn submodules(folder: &Path) -> Vec<String> {
    let files = [
        folder.with_extension("rs"),
        folder.join("lib.rs"),
        folder.join("mod.rs"),
    ];
    let file = files.iter().find(|file| file.exists());
    let (kept, _) = file.map_or_else(Default::default, |file| without_tests(&tokens(&read(file))));
    let declared = kept.windows(3).filter(|it| it[0] == "mod" && it[2] == ";");
    declared.map(|it| it[1].clone()).collect()
}

/// A row that lists modules of its folder lists all of them, except those with a row of their own.
#[test]
fn the_code_map_leaves_out_no_module_of_a_folder_whose_modules_it_lists() {
    let architecture = read(&root().join("ARCHITECTURE.md"));
    let rows = cells(&architecture, "place");
    let places: Vec<String> = rows.iter().flat_map(|row| quoted(row[0])).collect();
    let mut checked = 0;
    for row in &rows {
        let owned = quoted(row[1]);
        for folder in quoted(row[0]).iter().filter(|place| place.ends_with('/')) {
            let modules = submodules(&root().join(folder));
            if !modules.iter().any(|module| owned.contains(module)) {
                continue;
            }
            checked += 1;
            for module in modules {
                let own_places = [
                    format!("{folder}{module}/"),
                    format!("{folder}{module}.rs"),
                    format!("{module}.rs"),
                ];
                let has_row = places.iter().any(|place| own_places.contains(place));
                assert!(
                    has_row || owned.contains(&module),
                    "`{module}` is not in the row of `{folder}`"
                );
            }
        }
    }
    assert!(checked >= 14, "{checked}");
}

/// Returns the names in backticks.
fn quoted(cell: &str) -> Vec<String> {
    let names = cell.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// Returns the folder of the targets that a file belongs to, such as `benches` or `crates/wire/tests`.
fn own_folder(path: &str) -> String {
    let names: Vec<&str> = path.split('/').collect();
    let depth = if names[0] == "crates" { 3 } else { 1 };
    names[..depth].join("/")
}

/// Returns each source that a file includes by `#[path]` from another folder than its own, with the file.
fn foreign_includes(path: &Path) -> Vec<(String, String)> {
    let file = path.strip_prefix(root()).unwrap().to_str().unwrap();
    let file = file.replace('\\', "/");
    let text = read(path);
    let attributes = text.lines().map(str::trim);
    let included =
        attributes.filter_map(|line| line.strip_prefix("#[path = \"")?.strip_suffix("\"]"));
    let sources = included.map(|included| {
        let mut names: Vec<&str> = file.split('/').collect();
        names.pop();
        for name in included.split('/') {
            match name {
                ".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        names.join("/")
    });
    let foreign = sources.filter(|source| own_folder(source) != own_folder(&file));
    foreign.map(|source| (source, file.clone())).collect()
}

#[test]
fn the_table_of_included_sources_names_all_of_them() {
    let mut paths = Vec::new();
    for folder in ["benches", "crates", "examples", "src", "tests"] {
        sources(&root().join(folder), &mut paths);
    }
    let found: BTreeSet<_> = paths
        .iter()
        .flat_map(|path| foreign_includes(path))
        .collect();
    let architecture = read(&root().join("ARCHITECTURE.md"));
    let mut named = BTreeSet::new();
    for row in cells(&architecture, "source") {
        for source in quoted(row[0]) {
            named.extend(
                quoted(row[1])
                    .into_iter()
                    .map(|file| (source.clone(), file)),
            );
        }
    }
    assert_eq!(found, named);
}

/// Returns what is wrong with the rows of a table. They must name exactly these modules and the crates that they import,
/// and each must have the imports of its module, all of which are rows above it.
fn wrong_row(rows: &[(String, BTreeSet<String>)], mut imports: Imports) -> Option<String> {
    let crates: Vec<String> = imports.values().flatten().cloned().collect();
    for name in crates.into_iter().filter(|name| name.starts_with(CRATE)) {
        // Cargo refuses a crate that depends on this one, so a crate imports no module.
        imports.insert(name, BTreeSet::new());
    }
    let named: BTreeSet<&String> = rows.iter().map(|(name, _)| name).collect();
    let modules: BTreeSet<&String> = imports.keys().collect();
    if named != modules {
        return Some(format!("the rows are {named:?}, the modules {modules:?}"));
    }
    if rows.len() != named.len() {
        return Some("a module has two rows".to_owned());
    }
    let mut above = BTreeSet::new();
    for (name, listed) in rows {
        let later: Vec<_> = listed.difference(&above).collect();
        if !later.is_empty() {
            return Some(format!("`{name}` is not below {later:?}"));
        }
        let found = &imports[name];
        if found != listed {
            return Some(format!(
                "`{name}` imports {found:?}, its row has {listed:?}"
            ));
        }
        above.insert(name.clone());
    }
    None
}

/// The graph of these edges.
fn graph(edges: &[(&str, &str)]) -> Imports {
    let mut imports = Imports::new();
    for (from, to) in edges {
        let own = imports.entry((*from).to_owned()).or_default();
        own.insert((*to).to_owned());
        imports.entry((*to).to_owned()).or_default();
    }
    imports
}

#[test]
fn a_table_with_a_wrong_order_or_a_missing_import_is_refused() {
    let row = |name: &str, listed: &[&str]| {
        let listed = listed.iter().map(|&name| name.to_owned()).collect();
        (name.to_owned(), listed)
    };
    let wrong = |rows: &[(String, BTreeSet<String>)]| {
        wrong_row(rows, graph(&[("b", "a"), ("c", "a"), ("c", "ttsr_x")]))
    };
    let [a, b, c] = [row("a", &[]), row("b", &["a"]), row("c", &["a", "ttsr_x"])];
    let x = row("ttsr_x", &[]);
    assert_eq!(wrong(&[x.clone(), a.clone(), b.clone(), c.clone()]), None);
    let order = [x.clone(), b.clone(), a.clone(), c.clone()];
    assert_eq!(wrong(&order).unwrap(), "`b` is not below [\"a\"]");
    let unlisted = [x.clone(), a.clone(), b.clone(), row("c", &["ttsr_x"])];
    assert_eq!(
        wrong(&unlisted).unwrap(),
        "`c` imports {\"a\", \"ttsr_x\"}, its row has {\"ttsr_x\"}"
    );
    let unused = [
        x.clone(),
        a.clone(),
        b.clone(),
        row("c", &["a", "b", "ttsr_x"]),
    ];
    assert!(wrong(&unused).unwrap().starts_with("`c` imports"));
    assert!(
        wrong(&[a.clone(), b.clone(), c.clone()]).is_some(),
        "no row of the crate"
    );
    assert!(
        wrong(&[x, a.clone(), a, b, c]).is_some(),
        "two rows of a module"
    );
}

#[test]
fn imports_are_found_however_they_are_written() {
    let at_root = |text: &str, depth| {
        let (kept, _) = without_tests(&tokens(text));
        names_at_root(&kept, depth).into_iter().collect::<Vec<_>>()
    };
    for (text, depth, names) in [
        ("use crate::pack::Pack;", 1, &["pack"][..]),
        (
            "use crate::{pack::{Pack, x}, Rule, scan};",
            1,
            &["Rule", "pack", "scan"],
        ),
        (
            "fn f() -> crate::stream::Hits { crate::scan() }",
            2,
            &["scan", "stream"],
        ),
        ("use super::super::session::Session;", 2, &["session"]),
        ("use self::super::session::Session;", 1, &["session"]),
        ("use super::session::Session;", 2, &[]),
        (
            "// crate::a\n/* crate::b */ let x = \"crate::c\"; r#\"crate::\"d\"#; '\"'; '\\''; crate::e::f;",
            1,
            &["e"],
        ),
        (
            "#[cfg(test)]\nmod tests { use crate::a; }\nuse crate::b;",
            1,
            &["b"],
        ),
        ("#[cfg(test)]\nuse crate::{a, c};\nuse crate::b;", 1, &["b"]),
        (
            "#[cfg(all(test, feature = \"x\"))]\nfn f(a: [u8; 2]) { crate::a() }\ncrate::b!()",
            1,
            &["b"],
        ),
        ("#[cfg(not(test))]\nuse crate::a;", 1, &["a"]),
    ] {
        assert_eq!(at_root(text, depth), names, "{text}");
    }
    let crates = tokens("use ttsr_a::{x, ttsr_b::y}; use z::ttsr_c::y; let ttsr_d = ttsr_e::f();");
    let crates: Vec<&String> = workspace_crates(&crates).collect();
    assert_eq!(crates, ["ttsr_a", "ttsr_b", "ttsr_e"]);
    let (_, hidden) = without_tests(&tokens("#[cfg(test)]\nmod tests;\nmod other;"));
    assert_eq!(hidden.into_iter().collect::<Vec<_>>(), ["tests"]);
}

#[test]
fn a_cycle_is_found() {
    assert_eq!(cycle(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
    let found = cycle(&graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")]));
    assert_eq!(found.unwrap(), ["a", "b", "c", "d", "b"]);
    // One import more closes a cycle in the real graph.
    let mut real = imports();
    assert!(real["session"].contains("stream") && !real["stream"].contains("session"));
    let stream = real.get_mut("stream").unwrap();
    stream.insert("session".to_owned());
    let found = cycle(&real).unwrap();
    assert!(
        ["session", "stream"]
            .iter()
            .all(|name| found.contains(&(*name).to_owned()))
    );
}
