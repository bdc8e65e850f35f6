//! `ttsr replay`: scans recorded streams delta by delta.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use ttsr::{Event, Pack};
use ttsr_wire::Reader;

use crate::args::{FormatArg, OutputFormat, WorkspaceArgs};
use crate::chunk::Chunking;
use crate::input::{InputFile, InputProblems, inputs};
use crate::output::RecordWriter;
use crate::reply::RecordedReply;
use crate::totals::{Quantity, RunTotals};
use crate::{CommandError, ExitStatus, load};

/// Scan recorded streams delta by delta: all hits, and the verdicts a session would have reached
///
/// The format is detected: a reply of Anthropic, OpenAI (Chat, Responses), Gemini, Ollama, Cohere or Bedrock (Converse),
/// streamed or whole, one JSON chunk per line, or the native recording format. Each stream has its own session. The hits are those of the whole stream. The
/// verdicts end at the first cut, because a recording cannot be retried.
///
/// A file that cannot be read completely is reported, and the exit code is 2.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: WorkspaceArgs,
    /// The split of parts into deltas: `original`, `bytes`, `whole`, a number of bytes, or `random:SEED`
    #[arg(long, value_name = "CHUNK", default_value = "original")]
    chunk: Chunking,
    /// Mask every match in the output, not only matches of rules that redact
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    format: FormatArg,
    /// Recordings, folders of them, or `-` for the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let mut replay = ReplayRun {
        pack: load::load_in(&options.packs, &load::OFF_BY_DEFAULT)?,
        chunking: options.chunk,
        redacts_all: options.redact,
        begun: 0,
        open: HashMap::new(),
        ended: Vec::new(),
        tally: RunTotals::default(),
    };
    let mut problems = InputProblems::default();
    let mut out = RecordWriter::new(options.format.format);
    for input in inputs(&options.files, &mut problems) {
        replay.read(&input, &mut problems, &mut out)?;
    }
    if options.format.format == OutputFormat::Json {
        problems
            .unread
            .iter()
            .try_for_each(|unread| out.write(unread))?;
    }
    out.end(&replay.tally)?;
    Ok(replay.tally.outcome(&problems))
}

struct ReplayRun {
    pack: Pack,
    chunking: Chunking,
    redacts_all: bool,
    /// Number of replies so far.
    begun: u64,
    /// Open replies, by stream name.
    open: HashMap<String, RecordedReply>,
    /// Complete replies that have not been printed yet.
    ended: Vec<RecordedReply>,
    tally: RunTotals,
}

impl ReplayRun {
    fn read(
        &mut self,
        input: &InputFile,
        problems: &mut InputProblems,
        out: &mut RecordWriter,
    ) -> Result<(), CommandError> {
        let Some(mut blocks) = input.open(problems) else {
            return Ok(());
        };
        let unread_before = self.tally.unread_kinds();
        let mut reader = Reader::new(&input.name);
        let mut is_empty = true;
        while let Some(block) = blocks.next(problems) {
            is_empty = false;
            reader.push(block, &mut |stream, event| self.push_event(stream, event));
            self.write(out)?;
        }
        reader.finish(&mut |stream, event| self.push_event(stream, event));
        if reader.format().is_none() && !is_empty {
            problems.report(
                &input.name,
                &"not a recorded stream of a known format, not scanned",
            );
            return self.write(out);
        }
        self.report_malformed(reader.malformed_events(), input, problems);
        for (kind, bytes) in self.tally.unread_kinds() {
            let bytes = bytes - unread_before.get(&kind).copied().unwrap_or_default();
            if bytes > 0 {
                problems.report_bytes(&input.name, bytes, &kind);
            }
        }
        self.write(out)
    }

    /// Reports unreadable events as a gap: they may have contained text that a rule matches.
    fn report_malformed(&mut self, events: u64, input: &InputFile, problems: &mut InputProblems) {
        self.tally.counters.malformed_events += events;
        if events > 0 {
            let events = Quantity(events, "malformed event");
            problems.report(&input.name, &format_args!("{events}, not scanned"));
        }
    }

    fn push_event(&mut self, name: &str, event: Event) {
        if let Event::Unscanned { bytes, kind } = &event {
            return self.tally.unread(*bytes, kind);
        }
        let is_last = matches!(event, Event::Finish { .. });
        if !self.open.contains_key(name) {
            self.begun += 1;
            let reply = RecordedReply::new(name, &self.pack, self.chunking, self.begun);
            self.open.insert(name.to_owned(), reply);
        }
        if let Some(reply) = self.open.get_mut(name) {
            reply.push_event(event, &mut self.tally);
        }
        if is_last && let Some(mut reply) = self.open.remove(name) {
            reply.end(&mut self.tally);
            self.ended.push(reply);
        }
    }

    fn write(&mut self, out: &mut RecordWriter) -> Result<(), CommandError> {
        for reply in self.ended.drain(..) {
            reply.write(self.redacts_all, out)?;
        }
        Ok(out.flush()?)
    }
}
