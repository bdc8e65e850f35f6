//! Why a rule does not hit a text: the key without which it would.

use ttsr::rule::Within;
use ttsr::{Pattern, Rule};

use super::first_hit;
use crate::test::part::Part;

/// Takes a key out of a rule.
type Without = fn(&mut Rule);

/// What a key asks for, and how the rule is without it.
const KEYS: [(&str, Without); 9] = [
    ("an exception of `none` stands beside it", without_none),
    ("what it captures is not what `capture` asks for", |rule| {
        rule.condition.capture = None;
    }),
    ("`count` asks for more matches", |rule| {
        rule.condition.count = None;
    }),
    ("it ends behind the characters that `first` names", |rule| {
        rule.condition.first = None;
    }),
    (
        "it begins before the characters that `last` names",
        |rule| {
            rule.condition.last = None;
        },
    ),
    ("`line` asks for a whole line", |rule| {
        rule.condition.line = false;
    }),
    ("the patterns stand further apart than `within`", anywhere),
    ("it stands outside its `region`", |rule| {
        each_pattern(rule, |pattern| pattern.region.clear());
    }),
    ("it stands in none of its `args`", |rule| {
        rule.args.clear();
        each_pattern(rule, |pattern| pattern.arg = None);
    }),
];

/// The first key without which the rule would hit the part.
pub(super) fn not(rule: &Rule, root: Option<&str>, part: &Part) -> Option<&'static str> {
    let would_hit = |without: &Without| {
        let mut lifted = rule.clone();
        without(&mut lifted);
        // A rule that makes no sense without the key says nothing about it.
        lifted != *rule && first_hit(&lifted, root, part).is_ok_and(|hit| hit.is_some())
    };
    let key = KEYS.iter().find(|(_, without)| would_hit(without));
    key.map(|(why, _)| *why)
}

fn without_none(rule: &mut Rule) {
    let condition = &mut rule.condition;
    condition.none.clear();
    if condition.all.is_empty() && condition.sequence.is_empty() {
        // It was the window of the exceptions alone.
        condition.within = None;
    }
}

fn anywhere(rule: &mut Rule) {
    let condition = &mut rule.condition;
    if !condition.all.is_empty() || !condition.sequence.is_empty() {
        condition.within = Some(Within::Part);
    }
}

fn each_pattern(rule: &mut Rule, change: impl Fn(&mut Pattern)) {
    let condition = &mut rule.condition;
    let lists = [
        &mut condition.any,
        &mut condition.all,
        &mut condition.sequence,
        &mut condition.none,
    ];
    lists.into_iter().flatten().for_each(change);
}
