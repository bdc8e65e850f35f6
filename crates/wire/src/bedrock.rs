//! Amazon Bedrock's Converse API (version 2023-09-30): content blocks, each with a start, deltas and a stop.
//!
//! Source: `ConverseStreamOutput` and `ConverseResponse` in the API reference of the Bedrock runtime.
//!
//! The name of an event is in the frame around it, or it is the only member of a line. `metadata`, which holds the
//! usage, comes after `messageStop`, so the reply ends with `metadata`. Events of Anthropic's models that Bedrock
//! passes on are read by [`anthropic`](super::anthropic). Results of tools and citations are the output of a tool.
//! Signatures and redacted reasoning are known metadata.

use super::FormatReader;
use super::json::JsonValue;
use super::reply::{EventSink, PartSpec, ReplyEmitter, ReplySequence};
use ttsr::Channel;
use ttsr::rule::ToolOutcome;

/// The names of events, which are also the members of a line.
const KINDS: [&str; 6] = [
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
];

/// The members that every event may have: its block, padding, and measurements.
const EVENT: [&str; 9] = [
    "amazon-bedrock-trace",
    "trace",
    "contentBlockIndex",
    "p",
    "usage",
    "metrics",
    "amazon-bedrock-invocationMetrics",
    "amazon-bedrock-guardrailAction",
    "performanceConfig",
];

#[derive(Debug)]
pub(super) struct ConverseReader {
    replies: ReplySequence,
}

impl ConverseReader {
    pub(super) fn new(default_name: String) -> ConverseReader {
        ConverseReader {
            replies: ReplySequence::new(default_name),
        }
    }

    fn event(&mut self, kind: &str, event: &JsonValue<'_>, on: EventSink<'_>) {
        let index = event.number("contentBlockIndex").unwrap_or(0);
        let stopped = self
            .replies
            .current()
            .is_some_and(|reply| reply.reason.is_some());
        if kind == "messageStart" || stopped && kind.starts_with("content") {
            self.replies.begin(None, on);
        }
        let mut read = EVENT.to_vec();
        let reply = self.replies.reply(None, on);
        match kind {
            "contentBlockStart" => {
                start_block(reply, index, event, on);
                read.push("start");
            }
            "contentBlockDelta" => {
                if let Some(delta) = event.get("delta") {
                    block_delta(reply, index, delta, on);
                }
                read.push("delta");
            }
            "contentBlockStop" => reply.end_group(&index.to_string(), on),
            "messageStop" => {
                let reason = event.text("stopReason").unwrap_or(kind.into());
                reply.reason = Some(reason.into_owned());
                read.push("stopReason");
            }
            "metadata" => usage(reply, event, on),
            _ => {}
        }
        trace(reply, event, on);
        reply.count_unread(event, &read, kind, on);
        if kind == "metadata" && reply.reason.is_some() {
            self.replies.finish(kind, on);
        }
    }

    /// Reads the reply to a request without streaming.
    fn read_whole_reply(&mut self, record: &JsonValue<'_>, on: EventSink<'_>) {
        let reply = self.replies.begin(None, on);
        let message = record
            .get("output")
            .and_then(|output| output.get("message"));
        let content = message.map_or(&[][..], |message| message.list("content"));
        for (index, block) in (0..).zip(content) {
            start_block(reply, index, block, on);
            block_delta(reply, index, block, on);
            reply.end_group(&index.to_string(), on);
        }
        usage(reply, record, on);
        reply.reason = record.text("stopReason").map(|reason| reason.into_owned());
        if let Some(message) = message {
            reply.count_unread(message, &["content"], "output.message", on);
        }
        trace(reply, record, on);
        let read = [&EVENT[..], &["output", "stopReason"]].concat();
        reply.count_unread(record, &read, "", on);
        self.replies.finish("message", on);
    }

    fn error(&mut self, kind: &str, error: &JsonValue<'_>, on: EventSink<'_>) {
        let kind = error.text("type").unwrap_or(kind.into());
        let whole = || String::from_utf8_lossy(error.string().unwrap_or(error.raw()));
        let message = error.text("message").unwrap_or_else(whole);
        self.replies.reply(None, on).error(&kind, &message, on);
    }
}

/// Returns true if the record is of this format, by its members or by the name of its frame.
pub(super) fn is_record(event: &str, record: &JsonValue<'_>) -> bool {
    let names_one = |kind: &&str| **kind != *"metadata" && record.get(kind).is_some();
    let whole = record.get("stopReason").is_some() && record.get("output").is_some();
    KINDS.contains(&event) || KINDS.iter().any(names_one) || whole
}

impl FormatReader for ConverseReader {
    fn read_record(&mut self, kind: &str, record: &JsonValue<'_>, on: EventSink<'_>) {
        if KINDS.contains(&kind) {
            return self.event(kind, record, on);
        }
        if record.get("output").is_some() {
            return self.read_whole_reply(record, on);
        }
        let own =
            |name: &str| KINDS.contains(&name) || name == "error" || name.ends_with("Exception");
        let others = record.members().iter().filter(|(name, _)| {
            let name = String::from_utf8_lossy(name);
            !own(&name) && !EVENT.contains(&&*name) && name != "type"
        });
        for (name, value) in others {
            let name = String::from_utf8_lossy(name);
            self.replies.count_unread(value, &[], &name, on);
        }
        for (name, value) in record.members() {
            let name = String::from_utf8_lossy(name);
            if KINDS.contains(&&*name) {
                self.event(&name, value, on);
            } else if own(&name) {
                self.error(&name, value, on);
            }
        }
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.replies.count_unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: EventSink<'_>) {
        self.replies.close(on);
    }
}

/// Reads the start of a block, which names the tool. `holder` is the event or a whole block.
fn start_block(reply: &mut ReplyEmitter, index: u64, holder: &JsonValue<'_>, on: EventSink<'_>) {
    let start = holder.get("start").unwrap_or(holder);
    if let Some(call) = start.get("toolUse") {
        let (tool, id) = (call.text("name"), call.text("toolUseId"));
        let (key, name) = (key(index, Channel::ToolInput), index.to_string());
        let spec = PartSpec {
            tool: tool.as_deref(),
            call: id.as_deref(),
            ..PartSpec::new(&key, &name, Channel::ToolInput)
        };
        reply.open(spec, on);
        reply.count_unread(call, &["name", "toolUseId", "input"], "toolUse", on);
    }
    if holder.get("start").is_some() {
        reply.count_unread(start, &["toolUse", "toolResult"], "contentBlockStart", on);
    }
}

fn block_delta(reply: &mut ReplyEmitter, index: u64, delta: &JsonValue<'_>, on: EventSink<'_>) {
    if let Some(text) = delta.bytes("text") {
        push_channel_delta(reply, index, Channel::Text, text, on);
    }
    if let Some(input) = delta.get("toolUse").and_then(|call| call.get("input")) {
        let bytes = input.string().unwrap_or(input.raw());
        push_channel_delta(reply, index, Channel::ToolInput, bytes, on);
    }
    if let Some(reasoning) = delta.get("reasoningContent") {
        // In a whole reply the text is one level deeper.
        let inner = reasoning.get("reasoningText").unwrap_or(reasoning);
        let text = inner.bytes("text").unwrap_or_default();
        push_channel_delta(reply, index, Channel::Reasoning, text, on);
        let read = ["text", "signature", "reasoningText", "redactedContent"];
        if !std::ptr::eq(inner, reasoning) {
            reply.count_unread(inner, &read, "reasoningContent.reasoningText", on);
        }
        reply.count_unread(reasoning, &read, "reasoningContent", on);
    }
    for name in ["toolResult", "citation", "citationsContent"] {
        if let Some(value) = delta.get(name) {
            tool_strings(reply, index, name, value, on);
        }
    }
    let read = [
        "text",
        "toolUse",
        "reasoningContent",
        "toolResult",
        "citation",
        "citationsContent",
    ];
    reply.count_unread(delta, &read, "contentBlockDelta", on);
}

/// Reads the output of a tool of the provider, or a citation.
fn tool_strings(
    reply: &mut ReplyEmitter,
    index: u64,
    name: &str,
    value: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let group = index.to_string();
    let spec = PartSpec::new(&group, name, Channel::ToolOutput);
    let outcome = match value.text("status").as_deref() {
        Some("error") => ToolOutcome::Error,
        _ => ToolOutcome::Ok,
    };
    reply.push_tool_strings(spec, outcome, value, &["toolUseId", "format"], on);
}

/// Reads what a guardrail of Bedrock reports, which repeats text of the model, as the output of a tool.
fn trace(reply: &mut ReplyEmitter, event: &JsonValue<'_>, on: EventSink<'_>) {
    for name in ["amazon-bedrock-trace", "trace"] {
        if let Some(value) = event.get(name) {
            let spec = PartSpec::new(name, name, Channel::ToolOutput);
            reply.push_tool_strings(spec, ToolOutcome::Ok, value, &["action"], on);
        }
    }
}

fn push_channel_delta(
    reply: &mut ReplyEmitter,
    index: u64,
    channel: Channel,
    bytes: &[u8],
    on: EventSink<'_>,
) {
    let (key, name) = (key(index, channel), index.to_string());
    reply.push_delta(PartSpec::new(&key, &name, channel), bytes, on);
}

fn key(index: u64, channel: Channel) -> String {
    format!("{index}/{}", channel.name())
}

fn usage(reply: &mut ReplyEmitter, holder: &JsonValue<'_>, on: EventSink<'_>) {
    if let Some(usage) = holder.get("usage") {
        let output = usage.number("outputTokens");
        reply.usage(usage.number("inputTokens"), output, on);
    }
}
