//! The steps over one symbol that [`step`](LazyDfa::step) cannot take in a single state: suffixes are stepped and
//! activated, and unbuilt states are built.
//!
//! A step is atomic: it is computed in `Suffix::next` and in [`StepReports`] first. If a state is unbuilt, that state
//! is built and the step starts over; only a complete step changes the cursor and reports.

use super::super::MatchEvent;
use super::super::alphabet::{Column, SymbolSpan};
use super::super::cache::Unbuilt;
use super::super::look::LookBehind;
use super::super::report::{EncodedReport, Reported};
use super::super::suffix::{CursorExtra, StepReports, Suffix};
use super::super::sync::Arc;
use super::super::table::StateId;
use super::{DfaCache, DfaCursor, LazyDfa};

impl LazyDfa {
    /// Moves the suffixes to their next states and reports what the step found.
    pub(super) fn accept_step(
        &self,
        cursor: &mut DfaCursor,
        mut reports: StepReports,
        span: SymbolSpan,
        on: &mut dyn FnMut(MatchEvent),
    ) {
        if let Some(extra) = &mut cursor.extra {
            extra.accept_step(cursor.generation.dead);
        }
        reports.sort();
        for (pattern, is_late) in reports.iter() {
            self.report(&mut cursor.extra, pattern, is_late, span, on);
        }
        if let (Some(single_match), Some(extra)) = (&self.single_match, &mut cursor.extra) {
            single_match.drop_exhausted_suffixes(extra);
        }
    }

    /// Steps search and suffixes through the table. Fails if a state is unbuilt; then only [`Suffix::next`] has
    /// changed.
    pub(super) fn try_step(
        &self,
        cursor: &mut DfaCursor,
        column: Column,
    ) -> Result<(StateId, StepReports), Unbuilt> {
        let DfaCursor {
            generation,
            state: from,
            extra,
            ..
        } = cursor;
        let table = &generation.table;
        let next = table.step(*from, column);
        if next == table.unknown() {
            return Err(Unbuilt::Transition(*from, column));
        }
        // Before the state is entered: a state that text visits often would otherwise send every step here.
        if table.is_promotion_due(next) {
            return Err(Unbuilt::FullRow(next));
        }
        let extra = extra.get_or_insert_default();
        // `next` is scratch space, so resetting it undoes an earlier try. It must be set for every suffix before any
        // cut is activated: `on_report` merges into `next`, whether the suffix was stepped already or not.
        let live = extra.suffixes.len();
        extra
            .suffixes
            .iter_mut()
            .for_each(|suffix| suffix.next = suffix.state);
        let reports = match table.is_special(next) {
            false => self.try_step_suffixes(generation, extra, column),
            true => self.try_step_report(generation, extra, (*from, next), column),
        };
        // Suffixes that this try has activated come after those that were live.
        if reports.is_err() {
            extra.suffixes.truncate(live);
        }
        Ok((next, reports?))
    }

    /// Steps search and suffixes through the table if nothing is reported. Returns false if a state reports or is
    /// unbuilt; the caller then restores the cursor.
    #[inline]
    pub(super) fn step_unreported(&self, cursor: &mut DfaCursor, column: Column) -> bool {
        match self.try_step(cursor, column) {
            Ok((next, reports)) if reports.is_empty() => {
                cursor.state = next;
                if let Some(extra) = &mut cursor.extra {
                    extra.accept_step(cursor.generation.dead);
                }
                true
            }
            _ => false,
        }
    }

    fn try_step_suffixes(
        &self,
        generation: &DfaCache,
        extra: &mut CursorExtra,
        column: Column,
    ) -> Result<StepReports, Unbuilt> {
        let mut reports = StepReports::default();
        let table = &generation.table;
        for suffix in &mut extra.suffixes {
            // Read from `next`, not from `state`: a late cut may just have merged a new copy into this suffix.
            let next = table.step(suffix.next, column);
            if table.is_special(next) {
                if next == table.unknown() {
                    return Err(Unbuilt::Transition(suffix.next, column));
                }
                if table.is_promotion_due(next) {
                    return Err(Unbuilt::FullRow(next));
                }
                reports.add_reports(table, next);
            }
            suffix.next = next;
        }
        Ok(reports)
    }

    /// Completes a step of the search into a state with a report.
    fn try_step_report(
        &self,
        generation: &DfaCache,
        extra: &mut CursorExtra,
        (from, to): (StateId, StateId),
        column: Column,
    ) -> Result<StepReports, Unbuilt> {
        // The order is the order of positions. A late cut ends before the symbol, so its suffix is activated first and
        // then steps over the symbol with the others. A cut of `now` ends after the symbol, so its suffix is not
        // stepped.
        let report = generation.table.report(to);
        // The look-behind of a late cut is that of the position before the symbol, hence `from`.
        let mut early = StepReports::default();
        for late in report.late {
            let late = EncodedReport::load(late);
            self.on_report(generation, extra, from, late, true, &mut early)?;
        }
        let mut reports = self.try_step_suffixes(generation, extra, column)?;
        reports.append(early);
        for now in report.now {
            let now = EncodedReport::load(now);
            self.on_report(generation, extra, to, now, false, &mut reports)?;
        }
        Ok(reports)
    }

    /// Handles one entry of a report, of the search in state `at`: collects a pattern, or activates the suffix of a
    /// cut.
    #[inline]
    fn on_report(
        &self,
        generation: &DfaCache,
        extra: &mut CursorExtra,
        at: StateId,
        report: EncodedReport,
        is_late: bool,
        reports: &mut StepReports,
    ) -> Result<(), Unbuilt> {
        let cut = match report.decode() {
            Reported::Cut(cut) => cut,
            Reported::Pattern(pattern) => {
                reports.push(pattern, is_late);
                return Ok(());
            }
        };
        if self
            .single_match
            .as_ref()
            .is_some_and(|single_match| single_match.is_cut_exhausted(extra, cut))
        {
            return Ok(());
        }
        let DfaCache { table, dead, .. } = generation;
        let suffixes = &mut extra.suffixes;
        let index = suffixes.iter().position(|suffix| suffix.cut == cut);
        // A live suffix merges with the new copy. One that has died in this step starts anew, as if it had not been
        // live.
        let next = match index.map(|index| suffixes[index].next) {
            Some(live) if live != *dead => match table.reentry(live) {
                next if next == table.unknown() => return Err(Unbuilt::Reentry(live)),
                next if table.is_promotion_due(next) => return Err(Unbuilt::FullRow(next)),
                next => next,
            },
            _ => {
                let before = table.before(at);
                let first = generation.suffix_start(cut, before);
                first.ok_or(Unbuilt::SuffixStart(cut, before))?
            }
        };
        match index {
            Some(index) => suffixes[index].next = next,
            // `state` is not read before `accept_step` overwrites it.
            None => suffixes.push(Suffix {
                cut,
                state: *dead,
                next,
            }),
        }
        // The state reports, or has a sparse row and no report. It has consumed nothing since the cut: it has no late
        // report, and cuts after a cut are passed, so its list holds patterns only.
        if table.is_special(next) {
            table.report(next).now.iter().for_each(|cell| {
                reports.push(EncodedReport::load(cell).pattern(), is_late);
            });
        }
        Ok(())
    }

    /// Activates the suffixes of the cuts that are reached before the first symbol.
    pub(super) fn activate_initial_suffixes(&self, cursor: &mut DfaCursor) {
        if cursor.generation.initial_cuts.is_empty() {
            return;
        }
        while !cursor.in_fallback() {
            match self.try_activate_initial(cursor) {
                Ok(()) => {
                    let dead = cursor.generation.dead;
                    return cursor
                        .extra
                        .iter_mut()
                        .for_each(|extra| extra.accept_step(dead));
                }
                Err(unbuilt) => {
                    // At the start of a haystack no other suffix is live, so starting over loses nothing.
                    cursor.extra.get_or_insert_default().suffixes.clear();
                    self.build(cursor, unbuilt);
                }
            }
        }
        if let Some(nfa_cursor) = cursor
            .extra
            .as_mut()
            .and_then(|extra| extra.nfa_cursor.as_mut())
        {
            let mut cache = cursor.generation.lock();
            let reports = &mut StepReports::default();
            for &cut in &cursor.generation.initial_cuts {
                nfa_cursor.on_report(
                    &self.nfa,
                    &mut cache,
                    cut,
                    LookBehind::Start,
                    false,
                    reports,
                );
            }
        }
    }

    fn try_activate_initial(&self, cursor: &mut DfaCursor) -> Result<(), Unbuilt> {
        let DfaCursor {
            generation, extra, ..
        } = cursor;
        let extra = extra.get_or_insert_default();
        extra.suffixes.clear();
        for &cut in &generation.initial_cuts {
            // No pattern matches the empty text, so nothing is reported here.
            let reports = &mut StepReports::default();
            self.on_report(generation, extra, generation.start(), cut, false, reports)?;
        }
        Ok(())
    }

    /// Builds an unbuilt state. If there is no room, moves the cursor into the fallback.
    #[cold]
    pub(super) fn build(&self, cursor: &mut DfaCursor, unbuilt: Unbuilt) {
        let generation = Arc::clone(&cursor.generation);
        let mut cache = generation.lock();
        // The cache counts them as use of the states that it has built, and stops building where text needs new states
        // all the time.
        let stepped = std::mem::take(&mut cursor.stepped);
        match cache.build(&self.nfa, &generation.table, unbuilt, stepped) {
            Some(state) => generation.publish_suffix_start(unbuilt, state),
            None => self.enter_fallback(cursor, &cache),
        }
    }
}
