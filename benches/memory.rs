//! Memory of open streams.
//!
//! Reveals: bytes per open stream in addition to the shared pack, and whether they depend on the number of rules (they
//! must not) or on the text.
//!
//! Data: slices of 2 KB of the corpus' replies in deltas of OpenAI's measured sizes and patterns of its pool if
//! `TTSR_CORPUS` is set, else generated ones. Every byte requested from the allocator is counted. The table is warm; its
//! bytes belong to the pack and are printed separately.

mod common;
#[path = "common/counting.rs"]
mod counting;

use std::sync::atomic::Ordering;

use common::is_test;
use common::rules::{Rules, pool, push_all};
use common::text::Text;
use counting::LIVE;
use ttsr::{Channel, Stream};

/// Bytes that each stream reads.
const READ: usize = 2000;

/// Number of streams of a busy server.
const MANY: usize = 100_000;

/// Number of different slices, distributed over the streams.
const SLICES: usize = 50;

fn main() {
    let (streams, counts) = match is_test() {
        true => (SLICES, &[1, 100][..]),
        false => (1000, &[1, 100, 1000][..]),
    };
    let text = Text::of_length(SLICES * READ);
    let slices: Vec<&[u8]> = text.bytes.chunks(READ).collect();
    for &count in counts {
        for channel in [Channel::Text, Channel::ToolInput] {
            weigh(&Rules::new(&pool(count), channel), &slices, streams);
        }
    }
    // Enough streams that only the memory per stream counts.
    if !is_test() {
        weigh(&Rules::new(&pool(1000), Channel::Text), &slices, MANY);
    }
}

fn weigh(rules: &Rules, slices: &[&[u8]], streams: usize) {
    let hits: Vec<usize> = slices.iter().map(|slice| rules.hits(slice)).collect();
    let arriving = slices.iter().map(|slice| Text::of_bytes(slice.to_vec()));
    let arriving: Vec<Text> = arriving.map(|slice| rules.arriving(&slice)).collect();
    drop(read(rules, &arriving, SLICES)); // builds the states

    let before = LIVE.load(Ordering::Relaxed);
    let unread: Vec<Stream> = (0..streams).map(|_| rules.open()).collect();
    let unread_bytes = LIVE.load(Ordering::Relaxed) - before;
    drop(unread);
    let (mut open, mut found) = read(rules, &arriving, streams);
    let bytes = LIVE.load(Ordering::Relaxed) - before;

    let closed = open.iter_mut().map(|stream| rules.close(stream));
    found += closed.sum::<usize>();
    let expected: usize = hits.iter().cycle().take(streams).sum();
    let size = rules.pack.automata(rules.channel).next();
    let size = size.expect("a rule reads it");
    let (count, channel) = (rules.pack.rules().len(), rules.channel.name());
    assert_eq!(found, expected, "hits of {count} rules on {channel}");
    println!(
        "{count} rules, {channel}, {streams} streams of {READ} bytes: {} bytes a stream, of them {} \
         once it is open ({found} hits); shared table {} + sets {} bytes, {} states",
        bytes / streams,
        unread_bytes / streams,
        size.table_bytes,
        size.set_bytes,
        size.states,
    );
}

/// Returns streams that have read one slice each, and their hits.
fn read(rules: &Rules, arriving: &[Text], streams: usize) -> (Vec<Stream>, usize) {
    let mut open: Vec<Stream> = (0..streams).map(|_| rules.open()).collect();
    let pairs = open.iter_mut().zip(arriving.iter().cycle());
    let hits = pairs.map(|(stream, slice)| push_all(stream, slice)).sum();
    (open, hits)
}
