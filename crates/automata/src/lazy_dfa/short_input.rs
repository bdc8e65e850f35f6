//! The strategy for short input: a delta of at most [`MAX_SHORT_LEN`] bytes is stepped as a whole, without a branch for each
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
//! There are two fast paths. `PartReader::new` in `ttsr` chooses one when a part is opened, by the rules of its channel
//! (`ChannelRules::is_raw_only`):
//!
//! - *One matcher*, if first ends in the unchanged text decide every rule.
//! - *Several matchers*, if a rule needs full matches, a view (as regions of Markdown) or a detector. One such rule for
//!   a channel is enough, for all parts of that channel. A delta on this path does not reach this module: it is a step
//!   of a [`Product`](crate::product::Product). In `ttsr`, the test
//!   `deferred_text_is_released_and_matched_as_if_it_were_read_at_once` has rules of each kind.
//!
//! The input of tools has paths of its own. Each list is from the caller to the callee. The documentation of a function
//! says when it declines. A frame that declines passes that on, up to `Stream::push`, which then calls `push_slow`.
//!
//! ## One matcher
//!
//! The first three frames are in `ttsr`, the others in this crate.
//!
//! 1. `Stream::push`, for the part of the delta before
//! 2. `OpenPart::push_short`, for text that is searched for first ends alone
//! 3. `FirstEndReader::push_short`
//! 4. [`Cursor::push_short`](crate::Cursor::push_short), for a single automaton
//! 5. [`DfaCursor::push_short`]
//! 6. `Table::step_short`: from here on nothing declines; a byte that is not ASCII and an unbuilt transition give
//!    [`Table::unknown`](crate::table::Table::unknown), which is special
//! 7. `step_avx512` or `step_portable`
//! 8. `short_input::step_blocks`
//! 9. `Table::step_block_with`
//! 10. `Table::next`
//!
//! ## Several matchers
//!
//! The first five frames are in `ttsr`, the others in this crate. A delta may have any length for which there is room.
//!
//! 1. `Stream::push`, for the part of the delta before
//! 2. `OpenPart::push_short`, for text with a `MatchReader`
//! 3. `DeferredText::push`: declines if a detector may report in the delta
//! 4. `DeferredText::push_matchers`
//! 5. `DeferredText::push_with`: declines if the product is not entered or the text has no room; keeps a delta that the
//!    product has stepped
//! 6. [`Product::step`](crate::product::Product::step): declines where a transition is missing
//! 7. `Product::step_with`
//! 8. `Product::next`
//!
//! After these have declined, `Stream::push_slow` tries to keep the delta once more, and builds what is missing:
//!
//! 1. `Stream::push_slow`, `Stream::read`, `OpenPart::push`
//! 2. `MatchReader::defer`: repeats frame 4, because frame 3 may have declined for a detector alone; then lets the
//!    detectors read a delta that is kept
//! 3. `MatchReader::build_and_defer`
//! 4. `DeferredText::enter`, if the product is not entered; it calls [`Product::start`](crate::product::Product::start)
//! 5. `DeferredText::push_and_build`, which calls [`Product::build`](crate::product::Product::build)
//!
//! If these decline too, a matcher may report in the delta. `OpenPart::push` calls `MatchReader::push`, which calls
//! `read_deferred` for the kept text, and then the readers, which step their matchers one after the other.
//!
//! ## Other entry points
//!
//! The two other entry points of this module, for deltas that the frames of one matcher decline:
//!
//! - [`Matcher::push_short_with_suffixes`](crate::Matcher::push_short_with_suffixes), called by `Stream::push_slow`
//!   through `OpenPart::push` and `FirstEndReader::push_short_with_suffixes`. With a single automaton it is
//!   [`LazyDfa::push_short_with_suffixes`].
//! - [`Matcher::try_step_short`](crate::Matcher::try_step_short) and [`accept_short`](crate::Matcher::accept_short),
//!   for readers that step several automata over one delta. Both lead to `Table::step_short_visiting`, then to
//!   `CursorExtra::try_step_short` for the suffixes, and to `short_input::step_blocks`.

use super::super::table::{MAX_SHORT_LEN, StateId};
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
    /// made by [`Matcher::for_full_matches`](crate::Matcher::for_full_matches); 0 for all others.
    #[inline]
    pub fn idle_until(self) -> usize {
        self.idle_until
    }
}

/// Returns true if a delta has 1 to [`MAX_SHORT_LEN`] bytes.
#[inline(always)]
pub fn is_short(bytes: &[u8]) -> bool {
    is_short_len(bytes.len())
}

/// Returns true if a delta of `len` bytes is short.
#[inline(always)]
pub(super) fn is_short_len(len: usize) -> bool {
    len.wrapping_sub(1) < MAX_SHORT_LEN
}

impl DfaCursor {
    /// Steps a delta of 1 to [`MAX_SHORT_LEN`] bytes and copies the bytes to `padded_out`, padded with zeros. Declines if a suffix is
    /// live, the cursor is in the fallback, a character is incomplete, a state on the way is special, or `accepts`
    /// refuses the bytes. Returns false if it declined; then only `padded_out` has changed.
    #[inline(always)]
    #[allow(unsafe_code, reason = "unchecked steps")]
    pub(crate) fn push_short(
        &mut self,
        bytes: &[u8],
        padded_out: &mut [u8; MAX_SHORT_LEN],
        accepts: impl FnOnce(&[u8; MAX_SHORT_LEN]) -> bool,
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
        let (state, bits) = unsafe { table.step_short(self.state, bytes, padded_out) };
        // `accepts` comes last: when it has accepted, nothing here can decline any more.
        if table.any_special(bits) || !accepts(padded_out) {
            return false;
        }
        self.state = state;
        self.stepped = self.stepped.wrapping_add(bytes.len() as u32);
        self.decoder.advance_ascii();
        true
    }
}

impl LazyDfa {
    /// Steps a short delta of whole characters; suffixes may be activated. Declines if the delta is not short, or if a
    /// state reports or is unbuilt. Returns the bytes padded with zeros, or `None` if it declined; then only
    /// [`Suffix::next`](crate::suffix::Suffix::next) and the buffer for saved suffixes have changed.
    #[inline]
    pub(crate) fn push_short_with_suffixes(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
    ) -> Option<[u8; MAX_SHORT_LEN]> {
        if !is_short(bytes) {
            return None;
        }
        if bytes.is_ascii() {
            if let Some(step) = self.try_step_short(cursor, bytes) {
                self.accept_short(cursor, step, bytes.len());
                return Some(pad(bytes));
            }
        } else {
            let (state, decoder, stepped) = (cursor.state, cursor.decoder, cursor.stepped);
            if self.run(cursor, bytes).stepped == bytes.len() {
                return Some(pad(bytes));
            }
            // `run` has moved the cursor up to the character that it could not step.
            (cursor.state, cursor.decoder, cursor.stepped) = (state, decoder, stepped);
        }
        // To step again helps only if there are cuts: a special state may then do no more than activate a suffix, which
        // is not reported. Otherwise it reports, is unbuilt or has a sparse row.
        if self.nfa.cuts.is_empty() {
            return None;
        }
        self.push_short_symbols(cursor, bytes)
    }

    /// As [`LazyDfa::push_short_with_suffixes`], symbol by symbol, for deltas that activate suffixes, or that are not
    /// ASCII while suffixes are live. Declines if a character is incomplete before or after the delta, a byte belongs
    /// to no character, the cursor is in the fallback, or a state reports or is unbuilt. It moves the cursor, and
    /// restores it if it declines.
    // PERF: otherwise every delta that activates a suffix takes the slow path through the stream.
    #[inline(never)]
    fn push_short_symbols(
        &self,
        cursor: &mut DfaCursor,
        bytes: &[u8],
    ) -> Option<[u8; MAX_SHORT_LEN]> {
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

    /// Steps a delta of 1 to [`MAX_SHORT_LEN`] bytes without moving the cursor. Declines if a state on the way is special, of a
    /// suffix too, a byte is not ASCII, a character is incomplete, or the cursor is in the fallback. Returns `None` if
    /// it declined; then only [`Suffix::next`](crate::suffix::Suffix::next) has changed.
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
                table.step_short_visiting(cursor.state, bytes, |state| {
                    stepped += 1;
                    if cache.is_start_state(state) {
                        idle_until = stepped;
                    }
                })
            },
            false => unsafe { table.step_short_visiting(cursor.state, bytes, |_| ()) },
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
        cursor.decoder.advance_ascii();
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
pub(crate) fn pad(bytes: &[u8]) -> [u8; MAX_SHORT_LEN] {
    let mut padded = [0; MAX_SHORT_LEN];
    padded[..bytes.len()].copy_from_slice(bytes);
    padded
}
