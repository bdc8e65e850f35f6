//! Providers over real sockets: a local server replays recorded replies, cut, slow and broken.

mod chain;
mod close;
mod faults;
mod recordings;
mod requests;
mod retries;
mod server;

use std::future::poll_fn;
use std::time::Duration;

use ttsr::harness::{Failure, Message, Provider, Request};
use ttsr::{Channel, Event};
use ttsr_agent::providers::{Endpoint, EndpointError, EndpointErrorKind, ProviderApi, Retries};
use ttsr_wire::Reader;

use server::{Plan, Server};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// The result of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Came {
    events: Vec<Event>,
    failure: Option<Failure>,
}

impl Came {
    /// Returns the text of a channel.
    fn text(&self, channel: Channel) -> String {
        let mut kinds = Vec::new();
        let mut text = Vec::new();
        for event in &self.events {
            match event {
                Event::PartStart { channel, .. } => kinds.push(*channel),
                Event::Delta { part, bytes } if kinds[part.0 as usize] == channel => {
                    text.extend_from_slice(bytes);
                }
                _ => {}
            }
        }
        String::from_utf8(text).unwrap()
    }

    fn kind(&self) -> &str {
        self.failure.as_ref().map_or("", Failure::kind)
    }

    fn is_finished(&self) -> bool {
        matches!(self.events.last(), Some(Event::Finish { .. }))
    }
}

fn request() -> Request {
    Request::new("a-model", vec![Message::user("Go.")])
}

#[test]
fn an_endpoint_is_the_vendors_unless_another_is_named() {
    for (api, base, variable) in [
        (
            ProviderApi::OpenAiChat,
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
        ),
        (
            ProviderApi::OpenAiResponses,
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
        ),
        (
            ProviderApi::AnthropicMessages,
            "https://api.anthropic.com/v1",
            "ANTHROPIC_API_KEY",
        ),
    ] {
        assert_eq!((api.base(), api.key_variable()), (base, variable));
        // Over plain HTTP no authority of the system is needed.
        let local = Endpoint::at(api, "http://127.0.0.1:9/v1").unwrap();
        assert_eq!(local.api(), api);
        let error = local.key_from_env("TTSR_NO_SUCH_KEY").unwrap_err();
        assert_eq!(error.kind(), EndpointErrorKind::Key);
        assert!(error.to_string().contains("TTSR_NO_SUCH_KEY"), "{error}");
        match Endpoint::new(api) {
            Ok(endpoint) => assert_eq!(endpoint.api(), api),
            // A system without any authority.
            Err(error) => assert_eq!(error.kind(), EndpointErrorKind::TrustedRoots),
        }
    }
    let error = Endpoint::at(ProviderApi::OpenAiChat, "ftp://127.0.0.1").unwrap_err();
    assert_eq!(error.kind(), EndpointErrorKind::Address);
    assert!(error.to_string().contains("`ftp://127.0.0.1`"), "{error}");
    let error = local_trust(b"-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n");
    assert_eq!(error.kind(), EndpointErrorKind::TrustedRoots);
}

fn local_trust(pem: &[u8]) -> EndpointError {
    let endpoint = Endpoint::at(ProviderApi::OpenAiChat, "http://127.0.0.1:9/v1").unwrap();
    endpoint.trust(&[pem.to_vec()]).unwrap_err()
}

/// An endpoint without retries.
fn endpoint(api: ProviderApi, server: &Server) -> Endpoint {
    let endpoint = Endpoint::at(api, &server.base()).unwrap();
    endpoint.retries(Retries::none())
}

/// Retries with short waits.
fn soon(most: u32) -> Retries {
    Retries {
        most,
        first: Duration::from_millis(1),
        longest: Duration::from_millis(50),
    }
}

async fn ask(provider: &mut dyn Provider, request: &Request) -> Came {
    let mut stream = provider.send(request);
    let mut came = Came::default();
    while let Some(item) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        match item {
            Ok(event) => came.events.push(event),
            Err(failure) => {
                came.failure = Some(failure);
                break;
            }
        }
    }
    came
}

/// Serves one plan to one request.
async fn play(api: ProviderApi, plan: Plan) -> Came {
    let server = Server::start([plan]).await;
    ask(&mut endpoint(api, &server), &request()).await
}

/// Returns the events of the first reply in a body, as the wire reader returns them.
fn first_reply(body: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut reader = Reader::new("reply");
    let mut keep = |_: &str, event: Event| events.push(event);
    reader.push(body, &mut keep);
    reader.finish(&mut keep);
    let end = events
        .iter()
        .position(|event| matches!(event, Event::Finish { .. }));
    events.truncate(end.map_or(events.len(), |end| end + 1));
    events
}

/// A small reply of each API: text, and a tool call.
fn small(api: ProviderApi) -> &'static [u8] {
    match api {
        ProviderApi::OpenAiChat => include_bytes!("providers/chat.sse"),
        ProviderApi::OpenAiResponses => include_bytes!("providers/responses.sse"),
        ProviderApi::AnthropicMessages => include_bytes!("providers/messages.sse"),
        other => panic!("no reply of {other:?}"),
    }
}
