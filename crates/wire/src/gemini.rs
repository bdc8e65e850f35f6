//! Google's Gemini API (`v1beta`), Vertex AI (`v1`) and Code Assist (`v1internal`), which has each chunk in a wrapper:
//! chunks with candidates, each with a list of parts.
//!
//! Source: `GenerateContentResponse` in the references of the first two APIs; of the third, Gemini CLI 0.61.
//!
//! The text of a candidate is one part, also across other parts; a thought is judged as reasoning; a function call is a
//! part of its own, whole or, on request, in [`gemini_args`](super::gemini_args). A function response and the result of
//! code that the provider runs are the output of a tool: a response with `error` and a result with an `outcome` other
//! than `OUTCOME_OK` are errors. The sources of a grounded text are the output of a tool too. Data in base64 has no text. No chunk marks the end of the text, so it ends with the reply: at the end of the input,
//! or if a chunk with another id follows a finish reason.

use std::collections::BTreeMap;

use super::FormatReader;
use super::gemini_args::PartialArgs;
use super::json::JsonValue;
use super::reply::{EventSink, PartSpec, ReplyEmitter, ReplySequence};
use ttsr::Channel;
use ttsr::rule::ToolOutcome;

/// Members of a chunk that are read or are known metadata, and then those of the wrapper of a chunk in Code Assist alone.
/// Members of a chunk beside the wrapped one are read, too.
const WRAPPER: [&str; 12] = [
    "candidates",
    "usageMetadata",
    "modelVersion",
    "responseId",
    "createTime",
    "promptFeedback",
    "error",
    "modelStatus",
    "response",
    "traceId",
    "consumedCredits",
    "remainingCredits",
];

/// The same for a chunk.
const CHUNK: &[&str] = WRAPPER.split_at(8).0;

/// The same for a candidate.
const CANDIDATE: [&str; 10] = [
    "content",
    "finishReason",
    "finishMessage",
    "safetyRatings",
    "logprobsResult",
    "avgLogprobs",
    "groundingMetadata",
    "citationMetadata",
    "urlContextMetadata",
    "groundingAttributions",
];

/// Members of a candidate with the sources of the text, which searches of the provider found.
const GROUNDING: [&str; 4] = [
    "groundingMetadata",
    "citationMetadata",
    "urlContextMetadata",
    "groundingAttributions",
];

/// Members of such sources that are known metadata.
const GROUNDING_METADATA: [&str; 4] = [
    "sdkBlob",
    "urlRetrievalStatus",
    "googleMapsWidgetContextToken",
    "placeId",
];

/// The same for a part.
const PART: [&str; 12] = [
    "inlineData",
    "fileData",
    "videoMetadata",
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "executableCode",
    "functionResponse",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];

#[derive(Debug)]
pub(super) struct GeminiReader {
    replies: ReplySequence,
    state: GeminiReply,
}

/// The state of the reply in progress.
#[derive(Debug, Default)]
struct GeminiReply {
    id: String,
    ended: bool,
    /// The number of function calls so far.
    calls: u64,
    /// The number of outputs of tools so far.
    outputs: u64,
    /// The unfinished call of each candidate. Each is an open part.
    open: BTreeMap<u64, OpenFunctionCall>,
}

#[derive(Debug)]
struct OpenFunctionCall {
    key: String,
    args: PartialArgs,
}

impl GeminiReader {
    pub(super) fn new(default_name: String) -> GeminiReader {
        GeminiReader {
            replies: ReplySequence::new(default_name),
            state: GeminiReply::default(),
        }
    }

    fn reply(
        &mut self,
        id: Option<&str>,
        on: EventSink<'_>,
    ) -> (&mut ReplyEmitter, &mut GeminiReply) {
        let other = id.is_some_and(|id| id != self.state.id);
        if self.replies.current().is_none() || self.state.ended && other {
            self.close_calls(on);
            self.state = GeminiReply {
                id: id.unwrap_or_default().to_owned(),
                ..GeminiReply::default()
            };
            self.replies.begin(id, on);
        }
        (self.replies.reply(id, on), &mut self.state)
    }

    /// Reads a chunk, or the wrapper of one. The members of `known` are not counted.
    fn read_chunk(&mut self, chunk: &JsonValue<'_>, known: &[&str], path: &str, on: EventSink<'_>) {
        let id = chunk.text("responseId");
        let (reply, state) = self.reply(id.as_deref(), on);
        if let Some(error) = chunk.get("error") {
            read_error(reply, error, on);
        }
        for candidate in chunk.list("candidates") {
            read_candidate(reply, state, candidate, on);
        }
        if let Some(feedback) = chunk.get("promptFeedback") {
            let reason = feedback
                .text("blockReason")
                .map(|reason| reason.into_owned());
            state.ended |= reason.is_some();
            reply.reason = reply.reason.take().or(reason);
        }
        if let Some(usage) = chunk.get("usageMetadata") {
            let thoughts = usage.number("thoughtsTokenCount");
            let output = usage.number("candidatesTokenCount").or(thoughts.map(|_| 0));
            let output = output.map(|tokens| tokens.saturating_add(thoughts.unwrap_or(0)));
            reply.usage(usage.number("promptTokenCount"), output, on);
        }
        reply.count_unread(chunk, known, path, on);
    }

    /// Completes the JSON of unfinished calls at the end of the reply.
    fn close_calls(&mut self, on: EventSink<'_>) {
        for (_, call) in std::mem::take(&mut self.state.open) {
            if self.replies.current().is_some() {
                end_call(self.replies.reply(None, on), call, on);
            }
        }
    }
}

/// Returns true if only this format has such a chunk.
pub(super) fn is_chunk(record: &JsonValue<'_>) -> bool {
    let is_plain = |record: &JsonValue<'_>| {
        let has = |key| record.get(key).is_some();
        record.get("candidates").is_some_and(JsonValue::is_array)
            || has("usageMetadata")
            || has("promptFeedback")
    };
    is_plain(record) || record.get("response").is_some_and(is_plain)
}

impl FormatReader for GeminiReader {
    fn read_record(&mut self, _kind: &str, record: &JsonValue<'_>, on: EventSink<'_>) {
        let wrapped = record.get("response").filter(|chunk| chunk.is_object());
        if let Some(chunk) = wrapped {
            self.read_chunk(chunk, CHUNK, "response", on);
        }
        let known = wrapped.map_or(CHUNK, |_| &WRAPPER);
        self.read_chunk(record, known, "", on);
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.replies.count_unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: EventSink<'_>) {
        // A reply that broke off must not look complete.
        if self.state.ended {
            self.close_calls(on);
        }
        self.replies.close(on);
    }
}

fn read_error(reply: &mut ReplyEmitter, error: &JsonValue<'_>, on: EventSink<'_>) {
    let whole = || String::from_utf8_lossy(error.string().unwrap_or(error.raw()));
    let message = error.text("message").unwrap_or_else(whole);
    let code = error.get("code").map(JsonValue::raw).unwrap_or_default();
    let kind = error.bytes("status").unwrap_or(code);
    reply.error(&String::from_utf8_lossy(kind), &message, on);
}

fn read_candidate(
    reply: &mut ReplyEmitter,
    state: &mut GeminiReply,
    candidate: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let index = candidate.number("index").unwrap_or(0);
    if let Some(content) = candidate.get("content") {
        for part in content.list("parts") {
            read_part(reply, state, index, part, on);
        }
        reply.count_unread(content, &["parts"], "candidates[].content", on);
    }
    if let Some(reason) = candidate.text("finishReason") {
        state.ended = true;
        reply.reason.get_or_insert(reason.into_owned());
    }
    for name in GROUNDING {
        if let Some(value) = candidate.get(name) {
            let group = format!("{index} grounding");
            let spec = PartSpec::new(&group, name, Channel::ToolOutput);
            reply.push_tool_strings(spec, ToolOutcome::Ok, value, &GROUNDING_METADATA, on);
        }
    }
    reply.count_unread(candidate, &CANDIDATE, "candidates[]", on);
}

fn read_part(
    reply: &mut ReplyEmitter,
    state: &mut GeminiReply,
    candidate: u64,
    part: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let thought = part
        .get("thought")
        .is_some_and(|thought| thought.raw() == b"true");
    let (channel, name) = match thought {
        true => (Channel::Reasoning, "thought"),
        false => (Channel::Text, "text"),
    };
    let key = format!("{candidate}/{name}");
    let text = part.bytes("text").unwrap_or_default();
    reply.push_delta(PartSpec::new(&key, &key, channel), text, on);
    if let Some(call) = part.get("functionCall") {
        function_call(reply, state, candidate, call, on);
    }
    if let Some(code) = part.get("executableCode") {
        executable_code(reply, state, candidate, code, on);
    }
    if let Some(result) = part.get("codeExecutionResult") {
        execution_result(reply, state, candidate, result, on);
    }
    if let Some(call) = part.get("toolCall") {
        server_call(reply, state, candidate, call, on);
    }
    for name in ["functionResponse", "toolResponse"] {
        if let Some(answer) = part.get(name) {
            tool_response(reply, state, candidate, (name, answer), on);
        }
    }
    reply.count_unread(part, &PART, "candidates[].content.parts[]", on);
}

/// Reads a function call, or the next fragment of an unfinished one.
fn function_call(
    reply: &mut ReplyEmitter,
    state: &mut GeminiReply,
    candidate: u64,
    call: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let tool = call.text("name");
    if tool.is_some()
        && let Some(open) = state.open.remove(&candidate)
    {
        end_call(reply, open, on);
    }
    let args = call.get("args");
    let pieces = call.list("partialArgs");
    let mut open = match state.open.remove(&candidate) {
        Some(open) => open,
        // An empty call only ends an unfinished one.
        None if tool.is_none() && args.is_none() && pieces.is_empty() => return,
        None => OpenFunctionCall {
            key: state.next_call(candidate),
            args: PartialArgs::default(),
        },
    };
    let id = call.text("id");
    let spec = PartSpec {
        tool: tool.as_deref(),
        call: id.as_deref(),
        ..PartSpec::new(&open.key, &open.key, Channel::ToolInput)
    };
    // A call past the limit of parts is counted and not kept.
    let is_part = reply.open(spec, on).is_some();
    if let Some(args) = args {
        reply.push_whole(spec, args.string().unwrap_or(args.raw()), on);
    }
    for piece in pieces {
        reply.push_delta(spec, &open.args.continue_with(piece), on);
        reply.count_unread(
            piece,
            &["jsonPath", "stringValue", "nullValue"],
            "partialArgs",
            on,
        );
    }
    let read = ["name", "args", "partialArgs"];
    reply.count_unread(call, &read, "functionCall", on);
    let continues = call
        .get("willContinue")
        .is_some_and(|more| more.raw() == b"true");
    match is_part && continues {
        true => drop(state.open.insert(candidate, open)),
        false => end_call(reply, open, on),
    }
}

fn end_call(reply: &mut ReplyEmitter, mut call: OpenFunctionCall, on: EventSink<'_>) {
    let spec = PartSpec::new(&call.key, &call.key, Channel::ToolInput);
    reply.push_delta(spec, &call.args.end(), on);
    reply.end(&call.key, on);
}

/// Reads code that the provider itself executes.
fn executable_code(
    reply: &mut ReplyEmitter,
    state: &mut GeminiReply,
    candidate: u64,
    code: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let (key, id) = (state.next_call(candidate), code.text("id"));
    let spec = PartSpec {
        tool: Some("executableCode"),
        call: id.as_deref(),
        ..PartSpec::new(&key, &key, Channel::ToolInput)
    };
    reply.push_delta(spec, code.bytes("code").unwrap_or_default(), on);
    reply.end(&key, on);
    reply.count_unread(code, &["code", "language"], "executableCode", on);
}

/// Reads the result of code that the provider ran.
fn execution_result(
    reply: &mut ReplyEmitter,
    state: &mut GeminiReply,
    candidate: u64,
    result: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let (key, id) = (state.next_output(candidate), result.text("id"));
    let spec = PartSpec {
        tool: Some("executableCode"),
        call: id.as_deref(),
        ..PartSpec::new(&key, &key, Channel::ToolOutput)
    };
    let outcome = match result.text("outcome").as_deref() {
        Some("OUTCOME_OK") | None => ToolOutcome::Ok,
        Some(_) => ToolOutcome::Error,
    };
    let output = result.bytes("output").unwrap_or_default();
    reply.push_output(spec, outcome, output, on);
    let read = ["outcome", "output"];
    reply.count_unread(result, &read, "codeExecutionResult", on);
}

/// Reads a call that the provider itself makes, such as a search.
fn server_call(
    reply: &mut ReplyEmitter,
    state: &mut GeminiReply,
    candidate: u64,
    call: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let (tool, id) = (call.text("toolType"), call.text("id"));
    let key = state.next_call(candidate);
    let spec = PartSpec {
        tool: tool.as_deref(),
        call: id.as_deref(),
        ..PartSpec::new(&key, &key, Channel::ToolInput)
    };
    if let Some(args) = call.get("args") {
        reply.push_whole(spec, args.string().unwrap_or(args.raw()), on);
        reply.end(&key, on);
    }
    reply.count_unread(call, &["toolType", "args"], "toolCall", on);
}

/// Reads the output of a function or of a tool of the provider, which the API defines as an object with any members;
/// `error` says that it failed. A single string is read as it is, any other object as JSON.
fn tool_response(
    reply: &mut ReplyEmitter,
    state: &mut GeminiReply,
    candidate: u64,
    (name, answer): (&str, &JsonValue<'_>),
    on: EventSink<'_>,
) {
    let tool = answer.text("name").or(answer.text("toolType"));
    let id = answer.text("id");
    let key = state.next_output(candidate);
    let spec = PartSpec {
        tool: tool.as_deref(),
        call: id.as_deref(),
        ..PartSpec::new(&key, &key, Channel::ToolOutput)
    };
    if let Some(response) = answer.get("response") {
        let failed = response.get("error").is_some_and(|it| it.raw() != b"null");
        let outcome = match failed {
            true => ToolOutcome::Error,
            false => ToolOutcome::Ok,
        };
        let output = match response.members() {
            [(_, only)] => only.string(),
            _ => response.string(),
        };
        reply.push_output(spec, outcome, output.unwrap_or(response.raw()), on);
    }
    let read = ["name", "toolType", "response", "willContinue", "scheduling"];
    reply.count_unread(answer, &read, name, on);
}

impl GeminiReply {
    fn next_call(&mut self, candidate: u64) -> String {
        self.calls += 1;
        format!("{candidate}/call/{}", self.calls)
    }

    fn next_output(&mut self, candidate: u64) -> String {
        self.outputs += 1;
        format!("{candidate}/output/{}", self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{PARTS, TOO_MANY};
    use ttsr::Event;

    /// Reads an unfinished call, and returns the number of bytes that are counted under [`TOO_MANY`].
    fn read_call(reader: &mut GeminiReader, candidate: usize) -> u64 {
        let call = r#"{"functionCall":{"name":"n","args":{"a":"xyz"},"willContinue":true}}"#;
        let chunk =
            format!(r#"{{"candidates":[{{"index":{candidate},"content":{{"parts":[{call}]}}}}]}}"#);
        let (chunk, _) = JsonValue::parse(chunk.as_bytes()).unwrap();
        let mut counted = 0;
        reader.read_record("", &chunk, &mut |_, event, _| match event {
            Event::Unscanned { bytes, kind } if kind == TOO_MANY => counted += bytes,
            _ => {}
        });
        counted
    }

    #[test]
    fn calls_past_the_limit_of_parts_are_counted_and_not_kept() {
        let mut reader = GeminiReader::new("r".to_owned());
        for candidate in 0..PARTS {
            assert_eq!(read_call(&mut reader, candidate), 0);
        }
        for candidate in PARTS..PARTS + 1_000 {
            assert!(read_call(&mut reader, candidate) > 0);
        }
        assert_eq!(reader.state.open.len(), PARTS);
    }
}
