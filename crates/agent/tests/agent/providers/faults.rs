//! Named cases of bad responses, each with its result. Numbers refer to rows of the list of faults.

use std::time::Duration;

use ttsr::harness::{Cancel, End, Hooks, Processor, Settings, run};
use ttsr::{Channel, Event, Pack};
use ttsr_agent::providers::{Endpoint, EndpointErrorKind, ProviderApi, Timeouts};

use super::server::{Framing, Plan, Server, response};
use super::{Came, ask, endpoint, play, request, runtime, small, soon};

const CANARY: &str = "sk-canary-0123456789abcdef";

fn played(plan: Plan) -> Came {
    runtime().block_on(play(ProviderApi::OpenAiChat, plan))
}

fn chat(content: &str) -> String {
    let content = serde_json::to_string(content).unwrap();
    format!(
        "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{content}}}}}]}}\n\n"
    )
}

const STOP: &str =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

fn sse(body: &str) -> Came {
    played(Plan::sse(body.as_bytes(), Framing::Length))
}

/// The loop ends with one well-formed end that names the failure.
#[test]
fn a_disconnect_ends_the_reply_once_and_by_name() {
    runtime().block_on(async {
        let api = ProviderApi::AnthropicMessages;
        let plan = Plan::sse(small(api), Framing::Chunked);
        for length in [0, 5, 30, 120, 400, 800, 1_000] {
            let server = Server::start([plan.clone().first(length)]).await;
            let pack = Pack::builtin("std/shell-safety").unwrap();
            let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
            let mut aborts = 0;
            let outcome = run(
                &mut processor,
                &mut endpoint(api, &server),
                request(),
                "m",
                Cancel::default(),
                |step| aborts += usize::from(matches!(step, ttsr::harness::Step::Aborted(_))),
            )
            .await;
            let End::Aborted { detail, .. } = outcome.end else {
                panic!("{length} bytes are no reply");
            };
            let kinds = ["closed: ", "protocol: ", "cut-off: "];
            assert!(
                kinds.iter().any(|kind| detail.starts_with(kind)),
                "{detail}"
            );
            assert_eq!(aborts, 1);
            assert!(outcome.reply.parts().is_empty());
        }
    });
}

#[test]
fn endings_of_lines_and_fields_of_every_kind() {
    let whole = chat("one ") + &chat("two") + STOP + "data: [DONE]\n\n";
    let expected = sse(&whole);
    assert_eq!(expected.text(Channel::Text), "one two");
    for (name, body) in [
        ("CR", whole.replace('\n', "\r")),
        ("CRLF", whole.replace('\n', "\r\n")),
        (
            "mixed",
            whole.replacen('\n', "\r\n", 1).replacen("\n\n", "\r\r", 1),
        ),
        ("byte order mark", format!("\u{feff}{whole}")),
        ("no space", whole.replace("data: ", "data:")),
        ("comments", whole.replace("data: ", ": hello\n:\ndata: ")),
        ("ids", whole.replace("data: ", "id: 7\nretry: 10\ndata: ")),
        (
            "field without a colon",
            whole.replace("data: ", "id\nretry\ndata: "),
        ),
        (
            "two data lines",
            whole.replace(",\"choices\"", ",\ndata: \"choices\""),
        ),
        ("no blank line at the end", whole.trim_end().to_owned()),
        ("no [DONE]", whole.replace("data: [DONE]\n\n", "")),
        ("[DONE] twice", whole.clone() + "data: [DONE]\n\n"),
        (
            "data after [DONE]",
            whole.clone() + &chat("and more") + STOP,
        ),
    ] {
        assert_eq!(sse(&body), expected, "{name}");
    }
}

#[test]
fn two_events_in_one_segment_and_one_event_in_two() {
    let body = chat("one ") + &chat("two") + STOP + "data: [DONE]\n\n";
    let plan = Plan::sse(body.as_bytes(), Framing::Length);
    let (whole, bytes) = (played(plan.clone()), played(plan.bytewise()));
    assert_eq!(whole, bytes);
    assert!(whole.is_finished());
}

#[test]
fn what_is_no_reply_is_not_read() {
    let html = response(
        "text/html; charset=utf-8",
        b"<html>log in</html>",
        Framing::Length,
    );
    let came = played(Plan::raw(html));
    assert_eq!((came.kind(), came.events.len()), ("content-type", 0));
    for coding in ["gzip", "br", "GZIP, identity"] {
        let headers = format!("content-type: text/event-stream\r\ncontent-encoding: {coding}\r\n");
        let came = played(Plan::status("200 OK", &headers, "\x1f"));
        assert_eq!(
            (came.kind(), came.events.len()),
            ("content-encoding", 0),
            "{coding}"
        );
    }
    // A body that is not a stream despite its content type gives no text and no end, and its bytes are counted.
    let came = played(Plan::sse(b"<html>log in</html>", Framing::Length));
    assert_eq!(came.kind(), "cut-off");
    assert!(came.events.is_empty(), "{came:?}");
}

#[test]
fn a_server_is_not_asked_for_compression() {
    runtime().block_on(async {
        let server =
            Server::start([Plan::sse(small(ProviderApi::OpenAiChat), Framing::Length)]).await;
        ask(&mut endpoint(ProviderApi::OpenAiChat, &server), &request()).await;
        assert_eq!(
            server.requests()[0].header("accept-encoding"),
            Some("identity")
        );
    });
}

#[test]
fn a_whole_reply_instead_of_a_stream_is_read_by_the_rules_too() {
    let body = r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}"#;
    let came = played(Plan::raw(response(
        "application/json",
        body.as_bytes(),
        Framing::Length,
    )));
    assert_eq!(came.text(Channel::Text), "hello");
    assert!(came.is_finished());
}

#[test]
fn an_error_of_status_200_is_an_error() {
    let body = r#"{"error":{"type":"server_error","message":"try later","code":null}}"#;
    let came = played(Plan::raw(response(
        "application/json",
        body.as_bytes(),
        Framing::Length,
    )));
    assert_eq!(
        (came.kind(), came.events.len()),
        ("server_error", 0),
        "{came:?}"
    );
    let body = b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let came = played(Plan::sse(body, Framing::Length));
    assert_eq!(
        (came.kind(), came.events.len()),
        ("overloaded_error", 0),
        "{came:?}"
    );
}

#[test]
fn an_error_amid_a_reply_comes_after_what_was_said() {
    let body =
        chat("half ") + "data: {\"error\":{\"type\":\"server_error\",\"message\":\"gone\"}}\n\n";
    let came = sse(&body);
    assert_eq!(came.text(Channel::Text), "half ");
    let has_error =
        |event: &Event| matches!(event, Event::Error { kind, .. } if kind == "server_error");
    assert!(came.events.iter().any(has_error), "{came:?}");
}

#[test]
fn errors_by_status_keep_what_the_provider_calls_them() {
    for (status, body, kind, message) in [
        (
            "401 Unauthorized",
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            "invalid_api_key",
            "401 Unauthorized: Incorrect API key provided",
        ),
        (
            "400 Bad Request",
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too many"}}"#,
            "invalid_request_error",
            "400 Bad Request: max_tokens: too many",
        ),
        (
            "502 Bad Gateway",
            "<h1>Bad Gateway</h1>",
            "http",
            "502 Bad Gateway: <h1>Bad Gateway</h1>",
        ),
        (
            "500 Internal Server Error",
            "",
            "http",
            "500 Internal Server Error: ",
        ),
    ] {
        let came = played(Plan::status(status, "", body));
        let failure = came.failure.expect("an error");
        assert_eq!((failure.kind(), failure.message()), (kind, message));
        assert_eq!(
            failure.status().map(|code| code.to_string()),
            Some(status[..3].to_owned())
        );
    }
}

#[test]
fn an_endless_error_is_read_to_its_bound() {
    runtime().block_on(async {
        let head = "HTTP/1.1 500 Internal Server Error\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = format!("{:x}\r\n{}\r\n", 4096, "x".repeat(4096));
        let server =
            Server::start([Plan::raw(head.to_owned() + &chunk.repeat(1_000)).linger()]).await;
        let came = ask(&mut endpoint(ProviderApi::OpenAiChat, &server), &request()).await;
        assert!(came.failure.unwrap().message().len() < 1_000);
        server.saw_close(1).await;
    });
}

#[test]
fn broken_http_is_no_reply() {
    let ok = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    let body = chat("smuggled") + STOP + "data: [DONE]\n\n";
    let length = body.len();
    for (name, bytes) in [
        ("no HTTP", "SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned()),
        ("HTTP/0.9", body.clone()),
        ("HTTP/3.0", format!("HTTP/3.0 200 OK\r\n\r\n{body}")),
        (
            "negative length",
            format!("{ok}content-length: -5\r\n\r\n{body}"),
        ),
        (
            "two lengths",
            format!("{ok}content-length: 5\r\ncontent-length: {length}\r\n\r\n{body}"),
        ),
        (
            "length of no number",
            format!("{ok}content-length: 0x10\r\n\r\n{body}"),
        ),
        (
            "chunk size of no number",
            format!("{ok}transfer-encoding: chunked\r\n\r\nzz\r\n{body}"),
        ),
        (
            "chunk size too large",
            format!("{ok}transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{body}"),
        ),
        (
            "10,000 headers",
            format!("{ok}{}\r\n{body}", "x-more: 1\r\n".repeat(10_000)),
        ),
        (
            "1 MB header",
            format!("{ok}x-more: {}\r\n\r\n{body}", "x".repeat(1 << 20)),
        ),
        (
            "header without an end",
            format!("{ok}x-more: {}", "x".repeat(1 << 20)),
        ),
        ("NUL in a header", format!("{ok}x-more: a\0b\r\n\r\n{body}")),
    ] {
        let came = played(Plan::raw(bytes));
        let kinds = ["protocol", "closed", "cut-off"];
        assert!(kinds.contains(&came.kind()), "{name}: {came:?}");
        assert!(came.events.is_empty(), "{name}: {came:?}");
    }
}

/// Chunks take precedence over a contradicting length, and the connection is used once, so the rest cannot be read as
/// the next response.
#[test]
fn what_follows_a_response_is_not_a_response() {
    let body = chat("one") + STOP + "data: [DONE]\n\n";
    let mut bytes = response("text/event-stream", body.as_bytes(), Framing::Chunked);
    bytes.extend(response(
        "text/event-stream",
        chat("two").as_bytes(),
        Framing::Length,
    ));
    let came = played(Plan::raw(bytes));
    assert_eq!(came.text(Channel::Text), "one");
    assert!(came.is_finished());
    let old = format!("HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{body}");
    assert_eq!(played(Plan::raw(old)).text(Channel::Text), "one");
}

#[test]
fn a_hasty_server_that_answers_before_it_is_asked_gets_no_request_answered() {
    let bytes = response(
        "text/event-stream",
        (chat("hasty") + STOP).as_bytes(),
        Framing::Close,
    );
    let came = played(Plan::raw(bytes).hasty());
    // The system decides whether the bytes or the request come first; half a reply is never complete.
    assert!(came.is_finished() || came.failure.is_some(), "{came:?}");
}

#[test]
fn redirects_are_not_followed() {
    runtime().block_on(async {
        let other =
            Server::start([Plan::sse(small(ProviderApi::OpenAiChat), Framing::Length)]).await;
        for status in [
            "301 Moved Permanently",
            "302 Found",
            "307 Temporary Redirect",
            "308 Permanent Redirect",
        ] {
            let location = format!("location: {}/chat/completions\r\n", other.base());
            let server = Server::start([Plan::status(status, &location, "")]).await;
            let mut endpoint = endpoint(ProviderApi::OpenAiChat, &server)
                .key(CANARY)
                .unwrap()
                .retries(soon(3));
            let came = ask(&mut endpoint, &request()).await;
            assert_eq!(came.kind(), "redirect");
            assert!(came.failure.unwrap().message().contains(&other.base()));
            assert_eq!(server.connections(), 1);
        }
        assert_eq!(other.connections(), 0, "the key would have gone there");
    });
}

#[test]
fn the_key_is_in_the_request_and_nowhere_else() {
    runtime().block_on(async {
        for api in ProviderApi::ALL {
            let echo = format!(
                r#"{{"error":{{"type":"authentication_error","message":"no such key: {CANARY}","code":null}}}}"#
            );
            let amid = chat("x") + &format!("data: {{\"error\":{{\"type\":\"e\",\"message\":\"{CANARY}\"}}}}\n\n");
            let plans = [
                Plan::status("401 Unauthorized", "", &echo),
                Plan::status("500 Internal Server Error", "", &format!("key {CANARY}")),
                Plan::status("302 Found", &format!("location: http://x/?key={CANARY}\r\n"), ""),
                Plan::raw(response("text/event-stream", echo.as_bytes(), Framing::Length)),
                Plan::sse(amid.as_bytes(), Framing::Length),
            ];
            let server = Server::start(plans).await;
            let mut endpoint = endpoint(api, &server).key(CANARY).unwrap();
            let mut said = format!("{endpoint:?}");
            for _ in 0..5 {
                let came = ask(&mut endpoint, &request()).await;
                assert!(came.failure.is_some() || !came.events.is_empty());
                said += &format!("{came:?}");
            }
            assert!(said.contains("[key]"), "{said}");
            assert!(!said.contains(CANARY), "{said}");
            for heard in server.requests() {
                assert_eq!(heard.head.matches(CANARY).count(), 1);
                assert_eq!(heard.body.matches(CANARY).count(), 0);
            }
        }
    });
}

#[test]
fn a_key_is_not_sent_to_others_in_the_clear() {
    for base in [
        "http://example.com/v1",
        "http://127.0.0.1.evil.example/v1",
        "http://10.0.0.7:8000/v1",
    ] {
        let endpoint = Endpoint::at(ProviderApi::OpenAiChat, base).unwrap();
        let error = endpoint.key(CANARY).unwrap_err();
        assert_eq!(error.kind(), EndpointErrorKind::Key);
        assert!(!error.to_string().contains(CANARY));
    }
    let error = Endpoint::at(ProviderApi::OpenAiChat, "http://localhost:1/v1")
        .unwrap()
        .key("new\nline");
    assert_eq!(error.unwrap_err().kind(), EndpointErrorKind::Key);
}

#[test]
fn headers_of_hosts_cannot_change_where_a_request_goes_or_who_sends_it() {
    runtime().block_on(async {
        let server =
            Server::start([Plan::sse(small(ProviderApi::OpenAiChat), Framing::Length)]).await;
        let mut endpoint = endpoint(ProviderApi::OpenAiChat, &server)
            .key(CANARY)
            .unwrap();
        for (name, value) in [
            ("Authorization", "Bearer other"),
            ("host", "evil.example"),
            ("content-length", "0"),
            ("Transfer-Encoding", "chunked"),
            ("x-ok", "a\r\nx-injected: 1"),
            ("x bad", "1"),
        ] {
            let mut request = request();
            request.headers.push((name.into(), value.into()));
            assert_eq!(
                ask(&mut endpoint, &request).await.kind(),
                "header",
                "{name}"
            );
        }
        assert_eq!(server.connections(), 0);
        let mut request = request();
        request.headers.push(("x-initiator".into(), "agent".into()));
        assert!(ask(&mut endpoint, &request).await.is_finished());
        assert_eq!(server.requests()[0].header("x-initiator"), Some("agent"));
    });
}

#[test]
fn silence_ends_by_a_bound_wherever_it_begins() {
    let brief = Duration::from_millis(60);
    let patience = Timeouts {
        connect: brief,
        head: brief,
        idle: brief,
    };
    let plan = Plan::sse(small(ProviderApi::OpenAiChat), Framing::Chunked);
    for length in [0, 20, 60, 120, 300, plan.len() - 30] {
        runtime().block_on(async {
            let server = Server::start([plan.clone().first(length).linger()]).await;
            let mut endpoint = endpoint(ProviderApi::OpenAiChat, &server).timeouts(patience);
            let came = ask(&mut endpoint, &request()).await;
            assert_eq!(came.kind(), "timeout", "after {length} bytes: {came:?}");
            server.saw_close(1).await;
        });
    }
}

#[test]
fn a_slow_reply_is_not_a_silent_one() {
    runtime().block_on(async {
        let plan = Plan::sse(small(ProviderApi::OpenAiResponses), Framing::Length);
        let (length, pause) = (plan.len(), Duration::from_millis(5));
        let server = Server::start([plan.cut((0..length).step_by(100)).every(pause)]).await;
        let idle = Duration::from_secs(5);
        let patience = Timeouts {
            idle,
            ..Timeouts::default()
        };
        let mut endpoint = endpoint(ProviderApi::OpenAiResponses, &server).timeouts(patience);
        assert!(ask(&mut endpoint, &request()).await.is_finished());
    });
}

#[test]
fn many_replies_at_once() {
    runtime().block_on(async {
        let plan = Plan::sse(small(ProviderApi::AnthropicMessages), Framing::Chunked);
        let length = plan.len();
        let server = Server::start([plan.cut((0..length).step_by(97))]).await;
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let mut endpoint = endpoint(ProviderApi::AnthropicMessages, &server);
            asking.spawn(async move { ask(&mut endpoint, &request()).await });
        }
        let came = asking.join_all().await;
        assert!(came.iter().all(Came::is_finished));
        assert!(came.windows(2).all(|pair| pair[0] == pair[1]));
    });
}

#[test]
fn what_is_new_is_read_or_counted() {
    let body = chat("known ")
        + "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"telepathy\":\"hidden words\"}}]}\n\n"
        + STOP
        + "data: [DONE]\n\n";
    let came = sse(&body);
    let counted = came.events.iter().any(|event| {
        matches!(event, Event::Unscanned { bytes, .. } if *bytes >= "hidden words".len() as u64)
    });
    let read = came.text(Channel::Text).contains("hidden words");
    assert!(counted || read, "{came:?}");
    assert!(came.is_finished());
}
