//! One connection of HTTP/1.1: made for one request, closed when it is dropped.
//!
//! It knows neither addresses nor TLS: whoever uses it opens the socket, and says what an error means.

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

/// What a connection runs over.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

type Wire = http1::Connection<TokioIo<Box<dyn Socket>>, String>;

/// An open connection. It moves bytes only while it is asked for some.
pub(super) struct Connection {
    sender: http1::SendRequest<String>,
    wire: Pin<Box<Wire>>,
    is_over: bool,
}

/// A socket to that place, which `authority` is called in errors.
pub(super) async fn reach(host: &str, port: u16, authority: &str) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect((host, port)).await;
    let stream = stream
        .map_err(|error| Failure::new("connect", format!("cannot reach {authority}: {error}")))?;
    // Requests are written whole; replies are read as they come.
    stream.set_nodelay(true).ok();
    Ok(stream)
}

impl Connection {
    /// A connection over that socket.
    pub(super) async fn over(socket: Box<dyn Socket>) -> Result<Connection, Failure> {
        let socket: Box<dyn Socket> = Box::new(Paced::new(socket));
        let mut builder = http1::Builder::new();
        builder.read_buf_exact_size(Some(PACE));
        let opened = builder.handshake(TokioIo::new(socket)).await;
        let (sender, wire) = opened.map_err(|error| failure(&error))?;
        Ok(Connection {
            sender,
            wire: Box::pin(wire),
            is_over: false,
        })
    }

    /// Sends the request and waits for the head of its answer.
    pub(super) async fn ask(
        &mut self,
        request: Request<String>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut answering = Box::pin(self.sender.send_request(request));
        let (wire, is_over) = (&mut self.wire, &mut self.is_over);
        let answered = poll_fn(|cx| {
            drive(wire, is_over, cx);
            answering.as_mut().poll(cx)
        });
        answered.await.map_err(|error| failure(&error))
    }

    /// The next bytes of the body; none at its end.
    pub(super) async fn read(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
        poll_fn(|cx| {
            loop {
                drive(&mut self.wire, &mut self.is_over, cx);
                return match Pin::new(&mut *body).poll_frame(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(None) => Poll::Ready(Ok(None)),
                    Poll::Ready(Some(Err(error))) => {
                        Poll::Ready(Err(Failure::new("cut-off", reason(&error))))
                    }
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(bytes) if !bytes.is_empty() => Poll::Ready(Ok(Some(bytes))),
                        // Trailers say nothing that anybody needs.
                        _ => continue,
                    },
                };
            }
        })
        .await
    }
}

/// Bytes after which whoever waits beside a reply, such as the user who cancels, gets a turn. Also the most that is
/// read at once, and that the head of an answer may have.
const PACE: usize = 64 << 10;

/// A socket that is never ready for long.
///
/// A server may send as fast as it is read: heads of status 1xx, comments, empty events. Whoever reads would be at
/// it without a pause, since no event comes of it. So after every [`PACE`] bytes a read is pending once, and ready
/// again right after.
struct Paced {
    socket: Box<dyn Socket>,
    left: usize,
}

impl Paced {
    fn new(socket: Box<dyn Socket>) -> Paced {
        Paced { socket, left: PACE }
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            self.left = PACE;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buffer);
        let count = buffer.filled().len() - before;
        self.left = match polled {
            Poll::Pending => PACE,
            Poll::Ready(_) => self.left.saturating_sub(count),
        };
        polled
    }
}

impl AsyncWrite for Paced {
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

/// Moves what can be moved. An error of the connection comes out where its answer or body is read.
fn drive(wire: &mut Pin<Box<Wire>>, is_over: &mut bool, cx: &mut Context<'_>) {
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

/// The error and what is behind it.
fn reason(error: &hyper::Error) -> String {
    let behind = std::error::Error::source(error);
    match behind.and_then(|behind| behind.downcast_ref::<io::Error>()) {
        Some(behind) => format!("{error}: {behind}"),
        None => error.to_string(),
    }
}
