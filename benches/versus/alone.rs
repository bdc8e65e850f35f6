//! Targets about this crate alone: two ways of using it, timed in turn.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

#[cfg(feature = "harness")]
use ttsr::Pack;
use ttsr::{Channel, Limits, Stream};

use crate::common::rules::{PART, pack, pool, push_all};
use crate::common::text::{Random, Text};
use crate::duel::{Engine, median};
use crate::ours::Ours;
use crate::report::{Figure, Report};
use crate::sets::Set;

/// Bytes of text for cases in which a megabyte is enough.
const MEGABYTE: usize = 1 << 20;

pub(crate) fn measure(text: &Text, rounds: usize, report: &mut Report) {
    let megabyte = text.truncated(MEGABYTE);
    let mut figures = Vec::new();
    figures.extend(flat_in_rules(&megabyte, rounds));
    figures.push(flat_in_history(text, rounds));
    figures.push(cold(&megabyte, rounds));
    figures.push(tool_input(&megabyte, rounds));
    #[cfg(feature = "harness")]
    figures.extend(in_loop(&megabyte, rounds));
    #[cfg(not(feature = "harness"))]
    println!("the loop is not measured: it needs the feature `harness`");
    figures.push(threads(&megabyte, rounds));
    figures.extend(adversarial());
    figures.extend(scripts(rounds));
    figures.push(Figure::new(
        "a stream of ttsr",
        Stream::STATE_BYTES as f64,
        "B",
    ));
    report.figures.extend(figures);
}

/// Returns the median of `b` divided by `a`, run in turn. Both return seconds. The first round is not counted.
///
/// These passes are short, so there are more of them than in a duel.
fn ratio(rounds: usize, mut a: impl FnMut() -> f64, mut b: impl FnMut() -> f64) -> f64 {
    a();
    b();
    let ratios = (0..rounds * 5).map(|_| {
        let a = a();
        b() / a
    });
    median(ratios.collect())
}

fn flat_in_rules(text: &Text, rounds: usize) -> Vec<Figure> {
    let mut packs = [10, 1000, 5000].map(|count| Ours::load(&Set::pool(count)));
    let mut over: [Vec<f64>; 2] = Default::default();
    for round in 0..=rounds {
        let [few, more, most] = packs.each_mut().map(|ours| ours.seconds(text, 1));
        if round > 0 {
            over[0].push(more - few);
            over[1].push(most - few);
        }
    }
    let deltas = (text.deltas.len() - 1) as f64;
    let names = ["1000", "5000"].map(|count| format!("{count} rules, ns per delta over 10 rules"));
    let figures = names.into_iter().zip(over);
    figures
        .map(|(name, over)| Figure::new(name, median(over) * 1e9 / deltas, "ns"))
        .collect()
}

/// Compares a late with an early delta. In both cases the same megabyte is read before, for the early one mostly by
/// another stream, so that only the history of the stream differs and not the content of the CPU caches.
fn flat_in_history(text: &Text, rounds: usize) -> Figure {
    let ours = Ours::load(&Set::pool(1000));
    let timed = text.truncated(64 << 10);
    let before = Text::of_bytes(text.bytes[text.bytes.len() - 1_000_000..].to_vec());
    let after = |kilobytes: usize| {
        let seen = Text::of_bytes(before.bytes[before.bytes.len() - kilobytes * 1000..].to_vec());
        let elsewhere = before.truncated(before.bytes.len() - seen.bytes.len());
        let (ours, timed) = (&ours, &timed);
        move || {
            push_all(&mut ours.open(), &elsewhere);
            let mut stream = ours.open();
            push_all(&mut stream, &seen);
            seconds(&mut stream, timed)
        }
    };
    Figure::new(
        "1 MB seen by 1 KB seen",
        ratio(rounds, after(1), after(1000)),
        "×",
    )
}

fn cold(text: &Text, rounds: usize) -> Figure {
    let set = Set::pool(1000);
    let ratios = (0..rounds).map(|_| {
        let mut ours = Ours::load(&set);
        let cold = ours.seconds(text, 1);
        cold / ours.seconds(text, 1)
    });
    Figure::new(
        "1000 rules, first MB cold by warm",
        median(ratios.collect()),
        "×",
    )
}

fn tool_input(text: &Text, rounds: usize) -> Figure {
    let patterns = pool(1000);
    let on = |channel| pack(&patterns, channel, Limits::default());
    let (plain, input) = (on(Channel::Text), on(Channel::ToolInput));
    let escaped = text.escaped();
    let as_text = || {
        let mut stream = plain.stream();
        stream.open(PART, Channel::Text);
        seconds(&mut stream, text)
    };
    let as_input = || {
        let mut stream = input.stream();
        stream.open(PART, Channel::ToolInput);
        assert!(stream.push(PART, br#"{"content":""#).is_empty());
        seconds(&mut stream, &escaped)
    };
    Figure::new("tool input by text", ratio(rounds, as_text, as_input), "×")
}

/// Returns the time of the deltas in seconds.
fn seconds(stream: &mut Stream, text: &Text) -> f64 {
    let started = Instant::now();
    black_box(push_all(stream, text));
    started.elapsed().as_secs_f64()
}

#[cfg(feature = "harness")]
fn in_loop(text: &Text, rounds: usize) -> [Figure; 2] {
    use crate::common::processor::{accumulate, step_all};
    let deltas = (text.deltas.len() - 1) as f64;
    let none = Pack::builder().build().expect("an empty pack loads");
    let many = pack(&pool(1000), Channel::Text, Limits::default());
    let bare = || accumulate(text).as_secs_f64();
    let of_loop = ratio(rounds, bare, || step_all(&none, text).as_secs_f64());
    step_all(&many, text); // builds the states
    let over = (0..rounds).map(|_| step_all(&many, text).as_secs_f64() - bare());
    let over = median(over.collect()) * 1e9 / deltas;
    [
        Figure::new("loop without rules by accumulating", of_loop, "×"),
        Figure::new(
            "loop with 1000 rules, ns per delta over accumulating",
            over,
            "ns",
        ),
    ]
}

/// Returns the throughput of two threads divided by that of one.
fn threads(text: &Text, rounds: usize) -> Figure {
    let pack = pack(&pool(1000), Channel::Text, Limits::default());
    let together = |threads: usize| {
        let barrier = Barrier::new(threads);
        let read = || {
            let mut stream = pack.stream();
            stream.open(PART, Channel::Text);
            barrier.wait();
            seconds(&mut stream, text)
        };
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
            let times = running
                .into_iter()
                .map(|thread| thread.join().expect("a pass"));
            times.fold(0.0, f64::max)
        })
    };
    Figure::new(
        "2 threads by one",
        2.0 / ratio(rounds, || together(1), || together(2)),
        "×",
    )
}

/// Times text that leads to a new state at every byte from the first one on, in deltas of 4 bytes.
fn adversarial() -> [Figure; 2] {
    const HALF: usize = 8 << 20;
    let patterns = ["[01]*1[01]{18}x", "1[01]{20}y"].map(str::to_owned);
    let pack = pack(&patterns, Channel::Text, Limits::default());
    let mut random = Random::default();
    let digits: Vec<u8> = (0..HALF).map(|_| b'0' + random.below(2) as u8).collect();
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    let mut took = 0.0;
    let weights = [0, 1].map(|_| {
        let started = Instant::now();
        let hits: usize = digits
            .chunks(4)
            .map(|delta| stream.push(PART, delta).len())
            .sum();
        assert_eq!(hits, 0, "digits match nothing");
        took += started.elapsed().as_secs_f64();
        resident_bytes()
    });
    [
        Figure::new(
            "adversarial text, MB/s",
            2.0 * HALF as f64 / took / 1e6,
            "MB/s",
        ),
        Figure::new(
            "adversarial text, memory after 16 MB by after 8 MB",
            weights[1] / weights[0],
            "×",
        ),
    ]
}

/// Returns the resident memory of this process, or NaN if the system does not report it.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kilobytes.map_or(f64::NAN, |kilobytes: f64| kilobytes * 1024.0)
}

/// Returns the cost of a byte in other scripts divided by that of ASCII: in deltas with equal boundaries, and in bulk.
fn scripts(rounds: usize) -> Vec<Figure> {
    let pack = pack(&pool(1000), Channel::Text, Limits::default());
    let pass = |text: &Text| {
        let mut stream = pack.stream();
        stream.open(PART, Channel::Text);
        seconds(&mut stream, text)
    };
    let ascii = Text::made("ASCII", (64 << 10) + 100);
    let mut figures = Vec::new();
    for script in ["Chinese", "Russian", "emoji"] {
        let text = Text::made(script, 64 << 10);
        let same = ascii.cut_like(&text);
        let by = ratio(rounds, || pass(&same), || pass(&text));
        figures.push(Figure::new(format!("{script} by ASCII, a byte"), by, "×"));
        let whole = |text: &Text| Text {
            bytes: text.bytes.clone(),
            deltas: vec![0, text.bytes.len() as u32],
        };
        let (text, same) = (whole(&text), whole(&same));
        let by = ratio(rounds, || pass(&same), || pass(&text));
        figures.push(Figure::new(
            format!("{script} by ASCII in bulk, a byte"),
            by,
            "×",
        ));
    }
    figures
}
