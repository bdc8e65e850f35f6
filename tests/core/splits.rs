//! Invariance under splitting over the whole language: for all rules and inputs, hits, decisions, redactions and
//! counters are the same for every way to cut the text.
//!
//! Rules, texts and tool calls are random. Each input is read as generated, byte by byte, and at random cuts. The test
//! asserts which parts of the language occur and hit, so that it cannot become vacuous. `TTSR_TEST_SCALE` (a
//! percentage) scales the number of packs; a failure prints its seed and the pack.

mod accepts;
mod beside;
mod commands;
mod language;
mod outcome;

use std::collections::BTreeMap;

use ttsr::{Channel, Pack, PartId};

use language::{FOLDS, REGIONS, Rules, Step, cut, reply};
use outcome::outcome;
use ttsr_testing::{Random, scale};

const PACKS: usize = 4_000;
const REPLIES: usize = 6;
const CUTS: usize = 4;

/// Counts the parts of the language in the text of a rule that hit.
fn count_features(rule: &str, seen: &mut BTreeMap<&'static str, usize>) {
    const KEYS: [&str; 28] = [
        "match.all",
        "match.sequence",
        "match.none",
        "match.first",
        "match.last",
        "match.line",
        "match.count",
        "match.per",
        "match.capture",
        "match.repetition",
        "match.leak",
        "match.limit",
        "match.script",
        "match.unknown-name",
        "{ lines",
        "{ chars",
        "{ message",
        "literal",
        "word =",
        "regex",
        "hold = true",
        "arg = ",
        "paths = ",
        "tools = ",
        "args = ",
        "$keys",
        "[[allow]]",
        "'''redact'''",
    ];
    for key in KEYS.iter().chain(&REGIONS).chain(&FOLDS) {
        if rule.contains(key) {
            *seen.entry(key).or_default() += 1;
        }
    }
    if rule.contains("(?!") || rule.contains("(?<=") || rule.contains(r"\1") {
        *seen.entry("look-around").or_default() += 1;
    }
}

/// Formats steps, with their bytes as text.
fn shown(steps: &[Step]) -> String {
    let shown = steps.iter().map(|step| match step {
        Step::Push(part, bytes) => format!("{}: \"{}\"", part.0, bytes.escape_ascii()),
        step => format!("{step:?}"),
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// Returns the steps that open a part, push the texts and close it.
fn part(channel: Channel, texts: &[&str]) -> Vec<Step> {
    let id = PartId(0);
    let pushes = texts
        .iter()
        .map(|text| Step::Push(id, text.as_bytes().to_vec()));
    let mut steps = vec![Step::Open(id, channel)];
    steps.extend((channel == Channel::ToolInput).then_some(Step::Tool(id, "write")));
    steps.extend(pushes);
    steps.push(Step::Close(id));
    steps
}

/// A minimized failure of this test.
#[test]
fn a_match_over_several_views_waits_for_the_file_whatever_the_cut() {
    let pack = Pack::from_toml(
        "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\non = ['tool-input']\npaths = ['*.rs']\n\
         match.sequence = [{ literal = 'a' }, { literal = 'foo', fold = 'invisible' }, { literal = 'b' }]\n",
    );
    let pack = pack.unwrap_or_else(|error| panic!("{error}"));
    let steps = part(
        Channel::ToolInput,
        &["{\"content\":\"a foo b\",\"path\":\"x.rs\"}"],
    );
    let whole = outcome(&pack, &steps);
    let places: Vec<_> = whole
        .hits
        .iter()
        .map(|reported| (reported.hit.end, reported.hit.decided))
        .collect();
    assert_eq!(
        places,
        [(19, 34)],
        "the file is known once its name is complete"
    );
    assert_eq!(outcome(&pack, &cut(&steps, || true)), whole);
}

/// A minimized failure of this test.
#[test]
fn stretches_to_redact_are_in_order_whatever_the_cut() {
    let pack = Pack::from_toml(
        "schema = 1\n[pack]\nname = 't'\ngrants = ['redact']\n[rule.r]\ndescription = 'd'\non = ['text']\n\
         action = 'redact'\nmatch.any = [{ regex = 'fo+ba' }, { literal = 'foo', fold = 'invisible' }]\n",
    );
    let pack = pack.unwrap_or_else(|error| panic!("{error}"));
    let steps = part(Channel::Text, &["a fooba"]);
    let whole = outcome(&pack, &steps);
    let places: Vec<_> = whole
        .redactions
        .iter()
        .map(|one| (one.start, one.end))
        .collect();
    assert_eq!(places, [(2, 5), (2, 7)]);
    assert_eq!(outcome(&pack, &cut(&steps, || true)), whole);
}

/// A minimized failure of this test.
#[test]
fn the_start_of_a_match_is_looked_for_in_text_that_hangs_together_whatever_the_cut() {
    let pack = Pack::from_toml(
        "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\non = ['text']\n\
         match.any = [{ regex = 'foo(?s:.)*bar' }]\n",
    );
    let pack = pack.unwrap_or_else(|error| panic!("{error}"));
    let long = format!("{}bar", "x".repeat(300));
    let steps = part(Channel::Text, &["foo ", &long]);
    let whole = outcome(&pack, &steps);
    let ends: Vec<_> = whole
        .hits
        .iter()
        .map(|reported| (reported.hit.end, reported.start))
        .collect();
    assert_eq!(ends, [(307, None)], "the start is too far back to be found");
    assert_eq!(outcome(&pack, &cut(&steps, || true)), whole);
    assert_eq!(
        outcome(&pack, &part(Channel::Text, &[&format!("foo {long}")])),
        whole
    );
}

#[test]
fn rules_of_every_key_hit_the_same_whatever_the_cut() {
    let packs = scale(PACKS);
    let (mut cases, mut hits, mut seen) = (0, 0, BTreeMap::new());
    for seed in 0..packs as u64 {
        let mut random = Random::new(seed);
        let rules = Rules::new(&mut random);
        let (pack, text) = (rules.pack(), rules.text());
        for _ in 0..REPLIES {
            let steps = reply(&mut random);
            let whole = outcome(&pack, &steps);
            let mut ways = vec![cut(&steps, || true)];
            for _ in 0..CUTS {
                let often = 2 + random.below(9);
                ways.push(cut(&steps, || random.one_in(often)));
            }
            cases += ways.len();
            for way in ways {
                let got = outcome(&pack, &way);
                assert!(
                    got == whole,
                    "seed {seed}\n{text}\n{}\n{got:?}\nnot as with\n{}\n{whole:?}",
                    shown(&way),
                    shown(&steps)
                );
            }
            hits += whole.hits.len();
            for reported in &whole.hits {
                count_features(&rules.rules[reported.hit.rule.index()], &mut seen);
            }
        }
    }
    let replies = packs * REPLIES;
    println!(
        "splits: {cases} ways to cut {replies} replies under {packs} packs, {hits} hits of rules with {seen:?}"
    );
    if packs >= 1000 {
        // Optional features. A fold of a rule whose patterns have folds of their own is not used, so a rule that names it may
        // hit without the feature.
        for (name, is_required) in [
            ("look-around", cfg!(feature = "lookaround")),
            ("nfkc", cfg!(feature = "unicode")),
            ("confusables", cfg!(feature = "unicode")),
        ] {
            assert!(seen.remove(name).is_some() || !is_required, "{name}");
        }
        assert_eq!(seen.len(), 44, "{seen:?}");
    }
}
