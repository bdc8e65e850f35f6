//! `ttsr test`: the examples of rules, under every split.
//!
//! Owns how an example becomes a part and where it is cut. What hits is the library's business.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::num::NonZeroUsize;

use clap::Args;
use serde::{Serialize, Serializer};
use ttsr::{Action, Channel, Hits, Pack, PartId, Rule};

use crate::args::{FormatArg, PackArgs};
use crate::chunk::{Chunk, Cutter};
use crate::output::{Escaped, Out, Record, STRONG, style, tell};
use crate::tally::Count;
use crate::{Outcome, Stop, packs};

/// Run the examples of rules: what must hit hits, what must not does not, however it is cut
///
/// Each example is run on each channel of its rule: whole, byte by byte, and cut in two at every place.
/// For tool input it is the value of the first of `args` (else `content`) in a call of the first of
/// `tools`, about a file that the first glob of `paths` matches.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Cut examples only like this: `original` or `whole`, `bytes`, a number of bytes, or `random:SEED`; may
    /// be repeated
    #[arg(long = "chunk", value_name = "CHUNK")]
    chunks: Vec<Chunk>,
    #[command(flatten)]
    format: FormatArg,
    /// Rule files, folders of them, and names of built-in packs
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let pack = packs::load(&PackArgs {
        packs: options.paths.clone(),
    })?;
    let mut out = Out::new(options.format.format);
    let (mut examples, mut failed, mut bare) = (0, 0, 0);
    for (index, rule) in pack.rules().iter().enumerate() {
        bare += u64::from(rule.examples.matching.is_empty());
        for example in Example::all(rule) {
            let mut is_kept = true;
            for &channel in &rule.on {
                let part = Part::new(rule, channel, example.text);
                let splits = splits(&options.chunks, part.bytes.len());
                let hit = |split| hit(&pack, index, &part, split, example.number);
                let (result, split) = judge(example.must_hit, &splits, hit);
                is_kept &= result == Kept::Ok;
                out.write(&TestRecord::new(rule, example, &part, result, split))?;
            }
            examples += 1;
            failed += u64::from(!is_kept);
        }
    }
    out.flush()?;
    if bare > 0 {
        let rules = Count(bare, "rule");
        tell(&format_args!("missing: {rules} without any match example"));
    }
    tell(&format_args!(
        "{}, {}, {failed} failed",
        Count(pack.rules().len() as u64, "rule"),
        Count(examples, "example")
    ));
    Ok(match failed {
        0 => Outcome::Clean,
        _ => Outcome::Findings,
    })
}

#[derive(Clone, Copy)]
struct Example<'a> {
    text: &'a str,
    must_hit: bool,
    /// Among those of its kind, from 1.
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

/// An example as it stands in a reply.
struct Part {
    channel: Channel,
    call: Option<Call>,
    bytes: Vec<u8>,
}

impl Part {
    fn new(rule: &Rule, channel: Channel, text: &str) -> Part {
        let call = (channel == Channel::ToolInput).then(|| Call::new(rule));
        let bytes = match &call {
            Some(call) => call.input(text).into_bytes(),
            None => text.into(),
        };
        Part {
            channel,
            call,
            bytes,
        }
    }
}

/// A call that the scope of a rule includes.
struct Call {
    tool: String,
    /// The names that lead to the argument; none for input that is not JSON.
    arg: Vec<String>,
    file: Option<String>,
}

impl Call {
    fn new(rule: &Rule) -> Call {
        let arg = rule.args.first().map_or("content", String::as_str);
        let tool = rule.tools.first().map_or("tool", String::as_str);
        let globs = &mut rule.paths.iter().filter(|glob| !glob.starts_with('!'));
        Call {
            tool: instance(tool),
            arg: match arg {
                "$raw" => Vec::new(),
                _ => names(arg),
            },
            file: globs.next().map(|glob| file(glob)),
        }
    }

    fn input(&self, text: &str) -> String {
        let file = self
            .file
            .as_ref()
            .map(|file| format!("\"file_path\":{}", json(file)));
        if self.arg.is_empty() {
            // What follows an object is not JSON, and the file is known by then.
            return file.map_or_else(String::new, |file| format!("{{{file}}}")) + text;
        }
        let value = self.arg.iter().rfold(json(text), |value, name| {
            format!("{{{}:{value}}}", json(name))
        });
        match file {
            Some(file) => format!("{{{file},{}", &value[1..]),
            None => value,
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arg.join(".") {
            arg if arg.is_empty() => write!(f, "the raw input")?,
            arg => write!(f, "`{}`", Escaped(&arg))?,
        }
        write!(f, " of `{}`", Escaped(&self.tool))?;
        match &self.file {
            Some(file) => write!(f, " about `{}`", Escaped(file)),
            None => Ok(()),
        }
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The names of an argument that the dotted glob matches.
fn names(glob: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = glob;
    loop {
        let mut escaped = false;
        let end = rest.find(|char| {
            let is_dot = char == '.' && !escaped;
            escaped = char == '\\' && !escaped;
            is_dot
        });
        match &rest[..end.unwrap_or(rest.len())] {
            // Any number of names, also none.
            "**" => {}
            name => names.push(instance(name)),
        }
        match end {
            Some(dot) => rest = &rest[dot + 1..],
            None => break,
        }
    }
    if names.is_empty() {
        names.push("content".to_owned());
    }
    names
}

/// A file that the glob matches.
fn file(glob: &str) -> String {
    let glob = glob.trim_start_matches("./").trim_start_matches('/');
    let mut file = instance(&glob.replace("**/", ""));
    if file.is_empty() || file.ends_with('/') {
        file.push('x');
    }
    file
}

/// A name that the glob matches: of each choice the first, `x` for whatever is free.
fn instance(glob: &str) -> String {
    let mut name = String::new();
    let mut chars = glob.chars().peekable();
    let mut depth = 0;
    // The braces of which an alternative is complete.
    let mut done = None;
    while let Some(char) = chars.next() {
        let taken = match char {
            '{' => {
                depth += 1;
                None
            }
            '}' => {
                done = done.filter(|&done| done != depth);
                depth -= 1;
                None
            }
            ',' if depth > 0 => {
                done = done.or(Some(depth));
                None
            }
            '*' => {
                while chars.next_if_eq(&'*').is_some() {}
                Some('x')
            }
            '?' => Some('x'),
            '[' => Some(member(&mut chars)),
            '\\' => chars.next(),
            _ => Some(char),
        };
        name.extend(taken.filter(|_| done.is_none()));
    }
    name
}

/// A character of the class that begins here, behind its bracket.
fn member(chars: &mut impl Iterator<Item = char>) -> char {
    let first = chars.next().unwrap_or_default();
    let negated = matches!(first, '!' | '^');
    // A bracket in the first place stands for itself.
    let from = if negated { chars.next() } else { Some(first) };
    let rest: String = chars.take_while(|&char| char != ']').collect();
    match from {
        Some(from) if negated => outside(&format!("{from}{rest}")),
        from => from.unwrap_or_default(),
    }
}

/// A character that is not in the class, as far as one of the usual ones will do: first those without case,
/// which does not count for tools.
fn outside(class: &str) -> char {
    let chars: Vec<char> = class.chars().collect();
    let holds = |char| {
        let in_range = |range: &[char]| range[1] == '-' && (range[0]..=range[2]).contains(&char);
        chars.contains(&char) || chars.windows(3).any(in_range)
    };
    let mut usual = ['0', '_', '~', 'x', 'X'].into_iter();
    usual.find(|&char| !holds(char)).unwrap_or('\u{e4}')
}

/// One way to cut a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    Chunk(Chunk),
    /// In two, behind so many bytes.
    At(usize),
}

impl Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Split::Chunk(Chunk::Original) => f.write_str("original"),
            Split::Chunk(Chunk::Whole) => f.write_str("whole"),
            Split::Chunk(Chunk::Size(size)) if size.get() == 1 => f.write_str("bytes"),
            Split::Chunk(Chunk::Size(size)) => write!(f, "{size}"),
            Split::Chunk(Chunk::Random(seed)) => write!(f, "random:{seed}"),
            Split::At(at) => write!(f, "cut:{at}"),
        }
    }
}

impl Serialize for Split {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Most cuts in two of one part.
const CUTS: usize = 400;

/// What was asked for, or else everything.
fn splits(chunks: &[Chunk], length: usize) -> Vec<Split> {
    if !chunks.is_empty() {
        return chunks.iter().copied().map(Split::Chunk).collect();
    }
    let places = length.saturating_sub(1);
    let cuts = places.min(CUTS);
    let mut splits = vec![
        Split::Chunk(Chunk::Whole),
        Split::Chunk(Chunk::Size(NonZeroUsize::MIN)),
    ];
    splits.extend((0..cuts).map(|cut| Split::At(1 + cut * places / cuts)));
    splits
}

/// Whether an example shows what its author says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kept {
    Ok,
    Noisy,
    Missing,
    /// The first split, and another, differ.
    SplitDependent,
}

impl Kept {
    fn name(self) -> &'static str {
        match self {
            Kept::Ok => "ok",
            Kept::Noisy => "noisy",
            Kept::Missing => "missing",
            Kept::SplitDependent => "split-dependent",
        }
    }
}

/// Where a rule is broken: `end` and `decided`.
type Found = Option<(u64, u64)>;

/// With the split that differs from the first, if one does.
fn judge(must_hit: bool, splits: &[Split], hit: impl Fn(Split) -> Found) -> (Kept, Option<Split>) {
    let mut found = splits.iter().map(|&split| (split, hit(split)));
    let first = found.next().and_then(|(_, hit)| hit);
    if let Some((split, _)) = found.find(|(_, hit)| *hit != first) {
        return (Kept::SplitDependent, Some(split));
    }
    let kept = match (must_hit, first) {
        (true, None) => Kept::Missing,
        (false, Some(_)) => Kept::Noisy,
        _ => Kept::Ok,
    };
    (kept, None)
}

const PART: PartId = PartId(0);

/// A stream reports a rule once a part.
fn hit(pack: &Pack, rule: usize, part: &Part, split: Split, number: u64) -> Found {
    let mut stream = pack.stream();
    let mut found = None;
    let mut add = |hits: Hits<'_>| {
        let mut own = hits.iter().filter(|hit| hit.rule.index() == rule);
        found = found.or_else(|| own.next().map(|hit| (hit.end, hit.decided)));
    };
    stream.open(PART, part.channel);
    if let Some(call) = &part.call {
        add(stream.tool(PART, &call.tool, "call"));
    }
    match split {
        Split::Chunk(chunk) => {
            let mut cutter = Cutter::new(chunk, number);
            let mut push = |delta: &[u8]| add(stream.push(PART, delta));
            cutter.push(&part.bytes, &mut push);
            cutter.flush(&mut push);
        }
        Split::At(at) => {
            let (before, after) = part.bytes.split_at(at);
            add(stream.push(PART, before));
            add(stream.push(PART, after));
        }
    }
    add(stream.close(PART));
    found
}

/// How an example went on one channel.
#[derive(Serialize)]
#[serde(tag = "event", rename = "test")]
struct TestRecord<'a> {
    rule: &'a str,
    case: String,
    result: Kept,
    split: Option<Split>,
    #[serde(skip)]
    text: &'a str,
    #[serde(skip)]
    call: Option<&'a Call>,
}

impl<'a> TestRecord<'a> {
    fn new(
        rule: &'a Rule,
        example: Example<'a>,
        part: &'a Part,
        result: Kept,
        split: Option<Split>,
    ) -> TestRecord<'a> {
        let kind = if example.must_hit {
            "match"
        } else {
            "no-match"
        };
        TestRecord {
            rule: &rule.id,
            case: format!("{kind} {} on {}", example.number, part.channel.name()),
            result,
            split,
            text: example.text,
            call: part.call.as_ref(),
        }
    }
}

/// Most characters of an example that are shown.
const SHOWN: usize = 60;

impl Record for TestRecord<'_> {
    /// Only what failed is worth a reader's time.
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let wrong = match self.result {
            Kept::Ok => return Ok(()),
            Kept::Noisy => "hits",
            Kept::Missing => "does not hit",
            Kept::SplitDependent => "hits differently when it is cut at other places",
        };
        let style = style(Action::Abort);
        let shown = self.text.char_indices().nth(SHOWN);
        let shown = shown.map_or(self.text, |(end, _)| &self.text[..end]);
        let more = if shown.len() < self.text.len() {
            "…"
        } else {
            ""
        };
        write!(
            out,
            "{STRONG}{}{STRONG:#}: {style}{}{style:#}: {}: \"{}{more}\"",
            Escaped(self.rule),
            self.result.name(),
            self.case,
            Escaped(shown)
        )?;
        if let Some(call) = self.call {
            write!(out, " as {call}")?;
        }
        write!(out, " {wrong}")?;
        if let Some(split) = self.split {
            write!(out, " ({split})")?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use ttsr::Pattern;

    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    /// The pack of one rule about "nee\"dle", with that scope.
    fn pack(tools: &[&str], args: &[&str], paths: &[&str]) -> Pack {
        let pattern = Pattern::literal("nee\"dle".to_owned());
        let mut rule = Rule::new("a/b", vec![pattern]);
        rule.on = vec![Channel::ToolInput];
        rule.tools = strings(tools);
        rule.args = strings(args);
        rule.paths = strings(paths);
        Pack::builder().rule(rule).build().unwrap()
    }

    fn result(pack: &Pack, text: &str, must_hit: bool, chunks: &[Chunk]) -> Kept {
        let part = Part::new(&pack.rules()[0], Channel::ToolInput, text);
        let splits = splits(chunks, part.bytes.len());
        judge(must_hit, &splits, |split| hit(pack, 0, &part, split, 1)).0
    }

    #[test]
    fn a_call_is_in_the_scope_it_is_made_from() {
        for (tools, args, paths) in [
            (&[][..], &[][..], &[][..]),
            (&["mcp__*__{read,write}_?", "other"], &[], &[]),
            (&["{a,{b,c}}[!a-z][]x]\\*"], &[], &[]),
            (&["{{a,b}c,d}e"], &[], &[]),
            (&[], &["edits.*.new_*", "other"], &[]),
            (&[], &["**"], &[]),
            (&[], &["command.**"], &[]),
            (&[], &["**.a\\.b.0"], &[]),
            (&[], &["$raw"], &[]),
            (&[], &["$raw"], &["*.rs"]),
            (&[], &[], &["!tests/", "**/*.rs", "!*.md"]),
            (&[], &[], &["target/"]),
            (&[], &[], &["/etc/**"]),
            (&[], &[], &["/"]),
            (&[], &[], &["./src/**/a b/[a-c]*.{ts,tsx}"]),
            (&[], &["edits.*.content"], &["{a,b/**}/\"c\""]),
        ] {
            let pack = pack(tools, args, paths);
            let case = format!("{tools:?} {args:?} {paths:?}");
            assert_eq!(result(&pack, "a nee\"dle\n", true, &[]), Kept::Ok, "{case}");
            assert_eq!(result(&pack, "a nee", true, &[]), Kept::Missing, "{case}");
            assert_eq!(result(&pack, "nee\"dle", false, &[]), Kept::Noisy, "{case}");
            assert_eq!(result(&pack, "a nee", false, &[]), Kept::Ok, "{case}");
        }
    }

    #[test]
    fn a_hit_that_depends_on_the_split_is_told_whatever_should_be() {
        let splits = splits(&[], 9);
        let odd = Split::At(4);
        let of_one = |found: [Found; 2]| move |split| found[usize::from(split == odd)];
        for (name, found) in [
            ("missed once", [Some((5, 5)), None]),
            ("only once", [None, Some((5, 5))]),
            ("ends elsewhere", [Some((5, 5)), Some((6, 6))]),
            ("certain later", [Some((5, 5)), Some((5, 6))]),
        ] {
            for must_hit in [true, false] {
                let judged = judge(must_hit, &splits, of_one(found));
                assert_eq!(judged, (Kept::SplitDependent, Some(odd)), "{name}");
            }
        }
    }

    #[test]
    fn long_parts_are_cut_at_places_spread_evenly() {
        let everywhere = splits(&[], 4);
        let shown: Vec<String> = everywhere.iter().map(Split::to_string).collect();
        assert_eq!(shown, ["whole", "bytes", "cut:1", "cut:2", "cut:3"]);
        assert_eq!(splits(&[], 0).len(), 2);
        assert_eq!(splits(&[], CUTS + 1).len(), 2 + CUTS);
        let long = splits(&[], 10 * CUTS + 1);
        assert_eq!(long.len(), 2 + CUTS);
        assert_eq!(long[2..4], [Split::At(1), Split::At(11)]);
        assert_eq!(long.last(), Some(&Split::At(10 * CUTS - 9)));
    }

    #[test]
    fn what_is_asked_for_is_all_that_is_run() {
        let asked = ["original", "bytes", "7", "random:3"];
        let chunks: Vec<Chunk> = asked.iter().map(|text| text.parse().unwrap()).collect();
        let shown: Vec<String> = splits(&chunks, 100).iter().map(Split::to_string).collect();
        assert_eq!(shown, asked);
        let pack = pack(&[], &[], &[]);
        assert_eq!(result(&pack, "nee\"dle", true, &chunks), Kept::Ok);
        assert_eq!(result(&pack, "", true, &chunks), Kept::Missing);
    }
}
