//! The transition table: append-only rows of cells that any number of threads read without a lock.
//!
//! # Layout
//!
//! A state id is the offset of the state's row in `cells` and never changes. Full rows without a report grow up
//! from 0, sparse rows grow down from the *match bit*, and rows with a report lie above it. The row at the match bit
//! itself is `UNKNOWN`: every unbuilt transition leads to it, and all of its own cells lead back to it. One test of
//! the ORed ids of several steps therefore tells whether any of them was special.
//!
//! A full row has a cell for each column and two more: the state that a suffix re-enters when it is activated while
//! live, and either the look-behind of the state or, for a state with a report, the offset of that report.
//!
//! # Invariants
//!
//! 1. A row is complete before the first cell that leads to it is published (`Release`); a reader loads cells with
//!    `Acquire`, so it sees the whole row.
//! 2. The cell of a transition changes only from `UNKNOWN` to a state, or from a sparse row to the full row of the same
//!    state. A reader that sees the old value is late, not wrong.
//! 3. Rows and reports are never moved, reused or freed while the table lives: a state id stays valid as long as the
//!    table.
//! 4. Only [`RowAllocator`] hands out rows, under the lock of the cache.
//! 5. Offsets of full rows are multiples of [`LINE`], so their lower bits are free to mark the ids of sparse rows.
//! 6. Whatever a cell of a row holds, the cells of all [columns](Column::MAX) follow the offset of that value. A step
//!    from a number that is no id, or on a column of another alphabet, therefore reads a meaningless cell, but never one
//!    outside the table.
//!
//! # Safety
//!
//! A step reads a cell without a bounds check, so it is an `unsafe fn` with one obligation: the state that it begins in
//! was made by this table. The states after it need none (invariant 6), and no column does. `DfaCursor` states why its
//! states are those of its table. All other functions check their indices.
//!
//! The memory is reserved as a whole, so that ids stay valid and readers need no lock. The operating system zeroes
//! it page by page on first use; where it cannot, the whole table is resident, so the first one is small
//! ([`FIRST_BUDGET`]).
#![allow(unsafe_code)] // reserved memory and unchecked steps: the reasons stand at each block

pub(crate) mod short_input;
pub(crate) mod sparse;

use super::alphabet::{Alphabet, Column, STAY};
use super::look::LookBehind;
use super::report::EncodedReport;
use super::simd::SimdLevel;
use super::sync::{AtomicU32, Ordering};
use sparse::SparseRows;

/// A state of a table: the offset of its row. Only [`RowAllocator`] and [`Table`] create ids, and an id is valid for
/// its own table only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StateId(u32);

impl StateId {
    /// Returns the id as bits that can be ORed with others and passed to [`Table::any_special`].
    #[inline(always)]
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    #[cfg(test)]
    pub(crate) fn for_test(row: u32) -> StateId {
        StateId(row)
    }
}

/// A state that one thread publishes once and others read. It is never the first state of a table, whose bits stand
/// for "not published".
#[derive(Debug)]
pub(crate) struct PublishedState(AtomicU32);

impl PublishedState {
    pub(crate) fn new() -> PublishedState {
        PublishedState(AtomicU32::new(0))
    }

    /// Returns the state, if it is published; its whole row can be read then.
    pub(crate) fn get(&self) -> Option<StateId> {
        let bits = self.0.load(Ordering::Acquire);
        (bits != 0).then_some(StateId(bits))
    }

    /// Publishes a state whose row is complete.
    pub(crate) fn set(&self, state: StateId) {
        self.0.store(state.0, Ordering::Release);
    }
}

/// The transition table of one automaton.
#[derive(Debug)]
pub(crate) struct Table {
    cells: Box<[AtomicU32]>,
    /// The end of the rows in `cells`.
    end: usize,
    /// The reports of the states that have one, one after the other.
    reports: Box<[AtomicU32]>,
    /// The column of the reentry cell, which follows the columns of the alphabet.
    reentry: Column,
    stride: usize,
    match_bit: u32,
    special_bits: u32,
    sparse: SparseRows,
    level: SimdLevel,
    bytes: ByteColumns,
}

/// The parameters of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableConfig {
    /// The bytes that rows, reports and state sets may take.
    pub(crate) budget: usize,
    /// The same for the first generation.
    pub(crate) first_budget: usize,
    /// The vector instructions in use.
    pub(crate) level: SimdLevel,
    /// The states that get sparse rows.
    pub(crate) sparse: SparseRows,
}

/// The budget of the first generation, in bytes: room for some six hundred states of a hundred columns, more than most
/// automata of a pack ever build. A table reserves three times its budget, and each view of a channel has automata of
/// its own. The reservation is not free everywhere: WebAssembly allocates it, Windows commits it, and an allocator that
/// reuses a freed block writes zeros to the whole block.
// PERF: with 4 MiB, loading the default packs for the third time in one process took 60 ms longer and 90 MiB more
// (glibc, which takes a freed block of this size for its heap).
pub(crate) const FIRST_BUDGET: usize = 256 << 10;

/// The budget of a generation as a multiple of that of the generation before.
// PERF: with 4, patterns whose states multiply take the slow path for 4,742 of 9,011 deltas instead of 3,329, and 2,888
// with a first table for all states (`tests/shape.txt`).
const GROWTH: usize = 8;

impl TableConfig {
    /// Returns the parameters of the first generation.
    pub(crate) fn first_generation(self) -> TableConfig {
        self.limited_to(self.first_budget)
    }

    /// Returns the parameters of the generation after one with the budget `previous`: [`GROWTH`] times that budget, up to
    /// the full budget.
    pub(crate) fn next_generation(self, previous: usize) -> TableConfig {
        self.limited_to(previous.saturating_mul(GROWTH))
    }

    /// Returns the size of a table for the limit of those in use. A table without a budget has one too, for its first
    /// states.
    pub(crate) fn size(self) -> usize {
        self.budget.max(1)
    }

    /// Returns these parameters with a budget of at most `budget`.
    pub(crate) fn limited_to(self, budget: usize) -> TableConfig {
        TableConfig {
            budget: self.budget.min(budget),
            ..self
        }
    }

    /// A table without room beyond its first states.
    pub(crate) const MINIMAL: TableConfig = TableConfig {
        budget: 0,
        first_budget: FIRST_BUDGET,
        level: SimdLevel::Portable,
        sparse: SparseRows::NONE,
    };
}

/// The column of each byte. A copy of the alphabet's, so that a delta reads nothing but the table.
#[derive(Debug)]
#[repr(align(64))]
struct ByteColumns([u8; 256]);

/// The steps between two tests for a special state.
// Four columns fit into 32 bits, which `short_input::step_blocks` shifts out of a register. A longer block tests less often,
// but more of its bytes are stepped twice if one of its states is special.
pub(crate) const BLOCK: usize = 4;

/// The most bytes of a delta that the path for short input steps.
// A multiple of `BLOCK`, and as many columns as a register of 128 bits holds.
pub const MAX_SHORT_LEN: usize = 16;

/// The patterns and cuts that a state reports on entry; each list is sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportLists<'a> {
    /// Reported whatever comes next.
    pub(crate) now: &'a [AtomicU32],
    /// Ended before the last symbol, which was needed to decide it.
    pub(crate) late: &'a [AtomicU32],
}

/// The cells of a full row besides its columns.
const EXTRA: usize = 2;

/// The cells of a report before its lists: the look-behind and the lengths of both lists.
const HEAD: usize = 3;

/// The length of a row is a multiple of this: half a cache line.
const LINE: usize = 8;

/// The number of rows that fit whatever the budget is: those of the start states.
const MIN_ROWS: usize = 32;

impl Table {
    /// Reserves a table with a column for each of the alphabet's, and with room for `config.budget` in rows with a
    /// report and as much in rows without.
    pub(crate) fn new(alphabet: &Alphabet, config: TableConfig) -> Table {
        let columns = alphabet.len();
        let stride = (columns + EXTRA).next_multiple_of(LINE);
        // Rows with and without a report each get room for the whole budget, because the text decides how many there
        // are of either kind. The upper bound keeps every index below 2^30, so that it fits into an id.
        let room = (config.budget / size_of::<AtomicU32>()).clamp(MIN_ROWS * stride, 1 << 29);
        // A power of two at or above all rows without a report: a single AND then tells on which side of it a row lies.
        let match_bit = room.next_power_of_two();
        // Behind the last row lie the cells that invariant 6 asks for. They stay zero, and an exact table never reads
        // them, so they take address space and no memory.
        let end = match_bit + room;
        let cells = reserve(end + Column::MAX + 1);
        // Invariant 6: ids and the offsets of reports are below `end`, and so are the other numbers in cells of rows.
        assert!(columns < stride && config.sparse.max_cell().max(columns + 1) < end);
        let table = Table {
            cells,
            end,
            reports: reserve(room),
            reentry: Column::new(columns),
            stride,
            match_bit: match_bit as u32,
            special_bits: Table::special_bits(match_bit),
            sparse: config.sparse,
            level: config.level,
            bytes: ByteColumns(*alphabet.bytes()),
        };
        // `UNKNOWN` absorbs: once a step has reached it, the rest of the block stays in it, and its bit stays in the
        // ORed bits.
        table.fill(table.unknown());
        table.set(table.unknown(), STAY, table.unknown());
        table
    }

    /// Returns the id that stands for "not built yet".
    #[inline(always)]
    pub(crate) fn unknown(&self) -> StateId {
        StateId(self.match_bit)
    }

    /// Returns true if the state has a report or a sparse row, or is [`Table::unknown`].
    #[inline(always)]
    pub(crate) fn is_special(&self, state: StateId) -> bool {
        self.any_special(state.0)
    }

    /// Returns true if any of the states whose bits were ORed is special.
    #[inline(always)]
    pub(crate) fn any_special(&self, bits: u32) -> bool {
        bits & self.special_bits != 0
    }

    /// Returns true if the offset is below the end of the rows, as the id of every state of this table is. A state of
    /// another table for which it holds can be stepped safely here, with a meaningless result.
    #[inline(always)]
    pub(crate) fn contains(&self, state: StateId) -> bool {
        (state.0 as usize) < self.end
    }

    /// Returns the state after `state` on a symbol of this column. `state` must have a full row; if it has a sparse
    /// one, or if the column is one of another alphabet, the result is meaningless, but reading it is safe.
    ///
    /// # Safety
    ///
    /// 1. `state` was made by this table, or [`contains`](Self::contains) returned true for it, or it was returned by a
    ///    step of this table.
    // PERF: bounds checks cost 17 % per delta at 10 rules (`cargo bench --bench delta`).
    #[inline(always)]
    pub(crate) unsafe fn next(&self, state: StateId, column: Column) -> StateId {
        let cell = state.0 as usize + column.index();
        debug_assert!(cell < self.cells.len());
        // Acquire pairs with the Release of `set`: the row that the id names is visible as a whole (invariant 1).
        // SAFETY: the index is in bounds, because
        // 1. a state of this table is the offset of a row, which lies below `self.end`;
        // 2. a step after a sparse row, or on a column of another alphabet, may have loaded a number that is no id: a
        //    column number, a look-behind, an entry counter or the offset of a report. All of them are below `self.end`
        //    by the assertion of `Table::new`, and behind `self.end` lies nothing but zeros;
        // 3. a column is at most `Column::MAX`, and `Column::MAX + 1` cells follow `self.end`.
        StateId(unsafe { self.cells.get_unchecked(cell) }.load(Ordering::Acquire))
    }

    /// Steps at most [`BLOCK`] bytes, and ORs the bits of each state into `bits`.
    ///
    /// # Safety
    ///
    /// 1. As of [`next`](Self::next).
    #[inline(always)]
    pub(crate) unsafe fn step_bytes(
        &self,
        state: StateId,
        alphabet: &Alphabet,
        bytes: &[u8],
        bits: &mut u32,
    ) -> StateId {
        if bytes.len() == BLOCK {
            // SAFETY: 1. by the contract.
            return unsafe { self.step_block(state, alphabet.block(bytes), bits) };
        }
        // PERF: each column of the padding would be one more load that waits for the one before it. With padding a delta of
        // 64 bytes takes 68 ns instead of 61 (ten rules, `cargo bench --all-features --bench versus`).
        bytes.iter().fold(state, |state, &byte| {
            let column = alphabet.bytes()[usize::from(byte)];
            // SAFETY: 1. by the contract, for the first byte; for the others the state is that of the step before.
            let next = unsafe { self.next(state, Column::from(column)) };
            *bits |= next.bits();
            next
        })
    }

    /// Steps a block of columns, and ORs the bits of each state into `bits`. A block shorter than [`BLOCK`] is padded
    /// with `STAY`.
    ///
    /// # Safety
    ///
    /// 1. As of [`next`](Self::next).
    #[inline(always)]
    pub(crate) unsafe fn step_block(
        &self,
        state: StateId,
        columns: [u8; BLOCK],
        bits: &mut u32,
    ) -> StateId {
        // SAFETY: 1. by the contract.
        unsafe { self.step_block_with(state, columns, bits, |_| ()) }
    }

    /// As [`step_block`](Self::step_block), and calls `visit` with each state. This is the body of the loops over
    /// blocks; `lazy_dfa::search` lists all loops that step a state.
    ///
    /// # Safety
    ///
    /// 1. As of [`next`](Self::next).
    #[inline(always)]
    unsafe fn step_block_with(
        &self,
        mut state: StateId,
        columns: [u8; BLOCK],
        bits: &mut u32,
        mut visit: impl FnMut(StateId),
    ) -> StateId {
        for column in columns {
            // SAFETY: 1. by the contract, for the first column; for the others the state is that of the step before.
            state = unsafe { self.next(state, Column::from(column)) };
            *bits |= state.bits();
            visit(state);
        }
        state
    }

    /// Publishes a transition: whoever reads it here sees the whole row of `to`. The row of `from` must have
    /// [a free slot](Table::has_slot).
    pub(crate) fn set(&self, from: StateId, column: Column, to: StateId) {
        if from.is_sparse() {
            return self.set_slot(from, column, to);
        }
        // Writers hold the lock of the cache, except those that redirect a cell to a promoted state, and all of these
        // store the same value (invariant 2).
        self.cells[from.0 as usize + column.index()].store(to.0, Ordering::Release);
    }

    /// Returns the state of a live suffix after it is activated again.
    #[inline]
    pub(crate) fn reentry(&self, suffix: StateId) -> StateId {
        self.step(suffix, self.reentry)
    }

    /// Publishes the state that [`Table::reentry`] returns.
    pub(crate) fn set_reentry(&self, suffix: StateId, to: StateId) {
        self.set(suffix, self.reentry, to);
    }

    /// Returns the look-behind of the state.
    pub(crate) fn before(&self, state: StateId) -> LookBehind {
        if state.is_sparse() {
            return self.sparse_before(state);
        }
        let info = self.row_info(state);
        LookBehind::from_number(match self.is_special(state) {
            true => self.reports[info as usize].load(Ordering::Relaxed),
            false => info,
        })
    }

    /// Returns the report of a state that is special and not [`Table::unknown`].
    pub(crate) fn report(&self, state: StateId) -> ReportLists<'_> {
        if state.is_sparse() {
            return ReportLists {
                now: &[],
                late: &[],
            };
        }
        let start = self.row_info(state) as usize;
        // Relaxed is enough in the whole report: it was written before the id of the state was published, and the
        // caller has that id (invariant 1).
        let length = |at: usize| self.reports[at].load(Ordering::Relaxed) as usize;
        let (now, late) = (length(start + 1), length(start + 2));
        let lists = &self.reports[start + HEAD..][..now + late];
        let (now, late) = lists.split_at(now);
        ReportLists { now, late }
    }

    fn row_info(&self, state: StateId) -> u32 {
        // Written before the id of the state was published.
        self.cells[self.info_index(state)].load(Ordering::Relaxed)
    }

    /// Returns the index of the last cell of a full row, which has its look-behind or the offset of its report.
    fn info_index(&self, state: StateId) -> usize {
        state.0 as usize + self.reentry.index() + 1
    }

    /// Returns which states get sparse rows.
    pub(crate) fn sparse(&self) -> SparseRows {
        self.sparse
    }

    /// Returns the bytes of a full row.
    pub(crate) fn row_bytes(&self) -> usize {
        self.stride * size_of::<AtomicU32>()
    }

    /// Returns the number of the row among those of its kind: sparse, with a report, or without.
    pub(crate) fn row(&self, state: StateId) -> usize {
        if state.is_sparse() {
            return self.sparse_row(state);
        }
        (state.0 & !self.match_bit) as usize / self.stride
    }

    fn fill(&self, state: StateId) {
        // Reserved memory is zero, and 0 is the id of the first state, so a new row must be filled. Nobody else has its
        // id yet, so relaxed stores are enough.
        let row = state.0 as usize;
        for cell in &self.cells[row..row + self.stride] {
            cell.store(self.match_bit, Ordering::Relaxed);
        }
    }
}

/// Hands out the rows of a table. There is one for each table, behind the lock of its cache.
#[derive(Debug)]
pub(crate) struct RowAllocator {
    free: usize,
    free_match: usize,
    free_report: usize,
    /// The number of sparse rows.
    sparse: usize,
}

/// The description of a new row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSpec<'a> {
    pub(crate) before: LookBehind,
    pub(crate) now: &'a [EncodedReport],
    pub(crate) late: &'a [EncodedReport],
}

impl RowSpec<'_> {
    /// Returns true if the state reports something.
    pub(crate) fn is_special(&self) -> bool {
        !self.now.is_empty() || !self.late.is_empty()
    }

    /// Returns the cells of the report.
    fn cells(&self) -> usize {
        match self.is_special() {
            true => HEAD + self.now.len() + self.late.len(),
            false => 0,
        }
    }

    /// Returns the bytes of the report.
    pub(crate) fn bytes(&self) -> usize {
        self.cells() * size_of::<AtomicU32>()
    }
}

impl RowAllocator {
    pub(crate) fn new(table: &Table) -> RowAllocator {
        RowAllocator {
            free: 0,
            // The row at the match bit itself is `UNKNOWN`.
            free_match: table.match_bit as usize + table.stride,
            free_report: 0,
            sparse: 0,
        }
    }

    /// Adds a full row whose transitions are unknown, except that of the column `STAY`. Returns `None` if the table is
    /// full.
    pub(crate) fn add(&mut self, table: &Table, new: RowSpec<'_>) -> Option<StateId> {
        let (free, end) = if new.is_special() {
            (&mut self.free_match, table.end)
        } else {
            // Full rows grow up to the lowest sparse row. `add_sparse` never goes below `free`, so the difference is
            // not negative.
            let end = table.match_bit as usize - self.sparse_cells();
            (&mut self.free, end)
        };
        let stride = table.stride;
        // Row and report are checked together before either is taken: a failure leaves the allocator as it was.
        let has_room =
            end - *free >= stride && table.reports.len() - self.free_report >= new.cells();
        if !has_room {
            return None;
        }
        let state = StateId(*free as u32);
        *free += stride;
        table.fill(state);
        // Padding must not change the state: every row leads to itself on `STAY`, from its first publication on.
        table.set(state, STAY, state);
        let info = match new.is_special() {
            true => self.add_report(table, new),
            false => new.before as u32,
        };
        table.cells[table.info_index(state)].store(info, Ordering::Relaxed);
        Some(state)
    }

    fn add_report(&mut self, table: &Table, new: RowSpec<'_>) -> u32 {
        let start = self.free_report;
        let head = [
            new.before as u32,
            new.now.len() as u32,
            new.late.len() as u32,
        ];
        let lists = new.now.iter().chain(new.late).map(|report| report.bits());
        for value in head.into_iter().chain(lists) {
            table.reports[self.free_report].store(value, Ordering::Relaxed);
            self.free_report += 1;
        }
        start as u32
    }

    /// Returns the bytes of all rows and reports handed out.
    pub(crate) fn bytes(&self, table: &Table) -> usize {
        let rows = self.free + self.free_match - table.match_bit as usize;
        (rows + self.sparse_cells() + self.free_report) * size_of::<AtomicU32>()
    }
}

/// Reserves zeroed cells, which the operating system allocates page by page on first use.
#[cfg(not(loom))]
pub(crate) fn reserve(cells: usize) -> Box<[AtomicU32]> {
    // SAFETY: all bits zero are a valid `AtomicU32`.
    // PERF: writing the cells makes the whole reservation resident: 128 MiB and 40 ms for each pack with the default
    // budget, of which a pack of 1,000 rules uses 4 MiB.
    unsafe { Box::<[AtomicU32]>::new_zeroed_slice(cells).assume_init() }
}

/// loom's cells cannot be created by zeroing memory.
#[cfg(loom)]
pub(crate) fn reserve(cells: usize) -> Box<[AtomicU32]> {
    (0..cells).map(|_| AtomicU32::new(0)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::alphabet::SymbolSpace;
    use super::super::nfa::Nfa;
    use super::super::report::{CutId, PatternId};
    use super::super::test_support::parsed;
    use super::*;

    fn table() -> (Nfa, Table, RowAllocator) {
        let nfa = Nfa::new(SymbolSpace::Chars, &parsed(&["ab"]), None).expect("few classes");
        let config = TableConfig {
            budget: 1 << 20,
            ..TableConfig::MINIMAL
        };
        let table = Table::new(&nfa.alphabet, config);
        let rows = RowAllocator::new(&table);
        (nfa, table, rows)
    }

    fn new(now: &[EncodedReport]) -> RowSpec<'_> {
        RowSpec {
            before: LookBehind::AsciiWord,
            now,
            late: &[],
        }
    }

    #[test]
    fn a_row_and_a_report_take_the_stated_bytes() {
        let (nfa, table, mut rows) = table();
        let stride = (nfa.alphabet.len() + EXTRA).next_multiple_of(LINE);
        assert_eq!(table.row_bytes(), 4 * stride);
        let before = rows.bytes(&table);
        let plain = rows.add(&table, new(&[])).expect("room");
        assert_eq!(rows.bytes(&table) - before, 4 * stride);
        // A report: the look-behind, two lengths, and the lists.
        let report = RowSpec {
            before: LookBehind::Lf,
            now: &[5, 7].map(|pattern| EncodedReport::of_pattern(PatternId(pattern))),
            late: &[EncodedReport::of_cut(CutId(9))],
        };
        assert_eq!((new(&[]).bytes(), report.bytes()), (0, 4 * 6));
        let before = rows.bytes(&table);
        let special = rows.add(&table, report).expect("room");
        assert_eq!(rows.bytes(&table) - before, 4 * stride + report.bytes());
        assert!(table.is_special(special) && !table.is_special(plain));
        assert_eq!(
            (table.before(special), table.before(plain)),
            (LookBehind::Lf, LookBehind::AsciiWord)
        );
        let list = |list: &[AtomicU32]| -> Vec<EncodedReport> {
            list.iter().map(EncodedReport::load).collect()
        };
        let found = table.report(special);
        assert_eq!(list(found.now), report.now);
        assert_eq!(list(found.late), report.late);
    }

    #[test]
    fn an_unknown_state_leads_to_itself_on_every_column() {
        let (nfa, table, _) = table();
        for column in (0..=nfa.alphabet.len()).map(Column::new) {
            assert_eq!(table.step(table.unknown(), column), table.unknown());
        }
    }

    #[test]
    fn both_kinds_of_rows_have_room_for_the_budget() {
        let (nfa, table, mut rows) = table();
        let stride = (nfa.alphabet.len() + EXTRA).next_multiple_of(LINE);
        let room = (1 << 20) / 4;
        // Rows without a report end below the match bit; `UNKNOWN` takes the first row above it.
        let plain = std::iter::from_fn(|| rows.add(&table, new(&[]))).count();
        assert_eq!(plain, room / stride);
        let special = std::iter::from_fn(|| {
            rows.add(&table, new(&[EncodedReport::of_pattern(PatternId(1))]))
        })
        .count();
        assert_eq!(special, room / stride - 1);
    }
}
