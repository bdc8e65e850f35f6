//! A response: its head is checked, its body is parsed into events.

use std::collections::VecDeque;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use super::retry::retry_after;
use super::signed_reasoning::SignedReasoningReader;
use crate::http::Connection;
use ttsr::Event;
use ttsr::harness::Failure;
use ttsr_wire::Reader;

/// The most bytes of an error response that are read.
const ERROR: usize = 64 << 10;

/// The most characters of an error response of unknown form that are shown.
const EXCERPT: usize = 300;

/// The reason that readers give to a reply that its provider did not end.
const TRUNCATED: &str = "truncated";

/// A streamed reply. Dropping it closes the connection.
pub(super) struct ResponseStream {
    connection: Connection,
    body: Incoming,
    reader: Reader,
    /// Collects signed reasoning from the same bytes.
    signed: Option<SignedReasoningReader>,
    ready: VecDeque<Event>,
    /// The time limit for a silent connection.
    idle: Duration,
    is_finished: bool,
}

impl ResponseStream {
    /// Returns the reply of a response, or the failure that its head describes.
    pub(super) async fn new(
        connection: Connection,
        response: Response<Incoming>,
        idle: Duration,
    ) -> Result<ResponseStream, Failure> {
        let (head, body) = response.into_parts();
        let mut answer = ResponseStream {
            connection,
            body,
            reader: Reader::new("reply"),
            signed: None,
            ready: VecDeque::new(),
            idle,
            is_finished: false,
        };
        match head.status {
            StatusCode::OK => check_headers(&head.headers).map(|()| answer),
            status if status.is_redirection() => Err(redirect_failure(status, &head.headers)),
            status => Err(answer.refused(status, &head.headers).await),
        }
    }

    /// Keeps the signed reasoning of the reply, once the reply is complete.
    pub(super) fn keep_signed_reasoning(&mut self, signed: SignedReasoningReader) {
        self.signed = Some(signed);
    }

    /// Returns the next event, or `None` after the end of the reply.
    pub(super) async fn next(&mut self) -> Option<Result<Event, Failure>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.is_finished = matches!(event, Event::Finish { .. });
                if let (true, Some(signed)) = (self.is_finished, &mut self.signed) {
                    signed.finish();
                }
                return Some(Ok(event));
            }
            if self.is_finished {
                return None;
            }
            match self.read().await {
                Ok(true) => {}
                Ok(false) => {
                    self.is_finished = true;
                    let message = "the answer ended before the reply did";
                    return Some(Err(Failure::new("cut-off", message)));
                }
                Err(failure) => {
                    // Buffered bytes of an incomplete event are not read: they could mean something else once complete.
                    self.is_finished = true;
                    return Some(Err(failure));
                }
            }
        }
    }

    /// Reads more bytes; returns false at the end of a body whose reply did not end.
    async fn read(&mut self) -> Result<bool, Failure> {
        let bytes = self.bytes().await?;
        if let (Some(signed), Some(bytes)) = (&mut self.signed, &bytes) {
            signed.push(bytes);
        }
        let ResponseStream { reader, ready, .. } = self;
        match bytes {
            Some(bytes) => reader.push(&bytes, &mut |_, event| push_until_finish(ready, event)),
            None => {
                let mut last = Vec::new();
                reader.finish(&mut |_, event| last.push(event));
                if !last.iter().any(is_end) {
                    // The open parts did not end: their calls must not run.
                    last.retain(|event| matches!(event, Event::Unscanned { .. }));
                }
                last.into_iter()
                    .for_each(|event| push_until_finish(ready, event));
                return Ok(!ready.is_empty());
            }
        }
        Ok(true)
    }

    async fn bytes(&mut self) -> Result<Option<hyper::body::Bytes>, Failure> {
        let reading = self.connection.read(&mut self.body);
        let read = timeout(self.idle, reading).await;
        read.unwrap_or_else(|_| {
            let message = format!("nothing came for {:?}", self.idle);
            Err(Failure::new("timeout", message))
        })
    }

    /// Returns the failure that an error response describes.
    async fn refused(&mut self, status: StatusCode, headers: &HeaderMap) -> Failure {
        let mut text = Vec::new();
        // A body that breaks off is enough: the status alone describes the failure.
        while let Ok(Some(bytes)) = self.bytes().await {
            text.extend_from_slice(&bytes);
            if text.len() > ERROR {
                break;
            }
        }
        text.truncate(ERROR);
        let (kind, message) = error_of(&text);
        let failure = Failure::new(kind, format!("{status}: {message}"));
        let failure = failure.with_status(status.as_u16());
        match retry_after(headers) {
            Some(wait) => failure.with_retry_after(wait),
            None => failure,
        }
    }
}

/// Appends an event, unless the reply has ended: a response has one reply.
fn push_until_finish(ready: &mut VecDeque<Event>, event: Event) {
    if !matches!(ready.back(), Some(Event::Finish { .. })) {
        ready.push_back(event);
    }
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Finish { reason } if reason != TRUNCATED)
}

/// Returns the kind and the message of an error body; `http` and the start of the body if its form is unknown.
fn error_of(text: &[u8]) -> (String, String) {
    let body: Value = serde_json::from_slice(text).unwrap_or_default();
    let error = body.get("error").unwrap_or(&body);
    let named = |name: &str| error.get(name)?.as_str().filter(|value| !value.is_empty());
    // If there is a code, it is more specific than the type.
    let kind = named("code").or_else(|| named("type")).unwrap_or("http");
    let message = named("message").or(error.as_str());
    let message = message.map_or_else(|| beginning(text), str::to_owned);
    (kind.to_owned(), message)
}

fn beginning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.trim().chars().take(EXCERPT).collect()
}

/// Checks that the body can be a reply: bytes that no rule could read are refused.
fn check_headers(headers: &HeaderMap) -> Result<(), Failure> {
    const KNOWN: [&str; 5] = [
        "text/event-stream",
        "application/json",
        "application/x-ndjson",
        "application/jsonl",
        "application/stream+json",
    ];
    let coding = header_text(headers, &CONTENT_ENCODING);
    if !matches!(coding.as_str(), "" | "identity") {
        let message = format!("the answer is encoded as `{coding}`, which was not asked for");
        return Err(Failure::new("content-encoding", message).with_status(200));
    }
    let kind = header_text(headers, &CONTENT_TYPE);
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.is_empty() || KNOWN.contains(&kind) {
        return Ok(());
    }
    let message = format!("the answer is `{kind}`, which no reply is: is the base address right?");
    Err(Failure::new("content-type", message).with_status(200))
}

fn redirect_failure(status: StatusCode, headers: &HeaderMap) -> Failure {
    let to = header_text(headers, &LOCATION);
    let message = format!("{status}: the endpoint is at `{to}` now; redirects are not followed");
    Failure::new("redirect", message).with_status(status.as_u16())
}

fn header_text(headers: &HeaderMap, name: &HeaderName) -> String {
    let value = headers
        .get(name)
        .map(|value| String::from_utf8_lossy(value.as_bytes()));
    let value = value.unwrap_or_default();
    let shown = value.trim().chars().take(EXCERPT);
    match *name {
        LOCATION => shown.collect(),
        _ => shown.collect::<String>().to_ascii_lowercase(),
    }
}
