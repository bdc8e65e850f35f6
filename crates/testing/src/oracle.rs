//! The oracle of the automata, and random patterns and texts, for the unit tests of `ttsr-automata` and its example
//! `collide`.

use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use regex_syntax::hir::Hir;

use crate::{Random, pattern_text, sample};

/// Returns the oracle of a pattern.
pub fn oracle(pattern: &str) -> PikeVM {
    PikeVM::builder()
        .syntax(syntax::Config::new().utf8(false))
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(None))
        .configure(PikeVM::config().match_kind(MatchKind::All))
        .build(pattern)
        .expect(pattern)
}

/// Returns the earliest end of a match.
pub fn first_end(vm: &PikeVM, text: &[u8]) -> Option<usize> {
    first_end_with(vm, &mut vm.create_cache(), text)
}

/// As [`first_end`], with the cache of the oracle reused.
pub fn first_end_with(vm: &PikeVM, cache: &mut Cache, text: &[u8]) -> Option<usize> {
    let mut slots = [None; 2];
    let input = Input::new(text).earliest(true);
    vm.search_slots(cache, &input, &mut slots);
    slots[1].map(|end| end.get())
}

/// Returns the ends of all matches, from any start.
pub fn every_end_with(vm: &PikeVM, cache: &mut Cache, text: &[u8]) -> Vec<usize> {
    let mut slots = [None; 2];
    // Of all matches up to this end, the search returns the one that ends last.
    let mut ends_at = |&end: &usize| {
        vm.search_slots(cache, &Input::new(text).range(..end), &mut slots);
        slots[1].is_some_and(|last| last.get() == end)
    };
    (1..=text.len()).filter(|end| ends_at(end)).collect()
}

/// Returns the first end of each pattern that matches.
pub fn expected(vms: &[PikeVM], text: &[u8]) -> Vec<(u32, usize)> {
    let ends = vms
        .iter()
        .enumerate()
        .filter_map(|(i, vm)| Some((i as u32, first_end(vm, text)?)));
    ends.collect()
}

/// Returns random cuts of a text: offsets in rising order, some of them twice (an empty delta).
pub fn random_cuts(random: &mut Random, len: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..random.below(5))
        .map(|_| random.below(len + 1))
        .collect();
    cuts.sort_unstable();
    cuts
}

/// Returns a text that the patterns are likely to match: samples of them in noise.
pub fn text_for(random: &mut Random, hirs: &[Hir]) -> Vec<u8> {
    let mut text = random.noise(6);
    for _ in 0..1 + random.below(2) {
        let hir = &hirs[random.below(hirs.len())];
        sample(random, hir, &mut text);
        text.extend(random.noise(4));
    }
    text.truncate(40);
    text
}

/// Returns a pattern with a prefix that is rare in ordinary text, so that it has a window.
pub fn rare_pattern(random: &mut Random) -> String {
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

/// Returns a text of ordinary letters with prefixes, full matches and characters of several bytes in it.
pub fn strewn_text(random: &mut Random, hirs: &[Hir]) -> Vec<u8> {
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
