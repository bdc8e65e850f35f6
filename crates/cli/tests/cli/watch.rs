//! `ttsr watch` as a script sees it: its first and last output, and its exit codes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use ttsr_agent::opencode::ActionJournal;

use super::block_on;
use ttsr_testing::Folder;
use ttsr_testing::opencode::event;
use ttsr_testing::opencode::{Imitation, Play};

const PACK: &str = r#"
schema = 1
[pack]
name = "t"
grants = ["retry", "redact", "append"]
[defaults]
severity = "error"
[rule.text]
description = "Use `?`."
match.any = [{ literal = ".unwrap()" }]
examples.match = ["x.unwrap()"]
[rule.tool]
description = "Ask first."
on = ["tool-input"]
match.any = [{ literal = "rm -rf" }]
examples.match = ["rm -rf"]
[rule.secret]
description = "A secret."
action = "redact"
match.any = [{ literal = "tok-1" }]
examples.match = ["tok-1"]
[rule.told]
description = "Hm."
action = "warn"
match.any = [{ literal = "hmm" }]
examples.match = ["hmm"]
[rule.prompt]
description = "Hm."
action = "append"
on = ["user-input"]
match.any = [{ literal = "hmm" }]
examples.match = ["hmm"]
"#;

/// Runs `ttsr watch` with a home of its own, and no tries after the first.
async fn run(
    home: &Path,
    imitation: &Imitation,
    args: &[&str],
    env: &[(&'static str, &'static str)],
) -> Output {
    let pack = home.join("t.toml");
    std::fs::write(&pack, PACK).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ttsr"));
    command
        .args(["watch", "--tries", "1", "--url", &imitation.url, "--pack"])
        .arg(&pack)
        .args(args)
        .env_remove("OPENCODE_SERVER_PASSWORD")
        .env_remove("OPENCODE_SERVER_USERNAME")
        .env("XDG_STATE_HOME", home)
        .envs(env.iter().copied())
        .stdin(Stdio::null());
    let running = tokio::task::spawn_blocking(move || command.output().unwrap());
    running.await.unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr.clone()).unwrap()
}

const REACH: &str = "1 of 5 rules can act here; \
    1 with `redact`: only reported, not possible from outside; \
    1 on tool calls: in time only with `--api next` or `permission: ask`, else the call has run; \
    1 with `warn`: only reported; \
    1 on channels that the server does not report";

#[test]
fn the_first_line_says_how_many_rules_can_act_and_why_the_others_cannot() {
    block_on(async {
        let home = Folder::outside();
        let imitation = Imitation::start(vec![vec![Play::Break]]).await;
        let output = run(&home.0, &imitation, &[], &[]).await;
        let text = String::from_utf8(output.stdout).unwrap();
        let first = text.lines().next().unwrap();
        let mut parts: Vec<&str> = first.split("; ").collect();
        let mut expected: Vec<&str> = REACH.split("; ").collect();
        parts.sort_unstable();
        expected.sort_unstable();
        assert_eq!(parts, expected);

        let imitation = Imitation::start(vec![vec![Play::Break]]).await;
        let output = run(
            &home.0,
            &imitation,
            &["--api", "next", "--format", "json"],
            &[],
        )
        .await;
        let first = lines(&output).remove(0);
        assert_eq!(
            (&first["event"], &first["rules"], &first["acting"]),
            (&json!("rules"), &json!(5), &json!(2)),
            "tool calls are heard in time"
        );
        assert_eq!(first["others"].as_array().unwrap().len(), 3);
    });
}

#[test]
fn the_rules_of_each_command_of_the_guide_can_act() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/opencode.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let commands = guide
        .lines()
        .filter_map(|line| line.strip_prefix("    ttsr watch "));
    let commands: Vec<&str> = commands.collect();
    assert!(
        commands[0].contains("--pack "),
        "the first command names a pack"
    );
    block_on(async {
        for command in commands
            .into_iter()
            .filter(|command| command.contains("--pack "))
        {
            let home = Folder::outside();
            let imitation = Imitation::start(vec![vec![Play::Break]]).await;
            let (url, args): (Vec<&str>, Vec<&str>) = command
                .split(' ')
                .partition(|word| word.starts_with("http"));
            assert_eq!(url.len(), 1, "{command}");
            let args: Vec<&str> = args.into_iter().filter(|word| *word != "--url").collect();
            let mut watching = Command::new(env!("CARGO_BIN_EXE_ttsr"));
            watching
                .args(["watch", "--tries", "1", "--url", &imitation.url])
                .args(&args)
                .env("XDG_STATE_HOME", &home.0)
                .stdin(Stdio::null());
            let watching = tokio::task::spawn_blocking(move || watching.output().unwrap());
            let output = watching.await.unwrap();
            let first = String::from_utf8(output.stdout).unwrap();
            let first = first.lines().next().unwrap_or_default();
            let acting = first
                .split(' ')
                .next()
                .and_then(|count| count.parse::<usize>().ok());
            assert!(acting.is_some_and(|count| count > 0), "{command}: {first}");
            assert!(first.contains("rules can act here"), "{command}: {first}");
        }
    });
}

#[test]
fn a_dry_run_sums_up_what_would_be_done() {
    block_on(async {
        let text = |id: &str, text: &str| {
            let part = json!({ "id": id, "messageID": "msg_1", "type": "text", "text": text });
            event(
                "message.part.updated",
                json!({ "sessionID": "ses_1", "part": part }),
            )
        };
        let state = json!({ "status": "running", "input": { "command": "rm -rf /" } });
        let call = json!({ "id": "p4", "messageID": "msg_1", "type": "tool", "tool": "bash", "callID": "c", "state": state });
        let plays = vec![
            text("p1", "x.unwrap()"),
            text("p2", "tok-1"),
            text("p3", "hmm"),
            event(
                "message.part.updated",
                json!({ "sessionID": "ses_1", "part": call }),
            ),
            Play::Break,
        ];
        let home = Folder::outside();
        let imitation = Imitation::start(vec![plays]).await;
        let output = run(&home.0, &imitation, &["--dry-run", "--format", "json"], &[]).await;
        let lines = lines(&output);
        assert_eq!(
            lines.last().unwrap(),
            &json!({ "event": "summary", "acting": 1, "late": 1, "reported": 2 })
        );
        assert_eq!(imitation.request_lines(), [] as [&str; 0]);
        assert!(!home.0.join("ttsr").exists(), "a dry run has no journal");
    });
}

#[test]
fn a_401_names_the_variable_of_the_password() {
    block_on(async {
        for (env, said) in [
            (&[][..], "requires a password: set OPENCODE_SERVER_PASSWORD"),
            (
                &[("OPENCODE_SERVER_PASSWORD", "canary-7")][..],
                "rejects the password in OPENCODE_SERVER_PASSWORD",
            ),
        ] {
            let home = Folder::outside();
            let imitation = Imitation::start(vec![]).await;
            imitation.answer(
                "/global/event",
                "401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
            );
            let output = run(&home.0, &imitation, &[], env).await;
            let error = error(&output);
            assert!(
                error.contains(said) && !error.contains("canary-7"),
                "{error}"
            );
        }
    });
}

#[test]
fn a_session_that_the_server_does_not_know_is_an_error() {
    block_on(async {
        for api in ["classic", "next"] {
            let home = Folder::outside();
            let imitation = Imitation::start(vec![]).await;
            imitation.answer(
                "/session/ses_x",
                "404 Not Found\r\ncontent-length: 0\r\n\r\n",
            );
            let args = ["--session", "ses_x", "--api", api];
            let error = error(&run(&home.0, &imitation, &args, &[]).await);
            assert!(error.contains("has no session `ses_x`"), "{error}");
        }
    });
}

#[test]
fn a_second_watcher_with_the_same_journal_refuses_to_start() {
    block_on(async {
        let home = Folder::outside();
        let imitation = Imitation::start(vec![]).await;
        let place = imitation
            .url
            .strip_prefix("http://")
            .unwrap()
            .replace(':', "-");
        let path = home.0.join("ttsr/watch").join(format!("{place}.json"));
        let first = ActionJournal::open(path).unwrap();
        let error = error(&run(&home.0, &imitation, &[], &[]).await);
        assert!(
            error.contains("another `ttsr watch` acts on this server"),
            "{error}"
        );
        drop(first);
    });
}

#[test]
fn a_chain_that_names_no_provider_is_an_error() {
    block_on(async {
        let home = Folder::outside();
        let imitation = Imitation::start(vec![]).await;
        for chain in ["gpt", "build=a/b,gpt", "a/", "/b", ""] {
            let error = error(&run(&home.0, &imitation, &["--fallback", chain], &[]).await);
            assert!(error.contains("is not PROVIDER/MODEL"), "{error}");
        }
    });
}

#[test]
fn the_command_switches_models_without_a_pack_that_does() {
    block_on(async {
        let status = json!({ "type": "retry", "attempt": 1, "message": "Overloaded" });
        let plays = vec![
            event(
                "session.status",
                json!({ "sessionID": "ses_1", "status": status }),
            ),
            Play::Await("/prompt_async"),
            Play::Break,
        ];
        let home = Folder::outside();
        let imitation = Imitation::start(vec![plays]).await;
        let asked = r#"[{"info":{"role":"user"},"parts":[{"type":"text","text":"Go."}]}]"#;
        imitation.answer_json("/session/ses_1/message?limit=20", asked);
        let args = ["--fallback", "oak/owl-1,elm/owl-2", "--format", "json"];
        let output = run(&home.0, &imitation, &args, &[]).await;
        let lines = lines(&output);
        let act = lines.iter().find(|line| line["event"] == "act").unwrap();
        assert_eq!(
            (&act["does"], &act["model"]),
            (&json!("switch"), &json!("oak/owl-1"))
        );
        assert_eq!(
            imitation.request_lines(),
            [
                "POST /session/ses_1/abort",
                "POST /session/ses_1/prompt_async"
            ]
        );
    });
}

/// A process that was killed holds its lock until the system has closed its files.
#[test]
fn a_watcher_that_is_killed_and_started_again_at_once_is_no_other_watcher() {
    block_on(async {
        let home = Folder::outside();
        let pack = home.0.join("t.toml");
        std::fs::write(&pack, PACK).unwrap();
        let imitation = Imitation::start(vec![]).await;
        let (url, journal) = (imitation.url.clone(), home.0.join("acts.json"));
        let killing = tokio::task::spawn_blocking(move || {
            let mut killed = Vec::new();
            for time in 0..8 {
                let mut watcher = Command::new(env!("CARGO_BIN_EXE_ttsr"))
                    .args(["watch", "--format", "json", "--url", &url, "--pack"])
                    .arg(&pack)
                    .arg("--journal")
                    .arg(&journal)
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let told = BufReader::new(watcher.stdout.take().unwrap()).lines();
                let is_connected = told
                    .map_while(Result::ok)
                    .any(|line| line.contains("connected"));
                // Not waited for: the next one starts while this one may still hold the lock.
                watcher.kill().unwrap();
                if !is_connected {
                    let output = watcher.wait_with_output().unwrap();
                    panic!("{time}: {}", String::from_utf8_lossy(&output.stderr));
                }
                killed.push(watcher);
            }
            for mut watcher in killed {
                watcher.wait().unwrap();
            }
        });
        killing.await.unwrap();
    });
}
