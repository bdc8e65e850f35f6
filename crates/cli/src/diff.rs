//! `ttsr diff`: compares the effects of two packs on a corpus.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use ttsr::{Channel, Event, Pack, PartId};
use ttsr_wire::Reader;

use crate::args::{FormatArg, PackArgs};
use crate::chunk::Chunking;
use crate::input::{InputFile, InputProblems, inputs};
use crate::output::{Escaped, OutputRecord, RecordWriter};
use crate::reply::RecordedReply;
use crate::totals::{Quantity, RunTotals};
use crate::{CommandError, ExitStatus, load};

/// Compare two packs on a corpus: list the streams and files they judge differently
///
/// Recorded streams are read as `replay` reads them. Any other file is read as one text part. A verdict differs
/// if a rule hits under one pack only or takes another action. Exits with 1 if any verdict differs.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The old pack: a built-in pack, a file or a folder
    #[arg(value_name = "OLD")]
    old: String,
    /// The new pack
    #[arg(value_name = "NEW")]
    new: String,
    /// Recordings and texts, or folders of them; may be repeated
    #[arg(long, required = true, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

/// The outcomes in one stream: each rule with the action that was or would be taken.
type Outcomes = BTreeSet<(String, &'static str)>;

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let load = |name: &String| load::load(&PackArgs::from_names(vec![name.clone()]), &[]);
    let (old, new) = (load(&options.old)?, load(&options.new)?);
    let mut problems = InputProblems::default();
    let mut out = RecordWriter::new(options.format.format);
    let mut summary = DiffSummary::default();
    for input in inputs(&options.corpus, &mut problems) {
        for pair in read(&input, [&old, &new], &mut problems) {
            summary.streams += 1;
            for change in pair.changes() {
                summary.changed += 1;
                out.write(&change)?;
            }
        }
    }
    out.end(&summary)?;
    Ok(match summary.changed {
        _ if problems.any => ExitStatus::Incomplete,
        0 => ExitStatus::Clean,
        _ => ExitStatus::Findings,
    })
}

/// One stream under both packs.
struct VerdictPair {
    file: String,
    stream: String,
    outcomes: [Outcomes; 2],
}

impl VerdictPair {
    /// Returns each rule whose actions differ.
    fn changes(&self) -> Vec<VerdictChange<'_>> {
        let [old, new] = &self.outcomes;
        let differing: BTreeSet<&str> = old
            .symmetric_difference(new)
            .map(|(rule, _)| rule.as_str())
            .collect();
        let actions = |of: &Outcomes, rule: &str| -> Vec<&'static str> {
            of.iter()
                .filter(|(other, _)| other == rule)
                .map(|(_, action)| *action)
                .collect()
        };
        let change = |rule| VerdictChange {
            file: &self.file,
            stream: &self.stream,
            rule,
            old: actions(old, rule),
            new: actions(new, rule),
        };
        differing.into_iter().map(change).collect()
    }
}

/// Reads a file with both packs: its streams, or the whole file as one text.
fn read(input: &InputFile, packs: [&Pack; 2], problems: &mut InputProblems) -> Vec<VerdictPair> {
    let Some(mut blocks) = input.open(problems) else {
        return Vec::new();
    };
    let mut reader = Reader::new(&input.name);
    let mut recorded: Vec<(String, [RecordedReply; 2], bool)> = Vec::new();
    let mut plain = packs.map(|pack| RecordedReply::new(&input.name, pack, Chunking::Original, 0));
    let mut tally = RunTotals::default();
    let start = Event::PartStart {
        part: PartId(0),
        name: "0".to_owned(),
        channel: Channel::Text,
        tool: None,
        call: None,
    };
    plain
        .iter_mut()
        .for_each(|reply| reply.push_event(start.clone(), &mut tally));
    while let Some(block) = blocks.next(problems) {
        reader.push(block, &mut |stream, event| {
            record_event(&mut recorded, packs, stream, &event)
        });
        if reader.format().is_none() {
            let delta = Event::Delta {
                part: PartId(0),
                bytes: block.to_vec(),
            };
            plain
                .iter_mut()
                .for_each(|reply| reply.push_event(delta.clone(), &mut tally));
        }
    }
    reader.finish(&mut |stream, event| record_event(&mut recorded, packs, stream, &event));
    if reader.format().is_none() {
        let end = Event::PartEnd { part: PartId(0) };
        plain
            .iter_mut()
            .for_each(|reply| reply.push_event(end.clone(), &mut tally));
        recorded = vec![(input.name.clone(), plain, true)];
    }
    let pair = |(stream, replies, _): (String, [RecordedReply; 2], bool)| VerdictPair {
        file: input.name.clone(),
        stream,
        outcomes: replies.map(|reply| reply.outcomes()),
    };
    recorded.into_iter().map(pair).collect()
}

/// Passes an event to the open stream of that name.
fn record_event(
    recorded: &mut Vec<(String, [RecordedReply; 2], bool)>,
    packs: [&Pack; 2],
    stream: &str,
    event: &Event,
) {
    if matches!(event, Event::Unscanned { .. }) {
        return;
    }
    let open = recorded
        .iter()
        .rposition(|(name, _, ended)| name == stream && !ended);
    let at = open.unwrap_or_else(|| {
        let number = recorded.len() as u64 + 1;
        let replies =
            packs.map(|pack| RecordedReply::new(stream, pack, Chunking::Original, number));
        recorded.push((stream.to_owned(), replies, false));
        recorded.len() - 1
    });
    let (_, replies, ended) = &mut recorded[at];
    let mut tally = RunTotals::default();
    replies
        .iter_mut()
        .for_each(|reply| reply.push_event(event.clone(), &mut tally));
    *ended = matches!(event, Event::Finish { .. });
}

/// A rule whose actions differ in a stream.
#[derive(Serialize)]
#[serde(tag = "event", rename = "change")]
struct VerdictChange<'a> {
    file: &'a str,
    stream: &'a str,
    rule: &'a str,
    old: Vec<&'static str>,
    new: Vec<&'static str>,
}

impl OutputRecord for VerdictChange<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let shown = |actions: &[&str]| match actions {
            [] => "nothing".to_owned(),
            _ => actions.join("+"),
        };
        write!(out, "{}", Escaped(self.file))?;
        if self.stream != self.file {
            write!(out, " {}", Escaped(self.stream))?;
        }
        writeln!(
            out,
            ": {}: {} -> {}",
            Escaped(self.rule),
            shown(&self.old),
            shown(&self.new)
        )
    }
}

#[derive(Default, Serialize)]
#[serde(tag = "event", rename = "summary")]
struct DiffSummary {
    streams: u64,
    changed: u64,
}

impl std::fmt::Display for DiffSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} in {}",
            Quantity(self.changed, "change"),
            Quantity(self.streams, "stream")
        )
    }
}

impl OutputRecord for DiffSummary {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{self}")
    }
}
