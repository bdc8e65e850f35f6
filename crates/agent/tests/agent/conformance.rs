//! The conformance cases of all profiles, run by the reference loop. The format is described in `docs/conformance.md`.
//!
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
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ttsr::harness::conformance::{
    CaseFailure, CaseInput, CaseStep, ConformanceCase, Host, Profile, cases, check,
};
use ttsr::harness::consult::{ConsultOutcome, Consultation};
use ttsr::harness::fallback::Chains;
use ttsr::harness::{
    Aborted, Content, Delta, Gate, Hook, HookAnswer, HookContext, HookPoint, Hooks, Input, Message,
    PendingCall, Processor, Request, Settings, Step, ToolCall, ToolOutput,
};
use ttsr::rule::Consult;
use ttsr::{Conversation, Origin};
use ttsr_agent::handoff::{
    DraftStep, FileSource, Handoff, HandoffTracker, IncomingMessage, ReadSession, command,
    file_references, read_part, summary_prompt,
};
use ttsr_agent::progress::{ChatAction, PendingPrompt, RouterSettings};

use given::Given;
use steps::{done, shown, shown_end, synthetic_text};

/// A case, with its settings and hooks in types of the tests.
struct Case<'a> {
    written: &'a ConformanceCase,
    name: &'a str,
    settings: CaseSettings,
    hooks: Vec<CaseHook>,
    r#in: &'a [CaseInput],
}

impl Case<'_> {
    fn new(written: &ConformanceCase) -> Case<'_> {
        fn typed<T: DeserializeOwned>(case: &ConformanceCase, value: Value) -> T {
            serde_json::from_value(value).unwrap_or_else(|error| panic!("{}: {error}", case.name))
        }
        let settings = Value::Object(written.settings.clone());
        let hooks = written.hooks.iter().cloned().map(Value::Object);
        Case {
            written,
            name: &written.name,
            settings: typed(written, settings),
            hooks: typed(written, hooks.collect()),
            r#in: &written.inputs,
        }
    }
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
    router: serde_json::Map<String, Value>,
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

/// The reference loop, and what an agent has around it.
struct Reference;

impl Host for Reference {
    fn play(&mut self, case: &ConformanceCase) -> Vec<CaseStep> {
        let steps = run(&Case::new(case)).into_iter();
        steps.map(|shown| shown.into_iter().collect()).collect()
    }
}

#[test]
fn every_row_has_a_case() {
    let cases = cases();
    for (letter, count) in [("a", 10), ("b", 7), ("c", 7), ("d", 4), ("e", 8)] {
        for row in 1..=count {
            let prefix = format!("{letter}{row}_");
            let has_case = cases.iter().any(|case| case.name.starts_with(&prefix));
            assert!(has_case, "no case begins with {prefix}");
        }
    }
}

fn file_of(case: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/harness/conformance");
    let files = fs::read_dir(folder).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let has_case = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        text.contains(&format!("name = \"{case}\""))
    };
    files.find(has_case).unwrap()
}

#[test]
fn every_case_gives_its_steps() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut failures = Vec::new();
    let mut checked = BTreeMap::<&str, u32>::new();
    for case in cases() {
        if case.settings.contains_key("api") && cfg!(not(feature = "opencode")) {
            skip::test(&format!("{}: without the feature `opencode`", case.name));
            continue;
        }
        *checked.entry(case.profile.name()).or_default() += 1;
        match check(&case, &mut Reference) {
            Some(failure) if update && !failure.is_in_single_bytes => {
                let file = file_of(&case.name);
                let text = fs::read_to_string(&file).unwrap();
                fs::write(file, with_steps(&text, &failure)).unwrap();
            }
            failure => failures.extend(failure),
        }
    }
    let shown: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", shown.join("\n"));
    assert!(checked.values().all(|count| *count > 5), "{checked:?}");
    assert_eq!(checked.len(), Profile::ALL.len(), "{checked:?}");
}

/// Returns the file with the expected steps of a case replaced by those that the loop gave.
fn with_steps(file: &str, failure: &CaseFailure) -> String {
    let name = file.find(&format!("name = \"{}\"", failure.case)).unwrap();
    let start = name + file[name..].find("\nout = [").expect("each case has `out`") + 1;
    let end = start + file[start..].find("]\n").unwrap() + 2;
    let end = match file[start..].starts_with("out = []") {
        true => end,
        false => start + file[start..].find("\n]\n").unwrap() + 3,
    };
    let steps = &failure.actual;
    format!("{}out = [\n{steps}]\n{}", &file[..start], &file[end..])
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

fn hooks(case: &Case<'_>, calls: &Calls) -> Hooks {
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

fn processor(case: &Case<'_>, calls: &Calls) -> Processor {
    let pack = case.written.pack();
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
    let mut processor = Processor::new(&pack, hooks(case, calls), settings);
    processor.set_origin(Origin {
        agent: case.settings.agent.clone(),
        model: case.settings.model.clone(),
        provider: case.settings.provider.clone(),
    });
    processor
}

/// Plays the inputs of a case. Returns the steps.
fn run(case: &Case<'_>) -> Vec<Shown> {
    #[cfg(feature = "opencode")]
    if case.settings.api.is_some() {
        return client::run(case);
    }
    if case.settings.channel.is_some() {
        return channel::run(case);
    }
    if !case.settings.chains.is_empty() {
        return foreground::run(case);
    }
    let calls = Calls::default();
    let mut run = Run {
        processor: processor(case, &calls),
        is_core: case.written.profile == Profile::Core,
        prompt: None,
        consultations: Vec::new(),
        calls,
        shown: Vec::new(),
        now: Duration::ZERO,
        chat: None,
        handoffs: HandoffTracker::default(),
        handoff: None,
        files: Memory::default(),
        router: &case.settings.router,
    };
    for input in case.r#in {
        let input = Given::new(case, input);
        if let Some(at) = input.number("at") {
            run.now = Duration::from_millis(at);
        }
        run.take(&input);
    }
    run.calls();
    run.shown
}

struct Run<'a> {
    processor: Processor,
    is_core: bool,
    /// The prompt of the turn, if the case gives it.
    prompt: Option<String>,
    consultations: Vec<Consultation>,
    calls: Calls,
    shown: Vec<Shown>,
    now: Duration,
    /// The prompt of a chat in progress, and its session.
    chat: Option<(PendingPrompt, String)>,
    handoffs: HandoffTracker,
    /// The last handoff of a rule or the model.
    handoff: Option<Handoff>,
    files: Memory,
    router: &'a serde_json::Map<String, Value>,
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
    fn take(&mut self, input: &Given<'_>) {
        if self.take_handoff(input) || self.take_chat(input) {
            return;
        }
        let mut out = Vec::new();
        let processor = &mut self.processor;
        if let Some(message) = input.text("begin") {
            self.prompt = input.text("prompt");
            processor.begin(message, &mut out);
        } else if let Some(message) = input.text("proceed") {
            processor.proceed(message, &mut out);
        } else if input.has("prepare") {
            let model = input.text("model").unwrap_or_else(|| "m".to_owned());
            let request = Request::new(model, input.messages());
            self.prepare(&request);
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
        } else if input.has("store") {
            self.store();
        } else if let Some(event) = input.table.event() {
            processor.step(self.now, Input::Event(event), &mut out);
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
            self.show(vec![("references", json!(file_references(&text)))]);
        } else if let Some(name) = input.text("file") {
            self.files.0.push((name, input.words("text")));
        } else if let Some(name) = input.text("read-file") {
            let parts = read_part(&self.files, &name);
            let parts = parts.map(|parts| json!(parts));
            self.show(vec![("parts", parts.unwrap_or(Value::Bool(false)))]);
        } else if let Some(text) = input.text("arrived") {
            let synthetic = input.has("synthetic");
            let arrived = IncomingMessage {
                session: &session,
                model: "a/model",
                agent: "build",
                content: &[Content::Text { text, synthetic }],
            };
            let injection = self.handoffs.on_message(&arrived, &self.files);
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
            self.show(call);
        }
    }

    fn steps(&mut self, steps: Vec<Step>) {
        self.calls();
        for step in steps {
            if let Step::Handoff { handoff, .. } = &step {
                self.handoff = Some(handoff.clone());
            }
            if let Some(shown) = shown(&step) {
                self.show(shown);
            }
            if self.is_core {
                self.go_on_by_itself(&step);
            }
        }
    }

    /// Does what the inputs of the core leave to the host: sends the prompt, and runs calls.
    fn go_on_by_itself(&mut self, step: &Step) {
        match step {
            Step::Send { messages, .. } => {
                let Some(prompt) = self.prompt.clone() else {
                    return;
                };
                let mut all = vec![Message::user(prompt)];
                all.extend_from_slice(messages);
                self.prepare(&Request::new("m", all));
            }
            Step::Finish(outcome) if !outcome.end.is_aborted() => {
                for part in outcome.reply.tool_calls() {
                    self.show(vec![
                        ("run", json!(part.call)),
                        ("input", json!(part.text())),
                    ]);
                }
            }
            _ => {}
        }
    }

    fn prepare(&mut self, request: &Request) {
        let mut out = Vec::new();
        let prepared = self.processor.prepare(request, &mut out);
        self.steps(out);
        if let Some(prepared) = prepared {
            let messages = prepared.request.messages.iter();
            let texts: Vec<String> = messages.map(Message::text).collect();
            let headers = prepared.request.headers.iter();
            let headers = headers.map(|(name, value)| (name.clone(), Value::from(value.clone())));
            self.show(vec![
                ("request", json!(texts)),
                ("headers", Value::Object(headers.collect())),
            ]);
        }
    }

    /// Stores the conversation and goes on with what was stored.
    fn store(&mut self) {
        let pack = self.processor.pack().clone();
        let settings = self.processor.settings().clone();
        let stored = serde_json::to_string(&self.processor.conversation().snapshot()).unwrap();
        let (conversation, _) =
            Conversation::restore(&pack, &serde_json::from_str(&stored).unwrap());
        self.processor = Processor::new(conversation, Hooks::default(), settings);
    }

    fn show(&mut self, shown: Shown) {
        let known = shown.into_iter().filter(|(_, value)| !value.is_null());
        self.shown.push(known.collect());
    }
}
