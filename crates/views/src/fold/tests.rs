//! Folding chunk by chunk equals folding the whole, with exact offsets, under every cut.

use super::*;
use ttsr_testing::{Random, scale};

/// A folded byte: its value, the start and end of the bytes it replaces, and when it was certain.
type Byte = (u8, u64, u64, u64);

fn all_folds() -> Vec<FoldSet> {
    (0..16)
        .map(FoldSet)
        .filter(|folds| cfg!(feature = "unicode") || !folds.normalise())
        .collect()
}

/// Folds the chunks and asserts that no byte is emitted later than it was certain.
fn bytes_of(folds: FoldSet, chunks: &[Chunk<'_>], end: u64) -> (Vec<Byte>, u64) {
    let mut fold = FoldView::new(folds);
    let mut bytes = Vec::new();
    for chunk in chunks {
        let seen = chunk.decided(chunk.bytes.len() - 1);
        fold.push(*chunk, &mut |chunk| note(chunk, seen, &mut bytes));
    }
    fold.finish(end, &mut |chunk| note(chunk, end, &mut bytes));
    (bytes, fold.overlong())
}

fn note(chunk: Chunk<'_>, seen: u64, bytes: &mut Vec<Byte>) {
    assert!(!chunk.bytes.is_empty());
    for index in 0..chunk.bytes.len() {
        let decided = chunk.decided(index);
        assert!(
            decided <= seen,
            "certain at {decided}, but emitted at {seen}"
        );
        bytes.push((
            chunk.bytes[index],
            chunk.start(index),
            chunk.end(index),
            decided,
        ));
    }
}

fn cut<'t>(text: &'t [u8], cuts: &[usize]) -> Vec<Chunk<'t>> {
    let mut chunks = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        if from < to {
            chunks.push(Chunk::verbatim(&text[from..to], from as u64));
        }
        from = to;
    }
    chunks
}

fn folded(folds: FoldSet, text: &[u8], cuts: &[usize]) -> (Vec<Byte>, u64) {
    bytes_of(folds, &cut(text, cuts), text.len() as u64)
}

fn only_bytes(bytes: &[Byte]) -> Vec<u8> {
    bytes.iter().map(|byte| byte.0).collect()
}

/// Returns the fold of the whole text; invalid UTF-8 separates texts that are folded as a whole.
fn oracle(folds: FoldSet, text: &[u8]) -> Vec<u8> {
    text.utf8_chunks()
        .flat_map(|chunk| {
            let mut bytes = fold_text(folds, chunk.valid()).into_bytes();
            bytes.extend_from_slice(chunk.invalid());
            bytes
        })
        .collect()
}

const PARTS: [&str; 46] = [
    "a",
    "b",
    "E",
    "K",
    "rm",
    "-rf",
    " ",
    "\n",
    "The",
    "1",
    "é",
    "É",
    "e\u{301}",
    "\u{301}",
    "\u{323}",
    "\u{345}",
    "\u{212A}",
    "ſ",
    "ß",
    "ẞ",
    "İ",
    "ı",
    "ﬁ",
    "ｒｍ",
    "ａ",
    "Ⅷ",
    "½",
    "\u{200B}",
    "\u{200D}",
    "\u{AD}",
    "\u{202E}",
    "\u{FE0F}",
    "\u{E0041}",
    "\u{FEFF}",
    "а",
    "О",
    "І",
    "р",
    "\u{1100}",
    "\u{1161}",
    "\u{11A8}",
    "가",
    "각",
    "😀",
    "\u{F73}",
    "\u{3099}",
];

fn text(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..random.below(9) {
        match random.below(12) {
            0 => text.extend(random.noise(3)),
            1 => text.push(random.next() as u8),
            2 => text.extend(
                char::from_u32(random.below(0x30000) as u32)
                    .unwrap_or('x')
                    .to_string()
                    .bytes(),
            ),
            _ => text.extend(random.pick(&PARTS).bytes()),
        }
    }
    text
}

fn random_cuts(random: &mut Random, len: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..random.below(6))
        .map(|_| random.below(len + 1))
        .collect();
    cuts.sort_unstable();
    cuts
}

#[test]
fn folded_in_pieces_is_folded_whole() {
    let mut random = Random::new(0xF01D);
    let mut cases = 0u64;
    while cases < scale(1_000_000) as u64 {
        let text = text(&mut random);
        for folds in all_folds() {
            let whole = folded(folds, &text, &[]);
            assert_eq!(
                only_bytes(&whole.0),
                oracle(folds, &text),
                "{folds:?} {text:?}"
            );
            let single: Vec<usize> = (1..text.len()).collect();
            assert_eq!(
                folded(folds, &text, &single),
                whole,
                "{folds:?} {text:?} bytewise"
            );
            for at in 1..text.len() {
                assert_eq!(
                    folded(folds, &text, &[at]),
                    whole,
                    "{folds:?} {text:?} cut at {at}"
                );
            }
            let cuts = random_cuts(&mut random, text.len());
            assert_eq!(
                folded(folds, &text, &cuts),
                whole,
                "{folds:?} {text:?} {cuts:?}"
            );
            cases += text.len() as u64 + 2;
        }
    }
    println!("fold: {cases} cases, each the same as the whole text folded at once");
}

#[test]
fn folds_of_stand_ins_and_of_late_text_are_the_same_under_every_cut() {
    let mut random = Random::new(0xE5C);
    for _ in 0..scale(20_000) {
        let text = text(&mut random);
        if text.is_empty() {
            continue;
        }
        let wide: Vec<(usize, OffsetMap)> = {
            let mut at = 3;
            let places = (0..text.len()).map(|index| match random.below(4) {
                0 => {
                    at += 6;
                    (
                        index,
                        OffsetMap::Replacement {
                            start: at - 6,
                            end: at,
                        },
                    )
                }
                _ => {
                    at += 1 + random.below(2) as u64;
                    (index, OffsetMap::Verbatim(at - 1))
                }
            });
            places.collect()
        };
        let chunk = |&(index, offsets): &(usize, OffsetMap)| Chunk {
            bytes: &text[index..index + 1],
            offsets,
            decided: 0,
        };
        let single: Vec<Chunk<'_>> = wide.iter().map(chunk).collect();
        let mut joined = ChunkBuffer::default();
        single.iter().for_each(|chunk| joined.push(*chunk));
        let joined: Vec<Chunk<'_>> = joined.chunks(0..text.len()).collect();
        let end = single.last().unwrap().decided(0);
        for folds in all_folds() {
            let (bytes, overlong) = bytes_of(folds, &single, end);
            assert_eq!(
                bytes_of(folds, &joined, end),
                (bytes.clone(), overlong),
                "{folds:?} {text:?}"
            );
            assert_eq!(
                only_bytes(&bytes),
                oracle(folds, &text),
                "{folds:?} {text:?}"
            );
        }
    }
}

#[test]
fn places_are_those_of_what_was_folded() {
    let both = FoldSet::CASE | FoldSet::INVISIBLE;
    let (bytes, _) = folded(both, "R\u{200B}M \u{212A}".as_bytes(), &[]);
    assert_eq!(
        bytes,
        [
            (b'r', 0, 1, 1),
            (b'm', 4, 5, 5),
            (b' ', 5, 6, 6),
            (b'k', 6, 9, 9)
        ]
    );
}

#[cfg(feature = "unicode")]
#[test]
fn a_letter_waits_for_its_marks() {
    let (bytes, _) = folded(FoldSet::NFKC, "xe\u{301}y".as_bytes(), &[]);
    let acute = "é".as_bytes();
    assert_eq!(
        bytes,
        [
            (b'x', 0, 1, 2),
            (acute[0], 1, 4, 5),
            (acute[1], 1, 4, 5),
            (b'y', 4, 5, 5)
        ]
    );
}

#[cfg(feature = "unicode")]
#[test]
fn marks_without_end_are_counted_and_bounded() {
    let marks = 200_000;
    let text = format!("a{}b", "\u{301}\u{323}".repeat(marks / 2));
    let (whole, overlong) = folded(FoldSet::NFKC, text.as_bytes(), &[]);
    assert_eq!(overlong, (marks / WAITING) as u64);
    let single: Vec<usize> = (1..text.len()).collect();
    assert_eq!(
        folded(FoldSet::NFKC, text.as_bytes(), &single),
        (whole, overlong)
    );
    let fitting = format!("a{}b", "\u{301}".repeat(WAITING - 1));
    assert_eq!(folded(FoldSet::NFKC, fitting.as_bytes(), &[]).1, 0);
}

#[cfg(feature = "unicode")]
#[test]
fn nfkc_is_nfkc() {
    use unicode_normalization::UnicodeNormalization;
    let mut random = Random::new(5);
    for char in '\0'..=char::MAX {
        let text: String = ['a', char, '\u{301}'].iter().collect();
        assert_eq!(
            fold_text(FoldSet::NFKC, &text),
            text.nfkc().collect::<String>()
        );
    }
    for _ in 0..scale(50_000) {
        let text = String::from_utf8_lossy(&text(&mut random)).into_owned();
        assert_eq!(
            fold_text(FoldSet::NFKC, &text),
            text.nfkc().collect::<String>()
        );
    }
}

#[cfg(feature = "unicode")]
#[test]
fn confusables_are_those_of_uts_39_and_ascii_is_left_alone() {
    use unicode_security::confusable_detection::skeleton;
    let skeleton = |text: &str| skeleton(text).collect::<String>();
    let ascii: Vec<String> = (' '..='~').map(|char| char.to_string()).collect();
    let of_ascii: std::collections::BTreeSet<String> =
        ascii.iter().map(|text| skeleton(text)).collect();
    for char in '\0'..=char::MAX {
        let text = char.to_string();
        let folded = fold_text(FoldSet::CONFUSABLES, &text);
        assert_eq!(
            skeleton(&folded),
            skeleton(&skeleton(&text)),
            "{char:?} became {folded:?}"
        );
        if of_ascii.contains(&skeleton(&text)) {
            assert!(
                folded.is_ascii() && folded.len() == 1,
                "{char:?} became {folded:?}"
            );
        }
        if char.is_ascii() {
            assert_eq!(folded, text);
        }
    }
    for (text, folded) in [
        ("Іgnоrе", "Ignore"),
        ("ｒｍ －ｒf", "rm -rf"),
        ("ѕudо", "sudo"),
        ("Оrder", "Order"),
        ("\u{1C0}", "l"),
    ] {
        let nfkc = FoldSet::CONFUSABLES | FoldSet::NFKC;
        assert_eq!(fold_text(nfkc, text), folded);
    }
}

#[test]
fn names_are_those_of_the_rule_language() {
    assert_eq!(FoldSet::from_name("case"), Some(FoldSet::CASE));
    assert_eq!(FoldSet::from_name("invisible"), Some(FoldSet::INVISIBLE));
    assert_eq!(
        FoldSet::from_name("nfkc").is_some(),
        cfg!(feature = "unicode")
    );
    assert_eq!(
        FoldSet::from_name("confusables").is_some(),
        cfg!(feature = "unicode")
    );
    assert_eq!(FoldSet::from_name("nfc"), None);
    assert!(FoldSet::default().is_empty());
    assert_eq!(FoldSet::CASE | FoldSet::CASE, FoldSet::CASE);
}

/// Covers whole blocks of ASCII, the exceptions, and characters of every length.
#[test]
fn texts_that_are_easily_mistaken_are_folded_whole() {
    let long = "Some ASCII, Longer than a block. ".repeat(3);
    let texts = [
        "é",
        "Éa",
        "aÉ",
        "😀K",
        "\u{212A}",
        "\u{16EA0}\u{16EB8}\u{16EB9}",
        "\u{1E9B}\u{323}",
        "ﬁ",
        "e\u{301}\u{323}",
        "\u{1100}\u{1161}\u{11A8}",
        "가\u{11A8}",
        "ÀÉÎ",
        "a\u{200B}\u{301}",
        "Å\u{212B}",
        "ſ\u{307}",
        "рау",
        "１Ａ",
        "\u{10FFFF}",
        "\u{10000}\u{E0001}",
        "\u{F4}",
        "𝐀𝟏",
    ];
    let bytes: [&[u8]; 9] = [
        b"\xC3",
        b"a\xC3b",
        b"\xE2\x82",
        b"\xE2\x82\xC3\xA9",
        b"\xF0\x9F\x98",
        b"\xF0\x9F\x98\xF0\x9F\x98\x80",
        b"\xF5\x80",
        b"\x80A",
        b"\xC3\xC3\x89",
    ];
    let mut all: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    all.extend(bytes.iter().map(|bytes| bytes.to_vec()));
    all.extend(
        texts
            .iter()
            .map(|text| format!("{long}{text}{long}").into_bytes()),
    );
    for text in &all {
        for folds in all_folds() {
            let whole = folded(folds, text, &[]);
            assert_eq!(
                only_bytes(&whole.0),
                oracle(folds, text),
                "{folds:?} {text:?}"
            );
            let single: Vec<usize> = (1..text.len()).collect();
            assert_eq!(folded(folds, text, &single), whole, "{folds:?} {text:?}");
            for at in (1..text.len()).step_by(1 + text.len() / 16) {
                assert_eq!(folded(folds, text, &[at]), whole, "{folds:?} {text:?} {at}");
            }
        }
    }
}

#[test]
fn ascii_is_one_run_and_a_character_that_is_whole_one_piece() {
    let text = "Longer than thirty-two bytes, and an é: in three pieces, two of them ASCII.";
    let mut chunks = Vec::new();
    let mut fold = FoldView::new(FoldSet::CASE);
    fold.push(Chunk::verbatim(text.as_bytes(), 0), &mut |chunk| {
        chunks.push(String::from_utf8_lossy(chunk.bytes).into_owned());
    });
    let (before, after) = text.split_once('é').unwrap();
    assert_eq!(
        chunks,
        [before.to_lowercase(), "é".to_owned(), after.to_lowercase()]
    );
    for (text, len) in [("é", 2), ("€", 3), ("😀", 4)] {
        assert_eq!(first_char(text.as_bytes()).unwrap().len_utf8(), len);
        assert_eq!(first_char(&text.as_bytes()[..len - 1]), None);
    }
    for len in [0, 1, 31, 32, 33, 64, 70] {
        let run = "x".repeat(len);
        assert_eq!(ascii_run(run.as_bytes()), len);
        assert_eq!(ascii_run(format!("{run}é{run}").as_bytes()), len);
    }
}

#[cfg(feature = "unicode")]
#[test]
fn a_character_that_begins_anew_lets_what_is_before_it_go() {
    let decided = |bytes: &[Byte]| -> Vec<u64> { bytes.iter().map(|byte| byte.3).collect() };
    let (bytes, _) = folded(FoldSet::NFKC, "éüx".as_bytes(), &[]);
    assert_eq!(decided(&bytes), [4, 4, 5, 5, 5]);
    // Each byte of a late chunk is certain with the byte after the next one.
    let late = Chunk {
        offsets: OffsetMap::Late(10),
        ..Chunk::verbatim(b"abc", 10)
    };
    let (bytes, _) = bytes_of(FoldSet::NFKC, &[late], 20);
    assert_eq!(
        bytes,
        [(b'a', 10, 11, 13), (b'b', 11, 12, 14), (b'c', 12, 13, 20)]
    );
    let words = Chunk {
        offsets: OffsetMap::Words(10),
        ..Chunk::verbatim(b"a bc", 10)
    };
    let (bytes, _) = bytes_of(FoldSet::NFKC, &[words], 20);
    assert_eq!(
        bytes,
        [
            (b'a', 10, 11, 13),
            (b' ', 11, 12, 13),
            (b'b', 12, 13, 14),
            (b'c', 13, 14, 20)
        ]
    );
}

#[test]
fn capitals_that_std_does_not_know_yet_are_lowered() {
    for (upper, lower) in [
        ('\u{16EA0}', '\u{16EBB}'),
        ('\u{16EB8}', '\u{16ED3}'),
        ('\u{16E9F}', '\u{16E9F}'),
        ('\u{A7CE}', '\u{A7CF}'),
        ('K', 'k'),
        ('\u{130}', '\u{130}'),
    ] {
        assert_eq!(map::lower(upper), lower, "{upper:?}");
    }
}
