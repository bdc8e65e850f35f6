//! The reference loop, begun and fed.

use std::time::Duration;

use ttsr::harness::{Hooks, Input, Processor, Settings};
use ttsr::{Channel, Event, Pack};

use super::rules::PART;

/// A loop whose request was sent, with an open part of text.
pub(crate) fn begun(pack: &Pack, hooks: Hooks) -> Processor {
    let mut processor = Processor::new(pack.session(), hooks, Settings::default());
    let mut steps = Vec::new();
    processor.begin("msg_1", &mut steps);
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

/// A delta of that part, in a vector of its own.
pub(crate) fn input(delta: &[u8]) -> Input {
    Input::Event(Event::Delta {
        part: PART,
        bytes: delta.to_vec(),
    })
}
