//! Rules made in code: the same checks as for those in files, without places.

use super::fault::Fault;
use super::{header, pattern, scope};
use crate::limits::Limits;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::message;
use crate::rule::{Channel, Rule};

/// Everything wrong with `rule`.
pub(super) fn faults(rule: &Rule, limits: &Limits) -> Vec<Fault> {
    let mut faults: Vec<Fault> = id_fault(&rule.id).into_iter().collect();
    let condition = &rule.condition;
    let is_empty =
        condition.any.is_empty() && condition.all.is_empty() && condition.sequence.is_empty();
    for (list, name) in [(rule.on.is_empty(), "on"), (is_empty, "any")] {
        if list {
            faults.push(Fault::new(&code::EMPTY_VALUE, format!("`{name}` is empty")));
        }
    }
    faults.extend(
        rule.condition
            .patterns()
            .filter_map(|written| pattern::fault(written, limits)),
    );
    let reads_tools = rule.on.contains(&Channel::ToolInput);
    for (key, entries) in [
        ("tools", &rule.tools),
        ("args", &rule.args),
        ("paths", &rule.paths),
    ] {
        if !reads_tools && !entries.is_empty() {
            faults.push(scope::unreachable(key));
        }
        faults.extend(entries.iter().filter_map(|entry| scope::fault(key, entry)));
    }
    faults.extend(
        rule.message
            .iter()
            .flat_map(|message| message::faults(message)),
    );
    faults
}

/// The rule as rules from files are: channels in order, none twice.
pub(super) fn normal(mut rule: Rule) -> Rule {
    rule.on.sort_unstable();
    rule.on.dedup();
    rule
}

fn id_fault(id: &str) -> Option<Fault> {
    let Some((pack, rule)) = id.rsplit_once('/') else {
        let message = format!("rule id {} is of the wrong form", quote(id));
        return Some(Fault::new(&code::RULE_ID, message).with_help("a full id: `pack/rule`"));
    };
    header::pack_name(pack).or_else(|| header::rule_id(rule))
}
