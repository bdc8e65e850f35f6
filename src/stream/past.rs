//! What earlier replies of a session leave to later ones, for rules that look beyond one reply.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::detect::doom_loop::CallHistory;
use crate::detect::turns::ReplyHistory;
use crate::rule::Channel;
use crate::verdict::RuleId;

/// What is remembered of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Past {
    /// Matches in this turn, and in the session.
    pub(crate) turn: u64,
    pub(crate) session: u64,
    /// The last tool calls.
    pub(crate) calls: CallHistory,
    /// What is kept of the last replies, by channel.
    #[serde(default)]
    pub(crate) turns: BTreeMap<Channel, ReplyHistory>,
}

/// By rule; rules that look at one reply only have no entry.
pub(crate) type Pasts = BTreeMap<RuleId, Past>;
