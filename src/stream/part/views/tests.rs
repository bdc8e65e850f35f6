//! Rules that look only into some kinds of text, or do not see some differences, under every split.

use crate::pack::Pack;
use crate::rule::Channel;
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
