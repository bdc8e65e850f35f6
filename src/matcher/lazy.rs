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

use std::sync::OnceLock;

use super::Event;
use super::alphabet::Place;
use super::build::{Builder, CUT, Missing};
use super::crowd::Masks;
use super::decode::{Decoder, Symbol, wide};
use super::filter::{Effort, Filter};
use super::generations::{self, Generations};
use super::lanes::{Lanes, Tile};
use super::look::Before;
use super::nfa::Nfa;
use super::once::Once;
use super::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering, PoisonError};
use super::table::simd::Level;
use super::table::{Config, SHORT, Short, StateId, Table};
use super::tails::{Aside, Hits, Over, Tail};

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

    fn tails(&mut self) -> &mut Vec<Tail> {
        &mut self.aside.get_or_insert_default().tails
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

/// How far [`Lazy::run`] came, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    pub(crate) stepped: usize,
    /// Up to where no match that has begun can still end behind it; 0 where there is no such place.
    pub(crate) quiet: usize,
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
    /// How often a spent table was replaced. While streams still use the one before, that is kept
    /// besides: never more than two.
    pub generation: u32,
}

/// Whether there is a fast path for so few bytes: from 1 to [`SHORT`].
#[inline(always)]
pub(crate) fn is_short(bytes: &[u8]) -> bool {
    bytes.len().wrapping_sub(1) < SHORT
}

/// Bytes of a block of steps between two tests.
const BLOCK: usize = 4;

/// Least bytes of a delta that is filtered. Shorter ones are hardly longer than what a filter has to step.
const FILTERED: usize = 32;

/// Bytes stepped with live tails before a filter asks whether they are dead.
const AWAKE: usize = 16;

/// Bytes of ASCII between wide characters that are stepped with these.
const ASCII_RUN: usize = 8;

/// Most symbols that a cursor outside the table waits before it asks for its states again.
const MOST_WAIT: u32 = 1023;

/// Bytes stepped past the budget before the lock is let go for others.
const OVER_BATCH: usize = 4096;

impl Lazy {
    /// The automaton of `nfa`; each generation has such a table.
    pub(crate) fn new(nfa: Nfa, config: Config) -> Lazy {
        Lazy::on_trial(nfa, config).filtered()
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

    /// The same without a filter, for short deltas only.
    pub(crate) fn on_trial(nfa: Nfa, config: Config) -> Lazy {
        let first = Built::new(&nfa, config);
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

    /// Steps 1 to [`SHORT`] bytes if nothing about them is special but that tails are woken, and gives them
    /// padded with zeros. Otherwise nothing has happened.
    pub(crate) fn push_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if !is_short(bytes) {
            return None;
        }
        if !bytes.is_ascii() {
            return self.wide_short(cursor, bytes);
        }
        let Some(short) = self.look_short(cursor, bytes) else {
            return self.wake_short(cursor, bytes);
        };
        // The next time it may be stepped in pairs.
        if cursor.is_alone() {
            cursor.generation.table.learn_pairs(&short, cursor.state);
        }
        self.take_short(cursor, &short);
        Some(short.padded)
    }

    /// The same for whole characters that are not all ASCII.
    fn wide_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if !cursor.is_alone() {
            return None;
        }
        let (state, decoder) = (cursor.state, cursor.decoder);
        let mut at = 0;
        while at < bytes.len() {
            let plain = self.run_chars(cursor, &bytes[at..]);
            if plain == 0 {
                (cursor.state, cursor.decoder) = (state, decoder);
                return None;
            }
            at += plain;
        }
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        let mut padded = [0; SHORT];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(padded)
    }

    /// The same, byte by byte, where tails are woken but nothing is reported.
    // Without this every woken tail takes the delta the long way through the stream.
    #[inline(never)]
    fn wake_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        let is_plain = !cursor.decoder.is_pending() && !cursor.is_over() && bytes.is_ascii();
        if self.nfa.cuts.is_empty() || !is_plain {
            return None;
        }
        let state = cursor.state;
        let aside = cursor.aside.get_or_insert_default();
        aside.saved.clone_from(&aside.tails);
        for &byte in bytes {
            let column = self.nfa.alphabet.bytes()[usize::from(byte)];
            match self.walk(cursor, column.into()) {
                Ok((next, hits)) if hits.is_empty() => cursor.state = next,
                _ => {
                    let aside = cursor.aside.get_or_insert_default();
                    std::mem::swap(&mut aside.tails, &mut aside.saved);
                    cursor.state = state;
                    return None;
                }
            }
            let dead = cursor.generation.dead;
            cursor.aside.get_or_insert_default().commit(dead);
        }
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        cursor.decoder.passed_ascii();
        let mut padded = [0; SHORT];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(padded)
    }

    /// What [`Lazy::push_short`] would do; nothing has happened yet.
    #[inline(always)]
    pub(crate) fn look_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<Short> {
        if cursor.decoder.is_pending() || cursor.is_over() {
            return None;
        }
        let table = &cursor.generation.table;
        let short = table.short(cursor.state, bytes);
        let is_plain = !table.any_special(short.bits)
            && match &mut cursor.aside {
                Some(aside) => aside.look_short(table, &short),
                None => true,
            };
        is_plain.then_some(short)
    }

    /// Goes on from where [`Lazy::look_short`] came to.
    #[inline(always)]
    pub(crate) fn take_short(&self, cursor: &mut Cursor, short: &Short) {
        cursor.state = short.state;
        cursor.stepped = cursor.stepped.wrapping_add(short.len());
        if let Some(aside) = &mut cursor.aside {
            aside.commit(cursor.generation.dead);
        }
        cursor.decoder.passed_ascii();
    }

    /// Steps the bytes; gives each pattern that becomes certain to match.
    #[inline]
    pub(crate) fn push(&self, cursor: &mut Cursor, bytes: &[u8], on: &mut impl FnMut(Event)) {
        if cursor.is_through() {
            return;
        }
        // Where pairs are missing there may be nothing special about a short delta, and they are learned.
        let has_pairs = cursor.generation.table.has_pairs(cursor.state);
        if has_pairs && self.push_short(cursor, bytes).is_some() {
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

    /// Steps until nothing is in progress, in the search or in a tail; gives where.
    fn push_busy(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(Event),
    ) -> usize {
        let columns = self.nfa.alphabet.bytes();
        while let Some(&byte) = bytes.get(at) {
            if cursor.has_tails() {
                let end = bytes.len().min(at + AWAKE);
                self.push_plain(cursor, &bytes[..end], at, on);
                at = end;
                continue;
            }
            let is_alone = cursor.is_alone();
            let table = &cursor.generation.table;
            if is_alone && cursor.generation.is_base(cursor.state) {
                break;
            }
            let next = table.next(cursor.state, usize::from(columns[usize::from(byte)]));
            if is_alone && !table.is_special(next) {
                cursor.state = next;
                cursor.decoder.passed_ascii();
                at += 1;
            } else {
                at = self.push_slow(cursor, bytes, at, on);
            }
        }
        at
    }

    /// Steps whole tiles in lanes, those with something special in them plainly, which adds their bytes to
    /// `stepped`; gives where they end.
    fn push_tiles(
        &self,
        tile: Tile,
        cursor: &mut Cursor,
        bytes: &[u8],
        mut at: usize,
        stepped: &mut usize,
        on: &mut impl FnMut(Event),
    ) -> usize {
        let size = tile.bytes();
        // After a miss that many tiles are not tried: twice as many after each.
        let (mut misses, mut skip) = (0u32, 0u32);
        while let Some(text) = bytes.get(at..at + size) {
            let is_ready = skip == 0 && cursor.is_alone();
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
                    *stepped += size;
                }
            }
            at += size;
        }
        at
    }

    fn step_tile(&self, tile: Tile, cursor: &Cursor, text: &[u8]) -> Option<StateId> {
        let Built { table, bases, .. } = &**cursor.generation;
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
        if cursor.decoder.is_pending() || cursor.is_over() {
            at = self.push_slow(cursor, bytes, at, on);
        }
        let columns = self.nfa.alphabet.bytes();
        while let Some(block) = bytes.get(at..at + BLOCK) {
            let table = &cursor.generation.table;
            let mut state = cursor.state;
            let mut bits = state.entry_bits();
            for &byte in block {
                state = table.next(state, usize::from(columns[usize::from(byte)]));
                bits |= state.bits();
            }
            if table.any_special(bits) || !self.push_tails(cursor, block) {
                at = self.push_slow(cursor, bytes, at, on);
            } else {
                cursor.state = state;
                at += BLOCK;
            }
        }
        while let Some(&byte) = bytes.get(at) {
            let table = &cursor.generation.table;
            let state = table.next(cursor.state, usize::from(columns[usize::from(byte)]));
            let bits = cursor.state.entry_bits() | state.bits();
            if table.any_special(bits) || !self.push_tails(cursor, &[byte]) {
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

    /// As [`Lazy::push_short`], and says besides up to which of the bytes no match is in progress: see
    /// [`Lazy::is_quiet`].
    #[inline]
    pub(crate) fn push_marked(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
    ) -> Option<([u8; SHORT], usize)> {
        let from = cursor.state;
        let short = self.look_short(cursor, bytes)?;
        self.take_short(cursor, &short);
        let generation = &*cursor.generation;
        let quiet = match generation.is_base(short.state) {
            true => bytes.len(),
            false => {
                let last_base = generation.bases[Before::ALL.len() - 1];
                generation.table.last_up_to(&short, from, last_base)
            }
        };
        Some((short.padded, quiet))
    }

    /// Steps ASCII bytes up to the first that brings something special, and says where no match is in
    /// progress: see [`Lazy::is_quiet`].
    #[inline]
    pub(crate) fn run(&self, cursor: &mut Cursor, bytes: &[u8]) -> Run {
        let mut run = Run::default();
        if !cursor.is_alone() {
            return run;
        }
        let generation = &*cursor.generation;
        let table = &generation.table;
        let columns = self.nfa.alphabet.bytes();
        let mut state = cursor.state;
        for &byte in bytes {
            let next = table.next(state, usize::from(columns[usize::from(byte)]));
            if table.is_special(next) {
                break;
            }
            state = next;
            run.stepped += 1;
            if generation.is_base(state) {
                run.quiet = run.stepped;
            }
        }
        if run.stepped > 0 {
            cursor.state = state;
            cursor.stepped = cursor.stepped.wrapping_add(run.stepped as u32);
            cursor.decoder.passed_ascii();
        }
        run
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

    /// Steps the tails; if that is not plain nothing has happened.
    #[inline]
    fn push_tails(&self, cursor: &mut Cursor, bytes: &[u8]) -> bool {
        let Some(aside) = &mut cursor.aside else {
            return true;
        };
        let Built { table, dead, .. } = &**cursor.generation;
        let is_plain = aside.push_plain(table, self.nfa.alphabet.bytes(), bytes);
        if is_plain {
            aside.commit(*dead);
        }
        is_plain
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
    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
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
            is_full: builder.is_full(),
            generation: generation.number(),
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
            if cursor.is_over() {
                at = self.push_over(cursor, bytes, at, on);
                continue;
            }
            if at >= block_end && byte < 128 && !cursor.decoder.is_pending() {
                break;
            }
            if cursor.is_alone() {
                let plain = self.run_chars(cursor, &bytes[at..]);
                at += plain;
                // After a plain stretch it may be ASCII that follows, and a long one.
                if plain > 0 {
                    continue;
                }
            }
            if let Some((char, len)) = wide(&bytes[at..])
                && !cursor.decoder.is_pending()
            {
                at += len;
                cursor.decoder.passed(len);
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

    /// Steps whole characters as long as nothing about them is special, and stops at a run of ASCII, which is
    /// stepped faster elsewhere. Gives the number of bytes. The cursor must be alone.
    #[inline]
    fn run_chars(&self, cursor: &mut Cursor, bytes: &[u8]) -> usize {
        let table = &cursor.generation.table;
        let columns = self.nfa.alphabet.bytes();
        let (mut at, mut ascii) = (0, 0);
        let (mut state, mut last) = (cursor.state, 0);
        while let Some(&byte) = bytes.get(at) {
            let (column, len) = if byte < 128 {
                ascii += 1;
                if ascii > ASCII_RUN {
                    break;
                }
                (usize::from(columns[usize::from(byte)]), 1)
            } else {
                ascii = 0;
                let Some((char, len)) = wide(&bytes[at..]) else {
                    break;
                };
                let Some(column) = self.nfa.alphabet.char(char) else {
                    break;
                };
                (column, len)
            };
            let next = table.next(state, column);
            if table.is_special(next) {
                break;
            }
            (state, last) = (next, len);
            at += len;
        }
        if at > 0 {
            cursor.state = state;
            cursor.decoder.passed(last);
        }
        at
    }

    /// Steps with the lock held, until the table knows the states again, or the batch or the input ends.
    fn push_over(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(Event),
    ) -> usize {
        let mut generation = Arc::clone(&cursor.generation);
        let mut builder = generation.lock();
        if !self.generations.is_latest(&generation) || builder.is_worn() {
            drop(builder);
            self.move_on(cursor);
            generation = Arc::clone(&cursor.generation);
            builder = generation.lock();
        }
        let end = bytes.len().min(at + OVER_BATCH);
        while at < end && !self.settle(cursor, &mut builder) {
            if bytes[at] < 128 && !cursor.decoder.is_pending() {
                let column = self.nfa.alphabet.bytes()[usize::from(bytes[at])];
                let place = Place::whole(1).after(at, 0);
                self.step_over(&mut builder, cursor, column.into(), place, on);
                cursor.decoder.passed_ascii();
                at += 1;
                continue;
            }
            let mut decoder = cursor.decoder;
            decoder.push(bytes[at], |symbol, back| {
                cursor.count(symbol);
                self.nfa.alphabet.symbol(symbol, |column, place| {
                    self.step_over(&mut builder, cursor, column, place.after(at, back), on);
                });
            });
            cursor.decoder = decoder;
            at += 1;
        }
        at
    }

    /// Moves a cursor that has left its table to another generation, if there is or can be one.
    fn move_on(&self, cursor: &mut Cursor) {
        let make = || Built::new(&self.nfa, self.config);
        self.generations.move_on(&mut cursor.generation, make);
    }

    /// One step, wherever the state is; builds what is missing.
    #[inline]
    fn step(&self, cursor: &mut Cursor, column: usize, place: Place, on: &mut impl FnMut(Event)) {
        if cursor.aside.as_ref().is_none_or(|aside| aside.is_idle())
            && self.step_alone(cursor, column, place, on)
        {
            return;
        }
        while !cursor.is_over() {
            match self.walk(cursor, column) {
                Ok((next, hits)) => {
                    cursor.state = next;
                    self.commit(cursor, hits, place, on);
                    return;
                }
                Err(missing) => self.build(cursor, missing),
            }
        }
        let generation = Arc::clone(&cursor.generation);
        self.step_over(&mut generation.lock(), cursor, column, place, on);
    }

    /// Steps a search that has no tails, if that is built and wakes none; else nothing has happened.
    #[inline]
    fn step_alone(
        &self,
        cursor: &mut Cursor,
        column: usize,
        place: Place,
        on: &mut impl FnMut(Event),
    ) -> bool {
        let Cursor {
            generation, aside, ..
        } = cursor;
        let table = &generation.table;
        let next = table.step(cursor.state, column);
        if table.is_special(next) {
            if next == table.unknown() || table.is_due(next) {
                return false;
            }
            let report = table.report(next);
            // Lists are in order, and cuts are greater than patterns.
            let last = [report.now.last(), report.late.last()]
                .into_iter()
                .flatten();
            if last.fold(0, |bits, last| bits | last.load(Ordering::Relaxed)) & CUT != 0 {
                return false;
            }
            for (list, is_late) in [(report.late, true), (report.now, false)] {
                for pattern in list {
                    let pattern = pattern.load(Ordering::Relaxed);
                    self.report(aside, pattern, is_late, place, on);
                }
            }
        }
        cursor.state = next;
        true
    }

    /// Goes on from where the tails were stepped to, and reports what was found.
    fn commit(
        &self,
        cursor: &mut Cursor,
        mut hits: Hits,
        place: Place,
        on: &mut impl FnMut(Event),
    ) {
        if let Some(aside) = &mut cursor.aside {
            aside.commit(cursor.generation.dead);
        }
        hits.sort();
        for (pattern, is_late) in hits.iter() {
            self.report(&mut cursor.aside, pattern, is_late, place, on);
        }
        if let (Some(once), Some(aside)) = (&self.once, &mut cursor.aside) {
            once.drop_tails(aside);
        }
    }

    /// Reports a pattern that ends at the symbol, or before it.
    #[inline]
    fn report(
        &self,
        aside: &mut Option<Box<Aside>>,
        pattern: u32,
        is_late: bool,
        place: Place,
        on: &mut impl FnMut(Event),
    ) {
        if let Some(once) = &self.once
            && !once.is_first(aside.get_or_insert_default(), pattern)
        {
            return;
        }
        let width = if is_late { place.width } else { 0 };
        on(Event {
            pattern,
            at: place.at,
            back: place.back + width,
        });
    }

    /// Steps search and tails through the table, as far as it is built. Nothing has happened but in
    /// [`Tail::next`] of the tails.
    fn walk(&self, cursor: &mut Cursor, column: usize) -> Result<(StateId, Hits), Missing> {
        let Cursor {
            generation,
            state: from,
            aside,
            ..
        } = cursor;
        let table = &generation.table;
        let next = table.step(*from, column);
        if next == table.unknown() {
            return Err(Missing::Step(*from, column));
        }
        if table.is_due(next) {
            return Err(Missing::Row(next));
        }
        let aside = aside.get_or_insert_default();
        let awake = aside.tails.len();
        aside
            .tails
            .iter_mut()
            .for_each(|tail| tail.next = tail.state);
        let hits = match table.is_special(next) {
            false => self.walk_tails(generation, aside, column),
            true => self.walk_special(generation, aside, (*from, next), column),
        };
        if hits.is_err() {
            aside.tails.truncate(awake);
        }
        Ok((next, hits?))
    }

    fn walk_tails(
        &self,
        generation: &Built,
        aside: &mut Aside,
        column: usize,
    ) -> Result<Hits, Missing> {
        let mut hits = Hits::default();
        let table = &generation.table;
        for tail in &mut aside.tails {
            let next = table.step(tail.next, column);
            if table.is_special(next) {
                if next == table.unknown() {
                    return Err(Missing::Step(tail.next, column));
                }
                if table.is_due(next) {
                    return Err(Missing::Row(next));
                }
                hits.take(table, next);
            }
            tail.next = next;
        }
        Ok(hits)
    }

    /// The search goes from one state to another that reports something.
    fn walk_special(
        &self,
        generation: &Built,
        aside: &mut Aside,
        (from, to): (StateId, StateId),
        column: usize,
    ) -> Result<Hits, Missing> {
        let report = generation.table.report(to);
        let mut early = Hits::default();
        for late in report.late {
            let late = late.load(Ordering::Relaxed);
            self.reach(generation, aside, from, late, true, &mut early)?;
        }
        let mut hits = self.walk_tails(generation, aside, column)?;
        hits.append(early);
        for now in report.now {
            let now = now.load(Ordering::Relaxed);
            self.reach(generation, aside, to, now, false, &mut hits)?;
        }
        Ok(hits)
    }

    /// The search, in state `at`, reaches something: a pattern or a cut.
    #[inline]
    fn reach(
        &self,
        generation: &Built,
        aside: &mut Aside,
        at: StateId,
        reached: u32,
        is_late: bool,
        hits: &mut Hits,
    ) -> Result<(), Missing> {
        if reached & CUT == 0 {
            hits.push(reached, is_late);
            return Ok(());
        }
        let cut = reached & !CUT;
        if self
            .once
            .as_ref()
            .is_some_and(|once| once.is_over(aside, cut))
        {
            return Ok(());
        }
        let Built { table, dead, .. } = generation;
        let tails = &mut aside.tails;
        let index = tails.iter().position(|tail| tail.cut == cut);
        let next = match index.map(|index| tails[index].next) {
            Some(live) if live != *dead => match table.woken(live) {
                next if next == table.unknown() => return Err(Missing::Woken(live)),
                next if table.is_due(next) => return Err(Missing::Row(next)),
                next => next,
            },
            _ => {
                let before = Before::ALL[table.before(at) as usize];
                let first = generation.first_of(cut, before);
                first.ok_or(Missing::Start(cut, before))?
            }
        };
        match index {
            Some(index) => tails[index].next = next,
            None => tails.push(Tail {
                cut,
                state: *dead,
                next,
            }),
        }
        if table.is_special(next) {
            table.report(next).now.iter().for_each(|pattern| {
                hits.push(pattern.load(Ordering::Relaxed), is_late);
            });
        }
        Ok(())
    }

    /// Wakes the tails that a haystack begins with.
    fn wake_first(&self, cursor: &mut Cursor) {
        if cursor.generation.first_cuts.is_empty() {
            return;
        }
        while !cursor.is_over() {
            match self.walk_first(cursor) {
                Ok(()) => {
                    let dead = cursor.generation.dead;
                    return cursor.aside.iter_mut().for_each(|aside| aside.commit(dead));
                }
                Err(missing) => {
                    cursor.tails().clear();
                    self.build(cursor, missing);
                }
            }
        }
        if let Some(over) = cursor.aside.as_mut().and_then(|aside| aside.over.as_mut()) {
            let mut builder = cursor.generation.lock();
            let hits = &mut Hits::default();
            for &cut in &cursor.generation.first_cuts {
                over.wake(
                    &self.nfa,
                    &mut builder,
                    cut & !CUT,
                    Before::Start,
                    false,
                    hits,
                );
            }
        }
    }

    fn walk_first(&self, cursor: &mut Cursor) -> Result<(), Missing> {
        let Cursor {
            generation, aside, ..
        } = cursor;
        let aside = aside.get_or_insert_default();
        aside.tails.clear();
        for &cut in &generation.first_cuts {
            // No pattern matches the empty text, so nothing is reported here.
            let hits = &mut Hits::default();
            self.reach(generation, aside, generation.start(), cut, false, hits)?;
        }
        Ok(())
    }

    fn masks(&self) -> &Masks {
        self.masks.get_or_init(|| Masks::new(&self.nfa))
    }

    /// Builds what is missing; where there is no room the cursor leaves the table.
    #[cold]
    fn build(&self, cursor: &mut Cursor, missing: Missing) {
        let generation = Arc::clone(&cursor.generation);
        let mut builder = generation.lock();
        let stepped = std::mem::take(&mut cursor.stepped);
        match builder.build(&self.nfa, &generation.table, missing, stepped) {
            Some(state) => generation.note(missing, state),
            None => self.leave(cursor, &builder),
        }
    }

    /// Gives the cursor its NFA states.
    fn leave(&self, cursor: &mut Cursor, builder: &Builder) {
        let table = &cursor.generation.table;
        let state = cursor.state;
        let aside = cursor.aside.get_or_insert_default();
        if aside.over.is_some() {
            return;
        }
        let tails = aside.tails.drain(..);
        let live = builder.live(table, state);
        let mut search = std::mem::take(&mut aside.crowd);
        search.set(self.masks(), live.states);
        aside.over = Some(Over {
            before: live.before,
            search,
            tails: tails
                .map(|tail| (tail.cut, builder.live(table, tail.state)))
                .collect(),
            wait: aside.waited,
        });
    }

    /// Takes a cursor back to the table if that is due, and it knows the states or has room for them.
    fn settle(&self, cursor: &mut Cursor, builder: &mut Builder) -> bool {
        let Some(aside) = &mut cursor.aside else {
            return true;
        };
        let Some(over) = &mut aside.over else {
            return true;
        };
        if over.wait > 0 {
            over.wait -= 1;
            return false;
        }
        aside.waited = (2 * aside.waited + 1).min(MOST_WAIT);
        over.wait = aside.waited;
        let table = &cursor.generation.table;
        let Some(state) = builder.place(&self.nfa, table, &over.live()) else {
            return false;
        };
        let place = |(cut, live): &(u32, _)| {
            let state = builder.place(&self.nfa, table, live)?;
            let (cut, next) = (*cut, state);
            Some(Tail { cut, state, next })
        };
        let Some(tails) = over.tails.iter().map(place).collect::<Option<Vec<Tail>>>() else {
            return false;
        };
        cursor.state = state;
        // What was stepped outside the table says nothing of it.
        cursor.stepped = 0;
        // It may soon be out again, and the first time nothing is waited for.
        aside.waited /= 4;
        aside.tails.extend(tails);
        aside.crowd = aside
            .over
            .take()
            .map(|over| over.search)
            .unwrap_or_default();
        true
    }

    fn step_over(
        &self,
        builder: &mut Builder,
        cursor: &mut Cursor,
        column: usize,
        place: Place,
        on: &mut impl FnMut(Event),
    ) {
        builder.passed();
        let mut hits = Hits::default();
        let aside = cursor
            .aside
            .as_mut()
            .expect("the cursor has left the table");
        let over = aside.over.as_mut().expect("the cursor has left the table");
        over.step(&self.nfa, self.masks(), builder, column, &mut hits);
        self.commit(cursor, hits, place, on);
    }
}
