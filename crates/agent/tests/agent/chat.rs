//! The messages that the user of a chat receives.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use ttsr_agent::progress::{
    Agent, AgentEvent, AgentEvents, AgentFuture, AgentPart, ChannelAdapter, ChannelStatus,
    ChatAction, Console, Constraints, EMPTY, Inbound, Outbound, PendingPrompt, ProgressSettings,
    PromptError, Router, RouterSettings, SLACK, TELEGRAM, ToolStatus, Typing, WHATSAPP,
    prompt_streaming, respond,
};
use ttsr_agent::user_prompt::{Question, QuestionRequest};

use super::runtime;
use crate::sides::{Chat, Done, Goes, Next, Server, Tell};

fn part(part: &str, content: AgentPart) -> AgentEvent {
    AgentEvent::Part {
        session: "s".into(),
        message: "m".into(),
        part: part.into(),
        content,
    }
}

fn says(id: &str, text: &str) -> AgentEvent {
    part(id, AgentPart::Text(text.into()))
}

fn grows(id: &str, delta: &str) -> AgentEvent {
    AgentEvent::Delta {
        session: "s".into(),
        message: "m".into(),
        part: id.into(),
        field: "text".into(),
        delta: delta.into(),
    }
}

fn runs(call: &str, title: &str) -> AgentEvent {
    let content = AgentPart::Tool {
        tool: "bash".into(),
        call: call.into(),
        status: ToolStatus::Running,
        title: Some(title.into()),
    };
    part(call, content)
}

fn idle() -> AgentEvent {
    AgentEvent::Idle {
        session: "s".into(),
    }
}

fn asks(id: &str, questions: usize) -> AgentEvent {
    let question = Question {
        text: "Which one?".into(),
        ..Question::default()
    };
    AgentEvent::Question {
        session: "s".into(),
        request: QuestionRequest {
            id: id.into(),
            questions: vec![question; questions],
        },
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A prompt in progress, with its actions so far.
struct Sheet {
    prompting: PendingPrompt,
    out: Vec<ChatAction>,
}

impl Sheet {
    fn new() -> Sheet {
        Sheet::with(RouterSettings::default())
    }

    fn with(settings: RouterSettings) -> Sheet {
        let mut out = Vec::new();
        let prompting = PendingPrompt::begin("s", settings, &mut out);
        Sheet { prompting, out }
    }

    fn see(&mut self, seconds: u64, event: &AgentEvent) -> &mut Sheet {
        self.prompting.push_event(at(seconds), event, &mut self.out);
        self
    }

    fn notes(&self) -> Vec<&str> {
        let notes = self.out.iter().filter_map(|what| match what {
            ChatAction::Note(text) => Some(text.as_str()),
            _ => None,
        });
        notes.collect()
    }

    fn reply(&self) -> Option<&Result<String, PromptError>> {
        let done = self.out.iter().filter_map(|what| match what {
            ChatAction::Done(result) => Some(result),
            _ => None,
        });
        let done: Vec<_> = done.collect();
        assert!(done.len() <= 1, "one end");
        done.first().copied()
    }

    fn text(&self) -> &str {
        self.reply().unwrap().as_deref().unwrap()
    }
}

#[test]
fn events_are_read_before_the_prompt_is_sent() {
    assert_eq!(
        Sheet::new().out,
        [
            ChatAction::Typing,
            ChatAction::Subscribe,
            ChatAction::Prompt
        ]
    );
}

#[test]
fn the_reply_is_made_of_snapshots_and_deltas_in_the_order_of_the_parts() {
    let mut sheet = Sheet::new();
    sheet.see(0, &says("p1", "")).see(0, &grows("p1", "Hel"));
    sheet
        .see(0, &says("p2", "Second."))
        .see(0, &grows("p1", "lo. "));
    sheet.see(0, &says("p1", "Hello! ")).see(0, &idle());
    assert_eq!(sheet.text(), "Hello! Second.");
}

#[test]
fn deltas_of_reasoning_are_told_by_their_part() {
    let mut sheet = Sheet::new();
    sheet
        .see(0, &part("p1", AgentPart::Reasoning))
        .see(0, &grows("p1", "Hm."));
    // This one is reported later.
    sheet
        .see(0, &grows("p2", "Hm again."))
        .see(0, &part("p2", AgentPart::Reasoning));
    sheet.see(0, &grows("p3", "Yes.")).see(0, &idle());
    assert_eq!(sheet.text(), "Yes.");
}

#[test]
fn other_sessions_and_the_users_own_message_are_no_reply() {
    let mut sheet = Sheet::new();
    let of_user = AgentEvent::Message {
        session: "s".into(),
        message: "u".into(),
        is_user: true,
    };
    let prompt = AgentEvent::Part {
        session: "s".into(),
        message: "u".into(),
        part: "p0".into(),
        content: AgentPart::Text("Do it.".into()),
    };
    let foreign = AgentEvent::Part {
        session: "t".into(),
        message: "m".into(),
        part: "p9".into(),
        content: AgentPart::Text("No.".into()),
    };
    sheet.see(0, &of_user).see(0, &prompt).see(0, &foreign);
    let foreign = AgentEvent::Idle {
        session: "t".into(),
    };
    sheet.see(0, &foreign);
    assert_eq!(sheet.reply(), None);
    sheet.see(0, &says("p1", "Yes.")).see(0, &idle());
    assert_eq!(sheet.text(), "Yes.");
}

#[test]
fn a_tool_that_runs_has_one_note_and_not_too_often() {
    let mut sheet = Sheet::new();
    sheet
        .see(1, &runs("c1", "Reading a"))
        .see(2, &runs("c1", "Reading a, still"));
    sheet
        .see(3, &runs("c2", "Reading b"))
        .see(6, &runs("c3", "Reading c"));
    sheet.see(20, &runs("c2", "Reading b"));
    assert_eq!(
        sheet.notes(),
        ["🔧 Reading a...", "🔧 Reading c..."],
        "b was dropped for good"
    );
}

#[test]
fn only_a_tool_that_runs_and_says_what_it_does_is_noted() {
    let mut sheet = Sheet::new();
    for (status, title) in [
        (ToolStatus::Pending, Some("Reading")),
        (ToolStatus::Completed, Some("Reading")),
        (ToolStatus::Error, Some("Reading")),
        (ToolStatus::Running, None),
    ] {
        let content = AgentPart::Tool {
            tool: "read".into(),
            call: "c".into(),
            status,
            title: title.map(str::to_owned),
        };
        sheet.see(0, &part("p", content));
    }
    assert_eq!(sheet.notes(), Vec::<&str>::new());
}

#[test]
fn a_heartbeat_after_silence_shows_typing_again_and_activity_puts_it_off() {
    let mut sheet = Sheet::new();
    assert_eq!(sheet.prompting.deadline(), at(60));
    sheet.see(40, &runs("c1", "Reading"));
    assert_eq!(sheet.prompting.deadline(), at(100));
    sheet.out.clear();
    sheet.prompting.tick(at(99), &mut sheet.out);
    assert_eq!(sheet.out, []);
    sheet.prompting.tick(at(100), &mut sheet.out);
    assert_eq!(
        sheet.out,
        [
            ChatAction::Typing,
            ChatAction::Note("⏳ Still working...".into())
        ]
    );
    assert_eq!(sheet.prompting.deadline(), at(160));
}

#[test]
fn typing_stops_and_events_are_closed_in_every_case() {
    let ends: [fn(&mut Sheet); 5] = [
        |sheet| {
            sheet.see(1, &idle());
        },
        |sheet| sheet.prompting.tick(at(301), &mut sheet.out),
        |sheet| sheet.prompting.cancel(at(1), &mut sheet.out),
        |sheet| sheet.prompting.disconnected(at(1), &mut sheet.out),
        |sheet| sheet.prompting.failed(at(1), "no", &mut sheet.out),
    ];
    for end in ends {
        let mut sheet = Sheet::new();
        end(&mut sheet);
        let [
            ..,
            ChatAction::Unsubscribe,
            ChatAction::Done(_),
            ChatAction::StopTyping,
        ] = &sheet.out[..]
        else {
            panic!("{:?}", sheet.out);
        };
        let said = sheet.out.len();
        end(&mut sheet);
        assert_eq!(sheet.out.len(), said, "nothing after the end");
    }
}

#[test]
fn one_answer_serves_all_questions_and_the_clock_stands_still_meanwhile() {
    let mut sheet = Sheet::new();
    sheet.see(100, &asks("q1", 2));
    assert!(sheet.prompting.is_asking());
    assert!(
        matches!(sheet.out.last(), Some(ChatAction::Ask { text, .. }) if text.starts_with("❓"))
    );
    sheet.out.clear();
    sheet.prompting.answer(at(350), "left", &mut sheet.out);
    let answers = vec![vec!["left".to_owned()]; 2];
    let request = "q1".into();
    assert_eq!(sheet.out, [ChatAction::Answer { request, answers }]);
    // 250 s were spent on the question.
    sheet.prompting.tick(at(549), &mut sheet.out);
    assert_eq!(sheet.reply(), None);
    sheet.prompting.tick(at(550), &mut sheet.out);
    assert_eq!(sheet.reply(), Some(&Err(PromptError::Timeout)));
}

#[test]
fn a_question_that_nobody_answers_is_rejected_and_the_agent_goes_on() {
    let mut sheet = Sheet::new();
    sheet.see(10, &asks("q1", 1)).see(11, &asks("q2", 1));
    assert_eq!(sheet.prompting.deadline(), at(310));
    sheet.out.clear();
    sheet.prompting.tick(at(310), &mut sheet.out);
    let rejected = ChatAction::Reject {
        request: "q1".into(),
    };
    assert_eq!(sheet.out[0], rejected);
    assert!(
        matches!(&sheet.out[1], ChatAction::Ask { request, .. } if request == "q2"),
        "the next one comes"
    );
    sheet.prompting.answer(at(311), "yes", &mut sheet.out);
    sheet.see(312, &says("p", "Fine.")).see(312, &idle());
    assert_eq!(sheet.text(), "Fine.");
}

#[test]
fn what_the_user_is_told_at_each_end() {
    let mut sheet = Sheet::new();
    sheet.prompting.tick(at(300), &mut sheet.out);
    let Some(Err(timeout)) = sheet.reply() else {
        panic!()
    };
    assert_eq!(timeout.to_string(), "timeout");
    let text = "Request timed out. The agent took too long to respond.";
    assert_eq!(timeout.text(), Some(text));
    assert!(sheet.out.contains(&ChatAction::Abort));

    let failed = |is_abort| AgentEvent::Failed {
        session: "s".into(),
        is_abort,
        message: "MessageAbortedError".into(),
    };
    let mut sheet = Sheet::new();
    sheet.see(1, &failed(true));
    let Some(Err(aborted)) = sheet.reply() else {
        panic!()
    };
    assert_eq!((&*aborted.to_string(), aborted.text()), ("aborted", None));

    let mut sheet = Sheet::new();
    sheet.see(1, &failed(false));
    let Some(Err(failed)) = sheet.reply() else {
        panic!()
    };
    assert_eq!(failed.to_string(), "MessageAbortedError");
    assert!(
        failed
            .text()
            .is_some_and(|text| !text.contains("MessageAborted"))
    );

    let mut sheet = Sheet::new();
    sheet.see(1, &grows("p", "Half a"));
    sheet.prompting.disconnected(at(2), &mut sheet.out);
    assert_eq!(sheet.text(), "Half a", "what there is");
    let mut sheet = Sheet::new();
    sheet.see(1, &idle());
    assert_eq!(
        (sheet.text(), EMPTY),
        ("(empty response)", "(empty response)")
    );
}

#[test]
fn without_progress_there_are_no_notes_no_heartbeat_and_no_questions() {
    let silent = ProgressSettings::default().with_enabled(false);
    let mut sheet = Sheet::with(RouterSettings::default().with_progress(silent));
    assert_eq!(sheet.prompting.deadline(), at(300));
    sheet.see(1, &runs("c", "Reading")).see(2, &asks("q", 1));
    sheet.prompting.tick(at(200), &mut sheet.out);
    assert_eq!(sheet.notes(), Vec::<&str>::new());
    let rejected = ChatAction::Reject {
        request: "q".into(),
    };
    assert!(sheet.out.contains(&rejected) && !sheet.prompting.is_asking());
}

type Log = Arc<Mutex<Vec<String>>>;

/// Logs the actions, one per line.
fn written(log: &Log) -> Tell {
    let log = Arc::clone(log);
    Arc::new(move |done| {
        let line = match done {
            Done::Say(message) => {
                let to = message.reply_to.as_ref().map(|id| format!(" (to {id})"));
                format!("say {}{}", message.text, to.unwrap_or_default())
            }
            Done::Type(true) => "typing".to_owned(),
            Done::Type(false) => "stop typing".to_owned(),
            Done::Subscribe(true) => "subscribe".to_owned(),
            Done::Subscribe(false) => "closed".to_owned(),
            Done::Prompt { session, text } => format!("prompt {session} {text}"),
            Done::Abort(session) => format!("abort {session}"),
            Done::Answer(request, answers) => format!("answer {request} {answers:?}"),
            Done::Reject(request) => format!("reject {request}"),
        };
        log.lock().unwrap().push(line);
    })
}

fn chat(constraints: Constraints, log: &Log) -> Chat {
    Chat::new(constraints, written(log))
}

fn server(events: Vec<AgentEvent>, log: &Log) -> Server {
    let events = events.into_iter().map(|event| Next::Event(Box::new(event)));
    Server {
        script: events.collect(),
        refuses: false,
        tell: written(log),
    }
}

fn inbound(text: &str) -> Inbound {
    Inbound {
        channel: "chat".into(),
        peer: "ada".into(),
        text: text.into(),
        id: Some("7".into()),
    }
}

/// Returns every action while a message was answered, with `more` in the inbox.
fn answered(constraints: Constraints, events: Vec<AgentEvent>, more: &[&str]) -> Vec<String> {
    let log = Log::default();
    let mut chat = chat(constraints, &log);
    let mut server = server(events, &log);
    let (inbox, mut arrived) = mpsc::unbounded_channel();
    more.iter()
        .for_each(|text| inbox.send(inbound(text)).unwrap());
    let router = Router {
        agent: &mut server,
        channel: &mut chat,
        peer: "ada",
        inbox: &mut arrived,
    };
    let message = inbound("Go.");
    let answering = respond(router, "s", &message, RouterSettings::default());
    runtime().block_on(answering).0.unwrap();
    log.lock().unwrap().clone()
}

#[test]
fn the_whole_reply_goes_out_as_one_message() {
    let events = vec![
        runs("c", "Looking"),
        says("p", "Hello"),
        grows("p", "!"),
        idle(),
    ];
    assert_eq!(
        answered(WHATSAPP, events, &[]),
        [
            "typing",
            "subscribe",
            "prompt s Go.",
            "say 🔧 Looking...",
            "closed",
            "say Hello! (to 7)",
            "stop typing"
        ]
    );
}

#[test]
fn a_cancel_aborts_and_has_its_own_reply() {
    assert_eq!(
        answered(WHATSAPP, vec![], &["/cancel"]),
        [
            "typing",
            "subscribe",
            "prompt s Go.",
            "abort s",
            "say Cancelled.",
            "closed",
            "stop typing"
        ]
    );
}

#[test]
fn the_next_message_is_the_answer_and_no_prompt() {
    let log = Log::default();
    let mut chat = chat(SLACK, &log);
    let mut server = server(vec![asks("q", 1)], &log);
    let (inbox, mut arrived) = mpsc::unbounded_channel();
    let router = Router {
        agent: &mut server,
        channel: &mut chat,
        peer: "ada",
        inbox: &mut arrived,
    };
    let kept = log.clone();
    let (result, other) = runtime().block_on(async {
        let user = async {
            while !kept
                .lock()
                .unwrap()
                .iter()
                .any(|line| line.starts_with("say ❓"))
            {
                tokio::task::yield_now().await;
            }
            inbox.send(inbound("left")).unwrap();
            inbox.send(inbound("and then?")).unwrap();
            inbox.send(inbound("/cancel")).unwrap();
        };
        let prompting = prompt_streaming(router, "s", "Go.", RouterSettings::default());
        tokio::join!(prompting, user).0
    });
    assert_eq!(result, Err(PromptError::Aborted));
    assert!(
        log.lock()
            .unwrap()
            .contains(&"answer q [[\"left\"]]".to_owned())
    );
    assert_eq!(other, [inbound("and then?")], "given back, not lost");
}

#[test]
fn a_prompt_that_is_refused_closes_the_events_too() {
    let log = Log::default();
    let mut server = server(Vec::new(), &log);
    server.refuses = true;
    let (_inbox, mut arrived) = mpsc::unbounded_channel();
    let mut chat = chat(WHATSAPP, &log);
    let router = Router {
        agent: &mut server,
        channel: &mut chat,
        peer: "ada",
        inbox: &mut arrived,
    };
    let prompting = prompt_streaming(router, "s", "Go.", RouterSettings::default());
    let (result, _) = runtime().block_on(prompting);
    assert_eq!(result, Err(PromptError::Failed("no".into())));
    let done = log.lock().unwrap();
    assert_eq!(
        done.last().unwrap(),
        "closed",
        "typing is for the caller to stop"
    );
}

/// Nobody can answer or cancel any more, and the reply still arrives.
#[test]
fn a_closed_inbox_costs_no_reply() {
    let log = Log::default();
    let mut server = server(vec![says("p", "Hi"), idle()], &log);
    let (inbox, mut arrived) = mpsc::unbounded_channel();
    drop(inbox);
    let mut chat = chat(SLACK, &log);
    let router = Router {
        agent: &mut server,
        channel: &mut chat,
        peer: "ada",
        inbox: &mut arrived,
    };
    let message = inbound("Go.");
    let answering = respond(router, "s", &message, RouterSettings::default());
    runtime().block_on(answering).0.unwrap();
    assert_eq!(log.lock().unwrap().last().unwrap(), "say Hi (to 7)");
}

#[test]
fn the_text_so_far_is_the_reply_when_the_events_end() {
    let log = Log::default();
    let mut server = server(vec![says("p", "Half")], &log);
    server.script.push_back(Next::End);
    let (_inbox, mut arrived) = mpsc::unbounded_channel();
    let mut chat = chat(SLACK, &log);
    let router = Router {
        agent: &mut server,
        channel: &mut chat,
        peer: "ada",
        inbox: &mut arrived,
    };
    let prompting = prompt_streaming(router, "s", "Go.", RouterSettings::default());
    let (result, _) = runtime().block_on(prompting);
    assert_eq!(result.as_deref(), Ok("Half"));
}

#[test]
fn what_a_channel_cannot_show_is_skipped() {
    let events = || vec![says("p", "Hi"), idle()];
    let lines = |constraints| answered(constraints, events(), &[]).join(", ");
    assert_eq!(
        lines(SLACK),
        "subscribe, prompt s Go., closed, say Hi (to 7)"
    );
    assert_eq!(
        lines(TELEGRAM),
        "typing, subscribe, prompt s Go., closed, say Hi (to 7)"
    );
    assert_eq!(TELEGRAM.typing, Typing::Expires(at(5)));
    assert_eq!([WHATSAPP, SLACK].map(|kind| kind.can_edit), [false, true]);
}

#[test]
fn the_console_is_a_channel() {
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let screen = Screen::default();
    let mut console = Console::new(&b"one\ntwo\n"[..], screen.clone());
    assert_eq!(console.status(), ChannelStatus::Stopped);
    assert_eq!((console.id(), console.name()), ("console", "Console"));
    assert_eq!(format!("{console:?}"), "Console { status: Stopped, .. }");
    let (inbox, mut arrived) = mpsc::unbounded_channel();
    console.start(inbox.clone()).unwrap();
    assert!(console.start(inbox).is_err(), "once");
    let first = arrived.blocking_recv().unwrap();
    assert_eq!((&*first.peer, &*first.text), ("console", "one"));
    assert_eq!(arrived.blocking_recv().unwrap().text, "two");
    assert!(console.send_typing("console").is_none());
    let answer = Outbound {
        text: "Hello.".into(),
        reply_to: None,
    };
    runtime().block_on(console.send("console", answer)).unwrap();
    assert_eq!(*screen.0.lock().unwrap(), b"Hello.\n");
}

/// Answers a message over a channel with the results of `goes`; the user sends `/cancel` when the next action after
/// `when` would hang.
fn cancelled(
    events: Vec<AgentEvent>,
    goes: impl Fn(&Done<'_>, &mpsc::UnboundedSender<Inbound>) -> Goes + Send + 'static,
) -> (Vec<String>, bool, Vec<Inbound>) {
    let log = Log::default();
    let (inbox, mut arrived) = mpsc::unbounded_channel();
    let mut chat = chat(WHATSAPP, &log);
    chat.goes = Box::new(move |done| goes(done, &inbox));
    let mut server = server(events, &log);
    let router = Router {
        agent: &mut server,
        channel: &mut chat,
        peer: "ada",
        inbox: &mut arrived,
    };
    let message = inbound("Go.");
    let answering = respond(router, "s", &message, RouterSettings::default());
    // The settings have a limit of five minutes; the cancel must end the prompt before.
    let within = async { tokio::time::timeout(at(60), answering).await };
    let (delivered, other) = runtime().block_on(within).expect("the cancel ends it");
    let log = log.lock().unwrap().clone();
    (log, delivered.is_ok(), other)
}

/// A channel that does not accept a message that starts with `text`; somebody else writes, and then the user cancels.
fn hangs_at(
    text: &'static str,
) -> impl Fn(&Done<'_>, &mpsc::UnboundedSender<Inbound>) -> Goes + Send + 'static {
    move |done, inbox| match done {
        Done::Say(message) if message.text.starts_with(text) => {
            let bob = Inbound {
                peer: "bob".into(),
                ..inbound("/cancel")
            };
            inbox.send(bob).unwrap();
            inbox.send(inbound("/cancel")).unwrap();
            Goes::On
        }
        _ => Goes::Well,
    }
}

#[test]
fn a_cancel_ends_what_the_channel_does_not() {
    // A note, a question, the reply itself.
    let (log, is_delivered, other) = cancelled(vec![runs("c", "Looking")], hangs_at("🔧"));
    assert!(
        is_delivered && log.contains(&"say Cancelled.".to_owned()),
        "{log:?}"
    );
    assert_eq!(log.last().unwrap(), "stop typing");
    assert_eq!((other.len(), &*other[0].peer), (1, "bob"));

    let (log, _, _) = cancelled(vec![asks("q", 1)], hangs_at("❓"));
    for line in ["abort s", "reject q", "say Cancelled."] {
        assert!(log.contains(&line.to_owned()), "{line}: {log:?}");
    }

    let (log, is_delivered, other) = cancelled(vec![says("p", "Done."), idle()], hangs_at("Done."));
    assert!(!is_delivered);
    assert_eq!(log.last().unwrap(), "stop typing");
    assert_eq!(other.len(), 1, "what was written meanwhile is not lost");
}

/// An answer that arrives while the question is being sent counts.
#[test]
fn an_answer_is_taken_while_the_question_is_still_being_sent() {
    let answers = |done: &Done<'_>, inbox: &mpsc::UnboundedSender<Inbound>| match done {
        Done::Say(message) if message.text.starts_with('❓') => {
            inbox.send(inbound("left")).unwrap();
            Goes::On
        }
        _ => Goes::Well,
    };
    let (log, is_delivered, _) = cancelled(vec![asks("q", 1), says("p", "Left."), idle()], answers);
    assert!(is_delivered);
    let answer = "answer q [[\"left\"]]".to_owned();
    assert!(log.contains(&answer), "{log:?}");
    assert!(log.contains(&"say Left. (to 7)".to_owned()), "{log:?}");
}

/// The timeout also bounds a server that accepts a prompt without a response, and one that does not abort.
#[test]
fn a_server_that_hangs_is_bounded_by_the_timeout() {
    struct Stuck;
    impl Agent for Stuck {
        fn subscribe(&mut self) -> AgentFuture<'_, AgentEvents> {
            Box::pin(std::future::pending())
        }
        fn prompt<'a>(&'a mut self, _: &'a str, _: &'a str) -> AgentFuture<'a, ()> {
            Box::pin(std::future::pending())
        }
        fn abort<'a>(&'a mut self, _: &'a str) -> AgentFuture<'a, ()> {
            Box::pin(std::future::pending())
        }
        fn answer<'a>(&'a mut self, _: &'a str, _: Vec<Vec<String>>) -> AgentFuture<'a, ()> {
            Box::pin(std::future::pending())
        }
        fn reject<'a>(&'a mut self, _: &'a str) -> AgentFuture<'a, ()> {
            Box::pin(std::future::pending())
        }
    }
    let log = Log::default();
    let mut chat = chat(WHATSAPP, &log);
    let (_inbox, mut arrived) = mpsc::unbounded_channel();
    let router = Router {
        agent: &mut Stuck,
        channel: &mut chat,
        peer: "ada",
        inbox: &mut arrived,
    };
    let settings = RouterSettings::default().with_timeout_ms(1_000).unwrap();
    let message = inbound("Go.");
    let (delivered, _) = runtime().block_on(respond(router, "s", &message, settings));
    delivered.unwrap();
    let late = "say Request timed out. The agent took too long to respond. (to 7)";
    assert_eq!(*log.lock().unwrap(), ["typing", late, "stop typing"]);
}
