//! The `ttsr` command as a script sees it: its output and its exit codes.
//!
//! Each file in `tests/cli/cases` is a case: a command line, followed by its exit code and output. `UPDATE_GOLDEN=1`
//! rewrites the expected output.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use ttsr_testing::skip;

#[path = "scopes.rs"]
mod scopes;

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

/// Runs the command with that standard input, which a separate thread writes.
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

/// Runs a case and returns the expected content of its file.
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

/// Returns the lines with one kind of event; each must be JSON.
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

/// Compares two lists and prints only the first difference, because there may be thousands of lines.
fn same(found: &[String], expected: &[String], name: &str) {
    let line = found.iter().zip(expected).position(|(a, b)| a != b);
    let line = line.unwrap_or(found.len().min(expected.len()));
    assert_eq!(found.get(line), expected.get(line), "{name}, line {line}");
}

/// Checks that every split gives the same hits, and the same verdicts unless parts are pushed at their ends.
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
    let Some(corpus) = skip::corpus() else {
        return;
    };
    let mut hits = 0;
    for path in files(&corpus.join("streams")) {
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

/// A pack for scans: one rule with two patterns, one that redacts, one for some files.
const SCANNED: &str = r##"schema = 1
pack.name = "s"
[rule.mark]
description = "Marks"
why = "They stay."
instead = "Write an issue."
docs = "https://example.org/marks"
tags = ["style", "notes"]
references = ["https://example.org/style"]
severity = "warning"
match.any = [{ word = "TODO" }, { regex = 'FIX(?:ME)+' }]
examples.match = ["TODO"]
[rule.token]
description = "A token"
severity = "critical"
action = "redact"
replacement = "<token>"
match.any = [{ regex = 'tok-[a-z0-9]{8,}' }]
examples.match = ["tok-abcdefgh1"]
[rule.rust]
description = "Rust only"
paths = ["*.rs"]
match.any = [{ word = "unsafe" }]
examples.match = ["unsafe"]
"##;

/// Returns a new folder with that pack and these files.
fn scanned(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let root = scratch(name);
    fs::write(root.join("pack.toml"), SCANNED).unwrap();
    fs::create_dir_all(root.join("tree/sub")).unwrap();
    for (path, content) in files {
        fs::write(root.join("tree").join(path), content).unwrap();
    }
    root
}

/// Runs `ttsr` in a folder.
fn run_in(folder: &Path, args: &[&str]) -> Output {
    let mut command = ttsr(args.iter().copied());
    command.current_dir(folder).output().unwrap()
}

fn scan_in(root: &Path, args: &[&str]) -> Output {
    run_in(root, &[&["scan", "--pack", "pack.toml"], args].concat())
}

fn parsed(lines: &[String]) -> Vec<serde_json::Value> {
    lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_match_is_reported_in_every_format_and_the_first_of_each_rule_on_demand() {
    let text = "TODO a\nb TODO\nFIXMEME TODO\n".as_bytes();
    let root = scanned(
        "every",
        &[
            ("a.txt", text),
            ("sub/b.txt", b"TODO TODO"),
            ("clean.txt", b"fine"),
        ],
    );
    let json = scan_in(&root, &["--format", "json", "tree"]);
    assert_eq!(json.status.code(), Some(1));
    let places: Vec<(String, u64, u64, u64, u64)> = parsed(&events(&json, "hit"))
        .iter()
        .map(|hit| {
            let number = |key: &str| hit[key].as_u64().unwrap();
            let file = hit["stream"].as_str().unwrap().to_owned();
            (
                file,
                number("start"),
                number("end"),
                number("line"),
                number("column"),
            )
        })
        .collect();
    let expected = [
        ("tree/a.txt", 0, 4, 1, 1),
        ("tree/a.txt", 9, 13, 2, 3),
        ("tree/a.txt", 14, 21, 3, 1),
        ("tree/a.txt", 22, 26, 3, 9),
        ("tree/sub/b.txt", 0, 4, 1, 1),
        ("tree/sub/b.txt", 5, 9, 1, 6),
    ];
    assert_eq!(
        places,
        expected.map(|(file, a, b, c, d)| (file.to_owned(), a, b, c, d))
    );
    let summary = parsed(&events(&json, "summary"));
    assert_eq!(summary[0]["hits"], 6);
    for (format, mark, all, first) in [
        ("human", ": s/mark: ", 6, 2),
        ("github", "::warning ", 6, 2),
        ("junit", "<testcase ", 6, 2),
        ("sarif", "\"ruleId\"", 6, 2),
        ("json", "\"event\":\"hit\"", 6, 2),
    ] {
        let found = scan_in(&root, &["--format", format, "tree"]);
        assert_eq!(stdout(&found).matches(mark).count(), all, "{format}");
        let found = scan_in(&root, &["--format", format, "--first", "tree"]);
        assert_eq!(
            stdout(&found).matches(mark).count(),
            first,
            "{format} --first"
        );
    }
}

#[test]
fn hits_carry_what_reports_ask_for() {
    let text = "é😀 TODO\r\nsecond FIXME\n".as_bytes();
    let root = scanned("carried", &[("a.txt", text)]);
    let hits = parsed(&events(
        &scan_in(&root, &["--format", "json", "tree"]),
        "hit",
    ));
    let expected = serde_json::json!({
        "event": "hit", "rule": "s/mark", "stream": "tree/a.txt", "part": "0", "channel": "text", "tool": null,
        "arg": null, "start": 7, "end": 11, "decided": 12, "line": 1, "column": 4, "end_line": 1, "end_column": 8,
        "action": "inject", "severity": "warning", "description": "Marks", "tags": ["style", "notes"],
        "fingerprint": hits[0]["fingerprint"], "excerpt": hits[0]["excerpt"],
    });
    assert_eq!(hits[0], expected);
    assert_eq!(
        (&hits[1]["line"], &hits[1]["column"]),
        (&2.into(), &8.into())
    );
}

#[test]
fn a_fingerprint_stays_when_lines_move_and_tells_occurrences_apart() {
    let prints = |text: &str| -> Vec<String> {
        let root = scanned("prints", &[("a.txt", text.as_bytes())]);
        let hits = parsed(&events(
            &scan_in(&root, &["--format", "json", "tree"]),
            "hit",
        ));
        hits.iter()
            .map(|hit| hit["fingerprint"].as_str().unwrap().to_owned())
            .collect()
    };
    let before = prints("TODO a\nFIXME TODO tok-abcdefgh1 tok-abcdefgh2\n");
    let after = prints("new\n\n  TODO a moved\nFIXME, TODO\ntok-abcdefgh3\n tok-abcdefgh4");
    assert_eq!(before, after, "also of secrets, whose text is not told");
    let mut distinct = before.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 5);
}

#[test]
fn each_file_of_a_folder_is_the_file_that_paths_look_at() {
    let files: &[(&str, &[u8])] = &[
        ("a.rs", b"unsafe unsafe"),
        ("a.md", b"unsafe"),
        ("sub/b.rs", b"unsafe"),
    ];
    let root = scanned("paths", files);
    let streams = |args: &[&str]| -> Vec<String> {
        let mut all = vec!["--format", "json"];
        all.extend(args);
        let hits = parsed(&events(&scan_in(&root, &all), "hit"));
        hits.iter()
            .map(|hit| hit["stream"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        streams(&["tree"]),
        ["tree/a.rs", "tree/a.rs", "tree/sub/b.rs"]
    );
    assert_eq!(
        streams(&["--channel", "tool-input", "tree"]),
        ["tree/a.rs", "tree/a.rs", "tree/sub/b.rs"]
    );
    assert_eq!(streams(&["--path", "x.rs", "tree/a.md"]), ["tree/a.md"]);
    assert_eq!(streams(&["--path", "x.md", "tree"]), [""; 0]);
    // The input of a call names its file itself.
    let call = br#"{"path": "src/x.rs", "content": "unsafe"}"#;
    fs::write(root.join("tree/call.json"), call).unwrap();
    assert_eq!(
        streams(&["--channel", "tool-input", "tree/call.json"]),
        ["tree/call.json"]
    );
    fs::write(
        root.join("tree/call.rs"),
        call.map(|byte| if byte == b'x' { b'y' } else { byte }),
    )
    .unwrap();
    assert_eq!(streams(&["--channel", "text", "tree/call.json"]), [""; 0]);
}

#[test]
fn secrets_are_masked_in_every_output() {
    let text = "key tok-abcdefgh1 TODO tok-zzzzzzzz9\nFIXME far away from any of the tokens: "
        .to_owned()
        + &"x".repeat(2000)
        + "\nTODO and nothing else\n";
    let root = scanned("masked", &[("a.txt", text.as_bytes())]);
    for format in ["human", "json", "sarif", "github", "junit"] {
        for first in [
            &["--format", format, "tree"][..],
            &["--format", format, "--first", "tree"],
        ] {
            let output = scan_in(&root, first);
            let all = [text_of(&output.stdout), text_of(&output.stderr)].concat();
            assert!(
                !all.contains("abcdefgh1") && !all.contains("zzzzzzzz9"),
                "{format}: {all}"
            );
            assert!(!all.contains("tok-"), "{format}: {all}");
        }
    }
    let json = scan_in(&root, &["--format", "json", "tree"]);
    assert!(stdout(&json).contains("<token>"));
    assert!(
        stdout(&json).contains(r"x\nTODO"),
        "what is far from a secret is shown"
    );
    let all = scan_in(&root, &["--redact", "tree"]);
    let excerpts = stdout(&all).lines().filter(|line| line.starts_with("    "));
    assert!(excerpts.clone().count() > 3);
    excerpts.for_each(|line| assert!(!line.contains("TODO") && !line.contains("FIXME"), "{line}"));
}

fn text_of(bytes: &[u8]) -> String {
    text(bytes).to_owned()
}

#[test]
fn secrets_of_a_recording_are_masked() {
    let delta = |text: &str| {
        let text = serde_json::to_string(text).unwrap();
        format!("{{\"t\":1,\"ch\":\"text\",\"part\":\"0\",\"tool\":null,\"d\":{text}}}\n")
    };
    let recording = delta("TODO: tok-abc") + &delta("defgh1 and tok-zzzzzzzz9 later") + &delta("!");
    let root = scanned("recorded", &[("a.ndjson", recording.as_bytes())]);
    for format in ["human", "json"] {
        for more in [&[][..], &["--redact"]] {
            let args = [
                "replay",
                "--pack",
                "pack.toml",
                "--format",
                format,
                "tree/a.ndjson",
            ];
            let args = args.into_iter().chain(more.iter().copied());
            let output = ttsr(args).current_dir(&root).output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            let shown = stdout(&output);
            assert!(
                !shown.contains("tok-") && shown.contains("<token>"),
                "{format}: {shown}"
            );
            let excerpts = shown
                .lines()
                .filter(|line| line.starts_with("    ") || line.contains("\"excerpt\""));
            let shows = excerpts.filter(|line| line.contains("TODO")).count();
            assert_eq!(shows > 0, more.is_empty(), "{format} {more:?}: {shown}");
        }
    }
}

#[test]
fn sarif_has_what_the_standard_and_code_scanning_require() {
    let text = "é😀 TODO\nsecond tok-abcdefgh1\nFIXME\n".as_bytes();
    let root = scanned("sarif", &[("a b.txt", text), ("bin", b"\0TODO")]);
    let output = scan_in(&root, &["--format", "sarif", "tree"]);
    let log: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(
        (&log["version"], log["runs"].as_array().unwrap().len()),
        (&"2.1.0".into(), 1)
    );
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let run = &log["runs"][0];
    assert_eq!(run["columnKind"], "utf16CodeUnits");
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "ttsr");
    assert_eq!(driver["version"], env!("CARGO_PKG_VERSION"));
    let rules = driver["rules"].as_array().unwrap();
    let mut ids: Vec<&str> = rules
        .iter()
        .map(|rule| rule["id"].as_str().unwrap())
        .collect();
    ids.dedup();
    assert_eq!(ids, ["s/mark", "s/token"]);
    for rule in rules {
        for key in ["shortDescription", "help"] {
            assert!(!rule[key]["text"].as_str().unwrap().is_empty(), "{key}");
        }
        is_level(&rule["defaultConfiguration"]["level"]);
    }
    assert_eq!(rules[0]["help"]["text"], "They stay.\n\nWrite an issue.");
    assert_eq!(rules[0]["helpUri"], "https://example.org/marks");
    assert_eq!(
        rules[0]["properties"]["tags"],
        serde_json::json!(["style", "notes"])
    );
    assert_eq!(
        rules[0]["properties"]["references"],
        serde_json::json!(["https://example.org/style"])
    );
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for result in results {
        is_level(&result["level"]);
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(
            result["ruleId"], ids[index],
            "the index is that of the rule"
        );
        let prints = result["partialFingerprints"].as_object().unwrap();
        assert!(
            prints
                .values()
                .all(|print| print.as_str().is_some_and(|print| print.len() == 16))
        );
        let location = &result["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "tree/a%20b.txt");
        let region = &location["region"];
        let number = |key: &str| region[key].as_u64().unwrap();
        assert!(number("startLine") >= 1 && number("startColumn") >= 1);
        assert!(
            (number("endLine"), number("endColumn")) > (number("startLine"), number("startColumn"))
        );
        assert!(
            number("byteLength") > 0
                && number("byteOffset") + number("byteLength") <= text.len() as u64
        );
    }
    let region = &results[0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!(
        (&region["startColumn"], &region["endColumn"]),
        (&5.into(), &9.into()),
        "in UTF-16 code units"
    );
    let invocation = &run["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    let notification = &invocation["toolExecutionNotifications"][0];
    is_level(&notification["level"]);
    assert!(
        notification["message"]["text"]
            .as_str()
            .unwrap()
            .contains("not scanned")
    );
}

/// Checks for one of the four values of SARIF.
fn is_level(level: &serde_json::Value) {
    assert!(
        ["none", "note", "warning", "error"].contains(&level.as_str().unwrap()),
        "{level}"
    );
}

#[test]
fn unread_input_is_named_and_ends_with_2() {
    let not_a_recording = b"just text, and no recording";
    let unknown = b"event: surprise\ndata: {\"type\":\"surprise\",\"text\":\"twelve bytes\"}\n\n";
    let mut stream = fs::read(folder().join("recordings/anthropic.sse")).unwrap();
    let start = stream
        .windows(7)
        .position(|bytes| bytes == b"event: ")
        .unwrap();
    let second = start
        + 7
        + stream[start + 7..]
            .windows(7)
            .position(|bytes| bytes == b"event: ")
            .unwrap();
    let rest = stream.split_off(second);
    stream.extend_from_slice(unknown);
    stream.extend(rest);
    let root = scanned(
        "unread",
        &[("a.sse", &stream), ("sub/b.txt", not_a_recording)],
    );
    for (path, names) in [
        ("tree/sub", &["tree/sub/b.txt"][..]),
        ("tree/a.sse", &["tree/a.sse"]),
        ("tree", &["tree/a.sse", "tree/sub/b.txt"]),
        ("tree/missing", &["tree/missing"]),
    ] {
        let args = ["replay", "--pack", "pack.toml", "--format", "json", path];
        let output = ttsr(args).current_dir(&root).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{path}: {}",
            text(&output.stderr)
        );
        let unread = parsed(&events(&output, "unread"));
        let unread: Vec<&str> = unread
            .iter()
            .map(|unread| unread["stream"].as_str().unwrap())
            .collect();
        assert_eq!(unread, names, "{path}");
        assert!(
            names.iter().all(|name| text(&output.stderr).contains(name)),
            "{path}"
        );
    }
    for path in ["tree/missing", "missing"] {
        let output = scan_in(&root, &["--format", "json", path]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(parsed(&events(&output, "unread"))[0]["stream"], path);
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_read_ends_with_2() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = scanned("closed", &[("a.txt", b"fine")]);
    let closed = root.join("tree/sub");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read_dir(&closed).is_ok();
    let output = scan_in(&root, &["tree"]);
    let replayed = ttsr(["replay", "--pack", "pack.toml", "tree"])
        .current_dir(&root)
        .output();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    if is_root {
        return skip::test("this user may read every folder");
    }
    for output in [output, replayed.unwrap()] {
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("sub"));
    }
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_reported_and_ends_with_2() {
    use std::os::unix::fs::symlink;
    let root = scanned(
        "broken-links",
        &[("a.txt", b"fine"), (".gitignore", b"*.log\n")],
    );
    symlink("a.txt", root.join("tree/fine.txt")).unwrap();
    symlink("..", root.join("tree/sub/up")).unwrap();
    let scan = |more: &[&str]| {
        let args = ["--format", "json", "tree"].iter().chain(more).copied();
        scan_in(&root, &args.collect::<Vec<_>>())
    };
    let unread = |output: &Output| -> Vec<String> {
        let unread = parsed(&events(output, "unread"));
        let stream = |unread: &serde_json::Value| unread["stream"].as_str().unwrap().to_owned();
        unread.iter().map(stream).collect()
    };
    let output = scan(&[]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "links to what exists are not followed"
    );
    assert!(unread(&output).is_empty());

    symlink("nowhere", root.join("tree/broken.txt")).unwrap();
    symlink("itself", root.join("tree/sub/itself")).unwrap();
    symlink("nowhere", root.join("tree/ignored.log")).unwrap();
    let broken = ["tree/broken.txt", "tree/sub/itself"];
    let output = scan(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(unread(&output), broken);
    assert!(
        broken
            .iter()
            .all(|name| text(&output.stderr).contains(name))
    );
    assert_eq!(unread(&scan(&["--no-ignore"])).len(), 3);

    fs::write(root.join("tree/a.txt"), r#"{"type":"text","text":"fine"}"#).unwrap();
    let args = ["replay", "--pack", "pack.toml", "--format", "json", "tree"];
    let output = ttsr(args).current_dir(&root).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let unread = unread(&output);
    assert!(
        broken
            .iter()
            .all(|name| unread.iter().any(|unread| unread == name)),
        "{unread:?}"
    );
    assert!(!unread.iter().any(|name| name.ends_with("fine.txt")));
}

#[test]
fn a_pipe_of_any_length_is_searched_for_every_match() {
    let mut input = b"TODO\n".to_vec();
    input.extend(b"some text\n".repeat(300_000));
    input.extend(b"TODO\n");
    let output = feed(ttsr(["scan", "--pack", "packs/demo.toml", "-"]), input);
    let lines: Vec<&str> = stdout(&output)
        .lines()
        .filter(|line| line.starts_with('-'))
        .collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].starts_with("-:1:1: ") && lines[1].starts_with("-:300002:1: "),
        "{lines:?}"
    );
}

#[test]
fn the_version_names_the_features_that_are_in() {
    let output = ttsr(["--version"]).output().unwrap();
    let mut lines = stdout(&output).lines();
    assert_eq!(
        lines.next(),
        Some(concat!("ttsr ", env!("CARGO_PKG_VERSION")))
    );
    let features = lines.next().unwrap().strip_prefix("features: ").unwrap();
    let features: Vec<&str> = features.split(' ').collect();
    for feature in [
        "ast",
        "lookaround",
        "unicode",
        "providers",
        "opencode",
        "tools",
    ] {
        assert!(features.contains(&feature), "the command has {feature}");
    }
}

#[test]
fn explain_and_list_show_patterns_with_their_fragments() {
    let root = scratch("fragments");
    let pack = r#"schema = 1

[pack]
name = "s"

[patterns]
start = '(?:^|;)\s*'
branch = 'main|master'

[rule.push]
description = "No push to main"
match.any = [{ regex = '(?&start)git push (?&branch)' }]
examples.match = ["git push main"]
examples.no-match = ["git push topic"]
"#;
    fs::write(root.join("pack.toml"), pack).unwrap();
    let run = |args: &[&str]| {
        let output = ttsr(args.iter().copied())
            .current_dir(&root)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        stdout(&output).to_owned()
    };
    let expanded = r"(?:(?:^|;)\s*)git push (?:main|master)";
    let explained = run(&["explain", "s/push", "--pack", "pack.toml"]);
    assert!(explained.contains(expanded), "{explained}");
    let listed = run(&["list", "--pack", "pack.toml", "--format", "json"]);
    let in_json = serde_json::to_string(expanded).unwrap();
    assert!(listed.contains(&in_json), "{listed}");
    // The formatter keeps the use.
    run(&["fmt", "--check", "pack.toml"]);
    run(&["test", "pack.toml"]);
}

#[test]
fn the_builtin_rules_are_formatted() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules");
    let output = ttsr(["fmt", "--check"]).arg(rules).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn explain_knows_the_exceptions_of_the_packs() {
    let root = scratch("excepted");
    let pack = "schema = 1\npack.name = 's'\n[rule.r]\ndescription = 'd'\non = ['tool-input']\nmatch.any = [{ literal = 'beta' }]\n\
                examples.match = ['beta']\n[[allow]]\nrules = ['s/r']\npaths = ['docs/**']\nreason = 'x'\n";
    fs::write(root.join("pack.toml"), pack).unwrap();
    for (path, told) in [
        ("docs/a", "it does not hit: an `[[allow]]` excepts it"),
        ("src/a", "it hits: \"beta\""),
    ] {
        let place = ["--tool", "write", "--path", path, "--text", "beta"];
        let args = ["explain", "s/r", "--pack", "pack.toml"];
        let output = ttsr(args.into_iter().chain(place))
            .current_dir(&root)
            .output()
            .unwrap();
        assert!(stdout(&output).contains(told), "{}", stdout(&output));
    }
}

#[test]
fn explain_shows_what_groups_captured_and_the_message() {
    let root = scratch("captured");
    let pack = r#"schema = 1
pack.name = "s"
[rule.push]
description = "No push to main"
on = ["tool-input"]
tools = ["bash"]
args = ["command"]
match.any = [{ regex = 'git push (?P<remote>\w+) (main|master)( --force)?' }]
message = "`{{ match.text }}` by {{ tool }}: open a pull request."
examples.match = ["git push origin main"]
"#;
    fs::write(root.join("pack.toml"), pack).unwrap();
    let explain = |more: &[&str]| {
        let args = [
            "explain",
            "s/push",
            "--pack",
            "pack.toml",
            "--tool",
            "bash",
            "--text",
            "cd a && git push origin main",
        ];
        ttsr(args.into_iter().chain(more.iter().copied()))
            .current_dir(&root)
            .output()
            .unwrap()
    };
    let human = explain(&[]);
    for line in [
        "group remote: \"origin\"",
        "group 2: \"main\"",
        "group 3: no match",
        "`git push origin main` by bash: open a pull request.",
    ] {
        assert!(stdout(&human).contains(line), "{line}: {}", stdout(&human));
    }
    let json = parsed(&events(&explain(&["--format", "json"]), "live"));
    let tried = &json[0]["tried"];
    assert_eq!(
        tried["message"],
        "`git push origin main` by bash: open a pull request."
    );
    assert_eq!(tried["captures"][0]["group"], "remote");
    assert_eq!(tried["captures"][0]["value"], "origin");
    assert_eq!(tried["captures"][2]["value"], serde_json::Value::Null);
}

/// A match that cannot be verified is no hit. An author must see that an example does not hit for this reason.
#[test]
fn test_and_explain_report_matches_that_exceed_a_limit() {
    let root = scratch("undecided");
    let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = "a".repeat(40) + "!";
    let pack = |severity: &str, examples: &str| {
        let pack = format!(
            "schema = 1\npack.name = 's'\n[rule.r]\ndescription = 'd'\non = ['text']\nseverity = '{severity}'\n\
             match.any = [{{ regex = '^(?:a|aa)+(a)\\1!(?<!a!)' }}]\n{examples}\n\
             [rule.other]\ndescription = 'd'\non = ['text']\nmatch.any = [{{ literal = '!' }}]\n\
             examples.match = ['{text}']\n"
        );
        fs::write(root.join("pack.toml"), pack).unwrap();
    };
    let run = |args: &[&str]| run_in(&root, args);
    let undecided = "undecided: 1 example with possible matches that exceed a limit";
    let reason = "a possible match exceeds a limit and cannot be decided";

    pack("error", &format!("examples.no-match = ['{text}']"));
    let passed = run(&["test", "pack.toml"]);
    assert_eq!(passed.status.code(), Some(0));
    assert!(
        text_of(&passed.stderr).contains(undecided),
        "{}",
        text_of(&passed.stderr)
    );
    let json = parsed(&events(
        &run(&["test", "pack.toml", "--format", "json"]),
        "test",
    ));
    let undecided_of =
        |rule: &str| &json.iter().find(|it| it["rule"] == rule).unwrap()["undecided"];
    assert_eq!(*undecided_of("s/r"), 1);
    assert_eq!(*undecided_of("s/other"), serde_json::Value::Null);
    let explained = run(&["explain", "s/r", "--pack", "pack.toml", "--text", &text]);
    for line in [reason, "undecided possible matches: 1"] {
        assert!(stdout(&explained).contains(line), "{}", stdout(&explained));
    }

    pack("error", &format!("examples.match = ['{text}']"));
    let failed = run(&["test", "pack.toml"]);
    assert!(stdout(&failed).contains(reason), "{}", stdout(&failed));

    pack("critical", &format!("examples.match = ['{text}']"));
    let hit = run(&["test", "pack.toml"]);
    assert_eq!(hit.status.code(), Some(0));
    assert!(
        !text_of(&hit.stderr).contains("undecided"),
        "{}",
        text_of(&hit.stderr)
    );
}

/// A host reads a whole text at once, so the message quotes what follows the byte at which the rule hits.
#[test]
fn messages_of_rules_on_whole_texts_quote_the_whole_match_as_in_a_host() {
    let root = scratch("captured-whole");
    for channel in ["tool-output", "user-input", "error"] {
        let pack = format!(
            r#"schema = 1
pack.name = "s"
[rule.agent]
description = "The agent does not exist"
on = ["{channel}"]
action = "warn"
match.any = [{{ regex = 'Unknown agent\b(?:[^\n]*Available agents: (?<options>[^\n]+))?' }}]
message = "Take another.{{% if capture.options %}} There are: {{{{ capture.options }}}}{{% endif %}}"
examples.match = ["Unknown agent: foo. Available agents: explore,  oracle"]
"#
        );
        fs::write(root.join("pack.toml"), pack).unwrap();
        let run = |args: &[&str]| run_in(&root, args);
        let text = "Unknown agent: foo. Available agents: explore,  oracle";
        let args = ["explain", "s/agent", "--pack", "pack.toml", "--text", text];
        let explained = run(&args);
        let message = "Take another. There are: explore, oracle";
        let shown = stdout(&explained);
        assert!(shown.contains(message), "{channel}: {shown}");
        run(&["docs", "--pack", "pack.toml", "--out", "pages"]);
        let page = fs::read_to_string(root.join("pages/s.md")).unwrap();
        assert!(page.contains(message), "{channel}: {page}");
    }
}

#[test]
fn a_benchmark_names_what_it_measured_and_prints_no_negative_saving() {
    let human = bench("human", &[]);
    let first = stdout(&human).lines().next().unwrap();
    for name in [
        concat!("ttsr ", env!("CARGO_PKG_VERSION")),
        "demo",
        "recordings/reply.ndjson",
    ] {
        assert!(first.contains(name), "{first}");
    }
    let signed = [", -", ", +"].map(|sign| stdout(&human).contains(sign));
    assert_eq!(signed, [false, false], "{}", stdout(&human));
    let json: serde_json::Value = serde_json::from_str(stdout(&bench("json", &[]))).unwrap();
    for rule in json["rules"].as_array().unwrap() {
        let saved = &rule["ns_saved_per_delta"];
        assert!(saved.is_null() || saved.as_f64().unwrap() > 0.0, "{saved}");
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

/// Replaces every number except counts of the input: times and states vary.
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
    // The number of states of each rule depends on the matcher.
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
fn a_benchmark_counts_instructions() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip::test("valgrind is not installed");
    }
    let stream = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reasoning.ndjson");
    let deltas = r#"{"t":9,"ch":"reasoning","part":"1","d":"No TODO is left."}"#.to_owned() + "\n";
    fs::write(&stream, deltas.repeat(20)).unwrap();
    let args = [
        "bench",
        "--pack",
        "packs/demo.toml",
        "--instructions",
        "--format",
        "json",
    ];
    let output = ttsr(args).arg("--stream").arg(stream).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|it| it["row"].as_str().unwrap()).collect();
    assert_eq!(names, ["recorded", "reasoning", "opening"]);
    for row in rows {
        let counted = row["instructions"].as_f64().unwrap();
        assert!((10.0..1e6).contains(&counted), "{row}");
    }
}

#[test]
fn instructions_of_the_standard_input_are_refused() {
    let args = [
        "bench",
        "--pack",
        "packs/demo.toml",
        "--stream",
        "-",
        "--instructions",
    ];
    let recording = fs::read(folder().join("recordings/reply.ndjson")).unwrap();
    let output = feed(ttsr(args), recording);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("can be read once"));
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

/// Copies a rule file into a new folder.
fn copy(pack: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(pack);
    fs::copy(folder().join("packs").join(pack), &path).unwrap();
    path
}

/// Returns a new, empty folder.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_compiled_pack_is_read_wherever_a_pack_is() {
    let folder = scratch("compiled");
    let demo = self::folder().join("packs/demo.toml");
    let demo = demo.to_str().unwrap();
    let run = |args: &[&str]| run_in(&folder, args);
    let compiled = run(&["compile", "--pack", demo, "-o", "demo.pack"]);
    assert_eq!(
        compiled.status.code(),
        Some(0),
        "{}",
        text(&compiled.stderr)
    );
    assert_eq!(
        text(&compiled.stderr),
        "ttsr: compiled 4 rules into demo.pack\n"
    );
    fs::write(folder.join("text"), "TODO, sp\u{e4}ter\n").unwrap();
    fs::write(folder.join("call"), r#"{"command": "rm -rf /"}"#).unwrap();
    for (code, command) in [
        (0, &["list"] as &[&str]),
        (1, &["scan", "text"]),
        (1, &["scan", "--tool", "bash", "call", "--format", "json"]),
        (0, &["explain", "demo/no-rm"]),
    ] {
        let with = |pack| run(&[&command[..1], &["--pack", pack], &command[1..]].concat());
        let (found, expected) = (with("demo.pack"), with(demo));
        assert_eq!(found.status.code(), Some(code), "{}", text(&found.stderr));
        assert_eq!(stdout(&found), stdout(&expected));
        assert_eq!(text(&found.stderr), text(&expected.stderr));
    }
    let tested = run(&["test", "demo.pack"]);
    assert_eq!(text(&tested.stderr), text(&run(&["test", demo]).stderr));
    // A compiled pack is complete, and a damaged one is refused.
    let both = run(&["list", "--pack", "demo.pack", "--pack", "lang/go"]);
    assert_eq!(both.status.code(), Some(2));
    assert!(
        text(&both.stderr).contains("error[compiled-combined]"),
        "{both:?}"
    );
    let bytes = fs::read(folder.join("demo.pack")).unwrap();
    fs::write(folder.join("half.pack"), &bytes[..bytes.len() / 2]).unwrap();
    let half = run(&["list", "--pack", "half.pack"]);
    assert_eq!(half.status.code(), Some(2));
    assert!(
        text(&half.stderr).contains("error[compiled-damaged]"),
        "{half:?}"
    );
    let nowhere = run(&["compile", "--pack", demo, "-o", "no/such/folder.pack"]);
    assert_eq!(nowhere.status.code(), Some(2));
}

#[test]
fn a_nearly_right_key_is_fixed_in_the_file() {
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

/// Returns the texts of the files in a folder, by name.
#[cfg(unix)]
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    files(folder).into_iter().map(read).collect()
}

/// A file of at most 0 bytes fails to be written like one on a full disk.
#[test]
#[cfg(unix)]
fn a_failed_write_leaves_every_file_as_it_was() {
    let folder = scratch("unwritable");
    let packs = self::folder().join("packs");
    for pack in ["near.toml", "demo.toml", "unformatted.toml"] {
        fs::copy(packs.join(pack), folder.join(pack)).unwrap();
    }
    let settings = self::folder().join("foreign/settings.json");
    fs::copy(settings, folder.join("settings.json")).unwrap();
    let docs = ["docs", "--pack", "demo.toml", "--out", "."];
    let made = ttsr(docs).current_dir(&folder).output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let page = fs::read_to_string(folder.join("demo.md")).unwrap();
    fs::write(
        folder.join("demo.md"),
        page.replace("no-rm", "no-rm-at-all"),
    )
    .unwrap();
    let before = contents(&folder);
    for args in [
        "check --fix near.toml",
        "check --lock new.lock demo.toml",
        "compile --pack demo.toml -o near.toml",
        "compile --pack demo.toml -o new.pack",
        "docs --pack demo.toml --out .",
        "fmt unformatted.toml",
        "import settings.json --force --out near.toml",
        "import settings.json --out new.toml",
        "new team/x --out new.toml",
    ] {
        let limited = format!("trap '' XFSZ && ulimit -f 0 && exec \"$0\" {args}");
        let output = Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_ttsr")])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args}: {}",
            text(&output.stderr)
        );
        assert!(contents(&folder) == before, "{args}: a file has changed");
    }
}

#[test]
#[cfg(unix)]
fn a_rewritten_file_keeps_its_links_its_mode_and_its_neighbours() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = scratch("rewritten");
    let near = fs::read(self::folder().join("packs/near.toml")).unwrap();
    let (file, link) = (folder.join("near.toml"), folder.join("link.toml"));
    let neighbour = folder.join("near.toml.ttsr-new");
    fs::write(&neighbour, "mine").unwrap();
    symlink("near.toml", &link).unwrap();
    for args in [
        &["fmt", "link.toml"][..],
        &["check", "--fix", "link.toml"],
        &["compile", "--pack", "link.toml", "-o", "link.toml"],
    ] {
        let before = match args[0] {
            "compile" => fs::read(&file).unwrap(),
            _ => [near.as_slice(), b"\n\n"].concat(),
        };
        fs::write(&file, &before).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let run = ttsr(args.iter().copied()).current_dir(&folder).output();
        let run = run.unwrap();
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        assert_ne!(fs::read(&file).unwrap(), before, "{args:?}");
        assert!(link.is_symlink(), "{args:?}");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{args:?}");
        assert_eq!(fs::read_to_string(&neighbour).unwrap(), "mine");
        assert_eq!(files(&folder).len(), 3, "{args:?}");
    }
}

/// A device or a pipe has a name that must stay, and no contents that a failed write could lose.
#[test]
#[cfg(unix)]
fn output_that_is_no_regular_file_is_written_to() {
    let args = ["import", "foreign/settings.json", "--force", "--out"];
    let output = ttsr(args).arg("/dev/stdout").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let pack = ttsr::Pack::from_toml(stdout(&output)).unwrap();
    assert_eq!(pack.rules().len(), 7);
}

#[test]
fn check_says_what_every_rule_of_a_big_pack_keeps_in_few_lines() {
    let args = ["check", "../../../../rules/std/secrets"];
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
fn manual_pages_describe_every_subcommand() {
    let folder = scratch("man").join("man1");
    let output = ttsr(["man"]).arg(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let help = ttsr(["--help"]).output().unwrap();
    let commands = stdout(&help).split("Commands:\n").nth(1).unwrap();
    let commands = commands.lines().take_while(|line| line.starts_with("  "));
    // Descriptions are wrapped, with more spaces before them.
    let names = commands.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(names.len() > 15, "{names:?}");
    let pages = files(&folder);
    assert_eq!(pages.len(), 1 + names.len(), "{pages:?}");
    for name in names {
        let page = fs::read_to_string(folder.join(format!("ttsr-{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH ttsr-{name} 1")), "{page}");
        assert!(page.contains(".SH OPTIONS"), "{page}");
    }
    let main = fs::read_to_string(folder.join("ttsr.1")).unwrap();
    assert!(main.contains("Exit codes: 0 clean"), "{main}");
    assert!(!main.contains("features:"), "{main}");
}

/// The image in README is the current output of the demo. `UPDATE_GOLDEN=1` writes it.
#[test]
fn the_image_of_the_demo_is_what_the_demo_writes() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/demo.svg");
    let file = match std::env::var_os("UPDATE_GOLDEN") {
        Some(_) => golden.clone(),
        None => scratch("svg").join("demo.svg"),
    };
    let output = ttsr(["demo", "--svg"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stdout(&output), "");
    let image = fs::read_to_string(&file).unwrap();
    assert!(
        image == fs::read_to_string(&golden).unwrap(),
        "docs/demo.svg is out of date"
    );
    assert!(image.starts_with("<svg ") && image.contains("git-reset-hard"));
}

#[test]
fn the_pages_about_the_packs_are_those_that_the_command_writes() {
    let mut args = vec!["docs", "--out", "../../../../docs/packs"];
    args.extend(["--measured", "../../../../docs/packs/measured.toml"]);
    if std::env::var_os("UPDATE_GOLDEN").is_none() {
        args.push("--check");
    }
    let output = ttsr(args).output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/packs");
    for name in ttsr::Pack::builtin_names() {
        let page = packs.join(name.replace('/', "-") + ".md");
        assert!(page.exists(), "{name} has no page");
    }
}

#[test]
fn measured_numbers_are_shown_in_the_page_of_a_pack() {
    let folder = scratch("measured");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("measured.toml");
    let docs = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut command = ttsr(["docs", "--pack", "packs/demo.toml", "--measured"]);
        command.arg(&file).output().unwrap()
    };
    let head = "date = 2027-01-31\nabout = \"rules on 9 texts\"\n[rules]\n";
    let numbers = "{ dangerous = 1, clean = 0, recordings = 22 }";
    let output = docs(&format!("{head}\"demo/no-rm\" = {numbers}\n"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = stdout(&output);
    assert!(page.contains("\nMeasured on 2027-01-31: rules on 9 texts\n"));
    let (_, section) = page.split_once("## `no-rm`").unwrap();
    let line = "- Measured: hits 1 dangerous text, 0 clean texts and 22 recordings\n";
    assert!(section.contains(line), "{section}");
    assert_eq!(page.matches("- Measured").count(), 1);
    for text in [
        "",
        "date = 1",
        &format!("{head}\"demo/no-rm\" = {{ dangerous = 1 }}\n"),
    ] {
        let output = docs(text);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

#[test]
fn personal_data_is_found_only_if_its_pack_is_named() {
    let folder = scratch("personal-data");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("reply.txt");
    fs::write(&file, "Write to jane.doe@acme-tools.io.\n").unwrap();
    let scan = |more: &[&str]| {
        let output = ttsr(["scan"]).args(more).arg(&file).output().unwrap();
        (output.status.code(), text(&output.stdout).to_string())
    };
    let (code, told) = scan(&[]);
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = scan(&["--pack", "std/pii"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("std/pii/email"), "{told}");
    // The commands that show rules know the pack.
    let list = ttsr(["list"]).output().unwrap();
    assert!(text(&list.stdout).contains("std/pii/email"));
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
    let Some(corpus) = skip::corpus() else {
        return;
    };
    let rules = corpus.join("rules/gitleaks.toml");
    let source: toml::Table = toml::from_str(&fs::read_to_string(&rules).unwrap()).unwrap();
    let expected = source["rules"].as_array().unwrap().len();
    assert!(expected >= 220);
    let out = scratch("gitleaks").join("pack.toml");
    let output = ttsr(["import", "gitleaks", rules.to_str().unwrap(), "--out"])
        .arg(&out)
        .output()
        .unwrap();
    // Some allowlists have no equivalent and are reported.
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

#[test]
fn an_import_overwrites_only_with_force_and_only_with_something() {
    let out = scratch("force").join("pack.toml");
    fs::write(&out, "mine").unwrap();
    let import = |args: &[&str]| {
        let mut import = ttsr(["import", "foreign/settings.json", "--out"]);
        import.arg(&out).args(args).output().unwrap()
    };
    let refused = import(&[]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    assert_eq!(import(&["--force"]).status.code(), Some(1));
    assert_eq!(ttsr::Pack::load(&out).unwrap().rules().len(), 7);
    let before = fs::read_to_string(&out).unwrap();
    let mut nothing = ttsr(["import", "foreign/nowhere.json", "--force", "--out"]);
    assert_eq!(nothing.arg(&out).output().unwrap().status.code(), Some(2));
    assert_eq!(fs::read_to_string(&out).unwrap(), before);
}

/// Runs import, check and scan with the command, on texts in which every rule has a candidate.
#[test]
fn the_rules_of_gitleaks_go_round() {
    let Some(corpus) = skip::corpus() else {
        return;
    };
    let rules = corpus.join("rules/gitleaks.toml");
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
    // A long random value after each keyword, in all forms that the rules match.
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

/// A match for each of the 22 rules whose condition is on text.
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

/// A match for each of the others, whose condition is on the syntax tree.
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

/// With the feature `ast` all 27 rules are converted; a build without it lists those that need it.
#[test]
fn every_shape_of_oh_my_pis_rules_is_imported() {
    let shapes = files(&folder().join("foreign/oh-my-pi"));
    assert_eq!(shapes.len(), 27);
    let out = scratch("oh-my-pi").join("pack.toml");
    let mut import = ttsr(["import", "--from", "oh-my-pi", "--format", "json", "--out"]);
    let output = import.arg(&out).args(&shapes).output().unwrap();
    let left = events(&output, "left-out");
    let mut breaks = BREAKS.to_vec();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    // One condition counts up to 300 UTF-16 units, which are characters here; the import reports that.
    let (counts, left): (Vec<_>, Vec<_>) = left
        .into_iter()
        .partition(|line| line.contains("a count is of characters here"));
    assert!(
        counts
            .iter()
            .all(|line| line.contains("ts-no-local-is-record")),
        "{counts:?}"
    );
    assert!(left.is_empty(), "{left:?}");
    breaks.extend(BREAKS_SHAPES);
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
            let mut hits = stream.set_tool(ttsr::PartId(0), "write", "call").to_vec();
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
    let mut waiting = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules")];
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
    assert_eq!(output.status.code(), Some(2), "a file was not scanned");
    assert!(text(&output.stderr).contains("b.bin: 5 bytes not scanned: binary"));
    assert_eq!(events(&output, "unread").len(), 1);
    assert_eq!(events(&scan(&["--no-ignore"]), "hit").len(), 151);
    let without = scan(&["--skip-binary"]);
    assert_eq!(without.status.code(), Some(1));
    assert_eq!(events(&without, "unread").len(), 0);
    let summary = parse(&events(&without, "summary").concat());
    assert_eq!(summary["unscanned_bytes"], 0);
    assert!(text(&without.stderr).contains("1 binary file skipped"));
}

/// Runs the commands of a document in a folder: `toml` and `json` blocks with a name are files, each line of a `console`
/// block that begins with `$` is a command, and the lines after it are its output on both streams. Returns the document
/// with the actual output.
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
    for (name, least) in [("docs/authoring.md", 20), ("README.md", 2)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name);
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

/// Tests each block of the reference with examples of rules: a whole rule file, or a rule without the file's head.
#[test]
fn every_example_of_the_reference_hits() {
    let folder = scratch("reference");
    let document = include_str!("../../../../docs/rules.md");
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
fn measured_values_are_written_into_cases_and_nothing_else_changes() {
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

/// Returns the peak memory of a process in bytes, as the system counts it.
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

/// Feeds `block` to the command `few` times, and then `many` times. Returns the growth of memory in between.
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
    // A pipe holds less than a block, so nearly all of it has been read.
    let after = peak(child.id());
    drop(stdin);
    child.wait().unwrap();
    after.saturating_sub(before)
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

/// Parts beyond the limit take no memory.
#[cfg(target_os = "linux")]
#[test]
fn a_million_parts_are_replayed_in_bounded_memory() {
    let block = "{\"part\":\"p\",\"d\":\"a word\",\"end\":true}\n".repeat(20_000);
    let args = ["replay", "--pack", "packs/demo.toml", "-"];
    let grew = growth(&args, block.as_bytes(), (8, 50));
    println!("replay: 840,000 parts more, {} KiB more kept", grew >> 10);
    assert!(grew < 4 << 20, "{grew} bytes more for 840,000 parts");
}

/// Build servers limit the address space, and systems without overcommit count it as used.
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

#[test]
fn scan_explain_and_replay_know_the_outcome_of_a_tool_call() {
    let root = scratch("outcome");
    let rule = |name: &str, outcome: &str| {
        format!(
            "[rule.{name}]\ndescription = \"d\"\nseverity = \"info\"\non = [\"tool-output\"]\ntools = [\"read\"]\n{outcome}\
             match.any = [{{ literal = \"no such file\" }}]\nmessage = \"After {name}.\"\nexamples.match = [\"no such file\"]\n"
        )
    };
    let pack = "schema = 1\npack.name = \"o\"\n".to_owned()
        + &rule("failed", "outcome = \"error\"\n")
        + &rule("fine", "outcome = \"ok\"\n")
        + &rule("any", "");
    fs::write(root.join("o.toml"), pack).unwrap();
    fs::write(root.join("out.txt"), "no such file").unwrap();
    let run = |command: &str, args: &[&str]| {
        let args = [command].into_iter().chain(args.iter().copied());
        let args = args.chain(["--pack", "o.toml", "--format", "json"]);
        ttsr(args).current_dir(&root).output().unwrap()
    };
    let rules = |output: &Output| -> Vec<String> {
        let hits = parsed(&events(output, "hit"));
        let mut rules: Vec<_> = hits
            .iter()
            .map(|hit| hit["rule"].as_str().unwrap().to_owned())
            .collect();
        rules.sort();
        rules
    };
    let scan = |more: &[&str]| run("scan", &[&["--tool", "read", "out.txt"], more].concat());
    let (ok, error) = (["o/any", "o/fine"], ["o/any", "o/failed"]);
    for (more, expected) in [
        (&["--channel", "tool-output"][..], ok),
        (&["--channel", "tool-output", "--outcome", "ok"], ok),
        (&["--channel", "tool-output", "--outcome", "error"], error),
        (&["--outcome", "error"], error),
        (&["--outcome", "error", "--first"], error),
    ] {
        assert_eq!(rules(&scan(more)), expected, "{more:?}");
    }
    let wrong = scan(&["--channel", "text", "--outcome", "ok"]);
    assert_eq!(wrong.status.code(), Some(2));
    let told = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        told.contains("`--outcome` needs the channel `tool-output`"),
        "{told}"
    );

    let explain = |rule: &str, outcome: &str| {
        let args = [rule, "--outcome", outcome, "--text", "no such file"];
        parsed(&events(&run("explain", &args), "live")).remove(0)
    };
    for (rule, outcome, is_live) in [
        ("o/failed", "error", true),
        ("o/failed", "ok", false),
        ("o/fine", "error", false),
        ("o/any", "error", true),
    ] {
        let live = explain(rule, outcome);
        assert_eq!(live["live"], is_live, "{live}");
    }
    let failed = explain("o/failed", "error");
    assert_eq!(failed["tried"]["hits"], true);
    assert_eq!(failed["tried"]["message"], "After failed.");

    let line = |outcome: &str| {
        format!(
            r#"{{"t":1,"ch":"tool-output","part":"0","tool":"read"{outcome},"d":"no such file"}}"#
        )
    };
    let result = r#"{"type":"message","id":"m","content":[{"type":"mcp_tool_use","id":"c","name":"read","input":{"p":1}},{"type":"mcp_tool_result","tool_use_id":"c","is_error":true,"content":[{"type":"text","text":"no such file"}]}]}"#;
    for (recording, expected) in [
        (line(""), ok),
        (line(",\"outcome\":\"ok\""), ok),
        (line(",\"outcome\":\"error\""), error),
        (result.to_owned(), error),
    ] {
        fs::write(root.join("r.jsonl"), &recording).unwrap();
        for chunk in ["1", "whole"] {
            let output = run("replay", &["r.jsonl", "--chunk", chunk]);
            assert_eq!(
                rules(&output),
                expected,
                "{recording}, in chunks of {chunk}"
            );
        }
    }
}
