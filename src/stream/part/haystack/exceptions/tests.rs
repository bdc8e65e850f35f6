//! Exceptions of patterns, compared with a model that searches the whole text, under every split.

use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::{Input, MatchKind};

use crate::pack::Pack;
use crate::rule::{Action, Channel, Pattern, Rule};
use crate::verdict::PartId;
use ttsr_testing::{Random, scale};

const PART: PartId = PartId(3);

const PATTERNS: [&str; 14] = [
    "foo",
    "bar",
    r"\bfoo\b",
    r"o\b",
    r"(?m)^b",
    r"(?m)o$",
    "(?s)f.{0,6}b",
    "é",
    r"x\s*x",
    "b.r",
    "[a-z]{3}",
    r"x\z",
    r"\Bo",
    "fo(?-u:\\xA9)?",
];

fn text(random: &mut Random) -> String {
    const WORDS: [&str; 12] = [
        "foo", "bar", "fo", "ba", " ", "\n", "\r\n", "aaa", "é", "x", "foobar", "🎈",
    ];
    let words = 1 + random.below(14);
    (0..words).map(|_| random.pick(&WORDS)).collect()
}

/// Returns the earliest end of a match of the pattern.
fn first_end(pattern: &str, text: &str) -> Option<usize> {
    let vm = PikeVM::builder()
        .configure(PikeVM::config().match_kind(MatchKind::All))
        .syntax(regex_automata::util::syntax::Config::new().utf8(false))
        .build(pattern)
        .unwrap();
    let input = Input::new(text).earliest(true);
    let found = vm.find_iter(&mut vm.create_cache(), input).next();
    found.map(|found| found.end())
}

fn pack(pattern: Pattern, action: Action) -> Pack {
    let mut rule = Rule::new("t/r", vec![pattern]);
    rule.on = vec![Channel::Text];
    rule.action = action;
    Pack::builder().rule(rule).build().unwrap()
}

/// The hits as (end, decided), and the redactions as ranges.
type Found = (Vec<(u64, u64)>, Vec<(u64, u64)>);

fn read(pack: &Pack, text: &str, cuts: &[usize]) -> Found {
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    let mut hits = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        hits.extend_from_slice(&stream.push(PART, &text.as_bytes()[from..to]));
        from = to;
    }
    hits.extend_from_slice(&stream.finish());
    let hits = hits.iter().map(|hit| (hit.end, hit.decided)).collect();
    let redacted = stream.redactions(PART).iter().map(|it| (it.start, it.end));
    (hits, redacted.collect())
}

fn read_all_cuts(pack: &Pack, text: &str, random: &mut Random) -> Found {
    let whole = read(pack, text, &[]);
    let mut cuts: Vec<usize> = (0..4).map(|_| random.below(text.len() + 1)).collect();
    cuts.sort_unstable();
    let each: Vec<usize> = (1..text.len()).collect();
    for cuts in [each, cuts] {
        assert_eq!(read(pack, text, &cuts), whole, "{text:?} cut at {cuts:?}");
    }
    whole
}

#[test]
fn a_match_counts_unless_the_exception_has_ended_before_it() {
    let mut random = Random::new(1107);
    let [mut excluded, mut hit] = [0, 0];
    for _ in 0..scale(300) {
        let [written, unless] = [random.pick(&PATTERNS), random.pick(&PATTERNS)];
        let plain = Pattern::regex(written);
        let mut pattern = plain.clone();
        pattern.unless = Some(unless.to_owned());
        let [without, with] = [plain.clone(), pattern.clone()].map(|it| pack(it, Action::Warn));
        let [all, others] = [plain, pattern].map(|it| pack(it, Action::Redact));
        for _ in 0..20 {
            let text = text(&mut random);
            let exception = first_end(unless, &text).unwrap_or(usize::MAX);
            let counts = |end: u64| end <= exception as u64;

            let (mut expected, _) = read(&without, &text, &[]);
            let first = first_end(written, &text).map(|end| end as u64);
            assert_eq!(expected.first().map(|hit| hit.0), first);
            expected.retain(|hit| counts(hit.0));
            let (hits, _) = read_all_cuts(&with, &text, &mut random);
            assert_eq!(hits, expected, "{written:?} unless {unless:?} on {text:?}");
            excluded += usize::from(first.is_some() && hits.is_empty());
            hit += hits.len();

            let (_, mut expected) = read(&all, &text, &[]);
            expected.retain(|range| counts(range.1));
            let (_, redacted) = read_all_cuts(&others, &text, &mut random);
            assert_eq!(
                redacted, expected,
                "{written:?} unless {unless:?} on {text:?}"
            );
        }
    }
    assert!(
        hit > scale(1000) && excluded * 8 > hit,
        "{excluded} excluded, {hit} hit"
    );
}
