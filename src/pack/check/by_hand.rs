//! Rules made in code: the same checks as for those in files, without places.

use super::fault::Fault;
use super::{header, option, pattern, scope, sense};
use crate::limits::Limits;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::message;
use crate::pack::schema::{self, Shape};
use crate::rule::{Condition, Rule, Within};

/// Everything wrong with `rule`.
pub(super) fn faults(rule: &Rule, limits: &Limits) -> Vec<Fault> {
    let mut faults: Vec<Fault> = id_fault(&rule.id).into_iter().collect();
    if rule.on.is_empty() {
        faults.push(Fault::new(&code::EMPTY_VALUE, "`on` is empty"));
    }
    let patterns = rule.condition.patterns();
    faults.extend(patterns.filter_map(|written| pattern::fault(written, limits)));
    let ast = rule.condition.ast.iter();
    faults.extend(ast.flat_map(super::ast::pattern_faults));
    let mut scopes = rule.clone();
    for key in scope::KEYS {
        let entries = scope::entries(&mut scopes, key);
        faults.extend(entries.iter().filter_map(|entry| scope::fault(key, entry)));
        if entries.len() > scope::ENTRIES {
            faults.push(scope::too_many(key, 0));
        }
    }
    let consulted = rule.consult.iter().flat_map(|consult| &consult.tools);
    faults.extend(consulted.filter_map(|entry| scope::fault("tools", entry)));
    faults.extend(too_large(rule));
    let args = rule
        .condition
        .patterns()
        .filter_map(|pattern| pattern.arg.as_ref());
    faults.extend(args.filter_map(|arg| scope::fault("arg", arg)));
    let prompt = rule.consult.iter().map(|consult| &consult.prompt);
    let templates = rule.message.iter().chain(prompt);
    faults.extend(templates.flat_map(|template| message::faults(template)));
    faults.extend(rule.cases.iter().filter_map(option::case_fault));
    faults.extend(
        sense::faults(rule, limits)
            .into_iter()
            .map(|(_, fault)| fault),
    );
    faults
}

/// Numbers that are larger than a file may say. Those that are too small make no sense in a file either, and are told
/// with what makes none.
fn too_large(rule: &Rule) -> Vec<Fault> {
    let Condition {
        first,
        last,
        count,
        within,
        capture,
        repetition,
        limit,
        doom_loop,
        ..
    } = &rule.condition;
    let (lines, chars) = match within {
        Some(Within::Lines(lines)) => (Some(*lines), None),
        Some(Within::Chars(chars)) => (None, Some(*chars)),
        _ => (None, None),
    };
    let repeat = rule.repeat.unwrap_or_default();
    let consult = rule.consult.as_ref();
    let limit = limit.unwrap_or_default();
    let repetition = repetition.as_ref();
    let small = [
        ("match.first", *first),
        ("match.last", *last),
        ("match.count", count.map(|count| count.times)),
        ("match.within.lines", lines),
        ("match.within.chars", chars),
        (
            "match.capture.entropy",
            capture.as_ref().and_then(|capture| capture.entropy),
        ),
        (
            "match.repetition.unit-chars",
            repetition.map(|it| it.unit_chars.0),
        ),
        (
            "match.repetition.unit-chars",
            repetition.map(|it| it.unit_chars.1),
        ),
        ("match.repetition.times", repetition.map(|it| it.times)),
        ("match.repetition.turns", repetition.and_then(|it| it.turns)),
        ("match.doom-loop.times", doom_loop.map(|it| it.times)),
        (
            "match.doom-loop.differing",
            doom_loop.map(|it| it.differing),
        ),
        ("retry.max", Some(rule.retry.max)),
        ("retry.temperature", rule.retry.temperature),
        ("repeat.cooldown-turns", repeat.cooldown_turns),
        ("repeat.per-turn", repeat.per_turn),
        ("repeat.per-session", repeat.per_session),
        ("allowance.per-turn", rule.allowance.per_turn),
        ("allowance.per-session", rule.allowance.per_session),
    ];
    let large = [
        ("match.limit.bytes", limit.bytes),
        ("match.limit.lines", limit.lines),
        ("match.limit.deltas", limit.deltas),
        ("match.limit.tokens", limit.tokens),
        ("match.limit.seconds", limit.millis),
        ("match.limit.stall", limit.stall_millis),
        (
            "consult.timeout",
            consult.map(|consult| consult.timeout_millis),
        ),
    ];
    let small = small.into_iter();
    let all = small.map(|(path, number)| (path, number.map(u64::from)));
    let faults = all.chain(large).filter_map(|(path, number)| {
        let most = match schema::shape(path) {
            Shape::Whole(_, most) | Shape::Pair(most) => u64::try_from(most).unwrap_or(0),
            Shape::Decimal(_, most) => most.into(),
            _ => u64::MAX,
        };
        let number = number.filter(|number| *number > most)?;
        let message = format!("`{path}` is {number}, limit is {most}");
        Some(Fault::new(&code::BAD_VALUE, message).with_help("a file may not say more either"))
    });
    faults.collect()
}

/// The rule as rules from files are: channels in order, none twice.
pub(super) fn normal(mut rule: Rule) -> Rule {
    rule.on.sort_unstable();
    rule.on.dedup();
    let Condition {
        any,
        all,
        sequence,
        none,
        ..
    } = &mut rule.condition;
    for pattern in any.iter_mut().chain(all).chain(sequence).chain(none) {
        pattern.fold.sort_unstable();
    }
    rule
}

pub(super) fn id_fault(id: &str) -> Option<Fault> {
    let Some((pack, rule)) = id.rsplit_once('/') else {
        let message = format!("rule id {} is of the wrong form", quote(id));
        return Some(Fault::new(&code::RULE_ID, message).with_help("a full id: `pack/rule`"));
    };
    header::pack_name(pack).or_else(|| header::rule_id(rule))
}
