//! The text that waits before it is released, by the rules of a pack.

use crate::rule::{Action, Channel, Mode, Partial, Rule};

/// The way in which the text of each channel is released, under the rules of one pack. It is computed once for
/// each pack, because every attempt starts with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleasePlan {
    /// In the order of [`Channel::ALL`]: true if a live rule holds or redacts text there. Besides the streamed channels a
    /// reply may have output of tools that the provider has run.
    holds: [bool; Channel::ALL.len()],
    /// True if a live rule redacts tool input.
    pub(crate) redacts_input: bool,
    /// True if tool input waits until its call is complete, because a live rule may cut or review the call.
    pub(crate) gates_input: bool,
    /// True if a live rule retries and keeps text of the reply.
    pub(crate) keeps_text: bool,
}

impl ReleasePlan {
    /// Returns the plan for these rules in [`Mode::Live`].
    pub(crate) fn new(rules: &[Rule]) -> ReleasePlan {
        let mut plan = ReleasePlan::default();
        for rule in rules.iter().filter(|rule| rule.mode == Mode::Live) {
            for &channel in rule.on.iter().filter(|_| rule.holds()) {
                plan.holds[channel as usize] = true;
            }
            let reads_input = rule.on.contains(&Channel::ToolInput);
            plan.redacts_input |= reads_input && rule.action == Action::Redact;
            plan.gates_input |=
                reads_input && (rule.action.cuts() || rule.action == Action::Consult);
            plan.keeps_text |= rule.action == Action::Retry && rule.partial != Partial::Discard;
        }
        plan
    }

    /// Returns true if text of some part may wait before it leaves.
    #[cfg(feature = "harness")]
    pub(crate) fn delays_text(&self) -> bool {
        self.gates_input || Channel::STREAMED.iter().any(|&channel| self.holds(channel))
    }

    /// Returns true if a rule holds the text of the channel back.
    pub(crate) fn holds(&self, channel: Channel) -> bool {
        self.holds[channel as usize]
    }
}
