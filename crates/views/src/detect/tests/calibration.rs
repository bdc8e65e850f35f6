//! The detection and false-positive rates in the table of `docs/detectors.md`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::detect::entropy::EntropyLimits;
use ttsr_testing::skip;

#[derive(Deserialize)]
struct Cases {
    wrong: Vec<Case>,
    right: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    times: usize,
    #[serde(default)]
    after: String,
    #[serde(default)]
    texts: Vec<String>,
    #[serde(default)]
    code: bool,
    language: Option<String>,
    limit: Option<String>,
}

impl Case {
    fn text(&self) -> String {
        let units = (0..self.times).map(|n| self.unit.replace("{n}", &n.to_string()));
        [self.text.clone()]
            .into_iter()
            .chain(units)
            .chain([self.after.clone()])
            .collect()
    }
}

/// A text of the corpus, its origin, and its runs of code.
struct Sample {
    /// The conversation that contains it.
    stream: String,
    kind: Kind,
    tool: String,
    text: String,
}

type IsFound = fn(&Sample) -> bool;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Prose,
    Input,
}

/// Splits a text at fences and backticks into runs of prose and of code, with the language of a fence.
fn runs(text: &str) -> Vec<(bool, Option<Language>, &str)> {
    let mut runs = Vec::new();
    let mut fence: Option<Option<Language>> = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        if let Some(label) = trimmed.strip_prefix("```") {
            fence = match fence {
                None => Some(Language::new(
                    label.trim().split([' ', ',']).next().unwrap_or(""),
                )),
                Some(_) => None,
            };
            runs.push((true, None, line));
        } else if let Some(language) = fence {
            runs.push((true, language, line));
        } else {
            let inline = line.split_inclusive('`').enumerate();
            runs.extend(inline.map(|(index, part)| (index % 2 == 1, None, part)));
        }
    }
    runs
}

/// Feeds a text to a detector, with its code marked as such.
fn read<D: Detector>(
    mut detector: D,
    sample: &Sample,
    mut tell: impl FnMut(&mut D, bool),
    prose_only: bool,
) -> Vec<Detection> {
    let mut all = Vec::new();
    let whole = [(true, None, sample.text.as_str())];
    let runs = match sample.kind {
        Kind::Prose => runs(&sample.text),
        Kind::Input => whole.to_vec(),
    };
    let mut at = 0;
    for (code, _, part) in runs {
        tell(&mut detector, code);
        if !(part.is_empty() || code && prose_only) {
            detector.push(Chunk::verbatim(part.as_bytes(), at), &mut |found| {
                all.push(found)
            });
        }
        at += part.len() as u64;
    }
    detector.finish(at, &mut |found| all.push(found));
    all
}

fn has_repetition(sample: &Sample) -> bool {
    !read(
        RepetitionDetector::new(RepetitionLimits::default()),
        sample,
        RepetitionDetector::set_code,
        false,
    )
    .is_empty()
}

fn has_near_duplicates(sample: &Sample) -> bool {
    !read(
        NearDuplicateDetector::new(NearDuplicateLimits::default()),
        sample,
        NearDuplicateDetector::set_code,
        false,
    )
    .is_empty()
}

fn has_control_tokens(sample: &Sample) -> bool {
    !read(
        ControlTokenDetector::new(ControlTokenLimits::default()),
        sample,
        ControlTokenDetector::set_code,
        false,
    )
    .is_empty()
}

fn script(sample: &Sample) -> bool {
    sample.kind == Kind::Prose
        && !read(
            ScriptDetector::new(ScriptLimits::default()),
            sample,
            |_, _| (),
            true,
        )
        .is_empty()
}

fn is_loop(texts: &[String]) -> bool {
    let mut calls = CallHistory::default();
    let limits = LoopLimits::default();
    texts.iter().any(|text| {
        calls
            .push(&limits, CallDigest::new("tool", text.as_bytes()))
            .is_some()
    })
}

fn are_same(texts: &[String]) -> bool {
    let mut turns = ReplyHistory::default();
    let limits = TurnLimits::default();
    let digest = |text: &str| {
        let mut reply = ReplyDigester::default();
        reply.push(Chunk::verbatim(text.as_bytes(), 0));
        reply.digest()
    };
    texts.iter().any(|text| turns.push(&limits, digest(text)))
}

fn passes(case: &Case) -> bool {
    let mut bounds = BoundLimits::default();
    match case.limit.as_deref() {
        Some("bytes") => bounds.bytes = Some(100),
        Some("lines") => bounds.lines = Some(10),
        Some("tokens") => bounds.tokens = Some(20),
        Some("deltas") => bounds.deltas = Some(30),
        other => panic!("no limit {other:?}"),
    }
    let mut limit = BoundMonitor::new(bounds, Duration::ZERO);
    let mut passed = false;
    for (at, byte) in case.text().bytes().enumerate() {
        limit.delta(Duration::ZERO, &mut |_, _| passed = true);
        limit.push(Chunk::verbatim(&[byte], at as u64), &mut |_, _| {
            passed = true
        });
    }
    passed
}

/// Returns names that exist, as a host would read them from lock files and workspaces.
fn known() -> Arc<KnownNames> {
    let text = std::fs::read_to_string(folder().join("known-names.txt")).unwrap();
    Arc::new(KnownNames::new(
        text.lines().filter(|line| !line.starts_with('#')),
    ))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/detect")
}

fn cases(name: &str) -> Cases {
    let text = std::fs::read_to_string(folder().join(format!("{name}.toml"))).unwrap();
    toml::from_str(&text).unwrap()
}

const NAMES: [&str; 9] = [
    "near-duplicate",
    "repetition",
    "doom-loop",
    "entropy",
    "control-tokens",
    "limit",
    "script",
    "turns",
    "unknown-name",
];

fn is_caught(name: &str, case: &Case, known: &Arc<KnownNames>) -> bool {
    let kind = if case.code { Kind::Input } else { Kind::Prose };
    let text = case.text();
    let sample = Sample {
        stream: String::new(),
        kind,
        tool: String::new(),
        text,
    };
    match name {
        "near-duplicate" => has_near_duplicates(&sample),
        "repetition" => has_repetition(&sample),
        "doom-loop" => is_loop(&case.texts),
        "entropy" => {
            Entropy::from_text(sample.text.as_bytes()).is_random(&EntropyLimits::default())
        }
        "control-tokens" => has_control_tokens(&sample),
        "limit" => passes(case),
        "script" => script(&sample),
        "turns" => are_same(&case.texts),
        _ => {
            let language = case.language.as_deref().and_then(Language::new);
            !found_in(
                UnknownNameDetector::new(Arc::clone(known), language),
                sample.text.as_bytes(),
                &[],
            )
            .is_empty()
        }
    }
}

/// Returns the code of a sample with its language: fenced, or written to a file by a tool.
fn code(sample: &Sample) -> Vec<(Language, String)> {
    if sample.kind == Kind::Prose {
        let mut blocks: Vec<(Language, String)> = Vec::new();
        for (is_code, language, line) in runs(&sample.text) {
            match (is_code, language, blocks.last_mut()) {
                (true, Some(language), Some(last)) if last.0 == language => last.1.push_str(line),
                (true, Some(language), _) => blocks.push((language, line.to_owned())),
                _ => {}
            }
        }
        return blocks;
    }
    let Ok(input) = serde_json::from_str::<Value>(&sample.text) else {
        return Vec::new();
    };
    let path = ["path", "file_path", "filename"]
        .iter()
        .find_map(|key| input[key].as_str());
    let extension = path
        .and_then(|path| path.rsplit_once('.'))
        .and_then(|(_, end)| Language::new(end));
    let text = ["content", "newText", "new_string", "new_str"]
        .iter()
        .find_map(|key| input[key].as_str());
    extension.zip(text.map(str::to_owned)).into_iter().collect()
}

fn unknown(sample: &Sample, known: &Arc<KnownNames>) -> Vec<String> {
    let mut names = Vec::new();
    for (language, text) in code(sample) {
        for found in found_in(
            UnknownNameDetector::new(Arc::clone(known), Some(language)),
            text.as_bytes(),
            &[],
        ) {
            names.push(format!(
                "{language:?} {}",
                &text[found.start as usize..found.end as usize]
            ));
        }
    }
    names
}

fn corpus() -> Option<Vec<Sample>> {
    let root = skip::corpus()?;
    let mut samples = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(root.join("streams"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            read_stream(&serde_json::from_str(line).unwrap(), &mut samples);
        }
    }
    let transcripts = root.join("transcripts/transcripts.jsonl");
    for line in std::fs::read_to_string(transcripts).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        samples.push(sample(
            &value,
            value["text"].as_str().unwrap().to_owned(),
            &value["stream"],
        ));
    }
    Some(samples)
}

fn read_stream(value: &Value, samples: &mut Vec<Sample>) {
    let parts = value["parts"].as_array().unwrap();
    let mut texts = vec![String::new(); parts.len()];
    for delta in value["deltas"].as_array().unwrap() {
        texts[delta[0].as_u64().unwrap() as usize].push_str(delta[1].as_str().unwrap());
    }
    for (part, text) in parts.iter().zip(texts) {
        samples.push(sample(part, text, &value["stream"]));
    }
}

fn sample(value: &Value, text: String, stream: &Value) -> Sample {
    let is_input = value["kind"] == "tool-input";
    Sample {
        stream: stream.as_str().unwrap_or_default().to_owned(),
        kind: if is_input { Kind::Input } else { Kind::Prose },
        tool: value["tool"].as_str().unwrap_or_default().to_owned(),
        text,
    }
}

/// Returns, for each detector, the number of texts read and the texts with a detection.
fn false_positives(
    samples: &[Sample],
    known: &Arc<KnownNames>,
) -> BTreeMap<&'static str, (usize, Vec<String>)> {
    let mut table = BTreeMap::new();
    let single: [(&str, IsFound); 4] = [
        ("near-duplicate", has_near_duplicates),
        ("repetition", has_repetition),
        ("control-tokens", has_control_tokens),
        ("script", script),
    ];
    for (name, is_found) in single {
        let found = samples.iter().filter(|sample| is_found(sample));
        table.insert(name, (samples.len(), found.map(shown).collect()));
    }
    let names: Vec<String> = samples
        .iter()
        .flat_map(|sample| unknown(sample, known))
        .collect();
    table.insert(
        "unknown-name",
        (samples.iter().map(|sample| code(sample).len()).sum(), names),
    );
    let streams = by_stream(samples);
    let looping = |(stream, all): &(&str, Vec<&Sample>)| {
        let mut calls = CallHistory::default();
        let limits = LoopLimits::default();
        // Some recordings have an input without a tool for every fragment of one; those are not calls.
        let mut inputs = all
            .iter()
            .filter(|sample| sample.kind == Kind::Input && !sample.tool.is_empty());
        let is_loop = inputs.any(|sample| {
            calls
                .push(
                    &limits,
                    CallDigest::new(&sample.tool, sample.text.as_bytes()),
                )
                .is_some()
        });
        is_loop.then(|| (*stream).to_owned())
    };
    table.insert(
        "doom-loop",
        (streams.len(), streams.iter().filter_map(looping).collect()),
    );
    let repeating = |(stream, all): &(&str, Vec<&Sample>)| {
        let prose = all.iter().filter(|sample| sample.kind == Kind::Prose);
        let texts: Vec<String> = prose.map(|sample| sample.text.clone()).collect();
        are_same(&texts).then(|| (*stream).to_owned())
    };
    table.insert(
        "turns",
        (
            streams.len(),
            streams.iter().filter_map(repeating).collect(),
        ),
    );
    table
}

/// Groups the samples by conversation, in order.
fn by_stream(samples: &[Sample]) -> Vec<(&str, Vec<&Sample>)> {
    let mut streams: Vec<(&str, Vec<&Sample>)> = Vec::new();
    for sample in samples {
        match streams.last_mut() {
            Some((stream, all)) if *stream == sample.stream => all.push(sample),
            _ => streams.push((&sample.stream, vec![sample])),
        }
    }
    streams
}

fn shown(sample: &Sample) -> String {
    let start: String = sample.text.chars().take(80).collect();
    format!("{} {start:?}", sample.stream)
}

#[test]
fn the_table_of_what_is_caught_is_true() {
    let known = known();
    let mut rows = BTreeMap::new();
    for name in NAMES {
        let Cases { wrong, right } = cases(name);
        assert!(wrong.len() >= 20, "{name} has {} positives", wrong.len());
        let missed: Vec<&str> = wrong
            .iter()
            .filter(|case| !is_caught(name, case, &known))
            .map(|case| case.name.as_str())
            .collect();
        let noisy: Vec<&str> = right
            .iter()
            .filter(|case| is_caught(name, case, &known))
            .map(|case| case.name.as_str())
            .collect();
        println!("{name}: missed {missed:?}, noisy {noisy:?}");
        let row = format!(
            "| `{name}` | {} | {} | {} | {} |",
            wrong.len(),
            wrong.len() - missed.len(),
            right.len(),
            noisy.len()
        );
        rows.insert(name, row);
    }
    let found = corpus().map(|samples| false_positives(&samples, &known));
    for (name, (_, texts)) in found.iter().flatten() {
        for text in texts {
            println!("{name}: found in {text}");
        }
    }
    compare(&rows, found.as_ref());
}

fn compare(
    rows: &BTreeMap<&str, String>,
    found: Option<&BTreeMap<&'static str, (usize, Vec<String>)>>,
) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/detectors.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- table -->\n").unwrap();
    let (committed, after) = rest.split_once("<!-- end -->").unwrap();
    let Some(found) = found else {
        for row in rows.values() {
            assert!(
                committed.contains(row.as_str()),
                "docs/detectors.md does not say {row}"
            );
        }
        return;
    };
    let mut table = String::from(
        "| detector | wrong | caught | right | noisy | corpus texts | found there |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, row) in rows {
        let corpus = found.get(name).map_or("| | |".to_owned(), |(all, texts)| {
            format!(" {all} | {} |", texts.len())
        });
        writeln!(table, "{row}{}", corpus.trim_start_matches('|')).unwrap();
    }
    println!("{table}");
    if std::env::var_os("TTSR_UPDATE_TABLES").is_some() {
        std::fs::write(
            &path,
            format!("{before}<!-- table -->\n{table}<!-- end -->{after}"),
        )
        .unwrap();
        return;
    }
    assert_eq!(
        committed, table,
        "docs/detectors.md is not what the detectors do"
    );
}
