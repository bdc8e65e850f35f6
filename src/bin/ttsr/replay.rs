//! `ttsr replay`: recorded streams, delta by delta.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use ttsr::wire::Reader;
use ttsr::{Event, Pack};

use crate::args::{FormatArg, WorkspaceArgs};
use crate::chunk::Chunk;
use crate::input::{Input, Problems, inputs};
use crate::output::{Escaped, Out, tell};
use crate::reply::Reply;
use crate::tally::Tally;
use crate::{Outcome, Stop, packs};

/// Read recorded streams as they once arrived: what hits, and what would have been done
///
/// The format is found by looking: server-sent events of Anthropic or OpenAI (Chat, Responses), one JSON
/// chunk a line, or our own recording. Each stream is a session of its own. Hits are those of the whole
/// stream; verdicts end where one of them cuts, for a recording cannot be asked to try again.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: WorkspaceArgs,
    /// How parts are cut into deltas: `original`, `bytes`, `whole`, a number of bytes, or `random:SEED`
    #[arg(long, value_name = "CHUNK", default_value = "original")]
    chunk: Chunk,
    #[command(flatten)]
    format: FormatArg,
    /// Recordings, folders of them, or `-` for the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let mut replay = Replay {
        pack: packs::load_in(&options.packs)?,
        chunk: options.chunk,
        begun: 0,
        open: HashMap::new(),
        ended: Vec::new(),
        tally: Tally::default(),
    };
    let mut problems = Problems::default();
    let mut out = Out::new(options.format.format);
    for input in inputs(&options.files, &mut problems) {
        replay.read(&input, &mut problems, &mut out)?;
    }
    out.end(&replay.tally)?;
    Ok(replay.tally.outcome(&problems))
}

struct Replay {
    pack: Pack,
    chunk: Chunk,
    /// Replies so far.
    begun: u64,
    /// Replies under way, by name.
    open: HashMap<String, Reply>,
    /// Replies that are complete and not yet written.
    ended: Vec<Reply>,
    tally: Tally,
}

impl Replay {
    fn read(&mut self, input: &Input, problems: &mut Problems, out: &mut Out) -> Result<(), Stop> {
        let Some(mut blocks) = input.open(problems) else {
            return Ok(());
        };
        let mut reader = Reader::new(&input.name);
        let mut is_empty = true;
        while let Some(block) = blocks.next(problems) {
            is_empty = false;
            reader.push(block, &mut |stream, event| self.take(stream, event));
            self.write(out)?;
        }
        reader.finish(&mut |stream, event| self.take(stream, event));
        if reader.format().is_none() && !is_empty {
            unrecognised(input, problems);
        }
        self.write(out)
    }

    fn take(&mut self, name: &str, event: Event) {
        if let Event::Unscanned { bytes, kind } = &event {
            return self.tally.unread(*bytes, kind);
        }
        let is_last = matches!(event, Event::Finish { .. });
        if !self.open.contains_key(name) {
            self.begun += 1;
            let reply = Reply::new(name, &self.pack, self.chunk, self.begun);
            self.open.insert(name.to_owned(), reply);
        }
        if let Some(reply) = self.open.get_mut(name) {
            reply.take(event, &mut self.tally);
        }
        if is_last && let Some(mut reply) = self.open.remove(name) {
            reply.end(&mut self.tally);
            self.ended.push(reply);
        }
    }

    fn write(&mut self, out: &mut Out) -> Result<(), Stop> {
        for reply in self.ended.drain(..) {
            reply.write(out)?;
        }
        Ok(out.flush()?)
    }
}

/// A file that the caller named should have been a recording; in a folder others may lie about.
fn unrecognised(input: &Input, problems: &mut Problems) {
    const WHAT: &str = "not a recorded stream of a known format";
    match input.is_named {
        true => problems.tell(&input.name, &WHAT),
        false => tell(&format_args!(
            "{}: {WHAT}, not scanned",
            Escaped(&input.name)
        )),
    }
}
