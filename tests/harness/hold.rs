//! Text that waits for a rule, and text that a rule takes out.

use ttsr::harness::{Cancel, Hooks, Processor, Replay, Script, Settings, Step};
use ttsr::{Action, Channel, Mode, Pack, Partial, Pattern, Repeat, Rule};

use super::{Played, delta, play_with, text};

fn secret() -> Rule {
    let mut rule = Rule::new("p/secret", vec![Pattern::regex("key-[0-9]{4}")]);
    rule.action = Action::Redact;
    rule.replacement = Some("[a \"key\"]".into());
    rule
}

fn pack(rules: impl IntoIterator<Item = Rule>) -> Pack {
    let pack = rules
        .into_iter()
        .fold(Pack::builder(), |pack, rule| pack.rule(rule));
    pack.build().unwrap()
}

fn played(rules: impl IntoIterator<Item = Rule>, scripts: Vec<Script>) -> Played {
    let settings = Settings::default();
    let processor = Processor::new(pack(rules).session(), Hooks::default(), settings);
    play_with(processor, scripts, &Cancel::default(), |_| {})
}

#[test]
fn what_a_rule_takes_out_never_leaves_whatever_the_cut() {
    for cut in 1..12 {
        let script = text("My key-1234 and key-5678, not key-12.").cut(cut);
        let played = played([secret()], vec![script]);
        let expected = "My [a \"key\"] and [a \"key\"], not key-12.";
        assert_eq!(played.published(), expected, "cut into {cut}");
        assert_eq!(played.outcome.reply.text(Channel::Text), expected);
    }
}

#[test]
fn tool_input_stays_json_where_something_is_taken_out() {
    let script = Script::default().tool("write", "c", r#"{"text":"it is key-1234."}"#);
    let played = played([secret()], vec![script.cut(5).finish("tool_use")]);
    let call = played.outcome.reply.tool_calls().next().unwrap();
    let input: serde_json::Value = serde_json::from_slice(&call.raw).unwrap();
    assert_eq!(input["text"], "it is [a \"key\"].");
}

#[test]
fn only_bytes_that_no_rule_can_want_are_forwarded() {
    let played = played([secret()], vec![text("a key-12").cut(1)]);
    let mut waits = 0;
    for step in &played.steps {
        match step {
            Step::Hold { bytes, .. } => waits = *bytes,
            Step::Forward { bytes, .. } => {
                assert!(!bytes.starts_with(b"k") || bytes == b"key-12", "{bytes:?}");
            }
            _ => {}
        }
    }
    assert_eq!(waits, 6, "the end of the part decides about `key-12`");
    assert_eq!(played.published(), "a key-12");
}

#[test]
fn what_waits_when_the_reply_is_cut_is_in_no_partial() {
    let mut stop = Rule::new("p/stop", vec![Pattern::literal("stop")]);
    stop.action = Action::Abort;
    // The end of the first part would decide about the key, but it never comes.
    let script = Script::default()
        .event(delta(0, "so key-12"))
        .event(delta(1, "stop"));
    let played = played([secret(), stop], vec![script]);
    let aborted = played.aborted()[0];
    assert_eq!(aborted.partial.text(Channel::Text), "so ");
    assert!(!format!("{aborted:?}").contains("key-"));
}

#[test]
fn in_shadow_and_past_its_bounds_a_rule_takes_nothing_out() {
    let mut shadow = secret();
    shadow.mode = Mode::Shadow;
    assert_eq!(
        played([shadow], vec![text("key-1234")]).published(),
        "key-1234"
    );

    let mut once = secret();
    once.repeat = Some(Repeat {
        per_session: Some(1),
        ..Repeat::default()
    });
    let script = Script::default()
        .text("key-1234 ")
        .text("key-5678")
        .finish("stop");
    assert_eq!(
        played([once], vec![script]).published(),
        "[a \"key\"] key-5678"
    );
}

#[test]
fn where_a_match_begins_is_known_behind_what_was_taken_out() {
    let mut retry = Rule::new("p/word", vec![Pattern::literal("bad")]);
    (retry.action, retry.partial) = (Action::Retry, Partial::KeepBeforeMatch);
    let script = Script::default().text("key-1234 then bad");
    let played = played([secret(), retry], vec![script.cut(3), text("fine")]);
    let request = &played.provider.requests()[1];
    assert_eq!(request.messages[1].text(), "[a \"key\"] then ");
}

#[test]
fn an_abort_says_which_blocks_may_be_sent_again() {
    for (signs_reasoning, reasoning) in [(false, Replay::Unsigned(2)), (true, Replay::Never)] {
        let mut rule = Rule::new("p/a", vec![Pattern::literal("bad")]);
        (rule.action, rule.partial) = (Action::Retry, Partial::Keep);
        let settings = Settings {
            signs_reasoning,
            ..Settings::default()
        };
        let processor = Processor::new(pack([rule]).session(), Hooks::default(), settings);
        let script = Script::default().reasoning("hm").tool("read", "c1", "{}");
        let scripts = vec![script.text("bad").cut(1), text("fine")];
        let played = play_with(processor, scripts, &Cancel::default(), |_| {});
        let blocks = played.aborted()[0].blocks.iter();
        let blocks: Vec<Replay> = blocks.map(|block| block.replay).collect();
        assert_eq!(blocks, [reasoning, Replay::Never, Replay::UpTo(2)]);
        let kept = &played.provider.requests()[1].messages[1].content;
        assert_eq!(kept.len(), if signs_reasoning { 1 } else { 2 });
    }
}
