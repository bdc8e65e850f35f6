//! Replies that pass whole, and replies that a rule stops.

use bytes::Bytes;
use ttsr::{Action, Mode, Pattern};

use super::legal;
use super::replies::{ARRAY_END, Piece, events, seen, stream, whole};
use super::{
    APIS, GEMINI_ARRAY, Judged, SETTINGS, StreamedApi, aborting, complete_events, every_api,
    every_stream, judge, judge_whole, judge_with, new_judge, pack_of, streams_with_parts,
};
use crate::config::BlockEnding;
use crate::judge::{JudgeSettings, StreamFraming, TruncatedBody};
use crate::routes::ModelApi::{
    self, AnthropicMessages, CodeAssist, Gemini, OllamaChat, OllamaGenerate, OpenAiChat,
    OpenAiCompletions, OpenAiResponses,
};

const HARD: JudgeSettings = JudgeSettings {
    ending: BlockEnding::Hard,
    ..SETTINGS
};

fn usual() -> [Piece<'static>; 4] {
    [
        Piece::Reasoning(&["Hm", "m, é"]),
        Piece::Text(&["Let ", "me ", "see."]),
        Piece::Tool("bash", &["{\"command\":", " \"zebra\"}"]),
        Piece::Tool("read", &["{\"path\": \"quokka\"}"]),
    ]
}

#[test]
fn a_reply_without_a_hit_passes_byte_for_byte_under_every_segmentation() {
    let pack = pack_of(Pattern::regex("key-[0-9]{4}\\b"), |rule| {
        rule.action = Action::Redact
    });
    for api in streams_with_parts() {
        let text = stream(api, &usual()).replace('\r', "");
        let crlf = text.replace('\n', "\r\n");
        let commented = match api.framing {
            StreamFraming::Events => format!(": hello\n\n{text}\n: bye\n\n"),
            StreamFraming::Lines | StreamFraming::Array => format!("\n\n{text}\n\n"),
        };
        for text in [text, crlf, commented] {
            let bytes = text.as_bytes();
            let mut all: Vec<Vec<&[u8]>> = vec![bytes.chunks(1).collect(), vec![bytes]];
            all.extend((2..40).map(|len| bytes.chunks(len).collect()));
            for pieces in all {
                let judged = judge_with(api, &pack, SETTINGS, pieces);
                assert_eq!(judged.sent, text);
                assert_eq!(judged.ended, Ok(()));
                assert!(!judged.report.is_blocked);
            }
        }
        let body = whole(api, &usual()).to_string().into_bytes();
        let mut judge = new_judge(api, &pack, SETTINGS);
        assert_eq!(judge_whole(&mut judge, &body).unwrap(), body);
    }
}

#[test]
fn the_reason_follows_an_event_without_its_end() {
    let pack = pack_of(Pattern::regex(r"well\.$"), |rule| {
        rule.action = Action::Abort
    });
    let mut stopped = 0;
    for api in every_stream().filter(|api| !api.is_array()) {
        let text = stream(api, &[Piece::Text(&["All is ", "well."])]).replace('\r', "");
        let events = complete_events(api, text.as_bytes());
        let ends: Vec<usize> = events.match_indices('\n').map(|(at, _)| at).collect();
        for end in ends {
            let judged = judge(api, &pack, &events[..end]);
            if judged.report.is_blocked {
                stopped += 1;
                legal::check(api, &judged.sent);
                assert!(
                    seen(&judged.sent).text.contains("[ttsr: "),
                    "{}",
                    judged.sent
                );
            }
        }
    }
    assert!(stopped > 10, "{stopped}");
}

#[test]
fn text_leaves_as_it_arrives_and_a_call_leaves_whole_when_it_is_complete() {
    for api in streams_with_parts() {
        let pack = aborting("never");
        let mut judge = new_judge(api, &pack, SETTINGS);
        let (mut sent, mut shown_early) = (String::new(), false);
        for event in events(api, &usual()) {
            judge.push(Bytes::copy_from_slice(event.as_bytes()));
            sent += &String::from_utf8(judge.take().into()).unwrap();
            shown_early |= seen(&sent).text == "Let me ";
            let calls = ["bash", "read"]
                .iter()
                .filter(|name| sent.contains(&format!("\"name\":\"{name}\"")));
            let inputs = ["zebra", "quokka"]
                .iter()
                .filter(|input| sent.contains(**input));
            assert_eq!(calls.count(), inputs.count(), "{api:?} {sent}");
        }
        assert!(shown_early, "{api:?}");
        assert_eq!(judge.finish(), Ok(()));
        // In Gemini the end of the input ends the reply.
        sent += &String::from_utf8(judge.take().into()).unwrap();
        assert_eq!(sent, stream(api, &usual()));
    }
}

/// The end of a reply whose second text is forbidden.
fn blocked(api: impl Into<StreamedApi>, settings: JudgeSettings, pieces: &[Piece<'_>]) -> Judged {
    let api = api.into();
    let judged = judge_with(
        api,
        &aborting("forbidden"),
        settings,
        [stream(api, pieces).as_bytes()],
    );
    assert!(judged.report.is_blocked, "{judged:?}");
    assert_eq!(judged.ended, Ok(()));
    judged
}

#[test]
fn a_blocked_text_ends_with_the_reason_and_a_normal_stop() {
    let pieces = [Piece::Text(&["So: ", "for", "bidden", " more"])];
    let reason = "[ttsr: reply stopped by rule demo/rule: Not this.]";
    for (api, text, finish) in [
        (
            AnthropicMessages.into(),
            format!("So: for{reason}"),
            "end_turn",
        ),
        (OpenAiChat.into(), format!("So: for\n\n{reason}"), "stop"),
        (
            OpenAiCompletions.into(),
            format!("So: for\n\n{reason}"),
            "stop",
        ),
        (Gemini.into(), format!("So: for\n\n{reason}"), "STOP"),
        (GEMINI_ARRAY, format!("So: for\n\n{reason}"), "STOP"),
        (CodeAssist.into(), format!("So: for\n\n{reason}"), "STOP"),
        (OllamaChat.into(), format!("So: for\n\n{reason}"), "stop"),
        (
            OllamaGenerate.into(),
            format!("So: for\n\n{reason}"),
            "stop",
        ),
        (
            OpenAiResponses.into(),
            format!("So: for{reason}"),
            "completed",
        ),
    ] {
        let judged = blocked(api, SETTINGS, &pieces);
        legal::check(api, &judged.sent);
        let seen = seen(&judged.sent);
        assert_eq!(
            (&*seen.text, &seen.finishes[..]),
            (&*text, &[finish.to_owned()][..]),
            "{api:?}"
        );
        assert_eq!(seen.errors, Vec::<String>::new());
        // The same, however the stream is cut.
        let bytes = stream(api, &pieces);
        let single = judge_with(
            api,
            &aborting("forbidden"),
            SETTINGS,
            bytes.as_bytes().chunks(1),
        );
        // In an array, the whitespace before the first element that is not sent has been sent if it arrived alone.
        let is_blank = |char: &char| !matches!(char, '\r' | '\n');
        let without_blanks = |judged: Judged| Judged {
            sent: judged.sent.chars().filter(is_blank).collect(),
            ..judged
        };
        let (single, judged) = match api.is_array() {
            true => (without_blanks(single), without_blanks(judged)),
            false => (single, judged),
        };
        assert_eq!(single, judged, "{api:?}");
    }
}

#[test]
fn a_hard_block_ends_as_a_failure_that_no_client_retries() {
    let pieces = [Piece::Text(&["forbidden"])];
    let reason = "[ttsr: reply stopped by rule demo/rule: Not this.]";
    for (api, finish, errors) in [
        (AnthropicMessages.into(), "error", 1),
        (OpenAiChat.into(), "content_filter", 0),
        (OpenAiCompletions.into(), "content_filter", 0),
        (Gemini.into(), "SAFETY", 0),
        (GEMINI_ARRAY, "SAFETY", 0),
        (CodeAssist.into(), "SAFETY", 0),
        (OllamaChat.into(), "error", 1),
        (OllamaGenerate.into(), "error", 1),
        (OpenAiResponses.into(), "failed", 1),
    ] {
        let seen = seen(&blocked(api, HARD, &pieces).sent);
        assert_eq!(seen.text, reason, "{api:?}");
        assert_eq!(seen.finishes, [finish], "{api:?}");
        assert_eq!(seen.errors, vec![reason; errors], "{api:?}");
    }
    // The kinds that clients do not retry.
    assert!(
        blocked(AnthropicMessages, HARD, &pieces)
            .sent
            .contains("invalid_request_error")
    );
    assert!(
        blocked(OpenAiResponses, HARD, &pieces)
            .sent
            .contains("\"code\":\"invalid_prompt\"")
    );
}

#[test]
fn no_trace_of_a_blocked_call_is_sent_and_the_stop_reason_is_not_that_of_a_call() {
    let pieces = [
        Piece::Text(&["Sure."]),
        Piece::Tool("bash", &["{\"command\": \"forb", "idden\"}"]),
    ];
    for (api, finish) in [
        (AnthropicMessages.into(), "end_turn"),
        (OpenAiChat.into(), "stop"),
        (OpenAiResponses.into(), "completed"),
        (Gemini.into(), "STOP"),
        (GEMINI_ARRAY, "STOP"),
        (CodeAssist.into(), "STOP"),
        (OllamaChat.into(), "stop"),
    ] {
        let judged = blocked(api, SETTINGS, &pieces);
        let seen = seen(&judged.sent);
        assert_eq!((seen.tools.len(), &*seen.input), (0, ""), "{api:?}");
        assert_eq!(seen.finishes, [finish], "{api:?}");
        assert!(!judged.sent.contains("bash"), "{api:?} {}", judged.sent);
    }
}

#[test]
fn a_call_that_left_before_another_was_blocked_runs() {
    let pieces = [
        Piece::Tool("read", &["{\"path\": \"quokka\"}"]),
        Piece::Tool("bash", &["{\"command\": \"forbidden\"}"]),
    ];
    for (api, finish) in [
        (AnthropicMessages.into(), "tool_use"),
        (OpenAiResponses.into(), "completed"),
        (Gemini.into(), "STOP"),
        (GEMINI_ARRAY, "STOP"),
        (CodeAssist.into(), "STOP"),
        (OllamaChat.into(), "stop"),
    ] {
        let seen = seen(&blocked(api, SETTINGS, &pieces).sent);
        assert_eq!(seen.tools, ["read"], "{api:?}");
        assert_eq!(seen.finishes, [finish], "{api:?}");
    }
    // In Chat the end of a call is known at the end of the reply.
    let seen = seen(&blocked(OpenAiChat, SETTINGS, &pieces).sent);
    assert_eq!((seen.tools.len(), &*seen.finishes[0]), (0, "stop"));
}

#[test]
fn a_reply_that_is_not_streamed_is_blocked_the_same() {
    let reason = "[ttsr: reply stopped by rule demo/rule: Not this.]";
    for api in every_api() {
        for pieces in [
            [Piece::Text(&["forbidden"])],
            [Piece::Tool("bash", &["{\"command\": \"forbidden\"}"])],
        ] {
            let is_text = matches!(pieces, [Piece::Text(_)]);
            if !is_text && !APIS.contains(&api) {
                continue;
            }
            let body = whole(api, &pieces).to_string().into_bytes();
            let mut judge = new_judge(api, &aborting("forbidden"), SETTINGS);
            let sent = String::from_utf8(judge_whole(&mut judge, &body).unwrap()).unwrap();
            let seen = seen(&sent);
            assert_eq!(
                (&*seen.text, seen.tools.len()),
                (reason, 0),
                "{api:?} {sent}"
            );
            assert!(!sent.contains("forbidden"), "{sent}");
            if api.unwrapped() == Gemini {
                // A reply that is not streamed is one chunk.
                legal::check(api, &format!("data: {sent}\n\n"));
                assert_eq!(sent.contains("\"traceId\":\"t1\""), api == CodeAssist);
            }
            let mut judge = new_judge(api, &aborting("forbidden"), HARD);
            assert_eq!(judge_whole(&mut judge, &body).unwrap_err().reason(), reason);
        }
    }
}

#[test]
fn a_message_does_not_repeat_the_text_that_matched() {
    let pack = pack_of(Pattern::regex("key-[0-9]{4}"), |rule| {
        rule.action = Action::Abort;
        rule.message = Some("Do not write {{ match.text }}.".into());
    });
    for api in streams_with_parts() {
        let judged = judge(api, &pack, &stream(api, &[Piece::Text(&["key-1234"])]));
        assert!(judged.report.is_blocked);
        assert!(!judged.sent.contains("1234"), "{}", judged.sent);
    }
}

#[test]
fn a_shadow_run_delays_and_changes_nothing() {
    let settings = JudgeSettings {
        mode: Mode::Shadow,
        ..SETTINGS
    };
    let pieces = [
        Piece::Text(&["forbidden"]),
        Piece::Tool("bash", &["{\"a\": ", "\"forbidden\"}"]),
    ];
    for api in streams_with_parts() {
        let pack = aborting("forbidden");
        let mut judge = new_judge(api, &pack, settings);
        let mut end = String::new();
        for event in events(api, &pieces) {
            judge.push(Bytes::copy_from_slice(event.as_bytes()));
            let sent = String::from_utf8(judge.take().into()).unwrap();
            end = event.strip_prefix(&sent).unwrap().to_owned();
            assert!(end.is_empty() || end == ARRAY_END, "{api:?} {sent}");
        }
        assert_eq!(judge.finish(), Ok(()));
        assert_eq!(judge.take(), end);
    }
}

#[test]
fn a_reply_that_breaks_off_is_a_prefix_without_an_incomplete_call() {
    let pack = aborting("never");
    let all = usual();
    for api in every_stream() {
        let text = stream(api, if api.has_parts() { &all } else { &all[1..2] });
        for end in 0..text.len() {
            let Some(cut) = text.get(..end) else { continue };
            let judged = judge(api, &pack, cut);
            let what = format!("{api:?} at {end}: {}", judged.sent);
            if judged.report.is_unreadable {
                legal::check(api, &judged.sent);
                assert!(judged.sent.contains("[ttsr: reply stopped: "), "{what}");
                continue;
            }
            legal::check_prefix(api, &complete_events(api, judged.sent.as_bytes()));
            assert!(text.starts_with(&judged.sent), "{what}");
            let seen = seen(&judged.sent);
            for (name, input) in [
                ("bash", "{\"command\": \"zebra\"}"),
                ("read", "{\"path\": \"quokka\"}"),
            ] {
                let is_named = seen.tools.iter().any(|tool| tool == name);
                assert_eq!(is_named, seen.input.contains(input), "{what}");
            }
            if judged.sent.len() < cut.len() {
                assert_eq!(judged.ended, Err(TruncatedBody), "{what}");
            }
        }
    }
}

#[test]
fn a_keep_alive_event_moves_the_numbers_of_later_events_and_nothing_else() {
    let pack = pack_of(Pattern::regex("key-[0-9]{4}"), |rule| {
        rule.action = Action::Redact
    });
    let pieces = [
        Piece::Text(&["so ", "key-12", " it is"]),
        Piece::Tool("bash", &["{\"command\":", " \"zebra\"}"]),
    ];
    for api in streams_with_parts() {
        let all = events(api, &pieces);
        for at in 0..all.len() {
            let mut judge = new_judge(api, &pack, SETTINGS);
            for event in &all[..at] {
                judge.push(Bytes::copy_from_slice(event.as_bytes()));
            }
            if !judge.is_holding() {
                continue;
            }
            let mut sent = String::from_utf8(judge.take().into()).unwrap();
            judge.keep_alive();
            let kept_alive = String::from_utf8(judge.take().into()).unwrap();
            assert!(!kept_alive.is_empty(), "{api:?}");
            let begin = sent.len();
            for event in &all[at..] {
                judge.push(Bytes::copy_from_slice(event.as_bytes()));
            }
            assert_eq!(judge.finish(), Ok(()));
            let rest = String::from_utf8(judge.take().into()).unwrap();
            legal::check(api, &format!("{sent}{kept_alive}{rest}"));
            sent.push_str(&rest);
            let want = all.concat();
            if api != OpenAiResponses {
                assert_eq!(sent, want, "{api:?} after event {at}");
                continue;
            }
            let (moved, want) = (&sent[begin..], &want[begin..]);
            let number = |line: &str| -> Option<u64> {
                let (_, rest) = line.split_once("\"sequence_number\":")?;
                rest.split(['}', ',']).next()?.parse().ok()
            };
            for (moved, want) in moved.lines().zip(want.lines()) {
                let (got, known) = (number(moved), number(want));
                assert_eq!(got, known.map(|number| number + 1), "{moved}");
                let of = |number: Option<u64>| {
                    let number = number.map(|number| number.to_string()).unwrap_or_default();
                    format!("\"sequence_number\":{number}")
                };
                assert_eq!(moved.replace(&of(got), &of(known)), want);
            }
        }
    }
}

#[test]
fn a_reply_that_cannot_be_read_is_stopped_unless_it_may_pass() {
    let open = JudgeSettings {
        fail_open: true,
        ..SETTINGS
    };
    for api in APIS {
        let good = stream(api, &[Piece::Text(&["Hi."])]);
        let other = APIS.into_iter().find(|other| *other != api).unwrap();
        let first = events(api, &[Piece::Text(&["Hi."])]).remove(0);
        for bad in [
            format!("{first}data: {{\"type\": \"content_block_delta\", \n\n"),
            stream(other, &[Piece::Text(&["Hi."])]),
            "data: {\"hello\": \"world\"}\n\n".to_owned(),
            "<html>busy</html>".to_owned(),
        ] {
            let judged = judge(api, &aborting("never"), &bad);
            assert!(
                judged.report.is_unreadable && judged.report.is_blocked,
                "{api:?} {bad}"
            );
            assert!(
                seen(&judged.sent)
                    .text
                    .contains("[ttsr: reply stopped: the reply"),
                "{api:?} {bad}"
            );
            let judged = judge_with(api, &aborting("never"), open, [bad.as_bytes()]);
            assert_eq!(judged.sent, bad, "{api:?}");
            assert!(judged.report.is_unreadable);
            let mut judge = new_judge(api, &aborting("never"), SETTINGS);
            judge_whole(&mut judge, bad.as_bytes()).unwrap_err();
        }
        assert!(!judge(api, &aborting("never"), &good).report.is_unreadable);
    }
}

#[test]
fn more_held_text_than_the_bound_stops_the_reply() {
    let settings = JudgeSettings {
        held_bytes: 2000,
        ..SETTINGS
    };
    let long = "x".repeat(3000);
    // A call of Gemini and Ollama is one event.
    for api in [AnthropicMessages, OpenAiChat, OpenAiResponses] {
        let pieces = [Piece::Tool("bash", &["{\"a\": \"", &long, "\"}"])];
        let judged = judge_with(
            api,
            &aborting("never"),
            settings,
            [stream(api, &pieces).as_bytes()],
        );
        assert!(judged.report.is_blocked);
        assert!(
            seen(&judged.sent).text.contains("more text is held back"),
            "{}",
            judged.sent
        );
    }
}

#[test]
fn more_sent_items_than_the_bound_stop_the_reply() {
    let text = "x".repeat(1500);
    let pieces = [Piece::Text(&[&text]), Piece::Text(&[&text])];
    let all = stream(OpenAiResponses, &pieces);
    // Some servers repeat no output in the final event.
    let text = &all[..all.find("event: response.completed").unwrap()];
    for (held_bytes, mode, is_blocked) in [
        (3000, Mode::Live, true),
        (3000, Mode::Shadow, false),
        (9000, Mode::Live, false),
    ] {
        let settings = JudgeSettings {
            held_bytes,
            mode,
            ..SETTINGS
        };
        let mut judge = new_judge(OpenAiResponses, &aborting("never"), settings);
        judge.push(Bytes::copy_from_slice(text.as_bytes()));
        let sent = String::from_utf8(judge.take().into()).unwrap();
        assert_eq!(judge.report().is_blocked, is_blocked, "{sent}");
        match is_blocked {
            true => legal::check(OpenAiResponses, &sent),
            false => assert_eq!(sent, text),
        }
    }
}

#[test]
fn an_event_longer_than_the_bound_stops_the_reply_before_it_is_complete() {
    let settings = JudgeSettings {
        held_bytes: 2000,
        ..SETTINGS
    };
    for (len, is_blocked) in [(1000, false), (3000, true)] {
        let mut judge = new_judge(OpenAiChat, &aborting("never"), settings);
        judge.push(Bytes::copy_from_slice(
            format!("data: {}", "x".repeat(len)).as_bytes(),
        ));
        let sent = judge.take();
        let sent = String::from_utf8_lossy(&sent);
        assert_eq!(judge.report().is_blocked, is_blocked);
        assert_eq!(
            sent.contains("more text is held back"),
            is_blocked,
            "{sent}"
        );
    }
}

/// Returns a chunk of a reply of the chat completions with that delta.
fn chunk(id: &str, delta: &serde_json::Value, reason: Option<&str>) -> String {
    let choices = serde_json::json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
    let chunk = serde_json::json!({
        "id": id, "object": "chat.completion.chunk", "created": 17, "model": "m", "choices": choices,
    });
    format!("data: {chunk}\n\n")
}

#[test]
fn a_rule_for_a_tool_reads_a_call_whose_name_arrives_late() {
    let pack = pack_of(Pattern::literal("x"), |rule| {
        rule.action = Action::Abort;
        rule.tools = vec!["bash".into()];
    });
    for (name, is_blocked) in [("bash", true), ("read", false)] {
        let call = |function: serde_json::Value| {
            let call = serde_json::json!({"index": 0, "id": "call_0", "type": "function", "function": function});
            chunk("c1", &serde_json::json!({"tool_calls": [call]}), None)
        };
        let stream = [
            call(serde_json::json!({"arguments": "{\"a\":"})),
            call(serde_json::json!({"name": name, "arguments": "\"x\"}"})),
            chunk("c1", &serde_json::json!({}), Some("tool_calls")),
        ];
        let judged = judge(OpenAiChat, &pack, &stream.concat());
        assert_eq!(judged.report.is_blocked, is_blocked, "{}", judged.sent);
    }
}

#[test]
fn a_second_reply_in_the_same_body_is_judged_too() {
    let pack = aborting("forbidden");
    let text = |id, text| {
        [
            chunk(id, &serde_json::json!({"content": text}), None),
            chunk(id, &serde_json::json!({}), Some("stop")),
        ]
        .concat()
    };
    let stream = text("c1", "Fine.") + &text("c2", "It is forbidden.");
    let judged = judge(OpenAiChat, &pack, &stream);
    assert!(judged.sent.contains("Fine."), "{}", judged.sent);
    assert!(!judged.sent.contains("forbidden"), "{}", judged.sent);
}

#[test]
fn every_choice_is_judged_and_every_open_choice_ends() {
    let chunk = |choice: u32, text: &str| {
        let choices = serde_json::json!([{"index": choice, "delta": {"content": text}, "finish_reason": null}]);
        format!(
            "data: {}\n\n",
            serde_json::json!({"id": "c", "object": "chat.completion.chunk", "choices": choices})
        )
    };
    let stream = [
        chunk(0, "One "),
        chunk(1, "It is key-"),
        chunk(0, "two"),
        chunk(1, "1234."),
        chunk(0, " three"),
    ]
    .concat();
    let pack = |action| pack_of(Pattern::regex("key-[0-9]{4}"), |rule| rule.action = action);
    let redacted = judge(
        OpenAiChat,
        &pack(Action::Redact),
        &(stream.clone() + "data: [DONE]\n\n"),
    )
    .sent;
    assert_eq!(seen(&redacted).text, "One It is [redacted]two. three");
    let stopped = judge(OpenAiChat, &pack(Action::Abort), &stream);
    assert!(stopped.report.is_blocked);
    assert_eq!(
        stopped.sent.matches("\"finish_reason\":\"stop\"").count(),
        2,
        "{}",
        stopped.sent
    );
    assert_eq!(stopped.sent.matches("[DONE]").count(), 1);
    assert!(
        !stopped.sent.contains(" three"),
        "nothing of a choice follows its end"
    );
}

#[test]
fn a_call_that_wants_a_review_is_stopped_if_it_must_not_run_without_one() {
    let reviewing = |blocks: bool| {
        let toml = format!(
            r#"
            schema = 1
            [pack]
            name = "t"
            grants = ["consult"]
            [rule.ask]
            description = "Ask."
            severity = "error"
            action = "consult"
            on = ["tool-input"]
            match.any = [{{ literal = "deploy" }}]
            consult = {{ prompt = "Safe?", block-on-failure = {blocks} }}
            examples.match = ["deploy"]
            "#
        );
        ttsr::Pack::from_toml(&toml).unwrap()
    };
    let pieces = [Piece::Tool("bash", &["{\"command\": \"dep", "loy\"}"])];
    for api in streams_with_parts() {
        let text = stream(api, &pieces);
        assert_eq!(judge(api, &reviewing(false), &text).sent, text);
        let stopped = judge(api, &reviewing(true), &text);
        assert!(
            stopped.report.is_blocked && !stopped.sent.contains("deploy"),
            "{}",
            stopped.sent
        );
        assert!(
            seen(&stopped.sent).text.contains("no reviewer"),
            "{}",
            stopped.sent
        );
    }
}

#[test]
fn calls_whose_events_are_interleaved_leave_once_they_are_complete() {
    let block = |index: u64, kind: &str, rest: &str| {
        format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"index\":{index}{rest}}}\n\n")
    };
    let start = |index| {
        let call = format!(r#"{{"type":"tool_use","id":"t{index}","name":"bash","input":{{}}}}"#);
        block(
            index,
            "content_block_start",
            &format!(r#","content_block":{call}"#),
        )
    };
    let delta = |index, json: &str| {
        let delta = format!(r#","delta":{{"type":"input_json_delta","partial_json":"{json}"}}"#);
        block(index, "content_block_delta", &delta)
    };
    let stop = |index| block(index, "content_block_stop", "");
    let usual = stream(AnthropicMessages, &[]);
    let (head, end) = usual.split_at(usual.find("event: message_delta").unwrap());
    let calls = |second: &str| {
        let events = [
            start(0),
            start(1),
            delta(0, "{}"),
            delta(1, second),
            stop(0),
            stop(1),
        ];
        format!("{head}{}{end}", events.concat())
    };
    let pack = aborting("forbidden");
    let fine = judge(AnthropicMessages, &pack, &calls("[1]"));
    assert_eq!((fine.sent, fine.ended), (calls("[1]"), Ok(())));
    let stopped = judge(AnthropicMessages, &pack, &calls("forbidden"));
    assert!(stopped.report.is_blocked && !stopped.sent.contains("forbidden"));
}

#[test]
fn an_end_that_is_repeated_does_not_break_the_reply_off() {
    for api in every_api() {
        let text = stream(api, &[Piece::Text(&["Hello"])]);
        let last = events(api, &[]);
        let last = last[last.len().saturating_sub(2)..].concat();
        let text = text + &last;
        let judged = judge(api, &aborting("never"), &text);
        assert_eq!((judged.sent, judged.ended), (text, Ok(())), "{api:?}");
    }
}

/// An error of a server in the form of the API.
fn server_error(api: ModelApi) -> &'static str {
    match api {
        AnthropicMessages => {
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Busy\"}}\n\n"
        }
        OpenAiResponses => {
            "event: error\ndata: {\"type\":\"error\",\"sequence_number\":9,\"code\":\"x\",\"message\":\"Busy\"}\n\n"
        }
        OllamaChat | OllamaGenerate => "{\"error\":\"Busy\"}\n",
        _ => "data: {\"error\":{\"code\":503,\"message\":\"Busy\"}}\n\n",
    }
}

#[test]
fn an_error_of_the_server_passes_also_as_the_first_event_and_while_something_is_held() {
    let pack = pack_of(Pattern::regex("key-[0-9]{4}\\b"), |rule| {
        rule.action = Action::Redact
    });
    for api in every_api() {
        let error = server_error(api);
        let first = judge(api, &pack, error);
        assert_eq!(
            (&*first.sent, first.ended, first.report.is_blocked),
            (error, Ok(()), false),
            "{api:?}"
        );
        let mut pieces = vec![vec![Piece::Text(&["It is key-12"])]];
        if APIS.contains(&api) {
            pieces.push(vec![Piece::Tool("bash", &["{\"a\":", "1}"])]);
        }
        for piece in pieces {
            let all = events(api, &piece);
            let held = all
                .iter()
                .position(|it| it.contains("key-12") || it.contains("bash"));
            let begun = all[..=held.unwrap()].concat();
            let judged = judge(api, &pack, &(begun + error));
            assert!(judged.sent.ends_with(error), "{api:?} {}", judged.sent);
            assert_eq!((judged.ended, judged.report.is_blocked), (Ok(()), false));
            assert!(!judged.sent.contains("key-12"), "{api:?}");
        }
    }
}
