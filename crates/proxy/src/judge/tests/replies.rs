//! Replies of each API, as event streams and as whole bodies, and a reader of the bytes that a client received.

use std::borrow::Cow;

use serde_json::{Value, json};
use ttsr::{Channel, Event};
use ttsr_testing::Random;
use ttsr_wire::Reader;

use super::StreamedApi;
use crate::routes::ModelApi;

/// One part of a reply, in deltas.
pub(crate) enum Piece<'a> {
    Text(&'a [&'a str]),
    Reasoning(&'a [&'a str]),
    /// The name and the input.
    Tool(&'a str, &'a [&'a str]),
}

use Piece::{Reasoning, Text, Tool};

impl Piece<'_> {
    fn deltas(&self) -> &[&str] {
        match self {
            Text(deltas) | Reasoning(deltas) | Tool(_, deltas) => deltas,
        }
    }
}

/// One part of a reply, in deltas that it owns.
#[derive(Clone, Debug)]
pub(crate) enum OwnedPiece {
    Text(Vec<String>),
    Reasoning(Vec<String>),
    Tool(String, Vec<String>),
}

impl OwnedPiece {
    pub(crate) fn deltas(&self) -> &[String] {
        match self {
            OwnedPiece::Text(deltas)
            | OwnedPiece::Reasoning(deltas)
            | OwnedPiece::Tool(_, deltas) => deltas,
        }
    }
}

/// Returns the event stream of a reply.
pub(crate) fn stream_of(api: impl Into<StreamedApi>, pieces: &[OwnedPiece]) -> String {
    let texts = pieces.iter().map(OwnedPiece::deltas);
    let texts = texts.map(|deltas| deltas.iter().map(String::as_str).collect());
    let texts: Vec<Vec<&str>> = texts.collect();
    let pieces = pieces
        .iter()
        .zip(&texts)
        .map(|(piece, deltas)| match piece {
            OwnedPiece::Text(_) => Text(deltas),
            OwnedPiece::Reasoning(_) => Reasoning(deltas),
            OwnedPiece::Tool(name, _) => Tool(name, deltas),
        });
    let pieces: Vec<Piece<'_>> = pieces.collect();
    stream(api, &pieces)
}

/// Returns random deltas that make up a text.
pub(crate) fn random_deltas(random: &mut Random, text: &str) -> Vec<String> {
    let mut deltas = vec![String::new()];
    for char in text.chars() {
        if random.one_in(3) {
            deltas.push(String::new());
        }
        deltas.last_mut().unwrap().push(char);
    }
    deltas
}

/// Returns the event stream of a reply, one string for each event.
pub(crate) fn events(api: impl Into<StreamedApi>, pieces: &[Piece<'_>]) -> Vec<String> {
    let streamed = api.into();
    let api = streamed.api;
    match api {
        ModelApi::Gemini | ModelApi::CodeAssist => gemini(streamed, pieces),
        ModelApi::AnthropicMessages => messages(pieces),
        ModelApi::OpenAiChat => chat(pieces),
        ModelApi::OpenAiCompletions => completions(pieces),
        ModelApi::OllamaChat | ModelApi::OllamaGenerate => ollama(api, pieces),
        _ => responses(pieces),
    }
}

pub(crate) fn stream(api: impl Into<StreamedApi>, pieces: &[Piece<'_>]) -> String {
    events(api, pieces).concat()
}

fn named(data: &Value) -> String {
    format!(
        "event: {}\ndata: {data}\n\n",
        data["type"].as_str().unwrap()
    )
}

fn messages(pieces: &[Piece<'_>]) -> Vec<String> {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 1},
    });
    let mut out = vec![
        named(&json!({"type": "message_start", "message": message})),
        named(&json!({"type": "ping"})),
    ];
    for (index, piece) in pieces.iter().enumerate() {
        let (block, kind, member) = match piece {
            Text(_) => (json!({"type": "text", "text": ""}), "text_delta", "text"),
            Reasoning(_) => (
                json!({"type": "thinking", "thinking": ""}),
                "thinking_delta",
                "thinking",
            ),
            Tool(name, _) => {
                let block = json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {}});
                (block, "input_json_delta", "partial_json")
            }
        };
        out.push(named(
            &json!({"type": "content_block_start", "index": index, "content_block": block}),
        ));
        for delta in piece.deltas() {
            let delta = json!({"type": kind, member: delta});
            out.push(named(
                &json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ));
        }
        out.push(named(
            &json!({"type": "content_block_stop", "index": index}),
        ));
    }
    let has_tool = pieces.iter().any(|piece| matches!(piece, Tool(..)));
    let reason = if has_tool { "tool_use" } else { "end_turn" };
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    out.push(named(
        &json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}),
    ));
    out.push(named(&json!({"type": "message_stop"})));
    out
}

fn chat(pieces: &[Piece<'_>]) -> Vec<String> {
    let chunk = |delta: Value, reason: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        let chunk = json!({
            "id": "c1", "object": "chat.completion.chunk", "created": 17, "model": "m",
            "choices": choices, "usage": null,
        });
        format!("data: {chunk}\n\n")
    };
    let mut out = vec![chunk(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    let mut calls = 0;
    for piece in pieces {
        if let Tool(name, _) = piece {
            let function = json!({"name": name, "arguments": ""});
            let call = json!({"index": calls, "id": format!("call_{calls}"), "type": "function", "function": function});
            out.push(chunk(json!({"tool_calls": [call]}), Value::Null));
        }
        for delta in piece.deltas() {
            let delta = match piece {
                Text(_) => json!({"content": delta}),
                Reasoning(_) => json!({"reasoning_content": delta}),
                Tool(..) => {
                    json!({"tool_calls": [{"index": calls, "function": {"arguments": delta}}]})
                }
            };
            out.push(chunk(delta, Value::Null));
        }
        calls += u32::from(matches!(piece, Tool(..)));
    }
    let reason = if calls > 0 { "tool_calls" } else { "stop" };
    out.push(chunk(json!({}), json!(reason)));
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16});
    let usage = json!({
        "id": "c1", "object": "chat.completion.chunk", "created": 17, "model": "m",
        "choices": [], "usage": usage,
    });
    out.push(format!("data: {usage}\n\n"));
    out.push("data: [DONE]\n\n".into());
    out
}

fn completions(pieces: &[Piece<'_>]) -> Vec<String> {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16});
    let chunk = |text: &str, reason: Value| {
        let usage = (!reason.is_null()).then_some(&usage);
        let choices =
            json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": reason}]);
        let chunk = json!({
            "id": "cmpl-1", "object": "text_completion", "created": 17, "model": "m", "choices": choices,
            "usage": usage,
        });
        format!("data: {chunk}\n\n")
    };
    let deltas = pieces.iter().flat_map(|piece| piece.deltas());
    let mut out: Vec<String> = deltas.map(|delta| chunk(delta, Value::Null)).collect();
    out.push(chunk("", json!("stop")));
    out.push("data: [DONE]\n\n".into());
    out
}

/// Puts the source text of an object into a document of one line. Line ends stand between tokens alone, because no string
/// of JSON has one.
fn with_object(document: &Value, object: &str) -> String {
    let object = object.replace(['\r', '\n'], " ");
    document.to_string().replace("\"@OBJECT@\"", &object)
}

/// The end of an array, which is part of its last event.
pub(crate) const ARRAY_END: &str = "\n]\n";

/// Returns a document of Code Assist: one of Gemini in a wrapper.
fn in_wrapper(document: &str) -> String {
    format!("{{\"response\": {document},\"traceId\":\"t1\"}}")
}

fn gemini(streamed: StreamedApi, pieces: &[Piece<'_>]) -> Vec<String> {
    let mut chunks = gemini_chunks(pieces);
    if streamed == ModelApi::CodeAssist {
        chunks = chunks.iter().map(|chunk| in_wrapper(chunk)).collect();
    }
    match streamed.is_array() {
        true => array_of(chunks),
        false => chunks
            .into_iter()
            .map(|chunk| format!("data: {chunk}\r\n\r\n"))
            .collect(),
    }
}

/// The bytes between the elements are those of Google's servers.
fn array_of(chunks: Vec<String>) -> Vec<String> {
    let last = chunks.len() - 1;
    let element = |(at, chunk): (usize, String)| {
        let before = if at == 0 { "[" } else { "\n,\r\n" };
        let after = if at == last { ARRAY_END } else { "" };
        format!("{before}{chunk}{after}")
    };
    chunks.into_iter().enumerate().map(element).collect()
}

fn gemini_chunks(pieces: &[Piece<'_>]) -> Vec<String> {
    let chunk = |part: Value, finish_reason: Option<&str>| {
        let mut candidate = json!({"content": {"role": "model", "parts": [part]}, "index": 0});
        if let Some(reason) = finish_reason {
            candidate["finishReason"] = json!(reason);
        }
        json!({
            "candidates": [candidate], "modelVersion": "m", "responseId": "r1",
            "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
        })
    };
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Text(deltas) => {
                out.extend(
                    deltas
                        .iter()
                        .map(|text| chunk(json!({"text": text}), None).to_string()),
                );
            }
            Reasoning(deltas) => out.extend(
                deltas
                    .iter()
                    .map(|text| chunk(json!({"text": text, "thought": true}), None).to_string()),
            ),
            Tool(name, deltas) => {
                let call = json!({"functionCall": {"name": name, "args": "@OBJECT@"}});
                out.push(with_object(&chunk(call, None), &deltas.concat()));
            }
        }
    }
    out.push(chunk(json!({"text": ""}), Some("STOP")).to_string());
    out
}

fn ollama(api: ModelApi, pieces: &[Piece<'_>]) -> Vec<String> {
    let created = "2025-01-02T03:04:05.6Z";
    let line = |message: Value| match api {
        ModelApi::OllamaGenerate => json!({
            "model": "m", "created_at": created, "response": message["content"], "done": false,
        }),
        _ => json!({"model": "m", "created_at": created, "message": message, "done": false}),
    };
    let message = |text: &str| json!({"role": "assistant", "content": text});
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Text(deltas) => {
                out.extend(deltas.iter().map(|text| line(message(text)).to_string()));
            }
            Reasoning(deltas) => out.extend(deltas.iter().map(|text| {
                let mut thinking = message("");
                thinking["thinking"] = json!(text);
                line(thinking).to_string()
            })),
            Tool(name, deltas) => {
                let mut calling = message("");
                calling["tool_calls"] =
                    json!([{"function": {"name": name, "arguments": "@OBJECT@"}}]);
                out.push(with_object(&line(calling), &deltas.concat()));
            }
        }
    }
    let mut last = line(message(""));
    last["done"] = json!(true);
    last["done_reason"] = json!("stop");
    last["prompt_eval_count"] = json!(9);
    last["eval_count"] = json!(7);
    out.push(last.to_string());
    out.into_iter().map(|line| line + "\n").collect()
}

fn response(status: &str, output: &[Value]) -> Value {
    let usage = json!({"input_tokens": 9, "output_tokens": 7, "total_tokens": 16});
    let is_complete = status == "completed";
    json!({
        "id": "resp_1", "object": "response", "created_at": 17, "status": status, "model": "m",
        "output": output, "error": null, "incomplete_details": null,
        "usage": is_complete.then_some(usage),
    })
}

/// Returns the complete item of a piece.
fn item(index: usize, piece: &Piece<'_>) -> Value {
    let text = piece.deltas().concat();
    match piece {
        Text(_) => json!({
            "type": "message", "id": format!("item_{index}"), "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Reasoning(_) => json!({
            "type": "reasoning", "id": format!("item_{index}"),
            "summary": [{"type": "summary_text", "text": text}],
        }),
        Tool(name, _) => json!({
            "type": "function_call", "id": format!("item_{index}"), "status": "completed",
            "call_id": format!("call_{index}"), "name": name, "arguments": text,
        }),
    }
}

fn responses(pieces: &[Piece<'_>]) -> Vec<String> {
    let mut data = vec![
        json!({"type": "response.created", "response": response("in_progress", &[])}),
        json!({"type": "response.in_progress", "response": response("in_progress", &[])}),
    ];
    for (index, piece) in pieces.iter().enumerate() {
        let id = format!("item_{index}");
        let text = piece.deltas().concat();
        let mut added = item(index, piece);
        match piece {
            Text(_) => added["content"] = json!([]),
            Reasoning(_) => added["summary"] = json!([]),
            Tool(..) => added["arguments"] = json!(""),
        }
        data.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": added}),
        );
        let (stem, part, at, member) = match piece {
            Text(_) => (
                "output_text",
                Some("content_part"),
                Some("content_index"),
                "text",
            ),
            Reasoning(_) => (
                "reasoning_summary_text",
                Some("reasoning_summary_part"),
                Some("summary_index"),
                "text",
            ),
            Tool(..) => ("function_call_arguments", None, None, "arguments"),
        };
        let mut push = |kind: String, more: Value| {
            let mut event = json!({"type": kind, "item_id": id, "output_index": index});
            if let Some(at) = at {
                event[at] = json!(0);
            }
            event
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            data.push(event);
        };
        let whole = match piece {
            Text(_) => json!({"type": "output_text", "text": text, "annotations": []}),
            _ => json!({"type": "summary_text", "text": text}),
        };
        if let Some(part) = part {
            let mut empty = whole.clone();
            empty["text"] = json!("");
            push(format!("response.{part}.added"), json!({"part": empty}));
        }
        for delta in piece.deltas() {
            push(format!("response.{stem}.delta"), json!({"delta": delta}));
        }
        push(format!("response.{stem}.done"), json!({member: text}));
        if let Some(part) = part {
            push(format!("response.{part}.done"), json!({"part": whole}));
        }
        data.push(json!({
            "type": "response.output_item.done", "output_index": index, "item": item(index, piece),
        }));
    }
    data.push(
        json!({"type": "response.completed", "response": whole(ModelApi::OpenAiResponses, pieces)}),
    );
    let numbered = data.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = json!(number);
        named(&event)
    });
    numbered.collect()
}

/// Returns the reply to a request without `stream`.
pub(crate) fn whole(api: impl Into<StreamedApi>, pieces: &[Piece<'_>]) -> Value {
    let api = api.into().api;
    let joined = |piece: &Piece<'_>| piece.deltas().concat();
    match api {
        ModelApi::AnthropicMessages => {
            let blocks = pieces.iter().enumerate().map(|(index, piece)| match piece {
                Text(_) => json!({"type": "text", "text": joined(piece)}),
                Reasoning(_) => json!({"type": "thinking", "thinking": joined(piece), "signature": ""}),
                Tool(name, _) => {
                    let input: Value = serde_json::from_str(&joined(piece)).unwrap();
                    json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": input})
                }
            });
            json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                "content": blocks.collect::<Vec<_>>(), "stop_reason": "end_turn", "stop_sequence": null,
                "usage": {"input_tokens": 9, "output_tokens": 7},
            })
        }
        ModelApi::OpenAiChat => {
            let mut message = json!({"role": "assistant", "content": null});
            let mut calls = Vec::new();
            for piece in pieces {
                match piece {
                    Text(_) => message["content"] = json!(joined(piece)),
                    Reasoning(_) => message["reasoning_content"] = json!(joined(piece)),
                    Tool(name, _) => calls.push(json!({
                        "id": format!("call_{}", calls.len()), "type": "function",
                        "function": {"name": name, "arguments": joined(piece)},
                    })),
                }
            }
            if !calls.is_empty() {
                message["tool_calls"] = json!(calls);
            }
            json!({
                "id": "c1", "object": "chat.completion", "created": 17, "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
            })
        }
        ModelApi::OpenAiCompletions => {
            let text: String = pieces.iter().map(joined).collect();
            json!({
                "id": "cmpl-1", "object": "text_completion", "created": 17, "model": "m",
                "choices": [{"index": 0, "text": text, "logprobs": null, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
            })
        }
        ModelApi::Gemini => {
            let parts = pieces.iter().map(|piece| match piece {
                Text(_) => json!({"text": joined(piece)}),
                Reasoning(_) => json!({"text": joined(piece), "thought": true}),
                Tool(name, _) => {
                    let args: Value = serde_json::from_str(&joined(piece)).unwrap();
                    json!({"functionCall": {"name": name, "args": args}})
                }
            });
            let parts: Vec<Value> = parts.collect();
            json!({
                "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
                "modelVersion": "m", "responseId": "r1",
                "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 16},
            })
        }
        ModelApi::CodeAssist => {
            json!({"response": whole(ModelApi::Gemini, pieces), "traceId": "t1"})
        }
        ModelApi::OllamaChat | ModelApi::OllamaGenerate => {
            let mut message = json!({"role": "assistant", "content": ""});
            let mut calls = Vec::new();
            for piece in pieces {
                match piece {
                    Text(_) => message["content"] = json!(joined(piece)),
                    Reasoning(_) => message["thinking"] = json!(joined(piece)),
                    Tool(name, _) => {
                        let arguments: Value = serde_json::from_str(&joined(piece)).unwrap();
                        calls.push(json!({"function": {"name": name, "arguments": arguments}}));
                    }
                }
            }
            if !calls.is_empty() {
                message["tool_calls"] = json!(calls);
            }
            let mut whole = json!({
                "model": "m", "created_at": "2025-01-02T03:04:05.6Z", "done": true, "done_reason": "stop",
                "prompt_eval_count": 9, "eval_count": 7,
            });
            match api {
                ModelApi::OllamaGenerate => whole["response"] = message["content"].clone(),
                _ => whole["message"] = message,
            }
            whole
        }
        _ => {
            let items: Vec<Value> = pieces
                .iter()
                .enumerate()
                .map(|(index, piece)| item(index, piece))
                .collect();
            response("completed", &items)
        }
    }
}

/// The texts and ends that a client reads from the bytes that it received.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The texts by channel, each part on a separate line.
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) input: String,
    pub(crate) tools: Vec<String>,
    pub(crate) finishes: Vec<String>,
    pub(crate) errors: Vec<String>,
}

pub(crate) fn seen(sent: &str) -> Seen {
    let mut seen = Seen::default();
    let mut channels = Vec::new();
    let mut reader = Reader::new("sent");
    let mut on = |_: &str, event: Event| match event {
        Event::PartStart { channel, tool, .. } => {
            channels.push(channel);
            seen.tools.extend(tool);
        }
        Event::Delta { part, bytes } => {
            let text = String::from_utf8(bytes).unwrap();
            match channels[part.0 as usize] {
                Channel::Reasoning => seen.reasoning += &text,
                Channel::ToolInput => seen.input += &text,
                _ => seen.text += &text,
            }
        }
        Event::Finish { reason } => seen.finishes.push(reason),
        Event::Error { message, .. } => seen.errors.push(message),
        _ => {}
    };
    reader.push(closed(sent).as_bytes(), &mut on);
    reader.finish(&mut on);
    assert_eq!(reader.malformed_events(), 0, "{sent}");
    seen
}

/// Returns an array with its end, if it lacks it; other bytes as they are.
fn closed(sent: &str) -> Cow<'_, str> {
    let text = sent.trim_ascii_end();
    match text.starts_with('[') && !text.ends_with(']') {
        true => format!("{}]", text.trim_end_matches(',')).into(),
        false => sent.into(),
    }
}
