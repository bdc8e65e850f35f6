//! The acts of a watcher on a server: late verdicts, the user's own aborts, sub-agents, injections, restarts, other
//! watchers, other models, and handoffs.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use ttsr::Pack;
use ttsr::harness::Cancel;
use ttsr::harness::fallback::{Chains, ForegroundFallback};
use ttsr_agent::opencode::{
    ActionJournal, ServerAction, ServerApi, SessionWatcher, WatchEvent, WatchOptions, watch,
};

use super::watch::{acts, at_once, see};
use super::{block_on, pack, server};
use ttsr_testing::Folder;
use ttsr_testing::opencode::{Imitation, Play, event};

/// Wraps an event as `/global/event` sends it for a session of another directory.
fn elsewhere(kind: &str, properties: Value) -> Play {
    let payload = json!({ "type": kind, "properties": properties });
    let wrapped = json!({ "directory": "/elsewhere", "project": "global", "payload": payload });
    Play::Send(wrapped.to_string())
}

fn user(session: &str, message: &str) -> Play {
    let info = json!({ "id": message, "role": "user", "sessionID": session, "agent": "build",
        "model": { "providerID": "oak", "modelID": "owl-1" } });
    event(
        "message.updated",
        json!({ "sessionID": session, "info": info }),
    )
}

/// Writes a file into `folder`, and returns the part and the events of a prompt of `ses_1` in that folder.
fn continuation_prompt(folder: &Folder, text: &str) -> (Value, Vec<Play>) {
    std::fs::write(folder.0.join("a.txt"), "one\ntwo\n").unwrap();
    let info = json!({ "id": "ses_1", "directory": folder.0.to_str().unwrap() });
    let part = json!({ "id": "prt_1", "messageID": "msg_u1", "type": "text", "text": text });
    let plays = vec![
        event(
            "session.created",
            json!({ "sessionID": "ses_1", "info": info }),
        ),
        user("ses_1", "msg_u1"),
        event(
            "message.part.updated",
            json!({ "sessionID": "ses_1", "part": part }),
        ),
    ];
    (part, plays)
}

/// A complete part.
fn part(session: &str, message: &str, id: &str, kind: &str, text: &str) -> Play {
    let part = json!({ "id": id, "messageID": message, "sessionID": session, "type": kind, "text": text,
        "time": { "start": 1, "end": 2 } });
    event(
        "message.part.updated",
        json!({ "sessionID": session, "part": part }),
    )
}

/// A call of `write` whose input matches a rule.
fn tool(status: &str) -> Play {
    let input = match status {
        "pending" => json!({}),
        _ => json!({ "content": "x.unwrap()" }),
    };
    let part = json!({ "id": "prt_t", "messageID": "msg_a1", "sessionID": "ses_1", "type": "tool",
        "tool": "write", "callID": "call_1", "state": { "status": status, "input": input } });
    event(
        "message.part.updated",
        json!({ "sessionID": "ses_1", "part": part }),
    )
}

fn aborted(session: &str) -> Play {
    let error = json!({ "name": "MessageAbortedError", "data": { "message": "Aborted" } });
    event(
        "session.error",
        json!({ "sessionID": session, "error": error }),
    )
}

fn idle(session: &str) -> Play {
    event("session.idle", json!({ "sessionID": session }))
}

fn finish(session: &str, message: &str, reason: &str) -> Play {
    let info = json!({ "id": message, "role": "assistant", "finish": reason });
    event(
        "message.updated",
        json!({ "sessionID": session, "info": info }),
    )
}

const BAD: &str = "x.unwrap()";
const HINT: &str = "an owl";

fn is_over(seen: &[WatchEvent]) -> bool {
    let is_end = |seen: &WatchEvent| {
        matches!(
            seen,
            WatchEvent::Done(_) | WatchEvent::Failed { .. } | WatchEvent::Yielded { .. }
        )
    };
    seen.iter().any(is_end)
}

async fn watched(imitation: &Imitation) -> Vec<WatchEvent> {
    let server = server(&imitation.url, ServerApi::Classic);
    see(
        &server,
        SessionWatcher::new(pack(), ServerApi::Classic),
        is_over,
    )
    .await
}

fn whats(imitation: &Imitation) -> Vec<String> {
    imitation.request_lines()
}

/// Returns the text of the last prompt that was sent.
fn said(imitation: &Imitation) -> String {
    let asked = imitation.changing_requests();
    let prompt = asked
        .iter()
        .rfind(|asked| asked.line.ends_with("/prompt_async"));
    let body: Value = serde_json::from_str(&prompt.expect("a prompt was sent").body).unwrap();
    body["parts"][0]["text"].as_str().unwrap().to_owned()
}

const STOP: &str = "POST /session/ses_1/abort";
const DELETE: &str = "DELETE /session/ses_1/message/msg_a1";
const PROMPT: &str = "POST /session/ses_1/prompt_async";

#[test]
fn a_session_of_another_directory_is_watched() {
    block_on(async {
        let text = json!({ "id": "p", "messageID": "msg_a1", "sessionID": "ses_1", "type": "text", "text": BAD });
        let plays = vec![
            Play::Send(r#"{"payload":{"type":"server.connected","properties":{}}}"#.into()),
            elsewhere(
                "message.part.updated",
                json!({ "sessionID": "ses_1", "part": text }),
            ),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        watched(&imitation).await;
        assert_eq!(whats(&imitation), [STOP, DELETE, PROMPT]);
        assert_eq!(imitation.all_requests()[0].line, "GET /global/event");
    });
}

#[test]
fn what_global_events_repeat_is_read_once() {
    block_on(async {
        let text = json!({ "id": "p", "messageID": "msg_a1", "sessionID": "ses_1", "type": "text", "text": HINT });
        let data = json!({ "sessionID": "ses_1", "part": text });
        let sync = json!({ "type": "sync", "syncEvent": { "type": "message.part.updated.1", "data": data } });
        let plays = vec![
            elsewhere("message.part.updated", data.clone()),
            Play::Send(json!({ "directory": "/elsewhere", "payload": sync }).to_string()),
            finish("ses_1", "msg_a1", "stop"),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let is_finish =
            |seen: &[WatchEvent]| matches!(seen.last(), Some(WatchEvent::Finish { .. }));
        let seen = see(
            &server,
            SessionWatcher::new(pack(), ServerApi::Classic),
            is_finish,
        )
        .await;
        let Some(WatchEvent::Finish { unscanned, .. }) = seen.last() else {
            panic!("{seen:?}")
        };
        assert_eq!(*unscanned, 0);
    });
}

#[test]
fn a_server_without_global_events_is_heard_through_its_own() {
    block_on(async {
        let imitation =
            Imitation::start(vec![vec![part("ses_1", "msg_a1", "p", "text", BAD)]]).await;
        imitation.answer(
            "/global/event",
            "404 Not Found\r\ncontent-length: 0\r\n\r\n",
        );
        watched(&imitation).await;
        assert_eq!(imitation.all_requests()[1].line, "GET /event");
        assert_eq!(whats(&imitation), [STOP, DELETE, PROMPT]);
    });
}

/// The record that a command ran is never deleted, and the model is told the result of the command.
#[test]
fn a_late_verdict_keeps_the_message_and_says_what_happened() {
    let call = |state: Value| {
        let part = json!({ "type": "tool", "tool": "write", "callID": "call_1", "state": state });
        json!({ "info": { "id": "msg_a1", "role": "assistant" }, "parts": [part] }).to_string()
    };
    let input = json!({ "content": BAD });
    for (state, fate) in [
        (
            json!({ "status": "completed", "input": input, "output": "Wrote 10 bytes" }),
            "- `write` {\"content\":\"x.unwrap()\"} ran to its end; its output is in the conversation.",
        ),
        (
            json!({ "status": "completed", "input": input, "output": "half\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>" }),
            "was interrupted while it ran; it may have done a part of its work.",
        ),
        (
            json!({ "status": "error", "input": input, "error": "Tool execution aborted" }),
            "was interrupted; it may have done a part of its work.",
        ),
        (
            json!({ "status": "error", "input": input, "error": "no such folder" }),
            "failed: no such folder.",
        ),
    ] {
        block_on(async {
            let plays = vec![tool("pending"), tool("running"), tool("completed")];
            let imitation = Imitation::start(vec![plays]).await;
            imitation.answer_json("/message/msg_a1", &call(state));
            let seen = watched(&imitation).await;
            assert_eq!(whats(&imitation), [STOP, PROMPT], "nothing is deleted");
            let said = said(&imitation);
            assert!(
                said.starts_with(
                    "t/no-unwrap: Use `?`.\n\nThe reply was stopped after a tool call had begun."
                ),
                "{said}"
            );
            assert!(said.ends_with(fate), "{said}");
            let is_late =
                |seen: &WatchEvent| matches!(seen, WatchEvent::Decision(judged) if judged.is_late);
            assert!(seen.iter().any(is_late));
        });
    }
}

#[test]
fn a_tool_that_still_runs_is_waited_for_before_it_is_told_of() {
    block_on(async {
        let call = |status: &str| {
            let part = json!({ "type": "tool", "tool": "write", "state": { "status": status } });
            json!({ "info": { "id": "msg_a1" }, "parts": [part] }).to_string()
        };
        let imitation = Imitation::start(vec![vec![tool("pending"), tool("running")]]).await;
        imitation.answer_json("/message/msg_a1", &call("running"));
        imitation.answer_json("/message/msg_a1", &call("completed"));
        watched(&imitation).await;
        assert!(said(&imitation).contains("`write` ran to its end"));
    });
}

/// Text that matches a rule, in a message whose tool ran: the message is the record of the tool.
#[test]
fn a_message_with_a_tool_that_ran_is_kept_whatever_broke_the_rule() {
    block_on(async {
        let input = json!({ "command": "ls" });
        let ran = json!({ "id": "prt_t", "messageID": "msg_a1", "type": "tool", "tool": "bash", "callID": "call_1",
            "state": { "status": "completed", "input": input } });
        let plays = vec![
            event(
                "message.part.updated",
                json!({ "sessionID": "ses_1", "part": ran }),
            ),
            part("ses_1", "msg_a1", "p", "text", BAD),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        watched(&imitation).await;
        assert_eq!(whats(&imitation), [STOP, PROMPT]);
        assert!(said(&imitation).contains("the conversation contains what is known of it"));
    });
}

#[test]
fn a_call_that_waits_for_a_permission_is_stopped_in_time() {
    block_on(async {
        let asked = json!({ "id": "per_1", "sessionID": "ses_1", "permission": "edit",
            "tool": { "messageID": "msg_a1", "callID": "call_1" } });
        let plays = vec![
            tool("pending"),
            event("permission.asked", asked),
            tool("running"),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let seen = watched(&imitation).await;
        let judged = seen.iter().find_map(|seen| match seen {
            WatchEvent::Decision(judged) => Some(judged),
            _ => None,
        });
        assert!(!judged.unwrap().is_late, "nothing ran");
        let reject = "POST /permission/per_1/reply";
        assert_eq!(
            whats(&imitation),
            [STOP, reject, DELETE, PROMPT],
            "no dialog stays open"
        );
        assert_eq!(
            imitation.changing_requests()[1].body,
            r#"{"reply":"reject"}"#
        );
    });
}

#[test]
fn a_call_whose_permission_was_given_is_late() {
    block_on(async {
        let asked = json!({ "id": "per_1", "sessionID": "ses_1", "tool": { "callID": "call_1" } });
        let given = json!({ "sessionID": "ses_1", "requestID": "per_1", "reply": "once" });
        let plays = vec![
            tool("pending"),
            event("permission.asked", asked),
            event("permission.replied", given),
            tool("running"),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        watched(&imitation).await;
        assert_eq!(whats(&imitation), [STOP, PROMPT]);
    });
}

#[test]
fn a_users_own_abort_before_the_stop_wins() {
    block_on(async {
        let plays = vec![
            part("ses_1", "msg_a1", "p", "text", BAD),
            aborted("ses_1"),
            idle("ses_1"),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let mut watching = SessionWatcher::new(pack(), ServerApi::Classic);
        let cancel = Cancel::default();
        let mut seen = Vec::new();
        let report = |one: &WatchEvent| {
            seen.push(one.clone());
            if is_over(&seen) {
                cancel.cancel();
            }
        };
        // The events arrive within the grace.
        let options = WatchOptions {
            grace: Duration::from_millis(100),
            ..at_once()
        };
        watch(&server, &mut watching, options, cancel.clone(), report)
            .await
            .unwrap();
        assert!(
            matches!(seen.last(), Some(WatchEvent::Yielded { .. })),
            "{seen:?}"
        );
        assert_eq!(whats(&imitation), [] as [&str; 0]);
    });
}

/// After one abort a session sends two idle events; a third one comes from another abort.
#[test]
fn a_users_own_abort_after_the_stop_wins() {
    for (idles, expected) in [(2, vec![STOP, DELETE, PROMPT]), (3, vec![STOP, DELETE])] {
        block_on(async {
            let mut plays = vec![
                part("ses_1", "msg_a1", "p", "text", BAD),
                Play::Await("/abort"),
            ];
            plays.push(aborted("ses_1"));
            plays.extend((0..idles).map(|_| idle("ses_1")));
            let imitation = Imitation::start(vec![plays]).await;
            watched(&imitation).await;
            let asked = whats(&imitation);
            // The third event may come before the deletion, which is then skipped too.
            let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
            assert!(
                asked == expected || (idles == 3 && asked == [STOP]),
                "{asked:?}"
            );
        });
    }
}

fn created(session: &str, parent: &str) -> Play {
    let info = json!({ "id": session, "parentID": parent, "directory": "/elsewhere" });
    event(
        "session.created",
        json!({ "sessionID": session, "info": info }),
    )
}

#[test]
fn a_stopped_sub_agent_is_not_prompted_but_its_parent_is() {
    block_on(async {
        let plays = vec![
            user("ses_1", "msg_u1"),
            created("ses_2", "ses_1"),
            part("ses_2", "msg_c1", "p", "text", BAD),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        watched(&imitation).await;
        assert_eq!(
            whats(&imitation),
            [
                PROMPT,
                "POST /session/ses_2/abort",
                "DELETE /session/ses_2/message/msg_c1"
            ],
            "the parent is told before its next request"
        );
        let said = said(&imitation);
        assert!(
            said.ends_with("in the session ses_2 was stopped: t/no-unwrap: Use `?`."),
            "{said}"
        );
        let body: Value = serde_json::from_str(&imitation.changing_requests()[0].body).unwrap();
        assert_eq!(body["model"]["modelID"], "owl-1", "the parent's own");
    });
}

#[test]
fn the_parent_of_a_session_that_is_older_than_the_connection_is_asked_for() {
    block_on(async {
        let begins = json!({ "id": "p", "messageID": "msg_c1", "type": "text", "text": "" });
        let plays = vec![
            event(
                "message.part.updated",
                json!({ "sessionID": "ses_2", "part": begins }),
            ),
            Play::Await("/tui/execute-command"),
            part("ses_2", "msg_c1", "p", "text", BAD),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        imitation.answer_json("GET /session/ses_2", r#"{"id":"ses_2","parentID":"ses_1"}"#);
        let server = server(&imitation.url, ServerApi::Classic);
        let other = server.clone();
        let asks_later = async {
            let is_asked = || {
                let mut asked = imitation.all_requests().into_iter();
                asked.any(|asked| asked.line == "GET /session/ses_2")
            };
            while !is_asked() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // The answer arrives meanwhile.
            tokio::time::sleep(Duration::from_millis(500)).await;
            other.tui_command("none", None).await.unwrap();
        };
        let watching = SessionWatcher::new(pack(), ServerApi::Classic);
        tokio::join!(see(&server, watching, is_over), asks_later);
        assert!(
            whats(&imitation).contains(&PROMPT.to_owned()),
            "{:?}",
            whats(&imitation)
        );
        assert!(
            !whats(&imitation)
                .iter()
                .any(|what| what.ends_with("ses_2/prompt_async"))
        );
    });
}

/// A message that arrives during the last reply of a turn makes the server ask the model again.
#[test]
fn an_injection_waits_for_the_end_of_the_turn() {
    block_on(async {
        let plays = vec![
            part("ses_1", "msg_a1", "p", "reasoning", HINT),
            finish("ses_1", "msg_a1", "stop"),
            idle("ses_1"),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let seen = watched(&imitation).await;
        let place = |is: fn(&WatchEvent) -> bool| seen.iter().position(is).unwrap();
        let finished = place(|seen| matches!(seen, WatchEvent::Finish { .. }));
        assert!(finished < place(|seen| matches!(seen, WatchEvent::Started(_))));
        assert_eq!(whats(&imitation), [PROMPT]);
        assert!(
            imitation.changing_requests()[0]
                .body
                .contains(r#""noReply":true"#)
        );
    });
}

#[test]
fn an_injection_is_said_at_once_where_a_tool_call_makes_another_request_certain() {
    block_on(async {
        let call = json!({ "id": "prt_t", "messageID": "msg_a1", "type": "tool", "tool": "bash", "callID": "c",
            "state": { "status": "pending", "input": {} } });
        let call = event(
            "message.part.updated",
            json!({ "sessionID": "ses_1", "part": call }),
        );
        let hint = part("ses_1", "msg_a1", "p", "reasoning", HINT);
        for plays in [vec![hint.clone(), call.clone()], vec![call, hint]] {
            let imitation = Imitation::start(vec![plays]).await;
            let seen = watched(&imitation).await;
            assert!(
                !seen
                    .iter()
                    .any(|seen| matches!(seen, WatchEvent::Finish { .. }))
            );
            assert_eq!(whats(&imitation), [PROMPT]);
        }
    });
}

#[test]
fn an_injection_of_the_second_interface_does_not_wake_an_idle_session() {
    block_on(async {
        let data = |kind: &str, data: Value| {
            Play::Send(json!({ "type": format!("session.next.{kind}"), "data": data }).to_string())
        };
        let base = json!({ "sessionID": "ses_1", "assistantMessageID": "msg_a1" });
        let with = |more: Value| {
            let mut all = base.clone();
            let more = more.as_object().unwrap().clone();
            all.as_object_mut().unwrap().extend(more);
            all
        };
        let plays = vec![
            data("reasoning.started", with(json!({ "reasoningID": "r" }))),
            data(
                "reasoning.delta",
                with(json!({ "reasoningID": "r", "delta": HINT })),
            ),
            data("step.ended", with(json!({ "finish": "stop" }))),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let server = server(&imitation.url, ServerApi::Next);
        see(
            &server,
            SessionWatcher::new(pack(), ServerApi::Next),
            is_over,
        )
        .await;
        let body: Value = serde_json::from_str(&imitation.changing_requests()[0].body).unwrap();
        assert_eq!(
            (&body["delivery"], &body["resume"]),
            (&json!("steer"), &json!(false))
        );
    });
}

#[test]
fn offsets_of_a_part_that_was_joined_midway_are_marked() {
    let delta = |text: &str| {
        event(
            "message.part.delta",
            json!({ "sessionID": "ses_1", "messageID": "msg_a1", "partID": "p",
            "field": "text", "delta": text }),
        )
    };
    let opened = json!({ "id": "p", "messageID": "msg_a1", "type": "text", "text": "" });
    let opened = event(
        "message.part.updated",
        json!({ "sessionID": "ses_1", "part": opened }),
    );
    let next = |kind: &str, more: Value| {
        let mut data =
            json!({ "sessionID": "ses_1", "assistantMessageID": "msg_a1", "textID": "t" });
        data.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Play::Send(json!({ "type": format!("session.next.{kind}"), "data": data }).to_string())
    };
    for (api, plays, is_midway) in [
        (ServerApi::Classic, vec![delta(BAD)], true),
        (ServerApi::Classic, vec![opened, delta(BAD)], false),
        (
            ServerApi::Next,
            vec![next("text.delta", json!({ "delta": BAD }))],
            true,
        ),
        (
            ServerApi::Next,
            vec![
                next("text.started", json!({})),
                next("text.delta", json!({ "delta": BAD })),
            ],
            false,
        ),
    ] {
        block_on(async {
            let imitation = Imitation::start(vec![plays]).await;
            let server = server(&imitation.url, api);
            let seen = see(&server, SessionWatcher::new(pack(), api), is_over).await;
            let judged = seen.iter().find_map(|seen| match seen {
                WatchEvent::Decision(judged) => Some(judged),
                _ => None,
            });
            let judged = judged.unwrap();
            assert_eq!(
                (judged.is_midway, judged.decision.end),
                (is_midway, Some(10))
            );
        });
    }
}

/// Watches with a journal until `is_enough`, then drops the acts in progress, as a process that ends there does.
async fn run_until(
    imitation: &Imitation,
    journal: &Path,
    grace: Duration,
    is_enough: impl Fn(&WatchEvent) -> bool,
) -> Vec<WatchEvent> {
    let server = server(&imitation.url, ServerApi::Classic);
    let cancel = Cancel::default();
    let mut seen = Vec::new();
    let report = |one: &WatchEvent| {
        seen.push(one.clone());
        if is_enough(one) {
            cancel.cancel();
        }
    };
    let options = WatchOptions {
        grace,
        journal: Some(ActionJournal::open(journal).unwrap()),
        ..at_once()
    };
    let mut watching = SessionWatcher::new(pack(), ServerApi::Classic);
    let watched = watch(&server, &mut watching, options, cancel.clone(), report);
    let ended = tokio::time::timeout(Duration::from_secs(30), watched).await;
    ended.expect("it is seen in time").unwrap();
    seen
}

fn is_end(seen: &WatchEvent) -> bool {
    is_over(std::slice::from_ref(seen))
}

/// The session as a restarted watcher finds it.
fn found(messages: Value) -> String {
    messages.to_string()
}

const STEER: &str = "t/no-unwrap: Use `?`.";

#[test]
fn an_act_is_taken_up_again_after_a_restart() {
    let answer = |error: Value| json!({ "info": { "id": "msg_a1", "role": "assistant", "error": error }, "parts": [] });
    let asked = |id: &str, text: &str| json!({ "info": { "id": id, "role": "user" }, "parts": [{ "type": "text", "text": text }] });
    let stopped = json!({ "name": "MessageAbortedError" });
    let all = vec![STOP, DELETE, PROMPT];
    for (is_stopping, messages, expected) in [
        // The process ended before the first request.
        (
            false,
            json!([asked("msg_u1", "Go."), answer(Value::Null)]),
            all.clone(),
        ),
        (
            false,
            json!([asked("msg_u1", "Go."), answer(stopped.clone())]),
            vec![],
        ),
        (false, json!([asked("msg_u1", "Go.")]), vec![]),
        (
            false,
            json!([answer(Value::Null), asked("msg_u2", "No, otherwise.")]),
            vec![],
        ),
        // The process ended after the stop was sent.
        (
            true,
            json!([asked("msg_u1", "Go."), answer(stopped)]),
            all.clone(),
        ),
        (true, json!([asked("msg_u1", "Go.")]), all),
        (true, json!([asked("msg_u2", STEER)]), vec![]),
    ] {
        block_on(async {
            let folder = Folder::outside();
            let journal = folder.0.join("state/acts.json");
            let mut plays = vec![part("ses_1", "msg_a1", "p", "text", BAD)];
            if is_stopping {
                plays.extend([
                    Play::Await("/abort"),
                    part("ses_9", "msg_9", "q", "text", "hm"),
                ]);
            }
            let first = Imitation::start(vec![plays]).await;
            for _ in 0..8 {
                first.answer(
                    "/message/msg_a1",
                    "409 Conflict\r\ncontent-length: 4\r\n\r\nbusy",
                );
            }
            let grace = Duration::from_secs(if is_stopping { 0 } else { 30 });
            run_until(&first, &journal, grace, |seen| match seen {
                WatchEvent::Started(_) => !is_stopping,
                WatchEvent::Message { session, .. } => session == "ses_9",
                _ => false,
            })
            .await;
            assert_eq!(
                first.request_lines().contains(&STOP.to_owned()),
                is_stopping
            );

            let second = Imitation::start(vec![]).await;
            second.answer_json("/session/ses_1/message?limit=20", &found(messages));
            let seen = run_until(&second, &journal, Duration::ZERO, is_end).await;
            assert!(
                seen.iter()
                    .any(|seen| matches!(seen, WatchEvent::Resumed(_))),
                "{seen:?}"
            );
            assert_eq!(second.request_lines(), expected);

            let third = Imitation::start(vec![vec![idle("ses_1"), Play::Break]]).await;
            let is_heard = |seen: &WatchEvent| matches!(seen, WatchEvent::Disconnected { .. });
            let seen = run_until(&third, &journal, Duration::ZERO, is_heard).await;
            assert!(
                !seen
                    .iter()
                    .any(|seen| matches!(seen, WatchEvent::Resumed(_))),
                "once"
            );
        });
    }
}

#[test]
fn a_journal_that_cannot_be_read_is_replaced_and_an_old_act_is_dropped() {
    block_on(async {
        let folder = Folder::outside();
        let journal = folder.0.join("acts.json");
        let entry = |at: u64| {
            json!({ "version": 1, "acts": [{ "id": 7, "at": at, "session": "ses_1", "message": "msg_a1",
                "delete": true, "to": "ses_1", "steer": { "text": STEER, "agent": null, "model": null },
                "has_run": false, "permission": null, "stage": "begun" }] })
            .to_string()
        };
        let huge = " ".repeat(ActionJournal::MAX_BYTES as usize + 1);
        for (written, is_resumed) in [("{", false), (huge.as_str(), false), (&entry(0), true)] {
            std::fs::write(&journal, written).unwrap();
            let imitation =
                Imitation::start(vec![vec![part("ses_1", "msg_b", "p", "text", BAD)]]).await;
            let is_done = |seen: &WatchEvent| matches!(seen, WatchEvent::Done(_));
            let seen = run_until(&imitation, &journal, Duration::ZERO, is_done).await;
            let resumed = seen
                .iter()
                .filter(|seen| matches!(seen, WatchEvent::Resumed(_)));
            assert_eq!(resumed.count() > 0, is_resumed);
            let yielded = seen.iter().any(
                |seen| matches!(seen, WatchEvent::Yielded { why, .. } if why == "it is older than an hour"),
            );
            assert_eq!(yielded, is_resumed);
            let left = std::fs::read_to_string(&journal).unwrap();
            assert_eq!(left, r#"{"version":1,"acts":[]}"#);
        }
    });
}

/// An act of an earlier process, which this one does not complete, because of what the session shows.
#[test]
fn an_act_of_an_earlier_process_yields_to_what_has_happened_since() {
    const RECENT: &str = "/session/ses_1/message?limit=20";
    const MARKED: &str = "Continuing work from session ses_0. When you lack specific information you can use read_session to get it.\n\nGo on.";
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap().as_secs();
    let said = |id: &str, text: &str| json!({ "info": { "id": id, "role": "user" }, "parts": [{ "type": "text", "text": text }] });
    let replied = |part: Value, completed: Value| json!({ "info": { "id": "msg_a1", "role": "assistant", "time": { "completed": completed } }, "parts": [part] });
    let ran = || json!({ "type": "tool", "tool": "bash", "state": { "status": "completed" } });
    let text = || json!({ "type": "text", "text": "Done." });
    let files = |at: u64, prompt: Value| json!({ "version": 1, "acts": [], "continuations": [{ "id": 7, "at": at, "session": "ses_1", "prompt": prompt }] });
    let recorded = |body: Value| json!({ "message": "msg_u1", "body": body });
    let body = || json!({ "parts": [{ "type": "text", "text": MARKED }] });
    let stop = json!({ "version": 1, "acts": [{ "id": 7, "at": now, "session": "ses_1", "message": "msg_a1",
        "delete": true, "to": "ses_1", "steer": { "text": STEER, "agent": null, "model": null },
        "has_run": false, "permission": null, "stage": "begun" }] });
    let list = |messages: Value| {
        let json = messages.to_string();
        let head = "200 OK\r\ncontent-type: application/json\r\ncontent-length";
        format!("{head}: {}\r\n\r\n{json}", json.len())
    };
    let gone = || "404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned();
    let broken = || "500 Internal Server Error\r\ncontent-length: 0\r\n\r\n".to_owned();
    let (was_deleted, went_on, is_old) = (
        "the session was deleted",
        "the user went on",
        "it is older than an hour",
    );
    let first = said("msg_u1", MARKED);
    for (number, (journal, answer, expected)) in [
        (stop.clone(), gone(), was_deleted),
        (stop, broken(), "500"),
        // The prompt was not touched yet.
        (files(0, Value::Null), list(json!([first])), is_old),
        (
            files(now, Value::Null),
            list(json!([first, replied(text(), json!(5))])),
            "the model has answered",
        ),
        (
            files(now, Value::Null),
            list(json!([said("msg_u2", "No.")])),
            went_on,
        ),
        (files(now, Value::Null), gone(), was_deleted),
        (files(now, Value::Null), broken(), "500"),
        // The prompt is deleted, or is about to be.
        (files(now, recorded(body())), gone(), was_deleted),
        (files(now, recorded(body())), broken(), "500"),
        (files(now, recorded(body())), list(json!({})), "no list"),
        (
            files(now, recorded(Value::Null)),
            list(json!([])),
            "the prompt was deleted",
        ),
        (
            files(now, recorded(body())),
            list(json!([first, said("msg_u2", "No.")])),
            went_on,
        ),
        (
            files(0, recorded(body())),
            list(json!([first, replied(ran(), Value::Null)])),
            is_old,
        ),
        (
            files(0, recorded(Value::Null)),
            list(json!([first])),
            is_old,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        block_on(async {
            let folder = Folder::outside();
            let path = folder.0.join("acts.json");
            std::fs::write(&path, journal.to_string()).unwrap();
            let imitation = Imitation::start(vec![]).await;
            for _ in 0..2 {
                imitation.answer(RECENT, answer.clone());
            }
            let seen = run_until(&imitation, &path, Duration::ZERO, is_end).await;
            let why = seen.iter().find_map(|seen| match seen {
                WatchEvent::Yielded { why, .. } | WatchEvent::Failed { why, .. } => Some(why),
                _ => None,
            });
            let why = why.map_or("it was done", String::as_str);
            assert!(why.contains(expected), "{number}: {why}, not {expected}");
            assert_eq!(whats(&imitation), [] as [&str; 0], "{number}");
        });
    }
}

/// Nobody waits for a reply to a prompt that is an hour old.
#[test]
fn an_old_prompt_that_was_deleted_is_restored_and_the_model_is_not_asked() {
    block_on(async {
        let folder = Folder::outside();
        let path = folder.0.join("acts.json");
        let body = json!({ "parts": [{ "type": "text", "text": "Go on." }] });
        let entry = json!({ "id": 7, "at": 0, "session": "ses_1", "prompt": { "message": "msg_u1", "body": body } });
        let journal = json!({ "version": 1, "acts": [], "continuations": [entry] });
        std::fs::write(&path, journal.to_string()).unwrap();
        let imitation = Imitation::start(vec![]).await;
        imitation.answer_json("/session/ses_1/message?limit=20", "[]");
        run_until(&imitation, &path, Duration::ZERO, is_end).await;
        assert_eq!(whats(&imitation), [PROMPT]);
        let sent: Value = serde_json::from_str(&imitation.changing_requests()[0].body).unwrap();
        assert_eq!(
            (&sent["noReply"], &sent["parts"]),
            (&json!(true), &body["parts"])
        );
    });
}

#[test]
fn a_journal_that_cannot_be_opened_names_its_path() {
    let folder = Folder::outside();
    std::fs::write(folder.0.join("file"), "").unwrap();
    std::fs::create_dir(folder.0.join("folder")).unwrap();
    // One path leads through a file, and the other one is a folder.
    for path in ["file/acts.json", "folder"] {
        let failure = ActionJournal::open(folder.0.join(path)).unwrap_err();
        assert_eq!(failure.kind(), "io", "{path}");
        assert!(failure.to_string().contains(path), "{failure}");
    }
}

/// With more continuations than the journal keeps, files are still added, and no prompt is deleted.
#[test]
fn a_full_journal_keeps_the_prompt_of_a_further_continuation() {
    block_on(async {
        let text = "Continuing work from session ses_0. When you lack specific information you can use read_session to get it.\n\n@a.txt\n\nGo on.";
        let folder = Folder::outside();
        let (part, plays) = continuation_prompt(&folder, text);
        let imitation = Imitation::start(vec![plays]).await;
        let prompt = json!([{ "info": { "id": "msg_u1", "role": "user" }, "parts": [part] }]);
        for _ in 0..2 {
            imitation.answer_json("/session/ses_1/message?limit=20", &prompt.to_string());
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap().as_secs();
        let entries: Vec<Value> = (0..ActionJournal::MAX_CONTINUATIONS)
            .map(|id| json!({ "id": id, "at": now, "session": format!("ses_{}", id + 10), "prompt": null }))
            .collect();
        let journal = folder.0.join("acts.json");
        let written = json!({ "version": 1, "acts": [], "continuations": entries });
        std::fs::write(&journal, written.to_string()).unwrap();
        let is_own_end =
            |seen: &WatchEvent| matches!(seen, WatchEvent::Done(act) if act.session() == "ses_1");
        run_until(&imitation, &journal, Duration::ZERO, is_own_end).await;
        let of_session = |line: &&String| line.contains("/ses_1/");
        let lines = whats(&imitation);
        let lines: Vec<_> = lines.iter().filter(of_session).collect();
        assert_eq!(lines, [STOP, PROMPT, PROMPT]);
    });
}

#[test]
fn a_journal_that_cannot_be_written_is_told_and_the_act_goes_on() {
    block_on(async {
        let folder = Folder::outside();
        // The journal is written to a file of this name first.
        std::fs::create_dir(folder.0.join("acts.json.new")).unwrap();
        let plays = vec![part("ses_1", "msg_a1", "p", "text", BAD)];
        let imitation = Imitation::start(vec![plays]).await;
        let journal = folder.0.join("acts.json");
        let seen = run_until(&imitation, &journal, Duration::ZERO, is_end).await;
        let is_told = |seen: &WatchEvent| matches!(seen, WatchEvent::NoJournal { why } if why.contains("cannot be written"));
        assert!(seen.iter().any(is_told), "{seen:?}");
        assert_eq!(whats(&imitation), [STOP, DELETE, PROMPT]);
    });
}

#[test]
fn a_journal_is_bounded() {
    block_on(async {
        let folder = Folder::outside();
        let journal = folder.0.join("acts.json");
        let most = ActionJournal::MAX_ACTIONS;
        let plays =
            (0..most + 9).map(|number| part(&format!("ses_{number}"), "msg_a1", "p", "text", BAD));
        let imitation = Imitation::start(vec![plays.collect()]).await;
        let last = format!("ses_{}", most + 8);
        let is_last =
            |seen: &WatchEvent| matches!(seen, WatchEvent::Started(act) if act.session() == last);
        run_until(&imitation, &journal, Duration::from_secs(30), is_last).await;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&journal).unwrap().permissions().mode();
            assert_eq!(
                mode & 0o777,
                0o600,
                "messages may quote what the model wrote"
            );
        }
        let written: Value = serde_json::from_slice(&std::fs::read(&journal).unwrap()).unwrap();
        let acts = written["acts"].as_array().unwrap();
        let sessions: Vec<&str> = acts
            .iter()
            .map(|act| act["session"].as_str().unwrap())
            .collect();
        assert_eq!(sessions.len(), most);
        assert_eq!(sessions[0], "ses_9", "the oldest are dropped");
        assert_eq!(sessions[most - 1], last, "recorded before it is reported");
    });
}

/// Returns the name of the watcher, from its announcement.
fn name(imitation: &Imitation) -> Option<String> {
    let asked = imitation
        .all_requests()
        .into_iter()
        .find(|asked| asked.is_announcement())?;
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(body["type"], "tui.command.execute");
    let command = body["properties"]["command"].as_str()?;
    Some(command.strip_prefix("ttsr.watch.hello.")?.to_owned())
}

fn command(command: &str) -> Play {
    event("tui.command.execute", json!({ "command": command }))
}

#[test]
fn a_watcher_answers_another_one() {
    block_on(async {
        let plays = vec![
            Play::Await("/tui/publish"),
            command("ttsr.watch.hello.zz"),
            Play::Await("/tui/publish"),
            part("ses_1", "msg_a1", "p", "text", BAD),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        watched(&imitation).await;
        let announced = imitation
            .all_requests()
            .into_iter()
            .filter(|asked| asked.is_announcement());
        let bodies: Vec<String> = announced.map(|asked| asked.body).collect();
        let here = format!("ttsr.watch.here.{}.zz", name(&imitation).unwrap());
        assert!(bodies[1].contains(&here), "{bodies:?}");
        assert_eq!(whats(&imitation), [STOP, DELETE, PROMPT], "it goes on");
    });
}

#[test]
fn a_second_watcher_on_the_same_server_refuses_to_act() {
    block_on(async {
        // The answer of the first watcher depends on the name of the second one, which the imitation reads.
        let imitation = Imitation::start(vec![vec![
            Play::Await("/tui/publish"),
            Play::Answer(|asked| {
                let body: Value = serde_json::from_str(&asked.body).unwrap();
                let command = body["properties"]["command"].as_str().unwrap();
                let name = command.strip_prefix("ttsr.watch.hello.").unwrap();
                json!({ "type": "tui.command.execute",
                    "properties": { "command": format!("ttsr.watch.here.first.{name}") } })
                .to_string()
            }),
            part("ses_1", "msg_a1", "p", "text", BAD),
        ]])
        .await;
        let server = server(&imitation.url, ServerApi::Classic);
        let mut watching = SessionWatcher::new(pack(), ServerApi::Classic);
        let options = WatchOptions {
            grace: Duration::from_secs(30),
            ..at_once()
        };
        let watched = watch(&server, &mut watching, options, Cancel::default(), |_| {});
        let failure = tokio::time::timeout(Duration::from_secs(30), watched)
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(failure.kind(), "taken");
        assert!(failure.message().contains("--dry-run"));
        assert_eq!(whats(&imitation), [] as [&str; 0]);
    });
}

#[test]
fn a_dry_run_neither_announces_itself_nor_minds_another_watcher() {
    block_on(async {
        let plays = vec![
            command("ttsr.watch.here.a.b"),
            part("ses_1", "msg_a1", "p", "text", BAD),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let is_judged = |seen: &[WatchEvent]| matches!(seen.last(), Some(WatchEvent::Decision(_)));
        see(
            &server,
            SessionWatcher::new(pack(), ServerApi::Classic).dry_run(),
            is_judged,
        )
        .await;
        assert_eq!(name(&imitation), None);
    });
}

fn foreground() -> ForegroundFallback {
    let rules = Pack::builtin("opencode/foreground-fallback").unwrap();
    let chains = Chains::default()
        .chain("build", ["oak/owl-1", "elm/owl-2"])
        .chain("explore", ["ash/owl-3"]);
    ForegroundFallback::new(&rules, chains)
}

/// Each of the four events aborts, selects the next model of the agent's chain, and repeats the prompt.
#[test]
fn a_refusal_on_a_server_is_followed_by_the_same_prompt_to_the_next_model() {
    let error = json!({ "name": "APIError", "data": { "message": "busy", "statusCode": 529 } });
    let answering = |error: Value| {
        let info = json!({ "id": "msg_a1", "role": "assistant", "agent": "build", "providerID": "oak",
            "modelID": "owl-1", "error": error });
        event(
            "message.updated",
            json!({ "sessionID": "ses_1", "info": info }),
        )
    };
    let retry = json!({ "type": "retry", "attempt": 1, "message": "Overloaded", "next": 1 });
    let created = json!({ "sessionID": "ses_1", "info": { "id": "ses_1", "agent": "explore" } });
    let failed = |error: &Value| {
        event(
            "session.error",
            json!({ "sessionID": "ses_1", "error": error }),
        )
    };
    for (plays, model) in [
        (
            vec![answering(Value::Null), answering(error.clone())],
            "owl-2",
        ),
        (vec![answering(Value::Null), failed(&error)], "owl-2"),
        (
            vec![
                answering(Value::Null),
                event(
                    "session.status",
                    json!({ "sessionID": "ses_1", "status": retry }),
                ),
            ],
            "owl-2",
        ),
        (
            vec![
                event("subagent.session.created", created.clone()),
                failed(&error),
            ],
            "owl-3",
        ),
        (
            vec![event("session.created", created), failed(&error)],
            "owl-3",
        ),
    ] {
        block_on(async {
            let imitation = Imitation::start(vec![plays]).await;
            let asked = json!([
                { "info": { "id": "msg_u1", "role": "user", "agent": "build" }, "parts": [
                    { "id": "prt_1", "messageID": "msg_u1", "sessionID": "ses_1", "type": "text", "text": "Go." },
                    { "id": "prt_2", "type": "file", "url": "data:,x", "mime": "text/plain" },
                ] },
                { "info": { "id": "msg_a1", "role": "assistant" }, "parts": [] },
            ]);
            imitation.answer_json("/session/ses_1/message?limit=20", &asked.to_string());
            let server = server(&imitation.url, ServerApi::Classic);
            let watching = SessionWatcher::new(pack(), ServerApi::Classic).fallback(foreground());
            see(&server, watching, is_over).await;
            assert_eq!(whats(&imitation), [STOP, PROMPT]);
            let body: Value = serde_json::from_str(&imitation.changing_requests()[1].body).unwrap();
            assert_eq!(body["model"]["modelID"], model);
            assert_eq!(body["agent"], "build");
            assert_eq!(
                body["parts"],
                json!([
                    { "type": "text", "text": "Go." },
                    { "type": "file", "url": "data:,x", "mime": "text/plain" },
                ])
            );
        });
    }
}

#[test]
fn a_session_without_a_prompt_is_not_asked_again() {
    block_on(async {
        let error = json!({ "name": "APIError", "data": { "message": "busy", "statusCode": 529 } });
        let created =
            json!({ "sessionID": "ses_1", "info": { "id": "ses_1", "agent": "explore" } });
        let failed = json!({ "sessionID": "ses_1", "error": error });
        let plays = vec![
            event("session.created", created),
            event("session.error", failed),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let messages = json!([{ "info": { "id": "msg_a1", "role": "assistant" }, "parts": [] }]);
        imitation.answer_json("/session/ses_1/message?limit=20", &messages.to_string());
        let server = server(&imitation.url, ServerApi::Classic);
        let watching = SessionWatcher::new(pack(), ServerApi::Classic).fallback(foreground());
        let seen = see(&server, watching, is_over).await;
        let is_told = |seen: &WatchEvent| matches!(seen, WatchEvent::Failed { why, .. } if why.contains("none of the last 20 messages"));
        assert!(seen.iter().any(is_told), "{seen:?}");
        assert_eq!(whats(&imitation), [STOP]);
    });
}

#[test]
fn a_dry_run_only_reports_the_next_model() {
    block_on(async {
        let error = json!({ "name": "APIError", "data": { "message": "429" } });
        let failed = event(
            "session.error",
            json!({ "sessionID": "ses_1", "error": error }),
        );
        let imitation = Imitation::start(vec![vec![failed]]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let watching = SessionWatcher::new(pack(), ServerApi::Classic).fallback(foreground());
        let is_refused =
            |seen: &[WatchEvent]| matches!(seen.last(), Some(WatchEvent::Refused { .. }));
        // The agent is unknown, and there is no chain for all agents.
        let chains = Chains::default().any(["oak/owl-1"]);
        let rules = Pack::builtin("opencode/foreground-fallback").unwrap();
        let watching = watching.fallback(ForegroundFallback::new(&rules, chains));
        let seen = see(&server, watching.dry_run(), is_refused).await;
        assert!(acts(&seen).is_empty());
        assert_eq!(whats(&imitation), [] as [&str; 0]);
    });
}

#[test]
fn refusals_within_five_seconds_switch_once_and_a_deleted_session_is_forgotten() {
    block_on(async {
        let error = json!({ "name": "APIError", "data": { "message": "429" } });
        let failed = || {
            event(
                "session.error",
                json!({ "sessionID": "ses_1", "error": error }),
            )
        };
        let deleted = event("session.deleted", json!({ "info": { "id": "ses_1" } }));
        let plays = vec![
            failed(),
            failed(),
            deleted,
            failed(),
            idle("ses_2"),
            part("ses_9", "m", "p", "text", "x"),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let chains = Chains::default().any(["a/b", "c/d"]);
        let rules = Pack::builtin("opencode/foreground-fallback").unwrap();
        let watching = SessionWatcher::new(pack(), ServerApi::Classic)
            .fallback(ForegroundFallback::new(&rules, chains));
        let seen = see(&server, watching, |seen| {
            matches!(seen.last(), Some(WatchEvent::Message { .. }))
        })
        .await;
        let models: Vec<&str> = acts(&seen)
            .into_iter()
            .filter_map(|act| match act {
                ServerAction::Switch { model, .. } => Some(&*model.1),
                _ => None,
            })
            .collect();
        assert_eq!(
            models,
            ["b", "b"],
            "the second one is of a session that begins anew"
        );
    });
}

const HANDS_OVER: &str = r#"
schema = 1
[pack]
name = "t"
grants = ["handoff"]
[rule.next]
description = "Go on in a new session."
action = "handoff"
message = "Finish the parser."
match.any = [{ literal = "context is full" }]
examples.match = ["the context is full"]
"#;

#[test]
fn a_rule_hands_over_through_the_terminal_interface_when_the_turn_is_over() {
    block_on(async {
        let plays = vec![
            created("ses_1", "ses_0"),
            part("ses_1", "msg_a1", "p", "text", "the context is full"),
            finish("ses_1", "msg_a1", "stop"),
            idle("ses_1"),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let pack = Pack::from_toml(HANDS_OVER).unwrap();
        see(
            &server,
            SessionWatcher::new(pack, ServerApi::Classic),
            is_over,
        )
        .await;
        let asked = imitation.changing_requests();
        let query = "?directory=/elsewhere";
        let expected = [
            ("execute-command", json!({ "command": "session_new" })),
            (
                "append-prompt",
                json!({ "text": "Continuing work from session ses_1. When you lack specific information you can use read_session to get it.\n\nFinish the parser." }),
            ),
            (
                "show-toast",
                json!({ "message": "Handoff Ready — Review and edit the draft, then send", "variant": "success", "duration": 4000 }),
            ),
        ];
        assert_eq!(asked.len(), expected.len(), "{asked:?}");
        for (asked, (what, body)) in asked.iter().zip(expected) {
            assert_eq!(asked.line, format!("POST /tui/{what}{query}"));
            assert_eq!(serde_json::from_str::<Value>(&asked.body).unwrap(), body);
        }
    });
}

#[test]
fn the_files_of_a_continuation_are_added_once_as_two_synthetic_parts() {
    block_on(async {
        let folder = Folder::outside();
        std::fs::write(folder.0.join("a.txt"), "one\ntwo\n").unwrap();
        let text = "Continuing work from session ses_0. When you lack specific information you can use read_session to get it.\n\n@a.txt\n\nGo on.";
        let said = |id: &str, synthetic: bool| {
            let part = json!({ "id": id, "messageID": "msg_u1", "type": "text", "text": text, "synthetic": synthetic });
            event(
                "message.part.updated",
                json!({ "sessionID": "ses_1", "part": part }),
            )
        };
        let directory = folder.0.to_str().unwrap();
        let info = json!({ "id": "ses_1", "directory": directory });
        let deleted = event("session.deleted", json!({ "info": { "id": "ses_1" } }));
        let begins = || {
            event(
                "session.created",
                json!({ "sessionID": "ses_1", "info": info }),
            )
        };
        let plays = vec![
            begins(),
            user("ses_1", "msg_u1"),
            said("prt_0", true),
            said("prt_1", false),
            Play::Await("/session/ses_1/prompt_async"),
            said("prt_1", false),
            deleted,
            begins(),
            user("ses_1", "msg_u1"),
            said("prt_1", false),
        ];
        let imitation = Imitation::start(vec![plays]).await;
        let server = server(&imitation.url, ServerApi::Classic);
        let is_second = |seen: &[WatchEvent]| {
            seen.iter()
                .filter(|seen| matches!(seen, WatchEvent::Done(_)))
                .count()
                == 2
        };
        see(
            &server,
            SessionWatcher::new(pack(), ServerApi::Classic),
            is_second,
        )
        .await;
        assert_eq!(
            whats(&imitation),
            [PROMPT, PROMPT],
            "once, and once more for the session made anew"
        );
        let body: Value = serde_json::from_str(&imitation.changing_requests()[0].body).unwrap();
        let path = std::fs::canonicalize(folder.0.join("a.txt")).unwrap();
        let header = format!(
            "Called the Read tool with the following input: {{\"filePath\": {}}}",
            json!(path)
        );
        let parts = body["parts"].as_array().unwrap();
        assert_eq!(parts.len(), 2);
        assert_eq!(
            parts[0],
            json!({ "type": "text", "text": header, "synthetic": true })
        );
        assert!(
            parts[1]["text"]
                .as_str()
                .unwrap()
                .starts_with("<file>\n00001| one")
        );
        assert_eq!(body["noReply"], true);
        assert_eq!(body["agent"], "build");
        assert_eq!(
            body["model"],
            json!({ "providerID": "oak", "modelID": "owl-1" })
        );
    });
}

/// The server asks the model as soon as the prompt arrives, before the files are added.
#[test]
fn the_files_of_a_continuation_are_there_before_the_model_is_asked() {
    let text = "Continuing work from session ses_0. When you lack specific information you can use read_session to get it.\n\n@a.txt\n\nGo on.";
    let prompt = json!({
        "info": { "id": "msg_u1", "role": "user", "agent": "build", "model": { "providerID": "oak", "modelID": "owl-1" } },
        "parts": [
            { "id": "prt_1", "messageID": "msg_u1", "sessionID": "ses_1", "type": "text", "text": text },
            { "id": "prt_2", "type": "text", "text": "Called the Read tool", "synthetic": true },
        ],
    });
    let answer = |status: &str| {
        let part = json!({ "type": "tool", "tool": "bash", "state": { "status": status } });
        json!({ "info": { "id": "msg_a1", "role": "assistant" }, "parts": [part] })
    };
    let prompt_of = "DELETE /session/ses_1/message/msg_u1";
    for (messages, expected) in [
        // Nobody was asked yet.
        (vec![prompt.clone()], vec![STOP, PROMPT, prompt_of, PROMPT]),
        (
            vec![prompt.clone(), answer("pending")],
            vec![STOP, DELETE, PROMPT, prompt_of, PROMPT],
        ),
        // A tool has run, so the messages stay.
        (
            vec![prompt.clone(), answer("running")],
            vec![STOP, PROMPT, PROMPT],
        ),
        // The user has gone on.
        (
            vec![
                prompt.clone(),
                json!({ "info": { "id": "msg_u2", "role": "user" }, "parts": [{ "type": "text", "text": "No." }] }),
            ],
            vec![PROMPT],
        ),
    ] {
        block_on(async {
            let folder = Folder::outside();
            let (_, plays) = continuation_prompt(&folder, text);
            let imitation = Imitation::start(vec![plays]).await;
            for _ in 0..2 {
                let messages = Value::from(messages.clone()).to_string();
                imitation.answer_json("/session/ses_1/message?limit=20", &messages);
            }
            let server = server(&imitation.url, ServerApi::Classic);
            let is_done =
                |seen: &[WatchEvent]| seen.iter().any(|seen| matches!(seen, WatchEvent::Done(_)));
            see(
                &server,
                SessionWatcher::new(pack(), ServerApi::Classic),
                is_done,
            )
            .await;
            assert_eq!(whats(&imitation), expected);
            let asked = imitation.changing_requests();
            let mut prompts = asked.iter().filter(|asked| asked.line == PROMPT);
            let body = |body: &str| serde_json::from_str::<Value>(body).unwrap();
            assert_eq!(body(&prompts.next().unwrap().body)["noReply"], true);
            if let Some(again) = prompts.next() {
                assert_eq!(
                    body(&again.body),
                    json!({
                        "parts": [{ "type": "text", "text": text }],
                        "agent": "build",
                        "model": { "providerID": "oak", "modelID": "owl-1" },
                    })
                );
            }
        });
    }
}

/// A process that was killed holds its lock for a moment, until the system has closed its files.
#[test]
fn a_journal_whose_owner_is_ending_is_no_other_watcher() {
    let folder = Folder::outside();
    let path = folder.0.join("acts.json");
    let ending = ActionJournal::open(&path).unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(ending);
    });
    let next = ActionJournal::open(&path);
    ends.join().unwrap();
    let next = next.expect("it was waited for");
    let error = ActionJournal::open(&path).unwrap_err();
    assert_eq!(error.kind(), "taken");
    assert!(error.to_string().contains("acts.json open"), "{error}");
    drop(next);
}

/// While a thread starts a process, that process has the file of the lock open until it is replaced.
#[cfg(unix)]
#[test]
fn a_dropped_journal_is_free_at_once_while_other_threads_start_processes() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = Folder::outside();
    let path = folder.0.join("acts.json");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::process::Command::new("true").status().unwrap();
                }
            });
        }
        let mut taken = 0;
        for _ in 0..400 {
            drop(ActionJournal::open(&path).unwrap());
            let lock = std::fs::File::open(folder.0.join("acts.json.lock")).unwrap();
            match lock.try_lock() {
                Ok(()) => lock.unlock().unwrap(),
                Err(_) => taken += 1,
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(taken, 0, "nobody has the journal open");
    });
}

const OUTCOMES: &str = r#"
schema = 1
[pack]
name = "t"
[rule.failed]
description = "A read failed."
action = "warn"
on = ["tool-output"]
outcome = "error"
match.any = [{ literal = "no such file" }]
examples.match = ["no such file"]
[rule.fine]
description = "A read went well."
action = "warn"
on = ["tool-output"]
outcome = "ok"
match.any = [{ literal = "no such file" }]
examples.match = ["no such file"]
"#;

#[test]
fn rules_on_tool_output_know_the_outcome_that_the_server_reports() {
    let body = |interface: ServerApi, failed: bool| {
        let events = match interface {
            ServerApi::Classic => {
                let state = match failed {
                    true => json!({ "status": "error", "input": {}, "error": "no such file" }),
                    false => {
                        json!({ "status": "completed", "input": {}, "output": "no such file" })
                    }
                };
                let part = json!({ "id": "p", "messageID": "m", "type": "tool", "tool": "read",
                    "callID": "c", "state": state });
                vec![json!({ "type": "message.part.updated",
                    "properties": { "sessionID": "s", "part": part } })]
            }
            _ => {
                let end = match failed {
                    true => json!({ "error": { "message": "no such file" } }),
                    false => json!({ "content": [{ "type": "text", "text": "no such file" }] }),
                };
                let kind = ["success", "failed"][usize::from(failed)];
                let mut data =
                    json!({ "sessionID": "s", "assistantMessageID": "m", "callID": "c" });
                data.as_object_mut()
                    .unwrap()
                    .extend(end.as_object().unwrap().clone());
                vec![json!({ "type": format!("session.next.tool.{kind}"), "data": data })]
            }
        };
        let frame = |event: &Value| format!("data: {event}\n\n");
        events.iter().map(frame).collect::<String>()
    };
    for interface in [ServerApi::Classic, ServerApi::Next] {
        for (failed, expected) in [(true, "t/failed"), (false, "t/fine")] {
            let pack = Pack::from_toml(OUTCOMES).unwrap();
            let mut watching = SessionWatcher::new(pack, interface);
            let mut seen = Vec::new();
            ttsr_wire::opencode::OpenCodeReader::default().push(
                body(interface, failed).as_bytes(),
                &mut |session, notice| {
                    watching.notice(session, notice, &mut seen);
                },
            );
            let judged = seen.iter().filter_map(|seen| match seen {
                WatchEvent::Decision(judged) => judged.decision.rule.as_deref(),
                _ => None,
            });
            assert_eq!(judged.collect::<Vec<_>>(), [expected], "{interface:?}");
        }
    }
}

/// A server that keeps one session, and answers no request from a given one on.
struct KilledAt {
    messages: Vec<Value>,
    /// The requests of the act that were answered.
    answered: usize,
    /// The request of the act that gets no answer, and whether it takes effect.
    kill: Option<(usize, bool)>,
    /// The texts that the model was asked to reply to.
    asked: Vec<String>,
    directory: String,
    made: usize,
    is_killed: std::sync::Arc<tokio::sync::Notify>,
}

impl KilledAt {
    fn respond(&mut self, asked: &ttsr_testing::opencode::RecordedRequest) -> Option<String> {
        if asked.is_announcement() {
            return Some("true".to_owned());
        }
        if asked.line == "GET /session/ses_1" {
            return Some(json!({ "id": "ses_1", "directory": self.directory }).to_string());
        }
        let is_last = self.kill.is_some_and(|(number, _)| number == self.answered);
        if is_last && self.kill.is_some_and(|(_, is_done)| !is_done) {
            self.is_killed.notify_one();
            return None;
        }
        self.answered += 1;
        let answer = self.act(asked);
        if is_last {
            self.is_killed.notify_one();
            return None;
        }
        Some(answer)
    }

    fn act(&mut self, asked: &ttsr_testing::opencode::RecordedRequest) -> String {
        if asked.line.starts_with("GET /session/ses_1/message") {
            return Value::from(self.messages.clone()).to_string();
        }
        if asked.line == STOP {
            let running = self
                .messages
                .iter_mut()
                .filter(|it| it["info"]["role"] == "assistant");
            for message in running {
                message["info"]["error"] = json!({ "name": "MessageAbortedError" });
            }
        } else if let Some(id) = asked.line.strip_prefix("DELETE /session/ses_1/message/") {
            self.messages.retain(|it| it["info"]["id"] != *id);
        } else {
            assert_eq!(asked.line, PROMPT);
            let body: Value = serde_json::from_str(&asked.body).unwrap();
            self.made += 1;
            let info = json!({ "id": format!("msg_v{}", self.made), "role": "user",
                "agent": body["agent"], "model": body["model"] });
            self.messages
                .push(json!({ "info": info, "parts": body["parts"] }));
            if body["noReply"] != true {
                let text = body["parts"][0]["text"].as_str().unwrap();
                self.asked.push(text.to_owned());
            }
        }
        "true".to_owned()
    }

    fn count(&self, is_it: impl Fn(&Value) -> bool) -> usize {
        self.messages.iter().filter(|it| is_it(it)).count()
    }
}

/// Watches with a runtime of its own until an act is over or `is_killed`. All that is in progress ends with the runtime,
/// as at the end of a process.
fn watch_until_killed(
    url: &str,
    journal: &Path,
    is_killed: &tokio::sync::Notify,
) -> Vec<WatchEvent> {
    block_on(async {
        let server = server(url, ServerApi::Classic);
        let cancel = Cancel::default();
        let mut seen = Vec::new();
        let report = |one: &WatchEvent| {
            seen.push(one.clone());
            if is_end(one) {
                cancel.cancel();
            }
        };
        let options = WatchOptions {
            journal: Some(ActionJournal::open(journal).unwrap()),
            ..at_once()
        };
        let mut watching = SessionWatcher::new(pack(), ServerApi::Classic);
        let watched = watch(&server, &mut watching, options, cancel.clone(), report);
        tokio::select! {
            ended = tokio::time::timeout(Duration::from_secs(30), watched) => {
                ended.expect("it is seen in time").unwrap();
            }
            () = is_killed.notified() => {}
        }
        seen
    })
}

#[test]
fn a_continuation_prompt_is_never_lost_whenever_the_watcher_is_killed() {
    let text = "Continuing work from session ses_0. When you lack specific information you can use read_session to get it.\n\n@a.txt\n\nGo on.";
    let reply = |status: &str| {
        let part = json!({ "type": "tool", "tool": "bash", "state": { "status": status } });
        json!({ "info": { "id": "msg_a1", "role": "assistant" }, "parts": [part] })
    };
    for later in [None, Some("pending"), Some("running")] {
        let mut killed = 0;
        for (number, is_done) in (0..8).flat_map(|number| [(number, false), (number, true)]) {
            let case = format!("{later:?}, request {number}, done: {is_done}");
            let folder = Folder::outside();
            std::fs::write(folder.0.join("a.txt"), "one\ntwo\n").unwrap();
            let directory = folder.0.to_str().unwrap().to_owned();
            let journal = folder.0.join("acts.json");
            let prompt = json!({
                "info": { "id": "msg_u1", "role": "user", "agent": "build",
                    "model": { "providerID": "oak", "modelID": "owl-1" } },
                "parts": [{ "id": "prt_1", "messageID": "msg_u1", "type": "text", "text": text }],
            });
            let is_killed = std::sync::Arc::new(tokio::sync::Notify::new());
            let kept = std::sync::Arc::new(std::sync::Mutex::new(KilledAt {
                messages: std::iter::once(prompt).chain(later.map(reply)).collect(),
                answered: 0,
                kill: Some((number, is_done)),
                asked: Vec::new(),
                directory: directory.clone(),
                made: 0,
                is_killed: is_killed.clone(),
            }));
            let part =
                json!({ "id": "prt_1", "messageID": "msg_u1", "type": "text", "text": text });
            let info = json!({ "id": "ses_1", "directory": directory });
            let plays = vec![
                event(
                    "session.created",
                    json!({ "sessionID": "ses_1", "info": info }),
                ),
                user("ses_1", "msg_u1"),
                event(
                    "message.part.updated",
                    json!({ "sessionID": "ses_1", "part": part }),
                ),
            ];
            let is_over = block_on(async {
                let imitation = Imitation::start(vec![plays]).await;
                let responder = kept.clone();
                imitation.respond(move |asked| responder.lock().unwrap().respond(asked));
                let url = imitation.url.clone();
                let watching = |is_killed: std::sync::Arc<tokio::sync::Notify>| {
                    let (url, journal) = (url.clone(), journal.clone());
                    tokio::task::spawn_blocking(move || {
                        watch_until_killed(&url, &journal, &is_killed)
                    })
                };
                let first = watching(is_killed.clone()).await.unwrap();
                let is_over = first.iter().any(is_end);
                kept.lock().unwrap().kill = None;
                if !is_over {
                    let seen = watching(is_killed.clone()).await.unwrap();
                    let is_resumed = |seen: &WatchEvent| matches!(seen, WatchEvent::Resumed(_));
                    assert!(seen.iter().any(is_resumed), "{case}: {seen:?}");
                    let is_done = |seen: &WatchEvent| matches!(seen, WatchEvent::Done(_));
                    assert!(seen.iter().any(is_done), "{case}: {seen:?}");
                }
                is_over
            });
            killed += usize::from(!is_over);
            let kept = kept.lock().unwrap();
            let is_prompt = |it: &Value| it["parts"][0]["text"] == *text;
            let is_files = |it: &Value| it["parts"][0]["synthetic"] == true;
            // What a tool has done stays known, and the prompt with it.
            let expected = if later == Some("running") { 2 } else { 1 };
            assert_eq!(kept.count(is_prompt), expected, "{case}");
            assert_eq!(kept.count(is_files), 1, "{case}");
            assert!(is_prompt(kept.messages.last().unwrap()), "{case}");
            assert_eq!(kept.asked, [text], "{case}: the model is asked once");
            let left = std::fs::read_to_string(&journal).unwrap();
            assert_eq!(left, r#"{"version":1,"acts":[]}"#, "{case}");
        }
        // Three reads and stops, the files, the deletions and the prompt: all of them were the last one once.
        let requests =
            [6, 7, 5][usize::from(later.is_some()) + usize::from(later == Some("running"))];
        assert_eq!(killed, 2 * requests, "{later:?}");
    }
}

#[test]
fn a_continuation_prompt_that_is_too_long_for_the_journal_is_not_deleted() {
    block_on(async {
        let text = format!(
            "Continuing work from session ses_0. When you lack specific information you can use read_session to get it.\n\n@a.txt\n\n{}",
            "Go on. ".repeat(ActionJournal::MAX_PROMPT / 7 + 1)
        );
        let folder = Folder::outside();
        let (part, plays) = continuation_prompt(&folder, &text);
        let imitation = Imitation::start(vec![plays]).await;
        let prompt = json!([{ "info": { "id": "msg_u1", "role": "user" }, "parts": [part] }]);
        for _ in 0..2 {
            imitation.answer_json("/session/ses_1/message?limit=20", &prompt.to_string());
        }
        let journal = folder.0.join("acts.json");
        run_until(&imitation, &journal, Duration::ZERO, is_end).await;
        assert_eq!(whats(&imitation), [STOP, PROMPT, PROMPT]);
    });
}
