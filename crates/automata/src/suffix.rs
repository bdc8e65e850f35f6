//! The parts of a cursor besides its state: the live suffixes of cut patterns, and its NFA states in the fallback.

use super::alphabet::Column;
use super::bit_nfa::{BitNfa, BitStateSet};
use super::cache::CacheBuilder;
use super::determinize::StateSet;
use super::look::LookBehind;
use super::nfa::Nfa;
use super::report::{CutId, EncodedReport, PatternId, Reported};
use super::table::short_input::ShortInput;
use super::table::{BLOCK, StateId, Table};

/// A live suffix: the automaton after a cut that was reached. A cursor has at most one for each cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suffix {
    pub(super) cut: CutId,
    pub(super) state: StateId,
    /// The state after the symbols of the step in progress.
    pub(super) next: StateId,
}

/// The rarely used parts of a cursor. Once allocated they are kept, so that nothing is allocated again.
#[derive(Clone, Debug, Default)]
pub(super) struct CursorExtra {
    pub(super) suffixes: Vec<Suffix>,
    pub(super) nfa_cursor: Option<NfaCursor>,
    /// Scratch space: the suffixes before a step that may be undone.
    pub(super) saved: Vec<Suffix>,
    /// The symbols that the last wait of the fallback took.
    pub(super) backoff: u32,
    /// Scratch space for [`NfaCursor::search`].
    pub(super) bit_states: BitStateSet,
    /// For patterns that are reported once: those that have been, as bits, and whether all have.
    pub(super) reported: u64,
    pub(super) is_exhausted: bool,
}

/// The NFA states of a cursor in the fallback.
#[derive(Clone, Debug)]
pub(super) struct NfaCursor {
    pub(super) before: LookBehind,
    pub(super) search: BitStateSet,
    pub(super) suffixes: Vec<(CutId, StateSet)>,
    /// The symbols until the states are next looked up in the table.
    pub(super) wait: u32,
}

/// The reports of a step that is not complete: patterns, each with whether it ended before the symbol.
#[derive(Debug, Default)]
pub(super) struct StepReports(Vec<(PatternId, bool)>);

impl StepReports {
    pub(super) fn push(&mut self, pattern: PatternId, is_late: bool) {
        self.0.push((pattern, is_late));
    }

    /// Adds the report of a suffix's state.
    pub(super) fn add_reports(&mut self, table: &Table, state: StateId) {
        let report = table.report(state);
        for (list, is_late) in [(report.late, true), (report.now, false)] {
            // Cuts after a cut are passed, so there are only patterns.
            let patterns = list.iter().map(|cell| EncodedReport::load(cell).pattern());
            patterns.for_each(|pattern| self.push(pattern, is_late));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn append(&mut self, mut other: StepReports) {
        self.0.append(&mut other.0);
    }

    /// Sorts the reports, those that ended before the symbol first, and removes duplicates.
    pub(super) fn sort(&mut self) {
        if self.0.len() > 1 {
            // `dedup`, because a pattern with several gaps can be reported by several suffixes at one symbol. Keys are
            // whole elements, so the unstable sort is deterministic.
            self.0
                .sort_unstable_by_key(|&(pattern, is_late)| (!is_late, pattern));
            self.0.dedup();
        }
    }

    /// Returns each pattern, and whether it ended before the symbol.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PatternId, bool)> {
        self.0.iter().copied()
    }
}

impl CursorExtra {
    /// Returns true if there are no suffixes and the cursor is in the table.
    pub(super) fn is_empty(&self) -> bool {
        self.suffixes.is_empty() && self.nfa_cursor.is_none()
    }

    /// Resets everything for another haystack.
    pub(super) fn clear(&mut self) {
        self.suffixes.clear();
        self.nfa_cursor = None;
        self.reported = 0;
        self.is_exhausted = false;
    }

    /// Steps the suffixes over a short delta. Returns false if a state was special; then only `next` has changed.
    ///
    /// # Safety
    ///
    /// 1. `table` is that of the cursor.
    #[inline]
    #[allow(unsafe_code, reason = "unchecked steps")]
    pub(super) unsafe fn try_step_short(&mut self, table: &Table, short: &ShortInput) -> bool {
        let mut all = 0;
        for suffix in &mut self.suffixes {
            // No early exit: few suffixes are live, and nearly every delta is accepted. The bits include the entry bit
            // of the state (invariant 3 of `lazy_dfa::search`).
            // SAFETY: 1. the states of suffixes are of the table of their cursor (invariant of `DfaCursor`).
            let (next, bits) = unsafe { table.step_classified(short, suffix.state) };
            suffix.next = next;
            all |= bits;
        }
        !table.any_special(all)
    }

    /// Steps the suffixes over a block. Returns false if a state was special; then only `next` has changed.
    ///
    /// # Safety
    ///
    /// 1. `table` is that of the cursor.
    #[inline]
    #[allow(unsafe_code, reason = "unchecked steps")]
    pub(super) unsafe fn try_step_block(&mut self, table: &Table, columns: [u8; BLOCK]) -> bool {
        let mut bits = 0;
        for suffix in &mut self.suffixes {
            // Invariant 3 of `lazy_dfa::search`: `step_block` does not look at the state that it starts from.
            bits |= suffix.state.entry_bits();
            // SAFETY: 1. the states of suffixes are of the table of their cursor (invariant of `DfaCursor`).
            suffix.next = unsafe { table.step_block(suffix.state, columns, &mut bits) };
        }
        !table.any_special(bits)
    }

    /// Moves the suffixes to their next states and drops the dead ones.
    #[inline]
    pub(super) fn accept_step(&mut self, dead: StateId) {
        let mut at = 0;
        while let Some(suffix) = self.suffixes.get_mut(at) {
            suffix.state = suffix.next;
            if suffix.state == dead {
                // The order of suffixes has no meaning, because reports are sorted. The last one is now at `at`, so
                // `at` stays.
                self.suffixes.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }
}

impl NfaCursor {
    /// Returns the state set of the search.
    pub(super) fn state_set(&self) -> StateSet {
        StateSet {
            cut: None,
            before: self.before,
            states: self.search.states().collect(),
        }
    }

    /// Steps search and suffixes over a symbol of this column.
    pub(super) fn step(
        &mut self,
        nfa: &Nfa,
        bit_nfa: &BitNfa,
        cache: &mut CacheBuilder,
        column: Column,
        reports: &mut StepReports,
    ) {
        let before = self.before;
        self.before = cache.step_bit_states(nfa, bit_nfa, &mut self.search, before, column);
        let successor = &mut cache.determinizer.successor;
        if self.suffixes.is_empty() && successor.now.is_empty() && successor.late.is_empty() {
            return;
        }
        // Taken out, because stepping a suffix overwrites the successor; given back below, so that the buffers are
        // reused.
        let (now, late) = (
            std::mem::take(&mut successor.now),
            std::mem::take(&mut successor.late),
        );
        // The order of `LazyDfa::try_step_report`: suffixes of late cuts start before the symbol and step over it,
        // those of the other cuts start after it.
        for &late in &late {
            self.on_report(nfa, cache, late, before, true, reports);
        }
        self.suffixes.retain_mut(|(_, state_set)| {
            cache.step_set(nfa, state_set, column);
            let successor = &mut cache.determinizer.successor;
            successor
                .late
                .iter()
                .for_each(|report| reports.push(report.pattern(), true));
            successor
                .now
                .iter()
                .for_each(|report| reports.push(report.pattern(), false));
            std::mem::swap(state_set, &mut successor.state_set);
            !state_set.states.is_empty()
        });
        // The look-behind after the symbol. That of the late cuts was the one before it.
        let before = self.before;
        for &now in &now {
            self.on_report(nfa, cache, now, before, false, reports);
        }
        cache.determinizer.successor.now = now;
        cache.determinizer.successor.late = late;
    }

    /// Handles one entry of a report: collects a pattern, or activates the suffix of a cut.
    pub(super) fn on_report(
        &mut self,
        nfa: &Nfa,
        cache: &mut CacheBuilder,
        report: EncodedReport,
        before: LookBehind,
        is_late: bool,
        reports: &mut StepReports,
    ) {
        match report.decode() {
            Reported::Pattern(pattern) => reports.push(pattern, is_late),
            Reported::Cut(cut) => self.activate_suffix(nfa, cache, cut, before, is_late, reports),
        }
    }

    /// Activates the suffix of a cut, live or not.
    fn activate_suffix(
        &mut self,
        nfa: &Nfa,
        cache: &mut CacheBuilder,
        cut: CutId,
        before: LookBehind,
        is_late: bool,
        reports: &mut StepReports,
    ) {
        let known = self.suffixes.iter_mut().find(|suffix| suffix.0 == cut);
        let determinizer = &mut cache.determinizer;
        determinizer.activate_suffix(
            nfa,
            known
                .as_ref()
                .map_or(&StateSet::default(), |suffix| &suffix.1),
            cut,
            before,
        );
        let successor = &mut determinizer.successor;
        successor
            .now
            .iter()
            .for_each(|report| reports.push(report.pattern(), is_late));
        match known {
            Some(suffix) => std::mem::swap(&mut suffix.1, &mut successor.state_set),
            // The cut was the end of a pattern, or its first assertion failed. There is nothing left to step.
            None if successor.is_dead() => {}
            None => self
                .suffixes
                .push((cut, std::mem::take(&mut successor.state_set))),
        }
    }
}
