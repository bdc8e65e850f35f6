//! The fallback for a full table: a cursor leaves the table with its NFA states, steps them, and returns.

use super::super::MatchEvent;
use super::super::alphabet::{Column, SymbolSpan};
use super::super::bit_nfa::BitNfa;
use super::super::cache::CacheBuilder;
use super::super::report::CutId;
use super::super::suffix::{NfaCursor, StepReports, Suffix};
use super::super::sync::Arc;
use super::{DfaCache, DfaCursor, LazyDfa};

/// The most symbols that a cursor in the fallback steps before it looks its states up in the table again.
const MAX_WAIT: u32 = 1023;

/// The bytes stepped in the fallback before the lock is released for others.
const FALLBACK_BATCH: usize = 4096;

impl LazyDfa {
    /// Steps under the lock until the table has the states again, or the batch or the input ends. Returns the index of
    /// the next byte.
    pub(super) fn push_fallback(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut dyn FnMut(MatchEvent),
    ) -> usize {
        let mut generation = Arc::clone(&cursor.generation);
        let mut cache = generation.lock();
        let largest = self.config.budget;
        if !self.generations.is_latest(&generation) || cache.should_replace_cache(largest) {
            // `move_to_current` takes this lock again, for the budget.
            drop(cache);
            self.move_to_current(cursor);
            // NFA states mean the same in every generation, so a cursor in the fallback can move. State ids do not.
            generation = Arc::clone(&cursor.generation);
            cache = generation.lock();
        }
        // In batches: other cursors need this lock to build states.
        let end = bytes.len().min(at + FALLBACK_BATCH);
        while at < end && !self.try_resume_dfa(cursor, &mut cache) {
            at = self.step_symbol(cursor, bytes, at, |cursor, column, span| {
                self.step_fallback(&mut cache, cursor, column, span, on);
            });
        }
        at
    }

    /// Moves a cursor in the fallback to another generation, if there is one or one may start.
    pub(super) fn move_to_current(&self, cursor: &mut DfaCursor) {
        let previous = cursor.generation.lock().budget();
        let next = self.config.next_generation(previous);
        let make = |_| DfaCache::new(&self.nfa, next);
        self.generations
            .move_to_current(&mut cursor.generation, next.size(), make);
    }

    /// Moves the cursor into the fallback: replaces its states by their NFA states.
    pub(super) fn enter_fallback(&self, cursor: &mut DfaCursor, cache: &CacheBuilder) {
        let table = &cursor.generation.table;
        let state = cursor.state;
        let extra = cursor.extra.get_or_insert_default();
        if extra.nfa_cursor.is_some() {
            return;
        }
        // The buffer stays with the cursor, for its return to the table.
        let suffixes = extra.suffixes.drain(..);
        let state_set = cache.state_set(table, state);
        let mut search = std::mem::take(&mut extra.bit_states);
        search.replace(self.bit_nfa(), state_set.states);
        extra.nfa_cursor = Some(NfaCursor {
            before: state_set.before,
            search,
            suffixes: suffixes
                .map(|suffix| (suffix.cut, cache.state_set(table, suffix.state)))
                .collect(),
            wait: extra.backoff,
        });
    }

    /// Returns the cursor to the table if its wait is over and the table has the states or room for them.
    fn try_resume_dfa(&self, cursor: &mut DfaCursor, cache: &mut CacheBuilder) -> bool {
        let Some(extra) = &mut cursor.extra else {
            return true;
        };
        let Some(nfa_cursor) = &mut extra.nfa_cursor else {
            return true;
        };
        if nfa_cursor.wait > 0 {
            nfa_cursor.wait -= 1;
            return false;
        }
        // A lookup encodes and hashes all sets, which costs as much as many steps. Doubling the wait after each
        // failure keeps the lookups a small share of the time, and the limit bounds how late a cursor returns.
        extra.backoff = (2 * extra.backoff + 1).min(MAX_WAIT);
        nfa_cursor.wait = extra.backoff;
        let table = &cursor.generation.table;
        let Some(state) = cache.intern_set(&self.nfa, table, &nfa_cursor.state_set()) else {
            return false;
        };
        let to_suffix = |(cut, state_set): &(CutId, _)| {
            let state = cache.intern_set(&self.nfa, table, state_set)?;
            let (cut, next) = (*cut, state);
            Some(Suffix { cut, state, next })
        };
        // All states return or none does. Those that were interned before a failure stay in the table, which harms
        // nothing.
        let Some(suffixes) = nfa_cursor
            .suffixes
            .iter()
            .map(to_suffix)
            .collect::<Option<Vec<Suffix>>>()
        else {
            return false;
        };
        cursor.state = state;
        // Bytes stepped outside the table say nothing about how well the table works.
        cursor.stepped = 0;
        // The cursor may soon leave the table again; it then waits for less.
        extra.backoff /= 4;
        extra.suffixes.extend(suffixes);
        extra.bit_states = extra
            .nfa_cursor
            .take()
            .map(|nfa_cursor| nfa_cursor.search)
            .unwrap_or_default();
        true
    }

    pub(super) fn step_fallback(
        &self,
        cache: &mut CacheBuilder,
        cursor: &mut DfaCursor,
        column: Column,
        span: SymbolSpan,
        on: &mut dyn FnMut(MatchEvent),
    ) {
        cache.record_fallback_step();
        let mut reports = StepReports::default();
        let extra = cursor
            .extra
            .as_mut()
            .expect("the cursor has left the table");
        let nfa_cursor = extra
            .nfa_cursor
            .as_mut()
            .expect("the cursor has left the table");
        nfa_cursor.step(&self.nfa, self.bit_nfa(), cache, column, &mut reports);
        self.accept_step(cursor, reports, span, on);
    }

    fn bit_nfa(&self) -> &BitNfa {
        self.bit_nfa.get_or_init(|| BitNfa::new(&self.nfa))
    }
}
