//! Recorded replies as events.

use std::collections::HashMap;
use std::path::PathBuf;

use ttsr::{Channel, Event, PartId};
use ttsr_wire::Reader;

/// The recording of `ttsr bench`.
const EMBEDDED: &str = include_str!("../../crates/cli/src/bench/recording.ndjson");

/// One recorded reply.
pub(crate) type Reply = Vec<Event>;

/// Returns the recorded replies of the corpus, or those of the embedded recording.
pub(crate) fn replies() -> Vec<Reply> {
    let Some(corpus) = std::env::var_os("TTSR_CORPUS").map(PathBuf::from) else {
        return read("embedded", EMBEDDED.as_bytes());
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus.join("streams"))
        .expect("the corpus has a folder of streams")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort();
    let replies = files.iter().flat_map(|file| {
        let bytes = std::fs::read(file).expect("a readable file");
        read(&file.to_string_lossy(), &bytes)
    });
    replies.collect()
}

fn read(name: &str, bytes: &[u8]) -> Vec<Reply> {
    let mut open: HashMap<String, Reply> = HashMap::new();
    let mut ended = Vec::new();
    let mut add = |stream: &str, event: Event| match event {
        Event::Finish { .. } => ended.extend(open.remove(stream)),
        Event::PartStart { .. }
        | Event::Tool { .. }
        | Event::Delta { .. }
        | Event::PartEnd { .. } => {
            open.entry(stream.to_owned()).or_default().push(event);
        }
        _ => {}
    };
    let mut reader = Reader::new(name);
    reader.push(bytes, &mut add);
    reader.finish(&mut add);
    ended
}

/// Returns the number of deltas.
pub(crate) fn deltas(replies: &[Reply]) -> usize {
    let events = replies.iter().flatten();
    events
        .filter(|event| matches!(event, Event::Delta { .. }))
        .count()
}

/// Returns the deltas of all parts on that channel, in the order of arrival; a line feed ends each part.
pub(crate) fn long_part(replies: &[Reply], wanted: Channel) -> Vec<Vec<u8>> {
    let mut deltas = Vec::new();
    for reply in replies {
        let mut parts: Vec<PartId> = Vec::new();
        for event in reply {
            match event {
                Event::PartStart { part, channel, .. } if *channel == wanted => parts.push(*part),
                Event::Delta { part, bytes } if parts.contains(part) => deltas.push(bytes.clone()),
                Event::PartEnd { part } if parts.contains(part) => deltas.push(b"\n".to_vec()),
                _ => {}
            }
        }
    }
    deltas
}

/// Returns a call of a shell whose `command` has that text, in the same deltas.
pub(crate) fn as_command(deltas: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let escaped = |bytes: &Vec<u8>| {
        let text = String::from_utf8_lossy(bytes);
        let json = serde_json::to_string(&text).expect("a string is JSON");
        json.as_bytes()[1..json.len() - 1].to_vec()
    };
    let mut call = vec![br#"{"command":""#.to_vec()];
    call.extend(deltas.iter().map(escaped));
    call.push(br#""}"#.to_vec());
    call
}
