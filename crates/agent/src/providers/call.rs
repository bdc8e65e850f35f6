//! A request in progress: connect, send, read, and retry until an event of the reply was returned.

use std::collections::VecDeque;

use hyper::Request as HttpRequest;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT,
};
use tokio::time::{sleep, timeout};

use super::api::ProviderApi;
use super::body::body;
use super::endpoint::{Endpoint, ProviderNotice};
use super::mask::KeyMask;
use super::response::ResponseStream;
use super::retry::NotRetriedReason;
use super::signed_reasoning::SignedReasoningReader;
use super::transport;
use ttsr::Event;
use ttsr::harness::Failure;
use ttsr::harness::Request;

/// The most events that are buffered before a reply begins.
const MAX_HELD: usize = 1_000;

/// A reply that is requested or being received. It owns the connection.
pub(super) struct PendingReply {
    endpoint: Endpoint,
    /// The request, or the reason why it cannot be sent.
    request: Result<HttpRequest<String>, Failure>,
    response: Option<ResponseStream>,
    model: String,
    /// The number of retries so far.
    times: u32,
    /// The events before the reply began: usage and unscanned counts.
    held: VecDeque<Event>,
    mask: KeyMask,
    has_begun: bool,
    is_over: bool,
}

impl PendingReply {
    pub(super) fn new(endpoint: &Endpoint, request: &Request) -> PendingReply {
        PendingReply {
            endpoint: endpoint.clone(),
            request: http_request(endpoint, request),
            response: None,
            model: request.model.clone(),
            times: 0,
            held: VecDeque::new(),
            mask: KeyMask::new(endpoint.key.clone()),
            has_begun: false,
            is_over: false,
        }
    }

    /// Returns the next event, and the state that returns the one after it.
    pub(super) async fn next(mut self) -> Option<(Result<Event, Failure>, PendingReply)> {
        loop {
            if self.has_begun
                && let Some(event) = self.held.pop_front()
            {
                return Some((Ok(event), self));
            }
            if self.is_over {
                return None;
            }
            match self.advance().await {
                Ok(true) => {}
                Ok(false) => {
                    self.is_over = true;
                    self.mask.flush(&mut self.held);
                }
                Err(failure) => {
                    self.response = None;
                    if let Some(failure) = self.wait_for_retry(failure).await {
                        self.is_over = true;
                        return Some((Err(self.redacted(failure)), self));
                    }
                }
            }
        }
    }

    /// Connects, or reads one event; returns false at the end of the reply.
    async fn advance(&mut self) -> Result<bool, Failure> {
        let Some(response) = &mut self.response else {
            let request = self.request.clone()?;
            let mut response = connect_and_send(&self.endpoint, request).await?;
            if self.endpoint.api == ProviderApi::AnthropicMessages {
                let signed_reasoning = self.endpoint.signed_reasoning.clone();
                response.keep_signed_reasoning(SignedReasoningReader::new(
                    signed_reasoning,
                    self.model.clone(),
                ));
            }
            self.response = Some(response);
            return Ok(true);
        };
        let Some(event) = response.next().await else {
            return Ok(false);
        };
        match event? {
            // No event of the reply was returned yet, so the error is handled like an error response.
            Event::Error { kind, message } if !self.has_begun => {
                return Err(Failure::new(kind, message).with_status(200));
            }
            event => {
                self.has_begun |= !matches!(event, Event::Usage { .. } | Event::Unscanned { .. });
                // A provider that sends only counts must not exhaust the memory.
                self.has_begun |= self.held.len() >= MAX_HELD;
                self.mask.push(event, &mut self.held);
            }
        }
        Ok(true)
    }

    /// Waits until the request may be retried; returns the failure if it may not.
    async fn wait_for_retry(&mut self, failure: Failure) -> Option<Failure> {
        if self.has_begun {
            return Some(failure);
        }
        let wait = match self.endpoint.retries.wait(&failure, self.times) {
            Ok(wait) => wait,
            Err(NotRetriedReason::Never) => return Some(failure),
            Err(NotRetriedReason::TooLong { asked, longest }) => {
                self.notify(&ProviderNotice::NotRetried {
                    failure: self.redacted(failure.clone()),
                    asked,
                    longest,
                });
                let message = format!(
                    "{} (the provider asks to wait {asked:?}; at most {longest:?} are waited)",
                    failure.message()
                );
                return Some(failure.with_message(message));
            }
        };
        self.times += 1;
        self.held.clear();
        self.mask = KeyMask::new(self.endpoint.key.clone());
        self.notify(&ProviderNotice::Retrying {
            failure: self.redacted(failure),
            wait,
            times: self.times,
        });
        sleep(wait).await;
        None
    }

    fn notify(&self, notice: &ProviderNotice) {
        if let Some(watch) = &self.endpoint.watch {
            watch(notice);
        }
    }

    /// Returns the failure without the key.
    fn redacted(&self, failure: Failure) -> Failure {
        let message = self.endpoint.redact(failure.message());
        failure.with_message(message)
    }
}

impl Endpoint {
    fn redact(&self, text: &str) -> String {
        match &self.key {
            Some(key) => key.redact(text),
            None => text.to_owned(),
        }
    }
}

/// Connects, sends the request, and waits for the head of the response.
async fn connect_and_send(
    endpoint: &Endpoint,
    request: HttpRequest<String>,
) -> Result<ResponseStream, Failure> {
    let Endpoint {
        address,
        trust,
        timeouts,
        ..
    } = endpoint;
    let connecting = transport::open(address, trust.as_ref());
    let connection = timeout(timeouts.connect, connecting).await;
    let late = |what: &str| Failure::new("timeout", format!("{what} from {}", address.authority));
    let mut connection = connection.unwrap_or_else(|_| {
        Err(late(&format!(
            "no connection within {:?}",
            timeouts.connect
        )))
    })?;
    let head = timeout(timeouts.head, connection.send(request)).await;
    let head =
        head.unwrap_or_else(|_| Err(late(&format!("no answer within {:?}", timeouts.head))))?;
    ResponseStream::new(connection, head, timeouts.idle).await
}

fn http_request(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest<String>, Failure> {
    let Endpoint { api, address, .. } = endpoint;
    let is_openai = address.host == "api.openai.com";
    let mut sent = HttpRequest::post(address.path(api.path()))
        .header(HOST, &address.authority)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream")
        .header(ACCEPT_ENCODING, "identity")
        .header(USER_AGENT, concat!("ttsr/", env!("CARGO_PKG_VERSION")))
        .body(body(
            *api,
            is_openai,
            request,
            &endpoint.more,
            &endpoint.signed_reasoning,
        )?)
        .map_err(|error| Failure::new("header", error.to_string()))?;
    let headers = sent.headers_mut();
    headers.extend(api.header());
    for (name, value) in &request.headers {
        let (name, value) = header(name, value)?;
        headers.insert(name, value);
    }
    if let Some(key) = &endpoint.key {
        let (name, value) = api.authorization(key);
        headers.insert(name, value);
    }
    Ok(sent)
}

/// Parses a header of the host or of a rule. Headers that determine the destination, the sender or the framing are
/// reserved.
fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    const OURS: [HeaderName; 8] = [
        AUTHORIZATION,
        HOST,
        CONNECTION,
        CONTENT_LENGTH,
        CONTENT_TYPE,
        TRANSFER_ENCODING,
        ACCEPT_ENCODING,
        HeaderName::from_static("x-api-key"),
    ];
    let known = name.parse::<HeaderName>();
    let known =
        known.map_err(|_| Failure::new("header", format!("`{name}` is no name of a header")))?;
    if OURS.contains(&known) {
        return Err(Failure::new(
            "header",
            format!("`{known}` is the endpoint's own header"),
        ));
    }
    let value = HeaderValue::from_str(value);
    let value = value.map_err(|_| {
        Failure::new(
            "header",
            format!("the value of `{known}` is no text for a header"),
        )
    })?;
    Ok((known, value))
}
