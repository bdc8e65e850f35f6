//! Admission: decides whether a match counts, and makes it a hit.
//!
//! A match passes the scope of its rule, then its condition, then its scope once more with the allow entries, then its
//! count. [`PartScope`] has the state of the scope, [`ConditionState`] that of conditions, [`StreamState`] the counts.
//!
//! # Invariants
//!
//! 1. A rule has at most one hit in a part: the match with the least `decided`, then the least end. The haystacks and
//!    views of one call are not read in that order, so an earlier match replaces a hit of the same call. It never
//!    replaces a hit of a call before, because every match of this call becomes certain later.
//! 2. The first test of the scope ([`is_in_scope`](Admission::is_in_scope)) only drops matches that are known not to
//!    count. While the tool or the file is unknown it drops none: the second test keeps the match until they are known
//!    or the part is closed.
//! 3. A condition on a part or on the reply, and a count, is decided on the matches in the order in which they became
//!    certain. Readers queue them, and [`resolve_queued`](Admission::resolve_queued) sorts them: at the end of each
//!    call that reads text, and before the file of a tool call becomes known within one.
//! 4. A match is recorded with its text while a window still has the text. After that only the record is passed on, so
//!    a match may wait for any length of text.
//! 5. An [`Admission`] borrows the scope of the part and the results of the stream, and no reader. A reader can
//!    therefore admit a match in the middle of a step.

use std::ops::Range;
use std::sync::Arc;

use super::condition::{ConditionState, FullMatch, TextPosition};
use super::haystack::MatchContext;
use super::scope::PartScope;
use crate::program::{
    ChannelRules, ConditionExtent, FirstEndRole, PatternRole, Program, ViewRules,
};
use crate::stream::state::{CallResults, QueuedMatch, RecordedMatch, SharedState, StreamState};
use crate::verdict::{Hit, PartId, RuleId};
use ttsr_automata::MatchEvent;
use ttsr_views::chunk::DecidedOffset;
use ttsr_views::detect::Detection;
use ttsr_views::json::ArgPath;

/// The facts about a part that are constant during a call.
#[derive(Clone, Copy)]
pub(super) struct PartContext<'a> {
    pub(super) program: &'a Program,
    pub(super) rules: &'a ChannelRules,
    pub(super) part: PartId,
    /// The index of the part in the order of opening.
    pub(super) order: u32,
}

/// The argument and the file that a haystack belongs to.
#[derive(Clone, Copy, Default)]
pub(super) struct HaystackScope<'a> {
    /// The argument of the tool call; `None` if the haystack is not part of one.
    pub(super) arg: Option<&'a ArgPath>,
    /// The file, if the text itself names it, as a hunk of a patch does.
    pub(super) file: Option<&'a Arc<str>>,
}

impl<'a> HaystackScope<'a> {
    /// Returns the scope of an argument, or of a haystack outside of one.
    pub(super) fn from_arg(arg: Option<&'a ArgPath>) -> HaystackScope<'a> {
        HaystackScope { arg, file: None }
    }
}

/// Admits the matches of one part, for the time of one call.
pub(super) struct Admission<'a> {
    pub(super) context: PartContext<'a>,
    pub(super) scope: &'a mut PartScope,
    pub(super) results: &'a mut CallResults,
    pub(super) state: &'a mut StreamState,
}

impl<'a> Admission<'a> {
    pub(super) fn new(
        context: PartContext<'a>,
        scope: &'a mut PartScope,
        shared: &'a mut SharedState,
    ) -> Admission<'a> {
        Admission {
            context,
            scope,
            results: &mut shared.results,
            state: &mut shared.state,
        }
    }
}

impl Admission<'_> {
    /// Admits the first end of a pattern of `view`. `match_context` is called only if the match may count.
    #[cold]
    #[inline(never)]
    pub(super) fn admit_first_end(
        &mut self,
        view: &ViewRules,
        scope: HaystackScope<'_>,
        event: &MatchEvent,
        end: DecidedOffset,
        match_context: impl FnOnce() -> MatchContext,
    ) {
        let pattern = &view.patterns[event.pattern.index()];
        let rule = pattern.rule;
        let in_arg = match (&pattern.arg, scope.arg) {
            (Some(wanted), Some(arg)) => wanted.applies(arg),
            _ => true,
        };
        // Before the text is copied: the automaton may report the pattern again and again.
        if !in_arg || !self.can_hit(rule, scope, end) {
            return;
        }
        let match_context = match_context();
        let vm = pattern.vm.as_deref();
        let start = match_context
            .start
            .or_else(|| match_context.find_start(vm?.get()));
        let mut record = self.record(rule, scope, end, match_context.excerpt(start));
        // Elsewhere the distance to the start in the haystack is not the distance in the part.
        let is_unchanged = view.key.source.is_none() && view.key.folds.is_empty();
        if scope.arg.is_none() && is_unchanged {
            record.start = start.map(|start| end.offset - (match_context.end - start) as u64);
        }
        match pattern.role {
            FirstEndRole::MatchIfUnread => {
                // Only the first one is kept, so its text must not decide.
                record.allow_no_text(self.context.program);
                self.scope.keep_unread(record);
            }
            _ => self.admit(record),
        }
    }

    /// Admits the matches of `raw`: some commands of the call could not be read.
    pub(super) fn admit_unread(&mut self, decided: u64) {
        for record in std::mem::take(&mut self.scope.unread) {
            self.admit(record.decided_at(decided));
        }
    }

    /// Admits a match that completes the condition of its rule.
    pub(super) fn admit(&mut self, record: RecordedMatch) {
        let program = self.context.program;
        self.scope.admit(program, record, self.results, self.state);
    }

    /// Admits the finding of a detector, with the text around it if that is available.
    pub(super) fn admit_finding(
        &mut self,
        rule: RuleId,
        scope: HaystackScope<'_>,
        found: Detection,
        match_context: Option<MatchContext>,
    ) {
        let end = DecidedOffset {
            offset: found.end,
            decided: found.decided.max(found.end),
        };
        let compound = self.context.program.compound(rule);
        let counts = match compound.is_some_and(|it| it.needs_every_match()) {
            true => self.is_in_scope(rule, scope),
            false => self.can_hit(rule, scope, end),
        };
        if !counts {
            return;
        }
        let excerpt = match_context.map(|it| it.excerpt(it.start));
        let mut record = self.record(rule, scope, end, excerpt.unwrap_or_default());
        record.start = Some(found.start);
        self.admit(record);
    }

    /// Returns the match of a rule at that end, with the text around it.
    pub(super) fn record(
        &self,
        rule: RuleId,
        scope: HaystackScope<'_>,
        end: DecidedOffset,
        (text, matched): (Box<str>, Range<usize>),
    ) -> RecordedMatch {
        let hit = Hit {
            rule,
            part: self.context.part,
            end: end.offset,
            decided: end.decided,
        };
        let mut record = RecordedMatch {
            hit,
            start: None,
            file: scope.file.cloned(),
            arg: scope.arg.map(|arg| arg.dotted().into()),
            merged: None,
            allowed_texts: Box::default(),
            text: Box::default(),
            matched: matched.clone(),
        };
        record.compare_allowed(self.context.program, &text[matched]);
        record.text = text;
        record
    }

    /// Keeps a match until the end of the call. A condition on the part or the reply is decided on all matches in the
    /// order in which they became certain, and haystacks are not read in that order.
    pub(super) fn queue(&mut self, role: PatternRole, found: FullMatch, record: RecordedMatch) {
        self.results.queued.push(QueuedMatch {
            role,
            found,
            record,
        });
    }

    /// Decides the matches that were queued or counted in this call.
    pub(super) fn resolve_queued(&mut self) {
        if self.results.queued.is_empty() && self.results.counting.is_empty() {
            return;
        }
        let mut queued = std::mem::take(&mut self.results.queued);
        // The role comes last: equal matches are then in one order, whichever haystack was read first.
        queued.sort_by_key(|queued| {
            let FullMatch {
                start,
                end,
                decided,
                ..
            } = queued.found;
            (decided, end.offset, start.offset, queued.role)
        });
        for queued in queued {
            self.resolve(queued);
        }
        self.results
            .resolve_counts(self.context.program, self.state);
    }

    /// Adds a queued match to the condition of its rule, and admits the matches that it completes.
    fn resolve(&mut self, queued: QueuedMatch) {
        let QueuedMatch {
            role,
            mut found,
            record,
        } = queued;
        let Some(compound) = self.context.program.compound(record.hit.rule) else {
            return;
        };
        let conditions = if compound.extent() == ConditionExtent::Message {
            found.start = found.start.in_reply(self.context.order);
            found.end = found.end.in_reply(self.context.order);
            &mut self.state.conditions
        } else {
            &mut self.scope.conditions
        };
        let counters = &mut self.state.counters;
        let complete = conditions.add_match(compound, role, &found, record, counters);
        complete.into_iter().for_each(|record| self.admit(record));
    }

    /// Decides the matches that wait for the end of the part.
    pub(super) fn finish_part(&mut self, decided: u64) {
        // Taken out, because each match is admitted to the scope that the conditions are in.
        let conditions: ConditionState = std::mem::take(&mut self.scope.conditions);
        conditions.finish(0, self, decided);
    }

    /// Returns false if a match of the rule in that scope is known not to count.
    pub(super) fn is_in_scope(&self, rule: RuleId, scope: HaystackScope<'_>) -> bool {
        let rule_scope = self.context.program.scope(rule);
        let in_arg = match (&rule_scope.args, scope.arg) {
            (Some(args), Some(arg)) => args.applies(arg),
            _ => true,
        };
        let file = scope.file.map(|file| &**file);
        in_arg && self.scope.applies(rule_scope, file) != Some(false)
    }

    /// Returns true if a match of the rule at `end` may become its hit: the rule is not known to be out of scope, it has no
    /// hit in this part, or one of this call that is later, and no earlier match waits that is decided alike. Only for
    /// rules of which one match is enough, whatever its text.
    pub(super) fn can_hit(
        &self,
        rule: RuleId,
        scope: HaystackScope<'_>,
        end: DecidedOffset,
    ) -> bool {
        let is_later = |index: usize| self.results.hits[index].is_after(end.offset, end.decided);
        self.is_in_scope(rule, scope)
            && (!self.scope.has_hit(rule)
                || self
                    .results
                    .hit_index(rule, self.context.part)
                    .is_some_and(is_later))
            && !self.scope.waits_before(rule, scope.file, end)
    }
}

impl TextPosition {
    /// Returns the position in the reply, in which parts follow each other in the order of opening.
    fn in_reply(self, order: u32) -> TextPosition {
        TextPosition {
            // 44 bits for the offset: a part of 16 TiB, and a million parts.
            offset: u64::from(order) << 44 | self.offset & ((1 << 44) - 1),
            ..self
        }
    }
}
