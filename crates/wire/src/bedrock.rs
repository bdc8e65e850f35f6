//! Amazon Bedrock's Converse API: content blocks with start, deltas and stop.
//!
//! An event's name is in the frame around it, or it is the only member of a line. Also whole replies. The
//! `metadata` with the usage comes after `messageStop`, so the reply ends with it. What Bedrock passes on
//! of Anthropic's models is [`anthropic`](super::anthropic)'s.

use super::Source;
use super::json::Json;
use super::reply::{Naming, Replies, Reply, Sink};
use ttsr::Channel;

/// The names of events, which are also the members of a line.
const KINDS: [&str; 6] = [
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
];

/// Members that every event may have: its block, padding, and measurements.
const EVENT: [&str; 7] = [
    "contentBlockIndex",
    "p",
    "usage",
    "metrics",
    "amazon-bedrock-invocationMetrics",
    "amazon-bedrock-guardrailAction",
    "performanceConfig",
];

#[derive(Debug)]
pub(super) struct Converse {
    replies: Replies,
}

impl Converse {
    pub(super) fn new(default_name: String) -> Converse {
        Converse {
            replies: Replies::new(default_name),
        }
    }

    fn event(&mut self, kind: &str, event: &Json<'_>, on: Sink<'_>) {
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
        reply.unscanned(event.unread(&read), kind, on);
        if kind == "metadata" && reply.reason.is_some() {
            self.replies.finish(kind, on);
        }
    }

    /// What a request without streaming gets.
    fn whole(&mut self, record: &Json<'_>, on: Sink<'_>) {
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
        let rest = message.map_or(0, |message| message.unread(&["content"]));
        let read = [&EVENT[..], &["output", "stopReason"]].concat();
        reply.unscanned(rest + record.unread(&read), "message", on);
        self.replies.finish("message", on);
    }

    fn error(&mut self, kind: &str, error: &Json<'_>, on: Sink<'_>) {
        let kind = error.text("type").unwrap_or(kind.into());
        let whole = || String::from_utf8_lossy(error.string().unwrap_or(error.raw()));
        let message = error.text("message").unwrap_or_else(whole);
        self.replies.reply(None, on).error(&kind, &message, on);
    }
}

/// Whether such a record is of this format, by its members or by the name of its frame.
pub(super) fn is_record(event: &str, record: &Json<'_>) -> bool {
    let names_one = |kind: &&str| **kind != *"metadata" && record.get(kind).is_some();
    let whole = record.get("stopReason").is_some() && record.get("output").is_some();
    KINDS.contains(&event) || KINDS.iter().any(names_one) || whole
}

impl Source for Converse {
    fn record(&mut self, kind: &str, record: &Json<'_>, on: Sink<'_>) {
        if KINDS.contains(&kind) {
            return self.event(kind, record, on);
        }
        if record.get("output").is_some() {
            return self.whole(record, on);
        }
        let own =
            |name: &str| KINDS.contains(&name) || name == "error" || name.ends_with("Exception");
        let others = record.members().iter().filter(|(name, _)| {
            let name = String::from_utf8_lossy(name);
            !own(&name) && !EVENT.contains(&&*name) && name != "type"
        });
        let rest = others.map(|(_, value)| value.content()).sum();
        self.replies.unscanned(rest, "event", on);
        for (name, value) in record.members() {
            let name = String::from_utf8_lossy(name);
            if KINDS.contains(&&*name) {
                self.event(&name, value, on);
            } else if own(&name) {
                self.error(&name, value, on);
            }
        }
    }

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.replies.unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: Sink<'_>) {
        self.replies.close(on);
    }
}

/// A block that starts: what matters of it is the tool's name. `holder` is the event or a whole block.
fn start_block(reply: &mut Reply, index: u64, holder: &Json<'_>, on: Sink<'_>) {
    let start = holder.get("start").unwrap_or(holder);
    if let Some(call) = start.get("toolUse") {
        let (tool, id) = (call.text("name"), call.text("toolUseId"));
        let (key, name) = (key(index, Channel::ToolInput), index.to_string());
        let naming = Naming {
            tool: tool.as_deref(),
            call: id.as_deref(),
            ..Naming::new(&key, &name, Channel::ToolInput)
        };
        reply.open(naming, on);
        let rest = call.unread(&["name", "toolUseId", "input"]);
        reply.unscanned(rest, "toolUse", on);
    }
    if holder.get("start").is_some() {
        reply.unscanned(start.unread(&["toolUse"]), "contentBlockStart", on);
    }
}

fn block_delta(reply: &mut Reply, index: u64, delta: &Json<'_>, on: Sink<'_>) {
    if let Some(text) = delta.bytes("text") {
        arrives(reply, index, Channel::Text, text, on);
    }
    if let Some(input) = delta.get("toolUse").and_then(|call| call.get("input")) {
        let bytes = input.string().unwrap_or(input.raw());
        arrives(reply, index, Channel::ToolInput, bytes, on);
    }
    if let Some(reasoning) = delta.get("reasoningContent") {
        // In a whole reply the text is one level further down.
        let inner = reasoning.get("reasoningText").unwrap_or(reasoning);
        let text = inner.bytes("text").unwrap_or_default();
        arrives(reply, index, Channel::Reasoning, text, on);
        let read = ["text", "signature", "reasoningText"];
        let rest = inner.unread(&read)
            + if std::ptr::eq(inner, reasoning) {
                0
            } else {
                reasoning.unread(&read)
            };
        reply.unscanned(rest, "reasoningContent", on);
    }
    let rest = delta.unread(&["text", "toolUse", "reasoningContent"]);
    reply.unscanned(rest, "contentBlockDelta", on);
}

fn arrives(reply: &mut Reply, index: u64, channel: Channel, bytes: &[u8], on: Sink<'_>) {
    let (key, name) = (key(index, channel), index.to_string());
    reply.delta(Naming::new(&key, &name, channel), bytes, on);
}

fn key(index: u64, channel: Channel) -> String {
    format!("{index}/{}", channel.name())
}

fn usage(reply: &mut Reply, holder: &Json<'_>, on: Sink<'_>) {
    if let Some(usage) = holder.get("usage") {
        let output = usage.number("outputTokens");
        reply.usage(usage.number("inputTokens"), output, on);
    }
}
