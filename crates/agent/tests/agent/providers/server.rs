//! A local server that follows a plan and records its requests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// The time limit for expected events.
const PATIENCE: Duration = Duration::from_secs(20);

/// The plan of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Written in order, each with its own write.
    pieces: Vec<Vec<u8>>,
    /// The pause between two pieces.
    pause: Duration,
    /// True if the connection stays open after the last piece until the peer closes it.
    lingers: bool,
    /// True if the server does not wait for the request.
    is_hasty: bool,
}

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Chunked,
    Length,
    /// By the end of the connection.
    Close,
}

impl Framing {
    pub(crate) const ALL: [Framing; 3] = [Framing::Chunked, Framing::Length, Framing::Close];
}

impl Plan {
    /// Only these bytes.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Plan {
        Plan {
            pieces: vec![bytes.into()],
            ..Plan::default()
        }
    }

    /// A status, headers (each with its line end) and a body.
    pub(crate) fn status(status: &str, headers: &str, body: &str) -> Plan {
        Plan::raw(format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// A body of server-sent events.
    pub(crate) fn sse(body: &[u8], framing: Framing) -> Plan {
        Plan::raw(response("text/event-stream", body, framing))
    }

    /// Cuts the output after each of these offsets.
    pub(crate) fn cut(mut self, places: impl IntoIterator<Item = usize>) -> Plan {
        let bytes = self.pieces.concat();
        let mut from = 0;
        self.pieces.clear();
        for place in places {
            if place > from && place < bytes.len() {
                self.pieces.push(bytes[from..place].to_vec());
                from = place;
            }
        }
        self.pieces.push(bytes[from..].to_vec());
        self
    }

    /// Writes byte by byte.
    pub(crate) fn bytewise(self) -> Plan {
        let length = self.len();
        self.cut(0..length)
    }

    pub(crate) fn every(self, pause: Duration) -> Plan {
        Plan { pause, ..self }
    }

    /// Writes only the first `bytes` bytes.
    pub(crate) fn first(mut self, bytes: usize) -> Plan {
        let mut all = self.pieces.concat();
        all.truncate(bytes);
        self.pieces = vec![all];
        self
    }

    pub(crate) fn linger(self) -> Plan {
        Plan {
            lingers: true,
            ..self
        }
    }

    /// Responds without waiting for the request.
    pub(crate) fn hasty(self) -> Plan {
        Plan {
            is_hasty: true,
            ..self
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }
}

/// A complete response of status 200.
pub(crate) fn response(kind: &str, body: &[u8], framing: Framing) -> Vec<u8> {
    let head =
        |more: &str| format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{more}\r\n").into_bytes();
    match framing {
        Framing::Length => {
            let head = head(&format!("content-length: {}\r\n", body.len()));
            [head, body.to_vec()].concat()
        }
        Framing::Close => [head("connection: close\r\n"), body.to_vec()].concat(),
        Framing::Chunked => {
            let mut whole = head("transfer-encoding: chunked\r\n");
            // A chunk size that coincides with no boundary of the content.
            for chunk in body.chunks(61) {
                whole.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                whole.extend_from_slice(chunk);
                whole.extend_from_slice(b"\r\n");
            }
            whole.extend_from_slice(b"0\r\n\r\n");
            whole
        }
    }
}

/// The observations of the server.
#[derive(Debug, Default)]
struct Seen {
    requests: Vec<Heard>,
    /// The times at which the peer closed an open connection.
    closes: Vec<Instant>,
    connections: usize,
    /// The number of bytes that the system accepted.
    written: usize,
}

/// A request as it was received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Heard {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("the body of a request is JSON")
    }

    /// Returns the value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (other, value) = line.split_once(':')?;
            other.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    is_https: bool,
    seen: Arc<Mutex<Seen>>,
    closed: Arc<Notify>,
}

impl Server {
    /// Serves the connections with these plans, and further ones with the last plan.
    pub(crate) async fn start(plans: impl IntoIterator<Item = Plan>) -> Server {
        Server::serve(plans.into_iter().collect(), None).await
    }

    pub(crate) async fn start_tls(
        plans: impl IntoIterator<Item = Plan>,
        tls: TlsAcceptor,
    ) -> Server {
        Server::serve(plans.into_iter().collect(), Some(tls)).await
    }

    async fn serve(mut plans: VecDeque<Plan>, tls: Option<TlsAcceptor>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            is_https: tls.is_some(),
            seen: Arc::default(),
            closed: Arc::default(),
        };
        let own = server.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                own.seen.lock().unwrap().connections += 1;
                let plan = match plans.len() {
                    1 => plans[0].clone(),
                    _ => plans.pop_front().expect("there is a plan"),
                };
                tokio::spawn(own.clone().connection(stream, plan, tls.clone()));
            }
        });
        server
    }

    async fn connection(self, stream: TcpStream, plan: Plan, tls: Option<TlsAcceptor>) {
        match tls {
            None => self.answer(stream, plan).await,
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    self.answer(stream, plan).await;
                }
            }
        }
    }

    async fn answer(self, mut stream: impl AsyncRead + AsyncWrite + Unpin, plan: Plan) {
        if !plan.is_hasty {
            match heard(&mut stream).await {
                Some(request) => self.seen.lock().unwrap().requests.push(request),
                None => return,
            }
        }
        for piece in &plan.pieces {
            if stream.write_all(piece).await.is_err() || stream.flush().await.is_err() {
                break;
            }
            self.seen.lock().unwrap().written += piece.len();
            match plan.pause {
                Duration::ZERO => tokio::task::yield_now().await,
                pause => sleep(pause).await,
            }
        }
        if plan.lingers {
            while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {}
            self.seen.lock().unwrap().closes.push(Instant::now());
            self.closed.notify_one();
        } else {
            stream.shutdown().await.ok();
        }
    }

    /// Returns the base URL.
    pub(crate) fn base(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/v1", self.address.port())
    }

    pub(crate) fn requests(&self) -> Vec<Heard> {
        self.seen.lock().unwrap().requests.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    pub(crate) fn written(&self) -> usize {
        self.seen.lock().unwrap().written
    }

    /// Waits until the peer closed the given number of open connections; returns the time of the last close.
    pub(crate) async fn saw_close(&self, count: usize) -> Instant {
        let waiting = async {
            loop {
                let closes = self.seen.lock().unwrap().closes.clone();
                if closes.len() >= count {
                    return closes[count - 1];
                }
                self.closed.notified().await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("the peer closes")
    }
}

/// Reads one request with a `Content-Length`; `None` if the peer is gone.
async fn heard(stream: &mut (impl AsyncRead + Unpin)) -> Option<Heard> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let mut request = Heard {
                head,
                body: String::new(),
            };
            let length = request.header("content-length")?.parse().ok()?;
            if bytes.len() >= end + 4 + length {
                request.body = String::from_utf8(bytes[end + 4..][..length].to_vec()).unwrap();
                return Some(request);
            }
        }
        let mut more = [0; 4096];
        match stream.read(&mut more).await {
            Ok(count @ 1..) => bytes.extend_from_slice(&more[..count]),
            _ => return None,
        }
    }
}
