//! The events of a provider's stream, the same for every provider.
//!
//! `wire` makes them from bytes, `harness` consumes them. Parts are numbered densely from 0 within a
//! stream, in the order in which they open; `name` is the provider's name for a part.

use serde::Serialize;

use crate::rule::{Channel, ToolOutcome};
use crate::verdict::PartId;

/// One event of one reply. The enum is exhaustive, so that a reader that overlooks a kind of event does not compile.
///
/// # Example: the events of a reply, read by rules
/// ```
/// use ttsr::{Channel, Event, Pack, PartId, Pattern, Rule};
/// let part = PartId(0);
/// let reply = [
///     Event::PartStart { part, name: "0".into(), channel: Channel::Text, tool: None, call: None },
///     Event::Delta { part, bytes: b"to".to_vec() },
///     Event::Delta { part, bytes: b"do".to_vec() },
///     Event::PartEnd { part },
///     Event::Finish { reason: "stop".into() },
/// ];
/// let rule = Rule::new("demo/no-todo", vec![Pattern::word("todo")]);
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// let mut hits = 0;
/// for event in &reply {
///     match event {
///         Event::PartStart { part, channel, .. } => stream.open(*part, *channel),
///         Event::Delta { part, bytes } => hits += stream.push(*part, bytes).len(),
///         Event::PartEnd { part } => hits += stream.close(*part).len(),
///         _ => {}
///     }
/// }
/// assert_eq!(hits, 1, "the word is over where the part is");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// A part opens.
    PartStart {
        /// Its number in this stream.
        part: PartId,
        /// The name that the provider gives it (an id, an index, or both).
        name: String,
        /// The channel of the part.
        channel: Channel,
        /// The tool's name, where it is known already.
        tool: Option<String>,
        /// The id of the tool call, where it is known already.
        call: Option<String>,
    },
    /// The tool's name or call id, known only after the part opened.
    Tool {
        /// The part concerned.
        part: PartId,
        /// The tool's name.
        tool: String,
        /// The id of the tool call.
        call: Option<String>,
    },
    /// The outcome of the tool call whose output the part is. It comes after the part opened and before its first
    /// delta, because [`Stream::set_outcome`](crate::Stream::set_outcome) has to know it by then. Without this event the
    /// outcome is unknown and counts as [`ToolOutcome::Ok`].
    Outcome {
        /// The part concerned, on [`Channel::ToolOutput`].
        part: PartId,
        /// The outcome.
        outcome: ToolOutcome,
    },
    /// A fragment of a part: at least one byte, cut anywhere.
    Delta {
        /// The part concerned.
        part: PartId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The part is complete.
    PartEnd {
        /// The part concerned.
        part: PartId,
    },
    /// The provider repeated a finished part whole.
    Snapshot {
        /// The part concerned.
        part: PartId,
        /// All of its bytes, as the provider has them.
        bytes: Vec<u8>,
    },
    /// Strings in an event that no reader knows, or bytes that could not be read: counted, never hidden.
    Unscanned {
        /// Number of bytes of string content that were not scanned.
        bytes: u64,
        /// The path of the strings in the event, or the kind of the damage.
        kind: String,
    },
    /// Tokens used, as the provider counts them.
    Usage {
        /// Tokens of the request.
        input: u64,
        /// Tokens of the reply.
        output: u64,
    },
    /// The reply is complete.
    Finish {
        /// The provider's reason, as it names it.
        reason: String,
    },
    /// The transport was re-established and the reply starts over: nothing of what came before counts.
    Restart,
    /// The provider reported an error in the stream.
    Error {
        /// The provider's kind or code.
        kind: String,
        /// The provider's message.
        message: String,
    },
}

impl Event {
    /// Returns the name used in every output, such as `part-start`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Event::PartStart { .. } => "part-start",
            Event::Tool { .. } => "tool",
            Event::Outcome { .. } => "outcome",
            Event::Delta { .. } => "delta",
            Event::PartEnd { .. } => "part-end",
            Event::Snapshot { .. } => "snapshot",
            Event::Unscanned { .. } => "unscanned",
            Event::Usage { .. } => "usage",
            Event::Finish { .. } => "finish",
            Event::Restart => "restart",
            Event::Error { .. } => "error",
        }
    }
}
