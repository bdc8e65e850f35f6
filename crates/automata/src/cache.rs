//! The cache of DFA states: it interns state sets, allocates their rows, and decides when the table is full.
//! `determinize` computes the sets themselves.
//!
//! # Invariants
//!
//! 1. Keys and rows correspond by position: the set of the n-th full row without a report is `keys[n]`, that of the
//!    n-th row with a report `special_keys[n]`, that of the n-th sparse row `sparse_keys[n]`. A row and its key are
//!    added together, under the lock.
//! 2. Rows, keys and encoded sets are only appended. A state id that a cursor holds therefore keeps its set.
//! 3. A state is interned, and its row complete, before any cell leads to it. The cell is written last.
//! 4. `by_hash` leads to the row of a state that is to be used from now on: its full row once it was promoted.
//! 5. No step changes anything if it runs out of budget. The cursor then continues in the fallback with the same set.
//! 6. The budget covers rows, keys and encoded sets. It is checked before anything is allocated. Only the first states
//!    get their rows whatever it is, so that every cursor has a state to start in.
//! 7. Everything here is called under the lock of the table, which `DfaCache` holds. Readers of the table take no lock:
//!    they see a transition only after everything behind it is complete (invariant 1 of `table`).

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use super::alphabet::Column;
use super::bit_nfa::{BitNfa, BitStateSet};
use super::determinize::state_repr;
use super::determinize::{Determinizer, StartClosure, StateSet, Successor};
use super::hash::{self, IdentityHasher};
use super::look::LookBehind;
use super::nfa::{Nfa, NfaStateId};
use super::report::{CutId, EncodedReport, PatternId};
use super::table::sparse::SPARSE_BYTES;
use super::table::{RowAllocator, RowSpec, StateId, Table};

/// A part of the table that a step needs and that is not built yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unbuilt {
    /// The transition of this state on this column.
    Transition(StateId, Column),
    /// The state of this suffix after it is activated while live.
    Reentry(StateId),
    /// The start state of the suffix of a cut.
    SuffixStart(CutId, LookBehind),
    /// A full row for this state.
    FullRow(StateId),
}

/// Builds the states of one table, under the lock of that table.
#[derive(Debug)]
pub(super) struct CacheBuilder {
    rows: RowAllocator,
    /// The bytes that rows and state sets may take together.
    budget: usize,
    /// True once a state did not fit. It is never cleared: the next generation starts with an empty table.
    is_full: bool,
    /// The state sets of the rows, in the order of the rows: without a report, with a report, and sparse.
    keys: Vec<StateKey>,
    special_keys: Vec<StateKey>,
    sparse_keys: Vec<StateKey>,
    /// The number of full rows without a report after which new states get a sparse row. The states that text visits
    /// first are mostly those that it visits most often, and full rows are faster.
    full_rows: usize,
    /// The number of sparse rows that have been promoted.
    promoted_rows: usize,
    /// The encoded state sets, one after the other.
    codes: Vec<u8>,
    /// The state of each hash of an encoded set.
    // A state is found by the hash of its encoded set, so the map needs no copy of the set as its key.
    by_hash: HashMap<u64, StateId, BuildHasherDefault<IdentityHasher>>,
    /// The start closure, by look-behind.
    // Seven of them, computed with the cache. The search adds one at every position.
    start_closures: Vec<StartClosure>,
    /// The contribution of the start closure to a successor, by look-behind and column.
    start_contributions: Vec<Option<Box<Successor>>>,
    columns: usize,
    /// The patterns that the end of the haystack decides, by state; see [`at_end`](Self::at_end).
    matches_at_end: BTreeMap<u32, Arc<[PatternId]>>,
    /// The steps taken in the fallback.
    fallback_steps: usize,
    /// Buffers that are kept between calls: `scratch` for a decoded set, `bit_states` for a step of the fallback, and
    /// `code` for an encoded set.
    scratch: StateSet,
    bit_states: BitStateSet,
    code: Vec<u8>,
    /// The transitions built since the last check for thrashing, and the symbols stepped meanwhile.
    built: u32,
    symbols: u32,
    /// True if states are built about as often as they are used.
    is_thrashing: bool,
    pub(super) determinizer: Determinizer,
}

/// The number of steps in the fallback that cost about as much as building a state.
const STEPS_PER_STATE: usize = 16;

/// The number of transitions that are built between two checks for thrashing.
const BUILDS_PER_CHECK: u32 = 1024;

/// The same while the cache is thrashing. It is small, so that ordinary text soon gets its states built again.
const BUILDS_PER_RECHECK: u32 = 8;

/// The least number of symbols stepped for each transition built. Below it the cache is thrashing, and stepping the
/// text as a bit-parallel NFA is ten times as fast. Ordinary text soon reaches twenty to fifty.
const SYMBOLS_PER_STATE: u32 = 2;

/// With at most this number of states no verdict is reached: every table starts empty, and all of its states are new.
const MIN_STATES_TO_JUDGE: usize = 8192;

/// The most states whose patterns at the end of a haystack are kept. It bounds them to a few hundred kilobytes.
const MAX_ENDS: usize = 4096;

/// An encoded state set, as a range of [`CacheBuilder::codes`].
#[derive(Clone, Copy, Debug)]
struct StateKey {
    start: u32,
    len: u32,
}

/// The bytes that a state takes in addition to its row and its encoded set.
// A hash table is between half full and nearly full, so an entry counts twice.
const KEY_BYTES: usize = size_of::<StateKey>() + 2 * size_of::<(u64, StateId)>();

impl CacheBuilder {
    pub(super) fn new(nfa: &Nfa, table: &Table, budget: usize) -> CacheBuilder {
        let mut determinizer = Determinizer::new(nfa.states.len());
        // Seven closures, one for each look-behind. They are computed here because every state depends on them.
        let start_closures = LookBehind::ALL
            .map(|before| determinizer.start_closure(nfa, before))
            .into();
        let columns = nfa.alphabet.len();
        CacheBuilder {
            rows: RowAllocator::new(table),
            budget,
            is_full: false,
            keys: Vec::new(),
            special_keys: Vec::new(),
            sparse_keys: Vec::new(),
            // No limit until the first states are built; `build_first_states` sets it.
            full_rows: usize::MAX,
            promoted_rows: 0,
            codes: Vec::new(),
            by_hash: HashMap::default(),
            start_closures,
            // Contributions are computed on first use: of all pairs of look-behind and column, text uses few.
            start_contributions: (0..LookBehind::ALL.len() * columns).map(|_| None).collect(),
            columns,
            matches_at_end: BTreeMap::new(),
            fallback_steps: 0,
            scratch: StateSet::default(),
            bit_states: BitStateSet::default(),
            built: 0,
            symbols: 0,
            is_thrashing: false,
            code: Vec::new(),
            determinizer,
        }
    }

    /// Returns the number of states built, each counted once however many rows it has.
    pub(super) fn states(&self) -> usize {
        // A promoted state has the key of its sparse row and that of its full row.
        self.keys() - self.promoted_rows
    }

    /// Returns the number of keys. A promoted state has two.
    fn keys(&self) -> usize {
        self.keys.len() + self.special_keys.len() + self.sparse_keys.len()
    }

    /// Returns how many states have a sparse row, and how many had one.
    #[cfg(test)]
    pub(super) fn shape(&self) -> String {
        let sparse = self.sparse_keys.len();
        format!("{} sparse rows, {} promoted", sparse, self.promoted_rows)
    }

    /// Returns the bytes of all rows.
    pub(super) fn table_bytes(&self, table: &Table) -> usize {
        self.rows.bytes(table)
    }

    /// Returns the bytes of all state sets.
    pub(super) fn set_bytes(&self) -> usize {
        // The capacity counts, not the length, because the capacity is what is allocated.
        self.codes.capacity() + self.keys() * KEY_BYTES
    }

    /// Returns the bytes that rows and state sets may take.
    pub(super) fn budget(&self) -> usize {
        self.budget
    }

    /// Returns true if the budget is spent.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns true if a new table is worth its cost: at once if ordinary text filled this one and a larger one, of at most
    /// `largest` bytes, may follow. Otherwise when the steps taken in the fallback have cost more than building all states
    /// again would have.
    pub(super) fn should_replace_cache(&self, largest: usize) -> bool {
        let is_ordinary = !self.is_thrashing && self.states() > MIN_STATES_TO_JUDGE;
        // Ordinary text uses its states again and again, so a larger table soon pays for itself.
        let least = match is_ordinary {
            true => self.states() / 16,
            // Text that thrashes would fill any table. A new one also computes the start closures, linear in the NFA.
            false => STEPS_PER_STATE * self.states() + self.determinizer.nfa_states(),
        };
        let can_grow = !self.is_thrashing && self.budget < largest;
        // Only a full table is replaced: the others can still build states.
        self.is_full && (can_grow || self.fallback_steps > least)
    }

    /// Counts a step in the fallback.
    pub(super) fn record_fallback_step(&mut self) {
        self.fallback_steps += 1;
    }

    /// Counts a transition that is requested after `symbols` symbols. Returns true if it should be built.
    fn should_build(&mut self, symbols: u32) -> bool {
        // `symbols` transitions were used since the last build, so the two sums compare use with construction.
        self.built += 1;
        self.symbols = self.symbols.saturating_add(symbols);
        let interval = if self.is_thrashing {
            BUILDS_PER_RECHECK
        } else {
            BUILDS_PER_CHECK
        };
        if self.built >= interval {
            // Few states and small sets are not judged: they are cheap, and every text starts with unbuilt states.
            let is_wasteful = self.symbols < SYMBOLS_PER_STATE * self.built;
            let has_evidence =
                self.states() > MIN_STATES_TO_JUDGE || self.set_bytes() > self.budget / 8;
            self.is_thrashing = is_wasteful && has_evidence;
            // A new interval starts, so that one bad passage of the text does not count against the next.
            (self.built, self.symbols) = (0, 0);
            return !self.is_thrashing;
        }
        true
    }

    /// Builds the start states, by look-behind, and the state of dead suffixes. They have rows even if the budget is
    /// too small for them.
    pub(super) fn build_first_states(
        &mut self,
        table: &Table,
    ) -> ([StateId; LookBehind::ALL.len()], StateId) {
        // The start states come first, in the order of their look-behinds: `DfaCache::is_start_state` compares ids.
        let start_states = LookBehind::ALL.map(|before| {
            self.determinizer.successor.clear();
            self.determinizer.successor.state_set.before = before;
            // The cuts before the first symbol are activated by the cursor itself, from `initial_cuts`: no transition
            // leads into the start of a haystack.
            if before != LookBehind::Start {
                let cuts = &self.start_closures[before as usize].cuts;
                self.determinizer.successor.now.extend_from_slice(cuts);
            }
            self.add_first(table)
        });
        self.determinizer.successor.clear();
        self.determinizer.successor.state_set = StateSet::dead();
        let dead = self.add_first(table);
        // A dead suffix stays dead. Complete rows from the start keep the search from asking for its transitions.
        let columns = (0..self.columns).map(Column::new);
        columns.for_each(|column| table.set(dead, column, dead));
        // The first states are not counted against the full rows that text fills.
        self.full_rows = table.sparse().full_rows.saturating_add(self.keys.len());
        (start_states, dead)
    }

    fn add_first(&mut self, table: &Table) -> StateId {
        // Only the budget can refuse these rows, so it is lifted for them.
        let budget = std::mem::replace(&mut self.budget, usize::MAX);
        let state = self.intern(table);
        // Restored before anything else is built.
        self.budget = budget;
        state.expect("a new table has room for its first states")
    }

    /// Returns the reports of the cuts that are reached before the first symbol.
    pub(super) fn initial_cuts(&self) -> &[EncodedReport] {
        &self.start_closures[LookBehind::Start as usize].cuts
    }

    /// Returns the state set of a state, decoded from its key.
    pub(super) fn state_set(&self, table: &Table, state: StateId) -> StateSet {
        let mut state_set = StateSet::default();
        state_repr::decode(self.encoded_set(table, state), &mut state_set);
        state_set
    }

    /// Returns the state with this set and no report, if it exists or there is room for it.
    pub(super) fn intern_set(
        &mut self,
        nfa: &Nfa,
        table: &Table,
        state_set: &StateSet,
    ) -> Option<StateId> {
        self.determinizer.successor.clear();
        self.determinizer.successor.state_set.clone_from(state_set);
        // The fallback does not drop subsumed copies. Without this, equal sets would have different representations.
        nfa.drop_subsumed(&mut self.determinizer.successor.state_set.states);
        // While the cache is thrashing, the cursor returns to the table only at a state that exists already.
        let was_full = self.is_full;
        self.is_full |= self.is_thrashing;
        let state = self.intern(table);
        if self.is_thrashing {
            self.is_full = was_full;
        }
        state
    }

    /// Builds what is missing and returns it. `symbols` is the number of symbols that the cursor stepped in the table
    /// since it last asked. Returns `None` if there is no room, or if the cache is thrashing.
    pub(super) fn build(
        &mut self,
        nfa: &Nfa,
        table: &Table,
        unbuilt: Unbuilt,
        symbols: u32,
    ) -> Option<StateId> {
        // Before the check for thrashing: a promotion builds no state, and declining it would ask again at every entry.
        if let Unbuilt::FullRow(state) = unbuilt {
            // A promotion adds no state, but the symbols stepped before it count as use.
            self.symbols = self.symbols.saturating_add(symbols);
            // Without a full row, the transitions of the sparse one remain in use.
            return Some(self.promote(table, state).unwrap_or_else(|| {
                // Otherwise every entry of the state would ask for a promotion again.
                table.cancel_promotion(state);
                state
            }));
        }
        if !self.should_build(symbols) {
            return None;
        }
        match unbuilt {
            Unbuilt::Transition(from, column) => {
                // Another thread may have built it while this one waited for the lock.
                let existing = table.step(from, column);
                if existing != table.unknown() {
                    return Some(existing);
                }
                let state_set = self.decode_into_scratch(table, from);
                self.step_set(nfa, &state_set, column);
                // Give the buffer back before anything can return.
                self.scratch = state_set;
                let next = self.intern(table)?;
                // The row of `from` may have to become a full one first. If that fails, the successor stays interned
                // and the transition unbuilt, which is consistent (invariant 5).
                table.set(self.row_with_slot(table, from)?, column, next);
                Some(next)
            }
            Unbuilt::Reentry(suffix) => {
                let state_set = self.decode_into_scratch(table, suffix);
                // The position is the same for both copies, so the look-behind of the live one holds for the new one.
                let cut = state_set.cut.expect("only suffixes are activated again");
                self.determinizer
                    .activate_suffix(nfa, &state_set, cut, state_set.before);
                self.scratch = state_set;
                let next = self.intern(table)?;
                table.set_reentry(self.row_with_slot(table, suffix)?, next);
                Some(next)
            }
            // From the empty set: no copy of this suffix is live.
            Unbuilt::SuffixStart(cut, before) => {
                self.determinizer
                    .activate_suffix(nfa, &StateSet::default(), cut, before);
                let first = self.intern(table)?;
                // The list of suffix starts is read without following promotions, so it must hold a full row. If there
                // is no room for one, the suffix starts in the fallback.
                self.promote(table, first)
            }
            Unbuilt::FullRow(_) => unreachable!("done above"),
        }
    }

    /// Returns the row of the state, with room for another transition; `None` if there is no room for a full row.
    fn row_with_slot(&mut self, table: &Table, state: StateId) -> Option<StateId> {
        let promoted = table.promoted(state);
        match table.has_slot(promoted) {
            true => Some(promoted),
            false => self.promote(table, promoted),
        }
    }

    /// Returns the full row of a state, which is allocated now if it has none; `None` if there is no room for it.
    fn promote(&mut self, table: &Table, state: StateId) -> Option<StateId> {
        let sparse = table.promoted(state);
        if !sparse.is_sparse() {
            return Some(sparse);
        }
        let new = RowSpec {
            before: table.before(sparse),
            now: &[],
            late: &[],
        };
        // The encoded set is not copied: both keys name the same bytes.
        // A promotion may exceed the budget like a new state. It then fails, and the state stays in its sparse row.
        let has_room = self.has_room(table, KEY_BYTES + table.row_bytes());
        let full = has_room.then(|| self.rows.add(table, new)).flatten();
        self.is_full |= full.is_none();
        let full = full?;
        let key = *self.key(table, sparse);
        self.keys.push(key);
        self.promoted_rows += 1;
        // Later lookups find the full row (invariant 4). The sparse row stays readable and leads to the full one.
        let hash = hash::hash_bytes(self.encoded_set(table, sparse));
        self.by_hash.insert(hash, full);
        table.promote(sparse, full);
        Some(full)
    }

    /// Returns true if the budget has room for `bytes` more.
    fn has_room(&self, table: &Table, bytes: usize) -> bool {
        !self.is_full && self.rows.bytes(table) + self.set_bytes() + bytes <= self.budget
    }

    /// Computes the successor of a set that need not be in a table. The result is in `determinizer`.
    pub(super) fn step_set(&mut self, nfa: &Nfa, state_set: &StateSet, column: Column) {
        // A suffix is anchored at its cut, so it has no start contribution.
        if state_set.cut.is_some() {
            return self.determinizer.step_suffix(nfa, state_set, column);
        }
        // First, because it uses the same scratch space as the step below.
        let slot = self.compute_start_contribution(nfa, state_set.before, column);
        let after = state_set
            .before
            .after(nfa.alphabet.flags(column), nfa.look_needs);
        self.determinizer.step(nfa, state_set, column, after);
        let start_contribution = self.start_contributions[slot]
            .as_ref()
            .expect("it was just computed");
        self.determinizer.add_start_contribution(
            nfa,
            start_contribution,
            &self.start_closures[after as usize],
        );
    }

    /// Steps the search of a cursor in the fallback. Its reports are in `determinizer`, unsorted and possibly with
    /// duplicates. Returns the new look-behind.
    pub(super) fn step_bit_states(
        &mut self,
        nfa: &Nfa,
        bit_nfa: &BitNfa,
        bit_states: &mut BitStateSet,
        before: LookBehind,
        column: Column,
    ) -> LookBehind {
        // The bit-parallel step cannot resolve assertions, which need the next symbol.
        if bit_states.has_assertion(bit_nfa) {
            return self.step_bit_states_as_list(nfa, bit_nfa, bit_states, before, column);
        }
        let slot = self.compute_start_contribution(nfa, before, column);
        // Taken out, because `determinizer` is borrowed mutably below, and put back at the end. An `Arc` here costs 12 %
        // per symbol.
        let start_contribution = self.start_contributions[slot].take();
        let after = before.after(nfa.alphabet.flags(column), nfa.look_needs);
        let mut next = std::mem::take(&mut self.bit_states);
        self.determinizer
            .step_bit_states(nfa, bit_nfa, (&*bit_states, &mut next), column, after);
        // The fallback keeps invariant 2 of `determinize` too, so that its sets can be looked up in the table.
        next.remove(&self.start_closures[after as usize].bits);
        if let Some(start_contribution) = &start_contribution {
            let states = start_contribution.state_set.states.iter();
            states.for_each(|&state| next.add(state));
            self.determinizer
                .successor
                .now
                .extend_from_slice(&start_contribution.now);
            self.determinizer
                .successor
                .late
                .extend_from_slice(&start_contribution.late);
        }
        self.start_contributions[slot] = start_contribution;
        std::mem::swap(bit_states, &mut next);
        // The old set becomes the buffer for the next step.
        self.bit_states = next;
        after
    }

    /// Does what [`step_bit_states`](Self::step_bit_states) does, with a list of states, for sets with assertions.
    fn step_bit_states_as_list(
        &mut self,
        nfa: &Nfa,
        bit_nfa: &BitNfa,
        bit_states: &mut BitStateSet,
        before: LookBehind,
        column: Column,
    ) -> LookBehind {
        let mut state_set = std::mem::take(&mut self.scratch);
        state_set.cut = None;
        state_set.before = before;
        state_set.states.clear();
        state_set.states.extend(bit_states.states());
        self.step_set(nfa, &state_set, column);
        self.scratch = state_set;
        let successor = &self.determinizer.successor.state_set;
        // Back to bits: after this symbol the set may have no assertion.
        bit_states.replace(bit_nfa, successor.states.iter().copied());
        successor.before
    }

    /// Returns the patterns that match because the haystack ends in that state. They are computed once for each state,
    /// as long as [`MAX_ENDS`] states are known.
    pub(super) fn at_end(&mut self, nfa: &Nfa, table: &Table, state: StateId) -> Arc<[PatternId]> {
        if let Some(patterns) = self.matches_at_end.get(&state.bits()) {
            return Arc::clone(patterns);
        }
        let state_set = self.state_set(table, state);
        let patterns: Arc<[PatternId]> = self.set_at_end(nfa, &state_set).into();
        if self.matches_at_end.len() < MAX_ENDS {
            self.matches_at_end
                .insert(state.bits(), Arc::clone(&patterns));
        }
        patterns
    }

    /// Returns the patterns that match because the haystack ends with these states.
    pub(super) fn set_at_end(&mut self, nfa: &Nfa, state_set: &StateSet) -> Vec<PatternId> {
        // The set leaves the start closure out, so it is added again (invariant 2 of `determinize`).
        let start_closure: &[NfaStateId] = match state_set.cut {
            None => &self.start_closures[state_set.before as usize].states,
            Some(_) => &[],
        };
        let states = state_set.states.iter().chain(start_closure).copied();
        self.determinizer.at_end(nfa, state_set.before, states)
    }

    /// Decodes a state set into scratch space, which the caller must give back.
    fn decode_into_scratch(&mut self, table: &Table, state: StateId) -> StateSet {
        let mut state_set = std::mem::take(&mut self.scratch);
        state_repr::decode(self.encoded_set(table, state), &mut state_set);
        state_set
    }

    fn key(&self, table: &Table, state: StateId) -> &StateKey {
        // Rows of each kind are numbered from 0, in the order in which they were added (invariant 1).
        let row = table.row(state);
        // The first row above the match bit is `UNKNOWN`, which has no state set.
        if state.is_sparse() {
            &self.sparse_keys[row]
        } else if table.is_special(state) {
            &self.special_keys[row - 1]
        } else {
            &self.keys[row]
        }
    }

    fn encoded_set(&self, table: &Table, state: StateId) -> &[u8] {
        let key = self.key(table, state);
        &self.codes[key.start as usize..][..key.len as usize]
    }

    /// Computes the contribution of the start closure, unless that has been done. Returns its index in
    /// `start_contributions`.
    fn compute_start_contribution(
        &mut self,
        nfa: &Nfa,
        before: LookBehind,
        column: Column,
    ) -> usize {
        let slot = before as usize * self.columns + column.index();
        if self.start_contributions[slot].is_some() {
            return slot;
        }
        let after = before.after(nfa.alphabet.flags(column), nfa.look_needs);
        // The closure itself is stepped here, so its states are an ordinary set. Cuts in it were moved to `cuts`.
        let states = self.start_closures[before as usize].states.to_vec();
        let state_set = StateSet {
            cut: None,
            before,
            states,
        };
        self.determinizer.step(nfa, &state_set, column, after);
        let start_closure = &self.start_closures[after as usize];
        let mut start_contribution = self.determinizer.successor.clone();
        // The result is stored without the closure after the symbol (invariant 2 of `determinize`).
        start_contribution
            .state_set
            .states
            .retain(|&state| !start_closure.contains(state));
        start_contribution
            .now
            .extend_from_slice(&start_closure.cuts);
        self.start_contributions[slot] = Some(Box::new(start_contribution));
        slot
    }

    /// Returns the state whose set `determinizer` has computed: an existing one, or a new one if the budget allows.
    fn intern(&mut self, table: &Table) -> Option<StateId> {
        let mut code = std::mem::take(&mut self.code);
        state_repr::encode(&self.determinizer.successor, &mut code);
        let state = self.intern_code(table, &code);
        self.code = code;
        state
    }

    fn intern_code(&mut self, table: &Table, code: &[u8]) -> Option<StateId> {
        let hash = hash::hash_bytes(code);
        if let Some(&existing) = self.by_hash.get(&hash) {
            // No hash collision between different sets has been seen. If there is one, the second set stays in the
            // fallback.
            return (self.encoded_set(table, existing) == code).then_some(existing);
        }
        let Successor {
            state_set,
            now,
            late,
        } = &self.determinizer.successor;
        let new = RowSpec {
            before: state_set.before,
            now,
            late,
        };
        // Rows with a report are always full: they lie above the match bit, and sparse rows below it.
        let is_sparse = !new.is_special() && self.keys.len() >= self.full_rows;
        let row = match is_sparse {
            true => SPARSE_BYTES,
            false => table.row_bytes(),
        };
        let state = match self.has_room(table, code.len() + KEY_BYTES + new.bytes() + row) {
            false => None,
            true if is_sparse => self.rows.add_sparse(table, new),
            true => self.rows.add(table, new),
        };
        // A row that does not fit makes the table full for good, even if a smaller one would still fit: otherwise the
        // fallback would look for room at every step.
        self.is_full |= state.is_none();
        let state = state?;
        self.push_key(table, state, code);
        // Last, so that a state that did not fit is not found later.
        self.by_hash.insert(hash, state);
        Some(state)
    }

    fn push_key(&mut self, table: &Table, state: StateId, code: &[u8]) {
        let start = self.codes.len() as u32;
        if self.codes.capacity() - self.codes.len() < code.len() {
            // Grow by a quarter, but leave the rows at least half of what the budget has left.
            let spent = self.rows.bytes(table) + self.set_bytes();
            let left = self.budget.saturating_sub(spent);
            let quarter = self.codes.len() / 4;
            self.codes
                .reserve_exact(code.len().max(quarter.min(left / 2)));
        }
        self.codes.extend_from_slice(code);
        let key = StateKey {
            start,
            len: code.len() as u32,
        };
        if state.is_sparse() {
            self.sparse_keys.push(key);
        } else if table.is_special(state) {
            self.special_keys.push(key);
        } else {
            self.keys.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::SymbolSpace;
    use super::super::table::TableConfig;
    use super::super::table::sparse::SparseRows;
    use super::super::test_support::parsed;
    use super::*;

    #[test]
    fn of_two_states_with_one_hash_only_one_is_in_the_table() {
        let nfa = Nfa::new(SymbolSpace::Chars, &parsed(&["abc"]), None).expect("few classes");
        let config = TableConfig {
            budget: 1 << 16,
            ..TableConfig::MINIMAL
        };
        let table = Table::new(&nfa.alphabet, config);
        let mut cache = CacheBuilder::new(&nfa, &table, config.budget);
        let (start_states, dead) = cache.build_first_states(&table);
        let start = start_states[LookBehind::Start as usize];
        let column = Column::from(nfa.alphabet.bytes()[usize::from(b'a')]);
        // Give the hash of the state after `a` to another state, as if the two collided.
        let state_set = cache.state_set(&table, start);
        cache.step_set(&nfa, &state_set, column);
        let mut code = Vec::new();
        state_repr::encode(&cache.determinizer.successor, &mut code);
        cache.by_hash.insert(hash::hash_bytes(&code), dead);
        let states = cache.states();
        let unbuilt = Unbuilt::Transition(start, column);
        assert_eq!(cache.build(&nfa, &table, unbuilt, 0), None);
        assert_eq!(cache.states(), states);
        assert!(!cache.is_full(), "there is room, but not for this one");
        // A set with a hash of its own is built.
        cache.by_hash.remove(&hash::hash_bytes(&code));
        let state = cache.build(&nfa, &table, unbuilt, 0).expect("room");
        assert_eq!(cache.build(&nfa, &table, unbuilt, 0), Some(state));
        assert_eq!(cache.states(), states + 1);
        assert_eq!(table.step(start, column), state);
        assert!(!cache.state_set(&table, state).is_start_closure());
    }

    /// Returns a cache with this number of states; their sets are empty.
    fn of_states(states: usize, budget: usize) -> CacheBuilder {
        let nfa = Nfa::new(SymbolSpace::Chars, &parsed(&["abc"]), None).expect("few classes");
        let table = Table::new(&nfa.alphabet, TableConfig::MINIMAL);
        let mut cache = CacheBuilder::new(&nfa, &table, budget);
        cache.keys = vec![StateKey { start: 0, len: 0 }; states];
        cache
    }

    #[test]
    fn a_promoted_state_is_counted_once_and_its_rows_by_their_bytes() {
        let nfa = Nfa::new(SymbolSpace::Chars, &parsed(&["abcd"]), None).expect("few classes");
        let config = TableConfig {
            budget: 1 << 16,
            sparse: SparseRows {
                full_rows: 1,
                entries: 8,
            },
            ..TableConfig::MINIMAL
        };
        let table = Table::new(&nfa.alphabet, config);
        let mut cache = CacheBuilder::new(&nfa, &table, config.budget);
        let (start_states, _) = cache.build_first_states(&table);
        let (first_states, first_bytes) = (cache.states(), cache.table_bytes(&table));
        let mut state = start_states[LookBehind::Start as usize];
        let mut path = Vec::new();
        for byte in *b"abc" {
            let column = Column::from(nfa.alphabet.bytes()[usize::from(byte)]);
            let unbuilt = Unbuilt::Transition(state, column);
            state = cache.build(&nfa, &table, unbuilt, 0).expect("room");
            path.push(state);
        }
        assert_eq!(
            path.iter()
                .map(|state| state.is_sparse())
                .collect::<Vec<_>>(),
            [false, true, true],
            "only the first state has a full row"
        );
        assert_eq!(cache.shape(), "2 sparse rows, 0 promoted");
        assert_eq!(cache.states() - first_states, 3);
        let bytes = cache.table_bytes(&table);
        assert_eq!(bytes - first_bytes, table.row_bytes() + 2 * SPARSE_BYTES);
        let full = cache.build(&nfa, &table, Unbuilt::FullRow(path[1]), 0);
        assert!(full.is_some_and(|state| !state.is_sparse()));
        assert_eq!(cache.shape(), "2 sparse rows, 1 promoted");
        assert_eq!(
            cache.states() - first_states,
            3,
            "a promotion adds no state"
        );
        assert_eq!(cache.table_bytes(&table) - bytes, table.row_bytes());
    }

    #[test]
    fn a_full_table_is_replaced_when_building_it_anew_would_have_been_cheaper() {
        // Filled by ordinary text, by text that thrashes, and with too few states to judge.
        let cases = [
            (
                MIN_STATES_TO_JUDGE + 1,
                false,
                (MIN_STATES_TO_JUDGE + 1) / 16,
            ),
            (
                MIN_STATES_TO_JUDGE + 1,
                true,
                STEPS_PER_STATE * (MIN_STATES_TO_JUDGE + 1),
            ),
            (
                MIN_STATES_TO_JUDGE,
                false,
                STEPS_PER_STATE * MIN_STATES_TO_JUDGE,
            ),
        ];
        for (states, is_thrashing, least) in cases {
            let mut cache = of_states(states, 0);
            cache.is_thrashing = is_thrashing;
            assert!(cache.determinizer.nfa_states() > 0);
            let steps = match states > MIN_STATES_TO_JUDGE && !is_thrashing {
                true => least,
                false => least + cache.determinizer.nfa_states(),
            };
            let (same, larger) = (cache.budget, cache.budget + 1);
            cache.fallback_steps = steps + 1;
            assert!(!cache.should_replace_cache(larger), "there is room");
            cache.is_full = true;
            assert!(cache.should_replace_cache(same), "{states} {is_thrashing}");
            cache.fallback_steps = steps;
            assert!(!cache.should_replace_cache(same), "{states} {is_thrashing}");
            let grows = cache.should_replace_cache(larger);
            assert_eq!(grows, !is_thrashing, "{states}");
        }
    }

    #[test]
    fn states_are_built_no_more_where_each_is_stepped_once() {
        let build = |cache: &mut CacheBuilder, times: u32, symbols: u32| {
            let built: Vec<bool> = (0..times).map(|_| cache.should_build(symbols)).collect();
            let (last, before) = built.split_last().expect("once at least");
            assert!(before.iter().all(|&is_built| is_built));
            *last
        };
        let mut cache = of_states(MIN_STATES_TO_JUDGE + 1, usize::MAX);
        assert!(build(&mut cache, BUILDS_PER_CHECK, SYMBOLS_PER_STATE));
        assert!(!build(&mut cache, BUILDS_PER_CHECK, SYMBOLS_PER_STATE - 1));
        assert!(!build(
            &mut cache,
            BUILDS_PER_RECHECK,
            SYMBOLS_PER_STATE - 1
        ));
        assert!(build(&mut cache, BUILDS_PER_RECHECK, SYMBOLS_PER_STATE));
        // After one more failed check, the next one comes after as many builds as at first.
        assert!(!build(&mut cache, BUILDS_PER_CHECK, 0));
        // There is no verdict while the table is nearly empty.
        assert!(build(
            &mut of_states(MIN_STATES_TO_JUDGE, usize::MAX),
            BUILDS_PER_CHECK,
            0
        ));
        let set_bytes = of_states(MIN_STATES_TO_JUDGE, 0).set_bytes();
        assert!(build(
            &mut of_states(MIN_STATES_TO_JUDGE, 8 * set_bytes),
            BUILDS_PER_CHECK,
            0
        ));
        assert!(!build(
            &mut of_states(MIN_STATES_TO_JUDGE, 8 * set_bytes - 1),
            BUILDS_PER_CHECK,
            0
        ));
    }
}
