//! The exceptions of patterns ([`Pattern::unless`](crate::Pattern::unless)): a match does not count if its exception
//! has matched before it.
//!
//! *Before* compares ends in the haystack: the first match of the exception ends before the match does. The end of a
//! match is certain at the latest with the character after it. An exception that ends before a match is therefore known
//! when the match is certain, so it delays no hit. As events of different patterns come in no order, a match waits until
//! the matcher has reported all events of the bytes that are pushed.

use crate::program::{FirstEndRole, ViewRules};
use ttsr_automata::MatchEvent;

/// An exception that has not matched.
const NO_MATCH: u64 = u64::MAX;

/// The exceptions of a view, as far as they have matched.
#[derive(Debug)]
pub(super) struct Exceptions {
    /// For each exception, the number of bytes of the haystack before the first end of its match; 0 if it matched in an
    /// earlier haystack of the same text.
    first_ends: Box<[u64]>,
    /// The first match of each pattern with an exception in the bytes that are pushed, with the bytes before its end. A
    /// later match of the pattern is excluded if the first one is.
    waiting: Vec<(MatchEvent, u64)>,
}

impl Exceptions {
    /// Returns `None` if no pattern of the view has an exception.
    pub(super) fn new(view: &ViewRules) -> Option<Box<Exceptions>> {
        (view.exceptions > 0).then(|| {
            Box::new(Exceptions {
                first_ends: vec![NO_MATCH; view.exceptions].into_boxed_slice(),
                waiting: Vec::new(),
            })
        })
    }

    /// Starts another text.
    pub(super) fn clear(&mut self) {
        self.first_ends.fill(NO_MATCH);
    }

    /// Starts the next haystack of the same text.
    pub(super) fn continue_text(&mut self) {
        for end in &mut self.first_ends {
            if *end != NO_MATCH {
                *end = 0;
            }
        }
    }

    /// Returns true if the exception has matched before a match that ends after `end` bytes of the haystack.
    pub(super) fn excludes(&self, exception: u32, end: u64) -> bool {
        self.first_ends[exception as usize] < end
    }

    /// Takes the event of an exception, or of a match that has one. Returns false for any other event. The match ends
    /// after `end` bytes of the haystack.
    pub(super) fn takes(&mut self, view: &ViewRules, event: MatchEvent, end: u64) -> bool {
        match view.patterns[event.pattern.index()].role {
            FirstEndRole::Match | FirstEndRole::MatchIfUnread => return false,
            FirstEndRole::Exception(exception) => {
                let first_end = &mut self.first_ends[exception as usize];
                *first_end = end.min(*first_end);
            }
            FirstEndRole::MatchUnless(_) => {
                let mut waiting = self.waiting.iter();
                if waiting.all(|(known, _)| known.pattern != event.pattern) {
                    self.waiting.push((event, end));
                }
            }
        }
        true
    }

    /// Removes the matches that wait. Returns those that no exception excludes.
    pub(super) fn take_matches(&mut self, view: &ViewRules) -> impl Iterator<Item = MatchEvent> {
        let Exceptions {
            first_ends,
            waiting,
        } = self;
        let counts = |(event, end): &(MatchEvent, u64)| {
            let role = view.patterns[event.pattern.index()].role;
            !matches!(role, FirstEndRole::MatchUnless(it) if first_ends[it as usize] < *end)
        };
        waiting.drain(..).filter(counts).map(|(event, _)| event)
    }
}

#[cfg(test)]
mod tests;
