//! Rules made in code. They pass the same checks as rules in files, without places.

use super::draft::Draft;
use super::fault::Fault;
use super::{ast, names, semantics};
use crate::pack::diagnostic::code;
use crate::pack::load_context::LoadContext;
use crate::pack::schema::{self, RULE};
use crate::rule::{Condition, Rule};

/// Returns the rule in the form of rules in files: channels and folds in order, no channel twice.
pub(super) fn normalize(mut rule: Rule) -> Rule {
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

/// Returns everything that is wrong with the rule.
pub(super) fn faults(draft: &Draft, context: &LoadContext<'_>) -> Vec<Fault> {
    let rule = &draft.rule;
    let mut faults: Vec<Fault> = names::full_id_fault(&rule.id).into_iter().collect();
    if rule.on.is_empty() {
        faults.push(Fault::new(&code::EMPTY_VALUE, "`on` is empty"));
    }
    schema::check(RULE, draft, context, &mut faults);
    let ast = rule.condition.ast.iter();
    faults.extend(ast.flat_map(ast::pattern_faults));
    let combined = semantics::faults(draft, context).into_iter();
    faults.extend(combined.map(|(_, fault)| fault));
    faults
}
