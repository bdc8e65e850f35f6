//! A lazily built DFA whose transition table is append-only, shared by all streams and threads.
//!
//! A state is what stands before the position, and the NFA states that are live *beyond* those of a
//! new search: every position also starts all patterns anew, and what that contributes is computed
//! once per (look-behind, column) and left out of the state. A state knows two lists of patterns:
//! those that end here whatever comes next, and those that ended before the last symbol and needed
//! it to be sure.
//!
//! When the budget is spent a cursor carries its NFA states itself and steps them, exactly and in
//! time linear in the input, until it meets a state of the table again.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Event;
use super::alphabet::Place;
use super::decode::{Decoder, Symbol};
use super::look::{After, Before, holds};
use super::nfa::{Nfa, State};
use super::table::{Rows, SHORT, StateId, Table};

/// The automaton of several patterns.
#[derive(Debug)]
pub(crate) struct Lazy {
    nfa: Nfa,
    table: Table,
    start: StateId,
    builder: Mutex<Builder>,
}

/// The whole matching state of one haystack: a state of the table, and the bytes of an incomplete
/// character.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
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

/// What a state of the automaton stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Live {
    before: Before,
    /// NFA states beyond those of a new search, sorted.
    extra: Box<[u32]>,
}

/// Patterns reported on entering a state, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Accept {
    now: Box<[u32]>,
    late: Box<[u32]>,
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
}

/// Bytes of a block of steps between two tests.
const BLOCK: usize = 4;

/// Bytes stepped past the budget before the lock is let go for others.
const OVER_BATCH: usize = 4096;

impl Lazy {
    /// The automaton of `nfa`; its table and state sets may take about `budget` bytes.
    pub(crate) fn new(nfa: Nfa, budget: usize) -> Lazy {
        let table = Table::new(nfa.alphabet.len(), budget);
        let mut builder = Builder::new(&nfa, &table, budget);
        let start = builder
            .start(&table)
            .expect("a new table has room for the states that matching begins in");
        Lazy {
            nfa,
            table,
            start,
            builder: Mutex::new(builder),
        }
    }

    /// A cursor at the start of a haystack.
    #[inline]
    pub(crate) fn start(&self) -> Cursor {
        Cursor {
            state: self.start,
            decoder: Decoder::default(),
            invalid_bytes: 0,
            over: None,
        }
    }

    /// Steps 1 to [`SHORT`] bytes if nothing about them is special, and gives them padded with zeros.
    /// Otherwise nothing has happened, and [`Lazy::push`] is to be called.
    #[inline(always)]
    pub(crate) fn push_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if cursor.decoder.is_pending() || cursor.over.is_some() {
            return None;
        }
        let short = self
            .table
            .short(self.nfa.alphabet.bytes(), cursor.state, bytes);
        if self.table.any_special(short.bits) {
            return None;
        }
        cursor.state = short.state;
        cursor.decoder.passed_ascii();
        Some(short.padded)
    }

    /// Steps the bytes; gives each pattern that becomes certain to match.
    #[inline]
    pub(crate) fn push(&self, cursor: &mut Cursor, bytes: &[u8], on: &mut impl FnMut(Event)) {
        let Some(&last) = bytes.last() else { return };
        let mut at = 0;
        if cursor.decoder.is_pending() || cursor.over.is_some() {
            at = self.push_slow(cursor, bytes, 0, on);
        }
        let columns = self.nfa.alphabet.bytes();
        while let Some(block) = bytes.get(at..at + BLOCK) {
            let mut state = cursor.state;
            let mut bits = 0;
            for &byte in block {
                state = self
                    .table
                    .next(state, usize::from(columns[usize::from(byte)]));
                bits |= state.bits();
            }
            if self.table.any_special(bits) {
                at = self.push_slow(cursor, bytes, at, on);
            } else {
                cursor.state = state;
                at += BLOCK;
            }
        }
        while let Some(&byte) = bytes.get(at) {
            let state = self
                .table
                .next(cursor.state, usize::from(columns[usize::from(byte)]));
            if self.table.is_special(state) {
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
        let mut builder = self.lock();
        let live = match cursor.over.take() {
            Some(live) => *live,
            None => builder.live(&self.table, cursor.state).clone(),
        };
        for pattern in builder.at_end(&self.nfa, &live) {
            on(Event {
                pattern,
                at: 0,
                back: 0,
            });
        }
    }

    pub(crate) fn size(&self) -> AutomatonSize {
        let builder = self.lock();
        AutomatonSize {
            nfa_states: self.nfa.states.len(),
            columns: self.nfa.alphabet.len(),
            states: builder.keys.len() + builder.match_keys.len(),
            table_bytes: builder.rows.bytes(&self.table),
            set_bytes: builder.set_bytes,
            is_full: builder.is_full,
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
        let mut builder = self.lock();
        let end = bytes.len().min(at + OVER_BATCH);
        while at < end && cursor.over.is_some() {
            let mut decoder = cursor.decoder;
            decoder.push(bytes[at], |symbol, back| {
                cursor.count(symbol);
                self.nfa.alphabet.symbol(symbol, |column, place| {
                    self.step_locked(&mut builder, cursor, column, place.after(at, back), on);
                });
            });
            cursor.decoder = decoder;
            at += 1;
        }
        at
    }

    /// One step, wherever the state is; builds what is missing.
    #[inline]
    fn step(&self, cursor: &mut Cursor, column: usize, place: Place, on: &mut impl FnMut(Event)) {
        if cursor.over.is_none() {
            let next = self.table.next(cursor.state, column);
            if !self.table.is_special(next) {
                cursor.state = next;
                return;
            }
        }
        self.step_locked(&mut self.lock(), cursor, column, place, on);
    }

    fn step_locked(
        &self,
        builder: &mut Builder,
        cursor: &mut Cursor,
        column: usize,
        place: Place,
        on: &mut impl FnMut(Event),
    ) {
        let next = match &cursor.over {
            None => builder.next(&self.nfa, &self.table, cursor.state, column),
            Some(live) => builder.next_of(&self.nfa, &self.table, live, column),
        };
        match next {
            Some(state) => {
                cursor.over = None;
                cursor.state = state;
                if self.table.is_special(state) {
                    place.report(&builder.accept(&self.table, state), on);
                }
            }
            None => {
                place.report(&builder.step.accept(), on);
                cursor.over = Some(Box::new(builder.step.live()));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Builder> {
        // Nothing panics while the lock is held; if it ever did, the table would still be whole,
        // because a row is published only when it is complete.
        self.builder.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Builds the states of a table; there is one, behind the lock.
#[derive(Debug)]
struct Builder {
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
    step: Step,
}

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
    fn new(nfa: &Nfa, table: &Table, budget: usize) -> Builder {
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
            step,
        }
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

    fn live(&self, table: &Table, state: StateId) -> &Live {
        &self.key(table, state).live
    }

    fn accept(&self, table: &Table, state: StateId) -> Arc<Accept> {
        Arc::clone(&self.key(table, state).accept)
    }

    /// The state after `state`, built if need be; `None` past the budget, with the outcome in `step`.
    fn next(&mut self, nfa: &Nfa, table: &Table, state: StateId, column: usize) -> Option<StateId> {
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
    fn next_of(&mut self, nfa: &Nfa, table: &Table, live: &Live, column: usize) -> Option<StateId> {
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

    /// The state that matching of a haystack begins in; it has a row whatever the budget.
    fn start(&mut self, table: &Table) -> Option<StateId> {
        self.step.outcome = Outcome::default();
        self.step.after = Before::Start;
        let hash = self.step.hash();
        self.add(table, hash, None)
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
    fn at_end(&mut self, nfa: &Nfa, live: &Live) -> Vec<u32> {
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
