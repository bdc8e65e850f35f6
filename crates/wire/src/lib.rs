//! Readers for provider streams: response bytes in, [`Event`]s out.
//!
//! [`Reader`] recognises the format by its content and accepts bytes cut anywhere; the same bytes give the same events
//! however they are cut. It returns no error: input that cannot be read is counted in [`Event::Unscanned`]. This crate
//! does no I/O and knows no rules.
//!
//! # Formats
//!
//! | [`WireFormat`] | source of the format |
//! |---|---|
//! | [`AnthropicMessages`](WireFormat::AnthropicMessages) | Messages API, `anthropic-version: 2023-06-01` |
//! | [`OpenAiChat`](WireFormat::OpenAiChat) | Chat Completions and legacy Completions, API version `v1` |
//! | [`OpenAiResponses`](WireFormat::OpenAiResponses) | Responses, API version `v1` |
//! | [`Gemini`](WireFormat::Gemini) | `generateContent`, streamed or not: `v1beta`, Vertex AI `v1`, Code Assist `v1internal` |
//! | [`Ollama`](WireFormat::Ollama) | `/api/chat` and `/api/generate` |
//! | [`CohereChat`](WireFormat::CohereChat) | Chat API, `v2` |
//! | [`BedrockConverse`](WireFormat::BedrockConverse) | `Converse` and `ConverseStream`, API version 2023-09-30 |
//! | [`Compact`](WireFormat::Compact), [`Recording`](WireFormat::Recording) | defined by this crate |
//!
//! # Bounds
//!
//! | what | bound |
//! |---|---|
//! | one event, JSON document or binary message | [`sse::CAP`] bytes, or the cap of [`Reader::with_cap`] |
//! | nesting of a JSON document | 128 levels |
//! | parts of a reply | 131,072 |
//! | name of a tool in Chat Completions | 1024 bytes |
//! | reasoning in Chat Completions that is kept for comparison with its copies | 64 KiB |
//! | name of a kind in [`Event::Unscanned`] | 128 characters |
//!
//! # Content and metadata
//!
//! Every string of a reply is one of three things. *Content* becomes a delta and is judged: text, reasoning, refusals,
//! transcripts, tool arguments and code, and, as [`Channel::ToolOutput`](ttsr::Channel::ToolOutput), what a tool of the
//! provider returned: citations, search results, outputs of code. *Known metadata* is neither judged nor counted: ids,
//! `type`, `object`, `model`, `role`, `status`, padding, fingerprints, signatures, encrypted content, images, and the
//! other members that a format lists by name. Every other string is counted by its length in bytes as
//! [`Event::Unscanned`] with its path, such as `choices[].delta.sound`, so that a new member of an API is noticed.
//!
//! ```
//! use ttsr::Event;
//! use ttsr_wire::Reader;
//! let body = br#"data: {"id":"c1","choices":[{"delta":{"content":"Hi","sound":"moo"}}]}"#;
//! let mut unscanned = Vec::new();
//! let mut on = |_: &str, event: Event| {
//!     if let Event::Unscanned { bytes, kind } = event {
//!         unscanned.push((bytes, kind));
//!     }
//! };
//! let mut reader = Reader::new("body.txt");
//! reader.push(body, &mut on);
//! reader.finish(&mut on);
//! assert_eq!(unscanned, [(3, "choices[].delta.sound".to_owned())]);
//! ```

#![warn(missing_docs)]

mod anthropic;
mod bedrock;
mod bedrock_frames;
mod chat_reasoning;
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
mod place;
pub mod recording;
mod reply;
pub mod sse;
mod template;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use bedrock_frames::{EventStreamFrame, EventStreamParser};
use json_lines::{JsonLines, JsonRecord};
use place::{CopySource, NotedPlaces, TextSource, TextSources};
use reply::{EventSink, ReplyEmitter};
use sse::{Sse, SseEvent};
use template::{EventTemplate, PlainDelta};
use ttsr::{Event, PartId};

pub use json::JsonValue;
pub use place::TextCopy;

/// The format of a provider stream, stored or live.
///
/// # Example: the name of the recognised format
/// ```
/// use ttsr_wire::{WireFormat, Reader};
/// let mut reader = Reader::new("body.txt");
/// reader.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n", &mut |_, _| {});
/// assert_eq!(reader.format().map(WireFormat::name), Some("openai-chat"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireFormat {
    /// Anthropic's Messages API, also as Amazon Bedrock passes it on.
    AnthropicMessages,
    /// OpenAI's Chat Completions API and compatible servers, and OpenAI's legacy text completions.
    OpenAiChat,
    /// OpenAI's Responses API.
    OpenAiResponses,
    /// Google's Gemini API, also on Vertex AI, and in the wrapper of Code Assist.
    Gemini,
    /// Ollama's native API.
    Ollama,
    /// Cohere's Chat API, version 2.
    CohereChat,
    /// Amazon Bedrock's Converse API.
    BedrockConverse,
    /// One stream per line: its parts, and its deltas as pairs of a part index and a text.
    Compact,
    /// This crate's [`recording`].
    Recording,
}

impl WireFormat {
    /// Returns the name used in output, such as `openai-chat`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            WireFormat::AnthropicMessages => "anthropic-messages",
            WireFormat::OpenAiChat => "openai-chat",
            WireFormat::OpenAiResponses => "openai-responses",
            WireFormat::Gemini => "gemini",
            WireFormat::Ollama => "ollama",
            WireFormat::CohereChat => "cohere-chat",
            WireFormat::BedrockConverse => "bedrock-converse",
            WireFormat::Compact => "compact",
            WireFormat::Recording => "recording",
        }
    }

    /// Returns the format that `record` belongs to. `event` is the `event` field of server-sent events.
    /// An error or a ping alone is of the format `expected`, if there is one.
    fn recognize(
        event: &str,
        record: &JsonValue<'_>,
        expected: Option<WireFormat>,
    ) -> Option<WireFormat> {
        let kind = record.text("type");
        let has = |key| record.get(key).is_some();
        let is_named_chunk = kind.is_none() && has("choices");
        let kind = kind.as_deref().unwrap_or(event);
        let object = record.text("object").unwrap_or_default();
        if has("deltas") && has("parts") {
            Some(WireFormat::Compact)
        } else if is_named_chunk {
            // Some servers name each event, such as `message`, which is also the type of a message of Anthropic.
            Some(WireFormat::OpenAiChat)
        } else if expected.is_some() && WireFormat::has_no_reply(kind, record) {
            expected
        } else if let Some(format) = WireFormat::recognize_by_member(event, kind, record) {
            Some(format)
        } else if kind.starts_with("response.")
            || openai_responses::RESPONSE_OBJECTS.contains(&&*object)
        {
            Some(WireFormat::OpenAiResponses)
        } else if anthropic::KINDS.contains(&kind) || kind == "error" && has("error") {
            Some(WireFormat::AnthropicMessages)
        } else if kind == "error" && has("message") {
            Some(WireFormat::OpenAiResponses)
        } else if has("choices")
            || object.starts_with("chat.completion")
            || object == "text_completion"
        {
            Some(WireFormat::OpenAiChat)
        } else if recording::is_line(record) {
            Some(WireFormat::Recording)
        } else {
            has("error").then_some(WireFormat::OpenAiChat)
        }
    }

    /// Returns true if the record is an error, or a ping, which servers of several APIs send, and has nothing of a reply.
    fn has_no_reply(kind: &str, record: &JsonValue<'_>) -> bool {
        let has = |key: &str| record.get(key).is_some();
        let is_error = kind == "error" || has("error") || record.bytes("object") == Some(b"error");
        let is_known = is_error || kind == "ping";
        let content = [
            "choices",
            "candidates",
            "content",
            "output",
            "delta",
            "response",
        ];
        let has_message = record.get("message").is_some_and(JsonValue::is_object);
        is_known && !has_message && !content.into_iter().any(has)
    }

    /// Recognises the formats that have a member or a kind that no other format has.
    fn recognize_by_member(event: &str, kind: &str, record: &JsonValue<'_>) -> Option<WireFormat> {
        let choices = record.get("choices").is_some();
        if cohere::KINDS.contains(&kind) || !choices && cohere::is_reply(record) {
            Some(WireFormat::CohereChat)
        } else if bedrock::is_record(event, record) {
            Some(WireFormat::BedrockConverse)
        } else if ollama::is_line(record) {
            Some(WireFormat::Ollama)
        } else if !choices && gemini::is_chunk(record) {
            Some(WireFormat::Gemini)
        } else {
            None
        }
    }
}

/// The kinds of [`Event::Unscanned`] that count damaged events: invalid JSON, an event over the cap, or a damaged
/// message of a binary stream. Text that the model wrote in such an event is lost.
///
/// # Example: a damaged event in a reply
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

/// Reads one file or one response body of any [`WireFormat`], framed as server-sent events, as JSON documents or as
/// Amazon's binary event stream.
///
/// Each reply is a stream of its own. Its name is the id that the provider gave, or the default name (`name#2` for the
/// second reply without an id). Each stream ends with [`Event::Finish`]; the reason of one that breaks off is
/// `truncated`.
///
/// # Example: the text of a reply
/// ```
/// use ttsr::Event;
/// use ttsr_wire::Reader;
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
    records: RecordReader,
}

#[derive(Debug)]
enum Framing {
    /// The start of a line that is too short to identify the framing.
    Undecided(Vec<u8>),
    /// Inside a line that belongs to no known framing.
    Unknown,
    Sse(Sse),
    JsonLines(JsonLines),
    EventStreamParser(EventStreamParser),
}

/// The number of bytes that decides whether a line starts with an SSE field name and a colon.
const SSE_FIELD_LEN: usize = 7;

impl Reader {
    /// Returns a reader. `default_name` names the streams to which the provider gives no id.
    #[must_use]
    pub fn new(default_name: &str) -> Reader {
        Reader::with_cap(default_name, sse::CAP)
    }

    /// Returns a reader that drops and counts single events of more than `cap` bytes.
    ///
    /// # Example: an event over the cap
    /// ```
    /// use ttsr::Event;
    /// use ttsr_wire::{WireFormat, Reader};
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
    /// assert_eq!(reader.format(), Some(WireFormat::OpenAiChat));
    /// assert!(unscanned >= 80);
    /// ```
    #[must_use]
    pub fn with_cap(default_name: &str, cap: usize) -> Reader {
        let records = RecordReader {
            default_name: default_name.to_owned(),
            expected: None,
            reader: None,
            unknown: 0,
            malformed: 0,
            stray: 0,
            ambiguous: 0,
            places: None,
            template: None,
            documents: DocumentsOfEvent::None,
        };
        Reader {
            cap,
            framing: Framing::Undecided(Vec::new()),
            records,
        }
    }

    /// Returns the reader of a reply whose API is known: an error, which has the same form in several formats, is of this
    /// format. Other records are still recognised by their content.
    ///
    /// # Example: an error as the first record
    /// ```
    /// use ttsr_wire::{Reader, WireFormat};
    /// let mut reader = Reader::new("body.txt").expecting(WireFormat::Gemini);
    /// reader.push(b"data: {\"error\":{\"code\":503}}\n\n", &mut |_, _| {});
    /// assert_eq!(reader.format(), Some(WireFormat::Gemini));
    /// ```
    #[must_use]
    pub fn expecting(mut self, format: WireFormat) -> Reader {
        self.records.expected = Some(format);
        self
    }

    /// Returns a reader that notes where the texts of each document are, for [`take_places`](Self::take_places).
    #[must_use]
    pub fn noting_places(mut self) -> Reader {
        self.records.places = Some(NotedPlaces::default());
        self
    }

    /// Returns the places of texts since the last call, by which equal texts of one document are told apart. The first
    /// number of a pair is that of the event with the text, [`Event::Delta`] or [`Event::Snapshot`], since the last call,
    /// from 0. The second is the offset at which the JSON value of the text begins in its document, which is counted
    /// without whitespace around it. Texts without a place are those that are no value of their document, such as
    /// joined texts, and the only text of a document.
    ///
    /// # Example: two equal texts in one chunk
    /// ```
    /// use ttsr_wire::Reader;
    /// let chunk = br#"data: {"choices":[{"delta":{"content":"Hi","reasoning":"Hi"}}]}"#;
    /// let mut reader = Reader::new("body.txt").noting_places();
    /// reader.push(&[chunk, &b"\n\n"[..]].concat(), &mut |_, _| {});
    /// let json = &chunk[6..];
    /// let places = reader.take_places();
    /// let values = places.iter().map(|(_, at)| &json[*at..][..4]);
    /// assert_eq!(values.collect::<Vec<_>>(), [b"\"Hi\"", b"\"Hi\""]);
    /// // The reasoning is read first.
    /// assert!(places[0].0 == 0 && places[0].1 > places[1].1);
    /// ```
    #[must_use]
    pub fn take_places(&mut self) -> Vec<(usize, usize)> {
        let noted = self.records.places.as_mut();
        noted.map(NotedPlaces::take).unwrap_or_default()
    }

    /// Returns the texts since the last call for which there is no event, because they repeat the text of events and are
    /// divided in another way, such as the entries of `reasoning_details` beside `reasoning` in Chat Completions. A host that
    /// replaces text in a document replaces it in them, too. Texts that are divided in the same way are not among them: they
    /// are equal to a text of an event. Their numbers and places are those of [`take_places`](Self::take_places), which is
    /// called after this.
    ///
    /// # Example: a text that is repeated in two pieces
    /// ```
    /// use ttsr_wire::Reader;
    /// let details = r#"[{"text":"Hm. "},{"text":"Hi."}]"#;
    /// let delta = format!(r#"{{"reasoning":"Hm. Hi.","reasoning_details":{details}}}"#);
    /// let chunk = format!(r#"data: {{"choices":[{{"delta":{delta}}}]}}"#);
    /// let mut reader = Reader::new("body.txt").noting_places();
    /// reader.push(format!("{chunk}\n\n").as_bytes(), &mut |_, _| {});
    /// let copies = reader.take_copies();
    /// let texts = copies.iter().map(|copy| (copy.event, copy.offset, &copy.bytes[..]));
    /// assert_eq!(texts.collect::<Vec<_>>(), [(0, 0, &b"Hm. "[..]), (0, 4, b"Hi.")]);
    /// assert!(chunk[6..][copies[1].place.unwrap()..].starts_with(r#""Hi.""#));
    /// ```
    #[must_use]
    pub fn take_copies(&mut self) -> Vec<TextCopy> {
        let noted = self.records.places.as_mut();
        noted.map(NotedPlaces::take_copies).unwrap_or_default()
    }

    /// Returns the number of bytes of text that are kept for comparison with later text.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let reader = self.records.reader.as_ref();
        reader.map_or(0, |(_, reader)| reader.kept_bytes())
    }

    /// Returns the format, or `None` until a record has identified it.
    #[must_use]
    pub fn format(&self) -> Option<WireFormat> {
        self.records.reader.as_ref().map(|(format, _)| *format)
    }

    /// Returns the number of damaged events so far, of the kinds [`MALFORMED`]. The bytes of a damaged event that came
    /// before the format was recognised are counted under the kind `unknown-format`.
    #[must_use]
    pub fn malformed_events(&self) -> u64 {
        self.records.malformed
    }

    /// Returns the number of lines so far that are not read: lines of no known framing, and lines in an event stream that
    /// are neither blank nor a comment nor a field of the standard nor a JSON document. Clients with lenient parsers may
    /// read such a line.
    #[must_use]
    pub fn stray_lines(&self) -> u64 {
        self.records.stray
    }

    /// Returns the number of JSON documents so far in which an object has a name twice. The last one is read; other
    /// readers take the first.
    #[must_use]
    pub fn ambiguous_documents(&self) -> u64 {
        self.records.ambiguous
    }

    /// Reads the next bytes and passes each event to `on` with the name of its stream.
    ///
    /// # Complexity
    /// Linear in the number of bytes. Memory is bounded by the cap and by the parts of open streams: at most 90 bytes
    /// for a part that has ended (300 in OpenAI's formats, which number items and calls, plus the ids of those), and
    /// none for parts past the 131,072nd of a reply. Content of further parts is counted as [`Event::Unscanned`] of the
    /// kind `too-many-parts`. Reasoning that Chat Completions repeats under another name is kept, at most 64 KiB: if the
    /// repetition differs later than that, its beginning is counted under the kind `forgotten-copy`.
    pub fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(&str, Event)) {
        self.push_records(bytes, &mut |_| {}, on);
    }

    /// Reads the next bytes as [`push`](Self::push) does, and passes each record to `seen` before its events: for hosts
    /// that need members of a record that no event has, so that they do not parse it again.
    ///
    /// # Example: the records of a stream
    /// ```
    /// use ttsr_wire::{Reader, WireRecord};
    /// let body = b"data: {\"id\":\"c1\",\"choices\":[],\"seed\":7}\n\ndata: [DONE]\n\n";
    /// let (mut seeds, mut ends) = (Vec::new(), 0);
    /// let mut seen = |record: WireRecord<'_>| match record {
    ///     WireRecord::Object(object) => seeds.extend(object.number("seed")),
    ///     WireRecord::NextDelta => {}
    ///     WireRecord::Done => ends += 1,
    /// };
    /// Reader::new("body.txt").push_records(body, &mut seen, &mut |_, _| {});
    /// assert_eq!((seeds, ends), (vec![7], 1));
    /// ```
    pub fn push_records(
        &mut self,
        bytes: &[u8],
        seen: RecordSink<'_>,
        on: &mut dyn FnMut(&str, Event),
    ) {
        self.frame(bytes, seen, &mut |name, event, _| on(name, event));
    }

    /// Reads a JSON document that is complete, without framing, as [`push_records`](Self::push_records) reads one: for hosts
    /// that frame the input themselves. A document of more bytes than the cap is dropped and counted.
    ///
    /// # Example: an element of an array that has not ended
    /// ```
    /// use ttsr::Event;
    /// use ttsr_wire::{Reader, WireFormat};
    /// let mut reader = Reader::new("body.txt");
    /// let mut text = Vec::new();
    /// let element = br#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}"#;
    /// reader.push_document(element, &mut |_| {}, &mut |_, event| {
    ///     if let Event::Delta { bytes, .. } = event {
    ///         text.extend(bytes);
    ///     }
    /// });
    /// assert_eq!((text, reader.format()), (b"Hi".to_vec(), Some(WireFormat::Gemini)));
    /// ```
    pub fn push_document(
        &mut self,
        document: &[u8],
        seen: RecordSink<'_>,
        on: &mut dyn FnMut(&str, Event),
    ) {
        let record = match document.len() > self.cap {
            true => JsonRecord::Dropped {
                bytes: document.len() as u64,
            },
            false => JsonRecord::Text(document),
        };
        self.records
            .line(record, seen, &mut |name, event, _| on(name, event));
    }

    /// Returns true if the input is Amazon's binary event stream.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        matches!(self.framing, Framing::EventStreamParser(_))
    }

    /// Returns true if bytes wait for the rest of a JSON document that is not in an event stream, or of a binary message.
    #[must_use]
    pub fn has_partial_document(&self) -> bool {
        match &self.framing {
            Framing::JsonLines(lines) => lines.has_partial(),
            Framing::EventStreamParser(frames) => frames.has_partial(),
            _ => false,
        }
    }

    /// Ends the input and with it the open streams. Input in no known format is counted as [`Event::Unscanned`] of the
    /// kind `unknown-format`, and [`Self::format`] stays `None`.
    pub fn finish(&mut self, on: &mut dyn FnMut(&str, Event)) {
        let on: EventSink<'_> = &mut |name, event, _| on(name, event);
        if let Framing::Undecided(head) = &mut self.framing {
            let head = std::mem::take(head);
            self.identify_framing(&head, true, &mut |_| {}, on);
        }
        let records = &mut self.records;
        let seen: RecordSink<'_> = &mut |_| {};
        match &mut self.framing {
            Framing::Undecided(_) | Framing::Unknown => {}
            Framing::Sse(sse) => sse.finish(&mut |event| records.sse(event, seen, on)),
            Framing::JsonLines(lines) => {
                lines.finish(&mut |record| records.line(record, seen, on));
            }
            Framing::EventStreamParser(frames) => {
                frames.finish(&mut |frame| records.frame(frame, seen, on));
            }
        }
        records.finish(on);
        self.framing = Framing::Undecided(Vec::new());
    }

    /// Searches for the first line that identifies the framing; the lines before it are counted.
    fn identify_framing(
        &mut self,
        text: &[u8],
        last: bool,
        seen: RecordSink<'_>,
        on: EventSink<'_>,
    ) {
        let mut rest = text;
        loop {
            let line = rest
                .strip_prefix(b"\xEF\xBB\xBF")
                .unwrap_or(rest)
                .trim_ascii_start();
            // A text does not start with a zero byte; the length of a binary message does.
            if line.first() == Some(&0) && line.len() < bedrock_frames::PRELUDE && !last {
                self.framing = Framing::Undecided(rest.to_vec());
                return;
            }
            if line.first() == Some(&0) && bedrock_frames::length(line).is_some() {
                self.framing = Framing::EventStreamParser(EventStreamParser::with_cap(self.cap));
                return self.frame(line, seen, on);
            }
            let end = memchr::memchr2(b'\r', b'\n', line);
            let word = &line[..end.unwrap_or(line.len())];
            if line.starts_with(b"{") || line.starts_with(b"[") {
                self.framing = Framing::JsonLines(JsonLines::with_cap(self.cap));
                return self.frame(line, seen, on);
            }
            if is_sse(word, end.is_some() || last) {
                self.framing = Framing::Sse(Sse::with_cap(self.cap));
                return self.frame(line, seen, on);
            }
            if end.is_none() && word.len() < SSE_FIELD_LEN && !last {
                self.framing = Framing::Undecided(rest.to_vec());
                return;
            }
            self.records.unknown += word.len() as u64;
            self.records.stray += u64::from(!word.is_empty());
            rest = &line[word.len()..];
            if rest.is_empty() {
                self.framing = if last {
                    Framing::Undecided(Vec::new())
                } else {
                    Framing::Unknown
                };
                return;
            }
        }
    }

    /// Skips the rest of a line that belongs to no known framing.
    fn skip_line(&mut self, bytes: &[u8], seen: RecordSink<'_>, on: EventSink<'_>) {
        let end = memchr::memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
        self.records.unknown += end as u64;
        if end < bytes.len() {
            self.identify_framing(&bytes[end..], false, seen, on);
        }
    }

    fn frame(&mut self, bytes: &[u8], seen: RecordSink<'_>, on: EventSink<'_>) {
        let records = &mut self.records;
        match &mut self.framing {
            Framing::Undecided(head) => {
                head.extend_from_slice(bytes);
                let head = std::mem::take(head);
                self.identify_framing(&head, false, seen, on);
            }
            Framing::Unknown => self.skip_line(bytes, seen, on),
            Framing::Sse(sse) => {
                let begins_event = sse.is_between_events() && sse.has_room_for_event(bytes.len());
                if begins_event && records.continue_event(bytes, seen, on) {
                    return;
                }
                records.documents = DocumentsOfEvent::None;
                sse.push(bytes, &mut |event| records.sse(event, seen, on));
                let is_event = begins_event && sse.is_between_events();
                records.template = match &records.documents {
                    DocumentsOfEvent::Plain(delta) if is_event => EventTemplate::new(bytes, delta),
                    _ => None,
                };
            }
            Framing::JsonLines(lines) => {
                lines.push(bytes, &mut |record| records.line(record, seen, on));
            }
            Framing::EventStreamParser(frames) => {
                frames.push(bytes, &mut |frame| records.frame(frame, seen, on));
            }
        }
    }
}

/// Returns true if the line is a comment or a field of server-sent events; `complete` if nothing can follow `word`.
fn is_sse(word: &[u8], complete: bool) -> bool {
    [&b""[..], b"data", b"event", b"id", b"retry"]
        .iter()
        .any(|field| match word.strip_prefix(*field) {
            Some([]) => complete && !field.is_empty(),
            Some(rest) => rest[0] == b':',
            None => false,
        })
}

/// A record of a provider stream.
///
/// # Example
/// See [`Reader::push_records`].
#[derive(Clone, Copy, Debug)]
pub enum WireRecord<'r> {
    /// A JSON object.
    Object(&'r JsonValue<'r>),
    /// An object that differs from the last one only in the text of its one delta, and in members that no reader reads. It
    /// is not parsed. An event of Messages or Chat Completions that is pushed whole and alone can be one.
    NextDelta,
    /// The end mark `[DONE]`.
    Done,
}

/// Receives records.
pub type RecordSink<'a> = &'a mut dyn FnMut(WireRecord<'_>);

/// The reader of one format: records in, events out.
trait FormatReader: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Reads one JSON object. `kind` is its `type`, or else the `event` field, or else empty.
    fn read_record(&mut self, kind: &str, record: &JsonValue<'_>, on: EventSink<'_>);

    /// Reads the end mark `[DONE]`, which most formats ignore.
    fn on_done(&mut self, _on: EventSink<'_>) {}

    /// Returns the names of the members of a record that are not read and may differ in every record; `None` if the
    /// record, which was one delta and no other event, may be read in another way if it had another text.
    fn variable_members(&self, _record: &JsonValue<'_>) -> Option<&'static [&'static str]> {
        None
    }

    /// Returns the reply of a part to which plain deltas can be appended.
    fn reply_of(&mut self, _part: PartId) -> Option<&mut ReplyEmitter> {
        None
    }

    /// Returns the copies in the records since the last call that are divided in another way than the texts that they repeat.
    fn take_copies(&mut self) -> Vec<CopySource> {
        Vec::new()
    }

    /// Returns the number of bytes of text that are kept for comparison with later text.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Counts bytes that were not scanned.
    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>);

    /// Ends the input.
    fn finish(&mut self, on: EventSink<'_>);
}

/// The documents that were read since the start of the event.
#[derive(Debug)]
enum DocumentsOfEvent {
    None,
    /// One, which is a plain delta.
    Plain(PlainDelta),
    Other,
}

/// The events of one document.
#[derive(Debug, Default)]
struct DocumentEvents {
    count: usize,
    texts: TextSources,
    /// The part and the text of the last delta.
    delta: Option<(PartId, TextSource)>,
}

impl DocumentEvents {
    fn add(&mut self, event: &Event, source: TextSource) {
        self.count += 1;
        if has_text(event) {
            self.texts.add(source);
        }
        if let Event::Delta { part, .. } = event {
            self.delta = Some((*part, source));
        }
    }

    /// Returns the kind of a document that is one record, with these events.
    fn as_plain_delta(
        &self,
        reader: &dyn FormatReader,
        record: &JsonValue<'_>,
        document: &[u8],
    ) -> DocumentsOfEvent {
        let only_delta = self.delta.filter(|_| self.count == 1);
        let plain = only_delta.and_then(|(part, source)| {
            let unread = reader.variable_members(record)?;
            PlainDelta::new(part, source, record, unread, document)
        });
        plain.map_or(DocumentsOfEvent::Other, DocumentsOfEvent::Plain)
    }
}

/// Recognises the format of the framed records, then passes them to its reader.
#[derive(Debug)]
struct RecordReader {
    default_name: String,
    /// The format of an error alone.
    expected: Option<WireFormat>,
    reader: Option<(WireFormat, Box<dyn FormatReader>)>,
    /// Bytes that came before the format was recognised.
    unknown: u64,
    /// The number of damaged events.
    malformed: u64,
    /// The number of lines that are not read.
    stray: u64,
    /// The number of documents in which a name is twice in an object.
    ambiguous: u64,
    /// The places of texts, unless they are not noted.
    places: Option<NotedPlaces>,
    /// The last event, if the next one may differ from it in its text alone.
    template: Option<EventTemplate>,
    documents: DocumentsOfEvent,
}

impl RecordReader {
    fn sse(&mut self, event: SseEvent<'_>, seen: RecordSink<'_>, on: EventSink<'_>) {
        match event {
            SseEvent::Message { event, data, .. } => self.text(event, data, seen, on),
            // Some gateways append an error body without SSE framing to a stream with it.
            SseEvent::Stray(line) if line.starts_with(b"{") => self.text("", line, seen, on),
            SseEvent::Stray(line) => {
                self.stray += 1;
                self.count_unscanned(line.len() as u64, "not-sse", on);
            }
            SseEvent::Dropped { bytes } => self.malformed(bytes, "too-long", on),
        }
    }

    fn line(&mut self, record: JsonRecord<'_>, seen: RecordSink<'_>, on: EventSink<'_>) {
        match record {
            JsonRecord::Text(text) => self.text("", text, seen, on),
            JsonRecord::Dropped { bytes } => self.malformed(bytes, "too-long", on),
        }
    }

    fn frame(&mut self, frame: EventStreamFrame<'_>, seen: RecordSink<'_>, on: EventSink<'_>) {
        match frame {
            EventStreamFrame::Message {
                event,
                exception: true,
                payload,
            } => {
                let message = JsonValue::parse(payload)
                    .and_then(|(value, _)| Some(value.text("message")?.into_owned()))
                    .unwrap_or_else(|| String::from_utf8_lossy(payload).into_owned());
                let error = serde_json::json!({"type": event, "message": message});
                let record = serde_json::json!({"type": "error", "error": error});
                self.text("error", record.to_string().as_bytes(), seen, on);
            }
            EventStreamFrame::Message { event, payload, .. } => {
                self.text(event, payload, seen, on);
            }
            EventStreamFrame::Lost { bytes, kind } => self.malformed(bytes, kind, on),
        }
    }

    fn text(&mut self, event: &str, text: &[u8], seen: RecordSink<'_>, on: EventSink<'_>) {
        let text = text.trim_ascii();
        let mut rest = text;
        if rest == b"[DONE]" {
            self.documents = DocumentsOfEvent::Other;
            seen(WireRecord::Done);
            let mut places = self.places.take();
            let (_, reader) = self.reader(WireFormat::OpenAiChat, on);
            reader.on_done(&mut without_place(&mut places, on));
            self.places = places;
            return;
        }
        while !rest.is_empty() {
            let parsed = JsonValue::parse_noting_duplicates(rest);
            let Some((value, after, has_duplicates)) = parsed else {
                return self.malformed(rest.len() as u64, "malformed-json", on);
            };
            self.ambiguous += u64::from(has_duplicates);
            let mut found = DocumentEvents::default();
            self.value(event, &value, seen, &mut |name, event, source| {
                found.add(&event, source);
                on(name, event, source);
            });
            rest = after.trim_ascii_start();
            self.documents = match (&self.documents, &self.reader) {
                (DocumentsOfEvent::None, Some((_, reader))) if !has_duplicates => {
                    found.as_plain_delta(&**reader, &value, text)
                }
                _ => DocumentsOfEvent::Other,
            };
            let reader = self.reader.as_mut();
            let copies = reader.map_or_else(Vec::new, |(_, reader)| reader.take_copies());
            if let Some(places) = &mut self.places {
                places.add(found.texts, copies, &value, text);
            }
        }
    }

    /// Reads an event that differs from the last one only in its text. Returns false, and reads nothing, if it does not.
    fn continue_event(&mut self, event: &[u8], seen: RecordSink<'_>, on: EventSink<'_>) -> bool {
        let (Some(template), Some((_, reader))) = (&self.template, &mut self.reader) else {
            return false;
        };
        let part = template.part;
        let (Some(text), Some(reply)) = (template.text(event), reader.reply_of(part)) else {
            return false;
        };
        seen(WireRecord::NextDelta);
        reply.continue_part(part, &text, &mut without_place(&mut self.places, on));
        true
    }

    fn value(
        &mut self,
        event: &str,
        value: &JsonValue<'_>,
        seen: RecordSink<'_>,
        on: EventSink<'_>,
    ) {
        if value.is_array() {
            value
                .items()
                .iter()
                .for_each(|item| self.value(event, item, seen, on));
            return;
        }
        if !value.is_object() {
            return self.malformed(value.raw().len() as u64, "malformed-json", on);
        }
        match unwrapped(value) {
            Some(inner) => match JsonValue::parse(&inner) {
                Some((inner, _)) if inner.is_object() => self.object("", &inner, seen, on),
                _ => self.malformed(inner.len() as u64, "malformed-json", on),
            },
            None => self.object(event, value, seen, on),
        }
    }

    fn object(
        &mut self,
        event: &str,
        value: &JsonValue<'_>,
        seen: RecordSink<'_>,
        on: EventSink<'_>,
    ) {
        seen(WireRecord::Object(value));
        let known = self.reader.as_ref().map(|(format, _)| *format);
        let Some(format) = known.or_else(|| WireFormat::recognize(event, value, self.expected))
        else {
            self.unknown += value.raw().len() as u64;
            return;
        };
        let kind = value.text("type");
        self.reader(format, on)
            .1
            .read_record(kind.as_deref().unwrap_or(event), value, on);
    }

    /// Returns the reader of the format, and creates it for `format` at the first call.
    fn reader(
        &mut self,
        format: WireFormat,
        on: EventSink<'_>,
    ) -> &mut (WireFormat, Box<dyn FormatReader>) {
        let unknown = std::mem::take(&mut self.unknown);
        let name = &self.default_name;
        let reader = self.reader.get_or_insert_with(|| {
            let name = name.clone();
            let reader: Box<dyn FormatReader> = match format {
                WireFormat::AnthropicMessages => Box::new(anthropic::AnthropicReader::new(name)),
                WireFormat::OpenAiChat => Box::new(openai_chat::OpenAiChatReader::new(name)),
                WireFormat::OpenAiResponses => {
                    Box::new(openai_responses::ResponsesReader::new(name))
                }
                WireFormat::Gemini => Box::new(gemini::GeminiReader::new(name)),
                WireFormat::Ollama => Box::new(ollama::OllamaReader::new(name)),
                WireFormat::CohereChat => Box::new(cohere::CohereReader::new(name)),
                WireFormat::BedrockConverse => Box::new(bedrock::ConverseReader::new(name)),
                WireFormat::Compact => Box::new(compact::CompactReader::new(name)),
                WireFormat::Recording => Box::new(recording::RecordingReader::new(name)),
            };
            (format, reader)
        });
        reader.1.count_unscanned(unknown, UNKNOWN_FORMAT, on);
        reader
    }

    /// Counts a damaged event.
    fn malformed(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.malformed += 1;
        self.count_unscanned(bytes, kind, on);
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.documents = DocumentsOfEvent::Other;
        match &mut self.reader {
            Some((_, reader)) => reader.count_unscanned(bytes, kind, on),
            None => self.unknown += bytes,
        }
    }

    fn finish(&mut self, on: EventSink<'_>) {
        match &mut self.reader {
            Some((_, reader)) => reader.finish(&mut without_place(&mut self.places, on)),
            None if self.unknown > 0 => {
                let (bytes, kind) = (std::mem::take(&mut self.unknown), UNKNOWN_FORMAT.to_owned());
                let event = Event::Unscanned { bytes, kind };
                on(&self.default_name, event, TextSource::NONE);
            }
            None => {}
        }
    }
}

fn has_text(event: &Event) -> bool {
    matches!(event, Event::Delta { .. } | Event::Snapshot { .. })
}

/// Returns a sink for events that come from no document.
fn without_place<'s>(
    places: &'s mut Option<NotedPlaces>,
    on: EventSink<'s>,
) -> impl FnMut(&str, Event, TextSource) + 's {
    |name, event, source| {
        if let (Some(places), true) = (&mut *places, has_text(&event)) {
            places.skip_text();
        }
        on(name, event, source);
    }
}

/// Unwraps an event of another API that Bedrock passes on: base64 in `bytes`, with padding in `p`.
fn unwrapped(value: &JsonValue<'_>) -> Option<Vec<u8>> {
    let chunk = value.get("chunk").unwrap_or(value);
    let known = |name: &[u8]| matches!(name, b"bytes" | b"p");
    let wraps = chunk.members().iter().all(|(name, _)| known(name));
    STANDARD
        .decode(chunk.bytes("bytes").filter(|_| wraps)?)
        .ok()
}

const UNKNOWN_FORMAT: &str = "unknown-format";

/// The example of README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
