//! A lazily built DFA. Its transition table is append-only and shared by all cursors and threads.
//!
//! The search is one state. When it reaches the cut of a pattern it *activates* the suffix of that cut: another
//! state of the same table, which is stepped beside the search until it is dead. Activating a live suffix merges
//! into its state, so a cursor has at most one suffix for each cut.
//!
//! When the table is full, a cursor enters the *fallback*: it carries its NFA states and steps them, exactly and in
//! time linear in the input, until it meets states of the table again. A new *generation* starts with an empty table: at
//! once if it may be larger, otherwise as soon as building the states anew would have been cheaper. Cursors move to it
//! when they next step in the fallback, and the old generation is freed with its last cursor. The tables in use have at
//! most twice the budget together.
//!
//! [`search`] tells how a delta becomes a report: the strategies, the loops that step a state and their invariants.

mod fallback;
mod prefiltered;
pub mod product;
mod search;
mod short_input;
pub(crate) mod speculative;
mod step;

use std::sync::OnceLock;

use super::MatchEvent;
use super::bit_nfa::BitNfa;
use super::cache::{CacheBuilder, Unbuilt};
use super::generations::{self, Generations};
use super::look::LookBehind;
use super::nfa::Nfa;
use super::prefilter::Prefilter;
use super::report::{CutId, EncodedReport, PatternId};
#[cfg(any(test, feature = "test-support"))]
use super::simd::SimdLevel;
use super::single_match::SingleMatch;
use super::suffix::CursorExtra;
use super::sync::{Arc, Mutex, MutexGuard, PoisonError};
use super::table::{PublishedState, StateId, Table, TableConfig};
use super::utf8::{Symbol, Utf8Decoder};
use speculative::Tile;

pub(crate) use search::ShortPath;
pub(crate) use short_input::pad;
pub use short_input::{IdleRun, ShortStep, is_short};

/// The automaton of a set of patterns.
#[derive(Debug)]
pub(crate) struct LazyDfa {
    nfa: Nfa,
    config: TableConfig,
    /// The look-behind after the symbol of each column, for columns of a single ASCII character.
    look_behind_after: Box<[LookBehind]>,
    /// The tiles that a long delta is cut into: the first size as often as it fits, then the second.
    tiles: [Tile; 2],
    filter: Option<Box<Prefilter>>,
    /// The least bytes of a delta that is prefiltered.
    min_prefiltered_len: usize,
    /// True if [`ShortStep`] tells where the search was idle.
    tracks_idle: bool,
    /// Set if each pattern is reported once.
    single_match: Option<SingleMatch>,
    /// The masks for the fallback, built when a cursor first enters it. Building them cannot fail.
    bit_nfa: OnceLock<BitNfa>,
    generations: Generations<DfaCache>,
}

/// A table with its generation number.
type DfaGeneration = generations::Generation<DfaCache>;

/// A table and the state sets behind its rows.
#[derive(Debug)]
struct DfaCache {
    table: Table,
    /// The states without a partial match, by look-behind.
    start_states: [StateId; LookBehind::ALL.len()],
    /// For each of them, true if the end of the haystack decides no pattern there.
    ends_without_match: [bool; LookBehind::ALL.len()],
    /// The state of a suffix that can no longer match.
    dead: StateId,
    /// The start state of the suffix of each cut, by look-behind, where it is built.
    suffixes: Box<[PublishedState]>,
    /// The reports of the cuts that are reached before the first symbol.
    initial_cuts: Box<[EncodedReport]>,
    cache: Mutex<CacheBuilder>,
}

/// The complete search state of one haystack: a state of a table, and the bytes of an incomplete character.
///
/// # Invariant
///
/// Unchecked steps rely on it: while the cursor is not in the fallback, `state` and the states of the suffixes were made
/// by `generation.table`, or `Table::contains` returned true for them.
///
/// - `generation` changes only in `restart`, which sets `state` and drops the suffixes, and in the fallback, in which
///   there are no suffixes and `state` is not used. `try_resume_dfa` sets both from the table of the new generation.
/// - Elsewhere the states are start states of `generation`, or were read from its table in a step.
/// - Two functions set a state that comes from outside, and check it: `accept_short` and
///   [`MemberStates::accept`](product::MemberStates::accept).
#[derive(Clone, Debug)]
pub(crate) struct DfaCursor {
    generation: Arc<DfaGeneration>,
    state: StateId,
    decoder: Utf8Decoder,
    invalid_bytes: u32,
    /// The bytes stepped in the table since a state was last built.
    stepped: u32,
    /// Live suffixes and fallback states; allocated on first use.
    extra: Option<Box<CursorExtra>>,
}

impl DfaCursor {
    /// Returns the number of bytes so far that belong to no character. It saturates.
    pub(crate) fn invalid_bytes(&self) -> u32 {
        self.invalid_bytes
    }

    fn count(&mut self, symbol: Symbol) {
        if !matches!(symbol, Symbol::Char(_)) {
            self.invalid_bytes = self.invalid_bytes.saturating_add(1);
        }
    }

    /// Returns true if the cursor has left the table.
    fn in_fallback(&self) -> bool {
        self.extra
            .as_ref()
            .is_some_and(|extra| extra.nfa_cursor.is_some())
    }

    /// Returns true if no pattern can be reported any more, so that the cursor need not be stepped.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.is_exhausted)
    }

    /// Returns true if the cursor is a single state with a full row: no suffixes, no fallback, no incomplete character.
    #[inline(always)]
    fn is_single_state(&self) -> bool {
        !self.in_fallback()
            && !self.has_suffixes()
            && !self.decoder.is_pending()
            && !self.state.is_sparse()
    }

    fn has_suffixes(&self) -> bool {
        self.extra
            .as_ref()
            .is_some_and(|extra| !extra.suffixes.is_empty())
    }
}

impl DfaCache {
    fn new(nfa: &Nfa, config: TableConfig) -> DfaCache {
        let table = Table::new(&nfa.alphabet, config);
        let mut cache = CacheBuilder::new(nfa, &table, config.budget);
        let (start_states, dead) = cache.build_first_states(&table);
        let suffixes = nfa.cuts.len() * LookBehind::ALL.len();
        let ends_without_match =
            start_states.map(|state| cache.at_end(nfa, &table, state).is_empty());
        DfaCache {
            table,
            start_states,
            ends_without_match,
            dead,
            suffixes: (0..suffixes).map(|_| PublishedState::new()).collect(),
            initial_cuts: cache.initial_cuts().into(),
            cache: Mutex::new(cache),
        }
    }

    /// Returns true if the state has no partial match.
    #[inline(always)]
    fn is_start_state(&self, state: StateId) -> bool {
        // The start states have the lowest rows. Obligation of the caller: no start state reports, which prefilters and
        // `for_full_matches` ensure. A start state that activates a suffix would lie above the match bit.
        state.bits() <= self.start_states[LookBehind::ALL.len() - 1].bits()
    }

    /// Returns true if the state has no partial match, and the end of the haystack decides no pattern there.
    // PERF: most haystacks end in such a state; the lock and the lookup of `CacheBuilder::at_end` are saved.
    #[inline]
    fn ends_without_match(&self, state: StateId) -> bool {
        let index = self.start_states.iter().position(|start| *start == state);
        index.is_some_and(|index| self.ends_without_match[index])
    }

    /// Returns the state at the start of a haystack.
    fn start(&self) -> StateId {
        self.start_states[LookBehind::Start as usize]
    }

    /// Returns the start state of the suffix of a cut, if it is built.
    fn suffix_start(&self, cut: CutId, before: LookBehind) -> Option<StateId> {
        let slot = cut.index() * LookBehind::ALL.len() + before as usize;
        self.suffixes[slot].get()
    }

    /// Publishes the start state of a suffix, whose row is complete.
    fn publish_suffix_start(&self, unbuilt: Unbuilt, state: StateId) {
        if let Unbuilt::SuffixStart(cut, before) = unbuilt {
            let slot = cut.index() * LookBehind::ALL.len() + before as usize;
            self.suffixes[slot].set(state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheBuilder> {
        // No code panics under this lock. If it did, the table would still be whole: a row is published only when it is
        // complete.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The current size of one automaton. It grows with the text it reads, up to its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AutomatonSize {
    /// The number of NFA states, one for each character class.
    pub nfa_states: usize,
    /// The number of columns: the classes of symbols that the patterns distinguish, and two more.
    pub columns: usize,
    /// The number of cuts: places where a pattern is cut before a wide gap. The suffix after a cut is stepped only
    /// once the cut is reached.
    pub cuts: usize,
    /// The number of DFA states built so far.
    pub states: usize,
    /// The bytes of their rows in the transition table.
    pub table_bytes: usize,
    /// The bytes of their state sets.
    pub set_bytes: usize,
    /// True if the budget is spent, so that new states are simulated instead of built.
    pub is_full: bool,
    /// The number of times that a full table was replaced by a larger one, up to the budget. A table before it is kept
    /// while cursors still use it; all of them together have at most twice the budget.
    pub generation: u32,
}

/// The least bytes of a delta that is prefiltered. A shorter one is hardly longer than what must be stepped anyway.
const MIN_PREFILTERED_LEN: usize = 32;

impl LazyDfa {
    /// Compiles the automaton of `nfa`. Its tables grow from generation to generation up to `config.budget`.
    pub(crate) fn new(nfa: Nfa, config: TableConfig) -> LazyDfa {
        LazyDfa::with_first(nfa, config, config.first_generation()).prefiltered()
    }

    /// Adds a prefilter for long deltas, if the patterns and the processor allow one.
    pub(crate) fn prefiltered(mut self) -> LazyDfa {
        let current = self.generations.current();
        // If the start closure reaches a cut, entering a start state activates a suffix. The prefilter jumps to start
        // states and would skip that.
        let mut start_states = current.start_states.iter();
        let activates_suffix = start_states.any(|&state| current.table.is_special(state));
        if !activates_suffix {
            self.filter = Prefilter::new(&self.nfa, self.config.level).map(Box::new);
        }
        self
    }

    /// Compiles an automaton whose [`ShortStep`] tells where the search was idle. Its NFA has
    /// [distinct starts](Nfa::with_distinct_starts) and no cuts.
    pub(crate) fn tracking_idle(nfa: Nfa, config: TableConfig) -> LazyDfa {
        LazyDfa {
            tracks_idle: true,
            ..LazyDfa::new(nfa, config)
        }
    }

    /// Returns true if the tables have these parameters.
    pub(crate) fn has(&self, config: TableConfig) -> bool {
        self.config == config
    }

    /// Compiles an automaton without a prefilter, for profiling on a sample: its first table has `room` bytes.
    pub(crate) fn for_profile(nfa: Nfa, config: TableConfig, room: usize) -> LazyDfa {
        LazyDfa::with_first(nfa, config, config.limited_to(room))
    }

    fn with_first(nfa: Nfa, config: TableConfig, first: TableConfig) -> LazyDfa {
        // A generation replaces one of the same size only while no cursor holds any other.
        let limit = config.size().max(first.size()).saturating_mul(2);
        let generations = Generations::new(DfaCache::new(&nfa, first), first.size(), limit);
        let look_behind_after =
            // Only a trailing byte depends on the look-behind before it, and no ASCII character is one, so any will do
            // here.
            |column| LookBehind::Other.after(nfa.alphabet.flags(column), nfa.look_needs);
        LazyDfa {
            look_behind_after: nfa.alphabet.columns().map(look_behind_after).collect(),
            tiles: [Tile::USUAL, Tile::SMALL],
            filter: None,
            min_prefiltered_len: MIN_PREFILTERED_LEN,
            tracks_idle: false,
            single_match: None,
            bit_nfa: OnceLock::new(),
            nfa,
            config,
            generations,
        }
    }

    /// Compiles an automaton for patterns that match nearly any text: each is reported once, and a cursor is exhausted
    /// when all have been. There are at most [`MAX_SINGLE_MATCH`](super::single_match::MAX_SINGLE_MATCH).
    pub(crate) fn single_match(nfa: Nfa, config: TableConfig) -> LazyDfa {
        LazyDfa {
            single_match: Some(SingleMatch::new(&nfa)),
            ..LazyDfa::new(nfa, config)
        }
    }

    /// Returns true if each pattern is reported once.
    pub(crate) fn is_single_match(&self) -> bool {
        self.single_match.is_some()
    }

    pub(crate) fn nfa(&self) -> &Nfa {
        &self.nfa
    }

    /// Returns the NFA without the states built from it.
    pub(crate) fn into_nfa(self) -> Nfa {
        self.nfa
    }

    /// Returns a cursor at the start of a haystack.
    pub(crate) fn start(&self) -> DfaCursor {
        let generation = self.generations.current();
        let mut cursor = DfaCursor {
            state: generation.start(),
            generation,
            decoder: Utf8Decoder::default(),
            invalid_bytes: 0,
            stepped: 0,
            extra: None,
        };
        self.activate_initial_suffixes(&mut cursor);
        cursor
    }

    /// Moves the cursor to the start of another haystack.
    pub(crate) fn restart(&self, cursor: &mut DfaCursor) {
        // No state is carried over to another haystack, so the move to another table is free here.
        if !self.generations.is_latest(&cursor.generation) {
            // Only if there is a later one: `current` takes a lock.
            cursor.generation = self.generations.current();
        }
        cursor.state = cursor.generation.start();
        cursor.decoder = Utf8Decoder::default();
        cursor.invalid_bytes = 0;
        if let Some(extra) = &mut cursor.extra {
            extra.clear();
        }
        self.activate_initial_suffixes(cursor);
    }

    /// Moves the cursor to a position after `text` at which no match is in progress. The haystack may begin before
    /// `text`. Only for automata without cuts.
    pub(crate) fn restart_after(&self, cursor: &mut DfaCursor, text: &[u8]) {
        self.restart(cursor);
        cursor.state = cursor.generation.start_states[LookBehind::Other as usize];
        // The text is stepped for its look-behind only. Reports are dropped, and so is the state: a match that began in
        // it is not in progress by the contract of this function.
        self.push(cursor, text, ShortPath::Declined, &mut |_| {});
        let fallback = cursor.extra.as_mut();
        let before = match fallback.and_then(|extra| extra.nfa_cursor.take()) {
            // The table was full, and the text was stepped in the fallback. The new position has a state in the table
            // again, since start states are always built.
            Some(nfa_cursor) => nfa_cursor.before,
            None => {
                let cache = cursor.generation.lock();
                cache
                    .state_set(&cursor.generation.table, cursor.state)
                    .before
            }
        };
        cursor.state = cursor.generation.start_states[before as usize];
    }

    /// Returns the prefilter if a delta of `len` bytes is long enough for it.
    fn prefilter_for(&self, len: usize) -> Option<&Prefilter> {
        match len >= self.min_prefiltered_len {
            true => self.filter.as_deref(),
            false => None,
        }
    }

    /// Returns true if a test forces the prefilter, so that its cost does not count.
    fn is_prefilter_forced(&self) -> bool {
        self.min_prefiltered_len < MIN_PREFILTERED_LEN
    }

    /// Returns true if there is no partial match. Only meaningful for an automaton whose NFA has
    /// [distinct starts](Nfa::with_distinct_starts).
    pub(crate) fn is_idle(&self, cursor: &DfaCursor) -> bool {
        if cursor.decoder.is_pending() {
            return false;
        }
        let generation = &*cursor.generation;
        let extra = cursor.extra.as_deref();
        match extra.and_then(|extra| extra.nfa_cursor.as_ref()) {
            // The fallback leaves the start closure out of its set, as the table does.
            Some(nfa_cursor) => nfa_cursor.search.states().next().is_none(),
            None if generation.is_start_state(cursor.state) => true,
            // Sets are interned: a full row without a report and with an empty set is a start state, and those were
            // tested above.
            None if !generation.table.is_special(cursor.state) => false,
            // The set of a state with a report may be empty; only the set itself tells.
            None => generation
                .lock()
                .state_set(&generation.table, cursor.state)
                .is_start_closure(),
        }
    }

    /// Ends a run of bytes: the bytes of an incomplete character belong to none.
    pub(crate) fn flush(&self, cursor: &mut DfaCursor, on: &mut dyn FnMut(MatchEvent)) {
        // Taken out, because `step` borrows the whole cursor. It reads no decoder.
        let mut decoder = std::mem::take(&mut cursor.decoder);
        decoder.flush(|symbol, back| {
            cursor.count(symbol);
            self.nfa.alphabet.symbol(symbol, |column, span| {
                self.step(cursor, column, span.shifted(0, back), on);
            });
        });
        cursor.decoder = decoder;
    }

    /// Returns true if the end of a haystack decides no pattern in a state of the table of `generation`.
    fn ends_without_match(&self, generation: &DfaCache, state: StateId) -> bool {
        !self.nfa.has_look
            || generation.ends_without_match(state)
            || generation
                .lock()
                .at_end(&self.nfa, &generation.table, state)
                .is_empty()
    }

    /// Ends the haystack: calls `on` for the matches that the end decides.
    pub(crate) fn finish(&self, cursor: &mut DfaCursor, on: &mut dyn FnMut(MatchEvent)) {
        if cursor.is_exhausted() {
            return;
        }
        self.flush(cursor, on);
        // Only an assertion can depend on the end; any other match was reported at its last byte.
        if !self.nfa.has_look {
            return;
        }
        let generation = &*cursor.generation;
        if !cursor.in_fallback()
            && !cursor.has_suffixes()
            && generation.ends_without_match(cursor.state)
        {
            return;
        }
        let mut cache = generation.lock();
        let mut report = |patterns: &[PatternId]| {
            for &pattern in patterns {
                on(MatchEvent {
                    pattern,
                    at: 0,
                    back: 0,
                });
            }
        };
        let extra = cursor.extra.as_deref();
        if let Some(nfa_cursor) = extra.and_then(|extra| extra.nfa_cursor.as_ref()) {
            // The search and each suffix by themselves: a set holds the threads of one of them, and the end may decide
            // a pattern in any.
            let search = nfa_cursor.state_set();
            let suffixes = nfa_cursor.suffixes.iter().map(|(_, state_set)| state_set);
            for state_set in [&search].into_iter().chain(suffixes) {
                report(&cache.set_at_end(&self.nfa, state_set));
            }
            return;
        }
        let suffixes = extra.into_iter().flat_map(|extra| &extra.suffixes);
        let states = [cursor.state].into_iter();
        for state in states.chain(suffixes.map(|suffix| suffix.state)) {
            report(&cache.at_end(&self.nfa, &generation.table, state));
        }
    }

    #[cfg(any(test, feature = "test-support"))]
    pub(crate) fn set_tile(&mut self, tile: Tile) {
        self.tiles = [tile; 2];
    }

    #[cfg(any(test, feature = "test-support"))]
    pub(crate) fn set_prefiltered(&mut self, min_len: usize, level: SimdLevel) {
        self.min_prefiltered_len = min_len;
        if let Some(filter) = &mut self.filter {
            filter.level = level;
        }
    }

    #[cfg(test)]
    pub(super) fn forced(&self) -> ([Tile; 2], usize, Option<SimdLevel>) {
        (
            self.tiles,
            self.min_prefiltered_len,
            self.filter.as_ref().map(|filter| filter.level),
        )
    }

    #[cfg(test)]
    pub(crate) fn has_prefilter(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns, in one line, everything that decides how fast deltas are stepped.
    #[cfg(test)]
    pub(super) fn shape(&self) -> String {
        use super::tests::shape::sum;
        let generation = self.generations.current();
        let filter = self.filter.as_ref().map(|filter| filter.shape());
        format!(
            "{} columns #{:08x}; {}; once: {}; {}",
            self.nfa.alphabet.len(),
            sum(self.nfa.alphabet.bytes()),
            generation.lock().shape(),
            self.single_match.is_some(),
            filter.as_deref().unwrap_or("no filter")
        )
    }

    pub(crate) fn size(&self) -> AutomatonSize {
        let generation = self.generations.current();
        let cache = generation.lock();
        AutomatonSize {
            nfa_states: self.nfa.states.len(),
            columns: self.nfa.alphabet.len(),
            cuts: self.nfa.cuts.len(),
            states: cache.states(),
            table_bytes: cache.table_bytes(&generation.table),
            set_bytes: cache.set_bytes(),
            // A full table below the whole budget is replaced by a larger one, so it is no limit yet.
            is_full: cache.is_full() && cache.budget() >= self.config.budget,
            generation: generation.number(),
        }
    }
}

#[cfg(test)]
mod tests;
