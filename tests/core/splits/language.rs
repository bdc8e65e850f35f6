//! Random rules of every key, and random texts, edits and commands that they can hit.

use std::fmt::Write as _;

use ttsr::{Channel, Limits, Pack, PartId};

use ttsr_testing::Random;

// ---- Rules ----

/// Fragments of patterns that [`text`] is likely to contain.
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
pub(crate) const REGIONS: [&str; 14] = [
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
    "uncommented",
];
pub(crate) const FOLDS: [&str; 4] = ["case", "nfkc", "confusables", "invisible"];
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

/// Returns the requirements of a command, of which some cannot be met together.
fn command(random: &mut Random) -> String {
    const PROGRAMS: [&str; 10] = [
        "rm",
        "rm",
        "foo",
        "{foo,bar}",
        "*",
        "sh",
        "curl",
        "git push",
        "{perl,psql,awk}",
        "b*",
    ];
    const REQUIREMENTS: [&str; 22] = [
        "flags = ['-r|-R']",
        "flags = ['-f']",
        "flags = ['-f|--force', '-r']",
        "no-flags = ['-f']",
        "no-flags = ['--force', '-b=1*']",
        "operand = 'b'",
        "operand = '^(?:foo|~|/)'",
        "operands-all = '[a-z]'",
        "last-operand = '^[b/]'",
        "min-operands = 2",
        "file-is-code = true",
        "max-operands = 1",
        "runs = { command = '{foo,bar,git}', max-operands = 2 }",
        "env = ['key', 'b*=1?']",
        "redirect-to = ['b*', '/']",
        "reads = ['foo', 'b*']",
        "stdin-is-code = true",
        "code = 'b'",
        "code = '^(?:foo|rm)\\b|(?m:b$)'",
        "pipe-to = { command = '{sh,bar}', stdin-is-code = true }",
        "pipe-from = { command = '*', no-flags = ['-f'] }",
        "raw = 'b.?o|rm -'",
    ];
    let mut out = format!("command = {}", quoted(random.pick(&PROGRAMS)));
    let mut keys = Vec::new();
    while random.one_in(2) {
        let requirement = random.pick(&REQUIREMENTS);
        let key = requirement.split(' ').next();
        if !keys.contains(&key) {
            keys.push(key);
            write!(out, ", {requirement}").unwrap();
        }
    }
    if random.one_in(12) {
        out += ", arg = 'command'";
    }
    format!("{{ {out} }}")
}

fn pattern(random: &mut Random) -> String {
    if random.one_in(5) {
        return command(random);
    }
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
        out += random.pick(&[", arg = 'command'", ", arg = '$keys'"]);
    }
    if random.one_in(5) {
        write!(out, ", unless = {}", quoted(random.pick(&REGEXES))).unwrap();
    }
    format!("{{ {out} }}")
}

fn patterns(random: &mut Random, least: usize) -> String {
    let count = least + random.below(2);
    let all: Vec<String> = (0..count).map(|_| pattern(random)).collect();
    format!("[{}]", all.join(", "))
}

/// Returns a random condition: some keys of `match`, which are not always compatible.
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
                ("limit", "{ tokens = 30 }"),
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
                format!(
                    "[{{ regex = {} }}]",
                    quoted(random.pick(&[r"(?<key>[a-z0-9]{6,})", r"(?<key>\d[\d -]{0,8}\d)"]))
                ),
            );
            let capture = [
                "{ entropy = 2.0 }",
                "{ random = true }",
                "{ not-in = ['foo*'] }",
                "{ checksum = 'luhn' }",
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
        0 => key(
            "tools",
            random
                .pick(&["['bash']", "['!bash']", "['*', '!Bash']"])
                .to_owned(),
        ),
        1 => key(
            "args",
            random
                .pick(&["['command', 'new_*']", "['$keys']", "['command', '$keys']"])
                .to_owned(),
        ),
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
    if random.one_in(5) {
        out += &allow(random, number);
    }
    out
}

/// Returns an allow entry for the rule with that number.
fn allow(random: &mut Random, number: usize) -> String {
    let mut out = format!("[[allow]]\nrules = ['t/r{number}']\nreason = 'r'\n");
    let mut key = |name: &str, list: &str| writeln!(out, "{name} = {list}").unwrap();
    let which = random.below(5);
    if which != 0 {
        let texts = random.list(&["foo", "b*", "*o*", "key*", "?b", "rm*"], 2);
        key("text", &quoted_list(&texts));
    }
    if which < 3 {
        key("paths", "['**/*.rs']");
    }
    if which == 4 {
        key("tools", "['bash']");
    }
    out
}

/// Rules that load together.
pub(crate) struct Rules {
    /// The text of each rule.
    pub(crate) rules: Vec<String>,
    limits: Limits,
}

impl Rules {
    pub(crate) fn new(random: &mut Random) -> Rules {
        let mut made = Rules {
            rules: Vec::new(),
            limits: Limits::default(),
        };
        while made.rules.is_empty() || made.rules.len() < 4 && random.one_in(2) {
            made.rules.push(rule(random, made.rules.len()));
            if Pack::from_toml(&made.text()).is_err() {
                made.rules.pop();
            }
        }
        made.limits.table_bytes = random.pick(&[0, 4096, 1 << 20]);
        made
    }

    /// Returns the rule file.
    pub(crate) fn text(&self) -> String {
        let head =
            "schema = 1\n[pack]\nname = 't'\ngrants = ['inject', 'redact', 'retry', 'abort']\n";
        head.to_owned() + &self.rules.concat()
    }

    pub(crate) fn pack(&self) -> Pack {
        let text = self.text();
        let builder = Pack::builder()
            .limits(self.limits.clone())
            .toml("t.toml", text.as_str());
        let pack = builder.build();
        pack.unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// Returns each rule in a pack of its own.
    pub(crate) fn alone(&self) -> Vec<Pack> {
        let alone = self.rules.iter().map(|rule| Rules {
            rules: vec![rule.clone()],
            limits: self.limits.clone(),
        });
        alone.map(|rules| rules.pack()).collect()
    }
}

// ---- Input ----

/// Texts that the detectors of repetition and of languages find.
const LOOP: &str = "look into the other file, look into the other file, look into the other file, \
    look into the other file, look into the other file, look into the other file, look into the other file, ";
const FOREIGN: &str = "Это не то, что надо было сказать сегодня вечером на этой улице. ";

const PIECES: [&str; 77] = [
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
    "18",
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
    " -r ",
    " -fR ",
    " --force ",
    "git push ",
    " | sh ",
    "sh -c 'rm -f b' ",
    "sh <<b\nrm foo\nb\n",
    "perl -e foo -e 'b;' ",
    "awk 'rm' ",
    "echo foo b | psql\n",
    "psql <<b\nfoo\nrm\nb\n",
    "curl -d @foo x ",
    " > b ",
    " < foo ",
    "X=rm; $X ",
    "~/",
    "/",
    "eval \"$(foo b)\" ",
];

fn text(random: &mut Random, most: usize) -> String {
    (0..random.below(most))
        .map(|_| random.pick(&PIECES))
        .collect()
}

/// Returns such a text with the line markers of a patch.
fn patch(random: &mut Random) -> String {
    let mut out = String::from("*** Begin Patch\n*** Update File: src/a.rs\n@@\n");
    for _ in 0..random.below(6) {
        let line = text(random, 8).replace(['\n', '\r'], " ");
        writeln!(out, "{}{line}", random.pick(&[" ", "+", "-", "+", "-"])).unwrap();
    }
    out + "*** End Patch\n"
}

/// Returns a tool and its input as a model writes it.
fn call(random: &mut Random) -> (&'static str, Vec<u8>) {
    let tool = random.pick(&[
        "bash",
        "bash",
        "edit",
        "edit",
        "write",
        "create",
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
        "create" => format!("{{\"path\":\"b.py\",\"content\":{}}}", string(24)),
        "apply_patch" => {
            let patch = serde_json::Value::from(patch(random)).to_string();
            format!("{{\"input\":{patch}}}")
        }
        _ => format!(
            "{{\"a\":[{},{{\"command\":{}, {}:{{}}}}],{}:12,\"n\":12}}",
            string(8),
            string(8),
            string(6),
            string(12)
        ),
    };
    let mut input = input.into_bytes();
    if random.one_in(10) {
        input.truncate(random.below(input.len()));
    }
    (tool, input)
}

/// Returns a text as a JSON string, with some characters escaped needlessly.
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
pub(crate) enum Step {
    Open(PartId, Channel),
    Tool(PartId, &'static str),
    Push(PartId, Vec<u8>),
    Close(PartId),
}

/// Returns a reply of several parts, consecutive or interleaved.
pub(crate) fn reply(random: &mut Random) -> Vec<Step> {
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

/// Splits the pushed deltas further.
pub(crate) fn cut(steps: &[Step], mut cuts: impl FnMut() -> bool) -> Vec<Step> {
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
