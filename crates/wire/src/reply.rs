//! Turns the fragments of one reply into well-formed events, whatever order a provider sends them in.
//!
//! 1. A part starts before its first delta and ends once.
//! 2. A delta is never empty.
//! 3. The halves of a surrogate pair that the provider cut in two are joined.
//! 4. Content that repeats a part is a snapshot; the first copy of it is a delta.
//! 5. Part ids are consecutive from 0, in the order in which the parts start.
//!
//! This module knows no provider: format readers identify parts by keys of their own.
//!
//! Memory: at most 90 bytes for a part that has ended, however long its name is, and none for parts past [`PARTS`].

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasher;

use super::json::{JsonPath, JsonValue};
use super::place::TextSource;
use ttsr::rule::ToolOutcome;
use ttsr::{Channel, Event, PartId};

/// Receives events, each with the name of its stream and, if it has text, the source of the text.
pub(super) type EventSink<'a> = &'a mut dyn FnMut(&str, Event, TextSource);

/// The reason of a reply that broke off before the provider ended it.
pub(super) const TRUNCATED: &str = "truncated";

/// The most parts of one reply. Content of further parts is counted as unscanned, of the kind [`TOO_MANY`]. The bound
/// is above the default of [`Limits::parts`](ttsr::Limits::parts).
pub(super) const PARTS: usize = 1 << 17;

/// The kind under which content of parts past [`PARTS`] is counted.
pub(super) const TOO_MANY: &str = "too-many-parts";

/// The longest name of an unscanned kind, in characters.
const KIND: usize = 128;

/// The identity of a part, as a format reader gives it with each fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartSpec<'a> {
    /// The key that the format reader uses; at most one part of a key is open.
    pub(super) key: &'a str,
    /// The name that the provider gives the part.
    pub(super) name: &'a str,
    pub(super) channel: Channel,
    pub(super) tool: Option<&'a str>,
    pub(super) call: Option<&'a str>,
    /// True if the tool's name may still grow before the first input.
    pub(super) name_may_grow: bool,
}

impl<'a> PartSpec<'a> {
    /// Returns the identity of a part without a tool.
    pub(super) fn new(key: &'a str, name: &'a str, channel: Channel) -> PartSpec<'a> {
        PartSpec {
            key,
            name,
            channel,
            tool: None,
            call: None,
            name_may_grow: false,
        }
    }
}

/// The state of a part that is kept until the reply ends.
#[derive(Clone, Debug)]
struct EmittedPart {
    bytes: u64,
    /// `None` once the part has ended.
    open: Option<Box<WirePart>>,
    channel: Channel,
    /// True if its bytes came in one fragment, which may be repeated or replaced by deltas.
    is_whole: bool,
}

/// The state of a part that is kept while it is open.
#[derive(Clone, Debug)]
struct WirePart {
    tool: Option<String>,
    call: Option<String>,
    outcome: Option<ToolOutcome>,
    /// The part's key up to the first slash.
    group: String,
    /// A high surrogate at the end of the last delta, whose other half may follow.
    lone: Option<[u8; 3]>,
}

/// The parts whose keys are equal up to the first slash.
#[derive(Clone, Debug, Default)]
struct PartGroup {
    /// In the order in which they opened; some may have ended.
    parts: Vec<u32>,
    /// The number of open parts among them. At 0 the group is removed.
    open: u32,
}

#[derive(Clone, Debug)]
pub(super) struct ReplyEmitter {
    name: String,
    /// By the number of the part, which is also its [`PartId`]. None is removed before the reply ends.
    parts: Vec<EmittedPart>,
    /// The number of open parts.
    open_parts: usize,
    /// The groups with an open part.
    groups: HashMap<String, PartGroup>,
    /// The latest part of each key, and the names in use.
    known: PartIndex,
    /// The latest part and its name, if its `PartStart` was not emitted yet because its tool's name may be a fragment.
    /// Rules must not see a fragment as the name. Every event of the part, and the start of another one, is preceded by
    /// [`emit_start`](Self::emit_start), so at most one part is starting.
    starting: Option<(usize, String)>,
    usage: Option<(u64, u64)>,
    failed: bool,
    /// The reason that the provider gave.
    pub(super) reason: Option<String>,
}

impl ReplyEmitter {
    pub(super) fn new(name: String) -> ReplyEmitter {
        ReplyEmitter {
            name,
            parts: Vec::new(),
            open_parts: 0,
            groups: HashMap::new(),
            known: PartIndex::default(),
            starting: None,
            usage: None,
            failed: false,
            reason: None,
        }
    }

    /// Returns the name of the stream.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of bytes emitted in the latest part of that key.
    pub(super) fn delivered(&self, key: &str) -> Option<u64> {
        let part = self.known.part(key)?;
        Some(self.parts[part].bytes)
    }

    /// Returns the channel of the latest part of that key.
    pub(super) fn channel(&self, key: &str) -> Option<Channel> {
        let part = self.known.part(key)?;
        Some(self.parts[part].channel)
    }

    pub(super) fn is_open(&self, key: &str) -> bool {
        let part = self.known.part(key);
        part.is_some_and(|part| self.parts[part].open.is_some())
    }

    pub(super) fn any_open(&self) -> bool {
        self.open_parts > 0
    }

    /// Returns true if no further part can be opened.
    pub(super) fn is_full(&self) -> bool {
        self.parts.len() >= PARTS
    }

    /// Opens the part unless it is open, and emits its tool if that is new. Returns `None` if there are too many parts.
    pub(super) fn open(&mut self, spec: PartSpec<'_>, on: EventSink<'_>) -> Option<usize> {
        match self.known.part(spec.key) {
            Some(part) if self.parts[part].open.is_some() => {
                self.set_tool(part, spec.tool, spec.call, on);
                Some(part)
            }
            _ => self.start(spec, on),
        }
    }

    /// Emits the outcome of the tool call whose output the part is, unless it is known. Only the output of a tool has
    /// one, and rules must know it before the first byte: any other outcome is counted under the kind `outcome`.
    pub(super) fn set_outcome(&mut self, key: &str, outcome: ToolOutcome, on: EventSink<'_>) {
        let Some(part) = self.known.part(key) else {
            return;
        };
        let EmittedPart {
            bytes,
            open,
            channel,
            ..
        } = &mut self.parts[part];
        match open.as_mut().map(|open| &mut open.outcome) {
            Some(known) if *known == Some(outcome) => {}
            Some(known) if *bytes == 0 && *channel == Channel::ToolOutput => {
                *known = Some(outcome);
                self.emit_start_of(part, on);
                let part = id(part);
                self.emit(Event::Outcome { part, outcome }, on);
            }
            _ => self.count_unknown(0, "outcome", on),
        }
    }

    /// Emits the whole output of a tool call as a part, unless a part of that key was opened before.
    pub(super) fn push_output(
        &mut self,
        spec: PartSpec<'_>,
        outcome: ToolOutcome,
        bytes: &[u8],
        on: EventSink<'_>,
    ) {
        if self.delivered(spec.key).is_some() {
            return;
        }
        if self.open(spec, on).is_none() {
            return self.count_unscanned(bytes.len() as u64, TOO_MANY, on);
        }
        self.set_outcome(spec.key, outcome, on);
        self.push_whole(spec, bytes, on);
        self.end(spec.key, on);
    }

    /// Appends bytes to the part.
    pub(super) fn push_delta(&mut self, spec: PartSpec<'_>, bytes: &[u8], on: EventSink<'_>) {
        if bytes.is_empty() {
            return;
        }
        let Some(part) = self.open_for_delta(spec, on) else {
            return self.count_unscanned(bytes.len() as u64, TOO_MANY, on);
        };
        self.append(part, bytes, on);
    }

    /// Returns true if the part is open and its next delta does not begin another part.
    fn is_continuable(&self, part: PartId) -> bool {
        let part = self.parts.get(part.0 as usize);
        part.is_some_and(|part| part.open.is_some() && !part.is_whole)
    }

    /// Appends bytes to a part for which [`is_continuable`](Self::is_continuable) is true.
    pub(super) fn continue_part(&mut self, part: PartId, bytes: &[u8], on: EventSink<'_>) {
        self.append(part.0 as usize, bytes, on);
    }

    fn append(&mut self, part: usize, bytes: &[u8], on: EventSink<'_>) {
        if let Some(open) = &mut self.parts[part].open {
            let joined = join_surrogates(&mut open.lone, bytes);
            self.deliver(part, joined.into_owned(), TextSource::of(bytes), on);
        }
    }

    /// Returns the part to append to; starts a new one if the open part arrived whole, because a delta after the whole
    /// text begins the text anew.
    fn open_for_delta(&mut self, spec: PartSpec<'_>, on: EventSink<'_>) -> Option<usize> {
        let part = self.open(spec, on)?;
        if !self.parts[part].is_whole {
            return Some(part);
        }
        let open = self.parts[part].open.as_ref();
        let open = open.map(|open| (open.tool.clone(), open.call.clone()));
        let (tool, call) = open.unwrap_or_default();
        self.end_part(part, on);
        self.start(
            PartSpec {
                tool: tool.as_deref(),
                call: call.as_deref(),
                ..spec
            },
            on,
        )
    }

    /// Appends bytes that did not come as JSON text, without joining surrogates.
    pub(super) fn push_raw_delta(&mut self, spec: PartSpec<'_>, bytes: &[u8], on: EventSink<'_>) {
        if bytes.is_empty() {
            return;
        }
        match self.open(spec, on) {
            Some(part) => self.deliver(part, bytes.to_vec(), TextSource::of(bytes), on),
            None => self.count_unscanned(bytes.len() as u64, TOO_MANY, on),
        }
    }

    /// Emits all bytes of the part at once: as a snapshot if some were emitted before, or else as a delta.
    pub(super) fn push_whole(&mut self, spec: PartSpec<'_>, bytes: &[u8], on: EventSink<'_>) {
        if bytes.is_empty() {
            return;
        }
        if self.delivered(spec.key).is_some_and(|bytes| bytes > 0) {
            let source = TextSource::of(bytes);
            return self.emit_snapshot(spec.key, join_all_surrogates(bytes), source, on);
        }
        match self.open(spec, on) {
            Some(part) => {
                self.parts[part].is_whole = true;
                let joined = join_all_surrogates(bytes);
                self.deliver(part, joined, TextSource::of(bytes), on);
            }
            None => self.count_unscanned(bytes.len() as u64, TOO_MANY, on),
        }
    }

    /// Emits a repetition of the latest part of that key, which did not come as JSON text: surrogates are not joined.
    pub(super) fn push_snapshot(&mut self, key: &str, bytes: &[u8], on: EventSink<'_>) {
        self.emit_snapshot(key, bytes.to_vec(), TextSource::of(bytes), on);
    }

    fn emit_snapshot(&mut self, key: &str, bytes: Vec<u8>, source: TextSource, on: EventSink<'_>) {
        if let Some(part) = self.known.part(key) {
            self.emit_start_of(part, on);
            let part = id(part);
            on(&self.name, Event::Snapshot { part, bytes }, source);
        }
    }

    /// Ends the part of that key if it is open.
    pub(super) fn end(&mut self, key: &str, on: EventSink<'_>) {
        if let Some(part) = self.known.part(key) {
            self.end_part(part, on);
        }
    }

    /// Ends every open part of a group (keys equal up to the first slash), in the order in which they opened.
    pub(super) fn end_group(&mut self, group: &str, on: EventSink<'_>) {
        let group = self.groups.get_mut(group);
        let parts = group.map(|group| std::mem::take(&mut group.parts));
        for part in parts.unwrap_or_default() {
            self.end_part(part as usize, on);
        }
    }

    /// Counts `bytes` that are not scanned; does nothing if there are none.
    pub(super) fn count_unscanned(&self, bytes: u64, kind: &str, on: EventSink<'_>) {
        if bytes > 0 {
            self.count_unknown(bytes, kind, on);
        }
    }

    /// Counts the strings of `value` that nothing reads, except metadata and the members with a key in `read`. The kind
    /// of each is its path, which begins with `root`.
    pub(super) fn count_unread(
        &self,
        value: &JsonValue<'_>,
        read: &[&str],
        root: &str,
        on: EventSink<'_>,
    ) {
        self.count_unread_at(value, read, &JsonPath::Root(root), on);
    }

    /// Counts as [`Self::count_unread`], for a value at that path.
    pub(super) fn count_unread_at(
        &self,
        value: &JsonValue<'_>,
        read: &[&str],
        path: &JsonPath<'_>,
        on: EventSink<'_>,
    ) {
        for (bytes, kind) in unread_strings(value, read, path) {
            self.count_unknown(bytes, &kind, on);
        }
    }

    /// Reads every string of `value` that is not metadata as the output of a tool, each as a part of its own, with the
    /// outcome of the call. A string that the reply repeats at the same path is a snapshot of the first one. `spec`
    /// has the group of the parts as its key and the name of the value as its name; `metadata` lists members of the
    /// value and of the objects in it that are known metadata.
    pub(super) fn push_tool_strings(
        &mut self,
        spec: PartSpec<'_>,
        outcome: ToolOutcome,
        value: &JsonValue<'_>,
        metadata: &[&str],
        on: EventSink<'_>,
    ) {
        self.push_tool_strings_but(spec, outcome, value, &[], metadata, on);
    }

    /// Reads as [`Self::push_tool_strings`], without the members of `value` with a key in `read`.
    pub(super) fn push_tool_strings_but(
        &mut self,
        spec: PartSpec<'_>,
        outcome: ToolOutcome,
        value: &JsonValue<'_>,
        read: &[&str],
        metadata: &[&str],
        on: EventSink<'_>,
    ) {
        value.visit_unread(read, &JsonPath::Root(spec.name), &mut |path, text| {
            if path.has_member(metadata) {
                return;
            }
            let name = truncated_kind(&path.to_string());
            let key = format!("{}/{path}={}", spec.key, String::from_utf8_lossy(text));
            let spec = PartSpec {
                key: &key,
                name: &name,
                channel: Channel::ToolOutput,
                ..spec
            };
            if self.delivered(&key).is_some() {
                return self.push_whole(spec, text, on);
            }
            self.push_output(spec, outcome, text, on);
        });
    }

    /// Counts as [`Self::count_unscanned`], but reports zero bytes too: for an unknown kind whose strings were scanned.
    pub(super) fn count_unknown(&self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.emit(
            Event::Unscanned {
                bytes,
                kind: truncated_kind(kind),
            },
            on,
        );
    }

    /// Records the provider's token counts and emits them if they changed. `None` keeps the last value.
    pub(super) fn usage(&mut self, input: Option<u64>, output: Option<u64>, on: EventSink<'_>) {
        let (old_input, old_output) = self.usage.unwrap_or((0, 0));
        let new = (input.unwrap_or(old_input), output.unwrap_or(old_output));
        if (input.is_some() || output.is_some()) && self.usage != Some(new) {
            self.usage = Some(new);
            self.emit(
                Event::Usage {
                    input: new.0,
                    output: new.1,
                },
                on,
            );
        }
    }

    pub(super) fn error(&mut self, kind: &str, message: &str, on: EventSink<'_>) {
        self.failed = true;
        self.emit(
            Event::Error {
                kind: kind.to_owned(),
                message: message.to_owned(),
            },
            on,
        );
    }

    /// Ends all parts and the reply. `reason` applies if the provider gave none.
    pub(super) fn finish(mut self, reason: &str, on: EventSink<'_>) {
        for part in 0..self.parts.len() {
            self.end_part(part, on);
        }
        let reason = match self.reason.take() {
            Some(reason) => reason,
            None if self.failed => "error".to_owned(),
            None => reason.to_owned(),
        };
        self.emit(Event::Finish { reason }, on);
    }

    fn start(&mut self, spec: PartSpec<'_>, on: EventSink<'_>) -> Option<usize> {
        self.emit_start(on);
        if self.is_full() {
            return None;
        }
        let part = self.parts.len();
        let PartSpec {
            key,
            name,
            channel,
            tool,
            call,
            name_may_grow,
        } = spec;
        self.known.set_part(key, part);
        let of_group = self.groups.entry(group_name(key).to_owned()).or_default();
        of_group.parts.push(number(part));
        of_group.open += 1;
        // The capacity grows by an eighth and is not doubled: a reply can have very many parts.
        if part == self.parts.capacity() {
            self.parts.reserve_exact(4.max(part / 8));
        }
        let open = WirePart {
            tool: tool.map(str::to_owned),
            call: call.map(str::to_owned),
            outcome: None,
            group: group_name(key).to_owned(),
            lone: None,
        };
        self.parts.push(EmittedPart {
            bytes: 0,
            open: Some(Box::new(open)),
            channel,
            is_whole: false,
        });
        self.open_parts += 1;
        self.starting = Some((part, self.known.make_unique(name)));
        if !name_may_grow {
            self.emit_start(on);
        }
        Some(part)
    }

    fn emit_start(&mut self, on: EventSink<'_>) {
        let Some((part, name)) = self.starting.take() else {
            return;
        };
        let open = self.parts[part].open.as_ref();
        let event = Event::PartStart {
            part: id(part),
            name,
            channel: self.parts[part].channel,
            tool: open.and_then(|open| open.tool.clone()),
            call: open.and_then(|open| open.call.clone()),
        };
        self.emit(event, on);
    }

    fn is_starting(&self, part: usize) -> bool {
        self.starting
            .as_ref()
            .is_some_and(|(starting, _)| *starting == part)
    }

    fn emit_start_of(&mut self, part: usize, on: EventSink<'_>) {
        if self.is_starting(part) {
            self.emit_start(on);
        }
    }

    fn set_tool(&mut self, part: usize, tool: Option<&str>, call: Option<&str>, on: EventSink<'_>) {
        let is_starting = self.is_starting(part);
        let Some(known) = &mut self.parts[part].open else {
            return;
        };
        let is_changed = tool.is_some_and(|tool| known.tool.as_deref() != Some(tool))
            || call.is_some_and(|call| known.call.as_deref() != Some(call));
        if !is_changed {
            return;
        }
        known.tool = tool.map(str::to_owned).or(known.tool.take());
        known.call = call.map(str::to_owned).or(known.call.take());
        if let (Some(tool), false) = (known.tool.clone(), is_starting) {
            let call = known.call.clone();
            self.emit(
                Event::Tool {
                    part: id(part),
                    tool,
                    call,
                },
                on,
            );
        }
    }

    fn deliver(&mut self, part: usize, bytes: Vec<u8>, source: TextSource, on: EventSink<'_>) {
        if !bytes.is_empty() {
            self.emit_start_of(part, on);
            self.parts[part].bytes += bytes.len() as u64;
            let part = id(part);
            on(&self.name, Event::Delta { part, bytes }, source);
        }
    }

    fn end_part(&mut self, part: usize, on: EventSink<'_>) {
        if self.parts[part].open.is_none() {
            return;
        }
        self.emit_start_of(part, on);
        let Some(open) = self.parts[part].open.take() else {
            return;
        };
        self.open_parts -= 1;
        if open.lone.is_some() {
            self.deliver(part, REPLACEMENT.to_vec(), TextSource::NONE, on);
        }
        if let Some(of_group) = self.groups.get_mut(&open.group) {
            of_group.open -= 1;
            if of_group.open == 0 {
                self.groups.remove(&open.group);
            }
        }
        self.emit(Event::PartEnd { part: id(part) }, on);
    }

    fn emit(&self, event: Event, on: EventSink<'_>) {
        on(&self.name, event, TextSource::NONE);
    }
}

/// Returns the index of a part as `u32`; there are at most [`PARTS`].
fn number(part: usize) -> u32 {
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// Keys and names of parts by their hash, because a provider may choose long ones. The hash is randomly seeded, so
/// that a provider cannot construct collisions.
#[derive(Clone, Debug, Default)]
struct PartIndex {
    seed: RandomState,
    /// By the hash.
    entries: BTreeMap<u64, PartIndexEntry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PartIndexEntry {
    /// The latest part of that key, counted from 1.
    part: u32,
    /// The number of parts that asked for that name; 0 if no part has it.
    times: u32,
}

impl PartIndex {
    fn hash(&self, text: &str) -> u64 {
        self.seed.hash_one(text)
    }

    fn part(&self, key: &str) -> Option<usize> {
        let entry = self.entries.get(&self.hash(key))?;
        Some(entry.part.checked_sub(1)? as usize)
    }

    fn set_part(&mut self, key: &str, part: usize) {
        let key = self.hash(key);
        self.entries.entry(key).or_default().part = number(part) + 1;
    }

    /// Returns `name`, or the first of `name#2`, `name#3`, … that is not in use.
    fn make_unique(&mut self, name: &str) -> String {
        let key = self.hash(name);
        let mut times = self.entries.entry(key).or_default().times + 1;
        let mut unused = name.to_owned();
        while times > 1 && self.is_given(&unused) {
            unused = format!("{name}#{times}");
            times += 1;
        }
        let given = self.hash(&unused);
        self.entries.entry(given).or_default().times = 1;
        self.entries.entry(key).or_default().times = times.max(2) - 1;
        unused
    }

    fn is_given(&self, name: &str) -> bool {
        let entry = self.entries.get(&self.hash(name));
        entry.is_some_and(|entry| entry.times > 0)
    }
}

/// The names in use, each with the number of requests for it.
#[derive(Clone, Debug, Default)]
pub(super) struct UniqueNames(HashMap<String, u32>);

impl UniqueNames {
    /// Returns `name`, or the first of `name#2`, `name#3`, … that is not in use.
    pub(super) fn make_unique(&mut self, name: &str) -> String {
        let mut times = self.0.get(name).copied().unwrap_or(0) + 1;
        let mut unused = name.to_owned();
        while times > 1 && self.0.contains_key(&unused) {
            unused = format!("{name}#{times}");
            times += 1;
        }
        self.0.insert(unused.clone(), 1);
        self.0.insert(name.to_owned(), times.max(2) - 1);
        unused
    }
}

/// The most tool calls whose names are kept for their results.
const CALLS: usize = 64;

/// The most bytes of the id and the name of a kept call.
const CALL: usize = 1024;

/// The ids and the tools of the last calls: the result of a call names only its id.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentCalls(VecDeque<(String, String)>);

impl RecentCalls {
    pub(super) fn record(&mut self, call: Option<&str>, tool: Option<&str>) {
        let Some((call, tool)) = call.zip(tool) else {
            return;
        };
        if call.len() + tool.len() <= CALL {
            if self.0.len() >= CALLS {
                self.0.pop_front();
            }
            self.0.push_back((call.to_owned(), tool.to_owned()));
        }
    }

    pub(super) fn tool_of(&self, call: &str) -> Option<&str> {
        let known = self.0.iter().rfind(|(known, _)| known == call);
        known.map(|(_, tool)| tool.as_str())
    }
}

/// The replies of one stream of records, one after another.
#[derive(Clone, Debug)]
pub(super) struct ReplySequence {
    default_name: String,
    begun: usize,
    current: Option<ReplyEmitter>,
    /// Bytes counted between replies, by kind.
    pending: Vec<(u64, String)>,
}

impl ReplySequence {
    pub(super) fn new(default_name: String) -> ReplySequence {
        ReplySequence {
            default_name,
            begun: 0,
            current: None,
            pending: Vec::new(),
        }
    }

    /// Returns the reply in progress.
    pub(super) fn current(&self) -> Option<&ReplyEmitter> {
        self.current.as_ref()
    }

    /// Begins a reply; one in progress ends as truncated.
    pub(super) fn begin(&mut self, id: Option<&str>, on: EventSink<'_>) -> &mut ReplyEmitter {
        self.finish(TRUNCATED, on);
        self.begun += 1;
        let name = match id {
            Some(id) => id.to_owned(),
            None if self.begun == 1 => self.default_name.clone(),
            None => format!("{}#{}", self.default_name, self.begun),
        };
        let reply = self.current.insert(ReplyEmitter::new(name));
        for (bytes, kind) in self.pending.drain(..) {
            reply.count_unknown(bytes, &kind, on);
        }
        reply
    }

    /// Returns the reply in progress, or begins one.
    pub(super) fn reply(&mut self, id: Option<&str>, on: EventSink<'_>) -> &mut ReplyEmitter {
        if self.current.is_none() {
            self.begin(id, on);
        }
        self.current
            .as_mut()
            .expect("a reply was begun where there was none")
    }

    /// Returns the reply in progress, if that part of it is open and its next delta does not begin another part.
    pub(super) fn reply_of(&mut self, part: PartId) -> Option<&mut ReplyEmitter> {
        self.current
            .as_mut()
            .filter(|reply| reply.is_continuable(part))
    }

    /// Counts bytes for the reply in progress, or else for the next one.
    pub(super) fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        match &self.current {
            Some(reply) => reply.count_unscanned(bytes, kind, on),
            None if bytes > 0 => add_pending(&mut self.pending, bytes, kind),
            None => {}
        }
    }

    /// Counts the strings of `value` that nothing reads, as [`ReplyEmitter::count_unread`] does.
    pub(super) fn count_unread(
        &mut self,
        value: &JsonValue<'_>,
        read: &[&str],
        root: &str,
        on: EventSink<'_>,
    ) {
        for (bytes, kind) in unread_strings(value, read, &JsonPath::Root(root)) {
            self.count_unscanned(bytes, &kind, on);
        }
    }

    /// Ends the reply in progress, if there is one.
    pub(super) fn finish(&mut self, reason: &str, on: EventSink<'_>) {
        if let Some(reply) = self.current.take() {
            reply.finish(reason, on);
        }
    }

    /// Ends the input.
    pub(super) fn close(&mut self, on: EventSink<'_>) {
        self.finish(TRUNCATED, on);
        for (bytes, kind) in self.pending.drain(..) {
            let event = Event::Unscanned { bytes, kind };
            on(&self.default_name, event, TextSource::NONE);
        }
    }
}

/// The most kinds that are counted separately between replies; the last one then receives the rest.
const PENDING_KINDS: usize = 32;

fn add_pending(pending: &mut Vec<(u64, String)>, bytes: u64, kind: &str) {
    let kind = truncated_kind(kind);
    let place = pending.iter().position(|(_, known)| *known == kind);
    match place.or((pending.len() >= PENDING_KINDS).then_some(PENDING_KINDS - 1)) {
        Some(place) => pending[place].0 += bytes,
        None => pending.push((bytes, kind)),
    }
}

/// The most paths of one value that are counted separately; the last one then receives the rest.
const PATHS: usize = 16;

/// Returns the number of bytes and the path of the strings that nothing reads.
fn unread_strings(value: &JsonValue<'_>, read: &[&str], root: &JsonPath<'_>) -> Vec<(u64, String)> {
    let mut found: Vec<(u64, String)> = Vec::new();
    value.visit_unread(read, root, &mut |path, bytes| {
        let bytes = bytes.len() as u64;
        let path = path.to_string();
        let place = found.iter().position(|(_, known)| *known == path);
        match place.or((found.len() >= PATHS).then_some(PATHS - 1)) {
            Some(place) => found[place].0 += bytes,
            None => found.push((bytes, path)),
        }
    });
    found
}

fn group_name(key: &str) -> &str {
    key.split_once('/').map_or(key, |(group, _)| group)
}

fn truncated_kind(kind: &str) -> String {
    kind.chars().take(KIND).collect()
}

fn id(part: usize) -> PartId {
    PartId(
        u32::try_from(part)
            .expect("a part takes more than 64 bytes, so 2^32 of them do not fit in memory"),
    )
}

/// U+FFFD in UTF-8, which replaces a surrogate without its other half.
const REPLACEMENT: [u8; 3] = [0xEF, 0xBF, 0xBD];

fn join_all_surrogates(bytes: &[u8]) -> Vec<u8> {
    let mut lone = None;
    let mut joined = join_surrogates(&mut lone, bytes).into_owned();
    joined.extend(lone.map_or(&[][..], |_| &REPLACEMENT));
    joined
}

/// Joins surrogate pairs in their three-byte forms, also across deltas: `lone` holds a high surrogate from the end of
/// the last delta, and receives one from the end of `bytes`.
fn join_surrogates<'a>(lone: &mut Option<[u8; 3]>, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    if lone.is_none()
        && !bytes
            .windows(2)
            .any(|pair| pair[0] == 0xED && pair[1] >= 0xA0)
    {
        return Cow::Borrowed(bytes);
    }
    let text = [
        lone.take().as_ref().map_or(&[][..], |half| &half[..]),
        bytes,
    ]
    .concat();
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match (
            surrogate(&text[at..]),
            text.get(at + 3..).and_then(surrogate),
        ) {
            (Some(high @ 0xD800..0xDC00), Some(low @ 0xDC00..)) => {
                let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                let char =
                    char::from_u32(code).expect("a surrogate pair is a character above U+FFFF");
                out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                at += 6;
            }
            (Some(high @ 0xD800..0xDC00), _) if at + 3 == text.len() => {
                *lone = Some([
                    0xED,
                    (high >> 6 & 0x3F) as u8 | 0x80,
                    (high & 0x3F) as u8 | 0x80,
                ]);
                at += 3;
            }
            (Some(_), _) => {
                out.extend_from_slice(&REPLACEMENT);
                at += 3;
            }
            (None, _) => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    Cow::Owned(out)
}

/// Returns the surrogate that `bytes` start with.
fn surrogate(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [0xED, mid @ 0xA0..=0xBF, last @ 0x80..=0xBF, ..] => {
            Some(0xD000 | u32::from(mid & 0x3F) << 6 | u32::from(last & 0x3F))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogates_are_joined_over_deltas() {
        let high: &[u8] = b"\xED\xA0\xBD";
        let low: &[u8] = b"\xED\xB8\x80";
        for (name, deltas, expected) in [
            ("pair cut in two", vec![high, low], "😀"),
            ("pair in one", vec![&[high, low].concat()[..]], "😀"),
            ("high alone", vec![b"a", high, b"b"], "a\u{FFFD}b"),
            ("low alone", vec![low, b"b"], "\u{FFFD}b"),
            ("high twice", vec![high, high, low], "\u{FFFD}😀"),
            ("high at the end", vec![b"a", high], "a\u{FFFD}"),
        ] {
            let mut text = Vec::new();
            let mut on = |_: &str, event: Event, _: TextSource| {
                if let Event::Delta { bytes, .. } = event {
                    text.extend(bytes);
                }
            };
            let mut reply = ReplyEmitter::new("r".to_owned());
            for delta in &deltas {
                reply.push_delta(PartSpec::new("p", "p", Channel::Text), delta, &mut on);
            }
            reply.finish("", &mut on);
            assert_eq!(text, expected.as_bytes(), "{name}");
            assert_eq!(
                join_all_surrogates(&deltas.concat()),
                expected.as_bytes(),
                "{name}: as a snapshot"
            );
        }
    }

    #[test]
    fn deltas_after_a_whole_part_make_a_part_of_their_own() {
        let mut seen = Vec::new();
        let mut on = |_: &str, event: Event, _: TextSource| seen.push(event);
        let spec = PartSpec {
            tool: Some("t"),
            ..PartSpec::new("p", "p", Channel::ToolInput)
        };
        let mut reply = ReplyEmitter::new("r".to_owned());
        reply.push_whole(spec, b"{\"a\":1}", &mut on);
        reply.push_delta(
            PartSpec::new("p", "p", Channel::ToolInput),
            b"{\"a\":",
            &mut on,
        );
        reply.push_delta(PartSpec::new("p", "p", Channel::ToolInput), b"1}", &mut on);
        reply.push_whole(spec, b"{\"a\":1}", &mut on);
        reply.finish("stop", &mut on);
        let deltas = seen.iter().filter_map(|event| match event {
            Event::Delta { part, bytes } => Some((part.0, bytes.len())),
            _ => None,
        });
        assert_eq!(deltas.collect::<Vec<_>>(), [(0, 7), (1, 5), (1, 2)]);
        assert!(matches!(&seen[3], Event::PartStart { tool: Some(tool), .. } if tool == "t"));
        assert!(matches!(
            &seen[6],
            Event::Snapshot {
                part: PartId(1),
                ..
            }
        ));
    }
}
