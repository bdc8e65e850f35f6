//! Recorded bodies of other projects, if `TTSR_CORPUS` names their folder.

use bytes::Bytes;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttsr::{Action, Channel, Pack, Pattern};
use ttsr_testing::{Random, cassette, scale, skip};
use ttsr_wire::{Reader, WireFormat};

use super::replay::{replay, verdicts_of};
use super::replies::{OwnedPiece, Piece, stream, stream_of};
use super::{
    SETTINGS, StreamedApi, aborting, judge_whole, judge_with, new_judge, rule_of,
    streams_with_parts,
};
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

/// The files with recorded response bodies.
pub(crate) fn wire_files(corpus: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&corpus.join("wire"), &mut found);
    found
}

/// Recorded replies with their names: one of `every` at the full scale of tests, fewer below.
pub(crate) fn recorded_replies(
    corpus: &Path,
    every: usize,
) -> impl Iterator<Item = (String, Vec<OwnedPiece>)> {
    let every = every * 100 / scale(100).clamp(1, 100);
    all_recorded_replies(corpus).skip(every - 1).step_by(every)
}

/// All recorded replies with their names.
pub(super) fn all_recorded_replies(
    corpus: &Path,
) -> impl Iterator<Item = (String, Vec<OwnedPiece>)> {
    let mut paths = Vec::new();
    files(&corpus.join("streams"), &mut paths);
    let lines = paths.into_iter().flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines
    });
    lines.map(|line| {
        let line: Value = serde_json::from_str(&line).unwrap();
        (line["stream"].to_string(), pieces_of(&line))
    })
}

/// The parts of a recorded reply.
fn pieces_of(line: &Value) -> Vec<OwnedPiece> {
    let deltas = line["deltas"].as_array().unwrap();
    let of_part = |part: usize| -> Vec<String> {
        let of = deltas.iter().filter(|delta| delta[0] == part);
        of.map(|delta| delta[1].as_str().unwrap().to_owned())
            .collect()
    };
    let parts = line["parts"].as_array().unwrap().iter().enumerate();
    let piece = |(number, part): (usize, &Value)| match part["kind"].as_str().unwrap() {
        "reasoning" => OwnedPiece::Reasoning(of_part(number)),
        "tool-input" => {
            let tool = part["tool"].as_str().unwrap_or("t").to_owned();
            OwnedPiece::Tool(tool, of_part(number))
        }
        _ => OwnedPiece::Text(of_part(number)),
    };
    parts.map(piece).collect()
}

/// Returns true if the API can have the reply: some recordings end within a call, and some calls have no input.
pub(super) fn can_have(api: ModelApi, pieces: &[OwnedPiece]) -> bool {
    let inputs = pieces.iter().filter_map(|piece| match piece {
        OwnedPiece::Tool(_, deltas) => Some(deltas.concat()),
        _ => None,
    });
    let mut inputs = inputs.map(|input| serde_json::from_str::<Value>(&input));
    // These have the input of a call as JSON.
    !matches!(api.unwrapped(), ModelApi::Gemini | ModelApi::OllamaChat)
        || inputs.all(|input| input.is_ok_and(|input| input.is_object()))
}

/// The response bodies of a file.
pub(crate) fn bodies(path: &Path) -> Vec<Vec<u8>> {
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
pub(crate) fn api_of(body: &[u8]) -> Option<ModelApi> {
    let mut reader = Reader::new("body");
    reader.push(body, &mut |_, _| {});
    reader.finish(&mut |_, _| {});
    match reader.format().filter(|_| reader.malformed_events() == 0)? {
        WireFormat::AnthropicMessages => Some(ModelApi::AnthropicMessages),
        WireFormat::OpenAiChat => Some(ModelApi::OpenAiChat),
        WireFormat::OpenAiResponses => Some(ModelApi::OpenAiResponses),
        WireFormat::Gemini => Some(ModelApi::Gemini),
        WireFormat::Ollama => Some(ModelApi::OllamaChat),
        _ => None,
    }
}

/// Checks that the body passes in pieces of `size` bytes. Returns false if it ends within a call.
fn passes(api: impl Into<StreamedApi>, pack: &Pack, body: &[u8], size: usize, name: &str) -> bool {
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
    let pack = aborting("a text that no recording has");
    let mut random = Random::new(11);
    let (mut streams, mut broken_off, mut wholes) = (0, 0, 0);
    for path in wire_files(&folder) {
        for (number, body) in bodies(&path).into_iter().enumerate() {
            let Some(api) = api_of(&body) else { continue };
            let name = format!("{}@{number}", path.display());
            if body.trim_ascii_start().starts_with(b"{") {
                let mut judge = new_judge(api, &pack, SETTINGS);
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
fn a_call_whose_input_has_several_lines_passes_in_every_api() {
    let pack = aborting("a text that no reply has");
    let input = ["{\"path\": [\n  ", "1\r\n", "]\n}"];
    for api in streams_with_parts() {
        let body = stream(api, &[Piece::Text(&["Now."]), Piece::Tool("edit", &input)]);
        for size in [1, body.len()] {
            assert!(passes(
                api,
                &pack,
                body.as_bytes(),
                size,
                &format!("{api:?}")
            ));
        }
    }
}

#[test]
fn recorded_replies_pass_byte_for_byte_in_every_api() {
    let Some(folder) = skip::corpus() else {
        return;
    };
    let pack = aborting("a text that no recording has");
    let mut random = Random::new(13);
    let mut streams = 0;
    for (name, pieces) in recorded_replies(&folder, 1) {
        for api in streams_with_parts().filter(|api| can_have(api.api, &pieces)) {
            let body = stream_of(api, &pieces).into_bytes();
            let name = format!("{api:?} {name}");
            // Byte by byte takes long, so one API of the five is read so.
            let least = if random.one_in(5) {
                1
            } else {
                2 + random.below(200)
            };
            for size in [least, body.len()] {
                assert!(passes(api, &pack, &body, size, &name), "{name}");
            }
            streams += 1;
        }
    }
    println!("{streams} streams");
    assert!(streams > 30);
}

/// The names of the built-in packs that the proxy loads.
fn builtin_names() -> impl Iterator<Item = &'static str> {
    let left_out = [
        "std/pii",
        "opencode/delegate-task-retry",
        "opencode/phase-reminder",
        "opencode/post-read-nudge",
    ];
    Pack::builtin_names().filter(move |name| !left_out.contains(name))
}

/// The built-in packs that the proxy loads, and two rules for the planted texts.
fn builtins() -> Pack {
    let builder = builtin_names().fold(Pack::builder(), |builder, name| builder.builtin(name));
    let rule = |id: &str, pattern: &str, action| {
        rule_of(id, Pattern::regex(pattern), &Channel::STREAMED, action)
    };
    let redact = rule("t/planted", PLANTED_PATTERN, Action::Redact);
    let abort = rule("t/stop", "a planted violation", Action::Abort);
    builder.rule(redact).rule(abort).build().unwrap()
}

const PLANTED: &str = "planted-0123456789abcdef";
const PLANTED_PATTERN: &str = "planted-[0-9a-f]{16}";

/// Checks that the verdicts on a body are those of `ttsr replay`, and that nothing changes without a verdict that acts.
fn judged_as_replayed(
    api: impl Into<StreamedApi>,
    pack: &Pack,
    body: &str,
    size: usize,
    name: &str,
) -> bool {
    let mut judge = new_judge(api, pack, SETTINGS);
    let mut sent = Vec::new();
    for piece in body.as_bytes().chunks(size) {
        judge.push(Bytes::copy_from_slice(piece));
        sent.extend(judge.take());
    }
    let ended = judge.finish();
    sent.extend(judge.take());
    let decided = verdicts_of(judge.decisions());
    let want = replay(pack, body.as_bytes()).verdicts;
    assert_eq!(decided, want, "{name} in pieces of {size}");
    let report = judge.report();
    let acts = report.is_blocked || report.redactions > 0 || ended.is_err();
    assert!(
        acts || sent == body.as_bytes(),
        "{name} in pieces of {size}"
    );
    let sent = String::from_utf8_lossy(&sent);
    for start in 0..PLANTED.len() - 8 {
        let piece = &PLANTED[start..start + 9];
        assert!(!sent.contains(piece), "{name} leaks {piece}: {sent}");
    }
    assert!(!sent.contains("a planted violation"), "{name}: {sent}");
    report.is_blocked || report.redactions > 0
}

#[test]
fn verdicts_on_recorded_replies_are_those_of_a_replay_and_planted_secrets_do_not_leak() {
    let Some(folder) = skip::corpus() else {
        return;
    };
    let pack = builtins();
    let alone: Vec<Pack> = builtin_names()
        .map(|name| Pack::builtin(name).unwrap())
        .collect();
    let mut random = Random::new(17);
    let (mut seen, mut streams, mut acted, mut cuts) = (0, 0, 0, 0);
    let apis: Vec<StreamedApi> = streams_with_parts().collect();
    for (name, pieces) in recorded_replies(&folder, 2) {
        seen += 1;
        let api = random.pick(&apis);
        if can_have(api.api, &pieces) {
            let body = stream_of(api, &pieces);
            let name = format!("{api:?} {name} as recorded");
            // With all packs, and with one of them alone.
            for pack in [&pack, &alone[random.below(alone.len())]] {
                let size = 1 + random.below(300);
                streams += 1;
                acted += u64::from(judged_as_replayed(api, pack, &body, size, &name));
            }
        }
        let texts = pieces.iter().filter_map(|piece| match piece {
            OwnedPiece::Text(deltas) => Some(deltas),
            _ => None,
        });
        let mut texts: Vec<String> = texts.flatten().take(200).cloned().collect();
        if texts.is_empty() {
            continue;
        }
        let mut judged = |texts: &[String], what: &str| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let body = stream(api, &[Piece::Text(&texts)]);
            let name = format!("{api:?} {name} {what}");
            let size = 1 + random.below(300);
            streams += 1;
            acted += u64::from(judged_as_replayed(api, &pack, &body, size, &name));
        };
        let at = texts.len() / 2;
        for cut in 0..=PLANTED.len() {
            let planted = [&PLANTED[..cut], &PLANTED[cut..]].map(str::to_owned);
            let mut with_secret = texts.clone();
            with_secret.splice(
                at..at,
                [" ".into()].into_iter().chain(planted).chain([" ".into()]),
            );
            judged(&with_secret, &format!("with a secret cut at {cut}"));
            cuts += 1;
        }
        texts.insert(at, " a planted violation ".into());
        judged(&texts, "with a violation");
    }
    println!(
        "{streams} streams of {seen} recorded replies, {acted} with a verdict that acts, {cuts} cuts of secrets"
    );
    assert!(acted > cuts);
}

#[test]
fn verdicts_on_recorded_bodies_are_those_of_a_replay() {
    let Some(folder) = skip::corpus() else {
        return;
    };
    let pack = builtins();
    let mut random = Random::new(19);
    let (mut bodies_read, mut acted) = (0, 0);
    for path in wire_files(&folder) {
        for (number, body) in bodies(&path).into_iter().enumerate() {
            let Some(api) = api_of(&body) else { continue };
            let Ok(body) = String::from_utf8(body) else {
                continue;
            };
            if body.trim_start().starts_with('{') {
                continue;
            }
            let name = format!("{}@{number}", path.display());
            for size in [1 + random.below(300), body.len()] {
                acted += u64::from(judged_as_replayed(api, &pack, &body, size, &name));
            }
            bodies_read += 1;
        }
    }
    println!("{bodies_read} bodies, {acted} runs with a verdict that acts");
    assert!(bodies_read > 30);
}
