//! Bodies whose framing is not that of their `content-type`, and lines that are no part of an event stream.

use super::replies::{Piece, stream, whole};
use super::{SETTINGS, aborting, every_api, judge, judge_whole, judge_with, new_judge};
use crate::judge::{BodyFrames, JudgeSettings, ReplyJudge};
use crate::routes::ModelApi::{self, OpenAiChat};
use bytes::Bytes;

/// Judges a body as an event stream, in pieces of that length.
fn as_events(api: ModelApi, body: &str, size: usize) -> (String, bool) {
    let mut judge = ReplyJudge::new(api, BodyFrames::events(), &aborting("forbidden"), SETTINGS);
    let judge = judge.as_mut().unwrap();
    let mut sent = Vec::new();
    for piece in body.as_bytes().chunks(size) {
        judge.push(Bytes::copy_from_slice(piece));
        sent.extend(judge.take());
    }
    let ended = judge.finish();
    sent.extend(judge.take());
    assert_eq!(ended, Ok(()), "{api:?}");
    (String::from_utf8(sent).unwrap(), judge.report().is_blocked)
}

#[test]
fn a_document_that_is_labelled_as_an_event_stream_is_judged_before_it_is_sent() {
    for api in every_api() {
        for (text, is_blocked) in [("fine", false), ("so forbidden", true)] {
            let reply = whole(api, &[Piece::Text(&[text])]);
            let lines = format!("{reply:#}");
            let spread = lines.replace('\n', "\n\n");
            for body in [reply.to_string(), format!("{reply}\n\n"), lines, spread] {
                for size in [1, 7, body.len()] {
                    let (sent, was_blocked) = as_events(api, &body, size);
                    assert_eq!(was_blocked, is_blocked, "{api:?} {body}");
                    assert!(!sent.contains("forbidden"), "{api:?} {sent}");
                    assert!(is_blocked || sent == body, "{api:?} {sent}");
                }
            }
        }
    }
}

#[test]
fn a_document_that_breaks_off_in_an_event_stream_is_not_sent() {
    let reply = whole(OpenAiChat, &[Piece::Text(&["secret"])]).to_string();
    let spread = format!("{:#}", whole(OpenAiChat, &[Piece::Text(&["secret"])]));
    for body in [&reply, &spread.replace('\n', "\n\n")] {
        let cut = &body[..body.len() - 2];
        let (sent, was_blocked) = as_events(OpenAiChat, cut, cut.len());
        assert!(was_blocked && !sent.contains("secret"), "{sent}");
    }
}

#[test]
fn a_line_that_is_no_field_stops_the_reply() {
    let usual = stream(OpenAiChat, &[Piece::Text(&["Hello"])]);
    let (first, rest) = usual.split_at(usual.find("\n\n").unwrap() + 2);
    let chunk = r#"{"choices":[{"index":0,"delta":{"content":"forbidden"}}]}"#;
    for name in [" data: ", "Data: ", "", "data : ", "x"] {
        for before in ["", first, "event: x\n"] {
            let body = format!("{before}{name}{chunk}\n\n{rest}");
            let (sent, was_blocked) = as_events(OpenAiChat, &body, body.len());
            assert!(was_blocked && !sent.contains("forbidden"), "{sent}");
        }
    }
    for line in [": secret", "id: 5", "retry: 5", "event: x", ":"] {
        let body = format!("{first}{line}\n\n{rest}");
        assert_eq!(as_events(OpenAiChat, &body, 1), (body, false));
    }
    let open = JudgeSettings {
        fail_open: true,
        ..SETTINGS
    };
    let body = format!("{first} data: x\n\n{rest}");
    let judged = judge_with(OpenAiChat, &aborting("forbidden"), open, [body.as_bytes()]);
    assert_eq!(judged.sent, body);
    assert!(judged.report.is_unreadable);
}

#[test]
fn the_name_of_an_event_does_not_hide_the_chunk_in_it() {
    // `message` is the name that the standard gives an event without one.
    for name in ["message", "ping", "response.delta", "content-delta"] {
        for (text, is_blocked) in [("fine", false), ("forbidden", true)] {
            let stream = stream(OpenAiChat, &[Piece::Text(&[text])]);
            let named = stream.replace("data: {", &format!("event: {name}\ndata: {{"));
            assert!(named.contains(name));
            let (sent, was_blocked) = as_events(OpenAiChat, &named, 7);
            assert!(!sent.contains("forbidden"), "{sent}");
            assert!(!sent.contains("not of the API"), "{sent}");
            assert_eq!((sent == named, was_blocked), (!is_blocked, is_blocked));
        }
    }
}

#[test]
fn a_ping_before_a_reply_does_not_decide_its_format() {
    for api in every_api() {
        for ping in ["event: ping\ndata: {}\n\n", "data: {\"type\":\"ping\"}\n\n"] {
            for (text, is_blocked) in [("fine", false), ("forbidden", true)] {
                let reply = stream(api, &[Piece::Text(&[text])]);
                // Ollama streams lines, which are no event stream.
                if !reply.contains("data: ") {
                    continue;
                }
                let body = format!("{ping}{reply}");
                let (sent, was_blocked) = as_events(api, &body, 7);
                assert!(!sent.contains("not of the API"), "{api:?} {sent}");
                assert_eq!((sent == body, was_blocked), (!is_blocked, is_blocked));
            }
        }
    }
    let hidden = r#"{"type":"ping","delta":{"text":"forbidden"}}"#;
    let (sent, was_blocked) = as_events(OpenAiChat, &format!("data: {hidden}\n\n"), 99);
    assert!(was_blocked && !sent.contains("forbidden"), "{sent}");
}

#[test]
fn a_document_in_parts_counts_as_held() {
    let settings = JudgeSettings {
        held_bytes: 64,
        ..SETTINGS
    };
    let mut judge = new_judge(OpenAiChat, &aborting("never"), settings);
    judge.push(Bytes::copy_from_slice(b"{\"id\":\n\n"));
    for _ in 0..20 {
        judge.push(Bytes::copy_from_slice(b"   \n\n"));
    }
    assert!(judge.is_over());
}

#[test]
fn a_reply_with_a_name_twice_in_an_object_is_not_sent() {
    let stream = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"forbidden\",\"con\\u0074ent\":\"x\"}}]}\n\n";
    let judged = judge(OpenAiChat, &aborting("forbidden"), stream);
    assert!(
        judged.report.is_unreadable && !judged.sent.contains("forbidden"),
        "{}",
        judged.sent
    );
    let body = "{\"choices\":[{\"message\":{\"content\":\"forbidden\",\"content\":\"x\"},\"finish_reason\":\"stop\"}]}";
    let mut judge = new_judge(OpenAiChat, &aborting("forbidden"), SETTINGS);
    assert!(judge_whole(&mut judge, body.as_bytes()).is_err());
}

#[test]
fn a_message_beside_a_delta_is_judged_in_all_its_members() {
    let chunk = |delta: &str, message: &str, reason: &str| {
        let choice = format!(
            r#"{{"index":0,"delta":{delta},"message":{message},"finish_reason":{reason}}}"#
        );
        format!(
            "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{choice}]}}\n\n"
        )
    };
    let call = |name: &str, input: &str| {
        format!(
            r#"{{"tool_calls":[{{"id":"x","function":{{"name":"{name}","arguments":"{input}"}}}}]}}"#
        )
    };
    let end = "data: [DONE]\n\n";
    let pack = aborting("forbidden");
    for message in [
        r#"{"content":"forbidden"}"#.to_owned(),
        r#"{"content":[{"type":"text","text":"forbidden"}]}"#.to_owned(),
        r#"{"refusal":"forbidden"}"#.to_owned(),
        r#"{"reasoning_content":"forbidden"}"#.to_owned(),
        r#"{"reasoning_details":[{"text":"forbidden"}]}"#.to_owned(),
        r#"{"audio":{"transcript":"forbidden"}}"#.to_owned(),
        r#"{"function_call":{"name":"a","arguments":"forbidden"}}"#.to_owned(),
        call("a", "forbidden"),
    ] {
        for first in [
            "{}".to_owned(),
            call("a", "{}"),
            r#"{"content":"other"}"#.to_owned(),
        ] {
            for reason in ["null", "\"stop\""] {
                let body = chunk(&first, "{}", "null") + &chunk("{}", &message, reason) + end;
                let judged = judge(OpenAiChat, &pack, &body);
                assert!(judged.report.is_blocked, "{body}");
                assert!(!judged.sent.contains("forbidden"), "{}", judged.sent);
            }
        }
    }
    // A message that repeats the deltas so far passes.
    let body = chunk(r#"{"content":"Hel"}"#, r#"{"content":"Hel"}"#, "null")
        + &chunk(r#"{"content":"lo"}"#, r#"{"content":"Hello"}"#, "null")
        + &chunk(&call("a", "{}"), &call("a", "{}"), "null")
        + &chunk("{}", &call("a", "{}"), "\"tool_calls\"")
        + end;
    let judged = judge(OpenAiChat, &pack, &body);
    assert_eq!((judged.sent, judged.ended), (body, Ok(())));
}
