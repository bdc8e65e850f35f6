//! One recorded reply: all its hits, and the verdicts of a session.
//!
//! The hits are those of the whole recording. A session stops reading at a cut, so it has its own stream. The retry
//! that it would have requested is not in the recording.
//!
//! Memory: 9 bytes for each closed part, its name if it was hit, and the state of its streams. Parts beyond
//! [`Limits::parts`](ttsr::Limits::parts) take none.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use ttsr::rule::ToolOutcome;
use ttsr::scan::ScanMatch;
use ttsr::session::Session;
use ttsr::{Action, Channel, Decision, Event, Hit, Pack, PartId, Source, Stream, Verdict};

use crate::CommandError;
use crate::chunk::{Chunker, Chunking};
use crate::fingerprint::Fingerprints;
use crate::mask::{HiddenRanges, MaskedExcerpt};
use crate::output::{HitRecord, MatchExtent, PartOrigin, RecordWriter, VerdictRecord};
use crate::totals::RunTotals;

pub(crate) struct RecordedReply {
    name: String,
    chunking: Chunking,
    /// The number of the reply, which selects its random chunk lengths.
    number: u64,
    /// Number of parts so far.
    begun: u64,
    open: HashMap<PartId, ReplayPart>,
    /// A digest of each closed part, by part number, and 0 for open parts. Parts are numbered from 0 in the order in which
    /// they open.
    digests: Vec<u64>,
    /// The names of the parts that were hit.
    names: HashMap<PartId, String>,
    /// The part of the last delta.
    latest: Option<PartId>,
    watch: StreamAndSession,
}

/// An open part.
struct ReplayPart {
    name: String,
    chunker: Chunker,
    /// Digest of the bytes so far.
    digest: PartDigest,
}

impl RecordedReply {
    pub(crate) fn new(name: &str, pack: &Pack, chunking: Chunking, number: u64) -> RecordedReply {
        RecordedReply {
            name: name.to_owned(),
            chunking,
            number,
            begun: 0,
            open: HashMap::new(),
            digests: Vec::new(),
            names: HashMap::new(),
            latest: None,
            watch: StreamAndSession::new(pack),
        }
    }

    /// Processes the next event of this reply.
    pub(crate) fn push_event(&mut self, event: Event, tally: &mut RunTotals) {
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
                    self.keep_name(part);
                }
            }
            Event::Tool { part, tool, call } => {
                // The name applies from this byte on, however the deltas are split.
                self.turn_to(part, tally);
                self.flush(part, tally);
                self.watch
                    .tool(part, &tool, call.as_deref().unwrap_or_default());
                self.keep_name(part);
            }
            Event::Outcome { part, outcome } => self.watch.set_outcome(part, outcome),
            Event::Delta { part, bytes } => self.delta(part, &bytes, tally),
            Event::PartEnd { part } => {
                self.turn_to(part, tally);
                self.flush(part, tally);
                self.watch.close(part);
                self.keep_name(part);
                self.close(part);
            }
            Event::Snapshot { part, bytes } => self.compare(part, &bytes, tally),
            Event::Error { .. } => tally.counters.errors += 1,
            Event::Finish { reason } => {
                tally.counters.truncated += u64::from(reason == "truncated")
            }
            // Counted by the caller, or without text.
            Event::Unscanned { .. } | Event::Usage { .. } | Event::Restart => {}
        }
    }

    /// Ends the reply and adds its counts to the totals.
    pub(crate) fn end(&mut self, tally: &mut RunTotals) {
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

    /// Returns each rule that hit, with its action or `hit` if no verdict followed, and each limit that was reached under
    /// its own name.
    pub(crate) fn outcomes(&self) -> BTreeSet<(String, &'static str)> {
        let StreamAndSession {
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

    /// Prints hits and verdicts. Masks all matches if `redacts_all`, else only those of rules that redact.
    pub(crate) fn write(
        &self,
        redacts_all: bool,
        out: &mut RecordWriter,
    ) -> Result<(), CommandError> {
        let StreamAndSession {
            stream,
            judged,
            hits,
            decisions,
            ..
        } = &self.watch;
        let mut fingerprints = Fingerprints::default();
        let mut masked = (None, HiddenRanges::default());
        for hit in hits {
            let rule = stream.pack().rule(hit.rule);
            let masks = redacts_all || rule.action == Action::Redact;
            if masked.0 != Some(hit.part) {
                masked = (Some(hit.part), self.mask(hit.part, redacts_all));
            }
            let mask = &masked.1;
            let text = Some(stream.matched(hit));
            let place = match_range(stream, hit);
            let fingerprint = fingerprints.next(
                &rule.id,
                text.filter(|_| !masks && !mask.hides(place.clone())),
            );
            let part = self.part_name(hit.part);
            let origin = PartOrigin {
                stream: &self.name,
                part: &part,
                channel: stream.channel(hit.part),
                tool: stream.tool_name(hit.part),
            };
            let extent = MatchExtent {
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
            let part = self.part_name(decision.part());
            out.write(&VerdictRecord::new(judged, decision, &self.name, &part))?;
        }
        Ok(())
    }

    /// Returns the hidden bytes of a part.
    fn mask(&self, part: PartId, redacts_all: bool) -> HiddenRanges {
        let StreamAndSession { stream, hits, .. } = &self.watch;
        let redacted = stream.redactions(part).iter();
        let redacted = redacted.map(|redaction| redaction.start..redaction.end);
        let masked = hits.iter().filter(|hit| {
            let is_redacted = stream.pack().rule(hit.rule).action == Action::Redact;
            hit.part == part && (redacts_all || is_redacted)
        });
        HiddenRanges::new(
            redacted.chain(masked.clone().map(|hit| match_range(stream, hit))),
            masked.map(|hit| stream.matched(hit).to_owned()),
        )
    }

    fn start(&mut self, id: PartId, name: String, tally: &mut RunTotals) {
        let number = (self.number << 20) + self.begun;
        let part = ReplayPart {
            name,
            chunker: Chunker::new(self.chunking, number),
            digest: PartDigest::default(),
        };
        self.open.insert(id, part);
        self.begun += 1;
        tally.parts += 1;
    }

    /// Closes a part and keeps the digest with which a repetition of it is compared.
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
                // Grows by an eighth instead of doubling: a reply may have very many parts.
                self.digests.reserve_exact(more.max(self.digests.len() / 8));
            }
            self.digests.resize(place + 1, 0);
        }
        self.digests[place] = part.digest.mixed();
    }

    /// Keeps the name of a part that has something to print.
    fn keep_name(&mut self, id: PartId) {
        let is_new = std::mem::take(&mut self.watch.has_news);
        if let (true, Some(part)) = (is_new, self.open.get(&id)) {
            self.names.insert(id, part.name.clone());
        }
    }

    fn delta(&mut self, id: PartId, bytes: &[u8], tally: &mut RunTotals) {
        self.turn_to(id, tally);
        tally.bytes += bytes.len() as u64;
        let watch = &mut self.watch;
        let Some(part) = self.open.get_mut(&id) else {
            // The stream counts bytes after the close.
            return watch.push(id, bytes);
        };
        part.digest = part.digest.with(bytes);
        part.chunker.push(bytes, &mut |delta| {
            tally.deltas += 1;
            watch.push(id, delta);
        });
        self.keep_name(id);
    }

    /// Flushes the current part before another one continues, so that verdicts keep their order. With `--chunk whole`
    /// nothing is flushed: a part is pushed at its end.
    fn turn_to(&mut self, id: PartId, tally: &mut RunTotals) {
        if let Some(latest) = self.latest.replace(id)
            && latest != id
            && self.chunking != Chunking::Whole
        {
            self.flush(latest, tally);
        }
    }

    fn flush(&mut self, id: PartId, tally: &mut RunTotals) {
        let Some(part) = self.open.get_mut(&id) else {
            return;
        };
        let watch = &mut self.watch;
        part.chunker.flush(&mut |delta| {
            tally.deltas += 1;
            watch.push(id, delta);
        });
        self.keep_name(id);
    }

    /// Compares a repeated part with the original. Equal bytes were scanned already; others are counted as not scanned.
    fn compare(&self, id: PartId, bytes: &[u8], tally: &mut RunTotals) {
        let known = match self.open.get(&id) {
            Some(part) => Some(part.digest.mixed()),
            None => self.digests.get(id.0 as usize).copied(),
        };
        if known != Some(PartDigest::default().with(bytes).mixed()) {
            tally.counters.changed_snapshots += 1;
            tally.unread(bytes.len() as u64, "changed-snapshot");
        }
    }

    fn part_name(&self, id: PartId) -> String {
        let name = self.names.get(&id);
        name.cloned().unwrap_or_else(|| id.0.to_string())
    }
}

/// Returns the range of a match in its part. If the start is unknown, the range has the maximum length of a match.
fn match_range(stream: &Stream, hit: &Hit) -> Range<u64> {
    let longest = 12 * stream.matched(hit).len().max(1) as u64;
    let start = stream.start(hit).unwrap_or(hit.end.saturating_sub(longest));
    start..hit.end
}

fn excerpt_of(stream: &Stream, hit: &Hit) -> MaskedExcerpt {
    let found = ScanMatch::from_hit(stream, hit);
    let (text, matched) = found.map_or_else(Default::default, |found| {
        (found.excerpt().to_owned(), found.matched())
    });
    MaskedExcerpt { text, matched }
}

/// Two readers of the same deltas: a stream for the hits and a session for the verdicts.
struct StreamAndSession {
    stream: Stream,
    hits: Vec<Hit>,
    session: Session,
    judged: Stream,
    decisions: Vec<Decision>,
    is_cut: bool,
    /// True if hits or decisions were added since this was last set to `false`.
    has_news: bool,
}

impl StreamAndSession {
    fn new(pack: &Pack) -> StreamAndSession {
        let mut session = pack.session();
        session.begin_turn();
        StreamAndSession {
            stream: pack.stream(),
            hits: Vec::new(),
            judged: session.stream(),
            session,
            decisions: Vec::new(),
            is_cut: false,
            has_news: false,
        }
    }

    /// Opens a part. An empty part causes no decision; the limit on the number of parts is checked again at its first
    /// byte.
    fn open(&mut self, part: PartId, channel: Channel) {
        self.stream.open(part, channel);
        self.judged.open(part, channel);
    }

    fn set_outcome(&mut self, part: PartId, outcome: ToolOutcome) {
        self.stream.set_outcome(part, outcome);
        self.judged.set_outcome(part, outcome);
    }

    fn tool(&mut self, part: PartId, name: &str, call: &str) {
        let hits = self.stream.set_tool(part, name, call);
        self.has_news |= !hits.is_empty();
        self.hits.extend_from_slice(&hits);
        if !self.is_cut {
            let verdict = self.session.set_tool(&mut self.judged, part, name, call);
            self.record(verdict);
        }
    }

    fn push(&mut self, part: PartId, bytes: &[u8]) {
        let hits = self.stream.push(part, bytes);
        self.has_news |= !hits.is_empty();
        self.hits.extend_from_slice(&hits);
        if !self.is_cut {
            let verdict = self.session.push(&mut self.judged, part, bytes);
            self.record(verdict);
        }
    }

    fn close(&mut self, part: PartId) {
        let hits = self.stream.close(part);
        self.has_news |= !hits.is_empty();
        self.hits.extend_from_slice(&hits);
        if !self.is_cut {
            let verdict = self.session.close(&mut self.judged, part);
            self.record(verdict);
        }
    }

    fn record(&mut self, verdict: Verdict) {
        let cut = match verdict {
            Verdict::Act(decision) if decision.action.cuts() => Some(decision),
            _ => None,
        };
        // The bytes after the deciding byte depend on where the delta ends, so they do not count.
        let in_time =
            |decision: &&Decision| cut.is_none_or(|cut| decision.decided() <= cut.decided());
        self.decisions
            .extend(self.session.decisions().iter().filter(in_time));
        self.has_news |= !self.session.decisions().is_empty();
        self.is_cut |= cut.is_some();
    }
}

/// Length and FNV-1a hash of the bytes of a part, used to recognize a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartDigest {
    length: u64,
    hash: u64,
}

impl Default for PartDigest {
    fn default() -> PartDigest {
        PartDigest {
            length: 0,
            hash: 0xCBF2_9CE4_8422_2325,
        }
    }
}

impl PartDigest {
    fn with(self, bytes: &[u8]) -> PartDigest {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
        let length = self.length + bytes.len() as u64;
        PartDigest {
            length,
            hash: bytes.iter().fold(self.hash, step),
        }
    }

    /// Returns both combined into one number other than 0.
    fn mixed(self) -> u64 {
        (self.hash ^ self.length.rotate_left(32)).max(1)
    }
}
