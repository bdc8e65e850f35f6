//! One recorded reply: all of its hits, and what a session makes of them.
//!
//! Hits are those of the whole recording. A session stops reading where it cuts, so it has a stream of its
//! own. What it would have asked for instead cannot be had from a recording.
//!
//! Memory: 9 bytes for a part that was closed, besides what its streams keep, and its name where it was hit. Nothing
//! for one past [`Limits::parts`](ttsr::Limits::parts).

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use ttsr::scan::ScanMatch;
use ttsr::{Action, Channel, Decision, Event, Hit, Pack, PartId, Session, Source, Stream, Verdict};

use crate::Stop;
use crate::chunk::{Chunk, Cutter};
use crate::fingerprint::Fingerprints;
use crate::mask::{Excerpt, Mask};
use crate::output::{Extent, HitRecord, Origin, Out, VerdictRecord};
use crate::tally::Tally;

pub(crate) struct Reply {
    name: String,
    chunk: Chunk,
    /// Tells replies apart where cuts are drawn.
    number: u64,
    /// Parts so far.
    begun: u64,
    open: HashMap<PartId, Part>,
    /// Of the parts that were closed, by their numbers, which count from 0 in the order in which parts open; 0 for one
    /// that is open.
    digests: Vec<u64>,
    /// The names of the parts that were hit.
    names: HashMap<PartId, String>,
    /// The part of the last delta.
    latest: Option<PartId>,
    watch: Watch,
}

/// A part that is open.
struct Part {
    name: String,
    cutter: Cutter,
    /// Of the bytes so far.
    digest: Digest,
}

impl Reply {
    pub(crate) fn new(name: &str, pack: &Pack, chunk: Chunk, number: u64) -> Reply {
        Reply {
            name: name.to_owned(),
            chunk,
            number,
            begun: 0,
            open: HashMap::new(),
            digests: Vec::new(),
            names: HashMap::new(),
            latest: None,
            watch: Watch::new(pack),
        }
    }

    /// Takes the next event of this reply.
    pub(crate) fn take(&mut self, event: Event, tally: &mut Tally) {
        match event {
            Event::PartStart {
                part,
                name,
                channel,
                tool,
                call,
            } => {
                self.start(part, name, tally);
                self.watch.open(part, channel);
                if let Some(tool) = tool {
                    self.watch
                        .tool(part, &tool, call.as_deref().unwrap_or_default());
                    self.note_name(part);
                }
            }
            Event::Tool { part, tool, call } => {
                // The name counts from this byte on, wherever the deltas are cut.
                self.turn_to(part, tally);
                self.flush(part, tally);
                self.watch
                    .tool(part, &tool, call.as_deref().unwrap_or_default());
                self.note_name(part);
            }
            Event::Delta { part, bytes } => self.delta(part, &bytes, tally),
            Event::PartEnd { part } => {
                self.turn_to(part, tally);
                self.flush(part, tally);
                self.watch.close(part);
                self.note_name(part);
                self.close(part);
            }
            Event::Snapshot { part, bytes } => self.compare(part, &bytes, tally),
            Event::Error { .. } => tally.counters.errors += 1,
            Event::Finish { reason } => {
                tally.counters.truncated += u64::from(reason == "truncated")
            }
            _ => {}
        }
    }

    /// Adds up what the reply was.
    pub(crate) fn end(&mut self, tally: &mut Tally) {
        self.watch
            .hits
            .sort_unstable_by_key(|hit| (hit.part, hit.decided, hit.rule));
        tally.streams += 1;
        let limits = self
            .watch
            .decisions
            .iter()
            .filter(|decision| decision.hit().is_none());
        tally.counters.limits += limits.count() as u64;
        tally.hits += self.watch.hits.len() as u64;
        tally.add(&self.watch.stream.counters());
    }

    /// Each rule that was broken, with what was done about it: `hit` where no verdict came of it, and a
    /// limit under its own name.
    pub(crate) fn outcomes(&self) -> BTreeSet<(String, &'static str)> {
        let Watch {
            stream,
            judged,
            hits,
            decisions,
            ..
        } = &self.watch;
        let hits = hits
            .iter()
            .map(|hit| (stream.pack().rule(hit.rule).id.clone(), "hit"));
        let decided = decisions
            .iter()
            .filter(|decision| !decision.is_suppressed())
            .map(|decision| {
                let name = match (decision.rule(), &decision.source) {
                    (Some(rule), _) => judged.pack().rule(rule).id.as_str(),
                    (None, Source::Limit { name, .. }) => *name,
                    (None, _) => "limit",
                };
                (name.to_owned(), decision.action.name())
            });
        hits.chain(decided).collect()
    }

    /// Writes hits and verdicts; all matches are masked if `redacts_all`, else those of rules that redact.
    pub(crate) fn write(&self, redacts_all: bool, out: &mut Out) -> Result<(), Stop> {
        let Watch {
            stream,
            judged,
            hits,
            decisions,
            ..
        } = &self.watch;
        let mut fingerprints = Fingerprints::default();
        let mut masked = (None, Mask::default());
        for hit in hits {
            let rule = stream.pack().rule(hit.rule);
            let masks = redacts_all || rule.action == Action::Redact;
            if masked.0 != Some(hit.part) {
                masked = (Some(hit.part), self.mask(hit.part, redacts_all));
            }
            let mask = &masked.1;
            let text = Some(stream.matched(hit));
            let place = place_of(stream, hit);
            let fingerprint = fingerprints.next(
                &rule.id,
                text.filter(|_| !masks && !mask.hides(place.clone())),
            );
            let part = self.name_of(hit.part);
            let origin = Origin {
                stream: &self.name,
                part: &part,
                channel: stream.channel(hit.part),
                tool: stream.tool_name(hit.part),
            };
            let extent = Extent {
                arg: stream.arg(hit),
                start: stream.start(hit),
                end: hit.end,
                decided: hit.decided,
            };
            let excerpt = mask.apply(excerpt_of(stream, hit), place, rule);
            out.write(&HitRecord::new(
                rule,
                origin,
                extent,
                &fingerprint,
                &excerpt,
            ))?;
        }
        for decision in decisions {
            let part = self.name_of(decision.part());
            out.write(&VerdictRecord::new(judged, decision, &self.name, &part))?;
        }
        Ok(())
    }

    /// The bytes of a part that are not shown.
    fn mask(&self, part: PartId, redacts_all: bool) -> Mask {
        let Watch { stream, hits, .. } = &self.watch;
        let redactions = stream.redactions().iter();
        let redacted = redactions
            .filter(|redaction| redaction.part == part)
            .map(|redaction| redaction.start..redaction.end);
        let masked = hits.iter().filter(|hit| {
            let is_redacted = stream.pack().rule(hit.rule).action == Action::Redact;
            hit.part == part && (redacts_all || is_redacted)
        });
        Mask::new(
            redacted.chain(masked.clone().map(|hit| place_of(stream, hit))),
            masked.map(|hit| stream.matched(hit).to_owned()),
        )
    }

    fn start(&mut self, id: PartId, name: String, tally: &mut Tally) {
        let number = (self.number << 20) + self.begun;
        let part = Part {
            name,
            cutter: Cutter::new(self.chunk, number),
            digest: Digest::default(),
        };
        self.open.insert(id, part);
        self.begun += 1;
        tally.parts += 1;
    }

    /// Keeps of a closed part what a repetition of it is compared with.
    fn close(&mut self, id: PartId) {
        let Some(part) = self.open.remove(&id) else {
            return;
        };
        let place = id.0 as usize;
        if place >= self.watch.stream.pack().limits().parts {
            return;
        }
        if self.digests.len() <= place {
            let more = place + 1 - self.digests.len();
            if place >= self.digests.capacity() {
                // Not twice the room that is needed: there may be very many.
                self.digests.reserve_exact(more.max(self.digests.len() / 8));
            }
            self.digests.resize(place + 1, 0);
        }
        self.digests[place] = part.digest.mixed();
    }

    /// Keeps the name of a part for which something is to be written.
    fn note_name(&mut self, id: PartId) {
        let is_told = std::mem::take(&mut self.watch.has_news);
        if let (true, Some(part)) = (is_told, self.open.get(&id)) {
            self.names.insert(id, part.name.clone());
        }
    }

    fn delta(&mut self, id: PartId, bytes: &[u8], tally: &mut Tally) {
        self.turn_to(id, tally);
        tally.bytes += bytes.len() as u64;
        let watch = &mut self.watch;
        let Some(part) = self.open.get_mut(&id) else {
            // The stream counts what comes behind a close.
            return watch.push(id, bytes);
        };
        part.digest = part.digest.with(bytes);
        part.cutter.push(bytes, &mut |delta| {
            tally.deltas += 1;
            watch.push(id, delta);
        });
        self.note_name(id);
    }

    /// What came before in other parts stays before, or verdicts would come in another order. Parts in one
    /// piece are the exception: they come at their ends.
    fn turn_to(&mut self, id: PartId, tally: &mut Tally) {
        if let Some(latest) = self.latest.replace(id)
            && latest != id
            && self.chunk != Chunk::Whole
        {
            self.flush(latest, tally);
        }
    }

    fn flush(&mut self, id: PartId, tally: &mut Tally) {
        let Some(part) = self.open.get_mut(&id) else {
            return;
        };
        let watch = &mut self.watch;
        part.cutter.flush(&mut |delta| {
            tally.deltas += 1;
            watch.push(id, delta);
        });
        self.note_name(id);
    }

    /// A repetition was scanned with what it repeats, unless it says something else.
    fn compare(&self, id: PartId, bytes: &[u8], tally: &mut Tally) {
        let known = match self.open.get(&id) {
            Some(part) => Some(part.digest.mixed()),
            None => self.digests.get(id.0 as usize).copied(),
        };
        if known != Some(Digest::default().with(bytes).mixed()) {
            tally.counters.changed_snapshots += 1;
            tally.unread(bytes.len() as u64, "changed-snapshot");
        }
    }

    fn name_of(&self, id: PartId) -> String {
        let name = self.names.get(&id);
        name.cloned().unwrap_or_else(|| id.0.to_string())
    }
}

/// The bytes of a match in its part. Where its start is not known, as many before its end as its text could have taken.
fn place_of(stream: &Stream, hit: &Hit) -> Range<u64> {
    let longest = 12 * stream.matched(hit).len().max(1) as u64;
    let start = stream.start(hit).unwrap_or(hit.end.saturating_sub(longest));
    start..hit.end
}

fn excerpt_of(stream: &Stream, hit: &Hit) -> Excerpt {
    let found = ScanMatch::of(stream, hit);
    let (text, matched) = found.map_or_else(Default::default, |found| {
        (found.excerpt().to_owned(), found.matched())
    });
    Excerpt { text, matched }
}

/// Two readers of the same deltas: one for hits, one for verdicts.
struct Watch {
    stream: Stream,
    hits: Vec<Hit>,
    session: Session,
    judged: Stream,
    decisions: Vec<Decision>,
    is_cut: bool,
    /// Whether there are hits or decisions since this was set to `false`.
    has_news: bool,
}

impl Watch {
    fn new(pack: &Pack) -> Watch {
        let mut session = pack.session();
        session.begin_turn();
        Watch {
            stream: pack.stream(),
            hits: Vec::new(),
            judged: session.stream(),
            session,
            decisions: Vec::new(),
            is_cut: false,
            has_news: false,
        }
    }

    /// Nothing is decided by an empty part; a limit on their number is met again with its first byte.
    fn open(&mut self, part: PartId, channel: Channel) {
        self.stream.open(part, channel);
        self.judged.open(part, channel);
    }

    fn tool(&mut self, part: PartId, name: &str, call: &str) {
        let hits = self.stream.tool(part, name, call);
        self.has_news |= !hits.is_empty();
        self.hits.extend_from_slice(&hits);
        if !self.is_cut {
            let verdict = self.session.tool(&mut self.judged, part, name, call);
            self.note(verdict);
        }
    }

    fn push(&mut self, part: PartId, bytes: &[u8]) {
        let hits = self.stream.push(part, bytes);
        self.has_news |= !hits.is_empty();
        self.hits.extend_from_slice(&hits);
        if !self.is_cut {
            let verdict = self.session.push(&mut self.judged, part, bytes);
            self.note(verdict);
        }
    }

    fn close(&mut self, part: PartId) {
        let hits = self.stream.close(part);
        self.has_news |= !hits.is_empty();
        self.hits.extend_from_slice(&hits);
        if !self.is_cut {
            let verdict = self.session.close(&mut self.judged, part);
            self.note(verdict);
        }
    }

    fn note(&mut self, verdict: Verdict) {
        let cut = match verdict {
            Verdict::Act(decision) if decision.action.cuts() => Some(decision),
            _ => None,
        };
        // Whether later bytes came along with those that cut depends on where deltas end: they do not count.
        let in_time =
            |decision: &&Decision| cut.is_none_or(|cut| decision.decided() <= cut.decided());
        self.decisions
            .extend(self.session.decisions().iter().filter(in_time));
        self.has_news |= !self.session.decisions().is_empty();
        self.is_cut |= cut.is_some();
    }
}

/// Length and FNV-1a hash of bytes: to tell whether a repetition is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digest {
    length: u64,
    hash: u64,
}

impl Default for Digest {
    fn default() -> Digest {
        Digest {
            length: 0,
            hash: 0xCBF2_9CE4_8422_2325,
        }
    }
}

impl Digest {
    fn with(self, bytes: &[u8]) -> Digest {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
        let length = self.length + bytes.len() as u64;
        Digest {
            length,
            hash: bytes.iter().fold(self.hash, step),
        }
    }

    /// Both as one number, which is not 0.
    fn mixed(self) -> u64 {
        (self.hash ^ self.length.rotate_left(32)).max(1)
    }
}
