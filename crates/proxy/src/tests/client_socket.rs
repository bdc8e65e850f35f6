//! The bytes that a client receives over its socket: those of the server if no rule fires, and none of a match that a rule
//! redacts or holds. And the time from the end of that socket to the end of the request to the server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use ttsr::{Action, Channel, Pack, Pattern};
use ttsr_testing::{Random, skip};

use super::schedules::{path_of, type_of};
use super::{
    BODY, Http, RunningProxy, ScriptedBody, ScriptedServer, TestClient, VERSIONS, client, config,
    open_server, server, start, within,
};
use crate::judge::tests::corpus::{api_of, bodies, recorded_replies, wire_files};
use crate::judge::tests::replies::{Piece, events, seen, stream, stream_of, whole};
use crate::judge::tests::{
    StreamedApi, aborting, complete_events, every_stream, legal, pack_of_rules, rule_of,
};
use crate::routes::ModelApi;

/// The segments of the next reply, and its content type.
type NextReply = Arc<Mutex<(Vec<Bytes>, &'static str)>>;

/// Starts a server that answers with the reply that was set last.
async fn replaying() -> (ScriptedServer, NextReply) {
    let reply = NextReply::default();
    let next = Arc::clone(&reply);
    let server = server(move |_| {
        let (segments, kind) = next.lock().unwrap().clone();
        let mut response = Response::new(ScriptedBody::of(segments));
        let kind = kind.parse().unwrap();
        response.headers_mut().insert("content-type", kind);
        async move { response }
    });
    (server.await, reply)
}

/// The bytes that a client received, and true if its body ended as complete.
async fn received(client: &TestClient, proxy: &RunningProxy, api: StreamedApi) -> (Vec<u8>, bool) {
    let request = Request::post(proxy.url(path_of(api))).body(Full::<Bytes>::from(BODY));
    let mut response = within(client.request(request.unwrap())).await.unwrap();
    assert_eq!(response.status(), 200, "{api:?}");
    let mut bytes = Vec::new();
    loop {
        match within(response.frame()).await {
            Some(Ok(frame)) => bytes.extend(frame.into_data().unwrap_or_default()),
            Some(Err(_)) => return (bytes, false),
            None => return (bytes, true),
        }
    }
}

fn pieces_of(body: &[u8], len: usize) -> Vec<Bytes> {
    body.chunks(len).map(Bytes::copy_from_slice).collect()
}

const SECRET: &str = "key-0123456789";

fn acting(action: Action) -> Pack {
    let pattern = Pattern::regex("key-[0-9]{10}");
    let mut rule = rule_of("t/key", pattern, &Channel::STREAMED, action);
    rule.hold = action == Action::Abort;
    rule.message = Some("Not this.".into());
    pack_of_rules([rule])
}

/// Fails if the bytes have four bytes of the secret in a row.
fn assert_no_leak(sent: &str, what: &str) {
    for start in 0..=SECRET.len() - 4 {
        let piece = &SECRET[start..start + 4];
        assert!(!sent.contains(piece), "{what} leaks {piece}: {sent}");
    }
}

#[tokio::test]
async fn no_byte_of_a_match_reaches_the_socket_however_it_is_cut() {
    let (upstream, reply) = replaying().await;
    for (http, action) in [
        (Http::One, Action::Redact),
        (Http::Two, Action::Redact),
        (Http::One, Action::Abort),
        (Http::Two, Action::Abort),
    ] {
        let proxy = start(config(upstream.address, http), acting(action)).await;
        let client = client(http);
        for cut in 0..=SECRET.len() {
            let (head, tail) = SECRET.split_at(cut);
            let text = [format!("It is {head}"), format!("{tail}. Fine.")];
            let input = [format!("{{\"a\": \"x {head}"), format!("{tail} y\"}}")];
            let (text, input) = (text.each_ref(), input.each_ref());
            let (text, input) = (text.map(String::as_str), input.map(String::as_str));
            for api in every_stream() {
                let kinds = if api.has_parts() { 3 } else { 1 };
                let pieces = [
                    Piece::Text(&text),
                    Piece::Reasoning(&text),
                    Piece::Tool("t", &input),
                ];
                for piece in pieces.into_iter().take(kinds) {
                    let channel = match piece {
                        Piece::Text(_) => Channel::Text,
                        Piece::Reasoning(_) => Channel::Reasoning,
                        Piece::Tool(..) => Channel::ToolInput,
                    };
                    let what = format!("{api:?} {http:?} {action:?} {channel:?} cut at {cut}");
                    let pieces = [piece];
                    let streamed = (stream(api, &pieces), type_of(api));
                    let body = (whole(api, &pieces).to_string(), "application/json");
                    // A body that is not streamed has no cut.
                    for (body, kind) in [streamed, body].into_iter().take(1 + usize::from(cut == 0))
                    {
                        *reply.lock().unwrap() = (pieces_of(body.as_bytes(), 64), kind);
                        let (sent, is_complete) = received(&client, &proxy, api).await;
                        let sent = String::from_utf8(sent).unwrap();
                        assert!(is_complete, "{what}: {sent}");
                        assert_no_leak(&sent, &what);
                        let seen = seen(&sent);
                        if action == Action::Abort {
                            let reason = "[ttsr: reply stopped by rule t/key: Not this.]";
                            assert!(seen.text.contains(reason), "{what}: {sent}");
                            continue;
                        }
                        let text = "It is [redacted]. Fine.";
                        let (got, want) = match channel {
                            Channel::Text => (&seen.text, text),
                            Channel::Reasoning => (&seen.reasoning, text),
                            _ => (&seen.input, "{\"a\":\"x [redacted] y\"}"),
                        };
                        assert_eq!(got.replace("\": \"", "\":\""), want, "{what}: {sent}");
                    }
                }
            }
        }
    }
}

/// Sends a body in three segmentations, and returns true if it passes complete: byte by byte for its first bytes, at random,
/// and at once.
async fn passes(
    reply: &NextReply,
    proxies: &[(TestClient, RunningProxy)],
    random: &mut Random,
    api: ModelApi,
    body: &[u8],
    name: &str,
) -> bool {
    const SINGLE: usize = 1024;
    let (start, rest) = body.split_at(body.len().min(SINGLE));
    let mut by_byte = pieces_of(start, 1);
    by_byte.extend((!rest.is_empty()).then(|| Bytes::copy_from_slice(rest)));
    let at_random = random.pieces(body, 300).into_iter();
    let segmentations = [
        by_byte,
        at_random.map(Bytes::copy_from_slice).collect(),
        vec![Bytes::copy_from_slice(body)],
    ];
    let kind = match body.trim_ascii_start().starts_with(b"{") {
        true if !matches!(api, ModelApi::OllamaChat | ModelApi::OllamaGenerate) => {
            "application/json"
        }
        _ => type_of(api),
    };
    let mut passes_whole = true;
    for (number, segments) in segmentations.into_iter().enumerate() {
        for (client, proxy) in proxies {
            *reply.lock().unwrap() = (segments.clone(), kind);
            let (sent, is_complete) = received(client, proxy, api.into()).await;
            let is_same = match is_complete {
                true => sent == body,
                // A body that ends within a call is broken off.
                false => body.starts_with(&sent),
            };
            assert!(is_same, "{name} in segmentation {number}");
            passes_whole &= is_complete;
        }
    }
    passes_whole
}

#[tokio::test]
async fn recorded_replies_pass_byte_for_byte_in_both_versions_of_http() {
    let Some(folder) = skip::corpus() else {
        return;
    };
    let (upstream, reply) = replaying().await;
    let mut proxies = Vec::new();
    for http in [Http::One, Http::Two] {
        let pack = aborting("a text that no recording has");
        let proxy = start(config(upstream.address, http), pack).await;
        proxies.push((client(http), proxy));
    }
    let mut random = Random::new(29);
    let (mut recorded, mut broken_off) = (0, 0);
    for path in wire_files(&folder) {
        for (number, body) in bodies(&path).into_iter().enumerate() {
            let Some(api) = api_of(&body) else { continue };
            let name = format!("{}@{number}", path.display());
            recorded += 1;
            let is_complete = passes(&reply, &proxies, &mut random, api, &body, &name).await;
            broken_off += u64::from(!is_complete);
        }
    }
    let mut encoded = 0;
    for (name, pieces) in recorded_replies(&folder, 20) {
        let api = random.pick(&[
            ModelApi::AnthropicMessages,
            ModelApi::OpenAiChat,
            ModelApi::OpenAiResponses,
        ]);
        let body = stream_of(api, &pieces).into_bytes();
        encoded += 1;
        let is_complete = passes(&reply, &proxies, &mut random, api, &body, &name).await;
        assert!(is_complete, "{api:?} {name}");
    }
    println!("{recorded} recorded bodies, {broken_off} broken off; {encoded} streams");
    assert!(recorded > 40 && broken_off * 20 < recorded, "{broken_off}");
}

/// Sends the first events of a reply, then closes the client's connection. Returns the time until the request to the server
/// is closed, and the bytes that the client has received.
async fn go_away(
    proxy: &RunningProxy,
    heard: &mut tokio::sync::mpsc::UnboundedReceiver<super::ScriptedFrames>,
    front: Http,
    api: StreamedApi,
    sent: &[String],
) -> (Duration, Vec<u8>) {
    let received = Arc::<Mutex<Vec<u8>>>::default();
    let bytes = Arc::clone(&received);
    let client = client(front);
    let request = Request::post(proxy.url(path_of(api))).body(Full::<Bytes>::from(BODY));
    let answer = client.request(request.unwrap());
    let reading = tokio::spawn(async move {
        let mut response = answer.await.unwrap();
        while let Some(Ok(frame)) = response.frame().await {
            bytes.lock().unwrap().extend(frame.into_data().unwrap());
        }
        // The body has not ended: the server is silent.
        std::future::pending::<()>().await;
    });
    let frames = within(heard.recv()).await.unwrap();
    for event in sent {
        let event = Bytes::copy_from_slice(event.as_bytes());
        within(frames.send(Ok(event))).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!frames.is_closed());
    reading.abort();
    drop(client);
    let gone = Instant::now();
    within(frames.closed()).await;
    let received = received.lock().unwrap().clone();
    (gone.elapsed(), received)
}

#[tokio::test]
async fn a_client_that_goes_away_at_any_event_cancels_the_server_within_50_ms() {
    let pieces = [
        Piece::Reasoning(&["Hm", "m"]),
        Piece::Text(&["It is key-0", "1", " not."]),
        Piece::Tool("t", &["{\"a\": ", "1}"]),
    ];
    let texts = [Piece::Text(&["It is key-0", "1", " not."])];
    let mut times = Vec::new();
    for (front, back) in VERSIONS {
        for api in every_stream() {
            let (upstream, mut heard) = open_server(type_of(api)).await;
            let proxy = start(config(upstream.address, back), acting(Action::Redact)).await;
            let all = events(api, if api.has_parts() { &pieces } else { &texts });
            for count in 0..all.len() {
                let sent = &all[..count];
                let (time, received) = go_away(&proxy, &mut heard, front, api, sent).await;
                times.push(time);
                let has_end = legal::check_prefix(api, &complete_events(api, &received));
                assert!(!has_end, "{api:?} after {count} events");
            }
        }
    }
    times.sort_unstable();
    let [median, longest] = [times[times.len() / 2], times[times.len() - 1]];
    println!(
        "{median:?} in the median of {}, at most {longest:?}",
        times.len()
    );
    // Other work of the machine may delay one of them, but not half.
    assert!(median < Duration::from_millis(50), "{median:?}");
}
