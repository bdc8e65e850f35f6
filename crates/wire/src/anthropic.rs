//! Anthropic's Messages API (`anthropic-version: 2023-06-01`): content blocks, each with a start, deltas and a stop.
//!
//! Source: the reference of `POST /v1/messages` and its page on streaming.
//!
//! Also reads whole messages (the reply to a request without `stream`) and a `message_start` with content in it. Text,
//! thinking and tool input are judged. The output of a tool is what a `tool_result` or `mcp_tool_result` has, whose
//! `is_error` is the outcome of the call, what the results of Anthropic's own tools have, and citations. Signatures,
//! encrypted content and redacted thinking are known metadata.

use super::FormatReader;
use super::json::JsonValue;
use super::reply::{EventSink, PartSpec, RecentCalls, ReplyEmitter, ReplySequence};
use ttsr::rule::ToolOutcome;
use ttsr::{Channel, PartId};

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

/// Members of a message that are read or are known metadata.
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
pub(super) struct AnthropicReader {
    replies: ReplySequence,
    calls: RecentCalls,
}

impl AnthropicReader {
    pub(super) fn new(default_name: String) -> AnthropicReader {
        AnthropicReader {
            replies: ReplySequence::new(default_name),
            calls: RecentCalls::default(),
        }
    }

    fn start(&mut self, message: &JsonValue<'_>, on: EventSink<'_>) {
        let reply = self.replies.begin(message.text("id").as_deref(), on);
        reply.count_unread(message, &MESSAGE, "message", on);
        usage(reply, message, on);
        for (index, block) in (0..).zip(message.list("content")) {
            start_block(reply, &mut self.calls, index, block, on);
            end_block(reply, index, on);
        }
        reply.reason = message
            .text("stop_reason")
            .map(|reason| reason.into_owned());
    }
}

impl FormatReader for AnthropicReader {
    fn read_record(&mut self, kind: &str, record: &JsonValue<'_>, on: EventSink<'_>) {
        let index = record.number("index").unwrap_or(0);
        match kind {
            "message_start" => {
                if let Some(message) = record.get("message") {
                    self.start(message, on);
                }
                self.replies.count_unread(record, &["message"], kind, on);
            }
            "message" => {
                self.start(record, on);
                self.replies.finish("message", on);
            }
            "content_block_start" => {
                let reply = self.replies.reply(None, on);
                if let Some(block) = record.get("content_block") {
                    start_block(reply, &mut self.calls, index, block, on);
                }
                reply.count_unread(record, &["content_block"], kind, on);
            }
            "content_block_delta" => {
                let reply = self.replies.reply(None, on);
                if let Some(delta) = record.get("delta") {
                    block_delta(reply, index, delta, on);
                }
                reply.count_unread(record, &["delta"], kind, on);
            }
            "content_block_stop" => {
                end_block(self.replies.reply(None, on), index, on);
                self.replies.count_unread(record, &[], kind, on);
            }
            "message_delta" => {
                let reply = self.replies.reply(None, on);
                usage(reply, record, on);
                if let Some(delta) = record.get("delta") {
                    reply.count_unread(delta, &MESSAGE, "message_delta.delta", on);
                    reply.reason = delta
                        .text("stop_reason")
                        .map(|reason| reason.into_owned())
                        .or(reply.reason.take());
                }
                reply.count_unread(record, &["delta", "usage", "context_management"], kind, on);
            }
            "message_stop" => {
                self.replies.count_unread(record, &[], kind, on);
                self.replies.finish("message_stop", on);
            }
            "error" => error(self.replies.reply(None, on), record, on),
            // `ping`, and kinds that this version does not know.
            _ if record.get("error").is_some() => error(self.replies.reply(None, on), record, on),
            _ => self.replies.count_unread(record, &[], kind, on),
        }
    }

    fn variable_members(&self, record: &JsonValue<'_>) -> Option<&'static [&'static str]> {
        let is_plain = record.bytes("type") == Some(b"content_block_delta");
        is_plain.then_some(&[])
    }

    fn reply_of(&mut self, part: PartId) -> Option<&mut ReplyEmitter> {
        self.replies.reply_of(part)
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.replies.count_unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: EventSink<'_>) {
        self.replies.close(on);
    }
}

fn start_block(
    reply: &mut ReplyEmitter,
    calls: &mut RecentCalls,
    index: u64,
    block: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let kind = block.text("type").unwrap_or_default();
    let name = index.to_string();
    match &*kind {
        "text" => {
            let key = key(index, Channel::Text);
            let spec = PartSpec::new(&key, &name, Channel::Text);
            reply.open(spec, on);
            reply.push_delta(spec, block.bytes("text").unwrap_or_default(), on);
            for citation in block.list("citations") {
                tool_strings(reply, index, citation, "citations[]", None, on);
            }
            reply.count_unread(block, &["text", "citations"], &kind, on);
        }
        "compaction" => {
            let key = key(index, Channel::Text);
            let spec = PartSpec::new(&key, &name, Channel::Text);
            reply.open(spec, on);
            reply.push_delta(spec, block.bytes("content").unwrap_or_default(), on);
            reply.count_unread(block, &["content", "encrypted_content"], &kind, on);
        }
        "redacted_thinking" => reply.count_unread(block, &["data"], &kind, on),
        "thinking" => {
            let key = key(index, Channel::Reasoning);
            let spec = PartSpec::new(&key, &name, Channel::Reasoning);
            reply.open(spec, on);
            reply.push_delta(spec, block.bytes("thinking").unwrap_or_default(), on);
            reply.count_unread(block, &["thinking", "signature"], &kind, on);
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let key = key(index, Channel::ToolInput);
            let (tool, call) = (block.text("name"), block.text("id"));
            let (tool, call) = (tool.as_deref(), call.as_deref());
            calls.record(call, tool);
            let spec = PartSpec {
                key: &key,
                name: &name,
                channel: Channel::ToolInput,
                tool,
                call,
                name_may_grow: false,
            };
            reply.open(spec, on);
            // Normally `{}`, the placeholder for the deltas; any other value is the input itself.
            match block.get("input") {
                Some(input) if input.is_object() && input.members().is_empty() => {}
                Some(input) => reply.push_whole(spec, input.string().unwrap_or(input.raw()), on),
                None => {}
            }
            reply.count_unread(
                block,
                &["name", "input", "caller", "server_name"],
                &kind,
                on,
            );
        }
        "tool_result" | "mcp_tool_result" => tool_result(reply, calls, index, block, on),
        _ if kind.ends_with("_tool_result") => {
            let call = block.text("tool_use_id");
            let call = call.as_deref().map(|call| (call, calls.tool_of(call)));
            if let Some(content) = block.get("content") {
                tool_strings(reply, index, content, &format!("{kind}.content"), call, on);
            }
            reply.count_unread(block, &["content", "caller"], &kind, on);
        }
        _ => reply.count_unread(block, &[], &kind, on),
    }
}

/// Reads the output of a tool: a string, or blocks of which the text is read.
fn tool_result(
    reply: &mut ReplyEmitter,
    calls: &RecentCalls,
    index: u64,
    block: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let (key, name) = (key(index, Channel::ToolOutput), index.to_string());
    let call = block.text("tool_use_id");
    let spec = PartSpec {
        tool: call.as_deref().and_then(|call| calls.tool_of(call)),
        call: call.as_deref(),
        ..PartSpec::new(&key, &name, Channel::ToolOutput)
    };
    let is_error = block.get("is_error").is_some_and(|it| it.raw() == b"true");
    let outcome = match is_error {
        true => ToolOutcome::Error,
        false => ToolOutcome::Ok,
    };
    let mut output = Vec::new();
    let kind = block.text("type").unwrap_or_default();
    reply.count_unread(block, &["content", "server_name"], &kind, on);
    let root = format!("{kind}.content[]");
    match block.get("content") {
        Some(content) if content.is_array() => {
            for item in content.items() {
                output.extend_from_slice(item.bytes("text").unwrap_or_default());
                reply.count_unread(item, &["text"], &root, on);
            }
        }
        Some(content) => match content.string() {
            Some(text) => output.extend_from_slice(text),
            None => reply.count_unread(content, &[], &root, on),
        },
        None => {}
    }
    reply.push_output(spec, outcome, &output, on);
}

fn block_delta(reply: &mut ReplyEmitter, index: u64, delta: &JsonValue<'_>, on: EventSink<'_>) {
    let kind = delta.text("type").unwrap_or_default();
    let (channel, member) = match &*kind {
        "text_delta" => (Channel::Text, "text"),
        "thinking_delta" => (Channel::Reasoning, "thinking"),
        "input_json_delta" => (Channel::ToolInput, "partial_json"),
        "signature_delta" => return reply.count_unread(delta, &["signature"], &kind, on),
        "citations_delta" => {
            if let Some(citation) = delta.get("citation") {
                tool_strings(reply, index, citation, "citations[]", None, on);
            }
            return reply.count_unread(delta, &["citation"], &kind, on);
        }
        "compaction_delta" => (Channel::Text, "content"),
        _ => return unknown_delta(reply, index, delta, &kind, on),
    };
    let (key, name) = (key(index, channel), index.to_string());
    let spec = PartSpec::new(&key, &name, channel);
    reply.push_delta(spec, delta.bytes(member).unwrap_or_default(), on);
    reply.count_unread(delta, &[member], &kind, on);
}

/// Members of citations and of the results of Anthropic's tools that are known metadata.
const TOOL_METADATA: [&str; 6] = [
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "page_age",
    "media_type",
    "retrieved_at",
];

/// Reads the strings of a citation, or of the result of a tool of Anthropic, which has an `error_code` if it failed.
fn tool_strings(
    reply: &mut ReplyEmitter,
    index: u64,
    value: &JsonValue<'_>,
    name: &str,
    call: Option<(&str, Option<&str>)>,
    on: EventSink<'_>,
) {
    let group = index.to_string();
    let spec = PartSpec {
        tool: call.and_then(|(_, tool)| tool),
        call: call.map(|(call, _)| call),
        ..PartSpec::new(&group, name, Channel::ToolOutput)
    };
    let outcome = match value.get("error_code").is_some() {
        true => ToolOutcome::Error,
        false => ToolOutcome::Ok,
    };
    reply.push_tool_strings(spec, outcome, value, &TOOL_METADATA, on);
}

/// Reads a delta of an unknown kind: its strings are judged as text, other content is counted.
fn unknown_delta(
    reply: &mut ReplyEmitter,
    index: u64,
    delta: &JsonValue<'_>,
    kind: &str,
    on: EventSink<'_>,
) {
    let (key, name) = (key(index, Channel::Text), index.to_string());
    let spec = PartSpec::new(&key, &name, Channel::Text);
    reply.count_unknown(0, kind, on);
    for (member, value) in delta.members() {
        match value.string() {
            Some(_) if **member == *b"type" => {}
            Some(bytes) => reply.push_delta(spec, bytes, on),
            None => {
                let root = format!("{kind}.{}", String::from_utf8_lossy(member));
                reply.count_unread(value, &[], &root, on);
            }
        }
    }
}

fn end_block(reply: &mut ReplyEmitter, index: u64, on: EventSink<'_>) {
    reply.end_group(&index.to_string(), on);
}

fn key(index: u64, channel: Channel) -> String {
    format!("{index}/{}", channel.name())
}

fn usage(reply: &mut ReplyEmitter, holder: &JsonValue<'_>, on: EventSink<'_>) {
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

fn error(reply: &mut ReplyEmitter, record: &JsonValue<'_>, on: EventSink<'_>) {
    let error = record.get("error").unwrap_or(record);
    let kind = error.text("type").unwrap_or_default();
    let message = error
        .text("message")
        .unwrap_or_else(|| String::from_utf8_lossy(error.raw()));
    reply.error(&kind, &message, on);
}
