//! The outcome of a reply under a pack.

use std::collections::{BTreeMap, BTreeSet};

use ttsr::session::Session;
use ttsr::stream::{Counters, Redaction};
use ttsr::{Decision, Hit, Pack, PartId, Stream};

use super::language::Step;
use super::shown;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReportedHit {
    pub(crate) hit: Hit,
    pub(crate) arg: Option<String>,
    pub(crate) start: Option<u64>,
    pub(crate) excerpt: String,
    pub(crate) matched: String,
}

/// The output of a stream, and the decisions of a session until the reply is cut.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) hits: Vec<ReportedHit>,
    pub(crate) redactions: Vec<Redaction>,
    pub(crate) counters: Counters,
    pub(crate) decisions: Vec<Decision>,
}

pub(crate) fn outcome(pack: &Pack, steps: &[Step]) -> Outcome {
    let mut reading = Reading::new(pack, steps);
    steps.iter().for_each(|step| reading.step(step));
    reading.finish()
}

/// A reply in progress, with a host that delivers text as soon as it is allowed to.
pub(crate) struct Reading<'s> {
    stream: Stream,
    steps: &'s [Step],
    hits: Vec<Hit>,
    arrived: Arrived,
    left: Left,
}

impl<'s> Reading<'s> {
    pub(crate) fn new(pack: &Pack, steps: &'s [Step]) -> Reading<'s> {
        Reading {
            stream: pack.stream(),
            steps,
            hits: Vec::new(),
            arrived: Arrived::default(),
            left: Left::from_steps(steps),
        }
    }

    pub(crate) fn step(&mut self, step: &Step) {
        let (stream, known) = (&mut self.stream, self.hits.len());
        let mut add = |new: &[Hit]| self.hits.extend_from_slice(new);
        match step {
            Step::Open(part, channel) => stream.open(*part, *channel),
            Step::Tool(part, name) => add(&stream.set_tool(*part, name, "call")),
            Step::Push(part, bytes) => add(&stream.push(*part, bytes)),
            Step::Close(part) => add(&stream.close(*part)),
        }
        let new = &self.hits[known..];
        self.arrived.check(step, new, self.steps);
        self.left.check(stream, new, self.steps);
    }

    pub(crate) fn finish(mut self) -> Outcome {
        let known = self.hits.len();
        self.hits.extend_from_slice(&self.stream.finish());
        self.left
            .check(&mut self.stream, &self.hits[known..], self.steps);
        let stream = &self.stream;
        Outcome {
            hits: self
                .hits
                .iter()
                .map(|hit| reported_hit(stream, hit))
                .collect(),
            redactions: redactions(stream, &self.left),
            counters: stream.counters(),
            decisions: decisions(stream.pack().session(), self.steps),
        }
    }
}

/// The number of delivered bytes of each part.
#[derive(Default)]
struct Arrived(BTreeMap<PartId, u64>);

impl Arrived {
    /// Asserts that each hit is reported with the delta that contains its deciding byte, neither earlier nor later.
    fn check(&mut self, step: &Step, hits: &[Hit], steps: &[Step]) {
        let Step::Push(part, bytes) = step else {
            return;
        };
        let known = self.0.entry(*part).or_default();
        let (before, now) = (*known, *known + bytes.len() as u64);
        *known = now;
        for hit in hits.iter().filter(|hit| hit.part == *part) {
            let is_there = (before + 1..=now).contains(&hit.decided);
            assert!(
                is_there,
                "{hit:?} is reported with {before}..{now}: {}",
                shown(steps)
            );
        }
    }
}

/// The text that has left the host.
#[derive(Default)]
struct Left {
    bytes: BTreeMap<PartId, u64>,
    redacted: BTreeSet<(PartId, u32, u64, u64)>,
}

impl Left {
    fn from_steps(steps: &[Step]) -> Left {
        let opened = steps.iter().filter_map(|step| match step {
            Step::Open(part, _) => Some((*part, 0)),
            _ => None,
        });
        Left {
            bytes: opened.collect(),
            ..Left::default()
        }
    }

    /// Asserts that no byte to be redacted or held has left before it was reported, then lets more text leave.
    fn check(&mut self, stream: &mut Stream, hits: &[Hit], steps: &[Step]) {
        let left = |part| self.bytes.get(&part).copied().unwrap_or_default();
        for redaction in redactions(stream, self) {
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

/// Returns the redactions of the parts that have been opened.
fn redactions(stream: &Stream, left: &Left) -> Vec<Redaction> {
    let parts = left.bytes.keys();
    parts
        .flat_map(|part| stream.redactions(*part))
        .copied()
        .collect()
}

fn reported_hit(stream: &Stream, hit: &Hit) -> ReportedHit {
    ReportedHit {
        hit: *hit,
        arg: stream.arg(hit).map(str::to_owned),
        start: stream.start(hit),
        excerpt: stream.excerpt(hit).to_owned(),
        matched: stream.matched(hit).to_owned(),
    }
}

/// Returns the decisions up to the one that cuts the reply. The rest of its delta may be ignored.
fn decisions(mut session: Session, steps: &[Step]) -> Vec<Decision> {
    session.begin_turn();
    let mut stream = session.stream();
    let mut all = Vec::new();
    for step in steps.iter().map(Some).chain([None]) {
        let _ = match step {
            Some(Step::Open(part, channel)) => session.open(&mut stream, *part, *channel),
            Some(Step::Tool(part, name)) => session.set_tool(&mut stream, *part, name, "call"),
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
