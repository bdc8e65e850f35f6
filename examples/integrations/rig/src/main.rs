//! A stream of rig as a provider.

#[path = "../../demo.rs"]
mod demo;

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use rig_core::DynModel;
use rig_core::completion::{CompletionRequest, CompletionResponse};
use rig_core::error::ProviderError;
use rig_core::message::{AssistantContent, Message as RigMessage};
use rig_core::operation::Completion;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::streaming::{Item, StreamEvent, Streamed};
use ttsr::harness::stream_adapter::{self, EventBuilder};
use ttsr::harness::{EventStream, Failure, Message, Provider, Request, Role};

/// Any model of rig.
struct Rig(DynModel<Completion>);

impl Provider for Rig {
    fn send(&mut self, request: &Request) -> EventStream {
        let model = self.0.clone();
        let mut history: Vec<RigMessage> = request.messages.iter().map(message).collect();
        let prompt = history.pop().unwrap_or_else(|| RigMessage::user(""));
        let asked = CompletionRequest::new(prompt)
            .messages(history)
            .model::<String>(Some(request.model.clone()));
        let opening = async move {
            let streamed = model.stream(asked).map_err(failure)?;
            Ok(WithEnd(Some(streamed)))
        };
        stream_adapter::chunks(opening, |seen, parts| match seen {
            Seen::Item(item) => {
                read(item.map_err(failure)?, parts);
                Ok(())
            }
            Seen::End(response) => {
                finish(&response, parts);
                Ok(())
            }
        })
    }
}

/// A stream of rig followed by its aggregated response. A reply that was cut off ends with an error instead.
struct WithEnd(Option<Streamed<Completion>>);

enum Seen {
    Item(Result<Item<StreamEvent>, ProviderError>),
    End(Box<CompletionResponse>),
}

impl Stream for WithEnd {
    type Item = Seen;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Seen>> {
        let Some(streamed) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let Poll::Ready(item) = Pin::new(&mut *streamed).poll_next(cx) else {
            return Poll::Pending;
        };
        let seen = match item {
            Some(item) => Seen::Item(item),
            None => {
                let response = streamed.partial();
                self.0 = None;
                Seen::End(Box::new(response))
            }
        };
        Poll::Ready(Some(seen))
    }
}

fn message(message: &Message) -> RigMessage {
    let text = message.text();
    match message.role {
        Role::System => RigMessage::system(text),
        Role::Assistant => RigMessage::assistant(text),
        _ => RigMessage::user(text),
    }
}

fn read(item: Item<StreamEvent>, parts: &mut EventBuilder) {
    let Item::Event(event) = item else {
        return;
    };
    let key = event.part().index().to_string();
    match event {
        StreamEvent::Start {
            name: Some(name), ..
        } => parts.tool(&key, name.as_str(), None),
        StreamEvent::Start { .. } => {}
        StreamEvent::Text { text, .. } => parts.text(&key, &text),
        StreamEvent::Reasoning { text, .. } => parts.reasoning(&key, &text),
        StreamEvent::Arguments { json, .. } => parts.input(&key, &json),
        StreamEvent::End { content, .. } => {
            if let AssistantContent::ToolCall(call) = content {
                parts.tool(
                    &key,
                    call.function.name.as_str(),
                    Some(&call.id.to_string()),
                );
            }
            parts.end(&key);
        }
    }
}

fn finish(response: &CompletionResponse, parts: &mut EventBuilder) {
    let usage = &response.usage;
    if let (Some(input), Some(output)) = (usage.input_tokens, usage.output_tokens) {
        parts.usage(input, output);
    }
    let reason = response.finish_reason();
    parts.finish(&reason.map_or_else(|| "stop".to_owned(), |reason| format!("{reason:?}")));
}

fn failure(error: ProviderError) -> Failure {
    Failure::new("client", error.to_string())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    demo::show(|base| {
        let config = OpenAIConfig::new("none").with_base_url(base);
        Rig(config.client().chat("gpt-4o-mini").erase())
    })
}
