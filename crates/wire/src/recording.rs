//! The recording format of this crate: JSON Lines, one object per event.
//!
//! ```text
//! {"t":12,"ch":"tool-input","part":"1","tool":"write","d":"{\"path\":"}    a delta, 12 ms after the start
//! {"t":15,"ch":"text","part":"0","tool":null,"b":"gIE="}                   a delta that is not UTF-8, as base64
//! {"part":"1","end":true}                                                  the part is complete
//! {"t":20,"ch":"tool-output","part":"2","tool":"write","outcome":"error","d":"disk full"}   the output of a failed call
//! ```
//!
//! `"outcome"` is `ok` or `error`, on the first line of a part whose channel is `tool-output`; without it the outcome is
//! unknown. `"stream"` on the lines lets several streams share a file, also interleaved. [`RecordingWriter`] adds lines for the other
//! events of a stream (`call`, `snapshot`, `usage`, `unscanned`, `error`, `finish`), so that a recording reads back as
//! the events that were written. A reader requires none of them.

use std::collections::HashMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::FormatReader;
use super::json::JsonValue;
use super::reply::{EventSink, PartSpec, ReplyEmitter, TRUNCATED, UniqueNames};
use ttsr::rule::ToolOutcome;
use ttsr::{Channel, Event, PartId};

/// The members of a line that are read.
const LINE: [&str; 18] = [
    "t",
    "stream",
    "ch",
    "part",
    "tool",
    "call",
    "outcome",
    "d",
    "b",
    "end",
    "snapshot",
    "usage",
    "unscanned",
    "kind",
    "error",
    "message",
    "finish",
    "input",
];

/// Returns true if the record is a line of a recording.
pub(super) fn is_line(record: &JsonValue<'_>) -> bool {
    let has = |key| record.get(key).is_some();
    let part = has("part") && (has("d") || has("b") || has("end") || has("ch"));
    part || has("t")
        && ["usage", "unscanned", "error", "finish"]
            .into_iter()
            .any(has)
}

/// The reader: any number of streams at once.
#[derive(Debug)]
pub(super) struct RecordingReader {
    default_name: String,
    /// The streams in the order in which they began; `None` for one that has ended.
    replies: Vec<Option<ReplyEmitter>>,
    indices: HashMap<String, usize>,
    /// The index of the stream of the last line.
    last: usize,
}

impl RecordingReader {
    pub(super) fn new(default_name: String) -> RecordingReader {
        RecordingReader {
            default_name,
            replies: Vec::new(),
            indices: HashMap::new(),
            last: 0,
        }
    }

    fn stream_index(&mut self, stream: &str) -> usize {
        match self.indices.get(stream) {
            Some(&index) if self.replies[index].is_some() => index,
            _ => {
                self.replies
                    .push(Some(ReplyEmitter::new(stream.to_owned())));
                self.indices
                    .insert(stream.to_owned(), self.replies.len() - 1);
                self.replies.len() - 1
            }
        }
    }

    fn finish_one(&mut self, index: usize, reason: Option<String>, on: EventSink<'_>) {
        if let Some(mut reply) = self.replies[index].take() {
            // The lines of parts do not say how the stream ended.
            let unsaid = if reply.any_open() { TRUNCATED } else { "end" };
            reply.reason = reason.or(reply.reason.take());
            reply.finish(unsaid, on);
        }
    }
}

impl FormatReader for RecordingReader {
    fn read_record(&mut self, _kind: &str, line: &JsonValue<'_>, on: EventSink<'_>) {
        let stream = line
            .text("stream")
            .unwrap_or(self.default_name.as_str().into())
            .into_owned();
        self.last = self.stream_index(&stream);
        let Some(reply) = &mut self.replies[self.last] else {
            return;
        };
        if line.get("part").is_some() {
            part_line(reply, line, on);
        }
        if let Some(usage) = line.get("usage") {
            reply.usage(usage.number("input"), usage.number("output"), on);
        }
        if line.get("unscanned").is_some() {
            let bytes = line.number("unscanned").unwrap_or(0);
            reply.count_unknown(bytes, &line.text("kind").unwrap_or_default(), on);
        }
        if line.get("error").is_some() {
            let (kind, message) = (
                line.text("error").unwrap_or_default(),
                line.text("message").unwrap_or_default(),
            );
            reply.error(&kind, &message, on);
        }
        reply.count_unread(line, &LINE, "recording", on);
        if line.get("finish").is_some() {
            let reason = line.text("finish").unwrap_or_default().into_owned();
            self.finish_one(self.last, Some(reason), on);
        }
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        if bytes == 0 {
            return;
        }
        if !self.replies.get(self.last).is_some_and(Option::is_some) {
            self.last = self.stream_index(&self.default_name.clone());
        }
        if let Some(reply) = &self.replies[self.last] {
            reply.count_unscanned(bytes, kind, on);
        }
    }

    fn finish(&mut self, on: EventSink<'_>) {
        for index in 0..self.replies.len() {
            self.finish_one(index, None, on);
        }
    }
}

fn part_line(reply: &mut ReplyEmitter, line: &JsonValue<'_>, on: EventSink<'_>) {
    let part = line
        .get("part")
        .map_or(&b""[..], |part| part.string().unwrap_or(part.raw()));
    let part = String::from_utf8_lossy(part);
    let channel = line.text("ch");
    let known = channel
        .as_deref()
        .map_or(Some(Channel::Text), Channel::from_name);
    if known.is_none() {
        reply.count_unknown(0, channel.as_deref().unwrap_or_default(), on);
    }
    let (tool, call) = (line.text("tool"), line.text("call"));
    let (tool, call) = (tool.as_deref(), call.as_deref());
    let channel = known.unwrap_or(Channel::Text);
    let spec = PartSpec {
        key: &part,
        name: &part,
        channel,
        tool,
        call,
        name_may_grow: false,
    };
    let bytes = fragment(reply, line, on);
    if line.get("snapshot").is_some() && reply.delivered(&part).is_some() {
        return reply.push_snapshot(&part, &bytes, on);
    }
    let names_tool = tool.is_some() && reply.is_open(&part);
    if line.get("d").is_some() || line.get("b").is_some() || names_tool {
        reply.open(spec, on);
        read_outcome(reply, &part, line, on);
        reply.push_raw_delta(spec, &bytes, on);
    }
    if line.get("end").is_some_and(|end| end.raw() == b"true") {
        reply.end(&part, on);
    }
}

/// Reads the outcome of a tool call; an unknown one is counted.
fn read_outcome(reply: &mut ReplyEmitter, part: &str, line: &JsonValue<'_>, on: EventSink<'_>) {
    let Some(name) = line.text("outcome") else {
        return;
    };
    match ToolOutcome::from_name(&name) {
        Some(outcome) => reply.set_outcome(part, outcome, on),
        None => reply.count_unknown(0, &name, on),
    }
}

/// Returns the bytes of a line; invalid base64 is counted.
fn fragment(reply: &ReplyEmitter, line: &JsonValue<'_>, on: EventSink<'_>) -> Vec<u8> {
    let mut bytes = line.bytes("d").unwrap_or_default().to_vec();
    if let Some(encoded) = line.bytes("b") {
        match STANDARD.decode(encoded) {
            Ok(decoded) => bytes.extend(decoded),
            Err(_) => reply.count_unscanned(encoded.len() as u64, "bad-base64", on),
        }
    }
    bytes
}

/// Writes the events of one stream as lines of a recording.
///
/// # Example: a recording reads back as the events that were written
/// ```
/// use ttsr::{Channel, Event, PartId};
/// use ttsr_wire::{Reader, recording::RecordingWriter};
/// let part = PartId(0);
/// let events = [
///     Event::PartStart { part, name: "0".into(), channel: Channel::Text, tool: None, call: None },
///     Event::Delta { part, bytes: b"say \"hi\"\n".to_vec() },
///     Event::PartEnd { part },
///     Event::Finish { reason: "stop".into() },
/// ];
/// let mut writer = RecordingWriter::new(None);
/// let lines: String = events.iter().map(|event| writer.line(7, event)).collect();
/// let mut read = Vec::new();
/// let mut on = |_: &str, event: Event| read.push(event);
/// let mut reader = Reader::new("a recording");
/// reader.push(lines.as_bytes(), &mut on);
/// reader.finish(&mut on);
/// assert_eq!(read, events);
/// ```
#[derive(Clone, Debug)]
pub struct RecordingWriter {
    stream: Option<String>,
    parts: HashMap<PartId, RecordedPart>,
    names: UniqueNames,
}

#[derive(Clone, Debug)]
struct RecordedPart {
    name: String,
    channel: Channel,
    tool: Option<String>,
    call: Option<String>,
    outcome: Option<ToolOutcome>,
}

impl RecordingWriter {
    /// Returns a writer for one stream. `stream` is the name on every line, required where streams share a file.
    #[must_use]
    pub fn new(stream: Option<&str>) -> RecordingWriter {
        RecordingWriter {
            stream: stream.map(str::to_owned),
            parts: HashMap::new(),
            names: UniqueNames::default(),
        }
    }

    /// Returns the line for `event` with its line end. `millis` counts from the start of the recording.
    #[must_use]
    pub fn line(&mut self, millis: u64, event: &Event) -> String {
        let mut line = format!("{{\"t\":{millis}");
        if let Some(stream) = &self.stream {
            member(&mut line, "stream", stream);
        }
        match event {
            Event::PartStart {
                part,
                name,
                channel,
                tool,
                call,
            } => {
                // A line identifies its part only by name, so the names must be unique.
                let name = self.names.make_unique(name);
                let recorded_part = RecordedPart {
                    name,
                    channel: *channel,
                    tool: tool.clone(),
                    call: call.clone(),
                    outcome: None,
                };
                self.parts.insert(*part, recorded_part);
                self.part(&mut line, *part, Some(b""));
            }
            Event::Tool { part, tool, call } => {
                self.recorded_part(*part).tool = Some(tool.clone());
                self.recorded_part(*part).call.clone_from(call);
                self.part(&mut line, *part, Some(b""));
            }
            Event::Outcome { part, outcome } => {
                self.recorded_part(*part).outcome = Some(*outcome);
                self.part(&mut line, *part, Some(b""));
            }
            Event::Delta { part, bytes } => self.part(&mut line, *part, Some(bytes)),
            Event::PartEnd { part } => {
                self.part(&mut line, *part, None);
                line.push_str(",\"end\":true");
            }
            Event::Snapshot { part, bytes } => {
                self.part(&mut line, *part, Some(bytes));
                line.push_str(",\"snapshot\":true");
            }
            Event::Usage { input, output } => json_member(
                &mut line,
                "usage",
                &format!("{{\"input\":{input},\"output\":{output}}}"),
            ),
            Event::Unscanned { bytes, kind } => {
                json_member(&mut line, "unscanned", &bytes.to_string());
                member(&mut line, "kind", kind);
            }
            Event::Finish { reason } => member(&mut line, "finish", reason),
            // The next reply may reuse the names of parts.
            Event::Restart => {
                self.parts.clear();
                self.names = UniqueNames::default();
                member(&mut line, "finish", "restart");
            }
            Event::Error { kind, message } => {
                member(&mut line, "error", kind);
                member(&mut line, "message", message);
            }
        }
        line.push_str("}\n");
        line
    }

    fn recorded_part(&mut self, part: PartId) -> &mut RecordedPart {
        self.parts.entry(part).or_insert_with(|| RecordedPart {
            name: part.0.to_string(),
            channel: Channel::Text,
            tool: None,
            call: None,
            outcome: None,
        })
    }

    fn part(&mut self, line: &mut String, part: PartId, bytes: Option<&[u8]>) {
        let RecordedPart {
            name,
            channel,
            tool,
            call,
            outcome,
        } = self.recorded_part(part);
        member(line, "ch", channel.name());
        member(line, "part", name);
        match tool {
            Some(tool) => member(line, "tool", tool),
            None => json_member(line, "tool", "null"),
        }
        if let Some(call) = call {
            member(line, "call", call);
        }
        if let Some(outcome) = outcome {
            member(line, "outcome", outcome.name());
        }
        match bytes.map(std::str::from_utf8) {
            Some(Ok(text)) => member(line, "d", text),
            Some(Err(_)) => member(line, "b", &STANDARD.encode(bytes.unwrap_or_default())),
            None => {}
        }
    }
}

fn member(line: &mut String, key: &str, text: &str) {
    json_member(line, key, &serde_json::Value::from(text).to_string());
}

/// Appends a member. `value` is JSON.
fn json_member(line: &mut String, key: &str, value: &str) {
    write!(line, ",\"{key}\":{value}").expect("writing to a string cannot fail");
}
