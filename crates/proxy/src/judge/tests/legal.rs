//! A checker of each API: the order of events, their required members, indices and ends, as the API's reference and
//! OpenAPI document prescribe. It reads the bytes that a client received.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{StreamedApi, frames_of, next_frames};
use crate::routes::ModelApi;

/// Checks that the bytes are a complete reply of the API, with one end.
pub(crate) fn check(api: impl Into<StreamedApi>, sent: &str) {
    assert!(check_prefix(api, sent), "no end: {sent}");
}

/// Checks that the bytes are the begin of a reply of the API, cut between two events, with at most one end. Returns
/// true if it has the end.
pub(crate) fn check_prefix(api: impl Into<StreamedApi>, sent: &str) -> bool {
    let streamed = api.into();
    let api = streamed.api;
    let mut checker: Box<dyn Checker> = match api {
        ModelApi::AnthropicMessages => Box::<MessagesChecker>::default(),
        ModelApi::OpenAiChat => Box::new(ChoicesChecker::new("chat.completion.chunk")),
        ModelApi::OpenAiCompletions => Box::new(ChoicesChecker::new("text_completion")),
        ModelApi::OpenAiResponses => Box::<ResponsesChecker>::default(),
        ModelApi::Gemini => Box::<GeminiChecker>::default(),
        ModelApi::CodeAssist => Box::<CodeAssistChecker>::default(),
        ModelApi::OllamaChat | ModelApi::OllamaGenerate => Box::<OllamaChecker>::default(),
        ModelApi::Unjudged => unreachable!("no such reply is sent"),
    };
    if streamed.is_array() {
        let (elements, is_closed) = elements(sent);
        for element in elements {
            assert!(!checker.is_over(), "an element after the end: {sent}");
            checker.event(&element);
        }
        return checker.is_over() && is_closed;
    }
    let mut frames = frames_of(streamed);
    let complete = next_frames(&mut frames, sent.as_bytes());
    assert_eq!(
        frames.pending_len(),
        0,
        "the last event is complete: {sent}"
    );
    for frame in complete {
        let Some(data) = frames.data(&frame) else {
            continue;
        };
        assert!(!checker.is_over(), "an event after the end: {sent}");
        if *data == b"[DONE]"[..] {
            checker.done();
            continue;
        }
        let event: Value = serde_json::from_slice(&data)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&frame)));
        check_name(api, &frame, &event);
        checker.event(&event);
    }
    checker.is_over()
}

/// Returns the elements of an array that may lack its end, and true if it has the end.
fn elements(sent: &str) -> (Vec<Value>, bool) {
    let text = sent.trim_ascii();
    if text.is_empty() {
        return (Vec::new(), false);
    }
    let is_closed = text.ends_with(']');
    let end = if is_closed { "" } else { "]" };
    let elements = serde_json::from_str(&format!("{text}{end}"));
    let elements = elements.unwrap_or_else(|error| panic!("{error}: {sent}"));
    (elements, is_closed)
}

/// The field `event` of an event is its type, in the APIs that have one.
fn check_name(api: ModelApi, frame: &[u8], event: &Value) {
    if !matches!(api, ModelApi::AnthropicMessages | ModelApi::OpenAiResponses) {
        return;
    }
    let text = std::str::from_utf8(frame).unwrap();
    let name = text.lines().find_map(|line| line.strip_prefix("event: "));
    assert_eq!(name, event["type"].as_str(), "{text}");
}

trait Checker {
    /// Reads an event.
    fn event(&mut self, event: &Value);

    /// Reads the end mark `[DONE]`.
    fn done(&mut self) {
        panic!("this API has no [DONE]");
    }

    fn is_over(&self) -> bool;
}

fn string<'a>(value: &'a Value, member: &str) -> &'a str {
    let text = value[member].as_str();
    text.unwrap_or_else(|| panic!("`{member}` is no string in {value}"))
}

fn number(value: &Value, member: &str) -> u64 {
    let number = value[member].as_u64();
    number.unwrap_or_else(|| panic!("`{member}` is no number in {value}"))
}

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    let list = value[member].as_array();
    list.unwrap_or_else(|| panic!("`{member}` is no list in {value}"))
}

/// The input of a call is a whole document: clients repair an incomplete one and run it.
fn assert_whole_input(input: &str) {
    let is_whole = input.is_empty() || serde_json::from_str::<Value>(input).is_ok();
    assert!(is_whole, "the input of a call is not complete: {input}");
}

/// `message_start`, blocks one after the other, `message_delta`, `message_stop`; `ping` anywhere. An `error` ends the
/// message, and only where a block is closed: clients ask again without a stream otherwise.
#[derive(Default)]
struct MessagesChecker {
    has_begun: bool,
    /// The index and type of the open block, and the input of a call so far.
    open: Option<(u64, String, String)>,
    blocks: Vec<String>,
    is_stopping: bool,
    is_over: bool,
}

impl Checker for MessagesChecker {
    fn event(&mut self, event: &Value) {
        let kind = string(event, "type");
        assert_eq!(kind == "message_start", !self.has_begun, "{event}");
        match kind {
            "message_start" => {
                self.has_begun = true;
                let message = &event["message"];
                string(message, "id");
                string(message, "model");
                assert_eq!(string(message, "role"), "assistant");
                assert_eq!(string(message, "type"), "message");
                assert!(list(message, "content").is_empty() && message["stop_reason"].is_null());
                number(&message["usage"], "input_tokens");
                number(&message["usage"], "output_tokens");
            }
            "ping" => {}
            "content_block_start" => {
                assert!(self.open.is_none() && !self.is_stopping, "{event}");
                let index = number(event, "index");
                assert_eq!(index, self.blocks.len() as u64, "{event}");
                let block = &event["content_block"];
                let kind = string(block, "type");
                match kind {
                    "text" => drop(string(block, "text").len()),
                    "thinking" => drop(string(block, "thinking").len()),
                    "tool_use" => assert!(
                        !string(block, "id").is_empty() && !string(block, "name").is_empty()
                    ),
                    other => panic!("a block of the type {other}"),
                }
                self.blocks.push(kind.to_owned());
                self.open = Some((index, kind.to_owned(), String::new()));
            }
            "content_block_delta" => {
                let Some((index, block, input)) = &mut self.open else {
                    panic!("no block is open: {event}");
                };
                assert_eq!(number(event, "index"), *index);
                let delta = &event["delta"];
                match (string(delta, "type"), block.as_str()) {
                    ("text_delta", "text") => drop(string(delta, "text").len()),
                    ("thinking_delta", "thinking") => drop(string(delta, "thinking").len()),
                    ("signature_delta", "thinking") => drop(string(delta, "signature").len()),
                    ("input_json_delta", "tool_use") => *input += string(delta, "partial_json"),
                    other => panic!("a delta of another type than its block: {other:?}"),
                }
            }
            "content_block_stop" => {
                let (index, _, input) = self.open.take().expect("a block is open");
                assert_eq!(number(event, "index"), index);
                assert_whole_input(&input);
            }
            "message_delta" => {
                assert!(self.open.is_none() && !self.is_stopping, "{event}");
                let reason = string(&event["delta"], "stop_reason");
                let known = [
                    "end_turn",
                    "max_tokens",
                    "stop_sequence",
                    "tool_use",
                    "refusal",
                ];
                assert!(known.contains(&reason), "{event}");
                let has_call = self.blocks.iter().any(|block| block == "tool_use");
                assert!(
                    has_call || reason != "tool_use",
                    "no call was sent: {event}"
                );
                number(&event["usage"], "output_tokens");
                self.is_stopping = true;
            }
            "message_stop" => {
                assert!(self.is_stopping, "{event}");
                self.is_over = true;
            }
            "error" => {
                let is_closed = self.open.is_none() && !self.blocks.is_empty();
                assert!(is_closed && !self.is_stopping, "{event}");
                string(&event["error"], "type");
                string(&event["error"], "message");
                self.is_over = true;
            }
            other => panic!("an event of the type {other}"),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Chat and Completions: chunks of one id; each choice ends once and has nothing after its end; usage comes without
/// choices; `[DONE]` ends the stream.
struct ChoicesChecker {
    object: &'static str,
    id: Option<Value>,
    choices: BTreeMap<u64, CheckedChoice>,
    has_usage: bool,
    is_over: bool,
}

#[derive(Default)]
struct CheckedChoice {
    /// The input of each call so far.
    calls: Vec<String>,
    is_over: bool,
}

impl ChoicesChecker {
    fn new(object: &'static str) -> ChoicesChecker {
        ChoicesChecker {
            object,
            id: None,
            choices: BTreeMap::new(),
            has_usage: false,
            is_over: false,
        }
    }
}

impl CheckedChoice {
    fn delta(&mut self, delta: &Value) {
        for member in ["content", "reasoning_content", "refusal"] {
            assert!(
                matches!(delta[member], Value::Null | Value::String(_)),
                "{delta}"
            );
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = number(call, "index") as usize;
            let function = &call["function"];
            if index == self.calls.len() {
                assert!(!string(call, "id").is_empty() && !string(function, "name").is_empty());
                assert_eq!(string(call, "type"), "function");
                self.calls.push(String::new());
            }
            self.calls[index] += function["arguments"].as_str().unwrap_or_default();
        }
    }
}

impl Checker for ChoicesChecker {
    fn event(&mut self, event: &Value) {
        string(event, "id");
        string(event, "model");
        number(event, "created");
        assert_eq!(string(event, "object"), self.object, "{event}");
        let id = self.id.get_or_insert_with(|| event["id"].clone());
        assert_eq!(*id, event["id"], "{event}");
        let choices = list(event, "choices");
        assert!(!self.has_usage, "a chunk after the usage: {event}");
        self.has_usage = choices.is_empty();
        if self.has_usage {
            number(&event["usage"], "total_tokens");
            assert!(
                self.choices.values().all(|choice| choice.is_over),
                "{event}"
            );
        }
        for choice in choices {
            let known = self.choices.entry(number(choice, "index")).or_default();
            assert!(!known.is_over, "a choice goes on after its end: {event}");
            if self.object == "text_completion" {
                string(choice, "text");
            } else {
                assert!(choice["delta"].is_object(), "{event}");
                known.delta(&choice["delta"]);
            }
            if choice["finish_reason"].is_null() {
                continue;
            }
            let reason = string(choice, "finish_reason");
            let kinds = ["stop", "length", "tool_calls", "content_filter"];
            assert!(kinds.contains(&reason), "{event}");
            assert!(
                reason != "tool_calls" || !known.calls.is_empty(),
                "no call was sent: {event}"
            );
            known
                .calls
                .iter()
                .for_each(|input| assert_whole_input(input));
            known.is_over = true;
        }
    }

    fn done(&mut self) {
        let is_complete = self.choices.values().all(|choice| choice.is_over);
        assert!(is_complete && !self.choices.is_empty());
        self.is_over = true;
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Sequence numbers without a gap; items one after the other, each part with deltas, its whole text and its end; a final
/// response of the same id and model that repeats the items.
#[derive(Default)]
struct ResponsesChecker {
    sequence: u64,
    response: Option<Value>,
    items: Vec<Value>,
    open: Option<CheckedItem>,
    is_over: bool,
}

struct CheckedItem {
    item: Value,
    /// The texts of parts, by the name of their list and their index, and true after their end.
    parts: BTreeMap<(&'static str, u64), (String, bool)>,
    input: String,
}

impl CheckedItem {
    fn part(&mut self, event: &Value) -> &mut (String, bool) {
        let is_summary = event.get("summary_index").is_some();
        let (list, member) = match is_summary {
            true => ("summary", "summary_index"),
            false => ("content", "content_index"),
        };
        self.parts.entry((list, number(event, member))).or_default()
    }

    fn event(&mut self, kind: &str, event: &Value) {
        assert_eq!(event["item_id"], self.item["id"], "{event}");
        match kind {
            "content_part.added" | "reasoning_summary_part.added" => {
                assert_eq!(string(&event["part"], "text"), "", "{event}");
                *self.part(event) = Default::default();
            }
            "output_text.delta" | "reasoning_summary_text.delta" | "refusal.delta" => {
                let delta = string(event, "delta").to_owned();
                let (text, is_over) = self.part(event);
                assert!(!*is_over, "{event}");
                *text += &delta;
            }
            "output_text.done" | "reasoning_summary_text.done" => {
                assert_eq!(self.part(event).0, string(event, "text"), "{event}");
            }
            "content_part.done" | "reasoning_summary_part.done" => {
                let (text, is_over) = self.part(event);
                assert_eq!(text, string(&event["part"], "text"), "{event}");
                *is_over = true;
            }
            "function_call_arguments.delta" => self.input += string(event, "delta"),
            "function_call_arguments.done" => {
                assert_eq!(self.input, string(event, "arguments"), "{event}");
            }
            other => panic!("an event of the type response.{other}"),
        }
    }

    fn done(&self, item: &Value) {
        assert_eq!(self.item["id"], item["id"], "{item}");
        assert_eq!(self.item["type"], item["type"], "{item}");
        for ((list, index), (text, is_over)) in &self.parts {
            assert!(is_over, "a part is open: {item}");
            assert_eq!(item[list][*index as usize]["text"], **text, "{item}");
        }
        match string(item, "type") {
            "message" => {
                assert_eq!(string(item, "role"), "assistant");
                assert_eq!(string(item, "status"), "completed");
                list(item, "content");
            }
            "reasoning" => drop(list(item, "summary").len()),
            "function_call" => {
                assert!(!string(item, "call_id").is_empty() && !string(item, "name").is_empty());
                assert_eq!(self.input, string(item, "arguments"));
                assert_whole_input(&self.input);
            }
            other => panic!("an item of the type {other}"),
        }
    }
}

impl Checker for ResponsesChecker {
    fn event(&mut self, event: &Value) {
        assert_eq!(number(event, "sequence_number"), self.sequence, "{event}");
        self.sequence += 1;
        let kind = string(event, "type").strip_prefix("response.");
        let kind = kind.unwrap_or_else(|| panic!("an event of the type {event}"));
        assert_eq!(kind == "created", self.response.is_none(), "{event}");
        let index = event["output_index"].as_u64();
        match kind {
            "created" => {
                let response = &event["response"];
                string(response, "id");
                string(response, "model");
                number(response, "created_at");
                assert_eq!(string(response, "status"), "in_progress");
                self.response = Some(response.clone());
            }
            "in_progress" => assert!(event["response"].is_object()),
            "output_item.added" => {
                assert!(self.open.is_none(), "an item is open: {event}");
                assert_eq!(index, Some(self.items.len() as u64), "{event}");
                string(&event["item"], "id");
                self.open = Some(CheckedItem {
                    item: event["item"].clone(),
                    parts: BTreeMap::new(),
                    input: String::new(),
                });
            }
            "output_item.done" => {
                let open = self.open.take().expect("an item is open");
                assert_eq!(index, Some(self.items.len() as u64), "{event}");
                open.done(&event["item"]);
                self.items.push(event["item"].clone());
            }
            "completed" | "failed" => {
                assert!(self.open.is_none(), "an item is open: {event}");
                let (first, last) = (self.response.as_ref().unwrap(), &event["response"]);
                assert_eq!(string(last, "status"), kind, "{event}");
                for member in ["id", "model", "object"] {
                    assert_eq!(first[member], last[member], "{event}");
                }
                assert_eq!(list(last, "output"), self.items, "{event}");
                let has_error = last["error"]["code"].is_string() && kind == "failed";
                assert_eq!(has_error, !last["error"].is_null(), "{event}");
                self.is_over = true;
            }
            kind => {
                assert_eq!(index, Some(self.items.len() as u64), "{event}");
                let open = self.open.as_mut().expect("an item is open");
                open.event(kind, event);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Chunks with candidates of parts with one kind of data each; a candidate ends once.
#[derive(Default)]
struct GeminiChecker {
    id: Option<Value>,
    /// True by candidate after its end.
    candidates: BTreeMap<u64, bool>,
}

impl Checker for GeminiChecker {
    fn event(&mut self, event: &Value) {
        if let Some(id) = event.get("responseId") {
            assert_eq!(self.id.get_or_insert_with(|| id.clone()), id, "{event}");
        }
        for candidate in list(event, "candidates") {
            let index = candidate["index"].as_u64().unwrap_or(0);
            let is_over = self.candidates.entry(index).or_default();
            assert!(!*is_over, "a candidate goes on after its end: {event}");
            let content = &candidate["content"];
            assert_eq!(string(content, "role"), "model", "{event}");
            for part in list(content, "parts") {
                let kinds = ["text", "functionCall"];
                let count = kinds.iter().filter(|kind| part.get(kind).is_some());
                assert_eq!(count.count(), 1, "{event}");
                if let Some(call) = part.get("functionCall") {
                    assert!(!string(call, "name").is_empty() && call["args"].is_object());
                }
            }
            if candidate.get("finishReason").is_some() {
                let reason = string(candidate, "finishReason");
                assert!(
                    ["STOP", "MAX_TOKENS", "SAFETY"].contains(&reason),
                    "{event}"
                );
                *is_over = true;
            }
        }
    }

    fn is_over(&self) -> bool {
        !self.candidates.is_empty() && self.candidates.values().all(|is_over| *is_over)
    }
}

/// Chunks of Gemini, each in a wrapper with an id.
#[derive(Default)]
struct CodeAssistChecker {
    id: Option<Value>,
    chunks: GeminiChecker,
}

impl Checker for CodeAssistChecker {
    fn event(&mut self, event: &Value) {
        assert!(event.get("candidates").is_none(), "{event}");
        if let Some(id) = event.get("traceId") {
            assert_eq!(self.id.get_or_insert_with(|| id.clone()), id, "{event}");
        }
        let chunk = event.get("response").filter(|chunk| chunk.is_object());
        self.chunks.event(chunk.expect("a chunk in a wrapper"));
    }

    fn is_over(&self) -> bool {
        self.chunks.is_over()
    }
}

/// Lines with a message or a response; the last one has `done`, or an `error`.
#[derive(Default)]
struct OllamaChecker {
    is_over: bool,
}

impl Checker for OllamaChecker {
    fn event(&mut self, event: &Value) {
        if event.get("error").is_some() {
            string(event, "error");
            self.is_over = true;
            return;
        }
        string(event, "model");
        string(event, "created_at");
        match event.get("message") {
            Some(message) => {
                assert_eq!(string(message, "role"), "assistant");
                string(message, "content");
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let function = &call["function"];
                    assert!(!string(function, "name").is_empty());
                    assert!(function["arguments"].is_object());
                }
            }
            None => drop(string(event, "response").len()),
        }
        self.is_over = event["done"].as_bool().expect("`done` is a boolean");
        assert!(!self.is_over || !string(event, "done_reason").is_empty());
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// The checker of an API accepts the replies that the tests build, and no reply that is damaged in one of these ways.
#[test]
fn each_checker_accepts_whole_replies_and_refuses_damaged_ones() {
    use super::replies::{Piece, events};
    let pieces = [
        Piece::Text(&["Hello", " you"]),
        Piece::Tool("bash", &["{\"a\": ", "1}"]),
    ];
    for api in super::every_stream() {
        let pieces = &pieces[..if api.has_parts() { 2 } else { 1 }];
        let whole = events(api, pieces);
        check(api, &whole.concat());
        for at in 0..whole.len() {
            let is_over = check_prefix(api, &whole[..at].concat());
            assert!(!is_over, "{api:?} ends before event {at}");
        }
        let refuses = |events: &[String]| {
            let text = events.concat();
            let refused = std::panic::catch_unwind(|| check(api, &text)).is_err();
            assert!(refused, "{api:?} accepts {text}");
        };
        refuses(&whole[..whole.len() - 1]);
        refuses(&[&whole[..], &whole[whole.len() - 1..]].concat());
        refuses(&[&whole[..], &whole[..1]].concat());
        if matches!(
            api.api,
            ModelApi::AnthropicMessages | ModelApi::OpenAiResponses
        ) {
            refuses(&[&whole[1..2], &whole[..1], &whole[2..]].concat());
        }
    }
}
