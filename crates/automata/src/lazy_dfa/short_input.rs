//! The strategy for short input: a delta of at most [`SHORT`] bytes is stepped as a whole, without a branch for each
//! byte.
//!
//! | entry point | used for |
//! |---|---|
//! | [`DfaCursor::push_short`] | one automaton, ASCII, no suffixes: needs the cursor alone, tried first |
//! | [`LazyDfa::push_short_with_suffixes`] | one automaton of any kind |
//! | [`LazyDfa::try_step_short`], then [`LazyDfa::accept_short`] | several automata over the same delta: all of them step it, or none does |
//!
//! Contract: an entry point accepts a whole delta or declines it. If it declines, the state of the search is unchanged.
//! None of them reports or builds a state.
//!
//! # From the stream to the table
//!
//! The frames of the fast path, from the caller to the callee. Paths without a crate are below `src/` of this one. A frame
//! that declines passes that on to the frames above it, up to `Stream::push`, which then calls `push_slow`.
//!
//! | function | file | declines when | changed when it declines |
//! |---|---|---|---|
//! | `Stream::push` | `stream.rs` of `ttsr` | the part is not that of the delta before, or the stream was cut | nothing |
//! | `OpenPart::push_fast` | `stream/part.rs` of `ttsr` | the delta is not short, or the part is not text that is searched for first ends alone | nothing |
//! | `FirstEndReader::push_fast` | `stream/part/haystack/first_end.rs` of `ttsr` | a pattern looks around | the room of the window, which is not yet part of it |
//! | `Cursor::push_short` | `lib.rs` | there are several automata | nothing |
//! | [`DfaCursor::push_short`] | this one | a suffix is live, the cursor is in the fallback, a character is incomplete, a state was special, or the caller refuses the bytes | `room` |
//! | `Table::step_short` | `table/short_input.rs` | never: a byte that is not ASCII gives [`Table::unknown`](crate::table::Table::unknown), which is special | `room`, and nothing of the table |
//! | `push_avx512`, `push_portable` | `table/short_input.rs` | never | as above |
//! | `short_input::steps` | `table/short_input.rs` | never | nothing |
//! | `Table::step_block_with` | `table.rs` | never | nothing |
//! | `Table::next` | `table.rs` | never: an unbuilt transition gives `UNKNOWN` | nothing |
//!
//! The frames after that, for deltas that the fast path declines:
//!
//! | function | file | declines when | changed when it declines |
//! |---|---|---|---|
//! | `Stream::push_slow`, `Stream::read`, `OpenPart::push` | `stream.rs`, `stream/part.rs` of `ttsr` | never: if the delta is not short, the part has limits, or the next frame declines, `OpenPart::push` goes on to `push_verbatim` | |
//! | `FirstEndReader::push_short_slow` | `stream/part/haystack/first_end.rs` of `ttsr` | a pattern looks around | nothing |
//! | `Matcher::push_short_with_suffixes` | `lib.rs` | never by itself: it calls `push_short_all` if there are several automata | |
//! | `Matcher::push_short_all` | `lib.rs` | the delta is not short ASCII, there are too many automata, or one of them declines | [`Suffix::next`](crate::suffix::Suffix::next) |
//! | [`LazyDfa::push_short_with_suffixes`] | this one | the delta is not short, or all of the next three decline | `Suffix::next` |
//! | [`LazyDfa::try_step_short`] | this one | a character is incomplete, the cursor is in the fallback, a state was special, or a byte is not ASCII | `Suffix::next` |
//! | `LazyDfa::push_short_plain` | this one | the cursor is not a single state, or `push_plain` stops before the end | nothing: it is restored |
//! | `LazyDfa::push_short_symbols` | this one | as `try_step_short`, but for special states only if they report or are unbuilt, and for bytes only if they are of no character or end within one | nothing: it is restored |
//! | `Table::classify_and_step`, then `CursorExtra::try_step_short` with `Table::step_short_from` for each suffix | `table/short_input.rs`, `suffix.rs` | a state of a suffix was special | `Suffix::next` |
//! | `short_input::steps` and below | | as above | |

use super::super::table::{SHORT, StateId};
use super::{DfaCursor, LazyDfa};

/// The progress of [`Matcher::run`](crate::Matcher::run), in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdleRun {
    /// The number of leading bytes that were stepped.
    pub stepped: usize,
    /// The number of leading bytes after which the search was last idle; 0 if it never was.
    pub idle_until: usize,
}

/// A short delta that an automaton has stepped without moving its cursor.
#[derive(Clone, Copy, Debug)]
pub struct ShortStep {
    /// The state after the delta.
    state: StateId,
    idle_until: usize,
}

impl ShortStep {
    /// Returns the number of leading bytes after which the search was last idle, 0 if it never was. Only for matchers
    /// made by [`Matcher::for_spans`](crate::Matcher::for_spans); 0 for all others.
    #[inline]
    pub fn idle_until(self) -> usize {
        self.idle_until
    }
}

/// Returns true if a delta has 1 to [`SHORT`] bytes.
#[inline(always)]
pub fn is_short(bytes: &[u8]) -> bool {
    is_short_len(bytes.len())
}

/// Returns true if a delta of `len` bytes is short.
#[inline(always)]
pub(super) fn is_short_len(len: usize) -> bool {
    len.wrapping_sub(1) < SHORT
}

impl DfaCursor {
    /// Steps a delta of 1 to [`SHORT`] bytes if no state on the way is special and `agrees` accepts it. Copies the
    /// bytes to `room`, padded with zeros. Returns false if it declined; then only `room` has changed.
    #[inline(always)]
    #[allow(unsafe_code, reason = "unchecked steps")]
    pub(crate) fn push_short(
        &mut self,
        bytes: &[u8],
        room: &mut [u8; SHORT],
        agrees: impl FnOnce(&[u8; SHORT]) -> bool,
    ) -> bool {
        // A suffix would have to be stepped too, the fallback has no state, and the delta would break an incomplete
        // character.
        let is_single_state = match &self.extra {
            None => true,
            Some(extra) => extra.is_empty(),
        };
        if !is_single_state || self.decoder.is_pending() {
            return false;
        }
        let table = &self.generation.table;
        // SAFETY: 1. the state of a cursor is one of its table (invariant of `DfaCursor`).
        let (state, bits) = unsafe { table.step_short(self.state, bytes, room) };
        // `agrees` comes last: when it has accepted, nothing here can decline any more.
        if table.any_special(bits) || !agrees(room) {
            return false;
        }
        self.state = state;
        self.stepped = self.stepped.wrapping_add(bytes.len() as u32);
        self.decoder.passed_ascii();
        true
    }
}

impl LazyDfa {
    /// Steps a short delta unless a state reports or is unbuilt; suffixes may be activated. Returns the bytes padded
    /// with zeros, or `None` if it declined.
    #[inline]
    pub(crate) fn push_short_with_suffixes(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
    ) -> Option<[u8; SHORT]> {
        if !is_short(bytes) {
            return None;
        }
        if bytes.is_ascii() {
            if let Some(step) = self.try_step_short(cursor, bytes) {
                self.accept_short(cursor, step, bytes.len());
                return Some(pad(bytes));
            }
        } else if self.push_short_plain(cursor, bytes).is_some() {
            return Some(pad(bytes));
        }
        // The bytes are stepped a second time only where it may help: with cuts, a special state may do no more than
        // activate a suffix, which is not reported.
        // Without cuts, a special state reports, is unbuilt or has a sparse row.
        if self.nfa.cuts.is_empty() {
            return None;
        }
        self.push_short_symbols(cursor, bytes)
    }

    /// Does what [`LazyDfa::push_short_with_suffixes`] does, symbol by symbol, for deltas of whole characters that activate
    /// suffixes, or that are not ASCII while suffixes are live.
    // PERF: otherwise every delta that activates a suffix takes the slow path through the stream.
    #[inline(never)]
    fn push_short_symbols(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if cursor.decoder.is_pending() || cursor.in_fallback() {
            return None;
        }
        let (state, decoder, invalid_bytes) = (cursor.state, cursor.decoder, cursor.invalid_bytes);
        // Into a buffer of the cursor, so nothing is allocated. If the first step below allocates `extra`, `saved` is
        // empty, as the suffixes were.
        if let Some(extra) = &mut cursor.extra {
            extra.saved.clone_from(&extra.suffixes);
        }
        let step = |cursor: &mut DfaCursor, column, _| self.step_unreported(cursor, column);
        let stepped = self.push_symbols(cursor, bytes, 0, bytes.len(), step);
        // A delta that ends within a character, or has bytes of none, is declined although it could be stepped: the
        // caller treats an accepted delta as whole characters.
        let is_whole = !cursor.decoder.is_pending() && cursor.invalid_bytes == invalid_bytes;
        if stepped == bytes.len() && is_whole {
            cursor.stepped = cursor.stepped.wrapping_add(bytes.len() as u32);
            return Some(pad(bytes));
        }
        // Everything that `step_unreported` and the decoder can have changed. No state was built, so the table is the
        // same.
        (cursor.state, cursor.decoder, cursor.invalid_bytes) = (state, decoder, invalid_bytes);
        if let Some(extra) = &mut cursor.extra {
            std::mem::swap(&mut extra.suffixes, &mut extra.saved);
        }
        None
    }

    /// Steps a delta of 1 to [`SHORT`] bytes without moving the cursor. Returns `None` if a state on the way is special, a
    /// byte is not ASCII, or the cursor is no state of the table.
    #[inline]
    #[allow(unsafe_code, reason = "unchecked steps")]
    pub(crate) fn try_step_short(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> Option<ShortStep> {
        if cursor.decoder.is_pending() || cursor.in_fallback() {
            return None;
        }
        // All states are stepped before any of them moves: `accept_short` cannot fail.
        let cache = &**cursor.generation;
        let table = &cache.table;
        let (mut stepped, mut idle_until) = (0, 0);
        // Two loops: to track idle states costs an instruction or two for each byte.
        // SAFETY: 1. the state of a cursor is one of its table (invariant of `DfaCursor`).
        let short = match self.tracks_idle {
            true => unsafe {
                table.classify_and_step(cursor.state, bytes, |state| {
                    stepped += 1;
                    if cache.is_start_state(state) {
                        idle_until = stepped;
                    }
                })
            },
            false => unsafe { table.classify_and_step(cursor.state, bytes, |_| ()) },
        };
        let is_plain = !table.any_special(short.bits)
            && match &mut cursor.extra {
                // SAFETY: 1. both are of this cursor.
                Some(extra) => unsafe { extra.try_step_short(table, &short) },
                None => true,
            };
        is_plain.then_some(ShortStep {
            state: short.state,
            // The padding repeats the last state.
            idle_until: idle_until.min(bytes.len()),
        })
    }

    /// Moves the cursor over a delta of `len` bytes that [`LazyDfa::try_step_short`] has stepped.
    ///
    /// # Panics
    /// If the table of the cursor does not contain the state of the step.
    #[inline]
    pub(crate) fn accept_short(&self, cursor: &mut DfaCursor, step: ShortStep, len: usize) {
        let state = step.state;
        // A `ShortStep` of another cursor would give wrong matches, but must not lead to a read outside the table.
        assert!(
            cursor.generation.table.contains(state),
            "the step is of another cursor"
        );
        // Nothing was stepped since `try_step_short`: `next` of every suffix is still the state after this delta.
        cursor.state = state;
        cursor.stepped = cursor.stepped.wrapping_add(len as u32);
        if let Some(extra) = &mut cursor.extra {
            extra.accept_step(cursor.generation.dead);
        }
        cursor.decoder.passed_ascii();
    }

    /// Steps a delta of whole characters if the cursor is a single state and no state on the way is special. Returns
    /// the number of leading bytes after which the search was last idle, or `None` if it declined.
    #[inline]
    fn push_short_plain(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> Option<usize> {
        let (state, decoder, stepped) = (cursor.state, cursor.decoder, cursor.stepped);
        let run = self.run(cursor, bytes);
        if run.stepped < bytes.len() {
            // `run` has moved the cursor up to the character that it could not step.
            (cursor.state, cursor.decoder, cursor.stepped) = (state, decoder, stepped);
            return None;
        }
        Some(run.idle_until)
    }

    /// Steps whole characters up to the first special state, and records where the search was last
    /// [idle](LazyDfa::is_idle).
    #[inline]
    pub(crate) fn run(&self, cursor: &mut DfaCursor, bytes: &[u8]) -> IdleRun {
        if !cursor.is_single_state() {
            return IdleRun::default();
        }
        let mut idle_until = 0;
        let stepped = self.push_plain(cursor, bytes, |char| {
            if char.is_idle() {
                idle_until = char.end;
            }
            false
        });
        cursor.stepped = cursor.stepped.wrapping_add(stepped as u32);
        IdleRun {
            stepped,
            idle_until,
        }
    }
}

/// Returns a short delta padded with zeros.
pub(crate) fn pad(bytes: &[u8]) -> [u8; SHORT] {
    let mut padded = [0; SHORT];
    padded[..bytes.len()].copy_from_slice(bytes);
    padded
}
