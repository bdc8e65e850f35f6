//! The state that all steps of one load share.

use crate::limits::Limits;
use crate::rule::{Pattern, PatternKind};
use ttsr_automata::pattern::PatternCache;

/// The limits of a load, and the regular expressions that it has parsed so far.
#[derive(Debug)]
pub(super) struct LoadContext<'l> {
    pub(super) limits: &'l Limits,
    pub(super) patterns: PatternCache,
}

impl<'l> LoadContext<'l> {
    pub(super) fn new(limits: &'l Limits) -> LoadContext<'l> {
        LoadContext {
            limits,
            patterns: PatternCache::new(limits.pattern_limits()),
        }
    }

    /// Returns true if the pattern is accepted and needs the engine for look-around.
    pub(super) fn has_lookaround(&self, pattern: &Pattern) -> bool {
        pattern.kind == PatternKind::Regex && self.patterns.has_lookaround(&pattern.text)
    }
}
