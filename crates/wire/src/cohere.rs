//! Cohere's Chat API (`v2`): content blocks, a plan for tools, and tool calls, each with a start and an end.
//!
//! Source: the reference of `POST /v2/chat`, streaming and non-streaming.
//!
//! The plan is judged as reasoning, and citations as the output of a tool.

use super::FormatReader;
use super::json::JsonValue;
use super::reply::{EventSink, PartSpec, ReplyEmitter, ReplySequence};
use ttsr::Channel;
use ttsr::rule::ToolOutcome;

/// The kinds of records that only this format has.
pub(super) const KINDS: [&str; 11] = [
    "message-start",
    "content-start",
    "content-delta",
    "content-end",
    "tool-plan-delta",
    "tool-call-start",
    "tool-call-delta",
    "tool-call-end",
    "citation-start",
    "citation-end",
    "message-end",
];

/// Members of a whole reply that are read or are known metadata.
const REPLY: [&str; 4] = ["message", "finish_reason", "usage", "logprobs"];

/// The same for the message in an event or in a whole reply.
const MESSAGE: [&str; 4] = ["content", "tool_plan", "tool_calls", "citations"];

#[derive(Debug)]
pub(super) struct CohereReader {
    replies: ReplySequence,
}

impl CohereReader {
    pub(super) fn new(default_name: String) -> CohereReader {
        CohereReader {
            replies: ReplySequence::new(default_name),
        }
    }

    /// Reads the reply to a request without `stream`.
    fn read_whole_reply(&mut self, record: &JsonValue<'_>, on: EventSink<'_>) {
        let reply = self.replies.begin(record.text("id").as_deref(), on);
        if let Some(message) = record.get("message") {
            read_message(reply, 0, message, on);
        }
        end(reply, record, on);
        reply.count_unread(record, &REPLY, "", on);
        self.replies.finish("message", on);
    }
}

/// Returns true for a whole reply of this format.
pub(super) fn is_reply(record: &JsonValue<'_>) -> bool {
    let message = record.get("message").filter(|message| message.is_object());
    record.get("finish_reason").is_some() && message.is_some()
}

impl FormatReader for CohereReader {
    fn read_record(&mut self, kind: &str, record: &JsonValue<'_>, on: EventSink<'_>) {
        if is_reply(record) {
            return self.read_whole_reply(record, on);
        }
        let index = record.number("index").unwrap_or(0);
        let id = record.text("id");
        let reply = match kind {
            "message-start" => self.replies.begin(id.as_deref(), on),
            kind if KINDS.contains(&kind) => self.replies.reply(id.as_deref(), on),
            _ => return self.replies.count_unread(record, &[], kind, on),
        };
        let delta = record.get("delta");
        if let Some(message) = delta.and_then(|delta| delta.get("message")) {
            read_message(reply, index, message, on);
        }
        if let Some(delta) = delta {
            reply.count_unread(delta, &REPLY, "delta", on);
        }
        reply.count_unread(record, &["delta"], kind, on);
        match kind {
            "content-end" => reply.end_group(&format!("content {index}"), on),
            "tool-call-start" => reply.end_group("plan", on),
            "tool-call-end" => reply.end_group(&format!("tool {index}"), on),
            "message-end" => {
                if let Some(delta) = delta {
                    end(reply, delta, on);
                }
                self.replies.finish(kind, on);
            }
            _ => {}
        }
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.replies.count_unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: EventSink<'_>) {
        self.replies.close(on);
    }
}

/// Returns the elements of a member, which is one object in an event and a list in a whole reply.
fn one_or_many<'a>(value: &'a JsonValue<'a>) -> &'a [JsonValue<'a>] {
    match value.is_array() {
        true => value.items(),
        false => std::slice::from_ref(value),
    }
}

fn read_message(reply: &mut ReplyEmitter, index: u64, message: &JsonValue<'_>, on: EventSink<'_>) {
    let plan = message.bytes("tool_plan").unwrap_or_default();
    reply.push_delta(PartSpec::new("plan", "plan", Channel::Reasoning), plan, on);
    for (content, index) in message
        .get("content")
        .map_or(&[][..], one_or_many)
        .iter()
        .zip(index..)
    {
        read_content(reply, index, content, on);
    }
    for (call, index) in message
        .get("tool_calls")
        .map_or(&[][..], one_or_many)
        .iter()
        .zip(index..)
    {
        tool_call(reply, index, call, on);
    }
    for citation in message.get("citations").map_or(&[][..], one_or_many) {
        let spec = PartSpec::new("citations", "citations[]", Channel::ToolOutput);
        reply.push_tool_strings(spec, ToolOutcome::Ok, citation, &[], on);
    }
    reply.count_unread(message, &MESSAGE, "message", on);
}

fn read_content(reply: &mut ReplyEmitter, index: u64, content: &JsonValue<'_>, on: EventSink<'_>) {
    let name = index.to_string();
    for (member, channel) in [("thinking", Channel::Reasoning), ("text", Channel::Text)] {
        if let Some(bytes) = content.bytes(member) {
            let key = format!("content {index}/{}", channel.name());
            let spec = PartSpec::new(&key, &name, channel);
            reply.open(spec, on);
            reply.push_delta(spec, bytes, on);
        }
    }
    reply.count_unread(content, &["text", "thinking"], "message.content[]", on);
}

fn tool_call(reply: &mut ReplyEmitter, index: u64, call: &JsonValue<'_>, on: EventSink<'_>) {
    let function = call.get("function");
    let tool = function.and_then(|function| function.text("name"));
    let (id, key) = (call.text("id"), format!("tool {index}/input"));
    let name = format!("tool/{index}");
    let spec = PartSpec {
        tool: tool.as_deref(),
        call: id.as_deref(),
        ..PartSpec::new(&key, &name, Channel::ToolInput)
    };
    reply.open(spec, on);
    let arguments = function.and_then(|function| function.bytes("arguments"));
    reply.push_delta(spec, arguments.unwrap_or_default(), on);
    if let Some(function) = function {
        let root = "message.tool_calls[].function";
        reply.count_unread(function, &["name", "arguments"], root, on);
    }
    reply.count_unread(call, &["function"], "message.tool_calls[]", on);
}

/// Reads the finish reason and the usage, from the last event or from a whole reply.
fn end(reply: &mut ReplyEmitter, holder: &JsonValue<'_>, on: EventSink<'_>) {
    let tokens = holder.get("usage").and_then(|usage| usage.get("tokens"));
    if let Some(tokens) = tokens {
        let output = tokens.number("output_tokens");
        reply.usage(tokens.number("input_tokens"), output, on);
    }
    if let Some(error) = holder.text("error") {
        reply.error("", &error, on);
    }
    reply.reason = holder
        .text("finish_reason")
        .map(|reason| reason.into_owned());
}
