//! Google's Gemini API. The reason of a block is one more text part of each candidate.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use ttsr_wire::WireFormat;

use super::{EventHold, ReplyApi, copied};
use crate::config::BlockEnding;

#[derive(Debug, Default)]
pub(super) struct GeminiReplyState {
    /// The members of the reply that each chunk repeats.
    members: Map<String, Value>,
    candidates: BTreeMap<u64, SentCandidate>,
    has_blocked_prompt: bool,
    /// The candidate whose call continues in the next chunk.
    arriving: Option<u64>,
}

/// A candidate as the client has seen it.
#[derive(Debug, Default)]
struct SentCandidate {
    has_text: bool,
    is_over: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiChunk<'a> {
    #[serde(default, borrow)]
    candidates: Vec<GeminiCandidate<'a>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<Value>,
    #[serde(borrow)]
    model_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    response_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCandidate<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    content: Option<GeminiContent<'a>>,
    finish_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct GeminiContent<'a> {
    #[serde(default, borrow)]
    parts: Vec<GeminiPart<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiPart<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default)]
    thought: bool,
    #[serde(borrow)]
    function_call: Option<GeminiCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCall<'a> {
    #[serde(default)]
    will_continue: bool,
    #[serde(borrow, default, rename = "name")]
    _name: Option<Cow<'a, str>>,
}

impl GeminiReplyState {
    fn push_chunk(&self, candidates: Value, out: &mut Vec<u8>) {
        let mut chunk = self.members.clone();
        chunk.insert("candidates".into(), candidates);
        out.extend_from_slice(format!("data: {}\n\n", Value::Object(chunk)).as_bytes());
    }
}

fn candidate(index: u64, text: &str) -> Value {
    let content = json!({"role": "model", "parts": [{"text": text}]});
    json!({"index": index, "content": content})
}

impl ReplyApi for GeminiReplyState {
    fn format(&self) -> WireFormat {
        WireFormat::Gemini
    }

    /// A call is whole in a chunk, unless the client asked for its arguments in pieces.
    fn hold(&mut self, data: &[u8]) -> EventHold {
        let Ok(chunk) = serde_json::from_slice::<GeminiChunk<'_>>(data) else {
            return EventHold::default();
        };
        let mut hold = EventHold::default();
        for candidate in &chunk.candidates {
            hold.waits_for_end |= candidate.finish_reason.is_some();
            let parts = candidate.content.iter().flat_map(|content| &content.parts);
            for call in parts.filter_map(|part| part.function_call.as_ref()) {
                hold.call = Some(candidate.index);
                hold.completes_call = !call.will_continue;
                self.arriving = call.will_continue.then_some(candidate.index);
            }
        }
        hold.call = hold.call.or(self.arriving);
        hold
    }

    fn end_completes_calls(&self) -> bool {
        true
    }

    fn sent(&mut self, data: &[u8]) {
        let Ok(chunk) = serde_json::from_slice::<GeminiChunk<'_>>(data) else {
            return;
        };
        let mut keep = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                self.members.insert(name.into(), value);
            }
        };
        keep("usageMetadata", chunk.usage_metadata);
        keep("modelVersion", chunk.model_version.map(Value::from));
        keep("responseId", chunk.response_id.map(Value::from));
        let feedback = chunk.prompt_feedback;
        self.has_blocked_prompt |= feedback.is_some_and(|it| it.block_reason.is_some());
        for candidate in chunk.candidates {
            let sent = self.candidates.entry(candidate.index).or_default();
            let parts = candidate.content.iter().flat_map(|content| &content.parts);
            let mut texts = parts
                .filter(|part| !part.thought)
                .flat_map(|part| &part.text);
            sent.has_text |= texts.any(|text| !text.is_empty());
            sent.is_over |= candidate.finish_reason.is_some();
        }
    }

    /// A chunk with an empty text. Google's client for JavaScript does not accept comments.
    fn keep_alive(&self, out: &mut Vec<u8>) {
        let open = self.candidates.iter().find(|(_, sent)| !sent.is_over);
        let index = open.map_or(0, |(index, _)| *index);
        if open.is_some() || self.candidates.is_empty() {
            self.push_chunk(json!([candidate(index, "")]), out);
        }
    }

    fn end(&self, reason: &str, ending: BlockEnding, out: &mut Vec<u8>) {
        if self.has_blocked_prompt {
            return;
        }
        let mut open: Vec<(u64, bool)> = self
            .candidates
            .iter()
            .filter_map(|(index, sent)| (!sent.is_over).then_some((*index, sent.has_text)))
            .collect();
        if self.candidates.is_empty() {
            open.push((0, false));
        }
        let finish_reason = match ending {
            BlockEnding::Soft => "STOP",
            BlockEnding::Hard => "SAFETY",
        };
        let last = |(index, has_text): &(u64, bool)| {
            let text = match has_text {
                true => format!("\n\n{reason}"),
                false => reason.to_owned(),
            };
            let mut last = candidate(*index, &text);
            last["finishReason"] = json!(finish_reason);
            last
        };
        if !open.is_empty() {
            self.push_chunk(open.iter().map(last).collect(), out);
        }
    }

    /// A stream without server-sent events is an array of chunks.
    fn whole(&self, reply: &Value, reason: &str) -> Value {
        let chunks = reply.as_array();
        let first = chunks.and_then(|chunks| chunks.first()).unwrap_or(reply);
        let mut whole = copied(first, &["usageMetadata", "modelVersion", "responseId"]);
        let mut only = candidate(0, reason);
        only["finishReason"] = json!("STOP");
        whole.insert("candidates".into(), json!([only]));
        match chunks {
            Some(_) => json!([whole]),
            None => Value::Object(whole),
        }
    }
}
