//! Provider streams through the reader: synthetic recordings under every cut, bad input, and the corpus.

mod corpus;
mod opencode;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use ttsr::rule::ToolOutcome;
use ttsr::{Channel, Event, PartId};
use ttsr_wire::recording::RecordingWriter;
use ttsr_wire::{Reader, WireFormat, WireRecord};

type Events = Vec<(String, Event)>;

/// Synthetic recordings: file, format.
const RECORDINGS: [(&str, WireFormat); 17] = [
    ("anthropic.sse", WireFormat::AnthropicMessages),
    ("anthropic.jsonl", WireFormat::AnthropicMessages),
    ("chat.sse", WireFormat::OpenAiChat),
    ("chat-quirks.jsonl", WireFormat::OpenAiChat),
    ("chat-members.jsonl", WireFormat::OpenAiChat),
    ("responses.sse", WireFormat::OpenAiResponses),
    ("responses-ends.jsonl", WireFormat::OpenAiResponses),
    ("gemini.sse", WireFormat::Gemini),
    ("gemini-ends.jsonl", WireFormat::Gemini),
    ("code-assist.sse", WireFormat::Gemini),
    ("ollama.jsonl", WireFormat::Ollama),
    ("cohere.sse", WireFormat::CohereChat),
    ("bedrock.jsonl", WireFormat::BedrockConverse),
    ("bedrock.bin", WireFormat::BedrockConverse),
    ("bedrock-anthropic.bin", WireFormat::AnthropicMessages),
    ("compact.jsonl", WireFormat::Compact),
    ("recording.ndjson", WireFormat::Recording),
];

fn load(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/wire")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Events, Option<WireFormat>) {
    let mut events = Vec::new();
    let mut on = |stream: &str, event: Event| events.push((stream.to_owned(), event));
    let mut reader = Reader::new("file");
    for piece in pieces {
        reader.push(piece, &mut on);
    }
    reader.finish(&mut on);
    (events, reader.format())
}

fn read_whole(bytes: &[u8]) -> Events {
    read([bytes]).0
}

/// A part reassembled from its events.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    channel: Channel,
    tool: Option<String>,
    call: Option<String>,
    outcome: Option<ToolOutcome>,
    bytes: Vec<u8>,
    ended: bool,
}

/// A reassembled stream; its assertions hold for every stream.
#[derive(Clone, Debug, Default)]
struct Stream {
    name: String,
    parts: Vec<Part>,
    deltas: Vec<(usize, Vec<u8>)>,
    snapshots: Vec<(usize, Vec<u8>)>,
    unscanned: Vec<(u64, String)>,
    errors: Vec<(String, String)>,
    usage: Option<(u64, u64)>,
    finish: Option<String>,
}

impl Stream {
    fn open(&mut self, part: PartId) -> &mut Part {
        let part = &mut self.parts[part.0 as usize];
        assert!(
            !part.ended,
            "nothing but a snapshot comes after the end of a part"
        );
        part
    }

    fn take(&mut self, event: &Event) {
        match event.clone() {
            Event::PartStart {
                part,
                name,
                channel,
                tool,
                call,
            } => {
                assert_eq!(
                    part.0 as usize,
                    self.parts.len(),
                    "parts are numbered as they open"
                );
                self.parts.push(Part {
                    name,
                    channel,
                    tool,
                    call,
                    outcome: None,
                    bytes: Vec::new(),
                    ended: false,
                });
            }
            Event::Tool { part, tool, call } => {
                let part = self.open(part);
                (part.tool, part.call) = (Some(tool), call);
            }
            Event::Delta { part, bytes } => {
                assert!(!bytes.is_empty(), "no delta is empty");
                self.open(part).bytes.extend(&bytes);
                self.deltas.push((part.0 as usize, bytes));
            }
            Event::Outcome { part, outcome } => {
                let part = self.open(part);
                assert!(part.bytes.is_empty(), "the outcome comes first");
                assert_eq!(part.channel, Channel::ToolOutput);
                part.outcome = Some(outcome);
            }
            Event::PartEnd { part } => self.open(part).ended = true,
            Event::Snapshot { part, bytes } => self.snapshots.push((part.0 as usize, bytes)),
            Event::Unscanned { bytes, kind } => self.unscanned.push((bytes, kind)),
            Event::Usage { input, output } => self.usage = Some((input, output)),
            Event::Finish { reason } => {
                assert!(
                    self.parts.iter().all(|part| part.ended),
                    "all parts end before the stream"
                );
                self.finish = Some(reason);
            }
            Event::Error { kind, message } => self.errors.push((kind, message)),
            other => panic!("an event that this test does not know: {other:?}"),
        }
    }

    /// Returns the text of all parts of a channel, in order.
    fn text(&self, channel: Channel) -> String {
        let parts = self.parts.iter().filter(|part| part.channel == channel);
        parts
            .map(|part| String::from_utf8(part.bytes.clone()).unwrap())
            .collect::<Vec<_>>()
            .join("|")
    }

    fn unscanned_bytes(&self) -> u64 {
        self.unscanned.iter().map(|(bytes, _)| bytes).sum()
    }
}

/// Returns the streams in the order in which they began.
fn streams(events: &Events) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    let mut open: HashMap<&str, usize> = HashMap::new();
    for (name, event) in events {
        let at = *open.entry(name).or_insert_with(|| {
            streams.push(Stream {
                name: name.clone(),
                ..Stream::default()
            });
            streams.len() - 1
        });
        streams[at].take(event);
        if matches!(event, Event::Finish { .. }) {
            open.remove(name.as_str());
        }
    }
    for name in open.into_keys() {
        // Only content in no known format has no end.
        let stream = streams.iter().rfind(|stream| stream.name == name).unwrap();
        assert!(
            stream.parts.is_empty() && stream.errors.is_empty(),
            "{name} has no end"
        );
    }
    streams
}

/// Formats events as lines, for files that people read.
fn lines(events: &Events) -> String {
    let mut out = String::new();
    for (stream, event) in events {
        let show = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
        let or_dash = |text: &Option<String>| text.clone().unwrap_or("-".to_owned());
        let line = match event {
            Event::PartStart {
                part,
                name,
                channel,
                tool,
                call,
            } => {
                let (tool, call) = (or_dash(tool), or_dash(call));
                format!(
                    "{} start {name} {} tool={tool} call={call}",
                    part.0,
                    channel.name()
                )
            }
            Event::Tool { part, tool, call } => {
                format!("{} tool={tool} call={}", part.0, or_dash(call))
            }
            Event::Delta { part, bytes } => format!("{} {}", part.0, show(bytes)),
            Event::Outcome { part, outcome } => format!("{} outcome={}", part.0, outcome.name()),
            Event::PartEnd { part } => format!("{} end", part.0),
            Event::Snapshot { part, bytes } => format!("{} snapshot {}", part.0, show(bytes)),
            Event::Unscanned { bytes, kind } => format!("unscanned {bytes} {kind}"),
            Event::Usage { input, output } => format!("usage {input} {output}"),
            Event::Finish { reason } => format!("finish {reason}"),
            Event::Error { kind, message } => format!("error {kind}: {message}"),
            other => format!("{other:?}"),
        };
        writeln!(out, "{stream}: {line}").unwrap();
    }
    out
}

/// Each recording gives the events in the file beside it. `TTSR_BLESS=1` writes those files.
#[test]
fn recordings_give_the_expected_events() {
    for (name, format) in RECORDINGS {
        let (events, found) = read([&load(name)[..]]);
        assert_eq!(found, Some(format), "{name}");
        streams(&events);
        let (actual, golden) = (lines(&events), format!("{name}.events"));
        if std::env::var_os("TTSR_BLESS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/wire")
                .join(&golden);
            std::fs::write(path, &actual).unwrap();
        }
        let expected = String::from_utf8(load(&golden)).unwrap();
        for (number, (actual, expected)) in actual.lines().zip(expected.lines()).enumerate() {
            assert_eq!(actual, expected, "{golden}:{}", number + 1);
        }
        assert_eq!(
            actual.lines().count(),
            expected.lines().count(),
            "{golden}: number of events"
        );
    }
}

#[test]
fn every_cut_gives_the_same_events() {
    for (name, _) in RECORDINGS {
        let bytes = load(name);
        let whole = read_whole(&bytes);
        assert_eq!(read(bytes.chunks(1)).0, whole, "{name}: byte by byte");
        for cut in 0..=bytes.len() {
            let halves = [&bytes[..cut], b"", &bytes[cut..]];
            assert_eq!(read(halves).0, whole, "{name}: cut at {cut}");
        }
    }
}

#[test]
fn the_same_records_as_lines_and_as_sse_give_the_same_events() {
    assert_eq!(
        read_whole(&load("anthropic.sse")),
        read_whole(&load("anthropic.jsonl"))
    );
}

#[test]
fn mixed_line_endings_change_nothing() {
    for name in ["anthropic.sse", "chat.sse", "responses.sse"] {
        let text = String::from_utf8(load(name)).unwrap().replace("\r\n", "\n");
        let whole = read_whole(text.as_bytes());
        let mut ends = ["\r\n", "\n", "\r"].iter().cycle();
        let mixed: String = text
            .split('\n')
            .map(|line| format!("{line}{}", ends.next().unwrap()))
            .collect();
        assert_eq!(read_whole(mixed.as_bytes()), whole, "{name}");
        assert_eq!(
            read(mixed.as_bytes().chunks(1)).0,
            whole,
            "{name}: byte by byte"
        );
    }
}

/// A recording of any stream reads back as the same events.
#[test]
fn recordings_keep_every_event() {
    for (name, _) in RECORDINGS {
        let events = read_whole(&load(name));
        let mut writers: HashMap<&str, RecordingWriter> = HashMap::new();
        let mut text = String::new();
        for (millis, (stream, event)) in (0..).zip(&events) {
            let writer = writers
                .entry(stream)
                .or_insert_with(|| RecordingWriter::new(Some(stream)));
            text += &writer.line(millis, event);
            if matches!(event, Event::Finish { .. }) {
                writers.remove(stream.as_str());
            }
        }
        let (again, format) = read([text.as_bytes()]);
        assert_eq!(format, Some(WireFormat::Recording), "{name}");
        assert_eq!(lines(&again), lines(&events), "{name}");
        assert_eq!(again, events, "{name}");
    }
}

#[test]
fn cut_bodies_end_every_stream_and_keep_what_came() {
    for (name, _) in RECORDINGS {
        let bytes = load(name);
        let whole = streams(&read_whole(&bytes));
        for cut in 0..bytes.len() {
            // `streams` checks that parts and streams end.
            for (cut_stream, stream) in streams(&read_whole(&bytes[..cut])).iter().zip(&whole) {
                for (part, full) in cut_stream.parts.iter().zip(&stream.parts) {
                    let text = part
                        .bytes
                        .strip_suffix("\u{FFFD}".as_bytes())
                        .unwrap_or(&part.bytes);
                    assert!(
                        full.bytes.starts_with(text),
                        "{name}: cut at {cut}: {part:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_incomplete_event_is_counted_not_hidden() {
    let text = load("chat.sse");
    let cut = text
        .windows(8)
        .position(|window| window == b"climb.\"}")
        .unwrap();
    let cut_streams = streams(&read_whole(&text[..cut]));
    let last = cut_streams.last().unwrap();
    assert_eq!(last.finish.as_deref(), Some("truncated"));
    assert!(
        last.unscanned
            .iter()
            .any(|(bytes, kind)| *bytes > 0 && kind == "malformed-json")
    );
    assert!(!last.text(Channel::Text).contains("climb"));
    assert!(last.text(Channel::Text).contains("Looking 🦅 up."));
}

/// An expected stream: name, text, reason, bytes not scanned, errors.
type Expected<'a> = (&'a str, &'a str, Option<&'a str>, u64, &'a [&'a str]);

#[track_caller]
fn check(case: &str, body: &str, expected: &[Expected<'_>]) {
    let (events, _) = read([body.as_bytes()]);
    assert_eq!(
        read(body.as_bytes().chunks(1)).0,
        events,
        "{case}: byte by byte"
    );
    let found = streams(&events);
    let shown = lines(&events);
    assert_eq!(found.len(), expected.len(), "{case}: {shown}");
    for (stream, (name, text, reason, unscanned, errors)) in found.iter().zip(expected) {
        assert_eq!(stream.name, *name, "{case}: {shown}");
        assert_eq!(stream.text(Channel::Text), *text, "{case}: {shown}");
        assert_eq!(stream.finish.as_deref(), *reason, "{case}: {shown}");
        assert_eq!(stream.unscanned_bytes(), *unscanned, "{case}: {shown}");
        let kinds: Vec<String> = stream
            .errors
            .iter()
            .map(|(kind, text)| format!("{kind}: {text}"))
            .collect();
        assert_eq!(kinds, *errors, "{case}: {shown}");
    }
}

const HI: &str = r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"Hi"}}]}"#;
const STOP: &str = r#"{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

#[test]
fn done_marks() {
    let next = HI.replace("c1", "c2").replace("Hi", "Ho");
    for (case, body, expected) in [
        (
            "missing",
            format!("data: {HI}\n\ndata: {STOP}\n\n"),
            vec![("c1", "Hi", Some("stop"), 0)],
        ),
        (
            "missing, no reason either",
            format!("data: {HI}\n\n"),
            vec![("c1", "Hi", Some("truncated"), 0)],
        ),
        (
            "without a reason",
            format!("data: {HI}\n\ndata: [DONE]\n\n"),
            vec![("c1", "Hi", Some("[DONE]"), 0)],
        ),
        (
            "twice",
            format!("data: {HI}\n\ndata: [DONE]\n\ndata: [DONE]\n\n"),
            vec![("c1", "Hi", Some("[DONE]"), 0)],
        ),
        (
            "followed by data, which is read",
            format!("data: {HI}\n\ndata: [DONE]\n\ndata: {next}\n\n"),
            vec![
                ("c1", "Hi", Some("[DONE]"), 0),
                ("c2", "Ho", Some("truncated"), 0),
            ],
        ),
        (
            "no final blank line",
            format!("data: {HI}\n\ndata: {STOP}"),
            vec![("c1", "Hi", Some("stop"), 0)],
        ),
        (
            "a reply after a finished one",
            format!("data: {HI}\n\ndata: {STOP}\n\ndata: {next}\n\n"),
            vec![
                ("c1", "Hi", Some("stop"), 0),
                ("c2", "Ho", Some("truncated"), 0),
            ],
        ),
        (
            "an id of its own for each chunk",
            format!("{HI}\n{next}\n"),
            vec![("c1", "HiHo", Some("truncated"), 0)],
        ),
    ] {
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(a, b, c, d)| (a, b, c, d, &[][..]))
            .collect();
        check(case, &body, &expected);
    }
}

#[test]
fn bodies_that_are_no_stream_are_counted() {
    let gzip = "\u{1f}\u{8b}\u{8}".repeat(10);
    check("gzip", &gzip, &[("file", "", None, gzip.len() as u64, &[])]);
    check("empty", "", &[]);
    check("blank", " \r\n\n", &[]);
    check(
        "html",
        "<html>\n<p>502</p>\n</html>",
        &[("file", "", None, 23, &[])],
    );
    check(
        "one long line",
        &"x".repeat(200_000),
        &[("file", "", None, 200_000, &[])],
    );
    check(
        "json of no format",
        "{\"a\":\"b\"}\n[1,2]\n",
        &[("file", "", None, 11, &[])],
    );
    let mixed = format!("HTTP/1.1 200 OK\nserver: x\n\ndata: {HI}\n\n");
    check(
        "status line before the body",
        &mixed,
        &[("c1", "Hi", Some("truncated"), 24, &[])],
    );
}

#[test]
fn replies_that_do_not_stream() {
    let chat = r#"{"id":"c9","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}"#;
    check("chat", chat, &[("c9", "Hi", Some("stop"), 0, &[])]);
    let message = "{\n  \"id\": \"msg_9\",\n  \"type\": \"message\",\n  \"content\": [\n    {\n      \"type\": \"text\",\n      \"text\": \"Hi\"\n    }\n  ],\n  \"stop_reason\": \"end_turn\"\n}\n";
    check(
        "anthropic, pretty-printed",
        message,
        &[("msg_9", "Hi", Some("end_turn"), 0, &[])],
    );
    let response = r#"{"id":"resp_9","object":"response","status":"completed","output":[{"type":"message","id":"m","content":[{"type":"output_text","text":"Hi"}]}]}"#;
    check(
        "responses",
        response,
        &[("resp_9", "Hi", Some("completed"), 0, &[])],
    );
}

#[test]
fn replies_that_do_not_stream_of_other_providers() {
    let cohere = r#"{"id":"r1","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"Hi"}]},"usage":{"tokens":{"input_tokens":1,"output_tokens":2}}}"#;
    check("cohere", cohere, &[("r1", "Hi", Some("COMPLETE"), 0, &[])]);
    let converse = r#"{"output":{"message":{"role":"assistant","content":[{"text":"Hi"}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2}}"#;
    check(
        "bedrock",
        converse,
        &[("file", "Hi", Some("end_turn"), 0, &[])],
    );
    let ollama = r#"{"model":"m","message":{"role":"assistant","content":"Hi"},"done":true,"done_reason":"stop"}"#;
    check("ollama", ollama, &[("file", "Hi", Some("stop"), 0, &[])]);
    let gemini = r#"[{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"responseId":"g"}]"#;
    check(
        "gemini, as an array",
        gemini,
        &[("g", "Hi", Some("STOP"), 0, &[])],
    );
    let wrapped = format!(
        r#"{{"response":{},"traceId":"t"}}"#,
        &gemini[1..gemini.len() - 1]
    );
    check(
        "gemini, in a wrapper",
        &wrapped,
        &[("g", "Hi", Some("STOP"), 0, &[])],
    );
}

#[test]
fn unknown_members_of_other_providers_are_counted() {
    let gemini = r#"{"candidates":[{"content":{"parts":[{"text":"Hi","mood":"calm"}]},"finishReason":"STOP"}],"extra":{"a":"bc"}}"#;
    check("gemini", gemini, &[("file", "Hi", Some("STOP"), 6, &[])]);
    let no_wrapper = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"response":"so"}"#;
    check(
        "gemini, a text for a chunk",
        no_wrapper,
        &[("file", "Hi", Some("STOP"), 2, &[])],
    );
    let ollama = r#"{"message":{"content":"Hi","mood":"calm"},"done":true,"extra":"abc"}"#;
    check("ollama", ollama, &[("file", "Hi", Some("done"), 7, &[])]);
    let cohere = "{\"type\":\"message-start\",\"id\":\"c\"}\n{\"type\":\"mood-delta\",\"mood\":\"calm\"}\n{\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":\"gone\"}}\n";
    check(
        "cohere",
        cohere,
        &[("c", "", Some("ERROR"), 4 + 4, &[": gone"])],
    );
    let bedrock = "{\"messageStart\":{\"role\":\"assistant\"}}\n{\"moodDelta\":{\"mood\":\"calm\"}}\n{\"throttlingException\":{\"message\":\"slow\"}}\n";
    check(
        "bedrock",
        bedrock,
        &[("file", "", Some("error"), 4, &["throttlingException: slow"])],
    );
}

/// A damaged message of a binary event stream costs itself, a damaged length costs the rest.
#[test]
fn broken_binary_messages_are_counted() {
    let whole = load("bedrock.bin");
    let first = u32::from_be_bytes(whole[..4].try_into().unwrap()) as usize;
    let second = u32::from_be_bytes(whole[first..first + 4].try_into().unwrap()) as usize;
    let broken = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let events = read_whole(&bytes);
        assert_eq!(read(bytes.chunks(1)).0, events, "byte {at}");
        streams(&events).remove(0).unscanned
    };
    let bad_checksum = (second as u64, "bad-checksum".to_owned());
    assert_eq!(broken(first + second - 1), [bad_checksum]);
    let rest = (whole.len() - first) as u64;
    assert_eq!(broken(first + 1), [(rest, "not-event-stream".to_owned())]);
    let mut reader = Reader::with_cap("file", second - 1);
    let mut counted = Vec::new();
    let mut on = |_: &str, event: Event| {
        if let Event::Unscanned { bytes, kind } = event {
            counted.push((bytes, kind));
        }
    };
    whole
        .chunks(7)
        .for_each(|piece| reader.push(piece, &mut on));
    reader.finish(&mut on);
    assert!(
        counted.contains(&(second as u64, "too-long".to_owned())),
        "{counted:?}"
    );
}

/// Returns a message of a binary event stream, with correct lengths and checksums.
fn binary_message(headers: &[u8], payload: &str) -> Vec<u8> {
    let length = 4 * 4 + headers.len() + payload.len();
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.extend((headers.len() as u32).to_be_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend(headers);
    bytes.extend(payload.as_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

/// Headers of every type of the format are skipped up to the one that names the event.
#[test]
fn headers_of_every_type_are_skipped_and_of_an_unknown_type_counted() {
    let payload = r#"{"contentBlockIndex":0,"delta":{"text":"Hi"}}"#;
    let name = b"\x0b:event-type\x07\x00\x11contentBlockDelta";
    // The type of a header, and its value: true, false, 1, 2, 4 and 8 bytes, bytes, text, time, UUID.
    let values: [&[u8]; 10] = [
        b"",
        b"",
        &[1; 1],
        &[2; 2],
        &[3; 4],
        &[4; 8],
        b"\x00\x03abc",
        b"\x00\x03abc",
        &[5; 8],
        &[6; 16],
    ];
    for (kind, value) in (0..).zip(values) {
        let headers = [b"\x01x", &[kind][..], value, name].concat();
        let events = read_whole(&binary_message(&headers, payload));
        let stream = &streams(&events)[0];
        assert_eq!(stream.text(Channel::Text), "Hi", "type {kind}");
        assert_eq!(stream.unscanned, [], "type {kind}");
    }
    let unknown = [b"\x01x\x0a", &name[..]].concat();
    let message = binary_message(&unknown, payload);
    let events = read_whole(&[binary_message(name, payload), message.clone()].concat());
    let stream = &streams(&events)[0];
    let lost = (message.len() as u64, "bad-headers".to_owned());
    assert_eq!(stream.unscanned, [lost]);
    assert_eq!(stream.text(Channel::Text), "Hi");
}

/// A reply that begins again may use the names of the first attempt.
#[test]
fn a_restart_ends_a_recorded_reply() {
    let delta = |text: &str| Event::Delta {
        part: PartId(0),
        bytes: text.as_bytes().to_vec(),
    };
    let start = Event::PartStart {
        part: PartId(0),
        name: "0".to_owned(),
        channel: Channel::Text,
        tool: None,
        call: None,
    };
    let end = Event::Finish {
        reason: "stop".to_owned(),
    };
    let written = [
        start.clone(),
        delta("first"),
        Event::Restart,
        start,
        delta("second"),
        end,
    ];
    let mut writer = RecordingWriter::new(Some("s"));
    let text: String = written.iter().map(|event| writer.line(0, event)).collect();
    let read: Vec<_> = streams(&read_whole(text.as_bytes()))
        .into_iter()
        .map(|reply| (reply.text(Channel::Text), reply.finish.unwrap()))
        .collect();
    let expected = [("first", "restart"), ("second", "stop")];
    assert_eq!(
        read,
        expected.map(|(text, end)| (text.to_owned(), end.to_owned()))
    );
}

#[test]
fn error_objects() {
    let body =
        "{\n  \"error\": {\n    \"message\": \"slow down\",\n    \"type\": \"rate_limit\"\n  }\n}";
    check(
        "openai",
        body,
        &[("file", "", Some("error"), 0, &["rate_limit: slow down"])],
    );
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    check(
        "anthropic",
        body,
        &[("file", "", Some("error"), 0, &["overloaded_error: busy"])],
    );
    let body = "event: error\ndata: {\"type\":\"error\",\"code\":\"boom\",\"message\":\"no\",\"sequence_number\":1}\n\n";
    check(
        "responses",
        body,
        &[("file", "", Some("error"), 0, &["boom: no"])],
    );
    let body = format!("data: {HI}\n\n{{\"error\":{{\"code\":500,\"message\":\"gone\"}}}}\n");
    check(
        "without framing in a stream",
        &body,
        &[("c1", "Hi", Some("error"), 0, &["500: gone"])],
    );
    let body = format!("data: {HI}\n\ndata: {{\"error\":\"plain\"}}\n\n");
    check(
        "a string",
        &body,
        &[("c1", "Hi", Some("error"), 0, &[": plain"])],
    );
}

#[test]
fn unknown_events_and_fields_are_scanned_or_counted() {
    let start = r#"{"type":"message_start","message":{"id":"m1","content":[],"mood":"calm"}}"#;
    let tail = r#"{"type":"message_stop"}"#;
    let body = |event: &str| format!("{start}\n{event}\n{tail}\n");
    for (case, event, text, unscanned) in [
        ("nothing more", r#"{"type":"ping"}"#, "", 4),
        (
            "unknown event",
            r#"{"type":"aside","id":"x","to":["abc","de"]}"#,
            "",
            9,
        ),
        (
            "new field in a known event",
            r#"{"type":"content_block_stop","index":0,"why":"abc"}"#,
            "",
            7,
        ),
        (
            "new field in a delta",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi","tone":"dry"}}"#,
            "Hi",
            7,
        ),
        (
            "unknown delta",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"song_delta","verse":"la"}}"#,
            "la",
            4,
        ),
        ("malformed", r#"{"type":"ping""#, "", 4 + 14),
        ("not an object", "\"aside\"", "", 4 + 7),
        (
            "duplicate key",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"abc","text":"Hi"}}"#,
            "Hi",
            7,
        ),
    ] {
        check(
            case,
            &body(event),
            &[("m1", text, Some("message_stop"), unscanned, &[])],
        );
    }
}

#[test]
fn a_block_of_a_kind_that_nobody_knows_is_read_as_text() {
    let body = [
        r#"{"type":"message_start","message":{"id":"m1","content":[]}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"song"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"song_delta","verse":"rm "}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"song_delta","verse":"-rf"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let events = read_whole(body.join("\n").as_bytes());
    let shown = lines(&events);
    let text = streams(&events)[0].text(Channel::Text);
    assert_eq!(text, "rm -rf", "{shown}");
    // It is counted under its kind too, so that a host learns of new kinds.
    let is_told = |kind: &str| shown.contains("unscanned") && shown.contains(kind);
    assert!(is_told("song"), "{shown}");
}

#[test]
fn a_tool_name_in_pieces_is_the_name_that_rules_see() {
    let rule = |tool: &str| {
        format!(
            "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\non = ['tool-input']\n\
             tools = ['{tool}']\nmatch.any = [{{ literal = 'rm -rf' }}]\nexamples.match = ['rm -rf']\n"
        )
    };
    let call = |function: &str| {
        format!(
            r#"{{"id":"c1","choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"k","function":{{{function}}}}}]}}}}]}}"#
        )
    };
    let body = [
        call(r#""name":"ba""#),
        call(r#""name":"sh""#),
        call(r#""arguments":"{\"command\":\"rm ""#),
        call(r#""arguments":"-rf\"}""#),
        STOP.to_owned(),
    ];
    let body = body.map(|chunk| format!("data: {chunk}\n\n")).concat();
    for (tool, expected) in [("bash", 1), ("ba", 0), ("sh", 0)] {
        let pack = ttsr::Pack::from_toml(&rule(tool)).unwrap();
        for size in [1, body.len()] {
            let mut stream = pack.stream();
            let mut hits = 0;
            for (_, event) in read(body.as_bytes().chunks(size)).0 {
                match event {
                    Event::PartStart {
                        part,
                        channel,
                        tool,
                        ..
                    } => {
                        stream.open(part, channel);
                        let tool = tool.unwrap_or_default();
                        hits +=
                            usize::from(!tool.is_empty()) * stream.set_tool(part, &tool, "k").len();
                    }
                    Event::Tool { part, tool, .. } => {
                        hits += stream.set_tool(part, &tool, "k").len()
                    }
                    Event::Delta { part, bytes } => hits += stream.push(part, &bytes).len(),
                    Event::PartEnd { part } => hits += stream.close(part).len(),
                    _ => {}
                }
            }
            assert_eq!(
                hits,
                expected,
                "{tool}, in pieces of {size}: {}",
                lines(&read_whole(body.as_bytes()))
            );
        }
    }
}

#[test]
fn an_event_over_the_cap_is_counted() {
    let long = HI.replace("Hi", &"x".repeat(500));
    for (case, body) in [
        ("lines", format!("{HI}\n{long}\n{STOP}\n")),
        (
            "sse",
            format!("data: {HI}\n\ndata: {long}\n\ndata: {STOP}\n\n"),
        ),
    ] {
        let mut events = Events::new();
        let mut reader = Reader::with_cap("file", 200);
        let mut on = |stream: &str, event: Event| events.push((stream.to_owned(), event));
        reader.push(body.as_bytes(), &mut on);
        reader.finish(&mut on);
        let found = streams(&events);
        assert_eq!(found[0].text(Channel::Text), "Hi", "{case}");
        assert_eq!(found[0].finish.as_deref(), Some("stop"), "{case}");
        assert!(
            found[0].unscanned[0].0 > 500 && found[0].unscanned[0].1 == "too-long",
            "{case}"
        );
    }
}

#[test]
fn a_document_is_read_like_the_one_line_of_a_body_whatever_came_before() {
    for document in [
        r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"a","text":"b"}]}}]}"#,
        r#"[{"candidates":[]}, {"error": {"message": "Busy"}}]"#,
        "{\"candidates\":\n[\n{\"finishReason\":\"STOP\"\n}]}",
        r#"{"candidates":[}"#,
        "7",
        "",
    ] {
        let read = |cap: usize, is_framed: bool| {
            let mut events = Vec::new();
            let mut on = |name: &str, event: Event| events.push((name.to_owned(), event));
            let mut reader = Reader::with_cap("body", cap).expecting(WireFormat::Gemini);
            let first = br#"{"candidates":[]}"#;
            let mut records = 0;
            let mut seen = |_: WireRecord<'_>| records += 1;
            match is_framed {
                true => {
                    reader.push_records(first, &mut seen, &mut on);
                    reader.push_records(b"\n", &mut seen, &mut on);
                    let line = document.replace('\n', " ");
                    reader.push_records(line.as_bytes(), &mut seen, &mut on);
                    reader.push_records(b"\n", &mut seen, &mut on);
                }
                false => {
                    reader.push_document(first, &mut seen, &mut on);
                    reader.push_document(document.as_bytes(), &mut seen, &mut on);
                }
            }
            assert!(is_framed || !reader.has_partial_document());
            reader.finish(&mut on);
            let counts = [reader.malformed_events(), reader.ambiguous_documents()];
            (events, counts, records)
        };
        for cap in [17, 1 << 20] {
            assert_eq!(read(cap, true), read(cap, false), "{document} {cap}");
        }
    }
}

#[test]
fn a_line_of_100_megabytes_costs_itself_only() {
    let mut events = Events::new();
    let mut on = |stream: &str, event: Event| events.push((stream.to_owned(), event));
    let mut reader = Reader::new("file");
    reader.push(format!("data: {HI}\n\ndata: ").as_bytes(), &mut on);
    for _ in 0..100 {
        reader.push(&vec![b'x'; 1 << 20], &mut on);
    }
    reader.push(format!("\n\ndata: {STOP}\n\n").as_bytes(), &mut on);
    reader.finish(&mut on);
    let found = streams(&events);
    assert_eq!(
        found[0].unscanned,
        [(6 + (100 << 20), "too-long".to_owned())]
    );
    assert_eq!(found[0].finish.as_deref(), Some("stop"));
}

#[test]
fn types_are_shareable() {
    fn check<T: Send + Sync + std::panic::UnwindSafe>() {}
    check::<Reader>();
    check::<RecordingWriter>();
    check::<ttsr_wire::sse::Sse>();
}

/// Each case would take minutes if any step visited all parts so far.
#[test]
fn a_hundred_thousand_parts_are_read_in_linear_time() {
    let block = |n: usize| {
        format!(
            "{{\"type\":\"content_block_start\",\"index\":{n},\"content_block\":{{\"type\":\"text\"}}}}\n"
        )
    };
    let stop = |n: usize| format!("{{\"type\":\"content_block_stop\",\"index\":{n}}}\n");
    let call = |n: usize| {
        format!(
            "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"id\":\"i{n}\",\"function\":{{\"name\":\"f\"}}}}]}}}}]}}\n"
        )
    };
    let again = |n: usize| {
        format!(
            "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"i{n}\",\"function\":{{\"name\":\"f\"}}}}]}}}}]}}\n"
        )
    };
    let item = |n: usize| {
        format!(
            "{{\"type\":\"response.output_item.done\",\"output_index\":{n},\"item\":{{\"type\":\"t\",\"input\":\"x\"}}}}\n"
        )
    };
    let line = |_: usize| "{\"part\":\"p\",\"d\":\"x\",\"end\":true}\n".to_owned();
    let stream = |n: usize| format!("{{\"stream\":\"{n}\",\"part\":\"p\",\"d\":\"x\"}}\n");
    let all = |of: &dyn Fn(usize) -> String| (0..100_000).map(of).collect::<String>();
    for (case, body) in [
        ("blocks that stop late", all(&block) + &all(&stop)),
        ("calls without index", all(&call)),
        ("calls under one index", all(&again)),
        ("items", all(&item)),
        ("parts of one name", all(&line)),
        ("streams", all(&stream)),
    ] {
        let mut parts = 0;
        let mut on =
            |_: &str, event: Event| parts += usize::from(matches!(event, Event::PartEnd { .. }));
        let mut reader = Reader::new("file");
        reader.push(body.as_bytes(), &mut on);
        reader.finish(&mut on);
        assert_eq!(parts, 100_000, "{case}");
    }
}

/// A recording with some bytes changed, dropped or doubled.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0..4u8);
    (0..RECORDINGS.len(), prop::collection::vec(change, 1..12)).prop_map(|(recording, changes)| {
        let mut bytes = load(RECORDINGS[recording].0);
        for (place, byte, what) in changes {
            let place = place.index(bytes.len());
            match what {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                2 => drop(bytes.remove(place)),
                _ => bytes[place] = b"{}[]\",:\n\\"[byte as usize % 9],
            }
        }
        bytes
    })
}

/// Events in which a text is at `TEXT`, once or more than once, so that consecutive ones can be alike.
const ALIKE: [&str; 34] = [
    r#"data: {"choices":[{"delta":{"content":"TEXT"}}]}"#,
    r#"data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"TEXT","tool_calls":[]},"finish_reason":null}]}"#,
    r#"data: {"choices":[{"delta":{"content":null,"reasoning":"TEXT"}}]}"#,
    r#"data: {"choices":[{"delta":{"reasoning":"a","reasoning_content":"TEXT"}}]}"#,
    r#"data: {"choices":[{"delta":{"reasoning":"TEXT","reasoning_details":[{"text":"a"}]}}]}"#,
    r#"data: {"choices":[{"delta":{"content":"TEXT","content":"a"}}]}"#,
    r#"data: {"choices":[{"delta":{"content":"TEXT"},"message":{"content":"a"}}]}"#,
    r#"data: {"choices":[{"delta":{"content":"TEXT"},"finish_reason":"stop"}]}"#,
    r#"data: {"choices":[{"delta":{"content":"TEXT"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    r#"data: {"choices":[{"delta":{"content":"TEXT","sound":"a"}}]}"#,
    r#"data: {"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"TEXT"}}]}"#,
    ": {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\ndata: {\"choices\":[{\"delta\":{\"content\":\"TEXT\"}}]}",
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n: {\"choices\":[{\"delta\":{\"content\":\"TEXT\"}}]}",
    "data: {\"choices\":[\ndata: {\"delta\":{\"content\":\"TEXT\"}}]}",
    "noise\ndata: {\"choices\":[{\"delta\":{\"content\":\"TEXT\"}}]}",
    "data: {\"choices\":[{\"delta\":{\"content\":\"TEXT\"}}]}\ndata: [DONE]",
    "data: {\"choices\":[{\"delta\":{\"content\":\"TEXT\"}}]}\r\n",
    r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"n","arguments":"TEXT"}}]}}]}"#,
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"TEXT\"}}",
    r#"data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"TEXT"}}"#,
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"TEXT","more":"a"}}"#,
    r#"data: {"type":"content_block_stop","index":0,"text":"TEXT"}"#,
    r#"data: {"created":1TEXT,"choices":[{"delta":{"content":"a"}}]}"#,
    r#"data: {"created":12,"choices":[{"delta":{"content":"TEXT"}}],"obfuscation":"TEXT"}"#,
    r#"data: {"id":"c","id":"c","choices":[{"delta":{"content":"TEXT"}}]}"#,
    r#"data: {"obfuscation":"TEXT","choices":[{"delta":{"content":"a"}}]}"#,
    r#"data: {"obfuscation":"TEXT"choices":[{"delta":{"content":"a"}}]}"#,
    r#"data: {"created":TEXT,"choices":[{"delta":{"content":"a"}}]}"#,
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n: data: {\"choices\":[{\"delta\":{\"content\":\"TEXT\"}}]}",
    "data: {\"id\"\ndata: :\"c\",\ndata: \"choices\":[{\"delta\":{\"content\":\"TEXT\"}}]}",
    "data: {\"choices\":[{\"delta\":{\"content\":\"TEXT\"}}]}\n\ndata: [DONE]",
    "data: [DONE]\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"TEXT\"}}",
    r#"data: {"choices":[{"delta":{"content":"TEXT"}}]}{"choices":[]}"#,
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":"TEXT"}}}"#,
];

/// The forms of a text in an event.
const TEXTS: [&str; 20] = [
    "a",
    "b",
    "ab c",
    "",
    "\\n\\\"x\\\\",
    "\\ud83d",
    "\\ude00",
    "é",
    "\\",
    "x\"},\"delta\":{\"content\":\"y",
    "x\",\"content\":\"y",
    "x\ndata: y",
    "x\r",
    "\t",
    "0",
    "23",
    "x\",",
    "x\\\",",
    "long long long long long long long long long long long long long long long long long long long long long long",
    "x\\\",\"choices\":[{\"delta\":{\"content\":\"y\"}}]}",
];

/// Reads events whole, for which a reader may skip parsing, and cut, for which it does not, and compares the results.
fn compare_whole_and_cut<'t>(events: impl Iterator<Item = (usize, &'t str)>, notes_places: bool) {
    let mut readers = [0, 1].map(|_| Reader::with_cap("file", 200));
    if notes_places {
        readers = readers.map(Reader::noting_places);
    }
    for (shape, text) in events {
        let event = ALIKE[shape].replace("TEXT", text) + "\n\n";
        let (first, rest) = event.as_bytes().split_at(1);
        let pieces: [&[&[u8]]; 2] = [&[event.as_bytes()], &[first, rest]];
        let mut read = readers.iter_mut().zip(pieces).map(|(reader, pieces)| {
            let (mut events, mut records) = (Vec::new(), [0, 0]);
            for piece in pieces {
                let mut seen = |record: WireRecord<'_>| {
                    records[usize::from(matches!(record, WireRecord::Done))] += 1;
                };
                reader.push_records(piece, &mut seen, &mut |stream, event| {
                    events.push((stream.to_owned(), event));
                });
            }
            let malformed = (reader.malformed_events(), reader.stray_lines());
            let ambiguous = reader.ambiguous_documents();
            (events, records, reader.take_places(), malformed, ambiguous)
        });
        assert_eq!(read.next(), read.next(), "{event}");
    }
    let ends = readers.map(|mut reader| {
        let mut events = Vec::new();
        reader.finish(&mut |stream, event| events.push((stream.to_owned(), event)));
        events
    });
    assert_eq!(ends[0], ends[1]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn events_that_differ_in_a_text_are_read_like_any_other(
        notes_places in any::<bool>(),
        runs in prop::collection::vec(
            (0..ALIKE.len(), [0..TEXTS.len(), 0..TEXTS.len()], prop::collection::vec(0..2usize, 1..7)),
            1..6,
        ),
    ) {
        let events = runs.iter().flat_map(|(shape, texts, choices)| {
            choices.iter().map(|choice| (*shape, TEXTS[texts[*choice]]))
        });
        compare_whole_and_cut(events, notes_places);
    }
}

#[test]
fn an_event_with_the_bytes_of_the_last_one_in_another_place_is_read() {
    for (shape, texts) in [
        // The string ends at the second quotation mark, not at the first one.
        (26, ["x\",", "x\",", "x\\\","]),
        // The end mark of each event is a record.
        (31, ["a", "b", "c"]),
    ] {
        compare_whole_and_cut(texts.into_iter().map(|text| (shape, text)), true);
    }
}

#[test]
fn deltas_that_differ_in_their_text_are_not_parsed() {
    for (shape, is_read) in [
        (0, false),
        (1, false),
        (2, false),
        (18, false),
        (23, false),
        (19, false),
        (3, true),
        (9, true),
    ] {
        let mut reader = Reader::new("file");
        let (mut objects, mut texts) = (0, Vec::new());
        for (number, text) in ["a", "b", "\\u0063", "d"].iter().enumerate() {
            let mut seen = |record: WireRecord<'_>| {
                objects += usize::from(matches!(record, WireRecord::Object(_)))
            };
            let event = ALIKE[shape].replacen("TEXT", text, 1);
            let event = event.replace("TEXT", &number.to_string()) + "\n\n";
            reader.push_records(event.as_bytes(), &mut seen, &mut |_, event| {
                if let Event::Delta { bytes, .. } = event {
                    texts.extend(bytes);
                }
            });
        }
        // The first one begins the part, and the second one shows what may differ.
        assert_eq!(objects, if is_read { 4 } else { 2 }, "{}", ALIKE[shape]);
        assert!(is_read || texts == b"abcd", "{}", ALIKE[shape]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_cuts_give_the_same_events(recording in 0..RECORDINGS.len(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        let bytes = load(RECORDINGS[recording].0);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        prop_assert_eq!(read(pieces).0, read_whole(&bytes));
    }

    #[test]
    fn changed_bytes_never_panic_and_never_depend_on_cuts(bytes in mutated()) {
        let whole = read_whole(&bytes);
        streams(&whole);
        prop_assert_eq!(read(bytes.chunks(1)).0, whole);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), start in prop::sample::select(vec!["", "{", "data: ", "data: {\"choices\":[", "{\"part\":\"x\",\"d\":\"", "\u{feff}"])) {
        let bytes = [start.as_bytes(), &bytes].concat();
        let whole = read_whole(&bytes);
        streams(&whole);
        prop_assert_eq!(read(bytes.chunks(1)).0, whole);
    }
}

#[test]
fn events_that_cannot_be_read_are_counted_whatever_the_format_and_the_cut() {
    let chat = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    let bodies = [
        (
            format!("data: {chat}\n\ndata: {{\"choices\":[\n\ndata: x\n\ndata: {chat}\n\n"),
            2,
        ),
        (format!("data: {{\"choices\"\n\ndata: {chat}\n\n"), 1),
        (format!("data: {chat}\n\ndata: 7\n\ndata: {chat} x\n\n"), 2),
        (
            format!("data: {chat}\n\n: a comment\n\nretry: 10\n\ndata: [DONE]\n\n"),
            0,
        ),
        (format!("{chat}\n{{\"choices\":\n{chat}\n"), 1),
        (format!("data: {chat}\n\ndata: {}\n\n", "y".repeat(300)), 1),
        ("data: {\"message\":\"no stream\"}\n\n".to_owned(), 0),
    ];
    for (body, expected) in bodies {
        let body = body.as_bytes();
        for size in [1, 2, 7, body.len()] {
            let mut reader = Reader::with_cap("test", 200);
            let mut events = Vec::new();
            let mut on = |_: &str, event: Event| events.push(event);
            body.chunks(size)
                .for_each(|piece| reader.push(piece, &mut on));
            reader.finish(&mut on);
            let text = String::from_utf8_lossy(body);
            assert_eq!(
                reader.malformed_events(),
                expected,
                "{text} in pieces of {size}"
            );
            let lost = events
                .iter()
                .filter(|event| matches!(event, Event::Unscanned { .. }));
            assert!(lost.count() as u64 >= expected.min(1), "{text}: {events:?}");
        }
    }
}

/// Returns tool, outcome and text of each part on [`Channel::ToolOutput`], after reading the body whole and byte by byte.
fn outputs(body: &str) -> Vec<(Option<String>, Option<ToolOutcome>, String)> {
    let (whole, _) = read([body.as_bytes()]);
    assert_eq!(read(body.as_bytes().chunks(1)).0, whole, "{body}");
    let parts = streams(&whole).into_iter().flat_map(|stream| stream.parts);
    let outputs = parts.filter(|part| part.channel == Channel::ToolOutput);
    outputs
        .map(|part| {
            let text = String::from_utf8(part.bytes).unwrap();
            (part.tool, part.outcome, text)
        })
        .collect()
}

#[test]
fn every_call_and_every_output_of_responses_is_read() {
    let text = "owl";
    let item = |item: &str| {
        format!(
            r#"{{"id":"r","object":"response","status":"completed","output":[{{"id":"i","call_id":"c",{item}}}]}}"#
        )
    };
    let actions = r#"[{"type":"click","x":1,"y":2},{"type":"type","text":"owl"}]"#;
    let call = item(&format!(r#""type":"computer_call","actions":{actions}"#));
    let found = streams(&read_whole(call.as_bytes()));
    let inputs = found[0].parts.iter();
    let mut inputs = inputs.filter(|part| part.channel == Channel::ToolInput);
    assert_eq!(inputs.next().unwrap().bytes, actions.as_bytes());
    let program = item(r#""type":"program_output","result":"owl""#);
    let image = item(r#""type":"image_generation_call","result":"owl""#);
    assert_eq!(outputs(&program)[0].2, text);
    assert_eq!(outputs(&image), []);
    let shell = |event: &str| {
        format!(
            r#"data: {{"type":"response.shell_call_output_content.{event},"output_index":0,"item_id":"i","command_index":0}}"#
        ) + "\n\n"
    };
    let delta = shell(r#"delta","delta":{"stdout":"owl"}"#);
    let done = shell(r#"done","output":[{"stdout":"owl","stderr":"","outcome":{"type":"exit"}}]"#);
    for event in [&delta, &done] {
        assert_eq!(outputs(event)[0].2, text, "{event}");
        let found = streams(&read_whole(event.as_bytes()));
        assert_eq!(found[0].unscanned_bytes(), 0, "{event}");
    }
    // The item repeats the whole output.
    let item = r#"data: {"type":"response.output_item.done","output_index":0,"item":{"id":"i","type":"shell_call_output","output":[{"stdout":"owl","stderr":""}]}}"#;
    assert_eq!(outputs(&format!("{done}{item}\n\n")).len(), 1);
}

#[test]
fn the_streamed_output_of_a_hosted_shell_is_one_part_for_each_command_and_stream() {
    let event = |event: &str| {
        let place = r#""output_index":1,"item_id":"i""#;
        format!(r#"data: {{"type":"response.{event},{place}}}"#) + "\n\n"
    };
    let delta = |command: u8, stream: &str, text: &str| {
        event(&format!(
            r#"shell_call_output_content.delta","command_index":{command},"delta":{{"{stream}":"{text}"}}"#
        ))
    };
    let done = |command: u8, stdout: &str, stderr: &str| {
        event(&format!(
            r#"shell_call_output_content.done","command_index":{command},"output":[{{"stdout":"{stdout}","stderr":"{stderr}","outcome":{{"type":"exit","exit_code":0}}}}]"#
        ))
    };
    let item = r#"{"id":"i","call_id":"c","type":"shell_call_output","output":[{"stdout":"owlet","stderr":"hoot"},{"stdout":"wing","stderr":"","note":"n"}]}"#;
    let item = event(&format!(r#"output_item.done","item":{item}"#));
    let start =
        r#"{"id":"i","call_id":"c","type":"shell_call_output","status":"in_progress","output":[]}"#;
    let start = event(&format!(r#"output_item.added","item":{start}"#));
    let found = |text: &str| {
        let tool = Some("shell_call_output".to_owned());
        (tool, Some(ToolOutcome::Ok), text.to_owned())
    };
    let deltas = [
        start.clone(),
        delta(0, "stdout", "ow"),
        delta(0, "stderr", "ho"),
        delta(0, "stdout", "let"),
        delta(0, "stderr", "ot"),
        done(0, "owlet", "hoot"),
        delta(1, "stdout", "wi"),
        delta(1, "stdout", "ng"),
    ];
    let deltas = deltas.concat();
    let streamed = ["owlet", "hoot", "wing"].map(found);
    assert_eq!(outputs(&deltas), streamed);
    // The item repeats what streamed, and adds what did not.
    let all = ["owlet", "hoot", "wing", "n"].map(found);
    assert_eq!(outputs(&format!("{deltas}{item}")), all);
    assert_eq!(
        outputs(&format!("{deltas}{}{item}", done(1, "wing", ""))),
        all
    );
    assert_eq!(outputs(&format!("{start}{item}")), all);
    // A text that is not the one that streamed is a part of its own or a repetition that is compared.
    let text = event(r#"shell_call_output_content.delta","command_index":0,"delta":"owl""#);
    assert_eq!(
        outputs(&format!("{start}{text}{text}")),
        ["owlowl"].map(found)
    );
}

/// Returns the sorted texts of the parts with reasoning and the number of bytes that are not scanned, after reading a delta, a message,
/// and a message beside a delta with these members.
fn reasoning_of(members: &str) -> (Vec<String>, u64) {
    let body = |choice: &str| {
        format!(r#"{{"id":"c","choices":[{{"index":0,{choice},"finish_reason":"stop"}}]}}"#)
    };
    let members = format!(r#"{{"role":"assistant",{members}}}"#);
    let found = [
        body(&format!(r#""delta":{members}"#)),
        body(&format!(r#""message":{members}"#)),
        body(&format!(r#""delta":{{}},"message":{members}"#)),
    ];
    let found = found.map(|body| {
        let events = read_whole(format!("data: {body}\n\n").as_bytes());
        let streams = streams(&events);
        let parts = streams[0].parts.iter();
        let parts = parts.filter(|part| part.channel == Channel::Reasoning);
        let texts = parts.map(|part| String::from_utf8(part.bytes.clone()).unwrap());
        let mut texts: Vec<_> = texts.collect();
        texts.sort();
        (texts, streams[0].unscanned_bytes())
    });
    assert!(found.iter().all(|it| *it == found[0]), "{found:?}");
    let [first, ..] = found;
    first
}

#[test]
fn reasoning_of_chat_completions_is_read_in_every_member_once() {
    let blocks = r#"[{"type":"thinking","thinking":"owl","signature":"EuYB"},{"type":"redacted_thinking","data":"EmwK"}]"#;
    let details = r#"[{"type":"reasoning.text","text":"owl","signature":null,"format":"f","index":0,"id":"r"},{"type":"reasoning.encrypted","data":"EmwK"}]"#;
    let summary = r#"[{"type":"reasoning.summary","summary":"owl"}]"#;
    let two = r#"[{"thinking":"o"},{"thinking":"wl"}]"#;
    for members in [
        r#""thinking":"owl""#.to_owned(),
        format!(r#""thinking_blocks":{blocks}"#),
        format!(r#""reasoning_details":{details}"#),
        format!(r#""reasoning_details":{summary}"#),
        format!(r#""provider_specific_fields":{{"thinking_blocks":{blocks}}}"#),
        r#""provider_specific_fields":{"reasoning_content":"owl","signature":"EuYB"}"#.to_owned(),
        format!(
            r#""reasoning_content":"owl","thinking_blocks":{blocks},"provider_specific_fields":{{"reasoning_content":"owl","thinking_blocks":{blocks}}}"#
        ),
        format!(r#""reasoning":"owl","reasoning_details":{details}"#),
        format!(
            r#""thinking_blocks":{two},"provider_specific_fields":{{"thinking_blocks":{two}}}"#
        ),
        format!(r#""reasoning":"owl","thinking_blocks":{two}"#),
    ] {
        assert_eq!(
            reasoning_of(&members),
            (vec!["owl".to_owned()], 0),
            "{members}"
        );
    }
    for (members, texts) in [
        (
            format!(r#""reasoning":"Hm.","reasoning_details":{details}"#),
            ["Hm.", "owl"],
        ),
        (
            r#""thinking":"owl","content":[{"type":"thinking","thinking":"wing"}]"#.to_owned(),
            ["owl", "wing"],
        ),
    ] {
        let texts = texts.map(str::to_owned).to_vec();
        assert_eq!(reasoning_of(&members), (texts, 0), "{members}");
    }
    // What no rule reads is counted.
    for (members, unscanned) in [
        (r#""thinking_blocks":[{"thinking":{"a":"owl"}}]"#, 3),
        (r#""thinking_blocks":"owl""#, 3),
        (r#""provider_specific_fields":{"other":"owl"}"#, 3),
    ] {
        assert_eq!(reasoning_of(members), (vec![], unscanned), "{members}");
    }
}

/// Returns the texts of the parts with reasoning, sorted, and the number of bytes that are not scanned, after reading deltas
/// with these members.
fn reasoning_of_deltas(deltas: &[impl AsRef<str>]) -> (Vec<String>, u64) {
    let chunk =
        |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{{delta}}}}}]}}\n\n");
    let body: String = deltas.iter().map(|delta| chunk(delta.as_ref())).collect();
    // Each event is read alone, so that those that differ only in their text are not parsed.
    let mut events = Vec::new();
    let mut on = |stream: &str, event: Event| events.push((stream.to_owned(), event));
    let mut reader = Reader::new("file");
    for event in body.split_inclusive("\n\n") {
        reader.push_records(event.as_bytes(), &mut |_| {}, &mut on);
    }
    reader.finish(&mut on);
    let streams = streams(&events);
    let Some(stream) = streams.first() else {
        return (Vec::new(), 0);
    };
    let parts = stream.parts.iter();
    let texts = parts.map(|part| String::from_utf8_lossy(&part.bytes).into_owned());
    let mut texts: Vec<_> = texts.collect();
    texts.sort();
    (texts, stream.unscanned_bytes())
}

#[test]
fn a_copy_of_reasoning_that_differs_later_is_read_from_its_beginning() {
    let both = |text: &str| format!(r#""reasoning":"{text}","thinking":"{text}""#);
    let of = |name: &str, text: &str| format!(r#""{name}":"{text}""#);
    let differing = r#""reasoning":"hello","thinking":"rf /""#.to_owned();
    let divided =
        r#""reasoning":"owl","reasoning_details":[{"text":"o"},{"text":"wl"}]"#.to_owned();
    let joined = r#""reasoning":"s","reasoning_details":[{"text":"s"}]"#.to_owned();
    let differing_list =
        r#""reasoning":"!","reasoning_details":[{"text":" ho"},{"text":"ots"}]"#.to_owned();
    let rm = both("rm -");
    let cases: [(&[&String], &[&str]); 11] = [
        (&[&rm, &both("rf /")], &["rm -rf /"]),
        (&[&rm, &differing], &["rm -hello", "rm -rf /"]),
        (&[&rm, &of("thinking", "rf /")], &["rm -", "rm -rf /"]),
        (
            &[&rm, &of("reasoning", "x"), &of("reasoning", "y")],
            &["rm -xy"],
        ),
        (
            &[
                &rm,
                &of("reasoning", "x"),
                &of("reasoning", "y"),
                &of("thinking", "rf /"),
            ],
            &["rm -rf /", "rm -xy"],
        ),
        (
            &[&rm, &of("reasoning", "x"), &both("rf /")],
            &["rm -rf /", "rm -xrf /"],
        ),
        // A copy begins where the other member does.
        (
            &[&of("reasoning", "rm -"), &both("rf /")],
            &["rf /", "rm -rf /"],
        ),
        // Half of a pair is joined with the other half.
        (
            &[&rm, &of("reasoning", "\\ud83d"), &both("rf /")],
            &["rm -rf /", "rm -\u{FFFD}rf /"],
        ),
        (
            &[&of("reasoning", "\\ud83d"), &both("rf /")],
            &["rf /", "\u{FFFD}rf /"],
        ),
        (&[&divided, &joined, &divided], &["owlsowl"]),
        (
            &[&divided, &joined, &differing_list],
            &["owls hoots", "owls!"],
        ),
    ];
    for (deltas, texts) in cases {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(reasoning_of_deltas(deltas), (texts, 0), "{deltas:?}");
    }
}

#[test]
fn reasoning_that_differs_from_its_copy_too_late_is_counted() {
    let both = |text: &str| format!(r#""reasoning":"{text}","thinking":"{text}""#);
    for (len, lost) in [(32 << 10, 0), (33 << 10, 66 << 10)] {
        let text = "a".repeat(len);
        let deltas = [both(&text), both(&text), r#""thinking":"b""#.to_owned()];
        let (texts, unscanned) = reasoning_of_deltas(&deltas);
        let whole = text.repeat(2);
        let end = if lost > 0 {
            "b".to_owned()
        } else {
            format!("{whole}b")
        };
        let mut want = vec![whole, end];
        want.sort();
        assert!(texts == want);
        assert_eq!(unscanned, lost);
    }
    // Only the beginning that they share is kept.
    let mut deltas = vec![both("ab")];
    deltas.extend((0..100).map(|_| format!(r#""reasoning":"{}""#, "a".repeat(1 << 10))));
    deltas.push(r#""thinking":"b""#.to_owned());
    let (texts, unscanned) = reasoning_of_deltas(&deltas);
    assert!(texts.contains(&"abb".to_owned()));
    assert_eq!(unscanned, 0);
}

/// A delta of three members with reasoning, each a list of texts; the first one, which is no list, has at most one.
fn reasoning_delta() -> impl Strategy<Value = [Vec<&'static str>; 3]> {
    let text = || prop::sample::select(vec!["a", "b", "ab", "\\ud83d", "\\ude00"]);
    let texts = move || prop::collection::vec(text(), 0..3);
    let same = (texts(), texts()).prop_map(|(all, last)| {
        let joined: &str = match &*all.concat() {
            "" => return [vec![], all, last],
            "a" => "a",
            "ab" => "ab",
            "aba" => "aba",
            "aab" => "aab",
            "abb" => "abb",
            _ => "b",
        };
        [vec![joined], all.clone(), all]
    });
    let other = (prop::option::of(text()), texts(), texts())
        .prop_map(|(first, second, third)| [first.into_iter().collect(), second, third]);
    prop_oneof![3 => same, 1 => other]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_whole_text_of_each_member_with_reasoning_is_read(
        deltas in prop::collection::vec(reasoning_delta(), 1..6),
    ) {
        let list = |texts: &[&str], name: &str| {
            let items: Vec<String> = texts.iter().map(|text| format!(r#"{{"{name}":"{text}"}}"#)).collect();
            format!("[{}]", items.join(","))
        };
        let members = deltas.iter().map(|[first, second, third]| {
            let (first, second) = (first.concat(), list(second, "text"));
            format!(r#""reasoning":"{first}","reasoning_details":{second},"thinking_blocks":{}"#, list(third, "thinking"))
        });
        let members: Vec<String> = members.collect();
        let (texts, unscanned) = reasoning_of_deltas(&members);
        prop_assert_eq!(unscanned, 0);
        let whole = (0..3).map(|member| {
            let one = members_of(&deltas, member);
            let text = reasoning_of_deltas(&one).0;
            text.concat()
        });
        let whole: Vec<String> = whole.collect();
        for text in &whole {
            // A copy that has fallen behind is not read: its text is the beginning of another one.
            prop_assert!(texts.iter().any(|read| read.starts_with(text)) || text.is_empty(), "{text:?} is not in {texts:?}");
        }
        for text in &texts {
            prop_assert!(whole.contains(text), "{text:?} is not in {whole:?}");
        }
    }
}

/// Returns the deltas with that member alone.
fn members_of(deltas: &[[Vec<&str>; 3]], member: usize) -> Vec<String> {
    let texts = deltas.iter().map(|delta| delta[member].iter());
    let texts = texts.map(|texts| texts.map(|text| format!(r#"{{"text":"{text}"}}"#)));
    let texts = texts.map(|texts| texts.collect::<Vec<_>>().join(","));
    texts
        .map(|texts| format!(r#""reasoning_details":[{texts}]"#))
        .collect()
}

#[test]
fn calls_that_gemini_makes_itself_are_read() {
    let parts = r#"{"toolCall":{"id":"s","toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["owl"]}}},{"toolResponse":{"id":"s","toolType":"GOOGLE_SEARCH_WEB","response":{"text":"hoot"}}}"#;
    let body = format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":[{parts}]}},"finishReason":"STOP"}}]}}"#
    );
    let tool = Some("GOOGLE_SEARCH_WEB".to_owned());
    let found = streams(&read_whole(body.as_bytes()));
    let inputs = found[0].parts.iter();
    let mut inputs = inputs.filter(|part| part.channel == Channel::ToolInput);
    let call = inputs.next().unwrap();
    assert_eq!(call.bytes, br#"{"queries":["owl"]}"#);
    assert_eq!(call.tool, tool);
    let output = (tool, Some(ToolOutcome::Ok), "hoot".to_owned());
    assert_eq!(outputs(&body), [output]);
    assert_eq!(found[0].unscanned_bytes(), 0);
}

#[test]
fn the_outcome_of_a_tool_call_is_read_from_every_format_that_tells_it() {
    let (ok, error) = (Some(ToolOutcome::Ok), Some(ToolOutcome::Error));
    let anthropic = |block: &str| {
        format!(
            r#"{{"type":"message","id":"m","content":[{{"type":"mcp_tool_use","id":"c1","name":"read","input":{{"p":1}}}},{block}]}}"#
        )
    };
    let gemini = |part: &str| {
        format!(
            r#"{{"responseId":"r","candidates":[{{"content":{{"parts":[{part}]}},"finishReason":"STOP"}}]}}"#
        )
    };
    let line = |members: &str| {
        format!(r#"{{"t":1,"ch":"tool-output","part":"0","tool":"read"{members}}}"#)
    };
    let text = "no such file";
    for (what, body, tool, outcome) in [
        (
            "Anthropic, an error",
            anthropic(
                r#"{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"no such file"}"#,
            ),
            Some("read"),
            error,
        ),
        (
            "Anthropic, MCP, an error in blocks",
            anthropic(
                r#"{"type":"mcp_tool_result","tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"no such "},{"type":"text","text":"file"}]}"#,
            ),
            Some("read"),
            error,
        ),
        (
            "Anthropic, no error",
            anthropic(
                r#"{"type":"mcp_tool_result","tool_use_id":"c1","is_error":false,"content":[{"type":"text","text":"no such file"}]}"#,
            ),
            Some("read"),
            ok,
        ),
        (
            "Anthropic, of a call that is not known, where a missing `is_error` means no",
            anthropic(r#"{"type":"tool_result","tool_use_id":"c9","content":"no such file"}"#),
            None,
            ok,
        ),
        (
            "Gemini, an error",
            gemini(
                r#"{"functionResponse":{"id":"c","name":"read","response":{"error":"no such file"}}}"#,
            ),
            Some("read"),
            error,
        ),
        (
            "Gemini, no error",
            gemini(
                r#"{"functionResponse":{"id":"c","name":"read","response":{"output":"no such file"}}}"#,
            ),
            Some("read"),
            ok,
        ),
        (
            "Gemini, code that failed",
            gemini(
                r#"{"codeExecutionResult":{"outcome":"OUTCOME_FAILED","output":"no such file"}}"#,
            ),
            Some("executableCode"),
            error,
        ),
        (
            "Gemini, code that ran",
            gemini(r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"no such file"}}"#),
            Some("executableCode"),
            ok,
        ),
        (
            "a recording, an error",
            line(r#","outcome":"error","d":"no such file""#),
            Some("read"),
            error,
        ),
        (
            "a recording, no error",
            line(r#","outcome":"ok","d":"no such file""#),
            Some("read"),
            ok,
        ),
        (
            "a recording without outcomes",
            line(r#","d":"no such file""#),
            Some("read"),
            None,
        ),
    ] {
        let expected = (tool.map(str::to_owned), outcome, text.to_owned());
        assert_eq!(outputs(&body), [expected], "{what}");
        let unread: u64 = streams(&read_whole(body.as_bytes()))
            .iter()
            .map(Stream::unscanned_bytes)
            .sum();
        assert_eq!(unread, 0, "{what}");
    }
}

#[test]
fn a_function_response_of_several_members_is_read_as_json() {
    let response = r#"{"error":{"code":5},"output":"half of it"}"#;
    let body = format!(
        r#"{{"responseId":"r","candidates":[{{"content":{{"parts":[{{"functionResponse":{{"name":"f","response":{response}}}}}]}},"finishReason":"STOP"}}]}}"#
    );
    let expected = (
        Some("f".to_owned()),
        Some(ToolOutcome::Error),
        response.to_owned(),
    );
    assert_eq!(outputs(&body), [expected]);
}

#[test]
fn an_outcome_that_comes_late_or_is_no_outcome_is_counted() {
    let counted = |body: &str| {
        let mut kinds = Vec::new();
        for (_, event) in read_whole(body.as_bytes()) {
            match event {
                Event::Unscanned { bytes: 0, kind } => kinds.push(kind),
                Event::Outcome { .. } => kinds.push("told".to_owned()),
                _ => {}
            }
        }
        kinds
    };
    let late = "{\"ch\":\"tool-output\",\"part\":\"0\",\"d\":\"a\"}\n\
                {\"ch\":\"tool-output\",\"part\":\"0\",\"outcome\":\"error\",\"d\":\"b\"}\n";
    assert_eq!(counted(late), ["outcome"]);
    let unknown = r#"{"ch":"tool-output","part":"0","outcome":"maybe","d":"a"}"#;
    assert_eq!(counted(unknown), ["maybe"]);
    let text = r#"{"ch":"text","part":"0","outcome":"ok","d":"a"}"#;
    assert_eq!(counted(text), ["outcome"]);
}

#[test]
fn a_recording_keeps_outcomes_under_every_cut() {
    let (part, other) = (PartId(0), PartId(1));
    let start = |part: PartId| Event::PartStart {
        part,
        name: part.0.to_string(),
        channel: Channel::ToolOutput,
        tool: Some("read".into()),
        call: Some("c".into()),
    };
    let delta = |part, text: &str| Event::Delta {
        part,
        bytes: text.into(),
    };
    let outcome = |part, outcome| Event::Outcome { part, outcome };
    let events = [
        start(part),
        outcome(part, ToolOutcome::Error),
        start(other),
        delta(part, "no such "),
        outcome(other, ToolOutcome::Ok),
        delta(part, "file"),
        Event::PartEnd { part },
        delta(other, "text"),
        Event::PartEnd { part: other },
        Event::Finish {
            reason: "stop".into(),
        },
    ];
    let mut writer = RecordingWriter::new(None);
    let lines: String = events.iter().map(|event| writer.line(7, event)).collect();
    for size in 1..lines.len() {
        let read = read(lines.as_bytes().chunks(size)).0;
        let read: Vec<Event> = read.into_iter().map(|(_, event)| event).collect();
        assert_eq!(read, events, "in pieces of {size}");
    }
}
