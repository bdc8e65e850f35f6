//! `ttsr scan`: each file is one part.
//!
//! Files are read on all cores and written in the order of their paths.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ignore::WalkBuilder;
use ttsr::{Channel, Hit, Level, Pack, PartId, Severity, Stream};

use crate::args::{ReportArg, ReportFormat, WorkspaceArgs};
use crate::input::{Blocks, Input, Problems, inputs};
use crate::output::{HitRecord, tell};
use crate::places::Places;
use crate::progress::{self, Progress};
use crate::report::{Finding, Place, Report, Wrong};
use crate::tally::{Count, Tally};
use crate::{Outcome, Stop, packs};

/// Read files as if a model had written them: each is one part of a reply of its own
///
/// With the channel `tool-input` a file is the input of a call: a JSON object, of which the arguments are
/// read, or anything else, which is read as it is.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: WorkspaceArgs,
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
    format: ReportArg,
    /// Read also what `.gitignore`, `.ignore` and the like leave out
    #[arg(long)]
    no_ignore: bool,
    /// Files, folders (every regular file below that is not ignored and is text), or `-` for the standard
    /// input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

fn channels() -> impl TypedValueParser<Value = Channel> {
    PossibleValuesParser::new(Channel::ALL.map(Channel::name))
        .map(|name| Channel::from_name(&name).expect("only names of channels are possible values"))
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let mut pack = packs::load_in(&options.packs)?;
    if let Some(path) = &options.path {
        pack = packs::about_file(&pack, path)?;
    }
    let mut problems = Problems::default();
    let mut report = Report::new(options.format.format);
    let mut tally = Tally::default();
    let inputs = found(options, &mut problems);
    let progress = Progress::new(inputs.len());
    let mut binaries = 0;
    for batch in inputs.chunks(BATCH) {
        let read = read_all(options, &pack, batch, &progress);
        progress::clear();
        for (input, read) in batch.iter().zip(read) {
            problems.any |= read.has_problems;
            match read.content {
                Content::Scanned(scanned) => {
                    scanned.add_to(&mut tally);
                    scanned.write(input, &mut report)?;
                }
                Content::Binary(bytes) => {
                    binaries += 1;
                    tally.unread(bytes, "binary");
                }
                Content::Nothing => {}
            }
        }
        report.flush()?;
    }
    if binaries > 0 {
        tell(&format_args!(
            "{} not scanned",
            Count(binaries, "binary file")
        ));
    }
    report.end_with(&tally)?;
    Ok(tally.outcome(&problems))
}

/// Files that are read at a time; they are written in order before the next ones are begun, which bounds
/// what waits for a large file.
const BATCH: usize = 64;

/// The files that are named and those below folders, less what `.gitignore` and its like leave out.
fn found(options: &Options, problems: &mut Problems) -> Vec<Input> {
    let mut found = Vec::new();
    for path in &options.files {
        match path.as_os_str() != "-" && path.is_dir() {
            true => walk(options, path, &mut found, problems),
            false => found.append(&mut inputs(std::slice::from_ref(path), problems)),
        }
    }
    found
}

fn walk(options: &Options, folder: &Path, found: &mut Vec<Input>, problems: &mut Problems) {
    let walk = WalkBuilder::new(folder)
        .standard_filters(!options.no_ignore)
        .hidden(false)
        .require_git(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .sort_by_file_path(Path::cmp)
        .build();
    for entry in walk {
        match entry {
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                found.push(Input::file(entry.into_path(), false));
            }
            Ok(_) => {}
            Err(error) => problems.tell(&folder.to_string_lossy(), &error),
        }
    }
}

/// What came of a file.
#[derive(Default)]
struct Read {
    content: Content,
    /// Something could not be read, which was told.
    has_problems: bool,
}

#[derive(Default)]
enum Content {
    #[default]
    Nothing,
    Scanned(Box<Scanned>),
    /// So many bytes that are no text.
    Binary(u64),
}

/// Reads a batch on all cores; the results stand as the files do.
fn read_all(options: &Options, pack: &Pack, batch: &[Input], progress: &Progress) -> Vec<Read> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((at, input)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            batch.get(at).map(|input| (at, input))
        } {
            done.push((at, read(options, pack, input, progress)));
            progress.done();
        }
        done
    };
    let mut all: Vec<(usize, Read)> = thread::scope(|scope| {
        let threads: Vec<_> = (1..cores.min(batch.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let mut all = work();
        for thread in threads {
            all.extend(thread.join().expect("a scan does not panic"));
        }
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, read)| read).collect()
}

fn read(options: &Options, pack: &Pack, input: &Input, progress: &Progress) -> Read {
    let mut problems = Problems::default();
    let content = match input.open(&mut problems) {
        Some(blocks) => {
            let blocks = Counted { blocks, progress };
            Scanned::read(options, pack, input, blocks, &mut problems)
        }
        None => Content::Nothing,
    };
    Read {
        content,
        has_problems: problems.any,
    }
}

/// The blocks of a file, for somebody who watches.
struct Counted<'a> {
    blocks: Blocks,
    progress: &'a Progress,
}

impl Counted<'_> {
    fn next(&mut self, problems: &mut Problems) -> Option<&[u8]> {
        let block = self.blocks.next(problems)?;
        self.progress.read(block.len());
        Some(block)
    }
}

const PART: PartId = PartId(0);

/// One file and what was found in it.
struct Scanned {
    stream: Stream,
    /// With line and column, where they are asked for and known.
    hits: Vec<(Hit, Option<(u64, u64)>)>,
    places: Option<Places>,
    deltas: u64,
}

impl Scanned {
    /// A file that was found in a folder and has a NUL in its first block is no text.
    fn read(
        options: &Options,
        pack: &Pack,
        input: &Input,
        mut blocks: Counted<'_>,
        problems: &mut Problems,
    ) -> Content {
        let places = (options.format.format != ReportFormat::Json).then(Places::new);
        let mut scanned = Scanned {
            stream: pack.stream(),
            hits: Vec::new(),
            places,
            deltas: 0,
        };
        scanned.open(options);
        while let Some(block) = blocks.next(problems) {
            if scanned.deltas == 0 && !input.is_named && memchr::memchr(0, block).is_some() {
                return Content::Binary(rest(block.len(), blocks, problems));
            }
            if let Some(places) = &mut scanned.places {
                places.push(block);
            }
            let hits = scanned.stream.push(PART, block).to_vec();
            scanned.place(hits);
            scanned.deltas += 1;
        }
        let hits = scanned.stream.close(PART).to_vec();
        scanned.place(hits);
        scanned.places = None;
        Content::Scanned(Box::new(scanned))
    }

    fn add_to(&self, tally: &mut Tally) {
        tally.streams += 1;
        tally.parts += 1;
        tally.deltas += self.deltas;
        tally.bytes += self.stream.delivered(PART);
        tally.hits += self.hits.len() as u64;
        tally.add(&self.stream.counters());
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

    fn write(&self, input: &Input, report: &mut Report) -> Result<(), Stop> {
        let mut hits = self.hits.clone();
        hits.sort_by_key(|(hit, _)| (hit.decided, hit.rule));
        for (hit, place) in &hits {
            let record = HitRecord::new(&self.stream, hit, &input.name, "0");
            report.add(&record.in_file(*place), || self.finding(input, hit, *place))?;
        }
        Ok(())
    }
}

/// What it is in the reports that `ttsr check` writes, too.
impl Scanned {
    fn finding(&self, input: &Input, hit: &Hit, at: Option<(u64, u64)>) -> Finding {
        let rule = self.stream.pack().rule(hit.rule);
        let known = at.map(|(line, column)| {
            let bounded = |number| u32::try_from(number).unwrap_or(u32::MAX);
            (bounded(line), bounded(column))
        });
        let (line, column) = known.unwrap_or((1, 1));
        let action = rule.action.name();
        // A place that is too far back to be known is shown at the top of its file, and told in words.
        let (case, byte) = match known {
            Some(_) => (format!("{}:{line}:{column}", input.name), String::new()),
            None => {
                let byte = format!("ends at byte {}", hit.end);
                (format!("{} {byte}", input.name), format!(", {byte}"))
            }
        };
        Finding {
            subject: rule.id.clone(),
            case,
            wrong: Some(Wrong {
                level: level(rule.severity),
                code: rule.id.clone().into(),
                message: format!("{} ({action}{byte})", rule.description),
            }),
            place: (input.name != "-").then(|| Place {
                file: input.name.clone(),
                line,
                column,
            }),
        }
    }
}

fn level(severity: Severity) -> Level {
    match severity {
        Severity::Critical | Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
        _ => Level::Note,
    }
}

/// The length of a file of which a block was read.
fn rest(read: usize, mut blocks: Counted<'_>, problems: &mut Problems) -> u64 {
    let mut length = read as u64;
    while let Some(block) = blocks.next(problems) {
        length += block.len() as u64;
    }
    length
}
