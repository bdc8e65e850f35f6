//! Whole turns: tools between replies, sub-agents that are asked, and a second model.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ttsr::harness::consult::Consulted;
use ttsr::harness::fallback::Chains;
use ttsr::harness::{
    After, Cancel, Content, End, Failure, Hooks, Message, Observation, Processor, Reason, Request,
    Script, Scripted, Settings, Source, Step, TOOL_ABORTED, Tool, ToolCall, ToolFuture, Tools,
    Turn, TurnOutcome,
};
use ttsr::{Action, Channel, Consult, Origin, Pack, Pattern, Rule};

use super::{runtime, text};

/// Tools that say what they were called with, and remember it.
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

    fn call<'a>(&'a mut self, call: &'a ToolCall) -> ToolFuture<'a> {
        self.calls.lock().unwrap().push(call.tool.clone());
        let hangs = self.hangs;
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            After::output(format!("ran {}", call.input))
        })
    }
}

struct Ran {
    outcome: TurnOutcome,
    steps: Vec<Step>,
    provider: Scripted,
    tools: Echo,
}

fn ran(processor: &mut Processor, scripts: Vec<Script>) -> Ran {
    ran_with(processor, scripts, Echo::default(), &Cancel::default())
}

fn ran_with(processor: &mut Processor, scripts: Vec<Script>, tools: Echo, cancel: &Cancel) -> Ran {
    let mut provider = Scripted::new(scripts);
    let kept = provider.clone();
    let mut steps = Vec::new();
    let mut own = tools.clone();
    let turn = Turn::new(processor, &mut provider, &mut own, cancel.clone());
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
    /// What the model was told of its calls, in the end.
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

    fn consulted(&self) -> Vec<&Consulted> {
        let consulted = self.steps.iter().filter_map(|step| match step {
            Step::Observe(Observation::Consulted { consulted, .. }) => Some(consulted),
            _ => None,
        });
        consulted.collect()
    }
}

fn calls(tool: &str, input: &str) -> Script {
    Script::default().tool(tool, "c1", input).finish("tool_use")
}

fn processor(rules: impl IntoIterator<Item = Rule>, settings: Settings) -> Processor {
    let pack = rules
        .into_iter()
        .fold(Pack::builder(), |pack, rule| pack.rule(rule));
    Processor::new(pack.build().unwrap().session(), Hooks::default(), settings)
}

fn plain() -> Processor {
    processor([], Settings::default())
}

#[test]
fn a10_a_tool_result_is_an_event_and_enters_the_next_request() {
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
    let mut tools = Echo::default();
    let turn = Turn::new(&mut processor, &mut provider, &mut tools, Cancel::default());
    let request = Request::new("model", vec![Message::user("Go.")]);
    let outcome = runtime().block_on(turn.max_replies(4).run(request, "m", &mut |_| {}));
    assert_eq!((outcome.replies, provider.requests().len()), (4, 4));
    let End::Aborted { reason, source, .. } = outcome.end else {
        panic!();
    };
    assert_eq!(
        (reason, source),
        (Reason::Error, Source::Limit("max_replies"))
    );
}

#[test]
fn a_cancel_ends_the_tool_at_work_and_each_call_has_a_result() {
    let cancel = Cancel::default();
    let hangs = Echo {
        hangs: true,
        ..Echo::default()
    };
    let script = Script::default()
        .tool("bash", "c1", "{}")
        .tool("read", "c2", "{}");
    let mut processor = plain();
    let mut provider = Scripted::new([script.finish("tool_use")]);
    let mut tools = hangs.clone();
    let turn = Turn::new(&mut processor, &mut provider, &mut tools, cancel.clone());
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
            reason: Reason::User,
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
    // The first call is complete before the second one is cut.
    let script = Script::default().tool("read", "c1", "{}");
    let script = script
        .tool("bash", "c2", r#"{"command":"rm -rf /"}"#)
        .finish("tool_use");
    let ran = ran(&mut processor([rule], Settings::default()), vec![script]);
    assert_eq!(ran.called(), Vec::<String>::new());
    assert!(matches!(ran.outcome.end, End::Aborted { .. }));
}

/// The example of the row: a commit is looked at first.
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
fn d1_a_sub_agent_is_asked_before_the_call_runs_and_the_model_decides() {
    let scripts = vec![
        calls("bash", COMMIT),
        // The sub-agent, which looks first.
        calls("read", r#"{"path":"CHANGELOG.md"}"#),
        Script::default()
            .text("Let me see.")
            .text("Mention it in CHANGELOG.md.")
            .finish("stop"),
        // The agent heard it, and sends the call again.
        calls("bash", COMMIT),
        text("committed"),
    ];
    let settings = Settings {
        session: "ses_1".into(),
        ..Settings::default()
    };
    let ran = ran(&mut processor([commit()], settings), scripts);
    assert_eq!(ran.outcome.reply.text(Channel::Text), "committed");
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
    assert!(matches!(ran.consulted()[..], [Consulted::Answered(_)]));
    assert!(ran.told()[0].contains("has not run yet"));
}

#[test]
fn d1_a_sub_agent_has_the_models_and_tools_that_the_rule_names() {
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
fn d2_only_the_argument_of_the_tool_that_the_rule_names_is_asked_about() {
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
fn d3_where_nobody_answers_the_call_runs_or_is_blocked_as_the_rule_says() {
    let failing = Script::default().fail(Failure::new("500", "no"));
    let silent = Script::default().text("  ").finish("stop");
    let refusing = Script::default().text("I").finish("refusal");
    let hanging = Script::default().text("Let me").hang();
    let is_failed = |it: &Consulted| {
        matches!(
            it,
            Consulted::Failed {
                reason: Reason::Error,
                ..
            }
        )
    };
    let is_refused = |it: &Consulted| matches!(it, Consulted::Refused { .. });
    let is_late = |it: &Consulted| *it == Consulted::TimedOut;
    type Expected = fn(&Consulted) -> bool;
    let cases: [(Script, Expected); 4] = [
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
fn d3_a_sub_agent_asks_nobody() {
    let scripts = vec![
        calls("bash", COMMIT),
        // The sub-agent wants to commit, too.
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
fn d3_a_sub_agent_is_cancelled_with_its_parent() {
    let cancel = Cancel::default();
    let mut processor = processor([commit()], Settings::default());
    let mut provider = Scripted::new([calls("bash", COMMIT), Script::default().text("Let").hang()]);
    let mut tools = Echo::default();
    let kept = provider.clone();
    let turn = Turn::new(&mut processor, &mut provider, &mut tools, cancel.clone());
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
            reason: Reason::User,
            ..
        }
    ));
    assert_eq!(kept.cancelled(), [false, true], "its transport was dropped");
    assert_eq!(*tools.calls.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn d4_a_hook_asks_inline() {
    let mut hooks = Hooks::default();
    hooks.on_tool_before("review", |call, before| {
        if call.tool == "write" {
            before.consult(Consult::new("Is it tested?"));
        }
    });
    let pack = Pack::builder().build().unwrap();
    let mut processor = Processor::new(pack.session(), hooks, Settings::default());
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

fn limited() -> Script {
    Script::default().fail(Failure::new("429", "429 Too Many Requests"))
}

fn with_chain() -> Processor {
    let pack = Pack::builtin("opencode/foreground-fallback").unwrap();
    let settings = Settings {
        fallback: Chains::default().chain("orchestrator", ["model", "second", "third"]),
        ..Settings::default()
    };
    let mut processor = Processor::new(pack.session(), Hooks::default(), settings);
    processor.set_origin(Origin {
        agent: Some("orchestrator".into()),
        model: Some("model".into()),
        provider: None,
    });
    processor
}

#[test]
fn c6_a_rate_limit_takes_the_next_model_of_the_chain_with_the_same_message() {
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
fn c6_the_status_of_a_failure_counts_where_its_text_does_not_mention_it() {
    for (status, takes_next) in [(429, true), (529, true), (401, false)] {
        let mut processor = with_chain();
        let failure = Failure::new("http", "busy").with_status(status);
        let refused = Script::default().fail(failure);
        let ran = ran(&mut processor, vec![refused, text("hello")]);
        assert_eq!(ran.provider.requests().len() == 2, takes_next, "{status}");
    }
}

#[test]
fn c6_tried_models_are_remembered_so_a_session_cannot_loop() {
    let mut processor = with_chain();
    let first = ran(&mut processor, vec![limited()]);
    assert_eq!(first.provider.requests().len(), 3, "each model once");
    assert!(matches!(
        first.outcome.end,
        End::Aborted {
            reason: Reason::Error,
            ..
        }
    ));
    let is_spent = |step: &Step| matches!(step, Step::Observe(Observation::NoFallback));
    assert!(first.steps.iter().any(is_spent));
    let second = ran(&mut processor, vec![limited()]);
    assert_eq!(
        second.provider.requests().len(),
        1,
        "none is left in this session"
    );
}

#[test]
fn c6_another_failure_takes_no_other_model() {
    let script = Script::default().fail(Failure::new("400", "bad request: no such field"));
    let ran = ran(&mut with_chain(), vec![script]);
    assert_eq!(ran.provider.requests().len(), 1);
}
