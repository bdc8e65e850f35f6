//! The scopes of rules and of allow entries, with their globs compiled.

use std::sync::Arc;

use crate::rule::ToolOutcome;
use ttsr_views::glob::GlobSet;
use ttsr_views::path::{ArgScope, PathScope, ToolScope};

/// The scope of a rule, except for its channels. `None` is no restriction.
#[derive(Debug)]
pub(crate) struct RuleScope {
    pub(crate) tools: Option<Arc<ToolScope>>,
    pub(crate) outcome: Option<ToolOutcome>,
    pub(crate) args: Option<Arc<ArgScope>>,
    pub(crate) paths: Option<Arc<FileScope>>,
    pub(crate) agents: Option<Arc<ToolScope>>,
    pub(crate) models: Option<Arc<ToolScope>>,
    pub(crate) providers: Option<Arc<ToolScope>>,
    /// True if the rule is critical: it then applies if the tool or the file never becomes known.
    pub(crate) is_critical: bool,
}

/// The files that rules and allow entries with equal globs apply to.
#[derive(Debug)]
pub(crate) struct FileScope {
    /// A number below the number of such scopes of the pack.
    pub(crate) index: usize,
    pub(crate) globs: PathScope,
}

impl FileScope {
    /// Returns whether a file is in scope; of an unknown file, `None` if that depends on its path.
    pub(crate) fn applies(&self, path: Option<&str>) -> Option<bool> {
        self.globs.applies(path)
    }
}

impl RuleScope {
    /// Returns true if the rule is limited to agents, models or providers.
    pub(crate) fn has_origin(&self) -> bool {
        self.agents.is_some() || self.models.is_some() || self.providers.is_some()
    }
}

/// An `[[allow]]` entry: a match for which all of its fields hold does not count. `None` is no restriction.
#[derive(Debug)]
pub(crate) struct AllowEntry {
    pub(crate) tools: Option<Arc<ToolScope>>,
    pub(crate) paths: Option<Arc<FileScope>>,
    /// Globs on the matched text.
    pub(crate) text: Option<Arc<GlobSet>>,
}
