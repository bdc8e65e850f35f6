//! Ollama's native API: `/api/chat` and `/api/generate`, one JSON object per line, the last with `done`.
//!
//! Source: the API reference in Ollama's repository (`docs/api.md`), which is not versioned.
//!
//! A tool call comes whole, with its arguments as an object. There are no ids: replies follow one another.

use super::FormatReader;
use super::json::JsonValue;
use super::reply::{EventSink, PartSpec, ReplyEmitter, ReplySequence};
use ttsr::Channel;

/// Members of a line that are read or are known metadata.
const LINE: [&str; 9] = [
    "message",
    "response",
    "thinking",
    "error",
    "created_at",
    "done_reason",
    "remote_model",
    "remote_host",
    "logprobs",
];

#[derive(Debug)]
pub(super) struct OllamaReader {
    replies: ReplySequence,
    /// The number of tool calls in the reply so far.
    calls: u64,
}

impl OllamaReader {
    pub(super) fn new(default_name: String) -> OllamaReader {
        OllamaReader {
            replies: ReplySequence::new(default_name),
            calls: 0,
        }
    }
}

/// Returns true if only this format has such a line.
pub(super) fn is_line(record: &JsonValue<'_>) -> bool {
    let done = record.get("done").map(JsonValue::raw);
    let says_done = matches!(done, Some(b"true" | b"false"));
    says_done && (record.get("message").is_some() || record.get("response").is_some())
}

impl FormatReader for OllamaReader {
    fn read_record(&mut self, _kind: &str, line: &JsonValue<'_>, on: EventSink<'_>) {
        if self.replies.current().is_none() {
            self.calls = 0;
        }
        let reply = self.replies.reply(None, on);
        if let Some(error) = line.get("error") {
            let message = error.string().unwrap_or(error.raw());
            reply.error("", &String::from_utf8_lossy(message), on);
        }
        read_message(reply, line, "response", &mut self.calls, on);
        if let Some(message) = line.get("message") {
            read_message(reply, message, "content", &mut self.calls, on);
            reply.count_unread(
                message,
                &["content", "thinking", "tool_calls", "tool_name"],
                "message",
                on,
            );
        }
        reply.count_unread(line, &LINE, "", on);
        let counted = line.number("eval_count");
        reply.usage(line.number("prompt_eval_count"), counted, on);
        if line.get("done").is_some_and(|done| done.raw() == b"true") {
            let reason = line.text("done_reason").unwrap_or("done".into());
            self.replies.finish(&reason, on);
        }
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.replies.count_unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: EventSink<'_>) {
        self.replies.close(on);
    }
}

fn read_message(
    reply: &mut ReplyEmitter,
    holder: &JsonValue<'_>,
    text: &str,
    calls: &mut u64,
    on: EventSink<'_>,
) {
    let thinking = holder.bytes("thinking").unwrap_or_default();
    let spec = PartSpec::new("thinking", "thinking", Channel::Reasoning);
    reply.push_delta(spec, thinking, on);
    let spec = PartSpec::new("content", "content", Channel::Text);
    reply.push_delta(spec, holder.bytes(text).unwrap_or_default(), on);
    for call in holder.list("tool_calls") {
        tool_call(reply, *calls, call, on);
        *calls += 1;
    }
}

fn tool_call(reply: &mut ReplyEmitter, number: u64, call: &JsonValue<'_>, on: EventSink<'_>) {
    let function = call.get("function").unwrap_or(call);
    let (tool, id) = (function.text("name"), call.text("id"));
    let key = format!("tool/{number}");
    let spec = PartSpec {
        tool: tool.as_deref(),
        call: id.as_deref(),
        ..PartSpec::new(&key, &key, Channel::ToolInput)
    };
    reply.open(spec, on);
    if let Some(input) = function.get("arguments") {
        reply.push_whole(spec, input.string().unwrap_or(input.raw()), on);
    }
    reply.end(&key, on);
    let root = "message.tool_calls[]";
    if call.get("function").is_some() {
        reply.count_unread(call, &["function"], root, on);
    }
    reply.count_unread(function, &["name", "arguments"], root, on);
}
