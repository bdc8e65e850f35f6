//! genai's stream as a provider.

#[path = "../../demo.rs"]
mod demo;

use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, StreamEnd, ToolCall};
use genai::resolver::{AuthData, Endpoint, Error as ResolveError, ServiceTargetResolver};
use genai::{Client, ModelIden, ServiceTarget};
use ttsr::harness::stream_adapter::{self, EventBuilder};
use ttsr::harness::{EventStream, Failure, Message, Provider, Request, Role};

/// Any of genai's providers.
struct GenAi(Client);

impl Provider for GenAi {
    fn send(&mut self, request: &Request) -> EventStream {
        let (client, model) = (self.0.clone(), request.model.clone());
        let request = ChatRequest::new(request.messages.iter().map(message).collect());
        let opening = async move {
            // Usage and tool calls are told at the end, and only where they are asked for.
            let options = ChatOptions::default()
                .with_capture_usage(true)
                .with_capture_tool_calls(true);
            let response = client
                .exec_chat_stream(&model, request, Some(&options))
                .await;
            response.map(|response| response.stream).map_err(failure)
        };
        stream_adapter::chunks(opening, |event, parts| {
            read(event.map_err(failure)?, parts);
            Ok(())
        })
    }
}

fn message(message: &Message) -> ChatMessage {
    let text = message.text();
    match message.role {
        Role::System => ChatMessage::system(text),
        Role::Assistant => ChatMessage::assistant(text),
        _ => ChatMessage::user(text),
    }
}

fn read(event: ChatStreamEvent, parts: &mut EventBuilder) {
    match event {
        ChatStreamEvent::Chunk(chunk) => parts.text("text", &chunk.content),
        ChatStreamEvent::ReasoningChunk(chunk) => parts.reasoning("reasoning", &chunk.content),
        ChatStreamEvent::End(end) => finish(end, parts),
        // Calls come as values that grow from chunk to chunk, not as what the model wrote: they are taken
        // whole, from the end. Signatures are for the provider alone.
        ChatStreamEvent::ToolCallChunk(_)
        | ChatStreamEvent::ThoughtSignatureChunk(_)
        | ChatStreamEvent::Start => {}
    }
}

fn finish(end: StreamEnd, parts: &mut EventBuilder) {
    if let Some(usage) = &end.captured_usage {
        let tokens =
            |count: Option<i32>| count.and_then(|count| count.try_into().ok()).unwrap_or(0);
        parts.usage(tokens(usage.prompt_tokens), tokens(usage.completion_tokens));
    }
    let calls = end.captured_tool_calls().unwrap_or_default();
    for ToolCall {
        call_id,
        fn_name,
        fn_arguments,
        ..
    } in calls
    {
        let key = format!("tool/{call_id}");
        parts.tool(&key, fn_name, Some(call_id));
        parts.input(&key, &fn_arguments.to_string());
    }
    // No reason means that the stream ended without one: that is no answer.
    if let Some(reason) = &end.captured_stop_reason {
        parts.finish(&format!("{reason:?}"));
    }
}

fn failure(error: genai::Error) -> Failure {
    Failure::new("client", error.to_string())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    demo::show(|base| {
        let base = format!("{base}/");
        let resolver = ServiceTargetResolver::from_resolver_fn(
            move |target: ServiceTarget| -> Result<ServiceTarget, ResolveError> {
                Ok(ServiceTarget {
                    endpoint: Endpoint::from_owned(base.clone()),
                    auth: AuthData::from_single("none"),
                    model: ModelIden::new(AdapterKind::OpenAI, target.model.model_name),
                })
            },
        );
        GenAi(
            Client::builder()
                .with_service_target_resolver(resolver)
                .build(),
        )
    })
}
