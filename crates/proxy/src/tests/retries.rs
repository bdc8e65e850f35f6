//! Replies that are taken again, over loopback.

use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use ttsr::{Action, Channel, Pack, Partial, Pattern, Rule};

use super::requests::{PATHS, body_of, json_response, post, whole_reply};
use super::schedules::type_of;
use super::{
    Http, RunningProxy, ScriptedBody, ScriptedServer, client, collected, config, open_server,
    server, start, within,
};
use crate::BlockEnding;
use crate::judge::tests::replies::{self, Piece};
use crate::judge::tests::{GEMINI_ARRAY, StreamedApi, legal, pack_of_rules, rule_of};
use crate::routes::ModelApi;

fn retrying() -> Rule {
    let pattern = Pattern::literal("forbidden");
    let mut rule = rule_of("t/retry", pattern, &[Channel::Text], Action::Retry);
    rule.partial = Partial::KeepBeforeMatch;
    rule.message = Some("Not this.".into());
    rule
}

fn pack() -> Pack {
    pack_of_rules([retrying()])
}

/// A stream of each API with these deltas.
fn stream(path: &str, deltas: &[&str]) -> Vec<Bytes> {
    let named = |data: Value| {
        let name = data["type"].as_str().unwrap_or_default();
        Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
    };
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        Bytes::from(format!(
            "data: {}\n\n",
            json!({"id": "c", "choices": [choice]})
        ))
    };
    let item = |text: String| {
        json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })
    };
    let mut out = match path {
        "messages" => vec![
            named(
                json!({"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}),
            ),
            named(
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ),
        ],
        "chat/completions" => vec![chunk(
            json!({"role": "assistant", "content": ""}),
            Value::Null,
        )],
        _ => {
            let mut added = item(String::new());
            added["content"] = json!([]);
            vec![
                named(
                    json!({"type": "response.created", "sequence_number": 0, "response": {"id": "r", "output": []}}),
                ),
                named(
                    json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": added}),
                ),
                named(
                    json!({"type": "response.content_part.added", "sequence_number": 2, "output_index": 0, "content_index": 0, "item_id": "msg_1", "part": {"type": "output_text", "text": ""}}),
                ),
            ]
        }
    };
    for (number, delta) in deltas.iter().enumerate() {
        out.push(match path {
            "messages" => named(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": delta}})),
            "chat/completions" => chunk(json!({"content": delta}), Value::Null),
            _ => named(json!({"type": "response.output_text.delta", "sequence_number": number + 3, "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": delta})),
        });
    }
    match path {
        "messages" => out.extend([
            named(json!({"type": "content_block_stop", "index": 0})),
            named(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}})),
            named(json!({"type": "message_stop"})),
        ]),
        "chat/completions" => out.extend([
            chunk(json!({}), json!("stop")),
            Bytes::from_static(b"data: [DONE]\n\n"),
        ]),
        _ => {
            let whole = item(deltas.concat());
            let next = deltas.len() + 3;
            out.extend([
                named(json!({"type": "response.output_item.done", "sequence_number": next, "output_index": 0, "item": whole})),
                named(json!({"type": "response.completed", "sequence_number": next + 1, "response": {"id": "r", "status": "completed", "output": [whole]}})),
            ]);
        }
    }
    out
}

fn streamed(frames: Vec<Bytes>) -> Response<ScriptedBody> {
    let mut response = Response::new(ScriptedBody::of(frames));
    let kind = "text/event-stream".parse().unwrap();
    response.headers_mut().insert("content-type", kind);
    response
}

/// A server whose first reply is bad, and whose next one is good if its request has the message of the rule.
async fn learning(is_stream: bool) -> ScriptedServer {
    server(move |request: Request<Bytes>| async move {
        let path = request.uri().path().trim_start_matches("/v1/").to_owned();
        let body = String::from_utf8(request.into_body().to_vec()).unwrap();
        let deltas: &[&str] = match body.contains("Not this.") {
            true => &["It is ", "fine."],
            false => &["It is ", "forbid", "den fruit"],
        };
        match is_stream {
            true => streamed(stream(&path, deltas)),
            false => json_response(whole_reply(&path, &deltas.concat())),
        }
    })
    .await
}

#[tokio::test]
async fn the_good_answer_is_spliced_into_the_reply_of_each_api() {
    for http in [Http::One, Http::Two] {
        for path in PATHS {
            for is_stream in [true, false] {
                let mut upstream = learning(is_stream).await;
                let proxy = start(config(upstream.address, http), pack()).await;
                let body = body_of(path, &[("user", "Say it.")]);
                let response = client(http).request(post(&proxy, path, body.clone()));
                let response = within(response).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
                let sent = String::from_utf8(collected(response).await.to_vec()).unwrap();
                assert!(
                    !sent.contains("den fruit") && sent.contains("fine."),
                    "{sent}"
                );
                for once in [
                    "message_start\"",
                    "response.created\"",
                    "\"role\":\"assistant\",\"content\":\"\"",
                ] {
                    assert!(sent.matches(once).count() <= 1, "{sent}");
                }
                let first = within(upstream.requests.recv()).await.unwrap().into_body();
                assert_eq!(first, body);
                let again = within(upstream.requests.recv()).await.unwrap().into_body();
                let again: Value = serde_json::from_slice(&again).unwrap();
                let list = ["messages", "input"]
                    .iter()
                    .find_map(|name| again[name].as_array());
                let list = list.unwrap();
                assert_eq!(list.len(), 3, "{list:?}");
                assert!(list[1].to_string().contains("It is"), "{list:?}");
                assert!(list[2].to_string().contains("Not this."), "{list:?}");
                let totals = proxy.totals.snapshot();
                assert_eq!((totals.judged, totals.retries, totals.blocked), (1, 1, 0));
            }
        }
    }
}

/// The APIs that are tested by a request with a secret and a reply that is taken again, each with its path, its body, and the
/// place and the value of the second request that have the prompt, the partial and the message.
fn other_apis() -> [(StreamedApi, &'static str, Value, &'static str, Value); 6] {
    let text = "It is key-1234.";
    let redacted = "It is [redacted].";
    let prompt = json!("It is [redacted].\n\nIt is\n\nNot this.");
    let part = |text: &str| json!([{"text": text}]);
    let contents = json!([
        {"role": "user", "parts": part(redacted)},
        {"role": "model", "parts": part("It is")},
        {"role": "user", "parts": part("Not this.")},
    ]);
    [
        (
            ModelApi::OllamaChat.into(),
            "/local/api/chat",
            json!({"model": "m", "messages": [{"role": "user", "content": text}]}),
            "/messages",
            json!([
                {"role": "user", "content": redacted},
                {"role": "assistant", "content": "It is"},
                {"role": "user", "content": "Not this."},
            ]),
        ),
        (
            ModelApi::OllamaGenerate.into(),
            "/local/api/generate",
            json!({"model": "m", "prompt": text}),
            "/prompt",
            prompt.clone(),
        ),
        (
            ModelApi::OpenAiCompletions.into(),
            "/local/v1/completions",
            json!({"model": "m", "prompt": text, "stream": true}),
            "/prompt",
            prompt,
        ),
        (
            ModelApi::Gemini.into(),
            "/local/v1beta/models/m:streamGenerateContent?alt=sse",
            json!({"contents": [{"role": "user", "parts": part(text)}]}),
            "/contents",
            contents.clone(),
        ),
        (
            GEMINI_ARRAY,
            "/local/v1beta/models/m:streamGenerateContent?$alt=json",
            json!({"contents": [{"role": "user", "parts": part(text)}]}),
            "/contents",
            contents.clone(),
        ),
        (
            ModelApi::CodeAssist.into(),
            "/local/v1internal:streamGenerateContent?alt=sse",
            json!({"model": "m", "request": {"contents": [{"role": "user", "parts": part(text)}]}}),
            "/request/contents",
            contents,
        ),
    ]
}

#[tokio::test]
async fn other_apis_receive_no_secret_and_are_asked_again() {
    for (api, path, body, place, want) in other_apis() {
        for is_stream in [true, false] {
            let mut upstream = server(move |request: Request<Bytes>| async move {
                let is_again = String::from_utf8_lossy(request.body()).contains("Not this.");
                let last = if is_again { "fine." } else { "forbidden" };
                let pieces = [Piece::Text(&["It is ", last])];
                if !is_stream {
                    return json_response(replies::whole(api, &pieces).to_string());
                }
                let reply = replies::stream(api, &pieces);
                let mut response = Response::new(ScriptedBody::of(vec![reply.into()]));
                let kind = type_of(api).parse().unwrap();
                response.headers_mut().insert("content-type", kind);
                response
            })
            .await;
            let secret = Pattern::regex("key-[0-9]{4}");
            let secret = rule_of("t/key", secret, &[Channel::UserInput], Action::Redact);
            let mut retry = retrying();
            retry.retry.model = Some("other".into());
            let proxy = start(
                config(upstream.address, Http::One),
                pack_of_rules([retry, secret]),
            )
            .await;
            let body = body.to_string();
            let request = Request::post(proxy.url(path)).body(body.clone().into());
            let response = client(Http::One).request(request.unwrap());
            let response = within(response).await.unwrap();
            let sent = String::from_utf8(collected(response).await.to_vec()).unwrap();
            match is_stream {
                true => {
                    legal::check(api, &sent);
                    let text = replies::seen(&sent).text;
                    assert_eq!(text, "It is \n\nIt is fine.", "{api:?}");
                }
                false => {
                    let good = replies::whole(api, &[Piece::Text(&["It is fine."])]);
                    assert_eq!(sent, good.to_string());
                }
            }
            let first = within(upstream.requests.recv()).await.unwrap();
            assert_eq!(first.into_body(), body.replace("key-1234", "[redacted]"));
            let again = within(upstream.requests.recv()).await.unwrap();
            let uri = again.uri().to_string();
            let again: Value = serde_json::from_slice(&again.into_body()).unwrap();
            assert_eq!(again.pointer(place), Some(&want), "{api:?}");
            match path.rsplit_once("m:") {
                Some((_, method)) => assert_eq!(uri, format!("/v1beta/models/other:{method}")),
                None => assert_eq!(again["model"], "other"),
            }
            let totals = proxy.totals.snapshot();
            assert_eq!((totals.judged, totals.retries, totals.blocked), (1, 1, 0));
        }
    }
}

/// Returns true if the request has the message of the rule.
fn is_again(request: &Request<Bytes>) -> bool {
    String::from_utf8_lossy(request.body()).contains("Not this.")
}

/// A reply that the rule cuts.
fn forbidden(request: &Request<Bytes>, is_stream: bool) -> Response<ScriptedBody> {
    let path = request.uri().path().trim_start_matches("/v1/");
    let deltas = ["It is ", "forbidden"];
    match is_stream {
        true => streamed(stream(path, &deltas)),
        false => json_response(whole_reply(path, &deltas.concat())),
    }
}

/// Reads a reply that was stopped with the reason of the rule.
async fn assert_has_reason(response: Response<Incoming>, proxy: &RunningProxy) {
    let sent = String::from_utf8(collected(response).await.to_vec()).unwrap();
    let reason = "[ttsr: reply stopped by rule t/retry: Not this.]";
    assert!(
        sent.contains(reason) && !sent.contains("forbidden"),
        "{sent}"
    );
    assert_eq!(proxy.totals.snapshot().blocked, 1);
}

#[tokio::test]
async fn a_server_that_fails_the_second_time_stops_the_reply_with_the_reason() {
    for path in PATHS {
        for is_stream in [true, false] {
            let upstream = server(move |request: Request<Bytes>| async move {
                let is_again = is_again(&request);
                let mut response = forbidden(&request, is_stream);
                if is_again {
                    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                }
                response
            })
            .await;
            let proxy = start(config(upstream.address, Http::One), pack()).await;
            let body = body_of(path, &[("user", "Say it.")]);
            let response = client(Http::One).request(post(&proxy, path, body));
            let response = within(response).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            assert_has_reason(response, &proxy).await;
        }
    }
}

#[tokio::test]
async fn another_attempt_that_cannot_be_read_ends_the_reply_with_the_reason() {
    for path in PATHS {
        for (ending, status) in [
            (BlockEnding::Soft, StatusCode::OK),
            (BlockEnding::Hard, StatusCode::BAD_REQUEST),
        ] {
            for second in ["", "<html>"] {
                let upstream = server(move |request: Request<Bytes>| async move {
                    match is_again(&request) {
                        true => json_response(second.to_owned()),
                        false => forbidden(&request, false),
                    }
                })
                .await;
                let mut config = config(upstream.address, Http::One);
                config.ending = ending;
                let proxy = start(config, pack()).await;
                let body = body_of(path, &[("user", "Say it.")]);
                let response = client(Http::One).request(post(&proxy, path, body));
                let response = within(response).await.unwrap();
                assert_eq!(response.status(), status, "{path} {second}");
                assert_has_reason(response, &proxy).await;
            }
        }
    }
}

#[tokio::test]
async fn another_attempt_that_breaks_off_ends_the_reply_with_the_reason() {
    let cases = PATHS.map(|path| [(Http::One, path), (Http::Two, path)]);
    for (http, path) in cases.into_iter().flatten() {
        for is_stream in [true, false] {
            for cut in ["", "{\"id\":", "data: {\"id\":"] {
                let upstream = server(move |request: Request<Bytes>| async move {
                    let is_again = is_again(&request);
                    let mut response = forbidden(&request, is_stream);
                    if is_again {
                        let (frames, body) = ScriptedBody::new();
                        *response.body_mut() = body;
                        tokio::spawn(async move {
                            if !cut.is_empty() {
                                frames.send(Ok(Bytes::from(cut))).await.ok();
                            }
                            frames
                                .send(Err(std::io::ErrorKind::Other.into()))
                                .await
                                .ok();
                        });
                    }
                    response
                })
                .await;
                let proxy = start(config(upstream.address, http), pack()).await;
                let body = body_of(path, &[("user", "Say it.")]);
                let response = client(http).request(post(&proxy, path, body));
                let response = within(response).await.unwrap();
                assert_eq!(
                    response.status(),
                    StatusCode::OK,
                    "{path} {is_stream} {cut}"
                );
                assert_has_reason(response, &proxy).await;
            }
        }
    }
}

#[tokio::test]
async fn a_client_is_kept_alive_while_another_attempt_waits() {
    let (upstream, mut heard) = open_server("text/event-stream").await;
    let mut config = config(upstream.address, Http::One);
    config.limits.keep_alive_time = std::time::Duration::from_millis(20);
    config.limits.hold_time = std::time::Duration::from_millis(300);
    let proxy = start(config, pack()).await;
    let body = body_of("messages", &[("user", "Say it.")]);
    let request = client(Http::One).request(post(&proxy, "messages", body));
    let sent = tokio::spawn(async move { collected(request.await.unwrap()).await });
    let first = within(heard.recv()).await.unwrap();
    for frame in stream("messages", &["It is ", "forbidden"]) {
        if first.send(Ok(frame)).await.is_err() {
            break;
        }
    }
    let second = within(heard.recv()).await.unwrap();
    within(first.closed()).await;
    let sent = String::from_utf8(within(sent).await.unwrap().to_vec()).unwrap();
    assert!(sent.matches("event: ping").count() > 2, "{sent}");
    assert!(sent.contains("reply stopped by rule t/retry"), "{sent}");
    assert!(
        sent.ends_with("data: {\"type\":\"message_stop\"}\n\n"),
        "{sent}"
    );
    within(second.closed()).await;
}

/// A server of Responses that gives each reply the id of its number. Its replies repeat the last text of the user, and say
/// something else if the request has the message of a rule.
async fn numbering() -> ScriptedServer {
    let replies = AtomicUsize::new(0);
    server(move |request: Request<Bytes>| {
        let id = format!("resp_{}", replies.fetch_add(1, Ordering::Relaxed) + 1);
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        let text = match body["input"].to_string() {
            input if input.contains("Not this.") => "fine.".to_owned(),
            _ => body["input"].as_str().unwrap_or_default().to_owned(),
        };
        async move {
            if body["stream"] != json!(true) {
                return json_response(whole_reply("responses", &text).replace("resp_1", &id));
            }
            let frames = stream("responses", &[&text]).into_iter();
            let numbered = frames.map(|frame| {
                let frame = String::from_utf8(frame.to_vec()).unwrap();
                let from = r#""id":"r""#;
                Bytes::from(frame.replace(from, &from.replace("\"r\"", &format!("\"{id}\""))))
            });
            streamed(numbered.collect())
        }
    })
    .await
}

#[tokio::test]
async fn a_request_continues_the_attempt_that_the_client_saw() {
    let mut upstream = numbering().await;
    let proxy = start(config(upstream.address, Http::One), pack()).await;
    let client = client(Http::One);
    // Sends a request, and returns the id that the client sees and the one that the server is sent last.
    let mut ask = async |key: &'static str, body: Value, attempts: usize| {
        let body = body.to_string();
        let request = Request::post(proxy.url("/local/v1/responses"));
        let request = request.header("x-api-key", key).body(Full::from(body));
        let response = within(client.request(request.unwrap())).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let reply = String::from_utf8(collected(response).await.to_vec()).unwrap();
        let id = reply.split(r#""id":"resp_"#).nth(1).unwrap();
        let id = format!("resp_{}", id.split('"').next().unwrap());
        let mut previous = Value::Null;
        for _ in 0..attempts {
            let sent = within(upstream.requests.recv()).await.unwrap().into_body();
            let sent: Value = serde_json::from_slice(&sent).unwrap();
            previous = sent["previous_response_id"].clone();
        }
        assert!(upstream.requests.try_recv().is_err());
        (id, previous)
    };
    let request = |input: &str, previous: &str| json!({"model": "m", "stream": true, "input": input, "previous_response_id": previous});
    let first = json!({"model": "m", "stream": true, "input": "forbidden"});
    let (id, _) = ask("k", first, 2).await;
    assert_eq!(id, "resp_1", "the id is constant while the reply streams");
    let (_, previous) = ask("k", request("a", "resp_1"), 1).await;
    assert_eq!(previous, "resp_2");
    let (_, previous) = ask("k", request("a", "resp_2"), 1).await;
    assert_eq!(previous, "resp_2");
    let (_, previous) = ask("other", request("a", "resp_1"), 1).await;
    assert_eq!(
        previous, "resp_1",
        "the reply of another client is not known"
    );
    // Both attempts at a reply continue the same one.
    let (id, previous) = ask("k", request("forbidden", "resp_1"), 2).await;
    assert_eq!((&*id, previous), ("resp_6", json!("resp_2")));
    let (_, previous) = ask("k", request("a", "resp_6"), 1).await;
    assert_eq!(previous, "resp_7");
    // A client sees the last attempt at a reply that is not streamed.
    let (id, _) = ask("k", json!({"model": "m", "input": "forbidden"}), 2).await;
    assert_eq!(id, "resp_10");
    let (_, previous) = ask("k", request("a", "resp_10"), 1).await;
    assert_eq!(previous, "resp_10");
    let unstored = json!({"model": "m", "stream": true, "input": "forbidden", "store": false});
    let (id, _) = ask("k", unstored, 2).await;
    assert_eq!(id, "resp_12");
    let (_, previous) = ask("k", request("a", "resp_12"), 1).await;
    assert_eq!(previous, "resp_12", "the server has no such reply");
}

#[tokio::test]
async fn a_request_that_continues_a_reply_is_in_its_session() {
    let pattern = Pattern::literal("odd");
    let mut rule = rule_of("t/inject", pattern, &[Channel::Text], Action::Inject);
    rule.message = Some("Be even.".into());
    let mut upstream = numbering().await;
    let proxy = start(config(upstream.address, Http::One), pack_of_rules([rule])).await;
    let client = client(Http::One);
    let mut carries = async |body: Value| {
        let request = Request::post(proxy.url("/local/v1/responses"));
        let request = request.body(Full::from(body.to_string())).unwrap();
        collected(within(client.request(request)).await.unwrap()).await;
        let sent = within(upstream.requests.recv()).await.unwrap().into_body();
        String::from_utf8(sent.to_vec())
            .unwrap()
            .contains("Be even.")
    };
    for stream in [true, false] {
        let first = if stream { 1 } else { 5 };
        let request = |input: &str| json!({"model": "m", "stream": stream, "input": input});
        let continued = |input: &str, number: usize| {
            let mut request = request(input);
            request["previous_response_id"] = json!(format!("resp_{number}"));
            request
        };
        // Conversations that begin alike are one session.
        assert!(!carries(request(&format!("odd {stream}"))).await);
        assert!(!carries(request("another conversation")).await);
        assert!(carries(continued("go on", first)).await);
        assert!(!carries(continued("and so on", first + 2)).await, "once");
    }
}
