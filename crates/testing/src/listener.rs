// A server for examples in the documentation. They include this file as source (`include!`), because an example only
// sees the public interface. It therefore has no module documentation and is not a module of the library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

/// Serves one request, on a connection of its own, for each of `answers`. Returns the address of the server, and a
/// handle that yields the requests, each with its head and its body.
pub fn answering<const N: usize>(
    answers: [&'static str; N],
) -> std::io::Result<(String, JoinHandle<[String; N]>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let heard = thread::spawn(move || answers.map(|answer| answer_one(&listener, answer)));
    Ok((url, heard))
}

fn answer_one(listener: &TcpListener, answer: &str) -> String {
    let (stream, _) = listener.accept().unwrap();
    let mut request = BufReader::new(&stream);
    let (mut heard, mut line, mut length) = (String::new(), String::new(), 0);
    while request.read_line(&mut line).unwrap() > 2 {
        if let Some(bytes) = line.strip_prefix("content-length: ") {
            length = bytes.trim().parse().unwrap();
        }
        heard += &line;
        line.clear();
    }
    request.take(length).read_to_string(&mut heard).unwrap();
    let head = "HTTP/1.1 200 OK\r\nconnection: close";
    write!(
        &stream,
        "{head}\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    )
    .unwrap();
    heard
}
