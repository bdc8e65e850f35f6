//! The strategy for short input: deltas of at most [`SHORT`] bytes in which no state is special are stepped
//! without a branch for each byte.
//!
//! Contract: each function here accepts a whole delta or declines it. If it declines, the cursor is unchanged. None
//! of them reports.

use super::super::table::{SHORT, ShortInput};
use super::search::IdleRun;
use super::{DfaCursor, LazyDfa};

/// Returns true if a delta has 1 to [`SHORT`] bytes.
#[inline(always)]
pub fn is_short(bytes: &[u8]) -> bool {
    bytes.len().wrapping_sub(1) < SHORT
}

impl LazyDfa {
    /// Steps a short delta unless a state reports or is unbuilt; suffixes may be activated. Returns the bytes padded with
    /// zeros, or `None` if it declined.
    #[inline]
    pub(crate) fn push_short(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if !is_short(bytes) {
            return None;
        }
        if !bytes.is_ascii() {
            return self.push_short_non_ascii(cursor, bytes);
        }
        let Some(short) = self.try_step_short(cursor, bytes) else {
            return self.push_short_stepwise(cursor, bytes);
        };
        self.accept_short(cursor, &short);
        Some(short.padded)
    }

    /// [`push_short`](LazyDfa::push_short) for whole characters that are not all ASCII.
    #[inline]
    fn push_short_non_ascii(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if !cursor.is_single_state() {
            return None;
        }
        let (state, decoder) = (cursor.state, cursor.decoder);
        let mut at = 0;
        while at < bytes.len() {
            let plain = self.step_chars(cursor, &bytes[at..]);
            if plain == 0 {
                (cursor.state, cursor.decoder) = (state, decoder);
                return None;
            }
            at += plain;
        }
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        Some(pad(bytes))
    }

    /// [`push_short`](LazyDfa::push_short), symbol by symbol, for deltas that activate suffixes but report nothing.
    // Otherwise every delta that activates a suffix takes the slow path through the stream.
    #[inline(never)]
    fn push_short_stepwise(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        let is_plain = !cursor.decoder.is_pending() && !cursor.in_fallback() && bytes.is_ascii();
        if self.nfa.cuts.is_empty() || !is_plain {
            return None;
        }
        let state = cursor.state;
        let extra = cursor.extra.get_or_insert_default();
        extra.saved.clone_from(&extra.suffixes);
        for &byte in bytes {
            let column = self.nfa.alphabet.bytes()[usize::from(byte)];
            match self.try_step(cursor, column.into()) {
                Ok((next, hits)) if hits.is_empty() => cursor.state = next,
                _ => {
                    let extra = cursor.extra.get_or_insert_default();
                    std::mem::swap(&mut extra.suffixes, &mut extra.saved);
                    cursor.state = state;
                    return None;
                }
            }
            let dead = cursor.generation.dead;
            cursor.extra.get_or_insert_default().accept_step(dead);
        }
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        cursor.decoder.passed_ascii();
        Some(pad(bytes))
    }

    /// Steps a short delta without changing the cursor.
    #[inline(always)]
    pub(crate) fn try_step_short(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
    ) -> Option<ShortInput> {
        if cursor.decoder.is_pending() || cursor.in_fallback() {
            return None;
        }
        let table = &cursor.generation.table;
        let short = table.short(cursor.state, bytes);
        let is_plain = !table.any_special(short.bits)
            && match &mut cursor.extra {
                Some(extra) => extra.try_step_short(table, &short),
                None => true,
            };
        is_plain.then_some(short)
    }

    /// Moves the cursor to where [`LazyDfa::try_step_short`] stepped.
    #[inline(always)]
    pub(crate) fn accept_short(&self, cursor: &mut DfaCursor, short: &ShortInput) {
        cursor.state = short.state;
        cursor.stepped = cursor.stepped.wrapping_add(short.len());
        if let Some(extra) = &mut cursor.extra {
            extra.accept_step(cursor.generation.dead);
        }
        cursor.decoder.passed_ascii();
    }

    /// As [`LazyDfa::push_short`]; also returns the number of leading bytes after which the search was last
    /// [idle](LazyDfa::is_idle).
    #[inline]
    pub(crate) fn push_short_tracking_idle(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
    ) -> Option<([u8; SHORT], usize)> {
        if !is_short(bytes) || !cursor.is_single_state() {
            return None;
        }
        let (state, decoder) = (cursor.state, cursor.decoder);
        let run = self.step_ascii::<false>(cursor, bytes);
        if run.stepped < bytes.len() {
            (cursor.state, cursor.decoder) = (state, decoder);
            return None;
        }
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        Some((pad(bytes), run.idle_until))
    }

    /// Steps ASCII bytes up to the first special state, and records where the search was last
    /// [idle](LazyDfa::is_idle).
    #[inline]
    pub(crate) fn run(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> IdleRun {
        if !cursor.is_single_state() {
            return IdleRun::default();
        }
        let run = self.step_ascii::<false>(cursor, bytes);
        cursor.stepped = cursor.stepped.wrapping_add(run.stepped as u32);
        run
    }
}

/// Returns a short delta padded with zeros.
fn pad(bytes: &[u8]) -> [u8; SHORT] {
    let mut padded = [0; SHORT];
    padded[..bytes.len()].copy_from_slice(bytes);
    padded
}
