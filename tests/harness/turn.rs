//! Turns as data, in `turns.toml`.

use serde::Deserialize;
use ttsr::harness::event::LoopEvent;
use ttsr::harness::{
    AbortReason, AbortSource, Aborted, Cancel, End, Failure, Hooks, Message, Request, Role, Run,
    Scripted, ScriptedReply, Step,
};
use ttsr::{Channel, Conversation, Event, Flow, PartId};

use super::{Played, delta, play, play_with, processor, runtime, text};

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    replies: Vec<Reply>,
    #[serde(default)]
    answer: String,
    end: Option<String>,
    sent: Vec<Vec<String>>,
    #[serde(default)]
    aborted: Vec<String>,
    #[serde(default)]
    notified: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    parts: Vec<(String, String)>,
    #[serde(default)]
    open: bool,
    finish: Option<String>,
    fail: Option<String>,
}

impl Reply {
    fn script(&self) -> ScriptedReply {
        let mut script = ScriptedReply::default();
        for (number, (kind, content)) in self.parts.iter().enumerate() {
            script = match Channel::from_name(kind) {
                Some(Channel::Text) => script.text(content),
                Some(Channel::Reasoning) => script.reasoning(content),
                _ => script.tool(kind, &number.to_string(), content),
            };
        }
        if self.open {
            let events = script.events().iter();
            let events = events.filter(|event| !matches!(event, Event::PartEnd { .. }));
            script = ScriptedReply::from(events.cloned().collect::<Vec<_>>());
        }
        match (self.finish.as_deref(), &self.fail) {
            (Some(""), _) | (None, Some(_)) => {}
            (finish, _) => script = script.finish(finish.unwrap_or("stop")),
        }
        match &self.fail {
            Some(kind) => script.fail(Failure::new(kind, "as recorded")),
            None => script,
        }
    }
}

fn source(reason: AbortReason, source: &AbortSource) -> String {
    let source = match source {
        AbortSource::Rule { id, .. } => format!("rule {id}"),
        AbortSource::Hook(name) => format!("hook {name}"),
        AbortSource::Limit(name) => format!("limit {name}"),
        AbortSource::Provider => "provider".to_owned(),
        AbortSource::User => "user".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{} {source}", reason.name())
}

fn describe(aborted: &Aborted) -> String {
    let mut text = source(aborted.reason, &aborted.source);
    if aborted.retry {
        text.push_str(" retry");
    }
    let blamed: Vec<_> = aborted.calls.iter().filter(|call| call.is_blamed).collect();
    assert!(blamed.len() <= 1);
    if let [blamed] = &blamed[..] {
        text += &format!(" blames call {}", blamed.call.as_deref().unwrap());
        if aborted.calls.len() > 1 {
            text += &format!(" of {}", aborted.calls.len());
        }
    }
    text
}

/// Returns the decisions with their offsets, which must not depend on how the reply is cut into deltas.
fn decisions(played: &Played) -> Vec<String> {
    let decisions = played.steps.iter().filter_map(|step| match step {
        Step::Observe(LoopEvent::Decision(decision)) => Some(format!("{decision:?}")),
        _ => None,
    });
    decisions.collect()
}

fn check(case: &Case) {
    let mut decided = None;
    for cut in [usize::MAX, 1, 2, 3, 7] {
        let scripts = case.replies.iter();
        let scripts = scripts.map(|reply| reply.script().cut(cut)).collect();
        let played = play(Hooks::default(), scripts);
        let name = format!("{} cut into {cut}", case.name);
        let end = match &played.outcome.end {
            End::Complete { .. } => None,
            End::Aborted {
                reason, source: by, ..
            } => Some(source(*reason, by)),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(end, case.end, "{name}: end");
        assert_eq!(
            played.outcome.reply.text(Channel::Text),
            case.answer,
            "{name}: answer"
        );
        assert_eq!(played.sent(), case.sent, "{name}: messages added");
        let added: Vec<String> = played.outcome.added.iter().map(|m| m.text()).collect();
        assert_eq!(added, case.sent.concat(), "{name}: added");
        let aborted: Vec<String> = played.aborted().into_iter().map(describe).collect();
        assert_eq!(aborted, case.aborted, "{name}: aborted");
        let notified = played.steps.iter().filter_map(|step| match step {
            Step::Notify { text, .. } => Some(text.clone()),
            _ => None,
        });
        assert_eq!(
            notified.collect::<Vec<_>>(),
            case.notified,
            "{name}: notified"
        );
        let cuts = case
            .aborted
            .iter()
            .map(|aborted| !aborted.contains("provider"));
        let mut cuts: Vec<bool> = cuts.collect();
        cuts.resize(played.provider.requests().len(), false);
        assert_eq!(
            played.provider.cancelled(),
            cuts,
            "{name}: transports dropped"
        );
        let decisions = decisions(&played);
        assert_eq!(
            decided.get_or_insert(decisions.clone()),
            &decisions,
            "{name}: decisions"
        );
    }
}

#[test]
fn turns() {
    let cases: Cases = toml::from_str(include_str!("turns.toml")).unwrap();
    assert!(cases.case.len() > 10);
    cases.case.iter().for_each(check);
}

#[test]
fn without_the_rule_the_bad_reply_passes_whole() {
    let empty = ttsr::Pack::builder().build().unwrap();
    let processor =
        ttsr::harness::Processor::new(&empty, Hooks::default(), ttsr::harness::Settings::default());
    let script = vec![text("let x: any = 1; rm -rf /").cut(3)];
    let played = play_with(processor, script, &Cancel::default(), |_| {});
    assert_eq!(played.published(), "let x: any = 1; rm -rf /");
    assert_eq!(played.outcome.attempts, 1);
}

#[test]
fn the_aborting_delta_is_neither_accumulated_nor_published() {
    let scripts = vec![text("let x: any = 1").cut(5), text("good")];
    let played = play(Hooks::default(), scripts);
    assert_eq!(played.published(), "let x|good");
    let partial = &played.aborted()[0].partial;
    assert_eq!(partial.text(Channel::Text), "let x");
}

#[test]
fn the_steering_message_is_of_the_user_and_the_partial_is_not_in_the_context() {
    let played = play(
        Hooks::default(),
        vec![text("let x: any = 1").cut(2), text("good")],
    );
    let requests = played.provider.requests();
    let roles: Vec<Role> = requests[1].messages.iter().map(|m| m.role).collect();
    assert_eq!(roles, [Role::User, Role::User]);
    assert!(
        requests[1]
            .messages
            .iter()
            .all(|m| !m.text().contains("let x"))
    );
}

#[test]
fn the_transport_is_dropped_before_anyone_hears_of_the_abort() {
    let mut processor = processor(Hooks::default());
    let mut provider = Scripted::new([text("x: any").hang(), text("good")]);
    let kept = provider.clone();
    let request = Request::new("model", Vec::new());
    let mut seen = Vec::new();
    let run = Run::begin(
        &mut processor,
        &mut provider,
        request,
        "m",
        Cancel::default(),
    );
    let publish = |step: &Step| {
        if let Step::CancelUpstream | Step::Aborted(_) = step {
            seen.push(kept.cancelled());
        }
    };
    runtime().block_on(run.finish(publish));
    assert_eq!(seen, [[true], [true]]);
}

#[test]
fn guidance_of_one_turn_enters_the_first_request_of_the_next() {
    let first = play(Hooks::default(), vec![text("TODO")]);
    assert!(
        first
            .steps
            .iter()
            .any(|step| matches!(step, Step::Inject { .. }))
    );
    let second = play_with(
        first.processor,
        vec![text("fine")],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(second.sent(), [["Finish it."]]);
    let third = play_with(
        second.processor,
        vec![text("TODO")],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(third.sent(), [[""; 0]], "once per session");
}

#[test]
fn guidance_in_a_request_that_was_never_sent_waits_on() {
    let first = play(Hooks::default(), vec![text("TODO")]);
    let cancel = Cancel::default();
    cancel.cancel();
    let second = play_with(first.processor, vec![text("fine")], &cancel, |_| {});
    assert_eq!(second.outcome.added, []);
    let third = play_with(
        second.processor,
        vec![text("fine")],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(third.sent(), [["Finish it."]]);
}

#[test]
fn guidance_does_not_pile_up() {
    let first = play(Hooks::default(), vec![text("KEY, KEY").cut(1), text("KEY")]);
    let second = play_with(
        first.processor,
        vec![
            ScriptedReply::default()
                .text("KEY")
                .text("KEY")
                .finish("stop"),
        ],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(second.sent(), [["No keys."]]);
    let third = play_with(
        second.processor,
        vec![text("good")],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(third.sent(), [["No keys."]]);
}

#[test]
fn the_next_reply_of_a_turn_has_no_new_retries() {
    let mut first = play(Hooks::default(), vec![text("x: any"), text("good")]);
    let request = Request::new("model", Vec::new());
    let mut provider = Scripted::new([text("x: any"), text("x: any")]);
    let run = Run::proceed(
        &mut first.processor,
        &mut provider,
        request,
        "msg_2",
        Cancel::default(),
    );
    let outcome = runtime().block_on(run.finish(|_| {}));
    assert_eq!(outcome.attempts, 2, "one retry was left of two");
    assert_eq!(outcome.reply.text(Channel::Text), "x: any");
}

#[test]
fn guidance_that_was_never_sent_is_in_the_first_request_of_the_next_processor() {
    let first = play(Hooks::default(), vec![text("TODO")]);
    let conversation = first.processor.into_conversation();
    let waiting: Vec<String> = conversation.guidance().map(|note| note.text).collect();
    assert_eq!(waiting.len(), 1);
    let settings = ttsr::harness::Settings::default();
    let processor = ttsr::harness::Processor::new(conversation, Hooks::default(), settings);
    let second = play_with(processor, vec![text("TODO")], &Cancel::default(), |_| {});
    assert_eq!(second.sent(), [waiting]);
    let is_inject = |step: &Step| matches!(step, Step::Inject { .. });
    assert!(!second.steps.iter().any(is_inject), "it was said");
}

#[test]
fn guidance_of_a_conversation_is_in_the_first_request_of_its_processor() {
    let mut conversation = Conversation::new(&super::pack());
    let mut turn = conversation.turn("Write it.");
    let mut attempt = turn.attempt();
    assert_eq!(attempt.push(PartId(0), b"TODO"), Flow::Go);
    assert_eq!(attempt.finish(), Flow::Go);
    drop(attempt);
    let settings = ttsr::harness::Settings::default();
    let mut processor = ttsr::harness::Processor::new(conversation, Hooks::default(), settings);
    let mut steps = Vec::new();
    processor.begin("msg_1", &mut steps);
    let Some(Step::Send { messages, .. }) = steps.last() else {
        panic!("{steps:?}")
    };
    let sent: Vec<String> = messages.iter().map(Message::text).collect();
    assert_eq!(sent, ["Finish it."]);
}

#[test]
fn guidance_waits_over_a_reply_that_begins_anew() {
    let mut conversation = Conversation::new(&super::pack());
    let mut turn = conversation.turn("Write it.");
    let mut attempt = turn.attempt();
    for event in [delta(0, "TODO"), Event::Restart, delta(0, "Done.")] {
        assert_eq!(attempt.apply(&event), Flow::Go);
    }
    assert_eq!(attempt.finish(), Flow::Go);
    assert_eq!(attempt.take(PartId(0)), b"Done.");
    drop(attempt);
    let notes: Vec<String> = turn.guidance().map(|note| note.text).collect();
    assert_eq!(notes, ["Finish it."]);
}

#[test]
fn a_reply_that_begins_a_conversation_is_in_its_first_turn() {
    let mut processor = processor(Hooks::default());
    let mut steps = Vec::new();
    processor.proceed("msg_1", &mut steps);
    assert_eq!(processor.conversation().turns(), 1);
    assert!(matches!(steps.last(), Some(Step::Send { attempt: 1, .. })));
}

#[test]
fn the_opening_of_a_part_does_not_repeat_what_the_delta_before_it_decided() {
    let open = |part| Event::PartStart {
        part: PartId(part),
        name: String::new(),
        channel: Channel::Text,
        tool: None,
        call: None,
    };
    let script = ScriptedReply::from(vec![open(0), delta(0, "KEY"), open(1), delta(1, "b")]);
    let played = play(Hooks::default(), vec![script.finish("stop")]);
    assert_eq!(decisions(&played).len(), 1);
}
