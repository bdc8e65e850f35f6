//! The rule language as data, for tools that show, write or format rule files.
//!
//! Everything here is derived from the table of keys that the loader itself reads.

use super::check::draft::Draft;
use super::schema::{self, RULE, Shape, TOP, TableKind, shapes};
use crate::rule::Rule;

pub use super::schema::KeyValue;

/// A key of a rule with the value that it has in one rule.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RuleKey {
    /// The name of the key, such as `retry`.
    pub name: &'static str,
    /// The value, with defaults, lists and overrides applied.
    pub value: KeyValue,
    /// True if the key changes the rule: its value differs from that of a rule that does not set the key, and the
    /// rule's action uses it.
    pub has_effect: bool,
}

/// Returns every key of `rule`, in the canonical order.
///
/// # Example: the keys that make a rule what it is
/// ```
/// use ttsr::pack::language::{KeyValue, rule_keys};
/// use ttsr::{Pattern, Rule};
/// let mut rule = Rule::new("demo/no-todo", vec![Pattern::word("TODO")]);
/// rule.priority = 2;
/// let keys = rule_keys(&rule);
/// let names: Vec<&str> = keys.iter().filter(|key| key.has_effect).map(|key| key.name).collect();
/// assert_eq!(names, ["priority", "match"]);
/// let priority = keys.iter().find(|key| key.name == "priority").unwrap();
/// assert_eq!(priority.value, KeyValue::Whole(2));
/// ```
#[must_use]
pub fn rule_keys(rule: &Rule) -> Vec<RuleKey> {
    let unset = Draft::from_rule(Rule::new("", Vec::new()));
    let draft = Draft::from_rule(rule.clone());
    let unset = schema::values(RULE, &unset).into_iter();
    let keys = schema::values(RULE, &draft).into_iter();
    let keys = keys.zip(unset);
    keys.map(|((name, value), (_, unset))| RuleKey {
        name,
        has_effect: value != unset && is_used(name, rule),
        value,
    })
    .collect()
}

/// Returns true if the rule's action uses the key.
fn is_used(name: &str, rule: &Rule) -> bool {
    let row = RULE.iter().find(|key| key.head.name() == name);
    let for_action = row.and_then(|key| key.head.action);
    for_action.is_none_or(|for_action| for_action == rule.action)
}

/// Returns the keys of the table at `path` of a rule file, in the canonical order. The result is empty if the author
/// chooses the keys of the table, or if there is no such table.
///
/// # Example: the order of `ttsr fmt`
/// ```
/// use ttsr::pack::language::key_order;
/// assert_eq!(key_order(&["rule", "no-todo", "examples"]), ["match", "no-match"]);
/// assert_eq!(key_order(&["pack"])[..2], ["name", "version"]);
/// assert!(key_order(&["rule"]).is_empty());
/// ```
#[must_use]
pub fn key_order(path: &[&str]) -> Vec<&'static str> {
    let mut keys = shapes(TOP, TableKind::Rule);
    let mut path = path.iter();
    while let Some(name) = path.next() {
        let key = keys.into_iter().find(|key| key.head.name() == *name);
        keys = match key.map(|key| key.shape) {
            Some(Shape::Table(inner) | Shape::Tables(inner)) => inner,
            // The next segment is the name that the author chose.
            Some(Shape::NamedTables(inner)) if path.next().is_some() => inner,
            _ => return Vec::new(),
        };
    }
    keys.iter().map(|key| key.head.name()).collect()
}
