//! Overrides: what one pack changes in the rules of another.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::check::draft::{Draft, Layer, Place};
use super::super::check::fault::Fault;
use super::closure;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::nearest;

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
        drafts[index].lay(replace, Layer::Override);
        if let Some(append) = append {
            drafts[index].append(append);
        }
    }
    (changed, faults)
}

fn missing(target: &str, ids: &HashMap<String, usize>) -> Fault {
    let mut known: Vec<&str> = ids.keys().map(String::as_str).collect();
    known.sort_unstable();
    Fault::new(
        &code::UNKNOWN_RULE,
        format!("there is no rule {} to override", quote(target)),
    )
    .with_help(format!(
        "name it as `pack/rule`, and its pack in `extends`; {}",
        nearest::help(target, &known)
    ))
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
