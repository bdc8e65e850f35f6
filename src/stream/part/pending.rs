//! The matches that wait until the tool or the file of their part is known.
//!
//! A rule keeps at most [`PENDING_MATCHES`] of them. Others merge into one that is kept and stands for both, so no match is
//! forgotten:
//!
//! - Only matches of one [`ScopeClass`] merge. Whatever becomes known, they are decided alike.
//! - The kept one ends before those that merge with it, so a hit is the earliest match. They are counted, held and redacted
//!   with it ([`MergedMatches`](crate::stream::state::MergedMatches)), and only their text is dropped.
//! - If each match that is kept is of another class, the next one counts at once.
//!
//! The matches that are kept depend only on those that were added, not on their order: the views of one delta are read
//! one after the other.

use std::ops::Range;

use crate::program::{CompoundCondition, Program};
use crate::stream::buffers::PENDING_MATCHES;
use crate::stream::state::{RecordedMatch, StreamState};
use crate::verdict::RuleId;

/// The matches that wait in a part.
#[derive(Debug, Default)]
pub(super) struct PendingMatches {
    /// Ordered by rule, `decided`, end and start.
    matches: Vec<ScopedMatch>,
}

/// A match that waits for its scope.
#[derive(Debug)]
struct ScopedMatch {
    record: RecordedMatch,
    class: ScopeClass,
}

/// The facts that decide if a match counts, as far as they are known: the answers for its rule, and for each allow entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScopeClass(pub(super) Box<[ScopeAnswers]>);

/// True for the tool and for the file of a match if they are in a scope; `None` if that is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScopeAnswers {
    pub(super) tool: Option<bool>,
    pub(super) path: Option<bool>,
}

impl ScopeAnswers {
    /// The answers of a scope that excludes the part.
    pub(super) const NO: ScopeAnswers = ScopeAnswers {
        tool: Some(false),
        path: Some(false),
    };

    /// Returns the conjunction of the answers.
    pub(super) fn both(self) -> Option<bool> {
        match (self.tool, self.path) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }
}

impl PendingMatches {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.matches.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RecordedMatch> {
        self.matches.iter().map(|pending| &pending.record)
    }

    /// Returns the matches of a rule.
    pub(super) fn of_rule(&self, rule: RuleId) -> impl Iterator<Item = &RecordedMatch> {
        self.matches[self.range(rule)]
            .iter()
            .map(|pending| &pending.record)
    }

    /// Takes all matches out, in their order.
    pub(super) fn take(&mut self) -> impl Iterator<Item = RecordedMatch> + use<> {
        std::mem::take(&mut self.matches)
            .into_iter()
            .map(|pending| pending.record)
    }

    /// Adds a match. Returns one that counts at once, because too many wait that are decided otherwise.
    pub(super) fn add(
        &mut self,
        program: &Program,
        record: RecordedMatch,
        class: ScopeClass,
        state: &mut StreamState,
    ) -> Option<RecordedMatch> {
        let rule = record.hit.rule;
        let compound = program.compound(rule);
        let is_first_enough = !compound.is_some_and(CompoundCondition::uses_every_match);
        self.insert(ScopedMatch { record, class }, is_first_enough);
        let is_unlimited = compound.is_some_and(CompoundCondition::reports_every);
        let range = self.range(rule);
        if is_unlimited || range.len() <= PENDING_MATCHES {
            return None;
        }
        let is_alike = |a: usize, b: usize| self.matches[a].class == self.matches[b].class;
        let Some((kept, merged)) = last_alike(range.clone(), is_alike) else {
            state.counters.unconfirmed += 1;
            return Some(self.matches.remove(range.end - 1).record);
        };
        let merged = self.matches.remove(merged).record;
        let redacts = compound.is_some_and(|it| it.redacts);
        self.matches[kept].record.merge(merged, redacts);
        None
    }

    /// Inserts a match at its place. If the first match of a rule is enough, only the first one of each class is kept.
    fn insert(&mut self, mut added: ScopedMatch, is_first_enough: bool) {
        let range = self.range(added.record.hit.rule);
        let of_rule = &mut self.matches[range.clone()];
        let mut of_class = of_rule
            .iter_mut()
            .filter(|known| known.class == added.class);
        if is_first_enough {
            if let Some(known) = of_class.next() {
                if added.key() < known.key() {
                    *known = added;
                    self.matches[range].sort_by_key(ScopedMatch::key);
                }
                return;
            }
        } else if let Some(last) = of_class.next_back()
            && last.key() < added.key()
        {
            // Merged matches come after those that are kept, so the last one stands for them.
            added.record.take_merged(&mut last.record);
        }
        let key = added.key();
        let index = of_rule.partition_point(|known| known.key() <= key);
        self.matches.insert(range.start + index, added);
    }

    /// Returns the indices of the matches of a rule.
    fn range(&self, rule: RuleId) -> Range<usize> {
        let before = |until: fn(RuleId, RuleId) -> bool| {
            self.matches
                .partition_point(|known| until(known.record.hit.rule, rule))
        };
        before(|known, rule| known < rule)..before(|known, rule| known <= rule)
    }
}

/// Returns the last index of the range at which there is something alike to that at an index before it, and the greatest such
/// index before it, which comes first.
pub(super) fn last_alike(
    range: Range<usize>,
    is_alike: impl Fn(usize, usize) -> bool,
) -> Option<(usize, usize)> {
    range.clone().rev().find_map(|index| {
        let mut before = (range.start..index).rev();
        Some((before.find(|before| is_alike(*before, index))?, index))
    })
}

impl ScopedMatch {
    fn key(&self) -> (u64, u64, Option<u64>) {
        let hit = self.record.hit;
        (hit.decided, hit.end, self.record.start)
    }
}
