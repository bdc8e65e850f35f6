//! Random schedules: whatever the order of inputs, the steps are in order.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use ttsr::harness::fallback::Chains;
use ttsr::harness::{
    AbortReason, AgentTurn, Cancel, End, Failure, Gate, Hooks, Input, Message, OnHookFault,
    PartState, Processor, Reply, Request, Scripted, ScriptedReply, Settings, Step, Tool, ToolCall,
    ToolFuture, ToolOutput, Tools,
};
use ttsr::rule::{Consult, ToolOutcome};
use ttsr::{Action, Channel, Event, Pack, PartId, Partial, Pattern, Rule, Severity};

use super::pack;
use ttsr_testing::{Random, scale};

const PIECES: [&str; 16] = [
    "x: a",
    "ny",
    ": any",
    "var ",
    "rm -",
    "rf",
    "TODO",
    "perhaps",
    "eval(",
    "a",
    " ",
    "{\"a\":\"",
    "\"}",
    "the end",
    "é",
    "good. ",
];

/// The channels of the parts in a provider's stream.
const STREAM_CHANNELS: [Channel; 4] = [
    Channel::Text,
    Channel::Reasoning,
    Channel::ToolInput,
    Channel::ToolOutput,
];

fn event(random: &mut Random) -> Event {
    let part = PartId(random.below(4) as u32);
    let piece = random.pick(&PIECES);
    match random.below(24) {
        0..=3 => Event::PartStart {
            part,
            name: part.0.to_string(),
            channel: random.pick(&STREAM_CHANNELS),
            tool: random.one_in(2).then(|| "write".to_owned()),
            call: random.one_in(2).then(|| format!("call_{}", part.0)),
        },
        4 => Event::Tool {
            part,
            tool: "read".into(),
            call: None,
        },
        5 if random.one_in(2) => Event::Outcome {
            part,
            outcome: random.pick(&ToolOutcome::ALL),
        },
        5..=6 => Event::PartEnd { part },
        7 => Event::Snapshot {
            part,
            bytes: piece.into(),
        },
        8 => Event::Unscanned {
            bytes: 1,
            kind: "odd".into(),
        },
        9 => Event::Usage {
            input: 1,
            output: 1,
        },
        10 if random.one_in(3) => Event::Finish {
            reason: random.pick(&["stop", "length"]).into(),
        },
        11 if random.one_in(3) => Event::Error {
            kind: "odd".into(),
            message: String::new(),
        },
        12 if random.one_in(2) => Event::Restart,
        _ => Event::Delta {
            part,
            bytes: piece.into(),
        },
    }
}

fn input(random: &mut Random) -> Input {
    match random.below(60) {
        0 => Input::End,
        1 => Input::Failed(Failure::new("odd", "as it happens")),
        2 => Input::Cancel,
        3..=5 => Input::Tick,
        6 => Input::Sent,
        _ => Input::Event(event(random)),
    }
}

fn schedules() -> u64 {
    scale(100_000) as u64
}

/// Returns packs of every action, made once, because making a pack takes longer than a schedule.
fn packs() -> &'static [Pack] {
    static PACKS: LazyLock<Vec<Pack>> = LazyLock::new(|| {
        let random = &mut Random::new(7);
        let drawn = (0..40).map(|_| {
            let rules = (0..1 + random.below(6)).map(|number| rule(random, number));
            let pack = rules.fold(Pack::builder(), |pack, rule| pack.rule(rule));
            pack.build().unwrap()
        });
        drawn.chain([pack()]).collect()
    });
    &PACKS
}

const ACTIONS: [Action; 8] = [
    Action::Observe,
    Action::Warn,
    Action::Inject,
    Action::Handoff,
    Action::Redact,
    Action::Retry,
    Action::Retry,
    Action::Abort,
];

fn rule(random: &mut Random, number: usize) -> Rule {
    let word = PIECES[random.below(9)].trim();
    let pattern = match random.below(3) {
        0 => Pattern::regex("goo?d|the +end"),
        _ => Pattern::literal(word),
    };
    let mut rule = Rule::new(format!("r/r{number}"), vec![pattern]);
    rule.action = ACTIONS[random.below(8)];
    rule.hold = random.one_in(4);
    rule.message = Some(format!("Rule {number}."));
    if rule.action == Action::Retry {
        rule.partial = Partial::ALL[random.below(3)];
        rule.retry.max = random.below(3) as u32;
    }
    if random.one_in(4) {
        rule.severity = Severity::Critical;
    }
    match random.below(8) {
        0 => {
            (rule.action, rule.on) = (Action::Consult, vec![Channel::ToolInput]);
            plain(&mut rule);
            rule.consult = Some(Consult {
                timeout_millis: 5,
                blocks_on_failure: random.one_in(2),
                ..Consult::new("?")
            });
        }
        1 => {
            (rule.action, rule.on) = (Action::Append, vec![Channel::ToolOutput]);
            plain(&mut rule);
        }
        2 => {
            (rule.action, rule.on) = (Action::Fallback, vec![Channel::Error]);
            plain(&mut rule);
            rule.condition.any = vec![Pattern::literal("odd")];
        }
        _ => {}
    }
    rule
}

/// Makes a rule hold and retry nothing.
fn plain(rule: &mut Rule) {
    (rule.hold, rule.partial, rule.retry) = (false, Partial::Discard, Default::default());
}

fn hooks(random: &mut Random) -> Hooks {
    let mut hooks = Hooks::default();
    for number in 0..random.below(4) {
        let mut own = Random::new(random.next());
        let wildness = 4 + random.below(40);
        hooks.on_delta(format!("delta-{number}"), move |_, delta| {
            match own.below(wildness) {
                0 => delta.abort(),
                1 => delta.rewrite("var "),
                2 => delta.rewrite(""),
                3 if own.one_in(4) => std::panic::resume_unwind(Box::new("odd")),
                _ => {}
            }
        });
    }
    for number in 0..random.below(3) {
        let mut own = Random::new(random.next());
        hooks.on_aborted(format!("aborted-{number}"), move |_, answer| {
            answer.retry = own.one_in(2);
            answer.inject_message = own.one_in(2).then(|| "Calm.".to_owned());
            if own.one_in(10) {
                std::panic::resume_unwind(Box::new("odd"));
            }
        });
    }
    hooks
}

/// The knowledge of an observer who sees only the steps.
#[derive(Default)]
pub(super) struct Watcher {
    seed: u64,
    sends: u32,
    aborts: u32,
    /// The number of aborts since the last request.
    aborts_here: u32,
    /// The parts that were opened and not retracted, with their published text.
    shown: HashMap<PartId, (Vec<u8>, bool)>,
    /// The calls that were published as aborted.
    aborted_calls: HashSet<PartId>,
    is_over: bool,
    pub(super) is_cancelled: bool,
    pub(super) ends: u32,
}

impl Watcher {
    pub(super) fn see(&mut self, step: &Step) {
        let seed = self.seed;
        assert!(!self.is_over, "seed {seed}: {step:?} after the end");
        match step {
            Step::Send { attempt, .. } => {
                let is_early = !self.is_cancelled;
                assert!(is_early, "seed {seed}: a request after the cancel");
                assert!(self.shown.is_empty(), "seed {seed}: not taken back");
                assert_eq!(
                    self.aborts, self.sends,
                    "seed {seed}: each retry has its abort"
                );
                self.sends += 1;
                assert!(*attempt >= self.sends, "seed {seed}: attempts count up");
                self.aborts_here = 0;
            }
            Step::Open { part, .. } => {
                let is_new = self.shown.insert(*part, Default::default()).is_none();
                assert!(is_new, "seed {seed}: opened twice");
                self.alive();
            }
            Step::Named { part, .. } => assert!(self.is_open(*part), "seed {seed}"),
            Step::Forward { part, bytes } => {
                assert!(
                    !bytes.is_empty() && self.is_open(*part),
                    "seed {seed}: {part:?}"
                );
                self.alive();
                self.shown.get_mut(part).unwrap().0.extend_from_slice(bytes);
            }
            Step::Close { part, .. } => {
                assert!(self.is_open(*part), "seed {seed}: {part:?} closed twice");
                self.alive();
                self.shown.get_mut(part).unwrap().1 = true;
            }
            // The call is open, or complete and does not run.
            Step::ToolAborted { part, .. } => {
                self.alive();
                let (_, is_closed) = self.shown.get_mut(part).expect("it was opened");
                *is_closed = true;
                let is_new = self.aborted_calls.insert(*part);
                assert!(is_new, "seed {seed}: {part:?} aborted twice");
            }
            Step::Hold { part, bytes } => {
                assert!(*bytes > 0 && self.is_open(*part), "seed {seed}: {part:?}");
                self.alive();
            }
            Step::Retract { part, from } => {
                let (shown, _) = self.shown.remove(part).expect("it was opened");
                self.aborted_calls.remove(part);
                assert!(*from <= shown.len() as u64, "seed {seed}: {part:?}");
            }
            Step::Aborted(aborted) => {
                self.aborts += 1;
                self.aborts_here += 1;
                assert_eq!(self.aborts_here, 1, "seed {seed}: aborted once");
                self.same_as(&aborted.partial);
                let calls = aborted.calls.iter().map(|call| call.part);
                let published = calls.filter(|part| self.shown.contains_key(part));
                let published: HashSet<PartId> = published.collect();
                assert_eq!(self.aborted_calls, published, "seed {seed}: each is told");
            }
            Step::Finish(outcome) => {
                self.is_over = true;
                self.ends += 1;
                match &outcome.end {
                    End::Complete { .. } | End::Truncated { .. } => {
                        assert!(!self.is_cancelled, "seed {seed}");
                        self.same_as(&outcome.reply);
                        for call in outcome.reply.tool_calls() {
                            let is_aborted = self.aborted_calls.contains(&call.part);
                            assert_eq!(call.state == PartState::Aborted, is_aborted, "seed {seed}");
                        }
                    }
                    End::Aborted { reason, .. } => {
                        assert!(outcome.reply.parts().is_empty(), "seed {seed}");
                        assert!(
                            !self.is_cancelled || *reason == AbortReason::User,
                            "seed {seed}"
                        );
                    }
                    _ => panic!("seed {seed}"),
                }
                assert_eq!(outcome.attempts, self.sends, "seed {seed}");
            }
            _ => {}
        }
    }

    fn alive(&self) {
        assert_eq!(
            self.aborts_here, 0,
            "seed {}: published after the abort",
            self.seed
        );
    }

    fn is_open(&self, part: PartId) -> bool {
        self.shown
            .get(&part)
            .is_some_and(|(_, is_closed)| !is_closed)
    }

    /// Checks that the accumulated text equals the published text.
    fn same_as(&self, reply: &Reply) {
        for part in reply.parts() {
            let empty = Default::default();
            let (shown, _) = self.shown.get(&part.part).unwrap_or(&empty);
            assert_eq!(*shown, part.raw, "seed {}: {:?}", self.seed, part.part);
        }
    }
}

fn check(seed: u64) -> (u32, u32) {
    let random = &mut Random::new(seed);
    let settings = Settings {
        stall: random.one_in(2).then_some(Duration::from_secs(3)),
        reply: random.one_in(4).then_some(Duration::from_secs(30)),
        hook_retries: random.below(4) as u32,
        signs_reasoning: random.one_in(2),
        fallback: Chains::default().any(["a", "b"]),
        reply_bytes: if random.one_in(4) { 400 } else { 64 << 20 },
        on_hook_fault: match random.below(2) {
            0 => OnHookFault::Abort,
            _ => OnHookFault::Continue,
        },
        ..Settings::default()
    };
    // The first attempt, those of rules, those of hooks, and one for each model of the chain.
    let most = 1 + 3 + settings.hook_retries + 2;
    let pack = &packs()[random.below(packs().len())];
    let mut processor = Processor::new(pack, hooks(random), settings);
    let (mut ends, mut sends) = (0, 0);
    for _turn in 0..1 + random.below(3) {
        let mut watcher = Watcher {
            seed,
            ..Watcher::default()
        };
        let mut steps = Vec::new();
        let mut now = 0;
        processor.begin("m", &mut steps);
        let inputs = 20 + random.below(80);
        for left in (0..inputs).rev() {
            let must_send = matches!(steps.last(), Some(Step::Send { .. })) && !random.one_in(8);
            steps.drain(..).for_each(|step| watcher.see(&step));
            let input = match left {
                0 => Input::Cancel,
                _ if must_send => Input::Sent,
                _ => input(random),
            };
            watcher.is_cancelled |= input == Input::Cancel;
            now += random.below(2000) as u64;
            processor.step(Duration::from_millis(now), input, &mut steps);
        }
        steps.drain(..).for_each(|step| watcher.see(&step));
        assert_eq!(watcher.ends, 1, "seed {seed}: one end");
        assert!(processor.is_idle(), "seed {seed}");
        assert!(
            watcher.sends <= most,
            "seed {seed}: {} requests",
            watcher.sends
        );
        ends += watcher.ends;
        sends += watcher.sends;
    }
    (ends, sends)
}

#[test]
fn random_schedules_keep_every_promise() {
    let (mut ends, mut sends) = (0, 0);
    for seed in 0..schedules() {
        let (more_ends, more_sends) = check(seed);
        ends += more_ends;
        sends += more_sends;
    }
    // Schedules without decisions would prove nothing.
    assert!(
        u64::from(ends) > schedules() && sends > ends + ends / 4,
        "{ends} replies, {sends} requests"
    );
    println!(
        "{} schedules: {ends} replies, {sends} requests",
        schedules()
    );
}

/// Tools that may fail, hang or take a while, and that must not be called after the drop.
struct Wild {
    random: Mutex<Random>,
    is_concurrent: bool,
    is_dropped: Arc<AtomicBool>,
    ran: Arc<Mutex<Vec<String>>>,
}

impl Tools for Wild {
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    fn is_concurrent(&self, _: &str) -> bool {
        self.is_concurrent
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        assert!(
            !self.is_dropped.load(Ordering::Relaxed),
            "a tool after the drop"
        );
        self.ran.lock().unwrap().push(call.call.clone());
        let what = self.random.lock().unwrap().below(8);
        Box::pin(async move {
            match what {
                0 => std::future::pending().await,
                1 => ToolOutput::error("odd"),
                2 => {
                    tokio::task::yield_now().await;
                    ToolOutput::output("the end")
                }
                _ => ToolOutput::output("fine"),
            }
        })
    }
}

/// Returns a random reply of a provider.
fn script(random: &mut Random, number: u64) -> ScriptedReply {
    let mut script = ScriptedReply::default();
    for part in 0..1 + random.below(3) {
        let text: String = (0..random.below(6)).map(|_| random.pick(&PIECES)).collect();
        script = match random.below(4) {
            0 => script.reasoning(text),
            1 => script.tool(
                "write",
                &format!("c{number}-{part}"),
                format!("{{\"a\":\"{part}\"}}"),
            ),
            2 => script.tool("bash", &format!("c{number}-{part}"), "{\"a\":\"x: any\"}"),
            _ => script.text(text),
        };
    }
    script = script.cut(1 + random.below(6));
    if random.one_in(2) {
        script = script.yielding();
    }
    match random.below(10) {
        0 => script.fail(Failure::new("odd", "as it happens")),
        1 => script,
        2 => script.hang(),
        _ => script.finish("stop"),
    }
}

/// Runs turns that are dropped or cancelled at a random poll, or not at all. Returns the number of ends.
fn check_turn(seed: u64, ran_through: &AtomicUsize) {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    let random = &mut Random::new(seed ^ 0x5EED);
    let is_dropped = Arc::new(AtomicBool::new(false));
    let mut hooks = Hooks::default();
    let kept = Arc::clone(&is_dropped);
    let mut own = Random::new(random.next());
    hooks.on_delta("watch", move |_, delta| {
        assert!(!kept.load(Ordering::Relaxed), "a hook after the drop");
        if own.one_in(60) {
            delta.abort();
        }
    });
    let kept = Arc::clone(&is_dropped);
    hooks.on_aborted("again", move |_, answer| {
        assert!(!kept.load(Ordering::Relaxed), "a hook after the drop");
        answer.retry = true;
    });
    let mut own = Random::new(random.next());
    hooks.on_tool_before("gate", move |_, before| {
        if own.one_in(5) {
            before.block("no");
        }
    });
    let settings = Settings {
        stall: Some(Duration::from_millis(1)),
        fallback: Chains::default().any(["a", "b"]),
        ..Settings::default()
    };
    let pack = &packs()[random.below(packs().len())];
    let mut processor = Processor::new(pack, hooks, settings);
    let scripts: Vec<ScriptedReply> = (0..6).map(|number| script(random, number)).collect();
    let mut provider = Scripted::new(scripts);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let tools = Wild {
        random: Mutex::new(Random::new(random.next())),
        is_concurrent: random.below(2) == 0,
        is_dropped: Arc::clone(&is_dropped),
        ran: Arc::clone(&ran),
    };
    let cancel = Cancel::default();
    let (drop_at, cancel_at) = (random.below(400), random.below(60));
    let mut aborted: Vec<String> = Vec::new();
    let mut steps = 0;
    let mut watch = |step: &Step| {
        steps += 1;
        if let Step::Aborted(it) = step {
            aborted.extend(it.calls.iter().filter_map(|call| call.call.clone()));
        }
    };
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, cancel.clone());
    let request = Request::new("m", vec![Message::user("Go.")]);
    {
        let mut running = pin!(turn.max_replies(5).run(request, "m", &mut watch));
        let mut context = Context::from_waker(Waker::noop());
        for poll in 0..drop_at {
            if poll == cancel_at {
                cancel.cancel();
            }
            if let Poll::Ready(outcome) = running.as_mut().poll(&mut context) {
                ran_through.fetch_add(1, Ordering::Relaxed);
                assert!(outcome.replies <= 5, "seed {seed}");
                if let End::Aborted { .. } = outcome.end {
                    assert!(outcome.reply.parts().is_empty(), "seed {seed}");
                }
                break;
            }
        }
    }
    is_dropped.store(true, Ordering::Relaxed);
    let is_begun = drop_at > 0 && cancel_at > 0;
    assert!(steps > 0 || !is_begun, "seed {seed}");
    // Each script but the last is played once. A call of an attempt that was cut does not run.
    let ran = ran.lock().unwrap();
    let mut cut = aborted.iter().filter(|call| !call.starts_with("c5"));
    assert!(
        cut.all(|call| !ran.contains(call)),
        "seed {seed}: {aborted:?} {ran:?}"
    );
}

#[test]
fn random_turns_end_once_and_leave_nothing_behind() {
    let ran_through = AtomicUsize::new(0);
    let runtime = super::runtime();
    let _in_runtime = runtime.enter();
    let turns = schedules();
    for seed in 0..turns {
        check_turn(seed, &ran_through);
    }
    let ran_through = ran_through.into_inner() as u64;
    assert!(
        ran_through > turns / 4,
        "{ran_through} of {turns} ended by themselves"
    );
    println!("{turns} turns dropped or cancelled anywhere: {ran_through} ended by themselves");
}

#[test]
fn random_calls_never_run_against_a_verdict() {
    // A call that was blocked stays blocked, in whatever order hooks, rules and answers come.
    for seed in 0..schedules() {
        let random = &mut Random::new(seed);
        let mut hooks = Hooks::default();
        let blocks = random.one_in(2);
        let mut own = Random::new(random.next());
        for number in 0..random.below(3) {
            let changes = own.one_in(2);
            hooks.on_tool_before(format!("change-{number}"), move |_, before| {
                if changes {
                    before.input.push(' ');
                }
            });
        }
        if blocks {
            hooks.on_tool_before("block", |_, before| before.block("no"));
        }
        let pack = &packs()[random.below(packs().len())];
        let mut processor = Processor::new(pack, hooks, Settings::default());
        let call = ToolCall {
            tool: "write".into(),
            call: "c".into(),
            input: "{}".into(),
            ..ToolCall::default()
        };
        let gate = processor.before_tool(call, &mut Vec::new());
        assert_eq!(matches!(gate, Gate::Blocked(..)), blocks, "seed {seed}");
    }
    println!("{} calls at a gate", schedules());
}
