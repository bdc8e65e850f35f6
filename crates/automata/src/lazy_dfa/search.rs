//! The search: how a delta becomes a report, from top to bottom.
//!
//! [`LazyDfa::push`] chooses a [`Strategy`]. The accelerators step text in which no state is special, and hand the rest
//! to the scalar search, [`push_scalar`](LazyDfa::push_scalar). It steps blocks of four bytes; a block with a special
//! state goes to [`push_special`](LazyDfa::push_special), which steps it symbol by symbol. Every symbol ends in
//! [`step`](LazyDfa::step), which reports. Suffixes are stepped, and unbuilt states built, in `lazy_dfa::step`; a
//! cursor that has left the table is stepped in `lazy_dfa::fallback`.
//!
//! # The loops that step a state
//!
//! Seven loops step a state: six that of a lazy DFA, and one that of the [`product`](super::product) of several. The Pike
//! VM ([`pike`](crate::pike)) has three of its own.
//!
//! | loop | file | used for |
//! |---|---|---|
//! | `short_input::step_blocks` | `table/short_input.rs` | short input: up to four blocks of four columns (`Table::step_block_with`) in a register |
//! | `push_scalar` | `lazy_dfa/search.rs` | the blocks of any input, with the same body, and its last bytes one by one (`Table::step_bytes`) |
//! | `push_plain` | `lazy_dfa/search.rs` | characters of a single state, up to a special state or a stop condition |
//! | `push_symbols` | `lazy_dfa/search.rs` | symbols of any kind, with suffixes, reports and unbuilt states |
//! | `push_fallback` | `lazy_dfa/fallback.rs` | symbols of a cursor that has left the table |
//! | `step_lanes` | `lazy_dfa/speculative.rs` | long input: several stretches of text side by side |
//! | `Product::step_bytes` | `lazy_dfa/product.rs` | deltas that several matchers read; `step` and `step_with` differ in what they record |
//!
//! `push_special`, `push_prefiltered`, `push_until_idle` and `push_tiles` step nothing themselves: they choose which of
//! these loops steps which bytes.
//!
//! # Invariants
//!
//! 1. When a loop returns, the cursor has consumed exactly the bytes before the returned index: its state, its suffixes
//!    and its decoder belong to that index.
//! 2. A loop over blocks, short input and speculative lanes step into local variables, and suffixes into
//!    [`Suffix::next`](crate::suffix::Suffix::next), and OR the bits of the states. If any state was special the result
//!    is dropped, and the cursor is unchanged. The bytes are then stepped again by `push_symbols`, so a report is never
//!    lost and never made twice.
//! 3. A state with a sparse row has no cells for `Table::next`. A loop that uses `next` therefore starts from a state
//!    with a full row, or adds the [`entry_bits`](StateId::entry_bits) of the state that it starts from.
//! 4. A byte that is not ASCII has a column without transitions: it leads to [`Table::unknown`], which is special. So a
//!    loop over blocks needs no test for it.
//! 5. In short input and for suffixes, a block at the end of the input is padded with the column `STAY`, which leads every
//!    state to itself.
//! 6. While a character is incomplete its bytes are in the decoder, and the state is the one before the character. Only
//!    `push_symbols` and `push_fallback` step such a cursor.
//! 7. `Utf8Decoder::advance` or `advance_ascii` is called for the last character that was stepped outside the decoder: stray bytes after it
//!    depend on its length.
//!
//! # Timing of reports
//!
//! - Only [`step`](LazyDfa::step) and `step_fallback` report, in the order of the symbols. The reports of one symbol
//!   come in the order of [`StepReports::sort`](crate::suffix::StepReports::sort), or of the lists of the state.
//! - A plain pattern is reported at its last byte (`now`). A pattern that an assertion ends is reported at the next
//!   symbol, which decides the assertion (`late`), with [`back`](MatchEvent::back) as the width of that symbol; or by
//!   [`finish`](LazyDfa::finish).
//! - A symbol of several bytes is stepped at its last byte. The bytes of a broken character are symbols of their own,
//!   which are stepped at the byte that shows it to be broken; `back` counts from there.
//! - So the byte of a report depends on the text alone, not on deltas, strategies or the states that are built.

use super::super::MatchEvent;
use super::super::alphabet::{Column, SymbolSpan};
use super::super::prefilter::Prefilter;
use super::super::report::{EncodedReport, PatternId};
use super::super::suffix::CursorExtra;
use super::super::sync::Arc;
use super::super::table::{BLOCK, StateId};
use super::super::utf8::{Symbol, decode_multibyte};
use super::short_input::is_short_len;
use super::{DfaCache, DfaCursor, LazyDfa};

/// The most ASCII characters in a row that [`LazyDfa::push_symbols`] leaves to [`LazyDfa::push_plain`]: the loop over
/// blocks steps a longer run faster.
const ASCII_RUN: usize = 8;

/// The attempt of the caller of [`LazyDfa::push`] to step the delta with
/// [`LazyDfa::push_short_with_suffixes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShortPath {
    /// The short path has declined the delta, or the caller prefers the other strategies.
    Declined,
    /// The delta may still be one for the short path.
    Untried,
}

/// The way a delta is stepped. An accelerator that declines leaves the search as it was. It never reports itself; it
/// may hand bytes to the scalar search, which reports.
#[derive(Clone, Copy, Debug)]
pub(super) enum Strategy<'a> {
    /// [`LazyDfa::push_short_with_suffixes`]: the whole delta at once, without a branch for each byte. Declines the delta
    /// if a state is special. Only with several automata: with one, the stream has already tried it.
    ShortInput,
    /// [`push_prefiltered`](LazyDfa::push_prefiltered): only the text around candidates. Never declines: it hands every
    /// byte that it does not skip to the scalar search.
    Prefilter(&'a Prefilter),
    /// [`push_speculative`](LazyDfa::push_speculative): several stretches of text side by side. Declines each tile in
    /// which a state is special, and hands it to the scalar search.
    Speculative,
    /// [`push_scalar`](LazyDfa::push_scalar): every byte in turn. Reads any input and reports.
    Scalar,
}

impl LazyDfa {
    /// Returns the strategy for a delta of `len` bytes. The first row that applies decides:
    ///
    /// | bytes | condition | strategy |
    /// |---|---|---|
    /// | 1 to 16 | the short path is untried | [`ShortInput`](Strategy::ShortInput) |
    /// | from 32 | the automaton has a prefilter that has recently paid | [`Prefilter`](Strategy::Prefilter) |
    /// | from 64 | | [`Speculative`](Strategy::Speculative); `push_speculative` chooses the tiles |
    /// | any | | [`Scalar`](Strategy::Scalar) |
    ///
    /// Tests force the lengths of the second and third row.
    #[inline]
    fn strategy(&self, len: usize, short_path: ShortPath) -> Strategy<'_> {
        if short_path == ShortPath::Untried && is_short_len(len) {
            return Strategy::ShortInput;
        }
        if let Some(filter) = self.prefilter_for(len)
            && (self.is_prefilter_forced() || filter.is_worth(len))
        {
            return Strategy::Prefilter(filter);
        }
        match self.tiles.iter().any(|tile| len >= tile.min_len) {
            true => Strategy::Speculative,
            false => Strategy::Scalar,
        }
    }

    /// Steps the bytes and calls `on` for each match that becomes certain.
    // A trait object: each type of closure would compile the whole search again, and matches are rare.
    #[inline]
    pub(crate) fn push(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        short_path: ShortPath,
        on: &mut dyn FnMut(MatchEvent),
    ) {
        // Not stepping is safe: invalid bytes are counted by the first automaton, which is never exhausted (invariant 4
        // of `partition`).
        if cursor.is_exhausted() {
            return;
        }
        let strategy = self.strategy(bytes.len(), short_path);
        if let Strategy::ShortInput = strategy
            && self.push_short_with_suffixes(cursor, bytes).is_some()
        {
            return;
        }
        // Added once per delta, not per byte: `build` uses only the sum over 1,024 builds.
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        let in_lanes = match strategy {
            Strategy::Prefilter(filter) => {
                return self.push_prefiltered(filter, cursor, bytes, on);
            }
            Strategy::Speculative => self.push_speculative(cursor, bytes, on),
            Strategy::Scalar | Strategy::ShortInput => {
                self.push_scalar(cursor, bytes, 0, on);
                0
            }
        };
        // The prefilter has declined this delta for its cost, which is compared with the cost recorded here.
        if let Some(filter) = self.prefilter_for(bytes.len()) {
            filter.record_unfiltered(bytes.len(), bytes.len() - in_lanes);
        }
    }

    /// Steps `bytes[at..]`.
    #[inline]
    #[allow(unsafe_code, reason = "an unchecked step")]
    pub(super) fn push_scalar(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut dyn FnMut(MatchEvent),
    ) {
        let Some(&last) = bytes[at..].last() else {
            return;
        };
        // A block starts from a state of the table at this very byte. Neither exists within a character (invariant 6)
        // or in the fallback.
        if cursor.decoder.is_pending() || cursor.in_fallback() {
            at = self.push_special(cursor, bytes, at, on);
        }
        while at < bytes.len() {
            let block = &bytes[at..bytes.len().min(at + BLOCK)];
            let table = &cursor.generation.table;
            // Invariant 3: the state may have a sparse row.
            let mut bits = cursor.state.entry_bits();
            // SAFETY: 1. the state of a cursor is one of its table (invariant of `DfaCursor`).
            let state =
                unsafe { table.step_bytes(cursor.state, &self.nfa.alphabet, block, &mut bits) };
            // Search and suffixes move together or not at all (invariant 2): a suffix with a special state declines the
            // block for all.
            if table.any_special(bits) || !self.push_suffixes(cursor, block) {
                at = self.push_special(cursor, bytes, at, on);
            } else {
                cursor.state = state;
                at = bytes.len().min(at + BLOCK);
            }
        }
        // Invariant 7, once for all blocks: the decoder needs to know only about the last character. If that is not
        // ASCII, `push_special` has stepped it and told the decoder.
        if last < 128 {
            cursor.decoder.advance_ascii();
        }
    }

    /// Steps the suffixes over the bytes of a block. Returns false if a state was special; then nothing has changed.
    #[inline(always)]
    #[allow(unsafe_code, reason = "unchecked steps")]
    fn push_suffixes(&self, cursor: &mut DfaCursor, block: &[u8]) -> bool {
        // PERF: once allocated it stays, most often empty. Testing that first takes 10 % from deltas of 64 bytes with ten rules
        // (`cargo bench --all-features --bench versus`): no columns are looked up for an empty list.
        let Some(extra) = cursor.extra.as_mut().filter(|extra| !extra.is_empty()) else {
            return true;
        };
        let columns = self.nfa.alphabet.block(block);
        let DfaCache { table, dead, .. } = &**cursor.generation;
        // SAFETY: 1. both are of this cursor.
        let is_plain = unsafe { extra.try_step_block(table, columns) };
        if is_plain {
            extra.accept_step(*dead);
        }
        is_plain
    }

    /// Steps from `at` through a block with a special state, through characters that are not ASCII or incomplete, and
    /// through the fallback. Returns the index at which the loop over blocks can continue.
    #[cold]
    #[inline(never)]
    pub(super) fn push_special(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut dyn FnMut(MatchEvent),
    ) -> usize {
        let block_end = (at + BLOCK).min(bytes.len());
        // Invariant 7: the block before may have ended in an ASCII character, of which the decoder does not know yet.
        if at > 0 && bytes[at - 1] < 128 {
            cursor.decoder.advance_ascii();
        }
        loop {
            at = self.push_symbols(cursor, bytes, at, block_end, |cursor, column, span| {
                self.step(cursor, column, span, on);
                true
            });
            // The loop ends: a round that consumes no byte has left the fallback, and the next one then consumes a byte
            // or returns.
            if at == bytes.len() || !cursor.in_fallback() {
                return at;
            }
            at = self.push_fallback(cursor, bytes, at, on);
        }
    }

    /// Steps symbol by symbol from `at`, at least to `end`, then on to an ASCII character. Stops before the first
    /// symbol that `step` declines, and when the cursor enters the fallback. Returns the index of the next byte. After
    /// a declined symbol the cursor is of no use: the caller restores it.
    #[inline(always)]
    pub(super) fn push_symbols(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        end: usize,
        mut step: impl FnMut(&mut DfaCursor, Column, SymbolSpan) -> bool,
    ) -> usize {
        while let Some(&byte) = bytes.get(at)
            && !cursor.in_fallback()
        {
            // Not before an ASCII byte between characters: elsewhere the loop over blocks would decline at once.
            if at >= end && byte < 128 && !cursor.decoder.is_pending() {
                break;
            }
            if cursor.is_single_state() {
                let mut ascii = 0;
                let plain = self.push_plain(cursor, &bytes[at..], |char| {
                    ascii = if char.len == 1 { ascii + 1 } else { 0 };
                    ascii == ASCII_RUN
                });
                at += plain;
                // A long run of ASCII may follow: test for it again.
                if plain > 0 {
                    continue;
                }
            }
            // `step_symbol` has no early return: it decodes once, and calls `step` for every symbol of the byte.
            let mut is_accepted = true;
            let next = self.step_symbol(cursor, bytes, at, |cursor, column, span| {
                // One byte can make several symbols certain. None is stepped after one that was declined.
                is_accepted = is_accepted && step(cursor, column, span);
            });
            if !is_accepted {
                break;
            }
            at = next;
        }
        at
    }

    /// Decodes the byte at `at`, alone or with the others of a whole character, and calls `step` for each symbol that
    /// it makes certain: none if a character is incomplete, several if one is broken. Returns the index of the next
    /// byte.
    #[inline(always)]
    pub(super) fn step_symbol(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        at: usize,
        mut step: impl FnMut(&mut DfaCursor, Column, SymbolSpan),
    ) -> usize {
        let alphabet = &self.nfa.alphabet;
        if !cursor.decoder.is_pending() {
            if bytes[at] < 128 {
                cursor.decoder.advance_ascii();
                let column = alphabet.bytes()[usize::from(bytes[at])];
                step(cursor, column.into(), SymbolSpan::whole(1).shifted(at, 0));
                return at + 1;
            }
            // A character that arrives whole need not pass through the decoder byte by byte. It is certain at its last
            // byte.
            if let Some((char, len)) = decode_multibyte(&bytes[at..]) {
                cursor.decoder.advance(len);
                alphabet.symbol(Symbol::Char(char), |column, span| {
                    step(cursor, column, span.shifted(at + len - 1, 0));
                });
                return at + len;
            }
        }
        let mut decoder = cursor.decoder;
        decoder.push(bytes[at], |symbol, back| {
            cursor.count(symbol);
            alphabet.symbol(symbol, |column, span| {
                step(cursor, column, span.shifted(at, back));
            });
        });
        cursor.decoder = decoder;
        at + 1
    }

    /// Steps whole characters up to the first that leads to a special state, is incomplete or is broken, or until
    /// `stop` returns true for a character that was stepped. Returns the number of bytes stepped, which it does not add
    /// to [`stepped`](DfaCursor::stepped). The cursor must be a single state.
    #[inline(always)]
    #[allow(unsafe_code, reason = "an unchecked step")]
    pub(super) fn push_plain(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut stop: impl FnMut(PlainChar<'_>) -> bool,
    ) -> usize {
        let cache = &**cursor.generation;
        let columns = self.nfa.alphabet.bytes();
        // In locals, written back once: a character that is declined has changed nothing (invariant 2). The first state
        // has a full row by the contract, and the loop ends before any other, so `next` may be used (invariant 3).
        let (mut at, mut state, mut last) = (0, cursor.state, 0);
        while let Some(&byte) = bytes.get(at) {
            let (column, len) = if byte < 128 {
                (Column::from(columns[usize::from(byte)]), 1)
            } else {
                let Some((char, len)) = decode_multibyte(&bytes[at..]) else {
                    break;
                };
                let Some(column) = self.nfa.alphabet.char(char) else {
                    break;
                };
                (column, len)
            };
            // SAFETY: 1. the first state is that of a cursor and its table (invariant of `DfaCursor`), every other one was
            //    returned by the step before.
            let next = unsafe { cache.table.next(state, column) };
            if cache.table.is_special(next) {
                break;
            }
            (state, last) = (next, len);
            at += len;
            let end = at;
            if stop(PlainChar {
                cache,
                state,
                len,
                end,
            }) {
                break;
            }
        }
        if at > 0 {
            cursor.state = state;
            cursor.decoder.advance(last);
        }
        at
    }

    /// Steps the cursor over a symbol, in the table or in the fallback, builds unbuilt states, and reports.
    #[inline]
    pub(super) fn step(
        &self,
        cursor: &mut DfaCursor,
        column: Column,
        span: SymbolSpan,
        on: &mut dyn FnMut(MatchEvent),
    ) {
        if cursor.extra.as_ref().is_none_or(|extra| extra.is_empty())
            && self.step_single_state(cursor, column, span, on)
        {
            return;
        }
        // The loop ends: after each failure one missing row or transition exists, or the cursor is in the fallback. Per
        // symbol: at most one transition and one promotion for the search, and for each cut at most those plus one start
        // state and one reentry.
        while !cursor.in_fallback() {
            match self.try_step(cursor, column) {
                Ok((next, reports)) => {
                    cursor.state = next;
                    self.accept_step(cursor, reports, span, on);
                    return;
                }
                Err(unbuilt) => self.build(cursor, unbuilt),
            }
        }
        // Only the symbol at which the cursor left the table. `push_fallback` steps those after it, under one lock for
        // a batch.
        let generation = Arc::clone(&cursor.generation);
        self.step_fallback(&mut generation.lock(), cursor, column, span, on);
    }

    /// Steps a search without suffixes if the next state is built and reports no cut. Returns false if it declined;
    /// then nothing has changed.
    #[inline]
    fn step_single_state(
        &self,
        cursor: &mut DfaCursor,
        column: Column,
        span: SymbolSpan,
        on: &mut dyn FnMut(MatchEvent),
    ) -> bool {
        let DfaCursor {
            generation, extra, ..
        } = cursor;
        let table = &generation.table;
        let next = table.step(cursor.state, column);
        if table.is_special(next) {
            if next == table.unknown() || table.is_promotion_due(next) {
                return false;
            }
            let report = table.report(next);
            // The lists are sorted, and cuts are greater than patterns, so the last entries tell.
            let last = [report.now.last(), report.late.last()]
                .into_iter()
                .flatten();
            if EncodedReport::has_cut(last.map(EncodedReport::load)) {
                return false;
            }
            // In the order of `StepReports::sort`: the lists are sorted, and late reports come first.
            for (list, is_late) in [(report.late, true), (report.now, false)] {
                for cell in list {
                    let pattern = EncodedReport::load(cell).pattern();
                    self.report(extra, pattern, is_late, span, on);
                }
            }
        }
        cursor.state = next;
        true
    }

    /// Reports a pattern that ends at the symbol, or before it if `is_late`.
    #[inline]
    pub(super) fn report(
        &self,
        extra: &mut Option<Box<CursorExtra>>,
        pattern: PatternId,
        is_late: bool,
        span: SymbolSpan,
        on: &mut dyn FnMut(MatchEvent),
    ) {
        if let Some(single_match) = &self.single_match
            && !single_match.is_first(extra.get_or_insert_default(), pattern)
        {
            return;
        }
        let width = if is_late { span.width } else { 0 };
        on(MatchEvent {
            pattern,
            at: span.at,
            back: span.back + width,
        });
    }
}

/// A character that [`LazyDfa::push_plain`] has stepped.
#[derive(Clone, Copy)]
pub(super) struct PlainChar<'a> {
    cache: &'a DfaCache,
    /// The state after the character.
    state: StateId,
    /// The bytes of the character.
    len: usize,
    /// The number of bytes stepped so far.
    pub(super) end: usize,
}

impl PlainChar<'_> {
    /// Returns true if there is no partial match after the character.
    #[inline(always)]
    pub(super) fn is_idle(self) -> bool {
        self.cache.is_start_state(self.state)
    }
}
