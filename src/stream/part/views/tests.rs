//! Rules that look only into some kinds of text, or do not see some differences, under every split.

use std::time::Duration;

use crate::pack::Pack;
use crate::rule::Channel;
use crate::session::Session;
use crate::verdict::PartId;

const PART: PartId = PartId(0);

/// A pack of one rule, whose patterns are written as in a file.
fn pack(on: &str, condition: &str, more: &str) -> Pack {
    let text = format!(
        "schema = 1\n[pack]\nname = \"t\"\ngrants = [\"inject\", \"redact\"]\n[rule.r]\ndescription = \"d\"\n\
         on = [\"{on}\"]\n{condition}\n{more}\nexamples.match = [\"x\"]\n"
    );
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What matched, with where it ends and when that was certain.
fn read(pack: &Pack, channel: Channel, text: &[u8], cuts: &[usize]) -> Vec<(String, u64, u64)> {
    let mut stream = pack.stream();
    stream.open(PART, channel);
    let _ = stream.tool(PART, "write", "call");
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

/// Whole, byte by byte and at every two-way cut.
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
fn what_an_edit_leaves_is_not_what_it_adds() {
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
fn what_is_allowed_does_not_count_and_what_comes_after_it_does() {
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
        let _ = session.tool(&mut stream, PART, "read", "call");
        let _ = session.push(&mut stream, PART, input.as_bytes());
        let _ = session.finish(&mut stream);
        hits.push(session.decisions().len());
    }
    assert_eq!(hits, [0, 0, 1]);
}
