//! The bound on the bytes of all bodies in memory.

use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use ttsr::{Action, Channel, Pack, Pattern};

use super::operations::WrittenLines;
use super::requests::{json_response, post, whole_reply};
use super::{
    Http, RunningProxy, ScriptedBody, ScriptedFrames, TestClient, client, collected, config, get,
    open_server, server, start, within,
};
use crate::judge::tests::{pack_of_rules, rule_of};
use crate::{EventLog, ProxyConfig};

/// A request to Messages with that many bytes.
fn body(bytes: usize) -> String {
    let with = |text: &str| json!({"model": "m", "messages": [{"role": "user", "content": text}]});
    let empty = with("").to_string().len();
    with(&"x".repeat(bytes - empty)).to_string()
}

/// The gauge of `/metrics`.
async fn buffered(proxy: &RunningProxy, client: &TestClient) -> usize {
    let page = within(client.request(get(&proxy.url("/metrics")))).await;
    let page = String::from_utf8(collected(page.unwrap()).await.to_vec()).unwrap();
    let line = page
        .lines()
        .find(|it| it.starts_with("ttsr_proxy_buffered_bytes "));
    let (_, value) = line.unwrap().split_once(' ').unwrap();
    value.parse().unwrap()
}

async fn until_buffered(proxy: &RunningProxy, client: &TestClient, want: usize) {
    within(async {
        while buffered(proxy, client).await != want {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
}

fn silent_pack() -> Pack {
    let literal = Pattern::literal("never-there");
    pack_of_rules([rule_of("t/never", literal, &[Channel::Text], Action::Abort)])
}

fn limited(config: ProxyConfig, bytes: usize) -> (ProxyConfig, WrittenLines) {
    let written = WrittenLines::default();
    let mut config = config;
    config.limits.buffered_bytes = bytes;
    config.log = Some(EventLog::new(written.clone()));
    (config, written)
}

async fn status(proxy: &RunningProxy, client: &TestClient, bytes: usize) -> StatusCode {
    let answer = within(client.request(post(proxy, "messages", body(bytes)))).await;
    let answer = answer.unwrap();
    let status = answer.status();
    let is_busy = status == StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(answer.headers().contains_key("retry-after"), is_busy);
    let text = String::from_utf8(collected(answer).await.to_vec()).unwrap();
    assert_eq!(text.contains("as many bytes as the proxy may"), is_busy);
    status
}

#[tokio::test]
async fn a_request_without_room_is_refused_until_a_client_that_sends_slowly_goes_away() {
    let upstream = server(|_| async { json_response(whole_reply("messages", "Fine.")) }).await;
    let (config, written) = limited(config(upstream.address, Http::One), 2000);
    let proxy = start(config, silent_pack()).await;
    let client = client(Http::One);
    let mut slow = TcpStream::connect(proxy.address).await.unwrap();
    let head =
        "POST /local/v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1800\r\n\r\n";
    let sent = [head, &body(1800)[..1700]].concat();
    slow.write_all(sent.as_bytes()).await.unwrap();
    until_buffered(&proxy, &client, 1700).await;
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(status(&proxy, &client, 400).await, busy);
    assert_eq!(
        buffered(&proxy, &client).await,
        1700,
        "what was read is given back"
    );
    // A body that no rule reads is not stored.
    let unread = within(client.request(get(&proxy.url("/local/v1/models")))).await;
    assert_eq!(unread.unwrap().status(), StatusCode::OK);
    drop(slow);
    until_buffered(&proxy, &client, 0).await;
    assert_eq!(status(&proxy, &client, 400).await, StatusCode::OK);
    // It would never fit.
    let too_large = StatusCode::PAYLOAD_TOO_LARGE;
    assert_eq!(status(&proxy, &client, 2001).await, too_large);
    until_buffered(&proxy, &client, 0).await;
    let totals = proxy.totals.snapshot();
    // The third one is the body that was not complete.
    assert_eq!((totals.unbuffered, totals.refused), (1, 3));
    let log = written.text();
    assert!(log.contains("\"event\":\"buffer-full\""), "{log}");
    assert!(
        log.contains("as many bytes as the proxy may store"),
        "{log}"
    );
}

#[tokio::test]
async fn a_body_that_looks_like_a_request_to_a_model_needs_room_too() {
    let upstream = server(|_| async { Response::new(ScriptedBody::of(vec!["hi".into()])) }).await;
    let (config, _) = limited(config(upstream.address, Http::One), 2000);
    let proxy = start(config, silent_pack()).await;
    let client = client(Http::One);
    for (bytes, want) in [
        (1900, StatusCode::OK),
        (2100, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let request = hyper::Request::post(proxy.url("/local/v2/elsewhere"))
            .header("content-type", "application/json")
            .body(format!("[\"{}\"]", "x".repeat(bytes - 4)).into());
        let answer = within(client.request(request.unwrap())).await.unwrap();
        assert_eq!(answer.status(), want);
        collected(answer).await;
        until_buffered(&proxy, &client, 0).await;
    }
}

#[tokio::test]
async fn a_request_takes_room_until_its_reply_has_ended_however_that_is() {
    for ends_by in ["end", "error", "client"] {
        let (upstream, mut heard) = open_server("text/event-stream").await;
        let (config, _) = limited(config(upstream.address, Http::One), 2000);
        let proxy = start(config, silent_pack()).await;
        let client = client(Http::One);
        let request = post(&proxy, "messages", body(1500));
        let first = tokio::spawn(client.request(request));
        let frames: ScriptedFrames = within(heard.recv()).await.unwrap();
        let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}}\n\n";
        within(frames.send(Ok(start.into()))).await.unwrap();
        let reply = within(first).await.unwrap().unwrap();
        let busy = StatusCode::SERVICE_UNAVAILABLE;
        assert_eq!(status(&proxy, &client, 600).await, busy);
        match ends_by {
            "error" => frames
                .send(Err(std::io::Error::other("gone")))
                .await
                .unwrap(),
            "client" => drop(reply),
            _ => drop(frames),
        }
        until_buffered(&proxy, &client, 0).await;
    }
}

#[tokio::test]
async fn a_reply_without_room_is_refused_and_another_one_is_sent() {
    let upstream = server(|request: hyper::Request<Bytes>| async move {
        let is_long = request.body().len() > 500;
        let text = "y".repeat(if is_long { 1500 } else { 10 });
        json_response(whole_reply("messages", &text))
    })
    .await;
    let (config, written) = limited(config(upstream.address, Http::One), 2000);
    let proxy = start(config, silent_pack()).await;
    let client = client(Http::One);
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(status(&proxy, &client, 600).await, busy);
    until_buffered(&proxy, &client, 0).await;
    assert_eq!(status(&proxy, &client, 400).await, StatusCode::OK);
    until_buffered(&proxy, &client, 0).await;
    let totals = proxy.totals.snapshot();
    assert_eq!((totals.unbuffered, totals.failed), (1, 1));
    assert!(written.text().contains("\"event\":\"buffer-full\""));
}

#[tokio::test]
async fn a_stream_that_keeps_more_than_there_is_room_for_is_stopped() {
    let delta = |json: &str| {
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": json}});
        Bytes::from(format!("event: content_block_delta\ndata: {delta}\n\n"))
    };
    let head = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{}}}\n\n";
    let (upstream, mut heard) = open_server("text/event-stream").await;
    let (config, written) = limited(config(upstream.address, Http::One), 100_000);
    let proxy = start(config, silent_pack()).await;
    let client = client(Http::One);
    let first = tokio::spawn(client.request(post(&proxy, "messages", body(400))));
    let frames: ScriptedFrames = within(heard.recv()).await.unwrap();
    within(frames.send(Ok(head.into()))).await.unwrap();
    within(frames.send(Ok(delta("{\"a\":\"")))).await.unwrap();
    for _ in 0..30 {
        // The server is closed once the stream is stopped.
        within(frames.send(Ok(delta(&"x".repeat(8192))))).await.ok();
    }
    let reply = within(first).await.unwrap().unwrap();
    let sent = String::from_utf8(collected(reply).await.to_vec()).unwrap();
    assert!(
        sent.contains("as many bytes as the proxy may store"),
        "{sent}"
    );
    assert!(
        !sent.contains("xxxx") && sent.contains("message_stop"),
        "{sent}"
    );
    until_buffered(&proxy, &client, 0).await;
    let totals = proxy.totals.snapshot();
    assert_eq!((totals.unbuffered, totals.blocked), (1, 1));
    assert!(written.text().contains("\"event\":\"buffer-full\""));
}
