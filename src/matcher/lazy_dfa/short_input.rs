//! Deltas of a few bytes, as models send them, that bring nothing special: steps without a branch for each.

use super::super::table::{SHORT, ShortInput};
use super::{DfaCursor, LazyDfa, LookBehind};

/// Whether there is a fast path for so few bytes: from 1 to [`SHORT`].
#[inline(always)]
pub(crate) fn is_short(bytes: &[u8]) -> bool {
    bytes.len().wrapping_sub(1) < SHORT
}

/// How far [`LazyDfa::run`] came, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdleRun {
    pub(crate) stepped: usize,
    /// Up to where no match that has begun can still end behind it; 0 where there is no such place.
    pub(crate) idle_until: usize,
}

impl LazyDfa {
    /// Steps 1 to [`SHORT`] bytes if nothing about them is special but that tails are woken, and gives them
    /// padded with zeros. Otherwise nothing has happened.
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

    /// The same for whole characters that are not all ASCII.
    fn push_short_non_ascii(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if !cursor.is_alone() {
            return None;
        }
        let (state, decoder) = (cursor.state, cursor.decoder);
        let mut at = 0;
        while at < bytes.len() {
            let plain = self.run_chars(cursor, &bytes[at..]);
            if plain == 0 {
                (cursor.state, cursor.decoder) = (state, decoder);
                return None;
            }
            at += plain;
        }
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        let mut padded = [0; SHORT];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(padded)
    }

    /// The same, byte by byte, where tails are woken but nothing is reported.
    // Without this every woken tail takes the delta the long way through the stream.
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
        let mut padded = [0; SHORT];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(padded)
    }

    /// What [`LazyDfa::push_short`] would do; nothing has happened yet.
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

    /// Goes on from where [`LazyDfa::try_step_short`] came to.
    #[inline(always)]
    pub(crate) fn accept_short(&self, cursor: &mut DfaCursor, short: &ShortInput) {
        cursor.state = short.state;
        cursor.stepped = cursor.stepped.wrapping_add(short.len());
        if let Some(extra) = &mut cursor.extra {
            extra.accept_step(cursor.generation.dead);
        }
        cursor.decoder.passed_ascii();
    }

    /// As [`LazyDfa::push_short`], and says besides up to which of the bytes no match is in progress: see
    /// [`LazyDfa::is_idle`].
    #[inline]
    pub(crate) fn push_marked(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
    ) -> Option<([u8; SHORT], usize)> {
        let from = cursor.state;
        let short = self.try_step_short(cursor, bytes)?;
        self.accept_short(cursor, &short);
        let generation = &*cursor.generation;
        let idle_until = match generation.is_base(short.state) {
            true => bytes.len(),
            false => {
                let last_base = generation.start_states[LookBehind::ALL.len() - 1];
                generation.table.last_up_to(&short, from, last_base)
            }
        };
        Some((short.padded, idle_until))
    }

    /// Steps ASCII bytes up to the first that brings something special, and says where no match is in
    /// progress: see [`LazyDfa::is_idle`].
    #[inline]
    pub(crate) fn run(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> IdleRun {
        let mut run = IdleRun::default();
        if !cursor.is_alone() {
            return run;
        }
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
            if generation.is_base(state) {
                run.idle_until = run.stepped;
            }
        }
        if run.stepped > 0 {
            cursor.state = state;
            cursor.stepped = cursor.stepped.wrapping_add(run.stepped as u32);
            cursor.decoder.passed_ascii();
        }
        run
    }
}
