//! The failures of hosts that followed the documentation of 0.1.0, case by case, against `Conversation`.
//!
//! Each of the twelve has tests whose names begin with `f` and its number. Without a file they are below.
//!
//! | number | the failure of 0.1.0 | tests |
//! |---|---|---|
//! | 1 | a cut was told once, and a host that ignored it went on | `f1_` |
//! | 2 | redactions of rules in shadow delayed and changed text | `f2_` |
//! | 3 | the guarded stream handed text on before its redaction was decided | `f3_` in `src/guard/tests.rs` |
//! | 4 | the documented loop showed a whole token before it was redacted | `f4_` |
//! | 5 | a host that forgot to begin a turn had no retries left | `f5_` |
//! | 6 | guidance that waited was not in the snapshot | `f6_` |
//! | 7 | a host that did not prepare a request sent a prompt that rules refuse | `f7_`, and in `tests/harness/boundary.rs` |
//! | 8 | a pack with wrong examples loaded, and nothing ran them | `f8_` |
//! | 9 | `redact` was refused on the output of tools | `f9_` |
//! | 10 | tools ran one after the other, and messages had no images | `f10_` in `tests/harness/turns.rs` and `tests/harness/boundary.rs` |
//! | 11 | a reused part was released unscanned, and errors and decisions lost their names | `f11_` |
//! | 12 | no conformance case could be run without hooks, and none found the failures 1 and 2 | `f12_` in `tests/harness/conformance.rs` |

use std::time::Duration;

use ttsr::conversation::{Attempt, CutSource};
use ttsr::rule::ToolOutcome;
use ttsr::{
    Action, Channel, Conversation, Event, Flow, Limits, Mode, Pack, PackBuilder, PartId, Partial,
    Pattern, Rule, Severity, Snapshot, Suppression,
};

use super::TEXT;
use super::policy::{pack, rule};

const CALL: PartId = PartId(7);

fn redacting() -> Rule {
    let mut rule = Rule::new("p/key", vec![Pattern::regex("key-[0-9]{4}")]);
    rule.action = Action::Redact;
    rule
}

fn on(mut rule: Rule, channel: Channel) -> Rule {
    rule.on = vec![channel];
    rule
}

fn conversation<const N: usize>(rules: [Rule; N]) -> Conversation {
    let mut conversation = Conversation::new(&pack(rules));
    assert_eq!(conversation.begin_turn("Go.").flow, Flow::Go);
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    conversation
}

fn taken(conversation: &mut Conversation, part: PartId) -> String {
    String::from_utf8(conversation.take(part).to_vec()).unwrap()
}

#[test]
fn f1_a_cut_repeats_until_the_attempt_ends_whatever_the_host_ignored() {
    let mut rule = on(rule("rm -rf", Action::Abort), Channel::ToolInput);
    rule.id = "p/rm".into();
    rule.tools = vec!["bash".into()];
    let mut conversation = conversation([rule]);
    let _ = conversation.open(CALL, Channel::ToolInput);
    let _ = conversation.push(CALL, br#"{"command": "rm -rf /"}"#);
    // This return value contains the cut, and the host ignores it.
    let _ = conversation.set_tool(CALL, "bash", "call_1");
    for flow in [
        conversation.flow(),
        conversation.push(TEXT, b"more"),
        conversation.push(CALL, b" "),
        conversation.open(PartId(9), Channel::Text),
        conversation.close(CALL),
        conversation.finish(),
        conversation.finish(),
    ] {
        assert_eq!(flow.cut().and_then(|cut| cut.rule()), Some("p/rm"));
        assert_eq!((flow.name(), Flow::Go.name()), ("cut", "go"));
    }
    assert_eq!(taken(&mut conversation, CALL), "");
    assert_eq!(taken(&mut conversation, TEXT), "");
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    assert_eq!(conversation.push(TEXT, b"fine"), Flow::Go);
}

#[test]
fn f2_rules_and_conversations_in_shadow_neither_delay_nor_change_text() {
    let text = b"my key-12";
    for of_rule in [true, false] {
        let mut rule = redacting();
        if of_rule {
            rule.mode = Mode::Shadow;
        }
        let mut conversation = Conversation::new(&pack([rule]));
        if !of_rule {
            conversation.set_mode(Mode::Shadow);
        }
        assert_eq!(conversation.begin_turn("").flow, Flow::Go);
        assert_eq!(conversation.begin_attempt(), Flow::Go);
        assert_eq!(conversation.push(TEXT, text), Flow::Go);
        assert_eq!(conversation.take(TEXT), text, "nothing is delayed");
        assert_eq!(conversation.push(TEXT, b"34."), Flow::Go);
        assert_eq!(conversation.take(TEXT), b"34.");
        let decided = &conversation.decisions()[0];
        assert_eq!(decided.suppression, Some(Suppression::Shadow));
    }
}

#[test]
fn f2_the_scanner_lists_no_redaction_of_a_rule_or_session_in_shadow() {
    let mut shadow = redacting();
    shadow.mode = Mode::Shadow;
    let mut stream = pack([shadow]).stream();
    assert_eq!(stream.push(TEXT, b"my key-1234.").len(), 1);
    assert_eq!(
        (stream.releasable(TEXT), stream.redactions(TEXT)),
        (12, &[][..])
    );
    let mut session = pack([redacting()]).session();
    session.set_mode(Mode::Shadow);
    let mut stream = session.stream();
    assert_eq!(
        session.push(&mut stream, TEXT, b"key-12"),
        ttsr::Verdict::Continue
    );
    assert_eq!(
        (stream.releasable(TEXT), stream.redactions(TEXT)),
        (6, &[][..])
    );
}

#[test]
fn f2_a_live_rule_is_not_delayed_by_one_in_shadow_beside_it() {
    let mut shadow = rule("zzz", Action::Warn);
    shadow.condition.any = vec![Pattern::regex("a.*z")];
    (shadow.hold, shadow.mode) = (true, Mode::Shadow);
    let mut conversation = conversation([redacting(), shadow]);
    assert_eq!(conversation.push(TEXT, b"a key-1234 and key-"), Flow::Go);
    assert_eq!(taken(&mut conversation, TEXT), "a [redacted] and ");
}

#[test]
fn f4_the_documented_loop_shows_no_byte_of_a_token() {
    let pack = Pack::builtin("std/secrets").unwrap();
    let mut conversation = Conversation::new(&pack);
    let mut turn = conversation.turn("Which token?");
    let mut attempt = turn.attempt();
    let reply = "It is ghp_012345678901234567890123456789abcdef, isn't it?";
    let mut shown = Vec::new();
    for delta in reply.as_bytes().chunks(3) {
        attempt.push(TEXT, delta).ok().unwrap();
        shown.extend_from_slice(attempt.take(TEXT));
    }
    attempt.finish().ok().unwrap();
    shown.extend_from_slice(attempt.take(TEXT));
    assert_eq!(
        String::from_utf8(shown).unwrap(),
        "It is [redacted], isn't it?"
    );
}

#[test]
fn f5_a_turn_cannot_be_forgotten() {
    let mut rule = rule("bad", Action::Retry);
    rule.retry.max = 1;
    let mut conversation = Conversation::new(&pack([rule]));
    let source = |flow: Flow| flow.cut().map(|cut| cut.source.clone());
    assert_eq!(
        source(conversation.begin_attempt()),
        Some(CutSource::Misuse)
    );
    assert_eq!(
        source(conversation.push(TEXT, b"bad")),
        Some(CutSource::Misuse)
    );
    assert_eq!(taken(&mut conversation, TEXT), "");
    for _ in 0..3 {
        assert_eq!(conversation.begin_turn("Go.").flow, Flow::Go);
        assert_eq!(conversation.begin_attempt(), Flow::Go);
        let flow = conversation.push(TEXT, b"bad");
        assert!(
            flow.cut().is_some_and(|cut| cut.retry.is_some()),
            "each turn retries anew"
        );
        assert_eq!(conversation.begin_attempt(), Flow::Go, "the turn goes on");
        assert_eq!(conversation.push(TEXT, b"good"), Flow::Go);
        assert_eq!(conversation.finish(), Flow::Go);
        let flow = conversation.begin_attempt();
        assert_eq!(
            source(flow),
            Some(CutSource::Misuse),
            "the turn has its answer"
        );
    }
    conversation.reopen_turn();
    assert_eq!(conversation.begin_attempt(), Flow::Go);
}

#[test]
fn f5_a_turn_goes_on_after_tool_calls() {
    let mut conversation = conversation([rule("bad", Action::Abort)]);
    for _ in 0..3 {
        let _ = conversation.open(CALL, Channel::ToolInput);
        assert_eq!(conversation.push(CALL, b"{}"), Flow::Go);
        assert_eq!(conversation.close(CALL), Flow::Go);
        assert_eq!(conversation.finish(), Flow::Go);
        assert_eq!(conversation.begin_attempt(), Flow::Go);
    }
}

fn texts(conversation: &Conversation) -> Vec<String> {
    conversation.guidance().map(|note| note.text).collect()
}

#[test]
fn f6_guidance_that_waits_is_in_the_snapshot() {
    let mut rule = rule("todo", Action::Inject);
    rule.message = Some("Finish it.".into());
    let pack = pack([rule]);
    let mut conversation = Conversation::new(&pack);
    assert_eq!(conversation.begin_turn("Go.").flow, Flow::Go);
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    assert_eq!(conversation.push(TEXT, b"a todo"), Flow::Go);
    assert_eq!(conversation.finish(), Flow::Go);
    let restored = |conversation: &Conversation| {
        let written = serde_json::to_string(&conversation.snapshot()).unwrap();
        let read: Snapshot = serde_json::from_str(&written).unwrap();
        let (conversation, lost) = Conversation::restore(&pack, &read);
        assert_eq!(lost, []);
        conversation
    };
    let mut conversation = restored(&conversation);
    assert_eq!(texts(&conversation), ["Finish it."]);
    // The turn goes on, and the request is not sent.
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    conversation = restored(&conversation);
    assert_eq!(texts(&conversation), ["Finish it."]);
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    assert_eq!(conversation.push(TEXT, b"a todo"), Flow::Go, "it was sent");
    conversation = restored(&conversation);
    assert_eq!(texts(&conversation), [""; 0]);
}

#[test]
fn f6_guidance_is_delivered_once_the_reply_to_its_request_begins() {
    let mut conversation = conversation([rule("todo", Action::Inject)]);
    assert_eq!(conversation.push(TEXT, b"a todo"), Flow::Go);
    let note = texts(&conversation);
    assert_eq!(note.len(), 1);
    for _ in 0..3 {
        assert_eq!(conversation.begin_attempt(), Flow::Go);
        assert_eq!(texts(&conversation), note, "the connection failed");
    }
    assert_eq!(conversation.open(TEXT, Channel::Text), Flow::Go);
    assert_eq!(texts(&conversation), [""; 0]);
    assert_eq!(conversation.push(TEXT, b"a todo"), Flow::Go);
    assert_eq!(texts(&conversation), [""; 0], "it was said");
    conversation.compacted();
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    assert_eq!(conversation.push(TEXT, b"a todo"), Flow::Go);
    assert_eq!(texts(&conversation), note, "it left the context");
}

#[test]
fn f7_the_prompt_of_a_turn_is_screened_and_an_abort_cuts_the_whole_turn() {
    let critical = on(rule("forbidden", Action::Abort), Channel::UserInput);
    let key = on(redacting(), Channel::UserInput);
    let mut conversation = Conversation::new(&pack([critical, key]));
    let turn = conversation.turn("Use key-1234.");
    assert_eq!(turn.prompt().text, "Use [redacted].");
    let mut turn = conversation.turn("Do the forbidden thing.");
    assert_eq!(turn.prompt().text, "", "it does not leave either");
    for _ in 0..2 {
        let mut attempt = turn.attempt();
        let flow = attempt.push(TEXT, b"Gladly.");
        assert_eq!(flow.cut().and_then(|cut| cut.rule()), Some("p/forbidden"));
        assert_eq!(attempt.take(TEXT), b"");
        drop(attempt);
        turn.reopen();
    }
    assert_eq!(
        conversation
            .turn("Do another.")
            .attempt()
            .push(TEXT, b"Yes."),
        Flow::Go
    );
}

#[test]
fn f8_wrong_examples_fail_a_test() {
    let mut wrong = rule("todo", Action::Warn);
    wrong.examples.matching = vec!["a tada".into()];
    let error = ttsr::test(&pack([wrong])).unwrap_err();
    assert_eq!(
        (error.failures().len(), &*error.failures()[0].rule),
        (3, "p/todo")
    );
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(ttsr::test(&Pack::builtin("std/secrets").unwrap()).unwrap() > 100);
}

#[test]
fn f9_redact_is_possible_on_the_output_of_a_tool() {
    let mut conversation = conversation([on(redacting(), Channel::ToolOutput)]);
    let output = conversation.screen(
        Channel::ToolOutput,
        Some("bash"),
        "key-1234 and key-5678, key-1",
    );
    assert_eq!(output.text, "[redacted] and [redacted], key-1");
    assert_eq!(output.flow, Flow::Go);
}

#[test]
fn f11_a_reused_part_id_is_neither_scanned_nor_released() {
    let mut conversation = conversation([rule("bad", Action::Abort)]);
    assert_eq!(conversation.push(TEXT, b"fine"), Flow::Go);
    assert_eq!(conversation.close(TEXT), Flow::Go);
    assert_eq!(taken(&mut conversation, TEXT), "fine");
    let _ = conversation.open(TEXT, Channel::ToolInput);
    assert_eq!(conversation.push(TEXT, b"bad"), Flow::Go);
    assert_eq!(conversation.close(TEXT), Flow::Go);
    assert_eq!(conversation.finish(), Flow::Go);
    assert_eq!(taken(&mut conversation, TEXT), "");
    let _ = conversation.push(PartId(3), b"late");
    assert_eq!(taken(&mut conversation, PartId(3)), "");
    assert_eq!(conversation.counters().unscanned_bytes, 7);
}

#[test]
fn f11_unwrap_prints_the_problems_of_a_pack() {
    let error = Pack::from_toml("schema = 1\npack.colour = 1\n").unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(
        format!("{error:?}").contains("<toml>:2:6: error[unknown-key]"),
        "{error:?}"
    );
}

#[test]
fn f11_decisions_keep_the_name_of_their_rule_when_the_pack_is_reloaded() {
    let mut session = pack([rule("old", Action::Warn)]).session();
    let mut stream = session.stream();
    let _ = session.push(&mut stream, TEXT, b"old");
    let decision = session.decisions()[0];
    let _ = session.reload(pack([rule("new", Action::Warn)]));
    assert_eq!(session.rule_id(&decision), Some("p/old"));
    assert!(
        session.stream().rule(&decision).is_none(),
        "a stream of the new pack does not know it"
    );

    let mut conversation = conversation([rule("old", Action::Inject), rule("z", Action::Abort)]);
    assert_eq!(conversation.push(TEXT, b"old"), Flow::Go);
    let lost = conversation.reload(pack([rule("new", Action::Abort)]));
    assert_eq!(lost[0].rule, "p/old");
    assert_eq!(conversation.decisions()[0].rule.as_deref(), Some("p/old"));
    assert_eq!(conversation.guidance().next().unwrap().rule, "p/old");
    assert_eq!(
        conversation.push(TEXT, b"new"),
        Flow::Go,
        "the attempt keeps its pack"
    );
    assert_eq!(
        conversation
            .push(TEXT, b"z")
            .cut()
            .and_then(|cut| cut.rule()),
        Some("p/z")
    );
}

#[test]
fn f11_the_abort_of_a_limit_has_a_message() {
    let limits = Limits {
        parts: 1,
        ..Limits::default()
    };
    let builder = PackBuilder::limits(Pack::builder(), limits);
    let pack = builder.rule(rule("bad", Action::Abort)).build().unwrap();
    let mut conversation = Conversation::new(&pack);
    let mut turn = conversation.turn("");
    let mut attempt = turn.attempt();
    assert_eq!(attempt.push(TEXT, b"one"), Flow::Go);
    let flow = attempt.push(PartId(1), b"two");
    let cut = flow.cut().unwrap();
    assert_eq!(
        cut.source,
        CutSource::Limit {
            name: "parts".into()
        }
    );
    assert_eq!(
        cut.message,
        "the reply reached the limit `parts` in part 1 after 0 bytes"
    );
}

#[test]
fn f11_check_retries_where_a_reply_can_be_generated_again() {
    for (channel, action) in [
        (Channel::ToolInput, Action::Retry),
        (Channel::Text, Action::Retry),
        (Channel::Error, Action::Retry),
        (Channel::ToolOutput, Action::Warn),
        (Channel::UserInput, Action::Warn),
    ] {
        let mut session = pack([on(rule("bad", Action::Retry), channel)]).session();
        let checked = session.check(channel, None, b"bad");
        assert_eq!(checked.decisions()[0].action, action, "{}", channel.name());
    }
}

#[test]
fn a_cut_says_how_to_retry_and_what_to_keep_however_the_reply_was_split() {
    let text = "My key-1234, e\u{301} and then bad things";
    let mut retrying = rule("bad", Action::Retry);
    retrying.retry.model = Some("better".into());
    retrying.message = Some("No.".into());
    for (partial, hold, want) in [
        (Partial::Discard, false, None),
        (
            Partial::Keep,
            false,
            Some("My [redacted], e\u{301} and then bad"),
        ),
        (
            Partial::Keep,
            true,
            Some("My [redacted], e\u{301} and then "),
        ),
        (
            Partial::KeepBeforeMatch,
            false,
            Some("My [redacted], e\u{301} and then "),
        ),
    ] {
        (retrying.partial, retrying.hold) = (partial, hold);
        for size in 1..text.len() {
            let mut conversation = conversation([redacting(), retrying.clone()]);
            for delta in text.as_bytes().chunks(size) {
                let _ = conversation.push(TEXT, delta);
            }
            let flow = conversation.flow();
            let cut = flow.cut().unwrap();
            assert_eq!(cut.retry.as_ref().unwrap().model.as_deref(), Some("better"));
            assert_eq!(cut.message, "No.");
            assert_eq!(
                cut.keep.first().map(|kept| &*kept.text),
                want,
                "{partial:?} by {size}"
            );
            assert_eq!(texts(&conversation), ["No."]);
        }
    }
}

#[test]
fn a_call_that_awaits_a_review_is_not_released() {
    let mut asks = on(rule("push", Action::Consult), Channel::ToolInput);
    asks.consult = Some(ttsr::rule::Consult::new("May {{ tool }} run?"));
    let input = br#"{"command": "git push"}"#;
    let mut conversation = conversation([asks]);
    let _ = conversation.open(CALL, Channel::ToolInput);
    let _ = conversation.set_tool(CALL, "bash", "call_1");
    for delta in input.chunks(2) {
        assert_eq!(conversation.push(CALL, delta), Flow::Go);
        assert_eq!(taken(&mut conversation, CALL), "");
    }
    assert_eq!(conversation.close(CALL), Flow::Go);
    assert_eq!(conversation.finish(), Flow::Go);
    assert_eq!(taken(&mut conversation, CALL), "");
    assert_eq!(conversation.reviews()[0].prompt, "May bash run?");
    conversation.approve(CALL);
    assert_eq!(conversation.take(CALL), input);
}

#[test]
fn a_call_that_is_approved_in_an_attempt_is_released() {
    let mut asks = on(rule("push", Action::Consult), Channel::ToolInput);
    asks.consult = Some(ttsr::rule::Consult::new("May it run?"));
    let mut conversation = Conversation::new(&pack([asks]));
    let mut turn = conversation.turn("Go.");
    let mut attempt = turn.attempt();
    let _ = attempt.open(CALL, Channel::ToolInput);
    let _ = attempt.set_tool(CALL, "bash", "call_1");
    assert_eq!(attempt.push(CALL, br#"{"command":"git push"}"#), Flow::Go);
    assert_eq!(attempt.close(CALL), Flow::Go);
    assert_eq!(attempt.reviews().len(), 1);
    assert_eq!(attempt.take(CALL), b"");
    attempt.approve(CALL);
    assert_eq!(attempt.take(CALL), br#"{"command":"git push"}"#);
}

#[test]
fn tool_input_streams_if_the_host_asks_for_it() {
    let aborting = on(rule("bad", Action::Abort), Channel::ToolInput);
    let mut conversation = Conversation::new(&pack([aborting]));
    conversation.stream_tool_input();
    assert_eq!(conversation.begin_turn("").flow, Flow::Go);
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    let _ = conversation.open(CALL, Channel::ToolInput);
    assert_eq!(conversation.push(CALL, br#"{"a": "#), Flow::Go);
    assert_eq!(taken(&mut conversation, CALL), r#"{"a": "#);
}

#[test]
fn redacted_tool_input_stays_json_under_every_split() {
    let input = r#"{"id": 12345, "text": "key-1234 \"é\" key-12", "key-9999": [true]}"#;
    let mut number = on(rule("n", Action::Redact), Channel::ToolInput);
    number.condition.any = vec![Pattern::regex("234")];
    number.replacement = Some("\"no\"".into());
    for size in 1..=input.len() {
        let mut conversation = conversation([on(redacting(), Channel::ToolInput), number.clone()]);
        let _ = conversation.open(CALL, Channel::ToolInput);
        let mut out = String::new();
        for delta in input.as_bytes().chunks(size) {
            assert_eq!(conversation.push(CALL, delta), Flow::Go);
            out += &taken(&mut conversation, CALL);
        }
        assert_eq!(conversation.close(CALL), Flow::Go);
        out += &taken(&mut conversation, CALL);
        let want = r#"{"id": "\"no\"", "text": "[redacted] \"é\" key-12", "[redacted]": [true]}"#;
        assert_eq!(out, want, "by {size}");
    }
}

#[test]
fn a_critical_rule_retries_no_more_often_through_errors_than_through_replies() {
    let mut retrying = on(rule("bad", Action::Retry), Channel::Error);
    retrying.severity = Severity::Critical;
    let mut conversation = conversation([retrying]);
    let mut retries = 0;
    while conversation
        .screen(Channel::Error, None, "bad")
        .flow
        .cut()
        .is_some_and(|cut| cut.retry.is_some())
    {
        retries += 1;
        assert!(retries < 10);
    }
    assert_eq!(retries, 2);
    let flow = conversation.begin_attempt();
    assert_eq!(
        flow.cut().and_then(|cut| cut.rule()),
        Some("p/bad"),
        "then it aborts the turn"
    );
}

#[test]
fn conversations_cross_threads_and_decisions_are_written() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<Conversation>();
    crosses::<Flow>();
    let mut conversation = conversation([rule("bad", Action::Abort)]);
    let flow = conversation.push(TEXT, b"so bad");
    let written = serde_json::to_value(&flow).unwrap();
    assert_eq!(written["cut"]["source"]["id"], "p/bad");
    let record: ttsr::DecisionRecord =
        serde_json::from_value(serde_json::to_value(&conversation.decisions()[0]).unwrap())
            .unwrap();
    assert_eq!(
        (record.action, record.decided, &*record.matched),
        (Action::Abort, 6, "bad")
    );
    assert!(size_of::<Flow>() <= 8);
}

/// A pack with one aborting rule, given by the lines after its description.
fn aborting(keys: &str) -> Pack {
    let text = format!(
        "schema = 1\n[pack]\nname = 'p'\n[rule.r]\ndescription = 'd'\naction = 'abort'\n{keys}\n"
    );
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn facts_that_a_host_reports_to_an_attempt_decide_its_rules() {
    type Tell = fn(&mut Attempt<'_>) -> Flow;
    let todo = "match.any = [{ literal = 'todo' }]";
    let cases: [(String, Channel, Tell); 4] = [
        (
            "on = ['tool-input']\nmatch.limit = { tokens = 10 }".to_owned(),
            Channel::ToolInput,
            |attempt| attempt.count_tokens(CALL, 11),
        ),
        (
            "on = ['tool-input']\nmatch.limit = { seconds = 2 }".to_owned(),
            Channel::ToolInput,
            |attempt| attempt.tick(Duration::from_secs(3)),
        ),
        (
            format!("on = ['tool-input']\npaths = ['**/*.rs']\n{todo}"),
            Channel::ToolInput,
            |attempt| attempt.set_path(CALL, "src/lib.rs"),
        ),
        (
            format!("on = ['tool-output']\noutcome = 'error'\n{todo}"),
            Channel::ToolOutput,
            |attempt| attempt.set_outcome(CALL, ToolOutcome::Error),
        ),
    ];
    for (keys, channel, tell) in cases {
        let pack = aborting(&keys);
        for is_told in [true, false] {
            let mut conversation = Conversation::new(&pack);
            let mut turn = conversation.turn("Go.");
            let mut attempt = turn.attempt();
            assert_eq!(attempt.open(CALL, channel), Flow::Go);
            assert_eq!(attempt.tick(Duration::ZERO), Flow::Go);
            if is_told {
                let _ = tell(&mut attempt);
            }
            let _ = attempt.push(CALL, b"todo");
            let _ = attempt.close(CALL);
            assert_eq!(attempt.finish().cut().is_some(), is_told, "{keys}");
            // A cut repeats, whatever the host tells after it.
            assert_eq!(tell(&mut attempt).cut().is_some(), is_told, "{keys}");
        }
    }
}

#[test]
fn names_that_a_host_adds_to_a_conversation_are_known_in_its_replies() {
    let pack = aborting("on = ['text']\nmatch.unknown-name = {}");
    for is_known in [true, false] {
        let mut conversation = Conversation::new(&pack);
        if is_known {
            conversation.add_known_names(["our_crate"]);
        }
        let mut turn = conversation.turn("Go.");
        let mut attempt = turn.attempt();
        let _ = attempt.push(TEXT, b"```rust\nuse our_crate::x;\n```\n");
        assert_eq!(attempt.finish().ok().is_ok(), is_known);
    }
}

#[test]
fn a_call_of_a_turn_is_released_by_its_approval() {
    let mut asks = on(rule("push", Action::Consult), Channel::ToolInput);
    asks.consult = Some(ttsr::rule::Consult::new("May it?"));
    let mut conversation = Conversation::new(&pack([asks]));
    let mut turn = conversation.turn("Go.");
    let mut attempt = turn.attempt();
    let input = br#"{"command": "git push"}"#;
    let _ = attempt.open(CALL, Channel::ToolInput);
    let _ = attempt.push(CALL, input);
    let _ = attempt.close(CALL);
    assert_eq!(attempt.finish(), Flow::Go);
    let parts: Vec<_> = attempt.reviews().iter().map(|review| review.part).collect();
    assert_eq!(parts, [CALL]);
    assert_eq!(attempt.take(CALL), b"");
    attempt.approve(CALL);
    assert_eq!(attempt.take(CALL), input);
    assert_eq!(attempt.counters().unscanned_bytes, 0);
    drop(attempt);
    assert_eq!(turn.conversation().reviews(), []);
}

#[test]
fn a_case_fails_if_its_rule_hits_too_late() {
    let case = |by_byte: u64, text: &str| {
        let text = format!(
            "schema = 1\n[pack]\nname = 'p'\n[rule.r]\ndescription = 'd'\non = ['text']\n\
             match.any = [{{ regex = '(?m)bad$' }}]\n[[rule.r.case]]\ntext = \"{text}\"\nexpect = 'inject'\n\
             by-byte = {by_byte}\n"
        );
        let pack = Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}"));
        ttsr::test(&pack).map_err(|error| error.failures()[0].problem)
    };
    assert_eq!(case(4, "bad\\n"), Ok(1));
    assert_eq!(
        case(3, "bad\\n"),
        Err("hits after the byte that the case names")
    );
}

#[test]
fn a_turn_screens_texts_as_its_conversation_does() {
    let mut failed = on(rule("is a directory", Action::Append), Channel::ToolOutput);
    (failed.id, failed.outcome) = ("p/folder".into(), Some(ToolOutcome::Error));
    failed.message = Some("List it.".into());
    let mut model = on(rule("busy", Action::Fallback), Channel::Error);
    model.id = "p/model".into();
    let mut shadow = on(rule("busy", Action::Abort), Channel::Error);
    (shadow.id, shadow.mode) = ("p/shadow".into(), Mode::Shadow);
    let mut conversation = Conversation::new(&pack([failed, model, shadow]));
    let mut turn = conversation.turn("Go.");
    for (outcome, expected) in [
        (ToolOutcome::Ok, "src is a directory"),
        (ToolOutcome::Error, "src is a directory\n\nList it."),
    ] {
        let screened = turn.screen_output(Some("read"), outcome, "src is a directory");
        assert_eq!(screened.text, expected, "{outcome:?}");
    }
    let screened = turn.screen(Channel::Error, None, "busy");
    assert_eq!(screened.flow, Flow::Go, "a rule in shadow cuts nothing");
    assert_eq!(screened.fallback.as_deref(), Some("p/model"));
    let mut decided = Vec::new();
    for record in &screened.decisions {
        assert_eq!(record.is_suppressed(), record.suppression.is_some());
        decided.push((record.action, record.suppression));
    }
    decided.sort_by_key(|(action, _)| *action == Action::Abort);
    assert_eq!(
        decided,
        [
            (Action::Fallback, None),
            (Action::Abort, Some(Suppression::Shadow))
        ]
    );
}

#[test]
fn a_reply_that_begins_anew_in_an_attempt_is_read_from_its_start() {
    let mut warn = rule("todo", Action::Warn);
    warn.id = "p/todo".into();
    let mut conversation = Conversation::new(&pack([warn]));
    let mut turn = conversation.turn("Go.");
    let mut attempt = turn.attempt();
    assert_eq!(attempt.push(TEXT, b"to"), Flow::Go);
    assert_eq!(attempt.restart(), Flow::Go);
    assert_eq!(attempt.push(TEXT, b"do "), Flow::Go);
    assert!(
        attempt.decisions().is_empty(),
        "the pieces are of two replies"
    );
    assert_eq!(attempt.push(TEXT, b"a todo"), Flow::Go);
    assert_eq!(attempt.decisions().len(), 1);
}

#[test]
fn a_cut_is_written_as_its_message() {
    let mut rule = rule("bad", Action::Abort);
    rule.message = Some("Not this.".into());
    let mut conversation = conversation([rule]);
    let flow = conversation.push(TEXT, b"bad");
    assert_eq!(flow.cut().unwrap().to_string(), "Not this.");
}

#[test]
fn a_call_outside_of_an_attempt_is_cut_and_reads_nothing() {
    type Call = fn(&mut Conversation) -> Flow;
    let calls: [(&str, Call); 12] = [
        ("open", |it| it.open(CALL, Channel::ToolInput)),
        ("tool", |it| it.set_tool(CALL, "bash", "call_1")),
        ("set_path", |it| it.set_path(CALL, "a.rs")),
        ("set_outcome", |it| it.set_outcome(CALL, ToolOutcome::Ok)),
        ("push", |it| it.push(CALL, b"bad")),
        ("count_tokens", |it| it.count_tokens(CALL, 1)),
        ("tick", |it| it.tick(Duration::ZERO)),
        ("close", |it| it.close(CALL)),
        ("finish", Conversation::finish),
        ("restart", Conversation::restart),
        ("apply a snapshot", |it| {
            let bytes = b"bad".to_vec();
            it.apply(&Event::Snapshot { part: CALL, bytes })
        }),
        ("apply usage", |it| {
            it.apply(&Event::Usage {
                input: 1,
                output: 1,
            })
        }),
    ];
    for is_in_turn in [false, true] {
        let mut conversation = Conversation::new(&pack([rule("bad", Action::Abort)]));
        if is_in_turn {
            assert_eq!(conversation.begin_turn("Go.").flow, Flow::Go);
        }
        for (name, call) in calls {
            let flow = call(&mut conversation);
            let source = flow.cut().map(|cut| cut.source.name());
            assert_eq!(source, Some("misuse"), "{name}, in a turn: {is_in_turn}");
        }
        assert!(conversation.decisions().is_empty());
        assert_eq!(conversation.released(CALL), None);
    }
}

#[test]
fn an_event_without_text_changes_nothing_and_a_repetition_is_read_from_its_new_bytes() {
    let mut conversation = conversation([rule("aa", Action::Abort)]);
    let snapshot = |bytes: &[u8]| Event::Snapshot {
        part: TEXT,
        bytes: bytes.to_vec(),
    };
    assert_eq!(conversation.push(TEXT, b"ba"), Flow::Go);
    for event in [
        snapshot(b"b"),
        snapshot(b"ba"),
        Event::Unscanned {
            bytes: 3,
            kind: "image".into(),
        },
        Event::Error {
            kind: "overloaded".into(),
            message: "aa".into(),
        },
    ] {
        assert_eq!(conversation.apply(&event), Flow::Go, "{}", event.name());
        assert_eq!(conversation.delivered_bytes(TEXT), 2, "{}", event.name());
    }
    let flow = conversation.apply(&snapshot(b"baa"));
    assert_eq!(
        flow.cut().and_then(|cut| cut.rule()),
        Some("p/aa"),
        "one byte is new"
    );
}

#[test]
fn tool_input_streams_from_the_next_call_on_if_the_host_asks_within_an_attempt() {
    let mut conversation = conversation([on(rule("bad", Action::Abort), Channel::ToolInput)]);
    for (part, expected) in [(CALL, ""), (PartId(8), "{\"a\": ")] {
        let _ = conversation.open(part, Channel::ToolInput);
        assert_eq!(conversation.push(part, br#"{"a": "#), Flow::Go);
        assert_eq!(taken(&mut conversation, part), expected, "{part:?}");
        conversation.stream_tool_input();
    }
}

#[test]
fn a_conversation_says_which_rules_apply_to_its_agent() {
    let mut scoped = rule("a", Action::Inject);
    scoped.agents = vec!["review*".into()];
    let pack = pack([scoped]);
    let id = pack.find("p/a").expect("it is in the pack");
    let mut conversation = Conversation::new(&pack);
    for (agent, applies) in [("reviewer", true), ("writer", false)] {
        conversation.set_origin(ttsr::Origin {
            agent: Some(agent.into()),
            ..ttsr::Origin::default()
        });
        assert_eq!(conversation.applies(id), applies, "{agent}");
    }
}

#[test]
fn a_redaction_within_a_character_of_tool_input_replaces_all_of_it() {
    // The second byte of each character is the match.
    for (text, byte) in [("é", r"\xA9"), ("€", r"\x82"), ("😀", r"\x9F")] {
        let mut number = on(rule("n", Action::Redact), Channel::ToolInput);
        number.condition.any = vec![Pattern::regex(format!("(?-u:{byte})"))];
        let input = format!(r#"{{"a":"b{text}c"}}"#);
        for size in 1..=input.len() {
            let mut conversation = conversation([number.clone()]);
            let _ = conversation.open(CALL, Channel::ToolInput);
            let mut out = String::new();
            for delta in input.as_bytes().chunks(size) {
                assert_eq!(conversation.push(CALL, delta), Flow::Go);
                out += &taken(&mut conversation, CALL);
            }
            assert_eq!(conversation.close(CALL), Flow::Go);
            out += &taken(&mut conversation, CALL);
            assert_eq!(out, r#"{"a":"b[redacted]c"}"#, "{text} by {size}");
        }
    }
}
