//! A reply as it grows: what was accumulated of each part, after the hooks.

use super::json_scalars::JsonScalars;
use crate::{Channel, PartId};

/// What a tool call that was cut off is marked with.
pub const TOOL_ABORTED: &str = "Tool execution aborted";

/// The parts of a reply so far, in the order in which they opened.
///
/// # Example: a reply with a tool call
/// ```
/// use ttsr::harness::{Cancel, Hooks, Processor, Request, Script, Scripted, Settings, run};
/// use ttsr::{Channel, Pack, PartId};
/// let script = Script::default().reasoning("Hm.").text("I look.").tool("read", "call_1", "{}");
/// let mut provider = Scripted::new([script.finish("tool_use")]);
/// let session = Pack::builder().build()?.session();
/// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
/// let request = Request::new("a-model", Vec::new());
/// let running = run(&mut processor, &mut provider, request, "msg_1", Cancel::default(), |_| {});
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let reply = runtime.block_on(running).reply;
/// assert_eq!(reply.parts().len(), 3);
/// assert_eq!(reply.text(Channel::Text), "I look.");
/// assert_eq!(reply.part(PartId(0)).map(|part| part.text()).as_deref(), Some("Hm."));
/// let calls: Vec<String> = reply.tool_calls().map(|part| part.call_id()).collect();
/// assert_eq!(calls, ["call_1"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub(super) parts: Vec<ReplyPart>,
    /// Index of the part that was looked up last: parts interleave rarely.
    pub(super) latest: usize,
    /// What all parts hold together, names and a little for each part included.
    pub(super) bytes: u64,
}

/// One part of a reply.
///
/// # Example: a call without an id
/// ```
/// use ttsr::harness::{Cancel, Hooks, Processor, Request, Script, Scripted, Settings, run};
/// use ttsr::{Channel, Event, Pack, PartId};
/// let calls = Event::PartStart {
///     part: PartId(7),
///     name: "7".into(),
///     channel: Channel::ToolInput,
///     tool: Some("clock".into()),
///     call: None,
/// };
/// let input = Event::Delta { part: PartId(7), bytes: b"{}".to_vec() };
/// let script = Script::from(vec![calls, input]).finish("tool_use");
/// let mut provider = Scripted::new([script]);
/// let session = Pack::builder().build()?.session();
/// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
/// let request = Request::new("a-model", Vec::new());
/// let running = run(&mut processor, &mut provider, request, "msg_1", Cancel::default(), |_| {});
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let reply = runtime.block_on(running).reply;
/// let part = &reply.parts()[0];
/// assert_eq!((part.call.as_deref(), &*part.call_id()), (None, "call_7"));
/// assert_eq!((part.tool.as_deref(), &*part.text()), (Some("clock"), "{}"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplyPart {
    /// Its number in the stream.
    pub part: PartId,
    /// What the provider calls it.
    pub name: String,
    /// What kind of part it is.
    pub channel: Channel,
    /// The tool's name, once it is known.
    pub tool: Option<String>,
    /// The id of the tool call, once it is known.
    pub call: Option<String>,
    /// What was accumulated: what hooks and rules left of what was delivered, without what a rule holds.
    /// For tool input this is the call's `raw`.
    pub raw: Vec<u8>,
    /// How far it came.
    pub state: PartState,
    /// Bytes that the provider delivered, before the hooks.
    pub(super) received: u64,
    /// A hook changed something, so `raw` is not what was delivered.
    pub(super) is_rewritten: bool,
    /// Whoever watches knows of the part.
    pub(super) is_published: bool,
    /// Bytes that wait for a rule that holds.
    pub(super) held: Vec<u8>,
    /// Bytes that were delivered and left.
    pub(super) released: u64,
    /// Stretches that were replaced before they left, in order.
    pub(super) replaced: Vec<Replaced>,
    /// Of tool input: where its scalars stand, as far as they wait.
    pub(super) scalars: Option<Box<JsonScalars>>,
}

/// A stretch that left as something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    /// Where it was, in bytes as delivered.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Where it is, in bytes of `raw`.
    pub(super) at: usize,
    pub(super) len: usize,
}

/// How far a part came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartState {
    /// It still grows. A tool call is pending.
    Open,
    /// The provider said that it is complete.
    Complete,
    /// A tool call that must not run: see [`TOOL_ABORTED`]. Text and reasoning are never in this state.
    Aborted,
}

/// What a part costs besides its bytes, so that very many empty parts are bounded too.
const PART_COST: u64 = 64;

impl Reply {
    /// Its parts, in the order in which they opened.
    #[must_use]
    pub fn parts(&self) -> &[ReplyPart] {
        &self.parts
    }

    /// The part of that number.
    #[must_use]
    pub fn part(&self, part: PartId) -> Option<&ReplyPart> {
        self.parts.iter().rfind(|other| other.part == part)
    }

    /// What the parts of a channel hold, joined. Invalid UTF-8 is shown as U+FFFD.
    #[must_use]
    pub fn text(&self, channel: Channel) -> String {
        let parts = self.parts.iter().filter(|part| part.channel == channel);
        let joined: Vec<u8> = parts.flat_map(|part| part.raw.iter().copied()).collect();
        String::from_utf8_lossy(&joined).into_owned()
    }

    /// The tool calls, in the order in which they opened.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ReplyPart> {
        self.parts
            .iter()
            .filter(|part| part.channel == Channel::ToolInput)
    }

    pub(super) fn index(&mut self, part: PartId) -> Option<usize> {
        let latest = self.parts.get(self.latest);
        if latest.is_some_and(|latest| latest.part == part) {
            return Some(self.latest);
        }
        let found = self.parts.iter().rposition(|other| other.part == part)?;
        self.latest = found;
        Some(found)
    }

    pub(super) fn open(&mut self, part: ReplyPart) -> usize {
        self.bytes += PART_COST + part.name.len() as u64;
        self.parts.push(part);
        self.latest = self.parts.len() - 1;
        self.latest
    }

    /// No tool call of this reply may run, and nothing that waits ever leaves.
    pub(super) fn abort_calls(&mut self) {
        for part in &mut self.parts {
            part.held = Vec::new();
            if part.channel == Channel::ToolInput {
                part.state = PartState::Aborted;
            }
        }
    }
}

impl ReplyPart {
    pub(super) fn new(part: PartId, name: String, channel: Channel) -> ReplyPart {
        ReplyPart {
            part,
            name,
            channel,
            tool: None,
            call: None,
            raw: Vec::new(),
            state: PartState::Open,
            received: 0,
            is_rewritten: false,
            is_published: false,
            held: Vec::new(),
            released: 0,
            replaced: Vec::new(),
            scalars: (channel == Channel::ToolInput).then(Box::default),
        }
    }

    /// The place in `raw` of a byte that was delivered; the start of what replaced it, if it was.
    pub(super) fn place(&self, delivered: usize) -> usize {
        let byte = delivered as u64;
        match self.replaced.iter().rfind(|other| other.from < byte) {
            None => delivered,
            Some(other) if byte < other.to => other.at,
            Some(other) => other.at + other.len + (byte - other.to) as usize,
        }
    }

    /// Bytes of its beginning, so many, that are whole characters. What is no character stays, shown as
    /// U+FFFD; one that is not complete does not.
    pub(super) fn characters(&self, most: usize) -> usize {
        let bytes = &self.raw[..most.min(self.raw.len())];
        match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        }
    }

    /// What was accumulated. Invalid UTF-8 is shown as U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }

    /// The id of the tool call, or one made of the part's number where the provider gave none.
    #[must_use]
    pub fn call_id(&self) -> String {
        let made = || format!("call_{}", self.part.0);
        self.call.clone().unwrap_or_else(made)
    }
}
