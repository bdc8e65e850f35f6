//! Set-up of the reference loop, and the loop that only accumulates.

#![allow(dead_code)] // shared; each bench uses some of it

use std::hint::black_box;
use std::time::{Duration, Instant};

use ttsr::harness::{Hooks, Input, Processor, Request, Settings};
use ttsr::{Channel, Event, Pack};

use super::rules::PART;
use super::text::Text;

/// Returns a loop with a sent request and an open text part.
pub(crate) fn begun(pack: &Pack, hooks: Hooks) -> Processor {
    let mut processor = Processor::new(pack, hooks, Settings::default());
    let mut steps = Vec::new();
    processor.begin("msg_1", &mut steps);
    // Rules on what the user writes require it.
    let prepared = processor.prepare(&Request::default(), &mut steps);
    assert!(prepared.is_some(), "the request may be sent");
    processor.step(Duration::ZERO, Input::Sent, &mut steps);
    let start = Event::PartStart {
        part: PART,
        name: "0".to_owned(),
        channel: Channel::Text,
        tool: None,
        call: None,
    };
    processor.step(Duration::ZERO, Input::Event(start), &mut steps);
    processor
}

/// Returns a delta of that part in a separate vector.
pub(crate) fn input(delta: &[u8]) -> Input {
    Input::Event(Event::Delta {
        part: PART,
        bytes: delta.to_vec(),
    })
}

/// Times the minimal host: it appends the deltas, each of which is a separate vector, to a buffer.
pub(crate) fn accumulate(text: &Text) -> Duration {
    let deltas: Vec<Vec<u8>> = text.deltas().map(<[u8]>::to_vec).collect();
    let mut reply = Vec::new();
    let started = Instant::now();
    for delta in deltas {
        reply.extend_from_slice(&delta);
        black_box(delta);
    }
    let took = started.elapsed();
    assert_eq!(reply, text.bytes);
    took
}

/// Times the same deltas through the loop, without hooks.
pub(crate) fn step_all(pack: &Pack, text: &Text) -> Duration {
    let mut processor = begun(pack, Hooks::default());
    let mut steps = Vec::new();
    let inputs: Vec<Input> = text.deltas().map(input).collect();
    let started = Instant::now();
    for input in inputs {
        processor.step(Duration::ZERO, input, &mut steps);
        black_box(&steps);
        steps.clear();
    }
    started.elapsed()
}
