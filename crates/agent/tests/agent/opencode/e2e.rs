//! A real server, if `TTSR_E2E=1`; otherwise the test prints that it is skipped and passes.
//!
//! The server is fetched from npm (`opencode-ai`, only the registry is needed) unless `TTSR_E2E_BIN` names its program.
//! It has a home folder of its own, and its model is a thread of this test that implements Chat Completions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use ttsr::harness::Cancel;
use ttsr_agent::opencode::{
    ActionJournal, Backoff, Prompt, Server, ServerAction, ServerApi, SessionWatcher, StopAction,
    WatchEvent, WatchOptions, watch,
};
use ttsr_agent::progress::{Console, Inbound, Router, RouterSettings, respond};

use super::{block_on, pack};
use ttsr_testing::Folder;
use ttsr_testing::skip;

const VERSION: &str = "1.18.33";

/// The replies of the model: each one once, the last one repeatedly.
const REPLIES: [&str; 3] = [
    "let s = std::fs::read_to_string(p).unwrap(); // and so on, and so on, and so on, and so on, and so on, and so on, and so on, and so on",
    "let s = std::fs::read_to_string(p)?;",
    "It is the second line.",
];

/// The requests to the model, and the progress of each reply.
#[derive(Default)]
struct Model {
    requests: Vec<String>,
    /// The number of characters sent of each reply, and true if the server closed the connection before the end.
    sent: Vec<(usize, bool)>,
}

fn model() -> (String, Arc<Mutex<Model>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let model = Arc::new(Mutex::new(Model::default()));
    let shared = Arc::clone(&model);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let shared = Arc::clone(&shared);
            thread::spawn(move || answer(stream.unwrap(), &shared));
        }
    });
    (base, model)
}

fn answer(mut stream: TcpStream, model: &Mutex<Model>) {
    let Some(request) = request(&mut stream) else {
        return;
    };
    // Requests for a title have no tools.
    let is_title = !request.contains("\"tools\":[");
    let number = {
        let mut model = model.lock().unwrap();
        if !is_title {
            model.requests.push(request);
            model.sent.push((0, false));
        }
        model.requests.len().wrapping_sub(1)
    };
    let text = match is_title {
        true => "A title",
        false => REPLIES[number.min(REPLIES.len() - 1)],
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).ok();
    let mut sent = 0;
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(4) {
        let delta = serde_json::json!({ "content": piece.iter().collect::<String>() });
        if chunk(&mut stream, &delta, None).is_err() {
            break;
        }
        sent += piece.len();
        thread::sleep(Duration::from_millis(40));
    }
    let is_whole = sent == chars.len()
        && chunk(&mut stream, &serde_json::json!({}), Some("stop")).is_ok()
        && stream.write_all(b"data: [DONE]\n\n").is_ok();
    if !is_title {
        model.lock().unwrap().sent[number] = (sent, !is_whole);
    }
}

fn chunk(
    stream: &mut TcpStream,
    delta: &serde_json::Value,
    reason: Option<&str>,
) -> std::io::Result<()> {
    let chunk = serde_json::json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake-model",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
    });
    stream.write_all(format!("data: {chunk}\n\n").as_bytes())?;
    stream.flush()
}

fn request(stream: &mut TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(String::from_utf8_lossy(&body).into_owned())
}

/// Returns the program, and fetches it if no variable names it.
fn program(folder: &Path) -> PathBuf {
    if let Some(path) = std::env::var_os("TTSR_E2E_BIN") {
        return path.into();
    }
    let package = format!("opencode-ai@{VERSION}");
    let npm = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", &package])
        .current_dir(folder)
        .status();
    assert!(npm.expect("npm is there").success(), "{package} is fetched");
    let modules = std::fs::read_dir(folder.join("node_modules")).unwrap();
    let programs = modules.map(|module| module.unwrap().path().join("bin/opencode"));
    let mut programs: Vec<PathBuf> = programs.filter(|program| program.is_file()).collect();
    // The plain build sorts before those for old processors.
    programs.sort();
    programs.into_iter().next().expect("it brings a program")
}

/// Kills the server at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns the command of the program with folders of its own.
fn command(folder: &Path, program: &Path) -> Command {
    let (home, project) = (folder.join("home"), folder.join("project"));
    let mut command = Command::new(program);
    command
        .current_dir(&project)
        .env("HOME", &home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for name in ["CONFIG", "DATA", "STATE", "CACHE"] {
        command.env(format!("XDG_{name}_HOME"), home.join(name));
    }
    for name in [
        "MODELS_FETCH",
        "AUTOUPDATE",
        "LSP_DOWNLOAD",
        "DEFAULT_PLUGINS",
        "SHARE",
    ] {
        command.env(format!("OPENCODE_DISABLE_{name}"), "1");
    }
    command
}

fn serve(folder: &Path, program: &Path, base: &str) -> (Running, String) {
    let (home, project) = (folder.join("home"), folder.join("project"));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::create_dir_all(&project).unwrap();
    let config = serde_json::json!({
        "provider": { "fake": {
            "npm": "@ai-sdk/openai-compatible", "name": "fake",
            "options": { "baseURL": base, "apiKey": "none" },
            "models": { "fake-model": {
                "name": "fake", "tool_call": true, "limit": { "context": 100_000, "output": 8000 },
            } },
        } },
    });
    std::fs::write(project.join("opencode.json"), config.to_string()).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut command = command(folder, program);
    command
        .args(["serve", "--hostname", "127.0.0.1", "--port"])
        .arg(port.to_string());
    let mut child = command.spawn().expect("the program runs");
    let out = BufReader::new(child.stdout.take().unwrap());
    let running = Running(child);
    let mut said = out.lines().map_while(Result::ok);
    let listening = said.find(|line| line.contains("listening"));
    eprintln!("{}", listening.expect("the server listens"));
    // Reads the output, because a full pipe would block the server.
    thread::spawn(move || said.for_each(drop));
    (running, format!("http://127.0.0.1:{port}"))
}

#[test]
fn a_real_server_is_heard_asked_stopped_and_steered() {
    if std::env::var("TTSR_E2E").as_deref() != Ok("1") {
        return skip::test("TTSR_E2E=1 starts a real server");
    }
    let folder = Folder::outside();
    let (base, model) = model();
    let (running, url) = serve(&folder.0, &program(&folder.0), &base);
    block_on(async {
        let mut server = Server::new(&url, ServerApi::Classic).unwrap();
        let session = server.create_session().await.unwrap();
        let seen = watched(&server, &session).await;
        let is_stopped = |seen: &WatchEvent| {
            matches!(
                seen,
                WatchEvent::Done(ServerAction::Stop(StopAction {
                    delete: true,
                    steer: Some(_),
                    ..
                }))
            )
        };
        assert!(seen.iter().any(is_stopped), "{seen:?}");
        chatted(&mut server, &session).await;
    });
    let model = model.lock().unwrap();
    eprintln!(
        "characters sent, and closed before the end: {:?}",
        model.sent
    );
    let whole = REPLIES[0].chars().count();
    assert!(model.sent[0].0 < whole && model.sent[0].1, "it was closed");
    assert!(
        !model.requests[1].contains(".unwrap()"),
        "what was cut is not seen again"
    );
    assert!(
        model.requests[1].contains("Use `?`."),
        "the model is steered"
    );
    drop(running);
}

#[test]
fn a_real_client_that_blocks_ends_with_the_stop() {
    if std::env::var("TTSR_E2E").as_deref() != Ok("1") {
        return skip::test("TTSR_E2E=1 starts a real server");
    }
    let folder = Folder::outside();
    let (base, model) = model();
    let program = program(&folder.0);
    let (running, url) = serve(&folder.0, &program, &base);
    let mut client = command(&folder.0, &program);
    client
        .args(["run", "--attach", &url, "--model", "fake/fake-model"])
        .arg("Show me a line of Rust.")
        .stderr(Stdio::piped());
    let output = block_on(async {
        let server = Server::new(&url, ServerApi::Classic).unwrap();
        let mut watching = SessionWatcher::new(pack(), ServerApi::Classic);
        let cancel = Cancel::default();
        let (connected, is_connected) = tokio::sync::oneshot::channel();
        let mut connected = Some(connected);
        let mut is_steered = false;
        let report = |one: &WatchEvent| {
            eprintln!("{one:?}");
            if *one == WatchEvent::Connected {
                connected.take().map(|connected| connected.send(()));
            }
            is_steered |= matches!(one, WatchEvent::Done(_));
            let is_end = matches!(one, WatchEvent::Finish { reason, .. } if reason == "stop");
            if is_steered && is_end {
                cancel.cancel();
            }
        };
        let how = Backoff::default();
        let watching = watch(&server, &mut watching, how, cancel.clone(), report);
        let running = async {
            is_connected.await.unwrap();
            let running = tokio::task::spawn_blocking(move || client.output().unwrap());
            running.await.unwrap()
        };
        let both = async { tokio::join!(watching, running) };
        let (watched, output) = tokio::time::timeout(Duration::from_secs(180), both)
            .await
            .expect("the server does it in time");
        watched.unwrap();
        output
    });
    let shown = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    eprintln!("{}, the client: {shown}", output.status);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        REPLIES.iter().all(|reply| !shown.contains(reply)),
        "neither the text that was cut nor the steered reply is shown: {shown}"
    );
    assert_eq!(
        model.lock().unwrap().sent[1],
        (REPLIES[1].chars().count(), false)
    );
    drop(running);
}

/// The environment variable with the arguments of the killed process: the server, the session and the journal.
const KILLED: &str = "TTSR_E2E_KILLED";

/// Watches with a journal and prints each notice, until the process is killed.
fn watch_until_killed(told: &str) {
    let [url, session, journal] = told.split('|').collect::<Vec<_>>()[..] else {
        panic!("{told}");
    };
    block_on(async {
        let server = Server::new(url, ServerApi::Classic).unwrap();
        let mut watching = SessionWatcher::new(pack(), ServerApi::Classic).only(session);
        let how = WatchOptions {
            journal: Some(ActionJournal::open(journal).unwrap()),
            ..WatchOptions::default()
        };
        let report = |seen: &WatchEvent| {
            eprintln!("{seen:?}");
        };
        let watched = watch(&server, &mut watching, how, Cancel::default(), report);
        watched.await.unwrap();
    });
}

#[test]
fn a_real_server_sees_an_act_taken_up_after_the_watcher_was_killed() {
    match std::env::var("TTSR_E2E_KILLED") {
        Ok(told) => watch_until_killed(&told),
        Err(_) => kill_a_watcher(),
    }
}

/// Starts this test once more as a watcher, kills it in the middle of an action, and watches on.
fn kill_a_watcher() {
    if std::env::var("TTSR_E2E").as_deref() != Ok("1") {
        return skip::test("TTSR_E2E=1 starts a real server");
    }
    let folder = Folder::outside();
    let (base, model) = model();
    let (running, url) = serve(&folder.0, &program(&folder.0), &base);
    block_on(async {
        let server = Server::new(&url, ServerApi::Classic).unwrap();
        let session = server.create_session().await.unwrap();
        let journal = folder.0.join("acts.json");
        let mut first = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("opencode::e2e::a_real_server_sees_an_act_taken_up_after_the_watcher_was_killed")
            .env(KILLED, format!("{url}|{session}|{}", journal.display()))
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(first.stderr.take().unwrap()).lines();
        let mut until = |what: &str| {
            let line = told.find(|line| line.as_ref().unwrap().starts_with(what));
            eprintln!("before the kill: {}", line.expect(what).unwrap());
        };
        until("Connected");
        let prompt = Prompt {
            model: Some(("fake".into(), "fake-model".into())),
            ..Prompt::new("Show me a line of Rust.")
        };
        server.prompt(&session, &prompt).await.unwrap();
        until("Started(");
        first.kill().unwrap();
        // Opened before the killed process is known to be gone.
        let opened = ActionJournal::open(&journal);
        first.wait().unwrap();
        let seen = taken_up(&server, &session, opened.unwrap()).await;
        assert!(
            seen.iter()
                .any(|seen| matches!(seen, WatchEvent::Resumed(_))),
            "{seen:?}"
        );
    });
    let model = model.lock().unwrap();
    let last = model.requests.last().unwrap();
    assert!(last.contains("Use `?`."), "the model is steered");
    assert!(
        !last.contains(".unwrap()"),
        "what was cut is not seen again"
    );
    drop(running);
}

/// Watches until an act is over and the reply after it is complete.
async fn taken_up(server: &Server, session: &str, journal: ActionJournal) -> Vec<WatchEvent> {
    let mut watching = SessionWatcher::new(pack(), ServerApi::Classic).only(session);
    let how = WatchOptions {
        journal: Some(journal),
        ..WatchOptions::default()
    };
    let cancel = Cancel::default();
    let mut seen = Vec::new();
    let report = |one: &WatchEvent| {
        eprintln!("after the kill: {one:?}");
        let is_done = seen.iter().any(|seen| matches!(seen, WatchEvent::Done(_)));
        if is_done && matches!(one, WatchEvent::Finish { reason, .. } if reason == "stop") {
            cancel.cancel();
        }
        seen.push(one.clone());
    };
    let watched = watch(server, &mut watching, how, cancel.clone(), report);
    let ended = tokio::time::timeout(Duration::from_secs(90), watched).await;
    ended.expect("the act is completed in time").unwrap();
    seen
}

/// Watches the session, which is prompted, until the reply after the steering is complete.
async fn watched(server: &Server, session: &str) -> Vec<WatchEvent> {
    let mut watching = SessionWatcher::new(pack(), ServerApi::Classic).only(session);
    let cancel = Cancel::default();
    let (connected, is_connected) = tokio::sync::oneshot::channel();
    let mut connected = Some(connected);
    let mut seen = Vec::new();
    let report = |one: &WatchEvent| {
        eprintln!("{one:?}");
        if *one == WatchEvent::Connected {
            connected.take().map(|connected| connected.send(()));
        }
        let is_steered = seen.iter().any(|seen| matches!(seen, WatchEvent::Done(_)));
        let is_over =
            is_steered && matches!(one, WatchEvent::Finish { reason, .. } if reason == "stop");
        seen.push(one.clone());
        if is_over {
            cancel.cancel();
        }
    };
    let backoff = Backoff::default();
    let watching = watch(server, &mut watching, backoff, cancel.clone(), report);
    let asking = async {
        is_connected.await.unwrap();
        let prompt = Prompt {
            model: Some(("fake".into(), "fake-model".into())),
            ..Prompt::new("Show me a line of Rust.")
        };
        server.prompt(session, &prompt).await
    };
    let both = async { tokio::join!(watching, asking) };
    let (watched, asked) = tokio::time::timeout(Duration::from_secs(180), both)
        .await
        .expect("the server does it in time");
    watched.unwrap();
    asked.unwrap();
    seen
}

/// A chat prompts the same session.
async fn chatted(server: &mut Server, session: &str) {
    let out = Written::default();
    let mut console = Console::new(&b""[..], out.clone());
    let (_inbox, mut arrived) = mpsc::unbounded_channel();
    let router = Router {
        agent: server,
        channel: &mut console,
        peer: "console",
        inbox: &mut arrived,
    };
    let message = Inbound {
        channel: "console".into(),
        peer: "console".into(),
        text: "Which line is it?".into(),
        id: None,
    };
    let responding = respond(router, session, &message, RouterSettings::default());
    let responded = tokio::time::timeout(Duration::from_secs(120), responding).await;
    responded.expect("it is answered in time").0.unwrap();
    let shown = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    eprintln!("the chat: {shown:?}");
    assert_eq!(shown, format!("{}\n", REPLIES[2]));
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
