//! Random schedules over loopback: replies with planted violations, some of which are taken again, servers that break off,
//! stall or send damage, in each attempt, packs that are replaced, and clients that go away. Whatever happens, the client
//! receives at most one end, in the order of the API, and no byte of a text that a rule held or redacted; and nothing of a
//! request remains.

use std::ops::Range;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use tokio::sync::{mpsc, oneshot};
use ttsr::{Action, Channel, Pack, Pattern};
use ttsr_testing::{Random, in_parts, scale};

use super::{
    BODY, Http, PATIENCE, RunningProxy, ScriptedBody, ScriptedFrames, ScriptedServer, client,
    config, no_rules, server, start, within,
};
use crate::judge::StreamFraming;
use crate::judge::tests::replies::{OwnedPiece, random_deltas, stream_of};
use crate::judge::tests::{
    StreamedApi, complete_events, every_stream, legal, pack_of_rules, rule_of,
};
use crate::routes::ModelApi;

/// The path of the API.
pub(super) fn path_of(api: impl Into<StreamedApi>) -> &'static str {
    let streamed = api.into();
    match streamed.api {
        ModelApi::Gemini if streamed.is_array() => "/local/v1beta/models/m:streamGenerateContent",
        ModelApi::AnthropicMessages => "/local/v1/messages",
        ModelApi::OpenAiChat => "/local/v1/chat/completions",
        ModelApi::OpenAiResponses => "/local/v1/responses",
        ModelApi::OpenAiCompletions => "/local/v1/completions",
        ModelApi::Gemini => "/local/v1beta/models/m:streamGenerateContent?alt=sse",
        ModelApi::CodeAssist => "/local/v1internal:streamGenerateContent?alt=sse",
        ModelApi::OllamaChat => "/local/api/chat",
        ModelApi::OllamaGenerate => "/local/api/generate",
        ModelApi::Unjudged => "/local/v1/complete",
    }
}

/// The type of a streamed reply of the API.
pub(super) fn type_of(api: impl Into<StreamedApi>) -> &'static str {
    match api.into().framing {
        StreamFraming::Lines => "application/x-ndjson",
        StreamFraming::Events => "text/event-stream",
        StreamFraming::Array => "application/json; charset=UTF-8",
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
/// A text that makes a rule send the request again, whatever the server answers then.
const AGAIN: &str = "once-more";

fn pack() -> Pack {
    let rule = |id, pattern, action| rule_of(id, pattern, &Channel::STREAMED, action);
    let secret = rule("t/secret", Pattern::regex("key-[0-9]{10}"), Action::Redact);
    let mut held = rule("t/held", Pattern::literal(HELD), Action::Abort);
    held.hold = true;
    held.message = Some("Not this.".into());
    let mut again = rule("t/again", Pattern::literal(AGAIN), Action::Retry);
    again.hold = true;
    again.retry.then = Some(Action::Abort);
    again.message = Some("Otherwise.".into());
    pack_of_rules([secret, held, again])
}

/// Fails if the bytes have a piece of the secret, or the first half of the held word.
fn assert_no_leak(sent: &str, what: &str) {
    for start in 0..SECRET.len() - 4 {
        // Prefixes of four bytes and digits may be those of a text that is no match.
        let piece = &SECRET[start..start + 5];
        assert!(!sent.contains(piece), "{what} leaks {piece}: {sent}");
    }
    assert!(!sent.contains("forbi"), "{what}: {sent}");
    assert!(!sent.contains("once-"), "{what}: {sent}");
}

fn texts(random: &mut Random, is_input: bool) -> Vec<String> {
    const WORDS: [&str; 8] = ["Well, ", "é", "so ", "😀", "no key ", ". ", "and ", "\n"];
    let words = (0..2 + random.below(5)).map(|_| random.pick(&WORDS).to_string());
    let mut text: Vec<String> = words.collect();
    let planted = match random.below(3) {
        0 => SECRET,
        1 if random.one_in(3) => HELD,
        1 if random.one_in(2) => AGAIN,
        _ => "",
    };
    text.insert(1, planted.to_owned());
    let mut text = text.concat();
    if is_input {
        text = serde_json::json!({ "command": text }).to_string();
    }
    random_deltas(random, &text)
}

fn reply(random: &mut Random, api: StreamedApi) -> String {
    let kinds = if api.has_parts() { 3 } else { 1 };
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
    /// 0 if the stream broke before the head.
    status: u16,
    bytes: Vec<u8>,
    /// True if the body ended as complete.
    is_complete: bool,
}

/// Reads at most `frames` frames of the reply, then goes away.
async fn receive(
    proxy: &RunningProxy,
    http: Http,
    api: StreamedApi,
    number: usize,
    frames: usize,
) -> Received {
    let request = Request::post(proxy.url(path_of(api))).header("x-schedule", number);
    let request = request.body(Full::<Bytes>::from(BODY));
    let client = client(http);
    let answered = within(client.request(request.unwrap())).await;
    let mut received = Received {
        status: answered.as_ref().map_or(0, |it| it.status().as_u16()),
        bytes: Vec::new(),
        is_complete: false,
    };
    let Ok(mut response) = answered else {
        return received;
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

#[test]
fn whatever_happens_one_legal_end_no_leak_and_nothing_left() {
    // The schedules wait for each other's timers and sockets if they share a thread.
    let ended = in_parts(scale(10_000), |schedules| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(run_schedules(schedules))
    });
    let sum = |count: fn(&(u64, u64, u64)) -> u64| -> u64 { ended.iter().map(count).sum() };
    let (endings, broken, again) = (sum(|it| it.0), sum(|it| it.1), sum(|it| it.2));
    println!("{endings} replies with an end, {broken} broken off, {again} taken again");
    assert!(endings > 10 && broken > 10 && again > 10);
}

/// A reply of the server: its pieces, and what follows them.
#[derive(Debug)]
struct ServedReply {
    pieces: Vec<Bytes>,
    end: ServerEnd,
}

impl ServedReply {
    fn random(random: &mut Random, api: StreamedApi, end: ServerEnd) -> ServedReply {
        let body = reply(random, api);
        let sent_len = match end {
            ServerEnd::Complete | ServerEnd::Gzip => body.len(),
            _ => random.below(body.len() + 1),
        };
        let longest = 1 + random.below(300);
        let pieces = random.pieces(&body.as_bytes()[..sent_len], longest);
        ServedReply {
            pieces: pieces.into_iter().map(Bytes::copy_from_slice).collect(),
            end,
        }
    }
}

/// The most attempts at a reply that a pack makes.
const ATTEMPTS: usize = 4;

/// A request that the server received: the number of its schedule, and the frames of its response. The head of the
/// response is sent once its fields are known.
struct ServedRequest {
    number: usize,
    head: oneshot::Sender<(StreamedApi, bool)>,
    frames: ScriptedFrames,
}

/// Starts a server that tells of each request.
async fn telling_server() -> (ScriptedServer, mpsc::UnboundedReceiver<ServedRequest>) {
    let (told, heard) = mpsc::unbounded_channel();
    let upstream = server(move |request: Request<Bytes>| {
        let number = request.headers()["x-schedule"].to_str().unwrap();
        let (head, known) = oneshot::channel();
        let (frames, body) = ScriptedBody::new();
        told.send(ServedRequest {
            number: number.parse().unwrap(),
            head,
            frames,
        })
        .unwrap();
        async move {
            let mut response = Response::new(body);
            // A request that nobody answers is one of a client that has gone.
            if let Ok((api, is_gzip)) = known.await {
                let headers = response.headers_mut();
                headers.insert("content-type", type_of(api).parse().unwrap());
                if is_gzip {
                    headers.insert("content-encoding", "gzip".parse().unwrap());
                }
            }
            response
        }
    });
    (upstream.await, heard)
}

/// Answers the requests of a schedule until the client is `done` and the last one is closed. Returns the number of them.
async fn serve_attempts(
    heard: &mut mpsc::UnboundedReceiver<ServedRequest>,
    (number, api): (usize, StreamedApi),
    attempts: &[ServedReply],
    mut done: oneshot::Receiver<()>,
    began: impl Fn(),
) -> usize {
    let mut count = 0;
    loop {
        let next = tokio::select! {
            biased;
            next = heard.recv() => next.unwrap(),
            _ = &mut done, if count > 0 => return count,
            () = tokio::time::sleep(PATIENCE), if count == 0 => panic!("case {number}, {api:?}: no request is sent"),
        };
        if next.number != number {
            continue;
        }
        let attempt = attempts.get(count);
        let attempt =
            attempt.unwrap_or_else(|| panic!("case {number}, {api:?}: too many attempts"));
        count += 1;
        let is_gzip = attempt.end == ServerEnd::Gzip;
        if next.head.send((api, is_gzip)).is_err() {
            continue;
        }
        began();
        let served = serve(next.frames, attempt.pieces.clone(), attempt.end);
        let served = tokio::time::timeout(PATIENCE, served).await;
        assert!(
            served.is_ok(),
            "case {number}, {api:?}: the request stays open: {attempt:?}"
        );
    }
}

/// Runs a schedule for each number. Returns the number of replies with an end, of those that were broken off, and of
/// attempts after the first. A task of this runtime owns each socket, so that no task is left means that no socket is.
async fn run_schedules(schedules: Range<usize>) -> (u64, u64, u64) {
    let mut random = Random::new(31 + schedules.start as u64);
    let (upstream, mut heard) = telling_server().await;
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
    let apis: Vec<StreamedApi> = every_stream().collect();
    let (mut endings, mut broken, mut again) = (0, 0, 0);
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
        let mut attempts = vec![ServedReply::random(&mut random, api, end)];
        for _ in 1..ATTEMPTS {
            let end = match random.one_in(3) {
                true => random.pick(&[ServerEnd::Truncated, ServerEnd::Reset, ServerEnd::Garbage]),
                false => ServerEnd::Complete,
            };
            attempts.push(ServedReply::random(&mut random, api, end));
        }
        let frames = match random.one_in(4) {
            true => random.below(6),
            false => usize::MAX,
        };
        // The reply, with all of its attempts, ends with the pack of its request.
        let is_replaced = random.one_in(8);
        let began = || {
            if is_replaced {
                proxy.pack.replace(no_rules()).unwrap();
            }
        };
        let (is_done, done) = oneshot::channel();
        let receiving = async {
            let received = receive(proxy, *http, api, number, frames).await;
            is_done.send(()).ok();
            received
        };
        let serving = serve_attempts(&mut heard, (number, api), &attempts, done, began);
        let (received, count) = tokio::join!(receiving, serving);
        if is_replaced {
            proxy.pack.replace(pack()).unwrap();
        }
        let served = &attempts[..count];
        again += count as u64 - 1;
        let what = format!("case {number}, {api:?}, {http:?}: {served:?}");
        assert_no_leak(&String::from_utf8_lossy(&received.bytes), &what);
        if end == ServerEnd::Gzip {
            assert_eq!(received.status, 502, "{what}");
            continue;
        }
        let is_complete = served.iter().all(|it| it.end == ServerEnd::Complete);
        // A connection that breaks before the first byte of the body may break before the head.
        let is_headless = end == ServerEnd::Reset && attempts[0].pieces.is_empty();
        if received.status == 0 && !is_complete || received.status == 502 && is_headless {
            continue;
        }
        assert_eq!(received.status, 200, "{what}");
        let text = complete_events(api, &received.bytes);
        let has_end = legal::check_prefix(api, &text);
        let is_cut_short = frames != usize::MAX || !received.is_complete;
        assert!(has_end || is_cut_short || !is_complete, "{what}: {text}");
        endings += u64::from(has_end);
        broken += u64::from(is_cut_short);
    }
    for (_, proxy) in proxies {
        proxy.stop.send(()).unwrap();
        within(proxy.ended).await.unwrap();
    }
    drop(heard);
    let began = std::time::Instant::now();
    while alive() > before {
        let left = alive() - before;
        assert!(began.elapsed() < PATIENCE, "{left} tasks are left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (endings, broken, again)
}
