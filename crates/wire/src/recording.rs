//! Our own recording of a stream: one JSON object a line.
//!
//! ```text
//! {"t":12,"ch":"tool-input","part":"1","tool":"write","d":"{\"path\":"}    a fragment, 12 ms after the start
//! {"t":15,"ch":"text","part":"0","tool":null,"b":"gIE="}                   one that is not UTF-8, as base64
//! {"part":"1","end":true}                                                  the part is complete
//! ```
//!
//! `"stream"` on the lines lets several streams share a file, also interleaved. [`Writer`] adds lines for
//! what else a stream tells (`call`, `snapshot`, `usage`, `unscanned`, `error`, `finish`), so that reading a
//! recording gives the very events that were written; none of them is required.

use std::collections::HashMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Source;
use super::json::Json;
use super::reply::{Names, Naming, Reply, Sink, TRUNCATED};
use ttsr::{Channel, Event, PartId};

/// Members of a line that are read.
const LINE: [&str; 17] = [
    "t",
    "stream",
    "ch",
    "part",
    "tool",
    "call",
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

/// Whether such a record is a line of a recording.
pub(super) fn is_line(record: &Json<'_>) -> bool {
    let has = |key| record.get(key).is_some();
    let part = has("part") && (has("d") || has("b") || has("end") || has("ch"));
    part || has("t")
        && ["usage", "unscanned", "error", "finish"]
            .into_iter()
            .any(has)
}

/// The reader: any number of streams at once.
#[derive(Debug)]
pub(super) struct Lines {
    default_name: String,
    /// Streams under way, in the order in which they began; `None` once ended.
    replies: Vec<Option<Reply>>,
    places: HashMap<String, usize>,
    /// The place of the stream of the last line.
    last: usize,
}

impl Lines {
    pub(super) fn new(default_name: String) -> Lines {
        Lines {
            default_name,
            replies: Vec::new(),
            places: HashMap::new(),
            last: 0,
        }
    }

    fn place(&mut self, stream: &str) -> usize {
        match self.places.get(stream) {
            Some(&place) if self.replies[place].is_some() => place,
            _ => {
                self.replies.push(Some(Reply::new(stream.to_owned())));
                self.places
                    .insert(stream.to_owned(), self.replies.len() - 1);
                self.replies.len() - 1
            }
        }
    }

    fn finish_one(&mut self, place: usize, reason: Option<String>, on: Sink<'_>) {
        if let Some(mut reply) = self.replies[place].take() {
            // Lines with nothing but parts do not say how the stream ended.
            let unsaid = if reply.any_open() { TRUNCATED } else { "end" };
            reply.reason = reason.or(reply.reason.take());
            reply.finish(unsaid, on);
        }
    }
}

impl Source for Lines {
    fn record(&mut self, _kind: &str, line: &Json<'_>, on: Sink<'_>) {
        let stream = line
            .text("stream")
            .unwrap_or(self.default_name.as_str().into())
            .into_owned();
        self.last = self.place(&stream);
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
            reply.unknown(bytes, &line.text("kind").unwrap_or_default(), on);
        }
        if line.get("error").is_some() {
            let (kind, message) = (
                line.text("error").unwrap_or_default(),
                line.text("message").unwrap_or_default(),
            );
            reply.error(&kind, &message, on);
        }
        reply.unscanned(line.unread(&LINE), "recording", on);
        if line.get("finish").is_some() {
            let reason = line.text("finish").unwrap_or_default().into_owned();
            self.finish_one(self.last, Some(reason), on);
        }
    }

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        if bytes == 0 {
            return;
        }
        if !self.replies.get(self.last).is_some_and(Option::is_some) {
            self.last = self.place(&self.default_name.clone());
        }
        if let Some(reply) = &self.replies[self.last] {
            reply.unscanned(bytes, kind, on);
        }
    }

    fn finish(&mut self, on: Sink<'_>) {
        for place in 0..self.replies.len() {
            self.finish_one(place, None, on);
        }
    }
}

fn part_line(reply: &mut Reply, line: &Json<'_>, on: Sink<'_>) {
    let part = line
        .get("part")
        .map_or(&b""[..], |part| part.string().unwrap_or(part.raw()));
    let part = String::from_utf8_lossy(part);
    let channel = line.text("ch");
    let known = channel
        .as_deref()
        .map_or(Some(Channel::Text), Channel::from_name);
    if known.is_none() {
        reply.unknown(0, channel.as_deref().unwrap_or_default(), on);
    }
    let (tool, call) = (line.text("tool"), line.text("call"));
    let (tool, call) = (tool.as_deref(), call.as_deref());
    let channel = known.unwrap_or(Channel::Text);
    let naming = Naming {
        key: &part,
        name: &part,
        channel,
        tool,
        call,
        grows: false,
    };
    let bytes = fragment(reply, line, on);
    if line.get("snapshot").is_some() && reply.delivered(&part).is_some() {
        return reply.snapshot(&part, bytes, on);
    }
    if line.get("d").is_some() || line.get("b").is_some() || tool.is_some() && reply.is_open(&part)
    {
        reply.open(naming, on);
        reply.raw_delta(naming, bytes, on);
    }
    if line.get("end").is_some_and(|end| end.raw() == b"true") {
        reply.end(&part, on);
    }
}

/// The bytes of a line; what is no base64 is counted.
fn fragment(reply: &Reply, line: &Json<'_>, on: Sink<'_>) -> Vec<u8> {
    let mut bytes = line.bytes("d").unwrap_or_default().to_vec();
    if let Some(encoded) = line.bytes("b") {
        match STANDARD.decode(encoded) {
            Ok(decoded) => bytes.extend(decoded),
            Err(_) => reply.unscanned(encoded.len() as u64, "bad-base64", on),
        }
    }
    bytes
}

/// Turns the events of one stream into lines of a recording.
///
/// # Example: what is written is what is read
/// ```
/// use ttsr::{Channel, Event, PartId, wire::{Reader, recording::Writer}};
/// let part = PartId(0);
/// let events = [
///     Event::PartStart { part, name: "0".into(), channel: Channel::Text, tool: None, call: None },
///     Event::Delta { part, bytes: b"say \"hi\"\n".to_vec() },
///     Event::PartEnd { part },
///     Event::Finish { reason: "stop".into() },
/// ];
/// let mut writer = Writer::new(None);
/// let lines: String = events.iter().map(|event| writer.line(7, event)).collect();
/// let mut read = Vec::new();
/// let mut on = |_: &str, event: Event| read.push(event);
/// let mut reader = Reader::new("a recording");
/// reader.push(lines.as_bytes(), &mut on);
/// reader.finish(&mut on);
/// assert_eq!(read, events);
/// ```
#[derive(Clone, Debug)]
pub struct Writer {
    stream: Option<String>,
    parts: HashMap<PartId, Written>,
    names: Names,
}

#[derive(Clone, Debug)]
struct Written {
    name: String,
    channel: Channel,
    tool: Option<String>,
    call: Option<String>,
}

impl Writer {
    /// A writer for one stream; `stream` is its name on every line, needed where streams share a file.
    #[must_use]
    pub fn new(stream: Option<&str>) -> Writer {
        Writer {
            stream: stream.map(str::to_owned),
            parts: HashMap::new(),
            names: Names::default(),
        }
    }

    /// The line for `event`, with its line end. `millis` counts from the start of the recording.
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
                // A name is all that a line has, so no two parts may share one.
                let name = self.names.unused(name);
                let written = Written {
                    name,
                    channel: *channel,
                    tool: tool.clone(),
                    call: call.clone(),
                };
                self.parts.insert(*part, written);
                self.part(&mut line, *part, Some(b""));
            }
            Event::Tool { part, tool, call } => {
                self.written(*part).tool = Some(tool.clone());
                self.written(*part).call.clone_from(call);
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
            // What comes next is another reply, whose parts may have the same names.
            Event::Restart => {
                self.parts.clear();
                self.names = Names::default();
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

    fn written(&mut self, part: PartId) -> &mut Written {
        self.parts.entry(part).or_insert_with(|| Written {
            name: part.0.to_string(),
            channel: Channel::Text,
            tool: None,
            call: None,
        })
    }

    fn part(&mut self, line: &mut String, part: PartId, bytes: Option<&[u8]>) {
        let Written {
            name,
            channel,
            tool,
            call,
        } = self.written(part);
        member(line, "ch", channel.name());
        member(line, "part", name);
        match tool {
            Some(tool) => member(line, "tool", tool),
            None => json_member(line, "tool", "null"),
        }
        if let Some(call) = call {
            member(line, "call", call);
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

/// `value` is JSON.
fn json_member(line: &mut String, key: &str, value: &str) {
    write!(line, ",\"{key}\":{value}").expect("writing to a string cannot fail");
}
