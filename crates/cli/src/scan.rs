//! `ttsr scan`: scans files, each as one part.
//!
//! Files are read on all cores and reported in the order of their paths. A file is read once to find the rules that
//! hit, a second time for all their matches if there are any, and a third time for their lines.

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
use ttsr::rule::ToolOutcome;
use ttsr::scan::{ScanMatch, Scanner, Target};
use ttsr::{Action, Channel, Hit, Level, Pack, PartId, Rule, RuleId, Severity, Stream};

use crate::args::{ReportArg, WorkspaceArgs};
use crate::fingerprint::Fingerprints;
use crate::input::{InputFile, InputProblems, Spool, inputs, is_broken_link};
use crate::line_index::{LineColumn, LineIndex};
use crate::mask::{HiddenRanges, MaskedExcerpt};
use crate::output::{HitRecord, MatchExtent, PartOrigin, TextRegion, print_message};
use crate::progress::{self, ScanProgress};
use crate::report::{
    Finding, FindingProblem, FindingReport, MatchDetails, RuleHelp, SourceLocation,
};
use crate::totals::{Quantity, RunTotals};
use crate::{CommandError, ExitStatus, load};

/// Scan files as if a model had written them, and report every match
///
/// Each file is one part of its own reply. Rules with `paths` are matched against the path of the file. With the
/// channel `tool-input` a file is the input of a tool call: a JSON object, whose arguments are read, or any other
/// text, which is read as it is. If the input names a file, that path is used instead of the path of the file.
///
/// Pipes and the standard input are copied to a temporary file if they are longer than one mebibyte. A file that
/// cannot be read completely is reported, and the exit code is 2.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: WorkspaceArgs,
    /// The channel of each file [default: text, tool-output with --outcome, or tool-input with --tool]
    #[arg(long, value_name = "CHANNEL", value_parser = channels())]
    channel: Option<Channel>,
    /// The outcome of the tool call whose output each file is: rules with `outcome` read it [default: ok]
    #[arg(long, value_name = "OUTCOME", value_parser = outcomes())]
    outcome: Option<ToolOutcome>,
    /// The name of the called tool
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// The path that rules see, whatever the file's own path and its content are
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,
    /// Report only the first match of each rule per file, as early as it is decided
    #[arg(long)]
    first: bool,
    /// Mask every match in the output, not only matches of rules that redact
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    format: ReportArg,
    #[command(flatten)]
    selection: FileSelection,
}

/// The files to read.
#[derive(Debug, Args)]
struct FileSelection {
    /// Also read files that `.gitignore`, `.ignore` and the like exclude
    #[arg(long)]
    no_ignore: bool,
    /// Skip binary files in folders: without this, they are reported as not scanned, and the exit code is 2
    #[arg(long)]
    skip_binary: bool,
    /// Files, folders (every regular text file below that is not ignored), or `-` for the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Options {
    fn channel(&self) -> Channel {
        let default = match (self.outcome, &self.tool) {
            (Some(_), _) => Channel::ToolOutput,
            (None, Some(_)) => Channel::ToolInput,
            (None, None) => Channel::Text,
        };
        self.channel.unwrap_or(default)
    }

    /// Returns true if matches of the rule are masked.
    fn masks(&self, rule: &Rule) -> bool {
        self.redact || rule.action == Action::Redact
    }
}

/// Returns the parser of `--outcome`.
pub(crate) fn outcomes() -> impl TypedValueParser<Value = ToolOutcome> {
    PossibleValuesParser::new(ToolOutcome::ALL.map(ToolOutcome::name)).map(|name| {
        ToolOutcome::from_name(&name).expect("only names of outcomes are possible values")
    })
}

/// Returns an error if an outcome is given for a channel that has none.
pub(crate) fn check_outcome(
    outcome: Option<ToolOutcome>,
    channel: Option<Channel>,
) -> Result<(), CommandError> {
    match (outcome, channel) {
        (Some(_), Some(channel)) if channel != Channel::ToolOutput => {
            Err(CommandError::Message(format!(
                "`--outcome` needs the channel `tool-output`, not `{}`",
                channel.name()
            )))
        }
        _ => Ok(()),
    }
}

fn channels() -> impl TypedValueParser<Value = Channel> {
    PossibleValuesParser::new(Channel::ALL.map(Channel::name))
        .map(|name| Channel::from_name(&name).expect("only names of channels are possible values"))
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    check_outcome(options.outcome, options.channel)?;
    let scanner = Scanner::new(load::load_in(&options.packs, &load::OFF_BY_DEFAULT)?);
    let mut problems = InputProblems::default();
    let mut report = FindingReport::new(options.format.format);
    let mut helps = RuleHelps::default();
    let mut tally = RunTotals::default();
    let inputs = input_files(options, &mut problems);
    let progress = ScanProgress::new(inputs.len());
    let mut binaries = 0;
    for batch in inputs.chunks(BATCH) {
        let read = read_all(options, &scanner, batch, &progress);
        progress::clear();
        for (input, (content, collected)) in batch.iter().zip(read) {
            problems.extend(collected);
            match content {
                FileContent::ScannedFile(scanned) => {
                    scanned.add_to(&mut tally);
                    scanned.write(input, &mut report, &mut helps)?;
                }
                FileContent::Binary(_) if options.selection.skip_binary => binaries += 1,
                FileContent::Binary(bytes) => {
                    tally.unread(bytes, "binary");
                    problems.report_bytes(&input.name, bytes, "binary");
                }
                FileContent::Nothing => {}
            }
        }
        report.flush()?;
    }
    if binaries > 0 {
        print_message(&format_args!(
            "{} skipped",
            Quantity(binaries, "binary file")
        ));
    }
    let outcome = tally.outcome(&problems);
    report.add_unread(problems.unread)?;
    report.end_with(&tally)?;
    Ok(outcome)
}

/// Number of files read at a time. Their results are printed before the next batch starts, which bounds the number of
/// results that wait for a large file.
const BATCH: usize = 64;

/// Returns the named files and the files below named folders, without ignored ones.
fn input_files(options: &Options, problems: &mut InputProblems) -> Vec<InputFile> {
    let mut found = Vec::new();
    for path in &options.selection.files {
        match path.as_os_str() != "-" && path.is_dir() {
            true => walk(options, path, &mut found, problems),
            false => found.append(&mut inputs(std::slice::from_ref(path), problems)),
        }
    }
    found
}

fn walk(
    options: &Options,
    folder: &Path,
    found: &mut Vec<InputFile>,
    problems: &mut InputProblems,
) {
    let walk = WalkBuilder::new(folder)
        .standard_filters(!options.selection.no_ignore)
        .hidden(false)
        .require_git(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .sort_by_file_path(Path::cmp)
        .build();
    for entry in walk {
        match entry {
            Ok(entry)
                if entry.file_type().is_some_and(|kind| kind.is_file())
                    || is_broken_link(entry.path()) =>
            {
                found.push(InputFile::file(entry.into_path(), false));
            }
            Ok(_) => {}
            Err(error) => problems.report(&folder.to_string_lossy(), &error),
        }
    }
}

/// The content of a file.
enum FileContent {
    /// It could not be read.
    Nothing,
    ScannedFile(Box<ScannedFile>),
    /// It is binary and has this many bytes.
    Binary(u64),
}

/// Scans a batch on all cores. The results are in the order of the files.
fn read_all(
    options: &Options,
    scanner: &Scanner,
    batch: &[InputFile],
    progress: &ScanProgress,
) -> Vec<(FileContent, InputProblems)> {
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
                problems: InputProblems::deferred(),
            };
            let content = file.read(progress);
            done.push((at, (content, file.problems)));
            progress.done();
        }
        done
    };
    let mut all: Vec<(usize, (FileContent, InputProblems))> = thread::scope(|scope| {
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
    input: &'a InputFile,
    problems: InputProblems,
}

/// The source of a file's bytes for another pass.
enum ScanSource {
    Disk,
    Spool(Spool),
}

/// The result of the first pass over a file: the rules that hit.
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
    /// Reads the file. A file from a folder with a NUL byte in its first block is binary.
    fn read(&mut self, progress: &ScanProgress) -> FileContent {
        let Some(mut blocks) = self.input.open(&mut self.problems) else {
            return FileContent::Nothing;
        };
        let own = self.own_path();
        let mut target = Target {
            channel: self.options.channel(),
            tool: self.options.tool.as_deref(),
            path: self.options.path.as_deref(),
            outcome: self.options.outcome.unwrap_or_default(),
        };
        if target.path.is_none() && target.channel != Channel::ToolInput {
            target.path = own.as_deref();
        }
        let mut source = match self.input.is_regular() {
            true => ScanSource::Disk,
            false => ScanSource::Spool(Spool::new(self.input)),
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
                return FileContent::Binary(length);
            }
            if let ScanSource::Spool(spool) = &mut source {
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
        FileContent::ScannedFile(Box::new(self.scanned(&target, &mut source, first, deltas)))
    }

    /// Returns the path of the file for the scopes of rules. It is absolute if the pack has a root that may contain it.
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

    /// Returns true if the path of the file can change the hits.
    fn depends_on_path(&self, first: &FirstPass) -> bool {
        let mut rules = self.scanner.pack().rules().iter();
        !first.hits.is_empty() || rules.any(|rule| !rule.paths.is_empty())
    }

    /// Reads the file again, block by block, until `wants_more` returns false.
    fn each_block(&mut self, source: &mut ScanSource, mut wants_more: impl FnMut(&[u8]) -> bool) {
        match source {
            ScanSource::Spool(spool) => spool.each_block(&mut self.problems, wants_more),
            ScanSource::Disk => {
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
        source: &mut ScanSource,
        first: FirstPass,
        deltas: u64,
    ) -> ScannedFile {
        let matches = self.matches(target, source, &first);
        let offsets = matches.iter().flat_map(|found| {
            let Range { start, end } = highlight_range(found);
            [start, end]
        });
        let mut locator = LineIndex::new(offsets.collect());
        if !locator.is_done() {
            self.each_block(source, |block| {
                locator.push(block);
                !locator.is_done()
            });
        }
        let mask = self.mask(&matches, &first);
        let mut fingerprints = Fingerprints::default();
        let pack = self.scanner.pack();
        let hits = matches.into_iter().map(|found| {
            let rule = pack.rule(found.rule);
            let range = highlight_range(&found);
            let text = &found.excerpt()[found.matched()];
            let text =
                Some(text).filter(|_| !self.options.masks(rule) && !mask.hides(range.clone()));
            let excerpt = MaskedExcerpt {
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
        ScannedFile {
            hits: hits.collect(),
            channel: target.channel,
            tool: target.tool.map(str::to_owned),
            stream: first.stream,
            deltas,
        }
    }

    /// Returns the matches to report, sorted by position.
    fn matches(
        &mut self,
        target: &Target<'_>,
        source: &mut ScanSource,
        first: &FirstPass,
    ) -> Vec<ScanMatch> {
        let FirstPass { stream, hits, .. } = first;
        if self.options.first || hits.is_empty() {
            let matches = hits
                .iter()
                .filter_map(|hit| ScanMatch::from_hit(stream, hit));
            let mut matches: Vec<ScanMatch> = matches.collect();
            matches.sort_by_key(|found| (highlight_range(found).start, found.end, found.rule));
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
                "rule {rule}: some matches are not reported, because its patterns are too large or the search took too long"
            );
            self.problems.report(&self.input.name, &what);
        }
        if scanned.cut_matches > 0 {
            let matches = Quantity(scanned.cut_matches, "match").plural("matches");
            self.problems.report(
                &self.input.name,
                &format_args!("{matches} too long, reported in pieces"),
            );
        }
        scanned.matches
    }

    /// Returns the hidden bytes.
    fn mask(&self, matches: &[ScanMatch], first: &FirstPass) -> HiddenRanges {
        let pack = self.scanner.pack();
        let masked = matches
            .iter()
            .filter(|found| self.options.masks(pack.rule(found.rule)));
        let redacted = first.stream.redactions(first.part).iter();
        let redacted = redacted.map(|redaction| redaction.start..redaction.end);
        HiddenRanges::new(
            masked.clone().map(highlight_range).chain(redacted),
            masked.map(|found| found.excerpt()[found.matched()].to_owned()),
        )
    }
}

/// Returns the range of a match, or its last byte if only the end is known.
fn highlight_range(found: &ScanMatch) -> Range<u64> {
    found.start.min(found.end.saturating_sub(1))..found.end
}

/// A match in a file.
struct FileHit {
    found: ScanMatch,
    start: LineColumn,
    end: LineColumn,
    fingerprint: String,
    excerpt: MaskedExcerpt,
}

/// One file and its matches.
struct ScannedFile {
    hits: Vec<FileHit>,
    channel: Channel,
    tool: Option<String>,
    /// The stream of the first pass.
    stream: Stream,
    deltas: u64,
}

impl ScannedFile {
    fn add_to(&self, tally: &mut RunTotals) {
        tally.streams += 1;
        tally.parts += 1;
        tally.deltas += self.deltas;
        tally.bytes += self.stream.delivered_bytes(PartId(0));
        tally.hits += self.hits.len() as u64;
        tally.add(&self.stream.counters());
    }

    fn write(
        &self,
        input: &InputFile,
        report: &mut FindingReport,
        helps: &mut RuleHelps,
    ) -> Result<(), CommandError> {
        let origin = PartOrigin {
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
            let extent = MatchExtent {
                arg: found.arg.as_deref(),
                start: Some(highlight_range(found).start),
                end: found.end,
                decided: found.decided,
            };
            let record = HitRecord::new(rule, origin, extent, &hit.fingerprint, &hit.excerpt);
            let region = TextRegion {
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
    /// Returns the match as a finding for the reports shared with `ttsr check`.
    fn finding(&self, input: &InputFile, rule: &Rule, helps: &mut RuleHelps) -> Finding {
        let LineColumn { line, column, .. } = self.start;
        let bounded = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Finding {
            subject: rule.id.clone(),
            case: format!("{}:{line}:{column}", input.name),
            wrong: Some(FindingProblem {
                level: level(rule.severity),
                code: rule.id.clone().into(),
                message: format!("{} ({})", rule.description, rule.action.name()),
            }),
            place: (input.name != "-").then(|| SourceLocation {
                file: input.name.clone(),
                line: bounded(line),
                column: bounded(column),
            }),
            matched: Some(MatchDetails {
                start: self.start,
                end: self.end,
                bytes: highlight_range(&self.found),
                fingerprint: self.fingerprint.clone(),
                rule: helps.get_or_insert(self.found.rule, rule),
            }),
        }
    }
}

/// The descriptions of rules, built once per rule.
#[derive(Default)]
struct RuleHelps(HashMap<RuleId, Arc<RuleHelp>>);

impl RuleHelps {
    fn get_or_insert(&mut self, id: RuleId, rule: &Rule) -> Arc<RuleHelp> {
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
                references: rule.references.clone(),
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
