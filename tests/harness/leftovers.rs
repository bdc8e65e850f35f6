//! The state after a cut, a cancel or an end contains nothing that must not affect a later reply.

use std::time::Duration;

use ttsr::harness::consult::ConsultOutcome;
use ttsr::harness::{
    AgentTurn, Cancel, Content, End, Gate, Hooks, Input, Message, OnHookFault, Processor,
    ReplyOutcome, Request, Role, Scripted, ScriptedReply, Settings, Step, Tool, ToolCall,
    ToolFuture, ToolOutput, Tools,
};
use ttsr::rule::{Consult, Repeat};
use ttsr::{Action, Channel, Event, Pack, PartId, Pattern, Rule};

use super::{delta, play, runtime, text};

fn processor(rules: impl IntoIterator<Item = Rule>) -> Processor {
    let pack = rules
        .into_iter()
        .fold(Pack::builder(), |pack, rule| pack.rule(rule));
    let settings = Settings {
        session: "ses_1".into(),
        ..Settings::default()
    };
    Processor::new(&pack.build().unwrap(), Hooks::default(), settings)
}

fn step(processor: &mut Processor, inputs: impl IntoIterator<Item = Input>) -> Vec<Step> {
    let mut out = Vec::new();
    for input in inputs {
        processor.step(Duration::ZERO, input, &mut out);
    }
    out
}

fn says(text: &str) -> Input {
    Input::Event(delta(0, text))
}

fn finish(reason: &str) -> [Input; 2] {
    let reason = reason.to_owned();
    [Input::Event(Event::Finish { reason }), Input::End]
}

fn handoffs(steps: &[Step]) -> usize {
    let is_handoff = |step: &&Step| matches!(step, Step::Handoff { .. });
    steps.iter().filter(is_handoff).count()
}

fn outcome(steps: &[Step]) -> &ReplyOutcome {
    match steps.last() {
        Some(Step::Finish(outcome)) => outcome,
        other => panic!("{other:?}"),
    }
}

/// Returns a rule that hands over each time it hits.
fn full(on: Channel) -> Rule {
    let mut rule = Rule::new("p/full", vec![Pattern::literal("full")]);
    (rule.action, rule.on) = (Action::Handoff, vec![on]);
    rule.message = Some("Go on.".into());
    rule.repeat = Some(Repeat::default());
    rule
}

fn no_any() -> Rule {
    let mut rule = Rule::new("p/no-any", vec![Pattern::literal(": any")]);
    (rule.action, rule.on) = (Action::Retry, vec![Channel::Text]);
    rule
}

#[test]
fn a_handoff_of_a_reply_that_was_given_up_is_not_made_by_the_next_one() {
    let mut processor = processor([full(Channel::Text)]);
    type Again = fn(&mut Processor, &mut Vec<Step>);
    let begins: [Again; 2] = [
        |processor, out| processor.begin("m2", out),
        |processor, out| processor.proceed("m2", out),
    ];
    for again in begins {
        let mut out = Vec::new();
        processor.begin("m1", &mut out);
        out.extend(step(&mut processor, [Input::Sent, says("full")]));
        again(&mut processor, &mut out);
        out.extend(step(&mut processor, [Input::Sent, says("fine")]));
        out.extend(step(&mut processor, finish("stop")));
        assert_eq!(handoffs(&out), 0);
    }
}

#[test]
fn a_handoff_of_what_the_provider_took_back_is_not_made() {
    let mut processor = processor([full(Channel::Text)]);
    let mut out = Vec::new();
    processor.begin("m", &mut out);
    let restart = Input::Event(Event::Restart);
    let inputs = [Input::Sent, says("full"), restart, says("fine")];
    out.extend(step(&mut processor, inputs));
    out.extend(step(&mut processor, finish("stop")));
    assert_eq!(handoffs(&out), 0);
}

/// The output of a tool is read once, so a handoff decided on it outlives the attempts of the following reply, but not
/// the turn.
#[test]
fn a_handoff_for_the_output_of_a_tool_outlives_an_attempt_and_not_the_turn() {
    let call = ToolCall {
        tool: "read".into(),
        call: "c1".into(),
        ..ToolCall::default()
    };
    let read = |processor: &mut Processor, out: &mut Vec<Step>| {
        processor.begin("m1", out);
        out.extend(step(processor, [Input::Sent]));
        out.extend(step(processor, finish("tool_use")));
        let told = processor.after_tool(&call, ToolOutput::output("full"), out);
        told.expect("it goes on");
    };
    let mut processor = processor([full(Channel::ToolOutput), no_any()]);
    let mut out = Vec::new();
    read(&mut processor, &mut out);
    processor.proceed("m2", &mut out);
    out.extend(step(
        &mut processor,
        [Input::Sent, says("x: any"), Input::Sent, says("x")],
    ));
    out.extend(step(&mut processor, finish("stop")));
    assert_eq!(outcome(&out).attempts, 2);
    assert_eq!(handoffs(&out), 1);

    let mut out = Vec::new();
    read(&mut processor, &mut out);
    processor.proceed("m2", &mut out);
    out.extend(step(&mut processor, [Input::Sent, Input::Cancel]));
    processor.begin("m3", &mut out);
    out.extend(step(&mut processor, [Input::Sent, says("fine")]));
    out.extend(step(&mut processor, finish("stop")));
    assert_eq!(handoffs(&out), 0, "the user has asked for something else");
}

/// Returns a rule that asks once per session. If its decision is not dropped, it never asks again.
fn once() -> Rule {
    let mut rule = Rule::new("p/commit", vec![Pattern::literal("git commit")]);
    (rule.action, rule.on) = (Action::Consult, vec![Channel::ToolInput]);
    rule.consult = Some(Consult::new("May it?"));
    rule.repeat = Some(Repeat {
        per_session: Some(1),
        ..Repeat::default()
    });
    rule
}

/// Returns a rule that asks each time it hits.
fn every() -> Rule {
    let mut rule = once();
    rule.repeat = None;
    rule
}

fn calls(part: u32, call: Option<&str>, input: &str) -> [Input; 3] {
    let start = Event::PartStart {
        part: PartId(part),
        name: part.to_string(),
        channel: Channel::ToolInput,
        tool: Some("bash".into()),
        call: call.map(str::to_owned),
    };
    let end = Event::PartEnd { part: PartId(part) };
    [start, delta(part, input), end].map(Input::Event)
}

fn asked(processor: &mut Processor, call: &str, input: &str) -> bool {
    let call = ToolCall {
        tool: "bash".into(),
        call: call.into(),
        input: input.into(),
        ..ToolCall::default()
    };
    matches!(processor.before_tool(call, &mut Vec::new()), Gate::Ask(..))
}

const COMMIT: &str = r#"{"command":"git commit"}"#;

/// A question of a rule that was not asked is dropped, whatever ended before the gate.
#[test]
fn a_question_that_was_not_asked_may_be_asked_later() {
    type Ends = fn(&mut Processor, &mut Vec<Step>);
    let ends: [(&str, Ends); 5] = [
        ("the turn ends at another call", |processor, out| {
            out.extend(step(processor, finish("tool_use")));
            let end = End::Aborted {
                reason: ttsr::harness::AbortReason::User,
                source: ttsr::harness::AbortSource::User,
                detail: String::new(),
            };
            processor.report_turn_abort(&end, out);
        }),
        ("the host forgets the calls", |processor, out| {
            out.extend(step(processor, finish("tool_use")));
        }),
        ("the user cancels the reply", |processor, out| {
            out.extend(step(processor, [Input::Cancel]));
        }),
        ("the host gives the reply up", |_, _| {}),
        ("the provider takes it back", |processor, out| {
            out.extend(step(
                processor,
                [Input::Event(Event::Restart), Input::Cancel],
            ));
        }),
    ];
    for (name, end) in ends {
        let mut processor = processor([once()]);
        let mut out = Vec::new();
        processor.begin("m1", &mut out);
        out.extend(step(&mut processor, [Input::Sent]));
        out.extend(step(&mut processor, calls(0, Some("c1"), COMMIT)));
        end(&mut processor, &mut out);
        processor.begin("m2", &mut out);
        out.extend(step(&mut processor, [Input::Sent]));
        out.extend(step(&mut processor, calls(0, Some("c2"), COMMIT)));
        out.extend(step(&mut processor, finish("tool_use")));
        assert!(asked(&mut processor, "c2", COMMIT), "{name}");
    }
}

/// A call that was incomplete at the end of the reply does not run, so nobody is asked about it.
#[test]
fn nobody_is_asked_about_a_call_that_was_never_completed() {
    for finish_reason in ["tool_use", "length"] {
        let mut processor = processor([once()]);
        let mut out = Vec::new();
        processor.begin("m1", &mut out);
        out.extend(step(&mut processor, [Input::Sent]));
        let [start, input, end] = calls(0, Some("c1"), r#"{"command":"git commit"#);
        out.extend(step(&mut processor, [start, input]));
        if finish_reason == "length" {
            out.extend(step(&mut processor, [end]));
        }
        out.extend(step(&mut processor, finish(finish_reason)));
        assert_eq!(outcome(&out).consultations, []);
        processor.proceed("m2", &mut out);
        out.extend(step(&mut processor, [Input::Sent]));
        out.extend(step(&mut processor, calls(0, Some("c2"), COMMIT)));
        out.extend(step(&mut processor, finish("tool_use")));
        assert!(
            asked(&mut processor, "c2", COMMIT),
            "and about this one yes"
        );
    }
}

/// A call whose id arrives late, or is shared by all calls, does not evade its question.
#[test]
fn a_call_is_asked_about_whatever_its_id() {
    let mut processor = processor([every()]);
    let mut out = Vec::new();
    processor.begin("m1", &mut out);
    let [start, input, end] = calls(0, None, COMMIT);
    let named = Input::Event(Event::Tool {
        part: PartId(0),
        tool: "bash".into(),
        call: Some("late".into()),
    });
    out.extend(step(
        &mut processor,
        [Input::Sent, start, input, named, end],
    ));
    out.extend(step(&mut processor, finish("tool_use")));
    assert!(asked(&mut processor, "late", COMMIT), "the id came late");

    processor.begin("m2", &mut out);
    let other = r#"{"command":"git commit -m x"}"#;
    out.extend(step(&mut processor, [Input::Sent]));
    out.extend(step(&mut processor, calls(0, Some(""), COMMIT)));
    out.extend(step(&mut processor, calls(1, Some(""), other)));
    out.extend(step(&mut processor, finish("tool_use")));
    assert!(asked(&mut processor, "", COMMIT));
    assert!(asked(&mut processor, "", other), "they share an id");
}

/// A question whose outcome the host never reported has no effect on later replies: it is asked again.
#[test]
fn an_answer_that_never_came_is_not_taken_for_one() {
    let mut processor = processor([every()]);
    let mut out = Vec::new();
    for (message, call) in [("m1", "c1"), ("m2", "c2")] {
        match message {
            "m1" => processor.begin(message, &mut out),
            _ => processor.proceed(message, &mut out),
        }
        out.extend(step(&mut processor, [Input::Sent]));
        out.extend(step(&mut processor, calls(0, Some(call), COMMIT)));
        out.extend(step(&mut processor, finish("tool_use")));
        assert!(asked(&mut processor, call, COMMIT), "{call}");
    }
}

/// Tools whose `read` never ends.
struct Hangs;

impl Tools for Hangs {
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        match call.tool.as_str() {
            "read" => Box::pin(std::future::pending()),
            _ => Box::pin(std::future::ready(ToolOutput::output("done"))),
        }
    }
}

/// The results of the calls refer to an answer. The answer is in the conversation after all results, even if the turn
/// ends before the model reads it.
#[test]
fn an_answer_of_a_sub_agent_is_kept_if_the_turn_ends_before_the_model_reads_it() {
    let mut processor = processor([every()]);
    let script = ScriptedReply::default().tool("bash", "c1", COMMIT);
    let script = script.tool("read", "c2", "{}").finish("tool_use");
    let mut provider = Scripted::new([script, text("Mention it.")]);
    let cancel = Cancel::default();
    let switch = cancel.clone();
    let mut watch = move |step: &Step| {
        // The sub-agent has answered, and the other call is about to hang.
        if matches!(step, Step::ToolResult { call, .. } if call == "c1") {
            let switch = switch.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                switch.cancel();
            });
        }
    };
    let tools = Hangs;
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, cancel);
    let request = Request::new("model", vec![Message::user("Go.")]);
    let outcome = runtime().block_on(turn.run(request, "m", &mut watch));
    assert!(matches!(outcome.end, End::Aborted { .. }));
    let roles: Vec<Role> = outcome.added.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::Assistant, Role::Tool, Role::Tool, Role::User]);
    let told = &outcome.added[1].content[0];
    assert!(
        matches!(told, Content::ToolResult { output, .. } if output.contains("answer follows"))
    );
    assert!(outcome.added[3].text().ends_with("Mention it."));
}

/// A guard that failed is not called again in its reply, so no other hook may retry that reply.
#[test]
fn a_reply_whose_guard_fell_over_is_not_taken_again_unguarded() {
    let mut hooks = Hooks::default();
    hooks.on_delta("guard", |_, delta| {
        assert!(!delta.text().contains("odd"), "it cannot read this");
        if delta.text().contains("secret") {
            delta.abort();
        }
    });
    hooks.on_aborted("again", |_, answer| answer.retry = true);
    let played = play(hooks, vec![text("odd"), text("a secret")]);
    assert_eq!(played.published(), "");
    assert_eq!(played.provider.requests().len(), 1);
    assert_eq!(played.processor.counters().refused_retries, 1);
    assert_eq!(OnHookFault::default(), OnHookFault::Abort);
}

/// The calls of an aborted reply are not counted with later calls.
#[test]
fn calls_of_an_aborted_reply_are_no_part_of_a_doom_loop() {
    let mut processor = processor([]);
    let mut out = Vec::new();
    processor.begin("m1", &mut out);
    for _ in 0..3 {
        out.extend(step(&mut processor, [Input::Sent]));
        out.extend(step(&mut processor, calls(0, Some("c"), "{}")));
        out.extend(step(&mut processor, [Input::Cancel]));
        processor.proceed("m2", &mut out);
    }
    let looped = |step: &Step| {
        matches!(
            step,
            Step::Observe(ttsr::harness::event::LoopEvent::DoomLoop { .. })
        )
    };
    assert!(!out.iter().any(looped));
}

/// A question that was not asked because the user cancelled may be asked again.
#[test]
fn a_question_that_the_user_cancelled_may_be_asked_again() {
    let cancel = Cancel::default();
    let mut processor = processor([once()]);
    let script = ScriptedReply::default()
        .tool("bash", "c1", COMMIT)
        .finish("tool_use");
    let mut provider = Scripted::new([script.clone(), ScriptedReply::default().text("Let").hang()]);
    let kept = provider.clone();
    let tools = Hangs;
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, cancel.clone());
    let request = Request::new("model", vec![Message::user("Go.")]);
    runtime().block_on(async {
        let mut watch = |_: &Step| {};
        let user = async {
            while kept.requests().len() < 2 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        tokio::join!(turn.run(request, "m", &mut watch), user)
    });
    let mut provider = Scripted::new([script, text("Fine."), text("never mind")]);
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
    let request = Request::new("model", vec![Message::user("Go.")]);
    let mut said = Vec::new();
    let mut watch = |step: &Step| {
        if let Step::Observe(ttsr::harness::event::LoopEvent::Consulted { consulted, .. }) = step {
            said.push(consulted.clone());
        }
    };
    runtime().block_on(turn.run(request, "m", &mut watch));
    assert_eq!(said, [ConsultOutcome::Answered("Fine.".into())]);
}
