//! Accepted packs work: a pack that `check` accepts loads, and reads any text under every action and condition without
//! a panic.
//!
//! The packs are random and use every key, with large classes and repeats up to the limits. The texts are built from
//! fragments that the patterns match. `TTSR_TEST_SCALE` scales the number of packs, `TTSR_ACCEPTS` sets it instead, and
//! `TTSR_ACCEPTS_TEXTS` sets the number of texts for each of them. A pack with stretches of one byte reads a quarter of
//! them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ttsr::{Channel, Limits, Pack, PartId, Rule};

use ttsr_testing::{Random, in_parts, scale};

/// A pack costs as much as a hundred texts: more texts per pack give more pairs in the same time. With fewer packs, not
/// every key of the language would hit.
const PACKS: usize = 400;
const TEXTS: usize = 160;

/// The parts of the language that a full run must hit.
const KEYS: [&str; 23] = [
    "match.any",
    "match.all",
    "match.sequence",
    "match.none",
    "match.first",
    "match.last",
    "match.line",
    "match.count",
    "match.per",
    "match.capture",
    "match.within",
    "match.fold",
    "fold = 'case'",
    "unless = ",
    "hold = true",
    "'redact'",
    "'consult'",
    "'append'",
    "[[allow]]",
    "literal",
    "word",
    r"\p{L}",
    r"\w",
];

const ATOMS: [&str; 26] = [
    r"\w",
    r"\p{L}",
    ".",
    "(?s:.)",
    r"[^;]",
    r"\W",
    r"\S",
    r"\pN",
    r"[\w.-]",
    r"(?i:[a-zß])",
    r"\p{Lu}",
    r"(?-i:[A-Z])",
    r"[^\x00-\x7F]",
    r"(?-u:\xFF)",
    r"(?s-u:.)",
    r"\x{200b}",
    r"\x{301}",
    "ﬁ",
    "é",
    "a",
    "(a|b)",
    r"(\w)",
    r"(?<name>[a-f]+)",
    "(?:foo|bar)",
    r"\b",
    r"(?-u:\w)",
];

/// Returns the count of a repeat. Most are small, because large ones are expensive to match and many texts are read.
fn repeat(random: &mut Random) -> String {
    let most = match random.below(40) {
        0 => 60_000,
        1 => 4_000,
        2..=7 => 300,
        _ => 12,
    };
    let (a, b) = (random.below(most), random.below(most));
    match random.below(8) {
        0 => "*".to_owned(),
        1 => "+?".to_owned(),
        2 => "?".to_owned(),
        3 => format!("{{{a}}}"),
        4 => format!("{{{a},}}"),
        5 => format!("{{{},{}}}?", a.min(b), a.max(b)),
        _ => format!("{{{},{}}}", a.min(b), a.max(b)),
    }
}

fn regex(random: &mut Random) -> String {
    const OPENINGS: [&str; 12] = [
        "", "", "token=", "token=", "key: ", "foo", "DROP", "(?i)", "(?x) ", "^", r"\b", "(?m)^",
    ];
    const ENDINGS: [&str; 14] = [
        "",
        "",
        "",
        ";",
        "$",
        r"\b",
        " # a comment",
        "(?=;)",
        "(?!x)",
        r"\B",
        r"(?<=\w)",
        "bar",
        r"\1",
        r"\z",
    ];
    let mut out = random.pick(&OPENINGS).to_owned();
    for _ in 0..1 + random.below(3) {
        let mut atom = random.pick(&ATOMS).to_owned();
        if random.one_in(8) {
            atom = format!("(?:{atom}|{}{})", random.pick(&ATOMS), repeat(random));
        }
        if random.one_in(60) {
            let depth = 200 + random.below(52);
            atom = format!("{}{atom}{}", "(".repeat(depth), ")".repeat(depth));
        }
        out += &atom;
        if random.one_in(2) {
            out += &repeat(random);
        }
    }
    out + random.pick(&ENDINGS)
}

fn pattern(random: &mut Random) -> String {
    const TEXTS: [&str; 10] = [
        "foo",
        "token",
        "DROP TABLE",
        "\\u200b",
        "a\\u200bb",
        "\\u0301",
        "é",
        "ﬁ",
        "a.b",
        "",
    ];
    let mut out = match random.below(6) {
        0 | 1 => {
            let kind = random.pick(&["literal", "word"]);
            let mut text = random.pick(&TEXTS).to_owned();
            if random.one_in(80) {
                text = format!("x{}", ".".repeat(65_500 + random.below(40)));
            }
            format!("{kind} = \"{text}\"")
        }
        _ => format!("regex = '''{}'''", regex(random)),
    };
    if random.one_in(5) {
        let regions = ["prose", "code", "shell", "added", "string", "heading"];
        write!(out, ", region = '{}'", random.pick(&regions)).unwrap();
    }
    if random.one_in(4) {
        write!(out, ", fold = {}", folds(random)).unwrap();
    }
    if random.one_in(20) {
        out += ", arg = 'command'";
    }
    if random.one_in(8) {
        write!(out, ", unless = '''{}'''", regex(random)).unwrap();
    }
    format!("{{ {out} }}")
}

fn folds(random: &mut Random) -> &'static str {
    random.pick(&[
        "'case'",
        "'case'",
        "['case', 'invisible']",
        "'invisible'",
        "'nfkc'",
        "['case', 'nfkc', 'confusables', 'invisible']",
    ])
}

fn patterns(random: &mut Random, least: usize) -> String {
    let count = least + random.below(2);
    let all: Vec<String> = (0..count).map(|_| pattern(random)).collect();
    format!("[{}]", all.join(", "))
}

fn condition(random: &mut Random, out: &mut String) {
    let mut key = |name: &str, value: &str| writeln!(out, "match.{name} = {value}").unwrap();
    match random.below(12) {
        0 => key("all", &patterns(random, 2)),
        1 => key("sequence", &patterns(random, 2)),
        2 => {
            let (name, value) = random.pick(&[
                ("repetition", "{ unit-chars = [1, 4096], times = 2 }"),
                ("repetition", "{ times = 3, near = true, turns = 2 }"),
                ("leak", "true"),
                ("limit", "{ bytes = 1, lines = 1, deltas = 1, tokens = 1 }"),
                ("script", "{ expect = ['latin', 'de'] }"),
                ("unknown-name", "{ known = ['@names', 'foo'] }"),
                ("unknown-name", "{ of = ['file', 'tool', 'package'] }"),
                ("doom-loop", "{ times = 2, differing = 1 }"),
            ]);
            return key(name, value);
        }
        _ => key("any", &patterns(random, 1)),
    }
    if random.one_in(6) {
        key("none", &patterns(random, 1));
    }
    if random.one_in(3) {
        let (name, value) = random.pick(&[
            ("first", "100"),
            ("last", "100"),
            ("last", "1"),
            ("line", "true"),
            ("line", "true"),
            ("count", "2"),
            ("per", "'session'"),
            ("capture", "{ entropy = 0.5 }"),
            ("capture", "{ group = 1, random = true }"),
            ("capture", "{ group = 'name', not-in = ['a*', '?'] }"),
            ("capture", "{ not-in = ['[', '{a,b}'] }"),
            ("capture", "{ checksum = 'luhn' }"),
        ]);
        key(name, value);
    }
    if random.one_in(4) {
        let within = [
            "{ lines = 1 }",
            "{ lines = 9 }",
            "{ chars = 1 }",
            "{ chars = 900 }",
            "{ part = true }",
            "{ message = true }",
        ];
        key("within", random.pick(&within));
    }
    if random.one_in(5) {
        key("fold", folds(random));
    }
    if random.one_in(12) {
        key("region", "'code'");
    }
}

fn rule(random: &mut Random, number: usize) -> String {
    let mut out = format!("[rule.r{number}]\ndescription = 'd'\n");
    condition(random, &mut out);
    let mut key = |name: &str, value: &str| writeln!(out, "{name} = {value}").unwrap();
    let actions = [
        ("observe", ""),
        ("warn", "message = '{{ match.text }} {{ excerpt }}'"),
        ("inject", "repeat = { per-turn = 1 }"),
        ("redact", "replacement = '[gone]'"),
        ("redact", ""),
        ("retry", "retry = { max = 1, then = 'abort' }"),
        ("retry", "partial = 'keep-before-match'"),
        ("abort", ""),
        (
            "consult",
            "consult = { prompt = 'Is {{ match.text }} right?' }",
        ),
        ("set-header", "header = { name = 'x-a', value = 'b' }"),
        ("append", "instead = 'Something else.'"),
        ("handoff", "allowance.per-turn = 1"),
    ];
    let (action, more) = random.pick(&actions);
    if random.one_in(2) {
        key("action", &format!("'{action}'"));
        if let Some((name, value)) = more.split_once(" = ") {
            key(name, value);
        }
    }
    let on = match action {
        "consult" => "['tool-input']",
        "append" | "set-header" => "['tool-output', 'user-input', 'error']",
        _ => random.pick(&[
            "['text']",
            "['text', 'reasoning', 'tool-input']",
            "['tool-input']",
        ]),
    };
    key("on", on);
    if random.one_in(5) {
        key("hold", "true");
    }
    if random.one_in(6) {
        let (name, value) = random.pick(&[
            ("tools", "['bash', '@names']"),
            ("args", "['command', '*.a']"),
            ("paths", "['**/*.rs', '!b/**']"),
            ("agents", "['*']"),
            ("models", "['m*']"),
            ("severity", "'critical'"),
            ("mode", "'shadow'"),
            ("priority", "-7"),
        ]);
        key(name, value);
    }
    out
}

/// Returns the text of a pack with those of its rules that are accepted, and the pack.
fn accepted(random: &mut Random, limits: &Limits) -> (String, Pack) {
    let head = "schema = 1\n[pack]\nname = 't'\n\
        grants = ['inject', 'redact', 'retry', 'abort', 'consult', 'append', 'set-header', 'handoff']\n\
        [lists]\nnames = ['serde', 'foo']\n";
    let allow = "[[allow]]\nrules = ['t/*']\nreason = 'r'\ntext = ['foo*', '?']\n";
    loop {
        let mut text = head.to_owned();
        for number in 0..1 + random.below(3) {
            text += &rule(random, number);
        }
        if random.one_in(6) {
            text += allow;
        }
        let checked = Pack::builder().limits(limits.clone()).toml("t.toml", &text);
        // The lints of `check` run now and then only, because they try rules on texts of their own.
        let checked = if random.one_in(16) {
            checked.lints()
        } else {
            checked
        };
        if let Ok(pack) = checked.build() {
            return (text, pack);
        }
    }
}

/// Returns a text of fragments that the patterns match, in runs of all lengths, and of others.
fn text(random: &mut Random) -> Vec<u8> {
    const PIECES: [&[u8]; 24] = [
        b"token=",
        b"key: ",
        b"foo",
        b"DROP TABLE",
        b"drop table",
        b"a.b",
        b";",
        b" ",
        b"\n",
        b"\r\n",
        b"a",
        b"Z",
        "é".as_bytes(),
        "e\u{301}".as_bytes(),
        "ﬁ".as_bytes(),
        "ＡＢ".as_bytes(),
        "\u{200b}".as_bytes(),
        "中".as_bytes(),
        "\u{1F600}".as_bytes(),
        b"\xFF",
        b"\xE2\x82",
        b"```rust\nuse nobody::x;\n",
        b"`x/y.py`",
        b"<|im_end|>",
    ];
    let mut out = Vec::new();
    for _ in 0..random.below(14) {
        let times = match random.below(12) {
            0 => 300,
            1 => 60,
            2 | 3 => 9,
            _ => 1,
        };
        out.extend(random.pick(&PIECES).repeat(times));
    }
    out
}

/// Reads a text on a channel, in a stream and in a session. Returns the number of hits.
fn read(random: &mut Random, pack: &Pack, channel: Channel, text: &[u8]) -> usize {
    let mut session = pack.session();
    session.begin_turn();
    if !Channel::STREAMED.contains(&channel) {
        let checked = session.check(channel, Some("bash"), text);
        let messages = checked.decisions().iter();
        messages.for_each(|decision| drop(checked.stream().message(decision)));
        return checked.decisions().len();
    }
    let input = serde_json::json!({ "command": String::from_utf8_lossy(text), "path": "a.rs" });
    let input = input.to_string().into_bytes();
    let bytes = match channel {
        Channel::ToolInput if !random.one_in(8) => &input,
        _ => text,
    };
    let mut stream = session.stream();
    let part = PartId(3);
    let _ = session.open(&mut stream, part, channel);
    if channel == Channel::ToolInput {
        let _ = session.set_tool(&mut stream, part, "bash", "call");
    }
    let mut hits = 0;
    let mut rest = bytes;
    let longest = random.pick(&[1, 4, 16, 2000]);
    while !rest.is_empty() {
        let (delta, after) = rest.split_at(rest.len().min(1 + random.below(longest)));
        let _ = session.push(&mut stream, part, delta);
        hits += session.decisions().len();
        for decision in session.decisions() {
            drop(stream.message(decision));
        }
        assert!(stream.releasable(part) <= stream.delivered_bytes(part));
        rest = after;
    }
    let _ = session.close(&mut stream, part);
    let _ = session.finish(&mut stream);
    hits += session.decisions().len();
    hits + stream.redactions(part).len()
}

/// Counts the parts of the language that a rule with hits uses, so that the test cannot become vacuous.
fn count_features(rule: &str, seen: &mut BTreeMap<&'static str, usize>) {
    for key in KEYS.into_iter().filter(|key| rule.contains(key)) {
        *seen.entry(key).or_default() += 1;
    }
}

#[test]
fn an_accepted_pack_reads_any_text() {
    let given = |variable: &str| std::env::var(variable).ok()?.parse::<usize>().ok();
    let packs = given("TTSR_ACCEPTS").unwrap_or_else(|| scale(PACKS));
    let texts = given("TTSR_ACCEPTS_TEXTS").unwrap_or(TEXTS);
    let parts = in_parts(packs, |seeds| {
        let mut done = Totals::default();
        for seed in seeds {
            read_texts(seed as u64, texts, &mut done);
        }
        done
    });
    let mut all = Totals::default();
    for part in parts {
        all.pairs += part.pairs;
        all.hits += part.hits;
        for (key, count) in part.seen {
            *all.seen.entry(key).or_default() += count;
        }
    }
    let Totals { pairs, hits, seen } = all;
    println!(
        "accepts: {pairs} pairs of a pack and a text under {packs} packs, {hits} decisions of {seen:?}"
    );
    if packs >= PACKS {
        assert_eq!(seen.len(), KEYS.len(), "{seen:?}");
    }
}

/// The cases that were run.
#[derive(Default)]
struct Totals {
    pairs: usize,
    hits: usize,
    /// The keys of the rules that hit.
    seen: BTreeMap<&'static str, usize>,
}

/// Reads random texts with the pack of `seed`.
fn read_texts(seed: u64, texts: usize, done: &mut Totals) {
    let mut random = Random::new(seed ^ 5 << 40);
    let limits = Limits {
        table_bytes: random.pick(&[0, 4096, 1 << 20]),
        stretch_bytes: random.pick(&[1, 64, 64 << 10]),
        ..Limits::default()
    };
    let (written, pack) = accepted(&mut random, &limits);
    let mut found = 0;
    // With stretches of one byte, each byte is searched by itself, which takes up to a hundred times as long.
    let texts = match limits.stretch_bytes {
        1 => texts.div_ceil(4),
        _ => texts,
    };
    for _ in 0..texts {
        let text = text(&mut random);
        let read_by_rules = |channel: &Channel| pack.wants(*channel, None);
        let channels = Channel::ALL.into_iter().filter(read_by_rules);
        let channels: Vec<Channel> = channels.collect();
        let is_any = random.one_in(8) || channels.is_empty();
        let channel = random.pick(if is_any { &Channel::ALL } else { &channels[..] });
        let run = || read(&mut random, &pack, channel, &text);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        found += result.unwrap_or_else(|_| {
            let text = text.escape_ascii();
            panic!("seed {seed}, on {channel:?}\n{written}\n{text}")
        });
        done.pairs += 1;
    }
    if found > 0 {
        let rules = written.find("[rule.").unwrap_or_default();
        count_features(&written[rules..], &mut done.seen);
    }
    done.hits += found;
    if random.one_in(8) {
        by_hand(&mut random, &pack, &limits, seed);
    }
}

/// Rules made in code can contain values that no file can express. They are rejected, or they work.
fn by_hand(random: &mut Random, pack: &Pack, limits: &Limits, seed: u64) {
    let odd = |random: &mut Random| random.pick(&[0, 1, 2, u32::MAX - 1, u32::MAX]);
    let rules: Vec<Rule> = pack
        .rules()
        .iter()
        .map(|rule| {
            let mut rule = rule.clone();
            match random.below(8) {
                0 => rule.condition.first = Some(odd(random)),
                1 => rule.condition.last = Some(odd(random)),
                2 => rule.condition.line = true,
                3 => rule.retry.max = odd(random),
                4 => rule.hold = true,
                5 => rule.on = Channel::ALL.to_vec(),
                6 => rule.condition.none = rule.condition.any.clone(),
                _ => {
                    let times = odd(random);
                    let per = ttsr::rule::Per::Part;
                    rule.condition.count = Some(ttsr::rule::Count { times, per });
                }
            }
            rule
        })
        .collect();
    let builder = Pack::builder().limits(limits.clone());
    let builder = rules
        .iter()
        .cloned()
        .fold(builder, |it, rule| it.rule(rule));
    let Ok(pack) = builder.build() else { return };
    for channel in Channel::ALL {
        let text = text(random);
        let run = || read(random, &pack, channel, &text);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        assert!(result.is_ok(), "seed {seed}, {rules:?}");
    }
}
