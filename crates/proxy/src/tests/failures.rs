//! Failures of other gateways, as reported to their trackers. `FAILURES` names the tests that show that this proxy does
//! not have them; those that no other file has are here.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use ttsr::{Action, Channel, Pack, Pattern, Rule};

use super::schedules::{path_of, type_of};
use super::{
    BODY, Http, RunningProxy, ScriptedBody, client, collected, config, open_server, server, start,
    within,
};
use crate::judge::tests::replies::{Piece, events, seen, stream, whole};
use crate::judge::tests::{StreamedApi, every_api, every_stream, legal, streams_with_parts};
use crate::routes::ModelApi::{AnthropicMessages, OpenAiChat, OpenAiResponses};

/// Each failure, and the tests of this crate that would reveal it.
const FAILURES: [(&str, &[&str]); 25] = [
    (
        "a streamed reply is not checked",
        &[
            "a_stream_is_redacted_in_both_versions_of_http",
            "every_api_is_judged_streamed_or_not",
        ],
    ),
    (
        "text leaves before the verdict on it",
        &[
            "a_held_text_leaves_after_its_verdict",
            "no_byte_of_a_secret_is_sent_however_it_is_cut",
        ],
    ),
    (
        "a value that is cut over two deltas passes",
        &["no_byte_of_a_secret_is_sent_however_it_is_cut"],
    ),
    (
        "a carry-over of a fixed size leaks the head of a long match",
        &["a_match_of_any_length_is_redacted_whole"],
    ),
    (
        "the tail of a longer token is left",
        &["a_match_of_any_length_is_redacted_whole"],
    ),
    (
        "the end of the stream lets out what was held",
        &[
            "the_end_of_the_input_does_not_let_out_a_match",
            "a_text_that_breaks_off_within_a_match_is_not_sent",
        ],
    ),
    (
        "one API is not guarded, and counted as a success",
        &[
            "every_api_is_judged_streamed_or_not",
            "a_reply_that_cannot_be_judged_is_refused_unless_the_proxy_fails_open",
        ],
    ),
    (
        "arguments of calls are not read in streams",
        &["no_trace_of_a_blocked_call_is_sent_and_the_stop_reason_is_not_that_of_a_call"],
    ),
    (
        "a call leaves before its verdict",
        &[
            "a_call_is_sent_once_it_is_complete_and_judged",
            "no_trace_of_a_call_that_the_client_is_asked_to_approve_is_sent_if_it_is_stopped",
            "text_leaves_as_it_arrives_and_a_call_leaves_whole_when_it_is_complete",
        ],
    ),
    (
        "an incomplete call is repaired and run",
        &[
            "a_connection_that_breaks_within_a_call_is_an_error_for_the_client",
            "a_reply_that_breaks_off_is_a_prefix_without_an_incomplete_call",
        ],
    ),
    (
        "the stop reason is that of a call that was removed",
        &["no_trace_of_a_blocked_call_is_sent_and_the_stop_reason_is_not_that_of_a_call"],
    ),
    (
        "the end of a stopped reply is not valid in its API",
        &[
            "decisions_and_texts_are_those_of_a_conversation_and_every_end_is_legal",
            "each_checker_accepts_whole_replies_and_refuses_damaged_ones",
        ],
    ),
    (
        "a stop looks like a fault, and a fault like a stop",
        &[
            "a_hard_block_ends_as_a_failure_that_no_client_retries",
            "a_fault_of_the_server_is_no_error_of_the_request",
        ],
    ),
    (
        "the reason repeats the secret",
        &["a_message_does_not_repeat_the_text_that_matched"],
    ),
    (
        "a reply without a finish reason makes a client ask for ever",
        &["a_stopped_reply_has_a_finish_reason_in_every_api"],
    ),
    (
        "a second start of the reply is sent",
        &[
            "the_good_answer_is_spliced_into_the_reply_of_each_api",
            "random_attempts_become_one_legal_reply",
            "whatever_happens_one_legal_end_no_leak_and_nothing_left",
        ],
    ),
    (
        "the request without a stream that a client falls back to is not guarded",
        &[
            "a_reply_that_is_not_streamed_is_judged_the_same",
            "a_reply_that_is_not_streamed_is_blocked_the_same",
        ],
    ),
    (
        "an error after complete reasoning makes a client give up",
        &["a_stop_within_reasoning_ends_with_a_text"],
    ),
    (
        "nothing is sent while text is held",
        &["a_held_reply_is_kept_alive_and_stopped_in_the_end"],
    ),
    (
        "what keeps a client waiting breaks its parser",
        &[
            "a_keep_alive_event_is_legal_in_the_api",
            "a_client_that_has_no_event_yet_is_kept_waiting_by_one_with_the_names_of_the_reply",
        ],
    ),
    (
        "a hold counts as idle time",
        &["a_hold_longer_than_the_idle_time_is_not_a_fault"],
    ),
    (
        "a character or an event that is cut over two segments is damaged",
        &[
            "a_reply_without_a_hit_passes_byte_for_byte_under_every_segmentation",
            "events_keep_their_bytes_however_they_are_cut",
            "elements_keep_their_bytes_however_they_are_cut",
        ],
    ),
    (
        "a compressed body is not read",
        &["a_reply_that_cannot_be_judged_is_refused_unless_the_proxy_fails_open"],
    ),
    (
        "only the first choice is read, and held calls count for nothing",
        &[
            "every_choice_is_judged_and_every_open_choice_ends",
            "more_held_text_than_the_bound_stops_the_reply",
        ],
    ),
    (
        "the server goes on for a client that has gone, and a stop is logged as a success",
        &[
            "a_client_that_goes_away_cancels_the_request_to_the_server",
            "decisions_and_ends_are_logged_and_counted_without_text",
        ],
    ),
];

#[test]
fn every_failure_has_tests() {
    let sources = [
        include_str!("failures.rs"),
        include_str!("judged.rs"),
        include_str!("operations.rs"),
        include_str!("pass_through.rs"),
        include_str!("retries.rs"),
        include_str!("schedules.rs"),
        include_str!("../judge/array_frames.rs"),
        include_str!("../judge/sse_frames.rs"),
        include_str!("../judge/tests/blocks.rs"),
        include_str!("../judge/tests/first_events.rs"),
        include_str!("../judge/tests/legal.rs"),
        include_str!("../judge/tests/random.rs"),
        include_str!("../judge/tests/redactions.rs"),
        include_str!("../judge/tests/retries.rs"),
    ]
    .concat();
    for (failure, tests) in FAILURES {
        for test in tests {
            let is_test = sources.contains(&format!("#[test]\nfn {test}()"))
                || sources.contains(&format!("#[test]\n    fn {test}()"))
                || sources.contains(&format!("#[tokio::test]\nasync fn {test}()"))
                || sources.contains(&format!("worker_threads = 3)]\nasync fn {test}()"));
            assert!(is_test, "{failure}: {test}");
        }
    }
}

fn pack(pattern: Pattern, action: Action) -> Pack {
    let mut rule = Rule::new("demo/rule", vec![pattern]);
    rule.on = Channel::STREAMED.to_vec();
    rule.action = action;
    rule.hold = action == Action::Abort;
    rule.message = Some("Not this.".into());
    Pack::builder().rule(rule).build().unwrap()
}

async fn ask(proxy: &RunningProxy, api: impl Into<StreamedApi>) -> Response<hyper::body::Incoming> {
    let request = Request::post(proxy.url(path_of(api)));
    let request = request.body(Full::<Bytes>::from(BODY)).unwrap();
    within(client(Http::One).request(request)).await.unwrap()
}

/// The bytes that a client receives of a reply in these segments.
async fn received(
    api: impl Into<StreamedApi>,
    pack: Pack,
    kind: &'static str,
    segments: Vec<Bytes>,
) -> String {
    let upstream = server(move |_| {
        let mut response = Response::new(ScriptedBody::of(segments.clone()));
        let headers = response.headers_mut();
        headers.insert("content-type", kind.parse().unwrap());
        async move { response }
    })
    .await;
    let proxy = start(config(upstream.address, Http::One), pack).await;
    let sent = collected(ask(&proxy, api).await).await;
    String::from_utf8(sent.to_vec()).unwrap()
}

fn segments(text: &str, len: usize) -> Vec<Bytes> {
    text.as_bytes()
        .chunks(len)
        .map(Bytes::copy_from_slice)
        .collect()
}

#[tokio::test]
async fn every_api_is_judged_streamed_or_not() {
    let pieces = [Piece::Text(&["It is for", "bidden."])];
    for api in every_stream() {
        let streamed = stream(api, &pieces);
        let body = whole(api, &pieces).to_string();
        for (text, kind) in [(streamed, type_of(api)), (body, "application/json")] {
            let pack = pack(Pattern::literal("forbidden"), Action::Abort);
            let sent = received(api, pack, kind, segments(&text, 9)).await;
            assert!(!sent.contains("bidden"), "{api:?} {kind}: {sent}");
            assert!(
                seen(&sent)
                    .text
                    .contains("[ttsr: reply stopped by rule demo/rule"),
                "{sent}"
            );
        }
    }
}

#[tokio::test]
async fn a_held_text_leaves_after_its_verdict() {
    for api in streams_with_parts() {
        for (text, is_sent) in [(["a for", "bidden b"], false), (["a for", "mer b"], true)] {
            let pack = pack(Pattern::literal("forbidden"), Action::Abort);
            let text = stream(api, &[Piece::Text(&text)]);
            let sent = received(api, pack, type_of(api), segments(&text, 50)).await;
            assert_eq!(seen(&sent).text.contains("for"), is_sent, "{api:?}: {sent}");
        }
    }
}

#[tokio::test]
async fn a_match_of_any_length_is_redacted_whole() {
    let long = format!("begin {} end", "secret ".repeat(9_000));
    let token = format!("sk-{}", "0a1b2c3d4e".repeat(40));
    for (pattern, secret) in [("begin (?s:.)*? end", &long), ("sk-[a-z0-9]{8,}", &token)] {
        let text = format!("So: {secret}. Yes.");
        let deltas: Vec<&str> = text
            .as_bytes()
            .chunks(text.len().div_ceil(300))
            .map(|delta| std::str::from_utf8(delta).unwrap())
            .collect();
        for api in streams_with_parts() {
            let stream = stream(api, &[Piece::Text(&deltas)]);
            let pack = pack(Pattern::regex(pattern), Action::Redact);
            let sent = received(api, pack, type_of(api), segments(&stream, 4096)).await;
            assert_eq!(
                seen(&sent).text,
                "So: [redacted]. Yes.",
                "{api:?} {pattern}"
            );
        }
    }
}

#[tokio::test]
async fn the_end_of_the_input_does_not_let_out_a_match() {
    // The rule needs the end of the text to decide.
    let pattern = r"key-[0-9]{4}\b";
    for api in streams_with_parts() {
        let stream = stream(api, &[Piece::Text(&["It is key-12", "34"])]);
        let pack = pack(Pattern::regex(pattern), Action::Redact);
        let sent = received(api, pack, type_of(api), segments(&stream, 60)).await;
        assert_eq!(seen(&sent).text, "It is [redacted]", "{api:?}");
    }
}

#[tokio::test]
async fn a_text_that_breaks_off_within_a_match_is_not_sent() {
    for api in streams_with_parts() {
        let all = events(api, &[Piece::Text(&["It is ", "key-12", "34."])]);
        let end = all
            .iter()
            .position(|event| event.contains("key-12"))
            .unwrap();
        let text = all[..=end].concat();
        let upstream = server(move |_| {
            let mut response = Response::new(ScriptedBody::of(segments(&text, 40)));
            let headers = response.headers_mut();
            headers.insert("content-type", type_of(api).parse().unwrap());
            async move { response }
        })
        .await;
        let pack = pack(Pattern::regex("key-[0-9]{4}"), Action::Redact);
        let proxy = start(config(upstream.address, Http::One), pack).await;
        let mut response = ask(&proxy, api).await;
        let mut sent = Vec::new();
        let end = loop {
            match within(response.frame()).await {
                Some(Ok(frame)) => sent.extend(frame.into_data().unwrap()),
                end => break end,
            }
        };
        assert!(
            matches!(end, Some(Err(_))),
            "{api:?}: the client sees a fault"
        );
        let sent = String::from_utf8(sent).unwrap();
        assert!(
            sent.contains("It is ") && !sent.contains("key"),
            "{api:?}: {sent}"
        );
    }
}

#[tokio::test]
async fn a_call_is_sent_once_it_is_complete_and_judged() {
    for api in [AnthropicMessages, OpenAiResponses] {
        let (upstream, mut heard) = open_server("text/event-stream").await;
        let pack = pack(Pattern::literal("forbidden"), Action::Abort);
        let proxy = start(config(upstream.address, Http::One), pack).await;
        let all = events(
            api,
            &[
                Piece::Text(&["Now."]),
                Piece::Tool("bash", &["{\"a\": ", "1}"]),
            ],
        );
        let named = all.iter().position(|event| event.contains("bash")).unwrap();
        let is_last = |event: &String| {
            event.contains("content_block_stop") || event.contains("output_item.done")
        };
        let ended = named + all[named..].iter().position(is_last).unwrap();
        let (mut response, frames) = tokio::join!(ask(&proxy, api), async {
            within(heard.recv()).await.unwrap()
        });
        let mut sent = String::new();
        for (at, event) in all.iter().enumerate() {
            frames
                .send(Ok(Bytes::copy_from_slice(event.as_bytes())))
                .await
                .unwrap();
            // Events released before the call is complete are received before the next event is sent.
            let wait = tokio::time::timeout(Duration::from_millis(30), response.frame());
            if at < named
                && let Ok(Some(Ok(frame))) = wait.await
            {
                sent += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
            }
            while at >= ended && !sent.contains("bash") {
                let frame = within(response.frame()).await.unwrap().unwrap();
                sent += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
            }
            assert_eq!(
                sent.contains("bash"),
                at >= ended,
                "{api:?} after event {at}: {sent}"
            );
        }
    }
}

#[tokio::test]
async fn a_fault_of_the_server_is_no_error_of_the_request() {
    // Clients do not repeat a request after an error of the kind 4xx.
    let upstream = server(|_| async {
        let mut response = Response::new(ScriptedBody::of(vec!["{\"id\":".into()]));
        let headers = response.headers_mut();
        headers.insert("content-type", "application/json".parse().unwrap());
        response
    })
    .await;
    let pack = pack(Pattern::literal("x"), Action::Abort);
    let proxy = start(config(upstream.address, Http::One), pack).await;
    for api in every_api() {
        assert_eq!(ask(&proxy, api).await.status(), 502, "{api:?}");
    }
}

#[tokio::test]
async fn a_stopped_reply_has_a_finish_reason_in_every_api() {
    for api in every_stream() {
        let pack = pack(Pattern::literal("forbidden"), Action::Abort);
        let text = stream(api, &[Piece::Text(&["a ", "forbidden", " b"])]);
        let sent = received(api, pack, type_of(api), segments(&text, 1)).await;
        legal::check(api, &sent);
        let finishes = seen(&sent).finishes;
        assert!(
            matches!(&*finishes[0], "end_turn" | "stop" | "completed" | "STOP"),
            "{api:?}: {finishes:?}"
        );
    }
}

#[tokio::test]
async fn a_stop_within_reasoning_ends_with_a_text() {
    for api in streams_with_parts() {
        let pack = pack(Pattern::literal("forbidden"), Action::Abort);
        let text = stream(api, &[Piece::Reasoning(&["a ", "forbidden", " b"])]);
        let sent = received(api, pack, type_of(api), segments(&text, 30)).await;
        legal::check(api, &sent);
        let seen = seen(&sent);
        assert!(
            seen.text.starts_with("[ttsr: reply stopped"),
            "{api:?}: {sent}"
        );
        assert_eq!(
            (&*seen.reasoning, seen.errors.len()),
            ("a ", 0),
            "{api:?}: {sent}"
        );
    }
}

#[tokio::test]
async fn a_keep_alive_event_is_legal_in_the_api() {
    let deltas = ["well ", "key-12", "34", "."];
    for api in every_stream() {
        let (upstream, mut heard) = open_server(type_of(api)).await;
        let mut config = config(upstream.address, Http::One);
        config.limits.keep_alive_time = Duration::from_millis(3);
        let pack = pack(Pattern::regex("key-[0-9]{4}"), Action::Redact);
        let proxy = start(config, pack).await;
        let all = events(api, &[Piece::Text(&deltas)]);
        let plain = all.concat().len();
        let sending = async {
            let frames = within(heard.recv()).await.unwrap();
            for event in all {
                frames.send(Ok(event.into())).await.unwrap();
                tokio::time::sleep(Duration::from_millis(12)).await;
            }
        };
        let (sent, ()) = tokio::join!(async { collected(ask(&proxy, api).await).await }, sending);
        let sent = String::from_utf8(sent.to_vec()).unwrap();
        legal::check(api, &sent);
        assert_eq!(seen(&sent).text, "well [redacted].", "{api:?}");
        assert!(
            sent.len() > plain,
            "{api:?}: nothing kept the client waiting: {sent}"
        );
        assert!(!sent.contains(": keep-alive"), "{api:?}: {sent}");
    }
}

#[tokio::test]
async fn a_hold_longer_than_the_idle_time_is_not_a_fault() {
    let (upstream, mut heard) = open_server("text/event-stream").await;
    let mut config = config(upstream.address, Http::One);
    config.limits.idle_time = Duration::from_millis(400);
    let pack = pack(Pattern::literal("forbidden"), Action::Abort);
    let proxy = start(config, pack).await;
    let input: Vec<String> = (0..10).map(|number| format!("{number}")).collect();
    let mut deltas = vec!["{\"a\": \""];
    deltas.extend(input.iter().map(String::as_str));
    deltas.push("\"}");
    let all = events(OpenAiChat, &[Piece::Tool("t", &deltas)]);
    let whole = all.concat();
    let sending = async {
        let frames = within(heard.recv()).await.unwrap();
        for event in all {
            frames.send(Ok(event.into())).await.unwrap();
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    };
    let (sent, ()) = tokio::join!(
        async { collected(ask(&proxy, OpenAiChat).await).await },
        sending
    );
    assert_eq!(sent, whole);
}
