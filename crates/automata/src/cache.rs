//! The cache of DFA states: it interns state sets, allocates their rows, and decides when the table is full.
//! `determinize` computes the sets themselves.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::bit_nfa::{BitNfa, BitStateSet};
use super::determinize::state_repr;
use super::determinize::{Determinizer, StartClosure, StateSet, Successor};
use super::hash::{self, IdentityHasher};
use super::look::LookBehind;
use super::nfa::Nfa;
use super::table::sparse::SPARSE_BYTES;
use super::table::{RowAllocator, RowSpec, StateId, Table};

/// Something that a step needs and the table does not have yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unbuilt {
    /// The transition of this state on this column.
    Transition(StateId, usize),
    /// The state of this suffix after it is activated while live.
    Reentry(StateId),
    /// The start state of the suffix of a cut.
    SuffixStart(u32, LookBehind),
    /// A full row for this state.
    FullRow(StateId),
}

/// Builds the states of a table. There is one for each table, behind its lock.
#[derive(Debug)]
pub(super) struct CacheBuilder {
    rows: RowAllocator,
    budget: usize,
    is_full: bool,
    /// The state sets of the rows, in the order of the rows: without a report, with a report, and sparse.
    keys: Vec<StateKey>,
    special_keys: Vec<StateKey>,
    sparse_keys: Vec<StateKey>,
    /// The number of full rows without a report after which new states get a sparse row.
    full_rows: usize,
    /// The number of sparse rows that have been promoted.
    promoted_rows: usize,
    /// The encoded state sets, one after the other.
    codes: Vec<u8>,
    /// The state of each hash of an encoded set.
    by_hash: HashMap<u64, StateId, BuildHasherDefault<IdentityHasher>>,
    /// The start closure, by look-behind.
    start_closures: Vec<StartClosure>,
    /// The contribution of the start closure to a successor, by look-behind and column.
    start_contributions: Vec<Option<Box<Successor>>>,
    columns: usize,
    /// The steps taken in the fallback.
    fallback_steps: usize,
    scratch: StateSet,
    bit_states: BitStateSet,
    code: Vec<u8>,
    /// The transitions built since the last check for thrashing, and the symbols stepped meanwhile.
    built: u32,
    symbols: u32,
    /// True if states are built about as often as they are used.
    is_thrashing: bool,
    pub(super) step: Determinizer,
}

/// The steps in the fallback that cost about as much as building a state.
const STEPS_PER_STATE: usize = 16;

/// The transitions that are built between two checks for thrashing.
const BUILDS_PER_CHECK: u32 = 1024;

/// The same while the cache is thrashing.
const BUILDS_PER_RECHECK: u32 = 8;

/// With fewer symbols than this for each transition built, the cache is thrashing: stepping such text as a bit-parallel
/// NFA is ten times as fast. Ordinary text soon has twenty to fifty.
const SYMBOLS_PER_STATE: u32 = 2;

/// Below this number of states nothing is judged: every table is new once.
const MIN_STATES_TO_JUDGE: usize = 8192;

/// An encoded state set, as a range of [`CacheBuilder::codes`].
#[derive(Clone, Copy, Debug)]
struct StateKey {
    start: u32,
    len: u32,
}

/// The bytes that a state takes besides its row and its encoded set.
const KEY_BYTES: usize = size_of::<StateKey>() + 2 * size_of::<(u64, StateId)>();

impl CacheBuilder {
    pub(super) fn new(nfa: &Nfa, table: &Table, budget: usize) -> CacheBuilder {
        let mut step = Determinizer::new(nfa.states.len());
        let start_closures = LookBehind::ALL
            .map(|before| step.start_closure(nfa, before))
            .into();
        let columns = nfa.alphabet.len();
        CacheBuilder {
            rows: RowAllocator::new(table),
            budget,
            is_full: false,
            keys: Vec::new(),
            special_keys: Vec::new(),
            sparse_keys: Vec::new(),
            full_rows: usize::MAX,
            promoted_rows: 0,
            codes: Vec::new(),
            by_hash: HashMap::default(),
            start_closures,
            start_contributions: (0..LookBehind::ALL.len() * columns).map(|_| None).collect(),
            columns,
            fallback_steps: 0,
            scratch: StateSet::default(),
            bit_states: BitStateSet::default(),
            built: 0,
            symbols: 0,
            is_thrashing: false,
            code: Vec::new(),
            step,
        }
    }

    /// Returns the number of states built.
    pub(super) fn states(&self) -> usize {
        self.keys() - self.promoted_rows
    }

    /// Returns the number of keys: a promoted state has two.
    fn keys(&self) -> usize {
        self.keys.len() + self.special_keys.len() + self.sparse_keys.len()
    }

    /// Returns how many states have a sparse row, and how many had one.
    #[cfg(test)]
    pub(super) fn shape(&self) -> String {
        let sparse = self.sparse_keys.len();
        format!("{} narrow rows, {} widened", sparse, self.promoted_rows)
    }

    /// Returns the bytes of all rows.
    pub(super) fn table_bytes(&self, table: &Table) -> usize {
        self.rows.bytes(table)
    }

    /// Returns the bytes of all state sets.
    pub(super) fn set_bytes(&self) -> usize {
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

    /// Returns true if a new table is worth it: at once if ordinary text filled this one, otherwise when so many
    /// steps were taken in the fallback that building all states again would have been cheaper.
    pub(super) fn should_replace_cache(&self) -> bool {
        let is_ordinary = !self.is_thrashing && self.states() > MIN_STATES_TO_JUDGE;
        let least = match is_ordinary {
            true => self.states() / 16,
            false => STEPS_PER_STATE * self.states() + self.step.states(),
        };
        self.is_full && self.fallback_steps > least
    }

    /// Counts a step in the fallback.
    pub(super) fn record_fallback_step(&mut self) {
        self.fallback_steps += 1;
    }

    /// Counts a transition that is requested after `symbols` symbols. Returns true if it should be built.
    fn should_build(&mut self, symbols: u32) -> bool {
        self.built += 1;
        self.symbols = self.symbols.saturating_add(symbols);
        let probed = if self.is_thrashing {
            BUILDS_PER_RECHECK
        } else {
            BUILDS_PER_CHECK
        };
        if self.built >= probed {
            let is_dense = self.symbols < SYMBOLS_PER_STATE * self.built;
            let is_telling =
                self.states() > MIN_STATES_TO_JUDGE || self.set_bytes() > self.budget / 8;
            self.is_thrashing = is_dense && is_telling;
            (self.built, self.symbols) = (0, 0);
            return !self.is_thrashing;
        }
        true
    }

    /// Builds the start states, by look-behind, and the state of dead suffixes. They have rows whatever the budget.
    pub(super) fn first_states(
        &mut self,
        table: &Table,
    ) -> ([StateId; LookBehind::ALL.len()], StateId) {
        let start_states = LookBehind::ALL.map(|before| {
            self.step.successor.clear();
            self.step.successor.state_set.before = before;
            if before != LookBehind::Start {
                let cuts = &self.start_closures[before as usize].cuts;
                self.step.successor.now.extend_from_slice(cuts);
            }
            self.add_first(table)
        });
        self.step.successor.clear();
        self.step.successor.state_set = StateSet::dead();
        let dead = self.add_first(table);
        (0..self.columns).for_each(|column| table.set(dead, column, dead));
        self.full_rows = table.sparse().full_rows.saturating_add(self.keys.len());
        (start_states, dead)
    }

    fn add_first(&mut self, table: &Table) -> StateId {
        let budget = std::mem::replace(&mut self.budget, usize::MAX);
        let state = self.intern(table);
        self.budget = budget;
        state.expect("a new table has room for its first states")
    }

    /// Returns the cuts that are reached before the first symbol.
    pub(super) fn initial_cuts(&self) -> &[u32] {
        &self.start_closures[LookBehind::Start as usize].cuts
    }

    /// Returns the state set of a state.
    pub(super) fn state_set(&self, table: &Table, state: StateId) -> StateSet {
        let mut state_set = StateSet::default();
        state_repr::decode(self.code_of(table, state), &mut state_set);
        state_set
    }

    /// Returns the state with this set and no report, if it exists or there is room for it.
    pub(super) fn intern_set(
        &mut self,
        nfa: &Nfa,
        table: &Table,
        state_set: &StateSet,
    ) -> Option<StateId> {
        self.step.successor.clear();
        self.step.successor.state_set.clone_from(state_set);
        nfa.drop_subsumed(&mut self.step.successor.state_set.states);
        // While thrashing, only a known state will do.
        let was_full = self.is_full;
        self.is_full |= self.is_thrashing;
        let state = self.intern(table);
        if self.is_thrashing {
            self.is_full = was_full;
        }
        state
    }

    /// Builds what is missing after `symbols` symbols in the table and returns it. Returns `None` if there is no
    /// room, or if the cache is thrashing.
    pub(super) fn build(
        &mut self,
        nfa: &Nfa,
        table: &Table,
        unbuilt: Unbuilt,
        symbols: u32,
    ) -> Option<StateId> {
        if let Unbuilt::FullRow(state) = unbuilt {
            self.symbols = self.symbols.saturating_add(symbols);
            // Without a full row, the transitions of the sparse one remain in use.
            return Some(self.promote(table, state).unwrap_or_else(|| {
                table.cancel_promotion(state);
                state
            }));
        }
        if !self.should_build(symbols) {
            return None;
        }
        match unbuilt {
            Unbuilt::Transition(from, column) => {
                let known = table.step(from, column);
                if known != table.unknown() {
                    return Some(known);
                }
                let state_set = self.decoded(table, from);
                self.step_set(nfa, &state_set, column);
                self.scratch = state_set;
                let next = self.intern(table)?;
                table.set(self.with_room(table, from)?, column, next);
                Some(next)
            }
            Unbuilt::Reentry(suffix) => {
                let state_set = self.decoded(table, suffix);
                let cut = state_set.cut.expect("only suffixes are activated again");
                self.step
                    .activate_suffix(nfa, &state_set, cut, state_set.before);
                self.scratch = state_set;
                let next = self.intern(table)?;
                table.set_reentry(self.with_room(table, suffix)?, next);
                Some(next)
            }
            Unbuilt::SuffixStart(cut, before) => {
                self.step
                    .activate_suffix(nfa, &StateSet::default(), cut, before);
                let first = self.intern(table)?;
                // The list of suffix starts is never redirected, so it must hold a full row.
                self.promote(table, first)
            }
            Unbuilt::FullRow(_) => unreachable!("done above"),
        }
    }

    /// Returns a row of the state that has room for another transition; `None` if there is no room.
    fn with_room(&mut self, table: &Table, state: StateId) -> Option<StateId> {
        let promoted = table.promoted(state);
        match table.has_slot(promoted) {
            true => Some(promoted),
            false => self.promote(table, promoted),
        }
    }

    /// Returns the full row of a state, which it may get now; `None` if there is no room.
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
        let has_room = self.has_room(table, KEY_BYTES + table.row_bytes());
        let full = has_room.then(|| self.rows.add(table, new)).flatten();
        self.is_full |= full.is_none();
        let full = full?;
        let key = *self.key(table, sparse);
        self.keys.push(key);
        self.promoted_rows += 1;
        let hash = hash::of_bytes(self.code_of(table, sparse));
        self.by_hash.insert(hash, full);
        table.promote(sparse, full);
        Some(full)
    }

    /// Returns true if the budget has room for so many bytes more.
    fn has_room(&self, table: &Table, bytes: usize) -> bool {
        !self.is_full && self.rows.bytes(table) + self.set_bytes() + bytes <= self.budget
    }

    /// Computes the successor of a set that is in no table. The result is in `step`.
    pub(super) fn step_set(&mut self, nfa: &Nfa, state_set: &StateSet, column: usize) {
        if state_set.cut.is_some() {
            return self.step.step_suffix(nfa, state_set, column);
        }
        let slot = self.start_contribution(nfa, state_set.before, column);
        let after = state_set
            .before
            .after(nfa.alphabet.flags(column), nfa.look_needs);
        self.step.step(nfa, state_set, column, after);
        let start_contributions = self.start_contributions[slot]
            .as_ref()
            .expect("it was just spawned");
        self.step.add_start_contribution(
            nfa,
            start_contributions,
            &self.start_closures[after as usize],
        );
    }

    /// Steps the search of a cursor in the fallback. Its reports are in `step`, unsorted and possibly with
    /// duplicates. Returns the new look-behind.
    pub(super) fn step_bit_states(
        &mut self,
        nfa: &Nfa,
        bit_nfa: &BitNfa,
        bit_states: &mut BitStateSet,
        before: LookBehind,
        column: usize,
    ) -> LookBehind {
        if bit_states.looks(bit_nfa) {
            return self.step_bit_states_as_list(nfa, bit_nfa, bit_states, before, column);
        }
        let slot = self.start_contribution(nfa, before, column);
        // Put back below: a reference count for every symbol would take an eighth of the time.
        let start_contributions = self.start_contributions[slot].take();
        let after = before.after(nfa.alphabet.flags(column), nfa.look_needs);
        let mut next = std::mem::take(&mut self.bit_states);
        self.step
            .step_bit_states(nfa, bit_nfa, (&*bit_states, &mut next), column, after);
        next.remove(&self.start_closures[after as usize].holds);
        if let Some(start_contributions) = &start_contributions {
            let states = start_contributions.state_set.states.iter();
            states.for_each(|&state| next.add(state));
            self.step
                .successor
                .now
                .extend_from_slice(&start_contributions.now);
            self.step
                .successor
                .late
                .extend_from_slice(&start_contributions.late);
        }
        self.start_contributions[slot] = start_contributions;
        std::mem::swap(bit_states, &mut next);
        self.bit_states = next;
        after
    }

    /// [`step_bit_states`](Self::step_bit_states), state by state, for sets with assertions.
    fn step_bit_states_as_list(
        &mut self,
        nfa: &Nfa,
        bit_nfa: &BitNfa,
        bit_states: &mut BitStateSet,
        before: LookBehind,
        column: usize,
    ) -> LookBehind {
        let mut state_set = std::mem::take(&mut self.scratch);
        state_set.cut = None;
        state_set.before = before;
        state_set.states.clear();
        state_set.states.extend(bit_states.states());
        self.step_set(nfa, &state_set, column);
        self.scratch = state_set;
        let successor = &self.step.successor.state_set;
        bit_states.replace(bit_nfa, successor.states.iter().copied());
        successor.before
    }

    /// Returns the patterns that match because the haystack ends here.
    pub(super) fn at_end(&mut self, nfa: &Nfa, state_set: &StateSet) -> Vec<u32> {
        let start_closures: &[u32] = match state_set.cut {
            None => &self.start_closures[state_set.before as usize].states,
            Some(_) => &[],
        };
        let states = state_set.states.iter().chain(start_closures).copied();
        self.step.at_end(nfa, state_set.before, states)
    }

    /// As [`CacheBuilder::state_set`], in scratch space that the caller must give back.
    fn decoded(&mut self, table: &Table, state: StateId) -> StateSet {
        let mut state_set = std::mem::take(&mut self.scratch);
        state_repr::decode(self.code_of(table, state), &mut state_set);
        state_set
    }

    fn key(&self, table: &Table, state: StateId) -> &StateKey {
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

    fn code_of(&self, table: &Table, state: StateId) -> &[u8] {
        let key = self.key(table, state);
        &self.codes[key.start as usize..][..key.len as usize]
    }

    /// Computes the contribution of the start closure, unless it is known. Returns its index in `start_contributions`.
    fn start_contribution(&mut self, nfa: &Nfa, before: LookBehind, column: usize) -> usize {
        let slot = before as usize * self.columns + column;
        if self.start_contributions[slot].is_some() {
            return slot;
        }
        let after = before.after(nfa.alphabet.flags(column), nfa.look_needs);
        let states = self.start_closures[before as usize].states.to_vec();
        let state_set = StateSet {
            cut: None,
            before,
            states,
        };
        self.step.step(nfa, &state_set, column, after);
        let start_closures = &self.start_closures[after as usize];
        let mut start_contributions = self.step.successor.clone();
        start_contributions
            .state_set
            .states
            .retain(|&state| !start_closures.holds(state));
        start_contributions
            .now
            .extend_from_slice(&start_closures.cuts);
        self.start_contributions[slot] = Some(Box::new(start_contributions));
        slot
    }

    /// Returns the state whose set `step` has computed: a known one, or a new one if the budget allows.
    fn intern(&mut self, table: &Table) -> Option<StateId> {
        let mut code = std::mem::take(&mut self.code);
        state_repr::encode(&self.step.successor, &mut code);
        let state = self.intern_code(table, &code);
        self.code = code;
        state
    }

    fn intern_code(&mut self, table: &Table, code: &[u8]) -> Option<StateId> {
        let hash = hash::of_bytes(code);
        if let Some(&known) = self.by_hash.get(&hash) {
            // A hash collision between different sets has never been seen. If there is one, the set stays in the fallback.
            return (self.code_of(table, known) == code).then_some(known);
        }
        let Successor {
            state_set,
            now,
            late,
        } = &self.step.successor;
        let new = RowSpec {
            before: state_set.before as u32,
            now,
            late,
        };
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
        self.is_full |= state.is_none();
        let state = state?;
        self.remember(table, state, code);
        self.by_hash.insert(hash, state);
        Some(state)
    }

    fn remember(&mut self, table: &Table, state: StateId, code: &[u8]) {
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
    use super::super::test_support::parsed;
    use super::*;

    #[test]
    fn of_two_states_with_one_hash_only_one_is_in_the_table() {
        let nfa = Nfa::new(SymbolSpace::Chars, &parsed(&["abc"]), None).expect("few classes");
        let config = TableConfig {
            budget: 1 << 16,
            ..TableConfig::BARE
        };
        let table = Table::new(&nfa.alphabet, config);
        let mut cache = CacheBuilder::new(&nfa, &table, config.budget);
        let (start_states, dead) = cache.first_states(&table);
        let start = start_states[LookBehind::Start as usize];
        let column = usize::from(nfa.alphabet.bytes()[usize::from(b'a')]);
        // Give the hash of the state after `a` to another state, as if the two collided.
        let state_set = cache.state_set(&table, start);
        cache.step_set(&nfa, &state_set, column);
        let mut code = Vec::new();
        state_repr::encode(&cache.step.successor, &mut code);
        cache.by_hash.insert(hash::of_bytes(&code), dead);
        let states = cache.states();
        let unbuilt = Unbuilt::Transition(start, column);
        assert_eq!(cache.build(&nfa, &table, unbuilt, 0), None);
        assert_eq!(cache.states(), states);
        assert!(!cache.is_full(), "there is room, but not for this one");
        // A set with a hash of its own is built.
        cache.by_hash.remove(&hash::of_bytes(&code));
        let state = cache.build(&nfa, &table, unbuilt, 0).expect("room");
        assert_eq!(cache.build(&nfa, &table, unbuilt, 0), Some(state));
        assert_eq!(cache.states(), states + 1);
        assert_eq!(table.step(start, column), state);
        assert!(!cache.state_set(&table, state).is_start_closure());
    }

    /// Returns a cache with this number of states; their sets are empty.
    fn of_states(states: usize, budget: usize) -> CacheBuilder {
        let nfa = Nfa::new(SymbolSpace::Chars, &parsed(&["abc"]), None).expect("few classes");
        let table = Table::new(&nfa.alphabet, TableConfig::BARE);
        let mut cache = CacheBuilder::new(&nfa, &table, budget);
        cache.keys = vec![StateKey { start: 0, len: 0 }; states];
        cache
    }

    #[test]
    fn a_full_table_is_worn_when_building_it_anew_would_have_been_cheaper() {
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
            let steps = match states > MIN_STATES_TO_JUDGE && !is_thrashing {
                true => least,
                false => least + cache.step.states(),
            };
            cache.fallback_steps = steps + 1;
            assert!(!cache.should_replace_cache(), "there is room");
            cache.is_full = true;
            assert!(cache.should_replace_cache(), "{states} {is_thrashing}");
            cache.fallback_steps = steps;
            assert!(!cache.should_replace_cache(), "{states} {is_thrashing}");
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
        // Nothing is judged while states are few and their sets small beside the budget.
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
