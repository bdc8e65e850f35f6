//! Requests under rules, over loopback: the bytes that the server receives, and the sessions that decide.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use ttsr::rule::Header;
use ttsr::{Action, Channel, Flow, Mode, Pack, PartId, Pattern, Rule};
use ttsr_testing::scale;

use super::operations::WrittenLines;
use super::{
    Http, RunningProxy, ScriptedBody, ScriptedFrames, ScriptedServer, client, collected, config,
    open_server, server, start, within,
};
use crate::conversations::{ReplySession, RequestRules, judge_in_session};
use crate::judge::EndedReply;
use crate::judge::tests::{pack_of_rules as pack, rule_of};
use crate::request::{ModelRequest, PartHash};
use crate::routes::ModelApi;
use crate::{
    EventLog, MemoryStore, ProxyConfig, SessionError, SessionStore, StoreFuture, StoredSession,
};

pub(super) const PATHS: [&str; 3] = ["messages", "chat/completions", "responses"];

/// A body with a message of the user, for all APIs.
pub(super) fn body_of(path: &str, history: &[(&str, &str)]) -> String {
    let messages: Vec<Value> = history
        .iter()
        .map(|(role, text)| json!({"role": role, "content": text}))
        .collect();
    let name = if path == "responses" {
        "input"
    } else {
        "messages"
    };
    json!({"model": "m", name: messages}).to_string()
}

pub(super) fn post(proxy: &RunningProxy, path: &str, body: String) -> Request<Full<Bytes>> {
    let request = Request::post(proxy.url(&format!("/local/v1/{path}")));
    let request = request
        .header("x-api-key", "key")
        .header("content-length", body.len());
    request
        .header("session-id", "s1")
        .body(Full::from(body))
        .unwrap()
}

/// A reply of each API that is not streamed, with that text.
pub(super) fn whole_reply(path: &str, text: &str) -> String {
    match path {
        "messages" => json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        }),
        "chat/completions" => json!({
            "id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{
                "index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop",
            }],
        }),
        _ => json!({
            "id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [{
                "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }],
        }),
    }
    .to_string()
}

pub(super) fn json_response(body: String) -> Response<ScriptedBody> {
    let mut response = Response::new(ScriptedBody::of(vec![body.into()]));
    let kind = "application/json".parse().unwrap();
    response.headers_mut().insert("content-type", kind);
    response
}

/// A server whose replies have that text.
async fn saying(text: &'static str) -> ScriptedServer {
    server(move |request: Request<Bytes>| async move {
        let path = request.uri().path().trim_start_matches("/v1/").to_owned();
        json_response(whole_reply(&path, text))
    })
    .await
}

fn rule(id: &str, text: &str, on: Channel, action: Action) -> Rule {
    let mut rule = rule_of(id, Pattern::literal(text), &[on], action);
    rule.message = Some(format!("About {text}."));
    rule
}

async fn received(server: &mut ScriptedServer) -> String {
    let request = within(server.requests.recv()).await.unwrap();
    String::from_utf8(request.into_body().to_vec()).unwrap()
}

#[tokio::test]
async fn each_action_on_a_request_is_done_in_each_api() {
    for http in [Http::One, Http::Two] {
        for path in PATHS {
            for (action, want) in [
                (Action::Redact, Some("say [redacted] now")),
                (Action::Append, Some("say secret now\\n\\nAbout secret.")),
                (Action::Prepend, Some("About secret.\\n\\nsay secret now")),
                (Action::Observe, Some("say secret now")),
                (Action::Abort, None),
            ] {
                let mut upstream = saying("Fine.").await;
                let rules = [rule("t/it", "secret", Channel::UserInput, action)];
                let proxy = start(config(upstream.address, http), pack(rules)).await;
                let body = body_of(path, &[("user", "say secret now")]);
                let response = client(http).request(post(&proxy, path, body.clone()));
                let response = within(response).await.unwrap();
                let Some(want) = want else {
                    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
                    let error: Value = serde_json::from_slice(&collected(response).await).unwrap();
                    assert_eq!(error["error"]["type"], "invalid_request_error");
                    let reason = "[ttsr: request stopped by rule t/it: About ….]";
                    assert_eq!(error["error"]["message"], reason);
                    let totals = proxy.totals.snapshot();
                    assert_eq!((totals.stopped_requests, totals.judged), (1, 0));
                    assert!(upstream.requests.try_recv().is_err(), "nothing was sent");
                    continue;
                };
                assert_eq!(response.status(), StatusCode::OK);
                assert_eq!(collected(response).await, whole_reply(path, "Fine."));
                let sent = received(&mut upstream).await;
                assert_eq!(sent, body.replace("say secret now", want), "{action:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_warning_is_in_the_head_of_the_response_and_a_header_in_that_of_the_request() {
    let mut header = rule("t/header", "fast", Channel::UserInput, Action::SetHeader);
    header.header = Some(Header {
        name: "x-tier".into(),
        value: "low".into(),
    });
    let warn = rule("t/warn", "fäst", Channel::UserInput, Action::Warn);
    let late = rule("t/late", "Fine", Channel::Text, Action::Warn);
    let mut upstream = saying("Fine.").await;
    let rules = pack([header, warn, late]);
    let proxy = start(config(upstream.address, Http::One), rules).await;
    let body = body_of("messages", &[("user", "fast and fäst")]);
    let response = client(Http::One).request(post(&proxy, "messages", body));
    let response = within(response).await.unwrap();
    let warnings: Vec<_> = response
        .headers()
        .get_all("x-ttsr-warning")
        .iter()
        .collect();
    assert_eq!(warnings, ["t/warn: About f?st.", "t/late: About Fine."]);
    let request = within(upstream.requests.recv()).await.unwrap();
    assert_eq!(request.headers()["x-tier"], "low");
}

#[tokio::test]
async fn a_rule_acts_once_in_a_session_whose_replies_it_reads() {
    let mut upstream = saying("// TODO").await;
    let rules = [
        rule("t/todo", "TODO", Channel::Text, Action::Inject),
        rule("t/warn", "TODO", Channel::Text, Action::Warn),
    ];
    let proxy = start(config(upstream.address, Http::One), pack(rules)).await;
    let mut history = vec![("user", "one")];
    for (number, warnings) in [(0, 1), (1, 0), (2, 0)] {
        let body = body_of("chat/completions", &history);
        let response = client(Http::One).request(post(&proxy, "chat/completions", body));
        let response = within(response).await.unwrap();
        let warned = response.headers().get_all("x-ttsr-warning").iter().count();
        assert_eq!(warned, warnings, "request {number}");
        collected(response).await;
        let sent = received(&mut upstream).await;
        let carried = sent.matches("About TODO.").count();
        assert_eq!(carried, number.min(1), "request {number}: {sent}");
        history.extend([("assistant", "// TODO"), ("user", "go on")]);
    }
}

#[tokio::test]
async fn an_unreadable_request_is_refused_unless_the_proxy_fails_open() {
    let rules = pack([rule("t/it", "secret", Channel::UserInput, Action::Redact)]);
    let upstream = saying("Fine.").await;
    for fail_open in [false, true] {
        let mut config = config(upstream.address, Http::One);
        config.fail_open = fail_open;
        let proxy = start(config, rules.clone()).await;
        for (body, encoding, status) in [
            ("not JSON", "identity", StatusCode::BAD_REQUEST),
            ("{}", "identity", StatusCode::BAD_REQUEST),
            ("\u{1}", "zstd", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ] {
            let mut request = post(&proxy, "messages", body.to_owned());
            let encoding = encoding.parse().unwrap();
            request.headers_mut().insert("content-encoding", encoding);
            let response = within(client(Http::One).request(request)).await.unwrap();
            let status = if fail_open { StatusCode::OK } else { status };
            assert_eq!(response.status(), status, "{body}");
        }
    }
}

#[tokio::test]
async fn a_long_body_is_refused_and_shadow_changes_nothing() {
    let rules = pack([
        rule("t/it", "secret", Channel::UserInput, Action::Redact),
        rule("t/no", "secret", Channel::UserInput, Action::Abort),
    ]);
    let mut upstream = saying("Fine.").await;
    let mut config = config(upstream.address, Http::One);
    config.mode = Mode::Shadow;
    config.limits.request_bytes = 200;
    let proxy = start(config, rules).await;
    let body = body_of("responses", &[("user", "secret")]);
    let response = client(Http::One).request(post(&proxy, "responses", body.clone()));
    assert_eq!(within(response).await.unwrap().status(), StatusCode::OK);
    assert_eq!(received(&mut upstream).await, body);
    let long = body_of("responses", &[("user", &"x".repeat(300))]);
    let response = client(Http::One).request(post(&proxy, "responses", long));
    assert_eq!(
        within(response).await.unwrap().status(),
        StatusCode::PAYLOAD_TOO_LARGE
    );
}

#[tokio::test]
async fn shadow_passes_what_rules_cannot_judge() {
    let rules = pack([rule("t/it", "secret", Channel::UserInput, Action::Abort)]);
    let mut upstream = saying("Fine.").await;
    let config = ProxyConfig {
        mode: Mode::Shadow,
        sessions: Arc::new(LostStore),
        ..config(upstream.address, Http::One)
    };
    let proxy = start(config, rules).await;
    for path in ["complete", "messages/batches", "messages"] {
        let body = body_of("messages", &[("user", "secret")]);
        let response = client(Http::One).request(post(&proxy, path, body.clone()));
        let status = within(response).await.unwrap().status();
        assert_eq!(status, StatusCode::OK, "{path}");
        assert_eq!(received(&mut upstream).await, body, "{path}");
    }
}

/// A store that is lost.
struct LostStore;

impl fmt::Debug for LostStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LostStore")
    }
}

impl SessionStore for LostStore {
    fn load<'s>(&'s self, _: &'s str) -> StoreFuture<'s, Option<StoredSession>> {
        Box::pin(async { Err(SessionError::new("it is lost")) })
    }

    fn save<'s>(&'s self, _: &'s str, _: &'s [u8], _: u64) -> StoreFuture<'s, bool> {
        Box::pin(async { Err(SessionError::new("it is lost")) })
    }
}

#[tokio::test]
async fn a_store_that_is_lost_refuses_requests_or_is_done_without() {
    let rules = pack([rule("t/it", "secret", Channel::UserInput, Action::Redact)]);
    let mut upstream = saying("Fine.").await;
    for fail_open in [false, true] {
        let log = WrittenLines::default();
        let config = ProxyConfig {
            log: Some(EventLog::new(log.clone())),
            sessions: Arc::new(LostStore),
            fail_open,
            ..config(upstream.address, Http::One)
        };
        let proxy = start(config, rules.clone()).await;
        let body = body_of("messages", &[("user", "secret")]);
        let response = client(Http::One).request(post(&proxy, "messages", body));
        let response = within(response).await.unwrap();
        match fail_open {
            true => {
                assert_eq!(response.status(), StatusCode::OK);
                assert!(received(&mut upstream).await.contains("[redacted]"));
            }
            false => {
                assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
                let error = collected(response).await;
                assert!(String::from_utf8_lossy(&error).contains("it is lost"));
            }
        }
        assert_eq!(proxy.totals.snapshot().sessions_lost, 1);
        let lost = "\"event\":\"session-lost\",\"reason\":\"it is lost\"";
        assert_eq!(log.text().matches(lost).count(), 1, "{}", log.text());
    }
}

/// A store whose writes wait for a permit each.
#[derive(Debug)]
struct SlowStore {
    kept: MemoryStore,
    writes: Semaphore,
}

impl SessionStore for SlowStore {
    fn load<'s>(&'s self, key: &'s str) -> StoreFuture<'s, Option<StoredSession>> {
        self.kept.load(key)
    }

    fn save<'s>(&'s self, key: &'s str, state: &'s [u8], expected: u64) -> StoreFuture<'s, bool> {
        Box::pin(async move {
            self.writes.acquire().await.unwrap().forget();
            self.kept.save(key, state, expected).await
        })
    }
}

const CHUNKS: [&str; 3] = [
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"// TODO\"}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
];

#[tokio::test]
async fn the_end_of_a_reply_waits_until_its_session_is_written() {
    let (upstream, mut heard) = open_server("text/event-stream").await;
    let store = Arc::new(SlowStore {
        kept: MemoryStore::new(9, Duration::from_secs(60)),
        writes: Semaphore::new(1),
    });
    let config = ProxyConfig {
        sessions: store.clone(),
        ..config(upstream.address, Http::One)
    };
    let rules = pack([rule("t/todo", "TODO", Channel::Text, Action::Inject)]);
    let proxy = start(config, rules).await;
    let body = body_of("chat/completions", &[("user", "Hi.")]);
    let request = client(Http::One).request(post(&proxy, "chat/completions", body));
    let mut response = within(request).await.unwrap();
    let frames = within(heard.recv()).await.unwrap();
    frames.send(Ok(CHUNKS[0].into())).await.unwrap();
    let first = within(response.frame()).await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), CHUNKS[0]);
    frames.send(Ok(CHUNKS[1].into())).await.unwrap();
    frames.send(Ok(CHUNKS[2].into())).await.unwrap();
    drop(frames);
    let early = tokio::time::timeout(Duration::from_millis(100), response.frame()).await;
    assert!(early.is_err(), "the session is not written yet");
    store.writes.add_permits(1);
    let rest = collected(response).await;
    assert_eq!(rest, CHUNKS[1..].concat());
}

#[tokio::test]
async fn decisions_count_if_the_client_goes_away_and_if_replies_overlap() {
    let (upstream, mut heard) = open_server("text/event-stream").await;
    let mut todo = rule("t/todo", "TODO", Channel::Text, Action::Warn);
    todo.repeat = Some(ttsr::rule::Repeat {
        per_session: Some(2),
        ..Default::default()
    });
    let proxy = start(config(upstream.address, Http::One), pack([todo])).await;
    let begin = async |heard: &mut UnboundedReceiver<ScriptedFrames>| {
        let body = body_of("chat/completions", &[("user", "Hi.")]);
        let request = client(Http::One).request(post(&proxy, "chat/completions", body));
        let response = within(request).await.unwrap();
        (response, within(heard.recv()).await.unwrap())
    };
    let (mut first, frames_1) = begin(&mut heard).await;
    let (mut second, frames_2) = begin(&mut heard).await;
    for (response, frames) in [(&mut first, &frames_1), (&mut second, &frames_2)] {
        frames.send(Ok(CHUNKS[0].into())).await.unwrap();
        within(response.frame()).await.unwrap().unwrap();
    }
    drop(first);
    within(frames_1.closed()).await;
    frames_2.send(Ok(CHUNKS[1].into())).await.unwrap();
    drop(frames_2);
    collected(second).await;
    assert_eq!(proxy.totals.snapshot().warnings, 2);
    let (third, frames_3) = begin(&mut heard).await;
    for chunk in CHUNKS {
        frames_3.send(Ok(chunk.into())).await.unwrap();
    }
    drop(frames_3);
    collected(third).await;
    assert_eq!(proxy.totals.snapshot().warnings, 2, "both actions count");
}

#[tokio::test]
async fn strings_of_new_messages_that_no_reader_knows_are_logged_and_counted_once() {
    let mut upstream = saying("Fine.").await;
    let written = WrittenLines::default();
    let mut config = config(upstream.address, Http::One);
    config.log = Some(EventLog::new(written.clone()));
    let secret = [rule(
        "t/key",
        "key-1234",
        Channel::UserInput,
        Action::Redact,
    )];
    let proxy = start(config, pack(secret)).await;
    let block = json!([{"type": "odd", "text": "It is key-1234.", "sound": "tawny"}]);
    let mut messages = vec![json!({"role": "user", "content": block})];
    for _ in 0..2 {
        let body = json!({"model": "m", "messages": messages}).to_string();
        let request = post(&proxy, "messages", body.clone());
        let response = within(client(Http::One).request(request)).await.unwrap();
        assert_eq!(collected(response).await, whole_reply("messages", "Fine."));
        let sent = received(&mut upstream).await;
        assert_eq!(sent, body.replace("key-1234", "[redacted]"));
        messages.push(json!({"role": "assistant", "content": "Fine."}));
        messages.push(json!({"role": "user", "content": "Go on."}));
    }
    let text = written.text();
    let unscanned = r#""event":"request-unscanned","unscanned":[{"path":"messages[].content[].sound","bytes":5}]"#;
    assert_eq!(text.matches(unscanned).count(), 1, "{text}");
    assert!(!text.contains("tawny"), "{text}");
    let paths = [("messages[].content[].sound".to_owned(), 5)];
    assert_eq!(proxy.totals.unscanned(), paths.into());
    assert_eq!(proxy.totals.snapshot().unscanned_bytes, 5);
}

#[tokio::test]
async fn a_body_that_looks_like_a_request_to_a_model_does_not_pass_at_an_unknown_path() {
    let mut upstream = saying("Fine.").await;
    let proxy = start(config(upstream.address, Http::One), pack([])).await;
    let body = body_of("messages", &[("user", "Hi.")]);
    let send = |proxy: &RunningProxy, (path, kind, body): (&str, &str, &str)| {
        let request = Request::post(proxy.url(path)).header("content-type", kind);
        let request = request.body(Full::from(body.to_owned())).unwrap();
        async move { within(client(Http::One).request(request)).await.unwrap() }
    };
    let json = "application/json";
    let form = "application/x-www-form-urlencoded";
    let mut passed = 0;
    for (path, kind, body, status) in [
        ("/local/v9/ask", json, &*body, StatusCode::BAD_REQUEST),
        ("/local/v9/ask", form, &body, StatusCode::BAD_REQUEST),
        (
            "/local/v1/conversations",
            json,
            r#"{"items":[{"type":"message","role":"user","content":"x"}]}"#,
            StatusCode::BAD_REQUEST,
        ),
        (
            "/local/v1beta/cachedContents",
            json,
            r#"{"model":"m","contents":[{"parts":[{"text":"x"}]}]}"#,
            StatusCode::BAD_REQUEST,
        ),
        (
            "/local/v1/batches",
            json,
            r#"{"input_file_id":"f"}"#,
            StatusCode::BAD_REQUEST,
        ),
        (
            "/local/v1/messages/count_tokens",
            json,
            &body,
            StatusCode::OK,
        ),
        (
            "/local/v1/embeddings",
            json,
            r#"{"model":"m","input":"x"}"#,
            StatusCode::OK,
        ),
        (
            "/local/v1/moderations",
            json,
            r#"{"model":"m","input":"x"}"#,
            StatusCode::OK,
        ),
        (
            "/local/v1/files",
            "multipart/form-data; boundary=x",
            &body,
            StatusCode::OK,
        ),
        ("/local/v1/conversations", json, "{}", StatusCode::OK),
        (
            "/local/v1/fine_tuning/jobs",
            json,
            r#"{"model":"m","training_file":"f"}"#,
            StatusCode::OK,
        ),
    ] {
        let response = send(&proxy, (path, kind, body)).await;
        assert_eq!(response.status(), status, "{path} {kind} {body}");
        let text = collected(response).await;
        if status == StatusCode::OK {
            passed += 1;
            let sent = received(&mut upstream).await;
            assert_eq!(sent, body, "{path}");
        } else {
            let text = String::from_utf8_lossy(&text);
            assert!(text.contains("--fail-open"), "{text}");
        }
    }
    let totals = proxy.totals.snapshot();
    assert_eq!((totals.passed, totals.refused), (passed, 5));
    assert!(
        upstream.requests.try_recv().is_err(),
        "nothing else was sent"
    );
    for (fail_open, mode) in [(true, Mode::Live), (false, Mode::Shadow)] {
        let open = ProxyConfig {
            fail_open,
            mode,
            ..config(upstream.address, Http::One)
        };
        let proxy = start(open, pack([])).await;
        let response = send(&proxy, ("/local/v9/ask", json, &body)).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(received(&mut upstream).await, body);
    }
}

#[tokio::test]
async fn a_body_with_which_a_reply_is_fetched_is_no_request_to_a_model() {
    let mut upstream = saying("Fine.").await;
    let proxy = start(config(upstream.address, Http::One), pack([])).await;
    let long = body_of("responses", &[("user", "Hi.")]);
    for (body, status) in [(&*long, 400), ("{}", 200), ("", 200)] {
        let request = Request::get(proxy.url("/local/v1/responses/r"));
        let request = request.body(Full::from(body.to_owned())).unwrap();
        let response = within(client(Http::One).request(request)).await.unwrap();
        assert_eq!(response.status(), status, "{body}");
        if status != 400 {
            assert_eq!(received(&mut upstream).await, body);
        }
    }
    assert!(
        upstream.requests.try_recv().is_err(),
        "nothing else was sent"
    );
}

#[tokio::test]
async fn a_compressed_body_at_an_unknown_path_and_a_websocket_are_refused() {
    let mut upstream = saying("Fine.").await;
    let proxy = start(config(upstream.address, Http::One), pack([])).await;
    let ask = |request: hyper::http::request::Builder| {
        let request = request.body(Full::from("{}")).unwrap();
        async { within(client(Http::One).request(request)).await.unwrap() }
    };
    let compressed = Request::post(proxy.url("/local/v9/ask")).header("content-encoding", "zstd");
    let response = ask(compressed).await;
    assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let socket = Request::get(proxy.url("/local/v1/responses"));
    let socket = socket
        .header("connection", "Upgrade")
        .header("upgrade", "WebSocket");
    let response = ask(socket).await;
    assert_eq!(response.status(), StatusCode::UPGRADE_REQUIRED);
    assert_eq!(response.headers()["upgrade"], "HTTP/1.1");
    assert!(upstream.requests.try_recv().is_err(), "nothing was sent");
}

/// The pack of the documentation that redacts secrets in requests.
fn documented_pack() -> Pack {
    let document = include_str!("../../../../docs/proxy.md");
    let (_, text) = document.split_once("```toml my-secrets.toml\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    Pack::builder()
        .toml("my-secrets.toml", text)
        .build()
        .unwrap()
}

/// A history of each API in which the user and a tool say that text.
fn history_with(path: &str, text: &str) -> Vec<Value> {
    let user = json!({"role": "user", "content": format!("Is it {text}")});
    match path {
        "messages" => vec![
            user,
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "bash", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": text}]}),
        ],
        "responses" => vec![
            user,
            json!({"type": "function_call", "call_id": "t", "name": "bash", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "t", "output": text}),
        ],
        _ => vec![
            user,
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "t", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "t", "content": text}),
        ],
    }
}

#[tokio::test]
async fn with_the_pack_of_the_documentation_no_secret_reaches_the_provider() {
    let pack = documented_pack();
    let rules = pack.rules().iter();
    let rules = rules.filter(|rule| rule.id != "std/secrets/generic-password");
    let secrets: Vec<&str> = rules
        .filter_map(|rule| rule.examples.matching.first())
        .map(String::as_str)
        .collect();
    assert!(secrets.len() > 100);
    for path in PATHS {
        for streamed in [false, true] {
            let mut upstream = saying("Fine.").await;
            let proxy = start(config(upstream.address, Http::One), pack.clone()).await;
            let name = if path == "responses" {
                "input"
            } else {
                "messages"
            };
            let mut history = Vec::new();
            let mut known = Vec::new();
            for secret in secrets.iter().take(4) {
                history.extend(history_with(path, secret));
                let body = json!({"model": "m", "stream": streamed, name: history});
                let request = post(&proxy, path, body.to_string());
                let response = within(client(Http::One).request(request)).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
                collected(response).await;
                let sent: Value = serde_json::from_str(&received(&mut upstream).await).unwrap();
                let sent = sent[name].as_array().unwrap().clone();
                assert_eq!(sent[..known.len()], known, "a prefix that a cache knows");
                known = sent;
            }
            let sent = Value::from(known).to_string();
            assert_eq!(sent.matches("[redacted]").count(), 8, "{path}: {sent}");
            let written = |secret: &str| Value::from(secret).to_string();
            assert!(
                !secrets
                    .iter()
                    .any(|it| sent.contains(written(it).trim_matches('"')))
            );
        }
    }
    // Every rule, in one request.
    let mut upstream = saying("Fine.").await;
    let proxy = start(config(upstream.address, Http::One), pack.clone()).await;
    let history = secrets.iter().flat_map(|it| history_with("messages", it));
    let body = json!({"model": "m", "messages": history.collect::<Vec<_>>()});
    let request = post(&proxy, "messages", body.to_string());
    collected(within(client(Http::One).request(request)).await.unwrap()).await;
    let sent: Value = serde_json::from_str(&received(&mut upstream).await).unwrap();
    let messages = sent["messages"].as_array().unwrap();
    for (turn, secret) in messages.chunks(3).zip(&secrets) {
        for text in [&turn[0]["content"], &turn[2]["content"][0]["content"]] {
            let text = text.as_str().unwrap();
            assert!(
                text.contains("[redacted]") && !text.contains(secret),
                "{text}"
            );
        }
    }
}

/// The most bytes of the state of a session that the documentation names.
const SESSION_BYTES: usize = 512 << 10;

/// A rule that acts whenever it matches.
fn tireless(id: &str, text: &str, on: Channel, action: Action, message: String) -> Rule {
    let mut rule = rule(id, text, on, action);
    rule.message = Some(message);
    rule.repeat = Some(ttsr::rule::Repeat {
        per_session: Some(1_000_000),
        ..Default::default()
    });
    rule
}

#[tokio::test]
async fn the_state_of_a_long_conversation_is_bounded() {
    // Characters that JSON escapes take the most room.
    let long = |sign: &str| sign.repeat(1000);
    let rules = pack([
        rule("t/key", "key-1234", Channel::UserInput, Action::Redact),
        tireless(
            "t/after",
            "key-1234",
            Channel::UserInput,
            Action::Append,
            long("\u{1}"),
        ),
        tireless("t/warn", "sure", Channel::Text, Action::Warn, long("\"")),
        tireless("t/inject", "sure", Channel::Text, Action::Inject, long("x")),
    ]);
    let rules = RequestRules::new(rules, Mode::Live).unwrap();
    let store: Arc<dyn SessionStore> = Arc::new(MemoryStore::new(9, Duration::from_secs(9999)));
    let requests = scale(2000).max(100);
    let mut messages = String::new();
    let mut largest = 0;
    for number in 0..requests {
        if number > 0 {
            messages += r#",{"role":"assistant","content":"I am sure."},"#;
        }
        messages += &format!(r#"{{"role":"user","content":"{number}: it is key-1234."}}"#);
        let body = format!(r#"{{"model":"m","messages":[{messages}]}}"#);
        let request = ModelRequest::read(ModelApi::OpenAiChat, body.into()).unwrap();
        let judged = judge_in_session(&*store, "s", &Arc::new(request), &rules).await;
        let Ok(judged) = judged.unwrap() else {
            panic!("no rule stops it");
        };
        let mut session =
            ReplySession::new(&store, PartHash::default(), Some("s".to_owned()), &judged);
        let mut reply = judged.conversation;
        assert_eq!(reply.begin_attempt(), Flow::Go);
        assert_eq!(reply.push(PartId(0), b"I am sure."), Flow::Go);
        assert_eq!(reply.finish(), Flow::Go);
        let ended = EndedReply {
            conversation: &reply,
            is_complete: true,
            id: None,
        };
        session.save(ended).await.unwrap();
        let state = store.load("s").await.unwrap().unwrap().state;
        largest = largest.max(state.len());
        if number + 1 == requests {
            let sent = judged.body.write(None);
            let sent = String::from_utf8_lossy(&sent);
            assert!(!sent.contains("key-1234"));
            assert_eq!(sent.matches("[redacted]").count(), requests);
        }
    }
    assert!(
        largest > 256 << 10,
        "{largest} bytes: the bound is not reached"
    );
    assert!(largest <= SESSION_BYTES, "{largest} bytes");
}
