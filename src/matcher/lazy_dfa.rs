//! A lazily built DFA whose transition table is append-only, shared by all streams and threads.
//!
//! The search itself is one state. Where it reaches the cut of a pattern it *wakes* a tail, another state
//! of the same table, which is stepped besides until it is dead. What wakes a live tail once more is
//! merged into it, so there is one for each cut at most.
//!
//! When the budget is spent a cursor carries its NFA states itself and steps them, exactly and in
//! time linear in the input, until it meets states of the table again. As soon as that is worth it, a new
//! *generation* begins with an empty table: cursors move to it when they next step past the budget, and
//! the old one goes with its last cursor. There are never more than two.

mod fallback;
mod long_input;
mod search;
mod short_input;
mod step;

use std::sync::OnceLock;

use super::MatchEvent;
use super::bit_nfa::BitNfa;
use super::cache::{CacheBuilder, Unbuilt};
use super::generations::{self, Generations};
use super::look::LookBehind;
use super::nfa::Nfa;
use super::prefilter::Prefilter;
use super::simd::SimdLevel;
use super::single_match::SingleMatch;
use super::speculative::Tile;
use super::suffix::CursorExtra;
use super::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering, PoisonError};
use super::table::{SHORT, StateId, Table, TableConfig};
use super::utf8::{Symbol, Utf8Decoder};

pub(crate) use short_input::{IdleRun, is_short};

/// The automaton of several patterns.
#[derive(Debug)]
pub(crate) struct LazyDfa {
    nfa: Nfa,
    config: TableConfig,
    /// What stands behind each column, where that is one ASCII character.
    look_behind_after: Box<[LookBehind]>,
    /// Long deltas are cut into the first ones, then what is left into the second.
    tiles: [Tile; 2],
    filter: Option<Box<Prefilter>>,
    /// Least bytes of a delta that is filtered.
    prefiltered: usize,
    /// Where each pattern is reported once.
    single_match: Option<SingleMatch>,
    /// For stepping outside the table; made when that happens first.
    bit_nfa: OnceLock<BitNfa>,
    generations: Generations<DfaCache>,
}

/// One of the tables, with its number.
type Generation = generations::Generation<DfaCache>;

/// A table and what its states stand for.
#[derive(Debug)]
struct DfaCache {
    table: Table,
    /// The states that nothing is in progress in, by what stands before.
    start_states: [StateId; LookBehind::ALL.len()],
    /// The state of tails that are over.
    dead: StateId,
    /// The first state of the tail of each cut, by what stands before; 0 where it is not built.
    suffixes: Box<[AtomicU32]>,
    /// Cuts that a haystack begins with.
    initial_cuts: Box<[u32]>,
    cache: Mutex<CacheBuilder>,
}

/// The whole matching state of one haystack: a state of a table, and the bytes of an incomplete
/// character.
#[derive(Clone, Debug)]
pub(crate) struct DfaCursor {
    generation: Arc<Generation>,
    state: StateId,
    decoder: Utf8Decoder,
    invalid_bytes: u32,
    /// Bytes stepped in the table since something had to be built.
    stepped: u32,
    /// Live tails, and NFA states of its own.
    extra: Option<Box<CursorExtra>>,
}

impl DfaCursor {
    /// Number of bytes so far that belong to no character; saturates.
    pub(crate) fn invalid_bytes(&self) -> u32 {
        self.invalid_bytes
    }

    fn count(&mut self, symbol: Symbol) {
        if !matches!(symbol, Symbol::Char(_)) {
            self.invalid_bytes = self.invalid_bytes.saturating_add(1);
        }
    }

    /// Whether it has left the table.
    fn in_fallback(&self) -> bool {
        self.extra
            .as_ref()
            .is_some_and(|extra| extra.nfa_cursor.is_some())
    }

    /// The fast path for a delta of 1 to [`SHORT`] bytes that brings nothing special: steps it and copies it
    /// to `room`, with zeros behind it. Says whether it was that, and the caller agrees; if not, nothing has
    /// happened but in `room`.
    #[inline(always)]
    pub(crate) fn push_short(
        &mut self,
        bytes: &[u8],
        room: &mut [u8; SHORT],
        agrees: impl FnOnce(&[u8; SHORT]) -> bool,
    ) -> bool {
        let is_alone = match &self.extra {
            None => true,
            Some(extra) => extra.is_empty(),
        };
        if !is_alone || self.decoder.is_pending() {
            return false;
        }
        let table = &self.generation.table;
        let (state, bits) = table.push_short(self.state, bytes, room);
        if table.any_special(bits) || !agrees(room) {
            return false;
        }
        self.state = state;
        self.stepped = self.stepped.wrapping_add(bytes.len() as u32);
        self.decoder.passed_ascii();
        true
    }

    /// Whether nothing will be reported any more, so that it need not be stepped.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.is_exhausted)
    }

    /// Whether the search is all there is, in a full row: no tails, no states outside the table, no incomplete
    /// character.
    #[inline(always)]
    fn is_alone(&self) -> bool {
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
        let (start_states, dead) = cache.first_states(&table);
        let suffixes = nfa.cuts.len() * LookBehind::ALL.len();
        DfaCache {
            table,
            start_states,
            dead,
            suffixes: (0..suffixes).map(|_| AtomicU32::new(0)).collect(),
            initial_cuts: cache.initial_cuts().into(),
            cache: Mutex::new(cache),
        }
    }

    /// Whether nothing is in progress in the state.
    #[inline(always)]
    fn is_base(&self, state: StateId) -> bool {
        // Their rows are the first ones.
        state.bits() <= self.start_states[LookBehind::ALL.len() - 1].bits()
    }

    /// The state that matching of a haystack begins in.
    fn start(&self) -> StateId {
        self.start_states[LookBehind::Start as usize]
    }

    /// The first state of the tail of a cut, if it is built.
    fn suffix_start(&self, cut: u32, before: LookBehind) -> Option<StateId> {
        let slot = cut as usize * LookBehind::ALL.len() + before as usize;
        StateId::of_bits(self.suffixes[slot].load(Ordering::Acquire))
    }

    /// Publishes the first state of a tail; the table holds everything else already.
    fn publish_suffix_start(&self, unbuilt: Unbuilt, state: StateId) {
        if let Unbuilt::SuffixStart(cut, before) = unbuilt {
            let slot = cut as usize * LookBehind::ALL.len() + before as usize;
            self.suffixes[slot].store(state.bits(), Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheBuilder> {
        // Nothing panics while the lock is held; if it ever did, the table would still be whole,
        // because a row is published only when it is complete.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one automaton holds now: it grows with the text that it reads, up to its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AutomatonSize {
    /// States of the NFA, one a character class.
    pub nfa_states: usize,
    /// Classes of symbols that the patterns tell apart, and two columns of the table's own.
    pub columns: usize,
    /// Places where patterns are cut before a wide gap; what follows is stepped only once it is reached.
    pub cuts: usize,
    /// States built so far.
    pub states: usize,
    /// Bytes of their rows in the transition table.
    pub table_bytes: usize,
    /// Bytes of what the states stand for.
    pub set_bytes: usize,
    /// Whether the budget is spent, so that new states are stepped instead of built.
    pub is_full: bool,
    /// How often a full table was replaced, by a larger one up to the budget. While streams still use the one before, that is kept
    /// besides: never more than two.
    pub generation: u32,
}

/// Least bytes of a delta that is filtered. Shorter ones are hardly longer than what a filter has to step.
const PREFILTERED: usize = 32;

impl LazyDfa {
    /// The automaton of `nfa`, whose tables grow from one generation to the next until they are as said.
    pub(crate) fn new(nfa: Nfa, config: TableConfig) -> LazyDfa {
        LazyDfa::with_first(nfa, config, config.of_generation(0)).prefiltered()
    }

    /// The same with a filter for long deltas, where patterns and processor allow one.
    pub(crate) fn prefiltered(mut self) -> LazyDfa {
        let current = self.generations.current();
        // Where a new search reaches a cut at once, its tail is woken on the way into a base. A filter jumps
        // there.
        let mut start_states = current.start_states.iter();
        let has_woken =
            start_states.any(|&start_closures| current.table.is_special(start_closures));
        if !has_woken {
            self.filter = Prefilter::new(&self.nfa, self.config.level).map(Box::new);
        }
        self
    }

    /// Whether it has such tables.
    pub(crate) fn has(&self, config: TableConfig) -> bool {
        self.config == config
    }

    /// The same without a filter, for short deltas only, with room for that much in the first table.
    pub(crate) fn for_profile(nfa: Nfa, config: TableConfig, room: usize) -> LazyDfa {
        let first = TableConfig {
            budget: config.budget.min(room),
            ..config
        };
        LazyDfa::with_first(nfa, config, first)
    }

    fn with_first(nfa: Nfa, config: TableConfig, first: TableConfig) -> LazyDfa {
        let first = DfaCache::new(&nfa, first);
        let look_behind_after =
            |column| LookBehind::Other.after(nfa.alphabet.flags(column), nfa.look_needs);
        LazyDfa {
            look_behind_after: (0..nfa.alphabet.len()).map(look_behind_after).collect(),
            tiles: [Tile::USUAL, Tile::SMALL],
            filter: None,
            prefiltered: PREFILTERED,
            single_match: None,
            bit_nfa: OnceLock::new(),
            nfa,
            config,
            generations: Generations::new(first),
        }
    }

    /// The same for patterns that hit in nearly any text: each is reported once, and a cursor is through
    /// when none can be any more. There are at most [`MAX_SINGLE_MATCH`](super::single_match::MOST_ONCE).
    pub(crate) fn single_match(nfa: Nfa, config: TableConfig) -> LazyDfa {
        LazyDfa {
            single_match: Some(SingleMatch::new(&nfa)),
            ..LazyDfa::new(nfa, config)
        }
    }

    pub(crate) fn nfa(&self) -> &Nfa {
        &self.nfa
    }

    /// The NFA, without what was built of it.
    pub(crate) fn into_nfa(self) -> Nfa {
        self.nfa
    }

    /// A cursor at the start of a haystack.
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

    /// Takes the cursor to the start of another haystack.
    pub(crate) fn restart(&self, cursor: &mut DfaCursor) {
        if !self.generations.is_latest(&cursor.generation) {
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

    /// Steps the bytes; gives each pattern that becomes certain to match.
    #[inline]
    pub(crate) fn push(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        on: &mut impl FnMut(MatchEvent),
    ) {
        if cursor.is_exhausted() {
            return;
        }
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        if bytes.len() >= self.prefiltered
            && let Some(filter) = &self.filter
            && (self.prefiltered < PREFILTERED || filter.is_worth(bytes.len()))
        {
            return self.push_prefiltered(filter, cursor, bytes, on);
        }
        let (mut at, mut stepped) = (0, 0);
        for tile in self.tiles {
            if bytes.len() - at >= tile.least {
                at = self.push_tiles(tile, cursor, bytes, at, &mut stepped, on);
            }
        }
        self.push_plain(cursor, bytes, at, on);
        if bytes.len() >= self.prefiltered
            && let Some(filter) = &self.filter
        {
            filter.record_unfiltered(bytes.len(), stepped + bytes.len() - at);
        }
    }

    /// Whether no match is in progress: what comes next begins anew. Means something only for an
    /// automaton whose NFA is [layered](Nfa::layered).
    pub(crate) fn is_idle(&self, cursor: &DfaCursor) -> bool {
        if cursor.decoder.is_pending() {
            return false;
        }
        let generation = &*cursor.generation;
        let extra = cursor.extra.as_deref();
        match extra.and_then(|extra| extra.nfa_cursor.as_ref()) {
            Some(nfa_cursor) => nfa_cursor.search.states().next().is_none(),
            None if generation.is_base(cursor.state) => true,
            None if !generation.table.is_special(cursor.state) => false,
            None => generation
                .lock()
                .state_set(&generation.table, cursor.state)
                .is_base(),
        }
    }

    /// Ends the run of bytes that could complete a character: what is pending belongs to none.
    pub(crate) fn flush(&self, cursor: &mut DfaCursor, on: &mut impl FnMut(MatchEvent)) {
        let mut decoder = std::mem::take(&mut cursor.decoder);
        decoder.flush(|symbol, back| {
            cursor.count(symbol);
            self.nfa.alphabet.symbol(symbol, |column, place| {
                self.step(cursor, column, place.after(0, back), on);
            });
        });
        cursor.decoder = decoder;
    }

    /// Ends the haystack: gives the patterns that needed to know.
    pub(crate) fn finish(&self, cursor: &mut DfaCursor, on: &mut impl FnMut(MatchEvent)) {
        if cursor.is_exhausted() {
            return;
        }
        self.flush(cursor, on);
        if !self.nfa.has_look {
            return;
        }
        let generation = Arc::clone(&cursor.generation);
        let mut cache = generation.lock();
        self.enter_fallback(cursor, &cache);
        let nfa_cursor = cursor
            .extra
            .as_mut()
            .and_then(|extra| extra.nfa_cursor.take());
        let nfa_cursor = nfa_cursor.expect("the cursor has left the table");
        let search = nfa_cursor.state_set();
        let suffixes = nfa_cursor.suffixes.iter().map(|(_, state_set)| state_set);
        for state_set in [&search].into_iter().chain(suffixes) {
            for pattern in cache.at_end(&self.nfa, state_set) {
                on(MatchEvent {
                    pattern,
                    at: 0,
                    back: 0,
                });
            }
        }
    }

    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "forced by tests and examples/collide.rs")
    )]
    pub(crate) fn set_tile(&mut self, tile: Tile) {
        self.tiles = [tile; 2];
    }

    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "forced by tests and examples/collide.rs")
    )]
    pub(crate) fn set_prefiltered(&mut self, least: usize, level: SimdLevel) {
        self.prefiltered = least;
        if let Some(filter) = &mut self.filter {
            filter.level = level;
        }
    }

    #[cfg(test)]
    pub(super) fn forced(&self) -> ([Tile; 2], usize, Option<SimdLevel>) {
        (
            self.tiles,
            self.prefiltered,
            self.filter.as_ref().map(|filter| filter.level),
        )
    }

    #[cfg(test)]
    pub(crate) fn has_prefilter(&self) -> bool {
        self.filter.is_some()
    }

    /// What decides how fast deltas are stepped, in one line.
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
            is_full: cache.is_full() && cache.budget() >= self.config.budget,
            generation: generation.number(),
        }
    }
}

#[cfg(test)]
mod tests;
