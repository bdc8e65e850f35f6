//! The listening socket, its connections and their end.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use ttsr::Pack;

use crate::body::FlushedBody;
use crate::config::{BusyPoll, ProxyConfig};
use crate::error::ProxyError;
use crate::listener_tls::ListenerTls;
use crate::pack_slot::PackSlot;
use crate::request_count::process_cpu_time;
use crate::service::ProxyService;
use crate::totals::ProxyTotals;

type AnswerFuture = Pin<Box<dyn Future<Output = Result<Response<FlushedBody>, Infallible>> + Send>>;

/// The pause after an error of the listening socket, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A proxy whose socket is open.
#[derive(Debug)]
pub struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<ProxyService>,
}

impl Proxy {
    /// Opens the socket at `address`, such as `127.0.0.1:8787`; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address is not a loopback address and the configuration neither has a token nor demands certificates of
    /// clients, or if the socket cannot be opened.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with I/O and time enabled.
    pub async fn bind(config: ProxyConfig, pack: Pack, address: &str) -> Result<Proxy, ProxyError> {
        let because =
            |error: io::Error| ProxyError::new(format!("cannot listen on {address}: {error}"));
        let found = tokio::net::lookup_host(address).await.map_err(because)?;
        let found: Vec<SocketAddr> = found.collect();
        let open = found.iter().find(|found| !found.ip().is_loopback());
        let needs_certificate = |tls: &ListenerTls| tls.needs_client_certificate();
        let is_guarded =
            config.token.is_some() || config.tls.as_ref().is_some_and(needs_certificate);
        if let (Some(open), false) = (open, is_guarded) {
            return Err(ProxyError::new(format!(
                "{open} is not a loopback address: whoever reaches the proxy could use it, so a token or certificates of clients are needed"
            )));
        }
        let listener = TcpListener::bind(&found[..]).await.map_err(because)?;
        Ok(Proxy {
            address: listener.local_addr().map_err(because)?,
            listener,
            service: Arc::new(ProxyService::new(config, pack)?),
        })
    }

    /// Returns the address of the socket, with the port that was taken.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters, which stay readable after the proxy has ended.
    #[must_use]
    pub fn totals(&self) -> Arc<ProxyTotals> {
        Arc::clone(&self.service.totals)
    }

    /// Returns the pack of replies that begin, to replace it while the proxy runs.
    #[must_use]
    pub fn pack(&self) -> Arc<PackSlot> {
        Arc::clone(&self.service.pack)
    }

    /// Answers requests until `stop` is complete. Then no connection is accepted, and requests in progress are
    /// completed within [`ProxyLimits::drain_time`](crate::ProxyLimits::drain_time); the others are cut off then.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with I/O and time enabled.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let drain_time = self.service.config.limits.drain_time;
        // They end when this returns.
        let mut polling = JoinSet::new();
        let threads = Handle::current().metrics().num_workers();
        let requests = Arc::clone(&self.service.requests);
        match self.service.config.busy_poll {
            BusyPoll::Never => {}
            BusyPoll::UnderLoad => {
                let threads = u32::try_from(threads).unwrap_or(u32::MAX);
                polling.spawn(async move {
                    let polling = requests.poll_busily_under_load(threads, process_cpu_time);
                    polling.await;
                });
            }
            BusyPoll::Always => {
                for _ in 0..threads {
                    let requests = Arc::clone(&requests);
                    polling.spawn(async move { requests.poll_busily().await });
                }
            }
        }
        let builders = Arc::new(ConnectionBuilders::new(self.service));
        let (is_stopping, stopping) = watch::channel(());
        // A task, which ends when this returns: the thread of `Runtime::block_on` is not one of the runtime's, so it would have
        // to be woken for each connection, and on a core that a thread of the runtime keeps busy it runs some milliseconds later.
        // PERF: while 2,000 streams begin, the first byte takes 40 ms in the median if that thread accepts connections.
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(self.listener, builders, stopping, drain_time));
        stop.await;
        drop(is_stopping);
        accepting.join_next().await;
    }
}

/// Answers the connections of a socket until `stopping` has no sender. Then no connection is accepted, and those that are
/// still open after `drain_time` are closed.
async fn accept(
    listener: TcpListener,
    builders: Arc<ConnectionBuilders>,
    stopping: watch::Receiver<()>,
    drain_time: Duration,
) {
    let mut connections = JoinSet::new();
    let mut stopped = stopping.clone();
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((socket, _)) => {
                // Events are small and must not wait for the next one.
                socket.set_nodelay(true).ok();
                let (builders, stopping) = (Arc::clone(&builders), stopping.clone());
                connections.spawn(builders.serve(socket, stopping));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
    drop(listener);
    // Connections still open when the time is over end with the set of their tasks.
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::time::timeout(drain_time, ended).await.ok();
}

/// The version of HTTP with which a client begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientVersion {
    Http1,
    Http2,
    /// The first bytes are too few to tell.
    Undecided,
}

/// The version that the protocol of ALPN names.
fn negotiated_version(protocol: Option<&[u8]>) -> ClientVersion {
    match protocol {
        Some(b"h2") => ClientVersion::Http2,
        Some(_) => ClientVersion::Http1,
        None => ClientVersion::Undecided,
    }
}

/// Builds the connections to clients, by their version of HTTP. `any` finds the version itself, but takes the first bytes
/// away from the connection in HTTP/1, whose buffer is then twice as large.
struct ConnectionBuilders {
    service: Arc<ProxyService>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    any: auto::Builder<TokioExecutor>,
}

impl ConnectionBuilders {
    fn new(service: Arc<ProxyService>) -> ConnectionBuilders {
        let limits = &service.config.limits;
        let head_bytes = limits.head_bytes.max(8192);
        let head_list = u32::try_from(limits.head_bytes).unwrap_or(u32::MAX);
        let streams = u32::try_from(limits.requests).unwrap_or(u32::MAX);
        // Frames are copied to the buffer of the connection, without `writev`: a frame that waits in a queue is a reference to the
        // buffer that was read from the server, and hyper allocates another one to read on.
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time)
            .max_buf_size(head_bytes)
            .writev(false);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.head_time)
            .keep_alive_timeout(limits.head_time)
            .max_header_list_size(head_list)
            .max_concurrent_streams(streams);
        let mut any = auto::Builder::new(TokioExecutor::new());
        any.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time)
            .max_buf_size(head_bytes)
            .writev(false);
        any.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.head_time)
            .keep_alive_timeout(limits.head_time)
            .max_header_list_size(head_list)
            .max_concurrent_streams(streams);
        ConnectionBuilders {
            service,
            http1,
            http2,
            any,
        }
    }

    /// Answers the requests of one socket. A client that does not begin in the time of a head, or does not complete the
    /// handshake of TLS, is dropped.
    async fn serve(self: Arc<Self>, socket: TcpStream, mut stopping: watch::Receiver<()>) {
        let head_time = self.service.config.limits.head_time;
        // Futures that are rare or short are boxed, so that an HTTP/1.1 connection does not reserve memory for them.
        if let Some(tls) = &self.service.config.tls {
            return Box::pin(self.serve_tls(tls, socket, stopping)).await;
        }
        match Box::pin(first_version(&socket, head_time, &mut stopping)).await {
            Some(ClientVersion::Http1) => self.serve_http1(socket, stopping).await,
            Some(version) => Box::pin(self.serve_connection(version, socket, stopping)).await,
            None => {}
        }
    }

    async fn serve_tls(&self, tls: &ListenerTls, socket: TcpStream, stopping: watch::Receiver<()>) {
        let handshake = tls.acceptor().accept(socket);
        let head_time = self.service.config.limits.head_time;
        if let Ok(Ok(socket)) = tokio::time::timeout(head_time, handshake).await {
            let version = negotiated_version(socket.get_ref().1.alpn_protocol());
            self.serve_connection(version, socket, stopping).await;
        }
    }

    async fn serve_connection<S>(
        &self,
        version: ClientVersion,
        socket: S,
        stopping: watch::Receiver<()>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = answering(Arc::clone(&self.service));
        match version {
            ClientVersion::Http1 => self.serve_http1(socket, stopping).await,
            ClientVersion::Http2 => {
                let socket = TokioIo::new(socket);
                let connection = pin!(self.http2.serve_connection(socket, service));
                run(connection, stopping).await;
            }
            ClientVersion::Undecided => {
                let connection = self.any.serve_connection(TokioIo::new(socket), service);
                run(pin!(connection.into_owned()), stopping).await;
            }
        }
    }

    async fn serve_http1<S>(&self, socket: S, stopping: watch::Receiver<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = answering(Arc::clone(&self.service));
        let connection = pin!(self.http1.serve_connection(TokioIo::new(socket), service));
        run(connection, stopping).await;
    }
}

/// Runs a connection to its end. If the proxy stops, it ends after the requests in progress.
async fn run<C: GracefulConnection>(
    mut connection: Pin<&mut C>,
    mut stopping: watch::Receiver<()>,
) {
    // Errors of a connection concern its client, which sees them.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopping.changed() => connection.as_mut().graceful_shutdown(),
    }
    connection.await.ok();
}

/// Returns the version of the first bytes of a socket, which stay in it, or `None` if none arrive in time or the proxy
/// stops.
async fn first_version(
    socket: &TcpStream,
    head_time: Duration,
    stopping: &mut watch::Receiver<()>,
) -> Option<ClientVersion> {
    let mut first = [0; 3];
    let len = tokio::select! {
        peeked = tokio::time::timeout(head_time, socket.peek(&mut first)) => peeked.ok()?.ok()?,
        _ = stopping.changed() => return None,
    };
    Some(match first {
        // The preface of HTTP/2 begins so, and no method of HTTP/1.1.
        [b'P', b'R', b'I'] => ClientVersion::Http2,
        _ if len == first.len() => ClientVersion::Http1,
        _ => ClientVersion::Undecided,
    })
}

/// Returns the service of a connection.
fn answering(
    service: Arc<ProxyService>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<FlushedBody>,
    Error = Infallible,
    Future = AnswerFuture,
> {
    // The connection has room for this future as long as it is open. In a box it is freed once the request is answered.
    service_fn(move |request| -> AnswerFuture {
        let service = Arc::clone(&service);
        Box::pin(async move {
            let answered = service.answer(request).await;
            answered.map(|response| response.map(FlushedBody::new))
        })
    })
}
