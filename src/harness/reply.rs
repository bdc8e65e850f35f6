//! A reply as it grows: what was accumulated of each part, after the hooks.

use crate::{Channel, PartId};

/// What a tool call that was cut off is marked with.
pub const TOOL_ABORTED: &str = "Tool execution aborted";

/// The parts of a reply so far, in the order in which they opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub(super) parts: Vec<ReplyPart>,
    /// Index of the part that was looked up last: parts interleave rarely.
    pub(super) latest: usize,
    /// What all parts hold together, names and a little for each part included.
    pub(super) bytes: u64,
}

/// One part of a reply.
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
    /// What was accumulated: what the hooks left of what was delivered. For tool input this is the
    /// call's `raw`.
    pub raw: Vec<u8>,
    /// How far it came.
    pub state: PartState,
    /// Bytes that the provider delivered, before the hooks.
    pub(super) received: u64,
    /// A hook changed something, so `raw` is not what was delivered.
    pub(super) is_rewritten: bool,
    /// Whoever watches knows of the part.
    pub(super) is_published: bool,
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

    /// No tool call of this reply may run.
    pub(super) fn abort_calls(&mut self) {
        let calls = self.parts.iter_mut();
        calls
            .filter(|part| part.channel == Channel::ToolInput)
            .for_each(|part| part.state = PartState::Aborted);
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

    /// What was accumulated. Invalid UTF-8 is shown as U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }
}
