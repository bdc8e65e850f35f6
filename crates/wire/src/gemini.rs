//! Google's Gemini API, also as Vertex AI has it: chunks with candidates, each with a list of parts.
//!
//! Text goes on in the same part whatever comes between; a thought is reasoning; a function call is a part
//! of its own, whole or, on request, in [`gemini_args`](super::gemini_args). Nothing in a chunk says that
//! text is complete, so it ends with the reply: at the end of the input, or where a finished reply is followed
//! by one with another id.

use std::collections::BTreeMap;

use super::Source;
use super::gemini_args::PartialArgs;
use super::json::Json;
use super::reply::{Naming, Replies, Reply, Sink};
use ttsr::Channel;

/// Members of a chunk that are read, or that say nothing of what the model wrote.
const CHUNK: [&str; 8] = [
    "candidates",
    "usageMetadata",
    "modelVersion",
    "responseId",
    "createTime",
    "promptFeedback",
    "error",
    "modelStatus",
];

/// The same for a candidate.
const CANDIDATE: [&str; 6] = [
    "content",
    "finishReason",
    "finishMessage",
    "safetyRatings",
    "logprobsResult",
    "avgLogprobs",
];

/// The same for a part.
const PART: [&str; 5] = [
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "executableCode",
];

#[derive(Debug)]
pub(super) struct Chunks {
    replies: Replies,
    state: State,
}

/// What is known of the reply under way.
#[derive(Debug, Default)]
struct State {
    id: String,
    ended: bool,
    /// Function calls so far.
    calls: u64,
    /// The call of each candidate that goes on.
    open: BTreeMap<u64, Call>,
}

#[derive(Debug)]
struct Call {
    key: String,
    args: PartialArgs,
}

impl Chunks {
    pub(super) fn new(default_name: String) -> Chunks {
        Chunks {
            replies: Replies::new(default_name),
            state: State::default(),
        }
    }

    fn reply(&mut self, id: Option<&str>, on: Sink<'_>) -> (&mut Reply, &mut State) {
        let other = id.is_some_and(|id| id != self.state.id);
        if self.replies.current().is_none() || self.state.ended && other {
            self.close_calls(on);
            self.state = State {
                id: id.unwrap_or_default().to_owned(),
                ..State::default()
            };
            self.replies.begin(id, on);
        }
        (self.replies.reply(id, on), &mut self.state)
    }

    /// Calls that go on when the reply ends get the ends of their JSON.
    fn close_calls(&mut self, on: Sink<'_>) {
        for (_, call) in std::mem::take(&mut self.state.open) {
            if self.replies.current().is_some() {
                end_call(self.replies.reply(None, on), call, on);
            }
        }
    }
}

/// Whether only this format has such a chunk.
pub(super) fn is_chunk(record: &Json<'_>) -> bool {
    let has = |key| record.get(key).is_some();
    record.get("candidates").is_some_and(Json::is_array)
        || has("usageMetadata")
        || has("promptFeedback")
}

impl Source for Chunks {
    fn record(&mut self, _kind: &str, chunk: &Json<'_>, on: Sink<'_>) {
        let id = chunk.text("responseId");
        let (reply, state) = self.reply(id.as_deref(), on);
        if let Some(error) = chunk.get("error") {
            report(reply, error, on);
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
        reply.unscanned(chunk.unread(&CHUNK), "chunk", on);
    }

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.replies.unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: Sink<'_>) {
        // What broke off is not made to look complete.
        if self.state.ended {
            self.close_calls(on);
        }
        self.replies.close(on);
    }
}

fn report(reply: &mut Reply, error: &Json<'_>, on: Sink<'_>) {
    let whole = || String::from_utf8_lossy(error.string().unwrap_or(error.raw()));
    let message = error.text("message").unwrap_or_else(whole);
    let code = error.get("code").map(Json::raw).unwrap_or_default();
    let kind = error.bytes("status").unwrap_or(code);
    reply.error(&String::from_utf8_lossy(kind), &message, on);
}

fn read_candidate(reply: &mut Reply, state: &mut State, candidate: &Json<'_>, on: Sink<'_>) {
    let index = candidate.number("index").unwrap_or(0);
    if let Some(content) = candidate.get("content") {
        for part in content.list("parts") {
            read_part(reply, state, index, part, on);
        }
        reply.unscanned(content.unread(&["parts"]), "content", on);
    }
    if let Some(reason) = candidate.text("finishReason") {
        state.ended = true;
        reply.reason.get_or_insert(reason.into_owned());
    }
    reply.unscanned(candidate.unread(&CANDIDATE), "candidate", on);
}

fn read_part(reply: &mut Reply, state: &mut State, candidate: u64, part: &Json<'_>, on: Sink<'_>) {
    let thought = part
        .get("thought")
        .is_some_and(|thought| thought.raw() == b"true");
    let (channel, name) = match thought {
        true => (Channel::Reasoning, "thought"),
        false => (Channel::Text, "text"),
    };
    let key = format!("{candidate}/{name}");
    let text = part.bytes("text").unwrap_or_default();
    reply.delta(Naming::new(&key, &key, channel), text, on);
    if let Some(call) = part.get("functionCall") {
        function_call(reply, state, candidate, call, on);
    }
    if let Some(code) = part.get("executableCode") {
        executable_code(reply, state, candidate, code, on);
    }
    reply.unscanned(part.unread(&PART), "part", on);
}

/// A call, or the next piece of the one that goes on.
fn function_call(
    reply: &mut Reply,
    state: &mut State,
    candidate: u64,
    call: &Json<'_>,
    on: Sink<'_>,
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
        // An empty one only ends what went on.
        None if tool.is_none() && args.is_none() && pieces.is_empty() => return,
        None => Call {
            key: state.next_call(candidate),
            args: PartialArgs::default(),
        },
    };
    let id = call.text("id");
    let naming = Naming {
        tool: tool.as_deref(),
        call: id.as_deref(),
        ..Naming::new(&open.key, &open.key, Channel::ToolInput)
    };
    reply.open(naming, on);
    if let Some(args) = args {
        reply.whole(naming, args.string().unwrap_or(args.raw()), on);
    }
    for piece in pieces {
        reply.delta(naming, &open.args.json_of(piece), on);
        reply.unscanned(
            piece.unread(&["jsonPath", "stringValue", "nullValue"]),
            "partialArgs",
            on,
        );
    }
    let rest = call.unread(&["name", "args", "partialArgs"]);
    reply.unscanned(rest, "functionCall", on);
    match call
        .get("willContinue")
        .is_some_and(|more| more.raw() == b"true")
    {
        true => drop(state.open.insert(candidate, open)),
        false => end_call(reply, open, on),
    }
}

fn end_call(reply: &mut Reply, mut call: Call, on: Sink<'_>) {
    let naming = Naming::new(&call.key, &call.key, Channel::ToolInput);
    reply.delta(naming, &call.args.end(), on);
    reply.end(&call.key, on);
}

/// Code that the provider runs itself.
fn executable_code(
    reply: &mut Reply,
    state: &mut State,
    candidate: u64,
    code: &Json<'_>,
    on: Sink<'_>,
) {
    let (key, id) = (state.next_call(candidate), code.text("id"));
    let naming = Naming {
        tool: Some("executableCode"),
        call: id.as_deref(),
        ..Naming::new(&key, &key, Channel::ToolInput)
    };
    reply.delta(naming, code.bytes("code").unwrap_or_default(), on);
    reply.end(&key, on);
    reply.unscanned(code.unread(&["code", "language"]), "executableCode", on);
}

impl State {
    fn next_call(&mut self, candidate: u64) -> String {
        self.calls += 1;
        format!("{candidate}/call/{}", self.calls)
    }
}
