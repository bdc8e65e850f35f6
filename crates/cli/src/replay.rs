//! `ttsr replay`: recorded streams, delta by delta.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use ttsr::{Event, Pack};
use ttsr_wire::Reader;

use crate::args::{Format, FormatArg, WorkspaceArgs};
use crate::chunk::Chunk;
use crate::input::{Input, Problems, inputs};
use crate::output::Out;
use crate::reply::Reply;
use crate::tally::{Count, Tally};
use crate::{Outcome, Stop, packs};

/// Read recorded streams as they once arrived: what hits, and what would have been done
///
/// The format is found by looking: server-sent events of Anthropic or OpenAI (Chat, Responses), one JSON
/// chunk a line, or our own recording. Each stream is a session of its own. Hits are those of the whole
/// stream; verdicts end where one of them cuts, for a recording cannot be asked to try again.
///
/// A file that cannot be read, or not whole, is named, and the exit code is 2.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: WorkspaceArgs,
    /// How parts are cut into deltas: `original`, `bytes`, `whole`, a number of bytes, or `random:SEED`
    #[arg(long, value_name = "CHUNK", default_value = "original")]
    chunk: Chunk,
    /// Mask every match in the output, not only those of rules that redact
    #[arg(long)]
    redact: bool,
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
        redacts_all: options.redact,
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
    if options.format.format == Format::Json {
        problems
            .unread
            .iter()
            .try_for_each(|unread| out.write(unread))?;
    }
    out.end(&replay.tally)?;
    Ok(replay.tally.outcome(&problems))
}

struct Replay {
    pack: Pack,
    chunk: Chunk,
    redacts_all: bool,
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
        let unread_before = self.tally.unread_kinds();
        let mut reader = Reader::new(&input.name);
        let mut is_empty = true;
        while let Some(block) = blocks.next(problems) {
            is_empty = false;
            reader.push(block, &mut |stream, event| self.take(stream, event));
            self.write(out)?;
        }
        reader.finish(&mut |stream, event| self.take(stream, event));
        if reader.format().is_none() && !is_empty {
            problems.tell(
                &input.name,
                &"not a recorded stream of a known format, not scanned",
            );
            return self.write(out);
        }
        self.note_malformed(reader.malformed_events(), input, problems);
        for (kind, bytes) in self.tally.unread_kinds() {
            let bytes = bytes - unread_before.get(&kind).copied().unwrap_or_default();
            if bytes > 0 {
                problems.tell_bytes(&input.name, bytes, &kind);
            }
        }
        self.write(out)
    }

    /// Events that could not be read may have held what rules look for: the recording is not read whole.
    fn note_malformed(&mut self, events: u64, input: &Input, problems: &mut Problems) {
        self.tally.counters.malformed_events += events;
        if events > 0 {
            let events = Count(events, "malformed event");
            problems.tell(&input.name, &format_args!("{events}, not scanned"));
        }
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
            reply.write(self.redacts_all, out)?;
        }
        Ok(out.flush()?)
    }
}
