//! A prompt and its whole reply.

use ttsr::harness::Cancel;
use ttsr_agent::opencode::{AskError, AskOptions, Prompt, ServerApi, WholeReply, ask};

use super::{block_on, server};
use ttsr_testing::opencode::{Imitation, Play};

fn event(kind: &str, properties: &str) -> Play {
    Play::Send(format!(
        r#"{{"type":"{kind}","properties":{{{properties}}}}}"#
    ))
}

fn part(session: &str, id: &str, kind: &str, text: &str) -> Play {
    let part = format!(
        r#""sessionID":"{session}","part":{{"id":"{id}","messageID":"msg_{session}","type":"{kind}","text":"{text}"}}"#
    );
    event("message.part.updated", &part)
}

fn delta(session: &str, id: &str, text: &str) -> Play {
    let delta = format!(
        r#""sessionID":"{session}","messageID":"msg_{session}","partID":"{id}","field":"text","delta":"{text}""#
    );
    event("message.part.delta", &delta)
}

fn idle(session: &str) -> Play {
    event("session.idle", &format!(r#""sessionID":"{session}""#))
}

async fn asked(plays: Vec<Play>, asking: AskOptions) -> (Result<WholeReply, AskError>, Imitation) {
    let imitation = Imitation::start(vec![plays]).await;
    let server = server(&imitation.url, ServerApi::Classic);
    let reply = ask(&server, "ses_1", &Prompt::new("Go."), asking).await;
    imitation.wait_until_closed().await;
    (reply, imitation)
}

#[test]
fn the_whole_reply_comes_as_one_text_in_the_order_of_its_parts() {
    block_on(async {
        // Waiting for the prompt shows that the event stream was opened before it was sent.
        let plays = vec![
            Play::Await("/prompt_async"),
            part("ses_1", "p0", "reasoning", ""),
            part("ses_2", "q0", "text", ""),
            delta("ses_1", "p0", "thinking"),
            delta("ses_2", "q0", "another session"),
            part("ses_1", "p1", "text", ""),
            part("ses_1", "p2", "text", ""),
            delta("ses_1", "p2", " world"),
            delta("ses_1", "p1", "hello"),
            idle("ses_2"),
            part("ses_1", "p1", "text", "hello,"),
            idle("ses_1"),
        ];
        let (reply, imitation) = asked(plays, AskOptions::default()).await;
        assert_eq!(reply.unwrap().text, "hello, world");
        assert_eq!(
            imitation.request_lines(),
            ["POST /session/ses_1/prompt_async"]
        );
    });
}

#[test]
fn text_of_an_attempt_that_the_server_repeats_is_not_in_the_reply_twice() {
    block_on(async {
        let retry = event(
            "session.status",
            r#""sessionID":"ses_1","status":{"type":"retry","attempt":1,"message":"busy","next":1}"#,
        );
        let plays = vec![
            Play::Await("/prompt_async"),
            part("ses_1", "p1", "text", ""),
            delta("ses_1", "p1", "Once upon"),
            retry,
            part("ses_1", "p2", "text", ""),
            delta("ses_1", "p2", "Once upon a time."),
            idle("ses_1"),
        ];
        let (reply, _) = asked(plays, AskOptions::default()).await;
        assert_eq!(reply.unwrap().text, "Once upon a time.");
    });
}

#[test]
fn a_timeout_and_a_cancel_stop_the_session() {
    block_on(async {
        let asking = AskOptions {
            timeout_ms: 50,
            ..AskOptions::default()
        };
        let (reply, imitation) = asked(vec![], asking).await;
        assert_eq!(reply.unwrap_err().to_string(), "timeout");
        assert_eq!(
            imitation.request_lines().last().unwrap(),
            "POST /session/ses_1/abort"
        );

        let asking = AskOptions::default();
        asking.cancel.cancel();
        let (reply, _) = asked(vec![], asking).await;
        assert_eq!(reply.unwrap_err().to_string(), "aborted");
    });
}

#[test]
fn an_abort_from_elsewhere_is_told_as_one() {
    block_on(async {
        let error = r#""sessionID":"ses_1","error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}"#;
        let plays = vec![
            Play::Await("/prompt_async"),
            part("ses_1", "p1", "text", "half"),
            event("session.error", error),
            idle("ses_1"),
        ];
        let (reply, imitation) = asked(plays, AskOptions::default()).await;
        assert_eq!(reply, Err(AskError::Aborted));
        let stops = imitation
            .request_lines()
            .into_iter()
            .filter(|what| what.ends_with("/abort"));
        assert_eq!(stops.count(), 0, "what it does next is not stopped");
    });
}

#[test]
fn a_broken_connection_gives_what_there_is_and_nothing_is_said_to_be_empty() {
    block_on(async {
        let begun = vec![
            Play::Await("/prompt_async"),
            part("ses_1", "p1", "text", "half"),
            Play::Break,
        ];
        let (reply, _) = asked(begun, AskOptions::default()).await;
        assert_eq!(reply.unwrap().text, "half");
        let nothing = vec![Play::Await("/prompt_async"), idle("ses_1")];
        let asking = AskOptions {
            cancel: Cancel::default(),
            ..AskOptions::default()
        };
        let (reply, _) = asked(nothing, asking).await;
        assert_eq!(reply.unwrap().text, "(empty response)");
    });
}

#[test]
fn a_failure_of_the_model_is_told_as_it_is() {
    block_on(async {
        let error =
            r#""sessionID":"ses_1","error":{"name":"APIError","data":{"message":"no credit"}}"#;
        let plays = vec![
            Play::Await("/prompt_async"),
            part("ses_1", "p1", "text", ""),
            event("session.error", error),
            idle("ses_1"),
        ];
        let (reply, _) = asked(plays, AskOptions::default()).await;
        assert_eq!(reply.unwrap_err().to_string(), "APIError: no credit");
    });
}

/// Tells that the message is over, and why.
fn finished(reason: &str) -> Play {
    let info = format!(
        r#""sessionID":"ses_1","info":{{"id":"msg_ses_1","sessionID":"ses_1","role":"assistant","finish":"{reason}","time":{{"created":1,"completed":2}}}}"#
    );
    event("message.updated", &info)
}

#[test]
fn a_reply_that_the_length_limit_ended_says_so() {
    block_on(async {
        for (reason, is_truncated) in [("length", true), ("stop", false)] {
            let plays = vec![
                Play::Await("/prompt_async"),
                part("ses_1", "p1", "text", "The answer is"),
                finished(reason),
                idle("ses_1"),
            ];
            let (reply, _) = asked(plays, AskOptions::default()).await;
            let expected = WholeReply {
                text: "The answer is".to_owned(),
                is_truncated,
            };
            assert_eq!(reply, Ok(expected), "{reason}");
        }
    });
}
