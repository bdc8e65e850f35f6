//! The behaviour of the loop as data, in the format of `docs/conformance.md`.
//!
//! Each case runs as written and with its deltas cut into single bytes; the joined output must be the same.
//! `UPDATE_GOLDEN=1` writes the steps into the files: review the difference.

mod channel;
#[cfg(feature = "opencode")]
mod client;
mod foreground;
mod given;
mod second_session;
#[cfg(feature = "opencode")]
mod steps;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ttsr_testing::skip;

use serde::Deserialize;
use serde_json::{Value, json};
use ttsr::harness::consult::{ConsultOutcome, Consultation};
use ttsr::harness::fallback::Chains;
use ttsr::harness::{
    Aborted, Content, Delta, Gate, Hook, HookAnswer, HookContext, HookPoint, Hooks, Input, Message,
    PendingCall, Processor, Request, Settings, Step, ToolCall, ToolOutput,
};
use ttsr::rule::Consult;
use ttsr::{Origin, Pack};
use ttsr_agent::handoff::{
    ArrivedMessage, DraftStep, FileSource, Handoff, HandoffTracker, ReadSession, command,
    read_part, references, summary_prompt,
};
use ttsr_agent::progress::{ChatAction, PendingPrompt, RouterSettings};

use given::Given;
use steps::{done, shown, shown_end, synthetic_text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The version of the format.
    format: u32,
    /// The rules of the cases without rules of their own.
    #[serde(default)]
    rules: String,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Case {
    name: String,
    #[allow(dead_code, reason = "for who reads the file")]
    why: String,
    rules: Option<String>,
    pack: Option<String>,
    #[serde(default)]
    settings: CaseSettings,
    #[serde(default)]
    hooks: Vec<CaseHook>,
    /// The kinds of steps to compare in addition to those that are always compared.
    #[serde(default)]
    also: Vec<String>,
    /// True if the case is about the cuts between deltas, and only runs as written.
    #[serde(default)]
    as_written: bool,
    r#in: Vec<toml::Table>,
    #[serde(default)]
    out: Vec<Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct CaseSettings {
    session: String,
    agent: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    package: Option<String>,
    depth: u32,
    stall_ms: Option<u64>,
    attempt_ms: Option<u64>,
    reply_ms: Option<u64>,
    parent: Option<String>,
    hook_retries: Option<u32>,
    signs_reasoning: bool,
    fallback: Vec<String>,
    /// For each agent, or `*`, the fallback models.
    chains: BTreeMap<String, Vec<String>>,
    router: toml::Table,
    /// The kind of chat that a prompt comes from.
    channel: Option<String>,
    /// The operation that fails, and the one that hangs: `typing`, or sending a text that contains these words.
    fails: Option<String>,
    hangs: Option<String>,
    /// The interface of the server of the case, and its password.
    api: Option<String>,
    password: Option<String>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CaseHook {
    name: String,
    at: String,
    /// The hook does nothing unless the text so far contains this.
    #[serde(default)]
    when: String,
    #[serde(default)]
    abort: bool,
    rewrite: Option<String>,
    #[serde(default)]
    retry: bool,
    inject: Option<String>,
    block: Option<String>,
    /// The question to a sub-agent.
    ask: Option<String>,
}

/// A step in the words of the format, with its keys in order.
type Shown = Vec<(&'static str, Value)>;

#[test]
fn every_row_has_a_case() {
    let mut names = Vec::new();
    for path in files() {
        let text = fs::read_to_string(path).unwrap();
        let file: File = toml::from_str(&text).unwrap();
        names.extend(file.case.into_iter().map(|case| case.name));
    }
    for (letter, count) in [("a", 10), ("b", 7), ("c", 7), ("d", 4), ("e", 8)] {
        for row in 1..=count {
            let prefix = format!("{letter}{row}_");
            let has_case = names.iter().any(|name| name.starts_with(&prefix));
            assert!(has_case, "no case begins with {prefix}");
        }
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent/conformance");
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|it| it == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_case_gives_its_steps() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut cases = 0;
    for path in files() {
        let mut text = fs::read_to_string(&path).unwrap();
        let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        assert_eq!(file.format, 1, "{path:?}");
        for case in &file.case {
            if case.settings.api.is_some() && cfg!(not(feature = "opencode")) {
                skip::test(&format!("{}: without the feature `opencode`", case.name));
                continue;
            }
            let given = run(case, &file.rules, usize::MAX);
            cases += 1;
            let is_same = given.len() == case.out.len()
                && given
                    .iter()
                    .zip(&case.out)
                    .all(|(given, wanted)| fits(&object(given), wanted));
            if update && !is_same {
                text = with_steps(&text, case, &given);
                continue;
            }
            assert!(
                is_same,
                "{}: {}\ngave\n{}",
                path.display(),
                case.name,
                lines(&given)
            );
            if !case.as_written {
                let bytewise = run(case, &file.rules, 1);
                assert_eq!(
                    joined(&bytewise),
                    joined(&given),
                    "{} in single bytes",
                    case.name
                );
            }
        }
        if update {
            fs::write(&path, text).unwrap();
        }
    }
    assert!(cases > 30, "{cases} cases");
}

/// Returns true if `given` has everything in `wanted`. Lists must have equal lengths. For a text, `wanted` may give its
/// start, its end and the pieces that it contains in order.
fn fits(given: &Value, wanted: &Value) -> bool {
    match (given, wanted) {
        (Value::String(given), Value::Object(wanted)) => {
            let words = |key: &str| wanted.get(key).and_then(Value::as_str).unwrap_or_default();
            let pieces = wanted.get("holds").and_then(Value::as_array);
            let mut rest = Some(given.as_str());
            for piece in pieces.into_iter().flatten() {
                let piece = piece.as_str().unwrap();
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

fn object(shown: &Shown) -> Value {
    let pairs = shown
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()));
    Value::Object(pairs.collect())
}

/// Joins consecutive forwards of a part, and removes steps that depend on the cuts between deltas. The text of an
/// attempt before its cut depends on them too.
fn joined(steps: &[Shown]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    // Messages about the text precede the delta that caused them, wherever that delta begins.
    let mut words: Vec<Value> = Vec::new();
    let is_cut = steps.iter().any(|step| step[0].0 == "aborted");
    for step in steps {
        let (kind, step) = (step[0].0, object(step));
        let is_of_attempt = ["open", "forward", "close", "aborted", "retract"].contains(&kind);
        // Hooks are called for every delta.
        let is_of_delta = ["hold", "called"].contains(&kind);
        if is_of_delta || (is_cut && is_of_attempt) {
            continue;
        }
        if ["inject", "notify"].contains(&kind) {
            words.push(step);
            continue;
        }
        if let (Some(last), Some(part)) = (joined.last_mut(), step.get("forward"))
            && last.get("forward") == Some(part)
        {
            let text = format!(
                "{}{}",
                last["text"].as_str().unwrap(),
                step["text"].as_str().unwrap()
            );
            last["text"] = Value::from(text);
            continue;
        }
        joined.push(step);
    }
    joined.append(&mut words);
    joined
}

fn lines(steps: &[Shown]) -> String {
    let lines = steps.iter().map(|step| {
        let pairs = step
            .iter()
            .map(|(key, value)| format!("{key} = {}", in_toml(value)));
        format!("    {{ {} }},\n", pairs.collect::<Vec<_>>().join(", "))
    });
    lines.collect()
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
            format!(
                "[{}]",
                items.iter().map(in_toml).collect::<Vec<_>>().join(", ")
            )
        }
        other => other.to_string(),
    }
}

/// Returns the file with the steps of a case replaced.
fn with_steps(file: &str, case: &Case, steps: &[Shown]) -> String {
    let name = file.find(&format!("name = \"{}\"", case.name)).unwrap();
    let start = name + file[name..].find("\nout = [").expect("each case has `out`") + 1;
    let end = start + file[start..].find("]\n").unwrap() + 2;
    let end = match file[start..].starts_with("out = []") {
        true => end,
        false => start + file[start..].find("\n]\n").unwrap() + 3,
    };
    format!(
        "{}out = [\n{}]\n{}",
        &file[..start],
        lines(steps),
        &file[end..]
    )
}

/// The calls of hooks, in order.
type Calls = Arc<Mutex<Vec<Shown>>>;

/// A hook of a case.
struct Listed {
    hook: CaseHook,
    points: [HookPoint; 1],
    calls: Calls,
}

impl Listed {
    fn called(&self) {
        let called = vec![
            ("called", json!(self.hook.name)),
            ("at", json!(self.hook.at)),
        ];
        self.calls.lock().unwrap().push(called);
    }
}

impl Hook for Listed {
    fn points(&self) -> &[HookPoint] {
        let registered = vec![
            ("registered", json!(self.hook.name)),
            ("at", json!(self.hook.at)),
        ];
        self.calls.lock().unwrap().push(registered);
        &self.points
    }

    fn delta(&mut self, at: &HookContext<'_>, delta: &mut Delta<'_>) {
        self.called();
        let so_far = String::from_utf8_lossy(at.so_far).into_owned() + &delta.text();
        if so_far.contains(&self.hook.when) {
            if let Some(text) = &self.hook.rewrite {
                delta.rewrite(text.as_bytes());
            }
            if self.hook.abort {
                delta.abort();
            }
        }
    }

    fn aborted(&mut self, _: &Aborted, answer: &mut HookAnswer) {
        self.called();
        answer.retry = self.hook.retry;
        answer.inject_message = self.hook.inject.clone();
    }

    fn tool_before(&mut self, call: &ToolCall, before: &mut PendingCall) {
        self.called();
        if call.input.contains(&self.hook.when) {
            if let Some(input) = &self.hook.rewrite {
                before.input = input.clone();
            }
            if let Some(why) = &self.hook.block {
                before.block(why.clone());
            }
            if let Some(prompt) = &self.hook.ask {
                before.consult(Consult::new(prompt.clone()));
            }
        }
    }

    fn tool_after(&mut self, _: &ToolCall, after: &mut ToolOutput) {
        self.called();
        if let Some(text) = &self.hook.rewrite
            && after.output.contains(&self.hook.when)
        {
            after.output = text.clone();
        }
    }
}

fn hooks(case: &Case, calls: &Calls) -> Hooks {
    const KNOWN: [HookPoint; 4] = [
        HookPoint::Delta,
        HookPoint::Aborted,
        HookPoint::ToolBefore,
        HookPoint::ToolAfter,
    ];
    let mut hooks = Hooks::default();
    for hook in case.hooks.iter().cloned() {
        let point = KNOWN.into_iter().find(|point| point.name() == hook.at);
        let point = point.unwrap_or_else(|| panic!("{}: no hook point `{}`", case.name, hook.at));
        let listed = Listed {
            points: [point],
            calls: Arc::clone(calls),
            hook,
        };
        hooks.register(listed.hook.name.clone(), listed);
    }
    hooks
}

fn pack(case: &Case, rules: &str) -> Pack {
    let rules = case.rules.as_deref().unwrap_or(rules);
    let pack = match &case.pack {
        Some(name) => Pack::builtin(name),
        None if rules.is_empty() => Pack::builder().build(),
        None => Pack::from_toml(&format!("schema = 1\n[pack]\nname = \"t\"\n{rules}")),
    };
    pack.unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

fn processor(case: &Case, rules: &str, calls: &Calls) -> Processor {
    let pack = pack(case, rules);
    let CaseSettings {
        session,
        package,
        depth,
        signs_reasoning,
        ..
    } = &case.settings;
    let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
    let plain = Settings::default();
    let settings = Settings {
        session: session.clone(),
        parent: case.settings.parent.clone(),
        package: package.clone(),
        depth: *depth,
        signs_reasoning: *signs_reasoning,
        stall: millis(case.settings.stall_ms),
        attempt: millis(case.settings.attempt_ms),
        reply: millis(case.settings.reply_ms),
        hook_retries: case.settings.hook_retries.unwrap_or(plain.hook_retries),
        fallback: Chains::default().any(case.settings.fallback.iter().cloned()),
        ..plain
    };
    let mut processor = Processor::new(pack.session(), hooks(case, calls), settings);
    processor.set_origin(Origin {
        agent: case.settings.agent.clone(),
        model: case.settings.model.clone(),
        provider: case.settings.provider.clone(),
    });
    processor
}

/// Feeds the inputs, with deltas cut into pieces of `size` bytes. Returns the steps.
fn run(case: &Case, rules: &str, size: usize) -> Vec<Shown> {
    #[cfg(feature = "opencode")]
    if case.settings.api.is_some() {
        return client::run(case, rules);
    }
    if case.settings.channel.is_some() {
        return channel::run(case);
    }
    if !case.settings.chains.is_empty() {
        return foreground::run(case, rules);
    }
    let calls = Calls::default();
    let mut run = Run {
        processor: processor(case, rules, &calls),
        consultations: Vec::new(),
        also: &case.also,
        calls,
        shown: Vec::new(),
        now: Duration::ZERO,
        chat: None,
        handoffs: HandoffTracker::default(),
        handoff: None,
        files: Memory::default(),
        router: &case.settings.router,
    };
    for input in &case.r#in {
        let input = Given::new(case, input);
        if let Some(at) = input.number("at") {
            run.now = Duration::from_millis(at);
        }
        run.take(&input, size);
    }
    run.calls();
    run.shown
}

struct Run<'a> {
    processor: Processor,
    consultations: Vec<Consultation>,
    also: &'a [String],
    calls: Calls,
    shown: Vec<Shown>,
    now: Duration,
    /// The prompt of a chat in progress, and its session.
    chat: Option<(PendingPrompt, String)>,
    handoffs: HandoffTracker,
    /// The last handoff of a rule or the model.
    handoff: Option<Handoff>,
    files: Memory,
    router: &'a toml::Table,
}

/// Files in memory.
#[derive(Default)]
struct Memory(Vec<(String, String)>);

impl FileSource for Memory {
    fn resolve(&self, reference: &str) -> Option<PathBuf> {
        let known = self.0.iter().find(|(name, _)| name == reference)?;
        Some(Path::new("/project").join(&known.0))
    }

    fn read(&self, path: &Path, at_most: u64) -> std::io::Result<Vec<u8>> {
        let known = |(name, _): &&(String, String)| path.ends_with(name);
        let (_, text) = self.0.iter().find(known).expect("it was resolved");
        Ok(text.bytes().take(at_most as usize).collect())
    }
}

impl Run<'_> {
    fn take(&mut self, input: &Given<'_>, size: usize) {
        if self.take_handoff(input) || self.take_chat(input) {
            return;
        }
        let mut out = Vec::new();
        let processor = &mut self.processor;
        if let Some(message) = input.text("begin") {
            processor.begin(message, &mut out);
        } else if let Some(message) = input.text("proceed") {
            processor.proceed(message, &mut out);
        } else if input.has("prepare") {
            let model = input.text("model").unwrap_or_else(|| "m".to_owned());
            let request = Request::new(model, input.messages());
            let prepared = processor.prepare(&request, &mut out);
            self.steps(out);
            if let Some(prepared) = prepared {
                let texts: Vec<String> = prepared
                    .request
                    .messages
                    .iter()
                    .map(Message::text)
                    .collect();
                let headers = prepared.request.headers.iter();
                let headers =
                    headers.map(|(name, value)| (name.clone(), Value::from(value.clone())));
                self.show(vec![
                    ("request", json!(texts)),
                    ("headers", Value::Object(headers.collect())),
                ]);
            }
            return;
        } else if input.has("before") {
            let gate = processor.before_tool(input.call("before"), &mut out);
            self.steps(out);
            return self.gate(gate);
        } else if input.has("consulted") {
            let consulted = match (input.text("answer"), &*input.words("failed")) {
                (Some(answer), _) => ConsultOutcome::Answered(answer),
                (None, "timeout") => ConsultOutcome::TimedOut,
                (None, "cancelled") => ConsultOutcome::Cancelled,
                (None, reason) => ConsultOutcome::Refused {
                    reason: reason.to_owned(),
                },
            };
            let asked = std::mem::take(&mut self.consultations).into_iter();
            let said = asked.map(|asked| (asked, consulted.clone())).collect();
            let (gate, advice) = processor.consulted(input.call("consulted"), said, &mut out);
            self.steps(out);
            self.gate(gate);
            for message in advice {
                self.show(vec![("advice", Value::from(message.text()))]);
            }
            return;
        } else if input.has("after") {
            let mut after = ToolOutput::output(input.words("output"));
            after.is_error = input.has("is-error");
            let told = processor.after_tool(&input.call("after"), after, &mut out);
            self.steps(out);
            if let Err(end) = told {
                let ended = shown_end(&end);
                self.show(ended);
            }
            return;
        } else if let Some(events) = input.events(size) {
            for event in events {
                processor.step(self.now, Input::Event(event), &mut out);
            }
        } else {
            processor.step(self.now, input.input(), &mut out);
        }
        self.steps(out);
    }

    /// Processes an input about a new session. Returns false for any other input.
    fn take_handoff(&mut self, input: &Given<'_>) -> bool {
        let session = input.text("session").unwrap_or_else(|| "ses_1".to_owned());
        if let Some(text) = input.text("handoff") {
            self.draft(&Handoff::new(session, text).files(input.list("files")));
        } else if let Some(json) = input.text("handoff-session") {
            match Handoff::from_tool_input(&session, &json) {
                Ok(handoff) => self.draft(&handoff),
                Err(_) => self.show(vec![("refused", json!(true))]),
            }
        } else if let Some(typed) = input.text("command") {
            let prompt = command(&typed).map(summary_prompt);
            self.show(vec![(
                "summary",
                json!(prompt.map_or(Value::Bool(false), Value::from)),
            )]);
        } else if let Some(json) = input.text("read-session") {
            self.show(match ReadSession::from_tool_input(&json) {
                Ok(read) => vec![("transcript", json!(input.transcript(&read)))],
                Err(_) => vec![("refused", json!(true))],
            });
        } else if let Some(text) = input.text("references") {
            self.show(vec![("references", json!(references(&text)))]);
        } else if let Some(name) = input.text("file") {
            self.files.0.push((name, input.words("text")));
        } else if let Some(name) = input.text("read-file") {
            let parts = read_part(&self.files, &name);
            let parts = parts.map(|parts| json!(parts));
            self.show(vec![("parts", parts.unwrap_or(Value::Bool(false)))]);
        } else if let Some(text) = input.text("arrived") {
            let synthetic = input.has("synthetic");
            let arrived = ArrivedMessage {
                session: &session,
                model: "a/model",
                agent: "build",
                content: &[Content::Text { text, synthetic }],
            };
            let injection = self.handoffs.arrived(&arrived, &self.files);
            self.show(match injection {
                None => vec![("injected", json!(false))],
                Some(injection) => {
                    let parts = injection.parts.iter().map(synthetic_text);
                    vec![
                        ("injected", parts.collect()),
                        ("no-reply", json!(injection.no_reply)),
                        ("model", json!(injection.model)),
                        ("agent", json!(injection.agent)),
                    ]
                }
            });
        } else if let Some(typed) = input.text("goal") {
            self.goal(&typed, &session, input);
        } else if let Some(next) = input.text("go-on") {
            self.go_on(&next, input);
        } else if let Some(text) = input.text("say") {
            self.say(&session, text);
        } else if let Some(session) = input.text("deleted") {
            self.handoffs.deleted(&session);
        } else {
            return false;
        }
        true
    }

    fn draft(&mut self, handoff: &Handoff) {
        for draft in DraftStep::steps(handoff) {
            self.show(match draft {
                DraftStep::OpenSession => vec![("open-session", json!(true))],
                DraftStep::Wait(time) => vec![("wait-ms", json!(time.as_millis() as u64))],
                DraftStep::Append(text) => vec![("append", json!(text))],
                DraftStep::Toast { text, lasts } => vec![
                    ("toast", json!(text)),
                    ("lasts-ms", json!(lasts.as_millis() as u64)),
                ],
                other => panic!("{other:?}"),
            });
        }
    }

    /// Processes an input about the prompt of a chat. Returns false for any other input.
    fn take_chat(&mut self, input: &Given<'_>) -> bool {
        let mut out = Vec::new();
        if let Some(json) = input.text("settings") {
            self.show(match RouterSettings::from_json(&json) {
                Err(_) => vec![("refused", json!(true))],
                Ok(settings) => vec![
                    ("timeout-ms", json!(settings.timeout_ms())),
                    ("enabled", json!(settings.progress().is_enabled())),
                    ("throttle-ms", json!(settings.progress().tool_throttle_ms())),
                    ("heartbeat-ms", json!(settings.progress().heartbeat_ms())),
                ],
            });
        } else if let Some(session) = input.text("chat") {
            let json = serde_json::to_string(self.router).unwrap();
            let settings = RouterSettings::from_json(&json);
            let settings = settings.unwrap_or_else(|why| panic!("{}: {why}", input.case));
            let prompting = PendingPrompt::begin(session.clone(), settings, &mut out);
            self.chat = Some((prompting, session));
        } else if let Some((prompting, session)) = &mut self.chat {
            if let Some(event) = input.agent_event(session) {
                prompting.push_event(self.now, &event, &mut out);
            } else if let Some(text) = input.text("user") {
                match (&*text, prompting.is_asking()) {
                    ("/cancel", _) => prompting.cancel(self.now, &mut out),
                    (_, true) => prompting.answer(self.now, &text, &mut out),
                    (_, false) => out.push(ChatAction::Note(format!("(unread: {text})"))),
                }
            } else if let Some(request) = input.text("not-asked") {
                prompting.not_asked(self.now, &request, &mut out);
            } else if input.has("tick") {
                prompting.tick(self.now, &mut out);
            } else if input.has("end") {
                prompting.disconnected(self.now, &mut out);
            } else {
                panic!("{}: no input of a chat: {:?}", input.case, input.table);
            }
        } else {
            return false;
        }
        out.into_iter().for_each(|what| self.show(done(what)));
        true
    }

    fn gate(&mut self, gate: Gate) {
        match gate {
            Gate::Run(call) => self.show(vec![
                ("run", Value::from(call.call)),
                ("input", Value::from(call.input)),
            ]),
            Gate::Blocked(call, _) => self.show(vec![("blocked", Value::from(call.call))]),
            Gate::Ask(_, consultations) => {
                for asked in &consultations {
                    self.show(vec![
                        ("ask", Value::from(asked.consult.prompt.clone())),
                        ("by", Value::from(asked.by.clone())),
                        ("model", json!(asked.consult.model)),
                        ("timeout-ms", Value::from(asked.consult.timeout_millis)),
                        ("tools", json!(asked.consult.tools)),
                    ]);
                }
                self.consultations = consultations;
            }
        }
    }

    /// Appends the calls of hooks since the last steps.
    fn calls(&mut self) {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        for call in calls {
            if self.also.iter().any(|also| also == call[0].0) {
                self.show(call);
            }
        }
    }

    fn steps(&mut self, steps: Vec<Step>) {
        self.calls();
        for step in steps {
            if let Step::Handoff { handoff, .. } = &step {
                self.handoff = Some(handoff.clone());
            }
            if let Some(shown) = shown(&step) {
                let is_extra = ["decision", "step-started", "step-finished"].contains(&shown[0].0);
                if !is_extra || self.also.iter().any(|also| also == shown[0].0) {
                    self.show(shown);
                }
            }
        }
    }

    fn show(&mut self, shown: Shown) {
        let known = shown.into_iter().filter(|(_, value)| !value.is_null());
        self.shown.push(known.collect());
    }
}
