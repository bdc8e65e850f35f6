//! Compound conditions, compared with a model that searches the whole text, under every split.

use std::ops::Range;

use regex_automata::meta::Regex;

use crate::limits::Limits;
use crate::pack::{LoadError, Pack};
use crate::rule::{Action, Capture, Channel, Condition, Count, Pattern, Per, Rule, Within};
use crate::verdict::{Hit, PartId};
use ttsr_testing::{Random, in_parts, scale};

const PART: PartId = PartId(7);

fn rule(condition: Condition) -> Rule {
    let mut rule = Rule::new("t/r", Vec::new());
    rule.condition = condition;
    rule.on = vec![Channel::Text, Channel::ToolInput];
    rule
}

fn pack(rule: Rule) -> Pack {
    made(rule).unwrap_or_else(|error| panic!("{error}"))
}

fn made(rule: Rule) -> Result<Pack, LoadError> {
    Pack::builder().rule(rule).build()
}

/// The hits of a part as (end, decided, match), and its redactions as ranges.
type Came = (Vec<(u64, u64, String)>, Vec<(u64, u64)>);

fn read(pack: &Pack, channel: Channel, text: &[u8], cuts: &[usize]) -> Came {
    let mut stream = pack.stream();
    stream.open(PART, channel);
    let mut hits = Vec::new();
    let (mut from, mut released) = (0, 0);
    for &to in cuts.iter().chain([&text.len()]) {
        hits.extend_from_slice(&stream.push(PART, &text[from..to]));
        let now = stream.releasable(PART);
        assert!(now >= released, "released bytes stay released");
        for redaction in stream.redactions(PART) {
            let is_late = redaction.start >= released || redaction.end <= released;
            assert!(is_late, "{redaction:?} leaked: {released} were released");
        }
        (from, released) = (to, now);
    }
    hits.extend_from_slice(&stream.finish());
    assert_eq!(stream.releasable(PART), text.len() as u64);
    let told = hits
        .iter()
        .map(|hit| (hit.end, hit.decided, stream.matched(hit).to_owned()));
    let redacted = stream
        .redactions(PART)
        .iter()
        .map(|known| (known.start, known.end));
    (told.collect(), redacted.collect())
}

fn read_all_cuts(pack: &Pack, channel: Channel, text: &[u8], random: &mut Random) -> (Came, usize) {
    let whole = read(pack, channel, text, &[]);
    let bytes: Vec<usize> = (1..text.len()).collect();
    let mut splits = vec![bytes];
    splits.extend((0..4).map(|_| vec![random.below(text.len() + 1)]));
    splits.extend((0..2).map(|_| {
        let mut cuts: Vec<usize> = (0..4).map(|_| random.below(text.len() + 1)).collect();
        cuts.sort_unstable();
        cuts
    }));
    for cuts in &splits {
        let came = read(pack, channel, text, cuts);
        assert_eq!(came, whole, "{} cut at {cuts:?}", text.escape_ascii());
    }
    (whole, splits.len() + 1)
}

/// A match in the whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    start: usize,
    end: usize,
}

fn find(pattern: &Pattern, is_line: bool, text: &str) -> Vec<Known> {
    let regex = pattern.to_regex();
    let regex = match is_line {
        true => format!("(?mR:^)(?:{regex})(?mR:$)"),
        false => regex,
    };
    let regex = Regex::new(&regex).unwrap();
    let found = regex.find_iter(text);
    let found = found.map(|found| Known {
        start: found.start(),
        end: found.end(),
    });
    found.collect()
}

fn lines(text: &str, known: Known) -> usize {
    let bytes = &text.as_bytes()[known.start..known.end - 1];
    bytes.iter().filter(|&&byte| byte == b'\n').count() + 1
}

fn is_near(within: Within, text: &str, a: Known, b: Known) -> bool {
    let both = Known {
        start: a.start.min(b.start),
        end: a.end.max(b.end),
    };
    match within {
        Within::Lines(most) => lines(text, both) <= most as usize,
        Within::Chars(most) => text[both.start..both.end].chars().count() <= most as usize,
        _ => true,
    }
}

/// Returns the ends of the matches that complete the condition, in order.
fn model(condition: &Condition, text: &str) -> Vec<usize> {
    let found = |patterns: &[Pattern]| -> Vec<Vec<Known>> {
        let each = patterns.iter();
        each.map(|pattern| find(pattern, condition.line, text))
            .collect()
    };
    let is_spread = !condition.all.is_empty() || !condition.sequence.is_empty();
    let usual = if is_spread {
        Within::Part
    } else {
        Within::Lines(1)
    };
    let within = condition.within.unwrap_or(usual);
    let mut whole: Vec<Known> = found(&condition.any).concat();
    whole.retain(|known| {
        let first = condition
            .first
            .is_none_or(|first| text[..known.end].chars().count() <= first as usize);
        let last = condition
            .last
            .is_none_or(|last| text[known.start..].chars().count() <= last as usize);
        first && last
    });
    let mut spread = choices(&found(&condition.all));
    spread.extend(
        choices(&found(&condition.sequence))
            .into_iter()
            .filter(|choice| {
                let mut pairs = choice.windows(2);
                pairs.all(|pair| pair[0].end <= pair[1].start)
            }),
    );
    whole.extend(
        tightest(&spread)
            .into_iter()
            .filter(|&all| is_near(within, text, all, all)),
    );
    let exceptions = found(&condition.none).concat();
    whole.retain(|&known| {
        let mut exceptions = exceptions.iter();
        !exceptions.any(|&other| is_near(within, text, known, other))
    });
    let mut ends: Vec<usize> = whole.iter().map(|known| known.end).collect();
    ends.sort_unstable();
    ends
}

/// Returns, for each match that completes a choice, the span of the choice that begins last.
fn tightest(choices: &[Vec<Known>]) -> Vec<Known> {
    let mut made: Vec<(usize, usize, usize)> = choices
        .iter()
        .filter_map(|choice| {
            let last = choice.iter().map(|known| (known.end, known.start)).max()?;
            let start = choice.iter().map(|known| known.start).min()?;
            Some((last.0, last.1, start))
        })
        .collect();
    made.sort_unstable();
    made.reverse();
    made.dedup_by_key(|made| (made.0, made.1));
    let extents = made.into_iter();
    extents
        .map(|(end, _, start)| Known { start, end })
        .collect()
}

/// Returns every way to choose one match from each list.
fn choices(lists: &[Vec<Known>]) -> Vec<Vec<Known>> {
    lists.iter().fold(
        if lists.is_empty() {
            vec![]
        } else {
            vec![vec![]]
        },
        |made, list| {
            let each = made.iter();
            each.flat_map(|made| list.iter().map(|&known| [&made[..], &[known]].concat()))
                .collect()
        },
    )
}

fn text(random: &mut Random) -> String {
    const WORDS: [&str; 12] = [
        "foo", "bar", "fo", "ba", " ", "\n", "\r\n", "aaa", "é", "x", "foobar", "🎈",
    ];
    let words = 1 + random.below(14);
    (0..words)
        .map(|_| WORDS[random.below(WORDS.len())])
        .collect()
}

fn pattern(random: &mut Random) -> Pattern {
    const PATTERNS: [&str; 16] = [
        "foo",
        "bar",
        "a+",
        "fo+|foob",
        r"\bfoo\b",
        r"(?m)^b",
        r"o$",
        "(?s)f.*b",
        "é",
        r"x\s*x",
        "b.r",
        "[a-z]+",
        r"x*a?b",
        r"\Bo",
        "(?:^|[^f])o{1,2}",
        "[^b]{1,3}a",
    ];
    Pattern::regex(PATTERNS[random.below(PATTERNS.len())])
}

fn patterns(random: &mut Random, least: usize) -> Vec<Pattern> {
    let count = least + random.below(2);
    (0..count).map(|_| pattern(random)).collect()
}

fn condition(random: &mut Random) -> Condition {
    let mut condition = Condition::default();
    match random.below(4) {
        0 => condition.all = patterns(random, 2),
        1 => condition.sequence = patterns(random, 2),
        _ => condition.any = patterns(random, 1),
    }
    if random.below(2) == 0 {
        condition.none = patterns(random, 1);
    }
    let lines = 1 + random.below(3) as u32;
    condition.within = match random.below(5) {
        0 => Some(Within::Lines(lines)),
        1 => Some(Within::Chars(2 * lines + 3)),
        2 => Some(Within::Part),
        3 => Some(Within::Message),
        _ => None,
    };
    if !condition.any.is_empty() {
        match random.below(5) {
            0 => condition.first = Some(random.below(12) as u32 + 1),
            1 => condition.last = Some(random.below(12) as u32 + 1),
            2 => condition.line = true,
            _ => {}
        }
    }
    condition
}

#[test]
fn conditions_hold_where_the_model_says_under_every_split() {
    let found = in_parts(scale(3_000), |conditions| compare_with_model(&conditions));
    let sum = found
        .into_iter()
        .reduce(|one, other| std::array::from_fn(|index| one[index] + other[index]));
    let [cases, hits, texts, refused] = sum.unwrap_or_default();
    println!("{cases} (condition, text, cut) cases, {texts} pairs, {hits} hit; {refused} refused");
    assert!(hits * 10 > texts && hits * 10 < texts * 9);
}

/// Compares a random condition for each number. Returns the number of cases, of hits, of texts, and of conditions that the
/// loader refuses.
fn compare_with_model(conditions: &Range<usize>) -> [usize; 4] {
    let mut random = Random::new(0x7a11 + conditions.start as u64);
    let (mut cases, mut hits, mut texts, mut refused) = (0, 0, 0, 0);
    for _ in conditions.clone() {
        let condition = condition(&mut random);
        let Ok(pack) = made(rule(condition.clone())) else {
            // The condition is inconsistent, and the loader refuses it.
            refused += 1;
            continue;
        };
        if pack.program().compound(pack.find("t/r").unwrap()).is_none() {
            // The rule needs first ends only, which the tests of the automaton cover.
            continue;
        }
        for _ in 0..4 {
            let text = text(&mut random);
            let ends = model(&condition, &text);
            let (whole, splits) = read_all_cuts(&pack, Channel::Text, text.as_bytes(), &mut random);
            let found: Vec<usize> = whole.0.iter().map(|hit| hit.0 as usize).collect();
            // Exceptions decide in the order in which they are certain, so the first hit may be any of the ends of the
            // model. Without exceptions it is the first of them.
            let is_right = match (found.as_slice(), ends.as_slice()) {
                ([], []) => true,
                ([found], [first, ..]) if condition.none.is_empty() => found == first,
                ([found], ends) => ends.contains(found),
                _ => false,
            };
            assert!(is_right, "{condition:?}\n{text:?}: {found:?}, not {ends:?}");
            // A key is a haystack, too; this key is empty.
            let input = serde_json::json!({ "": text }).to_string();
            let (decoded, more) =
                read_all_cuts(&pack, Channel::ToolInput, input.as_bytes(), &mut random);
            assert_eq!(decoded.0.len(), whole.0.len(), "{condition:?}\n{input}");
            cases += splits + more;
            hits += whole.0.len();
            texts += 1;
        }
    }
    [cases, hits, texts, refused]
}

#[test]
fn matches_are_counted_as_regex_finds_them() {
    let mut random = Random::new(0xc0);
    let mut hits = 0;
    for _ in 0..scale(2_000) {
        let times = 1 + random.below(4) as u32;
        let mut counting = Condition::any(vec![pattern(&mut random)]);
        counting.count = Some(Count {
            times,
            per: Per::ALL[random.below(2)],
        });
        let pack = pack(rule(counting.clone()));
        let text = text(&mut random);
        let (whole, _) = read_all_cuts(&pack, Channel::Text, text.as_bytes(), &mut random);
        let found = find(&counting.any[0], false, &text);
        let expected = found.get(times as usize - 1).map(|known| known.end as u64);
        let ends: Vec<u64> = whole.0.iter().map(|hit| hit.0).collect();
        assert_eq!(ends, Vec::from_iter(expected), "{counting:?} on {text:?}");
        hits += ends.len();
    }
    assert!(hits > 0);
}

#[test]
fn redacted_text_never_leaves_under_any_split() {
    let mut random = Random::new(0x5ec);
    let mut redacted = 0;
    for _ in 0..scale(2_000) {
        let mut secret = rule(Condition::any(vec![pattern(&mut random)]));
        secret.action = Action::Redact;
        let pattern = secret.condition.any[0].clone();
        let pack = pack(secret);
        let text = text(&mut random);
        let (whole, _) = read_all_cuts(&pack, Channel::Text, text.as_bytes(), &mut random);
        let expected: Vec<(u64, u64)> = find(&pattern, false, &text)
            .iter()
            .map(|known| (known.start as u64, known.end as u64))
            .collect();
        assert_eq!(whole.1, expected, "{pattern:?} on {text:?}");
        redacted += expected.len();
    }
    assert!(redacted > 0);
}

/// Text in which a match is always in progress: it may begin at every character.
fn busy_text(random: &mut Random) -> String {
    const WORDS: [&str; 9] = ["é", "漢", " ", "\n", "k", "ka", "kab", "b", "x"];
    let words = 20 + random.below(60);
    (0..words)
        .map(|_| WORDS[random.below(WORDS.len())])
        .collect()
}

const BUSY_PATTERNS: [&str; 7] = [
    "(?:^|[^a-z])k[ab]{1,2}(?:[^a-z]|$)",
    r"(?s).k.{0,3}b",
    r"\b\w{1,4}\b",
    "(?:é|b){1,3}",
    "(?s)k(?:.{0,4}$|b)",
    "(?sm)^.{1,9}k",
    "(?s).{3}",
];

#[test]
fn bounded_matches_are_found_and_released_where_one_is_always_in_progress() {
    let mut random = Random::new(0xB0);
    let mut redacted = 0;
    for index in 0..scale(1_500) {
        let mut secret = rule(Condition::any(vec![Pattern::regex(
            BUSY_PATTERNS[index % BUSY_PATTERNS.len()],
        )]));
        secret.action = Action::Redact;
        let pattern = secret.condition.any[0].clone();
        // A match that the filter rejects takes its text all the same.
        let has_filter = random.below(2) == 0;
        secret.condition.capture = has_filter.then(|| Capture {
            group: Some("0".to_owned()),
            not_in: vec!["*ka*".to_owned()],
            ..Capture::default()
        });
        let longest = 9 * 4 + 1;
        let limits = Limits {
            // The least for which no pattern is cut.
            stretch_bytes: 3 * (longest + 4),
            ..Limits::default()
        };
        let pack = Pack::builder().rule(secret).limits(limits).build().unwrap();
        let text = busy_text(&mut random);
        let (whole, _) = read_all_cuts(&pack, Channel::Text, text.as_bytes(), &mut random);
        let expected: Vec<(u64, u64)> = find(&pattern, false, &text)
            .iter()
            .filter(|known| !has_filter || !text[known.start..known.end].contains("ka"))
            .map(|known| (known.start as u64, known.end as u64))
            .collect();
        assert_eq!(whole.1, expected, "{pattern:?}, {has_filter} on {text:?}");
        redacted += expected.len();
        let mut stream = pack.stream();
        stream.open(PART, Channel::Text);
        let _ = stream.push(PART, text.as_bytes());
        let held = text.len() as u64 - stream.releasable(PART);
        assert!(
            held <= 3 * (longest as u64 + 4),
            "{held} bytes: {pattern:?} on {text:?}"
        );
        assert_eq!(stream.counters().cut_matches, 0);
    }
    assert!(redacted > 10, "{redacted}");
}

#[test]
fn a_bounded_match_is_decided_soon_where_one_is_always_in_progress() {
    let pattern = "(?:^|[^a-z])k[0-9]{20}(?:[^a-z0-9]|$)";
    let mut counted = rule(Condition::any(vec![Pattern::regex(pattern)]));
    counted.condition.count = Some(Count {
        times: 1,
        per: Per::Part,
    });
    let limits = Limits {
        stretch_bytes: 200,
        ..Limits::default()
    };
    let pack = Pack::builder()
        .rule(counted)
        .limits(limits)
        .build()
        .unwrap();
    for before in 0..400 {
        let text = format!(
            "{} k01234567890123456789 {}",
            "漢".repeat(before),
            "字".repeat(100)
        );
        let end = 3 * before as u64 + 24;
        let (hits, _) = read(&pack, Channel::Text, text.as_bytes(), &[]);
        let [(at, decided, _)] = hits[..] else {
            panic!("{before} characters before: {hits:?}");
        };
        assert_eq!(at, end - 1, "{before}");
        assert!(decided <= end + 2 * 33, "{before}: {decided} for {end}");
    }
}

#[test]
fn a_rule_without_a_bound_does_not_hold_text_in_which_it_has_no_match() {
    // A match of the first rule may begin at every character, so the text is never idle.
    let patterns = ["(?:^|[^a-z])k[0-9]{20}(?:[^a-z0-9]|$)", "x[a-y]*z"];
    let rules = patterns.iter().enumerate().map(|(index, pattern)| {
        let mut secret = rule(Condition::any(vec![Pattern::regex(*pattern)]));
        secret.id = format!("r/{index}");
        secret.action = Action::Redact;
        secret
    });
    let pack = rules.fold(Pack::builder(), |builder, rule| builder.rule(rule));
    let pack = pack.build().unwrap();
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    let (mut len, mut most) = (0, 0);
    for delta in ["漢字漢字", "漢k01", "漢字", "字xa漢"].repeat(1000) {
        let _ = stream.push(PART, delta.as_bytes());
        len += delta.len() as u64;
        most = most.max(len - stream.releasable(PART));
    }
    assert!(most <= 1100, "{most} of {len} bytes are held");
    // While its match is in progress, all of it is held.
    let before = len - stream.releasable(PART);
    let _ = stream.push(PART, format!("x{}", "a".repeat(5000)).as_bytes());
    assert!(
        len + 5001 - stream.releasable(PART) > 5000,
        "after {before}"
    );
    let mut hits = stream.push(PART, b"z k01234567890123456789 ").to_vec();
    // The later match is decided once no other one can be that begins earlier.
    hits.extend(stream.push(PART, "漢".repeat(50).as_bytes()).to_vec());
    let found: Vec<(u32, u64)> = hits.iter().map(|hit| (hit.rule.0, hit.end)).collect();
    assert_eq!(found, [(1, len + 5002), (0, len + 5025)]);
    assert_eq!(stream.counters().cut_matches, 0);
}

#[test]
fn conditions_reach_over_parts_of_a_message_by_their_order_of_opening() {
    let following = Condition {
        sequence: vec![Pattern::literal("plan"), Pattern::literal("done")],
        within: Some(Within::Message),
        ..Condition::default()
    };
    let pack = pack(rule(following));
    let mut stream = pack.stream();
    let (first, second) = (PartId(3), PartId(1));
    stream.open(first, Channel::Text);
    stream.open(second, Channel::Text);
    // The second part arrives first, but follows the first part in the message.
    assert!(stream.push(second, b"done, ").is_empty());
    assert!(stream.push(second, b"really").is_empty());
    let hits = stream.push(first, b"a plan.").to_vec();
    assert_eq!((hits.len(), hits[0].part), (1, first));
}

#[test]
fn a_match_longer_than_the_limit_is_cut_and_counted() {
    let mut secret = rule(Condition::any(vec![Pattern::regex("(?s)a.*b")]));
    secret.action = Action::Redact;
    let limits = Limits {
        stretch_bytes: 8,
        ..Limits::default()
    };
    let pack = Pack::builder().rule(secret).limits(limits).build().unwrap();
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    for _ in 0..10 {
        let _ = stream.push(PART, b"aaaa");
    }
    assert!(stream.counters().cut_matches > 0);
    assert!(stream.releasable(PART) >= 32, "what is held is bounded");
}

#[cfg(feature = "lookaround")]
#[test]
fn a_text_that_is_searched_at_its_end_is_searched_in_parts_if_it_is_longer_than_the_limit() {
    let pack = pack(rule(Condition::any(vec![Pattern::regex("a(?!b)")])));
    let limits = Limits {
        stretch_bytes: 8,
        ..Limits::default()
    };
    let every = pack.every_match_within(crate::verdict::RuleId(0), Channel::Text, limits);
    let mut stream = every.unwrap().stream();
    stream.open(PART, Channel::Text);
    for _ in 0..10 {
        let _ = stream.push(PART, b"acac");
    }
    // Two pieces fit, and the third one ends the search of the two before it.
    assert_eq!(stream.counters().cut_matches, 4);
    assert_eq!(stream.take_records().len(), 16);
    let _ = stream.finish();
    assert_eq!(stream.take_records().len(), 4);
}

#[test]
fn long_matches_are_cut_at_places_that_do_not_depend_on_deltas() {
    let mut random = Random::new(0x5EED);
    for _ in 0..scale(400).max(40) {
        let mut secret = rule(Condition::any(vec![Pattern::regex("a[abc]*d")]));
        secret.action = Action::Redact;
        let limits = Limits {
            stretch_bytes: 2 + random.below(12),
            ..Limits::default()
        };
        let pack = Pack::builder().rule(secret).limits(limits).build().unwrap();
        let text: Vec<u8> = (0..60).map(|_| b"aaabcd \n"[random.below(8)]).collect();
        read_all_cuts(&pack, Channel::Text, &text, &mut random);
        read_all_cuts(&pack, Channel::ToolInput, &text, &mut random);
    }
}

/// Returns the hits as (end, decided), after comparing every split with the whole text.
fn told(pack: &Pack, channel: Channel, text: &str) -> Vec<(u64, u64)> {
    let whole = read(pack, channel, text.as_bytes(), &[]);
    let bytes: Vec<usize> = (1..text.len()).collect();
    let came = read(pack, channel, text.as_bytes(), &bytes);
    assert_eq!(came, whole, "{text:?} byte by byte");
    for cut in 1..text.len() {
        let came = read(pack, channel, text.as_bytes(), &[cut]);
        assert_eq!(came, whole, "{text:?} cut at {cut}");
    }
    whole.0.iter().map(|hit| (hit.0, hit.1)).collect()
}

fn written(condition: &str) -> Pack {
    let text = format!(
        "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\non = ['text', 'tool-input']\n\
         {condition}\n"
    );
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn conditions_hold_up_to_their_distance_and_are_decided_as_soon_as_it_is_past() {
    const LEAK: &str = "match.any = [{ literal = 'leak' }]\nmatch.none = [{ literal = 'fine' }]";
    const BOTH: &str = "match.all = [{ literal = 'aa' }, { literal = 'bb' }]";
    const SEQUENCE: &str = "match.sequence = [{ literal = 'aa' }, { literal = 'bb' }]";
    const OVERLAP: &str = "match.sequence = [{ literal = 'aa' }, { literal = 'ab' }]";
    let mut wrong = Vec::new();
    for (condition, within, text, hits) in [
        (LEAK, "lines = 1", "a leak, fine\nb", &[][..]),
        (LEAK, "lines = 1", "fine, a leak\nb", &[]),
        (LEAK, "lines = 1", "a leak\nfine\nb", &[(6, 7)]),
        (LEAK, "lines = 1", "fine\na leak\nb", &[(11, 12)]),
        (LEAK, "lines = 1", "\n\na leak, so\nb", &[(8, 13)]),
        (LEAK, "lines = 2", "\na leak\nfine\nb", &[]),
        (LEAK, "lines = 2", "\na leak\nx\nfine\nb", &[(7, 10)]),
        (LEAK, "lines = 2", "fine\n\na leak\nx\ny", &[(12, 15)]),
        (LEAK, "chars = 9", "a leak fine.", &[]),
        (LEAK, "chars = 9", "é leak  fine.", &[(7, 13)]),
        (LEAK, "chars = 9", "é leak   fine.", &[(7, 14)]),
        (LEAK, "chars = 9", "fine  leak and so on", &[(10, 15)]),
        (LEAK, "chars = 9", "fine leak and so on", &[]),
        (LEAK, "lines = 1", "fine\nfine leak\nb", &[]),
        (LEAK, "part = true", "a leak\n\n\nfine", &[]),
        (LEAK, "part = true", "a leak\n\n\nfin", &[(6, 12)]),
        (BOTH, "lines = 2", "aa\nbb ", &[(5, 6)]),
        (BOTH, "lines = 2", "bb\naa ", &[(5, 6)]),
        (BOTH, "lines = 2", "aa\n\nbb ", &[]),
        (BOTH, "lines = 2", "aa\n\nbb\naa", &[(9, 9)]),
        (BOTH, "lines = 2", "aa\naa\n\nbb\n", &[]),
        (BOTH, "lines = 2", "aa\n\naa\nbb\n", &[(9, 10)]),
        (BOTH, "chars = 6", "aa12bb", &[(6, 6)]),
        (BOTH, "chars = 6", "aa123bb", &[]),
        (BOTH, "chars = 6", "aaé2bb", &[(7, 7)]),
        (BOTH, "part = true", "bb\n\n\naa", &[(7, 7)]),
        (SEQUENCE, "lines = 1", "aa bb", &[(5, 5)]),
        (SEQUENCE, "lines = 1", "bb aa", &[]),
        (SEQUENCE, "lines = 1", "aa\naa bb", &[(8, 8)]),
        (SEQUENCE, "lines = 1", "aa\nbb", &[]),
        (SEQUENCE, "lines = 1", "aa\naabb", &[(7, 7)]),
        (SEQUENCE, "lines = 2", "aa\nbb", &[(5, 5)]),
        (SEQUENCE, "lines = 2", "aa\n\nbb", &[]),
        (SEQUENCE, "chars = 5", "aa aa bb", &[(8, 8)]),
        (SEQUENCE, "chars = 5", "aa  bb", &[]),
        (SEQUENCE, "part = true", "aa\n\nbb\n", &[(6, 7)]),
        (SEQUENCE, "part = true", "bb\n\naa\n", &[]),
        (SEQUENCE, "message = true", "aa\n\nbb\n", &[(6, 7)]),
        (OVERLAP, "chars = 6", "aa aab", &[(6, 6)]),
        (OVERLAP, "chars = 5", "aa aab", &[]),
    ] {
        let pack = written(&format!("{condition}\nmatch.within = {{ {within} }}"));
        let found = told(&pack, Channel::Text, text);
        if found != hits {
            wrong.push(format!(
                "{condition} within {within}: {text:?}: {found:?}, not {hits:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn places_in_the_text_and_in_the_line_are_counted_in_characters() {
    let mut wrong = Vec::new();
    for (condition, text, hits) in [
        ("match.first = 5", "éleak", &[(6, 6)][..]),
        ("match.first = 5", "éxleak", &[]),
        ("match.first = 4", "leakleak", &[(4, 4)]),
        ("match.first = 4", " leak", &[]),
        ("match.last = 5", "leak leaké", &[(9, 11)]),
        ("match.last = 5", "leaké!", &[]),
        ("match.last = 4", "a leak", &[(6, 6)]),
        ("match.last = 9", "leak leak", &[(4, 9)]),
        ("match.last = 9", "leak leak!", &[(9, 10)]),
        ("match.last = 9", " leakleak", &[(5, 9)]),
        ("match.line = true", "a leak\nleak\n", &[(11, 12)]),
        ("match.line = true", "leak it\n leak\n", &[]),
        ("match.line = true", "leak\r\n", &[(4, 5)]),
        ("match.line = true", "a\nleak", &[(6, 6)]),
    ] {
        let pack = written(&format!(
            "match.any = [{{ literal = 'leak' }}]\n{condition}"
        ));
        let found = told(&pack, Channel::Text, text);
        if found != hits {
            wrong.push(format!("{condition}: {text:?}: {found:?}, not {hits:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_match_behind_which_nothing_is_in_progress_is_decided_at_its_end() {
    for (pattern, text, hits) in [
        ("ab", "ab ab x", &[(5, 5)][..]),
        ("aa", "aa aa x", &[(5, 6)]),
        ("ab+", "ab abb x", &[(6, 7)]),
        ("é", "é é x", &[(5, 5)]),
        ("ab$", "ab ab", &[]),
        (r"ab\b", "ab ab x", &[(5, 6)]),
    ] {
        let pack = written(&format!(
            "match.any = [{{ regex = '{pattern}' }}]\nmatch.count = 2"
        ));
        assert_eq!(
            told(&pack, Channel::Text, text),
            hits,
            "{pattern} in {text:?}"
        );
    }
}

#[test]
fn a_match_that_ends_with_its_line_is_of_that_line() {
    let pack = written(
        r"
        match.any = [{ regex = 'leak\n' }]
        match.none = [{ regex = 'ok' }]
        match.within = { lines = 1 }",
    );
    assert_eq!(told(&pack, Channel::Text, "ok leak\nmore\n"), []);
    assert_eq!(told(&pack, Channel::Text, "ok\nleak\nmore\n"), [(8, 8)]);
}

#[test]
fn a_pattern_counts_only_in_the_argument_that_it_names() {
    let pack = written(
        "match.all = [{ literal = 'aa', arg = 'one' }, { literal = 'bb', arg = 'two' }]\n\
         match.within = { part = true }",
    );
    for (input, hits) in [
        (r#"{"one":"aa","two":"bb"}"#, 1),
        (r#"{"one":"bb","two":"aa"}"#, 0),
        (r#"{"one":"aa bb","two":"c"}"#, 0),
        (r#"{"two":"aa bb","one":"aa"}"#, 1),
    ] {
        assert_eq!(
            told(&pack, Channel::ToolInput, input).len(),
            hits,
            "{input}"
        );
    }
}

#[test]
fn a_pattern_of_any_counts_only_in_the_argument_that_it_names() {
    for more in ["", "match.count = 1"] {
        let pack = written(&format!(
            "match.any = [{{ literal = 'ab', arg = 'one' }}]\n{more}"
        ));
        for (input, hits) in [
            (r#"{"one":"ab"}"#, &[(10, 10)][..]),
            (r#"{"two":"ab"}"#, &[]),
            (r#"{"two":"ab","one":"ab"}"#, &[(21, 21)]),
        ] {
            assert_eq!(told(&pack, Channel::ToolInput, input), hits, "{input}");
        }
    }
}

#[test]
fn every_value_is_a_text_of_its_own() {
    for (pattern, more, input, hits) in [
        (
            "^leak",
            "match.count = 1",
            r#"{"a":"x","b":"leak"}"#,
            &[(18, 18)][..],
        ),
        (
            r"\bleak",
            "match.count = 1",
            r#"{"a":"x","b":"leak"}"#,
            &[(18, 18)],
        ),
        ("x.*leak", "match.count = 1", r#"{"a":"x","b":"leak"}"#, &[]),
        (
            "leak",
            "match.first = 5",
            r#"{"a":"something","b":"leak"}"#,
            &[(26, 26)],
        ),
        (
            "leak",
            "match.last = 5",
            r#"{"a":"something","b":"leak"}"#,
            &[(26, 27)],
        ),
        (
            "leak",
            "match.none = [{ literal = 'fine' }]",
            r#"{"a":"fine","b":"leak"}"#,
            &[(21, 22)],
        ),
    ] {
        let pack = written(&format!("match.any = [{{ regex = '{pattern}' }}]\n{more}"));
        let found = told(&pack, Channel::ToolInput, input);
        assert_eq!(found, hits, "{pattern} {more}");
    }
}

#[test]
fn a_long_match_is_cut_at_the_same_byte_also_where_short_deltas_are_read_at_once() {
    let mut secret = rule(Condition::any(vec![Pattern::regex("a[abc]*d")]));
    secret.action = Action::Redact;
    let limits = Limits {
        stretch_bytes: 8,
        ..Limits::default()
    };
    let pack = Pack::builder().rule(secret).limits(limits).build().unwrap();
    for (deltas, hits, cut) in [
        (["aaa", "aaaa", "d x"], 1, 0),
        (["aaaa", "aaaa", "d x"], 0, 1),
    ] {
        // A delta is on the fast path only once its states are built, so every text is read more than once.
        for _ in 0..3 {
            let mut stream = pack.stream();
            let deltas = deltas.map(|delta| stream.push(PART, delta.as_bytes()).len());
            assert_eq!(deltas.iter().sum::<usize>(), hits, "{deltas:?}");
            assert_eq!(stream.counters().cut_matches, cut, "{deltas:?}");
        }
    }
}

#[test]
fn so_many_matches_wait_for_an_exception_and_no_more() {
    let pack = written(
        "match.any = [{ literal = 'a' }]\nmatch.none = [{ literal = 'z' }]\nmatch.within = { part = true }",
    );
    for (matches, unconfirmed) in [(256, 0), (257, 1), (300, 44)] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::Text);
        assert!(stream.push(PART, "a".repeat(matches).as_bytes()).is_empty());
        assert_eq!(stream.finish().len(), 1, "{matches}");
        assert_eq!(stream.counters().unconfirmed, unconfirmed, "{matches}");
    }
}

#[test]
fn a_sequence_remembers_the_last_of_many_beginnings() {
    let pack = written(
        "match.sequence = [{ literal = 'a' }, { literal = 'b' }]\nmatch.within = { chars = 2 }",
    );
    for beginnings in [255, 256, 257, 300] {
        let text = format!("{}b", "a".repeat(beginnings));
        let mut stream = pack.stream();
        let ends: Vec<u64> = stream
            .push(PART, text.as_bytes())
            .iter()
            .map(|hit| hit.end)
            .collect();
        assert_eq!(ends, [beginnings as u64 + 1]);
    }
}

#[test]
fn short_deltas_that_bring_nothing_are_read_at_once() {
    let pack = written("match.any = [{ literal = 'leak' }]\nmatch.count = 2");
    let text: [&[u8]; 4] = [b"a few words ", b"and a le", b"ap and l", b"ess."];
    // The first stream builds the states.
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    for bytes in text {
        let _ = stream.push(PART, bytes);
    }
    let rules = pack.program().channel(Channel::Text).unwrap();
    let rules = &rules.raw.full[0];
    let mut reader = super::FullMatchReader::new(rules);
    let mut at = 0;
    let mut push = |bytes: &[u8]| {
        let chunk = ttsr_views::chunk::Chunk::verbatim(bytes, at);
        at += bytes.len() as u64;
        let step = reader.try_step_short(rules, bytes);
        let padded = super::super::padded(bytes);
        step.map(|step| reader.accept_short(rules, chunk, &padded, step))
            .is_some()
    };
    assert_eq!(text.map(&mut push), [true; 4]);
}

#[test]
fn a_match_is_decided_and_cut_where_it_is_without_other_rules() {
    const PATTERNS: [&str; 11] = [
        "(?:^|[^b])c.?d",
        "[^a]{1,3}b",
        "(?s).{2}a",
        "a[abc]*d",
        "(?s)b.*d",
        r"\bab",
        "c+",
        "[a-d]+",
        r"(?m)^a\s*",
        "d[^ ]*a",
        "é?b",
    ];
    let mut random = Random::new(0xBE51DE);
    let (mut found, mut cut) = (0, 0);
    for _ in 0..scale(600).max(60) {
        let limits = Limits {
            // With 0 a byte is a stretch. From 30 on some of the patterns are bounded. With the last, the others are searched long
            // before their matches are cut.
            stretch_bytes: match random.below(3) {
                0 => random.below(14),
                1 => 30 + random.below(60),
                _ => Limits::default().stretch_bytes,
            },
            ..Limits::default()
        };
        let most = match limits.stretch_bytes > 1000 {
            true => 3000,
            false => 200,
        };
        let rules = [0, 1, 2].map(|index| {
            let pattern = Pattern::regex(PATTERNS[random.below(PATTERNS.len())]);
            let mut rule = Rule::new(format!("t/r{index}"), vec![pattern]);
            rule.condition.count = Some(Count {
                times: 1 + random.below(3) as u32,
                per: Per::Part,
            });
            rule
        });
        let together = |rules: &[Rule]| {
            let builder = Pack::builder().limits(limits.clone());
            let builder = rules
                .iter()
                .cloned()
                .fold(builder, |it, rule| it.rule(rule));
            builder.build().unwrap()
        };
        let beside = together(&rules);
        let alone = rules
            .each_ref()
            .map(|rule| together(std::slice::from_ref(rule)));
        let text: Vec<u8> = (0..60 + random.below(most))
            .flat_map(|_| ["a", "a", "b", "c", "d", "é", " ", "\n"][random.below(8)].bytes())
            .collect();
        let hits = |pack: &Pack, random: &mut Random| {
            let mut stream = pack.stream();
            stream.open(PART, Channel::Text);
            let (mut hits, mut rest) = (Vec::new(), &text[..]);
            while !rest.is_empty() {
                let (delta, after) = rest.split_at(1 + random.below(rest.len().min(9)));
                hits.extend_from_slice(&stream.push(PART, delta));
                rest = after;
            }
            hits.extend_from_slice(&stream.finish());
            let told = |hit: &Hit| {
                let id = pack.rule(hit.rule).id.clone();
                (id, hit.end, hit.decided, stream.excerpt(hit).to_owned())
            };
            let told: Vec<_> = hits.iter().map(told).collect();
            (told, stream.counters().cut_matches)
        };
        let (mut by_themselves, mut cuts) = (Vec::new(), 0);
        for pack in &alone {
            let (told, cut) = hits(pack, &mut random);
            by_themselves.extend(told);
            cuts += cut;
        }
        let (mut told, cut_beside) = hits(&beside, &mut random);
        by_themselves.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, by_themselves, "{rules:#?}\n{}", text.escape_ascii());
        assert_eq!(cut_beside, cuts, "{rules:#?}\n{}", text.escape_ascii());
        found += told.len();
        cut += cuts;
    }
    assert!(found > 50 && cut > 50, "{found} {cut}");
}
