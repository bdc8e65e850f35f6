//! The scope of a part: its tool and its files as far as they are known, and the matches that wait until they are.

use std::sync::Arc;

use super::condition::ConditionState;
use super::pending::{PendingMatches, ScopeAnswers, ScopeClass};
use crate::program::{AllowEntry, FileScope, Program, RuleScope};
use crate::rule::{Channel, ToolOutcome};
use crate::stream::state::{CallResults, RecordedMatch, StreamState};
use crate::verdict::{Hit, RuleId};
use ttsr_views::chunk::DecidedOffset;
use ttsr_views::path::ToolScope;

/// The scope of a part, and the state of its rules.
#[derive(Debug)]
pub(super) struct PartScope {
    /// Only tool calls and their output have a tool, and only tool calls have arguments and files. On other channels
    /// those scopes have no effect.
    channel: Channel,
    pub(super) tool: Option<Box<str>>,
    pub(super) call: Option<Box<str>>,
    /// The outcome of the tool call, for its output.
    pub(super) outcome: ToolOutcome,
    /// The files that the part has named.
    pub(super) files: NamedFiles,
    /// The file that the host has set, which takes precedence over the paths that the text names.
    pub(super) given_path: Option<Box<str>>,
    pub(super) is_closed: bool,
    /// Rules that have hit, sorted: a rule hits once in a part.
    hit_rules: Vec<RuleId>,
    /// Matches of rules whose scope is not known yet.
    pending: PendingMatches,
    /// The first match of `raw` of each rule, which counts if some commands cannot be read.
    pub(super) unread: Vec<RecordedMatch>,
    /// Conditions that are decided on the whole part.
    pub(super) conditions: ConditionState,
}

impl PartScope {
    pub(super) fn new(channel: Channel) -> PartScope {
        PartScope {
            channel,
            tool: None,
            call: None,
            outcome: ToolOutcome::default(),
            files: NamedFiles::default(),
            given_path: None,
            is_closed: false,
            hit_rules: Vec::new(),
            pending: PendingMatches::default(),
            unread: Vec::new(),
            conditions: ConditionState::default(),
        }
    }

    pub(super) fn has_hit(&self, rule: RuleId) -> bool {
        self.hit_rules.binary_search(&rule).is_ok()
    }

    /// Returns whether a rule with that scope applies to this part, or `None` if that is not known yet. `file` is the
    /// file that the text names.
    pub(super) fn applies(&self, scope: &RuleScope, file: Option<&str>) -> Option<bool> {
        self.answers(scope, file).both()
    }

    /// Returns whether the tool and the file of this part are in the scope of a rule.
    fn answers(&self, scope: &RuleScope, file: Option<&str>) -> ScopeAnswers {
        if self.channel == Channel::ToolOutput
            && scope.outcome.is_some_and(|outcome| outcome != self.outcome)
        {
            return ScopeAnswers::NO;
        }
        let file = self.given_path.as_deref().or(file);
        if self.given_path.is_some()
            && let Some(paths) = &scope.paths
            && paths.applies(file) != Some(true)
        {
            return ScopeAnswers::NO;
        }
        let tool = match &scope.tools {
            Some(tools) if self.has_tool() => {
                self.matches_tool(tools, || tools.applies(None).unwrap_or(scope.is_critical))
            }
            _ => Some(true),
        };
        let path = match &scope.paths {
            None => Some(true),
            Some(_) if !self.has_files() => Some(true),
            Some(paths) if file.is_some() => Some(paths.applies(file) == Some(true)),
            Some(paths) if self.files.any_in(paths) => Some(true),
            Some(_) if !self.is_closed => None,
            Some(paths) => {
                let without = scope.is_critical || paths.applies(None) == Some(true);
                Some(self.files.first.is_none() && without)
            }
        };
        ScopeAnswers { tool, path }
    }

    /// Returns whether the tool of this part is in scope, or `None` if it may still be named. `unnamed` decides for a
    /// tool that is never named.
    fn matches_tool(&self, tools: &ToolScope, unnamed: impl FnOnce() -> bool) -> Option<bool> {
        match &self.tool {
            Some(tool) => tools.applies(Some(tool)),
            None => self.is_closed.then(unnamed),
        }
    }

    fn has_tool(&self) -> bool {
        matches!(self.channel, Channel::ToolInput | Channel::ToolOutput)
    }

    fn has_files(&self) -> bool {
        self.channel == Channel::ToolInput
    }

    /// Decides the pending matches whose scope is known now. `decided` bytes are delivered.
    pub(super) fn resolve_pending(
        &mut self,
        program: &Program,
        decided: u64,
        results: &mut CallResults,
        state: &mut StreamState,
    ) {
        if self.pending.is_empty() {
            return;
        }
        // Taken out, because `apply` borrows the whole scope. Those that still wait are put back.
        for record in self.pending.take() {
            match self.is_admitted(program, &record) {
                None => self.add_pending(program, record, results, state),
                Some(true) => self.apply(program, record.decided_at(decided), results, state),
                Some(false) => {
                    let is_unknown = self.tool.is_none() || self.files.first.is_none();
                    let is_outside = self.rule_answers(program, &record).both() == Some(false);
                    let is_unscoped = self.is_closed && is_unknown && is_outside;
                    state.counters.unscoped += u64::from(is_unscoped);
                }
            }
        }
    }

    /// Admits a match that completes the condition of its rule.
    pub(super) fn admit(
        &mut self,
        program: &Program,
        record: RecordedMatch,
        results: &mut CallResults,
        state: &mut StreamState,
    ) {
        match self.is_admitted(program, &record) {
            Some(false) => {}
            Some(true) => self.apply(program, record, results, state),
            None => self.add_pending(program, record, results, state),
        }
    }

    /// Returns whether the rule of a match applies here and no entry allows the match, or `None` if that is not known
    /// yet.
    fn is_admitted(&self, program: &Program, record: &RecordedMatch) -> Option<bool> {
        let rule = self.rule_answers(program, record).both();
        if rule == Some(false) {
            return Some(false);
        }
        let mut is_open = rule.is_none();
        for entry in self.entry_answers(program, record) {
            match entry.both() {
                // An entry decides even while the scope of the rule is unknown.
                Some(true) => return Some(false),
                Some(false) => {}
                None => is_open = true,
            }
        }
        (!is_open).then_some(true)
    }

    fn rule_answers(&self, program: &Program, record: &RecordedMatch) -> ScopeAnswers {
        self.answers(program.scope(record.hit.rule), record.file.as_deref())
    }

    /// Returns for each allow entry of the rule whether the match is in its scope.
    fn entry_answers<'a>(
        &'a self,
        program: &'a Program,
        record: &'a RecordedMatch,
    ) -> impl Iterator<Item = ScopeAnswers> + 'a {
        let entries = program.allows(record.hit.rule).iter().enumerate();
        entries.map(|(index, entry)| match record.has_allowed_text(index) {
            true => self.allow_answers(entry, record),
            false => ScopeAnswers::NO,
        })
    }

    /// Returns whether the tool and the file of a match are in the scope of an allow entry.
    fn allow_answers(&self, entry: &AllowEntry, record: &RecordedMatch) -> ScopeAnswers {
        let tool = match &entry.tools {
            None => Some(true),
            Some(tools) if self.has_tool() => self.matches_tool(tools, || false),
            Some(_) => Some(false),
        };
        let file = self.given_path.as_deref().or(record.file.as_deref());
        let path = match (&entry.paths, file) {
            (None, _) => Some(true),
            (Some(paths), Some(file)) => Some(paths.applies(Some(file)) == Some(true)),
            (Some(_), None) if !self.has_files() => Some(false),
            // The match may be about any file of the call, so each of them must be in scope, also those named later.
            (Some(paths), None) => match self.files.all_in(paths) {
                Some(false) => Some(false),
                all => self.is_closed.then_some(all.is_some()),
            },
        };
        ScopeAnswers { tool, path }
    }

    /// Keeps a match of `raw` until the end of the call, if it is the first one of its rule.
    pub(super) fn keep_unread(&mut self, record: RecordedMatch) {
        let mut unread = self.unread.iter_mut();
        match unread.find(|known| known.hit.rule == record.hit.rule) {
            None => self.unread.push(record),
            // The patterns of one delta are not reported in order.
            Some(known) if known.hit.is_after(record.hit.end, record.hit.decided) => {
                *known = record;
            }
            Some(_) => {}
        }
    }

    /// Keeps a match until its scope is known.
    fn add_pending(
        &mut self,
        program: &Program,
        record: RecordedMatch,
        results: &mut CallResults,
        state: &mut StreamState,
    ) {
        let answers = [self.rule_answers(program, &record)].into_iter();
        let answers = answers.chain(self.entry_answers(program, &record));
        let class = ScopeClass(answers.collect());
        if let Some(record) = self.pending.add(program, record, class, state) {
            self.apply(program, record, results, state);
        }
    }

    /// Returns true if a match of the rule in that file waits that comes no later than one that ends at `end`.
    pub(super) fn waits_before(
        &self,
        rule: RuleId,
        file: Option<&Arc<str>>,
        end: DecidedOffset,
    ) -> bool {
        let is_alike = |known: &RecordedMatch| {
            known.file.as_ref() == file && !known.hit.is_after(end.offset, end.decided)
        };
        !self.pending.is_empty() && self.pending.of_rule(rule).any(is_alike)
    }

    /// Returns true if no match is pending.
    #[inline]
    pub(super) fn is_decided(&self) -> bool {
        self.pending.is_empty() && self.conditions.is_empty()
    }

    /// Returns the offset of the first byte that a pending match of a rule that holds may contain.
    pub(super) fn undecided_from(&self, program: &Program) -> Option<u64> {
        let holds = |rule: RuleId| program.rule(rule).holds_live();
        let held = self.pending.iter().filter(|record| holds(record.hit.rule));
        let pending = held.filter_map(RecordedMatch::first_start);
        pending.chain(self.conditions.undecided_from(holds)).min()
    }

    /// Applies an admitted match: counts it, records its redaction, or reports it.
    fn apply(
        &mut self,
        program: &Program,
        record: RecordedMatch,
        results: &mut CallResults,
        state: &mut StreamState,
    ) {
        let compound = program.compound(record.hit.rule);
        // A scan records matches and reports no hit.
        if compound.is_some_and(|it| it.reports_every() && it.count.is_none()) {
            state.records.push(record);
            return;
        }
        // Counted at the end of the call, in the order in which the matches became certain.
        if compound.is_some_and(|compound| compound.count.is_some()) {
            results.counting.push(record);
            return;
        }
        // Before the report, which drops all matches but the first: every match is redacted.
        state.redact(program, &record);
        self.report(record, results, state);
    }

    /// Makes the match the hit of its rule, replacing a later hit of this call.
    fn report(
        &mut self,
        record: RecordedMatch,
        results: &mut CallResults,
        state: &mut StreamState,
    ) {
        let Hit {
            rule,
            part,
            end,
            decided,
            ..
        } = record.hit;
        if let Err(index) = self.hit_rules.binary_search(&rule) {
            self.hit_rules.insert(index, rule);
            results.hits.push(record.hit);
            state.records.push(record);
        } else if let Some(index) = results.hit_index(rule, part)
            && results.hits[index].is_after(end, decided)
        {
            // The patterns of one delta are not reported in order. The record goes with its hit: a host asks for it by
            // the hit.
            let later = std::mem::replace(&mut results.hits[index], record.hit);
            state.records.retain(|known| known.hit != later);
            state.records.push(record);
        }
    }
}

/// The files that a part has named. Memory does not grow with their number: of all but the first one, only their relation to
/// each scope is kept.
#[derive(Debug, Default)]
pub(super) struct NamedFiles {
    /// The normal form of the first path.
    pub(super) first: Option<Box<str>>,
    /// By the index of a scope.
    later: Vec<LaterFiles>,
}

/// The relation of the files after the first one to a scope.
#[derive(Clone, Copy, Debug, Default)]
struct LaterFiles {
    /// True if one of them is in the scope.
    any_in: bool,
    /// True if one of them is not.
    any_out: bool,
}

impl NamedFiles {
    /// Adds a path in its normal form. `scopes` are those that may be asked for.
    pub(super) fn add(&mut self, path: String, scopes: &[Arc<FileScope>]) {
        match &self.first {
            None => self.first = Some(path.into_boxed_str()),
            Some(first) if **first == *path => {}
            Some(_) => {
                for scope in scopes {
                    if self.later.len() <= scope.index {
                        self.later.resize(scope.index + 1, LaterFiles::default());
                    }
                    let later = &mut self.later[scope.index];
                    let is_in = scope.applies(Some(&path)) == Some(true);
                    later.any_in |= is_in;
                    later.any_out |= !is_in;
                }
            }
        }
    }

    /// Returns true if one of the paths is in the scope.
    fn any_in(&self, scope: &FileScope) -> bool {
        self.first_in(scope) == Some(true) || self.later_of(scope).any_in
    }

    /// Returns true if all paths so far are in the scope, or `None` if there are none.
    fn all_in(&self, scope: &FileScope) -> Option<bool> {
        let first = self.first_in(scope)?;
        Some(first && !self.later_of(scope).any_out)
    }

    fn first_in(&self, scope: &FileScope) -> Option<bool> {
        let first = self.first.as_deref()?;
        Some(scope.applies(Some(first)) == Some(true))
    }

    fn later_of(&self, scope: &FileScope) -> LaterFiles {
        self.later.get(scope.index).copied().unwrap_or_default()
    }
}
