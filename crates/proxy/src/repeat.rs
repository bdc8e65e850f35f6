//! A request that is sent again because a rule cut its reply.

use http_body_util::{Either, Full};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use tokio::sync::OwnedSemaphorePermit;

use crate::body::{BodyError, SendAgain, ServerBody};
use crate::judge::RepeatedAttempt;
use crate::request::OutgoingBody;
use crate::upstream::UpstreamCall;

/// A request that can be sent again.
#[derive(Clone)]
pub(crate) struct RepeatedCall {
    pub(crate) call: UpstreamCall,
    pub(crate) body: OutgoingBody,
    /// True if the reply is an event stream.
    pub(crate) is_stream: bool,
}

impl RepeatedCall {
    /// Sends the request with the message of the rule.
    ///
    /// # Errors
    /// If there is no response that can take the place of the one that was cut.
    pub(crate) async fn send(
        self,
        next: RepeatedAttempt,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<ServerBody, BodyError> {
        let body = self.body.write(next.block.retry.as_deref());
        let response = self.call.send(Either::Right(Full::new(body))).await?;
        let headers = response.headers();
        let is_usable = response.status().is_success()
            && !is_encoded(headers)
            && is_event_stream(headers) == self.is_stream;
        if !is_usable {
            return Err("the server refused the request that was sent again".into());
        }
        let idle_time = self.call.idle_time;
        Ok(ServerBody::new(response.into_body(), idle_time, permit))
    }

    /// Adds the guidance that goes with another attempt to this one and to those after it.
    pub(crate) fn carry(&mut self, next: &RepeatedAttempt) {
        let texts: Vec<String> = next.notes.iter().map(|note| note.text.clone()).collect();
        self.body.add_last_guidance(&texts);
    }

    /// Returns the function that sends the request again.
    pub(crate) fn into_send_again(mut self) -> SendAgain {
        Box::new(move |next, permit| {
            self.carry(next);
            Box::pin(self.clone().send(next.clone(), permit))
        })
    }
}

/// Returns true if the body is compressed.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Returns true if the body is an event stream.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.as_bytes().to_ascii_lowercase();
        kind.starts_with(b"text/event-stream")
    })
}
