//! The tools of a folder: their effects, their refusals, and the processes they start.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use ttsr::harness::{
    AgentTurn, Cancel, Content, End, Hooks, Message, Processor, Request, Scripted, ScriptedReply,
    Settings, Step, ToolOutput, Tools,
};
use ttsr::{Channel, Pack};
#[cfg(target_os = "linux")]
use ttsr_agent::tools::Containment;
use ttsr_agent::tools::{ToolLimits, WorkingFolder};
#[cfg(target_os = "linux")]
use ttsr_testing::in_parts;

/// A folder for each test, with files outside of it.
struct Scratch {
    outside: ttsr_testing::Folder,
    path: PathBuf,
}

impl Scratch {
    fn new() -> Scratch {
        let outside = ttsr_testing::Folder::new();
        let path = outside.0.join("folder");
        fs::create_dir(&path).unwrap();
        fs::write(outside.0.join("secret"), "outside").unwrap();
        Scratch { outside, path }
    }

    fn open(&self) -> WorkingFolder {
        WorkingFolder::open(&self.path).unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap()
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn call(folder: &WorkingFolder, tool: &str, input: Value) -> ToolOutput {
    runtime().block_on(folder.run(tool, &input.to_string()))
}

/// The error.
fn refused(folder: &WorkingFolder, tool: &str, input: Value) -> String {
    let after = call(folder, tool, input.clone());
    assert!(after.is_error, "{tool} {input}: {}", after.output);
    after.output
}

/// Calls each of the file tools with a path; returns the tools with their errors.
fn refused_by_each(folder: &WorkingFolder, path: &str) -> [(&'static str, String); 3] {
    [
        ("read", json!({"path": path})),
        ("write", json!({"path": path, "content": "x"})),
        (
            "edit",
            json!({"path": path, "old_string": "outside", "new_string": "x"}),
        ),
    ]
    .map(|(tool, input)| (tool, refused(folder, tool, input)))
}

fn done(folder: &WorkingFolder, tool: &str, input: Value) -> String {
    let after = call(folder, tool, input.clone());
    assert!(!after.is_error, "{tool} {input}: {}", after.output);
    after.output
}

#[test]
fn a_folder_opened_through_a_link_has_its_real_path() {
    let scratch = Scratch::new();
    let link = scratch.outside.0.join("link");
    symlink(&scratch.path, &link).unwrap();
    let folder = WorkingFolder::open(&link).unwrap();
    let real = scratch.path.canonicalize().unwrap();
    assert_eq!(folder.path(), real);
    assert!(format!("{folder:?}").contains(&format!("path: {real:?}")));
}

#[test]
fn a_file_is_written_read_and_edited() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    done(
        &folder,
        "write",
        json!({"path": "a/b/c.txt", "content": "one\ntwo\nthree\n"}),
    );
    assert_eq!(
        done(&folder, "read", json!({"path": "a/b/c.txt"})),
        "one\ntwo\nthree\n"
    );
    let second = json!({"path": "./a/../a/b/c.txt", "offset": 2, "limit": 1});
    assert_eq!(
        done(&folder, "read", second),
        "two\n[more follows: read on with offset 3]"
    );
    done(
        &folder,
        "edit",
        json!({"path": "a/b/c.txt", "old_string": "two", "new_string": "2"}),
    );
    assert_eq!(scratch.text("a/b/c.txt"), "one\n2\nthree\n");
    let absolute = scratch.path.canonicalize().unwrap().join("a/b/c.txt");
    assert_eq!(
        done(&folder, "read", json!({"path": absolute})),
        "one\n2\nthree\n"
    );
}

#[test]
fn an_edit_must_know_what_it_replaces() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    done(&folder, "write", json!({"path": "f", "content": "a b a"}));
    let edit = |old: &str, new: &str| json!({"path": "f", "old_string": old, "new_string": new});
    assert!(refused(&folder, "edit", edit("a", "x")).contains("2 times"));
    assert!(refused(&folder, "edit", edit("z", "x")).contains("is not in"));
    assert!(refused(&folder, "edit", edit("", "x")).contains("empty"));
    assert!(refused(&folder, "edit", edit("a", "a")).contains("the same"));
    let mut all = edit("a", "x");
    all["replace_all"] = json!(true);
    assert_eq!(done(&folder, "edit", all), "Edited f in 2 places.");
    assert_eq!(scratch.text("f"), "x b x");
}

#[test]
fn paths_that_leave_the_folder_are_refused() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    let secret = scratch.outside.0.join("secret");
    for path in [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        secret.to_str().unwrap(),
        "..",
        "/",
        ".",
        "",
        "a\0b",
    ] {
        refused_by_each(&folder, path);
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "outside");
}

#[test]
fn symbolic_links_are_not_followed_wherever_they_stand() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    fs::create_dir(scratch.path.join("real")).unwrap();
    fs::write(scratch.path.join("real/file"), "inside").unwrap();
    symlink(scratch.outside.0.join("secret"), scratch.path.join("file")).unwrap();
    symlink("..", scratch.path.join("up")).unwrap();
    symlink("/", scratch.path.join("root")).unwrap();
    symlink("real", scratch.path.join("within")).unwrap();
    symlink("nowhere", scratch.path.join("dangling")).unwrap();
    symlink("loop", scratch.path.join("loop")).unwrap();
    for path in [
        "file",
        "up/secret",
        "root/etc/passwd",
        "within/file",
        "dangling",
        "loop",
        "loop/x",
    ] {
        for (tool, problem) in refused_by_each(&folder, path) {
            assert!(
                problem.contains("symbolic link"),
                "{tool} {path}: {problem}"
            );
        }
    }
    assert_eq!(
        fs::read_to_string(scratch.outside.0.join("secret")).unwrap(),
        "outside"
    );
    assert_eq!(scratch.text("real/file"), "inside");
    assert!(!scratch.path.join("nowhere").exists());
}

/// Opening must not block, and only regular files are read.
#[test]
fn an_input_that_is_not_a_regular_file_is_refused_at_once() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    done(
        &folder,
        "bash",
        json!({"command": "mkfifo pipe && mkdir folder && printf 'a\\0b' > zero && printf '\\xff' > odd"}),
    );
    for (path, problem) in [
        ("pipe", "is not a regular file"),
        ("folder", "is not a regular file"),
        ("zero", "is not a text file"),
        ("odd", "is not UTF-8"),
        ("missing", ""),
        ("missing/too", ""),
        ("zero/x", ""),
    ] {
        let refusal = refused(&folder, "read", json!({"path": path}));
        assert!(refusal.ends_with(problem), "{refusal}");
    }
    for path in ["pipe", "folder", "zero/x"] {
        refused(&folder, "write", json!({"path": path, "content": "x"}));
    }
}

#[test]
fn sizes_are_bounded_and_said_to_be() {
    let scratch = Scratch::new();
    let bounds = ToolLimits {
        output: 100,
        file: 1_000,
        ..ToolLimits::default()
    };
    let folder = scratch.open().limits(bounds);
    assert!(
        refused(
            &folder,
            "write",
            json!({"path": "f", "content": "x".repeat(1_001)})
        )
        .contains("limit is 1000")
    );
    assert!(!scratch.path.join("f").exists());
    fs::write(scratch.path.join("big"), "x".repeat(2_000)).unwrap();
    assert!(refused(&folder, "read", json!({"path": "big"})).contains("limit is 1000"));
    let lines: String = (0..50).map(|line| format!("line {line}\n")).collect();
    done(&folder, "write", json!({"path": "lines", "content": lines}));
    let first = done(&folder, "read", json!({"path": "lines"}));
    assert!(
        first.ends_with("[more follows: read on with offset 14]"),
        "{first}"
    );
    fs::write(scratch.path.join("long"), "é".repeat(400)).unwrap();
    assert!(done(&folder, "read", json!({"path": "long"})).contains("longer than what fits"));
    let grow = json!({"path": "lines", "old_string": "line", "new_string": "x".repeat(500), "replace_all": true});
    assert!(refused(&folder, "edit", grow).contains("limit is 1000"));
    let said = done(&folder, "bash", json!({"command": "seq 1 100000"}));
    assert!(
        said.starts_with("1\n2\n") && said.ends_with("100000\n") && said.contains("bytes left out"),
        "{said}"
    );
    assert!(said.len() < 200);
}

/// A file in `/proc` has the length 0 before it is read, like a file that grows between both.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_is_longer_than_its_length_is_refused_and_not_cut() {
    let limits = ToolLimits {
        file: 10,
        ..ToolLimits::default()
    };
    let folder = WorkingFolder::open("/proc").unwrap();
    let version = done(&folder, "read", json!({"path": "version"}));
    assert!(version.len() > 10, "{version}");
    let folder = folder.limits(limits);
    let edit = json!({"path": "version", "old_string": &version[..2], "new_string": "x"});
    for (tool, input) in [("read", json!({"path": "version"})), ("edit", edit)] {
        let problem = refused(&folder, tool, input);
        assert_eq!(problem, "`version` is more than 10 bytes, limit is 10");
    }
}

#[test]
fn a_file_keeps_its_mode_and_leaves_nothing_else_behind() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    fs::write(scratch.path.join("run.sh"), "echo a\n").unwrap();
    fs::set_permissions(
        scratch.path.join("run.sh"),
        fs::Permissions::from_mode(0o750),
    )
    .unwrap();
    done(
        &folder,
        "edit",
        json!({"path": "run.sh", "old_string": "a", "new_string": "b"}),
    );
    let mode = fs::metadata(scratch.path.join("run.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
    let names: Vec<_> = fs::read_dir(&scratch.path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["run.sh"]);
}

#[test]
fn wrong_inputs_and_unknown_tools_are_results() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    let raw = |tool: &str, input: &str| runtime().block_on(folder.run(tool, input));
    for (tool, input) in [
        ("read", ""),
        ("read", "{"),
        ("read", "[]"),
        ("read", r#"{"path": 7}"#),
        ("read", r#"{"path": "a", "pth": "b"}"#),
        ("write", r#"{"path": "a"}"#),
        ("bash", r#"{"command": null}"#),
        ("fly", "{}"),
    ] {
        let after = raw(tool, input);
        assert!(after.is_error, "{tool} {input}");
    }
}

#[test]
fn a_command_tells_what_it_wrote_and_how_it_ended() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    let both = json!({"command": "echo one; echo two >&2; echo three; pwd; cat; echo $HOME"});
    let here = scratch.path.canonicalize().unwrap();
    let here = here.display();
    assert_eq!(
        done(&folder, "bash", both),
        format!("one\ntwo\nthree\n{here}\n{here}\n")
    );
    assert_eq!(
        refused(&folder, "bash", json!({"command": "printf half; exit 3"})),
        "half\n[exit code 3]"
    );
    assert_eq!(
        refused(&folder, "bash", json!({"command": "kill -TERM $$"})),
        "[ended by signal 15]"
    );
    assert_eq!(done(&folder, "bash", json!({"command": "true"})), "");
}

/// The environment of a harness contains keys.
#[test]
fn a_command_sees_little_of_the_environment() {
    let scratch = Scratch::new();
    let said = done(&scratch.open(), "bash", json!({"command": "env"}));
    for line in said.lines() {
        let (name, _) = line.split_once('=').unwrap();
        let known = [
            "PATH",
            "LANG",
            "LC_ALL",
            "TZ",
            "TMPDIR",
            "USER",
            "LOGNAME",
            "HOME",
            "TERM",
            "PWD",
            "SHLVL",
            "_",
            "OLDPWD",
            "TTSR_COMMAND",
        ];
        assert!(known.contains(&name), "{name}");
    }
}

/// Returns true if a process with that id exists. A zombie does not count.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim();
    !state.is_empty() && !state.starts_with('Z')
}

/// Waits, within a time limit, until the processes whose ids are in that file have ended.
fn ends(pids: &str) -> bool {
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert!(!pids.is_empty());
    for _ in 0..500 {
        if pids.iter().all(|pid| !is_alive(pid)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_takes_too_long_is_killed_with_all_it_started() {
    let scratch = Scratch::new();
    let bounds = ToolLimits {
        command: Duration::from_millis(400),
        ..ToolLimits::default()
    };
    let folder = scratch.open().limits(bounds);
    let command = "trap '' TERM INT HUP; sleep 100 & (trap '' TERM; sleep 100) & echo $$ $! > pids; echo begun; wait";
    let said = refused(&folder, "bash", json!({"command": command, "timeout": 50}));
    assert!(
        said.starts_with("begun\n[the command did not end within 400ms"),
        "{said}"
    );
    assert!(ends(&scratch.text("pids")), "something outlived its time");
}

#[cfg(target_os = "linux")]
#[test]
fn processes_that_a_command_leaves_are_ended_with_it() {
    let scratch = Scratch::new();
    let said = done(
        &scratch.open(),
        "bash",
        json!({"command": "sleep 100 & echo $! > pids; echo over"}),
    );
    assert_eq!(said, "over\n");
    assert!(
        ends(&scratch.text("pids")),
        "something outlived the command"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn dropping_a_call_ends_its_command() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    runtime().block_on(async {
        let input = json!({"command": "sleep 100 & echo $$ $! > pids; wait"}).to_string();
        let mut running = Box::pin(folder.run("bash", &input));
        let written = async {
            while !fs::read_to_string(scratch.path.join("pids"))
                .is_ok_and(|text| text.ends_with('\n'))
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = &mut running => panic!("it sleeps"),
            () = written => {}
        }
        drop(running);
    });
    assert!(ends(&scratch.text("pids")), "the command outlived the call");
}

/// Returns a folder with that containment, if this system supports it.
#[cfg(target_os = "linux")]
fn contained(scratch: &Scratch, containment: Containment) -> Option<WorkingFolder> {
    let folder = scratch.open().at_most(containment);
    let folder = match containment {
        Containment::Subreaper => folder.supervisor(env!("CARGO_BIN_EXE_ttsr")),
        _ => folder,
    };
    if folder.containment() != containment {
        eprintln!("skipped: {containment:?} is not available here");
        return None;
    }
    Some(folder)
}

/// Commands that try to leave the process group that they were started in, and the weakest containment that finds their
/// processes. Each writes the ids of its processes into `pids`.
#[cfg(target_os = "linux")]
const ESCAPES: [(&str, Containment, &str); 10] = [
    (
        "the leader joins the group of its parent",
        Containment::Group,
        r#"exec perl -e 'setpgrp(0, getpgrp(getppid)); open F, ">pids"; print F "$$\n"; close F; sleep 100'"#,
    ),
    (
        "a session of its own",
        Containment::Group,
        "setsid sleep 100 & sleep 0.1; echo $! > pids; setsid sleep 100 & sleep 0.1; echo $! >> pids",
    ),
    (
        "a session of its own, deaf to hang-ups",
        Containment::Group,
        "setsid nohup bash -c 'echo $$ > pids; sleep 100' >/dev/null 2>&1 & while ! [ -s pids ]; do sleep 0.01; done",
    ),
    (
        "a daemon",
        Containment::Group,
        r#"perl -e 'use POSIX; fork and exit; POSIX::setsid(); fork and exit; open F, ">pids"; print F "$$\n"; close F; sleep 100'; while ! [ -s pids ]; do sleep 0.01; done"#,
    ),
    (
        "a daemon without an environment",
        Containment::Subreaper,
        r#"(env -i setsid bash -c 'echo $$ > pids; sleep 100' >/dev/null 2>&1 &); while ! [ -s pids ]; do sleep 0.01; done"#,
    ),
    (
        "a daemon that starts one after the other",
        Containment::Subreaper,
        r#"(env -i setsid bash -c 'while :; do (setsid sleep 100 & echo $! >> pids); sleep 0.01; done' >/dev/null 2>&1 &); while ! [ -s pids ]; do sleep 0.01; done"#,
    ),
    (
        "programs that replace themselves all the time",
        Containment::Group,
        r#"printf '#!/bin/sh\nexec "$0"\n' > again; chmod +x again; for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'echo $$ >> pids; exec ./again' & done; while [ "$(cat pids | wc -l)" != 8 ]; do sleep 0.01; done"#,
    ),
    (
        "signals that are not heard",
        Containment::Group,
        "trap '' TERM INT HUP; echo $$ > pids; while :; do sleep 1; done",
    ),
    (
        "the parent is killed",
        Containment::Subreaper,
        "echo $$ > pids; [ \"$(ps -o args= $PPID | grep -c supervise)\" = 0 ] || kill -9 $PPID; sleep 100",
    ),
    (
        "the parent is stopped",
        Containment::Subreaper,
        "echo $$ > pids; [ \"$(ps -o args= $PPID | grep -c supervise)\" = 0 ] || kill -STOP $PPID; sleep 100",
    ),
];

#[cfg(target_os = "linux")]
#[test]
fn nothing_that_a_command_starts_outlives_it_and_the_wait_is_bounded() {
    for containment in [
        Containment::Group,
        Containment::Subreaper,
        Containment::Cgroup,
    ] {
        if contained(&Scratch::new(), containment).is_none() {
            continue;
        }
        // Side by side, because most commands run until their limit.
        in_parts(ESCAPES.len(), |range| {
            for (name, weakest, command) in &ESCAPES[range] {
                if containment < *weakest {
                    continue;
                }
                let scratch = Scratch::new();
                let folder = contained(&scratch, containment).expect("it is available");
                let bounds = ToolLimits {
                    command: Duration::from_millis(1500),
                    ..ToolLimits::default()
                };
                let began = std::time::Instant::now();
                call(&folder.limits(bounds), "bash", json!({"command": command}));
                let took = began.elapsed();
                assert!(
                    took < Duration::from_secs(15),
                    "{name}, {containment:?}: {took:?}"
                );
                assert!(
                    ends(&scratch.text("pids")),
                    "{name}, {containment:?}: something outlived the command"
                );
            }
        });
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_call_that_is_dropped_ends_what_left_its_group() {
    for containment in [
        Containment::Group,
        Containment::Subreaper,
        Containment::Cgroup,
    ] {
        let scratch = Scratch::new();
        let Some(folder) = contained(&scratch, containment) else {
            continue;
        };
        runtime().block_on(async {
            let command = "setsid bash -c 'echo $$ > pids; sleep 100' & sleep 100";
            let input = json!({ "command": command }).to_string();
            let mut running = Box::pin(folder.run("bash", &input));
            let written = async {
                while !fs::read_to_string(scratch.path.join("pids"))
                    .is_ok_and(|text| text.ends_with('\n'))
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                _ = &mut running => panic!("it sleeps"),
                () = written => {}
            }
        });
        assert!(ends(&scratch.text("pids")), "{containment:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_ends_as_it_says_by_every_means() {
    for containment in [
        Containment::Group,
        Containment::Subreaper,
        Containment::Cgroup,
    ] {
        let scratch = Scratch::new();
        let Some(folder) = contained(&scratch, containment) else {
            continue;
        };
        for (command, expected) in [
            ("echo one; exit 3", "one\n[exit code 3]"),
            ("kill -TERM $$", "[ended by signal 15]"),
            ("exit 143", "[exit code 143]"),
        ] {
            let after = call(&folder, "bash", json!({"command": command}));
            assert_eq!(after.output, expected, "{containment:?}");
        }
        let both = json!({"command": "echo $0 $#; readlink /proc/self/fd/0"});
        assert_eq!(done(&folder, "bash", both), "bash 0\n/dev/null\n");
    }
}

/// Text written by a model must not run with the rights of the file's owner.
#[test]
fn a_file_that_is_rewritten_loses_setuid_and_setgid_and_keeps_the_rest() {
    let scratch = Scratch::new();
    let folder = scratch.open();
    for (before, after) in [
        (0o4755, 0o755),
        (0o2755, 0o755),
        (0o6711, 0o711),
        (0o1644, 0o1644),
    ] {
        for tool in ["write", "edit"] {
            let path = scratch.path.join("run.sh");
            fs::write(&path, "echo a\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
            let input = match tool {
                "write" => json!({"path": "run.sh", "content": "echo b\n"}),
                _ => json!({"path": "run.sh", "old_string": "a", "new_string": "b"}),
            };
            done(&folder, tool, input);
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, after, "{tool} {before:o}");
            assert_eq!(scratch.text("run.sh"), "echo b\n");
        }
    }
}

/// A complete turn: a model reads, edits and tests under rules, one of which stops a call.
#[test]
fn a_turn_runs_from_the_prompt_to_the_answer() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("sum.sh"), "echo $(( $1 - $2 ))\n").unwrap();
    let script = |tool: &str, call: &str, input: Value| {
        ScriptedReply::default()
            .tool(tool, call, input.to_string())
            .finish("tool_use")
            .cut(7)
    };
    let mut provider = Scripted::new([
        script("read", "c1", json!({"path": "sum.sh"})),
        script("bash", "c2", json!({"command": "git push --force"})),
        script(
            "edit",
            "c3",
            json!({"path": "sum.sh", "old_string": "-", "new_string": "+"}),
        ),
        script("bash", "c4", json!({"command": "bash sum.sh 2 3"})),
        ScriptedReply::default()
            .text("It adds now.")
            .finish("end_turn"),
    ]);
    let pack = Pack::from_toml(
        r#"
        schema = 1
        [pack]
        name = "demo"
        [rule.no-force]
        description = "Never push by force"
        severity = "error"
        on = ["tool-input"]
        tools = ["bash"]
        args = ["command"]
        match.any = [{ literal = "push --force" }]
        examples.match = ["git push --force"]
        "#,
    );
    let mut processor = Processor::new(&pack.unwrap(), Hooks::default(), Settings::default());
    let tools: Box<dyn Tools> = Box::new(scratch.open());
    let mut cuts = 0;
    let turn = AgentTurn::new(&mut processor, &mut provider, &*tools, Cancel::default());
    let request = Request::new("a-model", vec![Message::user("Mend sum.sh.")]);
    let outcome = runtime().block_on(turn.run(request, "m", &mut |step: &Step| {
        cuts += usize::from(matches!(step, Step::Aborted(_)));
    }));
    assert!(
        matches!(outcome.end, End::Complete { .. }),
        "{:?}",
        outcome.end
    );
    assert_eq!(outcome.reply.text(Channel::Text), "It adds now.");
    assert_eq!(cuts, 1);
    let results = outcome.added.iter().flat_map(|message| &message.content);
    let results: Vec<&str> = results
        .filter_map(|content| match content {
            Content::ToolResult { output, .. } => Some(output.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        results,
        ["echo $(( $1 - $2 ))\n", "Edited sum.sh in 1 place.", "5\n"]
    );
    let requests = provider.requests();
    assert_eq!(
        requests[0]
            .tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect::<Vec<_>>(),
        ["read", "write", "edit", "bash"]
    );
}
