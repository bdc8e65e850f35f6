//! Conditions against a model that judges the complete text with the `regex` crate.
//!
//! Rules have `any`, `all` or `sequence` with exceptions, windows, counts, scopes and allow entries. Some texts have more
//! matches than a stream keeps: then a rule may hit or redact too much, but not too little. Each text is read whole, byte by
//! byte and at random cuts, with the pack and with the same pack written and read back.

use std::fmt::Write as _;

use regex::bytes::Regex;
use ttsr::{Channel, Conversation, Flow, Pack, PartId, Rule, RuleId, Stream};
use ttsr_testing::{Random, in_parts, scale};

const PACKS: usize = 4_000;
const REPLIES: usize = 4;
const PART: PartId = PartId(1);
/// Most matches of a rule that wait and are decided each by itself.
const KEPT: usize = 256;

const PATTERNS: [&str; 14] = [
    "ab",
    "a+",
    "b",
    "[ab]{2,4}",
    "x[^y]*y",
    "é",
    r"\bab\b",
    "(?m)^a",
    "(?m)b$",
    "key-[a-z0-9]+",
    "key-1",
    "(?i)AB c",
    "zz",
    "c[ab ]{300,}",
];
const GLOBS: [&str; 7] = ["ab", "a*", "*b", "key-1", "key-*", "b*", "*y"];

/// The condition of a rule.
#[derive(Clone, Debug)]
enum Matches {
    Any,
    All,
    Sequence,
}

#[derive(Clone, Copy, Debug)]
enum Window {
    Lines(usize),
    Chars(usize),
    Part,
}

/// An allow entry. An empty list is no restriction.
#[derive(Clone, Debug)]
struct Entry {
    text: Vec<&'static str>,
    paths: Option<&'static str>,
    tools: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Model {
    matches: Matches,
    patterns: Vec<&'static str>,
    none: Vec<&'static str>,
    window: Option<Window>,
    first: Option<usize>,
    last: Option<usize>,
    count: usize,
    action: &'static str,
    holds: bool,
    paths: Option<&'static str>,
    tools: Option<&'static str>,
    entries: Vec<Entry>,
}

/// A match with its place in the haystack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    start: usize,
    end: usize,
}

/// A part and what the model needs to know of it.
#[derive(Clone, Debug)]
struct Reply {
    channel: Channel,
    /// The bytes as delivered.
    bytes: Vec<u8>,
    /// The text that rules read.
    haystack: String,
    /// For each index of the haystack and its end: the offset in the part at which that byte begins, and that at which the
    /// byte before it ends.
    starts: Vec<usize>,
    ends: Vec<usize>,
    /// The files that a call names, one or two.
    files: Vec<&'static str>,
    tool: &'static str,
    is_tool_first: bool,
}

fn quoted(items: &[&str]) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("'''{item}'''")).collect();
    format!("[{}]", items.join(", "))
}

fn regexes(patterns: &[&str]) -> String {
    let items: Vec<String> = patterns
        .iter()
        .map(|pattern| format!("{{ regex = '''{pattern}''' }}"))
        .collect();
    format!("[{}]", items.join(", "))
}

impl Model {
    fn new(random: &mut Random) -> Model {
        let matches = match random.below(5) {
            0 => Matches::All,
            1 => Matches::Sequence,
            _ => Matches::Any,
        };
        let is_any = matches!(matches, Matches::Any);
        let least = if is_any { 1 } else { 2 };
        let list = |random: &mut Random, count: usize| -> Vec<&'static str> {
            (0..count).map(|_| random.pick(&PATTERNS)).collect()
        };
        let count = least + random.below(2);
        let patterns = list(random, count);
        let none = if random.one_in(3) {
            list(random, 1)
        } else {
            Vec::new()
        };
        let window = match random.below(6) {
            0 => Some(Window::Lines(1 + random.below(3))),
            1 => Some(Window::Chars(random.pick(&[5, 20, 400, 3000]))),
            2 => Some(Window::Part),
            _ => None,
        };
        let place = if is_any { random.below(8) } else { 9 };
        let far = random.pick(&[3, 30, 500, 1500]);
        let times = random.pick(&[1, 1, 1, 2, 3, 255, 256, 257, 290]);
        Model {
            patterns,
            none,
            window,
            first: (place == 0).then_some(far),
            last: (place == 1).then_some(far),
            count: if is_any { times } else { 1 },
            matches,
            action: random.pick(&["observe", "warn", "redact", "redact", "retry", "abort"]),
            holds: random.one_in(3),
            paths: random.one_in(3).then_some("*.rs"),
            tools: random.one_in(4).then_some("write"),
            entries: (0..random.below(3))
                .map(|_| Entry {
                    text: if random.one_in(3) {
                        Vec::new()
                    } else {
                        random.list(&GLOBS, 2)
                    },
                    paths: random.one_in(2).then_some("*.rs"),
                    tools: random.one_in(3).then_some("write"),
                })
                .collect(),
        }
    }

    fn text(&self, number: usize) -> String {
        let mut out = format!(
            "[rule.r{number}]\ndescription = 'd'\non = ['text', 'tool-input']\naction = '{}'\nargs = ['content']\n",
            self.action
        );
        let mut key = |name: &str, value: String| writeln!(out, "{name} = {value}").unwrap();
        if self.action == "redact" {
            key("replacement", "'#'".to_owned());
        } else if self.holds {
            key("hold", "true".to_owned());
        }
        if let Some(paths) = self.paths {
            key("paths", quoted(&[paths]));
        }
        if let Some(tools) = self.tools {
            key("tools", quoted(&[tools]));
        }
        let name = match self.matches {
            Matches::Any => "match.any",
            Matches::All => "match.all",
            Matches::Sequence => "match.sequence",
        };
        key(name, regexes(&self.patterns));
        if !self.none.is_empty() {
            key("match.none", regexes(&self.none));
        }
        match self.window {
            Some(Window::Lines(lines)) => key("match.within", format!("{{ lines = {lines} }}")),
            Some(Window::Chars(chars)) => key("match.within", format!("{{ chars = {chars} }}")),
            Some(Window::Part) => key("match.within", "{ part = true }".to_owned()),
            None => {}
        }
        if let Some(first) = self.first {
            key("match.first", first.to_string());
        }
        if let Some(last) = self.last {
            key("match.last", last.to_string());
        }
        if self.count > 1 {
            key("match.count", self.count.to_string());
        }
        for entry in &self.entries {
            write!(
                out,
                "[[allow]]\nrules = ['t/r{number}']\nreason = 'made up'\n"
            )
            .unwrap();
            let mut key = |name: &str, items: &[&str]| {
                writeln!(out, "{name} = {}", quoted(items)).unwrap();
            };
            if !entry.text.is_empty() {
                key("text", &entry.text);
            }
            if let Some(paths) = entry.paths {
                key("paths", &[paths]);
            }
            if let Some(tools) = entry.tools {
                key("tools", &[tools]);
            }
        }
        out
    }

    fn window(&self) -> Window {
        let default = match self.matches {
            Matches::Any => Window::Lines(1),
            _ => Window::Part,
        };
        self.window.unwrap_or(default)
    }

    /// Returns true if the rule applies to the part.
    fn applies(&self, reply: &Reply) -> bool {
        reply.channel == Channel::Text
            || (self.paths.is_none() || reply.files.iter().any(|it| it.ends_with(".rs")))
                && self.tools.is_none_or(|tool| tool == reply.tool)
    }

    /// Returns true if an entry allows the match.
    fn is_allowed(&self, place: Place, reply: &Reply) -> bool {
        let matched = &reply.haystack[place.start..place.end];
        let is_call = reply.channel != Channel::Text;
        self.entries.iter().any(|entry| {
            let glob = |glob: &&str| {
                let regex = format!("(?is)^{}$", regex::escape(glob).replace(r"\*", ".*"));
                regex::Regex::new(&regex).unwrap().is_match(matched)
            };
            (entry.text.is_empty() || entry.text.iter().any(glob))
                && (entry.paths.is_none()
                    || is_call && reply.files.iter().all(|it| it.ends_with(".rs")))
                && entry.tools.is_none_or(|tool| is_call && tool == reply.tool)
        })
    }

    /// Returns the matches that complete the condition, with their spans, in the order of their ends. Of `all` and
    /// `sequence`, those of the pattern that completes it.
    fn complete(&self, text: &Text<'_>) -> Vec<(Place, Place)> {
        let found: Vec<Vec<Place>> = self.patterns.iter().map(|it| text.find(it)).collect();
        let mut complete = Vec::new();
        match self.matches {
            Matches::Any => complete.extend(found.into_iter().flatten().map(|it| (it, it))),
            Matches::All => {
                for (index, of_pattern) in found.iter().enumerate() {
                    for &last in of_pattern {
                        // Of the other patterns the matches that begin last, of those before this one.
                        let key = |it: &Place, pattern: usize| (it.end, it.start, pattern);
                        let others = found
                            .iter()
                            .enumerate()
                            .filter(|(other, _)| *other != index);
                        let mut spans = Some(last);
                        for (other, of_other) in others {
                            let before = of_other.iter();
                            let before = before.filter(|it| key(it, other) < key(&last, index));
                            spans = spans
                                .zip(before.max_by_key(|it| it.start))
                                .map(|(span, it)| span.with(*it));
                        }
                        complete.extend(spans.map(|span| (last, span)));
                    }
                }
            }
            Matches::Sequence => {
                // The latest start of a sequence that ends with each match.
                let mut chains: Vec<(Place, Place)> = found[0].iter().map(|&it| (it, it)).collect();
                for next in &found[1..] {
                    chains = next
                        .iter()
                        .filter_map(|&it| {
                            let before = chains.iter().filter(|(last, _)| last.end <= it.start);
                            let (_, span) = before.max_by_key(|(_, span)| span.start)?;
                            Some((it, span.with(it)))
                        })
                        .collect();
                }
                complete = chains;
            }
        }
        complete.retain(|(_, span)| match self.matches {
            Matches::Any => true,
            _ => text.fits(self.window(), *span),
        });
        complete.sort_by_key(|(place, _)| (place.end, place.start));
        complete
    }

    /// Returns the matches that count.
    fn counted(&self, reply: &Reply) -> Vec<Place> {
        if !self.applies(reply) {
            return Vec::new();
        }
        let text = Text::new(&reply.haystack);
        let exceptions: Vec<Place> = self.none.iter().flat_map(|it| text.find(it)).collect();
        let mut counted = self.complete(&text);
        counted.retain(|&(place, span)| {
            let is_excepted = || {
                let near = |it: &Place| text.fits(self.window(), span.with(*it));
                exceptions.iter().any(near)
            };
            self.first
                .is_none_or(|first| text.chars[place.end] <= first)
                && self.last.is_none_or(|last| {
                    text.chars[place.start] + last >= text.chars[text.bytes.len()]
                })
                && !self.is_allowed(place, reply)
                && !is_excepted()
        });
        counted.into_iter().map(|(place, _)| place).collect()
    }

    /// Returns true if each match is decided by itself, whatever the number of others.
    fn is_exact(&self, reply: &Reply) -> bool {
        let text = Text::new(&reply.haystack);
        let found = self.patterns.iter().map(|it| text.find(it).len());
        found.sum::<usize>() <= KEPT
    }

    /// Returns true if the first end of a match is enough for the rule.
    fn is_plain(&self) -> bool {
        matches!(self.matches, Matches::Any)
            && self.none.is_empty()
            && self.first.is_none()
            && self.last.is_none()
            && self.count == 1
            && !self.holds
            && self.action != "redact"
            && self.entries.iter().all(|entry| entry.text.is_empty())
    }

    /// Returns true if the model decides the rule: with exceptions only the last set of several matches is used.
    fn is_modelled(&self) -> bool {
        self.none.is_empty() || matches!(self.matches, Matches::Any)
    }
}

/// The haystack, with the numbers of characters and lines before each byte.
struct Text<'t> {
    bytes: &'t [u8],
    chars: Vec<usize>,
    lines: Vec<usize>,
}

impl<'t> Text<'t> {
    fn new(text: &'t str) -> Text<'t> {
        let (mut chars, mut lines) = (vec![0], vec![0]);
        for (index, byte) in text.bytes().enumerate() {
            let is_last = text.is_char_boundary(index + 1);
            chars.push(chars[index] + usize::from(is_last));
            lines.push(lines[index] + usize::from(byte == b'\n'));
        }
        Text {
            bytes: text.as_bytes(),
            chars,
            lines,
        }
    }

    fn find(&self, pattern: &str) -> Vec<Place> {
        let regex = Regex::new(pattern).unwrap();
        let found = regex.find_iter(self.bytes);
        found
            .map(|it| Place {
                start: it.start(),
                end: it.end(),
            })
            .collect()
    }

    fn fits(&self, window: Window, span: Place) -> bool {
        match window {
            Window::Lines(lines) => self.lines[span.end - 1] - self.lines[span.start] < lines,
            Window::Chars(chars) => self.chars[span.end] - self.chars[span.start] <= chars,
            Window::Part => true,
        }
    }
}

impl Place {
    fn with(self, other: Place) -> Place {
        Place {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

impl Reply {
    fn new(random: &mut Random) -> Reply {
        let haystack = text(random);
        let channel = random.pick(&[Channel::Text, Channel::ToolInput]);
        let count = 1 + usize::from(random.one_in(3));
        let files: Vec<_> = (0..count)
            .map(|_| random.pick(&["a.rs", "b.py", "c.rs"]))
            .collect();
        let file = files[0];
        let other = files.get(1).map_or_else(String::new, |other| {
            format!(",\"old\":{{\"path\":\"{other}\"}}")
        });
        let mut reply = Reply {
            channel,
            bytes: Vec::new(),
            haystack,
            starts: Vec::new(),
            ends: vec![0],
            files,
            tool: random.pick(&["write", "edit"]),
            is_tool_first: random.one_in(2),
        };
        let is_call = channel == Channel::ToolInput;
        let is_file_first = random.one_in(2);
        if is_call {
            let head = match is_file_first {
                true => format!("{{\"path\":\"{file}\",\"content\":\""),
                false => "{\"content\":\"".to_owned(),
            };
            reply.bytes.extend_from_slice(head.as_bytes());
            reply.ends[0] = reply.bytes.len();
        }
        for byte in reply.haystack.bytes() {
            reply.starts.push(reply.bytes.len());
            match byte {
                b'\n' if is_call => reply.bytes.extend_from_slice(b"\\n"),
                _ => reply.bytes.push(byte),
            }
            reply.ends.push(reply.bytes.len());
        }
        if is_call {
            let tail = match is_file_first {
                true => format!("\"{other}}}"),
                false => format!("\"{other},\"path\":\"{file}\"}}"),
            };
            reply.bytes.extend_from_slice(tail.as_bytes());
        }
        reply
    }

    /// Returns the range of a match in the part.
    fn range(&self, place: Place) -> (u64, u64) {
        (self.starts[place.start] as u64, self.ends[place.end] as u64)
    }
}

/// Returns a text, every third time with some hundred matches.
fn text(random: &mut Random) -> String {
    const PIECES: [&str; 16] = [
        "ab", "a", "b", " ", " ", "\n", "x", "y", "é", "key-1", "key-2", "ab c", "zz", "-", "c",
        "key-",
    ];
    let mut out = String::new();
    for _ in 0..random.below(12) {
        out += random.pick(&PIECES);
    }
    if random.one_in(3) {
        for _ in 0..1 + random.below(2) {
            let unit = random.pick(&[
                "ab ", "key-1 ", "b", "key-2\n", "ab\n", "x y ", "a-", "ab zz ",
            ]);
            out += &unit.repeat(random.pick(&[40, 255, 256, 257, 300]));
            for _ in 0..random.below(12) {
                out += random.pick(&PIECES);
            }
            if random.one_in(4) {
                out += &"-".repeat(random.pick(&[20, 400, 1200]));
            }
        }
    }
    for _ in 0..random.below(12) {
        out += random.pick(&PIECES);
    }
    out
}

/// What a stream reported.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// By rule: the end of the hit.
    hits: Vec<(RuleId, u64, u64)>,
    /// By rule: the ranges to redact, also if the rule does not hit.
    redactions: Vec<(RuleId, u64, u64)>,
    unconfirmed: u64,
}

fn read(pack: &Pack, reply: &Reply, deltas: &[&[u8]]) -> Outcome {
    let mut stream = pack.stream();
    let mut hits = Vec::new();
    let mut released = 0;
    stream.open(PART, reply.channel);
    let is_call = reply.channel == Channel::ToolInput;
    if is_call && reply.is_tool_first {
        let _ = stream.set_tool(PART, reply.tool, "1");
    }
    for delta in deltas {
        let new = stream.push(PART, delta).to_vec();
        released = check_release(&mut stream, &new, released);
        hits.extend(new);
    }
    if is_call && !reply.is_tool_first {
        let new = stream.set_tool(PART, reply.tool, "1").to_vec();
        released = check_release(&mut stream, &new, released);
        hits.extend(new);
    }
    let new = stream.finish().to_vec();
    check_release(&mut stream, &new, released);
    hits.extend(new);
    let redactions = stream.redactions(PART).iter();
    let mut hits: Vec<_> = hits
        .iter()
        .map(|hit| (hit.rule, hit.end, hit.decided))
        .collect();
    hits.sort_unstable();
    Outcome {
        hits,
        redactions: redactions.map(|it| (it.rule, it.start, it.end)).collect(),
        unconfirmed: stream.counters().unconfirmed,
    }
}

/// Asserts that nothing that is held or redacted was released, and returns the number of bytes that may be now.
fn check_release(stream: &mut Stream, hits: &[ttsr::Hit], released: u64) -> u64 {
    for hit in hits {
        let start = stream.start(hit);
        let holds = stream.pack().rule(hit.rule).holds();
        assert!(
            !holds || start.is_none_or(|start| start >= released),
            "{hit:?} from {start:?} after {released} were released"
        );
    }
    let now = stream.releasable(PART);
    assert!(now >= released);
    now
}

/// Returns what a host forwards of a text, with `#` for what is redacted.
fn forwarded(pack: &Pack, deltas: &[&[u8]]) -> Vec<u8> {
    let mut conversation = Conversation::new(pack);
    conversation.start_turn();
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    assert_eq!(conversation.open(PART, Channel::Text), Flow::Go);
    let mut out = Vec::new();
    for delta in deltas {
        assert_eq!(conversation.push(PART, delta), Flow::Go);
        out.extend_from_slice(conversation.take(PART));
    }
    assert_eq!(conversation.finish(), Flow::Go);
    out.extend_from_slice(conversation.take(PART));
    out
}

/// Returns some bytes around that index.
fn around(bytes: &[u8], at: usize) -> String {
    let range = at.saturating_sub(20)..bytes.len().min(at + 20);
    bytes[range].escape_ascii().to_string()
}

/// Returns the text with its ranges replaced; ranges that overlap are one.
fn replaced(text: &[u8], ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    let (mut out, mut at) = (Vec::new(), 0);
    let mut open_until = None;
    for (start, end) in ranges {
        let (start, end) = (start as usize, end as usize);
        if open_until.is_some_and(|until| start < until) {
            at = at.max(end);
            open_until = Some(at);
            continue;
        }
        out.extend_from_slice(&text[at..start]);
        out.push(b'#');
        at = end;
        open_until = Some(end);
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// Compares what was reported with the model. Of a text with more matches than are kept, a rule may report more.
fn check(models: &[Model], reply: &Reply, outcome: &Outcome) -> Result<(), String> {
    for (index, model) in models.iter().enumerate() {
        if !model.is_modelled() {
            continue;
        }
        let counted = model.counted(reply);
        let ranges: Vec<(u64, u64)> = counted.iter().map(|place| reply.range(*place)).collect();
        let is_exact = model.is_exact(reply);
        let of_rule = |known: &[(RuleId, u64, u64)]| -> Vec<(u64, u64)> {
            let of_rule = known.iter().filter(|(rule, ..)| rule.index() == index);
            of_rule
                .map(|(_, first, second)| (*first, *second))
                .collect()
        };
        let hits = of_rule(&outcome.hits);
        let is_hit = counted.len() >= model.count;
        if hits.len() > 1 || is_hit && hits.is_empty() || is_exact && is_hit != (hits.len() == 1) {
            return Err(format!(
                "rule {index} hits {hits:?}, and these count: {ranges:?}"
            ));
        }
        let mut ends = hits.iter().map(|hit| hit.0);
        if is_exact
            && !model.is_plain()
            && !ends.all(|end| ranges.iter().any(|range| range.1 == end))
        {
            return Err(format!("rule {index} hits {hits:?}, not {ranges:?}"));
        }
        if model.action != "redact" {
            continue;
        }
        // Matches that wait are counted later, so the model does not know which ones are before the one that breaks the
        // rule, and have been released.
        let redacted = of_rule(&outcome.redactions);
        let released = model.count - 1;
        let missing = ranges
            .iter()
            .filter(|range| !redacted.contains(range))
            .count();
        let extra = redacted
            .iter()
            .find(|range| is_exact && !ranges.contains(range));
        let is_right = match is_exact {
            true => redacted.len() == ranges.len().saturating_sub(released),
            false => redacted.len() >= ranges.len().saturating_sub(released),
        };
        if missing > released || extra.is_some() || !is_right {
            return Err(format!("rule {index} redacts {redacted:?} of {ranges:?}"));
        }
    }
    Ok(())
}

/// Reads random replies with the packs of these seeds. Returns the numbers of hits and of replies with too many matches.
fn run(seeds: std::ops::Range<usize>) -> (usize, usize) {
    let (mut hits, mut floods) = (0, 0);
    for seed in seeds {
        let mut random = Random::new(seed as u64);
        let mut models: Vec<Model> = Vec::new();
        let text = |models: &[Model]| {
            let rules = models.iter().enumerate().map(|(index, it)| it.text(index));
            format!(
                "schema = 1\n[pack]\nname = 't'\ngrants = ['redact', 'retry', 'abort']\n{}",
                rules.collect::<String>()
            )
        };
        while models.is_empty() || models.len() < 3 && random.one_in(2) {
            models.push(Model::new(&mut random));
            if Pack::from_toml(&text(&models)).is_err() {
                models.pop();
            }
        }
        let pack = Pack::from_toml(&text(&models)).unwrap();
        assert_eq!(pack.rules().len(), models.len());
        let read_back = Pack::from_bytes(&pack.to_bytes()).unwrap();
        for number in 0..REPLIES {
            let reply = Reply::new(&mut random);
            let about = || {
                format!(
                    "seed {seed}, reply {number}\n{}\n{:?} {:?} {} {}\n{}",
                    text(&models),
                    reply.channel,
                    reply.files,
                    reply.tool,
                    reply.is_tool_first,
                    reply.bytes.escape_ascii()
                )
            };
            let whole = read(&pack, &reply, &[&reply.bytes]);
            if let Err(error) = check(&models, &reply, &whole) {
                panic!("{error}\n{}", about());
            }
            hits += whole.hits.len();
            floods += usize::from(models.iter().any(|it| !it.is_exact(&reply)));
            let single: Vec<&[u8]> = reply.bytes.chunks(1).collect();
            let mut ways = vec![single];
            for longest in [3, 40, 700] {
                ways.push(random.pieces(&reply.bytes, longest));
            }
            for (index, way) in ways.iter().enumerate() {
                let pack = if index % 2 == 0 { &read_back } else { &pack };
                let got = read(pack, &reply, way);
                assert!(
                    got == whole,
                    "{got:?}\nnot\n{whole:?}\nin {} deltas\n{}",
                    way.len(),
                    about()
                );
                let passes = |rule: &Rule| ["observe", "redact"].contains(&rule.action.name());
                if reply.channel != Channel::Text || !pack.rules().iter().all(passes) {
                    continue;
                }
                // Undecided matches of a rule that does not hit are listed, too, and not replaced.
                let has_hit = |rule: RuleId| whole.hits.iter().any(|hit| hit.0 == rule);
                let ranges = whole.redactions.iter().filter(|it| has_hit(it.0));
                let ranges: Vec<_> = ranges.map(|it| (it.1, it.2)).collect();
                let wanted = replaced(&reply.bytes, &ranges);
                let out = forwarded(pack, way);
                let same = out.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
                assert!(
                    out == wanted,
                    "forwards {:?} and not {:?} in {} deltas\n{}",
                    around(&out, same),
                    around(&wanted, same),
                    way.len(),
                    about()
                );
            }
        }
    }
    (hits, floods)
}

#[test]
fn conditions_hit_and_redact_as_a_model_of_the_whole_text_says() {
    let packs = scale(PACKS);
    let runs = in_parts(packs, run);
    let hits: usize = runs.iter().map(|run| run.0).sum();
    let floods: usize = runs.iter().map(|run| run.1).sum();
    println!(
        "conditions: {hits} hits in {} replies, {floods} with many matches",
        packs * REPLIES
    );
    assert!(hits > packs / 2, "{hits}");
    assert!(floods > packs / 4, "{floods}");
}

/// Returns true if matches of the patterns follow each other in the parts, in the order of opening.
fn has_sequence(patterns: &[&str], parts: &[String]) -> bool {
    // The earliest end of the sequence so far: the part and the offset in it.
    let mut from = (0, 0);
    patterns.iter().all(|pattern| {
        let next = parts
            .iter()
            .enumerate()
            .skip(from.0)
            .find_map(|(part, text)| {
                let least = if part == from.0 { from.1 } else { 0 };
                let found = Text::new(text).find(pattern);
                let places = found.iter().filter(|place| place.start >= least);
                Some((part, places.map(|place| place.end).min()?))
            });
        from = next.unwrap_or(from);
        next.is_some()
    })
}

#[test]
fn conditions_over_parts_hit_as_a_model_says_in_whatever_order_the_deltas_arrive() {
    let (mut hits, mut floods) = (0, 0);
    for seed in 0..scale(PACKS) as u64 {
        let mut random = Random::new(seed);
        let is_sequence = random.one_in(2);
        let count = 2 + random.below(2);
        let patterns: Vec<&str> = (0..count).map(|_| random.pick(&PATTERNS)).collect();
        let pack = format!(
            "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\non = ['text']\n\
             match.within = {{ message = true }}\nmatch.{} = {}\n",
            if is_sequence { "sequence" } else { "all" },
            regexes(&patterns)
        );
        let pack = Pack::from_toml(&pack).unwrap_or_else(|error| panic!("{error}"));
        let parts: Vec<String> = (0..1 + random.below(3))
            .map(|_| text(&mut random))
            .collect();
        let found = patterns.iter().flat_map(|pattern| {
            let found = parts.iter().map(|text| Text::new(text).find(pattern));
            found.map(|places| places.len())
        });
        let is_exact = found.sum::<usize>() <= KEPT;
        let wanted = match is_sequence {
            true => has_sequence(&patterns, &parts),
            false => patterns.iter().all(|pattern| {
                let mut texts = parts.iter().map(|text| Text::new(text).find(pattern));
                texts.any(|found| !found.is_empty())
            }),
        };
        for longest in [1, 7, 100, 10_000] {
            let mut stream = pack.stream();
            let ids = 0..parts.len() as u32;
            ids.clone()
                .for_each(|id| stream.open(PartId(id), Channel::Text));
            let mut pieces: Vec<_> = parts
                .iter()
                .map(|text| random.pieces(text.as_bytes(), longest).into_iter())
                .collect();
            let (mut hit, mut is_left) = (false, true);
            while is_left {
                let first = random.below(pieces.len());
                let mut order = (first..parts.len()).chain(0..first);
                let next = order.find_map(|index| Some((index, pieces[index].next()?)));
                is_left = next.is_some();
                if let Some((index, piece)) = next {
                    hit |= !stream.push(PartId(index as u32), piece).is_empty();
                }
            }
            hit |= !stream.finish().is_empty();
            assert!(
                hit == wanted || hit && !is_exact,
                "seed {seed}: {hit}, not {wanted}, for {patterns:?} in {parts:?}, in pieces of {longest}"
            );
        }
        hits += usize::from(wanted);
        floods += usize::from(!is_exact);
    }
    println!("conditions over parts: {hits} hits, {floods} with many matches");
    assert!(hits > 0);
}
