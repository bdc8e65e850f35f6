//! Random schedules over loopback: replies with planted violations, servers that break off, stall or send damage, and
//! clients that go away. Whatever happens, the client receives at most one end, in the order of the API, and no byte of a
//! text that a rule held or redacted; and nothing of a request remains.

use std::ops::Range;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use tokio::sync::mpsc;
use ttsr::{Action, Channel, Pack, Pattern};
use ttsr_testing::{Random, in_parts, scale};

use super::{
    BODY, Http, PATIENCE, RunningProxy, ScriptedBody, ScriptedFrames, client, config, server,
    start, within,
};
use crate::judge::tests::replies::{OwnedPiece, random_deltas, stream_of};
use crate::judge::tests::{APIS, every_api, frames_of, legal, pack_of_rules, rule_of};
use crate::routes::ModelApi;

/// The path of the API.
pub(super) fn path_of(api: ModelApi) -> &'static str {
    match api {
        ModelApi::AnthropicMessages => "/local/v1/messages",
        ModelApi::OpenAiChat => "/local/v1/chat/completions",
        ModelApi::OpenAiResponses => "/local/v1/responses",
        ModelApi::OpenAiCompletions => "/local/v1/completions",
        ModelApi::Gemini => "/local/v1beta/models/m:streamGenerateContent?alt=sse",
        ModelApi::OllamaChat => "/local/api/chat",
        ModelApi::OllamaGenerate => "/local/api/generate",
        ModelApi::Unjudged => "/local/v1/complete",
    }
}

/// The type of a streamed reply of the API.
pub(super) fn type_of(api: ModelApi) -> &'static str {
    match api {
        ModelApi::OllamaChat | ModelApi::OllamaGenerate => "application/x-ndjson",
        _ => "text/event-stream",
    }
}

/// The behaviour of the server after the bytes that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerEnd {
    /// All bytes are sent.
    Complete,
    /// The body ends early.
    Truncated,
    /// The connection breaks.
    Reset,
    /// Nothing follows, and the connection stays open.
    Stalled,
    /// Bytes follow that are no part of the reply.
    Garbage,
    /// The body says that it is compressed.
    Gzip,
}

const ENDS: [ServerEnd; 6] = [
    ServerEnd::Complete,
    ServerEnd::Truncated,
    ServerEnd::Reset,
    ServerEnd::Stalled,
    ServerEnd::Garbage,
    ServerEnd::Gzip,
];

const SECRET: &str = "key-0123456789";
const HELD: &str = "forbidden";

fn pack() -> Pack {
    let rule = |id, pattern, action| rule_of(id, pattern, &Channel::STREAMED, action);
    let secret = rule("t/secret", Pattern::regex("key-[0-9]{10}"), Action::Redact);
    let mut held = rule("t/held", Pattern::literal(HELD), Action::Abort);
    held.hold = true;
    held.message = Some("Not this.".into());
    pack_of_rules([secret, held])
}

/// Fails if the bytes have a piece of the secret, or the first half of the held word.
fn assert_no_leak(sent: &str, what: &str) {
    for start in 0..SECRET.len() - 4 {
        // Prefixes of four bytes and digits may be those of a text that is no match.
        let piece = &SECRET[start..start + 5];
        assert!(!sent.contains(piece), "{what} leaks {piece}: {sent}");
    }
    assert!(!sent.contains("forbi"), "{what}: {sent}");
}

fn texts(random: &mut Random, is_input: bool) -> Vec<String> {
    const WORDS: [&str; 8] = ["Well, ", "é", "so ", "😀", "no key ", ". ", "and ", "\n"];
    let words = (0..2 + random.below(5)).map(|_| random.pick(&WORDS).to_string());
    let mut text: Vec<String> = words.collect();
    let planted = match random.below(3) {
        0 => SECRET,
        1 if random.one_in(3) => HELD,
        _ => "",
    };
    text.insert(1, planted.to_owned());
    let mut text = text.concat();
    if is_input {
        text = serde_json::json!({ "command": text }).to_string();
    }
    random_deltas(random, &text)
}

fn reply(random: &mut Random, api: ModelApi) -> String {
    let kinds = if APIS.contains(&api) { 3 } else { 1 };
    let pieces: Vec<OwnedPiece> = (0..1 + random.below(3))
        .map(|_| match random.below(kinds) {
            0 => OwnedPiece::Text(texts(random, false)),
            1 => OwnedPiece::Reasoning(texts(random, false)),
            _ => OwnedPiece::Tool("bash".into(), texts(random, true)),
        })
        .collect();
    stream_of(api, &pieces)
}

/// The bytes that a client received, and how its connection ended.
#[derive(Debug)]
struct Received {
    status: u16,
    bytes: Vec<u8>,
    /// True if the body ended as complete.
    is_complete: bool,
}

/// Reads at most `frames` frames of the reply, then goes away.
async fn receive(
    proxy: &RunningProxy,
    http: Http,
    api: ModelApi,
    is_gzip: bool,
    frames: usize,
) -> Received {
    let mut request = Request::post(proxy.url(path_of(api))).header("x-type", type_of(api));
    if is_gzip {
        request = request.header("x-gzip", "1");
    }
    let request = request.body(Full::<Bytes>::from(BODY));
    let client = client(http);
    let mut response = within(client.request(request.unwrap())).await.unwrap();
    let mut received = Received {
        status: response.status().as_u16(),
        bytes: Vec::new(),
        is_complete: false,
    };
    for _ in 0..frames {
        match within(response.frame()).await {
            Some(Ok(frame)) => received.bytes.extend(frame.into_data().unwrap()),
            Some(Err(_)) => return received,
            None => {
                received.is_complete = true;
                return received;
            }
        }
    }
    received
}

/// Sends the pieces, then ends as told. Returns once the proxy has closed the request.
async fn serve(frames: ScriptedFrames, pieces: Vec<Bytes>, end: ServerEnd) {
    for piece in pieces {
        if frames.send(Ok(piece)).await.is_err() {
            return;
        }
    }
    match end {
        ServerEnd::Complete | ServerEnd::Truncated | ServerEnd::Gzip => {}
        ServerEnd::Reset => {
            let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            frames.send(Err(reset)).await.ok();
        }
        ServerEnd::Garbage => {
            let garbage = Bytes::from_static(b"\x00\xFFdata: {\"nonsense\n\n<html>\n\n");
            frames.send(Ok(garbage)).await.ok();
        }
        ServerEnd::Stalled => frames.closed().await,
    }
}

/// The complete events of the bytes: those of a client that went away can end anywhere.
pub(super) fn complete_events(api: ModelApi, bytes: &[u8]) -> String {
    let mut complete = Vec::new();
    frames_of(api).push(bytes, &mut |frame| complete.extend(frame));
    String::from_utf8(complete).unwrap_or_default()
}

#[test]
fn whatever_happens_one_legal_end_no_leak_and_nothing_left() {
    // The schedules wait for each other's timers and sockets if they share a thread.
    let ended = in_parts(scale(10_000), |schedules| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(run_schedules(schedules))
    });
    let endings: u64 = ended.iter().map(|(endings, _)| endings).sum();
    let broken: u64 = ended.iter().map(|(_, broken)| broken).sum();
    assert!(
        endings > 10 && broken > 10,
        "{endings} ends, {broken} broken off"
    );
    println!("{endings} replies with an end, {broken} broken off");
}

/// Runs a schedule for each number. Returns the number of replies with an end, and of those that were broken off. A task of
/// this runtime owns each socket, so that no task is left means that no socket is.
async fn run_schedules(schedules: Range<usize>) -> (u64, u64) {
    let mut random = Random::new(31 + schedules.start as u64);
    let (told, mut heard) = mpsc::unbounded_channel();
    let upstream = server(move |request: Request<Bytes>| {
        let (sender, body) = ScriptedBody::new();
        told.send(sender).unwrap();
        async move {
            let mut response = Response::new(body);
            let is_gzip = request.headers().contains_key("x-gzip");
            let kind = request.headers()["x-type"].clone();
            response.headers_mut().insert("content-type", kind);
            if is_gzip {
                let gzip = "gzip".parse().unwrap();
                response.headers_mut().insert("content-encoding", gzip);
            }
            response
        }
    })
    .await;
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = alive();
    let mut proxies = Vec::new();
    for http in [Http::One, Http::Two] {
        for idle in [20_000, 400] {
            let mut config = config(upstream.address, http);
            config.limits.idle_time = Duration::from_millis(idle);
            proxies.push((http, start(config, pack()).await));
        }
    }
    let apis: Vec<ModelApi> = every_api().collect();
    let (mut endings, mut broken) = (0, 0);
    for number in schedules {
        let api = random.pick(&apis);
        let end = match random.one_in(2) {
            true => ServerEnd::Complete,
            false => random.pick(&ENDS),
        };
        // Each of these takes the whole idle time.
        let is_stalled = end == ServerEnd::Stalled && random.one_in(8);
        let end = match (end, is_stalled) {
            (ServerEnd::Stalled, false) => ServerEnd::Reset,
            (end, _) => end,
        };
        let (http, proxy) = &proxies[2 * random.below(2) + usize::from(is_stalled)];
        let body = reply(&mut random, api);
        let sent_len = match end {
            ServerEnd::Complete | ServerEnd::Gzip => body.len(),
            _ => random.below(body.len() + 1),
        };
        let pieces = random.pieces(&body.as_bytes()[..sent_len], 1 + number % 300);
        let pieces: Vec<Bytes> = pieces.into_iter().map(Bytes::copy_from_slice).collect();
        let frames = match random.one_in(4) {
            true => random.below(6),
            false => usize::MAX,
        };
        let receiving = receive(proxy, *http, api, end == ServerEnd::Gzip, frames);
        let (received, ()) = tokio::join!(receiving, async {
            let sender = tokio::time::timeout(PATIENCE, heard.recv()).await;
            let sender = sender.unwrap_or_else(|_| {
                let totals = proxy.totals.snapshot();
                panic!("case {number}, {api:?}, {end:?}, {http:?}: no request is sent: {totals:?}")
            });
            let sender = sender.unwrap();
            let served = tokio::time::timeout(PATIENCE, serve(sender, pieces, end));
            assert!(
                served.await.is_ok(),
                "case {number}, {api:?}, {end:?}: the request stays open"
            );
        });
        let what = format!("case {number}, {api:?}, {end:?} after {sent_len} bytes of {body}");
        assert_no_leak(&String::from_utf8_lossy(&received.bytes), &what);
        if end == ServerEnd::Gzip {
            assert_eq!(received.status, 502, "{what}");
            continue;
        }
        assert_eq!(received.status, 200, "{what}");
        let text = complete_events(api, &received.bytes);
        let has_end = legal::check_prefix(api, &text);
        let is_cut_short = frames != usize::MAX || !received.is_complete;
        assert!(
            has_end || is_cut_short || end != ServerEnd::Complete,
            "{what}: {text}"
        );
        endings += u64::from(has_end);
        broken += u64::from(is_cut_short);
    }
    for (_, proxy) in proxies {
        proxy.stop.send(()).unwrap();
        within(proxy.ended).await.unwrap();
    }
    let began = std::time::Instant::now();
    while alive() > before {
        let left = alive() - before;
        assert!(began.elapsed() < PATIENCE, "{left} tasks are left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (endings, broken)
}
