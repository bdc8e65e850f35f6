//! Measures the built-in packs on the test data of other projects and on recorded replies.
//!
//! `TTSR_CORPUS=… cargo run --release --example packs [-- [--pack NAME]… [--misses FAMILY] [--hits] [--write FILE]]`
//!
//! Reads `shell.jsonl`, `secrets.jsonl.gz` and `code.jsonl` of the folder `peers-data` beside the corpus, and the
//! recordings of the corpus. Prints a table, and for each family of commands, kind of secret and rule of code the number
//! of texts caught. `--pack` names a built-in pack, a rule file or a folder; without it
//! all built-in packs but `std/pii` are loaded, which is off by default. `--misses FAMILY` lists the texts of the families whose
//! names contain that word and that no rule caught; `--hits` lists the safe and clean texts that were hit, each with the
//! rules. `--write FILE` writes the number of texts that each rule hits, for `ttsr docs --measured`. Exits with an error if the data cannot be read, and never because of a score.
//!
//! # Labels
//!
//! The labels are the policies of the other projects (the *peers*), not the truth.
//!
//! - A command is *dangerous* if a peer refuses it and none admits it, *safe* if every peer that names it admits it. A
//!   command that peers disagree about, and one about which they only ask, is in no row.
//! - Only shellfirm grades what it refuses (`Low` to `Critical`): its highest severity is `Critical`. The tests of the other
//!   peers say refused or admitted, and Dippy and Cline only ask; so these need a second peer for the first row.
//! - A secret is counted if two peers test for its kind. A text is clean if a peer says that it holds no secret, and none
//!   says that it does.
//!
//! A command is read as the argument `command` of a call of `bash`, a secret as text, code as the argument `content` of a
//! call of `write` with the path that its linter gave it. A command or a secret is caught by any rule that does more than
//! observe, also by one that only warns; a safe command is *cut* if a rule retries or aborts. Code is caught only by the
//! rule that the fixture names, also if that rule only observes.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use ttsr::pack::Date;
use ttsr::{Action, Channel, Pack, PartId, Rule};
use ttsr_testing::evasions::EVASIONS;
use ttsr_testing::recordings::recordings;
use ttsr_testing::skip;

const PART: PartId = PartId(0);

/// The pack that is off by default. What it replaces is counted by itself.
const PERSONAL_DATA: &str = "std/pii";

/// The evasions in an argument that no tool runs as a command, so no built-in rule reads it.
const NOT_RUN: [&str; 1] = ["in an object in an array"];

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn Error>> {
    let options = Options::from_arguments(std::env::args().skip(1))?;
    let pack = options.load()?;
    let Some(corpus) = skip::corpus() else {
        return Ok(());
    };
    let peers = corpus.join("../peers-data");
    if !peers.is_dir() {
        skip::test("there is no folder `peers-data` beside the corpus");
        return Ok(());
    }
    println!(
        "{} rules of {} packs\n",
        pack.rules().len(),
        pack.headers().len()
    );
    let mut report = Report {
        pack,
        options,
        rows: Vec::new(),
        texts: TextHits::default(),
        hits: BTreeMap::new(),
    };
    report.shell(&peers.join("shell.jsonl"))?;
    report.evasions();
    report.secrets(&peers.join("secrets.jsonl.gz"))?;
    report.code(&peers.join("code.jsonl"))?;
    report.recordings(&corpus);
    report.personal_data(&corpus, &peers)?;
    println!("| | today |\n|---|---|");
    for (name, value) in &report.rows {
        println!("| {name} | {value} |");
    }
    if let Some(file) = &report.options.write {
        fs::write(file, report.numbers())?;
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    packs: Vec<String>,
    misses: Option<String>,
    lists_hits: bool,
    write: Option<PathBuf>,
}

impl Options {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options::default();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or(format!("`{argument}` needs a value"))
            };
            match argument.as_str() {
                "--pack" => options.packs.push(value()?),
                "--misses" => options.misses = Some(value()?.to_lowercase()),
                "--hits" => options.lists_hits = true,
                "--write" => options.write = Some(value()?.into()),
                _ => {
                    return Err(format!(
                        "there is no option `{argument}`: --pack NAME, --misses FAMILY, --hits, --write FILE"
                    ));
                }
            }
        }
        Ok(options)
    }

    fn load(&self) -> Result<Pack, ttsr::LoadError> {
        let builder = match self.packs.as_slice() {
            [] => Pack::builtin_names()
                .filter(|name| *name != PERSONAL_DATA)
                .fold(Pack::builder(), |packs, name| packs.builtin(name)),
            named => named.iter().fold(Pack::builder(), |packs, name| {
                match Pack::builtin_names().any(|builtin| builtin == name) {
                    true => packs.builtin(name),
                    false => packs.file(name),
                }
            }),
        };
        builder.build()
    }

    fn lists_misses_of(&self, family: &str) -> bool {
        let wanted = self.misses.as_deref();
        wanted.is_some_and(|word| family.to_lowercase().contains(word))
    }
}

/// The judgement of one peer.
#[derive(Deserialize)]
struct Label {
    peer: String,
    expected: String,
    level: Option<String>,
}

#[derive(Deserialize)]
struct ShellCommand {
    command: String,
    expected: String,
    category: String,
    labels: Vec<Label>,
}

impl ShellCommand {
    /// Returns true if two peers refuse the command, or one at the highest of its severities.
    fn is_gravely_dangerous(&self) -> bool {
        let refused = self.labels.iter().filter(|it| it.expected == "dangerous");
        let peers: BTreeSet<&str> = refused.clone().map(|it| it.peer.as_str()).collect();
        let mut levels = refused.filter_map(|it| it.level.as_deref());
        peers.len() >= 2 || levels.any(|level| level == "Critical")
    }
}

#[derive(Deserialize)]
struct SecretText {
    text: String,
    expected: String,
    kind: String,
    labels: Vec<Label>,
}

#[derive(Deserialize)]
struct CodeText {
    rule: String,
    text: String,
    expected: String,
    path: String,
}

/// The number of texts of a family, and of those that a rule hit.
#[derive(Clone, Copy, Default)]
struct Share {
    hit: usize,
    total: usize,
}

impl Share {
    fn add(&mut self, is_hit: bool) {
        self.hit += usize::from(is_hit);
        self.total += 1;
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Share { hit, total } = *self;
        let percent = 100.0 * hit as f64 / total.max(1) as f64;
        write!(f, "{percent:.1} % ({hit} of {total})")
    }
}

/// The kind of a measured text.
#[derive(Clone, Copy)]
enum TextKind {
    Dangerous,
    Clean,
    Recording,
}

/// Numbers of texts by their kind.
#[derive(Clone, Copy, Default)]
struct TextHits([usize; 3]);

impl TextHits {
    fn add(&mut self, kind: TextKind) {
        self.0[kind as usize] += 1;
    }
}

struct Report {
    pack: Pack,
    options: Options,
    /// The rows of the table: name and value.
    rows: Vec<(&'static str, String)>,
    /// The number of measured texts.
    texts: TextHits,
    /// The number of texts that each rule hits.
    hits: BTreeMap<String, TextHits>,
}

impl Report {
    fn shell(&mut self, file: &Path) -> Result<(), Box<dyn Error>> {
        let mut grave = Share::default();
        let mut dangerous = Share::default();
        let (mut cut, mut aborts) = (Share::default(), 0);
        let mut families: BTreeMap<String, Share> = BTreeMap::new();
        for it in json_lines::<ShellCommand>(&fs::read_to_string(file)?)? {
            let input = json!({ "command": it.command }).to_string();
            let kind = match it.expected.as_str() {
                "dangerous" => TextKind::Dangerous,
                "safe" => TextKind::Clean,
                _ => continue,
            };
            let rules = rules_hitting(
                &self.pack,
                Channel::ToolInput,
                Some("bash"),
                input.as_bytes(),
            );
            count(&mut self.hits, &mut self.texts, kind, &rules);
            let rules = acting(rules);
            match kind {
                TextKind::Dangerous => {
                    let is_hit = !rules.is_empty();
                    dangerous.add(is_hit);
                    if it.is_gravely_dangerous() {
                        grave.add(is_hit);
                    }
                    families.entry(it.category.clone()).or_default().add(is_hit);
                    self.list_miss(is_hit, &it.category, &it.command);
                }
                _ => {
                    cut.add(rules.iter().any(|rule| cuts(rule)));
                    aborts += usize::from(rules.iter().any(|rule| rule.action == Action::Abort));
                    self.list_hit(&rules, &it.command);
                }
            }
        }
        self.rows.extend([
            (
                "shell: dangerous by two peers or by one at its highest severity, caught",
                grave.to_string(),
            ),
            (
                "shell: dangerous by any peer, caught",
                dangerous.to_string(),
            ),
            (
                "shell: safe by every peer that names it, cut",
                format!("{cut}, {aborts} by an abort"),
            ),
        ]);
        print_families("commands that a peer calls dangerous, caught", &families);
        Ok(())
    }

    /// Counts the evasions in a tool call that a built-in rule catches.
    fn evasions(&mut self) {
        let calls = EVASIONS.iter().filter(|it| it.sent.is_call());
        let (mut caught, mut by_design, mut not_run) = (Share::default(), 0, 0);
        let mut missed = Vec::new();
        for evasion in calls {
            let mut parts = evasion.sent.parts().into_iter();
            let is_hit = parts.any(|(channel, bytes)| {
                !acting(rules_hitting(&self.pack, channel, Some("bash"), &bytes)).is_empty()
            });
            caught.add(is_hit);
            if !is_hit && !evasion.by_design.is_empty() {
                by_design += 1;
            } else if !is_hit && NOT_RUN.contains(&evasion.name) {
                not_run += 1;
            } else if !is_hit {
                missed.push(evasion.name);
            }
        }
        println!("evasions that no built-in rule catches, though a tool may run them:");
        for name in &missed {
            println!("  {name}");
        }
        println!();
        let value = format!(
            "{caught}; {by_design} missed by design, {not_run} in an argument that no tool runs, {} others",
            missed.len()
        );
        self.rows.push(("evasions in tool calls, caught", value));
    }

    fn secrets(&mut self, file: &Path) -> Result<(), Box<dyn Error>> {
        let texts = json_lines::<SecretText>(&unpacked(file)?)?;
        let mut peers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for text in texts.iter().filter(|text| text.expected == "secret") {
            let of_kind = peers.entry(text.kind.clone()).or_default();
            of_kind.extend(text.labels.iter().map(|label| label.peer.clone()));
        }
        let [mut shared, mut any, mut clean] = [Share::default(); 3];
        let mut kinds: BTreeMap<String, Share> = BTreeMap::new();
        for SecretText {
            text,
            expected,
            kind,
            ..
        } in &texts
        {
            let text_kind = match expected.as_str() {
                "secret" => TextKind::Dangerous,
                "clean" => TextKind::Clean,
                _ => continue,
            };
            let rules = rules_hitting(&self.pack, Channel::Text, None, text.as_bytes());
            count(&mut self.hits, &mut self.texts, text_kind, &rules);
            let rules = acting(rules);
            let is_hit = !rules.is_empty();
            match text_kind {
                TextKind::Dangerous => {
                    any.add(is_hit);
                    if peers[kind].len() >= 2 {
                        shared.add(is_hit);
                        kinds.entry(kind.clone()).or_default().add(is_hit);
                        self.list_miss(is_hit, kind, text);
                    }
                }
                _ => {
                    clean.add(is_hit);
                    self.list_hit(&rules, text);
                }
            }
        }
        self.rows.extend([
            (
                "secrets of kinds with two peers, caught",
                shared.to_string(),
            ),
            ("secrets of any kind, caught", any.to_string()),
            ("secrets: clean texts hit", clean.to_string()),
        ]);
        print_families("secrets of kinds with two peers, caught", &kinds);
        Ok(())
    }

    fn code(&mut self, file: &Path) -> Result<(), Box<dyn Error>> {
        let [mut recall, mut clean] = [Share::default(); 2];
        let [mut of_rule, mut clean_of_rule]: [BTreeMap<String, Share>; 2] = Default::default();
        for it in json_lines::<CodeText>(&fs::read_to_string(file)?)? {
            let input = json!({ "file_path": it.path, "content": it.text }).to_string();
            let mut rules = rules_hitting(
                &self.pack,
                Channel::ToolInput,
                Some("write"),
                input.as_bytes(),
            );
            rules.retain(|rule| rule.id.rsplit('/').next() == Some(it.rule.as_str()));
            let is_hit = !rules.is_empty();
            let kind = match it.expected == "hit" {
                true => TextKind::Dangerous,
                false => TextKind::Clean,
            };
            count(&mut self.hits, &mut self.texts, kind, &rules);
            if it.expected == "hit" {
                recall.add(is_hit);
                of_rule.entry(it.rule.clone()).or_default().add(is_hit);
                self.list_miss(is_hit, &it.rule, &it.text);
            } else {
                clean.add(is_hit);
                clean_of_rule
                    .entry(it.rule.clone())
                    .or_default()
                    .add(is_hit);
                self.list_hit(&rules, &it.text);
            }
        }
        self.rows.extend([
            ("code: recall", recall.to_string()),
            ("code: clean texts hit", clean.to_string()),
        ]);
        print_families("code that a rule must hit, caught", &of_rule);
        print_families("code that a rule must not hit, hit", &clean_of_rule);
        Ok(())
    }

    /// Counts the recordings that a rule would cut, without those that `docs/packs/false-positives.md` judges right.
    fn recordings(&mut self, corpus: &Path) {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/packs/false-positives.md");
        let page = fs::read_to_string(page).unwrap_or_default();
        let is_right = |rule: &Rule, name: &str| {
            let row = format!("| `{}` | {} | {name} | ", rule.id, rule.action.name());
            page.lines()
                .any(|line| line.starts_with(&row) && line.contains("` | right"))
        };
        let (mut wrong, mut right) = (Share::default(), 0);
        for recording in recordings(corpus) {
            let mut hitting = BTreeMap::new();
            for part in &recording.parts {
                let rules =
                    rules_hitting(&self.pack, part.channel, part.tool.as_deref(), &part.bytes);
                hitting.extend(rules.into_iter().map(|rule| (rule.id.as_str(), rule)));
            }
            let rules: Vec<&Rule> = hitting.into_values().collect();
            count(&mut self.hits, &mut self.texts, TextKind::Recording, &rules);
            let cutting = rules.into_iter().filter(|rule| cuts(rule));
            let mut cutting: BTreeSet<&str> = cutting.map(|rule| rule.id.as_str()).collect();
            let total = cutting.len();
            cutting.retain(|id| {
                let rule = self.pack.find(id).map(|rule| self.pack.rule(rule));
                !rule.is_some_and(|rule| is_right(rule, &recording.name))
            });
            right += usize::from(total > cutting.len());
            wrong.add(!cutting.is_empty());
            for rule in cutting {
                println!("false cut: {} by {rule}", recording.name);
            }
        }
        let value = format!("{} of {}; {right} cut rightly", wrong.hit, wrong.total);
        self.rows.push(("recordings, false cuts", value));
    }

    /// Counts the recordings and the texts of the peers in which `std/pii` finds personal data. None is labelled, so
    /// `--hits` lists what is found, to be judged by a reader.
    fn personal_data(&mut self, corpus: &Path, peers: &Path) -> Result<(), Box<dyn Error>> {
        let of_people = Report {
            pack: Pack::builtin(PERSONAL_DATA)?,
            options: Options::default(),
            rows: Vec::new(),
            texts: TextHits::default(),
            hits: BTreeMap::new(),
        };
        let [mut recorded, mut of_peers] = [Share::default(); 2];
        for recording in recordings(corpus) {
            let mut is_hit = false;
            for part in &recording.parts {
                let tool = part.tool.as_deref();
                let rules = rules_hitting(&of_people.pack, part.channel, tool, &part.bytes);
                is_hit |= !rules.is_empty();
                self.list_hit(&rules, &String::from_utf8_lossy(&part.bytes));
            }
            recorded.add(is_hit);
        }
        let commands = json_lines::<ShellCommand>(&fs::read_to_string(peers.join("shell.jsonl"))?)?;
        let secrets = json_lines::<SecretText>(&unpacked(&peers.join("secrets.jsonl.gz"))?)?;
        let code = json_lines::<CodeText>(&fs::read_to_string(peers.join("code.jsonl"))?)?;
        let commands = commands.into_iter().map(|it| it.command);
        let secrets = secrets.into_iter().map(|it| it.text);
        for text in commands
            .chain(secrets)
            .chain(code.into_iter().map(|it| it.text))
        {
            let rules = rules_hitting(&of_people.pack, Channel::Text, None, text.as_bytes());
            of_peers.add(!rules.is_empty());
            self.list_hit(&rules, &text);
        }
        self.rows.extend([
            ("personal data: recordings hit", recorded.to_string()),
            (
                "personal data: texts of the peers hit",
                of_peers.to_string(),
            ),
        ]);
        Ok(())
    }

    /// Returns the file that `ttsr docs --measured` reads. It has the rules that read what was measured.
    fn numbers(&self) -> String {
        let TextHits([dangerous, clean, recordings]) = self.texts;
        let date = current_day();
        let mut text = format!(
            "# Written by `cargo run --release --example packs -- --write docs/packs/measured.toml`.\n\
             date = {date}\n\
             about = \"\"\"\n\
             each rule on {dangerous} commands, credentials and pieces of code that tests of other projects call dangerous, \
             {clean} that they call clean, and {recordings} recorded replies and transcripts of coding and chat models. The \
             labels are the policies of those projects. Of the pieces of code, a rule reads those of the same rule of a linter. A \
             rule that hits no dangerous text mostly has none in those tests.\n\
             \"\"\"\n\n[rules]\n"
        );
        let read = [Channel::Text, Channel::Reasoning, Channel::ToolInput];
        let rules = self.pack.rules().iter();
        for rule in rules.filter(|rule| rule.on.iter().any(|on| read.contains(on))) {
            let hits = self.hits.get(&rule.id).copied().unwrap_or_default();
            let TextHits([dangerous, clean, recordings]) = hits;
            text += &format!(
                "\"{}\" = {{ dangerous = {dangerous}, clean = {clean}, recordings = {recordings} }}\n",
                rule.id
            );
        }
        text
    }

    fn list_miss(&self, is_hit: bool, family: &str, text: &str) {
        if !is_hit && self.options.lists_misses_of(family) {
            println!("missed: {family}: {text:?}");
        }
    }

    fn list_hit(&self, rules: &[&Rule], text: &str) {
        if self.options.lists_hits && !rules.is_empty() {
            let rules: Vec<String> = rules
                .iter()
                .map(|rule| format!("{} ({})", rule.id, rule.action.name()))
                .collect();
            println!("hit: {}: {text:?}", rules.join(", "));
        }
    }
}

/// Returns the rules that a part hits.
fn rules_hitting<'p>(
    pack: &'p Pack,
    channel: Channel,
    tool: Option<&str>,
    text: &[u8],
) -> Vec<&'p Rule> {
    let mut stream = pack.stream();
    let mut rules = BTreeSet::new();
    stream.open(PART, channel);
    if let Some(tool) = tool {
        rules.extend(
            stream
                .set_tool(PART, tool, "call")
                .iter()
                .map(|hit| hit.rule),
        );
    }
    rules.extend(stream.push(PART, text).iter().map(|hit| hit.rule));
    rules.extend(stream.finish().iter().map(|hit| hit.rule));
    rules.into_iter().map(|rule| pack.rule(rule)).collect()
}

/// Returns the rules that do more than observe.
fn acting(mut rules: Vec<&Rule>) -> Vec<&Rule> {
    rules.retain(|rule| rule.action > Action::Observe);
    rules
}

/// Counts a text and the rules that hit it.
fn count(
    hits: &mut BTreeMap<String, TextHits>,
    texts: &mut TextHits,
    kind: TextKind,
    rules: &[&Rule],
) {
    texts.add(kind);
    for rule in rules {
        hits.entry(rule.id.clone()).or_default().add(kind);
    }
}

/// Returns true if the rule ends the reply.
fn cuts(rule: &Rule) -> bool {
    matches!(rule.action, Action::Retry | Action::Abort)
}

fn print_families(title: &str, families: &BTreeMap<String, Share>) {
    println!("{title}:");
    for (name, Share { hit, total }) in families {
        println!("  {hit:4} of {total:4}  {name}");
    }
    println!();
}

fn json_lines<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, serde_json::Error> {
    text.lines().map(serde_json::from_str).collect()
}

/// Returns the text of a file in gzip format, unpacked by `gzip`.
fn unpacked(file: &Path) -> Result<String, Box<dyn Error>> {
    let output = Command::new("gzip").arg("-dc").arg(file).output()?;
    if !output.status.success() {
        let file: PathBuf = file.into();
        return Err(format!("gzip cannot read {}", file.display()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the current day in UTC, as in `2027-01-31`; the start of 1970 if the system's clock is wrong.
fn current_day() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let day = Date::from_unix_seconds(since.as_secs());
    day.map_or_else(|| "1970-01-01".to_owned(), |day| day.to_string())
}
