//! Over-approximates a pattern with look-around or back-references by a regular expression, and computes how far the
//! pattern looks beyond its match.
//!
//! The automaton runs the *hull* of such a pattern: a regular expression that matches wherever the pattern does, and
//! elsewhere too. Look-around is left out, and a back-reference is replaced by its group. [`verify`](super::verify)
//! decides each candidate. It needs text before the start and after the end of the match: the *reach* of the pattern. A
//! pattern without a bound on its reach is refused.
//!
//! # Invariants
//!
//! 1. Every match of the pattern is a match of its hull with the same start and the same end. So no match is missed if
//!    the verification sees every end of the hull.
//! 2. A match is decided by its own text, at most `behind` characters before it and at most `ahead` characters after
//!    it. The end of a haystack within that distance decides it as well.
//! 3. The hull has at most four nodes for each state of the limit and each byte of the text: the translation stops
//!    before it has built more.
//!
//! # Complexity
//!
//! Linear in the nodes of the hull. Only a back-reference copies a group, and groups that refer to groups could double
//! at each level. `charge` counts every node and refuses such a pattern before it is expanded.

use std::ops::Range;

use fancy_regex::{Assertion, Expr, LookAround};
use regex_syntax::hir::{
    Class, ClassUnicode, ClassUnicodeRange, Dot, Hir, HirKind, Look, Repetition,
};

use super::diagnose;
use crate::PatternLimits;
use crate::pattern::{self, LookaroundError, PatternError};

pub use crate::pattern::REACH;

/// The largest depth of back-references to groups that contain back-references.
const MAX_BACKREF_DEPTH: usize = 32;

/// A pattern with look-around, back-references or atomic groups.
#[derive(Clone, Debug)]
pub struct LookaroundPattern {
    /// The over-approximation: it matches wherever the pattern does.
    pub hull: Hir,
    /// The largest number of characters after the end of a match that decide it.
    pub ahead: usize,
    /// The largest number of characters before the start of a match that decide it.
    pub behind: usize,
    /// The size of the hull and of every look-around, with their repetitions expanded. A byte of a literal counts one,
    /// and so does a range of a class.
    pub size: usize,
}

/// Parses a pattern that `regex-syntax` has refused.
///
/// # Errors
/// Returns `plain_error` if the pattern has neither look-around nor a back-reference, and another error if one of them needs
/// text without a bound.
pub fn parse(
    text: &str,
    limits: &PatternLimits,
    plain_error: PatternError,
) -> Result<LookaroundPattern, PatternError> {
    // If `regex-syntax` has found look-around, the errors of `fancy-regex` are about this pattern. Otherwise its own
    // error is the better one, unless the other parser finds that a construct of this module was the reason.
    let has_lookaround = matches!(plain_error, PatternError::NeedsLookaround { .. });
    let tree = match Expr::parse_tree(text) {
        Ok(tree) => tree,
        Err(error) if has_lookaround => return Err(syntax_error(&error, text)),
        Err(_) => return Err(plain_error),
    };
    // `fancy-regex` accepts some syntax that `regex-syntax` does not. The feature adds look-around and nothing else, so
    // a pattern of that syntax is refused as without the feature.
    if !has_lookaround
        && !needs_verification(&tree.expr)
        && !tree.expr.has_descendant(needs_verification)
    {
        return Err(plain_error);
    }
    // Back-references name groups by number, and the numbers follow the order of the opening parentheses.
    let mut groups = Vec::new();
    let mut looks = Vec::new();
    collect_nodes(&tree.expr, &mut groups, &mut looks);
    let mut approximator = Approximator {
        text,
        groups,
        looks,
        open: Vec::new(),
        depth: 0,
        nodes: 0,
        size: 0,
        limit: limits.rule_states,
    };
    let part = approximator.approximate(&tree.expr)?;
    let size = approximator.size.saturating_add(expanded_size(&part.hir));
    // The window that a stream keeps has room for this reach and no more.
    for (side, chars) in [("ahead", part.ahead), ("behind", part.behind)] {
        if chars > REACH {
            return Err(approximator.error_at(LookaroundError::TooFar { side, chars }, &tree.expr));
        }
    }
    Ok(LookaroundPattern {
        hull: part.hir,
        ahead: part.ahead,
        behind: part.behind,
        size,
    })
}

/// The size of a tree with its repetitions written out, saturating. A class counts once for each of its ranges.
fn expanded_size(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty => 0,
        HirKind::Literal(literal) => literal.0.len(),
        // `fancy-regex` compiles a class to an engine whose size grows with its ranges.
        HirKind::Class(Class::Unicode(class)) => class.ranges().len().max(1),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len().max(1),
        HirKind::Look(_) => 1,
        HirKind::Capture(capture) => expanded_size(&capture.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => subs
            .iter()
            .map(expanded_size)
            .fold(1, usize::saturating_add),
        HirKind::Repetition(repetition) => {
            // Repetitions are unrolled when they are compiled.
            let copies = repetition.max.unwrap_or(repetition.min.max(1));
            expanded_size(&repetition.sub).saturating_mul(copies as usize)
        }
    }
}

/// Returns the literals of a pattern with look-around, including those inside assertions.
pub fn literals(text: &str) -> Vec<String> {
    fn collect(expr: &Expr, out: &mut Vec<String>) {
        if let Expr::Literal { val, .. } = expr {
            out.push(val.to_string());
        }
        expr.children_iter().for_each(|child| collect(child, out));
    }
    let mut literals = Vec::new();
    if let Ok(tree) = Expr::parse_tree(text) {
        collect(&tree.expr, &mut literals);
    }
    literals
}

/// Returns the hull without assertions. It matches wherever the hull does.
pub fn without_assertions(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Look(_) => Hir::empty(),
        HirKind::Capture(capture) => without_assertions(&capture.sub),
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(without_assertions(&repetition.sub)),
            ..repetition.clone()
        }),
        HirKind::Concat(subs) => Hir::concat(subs.iter().map(without_assertions).collect()),
        HirKind::Alternation(subs) => {
            Hir::alternation(subs.iter().map(without_assertions).collect())
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
    }
}

/// Converts an error of `fancy-regex`.
pub fn syntax_error(error: &fancy_regex::Error, text: &str) -> PatternError {
    // The error of `regex-syntax` has a more precise span, so it is preferred.
    if let Some(error) = diagnose::error(text) {
        return pattern::syntax_error(&error);
    }
    let (message, span) = match error {
        fancy_regex::Error::ParseError(at, kind) => {
            let next = text.get(*at..).and_then(|rest| rest.chars().next());
            // `fancy-regex` gives an offset; the span covers the character there.
            let span = next.map_or(0..0, |char| *at..*at + char.len_utf8());
            (kind.to_string(), span)
        }
        fancy_regex::Error::CompileError(error) => (error.to_string(), 0..0),
        other => (other.to_string(), 0..0),
    };
    PatternError::Syntax { message, span }
}

fn needs_verification(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::LookAround(..)
            | Expr::Backref { .. }
            | Expr::BackrefWithRelativeRecursionLevel { .. }
            // An atomic group has no look-around, but a regular expression would also match the ends that it gives up.
            | Expr::AtomicGroup(_)
            | Expr::Conditional { .. }
            | Expr::KeepOut
            | Expr::SubroutineCall(_)
    )
}

/// Collects the groups and the look-arounds in the order in which they open. That is the order of group numbers.
fn collect_nodes<'e>(expr: &'e Expr, groups: &mut Vec<&'e Expr>, looks: &mut Vec<&'e Expr>) {
    match expr {
        Expr::Group(sub) => groups.push(sub),
        Expr::LookAround(..) => looks.push(expr),
        _ => {}
    }
    expr.children_iter()
        .for_each(|child| collect_nodes(child, groups, looks));
}

/// The approximation of a part of a pattern. Lengths and reaches are in characters.
struct Approximation {
    hir: Hir,
    /// The least and the largest length of a match; `None` if there is no largest one.
    min: usize,
    max: Option<usize>,
    /// The number of characters after the end of its match that it examines.
    ahead: usize,
    /// The number of characters before the start of its match that it examines.
    behind: usize,
}

impl Approximation {
    fn with_length(hir: Hir, length: usize) -> Approximation {
        Approximation {
            hir,
            min: length,
            max: Some(length),
            ahead: 0,
            behind: 0,
        }
    }

    fn with_reach(self, behind: usize, ahead: usize) -> Approximation {
        Approximation {
            ahead,
            behind,
            ..self
        }
    }
}

struct Approximator<'p> {
    text: &'p str,
    groups: Vec<&'p Expr>,
    looks: Vec<&'p Expr>,
    /// The groups that are open at the current position. A back-reference to one of them is recursive.
    open: Vec<usize>,
    /// The number of back-references that are being expanded.
    depth: usize,
    /// The number of nodes built so far, bounded by `limit`.
    nodes: usize,
    /// The size of the look-arounds, which are not part of the hull.
    size: usize,
    limit: usize,
}

impl<'p> Approximator<'p> {
    fn approximate(&mut self, expr: &'p Expr) -> Result<Approximation, PatternError> {
        // Before anything is built for the node.
        self.charge(1)?;
        Ok(match expr {
            Expr::Empty => Approximation::with_length(Hir::empty(), 0),
            Expr::Any { newline, crlf } => {
                let dot = match (newline, crlf) {
                    (true, _) => Dot::AnyChar,
                    (false, false) => Dot::AnyCharExceptLF,
                    (false, true) => Dot::AnyCharExceptCRLF,
                };
                Approximation::with_length(Hir::dot(dot), 1)
            }
            Expr::Assertion(assertion) => self.assertion(*assertion, expr)?,
            Expr::GeneralNewline { .. } => approximate_newline(),
            Expr::Literal { val, casei } => self.literal(val, *casei)?,
            Expr::Delegate { inner, casei } => self.class(inner, *casei)?,
            Expr::Concat(subs) => self.concat(subs)?,
            Expr::Alt(subs) => self.alternation(subs)?,
            Expr::Group(sub) => self.group(sub)?,
            Expr::Repeat { child, lo, hi, .. } => self.repetition(child, *lo, *hi)?,
            Expr::LookAround(child, which) => self.lookaround(child, *which, expr)?,
            Expr::AtomicGroup(child) => self.atomic_group(child, expr)?,
            Expr::Backref { group, casei } => self.back_reference(*group, *casei, expr)?,
            _ => {
                return Err(self.error_at(LookaroundError::Unsupported(construct_name(expr)), expr));
            }
        })
    }

    fn concat(&mut self, subs: &'p [Expr]) -> Result<Approximation, PatternError> {
        let mut whole = Approximation::with_length(Hir::empty(), 0);
        let mut hirs = Vec::with_capacity(subs.len());
        for sub in subs {
            let part = self.approximate(sub)?;
            // Each element must match at least `min` characters, so that much of what the others examine lies inside
            // the match.
            whole.ahead = part.ahead.max(whole.ahead.saturating_sub(part.min));
            // The elements before it have matched at least `whole.min` characters, which it may examine.
            whole.behind = whole.behind.max(part.behind.saturating_sub(whole.min));
            whole.min = whole.min.saturating_add(part.min);
            // One element without a longest match leaves the concatenation without one.
            whole.max = whole.max.zip(part.max).map(|(a, b)| a.saturating_add(b));
            hirs.push(part.hir);
        }
        whole.hir = Hir::concat(hirs);
        Ok(whole)
    }

    fn alternation(&mut self, subs: &'p [Expr]) -> Result<Approximation, PatternError> {
        let mut hirs = Vec::with_capacity(subs.len());
        let mut whole: Option<Approximation> = None;
        for sub in subs {
            let mut part = self.approximate(sub)?;
            hirs.push(std::mem::replace(&mut part.hir, Hir::empty()));
            whole = Some(match whole {
                None => part,
                Some(whole) => Approximation {
                    hir: whole.hir,
                    // The shortest and the longest of all alternatives, and the farthest reach of any: which one
                    // matches is not known before the verification.
                    min: whole.min.min(part.min),
                    max: whole.max.zip(part.max).map(|(a, b)| a.max(b)),
                    ahead: whole.ahead.max(part.ahead),
                    behind: whole.behind.max(part.behind),
                },
            });
        }
        // The parser gives an alternation at least one alternative; the default only avoids a panic.
        let whole = whole.unwrap_or_else(|| Approximation::with_length(Hir::empty(), 0));
        // The order of alternatives decides which match a backtracking engine prefers, not which ends are possible.
        Ok(Approximation {
            hir: Hir::alternation(hirs),
            ..whole
        })
    }

    fn group(&mut self, sub: &'p Expr) -> Result<Approximation, PatternError> {
        let number = self
            .groups
            .iter()
            // By address: two groups may have equal contents.
            .position(|other| std::ptr::eq(*other, sub));
        // Open while its content is translated, so that a back-reference to it is found to be recursive.
        self.open.extend(number);
        let part = self.approximate(sub);
        self.open
            .truncate(self.open.len() - usize::from(number.is_some()));
        part
    }

    fn repetition(
        &mut self,
        child: &'p Expr,
        lo: usize,
        hi: usize,
    ) -> Result<Approximation, PatternError> {
        let part = self.approximate(child)?;
        // The body must still be translated: it may contain an error.
        if hi == 0 {
            return Ok(Approximation::with_length(Hir::empty(), 0));
        }
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        // `fancy-regex` writes "no upper bound" as the largest number.
        let most = (hi != usize::MAX).then_some(hi);
        let max = match (part.max, most) {
            // A repeat of the empty text matches the empty text, however often.
            (Some(0), _) => Some(0),
            (Some(max), Some(most)) => Some(max.saturating_mul(most)),
            _ => None,
        };
        Ok(Approximation {
            min: part.min.saturating_mul(lo),
            max,
            hir: Hir::repetition(Repetition {
                min: count(lo),
                max: most.map(count),
                // Greediness does not change the set of ends.
                greedy: true,
                sub: Box::new(part.hir),
            }),
            // The reach is that of one iteration: what an iteration examines beyond its ends lies in its neighbours, or
            // at most as far outside as for a single one.
            ..part
        })
    }

    fn lookaround(
        &mut self,
        child: &'p Expr,
        which: LookAround,
        expr: &'p Expr,
    ) -> Result<Approximation, PatternError> {
        let part = self.approximate(child)?;
        let is_ahead = matches!(which, LookAround::LookAhead | LookAround::LookAheadNeg);
        // Without a longest match there is no last character that decides.
        let Some(max) = part.max else {
            let what = if is_ahead {
                "look-ahead"
            } else {
                "look-behind"
            };
            return Err(self.error_at(LookaroundError::Unbounded(what), expr));
        };
        // Verification compiles the look-around too, so its size counts like that of the hull.
        self.size = self.size.saturating_add(expanded_size(&part.hir));
        // A look-around consumes nothing: in the hull it is empty, and its lengths become reach.
        let empty = Approximation::with_length(Hir::empty(), 0);
        Ok(if is_ahead {
            // A look-ahead examines its own match, and beyond its ends what its content examines there.
            empty.with_reach(part.behind, max.saturating_add(part.ahead))
        } else {
            empty.with_reach(max.saturating_add(part.behind), part.ahead)
        })
    }

    /// Approximates an atomic group by its content. The group keeps its first match, so a longer alternative that it
    /// gives up decides too, and it may end later.
    fn atomic_group(
        &mut self,
        child: &'p Expr,
        expr: &'p Expr,
    ) -> Result<Approximation, PatternError> {
        let part = self.approximate(child)?;
        let beyond = match (part.max, child) {
            // One more character decides that a repeat of a class ends.
            (_, Expr::Repeat { child, .. }) if is_one_char(child) => 1,
            // Any alternative between the shortest and the longest match may be the one that the group gives up.
            (Some(max), _) => max - part.min,
            (None, _) => {
                return Err(self.error_at(LookaroundError::Unbounded("atomic group"), expr));
            }
        };
        Ok(Approximation {
            ahead: part.ahead.saturating_add(beyond),
            ..part
        })
    }

    fn back_reference(
        &mut self,
        group: usize,
        casei: bool,
        expr: &'p Expr,
    ) -> Result<Approximation, PatternError> {
        let number = group.wrapping_sub(1);
        let Some(&sub) = self.groups.get(number) else {
            // The parser accepts a number without a group.
            let message = format!("there is no group {group} to refer back to");
            return Err(PatternError::Syntax {
                message,
                span: 0..0,
            });
        };
        // Groups that refer to groups are expanded again for each reference. Without a bound on the depth, the call
        // stack would be as deep as a pattern is long.
        if self.open.contains(&number) || self.depth >= MAX_BACKREF_DEPTH {
            return Err(self.error_at(LookaroundError::Recursive, expr));
        }
        // Bounds the recursion of this function; the number of nodes is bounded by `charge`.
        self.depth += 1;
        let part = self.group(sub);
        self.depth -= 1;
        let part = part?;
        // A back-reference compares text. The assertions of its group are not evaluated again.
        let hir = without_assertions(&part.hir);
        Ok(Approximation {
            hir: if casei { case_folded(&hir) } else { hir },
            // The lengths of the group remain: a back-reference matches a text of one of them.
            ahead: 0,
            behind: 0,
            ..part
        })
    }

    fn literal(&mut self, text: &str, casei: bool) -> Result<Approximation, PatternError> {
        // A literal is one node, and as many states as bytes.
        self.charge(text.len())?;
        // `Hir` has no flag for case, so a literal is expanded to classes.
        let hir = Hir::literal(text.as_bytes());
        let hir = if casei { case_folded(&hir) } else { hir };
        Ok(Approximation::with_length(hir, text.chars().count()))
    }

    fn class(&mut self, inner: &str, casei: bool) -> Result<Approximation, PatternError> {
        // `fancy-regex` keeps classes as text and gives them to `regex-syntax` itself, so this is the class that the
        // verification uses.
        let hir = regex_syntax::ParserBuilder::new()
            .case_insensitive(casei)
            .build()
            .parse(inner);
        match hir {
            Ok(hir) => Ok(Approximation::with_length(hir, 1)),
            Err(error) => Err(PatternError::Syntax {
                // The span would count bytes of `inner`, not of the pattern, so it is left out.
                message: match error {
                    regex_syntax::Error::Parse(error) => error.kind().to_string(),
                    regex_syntax::Error::Translate(error) => error.kind().to_string(),
                    other => other.to_string(),
                },
                span: 0..0,
            }),
        }
    }

    fn assertion(
        &mut self,
        assertion: Assertion,
        expr: &Expr,
    ) -> Result<Approximation, PatternError> {
        // One character on each side that the definition of the assertion mentions.
        // The automaton evaluates these assertions itself. They stay in the hull, and their reach counts as well,
        // because the verification starts at the match and must see the same neighbours.
        let (look, behind, ahead) = match assertion {
            Assertion::StartText => (Look::Start, 1, 0),
            Assertion::EndText => (Look::End, 0, 1),
            Assertion::StartLine { crlf: false } => (Look::StartLF, 1, 0),
            Assertion::StartLine { crlf: true } => (Look::StartCRLF, 1, 1),
            Assertion::EndLine { crlf: false } => (Look::EndLF, 0, 1),
            Assertion::EndLine { crlf: true } => (Look::EndCRLF, 1, 1),
            Assertion::LeftWordBoundary => (Look::WordStartUnicode, 1, 1),
            Assertion::RightWordBoundary => (Look::WordEndUnicode, 1, 1),
            Assertion::LeftWordHalfBoundary => (Look::WordStartHalfUnicode, 1, 0),
            Assertion::RightWordHalfBoundary => (Look::WordEndHalfUnicode, 0, 1),
            Assertion::WordBoundary => (Look::WordUnicode, 1, 1),
            Assertion::NotWordBoundary => (Look::WordUnicodeNegate, 1, 1),
            // Anything else has no over-approximation that is known to be sound, so it is refused rather than guessed.
            _ => return Err(self.error_at(LookaroundError::Unsupported("`\\Z`"), expr)),
        };
        Ok(Approximation::with_length(Hir::look(look), 0).with_reach(behind, ahead))
    }

    /// Counts nodes before they are built. Fails when they exceed the limit.
    fn charge(&mut self, nodes: usize) -> Result<(), PatternError> {
        self.nodes = self.nodes.saturating_add(nodes);
        // An expression has more nodes than states, at most a few for each state or byte of its text.
        if self.nodes / 4 > self.limit.saturating_add(self.text.len()) {
            return Err(PatternError::TooBig {
                states: self.nodes,
                limit: self.limit,
            });
        }
        Ok(())
    }

    fn error_at(&self, error: LookaroundError, expr: &Expr) -> PatternError {
        // Only look-arounds have spans; other nodes are reported without one.
        let look = self
            .looks
            .iter()
            .position(|other| std::ptr::eq(*other, expr));
        let written = lookaround_spans(self.text);
        let span = match (look, &error) {
            // If the counts differ, this scan and the parser disagree, for example about a comment. Then there is no
            // span.
            (Some(look), _) if written.len() == self.looks.len() => written[look].clone(),
            _ => 0..0,
        };
        PatternError::Lookaround { error, span }
    }
}

fn construct_name(expr: &Expr) -> &'static str {
    match expr {
        Expr::KeepOut => "`\\K`",
        Expr::ContinueFromPreviousMatchEnd => "`\\G`",
        Expr::Conditional { .. } | Expr::BackrefExistsCondition { .. } => "a conditional",
        Expr::SubroutineCall(_) | Expr::DefineGroup { .. } => "a subroutine",
        Expr::BackrefWithRelativeRecursionLevel { .. } => "a back-reference with a recursion level",
        Expr::BacktrackingControlVerb(_) => "a backtracking verb",
        Expr::Absent(_) => "an absent operator",
        _ => "a construct of this pattern",
    }
}

fn is_one_char(expr: &Expr) -> bool {
    match expr {
        // A delegate is a class: see `class`.
        Expr::Any { .. } | Expr::Delegate { .. } => true,
        Expr::Literal { val, .. } => val.chars().count() == 1,
        Expr::Group(sub) => is_one_char(sub),
        _ => false,
    }
}

/// Returns the approximation of `\R`. After `\r` it examines the next character, which may be `\n`.
fn approximate_newline() -> Approximation {
    let range = |start, end| ClassUnicodeRange::new(start, end);
    // The characters that `\R` matches by themselves: from line feed to carriage return, and the Unicode separators.
    let terminators = ClassUnicode::new([
        range('\n', '\r'),
        range('\u{85}', '\u{85}'),
        range('\u{2028}', '\u{2029}'),
    ]);
    let hir = Hir::alternation(vec![
        Hir::literal(*b"\r\n"),
        Hir::class(Class::Unicode(terminators)),
    ]);
    Approximation {
        hir,
        min: 1,
        max: Some(2),
        ahead: 1,
        behind: 0,
    }
}

/// Returns an expression that matches whatever differs from a match of `hir` at most in case.
fn case_folded(hir: &Hir) -> Hir {
    let fold = |mut class: ClassUnicode| {
        // Simple folding, as in `regex-syntax`: a character stands for one character, so lengths do not change.
        class.try_case_fold_simple().expect(
            "the tables for folding are compiled in: `regex-syntax` has all Unicode features",
        );
        Hir::class(Class::Unicode(class))
    };
    match hir.kind() {
        HirKind::Literal(literal) => {
            let text = String::from_utf8_lossy(&literal.0);
            let chars = text
                .chars()
                .map(|char| fold(ClassUnicode::new([ClassUnicodeRange::new(char, char)])));
            Hir::concat(chars.collect())
        }
        HirKind::Class(Class::Unicode(class)) => fold(class.clone()),
        // A byte class that is not ASCII has no case.
        HirKind::Class(Class::Bytes(class)) => match class.to_unicode_class() {
            Some(class) => fold(class),
            None => hir.clone(),
        },
        HirKind::Capture(capture) => case_folded(&capture.sub),
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(case_folded(&repetition.sub)),
            ..repetition.clone()
        }),
        HirKind::Concat(subs) => Hir::concat(subs.iter().map(case_folded).collect()),
        HirKind::Alternation(subs) => Hir::alternation(subs.iter().map(case_folded).collect()),
        HirKind::Empty | HirKind::Look(_) => hir.clone(),
    }
}

/// Returns the spans of the look-arounds in the text of a pattern, in the order in which they open.
///
/// `fancy-regex` has no spans in its tree, so the text is scanned for parentheses outside of classes and escapes.
fn lookaround_spans(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut looks: Vec<Range<usize>> = Vec::new();
    // By open parenthesis: the index of its look-around, if it is one.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut class_depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        match byte {
            b'\\' => at += 1,
            b'[' => {
                class_depth += 1;
                // A `]` in first position is a literal.
                at += usize::from(rest.get(1) == Some(&b'^'));
                at += usize::from(bytes.get(at + 1) == Some(&b']'));
            }
            b']' => class_depth = class_depth.saturating_sub(1),
            b'(' if class_depth == 0 => {
                // A named group begins with `(?<`, too, but neither `=` nor `!` can begin a name.
                let is_look = [&b"(?="[..], b"(?!", b"(?<=", b"(?<!"]
                    .iter()
                    .any(|start| rest.starts_with(start));
                open.push(is_look.then_some(looks.len()));
                if is_look {
                    // To the end of the text until its parenthesis is found, which there is always in a pattern that
                    // was parsed.
                    looks.push(at..text.len());
                }
            }
            b')' if class_depth == 0 => {
                if let Some(Some(look)) = open.pop() {
                    looks[look].end = at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approximated(text: &str) -> Result<LookaroundPattern, PatternError> {
        let plain_error = PatternError::NeedsLookaround {
            construct: "look-around",
            span: 0..0,
        };
        parse(text, &PatternLimits::default(), plain_error)
    }

    #[test]
    fn the_hull_leaves_look_around_out_and_the_reach_is_what_can_decide() {
        // Pattern, hull, characters ahead, characters behind.
        let cases = [
            ("foo(?!bar)", "foo", 3, 0),
            ("foo(?!bar$)", "foo", 4, 0),
            (r"(?<!\w)rm(?= -rf)", "rm", 4, 1),
            (r"(a|b)x\1", "([ab])x([ab])", 0, 0),
            (r"(?<=key=)\w{4}", r"\w{4}", 0, 4),
            (r"(?<=^ab)c", "c", 0, 3),
            ("(?!AKIA)[A-Z]{20}", "[A-Z]{20}", 0, 0),
            ("(?!AKIAxx)[A-Z]{4}", "[A-Z]{4}", 2, 0),
            ("[a-z]{3}(?<!abc)", "[a-z]{3}", 0, 0),
            (r"\bfoo\b(?!\()", r"\bfoo\b", 1, 1),
            (r"foo(?!\b)", "foo", 1, 0),
            (r"(?:a(?=b)|c(?=def))g?", "[ac]g?", 3, 0),
            (r"(?i:(k))(?-i:\1)", r"((?i:k))(?i:k)", 0, 0),
            (r"(k)(?i:\1)", r"(k)(?i:k)", 0, 0),
            (r"(\bk)-\1", r"\bk-k", 0, 1),
            (r"([^a])(?i:\1)", r"([^a])(?s:.)", 0, 0),
            ("a++b(?=c)", "a+b", 1, 0),
            ("x(?>ab|a)", "x(?:ab|a)", 1, 0),
            (r"(?<q>['x])y\k<q>", "(['x])y(['x])", 0, 0),
            (r"(?m)^a(?=b)$", "(?m)^a$", 1, 1),
            ("(?:a(?=bc)){2}", "(?:a){2}", 2, 0),
            (r"(?=a\Rb)\wx", r"\wx", 2, 0),
            (r"(?x) fo+ (?=b) # (?=...)", "fo+", 1, 0),
            (r"((?:\bk)+)-\1", r"(?:\bk)+-k+", 0, 1),
            (r"(k+)(?i:\1)", "k+(?i:k+)", 0, 0),
            (r"(k(?=-))-\1", "k-k", 0, 0),
            ("(?:a|)x(?=b)", "(?:a|)x", 1, 0),
            ("(?<=(?:a{0})*ab)c", "c", 0, 2),
            ("x(?>[ab]+)", "x[ab]+", 1, 0),
            ("x(?>(a)+)", "xa+", 1, 0),
            (r"(?mR)^a$(?=\r)", "(?mR)^a$", 1, 1),
            (r"\b{start}a\b{end}(?=-)", r"\b{start}a\b{end}", 1, 1),
            (
                r"\b{start-half}a\b{end-half}(?=-)",
                r"\b{start-half}a\b{end-half}",
                1,
                1,
            ),
            (r"\Ba(?=b)", r"\Ba", 1, 1),
            ("a(?=b{256})", "a", 256, 0),
        ];
        for (text, hull, ahead, behind) in cases {
            let got = approximated(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            let want = regex_syntax::parse(hull).unwrap();
            let same = |hir: &Hir| regex_syntax::parse(&without_captures(hir).to_string()).unwrap();
            assert_eq!(same(&got.hull), same(&want), "hull of {text}");
            assert_eq!((got.ahead, got.behind), (ahead, behind), "reach of {text}");
        }
    }

    fn without_captures(hir: &Hir) -> Hir {
        match hir.kind() {
            HirKind::Capture(capture) => without_captures(&capture.sub),
            HirKind::Repetition(repetition) => Hir::repetition(Repetition {
                greedy: true,
                sub: Box::new(without_captures(&repetition.sub)),
                ..repetition.clone()
            }),
            HirKind::Concat(subs) => Hir::concat(subs.iter().map(without_captures).collect()),
            HirKind::Alternation(subs) => {
                Hir::alternation(subs.iter().map(without_captures).collect())
            }
            _ => hir.clone(),
        }
    }

    #[test]
    fn a_pattern_that_no_window_can_verify_is_refused_with_its_span() {
        let unbounded = |what| LookaroundError::Unbounded(what);
        let cases = [
            ("foo(?!.*x)", unbounded("look-ahead"), "(?!.*x)"),
            (r"(?<=\s+)foo", unbounded("look-behind"), r"(?<=\s+)"),
            (r"[(?=]\((?=a)b(?!c*)", unbounded("look-ahead"), "(?!c*)"),
            ("[](?=]x(?=a(?!b+))", unbounded("look-ahead"), "(?!b+)"),
            (r"a(?!\)c*)", unbounded("look-ahead"), r"(?!\)c*)"),
            ("[a]x(?!c*)", unbounded("look-ahead"), "(?!c*)"),
            ("x(?![)]c*)", unbounded("look-ahead"), "(?![)]c*)"),
            ("(?x)a # (?=b)\n(?=c*)", unbounded("look-ahead"), ""),
            ("(?>a|b*)c", unbounded("atomic group"), ""),
            ("x(?>(?:ab)+)c", unbounded("atomic group"), ""),
            (
                "a(?=b{300})",
                LookaroundError::TooFar {
                    side: "ahead",
                    chars: 300,
                },
                "",
            ),
            (
                "(?<=(?:ab){200})c",
                LookaroundError::TooFar {
                    side: "behind",
                    chars: 400,
                },
                "",
            ),
            (r"a\Kb(?=c)", LookaroundError::Unsupported(r"`\K`"), ""),
            (r"a\Gb(?=c)", LookaroundError::Unsupported(r"`\G`"), ""),
            (
                r"(a)?b(?(1)c|d)",
                LookaroundError::Unsupported("a conditional"),
                "",
            ),
            (r"(a|b\1)+c", LookaroundError::Recursive, ""),
            (
                r"(?<n>a\g<n>?b)(?=c)",
                LookaroundError::Unsupported("a subroutine"),
                "",
            ),
            (r"a(?=b)\Z", LookaroundError::Unsupported(r"`\Z`"), ""),
            (
                r"(a)\k<1+0>(?=b)",
                LookaroundError::Unsupported("a back-reference with a recursion level"),
                "",
            ),
            (
                "a(*FAIL)(?=b)",
                LookaroundError::Unsupported("a backtracking verb"),
                "",
            ),
            (
                "a(?~cd)(?=b)",
                LookaroundError::Unsupported("an absent operator"),
                "",
            ),
        ];
        for (text, want, place) in cases {
            match approximated(text) {
                Err(PatternError::Lookaround { error, span }) => {
                    assert_eq!((error, &text[span]), (want, place), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn four_nodes_for_each_state_and_each_byte_are_built_and_no_more() {
        let mut approximator = Approximator {
            text: "0123456789",
            groups: Vec::new(),
            looks: Vec::new(),
            open: Vec::new(),
            depth: 0,
            nodes: 0,
            size: 0,
            limit: 90,
        };
        assert!(approximator.charge(4 * 100 + 3).is_ok());
        let Err(PatternError::TooBig { states, limit }) = approximator.charge(1) else {
            panic!("{} nodes were built", approximator.nodes);
        };
        assert_eq!((states, limit), (404, 90));
        assert!(
            approximator.charge(usize::MAX).is_err(),
            "not counted past the end"
        );
    }

    #[test]
    fn hostile_references_are_refused_before_they_are_expanded() {
        let mut doubling = "(a)".to_owned();
        (1..40).for_each(|group| doubling += &format!(r"(\{group}\{group})"));
        let mut chain = "(a)".to_owned();
        (1..4000).for_each(|group| chain += &format!(r"(\{group})"));
        assert!(matches!(
            approximated(&doubling),
            Err(PatternError::TooBig { .. })
        ));
        assert!(matches!(
            approximated(&chain),
            Err(PatternError::Lookaround {
                error: LookaroundError::Recursive,
                ..
            })
        ));
        for text in ["(", r"(?=a)\9", "(?<=", r"\1", "(?=a)[", "(?=a)(?-u:x)"] {
            assert!(approximated(text).is_err(), "{text}");
        }
    }
}
