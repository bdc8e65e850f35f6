//! OpenAI's Chat Completions API and those who imitate it, each in its own way.
//!
//! Chunks with `choices[].delta`, also whole replies (`choices[].message`) and the older text completions
//! (`choices[].text`). Nothing in a chunk says that a part is complete, so parts end with the reply: at
//! `[DONE]`, at the end of the input, or where a finished reply is followed by one with another id.

use std::collections::{BTreeMap, HashMap};

use super::Source;
use super::json::Json;
use super::reply::{Naming, Replies, Reply, Sink, TOO_MANY};
use ttsr::Channel;

/// Members of a chunk that are read, or that say nothing of what the model wrote.
const CHUNK: [&str; 9] = [
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
const DELTA: [&str; 10] = [
    "content",
    "refusal",
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "reasoning_details",
    "tool_calls",
    "function_call",
    "audio",
    "name",
];

/// The names under which reasoning comes.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// Longest name of a tool that is put together from fragments.
const NAME: usize = 1024;

#[derive(Debug)]
pub(super) struct Chat {
    replies: Replies,
    state: State,
}

/// What is known of the reply under way besides its parts.
#[derive(Debug, Default)]
struct State {
    id: String,
    /// A choice gave its reason.
    ended: bool,
    /// By choice and index.
    calls: BTreeMap<(u64, u64), Call>,
    /// The index of the call of that choice and id.
    by_id: HashMap<(u64, String), u64>,
    /// The index of the last call.
    last: u64,
}

#[derive(Debug, Default)]
struct Call {
    id: Option<String>,
    name: String,
}

impl Chat {
    pub(super) fn new(default_name: String) -> Chat {
        Chat {
            replies: Replies::new(default_name),
            state: State::default(),
        }
    }

    /// The reply to which a chunk of that id belongs. Some servers give each chunk an id of its own, so a
    /// new id alone does not start a new reply.
    fn reply(&mut self, id: Option<&str>, on: Sink<'_>) -> (&mut Reply, &mut State) {
        let other = id.is_some_and(|id| id != self.state.id);
        if self.replies.current().is_none() || self.state.ended && other {
            self.state = State {
                id: id.unwrap_or_default().to_owned(),
                ..State::default()
            };
            self.replies.begin(id, on);
        }
        (self.replies.reply(id, on), &mut self.state)
    }
}

impl Source for Chat {
    fn record(&mut self, _kind: &str, chunk: &Json<'_>, on: Sink<'_>) {
        let id = chunk.text("id");
        if let Some(error) = chunk.get("error") {
            report(self.reply(id.as_deref(), on).0, error, on);
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
        self.replies
            .unscanned(chunk.unread(&CHUNK), "chat.completion.chunk", on);
    }

    fn done(&mut self, on: Sink<'_>) {
        self.replies.finish("[DONE]", on);
    }

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.replies.unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: Sink<'_>) {
        self.replies.close(on);
    }
}

fn report(reply: &mut Reply, error: &Json<'_>, on: Sink<'_>) {
    let code = error
        .get("code")
        .map(|code| String::from_utf8_lossy(code.string().unwrap_or(code.raw())));
    let kind = error.text("type").or(code).unwrap_or_default();
    let whole = || String::from_utf8_lossy(error.string().unwrap_or(error.raw()));
    let message = error.text("message").unwrap_or_else(whole);
    reply.error(&kind, &message, on);
}

fn read_choice(reply: &mut Reply, state: &mut State, choice: &Json<'_>, on: Sink<'_>) {
    let index = choice.number("index").unwrap_or(0);
    let reason = choice.text("finish_reason");
    if let Some(text) = choice.bytes("text") {
        reply.delta(
            naming(&format!("choice/{index}/text"), Channel::Text),
            text,
            on,
        );
    }
    match (choice.get("delta"), choice.get("message")) {
        (Some(delta), Some(message)) => {
            read_delta(reply, state, index, delta, on);
            repeated(reply, index, message, reason.is_some(), on);
        }
        (Some(delta), None) | (None, Some(delta)) => read_delta(reply, state, index, delta, on),
        (None, None) => {}
    }
    if let Some(reason) = reason {
        state.ended = true;
        reply.reason.get_or_insert(reason.into_owned());
    }
    reply.unscanned(choice.unread(&CHOICE), "choice", on);
}

/// Some servers repeat the message so far beside each delta.
fn repeated(reply: &mut Reply, index: u64, message: &Json<'_>, complete: bool, on: Sink<'_>) {
    let key = format!("choice/{index}/content");
    let content = message.bytes("content").unwrap_or_default();
    if complete || reply.delivered(&key).is_none() {
        reply.whole(naming(&key, Channel::Text), content, on);
    } else if reply.delivered(&key) != Some(content.len() as u64) {
        reply.unscanned(content.len() as u64, "message", on);
    }
    reply.unscanned(message.unread(&["content"]), "message", on);
}

fn read_delta(reply: &mut Reply, state: &mut State, choice: u64, delta: &Json<'_>, on: Sink<'_>) {
    reasoning(reply, choice, delta, on);
    match delta.get("content") {
        Some(content) if content.is_array() => content_list(reply, choice, content, on),
        Some(content) => {
            let bytes = content.string().unwrap_or_default();
            reply.delta(
                naming(&format!("choice/{choice}/content"), Channel::Text),
                bytes,
                on,
            );
            reply.unscanned(content.unread(&[]), "content", on);
        }
        None => {}
    }
    if let Some(refusal) = delta.bytes("refusal") {
        reply.delta(
            naming(&format!("choice/{choice}/refusal"), Channel::Text),
            refusal,
            on,
        );
    }
    for call in delta.list("tool_calls") {
        tool_call(reply, state, choice, call, on);
    }
    if let Some(function) = delta.get("function_call") {
        let key = format!("choice/{choice}/function_call");
        let call = state.calls.entry((choice, u64::MAX)).or_default();
        name_arrives(reply, call, function.text("name").as_deref(), on);
        input_arrives(reply, &key, call, function.get("arguments"), on);
        reply.unscanned(function.unread(&["name", "arguments"]), "function_call", on);
    }
    if let Some(audio) = delta.get("audio") {
        let transcript = audio.bytes("transcript").unwrap_or_default();
        reply.delta(
            naming(&format!("choice/{choice}/audio"), Channel::Text),
            transcript,
            on,
        );
        reply.unscanned(audio.unread(&["transcript"]), "audio", on);
    }
    reply.unscanned(delta.unread(&DELTA), "delta", on);
}

/// Reasoning comes under one name, or as the same text under two, or also as a list of details.
fn reasoning(reply: &mut Reply, choice: u64, delta: &Json<'_>, on: Sink<'_>) {
    let mut first: &[u8] = &[];
    for name in REASONING {
        let Some(value) = delta.get(name) else {
            continue;
        };
        let Some(bytes) = value.string() else {
            reply.unscanned(value.content(), name, on);
            continue;
        };
        if !bytes.is_empty() && bytes != first {
            reply.delta(
                naming(&format!("choice/{choice}/{name}"), Channel::Reasoning),
                bytes,
                on,
            );
            first = bytes;
        }
    }
    let mut told = first;
    for detail in delta.list("reasoning_details") {
        let text = detail
            .bytes("text")
            .or(detail.bytes("summary"))
            .unwrap_or_default();
        match told.strip_prefix(text) {
            Some(rest) => told = rest,
            None if first.is_empty() => {
                let key = format!("choice/{choice}/reasoning_details");
                reply.delta(naming(&key, Channel::Reasoning), text, on);
            }
            None => reply.unscanned(text.len() as u64, "reasoning_details", on),
        }
        reply.unscanned(
            detail.unread(&["text", "summary", "signature", "format"]),
            "reasoning_details",
            on,
        );
    }
}

/// Content as a list of typed pieces, where thinking may be among them.
fn content_list(reply: &mut Reply, choice: u64, content: &Json<'_>, on: Sink<'_>) {
    for piece in content.items() {
        let kind = piece.text("type").unwrap_or_default();
        let (text, thinking) = (piece.bytes("text"), piece.get("thinking"));
        if let Some(text) = text {
            reply.delta(
                naming(&format!("choice/{choice}/content"), Channel::Text),
                text,
                on,
            );
        }
        if let Some(thinking) = thinking {
            let key = format!("choice/{choice}/thinking");
            let texts = thinking
                .items()
                .iter()
                .filter_map(|item| item.bytes("text"));
            for bytes in thinking.string().into_iter().chain(texts) {
                reply.delta(naming(&key, Channel::Reasoning), bytes, on);
            }
            let rest = thinking
                .items()
                .iter()
                .map(|item| item.unread(&["text"]))
                .sum();
            reply.unscanned(rest, "thinking", on);
        }
        reply.unscanned(piece.unread(&["text", "thinking"]), &kind, on);
    }
}

fn tool_call(reply: &mut Reply, state: &mut State, choice: u64, item: &Json<'_>, on: Sink<'_>) {
    let id = item.text("id");
    let function = item.get("function").or(item.get("custom"));
    let name = function.and_then(|function| function.text("name"));
    let index = item
        .number("index")
        .unwrap_or_else(|| state.index_of(choice, id.as_deref()));
    state.last = index;
    if let (Some(id), false) = (&id, reply.is_full()) {
        state.by_id.insert((choice, id.clone().into_owned()), index);
    }
    let key = format!("choice/{choice}/tool/{index}");
    if reply.is_full() && !state.calls.contains_key(&(choice, index)) {
        return reply.unscanned(item.content(), TOO_MANY, on);
    }
    let call = state.calls.entry((choice, index)).or_default();
    // Another id with a name, or another name after input, is another call under the same index.
    let other_id =
        id.is_some() && call.id.is_some() && call.id.as_deref() != id.as_deref() && name.is_some();
    let other_name = name
        .as_deref()
        .is_some_and(|name| !call.name.is_empty() && name != call.name);
    if other_id || other_name && reply.delivered(&key).is_some_and(|bytes| bytes > 0) {
        reply.end(&key, on);
        *call = Call::default();
    }
    call.id = call.id.take().or(id.map(|id| id.into_owned()));
    name_arrives(reply, call, name.as_deref(), on);
    let input = function.and_then(|function| function.get("arguments").or(function.get("input")));
    input_arrives(reply, &key, call, input, on);
    let rest = function.map_or(0, |function| {
        function.unread(&["name", "arguments", "input"])
    });
    reply.unscanned(
        rest + item.unread(&["function", "custom"]),
        "tool_calls",
        on,
    );
}

impl State {
    /// Where a call without an index belongs: to the call of that id, else after all others; without an
    /// id to the last one.
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

/// A name may come in fragments; one that repeats the whole is no fragment. What is past every sensible
/// length is counted.
fn name_arrives(reply: &Reply, call: &mut Call, name: Option<&str>, on: Sink<'_>) {
    match name {
        Some(name) if name == call.name => {}
        Some(name) if call.name.len() + name.len() > NAME => {
            reply.unscanned(name.len() as u64, "tool-name", on);
        }
        Some(name) => call.name.push_str(name),
        None => {}
    }
}

fn input_arrives(
    reply: &mut Reply,
    key: &str,
    call: &Call,
    input: Option<&Json<'_>>,
    on: Sink<'_>,
) {
    let tool = (!call.name.is_empty()).then_some(call.name.as_str());
    let naming = Naming {
        tool,
        call: call.id.as_deref(),
        grows: true,
        ..naming(key, Channel::ToolInput)
    };
    reply.open(naming, on);
    match input.map(|input| (input.string(), input.raw())) {
        Some((Some(bytes), _)) => reply.delta(naming, bytes, on),
        // An object where a string should be: its own text.
        Some((None, raw)) => reply.whole(naming, raw, on),
        None => {}
    }
}

fn naming(key: &str, channel: Channel) -> Naming<'_> {
    Naming::new(key, key, channel)
}
