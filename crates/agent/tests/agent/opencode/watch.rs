//! The effect of rules on the sessions of a server.

use std::time::Duration;

use ttsr::harness::Cancel;
use ttsr::{Channel, Event};
use ttsr_agent::opencode::{
    AskError, AskOptions, Backoff, Prompt, Server, ServerAction, ServerApi, SessionWatcher,
    WatchEvent, WatchOptions, ask, watch,
};
use ttsr_wire::opencode::ServerNotice;

use super::{block_on, capture, pack, server};
use ttsr_testing::opencode::{Imitation, Play, RecordedRequest, plays};

/// Options without waits.
pub(crate) fn at_once() -> WatchOptions {
    WatchOptions {
        backoff: Backoff {
            first: Duration::from_millis(1),
            ..Backoff::default()
        },
        grace: Duration::ZERO,
        journal: None,
    }
}

/// Watches until `until` returns true; returns all observations.
pub(crate) async fn see(
    server: &Server,
    mut watching: SessionWatcher,
    mut until: impl FnMut(&[WatchEvent]) -> bool,
) -> Vec<WatchEvent> {
    let cancel = Cancel::default();
    let mut seen = Vec::new();
    let report = |one: &WatchEvent| {
        seen.push(one.clone());
        if until(&seen) {
            cancel.cancel();
        }
    };
    let watched = watch(server, &mut watching, at_once(), cancel.clone(), report);
    let ended = tokio::time::timeout(Duration::from_secs(30), watched).await;
    ended.expect("it is seen in time").unwrap();
    seen
}

pub(crate) fn finishes(seen: &[WatchEvent]) -> usize {
    let is_finish = |seen: &&WatchEvent| matches!(seen, WatchEvent::Finish { .. });
    seen.iter().filter(is_finish).count()
}

pub(crate) fn acts(seen: &[WatchEvent]) -> Vec<&ServerAction> {
    let acts = seen.iter().filter_map(|seen| match seen {
        WatchEvent::Started(action) => Some(action),
        _ => None,
    });
    acts.collect()
}

fn classic() -> Vec<Play> {
    let capture = capture("classic.events.jsonl");
    plays(
        &capture,
        "DELETE /session/ses_1/message/msg_a1",
        "/session/ses_1/prompt_async",
    )
}

/// Watches with the rules of [`pack`] until a session is stopped; returns all observations.
async fn until_stopped(imitation: &Imitation) -> Vec<WatchEvent> {
    let server = server(&imitation.url, ServerApi::Classic);
    let watcher = SessionWatcher::new(pack(), ServerApi::Classic);
    let is_stopped = |seen: &WatchEvent| matches!(seen, WatchEvent::Done(ServerAction::Stop(_)));
    see(&server, watcher, |seen| seen.iter().any(is_stopped)).await
}

/// Leaves out the requests of the rule on reasoning.
fn about_the_stop(asked: Vec<RecordedRequest>) -> Vec<RecordedRequest> {
    let is_aside = |asked: &RecordedRequest| asked.body.contains("noReply");
    asked.into_iter().filter(|asked| !is_aside(asked)).collect()
}

#[test]
fn a_classic_session_is_stopped_its_partial_deleted_and_the_model_steered() {
    block_on(async {
        let imitation = Imitation::start(vec![classic()]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let seen = see(
            &server,
            SessionWatcher::new(pack(), ServerApi::Classic),
            |seen| finishes(seen) == 2,
        )
        .await;
        let asked = about_the_stop(imitation.changing_requests());
        let whats: Vec<&str> = asked.iter().map(|asked| asked.line.as_str()).collect();
        assert_eq!(
            whats,
            [
                "POST /session/ses_1/abort",
                "DELETE /session/ses_1/message/msg_a1",
                "POST /session/ses_1/prompt_async",
            ],
            "one abort, though two idles and more deltas follow it"
        );
        let prompt: serde_json::Value = serde_json::from_str(&asked[2].body).unwrap();
        assert_eq!(prompt["parts"][0]["text"], "t/no-unwrap: Use `?`.");
        assert_eq!(
            prompt["model"]["modelID"], "owl-1",
            "whom the user spoke to"
        );
        assert_eq!(prompt["agent"], "build");
        let turns = seen.iter().filter_map(|seen| match seen {
            WatchEvent::Decision(judged) => Some(judged.decision.turn),
            _ => None,
        });
        let turns: Vec<u32> = turns.collect();
        assert!(
            turns.iter().all(|turn| *turn == turns[0]),
            "our prompt begins no turn"
        );
        imitation.wait_until_closed().await;
    });
}

/// The events of [`classic`] after the prompt of a client.
fn prompted() -> Vec<Play> {
    let mut plays = classic();
    plays.insert(1, Play::Await("/session/ses_1/prompt_async"));
    plays
}

/// Prompts the session and reads the events of the server until the session is idle, as `opencode run --attach` does.
/// Returns the text that arrived and the reasons for which messages ended.
async fn blocking_client(server: &Server) -> (String, Vec<String>) {
    let mut events = server.events().await.unwrap();
    let prompt = Prompt::new("Write code please");
    server.prompt("ses_1", &prompt).await.unwrap();
    let (mut texts, mut shown, mut ends) = (Vec::new(), String::new(), Vec::new());
    loop {
        let (_, notice) = events
            .next()
            .await
            .unwrap()
            .expect("the session is idle before the end");
        match notice {
            ServerNotice::Event(Event::PartStart {
                part,
                channel: Channel::Text,
                ..
            }) => texts.push(part),
            ServerNotice::Event(Event::Delta { part, bytes }) if texts.contains(&part) => {
                shown += std::str::from_utf8(&bytes).unwrap();
            }
            ServerNotice::Event(Event::Finish { reason }) => ends.push(reason),
            ServerNotice::Idle => return (shown, ends),
            _ => {}
        }
    }
}

/// Watches a server until the steered reply is complete, while `client` uses it.
async fn beside_a_watcher<T>(imitation: &Imitation, client: impl Future<Output = T>) -> T {
    let watched = server(&imitation.url, ServerApi::Classic);
    let watcher = SessionWatcher::new(pack(), ServerApi::Classic);
    let watching = see(&watched, watcher, |seen| finishes(seen) == 2);
    let client = async {
        while imitation.connections() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        client.await
    };
    tokio::join!(watching, client).1
}

#[test]
fn a_client_that_blocks_sees_the_text_so_far_and_the_abort_and_not_the_steered_reply() {
    block_on(async {
        let imitation = Imitation::start(vec![prompted(), prompted()]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let (shown, ends) = beside_a_watcher(&imitation, blocking_client(&server)).await;
        assert_eq!(shown, "let s = read(p).unwrap().unwrap(); again");
        assert_eq!(ends, ["aborted"]);

        let imitation = Imitation::start(vec![prompted(), prompted()]).await;
        let server = self::server(&imitation.url, ServerApi::Classic);
        let prompt = Prompt::new("Write code please");
        let asking = ask(&server, "ses_1", &prompt, AskOptions::default());
        let reply = beside_a_watcher(&imitation, asking).await;
        assert_eq!(reply, Err(AskError::Aborted), "no partial text is a reply");
    });
}

#[test]
fn the_second_interface_stops_a_tool_before_it_runs() {
    block_on(async {
        let capture = capture("next.events.jsonl");
        let plays = plays(&capture, "/interrupt", "/api/session/ses_1/prompt");
        let imitation = Imitation::start(vec![plays]).await;
        let server = server(&imitation.url, ServerApi::Next);
        let seen = see(
            &server,
            SessionWatcher::new(pack(), ServerApi::Next),
            |seen| finishes(seen) == 2,
        )
        .await;
        assert_eq!(
            imitation.request_lines(),
            [
                "POST /api/session/ses_1/interrupt",
                "POST /api/session/ses_1/prompt"
            ]
        );
        let judged = seen.iter().find_map(|seen| match seen {
            WatchEvent::Decision(judged) => Some(judged),
            _ => None,
        });
        let judged = judged.unwrap();
        assert_eq!(
            (judged.decision.part.tool.as_deref(), judged.is_late),
            (Some("write"), false)
        );
    });
}

#[test]
fn a_dry_run_only_tells() {
    block_on(async {
        let capture = capture("classic.events.jsonl");
        // No act follows, so there is nothing to wait for.
        let plays = plays(&capture, "", "")
            .into_iter()
            .filter(|play| matches!(play, Play::Send(_)));
        let imitation = Imitation::start(vec![plays.collect()]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let watching = SessionWatcher::new(pack(), ServerApi::Classic).dry_run();
        let seen = see(&server, watching, |seen| finishes(seen) == 2).await;
        let suppressed: Vec<_> = seen
            .iter()
            .filter_map(|seen| match seen {
                WatchEvent::Decision(judged) => judged.decision.suppressed.clone(),
                _ => None,
            })
            .collect();
        assert_eq!(suppressed, ["shadow", "shadow"]);
        assert_eq!(imitation.changing_requests(), []);
        assert!(acts(&seen).is_empty());
    });
}

#[test]
fn other_sessions_are_left_alone_where_one_is_named() {
    block_on(async {
        let mut plays = classic();
        plays.retain(|play| matches!(play, Play::Send(_)));
        let other = r#"{"type":"message.part.updated","properties":{"sessionID":"ses_2","part":{"id":"p","messageID":"m","type":"text","text":"hello","time":{"start":1,"end":2}}}}"#;
        plays.push(Play::Send(other.to_owned()));
        let imitation = Imitation::start(vec![plays]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let watching = SessionWatcher::new(pack(), ServerApi::Classic).only("ses_2");
        let seen = see(&server, watching, |seen| {
            seen.iter()
                .any(|seen| matches!(seen, WatchEvent::Message { .. }))
        })
        .await;
        assert!(acts(&seen).is_empty());
        assert_eq!(imitation.changing_requests(), []);
    });
}

#[test]
fn a_broken_stream_is_opened_again_and_rules_go_on() {
    block_on(async {
        let mut begun = classic();
        // Up to the delta before the one in which the match begins.
        let mut rest = begun.split_off(7);
        begun.push(Play::Break);
        rest.truncate(3);
        let imitation = Imitation::start(vec![vec![Play::Break], begun, rest]).await;
        let seen = until_stopped(&imitation).await;
        assert_eq!(imitation.connections(), 3);
        let breaks = seen
            .iter()
            .filter(|seen| matches!(seen, WatchEvent::Disconnected { .. }));
        assert_eq!(breaks.count(), 2);
        assert_eq!(acts(&seen).len(), 1, "the hint waits for the end of a turn");
    });
}

#[test]
fn a_match_that_a_broken_connection_cut_in_two_is_found_when_the_part_is_repeated() {
    block_on(async {
        let mut begun = classic();
        let mut rest = begun.split_off(8);
        begun.push(Play::Break);
        rest.truncate(1);
        let whole = r#"{"type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"id":"prt_2","messageID":"msg_a1","type":"text","text":"let s = read(p).unwrap()","time":{"start":1,"end":2}}}}"#;
        rest.push(Play::Send(whole.to_owned()));
        let imitation = Imitation::start(vec![begun, rest]).await;
        let seen = until_stopped(&imitation).await;
        assert!(
            seen.iter()
                .any(|seen| matches!(seen, WatchEvent::Disconnected { .. }))
        );
    });
}

#[test]
fn a_message_that_is_still_held_is_deleted_a_little_later() {
    block_on(async {
        let imitation = Imitation::start(vec![classic()]).await;
        let busy = "409 Conflict\r\ncontent-length: 4\r\n\r\nbusy";
        imitation.answer("/message/msg_a1", busy);
        until_stopped(&imitation).await;
        let deletes = imitation
            .request_lines()
            .into_iter()
            .filter(|what| what.starts_with("DELETE"));
        assert_eq!(deletes.count(), 2);
    });
}

#[test]
fn an_act_that_fails_is_told_and_the_rule_may_act_again() {
    block_on(async {
        let mut plays = classic();
        plays.retain(|play| matches!(play, Play::Send(event) if !event.contains("Aborted")));
        let imitation = Imitation::start(vec![plays]).await;
        imitation.answer("/abort", "500 Oops\r\ncontent-length: 2\r\n\r\nno");
        let server = server(&imitation.url, ServerApi::Classic);
        let seen = see(
            &server,
            SessionWatcher::new(pack(), ServerApi::Classic),
            |seen| {
                seen.iter()
                    .any(|seen| matches!(seen, WatchEvent::Failed { .. }))
            },
        )
        .await;
        let Some(WatchEvent::Failed { why, .. }) = seen.last() else {
            panic!("it was waited for");
        };
        assert_eq!(why, "500: POST /session/ses_1/abort: no");
    });
}

#[test]
fn a_server_that_refuses_is_not_asked_again_and_a_password_is_never_shown() {
    block_on(async {
        let imitation = Imitation::start(vec![]).await;
        imitation.answer(
            "/event",
            "401 Unauthorized\r\ncontent-length: 4\r\n\r\nwho?",
        );
        let server =
            server(&imitation.url, ServerApi::Classic).with_password("opencode", "canary-7");
        let mut watching = SessionWatcher::new(pack(), ServerApi::Classic);
        let mut told = String::new();
        let report = |seen: &WatchEvent| told.push_str(&format!("{seen:?}"));
        let watched = watch(
            &server,
            &mut watching,
            Backoff::default(),
            Cancel::default(),
            report,
        );
        let failure = watched.await.unwrap_err();
        assert_eq!(failure.kind(), "401");
        let asked = imitation.all_requests();
        assert_eq!(asked.len(), 1);
        assert_eq!(
            asked[0].authorization.as_deref(),
            Some("Basic b3BlbmNvZGU6Y2FuYXJ5LTc=")
        );
        let shown = format!("{server:?}{failure}{failure:?}{told}");
        assert!(!shown.contains("canary-7") && !shown.contains("b3BlbmNvZGU"));
    });
}

#[test]
fn questions_are_answered_and_rejected_by_their_id() {
    block_on(async {
        let imitation = Imitation::start(vec![]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        server
            .answer("que_1", &[vec!["oak".into()], vec!["owl".into()]])
            .await
            .unwrap();
        server.reject("que_2").await.unwrap();
        let asked = imitation.changing_requests();
        assert_eq!(asked[0].line, "POST /question/que_1/reply");
        assert_eq!(asked[0].body, r#"{"answers":[["oak"],["owl"]]}"#);
        assert_eq!(asked[1].line, "POST /question/que_2/reject");
        let bad = server.reject("../session").await.unwrap_err();
        assert_eq!(bad.kind(), "request", "an id is no path");
    });
}

#[test]
fn addresses_that_cannot_be_spoken_to_are_refused() {
    for url in [
        "",
        "localhost:1",
        "https://a",
        "ftp://a",
        "http://",
        "http://me:pw@a",
        "http://a/?b",
    ] {
        assert_eq!(
            Server::new(url, ServerApi::Classic).unwrap_err().kind(),
            "url",
            "{url}"
        );
    }
}

#[test]
fn an_event_that_cannot_be_read_is_told_whichever_session_is_watched() {
    use ttsr_wire::opencode::OpenCodeReader;
    for only in [None, Some("s")] {
        let watching = SessionWatcher::new(pack(), ServerApi::Classic);
        let mut watching = match only {
            Some(only) => watching.only(only),
            None => watching,
        };
        let (mut feed, mut seen) = (OpenCodeReader::default(), Vec::new());
        let body = b"data: {\"type\":\"message.part.updated\",\"properties\":\n\ndata: {\"type\":\"server.heartbeat\"}\n\n";
        for byte in body.chunks(1) {
            feed.push(byte, &mut |session, notice| {
                watching.notice(session, notice, &mut seen)
            });
        }
        assert_eq!(seen, [WatchEvent::Malformed { bytes: 44 }]);
        assert_eq!(feed.malformed_events(), 1);
    }
}

/// The notices of a reply whose text breaks a rule at its last byte.
fn reply_in(session: &str) -> [(String, ServerNotice); 3] {
    let part = ttsr::PartId(0);
    let start = Event::PartStart {
        part,
        name: "p".into(),
        channel: Channel::Text,
        tool: None,
        call: None,
    };
    let delta = Event::Delta {
        part,
        bytes: b"x.unwrap()".to_vec(),
    };
    [
        ServerNotice::Message("msg_1".into()),
        ServerNotice::Event(start),
        ServerNotice::Event(delta),
    ]
    .map(|notice| (session.to_owned(), notice))
}

#[test]
fn of_too_many_sessions_the_quietest_is_forgotten() {
    for (others, is_known) in [(1023, true), (1024, false)] {
        let mut watching = SessionWatcher::new(pack(), ServerApi::Classic);
        let mut seen = Vec::new();
        let [message, start, delta] = reply_in("ses_a");
        for (session, notice) in [message, start] {
            watching.notice(&session, notice, &mut seen);
        }
        for number in 0..others {
            watching.notice(&format!("ses_{number}"), ServerNotice::Joined, &mut seen);
        }
        watching.notice(&delta.0, delta.1, &mut seen);
        assert_eq!(acts(&seen).len(), usize::from(is_known), "{others}");
    }
}

#[test]
fn a_question_of_the_model_is_reported() {
    let mut watching = SessionWatcher::new(pack(), ServerApi::Classic);
    let mut seen = Vec::new();
    let asked = ServerNotice::Question {
        id: "que_1".into(),
        questions: b"[]".to_vec(),
    };
    watching.notice("ses_1", asked, &mut seen);
    let expected = WatchEvent::Question {
        session: "ses_1".into(),
        question: "que_1".into(),
    };
    assert_eq!(seen, [expected]);
}

#[test]
fn a_reply_that_begins_anew_is_read_from_its_start() {
    let mut watching = SessionWatcher::new(pack(), ServerApi::Classic);
    let mut seen = Vec::new();
    let piece = |bytes: &[u8]| {
        let (part, bytes) = (ttsr::PartId(0), bytes.to_vec());
        ServerNotice::Event(Event::Delta { part, bytes })
    };
    let [(session, message), (_, start), _] = reply_in("ses_1");
    for notice in [message, start.clone(), piece(b"x.unw")] {
        watching.notice(&session, notice, &mut seen);
    }
    watching.notice(&session, ServerNotice::Event(Event::Restart), &mut seen);
    for notice in [start, piece(b"rap()")] {
        watching.notice(&session, notice, &mut seen);
    }
    assert_eq!(acts(&seen).len(), 0, "the pieces are of two replies");
    watching.notice(&session, piece(b" x.unwrap()"), &mut seen);
    assert_eq!(acts(&seen).len(), 1);
}

#[test]
fn a_tool_that_is_named_after_its_input_began_is_known_to_rules() {
    let rules = "schema = 1\n[pack]\nname = 't'\ngrants = ['abort']\n[rule.r]\ndescription = 'd'\naction = 'abort'\n\
        on = ['tool-input']\ntools = ['bash']\nmatch.any = [{ literal = 'rm' }]\n";
    for (tool, hits) in [("bash", 1), ("read", 0)] {
        let pack = ttsr::Pack::from_toml(rules).unwrap();
        let mut watching = SessionWatcher::new(pack, ServerApi::Next);
        let mut seen = Vec::new();
        let part = ttsr::PartId(0);
        for event in [
            Event::PartStart {
                part,
                name: "p".into(),
                channel: Channel::ToolInput,
                tool: None,
                call: None,
            },
            Event::Delta {
                part,
                bytes: br#"{"command":"rm"}"#.to_vec(),
            },
            Event::Tool {
                part,
                tool: tool.into(),
                call: Some("call_1".into()),
            },
            Event::PartEnd { part },
        ] {
            if seen.is_empty() {
                watching.notice("ses_1", ServerNotice::Message("msg_1".into()), &mut seen);
            }
            watching.notice("ses_1", ServerNotice::Event(event), &mut seen);
        }
        let decided = seen
            .iter()
            .filter(|seen| matches!(seen, WatchEvent::Decision(_)));
        assert_eq!(decided.count(), hits, "{tool}");
    }
}
