//! Recorded replies over a socket give the events of the wire reader, however they are cut.

use std::path::{Path, PathBuf};

use ttsr::{Channel, Event};
use ttsr_agent::providers::ProviderApi;
use ttsr_wire::{Reader, WireFormat};

use super::server::{Framing, Plan, Server};
use super::{ask, endpoint, first_reply, play, request, runtime, small};
use ttsr_testing::{cassette, skip};

/// Cuts at awkward offsets: inside characters, between CR and LF, between the two line ends of a blank line.
fn cruel(bytes: &[u8]) -> Vec<usize> {
    let is_cruel = |place: &usize| {
        let (before, after) = (bytes[place - 1], bytes[*place]);
        (0x80..0xC0).contains(&after) || before == b'\r' || before == b'\n'
    };
    (1..bytes.len()).filter(is_cruel).collect()
}

#[test]
fn each_api_under_every_framing_and_segmentation() {
    runtime().block_on(async {
        for api in ProviderApi::ALL {
            let expected = first_reply(small(api));
            for framing in Framing::ALL {
                let plan = Plan::sse(small(api), framing);
                let places = cruel(&plan.bytes());
                assert!(places.len() > 20);
                for plan in [plan.clone(), plan.clone().cut(places), plan.bytewise()] {
                    let came = play(api, plan).await;
                    assert_eq!(came.failure, None, "{api:?} {framing:?}");
                    assert_eq!(came.events, expected, "{api:?} {framing:?}");
                    assert_eq!(came.text(Channel::Text), "Voilà: 🦉 hoots.");
                    assert_eq!(came.text(Channel::ToolInput), "{\"path\":\"é.txt\"}");
                }
            }
        }
    });
}

#[test]
fn richer_recordings_byte_by_byte() {
    runtime().block_on(async {
        for name in ["anthropic.sse", "chat.sse", "responses.sse"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../wire/tests/wire")
                .join(name);
            let body = std::fs::read(path).unwrap();
            for framing in Framing::ALL {
                let came = play(
                    ProviderApi::OpenAiChat,
                    Plan::sse(&body, framing).bytewise(),
                )
                .await;
                assert_eq!(came.events, first_reply(&body), "{name} {framing:?}");
                assert!(came.is_finished());
            }
        }
    });
}

/// The connection closes at every offset: the events read so far are a prefix of the reply without an end.
#[test]
fn a_reply_truncated_at_every_byte_is_never_finished() {
    runtime().block_on(async {
        for api in ProviderApi::ALL {
            let expected = first_reply(small(api));
            for framing in [Framing::Length, Framing::Chunked] {
                let plan = Plan::sse(small(api), framing);
                let plans: Vec<Plan> = (0..plan.len())
                    .map(|length| plan.clone().first(length))
                    .collect();
                let server = Server::start(plans).await;
                let mut endpoint = endpoint(api, &server);
                let mut unfinished = 0;
                for length in 0..plan.len() {
                    let came = ask(&mut endpoint, &request()).await;
                    let place = format!("{api:?} {framing:?} at byte {length}");
                    assert!(expected.starts_with(&came.events), "{place}: {came:?}");
                    assert_ne!(
                        came.is_finished(),
                        came.failure.is_some(),
                        "{place}: {came:?}"
                    );
                    unfinished += usize::from(!came.is_finished());
                }
                // Only the end of the framing follows the last event.
                assert!(
                    unfinished + 40 > plan.len(),
                    "{api:?} {framing:?}: {unfinished}"
                );
            }
        }
    });
}

/// Without a length the body ends with the connection, and only the reply itself shows that it is complete.
#[test]
fn a_body_without_length_is_whole_when_the_reply_is() {
    runtime().block_on(async {
        for api in ProviderApi::ALL {
            let plan = Plan::sse(small(api), Framing::Close);
            let head = plan.len() - small(api).len();
            let plans: Vec<Plan> = (head..plan.len())
                .map(|length| plan.clone().first(length))
                .collect();
            let server = Server::start(plans).await;
            let mut endpoint = endpoint(api, &server);
            let end = match api {
                ProviderApi::OpenAiChat => "\"tool_calls\"}]}",
                ProviderApi::OpenAiResponses => "response.completed\"",
                _ => "\"stop_reason\":\"tool_use\"",
            };
            let text = String::from_utf8_lossy(small(api)).into_owned();
            let end = text.find(end).unwrap();
            for length in 0..small(api).len() {
                let came = ask(&mut endpoint, &request()).await;
                if came.is_finished() {
                    assert!(length > end, "{api:?} is finished at byte {length}");
                } else {
                    assert_eq!(came.kind(), "cut-off", "{api:?} at byte {length}");
                }
            }
        }
    });
}

/// Returns the bodies of the recordings in one file, as server-sent events.
fn bodies(path: &Path) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(path).unwrap();
    match path.extension().and_then(|end| end.to_str()) {
        Some("yaml") => cassette::bodies(&text),
        // One chunk per line, as the clients that recorded them wrote them.
        _ => {
            let lines = text.lines().filter(|line| !line.is_empty());
            let events: Vec<String> = lines.map(|line| format!("data: {line}\n\n")).collect();
            vec![(events.concat() + "data: [DONE]\n\n").into_bytes()]
        }
    }
}

fn api_of(format: WireFormat) -> Option<ProviderApi> {
    match format {
        WireFormat::OpenAiChat => Some(ProviderApi::OpenAiChat),
        WireFormat::OpenAiResponses => Some(ProviderApi::OpenAiResponses),
        WireFormat::AnthropicMessages => Some(ProviderApi::AnthropicMessages),
        _ => None,
    }
}

#[test]
fn the_recordings_of_the_corpus_over_a_socket() {
    let Some(corpus) = skip::corpus() else { return };
    let (mut replies, mut bytes) = (0, 0);
    for folder in ["anthropic-messages", "openai-chat", "openai-responses"] {
        let entries = std::fs::read_dir(corpus.join("wire").join(folder)).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for body in files.iter().flat_map(|path| bodies(path)) {
            let mut reader = Reader::new("reply");
            reader.push(&body, &mut |_, _| {});
            let Some(api) = reader.format().and_then(api_of) else {
                continue;
            };
            let expected = first_reply(&body);
            let is_whole =
                matches!(expected.last(), Some(Event::Finish { reason }) if reason != "truncated");
            // The recordings of cancelled streams have no end; this test does not use them.
            if !is_whole {
                continue;
            }
            runtime().block_on(async {
                for framing in Framing::ALL {
                    let plan = Plan::sse(&body, framing);
                    let places = cruel(&plan.bytes());
                    let came = play(api, plan.cut(places)).await;
                    assert_eq!(came.events, expected, "{folder} {framing:?}");
                }
                if body.len() < 20_000 {
                    let plan = Plan::sse(&body, Framing::Chunked).bytewise();
                    assert_eq!(
                        play(api, plan).await.events,
                        expected,
                        "{folder} byte by byte"
                    );
                }
            });
            replies += 1;
            bytes += body.len();
        }
    }
    assert!(
        replies > 10,
        "only {replies} replies: the test shows little"
    );
    eprintln!("{replies} recorded replies of {bytes} bytes, under every framing");
}
