//! `ttsr scan`: each file is one part.
//!
//! Files are read on all cores and written in the order of their paths. A file is read once to find the rules that
//! hit, again for all of their matches if there are any, and again for the lines of those.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ignore::WalkBuilder;
use ttsr::scan::{ScanMatch, Scanner, Target};
use ttsr::{Action, Channel, Hit, Level, Pack, PartId, Rule, RuleId, Severity, Stream};

use crate::args::{ReportArg, WorkspaceArgs};
use crate::fingerprint::Fingerprints;
use crate::input::{Input, Problems, Spool, inputs};
use crate::mask::{Excerpt, Mask};
use crate::output::{Extent, HitRecord, Origin, Region, tell};
use crate::places::{Locator, Position};
use crate::progress::{self, Progress};
use crate::report::{Finding, Matched, Place, Report, RuleHelp, Wrong};
use crate::tally::{Count, Tally};
use crate::{Outcome, Stop, packs};

/// Read files as if a model had written them, and report every match
///
/// Each file is one part of a reply of its own. Rules with `paths` look at the path of the file. With the channel
/// `tool-input` a file is the input of a call: a JSON object, of which the arguments are read, or anything else, which
/// is read as it is; the file that the input names counts, and the path of the file where it names none.
///
/// The standard input and pipes are kept in a temporary file if they are longer than a megabyte. A file that cannot be read, or not whole, is named, and the exit
/// code is 2.
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
    /// The file that the part is about, whatever its path and its input say
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,
    /// Report only the first match of each rule in a file, as early as it is certain
    #[arg(long)]
    first: bool,
    /// Mask every match in the output, not only those of rules that redact
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    format: ReportArg,
    #[command(flatten)]
    selection: Selection,
}

/// Which files are read.
#[derive(Debug, Args)]
struct Selection {
    /// Read also what `.gitignore`, `.ignore` and the like leave out
    #[arg(long)]
    no_ignore: bool,
    /// Leave out binary files in folders: without this, they are named as not scanned, and the exit code is 2
    #[arg(long)]
    skip_binary: bool,
    /// Files, folders (every regular file below that is not ignored and is text), or `-` for the standard
    /// input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Options {
    fn channel(&self) -> Channel {
        let default = match self.tool {
            Some(_) => Channel::ToolInput,
            None => Channel::Text,
        };
        self.channel.unwrap_or(default)
    }

    /// Whether matches of the rule are masked.
    fn masks(&self, rule: &Rule) -> bool {
        self.redact || rule.action == Action::Redact
    }
}

fn channels() -> impl TypedValueParser<Value = Channel> {
    PossibleValuesParser::new(Channel::ALL.map(Channel::name))
        .map(|name| Channel::from_name(&name).expect("only names of channels are possible values"))
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let scanner = Scanner::new(packs::load_in(&options.packs)?);
    let mut problems = Problems::default();
    let mut report = Report::new(options.format.format);
    let mut helps = Helps::default();
    let mut tally = Tally::default();
    let inputs = found(options, &mut problems);
    let progress = Progress::new(inputs.len());
    let mut binaries = 0;
    for batch in inputs.chunks(BATCH) {
        let read = read_all(options, &scanner, batch, &progress);
        progress::clear();
        for (input, (content, told)) in batch.iter().zip(read) {
            problems.extend(told);
            match content {
                Content::Scanned(scanned) => {
                    scanned.add_to(&mut tally);
                    scanned.write(input, &mut report, &mut helps)?;
                }
                Content::Binary(_) if options.selection.skip_binary => binaries += 1,
                Content::Binary(bytes) => {
                    tally.unread(bytes, "binary");
                    problems.tell_bytes(&input.name, bytes, "binary");
                }
                Content::Nothing => {}
            }
        }
        report.flush()?;
    }
    if binaries > 0 {
        tell(&format_args!("{} left out", Count(binaries, "binary file")));
    }
    let outcome = tally.outcome(&problems);
    report.add_unread(problems.unread)?;
    report.end_with(&tally)?;
    Ok(outcome)
}

/// Files that are read at a time; they are written in order before the next ones are begun, which bounds
/// what waits for a large file.
const BATCH: usize = 64;

/// The files that are named and those below folders, less what `.gitignore` and its like leave out.
fn found(options: &Options, problems: &mut Problems) -> Vec<Input> {
    let mut found = Vec::new();
    for path in &options.selection.files {
        match path.as_os_str() != "-" && path.is_dir() {
            true => walk(options, path, &mut found, problems),
            false => found.append(&mut inputs(std::slice::from_ref(path), problems)),
        }
    }
    found
}

fn walk(options: &Options, folder: &Path, found: &mut Vec<Input>, problems: &mut Problems) {
    let walk = WalkBuilder::new(folder)
        .standard_filters(!options.selection.no_ignore)
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

/// The content of a file.
enum Content {
    /// It could not be read.
    Nothing,
    Scanned(Box<Scanned>),
    /// So many bytes that are no text.
    Binary(u64),
}

/// Reads a batch on all cores; the results stand as the files do.
fn read_all(
    options: &Options,
    scanner: &Scanner,
    batch: &[Input],
    progress: &Progress,
) -> Vec<(Content, Problems)> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((at, input)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            batch.get(at).map(|input| (at, input))
        } {
            let mut file = FileScan {
                options,
                scanner,
                input,
                problems: Problems::quiet(),
            };
            let content = file.read(progress);
            done.push((at, (content, file.problems)));
            progress.done();
        }
        done
    };
    let mut all: Vec<(usize, (Content, Problems))> = thread::scope(|scope| {
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

/// The scan of one file.
struct FileScan<'a> {
    options: &'a Options,
    scanner: &'a Scanner,
    input: &'a Input,
    problems: Problems,
}

/// Where the bytes of a file are for another pass.
enum Source {
    Disk,
    Spool(Spool),
}

/// The first pass over a file: the rules that hit.
struct FirstPass {
    stream: Stream,
    part: PartId,
    hits: Vec<Hit>,
}

impl FirstPass {
    fn new(pack: &Pack, target: &Target<'_>) -> FirstPass {
        let mut stream = pack.stream();
        let (part, hits) = target.open(&mut stream);
        FirstPass { stream, part, hits }
    }

    fn push(&mut self, block: &[u8]) {
        self.hits
            .extend_from_slice(&self.stream.push(self.part, block));
    }

    fn close(&mut self) {
        self.hits.extend_from_slice(&self.stream.close(self.part));
    }
}

impl<'a> FileScan<'a> {
    /// A file that was found in a folder and has a NUL in its first block is no text.
    fn read(&mut self, progress: &Progress) -> Content {
        let Some(mut blocks) = self.input.open(&mut self.problems) else {
            return Content::Nothing;
        };
        let own = self.own_path();
        let mut target = Target {
            channel: self.options.channel(),
            tool: self.options.tool.as_deref(),
            path: self.options.path.as_deref(),
        };
        if target.path.is_none() && target.channel != Channel::ToolInput {
            target.path = own.as_deref();
        }
        let mut source = match self.input.is_regular() {
            true => Source::Disk,
            false => Source::Spool(Spool::new(self.input)),
        };
        let mut first = FirstPass::new(self.scanner.pack(), &target);
        let mut deltas = 0;
        while let Some(block) = blocks.next(&mut self.problems) {
            progress.read(block.len());
            if deltas == 0 && !self.input.is_named && memchr::memchr(0, block).is_some() {
                let mut length = block.len() as u64;
                while let Some(block) = blocks.next(&mut self.problems) {
                    length += block.len() as u64;
                }
                return Content::Binary(length);
            }
            if let Source::Spool(spool) = &mut source {
                spool.push(block, &mut self.problems);
            }
            first.push(block);
            deltas += 1;
        }
        first.close();
        let names_no_file = target.path.is_none() && first.stream.path(first.part).is_none();
        if let (Some(path), true) = (&own, names_no_file && self.depends_on_path(&first)) {
            target.path = Some(path);
            first = FirstPass::new(self.scanner.pack(), &target);
            self.each_block(&mut source, |block| {
                first.push(block);
                true
            });
            first.close();
        }
        Content::Scanned(Box::new(self.scanned(&target, &mut source, first, deltas)))
    }

    /// The path of the file for the scopes of rules; absolute if the pack has a root that it may be in.
    fn own_path(&self) -> Option<Cow<'a, Path>> {
        let path = self.input.path()?;
        let absolute = self
            .scanner
            .pack()
            .root()
            .map(|_| std::path::absolute(path));
        Some(match absolute {
            Some(Ok(path)) => Cow::Owned(path),
            _ => Cow::Borrowed(path),
        })
    }

    /// Whether the path of the file can change what hits.
    fn depends_on_path(&self, first: &FirstPass) -> bool {
        let mut rules = self.scanner.pack().rules().iter();
        !first.hits.is_empty() || rules.any(|rule| !rule.paths.is_empty())
    }

    /// Reads the file again, as long as blocks are wanted.
    fn each_block(&mut self, source: &mut Source, mut wants_more: impl FnMut(&[u8]) -> bool) {
        match source {
            Source::Spool(spool) => spool.each_block(&mut self.problems, wants_more),
            Source::Disk => {
                let Some(mut blocks) = self.input.open(&mut self.problems) else {
                    return;
                };
                while let Some(block) = blocks.next(&mut self.problems) {
                    if !wants_more(block) {
                        break;
                    }
                }
            }
        }
    }

    fn scanned(
        &mut self,
        target: &Target<'_>,
        source: &mut Source,
        first: FirstPass,
        deltas: u64,
    ) -> Scanned {
        let matches = self.matches(target, source, &first);
        let offsets = matches.iter().flat_map(|found| {
            let Range { start, end } = shown(found);
            [start, end]
        });
        let mut locator = Locator::new(offsets.collect());
        if !locator.is_done() {
            self.each_block(source, |block| {
                locator.push(block);
                !locator.is_done()
            });
        }
        let mask = self.mask(&matches, &first.stream);
        let mut fingerprints = Fingerprints::default();
        let pack = self.scanner.pack();
        let hits = matches.into_iter().map(|found| {
            let rule = pack.rule(found.rule);
            let range = shown(&found);
            let text = &found.excerpt()[found.matched()];
            let text =
                Some(text).filter(|_| !self.options.masks(rule) && !mask.hides(range.clone()));
            let excerpt = Excerpt {
                text: found.excerpt().to_owned(),
                matched: found.matched(),
            };
            FileHit {
                start: locator.position(range.start),
                end: locator.position(range.end),
                fingerprint: fingerprints.next(&rule.id, text),
                excerpt: mask.apply(excerpt, range, rule),
                found,
            }
        });
        Scanned {
            hits: hits.collect(),
            channel: target.channel,
            tool: target.tool.map(str::to_owned),
            stream: first.stream,
            deltas,
        }
    }

    /// The matches to report, in the order of their places.
    fn matches(
        &mut self,
        target: &Target<'_>,
        source: &mut Source,
        first: &FirstPass,
    ) -> Vec<ScanMatch> {
        let FirstPass { stream, hits, .. } = first;
        if self.options.first || hits.is_empty() {
            let matches = hits.iter().filter_map(|hit| ScanMatch::of(stream, hit));
            let mut matches: Vec<ScanMatch> = matches.collect();
            matches.sort_by_key(|found| (shown(found).start, found.end, found.rule));
            return matches;
        }
        let mut every = self.scanner.every(target, hits);
        self.each_block(source, |block| {
            every.push(block);
            true
        });
        let scanned = every.finish(stream);
        for rule in scanned.incomplete {
            let rule = &self.scanner.pack().rule(rule).id;
            let what = format!(
                "rule {rule}: not every match is reported, its patterns are too large or search too long"
            );
            self.problems.tell(&self.input.name, &what);
        }
        if scanned.cut_matches > 0 {
            let matches = Count(scanned.cut_matches, "match").plural("matches");
            self.problems.tell(
                &self.input.name,
                &format_args!("{matches} too long, reported in pieces"),
            );
        }
        scanned.matches
    }

    /// The bytes that are not shown.
    fn mask(&self, matches: &[ScanMatch], stream: &Stream) -> Mask {
        let pack = self.scanner.pack();
        let masked = matches
            .iter()
            .filter(|found| self.options.masks(pack.rule(found.rule)));
        let redacted = stream.redactions().iter();
        let redacted = redacted.map(|redaction| redaction.start..redaction.end);
        Mask::new(
            masked.clone().map(shown).chain(redacted),
            masked.map(|found| found.excerpt()[found.matched()].to_owned()),
        )
    }
}

/// The bytes of a match: the last one where only the end is known.
fn shown(found: &ScanMatch) -> Range<u64> {
    found.start.min(found.end.saturating_sub(1))..found.end
}

/// A match in a file.
struct FileHit {
    found: ScanMatch,
    start: Position,
    end: Position,
    fingerprint: String,
    excerpt: Excerpt,
}

/// One file and the matches in it.
struct Scanned {
    hits: Vec<FileHit>,
    channel: Channel,
    tool: Option<String>,
    /// That of the first pass.
    stream: Stream,
    deltas: u64,
}

impl Scanned {
    fn add_to(&self, tally: &mut Tally) {
        tally.streams += 1;
        tally.parts += 1;
        tally.deltas += self.deltas;
        tally.bytes += self.stream.delivered(PartId(0));
        tally.hits += self.hits.len() as u64;
        tally.add(&self.stream.counters());
    }

    fn write(&self, input: &Input, report: &mut Report, helps: &mut Helps) -> Result<(), Stop> {
        let origin = Origin {
            stream: &input.name,
            part: "0",
            channel: Some(self.channel),
            tool: self.tool.as_deref(),
        };
        for hit in &self.hits {
            let FileHit {
                found, start, end, ..
            } = hit;
            let rule = self.stream.pack().rule(found.rule);
            let extent = Extent {
                arg: found.arg.as_deref(),
                start: Some(shown(found).start),
                end: found.end,
                decided: found.decided,
            };
            let record = HitRecord::new(rule, origin, extent, &hit.fingerprint, &hit.excerpt);
            let region = Region {
                line: start.line,
                column: start.column,
                end_line: end.line,
                end_column: end.column,
            };
            report.add(&record.in_file(region), || hit.finding(input, rule, helps))?;
        }
        Ok(())
    }
}

impl FileHit {
    /// The match in the reports that `ttsr check` writes, too.
    fn finding(&self, input: &Input, rule: &Rule, helps: &mut Helps) -> Finding {
        let Position { line, column, .. } = self.start;
        let bounded = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Finding {
            subject: rule.id.clone(),
            case: format!("{}:{line}:{column}", input.name),
            wrong: Some(Wrong {
                level: level(rule.severity),
                code: rule.id.clone().into(),
                message: format!("{} ({})", rule.description, rule.action.name()),
            }),
            place: (input.name != "-").then(|| Place {
                file: input.name.clone(),
                line: bounded(line),
                column: bounded(column),
            }),
            matched: Some(Matched {
                start: self.start,
                end: self.end,
                bytes: shown(&self.found),
                fingerprint: self.fingerprint.clone(),
                rule: helps.of(self.found.rule, rule),
            }),
        }
    }
}

/// What rules say of themselves, made once for each.
#[derive(Default)]
struct Helps(HashMap<RuleId, Arc<RuleHelp>>);

impl Helps {
    fn of(&mut self, id: RuleId, rule: &Rule) -> Arc<RuleHelp> {
        let help = self.0.entry(id).or_insert_with(|| {
            let words = [rule.why.as_deref(), rule.instead.as_deref()];
            let words: Vec<&str> = words.into_iter().flatten().collect();
            Arc::new(RuleHelp {
                description: rule.description.clone(),
                help: match words.is_empty() {
                    true => rule.description.clone(),
                    false => words.join("\n\n"),
                },
                docs: rule.docs.clone().filter(|docs| docs.starts_with("http")),
                tags: rule.tags.clone(),
                level: level(rule.severity),
            })
        });
        Arc::clone(help)
    }
}

fn level(severity: Severity) -> Level {
    match severity {
        Severity::Critical | Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
        _ => Level::Note,
    }
}
