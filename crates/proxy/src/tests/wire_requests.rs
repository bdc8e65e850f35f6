//! Requests as they are written on a socket: framing, targets and fields that clients send seldom.

use hyper::Response;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use ttsr::{Action, Channel, Pattern};

use super::requests::{json_response, whole_reply};
use super::{
    Http, RunningProxy, ScriptedBody, ScriptedServer, client, config, no_rules, server, start,
    within,
};
use crate::judge::tests::{pack_of_rules, rule_of};

const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"key-1234"}]}"#;
const REDACTED: &str = r#"{"model":"m","messages":[{"role":"user","content":"[redacted]"}]}"#;

/// A server of Messages, behind a proxy that redacts `key-1234`.
async fn redacting() -> (ScriptedServer, RunningProxy) {
    let upstream = server(|_| async { json_response(whole_reply("messages", "Fine.")) }).await;
    let key = Pattern::literal("key-1234");
    let rule = rule_of("t/key", key, &[Channel::UserInput], Action::Redact);
    let proxy = start(config(upstream.address, Http::One), pack_of_rules([rule])).await;
    (upstream, proxy)
}

/// Sends the head of a request, `then` the rest after the first bytes of the answer if it is one, and returns the answer.
/// The connection is closed after it.
async fn answer(proxy: &RunningProxy, head: &str, rest: &str) -> String {
    let mut socket = TcpStream::connect(proxy.address).await.unwrap();
    let head = format!("{head}connection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    if head.contains("100-continue") {
        let mut first = [0; 12];
        within(socket.read_exact(&mut first)).await.unwrap();
        reply.extend_from_slice(&first);
    }
    socket.write_all(rest.as_bytes()).await.ok();
    within(socket.read_to_end(&mut reply)).await.unwrap();
    String::from_utf8(reply).unwrap()
}

fn post(more: &str) -> String {
    format!("POST /local/v1/messages HTTP/1.1\r\nhost: localhost\r\n{more}")
}

async fn received(upstream: &mut ScriptedServer) -> (hyper::HeaderMap, String) {
    let request = within(upstream.requests.recv()).await.unwrap();
    let body = String::from_utf8(request.body().to_vec()).unwrap();
    (request.headers().clone(), body)
}

#[tokio::test]
async fn a_body_is_read_however_it_is_framed() {
    let (mut upstream, proxy) = redacting().await;
    let (first, second) = BODY.split_at(40);
    let chunked = format!(
        "{:x};a=b\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\nx-checksum: 1\r\n\r\n",
        first.len(),
        second.len()
    );
    let len = format!("content-length: {}\r\n", BODY.len());
    for (more, rest) in [
        (len.clone(), BODY),
        (format!("{len}{len}"), BODY),
        (format!("{len}expect: 100-continue\r\n"), BODY),
        (
            "transfer-encoding: chunked\r\ntrailer: x-checksum\r\n".to_owned(),
            &chunked,
        ),
        (
            format!(
                "{len}content-md5: eA==\r\ncontent-digest: sha-256=:eA==:\r\ndigest: md5=eA==\r\n"
            ),
            BODY,
        ),
    ] {
        let reply = answer(&proxy, &post(&more), rest).await;
        let has_waited = reply.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200");
        assert_eq!(has_waited, more.contains("expect"), "{reply}");
        assert!(
            has_waited || reply.starts_with("HTTP/1.1 200"),
            "{more}: {reply}"
        );
        let (headers, body) = received(&mut upstream).await;
        assert_eq!(body, REDACTED, "{more}");
        assert_eq!(headers["content-length"], REDACTED.len().to_string());
        for name in [
            "trailer",
            "expect",
            "content-md5",
            "content-digest",
            "digest",
        ] {
            assert!(!headers.contains_key(name), "{name}");
        }
    }
    // A length that is not clear, or two, is not a request.
    for more in [
        "content-length: 1\r\ncontent-length: 2\r\n",
        "content-length: +1\r\n",
    ] {
        let reply = answer(&proxy, &post(more), BODY).await;
        assert!(reply.starts_with("HTTP/1.1 400"), "{more}: {reply}");
    }
    for coding in ["gzip", "deflate", "br", "zstd", "identity, gzip", "x-gzip"] {
        let more = format!("{len}content-encoding: {coding}\r\n");
        let reply = answer(&proxy, &post(&more), BODY).await;
        assert!(reply.starts_with("HTTP/1.1 415"), "{coding}: {reply}");
    }
    assert!(
        upstream.requests.try_recv().is_err(),
        "nothing else was sent"
    );
}

#[tokio::test]
async fn a_refused_request_is_not_asked_for_its_body() {
    let (mut upstream, proxy) = redacting().await;
    let more = "content-length: 9\r\nexpect: 100-continue\r\n";
    for head in [
        format!("POST /local/v1/messages HTTP/1.1\r\nhost: evil.example\r\n{more}"),
        format!("POST /elsewhere HTTP/1.1\r\nhost: localhost\r\n{more}"),
        format!("POST /local/v1/complete HTTP/1.1\r\nhost: localhost\r\n{more}"),
    ] {
        let reply = answer(&proxy, &head, "").await;
        assert!(reply.starts_with("HTTP/1.1 4"), "{reply}");
    }
    assert!(upstream.requests.try_recv().is_err(), "nothing was sent");
}

#[tokio::test]
async fn every_name_of_the_proxy_in_a_request_must_be_its_own() {
    let (mut upstream, proxy) = redacting().await;
    let len = format!("content-length: {}\r\n", BODY.len());
    let port = proxy.address.port();
    for (target, host, status) in [
        ("/local/v1/messages", "localhost.", "200"),
        ("/local/v1/messages", "LocalHost.:1", "200"),
        ("/local/v1/messages", "[::1]", "200"),
        ("/local/v1/messages", "[0:0:0:0:0:0:0:1]:8787", "200"),
        ("/local/v1/messages", "localhost..", "421"),
        ("/local/v1/messages", "evil.example@localhost", "421"),
        ("/local/v1/messages", "localhost, evil.example", "421"),
        ("/local/v1/messages", "[::1", "421"),
        ("/local/v1/messages", "[::2]", "421"),
        ("/local/v1/messages", "127.0.0.1.evil.example", "421"),
        ("http://localhost/local/v1/messages", "localhost", "200"),
        ("http://evil.example/local/v1/messages", "localhost", "421"),
        ("http://localhost/local/v1/messages", "evil.example", "421"),
        ("http://x@localhost/local/v1/messages", "localhost", "421"),
    ] {
        let head = format!("POST {target} HTTP/1.1\r\nhost: {host}\r\n{len}");
        let reply = answer(&proxy, &head, BODY).await;
        assert!(
            reply.starts_with(&format!("HTTP/1.1 {status}")),
            "{target} {host}: {reply}"
        );
        if status == "200" {
            assert_eq!(received(&mut upstream).await.1, REDACTED);
        }
    }
    let absolute = format!("POST http://127.0.0.1:{port}/local/v1/messages HTTP/1.0\r\n{len}");
    let reply = answer(&proxy, &absolute, BODY).await;
    assert!(reply.starts_with("HTTP/1.0 200"), "{reply}");
    assert!(upstream.requests.recv().await.is_some());
    assert!(
        upstream.requests.try_recv().is_err(),
        "nothing else was sent"
    );
}

#[tokio::test]
async fn a_method_in_a_field_does_not_hide_a_request_to_a_model() {
    let (mut upstream, proxy) = redacting().await;
    let len = format!("content-length: {}\r\n", BODY.len());
    for field in [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
    ] {
        for method in ["GET", "DELETE"] {
            let head = format!(
                "{method} /local/v1/messages HTTP/1.1\r\nhost: localhost\r\n{field}: POST\r\n{len}"
            );
            let reply = answer(&proxy, &head, BODY).await;
            assert!(
                reply.starts_with("HTTP/1.1 400"),
                "{method} {field}: {reply}"
            );
        }
    }
    // A body is a body, whatever the method.
    let head = format!("GET /local/v9/ask HTTP/1.1\r\nhost: localhost\r\n{len}");
    let reply = answer(&proxy, &head, BODY).await;
    assert!(reply.starts_with("HTTP/1.1 400"), "{reply}");
    assert!(upstream.requests.try_recv().is_err(), "nothing was sent");
}

#[tokio::test]
async fn a_request_for_the_whole_server_reaches_no_model() {
    let mut upstream = server(|_| async { Response::new(ScriptedBody::of(Vec::new())) }).await;
    let mut config = config(upstream.address, Http::One);
    config.fallback = Some(config.mounts[0].upstream.clone());
    let proxy = start(config, no_rules()).await;
    let reply = answer(&proxy, "OPTIONS * HTTP/1.1\r\nhost: localhost\r\n", "").await;
    assert!(reply.starts_with("HTTP/1.1 "), "{reply}");
    if let Ok(request) = upstream.requests.try_recv() {
        assert_eq!(
            (request.method().as_str(), request.uri().path()),
            ("OPTIONS", "*")
        );
    }
}

#[tokio::test]
async fn requests_in_one_connection_are_each_judged() {
    let (mut upstream, proxy) = redacting().await;
    let len = format!("content-length: {}\r\n", BODY.len());
    let one = format!("{}\r\n{BODY}", post(&len));
    let last = format!("{}connection: close\r\n\r\n{BODY}", post(&len));
    let mut socket = TcpStream::connect(proxy.address).await.unwrap();
    socket
        .write_all(format!("{one}{one}{last}").as_bytes())
        .await
        .unwrap();
    let mut reply = String::new();
    within(socket.read_to_string(&mut reply)).await.unwrap();
    assert_eq!(reply.matches("HTTP/1.1 200").count(), 3, "{reply}");
    for _ in 0..3 {
        assert_eq!(received(&mut upstream).await.1, REDACTED);
    }
    for http in [Http::One, Http::Two] {
        let request = super::requests::post(&proxy, "messages", BODY.to_owned());
        let response = within(client(http).request(request)).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(received(&mut upstream).await.1, REDACTED);
    }
}

#[tokio::test]
async fn a_large_body_is_judged_while_other_requests_are_answered() {
    let (mut upstream, proxy) = redacting().await;
    let filler = "lorem ipsum ".repeat(400_000);
    let body = BODY.replace("key-1234", &format!("{filler}key-1234"));
    let request = super::requests::post(&proxy, "messages", body.clone());
    let large = tokio::spawn(client(Http::One).request(request));
    let small = client(Http::One);
    let mut answered = 0;
    while !large.is_finished() {
        let response = within(small.request(super::get(&proxy.url("/healthz")))).await;
        assert_eq!(response.unwrap().status(), 200);
        answered += 1;
    }
    assert!(answered > 0);
    assert_eq!(within(large).await.unwrap().unwrap().status(), 200);
    let sent = received(&mut upstream).await.1;
    assert!(sent == body.replace("key-1234", "[redacted]"));
}
