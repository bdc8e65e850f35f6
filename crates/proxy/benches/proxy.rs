//! The cost of the proxy for streamed replies, beside a bare pass-through of hyper and, if it is installed, nginx.
//!
//!     cargo bench -p ttsr-proxy --bench proxy                 100 streams
//!     cargo bench -p ttsr-proxy --bench proxy -- 2000         that many
//!
//! A server writes the time at which it sends a delta into the delta, and a client subtracts it from the time at which it
//! receives it. Each row of the table is the same load through another thing between the two; `direct` is nothing. The
//! server and the clients run in one thread, the proxy in another. A difference between two rows is the cost; the times
//! themselves depend on the machine. The last line is the time from the end of a client's connection to the end of the
//! request to the server.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream as BlockingStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use ttsr::Pack;
use ttsr_proxy::{Proxy, ProxyConfig, UpstreamUrl};

/// Deltas of a stream.
const DELTAS: u32 = 50;

/// The time between two deltas of a stream.
const PAUSE: Duration = Duration::from_millis(20);

const WORDS: [&str; 6] = [
    "The ",
    "answer is ",
    "in the file ",
    "src/main.rs",
    ", I think. ",
    "\n",
];

type Body = StreamBody<Channel>;

/// A stream of frames from a channel.
struct Channel(mpsc::Receiver<Bytes>);

impl futures_core::Stream for Channel {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0
            .poll_recv(cx)
            .map(|next| next.map(|data| Ok(Frame::data(data))))
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

fn delta(began: Instant, number: u32) -> Bytes {
    let text = WORDS[number as usize % WORDS.len()];
    let at = began.elapsed().as_nanos();
    let choices =
        serde_json::json!([{"index": 0, "delta": {"content": text}, "finish_reason": null}]);
    let chunk = serde_json::json!({
        "id": "c", "object": "chat.completion.chunk", "created": at as u64, "model": "m", "choices": choices,
    });
    format!("data: {chunk}\n\n").into()
}

const LAST: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Answers each connection of the listener with `answer`.
async fn serve<A, F>(listener: TcpListener, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    while let Ok((socket, _)) = listener.accept().await {
        socket.set_nodelay(true).ok();
        let answer = answer.clone();
        let service = service_fn(move |request| {
            let answered = answer(request);
            async move { Ok::<_, Infallible>(answered.await) }
        });
        tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            builder
                .serve_connection(TokioIo::new(socket), service)
                .await
                .ok();
        });
    }
}

fn streamed(receiver: mpsc::Receiver<Bytes>) -> Response<Body> {
    let mut response = Response::new(StreamBody::new(Channel(receiver)));
    let kind = hyper::header::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert("content-type", kind);
    response
}

/// Starts the server of the model.
async fn model(began: Instant) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(serve(listener, move |_| async move {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            for number in 0..DELTAS {
                if sender.send(delta(began, number)).await.is_err() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
            sender.send(LAST.into()).await.ok();
        });
        streamed(receiver)
    }));
    address
}

/// Runs a bare pass-through of hyper in a thread of its own.
fn pass_through(to: SocketAddr) -> SocketAddr {
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
            told.send(listener.local_addr().expect("an address")).ok();
            let mut connector = HttpConnector::new();
            connector.set_nodelay(true);
            let client: Client<_, Incoming> =
                Client::builder(TokioExecutor::new()).build(connector);
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_nodelay(true).ok();
                let client = client.clone();
                let service = service_fn(move |mut request: Request<Incoming>| {
                    let path = request.uri().path_and_query().expect("a path").clone();
                    *request.uri_mut() = format!("http://{to}{path}").parse().expect("a URL");
                    client.request(request)
                });
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    builder
                        .serve_connection(TokioIo::new(socket), service)
                        .await
                        .ok();
                });
            }
        });
    });
    heard.recv().expect("the address")
}

/// Runs the proxy in a thread of its own.
fn proxy(to: SocketAddr, pack: Pack) -> SocketAddr {
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let url = UpstreamUrl::parse(&format!("http://{to}")).expect("a URL");
            let mut config = ProxyConfig::default();
            config.mounts.clear();
            config.fallback = Some(url);
            let proxy = Proxy::bind(config, pack, "127.0.0.1:0")
                .await
                .expect("a proxy");
            told.send(proxy.address()).ok();
            proxy.serve(std::future::pending()).await;
        });
    });
    heard.recv().expect("the address")
}

/// Starts nginx as a reverse proxy, if it is installed.
fn nginx(to: SocketAddr) -> Option<(SocketAddr, Child)> {
    let free = std::net::TcpListener::bind("127.0.0.1:0").ok()?;
    let address = free.local_addr().ok()?;
    drop(free);
    let folder = std::env::temp_dir().join(format!("ttsr-bench-nginx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).ok()?;
    let settings = format!(
        "daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error.log;\n\
         events {{ worker_connections 8192; }}\n\
         http {{ access_log off; server {{ listen {address}; location / {{ proxy_pass http://{to};\n\
         proxy_http_version 1.1; proxy_buffering off; proxy_set_header Connection \"\"; }} }} }}\n",
        folder.display()
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, settings).ok()?;
    let mut command = Command::new("nginx");
    command
        .arg("-p")
        .arg(&folder)
        .arg("-c")
        .arg(&file)
        .stderr(Stdio::null());
    let child = command.spawn().ok()?;
    let began = Instant::now();
    while BlockingStream::connect(address).is_err() {
        if began.elapsed() > Duration::from_secs(5) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some((address, child))
}

/// The times of a load, in nanoseconds.
#[derive(Default)]
struct Times {
    first: Vec<u64>,
    deltas: Vec<u64>,
}

const REQUEST: &str = r#"{"model":"m","messages":[{"role":"user","content":"Hi."}],"stream":true}"#;

/// Reads one reply in a session of its own, and returns the time to its first byte and the time that each delta took.
async fn reply(
    client: Client<HttpConnector, Full<Bytes>>,
    to: SocketAddr,
    session: u32,
    began: Instant,
) -> (u64, Vec<u64>) {
    let request = Request::post(format!("http://{to}/v1/chat/completions"));
    let request = request
        .header("session-id", session)
        .body(Full::from(REQUEST))
        .expect("a request");
    let asked = Instant::now();
    let mut response = client.request(request).await.expect("a response");
    assert_eq!(response.status(), 200);
    let (mut first, mut times, mut text) = (None, Vec::new(), Vec::new());
    while let Some(frame) = response.frame().await {
        let now = began.elapsed().as_nanos() as u64;
        first.get_or_insert(asked.elapsed().as_nanos() as u64);
        let data = frame.expect("a frame").into_data().expect("data");
        text.extend_from_slice(&data);
        while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = text.drain(..end + 2).collect();
            let sent = serde_json::from_slice::<serde_json::Value>(&event[6..end]);
            if let Some(sent) = sent.ok().and_then(|chunk| chunk["created"].as_u64()) {
                times.push(now.saturating_sub(sent));
            }
        }
    }
    assert_eq!(times.len(), DELTAS as usize, "all deltas arrive");
    (first.unwrap_or(0), times)
}

/// Runs that many replies at the same time, spread over the pause between two deltas.
async fn load(to: SocketAddr, streams: u32, began: Instant) -> Times {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let mut running = tokio::task::JoinSet::new();
    for number in 0..streams {
        let client = client.clone();
        running.spawn(async move {
            tokio::time::sleep(PAUSE * number / streams).await;
            reply(client, to, number, began).await
        });
    }
    let mut times = Times::default();
    while let Some(ended) = running.join_next().await {
        let (first, deltas) = ended.expect("a reply");
        times.first.push(first);
        times.deltas.extend(deltas);
    }
    times
}

fn percentile(times: &mut [u64], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100] as f64 / 1000.0
}

/// Returns the time until the request to the server ends after a client has gone, in microseconds.
async fn cancel(pack: Pack) -> Vec<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let to = listener.local_addr().expect("an address");
    let (told, mut heard) = mpsc::unbounded_channel();
    tokio::spawn(serve(listener, move |_| {
        let (sender, receiver) = mpsc::channel(1);
        told.send(sender).ok();
        async move { streamed(receiver) }
    }));
    let address = proxy(to, pack);
    let mut times = Vec::new();
    for _ in 0..100 {
        let asking = tokio::task::spawn_blocking(move || {
            let mut socket = BlockingStream::connect(address).expect("a connection");
            let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length:";
            let request = format!("{head} {}\r\n\r\n{REQUEST}", REQUEST.len());
            socket.write_all(request.as_bytes()).expect("a request");
            socket
                .read_exact(&mut [0; 64])
                .expect("the head of the response");
            let gone = Instant::now();
            drop(socket);
            gone
        });
        let frames = heard.recv().await.expect("a request");
        frames
            .send(delta(Instant::now(), 0))
            .await
            .expect("the server is read");
        let gone = asking.await.expect("the client");
        frames.closed().await;
        times.push(gone.elapsed().as_nanos() as u64);
    }
    times
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let streams = std::env::args().find_map(|argument| argument.parse().ok());
    let streams: u32 = streams.unwrap_or(if is_test { 2 } else { 100 });
    let names =
        Pack::builtins().filter(|name| !name.starts_with("opencode/") && *name != "std/pii");
    let builder = names.fold(Pack::builder(), |builder, name| builder.builtin(name));
    let all = builder.build().expect("the built-in packs");
    let none = Pack::builder().build().expect("a pack without rules");
    let began = Instant::now();
    runtime().block_on(async {
        let to = model(began).await;
        let nginx = nginx(to);
        let mut rows = vec![("direct", to), ("hyper", pass_through(to))];
        rows.extend(nginx.as_ref().map(|(address, _)| ("nginx", *address)));
        rows.push(("no rules", proxy(to, none.clone())));
        rows.push(("built-in packs", proxy(to, all.clone())));
        println!("{streams} streams, {DELTAS} deltas each, one every {} ms; µs", PAUSE.as_millis());
        println!("{:<16}{:>12}{:>12}{:>12}{:>12}", "", "first p50", "first p99", "delta p50", "delta p99");
        for (name, address) in rows {
            // Connections, tables and caches are warm after the first load.
            load(address, streams.min(20), began).await;
            let mut times = load(address, streams, began).await;
            println!(
                "{name:<16}{:>12.0}{:>12.0}{:>12.0}{:>12.0}",
                percentile(&mut times.first, 50),
                percentile(&mut times.first, 99),
                percentile(&mut times.deltas, 50),
                percentile(&mut times.deltas, 99),
            );
        }
        if let Some((_, mut child)) = nginx {
            child.kill().ok();
            child.wait().ok();
        }
        let mut times = cancel(all).await;
        println!(
            "a client that goes away ends the request to the server after {:.0} µs (p50), {:.0} µs (longest of {})",
            percentile(&mut times, 50),
            percentile(&mut times, 100),
            times.len(),
        );
    });
}
