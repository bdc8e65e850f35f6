//! The scalar search: the loop that steps a byte, and the slow path for special states, for characters that are not
//! ASCII and for incomplete ones.
//!
//! # Invariants
//!
//! 1. A block of [`BLOCK`] bytes is stepped into local variables. If any of its states is special, the cursor is left
//!    as it was and `push_special` steps the block again, symbol by symbol. So a report is never lost and never made
//!    twice.
//! 2. Only `step` and `fallback` report. A plain pattern is reported at its last byte; a pattern with an assertion at
//!    its end is reported at the next symbol, or by `finish`.
//! 3. When a loop here returns, the cursor has consumed exactly the bytes before the returned index.

use super::super::MatchEvent;
use super::super::table::BLOCK;
use super::super::utf8::{Symbol, wide};
use super::{DfaCache, DfaCursor, LazyDfa};

/// The most ASCII bytes between characters of several bytes that `step_chars` steps itself.
const ASCII_RUN: usize = 8;

/// The progress of [`Matcher::run`](crate::Matcher::run), in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdleRun {
    /// The number of leading bytes that were stepped.
    pub stepped: usize,
    /// The number of leading bytes after which the search was last idle; 0 if it never was.
    pub idle_until: usize,
}

impl LazyDfa {
    /// Steps `bytes[at..]`.
    #[inline]
    pub(super) fn push_scalar(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(MatchEvent),
    ) {
        let Some(&last) = bytes[at..].last() else {
            return;
        };
        if cursor.decoder.is_pending() || cursor.in_fallback() {
            at = self.push_special(cursor, bytes, at, on);
        }
        while at < bytes.len() {
            let columns = self.nfa.alphabet.block(&bytes[at..]);
            let table = &cursor.generation.table;
            let mut bits = cursor.state.entry_bits();
            let state = table.step_block(cursor.state, columns, &mut bits);
            if table.any_special(bits) || !self.push_suffixes(cursor, columns) {
                at = self.push_special(cursor, bytes, at, on);
            } else {
                cursor.state = state;
                at = bytes.len().min(at + BLOCK);
            }
        }
        if last < 128 {
            cursor.decoder.passed_ascii();
        }
    }

    /// Steps the suffixes over the bytes of a block. Returns false if a state was special; then nothing has changed.
    #[inline]
    fn push_suffixes(&self, cursor: &mut DfaCursor, columns: [u8; BLOCK]) -> bool {
        let Some(extra) = &mut cursor.extra else {
            return true;
        };
        let DfaCache { table, dead, .. } = &**cursor.generation;
        let is_plain = extra.try_step_block(table, columns);
        if is_plain {
            extra.accept_step(*dead);
        }
        is_plain
    }

    /// Steps symbol by symbol from `at`: through a block with a special state, through characters that are not ASCII or
    /// incomplete, or in the fallback. Returns the index at which the fast path can continue.
    #[cold]
    #[inline(never)]
    pub(super) fn push_special(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(MatchEvent),
    ) -> usize {
        let block_end = (at + BLOCK).min(bytes.len());
        if at > 0 && bytes[at - 1] < 128 {
            cursor.decoder.passed_ascii();
        }
        while let Some(&byte) = bytes.get(at) {
            if cursor.in_fallback() {
                at = self.push_fallback(cursor, bytes, at, on);
                continue;
            }
            if at >= block_end && byte < 128 && !cursor.decoder.is_pending() {
                break;
            }
            if cursor.is_single_state() {
                let plain = self.step_chars(cursor, &bytes[at..]);
                at += plain;
                // A long run of ASCII may follow: test for it again.
                if plain > 0 {
                    continue;
                }
            }
            if let Some((char, len)) = wide(&bytes[at..])
                && !cursor.decoder.is_pending()
            {
                at += len;
                cursor.decoder.passed(len);
                self.nfa
                    .alphabet
                    .symbol(Symbol::Char(char), |column, place| {
                        self.step(cursor, column, place.after(at - 1, 0), on);
                    });
                continue;
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

    /// Steps ASCII bytes up to the first special state, or only until the search is idle if `STOP_WHEN_IDLE`. The
    /// cursor must be a single state. Does not count the bytes as [`stepped`](DfaCursor::stepped).
    #[inline]
    pub(super) fn step_ascii<const STOP_WHEN_IDLE: bool>(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
    ) -> IdleRun {
        let mut run = IdleRun::default();
        let generation = &*cursor.generation;
        let table = &generation.table;
        let columns = self.nfa.alphabet.bytes();
        let mut state = cursor.state;
        for &byte in bytes {
            let next = table.next(state, usize::from(columns[usize::from(byte)]));
            if table.is_special(next) {
                break;
            }
            state = next;
            run.stepped += 1;
            if generation.is_start_state(state) {
                run.idle_until = run.stepped;
                if STOP_WHEN_IDLE {
                    break;
                }
            }
        }
        if run.stepped > 0 {
            cursor.state = state;
            cursor.decoder.passed_ascii();
        }
        run
    }

    /// Steps whole characters while no state is special, and stops at a run of ASCII, which the block loop steps
    /// faster. Returns the number of bytes stepped. The cursor must be a single state.
    #[inline]
    pub(super) fn step_chars(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> usize {
        let table = &cursor.generation.table;
        let columns = self.nfa.alphabet.bytes();
        let (mut at, mut ascii) = (0, 0);
        let (mut state, mut last) = (cursor.state, 0);
        while let Some(&byte) = bytes.get(at) {
            let (column, len) = if byte < 128 {
                ascii += 1;
                if ascii > ASCII_RUN {
                    break;
                }
                (usize::from(columns[usize::from(byte)]), 1)
            } else {
                ascii = 0;
                let Some((char, len)) = wide(&bytes[at..]) else {
                    break;
                };
                let Some(column) = self.nfa.alphabet.char(char) else {
                    break;
                };
                (column, len)
            };
            let next = table.next(state, column);
            if table.is_special(next) {
                break;
            }
            (state, last) = (next, len);
            at += len;
        }
        if at > 0 {
            cursor.state = state;
            cursor.decoder.passed(last);
        }
        at
    }
}
