//! Reads a haystack for the first end of each pattern.

use std::mem::offset_of;

#[cfg(feature = "lookaround")]
use super::confirm::{CandidateQueue, ConfirmingSearch};
use super::context::MatchContext;
use super::exceptions::Exceptions;
use super::{Admission, HaystackScope};
use crate::program::ViewRules;
use crate::stream::Counters;
use crate::stream::window::Window;
use ttsr_automata::{Cursor, MAX_SHORT_LEN, MatchEvent, Matcher};
use ttsr_views::chunk::{Chunk, DecidedOffset, OffsetMap};

/// The state of the search for first ends.
// In the order of the source: what a delta does not touch comes last. The state of 4,096 streams is larger than an L2
// cache, so a delta pays for each cache line.
#[derive(Debug)]
#[repr(C)]
pub(in crate::stream::part) struct FirstEndReader {
    pub(super) cursor: Cursor,
    /// True if every byte must be kept for patterns that look around: if there are `candidates`, which a delta does not
    /// touch.
    pub(super) is_confirming: bool,
    pub(super) window: Window,
    /// `None` if no pattern of the view has an exception.
    pub(super) exceptions: Option<Box<Exceptions>>,
    /// The candidates for confirmation; `None` if no pattern of the view looks around.
    #[cfg(feature = "lookaround")]
    candidates: Option<Box<CandidateQueue>>,
}

/// The end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopKind {
    /// The text continues, but the next bytes do not continue an incomplete character.
    Flush,
    /// The haystack ends.
    Finish,
}

impl FirstEndReader {
    /// The number of bytes from the start that a short delta touches: all before the window, and the first two words of
    /// the window.
    pub(in crate::stream::part) const TOUCHED_BYTES: usize =
        offset_of!(FirstEndReader, window) + 2 * size_of::<usize>();

    pub(in crate::stream::part) fn new(view: &ViewRules) -> FirstEndReader {
        #[cfg(feature = "lookaround")]
        let candidates = CandidateQueue::new(&view.confirms);
        FirstEndReader {
            cursor: view.matcher.start(),
            #[cfg(feature = "lookaround")]
            is_confirming: candidates.is_some(),
            #[cfg(not(feature = "lookaround"))]
            is_confirming: false,
            window: Window::default(),
            exceptions: Exceptions::new(view),
            #[cfg(feature = "lookaround")]
            candidates,
        }
    }

    /// Starts another text.
    pub(super) fn restart(&mut self, matcher: &Matcher) {
        self.restart_haystack(matcher);
        self.exceptions.iter_mut().for_each(|it| it.clear());
    }

    /// Starts the next haystack of the same text.
    pub(super) fn continue_text(&mut self, matcher: &Matcher) {
        self.restart_haystack(matcher);
        self.exceptions.iter_mut().for_each(|it| it.continue_text());
    }

    fn restart_haystack(&mut self, matcher: &Matcher) {
        matcher.restart(&mut self.cursor);
        self.window.clear();
        #[cfg(feature = "lookaround")]
        self.candidates.iter_mut().for_each(|it| it.clear());
    }

    /// The fast path: steps a delta of 1 to [`MAX_SHORT_LEN`](ttsr_automata::MAX_SHORT_LEN) bytes in which no pattern is reported.
    /// Declines, and changes nothing but unused bytes of the window, if the delta is of another kind, a pattern of the
    /// view looks around, or `accepts` returns false for the bytes, which are padded with zeros.
    #[inline(always)]
    pub(in crate::stream::part) fn push_short(
        &mut self,
        bytes: &[u8],
        accepts: impl FnOnce(&[u8; MAX_SHORT_LEN]) -> bool,
    ) -> bool {
        let is_done = !self.is_confirming
            && self
                .cursor
                .push_short(bytes, self.window.spare_capacity(), accepts);
        if is_done {
            self.window.advance(bytes.len());
        }
        is_done
    }

    /// As [`push_short`](Self::push_short), for views with several automata, live suffixes or characters other than
    /// ASCII. Declines, and changes nothing, if a pattern of the view looks around or
    /// [`Matcher::push_short_with_suffixes`] declines.
    #[inline(never)]
    pub(in crate::stream::part) fn push_short_with_suffixes(
        &mut self,
        matcher: &Matcher,
        bytes: &[u8],
    ) -> bool {
        if self.is_confirming {
            return false;
        }
        let Some(padded) = matcher.push_short_with_suffixes(&mut self.cursor, bytes) else {
            return false;
        };
        self.window.push_padded(padded, bytes.len());
        true
    }

    /// Reads bytes that are in the part unchanged, from offset `at`.
    #[inline]
    pub(in crate::stream::part) fn push_verbatim(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        bytes: &[u8],
        at: u64,
    ) {
        #[cfg(feature = "lookaround")]
        if let Some(search) = self.confirming() {
            return search.push_verbatim(view, admission, scope, bytes, at);
        }
        self.search(view, bytes, |event, window| {
            let read = event.at + 1;
            let decided = at + read as u64;
            let end = DecidedOffset {
                offset: decided - event.back as u64,
                decided,
            };
            admission.admit_first_end(view, scope, &event, end, || {
                MatchContext::at_end(window, &bytes[..read], event.back)
            });
        });
    }

    /// Returns the search of a view in which some pattern looks around.
    #[cfg(feature = "lookaround")]
    #[inline]
    fn confirming(&mut self) -> Option<ConfirmingSearch<'_>> {
        let queue = self.candidates.as_deref_mut()?;
        Some(ConfirmingSearch {
            cursor: &mut self.cursor,
            window: &mut self.window,
            exceptions: &mut self.exceptions,
            queue,
        })
    }

    /// Searches bytes, and calls `admit` for each match that no exception excludes, with the window before these bytes.
    #[inline]
    fn search(
        &mut self,
        view: &ViewRules,
        bytes: &[u8],
        mut admit: impl FnMut(MatchEvent, &Window),
    ) {
        let FirstEndReader {
            cursor,
            window,
            exceptions,
            ..
        } = self;
        view.matcher.push(cursor, bytes, |event| {
            if !is_taken(exceptions, view, event, window) {
                admit(event, window);
            }
        });
        // Once all events of these bytes are known, and before the window moves past them.
        if let Some(exceptions) = exceptions {
            let matches = exceptions.take_matches(view);
            matches.for_each(|event| admit(event, window));
        }
        window.push(bytes);
    }

    /// Reads a chunk.
    #[inline]
    pub(super) fn push_chunk(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        chunk: Chunk<'_>,
    ) {
        match chunk.offsets {
            OffsetMap::Verbatim(at) if chunk.decided == 0 => {
                self.push_verbatim(view, admission, scope, chunk.bytes, at);
            }
            _ => self.push_held(view, admission, scope, chunk),
        }
    }

    /// Reads a chunk that the view has held back: a character written as an escape, or bytes that turned out to be
    /// literal.
    fn push_held(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        chunk: Chunk<'_>,
    ) {
        let len = chunk.bytes.len();
        // An escape ends the character before it, which the decoder may still wait for.
        if let OffsetMap::Replacement { start, .. } = chunk.offsets {
            let end = DecidedOffset {
                offset: start,
                decided: chunk.decided,
            };
            self.flush(view, admission, scope, end);
        }
        // The offset that is `back` bytes before the end of the chunk.
        let offset = |back: usize| match chunk.offsets {
            OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => {
                at + len as u64 - back as u64
            }
            // A match cannot end inside of an escape: it ends before or after it.
            OffsetMap::Replacement { start, .. } if back >= len => start,
            OffsetMap::Replacement { end, .. } => end,
        };
        #[cfg(feature = "lookaround")]
        if let Some(search) = self.confirming() {
            return search.push_held(view, admission, scope, chunk, offset);
        }
        self.search(view, chunk.bytes, |event, window| {
            let read = event.at + 1;
            let end = DecidedOffset {
                offset: offset(len - read + event.back),
                decided: chunk.decided(event.at),
            };
            admission.admit_first_end(view, scope, &event, end, || {
                MatchContext::at_end(window, &chunk.bytes[..read], event.back)
            });
        });
    }

    /// Ends an incomplete character: the next bytes do not continue it.
    fn flush(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        end: DecidedOffset,
    ) {
        self.stop(view, admission, scope, end, StopKind::Flush);
    }

    /// Ends the haystack.
    pub(in crate::stream::part) fn finish(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        end: DecidedOffset,
    ) {
        self.stop(view, admission, scope, end, StopKind::Finish);
    }

    /// Reports the matches that the end of the text decides.
    fn stop(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        end: DecidedOffset,
        kind: StopKind,
    ) {
        #[cfg(feature = "lookaround")]
        if let Some(search) = self.confirming() {
            return search.stop(view, admission, scope, end, kind);
        }
        let FirstEndReader {
            cursor,
            window,
            exceptions,
            ..
        } = self;
        let mut admit = |event: MatchEvent| {
            let back = event.back;
            let end = DecidedOffset {
                offset: end.offset - back as u64,
                ..end
            };
            admission.admit_first_end(view, scope, &event, end, || {
                MatchContext::at_end(window, &[], back)
            });
        };
        let on_match = |event: MatchEvent| {
            let end = window.haystack_len() - event.back as u64;
            let exceptions = exceptions.as_deref_mut();
            if !exceptions.is_some_and(|it| it.takes(view, event, end)) {
                admit(event);
            }
        };
        match kind {
            StopKind::Flush => view.matcher.flush(cursor, on_match),
            StopKind::Finish => view.matcher.finish(cursor, on_match),
        }
        if let Some(exceptions) = exceptions {
            exceptions.take_matches(view).for_each(admit);
        }
    }

    pub(in crate::stream::part) fn count(&self, counters: &mut Counters) {
        counters.invalid_utf8 += Matcher::invalid_bytes(&self.cursor);
    }
}

/// Returns true if the event is taken by the exceptions. The window has the haystack before the bytes that are pushed.
#[inline]
pub(super) fn is_taken(
    exceptions: &mut Option<Box<Exceptions>>,
    view: &ViewRules,
    event: MatchEvent,
    window: &Window,
) -> bool {
    let end = || window.haystack_len() + (event.at + 1) as u64 - event.back as u64;
    let exceptions = exceptions.as_deref_mut();
    exceptions.is_some_and(|it| it.takes(view, event, end()))
}
