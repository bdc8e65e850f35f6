//! Rewrites that preserve detection: a smaller pattern with the same earliest end in every haystack.
//!
//! The earliest end of an unanchored search does not depend on optional parts at either edge: a match of
//! `[\w.-]{0,50}key` ends where a match of `key` ends, and the first end of `sk_[a-z]{32,64}` is the first end of
//! `sk_[a-z]{32}`. This removes most of the state blow-up of real secret rules. Assertions at an edge are kept, and
//! so is everything inside of them. Starts are not preserved: callers that need one use the original pattern.

use regex_syntax::hir::{Hir, HirKind, Repetition};

use super::pattern;

/// Removes the optional parts at both edges.
pub(crate) fn simplify(hir: &Hir) -> Hir {
    trim(&trim(hir, Edge::Front), Edge::Back)
}

/// Removes the optional parts at the front: every end is preserved, not only the first.
pub(crate) fn simplify_front(hir: &Hir) -> Hir {
    trim(hir, Edge::Front)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Front,
    Back,
}

fn trim(hir: &Hir, edge: Edge) -> Hir {
    match hir.kind() {
        // Groups are dropped: an automaton has no captures.
        HirKind::Capture(capture) => trim(&capture.sub, edge),
        // `x{2,9}` at an edge is `x{2}`: the shortest match ends first, and at the front any match contains a shortest
        // one.
        HirKind::Repetition(repetition) if has_no_look(&repetition.sub) => shortest(repetition),
        HirKind::Concat(subs) => trim_concat(subs, edge),
        HirKind::Alternation(subs) => {
            Hir::alternation(subs.iter().map(|sub| trim(sub, edge)).collect())
        }
        _ => hir.clone(),
    }
}

fn trim_concat(subs: &[Hir], edge: Edge) -> Hir {
    let mut subs = subs.to_vec();
    if edge == Edge::Front {
        // One loop for both edges: the edge is at the end of the list.
        subs.reverse();
    }
    // Element by element from the edge. The first one that is not optional ends the loop, because a match must contain
    // it.
    while subs.last().is_some_and(is_optional) {
        subs.pop();
    }
    if let Some(last) = subs.last_mut() {
        *last = trim(last, edge);
    }
    if edge == Edge::Front {
        subs.reverse();
    }
    Hir::concat(subs)
}

// An assertion matches the empty text and is no optional part: leaving it out would match more.
fn is_optional(hir: &Hir) -> bool {
    has_no_look(hir) && pattern::min_match_bytes(hir) == Some(0)
}

// With an assertion inside, a copy matches or not depending on its neighbours, so fewer copies need not match where
// more copies do.
fn has_no_look(hir: &Hir) -> bool {
    hir.properties().look_set().is_empty()
}

fn shortest(repetition: &Repetition) -> Hir {
    if repetition.min == 0 {
        return Hir::empty();
    }
    Hir::repetition(Repetition {
        min: repetition.min,
        max: Some(repetition.min),
        greedy: true,
        sub: repetition.sub.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_lose_what_they_may_leave_out_and_nothing_else() {
        for (pattern, want) in [
            (r"[\w.-]{0,50}?key", "key"),
            (r"sk_[a-z]{32,64}", "sk_[a-z]{32}"),
            (r"(?:a|b)?c+d*", "c"),
            (r"\b\w*key", r"\b\w*key"),
            (r"x?\bkey\b\w*", r"\bkey\b"),
            (r"(a?b|c?d)e?", "b|d"),
            (r"^a*b", "^a*b"),
        ] {
            let parse = |text: &str| regex_syntax::parse(text).unwrap();
            // Printing flattens the groups that trimming keeps.
            let got = parse(&simplify(&parse(pattern)).to_string());
            assert_eq!(got, parse(&parse(want).to_string()), "{pattern}");
        }
    }
}
