//! Shared by the examples: a local server that talks endlessly, a rule that hits after some words, a check that the
//! connection was closed, and what the tests of the adapters need.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

#[cfg(test)]
use futures_core::Stream;
#[cfg(test)]
use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};
use ttsr::Pack;
use ttsr::harness::{
    Cancel, End, Hooks, Message, Processor, Provider, Request, Settings, Step, run,
};
#[cfg(test)]
use ttsr::harness::{
    Content, Failure, Role, Tool,
    stream_adapter::{self, EventBuilder},
};
#[cfg(test)]
use ttsr::{Event, PartId};

const RULES: &str = r#"
schema = 1
[pack]
name = "demo"
[rule.no-rm]
description = "No recursive deletes"
severity = "critical"
match.any = [{ literal = "rm -rf" }]
examples.match = ["rm -rf /"]
"#;

/// The maximum number of words that the server sends, one every tenth of a second, until the connection is closed.
const WORDS: usize = 100;

/// Runs one reply under the rule, through the client that `connect` returns for a base address.
pub fn show<P: Provider>(connect: impl FnOnce(&str) -> P) -> Result<(), Box<dyn Error>> {
    let (base, said) = serve()?;
    let pack = Pack::from_toml(RULES)?;
    let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut provider = connect(&base);
        let request = Request::new("gpt-4o-mini", vec![Message::user("Please tidy up.")]);
        let publish = |step: &Step| {
            if let Step::Forward { bytes, .. } = step {
                print!("{}", String::from_utf8_lossy(bytes));
            }
        };
        let cancel = Cancel::default();
        let outcome = run(
            &mut processor,
            &mut provider,
            request,
            "reply",
            cancel,
            publish,
        )
        .await;
        println!();
        let End::Aborted { detail, .. } = outcome.end else {
            return Err("the rule was not broken".into());
        };
        println!("cut: {detail}");
        // A client that reads in a background task closes the connection in that task.
        let said = loop {
            match said.try_recv() {
                Ok(said) => break said,
                Err(TryRecvError::Empty) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(error) => return Err(error.into()),
            }
        };
        println!("the server was hung up on after {said} of {WORDS} words");
        if said == WORDS {
            Err("nobody hung up".into())
        } else {
            Ok(())
        }
    })
}

/// Returns the base address, and a channel with the number of words that the server could send.
fn serve() -> Result<(String, Receiver<usize>), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let base = format!("http://{}/v1", listener.local_addr()?);
    let (told, said) = mpsc::channel();
    thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            told.send(talk(stream).unwrap_or(0)).ok();
        }
    });
    Ok((base, said))
}

fn talk(mut stream: TcpStream) -> std::io::Result<usize> {
    let mut request = [0; 16384];
    // The request is small and arrives in one or two pieces; its content does not matter here.
    let _ = stream.read(&mut request)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    )?;
    let words = ["First", " I", " run", " rm", " -rf", " build"];
    for said in 0..WORDS {
        let word = words.get(said).unwrap_or(&" more");
        let chunk = format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
             \"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"{word}\"}},\
             \"finish_reason\":null}}]}}\n\n"
        );
        if stream.write_all(chunk.as_bytes()).is_err() {
            return Ok(said);
        }
        match stream.read(&mut request) {
            Ok(0) => return Ok(said + 1),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return Ok(said + 1),
        }
    }
    Ok(WORDS)
}

/// A conversation with a call, its result and a tool, for the tests of the adapters.
#[cfg(test)]
pub fn conversation() -> Request {
    let call = Content::ToolCall {
        call: "call_1".into(),
        tool: "read".into(),
        input: r#"{"path":"a"}"#.into(),
    };
    let text = Content::Text {
        text: "I look.".into(),
        synthetic: false,
    };
    let result = Content::ToolResult {
        call: "call_1".into(),
        output: "no such file".into(),
        is_error: true,
    };
    let messages = vec![
        Message::new(Role::System, "Be brief."),
        Message::user("Read a."),
        Message {
            role: Role::Assistant,
            content: vec![text, call],
        },
        Message {
            role: Role::Tool,
            content: vec![result],
        },
    ];
    let mut request = Request::new("a-model", messages);
    request.temperature = Some(500);
    request.max_tokens = Some(100);
    request.headers = vec![("x-initiator".into(), "agent".into())];
    request.tools = vec![Tool {
        name: "read".into(),
        description: "Reads a file.".into(),
        input: serde_json::json!({ "type": "object" }),
    }];
    request
}

/// A conversation with reasoning.
#[cfg(test)]
pub fn reasoning() -> Request {
    let reasoning = Content::Reasoning { text: "hm".into() };
    let message = Message {
        role: Role::Assistant,
        content: vec![reasoning],
    };
    Request::new("a-model", vec![Message::user("Why?"), message])
}

/// A conversation of one message with an image, by `role`.
#[cfg(test)]
pub fn image_of(role: Role) -> Request {
    let message = Message::new(role, "What is it?").with_image("image/png", "iVBORw0KGgo=");
    Request::new("a-model", vec![message])
}

/// Returns the events that an adapter makes of chunks, or its refusal.
#[cfg(test)]
pub fn events<T: Send + Unpin + 'static>(
    chunks: impl IntoIterator<Item = T>,
    read: impl FnMut(T, &mut EventBuilder) -> Result<(), Failure> + Send + Unpin + 'static,
) -> Result<Vec<Event>, Failure> {
    use std::future::poll_fn;
    let chunks: VecDeque<T> = chunks.into_iter().collect();
    let mut events = stream_adapter::chunks(async { Ok(Ready(chunks)) }, read);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut all = Vec::new();
    while let Some(event) = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx))) {
        all.push(event?);
    }
    Ok(all)
}

#[cfg(test)]
struct Ready<T>(VecDeque<T>);

#[cfg(test)]
impl<T: Unpin> Stream for Ready<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
        Poll::Ready(self.0.pop_front())
    }
}

/// Returns the parts of a reply and the reason of its end, in one line.
#[cfg(test)]
pub fn shown(events: &[Event]) -> String {
    let mut parts: Vec<(PartId, String, String)> = Vec::new();
    let mut end = String::new();
    for event in events {
        match event {
            Event::PartStart { part, channel, .. } => {
                parts.push((*part, channel.name().to_owned(), String::new()));
            }
            Event::Tool { part, tool, call } => {
                let known = parts.iter_mut().find(|known| known.0 == *part).unwrap();
                known.1 = format!("tool-input {tool} {}", call.as_deref().unwrap_or("-"));
            }
            Event::Delta { part, bytes } => {
                let known = parts.iter_mut().find(|known| known.0 == *part).unwrap();
                known.2 += std::str::from_utf8(bytes).unwrap();
            }
            Event::Finish { reason } => end = format!(" / {reason}"),
            _ => {}
        }
    }
    let parts = parts
        .into_iter()
        .map(|(_, kind, text)| format!("{kind}: {text}"));
    parts.collect::<Vec<_>>().join(" / ") + &end
}
