//! Hits and verdicts of the proxy equal those of `ttsr replay`: each recording, as it is and with planted violations, under
//! each built-in pack.
//!
//! The violations are the examples of the rules of the pack. Each recording is read under [`PACKS`] of the packs;
//! `TTSR_EQUALITY` is another number, from 16 on all of them. `TTSR_TEST_SCALE` is the percentage of these pairs.

mod planted;
mod requests;

use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use ttsr::{Action, Channel, DecisionRecord, Mode, Pack, Pattern};
use ttsr_testing::{Random, in_parts, scale, skip};

use super::corpus::{all_recorded_replies, api_of, bodies, can_have, wire_files};
use super::replay::{Found, replay, verdicts_of};
use super::replies::{OwnedPiece, Piece, stream, stream_of};
use super::{SETTINGS, StreamedApi, every_stream, new_judge, pack_of_rules, rule_of};
use crate::judge::{JudgeSettings, StreamFraming, WholeBodyVerdict};
use crate::routes::ModelApi;
use planted::{Violation, violations};

/// The number of built-in packs under which a recording is read.
const PACKS: usize = 8;

/// A recorded reply and a built-in pack, by their numbers.
struct Pair {
    recording: usize,
    pack: usize,
    /// The number of pairs of the pack before this one.
    nth: usize,
}

/// Returns the pairs that are tested, in the order of the recordings.
fn pairs(recordings: usize, packs: usize) -> Vec<Pair> {
    let wanted = std::env::var("TTSR_EQUALITY").ok();
    let wanted = wanted.map(|wanted| wanted.parse().expect("TTSR_EQUALITY is a number"));
    let of_one = wanted.unwrap_or(PACKS).clamp(1, packs);
    let every = 100 / scale(100).clamp(1, 100);
    let mut counts = vec![0; packs];
    (0..recordings)
        .flat_map(|recording| (0..of_one).map(move |nth| (recording, nth)))
        .step_by(every)
        .map(|(recording, nth)| {
            let pack = (recording + nth * packs / of_one) % packs;
            counts[pack] += 1;
            Pair {
                recording,
                pack,
                nth: counts[pack] - 1,
            }
        })
        .collect()
}

/// A built-in pack, and texts that break its rules.
struct TestedPack {
    name: &'static str,
    pack: Pack,
    violations: Vec<Violation>,
}

fn tested_packs() -> Vec<TestedPack> {
    let tested = |name| {
        let pack = Pack::builtin(name).unwrap();
        let violations = violations(&pack);
        TestedPack {
            name,
            pack,
            violations,
        }
    };
    Pack::builtin_names().map(tested).collect()
}

/// Counts of what was compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Compared {
    runs: u64,
    hits: u64,
    verdicts: u64,
    cuts: u64,
    /// Hits of the planted rules, by pack and channel.
    planted: BTreeMap<(&'static str, &'static str), u64>,
}

impl Compared {
    fn add(&mut self, other: &Compared) {
        self.runs += other.runs;
        self.hits += other.hits;
        self.verdicts += other.verdicts;
        self.cuts += other.cuts;
        for (key, hits) in &other.planted {
            *self.planted.entry(*key).or_default() += hits;
        }
    }
}

/// The decisions of the proxy on a body in segments of `size` bytes, and the bytes that the client received.
fn judged(
    api: StreamedApi,
    pack: &Pack,
    mode: Mode,
    body: &[u8],
    size: usize,
) -> (Vec<DecisionRecord>, Vec<u8>) {
    let mut judge = new_judge(api, pack, JudgeSettings { mode, ..SETTINGS });
    let mut sent = Vec::new();
    if body.trim_ascii_start().starts_with(b"{") && api.framing != StreamFraming::Lines {
        sent = match judge.judge_whole(body) {
            WholeBodyVerdict::Passes(changed) => changed.unwrap_or_else(|| body.to_vec()),
            other => panic!("{other:?}"),
        };
    } else {
        for piece in body.chunks(size) {
            judge.push(Bytes::copy_from_slice(piece));
            sent.extend(judge.take());
        }
        judge.finish().ok();
        sent.extend(judge.take());
    }
    (judge.decisions().cloned().collect(), sent)
}

/// A body under a pack.
struct Comparison<'a> {
    api: StreamedApi,
    tested: &'a TestedPack,
    body: &'a [u8],
    /// The length of the segments in which the body arrives.
    size: usize,
    name: &'a str,
    planted: Option<&'a Violation>,
}

impl Comparison<'_> {
    /// Compares the verdicts of the proxy with those of a replay, and its hits: those of the whole body, for which a body
    /// that a rule cuts is read again in shadow.
    fn run(&self) -> Compared {
        let (tested, planted) = (self.tested, self.planted);
        let want = replay(&tested.pack, self.body);
        let (decisions, sent) = judged(self.api, &tested.pack, Mode::Live, self.body, self.size);
        let verdicts = verdicts_of(&decisions);
        let what = || {
            let Comparison {
                api, size, name, ..
            } = self;
            let pack = tested.name;
            format!("{name} under {pack} in {api:?}, pieces of {size}, with {planted:?}")
        };
        assert_eq!(verdicts, want.verdicts, "verdicts: {}", what());
        let acts = |it: &DecisionRecord| {
            !it.is_suppressed() && (it.action.cuts() || it.action == Action::Redact)
        };
        let is_changed = sent != self.body;
        assert!(
            !is_changed || decisions.iter().any(acts),
            "bytes: {}",
            what()
        );
        let whole = match want.is_cut {
            true => judged(self.api, &tested.pack, Mode::Shadow, self.body, self.size).0,
            false => decisions,
        };
        let of_rules = whole.iter().filter(|it| it.rule.is_some());
        let mut hits: Vec<Found> = of_rules.map(Found::of_record).collect();
        hits.sort();
        assert_eq!(hits, want.hits, "hits: {}", what());
        let key = |it: &Violation| (tested.name, it.channel.name());
        let is_hit = |it: &&Violation| hits.iter().any(|hit| hit.rule.as_ref() == Some(&it.rule));
        Compared {
            runs: 1,
            hits: hits.len() as u64,
            verdicts: verdicts.len() as u64,
            cuts: u64::from(want.is_cut),
            planted: planted
                .filter(is_hit)
                .map(|it| (key(it), 1))
                .into_iter()
                .collect(),
        }
    }
}

/// Compares a reply as recorded, and with a violation of the pack: the one with this number, modulo their count.
fn compare_reply(
    number: usize,
    tested: &TestedPack,
    pieces: &[OwnedPiece],
    name: &str,
    random: &mut Random,
) -> Compared {
    let has_text_alone = pieces.iter().all(|it| matches!(it, OwnedPiece::Text(_)));
    let fits = |api: &StreamedApi| can_have(api.api, pieces) && (has_text_alone || api.has_parts());
    let apis: Vec<StreamedApi> = every_stream().filter(fits).collect();
    let api = random.pick(&apis);
    let mut compare = |api, body: String, planted| {
        let comparison = Comparison {
            api,
            tested,
            body: body.as_bytes(),
            size: 1 + random.below(300),
            name,
            planted,
        };
        comparison.run()
    };
    let mut compared = compare(api, stream_of(api, pieces), None);
    let violations = &tested.violations;
    let violation = violations.get(number % violations.len().max(1));
    if let Some(violation) = violation {
        let api = violation.api_for(&apis, number);
        let body = violation.planted_in(api, pieces, number);
        compared.add(&compare(api, body, Some(violation)));
    }
    compared
}

/// Compares the pairs, which are in the order of the recordings.
fn compare_pairs(corpus: &Path, packs: &[TestedPack], pairs: &[Pair]) -> Compared {
    let mut random = Random::new(37);
    let mut compared = Compared::default();
    let mut pairs = pairs.iter().peekable();
    for (number, (name, pieces)) in all_recorded_replies(corpus).enumerate() {
        while let Some(pair) = pairs.next_if(|pair| pair.recording == number) {
            let tested = &packs[pair.pack];
            let one = compare_reply(pair.nth, tested, &pieces, &name, &mut random);
            compared.add(&one);
        }
    }
    assert!(pairs.next().is_none(), "each pair was read");
    compared
}

#[test]
fn hits_and_verdicts_on_each_recording_under_each_built_in_pack_are_those_of_a_replay() {
    let Some(corpus) = skip::corpus() else {
        return;
    };
    let packs = tested_packs();
    let recordings = all_recorded_replies(&corpus).count();
    let pairs = pairs(recordings, packs.len());
    let parts = in_parts(pairs.len(), |part: Range<usize>| {
        compare_pairs(&corpus, &packs, &pairs[part])
    });
    let mut compared = Compared::default();
    parts.iter().for_each(|part| compared.add(part));
    println!(
        "{} pairs of {recordings} recordings: {compared:#?}",
        pairs.len()
    );
    assert!(compared.cuts > 0 && compared.hits > 0 && compared.verdicts > 0);
    let least = pairs.len() / packs.len() / 2;
    for tested in packs.iter().filter(|it| !it.violations.is_empty()) {
        let of_pack = compared
            .planted
            .iter()
            .filter(|(key, _)| key.0 == tested.name);
        let hits: u64 = of_pack.map(|(_, hits)| hits).sum();
        assert!(hits >= least as u64, "{}: {hits} planted hits", tested.name);
    }
}

/// Compares a recorded body under each pack, as it is and with a violation. Responses repeats its texts, and a replay does
/// not read a repetition that differs.
fn compare_body(
    body: &[u8],
    packs: &[TestedPack],
    name: &str,
    random: &mut Random,
) -> Option<Compared> {
    let api = api_of(body)?;
    let mut compared = Compared::default();
    for tested in packs {
        let is_text = |it: &&Violation| it.channel == Channel::Text;
        let violations: Vec<&Violation> = tested.violations.iter().filter(is_text).collect();
        let nth = random.below(violations.len().max(1));
        let violation = violations.get(nth).copied();
        let violation = violation.filter(|_| api != ModelApi::OpenAiResponses);
        let planted = violation.and_then(|it| Some((it.planted_in_body(body)?, it)));
        let bodies = [
            Some((body, None)),
            planted.as_ref().map(|(body, it)| (&body[..], Some(*it))),
        ];
        for (body, planted) in bodies.into_iter().flatten() {
            let comparison = Comparison {
                api: api.into(),
                tested,
                body,
                size: 1 + random.below(300),
                name,
                planted,
            };
            compared.add(&comparison.run());
        }
    }
    Some(compared)
}

#[test]
fn hits_and_verdicts_on_each_recorded_body_under_each_built_in_pack_are_those_of_a_replay() {
    let Some(corpus) = skip::corpus() else {
        return;
    };
    let packs = tested_packs();
    let mut random = Random::new(41);
    let (mut compared, mut read) = (Compared::default(), 0);
    let every = 100 / scale(100).clamp(1, 100);
    for path in wire_files(&corpus).into_iter().step_by(every) {
        for (number, body) in bodies(&path).into_iter().enumerate() {
            let name = format!("{}@{number}", path.display());
            if let Some(of_body) = compare_body(&body, &packs, &name, &mut random) {
                compared.add(&of_body);
                read += 1;
            }
        }
    }
    println!("{read} bodies: {compared:?}");
    let is_some = read > 40 && compared.hits > 0;
    assert!(is_some || every > 1, "{read} bodies");
}

#[test]
fn decisions_end_at_the_deciding_byte_of_a_cut() {
    let rule =
        |id, pattern, action| rule_of(id, Pattern::literal(pattern), &Channel::STREAMED, action);
    let rules = [
        rule("t/first", "first", Action::Warn),
        rule("t/cut", "forbidden", Action::Abort),
        rule("t/late", "late", Action::Observe),
    ];
    let tested = TestedPack {
        name: "three rules",
        pack: pack_of_rules(rules),
        violations: Vec::new(),
    };
    for api in every_stream() {
        for texts in [
            &["first, forbidden, late"][..],
            &["first, for", "bidden, la", "te"],
        ] {
            let body = stream(api, &[Piece::Text(texts)]);
            let comparison = Comparison {
                api,
                tested: &tested,
                body: body.as_bytes(),
                size: 100,
                name: "one text",
                planted: None,
            };
            let compared = comparison.run();
            assert_eq!((compared.hits, compared.verdicts, compared.cuts), (3, 2, 1));
        }
    }
}
