//! The token, the metrics, the log, and the exchange of the pack while a reply runs.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode};
use ttsr::{Action, Channel, Pack, Pattern, Rule};

use super::{
    BODY, Http, RunningProxy, ScriptedBody, ScriptedServer, client, collected, config, get,
    no_rules, open_server, server, start, within,
};
use crate::{
    EventLog, JournalStore, Mount, Proxy, ProxyConfig, ProxyLogEvent, ProxyLogLine, ProxyToken,
    SessionStore as _, UnscannedPath, UpstreamUrl,
};

const TOKEN: &str = "a-token-of-this-test";

fn pack(word: &str, action: Action) -> Pack {
    let mut rule = Rule::new("demo/word", vec![Pattern::literal(word)]);
    rule.action = action;
    rule.message = Some(format!("No {word}."));
    Pack::builder().rule(rule).build().unwrap()
}

fn chunk(text: &str) -> String {
    let choices = serde_json::json!([{"index": 0, "delta": {"content": text, "sound": "moo"}, "finish_reason": null}]);
    let chunk =
        serde_json::json!({"id": "c", "object": "chat.completion.chunk", "choices": choices});
    format!("data: {chunk}\n\n")
}

const LAST: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

#[tokio::test]
async fn a_request_without_the_token_is_refused_and_the_token_is_not_sent_on() {
    let mut upstream =
        server(|_| async { Response::new(ScriptedBody::of(vec!["hi".into()])) }).await;
    let mut config = config(upstream.address, Http::One);
    config.token = Some(ProxyToken::new(TOKEN).unwrap());
    let proxy = start(config, no_rules()).await;
    let client = client(Http::One);
    for (header, status) in [
        (None, StatusCode::FORBIDDEN),
        (
            Some(("x-ttsr-token", "a-token-of-this-tesT")),
            StatusCode::FORBIDDEN,
        ),
        (Some(("x-ttsr-token", TOKEN)), StatusCode::OK),
        (
            Some(("proxy-authorization", "Bearer a-token-of-this-test")),
            StatusCode::OK,
        ),
    ] {
        for path in ["/local/v1/models", "/metrics"] {
            let mut request = get(&proxy.url(path));
            if let Some((name, value)) = header {
                request.headers_mut().insert(name, value.parse().unwrap());
            }
            let response = within(client.request(request)).await.unwrap();
            assert_eq!(response.status(), status, "{header:?} {path}");
        }
    }
    while let Ok(received) = upstream.requests.try_recv() {
        let sent = format!("{:?}", received.headers());
        assert!(!sent.contains(TOKEN), "{sent}");
    }
    let response = within(client.request(get(&proxy.url("/healthz"))))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(proxy.totals.snapshot().refused, 4);
}

#[tokio::test]
async fn every_request_has_a_number_but_those_for_the_pages_of_the_proxy() {
    let upstream = server(|_| async { Response::new(ScriptedBody::of(vec!["hi".into()])) }).await;
    let written = WrittenLines::default();
    let mut config = config(upstream.address, Http::One);
    config.token = Some(ProxyToken::new(TOKEN).unwrap());
    config.log = Some(EventLog::new(written.clone()));
    let proxy = start(config, no_rules()).await;
    let client = client(Http::One);
    let (foreign, wrong) = (("host", "evil.example"), ("x-ttsr-token", "another"));
    let token = ("x-ttsr-token", TOKEN);
    for (path, fields, status) in [
        ("/local/v1/models", &[foreign, token][..], 421),
        ("/healthz", &[], 200),
        ("/healthz", &[foreign], 421),
        ("/metrics", &[wrong], 403),
        ("/metrics", &[token], 200),
        ("/local/v1/models", &[wrong], 403),
        ("/elsewhere", &[token], 404),
        ("/local/v1/models", &[token], 200),
    ] {
        let mut request = get(&proxy.url(path));
        for (name, value) in fields {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let response = within(client.request(request)).await.unwrap();
        assert_eq!(response.status(), status, "{path} {fields:?}");
        collected(response).await;
    }
    let text = written.text();
    let lines = text.lines().map(serde_json::from_str::<ProxyLogLine>);
    let numbers: Vec<u64> = lines.map(|line| line.unwrap().request).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    let totals = proxy.totals.snapshot();
    let counted = (totals.requests, totals.refused, totals.passed);
    assert_eq!(counted, (6, 5, 1));
}

#[tokio::test]
async fn debugging_output_shows_the_configuration_and_no_secret() {
    let folder = ttsr_testing::Folder::new();
    let config = ProxyConfig {
        token: Some(ProxyToken::new(TOKEN).unwrap()),
        log: Some(EventLog::new(WrittenLines::default())),
        ..ProxyConfig::default()
    };
    let proxy = Proxy::bind(config, no_rules(), "127.0.0.1:0").await;
    let shown = format!("{:?}", proxy.unwrap());
    assert!(shown.contains("https://api.openai.com"), "{shown}");
    assert!(shown.contains("most_sessions: 4096"), "{shown}");
    assert!(!shown.contains(TOKEN), "{shown}");
    let minute = std::time::Duration::from_secs(60);
    let journal = JournalStore::open(&folder.0.join("sessions"), 7, minute).unwrap();
    assert!(journal.save("a", b"a secret", 0).await.unwrap());
    let stored = journal.load("a").await.unwrap().unwrap();
    assert_eq!((stored.version, &*stored.state), (1, &b"a secret"[..]));
    let shown = format!("{journal:?}");
    assert!(
        shown.contains("sessions: 1, most_sessions: 7") && !shown.contains("secret"),
        "{shown}"
    );
    #[cfg(feature = "redis")]
    {
        let store = crate::RedisStore::new("redis://:hunter22@127.0.0.1:1", minute).unwrap();
        let shown = format!("{store:?}");
        assert!(
            shown.contains("idle_seconds: 60") && !shown.contains("hunter22"),
            "{shown}"
        );
        for (url, shown, problem) in [
            ("rodis://:hunter22@h", "rodis://***@h", "did not parse"),
            ("redis://a:hunter22@h/x", "redis://***@h/x", "database"),
            (
                "redis://a:hunter22@b@h:x",
                "redis://***@h:***",
                "did not parse",
            ),
            ("redis://:hunter22", "redis://:***", "did not parse"),
            ("redis://a:hunter22", "redis://a:***", "did not parse"),
            ("redis://a:hunter22/@h:1/x", "redis://***@h:1/x", ""),
            ("redis://h/x?pass=hunter22", "redis://h/x?***", "database"),
            ("redis://[::1]:1/x", "redis://[::1]:1/x", "database"),
            ("hunter22@h", "***@h", "did not parse"),
        ] {
            let refused = crate::RedisStore::new(url, minute).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("sessions {shown}: "))
                    && refused.contains(problem)
                    && !refused.contains("hunter22")
                    && !refused.contains("InvalidClientConfig"),
                "{url}: {refused}"
            );
        }
    }
}

#[test]
fn a_log_is_appended_to_its_file_which_only_its_owner_reads() {
    let folder = ttsr_testing::Folder::new();
    let path = folder.0.join("log");
    for request in 1..3 {
        let log = EventLog::append_to(&path).unwrap();
        log.write(request, ProxyLogEvent::Passed { status: 200 });
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let requests = text
        .lines()
        .map(|line| serde_json::from_str::<ProxyLogLine>(line).unwrap().request);
    assert_eq!(requests.collect::<Vec<_>>(), [1, 2]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert!(EventLog::append_to(&folder.0).is_err(), "a folder");
}

#[cfg(unix)]
#[tokio::test]
async fn a_log_that_cannot_be_written_is_reported_once_and_counted_until_it_can() {
    let upstream = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let folder = ttsr_testing::Folder::new();
    let place = folder.0.join("logs");
    std::fs::create_dir(&place).unwrap();
    let path = place.join("events");
    let reported = Arc::new(Mutex::new(Vec::new()));
    let reports = Arc::clone(&reported);
    let log = EventLog::append_to(&path).unwrap();
    let log = log.on_failure(move |error| reports.lock().unwrap().push(error.kind()));
    let mut config = config(upstream.address, Http::One);
    config.log = Some(log);
    let proxy = start(config, no_rules()).await;
    let ask = || async {
        let request = client(Http::One).request(get(&proxy.url("/local/x")));
        collected(within(request).await.unwrap()).await;
    };
    let lines = || std::fs::read_to_string(&path).unwrap().lines().count();
    ask().await;
    assert_eq!(lines(), 1);
    // As a program that rotates logs does.
    std::fs::rename(&path, place.join("events.1")).unwrap();
    ask().await;
    assert_eq!(lines(), 1);
    std::fs::rename(&place, folder.0.join("moved")).unwrap();
    for _ in 0..3 {
        ask().await;
    }
    assert_eq!(*reported.lock().unwrap(), [std::io::ErrorKind::NotFound]);
    assert_eq!(proxy.totals.snapshot().log_lines_lost, 3);
    std::fs::create_dir(&place).unwrap();
    ask().await;
    let text = std::fs::read_to_string(&path).unwrap();
    serde_json::from_str::<ProxyLogLine>(&text).unwrap();
    let response = within(client(Http::One).request(get(&proxy.url("/metrics"))));
    let text = collected(response.await.unwrap()).await;
    let line = "ttsr_proxy_log_lines_lost_total 3";
    assert!(String::from_utf8_lossy(&text).contains(line));
    assert_eq!(reported.lock().unwrap().len(), 1, "once");
}

#[tokio::test]
async fn another_address_than_loopback_needs_a_token() {
    let refused = Proxy::bind(ProxyConfig::default(), no_rules(), "0.0.0.0:0").await;
    let refused = refused.unwrap_err();
    assert_eq!(format!("{refused:?}"), refused.to_string());
    let refused = refused.to_string();
    assert!(refused.contains("not a loopback address"), "{refused}");
    let with_token = ProxyConfig {
        token: Some(ProxyToken::new(TOKEN).unwrap()),
        ..ProxyConfig::default()
    };
    let proxy = Proxy::bind(with_token, no_rules(), "0.0.0.0:0")
        .await
        .unwrap();
    assert!(!proxy.address().ip().is_loopback());
}

/// The lines that a log received.
#[derive(Clone, Default)]
pub(super) struct WrittenLines(Arc<Mutex<Vec<u8>>>);

impl WrittenLines {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for WrittenLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn decisions_and_ends_are_logged_and_counted_without_text() {
    let upstream = server(|request: Request<_>| async move {
        let is_chat = request.uri().path().ends_with("completions");
        let frames = match is_chat {
            true => vec![
                chunk("It is a for").into(),
                chunk("bidden word").into(),
                LAST.into(),
            ],
            false => vec!["[]".into()],
        };
        let mut response = Response::new(ScriptedBody::of(frames));
        let kind = "text/event-stream".parse().unwrap();
        response.headers_mut().insert("content-type", kind);
        response
    })
    .await;
    let written = WrittenLines::default();
    let mut config = config(upstream.address, Http::One);
    config.log = Some(EventLog::new(written.clone()));
    let proxy = start(config, pack("forbidden", Action::Abort)).await;
    let client = client(Http::One);
    for path in [
        "/local/v1/chat/completions",
        "/local/v1/files",
        "/elsewhere/x",
    ] {
        let request = Request::post(proxy.url(path)).body(BODY.into()).unwrap();
        collected(within(client.request(request)).await.unwrap()).await;
    }
    let text = written.text();
    assert!(
        !text.contains("bidden") && !text.contains("It is"),
        "{text}"
    );
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<ProxyLogLine>(line).unwrap());
    let mut lines: Vec<(u64, ProxyLogEvent)> =
        lines.map(|line| (line.request, line.event)).collect();
    if let ProxyLogEvent::Reply { ms, .. } = &mut lines[1].1 {
        *ms = 0;
    }
    let unscanned = UnscannedPath {
        path: "choices[].delta.sound".into(),
        bytes: 6,
    };
    assert_eq!(
        lines,
        [
            (
                1,
                ProxyLogEvent::Decision {
                    rule: Some("demo/word".into()),
                    limit: None,
                    action: "abort".into(),
                    suppression: None,
                    channel: Some("text".into()),
                    tool: None,
                    arg: None,
                    start: Some(8),
                    end: 17,
                }
            ),
            (
                1,
                ProxyLogEvent::Reply {
                    api: "openai-chat".into(),
                    streamed: true,
                    stopped: true,
                    by: Some("demo/word".into()),
                    unreadable: false,
                    redactions: 0,
                    warnings: 0,
                    retries: 0,
                    input_tokens: 0,
                    output_tokens: 0,
                    unscanned: vec![unscanned],
                    ms: 0,
                }
            ),
            (2, ProxyLogEvent::Passed { status: 200 }),
            (
                3,
                ProxyLogEvent::Refused {
                    reason: "no server is configured for this path".into(),
                }
            ),
        ]
    );
    let unscanned = [("choices[].delta.sound".to_owned(), 6)];
    assert_eq!(proxy.totals.unscanned(), unscanned.into());
    let response = within(client.request(get(&proxy.url("/metrics"))))
        .await
        .unwrap();
    let text = String::from_utf8(collected(response).await.to_vec()).unwrap();
    for line in [
        "ttsr_proxy_requests_total 3",
        "ttsr_proxy_stopped_total 1",
        "ttsr_proxy_unscanned_bytes_total 6",
        "ttsr_proxy_in_progress 0",
        "ttsr_proxy_decisions_total{rule=\"demo/word\",action=\"abort\"} 1",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[tokio::test]
async fn decisions_in_requests_and_retries_are_logged_and_counted() {
    let counted = |text| {
        let usage = "\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2},\"choices\"";
        chunk(text).replacen("\"choices\"", usage, 1)
    };
    let (forbidden, fine) = (counted("A forbidden word"), counted("Fine."));
    let upstream = server(move |request: Request<Bytes>| {
        let is_retry = String::from_utf8_lossy(request.body()).contains("No forbidden.");
        let text = if is_retry { &fine } else { &forbidden };
        let mut response = Response::new(ScriptedBody::of(vec![text.clone().into(), LAST.into()]));
        let kind = "text/event-stream".parse().unwrap();
        response.headers_mut().insert("content-type", kind);
        async move { response }
    })
    .await;
    let written = WrittenLines::default();
    let mut config = config(upstream.address, Http::One);
    config.log = Some(EventLog::new(written.clone()));
    let mut stop = Rule::new("demo/stop", vec![Pattern::literal("stop-this")]);
    stop.on = vec![Channel::UserInput];
    stop.action = Action::Abort;
    let mut retry = Rule::new("demo/retry", vec![Pattern::literal("forbidden")]);
    retry.action = Action::Retry;
    retry.message = Some("No forbidden.".into());
    let pack = Pack::builder().rule(stop).rule(retry).build().unwrap();
    let proxy = start(config, pack).await;
    for (content, status) in [("stop-this", 400), ("stop-this", 400), ("Hi.", 200)] {
        let body = serde_json::json!({"messages": [{"role": "user", "content": content}]});
        let request = Request::post(proxy.url("/local/v1/chat/completions"));
        let request = request.body(body.to_string().into()).unwrap();
        let response = within(client(Http::One).request(request)).await.unwrap();
        assert_eq!(response.status(), status);
        collected(response).await;
    }
    let text = written.text();
    assert!(!text.contains("stop-this"), "{text}");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<ProxyLogLine>(line).unwrap());
    let seen: Vec<String> = lines
        .map(|line| match line.event {
            ProxyLogEvent::Decision {
                rule,
                action,
                channel,
                ..
            } => format!(
                "{} {action} {} {}",
                line.request,
                channel.unwrap(),
                rule.unwrap()
            ),
            ProxyLogEvent::RequestStopped { by } => format!("{} stopped {by:?}", line.request),
            ProxyLogEvent::Reply {
                retries,
                stopped,
                input_tokens,
                output_tokens,
                ..
            } => format!(
                "{} reply {retries} {stopped} {input_tokens}+{output_tokens}",
                line.request
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        seen,
        [
            "1 abort user-input demo/stop",
            "1 stopped Some(\"demo/stop\")",
            "2 stopped None",
            "3 retry text demo/retry",
            "3 reply 1 false 8+4",
        ]
    );
    let response = within(client(Http::One).request(get(&proxy.url("/metrics"))))
        .await
        .unwrap();
    let text = String::from_utf8(collected(response).await.to_vec()).unwrap();
    for line in [
        "ttsr_proxy_stopped_requests_total 2",
        "ttsr_proxy_retries_total 1",
        "ttsr_proxy_sessions_lost_total 0",
        "ttsr_proxy_decisions_total{rule=\"demo/stop\",action=\"abort\"} 1",
        "ttsr_proxy_decisions_total{rule=\"demo/retry\",action=\"retry\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

/// The fields of a head in which clients send keys, each with a key.
const KEYS: [(&str, &str); 5] = [
    ("authorization", "Bearer tawny-1"),
    ("x-api-key", "tawny-2"),
    ("api-key", "tawny-3"),
    ("x-goog-api-key", "tawny-4"),
    ("cookie", "session=tawny-5"),
];

/// A server whose reply is good if its request has the message of the rule.
async fn learning() -> ScriptedServer {
    server(|request: Request<Bytes>| {
        let is_again = String::from_utf8_lossy(request.body()).contains("No forbidden.");
        let text = if is_again {
            "Fine."
        } else {
            "A forbidden word"
        };
        let mut response = Response::new(ScriptedBody::of(vec![chunk(text).into(), LAST.into()]));
        let kind = "text/event-stream".parse().unwrap();
        response.headers_mut().insert("content-type", kind);
        async move { response }
    })
    .await
}

/// Sends a request with keys. Returns the status, and the head and the body of the response as text.
async fn ask_with_keys(proxy: &RunningProxy, path: &str) -> (StatusCode, String) {
    let request = Request::post(proxy.url(path));
    let request = KEYS
        .iter()
        .fold(request, |request, (name, key)| request.header(*name, *key));
    let response = client(Http::One).request(request.body(BODY.into()).unwrap());
    let response = within(response).await.unwrap();
    let (status, head) = (response.status(), format!("{:?}", response.headers()));
    (
        status,
        head + &String::from_utf8_lossy(&collected(response).await),
    )
}

#[tokio::test]
async fn keys_reach_the_server_of_the_path_alone_and_are_not_written_anywhere() {
    let mut upstream = learning().await;
    let mut other = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = ttsr_testing::Folder::new();
    let journal = folder.0.join("sessions");
    let minute = std::time::Duration::from_secs(60);
    let written = WrittenLines::default();
    let mut config = config(upstream.address, Http::One);
    for (prefix, to) in [
        ("/other", other.address),
        ("/closed", closed.local_addr().unwrap()),
    ] {
        let url = UpstreamUrl::parse(&format!("http://{to}")).unwrap();
        config.mounts.push(Mount::new(prefix, url));
    }
    drop(closed);
    config.log = Some(EventLog::new(written.clone()));
    config.sessions = Arc::new(JournalStore::open(&journal, 9, minute).unwrap());
    let proxy = start(config, pack("forbidden", Action::Retry)).await;
    let mut told = String::new();
    for (path, status) in [
        ("/local/v1/chat/completions?key=tawny-6", StatusCode::OK),
        (
            "/closed/v1/chat/completions?key=tawny-6",
            StatusCode::BAD_GATEWAY,
        ),
        ("/nowhere/v1/x?key=tawny-6", StatusCode::NOT_FOUND),
        ("/local/v1/complete?key=tawny-6", StatusCode::BAD_REQUEST),
    ] {
        let (found, text) = ask_with_keys(&proxy, path).await;
        assert_eq!(found, status, "{path}");
        told += &text;
    }
    let metrics = client(Http::One).request(get(&proxy.url("/metrics")));
    told += &String::from_utf8_lossy(&collected(within(metrics).await.unwrap()).await);
    told += &written.text();
    told += &std::fs::read_to_string(&journal).unwrap();
    for part in [
        "Fine.",
        "ttsr_proxy_retries_total 1",
        "cannot connect",
        "\"state\"",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("tawny"), "{told}");
    // The first attempt and the one after the retry.
    for _ in 0..2 {
        let received = within(upstream.requests.recv()).await.unwrap();
        assert_eq!(received.uri().query(), Some("key=tawny-6"));
        for (name, key) in KEYS {
            assert_eq!(received.headers()[name], key);
        }
    }
    assert!(upstream.requests.try_recv().is_err(), "two requests");
    assert!(other.requests.try_recv().is_err(), "no request");
}

#[tokio::test]
async fn a_running_reply_ends_with_the_pack_that_it_began_with() {
    let (upstream, mut heard) = open_server("text/event-stream").await;
    let bound = Proxy::bind(
        config(upstream.address, Http::One),
        pack("first", Action::Redact),
        "127.0.0.1:0",
    );
    let bound = bound.await.unwrap();
    let (address, slot) = (bound.address(), bound.pack());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(bound.serve(async {
        stopped.await.ok();
    }));
    // A request begins before the server has it.
    let ask = || {
        let request = Request::post(format!("http://{address}/local/v1/chat/completions"));
        let request = request.body(BODY.into()).unwrap();
        let answer = client(Http::One).request(request);
        tokio::spawn(async move { answer.await.unwrap() })
    };
    let old = ask();
    let old_frames = within(heard.recv()).await.unwrap();
    old_frames
        .send(Ok(chunk("one first, ").into()))
        .await
        .unwrap();
    let old = within(old).await.unwrap();
    slot.replace(pack("second", Action::Redact)).unwrap();
    let new = ask();
    let new_frames = within(heard.recv()).await.unwrap();
    new_frames
        .send(Ok(chunk("one first, ").into()))
        .await
        .unwrap();
    let new = within(new).await.unwrap();
    tokio::spawn(async move {
        for frames in [old_frames, new_frames] {
            let text = chunk("a first and a second.");
            frames.send(Ok(text.into())).await.unwrap();
            frames.send(Ok(LAST.into())).await.unwrap();
        }
    });
    let old = String::from_utf8(collected(old).await.to_vec()).unwrap();
    let new = String::from_utf8(collected(new).await.to_vec()).unwrap();
    assert!(!old.contains("first") && old.contains("second"), "{old}");
    assert!(new.contains("first") && !new.contains("second"), "{new}");
    stop.send(()).unwrap();
    within(running).await.unwrap();
}

#[tokio::test]
async fn connections_need_no_poll_of_the_future_that_serves() {
    let bound = Proxy::bind(ProxyConfig::default(), no_rules(), "127.0.0.1:0");
    let bound = bound.await.unwrap();
    let address = bound.address();
    let mut serving = std::pin::pin!(bound.serve(std::future::pending()));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(serving.as_mut().poll(&mut context), Poll::Pending);
    for _ in 0..2 {
        let healthy = client(Http::One).request(get(&format!("http://{address}/healthz")));
        assert_eq!(within(healthy).await.unwrap().status(), StatusCode::OK);
    }
}
