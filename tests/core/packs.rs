//! Tests of the built-in packs: each example hits, each near miss does not, under every split; rules that act hit
//! independently written texts (`tests/data/positives`); and every hit in ordinary output is judged, line by line, in
//! `docs/packs/false-positives.md`, which `UPDATE_GOLDEN=1` writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use ttsr::stream::Hits;
use ttsr::{Action, Channel, Conversation, Pack, PackBuilder, PartId, Rule};
use ttsr_testing::recordings::{RecordedPart, Recording, recordings};
use ttsr_testing::{scale, skip};

const PART: PartId = PartId(7);

/// A text in the form in which a part contains it.
struct Case {
    channel: Channel,
    tool: Option<String>,
    bytes: Vec<u8>,
}

impl From<RecordedPart> for Case {
    fn from(part: RecordedPart) -> Case {
        let RecordedPart {
            channel,
            tool,
            bytes,
        } = part;
        Case {
            channel,
            tool,
            bytes,
        }
    }
}

/// Rule, `end`, `decided`.
type Found = (usize, u64, u64);

/// The names of the packs in `rules/`, sorted.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for group in fs::read_dir(folder("rules")).unwrap() {
        for pack in fs::read_dir(group.unwrap().path()).unwrap() {
            let path = pack.unwrap().path();
            let name = path.strip_prefix(folder("rules")).unwrap();
            names.push(name.to_str().unwrap().replace('\\', "/"));
        }
    }
    names.sort();
    names
}

fn pack(name: &str) -> Pack {
    Pack::load(folder(&format!("rules/{name}"))).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn packs() -> impl Iterator<Item = Pack> {
    names().into_iter().map(|name| pack(&name))
}

fn all_packs() -> Pack {
    let packs = names().into_iter().fold(Pack::builder(), |builder, name| {
        builder.file(folder(&format!("rules/{name}")))
    });
    packs.build().unwrap()
}

/// Returns true if the rule cuts the reply or redacts the match.
fn acts(rule: &Rule) -> bool {
    matches!(rule.action, Action::Abort | Action::Retry | Action::Redact)
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn built_in_packs_are_those_of_the_folder_and_load_without_a_warning() {
    let builtins: Vec<&str> = Pack::builtin_names().collect();
    assert_eq!(builtins, names());
    for name in builtins {
        let builtin = Pack::builtin(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            builtin.warnings().is_empty(),
            "{name}: {:?}",
            builtin.warnings()
        );
        assert_eq!(builtin.rules(), pack(name).rules(), "{name}");
    }
}

#[test]
fn every_rule_says_what_and_why_and_has_examples() {
    let mut rules = 0;
    for pack in packs() {
        for rule in pack.rules() {
            rules += 1;
            let id = &rule.id;
            let told = [&rule.why, &rule.instead, &rule.message];
            assert!(
                told.iter().all(|text| text.is_some()),
                "{id}: says too little"
            );
            let source = rule.docs.as_deref().unwrap_or_default();
            assert!(source.starts_with("https://"), "{id}: no source");
            assert!(!rule.description.ends_with('.'), "{id}: ends with a dot");
            assert!(rule.examples.matching.len() >= 2, "{id}: few examples");
            assert!(
                rule.examples.not_matching.len() >= 2,
                "{id}: few near misses"
            );
        }
    }
    assert!(rules >= 150, "{rules} rules");
}

#[test]
fn examples_hit_and_near_misses_do_not_under_every_split() {
    let (mut rules, mut examples, mut runs) = (0, 0, 0);
    let mut wrong = String::new();
    for pack in packs() {
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
                    runs += 1;
                    // A sample, spread over the rules.
                    if examples * 37 % 100 < scale(100) {
                        runs += check_splits(&pack, rule, &case, &found);
                    }
                }
            }
        }
    }
    println!("{rules} rules, {examples} examples, {runs} runs");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Texts that rules of one pack must match, written independently of the rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Positives {
    pack: String,
    channel: Channel,
    /// The tool, for texts in tool input.
    #[serde(default)]
    tool: String,
    #[serde(default)]
    arg: String,
    /// Rules whose texts go to another tool, argument or file.
    #[serde(default)]
    tools: BTreeMap<String, String>,
    #[serde(default)]
    args: BTreeMap<String, String>,
    #[serde(default)]
    paths: BTreeMap<String, String>,
    /// The texts by rule.
    texts: BTreeMap<String, Vec<String>>,
}

impl Positives {
    fn case(&self, rule: &str, text: &str) -> Case {
        let Channel::ToolInput = self.channel else {
            return Case {
                channel: self.channel,
                tool: None,
                bytes: text.into(),
            };
        };
        let arg = self.args.get(rule).unwrap_or(&self.arg);
        let mut input = serde_json::Map::new();
        if let Some(path) = self.paths.get(rule) {
            input.insert("file_path".into(), path.as_str().into());
        }
        input.insert(arg.clone(), text.into());
        Case {
            channel: self.channel,
            tool: Some(self.tools.get(rule).unwrap_or(&self.tool).clone()),
            bytes: Value::Object(input).to_string().into_bytes(),
        }
    }
}

fn positives() -> impl Iterator<Item = Positives> {
    let files = fs::read_dir(folder("tests/data/positives")).unwrap();
    files.map(|file| {
        let path = file.unwrap().path();
        toml::from_str(&fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    })
}

#[test]
fn rules_that_act_find_what_was_not_written_for_them() {
    let mut missing: BTreeMap<String, usize> = packs()
        .flat_map(|pack| pack.rules().to_vec())
        .filter(acts)
        .map(|rule| (rule.id, 3))
        .collect();
    let mut wrong = String::new();
    let mut texts = BTreeSet::new();
    for positives in positives() {
        let pack = pack(&positives.pack);
        for (name, of_rule) in &positives.texts {
            let id = format!("{}/{name}", positives.pack);
            let index = pack.rules().iter().position(|rule| rule.id == id);
            let index = index.unwrap_or_else(|| panic!("{id}: no such rule"));
            let examples = &pack.rules()[index].examples.matching;
            for text in of_rule {
                assert!(
                    texts.insert((id.clone(), text.clone())),
                    "{id}: {text} twice"
                );
                assert!(!examples.contains(text), "{id}: {text} is an example");
                let found = hits(&pack, &positives.case(name, text), &[]);
                if found.iter().any(|&(rule, ..)| rule == index) {
                    missing
                        .entry(id.clone())
                        .and_modify(|left| *left = left.saturating_sub(1));
                } else {
                    writeln!(wrong, "missed: {id}: {text}").unwrap();
                }
            }
        }
    }
    println!(
        "{} positives of {} acting rules",
        texts.len(),
        missing.len()
    );
    missing.retain(|_, left| *left > 0);
    for (id, left) in missing {
        writeln!(wrong, "{left} positives too few: {id}").unwrap();
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The page that judges each hit.
const REPORT: &str = "docs/packs/false-positives.md";

/// The judgement of a new hit.
const UNJUDGED: &str = "not judged";

#[test]
fn every_hit_in_ordinary_output_is_judged_and_few_are_false() {
    let Some(corpus) = skip::corpus() else {
        return;
    };
    let pack = all_packs();
    let known = fs::read_to_string(folder(REPORT)).unwrap_or_default();
    let verdicts: BTreeMap<&str, &str> = known
        .lines()
        .filter_map(|line| line.strip_suffix(" |")?.rsplit_once(" | "))
        .collect();
    let streams = recordings(&corpus);
    let count = streams.len();
    let (mut parts, mut acted, mut wrong) = (0, 0, 0);
    let mut rows = String::new();
    for Recording {
        name,
        parts: recorded,
    } in streams
    {
        for part in recorded {
            parts += 1;
            let case = Case::from(part);
            for (rule, end, _) in hits(&pack, &case, &[]) {
                let rule = &pack.rules()[rule];
                let row = format!(
                    "| `{}` | {} | {name} | `{}`",
                    rule.id,
                    rule.action.name(),
                    excerpt(&case.bytes, end)
                );
                let verdict = verdicts.get(row.as_str()).copied().unwrap_or(UNJUDGED);
                acted += usize::from(acts(rule));
                wrong += usize::from(acts(rule) && !verdict.starts_with("right"));
                writeln!(rows, "{row} | {verdict} |").unwrap();
            }
        }
    }
    println!(
        "{} streams, {parts} parts, {acted} act, {wrong} wrongly",
        count
    );
    assert!(count > 1000, "{} streams", count);
    let text = format!(
        "# What the packs find in ordinary output\n\n\
        All built-in packs over {} recorded streams and transcripts of coding and chat models ({parts} parts). Each hit\n\
        stands here with a verdict; `tests/core/packs.rs` makes the rows and fails where one is not judged, or where abort,\n\
        retry and redact together are wrong in one of 1,000 streams or more.\n\n\
        Hits that abort, retry or redact: {acted}; wrongly: {wrong}.\n\n\
        | rule | action | where | what | verdict |\n|---|---|---|---|---|\n{rows}",
        count
    );
    check_page(REPORT, &text);
    assert!(!rows.contains(UNJUDGED), "hits that nobody judged:\n{rows}");
    assert!(wrong * 1000 < count, "{wrong} of {}", count);
}

/// Text that a rule holds is shown a delta later. A pattern that any word can begin would hold nearly every delta.
#[test]
fn few_words_are_held() {
    let pages = ["authoring", "harness", "integrate", "policy", "trust"];
    let pages = pages.map(|page| fs::read_to_string(folder(&format!("docs/{page}.md"))).unwrap());
    // Most models send a word with the blank before it.
    let words: Vec<String> = pages
        .iter()
        .flat_map(|page| page.split(' '))
        .map(|word| format!(" {word}"))
        .collect();
    let held_of = |pack: &Pack| {
        let mut conversation = Conversation::new(pack);
        let mut turn = conversation.turn("");
        let mut attempt = turn.attempt();
        let (mut pushed, mut taken, mut held) = (0, 0, 0);
        for word in &words {
            let _ = attempt.push(PART, word.as_bytes());
            pushed += word.len();
            taken += attempt.take(PART).len();
            held += usize::from(taken < pushed);
        }
        // Redacted text has another length.
        assert!(attempt.decisions().is_empty(), "{:?}", attempt.decisions());
        held
    };
    // An e-mail address can begin with any word, so personal data cannot be redacted without holding most of them.
    let all = all_packs();
    let holding = all
        .rules()
        .iter()
        .filter(|rule| rule.holds() && !rule.id.starts_with("std/pii/"));
    let rules: Vec<Rule> = holding.cloned().collect();
    let count = words.len();
    assert!(
        count > 10_000 && rules.len() > 50,
        "{count} words, {} rules",
        rules.len()
    );
    let pack = |rules: &[Rule]| {
        let add = |builder: PackBuilder, rule: &Rule| builder.rule(rule.clone());
        rules.iter().fold(Pack::builder(), add).build().unwrap()
    };
    for rule in &rules {
        let held = held_of(&pack(std::slice::from_ref(rule)));
        assert!(held * 10 < count, "{}: {held} of {count} words", rule.id);
    }
    let held = held_of(&pack(&rules));
    println!("{held} of {count} words are held");
    assert!(held * 3 < count, "{held} of {count} words");
}

/// Returns at most 40 characters before `end` as one line of a table.
fn excerpt(bytes: &[u8], end: u64) -> String {
    let before = String::from_utf8_lossy(&bytes[..bytes.len().min(end as usize)]).into_owned();
    let first = before.chars().count().saturating_sub(40);
    let shown = before.chars().skip(first).map(|char| match char {
        '\n' | '\r' | '\t' => ' ',
        '|' | '`' => '¦',
        char => char,
    });
    shown.collect::<String>().trim().to_owned()
}

/// Compares the page with the expected text, or writes it.
fn check_page(path: &str, text: &str) {
    let file = folder(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == text,
        "{path} differs; UPDATE_GOLDEN=1 rewrites it:\n{text}"
    );
}

/// Returns the example on each channel of the rule, in each form in which it may be written there.
fn cases(rule: &Rule, text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for &channel in &rule.on {
        if channel == Channel::ToolInput {
            cases.extend(inputs(rule, text));
        } else {
            let tool = rule
                .tools
                .first()
                .filter(|_| channel == Channel::ToolOutput);
            cases.push(Case {
                channel,
                tool: tool.map(|glob| instance(glob)),
                bytes: text.into(),
            });
        }
    }
    cases
}

/// Returns the example as the value of the first argument, in a call of the first tool on the first path.
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
        add(stream.set_tool(PART, tool, "call"));
    }
    let mut start = 0;
    for &cut in cuts.iter().chain([&case.bytes.len()]) {
        add(stream.push(PART, &case.bytes[start..cut]));
        start = cut;
    }
    add(stream.close(PART));
    found
}

/// Returns a name that the glob matches.
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

/// In text of a script without ASCII letters, a match of some pattern is always in progress. A secret in it is reported
/// before the reader could copy it, also where a stretch of 64 KiB ends.
#[test]
fn a_secret_is_found_soon_in_text_of_any_script() {
    let pack = all_packs();
    let secret = ["aB38Q~9fKd2LmZp0RtYw7", "VcXn5HsGjE1uIoTq4w"].concat();
    let scripts = [
        "这个函数读取文件并返回结果。",
        "эта функция читает файл и ",
        "تقرأ هذه الدالة ملفا ",
        "the function reads a file; ",
    ];
    for script in scripts {
        for before in [50, 65_490, 65_510, 131_020] {
            let mut text = script.repeat(before / script.len() + 1);
            text.truncate(text.floor_char_boundary(before));
            text += &format!(" {secret} ");
            let end = text.len() as u64 - 1;
            text += &script.repeat(40);
            let mut stream = pack.stream();
            stream.open(PartId(0), Channel::Text);
            let mut hits = Vec::new();
            for delta in text.as_bytes().chunks(7) {
                hits.extend_from_slice(&stream.push(PartId(0), delta));
            }
            let mut found = hits
                .iter()
                .filter(|hit| pack.rule(hit.rule).id == "std/secrets/azure-client-secret");
            let hit = found.next().unwrap_or_else(|| panic!("{script} {before}"));
            assert_eq!(found.next(), None);
            assert!(
                hit.decided <= end + 200,
                "{script} {before}: {hit:?}, not {end}"
            );
        }
    }
}
