//! Recorded replies, held in memory and played as often as one likes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ttsr::{Channel, Event, Pack, PartId, Stream};
use ttsr_wire::Reader;

use crate::input::{Input, Problems};
use crate::output::tell;

/// Most bytes of deltas that are held; what comes after is left out, which is told.
const MOST: usize = 64 << 20;

/// A reply of a model at work on code, made up: reasoning, text and three calls of tools.
const EMBEDDED: &str = include_str!("recording.ndjson");

/// Several replies, one after the other.
#[derive(Default)]
pub(crate) struct Script {
    /// What the replies were read from.
    pub(crate) names: Vec<String>,
    pub(crate) replies: Vec<Vec<Step>>,
    pub(crate) bytes: usize,
    pub(crate) deltas: usize,
    pub(crate) parts: usize,
    /// Replies under way, by name.
    open: HashMap<String, Vec<Step>>,
    is_full: bool,
}

/// What a stream is told.
pub(crate) enum Step {
    Open(PartId, Channel),
    Tool(PartId, String, String),
    Delta(PartId, Vec<u8>),
    Close(PartId),
}

/// What came of playing.
pub(crate) struct Played {
    pub(crate) took: Duration,
    pub(crate) hits: usize,
}

impl Script {
    pub(crate) fn embedded() -> Script {
        let mut script = Script {
            names: vec!["embedded".to_owned()],
            ..Script::default()
        };
        let mut reader = Reader::new("embedded");
        reader.push(EMBEDDED.as_bytes(), &mut |name, event| {
            script.take(name, event)
        });
        reader.finish(&mut |name, event| script.take(name, event));
        script
    }

    pub(crate) fn read(inputs: &[Input], problems: &mut Problems) -> Script {
        let mut script = Script::default();
        for input in inputs {
            let Some(mut blocks) = input.open(problems) else {
                continue;
            };
            script.names.push(input.name.clone());
            let mut reader = Reader::new(&input.name);
            while let Some(block) = blocks.next(problems) {
                reader.push(block, &mut |name, event| script.take(name, event));
            }
            reader.finish(&mut |name, event| script.take(name, event));
            if reader.format().is_none() {
                problems.tell(&input.name, &"not a recorded stream of a known format");
            }
        }
        script
    }

    fn take(&mut self, name: &str, event: Event) {
        let steps = self.open.entry(name.to_owned()).or_default();
        match event {
            Event::PartStart {
                part,
                channel,
                tool,
                call,
                ..
            } => {
                self.parts += 1;
                steps.push(Step::Open(part, channel));
                steps.extend(tool.map(|tool| Step::Tool(part, tool, call.unwrap_or_default())));
            }
            Event::Tool { part, tool, call } => {
                steps.push(Step::Tool(part, tool, call.unwrap_or_default()));
            }
            Event::Delta { part, bytes } => {
                if self.bytes + bytes.len() > MOST {
                    return self.leave_out();
                }
                self.bytes += bytes.len();
                self.deltas += 1;
                steps.push(Step::Delta(part, bytes));
            }
            Event::PartEnd { part } => steps.push(Step::Close(part)),
            Event::Finish { .. } => {
                let steps = self.open.remove(name).unwrap_or_default();
                self.replies.push(steps);
            }
            _ => {}
        }
    }

    fn leave_out(&mut self) {
        if !std::mem::replace(&mut self.is_full, true) {
            tell(&format_args!(
                "only the first {MOST} bytes of deltas are measured with"
            ));
        }
    }

    /// Plays every reply through a stream of its own, opening and closing included.
    pub(crate) fn play(&self, pack: &Pack) -> Played {
        let mut hits = 0;
        let started = Instant::now();
        for reply in &self.replies {
            let mut stream = pack.stream();
            hits += reply
                .iter()
                .map(|step| step.tell(&mut stream))
                .sum::<usize>();
        }
        Played {
            took: started.elapsed(),
            hits,
        }
    }

    /// The reply with the most bytes.
    pub(crate) fn longest(&self) -> &[Step] {
        let longest = self
            .replies
            .iter()
            .max_by_key(|reply| reply.iter().map(Step::bytes).sum::<usize>());
        longest.map_or(&[], Vec::as_slice)
    }
}

impl Step {
    /// Tells a stream; gives the hits.
    pub(crate) fn tell(&self, stream: &mut Stream) -> usize {
        match self {
            Step::Open(part, channel) => {
                stream.open(*part, *channel);
                0
            }
            Step::Tool(part, name, call) => stream.tool(*part, name, call).len(),
            Step::Delta(part, bytes) => stream.push(*part, bytes).len(),
            Step::Close(part) => stream.close(*part).len(),
        }
    }

    /// Bytes of a delta.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Step::Delta(_, bytes) => bytes.len(),
            _ => 0,
        }
    }
}
