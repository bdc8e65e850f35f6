//! An HTTP/1.1 connection for one request, closed when it is dropped.
//!
//! This module knows neither addresses nor TLS: the caller opens the socket and interprets the errors.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use ttsr::harness::Failure;

/// A transport for a connection.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

type HttpConnection = http1::Connection<TokioIo<Box<dyn Socket>>, String>;

/// An open connection. It transfers bytes only while one of its futures is polled.
pub(super) struct Connection {
    sender: http1::SendRequest<String>,
    wire: Pin<Box<HttpConnection>>,
    is_over: bool,
}

/// Opens a socket to a host. `authority` names the host in errors.
pub(super) async fn connect(host: &str, port: u16, authority: &str) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect((host, port)).await;
    let stream = stream
        .map_err(|error| Failure::new("connect", format!("cannot reach {authority}: {error}")))?;
    // Requests are written in one piece, and replies are read as they arrive, so Nagle's algorithm only adds latency.
    stream.set_nodelay(true).ok();
    Ok(stream)
}

impl Connection {
    /// Returns a connection over that socket.
    pub(super) async fn handshake(socket: Box<dyn Socket>) -> Result<Connection, Failure> {
        let socket: Box<dyn Socket> = Box::new(YieldingSocket::new(socket));
        let mut builder = http1::Builder::new();
        builder.read_buf_exact_size(Some(YIELD_AFTER));
        let opened = builder.handshake(TokioIo::new(socket)).await;
        let (sender, wire) = opened.map_err(|error| failure(&error))?;
        Ok(Connection {
            sender,
            wire: Box::pin(wire),
            is_over: false,
        })
    }

    /// Sends the request and waits for the head of the response.
    pub(super) async fn send(
        &mut self,
        request: Request<String>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut answering = Box::pin(self.sender.send_request(request));
        let (wire, is_over) = (&mut self.wire, &mut self.is_over);
        let answered = poll_fn(|cx| {
            poll_connection(wire, is_over, cx);
            answering.as_mut().poll(cx)
        });
        answered.await.map_err(|error| failure(&error))
    }

    /// Returns the next bytes of the body, or `None` at its end.
    pub(super) async fn read(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
        poll_fn(|cx| {
            loop {
                poll_connection(&mut self.wire, &mut self.is_over, cx);
                return match Pin::new(&mut *body).poll_frame(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(None) => Poll::Ready(Ok(None)),
                    Poll::Ready(Some(Err(error))) => {
                        Poll::Ready(Err(Failure::new("cut-off", reason(&error))))
                    }
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(bytes) if !bytes.is_empty() => Poll::Ready(Ok(Some(bytes))),
                        // Trailers are not used.
                        _ => continue,
                    },
                };
            }
        })
        .await
    }
}

/// The number of bytes after which a read yields once, so that other futures of the task (such as a cancellation) are
/// polled. Also the most bytes of one read, and of a response head.
const YIELD_AFTER: usize = 64 << 10;

/// A socket whose reads yield regularly.
///
/// A server may send as fast as it is read: heads of status 1xx, comments, empty events. The reader would then run
/// without a pause, because no event results. So after every [`YIELD_AFTER`] bytes a read is pending once, and ready again
/// at once.
struct YieldingSocket {
    socket: Box<dyn Socket>,
    left: usize,
}

impl YieldingSocket {
    fn new(socket: Box<dyn Socket>) -> YieldingSocket {
        YieldingSocket {
            socket,
            left: YIELD_AFTER,
        }
    }
}

impl AsyncRead for YieldingSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            self.left = YIELD_AFTER;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buffer);
        let count = buffer.filled().len() - before;
        self.left = match polled {
            Poll::Pending => YIELD_AFTER,
            Poll::Ready(_) => self.left.saturating_sub(count),
        };
        polled
    }
}

impl AsyncWrite for YieldingSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Polls the connection. Its errors are returned where the response or the body is read.
fn poll_connection(wire: &mut Pin<Box<HttpConnection>>, is_over: &mut bool, cx: &mut Context<'_>) {
    if !*is_over {
        *is_over = wire.as_mut().poll(cx).is_ready();
    }
}

fn failure(error: &hyper::Error) -> Failure {
    let kind = if error.is_parse() {
        "protocol"
    } else {
        "closed"
    };
    Failure::new(kind, reason(error))
}

/// Returns the error with its I/O cause.
fn reason(error: &hyper::Error) -> String {
    let behind = std::error::Error::source(error);
    match behind.and_then(|behind| behind.downcast_ref::<io::Error>()) {
        Some(behind) => format!("{error}: {behind}"),
        None => error.to_string(),
    }
}
