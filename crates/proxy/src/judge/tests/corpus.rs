//! Recorded bodies of other projects, if `TTSR_CORPUS` names their folder.

use std::path::{Path, PathBuf};

use serde_json::Value;
use ttsr::Pack;
use ttsr_testing::{Random, cassette, scale, skip};
use ttsr_wire::{Reader, WireFormat};

use super::replies::{Piece, stream};
use super::{APIS, SETTINGS, aborting, judge_whole, judge_with};
use crate::judge::ReplyJudge;
use crate::routes::ModelApi;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
    found.sort();
}

/// The response bodies of a file.
fn bodies(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    match path.extension().and_then(|it| it.to_str()) {
        Some("txt") => {
            let text = String::from_utf8(bytes).unwrap();
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            vec![
                lines
                    .map(|line| format!("data: {line}\n\n"))
                    .collect::<String>()
                    .into_bytes(),
            ]
        }
        Some("httprr") => vec![cassette::transcript_body(&bytes)],
        Some("yaml") => cassette::bodies(std::str::from_utf8(&bytes).unwrap()),
        _ => Vec::new(),
    }
}

/// The API of a body that can be read.
fn api_of(body: &[u8]) -> Option<ModelApi> {
    let mut reader = Reader::new("body");
    reader.push(body, &mut |_, _| {});
    reader.finish(&mut |_, _| {});
    match reader.format().filter(|_| reader.malformed_events() == 0)? {
        WireFormat::AnthropicMessages => Some(ModelApi::AnthropicMessages),
        WireFormat::OpenAiChat => Some(ModelApi::OpenAiChat),
        WireFormat::OpenAiResponses => Some(ModelApi::OpenAiResponses),
        _ => None,
    }
}

/// Checks that the body passes in pieces of `size` bytes. Returns false if it ends within a call.
fn passes(api: ModelApi, pack: &Pack, body: &[u8], size: usize, name: &str) -> bool {
    let judged = judge_with(api, pack, SETTINGS, body.chunks(size));
    assert!(!judged.report.is_blocked, "{name}: {}", judged.sent);
    let body = String::from_utf8_lossy(body);
    match judged.ended {
        Ok(()) => assert!(judged.sent == body, "{name} in pieces of {size}"),
        Err(_) => assert!(body.starts_with(&judged.sent), "{name} in pieces of {size}"),
    }
    judged.ended.is_ok()
}

#[test]
fn recorded_bodies_pass_byte_for_byte_under_every_segmentation() {
    let Some(folder) = skip::corpus() else {
        return;
    };
    let mut paths = Vec::new();
    files(&folder.join("wire"), &mut paths);
    let pack = aborting("a text that no recording has");
    let mut random = Random::new(11);
    let (mut streams, mut broken_off, mut wholes) = (0, 0, 0);
    for path in paths {
        for (number, body) in bodies(&path).into_iter().enumerate() {
            let Some(api) = api_of(&body) else { continue };
            let name = format!("{}@{number}", path.display());
            if body.trim_ascii_start().starts_with(b"{") {
                let mut judge = ReplyJudge::new(api, &pack, SETTINGS).unwrap();
                assert_eq!(judge_whole(&mut judge, &body).unwrap(), body, "{name}");
                wholes += 1;
                continue;
            }
            streams += 1;
            let mut is_complete = true;
            for size in [1, 1 + random.below(300), body.len().max(1)] {
                is_complete &= passes(api, &pack, &body, size, &name);
            }
            broken_off += u64::from(!is_complete);
        }
    }
    println!("{streams} streams, of which {broken_off} end within a call; {wholes} whole bodies");
    assert!(streams > 40);
    assert!(broken_off * 20 < streams, "{broken_off} of {streams}");
}

#[test]
fn recorded_replies_pass_byte_for_byte_in_every_api() {
    let Some(folder) = skip::corpus() else {
        return;
    };
    let mut paths = Vec::new();
    files(&folder.join("streams"), &mut paths);
    let pack = aborting("a text that no recording has");
    let mut random = Random::new(13);
    let every = 100 / scale(100).clamp(1, 100);
    let (mut seen, mut streams) = (0, 0);
    for path in paths {
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            seen += 1;
            if seen % every != 0 {
                continue;
            }
            let line: Value = serde_json::from_str(line).unwrap();
            let deltas = line["deltas"].as_array().unwrap();
            let of_part = |part: usize| -> Vec<&str> {
                let of = deltas.iter().filter(|delta| delta[0] == part);
                of.map(|delta| delta[1].as_str().unwrap()).collect()
            };
            let parts = line["parts"].as_array().unwrap();
            let texts: Vec<Vec<&str>> = (0..parts.len()).map(of_part).collect();
            let pieces: Vec<Piece<'_>> = parts
                .iter()
                .zip(&texts)
                .map(|(part, deltas)| match part["kind"].as_str().unwrap() {
                    "reasoning" => Piece::Reasoning(deltas),
                    "tool-input" => Piece::Tool(part["tool"].as_str().unwrap_or("t"), deltas),
                    _ => Piece::Text(deltas),
                })
                .collect();
            for api in APIS {
                let body = stream(api, &pieces).into_bytes();
                let name = format!("{api:?} {}", line["stream"]);
                for size in [1 + random.below(200), body.len()] {
                    assert!(passes(api, &pack, &body, size, &name), "{name}");
                }
                streams += 1;
            }
        }
    }
    println!("{streams} streams of {seen} recorded replies");
    assert!(streams > 30);
}
