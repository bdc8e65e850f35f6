//! Anthropic's Messages API: content blocks, each with a start, deltas and a stop.
//!
//! Also whole messages (what a request without `stream` gets) and `message_start` with content already in
//! it. Signatures are no content; redacted thinking, citations and the results of server tools are counted.

use super::Source;
use super::json::Json;
use super::reply::{Naming, Replies, Reply, Sink};
use ttsr::Channel;

/// The kinds of records that only this format has.
pub(super) const KINDS: [&str; 8] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "message",
    "ping",
];

/// Members of a message that are read, or that say nothing of what the model wrote.
const MESSAGE: [&str; 8] = [
    "content",
    "stop_reason",
    "stop_sequence",
    "stop_details",
    "usage",
    "container",
    "context_management",
    "diagnostics",
];

#[derive(Debug)]
pub(super) struct Messages {
    replies: Replies,
}

impl Messages {
    pub(super) fn new(default_name: String) -> Messages {
        Messages {
            replies: Replies::new(default_name),
        }
    }

    fn start(&mut self, message: &Json<'_>, on: Sink<'_>) {
        let reply = self.replies.begin(message.text("id").as_deref(), on);
        reply.unscanned(message.unread(&MESSAGE), "message_start", on);
        usage(reply, message, on);
        for (index, block) in (0..).zip(message.list("content")) {
            start_block(reply, index, block, on);
            end_block(reply, index, on);
        }
        reply.reason = message
            .text("stop_reason")
            .map(|reason| reason.into_owned());
    }
}

impl Source for Messages {
    fn record(&mut self, kind: &str, record: &Json<'_>, on: Sink<'_>) {
        let index = record.number("index").unwrap_or(0);
        match kind {
            "message_start" => {
                if let Some(message) = record.get("message") {
                    self.start(message, on);
                }
                self.replies
                    .unscanned(record.unread(&["message"]), kind, on);
            }
            "message" => {
                self.start(record, on);
                self.replies.finish("message", on);
            }
            "content_block_start" => {
                let reply = self.replies.reply(None, on);
                if let Some(block) = record.get("content_block") {
                    start_block(reply, index, block, on);
                }
                reply.unscanned(record.unread(&["content_block"]), kind, on);
            }
            "content_block_delta" => {
                let reply = self.replies.reply(None, on);
                if let Some(delta) = record.get("delta") {
                    block_delta(reply, index, delta, on);
                }
                reply.unscanned(record.unread(&["delta"]), kind, on);
            }
            "content_block_stop" => {
                end_block(self.replies.reply(None, on), index, on);
                self.replies.unscanned(record.unread(&[]), kind, on);
            }
            "message_delta" => {
                let reply = self.replies.reply(None, on);
                usage(reply, record, on);
                if let Some(delta) = record.get("delta") {
                    reply.unscanned(delta.unread(&MESSAGE), kind, on);
                    reply.reason = delta
                        .text("stop_reason")
                        .map(|reason| reason.into_owned())
                        .or(reply.reason.take());
                }
                reply.unscanned(
                    record.unread(&["delta", "usage", "context_management"]),
                    kind,
                    on,
                );
            }
            "message_stop" => {
                self.replies.unscanned(record.unread(&[]), kind, on);
                self.replies.finish("message_stop", on);
            }
            "error" => error(self.replies.reply(None, on), record, on),
            // `ping`, and whatever will be added.
            _ if record.get("error").is_some() => error(self.replies.reply(None, on), record, on),
            _ => self.replies.unscanned(record.unread(&[]), kind, on),
        }
    }

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.replies.unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: Sink<'_>) {
        self.replies.close(on);
    }
}

fn start_block(reply: &mut Reply, index: u64, block: &Json<'_>, on: Sink<'_>) {
    let kind = block.text("type").unwrap_or_default();
    let name = index.to_string();
    match &*kind {
        "text" => {
            let key = key(index, Channel::Text);
            let naming = Naming::new(&key, &name, Channel::Text);
            reply.open(naming, on);
            reply.delta(naming, block.bytes("text").unwrap_or_default(), on);
            reply.unscanned(block.unread(&["text"]), &kind, on);
        }
        "thinking" => {
            let key = key(index, Channel::Reasoning);
            let naming = Naming::new(&key, &name, Channel::Reasoning);
            reply.open(naming, on);
            reply.delta(naming, block.bytes("thinking").unwrap_or_default(), on);
            reply.unscanned(block.unread(&["thinking", "signature"]), &kind, on);
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let key = key(index, Channel::ToolInput);
            let (tool, call) = (block.text("name"), block.text("id"));
            let (tool, call) = (tool.as_deref(), call.as_deref());
            let naming = Naming {
                key: &key,
                name: &name,
                channel: Channel::ToolInput,
                tool,
                call,
                grows: false,
            };
            reply.open(naming, on);
            // Normally `{}` and a placeholder for the deltas; where it is not, it is the input itself.
            match block.get("input") {
                Some(input) if input.is_object() && input.members().is_empty() => {}
                Some(input) => reply.whole(naming, input.string().unwrap_or(input.raw()), on),
                None => {}
            }
            reply.unscanned(
                block.unread(&["name", "input", "caller", "server_name"]),
                &kind,
                on,
            );
        }
        _ => reply.unscanned(block.unread(&[]), &kind, on),
    }
}

fn block_delta(reply: &mut Reply, index: u64, delta: &Json<'_>, on: Sink<'_>) {
    let kind = delta.text("type").unwrap_or_default();
    let (channel, member) = match &*kind {
        "text_delta" => (Channel::Text, "text"),
        "thinking_delta" => (Channel::Reasoning, "thinking"),
        "input_json_delta" => (Channel::ToolInput, "partial_json"),
        "signature_delta" => return reply.unscanned(delta.unread(&["signature"]), &kind, on),
        "citations_delta" => return reply.unscanned(delta.unread(&[]), &kind, on),
        _ => return unknown_delta(reply, index, delta, &kind, on),
    };
    let (key, name) = (key(index, channel), index.to_string());
    let naming = Naming::new(&key, &name, channel);
    reply.delta(naming, delta.bytes(member).unwrap_or_default(), on);
    reply.unscanned(delta.unread(&[member]), &kind, on);
}

/// A kind of delta that is not known: its strings are read as text, the rest is counted.
fn unknown_delta(reply: &mut Reply, index: u64, delta: &Json<'_>, kind: &str, on: Sink<'_>) {
    let (key, name) = (key(index, Channel::Text), index.to_string());
    let naming = Naming::new(&key, &name, Channel::Text);
    let mut rest = 0;
    for (member, value) in delta.members() {
        match value.string() {
            Some(_) if **member == *b"type" => {}
            Some(bytes) => reply.delta(naming, bytes, on),
            None => rest += value.content(),
        }
    }
    reply.unknown(rest, kind, on);
}

fn end_block(reply: &mut Reply, index: u64, on: Sink<'_>) {
    reply.end_group(&index.to_string(), on);
}

fn key(index: u64, channel: Channel) -> String {
    format!("{index}/{}", channel.name())
}

fn usage(reply: &mut Reply, holder: &Json<'_>, on: Sink<'_>) {
    let Some(usage) = holder.get("usage") else {
        return;
    };
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached = cached
        .iter()
        .filter_map(|key| usage.number(key))
        .fold(0, u64::saturating_add);
    let input = usage
        .number("input_tokens")
        .map(|tokens| tokens.saturating_add(cached));
    reply.usage(input, usage.number("output_tokens"), on);
}

fn error(reply: &mut Reply, record: &Json<'_>, on: Sink<'_>) {
    let error = record.get("error").unwrap_or(record);
    let kind = error.text("type").unwrap_or_default();
    let message = error
        .text("message")
        .unwrap_or_else(|| String::from_utf8_lossy(error.raw()));
    reply.error(&kind, &message, on);
}
