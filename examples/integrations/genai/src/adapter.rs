//! A stream of genai as a provider.
//!
//! Texts, images of the user, reasoning, tool calls, their results, tools, the temperature, the token limit and headers
//! are carried. genai leaves images out of requests to Cohere, and images of types that Bedrock does not know out of those
//! to Bedrock: such a request is refused, and so are images of the system or of the model.
//! Signatures of reasoning are kept here, by the ids of the calls of their reply, and sent back before these calls. For
//! some providers, Anthropic among them, genai reads signatures and never sends them: a conversation that needs one of
//! these is refused. A call whose input is no JSON is refused too, since genai has calls as values; so are images and
//! other files in a reply.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ChatRole, ChatStreamEvent, ContentPart, MessageContent,
    StopReason, StreamEnd, Tool, ToolCall, ToolResponse,
};
use genai::{Client, ModelIden};
use serde_json::Value;
use ttsr::harness::stream_adapter::{self, EventBuilder};
use ttsr::harness::{Content, EventStream, Failure, Provider, Request, Role};

/// Any provider of genai.
pub(crate) struct GenAi {
    client: Client,
    signed: SignedCalls,
}

/// The signatures of each reply, by the id of its first call. Clones share them.
#[derive(Clone, Default)]
struct SignedCalls(Arc<Mutex<HashMap<String, Signatures>>>);

/// The signatures of the reasoning before a call.
#[derive(Clone)]
struct Signatures {
    adapter: AdapterKind,
    texts: Vec<String>,
}

impl GenAi {
    pub(crate) fn new(client: Client) -> GenAi {
        GenAi {
            client,
            signed: SignedCalls::default(),
        }
    }
}

impl Provider for GenAi {
    fn send(&mut self, request: &Request) -> EventStream {
        let (client, model) = (self.client.clone(), request.model.clone());
        let written = chat_request(request, &self.signed);
        let options = options(request);
        let mut reader = Reader::new(self.signed.clone());
        let adapter = Arc::clone(&reader.adapter);
        let images = media_types(request);
        let opening = async move {
            let written = written?;
            if !images.is_empty() {
                let target = client.resolve_service_target(&model).await;
                check_images(target.map_err(failure)?.model.adapter_kind, &images)?;
            }
            let response = client.exec_chat_stream(&model, written, Some(&options));
            let response = response.await.map_err(failure)?;
            let ModelIden { adapter_kind, .. } = response.model_iden;
            *adapter.lock().unwrap_or_else(PoisonError::into_inner) = Some(adapter_kind);
            Ok(response.stream)
        };
        stream_adapter::chunks(opening, move |event, parts| {
            reader.read(event.map_err(failure)?, parts)
        })
    }
}

fn options(request: &Request) -> ChatOptions {
    // Usage, tool calls and files are only reported at the end, and only on request.
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_extra_headers(request.headers.clone());
    options.temperature = request
        .temperature
        .map(|thousandths| f64::from(thousandths) / 1000.0);
    options.max_tokens = request.max_tokens;
    options
}

/// Returns the media types of the images of a request.
fn media_types(request: &Request) -> Vec<String> {
    let content = request.messages.iter().flat_map(|message| &message.content);
    let types = content.filter_map(|content| match content {
        Content::Image { media_type, .. } => Some(media_type.clone()),
        _ => None,
    });
    types.collect()
}

/// Refuses the images that genai leaves out of a request to this provider.
fn check_images(adapter: AdapterKind, media_types: &[String]) -> Result<(), Failure> {
    const BEDROCK: [&str; 5] = [
        "image/jpeg",
        "image/jpg",
        "image/png",
        "image/gif",
        "image/webp",
    ];
    let is_sent = |media_type: &&String| match adapter {
        AdapterKind::Cohere => false,
        AdapterKind::BedrockApi => BEDROCK.contains(&media_type.as_str()),
        _ => true,
    };
    match media_types.iter().find(|media_type| !is_sent(media_type)) {
        Some(media_type) => Err(unsupported(&format!(
            "genai does not send the image (`{media_type}`) to {adapter}"
        ))),
        None => Ok(()),
    }
}

fn chat_request(request: &Request, signed: &SignedCalls) -> Result<ChatRequest, Failure> {
    let mut messages = Vec::new();
    // Gemini identifies a result by the name of its tool.
    let mut tools: HashMap<&str, &str> = HashMap::new();
    for message in &request.messages {
        let mut parts = Vec::new();
        for content in &message.content {
            match content {
                Content::Text { text, .. } if text.is_empty() => {}
                Content::Text { text, .. } => parts.push(ContentPart::from_text(text)),
                Content::Image { media_type, data } => {
                    if !matches!(message.role, Role::User | Role::Tool) {
                        return Err(unsupported("only a message of the user can have an image"));
                    }
                    // genai sends another type as a file, or not at all.
                    if !media_type.starts_with("image/") {
                        return Err(unsupported(&format!(
                            "`{media_type}` is no type of an image"
                        )));
                    }
                    parts.push(ContentPart::from_binary_base64(
                        media_type,
                        data.as_str(),
                        None,
                    ));
                }
                Content::Reasoning { text } => {
                    parts.push(ContentPart::ReasoningContent(text.clone()));
                }
                Content::ToolCall { call, tool, input } => {
                    tools.insert(call, tool);
                    parts.extend(signed.before(call)?);
                    parts.push(ContentPart::ToolCall(ToolCall {
                        call_id: call.clone(),
                        fn_name: tool.clone(),
                        fn_arguments: arguments(tool, input)?,
                        thought_signatures: None,
                    }));
                }
                // The output of a failed tool is its error message; genai has no flag for it.
                Content::ToolResult { call, output, .. } => {
                    let result = ToolResponse {
                        fn_name: tools.get(&**call).map(|tool| (*tool).to_owned()),
                        ..ToolResponse::new(call, output)
                    };
                    messages.push(ChatMessage::tool(MessageContent::from_tool_responses(
                        vec![result],
                    )));
                }
            }
        }
        if !parts.is_empty() {
            let role = match message.role {
                Role::System => ChatRole::System,
                Role::Assistant => ChatRole::Assistant,
                Role::User | Role::Tool => ChatRole::User,
            };
            messages.push(ChatMessage::new(role, MessageContent::from_parts(parts)));
        }
    }
    let tools = request.tools.iter().map(|tool| {
        Tool::new(tool.name.clone())
            .with_description(&tool.description)
            .with_schema(tool.input.clone())
    });
    let tools: Vec<Tool> = tools.collect();
    let request = ChatRequest::new(messages);
    Ok(match tools.is_empty() {
        true => request,
        false => request.with_tools(tools),
    })
}

fn arguments(tool: &str, input: &str) -> Result<Value, Failure> {
    match input.trim() {
        "" => Ok(Value::Object(serde_json::Map::new())),
        input => serde_json::from_str(input)
            .map_err(|_| unsupported(&format!("the input of a call of `{tool}` is no JSON"))),
    }
}

impl SignedCalls {
    /// Returns the signatures that belong before a call.
    fn before(&self, call: &str) -> Result<Vec<ContentPart>, Failure> {
        let signed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Signatures { adapter, texts }) = signed.get(call) else {
            return Ok(Vec::new());
        };
        match adapter {
            AdapterKind::Gemini | AdapterKind::OpenAIResp => {
                let texts = texts.iter().cloned();
                Ok(texts.map(ContentPart::ThoughtSignature).collect())
            }
            other => Err(unsupported(&format!(
                "genai does not send signed reasoning back to {other}: switch reasoning off"
            ))),
        }
    }

    fn keep(&self, call: &str, signatures: Signatures) {
        let mut signed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signed.insert(call.to_owned(), signatures);
    }
}

/// Reads one reply.
struct Reader {
    signed: SignedCalls,
    /// The provider, once the reply is open.
    adapter: Arc<Mutex<Option<AdapterKind>>>,
    signatures: Vec<String>,
}

impl Reader {
    fn new(signed: SignedCalls) -> Reader {
        Reader {
            signed,
            adapter: Arc::default(),
            signatures: Vec::new(),
        }
    }

    fn read(&mut self, event: ChatStreamEvent, parts: &mut EventBuilder) -> Result<(), Failure> {
        match event {
            ChatStreamEvent::Chunk(chunk) => parts.text("text", &chunk.content),
            ChatStreamEvent::ReasoningChunk(chunk) => parts.reasoning("reasoning", &chunk.content),
            ChatStreamEvent::ThoughtSignatureChunk(chunk) => self.signatures.push(chunk.content),
            ChatStreamEvent::End(end) => return self.finish(end, parts),
            // Partial calls are parsed values and not the text that the model wrote, so calls are read from the end.
            ChatStreamEvent::ToolCallChunk(_) | ChatStreamEvent::Start => {}
        }
        Ok(())
    }

    fn finish(&mut self, end: StreamEnd, parts: &mut EventBuilder) -> Result<(), Failure> {
        let mut content = end.captured_content.iter().flatten();
        if content.any(ContentPart::is_binary) {
            return Err(unsupported("the reply has an image or another file"));
        }
        if let Some(usage) = &end.captured_usage {
            let tokens =
                |count: Option<i32>| count.and_then(|count| count.try_into().ok()).unwrap_or(0);
            parts.usage(tokens(usage.prompt_tokens), tokens(usage.completion_tokens));
        }
        let calls = end.captured_tool_calls().unwrap_or_default();
        if let (Some(first), false) = (calls.first(), self.signatures.is_empty()) {
            let adapter = *self.adapter.lock().unwrap_or_else(PoisonError::into_inner);
            let signatures = Signatures {
                adapter: adapter.unwrap_or(AdapterKind::OpenAI),
                texts: std::mem::take(&mut self.signatures),
            };
            self.signed.keep(&first.call_id, signatures);
        }
        for call in calls {
            let key = format!("tool/{}", call.call_id);
            parts.tool(&key, &call.fn_name, Some(&call.call_id));
            parts.input(&key, &call.fn_arguments.to_string());
        }
        // Without a reason the stream ended early, which is not an answer.
        match &end.captured_stop_reason {
            Some(StopReason::MaxTokens(_)) => parts.finish("max_tokens"),
            Some(reason) => parts.finish(reason.raw()),
            None => {}
        }
        Ok(())
    }
}

fn unsupported(what: &str) -> Failure {
    Failure::new("unsupported", what)
}

fn failure(error: genai::Error) -> Failure {
    Failure::new("client", error.to_string())
}

#[cfg(test)]
mod tests {
    use genai::chat::StreamChunk;

    use super::*;
    use crate::demo::{conversation, events, image_of, reasoning, shown};
    use ttsr::harness::Message;

    fn written(request: &Request, signed: &SignedCalls) -> Value {
        serde_json::to_value(chat_request(request, signed).unwrap()).unwrap()
    }

    #[test]
    fn calls_results_reasoning_and_tools_are_in_the_request() {
        let request = written(&conversation(), &SignedCalls::default());
        let said = &request["messages"][2]["content"];
        assert_eq!(said[0]["Text"], "I look.");
        assert_eq!(said[1]["ToolCall"]["fn_arguments"]["path"], "a");
        let result = &request["messages"][3]["content"][0]["ToolResponse"];
        assert_eq!(
            (&result["call_id"], &result["fn_name"]),
            (&"call_1".into(), &"read".into())
        );
        assert_eq!(result["content"], "no such file");
        assert_eq!(request["tools"][0]["schema"]["type"], "object");
        let request = written(&reasoning(), &SignedCalls::default());
        assert_eq!(
            request["messages"][1]["content"][0]["ReasoningContent"],
            "hm"
        );
        let options = options(&conversation());
        assert_eq!(
            (options.temperature, options.max_tokens),
            (Some(0.5), Some(100))
        );
        assert!(options.extra_headers.is_some());
    }

    fn chunk(content: &str) -> StreamChunk {
        StreamChunk {
            content: content.to_owned(),
        }
    }

    /// Returns a reply with signed reasoning and a call.
    fn reply() -> Vec<ChatStreamEvent> {
        let call = ToolCall {
            call_id: "call_1".into(),
            fn_name: "read".into(),
            fn_arguments: serde_json::json!({ "path": "a" }),
            thought_signatures: None,
        };
        let end = StreamEnd {
            captured_stop_reason: Some(StopReason::from("tool_use".to_owned())),
            captured_content: Some(MessageContent::from_tool_calls(vec![call])),
            ..StreamEnd::default()
        };
        vec![
            ChatStreamEvent::Start,
            ChatStreamEvent::ReasoningChunk(chunk("hm")),
            ChatStreamEvent::ThoughtSignatureChunk(chunk("signature")),
            ChatStreamEvent::Chunk(chunk("I look.")),
            ChatStreamEvent::End(end),
        ]
    }

    fn read_reply(adapter: AdapterKind, signed: &SignedCalls) -> String {
        let mut reader = Reader::new(signed.clone());
        *reader.adapter.lock().unwrap() = Some(adapter);
        let events = events(reply(), move |event, parts| reader.read(event, parts));
        shown(&events.unwrap())
    }

    #[test]
    fn a_reply_becomes_events_and_its_signature_precedes_its_call_in_the_next_request() {
        let signed = SignedCalls::default();
        let expected =
            r#"reasoning: hm / text: I look. / tool-input read call_1: {"path":"a"} / tool_use"#;
        assert_eq!(read_reply(AdapterKind::Gemini, &signed), expected);
        let said = written(&conversation(), &signed)["messages"][2]["content"].clone();
        assert_eq!(said[1]["ThoughtSignature"], "signature");
        assert_eq!(said[2]["ToolCall"]["call_id"], "call_1");
    }

    #[test]
    fn signed_reasoning_that_genai_would_lose_is_refused() {
        let signed = SignedCalls::default();
        read_reply(AdapterKind::Anthropic, &signed);
        let refused = chat_request(&conversation(), &signed).unwrap_err();
        assert_eq!(refused.kind(), "unsupported");
        assert!(refused.to_string().contains("Anthropic"), "{refused}");
    }

    #[test]
    fn an_image_of_the_user_is_in_the_request_and_another_is_refused() {
        let signed = SignedCalls::default();
        let asked = written(&image_of(Role::User), &signed)["messages"][0]["content"].clone();
        assert_eq!(asked[0]["Text"], "What is it?");
        assert_eq!(asked[1]["Binary"]["content_type"], "image/png");
        assert_eq!(asked[1]["Binary"]["source"]["Base64"], "iVBORw0KGgo=");
        let mut other = image_of(Role::User);
        other.messages[0] = Message::user("What is it?").with_image("application/pdf", "JVBE");
        for request in [image_of(Role::System), image_of(Role::Assistant), other] {
            let refused = chat_request(&request, &signed).unwrap_err();
            assert_eq!(refused.kind(), "unsupported");
            assert!(refused.to_string().contains("image"), "{refused}");
        }
    }

    #[test]
    fn an_image_that_genai_would_leave_out_is_refused() {
        let png = media_types(&image_of(Role::User));
        let svg = ["image/svg+xml".to_owned()];
        assert_eq!(png, ["image/png"]);
        for adapter in [
            AdapterKind::OpenAI,
            AdapterKind::Anthropic,
            AdapterKind::BedrockApi,
        ] {
            assert_eq!(check_images(adapter, &png), Ok(()));
        }
        for (adapter, types) in [
            (AdapterKind::Cohere, &png[..]),
            (AdapterKind::BedrockApi, &svg),
        ] {
            let refused = check_images(adapter, types).unwrap_err();
            assert_eq!(refused.kind(), "unsupported");
            assert!(refused.to_string().contains(&types[0]), "{refused}");
        }
    }

    #[test]
    fn an_image_in_a_reply_is_refused() {
        let image = ContentPart::from_binary_base64("image/png", "", None);
        let end = StreamEnd {
            captured_stop_reason: Some(StopReason::from("stop".to_owned())),
            captured_content: Some(MessageContent::from_parts(vec![image])),
            ..StreamEnd::default()
        };
        let mut reader = Reader::new(SignedCalls::default());
        let refused = events([ChatStreamEvent::End(end)], move |event, parts| {
            reader.read(event, parts)
        });
        assert_eq!(refused.unwrap_err().kind(), "unsupported");
    }

    #[test]
    fn a_call_whose_input_is_no_json_is_refused_and_a_truncated_reply_says_so() {
        let refused = arguments("read", "{\"path\":").unwrap_err();
        assert_eq!(refused.kind(), "unsupported");
        let end = StreamEnd {
            captured_stop_reason: Some(StopReason::from("max_tokens".to_owned())),
            ..StreamEnd::default()
        };
        let mut reader = Reader::new(SignedCalls::default());
        let events = events([ChatStreamEvent::End(end)], move |event, parts| {
            reader.read(event, parts)
        });
        assert_eq!(shown(&events.unwrap()), " / max_tokens");
    }
}
