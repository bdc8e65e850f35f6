//! A request that is sent again because a rule cut its reply.

use hyper::Uri;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};

use crate::body::{BodyError, ResendRequest, ServerBody, whole_body};
use crate::judge::{RepeatedAttempt, StreamFraming};
use crate::request::OutgoingBody;
use crate::request_count::RequestPermit;
use crate::routes::{streams_array, with_model};
use crate::upstream::UpstreamCall;

/// A request that can be sent again.
#[derive(Clone)]
pub(crate) struct RepeatedCall {
    pub(crate) call: UpstreamCall,
    pub(crate) body: OutgoingBody,
    /// The framing of the reply, or `None` if it is not streamed.
    pub(crate) framing: Option<StreamFraming>,
}

impl RepeatedCall {
    /// Sends the request with the message of the rule.
    ///
    /// # Errors
    /// If there is no response that can replace the one that was cut.
    pub(crate) async fn send(
        self,
        next: RepeatedAttempt,
        permit: Option<RequestPermit>,
    ) -> Result<ServerBody, BodyError> {
        let retry = next.block.retry.as_deref();
        let body = self.body.write(retry);
        let mut call = self.call;
        if let Some(model) = self.body.model_in_path(retry) {
            let uri = with_model(&call.uri, model);
            call.uri = uri.ok_or("the path has no place for the model of the rule")?;
        }
        let response = call.send(whole_body(body)).await?;
        let headers = response.headers();
        let is_usable = response.status().is_success()
            && !is_encoded(headers)
            && stream_framing(headers, &call.uri) == self.framing;
        if !is_usable {
            return Err("the server refused the request that was sent again".into());
        }
        let idle_time = call.idle_time;
        Ok(ServerBody::new(response.into_body(), idle_time, permit))
    }

    /// Adds the guidance that goes with another attempt to this one and to those after it.
    pub(crate) fn carry(&mut self, next: &RepeatedAttempt) {
        let texts: Vec<String> = next.notes.iter().map(|note| note.text.clone()).collect();
        self.body.add_last_guidance(&texts);
    }

    /// Returns the function that sends the request again.
    pub(crate) fn into_resend_request(mut self) -> ResendRequest {
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
        .map(|encoding| encoding.as_bytes().trim_ascii())
        .any(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"identity"))
}

/// Returns the framing of a body that is streamed in response to a request to that URL, or `None` if it is judged whole.
pub(crate) fn stream_framing(headers: &HeaderMap, uri: &Uri) -> Option<StreamFraming> {
    let kind = headers.get(CONTENT_TYPE)?.as_bytes().to_ascii_lowercase();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    match kind.trim_ascii() {
        b"text/event-stream" => Some(StreamFraming::Events),
        b"application/x-ndjson" | b"application/ndjson" | b"application/jsonl" => {
            Some(StreamFraming::Lines)
        }
        b"application/json" if streams_array(uri) => Some(StreamFraming::Array),
        _ => None,
    }
}
