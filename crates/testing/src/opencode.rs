//! An imitation of a server: replays a capture, and waits where whoever watches is to act.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// A request that came.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Method and path.
    pub what: String,
    pub body: String,
    pub authorization: Option<String>,
}

impl Asked {
    pub fn is_announcement(&self) -> bool {
        self.what == "POST /tui/publish"
    }
}

/// One thing that an event stream does.
#[derive(Clone, Debug)]
pub enum Play {
    /// Sends an event.
    Send(String),
    /// Waits for a request whose method and path end like that.
    Await(&'static str),
    /// Sends the event that follows from the request waited for last.
    Answer(fn(&Asked) -> String),
    /// Breaks the connection.
    Break,
}

/// Answers a request with JSON, or with `None` never.
type Responder = Box<dyn FnMut(&Asked) -> Option<String> + Send>;

#[derive(Default)]
struct Shared {
    /// Those for events too.
    asked: Mutex<Vec<Asked>>,
    /// What each connection to the events plays, the first one first; those after the last one stay silent.
    plays: Mutex<VecDeque<Vec<Play>>>,
    /// Answers that differ from the usual, by method and the end of the path, each used once.
    answers: Mutex<Vec<(&'static str, String)>>,
    /// Connections to the events, in all and still open.
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

    /// The next request that ends like that is answered so.
    pub fn answer(&self, what: &'static str, answer: impl Into<String>) {
        let answer = (what, answer.into());
        self.shared.answers.lock().unwrap().push(answer);
    }

    /// The next request that ends like that is answered with this JSON.
    pub fn answer_json(&self, what: &'static str, json: &str) {
        let length = json.len();
        let head = "200 OK\r\ncontent-type: application/json\r\ncontent-length";
        self.answer(what, format!("{head}: {length}\r\n\r\n{json}"));
    }

    /// Answers every further request but those for events with the JSON that `responder` returns; a request for which it
    /// returns `None` gets no answer.
    pub fn respond(&self, responder: impl FnMut(&Asked) -> Option<String> + Send + 'static) {
        *self.shared.responder.lock().unwrap() = Some(Box::new(responder));
    }

    /// Every request that changes something: without reads, and without what watchers tell one another.
    pub fn asked(&self) -> Vec<Asked> {
        let mut asked = self.all_asked();
        asked.retain(|asked| !asked.what.starts_with("GET ") && !asked.is_announcement());
        asked
    }

    pub fn all_asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Method and path of every request, sessions and all.
    pub fn whats(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.what).collect()
    }

    pub fn connections(&self) -> u32 {
        self.shared.streams.lock().unwrap().0
    }

    /// Waits until nobody hears the events any more.
    pub async fn unheard(&self) {
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
    let Some(asked) = request(&mut socket).await else {
        return;
    };
    let bump = || changed.send_modify(|count| *count += 1);
    shared.asked.lock().unwrap().push(asked.clone());
    if asked.what.ends_with("/event") && !has_answer(&shared, &asked.what) {
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
        responder.as_mut().map(|responder| responder(&asked))
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
            // Until the other side is gone.
            let mut end = [0];
            while matches!(socket.read(&mut end).await, Ok(read) if read > 0) {}
            return;
        }
        None => answer(&shared, &asked.what),
    };
    bump();
    socket
        .write_all(format!("HTTP/1.1 {answer}").as_bytes())
        .await
        .ok();
    socket.shutdown().await.ok();
}

fn has_answer(shared: &Shared, what: &str) -> bool {
    let answers = shared.answers.lock().unwrap();
    answers.iter().any(|(end, _)| what.ends_with(end))
}

fn answer(shared: &Shared, what: &str) -> String {
    let mut answers = shared.answers.lock().unwrap();
    let known = answers.iter().position(|(end, _)| what.ends_with(end));
    known.map_or_else(|| USUAL.to_owned(), |known| answers.remove(known).1)
}

async fn request(socket: &mut TcpStream) -> Option<Asked> {
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
                return Some(Asked {
                    what: format!("{} {}", words.next()?, words.next()?),
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
    let mut heard = shared.asked.lock().unwrap().len();
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
                let asked = shared.asked.lock().unwrap()[heard - 1].clone();
                let frame = format!("data: {}\n\n", event(&asked));
                if socket.write_all(frame.as_bytes()).await.is_err() {
                    return;
                }
            }
            Play::Await(end) => {
                let mut found = || {
                    let asked = shared.asked.lock().unwrap();
                    let next = asked[heard..]
                        .iter()
                        .position(|asked| asked.what.ends_with(end));
                    next.inspect(|next| heard += next + 1).is_some()
                };
                let waiting = changed.wait_for(|_| found());
                let waited = timeout(Duration::from_secs(20), waiting).await;
                assert!(waited.is_ok(), "nobody asked for {end}");
            }
        }
    }
    // Until the other side has had enough.
    let mut end = [0];
    while matches!(socket.read(&mut end).await, Ok(read) if read > 0) {}
}

/// What a capture says that the server does. Where rules hit and where the one who captured it acted, whoever
/// watches now has to act.
pub fn plays(capture: &str, stop: &'static str, prompt: &'static str) -> Vec<Play> {
    // Captures of both interfaces at once say which one a line is from.
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
