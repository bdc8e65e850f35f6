//! Cohere's Chat API, version 2: content blocks, a plan for tools, and tool calls, each with start and end.
//!
//! The plan is reasoning. Citations repeat what was said and are counted. Also whole replies, which a
//! request without `stream` gets.

use super::Source;
use super::json::Json;
use super::reply::{Naming, Replies, Reply, Sink};
use ttsr::Channel;

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

/// Members of a whole reply that are read, or that say nothing of what the model wrote.
const REPLY: [&str; 4] = ["message", "finish_reason", "usage", "logprobs"];

/// The same for the message in an event or in a whole reply.
const MESSAGE: [&str; 3] = ["content", "tool_plan", "tool_calls"];

#[derive(Debug)]
pub(super) struct Chat {
    replies: Replies,
}

impl Chat {
    pub(super) fn new(default_name: String) -> Chat {
        Chat {
            replies: Replies::new(default_name),
        }
    }

    /// What a request without `stream` gets.
    fn whole(&mut self, record: &Json<'_>, on: Sink<'_>) {
        let reply = self.replies.begin(record.text("id").as_deref(), on);
        if let Some(message) = record.get("message") {
            read_message(reply, 0, message, on);
        }
        end(reply, record, on);
        reply.unscanned(record.unread(&REPLY), "message", on);
        self.replies.finish("message", on);
    }
}

/// Whether only this format has such a document.
pub(super) fn is_reply(record: &Json<'_>) -> bool {
    let message = record.get("message").filter(|message| message.is_object());
    record.get("finish_reason").is_some() && message.is_some()
}

impl Source for Chat {
    fn record(&mut self, kind: &str, record: &Json<'_>, on: Sink<'_>) {
        if is_reply(record) {
            return self.whole(record, on);
        }
        let index = record.number("index").unwrap_or(0);
        let id = record.text("id");
        let reply = match kind {
            "message-start" => self.replies.begin(id.as_deref(), on),
            kind if KINDS.contains(&kind) => self.replies.reply(id.as_deref(), on),
            _ => return self.replies.unscanned(record.unread(&[]), kind, on),
        };
        let delta = record.get("delta");
        match delta.and_then(|delta| delta.get("message")) {
            Some(message) if kind.starts_with("citation") => {
                reply.unscanned(message.content(), kind, on);
            }
            Some(message) => read_message(reply, index, message, on),
            None => {}
        }
        let rest = delta.map_or(0, |delta| delta.unread(&REPLY));
        reply.unscanned(rest + record.unread(&["delta"]), kind, on);
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

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.replies.unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: Sink<'_>) {
        self.replies.close(on);
    }
}

/// A member holds one thing in an event, and a list of them in a whole reply.
fn several<'a>(value: &'a Json<'a>) -> &'a [Json<'a>] {
    match value.is_array() {
        true => value.items(),
        false => std::slice::from_ref(value),
    }
}

fn read_message(reply: &mut Reply, index: u64, message: &Json<'_>, on: Sink<'_>) {
    let plan = message.bytes("tool_plan").unwrap_or_default();
    reply.delta(Naming::new("plan", "plan", Channel::Reasoning), plan, on);
    for (content, index) in message
        .get("content")
        .map_or(&[][..], several)
        .iter()
        .zip(index..)
    {
        read_content(reply, index, content, on);
    }
    for (call, index) in message
        .get("tool_calls")
        .map_or(&[][..], several)
        .iter()
        .zip(index..)
    {
        tool_call(reply, index, call, on);
    }
    reply.unscanned(message.unread(&MESSAGE), "message", on);
}

fn read_content(reply: &mut Reply, index: u64, content: &Json<'_>, on: Sink<'_>) {
    let name = index.to_string();
    for (member, channel) in [("thinking", Channel::Reasoning), ("text", Channel::Text)] {
        if let Some(bytes) = content.bytes(member) {
            let key = format!("content {index}/{}", channel.name());
            let naming = Naming::new(&key, &name, channel);
            reply.open(naming, on);
            reply.delta(naming, bytes, on);
        }
    }
    reply.unscanned(content.unread(&["text", "thinking"]), "content", on);
}

fn tool_call(reply: &mut Reply, index: u64, call: &Json<'_>, on: Sink<'_>) {
    let function = call.get("function");
    let tool = function.and_then(|function| function.text("name"));
    let (id, key) = (call.text("id"), format!("tool {index}/input"));
    let name = format!("tool/{index}");
    let naming = Naming {
        tool: tool.as_deref(),
        call: id.as_deref(),
        ..Naming::new(&key, &name, Channel::ToolInput)
    };
    reply.open(naming, on);
    let arguments = function.and_then(|function| function.bytes("arguments"));
    reply.delta(naming, arguments.unwrap_or_default(), on);
    let rest = function.map_or(0, |function| function.unread(&["name", "arguments"]));
    reply.unscanned(rest + call.unread(&["function"]), "tool_calls", on);
}

/// The reason and the usage, of the last event or of a whole reply.
fn end(reply: &mut Reply, holder: &Json<'_>, on: Sink<'_>) {
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
