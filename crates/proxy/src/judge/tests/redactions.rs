//! Replies from which rules redact text.

use bytes::Bytes;
use ttsr::{Action, Pack, Pattern};

use super::replies::{Piece, events, seen, stream, whole};
use super::{SETTINGS, judge_whole, judge_with, new_judge, pack_of, streams_with_parts};
use crate::judge::{JudgeSettings, StreamFraming};
use crate::routes::ModelApi::{AnthropicMessages, OllamaChat, OpenAiChat, OpenAiResponses};

const SECRET: &str = "key-é-0123456789";

fn redacting() -> Pack {
    pack_of(Pattern::regex("key-é-[0-9]+"), |rule| {
        rule.action = Action::Redact;
        rule.on = ttsr::Channel::STREAMED.to_vec();
    })
}

/// Every piece of the secret of four bytes or more.
fn leaks(sent: &str) -> bool {
    let parts = [
        "key-", "ey-é", "-é-0", "0123", "1234", "2345", "3456", "4567", "5678", "6789",
    ];
    parts.iter().any(|part| sent.contains(part))
}

#[test]
fn no_byte_of_a_secret_is_sent_however_it_is_cut() {
    let pack = redacting();
    for api in streams_with_parts() {
        for first in (0..=SECRET.len()).filter(|at| SECRET.is_char_boundary(*at)) {
            for second in (first..=SECRET.len()).filter(|at| SECRET.is_char_boundary(*at)) {
                let (head, rest) = SECRET.split_at(first);
                let (middle, tail) = rest.split_at(second - first);
                let before = format!("It is {head}");
                let after = format!("{tail}. Fine.");
                let deltas = [&*before, middle, &after];
                let input_before = format!("{{\"a\": \"x {head}");
                let input_after = format!("{tail} y\"}}");
                let input = [&*input_before, middle, &input_after];
                let pieces = [
                    Piece::Reasoning(&deltas),
                    Piece::Text(&deltas),
                    Piece::Tool("t", &input),
                ];
                let text = stream(api, &pieces);
                let judged = judge_with(api, &pack, SETTINGS, text.as_bytes().chunks(7));
                let what = format!("{api:?} cut at {first} and {second}: {}", judged.sent);
                assert!(!judged.report.is_blocked && judged.ended.is_ok(), "{what}");
                assert!(!leaks(&judged.sent), "{what}");
                let seen = seen(&judged.sent);
                assert_eq!(seen.text, "It is [redacted]. Fine.", "{what}");
                assert_eq!(seen.reasoning, "It is [redacted]. Fine.", "{what}");
                assert_eq!(seen.input, "{\"a\": \"x [redacted] y\"}", "{what}");
                let body = whole(api, &pieces).to_string().into_bytes();
                let mut judge = new_judge(api, &pack, SETTINGS);
                let sent = String::from_utf8(judge_whole(&mut judge, &body).unwrap()).unwrap();
                assert!(!leaks(&sent), "{what}: {sent}");
                assert_eq!(sent.matches("[redacted]").count(), 3, "{sent}");
            }
        }
    }
}

#[test]
fn only_events_with_redacted_text_change() {
    for api in streams_with_parts() {
        let pieces = [Piece::Text(&["one ", "key-é-1", "2 two", " three"])];
        let text = stream(api, &pieces);
        let sent = judge_with(api, &redacting(), SETTINGS, [text.as_bytes()]).sent;
        let end = match api.framing {
            StreamFraming::Events => "\n\n",
            StreamFraming::Lines => "\n",
            StreamFraming::Array => "\n,\n",
        };
        let (text, sent) = (text.replace('\r', ""), sent.replace('\r', ""));
        let (before, after): (Vec<&str>, Vec<&str>) =
            (text.split(end).collect(), sent.split(end).collect());
        assert_eq!(before.len(), after.len(), "{api:?}");
        for (before, after) in before.iter().zip(&after) {
            // Responses repeats the text at the end of the part, of the item and of the response.
            let has_secret = before.contains("key") || before.contains("2 two");
            assert_eq!(before != after, has_secret, "{api:?} {before} {after}");
        }
        assert_eq!(seen(&sent).text, "one [redacted] two three");
    }
}

#[test]
fn a_repetition_with_another_text_is_judged_too() {
    let text = stream(OpenAiResponses, &[Piece::Text(&["harmless"])]);
    for marker in [
        "response.output_item.done",
        "response.output_text.done",
        "response.completed",
    ] {
        let at = text.find(&format!("event: {marker}")).unwrap();
        let (head, tail) = text.split_at(at);
        let end = tail.find("\n\n").unwrap();
        for other in [SECRET, "harmless key-é-0123456789"] {
            let changed = tail[..end].replace("harmless", other) + &tail[end..];
            let all = format!("{head}{changed}");
            let judged = judge_with(OpenAiResponses, &redacting(), SETTINGS, [all.as_bytes()]);
            assert!(!leaks(&judged.sent), "{marker}: {}", judged.sent);
            assert!(
                judged.sent.contains("[redacted]"),
                "{marker}: {}",
                judged.sent
            );
        }
    }
}

#[test]
fn a_repetition_that_ends_within_a_redacted_text_is_not_sent() {
    let whole = format!("It is {SECRET}. Fine.");
    let text = stream(OpenAiResponses, &[Piece::Text(&[&whole])]);
    let at = text.find("event: response.output_text.done").unwrap();
    let (head, tail) = text.split_at(at);
    let end = tail.find("\n\n").unwrap();
    for len in (1..whole.len()).filter(|len| whole.is_char_boundary(*len)) {
        let changed = tail[..end].replace(&whole, &whole[..len]) + &tail[end..];
        let all = format!("{head}{changed}");
        let judged = judge_with(OpenAiResponses, &redacting(), SETTINGS, [all.as_bytes()]);
        let what = format!("{len}: {}", judged.sent);
        assert!(!leaks(&judged.sent), "{what}");
        let ends_within = ("It is ".len() + 1..whole.find('.').unwrap()).contains(&len);
        assert_eq!(judged.report.is_blocked, ends_within, "{what}");
    }
}

#[test]
fn a_repetition_that_ends_within_a_held_text_is_not_sent() {
    let deltas = ["It is ", "key-é-0", "123. Fine."];
    let all = events(OpenAiResponses, &[Piece::Text(&deltas)]);
    let third = all.iter().position(|it| it.contains(deltas[2])).unwrap();
    let done = all
        .iter()
        .find(|it| it.contains("response.output_text.done"));
    for (text, is_blocked) in [("It is", false), ("It is key-", true), ("Other", false)] {
        let early = done.unwrap().replace(&deltas.concat(), text);
        let all = all[..third].concat() + &early;
        let judged = judge_with(OpenAiResponses, &redacting(), SETTINGS, [all.as_bytes()]);
        assert!(!leaks(&judged.sent), "{text}: {}", judged.sent);
        assert_eq!(
            judged.report.is_blocked, is_blocked,
            "{text}: {}",
            judged.sent
        );
    }
}

#[test]
fn repetitions_of_texts_that_are_longer_than_the_bound_are_redacted_the_same() {
    let text = "abcdefghij".repeat(820);
    let filler = "abcdefghij".repeat(220);
    let input = [&*format!("{{\"a\": \"{filler}"), "key-é-01", "2345 end\"}"];
    let pieces = [Piece::Text(&[&text]), Piece::Tool("t", &input)];
    for api in [OpenAiChat, OpenAiResponses, OllamaChat] {
        let all = stream(api, &pieces);
        // The last event of Responses has all texts at once.
        let end = all.find("event: response.completed").unwrap_or(all.len());
        let mut results = Vec::new();
        for held_bytes in [1 << 20, 10_000] {
            let settings = JudgeSettings {
                held_bytes,
                ..SETTINGS
            };
            let mut judge = new_judge(api, &redacting(), settings);
            let mut sent = String::new();
            for event in all[..end].split_inclusive('\n') {
                judge.push(Bytes::copy_from_slice(event.as_bytes()));
                sent += std::str::from_utf8(&judge.take()).unwrap();
            }
            assert!(!leaks(&sent), "{api:?} {sent}");
            assert!(sent.contains("[redacted]"), "{api:?} {sent}");
            results.push(sent);
        }
        // Responses is stopped after the call, because its items are kept as well.
        let (all, end) = (&results[0], results[1].strip_prefix(&results[0]));
        let is_stopped = end.is_some_and(|end| end.contains("longer than the proxy may store"));
        assert_eq!(is_stopped, api == OpenAiResponses, "{all} {end:?}");
        assert!(
            end.is_some_and(|end| is_stopped || end.is_empty()),
            "{api:?}"
        );
    }
}

#[test]
fn edits_of_text_that_was_sent_are_kept_only_for_repetitions() {
    let deltas = vec!["a key-é-1 b"; 50];
    for (api, repeats) in [(AnthropicMessages, false), (OpenAiResponses, true)] {
        let all = events(api, &[Piece::Text(&deltas)]);
        let mut judge = new_judge(api, &redacting(), SETTINGS);
        let mut most = 0;
        let mut sent = String::new();
        for event in all {
            judge.push(Bytes::copy_from_slice(event.as_bytes()));
            sent += std::str::from_utf8(&judge.take()).unwrap();
            most = most.max(judge.parts.kept_edits());
        }
        judge.finish().unwrap();
        assert_eq!(most, if repeats { 50 } else { 0 }, "{api:?}");
        assert_eq!(seen(&sent).text, "a [redacted] b".repeat(50), "{api:?}");
    }
}

#[test]
fn equal_texts_of_one_event_are_redacted_each_in_its_way() {
    let event = |first: &str, second: &str| {
        let choices = serde_json::json!([
            {"index": 0, "delta": {"content": first}}, {"index": 1, "delta": {"content": second}},
        ]);
        format!(
            "data: {}\n\n",
            serde_json::json!({"id": "c", "choices": choices})
        )
    };
    let text = event("It is key-é-", "It is ") + &event("12 key-é-34 ", "12 key-é-34 ");
    let mut judge = new_judge(OpenAiChat, &redacting(), SETTINGS);
    judge.push(Bytes::copy_from_slice(text.as_bytes()));
    let sent = String::from_utf8(judge.take().into()).unwrap();
    let want = event("It is [redacted] [redacted]", "It is ") + &event(" ", "12 [redacted] ");
    assert_eq!(sent, want);
}

#[test]
fn a_text_that_is_not_redacted_stays_beside_an_equal_one_that_is() {
    let pack = pack_of(Pattern::regex("key-é-[0-9]+"), |rule| {
        rule.action = Action::Redact;
        rule.on = vec![ttsr::Channel::Text];
    });
    for api in streams_with_parts() {
        let pieces = |text| [Piece::Reasoning(&[SECRET]), Piece::Text(text)];
        // The rule does not concern reasoning, of which the reply has as many copies as one with another text.
        let same = stream(api, &pieces(&[SECRET]));
        let copies = stream(api, &pieces(&["x"])).matches(SECRET).count();
        let judged = judge_with(api, &pack, SETTINGS, [same.as_bytes()]);
        let seen = seen(&judged.sent);
        assert_eq!(seen.text, "[redacted]", "{api:?}: {}", judged.sent);
        assert_eq!(seen.reasoning, SECRET, "{api:?}: {}", judged.sent);
        assert_eq!(judged.sent.matches(SECRET).count(), copies, "{api:?}");
        let body = whole(api, &pieces(&[SECRET])).to_string().into_bytes();
        let copies = whole(api, &pieces(&["x"])).to_string();
        let mut judge = new_judge(api, &pack, SETTINGS);
        let sent = String::from_utf8(judge_whole(&mut judge, &body).unwrap()).unwrap();
        assert!(sent.contains("[redacted]"), "{api:?}: {sent}");
        let is_kept = sent.matches(SECRET).count() == copies.matches(SECRET).count();
        assert!(is_kept, "{api:?}: {sent}");
    }
}

#[test]
fn equal_deltas_of_two_choices_are_told_apart_and_copies_that_nobody_reads_are_not() {
    let event = |choices: [serde_json::Value; 2]| {
        let chunk = serde_json::json!({"id": "c", "choices": choices});
        format!("data: {chunk}\n\n")
    };
    let choice = |index: u32, delta: &str, name: &str| {
        let other = format!("{name}_content");
        serde_json::json!({"index": index, "delta": {name: delta, other: delta}})
    };
    for secret in [0, 1] {
        // Two names for the same reasoning are read once.
        let both = |of_secret, of_other| {
            let texts = match secret {
                0 => [of_secret, of_other],
                _ => [of_other, of_secret],
            };
            let [first, second] = texts;
            event([
                choice(0, first, "reasoning"),
                choice(1, second, "reasoning"),
            ])
        };
        let text = both("It is key-é-", "It is ") + &both("12. \"", "12. \"");
        let mut judge = new_judge(OpenAiChat, &redacting(), SETTINGS);
        judge.push(Bytes::copy_from_slice(text.as_bytes()));
        let sent = String::from_utf8(judge.take().into()).unwrap();
        let events: Vec<&str> = sent.split_inclusive("\n\n").collect();
        assert_eq!(events[0], both("It is [redacted]", "It is "));
        let (json, _) = ttsr_wire::JsonValue::parse(&events[1].as_bytes()[6..]).unwrap();
        let deltas = json.list("choices").iter().map(|it| it.get("delta"));
        let deltas: Vec<_> = deltas
            .map(|it| it.unwrap().text("reasoning_content").unwrap().into_owned())
            .collect();
        let want = match secret {
            0 => [". \"", "12. \""],
            _ => ["12. \"", ". \""],
        };
        assert_eq!(deltas, want, "{sent}");
        // A copy is not told apart, and redacted.
        assert_eq!(sent.matches("12.").count(), 1, "{sent}");
    }
}

#[test]
fn a_secret_in_reasoning_is_redacted_in_every_member_that_has_it() {
    let pack = pack_of(Pattern::regex("key-é-[0-9]+"), |rule| {
        rule.action = Action::Redact;
        rule.on = vec![ttsr::Channel::Reasoning];
    });
    let signed = |texts: &[&str], name: &str| {
        let item = |text: &&str| serde_json::json!({name: text, "signature": "EuYB"});
        serde_json::Value::from_iter(texts.iter().map(item))
    };
    let members = |texts: &[&str]| {
        let text = texts.concat();
        let blocks = signed(&[&text], "thinking");
        serde_json::json!({
            "reasoning_content": text,
            "thinking": text,
            "reasoning_details": signed(texts, "text"),
            "thinking_blocks": blocks,
            "provider_specific_fields": {"thinking_blocks": blocks, "reasoning": text},
        })
    };
    let whole = ["It is key-é-01234", "56789 now."];
    let reply =
        serde_json::json!({"choices": [{"message": members(&whole), "finish_reason": "stop"}]});
    let mut judge = new_judge(OpenAiChat, &pack, SETTINGS);
    let sent = judge_whole(&mut judge, reply.to_string().as_bytes()).unwrap();
    let sent = String::from_utf8(sent).unwrap();
    assert!(!leaks(&sent) && sent.contains("now."), "{sent}");
    assert_eq!(sent.matches("[redacted]").count(), 6, "{sent}");
    let chunk = |text: &str, reason: Option<&str>| {
        let choice = serde_json::json!({"delta": members(&[text]), "finish_reason": reason});
        format!(
            "data: {}\n\n",
            serde_json::json!({"id": "c", "choices": [choice]})
        )
    };
    let body = whole.map(|text| chunk(text, None)).concat() + &chunk("", Some("stop"));
    let judged = judge_with(OpenAiChat, &pack, SETTINGS, [body.as_bytes()]);
    assert!(!leaks(&judged.sent), "{}", judged.sent);
    assert_eq!(
        judged.sent.matches("[redacted]").count(),
        6,
        "{}",
        judged.sent
    );
    // Members with the same text are one text.
    assert_eq!(judged.report.redactions, 1);
    assert_eq!(
        judged.sent.matches("EuYB").count(),
        body.matches("EuYB").count()
    );
}

#[test]
fn a_secret_in_reasoning_is_one_match_however_a_copy_divides_it() {
    let pack = pack_of(Pattern::regex("key-é-[0-9]+"), |rule| {
        rule.action = Action::Redact;
        rule.on = vec![ttsr::Channel::Reasoning];
    });
    let text = format!("It is {SECRET} now.");
    let members = |text: &str, cut: usize| {
        let (first, second) = text.split_at(text.ceil_char_boundary(cut));
        serde_json::json!({
            "reasoning": text,
            "reasoning_details": [{"text": first}, {"text": ""}, {"text": second, "signature": "EuYB"}],
        })
    };
    let chunk = |name: &str, members: &serde_json::Value| {
        let choice = serde_json::json!({name: members, "finish_reason": null});
        format!(
            "data: {}\n\n",
            serde_json::json!({"id": "c", "choices": [choice]})
        )
    };
    let is_cut = |at: &usize| text.is_char_boundary(*at);
    for cut in (1..text.len()).filter(is_cut) {
        let reply = serde_json::json!({"choices": [{"message": members(&text, cut)}]});
        let mut judge = new_judge(OpenAiChat, &pack, SETTINGS);
        let sent = judge_whole(&mut judge, reply.to_string().as_bytes()).unwrap();
        let sent = String::from_utf8(sent).unwrap();
        assert!(!leaks(&sent) && sent.contains("now."), "{sent}");
        assert_eq!(judge.report().redactions, 1, "{sent}");
        // The text is divided over two deltas as well, and repeated by the last chunk.
        for end in (cut + 1..=text.len()).filter(is_cut) {
            let rest = match end == text.len() {
                true => String::new(),
                false => chunk("delta", &members(&text[end..], 1)),
            };
            let body = chunk("delta", &members(&text[..end], cut))
                + &rest
                + &chunk("message", &members(&text, cut))
                + &chunk("delta", &serde_json::json!({})).replace("null", "\"stop\"")
                + "data: [DONE]\n\n";
            let judged = judge_with(OpenAiChat, &pack, SETTINGS, [body.as_bytes()]);
            assert!(!leaks(&judged.sent), "{body}{}", judged.sent);
            assert_eq!(judged.ended, Ok(()));
            let report = judged.report;
            assert_eq!((report.redactions, report.is_blocked), (1, false), "{body}");
        }
    }
}

#[test]
fn a_copy_of_reasoning_that_differs_later_hides_no_text() {
    let pack = super::aborting("rm -rf");
    let chunk = |first: &str, second: &str| {
        let delta =
            serde_json::json!({"reasoning": first, "reasoning_details": [{"text": second}]});
        let choice = serde_json::json!({"delta": delta, "finish_reason": null});
        format!(
            "data: {}\n\n",
            serde_json::json!({"id": "c", "choices": [choice]})
        )
    };
    for first in ["", " more", "rf?"] {
        let body = chunk("rm -", "rm -") + &chunk(first, "rf /") + "data: [DONE]\n\n";
        let judged = judge_with(OpenAiChat, &pack, SETTINGS, [body.as_bytes()]);
        assert!(judged.report.is_blocked, "{body}");
        assert!(!judged.sent.contains("rf /"), "{}", judged.sent);
    }
    // The text before the difference is too long to be kept.
    let long = "a".repeat(100 << 10);
    let body = chunk(&long, &long) + &chunk("b", "c") + "data: [DONE]\n\n";
    let judged = judge_with(OpenAiChat, &pack, SETTINGS, [body.as_bytes()]);
    assert!(judged.report.is_unreadable && judged.report.is_blocked);
    let lenient = JudgeSettings {
        fail_open: true,
        ..SETTINGS
    };
    let judged = judge_with(OpenAiChat, &pack, lenient, [body.as_bytes()]);
    assert!(judged.report.is_unreadable && judged.sent == body);
}

#[test]
fn the_text_of_reasoning_that_has_copies_is_counted_as_kept() {
    let text = "a".repeat(1000);
    let delta = serde_json::json!({"reasoning": text, "reasoning_details": [{"text": text}]});
    let chunk = serde_json::json!({"id": "c", "choices": [{"delta": delta}]});
    let mut judge = new_judge(OpenAiChat, &super::aborting("never"), SETTINGS);
    for count in 1..4 {
        judge.push(Bytes::from(format!("data: {chunk}\n\n")));
        assert_eq!(judge.kept_bytes(), count * 1000);
    }
}

#[test]
fn a_secret_that_a_hosted_shell_prints_in_pieces_is_redacted() {
    let pack = pack_of(Pattern::regex("key-é-[0-9]+"), |rule| {
        rule.action = Action::Redact;
        rule.on = vec![ttsr::Channel::ToolOutput];
    });
    let event = |mut event: serde_json::Value, name: &str| {
        event["type"] = format!("response.{name}").into();
        event["output_index"] = 0.into();
        format!("event: response.{name}\ndata: {event}\n\n")
    };
    let shell = "shell_call_output_content";
    let printed = |text: &str| {
        event(
            serde_json::json!({"item_id": "i", "command_index": 0, "delta": {"stdout": text}}),
            &format!("{shell}.delta"),
        )
    };
    let output = serde_json::json!([{"stdout": "It is key-é-0123456789 now.", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]);
    let done = serde_json::json!({"item_id": "i", "command_index": 0, "output": output});
    let item = serde_json::json!({"id": "i", "call_id": "c", "type": "shell_call_output", "output": output});
    let response = serde_json::json!({"id": "r", "status": "completed", "output": [item]});
    let body = [
        event(
            serde_json::json!({"response": {"id": "r", "output": []}}),
            "created",
        ),
        printed("It is key-é-01234"),
        printed("56789 now."),
        event(done, &format!("{shell}.done")),
        event(serde_json::json!({"item": item}), "output_item.done"),
        event(serde_json::json!({"response": response}), "completed"),
    ]
    .concat();
    let judged = judge_with(OpenAiResponses, &pack, SETTINGS, [body.as_bytes()]);
    assert!(!leaks(&judged.sent), "{}", judged.sent);
    assert_eq!(
        judged.sent.matches("It is [redacted]").count(),
        4,
        "{}",
        judged.sent
    );
    assert_eq!(judged.report.redactions, 1);
    assert_eq!(judged.ended, Ok(()));
}

#[test]
fn probabilities_of_a_redacted_text_are_left_out() {
    let text = stream(OpenAiChat, &[Piece::Text(&["key-é-1", "2."])]);
    let text = text.replace(
        "\"finish_reason\":null",
        "\"finish_reason\":null,\"logprobs\":{\"content\":[{\"token\":\"key-\"}]}",
    );
    let sent = judge_with(OpenAiChat, &redacting(), SETTINGS, [text.as_bytes()]).sent;
    assert_eq!(seen(&sent).text, "[redacted].");
    assert_eq!(
        sent.matches("\"token\"").count(),
        1,
        "that of the first, empty delta: {sent}"
    );
}
