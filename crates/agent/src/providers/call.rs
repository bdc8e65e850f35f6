//! One request under way: connect, ask, read; and again, while nothing of a reply was given out.

use std::collections::VecDeque;

use hyper::Request as HttpRequest;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT,
};
use tokio::time::{sleep, timeout};

use super::answer::Answer;
use super::api::Api;
use super::body::body;
use super::endpoint::{Endpoint, Notice};
use super::mask::Mask;
use super::retry::NotAgain;
use super::sealed::Seals;
use super::transport;
use ttsr::Event;
use ttsr::harness::Failure;
use ttsr::harness::Request;

/// Most events that are held back before a reply begins.
const MOST_HELD: usize = 1_000;

/// A reply that is asked for or arrives. It owns the connection.
pub(super) struct Pending {
    endpoint: Endpoint,
    /// What to send; the failure if it cannot be.
    request: Result<HttpRequest<String>, Failure>,
    answer: Option<Answer>,
    model: String,
    /// How often the request was sent again.
    times: u32,
    /// What came before the reply began: counts, mostly.
    held: VecDeque<Event>,
    mask: Mask,
    has_begun: bool,
    is_over: bool,
}

impl Pending {
    pub(super) fn new(endpoint: &Endpoint, request: &Request) -> Pending {
        Pending {
            endpoint: endpoint.clone(),
            request: http_request(endpoint, request),
            answer: None,
            model: request.model.clone(),
            times: 0,
            held: VecDeque::new(),
            mask: Mask::new(endpoint.key.clone()),
            has_begun: false,
            is_over: false,
        }
    }

    /// The next event, and what gives the one after it.
    pub(super) async fn next(mut self) -> Option<(Result<Event, Failure>, Pending)> {
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
                    self.answer = None;
                    if let Some(failure) = self.goes_on(failure).await {
                        self.is_over = true;
                        return Some((Err(self.told(failure)), self));
                    }
                }
            }
        }
    }

    /// Asks, or reads one event; false at the end of the reply.
    async fn advance(&mut self) -> Result<bool, Failure> {
        let Some(answer) = &mut self.answer else {
            let request = self.request.clone()?;
            let mut answer = ask(&self.endpoint, request).await?;
            if self.endpoint.api == Api::AnthropicMessages {
                let sealed = self.endpoint.sealed.clone();
                answer.keep_seals(Seals::new(sealed, self.model.clone()));
            }
            self.answer = Some(answer);
            return Ok(true);
        };
        let Some(event) = answer.next().await else {
            return Ok(false);
        };
        match event? {
            // Nothing of the reply was given out, so this is an answer like a 500.
            Event::Error { kind, message } if !self.has_begun => {
                return Err(Failure::new(kind, message).with_status(200));
            }
            event => {
                self.has_begun |= !matches!(event, Event::Usage { .. } | Event::Unscanned { .. });
                // A provider that only counts must not fill the memory.
                self.has_begun |= self.held.len() >= MOST_HELD;
                self.mask.push(event, &mut self.held);
            }
        }
        Ok(true)
    }

    /// Waits until the request may be sent again; the failure, if it is not.
    async fn goes_on(&mut self, failure: Failure) -> Option<Failure> {
        if self.has_begun {
            return Some(failure);
        }
        let wait = match self.endpoint.retries.wait(&failure, self.times) {
            Ok(wait) => wait,
            Err(NotAgain::Never) => return Some(failure),
            Err(NotAgain::TooLong { asked, longest }) => {
                self.tell(&Notice::NotRetried {
                    failure: self.told(failure.clone()),
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
        self.mask = Mask::new(self.endpoint.key.clone());
        self.tell(&Notice::Retrying {
            failure: self.told(failure),
            wait,
            times: self.times,
        });
        sleep(wait).await;
        None
    }

    fn tell(&self, notice: &Notice) {
        if let Some(watch) = &self.endpoint.watch {
            watch(notice);
        }
    }

    /// The failure as hosts may see it.
    fn told(&self, failure: Failure) -> Failure {
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

/// Connects, sends the request, and waits for the head of its answer.
async fn ask(endpoint: &Endpoint, request: HttpRequest<String>) -> Result<Answer, Failure> {
    let Endpoint {
        address,
        trust,
        patience,
        ..
    } = endpoint;
    let connecting = transport::open(address, trust.as_ref());
    let connection = timeout(patience.connect, connecting).await;
    let late = |what: &str| Failure::new("timeout", format!("{what} from {}", address.authority));
    let mut connection = connection.unwrap_or_else(|_| {
        Err(late(&format!(
            "no connection within {:?}",
            patience.connect
        )))
    })?;
    let head = timeout(patience.head, connection.ask(request)).await;
    let head =
        head.unwrap_or_else(|_| Err(late(&format!("no answer within {:?}", patience.head))))?;
    Answer::new(connection, head, patience.idle).await
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
            &endpoint.sealed,
        ))
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

/// A header of the host or of a rule, which must not change where a request goes or who sends it.
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
