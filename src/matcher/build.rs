//! The states of a lazily built DFA: what they stand for, and how one follows from another.
//!
//! A state is what stands before the position, and the NFA states that are live *beyond* those of a
//! new search: every position also starts all patterns anew, and what that contributes is computed
//! once per (look-behind, column) and left out of the state. A state knows two lists of patterns:
//! those that end here whatever comes next, and those that ended before the last symbol and needed
//! it to be sure.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::look::{After, Before, holds};
use super::nfa::{Nfa, State};
use super::table::{Rows, StateId, Table};

/// What a state of the automaton stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Live {
    before: Before,
    /// NFA states beyond those of a new search, sorted.
    extra: Box<[u32]>,
}

impl Live {
    /// Whether there is nothing beyond a new search.
    pub(super) fn is_base(&self) -> bool {
        self.extra.is_empty()
    }
}

/// Patterns reported on entering a state, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accept {
    pub(super) now: Box<[u32]>,
    pub(super) late: Box<[u32]>,
}

/// Builds the states of a table; there is one, behind the lock.
#[derive(Debug)]
pub(super) struct Builder {
    rows: Rows,
    budget: usize,
    set_bytes: usize,
    is_full: bool,
    /// What the rows stand for, in their order: those without and those with a match.
    keys: Vec<Key>,
    match_keys: Vec<Key>,
    /// Latest state of each hash; older ones are chained.
    by_hash: HashMap<u64, StateId, BuildHasherDefault<Identity>>,
    /// By look-behind: the states of a new search, and which they are.
    base: Vec<Base>,
    /// What a new search contributes, by look-behind and column.
    spawned: Vec<Option<Arc<Outcome>>>,
    columns: usize,
    /// Steps taken past the budget.
    past: usize,
    step: Step,
}

/// Steps past the budget that are worth building a state anew: about what building one costs.
const STEPS_PER_STATE: usize = 16;

#[derive(Debug)]
struct Key {
    live: Live,
    accept: Arc<Accept>,
    same_hash: Option<StateId>,
}

/// The NFA states of a new search.
#[derive(Debug)]
struct Base {
    states: Box<[u32]>,
    holds: Box<[u64]>,
}

impl Base {
    fn holds(&self, state: u32) -> bool {
        self.holds[state as usize / 64] >> (state % 64) & 1 == 1
    }
}

/// What a step leads to, before it is put in order.
#[derive(Clone, Debug, Default)]
struct Outcome {
    extra: Vec<u32>,
    now: Vec<u32>,
    late: Vec<u32>,
}

impl Builder {
    pub(super) fn new(nfa: &Nfa, table: &Table, budget: usize) -> Builder {
        let mut step = Step::new(nfa.states.len());
        let base = Before::ALL.map(|before| step.base(nfa, before)).into();
        let columns = nfa.alphabet.len();
        Builder {
            rows: Rows::new(table),
            budget,
            set_bytes: 0,
            is_full: false,
            keys: Vec::new(),
            match_keys: Vec::new(),
            by_hash: HashMap::default(),
            base,
            spawned: vec![None; Before::ALL.len() * columns],
            columns,
            past: 0,
            step,
        }
    }

    /// Number of states built.
    pub(super) fn states(&self) -> usize {
        self.keys.len() + self.match_keys.len()
    }

    /// Bytes of their rows.
    pub(super) fn table_bytes(&self, table: &Table) -> usize {
        self.rows.bytes(table)
    }

    /// Bytes of what they stand for.
    pub(super) fn set_bytes(&self) -> usize {
        self.set_bytes
    }

    /// Whether the budget is spent.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether so much was stepped past the budget that a new table would have been cheaper, even if
    /// all of its states had to be built again.
    pub(super) fn is_worn(&self) -> bool {
        self.past > STEPS_PER_STATE * self.states() + self.step.seen.len()
    }

    /// What the last step leads to, which there was no room for.
    pub(super) fn past_budget(&mut self) -> (Live, Accept) {
        self.past += 1;
        (self.step.live(), self.step.accept())
    }

    fn key(&self, table: &Table, state: StateId) -> &Key {
        let row = table.row(state);
        // Row 0 above the match bit is `UNKNOWN`, which stands for nothing.
        if table.is_special(state) {
            &self.match_keys[row - 1]
        } else {
            &self.keys[row]
        }
    }

    pub(super) fn live(&self, table: &Table, state: StateId) -> &Live {
        &self.key(table, state).live
    }

    pub(super) fn accept(&self, table: &Table, state: StateId) -> Arc<Accept> {
        Arc::clone(&self.key(table, state).accept)
    }

    /// The state after `state`, built if need be; `None` past the budget, with the outcome in `step`.
    pub(super) fn next(
        &mut self,
        nfa: &Nfa,
        table: &Table,
        state: StateId,
        column: usize,
    ) -> Option<StateId> {
        let known = table.next(state, column);
        if known != table.unknown() {
            return Some(known);
        }
        let live = self.live(table, state).clone();
        let next = self.next_of(nfa, table, &live, column)?;
        table.set(state, column, next);
        Some(next)
    }

    /// The state after the one that `live` describes.
    pub(super) fn next_of(
        &mut self,
        nfa: &Nfa,
        table: &Table,
        live: &Live,
        column: usize,
    ) -> Option<StateId> {
        let spawned = self.spawned(nfa, live.before, column);
        let after = live.before.after(nfa.alphabet.flags(column), nfa.asked);
        self.step.run(nfa, live, column, after);
        self.step.join(&spawned, &self.base[after as usize]);
        self.intern(table)
    }

    fn spawned(&mut self, nfa: &Nfa, before: Before, column: usize) -> Arc<Outcome> {
        let slot = before as usize * self.columns + column;
        if let Some(spawned) = &self.spawned[slot] {
            return Arc::clone(spawned);
        }
        let after = before.after(nfa.alphabet.flags(column), nfa.asked);
        let states = std::mem::take(&mut self.base[before as usize].states);
        let live = Live {
            before,
            extra: states,
        };
        self.step.run(nfa, &live, column, after);
        self.base[before as usize].states = live.extra;
        self.step.outcome.extra.retain({
            let base = &self.base[after as usize];
            move |&state| !base.holds(state)
        });
        let spawned = Arc::new(self.step.outcome.clone());
        self.spawned[slot] = Some(Arc::clone(&spawned));
        spawned
    }

    /// The state that `step` describes: a known one, or a new one if the budget allows.
    fn intern(&mut self, table: &Table) -> Option<StateId> {
        let hash = self.step.hash();
        let first = self.by_hash.get(&hash).copied();
        let mut known = first;
        while let Some(state) = known {
            let key = self.key(table, state);
            if self.step.is(key) {
                return Some(state);
            }
            known = key.same_hash;
        }
        let size = self.step.bytes() + size_of::<Key>();
        let used = self.rows.bytes(table) + self.set_bytes;
        if self.is_full || used + size + table.row_bytes() > self.budget {
            self.is_full = true;
            return None;
        }
        let state = self.add(table, hash, first);
        self.is_full = state.is_none();
        state
    }

    /// The states that nothing is in progress in, by what stands before; they have rows whatever the
    /// budget.
    pub(super) fn bases(&mut self, table: &Table) -> [StateId; Before::ALL.len()] {
        Before::ALL.map(|before| {
            self.step.outcome = Outcome::default();
            self.step.after = before;
            let hash = self.step.hash();
            self.add(table, hash, None)
                .expect("a new table has room for its first states")
        })
    }

    fn add(&mut self, table: &Table, hash: u64, same_hash: Option<StateId>) -> Option<StateId> {
        let accept = self.step.accept();
        let is_match = accept != Accept::default();
        let state = self.rows.add(table, is_match)?;
        self.set_bytes += self.step.bytes() + size_of::<Key>();
        let key = Key {
            live: self.step.live(),
            accept: Arc::new(accept),
            same_hash,
        };
        if is_match {
            &mut self.match_keys
        } else {
            &mut self.keys
        }
        .push(key);
        self.by_hash.insert(hash, state);
        Some(state)
    }

    /// Patterns that match because the haystack ends here.
    pub(super) fn at_end(&mut self, nfa: &Nfa, live: &Live) -> Vec<u32> {
        let base = &self.base[live.before as usize].states;
        self.step.at_end(
            nfa,
            live.before,
            live.extra.iter().chain(base.iter()).copied(),
        )
    }
}

/// Scratch space of one step through the NFA, and its outcome.
#[derive(Debug)]
struct Step {
    /// In which round each NFA state was last reached.
    seen: Vec<u32>,
    round: u32,
    stack: Vec<u32>,
    resolved: Vec<u32>,
    outcome: Outcome,
    after: Before,
}

impl Step {
    fn new(states: usize) -> Step {
        Step {
            seen: vec![0; states],
            round: 0,
            stack: Vec::new(),
            resolved: Vec::new(),
            outcome: Outcome::default(),
            after: Before::Start,
        }
    }

    fn base(&mut self, nfa: &Nfa, before: Before) -> Base {
        self.begin_round();
        let mut states = Vec::new();
        for &start in &nfa.starts {
            self.close(nfa, start, before, After::Unknown, &mut states);
        }
        let mut holds = vec![0u64; nfa.states.len().div_ceil(64)].into_boxed_slice();
        for &state in &states {
            holds[state as usize / 64] |= 1 << (state % 64);
        }
        Base {
            states: states.into_boxed_slice(),
            holds,
        }
    }

    fn begin_round(&mut self) {
        if self.round == u32::MAX {
            self.seen.fill(0);
            self.round = 0;
        }
        self.round += 1;
    }

    /// Adds to `out` the states reached from `state` without taking a symbol: sets, matches, and
    /// assertions that `after` does not decide yet.
    fn close(&mut self, nfa: &Nfa, state: u32, before: Before, after: After, out: &mut Vec<u32>) {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[state as usize], self.round) == self.round {
                continue;
            }
            match &nfa.states[state as usize] {
                State::Set { .. } | State::Match(_) => out.push(state),
                State::Split(next) => self.stack.extend_from_slice(next),
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
        self.resolve(
            nfa,
            live.extra.iter().copied(),
            live.before,
            flags,
            &mut resolved,
        );
        self.begin_round();
        for &state in &resolved {
            match nfa.states[state as usize] {
                State::Set { set, next } if nfa.holds(set, column) => {
                    self.close(nfa, next, after, After::Unknown, &mut outcome.extra);
                }
                State::Match(pattern) => outcome.late.push(pattern),
                _ => {}
            }
        }
        outcome
            .extra
            .retain(|&state| match nfa.states[state as usize] {
                State::Match(pattern) => {
                    outcome.now.push(pattern);
                    false
                }
                _ => true,
            });
        self.resolved = resolved;
        self.outcome = outcome;
        self.after = after;
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
        self.begin_round();
        states.for_each(|state| self.close(nfa, state, before, after, out));
    }

    /// Adds what a new search contributes, and puts the lists in order.
    fn join(&mut self, spawned: &Outcome, base: &Base) {
        let outcome = &mut self.outcome;
        outcome.extra.retain(|&state| !base.holds(state));
        outcome.extra.extend_from_slice(&spawned.extra);
        outcome.now.extend_from_slice(&spawned.now);
        outcome.late.extend_from_slice(&spawned.late);
        for list in [&mut outcome.extra, &mut outcome.now, &mut outcome.late] {
            list.sort_unstable();
            list.dedup();
        }
    }

    fn at_end(&mut self, nfa: &Nfa, before: Before, states: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut reached = Vec::new();
        self.resolve(nfa, states, before, After::End, &mut reached);
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

    fn live(&self) -> Live {
        Live {
            before: self.after,
            extra: self.outcome.extra.as_slice().into(),
        }
    }

    fn accept(&self) -> Accept {
        Accept {
            now: self.outcome.now.as_slice().into(),
            late: self.outcome.late.as_slice().into(),
        }
    }

    fn is(&self, key: &Key) -> bool {
        key.live.before == self.after
            && *key.live.extra == *self.outcome.extra
            && *key.accept.now == *self.outcome.now
            && *key.accept.late == *self.outcome.late
    }

    fn bytes(&self) -> usize {
        let Outcome { extra, now, late } = &self.outcome;
        (extra.len() + now.len() + late.len()) * size_of::<u32>()
    }

    fn hash(&self) -> u64 {
        let mut hash = self.after as u64 + 1;
        for list in [&self.outcome.extra, &self.outcome.now, &self.outcome.late] {
            for &value in list.iter().chain([&u32::MAX]) {
                hash = (hash.rotate_left(5) ^ u64::from(value)).wrapping_mul(0x517C_C1B7_2722_0A95);
            }
        }
        hash ^ hash >> 32
    }
}

impl Outcome {
    fn clear(&mut self) {
        self.extra.clear();
        self.now.clear();
        self.late.clear();
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
