//! The cases. The set-up of a case is not counted.

use std::hint::black_box;

use ttsr::{Channel, Limits, Pack, Stream};

use crate::common::packs::{DEFAULT_PACKS, builtin};
use crate::common::rules::{PART, made, pack, push_all};
use crate::common::text::Text;
use crate::{host, recordings};

/// Every case of this build, in the order of the table.
pub(crate) const NAMES: &[&str] = &[
    "delta, 1 rule",
    "delta, 10 rules",
    "delta, 100 rules",
    "delta, 1000 rules",
    "delta, 100 rules, Chinese",
    "delta, 100 rules, cold",
    "delta, 100 rules, tool input",
    "delta, 1000 rules, tool input",
    "shipped, replies",
    "shipped, text",
    "shipped, reasoning",
    "shipped, tool input",
    "shipped, opening",
    "bulk 1 KB, 100 rules",
    "bulk 64 KB, 10 rules",
    "bulk 64 KB, 100 rules",
    "bulk 64 KB, 1000 rules",
    "short reply, 100 rules",
    "load, 10 rules",
    "load, 100 rules",
    "load, 1000 rules",
    #[cfg(feature = "harness")]
    "loop, no rules",
    #[cfg(feature = "harness")]
    "loop, 100 rules",
];

/// Bytes of text in a case.
const LENGTH: usize = 64 << 10;

/// Passes over the recording in a case.
const PASSES: usize = 10;

/// A case with its set-up done.
struct Prepared {
    /// Number of units for the printed average: deltas, blocks or rules.
    pieces: usize,
    hits: usize,
    /// Runs the pass and returns its hits.
    pass: Box<dyn FnMut() -> usize>,
}

/// Runs the case of that name once and prints its number of pieces.
pub(crate) fn run(name: &str) {
    let mut prepared = prepare(name);
    let hits = measured_pass(&mut *prepared.pass);
    assert_eq!(hits, prepared.hits, "hits of `{name}`");
    println!("{}", prepared.pieces);
}

/// The only function whose instructions are counted: callgrind gets its name.
#[inline(never)]
pub(crate) fn measured_pass(pass: &mut dyn FnMut() -> usize) -> usize {
    black_box(pass())
}

fn prepare(name: &str) -> Prepared {
    let number = |from: &str| {
        let rest = name.split(from).nth(1).unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("the name says how many")
    };
    let kind = name.split([',', ' ']).next().expect("a kind");
    match kind {
        "shipped" => shipped(name.split_once(", ").expect("the name of a row").1),
        "delta" => {
            let script = if name.ends_with("Chinese") {
                "Chinese"
            } else {
                "ASCII"
            };
            let text = planted(Text::made(script, LENGTH));
            let channel = match name.ends_with("tool input") {
                true => Channel::ToolInput,
                false => Channel::Text,
            };
            deltas(number(", "), text, channel, !name.ends_with("cold"))
        }
        "bulk" => {
            let text = planted(Text::made("ASCII", 4 * LENGTH));
            let cuts = text.fixed(number("bulk ") << 10);
            let text = Text {
                deltas: cuts,
                ..text
            };
            deltas(number("KB, "), text, Channel::Text, true)
        }
        "short" => short_replies(number(", ")),
        "load" => load(number(", ")),
        #[cfg(feature = "harness")]
        "loop" => in_loop(if name.ends_with("no rules") {
            0
        } else {
            number(", ")
        }),
        _ => panic!("there is no case `{name}`"),
    }
}

/// Appends a match of the first rule, which every pack here has, to the text.
fn planted(mut text: Text) -> Text {
    text.bytes.extend_from_slice(b" needle0_abc = value ");
    let end = text.bytes.len() as u32;
    // The last delta is extended, so that the number of pieces does not change.
    *text.deltas.last_mut().expect("a text has an end") = end;
    text
}

fn rules(count: usize, channel: Channel) -> Pack {
    pack(&made(count), channel, Limits::default())
}

fn deltas(count: usize, text: Text, channel: Channel, is_warm: bool) -> Prepared {
    let pack = rules(count, channel);
    let text = match channel {
        Channel::ToolInput => text.escaped(),
        _ => text,
    };
    let open = move || {
        let mut stream = pack.stream();
        stream.open(PART, channel);
        if channel == Channel::ToolInput {
            assert!(stream.push(PART, br#"{"content":""#).is_empty());
        }
        stream
    };
    if is_warm {
        assert_eq!(push_all(&mut open(), &text), 1, "the planted text");
    }
    let mut stream: Stream = open();
    Prepared {
        pieces: text.deltas.len() - 1,
        hits: 1,
        pass: Box::new(move || push_all(&mut stream, &text)),
    }
}

/// Counts what a host pays for the default packs: the rows of `ttsr bench`.
fn shipped(row: &str) -> Prepared {
    let pack = builtin(&DEFAULT_PACKS);
    let deletes = host::as_command(&[b"rm -rf /".to_vec(), b" && ls".to_vec()]);
    let cuts = host::read_part(&pack, Channel::ToolInput, &deletes);
    assert_eq!(cuts, 1, "the packs read what is planted");
    let replies = recordings::replies(None);
    let (pieces, mut pass): (usize, Box<dyn FnMut() -> usize>) = match row {
        "replies" => (
            host::deltas(&replies),
            Box::new(move || {
                let cut = |reply: &&host::ReplyEvents| host::read_reply(&pack, reply);
                replies.iter().filter(cut).count()
            }),
        ),
        "opening" => (1, Box::new(move || host::read_nothing(&pack).into())),
        _ => {
            let channel = match row {
                "text" => Channel::Text,
                "reasoning" => Channel::Reasoning,
                "tool input" => Channel::ToolInput,
                _ => panic!("there is no row `{row}`"),
            };
            let deltas = match channel {
                Channel::ToolInput => host::as_command(&host::long_part(&replies, Channel::Text)),
                _ => host::long_part(&replies, channel),
            };
            let pieces = deltas.len();
            let pass = move || host::read_part(&pack, channel, &deltas);
            (pieces, Box::new(pass))
        }
    };
    // The first part of a channel makes no product, and the second one builds it.
    for _ in 0..3 {
        assert_eq!(pass(), 0, "no rule cuts the recording");
    }
    Prepared {
        pieces: PASSES * pieces,
        hits: 0,
        pass: Box::new(move || (0..PASSES).map(|_| pass()).sum()),
    }
}

/// Counts the overhead of a reply: 500 streams open, read one delta and close.
fn short_replies(count: usize) -> Prepared {
    const REPLIES: usize = 500;
    let pack = rules(count, Channel::Text);
    let reply = move || {
        let mut stream = pack.stream();
        stream.open(PART, Channel::Text);
        let hits = stream.push(PART, b"needle0_abc = v").len();
        hits + stream.close(PART).len()
    };
    assert_eq!(reply(), 1, "the planted text");
    Prepared {
        pieces: REPLIES,
        hits: REPLIES,
        pass: Box::new(move || (0..REPLIES).map(|_| reply()).sum()),
    }
}

/// Counts each loaded rule as a hit, so that a rule that does not load is noticed.
fn load(count: usize) -> Prepared {
    let patterns = made(count);
    Prepared {
        pieces: count,
        hits: count,
        pass: Box::new(move || {
            let pack = pack(&patterns, Channel::Text, Limits::default());
            let rules = pack.rules().len();
            // Freeing the memory is not part of a load.
            std::mem::forget(pack);
            rules
        }),
    }
}

#[cfg(feature = "harness")]
fn in_loop(count: usize) -> Prepared {
    use crate::common::processor::{begun, input};
    use std::time::Duration;
    use ttsr::harness::Step;
    use ttsr::harness::event::LoopEvent;

    let text = planted(Text::made("ASCII", LENGTH));
    let pack = match count {
        0 => Pack::builder().build().expect("an empty pack loads"),
        count => rules(count, Channel::Text),
    };
    let mut stream = pack.stream();
    assert_eq!(
        push_all(&mut stream, &text),
        count.min(1),
        "the planted text"
    );
    let mut processor = begun(&pack, ttsr::harness::Hooks::default());
    let mut inputs: Vec<_> = text.deltas().map(input).collect();
    let is_decision = |step: &Step| matches!(step, Step::Observe(LoopEvent::Decision(_)));
    Prepared {
        pieces: inputs.len(),
        hits: count.min(1),
        pass: Box::new(move || {
            let (mut steps, mut decisions) = (Vec::new(), 0);
            for input in inputs.drain(..) {
                processor.step(Duration::ZERO, input, &mut steps);
                decisions += steps.iter().filter(|step| is_decision(step)).count();
                steps.clear();
            }
            decisions
        }),
    }
}
