//! The compact form of a collection of streams: one stream a line, as
//! `{"stream":"…","parts":[{"kind":"text","part":"…","tool":null}],"deltas":[[0,"…"]]}`.
//!
//! `parts` names the parts, each delta is the index of one of them and its text. Other members describe
//! where the stream comes from and are no content.

use super::Source;
use super::json::Json;
use super::reply::{Naming, Replies, Reply, Sink};
use ttsr::Channel;

/// Members of a line that are read, or that say where the stream comes from.
const LINE: [&str; 6] = ["stream", "parts", "deltas", "format", "source", "license"];

#[derive(Debug)]
pub(super) struct Lines {
    replies: Replies,
}

impl Lines {
    pub(super) fn new(default_name: String) -> Lines {
        Lines {
            replies: Replies::new(default_name),
        }
    }
}

impl Source for Lines {
    fn record(&mut self, _kind: &str, line: &Json<'_>, on: Sink<'_>) {
        let reply = self.replies.begin(line.text("stream").as_deref(), on);
        let parts = line.list("parts");
        for part in parts {
            let kind = part.text("kind").unwrap_or_default();
            if Channel::from_name(&kind).is_none() {
                reply.unknown(0, &kind, on);
            }
        }
        for pair in line.list("deltas") {
            delta(reply, parts, pair, on);
        }
        reply.unscanned(line.unread(&LINE), "compact", on);
        self.replies.finish("end", on);
    }

    fn unscanned(&mut self, bytes: u64, kind: &str, on: Sink<'_>) {
        self.replies.unscanned(bytes, kind, on);
    }

    fn finish(&mut self, on: Sink<'_>) {
        self.replies.close(on);
    }
}

fn delta(reply: &mut Reply, parts: &[Json<'_>], pair: &Json<'_>, on: Sink<'_>) {
    let index = pair
        .items()
        .first()
        .and_then(|index| std::str::from_utf8(index.raw()).ok()?.parse::<usize>().ok());
    let (Some(index), [_, text]) = (index, pair.items()) else {
        return reply.unscanned(pair.content(), "compact", on);
    };
    let (Some(part), Some(bytes)) = (parts.get(index), text.string()) else {
        return reply.unscanned(text.content(), "compact", on);
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
    reply.delta(
        Naming {
            key: &key,
            name: &name,
            channel,
            tool: tool.as_deref(),
            call: None,
            grows: false,
        },
        bytes,
        on,
    );
}
