//! `ttsr scan`: each file is one part.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ttsr::{Channel, Hit, Pack, PartId, Stream};

use crate::args::{Format, FormatArg, PackArgs};
use crate::input::{Blocks, Input, Problems, inputs};
use crate::output::{HitRecord, Out};
use crate::places::Places;
use crate::tally::Tally;
use crate::{Outcome, Stop, packs};

/// Read files as if a model had written them: each is one part of a reply of its own
///
/// With the channel `tool-input` a file is the input of a call: a JSON object, of which the arguments are
/// read, or anything else, which is read as it is.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: PackArgs,
    /// What kind of part each file is [default: text, or tool-input with --tool]
    #[arg(long, value_name = "CHANNEL", value_parser = channels())]
    channel: Option<Channel>,
    /// The tool that is called
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// The file that the part is about, whatever its input says
    #[arg(long, value_name = "FILE")]
    path: Option<String>,
    #[command(flatten)]
    format: FormatArg,
    /// Files, folders (every regular file below), or `-` for the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

fn channels() -> impl TypedValueParser<Value = Channel> {
    PossibleValuesParser::new(Channel::ALL.map(Channel::name))
        .map(|name| Channel::from_name(&name).expect("only names of channels are possible values"))
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let mut pack = packs::load(&options.packs)?;
    if let Some(path) = &options.path {
        pack = packs::about_file(&pack, path)?;
    }
    let mut problems = Problems::default();
    let mut out = Out::new(options.format.format);
    let mut tally = Tally::default();
    for input in inputs(&options.files, &mut problems) {
        let Some(blocks) = input.open(&mut problems) else {
            continue;
        };
        let scanned = Scanned::read(options, &pack, blocks, &mut problems, &mut tally);
        scanned.write(&input, &mut out)?;
        out.flush()?;
    }
    out.end(&tally)?;
    Ok(tally.outcome(&problems))
}

const PART: PartId = PartId(0);

/// One file and what was found in it.
struct Scanned {
    stream: Stream,
    /// With line and column, where they are asked for and known.
    hits: Vec<(Hit, Option<(u64, u64)>)>,
    places: Option<Places>,
}

impl Scanned {
    fn read(
        options: &Options,
        pack: &Pack,
        mut blocks: Blocks,
        problems: &mut Problems,
        tally: &mut Tally,
    ) -> Scanned {
        let places = (options.format.format == Format::Human).then(Places::new);
        let mut scanned = Scanned {
            stream: pack.stream(),
            hits: Vec::new(),
            places,
        };
        scanned.open(options);
        while let Some(block) = blocks.next(problems) {
            if let Some(places) = &mut scanned.places {
                places.push(block);
            }
            let hits = scanned.stream.push(PART, block).to_vec();
            scanned.place(hits);
            tally.deltas += 1;
        }
        let hits = scanned.stream.close(PART).to_vec();
        scanned.place(hits);
        tally.streams += 1;
        tally.parts += 1;
        tally.bytes += scanned.stream.delivered(PART);
        tally.hits += scanned.hits.len() as u64;
        tally.add(&scanned.stream.counters());
        scanned
    }

    fn open(&mut self, options: &Options) {
        let default = if options.tool.is_some() {
            Channel::ToolInput
        } else {
            Channel::Text
        };
        self.stream.open(PART, options.channel.unwrap_or(default));
        if let Some(tool) = &options.tool {
            let hits = self.stream.tool(PART, tool, "").to_vec();
            self.place(hits);
        }
    }

    /// Looks up where the hits are while their bytes are at hand.
    fn place(&mut self, hits: Vec<Hit>) {
        for hit in hits {
            let matched = self.stream.matched(&hit);
            let place = self
                .places
                .as_ref()
                .and_then(|places| places.of_match(hit.end, matched));
            self.hits.push((hit, place));
        }
    }

    fn write(&self, input: &Input, out: &mut Out) -> Result<(), Stop> {
        let mut hits = self.hits.clone();
        hits.sort_by_key(|(hit, _)| (hit.decided, hit.rule));
        for (hit, place) in &hits {
            let record = HitRecord::new(&self.stream, hit, &input.name, "0");
            out.write(&record.in_file(*place))?;
        }
        Ok(())
    }
}
