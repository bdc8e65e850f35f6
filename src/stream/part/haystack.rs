//! One haystack, read for the first end of each pattern.

use std::ops::Range;

#[cfg(feature = "lookaround")]
use super::confirm;
use super::judge::Judge;
use crate::pack::ViewRules;
use crate::stream::window::{WINDOW, Window};
use crate::stream::{Counters, Quote};
use crate::verdict::Hit;
use crate::view::json::ArgPath;
use crate::view::piece::{Piece, Place};
use ttsr_automata::pike::PikeVm;
use ttsr_automata::{Cursor, MatchEvent, Matcher, SHORT};

/// Most bytes of an excerpt before the match, and of a match that is shown.
const BEFORE: usize = 40;
pub(super) const EXCERPT: usize = 160;

/// A haystack that is being read.
#[derive(Debug)]
pub(super) struct Haystack {
    pub(super) cursor: Cursor,
    pub(super) window: Window,
    /// Where some pattern of the channel looks around: what waits to be confirmed.
    #[cfg(feature = "lookaround")]
    waiting: Option<Box<confirm::Waiting>>,
}

impl Haystack {
    pub(super) fn new(rules: &ViewRules) -> Haystack {
        Haystack {
            cursor: rules.matcher.start(),
            window: Window::default(),
            #[cfg(feature = "lookaround")]
            waiting: confirm::Waiting::new(&rules.confirms),
        }
    }

    /// Whether every byte is wanted for patterns that look around.
    #[inline(always)]
    fn is_confirming(&self) -> bool {
        #[cfg(feature = "lookaround")]
        return self.waiting.is_some();
        #[cfg(not(feature = "lookaround"))]
        false
    }

    pub(super) fn restart(&mut self, matcher: &Matcher) {
        matcher.restart(&mut self.cursor);
        self.window.clear();
        #[cfg(feature = "lookaround")]
        self.waiting.iter_mut().for_each(|waiting| waiting.clear());
    }

    /// The fast path: a delta of 1 to [`SHORT`](ttsr_automata::SHORT) bytes that brings nothing special.
    /// Says whether it was that; if not, nothing has happened.
    #[inline(always)]
    pub(super) fn push_short(&mut self, bytes: &[u8]) -> bool {
        self.push_short_if(bytes, |_| true)
    }

    /// The same if the caller agrees to the bytes, behind which are zeros.
    #[inline(always)]
    pub(super) fn push_short_if(
        &mut self,
        bytes: &[u8],
        agrees: impl FnOnce(&[u8; SHORT]) -> bool,
    ) -> bool {
        let is_done =
            !self.is_confirming() && self.cursor.push_short(bytes, self.window.room(), agrees);
        if is_done {
            self.window.keep(bytes.len());
        }
        is_done
    }

    /// The same where several automata are stepped, or what follows a gap is awake.
    #[inline(never)]
    pub(super) fn push_short_all(&mut self, matcher: &Matcher, bytes: &[u8]) -> bool {
        if self.is_confirming() {
            return false;
        }
        let Some(padded) = matcher.push_short(&mut self.cursor, bytes) else {
            return false;
        };
        self.window.push_short(padded, bytes.len());
        true
    }

    /// Reads bytes that stand in the part as they are, from offset `at`.
    #[inline]
    pub(super) fn run(
        &mut self,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        bytes: &[u8],
        at: u64,
    ) {
        #[cfg(feature = "lookaround")]
        if let Some(mut waiting) = self.waiting.take() {
            self.run_confirming(&mut waiting, judge, arg, bytes, at);
            self.waiting = Some(waiting);
            return;
        }
        let Haystack { cursor, window, .. } = self;
        judge.view.matcher.push(cursor, bytes, |event| {
            let seen = event.at + 1;
            let decided = at + seen as u64;
            judge.judge(arg, &event, decided - event.back as u64, decided, || {
                Near::new(window, &bytes[..seen], event.back)
            });
        });
        window.push(bytes);
    }

    /// Reads a piece: bytes as they stand, or bytes that stand for others.
    #[inline]
    pub(super) fn take(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, piece: Piece<'_>) {
        match piece.place {
            Place::Verbatim(at) if piece.decided == 0 => self.run(judge, arg, piece.bytes, at),
            _ => self.take_held(judge, arg, piece),
        }
    }

    /// Reads a piece that was held back: a character written as an escape, or bytes that turned out
    /// to stand for themselves.
    fn take_held(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, piece: Piece<'_>) {
        let len = piece.bytes.len();
        if let Place::StandIn { start, .. } = piece.place {
            self.flush(judge, arg, start, piece.decided);
        }
        let place = |behind: usize| match piece.place {
            Place::Verbatim(at) | Place::Late(at) | Place::Words(at) => {
                at + len as u64 - behind as u64
            }
            // Inside of what is stood for there is no place: a match ends before it or after it.
            Place::StandIn { start, .. } if behind >= len => start,
            Place::StandIn { end, .. } => end,
        };
        #[cfg(feature = "lookaround")]
        if let Some(mut waiting) = self.waiting.take() {
            let decided = |index: usize| piece.decided(index);
            self.held_confirming(&mut waiting, judge, arg, piece.bytes, place, decided);
            self.waiting = Some(waiting);
            return;
        }
        let Haystack { cursor, window, .. } = self;
        judge.view.matcher.push(cursor, piece.bytes, |event| {
            let seen = event.at + 1;
            let behind = len - seen + event.back;
            let decided = piece.decided(event.at);
            judge.judge(arg, &event, place(behind), decided, || {
                Near::new(window, &piece.bytes[..seen], event.back)
            });
        });
        window.push(piece.bytes);
    }

    /// What is pending cannot be completed: it ends at `end`.
    pub(super) fn flush(
        &mut self,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        end: u64,
        decided: u64,
    ) {
        self.stop(judge, arg, end, decided, false);
    }

    /// Ends the haystack, whose last byte ends at `end`.
    pub(super) fn finish(
        &mut self,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        end: u64,
        decided: u64,
    ) {
        self.stop(judge, arg, end, decided, true);
    }

    fn stop(
        &mut self,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        end: u64,
        decided: u64,
        is_over: bool,
    ) {
        #[cfg(feature = "lookaround")]
        if let Some(mut waiting) = self.waiting.take() {
            self.end_confirming(&mut waiting, judge, arg, end, decided, is_over);
            self.waiting = Some(waiting);
            return;
        }
        let Haystack { cursor, window, .. } = self;
        let matcher = &judge.view.matcher;
        let found = |event: MatchEvent| {
            let back = event.back;
            judge.judge(arg, &event, end - back as u64, decided, || {
                Near::new(window, &[], back)
            });
        };
        if is_over {
            matcher.finish(cursor, found);
        } else {
            matcher.flush(cursor, found);
        }
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        counters.invalid_utf8 += Matcher::invalid_bytes(&self.cursor);
    }
}

/// The haystack around the end of a match: bytes up to the deciding one.
pub(super) struct Near {
    pub(super) bytes: Vec<u8>,
    pub(super) begins_haystack: bool,
    pub(super) end: usize,
    /// Where the match begins, if that is known.
    pub(super) start: Option<usize>,
}

impl Near {
    /// `more` follows the window; the match ends `back` bytes before its end.
    pub(super) fn new(window: &Window, more: &[u8], back: usize) -> Near {
        let (bytes, begins_haystack) = window.with(more);
        let end = bytes.len().saturating_sub(back);
        Near {
            bytes,
            begins_haystack,
            end,
            start: None,
        }
    }

    /// All of a text, which is none of the part.
    pub(super) fn of(text: &[u8]) -> Near {
        Near {
            bytes: text.to_vec(),
            begins_haystack: true,
            end: text.len(),
            start: Some(0),
        }
    }

    /// A match inside a stretch, with what stands before that; `text` is the place in the stretch.
    pub(super) fn around(
        before: &[u8],
        stretch: &[u8],
        text: &Range<usize>,
        begins_haystack: bool,
    ) -> Near {
        Near {
            bytes: [before, stretch].concat(),
            begins_haystack,
            end: before.len() + text.end,
            start: Some(before.len() + text.start),
        }
    }

    /// Where the match begins, if that is known.
    pub(super) fn match_start(&self) -> Option<usize> {
        self.start
    }

    /// Number of bytes between a start and the end of the match.
    pub(super) fn before_end(&self, start: usize) -> usize {
        self.end - start
    }

    pub(super) fn start_of(&self, vm: &PikeVm) -> Option<usize> {
        // Offset 0 of a window that does not begin the haystack must not look like its beginning.
        vm.start(&self.bytes, usize::from(!self.begins_haystack), self.end)
    }

    pub(super) fn quote(&self, hit: Hit, start: Option<usize>) -> Quote {
        let lossy = |range: Range<usize>| String::from_utf8_lossy(&self.bytes[range]).into_owned();
        let start = start
            .unwrap_or(self.end)
            .max(self.end.saturating_sub(EXCERPT - BEFORE));
        let start = floor(&self.bytes, start);
        let before = lossy(floor(&self.bytes, start.saturating_sub(BEFORE))..start);
        let matched = lossy(start..self.end);
        // What is behind is there only as far as it was needed to be certain; of a long stretch, its beginning.
        let after = self.bytes.len().min(self.end + WINDOW - EXCERPT);
        let text = before.clone() + &matched + &lossy(self.end..after);
        let matched = before.len()..before.len() + matched.len();
        Quote {
            hit,
            start: None,
            file: None,
            text: text.into_boxed_str(),
            matched,
        }
    }
}

/// The start of the character that `at` is in, as far as it is valid UTF-8.
fn floor(bytes: &[u8], at: usize) -> usize {
    let is_continuation = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&at| !is_continuation(at))
        .unwrap_or(at)
}
