//! Shared code of the matcher's tests and `examples/collide.rs`: forced layouts, random pattern sets with texts for
//! them, and the oracle.

use std::collections::BTreeMap;

use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use regex_syntax::hir::Hir;

use crate::PatternLimits;
use crate::lazy_dfa::speculative::Tile;
use crate::partition::{AutomatonCount, PartitionPlan};
use crate::simd::SimdLevel;
use crate::split::GapCriteria;
use crate::table::FIRST_BUDGET;
use crate::table::sparse::SparseRows;
use crate::{Matcher, SHORT, is_short, pattern};
use ttsr_testing::{Random, pattern_text, sample};

/// By pattern: its first end, and the number of bytes after which that was certain.
pub(crate) type Firsts = BTreeMap<u32, (usize, usize)>;

/// By pattern and end of a match: the number of bytes after which that was certain.
pub(crate) type EveryEnd = BTreeMap<(u32, usize), usize>;

pub(crate) fn oracle(pattern: &str) -> PikeVM {
    PikeVM::builder()
        .syntax(syntax::Config::new().utf8(false))
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(None))
        .configure(PikeVM::config().match_kind(MatchKind::All))
        .build(pattern)
        .expect(pattern)
}

pub(crate) fn first_end(vm: &PikeVM, text: &[u8]) -> Option<usize> {
    first_end_with(vm, &mut vm.create_cache(), text)
}

/// As `first_end`, with the cache of the oracle reused.
pub(crate) fn first_end_with(vm: &PikeVM, cache: &mut Cache, text: &[u8]) -> Option<usize> {
    let mut slots = [None; 2];
    let input = Input::new(text).earliest(true);
    vm.search_slots(cache, &input, &mut slots);
    slots[1].map(|end| end.get())
}

/// Returns the ends of all matches, from any start.
pub(crate) fn every_end_with(vm: &PikeVM, cache: &mut Cache, text: &[u8]) -> Vec<usize> {
    let mut slots = [None; 2];
    // Of all matches up to this end, the search returns the one that ends last.
    let mut ends_at = |&end: &usize| {
        vm.search_slots(cache, &Input::new(text).range(..end), &mut slots);
        slots[1].is_some_and(|last| last.get() == end)
    };
    (1..=text.len()).filter(|end| ends_at(end)).collect()
}

pub(crate) fn parsed(patterns: &[&str]) -> Vec<Hir> {
    let limits = PatternLimits::default();
    let parse = |text: &&str| pattern::parse(text, &limits).expect(text);
    patterns.iter().map(parse).collect()
}

/// Criteria by which every gap is cut, however narrow and wherever it is.
pub(crate) const EVERY_GAP: GapCriteria = GapCriteria {
    characters: 0,
    repeats: 1,
    selectivity: 0,
};

/// The usual layout, and forced ones.
pub(crate) const PLANS: [PartitionPlan; 11] = [
    PartitionPlan::USUAL,
    PartitionPlan {
        level: Some(SimdLevel::Portable),
        ..PartitionPlan::USUAL
    },
    // Sparse rows for all states without a report, and for those after the first few.
    PartitionPlan {
        sparse: SparseRows {
            full_rows: 0,
            entries: 2,
        },
        ..plan(Some(EVERY_GAP), 1, None)
    },
    PartitionPlan {
        sparse: SparseRows {
            full_rows: 12,
            entries: 1,
        },
        level: Some(SimdLevel::Portable),
        ..PartitionPlan::USUAL
    },
    PartitionPlan {
        sparse: SparseRows {
            full_rows: 0,
            ..SparseRows::USUAL
        },
        ..plan(None, 2, None)
    },
    plan(None, 1, None),
    plan(Some(EVERY_GAP), 1, Some(SimdLevel::Portable)),
    plan(Some(EVERY_GAP), 2, None),
    plan(None, 3, Some(SimdLevel::Portable)),
    plan(Some(EVERY_GAP), usize::MAX, None),
    // A first table for a few states, as small as where memory cannot be reserved: the next ones grow from it.
    PartitionPlan {
        first_budget: 2 << 10,
        ..plan(Some(EVERY_GAP), 1, None)
    },
];

pub(crate) const fn plan(
    gaps: Option<GapCriteria>,
    automata: usize,
    level: Option<SimdLevel>,
) -> PartitionPlan {
    PartitionPlan {
        gaps,
        spread: AutomatonCount::RoundRobin(automata),
        level,
        sparse: SparseRows::USUAL,
        first_budget: FIRST_BUDGET,
    }
}

pub(crate) fn matcher_of(hirs: &[Hir], table_bytes: usize, plan: PartitionPlan) -> Matcher {
    matcher_of_ends(hirs, table_bytes, plan, &[])
}

/// As `matcher_of`; every end of the patterns marked in `every_end` is reported.
pub(crate) fn matcher_of_ends(
    hirs: &[Hir],
    table_bytes: usize,
    plan: PartitionPlan,
    every_end: &[bool],
) -> Matcher {
    Matcher::planned(hirs, table_bytes, every_end, plan)
        .expect("few patterns tell few characters apart")
}

/// Searches the text cut at `cuts` (offsets in rising order).
pub(crate) fn firsts(matcher: &Matcher, text: &[u8], cuts: &[usize]) -> Firsts {
    let mut found = Firsts::new();
    run(matcher, text, cuts, |pattern, end, decided| {
        found.entry(pattern).or_insert((end, decided));
    });
    found
}

/// Returns all reported ends, with the number of bytes after which each was certain.
pub(crate) fn every_end(matcher: &Matcher, text: &[u8], cuts: &[usize]) -> EveryEnd {
    let mut found = EveryEnd::new();
    run(matcher, text, cuts, |pattern, end, decided| {
        found.entry((pattern, end)).or_insert(decided);
    });
    found
}

/// Calls `note` for each event with its pattern, its end, and the number of bytes after which it was certain.
fn run(matcher: &Matcher, text: &[u8], cuts: &[usize], mut note: impl FnMut(u32, usize, usize)) {
    let mut cursor = matcher.start();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        let delta = &text[from..to];
        // In the order in which streams try the paths.
        let is_done = is_short(delta)
            && (cursor.push_short(delta, &mut [0; SHORT], |_| true)
                || matcher
                    .push_short_with_suffixes(&mut cursor, delta)
                    .is_some());
        if !is_done {
            matcher.push(&mut cursor, delta, |event| {
                let decided = from + event.at + 1;
                note(event.pattern, decided - event.back, decided);
            });
        }
        from = to;
    }
    matcher.finish(&mut cursor, |event| {
        note(event.pattern, text.len() - event.back, text.len());
    });
}

pub(crate) fn ends(firsts: &Firsts) -> Vec<(u32, usize)> {
    firsts
        .iter()
        .map(|(&pattern, &(end, _))| (pattern, end))
        .collect()
}

pub(crate) fn expected(vms: &[PikeVM], text: &[u8]) -> Vec<(u32, usize)> {
    let ends = vms
        .iter()
        .enumerate()
        .filter_map(|(i, vm)| Some((i as u32, first_end(vm, text)?)));
    ends.collect()
}

/// Returns random cuts of a text: offsets in rising order, some of them twice (an empty delta).
pub(crate) fn random_cuts(random: &mut Random, len: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..random.below(5))
        .map(|_| random.below(len + 1))
        .collect();
    cuts.sort_unstable();
    cuts
}

/// Returns a text that the patterns are likely to match: samples of them in noise.
pub(crate) fn text_for(random: &mut Random, hirs: &[Hir]) -> Vec<u8> {
    let mut text = random.noise(6);
    for _ in 0..1 + random.below(2) {
        let hir = &hirs[random.below(hirs.len())];
        sample(random, hir, &mut text);
        text.extend(random.noise(4));
    }
    text.truncate(40);
    text
}

/// Tiles for the shortest texts.
pub(crate) const SMALL_TILE: Tile = Tile {
    lanes: 8,
    stretch: 2,
    early: 1,
    least: 16,
};

pub(crate) fn random_patterns(random: &mut Random, count: usize) -> (Vec<String>, Vec<Hir>) {
    let limits = PatternLimits::default();
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

/// Returns a pattern with a prefix that is rare in ordinary text, so that it has a window.
pub(crate) fn rare_pattern(random: &mut Random) -> String {
    const RARE: [&str; 10] = [
        // Windows far from the start.
        "[a-z ]{7}Q#",
        "(?:[a-y]{15}|e)ZQ~Q",
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

/// Returns a text of ordinary letters with prefixes, whole matches and characters of several bytes in it.
pub(crate) fn strewn_text(random: &mut Random, hirs: &[Hir]) -> Vec<u8> {
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
