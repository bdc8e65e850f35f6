//! Requests and responses that no rule reads.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use ttsr_testing::Random;

use super::{
    Http, RunningProxy, ScriptedBody, VERSIONS, client, collected, config, get, no_rules,
    open_server, server, start, within,
};
use crate::judge::tests::aborting;
use crate::{Mount, Proxy, UpstreamUrl};

#[tokio::test]
async fn bodies_arrive_byte_for_byte_however_they_are_cut() {
    let mut random = Random::new(7);
    let body: Vec<u8> = (0..3000).map(|_| random.below(256) as u8).collect();
    let mut segmentations = vec![
        body.chunks(1)
            .map(Bytes::copy_from_slice)
            .collect::<Vec<_>>(),
        vec![Bytes::copy_from_slice(&body)],
    ];
    let (mut pieces, mut rest) = (Vec::new(), &body[..]);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(1 + random.below(90)));
        pieces.push(Bytes::copy_from_slice(piece));
        rest = after;
    }
    segmentations.push(pieces);
    for (front, back) in VERSIONS {
        for frames in &segmentations {
            let frames = frames.clone();
            let mut upstream = server(move |_| {
                let frames = frames.clone();
                async move { Response::new(ScriptedBody::of(frames)) }
            })
            .await;
            let proxy = start(config(upstream.address, back), no_rules()).await;
            let request = Request::post(proxy.url("/local/v1/files?x=%2F"))
                .body(Full::new(Bytes::copy_from_slice(&body)))
                .unwrap();
            let response = within(client(front).request(request)).await.unwrap();
            assert_eq!(collected(response).await, body, "{front:?} {back:?}");
            let received = upstream.requests.recv().await.unwrap();
            assert_eq!(received.uri().path_and_query().unwrap(), "/v1/files?x=%2F");
            assert_eq!(received.body(), &body, "{front:?} {back:?}");
            let totals = proxy.totals.snapshot();
            assert_eq!((totals.requests, totals.passed), (1, 1));
        }
    }
}

#[tokio::test]
async fn keys_pass_and_fields_of_one_connection_do_not() {
    let mut upstream = server(|_| async {
        let mut response = Response::new(ScriptedBody::of(vec!["hi".into()]));
        response
            .headers_mut()
            .insert("connection", "x-drop".parse().unwrap());
        response
            .headers_mut()
            .insert("x-drop", "1".parse().unwrap());
        response
            .headers_mut()
            .insert("x-keep", "1".parse().unwrap());
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    })
    .await;
    let proxy = start(config(upstream.address, Http::One), no_rules()).await;
    let mut request = get(&proxy.url("/local"));
    for (name, value) in [
        ("x-api-key", "k"),
        ("connection", "x-mine"),
        ("x-mine", "1"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let response = within(client(Http::One).request(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    assert!(response.headers().contains_key("x-keep"));
    assert!(!response.headers().contains_key("x-drop"));
    let received = upstream.requests.recv().await.unwrap();
    assert_eq!(received.uri().path(), "/");
    assert_eq!(received.headers()["x-api-key"], "k");
    assert_eq!(received.headers()["host"], upstream.address.to_string());
    assert_eq!(received.headers()["via"], "1.1 ttsr");
    assert!(!received.headers().contains_key("x-mine"));
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_the_request_to_the_server() {
    for (front, back) in VERSIONS {
        for has_begun in [false, true] {
            let (told, mut heard) = mpsc::unbounded_channel();
            let upstream = server(move |_| {
                let (sender, body) = ScriptedBody::new();
                told.send(sender.clone()).unwrap();
                async move {
                    if !has_begun {
                        // Dropped with the request; the head is never sent.
                        let guard = body;
                        std::future::pending::<()>().await;
                        return Response::new(guard);
                    }
                    Response::new(body)
                }
            })
            .await;
            let proxy = start(config(upstream.address, back), no_rules()).await;
            let client = client(front);
            let request = client.request(get(&proxy.url("/local/x")));
            let mut request = tokio::spawn(async move {
                let mut response = request.await.unwrap();
                response.frame().await.unwrap().unwrap();
                response
            });
            let frames = within(heard.recv()).await.unwrap();
            if has_begun {
                frames.send(Ok("first".into())).await.unwrap();
                let response = within(&mut request).await.unwrap();
                assert!(!frames.is_closed());
                drop(response);
            } else {
                request.abort();
                within(&mut request).await.unwrap_err();
            }
            within(frames.closed()).await;
        }
    }
}

/// Checks that the server of a client that does not read is held back, and goes on once the client reads. `request` is sent
/// to the proxy, and the reply consists of frames like `frame`, each of about 1 MiB.
async fn holds_the_server_back(request: String, kind: &'static str, frame: Bytes) {
    let (upstream, mut heard) = open_server(kind).await;
    let proxy = start(config(upstream.address, Http::One), no_rules()).await;
    let mut socket = TcpStream::connect(proxy.address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let frames = within(heard.recv()).await.unwrap();
    let mut sent = 0_u64;
    // The sockets of loopback buffer a few megabytes; then nothing is sent until the client reads.
    while let Ok(ended) =
        tokio::time::timeout(Duration::from_millis(300), frames.send(Ok(frame.clone()))).await
    {
        ended.unwrap();
        sent += 1;
        assert!(sent < 200, "the proxy stores what the client does not read");
    }
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..sent {
        assert!(within(socket.read(&mut buffer)).await.unwrap() > 0);
    }
    within(frames.send(Ok(frame))).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_server_back() {
    let request = "GET /local/x HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned();
    let frame = Bytes::from(vec![b'x'; 1 << 20]);
    holds_the_server_back(request, "application/octet-stream", frame).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_server_of_a_judged_reply_back() {
    let request = format!(
        "POST /local/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{}",
        super::BODY.len(),
        super::BODY
    );
    let delta = serde_json::json!({"content": "word ".repeat(10_000)});
    let choice = serde_json::json!({"index": 0, "delta": delta, "finish_reason": null});
    let chunk =
        serde_json::json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]});
    let frame = format!("data: {chunk}\n\n").repeat(20);
    holds_the_server_back(request, "text/event-stream", frame.into()).await;
}

#[tokio::test]
async fn a_foreign_host_a_redirect_and_an_unknown_path_are_refused() {
    let mut upstream = server(|_| async {
        let mut response = Response::new(ScriptedBody::of(Vec::new()));
        *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        let target = "http://127.0.0.1:1/".parse().unwrap();
        response.headers_mut().insert("location", target);
        response
    })
    .await;
    let proxy = start(config(upstream.address, Http::One), no_rules()).await;
    let client = client(Http::One);
    for path in ["/local/x", "/healthz", "/metrics"] {
        let mut request = get(&proxy.url(path));
        let foreign = "evil.example".parse().unwrap();
        request.headers_mut().insert("host", foreign);
        let response = within(client.request(request)).await.unwrap();
        assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST, "{path}");
    }
    let response = within(client.request(get(&proxy.url("/other/x"))))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(upstream.requests.try_recv().is_err(), "none was sent");
    for path in ["/local/v1/embeddings", "/local/v1/messages"] {
        let request = Request::post(proxy.url(path)).body(super::BODY.into());
        let response = within(client.request(request.unwrap())).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "{path}");
        assert!(!response.headers().contains_key("location"));
    }
    let totals = proxy.totals.snapshot();
    assert_eq!((totals.refused, totals.failed), (4, 2));
}

#[tokio::test]
async fn heads_and_bodies_over_the_bounds_are_refused() {
    let mut upstream = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let mut config = config(upstream.address, Http::One);
    config.limits.request_bytes = 10;
    config.limits.head_bytes = 8192;
    let proxy = start(config, no_rules()).await;
    let client = client(Http::One);
    for (len, status) in [(10, StatusCode::OK), (11, StatusCode::PAYLOAD_TOO_LARGE)] {
        let request = Request::post(proxy.url("/local/x"));
        let request = request.body(Full::from(vec![b'x'; len])).unwrap();
        assert_eq!(
            within(client.request(request)).await.unwrap().status(),
            status
        );
    }
    assert_eq!(upstream.requests.try_recv().unwrap().body().len(), 10);
    // The length of a chunked body is not announced, so the request ends where it grows too long.
    let mut socket = TcpStream::connect(proxy.address).await.unwrap();
    let head =
        b"POST /local/v1/files HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    socket.write_all(head).await.unwrap();
    socket
        .write_all(b"8\r\nxxxxxxxx\r\n8\r\nxxxxxxxx\r\n0\r\n\r\n")
        .await
        .unwrap();
    let mut reply = vec![0; 12];
    within(socket.read_exact(&mut reply)).await.unwrap();
    assert_eq!(reply, b"HTTP/1.1 413");
    assert!(
        upstream.requests.try_recv().is_err(),
        "no complete request arrived"
    );
    let mut request = get(&proxy.url("/local/x"));
    request
        .headers_mut()
        .insert("x-long", "x".repeat(9000).parse().unwrap());
    let response = within(client.request(request)).await.unwrap();
    assert_eq!(
        response.status(),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    );
}

#[tokio::test]
async fn the_other_methods_of_code_assist_pass() {
    let mut upstream =
        server(|_| async { Response::new(ScriptedBody::of(vec![Bytes::from_static(b"{}")])) })
            .await;
    let proxy = start(config(upstream.address, Http::One), aborting("a")).await;
    let client = client(Http::One);
    // The bodies of Gemini CLI.
    let methods = [
        (
            "loadCodeAssist",
            r#"{"cloudaicompanionProject":"p","metadata":{"ideType":"IDE_UNSPECIFIED","pluginType":"GEMINI","duetProject":"p"}}"#,
        ),
        (
            "onboardUser",
            r#"{"tierId":"standard-tier","cloudaicompanionProject":"p","metadata":{"platform":"LINUX_AMD64"}}"#,
        ),
        (
            "countTokens",
            r#"{"request":{"model":"models/m","contents":[{"role":"user","parts":[{"text":"a"}]}]}}"#,
        ),
        ("retrieveUserQuota", r#"{"project":"p"}"#),
        ("listExperiments", r#"{"project":"p","metadata":{}}"#),
        ("fetchAdminControls", r#"{"project":"p"}"#),
        (
            "recordCodeAssistMetrics",
            r#"{"project":"p","metadata":{},"metrics":[{"conversationOffered":{"citationCount":"0","includedCode":false,"status":1,"traceId":"t","streamingLatency":{"totalLatency":"1s"},"isAgentic":true},"timestamp":"2026-01-01T00:00:00Z"}]}"#,
        ),
        (
            "setCodeAssistGlobalUserSetting",
            r#"{"cloudaicompanionProject":"p","freeTierDataCollectionOptin":false}"#,
        ),
    ];
    for (method, body) in methods {
        let path = format!("/local/v1internal:{method}");
        let request = Request::post(proxy.url(&path)).body(body.into()).unwrap();
        let response = within(client.request(request)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{method}");
        let received = within(upstream.requests.recv()).await.unwrap();
        assert_eq!(received.uri().path(), &path["/local".len()..]);
        assert_eq!(received.into_body(), body);
    }
    let totals = proxy.totals.snapshot();
    assert_eq!((totals.passed, totals.refused), (methods.len() as u64, 0));
}

/// Sends the bytes of a request and returns the status line of the response.
async fn status_line(proxy: &RunningProxy, request: &str) -> String {
    let mut socket = TcpStream::connect(proxy.address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut reply = vec![0; 12];
    within(socket.read_exact(&mut reply)).await.unwrap();
    String::from_utf8(reply).unwrap()
}

#[tokio::test]
async fn a_body_under_rules_is_refused_if_it_is_too_long_or_late() {
    let upstream = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let mut config = config(upstream.address, Http::One);
    config.limits.request_bytes = 10;
    config.limits.idle_time = Duration::from_millis(100);
    let mut rule = ttsr::Rule::new("demo/word", vec![ttsr::Pattern::literal("word")]);
    rule.on = vec![ttsr::Channel::UserInput];
    let pack = ttsr::Pack::builder().rule(rule).build().unwrap();
    let proxy = start(config, pack).await;
    let head = "POST /local/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n";
    for (rest, status) in [
        (
            "transfer-encoding: chunked\r\n\r\n8\r\nxxxxxxxx\r\n8\r\nxxxxxxxx\r\n0\r\n\r\n",
            "HTTP/1.1 413",
        ),
        ("content-length: 9\r\n\r\nxxx", "HTTP/1.1 408"),
        (
            "transfer-encoding: chunked\r\n\r\n8\r\nxxxxxxxx\r\nno length\r\n",
            "HTTP/1.1 400",
        ),
    ] {
        let found = status_line(&proxy, &format!("{head}{rest}")).await;
        assert_eq!(found, status, "{rest}");
    }
    assert_eq!(proxy.totals.snapshot().refused, 3);
}

#[tokio::test]
async fn the_version_of_the_client_is_told_to_the_server() {
    let mut upstream = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let proxy = start(config(upstream.address, Http::One), no_rules()).await;
    for (version, via) in [("1.0", "1.0 ttsr"), ("1.1", "1.1 ttsr")] {
        let request = format!("GET /local/x HTTP/{version}\r\nhost: localhost\r\n\r\n");
        let status = status_line(&proxy, &request).await;
        assert_eq!(status, format!("HTTP/{version} 200"));
        let received = within(upstream.requests.recv()).await.unwrap();
        assert_eq!(received.headers()["via"], via);
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_the_handshake_of_tls_is_given_up() {
    // Connections to it are accepted by the kernel.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let mut config = config(silent.local_addr().unwrap(), Http::One);
    config.mounts = vec![Mount::new("/local", UpstreamUrl::parse(&url).unwrap())];
    config.limits.connect_time = Duration::from_millis(200);
    let proxy = start(config, no_rules()).await;
    let response = client(Http::One).request(get(&proxy.url("/local/x")));
    let response = within(response).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let message = collected(response).await;
    let message = String::from_utf8_lossy(&message);
    assert!(message.contains("cannot connect"), "{message}");
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let upstream = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let address = upstream.address.to_string();
    let refused = Proxy::bind(crate::ProxyConfig::default(), no_rules(), &address).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains(&format!("cannot listen on {address}")),
        "{refused}"
    );
}

#[tokio::test]
async fn a_whole_reply_longer_than_the_bound_is_an_error_of_the_gateway() {
    let upstream = server(|_| async {
        let mut response =
            Response::new(ScriptedBody::of(vec!["{\"id\":".into(), "\"c\"}".into()]));
        let kind = "application/json".parse().unwrap();
        response.headers_mut().insert("content-type", kind);
        response
    })
    .await;
    let mut config = config(upstream.address, Http::One);
    config.limits.reply_bytes = 8;
    let rule = ttsr::Rule::new("demo/word", vec![ttsr::Pattern::literal("word")]);
    let proxy = start(config, ttsr::Pack::builder().rule(rule).build().unwrap()).await;
    let request = Request::post(proxy.url("/local/v1/chat/completions"));
    let request = request.body(Full::from(super::BODY)).unwrap();
    let response = within(client(Http::One).request(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let body = collected(response).await;
    assert!(
        String::from_utf8_lossy(&body).contains("the reply is too long"),
        "{body:?}"
    );
}

#[tokio::test]
async fn own_pages_are_only_read_and_tunnels_and_too_many_requests_are_refused() {
    let (upstream, mut heard) = open_server("application/octet-stream").await;
    let mut config = config(upstream.address, Http::One);
    config.limits.requests = 1;
    config.fallback = Some(config.mounts[0].upstream.clone());
    let proxy = start(config, no_rules()).await;
    let client = client(Http::One);
    let request = Request::post(proxy.url("/healthz")).body(Full::default());
    let response = within(client.request(request.unwrap())).await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(response.headers()["allow"], "GET, HEAD");
    let tunnel = "CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(status_line(&proxy, tunnel).await, "HTTP/1.1 405");
    // The first request is in progress until the test ends its reply.
    let first = within(client.request(get(&proxy.url("/local/x"))));
    let first = tokio::spawn(first);
    let frames = within(heard.recv()).await.unwrap();
    let second = within(client.request(get(&proxy.url("/local/x"))))
        .await
        .unwrap();
    assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(second.headers()["retry-after"], "1");
    drop(frames);
    assert_eq!(collected(first.await.unwrap().unwrap()).await, "");
}

#[tokio::test]
async fn a_server_that_sends_nothing_is_given_up_after_the_idle_time() {
    let (kept, mut open) = mpsc::unbounded_channel();
    let upstream = server(move |request: Request<Bytes>| {
        let (sender, body) = ScriptedBody::new();
        let is_silent = request.uri().path() == "/silent";
        kept.send(sender).unwrap();
        async move {
            if is_silent {
                std::future::pending::<()>().await;
            }
            Response::new(body)
        }
    })
    .await;
    let mut config = config(upstream.address, Http::One);
    config.limits.idle_time = Duration::from_millis(100);
    let proxy = start(config, no_rules()).await;
    let client = client(Http::One);
    let response = within(client.request(get(&proxy.url("/local/silent"))))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let response = within(client.request(get(&proxy.url("/local/begins"))))
        .await
        .unwrap();
    within(response.collect())
        .await
        .expect_err("the response is incomplete");
    within(open.recv()).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_proxy_waits_for_requests_in_progress() {
    let (upstream, mut heard) = open_server("application/octet-stream").await;
    let proxy = start(config(upstream.address, Http::One), no_rules()).await;
    let request = client(Http::One).request(get(&proxy.url("/local/x")));
    let response = tokio::spawn(async move { collected(request.await.unwrap()).await });
    let frames = within(heard.recv()).await.unwrap();
    frames.send(Ok("one ".into())).await.unwrap();
    proxy.stop.send(()).unwrap();
    while TcpStream::connect(proxy.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!proxy.ended.is_finished());
    frames.send(Ok("two".into())).await.unwrap();
    drop(frames);
    assert_eq!(within(response).await.unwrap(), "one two");
    within(proxy.ended).await.unwrap();
}

#[tokio::test]
async fn a_reply_that_outlasts_the_time_of_the_end_is_broken_off() {
    for (front, back) in VERSIONS {
        let (upstream, mut heard) = open_server("application/octet-stream").await;
        let mut config = config(upstream.address, back);
        config.limits.drain_time = Duration::from_millis(100);
        let proxy = start(config, no_rules()).await;
        let request = client(front).request(get(&proxy.url("/local/x")));
        let response = tokio::spawn(async move {
            let response = request.await.unwrap();
            response.into_body().collect().await
        });
        let frames = within(heard.recv()).await.unwrap();
        frames.send(Ok("one".into())).await.unwrap();
        let began = std::time::Instant::now();
        proxy.stop.send(()).unwrap();
        within(proxy.ended).await.unwrap();
        assert!(began.elapsed().as_millis() >= 100);
        within(response)
            .await
            .unwrap()
            .expect_err("it is incomplete");
        within(frames.closed()).await;
    }
}

#[tokio::test]
async fn the_first_bytes_of_a_connection_may_arrive_one_by_one() {
    let upstream = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let proxy = start(config(upstream.address, Http::One), no_rules()).await;
    // A frame of SETTINGS follows the preface of HTTP/2, and the first frame of the answer is one, too.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let request = b"PROPFIND /local/x HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for singles in 0..6 {
        for (bytes, answer) in [
            (&preface[..], &b"\x04"[..]),
            (&request[..], b"HTTP/1.1 200"),
        ] {
            let mut socket = TcpStream::connect(proxy.address).await.unwrap();
            socket.set_nodelay(true).unwrap();
            for byte in &bytes[..singles] {
                socket.write_all(&[*byte]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            socket.write_all(&bytes[singles..]).await.unwrap();
            let mut received = [0; 12];
            within(socket.read_exact(&mut received)).await.unwrap();
            let at = if answer.len() == 1 { 3 } else { 0 };
            assert!(
                received[at..].starts_with(answer),
                "{singles}: {received:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_dropped_and_does_not_delay_the_end() {
    let upstream = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let mut config = config(upstream.address, Http::One);
    config.limits.head_time = Duration::from_millis(100);
    let proxy = start(config.clone(), no_rules()).await;
    let mut silent = TcpStream::connect(proxy.address).await.unwrap();
    assert_eq!(within(silent.read(&mut [0; 1])).await.unwrap(), 0);
    config.limits.head_time = Duration::from_secs(600);
    config.limits.drain_time = Duration::from_secs(600);
    let proxy = start(config, no_rules()).await;
    let mut silent = TcpStream::connect(proxy.address).await.unwrap();
    // Connections are accepted in order, so that the silent one is when another one is answered.
    let health = client(Http::One).request(get(&proxy.url("/healthz")));
    assert_eq!(within(health).await.unwrap().status(), StatusCode::OK);
    proxy.stop.send(()).unwrap();
    within(proxy.ended).await.unwrap();
    assert_eq!(within(silent.read(&mut [0; 1])).await.unwrap(), 0);
}

#[tokio::test]
async fn health_is_reported_and_a_missing_server_is_an_error_of_the_gateway() {
    let upstream = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let mut config = config(upstream.address, Http::One);
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    config.fallback = Some(UpstreamUrl::parse(&url).unwrap());
    let proxy = start(config, no_rules()).await;
    let client = client(Http::One);
    let response = within(client.request(get(&proxy.url("/healthz"))))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let response = within(client.request(get(&proxy.url("/v1/models"))))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let body: serde_json::Value = serde_json::from_slice(&collected(response).await).unwrap();
    assert_eq!(
        body["error"]["message"],
        "ttsr proxy: cannot connect to the server"
    );
    assert_eq!(proxy.totals.snapshot().requests, 1);
}

#[tokio::test]
async fn only_loopback_addresses_are_listened_on() {
    let config = crate::ProxyConfig::default();
    let refused = Proxy::bind(config, no_rules(), "0.0.0.0:0")
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("not a loopback address"),
        "{refused}"
    );
}

/// The first bytes of a client of HTTP/2: the preface, and a frame with no settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

#[tokio::test]
async fn a_client_of_http_2_that_has_gone_without_a_word_is_dropped() {
    let mut config = config("127.0.0.1:9".parse().unwrap(), Http::One);
    config.limits.head_time = Duration::from_millis(200);
    let proxy = start(config, no_rules()).await;
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    client.write_all(PREFACE).await.unwrap();
    // No PING is answered.
    let mut received = Vec::new();
    within(client.read_to_end(&mut received)).await.unwrap();
    assert!(!received.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_server_of_http_2_that_has_gone_without_a_word_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(listener.local_addr().unwrap(), Http::Two);
    config.limits.head_time = Duration::from_millis(200);
    let proxy = start(config, no_rules()).await;
    let silent = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        // Settings, as the server of a connection that is in use; then nothing, and no PING is answered.
        socket.write_all(&PREFACE[24..]).await.unwrap();
        let mut received = Vec::new();
        socket.read_to_end(&mut received).await.unwrap();
        received
    });
    let request = client(Http::One).request(get(&proxy.url("/local/v1/models")));
    let response = within(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert!(within(silent).await.unwrap().starts_with(&PREFACE[..24]));
}
