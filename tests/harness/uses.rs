//! Uses of hooks and rules in the loop: the hooks of `examples/hooks.rs`, and detectors of waste.

#[path = "../../examples/hooks.rs"]
mod hooks;

use std::collections::BTreeMap;
use std::time::Duration;

use hooks::AbortCause;
use ttsr::harness::fallback::Chains;
use ttsr::harness::{
    AbortReason, AbortSource, Cancel, Failure, Gate, Hooks, Input, Message, Processor, PromptRef,
    ScriptedReply, Settings, ToolCall, ToolOutput,
};
use ttsr::{Action, Channel, Origin, Pack, PartId, Pattern, Rule};

use super::{Played, delta, pack, play, play_with, processor, text};

#[test]
fn a_token_budget_ends_a_reply_that_is_too_long() {
    let mut own = Hooks::default();
    hooks::token_budget(&mut own, 2);
    let played = play(own, vec![text("12345678, and more").cut(4)]);
    assert_eq!(played.published(), "12345678");
    assert_eq!(
        played.aborted()[0].source,
        AbortSource::Hook("token-budget".into())
    );
}

#[test]
fn tool_input_is_drawn_as_it_is_written() {
    let mut own = Hooks::default();
    let shown = hooks::tool_inputs(&mut own);
    let script = ScriptedReply::default()
        .tool("read", "c1", r#"{"path":"a"}"#)
        .cut(5);
    let played = play(own, vec![script]);
    assert_eq!(played.aborted().len(), 1, "the stream just ends");
    assert_eq!(shown.lock().unwrap()[&PartId(0)], r#"read {"path":"a"}"#);
}

#[test]
fn time_to_first_token_and_throughput_are_measured() {
    let mut own = Hooks::default();
    let pace = hooks::pace(&mut own);
    let mut processor = processor(own);
    let mut out = Vec::new();
    processor.begin("m", &mut out);
    for (millis, input) in [
        (100, Input::Sent),
        (250, Input::Event(delta(0, "abcd"))),
        (1250, Input::Event(delta(0, "efgh"))),
    ] {
        processor.step(Duration::from_millis(millis), input, &mut out);
    }
    let pace = *pace.lock().unwrap();
    assert_eq!(pace.first, Some(Duration::from_millis(250)));
    assert_eq!(pace.throughput(), Some(8.0));
}

/// A complaint: the cause of a cut is a type, and not text to be parsed.
#[test]
fn aborts_are_counted_by_reason_rule_model_and_prompt() {
    let mut own = Hooks::default();
    let counts = hooks::abort_counts(&mut own);
    let settings = Settings {
        fallback: Chains::default().any(["model", "second"]),
        ..Settings::default()
    };
    let mut rules = pack().rules().to_vec();
    let mut limited = Rule::new("p/limited", vec![Pattern::literal("429")]);
    limited.on = vec![Channel::Error];
    limited.action = Action::Fallback;
    rules.push(limited);
    let pack = rules
        .into_iter()
        .fold(Pack::builder(), |pack, rule| pack.rule(rule));
    let mut processor = Processor::new(&pack.build().unwrap(), own, settings);
    processor.set_origin(Origin {
        model: Some("model".into()),
        ..Origin::default()
    });
    let limited = || ScriptedReply::default().fail(Failure::new("429", "Too Many Requests"));
    let cancel = Cancel::default();
    // Rules cut twice, then the provider fails before the first byte, and the other model answers.
    let scripts = vec![text("x: any"), text("x: any"), limited(), text("good")];
    let played = play_with(processor, scripts, &cancel, |_| {});
    assert_eq!(played.outcome.reply.text(Channel::Text), "good");
    // With the second prompt the provider fails before the first byte, and no model is left. Then the user cancels a
    // reply before its request is sent.
    let played = play_with(played.processor, vec![limited()], &cancel, |_| {});
    cancel.cancel();
    play_with(played.processor, vec![text("late")], &cancel, |_| {});

    let cause = |reason, source: &str, model: &str| AbortCause {
        reason,
        source: source.to_owned(),
        model: model.to_owned(),
    };
    let expected = [
        (cause("error", "provider", "model"), 2),
        (cause("plugin", "t/no-any", "model"), 2),
        (cause("user", "user", "model"), 1),
    ];
    let counts = counts.lock().unwrap();
    assert_eq!(counts.causes, BTreeMap::from(expected));
    // Every prompt was "Go."; the cancelled reply made no request.
    let prompt = PromptRef::new(1, &[Message::user("Go.")]).hash.unwrap();
    assert_eq!(counts.prompts, BTreeMap::from([(prompt, 4)]));
    let other = PromptRef::new(1, &[Message::user("Stop.")]).hash.unwrap();
    assert_ne!(prompt, other, "another prompt has another hash");
}

#[test]
fn a_timeout_is_steered_to_a_shorter_answer() {
    let mut own = Hooks::default();
    hooks::concise_on_timeout(&mut own);
    let settings = Settings {
        stall: Some(Duration::from_millis(30)),
        ..Settings::default()
    };
    let processor = Processor::new(&pack(), own, settings);
    let scripts = vec![
        ScriptedReply::default().event(delta(0, "Well, ")).hang(),
        text("Yes."),
    ];
    let played = play_with(processor, scripts, &Cancel::default(), |_| {});
    assert_eq!(played.aborted()[0].reason, AbortReason::Timeout);
    assert_eq!(played.sent()[1], ["Please be more concise."]);
    assert_eq!(played.outcome.reply.text(Channel::Text), "Yes.");
}

/// Plays a good reply after one that a rule cuts.
fn wasted(rule: &str, bad: &str) -> Played {
    let rules = format!(
        "schema = 1\n[pack]\nname = \"t\"\n[rule.waste]\ndescription = \"Waste\"\nseverity = \"error\"\n{rule}"
    );
    let pack = Pack::from_toml(&rules).unwrap_or_else(|error| panic!("{error}"));
    let processor = Processor::new(&pack, Hooks::default(), Settings::default());
    let scripts = vec![text(bad).cut(7), text("It is fixed.")];
    let played = play_with(processor, scripts, &Cancel::default(), |_| {});
    assert_eq!(played.outcome.reply.text(Channel::Text), "It is fixed.");
    assert_eq!(played.outcome.attempts, 2);
    played
}

#[test]
fn the_wrong_language_is_cut() {
    wasted(
        "on = [\"text\"]\nmatch.script = { expect = [\"latin\", \"en\"] }",
        "Вот исправленная функция, она теперь работает как надо. А вот ещё много текста.",
    );
}

#[test]
fn an_import_that_nobody_knows_is_cut() {
    wasted(
        "on = [\"text\"]\nmatch.unknown-name = { known = [\"std\"] }",
        "Like this:\n```rust\nuse std::fmt;\nuse no_such_crate::Thing;\nfn main() {}\n```\n",
    );
}

#[test]
fn a_reply_that_goes_round_in_circles_is_cut() {
    let bad = "I will now look at the file once more. ".repeat(50);
    let played = wasted(
        "on = [\"text\"]\nmatch.repetition = { unit-chars = [20, 400], times = 4 }",
        &bad,
    );
    let wasted = played.aborted()[0].partial.text(Channel::Text).len();
    assert!(
        wasted < bad.len() / 5,
        "{wasted} of {} bytes came",
        bad.len()
    );
}

#[test]
fn a_rule_about_time_is_asked_while_nothing_arrives() {
    let rules = "schema = 1\n[pack]\nname = \"t\"\n[rule.slow]\ndescription = \"Slow\"\n\
        severity = \"error\"\non = [\"text\"]\nmatch.limit = { stall = 5 }";
    let pack = Pack::from_toml(rules).unwrap();
    let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    let mut out = Vec::new();
    let seconds = Duration::from_secs;
    processor.begin("m", &mut out);
    processor.step(seconds(0), Input::Sent, &mut out);
    processor.step(seconds(1), Input::Event(delta(0, "Well,")), &mut out);
    assert_eq!(processor.wait(seconds(1)), Some(seconds(2)));
    processor.step(seconds(5), Input::Tick, &mut out);
    assert!(processor.stream().unwrap().attempt_number() == 1 && !processor.is_idle());
    processor.step(seconds(7), Input::Tick, &mut out);
    assert_eq!(
        processor.stream().unwrap().attempt_number(),
        2,
        "cut, and asked for again"
    );
}

#[test]
fn an_edit_of_a_file_that_was_not_read_is_blocked() {
    let mut own = Hooks::default();
    hooks::read_before_edit(&mut own);
    let mut processor = processor(own);
    let mut out = Vec::new();
    let call = |tool: &str, path: &str| ToolCall {
        session: String::new(),
        tool: tool.into(),
        call: "c".into(),
        input: format!(r#"{{"path":"{path}"}}"#),
    };
    let mut edits = |processor: &mut Processor, path: &str| match processor
        .before_tool(call("edit", path), &mut out)
    {
        Gate::Run(_) => "runs".to_owned(),
        Gate::Blocked(_, told) => told.output,
        Gate::Ask(..) => panic!("nobody is asked"),
    };
    assert!(edits(&mut processor, "a.rs").contains("Read a.rs first"));
    let read = |processor: &mut Processor, path: &str, after: ToolOutput| {
        let told = processor.after_tool(&call("read", path), after, &mut Vec::new());
        told.expect("nothing ends the turn");
    };
    read(&mut processor, "b.rs", ToolOutput::output("fn b() {}"));
    read(&mut processor, "a.rs", ToolOutput::error("no such file"));
    assert_ne!(edits(&mut processor, "a.rs"), "runs", "it was not read");
    read(&mut processor, "./a.rs", ToolOutput::output("fn a() {}"));
    assert_eq!(edits(&mut processor, "a.rs"), "runs");
    assert_eq!(edits(&mut processor, "b.rs"), "runs");
    assert_ne!(edits(&mut processor, "c.rs"), "runs");
}
