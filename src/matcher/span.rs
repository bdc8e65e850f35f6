//! Where a match begins. The automaton tells only ends; a start is asked for after a hit, rarely, and
//! found on a bounded window with the pattern as it was written.

use regex_automata::nfa::thompson::{self, pikevm};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};

/// A pattern that can be searched for the start of a match with a known end.
#[derive(Debug)]
pub(crate) struct Span(pikevm::PikeVM);

impl Span {
    /// Compiles a pattern that the matcher has accepted; `None` if `regex-automata` has no room for it.
    pub(crate) fn new(regex: &str) -> Option<Span> {
        pikevm::PikeVM::builder()
            .syntax(syntax::Config::new().utf8(false))
            .thompson(
                thompson::Config::new()
                    .utf8(false)
                    .nfa_size_limit(Some(32 << 20)),
            )
            .configure(pikevm::PikeVM::config().match_kind(MatchKind::All))
            .build(regex)
            .ok()
            .map(Span)
    }

    /// The leftmost start, not before `from`, of a match in `window` that ends at `end`.
    pub(crate) fn start(&self, window: &[u8], from: usize, end: usize) -> Option<usize> {
        let mut cache = self.0.create_cache();
        (from..end).find(|&start| {
            let input = Input::new(window).range(start..end).anchored(Anchored::Yes);
            let mut slots = [None; 2];
            self.0.search_slots(&mut cache, &input, &mut slots);
            // Of all matches that begin at `start`, this is the longest; none passes `end`.
            slots[1].is_some_and(|slot| slot.get() == end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_the_leftmost_one_of_a_match_with_that_end() {
        let start = |regex, window: &str, from, end| {
            Span::new(regex)
                .unwrap()
                .start(window.as_bytes(), from, end)
        };
        assert_eq!(start(r"\w+key", "my sub_key here", 0, 10), Some(3));
        assert_eq!(start(r"key\b", "my sub_key here", 0, 10), Some(7));
        assert_eq!(start(r"\bkey", "my sub_key here", 0, 10), None);
        assert_eq!(
            start(r"^b+", "abb", 1, 3),
            None,
            "the window does not begin a haystack"
        );
    }
}
