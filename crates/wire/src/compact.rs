//! The compact format of this crate for collections of streams: JSON Lines, one stream per line, as
//! `{"stream":"…","parts":[{"kind":"text","part":"…","tool":null}],"deltas":[[0,"…"]]}`.
//!
//! `parts` names the parts; each delta is the index of a part and a text. Other members describe the source of the
//! stream and are known metadata.

use super::FormatReader;
use super::json::JsonValue;
use super::reply::{EventSink, PartSpec, ReplyEmitter, ReplySequence};
use ttsr::Channel;

/// Members of a line that are read or describe the source of the stream.
const LINE: [&str; 6] = ["stream", "parts", "deltas", "format", "source", "license"];

#[derive(Debug)]
pub(super) struct CompactReader {
    replies: ReplySequence,
}

impl CompactReader {
    pub(super) fn new(default_name: String) -> CompactReader {
        CompactReader {
            replies: ReplySequence::new(default_name),
        }
    }
}

impl FormatReader for CompactReader {
    fn read_record(&mut self, _kind: &str, line: &JsonValue<'_>, on: EventSink<'_>) {
        let reply = self.replies.begin(line.text("stream").as_deref(), on);
        let parts = line.list("parts");
        for part in parts {
            let kind = part.text("kind").unwrap_or_default();
            if Channel::from_name(&kind).is_none() {
                reply.count_unknown(0, &kind, on);
            }
        }
        for pair in line.list("deltas") {
            delta(reply, parts, pair, on);
        }
        reply.count_unread(line, &LINE, "compact", on);
        self.replies.finish("end", on);
    }

    fn count_unscanned(&mut self, bytes: u64, kind: &str, on: EventSink<'_>) {
        self.replies.count_unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: EventSink<'_>) {
        self.replies.close(on);
    }
}

fn delta(
    reply: &mut ReplyEmitter,
    parts: &[JsonValue<'_>],
    pair: &JsonValue<'_>,
    on: EventSink<'_>,
) {
    let index = pair
        .items()
        .first()
        .and_then(|index| std::str::from_utf8(index.raw()).ok()?.parse::<usize>().ok());
    let (Some(index), [_, text]) = (index, pair.items()) else {
        return reply.count_unread(pair, &[], "compact", on);
    };
    let (Some(part), Some(bytes)) = (parts.get(index), text.string()) else {
        return reply.count_unread(text, &[], "compact", on);
    };
    let channel = part
        .text("kind")
        .and_then(|kind| Channel::from_name(&kind))
        .unwrap_or(Channel::Text);
    let (key, name, tool) = (
        index.to_string(),
        part.text("part").unwrap_or_default(),
        part.text("tool"),
    );
    reply.push_delta(
        PartSpec {
            key: &key,
            name: &name,
            channel,
            tool: tool.as_deref(),
            call: None,
            name_may_grow: false,
        },
        bytes,
        on,
    );
}
