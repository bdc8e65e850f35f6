//! A stream of async-openai as a provider.

#[path = "../../demo.rs"]
mod demo;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
    CreateChatCompletionRequest, CreateChatCompletionStreamResponse, FinishReason,
};
use ttsr::harness::stream_adapter::{self, EventBuilder};
use ttsr::harness::{EventStream, Failure, Message, Provider, Request, Role};

/// OpenAI Chat Completions through async-openai.
struct AsyncOpenAi(Client<OpenAIConfig>);

impl Provider for AsyncOpenAi {
    fn send(&mut self, request: &Request) -> EventStream {
        let client = self.0.clone();
        let request = CreateChatCompletionRequest {
            model: request.model.clone(),
            messages: request.messages.iter().map(message).collect(),
            ..CreateChatCompletionRequest::default()
        };
        let opening = async move { client.chat().create_stream(request).await.map_err(failure) };
        stream_adapter::chunks(opening, |chunk, parts| read(chunk.map_err(failure)?, parts))
    }
}

fn message(message: &Message) -> ChatCompletionRequestMessage {
    let text = message.text();
    match message.role {
        Role::System => ChatCompletionRequestSystemMessage::from(text).into(),
        Role::Assistant => ChatCompletionRequestAssistantMessage::from(text).into(),
        _ => ChatCompletionRequestUserMessage::from(text).into(),
    }
}

fn read(
    chunk: CreateChatCompletionStreamResponse,
    parts: &mut EventBuilder,
) -> Result<(), Failure> {
    if let Some(usage) = chunk.usage {
        parts.usage(usage.prompt_tokens.into(), usage.completion_tokens.into());
    }
    for choice in chunk.choices {
        parts.text("text", &choice.delta.content.unwrap_or_default());
        parts.text("refusal", &choice.delta.refusal.unwrap_or_default());
        for call in choice.delta.tool_calls.unwrap_or_default() {
            let key = format!("tool/{}", call.index);
            let Some(function) = call.function else {
                continue;
            };
            if let Some(name) = &function.name {
                parts.tool(&key, name, call.id.as_deref());
            }
            parts.input(&key, &function.arguments.unwrap_or_default());
        }
        if let Some(reason) = choice.finish_reason {
            parts.finish(match reason {
                FinishReason::Stop => "stop",
                FinishReason::Length => "length",
                FinishReason::ToolCalls | FinishReason::FunctionCall => "tool_calls",
                FinishReason::ContentFilter => "content_filter",
            });
        }
    }
    Ok(())
}

fn failure(error: OpenAIError) -> Failure {
    match error {
        OpenAIError::ApiError(error) => Failure::new("api", error.to_string()),
        error => Failure::new("client", error.to_string()),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    demo::show(|base| {
        let config = OpenAIConfig::new().with_api_base(base).with_api_key("none");
        AsyncOpenAi(Client::with_config(config))
    })
}
