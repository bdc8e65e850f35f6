//! Every detector finds the same under every cut as a model that has the whole text.

mod calibration;

use super::control_tokens::{ControlTokenDetector, ControlTokenLimits};
use super::doom_loop::{CallDigest, CallHistory, CallRepetition, LoopLimits};
use super::entropy::Entropy;
use super::limit::{BoundKind, BoundLimits, BoundMonitor};
use super::near_duplicate::{NearDuplicateDetector, NearDuplicateLimits};
use super::repetition::{RepetitionDetector, RepetitionLimits, is_regular};
use super::script::{LanguageSet, ScriptDetector, ScriptLimits, ScriptSet};
use super::turns::{ReplyDigester, ReplyHistory, TurnLimits};
use super::unknown_name::{KnownNames, UnknownNameDetector};
use super::words::Sketch;
use super::{Detection, Detector};
use crate::chunk::{Chunk, Language};

use std::sync::Arc;
use std::time::Duration;
use ttsr_testing::{Random, scale};

/// Returns the detections in a text that is cut into these pieces.
fn found_in(mut detector: impl Detector, text: &[u8], cuts: &[usize]) -> Vec<Detection> {
    let mut all = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        if from < to {
            let chunk = Chunk::verbatim(&text[from..to], from as u64);
            detector.push(chunk, &mut |found| {
                assert!(
                    found.decided <= to as u64 && found.start <= found.end,
                    "{found:?} at {to}"
                );
                all.push(found);
            });
        }
        from = to;
    }
    detector.finish(text.len() as u64, &mut |found| all.push(found));
    all
}

/// Asserts that every cut gives the detections of the whole text. Returns them, and the number of cuts.
fn under_every_cut(
    random: &mut Random,
    text: &[u8],
    run: impl Fn(&[usize]) -> Vec<Detection>,
) -> (Vec<Detection>, u64) {
    let whole = run(&[]);
    let single: Vec<usize> = (1..text.len()).collect();
    assert_eq!(
        run(&single),
        whole,
        "bytewise: {:?}",
        String::from_utf8_lossy(text)
    );
    let mut cases = 2;
    if text.len() <= 160 {
        for at in 1..text.len() {
            assert_eq!(
                run(&[at]),
                whole,
                "cut at {at}: {:?}",
                String::from_utf8_lossy(text)
            );
            cases += 1;
        }
    }
    for _ in 0..4 {
        let mut cuts: Vec<usize> = (0..random.below(8))
            .map(|_| random.below(text.len() + 1))
            .collect();
        cuts.sort_unstable();
        assert_eq!(
            run(&cuts),
            whole,
            "cut at {cuts:?}: {:?}",
            String::from_utf8_lossy(text)
        );
        cases += 1;
    }
    (whole, cases)
}

fn glue(random: &mut Random, parts: &[&str], most: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..random.below(most) + 1 {
        match random.below(20) {
            0 => text.extend(random.noise(4)),
            _ => text.extend(random.pick(parts).bytes()),
        }
    }
    text
}

fn report(name: &str, cases: u64, hits: u64) {
    println!("{name}: {cases} cases, {hits} of the texts with something found");
    assert!(hits > 0, "{name} found nothing, so nothing was tested");
}

const CYCLES: RepetitionLimits = RepetitionLimits {
    unit_chars: (1, 40),
    times: 4,
    chars: 56,
    regular_times: 8,
    regular_chars: 112,
};

/// Returns the first repetition of a text, by trying every length at every offset.
fn naive_cycle(text: &[u8], limits: &RepetitionLimits) -> Option<Detection> {
    let mut starts: Vec<usize> = (0..=limits.unit_chars.1 * 4).collect();
    for len in 1..=text.len() {
        for distance in 1..starts.len().min(len) {
            if text[len - 1] != text[len - 1 - distance] {
                starts[distance] = len;
            }
            let from = starts[distance].saturating_sub(distance);
            let held = len - starts[distance].min(len);
            if held < distance {
                continue;
            }
            let unit = &text[len - distance..len];
            let chars = unit
                .iter()
                .filter(|&&byte| byte & 0xC0 != 0x80)
                .count()
                .max(1);
            if chars > limits.unit_chars.1 {
                continue;
            }
            let (times, all) = match is_regular(unit) {
                true => (limits.regular_times, limits.regular_chars),
                false => (limits.times, limits.chars),
            };
            let least = chars * limits.unit_chars.0.div_ceil(chars).max(1) * times;
            if (len - from) * chars >= least.max(all) * distance {
                return Some(Detection {
                    start: (from + distance) as u64,
                    end: len as u64,
                    decided: len as u64,
                });
            }
        }
    }
    None
}

#[test]
fn circles_are_found_where_they_are() {
    find_circles(0xC1C1E, &CYCLES, 200);
}

/// With these limits a period must hold for 128 bytes before it is reported, which must delay no detection.
#[test]
fn long_circles_are_found_where_they_are() {
    let limits = RepetitionLimits {
        unit_chars: (1, 100),
        regular_times: 6,
        regular_chars: 300,
        ..RepetitionLimits::default()
    };
    find_circles(0x10C1C1E, &limits, 800);
}

/// A long unit has more samples than the table has slots, and its repetition lies in many blocks of the window.
#[test]
fn long_units_are_found_at_their_fourth_occurrence() {
    let mut random = Random::new(0x10A6);
    let limits = RepetitionLimits {
        unit_chars: (1, 4000),
        ..RepetitionLimits::default()
    };
    for _ in 0..scale(400) {
        // Few words, so that grams recur within the unit and before it.
        let mut words = |len: usize| -> Vec<u8> {
            let mut text = Vec::new();
            while text.len() < len {
                let letters = 1 + random.below(6);
                (0..letters).for_each(|_| text.push(random.pick(b"aceglnost")));
                text.push(b' ');
            }
            text
        };
        let (before, unit) = (words(5000), words(4000));
        let before = &before[..random.below(before.len())];
        let unit = &unit[..100 + random.below(3900)];
        let text = [before, &unit.repeat(4), b"!"].concat();
        let mut start = before.len();
        while start > 0 && text[start - 1] == text[start - 1 + unit.len()] {
            start -= 1;
        }
        let found = found_in(RepetitionDetector::new(limits), &text, &[]);
        let end = (start + 4 * unit.len()) as u64;
        let expected = Detection {
            start: (start + unit.len()) as u64,
            end,
            decided: end,
        };
        assert_eq!(found, [expected], "{} after {}", unit.len(), before.len());
    }
}

/// The window is a ring, in which a repetition may lie on both sides of the end.
#[test]
fn circles_are_found_at_the_end_of_the_window() {
    let mut random = Random::new(0x41A6);
    let limits = RepetitionLimits::default();
    let mut hits = 0;
    for _ in 0..scale(60) {
        let before = super::repetition::WINDOW - random.below(700);
        let mut text: Vec<u8> = (0..before)
            .map(|_| random.pick(b"abcdefghijklmnopqrstuvwxyz    "))
            .collect();
        let unit: Vec<u8> = (0..1 + random.below(150))
            .map(|_| random.pick(b"abcdefgh  "))
            .collect();
        text.extend(unit.repeat((600 / unit.len()).max(5)));
        text.extend_from_slice(b" and more text");
        let run = |cuts: &[usize]| found_in(RepetitionDetector::new(limits), &text, cuts);
        let found = run(&[]);
        let mut at = 0;
        let cuts = std::iter::from_fn(|| {
            at += 1 + random.below(300);
            (at < text.len()).then_some(at)
        });
        assert_eq!(run(&cuts.collect::<Vec<usize>>()), found);
        let last = before.saturating_sub(10_000);
        let model = naive_cycle(&text[last..], &limits).map(|found| Detection {
            start: found.start + last as u64,
            end: found.end + last as u64,
            decided: found.decided + last as u64,
        });
        assert_eq!(found.first(), model.as_ref(), "{unit:?}");
        hits += found.len();
    }
    assert!(hits > 0);
}

/// Compares the detector with the model, on texts with repetitions of up to `most` bytes.
fn find_circles(seed: u64, limits: &RepetitionLimits, most: usize) {
    const PARTS: [&str; 14] = [
        "a", "b", "ab", "word ", "é", "the cat ", "\n", "- item\n", "x = 1;\n", "---", "0", "ha",
        "! ", "😀",
    ];
    let mut random = Random::new(seed);
    let (mut cases, mut hits, mut late) = (0, 0, 0u64);
    let mut texts = 0u64;
    while cases < scale(200_000) as u64 {
        let mut text = glue(&mut random, &PARTS, 12);
        for _ in 0..random.below(3) {
            let parts = 1 + random.below(most / 32);
            let unit = glue(&mut random, &PARTS, parts);
            let times = random.below(1 + most / unit.len().clamp(1, most / 2));
            (0..times).for_each(|_| text.extend(&unit));
            text.extend(glue(&mut random, &PARTS, 4));
        }
        let run = |cuts: &[usize]| found_in(RepetitionDetector::new(*limits), &text, cuts);
        let (found, count) = under_every_cut(&mut random, &text, run);
        let model = naive_cycle(&text, limits);
        texts += 1;
        cases += count;
        hits += u64::from(!found.is_empty());
        // A repetition inside another one can be tracked first; the outer one is then found later.
        if found.first() != model.as_ref() {
            late += 1;
            let model = model.expect("what is found is there");
            assert!(
                found.iter().all(|found| found.decided >= model.decided),
                "{text:?}"
            );
        }
    }
    report("cycle", cases, hits);
    println!("cycle: {late} of {texts} texts found later than by the model, or not");
    assert!(
        late * 500 <= texts,
        "{late} of {texts} later than by the model"
    );
}

#[test]
fn a_unit_is_judged_as_code_if_more_than_half_of_it_is_code() {
    // The length of the prose and of the code of a unit, and the length of the text at which it is found.
    let found_at = |prose: usize, code: usize| {
        let mut detector = RepetitionDetector::new(RepetitionLimits::default());
        let unit: String = ('a'..='z').chain('A'..='Z').take(prose + code).collect();
        let (mut at, mut found) = (0, None);
        for (piece, is_code) in [(&unit[..prose], false), (&unit[prose..], true)].repeat(200) {
            detector.set_code(is_code);
            let chunk = Chunk::verbatim(piece.as_bytes(), at as u64);
            detector.push(chunk, &mut |it| found = Some(it.decided));
            at += piece.len();
        }
        found
    };
    // 240 characters of text, and 40 times or 1,200 characters of code.
    assert_eq!(found_at(40, 0), Some(240));
    assert_eq!(found_at(39, 1), Some(240));
    assert_eq!(found_at(20, 20), Some(240));
    assert_eq!(found_at(19, 21), Some(1600));
    assert_eq!(found_at(1, 39), Some(1600));
    assert_eq!(found_at(0, 24), Some(1200));
    assert_eq!(found_at(10, 14), Some(1200));
    assert_eq!(found_at(14, 10), Some(240));
}

/// Compares the number of bytes of code in a unit with a count of them, in text that changes between code and prose.
#[test]
fn a_change_of_code_in_a_long_repetition_is_counted_to_the_byte() {
    let limits = RepetitionLimits::default();
    let mut random = Random::new(0xC0DE);
    let mut found_in_code = 0;
    for _ in 0..scale(4_000) {
        let unit: String = ('a'..='z').take(8 + random.below(18)).collect();
        let text = unit.repeat(1 + 1_400 / unit.len());
        let mut detector = RepetitionDetector::new(limits);
        let (mut is_code, mut found) = (Vec::new(), None);
        let mut at = 0;
        while at < text.len() && found.is_none() {
            let code = random.below(4) > 0;
            let len = (1 + random.below(unit.len())).min(text.len() - at);
            detector.set_code(code);
            is_code.extend(std::iter::repeat_n(code, len));
            let chunk = Chunk::verbatim(&text.as_bytes()[at..at + len], at as u64);
            detector.push(chunk, &mut |it| found = Some(it.decided as usize));
            at += len;
        }
        let expected = (limits.chars..=text.len()).find(|&len| {
            let in_unit = &is_code[(len - unit.len()).min(is_code.len())..len.min(is_code.len())];
            let code = in_unit.iter().filter(|code| **code).count();
            2 * code <= unit.len() || len >= limits.regular_chars.max(40 * unit.len())
        });
        assert_eq!(found, expected, "{unit}");
        found_in_code += usize::from(found.is_some_and(|at| at > limits.chars));
    }
    assert!(found_in_code > 0, "every unit was prose");
}

#[test]
fn a_circle_is_cut_behind_its_first_time() {
    let unit = "I will now read the file and check what it says about the limits.\n";
    let text = format!("Let me see:\n{}", unit.repeat(9));
    let found = found_in(
        RepetitionDetector::new(RepetitionLimits::default()),
        text.as_bytes(),
        &[],
    );
    let kept = &text[..found[0].start as usize];
    // The line break before the first unit is part of the repetition.
    assert_eq!(kept, format!("Let me see:\n{}", unit.trim_end()));
    let mut far = RepetitionDetector::new(RepetitionLimits {
        unit_chars: (1, 4000),
        times: 3,
        ..RepetitionLimits::default()
    });
    let long: String = (0..600).map(|n| format!("w{n} ")).collect();
    let looping = long.repeat(4);
    let mut all = Vec::new();
    far.push(Chunk::verbatim(looping.as_bytes(), 7), &mut |found| {
        all.push(found)
    });
    assert_eq!(all[0].start, 7 + long.len() as u64);
}

const TOKENS: [&str; 26] = [
    "<|im_start|>",
    "<|im_end|>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "to=functions.run",
    "<tool_call>",
    "<invoke name=\"x\">",
    "<think>",
    "</s>",
    "<eos>",
    "<|odd|>",
    "<｜end▁of▁sentence｜>",
    "user",
    "\n",
    " ",
    "`",
    "\"",
    "a",
    "<",
    "[",
    "to=",
    "|>",
    ">",
    "word, ",
];

#[test]
fn leaks_are_the_same_under_every_cut() {
    let mut random = Random::new(0x1EA4);
    let (mut cases, mut hits) = (0, 0);
    let sure = r"<\|(?:im_start|im_end)\|>|\[/?INST\]|<｜end▁of▁sentence｜>";
    let sure = regex_automata::meta::Regex::new(sure).unwrap();
    while cases < scale(200_000) as u64 {
        let text = glue(&mut random, &TOKENS, 9);
        let code = random.below(3) == 0;
        let run = |cuts: &[usize]| {
            let mut leak = ControlTokenDetector::new(ControlTokenLimits::default());
            leak.set_code(code);
            found_in(leak, &text, cuts)
        };
        let (found, count) = under_every_cut(&mut random, &text, run);
        cases += count;
        hits += u64::from(!found.is_empty());
        let is_plain = |start: usize| start == 0 || b" \n".contains(&text[start - 1]);
        if let Some(token) = sure
            .find(text.as_slice())
            .filter(|token| !code && is_plain(token.start()))
        {
            let found = found.first().expect("a token in prose is a leak");
            assert!(
                found.end <= token.end() as u64,
                "{:?}",
                String::from_utf8_lossy(&text)
            );
        }
    }
    report("leak", cases, hits);
}

#[test]
fn a_sentence_about_a_token_is_no_leak() {
    let quiet = [
        "The model wrote \"<|im_start|>\" and '<|im_end|>' into its reply.",
        "An array[INST] is no token, nor is a[i] = b<c>, nor <b>bold</b>, nor to=you.",
        "<s>struck</s> out",
    ];
    for text in quiet {
        assert_eq!(
            found_in(
                ControlTokenDetector::new(ControlTokenLimits::default()),
                text.as_bytes(),
                &[]
            ),
            [],
            "{text}"
        );
    }
    let text = "ok<|im_end|>\n<|im_start|>user\n";
    let mut leak = ControlTokenDetector::new(ControlTokenLimits::default());
    leak.set_code(true);
    assert_eq!(
        found_in(leak, text.as_bytes(), &[]),
        [Detection {
            start: 2,
            end: 25,
            decided: 25
        }]
    );
}

#[test]
fn limits_are_passed_by_the_first_byte_too_many() {
    let mut random = Random::new(0x117);
    let mut cases = 0;
    while cases < scale(60_000) as u64 {
        let text = glue(
            &mut random,
            &["a", "\n", "word ", "12345", "é", "  ", "fn main() {}"],
            20,
        );
        let most = random.below(12) as u64;
        let bounds = BoundLimits {
            bytes: Some(most),
            lines: Some(most),
            tokens: Some(most),
            ..BoundLimits::default()
        };
        let run = |cuts: &[usize]| {
            let mut all = Vec::new();
            let mut limit = BoundMonitor::new(bounds, Duration::ZERO);
            let mut from = 0;
            for &to in cuts.iter().chain([&text.len()]) {
                if from < to {
                    let chunk = Chunk::verbatim(&text[from..to], from as u64);
                    limit.push(chunk, &mut |bound, found| all.push((bound as u64, found)));
                }
                from = to;
            }
            all.sort_unstable_by_key(|one| one.0);
            all.into_iter()
                .map(|(bound, found)| Detection {
                    start: found.start | bound << 32,
                    ..found
                })
                .collect()
        };
        let (found, count) = under_every_cut(&mut random, &text, run);
        cases += count;
        let at = |bound: BoundKind| found.iter().find(|found| found.start >> 32 == bound as u64);
        let bytes = at(BoundKind::Bytes).map(|found| found.end);
        assert_eq!(bytes, (text.len() as u64 > most).then_some(most + 1));
        let lines = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len);
        let before: usize = lines.clone().take(most as usize).sum();
        let more = lines.count() as u64 > most;
        assert_eq!(
            at(BoundKind::Lines).map(|found| found.end),
            more.then_some(before as u64 + 1)
        );
    }
    println!("limit: {cases} cases");
}

#[test]
fn time_is_what_the_caller_says() {
    let seconds = |n| Some(Duration::from_secs(n));
    let bounds = BoundLimits {
        first: seconds(2),
        stall: seconds(3),
        time: seconds(10),
        deltas: Some(2),
        ..BoundLimits::default()
    };
    let mut passed = Vec::new();
    let mut limit = BoundMonitor::new(bounds, Duration::from_secs(100));
    for (at, is_delta) in [
        (101, false),
        (102, true),
        (105, true),
        (109, false),
        (110, true),
        (111, true),
        (200, false),
    ] {
        let now = Duration::from_secs(at);
        let mut note = |bound, _| passed.push((at, bound));
        if is_delta {
            limit.delta(now, &mut note);
        } else {
            limit.time(now, &mut note);
        }
    }
    assert_eq!(
        passed,
        [
            (109, BoundKind::Stall),
            (110, BoundKind::Deltas),
            (111, BoundKind::Time)
        ]
    );
    let mut limit = BoundMonitor::new(
        BoundLimits {
            tokens: Some(3),
            ..bounds
        },
        Duration::ZERO,
    );
    limit.counted(0, &mut |bound, _| panic!("{bound:?}"));
    limit.push(
        Chunk::verbatim(b"one two three four five six", 0),
        &mut |bound, _| panic!("{bound:?}"),
    );
    limit.counted(3, &mut |bound, _| panic!("{bound:?}"));
    let mut first = Vec::new();
    limit.counted(4, &mut |bound, found| first.push((bound, found.end)));
    limit.time(Duration::from_secs(3), &mut |bound, found| {
        first.push((bound, found.end))
    });
    assert_eq!(first, [(BoundKind::Tokens, 27), (BoundKind::First, 27)]);
}

#[test]
fn scripts_are_the_same_under_every_cut() {
    const PARTS: [&str; 16] = [
        "word ",
        "и снова ",
        "текст",
        "漢字",
        "かな",
        "the ",
        "der ",
        "und ",
        "nicht ",
        "für ",
        "of and to ",
        "12 ",
        "é",
        "ñ",
        "\n",
        "α",
    ];
    let limits = ScriptLimits {
        letters: 9,
        of_letters: 12,
        words: 3,
        of_words: 8,
        ..ScriptLimits::default()
    };
    let mut random = Random::new(0x5C1);
    let (mut cases, mut hits) = (0, 0);
    while cases < scale(120_000) as u64 {
        let text = glue(&mut random, &PARTS, 20);
        let run = |cuts: &[usize]| found_in(ScriptDetector::new(limits), &text, cuts);
        let (found, count) = under_every_cut(&mut random, &text, run);
        cases += count;
        hits += u64::from(!found.is_empty());
        let only = ScriptLimits {
            languages: LanguageSet::default(),
            ..limits
        };
        let letters = found_in(ScriptDetector::new(only), &text, &[]);
        assert_eq!(
            letters.first().map(|found| (found.start, found.end)),
            naive_script(&text)
        );
    }
    report("script", cases, hits);
}

/// Returns the first run of letters with too many that are not Latin, by checking every run.
fn naive_script(text: &[u8]) -> Option<(u64, u64)> {
    let scripts = [
        r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]",
        r"[\p{Greek}\p{Cyrillic}]",
        r"\p{Latin}",
    ];
    let [heavy, light, latin] =
        scripts.map(|class| regex_automata::meta::Regex::new(class).unwrap());
    let mut letters: Vec<Option<(u64, u64)>> = Vec::new();
    let mut at = 0;
    for chunk in text.utf8_chunks() {
        for char in chunk.valid().chars() {
            let char = char.to_string();
            let place = (at, at + char.len() as u64);
            at = place.1;
            if heavy.is_match(&char) {
                letters.extend([Some(place); 3]);
            } else if light.is_match(&char) {
                letters.push(Some(place));
            } else if latin.is_match(&char) {
                letters.push(None);
            }
        }
        at += chunk.invalid().len() as u64;
    }
    let ends = 1..=letters.len();
    ends.map(|end| &letters[end.saturating_sub(12)..end])
        .find(|last| last.last().is_some_and(Option::is_some) && last.iter().flatten().count() >= 9)
        .map(|last| {
            let mut strange = last.iter().flatten();
            let first = strange.next().expect("there are nine");
            (first.0, strange.next_back().unwrap_or(first).1)
        })
}

#[test]
fn unknown_names_are_the_same_under_every_cut() {
    const PARTS: [&str; 22] = [
        "use serde::Serialize;\n",
        "use nowhere::X;",
        "use {std::fmt, oops::{a, b}, Local::C};\n",
        "mod nowhere;\n",
        "import os, ghost\n",
        "from .a import b\n",
        "from ghost.sub import c\n",
        "import (\n\t\"fmt\"\n",
        "\t\"example.org/x/y\"\n",
        ")\n",
        "import x from 'ghost'\n",
        "const a = require(\"fs\");\n",
        "} from '@s/p/q';\n",
        "[dependencies]\n",
        "ghost = \"1\"\n",
        "[features]\n",
        "\n",
        " ",
        "é",
        "'",
        "\"",
        "import ",
    ];
    let known = Arc::new(KnownNames::new(["serde", "known"]));
    let mut random = Random::new(0x10B);
    let (mut cases, mut hits) = (0, 0);
    while cases < scale(160_000) as u64 {
        let text = glue(&mut random, &PARTS, 6);
        let language = Language::new(random.pick(&["rust", "toml", "ts", "python", "go", "text"]));
        let run = |cuts: &[usize]| {
            found_in(
                UnknownNameDetector::new(Arc::clone(&known), language),
                &text,
                cuts,
            )
        };
        let (found, count) = under_every_cut(&mut random, &text, run);
        cases += count;
        hits += u64::from(!found.is_empty());
    }
    report("unknown-name", cases, hits);
}

#[test]
fn names_are_read_as_each_language_writes_them() {
    let known = Arc::new(KnownNames::new([
        "serde-json",
        "Known",
        "github.com/real/module",
    ]));
    let names = |language: &str, text: &str| -> Vec<String> {
        let found = found_in(
            UnknownNameDetector::new(Arc::clone(&known), Language::new(language)),
            text.as_bytes(),
            &[],
        );
        found
            .iter()
            .map(|found| text[found.start as usize..found.end as usize].to_owned())
            .collect()
    };
    let rust = "use std::fmt;\npub use serde_json::Value;\nuse {a::B, crate::c, d::{e, f}};\nmod g;\nuse g::h;\nextern crate i;\nuse J::K;";
    assert_eq!(names("rust", rust), ["a", "d", "i"]);
    let toml = "[package]\nname = 'x'\n[dev-dependencies]\nserde_json = '1'\nghost-crate.workspace = true\n[dependencies.other]\nversion = '1'";
    assert_eq!(names("toml", toml), ["ghost-crate", "other"]);
    let script = "import React from 'react';\nimport './a';\nimport type {\n  B\n} from \"@scope/pkg/deep\";\nconst c = require('node:fs'), d = await import('dyn');\n// comes from 'nowhere'\nexport * from 'known/x';";
    assert_eq!(names("ts", script), ["react", "@scope/pkg/deep", "dyn"]);
    let python = "import os.path, numpy as np\nfrom . import a\nfrom torch.nn import (\n  Module,\n)\nimport the thing first\n  import json";
    assert_eq!(names("python", python), ["numpy", "torch.nn"]);
    let go = "import (\n\t\"net/http\"\n\tx \"github.com/ghost/x\"\n\t\"github.com/real/module/sub\"\n)\nimport \"C\"\nvar a = \"not/one\"";
    assert_eq!(names("go", go), ["github.com/ghost/x"]);
}

#[test]
fn near_repeats_are_the_same_under_every_cut() {
    const PARTS: [&str; 9] = [
        "I will now check the file number 3 again, slowly.\n",
        "I will now check the file number 42 again, today.\n",
        "Then we shall see what comes of all this. ",
        "Short. ",
        "| a | b | c | d | e | f |\n",
        "check ",
        "now\n",
        "? ",
        "Nothing of the kind has been said here before by anyone!\n",
    ];
    let limits = NearDuplicateLimits {
        times: 3,
        of: 4,
        ..NearDuplicateLimits::default()
    };
    let mut random = Random::new(0xA11E);
    let (mut cases, mut hits) = (0, 0);
    while cases < scale(120_000) as u64 {
        let text = glue(&mut random, &PARTS, 10);
        let run = |cuts: &[usize]| found_in(NearDuplicateDetector::new(limits), &text, cuts);
        let (found, count) = under_every_cut(&mut random, &text, run);
        cases += count;
        hits += u64::from(!found.is_empty());
    }
    report("alike", cases, hits);
}

#[test]
fn sketches_of_small_sets_are_exact() {
    let mut random = Random::new(9);
    for _ in 0..scale(50_000) {
        let mut set = || -> Vec<u32> {
            (0..random.below(9))
                .map(|_| random.below(12) as u32)
                .collect()
        };
        let (a, b) = (set(), set());
        let distinct = |set: &[u32]| {
            set.iter()
                .copied()
                .collect::<std::collections::BTreeSet<u32>>()
        };
        let (sa, sb) = (distinct(&a), distinct(&b));
        let all = sa.union(&sb).count();
        let both = sa.intersection(&sb).count();
        let model = (both * 100).checked_div(all).unwrap_or(0);
        assert_eq!(
            Sketch::<16>::from_members(&a).similarity_percent(&Sketch::from_members(&b)),
            model,
            "{a:?} {b:?}"
        );
    }
}

#[test]
fn replies_with_other_numbers_are_the_same_and_survive_a_restart() {
    let mut turns = ReplyHistory::default();
    let limits = TurnLimits::default();
    let push = |turns: &mut ReplyHistory, text: &str, size: usize| {
        let mut reply = ReplyDigester::default();
        for (index, bytes) in text.as_bytes().chunks(size).enumerate() {
            reply.push(Chunk::verbatim(bytes, (index * size) as u64));
        }
        turns.push(&limits, reply.digest())
    };
    let same = |n: usize| {
        format!(
            "Attempt {n}: the build still fails with {n} errors, so I will run it again and look at what the log says about it at line {n}."
        )
    };
    assert!(!push(&mut turns, &same(1), 1));
    assert!(!push(&mut turns, &same(22), 7));
    let kept = serde_json::to_string(&turns).unwrap();
    let mut turns: ReplyHistory = serde_json::from_str(&kept).unwrap();
    assert!(push(&mut turns, &same(333), 1000));
    assert!(!push(
        &mut turns,
        "Something else altogether was found in another file that nobody had looked at before, and it explains why this never worked.",
        3
    ));
}

#[test]
fn entropy_is_shannons() {
    let mut random = Random::new(4);
    for _ in 0..scale(5_000) {
        let text: Vec<u8> = (0..random.below(60))
            .map(|_| b"abcdef0123XYZ/+ "[random.below(16)])
            .collect();
        let share =
            |byte: u8| text.iter().filter(|one| **one == byte).count() as f64 / text.len() as f64;
        let all = (0..=255).map(share).filter(|share| *share > 0.0);
        let model: f64 = all.map(|share| -share * share.log2()).sum();
        let mut cut = Entropy::default();
        text.chunks(7).for_each(|bytes| cut.push(bytes));
        let whole = Entropy::from_text(&text).bits();
        assert!((whole - if text.is_empty() { 0.0 } else { model }).abs() < 1e-9);
        assert_eq!(cut.bits().to_bits(), whole.to_bits());
    }
}

#[test]
fn calls_are_the_same_if_their_input_is() {
    let mut random = Random::new(0xD00);
    let mut same = 0;
    for _ in 0..scale(30_000) {
        let (a, b) = (input(&mut random), input(&mut random));
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let is_same = CallDigest::new("t", a.as_bytes()) == CallDigest::new("t", b.as_bytes());
        assert_eq!(is_same, read(&a) == read(&b), "{a} {b}");
        same += u64::from(is_same);
    }
    assert!(same > 0);
    assert_ne!(CallDigest::new("a", b"{}"), CallDigest::new("b", b"{}"));
}

/// Returns the input of a call with its keys in random order and its text in random spelling.
fn input(random: &mut Random) -> String {
    let text = |random: &mut Random| {
        random
            .pick(&[
                "\"x\"",
                "\"\\u0078\"",
                "\"y\"",
                "[\"x\", \"y\"]",
                "[ \"y\",\"x\"]",
            ])
            .to_owned()
    };
    let mut members: Vec<String> = ["a", "b"]
        .iter()
        .map(|key| format!("\"{key}\":{}{}", random.pick(&["", " "]), text(random)))
        .collect();
    if random.below(2) == 0 {
        members.reverse();
    }
    format!("{{{}}}", members.join(random.pick(&[",", ", ", "\n,"])))
}

#[test]
fn circles_of_calls_are_seen_and_near_ones() {
    let limits = LoopLimits {
        times: 3,
        near_times: 4,
        differing: 1,
    };
    let run = |inputs: &[&str]| -> Vec<Option<CallRepetition>> {
        let mut calls = CallHistory::default();
        inputs
            .iter()
            .map(|input| calls.push(&limits, CallDigest::new("bash", input.as_bytes())))
            .collect()
    };
    let (a, b) = (
        r#"{"command":"ls","timeout":1}"#,
        r#"{"timeout":1,"command":"pwd"}"#,
    );
    assert_eq!(run(&[a, a, a]), [None, None, Some(CallRepetition::Same)]);
    assert_eq!(
        run(&[a, b, a, b, a, b]).last(),
        Some(&Some(CallRepetition::Same))
    );
    assert_eq!(run(&[a, b, a, b, a]).last(), Some(&None));
    let near: Vec<String> = (0..4)
        .map(|n| format!(r#"{{"pattern":"x","path":"src","limit":{n}}}"#))
        .collect();
    let near: Vec<&str> = near.iter().map(String::as_str).collect();
    assert_eq!(run(&near), [None, None, None, Some(CallRepetition::Nearly)]);
    let other: Vec<String> = (0..9).map(|n| format!(r#"{{"path":"{n}.rs"}}"#)).collect();
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    assert!(run(&other).iter().all(Option::is_none));
}

#[test]
fn each_name_that_a_rule_may_expect_is_a_script_or_a_language() {
    for name in crate::detect::script::NAMES {
        let (script, language) = (ScriptSet::from_name(name), LanguageSet::from_code(name));
        assert!(script.is_some() != language.is_some(), "{name}");
    }
    assert_eq!(ScriptSet::from_name("latin"), Some(ScriptSet::LATIN));
    assert_eq!(LanguageSet::from_code("en"), Some(LanguageSet::ENGLISH));
}

/// Each detector reads sources of the crate in deltas of 5 bytes. The cost of a byte is the number of
/// instructions of each `push` under callgrind, divided by the bytes printed here.
#[test]
#[ignore = "to be run under callgrind"]
fn the_bytes_that_each_detector_reads_are_printed() {
    let text = [
        include_str!("../../../../ARCHITECTURE.md"),
        include_str!("../detect.rs"),
        include_str!("../markdown.rs"),
        include_str!("../json.rs"),
        include_str!("../shell.rs"),
    ]
    .concat();
    let cuts: Vec<usize> = (1..text.len() / 5).map(|at| at * 5).collect();
    let known = Arc::new(KnownNames::new([
        "regex_syntax",
        "aho_corasick",
        "toml",
        "serde",
    ]));
    let text = text.as_bytes();
    assert_eq!(
        found_in(
            RepetitionDetector::new(RepetitionLimits::default()),
            text,
            &cuts
        ),
        []
    );
    assert_eq!(
        found_in(
            NearDuplicateDetector::new(NearDuplicateLimits::default()),
            text,
            &cuts
        ),
        []
    );
    assert_eq!(
        found_in(
            ControlTokenDetector::new(ControlTokenLimits::default()),
            text,
            &cuts
        ),
        []
    );
    assert_eq!(
        found_in(ScriptDetector::new(ScriptLimits::default()), text, &cuts),
        []
    );
    // Modules that are declared in another file are not known here.
    let names = UnknownNameDetector::new(Arc::clone(&known), Language::new("rust"));
    let names = found_in(names, text, &cuts);
    assert!(names.len() < 30, "{names:?}");
    let mut limit = BoundMonitor::new(BoundLimits::default(), Duration::ZERO);
    let mut reply = ReplyDigester::default();
    for (index, delta) in text.chunks(5).enumerate() {
        let chunk = Chunk::verbatim(delta, index as u64 * 5);
        limit.push(chunk, &mut |bound, _| panic!("{bound:?}"));
        reply.push(chunk);
    }
    println!("{} bytes", text.len());
    assert_ne!(reply.digest(), ReplyDigester::default().digest());
}

#[test]
fn repetition_is_not_found_within_the_bytes_that_are_quiet() {
    let limits = RepetitionLimits {
        unit_chars: (1, 400),
        times: 3,
        chars: 24,
        regular_times: 4,
        regular_chars: 48,
    };
    continue_quiet_texts(23, limits, 160);
    let limits = RepetitionLimits {
        times: 3,
        regular_times: 4,
        regular_chars: 300,
        ..RepetitionLimits::default()
    };
    continue_quiet_texts(24, limits, 500);
}

/// The positions of samples are stored in 16 bits.
#[test]
fn the_length_of_the_text_before_a_repetition_is_irrelevant() {
    let mut random = Random::new(25);
    let (cases, mut found) = (scale(200), 0);
    for _ in 0..cases {
        let len = 1 + random.below(400);
        let unit = words_of(&mut random, len);
        let repeated = unit.repeat(6 + 240 / unit.len());
        let start_and_end = |before: usize, random: &mut Random| {
            let mut text = words_of(random, before);
            text.truncate(before);
            // The repetition does not begin with the text before it.
            text.push(b'#');
            text.extend_from_slice(&repeated);
            let detector = RepetitionDetector::new(RepetitionLimits::default());
            let found = found_in(detector, &text, &[]);
            let relative = |at: u64| at as i64 - text.len() as i64;
            let first = found.first();
            first.map(|it| (relative(it.start), relative(it.decided)))
        };
        let alone = start_and_end(0, &mut random);
        found += usize::from(alone.is_some());
        // Before and after the positions whose low bits are 0.
        for before in [1_000, 65_000, 66_000, 131_000] {
            let before = before + random.below(1_000);
            assert_eq!(start_and_end(before, &mut random), alone, "after {before}");
        }
    }
    assert!(2 * found > cases, "{found}");
}

/// Returns at least `len` bytes of words that hardly repeat.
fn words_of(random: &mut Random, len: usize) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < len {
        text.extend((0..1 + random.below(9)).map(|_| b'a' + random.below(26) as u8));
        text.push(b' ');
    }
    text
}

/// Reads texts of at least `len` bytes in part, and continues each over the bytes within which nothing is reported.
fn continue_quiet_texts(seed: u64, limits: RepetitionLimits, len: usize) {
    let mut random = Random::new(seed);
    let (mut found, mut found_next) = (0, 0);
    for _ in 0..scale(20_000) {
        let mut detector = RepetitionDetector::new(limits);
        let (mut text, mut units): (Vec<u8>, Vec<usize>) = Default::default();
        // Units that repeat for a while, so that periods come and go.
        while text.len() < len {
            let unit: Vec<u8> = (0..1 + random.below(24))
                .map(|_| random.pick(b"abcdef  ,"))
                .collect();
            let times = 1 + random.below(len / 50);
            units.push(unit.len());
            text.extend(unit.repeat(times));
        }
        let at = 20 + random.below(len - 40);
        let mut is_found = false;
        detector.push(Chunk::verbatim(&text[..at], 0), &mut |_| is_found = true);
        if is_found {
            continue;
        }
        let quiet = detector.bytes_until_report();
        // The text continues with a period, which is the most that can be found: any, or that of one of its units.
        let period = match random.below(2) {
            0 => 1 + random.below(at / 2),
            _ => random.pick(&units).min(at),
        };
        let rest: Vec<u8> = (0..=quiet)
            .map(|index| text[at - period + index % period])
            .collect();
        for (len, count) in [(quiet, &mut found), (quiet + 1, &mut found_next)] {
            let mut continued = detector.clone();
            let chunk = Chunk::verbatim(&rest[..len], at as u64);
            continued.push(chunk, &mut |_| *count += 1);
        }
    }
    assert_eq!(found, 0);
    assert!(found_next > 0, "the bound is never reached");
}
