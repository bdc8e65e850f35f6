//! Checks of the keys of a whole rule together. A key without effect, a condition that nothing can meet and an action
//! that cannot be taken on the rule's channels are errors: a rule is never silently inactive.
//!
//! The checks run on complete [`Draft`]s, so they are the same for rules in files, overridden rules and rules made in
//! code. Each fault names the key that it is about.

mod action;
mod condition;
mod detectors;
mod patterns;

pub(super) use action::without_held_text;

use super::draft::Draft;
use super::fault::Fault;
use crate::pack::diagnostic::code;
use crate::pack::load_context::LoadContext;
use crate::pack::schema;
use crate::pack::schema::KeyInfo;
use crate::rule::{Channel, Pattern, PatternKind, Rule};

/// A fault, and the path of the key that it is about.
pub(super) type KeyFault = (&'static str, Fault);

/// Returns the contradictions in a rule.
pub(super) fn faults(draft: &Draft, context: &LoadContext<'_>) -> Vec<KeyFault> {
    let rule = &draft.rule;
    let mut found = Vec::new();
    let triggers = schema::triggers(draft);
    condition::trigger(&rule.condition, &triggers, &mut found);
    if !found.is_empty() {
        return found;
    }
    condition::faults(rule, context, &mut found);
    // Exactly one: everything else is a fault of `trigger`.
    let trigger = triggers[0];
    detectors::faults(rule, trigger, &mut found);
    patterns::faults(rule, &mut found);
    unread_defaults(draft, trigger, &mut found);
    action::faults(draft, context, trigger, &mut found);
    found
}

/// Returns the contradictions in a rule with errors that do not depend on the keys with errors.
pub(super) fn independent_faults(draft: &Draft, context: &LoadContext<'_>) -> Vec<KeyFault> {
    let condition = &draft.rule.condition;
    let mut found = Vec::new();
    let triggers = schema::triggers(draft);
    if triggers.len() > 1 && triggers.iter().all(|key| draft.is_sound(key.path)) {
        condition::trigger(condition, &triggers, &mut found);
    }
    condition::single_entries(condition, &mut found);
    found.retain(|(path, _)| draft.is_sound(path));
    if draft.is_sound("match.any") && draft.is_sound("match.capture.group") {
        condition::capture_group(condition, context, &mut found);
    }
    if draft.is_sound("match.any") && draft.is_sound("on") {
        action::capture_names(&draft.rule, context, &mut found);
    }
    found
}

/// Reports `match.region` and `match.fold` in a rule without a pattern that takes them.
fn unread_defaults(draft: &Draft, trigger: &KeyInfo, found: &mut Vec<KeyFault>) {
    let takes = |pattern: &Pattern| pattern.kind != PatternKind::Command;
    if draft.rule.condition.patterns().any(takes) {
        return;
    }
    let why = match draft.rule.condition.has_commands() {
        true => "a command is read as words".to_owned(),
        false => format!("`{}` has no patterns", trigger.name()),
    };
    for (is_set, path) in [
        (!draft.region.is_empty(), "match.region"),
        (!draft.fold.is_empty(), "match.fold"),
    ] {
        if is_set {
            found.push(no_effect(path, &why, "remove it"));
        }
    }
}

fn no_effect(path: &'static str, why: &str, help: &str) -> KeyFault {
    let message = format!("`{path}` has no effect: {why}");
    (path, Fault::new(&code::NO_EFFECT, message).with_help(help))
}

fn contradiction(path: &'static str, why: impl Into<String>, help: &str) -> KeyFault {
    (path, Fault::new(&code::CONTRADICTION, why).with_help(help))
}

fn zero(path: &'static str) -> KeyFault {
    let message = format!("`{path}` is 0, which nothing can meet");
    (
        path,
        Fault::new(&code::BAD_VALUE, message).with_help("write 1 or more, or leave it out"),
    )
}

fn reads_stream(rule: &Rule) -> bool {
    rule.on
        .iter()
        .any(|channel| Channel::STREAMED.contains(channel))
}
