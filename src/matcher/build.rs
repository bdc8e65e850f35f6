//! The states of a lazily built DFA: what they stand for, and how one follows from another.
//!
//! A state of the search is what stands before the position, and the NFA states that are live *beyond*
//! those of a new search: every position also starts all patterns anew, and what that contributes is
//! computed once per (look-behind, column) and left out of the state. A state of a tail is the NFA
//! states that are live behind one cut. A state knows two lists of what it reports: what is there
//! whatever comes next, and what was there before the last symbol and needed it to be sure. Reported
//! are patterns, and by the search also cuts that were reached.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::code;
use super::crowd::{Crowd, Masks};
use super::look::{After, Before, holds};
use super::nfa::{Nfa, State};
use super::table::narrow::NARROW_BYTES;
use super::table::{New, Rows, StateId, Table};

/// What a state of the automaton stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Live {
    /// The cut whose tail it is; the search itself has none.
    pub(super) cut: Option<u32>,
    pub(super) before: Before,
    /// NFA states, for the search those beyond a new one; sorted.
    pub(super) states: Vec<u32>,
}

impl Live {
    /// Whether there is nothing beyond a new search.
    pub(super) fn is_base(&self) -> bool {
        self.states.is_empty()
    }
}

/// In a list of what is reported: this is a cut, not a pattern.
pub(super) const CUT: u32 = 1 << 31;

/// The cut of tails that are over, whichever theirs was. There are not so many.
const BURIED: u32 = !CUT;

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

/// The NFA states of a new search.
#[derive(Debug)]
struct Base {
    states: Box<[u32]>,
    holds: Box<[u64]>,
    /// Cuts that it reaches at once.
    cuts: Box<[u32]>,
}

impl Base {
    fn holds(&self, state: u32) -> bool {
        self.holds[state as usize / 64] >> (state % 64) & 1 == 1
    }
}

/// What a step leads to; in order once it is joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) live: Live,
    pub(super) now: Vec<u32>,
    pub(super) late: Vec<u32>,
}

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

    /// Whether the budget is spent.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether a new table is worth it: at once where ordinary text has filled this one, and else when
    /// so much was stepped past the budget that building all of its states again would have been cheaper.
    pub(super) fn is_worn(&self) -> bool {
        let is_ordinary = !self.is_hostile && self.states() > FEWEST;
        let least = match is_ordinary {
            true => self.states() / 16,
            false => STEPS_PER_STATE * self.states() + self.step.seen.len(),
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
        let has_room = self.has_room(table, KEY_BYTES + table.row_bytes(&self.rows));
        let full = has_room.then(|| self.rows.add(table, new)).flatten();
        self.is_full |= full.is_none();
        let full = full?;
        let key = *self.key(table, narrow);
        self.keys.push(key);
        self.widened += 1;
        let hash = code::hash(self.code_of(table, narrow));
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
        let (mut next, mut reached) = (
            std::mem::take(&mut self.crowd),
            std::mem::take(&mut self.step.resolved),
        );
        self.step.outcome.clear();
        self.step.round += 1;
        let step = &mut self.step;
        crowd.step(masks, column, &mut next, |next, state| {
            let State::Set { next: to, .. } = nfa.states[state as usize] else {
                return;
            };
            reached.clear();
            step.close(nfa, to, after, After::Unknown, &mut reached);
            for &state in &reached {
                match nfa.states[state as usize] {
                    State::Match(pattern) => step.outcome.now.push(pattern),
                    State::Cut { cut, .. } => step.outcome.now.push(CUT | cut),
                    _ => next.add(state),
                }
            }
        });
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
        self.step.resolved = reached;
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
        let hash = code::hash(code);
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
            false => table.row_bytes(&self.rows),
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

impl Live {
    /// A tail in which nothing is live any more, whichever it was.
    fn dead() -> Live {
        Live {
            cut: Some(BURIED),
            before: Before::Other,
            states: Vec::new(),
        }
    }
}

/// Scratch space of one step through the NFA, and its outcome.
#[derive(Debug)]
pub(super) struct Step {
    /// In which round each NFA state was last reached.
    seen: Vec<u64>,
    round: u64,
    stack: Vec<u32>,
    resolved: Vec<u32>,
    /// Whether cuts are passed, as tails do, and not reported.
    passes_cuts: bool,
    pub(super) outcome: Outcome,
}

impl Step {
    fn new(states: usize) -> Step {
        Step {
            seen: vec![0; states],
            round: 0,
            stack: Vec::new(),
            resolved: Vec::new(),
            passes_cuts: false,
            outcome: Outcome::default(),
        }
    }

    fn base(&mut self, nfa: &Nfa, before: Before) -> Base {
        self.round += 1;
        let mut states = Vec::new();
        for &start in &nfa.starts {
            self.close(nfa, start, before, After::Unknown, &mut states);
        }
        let mut cuts = Vec::new();
        states.retain(|&state| match nfa.states[state as usize] {
            State::Cut { cut, .. } => {
                cuts.push(CUT | cut);
                false
            }
            _ => true,
        });
        let mut holds = vec![0u64; nfa.states.len().div_ceil(64)].into_boxed_slice();
        for &state in &states {
            holds[state as usize / 64] |= 1 << (state % 64);
        }
        cuts.sort_unstable();
        Base {
            states: states.into_boxed_slice(),
            holds,
            cuts: cuts.into_boxed_slice(),
        }
    }

    /// Adds to `out` the states reached from `state` without taking a symbol: sets, matches, cuts that
    /// are not passed, and assertions that `after` does not decide yet.
    fn close(&mut self, nfa: &Nfa, state: u32, before: Before, after: After, out: &mut Vec<u32>) {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[state as usize], self.round) == self.round {
                continue;
            }
            match &nfa.states[state as usize] {
                State::Set { .. } | State::Match(_) => out.push(state),
                State::Split(next) => self.stack.extend_from_slice(next),
                State::Cut { next, .. } if self.passes_cuts => self.stack.push(*next),
                State::Cut { .. } => out.push(state),
                State::Look { look, next } => match holds(*look, before, after) {
                    Some(true) => self.stack.push(*next),
                    Some(false) => {}
                    None => out.push(state),
                },
            }
        }
    }

    /// Steps the states of `live` over a symbol of that column.
    fn run(&mut self, nfa: &Nfa, live: &Live, column: usize, after: Before) {
        let mut resolved = std::mem::take(&mut self.resolved);
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.clear();
        resolved.clear();
        let flags = After::Symbol(nfa.alphabet.flags(column));
        let states = live.states.iter().copied();
        self.resolve(nfa, states, live.before, flags, &mut resolved);
        self.round += 1;
        for &state in &resolved {
            match nfa.states[state as usize] {
                State::Set { set, next } if nfa.holds(set, column) => {
                    let states = &mut outcome.live.states;
                    self.close(nfa, next, after, After::Unknown, states);
                }
                State::Match(pattern) => outcome.late.push(pattern),
                State::Cut { cut, .. } => outcome.late.push(CUT | cut),
                _ => {}
            }
        }
        outcome.live.cut = live.cut;
        outcome.live.before = after;
        outcome.take_reports(nfa);
        self.resolved = resolved;
        self.outcome = outcome;
    }

    /// Steps a tail.
    fn tail(&mut self, nfa: &Nfa, live: &Live, column: usize) {
        let cut = live.cut.expect("a tail has a cut");
        let has_look = nfa.cuts[cut as usize].has_look;
        let after = match has_look {
            true => live.before.after(nfa.alphabet.flags(column), nfa.asked),
            false => Before::Other,
        };
        self.passes_cuts = true;
        self.run(nfa, live, column, after);
        self.passes_cuts = false;
        self.outcome.sort(nfa);
        self.outcome.bury();
    }

    /// Wakes the tail of a cut, which may be in `live` already.
    pub(super) fn wake(&mut self, nfa: &Nfa, live: &Live, cut: u32, before: Before) {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.clear();
        let about = nfa.cuts[cut as usize];
        let before = if about.has_look {
            before
        } else {
            Before::Other
        };
        self.passes_cuts = true;
        self.round += 1;
        let states = &mut outcome.live.states;
        self.close(nfa, about.entry, before, After::Unknown, states);
        self.passes_cuts = false;
        states.extend_from_slice(&live.states);
        outcome.live.cut = Some(cut);
        outcome.live.before = before;
        outcome.take_reports(nfa);
        outcome.sort(nfa);
        outcome.bury();
        self.outcome = outcome;
    }

    /// The states that `states` stand for once it is known what comes next.
    fn resolve(
        &mut self,
        nfa: &Nfa,
        states: impl Iterator<Item = u32>,
        before: Before,
        after: After,
        out: &mut Vec<u32>,
    ) {
        if !nfa.has_look {
            return out.extend(states);
        }
        self.round += 1;
        states.for_each(|state| self.close(nfa, state, before, after, out));
    }

    /// Adds what a new search contributes, and puts the lists in order.
    fn join(&mut self, nfa: &Nfa, spawned: &Outcome, base: &Base) {
        let outcome = &mut self.outcome;
        outcome.live.states.retain(|&state| !base.holds(state));
        outcome.live.states.extend_from_slice(&spawned.live.states);
        outcome.now.extend_from_slice(&spawned.now);
        outcome.late.extend_from_slice(&spawned.late);
        outcome.sort(nfa);
    }

    fn at_end(&mut self, nfa: &Nfa, before: Before, states: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut reached = Vec::new();
        self.passes_cuts = true;
        self.resolve(nfa, states, before, After::End, &mut reached);
        self.passes_cuts = false;
        let mut patterns: Vec<u32> = reached
            .into_iter()
            .filter_map(|state| match nfa.states[state as usize] {
                State::Match(pattern) => Some(pattern),
                _ => None,
            })
            .collect();
        patterns.sort_unstable();
        patterns.dedup();
        patterns
    }
}

impl Outcome {
    fn clear(&mut self) {
        self.live.states.clear();
        self.live.cut = None;
        self.now.clear();
        self.late.clear();
    }

    /// Moves what is reported now out of the states.
    fn take_reports(&mut self, nfa: &Nfa) {
        let now = &mut self.now;
        self.live
            .states
            .retain(|&state| match nfa.states[state as usize] {
                State::Match(pattern) => {
                    now.push(pattern);
                    false
                }
                State::Cut { cut, .. } => {
                    now.push(CUT | cut);
                    false
                }
                _ => true,
            });
    }

    fn sort(&mut self, nfa: &Nfa) {
        for list in [&mut self.live.states, &mut self.now, &mut self.late] {
            list.sort_unstable();
            list.dedup();
        }
        nfa.prune(&mut self.live.states);
    }

    /// Makes all tails that are over the same.
    fn bury(&mut self) {
        if self.live.states.is_empty() && self.now.is_empty() && self.late.is_empty() {
            self.live.cut = Live::dead().cut;
            self.live.before = Live::dead().before;
        }
    }

    /// Whether this is a tail that is over.
    pub(super) fn is_dead(&self) -> bool {
        self.live.states.is_empty()
    }
}

/// A hasher for keys that are hashes already.
#[derive(Debug, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
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
        builder.by_hash.insert(code::hash(&code), dead);
        let states = builder.states();
        let missing = Missing::Step(start, column);
        assert_eq!(builder.build(&nfa, &table, missing, 0), None);
        assert_eq!(builder.states(), states);
        assert!(!builder.is_full(), "there is room, but not for this one");
        // What has a hash of its own is built.
        builder.by_hash.remove(&code::hash(&code));
        let state = builder.build(&nfa, &table, missing, 0).expect("room");
        assert_eq!(builder.build(&nfa, &table, missing, 0), Some(state));
        assert_eq!(builder.states(), states + 1);
        assert_eq!(table.step(start, column), state);
        assert!(!builder.live(&table, state).is_base());
    }
}
