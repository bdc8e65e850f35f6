//! Anthropic's Messages API. The reason of a block is a separate text block.

use std::collections::BTreeSet;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use ttsr_wire::{JsonValue, WireFormat};

use super::{EventHold, ReplyApi, ReplyEvent, SplicedEvent, copied};
use crate::config::BlockEnding;
use crate::json_spans::{JsonEdits, member, members, parse, quoted, span, string};
use crate::judge::output::JudgedOutput;

#[derive(Debug, Default)]
pub(super) struct MessagesReply {
    has_begun: bool,
    has_ended: bool,
    /// The block that was sent in part.
    open: Option<OpenBlock>,
    /// The index of the next block.
    next: u64,
    /// True if a whole tool call was sent, which the client runs.
    has_call: bool,
    output_tokens: u64,
    /// The tool calls that are arriving.
    arriving: BTreeSet<u64>,
    /// The index of the first block of this attempt.
    base: u64,
    /// The usage at the start of this attempt, in JSON.
    usage: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct OpenBlock {
    index: u64,
    is_text: bool,
}

/// An event, with the index of its block.
#[derive(Debug)]
pub(crate) struct MessagesEvent {
    kind: MessagesEventKind,
    index: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessagesEventKind {
    /// The start of the message, with the number of its tokens so far.
    MessageStart {
        output_tokens: u64,
    },
    BlockStart(BlockKind),
    /// Another event of a block.
    Block,
    BlockStop,
    MessageDelta,
    MessageStop,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Text,
    /// A call that the client runs.
    ToolUse,
    /// A call that the provider runs.
    ServerToolUse,
    Other,
}

impl BlockKind {
    fn read(block: &JsonValue<'_>) -> BlockKind {
        match block.bytes("type").unwrap_or_default() {
            b"text" => BlockKind::Text,
            b"tool_use" => BlockKind::ToolUse,
            kind if kind.ends_with(b"tool_use") => BlockKind::ServerToolUse,
            _ => BlockKind::Other,
        }
    }
}

impl MessagesEventKind {
    fn read(event: &JsonValue<'_>) -> MessagesEventKind {
        match event.bytes("type").unwrap_or_default() {
            b"message_start" => {
                let message = event.get("message");
                let usage = message.and_then(|message| message.get("usage"));
                let tokens = usage.and_then(|usage| usage.number("output_tokens"));
                MessagesEventKind::MessageStart {
                    output_tokens: tokens.unwrap_or(0),
                }
            }
            b"content_block_start" => {
                let block = event.get("content_block").map(BlockKind::read);
                MessagesEventKind::BlockStart(block.unwrap_or(BlockKind::Other))
            }
            b"content_block_stop" => MessagesEventKind::BlockStop,
            b"message_delta" => MessagesEventKind::MessageDelta,
            b"message_stop" => MessagesEventKind::MessageStop,
            kind if kind.starts_with(b"content_block_") => MessagesEventKind::Block,
            _ => MessagesEventKind::Other,
        }
    }
}

impl MessagesReply {
    /// Adds the counts that only the start of this attempt has to the usage at its end. Clients take those of the end.
    fn add_usage(&self, data: &[u8], usage: &RawValue, edits: &mut JsonEdits) {
        let start: Option<&RawValue> = self
            .usage
            .as_deref()
            .and_then(|usage| parse(usage.as_bytes()));
        let (Some(start), Some(end)) = (start.and_then(members), members(usage)) else {
            return;
        };
        let missing = start
            .iter()
            .filter(|(name, _)| member(&end, name).is_none());
        let mut more: Vec<String> = missing
            .map(|(name, value)| format!("{}:{}", quoted(name), value.get()))
            .collect();
        let at = span(data, usage).start + 1;
        if !end.is_empty() && !more.is_empty() {
            more.push(String::new());
        }
        edits.replace(at..at, more.join(","));
    }
}

impl ReplyApi for MessagesReply {
    fn format(&self) -> WireFormat {
        WireFormat::AnthropicMessages
    }

    fn read(&self, record: Option<&JsonValue<'_>>) -> ReplyEvent {
        let Some(event) = record else {
            return ReplyEvent::Messages(MessagesEvent {
                kind: MessagesEventKind::Other,
                index: 0,
            });
        };
        ReplyEvent::Messages(MessagesEvent {
            kind: MessagesEventKind::read(event),
            index: event.number("index").unwrap_or(0),
        })
    }

    fn hold(&mut self, event: &ReplyEvent) -> EventHold {
        let ReplyEvent::Messages(MessagesEvent { kind, index }) = event else {
            return EventHold::default();
        };
        if let MessagesEventKind::BlockStart(BlockKind::ToolUse | BlockKind::ServerToolUse) = kind {
            self.arriving.insert(*index);
        }
        let is_of_block = matches!(
            kind,
            MessagesEventKind::BlockStart(_)
                | MessagesEventKind::Block
                | MessagesEventKind::BlockStop
        );
        let call = (is_of_block && self.arriving.contains(index)).then_some(*index);
        let completes_call = call.is_some() && *kind == MessagesEventKind::BlockStop;
        if completes_call {
            self.arriving.remove(index);
        }
        EventHold {
            call,
            completes_call,
            waits_for_end: *kind == MessagesEventKind::MessageDelta,
        }
    }

    fn sent(&mut self, event: ReplyEvent) {
        let ReplyEvent::Messages(MessagesEvent { kind, index }) = event else {
            return;
        };
        match kind {
            MessagesEventKind::MessageStart { output_tokens } => {
                self.has_begun = true;
                self.output_tokens = output_tokens;
            }
            MessagesEventKind::BlockStart(block) => {
                self.open = Some(OpenBlock {
                    index,
                    is_text: block == BlockKind::Text,
                });
                self.next = self.next.max(index.saturating_add(1));
                self.has_call |= block == BlockKind::ToolUse;
            }
            MessagesEventKind::BlockStop => self.open = None,
            MessagesEventKind::MessageStop => self.has_ended = true,
            MessagesEventKind::Block
            | MessagesEventKind::MessageDelta
            | MessagesEventKind::Other => {}
        }
    }

    fn can_splice(&self) -> bool {
        !self.has_call && !self.has_ended
    }

    fn splice(&mut self, out: &mut JudgedOutput) {
        if let Some(open) = self.open.take() {
            let stop = json!({"type": "content_block_stop", "index": open.index});
            out.push_event("content_block_stop", &stop);
        }
        (self.base, self.usage) = (self.next, None);
        self.arriving.clear();
    }

    fn splice_event(&mut self, data: &[u8]) -> SplicedEvent {
        if !self.has_begun {
            return SplicedEvent::Same;
        }
        let mut edits = JsonEdits::default();
        let top = parse(data).and_then(members).unwrap_or_default();
        match member(&top, "type").and_then(string).as_deref() {
            Some("message_start") => {
                let message = member(&top, "message").and_then(members);
                let usage = message.and_then(|message| Some(member(&message, "usage")?.get()));
                self.usage = usage.map(str::to_owned);
                return SplicedEvent::Dropped;
            }
            Some(kind) if kind.starts_with("content_block_") => {
                let index = member(&top, "index");
                let number = index.and_then(|index| index.get().parse::<u64>().ok());
                if let (Some(index), Some(number)) = (index, number) {
                    let number = number.saturating_add(self.base);
                    edits.replace(span(data, index), number.to_string());
                }
            }
            Some("message_delta") => {
                if let Some(usage) = member(&top, "usage") {
                    self.add_usage(data, usage, &mut edits);
                }
            }
            _ => {}
        }
        SplicedEvent::edited(data, &edits)
    }

    /// Clients count an empty delta as progress, but not a `ping`, which is sent where no text is open.
    fn keep_alive(&mut self, out: &mut JudgedOutput) {
        match self.open.filter(|open| open.is_text) {
            Some(OpenBlock { index, .. }) => {
                let delta = json!({"type": "text_delta", "text": ""});
                let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
                out.push_event("content_block_delta", &delta);
            }
            None if self.has_begun => out.push_event("ping", &json!({"type": "ping"})),
            None => out.push_comment(),
        }
    }

    fn end(&self, reason: &str, ending: BlockEnding, out: &mut JudgedOutput) {
        if self.has_ended {
            return;
        }
        if !self.has_begun {
            let message = json!({
                "id": "msg_ttsr", "type": "message", "role": "assistant", "model": "", "content": [],
                "stop_reason": null, "stop_sequence": null,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            });
            out.push_event(
                "message_start",
                &json!({"type": "message_start", "message": message}),
            );
        }
        let stop = |index| json!({"type": "content_block_stop", "index": index});
        if let Some(open) = self.open {
            out.push_event("content_block_stop", &stop(open.index));
        }
        let index = self.next;
        let block = json!({"type": "text", "text": ""});
        let start = json!({"type": "content_block_start", "index": index, "content_block": block});
        out.push_event("content_block_start", &start);
        let delta = json!({"type": "text_delta", "text": reason});
        let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
        out.push_event("content_block_delta", &delta);
        out.push_event("content_block_stop", &stop(index));
        if ending == BlockEnding::Hard {
            let error = json!({"type": "invalid_request_error", "message": reason});
            return out.push_event("error", &json!({"type": "error", "error": error}));
        }
        // The client runs the calls that it was sent, and continues.
        let stop_reason = if self.has_call {
            "tool_use"
        } else {
            "end_turn"
        };
        let end = json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": null},
            "usage": {"output_tokens": self.output_tokens},
        });
        out.push_event("message_delta", &end);
        out.push_event("message_stop", &json!({"type": "message_stop"}));
    }

    fn whole(&self, reply: &Value, reason: &str) -> Value {
        let mut whole = copied(reply, &["id", "type", "role", "model", "usage"]);
        whole.insert("content".into(), json!([{"type": "text", "text": reason}]));
        whole.insert("stop_reason".into(), json!("end_turn"));
        whole.insert("stop_sequence".into(), Value::Null);
        Value::Object(whole)
    }
}
