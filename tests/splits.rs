//! The promise over the whole language: whatever rules of whatever keys are loaded, and whatever is read, hits,
//! decisions, redactions and counters are the same for every way to cut the text.
//!
//! Rules, texts and tool calls are random; each is read as it was made, byte by byte and at random cuts. What parts of
//! the language have to come up, and hit, is asserted, so that the test cannot go blind. `TTSR_TEST_SCALE` (a
//! percentage) says how many packs are tried; a failure names its seed and prints the pack.

#[path = "../src/testing/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ttsr::{Channel, Counters, Decision, Hit, Limits, Pack, PartId, Session, Stream};

use random::{Random, scale};

const PACKS: usize = 4_000;
const REPLIES: usize = 6;
const CUTS: usize = 4;

impl Random {
    /// Some of them, `most` at the most, in an order of its own.
    fn list<T: Copy>(&mut self, of: &[T], most: usize) -> Vec<T> {
        let mut list: Vec<T> = of.to_vec();
        while list.len() > 1 + self.below(most) {
            list.swap_remove(self.below(list.len()));
        }
        list
    }
}

// ---- Rules ----

/// Parts of patterns that [`text`] is likely to hold.
const WORDS: [&str; 9] = ["foo", "bar", "rm", "b", "key", "-rf", "fo", "é", "中"];
const REGEXES: [&str; 26] = [
    r"\bfoo\b",
    r"(?i)BAR",
    r"fo+",
    r"foo[^\n]{0,12}bar",
    r"foo(?s:.)*bar",
    r"(?m)^foo",
    r"(?m)bar$",
    r"^foo",
    r"bar\z",
    r"key=\w+",
    r"\w+=\S{3,}",
    r"rm\s+-rf",
    r"[a-z]{5}",
    r"(?-u:\xFF)b?",
    r"\Bb\b",
    r"\d{2,4}",
    r"b\d*",
    r"[^\x00-\x7F]b",
    r"(?:foo|bar){2}",
    r"f.{3,9}r",
    r"(?<secret>[a-f0-9]{8,})",
    r"foo(?! ?bar)",
    r"(?<!\w)rm(?= )",
    r"(a|b|o)\1",
    r"b(?=\W)",
    r"(?<=key=)\w",
];
const REGIONS: [&str; 13] = [
    "prose",
    "code",
    "code:rust",
    "inline-code",
    "quote",
    "heading",
    "added",
    "removed",
    "file",
    "shell",
    "comment",
    "string",
    "code-only",
];
const FOLDS: [&str; 4] = ["case", "nfkc", "confusables", "invisible"];
const WITHIN: [&str; 6] = [
    "{ lines = 1 }",
    "{ lines = 3 }",
    "{ chars = 12 }",
    "{ chars = 60 }",
    "{ part = true }",
    "{ message = true }",
];

fn quoted(text: &str) -> String {
    format!("'''{text}'''")
}

fn quoted_list(list: &[&str]) -> String {
    let list: Vec<String> = list.iter().map(|text| quoted(text)).collect();
    format!("[{}]", list.join(", "))
}

fn pattern(random: &mut Random) -> String {
    let mut out = match random.below(4) {
        0 => format!("literal = {}", quoted(random.pick(&WORDS))),
        1 => format!("word = {}", quoted(random.pick(&WORDS))),
        _ => format!("regex = {}", quoted(random.pick(&REGEXES))),
    };
    if random.one_in(3) {
        write!(out, ", region = {}", quoted_list(&random.list(&REGIONS, 2))).unwrap();
    }
    if random.one_in(3) {
        write!(out, ", fold = {}", quoted_list(&random.list(&FOLDS, 2))).unwrap();
    }
    if random.one_in(12) {
        out += ", arg = 'command'";
    }
    format!("{{ {out} }}")
}

fn patterns(random: &mut Random, least: usize) -> String {
    let count = least + random.below(2);
    let all: Vec<String> = (0..count).map(|_| pattern(random)).collect();
    format!("[{}]", all.join(", "))
}

/// What breaks a rule: some keys of `match`, of which not all go together.
fn condition(random: &mut Random) -> String {
    let mut out = String::new();
    let mut key = |name: &str, value: String| writeln!(out, "match.{name} = {value}").unwrap();
    match random.below(14) {
        0..=5 => key("any", patterns(random, 1)),
        6 => key("all", patterns(random, 2)),
        7 => key("sequence", patterns(random, 2)),
        8 => {
            let detector = random.pick(&[
                ("repetition", "{ unit-chars = [3, 60], times = 4 }"),
                (
                    "repetition",
                    "{ unit-chars = [10, 40], times = 3, near = true }",
                ),
                ("leak", "true"),
                ("limit", "{ bytes = 90 }"),
                ("limit", "{ lines = 4 }"),
                ("script", "{ expect = ['latin'] }"),
                ("script", "{ expect = ['en'] }"),
                ("unknown-name", "{ known = ['foo'] }"),
                ("unknown-name", "{ of = ['file'], known = ['a/b.rs'] }"),
                ("unknown-name", "{ of = ['tool'], known = ['bash'] }"),
            ]);
            key(detector.0, detector.1.to_owned());
            return out;
        }
        9 => {
            key("any", patterns(random, 1));
            let places = [
                ("first", 30),
                ("last", 30),
                ("first", 3),
                ("last", 3),
                ("count", 2),
                ("count", 3),
            ];
            let (name, number) = random.pick(&places);
            key(name, number.to_string());
        }
        10 => {
            key("any", patterns(random, 1));
            key("line", "true".to_owned());
        }
        11 => {
            key("any", patterns(random, 1));
            key("count", (2 + random.below(3)).to_string());
            key(
                "per",
                quoted(random.pick(&["part", "message", "turn", "session"])),
            );
        }
        12 => {
            key(
                "any",
                format!("[{{ regex = {} }}]", quoted(r"(?<key>[a-z0-9]{6,})")),
            );
            let capture = [
                "{ entropy = 2.0 }",
                "{ random = true }",
                "{ not-in = ['foo*'] }",
            ];
            key("capture", random.pick(&capture).to_owned());
        }
        _ => {
            key("any", patterns(random, 1));
            key("none", patterns(random, 1));
        }
    }
    if random.one_in(2) {
        key("within", random.pick(&WITHIN).to_owned());
    }
    if random.one_in(5) {
        key("none", patterns(random, 1));
    }
    if random.one_in(4) {
        key("region", quoted_list(&random.list(&REGIONS, 2)));
    }
    if random.one_in(5) {
        key("fold", quoted_list(&random.list(&FOLDS, 2)));
    }
    out
}

fn rule(random: &mut Random, number: usize) -> String {
    let mut out = format!("[rule.r{number}]\ndescription = 'd'\n");
    let mut key = |name: &str, value: String| writeln!(out, "{name} = {value}").unwrap();
    let on = ["text", "reasoning", "tool-input"];
    key("on", quoted_list(&random.list(&on, 3)));
    match random.below(12) {
        0 => key("tools", "['bash']".to_owned()),
        1 => key("args", "['command', 'new_*']".to_owned()),
        2 => key("paths", "['**/*.rs']".to_owned()),
        _ => {}
    }
    let actions = [
        "observe", "observe", "warn", "inject", "redact", "retry", "abort",
    ];
    if random.one_in(2) {
        key("action", quoted(random.pick(&actions)));
    }
    if random.one_in(6) {
        key("hold", "true".to_owned());
    }
    out += &condition(random);
    out
}

/// Some rules that load together, and their text.
fn pack(random: &mut Random) -> (Pack, String) {
    let mut text =
        "schema = 1\n[pack]\nname = 't'\ngrants = ['inject', 'redact', 'retry', 'abort']\n"
            .to_owned();
    let mut rules = 0;
    while rules == 0 || rules < 4 && random.one_in(2) {
        let more = format!("{text}{}", rule(random, rules));
        if Pack::from_toml(&more).is_ok() {
            (text, rules) = (more, rules + 1);
        }
    }
    let limits = Limits {
        table_bytes: random.pick(&[0, 4096, 1 << 20]),
        ..Limits::default()
    };
    let builder = Pack::builder().limits(limits).toml("t.toml", text.as_str());
    let pack = builder
        .build()
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    (pack, text)
}

// ---- What is read ----

/// What detectors of loops and of languages see.
const LOOP: &str = "look into the other file, look into the other file, look into the other file, \
    look into the other file, look into the other file, look into the other file, look into the other file, ";
const FOREIGN: &str = "Это не то, что надо было сказать сегодня вечером на этой улице. ";

const PIECES: [&str; 58] = [
    "foo",
    "foo",
    "bar",
    "bar",
    "b",
    "bb",
    "rm",
    "rm -rf ",
    "sudo ",
    "key=",
    "key=abc123",
    "deadbeef01",
    "fo",
    " ",
    " ",
    " ",
    "\n",
    "\n",
    "\r\n",
    "\t",
    "é",
    "中",
    "ﬁ",
    "ƒоо",
    "FOO",
    "BaR",
    "f\u{200b}oo",
    "b\u{301}",
    "\u{202e}",
    "'",
    "\"",
    "`",
    "```rust\n",
    "```\n",
    "~~~\n",
    "> ",
    "# ",
    "// ",
    "/* ",
    "*/",
    "$(",
    ")",
    "\\",
    " && ",
    " | ",
    "; ",
    "12",
    "-",
    "<|im_end|>",
    "use foo::bar;\n",
    "`a/b.rs`",
    "`x/y.py`",
    "\n```rust\nuse nobody::x;\n```\n",
    "ab ab ab ab ",
    LOOP,
    FOREIGN,
    LOOP,
    FOREIGN,
];

fn text(random: &mut Random, most: usize) -> String {
    (0..random.below(most))
        .map(|_| random.pick(&PIECES))
        .collect()
}

/// The same, with lines marked as a patch has them.
fn patch(random: &mut Random) -> String {
    let mut out = String::from("*** Begin Patch\n*** Update File: src/a.rs\n@@\n");
    for _ in 0..random.below(6) {
        let line = text(random, 8).replace(['\n', '\r'], " ");
        writeln!(out, "{}{line}", random.pick(&[" ", "+", "-", "+", "-"])).unwrap();
    }
    out + "*** End Patch\n"
}

/// A tool and its input as a model writes it.
fn call(random: &mut Random) -> (&'static str, Vec<u8>) {
    let tool = random.pick(&[
        "bash",
        "bash",
        "edit",
        "edit",
        "write",
        "apply_patch",
        "foo",
    ]);
    let mut string = |most| json_string(random, most);
    let input = match tool {
        "bash" => format!("{{\"command\": {}}}", string(24)),
        "edit" => format!(
            "{{\"path\":\"src/a.rs\", \"old_string\":{},\"new_string\":{}}}",
            string(20),
            string(20)
        ),
        "write" => format!("{{\"content\":{},\"path\":\"b.rs\"}}", string(24)),
        "apply_patch" => {
            let patch = serde_json::Value::from(patch(random)).to_string();
            format!("{{\"input\":{patch}}}")
        }
        _ => format!(
            "{{\"a\":[{},{{\"command\":{}}}],\"n\":12}}",
            string(8),
            string(8)
        ),
    };
    let mut input = input.into_bytes();
    if random.one_in(10) {
        input.truncate(random.below(input.len()));
    }
    (tool, input)
}

/// A text as a JSON string, some of its characters escaped without need.
fn json_string(random: &mut Random, most: usize) -> String {
    let plain = serde_json::Value::from(text(random, most)).to_string();
    let (mut out, mut is_escaped) = (String::new(), false);
    for char in plain.chars() {
        match char {
            'a'..='z' if !is_escaped && random.one_in(12) => {
                write!(out, "\\u{:04x}", u32::from(char)).unwrap();
            }
            _ => out.push(char),
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    out
}

#[derive(Clone, Debug)]
enum Step {
    Open(PartId, Channel),
    Tool(PartId, &'static str),
    Push(PartId, Vec<u8>),
    Close(PartId),
}

/// A reply of some parts, one after the other or side by side.
fn reply(random: &mut Random) -> Vec<Step> {
    const CHANNELS: [Channel; 4] = [
        Channel::Text,
        Channel::Text,
        Channel::Reasoning,
        Channel::ToolInput,
    ];
    let (mut steps, mut open) = (Vec::new(), Vec::new());
    for number in 0..1 + random.below(3) as u32 {
        let (part, channel) = (PartId(number), random.pick(&CHANNELS));
        steps.push(Step::Open(part, channel));
        let bytes = if channel == Channel::ToolInput {
            let (tool, input) = call(random);
            steps.push(Step::Tool(part, tool));
            input
        } else {
            let mut bytes = text(random, 40).into_bytes();
            if random.one_in(5) {
                bytes.insert(
                    random.below(bytes.len() + 1),
                    random.pick(&[0xFF, 0xC3, 0xE2]),
                );
            }
            bytes
        };
        let half = random.below(bytes.len() + 1);
        steps.push(Step::Push(part, bytes[..half].to_vec()));
        open.push(Step::Push(part, bytes[half..].to_vec()));
        if random.one_in(2) {
            steps.append(&mut open);
            steps.push(Step::Close(part));
        }
    }
    steps.append(&mut open);
    steps
}

/// Cuts further what is pushed.
fn cut(steps: &[Step], mut cuts: impl FnMut() -> bool) -> Vec<Step> {
    let mut out = Vec::new();
    for step in steps {
        let Step::Push(part, bytes) = step else {
            out.push(step.clone());
            continue;
        };
        let mut from = 0;
        for to in 1..=bytes.len() {
            if to == bytes.len() || cuts() {
                out.push(Step::Push(*part, bytes[from..to].to_vec()));
                from = to;
            }
        }
    }
    out
}

// ---- What comes of it ----

#[derive(Debug, PartialEq)]
struct Told {
    hit: Hit,
    arg: Option<String>,
    start: Option<u64>,
    excerpt: String,
    matched: String,
}

/// What a stream tells, and what a session decides until the reply is cut.
#[derive(Debug, PartialEq)]
struct Outcome {
    hits: Vec<Told>,
    redactions: Vec<(PartId, u64, u64)>,
    counters: Counters,
    decisions: Vec<Decision>,
}

fn outcome(pack: &Pack, steps: &[Step]) -> Outcome {
    let mut stream = pack.stream();
    let (mut hits, mut left) = (Vec::new(), Left::of(steps));
    for step in steps {
        let known = hits.len();
        let mut add = |new: &[Hit]| hits.extend_from_slice(new);
        match step {
            Step::Open(part, channel) => stream.open(*part, *channel),
            Step::Tool(part, name) => add(&stream.tool(*part, name, "call")),
            Step::Push(part, bytes) => add(&stream.push(*part, bytes)),
            Step::Close(part) => add(&stream.close(*part)),
        }
        left.check(&mut stream, &hits[known..], steps);
    }
    let known = hits.len();
    hits.extend_from_slice(&stream.finish());
    left.check(&mut stream, &hits[known..], steps);
    let redactions = stream.redactions().iter();
    Outcome {
        hits: hits.iter().map(|hit| told(&stream, hit)).collect(),
        redactions: redactions
            .map(|one| (one.part, one.start, one.end))
            .collect(),
        counters: stream.counters(),
        decisions: decisions(pack.session(), steps),
    }
}

/// What has left, of a host that lets go of text as soon as it may.
#[derive(Default)]
struct Left {
    bytes: BTreeMap<PartId, u64>,
    redacted: BTreeSet<(PartId, u32, u64, u64)>,
}

impl Left {
    fn of(steps: &[Step]) -> Left {
        let opened = steps.iter().filter_map(|step| match step {
            Step::Open(part, _) => Some((*part, 0)),
            _ => None,
        });
        Left {
            bytes: opened.collect(),
            ..Left::default()
        }
    }

    /// Nothing of what is to be redacted or held may have left before that was told; then more leaves.
    fn check(&mut self, stream: &mut Stream, hits: &[Hit], steps: &[Step]) {
        let left = |part| self.bytes.get(&part).copied().unwrap_or_default();
        for redaction in stream.redactions() {
            let (part, start, end) = (redaction.part, redaction.start, redaction.end);
            let rule = redaction.rule.index() as u32;
            let is_new = self.redacted.insert((part, rule, start, end));
            let has_left = is_new && start < left(part);
            let rule = stream.pack().rule(redaction.rule);
            assert!(
                !has_left,
                "{redaction:?} has left: {}\n{rule:?}",
                shown(steps)
            );
        }
        for hit in hits {
            let rule = stream.pack().rule(hit.rule);
            let start = stream.start(hit).filter(|_| rule.holds());
            let has_left = start.is_some_and(|start| start < left(hit.part));
            assert!(!has_left, "{hit:?} has left: {}\n{rule:?}", shown(steps));
        }
        for (part, left) in &mut self.bytes {
            let now = stream.releasable(*part);
            assert!(*left <= now, "{left} bytes had left, and {now} may");
            *left = now;
        }
    }
}

fn told(stream: &Stream, hit: &Hit) -> Told {
    Told {
        hit: *hit,
        arg: stream.arg(hit).map(str::to_owned),
        start: stream.start(hit),
        excerpt: stream.excerpt(hit).to_owned(),
        matched: stream.matched(hit).to_owned(),
    }
}

/// Up to the one that cuts the reply: what stands behind it in its delta need not be looked at.
fn decisions(mut session: Session, steps: &[Step]) -> Vec<Decision> {
    session.begin_turn();
    let mut stream = session.stream();
    let mut all = Vec::new();
    for step in steps.iter().map(Some).chain([None]) {
        let _ = match step {
            Some(Step::Open(part, channel)) => session.open(&mut stream, *part, *channel),
            Some(Step::Tool(part, name)) => session.tool(&mut stream, *part, name, "call"),
            Some(Step::Push(part, bytes)) => session.push(&mut stream, *part, bytes),
            Some(Step::Close(part)) => session.close(&mut stream, *part),
            None => session.finish(&mut stream),
        };
        for decision in session.decisions() {
            all.push(*decision);
            if decision.suppression.is_none() && decision.action.cuts() {
                return all;
            }
        }
    }
    all
}

/// What the text of a rule that hit has in it.
fn note(rule: &str, seen: &mut BTreeMap<&'static str, usize>) {
    const KEYS: [&str; 26] = [
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

/// Steps, with text as text.
fn shown(steps: &[Step]) -> String {
    let shown = steps.iter().map(|step| match step {
        Step::Push(part, bytes) => format!("{}: \"{}\"", part.0, bytes.escape_ascii()),
        step => format!("{step:?}"),
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// Steps that open a part, write the texts into it and close it.
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

/// What this test found, made small.
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
        .map(|told| (told.hit.end, told.hit.decided))
        .collect();
    assert_eq!(
        places,
        [(19, 34)],
        "the file is known once its name is complete"
    );
    assert_eq!(outcome(&pack, &cut(&steps, || true)), whole);
}

/// What this test found, made small.
#[test]
fn stretches_to_redact_are_in_order_whatever_the_cut() {
    let pack = Pack::from_toml(
        "schema = 1\n[pack]\nname = 't'\ngrants = ['redact']\n[rule.r]\ndescription = 'd'\non = ['text']\n\
         action = 'redact'\nmatch.any = [{ regex = 'fo+ba' }, { literal = 'foo', fold = 'invisible' }]\n",
    );
    let pack = pack.unwrap_or_else(|error| panic!("{error}"));
    let steps = part(Channel::Text, &["a fooba"]);
    let whole = outcome(&pack, &steps);
    let places: Vec<_> = whole.redactions.iter().map(|one| (one.1, one.2)).collect();
    assert_eq!(places, [(2, 5), (2, 7)]);
    assert_eq!(outcome(&pack, &cut(&steps, || true)), whole);
}

/// What this test found, made small.
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
    let told: Vec<_> = whole
        .hits
        .iter()
        .map(|told| (told.hit.end, told.start))
        .collect();
    assert_eq!(told, [(307, None)], "it begins too far back to be known");
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
        let (pack, text) = pack(&mut random);
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
            for told in &whole.hits {
                let id = pack.rule(told.hit.rule).id.replace("t/", "[rule.") + "]";
                let from = &text[text.find(&id).expect("the rule is of this pack")..];
                let rule = from[1..].split("[rule.").next().unwrap_or_default();
                note(rule, &mut seen);
            }
        }
    }
    let replies = packs * REPLIES;
    println!(
        "splits: {cases} ways to cut {replies} replies under {packs} packs, {hits} hits of rules with {seen:?}"
    );
    if packs >= 1000 {
        // Two folds and look-around are features.
        let features =
            usize::from(cfg!(feature = "lookaround")) + 2 * usize::from(cfg!(feature = "unicode"));
        assert_eq!(seen.len(), 41 + features, "{seen:?}");
    }
}
