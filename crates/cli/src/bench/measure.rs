//! Times a pack on a recorded stream and estimates the cost of each rule.
//!
//! All rules of a channel share one automaton, so one rule has no time of its own. The cost of a rule is the
//! difference that leaving it out makes. State counts are exact and reproducible. Times are medians of interleaved
//! passes and carry a few percent of noise.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use regex_automata::meta::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};
use ttsr::rule::PatternKind;
use ttsr::{Channel, Event, Pack, PartId, Rule, Stream};

use super::report::{
    BenchReport, ChannelAutomaton, CostReason, GrowthPoint, PassCost, Rescan, RuleCost,
};
use super::rows::{Row, RowCost};
use super::script::{ReplayScript, apply, delta_bytes};
use crate::{CommandError, load};

/// Time limit for one figure.
const PATIENCE: Duration = Duration::from_millis(300);

/// Time limit for rescanning, which is quadratic.
const RESCAN_PATIENCE: Duration = Duration::from_secs(2);

/// Number of rules that are left out one by one: those that need the most states alone. Each costs one load.
const LEFT_OUT: usize = 40;

/// Number of rules that are timed: those that add the most states.
const TIMED: usize = 8;

/// Number of equal sections of the longest reply that are timed separately.
const STRETCHES: usize = 16;

pub(crate) fn measure(pack: &Pack, script: &ReplayScript) -> Result<BenchReport, CommandError> {
    let hits = script.play(pack).hits; // builds the states
    let automata: Vec<ChannelAutomaton> = Channel::ALL
        .into_iter()
        .flat_map(|channel| automata(pack, channel))
        .collect();
    let states = built_states(pack);
    let matching = PassCost::new(median_time(|| script.play(pack).took), script);
    let rows = Row::ALL.into_iter();
    let rows = rows.filter_map(|row| time_row(row, pack, script)).collect();
    let host = RescanHost::new(pack);
    let bare = PassCost::new(median_time(|| time_minimal_host(script)), script);
    Ok(BenchReport {
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
        matching,
        rows,
        rescan: rescan(&host, script),
        growth: growth(pack, &host, script.longest()),
        state_bytes: Stream::STATE_BYTES,
        automata,
        states,
        rules: rules(pack, script, states)?,
    })
}

/// Times the passes of a row. `None` if the script has nothing for it.
fn time_row(row: Row, pack: &Pack, script: &ReplayScript) -> Option<RowCost> {
    let work = row.prepare(script)?;
    let cuts = work.pass(pack); // builds the states
    let took = median_time(|| {
        let started = Instant::now();
        black_box(work.pass(pack));
        started.elapsed()
    });
    Some(RowCost {
        row,
        pieces: work.pieces(),
        cuts,
        ns: nanoseconds(took) / work.pieces() as f64,
        instructions: None,
    })
}

/// Returns the names of the packs, with their versions if they declare one.
fn names(pack: &Pack) -> Vec<String> {
    let headers = pack.headers().iter();
    let name = headers.map(|header| match &header.version {
        Some(version) => format!("{} {version}", header.name),
        None => header.name.clone(),
    });
    name.collect()
}

/// Returns the median of at least three passes, as many as fit into [`PATIENCE`].
fn median_time(mut pass: impl FnMut() -> Duration) -> Duration {
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

fn automata(pack: &Pack, channel: Channel) -> Vec<ChannelAutomaton> {
    let sizes = pack.automata(channel);
    sizes
        .map(|size| ChannelAutomaton {
            channel: channel.name(),
            size,
        })
        .collect()
}

/// Returns the number of states that all automata have built after the script.
fn built_states(pack: &Pack) -> usize {
    let sizes = Channel::ALL
        .into_iter()
        .flat_map(|channel| pack.automata(channel));
    sizes.map(|size| size.states).sum()
}

/// Times the minimal host, which only appends the deltas to a buffer.
fn time_minimal_host(script: &ReplayScript) -> Duration {
    let started = Instant::now();
    for reply in &script.replies {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for event in reply {
            if let Event::Delta { part, bytes } = event {
                part_buffer(&mut parts, *part).extend_from_slice(bytes);
            }
        }
        black_box(parts);
    }
    started.elapsed()
}

/// Returns the bytes of a part so far. Parts are numbered from 0 without gaps.
fn part_buffer(parts: &mut Vec<Vec<u8>>, part: PartId) -> &mut Vec<u8> {
    let index = part.0 as usize;
    if parts.len() <= index {
        parts.resize(index + 1, Vec::new());
    }
    &mut parts[index]
}

/// A host that compiles one regex per pattern and, at each delta, searches the whole part so far with the regexes
/// whose rules read its channel.
struct RescanHost {
    regexes: Vec<(Regex, Vec<Channel>)>,
    /// Number of patterns that the regex engine rejects.
    unread: usize,
}

/// The parts of one reply so far, indexed by part number.
#[derive(Default)]
struct PartTexts(Vec<(Option<Channel>, Vec<u8>)>);

impl PartTexts {
    fn part(&mut self, part: PartId) -> &mut (Option<Channel>, Vec<u8>) {
        let index = part.0 as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, (None, Vec::new()));
        }
        &mut self.0[index]
    }
}

impl RescanHost {
    fn new(pack: &Pack) -> RescanHost {
        let mut host = RescanHost {
            regexes: Vec::new(),
            unread: 0,
        };
        for rule in pack.rules() {
            for pattern in rule.condition.patterns() {
                if pattern.kind == PatternKind::Command {
                    // A regular expression cannot judge what a shell would run.
                    host.unread += 1;
                    continue;
                }
                match Regex::new(&pattern.to_regex()) {
                    Ok(regex) => host.regexes.push((regex, rule.on.clone())),
                    Err(_) => host.unread += 1,
                }
            }
        }
        host
    }

    /// Applies one event. Returns the number of patterns that match the part so far if the event is a delta.
    fn apply(&self, texts: &mut PartTexts, event: &Event) -> Option<usize> {
        match event {
            Event::PartStart { part, channel, .. } => {
                texts.part(*part).0 = Some(*channel);
                None
            }
            Event::Delta { part, bytes } => {
                let (channel, text) = texts.part(*part);
                text.extend_from_slice(bytes);
                let channel = channel.unwrap_or(Channel::Text);
                let read = self.regexes.iter().filter(|(_, on)| on.contains(&channel));
                Some(read.filter(|(regex, _)| regex.is_match(&text[..])).count())
            }
            _ => None,
        }
    }
}

/// Runs one pass that warms up the regexes and one that is timed, each within its time limit.
fn rescan(host: &RescanHost, script: &ReplayScript) -> Rescan {
    rescan_once(host, script, RESCAN_PATIENCE);
    rescan_once(host, script, RESCAN_PATIENCE)
}

fn rescan_once(host: &RescanHost, script: &ReplayScript, patience: Duration) -> Rescan {
    let mut deltas = 0;
    let mut is_whole = true;
    let started = Instant::now();
    'all: for reply in &script.replies {
        let mut texts = PartTexts::default();
        for event in reply {
            if started.elapsed() >= patience {
                is_whole = false;
                break 'all;
            }
            deltas += usize::from(black_box(host.apply(&mut texts, event)).is_some());
        }
    }
    Rescan {
        ns_per_delta: nanoseconds(started.elapsed()) / deltas.max(1) as f64,
        deltas,
        is_whole,
        patterns_left_out: host.unread,
    }
}

/// Returns the cost of a delta along the longest reply, for this crate and for a host that rescans.
fn growth(pack: &Pack, host: &RescanHost, reply: &[Event]) -> Vec<GrowthPoint> {
    let deltas: usize = reply.iter().filter(|event| delta_bytes(event) > 0).count();
    let each = deltas.div_ceil(STRETCHES).max(1);
    let mut stretches: Vec<&[Event]> = Vec::new();
    let (mut from, mut seen) = (0, 0);
    for (index, event) in reply.iter().enumerate() {
        seen += usize::from(delta_bytes(event) > 0);
        if seen == each {
            stretches.push(&reply[from..=index]);
            (from, seen) = (index + 1, 0);
        }
    }
    let passes = (0..15).map(|_| {
        let mut stream = pack.stream();
        let time = |events: &&[Event]| {
            let started = Instant::now();
            let hits = events.iter().map(|event| apply(event, &mut stream));
            black_box(hits.sum::<usize>());
            started.elapsed()
        };
        stretches.iter().map(time).collect::<Vec<Duration>>()
    });
    let passes: Vec<Vec<Duration>> = passes.collect();
    let (mut texts, mut bytes) = (PartTexts::default(), 0);
    let begun = Instant::now();
    let stretch = |(index, events): (usize, &&[Event])| {
        let started = Instant::now();
        let is_patient = begun.elapsed() < RESCAN_PATIENCE;
        if is_patient {
            for event in events.iter() {
                black_box(host.apply(&mut texts, event));
            }
        }
        let searched = nanoseconds(started.elapsed()) / each as f64;
        bytes += events.iter().map(delta_bytes).sum::<usize>();
        GrowthPoint {
            bytes,
            ns_per_delta: nanoseconds(median(passes.iter().map(|pass| pass[index]).collect()))
                / each as f64,
            rescan_ns_per_delta: is_patient.then_some(searched),
        }
    };
    stretches.iter().enumerate().map(stretch).collect()
}

/// Returns every examined rule, sorted by the number of states it adds, largest first.
fn rules(pack: &Pack, script: &ReplayScript, all: usize) -> Result<Vec<RuleCost>, CommandError> {
    let mut costs = Vec::new();
    for rule in pack.rules() {
        let alone = load::build(std::iter::once(rule.clone()))?;
        let hits = script.play(&alone).hits;
        costs.push(RuleCost::new(rule, built_states(&alone), hits));
    }
    costs.sort_by(|a, b| {
        b.states_alone
            .cmp(&a.states_alone)
            .then_with(|| a.rule.cmp(&b.rule))
    });
    for cost in costs.iter_mut().take(LEFT_OUT) {
        let without = without_rule(pack, &cost.rule)?;
        script.play(&without);
        // Leaving a rule out can also add states: the byte classes and the row layout change.
        cost.states_added = Some(all.saturating_sub(built_states(&without)));
    }
    costs.sort_by(|a, b| {
        b.states_added
            .cmp(&a.states_added)
            .then_with(|| a.rule.cmp(&b.rule))
    });
    for cost in costs.iter_mut().take(TIMED) {
        cost.is_timed = true;
        cost.ns_saved_per_delta = median_saving(pack, &without_rule(pack, &cost.rule)?, script);
    }
    for cost in &mut costs {
        cost.why = why(pack, cost, all);
    }
    Ok(costs)
}

fn without_rule(pack: &Pack, rule: &str) -> Result<Pack, CommandError> {
    load::build(
        pack.rules()
            .iter()
            .filter(|other| other.id != rule)
            .cloned(),
    )
}

/// Returns the median time saved by leaving the rule out, over pairs of interleaved passes. Returns `None` if the
/// difference is noise, that is, unless three quarters of the pairs save time.
fn median_saving(pack: &Pack, without: &Pack, script: &ReplayScript) -> Option<f64> {
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

/// Returns the reasons why a rule is expensive, derived from its patterns and its states.
fn why(pack: &Pack, cost: &RuleCost, all: usize) -> BTreeSet<CostReason> {
    let rule = pack.find(&cost.rule).map(|id| pack.rule(id));
    let mut why: BTreeSet<CostReason> = rule.into_iter().flat_map(of_patterns).collect();
    // One rule has a tenth of all states although the pack has more than three rules.
    if pack.rules().len() > 3 && cost.states_added.is_some_and(|added| added * 10 > all) {
        why.insert(CostReason::States);
    }
    if cost.hits > 0 {
        why.insert(CostReason::Hits);
    }
    why
}

fn of_patterns(rule: &Rule) -> impl Iterator<Item = CostReason> {
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
        .filter(|pattern| pattern.kind != PatternKind::Command)
        .filter_map(move |pattern| match parse(pattern.to_regex()) {
            // The rule loaded, so the regex engine can only have rejected look-around or a back-reference.
            None => Some(CostReason::Confirms),
            Some(hir) => (!has_literal(&hir)).then_some(CostReason::NoLiteral),
        })
}

/// Length in characters of a literal that is rare enough to search for.
const LITERAL: usize = 3;

/// Returns true if every match contains a literal of at least [`LITERAL`] characters, ignoring case.
///
/// The regex parser bounds the nesting of a pattern, so the recursion is bounded.
fn has_literal(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.len() >= LITERAL,
        HirKind::Concat(subs) => {
            let mut run = 0;
            subs.iter().any(|sub| {
                run = fixed_length(sub).map_or(0, |length| run + length);
                run >= LITERAL || has_literal(sub)
            })
        }
        HirKind::Alternation(subs) => subs.iter().all(has_literal),
        HirKind::Capture(capture) => has_literal(&capture.sub),
        HirKind::Repetition(repetition) => repetition.min > 0 && has_literal(&repetition.sub),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Returns the length in characters of an expression that matches one text, ignoring case.
fn fixed_length(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(literal.0.len()),
        HirKind::Look(_) | HirKind::Empty => Some(0),
        // `k` and `s` have a third case variant: the Kelvin sign and the long s.
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
    use ttsr::Pattern;

    use super::*;
    use crate::bench::page;
    use crate::output::OutputRecord as _;

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

    fn pack() -> Pack {
        let rule = |id: &str, text: &str, on: Channel| {
            let mut rule = Rule::new(id, vec![Pattern::literal(text)]);
            rule.on = vec![on];
            rule
        };
        let pack = Pack::builder().rule(rule("t/text", "owl", Channel::Text));
        let pack = pack.rule(rule("t/input", "owl", Channel::ToolInput));
        pack.build().unwrap()
    }

    #[test]
    fn the_baseline_searches_a_part_for_the_patterns_of_its_channel_only() {
        let host = RescanHost::new(&pack());
        let mut texts = PartTexts::default();
        for (part, channel, expected) in [
            (PartId(0), Channel::Text, 1),
            (PartId(1), Channel::ToolInput, 1),
            (PartId(2), Channel::Reasoning, 0),
        ] {
            let start = Event::PartStart {
                part,
                name: String::new(),
                channel,
                tool: None,
                call: None,
            };
            assert_eq!(host.apply(&mut texts, &start), None);
            let delta = |bytes: &[u8]| Event::Delta {
                part,
                bytes: bytes.to_vec(),
            };
            assert_eq!(host.apply(&mut texts, &delta(b"an o")), Some(0));
            assert_eq!(
                host.apply(&mut texts, &delta(b"wl")),
                Some(expected),
                "{channel:?}"
            );
        }
    }

    #[test]
    fn a_baseline_that_was_cut_short_says_so_in_every_format() {
        let (pack, script) = (pack(), ReplayScript::embedded());
        let host = RescanHost::new(&pack);
        let whole = rescan_once(&host, &script, Duration::MAX);
        assert!(whole.is_whole && whole.deltas == script.deltas);
        let mut report = measure(&pack, &script).unwrap();
        report.rescan = whole;
        let shown = |report: &BenchReport| {
            let (mut text, mut page) = (Vec::new(), Vec::new());
            report.show(&mut text).unwrap();
            page::write(report, &mut page).unwrap();
            let json = serde_json::to_string(report).unwrap();
            [text, page]
                .map(|shown| String::from_utf8(shown).unwrap())
                .into_iter()
                .chain([json])
        };
        for shown in shown(&report) {
            assert!(!shown.contains("rescanning was stopped"), "{shown}");
            assert!(!shown.contains("\"is_whole\":false"), "{shown}");
        }
        report.rescan = rescan_once(&host, &script, Duration::ZERO);
        let note = format!("rescanning was stopped after 0 of {} deltas", script.deltas);
        for shown in shown(&report) {
            let is_told = shown.contains(&note) || shown.contains("\"is_whole\":false");
            assert!(is_told, "{shown}");
        }
    }
}
