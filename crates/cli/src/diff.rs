//! `ttsr diff`: what a change of rules changes.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use ttsr::{Channel, Event, Pack, PartId};
use ttsr_wire::Reader;

use crate::args::{FormatArg, PackArgs};
use crate::chunk::Chunk;
use crate::input::{Input, Problems, inputs};
use crate::output::{Escaped, Out, Record};
use crate::reply::Reply;
use crate::tally::{Count, Tally};
use crate::{Outcome, Stop, packs};

/// Read a corpus with two packs: which streams and files are judged differently
///
/// Recorded streams are read as `replay` reads them, any other file as one part of text. A verdict changes
/// where a rule comes or goes, or does something else. Exits with 1 if any changes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The pack as it was: a built-in pack, a file or a folder
    #[arg(value_name = "OLD")]
    old: String,
    /// The pack as it is
    #[arg(value_name = "NEW")]
    new: String,
    /// Recordings and texts, or folders of them; may be repeated
    #[arg(long, required = true, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

/// What a rule came to in a stream: the rule, and the action that was or would be taken.
type Outcomes = BTreeSet<(String, &'static str)>;

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let load = |name: &String| packs::load(&PackArgs::of(vec![name.clone()]));
    let (old, new) = (load(&options.old)?, load(&options.new)?);
    let mut problems = Problems::default();
    let mut out = Out::new(options.format.format);
    let mut summary = Summary::default();
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
        _ if problems.any => Outcome::Incomplete,
        0 => Outcome::Clean,
        _ => Outcome::Findings,
    })
}

/// One stream under both packs.
struct Pair {
    file: String,
    stream: String,
    outcomes: [Outcomes; 2],
}

impl Pair {
    /// Each rule whose actions differ.
    fn changes(&self) -> Vec<Change<'_>> {
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
        let change = |rule| Change {
            file: &self.file,
            stream: &self.stream,
            rule,
            old: actions(old, rule),
            new: actions(new, rule),
        };
        differing.into_iter().map(change).collect()
    }
}

/// A file with both packs: its streams, or itself as one text.
fn read(input: &Input, packs: [&Pack; 2], problems: &mut Problems) -> Vec<Pair> {
    let Some(mut blocks) = input.open(problems) else {
        return Vec::new();
    };
    let mut reader = Reader::new(&input.name);
    let mut recorded: Vec<(String, [Reply; 2], bool)> = Vec::new();
    let mut plain = packs.map(|pack| Reply::new(&input.name, pack, Chunk::Original, 0));
    let mut tally = Tally::default();
    let start = Event::PartStart {
        part: PartId(0),
        name: "0".to_owned(),
        channel: Channel::Text,
        tool: None,
        call: None,
    };
    plain
        .iter_mut()
        .for_each(|reply| reply.take(start.clone(), &mut tally));
    while let Some(block) = blocks.next(problems) {
        reader.push(block, &mut |stream, event| {
            take(&mut recorded, packs, stream, &event)
        });
        if reader.format().is_none() {
            let delta = Event::Delta {
                part: PartId(0),
                bytes: block.to_vec(),
            };
            plain
                .iter_mut()
                .for_each(|reply| reply.take(delta.clone(), &mut tally));
        }
    }
    reader.finish(&mut |stream, event| take(&mut recorded, packs, stream, &event));
    if reader.format().is_none() {
        let end = Event::PartEnd { part: PartId(0) };
        plain
            .iter_mut()
            .for_each(|reply| reply.take(end.clone(), &mut tally));
        recorded = vec![(input.name.clone(), plain, true)];
    }
    let pair = |(stream, replies, _): (String, [Reply; 2], bool)| Pair {
        file: input.name.clone(),
        stream,
        outcomes: replies.map(|reply| reply.outcomes()),
    };
    recorded.into_iter().map(pair).collect()
}

/// Gives an event to the stream of that name that has not ended.
fn take(
    recorded: &mut Vec<(String, [Reply; 2], bool)>,
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
        let replies = packs.map(|pack| Reply::new(stream, pack, Chunk::Original, number));
        recorded.push((stream.to_owned(), replies, false));
        recorded.len() - 1
    });
    let (_, replies, ended) = &mut recorded[at];
    let mut tally = Tally::default();
    replies
        .iter_mut()
        .for_each(|reply| reply.take(event.clone(), &mut tally));
    *ended = matches!(event, Event::Finish { .. });
}

/// A rule that does something else in a stream.
#[derive(Serialize)]
#[serde(tag = "event", rename = "change")]
struct Change<'a> {
    file: &'a str,
    stream: &'a str,
    rule: &'a str,
    old: Vec<&'static str>,
    new: Vec<&'static str>,
}

impl Record for Change<'_> {
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
struct Summary {
    streams: u64,
    changed: u64,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} in {}",
            Count(self.changed, "change"),
            Count(self.streams, "stream")
        )
    }
}

impl Record for Summary {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{self}")
    }
}
