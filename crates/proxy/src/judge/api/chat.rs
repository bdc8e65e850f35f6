//! OpenAI's Chat Completions API, its Completions API, and compatible servers. The reason of a block continues the
//! content of each choice.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use ttsr_wire::{JsonValue, WireFormat};

use super::{EventHold, ReplyApi, ReplyEvent, SplicedEvent, copied, value_of};
use crate::config::BlockEnding;
use crate::json_spans::{JsonEdits, elements, member, members, parse, quoted, span, string};
use crate::judge::output::JudgedOutput;

#[derive(Debug, Default)]
pub(super) struct ChatReplyState {
    /// True for the Completions API, whose choices have a text instead of a message.
    is_completion: bool,
    id: Option<String>,
    model: String,
    created: u64,
    /// The names of the reply in the last chunk that arrived before the client was sent one.
    unsent: Option<ChatIdentity>,
    choices: BTreeMap<u64, SentChoice>,
    /// The choices in the chunks that arrived, of which the client may have seen nothing.
    arrived: BTreeSet<u64>,
    /// The choices whose next text begins a paragraph.
    gaps: BTreeSet<u64>,
    /// True if chunks have the member `usage`, because the client asked for it.
    has_usage: bool,
    usage: Option<Value>,
    has_ended: bool,
}

/// A choice as the client has seen it.
#[derive(Debug, Default)]
struct SentChoice {
    has_text: bool,
    has_call: bool,
    is_over: bool,
}

/// A chunk or the end mark.
#[derive(Debug, Default)]
pub(crate) struct ChatEvent {
    is_end: bool,
    /// The members that every chunk repeats, of the first chunk.
    first: Option<Box<ChatIdentity>>,
    /// The member `usage`, also if it is null.
    usage: Option<Value>,
    choices: Vec<ChatChoice>,
}

#[derive(Clone, Debug)]
struct ChatIdentity {
    id: Option<String>,
    model: String,
    created: u64,
}

#[derive(Debug)]
struct ChatChoice {
    index: u64,
    has_text: bool,
    has_call: bool,
    is_end: bool,
}

impl ChatIdentity {
    fn read(chunk: &JsonValue<'_>) -> ChatIdentity {
        let text = |name| chunk.bytes(name).map(String::from_utf8_lossy);
        let created = chunk.get("created");
        let seconds = created.and_then(|it| std::str::from_utf8(it.raw()).ok()?.parse().ok());
        ChatIdentity {
            id: text("id").map(|id| id.into_owned()),
            model: text("model").unwrap_or_default().into_owned(),
            created: seconds.map_or(0, |seconds: f64| seconds as u64),
        }
    }
}

impl ChatChoice {
    fn read(choice: &JsonValue<'_>) -> ChatChoice {
        // Some servers send the message so far beside the delta, or instead of it.
        let deltas = [choice.get("delta"), choice.get("message")];
        let mut deltas = deltas.into_iter().flatten();
        let content = deltas.clone().find_map(|delta| delta.get("content"));
        let content = content.or_else(|| choice.get("text"));
        let has_calls = |delta: &JsonValue<'_>| {
            !delta.list("tool_calls").is_empty() || delta.get("function_call").is_some()
        };
        ChatChoice {
            index: choice.number("index").unwrap_or(0),
            has_text: content.is_some_and(|content| content.string() != Some(b"")),
            has_call: deltas.any(has_calls),
            is_end: choice.get("finish_reason").is_some(),
        }
    }
}

impl ChatReplyState {
    /// Returns the state of a reply of the Completions API.
    pub(super) fn of_completions() -> ChatReplyState {
        ChatReplyState {
            is_completion: true,
            ..ChatReplyState::default()
        }
    }

    /// Returns a choice with that text, which ends for `finish_reason` if that is not null.
    fn choice(&self, index: u64, text: &str, finish_reason: Value) -> Value {
        if self.is_completion {
            return json!({
                "index": index, "text": text, "logprobs": null, "finish_reason": finish_reason,
            });
        }
        let delta = match (text, finish_reason.is_null()) {
            ("", false) => json!({}),
            _ => json!({"content": text}),
        };
        json!({"index": index, "delta": delta, "finish_reason": finish_reason})
    }

    /// Takes the names that the client is sent with an event of the proxy.
    fn adopt(&mut self, first: ChatIdentity) {
        (self.id, self.model, self.created) = (first.id, first.model, first.created);
    }

    fn push_chunk(&self, choices: Value, usage: Option<Value>, out: &mut JudgedOutput) {
        let unsent = self.unsent.as_ref().filter(|_| self.id.is_none());
        let id = self.id.as_ref().or_else(|| unsent?.id.as_ref());
        let model = unsent.map_or(&self.model, |unsent| &unsent.model);
        let created = unsent.map_or(self.created, |unsent| unsent.created);
        let mut chunk = json!({
            "id": id.map_or(match self.is_completion {
                true => "cmpl-ttsr",
                false => "chatcmpl-ttsr",
            }, |id| id),
            "object": match self.is_completion {
                true => "text_completion",
                false => "chat.completion.chunk",
            },
            "created": created,
            "model": model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        out.push_data(&chunk);
    }
}

/// A delta of a repeated attempt that was edited to continue the reply of the client.
#[derive(Clone, Copy, Debug, Default)]
struct SplicedDelta {
    /// True if a paragraph begins with the text of the delta.
    begins_paragraph: bool,
    /// True if the delta has no member with content besides the role.
    is_role_only: bool,
}

/// Removes the role, which the client has, from a delta, and begins a paragraph with its text if `needs_gap`.
fn splice_delta(
    data: &[u8],
    delta: &RawValue,
    needs_gap: bool,
    edits: &mut JsonEdits,
) -> SplicedDelta {
    let Some(found) = members(delta) else {
        return SplicedDelta::default();
    };
    let has_role = member(&found, "role").is_some();
    let text = member(&found, "content").and_then(string);
    let text = text.filter(|text| needs_gap && !text.is_empty());
    if !has_role && text.is_none() {
        return SplicedDelta::default();
    }
    let mut kept = Vec::new();
    let mut is_empty = true;
    for (name, value) in found.iter().filter(|(name, _)| name != "role") {
        let mut value = value.get().to_owned();
        if let ("content", Some(text)) = (&**name, &text) {
            value = quoted(&format!("\n\n{text}"));
        }
        is_empty &= matches!(&*value, "null" | "\"\"");
        kept.push(format!("{}:{value}", quoted(name)));
    }
    edits.replace(span(data, delta), format!("{{{}}}", kept.join(",")));
    SplicedDelta {
        begins_paragraph: text.is_some(),
        is_role_only: is_empty,
    }
}

impl ReplyApi for ChatReplyState {
    fn format(&self) -> WireFormat {
        WireFormat::OpenAiChat
    }

    fn read(&self, record: Option<&JsonValue<'_>>) -> ReplyEvent {
        let Some(chunk) = record else {
            return ReplyEvent::Chat(ChatEvent {
                is_end: true,
                ..ChatEvent::default()
            });
        };
        let usage = chunk
            .members()
            .iter()
            .rfind(|(name, _)| **name == *b"usage");
        let is_first = self.id.is_none();
        ReplyEvent::Chat(ChatEvent {
            is_end: false,
            first: is_first.then(|| Box::new(ChatIdentity::read(chunk))),
            usage: usage.map(|(_, usage)| value_of(usage)),
            choices: chunk.list("choices").iter().map(ChatChoice::read).collect(),
        })
    }

    /// All calls of a reply are one here: no event ends one of them.
    fn hold(&mut self, event: &ReplyEvent) -> EventHold {
        let ReplyEvent::Chat(event) = event else {
            return EventHold::default();
        };
        self.arrived.extend(event.choices.iter().map(|it| it.index));
        if let Some(first) = &event.first {
            self.unsent = Some((**first).clone());
        }
        let has_call = event.choices.iter().any(|choice| choice.has_call);
        EventHold {
            call: has_call.then_some(0),
            completes_call: false,
            waits_for_end: event.choices.iter().any(|choice| choice.is_end),
        }
    }

    fn expect_usage(&mut self) {
        self.has_usage = true;
    }

    fn end_completes_calls(&self) -> bool {
        true
    }

    fn sent(&mut self, event: ReplyEvent) {
        let ReplyEvent::Chat(event) = event else {
            return;
        };
        self.has_ended |= event.is_end;
        if let (None, Some(first)) = (&self.id, event.first) {
            self.adopt(*first);
            self.unsent = None;
        }
        if let Some(usage) = event.usage {
            self.has_usage = true;
            self.usage = Some(usage)
                .filter(|usage| !usage.is_null())
                .or(self.usage.take());
        }
        for choice in event.choices {
            let sent = self.choices.entry(choice.index).or_default();
            sent.has_call |= choice.has_call;
            sent.has_text |= choice.has_text;
            sent.is_over |= choice.is_end;
        }
    }

    fn can_splice(&self) -> bool {
        let is_open = |choice: &SentChoice| !choice.has_call && !choice.is_over;
        !self.has_ended && self.choices.values().all(is_open)
    }

    fn splice(&mut self, _: &mut JudgedOutput) {
        let with_text = self.choices.iter().filter(|(_, choice)| choice.has_text);
        self.gaps = with_text.map(|(index, _)| *index).collect();
    }

    fn splice_event(&mut self, data: &[u8]) -> SplicedEvent {
        let Some(id) = self.id.clone() else {
            return SplicedEvent::Same;
        };
        let mut edits = JsonEdits::default();
        let Some(top) = parse(data).and_then(members) else {
            return SplicedEvent::Same;
        };
        let created = self.created.to_string();
        let same = [
            ("id", quoted(&id)),
            ("model", quoted(&self.model)),
            ("created", created),
        ];
        for (name, value) in same {
            if let Some(known) = member(&top, name)
                && known.get() != value
            {
                edits.replace(span(data, known), value);
            }
        }
        let choices = member(&top, "choices").and_then(elements);
        let choices = choices.unwrap_or_default();
        let mut is_needless = !choices.is_empty();
        for choice in choices {
            let choice = members(choice).unwrap_or_default();
            let index = member(&choice, "index").and_then(|it| it.get().parse().ok());
            let index = index.unwrap_or(0);
            let delta = member(&choice, "delta").filter(|_| self.choices.contains_key(&index));
            let is_end = member(&choice, "finish_reason").is_some_and(|it| it.get() != "null");
            let needs_gap = self.gaps.contains(&index);
            let spliced = delta.map(|delta| splice_delta(data, delta, needs_gap, &mut edits));
            let spliced = spliced.unwrap_or_default();
            if spliced.begins_paragraph {
                self.gaps.remove(&index);
            }
            let text = member(&choice, "text").filter(|_| self.gaps.contains(&index));
            if let Some(value) = text
                && let Some(text) = string(value).filter(|text| !text.is_empty())
            {
                edits.replace(span(data, value), quoted(&format!("\n\n{text}")));
                self.gaps.remove(&index);
            }
            is_needless &= spliced.is_role_only && !is_end;
        }
        let has_usage = member(&top, "usage").is_some_and(|usage| usage.get() != "null");
        match is_needless && !has_usage {
            true => SplicedEvent::Dropped,
            false => SplicedEvent::edited(data, &edits),
        }
    }

    /// A comment is not used within a reply, because some clients parse it as data.
    fn keep_alive(&mut self, out: &mut JudgedOutput) {
        let open = self.choices.iter().find(|(_, choice)| !choice.is_over);
        let open = open.map(|(index, _)| *index);
        let first = self.arrived.first().filter(|_| self.choices.is_empty());
        let Some(index) = open.or(first.copied()) else {
            return out.push_comment();
        };
        if let Some(unsent) = self.unsent.take() {
            self.adopt(unsent);
        }
        let empty = json!([self.choice(index, "", Value::Null)]);
        self.push_chunk(empty, self.has_usage.then_some(Value::Null), out);
    }

    fn end(&self, reason: &str, ending: BlockEnding, out: &mut JudgedOutput) {
        if self.has_ended {
            return;
        }
        let mut push = |choices: Value, usage: Option<Value>| self.push_chunk(choices, usage, out);
        let unseen = SentChoice::default();
        let mut all: BTreeMap<u64, &SentChoice> =
            self.arrived.iter().map(|index| (*index, &unseen)).collect();
        all.extend(self.choices.iter().map(|(index, choice)| (*index, choice)));
        if all.is_empty() {
            all.insert(0, &unseen);
        }
        let finish_reason = match ending {
            BlockEnding::Soft => "stop",
            BlockEnding::Hard => "content_filter",
        };
        let none = self.has_usage.then_some(Value::Null);
        for (index, choice) in all.into_iter().filter(|(_, choice)| !choice.is_over) {
            let text = match choice.has_text {
                true => format!("\n\n{reason}"),
                false => reason.to_owned(),
            };
            let mut text = self.choice(index, &text, Value::Null);
            if !self.choices.contains_key(&index) && !self.is_completion {
                text["delta"]["role"] = json!("assistant");
            }
            push(json!([text]), none.clone());
            let end = self.choice(index, "", json!(finish_reason));
            push(json!([end]), none.clone());
        }
        if self.has_usage {
            let unknown = || json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
            push(json!([]), Some(self.usage.clone().unwrap_or_else(unknown)));
        }
        out.rest.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn whole(&self, reply: &Value, reason: &str) -> Value {
        let members = [
            "id",
            "object",
            "created",
            "model",
            "usage",
            "system_fingerprint",
            "service_tier",
        ];
        let mut whole = copied(reply, &members);
        let count = reply["choices"]
            .as_array()
            .map_or(1, |choices| choices.len().max(1));
        let choice = |index| {
            if self.is_completion {
                return self.choice(index as u64, reason, json!("stop"));
            }
            let message = json!({"role": "assistant", "content": reason, "refusal": null});
            json!({"index": index, "message": message, "logprobs": null, "finish_reason": "stop"})
        };
        whole.insert("choices".into(), (0..count).map(choice).collect());
        Value::Object(whole)
    }
}
