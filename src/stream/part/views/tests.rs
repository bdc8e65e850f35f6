//! Rules with regions and folds, under every split.

use std::time::Duration;

use crate::pack::Pack;
use crate::rule::Channel;
use crate::session::Session;
use crate::verdict::PartId;

const PART: PartId = PartId(0);

/// A pack with one rule, from its TOML.
fn pack(on: &str, condition: &str, more: &str) -> Pack {
    let text = format!(
        "schema = 1\n[pack]\nname = \"t\"\ngrants = [\"inject\", \"redact\"]\n[rule.r]\ndescription = \"d\"\n\
         on = [\"{on}\"]\n{condition}\n{more}\nexamples.match = [\"x\"]\n"
    );
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The matched text of each hit, with its end and the byte at which it was certain.
fn read(pack: &Pack, channel: Channel, text: &[u8], cuts: &[usize]) -> Vec<(String, u64, u64)> {
    let mut stream = pack.stream();
    stream.open(PART, channel);
    let _ = stream.set_tool(PART, "write", "call");
    let mut hits = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        hits.extend_from_slice(&stream.push(PART, &text[from..to]));
        from = to;
    }
    hits.extend_from_slice(&stream.finish());
    assert_eq!(stream.counters().unscanned_bytes, 0);
    let told = hits
        .iter()
        .map(|hit| (stream.matched(hit).to_owned(), hit.end, hit.decided));
    told.collect()
}

/// Reads the text whole, byte by byte and at every two-way cut.
fn check(pack: &Pack, channel: Channel, text: &str, expected: &[&str]) {
    let whole = read(pack, channel, text.as_bytes(), &[]);
    let matched: Vec<&str> = whole.iter().map(|hit| hit.0.as_str()).collect();
    assert_eq!(matched, expected, "{text:?}: {whole:?}");
    let bytes: Vec<usize> = (1..text.len()).collect();
    assert_eq!(
        read(pack, channel, text.as_bytes(), &bytes),
        whole,
        "{text:?} byte by byte"
    );
    for cut in 1..text.len() {
        let came = read(pack, channel, text.as_bytes(), &[cut]);
        assert_eq!(came, whole, "{text:?} cut at {cut}");
    }
}

const TEXT: &str =
    "Never `rm -rf /`, says rm.\n\n```rust\nlet rm = 1; // rm it\n```\n\n> rm\n\n# rm here\n";

#[test]
fn regions_of_markdown_are_told_apart() {
    for (region, pattern, expected) in [
        ("prose", "rm.", &["rm."][..]),
        ("code", r"rm\b.*", &["rm = 1; // rm it"]),
        ("code:rust", r"= \d", &["= 1"]),
        ("code:python", "rm", &[]),
        ("inline-code", "rm -rf /", &["rm -rf /"]),
        ("quote", "rm", &["rm"]),
        ("heading", "rm h", &["rm h"]),
        ("comment", "rm it", &["rm it"]),
        ("code-only", "// rm", &[]),
    ] {
        let pack = pack(
            "text",
            &format!("match.any = [{{ regex = '{pattern}', region = \"{region}\" }}]"),
            "match.first = 1000",
        );
        check(&pack, Channel::Text, TEXT, expected);
    }
}

#[test]
fn first_ends_are_reported_in_regions_too() {
    let pack = pack(
        "text",
        "match.any = [{ literal = 'rm', region = 'code' }]",
        "",
    );
    let whole = read(&pack, Channel::Text, TEXT.as_bytes(), &[]);
    let end = TEXT.find("rm = 1").unwrap() as u64 + 2;
    assert_eq!(whole, [("rm".to_owned(), end, end)]);
    check(&pack, Channel::Text, TEXT, &["rm"]);
}

#[test]
fn a_region_ends_with_its_last_byte_and_that_is_certain_with_the_next() {
    let mut wrong = Vec::new();
    for (region, pattern, text, expected) in [
        ("inline-code", "x$", "a `rm x` b", (7, 9)),
        ("inline-code", "x$", "a `rm x` b `y`", (7, 9)),
        ("code", "x$", "```\nrm x", (8, 8)),
        ("code", r"(?m)x\n\z", "```\nrm x\n```\nmore `x`", (9, 13)),
        ("prose", "x.$", "rm x `y` x", (5, 9)),
    ] {
        let pack = pack(
            "text",
            &format!("match.any = [{{ regex = '{pattern}', region = \"{region}\" }}]"),
            "",
        );
        let bytes: Vec<usize> = (1..text.len()).collect();
        for cuts in [&[][..], &bytes] {
            let hits = read(&pack, Channel::Text, text.as_bytes(), cuts);
            let places: Vec<_> = hits.iter().map(|hit| (hit.1, hit.2)).collect();
            if places != [expected] {
                wrong.push(format!("{pattern} in {region} of {text:?}: {places:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_view_that_is_open_at_the_end_of_a_part_ends_with_it() {
    let shell = |pattern: &str, arg: &str| {
        let condition = format!("match.any = [{{ regex = '{pattern}', region = 'shell' }}]");
        pack("tool-input", &condition, &format!("args = ['{arg}']"))
    };
    let list = r#"{"script":"ls","command":["rm","-rf"]}"#;
    let broken = r#"{"command":["rm","-rf""#;
    for (pattern, arg, input, expected) in [
        ("-rf$", "command", list, &["-rf"][..]),
        ("-rf$", "script", list, &[]),
        ("-rf$", "command", broken, &["-rf"]),
        ("^ls$", "script", list, &["ls"]),
    ] {
        check(&shell(pattern, arg), Channel::ToolInput, input, expected);
    }
    let added = pack(
        "tool-input",
        "match.any = [{ regex = 'unwrap\\(\\)$', region = 'added' }]",
        "",
    );
    for input in [
        r#"{"path":"a.rs","new_string":"b.unwrap()"}"#,
        r#"{"path":"a.rs","new_string":"b.unwrap()"#,
        "*** Begin Patch\n*** Add File: b.rs\n+w.unwrap()",
    ] {
        check(&added, Channel::ToolInput, input, &["unwrap()"]);
    }
    let names =
        rules("[rule.r]\ndescription = 'd'\non = ['text', 'tool-input']\nmatch.unknown-name = {}");
    for text in ["```python\nimport numpyy", "```python\nimport numpyy\n```"] {
        check(&names, Channel::Text, text, &["numpyy"]);
    }
}

#[test]
fn every_value_is_watched_by_itself() {
    let pack = rules("[rule.r]\ndescription = 'd'\non = ['tool-input']\nmatch.leak = true");
    for (input, expected) in [
        (r#"{"a":"return 1<|endoftext|> or <|endoftext|>"}"#, 1),
        (
            r#"{"a":"return 1<|endoftext|>","b":" or <|endoftext|>"}"#,
            0,
        ),
        (
            r#"{"a":"1<|endoftext|>","b":" or <|endoftext|> or <|endoftext|>"}"#,
            1,
        ),
    ] {
        let hits = read(&pack, Channel::ToolInput, input.as_bytes(), &[]);
        assert_eq!(hits.len(), expected, "{input}: {hits:?}");
    }
}

#[test]
fn a_name_declared_in_code_is_known_after_a_comment_that_another_rule_reads() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.unknown-name = {}\n\
         [rule.c]\ndescription = 'd'\non = ['text']\n\
         match.any = [{ literal = 'TODO', region = 'comment' }]",
    );
    let text = "```rust\nmod local; // TODO\nuse local::x;\nuse elsewhere::y;\n```\n";
    check(&pack, Channel::Text, text, &["TODO", "elsewhere"]);
}

#[test]
fn unchanged_lines_of_an_edit_are_not_added() {
    let added = pack(
        "tool-input",
        "match.any = [{ literal = 'unwrap()', region = 'added' }]",
        "paths = ['**/*.rs']",
    );
    let same = r#"{"path":"src/a.rs","old_string":"a.unwrap()\nb","new_string":"a.unwrap()\nc"}"#;
    check(&added, Channel::ToolInput, same, &[]);
    let new = r#"{"path":"src/a.rs","old_string":"a\nb","new_string":"a\nb.unwrap()"}"#;
    check(&added, Channel::ToolInput, new, &["unwrap()"]);
    let patch = "*** Begin Patch\n*** Update File: a.md\n@@\n-x\n+y.unwrap()\n*** Update File: b.rs\n@@\n \
                 z.unwrap()\n+w.unwrap()\n*** End Patch\n";
    check(&added, Channel::ToolInput, patch, &["unwrap()"]);
    let hit = read(&added, Channel::ToolInput, patch.as_bytes(), &[]);
    assert_eq!(hit[0].1 as usize, patch.find("+w.unwrap()").unwrap() + 11);
}

#[test]
fn commands_are_seen_through_quotes_and_words_are_not_commands() {
    let shell = pack(
        "tool-input",
        "match.any = [{ regex = '^rm -rf', region = 'shell' }]",
        "",
    );
    let told = r#"{"command":"echo rm -rf / && git commit -m 'rm -rf'"}"#;
    check(&shell, Channel::ToolInput, told, &[]);
    let run = r#"{"command":"cd /tmp && r''m  \"-rf\" /"}"#;
    check(&shell, Channel::ToolInput, run, &["rm -rf"]);
}

#[test]
fn commands_are_those_of_the_arguments_that_a_rule_names() {
    let shell = |arg: &str| {
        let condition = "match.any = [{ regex = '^rm -rf', region = 'shell' }]";
        pack("tool-input", condition, &format!("args = ['{arg}']"))
    };
    let one = r#"{"command":"rm -rf a; ls","script":"ls"}"#;
    check(&shell("command"), Channel::ToolInput, one, &["rm -rf"]);
    check(&shell("script"), Channel::ToolInput, one, &[]);
    // The command of a list ends when another value begins, and still belongs to the list.
    let words = r#"{"command":["rm","-rf","a"],"script":"ls","x":1}"#;
    check(&shell("command"), Channel::ToolInput, words, &["rm -rf"]);
    check(&shell("script"), Channel::ToolInput, words, &[]);
    let last = r#"{"script":"ls","command":["rm","-rf"]}"#;
    check(&shell("command"), Channel::ToolInput, last, &["rm -rf"]);
    check(&shell("script"), Channel::ToolInput, last, &[]);
}

#[test]
fn folds_are_not_told_apart_and_offsets_are_those_of_what_was_delivered() {
    let text = "please RM\u{200b} -rf it";
    let folded = pack(
        "text",
        "match.any = [{ literal = 'rm -RF', fold = ['case', 'invisible'] }]",
        "",
    );
    check(&folded, Channel::Text, text, &["rm -rf"]);
    let end = text.find(" it").unwrap() as u64;
    assert_eq!(read(&folded, Channel::Text, text.as_bytes(), &[])[0].1, end);
    let plain = pack("text", "match.any = [{ literal = 'rm -RF' }]", "");
    check(&plain, Channel::Text, text, &[]);
}

#[test]
fn an_exception_in_the_same_region_counts() {
    let pack = pack(
        "text",
        "match.any = [{ literal = 'leak', region = 'code' }]",
        "match.none = [{ literal = 'allowed', region = 'code' }]",
    );
    check(
        &pack,
        Channel::Text,
        "leak\n```\nleak // allowed\n```\nallowed",
        &[],
    );
    check(
        &pack,
        Channel::Text,
        "leak\n```\nleak //\n```\nallowed",
        &["leak"],
    );
}

fn rules(text: &str) -> Pack {
    let text =
        format!("schema = 1\n[pack]\nname = \"t\"\ngrants = [\"inject\", \"retry\"]\n{text}\n");
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn an_allowed_match_does_not_count_and_the_next_one_does() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text', 'tool-input']\nmatch.any = [{ regex = 'key-\\w+' }]\n\
         examples.match = ['key-1']\n\
         [[allow]]\nrules = ['t/r']\ntext = ['key-example*']\nreason = 'made up'\n\
         [[allow]]\nrules = ['t/*']\npaths = ['fixtures/**']\nreason = 'test vectors'",
    );
    check(
        &pack,
        Channel::Text,
        "key-example1 and key-real",
        &["key-real"],
    );
    check(&pack, Channel::Text, "key-example1 only", &[]);
    for (path, expected) in [("fixtures/a", &[][..]), ("src/a", &["key-real"])] {
        let late = format!(r#"{{"content":"key-real","path":"{path}"}}"#);
        check(&pack, Channel::ToolInput, &late, expected);
    }
}

#[test]
fn detectors_find_under_every_split_what_rules_ask_for() {
    let loops = "again and again we go round. ".repeat(12);
    let fence = "```python\nimport numpyy\nimport os\n```\n";
    for (on, condition, text, hits) in [
        (
            "text",
            "match.repetition = { unit-chars = [5, 60], times = 4 }",
            &*loops,
            1,
        ),
        (
            "text",
            "match.repetition = { unit-chars = [5, 60], times = 4 }",
            "once upon a time",
            0,
        ),
        ("text", "match.leak = true", "so <|im_start|>assistant", 1),
        ("text", "match.leak = true", "an <em>open</em> tag", 0),
        ("text", "match.unknown-name = {}", fence, 1),
        (
            "text",
            "match.unknown-name = { known = ['numpyy'] }",
            fence,
            0,
        ),
        ("text", "match.limit = { bytes = 10 }", "0123456789a", 1),
        ("text", "match.limit = { lines = 2 }", "a\nb\n", 0),
    ] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['{on}']\n{condition}\nexamples.match = ['x']"
        ));
        let whole = read(&pack, Channel::Text, text.as_bytes(), &[]);
        assert_eq!(whole.len(), hits, "{condition} on {text:?}");
        for cut in 1..text.len() {
            let came = read(&pack, Channel::Text, text.as_bytes(), &[cut]);
            assert_eq!(came, whole, "{condition} on {text:?}, cut at {cut}");
        }
    }
}

#[test]
fn time_is_told_and_bounded() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.limit = { stall = 2 }\nexamples.match = ['x']",
    );
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    assert!(stream.push(PART, b"word").is_empty());
    assert!(stream.tick(Duration::from_millis(1900)).is_empty());
    assert_eq!(stream.tick(Duration::from_millis(2100)).len(), 1);
}

#[test]
fn matches_are_counted_over_a_turn_and_not_those_of_a_reply_that_was_cut() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.any = [{ word = 'sorry' }]\n\
         match.count = 2\nmatch.per = 'turn'\naction = 'observe'\nexamples.match = ['sorry sorry']\n\
         [rule.cut]\ndescription = 'd'\non = ['text']\nmatch.any = [{ word = 'bad' }]\naction = 'retry'\n\
         examples.match = ['bad']",
    );
    let mut session = pack.session();
    session.begin_turn();
    let reply = |session: &mut Session, text: &str| {
        let mut stream = session.stream();
        let _ = session.push(&mut stream, PART, text.as_bytes());
        let before = session.decisions().len();
        let _ = session.finish(&mut stream);
        before + session.decisions().len()
    };
    assert_eq!(
        reply(&mut session, "sorry bad"),
        1,
        "cut: its match is taken back"
    );
    assert_eq!(reply(&mut session, "sorry, "), 0);
    let (mut restored, lost) = pack.restore(&session.snapshot());
    assert!(lost.is_empty());
    assert_eq!(reply(&mut session, "sorry "), 1);
    assert_eq!(
        reply(&mut restored, "sorry "),
        1,
        "a restored session counts on"
    );
    session.begin_turn();
    assert_eq!(reply(&mut session, "sorry "), 0);
}

#[test]
fn matches_are_counted_over_a_part_a_message_a_turn_and_a_session() {
    for (per, times, expected) in [
        ("part", 2, [0, 0, 0]),
        ("message", 2, [1, 0, 0]),
        ("turn", 3, [0, 1, 0]),
        ("session", 4, [0, 0, 1]),
    ] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.any = [{{ word = 'sorry' }}]\n\
             match.count = {times}\nmatch.per = '{per}'\naction = 'observe'\n\
             examples.match = ['sorry sorry sorry sorry']"
        ));
        let mut session = pack.session();
        let mut found = [0; 3];
        for (at, (begins, parts)) in [(true, 2), (false, 1), (true, 1)].into_iter().enumerate() {
            if begins {
                session.begin_turn();
            }
            let mut stream = session.stream();
            for part in 0..parts {
                let _ = session.open(&mut stream, PartId(part), Channel::Text);
                let _ = session.push(&mut stream, PartId(part), b"sorry.");
                found[at] += session.decisions().len();
                let _ = session.close(&mut stream, PartId(part));
                found[at] += session.decisions().len();
            }
            let _ = session.finish(&mut stream);
            found[at] += session.decisions().len();
        }
        assert_eq!(found, expected, "per {per}");
    }
}

#[test]
fn the_same_call_again_and_again_is_a_loop() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\nmatch.doom-loop = { times = 3 }\n\
         examples.match = ['x']",
    );
    let mut session = pack.session();
    session.begin_turn();
    let mut hits = Vec::new();
    for input in [
        r#"{"a":1,"b":2}"#,
        r#"{ "b": 2, "a": 1 }"#,
        r#"{"a":1,"b":2}"#,
    ] {
        let mut stream = session.stream();
        stream.open(PART, Channel::ToolInput);
        let _ = session.set_tool(&mut stream, PART, "read", "call");
        let _ = session.push(&mut stream, PART, input.as_bytes());
        let _ = session.finish(&mut stream);
        hits.push(session.decisions().len());
    }
    assert_eq!(hits, [0, 0, 1]);
}

#[test]
fn hits_of_detectors_say_where_the_garbage_begins_and_quote_it() {
    let (head, unit) = ("Here is the plan, once. ", "again and again we go round. ");
    for (condition, text, start, quoted) in [
        (
            "match.repetition = { unit-chars = [5, 60], times = 4 }",
            format!("{head}{}", unit.repeat(12)),
            // The full stop and the space before the first repetition repeat, too; one repetition is worth keeping.
            head.len() - 2 + unit.len(),
            "again and again",
        ),
        (
            "match.leak = true",
            "so <|im_start|>assistant".to_owned(),
            3,
            "<|im_start|>",
        ),
        (
            "match.unknown-name = {}",
            "```python\nimport numpyy\n```\n".to_owned(),
            17,
            "numpyy",
        ),
        (
            "match.script = { expect = ['en'] }",
            "\u{44d}\u{442}\u{43e} ".repeat(40),
            0,
            "\u{44d}\u{442}\u{43e}",
        ),
    ] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['text']\n{condition}\nexamples.match = ['x']"
        ));
        let whole = read(&pack, Channel::Text, text.as_bytes(), &[]);
        assert_eq!(whole.len(), 1, "{condition}");
        assert!(whole[0].0.contains(quoted), "{condition}: {:?}", whole[0]);
        for size in [1, 3, 50] {
            let cuts: Vec<usize> = (1..text.len()).filter(|at| at % size == 0).collect();
            let came = read(&pack, Channel::Text, text.as_bytes(), &cuts);
            assert_eq!(came, whole, "{condition} in pieces of {size}");
        }
        let mut stream = pack.stream();
        let mut hits = stream.push(PART, text.as_bytes()).to_vec();
        hits.extend_from_slice(&stream.finish());
        assert_eq!(stream.start(&hits[0]), Some(start as u64), "{condition}");
    }
}

#[test]
fn a_near_duplicate_is_found_if_a_rule_asks_for_it() {
    let lines: String = (0..14)
        .map(|n| {
            format!("Let me check the file number {n} and then decide what to do with all of it.\n")
        })
        .collect();
    for (near, hits) in [("false", 0), ("true", 1)] {
        let pack = rules(&format!(
            "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.repetition = {{ near = {near} }}"
        ));
        let whole = read(&pack, Channel::Text, lines.as_bytes(), &[]);
        assert_eq!(whole.len(), hits, "near = {near}: {whole:?}");
        for cut in (1..lines.len()).step_by(17) {
            assert_eq!(read(&pack, Channel::Text, lines.as_bytes(), &[cut]), whole);
        }
    }
}

#[test]
fn replies_that_say_the_same_in_a_row_are_found_over_a_restored_session() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text', 'reasoning']\nmatch.repetition = { turns = 3 }",
    );
    let reply = |session: &mut Session, channel: Channel, text: &str| {
        session.begin_turn();
        let mut stream = session.stream();
        stream.open(PART, channel);
        let _ = session.push(&mut stream, PART, text.as_bytes());
        let _ = session.finish(&mut stream);
        session.decisions().len()
    };
    let same = |n: u32| {
        format!(
            "I will look at the failing test in step {n} and read the log, then change the code that \
             opens the file, run the suite once more, and report what came of it to you."
        )
    };
    let other = "Nothing of the kind was said before: the parser had a fault in its second table, which \
                 is mended, and the release notes name it under the fixes of this week for all users.";
    let mut session = pack.session();
    for (channel, text) in [
        (Channel::Text, same(0).as_str()),
        (Channel::Text, &same(1)),
        (Channel::Reasoning, other),
    ] {
        assert_eq!(reply(&mut session, channel, text), 0);
    }
    let (mut restored, lost) = pack.restore(&session.snapshot());
    assert!(lost.is_empty());
    assert_eq!(reply(&mut restored, Channel::Text, &same(2)), 1);
    assert_eq!(reply(&mut session, Channel::Text, other), 0);
    assert_eq!(reply(&mut session, Channel::Text, &same(3)), 0);
}

#[test]
fn names_that_the_host_knows_are_known() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.unknown-name = {}\nexamples.match = ['x']",
    );
    let text = "```rust\nuse my_crate::x;\nuse other_crate::y;\n```\n";
    for (names, hits) in [
        (&[][..], 1),
        (&["my-crate"], 1),
        (&["My_Crate", "other_crate"], 0),
    ] {
        let mut stream = pack.stream();
        stream.add_known_names(names.iter().copied());
        let mut found = stream.push(PART, text.as_bytes()).len();
        found += stream.finish().len();
        assert_eq!(found, hits, "{names:?}");
    }
}

#[test]
fn files_that_nobody_knows_are_found_in_code_spans() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\n\
         match.unknown-name = { of = ['file'], known = ['src/main.rs', 'docs/en/guide.md'] }\n\
         examples.match = ['`x/y.rs`']",
    );
    for (text, places) in [
        ("See `src/main.rs` and `./src/main.rs:4`.", &[][..]),
        ("See `guide.md`, `en/guide.md` and `main.rs`.", &[]),
        ("See `src/mian.rs`.", &[(5, 16)]),
        ("See `./src/mian.rs:12` now", &[(7, 18)]),
        // A rule hits once in a part.
        ("`a/b.rs` and\n`c.toml`\n", &[(1, 7)]),
        ("src/mian.rs is no code span, `items.len` is no file", &[]),
        ("```\n`src/mian.rs`\n```\n", &[]),
        ("src/mian.rs", &[]),
        ("src/mian.rs\n\n`items` of\n\nsrc/mian.rs", &[]),
        ("`src/mian.rs", &[]),
        ("`src/mian.rs` ", &[(1, 12)]),
    ] {
        let whole = read(&pack, Channel::Text, text.as_bytes(), &[]);
        let ends: Vec<u64> = whole.iter().map(|hit| hit.1).collect();
        let expected: Vec<u64> = places.iter().map(|place: &(u64, u64)| place.1).collect();
        assert_eq!(ends, expected, "{text}: {whole:?}");
        let every: Vec<usize> = (1..text.len()).collect();
        assert_eq!(
            read(&pack, Channel::Text, text.as_bytes(), &every),
            whole,
            "{text}"
        );
    }
    let mut stream = pack.stream();
    stream.add_known_names(["src/mian.rs"]);
    let text = b"`src/mian.rs` and `src/other.rs` ";
    let hits = stream.push(PART, text).to_vec();
    assert_eq!((hits.len(), stream.matched(&hits[0])), (1, "src/other.rs"));
}

#[test]
fn tools_that_nobody_knows_are_found_when_they_are_named() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\n\
         match.unknown-name = { of = ['tool'], known = ['read_file', 'Bash'] }\n\
         examples.match = ['x']",
    );
    for (name, hits) in [
        ("read_file", 0),
        ("read-file", 0),
        ("bash", 0),
        ("search_web", 1),
    ] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        assert_eq!(stream.set_tool(PART, name, "1").len(), hits, "{name}");
        // The second name has no effect.
        assert_eq!(stream.set_tool(PART, "other", "1").len(), 0);
        assert_eq!(stream.push(PART, b"{}").len(), 0);
    }
    let mut stream = pack.stream();
    stream.add_known_names(["search_web"]);
    stream.open(PART, Channel::ToolInput);
    assert_eq!(stream.set_tool(PART, "search_web", "1").len(), 0);
}

#[test]
fn a_capture_that_looks_random_is_judged_by_its_alphabet() {
    let pack = rules(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.any = [{ regex = 'key=(\\S+)' }]\n\
         match.capture = { random = true }\nexamples.match = ['key=0f1e2d3c4b5a69788796a5b4c3d2e1f0']"
            .replace("\\\\", "\\")
            .as_str(),
    );
    for (text, hits) in [
        ("key=0f1e2d3c4b5a69788796a5b4c3d2e1f0 ", 1),
        ("key=q9Zr7Lx2Vb5Nw8KtYcPd ", 1),
        ("key=00000000000000001111111111111111 ", 0),
        ("key=aaaaaaaabbbbbbbbccccccccdddddddd ", 0),
        ("key=your_key_goes_here_please ", 0),
        ("key=q9Zr7Lx ", 0),
    ] {
        let found = read(&pack, Channel::Text, text.as_bytes(), &[]);
        assert_eq!(found.len(), hits, "{text}: {found:?}");
    }
}

#[test]
fn code_is_read_once_its_file_is_named() {
    let pack = |region: &str, pattern: &str| {
        let condition =
            format!("match.any = [{{ regex = '{pattern}', region = [\"added\", \"{region}\"] }}]");
        pack("tool-input", &condition, "paths = ['*.py', '!*.pyi']")
    };
    let (eval, sql, todo) = (
        pack("code-only", r"eval\(.*\)"),
        pack("uncommented", r#"f"select a""#),
        pack("comment", "# todo"),
    );
    let content =
        r##""content":"# eval(a)\nb = \"eval(c)\"\neval(\"d, e\") # todo\nf(f\"select 'a'\")""##;
    let late = |path: &str| format!(r#"{{{content},"path":"{path}","mode":1}}"#);
    for (pack, expected) in [
        (&eval, r#"eval("")"#),
        (&sql, "f\"select a\""),
        (&todo, "# todo"),
    ] {
        check(pack, Channel::ToolInput, &late("a.py"), &[expected]);
        for other in ["a.pyi", "a.rs", "Makefile", ""] {
            check(pack, Channel::ToolInput, &late(other), &[]);
        }
        check(pack, Channel::ToolInput, &format!("{{{content}}}"), &[]);
        let early = format!(r#"{{"path":"a.py",{content}}}"#);
        check(pack, Channel::ToolInput, &early, &[expected]);
        // Edits of several files, of which only the last is named by the path after it.
        let edits =
            format!(r#"{{"files":[{{"path":"a.rs",{content}}},{{{content},"path":"a.py"}}]}}"#);
        check(pack, Channel::ToolInput, &edits, &[expected]);
    }
    // The match is certain at the end of the name.
    let text = late("a.py");
    let hit = &read(&eval, Channel::ToolInput, text.as_bytes(), &[])[0];
    let end = text.find("e\\\") #").unwrap() + 4;
    let named = text.find("a.py").unwrap() + 5;
    assert_eq!((hit.1, hit.2), (end as u64, named as u64));
}

#[test]
fn code_of_a_file_that_the_host_names_is_read_at_once() {
    let condition = "match.any = [{ literal = 'eval(', region = 'code-only' }]";
    let pack = pack("tool-input", condition, "paths = ['*.py']");
    for (path, expected) in [("a.py", &[17][..]), ("a.txt", &[]), ("a", &[])] {
        let mut stream = pack.stream();
        stream.open(PART, Channel::ToolInput);
        stream.set_path(PART, path);
        let mut decided = Vec::new();
        for byte in br#"{"content":"eval(a)"}"# {
            let hits = stream.push(PART, &[*byte]);
            decided.extend(hits.iter().map(|hit| hit.decided));
        }
        decided.extend(stream.finish().iter().map(|hit| hit.decided));
        assert_eq!(decided, expected, "{path}");
    }
}

#[test]
fn late_code_is_limited_and_counted() {
    let text = "schema = 1\n[pack]\nname = \"t\"\n[rule.r]\ndescription = \"d\"\non = [\"tool-input\"]\n\
                match.any = [{ literal = 'rm', region = 'code-only' }]\nexamples.match = ['rm']\n";
    for (limit, hits, unconfirmed) in [(4, 1, 0), (3, 0, 1), (0, 0, 1)] {
        let limits = crate::Limits {
            late_code_bytes: limit,
            ..crate::Limits::default()
        };
        let pack = Pack::builder()
            .toml("t", text)
            .limits(limits)
            .build()
            .unwrap();
        let input = br#"{"content":"a;rm","path":"a.rs","content":"","content":"b"}"#;
        for size in [1, 3, input.len()] {
            let mut stream = pack.stream();
            stream.open(PART, Channel::ToolInput);
            let mut found = 0;
            for delta in input.chunks(size) {
                found += stream.push(PART, delta).len();
            }
            found += stream.finish().len();
            let counted = stream.counters().unconfirmed;
            assert_eq!((found, counted), (hits, unconfirmed), "{limit}, {size}");
        }
    }
}

/// Simulates gigabytes of text without a hit: the counter of delivered bytes is advanced, and no text is read.
#[test]
fn places_of_hits_views_and_matches_pass_32_bits() {
    let before = (1 << 32) - 3;
    for (more, message) in [("", "first ends"), ("match.count = 2", "full matches")] {
        let pack = pack("text", "match.any = [{ literal = 'rm x' }]", more);
        let mut stream = pack.stream();
        stream.open(PART, Channel::Text);
        stream.parts[0].delivered = before;
        let mut hits = Vec::new();
        for byte in b"rm x rm x." {
            hits.extend_from_slice(&stream.push(PART, &[*byte]));
        }
        hits.extend_from_slice(&stream.finish());
        let end = before + if more.is_empty() { 4 } else { 9 };
        assert_eq!(hits.len(), 1, "{message}");
        assert_eq!(hits[0].end, end, "{message}");
        assert_eq!(stream.matched(&hits[0]), "rm x", "{message}");
        assert_eq!(stream.delivered_bytes(PART), before + 10, "{message}");
    }
}
