//! Allocations of streams: none per delta in the steady state, and bounded memory for any input, counted per thread by
//! an allocator of this test program. If the allocator refuses, the process ends, and everything that it reported or
//! wrote before is correct.

#![allow(unsafe_code)] // implementing `GlobalAlloc` is unsafe; this one only counts and passes on

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use ttsr_testing::{scale, skip};

use ttsr::{Action, Channel, Conversation, Flow, Pack, PackBuilder, PartId, Rule, Stream, Verdict};

const PART: PartId = PartId(0);

const MIB: usize = 1 << 20;

/// A stream keeps windows, paths, the state of its views, and the code of an edit that has not named its file, which
/// [`Limits::late_code_bytes`](ttsr::Limits::late_code_bytes) bounds to 256 KiB; its buffer may be twice as large. None of
/// it grows with the input.
const PER_STREAM: isize = (192 + 2 * 256) << 10;

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    /// The number of calls that still succeed; the one after them is refused.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Returns true if this call is refused.
fn is_refused() -> bool {
    let left = LEFT.get();
    // One call is refused, so that the failure can be reported.
    LEFT.set(if left == u64::MAX {
        left
    } else {
        left.wrapping_sub(1)
    });
    left == 0
}

/// Adds `bytes` to the bytes in use. The cells have no destructor, so they are valid until the thread ends.
fn count(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
    CALLS.set(CALLS.get() + u64::from(bytes > 0));
}

// SAFETY: every call is passed to the system's allocator unchanged, or returns null, as an allocator may; counting does
// not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused() {
            return std::ptr::null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: the caller's obligations are passed on.
        unsafe { System.alloc(layout) }
    }

    // The default method writes zeros to the whole block; the system gives pages of zeros on first use.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_refused() {
            return std::ptr::null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: the caller's obligations are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's obligations are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations of `run`, and the peak of the bytes in use above those before it.
fn measure(run: impl FnOnce()) -> (u64, isize) {
    let (calls, live) = (CALLS.get(), LIVE.get());
    PEAK.set(live);
    run();
    (CALLS.get() - calls, PEAK.get() - live)
}

/// Rules that hold text back, or read the matched text, keep bytes of it; these bounds are those of all other rules.
fn pack() -> Pack {
    let secrets = Pack::builtin("std/secrets").unwrap();
    let plain = secrets.rules().iter().filter(|rule| keeps_nothing(rule));
    let builder = Pack::builder()
        .builtin("std/shell-safety")
        .builtin("lang/rust");
    let builder = plain.cloned().fold(builder, PackBuilder::rule);
    builder.build().unwrap()
}

fn keeps_nothing(rule: &Rule) -> bool {
    rule.action != Action::Redact && rule.condition.capture.is_none()
}

/// A table is allocated as a whole, and an allocator may hand out its block as memory that is resident: all tables of the
/// built-in rules together stay small until text needs more. `std/pii` is loaded by name only.
#[test]
fn the_tables_of_the_builtin_packs_begin_small() {
    let names = Pack::builtin_names().filter(|name| *name != "std/pii");
    let live = LIVE.get();
    let pack = names.fold(Pack::builder(), PackBuilder::builtin).build();
    let pack = pack.expect("built-in packs load");
    let mut streams = Vec::new();
    for channel in Channel::ALL {
        let mut stream = open(&pack, channel);
        push_all(&mut stream, br#"{"command": "ls -la `pwd`"}"#, 64);
        streams.push(stream);
    }
    let mib = (LIVE.get() - live) >> 20;
    println!("{} rules: {mib} MiB allocated", pack.rules().len());
    assert!(mib < 64, "{mib} MiB");
}

/// A list of 50,000 names in up to 1,000 rules is stored once: about 60 bytes for each name and for its folded form, and a
/// few kilobytes for each rule.
#[test]
fn a_list_that_many_rules_name_is_held_once() {
    let (entries, rules) = (50_000, scale(1_000).max(200));
    let names: Vec<String> = (0..entries)
        .map(|number| format!("'package-with-a-name-{number}'"))
        .collect();
    let mut text = format!(
        "schema = 1\n[pack]\nname = 'demo'\n[lists]\nnames = [{}]\n",
        names.join(", ")
    );
    for number in 0..rules {
        text += &format!(
            "[rule.r{number}]\ndescription = 'd'\nmatch.unknown-name = {{ known = ['@names', 'mine-{number}'] }}\n"
        );
    }
    let mut left = None;
    let (_, peak) = measure(|| left = Some(Pack::from_toml(&text)));
    let pack = left.expect("it was loaded");
    assert_eq!(pack.map(|pack| pack.rules().len()).unwrap(), rules);
    println!(
        "{entries} names in {rules} rules: {} MiB at most",
        peak >> 20
    );
    assert!(peak < 300 << 20, "{} MiB", peak >> 20);
}

fn open(pack: &Pack, channel: Channel) -> Stream {
    let mut stream = pack.stream();
    stream.open(PART, channel);
    if channel == Channel::ToolInput {
        assert!(stream.set_tool(PART, "bash", "call").is_empty());
    }
    stream
}

fn push_all(stream: &mut Stream, bytes: &[u8], size: usize) {
    for delta in bytes.chunks(size) {
        assert!(stream.push(PART, delta).is_empty());
    }
}

fn prose() -> Vec<u8> {
    "Let me read the file first; then I run `cargo test`. Größe: 3 €, 😀.\n"
        .repeat(500)
        .into()
}

fn long_value() -> Vec<u8> {
    let line = r#"cd src \u0026\u0026 ls -la | grep \"x\"\n\ud83d\ude00 echo größer;\tpython3 -c 'print(1)'; psql -c \"select 1\";\t"#;
    format!("{{\"path\":\"a.rs\",\"command\":\"{}", line.repeat(500)).into()
}

#[test]
fn a_warm_stream_allocates_nothing_per_delta() {
    let pack = pack();
    // The buffers of the commands that have ended, of which a stream keeps 64, grow until each has had the longest
    // command.
    let streams = [
        (Channel::Text, prose(), 2048),
        (Channel::ToolInput, long_value(), 8192),
    ];
    for (channel, bytes, warm) in streams {
        // Builds all states that the text visits, whatever the size of the pieces.
        push_all(&mut open(&pack, channel), &bytes, 1);
        for size in [1, 4, 13, 4096] {
            let mut stream = open(&pack, channel);
            push_all(&mut stream, &bytes[..warm], size);
            let (calls, _) = measure(|| push_all(&mut stream, &bytes[warm..], size));
            assert_eq!(calls, 0, "{channel:?} in pieces of {size}");
        }
    }
}

#[test]
fn a_warm_session_allocates_nothing_per_delta() {
    let pack = pack();
    let bytes = prose();
    push_all(&mut open(&pack, Channel::Text), &bytes, 1);
    let mut session = pack.session();
    session.begin_turn();
    let mut stream = session.stream();
    let _ = session.open(&mut stream, PART, Channel::Text);
    for delta in bytes[..2048].chunks(4) {
        assert_eq!(session.push(&mut stream, PART, delta), Verdict::Continue);
    }
    let (calls, _) = measure(|| {
        for delta in bytes[2048..].chunks(4) {
            assert_eq!(session.push(&mut stream, PART, delta), Verdict::Continue);
        }
    });
    assert_eq!(calls, 0);
}

#[test]
fn a_warm_conversation_allocates_nothing_per_delta_that_is_taken() {
    let pack = pack();
    let bytes = prose();
    push_all(&mut open(&pack, Channel::Text), &bytes, 1);
    let mut conversation = Conversation::new(&pack);
    let mut turn = conversation.turn("Go.");
    let mut attempt = turn.attempt();
    let mut read = |bytes: &[u8]| {
        for delta in bytes.chunks(4) {
            assert_eq!(attempt.push(PART, delta), Flow::Go);
            assert_eq!(attempt.take(PART), delta);
        }
    };
    read(&bytes[..2048]);
    let (calls, _) = measure(|| read(&bytes[2048..]));
    assert_eq!(calls, 0);
}

#[test]
fn interleaved_parts_allocate_nothing_per_delta() {
    let pack = pack();
    let bytes = prose();
    // Each part gets every eighth piece, which is a text of its own: the first round builds its states.
    let round = || {
        let mut stream = pack.stream();
        (0..8).for_each(|part| stream.open(PartId(part), Channel::Text));
        let mut deltas = (0..8).map(PartId).cycle().zip(bytes.chunks(5));
        let mut push = |(part, delta)| assert!(stream.push(part, delta).is_empty());
        deltas.by_ref().take(800).for_each(&mut push);
        measure(|| deltas.for_each(push)).0
    };
    round();
    assert_eq!(round(), 0);
}

#[test]
fn a_part_that_begins_with_a_large_delta_allocates_nothing_after_it() {
    let pack = pack();
    let bytes = prose();
    push_all(&mut open(&pack, Channel::Text), &bytes, 1);
    let mut stream = open(&pack, Channel::Text);
    push_all(&mut stream, &bytes[..2048], 2048);
    let (calls, _) = measure(|| push_all(&mut stream, &bytes[2048..], 4));
    assert_eq!(calls, 0);
}

#[test]
fn a_million_empty_deltas_allocate_nothing() {
    let pack = pack();
    for channel in Channel::ALL {
        let mut stream = open(&pack, channel);
        // A part allocates its buffers with its first delta.
        assert!(stream.push(PART, b"").is_empty());
        let (calls, _) = measure(|| {
            (0..1_000_000).for_each(|_| assert!(stream.push(PART, b"").is_empty()));
        });
        assert_eq!(calls, 0, "{channel:?}");
    }
}

#[test]
fn a_huge_delta_is_not_copied() {
    let pack = pack();
    for (channel, bytes) in [(Channel::Text, prose()), (Channel::ToolInput, long_value())] {
        push_all(&mut open(&pack, channel), &bytes, bytes.len());
        let body = if channel == Channel::Text {
            0
        } else {
            br#"{"path":"a.rs","command":""#.len()
        };
        let mut huge = bytes.clone();
        while huge.len() < scale(32 * MIB).max(8 * MIB) {
            huge.extend_from_slice(&bytes[body..]);
        }
        let mut stream = open(&pack, channel);
        let (_, peak) = measure(|| push_all(&mut stream, &huge, huge.len()));
        assert!(peak <= PER_STREAM, "{channel:?}: {peak} bytes");
    }
}

#[test]
fn memory_does_not_grow_with_keys_values_or_nesting() {
    let pack = pack();
    let keys: String = (0..100_000).map(|n| format!("\"k{n}\":{n},")).collect();
    let inputs = [
        ("a key", format!("{{\"{}\":1}}", "k".repeat(8 * MIB))),
        (
            "a path",
            format!("{{\"path\":\"{}\"}}", "p".repeat(8 * MIB)),
        ),
        ("keys", format!("{{{keys}\"a\":1}}")),
        ("brackets", format!("{{\"a\":{}", "[".repeat(MIB))),
        ("blanks", " ".repeat(8 * MIB)),
        ("a number", format!("{{\"a\":{}}}", "7".repeat(MIB))),
    ];
    for (name, input) in inputs {
        for size in [input.len(), 64] {
            push_all(
                &mut open(&pack, Channel::ToolInput),
                &input.as_bytes()[..4096],
                size,
            );
            let mut stream = open(&pack, Channel::ToolInput);
            let (_, peak) = measure(|| push_all(&mut stream, input.as_bytes(), size));
            assert!(
                peak <= PER_STREAM,
                "{name} in pieces of {size}: {peak} bytes"
            );
        }
    }
}

#[test]
fn memory_does_not_grow_with_files_or_with_counts_of_closed_parts() {
    let rule = |keys: &str| {
        format!("schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\n{keys}\n")
    };
    let pack = |keys: &str| Pack::from_toml(&rule(keys)).expect("a pack");
    let scoped = pack("on = ['tool-input']\npaths = ['*.rs']\nmatch.any = [{ literal = 'zz' }]");
    let files: String = (0..100_000)
        .map(|n| format!("{{\"path\":\"f{n}.c\"}},"))
        .collect();
    let mut stream = open(&scoped, Channel::ToolInput);
    let input = format!("{{\"edits\":[{files}0]}}");
    let (_, peak) = measure(|| push_all(&mut stream, input.as_bytes(), 4096));
    assert!(peak <= PER_STREAM, "files: {peak} bytes");
    let counting = pack("match.any = [{ literal = 'x' }]\nmatch.count = 9\nmatch.per = 'part'");
    let mut stream = counting.stream();
    let mut read = |parts: std::ops::Range<u32>| {
        for part in parts.map(PartId) {
            stream.open(part, Channel::Text);
            assert!(stream.push(part, b"x and x").is_empty());
            assert!(stream.close(part).is_empty());
        }
    };
    read(0..4096);
    // A closed part costs 20 bytes, in a list that doubles.
    let (_, peak) = measure(|| read(4096..8192));
    assert!(peak <= 4096 * 64, "parts: {peak} bytes");
}

#[test]
fn one_rule_that_hits_again_and_again_keeps_one_excerpt() {
    let pack = pack();
    let mut stream = open(&pack, Channel::ToolInput);
    let mut hits = 0;
    let (_, peak) = measure(|| {
        hits += stream.push(PART, b"{\"command\":\"").len();
        for _ in 0..100_000 {
            hits += stream.push(PART, b"git push --force; ").len();
        }
    });
    assert_eq!(hits, 1);
    // The automaton's states are built here too: they are shared and do not grow with the input.
    assert!(peak <= MIB as isize, "{peak} bytes");
}

/// Returns the pack of one rule.
fn one(rule: &str) -> Pack {
    let text = format!(
        "schema = 1\n[pack]\nname = 'a'\n[rule.b]\ndescription = 'c'\n{rule}\nexamples.match = ['x']\n"
    );
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the bytes that a stream has in use after the text; the states of the automaton were built before.
fn retained(pack: &Pack, channel: Channel, text: &str) -> isize {
    let run = || {
        let mut stream = pack.stream();
        stream.open(PART, channel);
        let _ = stream.set_tool(PART, "edit", "call");
        let live = LIVE.get();
        for delta in text.as_bytes().chunks(61) {
            let _ = stream.push(PART, delta);
        }
        (LIVE.get() - live, stream)
    };
    drop(run());
    let (kept, stream) = run();
    drop(stream);
    kept
}

/// The bound of a waiting match without its text, and of a stream without rules.
const WAITING: isize = 256 * 256;

#[test]
fn a_stream_retains_at_most_the_stated_bound() {
    let aside = |text: &str| text.repeat((16 << 10) / text.len());
    let long_line = aside("x y and more ");
    let lines = aside("x is a line\n");
    let endless = format!("x{}", "y".repeat(128 << 10));
    let old_text = format!(
        "{{\"path\":\"a.rs\",\"old_string\":\"{}",
        "a line ".repeat(16 << 10)
    );
    let command = format!(
        "{{\"command\":\"echo $({}",
        aside("cargo test --workspace --all-features; ")
    );
    for (rule, channel, text) in [
        ("match.any = [{ literal = 'x' }]", Channel::Text, &long_line),
        (
            "match.any = [{ regex = 'x[^z]*z' }]",
            Channel::Text,
            &long_line,
        ),
        (
            "match.any = [{ regex = 'x[^z]*z' }]\nmatch.count = 3",
            Channel::Text,
            &endless,
        ),
        (
            "match.any = [{ literal = 'x' }]\nmatch.none = [{ literal = 'z' }]",
            Channel::Text,
            &long_line,
        ),
        (
            "match.any = [{ literal = 'x' }]\nmatch.none = [{ literal = 'z' }]\nmatch.within = { lines = 9999 }",
            Channel::Text,
            &lines,
        ),
        (
            "match.any = [{ literal = 'x' }]\nmatch.last = 100000",
            Channel::Text,
            &lines,
        ),
        (
            "match.all = [{ literal = 'x' }, { literal = 'z' }]",
            Channel::Text,
            &lines,
        ),
        (
            "match.sequence = [{ literal = 'x' }, { literal = 'z' }]\nmatch.within = { lines = 50 }",
            Channel::Text,
            &lines,
        ),
        (
            "match.any = [{ regex = '(?s)x.*z' }]\naction = 'redact'",
            Channel::Text,
            &endless,
        ),
        (
            "match.repetition = { unit-chars = [20, 400], times = 4 }",
            Channel::Text,
            &lines,
        ),
        ("match.leak = true", Channel::Text, &long_line),
        (
            "match.any = [{ literal = 'x', fold = 'case' }]",
            Channel::Text,
            &long_line,
        ),
        (
            "match.any = [{ literal = 'x', region = 'inline-code' }]",
            Channel::Text,
            &long_line,
        ),
        (
            "on = ['tool-input']\nmatch.any = [{ literal = 'x', region = 'added' }]",
            Channel::ToolInput,
            &old_text,
        ),
        (
            "on = ['tool-input']\nmatch.any = [{ literal = 'x', region = 'shell' }]",
            Channel::ToolInput,
            &command,
        ),
    ] {
        let pack = one(rule);
        let bound = pack.rules()[0].retained_bytes(pack.limits()) as isize;
        let kept = retained(&pack, channel, text);
        // A growing buffer has at most twice the capacity that it needs.
        assert!(
            kept <= 2 * bound + WAITING,
            "{rule}: keeps {kept} bytes, the bound is {bound}"
        );
    }
}

#[test]
fn a_bound_that_is_stated_is_one_that_is_needed() {
    let text = format!("x{}", "y".repeat(1 << 20));
    for rule in [
        "match.any = [{ regex = 'x[^z]*z' }]\nmatch.count = 3",
        "match.any = [{ regex = '(?s)x.*z' }]\naction = 'redact'",
    ] {
        let pack = one(rule);
        let bound = pack.rules()[0].retained_bytes(pack.limits()) as isize;
        let kept = retained(&pack, Channel::Text, &text);
        assert!(
            kept >= bound / 4,
            "{rule}: keeps {kept} bytes, the bound is {bound}"
        );
    }
    let plain = one("match.any = [{ regex = 'x[^z]*z' }]");
    assert!(
        retained(&plain, Channel::Text, &text) < 4096,
        "a first end needs no text"
    );
}

#[test]
fn little_text_is_held_where_a_bounded_match_is_always_in_progress() {
    // Long enough for two stretches; a match may begin at every character.
    let text = "漢字".repeat(25_000);
    for more in ["match.count = 2", "action = 'redact'"] {
        let pack = one(&format!(
            "match.any = [{{ regex = '(?:^|[^a-z])(?:x|k[0-9]{{20}})' }}]\n{more}"
        ));
        let kept = retained(&pack, Channel::Text, &text);
        assert!(kept < 8192, "{more}: {kept} bytes");
    }
}

#[test]
fn streams_that_are_never_closed_leave_nothing_behind() {
    let pack = pack();
    let round = || {
        let streams = (0..1000).map(|_| {
            let mut stream = open(&pack, Channel::ToolInput);
            push_all(&mut stream, b"{\"command\":\"cd src && rm -", 7);
            stream
        });
        drop(streams.collect::<Vec<_>>());
    };
    // The table has its states, and every list of the pack its capacity.
    round();
    let live = LIVE.get();
    for _ in 0..5 {
        round();
        assert_eq!(LIVE.get(), live);
    }
}

/// Returns the bytes in use after the given number of parts were opened, read and closed, and the stream that keeps
/// them.
fn of_closed_parts(pack: &Pack, parts: u32) -> (isize, Stream) {
    let live = LIVE.get();
    let mut stream = pack.stream();
    for part in (0..parts).map(PartId) {
        stream.open(part, Channel::Text);
        assert!(stream.push(part, b"a word").is_empty());
        assert!(stream.close(part).is_empty());
    }
    (LIVE.get() - live, stream)
}

#[test]
fn a_million_closed_parts_cost_a_stream_little_and_nothing_past_the_limit() {
    let parts = scale(1_000_000).max(200_000) as u32;
    let with = |parts: usize| {
        let limits = ttsr::Limits {
            parts,
            ..ttsr::Limits::default()
        };
        let mut rule = Rule::new("a/b", vec![ttsr::Pattern::literal("needle")]);
        rule.on = vec![Channel::Text];
        Pack::builder().rule(rule).limits(limits).build().unwrap()
    };
    let unlimited = with(usize::MAX);
    drop(of_closed_parts(&unlimited, 10));
    let (kept, stream) = of_closed_parts(&unlimited, parts);
    assert!(
        kept <= 20 * parts as isize,
        "{kept} bytes for {parts} parts"
    );
    assert_eq!(stream.delivered_bytes(PartId(parts / 2)), 6);
    let limited = with(1000);
    drop(of_closed_parts(&limited, 10));
    let (at_limit, _stream) = of_closed_parts(&limited, 1001);
    let (kept, _stream) = of_closed_parts(&limited, parts);
    assert!(
        kept <= at_limit,
        "parts past the limit cost {kept} bytes, not {at_limit}"
    );
}

/// Returns one line of a recording: a part that is opened, written and closed.
fn line_of_part(part: u32) -> String {
    format!("{{\"part\":\"{part}\",\"d\":\"a word\",\"end\":true}}\n")
}

#[test]
fn a_million_closed_parts_cost_a_reader_little_and_nothing_past_the_limit() {
    const LIMIT: u32 = 1 << 17;
    let parts = scale(1_000_000).max(200_000) as u32;
    let mut reader = ttsr_wire::Reader::new("a");
    let (mut opened, mut unscanned) = (0_u32, 0_u64);
    let mut read = |reader: &mut ttsr_wire::Reader, parts: std::ops::Range<u32>| {
        for part in parts {
            reader.push(line_of_part(part).as_bytes(), &mut |_, event| match event {
                ttsr::Event::PartStart { .. } => opened += 1,
                ttsr::Event::Unscanned { bytes, .. } => unscanned += bytes,
                _ => {}
            });
        }
    };
    read(&mut reader, 0..10);
    let live = LIVE.get();
    for (from, to) in [(10, 50_000), (50_000, 100_000), (100_000, LIMIT)] {
        read(&mut reader, from..to);
        let kept = LIVE.get() - live;
        assert!(kept <= 60 * to as isize, "{kept} bytes for {to} parts");
    }
    let live = LIVE.get();
    read(&mut reader, LIMIT..parts);
    assert_eq!(LIVE.get(), live, "parts past the limit cost something");
    assert_eq!((opened, unscanned), (LIMIT, 6 * u64::from(parts - LIMIT)));
}

#[test]
#[cfg(feature = "opencode")]
fn a_million_closed_parts_cost_a_watch_little_and_nothing_past_the_limit() {
    use ttsr_agent::opencode::{ServerApi, SessionWatcher, WatchEvent};
    use ttsr_wire::opencode::OpenCodeReader;
    let rule = Rule::new("a/b", vec![ttsr::Pattern::literal("needle")]);
    let mut watch = SessionWatcher::new(
        Pack::builder().rule(rule).build().unwrap(),
        ServerApi::Classic,
    );
    let mut feed = OpenCodeReader::default();
    let mut cuts = 0;
    let mut read = |parts: std::ops::Range<u32>| {
        for part in parts {
            let event = format!(
                "data: {{\"type\":\"message.part.updated\",\"properties\":{{\"sessionID\":\"s\",\"part\":{{\"id\":\"p{part}\",\
                 \"messageID\":\"m\",\"type\":\"text\",\"text\":\"a word\",\"time\":{{\"end\":1}}}}}}}}\n\n"
            );
            let mut seen = Vec::new();
            feed.push(event.as_bytes(), &mut |session, notice| {
                watch.notice(session, notice, &mut seen);
            });
            cuts += seen
                .iter()
                .filter(|seen| matches!(seen, WatchEvent::Started(_)))
                .count();
        }
    };
    read(0..10);
    let live = LIVE.get();
    read(10..10_000);
    let kept = LIVE.get() - live;
    assert!(kept <= 104 * 10_000, "{kept} bytes for 10,000 parts");
    // The limit of parts is reached, and from here on only the reader tells parts apart.
    read(10_000..1 << 17);
    let kept = LIVE.get() - live;
    assert!(
        kept <= 60 * (1 << 17),
        "{kept} bytes at the limit of the reader"
    );
    let live = LIVE.get();
    read(1 << 17..scale(1_000_000).max((1 << 17) + 10_000) as u32);
    assert_eq!(LIVE.get(), live, "parts past the limit cost something");
    assert_eq!(cuts, 1);
}

/// The variable with the path of the child's session file, if it can write sessions.
const FILE: &str = "TTSR_REFUSED_FILE";

/// The variable with the number of allocator calls that succeed in the child.
const ANSWERED: &str = "TTSR_REFUSED_AFTER";

/// Not a test of its own: loads rules, reads replies and prints their hits, line by line.
#[test]
#[ignore = "started by the test below"]
fn refused_child() {
    let Some(answered) = skip::unless_set(ANSWERED) else {
        return;
    };
    let path = std::env::var_os(FILE).unwrap();
    let first = CALLS.get();
    LEFT.set(answered.to_str().unwrap().parse().unwrap());
    converse(std::path::Path::new(&path));
    LEFT.set(u64::MAX);
    println!("calls {}", CALLS.get() - first);
}

/// A small conversation: two replies under three rules.
fn converse(path: &std::path::Path) {
    let pack = Pack::from_toml(
        r#"
        schema = 1
        [pack]
        name = "a"
        [rule.push]
        description = "b"
        match.any = [{ regex = '\bgit\s+push\b.*--force' }]
        [rule.same-line]
        description = "c"
        match.any = [{ literal = "unwrap()" }]
        match.none = [{ literal = "// fine" }]
        [rule.key]
        description = "d"
        action = "redact"
        match.any = [{ regex = 'sk-[a-z]{6}' }]
        "#,
    );
    let pack = pack.unwrap();
    let mut store = {
        use ttsr_agent::store::{Durability, Store, StoreOptions};
        let options = StoreOptions {
            durability: Durability::Process,
            ..StoreOptions::default()
        };
        Store::open_with(path, options).unwrap().0
    };
    let mut session = pack.session();
    for reply in 0..2 {
        session.begin_turn();
        let mut stream = session.stream();
        let _ = session.open(&mut stream, PART, Channel::Text);
        let text =
            b"I run git push now --force.\nx.unwrap() // fine\ny.unwrap()\nexport K=sk-abcdef\n";
        for delta in text.chunks(7) {
            if let Verdict::Act(decision) = session.push(&mut stream, PART, delta) {
                let line = format!("{:?} {}", decision.action, stream.message(&decision).len());
                store
                    .append(vec![ttsr_agent::store::Entry::Message {
                        message: ttsr::harness::Message::user(line.as_str()),
                    }])
                    .unwrap();
                println!("durable {reply} {line}");
            }
        }
        let _ = session.close(&mut stream, PART);
    }
}

/// Returns the results that the child printed, and its exit status.
fn refused_after(answered: u64, path: &std::path::Path) -> (Vec<String>, std::process::Output) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "allocations::refused_child",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ANSWERED, answered.to_string())
        .env(FILE, path)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = said
        .lines()
        .filter_map(|line| Some(line.split_once("durable ")?.1.to_owned()));
    (lines.collect(), output)
}

#[test]
#[cfg(unix)]
fn the_nth_allocation_is_refused_for_every_n_and_nothing_said_before_is_wrong() {
    use std::os::unix::process::ExitStatusExt as _;

    let folder = ttsr_testing::Folder::new();
    let path = folder.0.join("talk.ttsr");
    let (whole, output) = refused_after(u64::MAX - 1, &path);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && whole.len() > 2, "{said}");
    let calls = said
        .lines()
        .find_map(|line| line.split_once("calls ")?.1.parse().ok());
    let calls: u64 = calls.unwrap();
    // One process each: a hundred of them, spread over all calls, and fewer at a smaller scale.
    let every = calls.div_ceil(scale(100).max(10) as u64);
    let mut refused = 0;
    for answered in (0..calls).step_by(every as usize) {
        std::fs::remove_file(&path).ok();
        let (lines, output) = refused_after(answered, &path);
        // SIGABRT: the process aborted at once.
        assert_eq!(output.status.signal(), Some(6), "{answered}: {output:?}");
        assert!(whole.starts_with(&lines), "{answered}: {lines:?}");
        refused += 1;
        {
            // A file without a complete header is empty, and every record that was reported is present.
            let (_, kept) = ttsr_agent::store::Store::open(&path).unwrap();
            let written: Vec<String> = kept.messages().iter().map(|m| m.text()).collect();
            let said: Vec<&str> = lines
                .iter()
                .filter_map(|l| Some(l.split_once(' ')?.1))
                .collect();
            assert!(
                written.len() >= said.len() && written.len() <= said.len() + 1,
                "{answered}: {written:?}"
            );
            assert!(
                written.iter().zip(&said).all(|(is, was)| is == was),
                "{answered}"
            );
        }
    }
    println!("allocations: {refused} of {calls} refused, one a process: each ended by itself");
}
