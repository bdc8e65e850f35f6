//! The states of a lazily built DFA: which there are, where their rows stand, and when there is no room for more.
//! What they stand for and how one follows from another is `live`'s to know.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::code;
use super::crowd::{Crowd, Masks};
use super::hash::{self, Identity};
use super::live::{Base, Live, Outcome, Step};
use super::look::Before;
use super::nfa::Nfa;
use super::table::narrow::NARROW_BYTES;
use super::table::{New, Rows, StateId, Table};

/// Something that the table does not hold yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Missing {
    /// The state after this one.
    Step(StateId, usize),
    /// The state of this tail, woken once more.
    Woken(StateId),
    /// The first state of the tail of a cut.
    Start(u32, Before),
    /// A full row for this state.
    Row(StateId),
}

/// Builds the states of a table; there is one, behind the lock.
#[derive(Debug)]
pub(super) struct Builder {
    rows: Rows,
    budget: usize,
    is_full: bool,
    /// What the rows stand for, in their order: those without a report, those with one, and narrow ones.
    keys: Vec<Key>,
    special_keys: Vec<Key>,
    narrow_keys: Vec<Key>,
    /// Keys of full rows, of states that report nothing, from which on new ones get a narrow row.
    full_rows: usize,
    /// Narrow rows that have been widened.
    widened: usize,
    /// The codes of the keys, one after the other.
    codes: Vec<u8>,
    /// The state of each hash of a code.
    by_hash: HashMap<u64, StateId, BuildHasherDefault<Identity>>,
    /// By look-behind: what a new search is in.
    base: Vec<Base>,
    /// What a new search contributes, by look-behind and column.
    spawned: Vec<Option<Box<Outcome>>>,
    columns: usize,
    /// Steps taken past the budget.
    past: usize,
    scratch: Live,
    crowd: Crowd,
    code: Vec<u8>,
    /// What was built since it was asked what for, and the symbols that were stepped meanwhile.
    built: u32,
    symbols: u32,
    /// Whether building was in vain.
    is_hostile: bool,
    pub(super) step: Step,
}

/// Steps past the budget that are worth building a state anew: about what building one costs.
const STEPS_PER_STATE: usize = 16;

/// States that are built before it is asked what for.
const PROBED: u32 = 1024;

/// The same, where it was in vain the last time.
const PROBED_AGAIN: u32 = 8;

/// Fewer symbols than that for each state that had to be built, and building them is in vain: stepping
/// such a text as a crowd is ten times as fast. Ordinary text has twenty to fifty, soon.
const SYMBOLS_PER_STATE: u32 = 2;

/// There is no telling before so many states: every table is new once.
const FEWEST: usize = 8192;

/// What a state stands for, as a piece of [`Builder::codes`].
#[derive(Clone, Copy, Debug)]
struct Key {
    start: u32,
    len: u32,
}

/// Bytes that a state takes besides its row and its code.
const KEY_BYTES: usize = size_of::<Key>() + 2 * size_of::<(u64, StateId)>();

impl Builder {
    pub(super) fn new(nfa: &Nfa, table: &Table, budget: usize) -> Builder {
        let mut step = Step::new(nfa.states.len());
        let base = Before::ALL.map(|before| step.base(nfa, before)).into();
        let columns = nfa.alphabet.len();
        Builder {
            rows: Rows::new(table),
            budget,
            is_full: false,
            keys: Vec::new(),
            special_keys: Vec::new(),
            narrow_keys: Vec::new(),
            full_rows: usize::MAX,
            widened: 0,
            codes: Vec::new(),
            by_hash: HashMap::default(),
            base,
            spawned: (0..Before::ALL.len() * columns).map(|_| None).collect(),
            columns,
            past: 0,
            scratch: Live::default(),
            crowd: Crowd::default(),
            built: 0,
            symbols: 0,
            is_hostile: false,
            code: Vec::new(),
            step,
        }
    }

    /// Number of states built.
    pub(super) fn states(&self) -> usize {
        self.keys() - self.widened
    }

    /// Number of keys: a state that was widened has two.
    fn keys(&self) -> usize {
        self.keys.len() + self.special_keys.len() + self.narrow_keys.len()
    }

    /// How many of them have narrow rows, and had.
    #[cfg(test)]
    pub(super) fn shape(&self) -> String {
        let narrow = self.narrow_keys.len();
        format!("{} narrow rows, {} widened", narrow, self.widened)
    }

    /// Bytes of their rows.
    pub(super) fn table_bytes(&self, table: &Table) -> usize {
        self.rows.bytes(table)
    }

    /// Bytes of what they stand for.
    pub(super) fn set_bytes(&self) -> usize {
        self.codes.capacity() + self.keys() * KEY_BYTES
    }

    /// Bytes that rows and what they stand for may take.
    pub(super) fn budget(&self) -> usize {
        self.budget
    }

    /// Whether that is spent.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether a new table is worth it: at once where ordinary text has filled this one, and else when
    /// so much was stepped past the budget that building all of its states again would have been cheaper.
    pub(super) fn is_worn(&self) -> bool {
        let is_ordinary = !self.is_hostile && self.states() > FEWEST;
        let least = match is_ordinary {
            true => self.states() / 16,
            false => STEPS_PER_STATE * self.states() + self.step.states(),
        };
        self.is_full && self.past > least
    }

    /// Counts a step past the budget.
    pub(super) fn passed(&mut self) {
        self.past += 1;
    }

    /// Counts a transition that is to be built after so many symbols; gives whether it should be.
    fn probe(&mut self, symbols: u32) -> bool {
        self.built += 1;
        self.symbols = self.symbols.saturating_add(symbols);
        let probed = if self.is_hostile {
            PROBED_AGAIN
        } else {
            PROBED
        };
        if self.built >= probed {
            let is_dense = self.symbols < SYMBOLS_PER_STATE * self.built;
            let is_telling = self.states() > FEWEST || self.set_bytes() > self.budget / 8;
            self.is_hostile = is_dense && is_telling;
            (self.built, self.symbols) = (0, 0);
            return !self.is_hostile;
        }
        true
    }

    /// The states that nothing is in progress in, by what stands before, and the one of dead tails; they
    /// have rows whatever the budget.
    pub(super) fn first_states(
        &mut self,
        table: &Table,
    ) -> ([StateId; Before::ALL.len()], StateId) {
        let bases = Before::ALL.map(|before| {
            self.step.outcome.clear();
            self.step.outcome.live.before = before;
            if before != Before::Start {
                let cuts = &self.base[before as usize].cuts;
                self.step.outcome.now.extend_from_slice(cuts);
            }
            self.add_first(table)
        });
        self.step.outcome.clear();
        self.step.outcome.live = Live::dead();
        let dead = self.add_first(table);
        (0..self.columns).for_each(|column| table.set(dead, column, dead));
        self.full_rows = table.narrow().behind.saturating_add(self.keys.len());
        (bases, dead)
    }

    fn add_first(&mut self, table: &Table) -> StateId {
        let budget = std::mem::replace(&mut self.budget, usize::MAX);
        let state = self.intern(table);
        self.budget = budget;
        state.expect("a new table has room for its first states")
    }

    /// Cuts that are reached before the first symbol.
    pub(super) fn first_cuts(&self) -> &[u32] {
        &self.base[Before::Start as usize].cuts
    }

    /// What the state stands for.
    pub(super) fn live(&self, table: &Table, state: StateId) -> Live {
        let mut live = Live::default();
        code::decode(self.code_of(table, state), &mut live);
        live
    }

    /// The state that this stands for, if there is one or room for it, and it reports nothing.
    pub(super) fn place(&mut self, nfa: &Nfa, table: &Table, live: &Live) -> Option<StateId> {
        self.step.outcome.clear();
        self.step.outcome.live.clone_from(live);
        nfa.prune(&mut self.step.outcome.live.states);
        // Where building is in vain, only a known state will do.
        let was_full = self.is_full;
        self.is_full |= self.is_hostile;
        let state = self.intern(table);
        if self.is_hostile {
            self.is_full = was_full;
        }
        state
    }

    /// Builds what is missing after so many symbols in the table, and gives it; `None` where there is no
    /// room, or it would be in vain.
    pub(super) fn build(
        &mut self,
        nfa: &Nfa,
        table: &Table,
        missing: Missing,
        symbols: u32,
    ) -> Option<StateId> {
        if let Missing::Row(state) = missing {
            self.symbols = self.symbols.saturating_add(symbols);
            // What the row holds already is stepped all the same.
            return Some(self.widen(table, state).unwrap_or_else(|| {
                table.keep_narrow(state);
                state
            }));
        }
        if !self.probe(symbols) {
            return None;
        }
        match missing {
            Missing::Step(from, column) => {
                let known = table.step(from, column);
                if known != table.unknown() {
                    return Some(known);
                }
                let live = self.decoded(table, from);
                self.step_live(nfa, &live, column);
                self.scratch = live;
                let next = self.intern(table)?;
                table.set(self.with_room(table, from)?, column, next);
                Some(next)
            }
            Missing::Woken(tail) => {
                let live = self.decoded(table, tail);
                let cut = live.cut.expect("only tails are woken");
                self.step.wake(nfa, &live, cut, live.before);
                self.scratch = live;
                let next = self.intern(table)?;
                table.set_woken(self.with_room(table, tail)?, next);
                Some(next)
            }
            Missing::Start(cut, before) => {
                self.step.wake(nfa, &Live::default(), cut, before);
                let first = self.intern(table)?;
                // It is woken from a list that is not mended.
                self.widen(table, first)
            }
            Missing::Row(_) => unreachable!("done above"),
        }
    }

    /// The row of the state that another transition can be written to; `None` where there is no room for one.
    fn with_room(&mut self, table: &Table, state: StateId) -> Option<StateId> {
        let latest = table.latest(state);
        match table.has_slot(latest) {
            true => Some(latest),
            false => self.widen(table, latest),
        }
    }

    /// The full row of a state, which it may get now; `None` where there is no room.
    fn widen(&mut self, table: &Table, state: StateId) -> Option<StateId> {
        let narrow = table.latest(state);
        if !narrow.is_narrow() {
            return Some(narrow);
        }
        let new = New {
            before: table.before(narrow),
            now: &[],
            late: &[],
        };
        let has_room = self.has_room(table, KEY_BYTES + table.row_bytes());
        let full = has_room.then(|| self.rows.add(table, new)).flatten();
        self.is_full |= full.is_none();
        let full = full?;
        let key = *self.key(table, narrow);
        self.keys.push(key);
        self.widened += 1;
        let hash = hash::of_bytes(self.code_of(table, narrow));
        self.by_hash.insert(hash, full);
        table.widen(narrow, full);
        Some(full)
    }

    /// Whether the budget has room for that many bytes more.
    fn has_room(&self, table: &Table, bytes: usize) -> bool {
        !self.is_full && self.rows.bytes(table) + self.set_bytes() + bytes <= self.budget
    }

    /// Steps a state that is in no table; the outcome is in `step`.
    pub(super) fn step_live(&mut self, nfa: &Nfa, live: &Live, column: usize) {
        if live.cut.is_some() {
            return self.step.tail(nfa, live, column);
        }
        let slot = self.spawn(nfa, live.before, column);
        let after = live.before.after(nfa.alphabet.flags(column), nfa.asked);
        self.step.run(nfa, live, column, after);
        let spawned = self.spawned[slot].as_ref().expect("it was just spawned");
        self.step.join(nfa, spawned, &self.base[after as usize]);
    }

    /// Steps a search that is in no table, as a crowd. What it reports is in `step`, the lists not in
    /// order and maybe with repeats; gives what stands before the position then.
    pub(super) fn step_crowd(
        &mut self,
        nfa: &Nfa,
        masks: &Masks,
        crowd: &mut Crowd,
        before: Before,
        column: usize,
    ) -> Before {
        if crowd.looks(masks) {
            return self.step_listed(nfa, masks, crowd, before, column);
        }
        let slot = self.spawn(nfa, before, column);
        // Put back below: counting references for every symbol would take an eighth of the time.
        let spawned = self.spawned[slot].take();
        let after = before.after(nfa.alphabet.flags(column), nfa.asked);
        let mut next = std::mem::take(&mut self.crowd);
        self.step
            .crowd(nfa, masks, (&*crowd, &mut next), column, after);
        next.remove(&self.base[after as usize].holds);
        if let Some(spawned) = &spawned {
            let states = spawned.live.states.iter();
            states.for_each(|&state| next.add(state));
            self.step.outcome.now.extend_from_slice(&spawned.now);
            self.step.outcome.late.extend_from_slice(&spawned.late);
        }
        self.spawned[slot] = spawned;
        std::mem::swap(crowd, &mut next);
        self.crowd = next;
        after
    }

    /// The same, state by state.
    fn step_listed(
        &mut self,
        nfa: &Nfa,
        masks: &Masks,
        crowd: &mut Crowd,
        before: Before,
        column: usize,
    ) -> Before {
        let mut live = std::mem::take(&mut self.scratch);
        live.cut = None;
        live.before = before;
        live.states.clear();
        live.states.extend(crowd.states());
        self.step_live(nfa, &live, column);
        self.scratch = live;
        let outcome = &self.step.outcome.live;
        crowd.set(masks, outcome.states.iter().copied());
        outcome.before
    }

    /// Patterns that match because the haystack ends here.
    pub(super) fn at_end(&mut self, nfa: &Nfa, live: &Live) -> Vec<u32> {
        let base: &[u32] = match live.cut {
            None => &self.base[live.before as usize].states,
            Some(_) => &[],
        };
        let states = live.states.iter().chain(base).copied();
        self.step.at_end(nfa, live.before, states)
    }

    /// The same as [`Builder::live`], in the scratch space, which is to be given back.
    fn decoded(&mut self, table: &Table, state: StateId) -> Live {
        let mut live = std::mem::take(&mut self.scratch);
        code::decode(self.code_of(table, state), &mut live);
        live
    }

    fn key(&self, table: &Table, state: StateId) -> &Key {
        let row = table.row(state);
        // Row 0 above the match bit is `UNKNOWN`, which stands for nothing.
        if state.is_narrow() {
            &self.narrow_keys[row]
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

    /// Works out what a new search contributes, if that is not known; gives where in `spawned` it stands.
    fn spawn(&mut self, nfa: &Nfa, before: Before, column: usize) -> usize {
        let slot = before as usize * self.columns + column;
        if self.spawned[slot].is_some() {
            return slot;
        }
        let after = before.after(nfa.alphabet.flags(column), nfa.asked);
        let states = self.base[before as usize].states.to_vec();
        let live = Live {
            cut: None,
            before,
            states,
        };
        self.step.run(nfa, &live, column, after);
        let base = &self.base[after as usize];
        let mut spawned = self.step.outcome.clone();
        spawned.live.states.retain(|&state| !base.holds(state));
        spawned.now.extend_from_slice(&base.cuts);
        self.spawned[slot] = Some(Box::new(spawned));
        slot
    }

    /// The state that `step` describes: a known one, or a new one if the budget allows.
    fn intern(&mut self, table: &Table) -> Option<StateId> {
        let mut code = std::mem::take(&mut self.code);
        code::encode(&self.step.outcome, &mut code);
        let state = self.intern_code(table, &code);
        self.code = code;
        state
    }

    fn intern_code(&mut self, table: &Table, code: &[u8]) -> Option<StateId> {
        let hash = hash::of_bytes(code);
        if let Some(&known) = self.by_hash.get(&hash) {
            // Another state with the same hash is never met, and stepped outside the table if it is.
            return (self.code_of(table, known) == code).then_some(known);
        }
        let Outcome { live, now, late } = &self.step.outcome;
        let new = New {
            before: live.before as u32,
            now,
            late,
        };
        let is_narrow = !new.is_special() && self.keys.len() >= self.full_rows;
        let row = match is_narrow {
            true => NARROW_BYTES,
            false => table.row_bytes(),
        };
        let state = match self.has_room(table, code.len() + KEY_BYTES + new.bytes() + row) {
            false => None,
            true if is_narrow => self.rows.add_narrow(table, new),
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
            // A quarter more, as long as rows can have as much of what the budget leaves.
            let spent = self.rows.bytes(table) + self.set_bytes();
            let left = self.budget.saturating_sub(spent);
            let quarter = self.codes.len() / 4;
            self.codes
                .reserve_exact(code.len().max(quarter.min(left / 2)));
        }
        self.codes.extend_from_slice(code);
        let key = Key {
            start,
            len: code.len() as u32,
        };
        if state.is_narrow() {
            self.narrow_keys.push(key);
        } else if table.is_special(state) {
            self.special_keys.push(key);
        } else {
            self.keys.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::Space;
    use super::super::forced::parsed;
    use super::super::table::Config;
    use super::*;

    #[test]
    fn of_two_states_with_one_hash_only_one_is_in_the_table() {
        let nfa = Nfa::new(Space::Chars, &parsed(&["abc"]), None).expect("few classes");
        let config = Config {
            budget: 1 << 16,
            ..Config::BARE
        };
        let table = Table::new(&nfa.alphabet, config);
        let mut builder = Builder::new(&nfa, &table, config.budget);
        let (bases, dead) = builder.first_states(&table);
        let start = bases[Before::Start as usize];
        let column = usize::from(nfa.alphabet.bytes()[usize::from(b'a')]);
        // The hash of the state behind `a` is given to another one, as if theirs were the same.
        let live = builder.live(&table, start);
        builder.step_live(&nfa, &live, column);
        let mut code = Vec::new();
        code::encode(&builder.step.outcome, &mut code);
        builder.by_hash.insert(hash::of_bytes(&code), dead);
        let states = builder.states();
        let missing = Missing::Step(start, column);
        assert_eq!(builder.build(&nfa, &table, missing, 0), None);
        assert_eq!(builder.states(), states);
        assert!(!builder.is_full(), "there is room, but not for this one");
        // What has a hash of its own is built.
        builder.by_hash.remove(&hash::of_bytes(&code));
        let state = builder.build(&nfa, &table, missing, 0).expect("room");
        assert_eq!(builder.build(&nfa, &table, missing, 0), Some(state));
        assert_eq!(builder.states(), states + 1);
        assert_eq!(table.step(start, column), state);
        assert!(!builder.live(&table, state).is_base());
    }

    /// A builder whose table holds so many states; nobody asks which.
    fn of_states(states: usize, budget: usize) -> Builder {
        let nfa = Nfa::new(Space::Chars, &parsed(&["abc"]), None).expect("few classes");
        let table = Table::new(&nfa.alphabet, Config::BARE);
        let mut builder = Builder::new(&nfa, &table, budget);
        builder.keys = vec![Key { start: 0, len: 0 }; states];
        builder
    }

    #[test]
    fn a_full_table_is_worn_when_building_it_anew_would_have_been_cheaper() {
        // Filled by ordinary text, by a hostile one, and by so few states that there is no telling.
        let cases = [
            (FEWEST + 1, false, (FEWEST + 1) / 16),
            (FEWEST + 1, true, STEPS_PER_STATE * (FEWEST + 1)),
            (FEWEST, false, STEPS_PER_STATE * FEWEST),
        ];
        for (states, is_hostile, least) in cases {
            let mut builder = of_states(states, 0);
            builder.is_hostile = is_hostile;
            let steps = match states > FEWEST && !is_hostile {
                true => least,
                false => least + builder.step.states(),
            };
            builder.past = steps + 1;
            assert!(!builder.is_worn(), "there is room");
            builder.is_full = true;
            assert!(builder.is_worn(), "{states} {is_hostile}");
            builder.past = steps;
            assert!(!builder.is_worn(), "{states} {is_hostile}");
        }
    }

    #[test]
    fn states_are_built_no_more_where_each_is_stepped_once() {
        let build = |builder: &mut Builder, times: u32, symbols: u32| {
            let built: Vec<bool> = (0..times).map(|_| builder.probe(symbols)).collect();
            let (last, before) = built.split_last().expect("once at least");
            assert!(before.iter().all(|&is_built| is_built));
            *last
        };
        let mut builder = of_states(FEWEST + 1, usize::MAX);
        assert!(build(&mut builder, PROBED, SYMBOLS_PER_STATE));
        assert!(!build(&mut builder, PROBED, SYMBOLS_PER_STATE - 1));
        assert!(!build(&mut builder, PROBED_AGAIN, SYMBOLS_PER_STATE - 1));
        assert!(build(&mut builder, PROBED_AGAIN, SYMBOLS_PER_STATE));
        // In vain again, it is asked as seldom as at first.
        assert!(!build(&mut builder, PROBED, 0));
        // There is no telling while states are few, and what they stand for is little beside the budget.
        assert!(build(&mut of_states(FEWEST, usize::MAX), PROBED, 0));
        let set_bytes = of_states(FEWEST, 0).set_bytes();
        assert!(build(&mut of_states(FEWEST, 8 * set_bytes), PROBED, 0));
        assert!(!build(&mut of_states(FEWEST, 8 * set_bytes - 1), PROBED, 0));
    }
}
