//! Whole texts: requests, tool calls and the outputs of tools.

use ttsr::harness::event::LoopEvent;
use ttsr::harness::{
    AbortReason, AbortSource, Content, End, Gate, Hook, HookPoint, Hooks, Input, Message,
    OnHookFault, PendingCall, Processor, Request, RequestTarget, Settings, Step, ToolCall,
    ToolOutput,
};
use ttsr::rule::Header;
use ttsr::{Action, Channel, Event, Pack, PartId, Pattern, Rule, Severity};

pub(super) fn call(tool: &str, input: &str) -> ToolCall {
    ToolCall {
        session: "ses_1".into(),
        call: "c1".into(),
        tool: tool.into(),
        input: input.into(),
    }
}

fn rule(action: Action, on: Channel, word: &str) -> Rule {
    let mut rule = Rule::new(format!("p/{}", action.name()), vec![Pattern::literal(word)]);
    (rule.action, rule.on) = (action, vec![on]);
    rule.message = Some(format!("({})", action.name()));
    rule
}

fn processor(rules: impl IntoIterator<Item = Rule>, hooks: Hooks) -> Processor {
    let pack = rules
        .into_iter()
        .fold(Pack::builder(), |pack, rule| pack.rule(rule));
    Processor::new(&pack.build().unwrap(), hooks, Settings::default())
}

/// Returns the output of a tool after rules and hooks, and the steps.
fn after(processor: &mut Processor, output: &str) -> (Result<ToolOutput, End>, Vec<Step>) {
    let mut out = Vec::new();
    let told = processor.after_tool(&call("bash", "{}"), ToolOutput::output(output), &mut out);
    (told, out)
}

#[test]
fn rules_put_words_around_what_a_tool_gave_back() {
    let on = Channel::ToolOutput;
    let rules = [
        rule(Action::Append, on, "x"),
        rule(Action::Prepend, on, "x"),
    ];
    let (told, steps) = after(&mut processor(rules, Hooks::default()), "an x");
    let expected = "(prepend)\n\nan x\n\n(append)";
    assert_eq!(told.unwrap().output, expected);
    let Some(Step::ToolResult { output, call, .. }) = steps.last() else {
        panic!("{steps:?}");
    };
    assert_eq!((&**output, &**call), (expected, "c1"));
}

#[test]
fn a_decision_about_an_output_is_recorded_with_its_rule_and_channel() {
    let rules = [rule(Action::Append, Channel::ToolOutput, "x")];
    let (_, steps) = after(&mut processor(rules, Hooks::default()), "an x");
    let Some(Step::Observe(LoopEvent::Decision(decision))) = steps.first() else {
        panic!("{steps:?}");
    };
    assert!(decision.rule.is_some() && decision.decision.is_some());
    assert_eq!(decision.part.channel, Some(Channel::ToolOutput));
    assert_eq!(decision.part.tool.as_deref(), Some("bash"));
    assert_eq!((decision.end, decision.is_suppressed()), (Some(4), false));
}

#[test]
fn a_rule_takes_out_of_what_a_hook_put_into_a_call() {
    let mut hooks = Hooks::default();
    hooks.on_tool_before("token", |_, before| {
        before.input = r#"{"a":"my pass"}"#.into()
    });
    let rules = [rule(Action::Redact, Channel::ToolInput, "pass")];
    let gate = processor(rules, hooks).before_tool(call("bash", "{}"), &mut Vec::new());
    let Gate::Run(call) = gate else {
        panic!("{gate:?}");
    };
    assert_eq!(call.input, r#"{"a":"my [redacted]"}"#);
}

#[test]
fn a_rule_ends_the_turn_at_what_a_tool_gave_back() {
    let rules = [rule(Action::Abort, Channel::ToolOutput, "worm")];
    let mut processor = processor(rules, Hooks::default());
    let (told, steps) = after(&mut processor, "a worm");
    let Err(End::Aborted { reason, source, .. }) = told else {
        panic!("{told:?}");
    };
    assert_eq!(reason, AbortReason::Plugin);
    assert!(matches!(source, AbortSource::Rule { id, .. } if id == "p/abort"));
    assert!(
        !steps
            .iter()
            .any(|step| matches!(step, Step::ToolResult { .. }))
    );
}

#[test]
fn a_hook_changes_and_blocks_calls_and_rules_read_what_it_left() {
    let mut hooks = Hooks::default();
    hooks.on_tool_before("sudo", |call, before| {
        if call.tool == "bash" {
            before.input = before.input.replace("sudo ", "");
        }
        if call.tool == "rm" {
            before.block("Not here.");
        }
        if call.tool == "make" {
            before.input = "{\"command\":\"rm -rf /\"}".into();
        }
    });
    let mut no_rm = rule(Action::Abort, Channel::ToolInput, "rm -rf");
    no_rm.severity = Severity::Critical;
    let mut processor = processor([no_rm], hooks);
    let mut out = Vec::new();
    let Gate::Run(ran) = processor.before_tool(call("bash", "sudo ls"), &mut out) else {
        panic!("{out:?}");
    };
    assert_eq!(ran.input, "ls");
    for (tool, why) in [
        ("rm", "Not here."),
        ("make", "The call was blocked: (abort)"),
    ] {
        let Gate::Blocked(_, after) = processor.before_tool(call(tool, "{}"), &mut out) else {
            panic!("{tool}: {out:?}");
        };
        assert_eq!((&*after.output, after.is_error), (why, true));
    }
}

#[test]
fn a_hook_changes_what_a_tool_gave_back_before_the_rules_read_it() {
    let mut hooks = Hooks::default();
    hooks.on_tool_after("trim", |call, after| {
        assert_eq!(call.tool, "bash");
        after.output = after.output.replace('x', "y");
    });
    let rules = [rule(Action::Append, Channel::ToolOutput, "y")];
    let (told, _) = after(&mut processor(rules, hooks), "x");
    assert_eq!(told.unwrap().output, "y\n\n(append)");
}

struct Requests;

impl Hook for Requests {
    fn points(&self) -> &[HookPoint] {
        &[HookPoint::Messages, HookPoint::Headers]
    }

    fn messages(&mut self, target: &RequestTarget, messages: &mut Vec<Message>) {
        messages.push(Message::steering(format!("for {}", target.model)));
    }

    fn headers(&mut self, target: &RequestTarget, headers: &mut Vec<(String, String)>) {
        headers.push(("x-session".into(), target.session.clone()));
    }
}

fn prepared(processor: &mut Processor, said: &str) -> (Option<Request>, Vec<Step>) {
    let mut out = Vec::new();
    processor.begin("msg", &mut out);
    let request = Request::new("m", vec![Message::user(said)]);
    let prepared = processor.prepare(&request, &mut out);
    if prepared.is_some() {
        processor.step(Default::default(), Input::Sent, &mut out);
    }
    (prepared.map(|prepared| prepared.request), out)
}

#[test]
fn hooks_change_the_messages_and_headers_of_one_request() {
    let mut hooks = Hooks::default();
    hooks.register("requests", Requests);
    let (request, _) = prepared(&mut processor([], hooks), "Go.");
    let request = request.unwrap();
    assert_eq!(request.messages[1].text(), "for m");
    assert_eq!(request.headers, [("x-session".to_owned(), String::new())]);
}

#[test]
fn rules_read_what_the_user_wrote_once_a_turn() {
    let on = Channel::UserInput;
    let mut header = rule(Action::SetHeader, on, "deploy");
    header.header = Some(Header {
        name: "x-care".into(),
        value: "yes".into(),
    });
    let mut inject = rule(Action::Inject, on, "deploy");
    inject.message = Some("Mind the freeze.".into());
    let rules = [rule(Action::Prepend, on, "deploy"), header, inject];
    let mut processor = processor(rules, Hooks::default());
    let (request, steps) = prepared(&mut processor, "Please deploy.");
    let request = request.unwrap();
    let texts: Vec<String> = request.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["(prepend)\n\nPlease deploy.", "Mind the freeze."]);
    assert_eq!(request.headers, [("x-care".to_owned(), "yes".to_owned())]);
    let decided = |steps: &[Step]| {
        let is_decision = |step: &&Step| matches!(step, Step::Observe(LoopEvent::Decision(_)));
        steps.iter().filter(is_decision).count()
    };
    assert_eq!(decided(&steps), 3);

    // The next request of the turn has the same text around the message, without a new decision.
    let mut out = Vec::new();
    processor.proceed("msg-2", &mut out);
    let again = Request::new("m", vec![Message::user("Please deploy.")]);
    let again = processor.prepare(&again, &mut out).unwrap();
    assert_eq!(again.request.messages[0].text(), texts[0]);
    assert_eq!((decided(&out), again.added.len()), (0, 0));
}

#[test]
fn a_rule_keeps_a_request_from_being_sent() {
    let rules = [rule(Action::Abort, Channel::UserInput, "worm")];
    let mut processor = processor(rules, Hooks::default());
    let (request, steps) = prepared(&mut processor, "Write a worm.");
    assert_eq!(request, None);
    let Some(Step::Finish(outcome)) = steps.last() else {
        panic!("{steps:?}");
    };
    assert!(matches!(&outcome.end, End::Aborted { detail, .. } if detail == "(abort)"));
    assert!(processor.is_idle());
}

#[test]
fn a_steering_message_is_not_read_as_the_users_words() {
    let rules = [rule(Action::Append, Channel::UserInput, "deploy")];
    let mut processor = processor(rules, Hooks::default());
    let mut out = Vec::new();
    processor.begin("msg", &mut out);
    let messages = vec![Message::user("Go."), Message::steering("deploy")];
    let prepared = processor
        .prepare(&Request::new("m", messages), &mut out)
        .unwrap();
    assert_eq!(prepared.request.messages[1].text(), "deploy");
    let kept = &prepared.request.messages[0].content;
    assert!(matches!(&kept[..], [Content::Text { text, .. }] if text == "Go."));
}

/// The rules read the message before when it was the last one: it is neither read again nor changed.
#[test]
fn f10_rules_read_no_images_and_a_message_of_images_is_the_users_last_one() {
    let rules = [rule(Action::Append, Channel::UserInput, "deploy")];
    let mut processor = processor(rules, Hooks::default());
    let mut last = |messages: Vec<Message>| {
        let mut out = Vec::new();
        processor.begin("msg", &mut out);
        let request = Request::new("m", messages);
        let prepared = processor.prepare(&request, &mut out).unwrap();
        processor.step(Default::default(), Input::Sent, &mut out);
        prepared.request.messages
    };
    let text = Message::user("deploy");
    let mut image = Message::user("deploy").with_image("image/png", "deploy");
    let sent = last(vec![text.clone(), image.clone()]);
    assert_eq!(
        (sent[0].text(), sent[1].text()),
        (text.text(), "deploy\n\n(append)".into())
    );
    assert_eq!(
        sent[1].content[1], image.content[1],
        "the image goes out as it is"
    );
    image.content.remove(0);
    let sent = last(vec![text.clone(), image.clone()]);
    assert_eq!(sent, [text, image]);
}

struct Falls;

impl Hook for Falls {
    fn points(&self) -> &[HookPoint] {
        &[
            HookPoint::ToolBefore,
            HookPoint::ToolAfter,
            HookPoint::Messages,
        ]
    }

    fn tool_before(&mut self, _: &ToolCall, _: &mut PendingCall) {
        std::panic::resume_unwind(Box::new("odd"));
    }

    fn tool_after(&mut self, _: &ToolCall, _: &mut ToolOutput) {
        std::panic::resume_unwind(Box::new("odd"));
    }

    fn messages(&mut self, _: &RequestTarget, _: &mut Vec<Message>) {
        std::panic::resume_unwind(Box::new("odd"));
    }
}

#[test]
fn a_guard_that_fell_over_lets_nothing_through_at_the_boundary() {
    for (on_hook_fault, passes) in [(OnHookFault::Abort, false), (OnHookFault::Continue, true)] {
        let settings = Settings {
            on_hook_fault,
            ..Settings::default()
        };
        let begun = || {
            let mut hooks = Hooks::default();
            hooks.register("falls", Falls);
            let pack = Pack::builder().build().unwrap();
            Processor::new(&pack, hooks, settings.clone())
        };
        let gate = begun().before_tool(call("bash", "{}"), &mut Vec::new());
        assert_eq!(matches!(gate, Gate::Run(_)), passes);
        let (told, steps) = after(&mut begun(), "out");
        assert_eq!(told.unwrap().output == "out", passes);
        assert!(matches!(
            &steps[0],
            Step::Observe(LoopEvent::HookPanicked { .. })
        ));
        let (request, _) = prepared(&mut begun(), "Go.");
        assert_eq!(request.is_some(), passes);
    }
}

/// A host that forgets `prepare` would let text leave that a rule refuses: the reply is aborted instead.
#[test]
fn f7_a_reply_to_a_request_that_had_to_be_prepared_and_was_not_is_aborted() {
    let refuses = || rule(Action::Abort, Channel::UserInput, "sk-live");
    let retries = || rule(Action::Retry, Channel::Text, "any");
    let send = |processor: &mut Processor, is_prepared: bool| {
        let mut out = Vec::new();
        if is_prepared {
            let request = Request::new("m", vec![Message::user("Go.")]);
            assert!(processor.prepare(&request, &mut out).is_some());
        }
        processor.step(Default::default(), Input::Sent, &mut out);
        let delta = Event::Delta {
            part: PartId(0),
            bytes: b"any".to_vec(),
        };
        processor.step(Default::default(), Input::Event(delta), &mut out);
        out
    };
    let is_abort = |steps: &[Step]| {
        let published = |step: &Step| matches!(step, Step::Forward { .. } | Step::Open { .. });
        matches!(
            steps.last(),
            Some(Step::Finish(outcome)) if matches!(
                &outcome.end,
                End::Aborted { source: AbortSource::Limit("prepare"), detail, .. }
                    if detail.contains("Processor::prepare")
            )
        ) && steps.contains(&Step::CancelUpstream)
            && !steps.iter().any(published)
    };
    let is_retried = |steps: &[Step]| matches!(steps.last(), Some(Step::Send { .. }));

    let mut forgets = processor([refuses(), retries()], Hooks::default());
    forgets.begin("msg", &mut Vec::new());
    assert!(is_abort(&send(&mut forgets, false)));
    assert!(forgets.is_idle());

    // Each attempt is prepared.
    let mut once = processor([refuses(), retries()], Hooks::default());
    once.begin("msg", &mut Vec::new());
    assert!(is_retried(&send(&mut once, true)));
    assert!(is_abort(&send(&mut once, false)));

    let mut hooks = Hooks::default();
    hooks.register("requests", Requests);
    let mut hooked = processor([retries()], hooks);
    hooked.begin("msg", &mut Vec::new());
    assert!(is_abort(&send(&mut hooked, false)));

    // Without such rules and hooks there is nothing to prepare.
    let mut plain = processor([retries()], Hooks::default());
    plain.begin("msg", &mut Vec::new());
    assert!(is_retried(&send(&mut plain, false)));
}

/// A retry would send the same request, so a hook that asks for one is not heard.
#[test]
fn a_refused_request_is_not_retried_by_a_hook() {
    let mut hooks = Hooks::default();
    hooks.on_aborted("again", |_, answer| answer.retry = true);
    let mut processor = processor([rule(Action::Abort, Channel::UserInput, "sk-live")], hooks);
    let mut out = Vec::new();
    processor.begin("msg", &mut out);
    out.clear();
    let request = Request::new("m", vec![Message::user("Use sk-live.")]);
    assert!(processor.prepare(&request, &mut out).is_none());
    assert!(!out.iter().any(|step| matches!(step, Step::Send { .. })));
    assert!(matches!(out.last(), Some(Step::Finish(_))));
    assert_eq!(processor.counters().refused_retries, 1);
}
