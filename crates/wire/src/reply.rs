//! One reply while it is read: its parts, and the events they make, well-formed whatever a provider does.
//!
//! A part starts before its first delta and ends once; deltas are never empty; halves of a surrogate pair
//! that were cut in two are joined; what a provider repeats whole is a snapshot, unless nothing of it came
//! before. It knows no provider: readers name parts by keys of their own.
//!
//! Memory: 60 bytes at most for a part that has ended, whatever it is called, and nothing for parts past [`PARTS`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use ttsr::{Channel, Event, PartId};

/// Where events go, with the name of their stream.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&str, Event);

/// The reason of a reply that broke off before the provider ended it.
pub(super) const TRUNCATED: &str = "truncated";

/// Most parts of one reply that are told apart. What comes in further ones is counted as unscanned, of the kind
/// [`TOO_MANY`]. It is more than [`Limits::parts`](ttsr::Limits::parts) allows unless told otherwise.
pub(super) const PARTS: usize = 1 << 17;

/// The kind of what comes in parts past [`PARTS`].
pub(super) const TOO_MANY: &str = "too-many-parts";

/// Longest name of an unscanned kind that is kept.
const KIND: usize = 128;

/// What a reader knows of a part when it names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naming<'a> {
    /// The reader's own key: one open part each.
    pub(super) key: &'a str,
    /// What the provider calls it.
    pub(super) name: &'a str,
    pub(super) channel: Channel,
    pub(super) tool: Option<&'a str>,
    pub(super) call: Option<&'a str>,
    /// Whether more of the tool's name may come before the first input.
    pub(super) grows: bool,
}

impl<'a> Naming<'a> {
    /// A part of which no tool is known.
    pub(super) fn new(key: &'a str, name: &'a str, channel: Channel) -> Naming<'a> {
        Naming {
            key,
            name,
            channel,
            tool: None,
            call: None,
            grows: false,
        }
    }
}

/// What is kept of a part to the end of the reply.
#[derive(Clone, Copy, Debug)]
struct Part {
    bytes: u64,
    channel: Channel,
    is_open: bool,
    /// Its bytes came in one piece that may be repeated or replaced by deltas.
    whole: bool,
}

/// What is known of a part while it is open.
#[derive(Clone, Debug)]
struct Open {
    tool: Option<String>,
    call: Option<String>,
    /// The start of its key, up to the first slash.
    group: String,
    /// A high surrogate at the end of the last delta, waiting for its other half.
    lone: Option<[u8; 3]>,
}

/// Parts whose keys begin alike.
#[derive(Clone, Debug, Default)]
struct Group {
    /// In the order in which they opened; some may have ended.
    parts: Vec<u32>,
    /// How many of them are open.
    open: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Reply {
    name: String,
    parts: Vec<Part>,
    open: HashMap<u32, Open>,
    /// Groups with a part that is open.
    groups: HashMap<String, Group>,
    /// The latest part of each key, and the names given.
    known: Known,
    /// The latest part, and its name, where it has not been said that it starts: its tool's name may be a
    /// fragment. No rule is to take that for the name.
    starting: Option<(usize, String)>,
    usage: Option<(u64, u64)>,
    failed: bool,
    /// The provider's reason, once it gave one.
    pub(super) reason: Option<String>,
}

impl Reply {
    pub(super) fn new(name: String) -> Reply {
        Reply {
            name,
            parts: Vec::new(),
            open: HashMap::new(),
            groups: HashMap::new(),
            known: Known::default(),
            starting: None,
            usage: None,
            failed: false,
            reason: None,
        }
    }

    /// The name of the stream that events are sent with.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes delivered so far in the latest part of that key.
    pub(super) fn delivered(&self, key: &str) -> Option<u64> {
        let part = self.known.part(key)?;
        Some(self.parts[part].bytes)
    }

    /// The channel of the latest part of that key.
    pub(super) fn channel(&self, key: &str) -> Option<Channel> {
        let part = self.known.part(key)?;
        Some(self.parts[part].channel)
    }

    pub(super) fn is_open(&self, key: &str) -> bool {
        let part = self.known.part(key);
        part.is_some_and(|part| self.parts[part].is_open)
    }

    pub(super) fn any_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether there are as many parts as are told apart.
    pub(super) fn is_full(&self) -> bool {
        self.parts.len() >= PARTS
    }

    /// Opens the part unless it is open, and tells its tool if that was not known. None where it would be one too
    /// many.
    pub(super) fn open(&mut self, naming: Naming<'_>, on: Sink<'_>) -> Option<usize> {
        match self.known.part(naming.key) {
            Some(part) if self.parts[part].is_open => {
                self.tool(part, naming.tool, naming.call, on);
                Some(part)
            }
            _ => self.start(naming, on),
        }
    }

    /// The next bytes of the part.
    pub(super) fn delta(&mut self, naming: Naming<'_>, bytes: &[u8], on: Sink<'_>) {
        if bytes.is_empty() {
            return;
        }
        let Some(part) = self.open_for_delta(naming, on) else {
            return self.unscanned(bytes.len() as u64, TOO_MANY, on);
        };
        let Some(open) = self.open.get_mut(&number(part)) else {
            return;
        };
        let mended = mend(&mut open.lone, bytes);
        self.deliver(part, mended.into_owned(), on);
    }

    /// The part that deltas go to: a new one if the open one came whole.
    fn open_for_delta(&mut self, naming: Naming<'_>, on: Sink<'_>) -> Option<usize> {
        let part = self.open(naming, on)?;
        if !self.parts[part].whole {
            return Some(part);
        }
        let open = self.open.get(&number(part));
        let open = open.map(|open| (open.tool.clone(), open.call.clone()));
        let (tool, call) = open.unwrap_or_default();
        self.end_part(part, on);
        self.start(
            Naming {
                tool: tool.as_deref(),
                call: call.as_deref(),
                ..naming
            },
            on,
        )
    }

    /// Bytes that are no text of the provider's JSON: delivered as they are.
    pub(super) fn raw_delta(&mut self, naming: Naming<'_>, bytes: Vec<u8>, on: Sink<'_>) {
        if bytes.is_empty() {
            return;
        }
        match self.open(naming, on) {
            Some(part) => self.deliver(part, bytes, on),
            None => self.unscanned(bytes.len() as u64, TOO_MANY, on),
        }
    }

    /// All bytes of the part at once: a snapshot of what was delivered, or, where nothing was, the delta.
    pub(super) fn whole(&mut self, naming: Naming<'_>, bytes: &[u8], on: Sink<'_>) {
        if bytes.is_empty() {
            return;
        }
        if self.delivered(naming.key).is_some_and(|bytes| bytes > 0) {
            return self.snapshot(naming.key, mend_all(bytes), on);
        }
        match self.open(naming, on) {
            Some(part) => {
                self.parts[part].whole = true;
                let bytes = mend_all(bytes);
                self.deliver(part, bytes, on);
            }
            None => self.unscanned(bytes.len() as u64, TOO_MANY, on),
        }
    }

    /// A repetition of the latest part of that key.
    pub(super) fn snapshot(&mut self, key: &str, bytes: Vec<u8>, on: Sink<'_>) {
        if let Some(part) = self.known.part(key) {
            self.say_start_of(part, on);
            self.emit(
                Event::Snapshot {
                    part: id(part),
                    bytes,
                },
                on,
            );
        }
    }

    /// Ends the part of that key if it is open.
    pub(super) fn end(&mut self, key: &str, on: Sink<'_>) {
        if let Some(part) = self.known.part(key) {
            self.end_part(part, on);
        }
    }

    /// Ends every open part of a group (the start of its key, up to the first slash), in the order in which
    /// they opened.
    pub(super) fn end_group(&mut self, group: &str, on: Sink<'_>) {
        let group = self.groups.get_mut(group);
        let parts = group.map(|group| std::mem::take(&mut group.parts));
        for part in parts.unwrap_or_default() {
            self.end_part(part as usize, on);
        }
    }

    /// Counts `bytes` that are not scanned; nothing to say if there are none.
    pub(super) fn unscanned(&self, bytes: u64, kind: &str, on: Sink<'_>) {
        if bytes > 0 {
            self.unknown(bytes, kind, on);
        }
    }

    /// As [`Self::unscanned`], but also for a kind that no reader knows and whose strings are scanned.
    pub(super) fn unknown(&self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.emit(
            Event::Unscanned {
                bytes,
                kind: short(kind),
            },
            on,
        );
    }

    /// The provider's count so far; told when it changes. `None` keeps what is known.
    pub(super) fn usage(&mut self, input: Option<u64>, output: Option<u64>, on: Sink<'_>) {
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

    pub(super) fn error(&mut self, kind: &str, message: &str, on: Sink<'_>) {
        self.failed = true;
        self.emit(
            Event::Error {
                kind: kind.to_owned(),
                message: message.to_owned(),
            },
            on,
        );
    }

    /// Ends all parts and the reply. `reason` is for a provider that gave none.
    pub(super) fn finish(mut self, reason: &str, on: Sink<'_>) {
        let mut open: Vec<u32> = self.open.keys().copied().collect();
        open.sort_unstable();
        for part in open {
            self.end_part(part as usize, on);
        }
        let reason = match self.reason.take() {
            Some(reason) => reason,
            None if self.failed => "error".to_owned(),
            None => reason.to_owned(),
        };
        self.emit(Event::Finish { reason }, on);
    }

    fn start(&mut self, naming: Naming<'_>, on: Sink<'_>) -> Option<usize> {
        self.say_start(on);
        if self.is_full() {
            return None;
        }
        let part = self.parts.len();
        let Naming {
            key,
            name,
            channel,
            tool,
            call,
            grows,
        } = naming;
        self.known.set_part(key, part);
        let of_group = self.groups.entry(group(key).to_owned()).or_default();
        of_group.parts.push(number(part));
        of_group.open += 1;
        // Not twice the room that is needed: there may be very many.
        if part == self.parts.capacity() {
            self.parts.reserve_exact(4.max(part / 8));
        }
        self.parts.push(Part {
            bytes: 0,
            channel,
            is_open: true,
            whole: false,
        });
        let open = Open {
            tool: tool.map(str::to_owned),
            call: call.map(str::to_owned),
            group: group(key).to_owned(),
            lone: None,
        };
        self.open.insert(number(part), open);
        self.starting = Some((part, self.known.unused(name)));
        if !grows {
            self.say_start(on);
        }
        Some(part)
    }

    fn say_start(&mut self, on: Sink<'_>) {
        let Some((part, name)) = self.starting.take() else {
            return;
        };
        let open = self.open.get(&number(part));
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

    fn say_start_of(&mut self, part: usize, on: Sink<'_>) {
        if self.is_starting(part) {
            self.say_start(on);
        }
    }

    fn tool(&mut self, part: usize, tool: Option<&str>, call: Option<&str>, on: Sink<'_>) {
        let is_starting = self.is_starting(part);
        let Some(known) = self.open.get_mut(&number(part)) else {
            return;
        };
        let news = tool.is_some_and(|tool| known.tool.as_deref() != Some(tool))
            || call.is_some_and(|call| known.call.as_deref() != Some(call));
        if !news {
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

    fn deliver(&mut self, part: usize, bytes: Vec<u8>, on: Sink<'_>) {
        if !bytes.is_empty() {
            self.say_start_of(part, on);
            self.parts[part].bytes += bytes.len() as u64;
            self.emit(
                Event::Delta {
                    part: id(part),
                    bytes,
                },
                on,
            );
        }
    }

    fn end_part(&mut self, part: usize, on: Sink<'_>) {
        if !self.parts[part].is_open {
            return;
        }
        self.say_start_of(part, on);
        self.parts[part].is_open = false;
        let Some(open) = self.open.remove(&number(part)) else {
            return;
        };
        if open.lone.is_some() {
            self.deliver(part, REPLACEMENT.to_vec(), on);
        }
        if let Some(of_group) = self.groups.get_mut(&open.group) {
            of_group.open -= 1;
            if of_group.open == 0 {
                self.groups.remove(&open.group);
            }
        }
        self.emit(Event::PartEnd { part: id(part) }, on);
    }

    fn emit(&self, event: Event, on: Sink<'_>) {
        on(&self.name, event);
    }
}

/// A part by its place; there are at most [`PARTS`].
fn number(part: usize) -> u32 {
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// Keys and names of parts, as hashes: a provider may choose long ones. The hash is seeded at random, so that nobody
/// can make two that collide.
#[derive(Clone, Debug, Default)]
struct Known {
    seed: RandomState,
    /// In halves: entries of 16 bytes.
    entries: HashMap<[u32; 2], Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The latest part of that key, counted from 1.
    part: u32,
    /// How often a part was to have that name; 0 if none has it.
    times: u32,
}

impl Known {
    fn hash(&self, text: &str) -> [u32; 2] {
        let hash = self.seed.hash_one(text);
        [hash as u32, (hash >> 32) as u32]
    }

    fn part(&self, key: &str) -> Option<usize> {
        let entry = self.entries.get(&self.hash(key))?;
        Some(entry.part.checked_sub(1)? as usize)
    }

    fn set_part(&mut self, key: &str, part: usize) {
        let key = self.hash(key);
        self.entries.entry(key).or_default().part = number(part) + 1;
    }

    /// `name`, or the first of `name#2`, `name#3`, … that was not given yet.
    fn unused(&mut self, name: &str) -> String {
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

/// Names given so far, each with how often it was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(HashMap<String, u32>);

impl Names {
    /// `name`, or the first of `name#2`, `name#3`, … that was not given yet.
    pub(super) fn unused(&mut self, name: &str) -> String {
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

/// The replies of a provider whose replies follow one another.
#[derive(Clone, Debug)]
pub(super) struct Replies {
    default_name: String,
    begun: usize,
    current: Option<Reply>,
    /// What was counted while no reply was under way, by kind.
    waiting: Vec<(u64, String)>,
}

impl Replies {
    pub(super) fn new(default_name: String) -> Replies {
        Replies {
            default_name,
            begun: 0,
            current: None,
            waiting: Vec::new(),
        }
    }

    /// Whether a reply is under way.
    pub(super) fn current(&self) -> Option<&Reply> {
        self.current.as_ref()
    }

    /// A new reply; the one under way broke off.
    pub(super) fn begin(&mut self, id: Option<&str>, on: Sink<'_>) -> &mut Reply {
        self.finish(TRUNCATED, on);
        self.begun += 1;
        let name = match id {
            Some(id) => id.to_owned(),
            None if self.begun == 1 => self.default_name.clone(),
            None => format!("{}#{}", self.default_name, self.begun),
        };
        let reply = self.current.insert(Reply::new(name));
        for (bytes, kind) in self.waiting.drain(..) {
            reply.unknown(bytes, &kind, on);
        }
        reply
    }

    /// The reply under way, or a new one.
    pub(super) fn reply(&mut self, id: Option<&str>, on: Sink<'_>) -> &mut Reply {
        if self.current.is_none() {
            self.begin(id, on);
        }
        self.current
            .as_mut()
            .expect("a reply was begun where there was none")
    }

    /// Counts for the reply under way, else for the next one.
    pub(super) fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        match &self.current {
            Some(reply) => reply.unscanned(bytes, kind, on),
            None if bytes > 0 => add(&mut self.waiting, bytes, kind),
            None => {}
        }
    }

    /// Ends the reply under way, if any.
    pub(super) fn finish(&mut self, reason: &str, on: Sink<'_>) {
        if let Some(reply) = self.current.take() {
            reply.finish(reason, on);
        }
    }

    /// The input ended.
    pub(super) fn close(&mut self, on: Sink<'_>) {
        self.finish(TRUNCATED, on);
        for (bytes, kind) in self.waiting.drain(..) {
            on(&self.default_name, Event::Unscanned { bytes, kind });
        }
    }
}

/// Most kinds kept apart while no reply is under way; past it the last one takes the rest.
const WAITING: usize = 32;

fn add(waiting: &mut Vec<(u64, String)>, bytes: u64, kind: &str) {
    let kind = short(kind);
    let place = waiting.iter().position(|(_, known)| *known == kind);
    match place.or((waiting.len() >= WAITING).then_some(WAITING - 1)) {
        Some(place) => waiting[place].0 += bytes,
        None => waiting.push((bytes, kind)),
    }
}

fn group(key: &str) -> &str {
    key.split_once('/').map_or(key, |(group, _)| group)
}

fn short(kind: &str) -> String {
    kind.chars().take(KIND).collect()
}

fn id(part: usize) -> PartId {
    PartId(
        u32::try_from(part)
            .expect("a part takes more than 64 bytes, so 2^32 of them do not fit in memory"),
    )
}

/// U+FFFD: what a surrogate without its other half is for every reader of UTF-8.
const REPLACEMENT: [u8; 3] = [0xEF, 0xBF, 0xBD];

fn mend_all(bytes: &[u8]) -> Vec<u8> {
    let mut lone = None;
    let mut mended = mend(&mut lone, bytes).into_owned();
    mended.extend(lone.map_or(&[][..], |_| &REPLACEMENT));
    mended
}

/// Joins surrogates in their three-byte forms, the first of them perhaps left over from the last delta;
/// a high one at the end is kept back in `lone`.
fn mend<'a>(lone: &mut Option<[u8; 3]>, bytes: &'a [u8]) -> Cow<'a, [u8]> {
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

/// The surrogate that `bytes` start with.
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
            let mut on = |_: &str, event: Event| {
                if let Event::Delta { bytes, .. } = event {
                    text.extend(bytes);
                }
            };
            let mut reply = Reply::new("r".to_owned());
            for delta in &deltas {
                reply.delta(Naming::new("p", "p", Channel::Text), delta, &mut on);
            }
            reply.finish("", &mut on);
            assert_eq!(text, expected.as_bytes(), "{name}");
            assert_eq!(
                mend_all(&deltas.concat()),
                expected.as_bytes(),
                "{name}: as a snapshot"
            );
        }
    }

    #[test]
    fn deltas_after_a_whole_part_make_a_part_of_their_own() {
        let mut seen = Vec::new();
        let mut on = |_: &str, event: Event| seen.push(event);
        let naming = Naming {
            tool: Some("t"),
            ..Naming::new("p", "p", Channel::ToolInput)
        };
        let mut reply = Reply::new("r".to_owned());
        reply.whole(naming, b"{\"a\":1}", &mut on);
        reply.delta(
            Naming::new("p", "p", Channel::ToolInput),
            b"{\"a\":",
            &mut on,
        );
        reply.delta(Naming::new("p", "p", Channel::ToolInput), b"1}", &mut on);
        reply.whole(naming, b"{\"a\":1}", &mut on);
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
