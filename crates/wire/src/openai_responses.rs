//! OpenAI's Responses API (`v1`): output items, each with parts that stream.
//!
//! Source: the `Response` and `ResponseStreamEvent` schemas of OpenAI's OpenAPI document.
//!
//! Items are identified by `output_index`, or else by their first id: some servers change an item's id in the stream.
//! Content that an item, a `.done` event or the final response repeats is a snapshot; content that comes in no other form
//! is a part.
//! Items of every kind are read by their members, because `arguments`, `input`, `code` and the like mean the same in
//! all kinds. Annotations and what a tool of the provider returned are the output of a tool. Encrypted content and images
//! are known metadata.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use super::FormatReader;
use super::json::JsonValue;
use super::reply::{EventSink, PARTS, PartSpec, ReplyEmitter, ReplySequence, TOO_MANY, TRUNCATED};
use ttsr::Channel;
use ttsr::rule::ToolOutcome;

/// A kind of delta event: `event` is its name without `response.` and `.delta`.
struct DeltaKind {
    event: &'static str,
    /// The member with the content in `.done` events and in items; it also separates the parts of an item.
    member: &'static str,
    channel: Channel,
    /// The member with the index of the part, if an item can have several of this kind.
    index: Option<&'static str>,
}

const fn delta_kind(
    event: &'static str,
    member: &'static str,
    channel: Channel,
    index: Option<&'static str>,
) -> DeltaKind {
    DeltaKind {
        event,
        member,
        channel,
        index,
    }
}

const CONTENT: Option<&str> = Some("content_index");

const DELTA_KINDS: [DeltaKind; 15] = [
    delta_kind("output_text", "text", Channel::Text, CONTENT),
    delta_kind("refusal", "refusal", Channel::Text, CONTENT),
    delta_kind("reasoning_text", "reasoning", Channel::Reasoning, CONTENT),
    delta_kind(
        "reasoning_summary_text",
        "summary",
        Channel::Reasoning,
        Some("summary_index"),
    ),
    delta_kind(
        "function_call_arguments",
        "arguments",
        Channel::ToolInput,
        None,
    ),
    delta_kind("mcp_call_arguments", "arguments", Channel::ToolInput, None),
    delta_kind("mcp_call.arguments", "arguments", Channel::ToolInput, None),
    delta_kind("custom_tool_call_input", "input", Channel::ToolInput, None),
    delta_kind(
        "code_interpreter_call_code",
        "code",
        Channel::ToolInput,
        None,
    ),
    delta_kind(
        "code_interpreter_call.code",
        "code",
        Channel::ToolInput,
        None,
    ),
    delta_kind(
        "shell_call_command",
        "command",
        Channel::ToolInput,
        Some("command_index"),
    ),
    delta_kind(
        "apply_patch_call_operation_diff",
        "diff",
        Channel::ToolInput,
        None,
    ),
    delta_kind("audio.transcript", "transcript", Channel::Text, CONTENT),
    delta_kind("audio_transcript", "transcript", Channel::Text, CONTENT),
    delta_kind(
        "output_audio_transcript",
        "transcript",
        Channel::Text,
        CONTENT,
    ),
];

/// The values of `object` of a whole response, and of a history that the provider has compacted.
pub(super) const RESPONSE_OBJECTS: [&str; 2] = ["response", "response.compaction"];

/// Members of an item that hold a tool's input as text.
const INPUTS: [&str; 5] = ["arguments", "input", "code", "diff", "revised_prompt"];

/// Members of an item that hold a tool's input as JSON.
const OBJECTS: [&str; 4] = ["action", "actions", "operation", "queries"];

/// Members of an item that hold what a tool of the provider returned.
const OUTPUTS: [&str; 6] = ["results", "outputs", "output", "tools", "error", "title"];

/// Members of an element of `output` with what a command in a shell of the provider printed.
const SHELL_STREAMS: [&str; 2] = ["stdout", "stderr"];

/// Properties of an image that the provider generated.
const IMAGE: [&str; 4] = ["background", "output_format", "quality", "size"];

/// All members of an item that are read or are known metadata.
const ITEM: [&str; 29] = [
    "results",
    "outputs",
    "output",
    "tools",
    "error",
    "title",
    "result",
    "background",
    "output_format",
    "quality",
    "size",
    "execution",
    "content",
    "summary",
    "name",
    "phase",
    "caller",
    "namespace",
    "server_label",
    "arguments",
    "input",
    "code",
    "diff",
    "revised_prompt",
    "action",
    "actions",
    "operation",
    "queries",
    "encrypted_content",
];

/// Members of an event that are read or are known metadata.
const EVENT: [&str; 4] = ["delta", "obfuscation", "logprobs", "name"];

/// Members of a response that are read or repeat the request.
const RESPONSE: [&str; 28] = [
    "output",
    "output_text",
    "usage",
    "error",
    "incomplete_details",
    "instructions",
    "tools",
    "tool_choice",
    "metadata",
    "reasoning",
    "text",
    "user",
    "truncation",
    "service_tier",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "conversation",
    "moderation",
    "modalities",
    "output_modalities",
    "voice",
    "audio",
    "output_audio_format",
    "status_details",
    "include",
    "context_management",
];

/// The events with the final response; `response` is the reply to a request without `stream`.
const FINAL: [&str; 6] = [
    "response",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
    "response.done",
];

#[derive(Debug)]
pub(super) struct ResponsesReader {
    replies: ReplySequence,
    items: OutputItems,
}

/// The items of the reply in progress.
#[derive(Debug, Default)]
struct OutputItems {
    id: String,
    list: Vec<OutputItem>,
    by_index: HashMap<u64, usize>,
    /// At most one id of each item, the first one.
    by_id: HashMap<String, usize>,
    /// The JSON delivered last, by the key of its part.
    objects: HashMap<String, DeliveredJson>,
    /// The seed of the hashes in `objects`: a server cannot find two values with one hash.
    seed: RandomState,
}

/// The hashes of a value, which is not kept: a reply may have very many.
#[derive(Debug)]
struct DeliveredJson {
    /// The hash of the members that did not stream.
    others: u64,
    /// The hash of its source text.
    whole: u64,
}

#[derive(Debug, Default)]
struct OutputItem {
    name: String,
    tool: Option<String>,
    call: Option<String>,
    /// True if it is in [`OutputItems::by_id`].
    has_id: bool,
    /// True after it was done once and its unscanned bytes were counted.
    counted: bool,
}

impl ResponsesReader {
    pub(super) fn new(default_name: String) -> ResponsesReader {
        ResponsesReader {
            replies: ReplySequence::new(default_name),
            items: OutputItems::default(),
        }
    }

    fn reply(
        &mut self,
        id: Option<&str>,
        on: EventSink<'_>,
    ) -> (&mut ReplyEmitter, &mut OutputItems) {
        if self.replies.current().is_none() {
            self.items = OutputItems {
                id: id.unwrap_or_default().to_owned(),
                ..OutputItems::default()
            };
        }
        (self.replies.reply(id, on), &mut self.items)
    }

    /// Reads `response.created` and the events up to the final one, which all contain the response so far.
    fn response(&mut self, kind: &str, response: &JsonValue<'_>, on: EventSink<'_>) {
        let id = response.text("id");
        let created = matches!(kind, "response.created" | "response");
        if created && self.replies.current().is_some() && id.as_deref() != Some(&self.items.id) {
            self.replies.finish(TRUNCATED, on);
        }
        let (reply, items) = self.reply(id.as_deref(), on);
        for (index, item) in (0..).zip(response.list("output")) {
            let item_id = item.text("id");
            let known = item_id
                .as_deref()
                .and_then(|id| items.by_id.get(id).copied());
            match known.or_else(|| items.at(Some(index), item_id.as_deref())) {
                Some(at) => read_item(reply, items, at, item, true, on),
                None => reply.count_unscanned(item.content(), TOO_MANY, on),
            }
        }
        if let Some(usage) = response.get("usage") {
            reply.usage(
                usage.number("input_tokens"),
                usage.number("output_tokens"),
                on,
            );
        }
        if let Some(error) = response.get("error") {
            read_error(reply, error, on);
        }
        reply.count_unread(response, &RESPONSE, kind, on);
        if FINAL.contains(&kind) {
            let details = response
                .get("incomplete_details")
                .and_then(|details| details.text("reason"));
            reply.reason = details
                .or(response.text("status"))
                .map(|reason| reason.into_owned());
            self.replies.finish(kind, on);
        }
    }
}

impl FormatReader for ResponsesReader {
    fn read_record(&mut self, kind: &str, record: &JsonValue<'_>, on: EventSink<'_>) {
        if let Some(response) = record.get("response") {
            self.response(kind, response, on);
            self.replies.count_unread(record, &["response"], kind, on);
        } else if record
            .text("object")
            .is_some_and(|it| RESPONSE_OBJECTS.contains(&&*it))
        {
            self.response("response", record, on);
        } else if kind == "error" || record.get("error").is_some() {
            read_error(
                self.reply(None, on).0,
                record.get("error").unwrap_or(record),
                on,
            );
        } else if let Some(event) = kind.strip_prefix("response.") {
            let (reply, items) = self.reply(record.text("response_id").as_deref(), on);
            read_event(reply, items, event, record, on);
        } else {
            self.replies.count_unread(record, &[], kind, on);
        }
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.replies.count_unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: EventSink<'_>) {
        self.replies.close(on);
    }
}

fn read_error(reply: &mut ReplyEmitter, error: &JsonValue<'_>, on: EventSink<'_>) {
    let kind = error
        .text("code")
        .or(error.text("type"))
        .unwrap_or_default();
    let whole = || String::from_utf8_lossy(error.string().unwrap_or(error.raw()));
    reply.error(&kind, &error.text("message").unwrap_or_else(whole), on);
}

fn read_event(
    reply: &mut ReplyEmitter,
    items: &mut OutputItems,
    event: &str,
    record: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let item = record.get("item");
    let id = record
        .text("item_id")
        .or(item.and_then(|item| item.text("id")));
    let Some(at) = items.at(record.number("output_index"), id.as_deref()) else {
        return reply.count_unscanned(record.content(), TOO_MANY, on);
    };
    let (stem, verb) = event.rsplit_once('.').unwrap_or((event, ""));
    if let (Some(kind), "delta" | "done") =
        (DELTA_KINDS.iter().find(|known| known.event == stem), verb)
    {
        let event = DeltaEvent {
            kind,
            is_done: verb == "done",
            record,
        };
        return read_delta_event(reply, items, at, event, on);
    }
    match (event, record.get("delta").map(JsonValue::string)) {
        ("output_item.added" | "output_item.done", _) => {
            if let Some(item) = item {
                read_item(reply, items, at, item, verb == "done", on);
            }
            reply.count_unread(record, &["item"], event, on);
        }
        (
            "content_part.added"
            | "content_part.done"
            | "reasoning_summary_part.added"
            | "reasoning_summary_part.done",
            _,
        ) => {
            let (member, index) = match stem {
                "reasoning_summary_part" => ("summary", "summary_index"),
                _ => ("content", "content_index"),
            };
            let index = record.number(index).unwrap_or(0);
            if let Some(part) = record.get("part") {
                read_part(reply, items, ItemPart::new(at, member, index), part, on);
            }
            reply.count_unread(record, &["part"], event, on);
        }
        ("shell_call_output_content.delta" | "shell_call_output_content.done", _) => {
            read_shell_event(reply, items, at, record, on);
            reply.count_unread(record, &["delta", "output", "obfuscation"], event, on);
        }
        // Audio in base64 has no text to scan.
        ("audio.delta" | "output_audio.delta", _) => {
            reply.count_unread(record, &["obfuscation"], event, on)
        }
        (_, Some(Some(bytes))) => {
            let place = ItemPart::new(at, stem, 0);
            let (key, name) = (items.key(place), items.name(place));
            if !reply.is_open(&key) {
                reply.count_unknown(0, &format!("response.{event}"), on);
            }
            reply.push_delta(PartSpec::new(&key, &name, Channel::Text), bytes, on);
            reply.count_unread(record, &EVENT, event, on);
        }
        _ => {
            if let Some(annotation) = record.get("annotation") {
                tool_strings(reply, items, at, "annotations[]", annotation, &[], on);
            }
            let read = [
                &["annotation", "obfuscation", "partial_image_b64"],
                &IMAGE[..],
            ]
            .concat();
            reply.count_unread(record, &read, &format!("response.{event}"), on);
        }
    }
}

/// An event with a delta of a known kind, or with its whole content.
#[derive(Clone, Copy)]
struct DeltaEvent<'r, 'i> {
    kind: &'static DeltaKind,
    /// True if the event repeats the whole content.
    is_done: bool,
    record: &'r JsonValue<'i>,
}

fn read_delta_event(
    reply: &mut ReplyEmitter,
    items: &OutputItems,
    at: usize,
    event: DeltaEvent<'_, '_>,
    on: EventSink<'_>,
) {
    let DeltaEvent {
        kind,
        is_done,
        record,
    } = event;
    let index = kind
        .index
        .and_then(|member| record.number(member))
        .unwrap_or(0);
    let place = ItemPart::new(at, kind.member, index);
    let (key, name) = (items.key(place), items.name(place));
    let spec = items.part_spec(at, &key, &name, kind.channel);
    let member = match kind.member {
        _ if !is_done => "delta",
        "reasoning" | "summary" => "text",
        member => member,
    };
    let bytes = record.bytes(member).unwrap_or_default();
    if is_done {
        reply.push_whole(spec, bytes, on);
        reply.end(&key, on);
    } else {
        reply.push_delta(spec, bytes, on);
    }
    let read = [member, "obfuscation", "logprobs", "name"];
    reply.count_unread(record, &read, &format!("response.{}", kind.event), on);
}

/// Reads all members of an item that was added or is done.
fn read_item(
    reply: &mut ReplyEmitter,
    items: &mut OutputItems,
    at: usize,
    item: &JsonValue<'_>,
    done: bool,
    on: EventSink<'_>,
) {
    let kind = item.text("type").unwrap_or_default();
    items.describe(at, item);
    for (index, part) in (0..).zip(item.list("content")) {
        read_part(reply, items, ItemPart::new(at, "content", index), part, on);
    }
    for (index, part) in (0..).zip(item.list("summary")) {
        read_part(reply, items, ItemPart::new(at, "summary", index), part, on);
    }
    for member in INPUTS {
        if let Some(value) = item.get(member) {
            text_member(reply, items, at, member, value, on);
        }
    }
    for member in OBJECTS {
        match item.get(member) {
            Some(value) if value.content() > 0 => json_member(reply, items, at, member, value, on),
            _ => {}
        }
    }
    if done {
        reply.end_group(&at.to_string(), on);
    }
    for member in OUTPUTS {
        match item.get(member) {
            Some(value) if member == "output" && value.is_array() => {
                shell_outputs(reply, items, at, (0, value.items()), on);
                if done {
                    reply.end_group(&at.to_string(), on);
                }
            }
            Some(value) => tool_strings(reply, items, at, member, value, &[], on),
            None => {}
        }
    }
    // That of an image is its bytes.
    if let Some(value) = item
        .get("result")
        .filter(|_| kind != "image_generation_call")
    {
        tool_strings(reply, items, at, "result", value, &[], on);
    }
    if done && !std::mem::replace(&mut items.list[at].counted, true) {
        reply.count_unread(item, &ITEM, &kind, on);
    }
}

/// Reads text that an item holds whole. The part opens at once, so that the tool is known before its input comes.
fn text_member(
    reply: &mut ReplyEmitter,
    items: &OutputItems,
    at: usize,
    member: &str,
    value: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let place = ItemPart::new(at, member, 0);
    let (key, name) = (items.key(place), items.name(place));
    let spec = items.part_spec(at, &key, &name, Channel::ToolInput);
    if reply.delivered(&key).is_none() || reply.is_open(&key) {
        reply.open(spec, on);
    }
    reply.push_whole(spec, value.string().unwrap_or(value.raw()), on);
}

/// Reads JSON that an item holds. Commands and diffs in it may have streamed; the other members are a part of their
/// own, and a new part whenever they change.
fn json_member(
    reply: &mut ReplyEmitter,
    items: &mut OutputItems,
    at: usize,
    member: &str,
    value: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let mut streamed = Vec::new();
    for (index, command) in (0..).zip(value.list("commands")) {
        let place = ItemPart::new(at, "command", index);
        if push_streamed_snapshot(reply, items, place, command, on) {
            streamed.push("commands");
        }
    }
    if let Some(diff) = value.get("diff")
        && push_streamed_snapshot(reply, items, ItemPart::new(at, "diff", 0), diff, on)
    {
        streamed.push("diff");
    }
    if value.is_object() && value.unread(&streamed) == 0 {
        return;
    }
    let others = value.members().iter().filter(|(name, value)| {
        value.content() > 0 && !streamed.iter().any(|member| *member.as_bytes() == **name)
    });
    let others: Vec<_> = others
        .flat_map(|(name, value)| [name, value.raw()])
        .collect();
    let place = ItemPart::new(at, member, 0);
    let (key, name) = (items.key(place), items.name(place));
    let new = DeliveredJson {
        others: items.seed.hash_one(others.join(&b'\n')),
        whole: items.seed.hash_one(value.raw()),
    };
    match items.objects.get(&key) {
        Some(old) if old.whole == new.whole => {
            return reply.push_snapshot(&key, value.raw(), on);
        }
        Some(old) if value.is_object() && old.others == new.others => return,
        _ => {}
    }
    reply.end(&key, on);
    reply.push_raw_delta(
        items.part_spec(at, &key, &name, Channel::ToolInput),
        value.raw(),
        on,
    );
    items.objects.insert(key, new);
}

/// Emits the snapshot of a part that streamed; returns false if it did not stream.
fn push_streamed_snapshot(
    reply: &mut ReplyEmitter,
    items: &OutputItems,
    place: ItemPart<'_>,
    value: &JsonValue<'_>,
    on: EventSink<'_>,
) -> bool {
    let (key, name) = (items.key(place), items.name(place));
    let streamed = reply.delivered(&key).is_some_and(|bytes| bytes > 0);
    if streamed {
        reply.push_whole(
            items.part_spec(place.item, &key, &name, Channel::ToolInput),
            value.string().unwrap_or_default(),
            on,
        );
    }
    streamed
}

/// Reads an element of the member `content` or `summary` of an item.
fn read_part(
    reply: &mut ReplyEmitter,
    items: &OutputItems,
    place: ItemPart<'_>,
    part: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let at = place.item;
    let kind = part.text("type").unwrap_or_default();
    let reasoning = kind.starts_with("reasoning");
    for member in ["text", "refusal", "transcript"] {
        let (slot, channel) = match member {
            "text" if place.member == "summary" => ("summary", Channel::Reasoning),
            "text" if reasoning => ("reasoning", Channel::Reasoning),
            _ => (member, Channel::Text),
        };
        let place = ItemPart::new(at, slot, place.index);
        let (key, name) = (items.key(place), items.name(place));
        let bytes = part.bytes(member).unwrap_or_default();
        reply.push_whole(items.part_spec(at, &key, &name, channel), bytes, on);
    }
    for annotation in part.list("annotations") {
        tool_strings(reply, items, at, "annotations[]", annotation, &[], on);
    }
    let read = [
        "text",
        "refusal",
        "transcript",
        "logprobs",
        "annotations",
        "signature",
        "data",
        "format",
    ];
    reply.count_unread(part, &read, &kind, on);
}

/// Reads what a shell of the provider prints: a piece of it, or all that a command has printed.
fn read_shell_event(
    reply: &mut ReplyEmitter,
    items: &OutputItems,
    at: usize,
    record: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let command = record.number("command_index").unwrap_or(0);
    if let Some(delta) = record.get("delta") {
        let read = shell_streams(delta);
        let streams = read.iter().map(|stream| (*stream, delta.bytes(stream)));
        let text = delta.string().map(|text| ("stdout", Some(text)));
        for (stream, text) in streams.chain(text) {
            let place = ItemPart::new(at, stream, command);
            push_shell_output(reply, items, place, text.unwrap_or_default(), false, on);
        }
        if delta.string().is_none() {
            tool_strings(reply, items, at, "delta", delta, &read, on);
        }
    }
    if let Some(output) = record.get("output") {
        match output.is_array() {
            true => shell_outputs(reply, items, at, (command, output.items()), on),
            false => tool_strings(reply, items, at, "output", output, &[], on),
        }
        for stream in SHELL_STREAMS {
            reply.end(&items.key(ItemPart::new(at, stream, command)), on);
        }
    }
}

/// Reads the elements of a whole output. What commands printed may have streamed; the number is that of the command of
/// the first element.
fn shell_outputs(
    reply: &mut ReplyEmitter,
    items: &OutputItems,
    at: usize,
    (first, outputs): (u64, &[JsonValue<'_>]),
    on: EventSink<'_>,
) {
    for (command, output) in (first..).zip(outputs) {
        let read = shell_streams(output);
        for stream in &read {
            let place = ItemPart::new(at, stream, command);
            let text = output.bytes(stream).unwrap_or_default();
            push_shell_output(reply, items, place, text, true, on);
        }
        tool_strings(reply, items, at, "output[]", output, &read, on);
    }
}

/// Returns the names of the members that have what a command printed.
fn shell_streams(value: &JsonValue<'_>) -> Vec<&'static str> {
    let mut streams = SHELL_STREAMS.to_vec();
    streams.retain(|stream| value.bytes(stream).is_some());
    streams
}

/// Emits text that a command printed: a delta of one of its streams, or the whole stream, which may have been emitted.
fn push_shell_output(
    reply: &mut ReplyEmitter,
    items: &OutputItems,
    place: ItemPart<'_>,
    text: &[u8],
    is_whole: bool,
    on: EventSink<'_>,
) {
    let (item, key) = (&items.list[place.item], items.key(place));
    let name = format!("output[].{}", place.member);
    let spec = PartSpec {
        tool: item.tool.as_deref(),
        call: item.call.as_deref(),
        ..PartSpec::new(&key, &name, Channel::ToolOutput)
    };
    let is_repeated = is_whole && reply.delivered(&key).is_some_and(|bytes| bytes > 0);
    // The outcome must be known before the first byte.
    if !text.is_empty() && !is_repeated && reply.open(spec, on).is_some() {
        reply.set_outcome(&key, ToolOutcome::Ok, on);
    }
    match is_whole {
        true => reply.push_whole(spec, text, on),
        false => reply.push_delta(spec, text, on),
    }
}

/// Reads an annotation, or what a tool of the provider returned, without the members in `read`.
fn tool_strings(
    reply: &mut ReplyEmitter,
    items: &OutputItems,
    at: usize,
    name: &str,
    value: &JsonValue<'_>,
    read: &[&str],
    on: EventSink<'_>,
) {
    let item = &items.list[at];
    let group = at.to_string();
    // An annotation is part of a message, not of the result of a call.
    let is_of_call = name != "annotations[]";
    let spec = PartSpec {
        tool: item.tool.as_deref().filter(|_| is_of_call),
        call: item.call.as_deref().filter(|_| is_of_call),
        ..PartSpec::new(&group, name, Channel::ToolOutput)
    };
    let outcome = match name {
        "error" => ToolOutcome::Error,
        _ => ToolOutcome::Ok,
    };
    reply.push_tool_strings_but(spec, outcome, value, read, &["encrypted_content"], on);
}

/// The place of a part: an element of a member of an item.
#[derive(Clone, Copy)]
struct ItemPart<'m> {
    /// The index in [`OutputItems::list`].
    item: usize,
    member: &'m str,
    index: u64,
}

impl<'m> ItemPart<'m> {
    fn new(item: usize, member: &'m str, index: u64) -> ItemPart<'m> {
        ItemPart {
            item,
            member,
            index,
        }
    }
}

impl OutputItems {
    /// Returns the item at that index or of that id, and creates it if it is new. Without either it returns the last
    /// one.
    fn at(&mut self, index: Option<u64>, id: Option<&str>) -> Option<usize> {
        let by_index = index.and_then(|index| self.by_index.get(&index));
        let by_id = id.and_then(|id| self.by_id.get(id));
        let known = by_index.or(by_id.filter(|_| index.is_none()));
        let neither = index.is_none() && id.is_none();
        let at = match known {
            Some(&at) => at,
            None if neither && !self.list.is_empty() => self.list.len() - 1,
            None if self.list.len() >= PARTS => return None,
            None => self.create(index, id),
        };
        // A server may give each event another id, and only the first one is kept.
        if let (Some(id), false) = (id, self.list[at].has_id) {
            self.by_id.insert(id.to_owned(), at);
            self.list[at].has_id = true;
        }
        Some(at)
    }

    fn create(&mut self, index: Option<u64>, id: Option<&str>) -> usize {
        let at = self.list.len();
        self.list.push(OutputItem {
            name: id.map_or_else(|| format!("output/{}", index.unwrap_or(0)), str::to_owned),
            ..OutputItem::default()
        });
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        at
    }

    fn describe(&mut self, at: usize, item: &JsonValue<'_>) {
        let kind = item.text("type");
        let known = &mut self.list[at];
        known.tool = item
            .text("name")
            .or(kind)
            .map(|name| name.into_owned())
            .or(known.tool.take());
        let call = item.text("call_id").or(item.text("id"));
        known.call = known.call.take().or(call.map(|call| call.into_owned()));
    }

    fn key(&self, place: ItemPart<'_>) -> String {
        let ItemPart {
            item,
            member,
            index,
        } = place;
        format!("{item}/{member}/{index}")
    }

    /// Returns the name of a part: the item's id and, where an item has several parts, a suffix.
    fn name(&self, place: ItemPart<'_>) -> String {
        let item = &self.list[place.item].name;
        let index = place.index;
        match place.member {
            "arguments" | "input" | "code" | "diff" | "action" => item.clone(),
            "text" | "refusal" | "reasoning" | "command" | "transcript" => {
                format!("{item}/{index}")
            }
            "summary" => format!("{item}/summary/{index}"),
            other => format!("{item}/{other}"),
        }
    }

    fn part_spec<'a>(
        &'a self,
        at: usize,
        key: &'a str,
        name: &'a str,
        channel: Channel,
    ) -> PartSpec<'a> {
        let item = &self.list[at];
        let tool = channel == Channel::ToolInput;
        let (tool, call) = (
            item.tool.as_deref().filter(|_| tool),
            item.call.as_deref().filter(|_| tool),
        );
        PartSpec {
            key,
            name,
            channel,
            tool,
            call,
            name_may_grow: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut ResponsesReader, event: &str) {
        let (event, _) = JsonValue::parse(event.as_bytes()).unwrap();
        reader.read_record("response.output_text.delta", &event, &mut |_, _, _| {});
    }

    /// Returns the number of items, of indices and of ids that are kept.
    fn kept(reader: &ResponsesReader) -> [usize; 3] {
        let items = &reader.items;
        [items.list.len(), items.by_index.len(), items.by_id.len()]
    }

    #[test]
    fn ids_are_kept_for_items_and_not_for_events() {
        let mut reader = ResponsesReader::new("r".to_owned());
        read(&mut reader, r#"{"output_index":0,"delta":"x"}"#);
        for id in 0..1_000 {
            read(
                &mut reader,
                &format!(r#"{{"output_index":0,"item_id":"m{id}","delta":"x"}}"#),
            );
        }
        assert_eq!(kept(&reader), [1, 1, 1]);
        // The first id identifies the item, also if it comes after the item.
        read(&mut reader, r#"{"item_id":"m0","delta":"x"}"#);
        assert_eq!(kept(&reader), [1, 1, 1]);
    }

    #[test]
    fn items_past_the_limit_of_parts_are_not_kept() {
        let mut reader = ResponsesReader::new("r".to_owned());
        for index in 0..PARTS + 1_000 {
            read(
                &mut reader,
                &format!(r#"{{"output_index":{index},"item_id":"m{index}","delta":"x"}}"#),
            );
        }
        assert_eq!(kept(&reader), [PARTS; 3]);
    }
}
