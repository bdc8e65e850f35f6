//! From a pattern over code units to an expression over characters.
//!
//! A text of characters, read as UTF-16, has two kinds of positions: between characters, and inside of one, after the
//! first half of its surrogate pair. A pattern becomes a square of expressions: what it matches from a position of one
//! kind to a position of another. The first row and column are the positions between characters; the others are those
//! inside, one for each set of first halves that the pattern tells apart (mostly one: all of them). The character
//! itself is matched with its second half, so a position inside of a character stands before it.
//!
//! Squares are added and multiplied like matrices, and repeated by Kleene's construction, so alternatives, sequences
//! and loops need no further thought. A pattern whose sets have no surrogates has one kind of position.

use super::expr::{Anchor, Expr};
use super::parse::{Assertion, Node, Parsed};
use super::set::{BEYOND, HIGH, LOW, Set};
use super::{Flags, Translation, Untranslatable};

/// Most sets of first halves that a pattern may tell apart.
const KINDS: usize = 8;
/// Largest count that is written out where a count has to be in halves.
const UNROLLED: u32 = 16;
/// Largest size of what such a count becomes.
const SIZE: usize = 2_000;
/// Largest size of a translation; one of UTF-16 units that is larger is one of characters.
const WHOLE: usize = 16_000;
/// Most bytes of a translation.
const WRITTEN: usize = 48 << 10;

const COUNTS_CHARACTERS: &str = "a count is of characters here, and of UTF-16 units in JavaScript: a character beyond \
                                 U+FFFF counts once, not twice";
const MATCHES_EMPTY: &str =
    "it matches the empty text, so any text at all: it acts at the first character";
const TOO_LARGE: &str = "it becomes too large a pattern";
const BACK: &str = "a back-reference to a group that may have captured nothing";

pub(super) fn lower(parsed: Parsed, flags: Flags) -> Result<Translation, Untranslatable> {
    let mut captured = Vec::new();
    if !back_references_hold(&parsed.node, &mut captured) {
        return Err(Untranslatable(BACK.to_owned()));
    }
    let mut highs = Vec::new();
    let mut surrogates = Surrogates::None;
    collect(&parsed.node, &mut highs, &mut surrogates);
    if flags.by_code_point() || surrogates == Surrogates::None {
        return finish(&parsed, flags, Vec::new(), surrogates)
            .unwrap_or_else(|| Err(Untranslatable(TOO_LARGE.to_owned())));
    }
    if parsed.refers_back {
        return Err(Untranslatable(
            "a back-reference beside a class with halves of characters; flag `u` makes it one of characters"
                .to_owned(),
        ));
    }
    match finish(&parsed, flags, kinds(&highs)?, surrogates) {
        Some(translation) => translation,
        None if surrogates == Surrogates::Some => Err(Untranslatable(
            "halves of characters beyond U+FFFF, in too many places; flag `u` makes them characters".to_owned(),
        )),
        None => {
            let mut translation = finish(&parsed, flags, Vec::new(), surrogates)
                .unwrap_or_else(|| Err(Untranslatable(TOO_LARGE.to_owned())))?;
            translation.notes.push(COUNTS_CHARACTERS.to_owned());
            Ok(translation)
        }
    }
}

/// The translation with those kinds of positions inside of characters; without any, and without `u` and `v`, a set
/// that has all surrogates has the characters beyond U+FFFF. None if it is too large.
fn finish(
    parsed: &Parsed,
    flags: Flags,
    kinds: Vec<Set>,
    surrogates: Surrogates,
) -> Option<Result<Translation, Untranslatable>> {
    let mut lowering = Lowering {
        is_widened: kinds.is_empty() && !flags.by_code_point(),
        kinds,
        captures: parsed.refers_back,
        surrogates,
        is_too_large: false,
        notes: Vec::new(),
    };
    let square = lowering.node(&parsed.node, Edges::of(!flags.sticky, true));
    if lowering.is_too_large {
        return None;
    }
    let starts = if flags.sticky { 1 } else { square.kinds() };
    let all = (0..starts).map(|from| lowering.ended(&square, from));
    let whole = Expr::or(all);
    let whole = match flags.sticky {
        true => Expr::cat([Expr::Assert(Anchor::Start), whole]),
        false => whole,
    };
    if whole == Expr::Never {
        return Some(Err(Untranslatable("it matches no text".to_owned())));
    }
    let mut notes = lowering.notes;
    let regex = match whole.matches_everywhere() {
        true => {
            notes.push(MATCHES_EMPTY.to_owned());
            "(?s:.)".to_owned()
        }
        false => whole.written(),
    };
    if regex.len() > WRITTEN {
        return None;
    }
    notes.sort_unstable();
    notes.dedup();
    Some(Ok(Translation { regex, notes }))
}

/// Whether each group that is referred back to has captured something there: it stands before the reference in a
/// sequence that leads to it. Elsewhere a reference matches the empty text in JavaScript, and nothing here.
fn back_references_hold(node: &Node, captured: &mut Vec<u32>) -> bool {
    match node {
        Node::Empty | Node::Set(_) | Node::Assert(_) => true,
        Node::Back(group) => captured.contains(group),
        Node::Seq(parts) => parts
            .iter()
            .all(|part| back_references_hold(part, captured)),
        Node::Group(number, of) => {
            let holds = back_references_hold(of, captured);
            captured.push(*number);
            holds
        }
        Node::Repeat { of, min: 1.., .. } => back_references_hold(of, captured),
        Node::Repeat { of, .. } => back_references_hold(of, &mut captured.clone()),
        Node::Alt(parts) => parts
            .iter()
            .all(|part| back_references_hold(part, &mut captured.clone())),
        Node::Look {
            ahead: true,
            negated: false,
            of,
        } => back_references_hold(of, captured),
        Node::Look {
            ahead: true, of, ..
        } => back_references_hold(of, &mut captured.clone()),
        // It is matched from its end to its start.
        Node::Look {
            ahead: false, of, ..
        } => back_references_hold(of, &mut Vec::new()),
    }
}

/// How many surrogates the sets of a pattern have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Surrogates {
    None,
    /// Each set has none of them or all.
    All,
    Some,
}

fn collect(node: &Node, highs: &mut Vec<Set>, surrogates: &mut Surrogates) {
    match node {
        Node::Set(set) => {
            let has = match set.intersect(&Set::surrogates()) {
                none if none.is_empty() => Surrogates::None,
                all if all == Set::surrogates() => Surrogates::All,
                _ => Surrogates::Some,
            };
            *surrogates = (*surrogates).max(has);
            let high = set.intersect(&Set::of([HIGH]));
            if !highs.contains(&high) {
                highs.push(high);
            }
        }
        Node::Seq(parts) | Node::Alt(parts) => {
            for part in parts {
                collect(part, highs, surrogates);
            }
        }
        Node::Repeat { of, .. } | Node::Group(_, of) | Node::Look { of, .. } => {
            collect(of, highs, surrogates);
        }
        Node::Empty | Node::Back(_) | Node::Assert(_) => {}
    }
}

/// The first halves, divided so that each of `highs` is a union of kinds.
fn kinds(highs: &[Set]) -> Result<Vec<Set>, Untranslatable> {
    let mut kinds = vec![Set::of([HIGH])];
    for high in highs {
        let parts = kinds
            .iter()
            .flat_map(|kind| [kind.intersect(high), kind.minus(high)]);
        kinds = parts.filter(|part| !part.is_empty()).collect();
        if kinds.len() > KINDS {
            return Err(Untranslatable(
                "too many different halves of characters beyond U+FFFF; flag `u` makes them characters".to_owned(),
            ));
        }
    }
    Ok(kinds)
}

/// Whether a node stands at an edge of the pattern, with nothing between.
#[derive(Clone, Copy)]
struct Edges {
    start: bool,
    end: bool,
}

impl Edges {
    fn of(start: bool, end: bool) -> Edges {
        Edges { start, end }
    }
}

/// Expressions by the kinds of the positions that they lead from and to.
#[derive(Clone)]
struct Square(Vec<Vec<Expr>>);

impl Square {
    fn build(kinds: usize, entry: impl Fn(usize, usize) -> Expr) -> Square {
        let row = |from| (0..kinds).map(|to| entry(from, to)).collect();
        Square((0..kinds).map(row).collect())
    }

    fn kinds(&self) -> usize {
        self.0.len()
    }

    fn empty(kinds: usize) -> Square {
        Square::diagonal(kinds, |_| Expr::Empty)
    }

    fn diagonal(kinds: usize, entry: impl Fn(usize) -> Expr) -> Square {
        Square::build(kinds, |from, to| match from == to {
            true => entry(from),
            false => Expr::Never,
        })
    }

    fn times(&self, other: &Square) -> Square {
        let kinds = self.kinds();
        Square::build(kinds, |from, to| {
            Expr::or(
                (0..kinds)
                    .map(|via| Expr::cat([self.0[from][via].clone(), other.0[via][to].clone()])),
            )
        })
    }

    fn plus(&self, other: &Square) -> Square {
        Square::build(self.kinds(), |from, to| {
            Expr::or([self.0[from][to].clone(), other.0[from][to].clone()])
        })
    }

    /// Any number of times; positions inside of characters are eliminated first.
    fn star(&self, lazy: bool) -> Square {
        let kinds = self.kinds();
        let mut paths = self.clone();
        for via in (0..kinds).rev() {
            let round = paths.0[via][via].clone();
            let again = Expr::star(round.clone(), lazy);
            let old = paths.clone();
            paths = Square::build(kinds, |from, to| {
                let entry = |from: usize, to: usize| old.0[from][to].clone();
                match (from == via, to == via) {
                    (true, true) => Expr::plus(round.clone(), lazy),
                    (true, false) => Expr::cat([again.clone(), entry(via, to)]),
                    (false, true) => Expr::cat([entry(from, via), again.clone()]),
                    (false, false) => {
                        let detour = Expr::cat([entry(from, via), again.clone(), entry(via, to)]);
                        Expr::or([entry(from, to), detour])
                    }
                }
            });
        }
        paths.plus(&Square::empty(kinds))
    }

    fn size(&self) -> usize {
        let all = self.0.iter().flatten().map(Expr::size);
        all.fold(0, usize::saturating_add)
    }

    /// Whether it leads from a position between characters to another, and from nowhere else.
    fn is_plain(&self) -> bool {
        let mut entries = self.0.iter().enumerate().flat_map(|(from, row)| {
            row.iter()
                .enumerate()
                .map(move |(to, expr)| (from, to, expr))
        });
        entries.all(|(from, to, expr)| (from, to) == (0, 0) || *expr == Expr::Never)
    }
}

struct Lowering {
    /// The sets of first halves; the kinds of positions are one more.
    kinds: Vec<Set>,
    captures: bool,
    /// Whether a set with all surrogates has the characters beyond U+FFFF instead.
    is_widened: bool,
    /// With some surrogates in a set, and not all, no count of halves is one of characters.
    surrogates: Surrogates,
    /// Whether the translation was given up.
    is_too_large: bool,
    notes: Vec<String>,
}

impl Lowering {
    fn count(&self) -> usize {
        self.kinds.len() + 1
    }

    fn node(&mut self, node: &Node, edges: Edges) -> Square {
        if self.is_too_large {
            return Square::empty(self.count());
        }
        let square = self.node_of_any_size(node, edges);
        self.is_too_large |= square.size() > WHOLE;
        square
    }

    fn node_of_any_size(&mut self, node: &Node, edges: Edges) -> Square {
        let inside = Edges::of(false, false);
        match node {
            Node::Empty => Square::empty(self.count()),
            Node::Set(set) => self.set(set),
            Node::Seq(parts) => {
                let last = parts.len() - 1;
                let mut whole = Square::empty(self.count());
                for (at, part) in parts.iter().enumerate() {
                    let edges = Edges::of(edges.start && at == 0, edges.end && at == last);
                    whole = whole.times(&self.node(part, edges));
                    if whole.size() > WHOLE {
                        self.is_too_large = true;
                        break;
                    }
                }
                whole
            }
            Node::Alt(parts) => {
                let parts: Vec<Square> = parts.iter().map(|part| self.node(part, edges)).collect();
                Square::build(self.count(), |from, to| {
                    Expr::or(parts.iter().map(|part| part.0[from][to].clone()))
                })
            }
            Node::Repeat {
                of, min, max, lazy, ..
            } => {
                let edges = if *max == Some(1) { edges } else { inside };
                let of = self.node(of, edges);
                self.repeat(&of, *min, *max, *lazy)
            }
            Node::Group(_, of) => {
                let of = self.node(of, edges);
                match self.captures {
                    // Then there is one kind of position.
                    true => Square::build(1, |_, _| Expr::Group(Box::new(of.0[0][0].clone()))),
                    false => of,
                }
            }
            Node::Back(group) => Square::diagonal(self.count(), |_| Expr::Back(*group)),
            Node::Assert(assertion) => self.assertion(*assertion, edges),
            Node::Look { ahead, negated, of } => {
                let of = self.node(of, inside);
                self.look(*ahead, *negated, &of)
            }
        }
    }

    /// A unit leads from a position between characters over a whole character or into one, and out of one.
    fn set(&self, set: &Set) -> Square {
        Square::build(self.count(), |from, to| match (from, to) {
            (0, 0) if self.is_widened && Set::surrogates().is_subset(set) => {
                Expr::set(set.union(&Set::of([BEYOND])))
            }
            (0, 0) => Expr::set(set.clone()),
            (0, inside) => match self.kinds[inside - 1].is_subset(set) {
                true => Expr::Empty,
                false => Expr::Never,
            },
            (inside, 0) => Expr::set(Set::pairs(&self.kinds[inside - 1], set)),
            _ => Expr::Never,
        })
    }

    fn repeat(&mut self, of: &Square, min: u32, max: Option<u32>, lazy: bool) -> Square {
        if self.count() == 1 || of.is_plain() {
            return Square::build(self.count(), |from, to| match (from, to) {
                (0, 0) => match (min, max) {
                    (0, None) => Expr::star(of.0[0][0].clone(), lazy),
                    _ => Expr::repeat(of.0[0][0].clone(), min, max, lazy),
                },
                (from, to) if from == to && min == 0 => Expr::Empty,
                _ => Expr::Never,
            });
        }
        if max.unwrap_or(min) <= UNROLLED
            && let Some(unrolled) = unrolled(of, min, max, lazy)
        {
            return unrolled;
        }
        if self.surrogates == Surrogates::Some {
            self.is_too_large = true;
            return Square::empty(self.count());
        }
        self.notes.push(COUNTS_CHARACTERS.to_owned());
        let round =
            (1..self.count()).map(|via| Expr::cat([of.0[0][via].clone(), of.0[via][0].clone()]));
        let once = Expr::or(std::iter::once(of.0[0][0].clone()).chain(round));
        Square::build(self.count(), |from, to| match (from, to) {
            (0, 0) => Expr::repeat(once.clone(), min, max, lazy),
            (from, to) if from == to && min == 0 => Expr::Empty,
            _ => Expr::Never,
        })
    }

    fn assertion(&self, assertion: Assertion, edges: Edges) -> Square {
        let anchor = match assertion {
            Assertion::Start => Anchor::Start,
            Assertion::End => Anchor::End,
            Assertion::LineStart => Anchor::LineStart { edge: edges.start },
            Assertion::LineEnd => Anchor::LineEnd { edge: edges.end },
            Assertion::Word { negated, folded } => Anchor::Word { negated, folded },
        };
        // No half of a character is in a word or ends a line.
        let inside = match assertion {
            Assertion::Word { negated: true, .. } => Expr::Empty,
            _ => Expr::Never,
        };
        Square::diagonal(self.count(), |kind| match kind {
            0 => Expr::Assert(anchor),
            _ => inside.clone(),
        })
    }

    fn look(&self, ahead: bool, negated: bool, of: &Square) -> Square {
        Square::diagonal(self.count(), |kind| {
            let seen = match ahead {
                true => self.ended(of, kind),
                false => Expr::or((0..self.count()).map(|from| of.0[from][kind].clone())),
            };
            match (seen, negated) {
                (Expr::Never, true) => Expr::Empty,
                (Expr::Never, false) => Expr::Never,
                (seen, _) if seen.matches_everywhere() => match negated {
                    true => Expr::Never,
                    false => Expr::Empty,
                },
                (seen, _) => Expr::Look {
                    ahead,
                    negated,
                    of: Box::new(seen),
                },
            }
        })
    }

    /// What is matched from a position on, whatever its end; one inside of a character takes that character.
    fn ended(&self, square: &Square, from: usize) -> Expr {
        let row = square.0[from].iter().enumerate();
        Expr::or(row.map(|(to, expr)| match to {
            0 => expr.clone(),
            inside => {
                let rest = Set::pairs(&self.kinds[inside - 1], &Set::of([LOW]));
                Expr::cat([expr.clone(), Expr::set(rest)])
            }
        }))
    }
}

/// A count written out, unless it becomes too large.
fn unrolled(of: &Square, min: u32, max: Option<u32>, lazy: bool) -> Option<Square> {
    let mut whole = Square::empty(of.kinds());
    for _ in 0..min {
        whole = whole.times(of);
        if whole.size() > SIZE {
            return None;
        }
    }
    let Some(max) = max else {
        return Some(whole.times(&of.star(lazy)));
    };
    let optional = of.plus(&Square::empty(of.kinds()));
    for _ in min..max {
        whole = whole.times(&optional);
        if whole.size() > SIZE {
            return None;
        }
    }
    Some(whole)
}
