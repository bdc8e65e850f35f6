//! Inputs that are too large or too many to be cases in a file, and sessions with faults.
//!
//! Sizes are bounded, so that all tests together run in seconds. `TTSR_LONG` adds one that takes longer.

use ttsr::limits::OnLimit;
use ttsr::session::Session;
use ttsr::stream::Counters;
use ttsr::{
    Action, Channel, Hit, Limits, Pack, PartId, Pattern, Rule, Severity, Source, Stream, Verdict,
};

use ttsr_testing::{scale, skip};

const PART: PartId = PartId(0);

const MIB: usize = 1 << 20;

fn literal(text: &str) -> Rule {
    Rule::new("t/found", vec![Pattern::literal(text)])
}

fn pack(rule: Rule) -> Pack {
    Pack::builder().rule(rule).build().unwrap()
}

fn pack_with(rule: Rule, limits: Limits) -> Pack {
    Pack::builder().rule(rule).limits(limits).build().unwrap()
}

fn guard(text: &str) -> Rule {
    let mut rule = literal(text);
    (rule.severity, rule.action) = (Severity::Critical, Action::Abort);
    rule
}

/// Returns the hits of one part that is delivered in deltas of `size` bytes, and the stream for its counters.
fn read(pack: &Pack, channel: Channel, bytes: &[u8], size: usize) -> (Vec<Hit>, Stream) {
    let mut stream = pack.stream();
    let mut hits = Vec::new();
    stream.open(PART, channel);
    for delta in bytes.chunks(size) {
        hits.extend_from_slice(&stream.push(PART, delta));
    }
    hits.extend_from_slice(&stream.close(PART));
    (hits, stream)
}

fn only(hits: &[Hit]) -> (u64, u64) {
    assert_eq!(hits.len(), 1, "{hits:?}");
    (hits[0].end, hits[0].decided)
}

#[test]
fn a_million_empty_deltas_change_nothing() {
    let pack = pack(literal("rm -rf"));
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    assert!(stream.push(PART, b"rm ").is_empty());
    for _ in 0..1_000_000 {
        assert!(stream.push(PART, b"").is_empty());
    }
    assert_eq!(stream.delivered_bytes(PART), 3);
    assert_eq!(only(&stream.push(PART, b"-rf")), (6, 6));
    assert_eq!(stream.counters(), Counters::default());
}

#[test]
fn thirty_two_megabytes_at_once_or_byte_by_byte_hit_at_the_same_place() {
    let pack = pack(literal("rm -rf"));
    let mut text = "some prose, rm -r, and é more.\n".repeat(MIB);
    text.truncate(32 * MIB);
    text.push_str("rm -rf");
    let end = text.len() as u64;
    for size in [text.len(), 1, 4096] {
        let (hits, stream) = read(&pack, Channel::Text, text.as_bytes(), size);
        assert_eq!(only(&hits), (end, end), "in pieces of {size}");
        assert_eq!(
            stream.counters(),
            Counters::default(),
            "in pieces of {size}"
        );
    }
}

#[test]
fn after_a_verdict_that_cuts_nothing_is_read_and_nothing_is_decided() {
    let pack = pack(guard("rm -rf"));
    let mut session = pack.session();
    session.begin_turn();
    let mut stream = session.stream();
    let verdict = session.push(&mut stream, PartId(9), b"rm -rf");
    assert!(matches!(verdict, Verdict::Act(decision) if decision.action == Action::Abort));
    for part in [PartId(9), PartId(10)] {
        assert_eq!(
            session.push(&mut stream, part, b"rm -rf"),
            Verdict::Continue
        );
        assert_eq!(session.close(&mut stream, part), Verdict::Continue);
    }
    assert_eq!(stream.counters().unscanned_bytes, 12);
}

#[test]
fn parts_past_the_limit_end_the_reply_or_are_counted() {
    let limits = Limits {
        parts: 1000,
        ..Limits::default()
    };
    let open_many = |session: &mut Session, stream: &mut Stream| {
        (0..5000)
            .map(|part| session.open(stream, PartId(part), Channel::Text))
            .collect::<Vec<_>>()
    };
    let mut session = pack_with(literal("x"), limits.clone()).session();
    let mut stream = session.stream();
    let verdicts = open_many(&mut session, &mut stream);
    let first = verdicts
        .iter()
        .position(|verdict| *verdict != Verdict::Continue);
    assert_eq!(first, Some(1000));
    assert_eq!(limit(verdicts[1000]), "parts");
    assert_eq!(
        verdicts
            .iter()
            .filter(|verdict| **verdict != Verdict::Continue)
            .count(),
        1
    );

    let on_limit = OnLimit::Continue;
    let mut session = pack_with(literal("x"), Limits { on_limit, ..limits }).session();
    let mut stream = session.stream();
    assert!(
        open_many(&mut session, &mut stream)
            .iter()
            .all(|one| *one == Verdict::Continue)
    );
    assert_eq!(
        session.push(&mut stream, PartId(4999), b"axb"),
        Verdict::Continue
    );
    assert_eq!(stream.counters().unscanned_bytes, 3);
    assert!(matches!(
        session.push(&mut stream, PartId(999), b"axb"),
        Verdict::Act(_)
    ));
}

fn limit(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Act(decision) => match decision.source {
            Source::Limit { name, .. } => name,
            source => panic!("no limit: {source:?}"),
        },
        Verdict::Continue => panic!("no decision"),
    }
}

#[test]
fn input_cut_off_anywhere_keeps_what_was_matched() {
    let pack = pack(literal("rm -rf"));
    let input = r#"{"a":[1,true,{"b\u0063":"\ud83d\ude00"}],"command":"\u0072m -rf / \\","n":-1.5e3,"z":null}"#;
    let (hits, _) = read(&pack, Channel::ToolInput, input.as_bytes(), input.len());
    let (end, decided) = only(&hits);
    for length in 0..=input.len() {
        for size in [1, input.len()] {
            let (hits, stream) = read(&pack, Channel::ToolInput, &input.as_bytes()[..length], size);
            let is_there = length as u64 >= decided;
            assert_eq!(
                !hits.is_empty(),
                is_there,
                "{length} bytes in pieces of {size}"
            );
            assert!(!is_there || only(&hits) == (end, decided));
            assert_eq!(stream.counters().unscanned_bytes, 0);
        }
    }
}

#[test]
fn a_million_brackets_end_the_reply_or_are_read_as_they_are() {
    let input = [&b"{\"a\":"[..], &vec![b'['; 1_000_000], b"\"rm -rf\""].concat();
    let decide = |limits: Limits| {
        let mut session = pack_with(literal("rm -rf"), limits).session();
        let mut stream = session.stream();
        let _ = session.open(&mut stream, PART, Channel::ToolInput);
        (session.push(&mut stream, PART, &input), stream.counters())
    };
    let (verdict, counters) = decide(Limits::default());
    // The rule only injects, so the limit is what cuts.
    assert_eq!((limit(verdict), counters.too_deep), ("json_depth", 1));
    let on_limit = OnLimit::Continue;
    let (verdict, counters) = decide(Limits {
        on_limit,
        ..Limits::default()
    });
    let Verdict::Act(decision) = verdict else {
        panic!("no hit past the limit")
    };
    assert_eq!(
        (decision.action, decision.decided()),
        (Action::Inject, input.len() as u64 - 1)
    );
    assert_eq!((counters.too_deep, counters.unscanned_bytes), (1, 0));
}

#[test]
fn a_huge_key_a_huge_value_and_a_hundred_thousand_keys_hit_at_the_same_place() {
    let pack = pack(literal("rm -rf"));
    let key = format!("{{\"{}\":\"rm -rf\"}}", "k".repeat(8 * MIB));
    let value = format!("{{\"a\":\"{}rm -rf\"}}", "a \\n\\u0072m -r".repeat(MIB));
    let mut keys: String = (0..100_000).map(|n| format!("\"k{n}\":{n},")).collect();
    keys = format!("{{{keys}\"a\":\"rm -rf\"}}");
    for (input, long_paths) in [(key, 1), (value, 0), (keys, 0)] {
        let end = input.len() as u64 - 2;
        for size in [input.len(), 7] {
            let (hits, stream) = read(&pack, Channel::ToolInput, input.as_bytes(), size);
            assert_eq!(
                only(&hits),
                (end, end),
                "{} in pieces of {size}",
                &input[..10]
            );
            let expected = (long_paths, 0, 0);
            let counters = stream.counters();
            let found = (
                counters.long_paths,
                counters.malformed_json,
                counters.unscanned_bytes,
            );
            assert_eq!(found, expected, "{}", &input[..10]);
        }
    }
}

#[test]
fn a_number_of_a_million_digits_is_kept_as_it_is() {
    let pack = pack(literal("98"));
    let input = format!("{{\"n\":{}98}}", "7".repeat(1_000_000));
    let (hits, stream) = read(&pack, Channel::ToolInput, input.as_bytes(), 1000);
    assert_eq!(only(&hits).0, input.len() as u64 - 1);
    assert_eq!(stream.counters(), Counters::default());
}

#[test]
fn patterns_that_make_backtrackers_hang_are_linear() {
    let mut text = vec![b'a'; 4 * MIB];
    text.push(b'!');
    for pattern in ["(a+)+$", "(a|aa)*b", "(.*)*x", "(a*)*[^a]$"] {
        let text_of_rule = pattern.to_owned();
        let rule = Rule::new("t/r", vec![Pattern::regex(text_of_rule)]);
        let (hits, _) = read(&pack(rule), Channel::Text, &text, 1000);
        let expected = usize::from(pattern.ends_with("[^a]$"));
        assert_eq!(hits.len(), expected, "{pattern}");
    }
}

/// Returns a text that visits many states of the pattern, from a small generator with this seed.
fn bits(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        b"0001111x"[(state >> 61) as usize]
    };
    (0..length).map(|_| next()).collect()
}

const EXPONENTIAL: &str = "[01]*1[01]{20}";

#[test]
fn an_exponential_pattern_hits_where_regex_does_whatever_its_budget() {
    let regex = regex::bytes::Regex::new(EXPONENTIAL).unwrap();
    for table_bytes in [1, 64 << 10, 64 << 20] {
        let limits = Limits {
            table_bytes,
            ..Limits::default()
        };
        let rule = Rule::new("t/r", vec![Pattern::regex(EXPONENTIAL)]);
        let pack = pack_with(rule, limits);
        for seed in 0..scale(100) as u64 {
            let text = bits(seed, 400);
            let first = (0..=text.len()).find(|end| regex.is_match(&text[..*end]));
            for size in [1, 400] {
                let (hits, _) = read(&pack, Channel::Text, &text, size);
                let found = hits.first().map(|hit| hit.end as usize);
                assert_eq!(found, first, "{table_bytes} bytes, seed {seed}, {size}");
            }
        }
    }
}

#[test]
fn threads_that_share_rules_and_reload_them_find_what_one_finds() {
    let limits = Limits {
        // So small that tables are filled and replaced while the threads use them.
        table_bytes: 64 << 10,
        ..Limits::default()
    };
    let packs = [EXPONENTIAL, "x[01]{3}x"].map(|pattern| {
        let rule = Rule::new("t/r", vec![Pattern::regex(pattern)]);
        pack_with(rule, limits.clone())
    });
    let texts: Vec<Vec<u8>> = (0..16).map(|seed| bits(seed, 300)).collect();
    // Collects the decisions for each text while the pack is replaced before every reply.
    let decide = |turn: usize| {
        let mut session = packs[turn % 2].session();
        let ends = texts.iter().enumerate().map(|(number, text)| {
            let _ = session.reload(packs[(turn + number) % 2].clone());
            session.begin_turn();
            let mut stream = session.stream();
            let _ = session.open(&mut stream, PART, Channel::Text);
            let mut decided = None;
            for delta in text.chunks(5) {
                let _ = session.push(&mut stream, PART, delta);
                decided = decided.or(session.decisions().first().map(|one| one.decided()));
            }
            decided
        });
        ends.collect::<Vec<_>>()
    };
    let alone = [decide(0), decide(1)];
    assert!(alone.iter().flatten().any(Option::is_some));
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (decide, alone) = (&decide, &alone);
            scope.spawn(move || {
                for turn in thread..thread + scale(30) {
                    assert_eq!(decide(turn), alone[turn % 2], "thread {thread}");
                }
            });
        }
    });
}

#[test]
fn what_is_forgotten_or_dropped_in_any_order_hangs_nobody() {
    let rules = pack(literal("rm -rf"));
    let mut session = rules.session();
    let mut forgotten = session.stream();
    let mut kept = session.stream();
    for stream in [&mut forgotten, &mut kept] {
        let _ = session.push(stream, PART, b"rm -");
    }
    std::mem::forget(forgotten);
    // The pack and the session are dropped first. A stream owns everything that it needs, on any thread.
    let other = rules.clone();
    drop((rules, session));
    let hits = std::thread::spawn(move || kept.push(PART, b"rf").to_vec());
    assert_eq!(only(&hits.join().unwrap()), (6, 6));
    let (hits, _) = read(&other, Channel::Text, b"rm -rf", 1);
    assert_eq!(only(&hits), (6, 6));
}

#[cfg(unix)]
#[test]
fn a_process_that_is_started_between_two_deltas_changes_nothing() {
    let pack = pack(literal("rm -rf"));
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    for delta in ["r", "m ", "-"] {
        assert!(stream.push(PART, delta.as_bytes()).is_empty());
        let status = std::process::Command::new("true").status().unwrap();
        assert!(status.success());
    }
    assert_eq!(only(&stream.push(PART, b"rf")), (6, 6));
}

#[test]
fn offsets_of_an_unwatched_part_pass_32_bits() {
    let mut rule = literal("x");
    rule.on = vec![Channel::Reasoning];
    let pack = pack(rule);
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    let block = vec![b'x'; 64 * MIB];
    for _ in 0..80 {
        assert!(stream.push(PART, &block).is_empty());
    }
    assert_eq!(stream.delivered_bytes(PART), 5 << 30);
    assert_eq!(stream.counters(), Counters::default());
}

#[test]
fn offsets_of_hits_pass_32_bits() {
    // It reads 5 GiB.
    if skip::unless_set("TTSR_LONG").is_none() {
        return;
    }
    let pack = pack(literal("rm -rf"));
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    let block = vec![b'.'; 64 * MIB];
    for _ in 0..80 {
        assert!(stream.push(PART, &block).is_empty());
    }
    let end = (5 << 30) + 6;
    assert_eq!(only(&stream.push(PART, b"rm -rf")), (end, end));
}
