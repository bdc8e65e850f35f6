//! The results of a measurement, printed for people or serialized.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use anstyle::Style;
use serde::{Serialize, Serializer};
use ttsr::Rule;
use ttsr::pack::AutomatonSize;

use super::rows::{Row, RowCost};
use super::script::ReplayScript;
use crate::output::{Escaped, OutputRecord, STRONG};

const FAINT: Style = Style::new().dimmed();

/// Number of rules printed; the JSON output has all of them.
pub(crate) const SHOWN: usize = 10;

/// Explains how the figures of single rules are obtained. Part of every output.
pub(crate) const METHOD: &str = "\
All rules of a channel share one automaton. `states_alone`: the states that the stream builds with this rule alone. \
`states_added`: the states saved by leaving the rule out, for the 40 rules with the most states alone. \
`ns_saved_per_delta`: the time saved by leaving the rule out, for the rules that add the most states: the median of \
interleaved passes, or none if it is noise. Rescanning: one regex per pattern, warm, on the channels of its rule, over \
the whole part at each delta.";

/// All results of one measurement.
#[derive(Serialize)]
#[serde(tag = "event", rename = "bench")]
pub(crate) struct BenchReport {
    /// The version of this command.
    pub(crate) version: &'static str,
    pub(crate) packs: Vec<String>,
    /// The names of the recordings.
    pub(crate) streams: Vec<String>,
    pub(crate) rules_loaded: usize,
    pub(crate) patterns: usize,
    pub(crate) replies: usize,
    pub(crate) parts: usize,
    pub(crate) deltas: usize,
    pub(crate) bytes: usize,
    pub(crate) hits: usize,
    /// Cost of the rules for a host, by how it uses them. The first row is what users pay.
    pub(crate) rows: Vec<RowCost>,
    /// Cost of a loop that only appends the deltas.
    pub(crate) bare: PassCost,
    /// Cost of matching the replies as recorded without a policy, including opening and closing the streams.
    pub(crate) matching: PassCost,
    /// Cost of one regex per pattern, searched in the whole part at each delta on the channels of its rule. Warm.
    pub(crate) rescan: Rescan,
    /// Cost of a delta along the longest reply.
    pub(crate) growth: Vec<GrowthPoint>,
    /// Memory for each haystack being scanned: a text part, or one value of tool input.
    pub(crate) state_bytes: usize,
    pub(crate) automata: Vec<ChannelAutomaton>,
    /// Number of states of all automata.
    pub(crate) states: usize,
    pub(crate) rules: Vec<RuleCost>,
}

/// The time of a whole pass, divided by deltas and by bytes.
#[derive(Serialize)]
pub(crate) struct PassCost {
    pub(crate) ns_per_delta: f64,
    pub(crate) ns_per_byte: f64,
}

/// The cost of rescanning. See [`BenchReport::rescan`].
#[derive(Serialize)]
pub(crate) struct Rescan {
    pub(crate) ns_per_delta: f64,
    /// Number of timed deltas: all of them, unless the time limit was reached.
    pub(crate) deltas: usize,
    pub(crate) is_whole: bool,
    /// Number of patterns that the regex engine rejects, because of look-around or size.
    pub(crate) patterns_left_out: usize,
}

/// The cost of a delta after a given number of bytes of the reply.
#[derive(Serialize)]
pub(crate) struct GrowthPoint {
    pub(crate) bytes: usize,
    pub(crate) ns_per_delta: f64,
    /// Absent after the time limit for rescanning was reached.
    pub(crate) rescan_ns_per_delta: Option<f64>,
}

/// Size of the automaton that all streams of a pack share.
pub(crate) struct ChannelAutomaton {
    pub(crate) channel: &'static str,
    pub(crate) size: AutomatonSize,
}

/// The cost of one rule.
#[derive(Serialize)]
pub(crate) struct RuleCost {
    pub(crate) rule: String,
    pub(crate) hits: usize,
    pub(crate) states_alone: usize,
    pub(crate) states_added: Option<usize>,
    /// `None` if the rule was not timed or the difference is noise.
    pub(crate) ns_saved_per_delta: Option<f64>,
    pub(crate) is_timed: bool,
    pub(crate) why: BTreeSet<CostReason>,
}

/// A reason why a rule is expensive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CostReason {
    NoLiteral,
    States,
    Confirms,
    Hits,
}

impl CostReason {
    pub(crate) fn words(self) -> &'static str {
        match self {
            CostReason::NoLiteral => {
                "no literal of three characters: many texts match its beginning"
            }
            CostReason::States => "more than a tenth of all states",
            CostReason::Confirms => {
                "look-around: each candidate match is verified by a second engine"
            }
            CostReason::Hits => "it hits",
        }
    }
}

impl PassCost {
    pub(crate) fn new(pass: Duration, script: &ReplayScript) -> PassCost {
        let nanoseconds = pass.as_secs_f64() * 1e9;
        PassCost {
            ns_per_delta: nanoseconds / script.deltas.max(1) as f64,
            ns_per_byte: nanoseconds / script.bytes.max(1) as f64,
        }
    }
}

impl RuleCost {
    pub(crate) fn new(rule: &Rule, states_alone: usize, hits: usize) -> RuleCost {
        RuleCost {
            rule: rule.id.clone(),
            hits,
            states_alone,
            states_added: None,
            ns_saved_per_delta: None,
            is_timed: false,
            why: BTreeSet::new(),
        }
    }

    pub(crate) fn cost_reasons(&self) -> String {
        let words: Vec<&str> = self.why.iter().map(|why| why.words()).collect();
        words.join("; ")
    }
}

impl Serialize for ChannelAutomaton {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct AutomatonRecord {
            channel: &'static str,
            states: usize,
            columns: usize,
            table_bytes: usize,
            set_bytes: usize,
            is_full: bool,
        }
        let size = &self.size;
        AutomatonRecord {
            channel: self.channel,
            states: size.states,
            columns: size.columns,
            table_bytes: size.table_bytes,
            set_bytes: size.set_bytes,
            is_full: size.is_full,
        }
        .serialize(serializer)
    }
}

impl BenchReport {
    /// Returns the nanoseconds that a delta of the replies as recorded takes.
    pub(crate) fn ns_per_delta(&self) -> f64 {
        let recorded = self.rows.iter().find(|cost| cost.row == Row::Recorded);
        recorded.map_or(self.matching.ns_per_delta, |cost| cost.ns)
    }

    /// Returns how many times the rescanning host is slower.
    pub(crate) fn slowdown(&self) -> f64 {
        self.rescan.ns_per_delta / self.ns_per_delta()
    }

    /// Returns a note that rules cut replies as recorded, if they did.
    pub(crate) fn cuts_note(&self) -> Option<String> {
        let recorded = self.rows.iter().find(|cost| cost.row == Row::Recorded)?;
        (recorded.cuts > 0).then(|| {
            format!(
                "rules cut {} of {} replies: nothing is read after a cut, so `replies as recorded` is too low",
                recorded.cuts, self.replies
            )
        })
    }

    /// Returns a note that rescanning was stopped early, if it was.
    pub(crate) fn truncation_note(&self) -> Option<String> {
        let Rescan {
            deltas, is_whole, ..
        } = self.rescan;
        (!is_whole).then(|| {
            format!(
                "rescanning was stopped after {deltas} of {} deltas; later deltas cost more",
                self.deltas
            )
        })
    }

    fn show_cost(&self, out: &mut dyn Write) -> io::Result<()> {
        let BenchReport {
            rows,
            bare,
            matching,
            rescan,
            ..
        } = self;
        writeln!(out, "\n{STRONG}cost{STRONG:#}")?;
        for cost in rows {
            let RowCost { row, ns, .. } = cost;
            let (words, piece) = (row.words(), row.piece());
            write!(out, "  {words:<20} {ns:>10.1} ns/{piece}")?;
            match cost.instructions {
                Some(count) => writeln!(out, "   {count:>8.0} instructions")?,
                None => writeln!(out)?,
            }
        }
        for (words, cost) in [("matching alone", matching), ("buffering only", bare)] {
            writeln!(out, "  {words:<20} {:>10.1} ns/delta", cost.ns_per_delta)?;
        }
        writeln!(
            out,
            "  {:<20} {:>10.1} ns/delta   {:>8.1} times as long as recorded{}",
            "rescanning",
            rescan.ns_per_delta,
            self.slowdown(),
            if rescan.is_whole { "" } else { " or more" }
        )?;
        for note in [self.cuts_note(), self.truncation_note()]
            .into_iter()
            .flatten()
        {
            writeln!(out, "  ({note})")?;
        }
        if rescan.patterns_left_out > 0 {
            writeln!(
                out,
                "  (rescanned without {} patterns that the regex engine rejects)",
                rescan.patterns_left_out
            )?;
        }
        Ok(())
    }

    fn show_memory(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n{STRONG}memory{STRONG:#}")?;
        writeln!(
            out,
            "  {} bytes of state for each open text",
            self.state_bytes
        )?;
        for ChannelAutomaton { channel, size } in &self.automata {
            let full = if size.is_full {
                ", FULL: see Limits::table_bytes"
            } else {
                ""
            };
            writeln!(
                out,
                "  {channel}: {} states, table {} + sets {} bytes, shared by all streams{full}",
                size.states, size.table_bytes, size.set_bytes
            )?;
        }
        Ok(())
    }

    fn show_rules(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "\n{STRONG}most expensive rules{STRONG:#}, by the states that only they need"
        )?;
        for cost in self.rules.iter().take(SHOWN) {
            let added = cost
                .states_added
                .map_or("?".to_owned(), |added| added.to_string());
            write!(
                out,
                "  {STRONG}{}{STRONG:#}: {added} of {} states ({} alone)",
                Escaped(&cost.rule),
                self.states,
                cost.states_alone
            )?;
            match cost.ns_saved_per_delta {
                Some(saved) => write!(out, ", {saved:.2} ns/delta")?,
                None if cost.is_timed => write!(out, ", time within the noise")?,
                None => {}
            }
            match cost.why.is_empty() {
                true => writeln!(out)?,
                false => writeln!(out, "\n    {FAINT}{}{FAINT:#}", cost.cost_reasons())?,
            }
        }
        let more = self.rules.len().saturating_sub(SHOWN);
        if more > 0 {
            writeln!(out, "  and {more} more: `--format json` has all of them")?;
        }
        writeln!(out, "\n{FAINT}{METHOD}{FAINT:#}")
    }
}

impl OutputRecord for BenchReport {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "ttsr {}; packs: {}; streams: {}",
            self.version,
            Escaped(&self.packs.join(", ")),
            Escaped(&self.streams.join(", "))
        )?;
        writeln!(
            out,
            "{} rules with {} patterns; {} bytes in {} deltas, {} parts, {} replies; {} hits",
            self.rules_loaded,
            self.patterns,
            self.bytes,
            self.deltas,
            self.parts,
            self.replies,
            self.hits
        )?;
        self.show_cost(out)?;
        self.show_memory(out)?;
        self.show_rules(out)
    }
}
