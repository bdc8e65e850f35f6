//! Rows E7 of `docs/harness.md`: a prompt over a chat channel, driven by the real router, and the console.
//!
//! The agent's events are those of the case, in their order. The user's messages arrive between them, as in the case.

use std::io::{BufReader, Read, Write};
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use ttsr_agent::progress::{
    ChannelAdapter, ChannelStatus, Console, Constraints, Inbound, Outbound, Router, RouterSettings,
    SLACK, TELEGRAM, Typing, WHATSAPP, respond,
};

use super::{Case, Given, Shown};
use crate::sides::{Chat, Done, Goes, Next, Server, Tell};

/// The actions of both sides.
type Log = Arc<Mutex<Vec<Shown>>>;

/// Returns the steps of a case whose settings name a channel.
pub(super) fn run(case: &Case<'_>) -> Vec<Shown> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    match case.settings.channel.as_deref().unwrap() {
        "console" => console(case, &runtime),
        kind => runtime.block_on(chat(case, constraints(case, kind))),
    }
}

fn constraints(case: &Case<'_>, kind: &str) -> Constraints {
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

/// Answers one message.
async fn chat(case: &Case<'_>, constraints: Constraints) -> Vec<Shown> {
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
            None => {
                let message = Inbound {
                    channel: given.text("over").unwrap_or_else(|| "chat".to_owned()),
                    peer: given.text("peer").unwrap_or_else(|| "ada".to_owned()),
                    ..inbound(given.words("user"), None)
                };
                let sender = sender.clone();
                // The receiver may be gone.
                Next::Meanwhile(Box::new(move || drop(sender.send(message))))
            }
        }
    });
    let tell = written(&log);
    let mut server = Server {
        script: script.collect(),
        refuses: false,
        tell: Arc::clone(&tell),
    };
    let mut channel = Chat::new(constraints, tell);
    channel.goes = goes(case);
    let router = Router {
        agent: &mut server,
        channel: &mut channel,
        peer: "ada",
        inbox: &mut inbox,
    };
    let json = serde_json::to_string(&case.settings.router).unwrap();
    let settings = RouterSettings::from_json(&json).unwrap();
    let message = inbound(begin.words("text"), begin.text("id"));
    let (delivered, unread) = respond(router, &session, &message, settings).await;
    if let Err(error) = delivered {
        note(&log, vec![("undelivered", json!(error.to_string()))]);
    }
    for message in unread {
        note(&log, vec![("unread", json!(message.text))]);
    }
    let done = log.lock().unwrap();
    done.clone()
}

/// Returns the operation that fails and the one that hangs.
fn goes(case: &Case<'_>) -> Box<dyn Fn(&Done<'_>) -> Goes + Send> {
    let (fails, hangs) = (case.settings.fails.clone(), case.settings.hangs.clone());
    Box::new(move |done| {
        let holds = |wanted: &Option<String>| match (wanted.as_deref(), done) {
            (Some("typing"), Done::Type(_)) => true,
            (Some(wanted), Done::Say(message)) => message.text.contains(wanted),
            _ => false,
        };
        match (holds(&fails), holds(&hangs)) {
            (true, _) => Goes::Wrong,
            (_, true) => Goes::On,
            _ => Goes::Well,
        }
    })
}

fn inbound(text: String, id: Option<String>) -> Inbound {
    Inbound {
        channel: "chat".to_owned(),
        peer: "ada".to_owned(),
        text,
        id,
    }
}

fn note(log: &Log, shown: Shown) {
    let known = shown.into_iter().filter(|(_, value)| !value.is_null());
    log.lock().unwrap().push(known.collect());
}

/// Returns a function that logs an action in the words of the format.
fn written(log: &Log) -> Tell {
    let log = Arc::clone(log);
    Arc::new(move |done| {
        let shown = match done {
            Done::Say(message) => vec![
                ("say", json!(message.text)),
                ("reply-to", json!(message.reply_to)),
            ],
            Done::Type(on) => vec![("typing", json!(on))],
            Done::Subscribe(on) => vec![("subscribe", json!(on))],
            Done::Prompt { session, text } => {
                vec![("prompt", json!(text)), ("session", json!(session))]
            }
            Done::Abort(session) => vec![("abort", json!(session))],
            Done::Answer(request, answers) => {
                vec![("reply", json!(request)), ("answers", json!(answers))]
            }
            Done::Reject(request) => vec![("reject", json!(request))],
        };
        note(&log, shown);
    })
}

/// Runs the real console; its user types the texts of the case.
fn console(case: &Case<'_>, runtime: &tokio::runtime::Runtime) -> Vec<Shown> {
    let (keys, typed) = std_mpsc::channel();
    let screen = Screen::default();
    let mut console = Console::new(BufReader::new(Typed(typed, Vec::new())), screen.clone());
    let mut keys = Some(keys);
    let mut arrived: Option<UnboundedReceiver<Inbound>> = None;
    let mut out = vec![shown(console.constraints())];
    for table in case.r#in {
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
            // After a stop the input need not be read.
            assert!(typed.is_ok() || console.status() == ChannelStatus::Stopped);
            let message = arrived.as_mut().expect("it was started").blocking_recv();
            let heard = message.as_ref().map_or(json!(false), |it| json!(it.text));
            let of = |name: fn(&Inbound) -> &String| message.as_ref().map(|it| json!(name(it)));
            let (over, peer) = (of(|it| &it.channel), of(|it| &it.peer));
            let shown = [("heard", Some(heard)), ("over", over), ("peer", peer)];
            let shown = shown.into_iter().filter_map(|(key, it)| Some((key, it?)));
            out.push(shown.collect());
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

/// The typed lines, and the bytes that were not read yet.
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
