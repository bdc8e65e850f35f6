//! Counts the actions of every rule, and decides by the counts.
//!
//! A ledger knows rules by their index, and nothing of bytes, streams or packs. A session has two: one for the actions
//! of live rules, one for those that [shadow](crate::Mode::Shadow) rules would have taken.

use serde::{Deserialize, Serialize};

use super::snapshot::added;
use crate::rule::{Action, Repeat, Rule, Severity};
use crate::verdict::{RuleId, RuleMap, Suppression};

/// The counts of all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    /// A rule that never acted has no entry: most rules of most sessions never act, and a session must not pay for each of
    /// them at its start and at each turn.
    counts: RuleMap<ActionCounts>,
}

/// The counts of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ActionCounts {
    /// Actions whose outcome the host has not reported.
    reserved: u32,
    /// Actions that were delivered since guidance was last removed from the context.
    delivered: u32,
    /// Actions in this turn.
    turn: u32,
    /// Actions in this session, which compactions do not reset.
    session: u32,
    /// Retries in this turn.
    retries: u32,
    /// The turn of the last action, from which a cooldown counts.
    latest: Option<u32>,
}

impl ActionCounts {
    /// Adds the actions between `base` and `fork`. Those of a turn that is over are counted as delivered, and not in the
    /// counts of the turn.
    pub(super) fn merge(&mut self, base: ActionCounts, fork: ActionCounts, is_same_turn: bool) {
        if is_same_turn {
            self.reserved = added(self.reserved, base.reserved, fork.reserved);
            self.delivered = added(self.delivered, base.delivered, fork.delivered);
            self.turn = added(self.turn, base.turn, fork.turn);
            self.retries = added(self.retries, base.retries, fork.retries);
        } else {
            let acted = |counts: ActionCounts| counts.reserved.saturating_add(counts.delivered);
            self.delivered = added(self.delivered, acted(base), acted(fork));
        }
        self.session = added(self.session, base.session, fork.session);
        self.latest = self.latest.max(fork.latest);
    }
}

impl Ledger {
    /// Returns the counts of every rule that has acted, by index.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, ActionCounts)> {
        let counts = self.counts.iter();
        counts.map(|(rule, counts)| (rule.index(), *counts))
    }

    /// Sets the counts of the rule at that index.
    pub(super) fn set(&mut self, rule_index: usize, counts: ActionCounts) {
        *self.counts.get_or_default(key(rule_index)) = counts;
    }

    pub(super) fn begin_turn(&mut self) {
        for counts in self.counts.values_mut() {
            counts.turn = 0;
            counts.retries = 0;
            // Without a report by now the action may be in the context, so it counts as delivered. `deliver` and
            // `revert` compare turns to know that it was moved.
            counts.delivered = counts.delivered.saturating_add(counts.reserved);
            counts.reserved = 0;
        }
    }

    /// Returns the action of the rule for a hit now; `can_retry` is false if no rule may retry.
    pub(super) fn action(&self, rule_index: Option<usize>, rule: &Rule, can_retry: bool) -> Action {
        let may_retry = can_retry && self.counts(rule_index).retries < rule.retry.max;
        match rule.action {
            Action::Retry if !may_retry => after_retries(rule),
            action => action,
        }
    }

    /// Returns the reason why the rule may not act now, if there is one.
    pub(super) fn suppression(
        &self,
        rule_index: Option<usize>,
        rule: &Rule,
        turn: u32,
    ) -> Option<Suppression> {
        let counts = self.counts(rule_index);
        let Repeat {
            cooldown_turns,
            per_turn,
            per_session,
        } = rule.repeat.unwrap_or_else(|| repeat_of(rule));
        let is_cool = counts
            .latest
            .zip(cooldown_turns)
            .is_none_or(|(latest, turns)| turn.saturating_sub(latest) >= turns);
        // `repeat` counts what the context contains, so guidance that a compaction removed may be given again. The
        // allowance counts every action: compactions must not raise it.
        let in_context = counts.reserved.saturating_add(counts.delivered);
        if is_spent(counts.turn, rule.allowance.per_turn)
            || is_spent(counts.session, rule.allowance.per_session)
        {
            Some(Suppression::Allowance)
        } else if !is_cool || is_spent(counts.turn, per_turn) || is_spent(in_context, per_session) {
            Some(Suppression::Repeat)
        } else {
            None
        }
    }

    /// Counts an action whose outcome the host has not reported.
    pub(super) fn reserve(&mut self, rule_index: Option<usize>, action: Action, turn: u32) {
        let Some(rule_index) = rule_index else {
            return;
        };
        // At once, not at the report: a second hit before the report must find the bound reached.
        let counts = self.counts.get_or_default(key(rule_index));
        counts.reserved = counts.reserved.saturating_add(1);
        counts.turn = counts.turn.saturating_add(1);
        counts.session = counts.session.saturating_add(1);
        counts.retries += u32::from(action == Action::Retry);
        counts.latest = Some(turn);
    }

    /// Counts an action of turn `acted_in` as delivered; `current` is the current turn. Actions of turns that are over
    /// are counted already.
    pub(super) fn deliver(&mut self, rule_index: Option<usize>, acted_in: u32, current: u32) {
        if let Some(counts) = self.counts_mut(rule_index)
            && acted_in == current
            && counts.reserved > 0
        {
            counts.reserved -= 1;
            counts.delivered = counts.delivered.saturating_add(1);
        }
    }

    /// Reverts an action of turn `acted_in` that was not carried out; `current` is the current turn.
    pub(super) fn revert(
        &mut self,
        rule_index: Option<usize>,
        action: Action,
        acted_in: u32,
        current: u32,
    ) {
        let retries = u32::from(action == Action::Retry && acted_in == current);
        let Some(counts) = self.counts_mut(rule_index) else {
            return;
        };
        if acted_in == current && counts.reserved > 0 {
            counts.reserved -= 1;
        } else {
            // Its turn is over, so `begin_turn` has counted it as delivered.
            counts.delivered = counts.delivered.saturating_sub(1);
        }
        counts.turn = counts.turn.saturating_sub(u32::from(acted_in == current));
        counts.session = counts.session.saturating_sub(1);
        counts.retries = counts.retries.saturating_sub(retries);
        if counts.latest == Some(acted_in) {
            // Earlier actions do not matter: the rule had cooled down by then, or has no cooldown.
            counts.latest = None;
        }
    }

    /// Lets the rule act again because its messages were removed from the context. Actions that are not delivered yet
    /// still count, and so does the allowance.
    pub(super) fn rearm(&mut self, rule_index: usize) {
        if let Some(counts) = self.counts.get_mut(key(rule_index)) {
            counts.delivered = 0;
            if counts.reserved == 0 {
                counts.latest = None;
            }
        }
    }

    /// Returns the counts of the rule at that index.
    pub(super) fn counts(&self, rule_index: Option<usize>) -> ActionCounts {
        let counts = rule_index.and_then(|rule_index| self.counts.get(key(rule_index)));
        counts.copied().unwrap_or_default()
    }

    fn counts_mut(&mut self, rule_index: Option<usize>) -> Option<&mut ActionCounts> {
        self.counts.get_mut(key(rule_index?))
    }
}

fn key(rule_index: usize) -> RuleId {
    RuleId(u32::try_from(rule_index).expect("packs are limited far below 2^32 rules"))
}

fn is_spent(count: u32, bound: Option<u32>) -> bool {
    bound.is_some_and(|bound| count >= bound)
}

/// Returns the bounds of a rule without `repeat`: a guard acts every time, guidance once. Retries have a separate bound,
/// and actions on whole texts apply to each text.
fn repeat_of(rule: &Rule) -> Repeat {
    let is_guidance = matches!(
        rule.action,
        Action::Observe | Action::Warn | Action::Inject | Action::Handoff
    );
    let once = is_guidance && rule.severity != Severity::Critical;
    Repeat {
        per_session: once.then_some(1),
        ..Repeat::default()
    }
}

/// Returns the action of a rule whose retries are spent: its `then`, else `abort` if it is critical, else `warn`. Never
/// another retry.
fn after_retries(rule: &Rule) -> Action {
    let then = rule.retry.then.filter(|then| *then != Action::Retry);
    then.unwrap_or(match rule.severity {
        Severity::Critical => Action::Abort,
        _ => Action::Warn,
    })
}
