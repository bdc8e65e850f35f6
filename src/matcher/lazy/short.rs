//! Deltas of a few bytes, as models send them, that bring nothing special: steps without a branch for each.

use super::super::table::{SHORT, Short};
use super::{Before, Cursor, Lazy};

/// Whether there is a fast path for so few bytes: from 1 to [`SHORT`].
#[inline(always)]
pub(crate) fn is_short(bytes: &[u8]) -> bool {
    bytes.len().wrapping_sub(1) < SHORT
}

/// How far [`Lazy::run`] came, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    pub(crate) stepped: usize,
    /// Up to where no match that has begun can still end behind it; 0 where there is no such place.
    pub(crate) quiet: usize,
}

impl Lazy {
    /// Steps 1 to [`SHORT`] bytes if nothing about them is special but that tails are woken, and gives them
    /// padded with zeros. Otherwise nothing has happened.
    pub(crate) fn push_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if !is_short(bytes) {
            return None;
        }
        if !bytes.is_ascii() {
            return self.wide_short(cursor, bytes);
        }
        let Some(short) = self.look_short(cursor, bytes) else {
            return self.wake_short(cursor, bytes);
        };
        self.take_short(cursor, &short);
        Some(short.padded)
    }

    /// The same for whole characters that are not all ASCII.
    fn wide_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
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
    fn wake_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        let is_plain = !cursor.decoder.is_pending() && !cursor.is_over() && bytes.is_ascii();
        if self.nfa.cuts.is_empty() || !is_plain {
            return None;
        }
        let state = cursor.state;
        let aside = cursor.aside.get_or_insert_default();
        aside.saved.clone_from(&aside.tails);
        for &byte in bytes {
            let column = self.nfa.alphabet.bytes()[usize::from(byte)];
            match self.walk(cursor, column.into()) {
                Ok((next, hits)) if hits.is_empty() => cursor.state = next,
                _ => {
                    let aside = cursor.aside.get_or_insert_default();
                    std::mem::swap(&mut aside.tails, &mut aside.saved);
                    cursor.state = state;
                    return None;
                }
            }
            let dead = cursor.generation.dead;
            cursor.aside.get_or_insert_default().commit(dead);
        }
        cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
        cursor.decoder.passed_ascii();
        let mut padded = [0; SHORT];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(padded)
    }

    /// What [`Lazy::push_short`] would do; nothing has happened yet.
    #[inline(always)]
    pub(crate) fn look_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<Short> {
        if cursor.decoder.is_pending() || cursor.is_over() {
            return None;
        }
        let table = &cursor.generation.table;
        let short = table.short(cursor.state, bytes);
        let is_plain = !table.any_special(short.bits)
            && match &mut cursor.aside {
                Some(aside) => aside.look_short(table, &short),
                None => true,
            };
        is_plain.then_some(short)
    }

    /// Goes on from where [`Lazy::look_short`] came to.
    #[inline(always)]
    pub(crate) fn take_short(&self, cursor: &mut Cursor, short: &Short) {
        cursor.state = short.state;
        cursor.stepped = cursor.stepped.wrapping_add(short.len());
        if let Some(aside) = &mut cursor.aside {
            aside.commit(cursor.generation.dead);
        }
        cursor.decoder.passed_ascii();
    }

    /// As [`Lazy::push_short`], and says besides up to which of the bytes no match is in progress: see
    /// [`Lazy::is_quiet`].
    #[inline]
    pub(crate) fn push_marked(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
    ) -> Option<([u8; SHORT], usize)> {
        let from = cursor.state;
        let short = self.look_short(cursor, bytes)?;
        self.take_short(cursor, &short);
        let generation = &*cursor.generation;
        let quiet = match generation.is_base(short.state) {
            true => bytes.len(),
            false => {
                let last_base = generation.bases[Before::ALL.len() - 1];
                generation.table.last_up_to(&short, from, last_base)
            }
        };
        Some((short.padded, quiet))
    }

    /// Steps ASCII bytes up to the first that brings something special, and says where no match is in
    /// progress: see [`Lazy::is_quiet`].
    #[inline]
    pub(crate) fn run(&self, cursor: &mut Cursor, bytes: &[u8]) -> Run {
        let mut run = Run::default();
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
                run.quiet = run.stepped;
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
