//! What was measured, as it is shown to a reader and to a script.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use anstyle::Style;
use serde::{Serialize, Serializer};
use ttsr::Rule;
use ttsr::pack::AutomatonSize;

use super::script::Script;
use crate::output::{Escaped, Record, STRONG};

const FAINT: Style = Style::new().dimmed();

/// Rules that are shown; a script gets all.
pub(crate) const SHOWN: usize = 10;

/// How the figures of rules came about: for every output.
pub(crate) const METHOD: &str = "\
All rules of a channel are one automaton. `states_alone`: states that the stream leads to with this rule by \
itself. `states_added`: how many fewer there are without it, for the 40 rules that need the most alone. `ns_saved_per_delta`: how much faster the same \
stream is read without it, for the rules that add the most states: median of passes in turn; none where it is within \
the noise. Searching again: a regex for each pattern, warm, on the channels of its rule.";

/// All of it.
#[derive(Serialize)]
#[serde(tag = "event", rename = "bench")]
pub(crate) struct Report {
    /// Of this command.
    pub(crate) version: &'static str,
    pub(crate) packs: Vec<String>,
    /// The recordings.
    pub(crate) streams: Vec<String>,
    pub(crate) rules_loaded: usize,
    pub(crate) patterns: usize,
    pub(crate) replies: usize,
    pub(crate) parts: usize,
    pub(crate) deltas: usize,
    pub(crate) bytes: usize,
    pub(crate) hits: usize,
    /// A loop that only keeps the deltas.
    pub(crate) bare: Cost,
    /// The same stream through the rules, opening and closing included.
    pub(crate) cost: Cost,
    /// A regex for each pattern, searched in the whole part at each delta, on the channels of its rule. Warm.
    pub(crate) rescan: Rescan,
    /// Along the longest reply.
    pub(crate) growth: Vec<Growth>,
    /// Of a haystack that is being read: a part of text, a value of tool input.
    pub(crate) state_bytes: usize,
    pub(crate) automata: Vec<Automaton>,
    /// Of all automata.
    pub(crate) states: usize,
    pub(crate) rules: Vec<RuleCost>,
}

/// Time of a whole pass, by the piece.
#[derive(Serialize)]
pub(crate) struct Cost {
    pub(crate) ns_per_delta: f64,
    pub(crate) ns_per_byte: f64,
}

/// See [`Report::rescan`].
#[derive(Serialize)]
pub(crate) struct Rescan {
    pub(crate) ns_per_delta: f64,
    /// Deltas that were timed: all of them, unless it took too long.
    pub(crate) deltas: usize,
    pub(crate) is_whole: bool,
    /// Patterns that the regex engine does not take: look-around, or too big for it.
    pub(crate) patterns_left_out: usize,
}

/// What a delta costs where so many bytes of the reply were read.
#[derive(Serialize)]
pub(crate) struct Growth {
    pub(crate) bytes: usize,
    pub(crate) ns_per_delta: f64,
    /// Not there past what there was patience for.
    pub(crate) rescan_ns_per_delta: Option<f64>,
}

/// What the streams of a pack share.
pub(crate) struct Automaton {
    pub(crate) channel: &'static str,
    pub(crate) size: AutomatonSize,
}

/// What one rule has to do with it.
#[derive(Serialize)]
pub(crate) struct RuleCost {
    pub(crate) rule: String,
    pub(crate) hits: usize,
    pub(crate) states_alone: usize,
    pub(crate) states_added: Option<usize>,
    /// None where it was not timed, and where it is within the noise.
    pub(crate) ns_saved_per_delta: Option<f64>,
    pub(crate) is_timed: bool,
    pub(crate) why: BTreeSet<Why>,
}

/// What can make a rule dear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Why {
    NoLiteral,
    States,
    Confirms,
    Hits,
}

impl Why {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Why::NoLiteral => "no literal of three characters: much text looks like its beginning",
            Why::States => "over a tenth of all states",
            Why::Confirms => "look-around: each possible end is searched again",
            Why::Hits => "it hits",
        }
    }
}

impl Cost {
    pub(crate) fn new(pass: Duration, script: &Script) -> Cost {
        let nanoseconds = pass.as_secs_f64() * 1e9;
        Cost {
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

    pub(crate) fn whys(&self) -> String {
        let words: Vec<&str> = self.why.iter().map(|why| why.words()).collect();
        words.join("; ")
    }
}

impl Serialize for Automaton {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat {
            channel: &'static str,
            states: usize,
            columns: usize,
            table_bytes: usize,
            set_bytes: usize,
            is_full: bool,
        }
        let size = &self.size;
        Flat {
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

impl Report {
    /// How many times more the other way costs.
    pub(crate) fn times_more(&self) -> f64 {
        self.rescan.ns_per_delta / self.cost.ns_per_delta
    }

    /// Says that searching again was stopped, if it was.
    pub(crate) fn cut_short(&self) -> Option<String> {
        let Rescan {
            deltas, is_whole, ..
        } = self.rescan;
        (!is_whole).then(|| {
            format!(
                "searching again was cut short after {deltas} of {} deltas; later ones cost more",
                self.deltas
            )
        })
    }

    fn show_cost(&self, out: &mut dyn Write) -> io::Result<()> {
        let Report {
            cost, bare, rescan, ..
        } = self;
        writeln!(out, "\n{STRONG}cost{STRONG:#}")?;
        writeln!(
            out,
            "  with these rules     {:>10.1} ns a delta   {:>8.2} ns a byte",
            cost.ns_per_delta, cost.ns_per_byte
        )?;
        writeln!(
            out,
            "  only kept            {:>10.1} ns a delta   {:>8.2} ns a byte",
            bare.ns_per_delta, bare.ns_per_byte
        )?;
        writeln!(
            out,
            "  searched again       {:>10.1} ns a delta   {:>8.1} times as long{}",
            rescan.ns_per_delta,
            self.times_more(),
            if rescan.is_whole { "" } else { ", or longer" }
        )?;
        if let Some(cut) = self.cut_short() {
            writeln!(out, "  ({cut})")?;
        }
        if rescan.patterns_left_out > 0 {
            writeln!(
                out,
                "  (searched without {} patterns that the regex engine does not take)",
                rescan.patterns_left_out
            )?;
        }
        Ok(())
    }

    fn show_memory(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n{STRONG}memory{STRONG:#}")?;
        writeln!(
            out,
            "  {} bytes of state for each text that is being read",
            self.state_bytes
        )?;
        for Automaton { channel, size } in &self.automata {
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
            "\n{STRONG}rules that cost the most{STRONG:#}, by the states that only they need"
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
                Some(saved) => write!(out, ", {saved:.2} ns a delta")?,
                None if cost.is_timed => write!(out, ", no time beyond the noise")?,
                None => {}
            }
            match cost.why.is_empty() {
                true => writeln!(out)?,
                false => writeln!(out, "\n    {FAINT}{}{FAINT:#}", cost.whys())?,
            }
        }
        let more = self.rules.len().saturating_sub(SHOWN);
        if more > 0 {
            writeln!(out, "  and {more} more: `--format json` has all of them")?;
        }
        writeln!(out, "\n{FAINT}{METHOD}{FAINT:#}")
    }
}

impl Record for Report {
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
