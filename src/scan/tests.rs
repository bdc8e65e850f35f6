//! Scans, compared with the regex engines on the whole text.

use super::*;
use crate::Action;
use crate::limits::{Limits, SCAN_STRETCH_BYTES};
use crate::rule::{Pattern, Rule};
use std::ops::Range;
use ttsr_testing::{Random, in_parts, pattern_text, sample, scale};

const TEXT: Target<'static> = Target {
    channel: Channel::Text,
    tool: None,
    path: None,
    outcome: ToolOutcome::Ok,
};

fn pack_of(rules: impl IntoIterator<Item = Rule>) -> Option<Pack> {
    let builder = rules
        .into_iter()
        .fold(Pack::builder(), |builder, rule| builder.rule(rule));
    builder.build().ok()
}

fn toml(rule: &str) -> Pack {
    let text = format!("schema = 1\npack.name = \"t\"\n[rule.r]\ndescription = \"d\"\n{rule}\n");
    match Pack::from_toml(&text) {
        Ok(pack) => pack,
        Err(error) => panic!("{error}"),
    }
}

/// The start and end of each match, with the name of its rule.
fn places(pack: &Pack, scanned: &Scanned) -> Vec<(String, u64, u64)> {
    let mut places: Vec<(String, u64, u64)> = scanned
        .matches
        .iter()
        .map(|found| (pack.rule(found.rule).id.clone(), found.start, found.end))
        .collect();
    places.sort();
    places
}

fn spans(pack: &Pack, target: &Target<'_>, text: &str) -> Vec<(u64, u64)> {
    let scanned = Scanner::new(pack.clone()).scan(target, text.as_bytes());
    assert_eq!((scanned.incomplete.len(), scanned.cut_matches), (0, 0));
    scanned
        .matches
        .iter()
        .map(|found| (found.start, found.end))
        .collect()
}

/// Random rules of one to three patterns each; those that do not load are left out.
fn random_rules(random: &mut Random) -> Vec<(Rule, Vec<regex::bytes::Regex>)> {
    let mut rules = Vec::new();
    for number in 0..1 + random.below(4) {
        let texts: Vec<String> = (0..1 + random.below(3))
            .map(|_| pattern_text(random))
            .collect();
        let regexes = texts.iter().map(|text| regex::bytes::Regex::new(text).ok());
        let Some(regexes) = regexes.collect::<Option<Vec<_>>>() else {
            continue;
        };
        let patterns = texts
            .iter()
            .map(|text| Pattern::regex(text.clone()))
            .collect();
        let mut rule = Rule::new(format!("t/r{number}"), patterns);
        rule.action = random.pick(&[Action::Observe, Action::Warn, Action::Redact, Action::Abort]);
        if pack_of([rule.clone()]).is_some() {
            rules.push((rule, regexes));
        }
    }
    rules
}

fn random_text(random: &mut Random, rules: &[(Rule, Vec<regex::bytes::Regex>)]) -> Vec<u8> {
    let mut text = random.noise(12);
    for _ in 0..random.below(8) {
        let (_, regexes) = &rules[random.below(rules.len())];
        let regex = &regexes[random.below(regexes.len())];
        let parser = regex_syntax::ParserBuilder::new().utf8(false).build();
        let mut parser = parser;
        let hir = parser.parse(regex.as_str()).unwrap();
        sample(random, &hir, &mut text);
        text.extend(random.noise(5));
    }
    text
}

#[test]
fn a_scan_reports_what_find_iter_gives_for_each_pattern() {
    let found = in_parts(scale(1_200), |sets| scan_random_rules(&sets));
    let cases: usize = found.iter().map(|(cases, _)| cases).sum();
    let matches: usize = found.iter().map(|(_, matches)| matches).sum();
    assert!(
        cases > scale(1_200) && matches > 5 * cases,
        "{cases} cases, {matches} matches"
    );
}

/// Scans with a random set of rules for each number, and returns the number of texts and of matches.
fn scan_random_rules(sets: &Range<usize>) -> (usize, usize) {
    let mut random = Random::new(16 + sets.start as u64);
    let (mut cases, mut matches) = (0, 0);
    for _ in sets.clone() {
        let rules = random_rules(&mut random);
        let Some(pack) =
            pack_of(rules.iter().map(|(rule, _)| rule.clone())).filter(|_| !rules.is_empty())
        else {
            continue;
        };
        let scanner = Scanner::new(pack.clone());
        for _ in 0..4 {
            let text = random_text(&mut random, &rules);
            let mut expected: Vec<(String, u64, u64)> = Vec::new();
            for (rule, regexes) in &rules {
                for found in regexes.iter().flat_map(|regex| regex.find_iter(&text)) {
                    expected.push((rule.id.clone(), found.start() as u64, found.end() as u64));
                }
            }
            expected.sort();
            expected.dedup();
            let scanned = scanner.scan(&TEXT, &text);
            let patterns: Vec<_> = rules.iter().map(|(_, regexes)| regexes).collect();
            assert_eq!(
                places(&pack, &scanned),
                expected,
                "{patterns:?} on {:?}",
                text.escape_ascii().to_string()
            );
            assert!(scanned.incomplete.is_empty());
            assert!(
                scanned
                    .matches
                    .iter()
                    .all(|found| found.start < found.end && found.end <= found.decided)
            );

            let mut stream = pack.stream();
            let (part, mut hits) = TEXT.open(&mut stream);
            hits.extend_from_slice(&stream.push(part, &text));
            hits.extend_from_slice(&stream.close(part));
            let mut every = scanner.every(&TEXT, &hits);
            random
                .pieces(&text, 7)
                .into_iter()
                .for_each(|piece| every.push(piece));
            assert_eq!(
                every.finish(&stream).matches,
                scanned.matches,
                "in pieces: {patterns:?}"
            );
            cases += 1;
            matches += expected.len();
        }
    }
    (cases, matches)
}

#[cfg(feature = "lookaround")]
#[test]
fn a_scan_reports_what_fancy_regex_finds_for_patterns_that_look_around() {
    let patterns = [
        r"a+(?!b)",
        r"(?<=x)\w+",
        r"(?<!a)b\w?",
        r"(\w)\1",
        r"\b\w+(?=\s{0,3}€)",
        r"(?<=é)[a-c]{1,3}(?!1)",
    ];
    let found = in_parts(scale(2_000), |rounds| {
        scan_with_look_around(&patterns, &rounds)
    });
    let matches: usize = found.iter().sum();
    assert!(matches > scale(2_000), "only {matches} matches");
}

/// Scans random texts with one of the patterns for each number, and returns the number of matches.
#[cfg(feature = "lookaround")]
fn scan_with_look_around(patterns: &[&str], rounds: &Range<usize>) -> usize {
    let mut random = Random::new(7 + rounds.start as u64);
    let mut matches = 0;
    for _ in rounds.clone() {
        let text = random.pick(patterns);
        let regex = fancy_regex::Regex::new(text).unwrap();
        let pack = pack_of([Rule::new("t/r", vec![Pattern::regex(text)])]).unwrap();
        let scanner = Scanner::new(pack);
        for round in 0..8 {
            let noise = match round {
                0 => random.noise(40),
                _ => (0..random.below(60))
                    .flat_map(|_| {
                        random
                            .pick(&["a", "b", "c", "x", "é", "€", " ", "1"])
                            .bytes()
                    })
                    .collect(),
            };
            let Ok(valid) = std::str::from_utf8(&noise) else {
                let scanned = scanner.scan(&TEXT, &noise);
                assert!(scanned.matches.iter().all(|found| {
                    std::str::from_utf8(&noise[found.start as usize..found.end as usize]).is_ok()
                }));
                continue;
            };
            let expected: Vec<(u64, u64)> = regex
                .find_iter(valid)
                .map(|found| found.unwrap())
                .map(|found| (found.start() as u64, found.end() as u64))
                .collect();
            let scanned = scanner.scan(&TEXT, valid.as_bytes());
            let found: Vec<_> = scanned
                .matches
                .iter()
                .map(|found| (found.start, found.end))
                .collect();
            assert_eq!(found, expected, "{text} on {valid:?}");
            matches += expected.len();
        }
    }
    matches
}

#[test]
fn a_hit_of_another_pack_is_left_out() {
    let one = toml("match.any = [{ literal = 'x' }]");
    let rules = ["t/a", "t/b"].map(|id| Rule::new(id, vec![Pattern::literal("x")]));
    let two = pack_of(rules).unwrap();
    let mut stream = two.stream();
    let (part, mut hits) = TEXT.open(&mut stream);
    hits.extend_from_slice(&stream.push(part, b"x"));
    assert_eq!(hits.len(), 2);
    let mut every = Scanner::new(one).every(&TEXT, &hits);
    every.push(b"x");
    let found = every.finish(&stream).matches;
    assert_eq!(found.iter().filter(|it| it.rule.index() == 0).count(), 1);
}

#[cfg(feature = "lookaround")]
#[test]
fn bytes_of_no_character_do_not_move_a_match_that_looks_around() {
    let pack = pack_of([Rule::new("t/r", vec![Pattern::regex(r"ab(?!c)")])]).unwrap();
    let scanned = Scanner::new(pack).scan(&TEXT, b"\xFF\xFEab \xE2\x82 abc \xFFab");
    let found: Vec<_> = scanned
        .matches
        .iter()
        .map(|found| (found.start, found.end))
        .collect();
    assert_eq!(found, [(2, 4), (13, 15)]);
}

#[test]
fn conditions_say_which_matches_are_reported() {
    let text = "key one\nkey two # ok\nkey three\nend key four";
    for (rule, expected) in [
        (
            "match.any = [{ word = 'key' }]",
            vec![(0, 3), (8, 11), (21, 24), (35, 38)],
        ),
        (
            "match.any = [{ word = 'key' }]\nmatch.none = [{ literal = '# ok' }]",
            vec![(0, 3), (21, 24), (35, 38)],
        ),
        (
            "match.any = [{ regex = 'key \\w+' }]\nmatch.line = true",
            vec![(0, 7), (21, 30)],
        ),
        (
            "match.any = [{ word = 'key' }]\nmatch.count = 3",
            vec![(21, 24), (35, 38)],
        ),
        (
            "match.any = [{ word = 'key' }]\nmatch.first = 12",
            vec![(0, 3), (8, 11)],
        ),
        (
            "match.any = [{ word = 'key' }]\nmatch.last = 10",
            vec![(35, 38)],
        ),
        // Each match that completes the condition: `end` is present from the third line on.
        (
            "match.all = [{ word = 'end' }, { word = 'key' }]\nmatch.within = { lines = 1 }",
            vec![(35, 38)],
        ),
        (
            "match.sequence = [{ word = 'two' }, { word = 'key' }]\nmatch.within = { lines = 3 }",
            vec![(21, 24), (35, 38)],
        ),
        ("match.limit = { lines = 2 }", vec![(21, 22)]),
    ] {
        let pack = toml(&format!("{rule}\nexamples.match = []"));
        assert_eq!(spans(&pack, &TEXT, text), expected, "{rule}");
    }
}

#[test]
fn a_match_that_an_allow_excuses_is_left_out_and_others_are_not() {
    let pack = toml(
        "match.any = [{ regex = 'key-\\w+' }]\nexamples.match = []\n[[allow]]\nrules = [\"t/r\"]\ntext = [\"key-test*\"]\nreason = \"a test\"",
    );
    assert_eq!(
        spans(&pack, &TEXT, "key-a key-test1 key-b key-test2"),
        [(0, 5), (16, 21)]
    );
}

#[test]
fn the_file_of_a_target_is_what_paths_look_at() {
    let pack = toml("paths = [\"src/*.rs\"]\nmatch.any = [{ word = 'key' }]\nexamples.match = []");
    let inside = Some(Path::new("src/a.rs"));
    let outside = Some(Path::new("src/a.md"));
    let input = r#"{"path": "src/b.rs", "content": "key key"}"#;
    for (channel, path, text, expected) in [
        (Channel::Text, inside, "key key", 2),
        (Channel::Text, outside, "key key", 0),
        (Channel::Text, None, "key key", 2),
        (Channel::ToolInput, None, input, 2),
        (Channel::ToolInput, outside, input, 0),
        (Channel::ToolInput, inside, "key key", 2),
        (Channel::ToolInput, None, "key key", 0),
    ] {
        let target = Target {
            channel,
            path,
            ..TEXT
        };
        assert_eq!(
            spans(&pack, &target, text).len(),
            expected,
            "{target:?} {text}"
        );
    }
}

#[test]
fn all_matches_that_wait_for_the_name_of_a_file_are_reported() {
    let pack = toml("paths = [\"*.rs\"]\nmatch.any = [{ word = 'key' }]\nexamples.match = []");
    let target = Target {
        channel: Channel::ToolInput,
        ..TEXT
    };
    let input = format!(
        r#"{{"content": "{}", "path": "a.rs"}}"#,
        "key ".repeat(1000)
    );
    assert_eq!(spans(&pack, &target, &input).len(), 1000);
}

#[test]
fn a_match_in_an_argument_stands_where_its_bytes_do() {
    let pack =
        toml("args = [\"command\"]\nmatch.any = [{ literal = 'rm -rf' }]\nexamples.match = []");
    let target = Target {
        channel: Channel::ToolInput,
        tool: Some("bash"),
        ..TEXT
    };
    let input = r#"{"command": "\u0072m -rf a; rm -rf b", "note": "rm -rf"}"#;
    let scanned = Scanner::new(pack).scan(&target, input.as_bytes());
    let found: Vec<_> = scanned
        .matches
        .iter()
        .map(|found| {
            (
                &input[found.start as usize..found.end as usize],
                found.arg.as_deref(),
                &found.excerpt()[found.matched()],
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (r"\u0072m -rf", Some("command"), "rm -rf"),
            ("rm -rf", Some("command"), "rm -rf")
        ]
    );
}

#[test]
fn a_match_longer_than_a_stream_keeps_is_reported_whole() {
    let pack = toml("match.any = [{ regex = '(?s)BEGIN.*?END' }]\nexamples.match = []");
    let text = format!("BEGIN{}END BEGIN END", "x".repeat(200_000));
    assert_eq!(
        spans(&pack, &TEXT, &text),
        [(0, 200_008), (200_009, 200_018)]
    );
}

#[test]
fn the_report_of_a_rule_does_not_depend_on_other_rules() {
    let long = Rule::new("t/long", vec![Pattern::regex(r"(?s)a.*")]);
    let short = Rule::new("t/short", vec![Pattern::regex(r"b+")]);
    let text = b"a b bb bbb";
    let together = Scanner::new(pack_of([long, short.clone()]).unwrap()).scan(&TEXT, text);
    let alone = Scanner::new(pack_of([short]).unwrap()).scan(&TEXT, text);
    let of_short: Vec<ScanMatch> = together
        .matches
        .into_iter()
        .filter(|found| found.rule != RuleId(0))
        .map(|found| ScanMatch {
            rule: RuleId(0),
            ..found
        })
        .collect();
    assert_eq!(of_short.len(), 3);
    assert_eq!(of_short, alone.matches);
}

#[cfg(feature = "lookaround")]
#[test]
fn a_search_that_is_given_up_is_told_and_the_first_match_reported() {
    let pack = pack_of([Rule::new("t/r", vec![Pattern::regex(r"(?:a|aa)+b(?!c)")])]).unwrap();
    let text = format!("ab {}", "a".repeat(60));
    let scanned = Scanner::new(pack.clone()).scan(&TEXT, text.as_bytes());
    assert_eq!(places(&pack, &scanned), [("t/r".to_owned(), 0, 2)]);
    assert_eq!(scanned.incomplete, [RuleId(0)]);
}

#[test]
fn a_match_longer_than_a_scan_keeps_is_counted() {
    let pack = toml("match.any = [{ regex = '(?s)BEGIN.*END' }]\nexamples.match = []");
    let text = format!("BEGIN END{}END", "x".repeat(SCAN_STRETCH_BYTES));
    let scanned = Scanner::new(pack).scan(&TEXT, text.as_bytes());
    assert_eq!(scanned.matches.len(), 1, "the part before the cut");
    assert!(scanned.cut_matches > 0);
}

#[test]
fn the_matches_that_each_rule_cuts_are_added_up() {
    let rules = [("t/a", "(?s)a.*"), ("t/b", "(?s)b.*")];
    let rules = rules.map(|(id, regex)| Rule::new(id, vec![Pattern::regex(regex)]));
    let pack = pack_of(rules).unwrap();
    let text = format!("ab{}", "x".repeat(8_000));
    let mut stream = pack.stream();
    let hits = stream.push(PART, text.as_bytes()).to_vec();
    let of_rule = |hit: &Hit| {
        let limits = Limits {
            stretch_bytes: 4_096,
            ..Limits::default()
        };
        let every = pack.every_match_within(hit.rule, Channel::Text, limits);
        let mut reader = every.expect("a small pattern").stream();
        TEXT.open(&mut reader);
        (hit.rule, reader)
    };
    let mut every = EveryMatch {
        readers: hits.iter().map(of_rule).collect(),
        hits,
        found: Vec::new(),
    };
    every.push(text.as_bytes());
    let alone: Vec<u64> = every
        .readers
        .iter()
        .map(|(_, reader)| reader.counters().cut_matches)
        .collect();
    assert!(alone.len() == 2 && !alone.contains(&0), "{alone:?}");
    let scanned = every.finish(&stream);
    assert!(scanned.cut_matches >= alone.iter().sum(), "{alone:?}");
}

#[test]
fn a_hit_of_a_detector_is_a_match_and_the_scan_is_complete() {
    let scanner = Scanner::new(toml("match.leak = true"));
    let scanned = scanner.scan(&TEXT, b"a <|im_start|>user b");
    assert_eq!(scanned.matches.len(), 1);
    assert!(scanned.incomplete.is_empty());
}

#[test]
fn the_outcome_of_a_target_is_what_rules_ask_for() {
    let pack = toml("on = ['tool-output']\noutcome = 'error'\nmatch.any = [{ literal = 'x' }]");
    for (outcome, matches) in [(ToolOutcome::Ok, 0), (ToolOutcome::Error, 1)] {
        let target = Target {
            outcome,
            ..Target::new(Channel::ToolOutput)
        };
        assert_eq!(spans(&pack, &target, "x").len(), matches, "{outcome:?}");
    }
}

#[test]
fn one_call_scans_a_text_and_a_hit_is_a_match() {
    let pack = toml("match.any = [{ literal = 'x' }]");
    let found = scan(&pack, Channel::Text, None, None, b"a x, x");
    let places: Vec<_> = found.iter().map(|found| (found.start, found.end)).collect();
    assert_eq!(places, [(2, 3), (5, 6)]);
    let mut stream = pack.stream();
    let hits = stream.push(PART, b"a x, x").to_vec();
    assert_eq!(
        ScanMatch::from_hit(&stream, &hits[0]).as_ref(),
        Some(&found[0])
    );
}

#[test]
fn a_match_in_a_log_holds_no_text() {
    let pack = toml("match.any = [{ literal = 'opensesame' }]");
    let found = scan(&pack, Channel::Text, None, None, b"say opensesame");
    assert_eq!(
        format!("{:?}", found[0]),
        "ScanMatch { rule: RuleId(0), start: 4, end: 14, .. }"
    );
}

#[test]
fn a_rule_that_cannot_be_searched_again_is_told_and_its_first_match_reported() {
    let scanner = Scanner::new(toml("match.any = [{ literal = 'x' }]"));
    // Stands for a pattern that fits the limits of a pack and not those of a scan.
    scanner.every[0][Channel::Text as usize].set(None).unwrap();
    let scanned = scanner.scan(&TEXT, b"a x, x");
    assert_eq!(places(scanner.pack(), &scanned), [("t/r".to_owned(), 2, 3)]);
    assert_eq!(scanned.incomplete, [RuleId(0)]);
}

#[test]
fn a_rule_that_was_searched_in_vain_is_complete_and_its_hit_reported() {
    let scanner = Scanner::new(toml("match.any = [{ literal = 'x' }]"));
    let mut stream = scanner.pack().stream();
    let (part, _) = TEXT.open(&mut stream);
    let hits = stream.push(part, b"a x").to_vec();
    let mut every = scanner.every(&TEXT, &hits);
    // The text has changed between the passes.
    every.push(b"a y");
    let scanned = every.finish(&stream);
    assert_eq!(places(scanner.pack(), &scanned), [("t/r".to_owned(), 2, 3)]);
    assert!(scanned.incomplete.is_empty(), "the rule was searched");
}

#[test]
fn equal_matches_of_two_patterns_are_one() {
    let pack = toml(
        "match.any = [{ literal = 'xx' }, { regex = 'x{2}', region = 'prose' }]\nexamples.match = ['xx']",
    );
    assert_eq!(spans(&pack, &TEXT, "a xx b"), [(2, 4)]);
}

#[test]
fn a_hit_of_another_pack_is_not_searched_and_said_to_be_incomplete() {
    let rule = |id: &str, word: &str| Rule::new(id, vec![Pattern::word(word)]);
    let (one, two) = (rule("t/one", "one"), rule("t/two", "two"));
    let scanner = Scanner::new(Pack::builder().rule(one.clone()).build().unwrap());
    let other = Pack::builder().rule(one).rule(two).build().unwrap();
    let target = Target::new(Channel::Text);
    let mut stream = other.stream();
    let (part, mut hits) = target.open(&mut stream);
    hits.extend_from_slice(&stream.push(part, b"two "));
    let rule = hits[0].rule;
    let mut every = scanner.every(&target, &hits);
    every.push(b"two ");
    let scanned = every.finish(&stream);
    assert_eq!(scanned.incomplete, [rule]);
    assert_eq!(scanned.matches.len(), 1);
}
