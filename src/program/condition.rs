//! Compound conditions: conditions that need more than a match of one pattern.

use std::sync::Arc;

use super::scope::AllowEntry;
use crate::rule::{Action, Count, Rule, Within};

/// The matches of a rule that a stream reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchMode {
    /// Reports a rule at most once per part, as soon as the hit is certain. Patterns are compiled for first ends where
    /// that is enough.
    First,
    /// Reports every match. All patterns are compiled for full matches.
    Every,
}

/// The role of a pattern in the condition of its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PatternRole {
    /// One of the alternatives of `any`.
    Any,
    /// The pattern of `all` with this index.
    All(u32),
    /// The pattern of `sequence` with this index.
    Sequence(u32),
    /// An exception.
    None,
}

/// The text that a condition is decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionExtent {
    Haystack,
    Part,
    Message,
}

/// A condition that needs more than a match of one pattern, or a rule that needs more than its first match.
#[derive(Debug)]
pub(crate) struct CompoundCondition {
    /// Number of patterns in `all`.
    pub(crate) all: usize,
    /// Number of patterns in `sequence`.
    pub(crate) sequence: usize,
    pub(crate) has_none: bool,
    /// The largest distance between the matches of its patterns.
    pub(crate) within: Within,
    pub(crate) first: Option<u32>,
    pub(crate) last: Option<u32>,
    pub(crate) count: Option<Count>,
    pub(crate) redacts: bool,
    /// True if an allow entry of the rule has globs on the matched text.
    is_allowed_by_text: bool,
    mode: MatchMode,
}

impl CompoundCondition {
    /// Returns the compound condition of `rule`, which has these allow entries, if it has one and `mode` is [`MatchMode::First`]; always returns one if
    /// `mode` is [`MatchMode::Every`].
    pub(crate) fn from_rule(
        rule: &Rule,
        allows: &[Arc<AllowEntry>],
        mode: MatchMode,
    ) -> Option<Box<CompoundCondition>> {
        let condition = &rule.condition;
        // An entry with globs on the text may reject the first match, so the rule needs the later ones too.
        let is_allowed_by_text = allows.iter().any(|entry| entry.text.is_some());
        let is_plain = mode == MatchMode::First
            && condition.all.is_empty()
            && condition.sequence.is_empty()
            && condition.none.is_empty()
            && condition.first.is_none()
            && condition.last.is_none()
            && !condition.line
            && condition.count.is_none()
            && condition.capture.is_none()
            && !is_allowed_by_text
            && !rule.holds();
        if is_plain {
            return None;
        }
        let has_several = !condition.all.is_empty() || !condition.sequence.is_empty();
        let default_within = match has_several {
            true => Within::Part,
            false => Within::Lines(1),
        };
        Some(Box::new(CompoundCondition {
            all: condition.all.len(),
            sequence: condition.sequence.len(),
            has_none: !condition.none.is_empty(),
            within: condition.within.unwrap_or(default_within),
            first: condition.first,
            last: condition.last,
            count: condition.count,
            redacts: rule.action == Action::Redact,
            is_allowed_by_text,
            mode,
        }))
    }

    /// Returns the text that the condition is decided on.
    pub(crate) fn extent(&self) -> ConditionExtent {
        match self.within {
            Within::Part => ConditionExtent::Part,
            Within::Message => ConditionExtent::Message,
            Within::Lines(_) | Within::Chars(_) => ConditionExtent::Haystack,
        }
    }

    /// Returns true if positions in lines or characters decide the condition.
    pub(crate) fn compares_positions(&self) -> bool {
        let has_several = self.all > 0 || self.sequence > 0 || self.has_none;
        has_several || self.first.is_some() || self.last.is_some()
    }

    /// Returns true if each match is reported, not only the first of a part.
    pub(crate) fn reports_every(&self) -> bool {
        self.mode == MatchMode::Every
    }

    /// Returns true if the rule needs more than its first match in a part.
    pub(crate) fn needs_every_match(&self) -> bool {
        self.uses_every_match() || self.is_allowed_by_text
    }

    /// Returns true if the rule does something with each match that counts, not only with the first of a part.
    pub(crate) fn uses_every_match(&self) -> bool {
        self.redacts || self.count.is_some() || self.reports_every()
    }
}
