//! Helpers that several tests share: a seeded random generator, random patterns, and texts that match them.

// A panic here fails a test, which is its purpose.
#![allow(clippy::missing_panics_doc, clippy::missing_errors_doc)]

use regex_syntax::hir::{Class, Hir, HirKind};

pub mod any_host;
pub mod cassette;
pub mod evasions;
pub mod flood;
mod folder;
pub mod listener;
// Under loom, tokio has no sockets.
#[cfg(not(loom))]
pub mod opencode;
pub mod oracle;
mod random;
pub mod recordings;
pub mod skip;
pub mod source;

pub use folder::Folder;
pub use random::{Random, in_parts, scale};

impl Random {
    /// Splits the text into pieces of at most `longest` bytes.
    pub fn pieces<'a>(&mut self, mut text: &'a [u8], longest: usize) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.len().min(1 + self.below(longest)));
            pieces.push(piece);
            text = rest;
        }
        pieces
    }

    /// Returns a text of up to `most` fragments, some of them invalid UTF-8.
    pub fn noise(&mut self, most: usize) -> Vec<u8> {
        const PIECES: [&[u8]; 20] = [
            b"a",
            b"b",
            b"c",
            b"ab",
            b" ",
            b"\n",
            b"\r",
            b"\r\n",
            b"_",
            b"1",
            b"-",
            b"x",
            "é".as_bytes(),
            "€".as_bytes(),
            "ж".as_bytes(),
            "😀".as_bytes(),
            "\u{212A}".as_bytes(),
            b"\xA9",
            b"\xE2\x82",
            b"\xFF",
        ];
        (0..self.below(most + 1))
            .flat_map(|_| self.pick(&PIECES).to_vec())
            .collect()
    }
}

/// Returns a random pattern over a small alphabet: classes, Unicode, anchors, boundaries, counted repeats.
pub fn pattern_text(random: &mut Random) -> String {
    let mut text = String::new();
    push_pattern(random, 3, &mut text);
    text
}

fn push_pattern(random: &mut Random, depth: usize, out: &mut String) {
    if depth == 0 {
        return out.push_str(random.pick(&ATOMS));
    }
    match random.below(10) {
        0..=4 => {
            for _ in 0..1 + random.below(3) {
                push_pattern(random, depth - 1, out);
            }
        }
        5 | 6 => {
            out.push_str("(?:");
            push_pattern(random, depth - 1, out);
            out.push('|');
            push_pattern(random, depth - 1, out);
            out.push(')');
        }
        7 | 8 => {
            out.push_str("(?:");
            push_pattern(random, depth - 1, out);
            out.push(')');
            out.push_str(random.pick(&REPEATS));
        }
        _ => out.push_str(random.pick(&LOOKS)),
    }
}

const ATOMS: [&str; 27] = [
    "a",
    "b",
    "c",
    "ab",
    "x",
    "1",
    "_",
    "é",
    "€",
    "[ab]",
    "[^a]",
    "[a-c]",
    r"\w",
    r"\W",
    r"\d",
    r"\s",
    ".",
    "(?s:.)",
    "(?i:k)",
    "(?i:s)",
    r"\pL",
    r"[^\n]",
    "😀",
    "(?-u:[a-c])",
    r"(?-u:\xA9)",
    r"(?s-u:.)",
    r"\n",
];
const REPEATS: [&str; 9] = ["*", "+", "?", "*?", "{2}", "{1,3}", "{2,}", "{0,2}", "+?"];
const LOOKS: [&str; 16] = [
    r"\b",
    r"\B",
    "^",
    "$",
    "(?m:^)",
    "(?m:$)",
    "(?mR:^)",
    "(?mR:$)",
    r"\b{start}",
    r"\b{end}",
    r"\b{start-half}",
    r"\b{end-half}",
    r"(?-u:\b)",
    r"(?-u:\B)",
    r"\z",
    r"\A",
];

/// Appends a text that the pattern matches, apart from look-around.
pub fn sample(random: &mut Random, hir: &Hir, out: &mut Vec<u8>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.extend_from_slice(&literal.0),
        HirKind::Class(class) => sample_class(random, class, out),
        HirKind::Capture(capture) => sample(random, &capture.sub, out),
        HirKind::Concat(subs) => subs.iter().for_each(|sub| sample(random, sub, out)),
        HirKind::Alternation(subs) => {
            let chosen = random.below(subs.len());
            sample(random, &subs[chosen], out);
        }
        HirKind::Repetition(repetition) => {
            let most = repetition
                .max
                .unwrap_or(repetition.min + 3)
                .min(repetition.min + 3);
            let times =
                repetition.min as usize + random.below((most - repetition.min) as usize + 1);
            (0..times).for_each(|_| sample(random, &repetition.sub, out));
        }
    }
}

fn sample_class(random: &mut Random, class: &Class, out: &mut Vec<u8>) {
    match class {
        Class::Unicode(class) => {
            let likely = [
                'a', 'b', 'c', 'x', '1', '_', ' ', '\n', 'é', '€', 'ж', 'k', 's', '\u{212A}',
            ];
            let held = |char: char| {
                class
                    .ranges()
                    .iter()
                    .any(|r| r.start() <= char && char <= r.end())
            };
            let held: Vec<char> = likely.into_iter().filter(|&char| held(char)).collect();
            let char = match (held.as_slice(), class.ranges().first()) {
                ([], Some(range)) => range.start(),
                ([], None) => return,
                (held, _) => held[random.below(held.len())],
            };
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Class::Bytes(class) => {
            let ranges = class.ranges();
            if ranges.is_empty() {
                return;
            }
            let range = ranges[random.below(ranges.len())];
            let span = usize::from(range.end() - range.start()) + 1;
            out.push(range.start() + random.below(span) as u8);
        }
    }
}
