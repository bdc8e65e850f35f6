//! The state of a session that outlives its process or its pack.

use std::fmt::{self, Write};

use serde::{Deserialize, Deserializer, Serialize, de};

use super::ledger::{Acts, Ledger};
use super::{Origin, PendingGuidance, Session};
use crate::pack::Pack;
use crate::rule::{Action, Mode, Rule};
use crate::stream::RuleHistory as Past;
use crate::verdict::RuleId;

/// The state of a session or conversation, to be stored with serde. Restored with
/// [`Conversation::restore`](crate::Conversation::restore) or [`Pack::restore`].
///
/// It names rules by their full ids and a hash of their contents, so that it fits another pack as far as the rules are
/// the same; ages are in turns, not in time. Of replies it contains only the text that the messages of waiting guidance
/// quote. A snapshot of another format version is an error when it is deserialised.
///
/// # Example: a conversation that goes on in another process
/// ```
/// use ttsr::{Channel, Pack, PartId, Pattern, Rule, Verdict};
/// let pack = Pack::builder().rule(Rule::new("demo/no-foo", vec![Pattern::literal("foo")])).build()?;
/// let mut session = pack.session();
/// let mut stream = session.stream();
/// assert_ne!(session.push(&mut stream, PartId(0), b"foo"), Verdict::Continue);
///
/// let written = serde_json::to_string(&session.snapshot()).unwrap();
/// let (mut session, lost) = pack.restore(&serde_json::from_str(&written).unwrap());
/// assert!(lost.is_empty());
/// let mut stream = session.stream();
/// assert_eq!(session.push(&mut stream, PartId(0), b"foo"), Verdict::Continue, "it was said");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    #[serde(deserialize_with = "known_version")]
    version: u32,
    turn: u32,
    attempts: u32,
    retries: u32,
    mode: Mode,
    origin: Origin,
    /// The rules that have state, by id.
    rules: Vec<RuleSnapshot>,
    /// Guidance that no request has carried yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    guidance: Vec<GuidanceSnapshot>,
    /// True if the turn has no final answer yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_turn_open: bool,
}

/// Guidance of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GuidanceSnapshot {
    /// The full id of the rule.
    rule: String,
    turn: u32,
    text: String,
}

impl Snapshot {
    /// The number of turns that had begun.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// The guidance of the snapshot, for a session with that pack that was just restored.
    pub(crate) fn guidance(&self, pack: &Pack) -> Vec<PendingGuidance> {
        let pending = self.guidance.iter().map(|kept| PendingGuidance {
            rule: kept.rule.clone(),
            id: pack.find(&kept.rule),
            generation: 0,
            action: Action::Inject,
            turn: kept.turn,
            text: kept.text.clone(),
        });
        pending.collect()
    }
}

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// The state of one rule in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSnapshot {
    id: String,
    /// Hash of the contents of the rule.
    hash: u64,
    live: Acts,
    shadow: Acts,
    /// The state that replies leave to later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    past: Option<Past>,
}

/// A rule whose state was dropped, because the pack no longer has it or has it with other contents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Lost {
    /// The full id of the rule.
    pub rule: String,
    /// True if the pack has a rule of that id with other contents.
    pub is_changed: bool,
}

impl Session {
    /// The present state. Streams are not in it: their text must be read again.
    ///
    /// The restored session does not know earlier decisions. A decision whose fate was not told counts as reserved until
    /// the next turn begins.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_with([].iter(), false)
    }

    /// The same with guidance that waits, and with true if the turn has no final answer yet.
    pub(crate) fn snapshot_with<'g>(
        &self,
        guidance: impl Iterator<Item = &'g PendingGuidance>,
        is_turn_open: bool,
    ) -> Snapshot {
        let rules = (0..).map(RuleId).zip(self.pack.rules());
        let acted =
            rules.filter(|(id, _)| self.has_acted(id.index()) || self.pasts.contains_key(id));
        Snapshot {
            version: VERSION,
            turn: self.turn,
            attempts: self.attempts,
            retries: self.retries,
            mode: self.mode,
            origin: self.origin.clone(),
            guidance: guidance
                .map(|pending| GuidanceSnapshot {
                    rule: pending.rule.clone(),
                    turn: pending.turn,
                    text: pending.text.clone(),
                })
                .collect(),
            is_turn_open,
            rules: acted
                .map(|(id, rule)| RuleSnapshot {
                    id: rule.id.clone(),
                    hash: content_hash(rule),
                    live: self.live.acts(Some(id.index())),
                    shadow: self.shadow.acts(Some(id.index())),
                    past: self.pasts.get(&id).cloned(),
                })
                .collect(),
        }
    }

    /// Replaces the pack for the streams that begin from now on; streams in progress keep theirs.
    ///
    /// Rules that are equal in both packs keep their state. The others begin anew, and those of them that had acted are
    /// returned. Retries of this turn still count.
    ///
    /// # Example: one rule stays
    /// ```
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule, Verdict};
    /// let rule = |id: &str, text: &str| Rule::new(id, vec![Pattern::literal(text)]);
    /// let pack = |rules: [Rule; 2]| rules.into_iter().fold(Pack::builder(), |b, r| b.rule(r)).build();
    /// let mut session = pack([rule("demo/a", "foo"), rule("demo/b", "bar")])?.session();
    /// let mut stream = session.stream();
    /// assert_ne!(session.push(&mut stream, PartId(0), b"foo bar"), Verdict::Continue);
    ///
    /// let lost = session.reload(pack([rule("demo/a", "foo"), rule("demo/b", "baz")])?);
    /// assert_eq!((&*lost[0].rule, lost[0].is_changed), ("demo/b", true));
    /// let mut stream = session.stream();
    /// assert_eq!(session.push(&mut stream, PartId(0), b"foo"), Verdict::Continue, "it was said");
    /// assert_ne!(session.push(&mut stream, PartId(0), b"baz"), Verdict::Continue);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn reload(&mut self, pack: Pack) -> Vec<Lost> {
        let place = |rule: &Rule| {
            let place = pack.find(&rule.id).map(RuleId::index);
            place.filter(|place| pack.rules()[*place] == *rule)
        };
        let places: Vec<Option<usize>> = self.pack.rules().iter().map(place).collect();
        let mut lost = Vec::new();
        for (rule, place) in places.iter().enumerate() {
            if place.is_none() && self.has_acted(rule) {
                lost.push(Lost::new(&self.pack.rules()[rule].id, &pack));
            }
        }
        self.live.replace(&places);
        self.shadow.replace(&places);
        self.retire(places);
        self.pack = pack;
        self.update_excluded();
        lost
    }

    /// Returns true if the rule at that index has counts other than 0.
    fn has_acted(&self, place: usize) -> bool {
        let ledgers = [&self.live, &self.shadow];
        let counts = ledgers.map(|ledger| ledger.acts(Some(place)));
        counts != [Acts::default(), Acts::default()]
    }
}

impl Pack {
    /// Returns a session that goes on where the snapshot was made, and the rules whose state could not be kept, because
    /// this pack does not have them or has them with other contents. They begin anew.
    ///
    /// With the same pack the session decides as the original would have.
    ///
    /// # Example: a rule that has changed since
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule};
    /// let pack = |text: &str| Pack::builder().rule(Rule::new("demo/a", vec![Pattern::literal(text)])).build();
    /// let mut session = pack("foo")?.session();
    /// let mut stream = session.stream();
    /// let _ = session.push(&mut stream, PartId(0), b"foo");
    /// let (_, lost) = pack("bar")?.restore(&session.snapshot());
    /// assert_eq!((&*lost[0].rule, lost[0].is_changed), ("demo/a", true));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn restore(&self, snapshot: &Snapshot) -> (Session, Vec<Lost>) {
        let mut session = self.session();
        session.turn = snapshot.turn;
        session.attempts = snapshot.attempts;
        session.mode = snapshot.mode;
        session.origin = snapshot.origin.clone();
        session.retries = snapshot.retries;
        let mut lost = Vec::new();
        for kept in &snapshot.rules {
            let place = self.find(&kept.id).map(RuleId::index);
            match place.filter(|place| content_hash(&self.rules()[*place]) == kept.hash) {
                Some(place) => {
                    session.live.set(place, kept.live);
                    session.shadow.set(place, kept.shadow);
                    if let (Some(past), Ok(id)) = (&kept.past, u32::try_from(place)) {
                        session.pasts.insert(RuleId(id), past.clone());
                    }
                }
                None => lost.push(Lost::new(&kept.id, self)),
            }
        }
        session.update_excluded();
        (session, lost)
    }
}

impl Lost {
    fn new(rule: &str, pack: &Pack) -> Lost {
        Lost {
            rule: rule.to_owned(),
            is_changed: pack.find(rule).is_some(),
        }
    }
}

impl Ledger {
    /// Moves the counts to the rules of another pack: `places` has the new index of each rule that it still has.
    fn replace(&mut self, places: &[Option<usize>]) {
        let mut moved = Ledger::default();
        for (old, acts) in self.entries() {
            if let Some(place) = places[old] {
                moved.set(place, acts);
            }
        }
        *self = moved;
    }
}

fn known_version<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    match u32::deserialize(from)? {
        VERSION => Ok(VERSION),
        version => Err(de::Error::custom(format_args!(
            "snapshot has version {version}, only {VERSION} is known"
        ))),
    }
}

/// Returns a hash of the contents of a rule. It is made of the rule's debug form, which another version of the crate may
/// print differently: then the state of rules is dropped and reported.
fn content_hash(rule: &Rule) -> u64 {
    let mut hash = Fnv::new();
    write!(hash, "{rule:?}").expect("hashing never fails");
    hash.0
}

/// Returns the 64-bit FNV-1a hash of the text.
#[cfg(feature = "harness")]
pub(crate) fn fnv1a(text: &str) -> u64 {
    let mut hash = Fnv::new();
    hash.write_str(text).expect("hashing never fails");
    hash.0
}

/// FNV-1a, 64 bits: the same everywhere, which the standard library's hashes do not promise.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xCBF2_9CE4_8422_2325)
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_that_fnv_publishes() {
        for (text, hash) in [
            ("", 0xCBF2_9CE4_8422_2325),
            ("a", 0xAF63_DC4C_8601_EC8C),
            ("foobar", 0x8594_4171_F739_67E8),
        ] {
            let mut fnv = Fnv::new();
            fnv.write_str(text).unwrap();
            assert_eq!(fnv.0, hash, "{text:?}");
        }
    }
}
