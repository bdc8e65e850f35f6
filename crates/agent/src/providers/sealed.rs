//! Reasoning that its provider signed: kept as it came, and sent back only where the provider wants it.
//!
//! Anthropic refuses a conversation in which a tool call made while thinking comes without that thinking,
//! and a piece of thinking that is not exactly what was signed. So the blocks are kept whole, outside of
//! the conversation, by the calls that they led to; what hooks and rules made of the reasoning for its
//! readers is another matter. A reply that was cut has no calls in the next request, so its reasoning is
//! not in there either.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use ttsr_wire::sse::{Sse, SseEvent};

/// Most replies remembered.
const REPLIES: usize = 256;

/// The signed blocks of earlier replies. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Sealed(Arc<Mutex<VecDeque<Reply>>>);

/// The signed blocks of one reply.
#[derive(Clone, Debug, Default)]
struct Reply {
    model: String,
    /// The ids of its tool calls.
    calls: Vec<String>,
    blocks: Vec<Block>,
}

/// A block as it is to be sent back.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// How many blocks of text and calls came before it.
    pub(super) place: usize,
    pub(super) content: Value,
}

impl Sealed {
    /// The blocks of the reply of that model which made that call.
    pub(super) fn of(&self, model: &str, call: &str) -> Vec<Block> {
        let replies = self.lock();
        let made = |reply: &&Reply| reply.model == model && reply.calls.iter().any(|id| id == call);
        let found = replies.iter().rev().find(made);
        found.map(|reply| reply.blocks.clone()).unwrap_or_default()
    }

    fn keep(&self, reply: Reply) {
        let mut replies = self.lock();
        if replies.len() == REPLIES {
            replies.pop_front();
        }
        replies.push_back(reply);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Reply>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a reply for its signed blocks.
pub(super) struct Seals {
    sealed: Sealed,
    sse: Sse,
    reply: Reply,
    /// The block under way, if it is one to keep.
    open: Option<Value>,
    /// Blocks of text and calls so far.
    others: usize,
    /// The block under way is text that has not said anything yet.
    is_blank: bool,
}

impl Seals {
    pub(super) fn new(sealed: Sealed, model: String) -> Seals {
        let reply = Reply {
            model,
            ..Reply::default()
        };
        Seals {
            sealed,
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

    /// The reply is complete.
    pub(super) fn finish(&mut self) {
        let reply = std::mem::take(&mut self.reply);
        if !reply.calls.is_empty() && !reply.blocks.is_empty() {
            self.sealed.keep(reply);
        }
    }

    fn record(&mut self, record: &Value) {
        match record["type"].as_str() {
            Some("content_block_start") => self.start(&record["content_block"]),
            Some("content_block_delta") => self.delta(&record["delta"]),
            Some("content_block_stop") => {
                if let Some(content) = self.open.take() {
                    let place = self.others;
                    self.reply.blocks.push(Block { place, content });
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
