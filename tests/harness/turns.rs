//! Whole turns: tools between replies, sub-agents that are asked, and fallback models.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ttsr::harness::consult::ConsultOutcome;
use ttsr::harness::event::LoopEvent;
use ttsr::harness::fallback::Chains;
use ttsr::harness::{
    AbortReason, AbortSource, AgentTurn, Cancel, Content, End, EventTracker, Failure, Gate, Hook,
    HookPoint, Hooks, Message, Processor, Request, RequestTarget, Role, Scripted, ScriptedReply,
    Settings, Step, TOOL_ABORTED, Tool, ToolCall, ToolFuture, ToolOutput, Tools, TurnOutcome,
};
use ttsr::rule::Consult;
use ttsr::{Action, Channel, Origin, Pack, Pattern, Rule};

use super::{runtime, text};

/// Tools that return their input and remember their calls.
#[derive(Clone, Default)]
struct Echo {
    calls: Arc<Mutex<Vec<String>>>,
    hangs: bool,
}

impl Tools for Echo {
    fn tools(&self) -> Vec<Tool> {
        let tool = |name: &str| Tool {
            name: name.into(),
            description: String::new(),
            input: serde_json::json!({"type": "object"}),
        };
        ["bash", "read", "write"].map(tool).to_vec()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        self.calls.lock().unwrap().push(call.tool.clone());
        let hangs = self.hangs;
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            ToolOutput::output(format!("ran {}", call.input))
        })
    }
}

struct Ran {
    outcome: TurnOutcome,
    steps: Vec<Step>,
    provider: Scripted,
    tools: Echo,
}

fn ran(processor: &mut Processor, scripts: Vec<ScriptedReply>) -> Ran {
    ran_with(processor, scripts, Echo::default(), &Cancel::default())
}

fn ran_with(
    processor: &mut Processor,
    scripts: Vec<ScriptedReply>,
    tools: Echo,
    cancel: &Cancel,
) -> Ran {
    let mut provider = Scripted::new(scripts);
    let kept = provider.clone();
    let mut steps = Vec::new();
    let own = tools.clone();
    let turn = AgentTurn::new(processor, &mut provider, &own, cancel.clone());
    let request = Request::new("model", vec![Message::user("Go.")]);
    let mut watch = |step: &Step| steps.push(step.clone());
    let outcome = runtime().block_on(turn.run(request, "msg_1", &mut watch));
    Ran {
        outcome,
        steps,
        provider: kept,
        tools,
    }
}

impl Ran {
    /// Returns the outputs that the model received for its calls.
    fn told(&self) -> Vec<String> {
        let content = self
            .outcome
            .added
            .iter()
            .flat_map(|message| &message.content);
        let told = content.filter_map(|content| match content {
            Content::ToolResult { output, .. } => Some(output.clone()),
            _ => None,
        });
        told.collect()
    }

    fn called(&self) -> Vec<String> {
        self.tools.calls.lock().unwrap().clone()
    }

    fn consulted(&self) -> Vec<&ConsultOutcome> {
        let consulted = self.steps.iter().filter_map(|step| match step {
            Step::Observe(LoopEvent::Consulted { consulted, .. }) => Some(consulted),
            _ => None,
        });
        consulted.collect()
    }
}

fn calls(tool: &str, input: &str) -> ScriptedReply {
    ScriptedReply::default()
        .tool(tool, "c1", input)
        .finish("tool_use")
}

fn processor(rules: impl IntoIterator<Item = Rule>, settings: Settings) -> Processor {
    let pack = rules
        .into_iter()
        .fold(Pack::builder(), |pack, rule| pack.rule(rule));
    Processor::new(&pack.build().unwrap(), Hooks::default(), settings)
}

fn plain() -> Processor {
    processor([], Settings::default())
}

#[test]
fn a_tool_result_is_an_event_and_enters_the_next_request() {
    let ran = ran(&mut plain(), vec![calls("read", "{}"), text("done")]);
    assert_eq!(ran.told(), ["ran {}"]);
    assert_eq!(ran.outcome.reply.text(Channel::Text), "done");
    let results = ran
        .steps
        .iter()
        .filter(|step| matches!(step, Step::ToolResult { .. }));
    assert_eq!(results.count(), 1);
    let requests = ran.provider.requests();
    assert_eq!((requests.len(), requests[1].messages.len()), (2, 3));
    assert_eq!(requests[0].tools.len(), 3);
}

#[test]
fn a_turn_is_bounded() {
    let mut processor = plain();
    let mut provider = Scripted::new([calls("read", "{}")]);
    let tools = Echo::default();
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
    let request = Request::new("model", vec![Message::user("Go.")]);
    let outcome = runtime().block_on(turn.max_replies(4).run(request, "m", &mut |_| {}));
    assert_eq!((outcome.replies, provider.requests().len()), (4, 4));
    let End::Aborted { reason, source, .. } = outcome.end else {
        panic!();
    };
    assert_eq!(
        (reason, source),
        (AbortReason::Error, AbortSource::Limit("max_replies"))
    );
}

/// Tools whose `read` is concurrent. A `read` of "slow" ends after the next call of `read` has begun, and one of "hang"
/// never ends.
#[derive(Default)]
struct ConcurrentTools {
    /// The calls in the order in which they began and ended.
    log: Mutex<Vec<String>>,
    next: tokio::sync::Notify,
}

impl ConcurrentTools {
    fn record(&self, what: &str, call: &ToolCall) {
        self.log
            .lock()
            .unwrap()
            .push(format!("{what} {}", call.call));
    }

    fn log(&self) -> String {
        self.log.lock().unwrap().join(", ")
    }
}

impl Tools for ConcurrentTools {
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    fn is_concurrent(&self, tool: &str) -> bool {
        tool == "read"
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        self.record("begin", call);
        Box::pin(async move {
            match call.input.as_str() {
                "slow" => self.next.notified().await,
                "hang" => std::future::pending().await,
                _ => self.next.notify_one(),
            }
            self.record("end", call);
            ToolOutput::output(format!("output of {}", call.call))
        })
    }
}

/// Runs a turn of one reply with calls (tool, id, input), and returns its messages' results and the end.
fn concurrent(
    processor: &mut Processor,
    tools: &ConcurrentTools,
    calls: &[(&str, &str, &str)],
    cancel: &Cancel,
) -> (Vec<String>, End) {
    let script = calls
        .iter()
        .fold(ScriptedReply::default(), |script, (tool, id, input)| {
            script.tool(tool, id, input)
        });
    let answer = || ScriptedReply::default().text("Done.").finish("stop");
    let mut provider = Scripted::new([script.finish("tool_use"), answer(), answer()]);
    let turn = AgentTurn::new(processor, &mut provider, tools, cancel.clone());
    let request = Request::new("model", vec![Message::user("Go.")]);
    let outcome = runtime().block_on(async {
        let mut watch = |_: &Step| {};
        let user = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if calls.iter().any(|(.., input)| *input == "hang") {
                cancel.cancel();
            }
        };
        tokio::join!(turn.run(request, "m", &mut watch), user).0
    });
    let results = outcome.added.iter().flat_map(|message| &message.content);
    let results = results.filter_map(|content| match content {
        Content::ToolResult { call, output, .. } => Some(format!("{call}: {output}")),
        _ => None,
    });
    (results.collect(), outcome.end)
}

#[test]
fn f10_concurrent_calls_run_at_the_same_time_and_results_keep_the_order_of_the_reply() {
    let tools = ConcurrentTools::default();
    let calls = [
        ("read", "c1", "slow"),
        ("read", "c2", "{}"),
        ("write", "c3", "{}"),
        ("read", "c4", "{}"),
    ];
    let (results, end) = concurrent(&mut plain(), &tools, &calls, &Cancel::default());
    assert!(matches!(end, End::Complete { .. }), "{end:?}");
    assert_eq!(
        tools.log(),
        "begin c1, begin c2, end c2, end c1, begin c3, end c3, begin c4, end c4"
    );
    let expected = ["c1", "c2", "c3", "c4"].map(|call| format!("{call}: output of {call}"));
    assert_eq!(results, expected);
}

#[test]
fn a_cancel_keeps_the_results_before_the_first_call_that_had_not_ended() {
    let tools = ConcurrentTools::default();
    let calls = [
        ("read", "c1", "{}"),
        ("read", "c2", "hang"),
        ("read", "c3", "{}"),
        ("write", "c4", "{}"),
    ];
    let (results, end) = concurrent(&mut plain(), &tools, &calls, &Cancel::default());
    let End::Aborted { reason, .. } = end else {
        panic!("{end:?}");
    };
    assert_eq!(reason, AbortReason::User);
    assert_eq!(tools.log(), "begin c1, end c1, begin c2, begin c3, end c3");
    let aborted = |call: &str| format!("{call}: {TOOL_ABORTED}");
    let expected = [
        "c1: output of c1".to_owned(),
        aborted("c2"),
        aborted("c3"),
        aborted("c4"),
    ];
    assert_eq!(results, expected);
}

#[test]
fn a_call_about_which_a_sub_agent_is_asked_waits_for_the_concurrent_calls_before_it() {
    let mut asks = Rule::new("t/ask", vec![Pattern::literal("secret")]);
    asks.on = vec![Channel::ToolInput];
    asks.action = Action::Consult;
    asks.consult = Some(Consult::new("May it?"));
    let mut aborts = Rule::new("t/stop", vec![Pattern::literal("output of c9")]);
    aborts.on = vec![Channel::ToolOutput];
    aborts.action = Action::Abort;
    let pack = Pack::builder().rule(asks).rule(aborts).build().unwrap();
    let processor = || Processor::new(&pack, Hooks::default(), Settings::default());

    let tools = ConcurrentTools::default();
    let calls = [
        ("read", "c1", "{}"),
        ("read", "c2", "a secret"),
        ("read", "c3", "{}"),
    ];
    let (results, _) = concurrent(&mut processor(), &tools, &calls, &Cancel::default());
    assert!(
        tools.log().starts_with("begin c1, end c1"),
        "{}",
        tools.log()
    );
    assert_eq!(results.len(), 3, "{results:?}");

    // An output that ends the turn: the question is dropped, and each later call has a result.
    let tools = ConcurrentTools::default();
    let calls = [
        ("read", "c9", "{}"),
        ("read", "c2", "a secret"),
        ("read", "c3", "{}"),
    ];
    let (results, end) = concurrent(&mut processor(), &tools, &calls, &Cancel::default());
    assert!(matches!(end, End::Aborted { .. }), "{end:?}");
    assert_eq!(tools.log(), "begin c9, end c9");
    assert_eq!(results.len(), 3, "{results:?}");
    assert_eq!(
        results[1..],
        ["c2", "c3"].map(|call| format!("{call}: {TOOL_ABORTED}"))
    );
}

#[test]
fn a_cancel_ends_the_tool_at_work_and_each_call_has_a_result() {
    let cancel = Cancel::default();
    let hangs = Echo {
        hangs: true,
        ..Echo::default()
    };
    let script = ScriptedReply::default()
        .tool("bash", "c1", "{}")
        .tool("read", "c2", "{}");
    let mut processor = plain();
    let mut provider = Scripted::new([script.finish("tool_use")]);
    let tools = hangs.clone();
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, cancel.clone());
    let request = Request::new("model", vec![Message::user("Go.")]);
    let outcome = runtime().block_on(async {
        let mut watch = |_: &Step| {};
        let turn = turn.run(request, "m", &mut watch);
        let user = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cancel.cancel();
        };
        tokio::join!(turn, user).0
    });
    assert!(matches!(
        outcome.end,
        End::Aborted {
            reason: AbortReason::User,
            ..
        }
    ));
    assert_eq!(
        *hangs.calls.lock().unwrap(),
        ["bash"],
        "the second one never began"
    );
    let results = outcome.added.iter().flat_map(|message| &message.content);
    let results = results.filter(
        |content| matches!(content, Content::ToolResult { output, .. } if output == TOOL_ABORTED),
    );
    assert_eq!(results.count(), 2);
}

#[test]
fn a_tool_call_that_was_cut_never_runs() {
    let mut rule = Rule::new("p/no-rm", vec![Pattern::literal("rm -rf")]);
    rule.action = Action::Abort;
    // The first call is complete when the second one is cut.
    let script = ScriptedReply::default().tool("read", "c1", "{}");
    let script = script
        .tool("bash", "c2", r#"{"command":"rm -rf /"}"#)
        .finish("tool_use");
    let ran = ran(&mut processor([rule], Settings::default()), vec![script]);
    assert_eq!(ran.called(), Vec::<String>::new());
    assert!(matches!(ran.outcome.end, End::Aborted { .. }));
}

/// The example of the row: a commit is reviewed first.
fn commit() -> Rule {
    let mut rule = Rule::new("p/commit", vec![Pattern::literal("git commit")]);
    rule.action = Action::Consult;
    rule.on = vec![Channel::ToolInput];
    (rule.tools, rule.args) = (vec!["bash".into()], vec!["command".into()]);
    rule.consult = Some(Consult {
        model: Some("haiku".into()),
        ..Consult::new("Do the docs fit `{{ match.text }}`?")
    });
    rule
}

const COMMIT: &str = r#"{"command":"git commit -m x"}"#;

#[test]
fn a_sub_agent_is_asked_before_the_call_runs_and_the_model_decides() {
    let scripts = vec![
        calls("bash", COMMIT),
        // The sub-agent reads a file first.
        calls("read", r#"{"path":"CHANGELOG.md"}"#),
        ScriptedReply::default()
            .text("Let me see.")
            .text("Mention it in CHANGELOG.md.")
            .finish("stop"),
        // The agent has the answer and sends the call again.
        calls("bash", COMMIT),
        text("committed"),
    ];
    let settings = Settings {
        session: "ses_1".into(),
        ..Settings::default()
    };
    // Each request carries the ids of its session.
    let mut hooks = Hooks::default();
    hooks.register("whose", Whose);
    let pack = Pack::builder().rule(commit()).build().unwrap();
    let ran = ran(&mut Processor::new(&pack, hooks, settings), scripts);
    assert_eq!(ran.outcome.reply.text(Channel::Text), "committed");
    let whose: Vec<_> = ran.provider.requests().iter().map(whose).collect();
    let own = ("ses_1".to_owned(), None);
    let child = ("ses_1/c1".to_owned(), Some("ses_1".to_owned()));
    assert_eq!(
        whose,
        [own.clone(), child.clone(), child, own.clone(), own],
        "the sub-agent has a session of its own, below that of the agent"
    );
    let opened = ran.steps.iter().filter_map(|step| match step {
        Step::Observe(LoopEvent::SubAgent {
            session, parent, ..
        }) => Some((&**session, &**parent)),
        _ => None,
    });
    assert_eq!(opened.collect::<Vec<_>>(), [("ses_1/c1", "ses_1")]);
    let mut tracker = EventTracker::default();
    let logged = ran.steps.iter();
    let logged = logged.filter_map(|step| tracker.track(Duration::ZERO, step));
    let expected = LoopEvent::SubAgent {
        session: "ses_1/c1".into(),
        parent: "ses_1".into(),
        call: "c1".into(),
        by: "p/commit".into(),
    };
    assert_eq!(logged.filter(|event| *event == expected).count(), 1);
    assert_eq!(
        ran.called(),
        ["read", "bash"],
        "the commit ran once, afterwards"
    );
    let requests = ran.provider.requests();
    assert_eq!(requests[1].model, "haiku");
    assert_eq!(
        requests[1].messages[0].text(),
        "Do the docs fit `git commit`?"
    );
    let last = requests[3].messages.last().unwrap();
    let Content::Text { text, synthetic } = &last.content[0] else {
        panic!("{last:?}");
    };
    assert!(
        *synthetic && text.ends_with("Mention it in CHANGELOG.md."),
        "its last text: {text}"
    );
    assert!(matches!(ran.consulted()[..], [ConsultOutcome::Answered(_)]));
    assert!(ran.told()[0].contains("has not run yet"));
}

/// A hook that puts the ids of a request's session into its headers.
struct Whose;

impl Hook for Whose {
    fn points(&self) -> &[HookPoint] {
        &[HookPoint::Headers]
    }

    fn headers(&mut self, target: &RequestTarget, headers: &mut Vec<(String, String)>) {
        headers.push(("session".into(), target.session.clone()));
        headers.extend(
            target
                .parent
                .clone()
                .map(|parent| ("parent".into(), parent)),
        );
    }
}

/// Returns the session of a request, and the session that opened it.
fn whose(request: &Request) -> (String, Option<String>) {
    let header = |wanted: &str| {
        let found = request.headers.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.clone())
    };
    (header("session").unwrap(), header("parent"))
}

#[test]
fn the_same_call_twice_in_one_reply_does_not_run_before_the_answer_was_seen() {
    let twice = || {
        let script = ScriptedReply::default().tool("bash", "c1", COMMIT);
        script.tool("bash", "c2", COMMIT).finish("tool_use")
    };
    let scripts = vec![
        twice(),
        text("Mention it in CHANGELOG.md."),
        text("never mind"),
    ];
    let ran = ran(&mut processor([commit()], Settings::default()), scripts);
    assert_eq!(ran.called(), Vec::<String>::new());
    assert_eq!(ran.consulted().len(), 1, "nobody is asked twice");
    let told = ran.told();
    assert!(told.len() == 2 && told.iter().all(|told| told.contains("has not run yet")));
    // The answer comes once, after the results of both calls.
    let last: Vec<Role> = ran.provider.requests()[2]
        .messages
        .iter()
        .map(|message| message.role)
        .collect();
    let expected = [
        Role::User,
        Role::Assistant,
        Role::Tool,
        Role::Tool,
        Role::User,
    ];
    assert_eq!(last, expected);
}

/// Two questions about the same call have a session each.
#[test]
fn each_sub_agent_has_a_session_of_its_own() {
    let mut hooks = Hooks::default();
    hooks.register("whose", Whose);
    hooks.on_tool_before("review", |call, before| {
        if call.tool == "bash" {
            before.consult(Consult::new("Is it tested?"));
        }
    });
    let pack = Pack::builder().rule(commit()).build().unwrap();
    let settings = Settings {
        session: "ses_1".into(),
        ..Settings::default()
    };
    let scripts = vec![
        calls("bash", COMMIT),
        text("Fine."),
        text("It is."),
        text("never mind"),
    ];
    let ran = ran(&mut Processor::new(&pack, hooks, settings), scripts);
    let requests = ran.provider.requests();
    let sessions = requests[1..3].iter().map(whose);
    let sessions: Vec<String> = sessions.map(|(session, _)| session).collect();
    assert_eq!(sessions, ["ses_1/c1", "ses_1/c1-2"]);
}

/// Returns hooks that record every delta and every call with its session, and block `sudo`.
fn guarding(seen: &Arc<Mutex<Vec<String>>>) -> Hooks {
    let mut hooks = Hooks::default();
    let deltas = Arc::clone(seen);
    hooks.on_delta("deltas", move |at, _| {
        if at.channel == Channel::Text {
            deltas.lock().unwrap().push(format!("delta {}", at.session));
        }
    });
    let calls = Arc::clone(seen);
    hooks.on_tool_before("no-sudo", move |call, before| {
        let line = format!("call {} {}", call.session, call.tool);
        calls.lock().unwrap().push(line);
        if before.input.contains("sudo") {
            before.block("No sudo.");
        }
    });
    hooks
}

#[test]
fn hooks_of_the_host_guard_sub_agents_too() {
    let seen = Arc::default();
    let pack = Pack::builder().rule(commit()).build().unwrap();
    let settings = Settings {
        session: "ses_1".into(),
        ..Settings::default()
    };
    let mut processor = Processor::new(&pack, guarding(&seen), settings);
    const SUDO: &str = r#"{"command":"sudo ls"}"#;
    let scripts = vec![
        calls("bash", COMMIT),
        calls("bash", SUDO),
        text("Fine."),
        calls("bash", SUDO),
        text("never mind"),
    ];
    let ran = ran(&mut processor, scripts);
    assert_eq!(ran.called(), Vec::<String>::new(), "neither ran `sudo`");
    let blocked = ran.told().into_iter().filter(|told| told == "No sudo.");
    assert_eq!(blocked.count(), 1, "what the sub-agent was told is its own");
    let heard = ran.provider.requests()[2].messages.last().cloned().unwrap();
    let told = |content: &Content| matches!(content, Content::ToolResult { output, .. } if output == "No sudo.");
    assert!(heard.content.iter().any(told), "{heard:?}");
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "call ses_1 bash",
            "call ses_1/c1 bash",
            "delta ses_1/c1",
            "call ses_1 bash",
            "delta ses_1"
        ]
    );
}

/// The host has its hooks back, whatever ends the sub-agent. Here the host drops the turn.
#[test]
fn hooks_come_back_from_a_sub_agent_that_is_forgotten() {
    let seen = Arc::default();
    let pack = Pack::builder().rule(commit()).build().unwrap();
    let mut processor = Processor::new(&pack, guarding(&seen), Settings::default());
    let mut provider = Scripted::new([
        calls("bash", COMMIT),
        ScriptedReply::default().text("Let me").hang(),
    ]);
    let kept = provider.clone();
    let tools = Echo::default();
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
    let request = Request::new("model", vec![Message::user("Go.")]);
    runtime().block_on(async {
        let mut watch = |_: &Step| {};
        let asked = async {
            while kept.requests().len() < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = turn.run(request, "m", &mut watch) => panic!("it hangs"),
            () = asked => {}
        }
    });
    let call = ToolCall {
        tool: "bash".into(),
        input: "sudo".into(),
        ..ToolCall::default()
    };
    let gate = processor.before_tool(call, &mut Vec::new());
    assert!(matches!(gate, Gate::Blocked(..)));
}

/// The first half of an answer may mean the opposite of the whole.
#[test]
fn an_answer_that_the_length_limit_cut_is_no_answer() {
    for (blocks_on_failure, ran_then) in [(true, 0), (false, 1)] {
        let mut rule = commit();
        rule.consult = Some(Consult {
            blocks_on_failure,
            ..Consult::new("?")
        });
        let cut = ScriptedReply::default()
            .text("Commit it")
            .finish("max_tokens");
        let scripts = vec![calls("bash", COMMIT), cut, text("done")];
        let ran = ran(&mut processor([rule], Settings::default()), scripts);
        let refused = ConsultOutcome::Refused {
            reason: "max_tokens".into(),
        };
        assert_eq!(ran.consulted(), [&refused]);
        assert_eq!(ran.called().len(), ran_then);
    }
}

#[test]
fn a_reply_that_the_length_limit_cut_is_no_complete_answer() {
    let cut = ScriptedReply::default().text("Once upon").finish("length");
    let ran = ran(&mut plain(), vec![cut]);
    let reason = "length".to_owned();
    assert_eq!(ran.outcome.end, End::Truncated { reason });
    assert_eq!(ran.outcome.reply.text(Channel::Text), "Once upon");
    assert_eq!(
        ran.outcome.added.len(),
        1,
        "the model will see how far it came"
    );
}

/// Every turn that is aborted notifies the hooks once, whatever its stage.
#[test]
fn a_turn_that_ends_between_replies_is_an_abort() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let hooks = move || {
        let told = Arc::clone(&heard);
        let mut hooks = Hooks::default();
        hooks.on_aborted("count", move |aborted, answer| {
            let line = format!("{} {:?}", aborted.stage.name(), aborted.source);
            told.lock().unwrap().push(line);
            answer.retry = true;
        });
        hooks
    };
    let mut worm = Rule::new("p/worm", vec![Pattern::literal("worm")]);
    (worm.action, worm.on) = (Action::Abort, vec![Channel::ToolOutput]);
    let pack = Pack::builder().rule(worm).build().unwrap();
    let processor = || Processor::new(&pack, hooks(), Settings::default());
    let is_aborted = |step: &&Step| matches!(step, Step::Aborted(aborted) if !aborted.retry);

    // A rule refuses the output of a tool.
    let refused = ran(&mut processor(), vec![calls("read", "worm"), text("done")]);
    assert!(matches!(refused.outcome.end, End::Aborted { .. }));
    assert_eq!(refused.steps.iter().filter(is_aborted).count(), 1);
    let is_refused = |step: &Step| matches!(step, Step::Observe(LoopEvent::RetryRefused { .. }));
    assert!(refused.steps.iter().any(is_refused), "a turn has no retry");

    // The model never stops to call tools.
    let mut own = processor();
    let mut provider = Scripted::new([calls("read", "{}")]);
    let tools = Echo::default();
    let turn = AgentTurn::new(&mut own, &mut provider, &tools, Cancel::default());
    let request = Request::new("model", vec![Message::user("Go.")]);
    runtime().block_on(turn.max_replies(2).run(request, "m", &mut |_| {}));

    // The user cancels a tool.
    let cancel = Cancel::default();
    let tools = Echo {
        hangs: true,
        ..Echo::default()
    };
    let (mut own, kept, switch) = (processor(), tools.clone(), cancel.clone());
    std::thread::spawn(move || {
        while kept.calls.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        switch.cancel();
    });
    let cancelled = ran_with(&mut own, vec![calls("read", "{}")], tools, &cancel);
    assert!(matches!(cancelled.outcome.end, End::Aborted { .. }));
    let told = told.lock().unwrap();
    assert!(told[0].starts_with("tools Rule"), "{told:?}");
    assert_eq!(told[1..], ["tools Limit(\"max_replies\")", "tools User"]);
}

#[test]
fn a_sub_agent_has_the_models_and_tools_that_the_rule_names() {
    let mut rule = commit();
    rule.consult = Some(Consult {
        tools: vec!["read".into()],
        ..Consult::new("?")
    });
    let scripts = vec![
        calls("bash", COMMIT),
        calls("write", "{}"),
        text("fine"),
        text("never mind"),
    ];
    let ran = ran(&mut processor([rule], Settings::default()), scripts);
    let asked = &ran.provider.requests()[1];
    let names: Vec<&str> = asked.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!((names, &*asked.model), (vec!["read"], "model"));
    assert_eq!(
        ran.called(),
        Vec::<String>::new(),
        "a tool it was not given does not run"
    );
}

#[test]
fn only_the_argument_of_the_tool_that_the_rule_names_is_asked_about() {
    for (tool, input) in [
        ("write", COMMIT),
        ("bash", r#"{"description":"git commit"}"#),
        ("bash", r#"{"command":"git status"}"#),
    ] {
        let ran = ran(
            &mut processor([commit()], Settings::default()),
            vec![calls(tool, input), text("done")],
        );
        assert_eq!(
            (ran.called().len(), ran.consulted().len()),
            (1, 0),
            "{tool} {input}"
        );
    }
    let escaped = r#"{"command":"git \u0063ommit"}"#;
    let scripts = vec![calls("bash", escaped), text("fine"), text("done")];
    let ran = ran(&mut processor([commit()], Settings::default()), scripts);
    assert_eq!(ran.consulted().len(), 1, "the decoded input counts");
}

#[test]
fn where_nobody_answers_the_call_runs_or_is_blocked_as_the_rule_says() {
    let failing = ScriptedReply::default().fail(Failure::new("500", "no"));
    let silent = ScriptedReply::default().text("  ").finish("stop");
    let refusing = ScriptedReply::default().text("I").finish("refusal");
    let hanging = ScriptedReply::default().text("Let me").hang();
    let is_failed = |it: &ConsultOutcome| {
        matches!(
            it,
            ConsultOutcome::Failed {
                reason: AbortReason::Error,
                ..
            }
        )
    };
    let is_refused = |it: &ConsultOutcome| matches!(it, ConsultOutcome::Refused { .. });
    let is_late = |it: &ConsultOutcome| *it == ConsultOutcome::TimedOut;
    type Expected = fn(&ConsultOutcome) -> bool;
    let cases: [(ScriptedReply, Expected); 4] = [
        (failing, is_failed),
        (silent, is_refused),
        (refusing, is_refused),
        (hanging, is_late),
    ];
    for (script, is_expected) in cases {
        for blocks_on_failure in [false, true] {
            let mut rule = commit();
            rule.consult = Some(Consult {
                timeout_millis: 30,
                blocks_on_failure,
                ..Consult::new("?")
            });
            let scripts = vec![calls("bash", COMMIT), script.clone(), text("done")];
            let ran = ran(&mut processor([rule], Settings::default()), scripts);
            assert!(is_expected(ran.consulted()[0]), "{:?}", ran.consulted());
            assert_eq!(ran.called().is_empty(), blocks_on_failure);
            assert_eq!(
                ran.told()[0].starts_with("The call was blocked"),
                blocks_on_failure
            );
            assert_eq!(
                ran.outcome.reply.text(Channel::Text),
                "done",
                "it never hangs"
            );
        }
    }
}

#[test]
fn a_sub_agent_asks_nobody() {
    let scripts = vec![
        calls("bash", COMMIT),
        // The sub-agent commits too.
        calls("bash", COMMIT),
        text("fine"),
        text("done"),
    ];
    let ran = ran(&mut processor([commit()], Settings::default()), scripts);
    assert_eq!(ran.provider.requests().len(), 4, "no third session");
    assert_eq!(ran.called(), ["bash"], "its own call ran, unasked");
    assert_eq!(ran.consulted().len(), 1);
}

#[test]
fn a_sub_agent_is_cancelled_with_its_parent() {
    let cancel = Cancel::default();
    let mut processor = processor([commit()], Settings::default());
    let mut provider = Scripted::new([
        calls("bash", COMMIT),
        ScriptedReply::default().text("Let").hang(),
    ]);
    let tools = Echo::default();
    let kept = provider.clone();
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, cancel.clone());
    let request = Request::new("model", vec![Message::user("Go.")]);
    let outcome = runtime().block_on(async {
        let mut watch = |_: &Step| {};
        let turn = turn.run(request, "m", &mut watch);
        let user = async {
            while kept.requests().len() < 2 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        tokio::join!(turn, user).0
    });
    assert!(matches!(
        outcome.end,
        End::Aborted {
            reason: AbortReason::User,
            ..
        }
    ));
    assert_eq!(kept.cancelled(), [false, true], "its transport was dropped");
    assert_eq!(*tools.calls.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn a_hook_asks_inline() {
    let mut hooks = Hooks::default();
    hooks.on_tool_before("review", |call, before| {
        if call.tool == "write" {
            before.consult(Consult::new("Is it tested?"));
        }
    });
    let pack = Pack::builder().build().unwrap();
    let mut processor = Processor::new(&pack, hooks, Settings::default());
    let scripts = vec![
        calls("write", "{}"),
        text("No."),
        text("I will test first."),
    ];
    let ran = ran(&mut processor, scripts);
    assert_eq!(ran.outcome.reply.text(Channel::Text), "I will test first.");
    let heard = ran.provider.requests()[2].messages.last().unwrap().text();
    assert!(
        heard.contains("review asked") && heard.ends_with("No."),
        "{heard}"
    );
}

fn limited() -> ScriptedReply {
    ScriptedReply::default().fail(Failure::new("429", "429 Too Many Requests"))
}

fn with_chain() -> Processor {
    let pack = Pack::builtin("opencode/foreground-fallback").unwrap();
    let settings = Settings {
        fallback: Chains::default().chain("orchestrator", ["model", "second", "third"]),
        ..Settings::default()
    };
    let mut processor = Processor::new(&pack, Hooks::default(), settings);
    processor.set_origin(Origin {
        agent: Some("orchestrator".into()),
        model: Some("model".into()),
        provider: None,
    });
    processor
}

#[test]
fn a_rate_limit_takes_the_next_model_of_the_chain_with_the_same_message() {
    let mut processor = with_chain();
    let ran = ran(&mut processor, vec![limited(), limited(), text("hello")]);
    let requests = ran.provider.requests();
    let models: Vec<&str> = requests.iter().map(|request| &*request.model).collect();
    assert_eq!(models, ["model", "second", "third"]);
    assert!(
        requests
            .iter()
            .all(|request| request.messages[0].text() == "Go.")
    );
    assert_eq!(ran.outcome.reply.text(Channel::Text), "hello");
}

#[test]
fn the_status_of_a_failure_counts_where_its_text_does_not_mention_it() {
    for (status, takes_next) in [(429, true), (529, true), (401, false)] {
        let mut processor = with_chain();
        let failure = Failure::new("http", "busy").with_status(status);
        let refused = ScriptedReply::default().fail(failure);
        let ran = ran(&mut processor, vec![refused, text("hello")]);
        assert_eq!(ran.provider.requests().len() == 2, takes_next, "{status}");
    }
}

#[test]
fn tried_models_are_remembered_so_a_session_cannot_loop() {
    let mut processor = with_chain();
    let first = ran(&mut processor, vec![limited()]);
    assert_eq!(first.provider.requests().len(), 3, "each model once");
    assert!(matches!(
        first.outcome.end,
        End::Aborted {
            reason: AbortReason::Error,
            ..
        }
    ));
    let is_spent = |step: &Step| matches!(step, Step::Observe(LoopEvent::NoFallback));
    assert!(first.steps.iter().any(is_spent));
    let second = ran(&mut processor, vec![limited()]);
    assert_eq!(
        second.provider.requests().len(),
        1,
        "none is left in this session"
    );
}

#[test]
fn another_failure_takes_no_other_model() {
    let script = ScriptedReply::default().fail(Failure::new("400", "bad request: no such field"));
    let ran = ran(&mut with_chain(), vec![script]);
    assert_eq!(ran.provider.requests().len(), 1);
}
