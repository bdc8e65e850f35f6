//! What open streams weigh.
//!
//! Reveals: bytes per open stream, besides the pack they share; and whether what a stream weighs depends
//! on the number of rules (it must not) or on what it read.
//!
//! Data: slices of 2 KB of the corpus' replies in deltas of OpenAI's measured sizes and patterns of its
//! pool where `TTSR_CORPUS` is set, else made here. Every byte asked of the allocator is counted. The
//! table is warm: its bytes are the pack's, and are printed beside.

#![allow(unsafe_code)] // implementing `GlobalAlloc` is unsafe; this one only counts and passes on

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::rules::{self, Model};
use common::text::Text;
use common::{PART, close, open};
use ttsr::{Channel, Limits, Pack, Stream};

/// Bytes that each stream reads.
const READ: usize = 2000;

/// Different slices of text; streams take them in turn.
const SLICES: usize = 50;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it is; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test")
        || !std::env::args().any(|argument| argument == "--bench");
    let (streams, counts) = if is_test {
        (SLICES, &[1, 100][..])
    } else {
        (1000, &[1, 100, 1000][..])
    };
    let text = Text::of_length(SLICES * READ);
    for &count in counts {
        let patterns = rules::patterns(count);
        let model = Model::new(&patterns);
        let hits: Vec<usize> = text
            .bytes
            .chunks(READ)
            .map(|slice| model.hits(slice))
            .collect();
        drop(model);
        for channel in [Channel::Text, Channel::ToolInput] {
            let pack = rules::pack(&patterns, channel, Limits::default());
            weigh(&pack, channel, &text, (streams, &hits));
        }
    }
}

fn weigh(pack: &Pack, channel: Channel, text: &Text, (streams, hits): (usize, &[usize])) {
    let slices: Vec<Text> = text
        .bytes
        .chunks(READ)
        .map(|slice| slice_of(slice, channel))
        .collect();
    drop(read(pack, channel, &slices, SLICES)); // builds the states
    let fresh = LIVE.load(Ordering::Relaxed);
    let unread = open_all(pack, channel, streams);
    let unread_bytes = LIVE.load(Ordering::Relaxed) - fresh;
    drop(unread);
    let before = LIVE.load(Ordering::Relaxed);
    let (mut all, mut found) = read(pack, channel, &slices, streams);
    let bytes = LIVE.load(Ordering::Relaxed) - before;
    found += all
        .iter_mut()
        .map(|stream| close(stream, channel))
        .sum::<usize>();
    let expected: usize = hits.iter().cycle().take(streams).sum();
    assert_eq!(found, expected, "hits of {} rules", pack.rules().len());
    let size = pack.automata(channel).next().expect("a rule reads it");
    println!(
        "memory: {} rules, {}: {streams} streams of {READ} bytes each: {} bytes a stream \
         ({} before its first delta), {found} hits; shared: table {} + sets {} bytes, {} states",
        pack.rules().len(),
        channel.name(),
        bytes / streams,
        unread_bytes / streams,
        size.table_bytes,
        size.set_bytes,
        size.states,
    );
}

/// The slice as it arrives on that channel.
fn slice_of(slice: &[u8], channel: Channel) -> Text {
    let text = Text::of_bytes(slice.to_vec());
    match channel {
        Channel::ToolInput => text.escaped(),
        _ => text,
    }
}

fn open_all(pack: &Pack, channel: Channel, streams: usize) -> Vec<Stream> {
    (0..streams).map(|_| open(pack, channel)).collect()
}

/// Streams that have read a slice each, and their hits.
fn read(pack: &Pack, channel: Channel, slices: &[Text], streams: usize) -> (Vec<Stream>, usize) {
    let mut open = open_all(pack, channel, streams);
    let mut hits = 0;
    for (stream, slice) in open.iter_mut().zip(slices.iter().cycle()) {
        hits += slice
            .deltas()
            .map(|delta| stream.push(PART, delta).len())
            .sum::<usize>();
    }
    (open, hits)
}
