//! The promise, tested: the same hits as `regex` on the whole haystack, under every split.
//!
//! The oracle is regex-automata's PikeVM (`MatchKind::All`, `earliest(true)`) on the unsplit text.

use std::collections::BTreeMap;

use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

use super::lanes::Tile;
use super::table::simd::Level;
use super::*;
use crate::limits::Limits;
use crate::testing::{Random, pattern_text, sample, scale};

/// First end of each pattern, and the number of bytes that had to be seen.
type Firsts = BTreeMap<u32, (usize, usize)>;

fn oracle(pattern: &str) -> PikeVM {
    PikeVM::builder()
        .syntax(syntax::Config::new().utf8(false))
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(None))
        .configure(PikeVM::config().match_kind(MatchKind::All))
        .build(pattern)
        .expect(pattern)
}

fn first_end(vm: &PikeVM, text: &[u8]) -> Option<usize> {
    let mut slots = [None; 2];
    let input = Input::new(text).earliest(true);
    vm.search_slots(&mut vm.create_cache(), &input, &mut slots);
    slots[1].map(|end| end.get())
}

fn matcher(patterns: &[&str], table_bytes: usize) -> Matcher {
    let limits = Limits::default();
    let hirs: Vec<Hir> = patterns
        .iter()
        .map(|text| pattern::parse(text, &limits).expect(text))
        .collect();
    Matcher::new(&hirs, table_bytes).unwrap()
}

/// Runs the text cut at `cuts` (offsets in rising order).
fn firsts(matcher: &Matcher, text: &[u8], cuts: &[usize]) -> Firsts {
    let mut found = Firsts::new();
    let mut note = |pattern, end, decided| {
        found.entry(pattern).or_insert((end, decided));
    };
    let mut cursor = matcher.start();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        matcher.push(&mut cursor, &text[from..to], |event| {
            let decided = from + event.at + 1;
            note(event.pattern, decided - event.back, decided);
        });
        from = to;
    }
    matcher.finish(&mut cursor, |event| {
        note(event.pattern, text.len() - event.back, text.len());
    });
    found
}

fn ends(firsts: &Firsts) -> Vec<(u32, usize)> {
    firsts
        .iter()
        .map(|(&pattern, &(end, _))| (pattern, end))
        .collect()
}

fn expected(vms: &[PikeVM], text: &[u8]) -> Vec<(u32, usize)> {
    let ends = vms
        .iter()
        .enumerate()
        .filter_map(|(i, vm)| Some((i as u32, first_end(vm, text)?)));
    ends.collect()
}

/// Whole, byte by byte, and at every two-way cut.
fn check_all_cuts(patterns: &[&str], text: &[u8], table_bytes: usize) {
    let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
    let matcher = matcher(patterns, table_bytes);
    let whole = firsts(&matcher, text, &[]);
    let shown = text.escape_ascii().to_string();
    assert_eq!(
        ends(&whole),
        expected(&vms, text),
        "{patterns:?} on {shown}"
    );
    let bytes: Vec<usize> = (1..text.len()).collect();
    assert_eq!(
        firsts(&matcher, text, &bytes),
        whole,
        "{patterns:?} on {shown}, byte by byte"
    );
    for cut in 0..=text.len() {
        assert_eq!(
            firsts(&matcher, text, &[cut]),
            whole,
            "{patterns:?} on {shown}, cut at {cut}"
        );
    }
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
            &["sk_[a-z]{3,5}", r"[\w.-]{0,9}?key", "(?:a|b)?c+d*"],
            b"my.key sk_abcdef ccd",
        ),
        (&[r"[a&&b]", "x"], b"abx"),
        (&["\\x00", "a\\x00b"], b"a\0b"),
        (&["é"], b"\xC3\xC3\xA9\xE2\x82"),
    ];
    for (patterns, text) in cases {
        check_all_cuts(patterns, text, 1 << 20);
        for pattern in *patterns {
            check_all_cuts(&[pattern], text, 0);
        }
    }
}

#[test]
fn a_plain_pattern_is_certain_at_its_last_byte_and_a_boundary_one_character_later() {
    let decided =
        |pattern, text: &str| firsts(&matcher(&[pattern], 1 << 20), text.as_bytes(), &[])[&0];
    assert_eq!(decided("needle", "a needle in"), (8, 8));
    assert_eq!(decided(r"needle\b", "a needle in"), (8, 9));
    assert_eq!(decided(r"needle\b", "a needle— in"), (8, 11));
    assert_eq!(decided(r"needle\b", "a needle"), (8, 8));
    assert_eq!(decided("sk_[a-z]{2,9}", "sk_abcdef"), (5, 5));
}

/// Random cuts of a text: offsets in rising order, some of them twice (an empty delta).
fn random_cuts(random: &mut Random, len: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..random.below(5))
        .map(|_| random.below(len + 1))
        .collect();
    cuts.sort_unstable();
    cuts
}

/// Texts that the patterns are likely to match: samples of them with noise around.
fn text_for(random: &mut Random, hirs: &[Hir]) -> Vec<u8> {
    let mut text = random.noise(6);
    for _ in 0..1 + random.below(2) {
        let hir = &hirs[random.below(hirs.len())];
        sample(random, hir, &mut text);
        text.extend(random.noise(4));
    }
    text.truncate(40);
    text
}

/// Lanes even for the shortest texts.
const SMALL_TILE: Tile = Tile {
    lanes: 8,
    stretch: 2,
    early: 1,
    least: 16,
};

#[test]
fn random_patterns_agree_with_regex_under_random_cuts() {
    let groups = scale(4_000);
    let mut random = Random::new(0x7455_7352);
    let (mut pairs, mut matching, mut cases) = (0u64, 0u64, 0u64);
    for group in 0..groups {
        let (patterns, hirs) = random_patterns(&mut random, 1 + group % 4);
        let budget = [0, 3000, 1 << 20][group % 3];
        let mut matcher = Matcher::new(&hirs, budget).unwrap();
        if group % 2 == 0 {
            matcher.set_tile(SMALL_TILE);
        }
        let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
        for _ in 0..110 {
            let text = text_for(&mut random, &hirs);
            let want = expected(&vms, &text);
            pairs += patterns.len() as u64;
            matching += want.len() as u64;
            let whole = firsts(&matcher, &text, &[]);
            let context = || format!("{patterns:?} on {}, budget {budget}", text.escape_ascii());
            assert_eq!(ends(&whole), want, "{}", context());
            let bytes: Vec<usize> = (1..text.len()).collect();
            for cuts in [
                bytes,
                random_cuts(&mut random, text.len()),
                random_cuts(&mut random, text.len()),
            ] {
                cases += patterns.len() as u64;
                assert_eq!(
                    firsts(&matcher, &text, &cuts),
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

fn random_patterns(random: &mut Random, count: usize) -> (Vec<String>, Vec<Hir>) {
    let limits = Limits::default();
    let (mut patterns, mut hirs) = (Vec::new(), Vec::new());
    while patterns.len() < count {
        let text = pattern_text(random);
        if let Ok(hir) = pattern::parse(&text, &limits) {
            patterns.push(text);
            hirs.push(hir);
        }
    }
    (patterns, hirs)
}

/// All patterns of at most three atoms and two operators over `abc.`.
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
    let once = repeated(&atoms);
    let pairs = joined(&atoms, &atoms);
    [
        repeated(&once),
        joined(&once, &atoms),
        joined(&atoms, &once),
        repeated(&pairs),
        joined(&pairs, &atoms),
        joined(&atoms, &pairs),
        pairs,
        once,
        atoms,
    ]
    .concat()
}

#[test]
fn every_small_pattern_on_every_small_text_under_every_cut() {
    let limits = Limits::default();
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
        let matcher = Matcher::new(&[hir], 1 << 16).unwrap();
        let vm = [oracle(pattern)];
        for text in &texts {
            let want = expected(&vm, text);
            for chosen in 0..1u32 << text.len().saturating_sub(1) {
                let cuts: Vec<usize> = (1..text.len())
                    .filter(|at| chosen >> (at - 1) & 1 == 1)
                    .collect();
                let found = ends(&firsts(&matcher, text, &cuts));
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
    println!(
        "{} patterns, {refused} of them match the empty text, {cases} cases",
        patterns.len()
    );
}

/// What happens if the promise is broken on purpose.
#[derive(Clone, Copy, Debug)]
enum Sabotage {
    /// Nothing is carried from one delta to the next.
    DropState,
    /// The end of the part is not told.
    SkipEnd,
    /// The automaton has one state: a byte leads nowhere.
    OneState,
    /// An incomplete character is dropped at the end of a delta.
    DropPending,
}

fn sabotaged(matcher: &Matcher, text: &[u8], how: Sabotage) -> Vec<(u32, usize)> {
    let mut found = Firsts::new();
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
                .entry(event.pattern)
                .or_insert((decided.saturating_sub(event.back), decided));
        });
    }
    if !matches!(how, Sabotage::SkipEnd) {
        matcher.finish(&mut cursor, |event| {
            found
                .entry(event.pattern)
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

/// Text that leads to a state never seen before at nearly every byte.
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
    assert_eq!(ends(&firsts(&matcher, &text, &cuts)), expected(&vms, &text));
    let size = matcher.sizes().next().unwrap();
    assert!(
        size.generation > 0,
        "the text no longer fills the table: {size:?}"
    );
    assert!(size.table_bytes + size.set_bytes <= 256 << 10, "{size:?}");
}

#[test]
fn threads_that_share_a_table_find_what_one_finds() {
    let mut random = Random::new(5);
    let (_, hirs) = random_patterns(&mut random, 12);
    let texts: Vec<Vec<u8>> = (0..200).map(|_| text_for(&mut random, &hirs)).collect();
    let run = |matcher: &Matcher| -> Vec<Firsts> {
        texts
            .iter()
            .map(|text| firsts(matcher, text, &[text.len() / 2]))
            .collect()
    };
    for budget in [2000, 1 << 20] {
        let alone = run(&Matcher::new(&hirs, budget).unwrap());
        let shared = Matcher::new(&hirs, budget).unwrap();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&shared))).collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), alone, "budget {budget}");
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
        found.push((event.pattern, event.at, event.back))
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
fn lanes_find_what_plain_steps_find() {
    let plain_only = Tile {
        least: usize::MAX,
        ..Tile::USUAL
    };
    let mut random = Random::new(77);
    let mut events = 0;
    for group in 0..scale(600) {
        let (patterns, hirs) = random_patterns(&mut random, 1 + group % 6);
        let mut matchers = [
            Matcher::new(&hirs, 1 << 20).unwrap(),
            Matcher::new(&hirs, 1 << 20).unwrap(),
        ];
        matchers[0].set_tile(plain_only);
        let stretch = 2 + random.below(9);
        let early = 1 + random.below(stretch - 1);
        matchers[1].set_tile(Tile {
            lanes: [4, 8][group % 2],
            stretch,
            early,
            least: 1,
        });
        for _ in 0..20 {
            // Mostly ASCII without much to match, so that lanes get through.
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
                        found.push((event.pattern, event.at, event.back))
                    });
                }
                matcher.finish(&mut cursor, |event| {
                    found.push((event.pattern, usize::MAX, event.back))
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
fn too_many_different_characters_are_refused_before_they_cost_much() {
    let word = |from: u32, count: u32| -> Hir {
        let text: String = (from..from + count).filter_map(char::from_u32).collect();
        Hir::literal(text.into_bytes())
    };
    assert!(Matcher::new(&[word(0x4E00, 3000)], 1 << 16).is_ok());
    assert_eq!(
        Matcher::new(&[word(0x4E00, 20_000)], 1 << 16).err(),
        Some(TooManyClasses)
    );
}

/// A pattern with a beginning that is rare in ordinary text, so that it has a window.
fn rare_pattern(random: &mut Random) -> String {
    const RARE: [&str; 8] = [
        "Qz#",
        "[QX]{2}",
        r"\bZ#",
        "(?i)zxq",
        "^JQ",
        "é?Z~",
        "(?:QQ|~~|Z#Z)",
        "a?b?Q#",
    ];
    let rare = random.pick(&RARE);
    match random.below(4) {
        0 => (*rare).to_owned(),
        1 => format!(".?{rare}"),
        _ => format!("(?:{rare})(?:{})", pattern_text(random)),
    }
}

/// Text of ordinary letters with beginnings and whole matches strewn in, and wide characters.
fn strewn_text(random: &mut Random, hirs: &[Hir]) -> Vec<u8> {
    const PIECES: [&str; 12] = [
        "-", " ", "e", "ab", "Q", "Z#", "é", "\n", "zx", "~", "the ", "日",
    ];
    let mut text = Vec::new();
    while text.len() < 120 {
        match random.below(12) {
            0 => {
                let hir = random.below(hirs.len());
                sample(random, &hirs[hir], &mut text);
            }
            1 => text.push(b"\xA9\xFF\xE2"[random.below(3)]),
            2 => text.extend_from_slice(&b"lorem ipsum dolor sit amet, "[..random.below(28)]),
            _ => text.extend_from_slice(PIECES[random.below(PIECES.len())].as_bytes()),
        }
    }
    text
}

#[test]
fn a_filter_finds_what_regex_and_plain_steps_find() {
    let limits = Limits::default();
    let mut random = Random::new(4242);
    let (mut filtered, mut events, mut firsts_seen) = (0, 0, 0);
    for group in 0..scale(400) {
        let (mut patterns, mut hirs) = (Vec::new(), Vec::new());
        while patterns.len() < 1 + group % 5 {
            let text = rare_pattern(&mut random);
            if let Ok(hir) = pattern::parse(&text, &limits) {
                patterns.push(text);
                hirs.push(hir);
            }
        }
        let budget = [3000, 1 << 20][group % 2];
        let mut matchers = [(); 2].map(|()| Matcher::new(&hirs, budget).unwrap());
        let level = match group % 8 {
            0 => Level::Portable,
            _ => Level::best(),
        };
        matchers[0].set_filtered(usize::MAX, level);
        matchers[1].set_filtered(1, level);
        if !matchers[1].has_filter() {
            continue;
        }
        filtered += 1;
        let vms: Vec<PikeVM> = patterns.iter().map(|pattern| oracle(pattern)).collect();
        for _ in 0..10 {
            let text = strewn_text(&mut random, &hirs);
            let context = || format!("{patterns:?} on {}", text.escape_ascii());
            let cuts = random_cuts(&mut random, text.len());
            let [plain, fast] = matchers.each_ref().map(|matcher| {
                let mut found = Vec::new();
                let mut cursor = matcher.start();
                let mut from = 0;
                for &to in cuts.iter().chain([&text.len()]) {
                    matcher.push(&mut cursor, &text[from..to], |event| {
                        found.push((event.pattern, from + event.at, event.back));
                    });
                    from = to;
                }
                matcher.finish(&mut cursor, |event| {
                    found.push((event.pattern, usize::MAX, event.back));
                });
                (found, Matcher::invalid_bytes(&cursor))
            });
            assert_eq!(plain, fast, "{}, cut at {cuts:?}", context());
            events += fast.0.len();
            let want = expected(&vms, &text);
            assert_eq!(
                ends(&firsts(&matchers[1], &text, &cuts)),
                want,
                "{}",
                context()
            );
            firsts_seen += want.len();
        }
    }
    println!("{filtered} sets with a filter, {events} events, {firsts_seen} first ends");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vbmi") {
        assert!(filtered > 0 && firsts_seen > 0);
    }
}
