//! The state of a session between its requests.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use ttsr::{Conversation, Pack, Snapshot};

use super::read::ModelRequest;

/// The maximum number of hashes of judged texts kept for a session; the oldest are dropped.
const MAX_JUDGED: usize = 128;

/// The maximum number of changed parts kept for a session, and of their bytes; the oldest are dropped.
const MAX_CHANGES: usize = 256;
const MAX_CHANGE_BYTES: usize = 256 << 10;

/// The maximum number of withheld parts kept for a session. If there are more, all texts of its requests are judged.
const MAX_WITHHELD: usize = 256;

/// The maximum number of ends of requests kept for a session; the oldest are dropped.
const MAX_ENDS: usize = 16;

/// The maximum number of requests of a session whose complete replies are known; the oldest are dropped.
const MAX_ANSWERED: usize = 16;

/// The hash of a text of the user or of a tool, and of all such texts before it: the first 16 bytes of SHA-256, in
/// hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct PartHash(u128);

impl PartHash {
    /// Extends the hash chain by `texts`.
    pub(crate) fn extend<'t>(self, texts: impl IntoIterator<Item = &'t str>) -> PartHash {
        let mut context = Context::new(&SHA256);
        context.update(&self.0.to_be_bytes());
        for text in texts {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        }
        let mut first = [0; 16];
        first.copy_from_slice(&context.finish().as_ref()[..16]);
        PartHash(u128::from_be_bytes(first))
    }
}

impl fmt::Display for PartHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl From<PartHash> for String {
    fn from(hash: PartHash) -> String {
        hash.to_string()
    }
}

impl TryFrom<String> for PartHash {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<PartHash, Self::Error> {
        u128::from_str_radix(&text, 16).map(PartHash)
    }
}

/// The changes of rules to one part of a request, which are reapplied whenever a client replays the part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartChanges {
    at: PartHash,
    /// Text before and after a text of the part, with the index of that text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    additions: Vec<(usize, Vec<String>, Vec<String>)>,
    /// The guidance after the part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) guidance: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    withheld: Option<WithheldText>,
}

/// A part that a rule keeps from the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WithheldText {
    reason: String,
    /// The last part of the request that was refused because of it.
    refused_at: PartHash,
    /// The part alone: it is withheld also if the history before it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<PartHash>,
    /// The texts of the part at which a rule aborts, each alone: a client may send them in other messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    texts: Vec<PartHash>,
}

/// The end of a request that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestEnd {
    /// The last part, with all before it.
    at: PartHash,
    /// The last part, with few before it.
    window: PartHash,
}

impl PartChanges {
    pub(crate) fn new(at: PartHash) -> PartChanges {
        PartChanges {
            at,
            additions: Vec::new(),
            guidance: Vec::new(),
            withheld: None,
        }
    }

    pub(crate) fn add(&mut self, index: usize, before: Vec<String>, after: Vec<String>) {
        if !before.is_empty() || !after.is_empty() {
            self.additions.push((index, before, after));
        }
    }

    pub(crate) fn withhold(
        &mut self,
        reason: String,
        refused_at: PartHash,
        part: Option<PartHash>,
        texts: Vec<PartHash>,
    ) {
        self.additions.clear();
        self.withheld = Some(WithheldText {
            reason,
            refused_at,
            part,
            texts,
        });
    }

    /// Adds the changes that were made to the same part before. What was withheld stays withheld.
    fn add_earlier(&mut self, earlier: PartChanges) {
        self.withheld = self.withheld.take().or(earlier.withheld);
        if self.withheld.is_some() {
            self.additions.clear();
        } else if self.additions.is_empty() {
            self.additions = earlier.additions;
        }
        let later = std::mem::replace(&mut self.guidance, earlier.guidance);
        self.guidance.extend(later);
    }

    /// Drops what may be forgotten. Returns true if nothing is left.
    fn forget(&mut self) -> bool {
        self.additions.clear();
        self.guidance.clear();
        self.is_empty()
    }

    /// Returns the edited text, or `None` if it is unchanged.
    pub(crate) fn edited(&self, index: usize, text: &str) -> Option<String> {
        if let Some(withheld) = &self.withheld {
            return Some(withheld.reason.clone());
        }
        let found = self.additions.iter().find(|(at, _, _)| *at == index);
        let (_, before, after) = found?;
        let before = before.iter().map(String::as_str);
        let after = after.iter().map(String::as_str);
        let pieces: Vec<&str> = before.chain([text]).chain(after).collect();
        Some(pieces.join("\n\n"))
    }

    fn is_empty(&self) -> bool {
        self.additions.is_empty() && self.guidance.is_empty() && self.withheld.is_none()
    }

    /// Returns the number of bytes of its texts in the state of a session.
    fn len(&self) -> usize {
        let additions = self.additions.iter();
        let texts = additions.flat_map(|(_, before, after)| before.iter().chain(after));
        texts.chain(&self.guidance).map(|it| json_len(it)).sum()
    }
}

/// Returns the number of bytes of a text in JSON.
fn json_len(text: &str) -> usize {
    let len = |byte| match byte {
        b'"' | b'\\' => 2,
        ..b' ' => 6,
        _ => 1,
    };
    text.bytes().map(len).sum()
}

/// The state of a session between its requests. It has hashes of the texts of requests, not the texts, and the messages
/// of rules, which may quote a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SessionMemory {
    /// The state of rules; `None` before the first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<Snapshot>,
    /// The parts that were judged, the latest last.
    judged: VecDeque<PartHash>,
    /// The ends of the last requests, the latest last.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    ends: VecDeque<RequestEnd>,
    /// The changes to parts, the latest last.
    placed: VecDeque<PartChanges>,
    /// The last part of the request whose reply produced the pending guidance.
    #[serde(skip_serializing_if = "Option::is_none")]
    guidance_at: Option<PartHash>,
    /// The number of later requests that do not extend that one.
    #[serde(skip_serializing_if = "is_zero")]
    passed_over: u32,
    /// The last parts of requests whose replies were complete, the latest last.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    answered: VecDeque<PartHash>,
    /// True if a part was withheld that is not known any more.
    #[serde(skip_serializing_if = "is_false")]
    has_lost: bool,
    /// The state of rules that the request in progress began with, if it is not `rules`.
    #[serde(skip)]
    base: Option<Snapshot>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The result of a reply for its session.
#[derive(Clone, Debug)]
pub(crate) struct ReplyEffect {
    /// The state of rules before the reply and after it.
    pub(crate) base: Snapshot,
    pub(crate) fork: Snapshot,
    /// The last part of its request.
    pub(crate) anchor: Option<PartHash>,
    /// The guidance that the request carried and that the model received.
    pub(crate) delivered: Vec<String>,
    /// True if the reply has its end, and no rule stopped it.
    pub(crate) is_complete: bool,
}

impl SessionMemory {
    /// Returns the conversation of the next request, without the pending guidance if the request does not take it.
    pub(super) fn conversation(&mut self, pack: &Pack, takes_guidance: bool) -> Conversation {
        let Some(rules) = &self.rules else {
            return Conversation::new(pack);
        };
        let is_whole = takes_guidance || !rules.has_guidance();
        self.base = (!is_whole).then(|| rules.without_guidance());
        // Rules that have changed since are reset.
        Conversation::restore(pack, self.base.as_ref().unwrap_or(rules)).0
    }

    /// Records the state of a conversation that [`conversation`](Self::conversation) returned, and returns that state.
    pub(super) fn record_conversation(
        &mut self,
        conversation: &Conversation,
        anchor: Option<PartHash>,
    ) -> Snapshot {
        let fork = conversation.snapshot();
        match (&mut self.rules, self.base.take()) {
            (Some(rules), Some(base)) => rules.merge(&base, &fork),
            (rules, _) => *rules = Some(fork.clone()),
        }
        self.mark_guidance(anchor);
        fork
    }

    fn mark_guidance(&mut self, anchor: Option<PartHash>) {
        let waits = self.rules.as_ref().is_some_and(Snapshot::has_guidance);
        if !waits {
            (self.guidance_at, self.passed_over) = (None, 0);
        } else if self.guidance_at.is_none() {
            self.guidance_at = anchor;
        }
    }

    /// Returns true if a request takes the pending guidance: one that continues the conversation in which it was decided,
    /// or any one after `patience` others. Clients send other requests in a session, such as for a title.
    pub(super) fn takes_guidance(&mut self, chain: &[Option<PartHash>], patience: u32) -> bool {
        let Some(at) = self.guidance_at else {
            return true;
        };
        self.passed_over = self.passed_over.saturating_add(1);
        chain.contains(&Some(at)) || self.passed_over > patience
    }

    #[cfg(test)]
    pub(super) fn judged_len(&self) -> usize {
        self.judged.len()
    }

    /// Returns the index of the first part that is new: after the last one that was judged before, else after the last
    /// message of the assistant. If a client has changed the history, such as to make it shorter, the parts after the
    /// change are known by the end of an earlier request.
    pub(super) fn first_new(&self, request: &ModelRequest, chain: &[Option<PartHash>]) -> usize {
        if self.has_lost {
            return 0;
        }
        let is_judged = |hash: &Option<PartHash>| hash.is_some_and(|it| self.judged.contains(&it));
        let known = chain.iter().rposition(is_judged).map(|last| last + 1);
        let first = known.unwrap_or_else(|| request.trailing());
        let in_chain = |end: &RequestEnd| chain.contains(&Some(end.at));
        let older = self.ends.iter().rposition(in_chain);
        let newer = self.ends.range(older.map_or(0, |older| older + 1)..);
        if newer.len() == 0 || request.continues_history() {
            return first;
        }
        let windows = request.windows();
        // A reply follows the end of an earlier request.
        let unknown = known.unwrap_or(0)..request.last_reply();
        // The first place that fits: to judge a text again does less harm than to miss one.
        let place = |end: &RequestEnd| {
            let mut places = unknown.clone();
            places.find(|index| windows[*index] == Some(end.window))
        };
        let ends = newer.filter_map(place).map(|index| index + 1);
        ends.fold(first, usize::max)
    }

    /// Returns the end of the last request.
    pub(super) fn last_end(&self) -> Option<PartHash> {
        self.ends.back().map(|end| end.at)
    }

    /// Records the end of a request that was judged.
    pub(super) fn record_end(&mut self, at: PartHash, window: PartHash) {
        let end = RequestEnd { at, window };
        self.ends.retain(|known| *known != end);
        self.ends.push_back(end);
        while self.ends.len() > MAX_ENDS {
            self.ends.pop_front();
        }
    }

    /// Returns true if a text of the session is withheld.
    pub(super) fn withholds(&self) -> bool {
        self.placed.iter().any(|placed| placed.withheld.is_some())
    }

    /// Returns the changes to a part that is withheld, whatever was before it.
    pub(super) fn withheld(&self, part: PartHash) -> Option<&PartChanges> {
        let of = |placed: &&PartChanges| {
            placed
                .withheld
                .as_ref()
                .is_some_and(|it| it.part == Some(part))
        };
        self.placed.iter().rev().find(of)
    }

    /// Returns the texts that are withheld, each with the reason.
    pub(super) fn withheld_texts(&self) -> HashMap<PartHash, String> {
        let withheld = self.placed.iter().filter_map(|it| it.withheld.as_ref());
        let texts = withheld.flat_map(|it| it.texts.iter().map(|text| (*text, it.reason.clone())));
        texts.collect()
    }

    /// Records that a part was judged, and the changes to it.
    pub(super) fn remember(&mut self, hash: PartHash, placed: PartChanges) {
        self.judged.retain(|known| *known != hash);
        self.judged.push_back(hash);
        while self.judged.len() > MAX_JUDGED {
            self.judged.pop_front();
        }
        if !placed.is_empty() {
            self.record_change(placed);
        }
    }

    fn record_change(&mut self, mut placed: PartChanges) {
        let earlier = self.placed.iter().position(|it| it.at == placed.at);
        if let Some(earlier) = earlier.and_then(|at| self.placed.remove(at)) {
            placed.add_earlier(earlier);
        }
        self.placed.push_back(placed);
        // Withheld parts are not dropped for others: their texts would be sent.
        let is_kept = |it: &PartChanges| {
            it.withheld.is_some() && it.additions.is_empty() && it.guidance.is_empty()
        };
        let others = self.placed.iter().filter(|it| !is_kept(it));
        let mut count = others.clone().count();
        let mut bytes: usize = others.map(PartChanges::len).sum();
        while count > MAX_CHANGES || bytes > MAX_CHANGE_BYTES {
            let Some(first) = self.placed.iter().position(|it| !is_kept(it)) else {
                break;
            };
            bytes -= self.placed[first].len();
            count -= 1;
            if self.placed[first].forget() {
                self.placed.remove(first);
            }
        }
        let is_withheld = |it: &PartChanges| it.withheld.is_some();
        if self.placed.iter().filter(|it| is_withheld(it)).count() > MAX_WITHHELD {
            let oldest = self.placed.iter().position(is_withheld);
            oldest.and_then(|oldest| self.placed.remove(oldest));
            self.has_lost = true;
        }
    }

    /// Returns the changes to a part.
    pub(super) fn placed(&self, hash: PartHash) -> Option<&PartChanges> {
        self.placed.iter().find(|placed| placed.at == hash)
    }

    /// Returns the reason why a request was refused that ended with the same part.
    pub(super) fn refused(&self, anchor: PartHash) -> Option<&str> {
        let withheld = self.placed.iter().filter_map(|it| it.withheld.as_ref());
        let mut refused = withheld.filter(|it| it.refused_at == anchor);
        refused.next().map(|it| it.reason.as_str())
    }

    /// Returns true if the last request with that end had a complete reply, once.
    pub(super) fn take_answered(&mut self, anchor: PartHash) -> bool {
        let known = self.answered.iter().position(|known| *known == anchor);
        known.is_some_and(|known| self.answered.remove(known).is_some())
    }

    /// Adds the result of a reply.
    pub(crate) fn end_reply(&mut self, outcome: &ReplyEffect) {
        if let Some(anchor) = outcome.anchor.filter(|_| outcome.is_complete) {
            self.answered.retain(|known| *known != anchor);
            self.answered.push_back(anchor);
            while self.answered.len() > MAX_ANSWERED {
                self.answered.pop_front();
            }
        }
        match &mut self.rules {
            Some(rules) => rules.merge(&outcome.base, &outcome.fork),
            // The session was forgotten meanwhile.
            None => self.rules = Some(outcome.fork.clone()),
        }
        if let (Some(at), false) = (outcome.anchor, outcome.delivered.is_empty()) {
            self.guidance_at = None;
            self.record_change(PartChanges {
                guidance: outcome.delivered.clone(),
                ..PartChanges::new(at)
            });
        }
        if outcome.fork.has_guidance() {
            self.guidance_at = None;
            self.passed_over = 0;
        }
        self.mark_guidance(outcome.anchor);
    }
}
