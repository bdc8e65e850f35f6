//! Fault injection: the N-th event of the provider, the N-th look at the clock and the N-th call of a hook fail, for
//! every N and in every way. There is always exactly one end, nothing follows it, and no byte is forwarded that a
//! critical rule cuts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ttsr::harness::fallback::Chains;
use ttsr::harness::{
    Aborted, Delta, Failure, Hook, HookAnswer, HookContext, HookPoint, Hooks, Input, Message,
    OnHookFault, Processor, Request, RequestTarget, ScriptedReply, Settings, Step,
};
use ttsr::{Channel, Event, Pack, PartId, Pattern, Rule};

use super::schedule::Watcher;
use super::{delta, pack};

/// A fault of an event of the provider.
#[derive(Clone, Copy, Debug)]
enum NetFault {
    Lost,
    Twice,
    /// The event arrives after the next one.
    Late,
    /// Half of its bytes arrive.
    Torn,
    /// It arrives after a pause longer than the host waits.
    Stalled,
    /// The connection breaks.
    Failed,
    /// The server is at its limit.
    Refused,
    /// The provider reports an error and continues.
    Error,
    /// The transport is re-established, and the reply continues.
    Restart,
    /// The stream ends early without an error.
    Cut,
}

const NET_FAULTS: [NetFault; 10] = [
    NetFault::Lost,
    NetFault::Twice,
    NetFault::Late,
    NetFault::Torn,
    NetFault::Stalled,
    NetFault::Failed,
    NetFault::Refused,
    NetFault::Error,
    NetFault::Restart,
    NetFault::Cut,
];

#[derive(Clone, Copy, Debug)]
enum ClockFault {
    Stands,
    Zero,
    Back,
    Leaps,
    /// Ten thousand years.
    Ages,
}

const CLOCK_FAULTS: [ClockFault; 5] = [
    ClockFault::Stands,
    ClockFault::Zero,
    ClockFault::Back,
    ClockFault::Leaps,
    ClockFault::Ages,
];

#[derive(Clone, Copy, Debug)]
enum HookFault {
    Panics,
    Aborts,
    /// Removes all bytes.
    Empties,
    /// Returns bytes that are not UTF-8.
    Garbles,
    /// Asks for a retry every time.
    Retries,
}

const HOOK_FAULTS: [HookFault; 5] = [
    HookFault::Panics,
    HookFault::Aborts,
    HookFault::Empties,
    HookFault::Garbles,
    HookFault::Retries,
];

/// The call that fails, counted from 1; or that call and all later ones.
#[derive(Clone, Copy, Debug)]
enum When {
    Never,
    Once(u64),
    From(u64),
}

impl When {
    fn is_now(self, call: u64) -> bool {
        match self {
            When::Never => false,
            When::Once(at) => call == at,
            When::From(at) => call >= at,
        }
    }
}

/// The faults of a run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    net: (When, NetFault),
    clock: (When, ClockFault),
    hook: (When, HookFault),
    on_hook_fault: OnHookFault,
}

const WELL: Plan = Plan {
    net: (When::Never, NetFault::Lost),
    clock: (When::Never, ClockFault::Stands),
    hook: (When::Never, HookFault::Panics),
    on_hook_fault: OnHookFault::Abort,
};

/// The number of calls at each point, and of those that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Calls {
    net: u64,
    clock: u64,
    hook: u64,
    injected: u64,
}

/// A hook at every point of a reply or a request.
struct Faulty {
    calls: Arc<AtomicU64>,
    injected: Arc<AtomicU64>,
    when: When,
    fault: HookFault,
}

impl Faulty {
    /// Counts a call and returns its fault, if it has one. A panic produces no output to compare.
    fn fault(&self) -> Option<HookFault> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.when.is_now(call) {
            return None;
        }
        self.injected.fetch_add(1, Ordering::Relaxed);
        if let HookFault::Panics = self.fault {
            std::panic::resume_unwind(Box::new("injected"));
        }
        Some(self.fault)
    }
}

impl Hook for Faulty {
    fn points(&self) -> &[HookPoint] {
        &[
            HookPoint::Delta,
            HookPoint::Aborted,
            HookPoint::TextComplete,
            HookPoint::Messages,
            HookPoint::Headers,
        ]
    }

    fn delta(&mut self, _: &HookContext<'_>, delta: &mut Delta<'_>) {
        match self.fault() {
            Some(HookFault::Aborts) => delta.abort(),
            Some(HookFault::Empties) => delta.rewrite(""),
            Some(HookFault::Garbles) => delta.rewrite(b"\xE2\x82".repeat(9)),
            _ => {}
        }
    }

    fn aborted(&mut self, _: &Aborted, answer: &mut HookAnswer) {
        if let Some(HookFault::Retries) = self.fault() {
            (answer.retry, answer.inject_message) = (true, Some("Again.".into()));
        }
    }

    // The replacement is kept and was never published, so no fault is injected here.
    fn text_complete(&mut self, _: &HookContext<'_>, _: &mut Vec<u8>) {
        let _ = self.fault();
    }

    fn messages(&mut self, _: &RequestTarget, messages: &mut Vec<Message>) {
        if let Some(HookFault::Empties) = self.fault() {
            messages.clear();
        }
    }

    fn headers(&mut self, _: &RequestTarget, headers: &mut Vec<(String, String)>) {
        if let Some(HookFault::Garbles) = self.fault() {
            headers.push(("x\r\n".into(), "\0".into()));
        }
    }
}

/// A run: its rules, and the replies of the provider in order.
struct Run {
    name: &'static str,
    pack: Pack,
    replies: Vec<Vec<Event>>,
}

fn replies(scripts: Vec<ScriptedReply>) -> Vec<Vec<Event>> {
    let events = scripts.iter().map(|script| script.events().to_vec());
    events.collect()
}

/// Returns a pack that redacts matches, and holds text until no match is possible.
fn holding() -> Pack {
    let mut key = Rule::new("r/key", vec![Pattern::regex("sk-[a-z]{6}")]);
    key.action = ttsr::Action::Redact;
    let mut held = Rule::new("r/held", vec![Pattern::literal("do not say this")]);
    (held.action, held.hold) = (ttsr::Action::Abort, true);
    Pack::builder().rule(key).rule(held).build().unwrap()
}

/// Returns events of parts that interleave.
fn interleaved() -> Vec<Event> {
    let start = |part: u32, channel, tool: Option<&str>| Event::PartStart {
        part: PartId(part),
        name: part.to_string(),
        channel,
        tool: tool.map(str::to_owned),
        call: tool.map(|_| format!("call_{part}")),
    };
    vec![
        start(0, Channel::Reasoning, None),
        start(1, Channel::ToolInput, None),
        start(2, Channel::ToolInput, Some("write")),
        delta(0, "so "),
        delta(1, r#"{"command":"ls"#),
        delta(2, r#"{"path":"a.rs","#),
        delta(0, "perhaps TO"),
        Event::Tool {
            part: PartId(1),
            tool: "bash".into(),
            call: Some("call_1".into()),
        },
        delta(1, r#" -la"}"#),
        delta(2, r#""content":"let"#),
        delta(0, "DO"),
        Event::PartEnd { part: PartId(0) },
        Event::Snapshot {
            part: PartId(0),
            bytes: b"so perhaps TODO".to_vec(),
        },
        delta(2, r#" x = 1;"}"#),
        Event::PartEnd { part: PartId(1) },
        Event::PartEnd { part: PartId(2) },
        Event::Usage {
            input: 10,
            output: 20,
        },
        Event::Finish {
            reason: "tool_use".into(),
        },
    ]
}

/// Returns runs that resemble real conversations.
fn runs() -> Vec<Run> {
    let good = || {
        ScriptedReply::default()
            .text("Here it is, and all is well.")
            .cut(4)
            .finish("stop")
    };
    let run = |name, pack, replies| Run {
        name,
        pack,
        replies,
    };
    vec![
        run(
            "a plain reply",
            pack(),
            replies(vec![
                ScriptedReply::default()
                    .reasoning("Let me think about it.")
                    .text("It is what it is: good. Größe 3 €.")
                    .cut(3)
                    .finish("stop"),
            ]),
        ),
        run(
            "a rule takes it again, twice",
            pack(),
            replies(vec![
                ScriptedReply::default()
                    .text("let x: any = 1;")
                    .cut(2)
                    .finish("stop"),
                ScriptedReply::default()
                    .text("so var x = 1;")
                    .cut(2)
                    .finish("stop"),
                good(),
            ]),
        ),
        run(
            "a critical rule ends it",
            pack(),
            replies(vec![
                ScriptedReply::default()
                    .text("I clean up.")
                    .tool(
                        "bash",
                        "call_9",
                        r#"{"command":"cd /tmp && \u0072m -rf / --no"}"#,
                    )
                    .cut(3)
                    .finish("tool_use"),
                good(),
                good(),
            ]),
        ),
        run(
            "parts that take turns",
            pack(),
            vec![interleaved(), Vec::new()],
        ),
        run(
            "text is held and replaced",
            holding(),
            replies(vec![
                ScriptedReply::default()
                    .text("the key is sk-abcdef, and sk-abc is none; do not say")
                    .tool("bash", "call_3", r#"{"command":"export K=sk-ghijkl"}"#)
                    .cut(3)
                    .finish("tool_use"),
                good(),
            ]),
        ),
        run(
            "a word that must not be said",
            holding(),
            replies(vec![
                ScriptedReply::default()
                    .text("well, do not say that, or do not say this at all")
                    .cut(4)
                    .finish("stop"),
                good(),
            ]),
        ),
        run(
            "guidance, and a last word",
            pack(),
            replies(vec![
                ScriptedReply::default()
                    .text("TODO: KEY and so on. This is the end")
                    .cut(5)
                    .finish("stop"),
                good(),
                good(),
            ]),
        ),
    ]
}

/// Text that must never be forwarded within one part, whatever fails.
const NEVER: [&[u8]; 4] = [b"rm -rf", b"eval(", b"do not say this", b"sk-abcdef"];

/// A host without I/O, with a scripted provider and clock.
struct Host {
    plan: Plan,
    calls: Calls,
    now: Duration,
    last: Duration,
    /// The inputs that the provider has not sent yet, in order.
    coming: Vec<Input>,
}

impl Host {
    /// Returns the time of the clock.
    fn time(&mut self) -> Duration {
        self.now += Duration::from_millis(10);
        self.calls.clock += 1;
        let (when, fault) = self.plan.clock;
        if !when.is_now(self.calls.clock) {
            self.last = self.now;
            return self.now;
        }
        self.calls.injected += 1;
        const HOUR: Duration = Duration::from_secs(3600);
        match fault {
            ClockFault::Stands => self.last,
            ClockFault::Zero => Duration::ZERO,
            ClockFault::Back => self.now.saturating_sub(HOUR),
            ClockFault::Leaps => self.now + HOUR,
            ClockFault::Ages => self.now + HOUR * 24 * 365 * 10_000,
        }
    }

    /// Returns the next input of the provider, which may be missing or late.
    fn input(&mut self) -> Option<Input> {
        let input = match self.coming.is_empty() {
            true => return Some(Input::End),
            false => self.coming.remove(0),
        };
        self.calls.net += 1;
        let (when, fault) = self.plan.net;
        if !when.is_now(self.calls.net) {
            return Some(input);
        }
        self.calls.injected += 1;
        match fault {
            NetFault::Lost => return None,
            NetFault::Twice => self.coming.insert(0, input.clone()),
            NetFault::Late => {
                let behind = self.coming.len().min(1);
                self.coming.insert(behind, input);
                return None;
            }
            NetFault::Torn => {
                if let Input::Event(Event::Delta { part, bytes }) = input {
                    let bytes = bytes[..bytes.len() / 2].to_vec();
                    return Some(Input::Event(Event::Delta { part, bytes }));
                }
            }
            NetFault::Stalled => {
                self.now += Duration::from_secs(60);
                self.coming.insert(0, input);
                return Some(Input::Tick);
            }
            NetFault::Failed => {
                return Some(Input::Failed(Failure::new(
                    "reset",
                    "connection reset by peer",
                )));
            }
            NetFault::Refused => {
                let failure = Failure::new("overloaded_error", "later").with_status(529);
                return Some(Input::Failed(failure));
            }
            NetFault::Error => {
                let (kind, message) = ("odd".to_owned(), String::new());
                self.coming.insert(0, input);
                return Some(Input::Event(Event::Error { kind, message }));
            }
            NetFault::Restart => {
                self.coming.insert(0, input);
                return Some(Input::Event(Event::Restart));
            }
            NetFault::Cut => return Some(Input::End),
        }
        Some(input)
    }
}

/// Plays a run with its faults and checks the invariants.
fn play(run: &Run, plan: Plan) -> Calls {
    let settings = Settings {
        stall: Some(Duration::from_secs(30)),
        reply: Some(Duration::from_secs(600)),
        fallback: Chains::default().any(["a", "b"]),
        on_hook_fault: plan.on_hook_fault,
        ..Settings::default()
    };
    let (hook_calls, hook_injected) = (Arc::default(), Arc::default());
    let mut hooks = Hooks::default();
    let faulty = Faulty {
        calls: Arc::clone(&hook_calls),
        injected: Arc::clone(&hook_injected),
        when: plan.hook.0,
        fault: plan.hook.1,
    };
    hooks.register("faulty", faulty);
    let mut processor = Processor::new(&run.pack, hooks, settings);
    let mut host = Host {
        plan,
        calls: Calls::default(),
        now: Duration::ZERO,
        last: Duration::ZERO,
        coming: Vec::new(),
    };
    let mut request = Request::new("model", vec![Message::user("Go.")]);
    let mut watcher = Watcher::default();
    let mut seen: HashMap<PartId, Vec<u8>> = HashMap::new();
    let mut replies = run.replies.iter();
    let mut steps = Vec::new();
    processor.begin("m", &mut steps);
    // A permanent fault may keep a reply from ending; then the user cancels.
    for left in (0..2_000).rev() {
        let mut sends = None;
        for step in steps.drain(..) {
            watcher.see(&step);
            match step {
                Step::Send { messages, .. } => {
                    seen.clear();
                    sends = Some(messages);
                }
                Step::Open { part, .. } => drop(seen.insert(part, Vec::new())),
                Step::Forward { part, bytes } => {
                    let shown = seen.entry(part).or_default();
                    let before = shown.len();
                    shown.extend_from_slice(&bytes);
                    for never in NEVER {
                        // The text before has been searched.
                        let new = &shown[before.saturating_sub(never.len() - 1)..];
                        let has_it = new.windows(never.len()).any(|window| window == never);
                        assert!(!has_it, "{}: {plan:?}: {}", run.name, never.escape_ascii());
                    }
                }
                _ => {}
            }
        }
        if processor.is_idle() {
            break;
        }
        let input = match sends {
            _ if left == 0 => Some(Input::Cancel),
            Some(messages) => {
                request.messages.extend(messages);
                let next = replies.next().into_iter().flatten();
                host.coming = next.cloned().map(Input::Event).collect();
                match processor.prepare(&request, &mut steps) {
                    Some(_) => Some(Input::Sent),
                    None => continue,
                }
            }
            None => host.input(),
        };
        if let Some(input) = input {
            watcher.is_cancelled |= input == Input::Cancel;
            let now = host.time();
            processor.step(now, input, &mut steps);
        }
    }
    steps.drain(..).for_each(|step| watcher.see(&step));
    assert_eq!(watcher.ends, 1, "{}: {plan:?}: one end", run.name);
    assert!(processor.is_idle(), "{}: {plan:?}", run.name);
    Calls {
        hook: hook_calls.load(Ordering::Relaxed),
        injected: host.calls.injected + hook_injected.load(Ordering::Relaxed),
        ..host.calls
    }
}

/// Plays a run with each plan. Each plan must have met at least one fault. Returns the number of plans.
fn play_all(run: &Run, plans: impl Iterator<Item = Plan>) -> u64 {
    let mut faults = 0;
    for plan in plans {
        let calls = play(run, plan);
        assert!(calls.injected > 0, "{}: {plan:?} met nothing", run.name);
        faults += 1;
    }
    faults
}

fn moments(calls: u64) -> impl Iterator<Item = When> {
    (1..=calls).flat_map(|at| [When::Once(at), When::From(at)])
}

#[test]
fn runs_without_a_fault_reach_every_seam() {
    for run in runs() {
        let calls = play(&run, WELL);
        assert!(
            calls.net > 10 && calls.clock > 10 && calls.hook >= 10,
            "{}: {calls:?}",
            run.name
        );
        assert_eq!(calls.injected, 0, "{}", run.name);
    }
}

#[test]
fn the_nth_event_of_the_provider_goes_wrong_for_every_n() {
    let mut faults = 0;
    for run in runs() {
        let calls = play(&run, WELL).net;
        let plan = |when, fault| Plan {
            net: (when, fault),
            ..WELL
        };
        let plans = moments(calls).flat_map(|when| NET_FAULTS.map(|fault| plan(when, fault)));
        faults += play_all(&run, plans);
    }
    println!("network: {faults} runs with a fault: one end each");
    assert!(faults >= 2_900, "{faults}");
}

#[test]
fn the_nth_look_at_the_clock_goes_wrong_for_every_n() {
    let mut faults = 0;
    for run in runs() {
        let calls = play(&run, WELL).clock;
        let plan = |when, fault| Plan {
            clock: (when, fault),
            ..WELL
        };
        let plans = moments(calls).flat_map(|when| CLOCK_FAULTS.map(|fault| plan(when, fault)));
        faults += play_all(&run, plans);
    }
    println!("clock: {faults} runs with a fault: one end each");
    assert!(faults >= 1_500, "{faults}");
}

#[test]
fn the_nth_call_of_a_hook_goes_wrong_for_every_n() {
    let mut faults = 0;
    for run in runs() {
        for on_hook_fault in [OnHookFault::Abort, OnHookFault::Continue] {
            let calls = play(&run, WELL).hook;
            let plan = |when, fault| Plan {
                hook: (when, fault),
                on_hook_fault,
                ..WELL
            };
            let plans = moments(calls).flat_map(|when| HOOK_FAULTS.map(|fault| plan(when, fault)));
            faults += play_all(&run, plans);
        }
    }
    println!("hook: {faults} runs with a fault: one end each");
    assert!(faults >= 2_900, "{faults}");
}
