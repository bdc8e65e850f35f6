//! Connections to servers, directly or through the network's proxy, up to TLS.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::network_proxy::{NetworkProxy, TunnelProtocol};

type AnyError = Box<dyn Error + Send + Sync>;

/// A connector that asks the network's proxy for a connection if there is one and the server is to be reached through it.
#[derive(Clone)]
pub(crate) struct TunnelConnector {
    pub(crate) tcp: HttpConnector,
    /// Connects to the network's proxy.
    pub(crate) outward: HttpsConnector<HttpConnector>,
    pub(crate) network_proxy: Option<Arc<NetworkProxy>>,
    /// The longest head of an answer to CONNECT.
    pub(crate) head_bytes: usize,
}

impl Service<Uri> for TunnelConnector {
    type Response = TunnelStream;
    type Error = AnyError;
    type Future = Pin<Box<dyn Future<Output = Result<TunnelStream, AnyError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        // Both connectors have the same one, which is always ready.
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let network_proxy = self.network_proxy.as_ref();
        let Some(network_proxy) = network_proxy.filter(|it| it.carries(&to)) else {
            let connecting = self.tcp.call(to);
            return Box::pin(async move { Ok(TunnelStream::Tcp(connecting.await?)) });
        };
        let address = network_proxy.address().clone();
        match network_proxy.protocol() {
            TunnelProtocol::Http => {
                let connecting = self.outward.call(address);
                let request = connect_request(&to, network_proxy.basic_credentials());
                let head_bytes = self.head_bytes;
                Box::pin(async move {
                    let (request, stream) = (request?, connecting.await);
                    Ok(match stream.map_err(TunnelError::Unreachable)? {
                        MaybeHttpsStream::Http(stream) => {
                            TunnelStream::Tcp(connect(stream, request, head_bytes).await?)
                        }
                        stream => {
                            let stream = connect(stream, request, head_bytes).await?;
                            TunnelStream::Tls(Box::new(stream))
                        }
                    })
                })
            }
            TunnelProtocol::Socks => {
                let mut socks = SocksV5::new(address, self.tcp.clone());
                if let Some((user, password)) = network_proxy.socks_credentials() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                let connecting = socks.call(to);
                Box::pin(async move {
                    let connected = connecting.await;
                    let stream =
                        connected.map_err(|error| TunnelError::Socks(error.to_string()))?;
                    Ok(TunnelStream::Tcp(stream))
                })
            }
        }
    }
}

/// A connection to a server, before TLS with the server.
pub(crate) enum TunnelStream {
    /// A connection to the server, or to a network's proxy without TLS.
    Tcp(TokioIo<TcpStream>),
    /// A connection to a network's proxy with TLS. In a box, so that other connections take no memory for it.
    Tls(Box<MaybeHttpsStream<TokioIo<TcpStream>>>),
}

impl Connection for TunnelStream {
    fn connected(&self) -> Connected {
        match self {
            TunnelStream::Tcp(stream) => stream.connected(),
            // The protocol that the network's proxy has chosen is not that of the server.
            TunnelStream::Tls(_) => Connected::new(),
        }
    }
}

impl Read for TunnelStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            TunnelStream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            TunnelStream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Write for TunnelStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            TunnelStream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            TunnelStream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            TunnelStream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            TunnelStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            TunnelStream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            TunnelStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            TunnelStream::Tcp(stream) => stream.is_write_vectored(),
            TunnelStream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            TunnelStream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
            TunnelStream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
        }
    }
}

/// Returns the request for a tunnel to the server (RFC 9110, section 9.3.6).
fn connect_request(
    to: &Uri,
    credentials: Option<&HeaderValue>,
) -> Result<Request<Empty<Bytes>>, TunnelError> {
    let host = to.host().unwrap_or_default();
    let target = format!("{host}:{}", to.port_u16().unwrap_or(443));
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = target.parse().map_err(|_| TunnelError::Unnamed)?;
    let host = HeaderValue::try_from(target).map_err(|_| TunnelError::Unnamed)?;
    request.headers_mut().insert(HOST, host);
    if let Some(credentials) = credentials {
        let credentials = credentials.clone();
        request
            .headers_mut()
            .insert(PROXY_AUTHORIZATION, credentials);
    }
    Ok(request)
}

/// Asks an HTTP proxy for a tunnel, and returns its stream.
///
/// This is not `hyper_util::client::legacy::connect::proxy::Tunnel`, which keeps the status of a refusal for itself and takes
/// 200 alone for success. Here hyper reads the answer.
async fn connect<S>(
    stream: S,
    request: Request<Empty<Bytes>>,
    head_bytes: usize,
) -> Result<S, TunnelError>
where
    S: Read + Write + Unpin + Send + 'static,
{
    // Names of fields in the usual case, because some proxies compare them with it.
    let mut builder = http1::Builder::new();
    builder.title_case_headers(true).max_buf_size(head_bytes);
    let (mut sender, connection) = builder.handshake(stream).await?;
    // The sender ends with its block: a connection that is no tunnel yet after a success, such as one of status 204, ends then.
    let accepted = async move {
        let status = sender.send_request(request).await?.status();
        match status.is_success() {
            true => Ok(()),
            false => Err(TunnelError::Refused(status)),
        }
    };
    let tunnel = async { Ok(connection.without_shutdown().await?) };
    // A refusal ends both: the rest of its body is not read.
    let ((), parts) = tokio::try_join!(accepted, tunnel)?;
    match parts.read_buf.is_empty() {
        true => Ok(parts.io),
        // In TLS the client begins.
        false => Err(TunnelError::Early),
    }
}

/// The reason why the network's proxy has made no connection to a server. It has no credentials.
#[derive(Debug)]
pub(crate) enum TunnelError {
    /// There is no connection to the network's proxy.
    Unreachable(AnyError),
    /// The network's proxy answered CONNECT with another status than success.
    Refused(StatusCode),
    /// The answer to CONNECT is not one of HTTP, or there is none.
    Unread(hyper::Error),
    /// Bytes arrived through the tunnel before the first ones were sent.
    Early,
    /// CONNECT cannot name the server.
    Unnamed,
    /// SOCKS failed: the reason.
    Socks(String),
}

impl fmt::Display for TunnelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunnelError::Unreachable(_) => f.write_str("cannot connect to the network's proxy"),
            TunnelError::Refused(status) => {
                write!(
                    f,
                    "the network's proxy refused the connection with status {status}"
                )
            }
            TunnelError::Unread(_) => {
                f.write_str("the network's proxy did not answer CONNECT with a response of HTTP")
            }
            TunnelError::Early => {
                f.write_str("the network's proxy sent bytes after its answer to CONNECT")
            }
            TunnelError::Unnamed => f.write_str("the network's proxy cannot be told the server"),
            TunnelError::Socks(reason) => {
                write!(f, "the network's proxy made no connection: {reason}")
            }
        }
    }
}

impl Error for TunnelError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            TunnelError::Unreachable(error) => Some(&**error),
            TunnelError::Unread(error) => Some(error),
            _ => None,
        }
    }
}

impl From<hyper::Error> for TunnelError {
    fn from(error: hyper::Error) -> TunnelError {
        TunnelError::Unread(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_connection_takes_no_memory_for_tunnels() {
        assert!(size_of::<TunnelStream>() <= size_of::<TokioIo<TcpStream>>() + size_of::<usize>());
    }
}
