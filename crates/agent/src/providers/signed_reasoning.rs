//! Reasoning that its provider signed: kept unchanged, and sent back only where the provider requires it.
//!
//! Anthropic refuses a conversation in which a tool call that followed thinking comes without that thinking, and a
//! thinking block that differs from the signed one. So the blocks are kept whole, outside of the conversation, by the
//! ids of the calls of their reply. Hooks and rules may change the reasoning that users see; the kept blocks stay as
//! signed. A reply that was cut has no calls in the next request, so its reasoning is not sent either.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use ttsr_wire::sse::{Sse, SseEvent};

/// The most replies that are kept.
const REPLIES: usize = 256;

/// The signed blocks of earlier replies. Clones share them.
#[derive(Clone, Default)]
pub(super) struct SignedReasoning(Arc<Mutex<VecDeque<SignedReply>>>);

/// The signed blocks of one reply.
#[derive(Clone, Debug, Default)]
struct SignedReply {
    model: String,
    /// The ids of its tool calls.
    calls: Vec<String>,
    blocks: Vec<SignedBlock>,
}

/// A block in the form in which it is sent back.
#[derive(Clone, Debug)]
pub(super) struct SignedBlock {
    /// The number of text and call blocks before it.
    pub(super) place: usize,
    pub(super) content: Value,
}

impl SignedReasoning {
    /// Returns the blocks of the reply of that model that contains that call.
    pub(super) fn blocks_for_call(&self, model: &str, call: &str) -> Vec<SignedBlock> {
        let replies = self.lock();
        let made =
            |reply: &&SignedReply| reply.model == model && reply.calls.iter().any(|id| id == call);
        let found = replies.iter().rev().find(made);
        found.map(|reply| reply.blocks.clone()).unwrap_or_default()
    }

    fn keep(&self, reply: SignedReply) {
        let mut replies = self.lock();
        if replies.len() == REPLIES {
            replies.pop_front();
        }
        replies.push_back(reply);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SignedReply>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Collects the signed blocks of a reply from its bytes.
pub(super) struct SignedReasoningReader {
    kept: SignedReasoning,
    sse: Sse,
    reply: SignedReply,
    /// The open block, if it is signed.
    open: Option<Value>,
    /// The number of text and call blocks so far.
    others: usize,
    /// True if the open block is text without a non-blank character so far.
    is_blank: bool,
}

impl SignedReasoningReader {
    pub(super) fn new(kept: SignedReasoning, model: String) -> SignedReasoningReader {
        let reply = SignedReply {
            model,
            ..SignedReply::default()
        };
        SignedReasoningReader {
            kept,
            sse: Sse::new(),
            reply,
            open: None,
            others: 0,
            is_blank: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut records = Vec::new();
        self.sse.push(bytes, &mut |event| {
            if let SseEvent::Message { data, .. } = event
                && let Ok(record) = serde_json::from_slice(data)
            {
                records.push(record);
            }
        });
        records.iter().for_each(|record| self.record(record));
    }

    /// Keeps the blocks of the complete reply.
    pub(super) fn finish(&mut self) {
        let reply = std::mem::take(&mut self.reply);
        if !reply.calls.is_empty() && !reply.blocks.is_empty() {
            self.kept.keep(reply);
        }
    }

    fn record(&mut self, record: &Value) {
        match record["type"].as_str() {
            Some("content_block_start") => self.start(&record["content_block"]),
            Some("content_block_delta") => self.delta(&record["delta"]),
            Some("content_block_stop") => {
                if let Some(content) = self.open.take() {
                    let place = self.others;
                    self.reply.blocks.push(SignedBlock { place, content });
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, block: &Value) {
        self.is_blank = false;
        match block["type"].as_str() {
            Some("thinking" | "redacted_thinking") => self.open = Some(block.clone()),
            Some("text") => self.is_blank = true,
            Some("tool_use") => {
                self.others += 1;
                self.reply
                    .calls
                    .extend(block["id"].as_str().map(str::to_owned));
            }
            _ => {}
        }
    }

    fn delta(&mut self, delta: &Value) {
        let said = delta["text"].as_str().unwrap_or_default();
        if self.is_blank && !said.trim().is_empty() {
            self.is_blank = false;
            self.others += 1;
        }
        let Some(open) = &mut self.open else {
            return;
        };
        for (kind, member) in [
            ("thinking_delta", "thinking"),
            ("signature_delta", "signature"),
        ] {
            if delta["type"] == kind {
                let before = open[member].as_str().unwrap_or_default();
                let more = delta[member].as_str().unwrap_or_default();
                open[member] = json!(format!("{before}{more}"));
            }
        }
    }
}
