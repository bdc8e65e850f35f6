//! The text that stays of a reply that a rule cut, and the model of the retry.

use ttsr::harness::{Cancel, Content, Hooks, Processor, Role, ScriptedReply, Settings, Step};
use ttsr::{Action, Channel, Limits, Origin, Pack, Partial, Pattern, Rule};

use super::{Played, delta, play_with, processor, text};

fn rule(partial: Partial) -> Rule {
    let mut rule = Rule::new("p/a", vec![Pattern::regex("bad +word|word")]);
    (rule.action, rule.partial) = (Action::Retry, partial);
    rule.on = Channel::STREAMED.to_vec();
    rule.message = Some("No.".into());
    rule.retry.model = Some("other".into());
    rule.retry.temperature = Some(250);
    rule
}

fn played(rule: Rule, script: ScriptedReply) -> Played {
    let pack = Pack::builder().rule(rule).build().unwrap();
    let processor = Processor::new(&pack, Hooks::default(), Settings::default());
    play_with(
        processor,
        vec![script, text("fine")],
        &Cancel::default(),
        |_| {},
    )
}

/// Returns the model's own pieces in the second request, and the number of published bytes that stay of each part.
fn kept(played: &Played) -> (Vec<String>, Vec<u64>) {
    let request = &played.provider.requests()[1];
    let own = request.messages.iter();
    let own = own.filter(|message| message.role == Role::Assistant);
    let pieces = own.flat_map(|message| &message.content);
    let pieces = pieces.map(|piece| match piece {
        Content::Text { text, synthetic } => {
            assert!(!synthetic, "the model wrote it");
            format!("text {text}")
        }
        Content::Reasoning { text } => format!("reasoning {text}"),
        piece => panic!("must not stay: {piece:?}"),
    });
    let left = played.steps.iter().filter_map(|step| match step {
        Step::Retract { from, .. } => Some(*from),
        _ => None,
    });
    (pieces.collect(), left.collect())
}

fn reply() -> ScriptedReply {
    let script = ScriptedReply::default()
        .reasoning("hm")
        .tool("read", "c1", "{}");
    let text = ["so é ba", "d  wo", "rd"].into_iter();
    text.fold(script, |script, piece| script.event(delta(9, piece)))
}

#[test]
fn a_partial_stays_as_far_as_its_rule_says_and_tool_input_never() {
    for (partial, pieces, left) in [
        (Partial::Discard, &[][..], [0, 0, 0]),
        (
            Partial::Keep,
            &["reasoning hm", "text so é bad  wo"],
            [2, 0, 13],
        ),
        (
            Partial::KeepBeforeMatch,
            &["reasoning hm", "text so é "],
            [2, 0, 6],
        ),
    ] {
        let played = played(rule(partial), reply());
        assert_eq!(
            kept(&played),
            (
                pieces.iter().map(|&piece| piece.into()).collect(),
                left.to_vec()
            )
        );
        assert_eq!(
            played.outcome.reply.text(Channel::Text),
            "fine",
            "{partial:?}"
        );
        let request = &played.provider.requests()[1];
        let last = request.messages.last().unwrap();
        assert_eq!((last.role, last.text()), (Role::User, "No.".into()));
    }
}

#[test]
fn nothing_of_a_call_stays_if_the_match_is_in_its_input() {
    let script = ScriptedReply::default()
        .text("calling")
        .tool("write", "c1", r#"{"a":"a word"}"#);
    let played = played(rule(Partial::KeepBeforeMatch), script);
    assert_eq!(kept(&played), (vec!["text calling".into()], vec![7, 0]));
}

#[test]
fn a_match_that_may_have_begun_anywhere_takes_its_part_with_it() {
    let mut long = rule(Partial::KeepBeforeMatch);
    long.condition.any = vec![Pattern::regex("bad .*word")];
    let script = ScriptedReply::default()
        .reasoning("hm")
        .event(delta(9, "so bad "));
    let script = script
        .event(delta(9, &"x".repeat(300)))
        .event(delta(9, "word"));
    let played = played(long, script);
    assert_eq!(kept(&played), (vec!["reasoning hm".into()], vec![2, 0]));
}

#[test]
fn half_a_character_does_not_stay() {
    let script = ScriptedReply::default().event(ttsr::Event::Delta {
        part: ttsr::PartId(9),
        bytes: b"ab\xE2\x82".to_vec(),
    });
    // A word in another part cuts while the character is not complete.
    let played = played(rule(Partial::Keep), script.event(delta(3, "word")));
    assert_eq!(kept(&played), (vec!["text ab".into()], vec![2, 0]));
}

#[test]
fn a_retry_takes_the_model_and_the_temperature_of_its_rule() {
    let played = played(rule(Partial::Discard), text("a word"));
    let requests = played.provider.requests();
    let asked = requests
        .iter()
        .map(|request| (&*request.model, request.temperature));
    let asked: Vec<_> = asked.collect();
    assert_eq!(asked, [("model", None), ("other", Some(250))]);
    let sent = played.steps.iter().filter_map(|step| match step {
        Step::Send {
            model, temperature, ..
        } => Some((model.as_deref(), *temperature)),
        _ => None,
    });
    assert_eq!(
        sent.collect::<Vec<_>>(),
        [(None, None), (Some("other"), Some(250))]
    );
}

#[test]
fn a_new_pack_and_a_new_origin_count_from_the_next_attempt_on() {
    let mut processor = processor(Hooks::default());
    let mut steps = Vec::new();
    processor.begin("msg_1", &mut steps);
    let mut scoped = rule(Partial::Discard);
    scoped.models = vec!["m".into()];
    let pack = Pack::builder()
        .rule(scoped)
        .limits(Limits::default())
        .build();
    assert_eq!(processor.reload(pack.unwrap()), []);
    processor.set_origin(Origin {
        model: Some("m".into()),
        ..Origin::default()
    });
    assert!(
        processor
            .stream()
            .unwrap()
            .pack()
            .find("t/no-any")
            .is_some(),
        "under way"
    );
    let played = play_with(
        processor,
        vec![text("a word"), text("x: any")],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(played.outcome.reply.text(Channel::Text), "x: any");
    assert_eq!(played.aborted().len(), 1);
}
