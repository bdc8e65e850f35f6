//! Helpers of the views' tests: a sink that records every byte, and the cuts of a text.

use super::chunk::{Chunk, ChunkSink, DecidedOffset, Tag};
use ttsr_testing::{Random, skip};

/// A call of a sink, split into bytes so that it does not depend on how the text was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Byte {
        byte: u8,
        tag: Tag,
        start: u64,
        end: u64,
        decided: u64,
    },
    Turn(Tag, u64, u64),
    Cut(u64, u64),
}

#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) seen: Vec<Seen>,
    tag: Option<Tag>,
}

impl ChunkSink for Recorder {
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset) {
        let DecidedOffset {
            offset: at,
            decided,
        } = at;
        self.tag = Some(tag);
        self.seen.push(Seen::Turn(tag, at, decided));
    }

    fn push(&mut self, chunk: Chunk<'_>) {
        assert!(!chunk.bytes.is_empty(), "an empty chunk");
        let tag = self.tag.expect("a chunk before any tag");
        for (index, &byte) in chunk.bytes.iter().enumerate() {
            self.seen.push(Seen::Byte {
                byte,
                tag,
                start: chunk.start(index),
                end: chunk.end(index),
                decided: chunk.decided(index),
            });
        }
    }

    fn cut(&mut self, end: DecidedOffset) {
        let DecidedOffset {
            offset: end,
            decided,
        } = end;
        self.seen.push(Seen::Cut(end, decided));
    }
}

/// Runs `same` on the text byte by byte, cut in two (at every offset of a short text, at about 100 of a long one),
/// and cut at random. Returns the number of runs.
pub(super) fn cuts(text: &[u8], random: &mut Random, mut same: impl FnMut(&[&[u8]])) -> usize {
    let bytes: Vec<&[u8]> = text.chunks(1).collect();
    same(&bytes);
    let mut runs = 1;
    let step = (text.len() / 100).max(1);
    for at in (1..text.len()).step_by(step) {
        same(&[&text[..at], &text[at..]]);
        runs += 1;
    }
    for longest in [2, 3, 7, 20, 90] {
        same(&random.pieces(text, longest));
        runs += 1;
    }
    runs
}

/// Runs `same` on the input byte by byte (its second argument is then true), cut in two (at every offset of a short
/// input, at 400 of a long one), and cut at random. Returns the number of runs, including one for the whole input.
pub(super) fn every_cut(
    input: &[u8],
    random: &mut Random,
    mut same: impl FnMut(&[&[u8]], bool),
) -> usize {
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    same(&bytes, true);
    let two = input.len().saturating_sub(1).min(400);
    for i in 0..two {
        let cut = if input.len() <= 401 {
            i + 1
        } else {
            1 + random.below(input.len() - 1)
        };
        same(&[&input[..cut], &input[cut..]], false);
    }
    for longest in [2, 3, 5, 9, 17, 33, 65, 129] {
        same(&random.pieces(input, longest), false);
    }
    two + 10
}

/// Returns the texts of the corpus, or `None` if there is no corpus.
pub(super) fn skip_or_corpus() -> Option<Vec<String>> {
    let root = skip::corpus()?;
    let transcripts = root.join("transcripts/transcripts.jsonl");
    let mut texts: Vec<String> = lines(&transcripts)
        .iter()
        .map(|line| line["text"].as_str().unwrap().to_owned())
        .collect();
    for file in std::fs::read_dir(root.join("streams")).unwrap() {
        for stream in lines(&file.unwrap().path()) {
            texts.extend(parts(&stream));
        }
    }
    Some(texts)
}

fn lines(path: &std::path::Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn parts(stream: &serde_json::Value) -> Vec<String> {
    let mut texts = vec![String::new(); stream["parts"].as_array().unwrap().len()];
    for delta in stream["deltas"].as_array().unwrap() {
        let part = delta[0].as_u64().unwrap() as usize;
        texts[part].push_str(delta[1].as_str().unwrap());
    }
    texts
}
