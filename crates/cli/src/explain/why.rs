//! Finds the key that prevents a rule from hitting a text.

use ttsr::rule::Within;
use ttsr::{Pattern, Rule};

use super::first_hit;
use crate::test::part::ExamplePart;

/// Removes a key from a rule.
type KeyRemoval = fn(&mut Rule);

/// Each key that can prevent a hit, with a function that removes it.
const KEYS: [(&str, KeyRemoval); 10] = [
    ("an exception of `none` matches beside it", without_none),
    ("the exception `unless` matches before it", |rule| {
        each_pattern(rule, |pattern| pattern.unless = None);
    }),
    ("the captured text does not meet `capture`", |rule| {
        rule.condition.capture = None;
    }),
    ("`count` requires more matches", |rule| {
        rule.condition.count = None;
    }),
    (
        "the match ends after the characters that `first` allows",
        |rule| {
            rule.condition.first = None;
        },
    ),
    (
        "the match begins before the characters that `last` allows",
        |rule| {
            rule.condition.last = None;
        },
    ),
    ("`line` requires a whole line", |rule| {
        rule.condition.line = false;
    }),
    ("the matches are further apart than `within`", widen_to_part),
    ("the match is outside its `region`", |rule| {
        each_pattern(rule, |pattern| pattern.region.clear());
    }),
    ("the match is in none of its `args`", |rule| {
        rule.args.clear();
        each_pattern(rule, |pattern| pattern.arg = None);
    }),
];

/// Returns the first key whose removal lets the rule hit the part.
pub(super) fn blocking_key(
    rule: &Rule,
    root: Option<&str>,
    part: &ExamplePart,
) -> Option<&'static str> {
    let would_hit = |without: &KeyRemoval| {
        let mut lifted = rule.clone();
        without(&mut lifted);
        // A rule that does not load without the key gives no answer.
        lifted != *rule && first_hit(&lifted, root, part).is_ok_and(|hit| hit.is_some())
    };
    let key = KEYS.iter().find(|(_, without)| would_hit(without));
    key.map(|(why, _)| *why)
}

fn without_none(rule: &mut Rule) {
    let condition = &mut rule.condition;
    condition.none.clear();
    if condition.all.is_empty() && condition.sequence.is_empty() {
        // The window applied to the exceptions only.
        condition.within = None;
    }
}

fn widen_to_part(rule: &mut Rule) {
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
