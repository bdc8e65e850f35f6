//! Servers of the interface OpenAI Chat that send endless responses without an event, for tests of cancels and bounds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// An endless response.
#[derive(Clone, Debug)]
pub struct Flood {
    pub name: &'static str,
    /// The bytes that are sent once, at the beginning.
    head: &'static str,
    /// The bytes that are sent repeatedly after them.
    repeated: String,
    /// The pause after each byte, or `None` if the bytes are sent as fast as the client reads.
    pause: Option<Duration>,
}

/// A server that sends a [`Flood`] to one client, until the client closes the connection.
#[derive(Debug)]
pub struct FloodServer {
    /// The address, with the path of the interface.
    pub base: String,
    written: Arc<AtomicU64>,
    serving: JoinHandle<()>,
}

impl Flood {
    /// Returns a flood that repeats `event` in the body of a response.
    pub fn of_events(name: &'static str, event: &str) -> Flood {
        Flood::new(name, STREAM, event)
    }

    fn new(name: &'static str, head: &'static str, repeated: &str) -> Flood {
        Flood {
            name,
            head,
            repeated: repeated.to_owned(),
            pause: None,
        }
    }

    fn slow(name: &'static str, head: &'static str, repeated: &str) -> Flood {
        Flood {
            pause: Some(Duration::from_millis(5)),
            ..Flood::new(name, head, repeated)
        }
    }

    /// Returns all floods without an event for the consumer of the stream.
    pub fn all() -> Vec<Flood> {
        const EARLY: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        // Below the most bytes and the most fields of a head that a client accepts.
        let field = format!("link: </{}>\r\n", "a".repeat(600));
        let huge = format!("HTTP/1.1 103 Early Hints\r\n{}\r\n", field.repeat(90));
        let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
        let empty = r#"data: {"choices":[{"index":0,"delta":{"content":""}}]}"#;
        vec![
            Flood::new("heads of status 103", "", EARLY),
            Flood::new("heads of 55 KB", "", &huge),
            Flood::of_events("comments", ": nothing\n\n"),
            Flood::of_events("line ends", "\n"),
            Flood::new("chunks of one byte", CHUNKED, "1\r\n:\r\n1\r\n\n\r\n"),
            Flood::of_events("events without a choice", "data: {\"choices\":[]}\n\n"),
            Flood::of_events("usage", &format!("{usage}\n\n")),
            Flood::of_events("empty deltas", &format!("{empty}\n\n")),
            Flood::slow("a slow head", "", EARLY),
            Flood::slow("slow comments", STREAM, ": nothing\n\n"),
        ]
    }

    /// Starts a server that sends this flood in response to its first request.
    pub fn serve(&self) -> FloodServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let written = Arc::new(AtomicU64::new(0));
        let (flood, count) = (self.clone(), written.clone());
        let serving = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            read_request(&stream);
            flood.send(&stream, &count);
        });
        FloodServer {
            base,
            written,
            serving,
        }
    }

    fn send(&self, mut stream: &TcpStream, written: &AtomicU64) {
        stream.set_nodelay(true).unwrap();
        let copies = 1 + (256 << 10) / self.repeated.len();
        let block = self.repeated.repeat(copies);
        let piece = if self.pause.is_some() { 1 } else { 64 << 10 };
        let mut sent = stream.write_all(self.head.as_bytes());
        while sent.is_ok() {
            for piece in block.as_bytes().chunks(piece) {
                sent = stream.write_all(piece);
                if sent.is_err() {
                    break;
                }
                written.fetch_add(piece.len() as u64, Ordering::Relaxed);
                self.pause.inspect(|pause| thread::sleep(*pause));
            }
        }
    }
}

impl FloodServer {
    /// Waits until this many bytes of the flood have been written.
    pub fn wait_until_written(&self, bytes: u64) {
        while self.written.load(Ordering::Relaxed) < bytes {
            assert!(!self.serving.is_finished(), "the client has left");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until the client has closed the connection.
    pub fn join(self) {
        self.serving.join().unwrap();
    }
}

fn read_request(stream: &TcpStream) {
    let mut request = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while request.read_line(&mut line).unwrap() > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(bytes) = lower.strip_prefix("content-length: ") {
            length = bytes.trim().parse().unwrap();
        }
        line.clear();
    }
    request.take(length).read_to_end(&mut Vec::new()).unwrap();
}
