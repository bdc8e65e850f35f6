//! A stream of genai as a provider.

#[path = "../../demo.rs"]
mod demo;

use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, StreamEnd, ToolCall};
use genai::resolver::{AuthData, Endpoint, Error as ResolveError, ServiceTargetResolver};
use genai::{Client, ModelIden, ServiceTarget};
use ttsr::harness::stream_adapter::{self, EventBuilder};
use ttsr::harness::{EventStream, Failure, Message, Provider, Request, Role};

/// Any provider of genai.
struct GenAi(Client);

impl Provider for GenAi {
    fn send(&mut self, request: &Request) -> EventStream {
        let (client, model) = (self.0.clone(), request.model.clone());
        let request = ChatRequest::new(request.messages.iter().map(message).collect());
        let opening = async move {
            // Usage and tool calls are only reported at the end, and only on request.
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
        // Partial calls are parsed values and not the text that the model wrote, so calls are taken complete from the end.
        // Signatures are only for the provider.
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
    // Without a reason the stream ended early, which is not an answer.
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
