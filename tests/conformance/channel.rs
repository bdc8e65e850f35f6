//! Rows E7: a prompt over a chat's channel, driven by the real router, and the console.
//!
//! The agent says what the case says, in its order; what the user writes arrives between its events, as it
//! stands between them in the case.

use std::collections::VecDeque;
use std::future::ready;
use std::io::{BufReader, Read, Write};
use std::pin::Pin;
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use ttsr::harness::progress::{
    Agent, AgentEvent, AgentEvents, Asking, ChannelAdapter, ChannelError, ChannelStatus, Console,
    Constraints, Inbound, Inbox, Outbound, Router, RouterSettings, SLACK, Sending, TELEGRAM,
    Typing, WHATSAPP, respond,
};

use super::{Case, Given, Shown};

/// What was done, by either side.
type Log = Arc<Mutex<Vec<Shown>>>;

/// The steps of a case whose settings name a channel.
pub(super) fn run(case: &Case) -> Vec<Shown> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    match case.settings.channel.as_deref().unwrap() {
        "console" => console(case, &runtime),
        kind => runtime.block_on(chat(case, constraints(case, kind))),
    }
}

fn constraints(case: &Case, kind: &str) -> Constraints {
    match kind {
        "telegram" => TELEGRAM,
        "slack" => SLACK,
        "whatsapp" => WHATSAPP,
        other => panic!("{}: no channel `{other}`", case.name),
    }
}

fn shown(constraints: Constraints) -> Shown {
    let typing = match constraints.typing {
        Typing::Unsupported => ("unsupported", None),
        Typing::Expires(after) => ("expires", Some(after.as_millis() as u64)),
        Typing::UntilStopped => ("until-stopped", None),
        other => panic!("{other:?}"),
    };
    let mut shown = vec![
        ("typing", json!(typing.0)),
        ("can-edit", json!(constraints.can_edit)),
    ];
    shown.extend(typing.1.map(|after| ("after-ms", json!(after))));
    shown
}

/// One message, answered.
async fn chat(case: &Case, constraints: Constraints) -> Vec<Shown> {
    let log = Log::default();
    log.lock().unwrap().push(shown(constraints));
    let (begin, rest) = case.r#in.split_first().expect("a prompt comes first");
    let begin = Given::new(case, begin);
    let session = begin.text("chat").expect("a prompt comes first");
    let (sender, mut inbox) = unbounded_channel();
    let script = rest.iter().map(|table| {
        let given = Given::new(case, table);
        match given.agent_event(&session) {
            Some(event) => Next::Event(Box::new(event)),
            None if given.has("end") => Next::End,
            None => Next::User(inbound(given.words("user"), None)),
        }
    });
    let mut server = Server {
        log: Arc::clone(&log),
        script: script.collect(),
        sender: Some(sender),
    };
    let mut channel = Chat {
        log: Arc::clone(&log),
        constraints,
    };
    let router = Router {
        agent: &mut server,
        channel: &mut channel,
        peer: "ada",
        inbox: &mut inbox,
    };
    let json = serde_json::to_string(&case.settings.router).unwrap();
    let settings = RouterSettings::from_json(&json).unwrap();
    let message = inbound(begin.words("text"), begin.text("id"));
    let unread = respond(router, &session, &message, settings).await.unwrap();
    for message in unread {
        note(&log, vec![("unread", json!(message.text))]);
    }
    let done = log.lock().unwrap();
    done.clone()
}

fn inbound(text: String, id: Option<String>) -> Inbound {
    Inbound {
        peer: "ada".to_owned(),
        text,
        id,
    }
}

fn note(log: &Log, shown: Shown) {
    let known = shown.into_iter().filter(|(_, value)| !value.is_null());
    log.lock().unwrap().push(known.collect());
}

/// What happens next.
enum Next {
    Event(Box<AgentEvent>),
    User(Inbound),
    End,
}

struct Server {
    log: Log,
    script: VecDeque<Next>,
    sender: Option<UnboundedSender<Inbound>>,
}

impl Server {
    fn note<T: Send + 'static>(&self, shown: Shown, said: T) -> Asking<'static, T> {
        note(&self.log, shown);
        Box::pin(ready(Ok(said)))
    }
}

impl Agent for Server {
    fn subscribe(&mut self) -> Asking<'_, AgentEvents> {
        let events: AgentEvents = Box::pin(Events {
            log: Arc::clone(&self.log),
            script: std::mem::take(&mut self.script),
            sender: self.sender.take().expect("one prompt"),
        });
        self.note(vec![("subscribe", json!(true))], events)
    }

    fn prompt<'a>(&'a mut self, session: &'a str, text: &'a str) -> Asking<'a, ()> {
        let shown = vec![("prompt", json!(text)), ("session", json!(session))];
        self.note(shown, ())
    }

    fn abort<'a>(&'a mut self, session: &'a str) -> Asking<'a, ()> {
        self.note(vec![("abort", json!(session))], ())
    }

    fn answer<'a>(&'a mut self, request: &'a str, answers: Vec<Vec<String>>) -> Asking<'a, ()> {
        let shown = vec![("reply", json!(request)), ("answers", json!(answers))];
        self.note(shown, ())
    }

    fn reject<'a>(&'a mut self, request: &'a str) -> Asking<'a, ()> {
        self.note(vec![("reject", json!(request))], ())
    }
}

struct Events {
    log: Log,
    script: VecDeque<Next>,
    sender: UnboundedSender<Inbound>,
}

impl Stream for Events {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        match self.script.pop_front() {
            Some(Next::Event(event)) => Poll::Ready(Some(*event)),
            Some(Next::End) => Poll::Ready(None),
            Some(Next::User(message)) => {
                // Nobody may hear it any more.
                let _ = self.sender.send(message);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        note(&self.log, vec![("subscribe", json!(false))]);
    }
}

/// A channel that can do what its kind can.
struct Chat {
    log: Log,
    constraints: Constraints,
}

impl Chat {
    fn note(&self, shown: Shown) -> Sending<'static> {
        note(&self.log, shown);
        Box::pin(ready(Ok(())))
    }
}

impl ChannelAdapter for Chat {
    fn id(&self) -> &str {
        "chat"
    }

    fn name(&self) -> &str {
        "Chat"
    }

    fn constraints(&self) -> Constraints {
        self.constraints
    }

    fn start(&mut self, _: Inbox) -> Result<(), ChannelError> {
        Ok(())
    }

    fn stop(&mut self) {}

    fn status(&self) -> ChannelStatus {
        ChannelStatus::Running
    }

    fn send<'a>(&'a mut self, _: &'a str, message: Outbound) -> Sending<'a> {
        self.note(vec![
            ("say", json!(message.text)),
            ("reply-to", json!(message.reply_to)),
        ])
    }

    fn send_typing<'a>(&'a mut self, _: &'a str) -> Option<Sending<'a>> {
        let can = self.constraints.typing != Typing::Unsupported;
        can.then(|| self.note(vec![("typing", json!(true))]))
    }

    fn stop_typing<'a>(&'a mut self, _: &'a str) -> Option<Sending<'a>> {
        let must = self.constraints.typing == Typing::UntilStopped;
        must.then(|| self.note(vec![("typing", json!(false))]))
    }
}

/// The real console, whose user types what the case says.
fn console(case: &Case, runtime: &tokio::runtime::Runtime) -> Vec<Shown> {
    let (keys, typed) = std_mpsc::channel();
    let screen = Screen::default();
    let mut console = Console::new(BufReader::new(Typed(typed, Vec::new())), screen.clone());
    let mut keys = Some(keys);
    let mut arrived: Option<UnboundedReceiver<Inbound>> = None;
    let mut out = vec![shown(console.constraints())];
    for table in &case.r#in {
        let given = Given::new(case, table);
        if given.has("start") {
            let (inbox, inbound) = unbounded_channel();
            match console.start(inbox) {
                Ok(()) => arrived = Some(inbound),
                Err(_) => out.push(vec![("refused", json!(true))]),
            }
            out.push(status(&console));
        } else if given.has("stop") {
            console.stop();
            out.push(status(&console));
        } else if let Some(line) = given.text("line") {
            let typed = keys.as_ref().expect("it was not hung up").send(line + "\n");
            // After a stop nobody need read it.
            assert!(typed.is_ok() || console.status() == ChannelStatus::Stopped);
            let message = arrived.as_mut().expect("it was started").blocking_recv();
            let heard = message.as_ref().map_or(json!(false), |it| json!(it.text));
            let peer = message.map_or(json!(null), |message| json!(message.peer));
            out.push(vec![("heard", heard), ("peer", peer)]);
        } else if given.has("end") {
            keys = None;
            let message = arrived.as_mut().expect("it was started").blocking_recv();
            assert_eq!(message, None);
            out.push(status(&console));
        } else if let Some(text) = given.text("say") {
            let message = Outbound {
                text,
                reply_to: given.text("reply-to"),
            };
            let typing = console.send_typing("console").is_some();
            assert_eq!(typing, console.constraints().typing != Typing::Unsupported);
            runtime.block_on(console.send("console", message)).unwrap();
            out.push(vec![("screen", json!(screen.take()))]);
        } else {
            panic!("{}: no input of a console: {table:?}", case.name);
        }
    }
    for shown in &mut out {
        shown.retain(|(_, value)| !value.is_null());
    }
    out
}

fn status(console: &Console) -> Shown {
    let status = match console.status() {
        ChannelStatus::Running => "running",
        ChannelStatus::Stopped => "stopped",
        other => panic!("{other:?}"),
    };
    vec![("status", json!(status))]
}

/// What is typed, and what of it was not read yet.
struct Typed(std_mpsc::Receiver<String>, Vec<u8>);

impl Read for Typed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.1.is_empty() {
            self.1 = self.0.recv().unwrap_or_default().into_bytes();
        }
        let read = into.len().min(self.1.len());
        into[..read].copy_from_slice(&self.1[..read]);
        self.1.drain(..read);
        Ok(read)
    }
}

#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Screen {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
