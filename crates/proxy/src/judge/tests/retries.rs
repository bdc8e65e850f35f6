//! Replies that are taken again: the events of all attempts are one legal reply.

use bytes::Bytes;
use ttsr::{Action, Channel, Conversation, Event, Flow, Pack, Partial, Pattern, Rule};
use ttsr_testing::{Random, scale};
use ttsr_wire::Reader;

use super::replies::{Piece, seen, stream};
use super::{
    SETTINGS, StreamedApi, every_api, every_stream, judge_whole, legal, new_judge, pack_of,
    pack_of_rules, rule_of, streams_with_parts,
};
use crate::config::BlockEnding;
use crate::judge::{JudgeSettings, StreamFraming, TokenUsage, WholeBodyVerdict};
use crate::routes::ModelApi;

const RETRYING: JudgeSettings = JudgeSettings {
    can_retry: true,
    ..SETTINGS
};

fn retrying(partial: Partial) -> Pack {
    pack_of(Pattern::literal("forbidden"), |rule| {
        rule.action = Action::Retry;
        rule.partial = partial;
        rule.message = Some("Not this.".into());
    })
}

/// The result of attempts that follow each other.
#[derive(Debug)]
struct Taken {
    sent: String,
    /// The partial texts of the requests that were sent again.
    partials: Vec<String>,
    is_blocked: bool,
    usage: TokenUsage,
}

fn take(
    api: StreamedApi,
    pack: &Pack,
    settings: JudgeSettings,
    attempts: &[String],
    random: &mut Random,
) -> Taken {
    let mut judge = new_judge(api, pack, settings);
    let mut attempts = attempts.iter();
    let (mut sent, mut partials) = (Vec::new(), Vec::new());
    let mut current = attempts.next();
    while let Some(stream) = current {
        for piece in random.pieces(stream.as_bytes(), 200) {
            judge.push(Bytes::copy_from_slice(piece));
            sent.extend(judge.take());
        }
        let mut next = judge.next_attempt();
        if next.is_none() {
            assert!(!judge.is_waiting());
            assert_eq!(judge.finish(), Ok(()));
            // The end of Gemini's replies is that of the body.
            next = judge.next_attempt();
        }
        let Some(next) = next else { break };
        assert!(judge.is_waiting() && judge.is_holding());
        let retry = next.block.retry.unwrap();
        assert_eq!(retry.message, "Not this.");
        partials.push(retry.partial);
        current = attempts.next();
        match current {
            Some(_) => judge.resume(),
            None => judge.give_up(),
        }
    }
    sent.extend(judge.take());
    Taken {
        sent: String::from_utf8(sent).unwrap(),
        partials,
        is_blocked: judge.report().is_blocked,
        usage: judge.report().usage,
    }
}

#[test]
fn the_good_answer_follows_what_left_of_the_bad_one() {
    for api in every_stream() {
        let has_parts = api.has_parts();
        let mut bad = vec![Piece::Text(&["It is ", "for", "bidden", " more"])];
        let mut good = vec![Piece::Text(&["It is ", "fine."])];
        if has_parts {
            bad.insert(0, Piece::Reasoning(&["Hm. "]));
            good.insert(0, Piece::Reasoning(&["Better. "]));
            good.push(Piece::Tool("bash", &["{\"a\":", "1}"]));
        }
        for (partial, kept) in [(Partial::Discard, ""), (Partial::KeepBeforeMatch, "It is ")] {
            let attempts = [stream(api, &bad), stream(api, &good)];
            let mut random = Random::new(5);
            let taken = take(api, &retrying(partial), RETRYING, &attempts, &mut random);
            legal::check(api, &taken.sent);
            assert_eq!(taken.partials, [kept]);
            assert!(!taken.is_blocked);
            let seen = seen(&taken.sent);
            let gap = match api.api {
                ModelApi::AnthropicMessages | ModelApi::OpenAiResponses => "",
                _ => "\n\n",
            };
            assert!(
                seen.text.ends_with(&format!("{gap}It is fine.")),
                "{}",
                taken.sent
            );
            assert!(seen.text.starts_with("It is "), "{}", taken.sent);
            assert!(!seen.text.contains("bidden"), "{}", taken.sent);
            if has_parts {
                assert_eq!(seen.reasoning, "Hm. Better. ");
                assert_eq!((&*seen.input, seen.tools.len()), ("{\"a\":1}", 1));
            }
            assert_eq!(seen.finishes.len(), 1);
        }
    }
}

#[test]
fn an_attempt_before_any_text_left_is_invisible() {
    let pack = pack_of(Pattern::literal("forbidden"), |rule| {
        rule.action = Action::Retry;
        rule.hold = true;
        rule.message = Some("Not this.".into());
    });
    let good = [Piece::Text(&["Fine."])];
    for api in every_stream() {
        let attempts = [
            stream(api, &[Piece::Text(&["forbidden"])]),
            stream(api, &good),
        ];
        let taken = take(api, &pack, RETRYING, &attempts, &mut Random::new(1));
        legal::check(api, &taken.sent);
        assert_eq!(seen(&taken.sent).text, "Fine.", "{}", taken.sent);
    }
}

#[test]
fn the_rest_of_an_attempt_without_an_event_is_not_sent_before_the_reason() {
    for api in every_stream() {
        let rests: &[&str] = match api.framing {
            StreamFraming::Events => &["event:", "event: x\nid: 1\n", ": c", "\n"],
            StreamFraming::Lines => &[" ", "\n"],
            StreamFraming::Array => &[" ", "["],
        };
        for rest in rests {
            let bad = stream(api, &[Piece::Text(&["It is ", "forbidden."])]);
            let attempts = [bad, (*rest).to_owned()];
            let pack = retrying(Partial::Discard);
            let taken = take(api, &pack, RETRYING, &attempts, &mut Random::new(1));
            assert!(taken.is_blocked, "{api:?} {rest:?}");
            legal::check(api, &taken.sent);
            assert!(seen(&taken.sent).text.contains("Not this."));
        }
    }
}

#[test]
fn ids_model_and_usage_are_those_that_clients_expect() {
    let bad = [Piece::Text(&["Well, ", "forbidden"])];
    for api in every_stream() {
        let second = stream(api, &[Piece::Text(&["Fine."])])
            .replace("\"m\"", "\"other\"")
            .replace("msg_1", "msg_2")
            .replace("c1", "c2")
            .replace("cmpl-1", "cmpl-2")
            .replace("\"r1\"", "\"r2\"")
            .replace("\"t1\"", "\"t2\"")
            .replace("\"promptTokenCount\":9", "\"promptTokenCount\":99")
            .replace("resp_1", "resp_2")
            .replace("\"input_tokens\":9", "\"input_tokens\":99");
        let attempts = [stream(api, &bad), second];
        let pack = retrying(Partial::Discard);
        let sent = take(api, &pack, RETRYING, &attempts, &mut Random::new(2)).sent;
        legal::check(api, &sent);
        for other in [
            "\"other\"",
            "msg_2",
            "\"c2\"",
            "cmpl-2",
            "\"r2\"",
            "\"t2\"",
            "resp_2",
        ] {
            assert!(!sent.contains(other), "{other}: {sent}");
        }
        if api == ModelApi::AnthropicMessages {
            let end = sent.find("event: message_delta").unwrap();
            assert!(
                sent[end..].contains("\"input_tokens\":99,\"output_tokens\":7"),
                "{sent}"
            );
        }
        if matches!(api.api, ModelApi::Gemini | ModelApi::CodeAssist) {
            assert!(sent.contains("\"promptTokenCount\":99"), "{sent}");
        }
        // Each line of Ollama has the role.
        assert_eq!(
            sent.matches("\"role\":\"assistant\"").count() > 1,
            matches!(api.api, ModelApi::OpenAiResponses | ModelApi::OllamaChat)
        );
    }
}

#[test]
fn attempts_are_bounded_and_the_last_one_does_what_comes_then() {
    let bad = [Piece::Text(&["forbidden"])];
    for api in every_stream() {
        for (then, is_blocked) in [(Action::Warn, false), (Action::Abort, true)] {
            let pack = pack_of(Pattern::literal("forbidden"), |rule| {
                rule.action = Action::Retry;
                rule.retry.then = Some(then);
                rule.message = Some("Not this.".into());
            });
            let attempts = vec![stream(api, &bad); 9];
            let taken = take(api, &pack, RETRYING, &attempts, &mut Random::new(3));
            legal::check(api, &taken.sent);
            assert_eq!(taken.partials.len(), 2, "the rule's retries");
            assert_eq!(taken.is_blocked, is_blocked);
        }
    }
}

#[test]
fn a_reply_is_not_taken_again_after_a_call_left_or_without_a_request() {
    let bad = [
        Piece::Tool("bash", &["{\"a\":1}"]),
        Piece::Text(&["forbidden"]),
    ];
    let pack = retrying(Partial::Discard);
    for api in streams_with_parts() {
        let attempts = [stream(api, &bad), stream(api, &[Piece::Text(&["Fine."])])];
        let taken = take(api, &pack, RETRYING, &attempts, &mut Random::new(4));
        legal::check(api, &taken.sent);
        // In Chat no call is sent before the end of the reply.
        let is_chat = api == ModelApi::OpenAiChat;
        assert_eq!(taken.partials.len(), usize::from(is_chat), "{}", taken.sent);
        assert_eq!(seen(&taken.sent).tools.len(), usize::from(!is_chat));
        let taken = take(api, &pack, SETTINGS, &attempts[1..], &mut Random::new(4));
        assert!(!taken.is_blocked);
        let taken = take(api, &pack, SETTINGS, &attempts[..1], &mut Random::new(4));
        assert!(taken.is_blocked && taken.partials.is_empty());
        let taken = take(api, &pack, RETRYING, &attempts[..1], &mut Random::new(4));
        legal::check(api, &taken.sent);
        assert!(
            taken
                .sent
                .contains("[ttsr: reply stopped by rule demo/rule: Not this.]")
        );
    }
}

#[test]
fn a_reply_that_is_not_streamed_is_taken_again() {
    for api in every_api() {
        let bad = super::replies::whole(api, &[Piece::Text(&["Well, forbidden"])]).to_string();
        let good = super::replies::whole(api, &[Piece::Text(&["Fine."])]).to_string();
        let pack = retrying(Partial::KeepBeforeMatch);
        let mut judge = new_judge(api, &pack, RETRYING);
        let WholeBodyVerdict::Retry(next) = judge.judge_whole(bad.as_bytes()) else {
            panic!("a rule retries");
        };
        assert_eq!(next.block.retry.unwrap().partial, "Well, ");
        assert_eq!(
            judge_whole(&mut judge, good.as_bytes()).unwrap(),
            good.as_bytes()
        );
        assert_eq!(judge.report().retries, 1);
        let of_one = |body: &str| {
            let mut judge = new_judge(api, &pack_of_rules([]), SETTINGS);
            judge_whole(&mut judge, body.as_bytes()).unwrap();
            judge.report().usage
        };
        let (bad, good) = (of_one(&bad), of_one(&good));
        let sum = judge.report().usage;
        assert_eq!(sum.input, bad.input + good.input);
        assert_eq!(sum.output, bad.output + good.output);
        assert!(bad.input > 0, "{api:?} tells no tokens");
    }
}

#[test]
fn the_tokens_of_all_attempts_are_summed() {
    for api in every_stream() {
        let attempts = [
            stream(api, &[Piece::Text(&["Well, ", "forbidden"])]),
            stream(api, &[Piece::Text(&["Fine."])]),
        ];
        let pack = retrying(Partial::Discard);
        let usage = take(api, &pack, RETRYING, &attempts, &mut Random::new(6)).usage;
        let last = take(api, &pack, RETRYING, &attempts[1..], &mut Random::new(6));
        let last = last.usage;
        assert!(last.input > 0, "{api:?} tells no tokens");
        // Messages and Gemini tell tokens before the end, so those of the cut attempt are known.
        let tells_early = matches!(
            api.api,
            ModelApi::AnthropicMessages | ModelApi::Gemini | ModelApi::CodeAssist
        );
        assert_eq!(usage.input > last.input, tells_early, "{api:?}: {usage:?}");
        assert!(usage.output >= last.output, "{api:?}: {usage:?}");
    }
}

/// The texts that a conversation releases in the last attempt, and true if it is cut.
fn model(pack: &Pack, streams: &[String]) -> (String, usize, bool) {
    let mut conversation = Conversation::new(pack);
    conversation.start_turn();
    let mut text = Vec::new();
    for (number, stream) in streams.iter().enumerate() {
        text.clear();
        let mut events = Vec::new();
        let mut reader = Reader::new("model");
        reader.push(stream.as_bytes(), &mut |_, event| events.push(event));
        reader.finish(&mut |_, event| events.push(event));
        let mut texts = Vec::new();
        let _: Flow = conversation.begin_attempt();
        let mut cut = None;
        for event in &events {
            if let Event::PartStart {
                part,
                channel: Channel::Text,
                ..
            } = event
            {
                texts.push(*part);
            }
            if matches!(event, Event::Snapshot { .. }) {
                continue;
            }
            if let Flow::Cut(found) = conversation.apply(event) {
                cut = Some(found);
                break;
            }
            for part in &texts {
                text.extend_from_slice(conversation.take(*part));
            }
        }
        match cut {
            None => return (String::from_utf8(text).unwrap(), number, false),
            Some(cut) if cut.retry.is_none() => return (String::new(), number, true),
            Some(_) => {}
        }
    }
    (String::new(), streams.len(), true)
}

#[test]
fn random_attempts_become_one_legal_reply() {
    let words = [
        "so ",
        "forbidden",
        "forb",
        "TODO ",
        "é",
        "\u{1F600}",
        "key-1234",
        "stop",
    ];
    let rule = |id: &str, pattern, action| -> Rule {
        let mut rule = rule_of(id, pattern, &Channel::STREAMED, action);
        rule.message = Some("Not this.".into());
        rule
    };
    let mut held = rule("t/held", Pattern::literal("forbidden"), Action::Retry);
    held.hold = true;
    held.partial = Partial::Keep;
    let sets = [
        vec![rule(
            "t/retry",
            Pattern::literal("forbidden"),
            Action::Retry,
        )],
        vec![
            held,
            rule("t/key", Pattern::regex("key-[0-9]{4}"), Action::Redact),
        ],
        vec![
            rule("t/retry", Pattern::regex("forbidden\\b"), Action::Retry),
            rule("t/stop", Pattern::literal("stop"), Action::Abort),
        ],
    ];
    let packs = sets.map(pack_of_rules);
    let mut random = Random::new(41);
    let (mut splices, mut blocks) = (0, 0);
    for number in 0..scale(5_000) {
        let texts: Vec<Vec<String>> = (0..4)
            .map(|_| {
                (0..random.below(5))
                    .map(|_| random.pick(&words).to_owned())
                    .collect()
            })
            .collect();
        let pack = &packs[random.below(packs.len())];
        let has_thought = random.one_in(3);
        let ending = match random.one_in(3) {
            true => BlockEnding::Hard,
            false => BlockEnding::Soft,
        };
        for api in every_stream() {
            let streams: Vec<String> = texts
                .iter()
                .map(|deltas| {
                    let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
                    let text = Piece::Text(&deltas);
                    match has_thought && api.has_parts() {
                        true => stream(api, &[Piece::Reasoning(&["Hm."]), text]),
                        false => stream(api, &[text]),
                    }
                })
                .collect();
            let settings = JudgeSettings { ending, ..RETRYING };
            let taken = take(api, pack, settings, &streams, &mut random);
            let what = format!("case {number}, {api:?}: {streams:?}\nsent: {}", taken.sent);
            legal::check(api, &taken.sent);
            let seen = seen(&taken.sent);
            let ends = seen.finishes.len()
                + usize::from(
                    ending == BlockEnding::Hard && taken.is_blocked && seen.finishes.is_empty(),
                );
            assert_eq!(ends, 1, "{what}");
            let (last, retries, is_cut) = model(pack, &streams);
            assert_eq!(
                (taken.partials.len(), taken.is_blocked),
                (retries, is_cut),
                "{what}"
            );
            if !is_cut {
                assert!(seen.text.ends_with(&last), "{what}");
            }
            splices += usize::from(!taken.partials.is_empty() && !is_cut);
            blocks += usize::from(is_cut);
        }
    }
    assert!(
        splices > 50 && blocks > 20,
        "{splices} splices, {blocks} blocks"
    );
}
