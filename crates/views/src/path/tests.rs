//! The normal form of paths, and the files, tools and arguments of a scope.

use proptest::prelude::*;

use super::*;

fn globs(globs: &[&str]) -> Vec<String> {
    globs.iter().map(|&glob| glob.to_owned()).collect()
}

// ---- Paths ----

fn check_path(root: Option<&str>, cases: &[(&str, &str)]) {
    for &(path, expected) in cases {
        let normal = normalise(path, root);
        assert_eq!(normal, expected, "{path:?} under {root:?}");
        assert_eq!(
            normalise(&normal, root),
            normal,
            "{path:?} under {root:?}, twice"
        );
    }
}

#[test]
fn one_file_has_one_name_without_a_root() {
    check_path(
        None,
        &[
            ("src/a.rs", "src/a.rs"),
            ("./a/../b", "b"),
            ("a//b///c", "a/b/c"),
            ("src/", "src"),
            ("src\\a.rs", "src/a.rs"),
            ("..\\a.rs", "../a.rs"),
            ("a\\..\\..\\b", "../b"),
            ("../../a/./b", "../../a/b"),
            ("a/../../b/..", ".."),
            ("", "."),
            (".", "."),
            ("a/..", "."),
            ("./", "."),
            ("/", "/"),
            ("//", "/"),
            ("/etc/passwd", "/etc/passwd"),
            ("/../../etc", "/etc"),
            ("/a/../../b", "/b"),
            ("//./etc/passwd", "/etc/passwd"),
            ("//?/etc/passwd", "/?/etc/passwd"),
            ("\\\\server\\share\\a", "/server/share/a"),
            ("...", "..."),
            ("a/.../b", "a/.../b"),
        ],
    );
}

#[test]
fn what_is_no_separator_is_a_character() {
    let cases = [
        "%2e%2e/a",
        "a%2fb",
        "a\0b/c\0",
        " a / b ",
        "~/a",
        "$HOME/a",
        "漢字/é",
        "a:b",
        "A/a",
    ];
    check_path(None, &cases.map(|path| (path, path)));
    check_path(Some("/w"), &cases.map(|path| (path, path)));
}

#[test]
fn paths_are_relative_to_the_root_they_are_in() {
    check_path(
        Some("/proj/p"),
        &[
            ("/proj/p/src/a.rs", "src/a.rs"),
            ("src/a.rs", "src/a.rs"),
            ("../p/src/a.rs", "src/a.rs"),
            ("/proj/./p//src/../src/a.rs", "src/a.rs"),
            ("/proj/other/../p/a", "a"),
            ("\\proj\\p\\a", "a"),
            ("/proj/p", "."),
            ("/proj/p/", "."),
            ("", "."),
            ("/proj/pp/a", "/proj/pp/a"),
            ("/proj", "/proj"),
            ("/etc/passwd", "/etc/passwd"),
            ("../../etc/passwd", "/etc/passwd"),
            ("../../../../etc/passwd", "/etc/passwd"),
            ("../q", "/proj/q"),
            ("/PROJ/p/a", "/PROJ/p/a"),
            ("proj/p/a", "proj/p/a"),
        ],
    );
    check_path(
        Some("/proj//x/../p/"),
        &[("/proj/p/a", "a"), ("../p/a", "a")],
    );
    check_path(
        Some("/"),
        &[("/etc/passwd", "etc/passwd"), ("../a", "a"), ("/", ".")],
    );
    check_path(
        Some("proj/p"),
        &[("/proj/p/a", "/proj/p/a"), ("../a", "../a")],
    );
    check_path(Some(""), &[("../a", "../a")]);
}

#[test]
fn drives_are_absolute() {
    check_path(
        None,
        &[
            ("C:\\a\\b", "C:/a/b"),
            ("c:/a/../b", "C:/b"),
            ("c:\\..\\..\\a", "C:/a"),
            ("c:", "C:/"),
            ("\\\\?\\c:\\a", "C:/a"),
            ("\\\\.\\c:\\a", "C:/a"),
            ("c:a", "c:a"),
            ("./c:/a", "./c:/a"),
            ("a/../c:", "./c:"),
            ("1:/a", "1:/a"),
            ("1:/../a", "a"),
            ("1:", "1:"),
        ],
    );
    check_path(
        Some("c:\\Proj\\p"),
        &[
            ("C:\\Proj\\p\\src\\a.rs", "src/a.rs"),
            ("c:/proj/P/a", "a"),
            ("..\\p\\a", "a"),
            ("..\\..\\Windows", "C:/Windows"),
            ("D:\\Proj\\p\\a", "D:/Proj/p/a"),
            ("/Proj/p/a", "/Proj/p/a"),
            ("c:/a", "C:/a"),
        ],
    );
}

proptest! {
    #[test]
    fn any_path_has_one_name(
        path in "([./\\\\]|\\.\\.|[a-cA-C]|[cC]:|//\\?/|//\\./|w|é|\0){0,12}|\\PC{0,8}",
        root in proptest::option::of("(/|[cC]:/)?(w/?|\\.\\./|a/|[cC]:/){0,4}"),
    ) {
        let normal = normalise(&path, root.as_deref());
        prop_assert_eq!(normalise(&normal, root.as_deref()), normal.clone());
        prop_assert!(!normal.contains('\\') && !normal.contains("//") && !normal.is_empty());
        let names: Vec<&str> = normal.split('/').collect();
        prop_assert!(normal == "." || names[1..].iter().all(|&name| name != "."));
        let out = names.iter().take_while(|&&name| name == "..").count();
        prop_assert!(names[out..].iter().all(|&name| name != ".."), "{}", normal);
    }

    #[test]
    fn any_path_inside_the_root_is_found_there(
        inner in proptest::collection::vec("[a-c]{1,2}", 1..4),
        detour in "(\\./|x/\\.\\./|/|y/z/\\.\\./\\.\\./){0,3}",
    ) {
        let inner = inner.join("/");
        let ways = ["", "/proj/p/", "../p/", "/proj/p/../p/", "../../proj/p/", "\\proj\\p\\"];
        for way in ways {
            let detour = if way.is_empty() { detour.trim_start_matches('/') } else { &detour };
            prop_assert_eq!(normalise(&format!("{way}{detour}{inner}"), Some("/proj/p")), inner.clone());
        }
    }

    #[test]
    fn any_globs_and_paths_are_taken(texts in proptest::collection::vec("\\PC{0,12}", 0..4), path in ".{0,24}") {
        if let Ok(scope) = PathScope::new(&texts) {
            prop_assert!(scope.applies(Some(&path)).is_some());
            prop_assert!(scope.applies(None) != Some(false));
        }
        if let Ok(scope) = ToolScope::new(&texts) {
            prop_assert!(scope.applies(Some(&path)).is_some());
            prop_assert!(!texts.is_empty() || scope.applies(Some(&path)) == Some(true));
            prop_assert!(scope.applies(None) != Some(false));
        }
        if let Ok(scope) = ArgScope::new(&texts) {
            prop_assert!(!texts.is_empty() || scope.applies(&arg(&[&path])));
        }
    }
}

// ---- File scopes ----

fn check_scope(scope: &[&str], inside: &[&str], outside: &[&str]) {
    let globs = PathScope::new(&globs(scope)).unwrap();
    for path in inside {
        assert_eq!(
            globs.applies(Some(path)),
            Some(true),
            "{scope:?} has {path}"
        );
    }
    for path in outside {
        assert_eq!(
            globs.applies(Some(path)),
            Some(false),
            "{scope:?} has not {path}"
        );
    }
}

#[test]
fn a_glob_without_a_slash_is_the_name_of_a_file_anywhere() {
    check_scope(
        &["*.rs"],
        &["a.rs", "src/a.rs", "/out/a.rs", "../a.rs", "C:/a.rs", ".rs"],
        &["a.rs.bak", "a.rs/b", "a.RS", "."],
    );
    check_scope(
        &["Makefile"],
        &["Makefile", "a/b/Makefile"],
        &["makefile", "Makefile/a", "xMakefile"],
    );
    check_scope(&["v1."], &["v1.", "a/v1."], &["v1"]);
}

#[test]
fn a_star_stops_at_a_slash_and_two_do_not() {
    check_scope(
        &["src/*.rs"],
        &["src/a.rs"],
        &["src/a/b.rs", "a/src/b.rs", "/src/b.rs", "a.rs"],
    );
    check_scope(
        &["src/**/*.rs"],
        &["src/a.rs", "src/a/b/c.rs"],
        &["a/src/b.rs"],
    );
    check_scope(
        &["**/tests/**"],
        &["tests/a", "a/tests/b/c", "/x/tests/a"],
        &["tests", "mytests/a"],
    );
    check_scope(&["src/**"], &["src/a", "src/a/b"], &["src", "srca"]);
    check_scope(&["**"], &["a", "a/b", "/a", ".", "../a", "C:/a"], &[]);
    check_scope(&["src/?.rs"], &["src/a.rs"], &["src//.rs", "src/ab.rs"]);
}

#[test]
fn a_slash_at_the_end_is_everything_below() {
    check_scope(
        &["target/"],
        &["target/a", "a/target/b/c", "/x/target/a"],
        &["target", "a/target", "mytarget/a"],
    );
    check_scope(
        &["src/gen/"],
        &["src/gen/a", "src/gen/a/b"],
        &["src/gen", "a/src/gen/a"],
    );
}

#[test]
fn a_slash_at_the_start_is_the_root_or_outside_it() {
    check_scope(
        &["/etc/**"],
        &["/etc/passwd", "etc/passwd"],
        &["a/etc/passwd", "/x/etc/a"],
    );
    check_scope(
        &["/Cargo.toml"],
        &["Cargo.toml", "/Cargo.toml"],
        &["a/Cargo.toml"],
    );
    check_scope(&["/target/"], &["target/a"], &["a/target/a"]);
    check_scope(&["/"], &["a", "/a/b", "a/b"], &[]);
    check_scope(&["./src/*"], &["src/a"], &["src/a/b"]);
    check_scope(&["C:/Windows/**"], &["C:/Windows/a"], &["Windows/a"]);
}

#[test]
fn an_exclamation_mark_excludes_and_the_last_match_decides() {
    check_scope(
        &["**/*.rs", "!**/tests/**"],
        &["a.rs", "src/a.rs"],
        &["tests/a.rs", "a/tests/b.rs", "a.py"],
    );
    check_scope(
        &["!tests/", "*.rs"],
        &["tests/a.rs", "a.rs"],
        &["tests/a.py", "a.py"],
    );
    check_scope(
        &["*", "!*.md", "README.md"],
        &["a.rs", "README.md", "a/README.md"],
        &["a.md"],
    );
    check_scope(&["!*.md"], &["a.rs", "a/b"], &["a.md", "b/a.md"]);
    check_scope(&["\\!a"], &["!a"], &["a"]);
    check_scope(&[], &["a", "/a/b", "."], &[]);
}

#[test]
fn classes_and_alternatives() {
    check_scope(&["*.{js,ts}"], &["a.js", "b/a.ts"], &["a.jsx"]);
    check_scope(&["[a-c].rs", "[!a-c]x"], &["b.rs", "zx"], &["d.rs", "ax"]);
    check_scope(&["\\*.rs"], &["*.rs"], &["a.rs"]);
}

#[test]
fn odd_paths_are_matched_as_they_are() {
    check_scope(
        &["*.rs"],
        &["a\0b.rs", "%2e%2e/a.rs", "a\nb.rs"],
        &["a.rs\0"],
    );
    check_scope(&["!**/secret/**"], &["%2e/a"], &["a/secret/\0"]);
}

#[test]
fn without_a_path_only_scopes_that_exclude_can_tell() {
    let applies = |scope: &[&str]| PathScope::new(&globs(scope)).unwrap().applies(None);
    assert_eq!(applies(&[]), Some(true));
    assert_eq!(applies(&["!tests/"]), Some(true));
    assert_eq!(applies(&["!a", "!b"]), Some(true));
    assert_eq!(applies(&["*.rs"]), None);
    assert_eq!(applies(&["!tests/", "*.rs"]), None);
    assert_eq!(applies(&["**"]), None);
}

#[test]
fn globs_that_do_not_parse_are_errors() {
    for bad in ["[a", "{a", "a}", "[z-a]"] {
        assert!(PathScope::new(&globs(&[bad])).is_err(), "{bad}");
        assert!(
            PathScope::new(&globs(&["*", &format!("!{bad}")])).is_err(),
            "!{bad}"
        );
        assert!(ToolScope::new(&globs(&[bad])).is_err(), "{bad}");
        let excluded = format!("!{bad}");
        assert!(ToolScope::new(&globs(&[&excluded])).is_err(), "{bad}");
        assert!(
            ArgScope::new(&globs(&[&format!("a.{bad}")])).is_err(),
            "{bad}"
        );
    }
}

// ---- Tools ----

#[test]
fn tools_are_matched_whatever_their_case() {
    let cases: [(&[&str], &[&str], &[&str]); 6] = [
        (
            &["bash"],
            &["bash", "Bash", "BASH"],
            &["bash2", "mybash", ""],
        ),
        (&["Read", "write"], &["read", "Write"], &["edit"]),
        (
            &["mcp__github__*"],
            &["mcp__github__create_issue", "MCP__GitHub__x"],
            &["mcp__git__x"],
        ),
        (
            &["*bash"],
            &["functions.bash", "server/bash", "bash"],
            &["bash_output"],
        ),
        (&["*"], &["a", "a/b", "a.b", ""], &[]),
        (&[], &["a", "", "a/b"], &[]),
    ];
    for (scope, inside, outside) in cases {
        check_tools(scope, inside, outside);
    }
}

fn check_tools(scope: &[&str], inside: &[&str], outside: &[&str]) {
    let tools = ToolScope::new(&globs(scope)).unwrap();
    for name in inside {
        assert_eq!(tools.applies(Some(name)), Some(true), "{scope:?} {name}");
    }
    for name in outside {
        assert_eq!(tools.applies(Some(name)), Some(false), "{scope:?} {name}");
    }
}

#[test]
fn an_exclamation_mark_excludes_tools_as_it_excludes_files() {
    check_tools(&["!bash"], &["edit", "bash2", "a/b", ""], &["bash", "BASH"]);
    check_tools(
        &["!bash", "!mcp__*"],
        &["edit", "mcp_"],
        &["Bash", "MCP__x"],
    );
    check_tools(&["*", "!bash"], &["edit"], &["bash"]);
    check_tools(&["!bash", "*"], &["edit", "bash"], &[]);
    check_tools(
        &["mcp__*", "!mcp__git__*"],
        &["mcp__web"],
        &["mcp__git__log", "bash"],
    );
    check_tools(&["!*"], &[], &["bash", ""]);
    check_tools(&["\\!bash"], &["!bash"], &["bash"]);
    for (scope, unnamed) in [
        (&["bash"][..], None),
        (&["!bash"], Some(true)),
        (&["*", "!bash"], None),
        (&[], Some(true)),
    ] {
        let tools = ToolScope::new(&globs(scope)).unwrap();
        assert_eq!(tools.applies(None), unnamed, "{scope:?}");
    }
}

// ---- Arguments ----

fn arg(segments: &[&str]) -> ArgPath {
    let mut path = ArgPath::new(4096);
    for segment in segments {
        path.push(segment);
    }
    path
}

fn check_args(scope: &[&str], inside: &[&[&str]], outside: &[&[&str]]) {
    let args = ArgScope::new(&globs(scope)).unwrap();
    for segments in inside {
        assert!(args.applies(&arg(segments)), "{scope:?} has {segments:?}");
    }
    for segments in outside {
        assert!(
            !args.applies(&arg(segments)),
            "{scope:?} has not {segments:?}"
        );
    }
}

#[test]
fn a_glob_matches_the_whole_path_of_an_argument() {
    check_args(
        &["content"],
        &[&["content"]],
        &[&["a", "content"], &["content", "0"], &["Content"]],
    );
    check_args(
        &["a.b"],
        &[&["a", "b"]],
        &[&["a.b"], &["a"], &["b"], &["a", "b", "c"]],
    );
    check_args(&["a\\.b"], &[&["a.b"]], &[&["a", "b"]]);
    check_args(
        &["content", "new_string"],
        &[&["content"], &["new_string"]],
        &[&["old_string"]],
    );
    check_args(&[], &[&["a"], &["a", "b"], &[""]], &[]);
}

#[test]
fn alternates_may_hold_dots() {
    let (inside, outside) = (
        [
            &["content"][..],
            &["edits", "0", "new_string"],
            &["a", "b", "c"],
        ],
        [
            &["edits"][..],
            &["new_string"],
            &["a", "c"],
            &["content", "c"],
        ],
    );
    check_args(
        &["{content,edits.*.new_string}", "a.{b,{x,y.z}}.c"],
        &inside,
        &outside,
    );
    check_args(&["{a,b}.c"], &[&["a", "c"], &["b", "c"]], &[&["a"]]);
    let many = "{a,b.c}".repeat(7);
    assert!(ArgScope::new(&[many]).is_err(), "more than 64 globs");
}

#[test]
fn a_star_is_one_segment_or_part_of_one() {
    check_args(
        &["edits.*.new_text"],
        &[&["edits", "0", "new_text"], &["edits", "12", "new_text"]],
        &[
            &["edits", "new_text"],
            &["edits", "0", "1", "new_text"],
            &["edits", "0", "old_text"],
        ],
    );
    check_args(
        &["new_*"],
        &[&["new_text"], &["new_"], &["new_a/b.c"]],
        &[&["old"], &["new_a", "b"]],
    );
    check_args(&["*"], &[&["a"], &[""], &["a.b/c"]], &[&["a", "b"]]);
    check_args(
        &["{old,new}_?"],
        &[&["old_1"], &["new_x"]],
        &[&["old_12"], &["x_1"]],
    );
}

#[test]
fn two_stars_are_any_number_of_segments() {
    check_args(&["**"], &[&["a"], &["a", "b", "c"]], &[]);
    check_args(
        &["command.**"],
        &[&["command"], &["command", "0"], &["command", "a", "b"]],
        &[&["a", "command"], &["commands"]],
    );
    check_args(
        &["**.content"],
        &[&["content"], &["a", "0", "content"]],
        &[&["content", "0"]],
    );
    check_args(
        &["**.a.**.b"],
        &[
            &["a", "b"],
            &["x", "a", "y", "b"],
            &["a", "b", "a", "b"],
            &["a", "a", "b", "b"],
        ],
        &[&["a"], &["b", "a"], &["a", "b", "c"]],
    );
    let (deep, long) = (vec!["a"; 128], vec!["**.a"; 60].join(".") + ".b");
    check_args(&[&long], &[], &[&deep]);
}

#[test]
fn the_raw_haystack_is_chosen_by_its_name() {
    let mut raw = ArgPath::new(1);
    raw.set_raw();
    for (glob, expected) in [
        ("$raw", true),
        ("command", false),
        ("*", true),
        ("**", true),
    ] {
        assert_eq!(
            ArgScope::new(&globs(&[glob])).unwrap().applies(&raw),
            expected,
            "{glob}"
        );
    }
}

#[test]
fn a_truncated_path_is_in_every_scope() {
    let mut path = ArgPath::new(3);
    path.push("long");
    assert!(ArgScope::new(&globs(&["other"])).unwrap().applies(&path));
    path = ArgPath::new(4);
    path.push("long");
    assert!(!ArgScope::new(&globs(&["other"])).unwrap().applies(&path));
}

#[test]
fn the_keys_of_file_paths() {
    for key in [
        "path",
        "file_path",
        "filePath",
        "filename",
        "notebook_path",
        "target_file",
    ] {
        assert!(is_path_key(key), "{key}");
    }
    for key in ["Path", "paths", "file", "content", "", "0"] {
        assert!(!is_path_key(key), "{key}");
    }
}
