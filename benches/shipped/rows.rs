//! The rows of the table: each builds its data, and measures one pass.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use ttsr::{Channel, Conversation, Flow, Pack, PartId};

use crate::allocations::ALLOCATIONS;
use crate::host::{self, ReplyEvents, as_command, deltas, long_part};
use crate::packs::{DEFAULT_PACKS, builtin};
use crate::recordings;

const PART: PartId = PartId(0);

/// One row of the table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) goal: Option<f64>,
    /// Builds the data, and returns a function that measures one pass.
    pub(crate) measure: Box<dyn FnOnce() -> Box<dyn FnMut() -> f64>>,
}

const NS_A_DELTA: &str = "ns a delta";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = vec![
        recorded("recorded streams, no rules", Vec::new(), None),
        recorded(
            "recorded streams, all default packs",
            DEFAULT_PACKS.to_vec(),
            Some(60.0),
        ),
        long("one text part", &DEFAULT_PACKS, Channel::Text, Some(18.0)),
        long(
            "one reasoning part",
            &DEFAULT_PACKS,
            Channel::Reasoning,
            Some(18.0),
        ),
        long(
            "one tool input (`command` of `bash`)",
            &DEFAULT_PACKS,
            Channel::ToolInput,
            Some(40.0),
        ),
        long(
            "std/secrets alone, text",
            &["std/secrets"],
            Channel::Text,
            Some(15.0),
        ),
        long(
            "std/injection alone, text",
            &["std/injection"],
            Channel::Text,
            Some(15.0),
        ),
        long(
            "std/degeneration alone, text",
            &["std/degeneration"],
            Channel::Text,
            Some(12.0),
        ),
        long(
            "std/degeneration alone, reasoning",
            &["std/degeneration"],
            Channel::Reasoning,
            Some(12.0),
        ),
        long(
            "no rule reads the channel",
            &["std/injection"],
            Channel::Reasoning,
            Some(3.0),
        ),
        open_and_close(),
        allocations(),
    ];
    let alone =
        |pack: &'static str| recorded(&format!("recorded streams, {pack}"), vec![pack], None);
    rows.extend(DEFAULT_PACKS.map(alone));
    rows
}

/// Returns the replies that are measured.
fn recorded_replies() -> Vec<ReplyEvents> {
    let corpus = std::env::var_os("TTSR_CORPUS").map(PathBuf::from);
    recordings::replies(corpus.as_deref())
}

/// Returns the processor time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The number of pieces of the last pass.
static PIECES: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of pieces of the last pass: deltas or replies.
pub(crate) fn pieces() -> usize {
    PIECES.load(Ordering::Relaxed)
}

/// Returns the processor time of a pass divided by `pieces`, in nanoseconds. A profiler can collect in this function
/// alone by its name.
#[inline(never)]
fn timed(pieces: usize, pass: impl FnOnce()) -> f64 {
    PIECES.store(pieces, Ordering::Relaxed);
    let started = now();
    pass();
    (now() - started).as_secs_f64() * 1e9 / pieces as f64
}

/// All recorded streams, each a conversation of its own.
fn recorded(name: &str, packs: Vec<&'static str>, goal: Option<f64>) -> Row {
    Row {
        name: name.to_owned(),
        unit: NS_A_DELTA,
        goal,
        measure: Box::new(move || {
            let pack = builtin(&packs);
            let replies = recorded_replies();
            let deltas = deltas(&replies);
            Box::new(move || {
                let mut cut = 0;
                let taken = timed(deltas, || {
                    cut = replies
                        .iter()
                        .filter(|reply| host::read_reply(&pack, reply))
                        .count();
                });
                // After a cut nothing is read, so many cuts would make the figure too low.
                assert!(cut * 100 <= replies.len(), "rules cut {cut} replies");
                taken
            })
        }),
    }
}

/// One part with the deltas of all recorded parts of a channel. For tool input, the recorded texts are a command.
fn long(name: &str, packs: &'static [&'static str], channel: Channel, goal: Option<f64>) -> Row {
    Row {
        name: name.to_owned(),
        unit: NS_A_DELTA,
        goal,
        measure: Box::new(move || {
            let pack = builtin(packs);
            let replies = recorded_replies();
            let deltas = match channel {
                Channel::ToolInput => as_command(&long_part(&replies, Channel::Text)),
                _ => long_part(&replies, channel),
            };
            Box::new(move || read_part(&pack, channel, &deltas))
        }),
    }
}

/// Returns the nanoseconds that a delta takes. Opening is measured with the deltas.
fn read_part(pack: &Pack, channel: Channel, deltas: &[Vec<u8>]) -> f64 {
    let mut cuts = 0;
    let taken = timed(deltas.len(), || {
        cuts = host::read_part(pack, channel, deltas)
    });
    assert!(
        cuts * 1000 <= deltas.len(),
        "rules cut the part {cuts} times"
    );
    taken
}

/// A conversation, an attempt and two parts that are opened and closed without a delta.
fn open_and_close() -> Row {
    const REPLIES: usize = 20_000;
    Row {
        name: "a conversation and its parts, opened and closed".to_owned(),
        unit: "ns a reply",
        goal: Some(300.0),
        measure: Box::new(|| {
            let pack = builtin(&DEFAULT_PACKS);
            Box::new(move || {
                let mut cut = 0;
                let taken = timed(REPLIES, || {
                    cut = (0..REPLIES).filter(|_| host::read_nothing(&pack)).count();
                });
                assert_eq!(cut, 0, "an empty reply breaks no rule");
                taken
            })
        }),
    }
}

/// The second and later replies of a conversation: one text part and one tool call.
fn allocations() -> Row {
    Row {
        name: "allocations of a reply of a text and a call, warm".to_owned(),
        unit: "allocations",
        goal: Some(4.0),
        measure: Box::new(|| {
            let pack = builtin(&DEFAULT_PACKS);
            let mut conversation = Conversation::new(&pack);
            Box::new(move || {
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                let mut turn = conversation.turn("");
                let mut attempt = turn.attempt();
                let _ = attempt.open(PART, Channel::Text);
                for delta in ["I will ", "list ", "the files", " of the folder.\n"] {
                    let _ = black_box(attempt.forward(PART, delta.as_bytes()));
                }
                let _ = attempt.close(PART);
                let call = PartId(1);
                let _ = attempt.open(call, Channel::ToolInput);
                let _ = attempt.set_tool(call, "bash", "call");
                for delta in [r#"{"comm"#, r#"and":"ls -"#, r#"la src""#, "}"] {
                    let _ = black_box(attempt.forward(call, delta.as_bytes()));
                }
                let _ = attempt.close(call);
                assert!(attempt.finish() == Flow::Go, "the reply breaks no rule");
                drop(attempt);
                (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64
            })
        }),
    }
}
