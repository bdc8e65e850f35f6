//! OpenAI's Responses API. The reason of a block is a separate message item, and the final response repeats the output
//! that was sent.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use ttsr_wire::{JsonValue, WireFormat};

use super::{EventHold, ReplyApi, ReplyEvent, ReplyId, SplicedEvent};
use crate::config::BlockEnding;
use crate::json_spans::{JsonEdits, elements, member, members, parse, span, string};
use crate::judge::output::JudgedOutput;

#[derive(Debug, Default)]
pub(super) struct ResponsesReply {
    /// The response of the first event.
    response: Option<Value>,
    /// The sequence number of the next event.
    sequence: u64,
    /// Items that are complete, by their index in the output.
    done: BTreeMap<u64, Value>,
    open: BTreeMap<u64, OpenItem>,
    /// Number of bytes of `done` and `open`, as they were written.
    kept_bytes: usize,
    has_ended: bool,
    /// Tool calls that are arriving, by their index in the output.
    arriving: Vec<u64>,
    /// True after the end of an attempt that was cut: the events are those of another one.
    is_spliced: bool,
    /// The id of this attempt, if another one was cut.
    attempt_id: Option<String>,
    /// The index of the first item of this attempt.
    base: u64,
    /// True if a keep-alive event has taken a sequence number of the server.
    has_kept_alive: bool,
}

/// An item that was sent in part.
#[derive(Debug, Default)]
struct OpenItem {
    item: Value,
    /// Number of bytes of the item and of its parts, as they were written.
    bytes: usize,
    /// The parts of its content by their index: the part as it was added, the text so far, and true after its end.
    content: BTreeMap<u64, (Value, String, bool)>,
    /// The same for the parts of its summary.
    summary: BTreeMap<u64, (Value, String, bool)>,
}

/// An event. Values are kept as they are written, so that an event that is held takes no more memory than its bytes.
#[derive(Debug, Default)]
pub(crate) struct ResponsesEvent {
    kind: String,
    sequence_number: Option<u64>,
    output_index: Option<u64>,
    content_index: u64,
    summary_index: u64,
    delta: String,
    item: Option<Vec<u8>>,
    /// True if the item is a tool call.
    is_call: bool,
    part: Option<Vec<u8>>,
    /// The first response of the reply.
    response: Option<Vec<u8>>,
}

impl ResponsesEvent {
    fn read(event: &JsonValue<'_>, is_first: bool) -> ResponsesEvent {
        let text = |name| event.text(name).unwrap_or_default().into_owned();
        let source = |name| event.get(name).map(|value| value.raw().to_vec());
        let number = |name| event.number(name);
        let item = event.get("item").and_then(|item| item.bytes("type"));
        ResponsesEvent {
            kind: text("type"),
            sequence_number: number("sequence_number"),
            output_index: number("output_index"),
            content_index: number("content_index").unwrap_or(0),
            summary_index: number("summary_index").unwrap_or(0),
            delta: text("delta"),
            item: source("item"),
            is_call: item.is_some_and(is_call),
            part: source("part"),
            response: source("response").filter(|_| is_first),
        }
    }
}

/// Returns true for the types of items that are held until they are complete: calls of tools, and a call that the client
/// is asked to approve, which the server then makes.
fn is_call(kind: &[u8]) -> bool {
    kind.ends_with(b"_call") || kind == b"mcp_approval_request"
}

/// Returns the value of a source text; `null` if it is missing or not valid JSON in UTF-8.
fn parsed(source: Option<Vec<u8>>) -> Value {
    let value = source.and_then(|source| serde_json::from_slice(&source).ok());
    value.unwrap_or_default()
}

/// The events that end a response.
const FINAL: [&str; 4] = [
    "response.completed",
    "response.failed",
    "response.incomplete",
    "error",
];

impl ReplyApi for ResponsesReply {
    fn format(&self) -> WireFormat {
        WireFormat::OpenAiResponses
    }

    fn read(&self, record: Option<&JsonValue<'_>>) -> ReplyEvent {
        ReplyEvent::Responses(Box::new(match record {
            Some(event) => ResponsesEvent::read(event, self.response.is_none()),
            None => ResponsesEvent::default(),
        }))
    }

    fn hold(&mut self, event: &ReplyEvent) -> EventHold {
        let ReplyEvent::Responses(event) = event else {
            return EventHold::default();
        };
        let Some(index) = event.output_index else {
            return EventHold::default();
        };
        if event.is_call && event.kind == "response.output_item.added" {
            self.arriving.push(index);
        }
        // A server may send an item only once, complete.
        let call = (event.is_call || self.arriving.contains(&index)).then_some(index);
        let completes_call = event.kind == "response.output_item.done";
        if completes_call {
            self.arriving.retain(|known| *known != index);
        }
        EventHold {
            call,
            completes_call,
            waits_for_end: false,
        }
    }

    fn sent(&mut self, event: ReplyEvent) {
        let ReplyEvent::Responses(event) = event else {
            return;
        };
        let next = event.sequence_number.map(|number| number.saturating_add(1));
        self.sequence = self.sequence.max(next.unwrap_or(0));
        self.has_ended |= FINAL.contains(&&*event.kind);
        if let (None, Some(response)) = (&self.response, event.response) {
            self.response = Some(parsed(Some(response))).filter(Value::is_object);
        }
        let Some(index) = event.output_index else {
            return;
        };
        let len = |source: &Option<Vec<u8>>| source.as_ref().map_or(0, Vec::len);
        let (item, part, delta) = (len(&event.item), len(&event.part), event.delta.len());
        if event.kind == "response.output_item.done" && event.item.is_some() {
            let open = self.open.remove(&index).map_or(0, |open| open.bytes);
            self.kept_bytes = self.kept_bytes - open + item;
            self.done.insert(index, parsed(event.item));
            return;
        }
        if self.done.contains_key(&index) {
            return;
        }
        let open = self.open.entry(index).or_default();
        let content = open.content.entry(event.content_index);
        let kept = match &*event.kind {
            "response.output_item.added" => {
                open.item = parsed(event.item);
                item
            }
            "response.content_part.added" => {
                *content.or_default() = (parsed(event.part), String::new(), false);
                part
            }
            "response.output_text.delta"
            | "response.refusal.delta"
            | "response.reasoning_text.delta" => {
                content.or_default().1.push_str(&event.delta);
                delta
            }
            "response.content_part.done" => {
                content.or_default().2 = true;
                0
            }
            "response.reasoning_summary_part.added" => {
                let added = (parsed(event.part), String::new(), false);
                open.summary.insert(event.summary_index, added);
                part
            }
            "response.reasoning_summary_text.delta" => {
                let part = open.summary.entry(event.summary_index);
                part.or_default().1.push_str(&event.delta);
                delta
            }
            "response.reasoning_summary_part.done" => {
                open.summary.entry(event.summary_index).or_default().2 = true;
                0
            }
            _ => 0,
        };
        open.bytes += kept;
        self.kept_bytes += kept;
    }

    fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    fn can_splice(&self) -> bool {
        let is_sent_call = |item: &Value| {
            item["type"]
                .as_str()
                .is_some_and(|it| is_call(it.as_bytes()))
        };
        !self.has_ended && !self.done.values().any(is_sent_call)
    }

    fn splice(&mut self, out: &mut JudgedOutput) {
        let mut events = EndEvents {
            sequence: self.sequence,
            out,
        };
        for (index, open) in std::mem::take(&mut self.open) {
            let item = events.close(index, &open);
            self.done.insert(index, item);
        }
        self.sequence = events.sequence;
        self.is_spliced = true;
        self.arriving.clear();
        let last = self.done.last_key_value();
        self.base = last.map_or(0, |(index, _)| index + 1);
    }

    fn splice_event(&mut self, data: &[u8]) -> SplicedEvent {
        let Some(first) = &self.response else {
            return SplicedEvent::Same;
        };
        let Some(top) = parse(data).and_then(members) else {
            return SplicedEvent::Same;
        };
        let kind = member(&top, "type").and_then(string).unwrap_or_default();
        let is_final = FINAL.contains(&&*kind);
        let response = member(&top, "response");
        if let Some(response) = response.and_then(members).filter(|_| self.is_spliced) {
            self.attempt_id = member(&response, "id").and_then(string);
        }
        if self.is_spliced && response.is_some() && !is_final {
            return SplicedEvent::Dropped;
        }
        let mut edits = JsonEdits::default();
        let mut set = |value: Option<&RawValue>, with: String| {
            if let Some(value) = value.filter(|value| value.get() != with) {
                edits.replace(span(data, value), with);
            }
        };
        set(member(&top, "sequence_number"), self.sequence.to_string());
        let index = member(&top, "output_index");
        let number = index.and_then(|index| index.get().parse::<u64>().ok());
        if let Some(number) = number {
            set(index, number.saturating_add(self.base).to_string());
        }
        if let Some(response) = response.and_then(members).filter(|_| self.is_spliced) {
            for name in ["id", "created_at", "model"] {
                if let Some(known) = first.get(name) {
                    set(member(&response, name), known.to_string());
                }
            }
            let earlier = self
                .done
                .range(..self.base)
                .map(|(_, item)| item.to_string());
            let earlier: Vec<String> = earlier.collect();
            if let Some(output) = member(&response, "output")
                && let Some(known) = elements(output)
                && !earlier.is_empty()
            {
                let later = known.iter().map(|item| item.get().to_owned());
                let all: Vec<String> = earlier.into_iter().chain(later).collect();
                set(Some(output), format!("[{}]", all.join(",")));
            }
        }
        SplicedEvent::edited(data, &edits)
    }

    fn reply_id(&self) -> Option<ReplyId> {
        let sent = self.response.as_ref()?["id"].as_str()?.to_owned();
        let of_server = self.attempt_id.clone().unwrap_or_else(|| sent.clone());
        Some(ReplyId { sent, of_server })
    }

    fn has_other_numbers(&self) -> bool {
        self.has_kept_alive
    }

    /// Codex counts only events, and no comments. The numbers of the events that follow are moved, so that they have no
    /// gap.
    fn keep_alive(&mut self, out: &mut JudgedOutput) {
        let Some(response) = self.response.as_ref().filter(|_| !self.has_ended) else {
            return out.push_comment();
        };
        let mut events = EndEvents {
            sequence: self.sequence,
            out,
        };
        events.push("response.in_progress", json!({"response": response}));
        self.sequence = events.sequence;
        self.has_kept_alive = true;
    }

    fn end(&self, reason: &str, ending: BlockEnding, out: &mut JudgedOutput) {
        if self.has_ended {
            return;
        }
        let mut events = EndEvents {
            sequence: self.sequence,
            out,
        };
        let mut response = self.response.clone().unwrap_or_else(|| {
            json!({
                "id": "resp_ttsr", "object": "response", "created_at": 0, "model": "", "output": [],
                "parallel_tool_calls": true, "tools": [], "tool_choice": "auto", "metadata": {},
                "instructions": null, "error": null, "incomplete_details": null,
                "temperature": null, "top_p": null,
            })
        });
        response["status"] = json!("in_progress");
        if self.response.is_none() {
            events.push("response.created", json!({"response": response}));
        }
        let mut output = self.done.clone();
        for (index, open) in &self.open {
            output.insert(*index, events.close(*index, open));
        }
        let index = output.last_key_value().map_or(0, |(index, _)| index + 1);
        output.insert(index, events.message(index, reason));
        response["output"] = output.into_values().collect();
        if response["usage"].is_null() {
            response["usage"] = json!({
                "input_tokens": 0, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 0, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 0,
            });
        }
        let kind = match ending {
            BlockEnding::Soft => {
                response["status"] = json!("completed");
                "response.completed"
            }
            BlockEnding::Hard => {
                response["status"] = json!("failed");
                response["error"] = json!({"code": "invalid_prompt", "message": reason});
                "response.failed"
            }
        };
        events.push(kind, json!({"response": response}));
    }

    fn whole(&self, reply: &Value, reason: &str) -> Value {
        let mut whole = reply.clone();
        whole["output"] = json!([message_item(reason, "completed")]);
        whole["status"] = json!("completed");
        whole["error"] = Value::Null;
        whole["incomplete_details"] = Value::Null;
        if let Some(members) = whole.as_object_mut() {
            members.remove("output_text");
        }
        whole
    }
}

const REASON_ID: &str = "msg_ttsr";

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn message_item(text: &str, status: &str) -> Value {
    json!({
        "type": "message", "id": REASON_ID, "status": status, "role": "assistant",
        "content": [text_part(text)],
    })
}

/// Writes the events that end a response.
struct EndEvents<'o> {
    sequence: u64,
    out: &'o mut JudgedOutput,
}

impl EndEvents<'_> {
    fn push(&mut self, kind: &str, mut members: Value) {
        members["type"] = json!(kind);
        members["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        self.out.push_event(kind, &members);
    }

    /// Ends an item that was sent in part, and returns it.
    fn close(&mut self, index: u64, open: &OpenItem) -> Value {
        let mut item = open.item.clone();
        if !item.is_object() {
            item = json!({"type": "message", "id": "", "role": "assistant"});
        }
        let id = item["id"].clone();
        let at = |member: &str, at: u64, more: Value| {
            let mut event = json!({"item_id": id, "output_index": index, member: at});
            if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
                event.extend(more);
            }
            event
        };
        let mut content = Vec::new();
        for (place, (part, text, is_done)) in &open.content {
            let is_text = !matches!(part["type"].as_str(), Some("refusal" | "reasoning_text"));
            let mut part = part.clone();
            match part["type"].as_str() {
                None => part = text_part(text),
                Some("refusal") => part["refusal"] = json!(text),
                Some(_) => part["text"] = json!(text),
            }
            if !is_done && is_text {
                let done = json!({"text": text, "logprobs": []});
                self.push(
                    "response.output_text.done",
                    at("content_index", *place, done),
                );
            }
            if !is_done {
                let done = json!({"part": part});
                self.push(
                    "response.content_part.done",
                    at("content_index", *place, done),
                );
            }
            content.push(part);
        }
        let mut summary = Vec::new();
        for (place, (_, text, is_done)) in &open.summary {
            let part = json!({"type": "summary_text", "text": text});
            if !is_done {
                let done = json!({"text": text});
                self.push(
                    "response.reasoning_summary_text.done",
                    at("summary_index", *place, done),
                );
                let done = json!({"part": part});
                self.push(
                    "response.reasoning_summary_part.done",
                    at("summary_index", *place, done),
                );
            }
            summary.push(part);
        }
        if item["type"] == "message" || !content.is_empty() {
            item["content"] = Value::Array(content);
        }
        if item["type"] == "reasoning" {
            item["summary"] = Value::Array(summary);
        }
        if item["type"] == "message" || item.get("status").is_some() {
            item["status"] = json!("completed");
        }
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
        item
    }

    /// Writes a message item with that text, and returns it.
    fn message(&mut self, index: u64, text: &str) -> Value {
        let mut added = message_item(text, "in_progress");
        added["content"] = json!([]);
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": added}),
        );
        let at = |more: Value| {
            let mut event =
                json!({"item_id": REASON_ID, "output_index": index, "content_index": 0});
            if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
                event.extend(more);
            }
            event
        };
        self.push(
            "response.content_part.added",
            at(json!({"part": text_part("")})),
        );
        self.push(
            "response.output_text.delta",
            at(json!({"delta": text, "logprobs": []})),
        );
        self.push(
            "response.output_text.done",
            at(json!({"text": text, "logprobs": []})),
        );
        self.push(
            "response.content_part.done",
            at(json!({"part": text_part(text)})),
        );
        let item = message_item(text, "completed");
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
        item
    }
}
