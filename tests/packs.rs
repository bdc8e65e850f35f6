//! Every rule of every built-in pack keeps its word: each example hits, each near miss does not, and
//! how the text is cut into deltas changes nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;
use ttsr::{Channel, Hits, Pack, PartId, Rule};

const PART: PartId = PartId(7);

/// A text as it stands in a part.
struct Case {
    channel: Channel,
    tool: Option<String>,
    bytes: Vec<u8>,
}

/// Rule, `end`, `decided`.
type Found = (usize, u64, u64);

#[test]
fn built_in_packs_load_without_a_warning() {
    let names: Vec<&str> = Pack::builtins().collect();
    assert!(names.is_sorted(), "{names:?}");
    for name in names {
        let pack = Pack::builtin(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(pack.warnings().is_empty(), "{name}: {:?}", pack.warnings());
    }
}

#[test]
fn every_rule_says_what_and_why_and_has_examples() {
    let mut rules = 0;
    for pack in Pack::builtins().map(|name| Pack::builtin(name).unwrap()) {
        for rule in pack.rules() {
            rules += 1;
            let id = &rule.id;
            let told = [&rule.why, &rule.instead, &rule.message];
            assert!(
                told.iter().all(|text| text.is_some()),
                "{id}: says too little"
            );
            assert!(!rule.description.ends_with('.'), "{id}: ends with a dot");
            assert!(rule.examples.matching.len() >= 2, "{id}: few examples");
            assert!(
                rule.examples.not_matching.len() >= 2,
                "{id}: few near misses"
            );
        }
    }
    assert!(rules >= 60, "{rules} rules");
}

#[test]
fn examples_hit_and_near_misses_do_not_under_every_split() {
    let (mut rules, mut examples, mut runs) = (0, 0, 0);
    let mut wrong = String::new();
    for pack in Pack::builtins().map(|name| Pack::builtin(name).unwrap()) {
        for (index, rule) in pack.rules().iter().enumerate() {
            rules += 1;
            let matching = rule.examples.matching.iter().map(|text| (text, true));
            let harmless = rule.examples.not_matching.iter().map(|text| (text, false));
            for (text, must_hit) in matching.chain(harmless) {
                examples += 1;
                for case in cases(rule, text) {
                    let found = hits(&pack, &case, &[]);
                    let hit = found.iter().any(|&(rule, ..)| rule == index);
                    if hit != must_hit {
                        let what = if hit { "noisy" } else { "missing" };
                        let shown = String::from_utf8_lossy(&case.bytes);
                        writeln!(wrong, "{what}: {}: {text:?} as {shown}", rule.id).unwrap();
                    }
                    runs += 1 + check_splits(&pack, rule, &case, &found);
                }
            }
        }
    }
    println!("{rules} rules, {examples} examples, {runs} runs");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// What the packs find in a corpus of ordinary agent output. Each hit was looked at and is right: all
/// `any` types, a command line made of a template, and changes thrown away with `git checkout -- .`.
const IN_CORPUS: [(&str, usize); 3] = [
    ("lang/typescript/any", 9),
    ("lang/typescript/shell-string", 2),
    ("std/shell-safety/git-discard-all", 1),
];

#[test]
fn every_hit_in_ordinary_output_is_explained() {
    let Some(corpus) = std::env::var_os("TTSR_CORPUS") else {
        eprintln!("skipped: TTSR_CORPUS is not set");
        return;
    };
    let packs = Pack::builtins().fold(Pack::builder(), |builder, name| builder.builtin(name));
    let pack = packs.build().unwrap();
    let mut found = BTreeMap::new();
    let mut parts = 0;
    for case in corpus_parts(corpus.as_ref()) {
        parts += 1;
        for (rule, ..) in hits(&pack, &case, &[]) {
            *found.entry(pack.rules()[rule].id.clone()).or_insert(0) += 1;
        }
    }
    println!("{parts} parts");
    assert!(parts > 1000, "{parts} parts");
    let expected = IN_CORPUS.map(|(rule, count)| (rule.to_owned(), count));
    assert_eq!(found, BTreeMap::from(expected));
}

/// Every part of the recorded streams and transcripts below the folder.
fn corpus_parts(corpus: &Path) -> Vec<Case> {
    let mut files = vec![corpus.join("transcripts/transcripts.jsonl")];
    let streams = fs::read_dir(corpus.join("streams")).unwrap();
    files.extend(streams.map(|entry| entry.unwrap().path()));
    let mut cases = Vec::new();
    for file in files {
        for line in fs::read_to_string(file).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let parts = line["parts"].as_array().cloned();
            let first = cases.len();
            cases.extend(
                parts
                    .unwrap_or_else(|| vec![line.clone()])
                    .iter()
                    .map(corpus_part),
            );
            for delta in line["deltas"].as_array().into_iter().flatten() {
                let part = first + delta[0].as_u64().unwrap() as usize;
                let text = delta[1].as_str().unwrap_or_default();
                cases[part].bytes.extend(text.as_bytes());
            }
        }
    }
    cases
}

fn corpus_part(part: &Value) -> Case {
    Case {
        channel: Channel::from_name(part["kind"].as_str().unwrap()).unwrap(),
        tool: part["tool"].as_str().map(str::to_owned),
        bytes: part["text"].as_str().unwrap_or_default().into(),
    }
}

/// The example on each channel of the rule, in each way in which it may be written there.
fn cases(rule: &Rule, text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for &channel in &rule.on {
        if channel == Channel::ToolInput {
            cases.extend(inputs(rule, text));
        } else {
            let bytes = text.as_bytes().to_vec();
            cases.push(Case {
                channel,
                tool: None,
                bytes,
            });
        }
    }
    cases
}

/// The example as the value of the first argument, for a call of the first tool on the first path.
fn inputs(rule: &Rule, text: &str) -> Vec<Case> {
    let tool = rule.tools.first().map_or("tool", String::as_str);
    let arg = rule.args.first().map_or("content", String::as_str);
    let path = rule.paths.iter().find(|glob| !glob.starts_with('!'));
    let mut inputs = Vec::new();
    for escape in [plain as fn(&str) -> String, escaped] {
        let value = format!("\"{arg}\":\"{}\"", escape(text));
        match path.map(|glob| instance(glob)) {
            None => inputs.push(format!("{{{value}}}")),
            Some(path) => inputs.extend([
                format!("{{\"file_path\": \"{path}\", {value}}}"),
                format!("{{{value}, \"file_path\": \"{path}\"}}"),
            ]),
        }
    }
    let case = |input: String| Case {
        channel: Channel::ToolInput,
        tool: Some(instance(tool)),
        bytes: input.into_bytes(),
    };
    inputs.into_iter().map(case).collect()
}

/// Runs byte by byte, byte by byte with empty deltas between, and at every two-way cut.
fn check_splits(pack: &Pack, rule: &Rule, case: &Case, whole: &[Found]) -> usize {
    let length = case.bytes.len();
    let bytes: Vec<usize> = (1..length).collect();
    let doubled: Vec<usize> = (0..=length).flat_map(|at| [at, at]).collect();
    let two_way = (1..length).map(|at| vec![at]);
    for cuts in [bytes, doubled].into_iter().chain(two_way) {
        let found = hits(pack, case, &cuts);
        let shown = String::from_utf8_lossy(&case.bytes);
        assert_eq!(found, whole, "{}: {shown} cut at {cuts:?}", rule.id);
    }
    length + 1
}

fn hits(pack: &Pack, case: &Case, cuts: &[usize]) -> Vec<Found> {
    let mut stream = pack.stream();
    let mut found = Vec::new();
    let mut add = |hits: Hits<'_>| {
        found.extend(
            hits.iter()
                .map(|hit| (hit.rule.index(), hit.end, hit.decided)),
        );
    };
    stream.open(PART, case.channel);
    if let Some(tool) = &case.tool {
        add(stream.tool(PART, tool, "call"));
    }
    let mut start = 0;
    for &cut in cuts.iter().chain([&case.bytes.len()]) {
        add(stream.push(PART, &case.bytes[start..cut]));
        start = cut;
    }
    add(stream.close(PART));
    found
}

/// A name that the glob matches.
fn instance(glob: &str) -> String {
    let glob = glob
        .trim_start_matches('/')
        .replace("**/", "")
        .replace("**", "*");
    let mut name = String::new();
    let mut rest = glob.as_str();
    while let Some(char) = rest.chars().next() {
        rest = &rest[char.len_utf8()..];
        match char {
            '*' | '?' => name.push('x'),
            '{' => {
                let (inside, after) = rest.split_once('}').expect("globs are checked at load");
                name.push_str(inside.split(',').next().unwrap_or_default());
                rest = after;
            }
            _ => name.push(char),
        }
    }
    if name.ends_with('/') {
        name + "x"
    } else {
        name
    }
}

/// JSON as most models write it.
fn plain(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    quoted[1..quoted.len() - 1].to_owned()
}

/// JSON with every character as an escape.
fn escaped(text: &str) -> String {
    text.encode_utf16().fold(String::new(), |mut out, unit| {
        write!(out, "\\u{unit:04x}").unwrap();
        out
    })
}
