//! Connections to servers that the body of a response polls.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes};
use hyper::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use ttsr::{Action, Channel, Mode, Pattern};
use ttsr_testing::Random;

use super::{
    BODY, Http, ScriptedBody, client, collected, config, get, no_rules, server, start, within,
};
use crate::UpstreamUrl;
use crate::account::RequestAccount;
use crate::body::{FlushedBody, JudgedBody, ResponseBody, ServerBody, whole_body};
use crate::buffer_budget::BufferBudget;
use crate::conversations::{ReplySession, RequestRules, judge_alone};
use crate::driver::{PIECE, UpstreamBody};
use crate::judge::tests::{pack_of_rules, rule_of};
use crate::judge::{BodyFrames, JudgeSettings, ReplyJudge};
use crate::metrics::ProxyMetrics;
use crate::request::{ModelRequest, PartHash, SessionMemory};
use crate::request_count::RequestCount;
use crate::routes::ModelApi;
use crate::upstream::UpstreamClients;
use crate::{ProxyConfig, ProxyLimits};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

fn clients() -> UpstreamClients {
    UpstreamClients::new(&ProxyConfig::default()).unwrap()
}

async fn ask(clients: &UpstreamClients, to: SocketAddr) -> UpstreamBody {
    let url = UpstreamUrl::parse(&format!("http://{to}")).unwrap();
    let request = Request::post(format!("http://{to}/"));
    let request = request.body(whole_body(Bytes::from_static(b"{}"))).unwrap();
    within(clients.send(&url, request))
        .await
        .unwrap()
        .into_body()
}

/// Reads a request whose body is `{}`.
async fn read_request(socket: &mut TcpStream) {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n{}") {
        assert!(within(socket.read_buf(&mut read)).await.unwrap() > 0);
    }
}

/// Sends a request and answers it with these bytes. Returns the body, and the server's end of the connection.
async fn exchange(
    clients: &UpstreamClients,
    listener: &TcpListener,
    answer: &str,
) -> (UpstreamBody, TcpStream) {
    let to = listener.local_addr().unwrap();
    let answered = async {
        let (mut socket, _) = within(listener.accept()).await.unwrap();
        read_request(&mut socket).await;
        socket.write_all(answer.as_bytes()).await.unwrap();
        socket
    };
    tokio::join!(ask(clients, to), answered)
}

/// Polls the body once, with a waker that does nothing.
fn poll_once(body: &mut UpstreamBody) -> Poll<Option<Bytes>> {
    let mut context = Context::from_waker(Waker::noop());
    let polled = Pin::new(body).poll_frame(&mut context);
    polled.map(|frame| frame.map(|frame| frame.unwrap().into_data().unwrap()))
}

async fn next_data(body: &mut UpstreamBody) -> Bytes {
    let frame = within(body.frame()).await.unwrap().unwrap();
    frame.into_data().unwrap()
}

#[tokio::test]
async fn frames_that_arrived_together_are_returned_without_a_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let clients = clients();
    let (mut body, mut socket) = exchange(&clients, &listener, CHUNKED).await;
    assert_eq!(poll_once(&mut body), Poll::Pending);
    for round in 0..3 {
        let chunks: String = (0..40)
            .map(|number| format!("4\r\n{round}-{number:02}\r\n"))
            .collect();
        socket.write_all(chunks.as_bytes()).await.unwrap();
        let mut texts = vec![next_data(&mut body).await];
        while let Poll::Ready(text) = poll_once(&mut body) {
            texts.push(text.unwrap());
        }
        let expected: Vec<_> = (0..40)
            .map(|number| Bytes::from(format!("{round}-{number:02}")))
            .collect();
        assert_eq!(texts, expected);
    }
}

/// What is not read waits in the kernel, so a proxy that has fallen behind needs no larger buffers.
#[tokio::test]
async fn a_body_is_read_in_pieces_to_its_end_and_not_the_next_one() {
    const TEXT: [u8; 6000] = [b'a'; 6000];
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 6000\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let clients = clients();
    let (mut body, mut socket) = exchange(&clients, &listener, head).await;
    for in_pieces in [true, false] {
        if in_pieces {
            body.read_in_pieces();
        }
        assert_eq!(poll_once(&mut body), Poll::Pending);
        socket.write_all(&TEXT).await.unwrap();
        let mut longest = 0;
        let mut len = 0;
        while len < TEXT.len() {
            let data = next_data(&mut body).await;
            longest = longest.max(data.len());
            len += data.len();
        }
        assert_eq!(longest <= PIECE, in_pieces, "{longest}");
        if in_pieces {
            // The second response comes over the same connection.
            let answered = async {
                read_request(&mut socket).await;
                socket.write_all(head.as_bytes()).await.unwrap();
            };
            (body, ()) = tokio::join!(ask(&clients, to), answered);
        }
    }
}

/// Returns the body of a reply of Chat Completions under a rule that retries, and the body of the second attempt.
fn judged(incoming: UpstreamBody, second: UpstreamBody) -> FlushedBody {
    let limits = ProxyLimits::default();
    let (totals, requests) = (Arc::default(), Arc::new(RequestCount::new(1)));
    let budget = BufferBudget::new(1 << 20);
    let account = RequestAccount {
        metrics: Arc::new(ProxyMetrics::new(&totals, &requests, &budget)),
        totals,
        log: None,
        number: 1,
        began: Instant::now(),
    };
    let api = ModelApi::OpenAiChat;
    let config = ProxyConfig::default();
    let mut settings = JudgeSettings::new(&config);
    settings.can_retry = true;
    let pattern = Pattern::literal("forbidden");
    let rule = rule_of("t/retry", pattern, &[Channel::Text], Action::Retry);
    let rules = RequestRules::new(pack_of_rules([rule]), Mode::Live).unwrap();
    let request = ModelRequest::read(api, BODY.into()).unwrap();
    let judged = judge_alone(&Arc::new(request), &rules, SessionMemory::default());
    let judged = judged.unwrap_or_else(|refused| panic!("{}", refused.reason));
    let session = ReplySession::new(&config.sessions, PartHash::default(), None, &judged);
    let frames = BodyFrames::events();
    let judge = ReplyJudge::in_conversation(api, frames, judged.conversation, settings).unwrap();
    let idle_time = limits.idle_time;
    let server = ServerBody::new(incoming, idle_time, None);
    let body = JudgedBody::new(server, judge, api, account, &limits, &budget);
    let mut second = Some(ServerBody::new(second, idle_time, None));
    let body = body.in_session(
        session,
        Box::new(move |_, _| {
            let second = second.take().unwrap();
            Box::pin(async { Ok(second) })
        }),
    );
    FlushedBody::new(ResponseBody::Judged(Box::new(body)))
}

#[tokio::test]
async fn an_event_stream_is_read_and_written_in_pieces() {
    let event = |word: &str| {
        let choice = format!("{{\"index\":0,\"delta\":{{\"content\":\"{word} \"}}}}");
        format!("data: {{\"id\":\"c\",\"choices\":[{choice}]}}\n\n")
    };
    // In one chunk, which a connection that is not read in pieces returns in one frame.
    let text = event("word").repeat(100);
    for is_second in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let clients = clients();
        let (first, mut first_socket) = exchange(&clients, &listener, CHUNKED).await;
        let (second, mut second_socket) = exchange(&clients, &listener, CHUNKED).await;
        let mut body = judged(first, second);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut body).poll_frame(&mut context).is_pending());
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        if is_second {
            let cut = chunk(&event("forbidden"));
            first_socket.write_all(cut.as_bytes()).await.unwrap();
            // The body closes the first connection and reads from the second one.
            while !matches!(first_socket.try_read(&mut [0; 1]), Ok(0)) {
                assert!(Pin::new(&mut body).poll_frame(&mut context).is_pending());
                within(tokio::time::sleep(Duration::from_millis(1))).await;
            }
        }
        let socket = match is_second {
            true => &mut second_socket,
            false => &mut first_socket,
        };
        socket.write_all(chunk(&text).as_bytes()).await.unwrap();
        let (mut read, mut unwritten, mut most) = (Vec::new(), 0, 0);
        while read.len() < text.len() {
            match Pin::new(&mut body).poll_frame(&mut context) {
                Poll::Pending => {
                    unwritten = 0;
                    within(tokio::time::sleep(Duration::from_millis(1))).await;
                }
                Poll::Ready(frame) => {
                    let data = frame.unwrap().unwrap().into_data().unwrap();
                    unwritten += data.len();
                    most = most.max(unwritten);
                    read.extend_from_slice(&data);
                }
            }
        }
        assert_eq!(String::from_utf8(read).unwrap(), text);
        // The last piece before the limit, one that exceeds it, and the beginning of an event that was not complete.
        let limit = 2 * PIECE + event("word").len();
        assert!(
            (PIECE..limit).contains(&most),
            "{most} bytes at once, {is_second}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_not_polled_to_its_end_does_not_hold_the_connection() {
    for (head, rest, end) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", "abc", None),
        (CHUNKED, "3\r\nabc\r\n0\r\n\r\n", Some(None)),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n",
            "3\r\nabc\r\n0\r\nx: y\r\n\r\n",
            Some(Some("y")),
        ),
    ] {
        for waits in [true, false] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            let clients = clients();
            let answer = if waits {
                head
            } else {
                &format!("{head}{rest}")
            };
            let (mut body, mut socket) = exchange(&clients, &listener, answer).await;
            if waits {
                assert_eq!(poll_once(&mut body), Poll::Pending);
                socket.write_all(rest.as_bytes()).await.unwrap();
            }
            assert_eq!(next_data(&mut body).await, "abc");
            if let Some(end) = end {
                let last = within(body.frame()).await.map(|frame| frame.unwrap());
                let trailers = last.map(|frame| frame.into_trailers().unwrap());
                let value = trailers.map(|trailers| trailers["x"].clone());
                assert_eq!(value.as_ref().map(|value| value.to_str().unwrap()), end);
            }
            // The task of the connection has time to return it to the pool.
            for _ in 0..50 {
                yield_now().await;
            }
            // The server answers a second request on this connection, and accepts no other one.
            let answered = async {
                read_request(&mut socket).await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                socket.write_all(answer).await.unwrap();
            };
            let (mut second, ()) = tokio::join!(ask(&clients, to), answered);
            assert_eq!(next_data(&mut second).await, "ok");
            drop(body);
        }
    }
}

#[tokio::test]
async fn a_body_that_is_dropped_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for is_polled in [false, true] {
        let clients = clients();
        let (mut body, mut socket) = exchange(&clients, &listener, CHUNKED).await;
        socket.write_all(b"3\r\nabc\r\n").await.unwrap();
        if is_polled {
            assert_eq!(next_data(&mut body).await, "abc");
            assert_eq!(poll_once(&mut body), Poll::Pending);
        }
        drop(body);
        assert_eq!(within(socket.read(&mut [0; 1])).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_body_ends_with_an_error_if_the_server_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let clients = clients();
    let (mut body, mut socket) = exchange(&clients, &listener, CHUNKED).await;
    assert_eq!(poll_once(&mut body), Poll::Pending);
    socket.write_all(b"3\r\nabc\r\n").await.unwrap();
    drop(socket);
    assert_eq!(next_data(&mut body).await, "abc");
    assert!(within(body.frame()).await.unwrap().is_err());
}

/// A server closes connections that are idle when it likes to.
#[tokio::test]
async fn a_connection_that_the_server_has_closed_while_idle_is_not_used() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for is_reset in [false, true] {
        // The task of the connection has this many turns to find out that it is idle, and later that it is closed. The runtime
        // learns that in one turn.
        for turns in [[50, 1], [50, 50], [0, 1], [0, 50]] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            let clients = clients();
            let (mut body, socket) = exchange(&clients, &listener, ANSWER).await;
            assert_eq!(next_data(&mut body).await, "ok");
            drop(body);
            for _ in 0..turns[0] {
                yield_now().await;
            }
            if is_reset {
                socket.set_zero_linger().unwrap();
            }
            drop(socket);
            for _ in 0..turns[1] {
                yield_now().await;
            }
            let answered = async {
                let (mut socket, _) = within(listener.accept()).await.unwrap();
                read_request(&mut socket).await;
                socket.write_all(ANSWER.as_bytes()).await.unwrap();
                socket
            };
            let (mut second, _socket) = tokio::join!(ask(&clients, to), answered);
            assert_eq!(next_data(&mut second).await, "ok", "{is_reset} {turns:?}");
        }
    }
}

/// The model may have read it. A proxy must not send it again (RFC 9110, section 9.2.2); clients do after a 502.
#[tokio::test]
async fn a_request_that_the_server_has_read_is_not_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = start(
        config(listener.local_addr().unwrap(), Http::One),
        no_rules(),
    )
    .await;
    let client = client(Http::One);
    let send = || {
        let request = Request::post(proxy.url("/local/v1/files")).body("{}".into());
        client.request(request.unwrap())
    };
    let served = async {
        let (mut socket, _) = within(listener.accept()).await.unwrap();
        read_request(&mut socket).await;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        socket.write_all(answer).await.unwrap();
        // The second request comes over the same connection.
        read_request(&mut socket).await;
    };
    let asked = async {
        let first = within(send()).await.unwrap();
        assert_eq!(collected(first).await, "ok");
        within(send()).await.unwrap()
    };
    let (second, ()) = tokio::join!(asked, served);
    assert_eq!(second.status(), StatusCode::BAD_GATEWAY);
    let another = tokio::time::timeout(Duration::from_millis(50), listener.accept());
    assert!(another.await.is_err());
}

#[tokio::test]
async fn what_arrives_before_the_connection_breaks_is_sent_to_the_client() {
    for front in [Http::One, Http::Two] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                socket.read_buf(&mut head).await.unwrap();
            }
            let answer = format!("{CHUNKED}3\r\nabc\r\n3\r\ndef\r\n3\r\ngh");
            socket.write_all(answer.as_bytes()).await.unwrap();
        });
        let proxy = start(config(to, Http::One), no_rules()).await;
        let request = get(&proxy.url("/local/v1/files"));
        let response = within(client(front).request(request)).await.unwrap();
        let mut body = response.into_body();
        let mut received = Vec::new();
        let error = loop {
            match within(body.frame()).await {
                Some(Ok(frame)) => received.extend(frame.into_data().unwrap()),
                ended => break ended,
            }
        };
        assert!(matches!(error, Some(Err(_))), "{front:?}");
        assert_eq!(
            String::from_utf8(received).unwrap(),
            "abcdefgh",
            "{front:?}"
        );
    }
}

/// Many bodies at once in several threads: no wake is lost, and no byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bodies_in_many_threads_are_complete() {
    let server = server(|request| async move {
        let mut random = Random::new(request.body().len() as u64);
        let frames = (0..random.below(60)).map(|_| Bytes::from(vec![b'x'; 1 + random.below(300)]));
        Response::new(ScriptedBody::of(frames.collect()))
    })
    .await;
    let clients = Arc::new(clients());
    let url = UpstreamUrl::parse(&format!("http://{}", server.address)).unwrap();
    let tasks = (0..40_u64).map(|task| {
        let (clients, url) = (Arc::clone(&clients), url.clone());
        tokio::spawn(async move {
            for number in 0..25 {
                let seed = task * 25 + number;
                let request = Request::post(format!("http://{}/", server.address));
                let body = whole_body(Bytes::from(vec![b' '; seed as usize]));
                let sent = clients.send(&url, request.body(body).unwrap());
                let response = within(sent).await.unwrap();
                let received = within(response.into_body().collect()).await.unwrap();
                let mut random = Random::new(seed);
                let expected = (0..random.below(60))
                    .map(|_| 1 + random.below(300))
                    .sum::<usize>();
                assert_eq!(received.to_bytes().len(), expected);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}
