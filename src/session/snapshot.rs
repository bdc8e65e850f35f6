//! The state of a session that outlives its process or its pack.

use std::fmt::{self, Write};

use serde::{Deserialize, Deserializer, Serialize, de};

use super::ledger::{ActionCounts, Ledger};
use super::{Origin, PendingGuidance, Session};
use crate::pack::Pack;
use crate::rule::{Action, Mode, Rule};
use crate::stream::RuleHistory;
use crate::verdict::RuleId;

/// The state of a session or conversation, to be stored with serde. Restored with
/// [`Conversation::restore`](crate::Conversation::restore) or [`Pack::restore`].
///
/// Rules are matched by id and content hash, so unchanged rules keep their state in another pack; ages are in turns, not
/// in time. Of replies it contains only the text that the messages of pending guidance quote. A snapshot of another
/// format version is an error when it is deserialised.
///
/// # Example: a conversation that continues in another process
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
    /// Returns the number of turns that had begun.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.turn
    }

    /// Returns true if guidance waits for a request.
    #[must_use]
    pub fn has_guidance(&self) -> bool {
        !self.guidance.is_empty()
    }

    /// Returns the state without the pending guidance, for a request that must not carry it.
    #[must_use]
    pub fn without_guidance(&self) -> Snapshot {
        Snapshot {
            guidance: Vec::new(),
            ..self.clone()
        }
    }

    /// Adds what happened between `base` and `fork` to this state, which may have changed since `base` as well: for
    /// hosts whose requests of one conversation overlap. If nothing changed since `base`, the result is `fork`.
    ///
    /// Counts of actions are added, so the actions of both sides count. Counts of a turn are added only while that turn
    /// is still the present one. Guidance that the fork delivered is removed, and guidance that it decided is added, once
    /// for each rule.
    ///
    /// # Complexity
    /// `O(n * m)` for the `n` rules of `fork` and the `m` rules of this state and of `base`; rules that have not acted
    /// are in none of them.
    ///
    /// # Example: two replies at the same time
    /// ```
    /// use ttsr::rule::Repeat;
    /// use ttsr::{Action, Conversation, Flow, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// rule.action = Action::Warn;
    /// rule.repeat = Some(Repeat { per_session: Some(3), ..Repeat::default() });
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut first = Conversation::new(&pack);
    /// first.start_turn();
    /// let mut state = first.snapshot();
    /// let base = state.clone();
    /// let acts = |from: &ttsr::session::Snapshot| {
    ///     let mut fork = Conversation::restore(&pack, from).0;
    ///     assert_eq!(fork.begin_attempt(), Flow::Go);
    ///     assert_eq!(fork.push(PartId(0), b"TODO: more"), Flow::Go);
    ///     let is_act = !fork.decisions()[0].is_suppressed();
    ///     (is_act, fork.snapshot())
    /// };
    /// for _ in 0..3 {
    ///     let (is_act, fork) = acts(&base);
    ///     assert!(is_act);
    ///     state.merge(&base, &fork);
    /// }
    /// assert!(!acts(&state).0, "all three actions count");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn merge(&mut self, base: &Snapshot, fork: &Snapshot) {
        if self == base {
            *self = fork.clone();
            return;
        }
        let is_same_turn = self.turn == fork.turn;
        if fork.turn > self.turn {
            (self.turn, self.attempts, self.retries) = (fork.turn, fork.attempts, fork.retries);
            self.is_turn_open = fork.is_turn_open;
        } else if is_same_turn {
            let is_known = base.turn == fork.turn;
            let before = |count: u32| if is_known { count } else { 0 };
            self.attempts = added(self.attempts, before(base.attempts), fork.attempts);
            self.retries = added(self.retries, before(base.retries), fork.retries);
            if base.is_turn_open != fork.is_turn_open {
                self.is_turn_open = fork.is_turn_open;
            }
        }
        let find = |rules: &[RuleSnapshot], of: &RuleSnapshot| {
            let is_same = |known: &RuleSnapshot| known.id == of.id && known.hash == of.hash;
            rules.iter().position(is_same)
        };
        for changed in &fork.rules {
            let before = find(&base.rules, changed).map(|at| &base.rules[at]);
            let Some(at) = find(&self.rules, changed) else {
                // Another pack may have the rule with other contents, whose state does not apply here.
                self.rules.retain(|known| known.id != changed.id);
                self.rules.push(changed.clone());
                continue;
            };
            let known = &mut self.rules[at];
            let live = before.map_or_else(ActionCounts::default, |before| before.live);
            let shadow = before.map_or_else(ActionCounts::default, |before| before.shadow);
            known.live.merge(live, changed.live, is_same_turn);
            known.shadow.merge(shadow, changed.shadow, is_same_turn);
            if before.and_then(|before| before.history.as_ref()) != changed.history.as_ref() {
                known.history.clone_from(&changed.history);
            }
        }
        self.guidance
            .retain(|known| !base.guidance.contains(known) || fork.guidance.contains(known));
        for decided in &fork.guidance {
            let is_known = self.guidance.iter().any(|known| known.rule == decided.rule);
            if !is_known && !base.guidance.contains(decided) {
                self.guidance.push(decided.clone());
            }
        }
    }

    /// Returns the guidance of the snapshot, for a session with that pack that was just restored.
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

/// Returns a count to which the difference between two others is added.
pub(super) fn added(count: u32, before: u32, after: u32) -> u32 {
    count
        .saturating_add(after.saturating_sub(before))
        .saturating_sub(before.saturating_sub(after))
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
    live: ActionCounts,
    shadow: ActionCounts,
    /// The state carried from replies to later ones.
    #[serde(rename = "past", default, skip_serializing_if = "Option::is_none")]
    history: Option<RuleHistory>,
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
    /// Returns the present state. Streams are not in it: their text must be read again.
    ///
    /// The restored session does not know earlier decisions. A decision whose outcome was not reported counts as reserved
    /// until the next turn begins.
    ///
    /// # Complexity
    /// Linear in the rules of the pack.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_with([].iter(), false)
    }

    /// Returns the present state with the pending `guidance`. `is_turn_open` is true if the turn has no final answer yet.
    pub(crate) fn snapshot_with<'g>(
        &self,
        guidance: impl Iterator<Item = &'g PendingGuidance>,
        is_turn_open: bool,
    ) -> Snapshot {
        let rules = (0..).map(RuleId).zip(self.pack.rules());
        let acted =
            rules.filter(|(id, _)| self.has_acted(id.index()) || self.histories.get(*id).is_some());
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
                    live: self.live.counts(Some(id.index())),
                    shadow: self.shadow.counts(Some(id.index())),
                    history: self.histories.get(id).cloned(),
                })
                .collect(),
        }
    }

    /// Replaces the pack for the streams that begin from now on; streams in progress keep theirs.
    ///
    /// Rules that are equal in both packs keep their state. Changed rules are reset; those that had already acted are
    /// returned. Retries of this turn still count.
    ///
    /// # Complexity
    /// `O(n log n)` in the rules of both packs, and linear in those of the last 16 packs.
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
        let index = |rule: &Rule| {
            let index = pack.find(&rule.id).map(RuleId::index);
            index.filter(|index| pack.rules()[*index] == *rule)
        };
        let indices: Vec<Option<usize>> = self.pack.rules().iter().map(index).collect();
        let mut lost = Vec::new();
        for (rule, index) in indices.iter().enumerate() {
            if index.is_none() && self.has_acted(rule) {
                lost.push(Lost::new(&self.pack.rules()[rule].id, &pack));
            }
        }
        self.live.replace(&indices);
        self.shadow.replace(&indices);
        self.retire(indices);
        self.pack = pack;
        self.update_excluded();
        lost
    }

    /// Returns true if the rule at that index has counts other than 0.
    fn has_acted(&self, index: usize) -> bool {
        let ledgers = [&self.live, &self.shadow];
        let counts = ledgers.map(|ledger| ledger.counts(Some(index)));
        counts != [ActionCounts::default(), ActionCounts::default()]
    }
}

impl Pack {
    /// Returns a session that continues where the snapshot was made, and the rules whose state could not be kept, because
    /// this pack does not have them or has them with other contents. They are reset.
    ///
    /// With the same pack the session decides as the original would have.
    ///
    /// # Complexity
    /// Linear in the snapshot and in the text of its rules, with a binary search in the pack for each of them.
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
            let index = self.find(&kept.id).map(RuleId::index);
            match index.filter(|index| content_hash(&self.rules()[*index]) == kept.hash) {
                Some(index) => {
                    session.live.set(index, kept.live);
                    session.shadow.set(index, kept.shadow);
                    if let (Some(history), Ok(id)) = (&kept.history, u32::try_from(index)) {
                        *session.histories.get_or_default(RuleId(id)) = history.clone();
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
    fn replace(&mut self, indices: &[Option<usize>]) {
        let mut moved = Ledger::default();
        for (old, counts) in self.entries() {
            if let Some(index) = indices[old] {
                moved.set(index, counts);
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
    use crate::rule::Repeat;
    use crate::{Conversation, Flow, PartId, Pattern};

    fn pack() -> Pack {
        let mut warn = Rule::new("t/warn", vec![Pattern::literal("foo")]);
        warn.action = Action::Warn;
        warn.repeat = Some(Repeat::default());
        let inject = Rule::new("t/inject", vec![Pattern::literal("bar")]);
        let builder = Pack::builder().rule(warn).rule(inject);
        builder.build().expect("a valid pack")
    }

    fn fork(pack: &Pack, base: &Snapshot, text: &str) -> Snapshot {
        let (mut conversation, _) = Conversation::restore(pack, base);
        conversation.reopen_turn();
        assert_eq!(conversation.begin_attempt(), Flow::Go);
        assert_eq!(conversation.push(PartId(0), text.as_bytes()), Flow::Go);
        assert_eq!(conversation.finish(), Flow::Go);
        conversation.snapshot()
    }

    fn begun(pack: &Pack, base: Option<&Snapshot>) -> Snapshot {
        let known = base.map(|base| Conversation::restore(pack, base).0);
        let mut conversation = known.unwrap_or_else(|| Conversation::new(pack));
        conversation.start_turn();
        conversation.snapshot()
    }

    #[test]
    fn merged_forks_that_follow_each_other_are_the_last_fork() {
        let pack = pack();
        let base = begun(&pack, None);
        let mut state = base.clone();
        let first = fork(&pack, &base, "foo bar");
        state.merge(&base, &first);
        assert_eq!(state, first);
        let second = fork(&pack, &first, "foo");
        state.merge(&first, &second);
        assert_eq!(state, second);
        state.merge(&second, &second);
        assert_eq!(state, second);
    }

    #[test]
    fn forks_that_overlap_add_their_actions_and_carry_guidance_once() {
        let pack = pack();
        let base = begun(&pack, None);
        let forks = ["foo", "foo bar", "bar"].map(|text| fork(&pack, &base, text));
        let mut state = base.clone();
        for fork in &forks {
            state.merge(&base, fork);
        }
        let warned = state.rules.iter().find(|rule| rule.id == "t/warn");
        let of_two = fork(&pack, &forks[0], "foo");
        let want = of_two.rules.iter().find(|rule| rule.id == "t/warn");
        assert_eq!(warned, want, "two actions");
        assert_eq!(state.attempts, 3);
        assert_eq!(state.guidance.len(), 1);
        // One request carries the guidance while another one is in progress.
        let (carried, other) = (
            fork(&pack, &state, "fine"),
            fork(&pack, &state.without_guidance(), "foo"),
        );
        assert!(!carried.has_guidance());
        let before = state.clone();
        state.merge(&before.without_guidance(), &other);
        assert!(state.has_guidance());
        state.merge(&before, &carried);
        assert!(!state.has_guidance());
    }

    #[test]
    fn acts_of_a_turn_that_is_over_do_not_count_in_the_next_one() {
        let pack = pack();
        let base = begun(&pack, None);
        let late = fork(&pack, &base, "foo");
        let mut state = begun(&pack, Some(&base));
        let next = state.clone();
        state.merge(&base, &late);
        assert_eq!(
            (state.turn, state.attempts, state.is_turn_open),
            (2, 0, true)
        );
        assert_ne!(state.rules, next.rules, "they count in the session");
        let now = fork(&pack, &next, "foo");
        let mut other = next.clone();
        other.merge(&next, &now);
        assert_eq!(other, now);
    }

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
