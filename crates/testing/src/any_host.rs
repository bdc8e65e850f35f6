//! Random hosts over a conversation. For every host and every split of the text, the text that the host takes is the
//! redacted text, or the beginning of it if the attempt is cut. It contains no byte of a match that is held or
//! redacted, no byte that decides a cut, and no byte of a tool call that a rule cuts.
//!
//! The host of each run ignores every answer. Packs, texts, splits and the order of calls come from the input.

use regex::Regex;
use ttsr::{Action, Channel, Conversation, Flow, Mode, Pack, PartId, Pattern, Rule};

/// Choices read from the input. After its end, every choice is the first one.
struct Choices<'d>(&'d [u8]);

impl Choices<'_> {
    fn below(&mut self, bound: usize) -> usize {
        let [first, rest @ ..] = self.0 else { return 0 };
        self.0 = rest;
        usize::from(*first) % bound
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

const PATTERNS: [&str; 7] = [
    "ab+c",
    "k-[0-9]{3}",
    "secret",
    "x[^xy]{0,4}y",
    r"TODO\b",
    "end$",
    "é+c",
];

const FRAGMENTS: [&str; 20] = [
    "a", "ab", "b", "c", "k-1", "k-", "12", "3", "secr", "et", "x", "y", "TODO", "TO", " ", "é",
    "end", "\"", "\\", "k-123",
];

const CHANNELS: [Channel; 3] = [Channel::Text, Channel::Reasoning, Channel::ToolInput];

/// Action, hold and mode of a rule.
const KINDS: [(Action, bool, Mode); 10] = [
    (Action::Redact, false, Mode::Live),
    (Action::Redact, false, Mode::Live),
    (Action::Abort, true, Mode::Live),
    (Action::Retry, true, Mode::Live),
    (Action::Abort, false, Mode::Live),
    (Action::Retry, false, Mode::Live),
    (Action::Warn, true, Mode::Live),
    (Action::Inject, false, Mode::Live),
    (Action::Redact, false, Mode::Shadow),
    (Action::Abort, true, Mode::Shadow),
];

fn rules(choices: &mut Choices<'_>) -> Vec<Rule> {
    let number = 1 + choices.below(4);
    let rule = |number| {
        let pattern = choices.pick(&PATTERNS);
        let mut rule = Rule::new(format!("p/r{number}"), vec![Pattern::regex(pattern)]);
        (rule.action, rule.hold, rule.mode) = choices.pick(&KINDS);
        rule.on = match choices.below(4) {
            0 => CHANNELS.to_vec(),
            one => vec![CHANNELS[one - 1]],
        };
        rule.partial = choices.pick(&[
            ttsr::Partial::Discard,
            ttsr::Partial::Keep,
            ttsr::Partial::KeepBeforeMatch,
        ]);
        rule
    };
    (0..number).map(rule).collect()
}

/// A part that the host is about to send.
struct Sent {
    channel: Channel,
    /// The text that the patterns see.
    text: String,
    /// The bytes of the part: the text, or a call with the text as its argument.
    bytes: Vec<u8>,
    /// The ends of the fragments, if the part is the text.
    ends: Vec<usize>,
    pushed: usize,
    is_closed: bool,
    taken: Vec<u8>,
}

fn sent(choices: &mut Choices<'_>) -> Sent {
    let channel = choices.pick(&CHANNELS);
    let number = choices.below(12);
    let fragments: Vec<&str> = (0..number).map(|_| choices.pick(&FRAGMENTS)).collect();
    let text = fragments.concat();
    let mut ends: Vec<usize> = fragments
        .iter()
        .scan(0, |end, fragment| {
            *end += fragment.len();
            Some(*end)
        })
        .collect();
    let bytes = match channel {
        Channel::ToolInput => {
            ends.clear();
            let number = choices.below(100);
            serde_json::json!({ "n": number, "text": text }).to_string()
        }
        _ => text.clone(),
    };
    Sent {
        channel,
        text,
        bytes: bytes.into_bytes(),
        ends,
        pushed: 0,
        is_closed: false,
        taken: Vec::new(),
    }
}

fn regex(rule: &Rule) -> Regex {
    Regex::new(&rule.condition.any[0].text).expect("the patterns are right")
}

/// Redacts a text by a search over all of it. Returns the result and, for each offset of the text up to its end, the
/// number of bytes of the result that come from the bytes before the offset.
fn redacted(rules: &[&Rule], text: &str) -> (String, Vec<usize>) {
    let redacting = rules.iter().filter(|rule| rule.action == Action::Redact);
    let mut spans: Vec<(usize, usize)> = redacting
        .flat_map(|rule| {
            let found: Vec<_> = regex(rule)
                .find_iter(text)
                .map(|it| (it.start(), it.end()))
                .collect();
            found
        })
        .collect();
    spans.sort_unstable();
    let mut merged: Vec<(usize, usize)> = Vec::new();
    for (start, end) in spans {
        match merged.last_mut() {
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    let mut out = String::new();
    let mut ends = Vec::with_capacity(text.len() + 1);
    let mut next = 0;
    for (start, end) in merged {
        ends.extend((next..=start).map(|at| out.len() + at - next));
        out.push_str(&text[next..start]);
        out.push_str("[redacted]");
        ends.extend((start + 1..end).map(|_| out.len()));
        next = end;
    }
    ends.extend((next..=text.len()).map(|at| out.len() + at - next));
    out.push_str(&text[next..]);
    (out, ends)
}

/// Returns the number of bytes of a text that may leave before a rule cuts.
fn limit(rules: &[&Rule], text: &str) -> usize {
    let cutting = rules.iter().filter(|rule| rule.action.cuts());
    let limits = cutting.filter_map(|rule| {
        let regex = regex(rule);
        match rule.hold {
            true => regex.find(text).map(|found| found.start()),
            // A look-ahead is decided after the match, which has left by then.
            false if regex.as_str().ends_with(['b', '$']) => None,
            false => regex.shortest_match(text).map(|end| end - 1),
        }
    });
    limits.min().unwrap_or(text.len())
}

/// Runs one host.
///
/// # Panics
/// Panics if the host can take more than may leave.
pub fn run(data: &[u8]) {
    let mut choices = Choices(data);
    let rules = rules(&mut choices);
    let add = |builder: ttsr::PackBuilder, rule: &Rule| builder.rule(rule.clone());
    let Ok(pack) = rules.iter().fold(Pack::builder(), add).build() else {
        return;
    };
    let mut parts: Vec<Sent> = (0..1 + choices.below(3))
        .map(|_| sent(&mut choices))
        .collect();
    let mut conversation = Conversation::new(&pack);
    let mut turn = conversation.turn("Go.");
    let mut attempt = turn.attempt();
    let id = |number: usize| PartId(number as u32);
    for (number, part) in parts.iter().enumerate() {
        let _ = attempt.open(id(number), part.channel);
    }
    for _ in 0..200 {
        if choices.is_done() {
            break;
        }
        let number = choices.below(parts.len());
        let part = &mut parts[number];
        match choices.below(10) {
            // Bytes of a closed part must not leave.
            0..=3 if part.is_closed => drop(attempt.push(id(number), b"secret k-123 abc")),
            0..=3 => {
                let end = (part.pushed + choices.below(9)).min(part.bytes.len());
                let _ = attempt.push(id(number), &part.bytes[part.pushed..end]);
                part.pushed = end;
            }
            8 | 9 if part.is_closed => {
                let forwarded = attempt.forward(id(number), b"secret k-123 abc");
                part.taken.extend_from_slice(forwarded.unwrap_or_default());
            }
            8 | 9 => {
                // A whole fragment, which may be a whole match.
                let fragment = part.ends.iter().find(|end| **end > part.pushed);
                let end = match fragment {
                    Some(end) => *end,
                    None => (part.pushed + choices.below(9)).min(part.bytes.len()),
                };
                let forwarded = attempt.forward(id(number), &part.bytes[part.pushed..end]);
                part.taken.extend_from_slice(forwarded.unwrap_or_default());
                part.pushed = end;
            }
            4 | 5 => part.taken.extend_from_slice(attempt.take(id(number))),
            6 if part.pushed == part.bytes.len() => {
                part.is_closed = true;
                let _ = attempt.close(id(number));
            }
            6 => drop(attempt.set_tool(id(number), "bash", "call")),
            _ => drop(attempt.open(id(number), choices.pick(&CHANNELS))),
        }
    }
    for (number, part) in parts.iter_mut().enumerate() {
        let _ = attempt.push(id(number), &part.bytes[part.pushed..]);
        part.taken.extend_from_slice(attempt.take(id(number)));
    }
    let flow = attempt.finish();
    assert_eq!(flow, attempt.flow(), "a cut repeats");
    for (number, part) in parts.iter_mut().enumerate() {
        part.taken.extend_from_slice(attempt.take(id(number)));
        check(&rules, part, flow == Flow::Go);
    }
    if let Flow::Cut(cut) = &flow {
        for kept in &cut.keep {
            let part = &parts[kept.part.0 as usize];
            let live = live(&rules, part.channel);
            let (clean, _) = redacted(&live, &part.text);
            assert!(
                clean.starts_with(&kept.text),
                "{kept:?} is kept of {:?}",
                part.text
            );
        }
    }
}

fn live(rules: &[Rule], channel: Channel) -> Vec<&Rule> {
    let live = rules.iter().filter(|rule| rule.mode == Mode::Live);
    live.filter(|rule| rule.on.contains(&channel)).collect()
}

fn check(rules: &[Rule], part: &Sent, is_complete: bool) {
    let rules = live(rules, part.channel);
    let what = || {
        let rules = rules
            .iter()
            .map(|rule| (regex(rule), rule.action, rule.hold));
        let rules: Vec<_> = rules.collect();
        format!("{rules:?}\n{:?} as {}", part.text, part.channel.name())
    };
    let (clean, ends) = redacted(&rules, &part.text);
    let limit = limit(&rules, &part.text);
    if part.channel == Channel::ToolInput {
        let cuts = |rule: &&Rule| rule.action.cuts() && regex(rule).is_match(&part.text);
        if rules.iter().any(cuts) {
            assert_eq!(String::from_utf8_lossy(&part.taken), "", "{}", what());
        }
        if is_complete {
            let input: serde_json::Value =
                serde_json::from_slice(&part.taken).unwrap_or_else(|error| {
                    panic!(
                        "{error}: {:?}\n{}",
                        String::from_utf8_lossy(&part.taken),
                        what()
                    )
                });
            assert_eq!(input["text"], clean, "{}", what());
        }
        return;
    }
    let taken = String::from_utf8_lossy(&part.taken);
    assert!(
        clean.as_bytes().starts_with(&part.taken),
        "{taken:?} is taken\n{}",
        what()
    );
    assert!(
        part.taken.len() <= ends[limit],
        "{taken:?} is taken, and byte {limit} is cut\n{}",
        what()
    );
    assert!(
        !is_complete || clean == taken,
        "{taken:?} is all that is taken\n{}",
        what()
    );
}
