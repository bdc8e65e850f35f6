//! Every way to deliver the same bytes to a stream.

use std::collections::BTreeMap;

use ttsr::{Channel, PartId};

use ttsr_testing::Random;

/// The most two-way cuts of one delta. A longer one is cut at evenly spaced offsets.
const CUTS: usize = 400;

const RANDOM_RUNS: u64 = 8;

/// A call of a stream.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Open(PartId, Channel),
    Tool(PartId, String),
    Push(PartId, Vec<u8>),
    Close(PartId),
}

/// Returns every way to deliver the same bytes, with its name.
pub(super) fn deliveries(given: &[Step]) -> Vec<(String, Vec<Step>)> {
    let whole = joined(given);
    let bytewise = cut(&whole, |_, bytes| (1..bytes.len()).collect());
    let mut all = vec![
        ("as given".to_owned(), given.to_vec()),
        ("whole".to_owned(), whole.clone()),
        ("byte by byte".to_owned(), bytewise),
        ("in turns".to_owned(), in_turns(&whole)),
    ];
    for (index, step) in whole.iter().enumerate() {
        let Step::Push(_, bytes) = step else { continue };
        for at in (1..bytes.len()).step_by(bytes.len() / CUTS + 1) {
            let one = cut(&whole, |place, _| {
                (place == index).then_some(at).into_iter().collect()
            });
            all.push((format!("delta {index} cut at {at}"), one));
        }
    }
    for seed in 0..RANDOM_RUNS {
        let mut random = Random::new(seed);
        let mut is_cut = |_: &usize| random.next().is_multiple_of(2 + seed * 3);
        let cuts = cut(&whole, |_, bytes| {
            (1..bytes.len()).filter(&mut is_cut).collect()
        });
        all.push((format!("random cuts, seed {seed}"), cuts));
    }
    all
}

/// Joins adjacent deltas of one part.
fn joined(steps: &[Step]) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::new();
    for step in steps {
        match (joined.last_mut(), step) {
            (Some(Step::Push(last, all)), Step::Push(part, bytes)) if last == part => {
                all.extend(bytes);
            }
            _ => joined.push(step.clone()),
        }
    }
    joined
}

/// Cuts each delta at the offsets that `cuts` returns for its index and its bytes.
fn cut(steps: &[Step], mut cuts: impl FnMut(usize, &[u8]) -> Vec<usize>) -> Vec<Step> {
    let mut out = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let Step::Push(part, bytes) = step else {
            out.push(step.clone());
            continue;
        };
        let mut start = 0;
        for end in cuts(index, bytes).into_iter().chain([bytes.len()]) {
            out.push(Step::Push(*part, bytes[start..end].to_vec()));
            start = end;
        }
    }
    out
}

/// Delivers adjacent deltas of several parts byte by byte, one byte of each part in turn.
fn in_turns(steps: &[Step]) -> Vec<Step> {
    let is_push = |step: &Step| matches!(step, Step::Push(..));
    let mut out = Vec::new();
    for group in steps.chunk_by(|a, b| is_push(a) && is_push(b)) {
        let mut queues: BTreeMap<PartId, Vec<u8>> = BTreeMap::new();
        for step in group {
            match step {
                Step::Push(part, bytes) => queues.entry(*part).or_default().extend(bytes),
                _ => out.push(step.clone()),
            }
        }
        let longest = queues.values().map(Vec::len).max().unwrap_or(0);
        for at in 0..longest {
            let byte =
                |(part, bytes): (&PartId, &Vec<u8>)| Some(Step::Push(*part, vec![*bytes.get(at)?]));
            out.extend(queues.iter().filter_map(byte));
        }
    }
    out
}

/// Puts an empty delta before and after each delta.
pub(super) fn with_empty(steps: &[Step]) -> Vec<Step> {
    let surrounded = |step: &Step| match step {
        Step::Push(part, _) => {
            let empty = || Step::Push(*part, Vec::new());
            vec![empty(), step.clone(), empty()]
        }
        _ => vec![step.clone()],
    };
    steps.iter().flat_map(surrounded).collect()
}
