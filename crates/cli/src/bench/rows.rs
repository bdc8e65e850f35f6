//! The rows of the table: how a host uses the rules.

use clap::ValueEnum;
use serde::Serialize;
use ttsr::{Channel, Pack};

use super::host::{self, ReplyEvents};
use super::script::ReplayScript;

/// Opened and closed conversations in a pass.
const CONVERSATIONS: usize = 200;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Row {
    /// Each reply in a conversation of its own, opened, read, taken and closed
    Recorded,
    /// All text in one part
    Text,
    /// All reasoning in one part
    Reasoning,
    /// All text as the `command` of one call of `bash`
    ToolInput,
    /// A conversation, an attempt and a part, opened and closed
    Opening,
}

/// The cost of a row.
#[derive(Serialize)]
pub(crate) struct RowCost {
    pub(crate) row: Row,
    /// Number of pieces that a pass reads: deltas, or conversations that are opened.
    pub(crate) pieces: usize,
    /// Replies that a rule cuts in a pass: nothing is read after a cut.
    pub(crate) cuts: usize,
    /// Nanoseconds of a piece.
    pub(crate) ns: f64,
    /// Instructions of a piece, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instructions: Option<f64>,
}

/// A row with its data.
pub(crate) enum Work<'s> {
    Replies(&'s [ReplyEvents]),
    Part(Channel, Vec<Vec<u8>>),
    Opening,
}

impl Row {
    pub(crate) const ALL: [Row; 5] = [
        Row::Recorded,
        Row::Text,
        Row::Reasoning,
        Row::ToolInput,
        Row::Opening,
    ];

    /// Returns the row with its data. `None` if the script has no delta for it.
    pub(crate) fn prepare(self, script: &ReplayScript) -> Option<Work<'_>> {
        let part = |channel| {
            let deltas = host::long_part(&script.replies, channel);
            (!deltas.is_empty()).then_some(deltas)
        };
        Some(match self {
            Row::Recorded => Work::Replies(&script.replies),
            Row::Text => Work::Part(Channel::Text, part(Channel::Text)?),
            Row::Reasoning => Work::Part(Channel::Reasoning, part(Channel::Reasoning)?),
            Row::ToolInput => {
                let text = part(Channel::Text)?;
                Work::Part(Channel::ToolInput, host::as_command(&text))
            }
            Row::Opening => Work::Opening,
        })
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Row::Recorded => "replies as recorded",
            Row::Text => "one text part",
            Row::Reasoning => "one reasoning part",
            Row::ToolInput => "one call of `bash`",
            Row::Opening => "opened and closed",
        }
    }

    /// Returns what a piece is.
    pub(crate) fn piece(self) -> &'static str {
        match self {
            Row::Opening => "reply",
            _ => "delta",
        }
    }
}

impl Work<'_> {
    /// Returns the number of pieces of a pass.
    pub(crate) fn pieces(&self) -> usize {
        match self {
            Work::Replies(replies) => host::deltas(replies),
            Work::Part(_, deltas) => deltas.len(),
            Work::Opening => CONVERSATIONS,
        }
    }

    /// Runs one pass, and returns the number of replies that a rule cuts.
    pub(crate) fn pass(&self, pack: &Pack) -> usize {
        match self {
            Work::Replies(replies) => replies
                .iter()
                .filter(|reply| host::read_reply(pack, reply))
                .count(),
            Work::Part(channel, deltas) => host::read_part(pack, *channel, deltas),
            Work::Opening => (0..CONVERSATIONS)
                .filter(|_| host::read_nothing(pack))
                .count(),
        }
    }
}
