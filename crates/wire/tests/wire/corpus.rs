//! The corpus of real recordings, in the folder of `TTSR_CORPUS`; without it these tests print that they are skipped
//! and pass.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttsr_wire::WireFormat;

use crate::{Stream, read, read_whole, streams};
use ttsr_testing::{cassette, skip};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn compact_lines(corpus: &Path) -> Vec<Value> {
    let texts = files(&corpus.join("streams"))
        .into_iter()
        .map(|file| std::fs::read_to_string(file).unwrap());
    texts
        .flat_map(|text| {
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The reader gives each compact stream as `serde_json` reads it.
#[test]
fn compact_streams_are_read_exactly() {
    let Some(corpus) = skip::corpus() else { return };
    let (mut count, mut deltas) = (0, 0);
    for file in files(&corpus.join("streams")) {
        let bytes = std::fs::read(&file).unwrap();
        let (events, format) = read([&bytes[..]]);
        assert_eq!(format, Some(WireFormat::Compact));
        assert_eq!(
            read(bytes.chunks(1)).0,
            events,
            "{}: byte by byte",
            file.display()
        );
        let found = streams(&events);
        let lines: Vec<Value> = std::str::from_utf8(&bytes)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(found.len(), lines.len());
        for (stream, line) in found.iter().zip(&lines) {
            assert_eq!(stream.name, line["stream"].as_str().unwrap());
            assert_eq!(
                stream.unscanned_bytes() + stream.errors.len() as u64,
                0,
                "{}",
                stream.name
            );
            let names: Vec<_> = stream
                .parts
                .iter()
                .map(|part| (&part.name[..], part.channel.name(), part.tool.as_deref()))
                .collect();
            let text = |part: &Value, key: &str| part[key].as_str().map(str::to_owned);
            let expected: Vec<_> = line["parts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|part| {
                    (
                        text(part, "part").unwrap(),
                        text(part, "kind").unwrap(),
                        text(part, "tool"),
                    )
                })
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(part, kind, tool)| (&part[..], &kind[..], tool.as_deref()))
                .collect();
            assert_eq!(names, expected, "{}", stream.name);
            assert_eq!(stream.deltas, compact_deltas(line), "{}", stream.name);
            count += 1;
            deltas += stream.deltas.len();
        }
    }
    assert!(count > 0);
    eprintln!("compact: {count} streams, {deltas} deltas, 0 errors");
}

fn compact_deltas(line: &Value) -> Vec<(usize, Vec<u8>)> {
    let pairs = line["deltas"].as_array().unwrap().iter();
    pairs
        .map(|pair| {
            (
                pair[0].as_u64().unwrap() as usize,
                pair[1].as_str().unwrap().into(),
            )
        })
        .collect()
}

/// One response body of a recording.
struct Body {
    file: String,
    /// The index of the interaction in a cassette; `None` for other files.
    number: Option<usize>,
    bytes: Vec<u8>,
}

fn bodies(corpus: &Path, format: &str) -> Vec<Body> {
    let mut bodies = Vec::new();
    for path in files(&corpus.join("wire").join(format)) {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        if file.ends_with(".txt") {
            bodies.push(Body {
                file,
                number: None,
                bytes,
            });
            continue;
        }
        if file.ends_with(".httprr") {
            let bytes = cassette::transcript_body(&bytes);
            bodies.push(Body {
                file,
                number: None,
                bytes,
            });
            continue;
        }
        for (number, bytes) in cassette::bodies(std::str::from_utf8(&bytes).unwrap())
            .into_iter()
            .enumerate()
        {
            if bytes.starts_with(b"\x1f\x8b") {
                skip::test(&format!("{file}@{number} is compressed"));
                continue;
            }
            bodies.push(Body {
                file: file.clone(),
                number: Some(number),
                bytes,
            });
        }
    }
    bodies
}

/// Returns the compact streams that were made from that body.
fn compact_of<'a>(lines: &'a [Value], format: &str, body: &Body) -> Vec<&'a Value> {
    let (repository, path) = body.file.split_once("__").unwrap();
    let tail = &path[path.len().saturating_sub(70)..];
    let made_of = |line: &&Value| {
        let stream = line["stream"].as_str().unwrap();
        let (from, rest) = stream.split_once(':').unwrap();
        let (rest, _) = rest.rsplit_once('#').unwrap();
        let (path, number) = match rest.rsplit_once('@') {
            Some((path, number)) => (path, number.parse().ok()),
            None => (rest, None),
        };
        line["format"] == format
            && from.replace('/', "+") == repository
            && number == body.number
            && path.replace('/', "__").ends_with(tail)
    };
    lines.iter().filter(made_of).collect()
}

/// Returns true if the stream has the parts of the compact form, with the same deltas in the same order. It may have
/// more parts: the compact form leaves out content that did not come in deltas.
fn agrees(stream: &Stream, line: &Value) -> bool {
    let deltas = compact_deltas(line);
    let of = |deltas: &[(usize, Vec<u8>)], part: usize| -> Vec<Vec<u8>> {
        deltas
            .iter()
            .filter(|(of, _)| *of == part)
            .map(|(_, bytes)| bytes.clone())
            .collect()
    };
    let mut pairs = BTreeMap::new();
    for (number, part) in line["parts"].as_array().unwrap().iter().enumerate() {
        let same = |mine: &usize| {
            let own = &stream.parts[*mine];
            !pairs.contains_key(mine)
                && part["kind"] == own.channel.name()
                && (part["tool"].is_null() || part["tool"].as_str() == own.tool.as_deref())
                && of(&stream.deltas, *mine) == of(&deltas, number)
        };
        let Some(mine) = (0..stream.parts.len()).find(same) else {
            return false;
        };
        pairs.insert(mine, number);
    }
    let mine: Vec<_> = stream
        .deltas
        .iter()
        .filter_map(|(part, bytes)| Some((*pairs.get(part)?, bytes.clone())))
        .collect();
    mine == deltas
}

#[test]
fn wire_recordings_agree_with_snapshots_and_with_the_compact_form() {
    let Some(corpus) = skip::corpus() else { return };
    let lines = compact_lines(&corpus);
    let formats = [
        ("anthropic-messages", WireFormat::AnthropicMessages),
        ("openai-chat", WireFormat::OpenAiChat),
        ("openai-completions", WireFormat::OpenAiChat),
        ("openai-responses", WireFormat::OpenAiResponses),
        ("gemini", WireFormat::Gemini),
        ("ollama", WireFormat::Ollama),
        ("cohere-v2", WireFormat::CohereChat),
        ("bedrock-converse", WireFormat::BedrockConverse),
        ("bedrock-invoke-anthropic", WireFormat::AnthropicMessages),
    ];
    for (folder, format) in formats {
        let (mut bodies_read, mut streams_read, mut parts, mut deltas) = (0, 0, 0, 0);
        let (mut snapshots, mut compared, mut unmatched) = (0, 0, 0);
        let mut unscanned: BTreeMap<String, u64> = BTreeMap::new();
        // The compact form does not number bodies without deltas of binary recordings.
        let mut empty: BTreeMap<String, usize> = BTreeMap::new();
        for mut body in bodies(&corpus, folder) {
            let case = format!("{}@{:?}", body.file, body.number);
            let events = read_whole(&body.bytes);
            assert_eq!(
                read(body.bytes.chunks(1)),
                (events.clone(), Some(format)),
                "{case}: byte by byte"
            );
            let found = streams(&events);
            for stream in &found {
                assert!(stream.errors.is_empty(), "{case}: {:?}", stream.errors);
                assert_ne!(stream.finish.as_deref(), Some("truncated"), "{case}");
                for (part, bytes) in &stream.snapshots {
                    assert_eq!(
                        *bytes, stream.parts[*part].bytes,
                        "{case}: {}",
                        stream.parts[*part].name
                    );
                }
                for (bytes, kind) in &stream.unscanned {
                    assert_ne!(kind, "malformed-json", "{case}");
                    *unscanned.entry(kind.clone()).or_default() += bytes;
                }
                snapshots += stream.snapshots.len();
                parts += stream.parts.len();
                deltas += stream.deltas.len();
            }
            let mut rest = found.iter();
            let empty = empty.entry(body.file.clone()).or_default();
            if folder.starts_with("bedrock") {
                let silent = found.iter().all(|stream| stream.deltas.is_empty());
                *empty += usize::from(silent);
                let number = body.number.filter(|_| !silent);
                body.number = number.map(|number| number - *empty);
            }
            let mut made = compact_of(&lines, folder, &body);
            // The compact form does not contain arguments that came value by value.
            made.retain(|line| {
                !compact_deltas(line)
                    .iter()
                    .any(|(_, bytes)| bytes == b"null")
            });
            for line in &made {
                assert!(
                    rest.any(|stream| agrees(stream, line)),
                    "{case}: {}",
                    line["stream"]
                );
                compared += 1;
            }
            unmatched += usize::from(made.is_empty());
            bodies_read += 1;
            streams_read += found.len();
        }
        eprintln!(
            "{folder}: {bodies_read} bodies, {streams_read} streams, {parts} parts, {deltas} deltas; \
             {snapshots} snapshots equal; {compared} streams equal to the compact form, {unmatched} bodies not in it; \
             unscanned {unscanned:?}"
        );
        assert!(bodies_read > 0 && compared > 0);
        assert_eq!(unscanned, BTreeMap::new(), "{folder}");
    }
}
