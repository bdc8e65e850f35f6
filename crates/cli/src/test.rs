//! `ttsr test`: runs the examples and cases of rules under every split.
//!
//! This module selects the runs and judges the results. `part` builds a part from an example, `split` enumerates the
//! splits, `update` writes measured results into the files. Matching is done by the library.

pub(crate) mod part;
mod split;
mod update;

use std::io::{self, Write};

use clap::Args;
use serde::Serialize;
use ttsr::examples::name_matching;
use ttsr::rule::Case;
use ttsr::stream::Hits;
use ttsr::{Action, Channel, Conversation, Level, Origin, Pack, PartId, Rule};

use crate::args::{PackArgs, ReportArg};
use crate::chunk::{Chunker, Chunking};
use crate::output::{Escaped, OutputRecord, STRONG, print_message, style};
use crate::report::{Finding, FindingProblem, FindingReport};
use crate::source_index::{SourceIndex, SourceItem};
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus, load};
use part::{ExampleCall, ExamplePart};
use split::{PartSplit, splits};
use update::{Update, Updates};

/// Run the examples and cases of rules under every split of their text
///
/// Each example is run on each channel of its rule, each `case` as it is written: whole, byte by byte, and
/// split in two at every offset.
/// For tool input an example is the value of the first of `args` (or of the argument that the rule's regions
/// need, or of `content`) in a call of the first of `tools`, with a file that matches the first of `paths`.
///
/// Results: `ok`; `noisy`, the rule hits and must not; `missing`, it must hit and does not, or it acts otherwise
/// than the case expects; `late`, it hits after `by-byte`; `split-dependent`, the hits depend on how the text was
/// split, which is a bug in this program: please report it.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Use only this split: `original` or `whole`, `bytes`, a number of bytes, or `random:SEED`; may be repeated
    #[arg(long = "chunk", value_name = "CHUNK")]
    chunkings: Vec<Chunking>,
    /// Write the measured results into the cases of the files: `expect` if a case acts otherwise, and `by-byte`,
    /// the deciding offset. Comments and everything else are kept
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    format: ReportArg,
    /// Rule files, folders of them, and names of built-in packs
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let pack = load::load(&PackArgs::from_names(options.paths.clone()), &[])?;
    let mut run = TestRun {
        pack: &pack,
        chunkings: &options.chunkings,
        written: SourceIndex::read(&options.paths),
        report: FindingReport::new(options.format.format),
        sums: TestTotals::default(),
        updates: options.update.then(Updates::default),
    };
    for index in 0..pack.rules().len() {
        run.rule(index)?;
    }
    let TestRun {
        report,
        sums,
        updates,
        ..
    } = run;
    report.end()?;
    if let Some(updates) = updates {
        let changed = updates.write()?;
        print_message(&format_args!("{} updated", Quantity(changed, "value")));
    }
    sums.print(pack.rules().len());
    Ok(match sums.failed {
        0 => ExitStatus::Clean,
        _ => ExitStatus::Findings,
    })
}

#[derive(Debug, Default)]
struct TestTotals {
    examples: u64,
    cases: u64,
    failed: u64,
    /// Number of rules without an example or case that must hit.
    bare: u64,
    /// Number of examples and cases with a possible match that exceeds a limit.
    undecided: u64,
}

impl TestTotals {
    fn print(&self, rules: usize) {
        if self.bare > 0 {
            let rules = Quantity(self.bare, "rule");
            print_message(&format_args!("missing: {rules} without any match example"));
        }
        if self.undecided > 0 {
            let examples = Quantity(self.undecided, "example");
            print_message(&format_args!(
                "undecided: {examples} with possible matches that exceed a limit"
            ));
        }
        let cases = match self.cases {
            0 => String::new(),
            cases => format!(", {}", Quantity(cases, "case")),
        };
        print_message(&format_args!(
            "{}, {}{cases}, {} failed",
            Quantity(rules as u64, "rule"),
            Quantity(self.examples, "example"),
            self.failed
        ));
    }
}

/// A run over the rules of a pack.
struct TestRun<'a> {
    pack: &'a Pack,
    chunkings: &'a [Chunking],
    written: SourceIndex,
    report: FindingReport,
    sums: TestTotals,
    /// The collected updates, if `--update` was given.
    updates: Option<Updates>,
}

impl TestRun<'_> {
    fn rule(&mut self, index: usize) -> Result<(), CommandError> {
        let rule = &self.pack.rules()[index];
        let has_case = rule.cases.iter().any(|case| case.expect.is_some());
        self.sums.bare += u64::from(rule.examples.matching.is_empty() && !has_case);
        for example in Example::all(rule) {
            let mut is_kept = true;
            for &channel in &rule.on {
                is_kept &= self.example(index, example, channel)?;
            }
            self.sums.examples += 1;
            self.sums.failed += u64::from(!is_kept);
        }
        for (number, case) in (1..).zip(&rule.cases) {
            let is_kept = self.case(index, case, number)?;
            self.sums.cases += 1;
            self.sums.failed += u64::from(!is_kept);
        }
        Ok(())
    }

    /// Runs an example on one channel. Returns true if it holds.
    fn example(
        &mut self,
        index: usize,
        example: Example<'_>,
        channel: Channel,
    ) -> Result<bool, CommandError> {
        let rule = &self.pack.rules()[index];
        let part = ExamplePart::new(rule, channel, example.text);
        let splits = splits(self.chunkings, part.bytes.len());
        let hit = |split| hit(self.pack, index, (&part, None), split, example.number);
        let judged = judge(example.must_hit, None, &splits, hit);
        let (kind, item) = match example.must_hit {
            true => ("match", SourceItem::Match(example.number)),
            false => ("no-match", SourceItem::NoMatch(example.number)),
        };
        let case = format!("{kind} {} on {}", example.number, channel.name());
        let undecided = undecided(rule, self.pack, &part, None);
        let record = TestRecord {
            undecided,
            ..TestRecord::new(rule, case, example.text, &part, judged, None)
        };
        self.add(&record, item)
    }

    /// Runs a case. Returns true if it holds.
    fn case(&mut self, index: usize, case: &Case, number: u64) -> Result<bool, CommandError> {
        let rule = &self.pack.rules()[index];
        let part = ExamplePart::from_case(rule, case);
        let file = self.file_of(&part);
        let file = file.as_deref();
        let splits = splits(self.chunkings, part.bytes.len());
        let found = |split| hit(self.pack, index, (&part, file), split, number);
        let mut judged = judge(case.expect.is_some(), case.by_byte, &splits, found);
        let follows = case.expect.filter(|expected| *expected != rule.action);
        if let (ExampleResult::Ok, Some(expected)) = (judged.kept, follows)
            && !follows_retries(rule, (&part, file), expected)?
        {
            judged.kept = ExampleResult::Missing;
        }
        self.measure(index, case, number, &mut judged);
        let name = format!("case {number} on {}", case.channel.name());
        let undecided = undecided(rule, self.pack, &part, file);
        let record = TestRecord {
            undecided,
            ..TestRecord::new(rule, name, &case.text, &part, judged, case.by_byte)
        };
        self.add(&record, SourceItem::Case(number))
    }

    /// With `--update`, records what the case should say; the case then holds.
    fn measure(&mut self, index: usize, case: &Case, number: u64, judged: &mut ExampleVerdict) {
        let rule = &self.pack.rules()[index];
        let place = self.written.find_exact(&rule.id, SourceItem::Case(number));
        let (Some(updates), Some(place)) = (&mut self.updates, place) else {
            return;
        };
        if judged.kept == ExampleResult::SplitDependent {
            return;
        }
        let does = match judged.kept {
            ExampleResult::Ok | ExampleResult::Late => case.expect,
            _ => Some(rule.action),
        };
        let id = rule.id.rsplit_once('/').map_or(&*rule.id, |(_, id)| id);
        let update = Update {
            rule: id.to_owned(),
            case: number,
            expect: judged.decided.and(does),
            by_byte: judged.decided,
        };
        updates.add(&place.file, update);
        judged.kept = ExampleResult::Ok;
    }

    /// Returns the file of the input, if only the case names it.
    fn file_of(&self, part: &ExamplePart) -> Option<String> {
        let file = part.call.as_ref().and_then(|call| call.file.clone());
        let mut stream = self.pack.stream();
        stream.open(PART, part.channel);
        let _ = stream.push(PART, &part.bytes);
        let _ = stream.close(PART);
        file.filter(|_| stream.path(PART).is_none())
    }

    fn add(&mut self, record: &TestRecord<'_>, item: SourceItem) -> Result<bool, CommandError> {
        self.sums.undecided += u64::from(record.undecided > 0);
        let place = self.written.find(record.rule, item);
        self.report.add(record, || Finding {
            subject: record.rule.to_owned(),
            case: record.case.clone(),
            wrong: record.wrong().map(|wrong| FindingProblem {
                level: Level::Error,
                code: record.result.name().into(),
                message: format!("{}: {wrong}", record.case),
            }),
            place: place.cloned(),
            matched: None,
        })?;
        Ok(record.result == ExampleResult::Ok)
    }
}

/// Returns true if the rule takes the expected action once its retries are used up on identical replies.
fn follows_retries(
    rule: &Rule,
    (part, file): (&ExamplePart, Option<&str>),
    expected: Action,
) -> Result<bool, CommandError> {
    let pack = load::build([rule.clone()].into_iter())?;
    let mut conversation = Conversation::new(&pack);
    let first = |globs: &[String]| globs.first().map(|glob| name_matching(glob));
    conversation.set_origin(Origin {
        agent: first(&rule.agents),
        model: first(&rule.models),
        provider: first(&rule.providers),
    });
    conversation.start_turn();
    for _ in 0..=rule.retry.max {
        // After a cut nothing else is decided.
        part.read(&mut conversation, file, None).ok();
        let mut decisions = conversation.decisions().iter();
        if decisions.any(|decision| decision.action == expected) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[derive(Clone, Copy)]
struct Example<'a> {
    text: &'a str,
    must_hit: bool,
    /// The number among the examples of the same kind, from 1.
    number: u64,
}

impl<'a> Example<'a> {
    fn all(rule: &'a Rule) -> impl Iterator<Item = Example<'a>> {
        let of_kind = |must_hit: bool, texts: &'a [String]| {
            (1..).zip(texts).map(move |(number, text)| Example {
                text,
                must_hit,
                number,
            })
        };
        of_kind(true, &rule.examples.matching).chain(of_kind(false, &rule.examples.not_matching))
    }
}

/// The result of an example or case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ExampleResult {
    Ok,
    Noisy,
    Missing,
    /// It hits after the byte that the case names.
    Late,
    /// Two splits give different results.
    SplitDependent,
}

impl ExampleResult {
    fn name(self) -> &'static str {
        match self {
            ExampleResult::Ok => "ok",
            ExampleResult::Noisy => "noisy",
            ExampleResult::Missing => "missing",
            ExampleResult::Late => "late",
            ExampleResult::SplitDependent => "split-dependent",
        }
    }
}

/// The first hit of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FirstHit {
    end: u64,
    decided: u64,
    /// The ranges to redact.
    redacted: Vec<(u64, u64)>,
}

/// The result of a run under every split.
struct ExampleVerdict {
    kept: ExampleResult,
    /// The first split whose result differs from that of the first one.
    split: Option<PartSplit>,
    decided: Option<u64>,
}

fn judge(
    must_hit: bool,
    by_byte: Option<u64>,
    splits: &[PartSplit],
    hit: impl Fn(PartSplit) -> Option<FirstHit>,
) -> ExampleVerdict {
    let mut found = splits.iter().map(|&split| (split, hit(split)));
    let first = found.next().and_then(|(_, hit)| hit);
    let other = found.find(|(_, hit)| *hit != first);
    let decided = first.as_ref().map(|broken| broken.decided);
    let kept = match (must_hit, decided) {
        _ if other.is_some() => ExampleResult::SplitDependent,
        (true, None) => ExampleResult::Missing,
        (false, Some(_)) => ExampleResult::Noisy,
        (true, Some(decided)) if by_byte.is_some_and(|most| decided > most) => ExampleResult::Late,
        _ => ExampleResult::Ok,
    };
    ExampleVerdict {
        kept,
        split: other.map(|(split, _)| split),
        decided,
    }
}

const PART: PartId = PartId(0);

/// Returns the hit of a rule. A stream reports a rule at most once per part.
fn hit(
    pack: &Pack,
    rule: usize,
    (part, file): (&ExamplePart, Option<&str>),
    split: PartSplit,
    number: u64,
) -> Option<FirstHit> {
    let mut stream = pack.stream();
    let mut found = None;
    let mut add = |hits: Hits<'_>| {
        let mut own = hits.iter().filter(|hit| hit.rule.index() == rule);
        found = found.or_else(|| own.next().map(|hit| (hit.end, hit.decided)));
    };
    stream.open(PART, part.channel);
    if let Some(file) = file {
        stream.set_path(PART, file);
    }
    stream.set_outcome(PART, pack.rules()[rule].outcome.unwrap_or_default());
    if let Some(tool) = &part.tool {
        add(stream.set_tool(PART, tool, "call"));
    }
    match split {
        PartSplit::Chunked(chunking) => {
            let mut chunker = Chunker::new(chunking, number);
            let mut push = |delta: &[u8]| add(stream.push(PART, delta));
            chunker.push(&part.bytes, &mut push);
            chunker.flush(&mut push);
        }
        PartSplit::At(at) => {
            let (before, after) = part.bytes.split_at(at);
            add(stream.push(PART, before));
            add(stream.push(PART, after));
        }
    }
    add(stream.finish());
    let (end, decided) = found?;
    let redacted = stream.redactions(PART).iter();
    let redacted = redacted.filter(|redaction| redaction.rule.index() == rule);
    Some(FirstHit {
        end,
        decided,
        redacted: redacted.map(|it| (it.start, it.end)).collect(),
    })
}

/// Returns the number of possible matches of the rule in the part that are not hits because they exceed a limit.
pub(crate) fn undecided(rule: &Rule, pack: &Pack, part: &ExamplePart, file: Option<&str>) -> u64 {
    let count = |pack: &Pack| {
        part.stream(pack, file, rule.outcome)
            .0
            .counters()
            .unconfirmed
    };
    // The counter of a stream is that of all its rules.
    match count(pack) {
        0 => 0,
        _ => pack
            .with_rules(|it| it.id == rule.id)
            .map_or(0, |alone| count(&alone)),
    }
}

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The result of an example or a case.
#[derive(Serialize)]
#[serde(tag = "event", rename = "test")]
struct TestRecord<'a> {
    rule: &'a str,
    case: String,
    result: ExampleResult,
    split: Option<PartSplit>,
    /// The number of possible matches that are not hits because they exceed a limit.
    #[serde(skip_serializing_if = "is_zero")]
    undecided: u64,
    #[serde(skip)]
    text: &'a str,
    #[serde(skip)]
    call: Option<&'a ExampleCall>,
    /// The offset at which the hit was decided, and the latest offset allowed.
    #[serde(skip)]
    bytes: (Option<u64>, Option<u64>),
}

impl<'a> TestRecord<'a> {
    fn new(
        rule: &'a Rule,
        case: String,
        text: &'a str,
        part: &'a ExamplePart,
        judged: ExampleVerdict,
        by_byte: Option<u64>,
    ) -> TestRecord<'a> {
        TestRecord {
            rule: &rule.id,
            case,
            result: judged.kept,
            split: judged.split,
            undecided: 0,
            text,
            call: part.call.as_ref(),
            bytes: (judged.decided, by_byte),
        }
    }

    /// Returns the problem, if there is one.
    fn wrong(&self) -> Option<String> {
        let what = match (self.result, self.bytes) {
            (ExampleResult::Ok, _) => return None,
            (ExampleResult::Noisy, _) => "hits".to_owned(),
            (ExampleResult::Missing, (Some(_), _)) => {
                "hits, and does not do what is expected".to_owned()
            }
            (ExampleResult::Missing, _) if self.undecided > 0 => {
                "does not hit, because a possible match exceeds a limit and cannot be decided"
                    .to_owned()
            }
            (ExampleResult::Missing, _) => "does not hit".to_owned(),
            (ExampleResult::Late, (Some(decided), Some(most))) => {
                format!("hits after {decided} bytes, it must by {most}")
            }
            (ExampleResult::Late, _) => "hits too late".to_owned(),
            (ExampleResult::SplitDependent, _) => {
                "hits differently when it is cut at other places".to_owned()
            }
        };
        let shown = self.text.char_indices().nth(SHOWN);
        let shown = shown.map_or(self.text, |(end, _)| &self.text[..end]);
        let more = if shown.len() < self.text.len() {
            "…"
        } else {
            ""
        };
        let call = self
            .call
            .map_or_else(String::new, |call| format!(" as {call}"));
        let split = self
            .split
            .map_or_else(String::new, |split| format!(" ({split})"));
        let shown = Escaped(shown);
        Some(format!("\"{shown}{more}\"{call} {what}{split}"))
    }
}

/// Maximum number of characters shown of an example.
const SHOWN: usize = 60;

impl OutputRecord for TestRecord<'_> {
    /// Prints failures only.
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(wrong) = self.wrong() else {
            return Ok(());
        };
        let style = style(Action::Abort);
        writeln!(
            out,
            "{STRONG}{}{STRONG:#}: {style}{}{style:#}: {}: {wrong}",
            Escaped(self.rule),
            self.result.name(),
            self.case
        )
    }
}

#[cfg(test)]
mod tests {
    use ttsr::Pattern;

    use crate::test::split::CUTS;

    use super::*;

    fn at((end, decided): (u64, u64)) -> FirstHit {
        FirstHit {
            end,
            decided,
            redacted: Vec::new(),
        }
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    /// Returns a pack of one rule about "nee\"dle" with that scope.
    fn pack(tools: &[&str], args: &[&str], paths: &[&str]) -> Pack {
        let pattern = Pattern::literal("nee\"dle".to_owned());
        let mut rule = Rule::new("a/b", vec![pattern]);
        rule.on = vec![Channel::ToolInput];
        rule.tools = strings(tools);
        rule.args = strings(args);
        rule.paths = strings(paths);
        Pack::builder().rule(rule).build().unwrap()
    }

    fn result(pack: &Pack, text: &str, must_hit: bool, chunkings: &[Chunking]) -> ExampleResult {
        let part = ExamplePart::new(&pack.rules()[0], Channel::ToolInput, text);
        let splits = splits(chunkings, part.bytes.len());
        judge(must_hit, None, &splits, |split| {
            hit(pack, 0, (&part, None), split, 1)
        })
        .kept
    }

    #[test]
    fn a_call_is_in_the_scope_it_is_made_from() {
        for (tools, args, paths) in [
            (&[][..], &[][..], &[][..]),
            (&["mcp__*__{read,write}_?", "other"], &[], &[]),
            (&["{a,{b,c}}[!a-z][]x]\\*"], &[], &[]),
            (&["{{a,b}c,d}e"], &[], &[]),
            (&["!bash"], &[], &[]),
            (&["!tool", "!x", "!mcp__*"], &[], &[]),
            (&["a*", "!ax", "b"], &[], &[]),
            (&[], &["edits.*.new_*", "other"], &[]),
            (&[], &["**"], &[]),
            (&[], &["command.**"], &[]),
            (&[], &["**.a\\.b.0"], &[]),
            (&[], &["$raw"], &[]),
            (&[], &["$raw"], &["*.rs"]),
            (&[], &["$keys"], &[]),
            (&[], &["$keys"], &["*.rs"]),
            (&[], &[], &["!tests/", "**/*.rs", "!*.md"]),
            (&[], &[], &["target/"]),
            (&[], &[], &["/etc/**"]),
            (&[], &[], &["/"]),
            (&[], &[], &["./src/**/a b/[a-c]*.{ts,tsx}"]),
            (&[], &["edits.*.content"], &["{a,b/**}/\"c\""]),
        ] {
            let pack = pack(tools, args, paths);
            let case = format!("{tools:?} {args:?} {paths:?}");
            assert_eq!(
                result(&pack, "a nee\"dle\n", true, &[]),
                ExampleResult::Ok,
                "{case}"
            );
            assert_eq!(
                result(&pack, "a nee", true, &[]),
                ExampleResult::Missing,
                "{case}"
            );
            assert_eq!(
                result(&pack, "nee\"dle", false, &[]),
                ExampleResult::Noisy,
                "{case}"
            );
            assert_eq!(
                result(&pack, "a nee", false, &[]),
                ExampleResult::Ok,
                "{case}"
            );
        }
    }

    #[test]
    fn a_hit_that_depends_on_the_split_is_new_whatever_should_be() {
        let splits = splits(&[], 9);
        let odd = PartSplit::At(4);
        let of_one =
            |found: [Option<(u64, u64)>; 2]| move |split| found[usize::from(split == odd)].map(at);
        for (name, found) in [
            ("missed once", [Some((5, 5)), None]),
            ("only once", [None, Some((5, 5))]),
            ("ends elsewhere", [Some((5, 5)), Some((6, 6))]),
            ("certain later", [Some((5, 5)), Some((5, 6))]),
        ] {
            for must_hit in [true, false] {
                let judged = judge(must_hit, None, &splits, of_one(found));
                assert_eq!(
                    (judged.kept, judged.split),
                    (ExampleResult::SplitDependent, Some(odd)),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn long_parts_are_cut_at_places_spread_evenly() {
        let everywhere = splits(&[], 4);
        let shown: Vec<String> = everywhere.iter().map(PartSplit::to_string).collect();
        assert_eq!(shown, ["whole", "bytes", "cut:1", "cut:2", "cut:3"]);
        assert_eq!(splits(&[], 0).len(), 2);
        assert_eq!(splits(&[], CUTS + 1).len(), 2 + CUTS);
        let long = splits(&[], 10 * CUTS + 1);
        assert_eq!(long.len(), 2 + CUTS);
        assert_eq!(long[2..4], [PartSplit::At(1), PartSplit::At(11)]);
        assert_eq!(long.last(), Some(&PartSplit::At(10 * CUTS - 9)));
    }

    #[test]
    fn only_the_requested_cases_run() {
        let asked = ["original", "bytes", "7", "random:3"];
        let chunkings: Vec<Chunking> = asked.iter().map(|text| text.parse().unwrap()).collect();
        let shown: Vec<String> = splits(&chunkings, 100)
            .iter()
            .map(PartSplit::to_string)
            .collect();
        assert_eq!(shown, asked);
        let pack = pack(&[], &[], &[]);
        assert_eq!(
            result(&pack, "nee\"dle", true, &chunkings),
            ExampleResult::Ok
        );
        assert_eq!(result(&pack, "", true, &chunkings), ExampleResult::Missing);
    }

    #[test]
    fn a_hit_behind_its_byte_is_late() {
        let splits = splits(&[], 9);
        let found = |_| Some(at((5, 6)));
        assert_eq!(judge(true, Some(6), &splits, found).kept, ExampleResult::Ok);
        assert_eq!(
            judge(true, Some(5), &splits, found).kept,
            ExampleResult::Late
        );
    }
}
