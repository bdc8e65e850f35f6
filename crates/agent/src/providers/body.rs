//! Bodies of requests: the conversation as each API wants it.

use serde_json::{Map, Value, json};

use super::api::Api;
use super::conversation::{Call, Conversation, Piece, ToolResult, Turn};
use super::sealed::Sealed;
use ttsr::harness::{Request, Tool};

/// Anthropic wants a number in every request.
const MAX_TOKENS: u32 = 8192;

/// The body of that request. `more` are members that the host adds or replaces.
pub(super) fn body(
    api: Api,
    is_openai: bool,
    request: &Request,
    more: &Map<String, Value>,
    sealed: &Sealed,
) -> String {
    let conversation = Conversation::new(&request.messages);
    let mut body = match api {
        Api::OpenAiChat => chat(&conversation, request, is_openai),
        Api::OpenAiResponses => responses(&conversation, request),
        Api::AnthropicMessages => messages(&conversation, request, sealed),
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
    Value::Object(body).to_string()
}

fn chat(conversation: &Conversation, request: &Request, is_openai: bool) -> Map<String, Value> {
    let mut messages = Vec::new();
    if !conversation.system.is_empty() {
        messages.push(json!({"role": "system", "content": conversation.system}));
    }
    for turn in &conversation.turns {
        match turn {
            Turn::User { results, texts } => {
                messages.extend(results.iter().map(|result| {
                    json!({"role": "tool", "tool_call_id": result.id, "content": result.output})
                }));
                if !texts.is_empty() {
                    messages.push(json!({"role": "user", "content": texts.join("\n\n")}));
                }
            }
            Turn::Assistant(pieces) => messages.push(chat_assistant(pieces)),
        }
    }
    let mut body = Map::new();
    body.insert("messages".into(), messages.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if let Some(most) = request.max_tokens {
        // The old name is the one that the imitations know; the original refuses it for newer models.
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

fn chat_assistant(pieces: &[Piece]) -> Value {
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

fn responses(conversation: &Conversation, request: &Request) -> Map<String, Value> {
    let mut input = Vec::new();
    for turn in &conversation.turns {
        match turn {
            Turn::User { results, texts } => {
                input.extend(results.iter().map(|result| {
                    json!({"type": "function_call_output", "call_id": result.id, "output": result.output})
                }));
                input.extend(
                    texts
                        .iter()
                        .map(|text| json!({"role": "user", "content": text})),
                );
            }
            Turn::Assistant(pieces) => input.extend(pieces.iter().map(|piece| match piece {
                Piece::Text(text) => json!({"role": "assistant", "content": text}),
                Piece::Call(call) => json!({
                    "type": "function_call", "call_id": call.id, "name": call.tool,
                    "arguments": call.input,
                }),
            })),
        }
    }
    let mut body = Map::new();
    body.insert("input".into(), input.into());
    // The conversation is sent whole each time, so nothing needs to be kept there.
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

fn messages(conversation: &Conversation, request: &Request, sealed: &Sealed) -> Map<String, Value> {
    let turns = conversation.turns.iter().map(|turn| match turn {
        Turn::User { results, texts } => {
            let results = results.iter().map(anthropic_result);
            let texts = texts
                .iter()
                .map(|text| json!({"type": "text", "text": text}));
            json!({"role": "user", "content": results.chain(texts).collect::<Vec<_>>()})
        }
        Turn::Assistant(pieces) => {
            let mut blocks: Vec<Value> = pieces.iter().map(anthropic_block).collect();
            let first = calls_of(pieces).next();
            let signed = first.map(|call| sealed.of(&request.model, &call.id));
            // From the last on, so that the places of those before stay what they are.
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

fn anthropic_block(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Call(call) => json!({
            "type": "tool_use", "id": call.id, "name": call.tool, "input": call.object(),
        }),
    }
}

/// An empty list is refused by some, so there is none.
fn tools(body: &mut Map<String, Value>, request: &Request, form: impl Fn(&Tool) -> Value) {
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(form).collect();
        body.insert("tools".into(), tools.into());
    }
}

fn text_of(pieces: &[Piece]) -> String {
    let texts = pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text.as_str()),
        Piece::Call(_) => None,
    });
    texts.collect()
}

fn calls_of(pieces: &[Piece]) -> impl Iterator<Item = &Call> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Call(call) => Some(call),
        Piece::Text(_) => None,
    })
}
