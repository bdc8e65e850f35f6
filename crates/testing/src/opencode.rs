//! An imitation of an OpenCode server. It replays a capture, and waits at the points where the watcher has to act.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// A request that the server has received.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequest {
    /// The method and the path.
    pub line: String,
    pub body: String,
    pub authorization: Option<String>,
}

impl RecordedRequest {
    pub fn is_announcement(&self) -> bool {
        self.line == "POST /tui/publish"
    }
}

/// One action of an event stream.
#[derive(Clone, Debug)]
pub enum Play {
    /// Sends an event.
    Send(String),
    /// Waits for a request whose method and path end with this text.
    Await(&'static str),
    /// Sends the event that is computed from the request that was waited for last.
    Answer(fn(&RecordedRequest) -> String),
    /// Breaks the connection.
    Break,
}

/// Answers a request with JSON, or with `None` never.
type Responder = Box<dyn FnMut(&RecordedRequest) -> Option<String> + Send>;

#[derive(Default)]
struct Shared {
    /// All requests, including those for event streams.
    requests: Mutex<Vec<RecordedRequest>>,
    /// The actions of each event stream, in the order of their connections. Further connections stay silent.
    plays: Mutex<VecDeque<Vec<Play>>>,
    /// The answers that differ from the usual one, by method and end of the path. Each is used once.
    answers: Mutex<Vec<(&'static str, String)>>,
    /// The number of event streams so far, and the number of open ones.
    streams: Mutex<(u32, u32)>,
    /// Answers every request but those for events.
    responder: Mutex<Option<Responder>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Imitation {
    pub url: String,
    shared: Arc<Shared>,
    changed: watch::Sender<u64>,
}

impl Imitation {
    pub async fn start(plays: Vec<Vec<Play>>) -> Imitation {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        *shared.plays.lock().unwrap() = plays.into();
        let changed = watch::Sender::new(0);
        let imitation = Imitation {
            url,
            shared: shared.clone(),
            changed: changed.clone(),
        };
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, shared.clone(), changed.clone()));
            }
        });
        imitation
    }

    /// Answers the next request whose method and path end with `line` with this response.
    pub fn answer(&self, line: &'static str, answer: impl Into<String>) {
        let answer = (line, answer.into());
        self.shared.answers.lock().unwrap().push(answer);
    }

    /// Answers the next request whose method and path end with `line` with this JSON.
    pub fn answer_json(&self, line: &'static str, json: &str) {
        let length = json.len();
        let head = "200 OK\r\ncontent-type: application/json\r\ncontent-length";
        self.answer(line, format!("{head}: {length}\r\n\r\n{json}"));
    }

    /// Answers every further request but those for events with the JSON that `responder` returns; a request for which it
    /// returns `None` gets no answer.
    pub fn respond(
        &self,
        responder: impl FnMut(&RecordedRequest) -> Option<String> + Send + 'static,
    ) {
        *self.shared.responder.lock().unwrap() = Some(Box::new(responder));
    }

    /// Returns the requests that change something: without reads, and without announcements between watchers.
    pub fn changing_requests(&self) -> Vec<RecordedRequest> {
        let mut requests = self.all_requests();
        requests.retain(|request| !request.line.starts_with("GET ") && !request.is_announcement());
        requests
    }

    pub fn all_requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Returns the method and the path of each request that changes something.
    pub fn request_lines(&self) -> Vec<String> {
        self.changing_requests()
            .into_iter()
            .map(|request| request.line)
            .collect()
    }

    pub fn connections(&self) -> u32 {
        self.shared.streams.lock().unwrap().0
    }

    /// Waits until every event stream is closed.
    pub async fn wait_until_closed(&self) {
        let mut changed = self.changed.subscribe();
        let is_closed = || self.shared.streams.lock().unwrap().1 == 0;
        let closed = changed.wait_for(|_| is_closed());
        timeout(Duration::from_secs(20), closed)
            .await
            .expect("it is closed")
            .unwrap();
    }
}

const USUAL: &str = "200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\ntrue";

async fn serve(mut socket: TcpStream, shared: Arc<Shared>, changed: watch::Sender<u64>) {
    let Some(recorded) = request(&mut socket).await else {
        return;
    };
    let bump = || changed.send_modify(|count| *count += 1);
    shared.requests.lock().unwrap().push(recorded.clone());
    if recorded.line.ends_with("/event") && !has_answer(&shared, &recorded.line) {
        {
            let mut streams = shared.streams.lock().unwrap();
            *streams = (streams.0 + 1, streams.1 + 1);
        }
        bump();
        let plays = shared.plays.lock().unwrap().pop_front().unwrap_or_default();
        stream(&mut socket, plays, &shared, changed.subscribe()).await;
        shared.streams.lock().unwrap().1 -= 1;
        bump();
        return;
    }
    let responded = {
        let mut responder = shared.responder.lock().unwrap();
        responder.as_mut().map(|responder| responder(&recorded))
    };
    let answer = match responded {
        Some(Some(json)) => {
            let length = json.len();
            format!(
                "200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
            )
        }
        Some(None) => {
            bump();
            // Waits until the client closes the connection.
            let mut end = [0];
            while matches!(socket.read(&mut end).await, Ok(read) if read > 0) {}
            return;
        }
        None => answer(&shared, &recorded.line),
    };
    bump();
    socket
        .write_all(format!("HTTP/1.1 {answer}").as_bytes())
        .await
        .ok();
    socket.shutdown().await.ok();
}

fn has_answer(shared: &Shared, line: &str) -> bool {
    let answers = shared.answers.lock().unwrap();
    answers.iter().any(|(end, _)| line.ends_with(end))
}

fn answer(shared: &Shared, line: &str) -> String {
    let mut answers = shared.answers.lock().unwrap();
    let known = answers.iter().position(|(end, _)| line.ends_with(end));
    known.map_or_else(|| USUAL.to_owned(), |known| answers.remove(known).1)
}

async fn request(socket: &mut TcpStream) -> Option<RecordedRequest> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let header = |name: &str| {
                let named = |line: &&str| line.to_lowercase().starts_with(&format!("{name}:"));
                let line = head.lines().find(named)?;
                Some(line.split_once(':')?.1.trim().to_owned())
            };
            let length = header("content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                let mut words = head.split(' ');
                return Some(RecordedRequest {
                    line: format!("{} {}", words.next()?, words.next()?),
                    body: body.to_owned(),
                    authorization: header("authorization"),
                });
            }
        }
        match socket.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}

async fn stream(
    socket: &mut TcpStream,
    plays: Vec<Play>,
    shared: &Shared,
    mut changed: watch::Receiver<u64>,
) {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    socket.write_all(HEAD).await.ok();
    let mut heard = shared.requests.lock().unwrap().len();
    for play in plays {
        match play {
            Play::Break => return,
            Play::Send(event) => {
                let frame = format!("data: {event}\n\n");
                if socket.write_all(frame.as_bytes()).await.is_err() {
                    return;
                }
            }
            Play::Answer(event) => {
                let recorded = shared.requests.lock().unwrap()[heard - 1].clone();
                let frame = format!("data: {}\n\n", event(&recorded));
                if socket.write_all(frame.as_bytes()).await.is_err() {
                    return;
                }
            }
            Play::Await(end) => {
                let mut found = || {
                    let requests = shared.requests.lock().unwrap();
                    let next = requests[heard..]
                        .iter()
                        .position(|recorded| recorded.line.ends_with(end));
                    next.inspect(|next| heard += next + 1).is_some()
                };
                let waiting = changed.wait_for(|_| found());
                let waited = timeout(Duration::from_secs(20), waiting).await;
                assert!(waited.is_ok(), "nobody asked for {end}");
            }
        }
    }
    // Wait until the client closes the connection.
    let mut end = [0];
    while matches!(socket.read(&mut end).await, Ok(read) if read > 0) {}
}

/// Returns the actions of the server in a capture. Where a rule hits, and where the recorded client acted, the actions
/// wait for the watcher to act.
pub fn plays(capture: &str, stop: &'static str, prompt: &'static str) -> Vec<Play> {
    // A capture of both interfaces names the interface of each line.
    let is_second = capture.contains("\"sub\":\"/api/event\"");
    let mut plays = Vec::new();
    let mut has_hit = false;
    for line in capture.lines() {
        let is_event = line.contains("\"type\":\"") && !line.contains("\"http\":");
        if line.contains("\"driver\":\"RULE HIT") {
            has_hit = true;
            plays.push(Play::Await(stop));
        } else if has_hit && line.contains("\"http\":\"POST") && line.contains(prompt) {
            plays.push(Play::Await(prompt));
        } else if is_event && (!is_second || line.contains("\"sub\":\"/api/event\"")) {
            plays.push(Play::Send(line.to_owned()));
        }
    }
    plays
}

/// Returns the play that sends an event of the classic API.
pub fn event(kind: &str, properties: serde_json::Value) -> Play {
    Play::Send(serde_json::json!({ "type": kind, "properties": properties }).to_string())
}
