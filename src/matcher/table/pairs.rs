//! Two symbols a step, where few patterns have few states.
//!
//! The first rows of a table are *wide*: besides a cell for each symbol they have one for each pair of ASCII
//! symbols, `STAY` among them, which says where both lead. Only pairs that lead from one wide row to another, and
//! bring nothing special on the way, are noted, as they are met; all others lead to `UNKNOWN`, and the delta is
//! stepped symbol by symbol. So a short delta is half as many steps, and four of them without a branch take
//! most deltas whole.
//!
//! There are as many pairs as symbols squared, so patterns that tell many symbols apart have no wide rows. Nor
//! have those with many states: the pairs are given up when the first row is handed out that is not wide.

// PERF: 10.3 ns a delta without and 8.0 with pairs at 1 rule, 10.8 and 8.4 at 10; 0.6 and 0.15 branches foreseen
// wrongly (`cargo bench --bench versus -- 1,10`). With 100 rules, whose 587 states then take 11.6 MB, 10.9 and 10.5.

use super::super::alphabet::Alphabet;
use super::super::sync::{AtomicU32, Ordering};
use super::{Config, EXTRA, LINE, StateId};

/// Most wide rows.
pub(crate) const WIDE_ROWS: usize = 512;

/// Most cells of a wide row: sixty-three symbols or so.
const MOST_CELLS: usize = 4096;

/// Fewer rows than that are not worth it.
const LEAST_ROWS: usize = 64;

/// Where the pairs of a table are.
#[derive(Debug)]
pub(super) struct Pairs {
    /// Symbols that make pairs: those of the first columns. 0 where there are no wide rows.
    symbols: usize,
    /// The first cell of a wide row that is of a pair.
    first: usize,
    /// Cells of a wide row.
    stride: usize,
    rows: usize,
    /// The id behind those of wide rows, or 0 once pairs are given up.
    end: AtomicU32,
}

impl Pairs {
    pub(super) fn new(alphabet: &Alphabet, config: Config) -> Pairs {
        // The columns of ASCII bytes come first, then that of bytes which need decoding.
        let symbols = usize::from(alphabet.bytes()[128]);
        let first = alphabet.len() + EXTRA;
        let stride = (first + symbols * symbols).next_multiple_of(LINE);
        let room = config.budget / 4 / (stride * size_of::<AtomicU32>());
        let rows = config.wide_rows.min(room);
        let is_worth = rows > 0 && rows >= config.wide_rows.min(LEAST_ROWS);
        if stride > MOST_CELLS || !is_worth {
            return Pairs::none();
        }
        Pairs {
            symbols,
            first,
            stride,
            rows,
            end: AtomicU32::new((rows * stride) as u32),
        }
    }

    fn none() -> Pairs {
        Pairs {
            symbols: 0,
            first: 0,
            stride: 0,
            rows: 0,
            end: AtomicU32::new(0),
        }
    }

    /// Number of wide rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Cells of a wide row.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// The cell behind the wide rows.
    pub(super) fn end(&self) -> usize {
        self.rows * self.stride
    }

    /// Whether the row that begins at the cell is wide.
    pub(super) fn is_wide(&self, cell: usize) -> bool {
        cell < self.end()
    }

    /// Whether steps from the state may be of pairs.
    #[inline(always)]
    pub(super) fn has(&self, state: StateId) -> bool {
        state.0 < self.end.load(Ordering::Relaxed)
    }

    /// From now on every symbol is stepped by itself.
    pub(super) fn give_up(&self) {
        self.end.store(0, Ordering::Relaxed);
    }

    /// The cell of a pair of symbols, by their columns; nothing where the row is not wide, or they make none.
    pub(super) fn cell(&self, state: StateId, first: u8, second: u8) -> Option<usize> {
        let (first, second) = (usize::from(first), usize::from(second));
        let is_pair = first < self.symbols && second < self.symbols;
        let place = self.first + first * self.symbols + second;
        (is_pair && self.is_wide(state.0 as usize)).then(|| state.0 as usize + place)
    }

    /// The first cell of a wide row that is of a pair.
    #[inline(always)]
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// The four pairs of eight columns, each in sixteen bits: the number of its cell among those of pairs.
    #[inline(always)]
    pub(super) fn of(&self, columns: u64) -> u64 {
        const EVEN: u64 = 0x00FF_00FF_00FF_00FF;
        // Below `MOST_CELLS` each, so that none reaches into the next.
        (columns & EVEN) * self.symbols as u64 + (columns >> 8 & EVEN)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::narrow::Narrow;
    use super::super::simd::Level;
    use super::*;
    use crate::matcher::alphabet::Space;
    use crate::matcher::forced::parsed;
    use crate::matcher::nfa::Nfa;

    #[test]
    fn a_pair_is_of_two_ascii_symbols_and_in_a_wide_row() {
        let nfa = Nfa::new(Space::Chars, &parsed(&["abé"]), None).expect("few classes");
        let config = Config {
            budget: 1 << 20,
            level: Level::Portable,
            wide_rows: 64,
            narrow: Narrow::NONE,
        };
        let pairs = Pairs::new(&nfa.alphabet, config);
        let symbols = nfa.alphabet.bytes()[128];
        let first = nfa.alphabet.len() + EXTRA;
        let cell = |state: usize, one, two| pairs.cell(StateId(state as u32), one, two);
        assert_eq!((pairs.rows(), pairs.end()), (64, 64 * pairs.stride()));
        assert_eq!(cell(0, 0, 0), Some(first));
        assert_eq!(cell(0, 1, 2), Some(first + usize::from(symbols) + 2));
        assert_eq!(
            cell(0, symbols - 1, symbols - 1),
            Some(first + usize::from(symbols).pow(2) - 1)
        );
        assert_eq!(
            cell(0, symbols, 0),
            None,
            "what needs decoding makes no pair"
        );
        assert_eq!(cell(0, 0, symbols), None);
        let last = pairs.end() - pairs.stride();
        assert_eq!(cell(last, 0, 0), Some(last + first));
        assert_eq!(
            cell(pairs.end(), 0, 0),
            None,
            "the row behind them is not wide"
        );
        assert!(pairs.has(StateId(last as u32)) && !pairs.has(StateId(pairs.end() as u32)));
        pairs.give_up();
        assert!(!pairs.has(StateId(0)));
    }
}
