//! The bodies of requests and responses on their way through the proxy.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep};

use crate::account::RequestAccount;
use crate::buffer_budget::{BufferBudget, BufferedBytes};
use crate::config::ProxyLimits;
use crate::conversations::ReplySession;
use crate::driver::{PIECE, UpstreamBody};
use crate::judge::{EndedReply, RepeatedAttempt, ReplyJudge};
use crate::request_count::RequestPermit;
use crate::routes::ModelApi;
use crate::sessions::SessionError;

pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// The body of a request. It is boxed because a connection of hyper has room for 32 requests with their bodies.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, BodyError>;

/// Returns a body that is sent as it arrives, cut off after the bytes that the configuration allows.
pub(crate) fn arriving_body(body: Limited<Incoming>) -> RequestBody {
    body.boxed_unsync()
}

/// Returns a body that is there whole.
pub(crate) fn whole_body(body: Bytes) -> RequestBody {
    Full::new(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// The response to another attempt at a reply.
pub(crate) type NextReply = Pin<Box<dyn Future<Output = Result<ServerBody, BodyError>> + Send>>;

/// Sends the request for another attempt. The permit counts it as in progress.
pub(crate) type ResendRequest =
    Box<dyn FnMut(&RepeatedAttempt, Option<RequestPermit>) -> NextReply + Send>;

/// The bytes that a stream keeps are counted in multiples of this.
const ROOM: usize = 16 << 10;

type SaveFuture = Pin<Box<dyn Future<Output = Result<(), SessionError>> + Send>>;

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

/// The most bytes of a frame for a client.
const FRAME: usize = 16 << 10;

/// A body of short frames that is pending once after so many bytes, and between its frames and its error. hyper writes to the
/// client when a body is pending. Until then it copies the frames into a buffer that the connection keeps, and at an error it
/// drops what it has not written, which may be the head of the response, too.
pub(crate) struct FlushedBody {
    body: ResponseBody,
    /// The bytes of frames since the body was pending.
    unwritten: usize,
    /// The rest of a long frame.
    rest: Bytes,
    error: Option<BodyError>,
}

impl FlushedBody {
    pub(crate) fn new(body: ResponseBody) -> FlushedBody {
        FlushedBody {
            body,
            // The head.
            unwritten: 1,
            rest: Bytes::new(),
            error: None,
        }
    }

    /// Returns the most bytes after which the body is pending: as few as are read at once of an event stream.
    fn most_unwritten(&self) -> usize {
        match self.body {
            ResponseBody::Judged(_) => PIECE,
            ResponseBody::Whole(_) | ResponseBody::Through(_) => FRAME,
        }
    }
}

impl Body for FlushedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.unwritten >= self.most_unwritten() {
            self.unwritten = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Poll::Ready(Some(Err(error))) if self.unwritten > 0 => {
                    self.unwritten = 0;
                    self.error = Some(error);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                polled => {
                    self.unwritten = 0;
                    return polled;
                }
            }
        }
        let len = self.rest.len().min(FRAME);
        self.unwritten += len;
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// The body of a server's response. Dropping it closes the stream to the server.
pub(crate) struct ServerBody {
    incoming: UpstreamBody,
    idle_time: Duration,
    /// Ends at the earliest time at which the server may have been silent for too long.
    idle: Pin<Box<Sleep>>,
    /// The time since which the server is waited for. Time in which the client does not read does not count as idle.
    waits_since: Option<Instant>,
    /// Counts the request as in progress.
    permit: Option<RequestPermit>,
}

impl ServerBody {
    pub(crate) fn new(
        incoming: UpstreamBody,
        idle_time: Duration,
        permit: Option<RequestPermit>,
    ) -> ServerBody {
        ServerBody {
            incoming,
            idle_time,
            idle: Box::pin(sleep(idle_time)),
            waits_since: None,
            permit,
        }
    }

    /// Closes the stream to the server, and returns the permit that counts the request as in progress.
    pub(crate) fn close(mut self) -> Option<RequestPermit> {
        self.permit.take()
    }

    /// Returns all bytes, of which there may be at most `cap`. As many are taken from the budget of `buffered`.
    pub(crate) async fn collect(
        &mut self,
        cap: u64,
        buffered: &mut BufferedBytes,
    ) -> Result<Vec<u8>, BodyError> {
        let mut bytes = Vec::new();
        while let Some(frame) = poll_fn(|cx| self.poll_frame(cx)).await {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            if (bytes.len() + data.len()) as u64 > cap {
                return Err("the reply is too long".into());
            }
            buffered.grow(data.len())?;
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
            self.waits_since = None;
            if let Some(permit) = &self.permit {
                permit.frame_arrived();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let ends = *self.waits_since.get_or_insert_with(Instant::now) + self.idle_time;
        // The timer is not reset for each frame, but when it ends too early.
        loop {
            ready!(self.idle.as_mut().poll(cx));
            if self.idle.deadline() >= ends {
                let message = "the server sent no byte for too long";
                return Poll::Ready(Some(Err(message.into())));
            }
            self.idle.as_mut().reset(ends);
        }
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
    /// Set while events are held back and none is released.
    hold: Option<HoldTimer>,
    /// The error with which the body ends after the released bytes.
    error: Option<BodyError>,
    session: Option<ReplySession>,
    /// Writes the session. Nothing is sent meanwhile, so that the next request of the client finds it written.
    saving: Option<SaveFuture>,
    /// `None` if the request cannot be sent again.
    resend_request: Option<ResendRequest>,
    /// The response to another attempt.
    next: Option<NextReply>,
    /// Counts the request as in progress while no server is read.
    permit: Option<RequestPermit>,
    /// The bytes that the judgement keeps.
    buffered: BufferedBytes,
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
        budget: &Arc<BufferBudget>,
    ) -> JudgedBody {
        server.incoming.read_in_pieces();
        JudgedBody {
            server: Some(server),
            judge,
            api,
            account,
            keep_alive_time: limits.keep_alive_time,
            hold_time: limits.hold_time,
            hold: None,
            error: None,
            session: None,
            saving: None,
            resend_request: None,
            next: None,
            permit: None,
            buffered: budget.begin(),
        }
    }

    /// Sets the session that the reply belongs to, and the function that sends its request again.
    pub(crate) fn in_session(
        mut self,
        session: ReplySession,
        resend_request: ResendRequest,
    ) -> JudgedBody {
        self.session = Some(session);
        self.resend_request = Some(resend_request);
        self
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            ready!(self.poll_saving(cx));
            let out = self.judge.take();
            if self.judge.is_over() || self.judge.is_waiting() {
                let closed = self.server.take().and_then(ServerBody::close);
                self.permit = closed.or(self.permit.take());
            }
            if !out.is_empty() {
                self.hold = None;
                return Poll::Ready(Some(Ok(Frame::data(out))));
            }
            if self.judge.is_waiting() {
                match ready!(self.poll_next(cx)) {
                    Some(event) => return Poll::Ready(Some(Ok(Frame::data(event)))),
                    None => continue,
                }
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
                        self.judge.push(bytes);
                        self.take_room();
                    }
                }
                Some(Err(error)) => {
                    self.server = None;
                    // Before its first event, another attempt ends like one that the server refuses.
                    self.judge.give_up();
                    if !self.judge.is_over() {
                        self.error = Some(error);
                    }
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
    /// Takes room for the bytes that are kept, or ends the reply if there is none.
    fn take_room(&mut self) {
        // Few bytes are not counted, so that most streams share no counter.
        let bytes = self.judge.kept_bytes() / ROOM * ROOM;
        let has_room = self.buffered.set(bytes);
        if let Err(full) = has_room
            && self.judge.end_for_room(&full.to_string())
        {
            self.account.unbuffered();
        }
    }

    /// Writes the session after a reply has ended.
    fn poll_saving(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let (Some(session), Some(ended)) = (&mut self.session, self.judge.ended_reply()) {
            self.saving = Some(Box::pin(session.save(ended)));
        }
        if let Some(saving) = &mut self.saving {
            let saved = ready!(saving.as_mut().poll(cx));
            self.account.saved(&saved);
            self.saving = None;
        }
        Poll::Ready(())
    }

    /// Waits for the response to another attempt. Returns an event that keeps the client waiting, once it is due, or
    /// `None` once the reply continues or is stopped.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let (Some(next), Some(resend_request)) =
            (self.judge.next_attempt(), &mut self.resend_request)
        {
            if let Some(session) = &mut self.session {
                session.carried(&next.notes);
            }
            self.next = Some(resend_request(&next, self.permit.take()));
        }
        let Some(next) = &mut self.next else {
            self.judge.give_up();
            return Poll::Ready(None);
        };
        match next.as_mut().poll(cx) {
            Poll::Ready(answered) => {
                self.next = None;
                match answered {
                    Ok(server) => {
                        server.incoming.read_in_pieces();
                        self.server = Some(server);
                        self.judge.resume();
                    }
                    Err(_) => self.judge.give_up(),
                }
                Poll::Ready(None)
            }
            Poll::Pending => {
                let event = ready!(self.poll_hold(cx));
                if event.is_none() {
                    self.next = None;
                }
                Poll::Ready(event)
            }
        }
    }

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
        Poll::Ready(Some(self.judge.take()))
    }
}

impl Drop for JudgedBody {
    fn drop(&mut self) {
        // The client went away. The actions of rules in the part of the reply that arrived still count.
        if let (Some(session), Some(conversation)) =
            (&mut self.session, self.judge.open_conversation())
        {
            self.saving = Some(Box::pin(session.save(EndedReply::cut(conversation))));
        }
        if let (Some(saving), Ok(runtime)) = (self.saving.take(), Handle::try_current()) {
            let account = self.account.clone();
            runtime.spawn(async move {
                account.saved(&saving.await);
            });
        }
        self.account.judged(self.api, true, &self.judge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn a_long_frame_is_cut_and_each_piece_is_written_before_the_next() {
        let text: Vec<u8> = (0..2 * FRAME + 100).map(|at| (at % 251) as u8).collect();
        let mut body = FlushedBody::new(ResponseBody::Whole(Some(text.clone().into())));
        let mut context = Context::from_waker(Waker::noop());
        let mut left = text.len();
        let mut read = Vec::new();
        let mut frames = Vec::new();
        loop {
            assert_eq!(body.size_hint().exact(), Some(left as u64));
            assert_eq!(body.is_end_stream(), left == 0);
            match Pin::new(&mut body).poll_frame(&mut context) {
                Poll::Pending => frames.push(None),
                Poll::Ready(Some(frame)) => {
                    let data = frame.unwrap().into_data().unwrap();
                    frames.push(Some(data.len()));
                    left -= data.len();
                    read.extend_from_slice(&data);
                }
                Poll::Ready(None) => break,
            }
        }
        assert_eq!(frames, [Some(FRAME), None, Some(FRAME), None, Some(100)]);
        assert!(read == text);
    }
}
