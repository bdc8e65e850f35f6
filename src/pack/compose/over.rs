//! Overrides: what one pack changes in the rules of another.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::check::draft::{Draft, Layer, Place, then};
use super::super::check::fault::Fault;
use super::closure;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::{Pack, nearest};
use crate::rule::{Action, Partial, Retry, Rule};

/// An `[override."pack/rule"]` as it is written.
#[derive(Clone, Debug)]
pub(in crate::pack) struct Override {
    /// The full id of the rule it changes.
    pub(in crate::pack) target: String,
    /// Where that is written.
    pub(in crate::pack) at: Place,
    /// The pack it is written in.
    pub(in crate::pack) pack: String,
    /// What it replaces.
    pub(in crate::pack) replace: Draft,
    /// What it adds.
    pub(in crate::pack) append: Option<Draft>,
}

/// Applies `overrides`, which stand in the order of their files, to `drafts`. Returns the numbers of the
/// rules that were changed, and what is wrong.
pub(in crate::pack) fn apply(
    drafts: &mut [Draft],
    overrides: Vec<Override>,
    extends: &BTreeMap<String, BTreeSet<String>>,
) -> (BTreeSet<usize>, Vec<(Place, Fault)>) {
    let ids = drafts.iter().enumerate();
    let ids: HashMap<String, usize> = ids
        .map(|(index, draft)| (draft.rule.id.clone(), index))
        .collect();
    let mut changed = BTreeSet::new();
    let mut faults = Vec::new();
    let mut writers: HashMap<(usize, &'static str), String> = HashMap::new();
    for Override {
        target,
        at,
        pack,
        replace,
        append,
    } in overrides
    {
        let Some(index) = ids.get(&target).copied() else {
            faults.push((at, missing(&target, &ids)));
            continue;
        };
        for given in &replace.given {
            let before = writers.insert((index, given.path), pack.clone());
            let is_above = |before: &String| closure(extends, &pack).contains(before);
            if let Some(before) = before.filter(|before| !is_above(before)) {
                faults.push((given.at.clone(), conflict(given.path, &target, &before)));
            }
        }
        changed.insert(index);
        let given: Vec<&str> = replace.given.iter().map(|given| given.path).collect();
        let action = drafts[index].rule.action;
        drafts[index].lay(replace, Layer::Override);
        follow(&mut drafts[index].rule, action, &given);
        if let Some(append) = append {
            drafts[index].append(append);
        }
    }
    (changed, faults)
}

/// What belonged to the action that a rule no longer has goes with it, and its cases expect what it does now:
/// whoever overrides an action need not know how the rule was written.
fn follow(rule: &mut Rule, before: Action, given: &[&str]) {
    let is_given = |key: &str| given.iter().any(|path| path.split('.').next() == Some(key));
    if rule.action != before {
        let leaves = |action: Action, key: &str| rule.action != action && !is_given(key);
        let (retry, partial) = (
            leaves(Action::Retry, "retry"),
            leaves(Action::Retry, "partial"),
        );
        let replacement = leaves(Action::Redact, "replacement");
        let (consult, header) = (
            leaves(Action::Consult, "consult"),
            leaves(Action::SetHeader, "header"),
        );
        if retry {
            rule.retry = Retry::default();
        }
        if partial {
            rule.partial = Partial::default();
        }
        rule.replacement = rule.replacement.take().filter(|_| !replacement);
        rule.consult = rule.consult.take().filter(|_| !consult);
        rule.header = rule.header.take().filter(|_| !header);
    }
    if is_given("case") {
        return;
    }
    let (action, then) = (rule.action, then(rule));
    for case in &mut rule.cases {
        if !rule.on.contains(&case.channel) {
            (case.expect, case.by_byte) = (None, None);
        }
        let expected = case.expect.take();
        let follows = |expected| match Some(expected) == then {
            true => expected,
            false => action,
        };
        case.expect = expected.map(follows);
    }
}

fn missing(target: &str, ids: &HashMap<String, usize>) -> Fault {
    let mut known: Vec<&str> = ids.keys().map(String::as_str).collect();
    known.sort_unstable();
    Fault::new(
        &code::UNKNOWN_RULE,
        format!("there is no rule {} to override", quote(target)),
    )
    .with_help(match not_extended(target, &known) {
        Some(help) => help,
        None => format!(
            "name it as `pack/rule`, and its pack in `extends`; {}",
            nearest::help(target, &known)
        ),
    })
}

/// What to do about a rule of a built-in pack that is not part of the load.
pub(super) fn not_extended(target: &str, known: &[&str]) -> Option<String> {
    let (pack, _) = target.rsplit_once('/')?;
    let is_there = known
        .iter()
        .any(|id| id.rsplit_once('/').is_some_and(|(of, _)| of == pack));
    let is_builtin = Pack::builtins().any(|name| name == pack);
    (is_builtin && !is_there).then(|| {
        format!(
            "its pack is not part of this one: write `extends = [{}]` in `[pack]`",
            quote(pack).replace('`', "\"")
        )
    })
}

fn conflict(path: &str, target: &str, before: &str) -> Fault {
    let message = format!(
        "`{path}` of rule {} is overridden by pack {}, too",
        quote(target),
        quote(before)
    );
    Fault::new(&code::CONFLICTING_OVERRIDE, message)
        .with_help("let one of the two packs extend the other: it has the last word")
}
