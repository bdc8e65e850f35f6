//! A stream of async-openai as a provider: OpenAI Chat Completions.
//!
//! Texts, images of the user, tool calls, their results, tools, the temperature, the token limit and headers are carried.
//! Chat Completions has no field for reasoning, so a conversation that contains some is refused; so are images of the
//! system or of the model, and images, audio and calls in the old form (`function_call`) in a reply.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::traits::RequestOptionsBuilder;
use async_openai::types::chat::{
    ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls,
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionRequestMessageContentPartImage, ChatCompletionRequestMessageContentPartText,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestToolMessage,
    ChatCompletionRequestUserMessage, ChatCompletionRequestUserMessageContent,
    ChatCompletionRequestUserMessageContentPart, ChatCompletionTool, ChatCompletionTools,
    CreateChatCompletionRequest, CreateChatCompletionStreamResponse, FinishReason, FunctionCall,
    FunctionObject, ImageUrl,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use ttsr::harness::stream_adapter::{self, EventBuilder};
use ttsr::harness::{Content, EventStream, Failure, Message, Provider, Request, Role};

/// OpenAI Chat Completions through async-openai.
pub(crate) struct AsyncOpenAi(pub(crate) Client<OpenAIConfig>);

impl Provider for AsyncOpenAi {
    fn send(&mut self, request: &Request) -> EventStream {
        let client = self.0.clone();
        let written = chat_request(request).and_then(|body| Ok((body, headers(request)?)));
        let opening = async move {
            let (body, headers) = written?;
            let chat = client.chat().headers(headers);
            // As JSON: the client's own types leave out images, which some servers send.
            chat.create_stream_byot(body).await.map_err(failure)
        };
        stream_adapter::chunks(opening, |chunk, parts| read(chunk.map_err(failure)?, parts))
    }
}

fn chat_request(request: &Request) -> Result<CreateChatCompletionRequest, Failure> {
    let mut messages = Vec::new();
    for message in &request.messages {
        add_message(message, &mut messages)?;
    }
    let tools = request.tools.iter().map(|tool| {
        ChatCompletionTools::Function(ChatCompletionTool {
            function: FunctionObject {
                name: tool.name.clone(),
                description: Some(tool.description.clone()),
                parameters: Some(tool.input.clone()),
                strict: None,
            },
        })
    });
    Ok(CreateChatCompletionRequest {
        model: request.model.clone(),
        messages,
        tools: (!request.tools.is_empty()).then(|| tools.collect()),
        temperature: request
            .temperature
            .map(|thousandths| thousandths as f32 / 1000.0),
        max_completion_tokens: request.max_tokens,
        stream: Some(true),
        ..CreateChatCompletionRequest::default()
    })
}

fn add_message(
    message: &Message,
    messages: &mut Vec<ChatCompletionRequestMessage>,
) -> Result<(), Failure> {
    let mut calls = Vec::new();
    let mut has_image = false;
    for content in &message.content {
        match content {
            // The texts and images of a message are one message below.
            Content::Text { .. } => {}
            Content::Image { .. } => match message.role {
                Role::User | Role::Tool => has_image = true,
                Role::System | Role::Assistant => {
                    return Err(unsupported("only a message of the user can have an image"));
                }
            },
            Content::ToolCall { call, tool, input } => {
                let function = FunctionCall {
                    name: tool.clone(),
                    arguments: input.clone(),
                };
                let id = call.clone();
                let call = ChatCompletionMessageToolCall { id, function };
                calls.push(ChatCompletionMessageToolCalls::Function(call));
            }
            // The output of a failed tool is its error message; the API has no flag for it.
            Content::ToolResult { call, output, .. } => {
                let result = ChatCompletionRequestToolMessage {
                    content: output.clone().into(),
                    tool_call_id: call.clone(),
                };
                messages.push(result.into());
            }
            Content::Reasoning { .. } => {
                return Err(unsupported("Chat Completions has no field for reasoning"));
            }
        }
    }
    let text = message.text();
    if message.role == Role::Assistant {
        let said = ChatCompletionRequestAssistantMessage {
            content: (!text.is_empty()).then(|| text.into()),
            tool_calls: (!calls.is_empty()).then_some(calls),
            ..ChatCompletionRequestAssistantMessage::default()
        };
        if said.content.is_some() || said.tool_calls.is_some() {
            messages.push(said.into());
        }
        return Ok(());
    }
    if !calls.is_empty() {
        return Err(unsupported("only a message of the model can call a tool"));
    }
    if has_image {
        let parts: Vec<_> = message.content.iter().filter_map(user_part).collect();
        let content = ChatCompletionRequestUserMessageContent::Array(parts);
        messages.push(ChatCompletionRequestUserMessage::from(content).into());
    } else if !text.is_empty() {
        messages.push(match message.role {
            Role::System => ChatCompletionRequestSystemMessage::from(text).into(),
            _ => ChatCompletionRequestUserMessage::from(text).into(),
        });
    }
    Ok(())
}

/// Returns a text or an image as a part of a message of the user.
fn user_part(content: &Content) -> Option<ChatCompletionRequestUserMessageContentPart> {
    match content {
        Content::Text { text, .. } if !text.is_empty() => {
            Some(ChatCompletionRequestMessageContentPartText::from(text.as_str()).into())
        }
        Content::Image { media_type, data } => {
            let image = ChatCompletionRequestMessageContentPartImage {
                image_url: ImageUrl {
                    url: format!("data:{media_type};base64,{data}"),
                    detail: None,
                },
                ..ChatCompletionRequestMessageContentPartImage::default()
            };
            Some(image.into())
        }
        _ => None,
    }
}

fn headers(request: &Request) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let refused = || unsupported(&format!("`{name}` is no header"));
        let name = HeaderName::try_from(name).map_err(|_| refused())?;
        let value = HeaderValue::try_from(value).map_err(|_| refused())?;
        headers.insert(name, value);
    }
    Ok(headers)
}

#[allow(deprecated, reason = "calls in the old form are refused, not lost")]
fn read(chunk: Value, parts: &mut EventBuilder) -> Result<(), Failure> {
    let mut choices = chunk["choices"].as_array().into_iter().flatten();
    if choices.any(|choice| !choice["delta"]["images"].is_null()) {
        return Err(unsupported("the reply has an image"));
    }
    let chunk: CreateChatCompletionStreamResponse =
        serde_json::from_value(chunk).map_err(|error| Failure::new("client", error.to_string()))?;
    if let Some(usage) = chunk.usage {
        parts.usage(usage.prompt_tokens.into(), usage.completion_tokens.into());
    }
    for choice in chunk.choices {
        let delta = choice.delta;
        if delta.audio.is_some() || delta.function_call.is_some() {
            return Err(unsupported("the reply has audio or a call in the old form"));
        }
        parts.text("text", &delta.content.unwrap_or_default());
        parts.text("refusal", &delta.refusal.unwrap_or_default());
        for call in delta.tool_calls.unwrap_or_default() {
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

fn unsupported(what: &str) -> Failure {
    Failure::new("unsupported", what)
}

fn failure(error: OpenAIError) -> Failure {
    match error {
        OpenAIError::ApiError(error) => Failure::new("api", error.to_string()),
        error => Failure::new("client", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{conversation, events, image_of, reasoning, shown};

    #[test]
    fn calls_results_and_tools_are_in_the_request() {
        let body = chat_request(&conversation()).unwrap();
        let body = serde_json::to_value(body).unwrap();
        let call = serde_json::json!([{
            "id": "call_1", "type": "function",
            "function": { "name": "read", "arguments": "{\"path\":\"a\"}" },
        }]);
        let roles = body["messages"].as_array().unwrap().iter();
        let roles: Vec<_> = roles
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert_eq!(body["messages"][2]["tool_calls"], call);
        assert_eq!(body["messages"][2]["content"], "I look.");
        assert_eq!(body["messages"][3]["tool_call_id"], "call_1");
        assert_eq!(body["messages"][3]["content"], "no such file");
        assert_eq!(body["tools"][0]["function"]["name"], "read");
        assert_eq!(body["tools"][0]["function"]["parameters"]["type"], "object");
        assert_eq!(body["max_completion_tokens"], 100);
        assert_eq!(headers(&conversation()).unwrap()["x-initiator"], "agent");
    }

    #[test]
    fn reasoning_is_refused() {
        let refused = chat_request(&reasoning()).unwrap_err();
        assert_eq!(refused.kind(), "unsupported");
        assert!(refused.to_string().contains("reasoning"), "{refused}");
    }

    #[test]
    fn an_image_of_the_user_is_in_the_request_and_another_is_refused() {
        let body = chat_request(&image_of(Role::User)).unwrap();
        let expected = serde_json::json!([{ "role": "user", "content": [
            { "type": "text", "text": "What is it?" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } },
        ] }]);
        assert_eq!(serde_json::to_value(body).unwrap()["messages"], expected);
        for role in [Role::System, Role::Assistant] {
            let refused = chat_request(&image_of(role)).unwrap_err();
            assert_eq!(refused.kind(), "unsupported");
            assert!(refused.to_string().contains("image"), "{refused}");
        }
    }

    fn chunk(delta: &str, finish: &str) -> Result<Value, Failure> {
        let chunk = format!(
            r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m",
                "choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#
        );
        Ok(serde_json::from_str(&chunk).unwrap())
    }

    #[test]
    fn a_reply_with_a_call_becomes_events() {
        let chunks = [
            chunk(r#"{"content":"I "}"#, "null"),
            chunk(r#"{"content":"look."}"#, "null"),
            chunk(
                r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read","arguments":""}}]}"#,
                "null",
            ),
            chunk(
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\""}}]}"#,
                "null",
            ),
            chunk(
                r#"{"tool_calls":[{"index":0,"function":{"arguments":":\"a\"}"}}]}"#,
                "null",
            ),
            chunk("{}", r#""tool_calls""#),
        ];
        let events = events(chunks, |chunk, parts| read(chunk?, parts)).unwrap();
        let expected = r#"text: I look. / tool-input read call_1: {"path":"a"} / tool_calls"#;
        assert_eq!(shown(&events), expected);
    }

    #[test]
    fn an_image_in_a_reply_is_refused() {
        let image = r#"{"images":[{"type":"image_url","image_url":{"url":"data:,"}}]}"#;
        let chunks = [chunk(image, "null")];
        let refused = events(chunks, |chunk, parts| read(chunk?, parts)).unwrap_err();
        assert_eq!(refused.kind(), "unsupported");
        assert!(refused.to_string().contains("image"), "{refused}");
    }

    #[test]
    fn a_call_in_the_old_form_is_refused() {
        let chunks = [chunk(
            r#"{"function_call":{"name":"read","arguments":"{}"}}"#,
            "null",
        )];
        let refused = events(chunks, |chunk, parts| read(chunk?, parts)).unwrap_err();
        assert_eq!(refused.kind(), "unsupported");
    }
}
