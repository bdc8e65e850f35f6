//! One haystack: `first_end` reads it for the first end of most patterns, `full_match` for the full matches of the
//! others.

#[cfg(feature = "lookaround")]
mod confirm;
mod context;
mod exceptions;
mod first_end;
mod full_match;

use super::admit::{Admission, HaystackScope};
use super::condition;
use super::deferred::{MemberList, SteppedText};
use crate::program::ViewRules;
use crate::stream::Counters;
pub(super) use context::{MatchContext, floor_char_boundary};
pub(super) use first_end::FirstEndReader;
use full_match::{FullMatchInput, FullMatchReader};
use ttsr_automata::product::{IdleGroup, Member};
use ttsr_automata::{MAX_SHORT_LEN, is_short};
use ttsr_views::chunk::{Chunk, DecidedOffset};

/// Returns a short delta padded with zeros.
#[inline]
fn padded(bytes: &[u8]) -> [u8; MAX_SHORT_LEN] {
    let mut padded = [0; MAX_SHORT_LEN];
    padded[..bytes.len()].copy_from_slice(bytes);
    padded
}

/// The state of a haystack that is being read, for all patterns of one view.
#[derive(Debug)]
pub(super) struct HaystackReader {
    first_end: FirstEndReader,
    /// In the order of [`ViewRules::full`].
    full: Box<[FullMatchReader]>,
}

impl HaystackReader {
    pub(super) fn new(view: &ViewRules) -> HaystackReader {
        HaystackReader {
            first_end: FirstEndReader::new(view),
            full: view.full.iter().map(FullMatchReader::new).collect(),
        }
    }

    /// Starts another text.
    pub(super) fn restart(&mut self, view: &ViewRules) {
        self.first_end.restart(&view.matcher);
        self.restart_full(view);
    }

    /// Starts the next haystack of the same text: exceptions that have matched remain.
    pub(super) fn continue_text(&mut self, view: &ViewRules) {
        self.first_end.continue_text(&view.matcher);
        self.restart_full(view);
    }

    fn restart_full(&mut self, view: &ViewRules) {
        for (full, rules) in self.full.iter_mut().zip(&view.full) {
            full.restart(rules);
        }
    }

    /// The fast path if no full matches are needed: see [`FirstEndReader::push_short`].
    #[inline]
    pub(super) fn push_short(
        &mut self,
        bytes: &[u8],
        accepts: impl FnOnce(&[u8; MAX_SHORT_LEN]) -> bool,
    ) -> bool {
        self.full.is_empty() && self.first_end.push_short(bytes, accepts)
    }

    /// Reads the next chunk.
    #[inline]
    pub(super) fn push(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        chunk: Chunk<'_>,
    ) {
        // The offsets of the bytes are needed only for a match, so the fast path ignores them.
        let is_short = is_short(chunk.bytes);
        let is_read = view.patterns.is_empty()
            || is_short && self.first_end.push_short(chunk.bytes, |_| true);
        if !is_read {
            self.first_end.push_chunk(view, admission, scope, chunk);
        }
        // After the first ends: exceptions are patterns of that automaton, and full matches ask for them.
        let exceptions = self.first_end.exceptions.as_deref();
        for (full, rules) in self.full.iter_mut().zip(&view.full) {
            let step = match is_short {
                true => full.try_step_short(rules, chunk.bytes),
                false => None,
            };
            match step {
                Some(step) => full.accept_short(rules, chunk, &padded(chunk.bytes), step),
                None => {
                    let input = FullMatchInput {
                        rules,
                        admission,
                        scope,
                        exceptions,
                    };
                    full.push(input, chunk);
                }
            }
        }
    }

    /// Returns any matcher of the haystack with its cursor.
    pub(super) fn any_member<'a>(&'a self, view: &'a ViewRules) -> Member<'a> {
        Member::new(&view.matcher, &self.first_end.cursor)
    }

    /// Adds the matchers. Returns false if some text without a match needs more than their steps. At most
    /// `max_held` bytes may be held.
    pub(super) fn add_members<'a>(
        &'a self,
        view: &'a ViewRules,
        max_held: usize,
        members: &mut MemberList<'a>,
    ) -> bool {
        let is_filtered = view.key.source.is_some();
        if !view.patterns.is_empty() {
            if self.first_end.is_confirming {
                return false;
            }
            members.add(Member {
                is_filtered,
                ..Member::new(&view.matcher, &self.first_end.cursor)
            });
        }
        let mut full = self.full.iter().zip(&view.full);
        full.all(|(full, rules)| {
            let idle = match (rules.holds(), view.key.source) {
                (true, None) => IdleGroup::Held,
                // Markdown may still change the start of a line.
                (true, Some(_)) => IdleGroup::HeldInView,
                (false, _) => IdleGroup::Tracked,
            };
            members.add(Member {
                matcher: &rules.matcher,
                cursor: &full.cursor,
                idle,
                is_filtered,
            });
            if rules.holds() {
                members.add_held(rules.reach());
            }
            full.is_detecting(rules, max_held)
        })
    }

    /// Advances over deferred text.
    pub(super) fn advance(
        &mut self,
        view: &ViewRules,
        chunk: Chunk<'_>,
        stepped: &mut SteppedText<'_>,
    ) {
        let ranges = stepped.read_from(view.key.source);
        if !view.patterns.is_empty() {
            stepped.states.move_next(&mut self.first_end.cursor);
            let window = &mut self.first_end.window;
            ranges
                .clone()
                .for_each(|range| window.push(&chunk.bytes[range]));
        }
        for (full, rules) in self.full.iter_mut().zip(&view.full) {
            stepped.states.move_next(&mut full.cursor);
            let idle_until = match rules.holds() {
                true => stepped.idle.held,
                false => stepped.idle.all,
            };
            for range in ranges.clone() {
                let idle_until = idle_until.saturating_sub(range.start).min(range.len());
                full.advance(rules, chunk.slice(range), idle_until);
            }
        }
    }

    /// Ends the haystack.
    pub(super) fn finish(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        end: DecidedOffset,
    ) {
        if !view.patterns.is_empty() {
            self.first_end.finish(view, admission, scope, end);
        }
        let exceptions = self.first_end.exceptions.as_deref();
        for (full, rules) in self.full.iter_mut().zip(&view.full) {
            let input = FullMatchInput {
                rules,
                admission,
                scope,
                exceptions,
            };
            full.finish(input, end);
        }
    }

    /// Returns the offset of the first byte that an undecided match of a rule that holds may contain.
    pub(super) fn undecided_from(&self, view: &ViewRules) -> Option<u64> {
        let full = self.full.iter().zip(&view.full);
        full.filter(|(_, rules)| rules.holds())
            .filter_map(|(full, rules)| full.undecided_from(rules))
            .min()
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        // All readers read the same bytes, so one of them counts for all.
        match self.full.first() {
            Some(full) => full.count(counters),
            None => self.first_end.count(counters),
        }
    }
}
