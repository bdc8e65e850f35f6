//! The provider of the load: it answers each request with a stream of deltas, each with the time at which it is sent.

use std::net::SocketAddr;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::PAUSE;
use crate::clients::{StampPlace, TIME_REQUEST, now};
use crate::pace::sleep_until;

/// The pieces of the texts. A rule of the built-in packs stops text that repeats itself, so they come in no fixed order.
const WORDS: [&str; 24] = [
    "The ", "answer ", "is ", "in ", "a file", " of the ", "folder", ", I ", "think. ", "First ",
    "open ", "it, ", "then ", "look ", "for ", "words ", "like ", "main", " or ", "test", ".\\n",
    "It ", "needs ", "time ",
];

pub(crate) const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

const LAST: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A provider in tasks of this process.
pub(crate) struct Provider {
    address: SocketAddr,
    accepting: tokio::task::JoinHandle<()>,
}

impl Provider {
    /// Starts a provider whose replies have so many deltas.
    pub(crate) async fn start(deltas: u32) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let address = listener.local_addr().expect("an address");
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_nodelay(true).ok();
                tokio::spawn(answer(socket, deltas));
            }
        });
        Provider { address, accepting }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Returns the event of a delta that is sent now, as a chunk of a body.
fn delta_chunk(number: u32, place: StampPlace) -> String {
    // The high bits of a multiplicative hash.
    let pick = now()
        .wrapping_add(u64::from(number))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        >> 40;
    let text = WORDS[pick as usize % WORDS.len()];
    match place {
        StampPlace::Created => chunk_of(text),
        StampPlace::Text => chunk_of(&format!("{text}at {}", stamp())),
    }
}

/// Returns the time in 19 digits, of which the first is 1: no number of JSON begins with 0.
fn stamp() -> u64 {
    1_000_000_000_000_000_000 + now()
}

/// Returns the event of a delta that is sent now, with that text, in which special characters are escaped.
pub(crate) fn chunk_of(text: &str) -> String {
    let event = format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":{},\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n",
        stamp(),
    );
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// Reads a request to its end. Returns its body, or `None` if the client has closed the connection.
pub(crate) async fn read_request(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let Some(end) = text.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            match socket.read(&mut buffer).await {
                Ok(len @ 1..) => text.extend_from_slice(&buffer[..len]),
                _ => return None,
            }
            continue;
        };
        let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
        let length = head.split_once("content-length: ").map_or(0, |(_, rest)| {
            let digits = rest.lines().next().unwrap_or_default();
            digits.trim().parse().expect("a length")
        });
        let mut rest = vec![0; (end + 4 + length).saturating_sub(text.len())];
        socket.read_exact(&mut rest).await.ok()?;
        let mut body = text.split_off(end + 4);
        body.append(&mut rest);
        return Some(body);
    }
}

async fn answer(mut socket: TcpStream, deltas: u32) {
    while let Some(request) = read_request(&mut socket).await {
        let place = match memchr::memmem::find(&request, TIME_REQUEST.as_bytes()) {
            Some(_) => StampPlace::Text,
            None => StampPlace::Created,
        };
        if socket.write_all(HEAD.as_bytes()).await.is_err() {
            return;
        }
        let began = Instant::now();
        for number in 0..deltas {
            sleep_until(began + PAUSE * number).await;
            if socket
                .write_all(delta_chunk(number, place).as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
        let last = format!("{:x}\r\n{LAST}\r\n0\r\n\r\n", LAST.len());
        if socket.write_all(last.as_bytes()).await.is_err() {
            return;
        }
    }
}
