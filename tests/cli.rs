//! The `ttsr` command as a script sees it: what it writes, how it exits.
//!
//! Each file in `tests/cli/cases` is a case: a command line, then what it gives. `UPDATE_GOLDEN=1` writes the
//! second half anew.

#![cfg(feature = "cli")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const CHUNKS: [&str; 6] = ["original", "bytes", "whole", "3", "random:7", "random:8"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli")
}

fn ttsr<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ttsr"));
    command
        .args(args)
        .current_dir(folder())
        .stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the command writes UTF-8")
}

fn stdout(output: &Output) -> &str {
    text(&output.stdout)
}

/// Runs it with that standard input, written by a thread of its own.
fn feed(mut command: Command, input: Vec<u8>) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// Runs a case and gives the file as it should be.
fn run(case: &str) -> String {
    let line = case.lines().next().unwrap_or_default();
    let command = line
        .strip_prefix("$ ttsr")
        .expect("a case begins with `$ ttsr`");
    let (args, input) = match command.split_once(" < ") {
        Some((args, input)) => (args, Some(File::open(folder().join(input)).unwrap())),
        None => (command, None),
    };
    let mut command = ttsr(args.split_whitespace());
    if let Some(input) = input {
        command.stdin(input);
    }
    let output = command.output().unwrap();
    let mut found = format!("{line}\nexit: {}\n", output.status.code().unwrap());
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if !bytes.is_empty() {
            write!(found, "--- {name}\n{}", text(bytes)).unwrap();
        }
    }
    found
}

#[test]
fn cases_give_what_they_gave() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = String::new();
    let cases = files(&folder().join("cases"));
    assert!(cases.len() > 30, "the cases are gone");
    for path in cases {
        let stem = path.file_stem().unwrap_or_default();
        if stem.to_string_lossy().ends_with("-ast") && !cfg!(feature = "ast") {
            println!(
                "note: without the feature `ast` {} is skipped",
                path.display()
            );
            continue;
        }
        let case = fs::read_to_string(&path).unwrap();
        let found = run(&case);
        if found == case {
            continue;
        }
        if update {
            fs::write(&path, found).unwrap();
        } else {
            write!(
                wrong,
                "=== {}\nexpected:\n{case}\nfound:\n{found}\n",
                path.display()
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The lines of one kind of event, each of them JSON.
fn events(output: &Output, kind: &str) -> Vec<String> {
    let is_kind = |line: &&str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        value["event"] == kind
    };
    stdout(output)
        .lines()
        .filter(is_kind)
        .map(str::to_owned)
        .collect()
}

fn replay(pack: Option<&str>, chunk: &str, file: &str) -> Output {
    let pack = pack.map(|pack| ["--pack", pack]);
    let args = ["replay", "--format", "json", "--chunk", chunk, file];
    ttsr(args.into_iter().chain(pack.into_iter().flatten()))
        .output()
        .unwrap()
}

/// Shows the first line that differs: there may be thousands.
fn same(found: &[String], expected: &[String], name: &str) {
    let line = found.iter().zip(expected).position(|(a, b)| a != b);
    let line = line.unwrap_or(found.len().min(expected.len()));
    assert_eq!(found.get(line), expected.get(line), "{name}, line {line}");
}

/// The same hits under every split; the same verdicts too, unless parts wait for their ends.
fn check_chunks(pack: Option<&str>, file: &str, unscanned: Option<u64>) -> usize {
    let original = replay(pack, "original", file);
    let hits = events(&original, "hit");
    for chunk in CHUNKS {
        let found = replay(pack, chunk, file);
        let summary: serde_json::Value =
            serde_json::from_str(&events(&found, "summary").concat()).unwrap();
        same(&events(&found, "hit"), &hits, &format!("{file} {chunk}"));
        assert_eq!(summary["hits"], hits.len(), "{file} {chunk}");
        assert_eq!(
            found.status.code(),
            original.status.code(),
            "{file} {chunk}"
        );
        if chunk != "whole" {
            let (verdicts, original) = (events(&found, "verdict"), events(&original, "verdict"));
            same(&verdicts, &original, &format!("{file} {chunk}"));
        }
        if let Some(unscanned) = unscanned {
            assert_eq!(summary["unscanned_bytes"], unscanned, "{file} {chunk}");
        }
    }
    hits.len()
}

#[test]
fn recordings_give_the_same_hits_under_every_split() {
    let mut hits = 0;
    for name in [
        "anthropic.sse",
        "openai-chat.sse",
        "reply.ndjson",
        "two-streams.ndjson",
    ] {
        hits += check_chunks(
            Some("packs/demo.toml"),
            &format!("recordings/{name}"),
            Some(0),
        );
    }
    assert_eq!(hits, 12);
}

#[test]
fn the_corpus_gives_the_same_hits_under_every_split() {
    let Some(corpus) = std::env::var_os("TTSR_CORPUS") else {
        return eprintln!("skipped: TTSR_CORPUS is not set");
    };
    let mut hits = 0;
    for path in files(&Path::new(&corpus).join("streams")) {
        let path = path.to_str().unwrap();
        check_chunks(None, path, Some(0));
        hits += check_chunks(Some("packs/busy.toml"), path, Some(0));
    }
    assert!(hits > 1_000, "only {hits} hits: the test shows little");
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let line = fs::read_to_string(folder().join("recordings/reply.ndjson")).unwrap();
    let many: String = (0..20_000)
        .map(|n| line.replace("{\"t\"", &format!("{{\"stream\":\"{n}\",\"t\"")))
        .collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("many.ndjson");
    fs::write(&path, many).unwrap();
    for format in ["json", "human"] {
        let args = [
            "replay",
            "--pack",
            "packs/demo.toml",
            "--format",
            format,
            path.to_str().unwrap(),
        ];
        let mut child = ttsr(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut first)
            .unwrap();
        assert!(!first.is_empty());
        let status = child.wait().unwrap();
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        assert_eq!(
            (status.code(), stderr.as_str()),
            (Some(141), ""),
            "{format}"
        );
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn a_match_over_the_edge_of_a_block_has_its_place() {
    for before in [65_530, 65_534, 65_536, 131_070] {
        let mut input = b"a line\n".to_vec();
        input.resize(before, b' ');
        input.extend(b"TODO\nrest");
        let output = feed(ttsr(["scan", "--pack", "packs/demo.toml", "-"]), input);
        let place = format!("-:2:{}: demo/unfinished", before - 6);
        assert!(
            stdout(&output).starts_with(&place),
            "{before}: {}",
            stdout(&output)
        );
    }
}

#[test]
fn bytes_that_are_no_recording_are_counted_and_end_with_2() {
    for input in [
        &b"\x00\xff\xfe{"[..],
        b"{\"deltas\":",
        b"data: {\n\n",
        b"[[[[",
        b"{}",
    ] {
        let output = feed(ttsr(["replay", "--format", "json", "-"]), input.to_vec());
        assert_eq!(output.status.code(), Some(2), "{input:?}");
        assert_eq!(events(&output, "summary").len(), 1, "{input:?}");
    }
}

#[test]
fn an_empty_recording_is_clean() {
    let output = ttsr(["replay", "--format", "json", "-"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("\"streams\":0,\"bytes\":0"));
}

#[cfg(unix)]
#[test]
fn a_folder_is_walked_in_order_and_its_links_are_not_followed() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("walk");
    if root.exists() {
        fs::remove_dir_all(&root).unwrap();
    }
    fs::create_dir_all(root.join("b/deep")).unwrap();
    let odd = Path::new(OsStr::from_bytes(b"c-\xFF-\x1b[2J")).to_owned();
    for name in [
        Path::new("d"),
        Path::new("a"),
        Path::new("b/deep/.hidden"),
        Path::new("b/x"),
        &odd,
    ] {
        fs::write(root.join(name), "TODO").unwrap();
    }
    symlink(&root, root.join("b/loop")).unwrap();
    symlink(root.join("a"), root.join("e")).unwrap();
    symlink(root.join("nowhere"), root.join("f")).unwrap();
    let scan = |format: &str, path: &Path| {
        let args = ["scan", "--pack", "packs/demo.toml", "--format", format];
        ttsr(args).arg(path).output().unwrap()
    };
    let output = scan("human", &root);
    let root_name = format!("{}/", root.display());
    let places = stdout(&output)
        .lines()
        .filter_map(|line| line.strip_prefix(&root_name));
    let places: Vec<&str> = places
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        places,
        ["a", "b/deep/.hidden", "b/x", "c-\u{fffd}-\\u{1b}[2J", "d"]
    );
    let linked = scan("json", &root.join("e"));
    assert_eq!(
        events(&linked, "hit").len(),
        1,
        "a link that is named is followed"
    );
    fs::remove_dir_all(&root).unwrap();
}

/// Replaces every number but counts of what was read: times and states vary.
fn mask(value: &mut serde_json::Value, key: &str) {
    const COUNTED: [&str; 9] = [
        "rules_loaded",
        "patterns",
        "replies",
        "parts",
        "deltas",
        "bytes",
        "hits",
        "patterns_left_out",
        "state_bytes",
    ];
    match value {
        serde_json::Value::Number(_) if !COUNTED.contains(&key) => *value = "number".into(),
        serde_json::Value::Array(values) => values.iter_mut().for_each(|value| mask(value, key)),
        serde_json::Value::Object(members) => {
            for (key, value) in members.iter_mut() {
                mask(value, key);
            }
        }
        _ => {}
    }
}

fn bench(format: &str, more: &[&str]) -> Output {
    let args = [
        "bench",
        "--pack",
        "packs/demo.toml",
        "--stream",
        "recordings/reply.ndjson",
        "--stream",
        "recordings/two-streams.ndjson",
        "--format",
        format,
    ];
    let output = ttsr(args.iter().chain(more).copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output
}

#[test]
fn a_benchmark_keeps_its_form() {
    let output = bench("json", &[]);
    let mut found: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    mask(&mut found, "");
    // Which of these rules has more states, and how many, is the matcher's business.
    let rules = found["rules"].as_array_mut().unwrap();
    rules.sort_by_key(|rule| rule["rule"].as_str().unwrap().to_owned());
    for rule in rules {
        rule["why"]
            .as_array_mut()
            .unwrap()
            .retain(|why| why != "states");
    }
    let found = serde_json::to_string_pretty(&found).unwrap() + "\n";
    let path = folder().join("bench.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(path).unwrap());
}

#[test]
fn a_benchmark_names_every_rule_of_a_small_pack() {
    let listed = ttsr(["list", "--pack", "packs/demo.toml", "--format", "json"])
        .output()
        .unwrap();
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench.html");
    let quiet = bench("html", &["--out", page.to_str().unwrap()]);
    assert!(quiet.stdout.is_empty());
    let page = fs::read_to_string(page).unwrap();
    let human = bench("human", &[]);
    let rules = events(&listed, "rule");
    assert!(!rules.is_empty());
    for rule in rules {
        let rule: serde_json::Value = serde_json::from_str(&rule).unwrap();
        let id = rule["rule"].as_str().unwrap();
        assert!(stdout(&human).contains(id), "{id}");
        assert!(page.contains(&format!("<code>{id}</code>")), "{id}");
    }
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.matches("<svg").count() >= 2 && page.contains("prefers-color-scheme: dark"));
    for outside in ["http", "src=", "href=", "<script", "url(", "@import"] {
        assert!(!page.contains(outside), "the page asks for {outside}");
    }
}

#[test]
fn no_command_is_wrong_usage() {
    let output = ttsr([]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage: ttsr <COMMAND>"));
    assert!(output.stdout.is_empty());
}

#[test]
fn help_and_version_are_data() {
    for (args, expected) in [
        (
            &["--version"][..],
            concat!("ttsr ", env!("CARGO_PKG_VERSION"), "\n"),
        ),
        (&["--help"], "Usage: ttsr <COMMAND>"),
        (&["replay", "--help"], "random:SEED"),
        (&["scan", "--help"], "--channel <CHANNEL>"),
        (&["check", "--help"], "<PATH>..."),
        (&["list", "--help"], "--pack <PACK>"),
        (&["docs", "--help"], "--out <DIR>"),
        (&["bench", "--help"], "--stream <FILE>"),
        (&["import", "--help"], "--from <FORMAT>"),
        (&["new", "--help"], "--from-text <TEXT>"),
        (&["fmt", "--help"], "--check"),
        (&["diff", "--help"], "--corpus <PATH>"),
    ] {
        let output = ttsr(args.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(
            stdout(&output).contains(expected),
            "{args:?}: {}",
            stdout(&output)
        );
        assert!(output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn built_in_packs_are_used_without_being_named() {
    let all = ttsr(["list", "--format", "json"]).output().unwrap();
    let one = ttsr(["list", "--format", "json", "--pack", "lang/rust"])
        .output()
        .unwrap();
    let (all, one) = (events(&all, "rule"), events(&one, "rule"));
    assert!(!one.is_empty() && one.iter().all(|rule| all.contains(rule)));
}

#[test]
fn plain_output_has_no_escape_sequences_unless_asked() {
    let args = [
        "replay",
        "--pack",
        "packs/demo.toml",
        "recordings/reply.ndjson",
    ];
    let escapes =
        |command: &mut Command| stdout(&command.output().unwrap()).matches('\u{1b}').count();
    assert_eq!(escapes(&mut ttsr(args)), 0, "not a terminal");
    let mut forced = ttsr(args);
    forced.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
    let colours = escapes(&mut forced);
    assert!(colours > 0, "colour was asked for");
    let output = forced.output().unwrap();
    assert!(
        !stdout(&output).contains("\u{1b}[2J"),
        "a model's own sequence came through"
    );
    assert_eq!(
        escapes(ttsr(args).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1")),
        0,
        "NO_COLOR"
    );
}

/// A copy of a rule file in a folder of its own.
fn copy(pack: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(pack);
    fs::copy(folder().join("packs").join(pack), &path).unwrap();
    path
}

/// A folder of its own, empty.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn what_is_nearly_right_is_mended_in_the_file() {
    let path = copy("near.toml");
    let before = fs::read_to_string(&path).unwrap();
    let output = ttsr(["check", "--fix", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let after = before
        .replace("serverity = \"eror\"", "severity = \"error\"")
        .replace("tool_input", "tool-input")
        .replace("[\"x\", \"x\"]", "[\"x\"]");
    assert_eq!(fs::read_to_string(&path).unwrap(), after);
    assert_eq!(text(&output.stderr).matches("fixed: ").count(), 4);
    fs::remove_file(path).unwrap();
}

#[test]
fn check_says_what_every_rule_of_a_big_pack_keeps_in_few_lines() {
    let args = ["check", "../../rules/std/secrets"];
    let output = ttsr(args).output().unwrap();
    let shown = stdout(&output);
    assert!(shown.lines().count() < 20, "{shown}");
    let json = ttsr(args.into_iter().chain(["--format", "json"]));
    let json = { json }.output().unwrap();
    let kept = events(&json, "kept");
    let pack = ttsr::Pack::builtin("std/secrets").unwrap();
    assert_eq!(kept.len(), pack.rules().len());
    for line in kept {
        let kept: serde_json::Value = serde_json::from_str(&line).unwrap();
        let id = kept["rule"].as_str().unwrap();
        let rule = pack.rule(pack.find(id).unwrap());
        let bytes = rule.retained_bytes(pack.limits());
        assert_eq!(kept["retained_bytes"], bytes, "{id}");
        let is_row = |line: &&str| {
            let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
            words.next() == Some(&bytes.to_string()) && words.any(|word| word == id)
        };
        assert_eq!(shown.lines().filter(is_row).count(), 1, "{id}");
    }
}

#[test]
fn the_schema_is_json_and_completions_know_the_commands() {
    let schema = ttsr(["schema"]).output().unwrap();
    let schema: serde_json::Value = serde_json::from_str(stdout(&schema)).unwrap();
    assert!(schema["properties"]["rule"].is_object());
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = ttsr(["completions", shell]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(stdout(&output).contains("explain"), "{shell}");
    }
}

#[test]
fn the_pages_about_the_packs_are_those_that_the_command_writes() {
    let mut args = vec!["docs", "--out", "../../docs/packs"];
    if std::env::var_os("UPDATE_GOLDEN").is_none() {
        args.push("--check");
    }
    let output = ttsr(args).output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/packs");
    for name in ttsr::Pack::builtins() {
        let page = packs.join(name.replace('/', "-") + ".md");
        assert!(page.exists(), "{name} has no page");
    }
}

#[test]
fn pages_about_a_pack_keep_what_their_author_wrote_and_leave_other_files_alone() {
    let folder = scratch("docs");
    let docs = |more: &[&str]| {
        let args = ["docs", "--pack", "packs/demo.toml", "--out"].into_iter();
        let mut command = ttsr(args);
        command.arg(&folder).args(more).output().unwrap()
    };
    assert_eq!(
        docs(&["--check"]).status.code(),
        Some(1),
        "nothing is there"
    );
    assert_eq!(
        fs::read_dir(&folder).unwrap().count(),
        0,
        "nothing is written"
    );
    assert_eq!(docs(&[]).status.code(), Some(0));
    assert_eq!(docs(&["--check"]).status.code(), Some(0));
    let page = folder.join("demo.md");
    let written = fs::read_to_string(&page).unwrap();
    let own = format!(
        "# Ours\n\nA word of ours.\n\n{}",
        &written["# `demo`\n\n".len()..]
    );
    fs::write(&page, own.replace("no-rm", "no-rm-at-all")).unwrap();
    let again = docs(&[]);
    assert!(text(&again.stderr).ends_with("1 page changed\n"));
    assert_eq!(fs::read_to_string(&page).unwrap(), own);
    let index = folder.join("README.md");
    fs::write(&index, "# My project\n").unwrap();
    let refused = docs(&[]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert_eq!(fs::read_to_string(&index).unwrap(), "# My project\n");
}

#[test]
fn gitleaks_is_imported_whole() {
    let Some(corpus) = std::env::var_os("TTSR_CORPUS") else {
        return eprintln!("skipped: TTSR_CORPUS is not set");
    };
    let rules = Path::new(&corpus).join("rules/gitleaks.toml");
    let source: toml::Table = toml::from_str(&fs::read_to_string(&rules).unwrap()).unwrap();
    let expected = source["rules"].as_array().unwrap().len();
    assert!(expected >= 220);
    let out = scratch("gitleaks").join("pack.toml");
    let output = ttsr(["import", "gitleaks", rules.to_str().unwrap(), "--out"])
        .arg(&out)
        .output()
        .unwrap();
    // Some allowlists have no like here: they are told.
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let pack = ttsr::Pack::load(&out).unwrap();
    assert_eq!(pack.rules().len(), expected, "{}", text(&output.stderr));
    let with_entropy = pack
        .rules()
        .iter()
        .filter(|rule| format!("{:?}", rule.condition).contains("entropy: Some"));
    assert!(with_entropy.count() >= 100);
    let secret = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6");
    let mut stream = pack.stream();
    stream.open(ttsr::PartId(0), ttsr::Channel::Text);
    let mut hits = stream.push(ttsr::PartId(0), secret.as_bytes()).to_vec();
    hits.extend_from_slice(&stream.close(ttsr::PartId(0)));
    let ids: Vec<&str> = hits
        .iter()
        .map(|hit| pack.rule(hit.rule).id.as_str())
        .collect();
    assert!(ids.contains(&"imported/github-pat"), "{ids:?}");
}

/// Import, check, scan: each step with the command, on texts in which every rule has something to search for.
#[test]
fn the_rules_of_gitleaks_go_round() {
    let Some(corpus) = std::env::var_os("TTSR_CORPUS") else {
        return eprintln!("skipped: TTSR_CORPUS is not set");
    };
    let rules = Path::new(&corpus).join("rules/gitleaks.toml");
    let source: toml::Table = toml::from_str(&fs::read_to_string(&rules).unwrap()).unwrap();
    let folder = scratch("gitleaks-round");
    let (pack, texts) = (folder.join("pack.toml"), folder.join("texts"));
    let output = ttsr(["import", "gitleaks", rules.to_str().unwrap(), "--out"])
        .arg(&pack)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let checked = ttsr(["check", pack.to_str().unwrap()]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    // Behind each keyword something long and random, in all forms that the rules ask for.
    fs::create_dir_all(&texts).unwrap();
    let secrets = [
        "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6kL9nP2rS5uX8zA1cD4fG7iM0oQ3tV6wY9bE2hJ5lN8p"
            .to_owned(),
        "3fa85f6457174562b3fc2c963f66afa6".repeat(3),
        "3fa85f64-5717-4562-b3fc-2c963f66afa6".to_owned(),
        "éß".repeat(100),
    ];
    let mut written = String::new();
    let list = source["rules"].as_array().unwrap();
    let keywords = list
        .iter()
        .filter_map(|rule| rule.get("keywords")?.as_array());
    for keyword in keywords.flatten().filter_map(|keyword| keyword.as_str()) {
        for secret in &secrets {
            writeln!(
                written,
                "{keyword}_token = \"{secret}\"\n{keyword}{secret};"
            )
            .unwrap();
        }
    }
    fs::write(texts.join("secrets.txt"), &written).unwrap();
    let args = [
        "scan",
        "--pack",
        pack.to_str().unwrap(),
        texts.to_str().unwrap(),
    ];
    let scanned = ttsr(args).output().unwrap();
    let shown = stdout(&scanned);
    assert_eq!(scanned.status.code(), Some(1), "{}", text(&scanned.stderr));
    for rule in ["imported/generic-api-key", "imported/github-pat"] {
        assert!(shown.contains(rule), "{rule}");
    }
    println!(
        "gitleaks: {} bytes scanned, {} lines told",
        written.len(),
        shown.lines().count()
    );
}

/// What breaks each of the 22 rules of these shapes that have a condition on text.
const BREAKS: [(&str, &str); 22] = [
    ("go-add-cleanup", "runtime.SetFinalizer(a, b)"),
    ("go-exp-promoted", "import \"golang.org/x/exp/maps\""),
    ("go-ioutil", "import \"io/ioutil\""),
    ("go-join-hostport", "fmt.Sprintf(\"%s:%d\", host, port)"),
    ("go-rand-v2", "import \"math/rand\""),
    ("rs-box-leak", "Box::leak(a)"),
    ("rs-future-prelude", "use std::future::Future;"),
    ("rs-lazylock", "once_cell::sync::Lazy"),
    ("rs-match-ergonomics", "Some(ref mut a)"),
    ("rs-parking-lot", "a.write().unwrap()"),
    (
        "rs-result-type",
        "type Result<T> = std::result::Result<T, E>;",
    ),
    ("ts-bare-catch", "try {} catch (_) {}"),
    ("ts-import-type", "let a: import('b').C"),
    ("ts-no-any", "let a: any"),
    ("ts-no-deprecated-leftovers", "/** @deprecated */"),
    ("ts-no-dynamic-import", "await import('b')"),
    (
        "ts-no-local-is-record",
        "function isRecord(a: unknown): a is Record<string, unknown> {",
    ),
    ("ts-no-return-type", "type A = ReturnType<typeof b>"),
    ("ts-no-test-timers", "setTimeout(a, 10)"),
    ("ts-no-tiny-functions", "function a() { return b; }"),
    ("ts-promise-with-resolvers", "new Promise((a) => a())"),
    ("ts-set-map", "new Map()"),
];

/// What breaks the others: their condition is on the syntax tree of code.
const BREAKS_SHAPES: [(&str, &str); 5] = [
    (
        "go-bench-loop",
        "func BenchmarkF(b *testing.B) {\n\tfor i := 0; i < b.N; i++ {\n\t\tf()\n\t}\n}\n",
    ),
    ("go-new-expr", "func ptr[T any](v T) *T {\n\treturn &v\n}\n"),
    (
        "go-range-int",
        "func f(n int) {\n\tfor i := 0; i < n; i++ {\n\t\tg(i)\n\t}\n}\n",
    ),
    (
        "ts-no-inline-cast-access",
        "const a = (b as { c: string })[\"c\"];\n",
    ),
    (
        "ts-redundant-clear-guard",
        "if (this.timer) {\n  clearTimeout(this.timer);\n}\n",
    ),
];

/// With the feature `ast` all 27 are carried over; a build without it lists those that need it.
#[test]
fn every_shape_of_oh_my_pis_rules_is_imported() {
    let shapes = files(&folder().join("foreign/oh-my-pi"));
    assert_eq!(shapes.len(), 27);
    let out = scratch("oh-my-pi").join("pack.toml");
    let mut import = ttsr(["import", "--from", "oh-my-pi", "--format", "json", "--out"]);
    let output = import.arg(&out).args(&shapes).output().unwrap();
    let left = events(&output, "left-out");
    let mut breaks = BREAKS.to_vec();
    if cfg!(feature = "ast") {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(left.is_empty(), "{left:?}");
        breaks.extend(BREAKS_SHAPES);
    } else {
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert_eq!(left.len(), BREAKS_SHAPES.len(), "{left:?}");
        assert!(left.iter().all(|line| line.contains("feature `ast`")));
    }
    let pack = ttsr::Pack::load(&out).unwrap();
    assert_eq!(pack.rules().len(), breaks.len());
    for (name, broken) in breaks {
        let file = match name.split_once('-') {
            Some(("go", _)) => "a.go",
            Some(("rs", _)) => "a.rs",
            _ if name.contains("test") => "a.test.ts",
            _ => "a.ts",
        };
        let hits = |file: &str| {
            let input = serde_json::json!({ "path": file, "content": broken }).to_string();
            let mut stream = pack.stream();
            stream.open(ttsr::PartId(0), ttsr::Channel::ToolInput);
            let mut hits = stream.tool(ttsr::PartId(0), "write", "call").to_vec();
            hits.extend_from_slice(&stream.push(ttsr::PartId(0), input.as_bytes()));
            hits.extend_from_slice(&stream.finish());
            let id = pack.find(&format!("imported/{name}")).expect(name);
            hits.iter().any(|hit| hit.rule == id)
        };
        assert!(hits(file), "{name} in {file}");
        assert!(!hits("notes.txt"), "{name} in another file");
    }
}

#[test]
fn a_new_pack_passes_check_and_test_and_is_not_written_over() {
    let folder = scratch("new");
    for (name, more) in [
        ("plain", &[][..]),
        ("worded", &["--from-text", "Never use `unwrap()`"]),
        ("said", &["--from-text", "never say sorry"]),
    ] {
        let path = folder.join(format!("{name}.toml"));
        let new = || {
            let mut command = ttsr(["new", "team/x", "--out"]);
            command.arg(&path).args(more).output().unwrap()
        };
        assert_eq!(new().status.code(), Some(0), "{name}");
        for command in ["check", "test"] {
            let output = ttsr([command]).arg(&path).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{name}: {}", stdout(&output));
            let warnings = stdout(&output).matches("warning").count();
            assert_eq!(warnings, 0, "{name}: {}", stdout(&output));
        }
        let fmt = ttsr(["fmt", "--check"]).arg(&path).output().unwrap();
        assert_eq!(fmt.status.code(), Some(0), "{name} is not in form");
        assert_eq!(new().status.code(), Some(2), "{name} was written over");
    }
}

#[test]
fn built_in_packs_keep_their_rules_when_formatted() {
    let folder = scratch("fmt");
    let mut waiting = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("rules")];
    let mut number = 0;
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(files(&path));
        } else if path.extension().is_some_and(|end| end == "toml") {
            number += 1;
            check_formatted(&path, &folder.join(format!("{number}.toml")));
        }
    }
    assert!(number >= 6, "{number}");
}

fn check_formatted(path: &Path, copy: &Path) {
    fs::copy(path, copy).unwrap();
    for args in [&["fmt"][..], &["fmt", "--check"]] {
        let output = ttsr(args.iter().copied()).arg(copy).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", path.display());
    }
    let (before, after) = (
        fs::read_to_string(path).unwrap(),
        fs::read_to_string(copy).unwrap(),
    );
    let parse = |text: &str| toml::from_str::<toml::Table>(text).unwrap();
    assert_eq!(parse(&after), parse(&before), "{}", path.display());
    let comments = |text: &str| text.matches("# ").count();
    assert_eq!(comments(&after), comments(&before), "{}", path.display());
}

#[test]
fn a_tree_is_scanned_without_what_is_ignored() {
    let root = scratch("tree");
    fs::create_dir_all(root.join("deep/.git")).unwrap();
    fs::write(root.join(".gitignore"), "*.log\n").unwrap();
    for number in 0..150 {
        fs::write(root.join(format!("deep/{number:03}.txt")), "TODO").unwrap();
    }
    fs::write(root.join("a.log"), "TODO").unwrap();
    fs::write(root.join("deep/.git/HEAD"), "TODO").unwrap();
    fs::write(root.join("b.bin"), "TODO\0").unwrap();
    let scan = |more: &[&str]| {
        let args = ["scan", "--pack", "packs/demo.toml", "--format", "json"];
        let args = args.into_iter().chain(more.iter().copied());
        ttsr(args).arg(&root).output().unwrap()
    };
    let output = scan(&[]);
    let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let streams: Vec<String> = events(&output, "hit")
        .iter()
        .map(|hit| parse(hit)["stream"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(streams.len(), 150);
    assert!(streams.is_sorted(), "the order is that of the paths");
    let summary = parse(&events(&output, "summary").concat());
    assert_eq!(summary["counters"]["unread"]["binary"], 5);
    assert!(text(&output.stderr).contains("1 binary file not scanned"));
    assert_eq!(events(&scan(&["--no-ignore"]), "hit").len(), 151);
}

/// A document whose commands are run in a folder of their own: `toml` and `json` blocks with a name are files,
/// each line of a `console` block that begins with `$` is a command, and what follows is what it writes, to
/// either output. Gives the document as it should be.
#[cfg(unix)]
fn follow(document: &str, folder: &Path) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_ttsr")).parent().unwrap();
    let path = format!(
        "{}:{}",
        programs.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let shell = |line: &str| {
        let output = Command::new("sh")
            .args(["-c", &format!("{{ {line}\n}} 2>&1")])
            .current_dir(folder)
            .env("PATH", &path)
            .env("LC_ALL", "C")
            .env_remove("CLICOLOR_FORCE")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        stdout(&output).to_owned()
    };
    let mut out = String::new();
    let mut lines = document.split_inclusive('\n');
    while let Some(line) = lines.next() {
        out.push_str(line);
        let Some(info) = line
            .trim_end()
            .strip_prefix("```")
            .filter(|it| !it.is_empty())
        else {
            continue;
        };
        let block: String = lines
            .by_ref()
            .take_while(|line| line.trim_end() != "```")
            .collect();
        match info.split_once(' ') {
            Some((_, file)) => {
                let file = folder.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, &block).unwrap();
            }
            None if info == "console" => {
                for command in block.lines().filter(|line| line.starts_with("$ ")) {
                    writeln!(out, "{command}").unwrap();
                    let told = shell(&command[2..]);
                    out.push_str(&told);
                    if !told.is_empty() && !told.ends_with('\n') {
                        out.push('\n');
                    }
                }
                out.push_str("```\n");
                continue;
            }
            None => {}
        }
        out.push_str(&block);
        out.push_str("```\n");
    }
    out
}

#[cfg(unix)]
#[test]
fn every_command_of_the_guide_and_the_readme_writes_what_is_shown() {
    for (name, least) in [("docs/authoring.md", 20), ("README.md", 3)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let document = fs::read_to_string(&path).unwrap();
        let commands = document.lines().filter(|line| line.starts_with("$ ttsr"));
        assert!(commands.count() >= least, "{name} has lost its commands");
        let found = follow(&document, &scratch(&name.replace('/', "-")));
        if found == document {
            continue;
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, found).unwrap();
            continue;
        }
        let line = found
            .lines()
            .zip(document.lines())
            .position(|(a, b)| a != b);
        let line = line.unwrap_or_else(|| found.lines().count().min(document.lines().count()));
        let after = |text: &str| {
            text.lines()
                .skip(line)
                .take(5)
                .collect::<Vec<_>>()
                .join("\n")
        };
        panic!(
            "{name}:{}: shown\n{}\nfound\n{}",
            line + 1,
            after(&document),
            after(&found)
        );
    }
}

/// Each block of the reference with examples of rules: a whole rule file, or a rule without its head.
#[cfg(all(feature = "ast", feature = "unicode", feature = "lookaround"))]
#[test]
fn every_example_of_the_reference_hits() {
    let folder = scratch("reference");
    let document = include_str!("../docs/rules.md");
    let blocks = document.split("```toml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let mut tried = 0;
    for (number, block) in blocks.enumerate() {
        if !block.contains("examples") {
            continue;
        }
        let head = match block.contains("schema = 1") {
            true => "",
            false => "schema = 1\n[pack]\nname = \"t\"\n",
        };
        let path = folder.join(format!("block-{number}.toml"));
        fs::write(&path, format!("{head}{block}")).unwrap();
        let output = ttsr(["test"]).arg(&path).output().unwrap();
        let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{block}\n{told}");
        tried += 1;
    }
    assert!(tried >= 20, "{tried} blocks with examples");
}

#[test]
fn what_is_measured_is_written_into_cases_and_nothing_else_changes() {
    let path = scratch("update").join("cases.toml");
    fs::copy(folder().join("packs/cases.toml"), &path).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let test = |more: &[&str]| {
        let args = ["test"].into_iter().chain(more.iter().copied());
        ttsr(args).arg(&path).output().unwrap()
    };
    let failed = test(&[]);
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stderr));
    let updated = test(&["--update"]);
    assert!(
        text(&updated.stderr).contains("updated: "),
        "{}",
        text(&updated.stderr)
    );
    let after = fs::read_to_string(&path).unwrap();
    assert_ne!(after, before);
    let rest = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with("by-byte") && !line.starts_with("expect"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(rest(&after), rest(&before), "only what is measured changes");
    let again = test(&["--update"]);
    assert!(
        text(&again.stderr).contains("0 values updated"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), after);
    let found = test(&["--format", "json"]);
    assert!(
        !stdout(&found).contains("\"result\":\"late\""),
        "{}",
        stdout(&found)
    );
}

/// The most memory that a process had, in bytes, as the system counts it.
#[cfg(target_os = "linux")]
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}

/// Feeds `block` to the command `few` times, and then `many` times; the memory that the latter took.
#[cfg(target_os = "linux")]
fn growth(args: &[&str], block: &[u8], (few, many): (usize, usize)) -> u64 {
    let mut command = ttsr(args.iter().copied());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut feed = |times: usize| (0..times).for_each(|_| stdin.write_all(block).unwrap());
    feed(few);
    let before = peak(child.id());
    feed(many);
    // A pipe holds less than a block: nearly all of it was read by now.
    let after = peak(child.id());
    drop(stdin);
    child.wait().unwrap();
    after - before
}

#[cfg(target_os = "linux")]
#[test]
fn inputs_of_any_size_are_read_in_pieces() {
    const MIB: u64 = 1 << 20;
    let text = "Some text of a file, line by line, and nothing in it is wrong.\n".repeat(1 << 14);
    let delta = r#"{"t":1,"ch":"text","part":"0","tool":null,"d":"Some more text of a reply. "}"#;
    let recording = format!("{delta}\n").repeat(1 << 13);
    for (args, block) in [
        (&["scan", "--pack", "packs/demo.toml", "-"][..], &text),
        (&["replay", "--pack", "packs/demo.toml", "-"], &recording),
        (
            &[
                "diff",
                "packs/demo.toml",
                "packs/busy.toml",
                "--corpus",
                "-",
            ],
            &recording,
        ),
    ] {
        let times = (4, 24);
        let read = (block.len() * times.1) as u64;
        let grew = growth(args, block.as_bytes(), times);
        println!(
            "{}: {} MiB more read, {} KiB more kept",
            args[0],
            read / MIB,
            grew >> 10
        );
        assert!(grew < read / 4, "{}: {grew} bytes more for {read}", args[0]);
    }
}

/// Shells of build servers limit it, and where memory is not promised twice it counts as if it were used.
#[test]
#[cfg(target_os = "linux")]
fn a_gigabyte_of_address_space_is_enough() {
    for args in ["demo", "check packs/demo.toml", "test packs/demo.toml"] {
        let limited = format!("ulimit -v 1000000 && exec \"$0\" {args}");
        let output = Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_ttsr")])
            .current_dir(folder())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{args}: {}\n{}",
            output.status,
            text(&output.stderr)
        );
    }
}
