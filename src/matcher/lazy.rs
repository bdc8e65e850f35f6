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

mod long;
mod over;
mod plain;
mod short;
mod step;

use std::sync::OnceLock;

use super::Event;
use super::build::{Builder, Missing};
use super::crowd::Masks;
use super::decode::{Decoder, Symbol};
use super::filter::Filter;
use super::generations::{self, Generations};
use super::lanes::Tile;
use super::look::Before;
use super::nfa::Nfa;
use super::once::Once;
use super::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering, PoisonError};
use super::table::simd::Level;
use super::table::{Config, SHORT, StateId, Table};
use super::tails::Aside;

pub(crate) use short::{Run, is_short};

/// The automaton of several patterns.
#[derive(Debug)]
pub(crate) struct Lazy {
    nfa: Nfa,
    config: Config,
    /// What stands behind each column, where that is one ASCII character.
    behind: Box<[Before]>,
    /// Long deltas are cut into the first ones, then what is left into the second.
    tiles: [Tile; 2],
    filter: Option<Box<Filter>>,
    /// Least bytes of a delta that is filtered.
    filtered: usize,
    /// Where each pattern is reported once.
    once: Option<Once>,
    /// For stepping outside the table; made when that happens first.
    masks: OnceLock<Masks>,
    generations: Generations<Built>,
}

/// One of the tables, with its number.
type Generation = generations::Generation<Built>;

/// A table and what its states stand for.
#[derive(Debug)]
struct Built {
    table: Table,
    /// The states that nothing is in progress in, by what stands before.
    bases: [StateId; Before::ALL.len()],
    /// The state of tails that are over.
    dead: StateId,
    /// The first state of the tail of each cut, by what stands before; 0 where it is not built.
    tails: Box<[AtomicU32]>,
    /// Cuts that a haystack begins with.
    first_cuts: Box<[u32]>,
    builder: Mutex<Builder>,
}

/// The whole matching state of one haystack: a state of a table, and the bytes of an incomplete
/// character.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    generation: Arc<Generation>,
    state: StateId,
    decoder: Decoder,
    invalid_bytes: u32,
    /// Bytes stepped in the table since something had to be built.
    stepped: u32,
    /// Live tails, and NFA states of its own.
    aside: Option<Box<Aside>>,
}

impl Cursor {
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
    fn is_over(&self) -> bool {
        self.aside
            .as_ref()
            .is_some_and(|aside| aside.over.is_some())
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
        let is_alone = match &self.aside {
            None => true,
            Some(aside) => aside.is_idle(),
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
    pub(crate) fn is_through(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.is_through)
    }

    /// Whether the search is all there is, in a full row: no tails, no states outside the table, no incomplete
    /// character.
    #[inline(always)]
    fn is_alone(&self) -> bool {
        !self.is_over()
            && !self.has_tails()
            && !self.decoder.is_pending()
            && !self.state.is_narrow()
    }

    fn has_tails(&self) -> bool {
        self.aside
            .as_ref()
            .is_some_and(|aside| !aside.tails.is_empty())
    }
}

impl Built {
    fn new(nfa: &Nfa, config: Config) -> Built {
        let table = Table::new(&nfa.alphabet, config);
        let mut builder = Builder::new(nfa, &table, config.budget);
        let (bases, dead) = builder.first_states(&table);
        let tails = nfa.cuts.len() * Before::ALL.len();
        Built {
            table,
            bases,
            dead,
            tails: (0..tails).map(|_| AtomicU32::new(0)).collect(),
            first_cuts: builder.first_cuts().into(),
            builder: Mutex::new(builder),
        }
    }

    /// Whether nothing is in progress in the state.
    #[inline(always)]
    fn is_base(&self, state: StateId) -> bool {
        // Their rows are the first ones.
        state.bits() <= self.bases[Before::ALL.len() - 1].bits()
    }

    /// The state that matching of a haystack begins in.
    fn start(&self) -> StateId {
        self.bases[Before::Start as usize]
    }

    /// The first state of the tail of a cut, if it is built.
    fn first_of(&self, cut: u32, before: Before) -> Option<StateId> {
        let slot = cut as usize * Before::ALL.len() + before as usize;
        StateId::of_bits(self.tails[slot].load(Ordering::Acquire))
    }

    /// Publishes the first state of a tail; the table holds everything else already.
    fn note(&self, missing: Missing, state: StateId) {
        if let Missing::Start(cut, before) = missing {
            let slot = cut as usize * Before::ALL.len() + before as usize;
            self.tails[slot].store(state.bits(), Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Builder> {
        // Nothing panics while the lock is held; if it ever did, the table would still be whole,
        // because a row is published only when it is complete.
        self.builder.lock().unwrap_or_else(PoisonError::into_inner)
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
const FILTERED: usize = 32;

impl Lazy {
    /// The automaton of `nfa`, whose tables grow from one generation to the next until they are as said.
    pub(crate) fn new(nfa: Nfa, config: Config) -> Lazy {
        Lazy::with_first(nfa, config, config.of_generation(0)).filtered()
    }

    /// The same with a filter for long deltas, where patterns and processor allow one.
    pub(crate) fn filtered(mut self) -> Lazy {
        let current = self.generations.current();
        // Where a new search reaches a cut at once, its tail is woken on the way into a base. A filter jumps
        // there.
        let mut bases = current.bases.iter();
        let has_woken = bases.any(|&base| current.table.is_special(base));
        if !has_woken {
            self.filter = Filter::new(&self.nfa, self.config.level).map(Box::new);
        }
        self
    }

    /// Whether it has such tables.
    pub(crate) fn has(&self, config: Config) -> bool {
        self.config == config
    }

    /// The same without a filter, for short deltas only, with room for that much in the first table.
    pub(crate) fn on_trial(nfa: Nfa, config: Config, room: usize) -> Lazy {
        let first = Config {
            budget: config.budget.min(room),
            ..config
        };
        Lazy::with_first(nfa, config, first)
    }

    fn with_first(nfa: Nfa, config: Config, first: Config) -> Lazy {
        let first = Built::new(&nfa, first);
        let behind = |column| Before::Other.after(nfa.alphabet.flags(column), nfa.asked);
        Lazy {
            behind: (0..nfa.alphabet.len()).map(behind).collect(),
            tiles: [Tile::USUAL, Tile::SMALL],
            filter: None,
            filtered: FILTERED,
            once: None,
            masks: OnceLock::new(),
            nfa,
            config,
            generations: Generations::new(first),
        }
    }

    /// The same for patterns that hit in nearly any text: each is reported once, and a cursor is through
    /// when none can be any more. There are at most [`MOST_ONCE`](super::once::MOST_ONCE).
    pub(crate) fn once(nfa: Nfa, config: Config) -> Lazy {
        Lazy {
            once: Some(Once::new(&nfa)),
            ..Lazy::new(nfa, config)
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
    pub(crate) fn start(&self) -> Cursor {
        let generation = self.generations.current();
        let mut cursor = Cursor {
            state: generation.start(),
            generation,
            decoder: Decoder::default(),
            invalid_bytes: 0,
            stepped: 0,
            aside: None,
        };
        self.wake_first(&mut cursor);
        cursor
    }

    /// Takes the cursor to the start of another haystack.
    pub(crate) fn restart(&self, cursor: &mut Cursor) {
        if !self.generations.is_latest(&cursor.generation) {
            cursor.generation = self.generations.current();
        }
        cursor.state = cursor.generation.start();
        cursor.decoder = Decoder::default();
        cursor.invalid_bytes = 0;
        if let Some(aside) = &mut cursor.aside {
            aside.clear();
        }
        self.wake_first(cursor);
    }

    /// Steps the bytes; gives each pattern that becomes certain to match.
    #[inline]
    pub(crate) fn push(&self, cursor: &mut Cursor, bytes: &[u8], on: &mut impl FnMut(Event)) {
        if cursor.is_through() {
            return;
        }
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        if bytes.len() >= self.filtered
            && let Some(filter) = &self.filter
            && (self.filtered < FILTERED || filter.is_worth(bytes.len()))
        {
            return self.push_filtered(filter, cursor, bytes, on);
        }
        let (mut at, mut stepped) = (0, 0);
        for tile in self.tiles {
            if bytes.len() - at >= tile.least {
                at = self.push_tiles(tile, cursor, bytes, at, &mut stepped, on);
            }
        }
        self.push_plain(cursor, bytes, at, on);
        if bytes.len() >= self.filtered
            && let Some(filter) = &self.filter
        {
            filter.note_plain(bytes.len(), stepped + bytes.len() - at);
        }
    }

    /// Whether no match is in progress: what comes next begins anew. Means something only for an
    /// automaton whose NFA is [layered](Nfa::layered).
    pub(crate) fn is_quiet(&self, cursor: &Cursor) -> bool {
        if cursor.decoder.is_pending() {
            return false;
        }
        let generation = &*cursor.generation;
        let aside = cursor.aside.as_deref();
        match aside.and_then(|aside| aside.over.as_ref()) {
            Some(over) => over.search.states().next().is_none(),
            None if generation.is_base(cursor.state) => true,
            None if !generation.table.is_special(cursor.state) => false,
            None => generation
                .lock()
                .live(&generation.table, cursor.state)
                .is_base(),
        }
    }

    /// Ends the run of bytes that could complete a character: what is pending belongs to none.
    pub(crate) fn flush(&self, cursor: &mut Cursor, on: &mut impl FnMut(Event)) {
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
    pub(crate) fn finish(&self, cursor: &mut Cursor, on: &mut impl FnMut(Event)) {
        if cursor.is_through() {
            return;
        }
        self.flush(cursor, on);
        if !self.nfa.has_look {
            return;
        }
        let generation = Arc::clone(&cursor.generation);
        let mut builder = generation.lock();
        self.leave(cursor, &builder);
        let over = cursor.aside.as_mut().and_then(|aside| aside.over.take());
        let over = over.expect("the cursor has left the table");
        let search = over.live();
        let tails = over.tails.iter().map(|(_, live)| live);
        for live in [&search].into_iter().chain(tails) {
            for pattern in builder.at_end(&self.nfa, live) {
                on(Event {
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
    pub(crate) fn set_filtered(&mut self, least: usize, level: Level) {
        self.filtered = least;
        if let Some(filter) = &mut self.filter {
            filter.level = level;
        }
    }

    #[cfg(test)]
    pub(super) fn forced(&self) -> ([Tile; 2], usize, Option<Level>) {
        (
            self.tiles,
            self.filtered,
            self.filter.as_ref().map(|filter| filter.level),
        )
    }

    #[cfg(test)]
    pub(crate) fn has_filter(&self) -> bool {
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
            self.once.is_some(),
            filter.as_deref().unwrap_or("no filter")
        )
    }

    pub(crate) fn size(&self) -> AutomatonSize {
        let generation = self.generations.current();
        let builder = generation.lock();
        AutomatonSize {
            nfa_states: self.nfa.states.len(),
            columns: self.nfa.alphabet.len(),
            cuts: self.nfa.cuts.len(),
            states: builder.states(),
            table_bytes: builder.table_bytes(&generation.table),
            set_bytes: builder.set_bytes(),
            is_full: builder.is_full() && builder.budget() >= self.config.budget,
            generation: generation.number(),
        }
    }
}

#[cfg(test)]
mod tests;
