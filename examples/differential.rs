//! Compares the crate with `regex-automata` on real rule sets and real replies.
//!
//! `TTSR_CORPUS=… cargo run --release --example differential [-- --sample N]`
//!
//! For every pattern of `rules/*.jsonl` and every reply of `streams/` and `transcripts/`, the crate and a search of the
//! whole text by the regex engine must agree on whether the pattern matches and where its earliest match ends, with the
//! recorded boundaries of the deltas and with others. `--sample N` uses every Nth reply. Prints the patterns of each set
//! that load and those that are rejected, and exits with status 1 on any difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, meta};
use ttsr::{Channel, Pack, PartId, Pattern, Rule};

fn main() -> ExitCode {
    let Some(corpus) = std::env::var_os("TTSR_CORPUS").map(PathBuf::from) else {
        eprintln!("skipped: TTSR_CORPUS is not set");
        return ExitCode::SUCCESS;
    };
    let every = sample_argument().unwrap_or(1).max(1);
    let replies: Vec<Reply> = replies(&corpus).into_iter().step_by(every).collect();
    let bytes: usize = replies.iter().map(|reply| reply.text.len()).sum();
    println!(
        "{} replies, {bytes} bytes (every {every}. one)",
        replies.len()
    );
    let mut sets = files(&corpus.join("rules"), "jsonl");
    sets.push(corpus.join("rules/pool-7000.txt"));
    let differences: usize = sets.iter().map(|set| compare_set(set, &replies)).sum();
    println!("{differences} differences");
    if differences == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn sample_argument() -> Option<usize> {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments
        .iter()
        .position(|argument| argument == "--sample")?;
    arguments.get(at + 1)?.parse().ok()
}

/// The text of one part and the ends of its deltas.
struct Reply {
    text: Vec<u8>,
    cuts: Vec<usize>,
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the corpus folder can be read");
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

fn json_lines(file: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(file).expect("the corpus file can be read");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect()
}

fn replies(corpus: &Path) -> Vec<Reply> {
    let mut replies = Vec::new();
    for file in files(&corpus.join("streams"), "jsonl") {
        for stream in json_lines(&file) {
            let mut parts: BTreeMap<u64, Reply> = BTreeMap::new();
            for delta in stream["deltas"].as_array().into_iter().flatten() {
                let (part, text) = (delta[0].as_u64(), delta[1].as_str());
                let (Some(part), Some(text)) = (part, text) else {
                    continue;
                };
                let reply = parts.entry(part).or_insert(Reply {
                    text: Vec::new(),
                    cuts: Vec::new(),
                });
                reply.text.extend_from_slice(text.as_bytes());
                reply.cuts.push(reply.text.len());
            }
            replies.extend(parts.into_values());
        }
    }
    for transcript in json_lines(&corpus.join("transcripts/transcripts.jsonl")) {
        let text = transcript["text"]
            .as_str()
            .unwrap_or_default()
            .as_bytes()
            .to_vec();
        let cuts = (1..text.len()).filter(|at| at * 7 % 23 < 6).collect();
        replies.push(Reply { text, cuts });
    }
    replies
}

/// Returns the patterns of a set that load, and those that do not with the reason.
fn load(file: &Path) -> (Vec<String>, Vec<(String, String)>) {
    let text = |line: &serde_json::Value| line["pattern"].as_str().unwrap_or_default().to_owned();
    let patterns: Vec<String> = match file.extension() {
        Some(extension) if extension == "jsonl" => json_lines(file).iter().map(text).collect(),
        _ => {
            let text = std::fs::read_to_string(file).expect("the corpus file can be read");
            text.lines().map(str::to_owned).collect()
        }
    };
    let (mut loaded, mut refused) = (Vec::new(), Vec::new());
    for pattern in patterns {
        match Pack::builder().rule(rule(0, &pattern)).build() {
            Ok(_) if syntax::parse(&pattern).is_err() => {
                refused.push((
                    pattern,
                    "loads, but the regex engine has no look-around".to_owned(),
                ));
            }
            Ok(_) => loaded.push(pattern),
            Err(error) => {
                let reasons: Vec<&str> = error.diagnostics().iter().map(|d| d.code()).collect();
                refused.push((pattern, reasons.join(", ")));
            }
        }
    }
    (loaded, refused)
}

fn rule(number: usize, pattern: &str) -> Rule {
    let pattern = Pattern::regex(pattern.to_owned());
    let mut rule = Rule::new(format!("set/p{number:05}"), vec![pattern]);
    rule.description = "A pattern of the corpus".to_owned();
    rule.on = vec![Channel::Text];
    rule
}

fn compare_set(file: &Path, replies: &[Reply]) -> usize {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let (patterns, refused) = load(file);
    let rules = patterns.iter().enumerate();
    let builder = rules.fold(Pack::builder(), |pack, (number, pattern)| {
        pack.rule(rule(number, pattern))
    });
    let pack = builder
        .build()
        .expect("rules that load one by one load together");
    println!(
        "{name}: {} patterns load, {} are refused",
        patterns.len(),
        refused.len()
    );
    for (pattern, reason) in &refused {
        println!(
            "  refused ({reason}): {}",
            pattern.chars().take(100).collect::<String>()
        );
    }
    let found: Vec<Vec<BTreeMap<usize, u64>>> = replies
        .iter()
        .map(|reply| {
            reply
                .splits()
                .iter()
                .map(|cuts| run(&pack, &reply.text, cuts))
                .collect()
        })
        .collect();
    let (mut hits, mut differences) = (0, 0);
    for (number, pattern) in patterns.iter().enumerate() {
        let oracle = Oracle::new(pattern);
        for (reply, found) in replies.iter().zip(&found) {
            let want = oracle.first_end(&reply.text);
            hits += usize::from(want.is_some());
            for (split, found) in found.iter().enumerate() {
                let got = found.get(&number).copied();
                if got != want {
                    differences += 1;
                    let start = String::from_utf8_lossy(&reply.text[..reply.text.len().min(60)]);
                    println!(
                        "  DIFFERS {pattern:?}: {got:?}, not {want:?}, split {split} of {start:?}"
                    );
                }
            }
        }
    }
    println!(
        "  {} (pattern, reply) pairs, {hits} match, {differences} differences",
        patterns.len() * replies.len()
    );
    differences
}

impl Reply {
    /// Returns the recorded split and two others.
    fn splits(&self) -> [Vec<usize>; 3] {
        let every = |step: usize| (step..self.text.len()).step_by(step).collect();
        [self.cuts.clone(), every(1), every(37)]
    }
}

/// Returns the first end of each pattern.
fn run(pack: &Pack, text: &[u8], cuts: &[usize]) -> BTreeMap<usize, u64> {
    let mut stream = pack.stream();
    let part = PartId(0);
    stream.open(part, Channel::Text);
    let mut ends = BTreeMap::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        for hit in stream.push(part, &text[from..to]) {
            ends.insert(hit.rule.index(), hit.end);
        }
        from = to;
    }
    for hit in stream.close(part) {
        ends.insert(hit.rule.index(), hit.end);
    }
    ends
}

/// The regex engine on the whole text: the fast search tells whether there is a match, the PikeVM where it ends.
struct Oracle {
    any: Option<meta::Regex>,
    first: PikeVM,
}

impl Oracle {
    fn new(pattern: &str) -> Oracle {
        let syntax = syntax::Config::new().utf8(false);
        let any = meta::Regex::builder()
            .syntax(syntax)
            .configure(meta::Config::new().utf8_empty(false))
            .build(pattern);
        let first = PikeVM::builder()
            .syntax(syntax)
            .thompson(thompson::Config::new().utf8(false).nfa_size_limit(None))
            .configure(PikeVM::config().match_kind(MatchKind::All))
            .build(pattern)
            .expect("a pattern that loads can be built without a size limit");
        // Patterns over the default size limit of `regex` use the slow engine only.
        Oracle {
            any: any.ok(),
            first,
        }
    }

    fn first_end(&self, text: &[u8]) -> Option<u64> {
        if self.any.as_ref().is_some_and(|any| !any.is_match(text)) {
            return None;
        }
        let mut slots = [None; 2];
        let input = Input::new(text).earliest(true);
        self.first
            .search_slots(&mut self.first.create_cache(), &input, &mut slots);
        slots[1].map(|end| end.get() as u64)
    }
}
