//! A lazily built DFA whose transition table is append-only, shared by all streams and threads.
//!
//! When the budget is spent a cursor carries its NFA states itself and steps them, exactly and in
//! time linear in the input, until it meets a state of the table again. When that has gone on for long
//! enough to be worth it, a new *generation* begins with an empty table: cursors move to it when
//! they next step past the budget, and the old one goes with its last cursor. There are never more
//! than two.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Event;
use super::alphabet::Place;
use super::build::{Accept, Builder, Live};
use super::decode::{Decoder, Symbol};
use super::filter::{Effort, Filter};
use super::lanes::{Lanes, Tile};
use super::look::Before;
use super::nfa::Nfa;
use super::table::simd::Level;
use super::table::{SHORT, StateId, Table};

/// The automaton of several patterns.
#[derive(Debug)]
pub(crate) struct Lazy {
    nfa: Nfa,
    budget: usize,
    /// What stands behind each column, where that is one ASCII character.
    behind: Box<[Before]>,
    /// Long deltas are cut into the first ones, then what is left into the second.
    tiles: [Tile; 2],
    filter: Option<Box<Filter>>,
    /// Least bytes of a delta that is filtered.
    filtered: usize,
    /// The number of the current generation.
    latest: AtomicU32,
    generations: Mutex<Generations>,
}

#[derive(Debug)]
struct Generations {
    current: Arc<Generation>,
    /// The one before, while cursors still use it.
    previous: Weak<Generation>,
}

/// A table and what its states stand for.
#[derive(Debug)]
struct Generation {
    number: u32,
    table: Table,
    /// The states that nothing is in progress in, by what stands before.
    bases: [StateId; Before::ALL.len()],
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
    /// NFA states of its own, while the table is full.
    over: Option<Box<Live>>,
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
}

impl Generation {
    fn new(nfa: &Nfa, budget: usize, number: u32) -> Generation {
        let table = Table::new(nfa.alphabet.len(), budget);
        let mut builder = Builder::new(nfa, &table, budget);
        let bases = builder.bases(&table);
        Generation {
            number,
            table,
            bases,
            builder: Mutex::new(builder),
        }
    }

    /// The state that matching of a haystack begins in.
    fn start(&self) -> StateId {
        self.bases[Before::Start as usize]
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
    /// States built so far.
    pub states: usize,
    /// Bytes of their rows in the transition table.
    pub table_bytes: usize,
    /// Bytes of what the states stand for.
    pub set_bytes: usize,
    /// Whether the budget is spent, so that new states are stepped instead of built.
    pub is_full: bool,
    /// How often a spent table was replaced. While streams still use the one before, that is kept
    /// besides: never more than two.
    pub generation: u32,
}

/// Bytes of a block of steps between two tests.
const BLOCK: usize = 4;

/// Least bytes of a delta that is filtered. Shorter ones are hardly longer than what a filter has to step.
const FILTERED: usize = 32;

/// Bytes stepped past the budget before the lock is let go for others.
const OVER_BATCH: usize = 4096;

impl Lazy {
    /// The automaton of `nfa`; the table and state sets of a generation may take about `budget` bytes.
    pub(crate) fn new(nfa: Nfa, budget: usize) -> Lazy {
        let current = Arc::new(Generation::new(&nfa, budget, 0));
        let behind = |column| Before::Other.after(nfa.alphabet.flags(column), nfa.asked);
        Lazy {
            behind: (0..nfa.alphabet.len()).map(behind).collect(),
            tiles: [Tile::USUAL, Tile::SMALL],
            filter: Filter::new(&nfa, Level::best()).map(Box::new),
            filtered: FILTERED,
            nfa,
            budget,
            latest: AtomicU32::new(0),
            generations: Mutex::new(Generations {
                current,
                previous: Weak::new(),
            }),
        }
    }

    /// A cursor at the start of a haystack.
    pub(crate) fn start(&self) -> Cursor {
        let generation = Arc::clone(&self.generations().current);
        Cursor {
            state: generation.start(),
            generation,
            decoder: Decoder::default(),
            invalid_bytes: 0,
            over: None,
        }
    }

    /// Takes the cursor to the start of another haystack.
    pub(crate) fn restart(&self, cursor: &mut Cursor) {
        if cursor.generation.number != self.latest.load(Ordering::Relaxed) {
            cursor.generation = Arc::clone(&self.generations().current);
        }
        cursor.state = cursor.generation.start();
        cursor.decoder = Decoder::default();
        cursor.invalid_bytes = 0;
        cursor.over = None;
    }

    /// Steps 1 to [`SHORT`] bytes if nothing about them is special, and gives them padded with zeros.
    /// Otherwise nothing has happened, and [`Lazy::push`] is to be called.
    #[inline(always)]
    pub(crate) fn push_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if cursor.decoder.is_pending() || cursor.over.is_some() {
            return None;
        }
        let table = &cursor.generation.table;
        let short = table.short(self.nfa.alphabet.bytes(), cursor.state, bytes);
        if table.any_special(short.bits) {
            return None;
        }
        cursor.state = short.state;
        cursor.decoder.passed_ascii();
        Some(short.padded)
    }

    /// Steps the bytes; gives each pattern that becomes certain to match.
    #[inline]
    pub(crate) fn push(&self, cursor: &mut Cursor, bytes: &[u8], on: &mut impl FnMut(Event)) {
        if bytes.len() >= self.filtered
            && let Some(filter) = &self.filter
            && (self.filtered < FILTERED || filter.is_worth(bytes.len()))
        {
            return self.push_filtered(filter, cursor, bytes, on);
        }
        let mut at = 0;
        for tile in self.tiles {
            if bytes.len() - at >= tile.least {
                at = self.push_tiles(tile, cursor, bytes, at, on);
            }
        }
        self.push_plain(cursor, bytes, at, on);
    }

    /// Steps only where a match can be, and the end.
    #[inline(never)]
    fn push_filtered(
        &self,
        filter: &Filter,
        cursor: &mut Cursor,
        bytes: &[u8],
        on: &mut impl FnMut(Event),
    ) {
        let tail = bytes.len().saturating_sub(filter.tail());
        let mut candidates = filter.candidates(bytes);
        let mut effort = Effort::default();
        let mut at = 0;
        loop {
            let from = at;
            at = self.push_busy(cursor, bytes, at, on);
            effort.stepped += at - from;
            if at == bytes.len() {
                break;
            }
            let candidate = candidates.next(at);
            let begin = candidate.saturating_sub(filter.reach()).min(tail);
            if begin > at {
                let column = self.nfa.alphabet.bytes()[usize::from(bytes[begin - 1])];
                let before = self.behind[usize::from(column)];
                cursor.state = cursor.generation.bases[before as usize];
                cursor.decoder.passed_ascii();
                at = begin;
            }
            if candidate >= tail {
                self.push_plain(cursor, bytes, at, on);
                break;
            }
            effort.stepped += candidate + 1 - at;
            effort.candidates += 1;
            self.push_plain(cursor, &bytes[..=candidate], at, on);
            at = candidate + 1;
        }
        effort.looks = candidates.looks;
        filter.note(bytes.len(), effort);
    }

    /// Steps until nothing is in progress; gives where.
    fn push_busy(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(Event),
    ) -> usize {
        let columns = self.nfa.alphabet.bytes();
        while let Some(&byte) = bytes.get(at) {
            let is_plain = cursor.over.is_none() && !cursor.decoder.is_pending();
            let Generation { table, bases, .. } = &*cursor.generation;
            // Their rows are the first ones.
            if is_plain && bases.contains(&cursor.state) {
                break;
            }
            let next = table.next(cursor.state, usize::from(columns[usize::from(byte)]));
            if is_plain && !table.is_special(next) {
                cursor.state = next;
                cursor.decoder.passed_ascii();
                at += 1;
            } else {
                at = self.push_slow(cursor, bytes, at, on);
            }
        }
        at
    }

    /// Steps whole tiles in lanes, those with something special in them plainly; gives where they end.
    fn push_tiles(
        &self,
        tile: Tile,
        cursor: &mut Cursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(Event),
    ) -> usize {
        let size = tile.bytes();
        // After a miss that many tiles are not tried: twice as many after each.
        let (mut misses, mut skip) = (0u32, 0u32);
        while let Some(text) = bytes.get(at..at + size) {
            let is_ready = skip == 0 && cursor.over.is_none() && !cursor.decoder.is_pending();
            let next = is_ready
                .then(|| self.step_tile(tile, cursor, text))
                .flatten();
            match next {
                Some(state) => {
                    cursor.state = state;
                    cursor.decoder.passed_ascii();
                    misses = 0;
                }
                None => {
                    if is_ready {
                        misses = (misses + 1).min(6);
                        skip = 1 << misses;
                    }
                    skip = skip.saturating_sub(1);
                    self.push_plain(cursor, &bytes[..at + size], at, on);
                }
            }
            at += size;
        }
        at
    }

    fn step_tile(&self, tile: Tile, cursor: &Cursor, text: &[u8]) -> Option<StateId> {
        let Generation { table, bases, .. } = &*cursor.generation;
        let columns = self.nfa.alphabet.bytes();
        let behind = &self.behind;
        Lanes {
            table,
            columns,
            bases,
            behind,
        }
        .step(cursor.state, text, tile)
    }

    /// Steps `bytes` from `at` one after the other.
    #[inline]
    fn push_plain(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(Event),
    ) {
        let Some(&last) = bytes[at..].last() else {
            return;
        };
        if cursor.decoder.is_pending() || cursor.over.is_some() {
            at = self.push_slow(cursor, bytes, at, on);
        }
        let columns = self.nfa.alphabet.bytes();
        while let Some(block) = bytes.get(at..at + BLOCK) {
            let table = &cursor.generation.table;
            let mut state = cursor.state;
            let mut bits = 0;
            for &byte in block {
                state = table.next(state, usize::from(columns[usize::from(byte)]));
                bits |= state.bits();
            }
            if table.any_special(bits) {
                at = self.push_slow(cursor, bytes, at, on);
            } else {
                cursor.state = state;
                at += BLOCK;
            }
        }
        while let Some(&byte) = bytes.get(at) {
            let table = &cursor.generation.table;
            let state = table.next(cursor.state, usize::from(columns[usize::from(byte)]));
            if table.is_special(state) {
                at = self.push_slow(cursor, bytes, at, on);
            } else {
                cursor.state = state;
                at += 1;
            }
        }
        if last < 128 {
            cursor.decoder.passed_ascii();
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
        self.flush(cursor, on);
        if !self.nfa.has_look {
            return;
        }
        let Generation { table, .. } = &*cursor.generation;
        let mut builder = cursor.generation.lock();
        let live = match cursor.over.take() {
            Some(live) => *live,
            None => builder.live(table, cursor.state).clone(),
        };
        for pattern in builder.at_end(&self.nfa, &live) {
            on(Event {
                pattern,
                at: 0,
                back: 0,
            });
        }
    }

    #[cfg(test)]
    pub(crate) fn set_tile(&mut self, tile: Tile) {
        self.tiles = [tile; 2];
    }

    #[cfg(test)]
    pub(crate) fn set_filtered(&mut self, least: usize, level: Level) {
        self.filtered = least;
        if let Some(filter) = &mut self.filter {
            filter.level = level;
        }
    }

    #[cfg(test)]
    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    pub(crate) fn size(&self) -> AutomatonSize {
        let generation = Arc::clone(&self.generations().current);
        let builder = generation.lock();
        AutomatonSize {
            nfa_states: self.nfa.states.len(),
            columns: self.nfa.alphabet.len(),
            states: builder.states(),
            table_bytes: builder.table_bytes(&generation.table),
            set_bytes: builder.set_bytes(),
            is_full: builder.is_full(),
            generation: generation.number,
        }
    }

    /// Steps byte by byte from `at`: through a block that holds something special, incomplete or wide
    /// characters, or past the budget. Gives where the fast path can go on.
    #[cold]
    #[inline(never)]
    fn push_slow(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(Event),
    ) -> usize {
        let block_end = (at + BLOCK).min(bytes.len());
        if at > 0 && bytes[at - 1] < 128 {
            cursor.decoder.passed_ascii();
        }
        while let Some(&byte) = bytes.get(at) {
            if cursor.over.is_some() {
                at = self.push_over(cursor, bytes, at, on);
                continue;
            }
            if at >= block_end && byte < 128 && !cursor.decoder.is_pending() {
                break;
            }
            if let Some(char) = cursor.decoder.whole(&bytes[at..]) {
                at += char.len_utf8();
                self.nfa
                    .alphabet
                    .symbol(Symbol::Char(char), |column, place| {
                        self.step(cursor, column, place.after(at - 1, 0), on);
                    });
                continue;
            }
            let mut decoder = cursor.decoder;
            decoder.push(byte, |symbol, back| {
                cursor.count(symbol);
                self.nfa.alphabet.symbol(symbol, |column, place| {
                    self.step(cursor, column, place.after(at, back), on);
                });
            });
            cursor.decoder = decoder;
            at += 1;
        }
        at
    }

    /// Steps with the lock held, until the table knows the state again, or the batch or the input ends.
    fn push_over(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(Event),
    ) -> usize {
        self.move_on(cursor);
        let generation = Arc::clone(&cursor.generation);
        let mut builder = generation.lock();
        let end = bytes.len().min(at + OVER_BATCH);
        while at < end && cursor.over.is_some() {
            let mut decoder = cursor.decoder;
            decoder.push(bytes[at], |symbol, back| {
                cursor.count(symbol);
                self.nfa.alphabet.symbol(symbol, |column, place| {
                    let place = place.after(at, back);
                    self.step_locked(&generation, &mut builder, cursor, column, place, on);
                });
            });
            cursor.decoder = decoder;
            at += 1;
        }
        at
    }

    /// Moves the cursor to the current generation if its own is worn out; begins one if need be.
    fn move_on(&self, cursor: &mut Cursor) {
        if !cursor.generation.lock().is_worn() {
            return;
        }
        let mut generations = self.generations();
        let is_current = Arc::ptr_eq(&generations.current, &cursor.generation);
        if is_current && generations.previous.strong_count() == 0 {
            let number = cursor.generation.number.wrapping_add(1);
            let next = Arc::new(Generation::new(&self.nfa, self.budget, number));
            generations.previous = Arc::downgrade(&generations.current);
            generations.current = next;
            self.latest.store(number, Ordering::Relaxed);
        }
        cursor.generation = Arc::clone(&generations.current);
    }

    /// One step, wherever the state is; builds what is missing.
    #[inline]
    fn step(&self, cursor: &mut Cursor, column: usize, place: Place, on: &mut impl FnMut(Event)) {
        if cursor.over.is_none() {
            let table = &cursor.generation.table;
            let next = table.next(cursor.state, column);
            if !table.is_special(next) {
                cursor.state = next;
                return;
            }
        }
        let generation = Arc::clone(&cursor.generation);
        self.step_locked(
            &generation,
            &mut generation.lock(),
            cursor,
            column,
            place,
            on,
        );
    }

    fn step_locked(
        &self,
        generation: &Generation,
        builder: &mut Builder,
        cursor: &mut Cursor,
        column: usize,
        place: Place,
        on: &mut impl FnMut(Event),
    ) {
        let table = &generation.table;
        let next = match &cursor.over {
            None => builder.next(&self.nfa, table, cursor.state, column),
            Some(live) => builder.next_of(&self.nfa, table, live, column),
        };
        match next {
            Some(state) => {
                cursor.over = None;
                cursor.state = state;
                if table.is_special(state) {
                    place.report(&builder.accept(table, state), on);
                }
            }
            None => {
                let (live, accept) = builder.past_budget();
                place.report(&accept, on);
                cursor.over = Some(Box::new(live));
            }
        }
    }

    fn generations(&self) -> MutexGuard<'_, Generations> {
        // Nothing panics while the lock is held but for want of memory, and then nothing is changed.
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn report(self, accept: &Accept, on: &mut impl FnMut(Event)) {
        for &pattern in &accept.late {
            on(Event {
                pattern,
                at: self.at,
                back: self.back + self.width,
            });
        }
        for &pattern in &accept.now {
            on(Event {
                pattern,
                at: self.at,
                back: self.back,
            });
        }
    }
}
