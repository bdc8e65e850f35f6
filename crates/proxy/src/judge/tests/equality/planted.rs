//! Texts that break rules, and replies with one of them.

use std::collections::HashSet;

use serde_json::{Value, json};
use ttsr::examples::{
    arg_in_regions, arg_names_matching, path_in_regions, path_matching, tool_in_scope,
};
use ttsr::{Channel, Event, Pack, Rule};
use ttsr_testing::Random;
use ttsr_wire::Reader;

use crate::judge::tests::StreamedApi;
use crate::judge::tests::replies::{OwnedPiece, random_deltas, stream_of};
use crate::routes::ModelApi;

/// A text that breaks a rule, on a channel that replies have.
#[derive(Debug)]
pub(super) struct Violation {
    /// The full id of the rule.
    pub(super) rule: String,
    pub(super) channel: Channel,
    pub(super) tool: String,
    /// The text, or the input of the tool.
    text: String,
}

/// Returns the examples of the rules of a pack, each on each channel that a reply has.
pub(super) fn violations(pack: &Pack) -> Vec<Violation> {
    let channels = [
        Channel::Text,
        Channel::Reasoning,
        Channel::ToolInput,
        Channel::ToolOutput,
    ];
    let of_channel = |rule: &Rule, channel| {
        let of_example = |text: &String| Violation::new(rule, channel, text);
        let examples = rule.examples.matching.iter().map(of_example);
        examples.collect::<Vec<_>>()
    };
    let of_rule = |rule: &Rule| {
        let read = channels.iter().filter(|channel| rule.on.contains(channel));
        read.flat_map(|channel| of_channel(rule, *channel))
            .collect::<Vec<_>>()
    };
    pack.rules().iter().flat_map(of_rule).collect()
}

/// Returns the input of a call whose argument, which the rule reads, is the text.
fn call_input(rule: &Rule, text: &str) -> String {
    let arg = rule.args.first().map(String::as_str);
    let names = arg_names_matching(arg.unwrap_or_else(|| arg_in_regions(rule)));
    let nested = |value: Value, name: &String| json!({ name: value });
    let mut input = names.iter().rev().fold(json!(text), nested);
    let path = rule.paths.iter().find(|glob| !glob.starts_with('!'));
    let path = path
        .map(|glob| path_matching(glob))
        .or(path_in_regions(rule));
    if let Some(path) = path {
        input["file_path"] = path.into();
    }
    input.to_string()
}

/// Returns the deltas of the text of a body that are plain words.
fn text_deltas(body: &[u8]) -> Vec<String> {
    let (mut parts, mut found) = (HashSet::new(), Vec::new());
    let mut on = |_: &str, event: Event| match event {
        Event::PartStart {
            part,
            channel: Channel::Text,
            ..
        } => {
            parts.insert(part);
        }
        Event::Delta { part, bytes } if parts.contains(&part) => {
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b' ';
            if !bytes.is_empty() && bytes.iter().all(is_plain) {
                found.extend(String::from_utf8(bytes));
            }
        }
        _ => {}
    };
    let mut reader = Reader::new("body");
    reader.push(body, &mut on);
    reader.finish(&mut on);
    found
}

impl Violation {
    pub(super) fn new(rule: &Rule, channel: Channel, example: &str) -> Violation {
        let text = match channel {
            Channel::ToolInput => call_input(rule, example),
            _ => example.to_owned(),
        };
        Violation {
            rule: rule.id.clone(),
            channel,
            tool: tool_in_scope(rule),
            text,
        }
    }

    /// Returns one of the APIs that can have the violation beside the parts of a reply that those of `apis` can have.
    pub(super) fn api_for(&self, apis: &[StreamedApi], number: usize) -> StreamedApi {
        let fits = |api: &&StreamedApi| self.channel == Channel::Text || api.has_parts();
        let apis: Vec<&StreamedApi> = apis.iter().filter(fits).collect();
        match self.channel {
            // The other APIs have no output of a tool whose name and text are known.
            Channel::ToolOutput => ModelApi::AnthropicMessages.into(),
            _ => *apis[number / 7 % apis.len()],
        }
    }

    /// Returns the stream of a reply with the violation: in the middle of its first text or reasoning, or in a call of its
    /// own, in random deltas.
    pub(super) fn planted_in(
        &self,
        api: StreamedApi,
        pieces: &[OwnedPiece],
        seed: usize,
    ) -> String {
        let mut pieces = pieces.to_vec();
        let deltas = random_deltas(&mut Random::new(seed as u64), &self.text);
        let first = pieces.iter_mut().find(|piece| match piece {
            OwnedPiece::Text(_) => self.channel == Channel::Text,
            OwnedPiece::Reasoning(_) => self.channel == Channel::Reasoning,
            OwnedPiece::Tool(..) => false,
        });
        match (self.channel, first) {
            (Channel::ToolOutput, _) => {
                let stream = stream_of(api, &pieces);
                return self.with_result(&stream, pieces.len());
            }
            (Channel::ToolInput, _) => pieces.push(OwnedPiece::Tool(self.tool.clone(), deltas)),
            (_, Some(OwnedPiece::Text(known) | OwnedPiece::Reasoning(known))) => {
                let at = known.len() / 2;
                let line = || ["\n\n".to_owned()];
                let planted = line().into_iter().chain(deltas).chain(line());
                known.splice(at..at, planted);
            }
            (Channel::Reasoning, _) => pieces.insert(0, OwnedPiece::Reasoning(deltas)),
            _ => pieces.push(OwnedPiece::Text(deltas)),
        }
        stream_of(api, &pieces)
    }

    /// Returns a recorded body with the violation after a word in the middle of its text, if there is one whose JSON is the
    /// same however it is written.
    pub(super) fn planted_in_body(&self, body: &[u8]) -> Option<Vec<u8>> {
        let body = std::str::from_utf8(body).ok()?;
        let words = text_deltas(body.as_bytes());
        let (before, after) = words.split_at(words.len() / 2);
        let violation = json!(format!("\n\n{}\n\n", self.text)).to_string();
        let planted = |word: &String| {
            let forms = ["text", "content", "response"].map(|key| {
                [
                    format!("\"{key}\":\"{word}"),
                    format!("\"{key}\": \"{word}"),
                ]
            });
            let found = |form: &&String| body.contains(&format!("{form}\""));
            let form = forms.iter().flatten().find(found)?;
            let with = format!("{form}{}", &violation[1..]);
            Some(body.replacen(&format!("{form}\""), &with, 1).into_bytes())
        };
        after.iter().chain(before).find_map(planted)
    }

    /// Puts a call of a server's tool, whose output is the text, before the end of a stream of the Messages API that has
    /// `blocks` blocks.
    fn with_result(&self, stream: &str, blocks: usize) -> String {
        let call = json!({
            "type": "mcp_tool_use", "id": "mcptoolu_1", "name": self.tool, "server_name": "s", "input": {},
        });
        let result = json!({
            "type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": false,
            "content": [{"type": "text", "text": self.text}],
        });
        let mut planted = String::new();
        for (index, block) in [call, result].into_iter().enumerate() {
            let index = blocks + index;
            let start =
                json!({"type": "content_block_start", "index": index, "content_block": block});
            let stop = json!({"type": "content_block_stop", "index": index});
            planted += &format!("event: content_block_start\ndata: {start}\n\n");
            planted += &format!("event: content_block_stop\ndata: {stop}\n\n");
        }
        let (before, after) = stream.split_once("event: message_delta").expect("an end");
        format!("{before}{planted}event: message_delta{after}")
    }
}
