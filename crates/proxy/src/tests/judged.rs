//! Replies under rules, over loopback.

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use ttsr::{Action, Mode, Pack, Pattern, Rule};

use super::schedules::{path_of, type_of};
use super::{
    BODY, Http, RunningProxy, ScriptedBody, ScriptedServer, VERSIONS, client, collected, config,
    open_server, server, start, within,
};
use crate::judge::tests::replies::{Piece, events};
use crate::judge::tests::{GEMINI_ARRAY, every_stream};
use crate::routes::ModelApi;
use crate::{BlockEnding, Mount, UpstreamUrl};

const CHUNKS: [&str; 4] = [
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"It is key-12\"}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"34.\"}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
];

fn pack(action: Action) -> Pack {
    let mut rule = Rule::new("demo/key", vec![Pattern::regex("key-[0-9]{4}")]);
    rule.action = action;
    rule.message = Some("No keys.".into());
    Pack::builder().rule(rule).build().unwrap()
}

fn streamed(frames: Vec<Bytes>) -> Response<ScriptedBody> {
    let mut response = Response::new(ScriptedBody::of(frames));
    let kind = "text/event-stream; charset=utf-8".parse().unwrap();
    response.headers_mut().insert("content-type", kind);
    response
}

fn post(proxy: &RunningProxy, path: &str) -> Request<Full<Bytes>> {
    let request = Request::post(proxy.url(path)).header("accept-encoding", "gzip, br");
    request.body(Full::from(BODY)).unwrap()
}

async fn chat_server(body: &'static [&'static str]) -> ScriptedServer {
    server(move |_| async move {
        streamed(
            body.iter()
                .map(|chunk| Bytes::from_static(chunk.as_bytes()))
                .collect(),
        )
    })
    .await
}

#[tokio::test]
async fn a_stream_is_redacted_in_both_versions_of_http() {
    for (front, back) in [(Http::One, Http::One), (Http::Two, Http::Two)] {
        let mut upstream = chat_server(&CHUNKS).await;
        let proxy = start(config(upstream.address, back), pack(Action::Redact)).await;
        let request = post(&proxy, "/local/v1/chat/completions");
        let response = within(client(front).request(request)).await.unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "text/event-stream; charset=utf-8"
        );
        let sent = String::from_utf8(collected(response).await.to_vec()).unwrap();
        let want = CHUNKS
            .concat()
            .replace("key-12", "[redacted]")
            .replace("34.", ".");
        assert_eq!(sent, want);
        let received = upstream.requests.recv().await.unwrap();
        assert_eq!(received.headers()["accept-encoding"], "identity");
        let totals = proxy.totals.snapshot();
        assert_eq!(
            (totals.judged, totals.redactions, totals.blocked),
            (1, 1, 0)
        );
    }
}

#[tokio::test]
async fn a_reply_is_judged_by_the_whole_path_that_the_server_sees() {
    let mut upstream = chat_server(&CHUNKS).await;
    let mut config = config(upstream.address, Http::One);
    let url = format!("http://{}/v1/chat", upstream.address);
    let url = UpstreamUrl::parse(&url).unwrap();
    config.mounts.push(Mount::new("/chat", url));
    let proxy = start(config, pack(Action::Redact)).await;
    let request = post(&proxy, "/chat/completions");
    let response = within(client(Http::One).request(request)).await.unwrap();
    let sent = String::from_utf8(collected(response).await.to_vec()).unwrap();
    assert!(!sent.contains("key-12"), "{sent}");
    let received = upstream.requests.recv().await.unwrap();
    assert_eq!(received.uri().path(), "/v1/chat/completions");
    for path in ["/chat/completions/.", "/local/v1/chat/x/%2e%2E/completions"] {
        let request = post(&proxy, path);
        let response = within(client(Http::One).request(request)).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
    }
    assert!(upstream.requests.try_recv().is_err());
    assert_eq!(proxy.totals.snapshot().refused, 2);
}

#[tokio::test]
async fn a_block_cancels_the_server_and_ends_the_stream_for_the_client() {
    let (upstream, mut heard) = open_server("text/event-stream").await;
    let proxy = start(config(upstream.address, Http::One), pack(Action::Abort)).await;
    let request = client(Http::One).request(post(&proxy, "/local/v1/chat/completions"));
    let sent = tokio::spawn(async move { collected(request.await.unwrap()).await });
    let frames = within(heard.recv()).await.unwrap();
    frames.send(Ok(CHUNKS[0].into())).await.unwrap();
    frames.send(Ok(CHUNKS[1].into())).await.unwrap();
    within(frames.closed()).await;
    let sent = String::from_utf8(within(sent).await.unwrap().to_vec()).unwrap();
    assert!(
        sent.contains("[ttsr: reply stopped by rule demo/key: No keys.]"),
        "{sent}"
    );
    assert!(sent.ends_with("data: [DONE]\n\n"), "{sent}");
    let totals = proxy.totals.snapshot();
    assert_eq!((totals.judged, totals.blocked), (1, 1));
}

#[tokio::test]
async fn a_stopped_reply_has_the_tokens_that_the_client_asked_for() {
    // The server tells the tokens in its last chunk alone.
    let upstream = chat_server(&CHUNKS).await;
    let proxy = start(config(upstream.address, Http::One), pack(Action::Abort)).await;
    for wants_usage in [true, false] {
        let mut body: Value = serde_json::from_str(BODY).unwrap();
        body["stream_options"] = json!({"include_usage": wants_usage});
        let request = Request::post(proxy.url("/local/v1/chat/completions"));
        let request = request.body(Full::from(body.to_string())).unwrap();
        let response = within(client(Http::One).request(request)).await.unwrap();
        let sent = String::from_utf8(collected(response).await.to_vec()).unwrap();
        assert!(sent.contains("No keys."), "{sent}");
        assert_eq!(sent.contains("\"total_tokens\":0"), wants_usage, "{sent}");
        assert!(sent.ends_with("data: [DONE]\n\n"), "{sent}");
    }
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_judged_the_same() {
    let body = r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"key-1234"},"finish_reason":"stop"}]}"#;
    let upstream = server(move |_| async move {
        let mut response =
            Response::new(ScriptedBody::of(vec![Bytes::from_static(body.as_bytes())]));
        response
            .headers_mut()
            .insert("content-type", "application/json".parse().unwrap());
        response
    })
    .await;
    for (action, ending, status, text) in [
        (
            Action::Redact,
            BlockEnding::Soft,
            StatusCode::OK,
            "\"content\":\"[redacted]\"",
        ),
        (
            Action::Abort,
            BlockEnding::Soft,
            StatusCode::OK,
            "demo/key: No keys.]\"",
        ),
        (
            Action::Abort,
            BlockEnding::Hard,
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
        ),
        (Action::Warn, BlockEnding::Soft, StatusCode::OK, "key-1234"),
    ] {
        let mut config = config(upstream.address, Http::One);
        config.ending = ending;
        let proxy = start(config, pack(action)).await;
        let request = post(&proxy, "/local/v1/chat/completions");
        let response = within(client(Http::One).request(request)).await.unwrap();
        assert_eq!(response.status(), status);
        let sent = String::from_utf8(collected(response).await.to_vec()).unwrap();
        assert!(sent.contains(text), "{sent}");
        assert_eq!(sent == body, action == Action::Warn);
        let totals = proxy.totals.snapshot();
        let warned = u64::from(action == Action::Warn);
        assert_eq!((totals.judged, totals.warnings), (1, warned));
    }
}

#[tokio::test]
async fn a_reply_that_cannot_be_judged_is_refused_unless_the_proxy_fails_open() {
    let upstream = server(|request: Request<Bytes>| async move {
        let mut response = streamed(vec!["\x1f not plain".into()]);
        if request.uri().path().starts_with("/v1/chat") {
            let headers = response.headers_mut();
            headers.insert("content-encoding", "gzip".parse().unwrap());
        }
        response
    })
    .await;
    for fail_open in [false, true] {
        for (path, status) in [
            ("/local/v1/chat/completions", StatusCode::BAD_GATEWAY),
            ("/local/v1/complete", StatusCode::BAD_REQUEST),
        ] {
            let mut config = config(upstream.address, Http::One);
            config.fail_open = fail_open;
            let proxy = start(config, pack(Action::Abort)).await;
            let response = within(client(Http::One).request(post(&proxy, path)))
                .await
                .unwrap();
            let status = if fail_open { StatusCode::OK } else { status };
            assert_eq!(response.status(), status, "{path}");
            let sent = collected(response).await;
            assert_eq!(sent.starts_with(b"\x1f not"), fail_open, "{path}");
        }
    }
}

#[tokio::test]
async fn an_error_of_the_proxy_has_the_form_of_the_api() {
    let mut rule = Rule::new("demo/hi", vec![Pattern::literal("Hi")]);
    rule.on = vec![ttsr::Channel::UserInput];
    rule.action = Action::Abort;
    rule.message = Some("Not this.".into());
    let pack = Pack::builder().rule(rule).build().unwrap();
    let config = config("127.0.0.1:9".parse().unwrap(), Http::One);
    let proxy = start(config, pack).await;
    for api in every_stream() {
        let stopped = "[ttsr: request stopped by rule demo/hi: Not this.]";
        let failed = "ttsr proxy: cannot connect to the server";
        for (body, status, message) in [
            (BODY.to_owned(), 400, stopped),
            (BODY.replace("Hi", "Well"), 502, failed),
        ] {
            let request = Request::post(proxy.url(path_of(api))).body(Full::from(body));
            let response = client(Http::One).request(request.unwrap());
            let response = within(response).await.unwrap();
            assert_eq!(response.status(), status, "{api:?}");
            let sent: Value = serde_json::from_slice(&collected(response).await).unwrap();
            let is_refused = status == 400;
            match api.api {
                ModelApi::OllamaChat | ModelApi::OllamaGenerate => {
                    assert_eq!(sent, json!({"error": message}));
                }
                ModelApi::Gemini | ModelApi::CodeAssist => {
                    let name = if is_refused {
                        "INVALID_ARGUMENT"
                    } else {
                        "INTERNAL"
                    };
                    let error = json!({"code": status, "message": message, "status": name});
                    assert_eq!(sent, json!({"error": error}));
                }
                _ => {
                    let kind = if is_refused {
                        "invalid_request_error"
                    } else {
                        "api_error"
                    };
                    assert_eq!(sent["type"], "error", "{api:?}");
                    assert_eq!(sent["error"]["type"], kind, "{api:?}");
                    assert_eq!(sent["error"]["message"], message, "{api:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_empty_body_passes_with_its_status() {
    let upstream = server(|request: Request<Bytes>| async move {
        let is_chunked = request.headers().contains_key("x-chunked");
        let mut response = Response::new(ScriptedBody::of(Vec::new()));
        *response.status_mut() = request.headers()["x-status"]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        let headers = response.headers_mut();
        headers.insert("x-kept", "1".parse().unwrap());
        headers.insert("content-type", "application/json".parse().unwrap());
        if !is_chunked {
            headers.insert("content-length", "0".parse().unwrap());
        }
        response
    })
    .await;
    for (front, back) in VERSIONS {
        let proxy = start(config(upstream.address, back), pack(Action::Abort)).await;
        for api in every_stream() {
            for (status, is_chunked) in
                [("200", true), ("200", false), ("202", true), ("204", true)]
            {
                let mut request = post(&proxy, path_of(api));
                let headers = request.headers_mut();
                headers.insert("x-status", status.parse().unwrap());
                if is_chunked {
                    headers.insert("x-chunked", "1".parse().unwrap());
                }
                let response = within(client(front).request(request)).await.unwrap();
                let what = format!("{api:?} {front:?} {back:?} {status} {is_chunked}");
                assert_eq!(response.status().as_str(), status, "{what}");
                assert!(response.headers().contains_key("x-kept"), "{what}");
                assert_eq!(collected(response).await, "", "{what}");
            }
        }
        assert_eq!(proxy.totals.snapshot().unreadable, 0);
    }
}

#[tokio::test]
async fn a_stored_reply_is_judged_when_it_is_cancelled_and_its_request_is_no_prompt() {
    let stored = json!({
        "id": "r", "object": "response", "created_at": 1, "status": "cancelled", "model": "m", "error": null,
        "incomplete_details": null, "output": [{
            "id": "i", "type": "message", "role": "assistant", "status": "incomplete",
            "content": [{"type": "output_text", "text": "It is key-1234.", "annotations": []}],
        }],
    });
    let body = Bytes::from(stored.to_string());
    let mut upstream = server(move |_| {
        let body = body.clone();
        async move {
            let mut response = Response::new(ScriptedBody::of(vec![body]));
            let kind = "application/json".parse().unwrap();
            response.headers_mut().insert("content-type", kind);
            response
        }
    })
    .await;
    let proxy = start(config(upstream.address, Http::One), pack(Action::Redact)).await;
    for body in ["", "{}"] {
        let request = Request::post(proxy.url("/local/v1/responses/r/cancel"));
        let request = request.body(Full::from(body)).unwrap();
        let response = within(client(Http::One).request(request)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let sent = collected(response).await;
        let want = stored.to_string().replace("key-1234", "[redacted]");
        assert_eq!(sent, want);
        let received = upstream.requests.recv().await.unwrap();
        assert_eq!(received.body(), body);
    }
    // A body that is a prompt after all.
    let request = post(&proxy, "/local/v1/responses/r/cancel");
    let response = within(client(Http::One).request(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert!(upstream.requests.try_recv().is_err());
}

#[tokio::test]
async fn errors_of_the_server_and_replies_in_shadow_pass_as_they_are() {
    let upstream = server(|request: Request<Bytes>| async move {
        let mut response = streamed(CHUNKS.map(Bytes::from).to_vec());
        if request.uri().path() == "/fails/v1/chat/completions" {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        }
        response
    })
    .await;
    for (path, mode) in [("/local/fails", Mode::Live), ("/local", Mode::Shadow)] {
        let mut config = config(upstream.address, Http::One);
        config.mode = mode;
        let proxy = start(config, pack(Action::Abort)).await;
        let request = post(&proxy, &format!("{path}/v1/chat/completions"));
        let response = within(client(Http::One).request(request)).await.unwrap();
        assert_eq!(collected(response).await, CHUNKS.concat(), "{path}");
        assert_eq!(proxy.totals.snapshot().blocked, 0);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_within_a_call_is_an_error_for_the_client() {
    let call = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"function\":{\"name\":\"bash\",\"arguments\":\"{\\\"a\\\":1\"}}]}}]}\n\n";
    let upstream =
        server(move |_| async move { streamed(vec![CHUNKS[0].into(), call.into()]) }).await;
    let proxy = start(config(upstream.address, Http::One), pack(Action::Abort)).await;
    let request = post(&proxy, "/local/v1/chat/completions");
    let mut response = within(client(Http::One).request(request)).await.unwrap();
    let mut sent = Vec::new();
    let error = loop {
        match within(response.frame()).await {
            Some(Ok(frame)) => sent.extend(frame.into_data().unwrap()),
            ended => break ended,
        }
    };
    assert!(matches!(error, Some(Err(_))));
    assert!(!String::from_utf8(sent).unwrap().contains("bash"));
}

#[tokio::test]
async fn a_held_reply_is_kept_alive_and_stopped_in_the_end() {
    let (upstream, mut heard) = open_server("text/event-stream").await;
    let mut config = config(upstream.address, Http::One);
    config.limits.keep_alive_time = std::time::Duration::from_millis(20);
    config.limits.hold_time = std::time::Duration::from_millis(200);
    let proxy = start(config, pack(Action::Redact)).await;
    let begin = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n\
                 event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
    let held = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"key-12\"}}\n\n";
    let added = "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"output\":[]}}\n\n\
                 data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"id\":\"f\",\"name\":\"t\"}}\n\n";
    for (path, chunks, sign, end) in [
        (
            "messages",
            [begin, held],
            "\"text\":\"\"",
            "event: message_stop",
        ),
        (
            "chat/completions",
            [CHUNKS[0], ": hi\n\n"],
            "\"delta\":{\"content\":\"\"}",
            "[DONE]",
        ),
        (
            "responses",
            [added, ": hi\n\n"],
            "event: response.in_progress",
            "event: response.completed",
        ),
    ] {
        let request = client(Http::One).request(post(&proxy, &format!("/local/v1/{path}")));
        let sent = tokio::spawn(async move { collected(request.await.unwrap()).await });
        let frames = within(heard.recv()).await.unwrap();
        for chunk in chunks {
            frames.send(Ok(chunk.into())).await.unwrap();
        }
        let sent = String::from_utf8(within(sent).await.unwrap().to_vec()).unwrap();
        assert!(sent.matches(sign).count() > 2, "{path}: {sent}");
        let reason = match path {
            "responses" => "a call did not arrive in the time",
            _ => "no rule could decide in time",
        };
        assert!(
            sent.contains(reason) && sent.contains(end),
            "{path}: {sent}"
        );
        assert!(!sent.contains("key-12"), "{sent}");
        within(frames.closed()).await;
    }
    assert_eq!(proxy.totals.snapshot().blocked, 3);
}

#[tokio::test]
async fn a_frame_reaches_the_client_before_the_server_sends_the_next_one() {
    let pieces = [Piece::Text(&["It is ", "é", " so."])];
    for (front, back) in VERSIONS {
        for api in every_stream() {
            let (upstream, mut heard) = open_server(type_of(api)).await;
            let proxy = start(config(upstream.address, back), pack(Action::Abort)).await;
            let client = client(front);
            let request = client.request(post(&proxy, path_of(api)));
            let begun = async { tokio::join!(request, heard.recv()) };
            let (response, frames) = within(begun).await;
            let (mut response, frames) = (response.unwrap(), frames.unwrap());
            let what = format!("{api:?} {front:?} {back:?}");
            let (mut sent, mut received) = (String::new(), Vec::new());
            let all = events(api, &pieces);
            let last_text = all
                .iter()
                .rposition(|event| event.contains(" so."))
                .unwrap();
            let last_text = last_text.min(all.len() - 2);
            for event in &all[..=last_text] {
                frames.send(Ok(event.clone().into())).await.unwrap();
                sent += event;
                while received.len() < sent.len() {
                    let frame = within(response.frame()).await.unwrap().unwrap();
                    received.extend(frame.into_data().unwrap());
                }
                assert_eq!(String::from_utf8_lossy(&received), sent, "{what}");
            }
            for event in &all[last_text + 1..] {
                frames.send(Ok(event.clone().into())).await.unwrap();
            }
            drop(frames);
            received.extend(collected(response).await);
            assert_eq!(String::from_utf8_lossy(&received), all.concat(), "{what}");
        }
    }
}

#[tokio::test]
async fn an_error_of_the_server_that_is_an_array_or_an_object_passes_with_its_status() {
    let error =
        r#"{"error": {"code": 429, "message": "key-1234", "status": "RESOURCE_EXHAUSTED"}}"#;
    for body in [error.to_owned(), format!("[{error}\n]\n")] {
        let sent = Bytes::from(body);
        let served = sent.clone();
        let upstream = server(move |_| {
            let mut response = Response::new(ScriptedBody::of(vec![served.clone()]));
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            let kind = type_of(GEMINI_ARRAY).parse().unwrap();
            response.headers_mut().insert("content-type", kind);
            async move { response }
        })
        .await;
        let proxy = start(config(upstream.address, Http::One), pack(Action::Abort)).await;
        let request = post(&proxy, path_of(GEMINI_ARRAY));
        let response = within(client(Http::One).request(request)).await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(collected(response).await, sent);
        assert_eq!(proxy.totals.snapshot().judged, 0);
    }
}
