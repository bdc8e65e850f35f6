//! The transition table: append-only rows of cells that any number of threads read without a lock.
//!
//! A state's id is the offset of its row, and never changes. Rows of states that report a match lie
//! above the *match bit*, and the row at that bit itself is `UNKNOWN`: every cell that is not built
//! yet leads there, and all of its own cells do too. So one test of one bit, on the OR of the ids of
//! a whole block of steps, tells whether anything needs a closer look.
//!
//! A row has two cells more than columns: where a tail leads to that is woken once more, and what stands
//! before the state or, where it reports something, where that is listed.
//!
//! This and what is below it are the crate's only modules with `unsafe`. The table is reserved whole, so that ids stay valid
//! and readers need no lock, but is zeroed by the operating system page by page; and it is stepped
//! without bounds checks.
#![allow(unsafe_code)] // reserved memory and unchecked steps: the reasons stand at each block

pub(crate) mod short_input;
pub(crate) mod sparse;

use super::alphabet::{Alphabet, STAY};
use super::simd::SimdLevel;
use super::sync::{AtomicU32, Ordering};
use sparse::SparseRows;

/// A state: the offset of its row. Only [`RowAllocator`] and [`Table`] make them; valid for their table only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StateId(u32);

impl StateId {
    /// The id as a number, to be ORed with others and asked [`Table::any_special`].
    #[inline(always)]
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// The state of those bits; 0 stands for none, since it is the state that haystacks begin in.
    pub(crate) fn of_bits(bits: u32) -> Option<StateId> {
        (bits != 0).then_some(StateId(bits))
    }
}

/// The transition table of one automaton.
#[derive(Debug)]
pub(crate) struct Table {
    cells: Box<[AtomicU32]>,
    /// Lists of what states report, one after the other.
    reports: Box<[AtomicU32]>,
    columns: usize,
    stride: usize,
    match_bit: u32,
    special_bits: u32,
    sparse: SparseRows,
    level: SimdLevel,
    bytes: ByteColumns,
}

/// What a table is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableConfig {
    /// Bytes that rows and state sets may take, about.
    pub(crate) budget: usize,
    /// What of the processor is used.
    pub(crate) level: SimdLevel,
    /// Which states have narrow rows.
    pub(crate) sparse: SparseRows,
}

/// Room of the first table. Most packs never need more, and room is address space, three times as much: where that is
/// limited, or counts as memory, a dozen automata with 64 MiB each asked for more than there was.
const FIRST_ROOM: usize = 16 << 20;

impl TableConfig {
    /// For the table that replaces so many others, each with four times the room of the one before, up to the budget.
    pub(crate) fn of_generation(self, number: u32) -> TableConfig {
        let room = FIRST_ROOM.saturating_mul(4usize.saturating_pow(number));
        TableConfig {
            budget: self.budget.min(room),
            ..self
        }
    }

    /// For a table that is hardly used.
    pub(crate) const BARE: TableConfig = TableConfig {
        budget: 0,
        level: SimdLevel::Portable,
        sparse: SparseRows::NONE,
    };
}

/// The column of each byte: a copy, so that a delta needs nothing but the table.
#[derive(Debug)]
#[repr(align(64))]
struct ByteColumns([u8; 256]);

/// Most bytes of a delta that [`Table::short`] takes.
pub(crate) const SHORT: usize = 16;

/// The outcome of a short delta.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortInput {
    /// The state after it.
    pub(crate) state: StateId,
    /// The ids on the way, ORed.
    pub(crate) bits: u32,
    /// Its bytes, and zeros.
    pub(crate) padded: [u8; SHORT],
    /// The columns of its bytes, and `STAY`.
    columns: u128,
    len: usize,
}

/// What entering a state reports, each list in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportLists<'a> {
    /// What is certain whatever comes next.
    pub(crate) now: &'a [AtomicU32],
    /// What was there before the last symbol, and needed it to be certain.
    pub(crate) late: &'a [AtomicU32],
}

impl ShortInput {
    /// Number of its bytes.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.len as u32
    }
}

/// Cells of a row besides its columns.
const EXTRA: usize = 2;

/// Cells before the lists of a report: what stands before, and the lengths of the lists.
const HEAD: usize = 3;

/// Cells of a row are a multiple of this: half a cache line, so that rows waste little.
const LINE: usize = 8;

/// Rows that fit whatever the budget says: those of the states that matching begins in.
const LEAST_ROWS: usize = 32;

impl Table {
    /// A table for states with a column for each of the alphabet's, with room for the budget in rows that match
    /// and at least as many that do not.
    pub(crate) fn new(alphabet: &Alphabet, config: TableConfig) -> Table {
        let columns = alphabet.len();
        let stride = (columns + EXTRA).next_multiple_of(LINE);
        let room = (config.budget / size_of::<AtomicU32>()).clamp(LEAST_ROWS * stride, 1 << 29);
        let match_bit = room.next_power_of_two();
        let cells = reserve(match_bit + room);
        // What is stepped behind a narrow row may begin at any number that a cell holds.
        assert!(config.sparse.most().max(columns + 1) + stride <= cells.len());
        let table = Table {
            cells,
            reports: reserve(room),
            columns,
            stride,
            match_bit: match_bit as u32,
            special_bits: Table::special_bits(match_bit),
            sparse: config.sparse,
            level: config.level,
            bytes: ByteColumns(*alphabet.bytes()),
        };
        table.fill(table.unknown());
        table.set(table.unknown(), STAY, table.unknown());
        table
    }

    /// The id that stands for "not built yet".
    #[inline(always)]
    pub(crate) fn unknown(&self) -> StateId {
        StateId(self.match_bit)
    }

    /// Whether the state reports a match, has a narrow row, or is [`Table::unknown`].
    #[inline(always)]
    pub(crate) fn is_special(&self, state: StateId) -> bool {
        self.any_special(state.0)
    }

    /// Whether any of the states whose bits were ORed together is special.
    #[inline(always)]
    pub(crate) fn any_special(&self, bits: u32) -> bool {
        bits & self.special_bits != 0
    }

    /// The state after `state`, whose row is full, on a symbol of that column. Behind a narrow row this is
    /// nothing to be used.
    #[inline(always)]
    pub(crate) fn next(&self, state: StateId, column: usize) -> StateId {
        debug_assert!(column <= self.columns);
        let cell = state.0 as usize + column;
        debug_assert!(cell < self.cells.len());
        // SAFETY: a `StateId` is the offset of a whole row inside `cells` (made only by `RowAllocator::add`
        // and `unknown`, or read from a cell), and every column that an alphabet gives is below
        // `columns <= stride`, the length of a row. A narrow row is shorter, but stands below `match_bit`, and
        // `match_bit + stride` cells there are. What is read behind it may be any cell, so the next step may
        // begin at what is no id: a column, what stands before (a handful), how often a row was entered, where a
        // report is (below `match_bit`). `Table::new` asserts that a row fits behind each. A cursor steps only the table that it was started on, because the stream that owns it
        // holds the pack.
        // PERF: bounds checks cost 17 % per delta at 10 rules (`cargo bench --bench delta`).
        StateId(unsafe { self.cells.get_unchecked(cell) }.load(Ordering::Acquire))
    }

    /// Steps at most [`SHORT`] bytes, and copies them to `room` with zeros behind them; gives the state then
    /// and the ids on the way, ORed. How many there are costs no branch: absent bytes take the column
    /// `STAY`, and only the number of blocks of four is tested. Bytes that need decoding lead to
    /// [`Table::unknown`].
    #[inline(always)]
    pub(crate) fn push_short(
        &self,
        state: StateId,
        bytes: &[u8],
        room: &mut [u8; SHORT],
    ) -> (StateId, u32) {
        match self.level {
            // SAFETY: the level is `Avx512` only where the processor has these features.
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => unsafe { short_input::push_avx512(self, state, bytes, room) },
            SimdLevel::Portable => short_input::push_portable(self, state, bytes, room),
        }
    }

    /// The same, for those who step more than one state over the bytes.
    #[inline(always)]
    pub(crate) fn short(&self, state: StateId, bytes: &[u8]) -> ShortInput {
        let (padded, columns) = match self.level {
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => unsafe { short_input::columns_avx512(&self.bytes.0, bytes) },
            SimdLevel::Portable => short_input::columns_portable(&self.bytes.0, bytes),
        };
        let len = bytes.len().min(SHORT);
        let (state, bits) = match short_input::is_ascii(padded) {
            true => short_input::steps(self, state, columns, len),
            false => (self.unknown(), self.unknown().bits()),
        };
        ShortInput {
            state,
            bits,
            padded,
            columns,
            len,
        }
    }

    /// Steps another state over the bytes of a short delta; gives it and the ids on the way, ORed.
    #[inline(always)]
    pub(crate) fn step_short_from(&self, short: &ShortInput, state: StateId) -> (StateId, u32) {
        short_input::steps(self, state, short.columns, short.len)
    }

    /// Of the bytes of a short delta, stepped from that state: the number of the last one that leads to a row
    /// not behind that of `last`; 0 if none does.
    #[inline]
    pub(crate) fn last_up_to(&self, short: &ShortInput, from: StateId, last: StateId) -> usize {
        let (mut state, mut columns, mut done, mut found) = (from, short.columns, 0, 0);
        loop {
            for _ in 0..4 {
                state = self.next(state, (columns & 255) as usize);
                columns >>= 8;
                done += 1;
                found = if state.0 <= last.0 { done } else { found };
            }
            if done >= short.len {
                // Absent bytes lead from a state to itself.
                return found.min(short.len);
            }
        }
    }

    /// Publishes a transition; what `to`'s row holds is visible to whoever reads it here. There must be
    /// [room](Table::has_slot) for it.
    pub(crate) fn set(&self, from: StateId, column: usize, to: StateId) {
        if from.is_sparse() {
            return self.set_slot(from, column, to);
        }
        self.cells[from.0 as usize + column].store(to.0, Ordering::Release);
    }

    /// The state of a tail that is woken once more.
    #[inline]
    pub(crate) fn reentry(&self, suffix: StateId) -> StateId {
        self.step(suffix, self.columns)
    }

    /// Publishes what [`Table::reentry`] gives.
    pub(crate) fn set_reentry(&self, suffix: StateId, to: StateId) {
        self.set(suffix, self.columns, to);
    }

    /// The number of what stands before the state.
    pub(crate) fn before(&self, state: StateId) -> u32 {
        if state.is_sparse() {
            return self.sparse_before(state);
        }
        let about = self.about(state);
        match self.is_special(state) {
            true => self.reports[about as usize].load(Ordering::Relaxed),
            false => about,
        }
    }

    /// What entering the state reports, if it is special and not [`Table::unknown`].
    pub(crate) fn report(&self, state: StateId) -> ReportLists<'_> {
        if state.is_sparse() {
            return ReportLists {
                now: &[],
                late: &[],
            };
        }
        let about = self.about(state) as usize;
        let length = |at: usize| self.reports[at].load(Ordering::Relaxed) as usize;
        let (now, late) = (length(about + 1), length(about + 2));
        let lists = &self.reports[about + HEAD..][..now + late];
        let (now, late) = lists.split_at(now);
        ReportLists { now, late }
    }

    fn about(&self, state: StateId) -> u32 {
        // Written before the state's id was published.
        self.cells[state.0 as usize + self.columns + 1].load(Ordering::Relaxed)
    }

    /// Which states have narrow rows.
    pub(crate) fn sparse(&self) -> SparseRows {
        self.sparse
    }

    /// Bytes of a full row.
    pub(crate) fn row_bytes(&self) -> usize {
        self.stride * size_of::<AtomicU32>()
    }

    /// Number of the row among those that are narrow, or match, or neither.
    pub(crate) fn row(&self, state: StateId) -> usize {
        if state.is_sparse() {
            return self.sparse_row(state);
        }
        (state.0 & !self.match_bit) as usize / self.stride
    }

    fn fill(&self, state: StateId) {
        let row = state.0 as usize;
        for cell in &self.cells[row..row + self.stride] {
            cell.store(self.match_bit, Ordering::Relaxed);
        }
    }
}

/// Hands out the rows of a table; there is one, behind the lock of whoever builds states.
#[derive(Debug)]
pub(crate) struct RowAllocator {
    free: usize,
    free_match: usize,
    free_report: usize,
    /// Number of narrow rows.
    sparse: usize,
}

/// What a new row is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSpec<'a> {
    /// The number of what stands before.
    pub(crate) before: u32,
    pub(crate) now: &'a [u32],
    pub(crate) late: &'a [u32],
}

impl RowSpec<'_> {
    /// Whether there is something.
    pub(crate) fn is_special(&self) -> bool {
        !self.now.is_empty() || !self.late.is_empty()
    }

    /// Cells of its report.
    fn cells(&self) -> usize {
        match self.is_special() {
            true => HEAD + self.now.len() + self.late.len(),
            false => 0,
        }
    }

    /// Bytes of its report.
    pub(crate) fn bytes(&self) -> usize {
        self.cells() * size_of::<AtomicU32>()
    }
}

impl RowAllocator {
    pub(crate) fn new(table: &Table) -> RowAllocator {
        RowAllocator {
            free: 0,
            free_match: table.match_bit as usize + table.stride,
            free_report: 0,
            sparse: 0,
        }
    }

    /// A new full row whose transitions are all unknown, but that of column `STAY`; `None` where the table
    /// is full.
    pub(crate) fn add(&mut self, table: &Table, new: RowSpec<'_>) -> Option<StateId> {
        let (free, end) = if new.is_special() {
            (&mut self.free_match, table.cells.len())
        } else {
            let end = table.match_bit as usize - self.sparse_cells();
            (&mut self.free, end)
        };
        let stride = table.stride;
        let has_room =
            end - *free >= stride && table.reports.len() - self.free_report >= new.cells();
        if !has_room {
            return None;
        }
        let state = StateId(*free as u32);
        *free += stride;
        table.fill(state);
        table.set(state, STAY, state);
        let about = match new.is_special() {
            true => self.add_report(table, new),
            false => new.before,
        };
        table.cells[state.0 as usize + table.columns + 1].store(about, Ordering::Relaxed);
        Some(state)
    }

    fn add_report(&mut self, table: &Table, new: RowSpec<'_>) -> u32 {
        let about = self.free_report;
        let head = [new.before, new.now.len() as u32, new.late.len() as u32];
        for &value in head.iter().chain(new.now).chain(new.late) {
            table.reports[self.free_report].store(value, Ordering::Relaxed);
            self.free_report += 1;
        }
        about as u32
    }

    /// Bytes of the rows and reports handed out.
    pub(crate) fn bytes(&self, table: &Table) -> usize {
        let rows = self.free + self.free_match - table.match_bit as usize;
        (rows + self.sparse_cells() + self.free_report) * size_of::<AtomicU32>()
    }
}

#[cfg(not(loom))]
fn reserve(cells: usize) -> Box<[AtomicU32]> {
    // SAFETY: all zero bits are a valid `AtomicU32`.
    // PERF: writing the cells instead makes the whole reservation resident: 128 MiB and 40 ms a pack
    // at the default budget, of which a pack of 1,000 rules uses 4.
    unsafe { Box::<[AtomicU32]>::new_zeroed_slice(cells).assume_init() }
}

/// loom's cells cannot be zeroed from outside.
#[cfg(loom)]
fn reserve(cells: usize) -> Box<[AtomicU32]> {
    (0..cells).map(|_| AtomicU32::new(0)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::alphabet::SymbolSpace;
    use super::super::nfa::Nfa;
    use super::super::test_support::parsed;
    use super::*;

    fn table() -> (Nfa, Table, RowAllocator) {
        let nfa = Nfa::new(SymbolSpace::Chars, &parsed(&["ab"]), None).expect("few classes");
        let config = TableConfig {
            budget: 1 << 20,
            ..TableConfig::BARE
        };
        let table = Table::new(&nfa.alphabet, config);
        let rows = RowAllocator::new(&table);
        (nfa, table, rows)
    }

    fn new(now: &[u32]) -> RowSpec<'_> {
        RowSpec {
            before: 3,
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
        // A report: what stands before, two lengths, and the lists.
        let report = RowSpec {
            before: 1,
            now: &[5, 7],
            late: &[9],
        };
        assert_eq!((new(&[]).bytes(), report.bytes()), (0, 4 * 6));
        let before = rows.bytes(&table);
        let special = rows.add(&table, report).expect("room");
        assert_eq!(rows.bytes(&table) - before, 4 * stride + report.bytes());
        assert!(table.is_special(special) && !table.is_special(plain));
        assert_eq!((table.before(special), table.before(plain)), (1, 3));
        let list = |list: &[AtomicU32]| -> Vec<u32> {
            list.iter().map(|it| it.load(Ordering::Relaxed)).collect()
        };
        let found = table.report(special);
        assert_eq!((list(found.now), list(found.late)), (vec![5, 7], vec![9]));
    }

    #[test]
    fn an_unknown_state_leads_to_itself_on_every_column() {
        let (nfa, table, _) = table();
        for column in 0..=nfa.alphabet.len() {
            assert_eq!(table.next(table.unknown(), column), table.unknown());
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
        let special = std::iter::from_fn(|| rows.add(&table, new(&[1]))).count();
        assert_eq!(special, room / stride - 1);
    }
}
