//! The bodies of requests and responses on their way through the proxy.

use std::error::Error;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::Limited;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};

pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// The body of a request, cut off after the bytes that the configuration allows.
pub(crate) type RequestBody = Limited<Incoming>;

/// The body of a response to a client.
pub(crate) enum ResponseBody {
    /// A text of the proxy; `None` once it was sent.
    Whole(Option<Bytes>),
    /// The body of the server, as it arrives.
    Through(ServerBody),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            ResponseBody::Whole(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            ResponseBody::Through(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Whole(text) => text.is_none(),
            ResponseBody::Through(body) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            ResponseBody::Through(body) => body.incoming.size_hint(),
        }
    }
}

/// The body of a server's response. Dropping it closes the stream to the server.
pub(crate) struct ServerBody {
    incoming: Incoming,
    idle_time: Duration,
    idle: Pin<Box<Sleep>>,
    /// True while the server is waited for. Time in which the client does not read does not count as idle.
    is_waiting: bool,
    /// Counts the request as in progress.
    _permit: OwnedSemaphorePermit,
}

impl ServerBody {
    pub(crate) fn new(
        incoming: Incoming,
        idle_time: Duration,
        permit: OwnedSemaphorePermit,
    ) -> ServerBody {
        ServerBody {
            incoming,
            idle_time,
            idle: Box::pin(sleep(idle_time)),
            is_waiting: false,
            _permit: permit,
        }
    }

    /// Polls for the next frame. An error means that the response is incomplete.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            self.is_waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.idle.as_mut().reset(Instant::now() + self.idle_time);
        }
        ready!(self.idle.as_mut().poll(cx));
        Poll::Ready(Some(Err("the server sent no byte for too long".into())))
    }
}
