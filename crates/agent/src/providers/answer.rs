//! One answer: the head decides what the body is, the body becomes events.

use std::collections::VecDeque;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use super::retry::retry_after;
use super::sealed::Seals;
use crate::http::Connection;
use ttsr::Event;
use ttsr::harness::Failure;
use ttsr_wire::Reader;

/// Most bytes read of an error.
const ERROR: usize = 64 << 10;

/// Most characters shown of an error that says nothing in a form we know.
const EXCERPT: usize = 300;

/// The reason that readers give to a reply that its provider did not end.
const TRUNCATED: &str = "truncated";

/// A reply on its way. Dropping it closes the connection.
pub(super) struct Answer {
    connection: Connection,
    body: Incoming,
    reader: Reader,
    /// Reads along, where reasoning is signed.
    seals: Option<Seals>,
    ready: VecDeque<Event>,
    /// Longest silence.
    idle: Duration,
    is_finished: bool,
}

impl Answer {
    /// The reply behind a head, or why it is none.
    pub(super) async fn new(
        connection: Connection,
        response: Response<Incoming>,
        idle: Duration,
    ) -> Result<Answer, Failure> {
        let (head, body) = response.into_parts();
        let mut answer = Answer {
            connection,
            body,
            reader: Reader::new("reply"),
            seals: None,
            ready: VecDeque::new(),
            idle,
            is_finished: false,
        };
        match head.status {
            StatusCode::OK => acceptable(&head.headers).map(|()| answer),
            status if status.is_redirection() => Err(redirected(status, &head.headers)),
            status => Err(answer.refused(status, &head.headers).await),
        }
    }

    /// Has the reply's signed reasoning kept, once the reply is complete.
    pub(super) fn keep_seals(&mut self, seals: Seals) {
        self.seals = Some(seals);
    }

    /// The next event; none after the end of the reply.
    pub(super) async fn next(&mut self) -> Option<Result<Event, Failure>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.is_finished = matches!(event, Event::Finish { .. });
                if let (true, Some(seals)) = (self.is_finished, &mut self.seals) {
                    seals.finish();
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
                    // What is incomplete is not read: it may say something else when it is whole.
                    self.is_finished = true;
                    return Some(Err(failure));
                }
            }
        }
    }

    /// Reads on; false where there is nothing left and the reply has no end.
    async fn read(&mut self) -> Result<bool, Failure> {
        let bytes = self.bytes().await?;
        if let (Some(seals), Some(bytes)) = (&mut self.seals, &bytes) {
            seals.push(bytes);
        }
        let Answer { reader, ready, .. } = self;
        match bytes {
            Some(bytes) => reader.push(&bytes, &mut |_, event| keep(ready, event)),
            None => {
                let mut last = Vec::new();
                reader.finish(&mut |_, event| last.push(event));
                if !last.iter().any(is_end) {
                    // The parts that were open did not end: their calls must not run.
                    last.retain(|event| matches!(event, Event::Unscanned { .. }));
                }
                last.into_iter().for_each(|event| keep(ready, event));
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

    /// What an answer that is not a reply says.
    async fn refused(&mut self, status: StatusCode, headers: &HeaderMap) -> Failure {
        let mut text = Vec::new();
        // As much as comes: the status alone is an answer too.
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

/// One request, one reply: what follows its end is not part of it.
fn keep(ready: &mut VecDeque<Event>, event: Event) {
    if !matches!(ready.back(), Some(Event::Finish { .. })) {
        ready.push_back(event);
    }
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Finish { reason } if reason != TRUNCATED)
}

/// Kind and message of an error's body; `http` and its beginning, where it is in no form we know.
fn error_of(text: &[u8]) -> (String, String) {
    let body: Value = serde_json::from_slice(text).unwrap_or_default();
    let error = body.get("error").unwrap_or(&body);
    let named = |name: &str| error.get(name)?.as_str().filter(|value| !value.is_empty());
    // The code says more than the type, where there is one.
    let kind = named("code").or_else(|| named("type")).unwrap_or("http");
    let message = named("message").or(error.as_str());
    let message = message.map_or_else(|| beginning(text), str::to_owned);
    (kind.to_owned(), message)
}

fn beginning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.trim().chars().take(EXCERPT).collect()
}

/// Whether the body can be a reply: bytes that no rule could read are not let in.
fn acceptable(headers: &HeaderMap) -> Result<(), Failure> {
    const KNOWN: [&str; 5] = [
        "text/event-stream",
        "application/json",
        "application/x-ndjson",
        "application/jsonl",
        "application/stream+json",
    ];
    let coding = named(headers, &CONTENT_ENCODING);
    if !matches!(coding.as_str(), "" | "identity") {
        let message = format!("the answer is encoded as `{coding}`, which was not asked for");
        return Err(Failure::new("content-encoding", message).with_status(200));
    }
    let kind = named(headers, &CONTENT_TYPE);
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.is_empty() || KNOWN.contains(&kind) {
        return Ok(());
    }
    let message = format!("the answer is `{kind}`, which no reply is: is the base address right?");
    Err(Failure::new("content-type", message).with_status(200))
}

fn redirected(status: StatusCode, headers: &HeaderMap) -> Failure {
    let to = named(headers, &LOCATION);
    let message = format!("{status}: the endpoint is at `{to}` now; redirects are not followed");
    Failure::new("redirect", message).with_status(status.as_u16())
}

fn named(headers: &HeaderMap, name: &HeaderName) -> String {
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
