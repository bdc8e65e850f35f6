//! The parsed server-sent events equal those of the standard's algorithm on the whole text, under every split, also if
//! events are dropped because of their length.

use ttsr_wire::sse::{CAP, Sse, SseEvent};

#[derive(Debug, PartialEq)]
enum Seen {
    /// Event, id, data, and true if the final blank line is missing.
    Message(String, String, Vec<u8>, bool),
    Stray(Vec<u8>),
    Dropped(u64),
}

// Layout of the input: a byte for the cap, a byte for the cuts, the text.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [cap, cuts, text @ ..] = data else { return };
    let caps = [CAP, usize::from(*cap)];
    for cap in caps {
        let whole = read(text, text.len().max(1), cap);
        assert_eq!(read(text, 1, cap).0, whole.0, "byte by byte");
        let size = usize::from(*cuts) % 29 + 2;
        assert_eq!(read(text, size, cap).0, whole.0, "cut otherwise");
        if cap == CAP {
            assert_eq!(whole, naive(text));
        }
    }
}

fn read(text: &[u8], size: usize, cap: usize) -> (Vec<Seen>, Option<u64>) {
    let (mut sse, mut seen) = (Sse::with_cap(cap), Vec::new());
    let mut note = |event: SseEvent<'_>| {
        seen.push(match event {
            SseEvent::Message {
                event,
                id,
                data,
                incomplete,
            } => Seen::Message(event.to_owned(), id.to_owned(), data.to_vec(), incomplete),
            SseEvent::Stray(line) => Seen::Stray(line.to_vec()),
            SseEvent::Dropped { bytes } => Seen::Dropped(bytes),
            other => unreachable!("{other:?} is new"),
        });
    };
    for piece in text.chunks(size) {
        sse.push(piece, &mut note);
    }
    let retry = sse.retry();
    sse.finish(&mut note);
    (seen, retry)
}

/// The standard's algorithm on the whole text, line by line.
fn naive(text: &[u8]) -> (Vec<Seen>, Option<u64>) {
    let (mut seen, mut retry) = (Vec::new(), None);
    let (mut event, mut id, mut data) = (String::new(), String::new(), None::<Vec<u8>>);
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let line = &rest[..end.unwrap_or(rest.len())];
        let behind = &rest[line.len()..];
        let is_last = behind.is_empty();
        rest = match behind {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => &[],
        };
        if line.is_empty() {
            if let Some(data) = data.take() {
                seen.push(Seen::Message(event.clone(), id.clone(), data, false));
            }
            event.clear();
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let (name, value) = match colon {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"" => {}
            b"data" => match &mut data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => data = Some(value.to_vec()),
            },
            b"event" => event = text(),
            b"id" if value.contains(&0) => {}
            b"id" => id = text(),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                // An event completed only by the end of the input is dropped.
                if !is_last {
                    retry = text().parse().ok().or(retry);
                }
            }
            b"retry" => {}
            _ => seen.push(Seen::Stray(line.to_vec())),
        }
    }
    if let Some(data) = data {
        seen.push(Seen::Message(event, id, data, true));
    }
    (seen, retry)
}
