//! The engine-independent suite: every case of `tests/data/*.toml`, under every way to cut it.
//!
//! A case has an input (`deltas`) and the expected output (`hits`, `counters`). It is run as given, with adjacent
//! deltas of a part joined, byte by byte, byte by byte with the parts alternating, at every two-way cut, at seeded
//! random cuts, and all of that with empty deltas between. The hits of each part and the counters must be the same
//! every time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use ttsr::rule::{Bound, PatternKind, UnknownName};
use ttsr::stream::{Counters, Hits};
use ttsr::{Channel, Limits, Pack, PartId, Pattern, Rule, Severity, Stream};

use ttsr_testing::Random;

/// The most two-way cuts of one delta. A longer one is cut at evenly spaced offsets.
const CUTS: usize = 400;

const RANDOM_RUNS: u64 = 8;

#[test]
fn delta_shapes() {
    run("deltas.toml", include_str!("../data/deltas.toml"), 40);
}

#[test]
fn parts() {
    run("parts.toml", include_str!("../data/parts.toml"), 15);
}

#[test]
fn tool_input() {
    run(
        "tool-input.toml",
        include_str!("../data/tool-input.toml"),
        40,
    );
}

#[test]
fn scopes() {
    run("scopes.toml", include_str!("../data/scopes.toml"), 25);
}

#[test]
fn detection() {
    run("detection.toml", include_str!("../data/detection.toml"), 20);
}

#[test]
fn regressions() {
    run(
        "regressions.toml",
        include_str!("../data/regressions.toml"),
        3,
    );
}

/// A file of cases and the packs they use.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    packs: BTreeMap<String, BTreeMap<String, RuleText>>,
    #[serde(default)]
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    on: Option<Vec<Channel>>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    paths: Vec<String>,
    severity: Option<Severity>,
    #[serde(default)]
    any: Vec<PatternText>,
    unknown_name: Option<UnknownName>,
    limit: Option<Bound>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PatternText {
    Literal(String),
    Word(String),
    Regex(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The defect that the case would reveal.
    name: String,
    /// The name of a pack in the file.
    #[serde(default)]
    pack: String,
    /// Instead of a named pack: tables `[rule.<id>]` in the rule language, for keys that [`RuleText`] does not have.
    rules: Option<String>,
    root: Option<String>,
    #[serde(default)]
    limits: BTreeMap<String, usize>,
    deltas: Vec<Delta>,
    hits: Vec<HitText>,
    #[serde(default)]
    counters: BTreeMap<String, u64>,
}

/// An entry of the input. Its fields take effect in the order of their declaration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delta {
    #[serde(default)]
    part: u32,
    open: Option<Channel>,
    tool: Option<String>,
    text: Option<String>,
    hex: Option<String>,
    #[serde(default)]
    close: bool,
}

#[derive(Deserialize, PartialEq, Eq, Debug, Clone)]
#[serde(deny_unknown_fields)]
struct HitText {
    rule: String,
    #[serde(default)]
    part: u32,
    arg: Option<String>,
    end: u64,
    decided: u64,
}

/// A call of a stream.
#[derive(Clone, Debug)]
enum Step {
    Open(PartId, Channel),
    Tool(PartId, String),
    Push(PartId, Vec<u8>),
    Close(PartId),
}

/// The hits of each part, in order, and the counters.
type Outcome = (BTreeMap<u32, Vec<HitText>>, BTreeMap<String, u64>);

fn run(name: &str, text: &str, least: usize) {
    let file: File = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut names: Vec<&str> = file.case.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "{name}: a name twice");
    let mut failures = String::new();
    let mut runs = 0;
    for case in &file.case {
        let pack = match &case.rules {
            Some(rules) => pack_of_text(case, rules),
            None => {
                let rules = file.packs.get(&case.pack);
                pack(
                    case,
                    rules.unwrap_or_else(|| panic!("{}: no such pack", case.name)),
                )
            }
        };
        match check(case, &pack) {
            Ok(count) => runs += count,
            Err(failure) => writeln!(failures, "{}: {failure}", case.name).unwrap(),
        }
    }
    println!("{name}: {} cases, {runs} runs", file.case.len());
    assert!(failures.is_empty(), "{name}:\n{failures}");
    assert!(
        file.case.len() >= least,
        "{name}: {} cases",
        file.case.len()
    );
}

/// Runs the case in every way and returns the number of runs, or the first difference.
fn check(case: &Case, pack: &Pack) -> Result<usize, String> {
    let mut hits: BTreeMap<u32, Vec<HitText>> = BTreeMap::new();
    for hit in &case.hits {
        hits.entry(hit.part).or_default().push(hit.clone());
    }
    let expected = (hits, case.counters.clone());
    let mut runs = 0;
    for (way, steps) in ways(&steps(&case.deltas)) {
        for (empty, steps) in [
            ("", steps.clone()),
            (" with empty deltas", with_empty(&steps)),
        ] {
            runs += 1;
            let found = outcome(pack, &steps);
            if found != expected {
                return Err(format!(
                    "{way}{empty}\n  expected {expected:?}\n  found    {found:?}"
                ));
            }
        }
    }
    Ok(runs)
}

fn pack(case: &Case, rules: &BTreeMap<String, RuleText>) -> Pack {
    let mut builder = Pack::builder().limits(limits(&case.limits));
    if let Some(root) = &case.root {
        builder = builder.root(root);
    }
    for (id, text) in rules {
        builder = builder.rule(rule(id, text));
    }
    builder
        .build()
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// Loads the rules of a case as the pack `t`.
fn pack_of_text(case: &Case, rules: &str) -> Pack {
    let file = format!("schema = 1\npack.name = 't'\n{rules}");
    let builder = Pack::builder().limits(limits(&case.limits));
    builder
        .toml("t.toml", &file)
        .build()
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

fn limits(written: &BTreeMap<String, usize>) -> Limits {
    let mut limits = Limits::default();
    for (name, &value) in written {
        match name.as_str() {
            "parts" => limits.parts = value,
            "json-depth" => limits.json_depth = value,
            "path-bytes" => limits.path_bytes = value,
            "table-bytes" => limits.table_bytes = value,
            _ => panic!("no limit {name}"),
        }
    }
    limits
}

fn rule(id: &str, text: &RuleText) -> Rule {
    let pattern = |pattern: &PatternText| {
        let (kind, text) = match pattern {
            PatternText::Literal(text) => (PatternKind::Literal, text),
            PatternText::Word(text) => (PatternKind::Word, text),
            PatternText::Regex(text) => (PatternKind::Regex, text),
        };
        Pattern::new(kind, text.clone())
    };
    let mut rule = Rule::new(format!("t/{id}"), text.any.iter().map(pattern).collect());
    rule.on = text.on.clone().unwrap_or(rule.on);
    rule.severity = text.severity.unwrap_or(rule.severity);
    rule.tools = text.tools.clone();
    rule.args = text.args.clone();
    rule.paths = text.paths.clone();
    rule.condition.unknown_name = text.unknown_name.clone();
    rule.condition.limit = text.limit;
    rule
}

fn steps(deltas: &[Delta]) -> Vec<Step> {
    let mut steps = Vec::new();
    for delta in deltas {
        let part = PartId(delta.part);
        steps.extend(delta.open.map(|channel| Step::Open(part, channel)));
        steps.extend(delta.tool.clone().map(|name| Step::Tool(part, name)));
        let text = delta.text.as_ref().map(|text| text.as_bytes().to_vec());
        let bytes = text.or_else(|| delta.hex.as_deref().map(from_hex));
        steps.extend(bytes.map(|bytes| Step::Push(part, bytes)));
        steps.extend(delta.close.then_some(Step::Close(part)));
    }
    steps
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().map(|char| char.to_digit(16).unwrap()).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

/// Returns every way to deliver the same bytes, with its name.
fn ways(given: &[Step]) -> Vec<(String, Vec<Step>)> {
    let whole = joined(given);
    let mut ways = vec![
        ("as given".to_owned(), given.to_vec()),
        ("whole".to_owned(), whole.clone()),
        (
            "byte by byte".to_owned(),
            cut(&whole, |_, bytes| (1..bytes.len()).collect()),
        ),
        ("in turns".to_owned(), in_turns(&whole)),
    ];
    for (index, step) in whole.iter().enumerate() {
        let Step::Push(_, bytes) = step else { continue };
        let stride = bytes.len() / CUTS + 1;
        for at in (1..bytes.len()).step_by(stride) {
            let one = cut(
                &whole,
                |place, _| if place == index { vec![at] } else { Vec::new() },
            );
            ways.push((format!("delta {index} cut at {at}"), one));
        }
    }
    for seed in 0..RANDOM_RUNS {
        let mut random = Random::new(seed);
        let cuts = cut(&whole, |_, bytes| {
            (1..bytes.len())
                .filter(|_| random.next().is_multiple_of(2 + seed * 3))
                .collect()
        });
        ways.push((format!("random cuts, seed {seed}"), cuts));
    }
    ways
}

/// Joins adjacent deltas of one part.
fn joined(steps: &[Step]) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::new();
    for step in steps {
        match (joined.last_mut(), step) {
            (Some(Step::Push(last, all)), Step::Push(part, bytes)) if last == part => {
                all.extend(bytes);
            }
            _ => joined.push(step.clone()),
        }
    }
    joined
}

fn cut(steps: &[Step], mut cuts: impl FnMut(usize, &[u8]) -> Vec<usize>) -> Vec<Step> {
    let mut out = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let Step::Push(part, bytes) = step else {
            out.push(step.clone());
            continue;
        };
        let mut start = 0;
        for end in cuts(index, bytes).into_iter().chain([bytes.len()]) {
            out.push(Step::Push(*part, bytes[start..end].to_vec()));
            start = end;
        }
    }
    out
}

/// Delivers adjacent deltas of several parts byte by byte, one byte of each part in turn.
fn in_turns(steps: &[Step]) -> Vec<Step> {
    let mut out = Vec::new();
    for group in steps.chunk_by(|a, b| is_push(a) && is_push(b)) {
        let mut queues: BTreeMap<PartId, Vec<u8>> = BTreeMap::new();
        for step in group {
            match step {
                Step::Push(part, bytes) => queues.entry(*part).or_default().extend(bytes),
                _ => out.push(step.clone()),
            }
        }
        let longest = queues.values().map(Vec::len).max().unwrap_or(0);
        for at in 0..longest {
            let byte = |(part, bytes): (&PartId, &Vec<u8>)| Some((*part, *bytes.get(at)?));
            let turn = queues.iter().filter_map(byte);
            out.extend(turn.map(|(part, byte)| Step::Push(part, vec![byte])));
        }
    }
    out
}

fn is_push(step: &Step) -> bool {
    matches!(step, Step::Push(..))
}

fn with_empty(steps: &[Step]) -> Vec<Step> {
    let mut out = Vec::new();
    for step in steps {
        if let Step::Push(part, _) = step {
            out.extend([
                Step::Push(*part, Vec::new()),
                step.clone(),
                Step::Push(*part, Vec::new()),
            ]);
        } else {
            out.push(step.clone());
        }
    }
    out
}

fn outcome(pack: &Pack, steps: &[Step]) -> Outcome {
    let mut stream = pack.stream();
    let mut found = Vec::new();
    for step in steps {
        let mut add = |hits: Hits<'_>| found.extend(hits.iter().copied());
        match step {
            Step::Open(part, channel) => stream.open(*part, *channel),
            Step::Tool(part, name) => add(stream.tool(*part, name, "call")),
            Step::Push(part, bytes) => add(stream.push(*part, bytes)),
            Step::Close(part) => add(stream.close(*part)),
        }
    }
    let mut hits: BTreeMap<u32, Vec<HitText>> = BTreeMap::new();
    for hit in found {
        assert!(stream.excerpt(&hit).contains(stream.matched(&hit)));
        hits.entry(hit.part.0).or_default().push(HitText {
            rule: pack.rule(hit.rule).id["t/".len()..].to_owned(),
            part: hit.part.0,
            arg: stream.arg(&hit).map(str::to_owned),
            end: hit.end,
            decided: hit.decided,
        });
    }
    (hits, counters(&stream))
}

/// Returns the counters that are not zero.
fn counters(stream: &Stream) -> BTreeMap<String, u64> {
    let Counters {
        unknown_parts,
        duplicate_opens,
        stray_closes,
        unscanned_bytes,
        invalid_utf8,
        raw_inputs,
        malformed_json,
        lone_surrogates,
        too_deep,
        long_paths,
        unscoped,
        ..
    } = stream.counters();
    let named = [
        ("unknown-parts", unknown_parts),
        ("duplicate-opens", duplicate_opens),
        ("stray-closes", stray_closes),
        ("unscanned-bytes", unscanned_bytes),
        ("invalid-utf8", invalid_utf8),
        ("raw-inputs", raw_inputs),
        ("malformed-json", malformed_json),
        ("lone-surrogates", lone_surrogates),
        ("too-deep", too_deep),
        ("long-paths", long_paths),
        ("unscoped", unscoped),
    ];
    let counted = named.into_iter().filter(|(_, count)| *count > 0);
    counted
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}
