//! Overrides: changes of one pack to the rules of another.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::check::draft::{Draft, Layer, Place, named_retry_then};
use super::super::check::fault::Fault;
use super::allow::id_glob;
use super::closure;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::schema::is_at_or_below;
use crate::pack::{Pack, did_you_mean};
use crate::rule::Action;

/// An `[override."pack/rule"]` of a file.
#[derive(Clone, Debug)]
pub(in crate::pack) struct Override {
    /// The full id of the rule that it changes, or a glob on full ids.
    pub(in crate::pack) target: String,
    /// The place of the id.
    pub(in crate::pack) at: Place,
    /// The pack that contains it.
    pub(in crate::pack) pack: String,
    /// The values that replace those of the rule.
    pub(in crate::pack) replace: Draft,
    /// The entries that are added to lists of the rule.
    pub(in crate::pack) append: Option<Box<Draft>>,
}

impl Override {
    fn is_glob(&self) -> bool {
        self.target.contains('*')
    }

    /// Returns the rules that it changes, in their order.
    fn targets(&self, ids: &HashMap<String, usize>) -> Vec<usize> {
        if !self.is_glob() {
            return ids.get(&self.target).copied().into_iter().collect();
        }
        let glob = id_glob(&self.target);
        let is_target = |id: &str| glob.as_ref().is_some_and(|glob| glob.is_match(id));
        let targets = ids.iter().filter(|(id, _)| is_target(id));
        let mut targets: Vec<usize> = targets.map(|(_, index)| *index).collect();
        targets.sort_unstable();
        targets
    }
}

/// Orders overrides so that those of one rule follow those of the same pack for several rules, and win over them. The order
/// of packs stays.
fn specific_last(overrides: &mut [Override]) {
    let mut packs: HashMap<String, usize> = HashMap::new();
    for it in overrides.iter() {
        let next = packs.len();
        packs.entry(it.pack.clone()).or_insert(next);
    }
    overrides.sort_by_key(|it| (packs[&it.pack], !it.is_glob()));
}

/// Applies `overrides`, which are in the order of their files, to `drafts`, and returns their faults.
pub(in crate::pack) fn apply(
    drafts: &mut [Draft],
    mut overrides: Vec<Override>,
    extends: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<(Place, Fault)> {
    let ids = drafts.iter().enumerate();
    let ids: HashMap<String, usize> = ids
        .map(|(index, draft)| (draft.rule.id.clone(), index))
        .collect();
    let mut faults = Vec::new();
    specific_last(&mut overrides);
    let mut writers: HashMap<(usize, &'static str), (String, bool)> = HashMap::new();
    for it in overrides {
        let targets = it.targets(&ids);
        if targets.is_empty() {
            faults.push((it.at, missing(&it.target, &ids)));
            continue;
        }
        for given in &it.replace.given {
            let mut conflicts = None;
            for index in &targets {
                let writer = (it.pack.clone(), it.is_glob());
                let before = writers.insert((*index, given.path), writer);
                let is_above = |(before, was_glob): &(String, bool)| {
                    let is_refined = *before == it.pack && *was_glob && !it.is_glob();
                    is_refined || closure(extends, &it.pack).contains(before)
                };
                let before = before.filter(|before| !is_above(before));
                conflicts = conflicts.or(before.map(|(before, _)| (*index, before)));
            }
            // One problem for each key that is written, however many rules it is for.
            if let Some((index, before)) = conflicts {
                let fault = conflict(given.path, &drafts[index].rule.id, &before);
                faults.push((given.at.clone(), fault));
            }
        }
        let given: Vec<&str> = it.replace.given.iter().map(|given| given.path).collect();
        let appended = it.append.iter().flat_map(|append| &append.given);
        let appended: Vec<&str> = appended.map(|given| given.path).collect();
        for index in targets {
            let draft = &mut drafts[index];
            let action = draft.rule.action;
            draft.overlay(it.replace.clone(), Layer::Override);
            follow_action(draft, action, &given);
            follow_match(draft, &given, &appended);
            if let Some(append) = &it.append {
                draft.extend(Draft::clone(append));
            }
        }
    }
    faults
}

/// Adapts a rule to an overridden action: options of the former action are reset, and its cases expect the new one.
/// The author of an override need not know how the rule is written.
fn follow_action(draft: &mut Draft, before: Action, given: &[&str]) {
    let is_given = |key: &str| given.iter().any(|path| is_at_or_below(path, key));
    if draft.rule.action != before {
        draft.reset_unused(|_, key| !is_given(key));
    }
    if is_given("case") {
        return;
    }
    let rule = &mut draft.rule;
    let (action, then) = (rule.action, named_retry_then(rule));
    for case in &mut rule.cases {
        if !rule.on.contains(&case.channel) {
            (case.expect, case.by_byte) = (None, None);
        }
        let expected = case.expect.take();
        let follow = |expected| match Some(expected) == then {
            true => expected,
            false => action,
        };
        case.expect = expected.map(follow);
    }
}

/// Drops `by-byte` of the rule's own cases if the override changes the match: the bound was measured for the match
/// that the author of the case wrote, and an entry in `match.none` delays the decision to the end of the part.
fn follow_match(draft: &mut Draft, given: &[&str], appended: &[&str]) {
    let is_given = |key: &str| given.iter().any(|path| is_at_or_below(path, key));
    let is_appended = appended.iter().any(|path| is_at_or_below(path, "match"));
    if is_given("case") || !(is_given("match") || is_appended) {
        return;
    }
    for case in &mut draft.rule.cases {
        case.by_byte = None;
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
            "write it as `pack/rule`, and add its pack to `extends`; {}",
            did_you_mean::help(target, &known)
        ),
    })
}

/// Returns the help for a rule of a built-in pack that is not part of the load.
pub(super) fn not_extended(target: &str, known: &[&str]) -> Option<String> {
    let (pack, _) = target.rsplit_once('/')?;
    let is_there = known
        .iter()
        .any(|id| id.rsplit_once('/').is_some_and(|(of, _)| of == pack));
    let is_builtin = Pack::builtin_names().any(|name| name == pack);
    (is_builtin && !is_there).then(|| {
        format!(
            "its pack is not part of this one: write `extends = [{}]` in `[pack]`",
            quote(pack).replace('`', "\"")
        )
    })
}

fn conflict(path: &str, target: &str, before: &str) -> Fault {
    let message = format!(
        "`{path}` of rule {} is also overridden by pack {}",
        quote(target),
        quote(before)
    );
    Fault::new(&code::CONFLICTING_OVERRIDE, message)
        .with_help("let one of the two packs extend the other: its value then applies")
}
