//! The listening socket, its connections and their end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use ttsr::Pack;

use crate::config::{ProxyConfig, ProxyLimits};
use crate::error::ProxyError;
use crate::listener_tls::ListenerTls;
use crate::pack_slot::PackSlot;
use crate::service::ProxyService;
use crate::totals::ProxyTotals;

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
        let limits = self.service.config.limits.clone();
        let builder = connection_builder(&limits);
        let draining = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((socket, _)) => {
                    // Events are small and must not wait for the next one.
                    socket.set_nodelay(true).ok();
                    let (builder, service) = (builder.clone(), Arc::clone(&self.service));
                    connections.spawn(serve_socket(builder, socket, service, draining.watcher()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
        drop(self.listener);
        // Connections still open when the time is over end with the set of their tasks.
        tokio::time::timeout(limits.drain_time, draining.shutdown())
            .await
            .ok();
    }
}

fn connection_builder(limits: &ProxyLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head_bytes.max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(u32::try_from(limits.requests).unwrap_or(u32::MAX));
    builder
}

/// Answers the requests of one socket. A client that does not complete the handshake of TLS in the time of a head is
/// dropped.
async fn serve_socket(
    builder: auto::Builder<TokioExecutor>,
    socket: TcpStream,
    service: Arc<ProxyService>,
    draining: Watcher,
) {
    let Some(tls) = &service.config.tls else {
        return serve_connection(builder, socket, service, draining).await;
    };
    let handshake = tls.acceptor().accept(socket);
    let head_time = service.config.limits.head_time;
    if let Ok(Ok(socket)) = tokio::time::timeout(head_time, handshake).await {
        serve_connection(builder, socket, service, draining).await;
    }
}

async fn serve_connection<S>(
    builder: auto::Builder<TokioExecutor>,
    socket: S,
    service: Arc<ProxyService>,
    draining: Watcher,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // The connection has room for this future as long as it is open. In a box it is freed once the request is answered.
    let answer = service_fn(move |request| {
        let service = Arc::clone(&service);
        Box::pin(async move { service.answer(request).await })
    });
    let connection = builder.serve_connection(TokioIo::new(socket), answer);
    // Errors of a connection concern its client, which sees them.
    draining.watch(connection.into_owned()).await.ok();
}
