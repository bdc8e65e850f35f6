//! The text that is timed, and how it is cut.

use std::path::{Path, PathBuf};

/// Bytes of sources from cargo's registry.
const SOURCES: usize = 10 << 20;

/// Some text and the offsets of its deltas: the first is 0, the last its length.
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    pub(crate) deltas: Vec<u32>,
}

impl Text {
    pub(crate) fn new(corpus: &Path) -> Text {
        let mut bytes = Vec::new();
        for file in files(&corpus.join("streams")) {
            for line in lines(&file) {
                let deltas = line["deltas"].as_array().into_iter().flatten();
                deltas
                    .for_each(|delta| bytes.extend(delta[1].as_str().unwrap_or_default().bytes()));
            }
        }
        for line in lines(&corpus.join("transcripts/transcripts.jsonl")) {
            bytes.extend(line["text"].as_str().unwrap_or_default().bytes());
        }
        sources(&mut bytes);
        bytes
            .iter_mut()
            .filter(|byte| !byte.is_ascii())
            .for_each(|byte| *byte = b'?');
        let sizes = sizes(corpus);
        let deltas = cut(bytes.len(), &sizes);
        Text { bytes, deltas }
    }

    pub(crate) fn fixed(&self, size: usize) -> Vec<u32> {
        let mut cuts: Vec<u32> = (0..self.bytes.len() as u32).step_by(size).collect();
        cuts.push(self.bytes.len() as u32);
        cuts
    }

    /// The deltas in the order in which they arrive when every one of `streams` has its own slice of
    /// the text and they take turns.
    pub(crate) fn interleave(&self, cuts: &[u32], streams: usize) -> (Vec<u8>, Vec<u32>) {
        if streams == 1 {
            return (self.bytes.clone(), cuts.to_vec());
        }
        let each = (cuts.len() - 1) / streams;
        let (mut bytes, mut arrived) = (Vec::with_capacity(self.bytes.len()), vec![0]);
        for turn in 0..each {
            for stream in 0..streams {
                let delta = stream * each + turn;
                bytes
                    .extend_from_slice(&self.bytes[cuts[delta] as usize..cuts[delta + 1] as usize]);
                arrived.push(bytes.len() as u32);
            }
        }
        (bytes, arrived)
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn lines(file: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(file).expect("a corpus file");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect()
}

/// Appends Rust, Markdown, JavaScript and Python sources, each file once, in a fixed order.
fn sources(bytes: &mut Vec<u8>) {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let Some(home) = home else { return };
    let end = bytes.len() + SOURCES;
    let mut folders = vec![home.join("registry/src")];
    while let Some(folder) = folders.pop() {
        for path in files(&folder).into_iter().rev() {
            if path.is_dir() {
                folders.push(path);
            } else if is_source(&path) && bytes.len() < end {
                // No file may weigh too much, and tables of data are no text.
                let text = std::fs::read(&path).unwrap_or_default();
                if text.len() < 100 << 10 && !path.to_string_lossy().contains("table") {
                    bytes.extend(text);
                }
            }
        }
        if bytes.len() >= end {
            return bytes.truncate(end);
        }
    }
}

fn is_source(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("rs" | "md" | "js" | "py"))
}

/// Sizes of OpenAI's text deltas: the measured quantiles.
fn sizes(corpus: &Path) -> Vec<usize> {
    let text =
        std::fs::read_to_string(corpus.join("chunk_sizes.json")).expect("the measured sizes");
    let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    let quantiles = value["openai-chat"]["text"]["quantiles_chars_0_to_100_step_1"].as_array();
    let quantiles = quantiles.expect("quantiles of text").iter();
    quantiles
        .take(100)
        .map(|size| size.as_u64().expect("a size") as usize)
        .collect()
}

fn cut(length: usize, sizes: &[usize]) -> Vec<u32> {
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let (mut cuts, mut at) = (vec![0], 0);
    while at < length {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        at = (at + sizes[(random >> 33) as usize % sizes.len()]).min(length);
        cuts.push(at as u32);
    }
    cuts
}
