//! Guidance that waits for the request that carries it to the model.

use crate::rule::Action;
use crate::verdict::RuleId;

/// The message of one decision, kept from the decision to the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingGuidance {
    /// The full id of the rule.
    pub(crate) rule: String,
    /// The rule in the pack of that `generation`; `None` if a snapshot named a rule that its pack does not have.
    pub(crate) id: Option<RuleId>,
    /// The pack generation in which the decision was made.
    pub(crate) generation: u32,
    /// The action of the decision.
    pub(crate) action: Action,
    /// The turn of the decision.
    pub(crate) turn: u32,
    /// The message; empty if the rule has nothing to say.
    pub(crate) text: String,
}
