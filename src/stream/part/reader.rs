//! What reads one haystack: the first end of most patterns, whole matches of the others.

use super::haystack::Haystack;
use super::judge::Judge;
use super::spans::Spans;
use crate::pack::ViewRules;
use crate::stream::Counters;
use crate::view::json::ArgPath;
use crate::view::piece::Piece;
use ttsr_automata::{SHORT, is_short};

/// A haystack that is being read, for all rules that see the same text.
#[derive(Debug)]
pub(super) struct Reader {
    haystack: Haystack,
    /// By [`ViewRules::spans`].
    spans: Box<[Spans]>,
}

impl Reader {
    pub(super) fn new(rules: &ViewRules) -> Reader {
        Reader {
            haystack: Haystack::new(rules),
            spans: rules.spans.iter().map(Spans::new).collect(),
        }
    }

    /// Begins another haystack.
    pub(super) fn restart(&mut self, rules: &ViewRules) {
        self.haystack.restart(&rules.matcher);
        for (spans, rules) in self.spans.iter_mut().zip(&rules.spans) {
            spans.restart(rules);
        }
    }

    /// The fast path where only first ends are wanted: see [`Haystack::push_short_if`].
    #[inline]
    pub(super) fn push_short_if(
        &mut self,
        bytes: &[u8],
        agrees: impl FnOnce(&[u8; SHORT]) -> bool,
    ) -> bool {
        self.spans.is_empty() && self.haystack.push_short_if(bytes, agrees)
    }

    #[inline]
    pub(super) fn take(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, piece: Piece<'_>) {
        let view = judge.view;
        // Where the bytes stand matters only once something is found.
        let is_short = is_short(piece.bytes);
        let is_read = view.patterns.is_empty() || is_short && self.haystack.push_short(piece.bytes);
        if !is_read {
            self.haystack.take(judge, arg, piece);
        }
        for (spans, rules) in self.spans.iter_mut().zip(&view.spans) {
            let limit = judge.pack.limits().stretch_bytes;
            if is_short && spans.push_short(rules, piece, limit) {
                continue;
            }
            spans.take(rules, judge, arg, piece);
        }
    }

    /// Ends the haystack, whose last byte ends at `end`.
    pub(super) fn finish(
        &mut self,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        end: u64,
        decided: u64,
    ) {
        let view = judge.view;
        if !view.patterns.is_empty() {
            self.haystack.finish(judge, arg, end, decided);
        }
        for (spans, rules) in self.spans.iter_mut().zip(&view.spans) {
            spans.finish(rules, judge, arg, end, decided);
        }
    }

    /// Where the text begins that a rule that holds has not decided.
    pub(super) fn undecided_from(&self, rules: &ViewRules) -> Option<u64> {
        let spans = self.spans.iter().zip(&rules.spans);
        spans
            .filter(|(_, rules)| rules.holds)
            .filter_map(|(spans, _)| spans.undecided_from())
            .min()
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        // All read the same bytes: what one has counted the others have, too.
        match self.spans.first() {
            Some(spans) => spans.count(counters),
            None => self.haystack.count(counters),
        }
    }
}
