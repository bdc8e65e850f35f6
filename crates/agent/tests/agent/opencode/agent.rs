//! A chat over a running server: the messages that its user receives while the server works.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use ttsr_agent::opencode::ServerApi;
use ttsr_agent::progress::{
    Inbound, Inbox, ProgressSettings, Router, RouterSettings, WHATSAPP, respond,
};

use super::{block_on, capture, server};
use crate::sides::{Chat, Done};
use ttsr_testing::opencode::{Imitation, Play};

/// A chat that logs every action on it. `says`: the user's reply to a message that contains a text.
fn chat(
    log: &Arc<Mutex<Vec<String>>>,
    says: Vec<(&'static str, &'static str)>,
    inbox: Inbox,
) -> Chat {
    let log = Arc::clone(log);
    let tell = move |done: Done<'_>| {
        let line = match done {
            Done::Say(message) => {
                for (shown, said) in &says {
                    if message.text.contains(shown) {
                        inbox.send(inbound(said)).unwrap();
                    }
                }
                message.text.clone()
            }
            Done::Type(true) => "(typing)".to_owned(),
            Done::Type(false) => "(no typing)".to_owned(),
            other => panic!("nothing of a chat: {other:?}"),
        };
        log.lock().unwrap().push(line);
    };
    Chat::new(WHATSAPP, Arc::new(tell))
}

fn inbound(text: &str) -> Inbound {
    Inbound {
        channel: "chat".into(),
        peer: "ada".into(),
        text: text.into(),
        id: None,
    }
}

/// Returns the log of the chat for the session `ses_1`, and the requests to the server.
fn chatted(
    api: ServerApi,
    plays: Vec<Play>,
    says: Vec<(&'static str, &'static str)>,
) -> (Vec<String>, Vec<String>) {
    chatted_in("ses_1", RouterSettings::default(), api, plays, says)
}

pub(crate) fn chatted_in(
    session: &str,
    settings: RouterSettings,
    api: ServerApi,
    plays: Vec<Play>,
    says: Vec<(&'static str, &'static str)>,
) -> (Vec<String>, Vec<String>) {
    block_on(async {
        let imitation = Imitation::start(vec![plays]).await;
        let mut server = server(&imitation.url, api);
        let (inbox, mut arrived) = mpsc::unbounded_channel();
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut chat = chat(&log, says, inbox);
        let router = Router {
            agent: &mut server,
            channel: &mut chat,
            peer: "ada",
            inbox: &mut arrived,
        };
        let message = inbound("Go.");
        let responding = respond(router, session, &message, settings);
        let responded = tokio::time::timeout(Duration::from_secs(60), responding).await;
        responded.expect("it ends").0.unwrap();
        imitation.wait_until_closed().await;
        let asked = imitation.changing_requests().into_iter();
        let asked = asked.map(|asked| match asked.line.contains("/question/") {
            true => format!("{} {}", asked.line, asked.body),
            false => asked.line,
        });
        let log = log.lock().unwrap().clone();
        (log, asked.collect())
    })
}

fn event(kind: &str, properties: &str) -> Play {
    Play::Send(format!(
        r#"{{"type":"{kind}","properties":{{"sessionID":"ses_1",{properties}}}}}"#
    ))
}

fn tool(call: &str, state: &str) -> Play {
    event(
        "message.part.updated",
        &format!(
            r#""part":{{"id":"prt_{call}","messageID":"msg_1","type":"tool","tool":"bash","callID":"{call}","state":{{{state}}}}}"#
        ),
    )
}

fn says(message: &str, part: &str, text: &str) -> Play {
    event(
        "message.part.updated",
        &format!(
            r#""part":{{"id":"{part}","messageID":"{message}","type":"text","text":"{text}"}}"#
        ),
    )
}

fn idle() -> Play {
    Play::Send(r#"{"type":"session.idle","properties":{"sessionID":"ses_1"}}"#.into())
}

/// The captures of tests/data in the form of a run without an abort.
fn unstopped(name: &str, prompt: &'static str) -> Vec<Play> {
    let capture = capture(name);
    let events = capture.lines().filter(|line| line.contains("\"type\""));
    let events = events.map(|line| Play::Send(line.to_owned()));
    [Play::Await(prompt)].into_iter().chain(events).collect()
}

#[test]
fn a_chat_hears_the_whole_reply_of_a_server_as_one() {
    // The capture after its abort belongs to another prompt.
    let mut plays = unstopped("classic.events.jsonl", "/prompt_async");
    let second = plays
        .iter()
        .position(|play| matches!(play, Play::Send(event) if event.contains("msg_u2")))
        .unwrap();
    plays.drain(1..second);
    let (log, asked) = chatted(ServerApi::Classic, plays, vec![]);
    assert_eq!(log, ["(typing)", "let s = read(p)?", "(no typing)"]);
    assert_eq!(asked, ["POST /session/ses_1/prompt_async"]);
}

#[test]
fn a_reply_of_several_messages_has_all_of_their_text_and_no_reasoning() {
    let reasoning = r#""part":{"id":"p0","messageID":"msg_1","type":"reasoning","text":""}"#;
    let delta =
        r#""messageID":"msg_1","partID":"p0","field":"text","delta":"nobody is to hear this""#;
    let plays = vec![
        Play::Await("/prompt_async"),
        event("message.part.updated", reasoning),
        event("message.part.delta", delta),
        says("msg_1", "p1", "First I look. "),
        says("msg_2", "p2", "Then "),
        says("msg_2", "p3", "I write."),
        // The final text differs from the deltas.
        says("msg_2", "p2", "Then, at last, "),
        idle(),
    ];
    let (log, _) = chatted(ServerApi::Classic, plays, vec![]);
    assert_eq!(log[log.len() - 2], "First I look. Then, at last, I write.");
}

#[test]
fn a_chat_hears_what_a_tool_of_a_server_does_once() {
    let titled = r#""status":"running","title":"Reading src/lib.rs","input":{}"#;
    let plays = vec![
        Play::Await("/prompt_async"),
        tool("c1", r#""status":"pending","input":{},"raw":"""#),
        tool("c1", titled),
        tool("c1", titled),
        // Within the throttle.
        tool("c2", titled),
        says("msg_1", "p1", "Done."),
        idle(),
    ];
    let (log, _) = chatted(ServerApi::Classic, plays, vec![]);
    assert_eq!(
        log,
        [
            "(typing)",
            "🔧 Reading src/lib.rs...",
            "Done.",
            "(no typing)"
        ]
    );
}

/// Servers set a title at the end of the call; until then the model's own description is shown.
#[test]
fn a_tool_without_a_title_has_one() {
    for (input, note) in [
        (
            r#"{"description":"Prints a marker"}"#,
            "🔧 Prints a marker...",
        ),
        ("{}", "🔧 bash..."),
    ] {
        let plays = vec![
            Play::Await("/prompt_async"),
            tool("c1", &format!(r#""status":"running","input":{input}"#)),
            idle(),
        ];
        let (log, _) = chatted(ServerApi::Classic, plays, vec![]);
        assert_eq!(log[1], note);
    }
}

/// The output of a tool is no text of the reply, however the call ends.
#[test]
fn a_tool_that_has_ended_is_not_noted_again() {
    for end in [
        r#""status":"completed","input":{},"output":"secret""#,
        r#""status":"error","input":{},"error":"secret""#,
    ] {
        let plays = vec![
            Play::Await("/prompt_async"),
            tool("c1", r#""status":"running","input":{}"#),
            tool("c1", end),
            says("msg_1", "p1", "Done."),
            idle(),
        ];
        let (log, _) = chatted(ServerApi::Classic, plays, vec![]);
        assert_eq!(
            log,
            ["(typing)", "🔧 bash...", "Done.", "(no typing)"],
            "{end}"
        );
    }
}

#[test]
fn a_question_of_unknown_form_is_shown_as_it_came() {
    let plays = vec![
        Play::Await("/prompt_async"),
        event(
            "question.asked",
            r#""id":"que_1","questions":[{"question":7}]"#,
        ),
        Play::Await("/question/que_1/reply"),
        says("msg_1", "p1", "Well."),
        idle(),
    ];
    let (log, asked) = chatted(ServerApi::Classic, plays, vec![("❓", "seven")]);
    assert!(log[1].contains(r#"[{"question":7}]"#), "{}", log[1]);
    assert_eq!(
        asked[1],
        r#"POST /question/que_1/reply {"answers":[["seven"]]}"#
    );
}

/// The server is silent until the user, who received a heartbeat, cancels.
#[test]
fn a_server_that_is_silent_is_said_to_be_at_work() {
    // The smallest value that is allowed: this test takes ten seconds.
    let progress = ProgressSettings::default()
        .with_heartbeat_ms(10_000)
        .unwrap();
    let settings = RouterSettings::default().with_progress(progress);
    let plays = vec![Play::Await("/prompt_async"), Play::Await("/abort")];
    let says = vec![("⏳", "/cancel")];
    let (log, asked) = chatted_in("ses_1", settings, ServerApi::Classic, plays, says);
    assert_eq!(
        log,
        [
            "(typing)",
            "(typing)",
            "⏳ Still working...",
            "Cancelled.",
            "(no typing)"
        ]
    );
    assert_eq!(asked[1], "POST /session/ses_1/abort");
}

const QUESTION: &str = r#""id":"que_1","questions":[{"header":"Colour","question":"Which one?","options":[{"label":"red","description":"like blood"},{"label":"blue","description":""}],"multiple":false},{"question":"Sure?","options":[]}]"#;

#[test]
fn a_question_of_a_server_is_put_to_the_user_and_answered() {
    let plays = vec![
        Play::Await("/prompt_async"),
        event("question.asked", QUESTION),
        Play::Await("/question/que_1/reply"),
        says("msg_1", "p1", "Red it is."),
        idle(),
    ];
    let (log, asked) = chatted(ServerApi::Classic, plays, vec![("❓", "red")]);
    let shown = "❓ The agent has a question:\n\n**Colour**\nWhich one?\n  1. red — like blood\n  2. blue\n\nSure?\n\nReply with your answer:";
    assert_eq!(log, ["(typing)", shown, "Red it is.", "(no typing)"]);
    assert_eq!(
        asked[1],
        r#"POST /question/que_1/reply {"answers":[["red"],["red"]]}"#
    );
}

#[test]
fn a_cancel_of_the_chat_stops_the_server_and_has_its_own_reply() {
    let plays = vec![
        Play::Await("/prompt_async"),
        says("msg_1", "p1", "half"),
        event("question.asked", QUESTION),
        Play::Await("/session/ses_1/abort"),
    ];
    let (log, asked) = chatted(ServerApi::Classic, plays, vec![("❓", "/cancel")]);
    assert_eq!(log.len(), 4, "{log:?}");
    assert_eq!(log[2..], ["Cancelled.", "(no typing)"]);
    assert_eq!(
        asked[1..],
        [
            "POST /session/ses_1/abort".to_owned(),
            "POST /question/que_1/reject ".to_owned()
        ]
    );
}

#[test]
fn a_session_that_fails_before_it_has_a_message_is_no_empty_reply() {
    for (error, said) in [
        (
            r#""error":{"name":"ProviderModelNotFoundError","data":{"message":"no owl-2"}}"#,
            Some("Something went wrong while the agent was working."),
        ),
        (
            r#""error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}"#,
            None,
        ),
    ] {
        let plays = vec![
            Play::Await("/prompt_async"),
            event("session.error", error),
            idle(),
        ];
        let (log, _) = chatted(ServerApi::Classic, plays, vec![]);
        let expected = ["(typing)"].into_iter().chain(said);
        let expected: Vec<&str> = expected.chain(["(no typing)"]).collect();
        assert_eq!(log, expected);
    }
}

/// The second interface does not report an idle session: the reply ends with its last step.
#[test]
fn a_reply_of_the_second_interface_ends_with_its_last_step() {
    let step = |kind: &str, data: &str| {
        Play::Send(format!(
            r#"{{"type":"session.next.{kind}","data":{{"sessionID":"ses_1","assistantMessageID":"msg_1",{data}}}}}"#
        ))
    };
    let plays = vec![
        Play::Await("/prompt"),
        step("step.started", r#""agent":"build""#),
        step("text.started", r#""textID":"t0""#),
        step("text.delta", r#""textID":"t0","delta":"I write it. ""#),
        step("tool.called", r#""callID":"c1","tool":"write","input":{}"#),
        step("step.ended", r#""finish":"tool-calls""#),
        Play::Send(
            r#"{"type":"session.next.text.delta","data":{"sessionID":"ses_1","assistantMessageID":"msg_2","textID":"t0","delta":"Done."}}"#
                .into(),
        ),
        Play::Send(
            r#"{"type":"session.next.step.ended","data":{"sessionID":"ses_1","assistantMessageID":"msg_2","finish":"stop"}}"#
                .into(),
        ),
    ];
    let (log, asked) = chatted(ServerApi::Next, plays, vec![]);
    assert_eq!(
        log,
        [
            "(typing)",
            "🔧 write...",
            "I write it. Done.",
            "(no typing)"
        ]
    );
    assert_eq!(asked, ["POST /api/session/ses_1/prompt"]);
}

/// A question that was answered elsewhere needs no answer; the user is told so, and the next message is not an answer.
#[test]
fn a_question_of_a_server_that_is_answered_elsewhere_is_closed_in_the_chat() {
    for verb in ["replied", "rejected"] {
        let plays = vec![
            Play::Await("/prompt_async"),
            event("question.asked", QUESTION),
            event(&format!("question.{verb}"), r#""requestID":"que_1""#),
            says("msg_1", "p1", "Blue it is."),
            idle(),
        ];
        let (log, asked) = chatted(ServerApi::Classic, plays, vec![]);
        assert_eq!(
            log[2..],
            [
                "The question was closed elsewhere. No answer is needed.",
                "Blue it is.",
                "(no typing)"
            ]
        );
        assert_eq!(
            asked.len(),
            1,
            "it is neither answered nor rejected: {asked:?}"
        );
    }
}

#[test]
fn a_reply_of_a_server_that_the_length_limit_cut_says_so() {
    let message = |finish: &str| {
        event(
            "message.updated",
            &format!(
                r#""info":{{"id":"msg_1","sessionID":"ses_1","role":"assistant","finish":"{finish}","time":{{"created":1,"completed":2}}}}"#
            ),
        )
    };
    for (finish, shown) in [
        (
            "length",
            "Once upon\n\n(The reply is cut off: the model reached its length limit.)",
        ),
        ("stop", "Once upon"),
    ] {
        let plays = vec![
            Play::Await("/prompt_async"),
            says("msg_1", "p1", "Once upon"),
            message(finish),
            idle(),
        ];
        let (log, _) = chatted(ServerApi::Classic, plays, vec![]);
        assert_eq!(log[1], shown);
    }
}
