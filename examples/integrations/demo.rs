//! Shared by the examples: a local server that talks endlessly, a rule that hits after some words, and a check that the
//! connection was closed.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use ttsr::Pack;
use ttsr::harness::{
    Cancel, End, Hooks, Message, Processor, Provider, Request, Settings, Step, run,
};

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
    let mut processor = Processor::new(pack.session(), Hooks::default(), Settings::default());
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
