//! Scopes on tools and files, as `scan`, `explain`, `replay` and `check` apply them.

use std::fs;
use std::path::PathBuf;

use super::{stdout, ttsr};

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ttsr-scopes-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the command and returns its standard output.
fn run(args: &[&str]) -> String {
    let output = ttsr(args.iter().copied()).output().unwrap();
    stdout(&output).to_owned()
}

/// Returns the sorted ids of the rules in the JSON lines that `select` accepts.
fn ids(lines: &str, select: fn(&serde_json::Value) -> bool) -> Vec<String> {
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let selected = lines.filter(select);
    let mut ids: Vec<String> = selected
        .map(|line: serde_json::Value| line["rule"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

fn is_hit(line: &serde_json::Value) -> bool {
    line["event"] == "hit"
}

#[test]
fn scan_hits_the_rules_that_explain_calls_live() {
    let folder = Folder::new("live");
    let mut rules = "schema = 1\n[pack]\nname = \"p\"\n".to_owned();
    let channels = [
        "text",
        "reasoning",
        "tool-input",
        "tool-output",
        "user-input",
        "error",
    ];
    for (number, tools) in ["['bash']", "['!bash']", "['*', '!re*']", "['read', 'b*']"]
        .iter()
        .enumerate()
    {
        rules += &format!(
            "[rule.r{number}]\ndescription = 'd'\naction = 'observe'\non = {channels:?}\n\
             tools = {tools}\nmatch.any = [{{ literal = 'xx' }}]\nexamples.match = ['xx']\n"
        );
    }
    let pack = folder.write("pack.toml", &rules);
    let text = folder.write("text.txt", "an xx");
    let mut seen = 0;
    for channel in channels {
        for tool in ["bash", "Bash", "read", "edit"] {
            let place = ["--channel", channel, "--tool", tool, "--format", "json"];
            let scan = ["scan", "--pack", &pack, &text];
            let hit = ids(&run(&[&scan[..], &place].concat()), is_hit);
            let explain = ["explain", "--pack", &pack];
            let live = run(&[&explain[..], &place].concat());
            let live = ids(&live, |line| line["live"] == true);
            assert_eq!(hit, live, "{channel} {tool}");
            seen += hit.len();
        }
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn an_allow_ends_on_its_last_day_by_the_systems_clock_or_the_day_that_is_given() {
    let folder = Folder::new("until");
    let rules = "schema = 1\n[pack]\nname = 'p'\n[rule.r]\ndescription = 'd'\n\
                 match.any = [{ literal = 'xx' }]\nexamples.match = ['xx']\n\
                 [[allow]]\nrules = ['p/r']\ntext = ['xx']\nreason = 'r'\nuntil = 2001-01-31\n";
    let pack = folder.write("pack.toml", rules);
    let text = folder.write("text.txt", "an xx");
    let scan = ["scan", "--format", "json", "--pack", &pack, &text];
    let check = ["check", "--format", "json", &pack];
    for (day, has_ended) in [
        (&[][..], true),
        (&["--today", "2001-02-01"], true),
        (&["--today", "2001-01-31"], false),
        (&["--today=2000-12-31"], false),
    ] {
        let hits = ids(&run(&[&scan[..], day].concat()), is_hit);
        assert_eq!(hits.len(), usize::from(has_ended), "{day:?}");
        let told = run(&[&check[..], day].concat());
        assert_eq!(told.contains("expired-allow"), has_ended, "{day:?} {told}");
    }
    let output = ttsr(["check", &pack, "--today", "tomorrow"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Tests paths as models write them against `infra/**` and `/etc/**`, in a workspace that is given to the command or
/// found by it.
#[test]
fn absolute_paths_are_relative_to_the_workspace_in_every_command() {
    let folder = Folder::new("root");
    let rules = "schema = 1\n[pack]\nname = 'p'\n\
         [rule.infra]\ndescription = 'd'\non = ['tool-input']\npaths = ['infra/**']\n\
         match.any = [{ literal = 'xx' }]\nexamples.match = ['xx']\n\
         [rule.etc]\ndescription = 'd'\non = ['tool-input']\npaths = ['/etc/**']\n\
         match.any = [{ literal = 'xx' }]\nexamples.match = ['xx']\n";
    let pack = folder.write("pack.toml", rules);
    folder.write("repo/.git", "gitdir: elsewhere\n");
    folder.write("repo/sub/x", "");
    folder.write("plain/x", "");
    let at = |path: &str| folder.0.join(path).to_str().unwrap().to_owned();
    let (repo, plain) = (at("repo"), at("plain"));
    let root = format!("--root={repo}");
    // The working folder, the arguments, and the resulting root.
    let places = [
        ("repo", None, &*repo),
        ("repo/sub", None, &repo),
        ("plain", None, &plain),
        ("plain", Some(root.as_str()), &repo),
        ("plain", Some("--root=../repo"), &repo),
        ("repo/sub", Some("--root=/srv/elsewhere"), "/srv/elsewhere"),
    ];
    for (place, told, root) in places {
        let files = [
            (format!("{root}/infra/main.tf"), vec!["p/infra"]),
            ("infra/main.tf".to_owned(), vec!["p/infra"]),
            (format!("{root}/x/../infra/a"), vec!["p/infra"]),
            (format!("{root}2/infra/main.tf"), vec![]),
            ("/etc/passwd".to_owned(), vec!["p/etc"]),
            (format!("{root}/etc/passwd"), vec!["p/etc"]),
            ("/elsewhere/infra/a".to_owned(), vec![]),
        ];
        for (file, expected) in files {
            let input = serde_json::json!({ "path": file, "content": "xx" }).to_string();
            let call = folder.write("call.json", &input);
            let delta = serde_json::json!({
                "t": 1, "ch": "tool-input", "part": "0", "tool": "write", "d": input,
            });
            let recording = folder.write("recording.ndjson", &format!("{delta}\n"));
            let commands = [
                vec!["scan", "--tool", "write", "--format", "json", &call],
                vec![
                    "scan", "--path", &file, "--tool", "write", "--format", "json", &call,
                ],
                vec!["replay", "--format", "json", &recording],
                vec![
                    "explain", "--tool", "write", "--path", &file, "--format", "json",
                ],
                vec![
                    "run",
                    "--provider",
                    "scripted",
                    "--script",
                    &recording,
                    "--format",
                    "json",
                    "x",
                ],
            ];
            for mut args in commands {
                args.splice(1..1, ["--pack", &pack]);
                args.splice(1..1, told);
                let mut command = ttsr(args.iter().copied());
                let output = command.current_dir(at(place)).output().unwrap();
                let shown = stdout(&output);
                let found = match args[0] {
                    "explain" => ids(shown, |line| line["live"] == true),
                    "run" => ids(shown, |line| line["rule"].is_string()),
                    _ => ids(shown, is_hit),
                };
                assert_eq!(found, expected, "{args:?} in {place}: {shown}");
            }
        }
    }
    for command in ["scan", "explain", "replay", "watch", "run"] {
        assert!(
            run(&[command, "--help"]).contains("--root <DIR>"),
            "{command}"
        );
    }
}

/// `ttsr test` and `explain --text` use a tool of the rule for an example on `tool-output`.
#[test]
fn an_example_of_tool_output_is_the_output_of_a_tool_of_the_rule() {
    let folder = Folder::new("output");
    let rules = "schema = 1\n[pack]\nname = 'p'\n[rule.r]\ndescription = 'd'\naction = 'append'\n\
                 on = ['tool-output']\ntools = ['!tool', '!x']\nmatch.any = [{ literal = 'xx' }]\n\
                 examples.match = ['xx']\nexamples.no-match = ['x']\n\
                 [rule.s]\ndescription = 'd'\naction = 'append'\non = ['tool-output']\n\
                 tools = ['read', 'bash']\nmatch.any = [{ literal = 'xx' }]\n\
                 examples.match = ['xx']\nexamples.no-match = ['x']\n";
    let pack = folder.write("pack.toml", rules);
    let output = ttsr(["test", &pack]).output().unwrap();
    assert!(output.status.success(), "{}", stdout(&output));
    for (tool, hits) in [("bash", true), ("edit", false)] {
        let place = ["--channel", "tool-output", "--tool", tool, "--text", "xx"];
        let explain = ["explain", "p/s", "--pack", &pack, "--format", "json"];
        let shown = run(&[&explain[..], &place].concat());
        assert_eq!(shown.contains("\"hits\":true"), hits, "{tool} {shown}");
    }
}
