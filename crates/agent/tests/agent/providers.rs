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
use ttsr_agent::providers::{Endpoint, ProviderApi, Retries};
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
