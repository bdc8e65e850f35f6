//! OpenAI's Responses API: output items, each with parts that stream, and repetitions of all that is done.
//!
//! Items are told apart by `output_index` (some servers change an item's id on the way), else by id. What an
//! item, a `.done` event or the final response repeats is a snapshot; what came no other way is a part. Items
//! of any kind are read by their members: `arguments`, `input`, `code` and so on mean the same in all.

use std::collections::HashMap;

use super::Source;
use super::json::Json;
use super::reply::{Naming, PARTS, Replies, Reply, Sink, TOO_MANY, TRUNCATED};
use ttsr::Channel;

/// What streams: the event's name without `response.` and `.delta`.
struct Stem {
    event: &'static str,
    /// The member that holds it, in `.done` events and in items; also what tells parts of an item apart.
    member: &'static str,
    channel: Channel,
    /// The member with its place among its like, if there can be several.
    place: Option<&'static str>,
}

const fn stem(
    event: &'static str,
    member: &'static str,
    channel: Channel,
    place: Option<&'static str>,
) -> Stem {
    Stem {
        event,
        member,
        channel,
        place,
    }
}

const CONTENT: Option<&str> = Some("content_index");

const STEMS: [Stem; 15] = [
    stem("output_text", "text", Channel::Text, CONTENT),
    stem("refusal", "refusal", Channel::Text, CONTENT),
    stem("reasoning_text", "reasoning", Channel::Reasoning, CONTENT),
    stem(
        "reasoning_summary_text",
        "summary",
        Channel::Reasoning,
        Some("summary_index"),
    ),
    stem(
        "function_call_arguments",
        "arguments",
        Channel::ToolInput,
        None,
    ),
    stem("mcp_call_arguments", "arguments", Channel::ToolInput, None),
    stem("mcp_call.arguments", "arguments", Channel::ToolInput, None),
    stem("custom_tool_call_input", "input", Channel::ToolInput, None),
    stem(
        "code_interpreter_call_code",
        "code",
        Channel::ToolInput,
        None,
    ),
    stem(
        "code_interpreter_call.code",
        "code",
        Channel::ToolInput,
        None,
    ),
    stem(
        "shell_call_command",
        "command",
        Channel::ToolInput,
        Some("command_index"),
    ),
    stem(
        "apply_patch_call_operation_diff",
        "diff",
        Channel::ToolInput,
        None,
    ),
    stem("audio.transcript", "transcript", Channel::Text, CONTENT),
    stem("audio_transcript", "transcript", Channel::Text, CONTENT),
    stem(
        "output_audio_transcript",
        "transcript",
        Channel::Text,
        CONTENT,
    ),
];

/// Members of an item that hold a tool's input as text.
const INPUTS: [&str; 5] = ["arguments", "input", "code", "diff", "revised_prompt"];

/// Members of an item that hold a tool's input as JSON.
const OBJECTS: [&str; 3] = ["action", "operation", "queries"];

/// Members of an item that are read here, besides those.
const ITEM: [&str; 16] = [
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
    "operation",
    "queries",
    "encrypted_content",
];

/// Members of an event that are read, or that say nothing of what the model wrote.
const EVENT: [&str; 4] = ["delta", "obfuscation", "logprobs", "name"];

/// Members of a response that are read, or that repeat the request.
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

/// The events whose response is final; `response` is what a request without `stream` gets.
const FINAL: [&str; 6] = [
    "response",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
    "response.done",
];

#[derive(Debug)]
pub(super) struct Responses {
    replies: Replies,
    items: Items,
}

/// The items of the reply under way.
#[derive(Debug, Default)]
struct Items {
    id: String,
    list: Vec<Item>,
    by_place: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    /// The JSON last delivered, by the key of its part.
    objects: HashMap<String, Object>,
}

#[derive(Debug)]
struct Object {
    /// What had not streamed.
    others: Vec<u8>,
    raw: Vec<u8>,
}

#[derive(Debug, Default)]
struct Item {
    name: String,
    tool: Option<String>,
    call: Option<String>,
    /// An event told of its annotations.
    annotated: bool,
    /// It was done once, and what of it is not scanned was counted.
    counted: bool,
}

impl Responses {
    pub(super) fn new(default_name: String) -> Responses {
        Responses {
            replies: Replies::new(default_name),
            items: Items::default(),
        }
    }

    fn reply(&mut self, id: Option<&str>, on: Sink<'_>) -> (&mut Reply, &mut Items) {
        if self.replies.current().is_none() {
            self.items = Items {
                id: id.unwrap_or_default().to_owned(),
                ..Items::default()
            };
        }
        (self.replies.reply(id, on), &mut self.items)
    }

    /// `response.created` and the like, up to the final one, with the response so far in it.
    fn response(&mut self, kind: &str, response: &Json<'_>, on: Sink<'_>) {
        let id = response.text("id");
        let created = matches!(kind, "response.created" | "response");
        if created && self.replies.current().is_some() && id.as_deref() != Some(&self.items.id) {
            self.replies.finish(TRUNCATED, on);
        }
        let (reply, items) = self.reply(id.as_deref(), on);
        for (place, item) in (0..).zip(response.list("output")) {
            let item_id = item.text("id");
            let known = item_id
                .as_deref()
                .and_then(|id| items.by_id.get(id).copied());
            match known.or_else(|| items.at(Some(place), item_id.as_deref())) {
                Some(at) => read_item(reply, items, at, item, true, on),
                None => reply.unscanned(item.content(), TOO_MANY, on),
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
            report(reply, error, on);
        }
        reply.unscanned(response.unread(&RESPONSE), kind, on);
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

impl Source for Responses {
    fn record(&mut self, kind: &str, record: &Json<'_>, on: Sink<'_>) {
        if let Some(response) = record.get("response") {
            self.response(kind, response, on);
            self.replies
                .unscanned(record.unread(&["response"]), kind, on);
        } else if record.text("object").as_deref() == Some("response") {
            self.response("response", record, on);
        } else if kind == "error" || record.get("error").is_some() {
            report(
                self.reply(None, on).0,
                record.get("error").unwrap_or(record),
                on,
            );
        } else if let Some(event) = kind.strip_prefix("response.") {
            let (reply, items) = self.reply(record.text("response_id").as_deref(), on);
            read_event(reply, items, event, record, on);
        } else {
            self.replies.unscanned(record.unread(&[]), kind, on);
        }
    }

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.replies.unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: Sink<'_>) {
        self.replies.close(on);
    }
}

fn report(reply: &mut Reply, error: &Json<'_>, on: Sink<'_>) {
    let kind = error
        .text("code")
        .or(error.text("type"))
        .unwrap_or_default();
    let whole = || String::from_utf8_lossy(error.string().unwrap_or(error.raw()));
    reply.error(&kind, &error.text("message").unwrap_or_else(whole), on);
}

fn read_event(reply: &mut Reply, items: &mut Items, event: &str, record: &Json<'_>, on: Sink<'_>) {
    let item = record.get("item");
    let id = record
        .text("item_id")
        .or(item.and_then(|item| item.text("id")));
    let Some(at) = items.at(record.number("output_index"), id.as_deref()) else {
        return reply.unscanned(record.content(), TOO_MANY, on);
    };
    let (stem, verb) = event.rsplit_once('.').unwrap_or((event, ""));
    if let (Some(stem), "delta" | "done") = (STEMS.iter().find(|known| known.event == stem), verb) {
        return stream(reply, items, at, stem, verb == "done", record, on);
    }
    match (event, record.get("delta").map(Json::string)) {
        ("output_item.added" | "output_item.done", _) => {
            if let Some(item) = item {
                read_item(reply, items, at, item, verb == "done", on);
            }
            reply.unscanned(record.unread(&["item"]), event, on);
        }
        (
            "content_part.added"
            | "content_part.done"
            | "reasoning_summary_part.added"
            | "reasoning_summary_part.done",
            _,
        ) => {
            let summary = stem == "reasoning_summary_part";
            let place = record
                .number(if summary {
                    "summary_index"
                } else {
                    "content_index"
                })
                .unwrap_or(0);
            if let Some(part) = record.get("part") {
                read_part(reply, items, at, place, part, summary, on);
            }
            reply.unscanned(record.unread(&["part"]), event, on);
        }
        // Sound, as base64: there is no text to scan.
        ("audio.delta" | "output_audio.delta", _) => {
            reply.unscanned(record.unread(&["obfuscation"]), event, on)
        }
        (_, Some(Some(bytes))) => {
            let (key, name) = (items.key(at, stem, 0), items.name(at, stem, 0));
            if !reply.is_open(&key) {
                reply.unknown(0, &format!("response.{event}"), on);
            }
            reply.delta(Naming::new(&key, &name, Channel::Text), bytes, on);
            reply.unscanned(record.unread(&EVENT), event, on);
        }
        _ => {
            items.list[at].annotated |= event.contains("annotation");
            reply.unscanned(
                record.unread(&["obfuscation"]),
                &format!("response.{event}"),
                on,
            );
        }
    }
}

/// A delta of a known stem, or all of it again.
fn stream(
    reply: &mut Reply,
    items: &Items,
    at: usize,
    stem: &Stem,
    done: bool,
    record: &Json<'_>,
    on: Sink<'_>,
) {
    let place = stem
        .place
        .and_then(|member| record.number(member))
        .unwrap_or(0);
    let (key, name) = (
        items.key(at, stem.member, place),
        items.name(at, stem.member, place),
    );
    let naming = items.naming(at, &key, &name, stem.channel);
    let member = match stem.member {
        _ if !done => "delta",
        "reasoning" | "summary" => "text",
        member => member,
    };
    let bytes = record.bytes(member).unwrap_or_default();
    if done {
        reply.whole(naming, bytes, on);
        reply.end(&key, on);
    } else {
        reply.delta(naming, bytes, on);
    }
    let read = [member, "obfuscation", "logprobs", "name"];
    reply.unscanned(
        record.unread(&read),
        &format!("response.{}", stem.event),
        on,
    );
}

/// An item as it is added, or once it is done: all of its members.
fn read_item(
    reply: &mut Reply,
    items: &mut Items,
    at: usize,
    item: &Json<'_>,
    done: bool,
    on: Sink<'_>,
) {
    let kind = item.text("type").unwrap_or_default();
    items.describe(at, item);
    for (place, part) in (0..).zip(item.list("content")) {
        read_part(reply, items, at, place, part, false, on);
    }
    for (place, part) in (0..).zip(item.list("summary")) {
        read_part(reply, items, at, place, part, true, on);
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
    if done && !std::mem::replace(&mut items.list[at].counted, true) {
        let sealed = item.get("encrypted_content").map_or(0, Json::content);
        reply.unscanned(sealed, "encrypted_content", on);
        reply.unscanned(item.unread(&ITEM), &kind, on);
    }
}

/// Text that an item holds whole: opened at once, so that the tool is known before its input comes.
fn text_member(
    reply: &mut Reply,
    items: &Items,
    at: usize,
    member: &str,
    value: &Json<'_>,
    on: Sink<'_>,
) {
    let (key, name) = (items.key(at, member, 0), items.name(at, member, 0));
    let naming = items.naming(at, &key, &name, Channel::ToolInput);
    if reply.delivered(&key).is_none() || reply.is_open(&key) {
        reply.open(naming, on);
    }
    reply.whole(naming, value.string().unwrap_or(value.raw()), on);
}

/// JSON that an item holds: commands and diffs in it may have streamed, what else it says is a part of its
/// own, and another one whenever that changed.
fn json_member(
    reply: &mut Reply,
    items: &mut Items,
    at: usize,
    member: &str,
    value: &Json<'_>,
    on: Sink<'_>,
) {
    let mut streamed = Vec::new();
    for (place, command) in (0..).zip(value.list("commands")) {
        if repeated(reply, items, at, "command", place, command, on) {
            streamed.push("commands");
        }
    }
    if let Some(diff) = value.get("diff")
        && repeated(reply, items, at, "diff", 0, diff, on)
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
    let (key, name) = (items.key(at, member, 0), items.name(at, member, 0));
    let new = Object {
        others: others.join(&b'\n'),
        raw: value.raw().to_vec(),
    };
    match items.objects.get(&key) {
        Some(old) if old.raw == new.raw => return reply.snapshot(&key, new.raw, on),
        Some(old) if value.is_object() && old.others == new.others => return,
        _ => {}
    }
    reply.end(&key, on);
    reply.raw_delta(
        items.naming(at, &key, &name, Channel::ToolInput),
        new.raw.clone(),
        on,
    );
    items.objects.insert(key, new);
}

/// The snapshot of a part that streamed; false if it did not.
fn repeated(
    reply: &mut Reply,
    items: &Items,
    at: usize,
    member: &str,
    place: u64,
    value: &Json<'_>,
    on: Sink<'_>,
) -> bool {
    let (key, name) = (items.key(at, member, place), items.name(at, member, place));
    let streamed = reply.delivered(&key).is_some_and(|bytes| bytes > 0);
    if streamed {
        reply.whole(
            items.naming(at, &key, &name, Channel::ToolInput),
            value.string().unwrap_or_default(),
            on,
        );
    }
    streamed
}

/// A content part or summary part of an item.
fn read_part(
    reply: &mut Reply,
    items: &Items,
    at: usize,
    place: u64,
    part: &Json<'_>,
    summary: bool,
    on: Sink<'_>,
) {
    let kind = part.text("type").unwrap_or_default();
    let reasoning = kind.starts_with("reasoning");
    for member in ["text", "refusal", "transcript"] {
        let (slot, channel) = match member {
            "text" if summary => ("summary", Channel::Reasoning),
            "text" if reasoning => ("reasoning", Channel::Reasoning),
            _ => (member, Channel::Text),
        };
        let (key, name) = (items.key(at, slot, place), items.name(at, slot, place));
        let bytes = part.bytes(member).unwrap_or_default();
        reply.whole(items.naming(at, &key, &name, channel), bytes, on);
    }
    let annotations = if items.list[at].annotated {
        "annotations"
    } else {
        ""
    };
    let read = ["text", "refusal", "transcript", "logprobs", annotations];
    reply.unscanned(part.unread(&read), &kind, on);
}

impl Items {
    /// The item at that place or of that id, made if it is new. Without either it is the last one.
    fn at(&mut self, place: Option<u64>, id: Option<&str>) -> Option<usize> {
        let by_place = place.and_then(|place| self.by_place.get(&place));
        let by_id = id.and_then(|id| self.by_id.get(id));
        let known = by_place.or(by_id.filter(|_| place.is_none()));
        let neither = place.is_none() && id.is_none();
        let at = match known {
            Some(&at) => at,
            None if neither && !self.list.is_empty() => self.list.len() - 1,
            None if self.list.len() >= PARTS => return None,
            None => {
                let name =
                    id.map_or_else(|| format!("output/{}", place.unwrap_or(0)), str::to_owned);
                self.list.push(Item {
                    name,
                    ..Item::default()
                });
                self.list.len() - 1
            }
        };
        if let Some(place) = place {
            self.by_place.insert(place, at);
        }
        if let Some(id) = id {
            self.by_id.insert(id.to_owned(), at);
        }
        Some(at)
    }

    fn describe(&mut self, at: usize, item: &Json<'_>) {
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

    fn key(&self, at: usize, member: &str, place: u64) -> String {
        format!("{at}/{member}/{place}")
    }

    /// The item's id, and what tells the part from its others.
    fn name(&self, at: usize, member: &str, place: u64) -> String {
        let item = &self.list[at].name;
        match member {
            "arguments" | "input" | "code" | "diff" | "action" => item.clone(),
            "text" | "refusal" | "reasoning" | "command" | "transcript" => {
                format!("{item}/{place}")
            }
            "summary" => format!("{item}/summary/{place}"),
            other => format!("{item}/{other}"),
        }
    }

    fn naming<'a>(
        &'a self,
        at: usize,
        key: &'a str,
        name: &'a str,
        channel: Channel,
    ) -> Naming<'a> {
        let item = &self.list[at];
        let tool = channel == Channel::ToolInput;
        let (tool, call) = (
            item.tool.as_deref().filter(|_| tool),
            item.call.as_deref().filter(|_| tool),
        );
        Naming {
            key,
            name,
            channel,
            tool,
            call,
            grows: false,
        }
    }
}
