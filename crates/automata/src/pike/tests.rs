//! The Pike VM against regex-automata.

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::{Compiler, PikeMatch, PikeVm};
use crate::PatternLimits;
use crate::pattern;
use ttsr_testing::oracle::oracle;
use ttsr_testing::{Random, pattern_text, sample, scale};

fn compiled(pattern: &str, group: Option<u32>) -> PikeVm {
    let hir = pattern::parse(pattern, &PatternLimits::default()).expect(pattern);
    Compiler::default().compile(&hir, group)
}

fn meta(pattern: &str) -> Regex {
    let regex = Regex::builder()
        .syntax(syntax::Config::new().utf8(false))
        .configure(Regex::config().utf8_empty(false))
        .build(pattern);
    regex.expect(pattern)
}

fn want(regex: &Regex, group: usize, text: &[u8], from: usize) -> Vec<PikeMatch> {
    regex
        .captures_iter(Input::new(text).range(from..))
        .map(|captures| PikeMatch {
            range: captures.get_group(0).expect("it has matched").range(),
            group: captures.get_group(group).map(|span| span.range()),
        })
        .collect()
}

/// A pattern in both engines: a program for each of its groups, and the regex.
struct Engines {
    pattern: String,
    regex: Regex,
    vms: Vec<(usize, PikeVm)>,
}

impl Engines {
    fn new(pattern: &str) -> Engines {
        let regex = meta(pattern);
        let groups = 1..regex.group_info().all_group_len().max(2);
        let vm = |group: usize| (group, compiled(pattern, Some(group as u32)));
        Engines {
            pattern: pattern.to_owned(),
            vms: groups.map(vm).collect(),
            regex,
        }
    }

    /// Compares both engines on a text, from each offset in `from`. Returns the number of matches.
    fn check(&self, text: &[u8], from: &[usize]) -> usize {
        let mut found = 0;
        for (group, vm) in &self.vms {
            for &from in from {
                let want = want(&self.regex, *group, text, from);
                let got = vm.find_all(text, from);
                let (pattern, shown) = (&self.pattern, text.escape_ascii());
                assert_eq!(got, want, "{pattern}, group {group}, {shown} from {from}");
                found += got.len();
            }
        }
        found
    }
}

#[test]
fn matches_and_groups_are_those_of_regex() {
    for (pattern, text) in [
        ("a|ab", "abab"),
        ("(a)|(b)", "ab ba"),
        ("(?:(a)|b)+", "abba"),
        ("(a*?)(a*)b", "aab b"),
        (r"(\w+)=(\w*?);?", "key=value; k=v"),
        ("((a?)+b)", "aab"),
        ("((?:a?)*?b)", "aab"),
        // A repetition of what may be empty, and prefers to be.
        ("((?:|a)*)b", "aab b"),
        ("((?:|a)*)(a+)", "aaa"),
        ("x(?:|a)*(a?)", "xaa x"),
        (r"x(?:\b|y)+z", "xz xyz"),
        ("(a{2,3}?)(a{0,2})x", "aaaaax"),
        (r"\bfo+\b", "foo fooo food éfoo foo"),
        (r"\B.\B", "a\u{e9}bc"),
        ("a.*b|a", "a a a a b a a"),
        ("(?:ab?){2,}?c?", "ababaacab"),
        ("[^a]+", "é\u{1F600}a\u{4e2d}"),
        (r"(?-u:\xC3)\w", "é\u{e9}"),
        (r"(?s-u:.)(\w)", "é\u{e9}a"),
        (r"(?m)^\w+$", "one\ntwo three\nfour"),
        (r"(?mR)^\w+$", "one\r\ntwo\rthree"),
    ] {
        Engines::new(pattern).check(text.as_bytes(), &[0, 1, 2]);
    }
    let stray = Engines::new(r"\w\b|\B.");
    stray.check(b"a\xA9b\xFFc \xE2\x82 d", &[0, 1, 2, 3]);
}

#[test]
fn random_patterns_find_what_regex_finds() {
    let patterns = scale(20_000);
    let (mut searches, mut found) = (0, 0);
    for seed in 0..patterns as u64 {
        let mut random = Random::new(seed ^ 7 << 40);
        let mut text = pattern_text(&mut random);
        if random.one_in(2) {
            text = format!("({text}){}", pattern_text(&mut random));
        }
        let Ok(hir) = pattern::parse(&text, &PatternLimits::default()) else {
            continue;
        };
        let engines = Engines::new(&text);
        for _ in 0..4 {
            let mut haystack = random.noise(8);
            for _ in 0..random.below(3) {
                sample(&mut random, &hir, &mut haystack);
                haystack.extend(random.noise(3));
            }
            let from = random.below(haystack.len() + 1);
            searches += 1;
            found += engines.check(&haystack, &[0, from]);
        }
    }
    println!("pike: {searches} searches, {found} matches");
    assert!(found > searches / 2, "{found} in {searches}");
}

#[test]
fn the_start_is_the_leftmost_one_of_a_match_with_that_end() {
    let start = |pattern, window: &str, from, end| {
        compiled(pattern, None).leftmost_start(window.as_bytes(), from, end)
    };
    assert_eq!(start(r"\w+key", "my sub_key here", 0, 10), Some(3));
    assert_eq!(start(r"key\b", "my sub_key here", 0, 10), Some(7));
    assert_eq!(start(r"\bkey", "my sub_key here", 0, 10), None);
    assert_eq!(
        start(r"^b+", "abb", 1, 3),
        None,
        "the window does not begin a haystack"
    );
}

#[test]
fn random_patterns_begin_where_regex_says() {
    let patterns = scale(10_000);
    let mut known = 0;
    for seed in 0..patterns as u64 {
        let mut random = Random::new(seed ^ 8 << 40);
        let text = pattern_text(&mut random);
        let Ok(hir) = pattern::parse(&text, &PatternLimits::default()) else {
            continue;
        };
        let (vm, pike) = (oracle(&text), compiled(&text, None));
        let mut cache = vm.create_cache();
        let mut haystack = random.noise(4);
        sample(&mut random, &hir, &mut haystack);
        haystack.extend(random.noise(3));
        let from = random.below(haystack.len() + 1);
        for end in from..=haystack.len() {
            let want = (from..end).find(|&start| {
                let input = Input::new(&haystack).range(start..end);
                let mut slots = [None; 2];
                vm.search_slots(&mut cache, &input.anchored(Anchored::Yes), &mut slots);
                slots[1].is_some_and(|slot| slot.get() == end)
            });
            let got = pike.leftmost_start(&haystack, from, end);
            let shown = haystack.escape_ascii();
            assert_eq!(got, want, "{text} on {shown} from {from} to {end}");
            known += usize::from(got.is_some());
        }
    }
    println!("pike: {known} starts");
    assert!(known > patterns / 4, "{known}");
}

/// Every search fails at the end of the text, so starting again after each match would be quadratic.
#[test]
fn all_matches_come_from_one_pass() {
    let text = "a".repeat(1 << 20);
    let found = compiled("a.*b|a", None).find_all(text.as_bytes(), 0);
    assert_eq!(found.len(), text.len());
}

#[test]
fn a_large_class_that_is_repeated_often_is_one_instruction_a_copy() {
    let vm = compiled(r"\w{1,4000}", None);
    assert!(vm.program.len() < 8100, "{}", vm.program.len());
    assert_eq!(vm.sets.len(), 1);
    let text = "é".repeat(5000);
    let ends = vm.find_all(text.as_bytes(), 0);
    let ends: Vec<usize> = ends.iter().map(|found| found.range.end).collect();
    assert_eq!(ends, [8000, 10_000]);
}
