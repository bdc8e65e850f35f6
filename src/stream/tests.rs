//! Streams through their public interface, alone and beside others.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::Action;
use crate::program::LazyMatcher;
use crate::rule::{Pattern, Region};
use ttsr_testing::{Random, scale};

mod waiting;

const PART: PartId = PartId(3);

fn pack() -> Pack {
    let mut rule = Rule::new("t/r", vec![Pattern::literal("bad")]);
    rule.on = vec![Channel::Text];
    Pack::builder().rule(rule).build().unwrap()
}

fn streams(count: usize) -> Vec<Stream> {
    let pack = pack();
    let open = |_| {
        let mut stream = pack.stream();
        stream.open(PART, Channel::Text);
        stream
    };
    (0..count).map(open).collect()
}

#[test]
fn hits_of_a_call_are_not_given_again() {
    let mut streams = streams(2);
    let mut stream = streams.remove(0);
    // A delta is on the fast path only once its states are built, so every text is read more than once.
    for delta in [&b"so bad"[..], b"next", b"next"] {
        let _ = streams[0].push(PART, delta);
    }
    assert_eq!(stream.push(PART, b"so bad").len(), 1);
    assert!(stream.push(PART, b"next").is_empty());
    assert!(stream.hits().is_empty());
    assert_eq!(stream.push(PART, b" bad").len(), 0, "one hit of a rule");
    assert!(stream.push(PART, b"").is_empty());
    assert!(stream.hits().is_empty(), "nothing of an older call is left");
}

#[test]
fn hits_are_gone_through_one_by_one() {
    let mut stream = streams(1).remove(0);
    let mut ends = Vec::new();
    for hit in stream.push(PART, b"so bad") {
        ends.push(hit.end);
    }
    assert_eq!(ends, [6]);
}

#[test]
fn text_after_a_cut_is_counted_and_not_read() {
    let mut streams = streams(2);
    let mut stream = streams.remove(0);
    // A delta is on the fast path only once its states are built, so every text is read more than once.
    for _ in 0..3 {
        let _ = streams[0].push(PART, b"next");
        let _ = stream.push(PART, b"next");
    }
    stream.cut();
    for delta in [&b"next"[..], b"bad"] {
        assert!(stream.push(PART, delta).is_empty());
    }
    assert_eq!(stream.counters().unscanned_bytes, 7);
    assert_eq!(stream.delivered_bytes(PART), 12);
}

#[test]
fn tokens_that_the_host_counts_are_bounded_where_a_part_is_open() {
    let pack = rules("[rule.r]\ndescription = 'd'\non = ['text']\nmatch.limit = { tokens = 10 }");
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    assert!(stream.push(PART, b"Short.").is_empty());
    for (part, tokens, hits) in [
        (PART, 10, 0),
        (PartId(9), 11, 0),
        (PART, 11, 1),
        (PART, 12, 0),
    ] {
        let found = stream.count_tokens(part, tokens).len();
        assert_eq!(found, hits, "{tokens} tokens of {part:?}");
    }
}

#[test]
fn text_that_waits_for_an_exception_is_not_released() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nhold = true\nmatch.any = [{ literal = 'leak' }]\n\
         match.none = [{ literal = 'fine' }]\nmatch.within = { lines = 2 }",
    );
    let mut stream = pack.stream();
    for (delta, hits, released) in [("a ", 0, 2), ("leak here\n", 0, 2), ("x\n", 1, 14)] {
        assert_eq!(stream.push(PART, delta.as_bytes()).len(), hits, "{delta:?}");
        assert_eq!(stream.releasable(PART), released, "{delta:?}");
    }
}

/// Readers advance over text without a match later than it arrives. This changes neither hits nor released text.
#[test]
fn deferred_text_is_released_and_matched_as_if_it_were_read_at_once() {
    let pack = rules(
        "[rule.key]\ndescription = 'd'\non = ['text']\naction = 'redact'\nmatch.any = [{ regex = 'sk-[0-9]{4}' }]\n\
         [rule.count]\ndescription = 'd'\non = ['text']\nmatch.any = [{ word = 'very' }]\nmatch.count = 3\n\
         [rule.prose]\ndescription = 'd'\non = ['text']\nmatch.any = [{ literal = 'sorry', region = 'prose' }]\n\
         [rule.cycle]\ndescription = 'd'\non = ['text']\nmatch.repetition = { unit-chars = [1, 400], times = 4 }",
    );
    let line = "The key sk-12 is no key, and this is very plain text, sk- and all.\n";
    let other = "Another paragraph (with `code sk-1` in it) goes on\nand on, with words sk-123";
    let lines = line.repeat(5);
    // More than is kept, without a repetition.
    let long: String = (0..220).map(|n| format!("word {n} ")).collect();
    let text = [
        line,
        "\n",
        &long,
        "\n\n",
        other,
        " and more\n- an item, very long\n",
        other,
        "4, sorry.\n",
        &lines,
    ]
    .concat();
    assert!(text.len() > 2 * buffers::DEFERRED_BYTES);
    for len in [1, 2, 3, 5, 16, 40, 255, 1023, 1024, 1025, 1300] {
        // The first round builds the product.
        for round in 0..2 {
            let mut stream = pack.stream();
            let mut hits = Vec::new();
            let mut at = 0;
            for delta in text.as_bytes().chunks(len) {
                let found: Vec<Hit> = stream.push(PART, delta).to_vec();
                let arrived = at as u64..(at + delta.len()) as u64;
                assert!(
                    found.iter().all(|hit| arrived.contains(&(hit.decided - 1))),
                    "{found:?}"
                );
                hits.extend(found);
                at += delta.len();
                let mut whole = pack.stream();
                let expected = whole.push(PART, &text.as_bytes()[..at]).to_vec();
                assert_eq!(hits, expected, "{len} {round} {at}");
                assert_eq!(
                    stream.releasable(PART),
                    whole.releasable(PART),
                    "{len} {round} {at}"
                );
            }
            assert!(hits.len() > 3, "{hits:?}");
        }
    }
}

/// Markdown buffers the start of a line, and the readers of the text need not have read it.
#[test]
fn line_starts_are_read_and_released_as_if_each_byte_were_read_at_once() {
    let rules_on = |pattern: &str| {
        rules(&format!(
            "[rule.key]\ndescription = 'd'\non = ['text']\naction = 'redact'\nmatch.any = [{pattern}]\n\
             [rule.count]\ndescription = 'd'\non = ['text']\nmatch.any = [{{ literal = '- a', region = 'prose' }}]\n\
             match.count = 2\n\
             [rule.cycle]\ndescription = 'd'\non = ['text']\nmatch.repetition = {{ unit-chars = [1, 9], times = 9 }}"
        ))
    };
    let packs = [
        "{ regex = 'k[ a-z-]*[0-9]+' }",
        "{ regex = 'k[ a-z-]*[0-9]+', region = 'prose' }",
        "{ regex = 'k[ a-z-]*[0-9]+', region = 'code' }",
        "{ regex = 'k[ a-z-]*[0-9]+', region = 'heading' }",
    ]
    .map(rules_on);
    let text = "Text k\n  and -\n\n- a: k\n- a k 12\n  1. b k\n   3 k\n\n   ```rs\n   k\n   ```\n```\nk\n  7 k 5\n \n  8\n  ```\n\
                k\n\n    9 k\n\nk **b** k\n**b** k\n* * *\n- - a\n1) k 2\nk\n-\n7\n\n----------------\nthe end k\n\n\
                # k 1\nk\n###    \t b 2\nk\n####### 3\n#k 4\n\nk\n#\t\n5\n---\nk\n#  6 k\n## k k\n\nk";
    for pack in &packs {
        let mut deferred = 0;
        for len in [1, 2, 3, 4, 7, 16, 64] {
            for round in 0..3 {
                let (mut stream, mut single) = (pack.stream(), pack.stream());
                let (mut hits, mut expected) = (Vec::new(), Vec::new());
                let mut released = Vec::new();
                let mut end = 0;
                for delta in text.as_bytes().chunks(len) {
                    hits.extend(stream.push(PART, delta).to_vec());
                    for byte in delta.chunks(1) {
                        expected.extend(single.push(PART, byte).to_vec());
                    }
                    assert_eq!(hits, expected, "{len} {round} {end}");
                    end += delta.len() as u64;
                    released.push((end, stream.releasable(PART)));
                    deferred += usize::from(stream.releasable(PART) < end);
                }
                hits.extend(stream.close(PART).to_vec());
                expected.extend(single.close(PART).to_vec());
                assert_eq!(hits, expected, "{len} {round}");
                assert!(released.is_sorted_by_key(|(_, until)| *until));
                let held = hits
                    .iter()
                    .filter_map(|hit| Some((hit, stream.start(hit)?)));
                let mut redacted = 0;
                for (hit, start) in held.filter(|(hit, _)| pack.rule(hit.rule).id.ends_with("/key"))
                {
                    redacted += 1;
                    let early = released.iter().filter(|(end, _)| *end < hit.decided);
                    assert!(
                        early.clone().all(|(_, until)| *until <= start),
                        "{len} {round} {hit:?}"
                    );
                }
                assert!(redacted > 0, "{len} {round}");
            }
        }
        assert!(deferred > 100, "{deferred}");
    }
}

/// One thread makes readers late, which looks a state up, while others add states to the same product.
#[test]
fn readers_are_made_late_while_other_threads_build_transitions() {
    let pack = rules(
        "[rule.key]\ndescription = 'd'\non = ['text']\naction = 'redact'\nmatch.any = [{ regex = 'sk-[0-9]{4}' }]\n\
         [rule.prose]\ndescription = 'd'\non = ['text']\nmatch.any = [{ regex = 's[a-z ]{0,40}y', region = 'prose' }]",
    );
    let (sender, receiver) = mpsc::channel();
    for thread in 0..4 {
        let (pack, sender) = (pack.clone(), sender.clone());
        std::thread::spawn(move || {
            let mut random = Random::new(thread);
            for _ in 0..scale(2_000) {
                let mut stream = pack.stream();
                for _ in 0..4 {
                    let word: Vec<u8> = (0..6).map(|_| random.pick(b"sk-y a e")).collect();
                    let _ = stream.push(PART, &word);
                }
                let _ = stream.push(PART, b" `code`");
                let _ = stream.close(PART);
            }
            sender.send(()).ok();
        });
    }
    for _ in 0..4 {
        let ended = receiver.recv_timeout(Duration::from_secs(100));
        ended.expect("a thread waits for a lock that it holds");
    }
}

#[test]
fn a_repetition_is_seen_without_the_marks_of_headings_whatever_the_cut() {
    let pack = rules(
        "[rule.cycle]\ndescription = 'd'\non = ['text']\nmatch.repetition = { unit-chars = [1, 9], times = 60 }",
    );
    // The lines begin before as much as is kept, and end after it.
    let other: String = (0..120).map(|n| format!("word {n} ")).collect();
    let text = [&*other, "\n\n", &"# and\n## and\n#### and\n".repeat(40)].concat();
    assert!(other.len() < buffers::DEFERRED_BYTES);
    let mut decided = Vec::new();
    for round in 0..2 {
        for len in [1, 2, 3, 5, 16, 64, 250, 251] {
            let mut stream = pack.stream();
            let hits = text
                .as_bytes()
                .chunks(len)
                .flat_map(|delta| stream.push(PART, delta).to_vec());
            let hits: Vec<u64> = hits.map(|hit| hit.decided).collect();
            assert_eq!(hits.len(), 1, "{round} {len}");
            decided.extend(hits);
        }
    }
    // Sixty lines, which are not alike with their marks.
    assert!(decided.iter().all(|&at| at == decided[0]), "{decided:?}");
}

/// A match of at most ten bytes that the rule sees contains marks of a heading, which it does not see.
#[test]
fn text_before_the_marks_of_a_heading_is_released_up_to_what_may_be_a_match() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nhold = true\n\
         match.any = [{ regex = '[a-z][ \\na-z]{0,8}[0-9]', region = 'prose' }]",
    );
    let text = "So many words before it\n\n###                \t       ab 7";
    let start = text.find("e it").expect("words") as u64;
    for len in [1, 2, 3, 5, 16] {
        for round in 0..3 {
            let mut stream = pack.stream();
            let mut hits = Vec::new();
            for delta in text.as_bytes().chunks(len) {
                hits.extend(stream.push(PART, delta).to_vec());
                match hits.first() {
                    Some(hit) => assert_eq!(stream.start(hit), Some(start)),
                    None => assert!(stream.releasable(PART) <= start, "{len} {round}"),
                }
            }
            assert_eq!(hits.len(), 1, "{len} {round}");
        }
    }
}

#[test]
fn code_is_released_up_to_what_may_be_a_match() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nhold = true\n\
         match.any = [{ literal = 'secret', region = 'code' }]",
    );
    let mut stream = pack.stream();
    let _ = stream.push(PART, b"```\nlet x\nof secr");
    assert_eq!(stream.releasable(PART), 13);
}

#[test]
fn text_that_a_rule_on_code_never_sees_does_not_wait() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nhold = true\n\
         match.any = [{ literal = 'secret', region = 'code' }]",
    );
    let mut stream = pack.stream();
    for (delta, released) in [
        ("A line.\n", 8),
        ("Another, with `code`.\n", 30),
        ("```\nsec", 34),
        ("ond\n```\nDone, ", 51),
        ("all of it.\n", 62),
        ("``", 62),
    ] {
        let _ = stream.push(PART, delta.as_bytes());
        assert_eq!(stream.releasable(PART), released, "{delta:?}");
    }
}

#[test]
#[cfg(feature = "unicode")]
fn text_that_a_fold_holds_back_is_not_released() {
    for (folds, text, released) in [
        ("'nfkc'", "x e\u{301}", &[0, 1, 2, 2, 2][..]),
        ("'case'", "x \u{C9}", &[1, 2, 2, 4]),
        ("'invisible'", "x s\u{200B}e", &[1, 2, 2, 2, 2, 2, 2]),
    ] {
        for region in ["", ", region = 'prose'"] {
            let pack = rules(&format!(
                "[rule.r]\ndescription = 'd'\non = ['text']\naction = 'redact'\n\
                 match.any = [{{ literal = 'sec', fold = {folds}{region} }}, \
                 {{ literal = '\u{e9}', fold = {folds}{region} }}]",
            ));
            let mut stream = pack.stream();
            let mut now = Vec::new();
            for byte in text.bytes() {
                let _ = stream.push(PART, &[byte]);
                now.push(stream.releasable(PART));
            }
            assert_eq!(now, released, "{folds}{region}");
        }
    }
}

#[test]
fn a_possible_leaked_token_waits_if_a_rule_holds() {
    let pack = rules("[rule.r]\ndescription = 'd'\non = ['text']\nhold = true\nmatch.leak = true");
    let mut stream = pack.stream();
    for (delta, hits, released) in [
        ("A < b. ", 0, 2),
        ("<|im", 0, 7),
        ("agine ", 0, 7),
        ("that>. t", 0, 24),
        ("o=func", 0, 24),
        ("tions.x", 1, 38),
    ] {
        assert_eq!(stream.push(PART, delta.as_bytes()).len(), hits, "{delta:?}");
        assert_eq!(stream.releasable(PART), released, "{delta:?}");
    }
}

#[test]
fn every_leaked_token_is_taken_out_and_the_rule_hits_once() {
    let pack =
        rules("[rule.r]\ndescription = 'd'\non = ['text']\naction = 'redact'\nmatch.leak = true");
    let mut stream = pack.stream();
    let text = b"Hi<|im_end|> <|im_start|>user and then some more of it, <|im_end|>\n";
    let hits: Vec<_> = stream.push(PART, text).iter().map(|hit| hit.end).collect();
    assert_eq!(hits, [12]);
    let redacted = stream.redactions(PART).iter();
    let redacted: Vec<_> = redacted.map(|it| (it.start, it.end)).collect();
    assert_eq!(redacted, [(2, 12), (13, 25), (56, 66)]);
}

#[test]
fn a_line_too_long_to_be_read_whole_is_decided_where_reading_ends() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\naction = 'redact'\nmatch.unknown-name = {}",
    );
    let text = format!("```rust\nuse foo::bar; // {}", "x".repeat(3000));
    let mut stream = pack.stream();
    let mut ends = Vec::new();
    for byte in text.bytes() {
        let hits = stream.push(PART, &[byte]);
        ends.extend(hits.iter().map(|hit| (hit.end, hit.decided)));
    }
    assert_eq!(ends, [(15, 8 + 1024)]);
    assert_eq!(stream.releasable(PART), text.len() as u64);
    let whole = pack.stream().push(PART, text.as_bytes())[0];
    assert_eq!((whole.end, whole.decided), ends[0]);
}

#[test]
fn empty_deltas_change_nothing_where_tokens_leak() {
    let pack = rules("[rule.r]\ndescription = 'd'\non = ['text', 'tool-input']\nmatch.leak = true");
    for channel in [Channel::Text, Channel::ToolInput] {
        let mut stream = pack.stream();
        stream.open(PART, channel);
        let mut hits = 0;
        for delta in [
            "",
            "{\"a\":\"",
            "",
            "\"",
            ",\"b\":\"\",\"c\":\"<|im_start|>",
            "",
            "<|im_end|>",
            "\"}",
            "",
        ] {
            hits += stream.push(PART, delta.as_bytes()).len();
        }
        hits += stream.close(PART).len();
        assert_eq!(hits, 1, "{channel:?}");
    }
}

#[test]
fn a_name_that_nobody_knows_waits_where_it_is_taken_out() {
    for (of, text, redacted, waits) in [
        ("file", "See `src/b.rs` there.\n", [(5, 13)], 5..13),
        (
            "package",
            "```rust\nuse foo::bar;\nx();\n```\n",
            [(12, 15)],
            8..21,
        ),
    ] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['text']\naction = 'redact'\n\
             match.unknown-name = {{ of = ['{of}'], known = ['a.rs'] }}"
        ));
        let mut stream = pack.stream();
        for (at, byte) in text.bytes().enumerate() {
            let _ = stream.push(PART, &[byte]);
            let released = stream.releasable(PART) as usize;
            if waits.contains(&at) {
                assert!(released <= waits.start, "{of}: {released} bytes at {at}");
            }
        }
        let _ = stream.close(PART);
        let found = stream.redactions(PART).iter();
        let found: Vec<_> = found.map(|it| (it.start, it.end)).collect();
        assert_eq!(found, redacted, "{of}");
        assert_eq!(stream.releasable(PART), text.len() as u64, "{of}");
    }
}

#[test]
fn a_call_that_is_too_long_is_like_no_other() {
    let text = "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\non = ['tool-input']\n\
                match.doom-loop = { times = 2 }";
    let input = br#"{"a":"bcd"}"#;
    for (stretch_bytes, hits, unconfirmed) in [(11, 1, 0), (10, 0, 1)] {
        let limits = crate::Limits {
            stretch_bytes,
            ..crate::Limits::default()
        };
        let pack = Pack::builder().toml("t.toml", text).limits(limits).build();
        let pack = pack.unwrap();
        for size in [1, 3, input.len()] {
            let mut session = pack.session();
            session.begin_turn();
            let mut found = Vec::new();
            for _ in 0..2 {
                let mut stream = session.stream();
                stream.open(PART, Channel::ToolInput);
                for delta in input.chunks(size) {
                    let _ = session.push(&mut stream, PART, delta);
                }
                let _ = session.finish(&mut stream);
                found.push(session.decisions().len());
                assert_eq!(stream.counters().unconfirmed, unconfirmed, "{size}");
            }
            assert_eq!(found, [0, hits], "{stretch_bytes}, pieces of {size}");
        }
    }
}

#[test]
fn the_path_of_a_file_that_is_too_long_is_counted_and_decides_nothing() {
    let mut rule = Rule::new("t/r", vec![Pattern::literal("bad")]);
    rule.on = vec![Channel::ToolInput];
    rule.paths = vec!["*.rs".to_owned()];
    for (path_bytes, hits, long_paths) in [(9, 1, 0), (8, 0, 1)] {
        let limits = crate::Limits {
            path_bytes,
            ..crate::Limits::default()
        };
        let builder = Pack::builder().rule(rule.clone()).limits(limits);
        let mut stream = builder.build().unwrap().stream();
        stream.open(PART, Channel::ToolInput);
        let mut found = 0;
        for delta in br#"{"path":"src/ab.rs","x":"bad"}"#.chunks(4) {
            found += stream.push(PART, delta).len();
        }
        found += stream.finish().len();
        assert_eq!((found, stream.counters().long_paths), (hits, long_paths));
    }
}

#[test]
fn the_start_of_a_match_is_reported_if_it_is_known() {
    for (channel, keys, more, text, start) in [
        ("text", "", "", "a secret ", Some(2)),
        ("text", ", region = 'code'", "", "```\na secret ", None),
        (
            "text",
            ", region = 'code'",
            "match.count = 1",
            "```\na secret ",
            Some(6),
        ),
        ("tool-input", "", "", r#"{"a":"a secret "}"#, None),
        (
            "tool-input",
            "",
            "match.count = 1",
            r#"{"a":"a secret "}"#,
            Some(8),
        ),
    ] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['{channel}']\n\
             match.any = [{{ literal = 'secret'{keys} }}]\n{more}"
        ));
        let mut stream = pack.stream();
        if channel == "tool-input" {
            stream.open(PART, Channel::ToolInput);
        }
        let mut hits = stream.push(PART, text.as_bytes()).to_vec();
        hits.extend_from_slice(&stream.finish());
        assert_eq!(hits.len(), 1, "{text}");
        assert_eq!(stream.start(&hits[0]), start, "{keys} {more} {text}");
    }
}

#[test]
fn an_earlier_match_of_a_delta_takes_the_place_of_a_later_one_and_of_no_other_hit() {
    // Patterns that match single bytes are in a second automaton, which is stepped after the first.
    let pack = rules(
        r"[rule.a]
        description = 'd'
        on = ['text']
        match.any = [{ literal = 'other' }]
        [rule.b]
        description = 'd'
        on = ['text']
        match.any = [{ literal = 'end' }, { regex = '(?-u:\xE2)' }]",
    );
    let text = "other € end";
    for size in [1, 4, text.len()] {
        let mut stream = pack.stream();
        let mut hits = Vec::new();
        for delta in text.as_bytes().chunks(size) {
            hits.extend_from_slice(&stream.push(PART, delta));
        }
        let told: Vec<_> = hits
            .iter()
            .map(|hit| (hit.end, stream.matched(hit)))
            .collect();
        assert_eq!(told, [(5, "other"), (7, "\u{FFFD}")], "pieces of {size}");
    }
}

#[test]
fn bytes_of_no_character_are_counted_once_whatever_rules_want() {
    for more in ["", "match.count = 2"] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.any = [{{ literal = 'ab' }}]\n{more}"
        ));
        let mut stream = pack.stream();
        let _ = stream.push(PART, b"a\xFFb \xC3");
        let _ = stream.finish();
        assert_eq!(stream.counters().invalid_utf8, 2, "{more}");
    }
}

#[test]
fn an_excerpt_begins_with_a_whole_character() {
    let mut stream = streams(1).remove(0);
    let text = format!("{}xbad", "é".repeat(30));
    let hits = stream.push(PART, text.as_bytes()).to_vec();
    assert_eq!(stream.excerpt(&hits[0]), &text[20..]);
}

fn rules(text: &str) -> Pack {
    let text = format!(
        "schema = 1\n[pack]\nname = 't'\ngrants = ['abort', 'consult', 'inject', 'redact', 'retry']\n{text}\n"
    );
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn hits_of_one_delta_are_in_order_also_where_several_views_read_it() {
    let pack = rules(
        "[rule.late]\ndescription = 'd'\non = ['text']\nmatch.any = [{ literal = 'end' }]\n\
         [rule.early]\ndescription = 'd'\non = ['text']\nmatch.any = [{ literal = 'rm', region = 'code' }]",
    );
    let text = "```\nrm x\n```\nso it ends";
    for size in [1, 5, text.len()] {
        let mut stream = pack.stream();
        let mut ends = Vec::new();
        for delta in text.as_bytes().chunks(size) {
            ends.extend(stream.push(PART, delta).iter().map(|hit| hit.end));
        }
        assert_eq!(ends, [6, 22], "pieces of {size}");
    }
}

#[test]
fn the_first_name_of_a_tool_and_of_a_call_stands_and_an_empty_one_is_none() {
    let mut stream = streams(1).remove(0);
    let names = |stream: &Stream| {
        let names = [stream.tool_name(PART), stream.call_id(PART)];
        names.map(|name| name.map(str::to_owned))
    };
    let _ = stream.set_tool(PART, "", "");
    assert_eq!(names(&stream), [None, None]);
    let _ = stream.set_tool(PART, "bash", "");
    assert_eq!(names(&stream), [Some("bash".to_owned()), None]);
    for _ in 0..2 {
        let _ = stream.set_tool(PART, "read", "call-1");
        let _ = stream.set_tool(PART, "", "");
        let _ = stream.set_tool(PART, "", "call-2");
    }
    let both = ["bash", "call-1"].map(|name| Some(name.to_owned()));
    assert_eq!(names(&stream), both);
}

#[test]
fn bytes_behind_a_close_are_counted_also_where_no_rule_reads() {
    let mut stream = streams(1).remove(0);
    let silent = PartId(9);
    stream.open(silent, Channel::Reasoning);
    let _ = stream.push(silent, b"thought");
    assert_eq!(stream.counters().unscanned_bytes, 0);
    let _ = stream.close(silent);
    let _ = stream.push(silent, b"after");
    assert_eq!(stream.counters().unscanned_bytes, 5);
}

#[test]
fn a_bound_on_tool_input_counts_short_deltas_inside_of_strings_too() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\nmatch.limit = { bytes = 20 }\n\
         [rule.s]\ndescription = 'd'\non = ['tool-input']\nmatch.any = [{ literal = 'rm' }]",
    );
    let input = br#"{"content":"so much that it is too much"}"#;
    for size in [1, 3, 16, input.len()] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let mut decided = Vec::new();
        for delta in input.chunks(size) {
            decided.extend(stream.push(PART, delta).iter().map(|hit| hit.decided));
        }
        assert_eq!(decided, [33], "pieces of {size}");
    }
}

#[test]
fn an_excerpt_is_short_and_shows_what_is_behind_as_far_as_it_was_read() {
    let pack = rules(
        "[rule.long]\ndescription = 'd'\non = ['text']\nmatch.any = [{ regex = 'a[b-y]{199}' }]\n\
         [rule.stretch]\ndescription = 'd'\non = ['reasoning']\nmatch.count = 1\n\
         match.any = [{ regex = 'secret' }, { regex = 'secret[^;]*;x' }]",
    );
    let long = format!("{}a{}", "before ".repeat(30), "bcdefghi".repeat(30));
    let mut stream = pack.stream();
    let hits = stream.push(PART, long.as_bytes()).to_vec();
    assert_eq!(hits[0].end, 410);
    assert_eq!(stream.matched(&hits[0]), &long[290..410]);
    assert_eq!(stream.excerpt(&hits[0]), &long[250..410]);

    let held = format!("{}secret {};.", "before ".repeat(30), "behind ".repeat(40));
    let part = PartId(1);
    stream.open(part, Channel::Reasoning);
    let mut hits = stream.push(part, held.as_bytes()).to_vec();
    hits.extend_from_slice(&stream.close(part));
    assert_eq!((hits.len(), hits[0].end), (1, 216));
    assert_eq!(stream.matched(&hits[0]), "secret");
    assert_eq!(stream.excerpt(&hits[0]), &held[170..216 + 96]);
}

#[test]
fn tool_input_in_which_nothing_is_held_is_released_at_once() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\nmatch.any = [{ regex = 'rm -rf' }]",
    );
    let mut stream = pack.stream();
    stream.open(PART, Channel::ToolInput);
    for (delta, released) in [
        (&br#"{"comm"#[..], 6),
        (br#"and":"so rm"#, 17),
        (br" -\u", 19),
        (br"0020", 25),
        (br#"","#, 27),
    ] {
        let _ = stream.push(PART, delta);
        let now = stream.releasable(PART);
        assert_eq!(now, released, "{}", delta.escape_ascii());
    }
}

#[test]
fn input_that_is_nested_too_deep_is_told_at_its_bracket() {
    let limits = crate::Limits {
        json_depth: 2,
        ..crate::Limits::default()
    };
    let mut rule = Rule::new("t/r", vec![Pattern::literal("bad")]);
    rule.on = vec![Channel::ToolInput];
    let pack = Pack::builder().rule(rule).limits(limits).build().unwrap();
    let input = br#"{"a":[ {"b":1}]}"#;
    for size in [1, 2, input.len()] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let limits = input.chunks(size).filter_map(|delta| {
            let _ = stream.push(PART, delta);
            stream.take_limit()
        });
        let expected = Source::Limit {
            name: "json_depth",
            part: PART,
            decided: 8,
        };
        assert_eq!(limits.collect::<Vec<_>>(), [expected], "pieces of {size}");
    }
}

/// The input may name another file as long as it is open, and then the match may be about that file.
#[test]
fn text_that_the_files_so_far_allow_is_held_until_the_end_of_the_call() {
    let pack = rules(
        r"
        [rule.r]
        description = 'd'
        on = ['tool-input']
        action = 'retry'
        hold = true
        match.any = [{ regex = 'key-\w+' }]
        match.count = 1
        [[allow]]
        rules = ['t/r']
        tools = ['write']
        paths = ['fixtures/**']
        reason = 'made up'",
    );
    for (tool, path, hits, decided) in [
        ("write", "fixtures/a", 0, false),
        ("write", "src/a", 1, true),
        ("edit", "fixtures/a", 1, true),
    ] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let input = format!(r#"{{"content":"key-1 ","path":"{path}","x":"#);
        let mut found = stream.push(PART, input.as_bytes()).len();
        found += stream.set_tool(PART, tool, "1").len();
        let is_decided = stream.releasable(PART) == input.len() as u64;
        assert_eq!(is_decided, decided, "{tool} {path}");
        found += stream.finish().len();
        assert_eq!(found, hits, "{tool} {path}");
    }
}

#[test]
fn an_exception_for_files_needs_every_file_of_the_call() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\nargs = ['**.content']\n\
         match.any = [{ literal = 'key-1' }]\n\
         [[allow]]\nrules = ['t/r']\npaths = ['fixtures/**', '!*.env']\nreason = 'made up'",
    );
    let edit = |path: &str, content: &str| format!(r#"{{"path":"{path}","content":"{content}"}}"#);
    for (edits, hits) in [
        ([edit("fixtures/a", "x"), edit("src/a", "key-1")], 1),
        ([edit("src/a", "x"), edit("fixtures/a", "key-1")], 1),
        ([edit("fixtures/a", "key-1"), edit("src/a", "x")], 1),
        ([edit("fixtures/a", "key-1"), edit("fixtures/.env", "x")], 1),
        (
            [edit("fixtures/a", "key-1"), edit("fixtures/b", "key-1")],
            0,
        ),
        ([edit("fixtures/a", "key-1"), edit("fixtures/a", "x")], 0),
    ] {
        let input = format!(r#"{{"edits":[{}]}}"#, edits.join(","));
        for size in [1, 9, 1000] {
            let mut stream = pack.stream();
            stream.open(PART, Channel::ToolInput);
            let mut found = 0;
            for delta in input.as_bytes().chunks(size) {
                found += stream.push(PART, delta).len();
            }
            found += stream.finish().len();
            assert_eq!(found, hits, "{input} in pieces of {size}");
            assert_eq!(stream.counters().unscoped, 0, "{input}");
        }
    }
}

#[test]
fn an_exception_for_a_file_applies_to_its_lines_in_a_patch() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\n\
         match.any = [{ regex = 'key-1', region = 'added' }]\n\
         [[allow]]\nrules = ['t/r']\npaths = ['fixtures/**']\nreason = 'made up'",
    );
    for (file, hits) in [("fixtures/a", 0), ("src/a", 1)] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let patch = format!("*** Begin Patch\n*** Add File: {file}\n+key-1 \n*** End Patch\n");
        let mut found = stream.push(PART, patch.as_bytes()).len();
        found += stream.finish().len();
        assert_eq!(found, hits, "{file}");
    }
}

#[test]
fn matches_beyond_those_that_wait_for_the_file_are_counted() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\npaths = ['*.rs']\nargs = ['content']\n\
         match.any = [{ literal = 'x' }]\nmatch.count = 300\n\
         [rule.s]\ndescription = 'd'\non = ['tool-input']\npaths = ['*.rs']\nargs = ['content']\n\
         match.any = [{ literal = 'x' }]\nmatch.count = 301",
    );
    let mut stream = pack.stream();
    stream.open(PART, Channel::ToolInput);
    let input = format!(r#"{{"content":"{}","path":"a.rs"}}"#, "x".repeat(300));
    let hits = stream.push(PART, input.as_bytes()).to_vec();
    let rules: Vec<_> = hits.iter().map(|hit| &*pack.rule(hit.rule).id).collect();
    assert_eq!(rules, ["t/r"]);
    assert_eq!(stream.counters().unconfirmed, 0);
}

#[test]
fn matches_beyond_those_that_wait_are_redacted() {
    let rule = "[rule.r]\ndescription = 'd'\naction = 'redact'\n";
    let conditions = [
        // They wait for the name of the file, and are decided like the others.
        (
            0,
            "on = ['tool-input']\npaths = ['*.rs']\nargs = ['content']\nmatch.any = [{ literal = 'ab' }]",
        ),
        // For an exception in the same part.
        (
            44,
            "on = ['tool-input']\nmatch = { any = [{ literal = 'ab' }], none = [{ literal = 'zz' }], within = { part = true } }",
        ),
        // For the end of the part.
        (
            44,
            "on = ['tool-input']\nmatch = { any = [{ literal = 'ab' }], last = 100000 }",
        ),
    ];
    let input = format!(r#"{{"content":"{}","path":"a.rs"}}"#, "ab ".repeat(300));
    for (unconfirmed, condition) in conditions {
        for size in [1, 100, 2000] {
            let pack = rules(&format!("{rule}{condition}"));
            let mut stream = pack.stream();
            stream.open(PART, Channel::ToolInput);
            for delta in input.as_bytes().chunks(size) {
                let _ = stream.push(PART, delta);
            }
            let _ = stream.finish();
            let counts = (stream.redactions(PART).len(), stream.counters().unconfirmed);
            assert_eq!(
                counts,
                (300, unconfirmed),
                "{condition} in pieces of {size}"
            );
        }
    }
}

#[test]
fn many_matches_of_a_step_do_not_push_out_those_of_the_step_before() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.within = { message = true }\n\
         match.sequence = [{ literal = 'ab' }, { literal = 'cd' }, { literal = 'ef' }]",
    );
    let (first, second) = (PartId(0), PartId(1));
    // The parts follow each other, or the second one arrives first.
    for order in [[first, second], [second, first]] {
        let mut stream = pack.stream();
        for part in [first, second] {
            stream.open(part, Channel::Text);
        }
        let text = |part| match part == first {
            true => "cd ef ab ".to_owned(),
            false => format!("{}ef ", "cd ".repeat(300)),
        };
        let hits = order.map(|part| stream.push(part, text(part).as_bytes()).len());
        assert_eq!(hits, [0, 1], "{order:?}");
    }
}

#[test]
fn of_what_waits_the_earliest_is_the_hit() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\npaths = ['*.rs']\nargs = ['content']\n\
         match.any = [{ literal = 'b' }, { regex = 'a+' }, { regex = 'c$' }]",
    );
    for size in [1, 4, 100] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let mut ends = Vec::new();
        for delta in br#"{"content":"xab c","path":"a.rs"}"#.chunks(size) {
            ends.extend(stream.push(PART, delta).iter().map(|hit| hit.end));
        }
        assert_eq!(ends, [14], "pieces of {size}");
    }
}

#[test]
fn of_edits_and_commands_nothing_is_released_before_they_are_over() {
    for region in ["added", "shell"] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['tool-input']\nhold = true\n\
             match.any = [{{ regex = 'secret', region = '{region}' }}]"
        ));
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        for delta in [br#"{"content":"some text"#, br#"","command":"ls so me"#] {
            let _ = stream.push(PART, delta);
            assert_eq!(stream.releasable(PART), 0, "{region}");
        }
        let _ = stream.finish();
        assert_eq!(stream.releasable(PART), 42, "{region}");
    }
}

#[test]
fn counts_of_views_are_added_to_the_stream() {
    let counted = |condition: &str, channel: &str, text: &str| {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['{channel}']\nmatch.any = [{{ literal = 'secret', {condition} }}]"
        ));
        let mut stream = pack.stream();
        let channel = match channel {
            "text" => Channel::Text,
            _ => Channel::ToolInput,
        };
        stream.open(PART, channel);
        let _ = stream.push(PART, text.as_bytes());
        let _ = stream.finish();
        stream.counters()
    };
    let added = "region = 'added'";
    let long = "x".repeat(5000);
    let counters = counted(
        added,
        "tool-input",
        &format!(r#"{{"path":"{long}","content":"y"}}"#),
    );
    assert_eq!((counters.long_paths, counters.released_edits), (1, 0));
    let line = "x".repeat(70_000);
    let counters = counted(
        added,
        "tool-input",
        &format!(r#"{{"old":"{line}","new":"y"}}"#),
    );
    assert_eq!((counters.long_paths, counters.released_edits), (0, 1));
    let lines = "x\\n".repeat(70_000);
    let counters = counted(
        added,
        "tool-input",
        &format!(r#"{{"old":"{lines}","new":"y"}}"#),
    );
    assert!(counters.released_edits > 0);
    let many: String = (0..17_000).map(|n| format!("{n}\\n")).collect();
    let both = counted(added, "tool-input", &format!(r#"{{"old":"{many}{line}"}}"#));
    let one = counted(added, "tool-input", &format!(r#"{{"old":"{many}"}}"#));
    // Text held back above the limit once; lines that are too long; lines that were not remembered.
    assert_eq!(
        (one.released_edits, both.released_edits),
        (1 + 617, 1 + 1 + 616)
    );
    let deep = "$(".repeat(40);
    let counters = counted(
        "region = 'shell'",
        "tool-input",
        &format!(r#"{{"cmd":"{deep}"}}"#),
    );
    assert_eq!(counters.cut_commands, 1);
    #[cfg(feature = "unicode")]
    {
        let marks = format!("a{}", "\u{301}".repeat(40));
        let counters = counted("fold = 'nfkc'", "text", &marks);
        assert_eq!(counters.overlong_folds, 1);
    }
}

#[test]
fn garbage_is_quoted_without_the_marks_that_stand_in_it_whatever_the_cut() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\n\
         match.repetition = { unit-chars = [5, 60], times = 4 }",
    );
    let text = format!("The plan, once. {}", "again and `so` on we go. ".repeat(20));
    let mut seen = Vec::new();
    for size in [text.len(), 1, 7, 40] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::Text);
        let mut hits = Vec::new();
        for delta in text.as_bytes().chunks(size) {
            hits.extend_from_slice(&stream.push(PART, delta));
        }
        let matched = hits.iter().map(|hit| stream.matched(hit).to_owned());
        let places = hits
            .iter()
            .map(|hit| (stream.start(hit), hit.end, hit.decided));
        seen.push((places.collect::<Vec<_>>(), matched.collect::<Vec<_>>()));
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:#?}");
    let (places, matched) = &seen[0];
    let (start, end, _) = places[0];
    let garbage = text[start.unwrap() as usize..end as usize].replace('`', "");
    assert!(garbage.ends_with(&matched[0]), "{garbage:?} {matched:?}");
    assert_eq!(matched[0].len(), garbage.len().min(120));
}

#[test]
fn bytes_of_no_character_before_an_escape_end_where_they_stand() {
    let pack = rules(
        r"[rule.r]
        description = 'd'
        on = ['tool-input']
        match.any = [{ regex = '(?-u:\xE2)' }]",
    );
    let input = b"{\"a\":\"\xE2\x82\\u0041\"}";
    for size in [1, 2, input.len()] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let mut places = Vec::new();
        for delta in input.chunks(size) {
            places.extend(
                stream
                    .push(PART, delta)
                    .iter()
                    .map(|hit| (hit.end, hit.decided)),
            );
        }
        assert_eq!(places, [(7, 14)], "pieces of {size}");
    }
}

fn command_pack(action: Action) -> Pack {
    let mut rule = Rule::new("t/push", vec![Pattern::command("git push")]);
    rule.action = action;
    rule.on = vec![Channel::ToolInput];
    Pack::builder().rule(rule).build().unwrap()
}

#[test]
fn a_rule_over_commands_holds_the_input_only_if_it_holds() {
    for (action, released) in [(Action::Observe, 10), (Action::Redact, 0)] {
        let pack = command_pack(action);
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        let _ = stream.set_tool(PART, "bash", "call");
        let _ = stream.push(PART, br#"{"command""#);
        assert_eq!(stream.releasable(PART), released, "{action:?}");
    }
}

#[test]
fn the_matched_text_of_a_command_is_its_words() {
    let pack = command_pack(Action::Observe);
    let mut stream = pack.stream();
    stream.open(PART, Channel::ToolInput);
    let _ = stream.set_tool(PART, "bash", "call");
    let _ = stream.push(PART, br#"{"command": "cd x && git   push origin; ls"}"#);
    let hit = stream.hits()[0];
    assert_eq!(stream.matched(&hit), "git push");
    assert!(stream.excerpt(&hit).contains("git push"));
}

/// Returns the number of matchers of a channel that are not built.
fn unbuilt(pack: &Pack, channel: Channel) -> usize {
    let rules = pack.program().channel(channel).expect("a rule reads it");
    let views = [&rules.raw].into_iter().chain(&rules.views);
    let matchers = views.flat_map(|view| {
        let full = view.full.iter().map(|full| &full.matcher);
        [&view.matcher].into_iter().chain(full)
    });
    let is_unbuilt = |matcher: &&LazyMatcher| format!("{matcher:?}") == "LazyLock(<uninit>)";
    matchers.filter(is_unbuilt).count()
}

#[test]
fn a_matcher_is_built_when_its_view_has_text_or_by_prepare() {
    let rule = |id: &str, region: Region| {
        let mut pattern = Pattern::literal("bad");
        pattern.region = vec![region];
        let mut rule = Rule::new(id, vec![pattern]);
        rule.on = vec![Channel::Text];
        rule
    };
    let mut of_calls = Rule::new("t/calls", vec![Pattern::literal("bad")]);
    of_calls.on = vec![Channel::ToolInput];
    let builder = [
        rule("t/code", Region::Code),
        rule("t/prose", Region::Prose),
        of_calls,
    ]
    .into_iter()
    .fold(Pack::builder(), |builder, rule| builder.rule(rule));
    let pack = builder.build().unwrap();
    let counts = |pack: &Pack| [Channel::Text, Channel::ToolInput].map(|it| unbuilt(pack, it));
    // The channel of text has a matcher for the unchanged text, too.
    assert_eq!(counts(&pack), [3, 1]);
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    let _ = stream.push(PART, b"some prose\n");
    assert_eq!(counts(&pack), [1, 1], "there was no code");
    pack.prepare();
    assert_eq!(counts(&pack), [0, 0]);
    // Building a matcher over bytes may fail, so it is built with the pack.
    let mut bytes = Rule::new("t/bytes", vec![Pattern::regex(r"(?-u:\xFF)")]);
    bytes.on = vec![Channel::Text];
    let pack = Pack::builder().rule(bytes).build().unwrap();
    assert_eq!(unbuilt(&pack, Channel::Text), 0);
}

#[test]
fn a_hit_of_another_stream_has_no_argument_that_this_one_does_not_know() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\naction = 'consult'\n\
         message = '{{ match.text }} in {{ arg }}'\nconsult.prompt = 'May {{ arg }} have it?'\n\
         match.any = [{ literal = 'rm -rf' }]",
    );
    let mut session = pack.session();
    let mut stream = session.stream();
    let _ = session.open(&mut stream, PART, Channel::ToolInput);
    let _ = session.push(&mut stream, PART, br#"{"command": "rm -rf /"}"#);
    let decision = session.decisions()[0];
    let hit = decision.hit().unwrap();
    assert_eq!(stream.arg(&hit), Some("command"));
    assert_eq!(stream.message(&decision), "rm -rf in command");
    assert_eq!(
        stream.consult_prompt(&decision).as_deref(),
        Some("May command have it?")
    );
    let other = session.stream();
    assert_eq!((other.arg(&hit), other.start(&hit)), (None, None));
    assert_eq!((other.excerpt(&hit), other.matched(&hit)), ("", ""));
    assert_eq!(other.message(&decision), " in ");
    assert_eq!(
        other.consult_prompt(&decision).as_deref(),
        Some("May  have it?")
    );
    assert!(other.rule(&decision).is_some());
}
