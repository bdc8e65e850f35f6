//! Whether the keys of a whole rule make sense together. What has no effect, what can never be met and what
//! cannot be done where the rule reads is an error: a rule is never silently inactive.
//!
//! Works on [`Rule`]s, so that rules made in code and overridden rules are judged like those in files. Each
//! fault names the key it is about.

mod action;
mod condition;
mod detectors;
mod patterns;

use super::fault::Fault;
use crate::limits::Limits;
use crate::pack::diagnostic::code;
use crate::rule::{Channel, Rule};

/// A fault and the key it is about; an empty path is the rule as a whole.
pub(super) type Found = (&'static str, Fault);

/// Everything that makes no sense in `rule`.
pub(super) fn faults(rule: &Rule, limits: &Limits) -> Vec<Found> {
    let mut found = Vec::new();
    condition::trigger(&rule.condition, &mut found);
    if !found.is_empty() {
        return found;
    }
    condition::faults(rule, limits, &mut found);
    detectors::faults(rule, &mut found);
    patterns::faults(rule, &mut found);
    action::faults(rule, &mut found);
    found
}

fn no_effect(path: &'static str, why: &str, help: &str) -> Found {
    let message = format!("`{path}` has no effect: {why}");
    (path, Fault::new(&code::NO_EFFECT, message).with_help(help))
}

fn contradiction(path: &'static str, why: impl Into<String>, help: &str) -> Found {
    (path, Fault::new(&code::CONTRADICTION, why).with_help(help))
}

fn zero(path: &'static str) -> Found {
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
