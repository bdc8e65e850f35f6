//! Recorded replies, held in memory so that they can be replayed any number of times.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ttsr::{Event, Pack, Stream};
use ttsr_wire::Reader;

use super::host::ReplyEvents;
use crate::input::{InputFile, InputProblems};
use crate::output::print_message;

/// Maximum number of delta bytes held. The rest is skipped and reported.
const MOST: usize = 64 << 20;

/// A made-up reply of a coding model: reasoning, text and three tool calls.
const EMBEDDED: &str = include_str!("recording.ndjson");

/// Several replies, replayed one after another.
#[derive(Default)]
pub(crate) struct ReplayScript {
    /// The names of the files the replies were read from.
    pub(crate) names: Vec<String>,
    pub(crate) replies: Vec<ReplyEvents>,
    pub(crate) bytes: usize,
    pub(crate) deltas: usize,
    pub(crate) parts: usize,
    /// Replies that have not ended yet, by stream name.
    open: HashMap<String, ReplyEvents>,
    is_full: bool,
}

/// The result of one replay.
pub(crate) struct ReplayCounts {
    pub(crate) took: Duration,
    pub(crate) hits: usize,
}

impl ReplayScript {
    pub(crate) fn embedded() -> ReplayScript {
        let mut script = ReplayScript {
            names: vec!["embedded".to_owned()],
            ..ReplayScript::default()
        };
        let mut reader = Reader::new("embedded");
        reader.push(EMBEDDED.as_bytes(), &mut |name, event| {
            script.push_event(name, event)
        });
        reader.finish(&mut |name, event| script.push_event(name, event));
        script
    }

    pub(crate) fn read(inputs: &[InputFile], problems: &mut InputProblems) -> ReplayScript {
        let mut script = ReplayScript::default();
        for input in inputs {
            let Some(mut blocks) = input.open(problems) else {
                continue;
            };
            script.names.push(input.name.clone());
            let mut reader = Reader::new(&input.name);
            while let Some(block) = blocks.next(problems) {
                reader.push(block, &mut |name, event| script.push_event(name, event));
            }
            reader.finish(&mut |name, event| script.push_event(name, event));
            if reader.format().is_none() {
                problems.report(&input.name, &"not a recorded stream of a known format");
            }
        }
        script
    }

    fn push_event(&mut self, name: &str, event: Event) {
        match &event {
            Event::PartStart { .. } => self.parts += 1,
            Event::Delta { bytes, .. } => {
                if self.bytes + bytes.len() > MOST {
                    return self.leave_out();
                }
                self.bytes += bytes.len();
                self.deltas += 1;
            }
            Event::Finish { .. } => {
                let reply = self.open.remove(name).unwrap_or_default();
                return self.replies.push(reply);
            }
            Event::Tool { .. } | Event::Outcome { .. } | Event::PartEnd { .. } => {}
            // Without text that rules read.
            Event::Snapshot { .. }
            | Event::Unscanned { .. }
            | Event::Usage { .. }
            | Event::Restart
            | Event::Error { .. } => return,
        }
        self.open.entry(name.to_owned()).or_default().push(event);
    }

    fn leave_out(&mut self) {
        if !std::mem::replace(&mut self.is_full, true) {
            print_message(&format_args!(
                "only the first {MOST} bytes of deltas are measured"
            ));
        }
    }

    /// Replays every reply through its own stream, including opening and closing it.
    pub(crate) fn play(&self, pack: &Pack) -> ReplayCounts {
        let mut hits = 0;
        let started = Instant::now();
        for reply in &self.replies {
            let mut stream = pack.stream();
            hits += reply
                .iter()
                .map(|event| apply(event, &mut stream))
                .sum::<usize>();
        }
        ReplayCounts {
            took: started.elapsed(),
            hits,
        }
    }

    /// Returns the reply with the most bytes.
    pub(crate) fn longest(&self) -> &[Event] {
        let longest = self
            .replies
            .iter()
            .max_by_key(|reply| reply.iter().map(delta_bytes).sum::<usize>());
        longest.map_or(&[], Vec::as_slice)
    }
}

/// Applies an event to a stream and returns the number of hits.
pub(crate) fn apply(event: &Event, stream: &mut Stream) -> usize {
    match event {
        Event::PartStart {
            part,
            channel,
            tool,
            call,
            ..
        } => {
            stream.open(*part, *channel);
            let call = call.as_deref().unwrap_or_default();
            let tool = tool.as_deref();
            tool.map_or(0, |tool| stream.set_tool(*part, tool, call).len())
        }
        Event::Tool { part, tool, call } => {
            let call = call.as_deref().unwrap_or_default();
            stream.set_tool(*part, tool, call).len()
        }
        Event::Outcome { part, outcome } => {
            stream.set_outcome(*part, *outcome);
            0
        }
        Event::Delta { part, bytes } => stream.push(*part, bytes).len(),
        Event::PartEnd { part } => stream.close(*part).len(),
        // A script has none of the others.
        _ => 0,
    }
}

/// Returns the number of bytes if this is a delta, else 0.
pub(crate) fn delta_bytes(event: &Event) -> usize {
    match event {
        Event::Delta { bytes, .. } => bytes.len(),
        _ => 0,
    }
}
