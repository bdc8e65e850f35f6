//! `ttsr replay` as `crates/cli` runs it: a stream for the hits and a session for the verdicts, for each reply of a body.

use std::collections::HashMap;

use ttsr::session::Session;
use ttsr::{
    Action, Channel, Decision, DecisionRecord, Event, Hit, Pack, Source, Stream, Suppression,
    Verdict,
};
use ttsr_wire::Reader;

/// The place of a hit or a verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    /// The full id of the rule, or the name of the limit.
    pub(super) rule: Option<String>,
    pub(super) part: u32,
    pub(super) channel: Option<Channel>,
    pub(super) tool: Option<String>,
    pub(super) arg: Option<String>,
    pub(super) start: Option<u64>,
    pub(super) end: u64,
    pub(super) decided: u64,
}

impl Found {
    /// Returns the place of a decision of the proxy.
    pub(super) fn of_record(record: &DecisionRecord) -> Found {
        Found {
            rule: record.rule.clone().or_else(|| record.limit.clone()),
            part: record.part.0,
            channel: record.channel,
            tool: record.tool.clone(),
            arg: record.arg.clone(),
            start: record.start,
            end: record.end,
            decided: record.decided,
        }
    }

    fn of_hit(stream: &Stream, hit: &Hit) -> Found {
        Found {
            rule: Some(stream.pack().rule(hit.rule).id.clone()),
            part: hit.part.0,
            channel: stream.channel(hit.part),
            tool: stream.tool_name(hit.part).map(str::to_owned),
            arg: stream.arg(hit).map(str::to_owned),
            start: stream.start(hit),
            end: hit.end,
            decided: hit.decided,
        }
    }

    fn of_decision(stream: &Stream, decision: &Decision) -> Found {
        if let Some(hit) = decision.hit() {
            return Found::of_hit(stream, &hit);
        }
        let part = decision.part();
        let limit = match &decision.source {
            Source::Limit { name, .. } => Some((*name).to_owned()),
            _ => None,
        };
        Found {
            rule: limit,
            part: part.0,
            channel: stream.channel(part),
            tool: stream.tool_name(part).map(str::to_owned),
            arg: None,
            start: None,
            end: decision.decided(),
            decided: decision.decided(),
        }
    }
}

/// A verdict, with its action and the reason why it is not acted on.
pub(super) type FoundVerdict = (Found, Action, Option<Suppression>);

/// Returns the verdicts of the proxy.
pub(super) fn verdicts_of<'d>(
    decisions: impl IntoIterator<Item = &'d DecisionRecord>,
) -> Vec<FoundVerdict> {
    let verdict = |it: &DecisionRecord| (Found::of_record(it), it.action, it.suppression);
    decisions.into_iter().map(verdict).collect()
}

/// The result of a replay.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    /// All hits of all replies, sorted.
    pub(super) hits: Vec<Found>,
    /// The verdicts up to the first cut.
    pub(super) verdicts: Vec<FoundVerdict>,
    pub(super) is_cut: bool,
}

/// A reply of the body.
struct OpenReply {
    stream: Stream,
    session: Session,
    judged: Stream,
}

/// Returns the hits and the verdicts of a replay of the body.
pub(super) fn replay(pack: &Pack, body: &[u8]) -> Replayed {
    let mut replayed = Replayed::default();
    let mut open: HashMap<String, OpenReply> = HashMap::new();
    let mut on = |name: &str, event: Event| {
        if matches!(event, Event::Unscanned { .. }) {
            return;
        }
        let is_last = matches!(event, Event::Finish { .. });
        let reply = open.entry(name.to_owned()).or_insert_with(|| {
            let mut session = pack.session();
            session.begin_turn();
            OpenReply {
                stream: pack.stream(),
                judged: session.stream(),
                session,
            }
        });
        replayed.push(reply, event);
        if is_last {
            open.remove(name);
        }
    };
    let mut reader = Reader::new("body");
    reader.push(body, &mut on);
    reader.finish(&mut on);
    replayed.hits.sort();
    replayed
}

impl Replayed {
    fn push(&mut self, reply: &mut OpenReply, event: Event) {
        let OpenReply {
            stream,
            session,
            judged,
        } = reply;
        let is_cut = self.is_cut;
        let (hits, verdict): (Vec<Hit>, Option<Verdict>) = match event {
            Event::PartStart {
                part,
                channel,
                tool,
                call,
                ..
            } => {
                stream.open(part, channel);
                judged.open(part, channel);
                match tool {
                    Some(tool) => {
                        let call = call.unwrap_or_default();
                        let hits = stream.set_tool(part, &tool, &call).to_vec();
                        (
                            hits,
                            (!is_cut).then(|| session.set_tool(judged, part, &tool, &call)),
                        )
                    }
                    None => return,
                }
            }
            Event::Tool { part, tool, call } => {
                let call = call.unwrap_or_default();
                let hits = stream.set_tool(part, &tool, &call).to_vec();
                (
                    hits,
                    (!is_cut).then(|| session.set_tool(judged, part, &tool, &call)),
                )
            }
            Event::Outcome { part, outcome } => {
                stream.set_outcome(part, outcome);
                judged.set_outcome(part, outcome);
                return;
            }
            Event::Delta { part, bytes } => {
                let hits = stream.push(part, &bytes).to_vec();
                (hits, (!is_cut).then(|| session.push(judged, part, &bytes)))
            }
            Event::PartEnd { part } => {
                let hits = stream.close(part).to_vec();
                (hits, (!is_cut).then(|| session.close(judged, part)))
            }
            _ => return,
        };
        self.hits
            .extend(hits.iter().map(|hit| Found::of_hit(stream, hit)));
        if let Some(verdict) = verdict {
            self.record(session, judged, verdict);
        }
    }

    fn record(&mut self, session: &Session, judged: &Stream, verdict: Verdict) {
        let cut = match verdict {
            Verdict::Act(decision) if decision.action.cuts() => Some(decision),
            _ => None,
        };
        let in_time =
            |decision: &&Decision| cut.is_none_or(|cut| decision.decided() <= cut.decided());
        let in_time = session.decisions().iter().filter(in_time);
        self.verdicts
            .extend(in_time.map(|it| (Found::of_decision(judged, it), it.action, it.suppression)));
        self.is_cut |= cut.is_some();
    }
}
