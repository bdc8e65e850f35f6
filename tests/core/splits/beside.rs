//! Isolation: a rule, a part or a reply is not affected by other rules of the pack, other parts of the reply, or other
//! replies that are read at the same time with the same tables.

use ttsr::{Pack, PartId};

use super::language::{Rules, Step, cut, reply};
use super::outcome::{Outcome, Reading, ReportedHit, outcome};
use super::shown;
use ttsr_testing::{Random, scale};

const PACKS: usize = 1_000;
const REPLIES: usize = 4;

/// Returns the output of the rules, without numbers that depend on the pack and in no order. `of` selects rules and
/// parts.
fn output_lines(pack: &Pack, outcome: &Outcome, of: impl Fn(&str, PartId) -> bool) -> Vec<String> {
    let hits = outcome.hits.iter().map(|reported| {
        let (hit, id) = (reported.hit, pack.rule(reported.hit.rule).id.as_str());
        let rest = (&reported.arg, reported.start, &reported.matched);
        (
            of(id, hit.part),
            format!("{id} {}: {} {rest:?}", hit.part.0, hit.end),
        )
    });
    let redactions = outcome.redactions.iter().map(|one| {
        let id = pack.rule(one.rule).id.as_str();
        let line = format!("{id} {}: {}..{} redacted", one.part.0, one.start, one.end);
        (of(id, one.part), line)
    });
    let lines = hits.chain(redactions);
    let mut lines: Vec<String> = lines
        .filter_map(|(is_meant, line)| is_meant.then_some(line))
        .collect();
    lines.sort_unstable();
    lines
}

/// Returns the time at which each of these hits was certain, and its excerpt then.
fn decision_times(pack: &Pack, outcome: &Outcome, of: impl Fn(&str, PartId) -> bool) -> Vec<When> {
    let is_meant =
        |reported: &&ReportedHit| of(&pack.rule(reported.hit.rule).id, reported.hit.part);
    let hits = outcome.hits.iter().filter(is_meant);
    let mut all: Vec<When> = hits
        .map(|reported| When {
            part: reported.hit.part,
            end: reported.hit.end,
            decided: reported.hit.decided,
            excerpt: reported.excerpt.clone(),
        })
        .collect();
    all.sort_unstable();
    all
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct When {
    part: PartId,
    end: u64,
    decided: u64,
    excerpt: String,
}

#[test]
fn a_rule_tells_the_same_whatever_rules_stand_beside_it() {
    let (packs, mut readings, mut lines) = (scale(PACKS), 0, 0);
    for seed in 0..packs as u64 {
        let mut random = Random::new(seed);
        let rules = Rules::new(&mut random);
        if rules.rules.len() < 2 {
            continue;
        }
        let (pack, alone) = (rules.pack(), rules.alone());
        for _ in 0..REPLIES {
            let steps = reply(&mut random);
            let steps = cut(&steps, || random.one_in(4));
            let beside = outcome(&pack, &steps);
            for alone in &alone {
                let id = alone.rules()[0].id.as_str();
                let by_itself = outcome(alone, &steps);
                let context = || format!("seed {seed}\n{}\n{}", rules.text(), shown(&steps));
                let found = output_lines(alone, &by_itself, |_, _| true);
                let lines_beside = output_lines(&pack, &beside, |rule, _| rule == id);
                assert_eq!(found, lines_beside, "{}", context());
                let times_alone = decision_times(alone, &by_itself, |_, _| true);
                let when_beside = decision_times(&pack, &beside, |rule, _| rule == id);
                assert_eq!(times_alone, when_beside, "{}", context());
                (readings, lines) = (readings + 1, lines + lines_beside.len());
            }
        }
    }
    println!(
        "beside: rules read {readings} replies by themselves and beside others, and gave {lines} lines"
    );
    assert!(lines > readings / 20);
}

/// Returns the steps of each part, in their order.
fn by_part(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut parts: Vec<(PartId, Vec<Step>)> = Vec::new();
    for step in steps {
        let (Step::Open(part, _) | Step::Tool(part, _) | Step::Push(part, _) | Step::Close(part)) =
            step;
        match parts.iter_mut().find(|(known, _)| known == part) {
            Some((_, steps)) => steps.push(step.clone()),
            None => parts.push((*part, vec![step.clone()])),
        }
    }
    parts.into_iter().map(|(_, steps)| steps).collect()
}

/// Interleaves the lists at random, each in its order. Returns the index of the list with each step.
fn shuffled(lists: &[Vec<Step>], random: &mut Random) -> Vec<(usize, Step)> {
    let mut rest: Vec<_> = lists.iter().map(|list| list.iter()).collect();
    let mut out = Vec::new();
    while rest.iter().any(|list| list.len() > 0) {
        let at = random.below(rest.len());
        // Sometimes one step, sometimes a few.
        let few = 1 + random.below(3);
        out.extend(rest[at].by_ref().take(few).map(|step| (at, step.clone())));
    }
    out
}

/// Returns false if the rule counts over a reply, a turn or a session and so depends on other parts.
fn is_of_one_part(rule: &str) -> bool {
    !["message", "turn", "session"]
        .iter()
        .any(|scope| rule.contains(scope))
}

#[test]
fn a_part_has_the_same_output_whatever_parts_come_meanwhile() {
    let (packs, mut readings, mut lines) = (scale(PACKS), 0, 0);
    for seed in 0..packs as u64 {
        let mut random = Random::new(seed ^ 1 << 40);
        let rules = Rules::new(&mut random);
        if !rules.rules.iter().all(|rule| is_of_one_part(rule)) {
            continue;
        }
        let pack = rules.pack();
        for _ in 0..REPLIES {
            let steps = reply(&mut random);
            let parts = by_part(&cut(&steps, || random.one_in(4)));
            let mixed: Vec<Step> = shuffled(&parts, &mut random)
                .into_iter()
                .map(|one| one.1)
                .collect();
            let mixed_up = outcome(&pack, &mixed);
            for part in &parts {
                let Some(Step::Open(id, _)) = part.first() else {
                    panic!("a part begins by being opened: {part:?}");
                };
                let alone = outcome(&pack, part);
                let by_itself = (
                    output_lines(&pack, &alone, |_, _| true),
                    decision_times(&pack, &alone, |_, _| true),
                );
                let of_it = |_: &str, part| part == *id;
                let meanwhile = (
                    output_lines(&pack, &mixed_up, of_it),
                    decision_times(&pack, &mixed_up, of_it),
                );
                assert_eq!(
                    by_itself,
                    meanwhile,
                    "seed {seed}\n{}\n{}",
                    rules.text(),
                    shown(&mixed)
                );
                (readings, lines) = (readings + 1, lines + meanwhile.0.len());
            }
        }
    }
    println!(
        "beside: {readings} parts were read by themselves and among others, and {lines} lines given"
    );
    assert!(lines > readings / 20);
}

#[test]
fn a_reply_has_the_same_output_whatever_replies_are_read_meanwhile() {
    let (packs, mut readings, mut lines) = (scale(PACKS), 0, 0);
    for seed in 0..packs as u64 {
        let mut random = Random::new(seed ^ 1 << 41);
        let rules = Rules::new(&mut random);
        let (pack, fresh) = (rules.pack(), rules.pack());
        let replies: Vec<Vec<Step>> = (0..REPLIES)
            .map(|_| cut(&reply(&mut random), || random.one_in(4)))
            .collect();
        let mut streams: Vec<Reading> = replies
            .iter()
            .map(|steps| Reading::new(&pack, steps))
            .collect();
        for (stream, step) in shuffled(&replies, &mut random) {
            streams[stream].step(&step);
        }
        for (stream, steps) in streams.into_iter().zip(&replies) {
            let (found, want) = (stream.finish(), outcome(&fresh, steps));
            assert!(
                found == want,
                "seed {seed}\n{}\n{}\n{found:?}\nnot as by itself\n{want:?}",
                rules.text(),
                shown(steps)
            );
            (readings, lines) = (readings + 1, lines + want.hits.len());
        }
    }
    println!(
        "beside: {readings} replies were read by themselves and among others, with {lines} hits"
    );
    assert!(lines > readings / 20);
}
