//! Parts: text that is accumulated and published, and input that is only counted.

use ttsr::harness::event::LoopEvent;
use ttsr::harness::{
    AbortSource, AbortedCall, Cancel, End, Hooks, Message, PartState, Processor, ScriptedReply,
    Settings, Step, TOOL_ABORTED,
};
use ttsr::rule::ToolOutcome;
use ttsr::{Action, Channel, Event, Pack, PartId, Pattern, Rule};

use super::{Played, delta, pack, play, play_with, text};

fn observed(played: &Played) -> Vec<&LoopEvent> {
    let observed = played.steps.iter().filter_map(|step| match step {
        Step::Observe(event) => Some(event),
        _ => None,
    });
    observed.collect()
}

fn snapshot(part: u32, bytes: &str) -> Event {
    Event::Snapshot {
        part: PartId(part),
        bytes: bytes.into(),
    }
}

fn start(part: u32, channel: Channel) -> Event {
    Event::PartStart {
        part: PartId(part),
        name: part.to_string(),
        channel,
        tool: None,
        call: None,
    }
}

#[test]
fn tool_input_grows_visibly_and_its_end_is_an_event() {
    let script = ScriptedReply::default()
        .tool("write", "c", "{\"a\":1}")
        .cut(3)
        .finish("stop");
    let played = play(Hooks::default(), vec![script]);
    let part = PartId(0);
    let forward = |bytes: &str| Step::Forward {
        part,
        bytes: bytes.into(),
    };
    let shown = &played.steps[2..];
    assert!(matches!(&shown[0], Step::Open { tool: Some(tool), .. } if tool == "write"));
    assert_eq!(
        shown[1..4],
        [forward("{\"a"), forward("\":1"), forward("}")]
    );
    assert_eq!(
        shown[4],
        Step::Close {
            part,
            replaced: None
        }
    );
    let Step::Observe(LoopEvent::ToolCall(called)) = &shown[5] else {
        panic!("{:?}", shown[5])
    };
    assert_eq!(
        (called.id, called.tool.as_deref()),
        (Some(part), Some("write"))
    );
    let call = played.outcome.reply.tool_calls().next().unwrap();
    assert_eq!(
        (call.text().as_str(), call.state),
        ("{\"a\":1}", PartState::Complete)
    );
}

#[test]
fn tool_input_is_published_once_its_call_is_complete_where_the_host_asks_for_it() {
    let mut rule = Rule::new("p/rm", vec![Pattern::literal("rm -rf")]);
    (rule.on, rule.action) = (vec![Channel::ToolInput], Action::Abort);
    let pack = Pack::builder().rule(rule).build().unwrap();
    let played = |input: &str| {
        let settings = Settings {
            holds_tool_input: true,
            ..Settings::default()
        };
        let processor = Processor::new(&pack, Hooks::default(), settings);
        let script = ScriptedReply::default().text("I write.");
        let script = script.tool("bash", "c", input).cut(4).finish("tool_use");
        play_with(processor, vec![script], &Cancel::default(), |_| {})
    };
    let harmless = played(r#"{"command":"ls"}"#);
    let part = PartId(1);
    let steps = harmless.steps.iter();
    let of_call: Vec<&Step> = steps
        .filter(|step| match step {
            Step::Open { part: of, .. } | Step::Forward { part: of, .. } => *of == part,
            Step::Close { part: of, .. } => *of == part,
            _ => false,
        })
        .collect();
    let bytes = br#"{"command":"ls"}"#.to_vec();
    assert!(matches!(of_call[0], Step::Open { .. }));
    assert_eq!(*of_call[1], Step::Forward { part, bytes });
    assert!(matches!(of_call[2..], [Step::Close { .. }]));

    let cut = played(r#"{"command":"rm -rf /"}"#);
    assert_eq!(cut.aborted().len(), 1);
    let has_left = |step: &Step| matches!(step, Step::Forward { part: of, .. } if *of == part);
    assert!(!cut.steps.iter().any(has_left));
    assert_eq!(cut.aborted()[0].partial.part(part).unwrap().raw, b"");
}

#[test]
fn three_identical_calls_in_a_row_are_a_doom_loop() {
    let same = |script: ScriptedReply| script.tool("read", "c", r#"{"a": 1, "b": 2}"#);
    let alike = |script: ScriptedReply| script.tool("read", "d", r#"{"b":2,"a":1}"#);
    let other = |script: ScriptedReply| script.tool("read", "e", r#"{"a":1}"#);
    for (name, script, expected) in [
        ("twice", same(alike(ScriptedReply::default())), 0),
        (
            "three times",
            same(alike(same(ScriptedReply::default()))),
            1,
        ),
        (
            "four times",
            same(same(same(same(ScriptedReply::default())))),
            2,
        ),
        (
            "with another between",
            same(same(other(same(ScriptedReply::default())))),
            0,
        ),
    ] {
        let played = play(Hooks::default(), vec![script.finish("stop")]);
        let loops = observed(&played).into_iter();
        let loops = loops.filter(|seen| matches!(seen, LoopEvent::DoomLoop { .. }));
        assert_eq!(loops.count(), expected, "{name}");
    }
}

#[test]
fn a_call_of_an_attempt_that_was_taken_again_was_not_made() {
    let bad = || {
        ScriptedReply::default()
            .tool("read", "c", "{}")
            .text("x: any")
            .finish("stop")
    };
    let played = play(Hooks::default(), vec![bad()]);
    assert_eq!(played.outcome.attempts, 3);
    let looped = |seen: &&LoopEvent| matches!(seen, LoopEvent::DoomLoop { .. });
    assert!(!observed(&played).iter().any(looped));
}

#[test]
fn an_unfinished_call_is_marked() {
    let script = ScriptedReply::from(vec![
        start(0, Channel::ToolInput),
        delta(0, "{\"a\":"),
        start(1, Channel::Text),
        delta(1, "t"),
    ]);
    let played = play(Hooks::default(), vec![script.finish("length")]);
    assert!(matches!(played.outcome.end, End::Truncated { .. }));
    let states: Vec<_> = played
        .outcome
        .reply
        .parts()
        .iter()
        .map(|part| part.state)
        .collect();
    assert_eq!(states, [PartState::Aborted, PartState::Complete]);
    assert!(played.steps.contains(&Step::ToolAborted {
        part: PartId(0),
        call: None
    }));
    assert_eq!(TOOL_ABORTED, "Tool execution aborted");
}

/// A complaint: the remains of an attempt are not a result.
#[test]
fn no_call_of_an_aborted_attempt_runs_and_only_one_is_blamed() {
    let script = ScriptedReply::default()
        .tool("read", "c0", "{\"path\":\"a\"}")
        .tool("bash", "c1", "{\"command\":\"rm -rf /\"}")
        .finish("tool_use");
    let played = play(Hooks::default(), vec![script]);
    let aborted = played.aborted()[0];
    let seen = |call: &AbortedCall| (call.call.clone().unwrap(), call.is_complete, call.is_blamed);
    let calls: Vec<_> = aborted.calls.iter().map(seen).collect();
    assert_eq!(
        calls,
        [
            ("c0".to_owned(), true, false),
            ("c1".to_owned(), false, true)
        ]
    );
    assert!(
        aborted
            .partial
            .tool_calls()
            .all(|call| call.state == PartState::Aborted)
    );
}

#[test]
fn a_snapshot_brings_what_was_not_delivered() {
    for (name, events, published, mismatches) in [
        (
            "no delta at all",
            vec![snapshot(0, "{\"command\":\"ls\"}")],
            "{\"command\":\"ls\"}",
            0,
        ),
        (
            "the same again",
            vec![delta(0, "{}"), snapshot(0, "{}")],
            "{}",
            0,
        ),
        (
            "more than came",
            vec![delta(0, "{"), snapshot(0, "{}")],
            "{}",
            0,
        ),
        (
            "something else",
            vec![delta(0, "{}"), snapshot(0, "[]")],
            "{}",
            1,
        ),
        (
            "less than came",
            vec![delta(0, "{}"), snapshot(0, "{")],
            "{}",
            1,
        ),
    ] {
        let mut all = vec![start(0, Channel::ToolInput)];
        all.extend(events);
        all.push(Event::PartEnd { part: PartId(0) });
        let played = play(
            Hooks::default(),
            vec![ScriptedReply::from(all).finish("stop")],
        );
        assert_eq!(played.published(), published, "{name}");
        assert_eq!(played.processor.counters().mismatches, mismatches, "{name}");
    }
}

#[test]
fn a_snapshot_of_redacted_text_is_compared_by_its_length() {
    let mut rule = Rule::new("t/key", vec![Pattern::literal("key")]);
    (rule.on, rule.action) = (vec![Channel::Text], Action::Redact);
    let pack = Pack::builder().rule(rule).build().unwrap();
    let events = vec![
        start(0, Channel::Text),
        delta(0, "a key, "),
        snapshot(0, "a key, b"),
        Event::PartEnd { part: PartId(0) },
    ];
    let played = play_with(
        Processor::new(&pack, Hooks::default(), Settings::default()),
        vec![ScriptedReply::from(events).finish("stop")],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(played.published(), "a [redacted], b");
    assert_eq!(played.processor.counters().mismatches, 0);
}

#[test]
fn a_call_that_comes_only_as_a_snapshot_is_judged() {
    let script = ScriptedReply::from(vec![
        start(0, Channel::ToolInput),
        snapshot(0, "{\"command\":\"rm -rf /\"}"),
        Event::PartEnd { part: PartId(0) },
    ]);
    let played = play(Hooks::default(), vec![script.finish("stop")]);
    assert_eq!(played.published(), "");
    assert_eq!(played.aborted().len(), 1);
}

#[test]
fn a_snapshot_after_rewriting_hooks_brings_only_the_rest() {
    let mut hooks = Hooks::default();
    hooks.on_delta("double", |_, delta| delta.rewrite(delta.text().repeat(2)));
    let script = ScriptedReply::from(vec![
        start(0, Channel::Text),
        delta(0, "ab"),
        snapshot(0, "abc"),
    ]);
    let played = play(hooks, vec![script.finish("stop")]);
    assert_eq!(played.published(), "ababcc");
}

#[test]
fn a_part_that_was_never_opened_is_text() {
    let played = play(
        Hooks::default(),
        vec![
            ScriptedReply::default()
                .event(delta(7, "rm -rf /"))
                .finish("stop"),
        ],
    );
    assert_eq!(played.aborted().len(), 1);
    let played = play(
        Hooks::default(),
        vec![
            ScriptedReply::default()
                .event(delta(7, "ls"))
                .finish("stop"),
        ],
    );
    assert_eq!(played.outcome.reply.text(Channel::Text), "ls");
    assert_eq!(played.outcome.counters.unknown_parts, 1);
}

#[test]
fn usage_and_what_nobody_can_read_are_passed_on_also_after_the_end() {
    let usage = Event::Usage {
        input: 3,
        output: 4,
    };
    let unscanned = Event::Unscanned {
        bytes: 5,
        kind: "odd".into(),
    };
    let script = ScriptedReply::default()
        .event(unscanned)
        .finish("stop")
        .event(usage);
    let played = play(Hooks::default(), vec![script]);
    assert_eq!(
        observed(&played),
        [
            &LoopEvent::StepStarted,
            &LoopEvent::Unscanned {
                bytes: 5,
                kind: "odd".into()
            },
            &LoopEvent::StepFinished {
                reason: "stop".into()
            },
            &LoopEvent::Usage {
                input: 3,
                output: 4
            },
        ]
    );
    assert_eq!(played.processor.counters().unscanned_bytes, 5);
}

#[test]
fn a_provider_that_starts_over_starts_with_nothing() {
    let script = ScriptedReply::default()
        .event(start(0, Channel::Text))
        .event(delta(0, "x: a"))
        .event(Event::Restart)
        .event(start(0, Channel::Text))
        .event(delta(0, "ny and number"))
        .finish("stop");
    let played = play(Hooks::default(), vec![script]);
    assert_eq!(played.published(), "x: a|ny and number");
    assert_eq!(played.outcome.reply.text(Channel::Text), "ny and number");
    assert_eq!(played.provider.requests().len(), 1);
    assert!(played.aborted().is_empty());
}

#[test]
fn a_reply_without_end_is_bounded() {
    let settings = Settings {
        reply_bytes: 300,
        ..Settings::default()
    };
    let endless: String = "all work and no play ".repeat(100);
    let openings: Vec<Event> = (0..100).map(|part| start(part, Channel::Text)).collect();
    for script in [
        text(&endless).cut(10),
        ScriptedReply::from(openings).finish("stop"),
    ] {
        let processor = Processor::new(&pack(), Hooks::default(), settings.clone());
        let played = play_with(processor, vec![script], &Cancel::default(), |_| {});
        assert_eq!(
            played.aborted()[0].source,
            AbortSource::Limit("reply_bytes")
        );
        assert!(played.published().len() <= 300);
    }
}

#[test]
fn the_outcome_of_a_tool_that_the_provider_ran_decides_which_rules_read_its_output() {
    let mut rule = Rule::new("t/failed", vec![Pattern::literal("denied")]);
    rule.on = vec![Channel::ToolOutput];
    rule.outcome = Some(ToolOutcome::Error);
    rule.action = Action::Abort;
    let pack = Pack::builder().rule(rule).build().unwrap();
    for (told, is_cut) in [
        (Some(ToolOutcome::Error), true),
        (Some(ToolOutcome::Ok), false),
        (None, false),
    ] {
        let part = PartId(0);
        let mut script = ScriptedReply::default().event(start(0, Channel::ToolOutput));
        if let Some(outcome) = told {
            script = script.event(Event::Outcome { part, outcome });
        }
        let script = script
            .event(delta(0, "access denied"))
            .event(Event::PartEnd { part })
            .event(start(1, Channel::Text))
            .event(delta(1, "Sorry."))
            .finish("stop");
        let processor = Processor::new(&pack, Hooks::default(), Settings::default());
        let played = play_with(processor, vec![script], &Cancel::default(), |_| {});
        let is_aborted = matches!(played.outcome.end, End::Aborted { .. });
        assert_eq!(is_aborted, is_cut, "{told:?}");
        let message = Message::reply(&played.outcome.reply);
        assert!(
            !message.text().contains("denied"),
            "the output is no text of the model"
        );
    }
}
