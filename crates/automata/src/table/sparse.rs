//! Sparse rows, for states that text hardly ever visits.
//!
//! With many patterns, nearly half of the states are entered once in ten megabytes and have one known transition.
//! After the first rows of a table, which are *full*, a new state therefore gets a *sparse* row: half a cache
//! line with room for three transitions. When the state has been entered [`SparseRows::entries`] times, or needs a
//! fourth transition, it is *promoted*: it gets a full row, and the sparse row stores the id of that row. A cell that
//! leads to the sparse row is redirected when it is next stepped.
//!
//! # Invariants
//!
//! 1. The id of a sparse row has the bit [`SPARSE`] and is special, so the fast paths leave it to [`Table::step`].
//!    They only have to test the state that they start in.
//! 2. A fast path that steps past a sparse row reads cells at arbitrary offsets. It never uses the values, and
//!    every value that a cell can hold has a whole row after it (invariant 6 of `table`).
//! 3. Sparse rows lie below the match bit and grow downwards.
//! 4. Only the full row of a promoted state gets new transitions; its sparse row keeps those it had.

// PERF: 742 patterns of kingfisher have 40,203 states after 12 MB of text: 14.0 MB, and 19.0 MB with full rows alone,
// at the same time for a delta (`cargo bench --bench hard -- kingfisher`). Rows that stay sparse until they run out
// of slots take 11.2 MB, and 47 ns a delta instead of 39 for uap-core.

use super::super::alphabet::Column;
use super::super::look::LookBehind;
use super::super::sync::{AtomicU32, Ordering};
use super::{LINE, RowAllocator, RowSpec, StateId, Table};

/// The states that get a sparse row, and when they are promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SparseRows {
    /// The number of states without a report, besides the start states, that get a full row at once.
    pub(crate) full_rows: usize,
    /// The number of entries after which a state is promoted.
    pub(crate) entries: u32,
}

impl SparseRows {
    pub(crate) const USUAL: SparseRows = SparseRows {
        full_rows: 8192,
        entries: 32,
    };

    /// Every row is full.
    pub(crate) const NONE: SparseRows = SparseRows {
        full_rows: usize::MAX,
        entries: 1,
    };

    /// Returns the largest number in a cell that is neither a state id nor a column number.
    pub(super) fn max_cell(self) -> usize {
        entry_count(self.entries + 1) as usize
    }
}

/// The bit that only ids of sparse rows have: ids of full rows are multiples of [`LINE`].
const SPARSE: u32 = LINE as u32 / 2;

/// The cells of a sparse row: the look-behind; the entry counter, or the id of the full row; then three pairs of a
/// column number (from 1) and the state it leads to.
const SPARSE_CELLS: usize = LINE;
const BEFORE_CELL: usize = 0;
const ENTRIES_CELL: usize = 1;
const FIRST_SLOT: usize = 2;

/// Returns an entry count as a cell value. Its lowest bit tells it from the id of a full row.
const fn entry_count(entered: u32) -> u32 {
    (entered * LINE as u32) | ENTRY_COUNT_BIT
}

const ENTRY_COUNT_BIT: u32 = 1;

impl StateId {
    /// Returns true if the row of the state is sparse.
    #[inline(always)]
    pub(crate) fn is_sparse(self) -> bool {
        self.0 & SPARSE != 0
    }

    /// Returns the bits that a fast path must add for the state it starts in.
    #[inline(always)]
    pub(crate) fn entry_bits(self) -> u32 {
        self.0 & SPARSE
    }
}

impl Table {
    /// Returns the mask of the bits that make a state special.
    pub(super) fn special_bits(match_bit: usize) -> u32 {
        match_bit as u32 | SPARSE
    }

    /// Returns the state after `state` on a symbol of this column, whatever kinds of rows they have.
    #[inline(always)]
    pub(crate) fn step(&self, state: StateId, column: Column) -> StateId {
        if !state.is_sparse() {
            // Nearly every step ends here: only a state that is sparse itself or leads to a sparse one has more to do.
            let cell = state.0 as usize + column.index();
            let next = StateId(self.cells[cell].load(Ordering::Acquire));
            if !next.is_sparse() {
                return next;
            }
        }
        self.step_sparse(state, column)
    }

    #[inline(never)]
    fn step_sparse(&self, state: StateId, column: Column) -> StateId {
        // A cursor may still be in the sparse row of a promoted state, so the search continues in the full row
        // (invariant 4).
        let state = self.promoted(state);
        let cell = match state.is_sparse() {
            true => self.slot(state, column),
            false => Some(state.0 as usize + column.index()),
        };
        cell.map_or(self.unknown(), |cell| self.enter(&self.cells[cell]))
    }

    /// Returns the state that a cell leads to, and redirects the cell if that state was promoted.
    fn enter(&self, cell: &AtomicU32) -> StateId {
        let next = StateId(cell.load(Ordering::Acquire));
        if !next.is_sparse() {
            return next;
        }
        // Any thread may redirect a cell, without the lock: all of them store the same id (invariant 2 of `table`). The
        // store is a Release, because readers of this cell must see the full row, which this thread has acquired.
        let promoted = self.promoted(next);
        if promoted == next {
            self.count(next);
        } else {
            cell.store(promoted.0, Ordering::Release);
        }
        promoted
    }

    /// Returns the full row of the state if it was promoted, the state itself otherwise.
    #[inline]
    pub(crate) fn promoted(&self, state: StateId) -> StateId {
        if !state.is_sparse() {
            return state;
        }
        match self
            .sparse_cell(state, ENTRIES_CELL)
            .load(Ordering::Acquire)
        {
            entered if entered & ENTRY_COUNT_BIT != 0 => state,
            full => StateId(full),
        }
    }

    /// Returns true if the state is to be promoted before it is entered.
    #[inline]
    pub(crate) fn is_promotion_due(&self, state: StateId) -> bool {
        state.is_sparse()
            && self
                .sparse_cell(state, ENTRIES_CELL)
                .load(Ordering::Relaxed)
                == entry_count(self.sparse.entries)
    }

    /// Keeps the state in its sparse row: there is no room for a full one.
    pub(crate) fn cancel_promotion(&self, state: StateId) {
        // One more than the number at which a promotion is due. `count` does not go on from there, so it is never due
        // again.
        let kept = entry_count(self.sparse.entries + 1);
        self.sparse_cell(state, ENTRIES_CELL)
            .store(kept, Ordering::Relaxed);
    }

    fn count(&self, state: StateId) {
        let cell = self.sparse_cell(state, ENTRIES_CELL);
        let entered = cell.load(Ordering::Relaxed);
        // The count stops where a promotion is due and stays there until one succeeds or is cancelled.
        if entered & ENTRY_COUNT_BIT != 0 && entered < entry_count(self.sparse.entries) {
            // On failure another thread has counted an entry; losing one count is harmless.
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            let more = entered + LINE as u32;
            let _ = cell.compare_exchange(entered, more, success, failure);
        }
    }

    /// Returns true if the row of the state has room for another transition.
    pub(crate) fn has_slot(&self, state: StateId) -> bool {
        !state.is_sparse() || self.slots(state).any(|slot| self.column(slot) == 0)
    }

    /// Publishes a transition of a sparse row, which must have a free slot.
    pub(super) fn set_slot(&self, from: StateId, column: Column, to: StateId) {
        let mut slots = self.slots(from);
        let free = slots.find(|&slot| self.column(slot) == 0);
        let free = free.expect("a row with room");
        // The column is written last, with Release: a reader that finds it sees the state and the row of that state
        // (invariant 1 of `table`). Slots are written under the lock of the cache only, so no other thread fills this
        // one.
        self.cells[free + 1].store(to.0, Ordering::Relaxed);
        self.cells[free].store(column.index() as u32 + 1, Ordering::Release);
    }

    /// Copies the transitions of a sparse row to a full one, and stores the id of the full row in it.
    pub(crate) fn promote(&self, sparse: StateId, full: StateId) {
        // The caller holds the lock of the cache, so no slot is filled after it was copied. The id of the full row is
        // published last, with Release: whoever follows it finds the copied transitions.
        for slot in self.slots(sparse) {
            if let Some(column) = self.column(slot).checked_sub(1) {
                let to = self.cells[slot + 1].load(Ordering::Acquire);
                self.set(full, Column::new(column as usize), StateId(to));
            }
        }
        self.sparse_cell(sparse, ENTRIES_CELL)
            .store(full.0, Ordering::Release);
    }

    /// Returns the index of the cell that holds the transition of a sparse row on this column, if it is known.
    fn slot(&self, state: StateId, column: Column) -> Option<usize> {
        let mut slots = self.slots(state);
        let slot = slots.find(|&slot| self.column(slot) == column.index() as u32 + 1);
        slot.map(|slot| slot + 1)
    }

    fn column(&self, slot: usize) -> u32 {
        self.cells[slot].load(Ordering::Acquire)
    }

    fn slots(&self, state: StateId) -> impl Iterator<Item = usize> {
        let row = first_cell(state);
        (row + FIRST_SLOT..row + SPARSE_CELLS).step_by(2)
    }

    fn sparse_cell(&self, state: StateId, cell: usize) -> &AtomicU32 {
        &self.cells[first_cell(state) + cell]
    }

    /// Returns the look-behind of a state with a sparse row.
    pub(super) fn sparse_before(&self, state: StateId) -> LookBehind {
        LookBehind::from_number(self.sparse_cell(state, BEFORE_CELL).load(Ordering::Relaxed))
    }

    /// Returns the number of the sparse row.
    pub(super) fn sparse_row(&self, state: StateId) -> usize {
        (self.match_bit as usize - first_cell(state)) / SPARSE_CELLS - 1
    }
}

fn first_cell(state: StateId) -> usize {
    (state.0 & !SPARSE) as usize
}

impl RowAllocator {
    /// Adds a sparse row for a state without a report. Returns `None` if the table is full.
    pub(crate) fn add_sparse(&mut self, table: &Table, new: RowSpec<'_>) -> Option<StateId> {
        let cells = (self.sparse + 1) * SPARSE_CELLS;
        let row = (table.match_bit as usize).checked_sub(cells)?;
        if row < self.free {
            return None;
        }
        // The slots need no initialization: rows are never reused, reserved memory is zero, and column number 0 marks a
        // free slot.
        self.sparse += 1;
        let state = StateId(row as u32 | SPARSE);
        table
            .sparse_cell(state, ENTRIES_CELL)
            .store(entry_count(0), Ordering::Relaxed);
        table
            .sparse_cell(state, BEFORE_CELL)
            .store(new.before as u32, Ordering::Relaxed);
        Some(state)
    }

    /// Returns the cells of all sparse rows.
    pub(super) fn sparse_cells(&self) -> usize {
        self.sparse * SPARSE_CELLS
    }
}

/// The bytes of a sparse row.
pub(crate) const SPARSE_BYTES: usize = SPARSE_CELLS * size_of::<AtomicU32>();

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::TableConfig;
    use super::*;
    use crate::alphabet::SymbolSpace;
    use crate::nfa::Nfa;
    use crate::test_support::parsed;

    const ENTRIES: u32 = 3;

    fn new(before: LookBehind) -> RowSpec<'static> {
        RowSpec {
            before,
            now: &[],
            late: &[],
        }
    }

    /// Returns a table, its allocator, a full row, and a sparse row that the full one leads to on column 1.
    fn table() -> (Table, RowAllocator, StateId, StateId) {
        let nfa = Nfa::new(SymbolSpace::Chars, &parsed(&["abcdef"]), None).expect("few classes");
        let sparse = SparseRows {
            full_rows: 0,
            entries: ENTRIES,
        };
        let table = Table::new(
            &nfa.alphabet,
            TableConfig {
                sparse,
                ..TableConfig::MINIMAL
            },
        );
        let mut rows = RowAllocator::new(&table);
        let full = rows.add(&table, new(LookBehind::Start)).expect("room");
        let sparse = rows
            .add_sparse(&table, new(LookBehind::Other))
            .expect("room");
        table.set(full, Column::new(1), sparse);
        (table, rows, full, sparse)
    }

    #[test]
    fn a_sparse_row_has_room_for_three_columns_and_a_look_behind() {
        let (table, mut rows, full, sparse) = table();
        let bytes = rows.bytes(&table);
        let other = rows.add_sparse(&table, new(LookBehind::Cr)).expect("room");
        assert_eq!(rows.bytes(&table) - bytes, SPARSE_BYTES);
        assert_eq!((table.row(sparse), table.row(other)), (0, 1));
        assert_eq!(
            (table.before(sparse), table.before(other)),
            (LookBehind::Other, LookBehind::Cr)
        );
        assert!(sparse.is_sparse() && !full.is_sparse());
        assert!(table.is_special(sparse) && table.report(sparse).now.is_empty());
        for column in (2..5).map(Column::new) {
            assert_eq!(table.step(sparse, column), table.unknown());
            assert!(table.has_slot(sparse));
            table.set(sparse, column, full);
            assert_eq!(table.step(sparse, column), full);
        }
        assert!(!table.has_slot(sparse) && table.has_slot(full) && table.has_slot(other));
        assert_eq!(table.step(other, Column::new(2)), table.unknown());
    }

    #[test]
    fn a_state_is_due_when_it_was_entered_often_and_its_full_row_takes_over() {
        let (table, mut rows, full, sparse) = table();
        table.set(sparse, Column::new(2), full);
        for entered in 1..=ENTRIES + 2 {
            assert_eq!(table.step(full, Column::new(1)), sparse);
            assert_eq!(
                table.is_promotion_due(sparse),
                entered >= ENTRIES,
                "{entered}"
            );
        }
        assert_eq!(table.promoted(sparse), sparse);
        let wide = rows.add(&table, new(LookBehind::Other)).expect("room");
        table.promote(sparse, wide);
        assert!(!table.is_promotion_due(sparse));
        assert_eq!(table.promoted(sparse), wide);
        // A cursor that is still in the sparse row continues from the full one.
        for state in [sparse, wide] {
            assert_eq!(table.step(state, Column::new(2)), full);
            assert_eq!(table.step(state, Column::new(3)), table.unknown());
        }
        // The cell that led to the sparse row is redirected after it was stepped.
        // SAFETY: 1. `full` was made by this table.
        let next = || unsafe { table.next(full, Column::from(1)) };
        assert_eq!(next(), sparse);
        assert_eq!(table.step(full, Column::new(1)), wide);
        assert_eq!(next(), wide);
    }

    #[test]
    fn a_state_without_room_for_a_full_row_stays_and_is_not_due_again() {
        let (table, _, full, sparse) = table();
        (0..ENTRIES).for_each(|_| assert_eq!(table.step(full, Column::new(1)), sparse));
        assert!(table.is_promotion_due(sparse));
        table.cancel_promotion(sparse);
        for _ in 0..40 {
            assert_eq!(table.step(full, Column::new(1)), sparse);
            assert!(!table.is_promotion_due(sparse));
        }
    }

    #[test]
    fn sparse_rows_end_where_the_full_ones_begin() {
        let (table, mut rows, _, _) = table();
        let mut last = None;
        while let Some(state) = rows.add_sparse(&table, new(LookBehind::Lf)) {
            last = Some(first_cell(state));
        }
        assert!(last.expect("there was room") >= rows.free);
        assert!(rows.add(&table, new(LookBehind::Lf)).is_none());
        assert!(last.expect("there was room") < rows.free + SPARSE_CELLS);
    }

    #[test]
    fn no_count_is_greater_than_the_greatest_number_of_a_cell() {
        let sparse = SparseRows {
            full_rows: 0,
            entries: ENTRIES,
        };
        assert_eq!(sparse.max_cell(), entry_count(ENTRIES + 1) as usize);
        assert_eq!(sparse.max_cell(), 4 * LINE + 1);
    }
}
