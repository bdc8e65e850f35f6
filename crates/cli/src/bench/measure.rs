//! Times a pack on a script, and finds out what each rule has to do with it.
//!
//! All rules of a channel are one automaton, so the time of a rule by itself does not exist: what can be
//! had is what changes without it. States are counted, and so are the same in every run; times are
//! medians of passes in turn, and a few percent of them are noise.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use regex_automata::meta::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};
use ttsr::{Channel, Pack, PartId, Rule, Stream};

use super::report::{Automaton, Cost, Growth, Report, Rescan, RuleCost, Why};
use super::script::{Script, Step};
use crate::{Stop, packs};

/// How long one figure may take.
const PATIENCE: Duration = Duration::from_millis(300);

/// How long searching again may take: it is quadratic.
const RESCAN_PATIENCE: Duration = Duration::from_secs(2);

/// Rules that are left out one by one: those that need the most states by themselves. Each takes a load.
const LEFT_OUT: usize = 40;

/// Rules whose time is measured: those that add the most states.
const TIMED: usize = 8;

/// Stretches of the longest reply that are timed by themselves.
const STRETCHES: usize = 16;

pub(crate) fn measure(pack: &Pack, script: &Script) -> Result<Report, Stop> {
    let hits = script.play(pack).hits; // builds the states
    let automata: Vec<Automaton> = Channel::ALL
        .into_iter()
        .flat_map(|channel| automata(pack, channel))
        .collect();
    let states = states(pack);
    let cost = Cost::new(time(|| script.play(pack).took), script);
    let host = Host::new(pack);
    let bare = Cost::new(time(|| accumulate(script)), script);
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        packs: names(pack),
        streams: script.names.clone(),
        rules_loaded: pack.rules().len(),
        patterns: pack
            .rules()
            .iter()
            .map(|rule| rule.condition.patterns().count())
            .sum(),
        replies: script.replies.len(),
        parts: script.parts,
        deltas: script.deltas,
        bytes: script.bytes,
        hits,
        bare,
        cost,
        rescan: rescan(&host, script),
        growth: growth(pack, &host, script.longest()),
        state_bytes: Stream::STATE_BYTES,
        automata,
        states,
        rules: rules(pack, script, states)?,
    })
}

/// The packs, with their versions where they have any.
fn names(pack: &Pack) -> Vec<String> {
    let headers = pack.headers().iter();
    let name = headers.map(|header| match &header.version {
        Some(version) => format!("{} {version}", header.name),
        None => header.name.clone(),
    });
    name.collect()
}

/// Median of passes within [`PATIENCE`], of at least three.
fn time(mut pass: impl FnMut() -> Duration) -> Duration {
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || started.elapsed() < PATIENCE {
        times.push(pass());
    }
    median(times)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn automata(pack: &Pack, channel: Channel) -> Vec<Automaton> {
    let sizes = pack.automata(channel);
    sizes
        .map(|size| Automaton {
            channel: channel.name(),
            size,
        })
        .collect()
}

/// States of all automata, as the script has left them.
fn states(pack: &Pack) -> usize {
    let sizes = Channel::ALL
        .into_iter()
        .flat_map(|channel| pack.automata(channel));
    sizes.map(|size| size.states).sum()
}

/// The least that a host does: it keeps the deltas.
fn accumulate(script: &Script) -> Duration {
    let started = Instant::now();
    for reply in &script.replies {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for step in reply {
            if let Step::Delta(part, bytes) = step {
                kept(&mut parts, *part).extend_from_slice(bytes);
            }
        }
        black_box(parts);
    }
    started.elapsed()
}

/// The bytes of a part so far. Parts are numbered from 0, without gaps.
fn kept(parts: &mut Vec<Vec<u8>>, part: PartId) -> &mut Vec<u8> {
    let index = part.0 as usize;
    if parts.len() <= index {
        parts.resize(index + 1, Vec::new());
    }
    &mut parts[index]
}

/// A host that has a regex for each pattern, and at each delta searches the part so far with those whose rules read
/// its channel.
struct Host {
    regexes: Vec<(Regex, Vec<Channel>)>,
    /// Patterns that the regex engine does not take.
    unread: usize,
}

/// The parts of a reply so far, by their numbers.
#[derive(Default)]
struct Texts(Vec<(Option<Channel>, Vec<u8>)>);

impl Texts {
    fn part(&mut self, part: PartId) -> &mut (Option<Channel>, Vec<u8>) {
        let index = part.0 as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, (None, Vec::new()));
        }
        &mut self.0[index]
    }
}

impl Host {
    fn new(pack: &Pack) -> Host {
        let mut host = Host {
            regexes: Vec::new(),
            unread: 0,
        };
        for rule in pack.rules() {
            for pattern in rule.condition.patterns() {
                match Regex::new(&pattern.to_regex()) {
                    Ok(regex) => host.regexes.push((regex, rule.on.clone())),
                    Err(_) => host.unread += 1,
                }
            }
        }
        host
    }

    /// Takes a step; whether it was a delta.
    fn take(&self, texts: &mut Texts, step: &Step) -> bool {
        match step {
            Step::Open(part, channel) => {
                texts.part(*part).0 = Some(*channel);
                false
            }
            Step::Delta(part, bytes) => {
                let (channel, text) = texts.part(*part);
                text.extend_from_slice(bytes);
                let channel = channel.unwrap_or(Channel::Text);
                let read = self.regexes.iter().filter(|(_, on)| on.contains(&channel));
                black_box(read.filter(|(regex, _)| regex.is_match(&text[..])).count());
                true
            }
            Step::Tool(..) | Step::Close(_) => false,
        }
    }
}

/// One pass that warms the regexes up, and one that is timed; of each as much as there is patience for.
fn rescan(host: &Host, script: &Script) -> Rescan {
    rescan_once(host, script);
    rescan_once(host, script)
}

fn rescan_once(host: &Host, script: &Script) -> Rescan {
    let mut deltas = 0;
    let mut is_whole = true;
    let started = Instant::now();
    'all: for reply in &script.replies {
        let mut texts = Texts::default();
        for step in reply {
            if started.elapsed() > RESCAN_PATIENCE {
                is_whole = false;
                break 'all;
            }
            deltas += usize::from(host.take(&mut texts, step));
        }
    }
    Rescan {
        ns_per_delta: nanoseconds(started.elapsed()) / deltas.max(1) as f64,
        deltas,
        is_whole,
        patterns_left_out: host.unread,
    }
}

/// What a delta costs along the longest reply, for us and for a host that searches again.
fn growth(pack: &Pack, host: &Host, reply: &[Step]) -> Vec<Growth> {
    let deltas: usize = reply.iter().filter(|step| step.bytes() > 0).count();
    let each = deltas.div_ceil(STRETCHES).max(1);
    let mut stretches: Vec<&[Step]> = Vec::new();
    let (mut from, mut seen) = (0, 0);
    for (index, step) in reply.iter().enumerate() {
        seen += usize::from(step.bytes() > 0);
        if seen == each {
            stretches.push(&reply[from..=index]);
            (from, seen) = (index + 1, 0);
        }
    }
    let passes = (0..15).map(|_| {
        let mut stream = pack.stream();
        let time = |steps: &&[Step]| {
            let started = Instant::now();
            black_box(
                steps
                    .iter()
                    .map(|step| step.tell(&mut stream))
                    .sum::<usize>(),
            );
            started.elapsed()
        };
        stretches.iter().map(time).collect::<Vec<Duration>>()
    });
    let passes: Vec<Vec<Duration>> = passes.collect();
    let (mut texts, mut bytes) = (Texts::default(), 0);
    let begun = Instant::now();
    let stretch = |(index, steps): (usize, &&[Step])| {
        let started = Instant::now();
        let is_patient = begun.elapsed() < RESCAN_PATIENCE;
        if is_patient {
            for step in steps.iter() {
                host.take(&mut texts, step);
            }
        }
        let searched = nanoseconds(started.elapsed()) / each as f64;
        bytes += steps.iter().map(Step::bytes).sum::<usize>();
        Growth {
            bytes,
            ns_per_delta: nanoseconds(median(passes.iter().map(|pass| pass[index]).collect()))
                / each as f64,
            rescan_ns_per_delta: is_patient.then_some(searched),
        }
    };
    stretches.iter().enumerate().map(stretch).collect()
}

/// Every rule that is looked at, those first that add the most states.
fn rules(pack: &Pack, script: &Script, all: usize) -> Result<Vec<RuleCost>, Stop> {
    let mut costs = Vec::new();
    for rule in pack.rules() {
        let alone = packs::build(std::iter::once(rule.clone()))?;
        let hits = script.play(&alone).hits;
        costs.push(RuleCost::new(rule, states(&alone), hits));
    }
    costs.sort_by(|a, b| {
        b.states_alone
            .cmp(&a.states_alone)
            .then_with(|| a.rule.cmp(&b.rule))
    });
    for cost in costs.iter_mut().take(LEFT_OUT) {
        let without = without(pack, &cost.rule)?;
        script.play(&without);
        // Leaving a rule out can also add states: fewer kinds of characters, other rows.
        cost.states_added = Some(all.saturating_sub(states(&without)));
    }
    costs.sort_by(|a, b| {
        b.states_added
            .cmp(&a.states_added)
            .then_with(|| a.rule.cmp(&b.rule))
    });
    for cost in costs.iter_mut().take(TIMED) {
        cost.is_timed = true;
        cost.ns_saved_per_delta = saved(pack, &without(pack, &cost.rule)?, script);
    }
    for cost in &mut costs {
        cost.why = why(pack, cost, all);
    }
    Ok(costs)
}

fn without(pack: &Pack, rule: &str) -> Result<Pack, Stop> {
    packs::build(
        pack.rules()
            .iter()
            .filter(|other| other.id != rule)
            .cloned(),
    )
}

/// Median over pairs of passes, in turn, of the time that the pack without the rule saves; `None` if that is within
/// the noise, which it is unless three quarters of the pairs agree that time is saved.
fn saved(pack: &Pack, without: &Pack, script: &Script) -> Option<f64> {
    script.play(without); // builds the states
    let started = Instant::now();
    let mut saved = Vec::new();
    while saved.len() < 5 || started.elapsed() < PATIENCE {
        let (with, less) = (script.play(pack).took, script.play(without).took);
        saved.push(nanoseconds(with) - nanoseconds(less));
    }
    saved.sort_by(f64::total_cmp);
    (saved[saved.len() / 4] > 0.0).then(|| saved[saved.len() / 2] / script.deltas as f64)
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// What makes a rule dear, as far as its patterns and its states tell.
fn why(pack: &Pack, cost: &RuleCost, all: usize) -> BTreeSet<Why> {
    let rule = pack.find(&cost.rule).map(|id| pack.rule(id));
    let mut why: BTreeSet<Why> = rule.into_iter().flat_map(of_patterns).collect();
    // A tenth of all states in one rule, where there are more than a few rules.
    if pack.rules().len() > 3 && cost.states_added.is_some_and(|added| added * 10 > all) {
        why.insert(Why::States);
    }
    if cost.hits > 0 {
        why.insert(Why::Hits);
    }
    why
}

fn of_patterns(rule: &Rule) -> impl Iterator<Item = Why> {
    let parse = |text: String| {
        regex_syntax::ParserBuilder::new()
            .utf8(false)
            .build()
            .parse(&text)
            .ok()
    };
    rule.condition
        .any
        .iter()
        .filter_map(move |pattern| match parse(pattern.to_regex()) {
            // It was loaded, so what the regex engine cannot read is look-around or a reference back.
            None => Some(Why::Confirms),
            Some(hir) => (!has_literal(&hir)).then_some(Why::NoLiteral),
        })
}

/// Characters in a row that make a beginning rare.
const LITERAL: usize = 3;

/// Whether every match holds so many known characters in a row, case aside.
///
/// The parser bounds how deep a pattern nests, and so how deep this goes.
fn has_literal(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.len() >= LITERAL,
        HirKind::Concat(subs) => {
            let mut run = 0;
            subs.iter().any(|sub| {
                run = known(sub).map_or(0, |length| run + length);
                run >= LITERAL || has_literal(sub)
            })
        }
        HirKind::Alternation(subs) => subs.iter().all(has_literal),
        HirKind::Capture(capture) => has_literal(&capture.sub),
        HirKind::Repetition(repetition) => repetition.min > 0 && has_literal(&repetition.sub),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Length of an expression that is known text but for the case of letters.
fn known(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(literal.0.len()),
        HirKind::Look(_) | HirKind::Empty => Some(0),
        // `k` and `s` have a third form, the Kelvin sign and the long s.
        HirKind::Class(Class::Unicode(class)) => {
            let chars = class.iter().map(|range| range.len()).sum::<usize>();
            (chars <= 3).then_some(1)
        }
        HirKind::Class(Class::Bytes(class)) => {
            let bytes = class.iter().map(|range| range.len()).sum::<usize>();
            (bytes <= 2).then_some(1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_text_that_every_match_holds() {
        let parse = |text| regex_syntax::parse(text).unwrap();
        for text in [
            "abc",
            "(?i)skip",
            "x?abcd+",
            "(?:abc|xyz.)",
            r"\bfoo\b",
            r"(foo){2}",
        ] {
            assert!(has_literal(&parse(text)), "{text}");
        }
        for text in [
            "ab",
            r"\w+",
            "(?:abc|x)",
            "(?:abc)*",
            r"a\db\dc",
            "[a-f]{8}",
        ] {
            assert!(!has_literal(&parse(text)), "{text}");
        }
    }
}
