//! The recorded streams and transcripts of the corpus, as whole parts.

use std::fs;
use std::path::Path;

use serde_json::Value;
use ttsr::Channel;

/// A recorded reply.
#[derive(Debug)]
pub struct Recording {
    /// The file without its extension, and the line.
    pub name: String,
    /// The parts, in the order in which they begin.
    pub parts: Vec<RecordedPart>,
}

/// A part of a recorded reply.
#[derive(Debug)]
pub struct RecordedPart {
    /// The channel that rules read it on.
    pub channel: Channel,
    /// The tool, for tool calls.
    pub tool: Option<String>,
    /// The text, or the input of the tool.
    pub bytes: Vec<u8>,
}

/// Returns all recordings of the corpus, sorted by file and line.
///
/// # Panics
/// If the folder is not a corpus.
#[must_use]
pub fn recordings(corpus: &Path) -> Vec<Recording> {
    let mut files = vec![corpus.join("transcripts/transcripts.jsonl")];
    let streams = fs::read_dir(corpus.join("streams")).expect("the corpus has streams");
    files.extend(streams.map(|entry| entry.expect("the folder can be read").path()));
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split('.').next().unwrap_or_default();
        let text = fs::read_to_string(&file).expect("the file can be read");
        for (number, line) in text.lines().enumerate() {
            let line: Value = serde_json::from_str(line).expect("one JSON object a line");
            found.push(Recording {
                name: format!("{name} {}", number + 1),
                parts: parts(&line),
            });
        }
    }
    found
}

fn parts(line: &Value) -> Vec<RecordedPart> {
    let parts = line["parts"].as_array().cloned();
    let parts = parts.unwrap_or_else(|| vec![line.clone()]);
    let mut parts: Vec<RecordedPart> = parts.iter().map(part).collect();
    for delta in line["deltas"].as_array().into_iter().flatten() {
        let part = delta[0].as_u64().expect("a delta names its part") as usize;
        let text = delta[1].as_str().unwrap_or_default();
        parts[part].bytes.extend(text.as_bytes());
    }
    parts
}

fn part(part: &Value) -> RecordedPart {
    let kind = part["kind"].as_str().unwrap_or_default();
    RecordedPart {
        channel: Channel::from_name(kind).expect("a part names its channel"),
        tool: part["tool"].as_str().map(str::to_owned),
        bytes: part["text"].as_str().unwrap_or_default().into(),
    }
}
