//! Lowers a pattern over code units to an expression over characters.
//!
//! A text of characters, read as UTF-16, has two kinds of positions: between characters, and inside a character, after
//! the high surrogate of its pair. A pattern becomes a square matrix of expressions: entry `(i, j)` matches from a
//! position of kind `i` to a position of kind `j`. Row and column 0 are the positions between characters. The others are
//! the positions inside, one for each set of high surrogates that the pattern distinguishes (usually one: all of them).
//! The character itself is matched together with its low surrogate, so a position inside a character lies before it.
//!
//! Matrices are added and multiplied as usual and repeated by Kleene's construction, which covers alternatives,
//! sequences and loops. A pattern whose sets have no surrogates has one kind of position.

use super::expr::{Anchor, Expr};
use super::parse::{Assertion, LookKind, ParsedRegExp, PatternNode};
use super::set::{BEYOND, CharSet, HIGH, LOW};
use super::{RegExpFlags, Translation, Untranslatable};

/// Maximum number of sets of high surrogates that a pattern may distinguish.
const KINDS: usize = 8;
/// Maximum repetition count that is unrolled if the repeated expression has kinds inside characters.
const UNROLLED: u32 = 16;
/// Maximum size of an unrolled repetition.
const SIZE: usize = 2_000;
/// Maximum size of a translation by code unit; a larger one is replaced by a translation by character.
const WHOLE: usize = 16_000;
/// Maximum length of a translation in bytes.
const WRITTEN: usize = 48 << 10;

const COUNTS_CHARACTERS: &str = "a count is of characters here, and of UTF-16 units in JavaScript: a character beyond \
                                 U+FFFF counts once, not twice";
const MATCHES_EMPTY: &str =
    "it matches the empty text and therefore any text: it acts at the first character";
const TOO_LARGE: &str = "the translated pattern is too large";
const BACK: &str = "a back-reference to a group that may have captured nothing";

pub(super) fn lower(
    parsed: ParsedRegExp,
    flags: RegExpFlags,
) -> Result<Translation, Untranslatable> {
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
            "a back-reference beside a class with surrogates; flag `u` makes it a class of characters"
                .to_owned(),
        ));
    }
    match finish(&parsed, flags, kinds(&highs)?, surrogates) {
        Some(translation) => translation,
        None if surrogates == Surrogates::Some => Err(Untranslatable(
            "surrogates in too many places; flag `u` makes them characters".to_owned(),
        )),
        None => {
            let mut translation = finish(&parsed, flags, Vec::new(), surrogates)
                .unwrap_or_else(|| Err(Untranslatable(TOO_LARGE.to_owned())))?;
            translation.notes.push(COUNTS_CHARACTERS.to_owned());
            Ok(translation)
        }
    }
}

/// Returns the translation with those kinds of positions inside characters. Without kinds, and without `u` and `v`, a
/// set that contains all surrogates contains the characters above U+FFFF instead. Returns `None` if it is too large.
fn finish(
    parsed: &ParsedRegExp,
    flags: RegExpFlags,
    kinds: Vec<CharSet>,
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
    let edges = PatternEdges {
        start: !flags.sticky,
        end: true,
    };
    let square = lowering.node(&parsed.node, edges);
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

/// Returns true if each referenced group has certainly captured a text before the reference: it precedes it in an
/// enclosing sequence. Elsewhere a reference matches the empty text in JavaScript and nothing here.
fn back_references_hold(node: &PatternNode, captured: &mut Vec<u32>) -> bool {
    match node {
        PatternNode::Empty | PatternNode::CharSet(_) | PatternNode::Assert(_) => true,
        PatternNode::Back(group) => captured.contains(group),
        PatternNode::Seq(parts) => parts
            .iter()
            .all(|part| back_references_hold(part, captured)),
        PatternNode::Group(number, of) => {
            let holds = back_references_hold(of, captured);
            captured.push(*number);
            holds
        }
        PatternNode::Repeat { of, min: 1.., .. } => back_references_hold(of, captured),
        PatternNode::Repeat { of, .. } => back_references_hold(of, &mut captured.clone()),
        PatternNode::Alt(parts) => parts
            .iter()
            .all(|part| back_references_hold(part, &mut captured.clone())),
        PatternNode::Look { kind, of } => match kind {
            LookKind::Ahead => back_references_hold(of, captured),
            LookKind::NotAhead => back_references_hold(of, &mut captured.clone()),
            // JavaScript matches look-behind from its end to its start.
            LookKind::Behind | LookKind::NotBehind => back_references_hold(of, &mut Vec::new()),
        },
    }
}

/// The number of surrogates in the sets of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Surrogates {
    None,
    /// Each set contains none of them or all.
    All,
    Some,
}

fn collect(node: &PatternNode, highs: &mut Vec<CharSet>, surrogates: &mut Surrogates) {
    match node {
        PatternNode::CharSet(set) => {
            let has = match set.intersect(&CharSet::surrogates()) {
                none if none.is_empty() => Surrogates::None,
                all if all == CharSet::surrogates() => Surrogates::All,
                _ => Surrogates::Some,
            };
            *surrogates = (*surrogates).max(has);
            let high = set.intersect(&CharSet::from_ranges([HIGH]));
            if !highs.contains(&high) {
                highs.push(high);
            }
        }
        PatternNode::Seq(parts) | PatternNode::Alt(parts) => {
            for part in parts {
                collect(part, highs, surrogates);
            }
        }
        PatternNode::Repeat { of, .. }
        | PatternNode::Group(_, of)
        | PatternNode::Look { of, .. } => {
            collect(of, highs, surrogates);
        }
        PatternNode::Empty | PatternNode::Back(_) | PatternNode::Assert(_) => {}
    }
}

/// Partitions the high surrogates so that each of `highs` is a union of kinds.
fn kinds(highs: &[CharSet]) -> Result<Vec<CharSet>, Untranslatable> {
    let mut kinds = vec![CharSet::from_ranges([HIGH])];
    for high in highs {
        let parts = kinds
            .iter()
            .flat_map(|kind| [kind.intersect(high), kind.minus(high)]);
        kinds = parts.filter(|part| !part.is_empty()).collect();
        if kinds.len() > KINDS {
            return Err(Untranslatable(
                "too many different sets of surrogates; flag `u` makes them characters".to_owned(),
            ));
        }
    }
    Ok(kinds)
}

/// The edges of the pattern that a node touches.
#[derive(Clone, Copy)]
struct PatternEdges {
    start: bool,
    end: bool,
}

impl PatternEdges {
    const NONE: PatternEdges = PatternEdges {
        start: false,
        end: false,
    };
}

/// A matrix of expressions, indexed by the kinds of their start and end positions.
#[derive(Clone)]
struct ExprMatrix(Vec<Vec<Expr>>);

impl ExprMatrix {
    fn build(kinds: usize, entry: impl Fn(usize, usize) -> Expr) -> ExprMatrix {
        let row = |from| (0..kinds).map(|to| entry(from, to)).collect();
        ExprMatrix((0..kinds).map(row).collect())
    }

    fn kinds(&self) -> usize {
        self.0.len()
    }

    fn empty(kinds: usize) -> ExprMatrix {
        ExprMatrix::diagonal(kinds, |_| Expr::Empty)
    }

    fn diagonal(kinds: usize, entry: impl Fn(usize) -> Expr) -> ExprMatrix {
        ExprMatrix::build(kinds, |from, to| match from == to {
            true => entry(from),
            false => Expr::Never,
        })
    }

    fn times(&self, other: &ExprMatrix) -> ExprMatrix {
        let kinds = self.kinds();
        ExprMatrix::build(kinds, |from, to| {
            Expr::or(
                (0..kinds)
                    .map(|via| Expr::cat([self.0[from][via].clone(), other.0[via][to].clone()])),
            )
        })
    }

    fn plus(&self, other: &ExprMatrix) -> ExprMatrix {
        ExprMatrix::build(self.kinds(), |from, to| {
            Expr::or([self.0[from][to].clone(), other.0[from][to].clone()])
        })
    }

    /// Kleene star: eliminates the positions inside characters first.
    fn star(&self, lazy: bool) -> ExprMatrix {
        let kinds = self.kinds();
        let mut paths = self.clone();
        for via in (0..kinds).rev() {
            let round = paths.0[via][via].clone();
            let again = Expr::star(round.clone(), lazy);
            let old = paths.clone();
            paths = ExprMatrix::build(kinds, |from, to| {
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
        paths.plus(&ExprMatrix::empty(kinds))
    }

    fn size(&self) -> usize {
        let all = self.0.iter().flatten().map(Expr::size);
        all.fold(0, usize::saturating_add)
    }

    /// Returns true if only the entry from and to positions between characters is nonempty.
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
    /// The sets of high surrogates. There is one more kind of position than sets.
    kinds: Vec<CharSet>,
    captures: bool,
    /// True if a set with all surrogates contains the characters above U+FFFF instead.
    is_widened: bool,
    /// If a set contains some surrogates but not all, a repetition count of code units is not one of characters.
    surrogates: Surrogates,
    /// True if the translation was abandoned because of its size.
    is_too_large: bool,
    notes: Vec<String>,
}

impl Lowering {
    fn count(&self) -> usize {
        self.kinds.len() + 1
    }

    fn node(&mut self, node: &PatternNode, edges: PatternEdges) -> ExprMatrix {
        if self.is_too_large {
            return ExprMatrix::empty(self.count());
        }
        let square = self.node_of_any_size(node, edges);
        self.is_too_large |= square.size() > WHOLE;
        square
    }

    fn node_of_any_size(&mut self, node: &PatternNode, edges: PatternEdges) -> ExprMatrix {
        match node {
            PatternNode::Empty => ExprMatrix::empty(self.count()),
            PatternNode::CharSet(set) => self.set(set),
            PatternNode::Seq(parts) => {
                let last = parts.len() - 1;
                let mut whole = ExprMatrix::empty(self.count());
                for (at, part) in parts.iter().enumerate() {
                    let edges = PatternEdges {
                        start: edges.start && at == 0,
                        end: edges.end && at == last,
                    };
                    whole = whole.times(&self.node(part, edges));
                    if whole.size() > WHOLE {
                        self.is_too_large = true;
                        break;
                    }
                }
                whole
            }
            PatternNode::Alt(parts) => {
                let parts: Vec<ExprMatrix> =
                    parts.iter().map(|part| self.node(part, edges)).collect();
                ExprMatrix::build(self.count(), |from, to| {
                    Expr::or(parts.iter().map(|part| part.0[from][to].clone()))
                })
            }
            PatternNode::Repeat {
                of, min, max, lazy, ..
            } => {
                let edges = match *max {
                    Some(1) => edges,
                    _ => PatternEdges::NONE,
                };
                let of = self.node(of, edges);
                self.repeat(&of, *min, *max, *lazy)
            }
            PatternNode::Group(_, of) => {
                let of = self.node(of, edges);
                match self.captures {
                    // There is only one kind of position then.
                    true => ExprMatrix::build(1, |_, _| Expr::Group(Box::new(of.0[0][0].clone()))),
                    false => of,
                }
            }
            PatternNode::Back(group) => ExprMatrix::diagonal(self.count(), |_| Expr::Back(*group)),
            PatternNode::Assert(assertion) => self.assertion(*assertion, edges),
            PatternNode::Look { kind, of } => {
                let of = self.node(of, PatternEdges::NONE);
                self.lookaround(*kind, &of)
            }
        }
    }

    /// A code unit leads from a position between characters over a whole character or into one, or out of one.
    fn set(&self, set: &CharSet) -> ExprMatrix {
        ExprMatrix::build(self.count(), |from, to| match (from, to) {
            (0, 0) if self.is_widened && CharSet::surrogates().is_subset(set) => {
                Expr::set(set.union(&CharSet::from_ranges([BEYOND])))
            }
            (0, 0) => Expr::set(set.clone()),
            (0, inside) => match self.kinds[inside - 1].is_subset(set) {
                true => Expr::Empty,
                false => Expr::Never,
            },
            (inside, 0) => Expr::set(CharSet::pairs(&self.kinds[inside - 1], set)),
            _ => Expr::Never,
        })
    }

    fn repeat(&mut self, of: &ExprMatrix, min: u32, max: Option<u32>, lazy: bool) -> ExprMatrix {
        if self.count() == 1 || of.is_plain() {
            return ExprMatrix::build(self.count(), |from, to| match (from, to) {
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
            return ExprMatrix::empty(self.count());
        }
        self.notes.push(COUNTS_CHARACTERS.to_owned());
        let round =
            (1..self.count()).map(|via| Expr::cat([of.0[0][via].clone(), of.0[via][0].clone()]));
        let once = Expr::or(std::iter::once(of.0[0][0].clone()).chain(round));
        ExprMatrix::build(self.count(), |from, to| match (from, to) {
            (0, 0) => Expr::repeat(once.clone(), min, max, lazy),
            (from, to) if from == to && min == 0 => Expr::Empty,
            _ => Expr::Never,
        })
    }

    fn assertion(&self, assertion: Assertion, edges: PatternEdges) -> ExprMatrix {
        let anchor = match assertion {
            Assertion::Start => Anchor::Start,
            Assertion::End => Anchor::End,
            Assertion::LineStart => Anchor::LineStart { edge: edges.start },
            Assertion::LineEnd => Anchor::LineEnd { edge: edges.end },
            Assertion::Word { negated, folded } => Anchor::Word { negated, folded },
        };
        // A position inside a character has no word character and no line terminator on either side.
        let inside = match assertion {
            Assertion::Word { negated: true, .. } => Expr::Empty,
            _ => Expr::Never,
        };
        ExprMatrix::diagonal(self.count(), |kind| match kind {
            0 => Expr::Assert(anchor),
            _ => inside.clone(),
        })
    }

    fn lookaround(&self, kind: LookKind, of: &ExprMatrix) -> ExprMatrix {
        ExprMatrix::diagonal(self.count(), |at| {
            let seen = match kind.is_ahead() {
                true => self.ended(of, at),
                false => Expr::or((0..self.count()).map(|from| of.0[from][at].clone())),
            };
            match (seen, kind.is_negated()) {
                (Expr::Never, true) => Expr::Empty,
                (Expr::Never, false) => Expr::Never,
                (seen, is_negated) if seen.matches_everywhere() => match is_negated {
                    true => Expr::Never,
                    false => Expr::Empty,
                },
                (seen, _) => Expr::Look {
                    kind,
                    of: Box::new(seen),
                },
            }
        })
    }

    /// Returns the expression from a kind of position to any end. An end inside a character includes that character.
    fn ended(&self, square: &ExprMatrix, from: usize) -> Expr {
        let row = square.0[from].iter().enumerate();
        Expr::or(row.map(|(to, expr)| match to {
            0 => expr.clone(),
            inside => {
                let rest = CharSet::pairs(&self.kinds[inside - 1], &CharSet::from_ranges([LOW]));
                Expr::cat([expr.clone(), Expr::set(rest)])
            }
        }))
    }
}

/// Returns an unrolled repetition, or `None` if it becomes too large.
fn unrolled(of: &ExprMatrix, min: u32, max: Option<u32>, lazy: bool) -> Option<ExprMatrix> {
    let mut whole = ExprMatrix::empty(of.kinds());
    for _ in 0..min {
        whole = whole.times(of);
        if whole.size() > SIZE {
            return None;
        }
    }
    let Some(max) = max else {
        return Some(whole.times(&of.star(lazy)));
    };
    let optional = of.plus(&ExprMatrix::empty(of.kinds()));
    for _ in min..max {
        whole = whole.times(&optional);
        if whole.size() > SIZE {
            return None;
        }
    }
    Some(whole)
}
