//! HTTP/1.1 as this client needs it: one connection a request, closed when it is dropped.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Context;

use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::harness::Failure;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    port: u16,
    pub(super) authority: String,
    /// What its paths begin with, without a slash at the end.
    pub(super) path: String,
}

impl Address {
    /// Reads `http://host:port`, with a path if the server is behind one.
    pub(super) fn parse(url: &str) -> Result<Address, Failure> {
        let bad = |why: &str| Failure::new("url", format!("`{url}`: {why}"));
        let uri: Uri = url.trim().parse().map_err(|_| bad("not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(bad("no TLS here: forward a port, or put a proxy before it"));
            }
            _ => return Err(bad("it must begin with `http://`")),
        }
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(bad("nothing but host, port and path belongs there"));
        }
        Ok(Address {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.to_string(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

type Wire = http1::Connection<TokioIo<TcpStream>, String>;

/// An open connection. It moves bytes only while it is asked for some.
pub(super) struct Connection {
    sender: http1::SendRequest<String>,
    wire: Pin<Box<Wire>>,
    is_over: bool,
}

impl Connection {
    pub(super) async fn open(address: &Address) -> Result<Connection, Failure> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let unreachable = |error| {
            let place = &address.authority;
            Failure::new("connect", format!("cannot reach {place}: {error}"))
        };
        let stream = stream.map_err(unreachable)?;
        stream.set_nodelay(true).ok();
        let (sender, wire) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failure)?;
        Ok(Connection {
            sender,
            wire: Box::pin(wire),
            is_over: false,
        })
    }

    /// Sends the request and waits for the head of its answer.
    pub(super) async fn send(
        &mut self,
        request: Request<String>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut answer = Box::pin(self.sender.send_request(request));
        let (wire, is_over) = (&mut self.wire, &mut self.is_over);
        let answered = poll_fn(|cx| {
            drive(wire, is_over, cx);
            answer.as_mut().poll(cx)
        });
        answered.await.map_err(failure)
    }

    /// The next bytes of the body; none at its end.
    pub(super) async fn read(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = poll_fn(|cx| {
                drive(&mut self.wire, &mut self.is_over, cx);
                Pin::new(&mut *body).poll_frame(cx)
            });
            match frame.await {
                None => return Ok(None),
                Some(Err(error)) => return Err(failure(error)),
                // Trailers say nothing that we need.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                    _ => {}
                },
            }
        }
    }
}

/// Moves what can be moved. An error of the connection comes out where its answer or body is read.
fn drive(wire: &mut Pin<Box<Wire>>, is_over: &mut bool, cx: &mut Context<'_>) {
    if !*is_over {
        *is_over = wire.as_mut().poll(cx).is_ready();
    }
}

fn failure(error: hyper::Error) -> Failure {
    let kind = if error.is_parse() {
        "protocol"
    } else {
        "closed"
    };
    Failure::new(kind, error.to_string())
}
