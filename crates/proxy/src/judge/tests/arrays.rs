//! Replies that are JSON arrays: their separators and ends, and bodies that are no array.

use bytes::Bytes;
use serde_json::{Value, json};
use ttsr::{Action, Mode, Pack, Pattern};

use super::replies::{Piece, events, seen, stream, whole};
use super::{
    GEMINI_ARRAY, Judged, SETTINGS, StreamedApi, aborting, judge, judge_with, legal, new_judge,
    pack_of,
};
use crate::config::BlockEnding;
use crate::judge::{JudgeSettings, TruncatedBody};
use crate::routes::ModelApi;

fn pack(action: Action) -> Pack {
    pack_of(Pattern::regex("key-[0-9]{4}\\b"), |rule| {
        rule.action = action;
        rule.hold = true;
        rule.message = Some("No keys.".into());
    })
}

fn chunk(text: &str) -> Value {
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": text}]}}]})
}

/// The last chunk of a reply.
fn last() -> Value {
    let mut last = chunk("");
    last["candidates"][0]["finishReason"] = json!("STOP");
    last
}

const REASON: &str = "[ttsr: reply stopped by rule demo/rule: No keys.]";

#[test]
fn only_the_text_of_a_redacted_element_changes_however_the_array_is_written() {
    let (first, second) = (chunk("It is key-12"), chunk("34, \u{1F600}."));
    let bodies = [
        format!("[{first},{second},{}]", last()),
        format!(" \r\n[\t{first}\n,\r\n{second}\n,\r\n{}\n]\n", last()),
        format!("[\n{first:#} ,\n{second:#} ,\n{:#} ]\n\n", last()),
    ];
    for body in bodies {
        let want = body
            .replace("It is key-12", "It is [redacted]")
            .replace("34, ", ", ");
        for cut in 0..=body.len() {
            let (head, tail) = body.as_bytes().split_at(cut);
            let mut judge = new_judge(GEMINI_ARRAY, &pack(Action::Redact), SETTINGS);
            let mut sent = Vec::new();
            for piece in [head, tail] {
                judge.push(Bytes::copy_from_slice(piece));
                sent.extend(judge.take());
                let so_far = String::from_utf8_lossy(&sent);
                assert!(!so_far.contains("key"), "{so_far}");
            }
            assert_eq!(judge.finish(), Ok(()));
            sent.extend(judge.take());
            assert_eq!(String::from_utf8(sent).unwrap(), want, "cut at {cut}");
        }
    }
}

#[test]
fn an_array_that_the_proxy_ends_is_closed_after_any_element() {
    let deltas = ["One, ", "two, ", "key-1234 ", "more"];
    for ending in [BlockEnding::Soft, BlockEnding::Hard] {
        let settings = JudgeSettings { ending, ..SETTINGS };
        for count in 0..3 {
            let body = stream(GEMINI_ARRAY, &[Piece::Text(&deltas[count..])]);
            let pack = pack(Action::Abort);
            let judged = judge_with(GEMINI_ARRAY, &pack, settings, [body.as_bytes()]);
            legal::check(GEMINI_ARRAY, &judged.sent);
            let finish = match ending {
                BlockEnding::Soft => "STOP",
                BlockEnding::Hard => "SAFETY",
            };
            let seen = seen(&judged.sent);
            assert_eq!(seen.finishes, [finish]);
            let gap = if count < 2 { "\n\n" } else { "" };
            let text = deltas[count..2].concat();
            assert_eq!(seen.text, format!("{text}{gap}{REASON}"));
        }
    }
}

#[test]
fn a_rule_that_acts_at_the_end_of_the_body_acts_before_the_array_is_closed() {
    // The last text has no finish reason, so that no element waits for the end.
    let pack = pack_of(Pattern::regex("key-[0-9]{4}\\b"), |rule| {
        rule.action = Action::Abort;
        rule.message = Some("No keys.".into());
    });
    for end in ["]", "\n]\n", "", "\n", " ,", " , "] {
        let body = format!("[{}, {}{end}", chunk("So: "), chunk("key-1234"));
        let judged = judge(GEMINI_ARRAY, &pack, &body);
        legal::check(GEMINI_ARRAY, &judged.sent);
        assert!(judged.sent.contains(REASON), "{}", judged.sent);
    }
}

#[test]
fn a_reply_without_a_finish_reason_or_without_an_element_passes() {
    let text = chunk("Fine.").to_string();
    for body in [
        format!("[{text}\n]\n"),
        format!("[{text}\n"),
        format!("[{text},"),
        format!("{text}\n"),
        "[]".to_owned(),
        " [ ]\n".to_owned(),
        "[".to_owned(),
        "\n".to_owned(),
        String::new(),
    ] {
        for size in [1, body.len().max(1)] {
            let pieces = body.as_bytes().chunks(size);
            let judged = judge_with(GEMINI_ARRAY, &pack(Action::Abort), SETTINGS, pieces);
            assert_eq!((judged.sent, judged.ended), (body.clone(), Ok(())));
        }
    }
}

#[test]
fn a_body_that_is_no_array_of_objects_is_stopped_unless_it_may_pass() {
    let (text, last) = (chunk("Fine."), last());
    let lenient = [
        JudgeSettings {
            fail_open: true,
            ..SETTINGS
        },
        JudgeSettings {
            mode: Mode::Shadow,
            ..SETTINGS
        },
    ];
    for body in [
        format!("[{text} {last}]"),
        format!("[{text},,{last}]"),
        format!("[,{text},{last}]"),
        format!("[{text},{last},]"),
        format!("[{text},{last}]]"),
        format!("[{text},{last}][{text}]"),
        format!("{text}{last}"),
        format!("[{text},[{last}]]"),
        format!("[{text},null,{last}]"),
        format!("[\"{{\",{text}]"),
        format!("[{text},{{\"candidates\":]}},{last}]"),
        format!("[{text},{{\"candidates\":[]"),
        format!("[{text},data: {last}]"),
        format!("[{text}\u{a0},{last}]"),
        format!("[{text},{{\"hello\":\"a\",\"hello\":\"b\"}},{last}]"),
        "[{\"hello\": \"world\"}]".to_owned(),
        "<html>busy</html>".to_owned(),
        "null".to_owned(),
    ] {
        for size in [1, 7, body.len()] {
            let pieces = || body.as_bytes().chunks(size);
            let judged = judge_with(GEMINI_ARRAY, &aborting("never"), SETTINGS, pieces());
            assert!(judged.report.is_unreadable, "{body}");
            let is_object = judged.sent.starts_with('{');
            assert_eq!(is_object, body.starts_with('{'), "{}", judged.sent);
            if !is_object {
                legal::check(GEMINI_ARRAY, &judged.sent);
                assert!(judged.sent.contains("[ttsr: reply stopped: the reply"));
            }
            for settings in lenient {
                let judged = judge_with(GEMINI_ARRAY, &aborting("never"), settings, pieces());
                assert_eq!((&judged.sent, judged.ended), (&body, Ok(())));
                assert!(judged.report.is_unreadable, "{body}");
            }
        }
    }
}

#[test]
fn an_object_instead_of_an_array_is_judged_before_it_is_sent() {
    let of = |text: &str| format!("\n{:#}\n", whole(GEMINI_ARRAY, &[Piece::Text(&[text])]));
    for size in [1, 9, 1000] {
        let judged = |text: &str, action| -> Judged {
            let body = of(text);
            let pieces = body.as_bytes().chunks(size);
            judge_with(GEMINI_ARRAY, &pack(action), SETTINGS, pieces)
        };
        assert_eq!(judged("Fine.", Action::Abort).sent, of("Fine."));
        let redacted = judged("key-1234", Action::Redact);
        assert_eq!(redacted.sent, of("[redacted]"));
        let stopped = judged("key-1234", Action::Abort);
        legal::check(GEMINI_ARRAY, &stopped.sent);
        assert_eq!(seen(&stopped.sent).text, REASON);
    }
    // Nothing can follow an object.
    let pack = pack_of(Pattern::regex("key-[0-9]{4}\\b"), |rule| {
        rule.action = Action::Retry;
        rule.retry.then = Some(Action::Abort);
    });
    let settings = JudgeSettings {
        can_retry: true,
        ..SETTINGS
    };
    let body = chunk("key-1234").to_string();
    let judged = judge_with(GEMINI_ARRAY, &pack, settings, [body.as_bytes()]);
    assert_eq!((judged.sent, judged.report.is_blocked), (body, true));
}

#[test]
fn a_body_in_another_framing_is_judged_before_it_is_sent() {
    let mark = '\u{feff}';
    let marked = |text: &str| {
        let array = stream(GEMINI_ARRAY, &[Piece::Text(&[text])]);
        format!("{mark}{array}")
    };
    let events = |text: &str| stream(GEMINI_ARRAY.api, &[Piece::Text(&[text])]);
    let forms: [&dyn Fn(&str) -> String; 2] = [&marked, &events];
    for of in forms {
        for size in [1, 9, 1000] {
            let judged = |text: &str, action| -> Judged {
                let body = of(text);
                let pieces = body.as_bytes().chunks(size);
                judge_with(GEMINI_ARRAY, &pack(action), SETTINGS, pieces)
            };
            assert_eq!(judged("Fine.", Action::Abort).sent, of("Fine."));
            for (action, reason) in [
                (Action::Abort, REASON),
                (Action::Redact, "cannot be redacted"),
            ] {
                let stopped = judged("key-1234", action);
                legal::check(GEMINI_ARRAY, &stopped.sent);
                assert!(stopped.sent.contains(reason), "{}", stopped.sent);
                assert!(!stopped.sent.contains("key-"), "{}", stopped.sent);
            }
        }
    }
}

/// Judges attempts that follow each other, and returns the bytes that the client is sent.
fn attempts(pack: &Pack, bodies: &[String]) -> Judged {
    let settings = JudgeSettings {
        can_retry: true,
        ..SETTINGS
    };
    let mut judge = new_judge(GEMINI_ARRAY, pack, settings);
    let mut sent = Vec::new();
    let mut ended = Ok(());
    for body in bodies {
        judge.push(Bytes::copy_from_slice(body.as_bytes()));
        if !judge.is_waiting() {
            ended = judge.finish();
        }
        sent.extend(judge.take());
        if judge.next_attempt().is_some() {
            judge.keep_alive();
            judge.resume();
        }
        sent.extend(judge.take());
    }
    Judged {
        sent: String::from_utf8(sent).unwrap(),
        ended,
        report: judge.report(),
    }
}

#[test]
fn the_elements_of_another_attempt_are_in_the_same_array() {
    let good = format!("\n[ {},{} ]\n", chunk("Fine."), last());
    for (bad, want) in [
        (
            format!("[{},{}]", chunk("So: "), chunk("key-1234 ")),
            "So: \n\nFine.",
        ),
        (format!("[{}]", chunk("key-1234 ")), "Fine."),
        (chunk("key-1234 ").to_string(), "Fine."),
    ] {
        let judged = attempts(&pack(Action::Retry), &[bad, good.clone()]);
        legal::check(GEMINI_ARRAY, &judged.sent);
        assert_eq!(seen(&judged.sent).text, want, "{}", judged.sent);
        assert_eq!((judged.report.retries, judged.ended), (1, Ok(())));
    }
    // An object is an element of the array that has begun.
    let object = whole(GEMINI_ARRAY, &[Piece::Text(&["Fine."])]).to_string();
    let bad = format!("[{}]", chunk("key-1234 "));
    let judged = attempts(&pack(Action::Retry), &[bad, object.clone()]);
    assert_eq!(judged.sent, format!("[\n{object}]"));
    // What is no array cannot continue one.
    let bad = format!("[{},{}]", chunk("So: "), chunk("key-1234 "));
    for second in [
        last().to_string(),
        format!("data: {}\n\n", last()),
        "[]".to_owned(),
        String::new(),
    ] {
        let judged = attempts(&pack(Action::Retry), &[bad.clone(), second]);
        legal::check(GEMINI_ARRAY, &judged.sent);
        let text = seen(&judged.sent).text;
        assert!(text.starts_with("So: \n\n[ttsr: reply stopped"), "{text}");
    }
}

#[test]
fn an_error_of_the_server_is_the_last_element_of_a_whole_array() {
    let error = json!({"error": {"code": 503, "message": "Busy"}}).to_string();
    for (body, want) in [
        (format!("[{error}\n]\n"), vec![error.clone()]),
        (error.clone(), vec![error.clone()]),
        (
            format!("[{},\r\n{error}]", chunk("Hi.")),
            vec![chunk("Hi.").to_string(), error.clone()],
        ),
        // What is held before the error is dropped.
        (
            format!("[{},\r\n{error}]", chunk("key-12")),
            vec![error.clone()],
        ),
        (
            format!("[{},{},{error}]", chunk("Hi."), chunk("key-12")),
            vec![chunk("Hi.").to_string(), error.clone()],
        ),
    ] {
        for size in [1, body.len()] {
            let pieces = body.as_bytes().chunks(size);
            let judged = judge_with(GEMINI_ARRAY, &pack(Action::Redact), SETTINGS, pieces);
            assert_eq!((judged.ended, judged.report.is_blocked), (Ok(()), false));
            let sent: Value = serde_json::from_str(&judged.sent).unwrap();
            let sent = match sent {
                Value::Array(elements) => elements,
                alone => vec![alone],
            };
            let sent: Vec<String> = sent.iter().map(Value::to_string).collect();
            assert_eq!(sent, want, "{}", judged.sent);
        }
    }
}

#[test]
fn a_client_is_kept_waiting_by_whitespace_from_the_start() {
    let all = events(GEMINI_ARRAY, &[Piece::Text(&["key-12", "34", "."])]);
    for at in 1..all.len() {
        let mut judge = new_judge(GEMINI_ARRAY, &pack(Action::Redact), SETTINGS);
        let mut sent = Vec::new();
        for (number, event) in all.iter().enumerate() {
            if number == at {
                judge.keep_alive();
                judge.keep_alive();
                let waiting = judge.take();
                assert!(waiting.ends_with(b"\n\n"));
                sent.extend(waiting);
                // Clients that read byte by byte accept nothing before the bracket.
                assert!(sent.starts_with(b"["));
            }
            judge.push(Bytes::copy_from_slice(event.as_bytes()));
            sent.extend(judge.take());
        }
        assert_eq!(judge.finish(), Ok(()));
        sent.extend(judge.take());
        let sent = String::from_utf8(sent).unwrap();
        legal::check(GEMINI_ARRAY, &sent);
        assert_eq!(seen(&sent).text, "[redacted].");
    }
    // An object stays one.
    let body = format!("\n{}", chunk("key-12"));
    let mut judge = new_judge(GEMINI_ARRAY, &pack(Action::Abort), SETTINGS);
    judge.push(Bytes::copy_from_slice(body.as_bytes()));
    judge.keep_alive();
    let waiting = judge.take();
    assert_eq!((waiting, judge.finish()), ("\n".into(), Err(TruncatedBody)));
    // That of the server passes as it arrives.
    let mut judge = new_judge(GEMINI_ARRAY, &pack(Action::Redact), SETTINGS);
    for piece in [" ", "[", "\n", &chunk("Hi.").to_string(), "\n", " "] {
        judge.push(Bytes::copy_from_slice(piece.as_bytes()));
        let is_sent = piece != "[" && (piece != "\n" || judge.frames.pending_len() == 0);
        assert_eq!(!judge.take().is_empty(), is_sent, "{piece}");
    }
}

#[test]
fn an_element_longer_than_the_bound_stops_the_reply_before_it_is_complete() {
    let settings = JudgeSettings {
        held_bytes: 2000,
        ..SETTINGS
    };
    let deep = "{\"a\":[".repeat(500);
    let blank = " ".repeat(3000);
    for (start, long) in [
        ("[", "{\"candidates\":\"".to_owned() + &"x".repeat(3000)),
        ("[", deep),
        ("[", blank.clone()),
        ("", "x".repeat(3000)),
        ("", format!("{{{blank}")),
    ] {
        let mut judge = new_judge(GEMINI_ARRAY, &aborting("never"), settings);
        let mut most = 0;
        for piece in (start.to_owned() + &long).as_bytes().chunks(10) {
            judge.push(Bytes::copy_from_slice(piece));
            most = most.max(judge.kept_bytes());
        }
        let sent = String::from_utf8(judge.take().into()).unwrap();
        legal::check(GEMINI_ARRAY, &sent);
        assert!(sent.contains("more text is held back"), "{sent}");
        assert!(most < 2020, "{most}");
    }
}

#[test]
fn an_array_of_code_assist_ends_with_a_wrapped_element() {
    let array = StreamedApi {
        api: ModelApi::CodeAssist,
        ..GEMINI_ARRAY
    };
    let body = stream(array, &[Piece::Text(&["Hi. ", "key-1234", " more"])]);
    for size in 1..body.len() {
        let judge_as =
            |action| judge_with(array, &pack(action), SETTINGS, body.as_bytes().chunks(size));
        let redacted = judge_as(Action::Redact).sent;
        assert_eq!(redacted, body.replace("key-1234", "[redacted]"));
        let stopped = judge_as(Action::Abort).sent;
        legal::check(array, &stopped);
        assert!(!stopped.contains("key-1234") && stopped.contains(REASON));
    }
}

/// A chunk with the first piece of a call.
fn begun_call() -> Value {
    let call = json!({"functionCall": {"name": "bash", "willContinue": true}});
    let mut begun = chunk("");
    begun["candidates"][0]["content"]["parts"] = json!([call]);
    begun
}

#[test]
fn a_call_in_pieces_that_breaks_off_is_not_sent() {
    let (text, begun) = (chunk("Hi."), begun_call());
    for end in ["", ",", "]"] {
        let body = format!("[{text},{begun}{end}");
        let judged = judge(GEMINI_ARRAY, &pack(Action::Abort), &body);
        assert_eq!(judged.sent, format!("[{text}"));
        assert_eq!(judged.ended, Err(TruncatedBody));
    }
}

#[test]
fn an_error_of_the_server_within_a_call_in_pieces_is_sent_without_the_call() {
    let (text, begun) = (chunk("Hi."), begun_call());
    let error = json!({"error": {"code": 503, "message": "Busy"}});
    for (api, body, want) in [
        (
            GEMINI_ARRAY,
            format!("[{text},{begun},{error}]"),
            format!("[{text},{error}]"),
        ),
        (
            GEMINI_ARRAY.api.into(),
            format!("data: {text}\n\ndata: {begun}\n\ndata: {error}\n\n"),
            format!("data: {text}\n\ndata: {error}\n\n"),
        ),
    ] {
        let judged = judge(api, &pack(Action::Abort), &body);
        assert_eq!((judged.sent, judged.ended), (want, Ok(())));
    }
}
