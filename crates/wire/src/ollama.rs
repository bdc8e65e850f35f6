//! Ollama's own API: `/api/chat` and `/api/generate`, one JSON object a line, the last with `done`.
//!
//! Tool calls come whole, with their arguments as an object. There are no ids: replies follow one another.

use super::Source;
use super::json::Json;
use super::reply::{Naming, Replies, Reply, Sink};
use ttsr::Channel;

/// Members of a line that are read, or that say nothing of what the model wrote.
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
pub(super) struct Lines {
    replies: Replies,
    /// Tool calls of the reply so far.
    calls: u64,
}

impl Lines {
    pub(super) fn new(default_name: String) -> Lines {
        Lines {
            replies: Replies::new(default_name),
            calls: 0,
        }
    }
}

/// Whether only this format has such a line.
pub(super) fn is_line(record: &Json<'_>) -> bool {
    let done = record.get("done").map(Json::raw);
    let says_done = matches!(done, Some(b"true" | b"false"));
    says_done && (record.get("message").is_some() || record.get("response").is_some())
}

impl Source for Lines {
    fn record(&mut self, _kind: &str, line: &Json<'_>, on: Sink<'_>) {
        if self.replies.current().is_none() {
            self.calls = 0;
        }
        let reply = self.replies.reply(None, on);
        if let Some(error) = line.get("error") {
            let message = error.string().unwrap_or(error.raw());
            reply.error("", &String::from_utf8_lossy(message), on);
        }
        read(reply, line, "response", &mut self.calls, on);
        if let Some(message) = line.get("message") {
            read(reply, message, "content", &mut self.calls, on);
            reply.unscanned(
                message.unread(&["content", "thinking", "tool_calls", "tool_name"]),
                "message",
                on,
            );
        }
        reply.unscanned(line.unread(&LINE), "ollama", on);
        let counted = line.number("eval_count");
        reply.usage(line.number("prompt_eval_count"), counted, on);
        if line.get("done").is_some_and(|done| done.raw() == b"true") {
            let reason = line.text("done_reason").unwrap_or("done".into());
            self.replies.finish(&reason, on);
        }
    }

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.replies.unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: Sink<'_>) {
        self.replies.close(on);
    }
}

fn read(reply: &mut Reply, holder: &Json<'_>, text: &str, calls: &mut u64, on: Sink<'_>) {
    let thinking = holder.bytes("thinking").unwrap_or_default();
    let naming = Naming::new("thinking", "thinking", Channel::Reasoning);
    reply.delta(naming, thinking, on);
    let naming = Naming::new("content", "content", Channel::Text);
    reply.delta(naming, holder.bytes(text).unwrap_or_default(), on);
    for call in holder.list("tool_calls") {
        tool_call(reply, *calls, call, on);
        *calls += 1;
    }
}

fn tool_call(reply: &mut Reply, number: u64, call: &Json<'_>, on: Sink<'_>) {
    let function = call.get("function").unwrap_or(call);
    let (tool, id) = (function.text("name"), call.text("id"));
    let key = format!("tool/{number}");
    let naming = Naming {
        tool: tool.as_deref(),
        call: id.as_deref(),
        ..Naming::new(&key, &key, Channel::ToolInput)
    };
    reply.open(naming, on);
    if let Some(input) = function.get("arguments") {
        reply.whole(naming, input.string().unwrap_or(input.raw()), on);
    }
    reply.end(&key, on);
    let nested = if call.get("function").is_some() {
        call.unread(&["function"])
    } else {
        0
    };
    reply.unscanned(
        nested + function.unread(&["name", "arguments"]),
        "tool_calls",
        on,
    );
}
