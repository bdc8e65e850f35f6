//! A real socket: the peer must see the close, or an abort saves nothing.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use ttsr::harness::{
    Cancel, End, EventStream, Failure, Hooks, Provider, Request, Run, Step, run, unfold,
};
use ttsr::{Channel, Event, PartId};

use super::{processor, runtime};

/// A provider that makes each read a delta of one text.
struct Plain(SocketAddr);

enum Connection {
    To(SocketAddr),
    Open(TcpStream),
    Over,
}

impl Provider for Plain {
    fn send(&mut self, _: &Request) -> EventStream {
        unfold(Connection::To(self.0), read)
    }
}

async fn read(connection: Connection) -> Option<(Result<Event, Failure>, Connection)> {
    let mut stream = match connection {
        Connection::To(address) => match TcpStream::connect(address).await {
            Ok(stream) => stream,
            Err(error) => {
                let failure = Failure::new("connect", error.to_string());
                return Some((Err(failure), Connection::Over));
            }
        },
        Connection::Open(stream) => stream,
        Connection::Over => return None,
    };
    let mut bytes = vec![0; 64];
    let event = match stream.read(&mut bytes).await {
        Ok(0) => {
            let reason = "eof".to_owned();
            return Some((Ok(Event::Finish { reason }), Connection::Over));
        }
        Ok(count) => {
            bytes.truncate(count);
            Ok(Event::Delta {
                part: PartId(0),
                bytes,
            })
        }
        Err(error) => Err(Failure::new("read", error.to_string())),
    };
    Some((event, Connection::Open(stream)))
}

/// Sends the bytes one by one and keeps the connection open. Reports the close of the peer.
async fn endless(listener: &TcpListener, text: &'static str) -> oneshot::Receiver<()> {
    let (gone, is_gone) = oneshot::channel();
    let (mut stream, _) = listener.accept().await.unwrap();
    tokio::spawn(async move {
        for byte in text.bytes() {
            if stream.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        // The peer never writes, so this read ends when the peer closes.
        if matches!(stream.read(&mut [0; 1]).await, Ok(0) | Err(_)) {
            gone.send(()).unwrap();
        }
    });
    is_gone
}

async fn closes(is_gone: oneshot::Receiver<()>) {
    timeout(Duration::from_secs(10), is_gone)
        .await
        .expect("the peer sees the close")
        .unwrap();
}

#[test]
fn the_peer_sees_the_close_after_an_abort() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut provider = Plain(listener.local_addr().unwrap());
        let mut processor = processor(Hooks::default());
        let request = Request::new("model", Vec::new());
        let mut published = Vec::new();
        let publish = |step: &Step| {
            if let Step::Forward { bytes, .. } = step {
                published.extend_from_slice(bytes);
            }
        };
        let replying = run(
            &mut processor,
            &mut provider,
            request,
            "m",
            Cancel::default(),
            publish,
        );
        let (outcome, is_gone) = tokio::join!(replying, endless(&listener, "now rm -rf / and on"));
        assert!(matches!(outcome.end, End::Aborted { .. }));
        assert!("now rm -rf".as_bytes().starts_with(&published));
        assert!(published.len() < "now rm -rf".len());
        closes(is_gone).await;
    });
}

#[test]
fn the_peer_sees_the_close_before_the_retry_connects() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut provider = Plain(listener.local_addr().unwrap());
        let mut processor = processor(Hooks::default());
        let request = Request::new("model", Vec::new());
        let replying = run(
            &mut processor,
            &mut provider,
            request,
            "m",
            Cancel::default(),
            |_| {},
        );
        let serving = async {
            closes(endless(&listener, "x: any").await).await;
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"x: number").await.unwrap();
        };
        let (outcome, ()) = tokio::join!(replying, serving);
        assert_eq!(outcome.reply.text(Channel::Text), "x: number");
        assert_eq!(outcome.attempts, 2);
    });
}

#[test]
fn the_peer_sees_the_close_when_the_user_cancels_or_the_host_drops_the_reply() {
    for is_drop in [false, true] {
        runtime().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut provider = Plain(listener.local_addr().unwrap());
            let mut processor = processor(Hooks::default());
            let request = Request::new("model", Vec::new());
            let cancel = Cancel::default();
            let mut run = Run::begin(&mut processor, &mut provider, request, "m", cancel.clone());
            let reading = async {
                while let Some(step) = run.next().await {
                    match step {
                        Step::Forward { .. } if is_drop => break,
                        Step::Forward { .. } => cancel.cancel(),
                        _ => {}
                    }
                }
                drop(run);
            };
            let ((), is_gone) = tokio::join!(reading, endless(&listener, "a"));
            closes(is_gone).await;
        });
    }
}

#[test]
fn nobody_there_is_an_error() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut provider = Plain(listener.local_addr().unwrap());
        drop(listener);
        let mut processor = processor(Hooks::default());
        let request = Request::new("model", Vec::new());
        let outcome = run(
            &mut processor,
            &mut provider,
            request,
            "m",
            Cancel::default(),
            |_| {},
        )
        .await;
        let End::Aborted { detail, .. } = outcome.end else {
            panic!("an answer from nowhere");
        };
        assert!(detail.starts_with("connect: "), "{detail}");
    });
}
