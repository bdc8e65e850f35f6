//! The combination of drafts: a rule over `[defaults]`, and overrides over a rule.

use std::mem::take;

use super::draft::{Draft, Layer, Place, WrittenKey};
use super::semantics;
use crate::pack::schema::{self, RULE};
use crate::rule::{Condition, PatternKind};

impl Draft {
    /// Replaces the value of each key that `from` gives.
    pub(in crate::pack) fn overlay(&mut self, mut from: Draft, layer: Layer) {
        self.texts.append(&mut from.texts);
        self.entries.append(&mut from.entries);
        let given = take(&mut from.given);
        if given.iter().any(|given| given.path == "case") {
            self.cases = take(&mut from.cases);
        }
        schema::replace(RULE, self, &mut from, &given);
        self.record_given(given, layer);
        self.derive_action(layer);
        self.add_faulty(&from);
        self.is_broken |= from.is_broken;
    }

    /// Appends the entries of each list of `from`.
    pub(in crate::pack) fn extend(&mut self, mut from: Draft) {
        self.texts.append(&mut from.texts);
        self.entries.append(&mut from.entries);
        self.cases.append(&mut from.cases);
        let given = take(&mut from.given);
        schema::append(RULE, self, &mut from, &given);
        self.record_given(given, Layer::Override);
        self.add_faulty(&from);
        self.is_broken |= from.is_broken;
    }

    fn record_given(&mut self, given: Vec<WrittenKey>, layer: Layer) {
        for mut given in given {
            given.layer = layer;
            self.given.retain(|old| old.path != given.path);
            self.given.push(given);
        }
    }

    /// Sets the action if the layer gives one, or gives a severity: the action of a lower layer was chosen for
    /// another severity.
    fn derive_action(&mut self, layer: Layer) {
        let of_layer = |path| {
            let is_it = |given: &&WrittenKey| given.path == path && given.layer == layer;
            self.given.iter().find(is_it).cloned()
        };
        if let Some(given) = of_layer("action") {
            self.action_from = Some(given);
        } else if let Some(given) = of_layer("severity") {
            self.rule.action = self.rule.severity.default_action();
            self.action_from = Some(given);
        }
    }

    /// Completes the rule: patterns inherit `match.region` and `match.fold`, and values of `[defaults]` that the rule
    /// cannot use are dropped.
    pub(in crate::pack) fn complete(&mut self) {
        let Condition {
            any,
            all,
            sequence,
            none,
            ..
        } = &mut self.rule.condition;
        for pattern in any.iter_mut().chain(all).chain(sequence).chain(none) {
            if pattern.kind == PatternKind::Command {
                // A command is read as words, and has neither regions nor folds.
                continue;
            }
            if pattern.region.is_empty() {
                pattern.region.clone_from(&self.region);
            }
            if pattern.fold.is_empty() {
                pattern.fold.clone_from(&self.fold);
            }
        }
        self.reset_unused(Draft::is_default);
        if self.is_default("hold") && semantics::without_held_text(&self.rule).is_some() {
            self.rule.hold = false;
        }
        for key in RULE {
            if !key.head.reads_any(&self.rule.on) && self.is_default(key.head.path) {
                key.swap(self, &mut Draft::new(String::new(), Place::default()));
            }
        }
    }

    /// Resets the keys of actions that the rule does not take, where `is_dropped` returns true for the key.
    pub(in crate::pack) fn reset_unused(&mut self, is_dropped: impl Fn(&Draft, &str) -> bool) {
        let action = self.rule.action;
        for key in RULE {
            let is_unused = key
                .head
                .action
                .is_some_and(|for_action| for_action != action);
            if is_unused && is_dropped(self, key.head.path) {
                key.swap(self, &mut Draft::new(String::new(), Place::default()));
            }
        }
    }
}
