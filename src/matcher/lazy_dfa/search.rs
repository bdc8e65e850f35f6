//! One byte after the other, and what comes between the fast paths: special states, characters that are not
//! ASCII, incomplete ones.

use super::super::MatchEvent;
use super::super::utf8::{Symbol, wide};
use super::{DfaCache, DfaCursor, LazyDfa};

/// Bytes of a block of steps between two tests.
const BLOCK: usize = 4;

/// Bytes of ASCII between wide characters that are stepped with these.
const ASCII_RUN: usize = 8;

impl LazyDfa {
    /// Steps `bytes` from `at` one after the other.
    #[inline]
    pub(super) fn push_plain(
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
            at = self.push_slow(cursor, bytes, at, on);
        }
        let columns = self.nfa.alphabet.bytes();
        while let Some(block) = bytes.get(at..at + BLOCK) {
            let table = &cursor.generation.table;
            let mut state = cursor.state;
            let mut bits = state.entry_bits();
            for &byte in block {
                state = table.next(state, usize::from(columns[usize::from(byte)]));
                bits |= state.bits();
            }
            if table.any_special(bits) || !self.push_suffixes(cursor, block) {
                at = self.push_slow(cursor, bytes, at, on);
            } else {
                cursor.state = state;
                at += BLOCK;
            }
        }
        while let Some(&byte) = bytes.get(at) {
            let table = &cursor.generation.table;
            let state = table.next(cursor.state, usize::from(columns[usize::from(byte)]));
            let bits = cursor.state.entry_bits() | state.bits();
            if table.any_special(bits) || !self.push_suffixes(cursor, &[byte]) {
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

    /// Steps the tails; if that is not plain nothing has happened.
    #[inline]
    fn push_suffixes(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> bool {
        let Some(extra) = &mut cursor.extra else {
            return true;
        };
        let DfaCache { table, dead, .. } = &**cursor.generation;
        let is_plain = extra.push_plain(table, self.nfa.alphabet.bytes(), bytes);
        if is_plain {
            extra.accept_step(*dead);
        }
        is_plain
    }

    /// Steps byte by byte from `at`: through a block that holds something special, incomplete or wide
    /// characters, or past the budget. Gives where the fast path can go on.
    #[cold]
    #[inline(never)]
    pub(super) fn push_slow(
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
            if cursor.is_alone() {
                let plain = self.run_chars(cursor, &bytes[at..]);
                at += plain;
                // After a plain stretch it may be ASCII that follows, and a long one.
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

    /// Steps whole characters as long as nothing about them is special, and stops at a run of ASCII, which is
    /// stepped faster elsewhere. Gives the number of bytes. The cursor must be alone.
    #[inline]
    pub(super) fn run_chars(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> usize {
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
