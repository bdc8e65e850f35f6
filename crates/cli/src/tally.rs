//! What a whole run read and met: the summary, its last record.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::{self, Write};

use serde::Serialize;
use ttsr::stream::Counters;

use crate::Outcome;
use crate::input::Problems;
use crate::output::Record;

/// Everything in numbers. What was not scanned is in it, and why.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "event", rename = "summary")]
pub(crate) struct Tally {
    pub(crate) streams: u64,
    /// Bytes of parts.
    pub(crate) bytes: u64,
    /// Deltas as they were cut for this run.
    pub(crate) deltas: u64,
    pub(crate) parts: u64,
    pub(crate) hits: u64,
    pub(crate) unscanned_bytes: u64,
    pub(crate) counters: Counted,
}

/// What was not a plain delta of an open part. See [`ttsr::stream::Counters`].
#[derive(Debug, Default, Serialize)]
pub(crate) struct Counted {
    unknown_parts: u64,
    duplicate_opens: u64,
    stray_closes: u64,
    invalid_utf8: u64,
    raw_inputs: u64,
    malformed_json: u64,
    lone_surrogates: u64,
    too_deep: u64,
    long_paths: u64,
    unscoped: u64,
    /// Streams that a limit would have cut.
    pub(crate) limits: u64,
    /// Streams that broke off.
    pub(crate) truncated: u64,
    /// Errors that a provider reported in a stream.
    pub(crate) errors: u64,
    /// Events of a stream that could not be read; there if there is one.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) malformed_events: u64,
    /// Parts that the provider repeated whole, and not as it had sent them.
    pub(crate) changed_snapshots: u64,
    /// Bytes of content that no reader knows, by the kind of event.
    pub(crate) unread: BTreeMap<String, u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Tally {
    /// Adds what a stream met.
    pub(crate) fn add(&mut self, counters: &Counters) {
        self.unscanned_bytes += counters.unscanned_bytes;
        let counted = &mut self.counters;
        for (sum, count) in [
            (&mut counted.unknown_parts, counters.unknown_parts),
            (&mut counted.duplicate_opens, counters.duplicate_opens),
            (&mut counted.stray_closes, counters.stray_closes),
            (&mut counted.invalid_utf8, counters.invalid_utf8),
            (&mut counted.raw_inputs, counters.raw_inputs),
            (&mut counted.malformed_json, counters.malformed_json),
            (&mut counted.lone_surrogates, counters.lone_surrogates),
            (&mut counted.too_deep, counters.too_deep),
            (&mut counted.long_paths, counters.long_paths),
            (&mut counted.unscoped, counters.unscoped),
        ] {
            *sum += count;
        }
    }

    /// How a run that read this ends.
    pub(crate) fn outcome(&self, problems: &Problems) -> Outcome {
        match self.hits + self.counters.limits {
            _ if problems.any || self.unscanned_bytes > 0 => Outcome::Incomplete,
            0 => Outcome::Clean,
            _ => Outcome::Findings,
        }
    }

    /// The bytes that were not scanned so far, by kind.
    pub(crate) fn unread_kinds(&self) -> BTreeMap<String, u64> {
        let mut kinds = self.counters.unread.clone();
        let in_parts = self.unscanned_bytes - kinds.values().sum::<u64>();
        if in_parts > 0 {
            kinds.insert(
                "after the end of their part, or past a limit".to_owned(),
                in_parts,
            );
        }
        kinds
    }

    /// Counts bytes that never reached a part.
    pub(crate) fn unread(&mut self, bytes: u64, kind: &str) {
        self.unscanned_bytes += bytes;
        *self.counters.unread.entry(kind.to_owned()).or_default() += bytes;
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} in {}, {}",
            Count(self.hits, "hit"),
            Count(self.bytes, "byte"),
            Count(self.deltas, "delta"),
            Count(self.streams, "stream")
        )?;
        if self.counters.limits > 0 {
            write!(f, "; {} reached", Count(self.counters.limits, "limit"))?;
        }
        if self.unscanned_bytes > 0 {
            write!(f, "; NOT SCANNED: {}", Count(self.unscanned_bytes, "byte"))?;
        }
        Ok(())
    }
}

impl Record for Tally {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{self}")
    }
}

impl Count {
    /// The number of a thing with a plural of its own, `1 match` or `2 matches`.
    pub(crate) fn plural(&self, things: &str) -> String {
        match self.0 {
            1 => self.to_string(),
            number => format!("{number} {things}"),
        }
    }
}

/// A number of things, `1 hit` or `2 hits`.
pub(crate) struct Count(pub(crate) u64, pub(crate) &'static str);

impl Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(number, thing) = self;
        write!(f, "{number} {thing}{}", if *number == 1 { "" } else { "s" })
    }
}
