//! The time from the end of a client's connection to the end of the proxy's connection to the provider.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::clients::{StampPlace, now, percentile, request};
use crate::provider::{HEAD, chunk_of, read_request};
use crate::servers::Server;
use crate::verdict;

/// The goal for the longest time, in milliseconds.
const GOAL: f64 = 50.0;

/// The progress of a reply when its client goes away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The provider has not answered.
    Waiting,
    /// The client has a delta, and the provider is silent.
    Streaming,
}

/// Times `count` clients that go away in each state of a reply.
pub(crate) async fn run(count: u32) {
    println!();
    for (progress, name) in [
        (Progress::Waiting, "before the reply begins"),
        (Progress::Streaming, "within a reply"),
    ] {
        let mut times = measure(progress, count).await;
        let longest = percentile(&mut times, 100) / 1000.0;
        println!(
            "a client goes away {name}: {:.2} ms (p50), {longest:.2} ms (longest of {count}); goal {GOAL} ms: {}",
            percentile(&mut times, 50) / 1000.0,
            verdict(longest <= GOAL),
        );
    }
}

async fn measure(progress: Progress, count: u32) -> Vec<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let to = listener.local_addr().expect("an address");
    let server = Server::of_role("built-in", to).expect("a proxy");
    let (told, mut heard) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(provide(socket, progress, told.clone()));
        }
    });
    let mut times = Vec::new();
    for number in 0..count {
        let gone = go_away(server.address(), progress, number, &mut heard).await;
        let ended = heard.recv().await.expect("the end of a request");
        times.push(ended.saturating_sub(gone));
    }
    times
}

/// Answers one request, and sends the time of its arrival and the time of the end of its connection.
async fn provide(mut socket: TcpStream, progress: Progress, told: mpsc::Sender<u64>) {
    socket.set_nodelay(true).ok();
    let request = read_request(&mut socket).await;
    assert!(request.is_some(), "a request arrives");
    if progress == Progress::Streaming {
        // No rule holds an empty text.
        let text = format!("{HEAD}{}", chunk_of(""));
        socket
            .write_all(text.as_bytes())
            .await
            .expect("the proxy reads");
    }
    told.send(now()).await.ok();
    let ended = socket.read(&mut [0; 16]).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "nothing follows a request");
    told.send(now()).await.ok();
}

/// Sends a request, closes the connection once the reply has come so far, and returns the time.
async fn go_away(
    address: SocketAddr,
    progress: Progress,
    session: u32,
    heard: &mut mpsc::Receiver<u64>,
) -> u64 {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    socket
        .write_all(request(session, StampPlace::Created).as_bytes())
        .await
        .expect("a request");
    heard.recv().await.expect("the arrival of the request");
    if progress == Progress::Streaming {
        let mut text = Vec::new();
        while !text.windows(9).any(|bytes| bytes == b"\"created\"") {
            let len = socket.read_buf(&mut text).await.expect("a reply");
            assert!(len > 0, "the reply is cut");
        }
    }
    let gone = now();
    drop(socket);
    gone
}
