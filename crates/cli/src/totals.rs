//! The totals of a run: its summary, printed as the last record.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::{self, Write};

use serde::Serialize;
use ttsr::stream::Counters;

use crate::ExitStatus;
use crate::input::InputProblems;
use crate::output::OutputRecord;

/// The totals of a run, including the bytes that were not scanned and the reasons.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "event", rename = "summary")]
pub(crate) struct RunTotals {
    pub(crate) streams: u64,
    /// Bytes of all parts.
    pub(crate) bytes: u64,
    /// Number of deltas after `--chunk` was applied.
    pub(crate) deltas: u64,
    pub(crate) parts: u64,
    pub(crate) hits: u64,
    pub(crate) unscanned_bytes: u64,
    pub(crate) counters: EventCounts,
}

/// Events other than plain deltas of open parts. See [`ttsr::stream::Counters`].
#[derive(Debug, Default, Serialize)]
pub(crate) struct EventCounts {
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
    /// Number of streams that a limit would have cut.
    pub(crate) limits: u64,
    /// Number of streams that ended early.
    pub(crate) truncated: u64,
    /// Number of errors that a provider reported in a stream.
    pub(crate) errors: u64,
    /// Number of stream events that could not be parsed; omitted if 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) malformed_events: u64,
    /// Number of parts that the provider repeated with different content.
    pub(crate) changed_snapshots: u64,
    /// Bytes of content in an unknown format, by the kind of event.
    pub(crate) unread: BTreeMap<String, u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl RunTotals {
    /// Adds the counters of a stream.
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

    /// Returns the exit status of the run.
    pub(crate) fn outcome(&self, problems: &InputProblems) -> ExitStatus {
        match self.hits + self.counters.limits {
            _ if problems.any || self.unscanned_bytes > 0 => ExitStatus::Incomplete,
            0 => ExitStatus::Clean,
            _ => ExitStatus::Findings,
        }
    }

    /// Returns the number of unscanned bytes so far, by reason.
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

    /// Counts bytes that reached no part.
    pub(crate) fn unread(&mut self, bytes: u64, kind: &str) {
        self.unscanned_bytes += bytes;
        *self.counters.unread.entry(kind.to_owned()).or_default() += bytes;
    }
}

impl Display for RunTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} in {}, {}",
            Quantity(self.hits, "hit"),
            Quantity(self.bytes, "byte"),
            Quantity(self.deltas, "delta"),
            Quantity(self.streams, "stream")
        )?;
        if self.counters.limits > 0 {
            write!(f, "; {} reached", Quantity(self.counters.limits, "limit"))?;
        }
        if self.unscanned_bytes > 0 {
            write!(
                f,
                "; NOT SCANNED: {}",
                Quantity(self.unscanned_bytes, "byte")
            )?;
        }
        Ok(())
    }
}

impl OutputRecord for RunTotals {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{self}")
    }
}

impl Quantity {
    /// Displays the number with an irregular plural: `1 match` or `2 matches`.
    pub(crate) fn plural(&self, things: &str) -> String {
        match self.0 {
            1 => self.to_string(),
            number => format!("{number} {things}"),
        }
    }
}

/// A number of things, displayed as `1 hit` or `2 hits`.
pub(crate) struct Quantity(pub(crate) u64, pub(crate) &'static str);

impl Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quantity(number, thing) = self;
        write!(f, "{number} {thing}{}", if *number == 1 { "" } else { "s" })
    }
}
