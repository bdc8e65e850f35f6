//! `ttsr run` against a local server.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use ttsr_testing::flood::Flood;
use ttsr_testing::{Folder, in_parts};

const KEY: &str = "sk-canary-0123456789abcdef";

/// Answers one connection after another and returns the requests. A connection stays open after its answer until the
/// client closes it.
fn serve(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = thread::spawn(move || {
        let answer = |answer: &String| {
            let (mut stream, _) = listener.accept().unwrap();
            let request = heard(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            stream.flush().unwrap();
            // The client may close the connection before it has read everything.
            stream.read_to_end(&mut Vec::new()).ok();
            request
        };
        answers.iter().map(answer).collect()
    });
    (base, serving)
}

fn heard(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        let mut more = [0; 4096];
        let count = stream.read(&mut more).unwrap();
        assert!(count > 0, "the request is whole");
        bytes.extend_from_slice(&more[..count]);
    }
}

fn sse(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn chunk(delta: &str, reason: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
    )
}

fn ttsr(base: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ttsr"));
    command
        .args([
            "run",
            "--provider",
            "openai-chat",
            "--model",
            "m",
            "--base-url",
            base,
            "--key-env",
            "TEST_KEY",
        ])
        .args(more)
        .env("TEST_KEY", KEY)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli"))
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    for bytes in [&output.stdout, &output.stderr] {
        assert!(
            !String::from_utf8_lossy(bytes).contains(KEY),
            "the key was printed"
        );
    }
    output
}

fn events(output: &Output) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"));
    lines.collect()
}

fn of_kind<'a>(events: &'a [serde_json::Value], kind: &str) -> Vec<&'a serde_json::Value> {
    events
        .iter()
        .filter(|event| event["event"] == kind)
        .collect()
}

#[test]
fn a_turn_with_a_tool_and_a_verdict() {
    let call = |id: &str, input: &str| {
        let input = serde_json::to_string(input).unwrap();
        format!(
            r#"{{"tool_calls":[{{"index":0,"id":"{id}","type":"function","function":{{"name":"bash","arguments":{input}}}}}]}}"#
        )
    };
    let bad =
        sse(&(chunk(&call("c1", r#"{"command":"git push --force"}"#), "null") + &" ".repeat(9)));
    let good = sse(&(chunk(
        &call("c2", r#"{"command":"echo $((2+3))"}"#),
        "\"tool_calls\"",
    ) + "data: [DONE]\n\n"));
    let end = sse(&(chunk(r#"{"content":"It is 5."}"#, "\"stop\"") + "data: [DONE]\n\n"));
    let (base, serving) = serve(vec![bad, good, end]);
    let output = ttsr(
        &base,
        &[
            "--pack",
            "scripts/run.toml",
            "--tools",
            "files",
            "--format",
            "json",
            "Add.",
        ],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let events = events(&output);
    assert_eq!(of_kind(&events, "verdict")[0]["rule"], "run/no-force-push");
    assert_eq!(of_kind(&events, "tool-result")[0]["output"], "5\n");
    let answer = of_kind(&events, "answer")[0];
    assert_eq!(
        (&answer["complete"], &answer["text"]),
        (&true.into(), &"It is 5.".into())
    );
    let requests = serving.join().unwrap();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
        assert!(request.contains(&format!("authorization: Bearer {KEY}\r\n")));
    }
    assert!(
        requests[1].contains("Push without --force."),
        "{}",
        requests[1]
    );
    assert!(
        requests[2].contains(r#""tool_call_id":"c2""#),
        "{}",
        requests[2]
    );
}

#[test]
fn the_next_model_is_asked_and_said_to_be() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n"
        .to_owned();
    let good = sse(&(chunk(r#"{"content":"Hello."}"#, "\"stop\"") + "data: [DONE]\n\n"));
    let (base, serving) = serve(vec![busy, good]);
    let output = ttsr(
        &base,
        &[
            "--model",
            "other",
            "--pack",
            "scripts/run.toml",
            "--format",
            "json",
            "Hi.",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let fallback = of_kind(&events(&output), "falling-back")[0].clone();
    assert_eq!(
        (&fallback["from"], &fallback["to"]),
        (&"m".into(), &"other".into())
    );
    let told = of_kind(&events(&output), "not-retried")[0].clone();
    assert_eq!(
        (&told["asked_ms"], &told["longest_ms"]),
        (&3_600_000.into(), &20_000.into())
    );
    assert!(serving.join().unwrap()[1].contains(r#""model":"other""#));
}

#[test]
fn a_provider_that_refuses_ends_with_2_and_its_words() {
    let body =
        format!(r#"{{"error":{{"message":"no such key: {KEY}","code":"invalid_api_key"}}}}"#);
    let refused = format!(
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (base, serving) = serve(vec![refused]);
    let output = ttsr(&base, &["--pack", "scripts/run.toml", "Hi."]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("invalid_api_key: 401 Unauthorized: no such key: [key]"),
        "{said}"
    );
    assert_eq!(serving.join().unwrap().len(), 1);
}

/// A rule that acts once in ten turns, and one that redirects the model once per session.
const KEPT: &str = r#"
schema = 1
[pack]
name = "kept"
grants = ["inject", "retry"]
[rule.style]
description = "Say it plainly."
severity = "warning"
match.any = [{ literal = "utilize" }]
action = "inject"
message = "Say `use`."
repeat = { cooldown-turns = 10 }
examples.match = ["utilize it"]
[rule.any]
description = "Say what the type is."
severity = "error"
match.any = [{ literal = ": any" }]
repeat = { per-session = 1 }
examples.match = ["x: any"]
"#;

/// Runs a turn that both rules match, and another one. Returns the decisions and the request of the second turn. With
/// `--session` in `more`, both turns belong to one session.
fn two_turns(folder: &std::path::Path, more: &[&str]) -> (Vec<String>, String) {
    let reply = |text: &str| {
        let content = serde_json::json!({ "content": text }).to_string();
        sse(&(chunk(&content, "\"stop\"") + "data: [DONE]\n\n"))
    };
    let pack = folder.join("kept.toml");
    std::fs::write(&pack, KEPT).unwrap();
    let mut options = vec!["--pack", pack.to_str().unwrap(), "--format", "json"];
    options.extend_from_slice(more);
    let turn = |answers: Vec<String>, prompt: &str| {
        let (base, serving) = serve(answers);
        let options = [&options[..], &[prompt]].concat();
        let output = ttsr(&base, &options);
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "{output:?}"
        );
        let decisions = of_kind(&events(&output), "verdict")
            .into_iter()
            .map(|verdict| {
                let suppressed = verdict["suppressed"].as_bool().unwrap();
                format!("{} {suppressed}", verdict["rule"].as_str().unwrap())
            })
            .collect::<Vec<_>>();
        (decisions, serving.join().unwrap())
    };
    let bad = "utilize let x: any";
    let (first, _) = turn(vec![reply(bad), reply("use let x: number")], "One.");
    assert_eq!(first, ["kept/style false", "kept/any false"]);
    // Without the session the second reply is also cut and retried.
    let answers = match more.is_empty() {
        true => vec![reply(bad), reply("use let x: number")],
        false => vec![reply(bad)],
    };
    let (second, requests) = turn(answers, "Two.");
    let body = requests[0].split_once("\r\n\r\n").unwrap().1.to_owned();
    (second, body)
}

#[test]
fn a_session_on_disk_goes_on_with_the_same_decisions() {
    let folder = Folder::new();
    let (decisions, body) = two_turns(&folder.0, &[]);
    assert_eq!(decisions, ["kept/style false", "kept/any false"]);
    assert!(!body.contains("One."));

    let folder = Folder::new();
    let file = folder.0.join("talk.ttsr");
    let file = file.to_str().unwrap();
    let (decisions, body) = two_turns(&folder.0, &["--session", file]);
    assert_eq!(decisions, ["kept/style true", "kept/any true"]);
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let said: Vec<&str> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        said,
        [
            // The provider accepts only one consecutive message of the user.
            "One.\n\nSay `use`.\n\nkept/any: Say what the type is.",
            "use let x: number",
            "Two."
        ]
    );

    let log = Command::new(env!("CARGO_BIN_EXE_ttsr"))
        .args(["log", file])
        .output()
        .unwrap();
    assert_eq!(log.status.code(), Some(0), "{log:?}");
    let log = String::from_utf8(log.stdout).unwrap();
    for line in [
        "user       One.",
        "user       Two.",
        "assistant  use let x: number",
        "assistant  utilize let x: any",
        "retry      kept/any in text, byte 18, attempt 1 of turn 1",
        "kept/any in text, byte 18, attempt 1 of turn 2 (",
    ] {
        assert!(log.contains(line), "{line:?} is not in\n{log}");
    }
}

#[test]
fn the_log_shows_the_type_and_the_size_of_an_image_and_not_its_data() {
    let folder = Folder::new();
    let file = folder.0.join("talk.ttsr");
    let (store, _) = ttsr_agent::store::Store::open(&file).unwrap();
    let on_failure = ttsr_agent::store::OnFailure::Stop;
    let mut recorder = ttsr_agent::store::SessionRecorder::new(store, on_failure);
    let conversation = ttsr::Conversation::new(&ttsr::Pack::builder().build().unwrap());
    let asked = ttsr::harness::Message::user("What is it?")
        .with_image("image/png", "iVBORw0KGgo=")
        .with_image("image/\u{1b}[31mgif", "Rw==");
    recorder.message(&asked, &conversation).unwrap();
    drop(recorder);
    let log = Command::new(env!("CARGO_BIN_EXE_ttsr"))
        .arg("log")
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(log.status.code(), Some(0), "{log:?}");
    let log = String::from_utf8(log.stdout).unwrap();
    for line in [
        "user       What is it?",
        "user       [image image/png, 8 bytes]",
        "gif, 1 byte]",
    ] {
        assert!(log.contains(line), "{line:?} is not in\n{log}");
    }
    assert!(!log.contains("iVBOR") && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn a_session_that_is_in_use_or_is_something_else_is_refused() {
    let folder = Folder::new();
    let file = folder.0.join("notes.txt");
    std::fs::write(&file, "notes\n").unwrap();
    let output = ttsr(
        "http://127.0.0.1:1/v1",
        &["--session", file.to_str().unwrap(), "Hi."],
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes\n");

    let file = folder.0.join("talk.ttsr");
    let (_store, _) = ttsr_agent::store::Store::open(&file).unwrap();
    let output = ttsr(
        "http://127.0.0.1:1/v1",
        &["--session", file.to_str().unwrap(), "Hi."],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("talk.ttsr"),
        "{output:?}"
    );
}

/// A delay longer than the limit ends the turn, and the user is notified in both cases.
#[test]
fn a_wait_beyond_the_bound_is_told() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n";
    for format in ["human", "json"] {
        let (base, serving) = serve(vec![busy.to_owned()]);
        let output = ttsr(
            &base,
            &["--pack", "scripts/run.toml", "--format", format, "Hi."],
        );
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("the provider asks to wait 3600s; at most 20s are waited"),
            "{said}"
        );
        let shown = String::from_utf8_lossy(&output.stdout);
        let told = match format {
            "json" => r#""event":"not-retried""#,
            _ => "no retry    the provider asks for a delay of 3600s, the limit is 20s",
        };
        assert!(shown.contains(told), "{shown}");
        assert_eq!(serving.join().unwrap().len(), 1);
    }
}

fn bash_call(id: &str, command: &str) -> String {
    let input = serde_json::json!({ "command": command }).to_string();
    let call = serde_json::json!({"tool_calls": [{
        "index": 0, "id": id, "type": "function",
        "function": {"name": "bash", "arguments": input},
    }]});
    sse(&(chunk(&call.to_string(), "\"tool_calls\"") + "data: [DONE]\n\n"))
}

fn said(text: &str) -> String {
    let content = serde_json::json!({ "content": text }).to_string();
    sse(&(chunk(&content, "\"stop\"") + "data: [DONE]\n\n"))
}

/// The commands of a call run on this machine, so its home directory is known.
#[cfg(unix)]
#[test]
fn the_home_directory_of_the_user_is_known_when_it_is_written_in_full() {
    let call = bash_call("c1", "rm -rf /srv/people/ada");
    let (base, serving) = serve(vec![call, said("I leave it.")]);
    let output = Command::new(env!("CARGO_BIN_EXE_ttsr"))
        .args(["run", "--provider", "openai-chat", "--model", "m"])
        .args(["--base-url", &base, "--key-env", "TEST_KEY"])
        .args(["--pack", "std/shell-safety", "--format", "json", "Tidy up."])
        .env("TEST_KEY", KEY)
        .env("HOME", "/srv/people/ada")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let verdicts = events(&output);
    let verdict = of_kind(&verdicts, "verdict")[0];
    assert_eq!(verdict["rule"], "std/shell-safety/rm-system-path");
    serving.join().unwrap();
}

/// A command can read the initial environment of its ancestors.
#[cfg(target_os = "linux")]
#[test]
fn a_command_finds_no_key_in_the_environment_of_its_ancestors() {
    let walk = r#"pid=$PPID; seen=0
while [ "$pid" -gt 1 ]; do
  seen=$((seen + 1))
  tr '\0' '\n' < /proc/$pid/environ | grep -E '[c]anary|[s]ecret' && echo "in the environment of $pid"
  tr '\0' '\n' < /proc/$pid/cmdline | grep -E '[c]anary|[s]ecret' && echo "in the arguments of $pid"
  [ "$(tr '\0' '\n' < /proc/$pid/cmdline | grep -cx -- --base-url)" = 1 ] && echo run
  pid=$(sed -n 's/^PPid:\t//p' /proc/$pid/status)
done
[ "$seen" -gt 0 ] && echo walked"#;
    let (base, serving) = serve(vec![bash_call("c1", walk), said("Nothing.")]);
    let output = Command::new(env!("CARGO_BIN_EXE_ttsr"))
        .args(["run", "--provider", "openai-chat", "--model", "m"])
        .args(["--base-url", &base, "--key-env", "TEST_KEY"])
        .args(["--pack", "scripts/run.toml", "--tools", "files"])
        .args(["--format", "json", "Look."])
        .env("TEST_KEY", KEY)
        .env("ANOTHER_TOKEN", "secret-0123456789")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let results = events(&output);
    assert_eq!(
        of_kind(&results, "tool-result")[0]["output"],
        "run\nwalked\n"
    );
    for request in serving.join().unwrap() {
        assert!(request.contains(&format!("authorization: Bearer {KEY}\r\n")));
    }
}

/// A provider that repeats the key in pieces, in text and in a call; and a command that finds it in a file.
#[cfg(unix)]
#[test]
fn a_key_that_comes_back_is_shown_and_kept_nowhere() {
    let folder = Folder::new();
    std::fs::write(folder.0.join(".env"), format!("KEY={KEY}\n")).unwrap();
    let file = folder.0.join("talk.ttsr");
    let (first, second) = KEY.split_at(7);
    let pieces = [format!("Your key is {first}"), format!("{second}.")];
    let pieces = pieces.map(|piece| {
        let content = serde_json::json!({ "content": piece }).to_string();
        chunk(&content, "null")
    });
    let call = bash_call("c1", &format!("echo {KEY} > copy; cat .env"));
    let (_, call) = call.split_once("\r\n\r\n").unwrap();
    for format in ["human", "json"] {
        let (base, serving) = serve(vec![sse(&(pieces.concat() + call)), said("Done.")]);
        let output = ttsr(
            &base,
            &[
                "--pack",
                "scripts/run.toml",
                "--tools",
                folder.0.to_str().unwrap(),
                "--session",
                file.to_str().unwrap(),
                "--format",
                format,
                "Go.",
            ],
        );
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("KEY=[key]"), "{shown}");
        let kept = std::fs::read_to_string(&file).unwrap();
        assert!(!kept.contains(KEY), "the key is in the session");
        assert!(kept.contains("Your key is [key]."), "{kept}");
        assert_eq!(
            std::fs::read_to_string(folder.0.join("copy")).unwrap(),
            "[key]\n"
        );
        let second = &serving.join().unwrap()[1];
        let (_, body) = second.split_once("\r\n\r\n").unwrap();
        assert!(!body.contains(KEY), "{body}");
    }
}

fn tool_call(tool: &str, input: &serde_json::Value) -> String {
    let call = serde_json::json!({"tool_calls": [{
        "index": 0, "id": "c1", "type": "function",
        "function": {"name": tool, "arguments": input.to_string()},
    }]});
    sse(&(chunk(&call.to_string(), "\"tool_calls\"") + "data: [DONE]\n\n"))
}

/// Returns the messages of a request with their roles.
fn messages(request: &str) -> Vec<(String, String)> {
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    messages
        .map(|message| (text(&message["role"]), text(&message["content"])))
        .collect()
}

const FIRST_LINE: &str = "Continuing work from session talk. \
    When you lack specific information you can use read_session to get it.";

/// The complete handoff: the goal, the model's summary, a new session with a draft that the user edits and sends, the
/// attached files, which are sent once, and the model reading the old session.
#[test]
fn a_goal_at_the_command_becomes_the_first_request_of_a_second_session() {
    let folder = Folder::new();
    let project = folder.0.join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("a.rs"), "fn a() {}\n").unwrap();
    let at = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    let tools = project.to_str().unwrap();
    let options = |session: &str| -> Vec<String> {
        let pack = [
            "--pack",
            "scripts/run.toml",
            "--format",
            "json",
            "--tools",
            tools,
        ];
        let pack = pack.into_iter().map(str::to_owned);
        pack.chain(["--session".to_owned(), at(session)]).collect()
    };
    let run = |session: &str, more: &[&str], answers: Vec<String>| {
        let (base, serving) = serve(answers);
        let options = options(session);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let output = ttsr(&base, &[&options, more].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        (events(&output), serving.join().unwrap())
    };

    run("talk.ttsr", &["Mend the parser."], vec![said("Done.")]);
    let handoff = serde_json::json!({"prompt": "Finish the parser.", "files": ["a.rs"]});
    let answers = vec![tool_call("handoff_session", &handoff), said("Handed over.")];
    let (shown, requests) = run("talk.ttsr", &["/handoff finish the parser"], answers);
    let asked = messages(&requests[0]);
    let (role, goal) = asked.last().unwrap();
    assert_eq!(role, "user");
    assert!(goal.starts_with("GOAL: You are creating a handoff message"));
    assert!(goal.contains("USER: finish the parser\n"), "{goal}");
    let (_, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let offered = body["tools"].as_array().unwrap();
    let offered = |name: &str| {
        let mut tools = offered.iter().map(|tool| &tool["function"]);
        tools.find(|tool| tool["name"] == name).unwrap().clone()
    };
    assert_eq!(
        offered("handoff_session")["parameters"]["required"],
        serde_json::json!(["prompt"])
    );
    let limit = &offered("read_session")["parameters"]["properties"]["limit"];
    assert_eq!(
        (&limit["type"], &limit["default"]),
        (&"number".into(), &100.into())
    );

    let draft = format!("{FIRST_LINE}\n\n@a.rs\n\nFinish the parser.");
    let kinds: Vec<&str> = shown
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert!(
        kinds.ends_with(&["answer", "session-opened", "draft", "toast"]),
        "{kinds:?}"
    );
    assert_eq!(of_kind(&shown, "session-opened")[0]["session"], "talk-2");
    assert_eq!(of_kind(&shown, "draft")[0]["text"], draft.as_str());
    let toast = of_kind(&shown, "toast")[0];
    assert_eq!(
        (&toast["message"], &toast["lasts_ms"]),
        (
            &"Handoff Ready — Review and edit the draft, then send".into(),
            &4000.into()
        )
    );
    assert!(folder.0.join("talk-2.ttsr").exists());
    let waiting = folder.0.join("talk-2.ttsr.draft");
    assert_eq!(std::fs::read_to_string(&waiting).unwrap(), draft);

    // The user edits the draft; without a prompt the draft is sent.
    std::fs::write(&waiting, format!("{draft}\nAnd test it.")).unwrap();
    let read = serde_json::json!({"sessionID": "talk", "limit": 2.0});
    let answers = vec![tool_call("read_session", &read), said("I see.")];
    let (shown, requests) = run("talk-2.ttsr", &[], answers);
    assert!(!waiting.exists(), "it was sent");
    assert_eq!(
        of_kind(&shown, "attached")[0]["files"],
        serde_json::json!(["a.rs"])
    );
    let path = project.join("a.rs");
    let header = format!(
        "Called the Read tool with the following input: {{\"filePath\": \"{}\"}}",
        path.display()
    );
    let content = "<file>\n00001| fn a() {}\n00002| \n(End of file - 2 lines)\n</file>";
    assert_eq!(
        messages(&requests[0]),
        [(
            "user".to_owned(),
            format!("{header}\n\n{content}\n\n{draft}\nAnd test it.")
        )],
        "the files stand before the prompt, and nothing of the old session is there"
    );
    let transcript = of_kind(&shown, "tool-result")[0]["output"]
        .as_str()
        .unwrap();
    assert_eq!(
        transcript,
        "## Assistant\n[Tool: handoff_session] Finish the parser.\n\n## Assistant\nHanded over.\n\n\
         (Showing 2 most recent messages. Use a higher 'limit' to see more.)"
    );

    // The files have been sent, so another prompt with the marker injects nothing.
    let again = format!("{FIRST_LINE}\n\n@a.rs\n\nAgain.");
    let (shown, requests) = run("talk-2.ttsr", &[&again], vec![said("Yes.")]);
    assert!(of_kind(&shown, "attached").is_empty());
    let (_, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert_eq!(body.matches("Called the Read tool").count(), 1);

    // Injected content is an attachment for later readers of the session.
    let read = serde_json::json!({"sessionID": "talk-2"});
    let answers = vec![tool_call("read_session", &read), said("I see.")];
    let (shown, _) = run("third.ttsr", &["Look."], answers);
    let transcript = of_kind(&shown, "tool-result")[0]["output"]
        .as_str()
        .unwrap();
    assert!(
        transcript.starts_with("## User\n[Attached: a.rs]\n\n## User\nContinuing"),
        "{transcript}"
    );
    assert!(
        transcript.contains("[Tool: read_session] talk\n"),
        "{transcript}"
    );
    for (input, expected) in [
        (
            r#"{"sessionID": "none"}"#,
            "Could not read session none: there is no such session",
        ),
        (
            r#"{"sessionID": "../talk"}"#,
            "Could not read session ../talk: there is no such session",
        ),
        (
            r#"{"sessionID": "talk", "limit": "2"}"#,
            "the input of the tool is wrong",
        ),
    ] {
        let input: serde_json::Value = serde_json::from_str(input).unwrap();
        let answers = vec![tool_call("read_session", &input), said("No.")];
        let (shown, _) = run("third.ttsr", &["Look."], answers);
        let result = of_kind(&shown, "tool-result")[0];
        assert_eq!(result["is_error"], true);
        assert!(
            result["output"].as_str().unwrap().starts_with(expected),
            "{result}"
        );
    }
}

/// With `--send-handoff` a rule's handoff continues without review, also in sessions that are not stored.
#[test]
fn a_rule_opens_a_new_session_and_its_draft_is_sent() {
    let folder = Folder::new();
    let pack = folder.0.join("full.toml");
    let rule = r#"
schema = 1
[pack]
name = "full"
grants = ["handoff"]
[rule.context]
description = "The context is full."
severity = "info"
action = "handoff"
match.any = [{ literal = "out of context" }]
message = "Finish the parser."
examples.match = ["out of context"]
"#;
    std::fs::write(&pack, rule).unwrap();
    let answers = vec![said("I am out of context."), said("It is finished.")];
    let (base, serving) = serve(answers);
    let began = std::time::Instant::now();
    let output = ttsr(
        &base,
        &[
            "--pack",
            pack.to_str().unwrap(),
            "--send-handoff",
            "--format",
            "json",
            "Mend it.",
        ],
    );
    assert!(began.elapsed() >= std::time::Duration::from_millis(150));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = events(&output);
    assert_eq!(of_kind(&shown, "handoff")[0]["rule"], "full/context");
    assert_eq!(of_kind(&shown, "session-opened")[0]["session"], "run-2");
    let requests = serving.join().unwrap();
    let prompt = FIRST_LINE.replace("talk", "run") + "\n\nFinish the parser.";
    assert_eq!(messages(&requests[1]), [("user".to_owned(), prompt)]);
    let answers = of_kind(&shown, "answer");
    assert_eq!(answers[1]["text"], "It is finished.");
}

#[test]
fn without_a_prompt_there_is_a_draft_or_an_error() {
    let folder = Folder::new();
    let file = folder.0.join("talk.ttsr");
    let output = ttsr(
        "http://127.0.0.1:1/v1",
        &["--session", file.to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("no prompt") && told.contains("talk.ttsr.draft"),
        "{told}"
    );
    let output = ttsr("http://127.0.0.1:1/v1", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no prompt"));

    // A draft that was not sent stays pending.
    let draft = folder.0.join("talk.ttsr.draft");
    std::fs::write(&draft, "From the draft.").unwrap();
    let options = [
        "--pack",
        "scripts/run.toml",
        "--session",
        file.to_str().unwrap(),
    ];
    let (base, serving) = serve(vec![said("I see.")]);
    let output = ttsr(&base, &[&options[..], &["Something else."]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(draft.exists());
    serving.join().unwrap();
    let (base, serving) = serve(vec![said("I see.")]);
    let output = ttsr(&base, &options);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!draft.exists());
    assert!(serving.join().unwrap()[0].contains("From the draft."));
}

/// `ttsr run` has no specialists: packs that mention them are not among its default packs.
#[cfg(unix)]
#[test]
fn nobody_is_reminded_of_agents_that_are_not_there() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("a.txt"), "one\n").unwrap();
    let call = serde_json::json!({"tool_calls": [{
        "index": 0, "id": "c1", "type": "function",
        "function": {"name": "read", "arguments": r#"{"path": "a.txt"}"#},
    }]});
    let call = sse(&(chunk(&call.to_string(), "\"tool_calls\"") + "data: [DONE]\n\n"));
    let (base, serving) = serve(vec![call, said("One.")]);
    let tools = folder.0.to_str().unwrap();
    let output = ttsr(
        &base,
        &["--tools", tools, "--format", "json", "Read a.txt."],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let results = events(&output);
    assert_eq!(of_kind(&results, "tool-result")[0]["output"], "one\n");
    for request in serving.join().unwrap() {
        for word in ["specialist", "elegat"] {
            assert!(!request.contains(word), "{request}");
        }
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_is_heard_under_any_flood() {
    let floods = Flood::all();
    // Side by side, because each run waits before it is interrupted.
    in_parts(floods.len(), |range| {
        for flood in &floods[range] {
            let server = flood.serve();
            let mut child = Command::new(env!("CARGO_BIN_EXE_ttsr"))
                .args(["run", "--provider", "openai-chat", "--model", "m"])
                .args(["--base-url", &server.base, "--pack", "scripts/run.toml"])
                .args(["--format", "json", "Go."])
                .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            thread::sleep(std::time::Duration::from_millis(700));
            assert!(child.try_wait().unwrap().is_none(), "{}", flood.name);
            let sent = Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status();
            assert!(sent.unwrap().success());
            let interrupted = std::time::Instant::now();
            // The promise is 200 ms on an idle machine; `examples/cancel.rs` of `ttsr-agent` measures it.
            while child.try_wait().unwrap().is_none() {
                let took = interrupted.elapsed();
                if took > std::time::Duration::from_secs(5) {
                    child.kill().unwrap();
                    panic!("not heard within {took:?} under {}", flood.name);
                }
                thread::sleep(std::time::Duration::from_millis(5));
            }
            println!("{:?} under {}", interrupted.elapsed(), flood.name);
            assert_eq!(child.wait().unwrap().code(), Some(2), "{}", flood.name);
            server.join();
        }
    });
}

#[test]
fn a_reply_and_an_attempt_have_a_bound_of_time() {
    let floods = Flood::all();
    // Side by side, because each run waits for its limit.
    in_parts(floods.len(), |range| {
        let limits = [
            ("--reply-timeout", "reply"),
            ("--attempt-timeout", "attempt"),
        ];
        for (flood, (option, limit)) in floods[range]
            .iter()
            .flat_map(|flood| limits.map(|limit| (flood, limit)))
        {
            let server = flood.serve();
            let output = ttsr(
                &server.base,
                &[
                    "--pack",
                    "scripts/run.toml",
                    option,
                    "1",
                    "--format",
                    "json",
                    "Go.",
                ],
            );
            assert_eq!(output.status.code(), Some(2), "{}", flood.name);
            let events = events(&output);
            let answer = of_kind(&events, "answer")[0];
            assert_eq!(
                (&answer["reason"], &answer["source"]),
                (&"timeout".into(), &format!("limit {limit}").into()),
                "{}",
                flood.name
            );
            server.join();
        }
    });
}

/// Interrupts a turn in progress: the server has begun a reply and waits until the connection is closed.
#[cfg(unix)]
fn signalled(signal: &str) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let child = Command::new(env!("CARGO_BIN_EXE_ttsr"))
        .args(["run", "--provider", "openai-chat", "--model", "m"])
        .args(["--base-url", &base, "--format", "json", "Go."])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    heard(&mut stream);
    let begun = chunk(r#"{"content":"It is"}"#, "null");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    stream
        .write_all(format!("{head}{begun}").as_bytes())
        .unwrap();
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).ok();
    assert!(rest.is_empty(), "nothing is sent after the signal");
    child.wait_with_output().unwrap()
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_turn_once_and_closes_the_connection() {
    let output = signalled("-INT");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no answer: interrupted"), "{output:?}");
    let answers = events(&output);
    let answers = of_kind(&answers, "answer");
    assert!(
        answers.iter().all(|answer| answer["complete"] == false),
        "{answers:?}"
    );
    assert!(answers.len() <= 1, "{answers:?}");
}

#[cfg(unix)]
#[test]
fn a_termination_ends_the_process_and_closes_the_connection() {
    use std::os::unix::process::ExitStatusExt;
    let output = signalled("-TERM");
    assert_eq!(output.status.signal(), Some(15), "{output:?}");
    // Only whole lines have been printed.
    assert!(of_kind(&events(&output), "answer").is_empty());
}
