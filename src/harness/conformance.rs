//! The behaviour of a harness as cases, and the driver that runs them against a host.
//!
//! A case has rules, inputs (the user's prompt, the events of a reply, the outputs of tools) and the steps that a
//! harness takes. The format is described in `docs/conformance.md`. To check your own loop, implement [`Host`] in a
//! test, and call [`run`] with each [`Profile`] that the loop supports. `examples/host.rs` is a whole host of the
//! profile [`Core`](Profile::Core).
//!
//! # Example: a host that forwards every delta fails, by name
//! ```
//! use ttsr::Event;
//! use ttsr::harness::conformance::{CaseStep, ConformanceCase, Host, Profile, run};
//! struct Forwards;
//! impl Host for Forwards {
//!     fn play(&mut self, case: &ConformanceCase) -> Vec<CaseStep> {
//!         let deltas = case.inputs.iter().filter_map(|input| match input.event() {
//!             Some(Event::Delta { part, bytes }) => Some((part.0, String::from_utf8_lossy(&bytes).into_owned())),
//!             _ => None,
//!         });
//!         deltas.map(|(part, text)| CaseStep::new("forward", part).with("text", text)).collect()
//!     }
//! }
//! let report = run(Profile::Core, &mut Forwards);
//! let failure = report.failures.iter().find(|failure| failure.case == "core_a_match_is_redacted").unwrap();
//! assert!(failure.expected.contains(r#"text = "It is [redacted].""#));
//! assert!(failure.actual.contains(r#"text = "It is key-1234.""#));
//! assert!(report.to_string().contains("core_a_match_is_redacted"));
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Channel, Event, Pack, PartId};

/// The version of the format of the cases.
pub const FORMAT: u32 = 1;

const FILES: [&str; 9] = [
    include_str!("conformance/core.toml"),
    include_str!("conformance/abort.toml"),
    include_str!("conformance/stream.toml"),
    include_str!("conformance/boundary.toml"),
    include_str!("conformance/handoff.toml"),
    include_str!("conformance/fallback.toml"),
    include_str!("conformance/server.toml"),
    include_str!("conformance/progress.toml"),
    include_str!("conformance/channel.toml"),
];

/// The kinds of steps that are compared in the profile [`Core`](Profile::Core).
const CORE_KINDS: [&str; 6] = ["send", "request", "forward", "run", "tool-result", "end"];

/// The kinds of steps that are compared only if the case asks for them.
const OPTIONAL_KINDS: [&str; 6] = [
    "decision",
    "step-started",
    "step-finished",
    "registered",
    "called",
    "verdict",
];

/// A set of cases that a host can support on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Profile {
    /// The cases for every host: no text and no call leaves that a rule holds, redacts or cuts, and guidance is
    /// delivered once. Only requests, published text, calls that run, results of tools and ends are compared.
    Core,
    /// A whole loop: the order of all steps, time limits, reports of aborts, and events for logs.
    Loop,
    /// A loop with hooks.
    Hooks,
    /// Tool calls that rules review or block, messages of rules around whole texts, and handoff to a new session.
    Tools,
    /// A client of a running server.
    Server,
    /// Progress and questions in a chat.
    Chat,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 6] = [
        Profile::Core,
        Profile::Loop,
        Profile::Hooks,
        Profile::Tools,
        Profile::Server,
        Profile::Chat,
    ];

    /// Returns the name used in the cases: `core`, `loop`, `hooks`, `tools`, `server` or `chat`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Core => "core",
            Profile::Loop => "loop",
            Profile::Hooks => "hooks",
            Profile::Tools => "tools",
            Profile::Server => "server",
            Profile::Chat => "chat",
        }
    }
}

/// A harness under test.
pub trait Host {
    /// Plays the inputs of a case in a new conversation under [`ConformanceCase::pack`], and returns the steps that
    /// follow, in order. Kinds of steps that the profile does not compare may be left out.
    fn play(&mut self, case: &ConformanceCase) -> Vec<CaseStep>;
}

impl<H: Host + ?Sized> Host for &mut H {
    fn play(&mut self, case: &ConformanceCase) -> Vec<CaseStep> {
        (**self).play(case)
    }
}

/// One case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConformanceCase {
    /// The name. It begins with the row of `docs/harness.md` that the case covers, if there is one.
    pub name: String,
    /// The fault that a failure reveals.
    pub why: String,
    /// The profile.
    pub profile: Profile,
    /// The settings of the host, empty in the profile [`Core`](Profile::Core).
    pub settings: Map<String, Value>,
    /// The hooks to register, in order.
    pub hooks: Vec<Map<String, Value>>,
    /// The inputs, in order.
    pub inputs: Vec<CaseInput>,
    /// The name of a built-in pack, if the case has one.
    builtin: Option<String>,
    rules: String,
    also: Vec<String>,
    is_as_written: bool,
    never: Vec<String>,
    expected: Vec<Map<String, Value>>,
    /// The expected steps as they are written.
    expected_lines: String,
}

impl ConformanceCase {
    /// Returns the pack of the case.
    ///
    /// # Panics
    /// If the pack needs a feature with which the crate was not built.
    #[must_use]
    pub fn pack(&self) -> Pack {
        let pack = match &self.builtin {
            Some(name) => Pack::builtin(name),
            None if self.rules.is_empty() => Pack::builder().build(),
            None => Pack::from_toml(&format!("schema = 1\n[pack]\nname = \"t\"\n{}", self.rules)),
        };
        pack.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Returns the case with each delta cut into single bytes.
    fn in_single_bytes(&self) -> ConformanceCase {
        let cut = |input: &CaseInput| match input.event() {
            Some(Event::Delta { bytes, .. }) if bytes.len() > 1 => {
                let cut = bytes.into_iter().map(|byte| CaseInput {
                    table: input.table.clone(),
                    delta: Some(vec![byte]),
                });
                cut.collect()
            }
            _ => vec![input.clone()],
        };
        ConformanceCase {
            inputs: self.inputs.iter().flat_map(cut).collect(),
            ..self.clone()
        }
    }

    /// Returns true if the part is the input of a tool call.
    fn is_tool_input(&self, part: &Value) -> bool {
        let is_opened = |input: &CaseInput| {
            input.get("open") == Some(part) && input.text("channel") == Some("tool-input")
        };
        self.inputs.iter().any(is_opened)
    }

    /// Returns the steps that the case compares.
    fn compared(&self, mut steps: Vec<CaseStep>) -> Vec<CaseStep> {
        steps.retain(|step| {
            !OPTIONAL_KINDS.contains(&step.kind())
                || self.also.iter().any(|also| also == step.kind())
        });
        if self.profile != Profile::Core {
            return steps;
        }
        let has_request = self
            .expected
            .iter()
            .any(|step| step.contains_key("request"));
        steps.retain(|step| match step.kind() {
            // A host may publish tool input while it is written or once it is complete; it is compared where it runs.
            "forward" => !self.is_tool_input(step.value()),
            "request" => has_request,
            kind => CORE_KINDS.contains(&kind),
        });
        joined_by_part(steps)
    }
}

/// Joins the forwards of each part between two other steps, in the order in which the parts appear.
fn joined_by_part(steps: Vec<CaseStep>) -> Vec<CaseStep> {
    let mut joined: Vec<CaseStep> = Vec::new();
    let mut first = 0;
    for step in steps {
        if step.kind() != "forward" {
            joined.push(step);
            first = joined.len();
            continue;
        }
        let known = joined[first..]
            .iter_mut()
            .find(|known| known.value() == step.value());
        match known {
            Some(known) => known.append_text(&step),
            None if step.text().is_empty() => {}
            None => joined.push(step),
        }
    }
    joined
}

/// One input of a case: keys and values, in the words of `docs/conformance.md`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct CaseInput {
    table: Map<String, Value>,
    /// The bytes of a delta that was cut out of a longer one.
    delta: Option<Vec<u8>>,
}

impl From<Map<String, Value>> for CaseInput {
    fn from(table: Map<String, Value>) -> CaseInput {
        CaseInput { table, delta: None }
    }
}

impl CaseInput {
    /// Returns true if the input has the key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.table.get(key)
    }

    /// Returns the value of a key whose value is a text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Returns the value of a key whose value is a number.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    /// Returns the event of the reply, if the input is one: `open`, `named`, `delta`, `snapshot`, `close`, `finish`,
    /// `error` and `restart`. The bytes of a delta need not be whole characters.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        let part = |key| Some(PartId(u32::try_from(self.number(key)?).ok()?));
        let words = |key| self.text(key).unwrap_or_default().to_owned();
        let owned = |key| self.text(key).map(str::to_owned);
        Some(if let Some(part) = part("delta") {
            let bytes = self.delta.clone();
            Event::Delta {
                part,
                bytes: bytes.unwrap_or_else(|| words("text").into_bytes()),
            }
        } else if let Some(part) = part("open") {
            Event::PartStart {
                part,
                name: words("name"),
                channel: Channel::from_name(self.text("channel")?)?,
                tool: owned("tool"),
                call: owned("call"),
            }
        } else if let Some(part) = part("named") {
            let (tool, call) = (words("tool"), owned("call"));
            Event::Tool { part, tool, call }
        } else if let Some(part) = part("close") {
            Event::PartEnd { part }
        } else if let Some(part) = part("snapshot") {
            let bytes = words("text").into_bytes();
            Event::Snapshot { part, bytes }
        } else if let Some(reason) = owned("finish") {
            Event::Finish { reason }
        } else if let Some(kind) = owned("error") {
            let message = words("message");
            Event::Error { kind, message }
        } else if self.has("restart") {
            Event::Restart
        } else {
            return None;
        })
    }
}

/// One step of a host: keys and values, in the words of `docs/conformance.md`. The first key is the kind of the step.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseStep(Vec<(String, Value)>);

impl CaseStep {
    /// Returns a step of a kind, with the value of that key.
    ///
    /// # Example: published text
    /// ```
    /// use ttsr::harness::conformance::CaseStep;
    /// let step = CaseStep::new("forward", 0).with("text", "Hello");
    /// assert_eq!(step.to_string(), r#"{ forward = 0, text = "Hello" }"#);
    /// ```
    pub fn new(kind: impl Into<String>, value: impl Into<Value>) -> CaseStep {
        CaseStep(vec![(kind.into(), value.into())])
    }

    /// Adds a key. A null value is left out.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> CaseStep {
        let value = value.into();
        if !value.is_null() {
            self.0.push((key.into(), value));
        }
        self
    }

    /// Returns the kind of the step.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.first().map_or("", |(kind, _)| kind)
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let known = self.0.iter().find(|(known, _)| known == key);
        known.map(|(_, value)| value)
    }

    /// Returns the value of the first key.
    fn value(&self) -> &Value {
        self.0.first().map_or(&Value::Null, |(_, value)| value)
    }

    fn text(&self) -> &str {
        self.get("text").and_then(Value::as_str).unwrap_or_default()
    }

    fn append_text(&mut self, next: &CaseStep) {
        let joined = self.text().to_owned() + next.text();
        self.0.retain(|(key, _)| key != "text");
        self.0.push(("text".to_owned(), Value::from(joined)));
    }

    /// Returns true if the step has every key of `wanted` with a value that fits.
    fn fits(&self, wanted: &Map<String, Value>) -> bool {
        let mut pairs = wanted.iter();
        pairs.all(|(key, wanted)| self.get(key).is_some_and(|given| fits(given, wanted)))
    }
}

impl<K: Into<String>> FromIterator<(K, Value)> for CaseStep {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(pairs: I) -> CaseStep {
        let pairs = pairs.into_iter().map(|(key, value)| (key.into(), value));
        CaseStep(pairs.filter(|(_, value)| !value.is_null()).collect())
    }
}

/// A line of TOML.
impl fmt::Display for CaseStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.0.iter();
        let pairs = pairs.map(|(key, value)| format!("{key} = {}", in_toml(value)));
        write!(f, "{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
    }
}

fn in_toml(value: &Value) -> String {
    match value {
        Value::Object(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, value)| format!("{key} = {}", in_toml(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(in_toml).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns true if `given` has everything in `wanted`. Lists must have equal lengths. For a text, `wanted` may give its
/// start, its end and the pieces that it contains in order.
fn fits(given: &Value, wanted: &Value) -> bool {
    match (given, wanted) {
        (Value::String(given), Value::Object(wanted)) => {
            let words = |key: &str| wanted.get(key).and_then(Value::as_str).unwrap_or_default();
            let pieces = wanted.get("holds").and_then(Value::as_array);
            let mut rest = Some(given.as_str());
            for piece in pieces.into_iter().flatten().filter_map(Value::as_str) {
                rest = rest.and_then(|rest| Some(rest.split_once(piece)?.1));
            }
            let is_framed = given.starts_with(words("starts")) && given.ends_with(words("ends"));
            rest.is_some() && is_framed
        }
        (Value::Object(given), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| given.get(key).is_some_and(|given| fits(given, wanted))),
        (Value::Array(given), Value::Array(wanted)) => {
            given.len() == wanted.len() && given.iter().zip(wanted).all(|(a, b)| fits(a, b))
        }
        (given, wanted) => given == wanted,
    }
}

/// The result of the cases of a profile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConformanceReport {
    /// The profile.
    pub profile: Profile,
    /// The number of cases that hold.
    pub passed: usize,
    /// The cases that fail, in order.
    pub failures: Vec<CaseFailure>,
}

impl ConformanceReport {
    /// Returns true if every case of the profile holds.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }
}

impl fmt::Display for ConformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.passed + self.failures.len();
        write!(
            f,
            "{}: {} of {all} cases hold",
            self.profile.name(),
            self.passed
        )?;
        for failure in &self.failures {
            write!(f, "\n{failure}")?;
        }
        Ok(())
    }
}

/// A case that fails.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CaseFailure {
    /// The name of the case.
    pub case: String,
    /// The fault that the failure reveals.
    pub why: String,
    /// True if the case holds as written and fails once its deltas are cut into single bytes.
    pub is_in_single_bytes: bool,
    /// The expected steps, one a line, and the text that must not be published and is.
    pub expected: String,
    /// The steps of the host, one a line.
    pub actual: String,
}

impl fmt::Display for CaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let split = match self.is_in_single_bytes {
            true => " (in single bytes)",
            false => "",
        };
        let CaseFailure {
            case,
            why,
            expected,
            actual,
            ..
        } = self;
        write!(
            f,
            "{case}{split}: {why}\n  expected\n{expected}  actual\n{actual}"
        )
    }
}

/// Returns every case, in the order of the files.
///
/// # Panics
/// Never: the cases are part of the crate, and a test reads them.
#[must_use]
pub fn cases() -> Vec<ConformanceCase> {
    FILES.into_iter().flat_map(read).collect()
}

/// Runs the cases of a profile against a host.
pub fn run(profile: Profile, host: &mut impl Host) -> ConformanceReport {
    let mut report = ConformanceReport {
        profile,
        passed: 0,
        failures: Vec::new(),
    };
    for case in cases().iter().filter(|case| case.profile == profile) {
        match check(case, host) {
            None => report.passed += 1,
            Some(failure) => report.failures.push(failure),
        }
    }
    report
}

/// Runs one case against a host, as written and, unless the case is about the cuts between deltas, with its deltas cut
/// into single bytes. Returns the failure, if there is one.
pub fn check(case: &ConformanceCase, host: &mut impl Host) -> Option<CaseFailure> {
    let failure = |is_in_single_bytes, expected: String, given: &[CaseStep]| CaseFailure {
        case: case.name.clone(),
        why: case.why.clone(),
        is_in_single_bytes,
        expected,
        actual: lines(given),
    };
    let given = case.compared(host.play(case));
    if let Some(never) = leak(case, &given) {
        return Some(failure(false, never, &given));
    }
    let mut pairs = given.iter().zip(&case.expected);
    if given.len() != case.expected.len() || !pairs.all(|(given, wanted)| given.fits(wanted)) {
        return Some(failure(false, case.expected_lines.clone(), &given));
    }
    let split = case.in_single_bytes();
    if case.is_as_written || split.inputs == case.inputs {
        return None;
    }
    let in_bytes = case.compared(host.play(&split));
    if let Some(never) = leak(case, &in_bytes) {
        return Some(failure(true, never, &in_bytes));
    }
    let (wanted, in_bytes) = (without_splits(&given), without_splits(&in_bytes));
    (wanted != in_bytes).then(|| failure(true, lines(&wanted), &in_bytes))
}

/// Returns the expected steps and the first text that must not be published and is, in the joined text of any part.
fn leak(case: &ConformanceCase, given: &[CaseStep]) -> Option<String> {
    let mut published: BTreeMap<String, String> = BTreeMap::new();
    for step in given.iter().filter(|step| step.kind() == "forward") {
        *published.entry(step.value().to_string()).or_default() += step.text();
    }
    let is_leaked = |never: &&String| published.values().any(|text| text.contains(*never));
    let leaked = case.never.iter().find(is_leaked)?;
    let steps = &case.expected_lines;
    Some(format!(
        "{steps}    and no published text contains {leaked:?}\n"
    ))
}

fn lines(steps: &[CaseStep]) -> String {
    steps.iter().map(|step| format!("    {step},\n")).collect()
}

/// Returns the steps without what depends on the cuts between deltas: consecutive forwards of a part are joined, and
/// holds, calls of hooks and the text of an attempt before its cut are left out.
fn without_splits(steps: &[CaseStep]) -> Vec<CaseStep> {
    let mut joined: Vec<CaseStep> = Vec::new();
    // Messages about the text precede the delta that caused them, wherever that delta begins.
    let mut messages: Vec<CaseStep> = Vec::new();
    let is_cut = steps
        .iter()
        .any(|step| step.kind() == "aborted" || step.value() == "aborted");
    for step in steps {
        match step.kind() {
            "hold" | "called" => {}
            "open" | "forward" | "close" | "aborted" | "retract" if is_cut => {}
            "inject" | "notify" => messages.push(step.clone()),
            // An attempt that is retried was cut.
            "send" => {
                while joined.last().is_some_and(|last| last.kind() == "forward") {
                    joined.pop();
                }
                joined.push(step.clone());
            }
            "forward" => match joined.last_mut() {
                Some(last) if last.kind() == "forward" && last.value() == step.value() => {
                    last.append_text(step);
                }
                _ => joined.push(step.clone()),
            },
            _ => joined.push(step.clone()),
        }
    }
    joined.append(&mut messages);
    joined
}

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    format: u32,
    /// The profile of the cases that name none.
    profile: Profile,
    /// The rules of the cases without rules of their own.
    #[serde(default)]
    rules: String,
    case: Vec<WrittenCase>,
}

/// A case as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenCase {
    name: String,
    why: String,
    profile: Option<Profile>,
    rules: Option<String>,
    pack: Option<String>,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default)]
    hooks: Vec<Map<String, Value>>,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    as_written: bool,
    #[serde(default)]
    never: Vec<String>,
    r#in: Vec<CaseInput>,
    #[serde(default)]
    out: Vec<Map<String, Value>>,
}

fn read(text: &str) -> Vec<ConformanceCase> {
    let file: CaseFile = match toml::from_str(text) {
        Ok(file) => file,
        Err(error) => panic!("the cases of the crate cannot be read: {error}"),
    };
    assert_eq!(
        file.format, FORMAT,
        "the cases of the crate have another format"
    );
    let (profile, rules) = (file.profile, file.rules);
    let cases = file.case.into_iter().map(|written| ConformanceCase {
        expected_lines: expected_lines(text, &written.name),
        name: written.name,
        why: written.why,
        profile: written.profile.unwrap_or(profile),
        settings: written.settings,
        hooks: written.hooks,
        inputs: written.r#in,
        builtin: written.pack,
        rules: written.rules.unwrap_or_else(|| rules.clone()),
        also: written.also,
        is_as_written: written.as_written,
        never: written.never,
        expected: written.out,
    });
    cases.collect()
}

/// Returns the expected steps of a case as the file has them, where the kind of a step is its first key. A parsed table
/// does not keep the order of its keys.
fn expected_lines(file: &str, name: &str) -> String {
    let (_, case) = file
        .split_once(&format!("name = \"{name}\""))
        .unwrap_or_default();
    let (_, steps) = case.split_once("\nout = [\n").unwrap_or_default();
    let end = steps.find("\n]").map_or(steps.len(), |end| end + 1);
    steps[..end].to_owned()
}
