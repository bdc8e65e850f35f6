//! `ttsr proxy`: commands behind it, and its start and end as a server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use ttsr_testing::Folder;

const PACK: &str = r#"
schema = 1
[pack]
name = "t"
grants = ["redact", "abort"]
[defaults]
severity = "error"
[rule.key]
description = "A key."
action = "redact"
match.any = [{ regex = "key-[0-9]{4}" }]
examples.match = ["key-1234"]
[rule.stop]
description = "Not here."
action = "abort"
match.any = [{ literal = "forbidden" }]
examples.match = ["forbidden"]
"#;

fn ttsr(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ttsr"));
    command.args(arguments).env("OPENAI_API_KEY", "dummy");
    for name in ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"] {
        command.env_remove(name);
    }
    for name in ["HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns an event stream of OpenAI's Chat API with these deltas.
fn chat_body(deltas: &[&str]) -> String {
    let mut body = String::new();
    for delta in deltas {
        let delta = serde_json::json!({"content": delta});
        let choices = serde_json::json!([{"index": 0, "delta": delta, "finish_reason": null}]);
        let chunk = serde_json::json!({"id": "c", "choices": choices});
        body += &format!("data: {chunk}\n\n");
    }
    let last = serde_json::json!({
        "id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 31, "completion_tokens": 5, "total_tokens": 36},
    });
    body + &format!("data: {last}\n\ndata: [DONE]\n\n")
}

/// Answers a request with an event stream. Returns the head of the request.
fn serve_chat(stream: &TcpStream, body: &str) -> String {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).unwrap() > 2 {
        head += &std::mem::take(&mut line);
    }
    let response = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // The proxy may close the connection early.
    let mut stream = stream;
    stream.write_all(response.as_bytes()).ok();
    stream.read_to_end(&mut Vec::new()).ok();
    head
}

/// A server of OpenAI's Chat API that answers one request with these deltas. Yields the head of the request.
fn chat_server(deltas: &[&str]) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/base/v1", listener.local_addr().unwrap());
    let body = chat_body(deltas);
    let served = thread::spawn(move || serve_chat(&listener.accept().unwrap().0, &body));
    (url, served)
}

/// Runs `ttsr run` behind the proxy, against a server with these deltas.
fn run_behind(proxy: &[&str], deltas: &[&str]) -> (Output, String) {
    let (url, served) = chat_server(deltas);
    let folder = Folder::new();
    let pack = folder.write("t.toml", PACK);
    let script = "exec \"$0\" run --provider openai-chat --model m --pack std/degeneration \
                  --base-url \"$OPENAI_BASE_URL\" Hello";
    let mut command = ttsr(&["proxy", "--pack", pack.to_str().unwrap()]);
    command.args(proxy).env("OPENAI_BASE_URL", url);
    command.args(["--", "sh", "-c", script, env!("CARGO_BIN_EXE_ttsr")]);
    (command.output().unwrap(), served.join().unwrap())
}

#[cfg(unix)]
#[test]
fn a_command_gets_the_addresses_and_its_exit_code_is_that_of_the_proxy() {
    let script = "printf '%s %s %s' $ANTHROPIC_BASE_URL $OPENAI_BASE_URL $OPENAI_API_BASE; exit 7";
    let output = ttsr(&["proxy", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let urls: Vec<&str> = text(&output.stdout).split(' ').collect();
    let base = urls[0].strip_suffix("/anthropic").unwrap();
    assert!(base.starts_with("http://127.0.0.1:"), "{base}");
    let openai = format!("{base}/openai/v1");
    assert_eq!(urls[1..], [&openai, &openai]);
    assert_eq!(text(&output.stderr), "ttsr: 0 requests, 0 judged\n");
    let output = ttsr(&["proxy", "--", "sh", "-c", "kill -9 $$"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(137));
    let output = ttsr(&["proxy", "--", "/no/such/command"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn urls_that_the_environment_has_are_reached_through_the_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let mut targets = Vec::new();
        for stream in listener.incoming().take(3) {
            let stream = stream.unwrap();
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
            targets.push(lines.next().unwrap());
            assert!(lines.any(|line| line.is_empty()), "the head is complete");
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            (&stream).write_all(answer).unwrap();
        }
        targets
    });
    // The command waits until its input is closed.
    let script = "printf '%s\n' \"$COPILOT_PROVIDER_BASE_URL\" \"$GOOGLE_GEMINI_BASE_URL\" \"$CODE_ASSIST_ENDPOINT\" \
                  \"${XAI_BASE_URL-none}\"; read line";
    let mut command = ttsr(&["proxy", "--", "sh", "-c", script]);
    command.env(
        "COPILOT_PROVIDER_BASE_URL",
        format!("http://{server}/openai/v1/"),
    );
    command.env("GOOGLE_GEMINI_BASE_URL", format!("http://{server}/google"));
    command.env("CODE_ASSIST_ENDPOINT", format!("http://{server}/assist"));
    command.env("CLAUDE_CODE_USE_VERTEX", "1");
    command.env("LM_STUDIO_API_BASE", "owl:1234");
    command.env_remove("XAI_BASE_URL");
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut proxy = pipes.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(proxy.stdout.take().unwrap()).lines();
    let urls: Vec<String> = lines.take(4).map(Result::unwrap).collect();
    assert!(urls[0].ends_with("/copilot-provider-base-url/"), "{urls:?}");
    assert!(urls[1].ends_with("/gemini"), "{urls:?}");
    assert!(urls[2].ends_with("/code-assist"), "{urls:?}");
    assert_eq!(urls[3], "none");
    for url in [
        format!("{}models", urls[0]),
        format!("{}/v1beta/models", urls[1]),
        format!("{}/v1internal:getCodeAssistGlobalUserSetting", urls[2]),
    ] {
        let (address, path) = url["http://".len()..].split_once('/').unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let head = format!("GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        client.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert!(reply.ends_with("\r\n\r\n{}"), "{reply}");
    }
    drop(proxy.stdin.take());
    let output = proxy.wait_with_output().unwrap();
    let want = [
        "GET /openai/v1/models HTTP/1.1",
        "GET /google/v1beta/models HTTP/1.1",
        "GET /assist/v1internal:getCodeAssistGlobalUserSetting HTTP/1.1",
    ];
    assert_eq!(served.join().unwrap(), want);
    let errors = text(&output.stderr);
    assert!(errors.contains("CLAUDE_CODE_USE_VERTEX is set"), "{errors}");
    let not_replaced = "LM_STUDIO_API_BASE is not replaced";
    assert!(errors.contains(not_replaced), "{errors}");
    assert!(errors.ends_with("ttsr: 3 requests, 0 judged\n"), "{errors}");
}

#[cfg(unix)]
#[test]
fn signals_of_other_processes_are_passed_on_to_the_command() {
    for (signal, number, code) in [
        ("INT", 2, 3),
        ("HUP", 1, 4),
        ("USR1", 10, 5),
        ("QUIT", 3, 6),
        ("TERM", 15, 7),
    ] {
        if is_ignored(number) {
            ttsr_testing::skip::test(&format!("the tests were started to ignore SIG{signal}"));
            continue;
        }
        let script =
            format!("trap 'exit {code}' {signal}; echo ready; while :; do sleep 0.05; done");
        let mut command = ttsr(&["proxy", "--", "sh", "-c", &script]);
        // In a process group of its own: a terminal of the tests, if there is one, sends it no signal.
        let mut proxy = std::os::unix::process::CommandExt::process_group(&mut command, 0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(proxy.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let sent = Command::new("kill")
            .args(["-s", signal, &proxy.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        assert_eq!(proxy.wait().unwrap().code(), Some(code), "{signal}");
        let mut shown = String::new();
        proxy
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut shown)
            .unwrap();
        assert_eq!(shown, "ttsr: 0 requests, 0 judged\n", "{signal}");
    }
}

/// Returns true if this process ignores a signal, and so its children, as processes do that `nohup` or a script started in the
/// background. Only Linux tells it.
#[cfg(unix)]
fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.map_or(0, |set| u64::from_str_radix(set.trim(), 16).unwrap());
    ignored >> (signal - 1) & 1 == 1
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_ignores_the_signals_that_the_proxy_was_told_to_ignore() {
    // As `nohup` does.
    let script = "trap '' HUP; exec \"$0\" proxy -- sh -c 'echo ready; read line; exit 3'";
    let mut proxy = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_ttsr")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(proxy.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let sent = Command::new("kill")
        .args(["-s", "HUP", &proxy.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    // Time in which the signal could be passed on.
    thread::sleep(std::time::Duration::from_millis(200));
    proxy.stdin.take().unwrap().write_all(b"\n").ok();
    assert_eq!(proxy.wait().unwrap().code(), Some(3));
}

#[cfg(target_os = "linux")]
#[test]
fn a_key_is_not_passed_on_to_a_command_without_files_of_the_terminal() {
    let folder = Folder::new();
    let seen = folder.0.join("seen");
    let seen = seen.to_str().unwrap();
    let counting =
        format!("trap 'echo INT >> {seen}' INT; echo ready > {seen}; sleep 2 & wait; wait; wait");
    let wrapped = format!(
        "{} proxy -- sh -c \"{counting}\" < /dev/null > /dev/null 2> /dev/null",
        env!("CARGO_BIN_EXE_ttsr")
    );
    if is_ignored(2) {
        return ttsr_testing::skip::test("the tests were started to ignore SIGINT");
    }
    // A terminal of its own.
    let terminal = Command::new("script")
        .args(["-q", "-e", "-c", &wrapped, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let Ok(mut terminal) = terminal else {
        return ttsr_testing::skip::test("`script` is not installed");
    };
    while std::fs::read_to_string(seen).unwrap_or_default() != "ready\n" {
        thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut keys = terminal.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    keys.flush().unwrap();
    terminal.wait().unwrap();
    drop(keys);
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "ready\nINT\n");
}

#[cfg(unix)]
#[test]
fn an_agent_behind_the_proxy_sees_redacted_and_stopped_replies() {
    let (output, head) = run_behind(&[], &["It is key-", "1234", "."]);
    assert!(
        text(&output.stdout).contains("It is [redacted]."),
        "{output:?}"
    );
    assert!(
        head.starts_with("POST /base/v1/chat/completions HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("authorization: Bearer dummy\r\n"), "{head}");
    let summary = text(&output.stderr).lines().last().unwrap();
    assert_eq!(summary, "ttsr: 1 request, 1 judged, 1 redacted");

    let (output, _) = run_behind(&[], &["So: ", "forbidden", " more"]);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("[ttsr: reply stopped by rule t/stop: Not here.]"),
        "{output:?}"
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let summary = text(&output.stderr).lines().last().unwrap();
    assert_eq!(summary, "ttsr: 1 request, 1 judged, 1 stopped");

    let (output, _) = run_behind(&["--dry-run"], &["key-1234 and forbidden"]);
    assert!(
        text(&output.stdout).contains("key-1234 and forbidden"),
        "{output:?}"
    );
}

#[cfg(unix)]
#[test]
fn a_server_tells_its_address_and_ends_when_it_is_asked_to() {
    let mut command = ttsr(&[
        "proxy",
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        "http://127.0.0.1:9",
    ]);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.strip_prefix("ttsr: listening on http://").unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    let asked = Command::new("kill")
        .arg(server.id().to_string())
        .status()
        .unwrap();
    assert!(asked.success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert_eq!(lines.next().unwrap().unwrap(), "ttsr: 0 requests, 0 judged");
}

#[cfg(unix)]
#[test]
fn a_server_that_is_asked_to_end_completes_the_reply_that_streams() {
    let chunk = |content: &str| {
        let choices =
            serde_json::json!([{"index": 0, "delta": {"content": content}, "finish_reason": null}]);
        format!(
            "data: {}\n\n",
            serde_json::json!({"id": "c", "choices": choices})
        )
    };
    let (first, second) = (chunk("It is "), chunk("key-") + &chunk("1234, all of it."));
    let last = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
                data: [DONE]\n\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(first.as_bytes()).unwrap();
        may_go.recv().unwrap();
        stream.write_all((second + last).as_bytes()).unwrap();
    });
    let folder = Folder::new();
    let pack = folder.write("t.toml", PACK);
    let mut command = ttsr(&["proxy", "--listen", "127.0.0.1:0", "--upstream", &url]);
    command.args(["--pack", pack.to_str().unwrap()]);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let listening = lines.next().unwrap().unwrap();
    let address = listening
        .strip_prefix("ttsr: listening on http://")
        .unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello"}]}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).unwrap();
    let mut reply = BufReader::new(client);
    let (mut seen, mut line) = (String::new(), String::new());
    while !seen.contains("It is ") {
        assert!(reply.read_line(&mut line).unwrap() > 0, "{seen}");
        seen += &std::mem::take(&mut line);
    }
    let asked = Command::new("kill")
        .arg(server.id().to_string())
        .status()
        .unwrap();
    assert!(asked.success());
    // The server no longer accepts connections, which tells that it has been asked.
    while TcpStream::connect(address).is_ok() {
        thread::yield_now();
    }
    assert_eq!(server.try_wait().unwrap(), None, "a reply streams");
    go.send(()).unwrap();
    reply.read_to_string(&mut seen).unwrap();
    served.join().unwrap();
    assert!(!seen.contains("key-"), "{seen}");
    assert!(seen.contains("[redacted]"), "{seen}");
    assert!(seen.contains(", all of it."), "{seen}");
    assert!(seen.contains("[DONE]"), "{seen}");
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let summary = lines.last().unwrap().unwrap();
    assert_eq!(summary, "ttsr: 1 request, 1 judged, 1 redacted");
}

/// Sends a request to OpenAI's Chat API and returns the response.
#[cfg(unix)]
fn ask(address: &str, message: &str) -> String {
    let message = serde_json::json!({"role": "user", "content": message});
    let body = serde_json::json!({"model": "m", "stream": true, "messages": [message]}).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    response
}

#[cfg(unix)]
#[test]
fn several_threads_judge_replies_at_the_same_time() {
    judge_at_the_same_time(&["--threads", "3"]);
}

#[cfg(unix)]
#[test]
fn threads_that_do_not_sleep_judge_the_same() {
    judge_at_the_same_time(&["--busy-poll", "always"]);
    judge_at_the_same_time(&["--threads", "2", "--busy-poll", "never"]);
}

/// Sends requests at the same time to a proxy with these options, and checks the replies.
#[cfg(unix)]
fn judge_at_the_same_time(options: &[&str]) {
    const REQUESTS: usize = 24;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let body = chat_body(&["It is key-", "1234", "."]);
        while let Ok((stream, _)) = listener.accept() {
            let body = body.clone();
            thread::spawn(move || serve_chat(&stream, &body));
        }
    });
    let folder = Folder::new();
    let pack = folder.write("t.toml", PACK);
    let mut command = ttsr(&["proxy", "--listen", "127.0.0.1:0", "--upstream", &url]);
    command
        .args(options)
        .args(["--pack", pack.to_str().unwrap()]);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let listening = lines.next().unwrap().unwrap();
    let address = listening.strip_prefix("ttsr: listening on http://");
    let address = address.unwrap();
    thread::scope(|scope| {
        // Half of the requests are of one session.
        let asked = (0..REQUESTS).map(|number| {
            let message = format!("Question {}", number.max(REQUESTS / 2));
            scope.spawn(move || ask(address, &message))
        });
        for asked in asked.collect::<Vec<_>>() {
            let response = asked.join().unwrap();
            assert!(response.contains("[redacted]"), "{response}");
            assert!(!response.contains("1234"), "{response}");
            assert!(response.contains("[DONE]"), "{response}");
        }
    });
    let asked = Command::new("kill").arg(server.id().to_string()).status();
    assert!(asked.unwrap().success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let summary = lines.last().unwrap().unwrap();
    assert_eq!(summary, "ttsr: 24 requests, 24 judged, 24 redacted");
}

#[test]
fn wrong_options_are_errors() {
    for (arguments, reason) in [
        (
            &["proxy", "--log", "/no/such/folder/events"][..],
            "--log /no/such/folder/events: ",
        ),
        (
            &["proxy", "--token", "0123456789abcdef", "--", "ttsr"],
            "run `ttsr proxy --token …` without a command",
        ),
        (
            &["proxy", "--listen", "0.0.0.0:0"],
            "is not a loopback address",
        ),
        (
            &["proxy", "--upstream", "localhost:1"],
            "must begin with http:// or https://",
        ),
        (
            &["proxy", "--upstream", "=http://x"],
            "the name before `=` is empty",
        ),
        (
            &["proxy", "--network-proxy", "ftp://owl:tawny@proxy:1"],
            "--network-proxy: the URL of the network's proxy must begin with http://, https:// or socks5://: `ftp://proxy:1`",
        ),
        (&["proxy", "--threads", "0"], "the number is from 1 to 256"),
        (&["proxy", "--threads", "two"], "is not a number"),
    ] {
        let output = ttsr(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(reason), "{output:?}");
    }
}

/// Asks a model of Anthropic through `ttsr proxy` with these options and variables, in which `PROXY` is the address of a
/// network's proxy that refuses everything. Returns the request that the network's proxy received, if there was one, and
/// what was printed.
#[cfg(unix)]
fn ask_behind_a_network(options: &[&str], variables: &[(&str, &str)]) -> (Option<String>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The command has the variables of the user, except that this machine is reached without the network's proxy.
    let script = "echo $ANTHROPIC_BASE_URL; echo $HTTPS_PROXY; echo $NO_PROXY; read line";
    let named = |text: &str| text.replace("PROXY", &address.to_string());
    let mut command = ttsr(&["proxy"]);
    command.args(options.iter().map(|option| named(option)));
    for (name, value) in variables {
        command.env(name, named(value));
    }
    command.args(["--", "sh", "-c", script]);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut proxy = pipes.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(proxy.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(3).map(Result::unwrap).collect();
    let given = |name: &str| variables.iter().find(|(it, _)| *it == name);
    let known = given("HTTPS_PROXY").map_or(String::new(), |(_, value)| named(value));
    assert_eq!(lines[1], known);
    assert!(lines[2].ends_with("127.0.0.1,localhost,::1"), "{lines:?}");
    let base = lines[0]["http://".len()..].to_owned();
    let client = thread::spawn(move || {
        let (address, path) = base.split_once('/').unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let head = format!(
            "GET /{path}/v1/models HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
        );
        client.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        reply
    });
    // A server that is reached directly is a port that is closed, so the reply comes at once.
    listener.set_nonblocking(true).unwrap();
    let connected = loop {
        match listener.accept() {
            Ok((stream, _)) => break Some(stream),
            Err(_) if client.is_finished() => break None,
            Err(_) => thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    let head = connected.map(|stream| {
        stream.set_nonblocking(false).unwrap();
        let mut reader = BufReader::new(&stream);
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).unwrap() > 2 {
            head += &std::mem::take(&mut line);
        }
        (&stream).write_all(b"HTTP/1.1 403 No\r\n\r\n").unwrap();
        head
    });
    let mut printed = client.join().unwrap();
    assert!(printed.starts_with("HTTP/1.1 502 "), "{printed}");
    drop(proxy.stdin.take());
    printed += text(&proxy.wait_with_output().unwrap().stderr);
    assert!(!printed.contains("tawny"), "{printed}");
    (head, printed)
}

#[cfg(unix)]
#[test]
fn servers_are_reached_through_the_networks_proxy() {
    let server = ("ANTHROPIC_BASE_URL", "https://models.test:1");
    let folder = Folder::new();
    let file = folder.write("a.toml", "[proxy]\nnetwork-proxy = \"\"\n");
    let none = ["--config", file.to_str().unwrap()];
    let upper = ("HTTPS_PROXY", "http://owl:tawny@PROXY/");
    for variables in [
        &[server, upper][..],
        &[server, ("https_proxy", "owl:tawny@PROXY")],
        &[server, ("ALL_PROXY", "http://owl:tawny@PROXY")],
        &[
            server,
            ("HTTPS_PROXY", ""),
            ("all_proxy", "http://owl:tawny@PROXY"),
        ],
        &[
            server,
            upper,
            ("https_proxy", "http://127.0.0.1:1"),
            ("ALL_PROXY", "ftp://x"),
        ],
        &[server, upper, ("NO_PROXY", "a.example,b.example")],
    ] {
        let (head, printed) = ask_behind_a_network(&[], variables);
        let head = head.expect("a request");
        assert!(
            head.starts_with("CONNECT models.test:1 HTTP/1.1\r\n"),
            "{head}"
        );
        // `owl:tawny` in Base64.
        let credentials = "Proxy-Authorization: Basic b3dsOnRhd255\r\n";
        assert!(head.contains(credentials), "{head}");
        let reason = "the network's proxy refused the connection with status 403 Forbidden";
        assert!(printed.contains(reason), "{printed}");
    }
    // The option wins over the file, and the file over the environment.
    let options = [&none[..], &["--network-proxy", "PROXY"]].concat();
    let (head, _) = ask_behind_a_network(&options, &[server, ("HTTPS_PROXY", "ftp://x")]);
    assert!(!head.unwrap().contains("Proxy-Authorization"));
}

// On Linux 0.0.0.0 is this machine, and no loopback address.
#[cfg(target_os = "linux")]
#[test]
fn hosts_of_no_proxy_are_reached_directly_and_an_empty_url_is_none() {
    let closed = ("ANTHROPIC_BASE_URL", "https://0.0.0.0:1");
    let folder = Folder::new();
    let file = folder.write("a.toml", "[proxy]\nnetwork-proxy = \"\"\n");
    let none = ["--config", file.to_str().unwrap()];
    let upper = ("HTTPS_PROXY", "http://owl:tawny@PROXY/");
    for (options, variables) in [
        (&[][..], &[closed][..]),
        (
            &[],
            &[
                closed,
                ("HTTP_PROXY", "http://PROXY"),
                ("http_proxy", "http://PROXY"),
            ],
        ),
        (&[], &[closed, upper, ("NO_PROXY", "0.0.0.0")]),
        (&[], &[closed, upper, ("no_proxy", "a.example, 0.0.0.0")]),
        (
            &["--network-proxy", "PROXY"],
            &[closed, ("NO_PROXY", "0.0.0.0:1")],
        ),
        (&["--network-proxy", ""], &[closed, upper]),
        (&none, &[closed, upper]),
    ] {
        let (head, printed) = ask_behind_a_network(options, variables);
        assert_eq!(head, None, "{options:?} {variables:?}");
        assert!(
            printed.contains("cannot connect to the server"),
            "{printed}"
        );
    }
}

#[test]
fn a_networks_proxy_of_the_environment_that_is_no_url_is_named_without_its_password() {
    for (name, value, reason) in [
        (
            "HTTPS_PROXY",
            "ftp://owl:tawny@proxy:1",
            "or socks5://: `ftp://proxy:1`. ",
        ),
        (
            "https_proxy",
            "http://owl:12/tawny@proxy",
            "has a path, a query or a fragment. ",
        ),
        (
            "all_proxy",
            "http://owl:taw ny@pro xy",
            "cannot be parsed. ",
        ),
    ] {
        let output = ttsr(&["proxy"]).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let printed = text(&output.stderr);
        assert!(
            printed.contains(&format!("{name}: the URL of the network's proxy")),
            "{printed}"
        );
        assert!(printed.contains(reason), "{printed}");
        assert!(printed.contains("With --network-proxy \"\""), "{printed}");
        assert!(
            !printed.contains("owl") && !printed.contains("taw"),
            "{printed}"
        );
    }
    let folder = Folder::new();
    let file = folder.write(
        "a.toml",
        "[proxy]\nnetwork-proxy = \"ftp://owl:tawny@proxy\"\n",
    );
    let output = ttsr(&["proxy", "--config", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let printed = text(&output.stderr);
    assert!(
        printed.contains("proxy.network-proxy: the URL"),
        "{printed}"
    );
    assert!(!printed.contains("tawny"), "{printed}");
}

/// An authority, and the settings of a server that it has signed.
struct SignedServer {
    authority: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
    folder: Folder,
    settings: std::path::PathBuf,
}

impl SignedServer {
    fn new() -> SignedServer {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let authority = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
        let folder = Folder::new();
        let (certificate, key) = sign(&authority);
        let certificate = folder.write("certificate.pem", certificate.pem());
        let key = folder.write("key.pem", key.serialize_pem());
        let settings = format!(
            "[proxy]\nlisten = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:9\"\n\
             certificate = {certificate:?}\nkey = {key:?}\n"
        );
        let settings = folder.write("ttsr.toml", settings);
        SignedServer {
            authority,
            folder,
            settings,
        }
    }

    /// Requests `/healthz`, with a certificate of the authority or without one. Returns the status line, or the empty
    /// text if the server ended the connection.
    fn request(&self, address: &str, has_certificate: bool) -> String {
        use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
        use tokio_rustls::rustls::{
            ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring,
        };
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = if has_certificate {
            let (certificate, key) = sign(&self.authority);
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            let chain = vec![certificate.der().clone()];
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(config.into(), name).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        // A server that refuses the client may end the connection during either.
        stream.write_all(request).ok();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok();
        line
    }
}

/// Returns a certificate for this machine, and its key.
fn sign(
    authority: &rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
) -> (rcgen::Certificate, rcgen::KeyPair) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap(), key)
}

#[cfg(unix)]
#[test]
fn connections_are_encrypted_and_clients_without_a_certificate_are_refused_if_asked() {
    let server = SignedServer::new();
    let authority = server.folder.write("ca.pem", server.authority.pem());
    let settings = server.settings.to_str().unwrap();
    for (options, is_demanded) in [
        (&[][..], false),
        (&["--client-ca", authority.to_str().unwrap()], true),
    ] {
        let mut command = ttsr(&["proxy", "--config", settings]);
        let spawned = command.args(options).stderr(Stdio::piped()).spawn();
        let mut process = spawned.unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.strip_prefix("ttsr: listening on https://").unwrap();
        let answered = "HTTP/1.1 200 OK\r\n";
        assert_eq!(server.request(address, true), answered);
        let refused = if is_demanded { "" } else { answered };
        assert_eq!(server.request(address, false), refused);
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

#[test]
fn incomplete_and_useless_options_of_tls_are_errors() {
    let server = SignedServer::new();
    let file = |name: &str| server.folder.0.join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    let settings = server.settings.to_str().unwrap();
    for (options, reason) in [
        (&["--certificate", &certificate][..], "both are needed"),
        (&["--key", &key], "both are needed"),
        (&["--client-ca", &certificate], "both are needed"),
        (
            &["--config", settings, "--key", &certificate],
            "private key",
        ),
        (
            &["--config", settings, "--client-ca", "/no/such/file"],
            "/no/such/file",
        ),
        (&["--key", &key, "--", "true"], "cannot be used with"),
        (
            &["--sessions", "a.jsonl", "--sessions-ca", &certificate],
            "rediss://",
        ),
        (&["--sessions-ca", &certificate], "rediss://"),
    ] {
        let output = ttsr(&["proxy"]).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(
            text(&output.stderr).contains(reason),
            "{options:?}: {output:?}"
        );
    }
}

#[cfg(unix)]
#[test]
fn the_log_has_decisions_without_text_and_is_shown() {
    let folder = Folder::new();
    let log = folder.write("events.ndjson", "");
    let log = log.to_str().unwrap();
    let (output, _) = run_behind(&["--log", log], &["So: ", "forbidden", " more"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let written = std::fs::read_to_string(log).unwrap();
    assert!(!written.contains("forbidden"), "{written}");
    let shown = ttsr(&["log", log]).output().unwrap();
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("abort by t/stop in text at 4..13"),
        "{shown}"
    );
    assert!(shown.contains("stopped by t/stop"), "{shown}");
    for (filter, count) in [("t/*", 2), ("t/key", 0)] {
        let shown = ttsr(&["log", "--format", "json", "--rule", filter, log])
            .output()
            .unwrap();
        let lines = text(&shown.stdout).lines();
        let events = lines.filter(|line| line.contains("\"event\""));
        assert_eq!(events.count(), count, "{filter}: {shown:?}");
    }
    std::fs::write(log, format!("{written}no json\n")).unwrap();
    let shown = ttsr(&["log", log]).output().unwrap();
    assert_eq!(shown.status.code(), Some(2), "{shown:?}");
}

#[cfg(unix)]
#[test]
fn the_log_has_the_tokens_of_a_reply() {
    let folder = Folder::new();
    let log = folder.write("events.ndjson", "");
    let log = log.to_str().unwrap();
    let (output, _) = run_behind(&["--log", log], &["Fine."]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = ttsr(&["log", log]).output().unwrap();
    let shown = text(&shown.stdout);
    assert!(shown.contains(", 31 tokens in and 5 out"), "{shown}");
}

#[cfg(unix)]
#[test]
fn strings_of_requests_that_no_reader_knows_are_shown_with_their_paths() {
    let folder = Folder::new();
    // After a line that was written in part, an empty one may begin the file.
    let line = r#"{"proxy":1,"at":0,"request":3,"event":"request-unscanned","unscanned":[{"path":"messages[].content[].sound","bytes":5},{"path":"prediction","bytes":1}]}"#;
    let path = folder.write("events", format!("\n{line}\n"));
    let output = ttsr(&["log", path.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = text(&output.stdout);
    let want = "request: 5 bytes not scanned in messages[].content[].sound, 1 byte not scanned in prediction\n";
    assert!(shown.contains(want), "{shown}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_on_a_full_disk_is_reported_once_and_counted() {
    let script = "for number in 1 2 3; do \"$0\" run --provider openai-chat --model m --pack std/degeneration \
                  --base-url \"$OPENAI_BASE_URL\" Hello; done";
    let mut command = ttsr(&[
        "proxy",
        "--log",
        "/dev/full",
        "--upstream",
        "openai=http://127.0.0.1:9",
    ]);
    command.args(["--", "sh", "-c", script, env!("CARGO_BIN_EXE_ttsr")]);
    let output = command.output().unwrap();
    let shown = text(&output.stderr);
    let sign = "the log /dev/full cannot be written";
    assert_eq!(shown.matches(sign).count(), 1, "{shown}");
    assert!(shown.contains("log lines lost"), "{shown}");
}

#[cfg(all(unix, feature = "redis"))]
#[test]
fn sessions_that_are_lost_are_told_once() {
    let script = "for number in 1 2 3; do \"$0\" run --provider openai-chat --model m --pack std/degeneration \
                  --base-url \"$OPENAI_BASE_URL\" Hello; done";
    for (options, sign) in [
        (&[][..], "Requests are refused until they are back"),
        (
            &["--fail-open"],
            "Requests are judged without them until they are back",
        ),
    ] {
        let mut command = ttsr(&["proxy", "--sessions", "redis://127.0.0.1:9"]);
        command
            .args(["--upstream", "openai=http://127.0.0.1:9"])
            .args(options);
        command.args(["--", "sh", "-c", script, env!("CARGO_BIN_EXE_ttsr")]);
        let output = command.output().unwrap();
        let shown = text(&output.stderr);
        let sign =
            format!("ttsr: sessions are lost: the store of sessions cannot be reached. {sign}\n");
        assert_eq!(shown.matches(&sign).count(), 1, "{shown}");
        assert!(shown.contains("without a session"), "{shown}");
    }
}

#[cfg(unix)]
#[test]
fn two_urls_of_openai_keep_their_servers() {
    let script = "printf '%s %s' $OPENAI_BASE_URL $OPENAI_API_BASE";
    for (second, path) in [
        ("http://127.0.0.1:2/v1/", "/openai-api-base/"),
        ("http://127.0.0.1:1/v1/", "/openai/v1"),
    ] {
        let mut command = ttsr(&["proxy", "--", "sh", "-c", script]);
        command.env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
        let output = command.env("OPENAI_API_BASE", second).output().unwrap();
        let urls: Vec<&str> = text(&output.stdout).split(' ').collect();
        let base = urls[0].strip_suffix("/openai/v1").unwrap();
        assert_eq!(urls[1], format!("{base}{path}"), "{output:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_service_that_is_switched_off_is_not_warned_of() {
    for (value, is_on) in [("1", true), ("0", false), ("false", false)] {
        let mut command = ttsr(&["proxy", "--", "true"]);
        let output = command.env("CLAUDE_CODE_USE_BEDROCK", value).output();
        let errors = output.unwrap().stderr;
        assert_eq!(text(&errors).contains("another service"), is_on, "{value}");
    }
}

#[test]
fn codex_and_opencode_are_told_the_address_in_their_own_way() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    for (name, script, wants) in [
        (
            "codex",
            "#!/bin/sh\nprintf '%s\\n' \"$@\"\n",
            &[
                "model_providers.ttsr.base_url=\"http://127.0.0.1:",
                "/openai/v1\"",
                "exec",
            ][..],
        ),
        (
            "opencode",
            "#!/bin/sh\nprintf '%s' \"$OPENCODE_CONFIG_CONTENT\"\n",
            &["/anthropic/v1", "/openai/v1", "\"share\":\"disabled\""],
        ),
    ] {
        let path = folder.write(name, script);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = ttsr(&["proxy", "--", path.to_str().unwrap(), "exec"]);
        command.env("OPENCODE_CONFIG_CONTENT", "{\"share\": \"disabled\"}");
        let output = command.output().unwrap();
        for want in wants {
            assert!(text(&output.stdout).contains(want), "{want}: {output:?}");
        }
        if name == "codex" {
            // A key that is empty is none.
            command.env("OPENAI_API_KEY", "");
            let output = command.output().unwrap();
            let of_login = "openai_base_url=\"http://127.0.0.1:";
            assert!(text(&output.stdout).contains(of_login), "{output:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn packs_are_loaded_again_when_they_change_and_broken_ones_are_not() {
    let folder = Folder::new();
    let pack = folder.write("t.toml", PACK);
    let mut server = ReloadingProxy::start(&folder, &pack);
    let other = PACK
        .replace("[0-9]{4}", "[0-9]{5}")
        .replace("key-1234", "key-12345");
    std::fs::write(&pack, other).unwrap();
    server.prints("packs loaded again");
    std::fs::write(&pack, PACK.replace("schema = 1", "schema = one")).unwrap();
    server.prints("the packs from before stay in use");
}

#[cfg(unix)]
#[test]
fn packs_are_loaded_again_when_a_pack_that_they_extend_changes() {
    let folder = Folder::new();
    let head = |name: &str, more: &str| format!("schema = 1\n[pack]\nname = \"{name}\"\n{more}");
    let inner = folder.0.join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("deep.toml"), head("inner/deep", "")).unwrap();
    let base = folder.write("base.toml", head("base", "extends = [\"inner/deep\"]\n"));
    let pack = folder.write("t.toml", head("t", "extends = [\"base\"]\n"));
    let mut server = ReloadingProxy::start(&folder, &pack);
    let version = "version = \"0.2.0\"\n";
    std::fs::write(inner.join("deep.toml"), head("inner/deep", version)).unwrap();
    server.prints("packs loaded again");
    // A file is replaced by renaming another one.
    let beside = folder.write("base.new", head("base", version));
    std::fs::rename(beside, &base).unwrap();
    server.prints("packs loaded again");
    std::fs::write(&pack, head("t", "extends = [\"base\", \"later/x\"]\n")).unwrap();
    server.prints("the packs from before stay in use");
    // A pack that was missing may come in a folder that was missing.
    let later = folder.0.join("moved");
    std::fs::create_dir(&later).unwrap();
    std::fs::write(later.join("x.toml"), head("later/x", "")).unwrap();
    std::fs::rename(&later, folder.0.join("later")).unwrap();
    server.prints("packs loaded again");
    std::fs::write(folder.0.join("later/x.toml"), head("later/x", version)).unwrap();
    server.prints("packs loaded again");
}

#[cfg(unix)]
#[test]
fn packs_are_loaded_again_when_a_link_to_their_folder_is_replaced() {
    let folder = Folder::new();
    let release = |name: &str| {
        std::fs::create_dir(folder.0.join(name)).unwrap();
        folder.write(&format!("{name}/t.toml"), PACK);
        // A link is replaced by a new one, without a moment at which there is none.
        std::os::unix::fs::symlink(name, folder.0.join("next")).unwrap();
        std::fs::rename(folder.0.join("next"), folder.0.join("current")).unwrap();
    };
    release("one");
    let mut server = ReloadingProxy::start(&folder, &folder.0.join("current/t.toml"));
    for name in ["two", "three"] {
        release(name);
        server.prints("packs loaded again");
    }
}

/// A proxy with a pack of a file, and the lines that it prints.
#[cfg(unix)]
struct ReloadingProxy {
    process: std::process::Child,
    lines: std::sync::mpsc::Receiver<String>,
}

#[cfg(unix)]
impl ReloadingProxy {
    /// Starts the proxy, and returns once it listens.
    fn start(folder: &Folder, pack: &std::path::Path) -> ReloadingProxy {
        let settings = format!(
            "[proxy]\nlisten = \"127.0.0.1:0\"\npacks = [\"{}\"]\n",
            pack.display()
        );
        let settings = folder.write("ttsr.toml", settings);
        let mut command = ttsr(&["proxy", "--config", settings.to_str().unwrap()]);
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let printed = BufReader::new(process.stderr.take().unwrap()).lines();
        let (sender, lines) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for line in printed.map_while(Result::ok) {
                sender.send(line).ok();
            }
        });
        let mut server = ReloadingProxy { process, lines };
        server.prints("listening on");
        server
    }

    /// Waits for a line with `sign`.
    fn prints(&mut self, sign: &str) {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(std::time::Duration::from_secs(20)) {
            if line.contains(sign) {
                return;
            }
            seen.push(line);
        }
        panic!("no line has {sign}: {seen:?}");
    }
}

#[cfg(unix)]
impl Drop for ReloadingProxy {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_found_names_no_server_and_adds_packs() {
    let folder = Folder::new();
    let script = "echo $NO_PROXY; echo $no_proxy";
    let run = |settings: &str, named: bool| {
        let path = folder.write("ttsr.toml", settings);
        let mut command = ttsr(&["proxy"]);
        if named {
            command.arg("--config").arg(path);
        }
        // The token of the environment is not one that the command knows.
        command.env("TTSR_PROXY_TOKEN", "0123456789abcdef0123456789abcdef");
        command.env("NO_PROXY", "a.example").env_remove("no_proxy");
        command.args(["--", "sh", "-c", script]);
        command.current_dir(&folder.0).output().unwrap()
    };
    let server = "[proxy.upstreams]\nanthropic = \"http://127.0.0.1:9\"\n";
    let refused = run(server, false);
    let printed = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success(), "{printed}");
    assert!(
        printed.contains("`upstreams`") && printed.contains("--config"),
        "{printed}"
    );
    let named = run(server, true);
    assert!(named.status.success(), "{named:?}");
    let printed = String::from_utf8(named.stdout).unwrap();
    assert_eq!(
        printed.lines().next(),
        Some("a.example,127.0.0.1,localhost,::1")
    );
    assert_eq!(printed.lines().next(), printed.lines().nth(1));
    let pack = "schema = 1\n[pack]\nname = \"a/b\"\n[rule.x]\ndescription = \"x\"\nseverity = \"info\"\n\
                match.any = [{ literal = \"zebra\" }]\nexamples.match = [\"zebra\"]\n";
    folder.write("pack.toml", pack);
    let added = run("[proxy]\npacks = [\"pack.toml\"]\n", false);
    let printed = String::from_utf8(added.stderr).unwrap();
    assert!(added.status.success(), "{printed}");
    assert!(printed.contains("adds packs: pack.toml"), "{printed}");
}
