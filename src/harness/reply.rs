//! A reply while it arrives: the text of each part after hooks and rules.

use serde::{Deserialize, Serialize};

use crate::{Channel, PartId};

/// The output of a tool call that was aborted.
pub const TOOL_ABORTED: &str = "Tool execution aborted";

/// The parts of a reply so far, in the order in which they opened.
///
/// # Example: a reply with a tool call
/// ```
/// use ttsr::harness::{Cancel, Hooks, Processor, Request, Scripted, ScriptedReply, Settings, run};
/// use ttsr::{Channel, Pack, PartId};
/// let script = ScriptedReply::default().reasoning("Hm.").text("I look.").tool("read", "call_1", "{}");
/// let mut provider = Scripted::new([script.finish("tool_use")]);
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
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
    /// The index of the part that was looked up last. Parts rarely interleave, so it is usually the next one too.
    pub(super) latest: usize,
    /// The number of bytes in all parts, including names and [`PART_COST`] for each part.
    pub(super) bytes: u64,
}

/// A part of a reply.
///
/// # Example: a call without an id
/// ```
/// use ttsr::harness::{Cancel, Hooks, Processor, Request, Scripted, ScriptedReply, Settings, run};
/// use ttsr::{Channel, Event, Pack, PartId};
/// let calls = Event::PartStart {
///     part: PartId(7),
///     name: "7".into(),
///     channel: Channel::ToolInput,
///     tool: Some("clock".into()),
///     call: None,
/// };
/// let input = Event::Delta { part: PartId(7), bytes: b"{}".to_vec() };
/// let script = ScriptedReply::from(vec![calls, input]).finish("tool_use");
/// let mut provider = Scripted::new([script]);
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
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
    /// The part's id in the stream.
    pub part: PartId,
    /// The provider's name for the part.
    pub name: String,
    /// The part's channel.
    pub channel: Channel,
    /// The tool's name, once it is known.
    pub tool: Option<String>,
    /// The id of the tool call, once it is known.
    pub call: Option<String>,
    /// The accumulated bytes: the delivered bytes as changed by hooks and redactions, without those that a rule holds.
    /// For a tool call this is its raw input.
    pub raw: Vec<u8>,
    /// The state of the part.
    pub state: PartState,
    /// The number of bytes that the provider delivered, before the hooks.
    pub(super) received: u64,
    /// True if a hook changed bytes, so that `raw` differs from the delivered bytes.
    pub(super) is_rewritten: bool,
    /// True if the part was published.
    pub(super) is_published: bool,
}

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PartState {
    /// The part may grow. A tool call is pending.
    Open,
    /// The provider said that the part is complete.
    Complete,
    /// The part is a tool call that must not run: see [`TOOL_ABORTED`]. Parts of other channels are never in this
    /// state.
    Aborted,
}

impl PartState {
    /// Returns the name used in every output: `open`, `complete` or `aborted`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PartState::Open => "open",
            PartState::Complete => "complete",
            PartState::Aborted => "aborted",
        }
    }
}

/// The number of bytes that a part counts for besides its text, so that a bound on bytes bounds empty parts too.
const PART_COST: u64 = 64;

impl Reply {
    /// Returns the parts in the order in which they opened.
    #[must_use]
    pub fn parts(&self) -> &[ReplyPart] {
        &self.parts
    }

    /// Returns the part with this id.
    #[must_use]
    pub fn part(&self, part: PartId) -> Option<&ReplyPart> {
        self.parts.iter().rfind(|other| other.part == part)
    }

    /// Returns the joined text of the parts of a channel, with invalid UTF-8 replaced by U+FFFD.
    #[must_use]
    pub fn text(&self, channel: Channel) -> String {
        let parts = self.parts.iter().filter(|part| part.channel == channel);
        let joined: Vec<u8> = parts.flat_map(|part| part.raw.iter().copied()).collect();
        String::from_utf8_lossy(&joined).into_owned()
    }

    /// Returns the tool calls in the order in which they opened.
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

    /// Marks all tool calls as aborted.
    pub(super) fn abort_calls(&mut self) {
        for part in &mut self.parts {
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
        }
    }

    /// Returns the length of the longest prefix of at most `most` bytes that does not end inside a character. Bytes
    /// that are not UTF-8 count as characters.
    pub(super) fn whole_characters(&self, most: usize) -> usize {
        let bytes = &self.raw[..most.min(self.raw.len())];
        match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        }
    }

    /// Returns the accumulated text, with invalid UTF-8 replaced by U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }

    /// Returns the id of the tool call, or one made from the part's id if the provider gave none.
    #[must_use]
    pub fn call_id(&self) -> String {
        let made = || format!("call_{}", self.part.0);
        self.call.clone().unwrap_or_else(made)
    }
}
