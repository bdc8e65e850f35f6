//! A stream of rig as a provider.
//!
//! Texts, images of the user, reasoning, tool calls, their results, tools, the temperature and the token limit are
//! carried. For a provider or a model that reads no images, rig itself writes a note in place of the image. A reply with
//! calls is kept here as rig has it, by the ids of its calls: its reasoning goes back with its signature, in its place
//! before the calls, and a block that hooks or rules changed goes back without the provider's item. rig's requests have
//! no headers, so a request with headers is refused; so are images of the system or of the model, images of a media type
//! that rig does not know, images in a reply, and a result without its call.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use rig_core::DynModel;
use rig_core::completion::{CompletionRequest, CompletionResponse, FinishReason, ToolDefinition};
use rig_core::error::ProviderError;
use rig_core::message::{
    AssistantContent, AssistantMessage, ImageMediaType, Message as RigMessage, MimeType as _,
    StopReason, ToolCall, ToolFunction, ToolName, ToolResult, ToolResultContent, UserContent,
};
use rig_core::operation::Completion;
use rig_core::streaming::{Item, PartKind, StreamEvent, Streamed};
use ttsr::Event;
use ttsr::harness::stream_adapter::{self, EventBuilder};
use ttsr::harness::{Content, EventStream, Failure, Message, Provider, Request, Role};

/// Any model of rig.
pub(crate) struct Rig {
    model: DynModel<Completion>,
    kept: KeptReplies,
}

/// Replies with calls, by the ids of the calls. Clones share them.
#[derive(Clone, Default)]
struct KeptReplies(Arc<Mutex<HashMap<String, AssistantMessage>>>);

impl Rig {
    pub(crate) fn new(model: DynModel<Completion>) -> Rig {
        Rig {
            model,
            kept: KeptReplies::default(),
        }
    }
}

impl Provider for Rig {
    fn send(&mut self, request: &Request) -> EventStream {
        let (model, kept) = (self.model.clone(), self.kept.clone());
        let written = completion_request(request, &kept);
        let opening = async move {
            let streamed = model.stream(written?).map_err(failure)?;
            Ok(WithEnd(Some(streamed)))
        };
        stream_adapter::chunks(opening, move |seen, parts| match seen {
            Seen::Item(item) => read(item.map_err(failure)?, parts),
            Seen::End(response) => {
                kept.keep(&response);
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

fn completion_request(request: &Request, kept: &KeptReplies) -> Result<CompletionRequest, Failure> {
    if let Some((name, _)) = request.headers.first() {
        return Err(unsupported(&format!(
            "rig's requests have no headers: `{name}`"
        )));
    }
    let mut history = Vec::new();
    // The calls so far: a result names its call and its tool.
    let mut calls: HashMap<String, ToolCall> = HashMap::new();
    for message in &request.messages {
        match message.role {
            Role::System => {
                let mut content = message.content.iter();
                if content.any(|content| matches!(content, Content::Image { .. })) {
                    return Err(misplaced_image());
                }
                history.push(RigMessage::system(message.text()));
            }
            Role::Assistant => {
                let said = assistant_message(message, kept)?;
                for call in said.tool_calls() {
                    calls.insert(call.id.to_string(), call.clone());
                }
                if !said.content.is_empty() {
                    history.push(RigMessage::Assistant(said));
                }
            }
            Role::User | Role::Tool => history.extend(user_message(message, &calls)?),
        }
    }
    let prompt = history.pop().unwrap_or_else(|| RigMessage::user(""));
    let mut tools = Vec::new();
    for tool in &request.tools {
        let name = tool_name(&tool.name)?;
        tools.push(ToolDefinition::new(
            name,
            &*tool.description,
            tool.input.clone(),
        ));
    }
    let temperature = request
        .temperature
        .map(|thousandths| f64::from(thousandths) / 1000.0);
    Ok(CompletionRequest::new(prompt)
        .messages(history)
        .model::<String>(Some(request.model.clone()))
        .tools(tools)
        .temperature(temperature)
        .max_tokens(request.max_tokens.map(u64::from)))
}

fn user_message(
    message: &Message,
    calls: &HashMap<String, ToolCall>,
) -> Result<Option<RigMessage>, Failure> {
    let mut contents = Vec::new();
    for content in &message.content {
        match content {
            Content::Text { text, .. } => contents.push(UserContent::text(text)),
            Content::Image { media_type, data } => {
                let Some(known) = ImageMediaType::from_mime_type(media_type) else {
                    return Err(unsupported(&format!(
                        "rig knows no images of `{media_type}`"
                    )));
                };
                contents.push(UserContent::image_base64(data, Some(known), None));
            }
            Content::ToolResult {
                call,
                output,
                is_error,
            } => {
                let Some(call) = calls.get(call) else {
                    return Err(unsupported(&format!("the result of `{call}` has no call")));
                };
                contents.push(UserContent::ToolResult(ToolResult {
                    is_error: *is_error,
                    ..call.result(vec![ToolResultContent::text(output)])
                }));
            }
            Content::Reasoning { .. } | Content::ToolCall { .. } => {
                return Err(unsupported(
                    "only a message of the model can reason or call a tool",
                ));
            }
        }
    }
    Ok((!contents.is_empty()).then_some(RigMessage::User { content: contents }))
}

/// Returns a reply of the model: as rig had it, if it was kept, with the texts and inputs of the conversation.
fn assistant_message(message: &Message, kept: &KeptReplies) -> Result<AssistantMessage, Failure> {
    let own = assistant_contents(message)?;
    let Some(reply) = own.iter().find_map(|content| kept.find(content)) else {
        return Ok(AssistantMessage::new(own));
    };
    let mut own: Vec<AssistantContent> = own
        .into_iter()
        .filter(|content| !matches!(content, AssistantContent::Reasoning(_)))
        .collect();
    let mut contents = Vec::new();
    for block in &reply.content {
        let place = match block {
            // The provider checks what it signed.
            AssistantContent::Reasoning(_) | AssistantContent::Opaque(_) => {
                contents.push(block.clone());
                continue;
            }
            AssistantContent::ToolCall(call) => own.iter().position(
                |content| matches!(content, AssistantContent::ToolCall(own) if own.id == call.id),
            ),
            AssistantContent::Text(_) => own
                .iter()
                .position(|content| matches!(content, AssistantContent::Text(_))),
            _ => None,
        };
        let Some(place) = place else {
            continue;
        };
        let content = own.remove(place);
        let is_same = content.fingerprint() == block.fingerprint();
        contents.push(if is_same { block.clone() } else { content });
    }
    contents.extend(own);
    Ok(reply.with_content(contents))
}

fn assistant_contents(message: &Message) -> Result<Vec<AssistantContent>, Failure> {
    let mut contents = Vec::new();
    for content in &message.content {
        contents.push(match content {
            Content::Text { text, .. } if text.is_empty() => continue,
            Content::Text { text, .. } => AssistantContent::text(text),
            Content::Image { .. } => return Err(misplaced_image()),
            Content::Reasoning { text } => AssistantContent::reasoning(text),
            Content::ToolCall { call, tool, input } => {
                let function = ToolFunction::parse(tool_name(tool)?, input);
                AssistantContent::ToolCall(ToolCall::from_wire(call, function))
            }
            Content::ToolResult { call, .. } => {
                return Err(unsupported(&format!(
                    "the model has the result of `{call}`"
                )));
            }
        });
    }
    Ok(contents)
}

fn tool_name(name: &str) -> Result<ToolName, Failure> {
    ToolName::new(name).map_err(|_| unsupported("a tool without a name"))
}

impl KeptReplies {
    fn keep(&self, response: &CompletionResponse) {
        let Some(RigMessage::Assistant(reply)) = response.message() else {
            return;
        };
        // rig leaves a turn that failed out of the next request.
        if reply.stop.as_ref().is_some_and(StopReason::is_failure) {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for call in response.tool_calls() {
            kept.insert(call.id.to_string(), reply.clone());
        }
    }

    /// Returns the reply that contains a call.
    fn find(&self, content: &AssistantContent) -> Option<AssistantMessage> {
        let AssistantContent::ToolCall(call) = content else {
            return None;
        };
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&call.id.to_string()).cloned()
    }
}

fn read(item: Item<StreamEvent>, parts: &mut EventBuilder) -> Result<(), Failure> {
    let event = match item {
        Item::Event(event) => event,
        Item::Unknown(payload) => {
            let bytes = payload.value().to_string().len() as u64;
            let kind = "unknown".to_owned();
            parts.event(Event::Unscanned { bytes, kind });
            return Ok(());
        }
    };
    let key = event.part().index().to_string();
    match event {
        StreamEvent::Start {
            kind: PartKind::Image,
            ..
        } => return Err(unsupported("the reply has an image")),
        StreamEvent::Start {
            name: Some(name), ..
        } => parts.tool(&key, name.as_str(), None),
        StreamEvent::Start { .. } => {}
        StreamEvent::Text { text, .. } => parts.text(&key, &text),
        StreamEvent::Reasoning { text, .. } => parts.reasoning(&key, &text),
        StreamEvent::Arguments { json, .. } => parts.input(&key, &json),
        StreamEvent::End { content, .. } => {
            match content {
                AssistantContent::ToolCall(call) => {
                    let name = call.function.name.as_str();
                    parts.tool(&key, name, Some(&call.id.to_string()));
                }
                AssistantContent::Opaque(opaque) => {
                    let bytes = opaque.item.to_string().len() as u64;
                    let kind = opaque.kind().unwrap_or("opaque").to_owned();
                    parts.event(Event::Unscanned { bytes, kind });
                }
                _ => {}
            }
            parts.end(&key);
        }
    }
    Ok(())
}

fn finish(response: &CompletionResponse, parts: &mut EventBuilder) {
    let usage = &response.usage;
    if let (Some(input), Some(output)) = (usage.input_tokens, usage.output_tokens) {
        parts.usage(input, output);
    }
    parts.finish(match &response.finish_reason() {
        Some(FinishReason::Length) => "length",
        Some(FinishReason::ToolCalls) => "tool_calls",
        Some(FinishReason::ContentFilter) => "content_filter",
        Some(FinishReason::Other(reason)) => reason,
        // A reply that broke off ends with an error instead.
        Some(_) | None => "stop",
    });
}

fn misplaced_image() -> Failure {
    unsupported("only a message of the user can have an image")
}

fn unsupported(what: &str) -> Failure {
    Failure::new("unsupported", what)
}

fn failure(error: ProviderError) -> Failure {
    Failure::new("client", error.to_string())
}

#[cfg(test)]
mod tests {
    use rig_core::completion::Usage;
    use rig_core::message::Origin;
    use serde_json::{Value, json};

    use super::*;
    use crate::demo::{conversation, events, image_of, reasoning, shown};

    fn plain() -> Request {
        let mut request = conversation();
        request.headers.clear();
        request
    }

    fn written(request: &Request, kept: &KeptReplies) -> Value {
        serde_json::to_value(completion_request(request, kept).unwrap()).unwrap()
    }

    #[test]
    fn calls_results_reasoning_and_tools_are_in_the_request() {
        let request = written(&plain(), &KeptReplies::default());
        let history = &request["chat_history"];
        assert_eq!(history[0]["content"], "Be brief.");
        assert_eq!(history[2]["content"][0]["text"], "I look.");
        assert_eq!(
            history[2]["content"][1]["function"]["arguments"]["path"],
            "a"
        );
        let result = &history[3]["content"][0];
        assert_eq!(result["call"], history[2]["content"][1]["id"]);
        assert_eq!(
            (&result["name"], &result["is_error"]),
            (&"read".into(), &true.into())
        );
        assert_eq!(result["content"][0]["text"], "no such file");
        assert_eq!(request["tools"][0]["parameters"]["type"], "object");
        assert_eq!(
            (&request["temperature"], &request["max_tokens"]),
            (&0.5.into(), &100.into())
        );
        let request = written(&reasoning(), &KeptReplies::default());
        assert_eq!(request["chat_history"][1]["content"][0]["text"], "hm");
    }

    /// Returns a reply with signed reasoning, text and a call.
    fn reply() -> CompletionResponse {
        let signed = AssistantContent::reasoning("hm")
            .with_native(json!({ "type": "thinking", "thinking": "hm", "signature": "s" }));
        let call = AssistantContent::tool_call(
            "call_1",
            ToolName::new("read").unwrap(),
            json!({ "path": "a" }),
        );
        let call = call.with_native(json!({ "type": "tool_use", "id": "call_1" }));
        let choice = vec![signed, AssistantContent::text("I look."), call];
        let origin = Origin::new("anthropic.messages", "anthropic", "a-model");
        CompletionResponse::new(choice, Usage::default(), origin, json!({}))
            .with_optional_finish_reason(Some(FinishReason::Stop))
    }

    #[test]
    fn signed_reasoning_goes_back_before_its_call() {
        let kept = KeptReplies::default();
        kept.keep(&reply());
        let said = written(&plain(), &kept)["chat_history"][2].clone();
        assert_eq!(said["origin"]["provider"], "anthropic");
        assert_eq!(said["content"][0]["native"]["item"]["signature"], "s");
        assert_eq!(said["content"][1]["text"], "I look.");
        assert_eq!(said["content"][2]["native"]["item"]["type"], "tool_use");
        assert_eq!(said["content"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_call_that_was_changed_goes_back_without_the_providers_item() {
        let kept = KeptReplies::default();
        kept.keep(&reply());
        let mut request = plain();
        let Content::ToolCall { input, .. } = &mut request.messages[2].content[1] else {
            panic!("the second content is the call");
        };
        *input = r#"{"path":"b"}"#.into();
        let said = written(&request, &kept)["chat_history"][2].clone();
        assert_eq!(said["content"][2]["function"]["arguments"]["path"], "b");
        assert_eq!(said["content"][2]["native"], Value::Null);
    }

    #[test]
    fn an_image_of_the_user_is_in_the_request_and_another_is_refused() {
        let kept = KeptReplies::default();
        let asked = written(&image_of(Role::User), &kept)["chat_history"][0].clone();
        assert_eq!(asked["content"][0]["text"], "What is it?");
        let image = &asked["content"][1];
        assert_eq!(
            image["data"],
            json!({ "type": "base64", "value": "iVBORw0KGgo=" })
        );
        assert_eq!(
            (&image["type"], &image["media_type"]),
            (&json!("image"), &json!("png"))
        );
        let mut unknown = image_of(Role::User);
        unknown.messages[0] = Message::user("What is it?").with_image("image/tiff", "SUkq");
        for request in [image_of(Role::System), image_of(Role::Assistant), unknown] {
            let refused = completion_request(&request, &kept).unwrap_err();
            assert_eq!(refused.kind(), "unsupported");
            assert!(refused.to_string().contains("image"), "{refused}");
        }
    }

    fn stream(items: Value) -> Vec<Item<StreamEvent>> {
        let events: Vec<StreamEvent> = serde_json::from_value(items).unwrap();
        events.into_iter().map(Item::Event).collect()
    }

    #[test]
    fn a_reply_with_a_call_becomes_events() {
        let call = serde_json::to_value(&reply().choice[2]).unwrap();
        let items = stream(json!([
            { "event": "start", "part": 0, "kind": "reasoning" },
            { "event": "reasoning", "part": 0, "text": "hm" },
            { "event": "end", "part": 0, "content": reply().choice[0] },
            { "event": "start", "part": 1, "kind": "tool_call", "name": "read" },
            { "event": "arguments", "part": 1, "json": "{\"path\":" },
            { "event": "arguments", "part": 1, "json": "\"a\"}" },
            { "event": "end", "part": 1, "content": call },
        ]));
        let mut seen: Vec<Seen> = items.into_iter().map(|item| Seen::Item(Ok(item))).collect();
        seen.push(Seen::End(Box::new(reply())));
        let events = events(seen, |seen, parts| match seen {
            Seen::Item(item) => read(item.unwrap(), parts),
            Seen::End(response) => {
                finish(&response, parts);
                Ok(())
            }
        });
        let expected = r#"reasoning: hm / tool-input read call_1: {"path":"a"} / tool_calls"#;
        assert_eq!(shown(&events.unwrap()), expected);
    }

    #[test]
    fn headers_images_and_results_without_a_call_are_refused() {
        let kept = KeptReplies::default();
        let refused = completion_request(&conversation(), &kept).unwrap_err();
        assert!(refused.to_string().contains("x-initiator"), "{refused}");
        let mut request = plain();
        request.messages.remove(2);
        let refused = completion_request(&request, &kept).unwrap_err();
        assert!(refused.to_string().contains("call_1"), "{refused}");
        let image = stream(json!([{ "event": "start", "part": 0, "kind": "image" }]));
        let refused = events(image, read).unwrap_err();
        assert_eq!(refused.kind(), "unsupported");
    }
}
