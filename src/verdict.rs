//! Hits, decisions and verdicts: ids and numbers, and the one pure function that ranks several hits.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::rule::{Action, Rule};

/// The number of one block of a reply, chosen by the host. Any number is allowed; parts are not indexed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartId(pub u32);

/// The id of a rule in one pack: its index in [`Pack::rules`](crate::Pack::rules). Another pack gives other ids; see
/// [`Session::rule_id`](crate::session::Session::rule_id).
///
/// # Example: the rule behind an id
/// ```
/// use ttsr::{Pack, Pattern, Rule};
/// let pack = Pack::builder().rule(Rule::new("demo/no-todo", vec![Pattern::literal("TODO")])).build()?;
/// let id = pack.find("demo/no-todo").unwrap();
/// assert_eq!(pack.rules()[id.index()].id, "demo/no-todo");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RuleId(pub(crate) u32);

impl RuleId {
    /// Returns the index of the rule in [`Pack::rules`](crate::Pack::rules).
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The condition of a rule became true. It consists of ids and offsets; text is returned by
/// [`Stream::excerpt`](crate::Stream::excerpt).
///
/// Both offsets count bytes of the part *as delivered*, also where the rule saw decoded text. A rule hits
/// at most once in a part: later matches there are not reported.
///
/// # Example: offsets of an escaped match
/// ```
/// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
/// let rule = Rule::new("demo/no-rm", vec![Pattern::literal("rm -rf")]);
/// let pack = Pack::builder().rule(rule).build()?;
/// let mut stream = pack.stream();
/// stream.open(PartId(0), Channel::ToolInput);
/// let hit = stream.push(PartId(0), br#"{"command": "rm \u002drf /"}"#)[0];
/// assert_eq!((hit.end, hit.decided), (24, 24), "the escape is six bytes");
/// assert_eq!(stream.matched(&hit), "rm -rf");
/// assert_eq!(pack.rules()[hit.rule.index()].id, "demo/no-rm");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[must_use]
#[non_exhaustive]
pub struct Hit {
    /// The end of the match, in bytes.
    pub end: u64,
    /// Number of bytes of the part delivered when the hit became certain: `decided >= end`. A match of a rule that
    /// needs full matches is certain when no match of the rule is in progress.
    pub decided: u64,
    /// The part it was found in.
    pub part: PartId,
    /// The rule that was broken.
    pub rule: RuleId,
}

impl Hit {
    /// Returns true if the hit became certain after `decided`, or at `decided` and ends after `end`.
    pub(crate) fn is_after(&self, end: u64, decided: u64) -> bool {
        (self.decided, self.end) > (decided, end)
    }
}

/// The cause of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A rule was broken.
    Rule(Hit),
    /// A bound of [`Limits`](crate::Limits) was reached while a part was read.
    Limit {
        /// The bound, by its name in [`Limits`](crate::Limits).
        name: &'static str,
        /// The part concerned.
        part: PartId,
        /// Number of bytes of the part delivered then.
        decided: u64,
    },
}

impl Source {
    /// Returns the name used in every output: `rule` or `limit`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Rule(_) => "rule",
            Source::Limit { .. } => "limit",
        }
    }

    /// Returns the message of a decision of a limit; empty for a rule, which has its own.
    pub(crate) fn limit_message(self) -> String {
        match self {
            Source::Rule(_) => String::new(),
            Source::Limit {
                name,
                part,
                decided,
            } => format!(
                "the reply reached the limit `{name}` in part {} after {decided} bytes",
                part.0
            ),
        }
    }
}

/// An action for the host, and its cause.
///
/// # Example: the cause of a decision
/// ```
/// use ttsr::{Pack, PartId, Pattern, Rule, Verdict};
/// let pack = Pack::builder().rule(Rule::new("demo/no-todo", vec![Pattern::literal("TODO")])).build()?;
/// let mut session = pack.session();
/// let mut stream = session.stream();
/// let verdict = session.push(&mut stream, PartId(5), b"// TODO: more");
/// let Verdict::Act(decision) = verdict else { panic!("the rule is broken") };
/// assert_eq!(decision.rule(), pack.find("demo/no-todo"));
/// assert_eq!((decision.part(), decision.decided()), (PartId(5), 7));
/// assert_eq!(decision.hit().map(|hit| hit.end), Some(7));
/// assert!(!decision.is_suppressed());
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[must_use]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// The hit or the limit that caused it.
    pub source: Source,
    /// The attempt it was made in, counted from 1 within a turn; 0 before the first one.
    pub attempt: u32,
    /// The turn it was made in, counted from 1; 0 before the first one.
    pub turn: u32,
    /// The reason why the policy suppresses the action, if it does: then there is nothing to do but to log it.
    pub suppression: Option<Suppression>,
    /// The number of packs that the session had before the one that the rule's id belongs to.
    #[serde(skip)]
    pub(crate) generation: u32,
}

/// The reason why a decision is not acted on.
///
/// # Example: more often than a rule may act
/// ```
/// use ttsr::{Action, Pack, PartId, Pattern, Rule, Suppression};
/// let mut rule = Rule::new("demo/no-todo", vec![Pattern::literal("TODO")]);
/// rule.action = Action::Warn;
/// rule.allowance.per_turn = Some(1);
/// let mut session = Pack::builder().rule(rule).build()?.session();
/// let mut stream = session.stream();
/// let mut why = |part: PartId| {
///     let _verdict = session.push(&mut stream, part, b"// TODO");
///     session.decisions()[0].suppression
/// };
/// assert_eq!(why(PartId(0)), None);
/// assert_eq!(why(PartId(1)).map(Suppression::name), Some("allowance"));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Suppression {
    /// The stream was cut by then.
    Cut,
    /// The rule, or the session, is in [shadow](crate::Mode::Shadow): it would have been acted on.
    Shadow,
    /// The rule acted as often as its [`repeat`](crate::Rule::repeat) lets it.
    Repeat,
    /// The rule has spent its [`allowance`](crate::Rule::allowance).
    Allowance,
}

impl Suppression {
    /// Returns the name used in every output: `cut`, `shadow`, `repeat` or `allowance`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Suppression::Cut => "cut",
            Suppression::Shadow => "shadow",
            Suppression::Repeat => "repeat",
            Suppression::Allowance => "allowance",
        }
    }
}

impl Decision {
    /// Returns true if the policy suppresses the action.
    #[must_use]
    pub fn is_suppressed(&self) -> bool {
        self.suppression.is_some()
    }

    /// Returns the hit that caused it, unless a limit did.
    #[must_use]
    pub fn hit(&self) -> Option<Hit> {
        match self.source {
            Source::Rule(hit) => Some(hit),
            Source::Limit { .. } => None,
        }
    }

    /// Returns the rule that was broken, unless a limit caused it.
    #[must_use]
    pub fn rule(&self) -> Option<RuleId> {
        self.hit().map(|hit| hit.rule)
    }

    /// Returns the part it was decided in.
    #[must_use]
    pub fn part(&self) -> PartId {
        match self.source {
            Source::Rule(hit) => hit.part,
            Source::Limit { part, .. } => part,
        }
    }

    /// Returns the number of bytes of the part delivered when it was decided.
    #[must_use]
    pub fn decided(&self) -> u64 {
        match self.source {
            Source::Rule(hit) => hit.decided,
            Source::Limit { decided, .. } => decided,
        }
    }
}

/// The result of reading a delta: nothing to do, or one decision.
///
/// # Example: a reply that is cut
/// ```
/// use ttsr::{Action, Pack, PartId, Pattern, Rule, Verdict};
/// let mut rule = Rule::new("demo/no-any", vec![Pattern::literal(": any")]);
/// rule.action = Action::Abort;
/// let mut session = Pack::builder().rule(rule).build()?.session();
/// let mut stream = session.stream();
/// let mut shown = Vec::new();
/// for delta in ["let x", ": any", " = 1;"] {
///     match session.push(&mut stream, PartId(0), delta.as_bytes()) {
///         Verdict::Act(decision) if decision.action.cuts() => break,
///         _ => shown.push(delta),
///     }
/// }
/// assert_eq!(shown, ["let x"]);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[must_use]
pub enum Verdict {
    /// Forward the delta.
    Continue,
    /// Act on the decision; if its action [cuts](Action::cuts), before the delta is forwarded.
    Act(Decision),
}

impl Verdict {
    /// Returns the name used in every output: `continue` or `act`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Continue => "continue",
            Verdict::Act(_) => "act",
        }
    }
}

/// Values of some of the rules of a pack, by rule.
// Sorted, and not a tree: there are few, most often none, and a conversation makes and drops several of these for each reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleMap<V>(Vec<(RuleId, V)>);

impl<V> Default for RuleMap<V> {
    fn default() -> RuleMap<V> {
        RuleMap(Vec::new())
    }
}

impl<V> RuleMap<V> {
    pub(crate) fn get(&self, rule: RuleId) -> Option<&V> {
        self.position(rule).ok().map(|index| &self.0[index].1)
    }

    pub(crate) fn get_mut(&mut self, rule: RuleId) -> Option<&mut V> {
        let index = self.position(rule).ok()?;
        Some(&mut self.0[index].1)
    }

    /// Returns the value of a rule, which is the default if there was none.
    pub(crate) fn get_or_default(&mut self, rule: RuleId) -> &mut V
    where
        V: Default,
    {
        let index = self.position(rule).unwrap_or_else(|index| {
            self.0.insert(index, (rule, V::default()));
            index
        });
        &mut self.0[index].1
    }

    /// Returns the rules and their values, in the order of the rules.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RuleId, &V)> {
        self.0.iter().map(|(rule, value)| (*rule, value))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Returns the values by the rules that `renamed` returns, without those for which it returns `None`. It returns no rule
    /// twice.
    pub(crate) fn renamed(mut self, renamed: impl Fn(RuleId) -> Option<RuleId>) -> RuleMap<V> {
        self.0.retain_mut(|(rule, _)| {
            let new = renamed(*rule);
            *rule = new.unwrap_or(*rule);
            new.is_some()
        });
        self.0.sort_unstable_by_key(|(rule, _)| *rule);
        self
    }

    fn position(&self, rule: RuleId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&rule, |(known, _)| *known)
    }
}

/// Compares hits that became certain at the same byte: the stronger action first, then the higher
/// priority, then the worse severity, then the full rule id.
pub(crate) fn rank(a: (Action, &Rule), b: (Action, &Rule)) -> Ordering {
    let key = |(action, rule): (Action, &Rule)| (action, rule.priority, rule.severity);
    key(b).cmp(&key(a)).then_with(|| a.1.id.cmp(&b.1.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_rules_are_found_in_any_order_and_under_new_ids() {
        let mut map = RuleMap::default();
        for rule in [7, 2, 9, 2] {
            *map.get_or_default(RuleId(rule)) += rule;
        }
        assert_eq!((map.get(RuleId(2)), map.get(RuleId(3))), (Some(&4), None));
        map.values_mut().for_each(|value| *value += 1);
        *map.get_mut(RuleId(9)).unwrap() = 0;
        let known = |map: &RuleMap<u32>| -> Vec<(u32, u32)> {
            map.iter().map(|(rule, value)| (rule.0, *value)).collect()
        };
        assert_eq!(known(&map), [(2, 5), (7, 8), (9, 0)]);
        let renamed = map.renamed(|rule| (rule.0 != 7).then_some(RuleId(10 - rule.0)));
        assert_eq!(known(&renamed), [(1, 0), (8, 5)]);
        assert_eq!(renamed.get(RuleId(8)), Some(&5));
    }

    #[test]
    fn a_hit_is_after_another_that_is_certain_sooner_or_ends_sooner_and_not_after_itself() {
        let hit = Hit {
            end: 4,
            decided: 6,
            part: PartId(0),
            rule: RuleId(0),
        };
        let after = [(4, 5), (9, 5), (3, 6)];
        assert!(
            after
                .iter()
                .all(|&(end, decided)| hit.is_after(end, decided))
        );
        let not = [(4, 6), (5, 6), (1, 7)];
        assert!(!not.iter().any(|&(end, decided)| hit.is_after(end, decided)));
    }
}
