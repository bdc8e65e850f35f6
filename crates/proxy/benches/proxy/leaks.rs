//! The secrets that reach the client, of those that arrive in two deltas, cut at each of their bytes.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::provider::{HEAD, read_request};
use crate::servers::{SECRET, Server};
use crate::verdict;

/// The member of a delta that has the secret.
#[derive(Clone, Copy)]
enum Place {
    Text,
    Arguments,
}

/// Prints the leaks of each server.
pub(crate) async fn run() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let to = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket));
        }
    });
    println!();
    for (name, server) in [
        ("no rules", Server::of_role("no-rules", to)),
        ("built-in packs", Server::of_role("built-in", to)),
        ("LiteLLM", Server::litellm(to)),
    ] {
        let Some(server) = server else {
            println!("{name} is not installed, and its leaks are not counted");
            continue;
        };
        for (place, what) in [(Place::Text, "text"), (Place::Arguments, "tool input")] {
            let mut leaks = 0;
            for cut in 0..SECRET.len() {
                let body = reply(server.address(), cut, place).await;
                leaks += usize::from(received(&body, place).contains(SECRET));
            }
            print!("{name}: {leaks} of {} secrets leak in {what}", SECRET.len());
            match name {
                "built-in packs" => println!("; goal 0: {}", verdict(leaks == 0)),
                _ => println!(),
            }
        }
    }
}

/// Answers requests whose message names the cut.
async fn answer(mut socket: TcpStream) {
    while let Some(body) = read_request(&mut socket).await {
        // A server may also ask whether the provider is there.
        let Ok(body) = serde_json::from_slice::<Value>(&body) else {
            return;
        };
        let message = body["messages"][0]["content"].as_str();
        let (place, cut) = message.and_then(|it| it.split_once(' ')).expect("a cut");
        let (first, second) = SECRET.split_at(cut.parse().expect("a number"));
        let ends = [format!("{{\"key\": \"{first}"), format!("{second}\"}}")];
        let deltas = match place {
            "text" => [format!("The key is {first}"), format!("{second}, I think.")]
                .map(|text| json!({ "content": text })),
            _ => ends.map(|text| {
                let function = json!({ "name": "save", "arguments": text });
                json!({ "tool_calls": [{ "index": 0, "id": "call", "type": "function", "function": function }] })
            }),
        };
        let mut response = HEAD.to_owned();
        let last = [(json!({}), json!("stop"))];
        for (delta, reason) in deltas.into_iter().map(|it| (it, Value::Null)).chain(last) {
            let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
            let event = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] });
            let event = format!("data: {event}\n\n");
            response += &format!("{:x}\r\n{event}\r\n", event.len());
        }
        response += "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
        if socket.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Returns the response to the request for that cut.
async fn reply(to: SocketAddr, cut: usize, place: Place) -> String {
    let place = match place {
        Place::Text => "text",
        Place::Arguments => "arguments",
    };
    let message = json!({ "role": "user", "content": format!("{place} {cut}") });
    let body = json!({ "model": "m", "messages": [message], "stream": true }).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer dummy\r\n\
         content-type: application/json\r\nsession-id: {place}-{cut}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len(),
    );
    let mut socket = TcpStream::connect(to).await.expect("a connection");
    let sent = socket.write_all(request.as_bytes()).await;
    sent.expect("a request");
    let mut response = Vec::new();
    // A server that stops the reply may break the connection off.
    socket.read_to_end(&mut response).await.ok();
    String::from_utf8_lossy(&response).into_owned()
}

/// Returns the text, or the arguments, that the client has received.
fn received(response: &str, place: Place) -> String {
    let events = response
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|event| serde_json::from_str::<Value>(event).ok());
    let texts = events.filter_map(|event| {
        let delta = &event["choices"][0]["delta"];
        let text = match place {
            Place::Text => &delta["content"],
            Place::Arguments => &delta["tool_calls"][0]["function"]["arguments"],
        };
        text.as_str().map(str::to_owned)
    });
    texts.collect()
}
