//! The product automaton of several matchers that read the same text: one step takes the place of a step of each.
//!
//! A state of the product stands for a tuple of states, one for each automaton of each matcher. It is built lazily from
//! their tables. The product has a transition only where no automaton does more than change its state. Where one of them
//! reports a pattern, activates a suffix or has not built the transition, the product has none. The caller adds a small
//! automaton of its own, the [`TextFilter`], which restricts the text further. Some matchers may read only what the filter
//! emits of it.
//!
//! The product steps bytes, and the automata of its matchers step characters. A state within a character therefore stands
//! for the tuple before it and the first bytes of the character. The automata step at its last byte. A text that ends
//! within a character is not stepped: the matchers would have to wait for the rest of it.
//!
//! A caller steps the product over a delta as it arrives. While there are transitions, no matcher would have reported
//! anything, so none of them is stepped. Before a delta on which there is no transition, the cursors move to the states
//! that the product has reached ([`Product::member_states`]).
//!
//! # Layout
//!
//! A row has a cell for each byte. A cell holds the offset of a row in `cells`, which is a multiple of `COLUMNS`, and in its
//! lowest bits whether the matchers of each [`IdleGroup`] are idle in that state, whether the filter is settled, whether the
//! state is within a character, and whether a matcher reports a pattern if the text ends there. The cells of the bytes beyond ASCII are in a second half of `cells`, so that they lie in
//! no cache line that ASCII text needs.
//!
//! # Invariants
//!
//! 1. Row 0 has no transitions: all of its cells are 0. It stands for "no transition", and steps from it stay in it.
//! 2. A cell holds 0 or the offset of the only row that its transition leads to. Only [`Product::build`] changes it, once.
//!    The tuple of a row never changes.
//! 3. A transition of a row is the transition of each state of its tuple, over what its member reads of the byte. It is built
//!    from tables of the generations in `generations` alone: a cursor of another generation enters no state.
//! 4. Stepping takes no lock. Entering and leaving the product reads `tuples` and `by_hash` under a lock that readers share;
//!    building a transition takes it alone.
//! 5. A [`ProductState`] is never row 0, and never within a character.
//!
//! The product keeps no table alive: the caller passes the cursors, which hold them, wherever a table is read.

use std::iter::repeat_n;
use std::ops::Range;

use super::super::Cursor;
use super::super::Matcher;
use super::super::alphabet::Alphabet;
use super::super::hash::{self, IdentityMap};
use super::super::sync::{
    AtomicU32, Ordering, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use super::super::table::{StateId, reserve};
use super::super::utf8::{self, Symbol};
use super::DfaCursor;

/// The cells of a row in each half of `cells`: one for each ASCII character, and one for each byte beyond.
// PERF: rows by byte and not by class, so that a step needs no lookup of the column. A delta of text with the default packs
// takes 1,313 instructions, and 2,500 with a step of each automaton (callgrind of `cargo bench --bench shipped`).
const COLUMNS: usize = 128;

/// The bits of a cell: the first is set if every [`IdleGroup::Held`] and [`IdleGroup::HeldInView`] member is idle, the second
/// if every [`IdleGroup::Tracked`] member is, too, the third if the state of the filter is settled. The fourth is set within
/// a character, and no other one with it. The last is set if no member reports a pattern at the end of a text that ends here.
const HELD_IDLE: u32 = 1;
const ALL_IDLE: u32 = 2;
const SETTLED: u32 = 4;
const PARTIAL: u32 = 8;
const ENDS_WITHOUT_MATCH: u32 = 16;

/// The most rows of a product. Text that needs more gains little from it.
const MAX_ROWS: usize = match cfg!(target_family = "wasm") {
    // A reservation is resident there.
    true => 256,
    false => 8192,
};

/// The most rows within a character. There are as many for each state after which a script begins as the script has pairs
/// of first bytes: some 400 for Chinese.
const MAX_PARTIAL_ROWS: usize = MAX_ROWS / 2;

/// A matcher's cursor as a member of a product.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The matcher.
    pub matcher: &'a Matcher,
    /// Its cursor.
    pub cursor: &'a Cursor,
    /// The positions of [`IdlePositions`] that consider this matcher.
    pub idle: IdleGroup,
    /// True if it reads what the filter [emits](FilterStep::emits), false if it reads the text.
    pub is_filtered: bool,
}

/// The positions of [`IdlePositions`] that consider a matcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleGroup {
    /// None.
    Untracked,
    /// `all`. Only for matchers made by [`Matcher::for_full_matches`](crate::Matcher::for_full_matches).
    Tracked,
    /// `all` and `held`. Only for matchers made by [`Matcher::for_full_matches`](crate::Matcher::for_full_matches).
    Held,
    /// As `Held`, for a matcher that need not read the text after the last settled state: there it does not count as idle.
    HeldInView,
}

/// Positions in a text, as numbers of leading bytes: the last ones at which no match of some matchers was in progress. 0
/// if there is none after the start of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdlePositions {
    /// For the members of [`IdleGroup::Held`] and [`IdleGroup::HeldInView`].
    pub held: usize,
    /// For these and the members of [`IdleGroup::Tracked`].
    pub all: usize,
}

/// The product automaton of a list of matchers. It is immutable except for its append-only rows, which all cursors share.
///
/// # Example: two matchers, of which one reports
/// ```
/// use ttsr_automata::pattern::parse;
/// use ttsr_automata::product::{Emission, FilterStep, Member, Product, TextFilter};
/// use ttsr_automata::{Matcher, PatternLimits};
///
/// let matcher = |pattern| Matcher::new(&[parse(pattern, &PatternLimits::default()).unwrap()], 1 << 20).unwrap();
/// let (one, other) = (matcher("unwrap"), matcher("panic"));
/// let (mut first, mut second) = (one.start(), other.start());
/// let after = |state, byte| (byte != b'\n').then_some(FilterStep { state, emits: Emission::Char });
/// let product = Product::new(TextFilter { after, is_settled: |_| true });
/// // The tables have no transitions for this text yet.
/// let start = product.start(&[Member::new(&one, &first), Member::new(&other, &second)], 0).unwrap();
/// assert!(product.step(start, b"no pan").is_none());
/// for (matcher, cursor) in [(&one, &mut first), (&other, &mut second)] {
///     matcher.push(cursor, b"no pan", |event| panic!("{event:?}"));
///     matcher.restart(cursor);
/// }
/// let members = [Member::new(&one, &first), Member::new(&other, &second)];
/// let step = product.build(&members, start, b"no pan").unwrap();
/// assert_eq!(product.step(start, b"no pan").unwrap().state, step.state);
/// // A match has no transition.
/// assert!(product.build(&members, step.state, b"ic").is_none());
/// ```
#[derive(Debug)]
pub struct Product {
    cells: Box<[AtomicU32]>,
    filter: TextFilter,
    /// The number of times that a state had no room.
    rejected_states: AtomicU32,
    rows: RwLock<Rows>,
}

/// The tuples of the rows.
#[derive(Debug, Default)]
struct Rows {
    /// The generation of each automaton, set with the first row.
    generations: Vec<u32>,
    /// The tuple of each row, one after the other. Row 0 has none.
    tuples: Vec<MemberState>,
    /// The row of each tuple, by its hash.
    by_hash: IdentityMap<u64, u32>,
    /// The number of rows within a character.
    partial: usize,
}

/// The most automata of a product.
const MAX_AUTOMATA: usize = 23;

/// A tuple of states: that of the filter, and one for each automaton.
#[derive(Clone, Copy, Debug)]
struct Tuple {
    states: [MemberState; MAX_AUTOMATA + 1],
    len: usize,
    /// The lowest bits of its cells, except for the last one.
    bits: u32,
}

/// An automaton that restricts the text of a product, and may drop some of it. Its states are numbers that the caller
/// chooses.
#[derive(Clone, Copy, Debug)]
pub struct TextFilter {
    /// Returns the step from a state over a character, of which it gets the first byte, or `None` if the text is not to be
    /// stepped.
    pub after: fn(u8, u8) -> Option<FilterStep>,
    /// Returns true if the caller may use the text up to this state, whatever follows.
    pub is_settled: fn(u8) -> bool,
}

/// A step of a [`TextFilter`] over a character.
#[derive(Clone, Copy, Debug)]
pub struct FilterStep {
    /// The state after the character.
    pub state: u8,
    /// The text that the [filtered](Member::is_filtered) members read.
    pub emits: Emission,
}

/// The text that a step of a [`TextFilter`] emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emission {
    /// The character.
    Char,
    /// Nothing. The character is dropped, or a later step emits it.
    Nothing,
    /// A character of ASCII as often as it was held, then the character.
    HeldAndChar(u8, usize),
}

/// The state of one automaton in a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    State(StateId),
    /// The automaton reports each pattern once, and has reported all.
    Exhausted,
    /// A state of the filter, the first of each tuple, with the bytes of the incomplete character.
    Filter {
        state: u8,
        pending: Pending,
    },
}

/// The bytes of an incomplete character, at most three, padded with zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pending([u8; 3]);

/// A state of a [`Product`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductState(u32);

/// A text that a product has stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductStep {
    /// The state after the text.
    pub state: ProductState,
    /// The last idle positions in the text.
    pub idle: IdlePositions,
}

/// The states of the matchers in a state of a product, one after the other.
#[derive(Debug)]
pub struct MemberStates<'a> {
    rows: RwLockReadGuard<'a, Rows>,
    /// The index of the next one in `tuples`.
    at: usize,
    /// The number of bytes that the product has stepped.
    len: usize,
    /// The number of bytes of the last character.
    last_char: usize,
}

impl<'a> Member<'a> {
    /// Returns a member that is not tracked and reads the text.
    pub fn new(matcher: &'a Matcher, cursor: &'a Cursor) -> Member<'a> {
        Member {
            matcher,
            cursor,
            idle: IdleGroup::Untracked,
            is_filtered: false,
        }
    }

    /// Returns the cursors of its automata.
    fn cursors(self) -> impl Iterator<Item = &'a DfaCursor> {
        self.cursor.cursors()
    }

    /// Returns the alphabets of its automata, with their cursors.
    fn automata(self) -> impl Iterator<Item = (&'a Alphabet, &'a DfaCursor)> {
        let alphabets = self.matcher.automata();
        alphabets
            .map(|automaton| &automaton.lazy.nfa().alphabet)
            .zip(self.cursors())
    }
}

impl Product {
    /// Creates a product without states, for text that `filter` accepts.
    ///
    /// # Complexity
    /// Reserves 8 MiB of address space, 256 KiB of memory on WebAssembly. A state takes 512 bytes of it, 1,024 if characters
    /// beyond ASCII follow, and eight bytes for each automaton besides.
    #[must_use]
    pub fn new(filter: TextFilter) -> Product {
        Product {
            cells: reserve(2 * MAX_ROWS * COLUMNS),
            filter,
            rejected_states: AtomicU32::new(0),
            rows: RwLock::default(),
        }
    }

    /// Returns the state for these cursors and this state of the filter, and adds it if it is new. Every call must pass the
    /// same matchers in the same order. Returns `None` if a cursor is inside a character, has live suffixes or no state in
    /// a table, if its table is not that of the states before, or if there is no room.
    ///
    /// # Complexity
    /// Linear in the number of automata. Takes the lock that readers share, alone only to add a state.
    pub fn start(&self, members: &[Member<'_>], filter: u8) -> Option<ProductState> {
        let mut tuple = self.filter.tuple(filter, Pending::default());
        for member in members {
            for cursor in member.cursors() {
                tuple.push(MemberState::of(cursor)?, cursor, member.idle)?;
            }
        }
        let rows = self.read();
        // The states before may be those of another set of tables. An empty product has none and takes the tables of
        // these cursors.
        let row = match rows.has_generations_of(members) {
            true => rows.find(&tuple),
            false if rows.by_hash.is_empty() => None,
            false => return None,
        };
        drop(rows);
        let row = match row {
            Some(row) => row,
            None => self.write().add(members, &tuple, &self.rejected_states),
        };
        row.map(ProductState)
    }

    /// Steps a text. Returns `None` if there is no transition on one of its bytes, or if it ends within a character.
    ///
    /// # Complexity
    /// One load for each byte.
    #[inline]
    #[must_use]
    pub fn step(&self, from: ProductState, text: &[u8]) -> Option<ProductStep> {
        let mut after_all = text.len();
        // Row 0 leads to itself, so the loop needs no test for it.
        let state = self.step_bytes(from, text, |_, _, next, rest| {
            if next & ALL_IDLE != 0 {
                after_all = rest;
            }
            next
        });
        // PERF: most deltas end where no match is held, so `held` is searched for only after the others.
        if state & HELD_IDLE == 0 {
            return self.step_with(from, text, |_, _| None);
        }
        // Such a state is neither row 0 nor within a character.
        Some(ProductStep {
            state: ProductState(state),
            idle: IdlePositions {
                held: text.len(),
                all: text.len() - after_all,
            },
        })
    }

    /// Steps a text byte by byte and returns the last state. `arrive` gets the state before a byte, the byte, the state after
    /// it, and the number of bytes that follow, and returns the state to continue with.
    #[inline(always)]
    fn step_bytes(
        &self,
        from: ProductState,
        text: &[u8],
        mut arrive: impl FnMut(u32, u8, u32, usize) -> u32,
    ) -> u32 {
        // A local slice: the loads of the loop order what is read through `self`, which would be read again for each byte.
        let cells = &*self.cells;
        let (mut state, mut rest) = (from.0, text);
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            state = arrive(state, byte, next(cells, state, byte), rest.len());
        }
        state
    }

    /// Steps a text. `missing` builds a transition that is missing and returns its row, or `None` if it cannot.
    #[inline(always)]
    fn step_with(
        &self,
        from: ProductState,
        text: &[u8],
        mut missing: impl FnMut(u32, u8) -> Option<u32>,
    ) -> Option<ProductStep> {
        let mut idle = IdlePositions::default();
        let state = self.step_bytes(from, text, |state, byte, next, rest| {
            let next = match next {
                0 => missing(state, byte).unwrap_or(0),
                next => next,
            };
            idle.record(next, text.len() - rest);
            next
        });
        // Invariant 5. A delta that ends within a character is rare: providers send whole characters.
        (state != 0 && state & PARTIAL == 0).then_some(ProductStep {
            state: ProductState(state),
            idle,
        })
    }

    /// Steps a text and builds the transitions that are missing. `members` are those of which `from` is a state, in the
    /// order of [`start`](Self::start); their cursors may be elsewhere in the text by now. Returns `None` if a member has
    /// more to do in the text than to change its state, if the text ends within a character, or if there is no room.
    ///
    /// # Complexity
    /// Linear in the length of the text and, for each transition that is missing, in the number of automata. Takes the lock
    /// alone.
    ///
    /// # Panics
    /// The state is of another product, and has no row in this one.
    pub fn build(
        &self,
        members: &[Member<'_>],
        from: ProductState,
        text: &[u8],
    ) -> Option<ProductStep> {
        let mut rows = self.write();
        self.step_with(from, text, |state, byte| {
            let tuple = rows.successor(members, state, byte, self.filter);
            let row = tuple.and_then(|tuple| rows.add(members, &tuple, &self.rejected_states));
            let next = row?;
            // A reader that still sees 0 declines. Nothing else is published through cells.
            self.cells[cell(state, byte)].store(next, Ordering::Release);
            Some(next)
        })
    }

    /// Returns the states of the matchers in `state`, which the product has reached after `text`. They hold the lock that
    /// readers share: until they are dropped, the thread must call neither [`start`](Self::start) nor [`build`](Self::build),
    /// which could wait for another thread that waits for this one.
    ///
    /// # Panics
    /// The state is of another product, and has no row in this one.
    #[must_use]
    pub fn member_states(&self, state: ProductState, text: &[u8]) -> MemberStates<'_> {
        let rows = self.read();
        MemberStates {
            at: rows.tuple_at(state.0).start + 1,
            rows,
            len: text.len(),
            last_char: utf8::last_char_len(text),
        }
    }

    /// Returns true if the product should be replaced by a new one, because text needs more states than there is room for.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rejected_states.load(Ordering::Relaxed) as usize > MAX_ROWS
    }

    /// Returns true if the product should be replaced by a new one, because the tables of these cursors are later ones than
    /// those of its states.
    #[must_use]
    pub fn is_outdated(&self, members: &[Member<'_>]) -> bool {
        let rows = self.read();
        let mut cursors = members.iter().flat_map(|member| member.cursors());
        // Cursors of earlier tables do not count, or two streams would replace each other's product for ever.
        !rows.by_hash.is_empty()
            && !rows.has_generations_of(members)
            && rows.generations.iter().all(|generation| {
                cursors
                    .next()
                    .is_some_and(|it| it.generation.number() >= *generation)
            })
    }

    // Nothing that can panic stands between two changes of the rows that belong together.
    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the state after a byte, 0 if there is no transition.
#[inline(always)]
fn next(cells: &[AtomicU32], state: u32, byte: u8) -> u32 {
    // In bounds, because the offset is that of a row.
    cells[cell(state, byte)].load(Ordering::Acquire)
}

/// Returns the index of the cell of a row for a byte.
#[inline(always)]
fn cell(state: u32, byte: u8) -> usize {
    // PERF: without a branch on the byte, and the load that depends on it does not depend on the state, so the chain of
    // loads from state to state is no longer than with a single half.
    (state & !(COLUMNS as u32 - 1)) as usize + CELL_OF_BYTE[usize::from(byte)] as usize
}

/// The index of the cell of row 0 for each byte.
static CELL_OF_BYTE: [u32; 256] = {
    let mut cells = [0; 256];
    let mut byte = 0;
    while byte < cells.len() {
        let half = byte / COLUMNS * (MAX_ROWS * COLUMNS);
        cells[byte] = (half + byte % COLUMNS) as u32;
        byte += 1;
    }
    cells
};

impl IdlePositions {
    #[inline(always)]
    fn record(&mut self, state: u32, at: usize) {
        if state & HELD_IDLE != 0 {
            self.held = at;
        }
        if state & ALL_IDLE != 0 {
            self.all = at;
        }
    }
}

impl MemberStates<'_> {
    /// Moves the cursor of the next member, which has not moved since the product was entered.
    ///
    /// # Panics
    /// The product has no such member, or the cursor is of another table.
    pub fn move_next(&mut self, cursor: &mut Cursor) {
        cursor
            .cursors_mut()
            .for_each(|cursor| self.move_one(cursor));
    }

    fn move_one(&mut self, cursor: &mut DfaCursor) {
        if let MemberState::State(state) = self.rows.tuples[self.at] {
            // A state of another table would give wrong matches, but must not lead to a read outside of this one.
            assert!(
                cursor.generation.table.contains(state),
                "the state is of another table"
            );
            cursor.state = state;
            // The text counts as use of the table, as if the cursor had stepped it: see `CacheBuilder::build`.
            cursor.stepped = cursor.stepped.wrapping_add(self.len as u32);
            // Invariant 7 of `lazy_dfa::search`. The product has stepped whole characters, so none is pending.
            cursor.decoder.advance(self.last_char);
        }
        self.at += 1;
    }
}

impl ProductState {
    /// Returns true if the state of the filter is [settled](TextFilter::is_settled).
    #[inline]
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.0 & SETTLED != 0
    }

    /// Returns true if no matcher reports a pattern when the text ends here.
    #[inline]
    #[must_use]
    pub fn ends_without_match(self) -> bool {
        self.0 & ENDS_WITHOUT_MATCH != 0
    }
}

impl TextFilter {
    /// Returns a tuple of a state of this filter and no automaton.
    fn tuple(self, state: u8, pending: Pending) -> Tuple {
        let mut states = [MemberState::Exhausted; MAX_AUTOMATA + 1];
        states[0] = MemberState::Filter { state, pending };
        let bits = match (pending.bytes(), (self.is_settled)(state)) {
            // No text ends here, so nobody is idle: text is released up to the end of a character.
            ([_, ..], _) => PARTIAL,
            ([], true) => HELD_IDLE | ALL_IDLE | SETTLED,
            ([], false) => HELD_IDLE | ALL_IDLE,
        };
        Tuple {
            states,
            len: 1,
            bits,
        }
    }
}

impl Tuple {
    /// Adds the state of an automaton. Returns `None` if there are too many.
    fn push(&mut self, state: MemberState, cursor: &DfaCursor, group: IdleGroup) -> Option<()> {
        *self.states.get_mut(self.len)? = state;
        self.len += 1;
        let is_settled = self.bits & SETTLED != 0;
        self.bits &= SETTLED | PARTIAL | state.idle_bits(cursor, group, is_settled);
        Some(())
    }

    fn states(&self) -> &[MemberState] {
        &self.states[..self.len]
    }

    /// Returns true if no member reports a pattern at the end of a text that ends here.
    fn ends_without_match(&self, members: &[Member<'_>]) -> bool {
        let automata = members.iter().flat_map(|member| {
            let automata = member.matcher.automata().map(|it| &it.lazy);
            automata.zip(member.cursors())
        });
        let mut states = self.states()[1..].iter().zip(automata);
        self.bits & PARTIAL == 0
            && states.all(|(state, (lazy, cursor))| match state {
                MemberState::State(state) => lazy.ends_without_match(&cursor.generation, *state),
                MemberState::Exhausted | MemberState::Filter { .. } => true,
            })
    }

    fn hash(&self) -> u64 {
        self.states().iter().fold(self.len as u64, |hash, state| {
            hash::combine(hash, state.bits().into())
        })
    }
}

impl Rows {
    /// Returns true if the rows are of the tables of these cursors.
    fn has_generations_of(&self, members: &[Member<'_>]) -> bool {
        let cursors = members.iter().flat_map(|member| member.cursors());
        let generations = cursors.map(|cursor| cursor.generation.number());
        !self.by_hash.is_empty() && generations.eq(self.generations.iter().copied())
    }

    /// Returns the range of a row's tuple in `tuples`.
    fn tuple_at(&self, row: u32) -> Range<usize> {
        let width = 1 + self.generations.len();
        debug_assert!(row as usize >= COLUMNS, "row 0 has no tuple");
        let start = (cell(row, 0) / COLUMNS - 1) * width;
        start..start + width
    }

    /// Returns the row of a tuple, as it stands in a cell. `None` if the tuple is new, and `Some(None)` if it can have no
    /// row, because another one has its hash.
    fn find(&self, tuple: &Tuple) -> Option<Option<u32>> {
        let row = *self.by_hash.get(&tuple.hash())?;
        let is_same = self.tuples[self.tuple_at(row)] == *tuple.states();
        Some(is_same.then_some(row))
    }

    /// Returns the row of a tuple, as it stands in a cell, and adds it if there is none. `None` if there is no room, or the
    /// rows are of other tables.
    fn add(
        &mut self,
        members: &[Member<'_>],
        tuple: &Tuple,
        rejected_states: &AtomicU32,
    ) -> Option<u32> {
        if self.by_hash.is_empty() {
            let cursors = members.iter().flat_map(|member| member.cursors());
            let generations = cursors.map(|cursor| cursor.generation.number());
            self.generations = generations.collect();
        } else if !self.has_generations_of(members) {
            return None;
        }
        if let Some(row) = self.find(tuple) {
            return row;
        }
        // Row 0 has no tuple.
        let row = 1 + self.by_hash.len();
        if row == MAX_ROWS {
            rejected_states.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        if tuple.bits & PARTIAL != 0 {
            // Not counted as rejected: another product would soon have as many. Text with such characters is then read by
            // the matchers, as all text was before the first state.
            if self.partial == MAX_PARTIAL_ROWS {
                return None;
            }
            self.partial += 1;
        }
        let mut row = (row * COLUMNS) as u32 | tuple.bits;
        if tuple.ends_without_match(members) {
            row |= ENDS_WITHOUT_MATCH;
        }
        self.tuples.reserve(tuple.len);
        self.by_hash.reserve(1);
        self.tuples.extend_from_slice(tuple.states());
        self.by_hash.insert(tuple.hash(), row);
        Some(row)
    }

    /// Returns the tuple after a row, if no member has more to do than to change its state.
    fn successor(
        &self,
        members: &[Member<'_>],
        from: u32,
        byte: u8,
        filter: TextFilter,
    ) -> Option<Tuple> {
        // Row 0 has no tuple.
        if from == 0 || !self.has_generations_of(members) {
            return None;
        }
        let (first, states) = self.tuples[self.tuple_at(from)].split_first()?;
        let MemberState::Filter { state, pending } = *first else {
            return None;
        };
        // Within a character no automaton moves: as in `push_symbols`, a character is stepped at its last byte.
        let (state, pending, char, emits) = match pending.push(byte)? {
            Pushed::Char(char, first) => {
                let step = (filter.after)(state, first)?;
                (step.state, Pending::default(), Some(char), step.emits)
            }
            Pushed::Incomplete(pending) => (state, pending, None, Emission::Nothing),
        };
        let mut tuple = filter.tuple(state, pending);
        let mut states = states.iter();
        for member in members {
            let (held, char) = match (member.is_filtered, emits) {
                (false, _) | (true, Emission::Char) => (None, char),
                (true, Emission::Nothing) => (None, None),
                (true, Emission::HeldAndChar(held, count)) => (Some((held, count)), char),
            };
            let held = held.map(|(held, count)| repeat_n(char::from(held), count));
            let text = held.into_iter().flatten().chain(char);
            for (alphabet, cursor) in member.automata() {
                let before = *states.next()?;
                let after = |state: MemberState, char| state.after(alphabet, cursor, char);
                let state = text.clone().try_fold(before, after)?;
                tuple.push(state, cursor, member.idle)?;
            }
        }
        Some(tuple)
    }
}

impl MemberState {
    /// Returns the state of a cursor, if it is a single state of its table or exhausted.
    fn of(cursor: &DfaCursor) -> Option<MemberState> {
        if cursor.is_exhausted() {
            return Some(MemberState::Exhausted);
        }
        cursor
            .is_single_state()
            .then_some(MemberState::State(cursor.state))
    }

    /// Returns the state after a character, if it and those on the way are plain and built. The state is one of the
    /// cursor's table.
    fn after(self, alphabet: &Alphabet, cursor: &DfaCursor, char: char) -> Option<MemberState> {
        let MemberState::State(state) = self else {
            return Some(self);
        };
        let table = &cursor.generation.table;
        // A symbol for each byte, if the patterns of the automaton need bytes. A state on the way may have a report: then
        // the character has no transition, although its last state is plain.
        let mut next = Some(state);
        alphabet.symbol(Symbol::Char(char), |column, _| {
            let after = next.map(|state| table.step(state, column));
            next = after.filter(|state| !table.is_special(*state));
        });
        next.map(MemberState::State)
    }

    /// Returns the bits of a cell that say who is idle, as far as this member allows them.
    fn idle_bits(self, cursor: &DfaCursor, group: IdleGroup, is_settled: bool) -> u32 {
        let is_idle = match self {
            MemberState::State(state) => cursor.generation.is_start_state(state),
            MemberState::Exhausted | MemberState::Filter { .. } => true,
        };
        match group {
            IdleGroup::Tracked if !is_idle => HELD_IDLE,
            IdleGroup::Held | IdleGroup::HeldInView if !is_idle => 0,
            // If the text after the last settled state is dropped, a match that was in progress there goes on.
            IdleGroup::HeldInView if !is_settled => 0,
            _ => HELD_IDLE | ALL_IDLE,
        }
    }

    fn bits(self) -> u32 {
        match self {
            MemberState::State(state) => state.bits(),
            MemberState::Exhausted => u32::MAX,
            MemberState::Filter {
                state,
                pending: Pending([first, second, third]),
            } => u32::from_le_bytes([state, first, second, third]),
        }
    }
}

/// The result of [`Pending::push`].
enum Pushed {
    /// The character is complete; with its first byte.
    Char(char, u8),
    Incomplete(Pending),
}

impl Pending {
    /// Returns the bytes without the padding.
    fn bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|byte| *byte == 0);
        &self.0[..len.unwrap_or(self.0.len())]
    }

    /// Appends a byte. Returns `None` if the bytes are not the start of a character.
    fn push(self, byte: u8) -> Option<Pushed> {
        // The library knows the sequences that are no character: overlong forms, surrogates, stray bytes. After them the
        // decoder of each cursor has more to do than to change its state, so they have no transition.
        let mut bytes = [0; 4];
        let len = self.bytes().len();
        bytes[..len].copy_from_slice(self.bytes());
        bytes[len] = byte;
        let bytes = &bytes[..=len];
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(Pushed::Char(text.chars().next()?, bytes[0])),
            // More bytes may complete the character.
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => {
                let mut pending = Pending::default();
                pending.0[..=len].copy_from_slice(bytes);
                Some(Pushed::Incomplete(pending))
            }
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
