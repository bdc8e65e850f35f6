//! Google's Gemini API. The reason of a block is one more text part of each candidate. Code Assist has each chunk, and a
//! reply that is not streamed, in a wrapper with an id of its own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use ttsr_wire::{JsonValue, WireFormat};

use super::{EventHold, ReplyApi, ReplyEvent, SplicedEvent, copied, value_of};
use crate::config::BlockEnding;
use crate::json_spans::{JsonEdits, elements, member, members, parse, quoted, span, string};
use crate::judge::output::JudgedOutput;

#[derive(Debug, Default)]
pub(super) struct GeminiReplyState {
    /// True if each chunk is in the wrapper of Code Assist.
    is_wrapped: bool,
    /// The id in the wrapper.
    trace_id: Option<Value>,
    /// The members of the reply that each chunk repeats.
    members: Map<String, Value>,
    candidates: BTreeMap<u64, SentCandidate>,
    /// The candidates in the chunks that arrived, of which the client may have seen nothing.
    arrived: BTreeSet<u64>,
    has_blocked_prompt: bool,
    /// The candidate whose call continues in the next chunk.
    arriving: Option<u64>,
    /// The candidates whose next text begins a paragraph.
    gaps: BTreeSet<u64>,
}

/// A candidate as the client has seen it.
#[derive(Debug, Default)]
struct SentCandidate {
    has_text: bool,
    /// True if it has a call, which the client runs.
    has_call: bool,
    is_over: bool,
}

#[derive(Debug, Default)]
pub(crate) struct GeminiChunk {
    /// The id in the wrapper.
    trace_id: Option<Value>,
    /// The members that each chunk repeats.
    members: Vec<(&'static str, Value)>,
    has_blocked_prompt: bool,
    candidates: Vec<GeminiCandidate>,
}

#[derive(Debug)]
struct GeminiCandidate {
    index: u64,
    has_text: bool,
    /// `Some` if the chunk has a call: true if its arguments continue in the next chunk.
    call: Option<bool>,
    is_end: bool,
}

/// The members that each chunk of a reply repeats.
const REPEATED: [&str; 3] = ["usageMetadata", "modelVersion", "responseId"];

/// The members of a wrapper: the chunk, and the id.
const WRAPPED: &str = "response";
const TRACE_ID: &str = "traceId";

impl GeminiCandidate {
    fn read(candidate: &JsonValue<'_>) -> GeminiCandidate {
        let content = candidate.get("content");
        let parts = content.map_or(&[][..], |content| content.list("parts"));
        let is_true = |value: Option<&JsonValue<'_>>| value.is_some_and(|it| it.raw() == b"true");
        let is_text = |part: &JsonValue<'_>| {
            let text = part.bytes("text").unwrap_or_default();
            !text.is_empty() && !is_true(part.get("thought"))
        };
        let call = parts.iter().rev().find_map(|part| part.get("functionCall"));
        GeminiCandidate {
            index: candidate.number("index").unwrap_or(0),
            has_text: parts.iter().any(is_text),
            call: call.map(|call| is_true(call.get("willContinue"))),
            is_end: candidate.get("finishReason").is_some(),
        }
    }
}

impl GeminiReplyState {
    /// Returns the state of a reply of Code Assist.
    pub(super) fn of_code_assist() -> GeminiReplyState {
        GeminiReplyState {
            is_wrapped: true,
            ..GeminiReplyState::default()
        }
    }

    fn push_chunk(&self, candidates: Value, out: &mut JudgedOutput) {
        let mut chunk = self.members.clone();
        chunk.insert("candidates".into(), candidates);
        out.push_data(&self.wrapped(chunk, self.trace_id.as_ref()));
    }

    /// Returns the chunk in its wrapper, if it has one.
    fn wrapped(&self, chunk: Map<String, Value>, trace_id: Option<&Value>) -> Value {
        let chunk = Value::Object(chunk);
        if !self.is_wrapped {
            return chunk;
        }
        let mut wrapper = json!({WRAPPED: chunk});
        if let Some(trace_id) = trace_id {
            wrapper[TRACE_ID] = trace_id.clone();
        }
        wrapper
    }
}

/// Replaces the value of a member by the one that the client knows, if there is one.
fn keep_known(
    data: &[u8],
    object: &[(String, &RawValue)],
    (name, known): (&str, Option<&Value>),
    edits: &mut JsonEdits,
) {
    let known = known.map(Value::to_string);
    if let (Some(value), Some(known)) = (member(object, name), known)
        && value.get() != known
    {
        edits.replace(span(data, value), known);
    }
}

/// Begins a paragraph with the first text of a candidate that is not a thought. Returns false if the candidate has no
/// such text.
fn begin_paragraph(data: &[u8], candidate: &[(String, &RawValue)], edits: &mut JsonEdits) -> bool {
    let content = member(candidate, "content").and_then(members);
    let parts = content.and_then(|content| elements(member(&content, "parts")?));
    for part in parts.unwrap_or_default() {
        let part = members(part).unwrap_or_default();
        let is_thought = member(&part, "thought").is_some_and(|it| it.get() == "true");
        if let Some(value) = member(&part, "text").filter(|_| !is_thought)
            && let Some(text) = string(value).filter(|text| !text.is_empty())
        {
            edits.replace(span(data, value), quoted(&format!("\n\n{text}")));
            return true;
        }
    }
    false
}

fn candidate(index: u64, text: &str) -> Value {
    let content = json!({"role": "model", "parts": [{"text": text}]});
    json!({"index": index, "content": content})
}

impl ReplyApi for GeminiReplyState {
    fn format(&self) -> WireFormat {
        WireFormat::Gemini
    }

    fn read(&self, record: Option<&JsonValue<'_>>) -> ReplyEvent {
        let Some(record) = record else {
            return ReplyEvent::Gemini(GeminiChunk::default());
        };
        let wrapped = record.get(WRAPPED).filter(|_| self.is_wrapped);
        let chunk = wrapped.unwrap_or(record);
        let feedback = chunk.get("promptFeedback");
        let member = |name: &&'static str| Some((*name, value_of(chunk.get(name)?)));
        let candidates = chunk.list("candidates").iter();
        ReplyEvent::Gemini(GeminiChunk {
            trace_id: record.get(TRACE_ID).map(value_of),
            members: REPEATED.iter().filter_map(member).collect(),
            has_blocked_prompt: feedback.is_some_and(|it| it.get("blockReason").is_some()),
            candidates: candidates.map(GeminiCandidate::read).collect(),
        })
    }

    /// A call is whole in a chunk, unless the client asked for its arguments in pieces.
    fn hold(&mut self, event: &ReplyEvent) -> EventHold {
        let ReplyEvent::Gemini(chunk) = event else {
            return EventHold::default();
        };
        let mut hold = EventHold::default();
        for candidate in &chunk.candidates {
            self.arrived.insert(candidate.index);
            hold.waits_for_end |= candidate.is_end;
            if let Some(will_continue) = candidate.call {
                hold.call = Some(candidate.index);
                hold.completes_call = !will_continue;
                self.arriving = will_continue.then_some(candidate.index);
            }
        }
        hold.call = hold.call.or(self.arriving);
        hold
    }

    fn end_completes_calls(&self) -> bool {
        true
    }

    fn sent(&mut self, event: ReplyEvent) {
        let ReplyEvent::Gemini(chunk) = event else {
            return;
        };
        for (name, value) in chunk.members {
            self.members.insert(name.into(), value);
        }
        self.trace_id = chunk.trace_id.or_else(|| self.trace_id.take());
        self.has_blocked_prompt |= chunk.has_blocked_prompt;
        for candidate in chunk.candidates {
            let sent = self.candidates.entry(candidate.index).or_default();
            sent.has_text |= candidate.has_text;
            sent.has_call |= candidate.call.is_some();
            sent.is_over |= candidate.is_end;
        }
    }

    fn can_splice(&self) -> bool {
        let is_open = |sent: &SentCandidate| !sent.has_call && !sent.is_over;
        !self.has_blocked_prompt && self.candidates.values().all(is_open)
    }

    fn splice(&mut self, _: &mut JudgedOutput) {
        let with_text = self.candidates.iter().filter(|(_, sent)| sent.has_text);
        self.gaps = with_text.map(|(index, _)| *index).collect();
        self.arriving = None;
    }

    fn splice_event(&mut self, data: &[u8]) -> SplicedEvent {
        let Some(top) = parse(data).and_then(members) else {
            return SplicedEvent::Same;
        };
        let mut edits = JsonEdits::default();
        let wrapped = member(&top, WRAPPED).filter(|_| self.is_wrapped);
        let chunk = match wrapped.and_then(members) {
            Some(chunk) => {
                let trace_id = (TRACE_ID, self.trace_id.as_ref());
                keep_known(data, &top, trace_id, &mut edits);
                chunk
            }
            None => top,
        };
        for name in ["modelVersion", "responseId"] {
            keep_known(data, &chunk, (name, self.members.get(name)), &mut edits);
        }
        let candidates = member(&chunk, "candidates").and_then(elements);
        for candidate in candidates.unwrap_or_default() {
            let candidate = members(candidate).unwrap_or_default();
            let index = member(&candidate, "index").and_then(|it| it.get().parse().ok());
            let index = index.unwrap_or(0);
            if self.gaps.contains(&index) && begin_paragraph(data, &candidate, &mut edits) {
                self.gaps.remove(&index);
            }
        }
        SplicedEvent::edited(data, &edits)
    }

    /// A chunk with an empty text. Google's client for JavaScript does not accept comments.
    fn keep_alive(&mut self, out: &mut JudgedOutput) {
        let open = self.candidates.iter().find(|(_, sent)| !sent.is_over);
        let index = open.map_or(0, |(index, _)| *index);
        if open.is_some() || self.candidates.is_empty() {
            self.push_chunk(json!([candidate(index, "")]), out);
        }
    }

    fn end(&self, reason: &str, ending: BlockEnding, out: &mut JudgedOutput) {
        if self.has_blocked_prompt {
            return;
        }
        let mut open: BTreeMap<u64, bool> = self.arrived.iter().map(|it| (*it, false)).collect();
        for (index, sent) in &self.candidates {
            match sent.is_over {
                true => drop(open.remove(index)),
                false => drop(open.insert(*index, sent.has_text)),
            }
        }
        if self.candidates.is_empty() && open.is_empty() {
            open.insert(0, false);
        }
        let finish_reason = match ending {
            BlockEnding::Soft => "STOP",
            BlockEnding::Hard => "SAFETY",
        };
        let last = |(index, has_text): (&u64, &bool)| {
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
        let trace_id = first.get(TRACE_ID);
        let first = first
            .get(WRAPPED)
            .filter(|_| self.is_wrapped)
            .unwrap_or(first);
        let mut whole = copied(first, &REPEATED);
        let count = first["candidates"]
            .as_array()
            .map_or(1, |candidates| candidates.len().max(1));
        let ended = |index| {
            let mut ended = candidate(index as u64, reason);
            ended["finishReason"] = json!("STOP");
            ended
        };
        whole.insert("candidates".into(), (0..count).map(ended).collect());
        let whole = self.wrapped(whole, trace_id);
        match chunks {
            Some(_) => json!([whole]),
            None => whole,
        }
    }
}
