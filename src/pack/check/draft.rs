//! A rule before it is complete: the values of its keys, and the place at which each key is written.

use std::ops::Range;

use super::fragment::SourceMap;
use super::problems::Span;
use super::reader::KeyPlaces;
use crate::pack::schema;
use crate::rule::{Action, Channel, Fold, Region, Rule};

/// A place in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::pack) struct Place {
    /// The number of the file.
    pub(in crate::pack) file: usize,
    pub(in crate::pack) span: Span,
}

/// The kind of table that gives a value. A later layer takes precedence over an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::pack) enum Layer {
    /// `[defaults]`: a value that a rule cannot use is dropped without an error.
    Defaults,
    /// The rule itself.
    Rule,
    /// An override.
    Override,
}

/// A key that is written.
#[derive(Clone, Debug)]
pub(in crate::pack) struct WrittenKey {
    /// The path of the key in a rule, such as `retry.max`.
    pub(in crate::pack) path: &'static str,
    pub(in crate::pack) at: Place,
    pub(in crate::pack) layer: Layer,
}

/// The text of a pattern or of an entry of a scope, and the place at which it is written.
#[derive(Clone, Debug)]
pub(in crate::pack) struct PatternText {
    pub(super) text: String,
    /// The place of the string, quotes included.
    pub(super) at: Place,
    /// The offset of the first byte of the text in the file, if the text occurs there byte for byte.
    pub(super) first: Option<usize>,
    /// The places of its pieces, for a pattern in which fragments are filled in.
    pub(super) map: Option<Box<SourceMap>>,
}

impl PatternText {
    /// Returns the place of the bytes `within` of the text, or of the whole string if that place is not known.
    fn locate(&self, within: Option<&Range<usize>>) -> Place {
        if let Some(map) = &self.map {
            return map.locate(within);
        }
        let inner = within.zip(self.first);
        let span = inner.map(|(within, first)| first + within.start..first + within.end);
        Place {
            file: self.at.file,
            span: span.unwrap_or_else(|| self.at.span.clone()),
        }
    }
}

/// Returns the place of the entry that is written last.
pub(super) fn location(entries: &[PatternText], entry: &str) -> Option<Place> {
    let mut latest = entries.iter().rev();
    let written = latest.find(|written| written.text == entry)?;
    Some(written.locate(Some(&(0..entry.len()))))
}

/// The values that the keys of a table set, in a rule, in `[defaults]` or in an override.
#[derive(Clone, Debug)]
pub(in crate::pack) struct Draft {
    pub(in crate::pack) rule: Rule,
    pub(in crate::pack) given: Vec<WrittenKey>,
    /// The patterns as they are written, including those that an override replaced.
    pub(in crate::pack) texts: Vec<PatternText>,
    /// Entries of scopes and arguments of patterns as they are written, except those that lists fill in.
    pub(in crate::pack) entries: Vec<PatternText>,
    /// The places of the cases, in their order.
    pub(in crate::pack) cases: Vec<Place>,
    /// The paths of the keys with an error in their values, so that the values are not those that are written.
    pub(super) faulty: Vec<&'static str>,
    /// The place of the rule's id, at which problems of the whole rule are reported.
    pub(in crate::pack) place: Place,
    /// `match.region` and `match.fold`, for patterns that do not set their own.
    pub(in crate::pack) region: Vec<Region>,
    pub(in crate::pack) fold: Vec<Fold>,
    /// The key that the action follows from: `action` or `severity`.
    pub(in crate::pack) action_from: Option<WrittenKey>,
    /// `append` of an override.
    pub(in crate::pack) append: Option<Box<Draft>>,
    /// True if an error in the rule has been reported: only those are reported that do not depend on the faulty keys.
    pub(in crate::pack) is_broken: bool,
}

impl Draft {
    /// Returns a rule file's rule with no keys.
    pub(in crate::pack) fn new(id: String, place: Place) -> Draft {
        let mut rule = Rule::new(id, Vec::new());
        rule.on = vec![Channel::Text, Channel::ToolInput];
        Draft {
            place,
            ..Draft::from_rule(rule)
        }
    }

    /// Returns a rule made in code, which no file has a place for.
    pub(in crate::pack) fn from_rule(rule: Rule) -> Draft {
        let place = Place {
            file: usize::MAX,
            span: 0..0,
        };
        Draft {
            rule,
            given: Vec::new(),
            texts: Vec::new(),
            entries: Vec::new(),
            cases: Vec::new(),
            faulty: Vec::new(),
            place,
            region: Vec::new(),
            fold: Vec::new(),
            action_from: None,
            append: None,
            is_broken: false,
        }
    }

    /// Sets the places at which the keys and patterns are written.
    pub(in crate::pack) fn set_origins(&mut self, origins: KeyPlaces) {
        self.given = origins.given;
        self.texts = origins.patterns;
        self.entries = origins.entries;
        self.cases = origins.cases;
        self.faulty = origins.faulty;
    }

    /// Adds the faulty keys of another layer.
    pub(super) fn add_faulty(&mut self, from: &Draft) {
        self.faulty.extend_from_slice(&from.faulty);
    }

    /// Returns true if the keys at and below `path` have no errors.
    pub(super) fn is_sound(&self, path: &str) -> bool {
        let mut faulty = self.faulty.iter();
        !faulty.any(|faulty| schema::is_at_or_below(faulty, path))
    }

    /// Returns the place in the last layer that sets the key at `path`, or a key below it. The empty path is the rule
    /// itself, which no key sets.
    pub(in crate::pack) fn latest_written(&self, path: &str) -> Option<&WrittenKey> {
        // A path that is not in the table would silently report every problem at the rule's id.
        #[cfg(debug_assertions)]
        assert!(
            path.is_empty() || schema::is_key(path),
            "`{path}` is not a key"
        );
        let is_at = |given: &&WrittenKey| schema::is_at_or_below(given.path, path);
        let given = self.given.iter().filter(is_at);
        given.max_by_key(|given| given.layer)
    }

    /// Returns true if `[defaults]` gave the key at `path`, and no other layer did.
    pub(in crate::pack) fn is_default(&self, path: &str) -> bool {
        let given = self.latest_written(path);
        given.is_some_and(|given| given.layer == Layer::Defaults)
    }

    /// Returns the place of an entry of a scope or of an argument of a pattern; `None` if a list fills it in.
    pub(in crate::pack) fn in_entry(&self, entry: &str) -> Option<Place> {
        location(&self.entries, entry)
    }

    /// Returns the place of a case; `None` if an override changed the number of cases, or the rule is made in code.
    pub(in crate::pack) fn in_case(&self, index: usize) -> Option<&Place> {
        let is_known = self.cases.len() == self.rule.cases.len();
        self.cases.get(index).filter(|_| is_known)
    }

    /// Returns the place of the bytes `within` of a pattern of the rule, or the best known place around them.
    pub(in crate::pack) fn in_pattern(&self, text: &str, within: Option<&Range<usize>>) -> Place {
        let mut latest = self.texts.iter().rev();
        let written = latest.find(|written| written.text == text);
        written.map_or_else(|| self.place.clone(), |written| written.locate(within))
    }
}

/// Returns the action that `retry.then` names, if the rule retries.
pub(in crate::pack) fn named_retry_then(rule: &Rule) -> Option<Action> {
    (rule.action == Action::Retry)
        .then_some(rule.retry.then)
        .flatten()
}
