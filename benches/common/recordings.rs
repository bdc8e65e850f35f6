//! Recorded replies as events.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ttsr::Event;
use ttsr_wire::Reader;

use crate::host::ReplyEvents;

/// The recording of `ttsr bench`.
const EMBEDDED: &str = include_str!("../../crates/cli/src/bench/recording.ndjson");

/// Returns the recorded replies of a corpus, or those of the embedded recording.
pub(crate) fn replies(corpus: Option<&Path>) -> Vec<ReplyEvents> {
    let Some(corpus) = corpus else {
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

fn read(name: &str, bytes: &[u8]) -> Vec<ReplyEvents> {
    let mut open: HashMap<String, ReplyEvents> = HashMap::new();
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
