//! Request bodies of each API.
//!
//! Source of the formats: `CreateChatCompletionRequest` and `CreateResponse` in OpenAI's OpenAPI document (`v1`), and
//! Anthropic's `POST /v1/messages` (`anthropic-version: 2023-06-01`). Images are
//! `ChatCompletionRequestMessageContentPartImage` and `InputImageContent` of the OpenAPI document, with a `data:` URL, and
//! the `image` block with a `base64` source of Anthropic's.

use serde_json::{Map, Value, json};

use super::api::ProviderApi;
use super::conversation::{
    AssistantItem, ConversationTurn, FunctionCall, ProviderConversation, ToolResult, UserItem,
};
use super::signed_reasoning::SignedReasoning;
use ttsr::harness::{Failure, Request, Tool};

/// The default of `max_tokens`, which Anthropic requires in every request.
const MAX_TOKENS: u32 = 8192;

/// Returns the body of a request. `more` are members that the host adds, or whose values it replaces.
///
/// # Errors
/// If the request contains an image at a position where the API does not accept one.
pub(super) fn body(
    api: ProviderApi,
    is_openai: bool,
    request: &Request,
    more: &Map<String, Value>,
    signed_reasoning: &SignedReasoning,
) -> Result<String, Failure> {
    let conversation = ProviderConversation::new(&request.messages)?;
    let mut body = match api {
        ProviderApi::OpenAiChat => chat(&conversation, request, is_openai),
        ProviderApi::OpenAiResponses => responses(&conversation, request),
        ProviderApi::AnthropicMessages => messages(&conversation, request, signed_reasoning),
    };
    body.insert("model".into(), json!(request.model));
    body.insert("stream".into(), json!(true));
    if let Some(thousandths) = request.temperature {
        body.insert("temperature".into(), json!(f64::from(thousandths) / 1000.0));
    }
    let more = more
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    body.extend(more);
    Ok(Value::Object(body).to_string())
}

fn chat(
    conversation: &ProviderConversation,
    request: &Request,
    is_openai: bool,
) -> Map<String, Value> {
    let mut messages = Vec::new();
    if !conversation.system.is_empty() {
        messages.push(json!({"role": "system", "content": conversation.system}));
    }
    for turn in &conversation.turns {
        match turn {
            ConversationTurn::User { results, items } => {
                messages.extend(results.iter().map(|result| {
                    json!({"role": "tool", "tool_call_id": result.id, "content": result.output})
                }));
                if !items.is_empty() {
                    messages.push(json!({"role": "user", "content": chat_content(items)}));
                }
            }
            ConversationTurn::Assistant(pieces) => messages.push(chat_assistant(pieces)),
        }
    }
    let mut body = Map::new();
    body.insert("messages".into(), messages.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if let Some(most) = request.max_tokens {
        // Compatible servers know the old name; OpenAI refuses it for newer models.
        let name = if is_openai {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        body.insert(name.into(), json!(most));
    }
    tools(&mut body, request, |tool| {
        let function = json!({
            "name": tool.name, "description": tool.description, "parameters": tool.input,
        });
        json!({"type": "function", "function": function})
    });
    body
}

/// Returns one text, which every compatible server accepts, or a list of parts if there is an image.
fn chat_content(items: &[UserItem]) -> Value {
    if let Some(texts) = only_texts(items) {
        return texts.join("\n\n").into();
    }
    let parts = items.iter().map(|item| match item {
        UserItem::Text(text) => json!({"type": "text", "text": text}),
        UserItem::Image { media_type, data } => {
            json!({"type": "image_url", "image_url": {"url": data_url(media_type, data)}})
        }
    });
    parts.collect()
}

fn chat_assistant(pieces: &[AssistantItem]) -> Value {
    let text = text_of(pieces);
    let calls: Vec<Value> = calls_of(pieces)
        .map(|call| {
            let function = json!({"name": call.tool, "arguments": call.input});
            json!({"id": call.id, "type": "function", "function": function})
        })
        .collect();
    let content = if text.is_empty() {
        Value::Null
    } else {
        text.into()
    };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn responses(conversation: &ProviderConversation, request: &Request) -> Map<String, Value> {
    let mut input = Vec::new();
    for turn in &conversation.turns {
        match turn {
            ConversationTurn::User { results, items } => {
                input.extend(results.iter().map(|result| {
                    json!({"type": "function_call_output", "call_id": result.id, "output": result.output})
                }));
                input.extend(responses_messages(items));
            }
            ConversationTurn::Assistant(pieces) => {
                input.extend(pieces.iter().map(|piece| match piece {
                    AssistantItem::Text(text) => json!({"role": "assistant", "content": text}),
                    AssistantItem::FunctionCall(call) => json!({
                        "type": "function_call", "call_id": call.id, "name": call.tool,
                        "arguments": call.input,
                    }),
                }))
            }
        }
    }
    let mut body = Map::new();
    body.insert("input".into(), input.into());
    // The whole conversation is sent each time, so the server need not store it.
    body.insert("store".into(), json!(false));
    if !conversation.system.is_empty() {
        body.insert("instructions".into(), json!(conversation.system));
    }
    if let Some(most) = request.max_tokens {
        body.insert("max_output_tokens".into(), json!(most));
    }
    tools(&mut body, request, |tool| {
        json!({
            "type": "function", "name": tool.name, "description": tool.description,
            "parameters": tool.input, "strict": false,
        })
    });
    body
}

/// Returns one message for each text, or one message of all parts if there is an image, so that the model sees the
/// image with its texts.
fn responses_messages(items: &[UserItem]) -> Vec<Value> {
    if let Some(texts) = only_texts(items) {
        let messages = texts.into_iter();
        let messages = messages.map(|text| json!({"role": "user", "content": text}));
        return messages.collect();
    }
    let parts = items.iter().map(|item| match item {
        UserItem::Text(text) => json!({"type": "input_text", "text": text}),
        // The format requires `detail`; `auto` is its default.
        UserItem::Image { media_type, data } => json!({
            "type": "input_image", "detail": "auto", "image_url": data_url(media_type, data),
        }),
    });
    let parts: Vec<Value> = parts.collect();
    vec![json!({"role": "user", "content": parts})]
}

fn messages(
    conversation: &ProviderConversation,
    request: &Request,
    signed_reasoning: &SignedReasoning,
) -> Map<String, Value> {
    let turns = conversation.turns.iter().map(|turn| match turn {
        ConversationTurn::User { results, items } => {
            let results = results.iter().map(anthropic_result);
            let items = items.iter().map(anthropic_user_block);
            json!({"role": "user", "content": results.chain(items).collect::<Vec<_>>()})
        }
        ConversationTurn::Assistant(pieces) => {
            let mut blocks: Vec<Value> = pieces.iter().map(anthropic_block).collect();
            let first = calls_of(pieces).next();
            let signed =
                first.map(|call| signed_reasoning.blocks_for_call(&request.model, &call.id));
            // From the last block on, so that insertions do not shift the indices of the blocks before.
            for block in signed.unwrap_or_default().into_iter().rev() {
                blocks.insert(block.place.min(blocks.len()), block.content);
            }
            json!({"role": "assistant", "content": blocks})
        }
    });
    let mut body = Map::new();
    body.insert("messages".into(), turns.collect::<Vec<_>>().into());
    let most = request.max_tokens.unwrap_or(MAX_TOKENS);
    body.insert("max_tokens".into(), json!(most));
    if !conversation.system.is_empty() {
        body.insert("system".into(), json!(conversation.system));
    }
    tools(
        &mut body,
        request,
        |tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.input}),
    );
    body
}

fn anthropic_result(result: &ToolResult) -> Value {
    json!({
        "type": "tool_result", "tool_use_id": result.id, "content": result.output,
        "is_error": result.is_error,
    })
}

fn anthropic_user_block(item: &UserItem) -> Value {
    match item {
        UserItem::Text(text) => json!({"type": "text", "text": text}),
        UserItem::Image { media_type, data } => {
            let source = json!({"type": "base64", "media_type": media_type, "data": data});
            json!({"type": "image", "source": source})
        }
    }
}

fn anthropic_block(piece: &AssistantItem) -> Value {
    match piece {
        AssistantItem::Text(text) => json!({"type": "text", "text": text}),
        AssistantItem::FunctionCall(call) => json!({
            "type": "tool_use", "id": call.id, "name": call.tool, "input": call.object(),
        }),
    }
}

/// Inserts the tools, unless there are none: some APIs refuse an empty list.
fn tools(body: &mut Map<String, Value>, request: &Request, form: impl Fn(&Tool) -> Value) {
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(form).collect();
        body.insert("tools".into(), tools.into());
    }
}

/// Returns the texts; `None` if there is an image.
fn only_texts(items: &[UserItem]) -> Option<Vec<&str>> {
    let texts = items.iter().map(|item| match item {
        UserItem::Text(text) => Some(text.as_str()),
        UserItem::Image { .. } => None,
    });
    texts.collect()
}

/// Returns a `data:` URL (RFC 2397).
fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

fn text_of(pieces: &[AssistantItem]) -> String {
    let texts = pieces.iter().filter_map(|piece| match piece {
        AssistantItem::Text(text) => Some(text.as_str()),
        AssistantItem::FunctionCall(_) => None,
    });
    texts.collect()
}

fn calls_of(pieces: &[AssistantItem]) -> impl Iterator<Item = &FunctionCall> {
    pieces.iter().filter_map(|piece| match piece {
        AssistantItem::FunctionCall(call) => Some(call),
        AssistantItem::Text(_) => None,
    })
}
