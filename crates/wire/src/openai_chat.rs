//! OpenAI's Chat Completions API (`v1`) and compatible servers.
//!
//! Source: the `CreateChatCompletionStreamResponse`, `CreateChatCompletionResponse` and `CreateCompletionResponse`
//! schemas of OpenAI's OpenAPI document, and recordings of compatible servers.
//!
//! Reads chunks (`choices[].delta`), whole replies (`choices[].message`) and legacy text completions
//! (`choices[].text`). No chunk marks the end of a part, so parts end with the reply: at `[DONE]`, at the end of the
//! input, or if a chunk with another id follows a finish reason.
//!
//! Content: `content`, `refusal`, reasoning under its names, transcripts of audio, names and arguments of calls.
//! Reasoning is a text, a list of OpenRouter (`reasoning_details`) or LiteLLM (`thinking_blocks`), or also in
//! LiteLLM's `provider_specific_fields`. A member that repeats another one is read once: see `chat_reasoning`.
//! Annotations, citations and the results of tools that the server ran are the output of a tool.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::FormatReader;
use super::chat_reasoning::{REASONING, ReasoningCopies, ReasoningReader};
use super::json::{JsonPath, JsonValue};
use super::place::CopySource;
use super::reply::{EventSink, PartSpec, ReplyEmitter, ReplySequence, TOO_MANY};
use ttsr::rule::ToolOutcome;
use ttsr::{Channel, PartId};

/// Members of a chunk that are read or are known metadata.
const CHUNK: [&str; 14] = [
    "annotations",
    "citations",
    "executed_tools",
    "search_results",
    "related_questions",
    "choices",
    "usage",
    "error",
    "system_fingerprint",
    "service_tier",
    "obfuscation",
    "provider",
    "prompt_filter_results",
    "metadata",
];

/// The same for a choice; `logprobs` repeats the tokens of the delta.
const CHOICE: [&str; 10] = [
    "delta",
    "message",
    "text",
    "finish_reason",
    "native_finish_reason",
    "stop_reason",
    "matched_stop",
    "logprobs",
    "content_filter_results",
    "content_filter_result",
];

/// The same for a delta.
const DELTA: [&str; 20] = [
    "search_results",
    "related_questions",
    "annotations",
    "citations",
    "executed_tools",
    "images",
    "channel",
    "content",
    "refusal",
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "reasoning_details",
    "thinking",
    "thinking_blocks",
    "provider_specific_fields",
    "tool_calls",
    "function_call",
    "audio",
    "name",
];

/// Members of a delta, a message or a chunk with the sources and results of tools that the server ran.
const SOURCES: [&str; 5] = [
    "annotations",
    "citations",
    "executed_tools",
    "search_results",
    "related_questions",
];

/// Members of such results that are known metadata.
const SOURCE_METADATA: [&str; 3] = ["date", "last_updated", "encrypted_content"];

/// The paths of a delta and of a whole message.
const IN_DELTA: JsonPath<'_> = JsonPath::Root("choices[].delta");
const IN_MESSAGE: JsonPath<'_> = JsonPath::Root("choices[].message");

/// The longest tool name that is assembled from fragments, in bytes.
const NAME: usize = 1024;

#[derive(Debug)]
pub(super) struct OpenAiChatReader {
    replies: ReplySequence,
    state: ChatReply,
}

/// The state of the reply in progress, except its parts.
#[derive(Debug, Default)]
struct ChatReply {
    id: String,
    /// True after a finish reason.
    ended: bool,
    /// By choice and index.
    calls: BTreeMap<(u64, u64), ChatToolCall>,
    /// The index of a call by choice and id; at most one id of each call.
    by_id: HashMap<(u64, String), u64>,
    /// The index of the last call.
    last: u64,
    /// The members with reasoning that are not read, because they repeat others.
    copies: ReasoningCopies,
}

#[derive(Debug, Default)]
struct ChatToolCall {
    id: Option<String>,
    name: String,
}

impl OpenAiChatReader {
    pub(super) fn new(default_name: String) -> OpenAiChatReader {
        OpenAiChatReader {
            replies: ReplySequence::new(default_name),
            state: ChatReply::default(),
        }
    }

    /// Returns the reply that a chunk of that id belongs to. Some servers give each chunk an id of its own, so a new id
    /// alone does not start a new reply.
    fn reply(
        &mut self,
        id: Option<&str>,
        on: EventSink<'_>,
    ) -> (&mut ReplyEmitter, &mut ChatReply) {
        let other = id.is_some_and(|id| id != self.state.id);
        if self.replies.current().is_none() || self.state.ended && other {
            self.state = ChatReply {
                id: id.unwrap_or_default().to_owned(),
                ..ChatReply::default()
            };
            self.replies.begin(id, on);
        }
        (self.replies.reply(id, on), &mut self.state)
    }
}

impl FormatReader for OpenAiChatReader {
    fn read_record(&mut self, _kind: &str, chunk: &JsonValue<'_>, on: EventSink<'_>) {
        let id = chunk.text("id");
        if let Some(error) = chunk.get("error") {
            read_error(self.reply(id.as_deref(), on).0, error, on);
        }
        let choices = chunk.list("choices");
        if !choices.is_empty() {
            let (reply, state) = self.reply(id.as_deref(), on);
            for choice in choices {
                read_choice(reply, state, choice, on);
            }
        }
        if let (Some(usage), Some(_)) = (chunk.get("usage"), self.replies.current()) {
            let reply = self.replies.reply(None, on);
            let either = |new, old| usage.number(new).or(usage.number(old));
            reply.usage(
                either("prompt_tokens", "input_tokens"),
                either("completion_tokens", "output_tokens"),
                on,
            );
        }
        for name in SOURCES {
            if let (Some(value), Some(_)) = (chunk.get(name), self.replies.current()) {
                sources(self.replies.reply(None, on), name, name, value, on);
            }
        }
        self.replies.count_unread(chunk, &CHUNK, "", on);
    }

    fn variable_members(&self, chunk: &JsonValue<'_>) -> Option<&'static [&'static str]> {
        let [choice] = chunk.list("choices") else {
            return None;
        };
        // The reading of a text depends on the other texts of its delta, which may repeat it.
        let is_empty = |value: &JsonValue<'_>| matches!(value.raw(), b"null" | b"[]" | b"\"\"");
        // Each text of a member that others repeat is compared with theirs.
        let reasoning = match self.state.copies.is_empty() {
            true => &REASONING[..],
            false => &[],
        };
        let is_text = |name: &[u8]| {
            let mut texts = reasoning.iter().chain(&["content"]);
            texts.any(|text| *text.as_bytes() == *name)
        };
        let is_plain = |delta: &JsonValue<'_>| {
            let members = delta.members().iter();
            let mut filled = members.filter(|(name, value)| **name != *b"role" && !is_empty(value));
            filled.next().is_some_and(|(name, _)| is_text(name)) && filled.next().is_none()
        };
        let is_plain = choice.get("delta").is_some_and(is_plain);
        is_plain.then_some(&["created", "obfuscation"])
    }

    fn reply_of(&mut self, part: PartId) -> Option<&mut ReplyEmitter> {
        self.replies.reply_of(part)
    }

    fn on_done(&mut self, on: EventSink<'_>) {
        self.replies.finish("[DONE]", on);
    }

    fn take_copies(&mut self) -> Vec<CopySource> {
        self.state.copies.take_divided()
    }

    fn kept_bytes(&self) -> usize {
        self.state.copies.kept_bytes()
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.replies.count_unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: EventSink<'_>) {
        self.replies.close(on);
    }
}

/// Reads the sources or results of a tool that the server ran.
fn sources(
    reply: &mut ReplyEmitter,
    group: &str,
    name: &str,
    value: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let spec = PartSpec::new(group, name, Channel::ToolOutput);
    reply.push_tool_strings(spec, ToolOutcome::Ok, value, &SOURCE_METADATA, on);
}

fn read_error(reply: &mut ReplyEmitter, error: &JsonValue<'_>, on: EventSink<'_>) {
    let code = error
        .get("code")
        .map(|code| String::from_utf8_lossy(code.string().unwrap_or(code.raw())));
    let kind = error.text("type").or(code).unwrap_or_default();
    let whole = || String::from_utf8_lossy(error.string().unwrap_or(error.raw()));
    let message = error.text("message").unwrap_or_else(whole);
    reply.error(&kind, &message, on);
}

fn read_choice(
    reply: &mut ReplyEmitter,
    state: &mut ChatReply,
    choice: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let index = choice.number("index").unwrap_or(0);
    let reason = choice.text("finish_reason");
    if let Some(text) = choice.bytes("text") {
        reply.push_delta(
            part_spec(&format!("choice/{index}/text"), Channel::Text),
            text,
            on,
        );
    }
    match (choice.get("delta"), choice.get("message")) {
        (Some(delta), Some(message)) => {
            read_delta(reply, state, index, delta, &IN_DELTA, on);
            read_repeated_message(reply, state, index, message, on);
        }
        (Some(delta), None) => read_delta(reply, state, index, delta, &IN_DELTA, on),
        (None, Some(message)) => read_delta(reply, state, index, message, &IN_MESSAGE, on),
        (None, None) => {}
    }
    if let Some(reason) = reason {
        state.ended = true;
        reply.reason.get_or_insert(reason.into_owned());
    }
    reply.count_unread(choice, &CHOICE, "choices[]", on);
}

/// Reads the member `message` of a chunk, in which some servers repeat the message so far. Each text is a repetition of
/// what the deltas had, or else new.
fn read_repeated_message(
    reply: &mut ReplyEmitter,
    state: &mut ChatReply,
    index: u64,
    message: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let path = &IN_MESSAGE;
    let mut repeat = |name: &str, channel: Channel, text: &[u8]| {
        let key = format!("choice/{index}/{name}");
        reply.push_whole(part_spec(&key, channel), text, on);
    };
    let content = message.get("content");
    let pieces = content.map_or(&[][..], JsonValue::items);
    match content.and_then(JsonValue::string) {
        Some(text) => repeat("content", Channel::Text, text),
        None => repeat("content", Channel::Text, &joined(pieces, &["text"])),
    }
    let refusal = message.bytes("refusal").unwrap_or_default();
    repeat("refusal", Channel::Text, refusal);
    let audio = message.get("audio");
    let transcript = audio.and_then(|audio| audio.bytes("transcript"));
    repeat("audio", Channel::Text, transcript.unwrap_or_default());
    let thinking = pieces.iter().filter_map(|piece| piece.get("thinking"));
    let thinking = thinking.flat_map(|it| match it.string() {
        Some(text) => text.to_vec(),
        None => joined(it.items(), &["text"]),
    });
    repeat(
        "thinking",
        Channel::Reasoning,
        &thinking.collect::<Vec<u8>>(),
    );
    ReasoningReader::new(index, &mut state.copies, true).read(reply, message, path, on);
    for (place, call) in (0..).zip(message.list("tool_calls")) {
        repeated_call(reply, state, (index, place), call, on);
    }
    if let Some(function) = message.get("function_call") {
        repeated_function_call(reply, state, index, function, on);
    }
    for name in SOURCES {
        if let Some(value) = message.get(name) {
            sources(reply, &format!("choice/{index} {name}"), name, value, on);
        }
    }
    reply.count_unread_at(message, &DELTA, path, on);
}

/// Returns the members of the items, of each item the first of these names, joined.
fn joined(items: &[JsonValue<'_>], names: &[&str]) -> Vec<u8> {
    let first = |item: &JsonValue<'_>| {
        let found = names.iter().find_map(|name| item.bytes(name));
        found.unwrap_or_default().to_vec()
    };
    items.iter().flat_map(first).collect()
}

/// Reads a call in a repeated message: by its index or id, else by its place. A call with another name than the one
/// of the deltas is a separate part.
fn repeated_call(
    reply: &mut ReplyEmitter,
    state: &mut ChatReply,
    (choice, place): (u64, u64),
    item: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let id = item.text("id");
    let by_id = id.map(|id| state.by_id.get(&(choice, id.into_owned())).copied());
    let index = item.number("index").or(by_id.flatten()).unwrap_or(place);
    let Some(known) = state.calls.get(&(choice, index)) else {
        return tool_call(reply, state, choice, item, &IN_MESSAGE, on);
    };
    let function = item.get("function").or(item.get("custom"));
    let name = function.and_then(|function| function.text("name"));
    let is_same = name.as_deref().is_none_or(|name| name == known.name);
    let key = match is_same {
        true => format!("choice/{choice}/tool/{index}"),
        false => format!("choice/{choice}/message/{index}"),
    };
    let spec = PartSpec {
        tool: name.as_deref(),
        call: known.id.as_deref(),
        ..part_spec(&key, Channel::ToolInput)
    };
    let input = function.and_then(|function| function.get("arguments").or(function.get("input")));
    if let Some(input) = input {
        reply.push_whole(spec, input.string().unwrap_or(input.raw()), on);
    }
    let path = JsonPath::Member(&IN_MESSAGE, b"tool_calls");
    let path = JsonPath::Item(&path);
    if let Some(function) = function {
        let path = JsonPath::Member(&path, b"function");
        reply.count_unread_at(function, &["name", "arguments", "input"], &path, on);
    }
    reply.count_unread_at(item, &["function", "custom"], &path, on);
}

/// Reads the call of the older form in a repeated message.
fn repeated_function_call(
    reply: &mut ReplyEmitter,
    state: &mut ChatReply,
    choice: u64,
    function: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let name = function.text("name");
    let known = state.calls.get(&(choice, u64::MAX));
    let Some(known) = known else {
        return function_call(reply, state, choice, function, &IN_MESSAGE, on);
    };
    let is_same = name.as_deref().is_none_or(|name| name == known.name);
    let key = match is_same {
        true => format!("choice/{choice}/function_call"),
        false => format!("choice/{choice}/message/function_call"),
    };
    let spec = PartSpec {
        tool: name.as_deref(),
        ..part_spec(&key, Channel::ToolInput)
    };
    if let Some(input) = function.get("arguments") {
        reply.push_whole(spec, input.string().unwrap_or(input.raw()), on);
    }
    let path = JsonPath::Member(&IN_MESSAGE, b"function_call");
    reply.count_unread_at(function, &["name", "arguments"], &path, on);
}

fn read_delta(
    reply: &mut ReplyEmitter,
    state: &mut ChatReply,
    choice: u64,
    delta: &JsonValue<'_>,
    path: &JsonPath<'_>,
    on: EventSink<'_>,
) {
    ReasoningReader::new(choice, &mut state.copies, false).read(reply, delta, path, on);
    match delta.get("content") {
        Some(content) if content.is_array() => content_list(reply, choice, content, path, on),
        Some(content) => {
            let bytes = content.string().unwrap_or_default();
            let key = content_key(choice);
            reply.push_delta(part_spec(&key, Channel::Text), bytes, on);
            if content.string().is_none() {
                reply.count_unread_at(content, &[], &JsonPath::Member(path, b"content"), on);
            }
        }
        None => {}
    }
    if let Some(refusal) = delta.bytes("refusal") {
        reply.push_delta(
            part_spec(&format!("choice/{choice}/refusal"), Channel::Text),
            refusal,
            on,
        );
    }
    for call in delta.list("tool_calls") {
        tool_call(reply, state, choice, call, path, on);
    }
    if let Some(function) = delta.get("function_call") {
        function_call(reply, state, choice, function, path, on);
    }
    if let Some(audio) = delta.get("audio") {
        let transcript = audio.bytes("transcript").unwrap_or_default();
        reply.push_delta(
            part_spec(&format!("choice/{choice}/audio"), Channel::Text),
            transcript,
            on,
        );
        reply.count_unread_at(
            audio,
            &["transcript", "data"],
            &JsonPath::Member(path, b"audio"),
            on,
        );
    }
    for name in SOURCES {
        if let Some(value) = delta.get(name) {
            let group = format!("choice/{choice} {name}");
            sources(reply, &group, name, value, on);
        }
    }
    reply.count_unread_at(delta, &DELTA, path, on);
}

/// Reads content given as a list of typed items, which may include thinking.
fn content_list(
    reply: &mut ReplyEmitter,
    choice: u64,
    content: &JsonValue<'_>,
    path: &JsonPath<'_>,
    on: EventSink<'_>,
) {
    let path = JsonPath::Member(path, b"content");
    let path = JsonPath::Item(&path);
    for piece in content.items() {
        let (text, thinking) = (piece.bytes("text"), piece.get("thinking"));
        if let Some(text) = text {
            reply.push_delta(part_spec(&content_key(choice), Channel::Text), text, on);
        }
        if let Some(thinking) = thinking {
            let key = format!("choice/{choice}/thinking");
            let texts = thinking
                .items()
                .iter()
                .filter_map(|item| item.bytes("text"));
            for bytes in thinking.string().into_iter().chain(texts) {
                reply.push_delta(part_spec(&key, Channel::Reasoning), bytes, on);
            }
            let path = JsonPath::Member(&path, b"thinking");
            for item in thinking.items() {
                reply.count_unread_at(item, &["text"], &JsonPath::Item(&path), on);
            }
        }
        reply.count_unread_at(piece, &["text", "thinking", "signature"], &path, on);
    }
}

/// Reads a call of the form that came before `tool_calls`. A choice has at most one.
fn function_call(
    reply: &mut ReplyEmitter,
    state: &mut ChatReply,
    choice: u64,
    function: &JsonValue<'_>,
    path: &JsonPath<'_>,
    on: EventSink<'_>,
) {
    let place = (choice, u64::MAX);
    if reply.is_full() && !state.calls.contains_key(&place) {
        return reply.count_unscanned(function.content(), TOO_MANY, on);
    }
    let key = format!("choice/{choice}/function_call");
    let call = state.calls.entry(place).or_default();
    append_tool_name(reply, call, function.text("name").as_deref(), on);
    push_tool_input(reply, &key, call, function.get("arguments"), on);
    reply.count_unread_at(
        function,
        &["name", "arguments"],
        &JsonPath::Member(path, b"function_call"),
        on,
    );
}

fn tool_call(
    reply: &mut ReplyEmitter,
    state: &mut ChatReply,
    choice: u64,
    item: &JsonValue<'_>,
    path: &JsonPath<'_>,
    on: EventSink<'_>,
) {
    let id = item.text("id");
    let function = item.get("function").or(item.get("custom"));
    let name = function.and_then(|function| function.text("name"));
    let index = item
        .number("index")
        .unwrap_or_else(|| state.index_of(choice, id.as_deref()));
    state.last = index;
    let key = format!("choice/{choice}/tool/{index}");
    if reply.is_full() && !state.calls.contains_key(&(choice, index)) {
        return reply.count_unscanned(item.content(), TOO_MANY, on);
    }
    let call = state.calls.entry((choice, index)).or_default();
    // Another id with a name, or another name after input, starts another call under the same index.
    let other_id =
        id.is_some() && call.id.is_some() && call.id.as_deref() != id.as_deref() && name.is_some();
    let other_name = name
        .as_deref()
        .is_some_and(|name| !call.name.is_empty() && name != call.name);
    if other_id || other_name && reply.delivered(&key).is_some_and(|bytes| bytes > 0) {
        reply.end(&key, on);
        let old = std::mem::take(call).id.map(|id| (choice, id));
        if let Some(old) = old.filter(|old| state.by_id.get(old) == Some(&index)) {
            state.by_id.remove(&old);
        }
    }
    if let (Some(id), None) = (id, &call.id) {
        let id = id.into_owned();
        state.by_id.insert((choice, id.clone()), index);
        call.id = Some(id);
    }
    append_tool_name(reply, call, name.as_deref(), on);
    let input = function.and_then(|function| function.get("arguments").or(function.get("input")));
    push_tool_input(reply, &key, call, input, on);
    let path = JsonPath::Member(path, b"tool_calls");
    let path = JsonPath::Item(&path);
    if let Some(function) = function {
        let read = ["name", "arguments", "input"];
        let path = JsonPath::Member(&path, b"function");
        reply.count_unread_at(function, &read, &path, on);
    }
    reply.count_unread_at(item, &["function", "custom"], &path, on);
}

impl ChatReply {
    /// Returns the index of a call that has none: the index of the same id, or else the next free one; the last one for
    /// a fragment without an id.
    fn index_of(&self, choice: u64, id: Option<&str>) -> u64 {
        let Some(id) = id else { return self.last };
        let after = || {
            let mut calls = self.calls.range((choice, 0)..(choice, u64::MAX));
            calls
                .next_back()
                .map_or(0, |((_, index), _)| (index + 1).min(u64::MAX - 1))
        };
        self.by_id
            .get(&(choice, id.to_owned()))
            .copied()
            .unwrap_or_else(after)
    }
}

/// Appends a fragment of a tool's name, unless it repeats the whole name. Bytes past [`NAME`] are counted.
fn append_tool_name(
    reply: &ReplyEmitter,
    call: &mut ChatToolCall,
    name: Option<&str>,
    on: EventSink<'_>,
) {
    match name {
        Some(name) if name == call.name => {}
        Some(name) if call.name.len() + name.len() > NAME => {
            reply.count_unscanned(name.len() as u64, "tool-name", on);
        }
        Some(name) => call.name.push_str(name),
        None => {}
    }
}

fn push_tool_input(
    reply: &mut ReplyEmitter,
    key: &str,
    call: &ChatToolCall,
    input: Option<&JsonValue<'_>>,
    on: EventSink<'_>,
) {
    let tool = (!call.name.is_empty()).then_some(call.name.as_str());
    let spec = PartSpec {
        tool,
        call: call.id.as_deref(),
        name_may_grow: true,
        ..part_spec(key, Channel::ToolInput)
    };
    reply.open(spec, on);
    match input.map(|input| (input.string(), input.raw())) {
        Some((Some(bytes), _)) => reply.push_delta(spec, bytes, on),
        // An object instead of a string: its source text is the input.
        Some((None, raw)) => reply.push_whole(spec, raw, on),
        None => {}
    }
}

/// Returns the key of the content of a choice.
fn content_key(choice: u64) -> Cow<'static, str> {
    match choice {
        // PERF: nearly all deltas belong to it, and formatting costs as much as parsing a fifth of the delta.
        0 => Cow::Borrowed("choice/0/content"),
        _ => Cow::Owned(format!("choice/{choice}/content")),
    }
}

pub(super) fn part_spec(key: &str, channel: Channel) -> PartSpec<'_> {
    PartSpec::new(key, key, channel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::PARTS;

    fn read(reader: &mut OpenAiChatReader, delta: &str) {
        let chunk = format!(r#"{{"choices":[{delta}]}}"#);
        let (chunk, _) = JsonValue::parse(chunk.as_bytes()).unwrap();
        reader.read_record("", &chunk, &mut |_, _, _| {});
    }

    /// Returns the number of calls and of ids that are kept.
    fn kept(reader: &OpenAiChatReader) -> (usize, usize) {
        (reader.state.calls.len(), reader.state.by_id.len())
    }

    #[test]
    fn ids_are_kept_for_calls_and_not_for_fragments() {
        for name in ["", r#""name":"n","#] {
            let mut reader = OpenAiChatReader::new("r".to_owned());
            for id in 0..1_000 {
                let call =
                    format!(r#"{{"index":0,"id":"c{id}","function":{{{name}"arguments":"x"}}}}"#);
                read(
                    &mut reader,
                    &format!(r#"{{"delta":{{"tool_calls":[{call}]}}}}"#),
                );
            }
            assert_eq!(kept(&reader), (1, 1), "{name}");
        }
    }

    #[test]
    fn calls_past_the_limit_of_parts_are_not_kept() {
        let mut reader = OpenAiChatReader::new("r".to_owned());
        for index in 0..PARTS + 1_000 {
            let call = format!(r#"{{"index":{index},"id":"c{index}"}}"#);
            read(
                &mut reader,
                &format!(r#"{{"delta":{{"tool_calls":[{call}]}}}}"#),
            );
        }
        for choice in 1..1_000 {
            read(
                &mut reader,
                &format!(r#"{{"index":{choice},"delta":{{"function_call":{{"name":"n"}}}}}}"#),
            );
        }
        assert_eq!(kept(&reader), (PARTS, PARTS));
    }
}
