//! Patterns with look-around, compared with `fancy-regex` on the whole haystack, under every split.

use fancy_regex::{Regex, RegexInput};

use crate::limits::Limits;
use crate::pack::Pack;
use crate::rule::{Channel, Pattern, Rule, Severity};
use crate::stream::Counters;
use crate::verdict::PartId;
use std::ops::Range;
use ttsr_automata::PatternId;
use ttsr_testing::{Random, in_parts, scale, skip};

/// The hits of a part as (rule, end, decided, excerpt, match), and its counters.
type Found = (Vec<(usize, u64, u64, String, String)>, Counters);

fn rule(id: &str, patterns: &[&str], severity: Severity) -> Rule {
    let pattern = |text: &&str| Pattern::regex((*text).to_owned());
    let mut rule = Rule::new(format!("t/{id}"), patterns.iter().map(pattern).collect());
    rule.severity = severity;
    rule.on = vec![Channel::Text, Channel::ToolInput];
    rule
}

fn pack(rules: Vec<Rule>, limits: &Limits) -> Pack {
    let builder = Pack::builder().limits(limits.clone());
    rules
        .into_iter()
        .fold(builder, |builder, rule| builder.rule(rule))
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

fn one(pattern: &str) -> Pack {
    pack(
        vec![rule("r", &[pattern], Severity::Error)],
        &Limits::default(),
    )
}

/// Reads the text cut at `cuts` (offsets in rising order).
fn read(pack: &Pack, channel: Channel, text: &[u8], cuts: &[usize]) -> Found {
    let mut stream = pack.stream();
    stream.open(PartId(0), channel);
    let mut hits = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        hits.extend_from_slice(&stream.push(PartId(0), &text[from..to]));
        from = to;
    }
    hits.extend_from_slice(&stream.close(PartId(0)));
    let told = hits.iter().map(|hit| {
        let (excerpt, matched) = (stream.excerpt(hit), stream.matched(hit));
        let text = (excerpt.to_owned(), matched.to_owned());
        (hit.rule.index(), hit.end, hit.decided, text.0, text.1)
    });
    (told.collect(), stream.counters())
}

/// Reads the text whole, byte by byte, and at every two-way cut, and returns the hits.
fn read_all_cuts(pack: &Pack, channel: Channel, text: &[u8], name: &str) -> Found {
    let whole = read(pack, channel, text, &[]);
    let bytes: Vec<usize> = (1..text.len()).collect();
    let mut splits: Vec<Vec<usize>> = (0..=text.len()).map(|cut| vec![cut]).collect();
    splits.push(bytes);
    for cuts in splits {
        assert_eq!(
            read(pack, channel, text, &cuts),
            whole,
            "{name} on {}, cut at {cuts:?}",
            text.escape_ascii()
        );
    }
    whole
}

/// Finds the earliest end of a match, from any start, with `fancy-regex` on the whole haystack.
struct Oracle {
    pattern: String,
    /// Indexed by the number of characters after the end.
    exact: Vec<Regex>,
}

impl Oracle {
    fn new(pattern: &str, longest: usize) -> Oracle {
        let exact = |after| Regex::new(&format!(r"(?:{pattern})(?=(?s:.){{{after}}}\z)"));
        Oracle {
            pattern: pattern.to_owned(),
            exact: (0..=longest).map(|after| exact(after).unwrap()).collect(),
        }
    }

    fn first_end(&self, text: &str) -> Option<usize> {
        let ends = text.char_indices().map(|(at, char)| at + char.len_utf8());
        ends.into_iter().find(|&end| self.ends_at(text, end))
    }

    fn ends_at(&self, text: &str, end: usize) -> bool {
        let regex = &self.exact[text[end..].chars().count()];
        let mut starts = text.char_indices().map(|(start, _)| start);
        starts.any(|start| {
            let input = RegexInput::new(text).from_pos(start).anchored(true);
            let found = regex.find_input(input).expect(&self.pattern);
            start < end && found.is_some_and(|found| found.range() == (start..end))
        })
    }
}

#[test]
fn the_first_end_is_that_of_fancy_regex_and_certain_as_early_as_can_be() {
    // Pattern, text, and the (end, decided) of the hit.
    type Case = (&'static str, &'static str, Option<(u64, u64)>);
    let cases: &[Case] = &[
        ("foo(?!bar)", "foobar foo bar", Some((10, 13))),
        ("foo(?!bar)", "foobar", None),
        ("foo(?!bar)", "x foo", Some((5, 5))),
        ("foo(?!bar)", "x fooba", Some((5, 7))),
        ("foo(?!bar)", "fooé€😀", Some((3, 12))),
        (
            r"(?<!\w)rm(?= -rf)",
            "arm -rf rm -r rm -rf /",
            Some((16, 20)),
        ),
        (r"(?<!\w)rm(?= -rf)", "rm -rf", Some((2, 6))),
        (r"(a|b)x\1", "axbxb", Some((5, 5))),
        (r"(a|b)x\1", "axbbxa", None),
        (r"(?<=key=)\w{4}", "kee=1234 key=12345", Some((17, 17))),
        (r"(?<=key=)\w{4}", "key=éж€x key=éжüx", Some((24, 24))),
        (r#"(['"])secret\1"#, r#"'secret" "secret'"#, None),
        (r#"(['"])secret\1"#, r#"'secret" "secret""#, Some((17, 17))),
        (r"\bfoo\b(?!\()", "foo( xfoo foo", Some((13, 13))),
        (r"\bfoo\b(?!\()", "foo() foo;", Some((9, 10))),
        ("(?<!x)a", "a", Some((1, 1))),
        ("(?<=^)a", "a", Some((1, 1))),
        ("(?<=^)a", "ba", None),
        ("a(?=$)", "aa", Some((2, 2))),
        ("a(?!$)", "aa", Some((1, 2))),
        ("a(?=b$)", "abbab", Some((4, 5))),
        (r"a(?=\z|b)", "caab", Some((3, 4))),
        ("(?<=a|bc)d", "cd bcd", Some((6, 6))),
        (r"(\w+) \1\b", "the them the the", Some((16, 16))),
        ("(?i)(k)-\\1", "k-\u{212A} K-k", Some((9, 9))),
        ("(?!AKIA)[A-Z]{5}", "AKIAX", None),
        ("(?!AKIA)[A-Z]{5}", "AKIAXY", Some((6, 6))),
        ("a++b(?=c)", "aab aabc", Some((7, 8))),
        ("x(?>ab|a)c?", "xab", Some((3, 3))),
        ("(?>a+)", "baaa!", Some((4, 5))),
        ("(?m)^a(?=b)", "ba\nab", Some((4, 5))),
        ("(?s)a.(?<=\n)", "ax a\n", Some((5, 5))),
        ("(?x) foo (?!b) # no b", "foob foo", Some((8, 8))),
        (r"(?<q>['`])y\k<q>", "'y` `y`", Some((7, 7))),
    ];
    for &(pattern, text, want) in cases {
        let found = read_all_cuts(&one(pattern), Channel::Text, text.as_bytes(), pattern).0;
        let got = found.first().map(|hit| (hit.1, hit.2));
        assert_eq!(got, want, "{pattern} on {text}");
        if !pattern.contains('#') {
            let end = Oracle::new(pattern, text.len()).first_end(text);
            assert_eq!(got.map(|hit| hit.0 as usize), end, "{pattern} on {text}");
        }
    }
}

#[test]
fn excerpt_and_match_tell_what_matched() {
    let text = "a b c d (rm -rf now, and more than that; and more and more and more words";
    let found = read(
        &one(r"(?<!\w)rm(?= -rf)"),
        Channel::Text,
        text.as_bytes(),
        &[],
    )
    .0;
    assert_eq!(
        (found[0].3.as_str(), found[0].4.as_str()),
        ("a b c d (rm -rf", "rm")
    );
}

#[test]
fn the_match_begins_where_the_pattern_does_and_not_where_its_hull_could() {
    for (pattern, text, matched) in [
        ("(?<!x)a+b(?!c)", "xaab ", "ab"),
        ("(?<!x)a+b(?!c)", "x aab ", "aab"),
    ] {
        let (hits, _) = read_all_cuts(&one(pattern), Channel::Text, text.as_bytes(), pattern);
        assert_eq!(hits[0].4, matched, "{pattern} in {text:?}");
    }
}

#[test]
fn of_what_stands_behind_a_match_forty_bytes_are_shown() {
    let text = format!("so foo{}x", "-".repeat(60));
    let (hits, _) = read_all_cuts(&one("foo(?=-{60}x)"), Channel::Text, text.as_bytes(), "foo");
    assert_eq!(
        (hits[0].3.as_str(), hits[0].4.as_str()),
        (&text[..46], "foo")
    );
}

#[test]
fn a_match_at_the_end_of_the_text_is_reported_with_and_without_look_around() {
    let rules = vec![
        rule("a", &["foo(?=bar)"], Severity::Error),
        rule("b", &[r"foo\b"], Severity::Error),
        rule("c", &["o(?! )"], Severity::Error),
    ];
    let pack = pack(rules, &Limits::default());
    for (text, expected) in [
        (&b"a foo\xE2\x82"[..], &[(2, 4, 5), (1, 5, 7)][..]),
        (b"a foobar", &[(2, 4, 5), (0, 5, 8)]),
    ] {
        let (mut hits, _) = read_all_cuts(&pack, Channel::Text, text, "both");
        hits.sort_by_key(|hit| hit.2);
        let places: Vec<_> = hits.iter().map(|hit| (hit.0, hit.1, hit.2)).collect();
        assert_eq!(places, expected, "{}", text.escape_ascii());
    }
}

#[test]
fn two_patterns_may_end_at_the_same_place() {
    let rules = vec![
        rule("a", &["foo(?= x)"], Severity::Error),
        rule("b", &["o(?= x)"], Severity::Error),
    ];
    let pack = pack(rules, &Limits::default());
    let (mut hits, _) = read_all_cuts(&pack, Channel::Text, b"a foo xo", "two");
    hits.sort_by_key(|hit| hit.0);
    let places: Vec<_> = hits.iter().map(|hit| (hit.0, hit.1, hit.2)).collect();
    assert_eq!(places, [(0, 5, 7), (1, 5, 7)]);
}

#[test]
fn an_end_that_is_certain_twice_is_one() {
    for (pattern, confirm_pending, unconfirmed) in
        [(r"(?:a|a\b)(?=ccc)", 0, 2), (r"(?<!x)(?:a|a\b)", 8, 0)]
    {
        let limits = Limits {
            confirm_pending,
            ..Limits::default()
        };
        let pack = pack(vec![rule("r", &[pattern], Severity::Info)], &limits);
        let (_, counters) = read_all_cuts(&pack, Channel::Text, b"a ab ", pattern);
        assert_eq!(counters.unconfirmed, unconfirmed, "{pattern}");
    }
}

#[test]
fn a_candidate_is_remembered_while_it_may_be_certain_again_and_no_longer() {
    let pack = one("(?<!no )foo(?!bar)");
    let rules = &pack.program().channel(Channel::Text).unwrap().raw;
    let mut queue = super::CandidateQueue::new(&rules.confirms).unwrap();
    for (at, remembered) in [(1, 1), (2, 2), (5, 3), (6, 3), (10, 2), (11, 2)] {
        queue.add_recent(&super::Candidate {
            pattern: PatternId(0),
            at,
            end: at,
            seen: at,
            due: 0,
        });
        assert_eq!(queue.recent.len(), remembered, "at {at}");
    }
}

#[test]
fn ends_are_looked_at_as_they_became_certain_whichever_automaton_came_first() {
    let pack = one("(?<!no )foo(?!bar)");
    let rules = &pack.program().channel(Channel::Text).unwrap().raw;
    let mut queue = super::CandidateQueue::new(&rules.confirms).unwrap();
    for (pattern, at, seen) in [
        (0, 5, 5),
        (0, 9, 10),
        (1, 3, 3),
        (1, 5, 6),
        (1, 5, 7),
        (0, 9, 11),
    ] {
        queue.report(PatternId(pattern), at, at, seen);
    }
    let told = queue.reported.iter();
    let told: Vec<_> = told.map(|it| (it.pattern.0, it.at, it.seen)).collect();
    assert_eq!(told, [(1, 3, 3), (0, 5, 5), (1, 5, 6), (0, 9, 10)]);
}

#[test]
fn bytes_that_no_check_needs_any_more_go_and_nothing_else() {
    let pack = one("(?<!no )foo(?!bar)");
    let rules = &pack.program().channel(Channel::Text).unwrap().raw;
    let mut queue = super::CandidateQueue::new(&rules.confirms).unwrap();
    let keep = queue.bytes_before.max(super::WINDOW) + super::BYTES_AFTER;
    let text: Vec<u8> = (0..8 * keep).map(|at| (at % 251) as u8).collect();
    for piece in text.chunks(100) {
        queue.append(piece);
        assert!(queue.bytes.len() <= 2 * keep, "what is kept is bounded");
        let total = queue.total() as usize;
        assert_eq!(queue.bytes, text[queue.dropped as usize..total]);
        assert!(queue.bytes.len() >= keep.min(total));
    }
    assert_eq!(queue.total(), text.len() as u64);
    // Patterns far after these bytes are confirmed as before.
    for (end, hits) in [("no foo ", 0), ("so foo ---", 1)] {
        let long = format!("{}{end}", "words and ".repeat(4000));
        let end = 40_006;
        for size in [long.len(), 1000, 7] {
            let cuts: Vec<usize> = (1..long.len()).filter(|at| at % size == 0).collect();
            let (found, _) = read(&pack, Channel::Text, long.as_bytes(), &cuts);
            let places: Vec<_> = found.iter().map(|hit| (hit.1, hit.2)).collect();
            assert_eq!(places, vec![(end, end + 3); hits], "pieces of {size}");
        }
    }
}

#[test]
fn decoded_arguments_are_haystacks_of_their_own() {
    let cases = [
        // An escape is text like any other, and offsets count delivered bytes.
        (r#"{"a":"foo\u0062ar foo\n"}"#, Some((21, 24))),
        (r#"{"a":"fo\u006f ba"}"#, Some((14, 17))),
        // Look-ahead does not cross the end of a value.
        (r#"{"a":"foo","b":"bar"}"#, Some((9, 10))),
        (r#"{"a":"foobar","b":"fo","c":"o"}"#, None),
        (r#"{"a":"foo\ud83d\ude00x","b":""}"#, Some((9, 23))),
        (r#"foobar foo 1"#, Some((10, 12))),
    ];
    for (text, want) in cases {
        let pack = one("foo(?!bar|..z)");
        let found = read_all_cuts(&pack, Channel::ToolInput, text.as_bytes(), "JSON").0;
        assert_eq!(found.first().map(|hit| (hit.1, hit.2)), want, "{text}");
    }
    for (pattern, text, want) in [
        ("(?<!x)a", r#"{"b":"x","c":"a"}"#, Some((15, 15))),
        ("(?<=x)a", r#"{"b":"x","c":"a"}"#, None),
        ("b(?! )", r#"{"d":"a","c":"b"}"#, Some((15, 16))),
        ("b(?! )", r#"{"b":"a","c":"b"}"#, Some((3, 4))),
    ] {
        let found = read_all_cuts(&one(pattern), Channel::ToolInput, text.as_bytes(), pattern).0;
        assert_eq!(found.first().map(|hit| (hit.1, hit.2)), want, "{pattern}");
    }
}

#[test]
fn bytes_of_no_character_stand_beside_a_match_and_count_one_each() {
    type Case = (&'static str, &'static [u8], Option<(u64, u64)>);
    let cases: &[Case] = &[
        ("a(?!.b)", b"a\xFFb a\xFFc", Some((5, 7))),
        ("a(?!b)", b"a\xE2\x82", Some((1, 3))),
        ("a(?!b)", b"a\xE2\x82x", Some((1, 4))),
        (r"foo\b(?!x)", b"a foo\xE2\x82", Some((5, 7))),
        ("a(?=..x)", b"a\xE2\x82x", Some((1, 4))),
        ("(?<=.)a", b"\xFFa", Some((2, 2))),
        ("(?<!.)a", b"\xFFa", None),
        ("(?<=x)a.c", b"xa\xFFc xabc", Some((9, 9))),
        (r"(a)\xFF?\1", b"a\xFFa aa", Some((6, 6))),
    ];
    for &(pattern, text, want) in cases {
        let found = read_all_cuts(&one(pattern), Channel::Text, text, pattern).0;
        let got = found.first().map(|hit| (hit.1, hit.2));
        assert_eq!(got, want, "{pattern} on {}", text.escape_ascii());
    }
}

#[test]
fn among_patterns_of_a_rule_the_earliest_certainty_counts_whatever_the_delta() {
    let text = b"xab xcde \xE2\x82\xACy";
    for patterns in [
        &["a(?=b xcd)", "cd"][..],
        &["cd", "b(?= x)"],
        &["e(?= )", "(?-u:\\x82)", "a(?=b)", "b"],
        &["e", "(?-u:\\xE2)", "d(?=e)"],
    ] {
        let pack = pack(
            vec![rule("r", patterns, Severity::Error)],
            &Limits::default(),
        );
        let (hits, _) = read_all_cuts(&pack, Channel::Text, text, &format!("{patterns:?}"));
        let alone = patterns.iter().filter_map(|pattern| {
            let hit = read(&one(pattern), Channel::Text, text, &[]).0;
            hit.first().map(|hit| (hit.2, hit.1))
        });
        assert_eq!(Some((hits[0].2, hits[0].1)), alone.min(), "{patterns:?}");
    }
}

#[test]
fn a_spent_budget_is_a_hit_of_a_critical_rule_and_counted_for_others() {
    let text = format!("{}!", "a".repeat(40));
    let limits = Limits {
        confirm_steps: 1000,
        ..Limits::default()
    };
    for (severity, hits, unconfirmed) in [(Severity::Critical, 1, 0), (Severity::Error, 0, 1)] {
        let pack = pack(
            vec![rule("r", &[r"^(?:a|aa)+(a)\1!(?<!a!)"], severity)],
            &limits,
        );
        let found = read_all_cuts(&pack, Channel::Text, text.as_bytes(), "(a+)+");
        assert_eq!(
            (found.0.len(), found.1.unconfirmed),
            (hits, unconfirmed),
            "{severity:?}"
        );
    }
    let pack = pack(
        vec![rule("r", &[r"(?:a|aa)+(a)\1(?<!a)"], Severity::Error)],
        &limits,
    );
    let text = "a".repeat(5000);
    let found = read(&pack, Channel::Text, text.as_bytes(), &[]);
    assert!(found.0.is_empty() && found.1.unconfirmed > 4000);
}

#[test]
fn a_pattern_that_spends_its_budget_takes_none_of_another() {
    let limits = Limits {
        confirm_steps: 1000,
        ..Limits::default()
    };
    let rules = vec![
        rule("a", &[r"(?:a|aa)+(a)\1(?<!a)"], Severity::Error),
        rule("b", &["x(?!y)"], Severity::Error),
    ];
    let text = format!("{}x ", "a".repeat(100));
    let (hits, counters) = read(&pack(rules, &limits), Channel::Text, text.as_bytes(), &[]);
    assert_eq!(
        hits.iter().map(|hit| (hit.0, hit.1)).collect::<Vec<_>>(),
        [(1, 101)]
    );
    assert!(counters.unconfirmed > 50);
}

#[test]
fn bounds_can_be_one_and_change_nothing_between_splits() {
    for (confirm_bytes, confirm_pending) in [(1, 1), (0, 0), (3, 2), (8, 1024), (4096, 1)] {
        let limits = Limits {
            confirm_bytes,
            confirm_pending,
            ..Limits::default()
        };
        for severity in [Severity::Critical, Severity::Error] {
            let rules = vec![
                rule("a", &["[ab]+(?=cc)", "a(?=bbbb)"], severity),
                rule("b", &["(?<=ab)c", r"(\w)\w*-\1"], severity),
            ];
            let pack = pack(rules, &limits);
            let text = "abababcbbbbb abccx-a abababab-aab €uro-€";
            let (hits, counters) = read_all_cuts(&pack, Channel::Text, text.as_bytes(), "bounds");
            if severity == Severity::Error && confirm_bytes < 3 {
                assert!(hits.is_empty() && counters.unconfirmed > 0);
            }
        }
    }
}

#[test]
fn a_match_longer_than_the_window_is_told_as_unconfirmed() {
    let pattern = r"<(\w+)>(?s:.*)</\1>";
    let text = |gap: usize| format!("<tag>{}</tag>", "x ".repeat(gap));
    for (gap, hits, unconfirmed) in [(100, 1, 0), (2000, 1, 0), (3000, 0, 1)] {
        let (found, counters) = read(&one(pattern), Channel::Text, text(gap).as_bytes(), &[]);
        assert_eq!(
            (found.len(), counters.unconfirmed),
            (hits, unconfirmed),
            "gap of {gap}"
        );
    }
}

/// Appends a random pattern over `abc.` with look-around or back-references.
fn random_pattern(random: &mut Random, depth: usize, groups: &mut usize, out: &mut String) {
    if depth == 0 {
        return out
            .push_str(random.pick(&["a", "b", "c", ".", "[ab]", "[^a]", "ab", r"\b", "$", "^"]));
    }
    let group = |random: &mut Random, open: &str, groups: &mut usize, out: &mut String| {
        out.push_str(open);
        random_pattern(random, depth - 1, groups, out);
        out.push(')');
    };
    match random.below(12) {
        0..=3 => {
            (0..2 + random.below(2)).for_each(|_| random_pattern(random, depth - 1, groups, out))
        }
        4 => {
            out.push_str("(?:");
            random_pattern(random, depth - 1, groups, out);
            out.push('|');
            random_pattern(random, depth - 1, groups, out);
            out.push(')');
        }
        5 => {
            group(random, "(?:", groups, out);
            out.push_str(random.pick(&["*", "+", "?", "{2}", "{1,2}", "*?", "++", "?+"]));
        }
        6 => group(random, "(?=", groups, out),
        7 => group(random, "(?!", groups, out),
        8 => group(random, "(?<=", groups, out),
        9 => group(random, "(?<!", groups, out),
        10 if *groups > 0 => {
            let number = 1 + random.below(*groups);
            out.push_str(&format!("(?:\\{number})"));
        }
        11 => group(random, "(?>", groups, out),
        _ => {
            // A group must be complete before a back-reference refers to it.
            let mut inner = *groups + 1;
            group(random, "(", &mut inner, out);
            *groups = inner;
        }
    }
}

#[test]
fn random_patterns_agree_with_brute_force_under_random_cuts() {
    let found = in_parts(scale(210_000), |wanted| compare_with_brute_force(&wanted));
    let sum = found
        .into_iter()
        .reduce(|one, other| std::array::from_fn(|index| one[index] + other[index]));
    let [cases, hits, loaded, refused] = sum.unwrap_or_default();
    println!("{cases} cases, {loaded} patterns ({refused} refused), {hits} texts match");
    assert!(hits * 20 > cases / 2, "too few texts match");
}

/// Compares random patterns until there are so many cases. Returns the number of cases, of texts that match, and of patterns
/// that were loaded and refused.
fn compare_with_brute_force(wanted: &Range<usize>) -> [usize; 4] {
    const LONGEST: usize = 9;
    let mut random = Random::new(0x100C_A40D + wanted.start as u64);
    let (mut cases, mut hits, mut loaded, mut refused) = (0, 0, 0, 0);
    while cases < wanted.len() {
        let mut pattern = String::new();
        random_pattern(&mut random, 3, &mut 0, &mut pattern);
        if regex_syntax::parse(&pattern).is_ok() {
            continue;
        }
        let built = Pack::builder().rule(rule("r", &[&pattern], Severity::Error));
        let Ok(pack) = built.build() else {
            refused += 1;
            continue;
        };
        loaded += 1;
        let oracle = Oracle::new(&pattern, LONGEST);
        for _ in 0..40 {
            let chars = (0..random.below(LONGEST + 1))
                .map(|_| *b"aaabbcc ."[random.below(9)..].first().unwrap());
            let text: Vec<u8> = chars.collect();
            let want = oracle.first_end(std::str::from_utf8(&text).unwrap());
            let whole = read(&pack, Channel::Text, &text, &[]);
            let got = whole.0.first().map(|hit| hit.1 as usize);
            let shown = text.escape_ascii().to_string();
            assert_eq!(got, want, "{pattern} on {shown:?}");
            hits += usize::from(want.is_some());
            let bytes: Vec<usize> = (1..text.len()).collect();
            let mut cuts: Vec<usize> = (0..3).map(|_| random.below(text.len() + 1)).collect();
            cuts.sort_unstable();
            for cuts in [bytes, cuts] {
                cases += 1;
                let found = read(&pack, Channel::Text, &text, &cuts);
                assert_eq!(found, whole, "{pattern} on {shown:?}, cut at {cuts:?}");
            }
        }
    }
    [cases, hits, loaded, refused]
}

/// Patterns of published rule sets that `regex` refuses: each loads, or is refused with a reason.
#[test]
fn real_patterns_load_or_are_refused_with_the_reason() {
    let Some(corpus) = skip::corpus() else {
        return;
    };
    for set in [
        "kingfisher",
        "uap-core",
        "recog",
        "crs",
        "detect-secrets",
        "noseyparker",
    ] {
        let path = corpus.join(format!("rules/{set}.jsonl"));
        let text = std::fs::read_to_string(path).unwrap();
        let (mut loaded, mut refused) = (0, 0);
        for line in text.lines() {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            let pattern = entry["pattern"].as_str().unwrap();
            if regex_syntax::ast::parse::Parser::new()
                .parse(pattern)
                .is_ok()
            {
                continue;
            }
            let built = Pack::builder()
                .rule(rule("r", &[pattern], Severity::Error))
                .build();
            match built {
                Ok(pack) => {
                    loaded += 1;
                    let text =
                        "<a href='x'>Mozilla/5.0 (X11; Linux x86_64) key=\"aB3$x\" é€\n".repeat(20);
                    let cuts: Vec<usize> = (0..text.len()).step_by(7).collect();
                    assert_eq!(
                        read(&pack, Channel::Text, text.as_bytes(), &cuts),
                        read(&pack, Channel::Text, text.as_bytes(), &[]),
                        "{pattern}"
                    );
                }
                Err(refusal) => {
                    refused += 1;
                    let why = &refusal.diagnostics()[0];
                    assert!(!why.message().is_empty());
                    println!("{set} {}: {}: {}", entry["id"], why.code(), why.message());
                }
            }
        }
        println!("{set}: of the patterns that `regex` refuses {loaded} load, {refused} do not");
    }
}

/// A byte after a fold or among the words of a command is certain with the byte after it, and so is a confirmed match.
#[test]
fn behind_a_view_a_hit_is_certain_at_the_same_byte_under_every_cut() {
    let read_as = |keys: &str, pattern: &str| {
        let text = format!(
            "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\non = ['text', 'tool-input']\n\
             match.any = [{{ regex = '{pattern}'{keys} }}]\n"
        );
        Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}"))
    };
    let cases = [
        (
            ", fold = 'invisible'",
            "b(?!x)",
            Channel::Text,
            "abc and more",
            (2, 3),
        ),
        #[cfg(feature = "unicode")]
        (
            ", fold = 'nfkc'",
            "b(?!x)",
            Channel::Text,
            "abc and more",
            (2, 4),
        ),
        #[cfg(feature = "unicode")]
        (
            ", fold = 'nfkc'",
            "b+(?=cd)",
            Channel::Text,
            "xx bbcd and more",
            (5, 8),
        ),
        (
            ", region = 'shell'",
            "two(?! x)",
            Channel::ToolInput,
            "{\"command\":\"rm one two three four\"}",
            (22, 24),
        ),
        (
            ", region = 'shell'",
            "one (?=two)",
            Channel::ToolInput,
            "{\"command\":\"rm one two three four\"}",
            (19, 22),
        ),
        (
            ", region = 'shell'",
            r"two\b(?! x)",
            Channel::ToolInput,
            "{\"command\":\"rm one two three four\"}",
            (22, 24),
        ),
    ];
    // Words that continue in one piece of several hundred bytes.
    let long = format!(
        "{{\"command\":\"rm {}two three four\"}}",
        "one ".repeat(100)
    );
    let (hits, _) = read_all_cuts(
        &read_as(", region = 'shell'", "two(?! x)"),
        Channel::ToolInput,
        long.as_bytes(),
        "long",
    );
    let places: Vec<_> = hits.iter().map(|hit| (hit.1, hit.2)).collect();
    assert_eq!(places, [(418, 420)]);
    for (keys, pattern, channel, text, want) in cases {
        let (hits, _) = read_all_cuts(&read_as(keys, pattern), channel, text.as_bytes(), pattern);
        let places: Vec<_> = hits.iter().map(|hit| (hit.1, hit.2)).collect();
        assert_eq!(places, [want], "{pattern}{keys}");
    }
}

#[test]
fn text_cut_off_from_a_match_may_decide_it() {
    let limits = Limits {
        confirm_bytes: 8,
        ..Limits::default()
    };
    for (pattern, text, ends, unconfirmed) in [
        ("(?<!x)a{7}b", "xaaaaaaab", &[][..], 1),
        ("(?<!x)a{7}b", "xaaaaaab", &[], 0),
        ("(?<!x)a{7}b", "yaaaaaaab", &[], 1),
        ("(?<!x)a{7}b", "aaaaaaab", &[8], 0),
        // No match can begin before the bytes kept.
        ("(?<!x)b{2}", "aaaaaaaaaaaaxbb", &[], 0),
        ("(?<=x)a+b", "aab", &[], 0),
        // The bytes kept begin inside of a character.
        ("(?<!é)a{7}", "zzéaaaaaaa", &[], 1),
        ("(?<!é)a{7}", "zzé-aaaaaaa", &[12], 0),
    ] {
        let rules = vec![rule("r", &[pattern], Severity::Info)];
        let (hits, counters) =
            read_all_cuts(&pack(rules, &limits), Channel::Text, text.as_bytes(), text);
        assert_eq!(
            hits.iter().map(|hit| hit.1).collect::<Vec<_>>(),
            ends,
            "{text}"
        );
        assert_eq!(counters.unconfirmed, unconfirmed, "{text}");
    }
}

#[test]
fn a_character_that_is_not_complete_at_the_end_stands_behind_a_match() {
    for (text, ends) in [
        (&b"a foo"[..], &[5][..]),
        (b"a foo\xC3", &[]),
        (b"a foo\xE2\x82", &[]),
        (b"a foo\xF0\x9F\x98!", &[]),
        (b"a foo\xC3 foo", &[10]),
    ] {
        let (hits, _) = read_all_cuts(&one("foo(?!.)"), Channel::Text, text, "foo");
        assert_eq!(
            hits.iter().map(|hit| hit.1).collect::<Vec<_>>(),
            ends,
            "{}",
            text.escape_ascii()
        );
    }
}

#[test]
fn a_candidate_is_decided_with_the_last_character_that_its_pattern_looks_at() {
    for (pattern, text, places) in [
        ("foo(?!bar)", "a foo and", &[(5, 8)][..]),
        ("foo(?!bar)", "a foobar", &[]),
        ("foo(?!bar)", "a fooba", &[(5, 7)]),
        (r"foo\b(?! ba)", "a foo and", &[(5, 8)]),
        (r"foo\b(?! ba)", "a foo bar", &[]),
        (r"foo\b(?! ba)", "a foo, foo ", &[(5, 8)]),
        (r"fo+(?=\sé)", "a foo éa", &[(5, 8)]),
        (r"(?<!no )foo\b(?=.x)", "no foo x, foo x", &[(13, 15)]),
    ] {
        let (hits, _) = read_all_cuts(&one(pattern), Channel::Text, text.as_bytes(), pattern);
        let found: Vec<_> = hits.iter().map(|hit| (hit.1, hit.2)).collect();
        assert_eq!(found, places, "{pattern} on {text:?}");
    }
}
