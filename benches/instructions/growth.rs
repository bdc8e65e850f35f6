//! Hostile pairs of rules and text: twice the text must cost at most 2.1 times the instructions.
//!
//! Each text keeps its rule active and does not match it, or is redacted by it. A text is read once before, so that all
//! states that can be built are built and only the cost per byte is left. Limits that bound the work by anything but the
//! length of the text are set far below it; otherwise that bound would be measured and not the growth. Of a pair about the
//! text that is held for a match, the stretch is longer than the text.

use std::fmt::Write;

use ttsr::{Action, Channel, Limits, Pack, Stream};

use crate::cases::measured_pass;
use crate::common::rules::PART;
use crate::common::text::Random;

/// The largest allowed cost of a text of twice the length, relative to that of the text.
pub(crate) const MAX_RATIO: f64 = 2.1;

/// The largest allowed cost of a byte, in instructions: 2 µs at four instructions a nanosecond.
pub(crate) const MAX_PER_BYTE: f64 = 8_000.0;

/// Bytes of the shorter text; the longer one has twice as many.
const LENGTH: usize = 16 << 10;

/// Bytes of a stretch that are far fewer than those of the text.
const SHORT_STRETCH: usize = 2 << 10;

/// Bytes of the shorter text if it needs ever more states: tables are replaced repeatedly, and the text must be long
/// enough for several of them.
const THRASHING_LENGTH: usize = 16 * LENGTH;

/// A rule and a text constructed against it.
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    length: usize,
    /// The value of [`Limits::stretch_bytes`].
    stretch_bytes: usize,
    /// The match keys and other keys of the rule, in TOML.
    rule: &'static str,
    channel: Channel,
    /// Returns about as many bytes of text as the argument says.
    text: fn(usize) -> Vec<u8>,
}

const fn text(name: &'static str, rule: &'static str, text: fn(usize) -> Vec<u8>) -> Pair {
    let channel = Channel::Text;
    Pair {
        name,
        length: LENGTH,
        stretch_bytes: SHORT_STRETCH,
        rule,
        channel,
        text,
    }
}

const fn stretched(name: &'static str, rule: &'static str, text_of: fn(usize) -> Vec<u8>) -> Pair {
    Pair {
        stretch_bytes: 4 * LENGTH,
        ..text(name, rule, text_of)
    }
}

const fn thrashing(name: &'static str, rule: &'static str, text_of: fn(usize) -> Vec<u8>) -> Pair {
    let length = THRASHING_LENGTH;
    Pair {
        length,
        ..text(name, rule, text_of)
    }
}

const fn input(name: &'static str, rule: &'static str, text: fn(usize) -> Vec<u8>) -> Pair {
    let channel = Channel::ToolInput;
    Pair {
        name,
        length: LENGTH,
        stretch_bytes: SHORT_STRETCH,
        rule,
        channel,
        text,
    }
}

pub(crate) const PAIRS: &[Pair] = &[
    text(
        "nested repetition",
        "match.any = [{ regex = '(?:a+)+b' }]",
        |length| "a".repeat(length).into(),
    ),
    text(
        "overlapping alternatives",
        "match.any = [{ regex = '(?:a|aa|aaa)+c' }]",
        |length| "a".repeat(length).into(),
    ),
    text(
        "optional repeats before required repeats",
        "match.any = [{ regex = '(?:a?){40}a{40}x' }]",
        |length| "a".repeat(length).into(),
    ),
    text(
        "several `.*` in one line",
        "match.any = [{ regex = 'x.*x.*=.*;' }]",
        |length| "x".repeat(length).into(),
    ),
    text(
        "whitespace run before other text",
        r"match.any = [{ regex = '\s+\z' }]",
        |length| (" ".repeat(length) + "x").into(),
    ),
    thrashing(
        "state explosion by counted repeats",
        "match.any = [{ regex = '[01]*1[01]{18}x' }, { regex = '1[01]{20}y' }]",
        |length| random_text("01", length),
    ),
    thrashing(
        "state explosion by wide gaps",
        "match.any = [{ regex = 'a.*b.*c.*d.*x' }, { regex = '(?:a[^b]{9}|b[^c]{9}|c[^d]{9}){3}y' }]",
        |length| random_text("abcd", length),
    ),
    thrashing(
        "counted repeats of Unicode classes",
        r"match.any = [{ regex = '(?:\w{9}\W|\d){6}x' }, { regex = '(?i)[kſ]\w{12}я' }]",
        |length| random_text("aж9 kſ", length),
    ),
    text(
        "invalid UTF-8",
        r"match.any = [{ regex = '\b\pL{3,40}\d' }]",
        |length| b"a\xE2\x82\xA9\xA9\xF0".repeat(length / 6),
    ),
    text(
        "`none` pending to the end of the line",
        "match.any = [{ literal = 'x' }]\nmatch.none = [{ literal = 'z' }]",
        |length| ("x".repeat(length) + "z\n").into(),
    ),
    text(
        "`none` pending for 10,000 lines",
        "match.any = [{ literal = 'x' }]\nmatch.none = [{ literal = 'z' }]\nmatch.within = { lines = 10000 }",
        |length| "x\nx\nx\nz\n".repeat(length / 8).into(),
    ),
    text(
        "`all` with one condition unmet",
        "match.all = [{ literal = 'x' }, { literal = 'z' }]\nmatch.within = { chars = 1_000_000 }",
        |length| "x ".repeat(length / 2).into(),
    ),
    text(
        "`sequence` incomplete at every step",
        "match.sequence = [{ literal = 'x' }, { literal = 'y' }, { literal = 'z' }]\nmatch.within = { lines = 10000 }",
        |length| "x\ny\n".repeat(length / 4).into(),
    ),
    text(
        "unterminated match at every byte",
        "match.any = [{ regex = 'x[^z]*z|x' }]\nmatch.count = 1_000_000_000",
        |length| "x".repeat(length).into(),
    ),
    text(
        "redaction of an unterminated match",
        "match.any = [{ regex = '(?s)x.*z' }]\naction = 'redact'",
        |length| "x".repeat(length).into(),
    ),
    stretched(
        "a match at every other byte of a stretch",
        "match.any = [{ regex = 'a[^c]*z|b' }]\nmatch.count = 1_000_000_000",
        |length| "ab".repeat(length / 2).into(),
    ),
    stretched(
        "bounded matches in progress at every character",
        "match.any = [{ regex = '[^x].{0,40}y' }]\nmatch.count = 1_000_000_000",
        |length| "y".repeat(length).into(),
    ),
    text(
        "captures below the entropy threshold",
        "match.any = [{ regex = 'k=\"(?<key>[^\"]{16,})\"' }]\nmatch.capture = { group = 'key', entropy = 3.5 }",
        |length| "k=\"aaaaaaaaaaaaaaaaaaaa\" ".repeat(length / 24).into(),
    ),
    text(
        "near repetition (Fibonacci word)",
        "match.repetition = { unit-chars = [20, 400], times = 4 }",
        fibonacci,
    ),
    text(
        "nested code fences",
        "match.any = [{ literal = 'x', region = 'code' }]",
        |length| "```\n~~~\n````\n> ```\n".repeat(length / 19).into(),
    ),
    text(
        "unclosed inline code",
        "match.any = [{ literal = 'x', region = 'inline-code' }]",
        |length| {
            let runs = (1..).map(|ticks| format!("{} ", "`".repeat(ticks % 90 + 1)));
            runs.take(length / 47).collect::<String>().into()
        },
    ),
    text(
        "invisible characters",
        "match.any = [{ literal = 'ab', fold = ['case', 'invisible'] }]",
        |length| "a\u{200B}\u{AD}\u{202E}".repeat(length / 9).into(),
    ),
    text("truncated control tokens", "match.leak = true", |length| {
        "<|im_st<|<<|".repeat(length / 12).into()
    }),
    input(
        "nested JSON arrays",
        "match.any = [{ regex = '(?:a+)+b' }]",
        |length| {
            let nest = format!("{}1{},", "[".repeat(90), "]".repeat(90));
            format!("{{\"a\":[{}0]}}", nest.repeat(length / 182)).into()
        },
    ),
    input(
        "JSON string of escapes",
        "match.any = [{ regex = '(?:a+)+b' }]",
        |length| format!("{{\"command\":\"{}\"}}", r"\u0061".repeat(length / 6)).into(),
    ),
    input(
        "argument globs with several stars",
        "args = ['*a*a*a*b', '**.*a*a*c']\nmatch.any = [{ literal = 'x' }]",
        |length| {
            let mut keys = String::from("{");
            while keys.len() < length {
                write!(keys, "\"aaaaaaaaaaaaaaaa{}\":{{\"a\":\"x\"}},", keys.len())
                    .expect("a string takes all");
            }
            (keys + "\"a\":1}").into()
        },
    ),
    input(
        "a redaction in each of many arguments",
        "match.any = [{ regex = 'x[0-9]+' }]\naction = 'redact'",
        |length| {
            let entries = (0..length / 14).map(|number| format!("\"k{number:04}\":\"x1\","));
            format!("{{{}\"a\":1}}", entries.collect::<String>()).into()
        },
    ),
    input(
        "many files, and a match that waits for one",
        "paths = ['*.rs']\nmatch.any = [{ literal = 'y' }]",
        |length| {
            let files = (0..length / 23).map(|number| format!("{{\"path\":\"x{number:05}.c\"}},"));
            format!("{{\"a\":\"y\",\"edits\":[{}0]}}", files.collect::<String>()).into()
        },
    ),
    input(
        "a match at every word, none decided before the file is named",
        "paths = ['*.rs']\nmatch.any = [{ regex = 'ab' }]",
        |length| format!("{{\"content\":\"{}\"}}", "ab ".repeat(length / 3)).into(),
    ),
    input(
        "diff of two repeated lines",
        "match.any = [{ literal = 'z', region = 'added' }]",
        |length| {
            let (old, new) = (r"a\nb\n".repeat(length / 14), r"b\na\n".repeat(length / 14));
            format!("{{\"path\":\"a.rs\",\"old_string\":\"{old}\",\"new_string\":\"{new}\"}}")
                .into()
        },
    ),
    input(
        "a pipeline in which each command meets a part of the pattern",
        "match.any = [{ command = 'env', pipe-to = { command = 'nc', flags = ['-x'] } }]",
        |length| format!("{{\"command\":\"{}true\"}}", "env|nc a|".repeat(length / 9)).into(),
    ),
    input(
        "a file that many commands have written",
        "match.any = [{ command = 'nc', reads = ['*.key'] }]",
        |length| {
            let commands = r"cat b.pub > a\nnc c < a\n".repeat(length / 25);
            format!("{{\"command\":\"{commands}\"}}").into()
        },
    ),
    input(
        "commands that meet the parts of the pattern in no pipeline",
        "match.any = [{ command = 'env', pipe-to = { command = 'nc' } }]",
        |length| format!("{{\"command\":\"{}true\"}}", "env;nc a;".repeat(length / 9)).into(),
    ),
    input(
        "new files that reach a command through many others",
        "match.any = [{ command = 'nc', reads = ['*.key', '**/.ssh/id_*'] }]",
        |length| {
            let mut text = String::from("{\"command\":\"");
            let mut number = 1_000_000;
            while text.len() < length {
                text.push_str("cat");
                for _ in 0..16 {
                    number += 1;
                    write!(text, " {number}").expect("a string takes all");
                }
                text.push_str(r" > a\nnc c < a\n");
            }
            (text + "\"}").into()
        },
    ),
    input(
        "nested command substitution",
        "match.any = [{ literal = 'rm -rf', region = 'shell' }]",
        |length| format!("{{\"command\":\"{}", "echo $(`{ ".repeat(length / 10)).into(),
    ),
];

/// Returns `length` random characters of the alphabet.
fn random_text(alphabet: &str, length: usize) -> Vec<u8> {
    let chars: Vec<char> = alphabet.chars().collect();
    let mut random = Random::default();
    let mut text = String::new();
    while text.len() < length {
        text.push(chars[random.below(chars.len())]);
    }
    text.into()
}

/// Returns the Fibonacci word: it is full of squares and cubes, and contains no fourth power.
fn fibonacci(length: usize) -> Vec<u8> {
    let (mut before, mut word) = ("a".to_owned(), "ab".to_owned());
    while word.len() < length {
        (before, word) = (word.clone(), word + &before);
    }
    word.truncate(length);
    word.into()
}

/// Reads the text of the named pair, `times` times as long, and prints its number of bytes.
pub(crate) fn run(name: &str, times: usize) {
    let pair = PAIRS.iter().find(|pair| pair.name == name);
    let pair = pair.expect("the name of a pair");
    let written = format!(
        "schema = 1\n[pack]\nname = 'a'\n[rule.b]\ndescription = 'c'\nseverity = 'info'\non = ['{}']\n{}\n",
        pair.channel.name(),
        pair.rule
    );
    let limits = Limits {
        table_bytes: 256 << 10,
        stretch_bytes: pair.stretch_bytes,
        ..Limits::default()
    };
    let pack = Pack::builder().limits(limits).toml("pair.toml", written);
    let pack = pack.build().expect("the rule loads");
    let text = (pair.text)(pair.length * times);
    let open = || {
        let mut stream = pack.stream();
        stream.open(PART, pair.channel);
        let _ = stream.set_tool(PART, "edit", "call_1");
        stream
    };
    let read = |stream: &mut Stream, text: &[u8]| -> usize {
        let hits = text.chunks(5).map(|delta| stream.push(PART, delta).len());
        hits.sum::<usize>() + stream.close(PART).len()
    };
    // A rule that redacts hits once in a part.
    let expected = read(&mut open(), &(pair.text)(2 * pair.length));
    assert!(
        expected <= usize::from(pack.rules()[0].action == Action::Redact),
        "{name}"
    );
    let mut stream = open();
    let hits = measured_pass(&mut || read(&mut stream, &text));
    assert_eq!(hits, expected, "hits of `{name}`");
    assert_eq!(stream.counters().unscanned_bytes, 0, "`{name}` is read");
    println!("{}", text.len());
}
