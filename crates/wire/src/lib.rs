//! Wire readers: provider streams in, [`Event`]s out.
//!
//! [`Reader`] recognises the format by its content and takes bytes cut anywhere; the same bytes give the
//! same events. Nothing is an error here: what cannot be read is counted in
//! [`Event::Unscanned`]. It does no I/O, and it knows nothing of rules.

mod anthropic;
mod bedrock;
mod bedrock_frames;
mod cohere;
mod compact;
mod gemini;
mod gemini_args;
mod json;
mod json_lines;
mod ollama;
mod openai_chat;
mod openai_responses;
pub mod opencode;
pub mod recording;
mod reply;
pub mod sse;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use bedrock_frames::{Frame, Frames};
use json::Json;
use json_lines::{JsonLines, Record};
use reply::Sink;
use sse::{Sse, SseEvent};
use ttsr::Event;

/// What the stored or live stream of a provider looks like.
///
/// # Example: what a log says of a body
/// ```
/// use ttsr_wire::{Format, Reader};
/// let mut reader = Reader::new("body.txt");
/// reader.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n", &mut |_, _| {});
/// assert_eq!(reader.format().map(Format::name), Some("openai-chat"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Anthropic's Messages API.
    AnthropicMessages,
    /// OpenAI's Chat Completions API and its many imitations; also the older text completions.
    OpenAiChat,
    /// OpenAI's Responses API.
    OpenAiResponses,
    /// Google's Gemini API, also as Vertex AI has it.
    Gemini,
    /// Ollama's own API.
    Ollama,
    /// Cohere's Chat API, version 2.
    CohereChat,
    /// Amazon Bedrock's Converse API; what Bedrock passes on of Anthropic is [`Self::AnthropicMessages`].
    BedrockConverse,
    /// One stream a line: its parts, and its deltas as pairs of a part's index and text.
    Compact,
    /// Our own [`recording`].
    Recording,
}

impl Format {
    /// The name used in outputs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::AnthropicMessages => "anthropic-messages",
            Format::OpenAiChat => "openai-chat",
            Format::OpenAiResponses => "openai-responses",
            Format::Gemini => "gemini",
            Format::Ollama => "ollama",
            Format::CohereChat => "cohere-chat",
            Format::BedrockConverse => "bedrock-converse",
            Format::Compact => "compact",
            Format::Recording => "recording",
        }
    }

    /// The format in which such a record occurs. `event` is the `event` field of server-sent events.
    fn of(event: &str, record: &Json<'_>) -> Option<Format> {
        let kind = record.text("type");
        let kind = kind.as_deref().unwrap_or(event);
        let object = record.text("object").unwrap_or_default();
        let has = |key| record.get(key).is_some();
        if has("deltas") && has("parts") {
            Some(Format::Compact)
        } else if let Some(format) = Format::of_others(event, kind, record) {
            Some(format)
        } else if kind.starts_with("response.") || object == "response" {
            Some(Format::OpenAiResponses)
        } else if anthropic::KINDS.contains(&kind) || kind == "error" && has("error") {
            Some(Format::AnthropicMessages)
        } else if kind == "error" && has("message") {
            Some(Format::OpenAiResponses)
        } else if has("choices")
            || object.starts_with("chat.completion")
            || object == "text_completion"
        {
            Some(Format::OpenAiChat)
        } else if recording::is_line(record) {
            Some(Format::Recording)
        } else {
            has("error").then_some(Format::OpenAiChat)
        }
    }

    /// The formats that are told by members or kinds that no other has.
    fn of_others(event: &str, kind: &str, record: &Json<'_>) -> Option<Format> {
        let choices = record.get("choices").is_some();
        if cohere::KINDS.contains(&kind) || !choices && cohere::is_reply(record) {
            Some(Format::CohereChat)
        } else if bedrock::is_record(event, record) {
            Some(Format::BedrockConverse)
        } else if ollama::is_line(record) {
            Some(Format::Ollama)
        } else if !choices && gemini::is_chunk(record) {
            Some(Format::Gemini)
        } else {
            None
        }
    }
}

/// The kinds of [`Event::Unscanned`] under which bytes are counted that should have been an event: what is no JSON, is
/// too long, or is a damaged message of a binary stream. Whatever the model wrote in it is lost.
///
/// # Example: a reply of which a piece is missing
/// ```
/// use ttsr::Event;
/// use ttsr_wire::{MALFORMED, Reader};
/// let body = b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"choices\":[{\"del\n\ndata: [DONE]\n\n";
/// let mut lost = 0;
/// let mut reader = Reader::new("body.txt");
/// reader.push(body, &mut |_, event| {
///     if let Event::Unscanned { bytes, kind } = event {
///         lost += if MALFORMED.contains(&kind.as_str()) { bytes } else { 0 };
///     }
/// });
/// assert_eq!((lost, reader.malformed_events()), (17, 1));
/// ```
pub const MALFORMED: [&str; 6] = [
    "malformed-json",
    "too-long",
    "not-event-stream",
    "incomplete-message",
    "bad-checksum",
    "bad-headers",
];

/// Reads one file or one response body of any [`Format`], as server-sent events, as JSON documents or as
/// Amazon's binary event stream.
///
/// Every reply in it is a stream of its own, named by the id that the provider gave it, else by the default
/// name (`name#2` for a second reply without an id); each ends with [`Event::Finish`]. One that breaks off
/// ends with the reason `truncated`.
///
/// # Example: the text of a reply
/// ```
/// use ttsr::{Event, wire::Reader};
/// let body = b"data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n";
/// let mut text = Vec::new();
/// let mut on = |stream: &str, event: Event| {
///     assert_eq!(stream, "c1");
///     if let Event::Delta { bytes, .. } = event {
///         text.extend(bytes);
///     }
/// };
/// let mut reader = Reader::new("body.txt");
/// for byte in body.chunks(1) {
///     reader.push(byte, &mut on);
/// }
/// reader.finish(&mut on);
/// assert_eq!(text, b"Hi");
/// ```
#[derive(Debug)]
pub struct Reader {
    cap: usize,
    framing: Framing,
    records: Records,
}

#[derive(Debug)]
enum Framing {
    /// The start of a line that does not yet tell.
    Undecided(Vec<u8>),
    /// Inside a line that told nothing.
    Alien,
    Sse(Sse),
    JsonLines(JsonLines),
    Frames(Frames),
}

/// So many bytes tell whether a line starts with a field's name and a colon.
const FIELD: usize = 7;

impl Reader {
    /// A reader; `default_name` names the streams for which the provider gives no id.
    #[must_use]
    pub fn new(default_name: &str) -> Reader {
        Reader::with_cap(default_name, sse::CAP)
    }

    /// A reader that drops and counts single events of more than `cap` bytes.
    ///
    /// # Example: an event that is too long
    /// ```
    /// use ttsr::Event;
    /// use ttsr_wire::{Format, Reader};
    /// let mut unscanned = 0;
    /// let mut reader = Reader::with_cap("body.txt", 64);
    /// let short = br#"data: {"id":"c1","choices":[{"index":0,"delta":{}}]}"#;
    /// let long = format!(r#"data: {{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#, "a".repeat(80));
    /// for line in [&short[..], b"\n\n", long.as_bytes(), b"\n\n"] {
    ///     reader.push(line, &mut |_, event| {
    ///         if let Event::Unscanned { bytes, .. } = event {
    ///             unscanned += bytes;
    ///         }
    ///     });
    /// }
    /// assert_eq!(reader.format(), Some(Format::OpenAiChat));
    /// assert!(unscanned >= 80);
    /// ```
    #[must_use]
    pub fn with_cap(default_name: &str, cap: usize) -> Reader {
        let records = Records {
            default_name: default_name.to_owned(),
            source: None,
            unknown: 0,
            malformed: 0,
        };
        Reader {
            cap,
            framing: Framing::Undecided(Vec::new()),
            records,
        }
    }

    /// The format, once a record told it.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        self.records.source.as_ref().map(|(format, _)| *format)
    }

    /// The number of events so far that could not be read, of the kinds [`MALFORMED`]. The bytes of an event that came
    /// before the format was known are told as `unknown-format`.
    #[must_use]
    pub fn malformed_events(&self) -> u64 {
        self.records.malformed
    }

    /// Takes the next bytes; each event goes to `on` with the name of its stream.
    ///
    /// # Complexity
    /// Linear in the bytes. Memory is bounded by the cap and by the parts of open streams: at most 60 bytes for one that
    /// has ended (300 where OpenAI's formats number their items and calls, and the ids of those), and nothing past
    /// 131,072 parts of a reply. What comes in more is counted as [`Event::Unscanned`] of the kind `too-many-parts`.
    pub fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(&str, Event)) {
        self.frame(bytes, on);
    }

    /// The input ended: open streams end too. Of content that was not recognised only its length is told,
    /// as [`Event::Unscanned`] of the kind `unknown-format`, and [`Self::format`] stays `None`.
    pub fn finish(&mut self, on: &mut dyn FnMut(&str, Event)) {
        if let Framing::Undecided(head) = &mut self.framing {
            let head = std::mem::take(head);
            self.decide(&head, true, on);
        }
        let records = &mut self.records;
        match &mut self.framing {
            Framing::Undecided(_) | Framing::Alien => {}
            Framing::Sse(sse) => sse.finish(&mut |event| records.sse(event, on)),
            Framing::JsonLines(lines) => lines.finish(&mut |record| records.line(record, on)),
            Framing::Frames(frames) => frames.finish(&mut |frame| records.frame(frame, on)),
        }
        records.finish(on);
        self.framing = Framing::Undecided(Vec::new());
    }

    /// Looks for the first line that tells the framing; lines that do not are counted.
    fn decide(&mut self, text: &[u8], last: bool, on: Sink<'_>) {
        let mut rest = text;
        loop {
            let line = rest
                .strip_prefix(b"\xEF\xBB\xBF")
                .unwrap_or(rest)
                .trim_ascii_start();
            // No text starts with a zero byte; the length of a binary message does.
            if line.first() == Some(&0) && line.len() < bedrock_frames::PRELUDE && !last {
                self.framing = Framing::Undecided(rest.to_vec());
                return;
            }
            if line.first() == Some(&0) && bedrock_frames::length(line).is_some() {
                self.framing = Framing::Frames(Frames::with_cap(self.cap));
                return self.frame(line, on);
            }
            let end = memchr::memchr2(b'\r', b'\n', line);
            let word = &line[..end.unwrap_or(line.len())];
            if line.starts_with(b"{") || line.starts_with(b"[") {
                self.framing = Framing::JsonLines(JsonLines::with_cap(self.cap));
                return self.frame(line, on);
            }
            if is_sse(word, end.is_some() || last) {
                self.framing = Framing::Sse(Sse::with_cap(self.cap));
                return self.frame(line, on);
            }
            if end.is_none() && word.len() < FIELD && !last {
                self.framing = Framing::Undecided(rest.to_vec());
                return;
            }
            self.records.unknown += word.len() as u64;
            rest = &line[word.len()..];
            if rest.is_empty() {
                self.framing = if last {
                    Framing::Undecided(Vec::new())
                } else {
                    Framing::Alien
                };
                return;
            }
        }
    }

    /// The rest of a line that told nothing.
    fn skip_line(&mut self, bytes: &[u8], on: Sink<'_>) {
        let end = memchr::memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
        self.records.unknown += end as u64;
        if end < bytes.len() {
            self.decide(&bytes[end..], false, on);
        }
    }

    fn frame(&mut self, bytes: &[u8], on: Sink<'_>) {
        let records = &mut self.records;
        match &mut self.framing {
            Framing::Undecided(head) => {
                head.extend_from_slice(bytes);
                let head = std::mem::take(head);
                self.decide(&head, false, on);
            }
            Framing::Alien => self.skip_line(bytes, on),
            Framing::Sse(sse) => sse.push(bytes, &mut |event| records.sse(event, on)),
            Framing::JsonLines(lines) => lines.push(bytes, &mut |record| records.line(record, on)),
            Framing::Frames(frames) => frames.push(bytes, &mut |frame| records.frame(frame, on)),
        }
    }
}

/// Whether the line is a comment or field of server-sent events; `complete` if nothing can follow `word`.
fn is_sse(word: &[u8], complete: bool) -> bool {
    [&b""[..], b"data", b"event", b"id", b"retry"]
        .iter()
        .any(|field| match word.strip_prefix(*field) {
            Some([]) => complete && !field.is_empty(),
            Some(rest) => rest[0] == b':',
            None => false,
        })
}

/// A format's reader: records in, events out.
trait Source: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// One JSON object. `kind` is its `type`, else the `event` field, else empty.
    fn record(&mut self, kind: &str, record: &Json<'_>, on: Sink<'_>);

    /// The end mark `[DONE]`, of which most formats make nothing.
    fn done(&mut self, _on: Sink<'_>) {}

    /// Counts bytes that were not scanned.
    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>);

    /// The input ended.
    fn finish(&mut self, on: Sink<'_>);
}

/// What follows the framing: finds the format, then feeds its reader.
#[derive(Debug)]
struct Records {
    default_name: String,
    source: Option<(Format, Box<dyn Source>)>,
    /// Bytes seen before the format was known.
    unknown: u64,
    /// Events that could not be read.
    malformed: u64,
}

impl Records {
    fn sse(&mut self, event: SseEvent<'_>, on: Sink<'_>) {
        match event {
            SseEvent::Message { event, data, .. } => self.text(event, data, on),
            // A body that follows an SSE one without framing, as gateways do with errors.
            SseEvent::Stray(line) if line.starts_with(b"{") => self.text("", line, on),
            SseEvent::Stray(line) => self.unscanned(line.len() as u64, "not-sse", on),
            SseEvent::Dropped { bytes } => self.malformed(bytes, "too-long", on),
        }
    }

    fn line(&mut self, record: Record<'_>, on: Sink<'_>) {
        match record {
            Record::Text(text) => self.text("", text, on),
            Record::Dropped { bytes } => self.malformed(bytes, "too-long", on),
        }
    }

    fn frame(&mut self, frame: Frame<'_>, on: Sink<'_>) {
        match frame {
            Frame::Message {
                event,
                exception: true,
                payload,
            } => {
                let message = Json::parse(payload)
                    .and_then(|(value, _)| Some(value.text("message")?.into_owned()))
                    .unwrap_or_else(|| String::from_utf8_lossy(payload).into_owned());
                let error = serde_json::json!({"type": event, "message": message});
                let record = serde_json::json!({"type": "error", "error": error});
                self.text("error", record.to_string().as_bytes(), on);
            }
            Frame::Message { event, payload, .. } => self.text(event, payload, on),
            Frame::Lost { bytes, kind } => self.malformed(bytes, kind, on),
        }
    }

    fn text(&mut self, event: &str, text: &[u8], on: Sink<'_>) {
        let mut rest = text.trim_ascii();
        if rest == b"[DONE]" {
            let (_, source) = self.source(Format::OpenAiChat, on);
            return source.done(on);
        }
        while !rest.is_empty() {
            let Some((value, after)) = Json::parse(rest) else {
                return self.malformed(rest.len() as u64, "malformed-json", on);
            };
            self.value(event, &value, on);
            rest = after.trim_ascii_start();
        }
    }

    fn value(&mut self, event: &str, value: &Json<'_>, on: Sink<'_>) {
        if value.is_array() {
            value
                .items()
                .iter()
                .for_each(|item| self.value(event, item, on));
            return;
        }
        if !value.is_object() {
            return self.malformed(value.raw().len() as u64, "malformed-json", on);
        }
        match unwrapped(value) {
            Some(inner) => match Json::parse(&inner) {
                Some((inner, _)) if inner.is_object() => self.object("", &inner, on),
                _ => self.malformed(inner.len() as u64, "malformed-json", on),
            },
            None => self.object(event, value, on),
        }
    }

    fn object(&mut self, event: &str, value: &Json<'_>, on: Sink<'_>) {
        let known = self.source.as_ref().map(|(format, _)| *format);
        let Some(format) = known.or_else(|| Format::of(event, value)) else {
            self.unknown += value.raw().len() as u64;
            return;
        };
        let kind = value.text("type");
        self.source(format, on)
            .1
            .record(kind.as_deref().unwrap_or(event), value, on);
    }

    /// The reader, made for `format` if there is none yet.
    fn source(&mut self, format: Format, on: Sink<'_>) -> &mut (Format, Box<dyn Source>) {
        let unknown = std::mem::take(&mut self.unknown);
        let name = &self.default_name;
        let source = self.source.get_or_insert_with(|| {
            let name = name.clone();
            let source: Box<dyn Source> = match format {
                Format::AnthropicMessages => Box::new(anthropic::Messages::new(name)),
                Format::OpenAiChat => Box::new(openai_chat::Chat::new(name)),
                Format::OpenAiResponses => Box::new(openai_responses::Responses::new(name)),
                Format::Gemini => Box::new(gemini::Chunks::new(name)),
                Format::Ollama => Box::new(ollama::Lines::new(name)),
                Format::CohereChat => Box::new(cohere::Chat::new(name)),
                Format::BedrockConverse => Box::new(bedrock::Converse::new(name)),
                Format::Compact => Box::new(compact::Lines::new(name)),
                Format::Recording => Box::new(recording::Lines::new(name)),
            };
            (format, source)
        });
        source.1.unscanned(unknown, UNKNOWN_FORMAT, on);
        source
    }

    /// Counts an event that cannot be read.
    fn malformed(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.malformed += 1;
        self.unscanned(bytes, kind, on);
    }

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        match &mut self.source {
            Some((_, source)) => source.unscanned(bytes, kind, on),
            None => self.unknown += bytes,
        }
    }

    fn finish(&mut self, on: Sink<'_>) {
        match &mut self.source {
            Some((_, source)) => source.finish(on),
            None if self.unknown > 0 => {
                let (bytes, kind) = (std::mem::take(&mut self.unknown), UNKNOWN_FORMAT.to_owned());
                on(&self.default_name, Event::Unscanned { bytes, kind });
            }
            None => {}
        }
    }
}

/// Bedrock passes on what a model's own API says, as base64 beside padding.
fn unwrapped(value: &Json<'_>) -> Option<Vec<u8>> {
    let chunk = value.get("chunk").unwrap_or(value);
    let known = |name: &[u8]| matches!(name, b"bytes" | b"p");
    let wraps = chunk.members().iter().all(|(name, _)| known(name));
    STANDARD
        .decode(chunk.bytes("bytes").filter(|_| wraps)?)
        .ok()
}

const UNKNOWN_FORMAT: &str = "unknown-format";
