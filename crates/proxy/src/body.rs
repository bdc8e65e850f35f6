//! The bodies of requests and responses on their way through the proxy.

use std::error::Error;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::Limited;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};

use crate::account::RequestAccount;
use crate::config::ProxyLimits;
use crate::judge::ReplyJudge;
use crate::routes::ModelApi;

pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// The body of a request, cut off after the bytes that the configuration allows.
pub(crate) type RequestBody = Limited<Incoming>;

/// The body of a response to a client.
pub(crate) enum ResponseBody {
    /// A text of the proxy; `None` once it was sent.
    Whole(Option<Bytes>),
    /// The body of the server, as it arrives.
    Through(ServerBody),
    /// An event stream under rules.
    Judged(Box<JudgedBody>),
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
            ResponseBody::Judged(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Whole(text) => text.is_none(),
            ResponseBody::Through(body) => body.incoming.is_end_stream(),
            ResponseBody::Judged(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            ResponseBody::Through(body) => body.incoming.size_hint(),
            ResponseBody::Judged(_) => SizeHint::default(),
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

    /// Returns all bytes, of which there may be at most `cap`.
    pub(crate) async fn collect(mut self, cap: u64) -> Result<Vec<u8>, BodyError> {
        let mut bytes = Vec::new();
        while let Some(frame) = poll_fn(|cx| self.poll_frame(cx)).await {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            if (bytes.len() + data.len()) as u64 > cap {
                return Err("the reply is too long".into());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
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

/// An event stream under rules. The server is read only while nothing waits for the client.
pub(crate) struct JudgedBody {
    /// `None` once nothing is read any more, which closes the stream to the server.
    server: Option<ServerBody>,
    judge: ReplyJudge,
    api: ModelApi,
    account: RequestAccount,
    keep_alive_time: Duration,
    hold_time: Duration,
    /// Set while events are held back and none has left.
    hold: Option<HoldTimer>,
    /// The error with which the body ends after the bytes that may leave.
    error: Option<BodyError>,
}

/// The time since events are held back.
struct HoldTimer {
    began: Instant,
    /// Ends when the client is sent the next event.
    next: Pin<Box<Sleep>>,
}

impl JudgedBody {
    pub(crate) fn new(
        server: ServerBody,
        judge: ReplyJudge,
        api: ModelApi,
        account: RequestAccount,
        limits: &ProxyLimits,
    ) -> JudgedBody {
        JudgedBody {
            server: Some(server),
            judge,
            api,
            account,
            keep_alive_time: limits.keep_alive_time,
            hold_time: limits.hold_time,
            hold: None,
            error: None,
        }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let out = self.judge.take();
            if self.judge.is_over() {
                self.server = None;
            }
            if !out.is_empty() {
                self.hold = None;
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
            let Some(server) = &mut self.server else {
                return Poll::Ready(self.error.take().map(Err));
            };
            let polled = match server.poll_frame(cx) {
                Poll::Ready(polled) => polled,
                Poll::Pending => match ready!(self.poll_hold(cx)) {
                    Some(event) => return Poll::Ready(Some(Ok(Frame::data(event)))),
                    None => continue,
                },
            };
            match polled {
                Some(Ok(frame)) => {
                    // Trailers say nothing that a judged reply still has, such as a checksum.
                    if let Ok(bytes) = frame.into_data() {
                        self.judge.push(&bytes);
                    }
                }
                Some(Err(error)) => {
                    self.server = None;
                    self.error = Some(error);
                }
                None => {
                    self.server = None;
                    if self.judge.finish().is_err() {
                        self.error = Some(
                            "the reply ended within a tool call or a text that a rule holds".into(),
                        );
                    }
                }
            }
        }
    }
}

impl JudgedBody {
    /// Returns an event that keeps the client waiting, once it is due, or `None` if the reply was stopped because it was
    /// held back for too long. Pending while neither is the case.
    fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.judge.is_holding() {
            self.hold = None;
            return Poll::Pending;
        }
        let interval = self.keep_alive_time.min(self.hold_time);
        let hold = self.hold.get_or_insert_with(|| HoldTimer {
            began: Instant::now(),
            next: Box::pin(sleep(interval)),
        });
        ready!(hold.next.as_mut().poll(cx));
        if hold.began.elapsed() >= self.hold_time {
            self.judge.time_out();
            return Poll::Ready(None);
        }
        let left = self.hold_time.saturating_sub(hold.began.elapsed());
        hold.next
            .as_mut()
            .reset(Instant::now() + interval.min(left));
        self.judge.keep_alive();
        Poll::Ready(Some(self.judge.take().into()))
    }
}

impl Drop for JudgedBody {
    fn drop(&mut self) {
        self.account.judged(self.api, true, &self.judge);
    }
}
