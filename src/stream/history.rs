//! The history of a rule: what the earlier replies of a session leave to the later ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rule::Channel;
use crate::verdict::RuleMap;
use ttsr_views::detect::doom_loop::CallHistory;
use ttsr_views::detect::turns::ReplyHistory;

/// The history of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleHistory {
    /// Number of matches in this turn.
    pub(crate) turn: u64,
    /// Number of matches in the session.
    pub(crate) session: u64,
    /// The last tool calls.
    pub(crate) calls: CallHistory,
    /// The digests of the last replies, by channel.
    #[serde(default)]
    pub(crate) turns: BTreeMap<Channel, ReplyHistory>,
}

/// The histories by rule. Rules that read a single reply have none.
pub(crate) type RuleHistories = RuleMap<RuleHistory>;
