//! The promise, tested: the same hits as `regex` on the whole haystack, under every split.
//!
//! The oracle is regex-automata's PikeVM (`MatchKind::All`, `earliest(true)`) on the unsplit text.

pub(super) mod shape;
mod unchecked;

use regex_automata::nfa::thompson::pikevm::PikeVM;

use super::lazy_dfa::speculative::Tile;
use super::simd::SimdLevel;
use super::split::GapCriteria;
use super::test_support::{
    EVERY_GAP, FirstEnds, PLANS, TILES, ends, every_end, first_ends, matcher_of, matcher_of_ends,
    parsed, plan, random_patterns,
};
use super::utf8::Utf8Decoder;
use super::*;
use crate::PatternLimits;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange};
use ttsr_testing::oracle::{
    every_end_with, expected, first_end_with, oracle, random_cuts, rare_pattern, strewn_text,
    text_for,
};
use ttsr_testing::{Random, scale, skip};

fn matcher(patterns: &[&str], table_bytes: usize) -> Matcher {
    matcher_of(&parsed(patterns), table_bytes, PartitionPlan::USUAL)
}

/// Checks a text whole, byte by byte, and at every two-way cut.
fn check_all_cuts(patterns: &[&str], text: &[u8], table_bytes: usize) {
    let decided: Vec<FirstEnds> = PLANS
        .map(|plan| check_plan(patterns, text, table_bytes, plan))
        .into();
    assert!(
        decided.windows(2).all(|pair| pair[0] == pair[1]),
        "{patterns:?} on {}: {decided:?}",
        text.escape_ascii()
    );
}

fn check_plan(
    patterns: &[&str],
    text: &[u8],
    table_bytes: usize,
    plan: PartitionPlan,
) -> FirstEnds {
    let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
    let matcher = matcher_of(&parsed(patterns), table_bytes, plan);
    let whole = first_ends(&matcher, text, &[]);
    let shown = text.escape_ascii().to_string();
    assert_eq!(
        ends(&whole),
        expected(&vms, text),
        "{patterns:?} on {shown}, {plan:?}"
    );
    let bytes: Vec<usize> = (1..text.len()).collect();
    assert_eq!(
        first_ends(&matcher, text, &bytes),
        whole,
        "{patterns:?} on {shown}, byte by byte"
    );
    for cut in 0..=text.len() {
        assert_eq!(
            first_ends(&matcher, text, &[cut]),
            whole,
            "{patterns:?} on {shown}, cut at {cut}, {plan:?}"
        );
    }
    whole
}

#[test]
fn first_ends_are_those_of_regex_under_every_cut() {
    let cases: &[(&[&str], &[u8])] = &[
        (&["abc", "b", "c$", "^a"], b"xabcabc"),
        (
            &[r"\brm\b", r"rm\b", r"\Brm"],
            "rm arm rmé érm rm".as_bytes(),
        ),
        (&[r"(?m)^x$", r"(?m)x$", r"^x$", r"x$"], b"y\nx\nx"),
        (&[r"(?mR)^x$", r"(?mR)x$", r"(?m)x$"], b"x\r\nx\rx\n\rx"),
        (&[r"a.*b", r"a[^x]*b", r"(?s)a.*b"], b"a\n--xb ab"),
        (&[r"\w{3}", r"\d+€", r"\pL\b"], "ж1жж 42€ é".as_bytes()),
        (
            &[r"(?i)kelvin", r"(?i)straße", r"(?i)ſ"],
            "\u{212A}elvin STRAẞE S".as_bytes(),
        ),
        (&["😀", r"[😀-😂]x", "."], "a😁x😀".as_bytes()),
        (
            &[r"\bb", r"\Bb", r"b\B", r"b\b"],
            b"a\xA9b\xA9b\xFFb a\xA9\xA9\xA9\xA9b",
        ),
        (
            &[r"(?-u:\xE2)", r"(?-u:[^a])b", r"(?s-u:.)\b"],
            "a€b€".as_bytes(),
        ),
        (
            &[
                r"(?-u:\xA9)\b",
                r"\b(?-u:\xC3)",
                r"(?-u:\b)é",
                r"(?-u:\B)\W",
            ],
            "é é\u{a9}é".as_bytes(),
        ),
        (
            &[
                r"\b{start}a",
                r"a\b{end}",
                r"\b{start-half}a",
                r"a\b{end-half}",
            ],
            b"ab ba a\xFFa",
        ),
        (
            &[
                r"(?-u:\b{start})a",
                r"a(?-u:\b{end})",
                r"(?-u:\b{start-half})b",
                r"b(?-u:\b{end-half})",
            ],
            "ab éa ba bé aé".as_bytes(),
        ),
        (
            &[r"-\B(?-u:\xE2)", r"-\b(?-u:\xC3)", r"-\B(?-u:\xC3)"],
            "-é-€".as_bytes(),
        ),
        (&["(?:x[ab]{1,3}|x[ac]{1,3})y"], b"xby xbby"),
        (&["(?:x[ab]{1,3}|x[ac]{1,3})y"], b"xaby xacy"),
        (&["(?:x[ab]{1,3}|x[ac]{1,3})y"], b"xacy xaby"),
        (
            &["sk_[a-z]{3,5}", r"[\w.-]{0,9}?key", "(?:a|b)?c+d*"],
            b"my.key sk_abcdef ccd",
        ),
        (&[r"[a&&b]", "x"], b"abx"),
        (&["\\x00", "a\\x00b"], b"a\0b"),
        (&["é"], b"\xC3\xC3\xA9\xE2\x82"),
        (&[r"-\B", r"-\b"], b"-\xFF-- -a"),
    ];
    for (patterns, text) in cases {
        check_all_cuts(patterns, text, 1 << 20);
        for pattern in *patterns {
            check_all_cuts(&[pattern], text, 0);
        }
    }
}

/// Every assertion about words that has a short form.
const BOUNDARIES: [&str; 6] = [
    r"\b",
    r"\B",
    r"\b{start}",
    r"\b{end}",
    r"\b{start-half}",
    r"\b{end-half}",
];

fn bytes_pattern(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02X}")).collect();
    format!("(?-u:{escaped})")
}

#[test]
fn a_word_boundary_inside_a_character_is_what_regex_says() {
    for char in ["é", "ж", "·", "€", "한", "😀", "𐐷"] {
        let bytes = char.as_bytes();
        let mut patterns = Vec::new();
        for look in BOUNDARIES {
            for at in 0..=bytes.len() {
                let (head, suffix) = (bytes_pattern(&bytes[..at]), bytes_pattern(&bytes[at..]));
                patterns.push(format!("{head}{look}{suffix}"));
            }
        }
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        for text in [
            char.to_owned(),
            format!("a{char}a"),
            format!("-{char}{char}-"),
        ] {
            check_all_cuts(&patterns, text.as_bytes(), 1 << 20);
        }
    }
}

#[test]
fn a_word_boundary_beside_a_byte_of_no_character_is_what_regex_says() {
    let beside: Vec<String> = BOUNDARIES
        .iter()
        .flat_map(|look| {
            [
                format!("{look}-"),
                format!("-{look}"),
                format!("{look}x"),
                format!("x{look}"),
            ]
        })
        .collect();
    let patterns: Vec<&str> = beside.iter().map(String::as_str).collect();
    for stray in [
        &b"\xA9"[..],
        b"\xFF",
        b"\xE2\x82",
        b"\xA9\xA9\xA9\xA9",
        "é\u{a9}".as_bytes(),
        b"\xC3\xA9\xA9",
    ] {
        for (before, after) in [
            ("-", "-"),
            ("x", "x"),
            ("x", "-"),
            ("-", "x"),
            ("", "-"),
            ("-", ""),
            ("", "x"),
        ] {
            let text = [before.as_bytes(), stray, after.as_bytes()].concat();
            check_all_cuts(&patterns, &text, 1 << 20);
        }
    }
}

#[test]
fn gaps_of_every_kind_are_cut_without_a_trace() {
    let cases: &[(&[&str], &[u8])] = &[
        (&["a.*b.*c", "a.*c.*b", "(?s)a.*b.*c"], b"a-b a\nxc ba-c b"),
        (&["^.*b", "(?m)^.*c", r"\A[^b]*a$"], b"xx\nb c"),
        (&["a[^x]*b", "a[^x]+?c", "a[^x]*d"], b"aaxab--xa-c"),
        (
            &["a.{0,9}b", "a.{2,5}c", "a.{3,}d"],
            b"a-b a--------c ac--d",
        ),
        (
            &["(?:a.*b|c)x", "(?:(?:a|b.*c).*x)+y", "(?:a.*b|c.*d)*z"],
            b"a-bx cy bcxy abcdz z",
        ),
        (
            &[r"\ba\b.*\bb\b", r"a.*\Bb", r"\b.*\bé", r"a\b.*"],
            "xa a—b ab é".as_bytes(),
        ),
        (
            &["(?i)Ab.*cD", "(?i)k.*ſ", r"(?i)straße.*\w"],
            "aB xxCd \u{212A}s STRASSE straẞe-e".as_bytes(),
        ),
        (
            &[r"(?m)^a.*b$", r"(?mR)a.*$", r"(?m)a\n*^b", "(?mR)^.*x$"],
            b"a-b\r\na\nb\nx\r",
        ),
        (
            &["a.*b", r"a(?s-u:.)*b", r"a[^\n]*\b", r"a\B.*c"],
            b"a\xFF\xE2\x82b a\xA9\xA9\nac",
        ),
        (&["ab.*c", "ab.*d", "ab.*", "a.*c", "a[^c]*d"], b"ab ab c d"),
        (&["a.*?a.*?a", "(?:a.*){3}b", "(?:a.*b){2}"], b"a-a-a-b a b"),
        (&["^a.*b", "^a", "^.c", "^(?:ab|ac)+d"], b"acacd b"),
        // The assertion is in a loop after the gap.
        (&[r"k[^x]*(?:x\B)*z", r"k[^-]*(?:-\B)*y"], b"kaxz ka-y --y"),
        (&[r"k[^x]*(?:x\B)*z"], b"kax-z kaxz"),
    ];
    for (patterns, text) in cases {
        let forced = matcher_of(&parsed(patterns), 0, plan(Some(EVERY_GAP), 1, None));
        assert!(forced.sizes().any(|size| size.cuts > 0), "{patterns:?}");
        for budget in [0, 2500, 1 << 20] {
            check_all_cuts(patterns, text, budget);
        }
        for pattern in *patterns {
            check_all_cuts(&[pattern], text, 1 << 20);
        }
    }
}

#[test]
fn a_pattern_that_wants_every_end_gets_every_end_of_a_match() {
    let hirs = parsed(&["a.*b", "a.*c"]);
    for gaps in [None, Some(EVERY_GAP)] {
        for automata in [1, 2] {
            let wanted = &[true, true];
            let matcher =
                Matcher::planned(&hirs, 1 << 20, wanted, plan(gaps, automata, None), None).unwrap();
            let mut ends = Vec::new();
            let mut cursor = matcher.start();
            matcher.push(&mut cursor, b"a-bb-c\nb a b", |event| {
                ends.push((event.pattern.0, event.at + 1 - event.back));
            });
            ends.sort_unstable();
            assert_eq!(
                ends,
                [(0, 3), (0, 4), (0, 12), (1, 6)],
                "{gaps:?}, {automata}"
            );
        }
    }
}

#[test]
fn a_prefiltered_match_may_end_with_the_text() {
    for len in 2..=12 {
        let literal = &"qjxzvkwqyxjz"[..len];
        let hirs = [pattern::parse(literal, &PatternLimits::default()).unwrap()];
        let mut matcher = matcher_of(&hirs, 1 << 20, PLANS[0]);
        matcher.set_prefiltered(1, SimdLevel::best());
        for before in 0..80 {
            let text = [".".repeat(before).as_str(), literal].concat();
            let found = ends(&first_ends(&matcher, text.as_bytes(), &[]));
            let want = expected(&[oracle(literal)], text.as_bytes());
            assert_eq!(found, want, "{literal} after {before} bytes");
        }
    }
}

#[test]
fn random_patterns_that_want_every_end_agree_with_regex_under_random_cuts() {
    let mut random = Random::new(0xE4D5);
    let mut found = 0;
    for group in 0..scale(1_000) {
        let (patterns, hirs) = random_patterns(&mut random, 1 + group % 4);
        let budget = [0, 3000, 1 << 20][group % 3];
        let wanted: Vec<bool> = patterns.iter().map(|_| random.below(3) > 0).collect();
        let mut matcher = matcher_of_ends(&hirs, budget, PLANS[group / 3 % PLANS.len()], &wanted);
        if group % 2 == 0 {
            matcher.set_tile(TILES[0]);
            matcher.set_prefiltered(1, SimdLevel::best());
        }
        let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
        for _ in 0..20 {
            let text = text_for(&mut random, &hirs);
            let whole = every_end(&matcher, &text, &[]);
            for (pattern, vm) in (0..).zip(&vms) {
                let mut want = every_end_with(vm, &mut vm.create_cache(), &text);
                let of_it = whole.keys().filter(|known| known.0 == pattern);
                let mut got: Vec<usize> = of_it.map(|known| known.1).collect();
                if !wanted[pattern as usize] {
                    want.truncate(1);
                    got.truncate(1);
                }
                found += want.len();
                let context = (&patterns[pattern as usize], text.escape_ascii().to_string());
                assert_eq!(got, want, "{context:?}, {wanted:?}, budget {budget}");
            }
            let cuts = random_cuts(&mut random, text.len());
            let got = every_end(&matcher, &text, &cuts);
            for (known, decided) in &whole {
                let is_told = !wanted[known.0 as usize] || got.get(known) == Some(decided);
                assert!(
                    is_told,
                    "{patterns:?} on {}, cut at {cuts:?}",
                    text.escape_ascii()
                );
            }
        }
    }
    assert!(found > 0);
}

#[test]
fn a_pattern_that_can_begin_at_the_start_or_anywhere_is_not_over_with_the_start() {
    // The second pattern is reported once. After its anchored branch has failed, its other branch can still match.
    let patterns = ["x", "^a|b"];
    let matcher = matcher_of(&parsed(&patterns), 1 << 20, plan(Some(EVERY_GAP), 2, None));
    let found = first_ends(&matcher, b"xxb", &[1, 2]);
    assert_eq!(ends(&found), [(0, 1), (1, 3)]);
    check_all_cuts(&patterns, b"-x-b", 1 << 20);
    check_all_cuts(&["x", "^a.*c|^b|d"], b"a-x-d", 1 << 20);
    check_all_cuts(&["x", "^a.*c|^b|d.*e"], b"a\n-d-e", 0);
}

#[test]
fn a_plain_pattern_is_certain_at_its_last_byte_and_a_boundary_one_character_later() {
    let decided =
        |pattern, text: &str| first_ends(&matcher(&[pattern], 1 << 20), text.as_bytes(), &[])[&0];
    assert_eq!(decided("needle", "a needle in"), (8, 8));
    assert_eq!(decided(r"needle\b", "a needle in"), (8, 9));
    assert_eq!(decided(r"needle\b", "a needle— in"), (8, 11));
    assert_eq!(decided(r"needle\b", "a needle"), (8, 8));
    assert_eq!(decided("sk_[a-z]{2,9}", "sk_abcdef"), (5, 5));
}

/// Returns the texts that a prefix is continued with: the empty text, every byte, and characters of every kind.
fn continuations() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    all.push(Vec::new());
    for text in [
        "\r\n", "é", "€", "ж", "😀", "\u{212A}", "\u{301}", "\u{2028}",
    ] {
        let bytes = text.as_bytes();
        // The text may end inside a character.
        all.extend((0..bytes.len()).map(|from| bytes[from..].to_vec()));
    }
    all
}

#[test]
fn a_hit_is_told_at_the_first_byte_where_it_is_certain_or_with_the_character_it_is_in() {
    let continuations = continuations();
    let mut random = Random::new(0xCE27);
    let mut told = 0;
    for group in 0..scale(1_000) {
        let (patterns, hirs) = random_patterns(&mut random, 1);
        let plan = PLANS[group % PLANS.len()];
        let matcher = matcher_of(&hirs, [0, 3000, 1 << 20][group % 3], plan);
        let vm = oracle(&patterns[0]);
        let mut cache = vm.create_cache();
        for _ in 0..5 {
            let text = text_for(&mut random, &hirs);
            let Some((end, decided)) = first_before_the_end(&matcher, &text) else {
                continue;
            };
            told += 1;
            let mut is_certain = |seen: &[u8]| {
                let mut ends = continuations
                    .iter()
                    .map(|more| first_end_with(&vm, &mut cache, &[seen, more.as_slice()].concat()));
                ends.all(|found| found == Some(end))
            };
            let shown = (&patterns[0], text.escape_ascii().to_string(), end, decided);
            assert!(is_certain(&text[..decided]), "too early: {shown:?}");
            let before = &text[..decided - 1];
            let mut decoder = Utf8Decoder::default();
            before
                .iter()
                .for_each(|&byte| decoder.push(byte, |_, _| {}));
            // One of several assertions may hold for every next character. Each is still decided by itself, by that
            // character.
            let is_exact = hirs[0].properties().look_set().len() < 2;
            let is_late = is_exact && !decoder.is_pending() && is_certain(before);
            assert!(!is_late, "too late: {shown:?}");
        }
    }
    assert!(told > 0);
}

/// Returns the first hit, unless only the end of the text makes it certain.
fn first_before_the_end(matcher: &Matcher, text: &[u8]) -> Option<(usize, usize)> {
    let (mut cursor, mut first) = (matcher.start(), None);
    matcher.push(&mut cursor, text, |event| {
        let decided = event.at + 1;
        first.get_or_insert((decided - event.back, decided));
    });
    first
}

#[test]
fn random_patterns_agree_with_regex_under_random_cuts() {
    let groups = scale(4_000);
    let mut random = Random::new(0x7455_7352);
    let (mut pairs, mut matching, mut cases) = (0u64, 0u64, 0u64);
    for group in 0..groups {
        let (patterns, hirs) = random_patterns(&mut random, 1 + group % 4);
        let budget = [0, 3000, 1 << 20][group % 3];
        let plan = PLANS[group / 3 % PLANS.len()];
        let mut matcher = matcher_of(&hirs, budget, plan);
        if group % 2 == 0 {
            matcher.set_tile(TILES[0]);
        }
        if group % 5 < 2 {
            matcher.set_prefiltered(1, SimdLevel::best());
        }
        let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
        for _ in 0..110 {
            let text = text_for(&mut random, &hirs);
            let want = expected(&vms, &text);
            pairs += patterns.len() as u64;
            matching += want.len() as u64;
            let whole = first_ends(&matcher, &text, &[]);
            let context = || {
                let text = text.escape_ascii();
                format!("{patterns:?} on {text}, budget {budget}, {plan:?}")
            };
            assert_eq!(ends(&whole), want, "{}", context());
            let bytes: Vec<usize> = (1..text.len()).collect();
            for cuts in [
                bytes,
                random_cuts(&mut random, text.len()),
                random_cuts(&mut random, text.len()),
            ] {
                cases += patterns.len() as u64;
                assert_eq!(
                    first_ends(&matcher, &text, &cuts),
                    whole,
                    "{}, cut at {cuts:?}",
                    context()
                );
            }
        }
    }
    println!(
        "{cases} (pattern, text, cut) cases, {pairs} pairs, {:.1} % match",
        100.0 * matching as f64 / pairs as f64
    );
    assert!(
        matching * 2 >= pairs,
        "texts no longer grow from the patterns"
    );
}

/// Returns all patterns of at most three atoms and two operators over `abc.`.
fn small_patterns() -> Vec<String> {
    const ATOMS: [&str; 4] = ["a", "b", "c", "."];
    const UNARY: [&str; 3] = ["*", "+", "?"];
    let atoms: Vec<String> = ATOMS.map(str::to_owned).into();
    let repeated = |of: &[String]| -> Vec<String> {
        of.iter()
            .flat_map(|sub| UNARY.map(|operator| format!("(?:{sub}){operator}")))
            .collect()
    };
    let joined = |left: &[String], right: &[String]| -> Vec<String> {
        let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
        pairs
            .flat_map(|(a, b)| [format!("(?:{a})(?:{b})"), format!("(?:{a})|(?:{b})")])
            .collect()
    };
    let single_match = repeated(&atoms);
    let pairs = joined(&atoms, &atoms);
    [
        repeated(&single_match),
        joined(&single_match, &atoms),
        joined(&atoms, &single_match),
        repeated(&pairs),
        joined(&pairs, &atoms),
        joined(&atoms, &pairs),
        pairs,
        single_match,
        atoms,
    ]
    .concat()
}

#[test]
fn every_small_pattern_on_every_small_text_under_every_cut() {
    let limits = PatternLimits::default();
    let mut texts = vec![Vec::new()];
    for length in 0..5 {
        let longest: Vec<Vec<u8>> = texts
            .iter()
            .filter(|t| t.len() == length)
            .cloned()
            .collect();
        texts.extend(
            longest
                .iter()
                .flat_map(|t| b"abc".map(|byte| [t.as_slice(), &[byte]].concat())),
        );
    }
    let (mut cases, mut refused) = (0u64, 0);
    let patterns = small_patterns();
    for pattern in &patterns {
        let Ok(hir) = pattern::parse(pattern, &limits) else {
            refused += 1;
            continue;
        };
        let cut_everywhere = plan(Some(EVERY_GAP), 1, None);
        let matchers = [PartitionPlan::USUAL, cut_everywhere].map(|plan| {
            let hir = hir.clone();
            matcher_of(&[hir], 1 << 16, plan)
        });
        let vm = [oracle(pattern)];
        for text in &texts {
            let want = expected(&vm, text);
            for chosen in 0..1u32 << text.len().saturating_sub(1) {
                let cuts: Vec<usize> = (1..text.len())
                    .filter(|at| chosen >> (at - 1) & 1 == 1)
                    .collect();
                for matcher in &matchers {
                    let found = ends(&first_ends(matcher, text, &cuts));
                    assert_eq!(
                        found,
                        want,
                        "{pattern} on {}, cut at {cuts:?}",
                        text.escape_ascii()
                    );
                    cases += 1;
                }
            }
        }
    }
    println!(
        "{} patterns, {refused} of them match the empty text, {cases} cases",
        patterns.len()
    );
}

/// The ways in which the tests break the promise on purpose.
#[derive(Clone, Copy, Debug)]
enum Sabotage {
    /// No state is carried from one delta to the next.
    DropState,
    /// The end of the haystack is not announced.
    SkipEnd,
    /// The automaton has one state, to which every byte leads back.
    OneState,
    /// An incomplete character is dropped at the end of a delta.
    DropPending,
}

fn sabotaged(matcher: &Matcher, text: &[u8], how: Sabotage) -> Vec<(u32, usize)> {
    let mut found = FirstEnds::new();
    let mut cursor = matcher.start();
    let step = if matches!(how, Sabotage::OneState) {
        1
    } else {
        2
    };
    for (index, delta) in text.chunks(step).enumerate() {
        match how {
            Sabotage::DropState | Sabotage::OneState => cursor = matcher.start(),
            Sabotage::DropPending => matcher.flush(&mut cursor, |_| {}),
            Sabotage::SkipEnd => {}
        }
        matcher.push(&mut cursor, delta, |event| {
            let decided = index * step + event.at + 1;
            found
                .entry(event.pattern.0)
                .or_insert((decided.saturating_sub(event.back), decided));
        });
    }
    if !matches!(how, Sabotage::SkipEnd) {
        matcher.finish(&mut cursor, |event| {
            found
                .entry(event.pattern.0)
                .or_insert((text.len() - event.back, text.len()));
        });
    }
    ends(&found)
}

#[test]
fn breaking_the_promise_is_noticed() {
    let cases: &[(&str, &str)] = &[
        ("abc", "xxabcx"),
        ("c$", "abc"),
        (r"\bab\b", "x ab"),
        ("é", "aéa"),
        ("^b", "aab"),
    ];
    for how in [
        Sabotage::DropState,
        Sabotage::SkipEnd,
        Sabotage::OneState,
        Sabotage::DropPending,
    ] {
        let differs = cases.iter().any(|(pattern, text)| {
            let broken = sabotaged(&matcher(&[pattern], 1 << 20), text.as_bytes(), how);
            broken != expected(&[oracle(pattern)], text.as_bytes())
        });
        assert!(differs, "{how:?} goes unnoticed");
    }
}

/// Returns a text that reaches an unbuilt state at nearly every byte.
fn hostile_text(bytes: usize) -> Vec<u8> {
    let mut random = Random::new(99);
    (0..bytes).map(|_| b"01"[random.below(2)]).collect()
}

#[test]
fn past_the_budget_memory_stays_flat_and_hits_stay_exact() {
    let patterns = ["[01]*1[01]{14}x", "1[01]{16}y", "01{3}[01]{12}0z"];
    let matcher = matcher(&patterns, 256 << 10);
    let mut text = hostile_text(200_000);
    text.extend_from_slice(b"x 1");
    text.extend(hostile_text(16));
    text.extend_from_slice(b"y");
    let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
    let cuts: Vec<usize> = (5..text.len()).step_by(5).collect();
    assert_eq!(
        ends(&first_ends(&matcher, &text, &cuts)),
        expected(&vms, &text)
    );
    let size = matcher.sizes().next().unwrap();
    // Nearly every byte leads to a new state, so the cache stops building states, or the table is replaced.
    assert!(
        size.generation > 0 || size.states < 4096,
        "the table takes all that the text asks for: {size:?}"
    );
    assert!(size.table_bytes + size.set_bytes <= 256 << 10, "{size:?}");
}

#[test]
fn threads_that_share_a_table_find_what_one_finds() {
    let mut random = Random::new(5);
    let (_, hirs) = random_patterns(&mut random, 12);
    let texts: Vec<Vec<u8>> = (0..200).map(|_| text_for(&mut random, &hirs)).collect();
    let run = |matcher: &Matcher| -> Vec<FirstEnds> {
        texts
            .iter()
            .map(|text| first_ends(matcher, text, &[text.len() / 2]))
            .collect()
    };
    let cases = [
        (2000, PLANS[0]),
        (1 << 20, PLANS[0]),
        (9000, PLANS[2]),
        (1 << 20, PLANS[3]),
    ];
    for (budget, plan) in cases {
        let alone = run(&matcher_of(&hirs, budget, plan));
        let shared = matcher_of(&hirs, budget, plan);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&shared))).collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), alone, "budget {budget}, {plan:?}");
            }
        });
    }
}

#[test]
fn a_worn_table_is_replaced_once_and_again_when_nobody_uses_the_one_before() {
    let pattern = "[01]*1[01]{14}x";
    let matcher = matcher(&[pattern], 64 << 10);
    let generation = || matcher.sizes().next().unwrap().generation;
    let hostile = hostile_text(40_000);
    // A cursor that stays in the first generation, in the middle of a match.
    let mut idle = matcher.start();
    matcher.push(&mut idle, b"-100000000000000", |_| {});
    let mut busy = matcher.start();
    for _ in 0..5 {
        matcher.push(&mut busy, &hostile, |_| {});
    }
    assert_eq!(
        generation(),
        1,
        "the first is still in use, so there is no third"
    );
    let mut found = Vec::new();
    matcher.push(&mut idle, b"x", |event| {
        found.push((event.pattern.0, event.at, event.back))
    });
    assert_eq!(found, [(0, 0, 0)]);
    drop(idle);
    for _ in 0..5 {
        matcher.push(&mut busy, &hostile, |_| {});
    }
    assert!(generation() > 1, "the first is gone");
    let mut found = 0;
    matcher.push(&mut busy, b"100000000000000x", |_| found += 1);
    assert_eq!(found, 1);
}

#[test]
fn tables_that_grow_from_a_small_one_find_what_an_ample_one_finds() {
    let small = PartitionPlan {
        first_budget: 2 << 10,
        ..PartitionPlan::USUAL
    };
    // The number of states is exponential in the middle repeat: no text visits all of them.
    let patterns = ["[01]*1[01]{9}x", "[a-f]+-0{3}", r"\b1+\b-", "z[01]{4,30}z"];
    let hirs = parsed(&patterns);
    let mut random = Random::new(31);
    let text: Vec<u8> = (0..200_000)
        .map(|_| b"0101010101xa-z"[random.below(14)])
        .collect();
    let every = [true; 4];
    let run = |matcher: &Matcher, delta: usize| {
        let mut found = Vec::new();
        let mut cursor = matcher.start();
        for (index, bytes) in text.chunks(delta).enumerate() {
            matcher.push(&mut cursor, bytes, |event| {
                found.push((event.pattern.0, index * delta + event.at, event.back));
            });
        }
        matcher.finish(&mut cursor, |event| {
            found.push((event.pattern.0, text.len(), event.back))
        });
        found
    };
    let ample = matcher_of_ends(&hirs, 1 << 20, PartitionPlan::USUAL, &every);
    let want = run(&ample, text.len());
    assert!(want.len() > 100, "{}", want.len());
    assert_eq!(ample.sizes().next().unwrap().generation, 0);
    for delta in [1, 7, 64, 4096] {
        let growing = matcher_of_ends(&hirs, 1 << 20, small, &every);
        assert_eq!(run(&growing, delta), want, "deltas of {delta} bytes");
        let size = growing.sizes().next().unwrap();
        assert!(size.generation >= 2, "{size:?}");
        assert!(size.table_bytes + size.set_bytes > 2 << 10, "{size:?}");
    }
}

#[test]
fn lanes_find_what_plain_steps_find() {
    let plain_only = Tile {
        min_len: usize::MAX,
        ..Tile::USUAL
    };
    let mut random = Random::new(77);
    let mut events = 0;
    for group in 0..scale(600) {
        let (patterns, hirs) = random_patterns(&mut random, 1 + group % 6);
        let mut matchers = [
            matcher_of(&hirs, 1 << 20, PLANS[group % PLANS.len()]),
            matcher_of(&hirs, 1 << 20, PLANS[group % PLANS.len()]),
        ];
        matchers[0].set_tile(plain_only);
        matchers[1].set_tile(TILES[group % TILES.len()]);
        for _ in 0..20 {
            // Mostly ASCII with few matches, so that lanes are not stopped.
            let mut text: Vec<u8> = (0..400)
                .map(|_| *random.pick(&[b"-", b" ", b"z", b"a", b"1"]))
                .map(|[byte]| byte)
                .collect();
            let at = random.below(text.len());
            text.splice(at..at, text_for(&mut random, &hirs));
            let all = matchers.each_ref().map(|matcher| {
                let mut found = Vec::new();
                let mut cursor = matcher.start();
                for delta in text.chunks(150) {
                    matcher.push(&mut cursor, delta, |event| {
                        found.push((event.pattern.0, event.at, event.back))
                    });
                }
                matcher.finish(&mut cursor, |event| {
                    found.push((event.pattern.0, usize::MAX, event.back))
                });
                found
            });
            assert_eq!(all[0], all[1], "{patterns:?} on {}", text.escape_ascii());
            events += all[0].len();
        }
    }
    println!("{events} events, all of them the same in lanes");
    assert!(events > 0);
}

#[test]
fn a_set_that_surely_fits_is_built() {
    let mut random = Random::new(0x5EED_F175);
    let mut fitting = [0; 2];
    for _ in 0..scale(400).max(40) {
        // Classes of a few ranges each: about as many bounds as a table has columns.
        let classes = 1 + random.below(24) as u32;
        let patterns: Vec<Hir> = (0..classes)
            .map(|_| {
                let ranges = (0..1 + random.below(400)).map(|_| {
                    let start =
                        char::from_u32(random.below(0xD000) as u32).expect("below surrogates");
                    let end = char::from_u32(start as u32 + random.below(3) as u32);
                    ClassUnicodeRange::new(start, end.unwrap_or(start))
                });
                Hir::class(Class::Unicode(ClassUnicode::new(ranges)))
            })
            .collect();
        let fits = fits_alphabet(&patterns);
        let matcher = Matcher::new(&patterns, 1 << 16);
        assert!(matcher.is_ok() || !fits, "{classes} classes");
        fitting[usize::from(fits)] += 1;
    }
    assert!(fitting.iter().all(|&count| count > 0), "{fitting:?}");
    let words: Vec<Hir> = parsed(&[r"(?Rm)^\w+$", r"\b\d\B|(?-u:\b)x", "[\u{4E00}-\u{9FFF}]ab"]);
    assert!(fits_alphabet(&words) && Matcher::new(&words, 1 << 16).is_ok());
    assert!(!fits_alphabet(&parsed(&[r"(?-u:\xFF)"])));
    // Thousands of ordinary patterns have many elements, and few classes.
    let text = |number| format!(r"(?i)\bneedle{number}_[a-z]{{2,9}}\s*[:=]\s*\w+");
    let texts: Vec<String> = (0..5000).map(text).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert!(fits_alphabet(&parsed(&texts)));
}

#[test]
fn too_many_different_characters_are_refused_before_they_cost_much() {
    let word = |from: u32, count: u32| -> Hir {
        let text: String = (from..from + count).filter_map(char::from_u32).collect();
        Hir::literal(text.into_bytes())
    };
    assert!(fits_alphabet(&[word(0x4E00, 3000)]));
    assert!(Matcher::new(&[word(0x4E00, 3000)], 1 << 16).is_ok());
    assert!(!fits_alphabet(&[word(0x4E00, 20_000)]));
    assert_eq!(
        Matcher::new(&[word(0x4E00, 20_000)], 1 << 16).err(),
        Some(TooManyClasses)
    );
}

#[test]
fn a_filter_finds_what_regex_and_plain_steps_find() {
    let limits = PatternLimits::default();
    let mut random = Random::new(4242);
    let (mut prefiltered, mut automata, mut cut) = (0, 0, 0);
    let (mut events, mut firsts_seen) = (0, 0);
    for group in 0..scale(600).max(20) {
        let (mut patterns, mut hirs) = (Vec::new(), Vec::new());
        while patterns.len() < 1 + group % 5 {
            let text = rare_pattern(&mut random);
            if let Ok(hir) = pattern::parse(&text, &limits) {
                patterns.push(text);
                hirs.push(hir);
            }
        }
        let budget = [3000, 1 << 20][group % 2];
        let plan = PLANS[group / 2 % PLANS.len()];
        let mut matchers = [(); 2].map(|()| matcher_of(&hirs, budget, plan));
        let level = match group % 8 {
            0 => SimdLevel::Portable,
            _ => SimdLevel::best(),
        };
        matchers[0].set_prefiltered(usize::MAX, level);
        matchers[1].set_prefiltered(1, level);
        let filters = matchers[1].filters();
        if filters == 0 {
            continue;
        }
        prefiltered += 1;
        automata += usize::from(filters > 1);
        cut += usize::from(matchers[1].sizes().any(|size| size.cuts > 0));
        let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
        for _ in 0..10 {
            let text = strewn_text(&mut random, &hirs);
            let context = || format!("{patterns:?} on {}, {plan:?}", text.escape_ascii());
            let cuts = random_cuts(&mut random, text.len());
            let [plain, fast] = matchers.each_ref().map(|matcher| {
                let mut found = Vec::new();
                let mut cursor = matcher.start();
                let mut from = 0;
                for &to in cuts.iter().chain([&text.len()]) {
                    matcher.push(&mut cursor, &text[from..to], |event| {
                        found.push((event.pattern.0, from + event.at, event.back));
                    });
                    from = to;
                }
                matcher.finish(&mut cursor, |event| {
                    found.push((event.pattern.0, usize::MAX, event.back));
                });
                (found, Matcher::invalid_bytes(&cursor))
            });
            assert_eq!(plain, fast, "{}, cut at {cuts:?}", context());
            events += fast.0.len();
            let want = expected(&vms, &text);
            assert_eq!(
                ends(&first_ends(&matchers[1], &text, &cuts)),
                want,
                "{}",
                context()
            );
            firsts_seen += want.len();
        }
    }
    println!(
        "{prefiltered} sets with a filter, {automata} with several, {cut} with cuts, {events} events, \
         {firsts_seen} first ends"
    );
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vbmi") {
        assert!(automata > 0 && cut > 0 && firsts_seen > 0);
    }
}

#[test]
fn a_filter_waits_for_live_tails_and_sees_cuts_in_its_windows() {
    let cases: &[(&[&str], &[u8])] = &[
        // The suffix is live while the search is idle, and the text that ends it fits no window.
        (
            &["QzQ#.*e"],
            b"QzQ#----------------------e---------------------------------",
        ),
        (
            &["QzQ#.*e"],
            b"QzQ#----------------------\n------------------------------e--",
        ),
        (
            &["^Qz#.*JJ", "ZZ~#"],
            b"Qz#----------------------JJ-------------------------ZZ~#----",
        ),
        // The cut is inside the window.
        (
            &["Q.{0,3}zxJ#", "JZ[^#]*#Q"],
            b"the end of a long line of text, Q-zxJ# and JZ-------------#Q",
        ),
    ];
    let mut prefiltered = 0;
    for (patterns, text) in cases {
        for plan in PLANS {
            let hirs = parsed(patterns);
            let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
            for (budget, cut) in [(0, 3), (0, 40), (1 << 20, 3), (1 << 20, 40)] {
                let mut matcher = matcher_of(&hirs, budget, plan);
                matcher.set_prefiltered(1, SimdLevel::best());
                prefiltered += matcher.filters();
                // The first run builds the table, the second one only reads it.
                for _ in 0..2 {
                    let found = ends(&first_ends(&matcher, text, &[cut]));
                    assert_eq!(found, expected(&vms, text), "{patterns:?}, {plan:?}");
                }
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vbmi") {
        let plans = PLANS.iter().filter(|plan| plan.level.is_none()).count();
        assert!(prefiltered >= 4 * cases.len() * plans, "{prefiltered}");
    }
}

#[test]
fn copies_of_a_class_that_cover_others_lose_no_end() {
    let mut random = Random::new(0xC0DE);
    for round in 0..scale(300) {
        let class = ["[ab]", "[abc]", "a", ".", r"\w"][random.below(5)];
        let (least, more) = (random.below(4), 1 + random.below(4));
        let bounded = format!("{class}{{{least},{}}}", least + more);
        let open = format!("{class}{{{least},}}");
        let patterns = [
            format!("b{bounded}c"),
            format!(r"\b{bounded}\b-"),
            format!("c{open}a-"),
            format!("(?:{bounded}-){{2}}"),
            format!("-(?:{open}c|{bounded}b)"),
        ];
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let length = 4 + random.below(20);
        let text: Vec<u8> = (0..length).map(|_| b"aabbc-"[random.below(6)]).collect();
        let budget = [0, 4 << 10, 1 << 20][round % 3];
        check_all_cuts(&patterns, &text, budget);
    }
}

#[test]
fn outside_the_table_a_long_repeat_is_stepped_through_every_copy() {
    let patterns = ["a[01]{150}x", "a[01]{200}y"];
    let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
    // No state fits into a budget of 0.
    let matcher = matcher(&patterns, 0);
    for (digits, end) in [(150, "x"), (149, "x"), (200, "y"), (201, "y"), (150, "y")] {
        let text = format!("-a{}{end}-", "01".repeat(101).split_at(digits).0);
        let found = ends(&first_ends(&matcher, text.as_bytes(), &[]));
        assert_eq!(found, expected(&vms, text.as_bytes()), "{digits} and {end}");
    }
}

#[test]
fn counted_classes_that_overlap_themselves_visit_few_states() {
    let matcher = matcher_of(
        &parsed(&["[a-z][-a-z0-9]{5,60}Q", "[-a-z]{1,40}R", "x[a-z0-9]{9,}S"]),
        16 << 20,
        PartitionPlan::USUAL,
    );
    let mut random = Random::new(7);
    let text: Vec<u8> = (0..100_000)
        .map(|_| b"abcdefx019-- "[random.below(13)])
        .collect();
    assert!(first_ends(&matcher, &text, &[]).is_empty());
    let states: usize = matcher.sizes().map(|size| size.states).sum();
    assert!(states < 4000, "{states}");
}

/// Returns 130 patterns. Some match any text, and some have a partial match at every word, each a different one: in one
/// automaton their states multiply.
fn patterns_that_multiply() -> Vec<String> {
    let common = ["[a-z]", r"\w\w", " ", r"\b[a-z]+ "].map(str::to_owned);
    let letters = "etaoinshrdlcum".chars();
    let busy = letters.flat_map(|first| {
        (2..=9).map(move |count| format!("{first}[a-z ]{{{count},{}}}zz{count}", 3 * count))
    });
    let rare = (0..20).map(|number| format!("rare{number}x"));
    common.into_iter().chain(busy).chain(rare).collect()
}

/// Without this, tests that compare forced layouts could compare equal layouts.
#[test]
fn a_forced_layout_is_the_one_in_use() {
    let patterns = patterns_that_multiply();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let mut matcher = matcher_of(&parsed(&patterns), 1 << 20, plan(None, 3, None));
    let forced = |matcher: &Matcher| -> Vec<_> {
        let forced = matcher.automata().map(|automaton| automaton.lazy.forced());
        forced.collect()
    };
    assert_eq!(forced(&matcher).len(), 3);
    matcher.set_tile(TILES[0]);
    matcher.set_prefiltered(7, SimdLevel::Portable);
    for (tiles, prefiltered, level) in forced(&matcher) {
        assert_eq!((tiles, prefiltered), ([TILES[0]; 2], 7));
        assert!(matches!(level, None | Some(SimdLevel::Portable)));
    }
    let mut matcher = matcher_of(&parsed(&["needle~Q"]), 1 << 20, PartitionPlan::USUAL);
    matcher.set_prefiltered(9, SimdLevel::Portable);
    if let (_, 9, Some(level)) = forced(&matcher)[0] {
        assert_eq!(level, SimdLevel::Portable);
    } else {
        assert!(
            SimdLevel::best() == SimdLevel::Portable,
            "no filter was made"
        );
    }
}

#[test]
fn patterns_whose_states_multiply_are_spread_and_hit_the_same() {
    let patterns = patterns_that_multiply();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let hirs = parsed(&patterns);
    let spread = matcher_of(&hirs, 16 << 20, PartitionPlan::USUAL);
    assert!(
        spread.sizes().count() > 1,
        "{} patterns in one automaton: the sample shows nothing",
        patterns.len()
    );
    let together = matcher_of(&hirs, 16 << 20, plan(Some(GapCriteria::USUAL), 1, None));
    assert_eq!(together.sizes().count(), 1);
    let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
    let mut random = Random::new(5);
    for _ in 0..scale(200).max(20) {
        let text: Vec<u8> = (0..1 + random.below(6))
            .flat_map(|_| {
                let words = [
                    "the rest of it ",
                    "zz3 ",
                    "tea and ezz2",
                    "rare7x ",
                    "oh ",
                    "Z",
                    "é ",
                ];
                let hir = &hirs[random.below(hirs.len())];
                let mut text = random.pick(&words).as_bytes().to_vec();
                ttsr_testing::sample(&mut random, hir, &mut text);
                text
            })
            .collect();
        let want = expected(&vms, &text);
        let cuts = random_cuts(&mut random, text.len());
        for matcher in [&spread, &together] {
            for cuts in [&cuts[..], &[]] {
                assert_eq!(
                    ends(&first_ends(matcher, &text, cuts)),
                    want,
                    "{} cut at {cuts:?}",
                    text.escape_ascii()
                );
            }
        }
    }
}

#[test]
fn short_deltas_that_bring_nothing_are_read_at_once() {
    let patterns = parsed(&["ab.*cd", "é?needle"]);
    let deltas = [
        ("so ", "plain text"),
        ("so ", "é ü text"),
        ("so ", "an ab is"),
        ("an ab ", "is not c"),
        ("an ab ", "is\nover"),
        ("an ab ", "is é not"),
    ];
    for (plan, expected) in [
        (PartitionPlan::USUAL, [true; 6]),
        (plan(Some(EVERY_GAP), 1, None), [true; 6]),
        (
            plan(Some(EVERY_GAP), 1, Some(SimdLevel::Portable)),
            [true; 6],
        ),
        // Several automata step together only ASCII that activates no suffix.
        (plan(None, 2, None), [true, false, true, true, true, false]),
        (
            plan(Some(EVERY_GAP), 2, Some(SimdLevel::Portable)),
            [true, false, false, true, true, false],
        ),
    ] {
        let matcher = matcher_of(&patterns, 1 << 20, plan);
        let is_short = |before: &str, delta: &str| {
            let mut cursor = matcher.start();
            matcher.push(&mut cursor, before.as_bytes(), |_| ());
            let is_short = matcher
                .push_short_with_suffixes(&mut cursor, delta.as_bytes())
                .is_some();
            if !is_short {
                // This builds the missing states.
                matcher.push(&mut cursor, delta.as_bytes(), |_| ());
            }
            is_short
        };
        let found = deltas.map(|(before, delta)| {
            let _ = is_short(before, delta);
            is_short(before, delta)
        });
        assert_eq!(found, expected, "{plan:?}");
    }
}

#[test]
fn a_run_steps_whole_characters_and_tracks_where_it_was_idle() {
    let matcher =
        Matcher::for_full_matches(&parsed(&["abc", "éa"]), 1 << 20).expect("few characters");
    let text = "x日 é, é".as_bytes();
    let mut cursor = matcher.start();
    // This builds the states.
    matcher.push(&mut cursor, text, |event| panic!("{event:?}"));
    matcher.push(&mut cursor, b" x ab x ", |event| panic!("{event:?}"));
    matcher.restart(&mut cursor);
    let run = matcher.run(&mut cursor, text);
    assert_eq!((run.stepped, run.idle_until), (text.len(), text.len() - 2));
    assert!(!matcher.is_idle(&cursor));
    // An incomplete character is not stepped.
    assert_eq!(matcher.run(&mut cursor, b" x\xE6\x97").stepped, 2);
    assert!(matcher.is_idle(&cursor));
    // A short delta is tracked if it is ASCII.
    let mut tracked = |delta: &[u8]| {
        let step = matcher.try_step_short(&mut cursor, delta)?;
        matcher.accept_short(&mut cursor, delta, step);
        Some(step.idle_until())
    };
    assert_eq!(tracked("x日".as_bytes()), None);
    assert_eq!(tracked(b" x ab"), Some(3));
    // Idle at the end.
    assert_eq!(tracked(b" x "), Some(3));
    // Longer than a short delta.
    assert_eq!(tracked(&[b' '; MAX_SHORT_LEN + 1]), None);
}

#[test]
fn a_search_that_begins_within_a_text_sees_what_precedes_it() {
    let patterns = parsed(&[r"\bab", "(?m)^ab", r"\Aab", r"\Bab", "é?ab"]);
    // The second budget has no room for any state, so that the search is in the fallback.
    for budget in [1 << 20, 1] {
        let matcher = Matcher::for_full_matches(&patterns, budget).expect("few characters");
        for (before, patterns) in [
            ("x", &[3, 4][..]),
            (" ", &[0, 4]),
            ("\n", &[0, 1, 4]),
            ("é", &[3, 4]),
            ("a", &[3, 4]),
            ("a-", &[0, 4]),
            ("", &[0, 4]),
        ] {
            let mut cursor = matcher.start();
            matcher.restart_after(&mut cursor, before.as_bytes());
            assert!(matcher.is_idle(&cursor), "{before:?}");
            let mut found = Vec::new();
            matcher.push(&mut cursor, b"ab", |event| found.push(event.pattern.0));
            found.sort_unstable();
            assert_eq!(found, patterns, "{before:?} in {budget} bytes");
        }
    }
}

#[test]
fn a_repeat_covers_its_own_copies_and_not_those_of_another() {
    for patterns in [["a[ab]{3,}x", "b[ab]{3,}y"], ["b[ab]{3,}y", "a[ab]{3,}x"]] {
        for text in ["aaaaabaaay", "bbbbbbabbbx", "aaaaabaaayx"] {
            check_all_cuts(&patterns, text.as_bytes(), 1 << 20);
        }
    }
}

#[test]
fn a_tail_knows_what_stands_before_where_only_a_loop_behind_asks() {
    let patterns = [
        r"x[0-9]{2,60}(?:ab\B)*c!",
        r"y[0-9]{2,60}(?:-ab\b)*;(?:k\b)*!",
    ];
    for text in [
        "x12abc!",
        "x12ababc! x12c!",
        "y12-ab-ab;k!",
        "y12-ab-abb;! y12;kk!",
    ] {
        check_all_cuts(&patterns, text.as_bytes(), 1 << 20);
    }
}

#[test]
fn more_automata_than_are_stepped_together_miss_nothing() {
    let patterns: Vec<String> = (0..12).map(|number| format!("w{number:02}x")).collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    for automata in [
        MAX_SHORT_AUTOMATA,
        MAX_SHORT_AUTOMATA + 1,
        MAX_SHORT_AUTOMATA + 2,
        12,
    ] {
        let matcher = matcher_of(&parsed(&patterns), 1 << 24, plan(None, automata, None));
        assert_eq!(matcher.sizes().count(), automata);
        for (number, pattern) in patterns.iter().enumerate() {
            let text = format!("so {pattern} and");
            for _ in 0..2 {
                let found = first_ends(&matcher, text.as_bytes(), &[2, 5, 9]);
                assert_eq!(
                    ends(&found),
                    [(number as u32, 7)],
                    "{pattern} of {automata}"
                );
            }
        }
    }
}

#[test]
fn gaps_inside_of_patterns_are_cut_once_each_way() {
    for (pattern, cuts) in [
        ("a.*b", 1),
        ("(?:a.*b|c)d", 1),
        ("(?:xa.*b|ya.*c)d", 2),
        ("(?:x(ya.*b)|c)d", 1),
        ("x(?:y(a.*b))+", 1),
        ("(?:a.*b|(?:c|e.*f)g)d", 2),
        ("x(?:ya.*b)+", 1),
        ("(?:ab.*c)?x", 0),
        ("ab[^x]*[^y]*c", 1),
        ("a[0-9]b", 0),
    ] {
        let matcher = matcher_of(&parsed(&[pattern]), 1 << 20, plan(Some(EVERY_GAP), 1, None));
        let found: usize = matcher.sizes().map(|size| size.cuts).sum();
        assert_eq!(found, cuts, "{pattern}");
    }
}

#[test]
fn a_later_copy_of_an_endless_repeat_is_subsumed_by_one_past_its_count() {
    let matcher = matcher_of(&parsed(&["x[abx]{12,}9"]), 1 << 20, PartitionPlan::USUAL);
    let mut random = Random::new(3);
    let text: Vec<u8> = (0..4000).map(|_| b"xab"[random.below(3)]).collect();
    assert!(first_ends(&matcher, &text, &[]).is_empty());
    let states: usize = matcher.sizes().map(|size| size.states).sum();
    assert!(states < 60, "{states}");
}

#[test]
fn a_pattern_that_matches_everywhere_has_no_prefilter() {
    if SimdLevel::best() == SimdLevel::Portable {
        return skip::test("this processor has no AVX-512, so there are no filters");
    }
    let filters = |patterns: &[&str]| {
        let matcher = matcher_of(&parsed(patterns), 1 << 24, plan(None, 1, None));
        matcher.filters()
    };
    for (pattern, expected) in [
        ("the", 1),
        ("e[a-z]{3}", 1),
        ("[a-z]{4}", 0),
        ("[0-9]{4}", 1),
        ("....", 0),
        (".{0,3}abcd", 1),
        ("[^x]{4}q", 1),
        ("é{4}", 1),
    ] {
        assert_eq!(filters(&[pattern]), expected, "{pattern}");
    }
}

#[test]
fn a_filter_begins_with_what_stands_before_the_byte_it_begins_at() {
    // A window at the largest distance, which contains a byte that is not ASCII.
    let hirs = parsed(&[r"\b[a-z]{4}qxj[zé]", r"\B[a-z]{4}vxj[zé]"]);
    for (text, hits) in [
        (" abcdqxjé", 1),
        ("xabcdqxjé", 0),
        ("xabcdvxjé", 1),
        (" abcdvxjé", 0),
    ] {
        let text = format!("{}{text} and more{}", ". ".repeat(40), " .".repeat(40));
        for min_len in [1, usize::MAX] {
            let mut matcher = matcher_of(&hirs, 1 << 20, plan(None, 1, None));
            matcher.set_prefiltered(min_len, SimdLevel::best());
            assert_eq!(
                first_ends(&matcher, text.as_bytes(), &[]).len(),
                hits,
                "{text} {min_len}"
            );
        }
    }
}

#[test]
fn a_tail_is_stepped_through_what_lanes_could_step() {
    let matcher = matcher_of(
        &parsed(&["ab.*cd"]),
        1 << 20,
        plan(Some(EVERY_GAP), 1, None),
    );
    let long = "plain text ".repeat(300);
    for (between, hits) in [("", 1), ("\n", 0)] {
        let text = format!("{long} ab {long}{between}{long} cd {long}");
        for _ in 0..2 {
            assert_eq!(
                first_ends(&matcher, text.as_bytes(), &[]).len(),
                hits,
                "{between:?}"
            );
            assert_eq!(
                first_ends(&matcher, text.as_bytes(), &[long.len() + 9]).len(),
                hits
            );
        }
    }
}

#[test]
fn a_window_inside_the_beginning_of_another_match_does_not_hide_it() {
    // The window of the first pattern comes after fifteen bytes, which contain the window of the second.
    let patterns = ["[a-z]{15}Q#~Q", "abca[a-z]{9}Z"];
    let hirs = parsed(&patterns);
    let mut matcher = matcher_of(&hirs, 1 << 24, PartitionPlan::USUAL);
    matcher.set_prefiltered(1, SimdLevel::best());
    assert!(matcher.filters() == 1 || SimdLevel::best() == SimdLevel::Portable);
    let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
    for inside in 0..=11 {
        let mut text = b"The quick brown fox jumps over the lazy dog, ".to_vec();
        let begin = text.len();
        text.extend_from_slice(b"cccccccccccccccQ#~Q and then it sleeps until the next morning.");
        text[begin + inside..][..4].copy_from_slice(b"abca");
        let expected = expected(&vms, &text);
        assert_eq!(expected.len(), 1);
        for _ in 0..2 {
            assert_eq!(
                ends(&first_ends(&matcher, &text, &[])),
                expected,
                "{inside}"
            );
        }
    }
}

#[test]
fn a_suffix_does_not_outlive_its_haystack() {
    // `needle` is wide enough to be cut before its gap; the others keep the automaton from being trivial.
    let matcher = Matcher::new(&parsed(&["needle[^!]{20,400}eye", "abc", "xyz"]), 1 << 20);
    let matcher = matcher.expect("few classes");
    assert!(matcher.sizes().any(|size| size.cuts > 0));
    let gap = [b'.'; 30];
    let mut cursor = matcher.start();
    let mut found = Vec::new();
    for (delta, restarts) in [(&b"needle"[..], false), (&gap, true), (b"eye", false)] {
        matcher.push(&mut cursor, delta, |event| found.push(event.pattern.0));
        if restarts {
            matcher.restart(&mut cursor);
        }
    }
    assert_eq!(found, [0; 0], "the match began in another haystack");
    for delta in [&b"needle"[..], &gap, b"eye"] {
        matcher.push(&mut cursor, delta, |event| found.push(event.pattern.0));
    }
    assert_eq!(found, [0]);
}
