//! Rules made in code: the same checks as for those in files, without places.

use super::fault::Fault;
use super::{header, option, pattern, scope, sense};
use crate::limits::Limits;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::message;
use crate::rule::{Condition, Rule};

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
    }
    let consulted = rule.consult.iter().flat_map(|consult| &consult.tools);
    faults.extend(consulted.filter_map(|entry| scope::fault("tools", entry)));
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
