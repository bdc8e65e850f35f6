//! Patterns with look-around and back-references: what they can match at most, and how far they see.
//!
//! The automaton runs the *hull* of such a pattern: a regular expression that matches wherever the
//! pattern does, and elsewhere too, for look-around is left out and a back-reference stands for all that
//! its group can match. `confirm` decides. That needs text beyond the end of the match and before its
//! start; how many characters is worked out here, and what has no bound is refused.

use std::ops::Range;

use fancy_regex::{Assertion, Expr, LookAround};
use regex_syntax::hir::{
    Class, ClassUnicode, ClassUnicodeRange, Dot, Hir, HirKind, Look, Repetition,
};

use super::diagnose;
use crate::PatternLimits;
use crate::pattern::{self, LookaroundFault, Refused};

pub use crate::pattern::REACH;

/// Back-references to groups with back-references, that deep.
const DEPTH: usize = 32;

/// A pattern that looks around.
#[derive(Clone, Debug)]
pub struct Around {
    /// Matches wherever the pattern does.
    pub hull: Hir,
    /// Most characters that decide about a match after its end.
    pub ahead: usize,
    /// Most characters that decide about a match before its start.
    pub behind: usize,
    /// Size of the hull and of every look-around, with their repetitions written out: a byte of a literal counts one,
    /// and so does a range of a class.
    pub size: usize,
}

/// Parses a pattern that `regex-syntax` has refused; gives `refused` back where the pattern neither
/// looks around nor refers back.
pub fn parse(text: &str, limits: &PatternLimits, refused: Refused) -> Result<Around, Refused> {
    let is_around = matches!(refused, Refused::LookAround { .. });
    let tree = match Expr::parse_tree(text) {
        Ok(tree) => tree,
        Err(error) if is_around => return Err(syntax_error(&error, text)),
        Err(_) => return Err(refused),
    };
    if !is_around && !needs_confirm(&tree.expr) && !tree.expr.has_descendant(needs_confirm) {
        return Err(refused);
    }
    let mut groups = Vec::new();
    let mut looks = Vec::new();
    collect(&tree.expr, &mut groups, &mut looks);
    let mut walk = PatternWalk {
        text,
        groups,
        looks,
        open: Vec::new(),
        depth: 0,
        nodes: 0,
        size: 0,
        limit: limits.rule_states,
    };
    let piece = walk.piece(&tree.expr)?;
    let size = walk.size.saturating_add(size(&piece.hir));
    for (side, chars) in [("ahead", piece.ahead), ("behind", piece.behind)] {
        if chars > REACH {
            return Err(walk.refuse(LookaroundFault::TooFar { side, chars }, &tree.expr));
        }
    }
    Ok(Around {
        hull: piece.hir,
        ahead: piece.ahead,
        behind: piece.behind,
        size,
    })
}

/// The size of a tree with its repetitions written out, saturating. A class counts once for each of its ranges.
fn size(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => class.ranges().len().max(1),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len().max(1),
        HirKind::Look(_) => 1,
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => {
            subs.iter().map(size).fold(1, usize::saturating_add)
        }
        HirKind::Repetition(repetition) => {
            let copies = repetition.max.unwrap_or(repetition.min.max(1));
            size(&repetition.sub).saturating_mul(copies as usize)
        }
    }
}

/// The literal texts of a pattern that looks around, those inside of its assertions included.
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

/// The same hull without assertions: it matches wherever the hull does.
pub fn without_looks(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Look(_) => Hir::empty(),
        HirKind::Capture(capture) => without_looks(&capture.sub),
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(without_looks(&repetition.sub)),
            ..repetition.clone()
        }),
        HirKind::Concat(subs) => Hir::concat(subs.iter().map(without_looks).collect()),
        HirKind::Alternation(subs) => Hir::alternation(subs.iter().map(without_looks).collect()),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
    }
}

/// An error of `fancy-regex` as a refusal.
pub fn syntax_error(error: &fancy_regex::Error, text: &str) -> Refused {
    if let Some(error) = diagnose::error(text) {
        return pattern::syntax_error(&error);
    }
    let (message, span) = match error {
        fancy_regex::Error::ParseError(at, kind) => {
            let next = text.get(*at..).and_then(|rest| rest.chars().next());
            let span = next.map_or(0..0, |char| *at..*at + char.len_utf8());
            (kind.to_string(), span)
        }
        fancy_regex::Error::CompileError(error) => (error.to_string(), 0..0),
        other => (other.to_string(), 0..0),
    };
    Refused::Syntax { message, span }
}

fn needs_confirm(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::LookAround(..)
            | Expr::Backref { .. }
            | Expr::BackrefWithRelativeRecursionLevel { .. }
            | Expr::AtomicGroup(_)
            | Expr::Conditional { .. }
            | Expr::KeepOut
            | Expr::SubroutineCall(_)
    )
}

/// The groups and the look-arounds, in the order in which they are written.
fn collect<'e>(expr: &'e Expr, groups: &mut Vec<&'e Expr>, looks: &mut Vec<&'e Expr>) {
    match expr {
        Expr::Group(sub) => groups.push(sub),
        Expr::LookAround(..) => looks.push(expr),
        _ => {}
    }
    expr.children_iter()
        .for_each(|child| collect(child, groups, looks));
}

/// A part of a pattern, translated. Lengths and reaches are in characters.
struct PatternPiece {
    hir: Hir,
    min: usize,
    max: Option<usize>,
    /// How far beyond the end of its match it sees.
    ahead: usize,
    /// How far before the start of its match it sees.
    behind: usize,
}

impl PatternPiece {
    fn of(hir: Hir, length: usize) -> PatternPiece {
        PatternPiece {
            hir,
            min: length,
            max: Some(length),
            ahead: 0,
            behind: 0,
        }
    }

    fn seeing(self, behind: usize, ahead: usize) -> PatternPiece {
        PatternPiece {
            ahead,
            behind,
            ..self
        }
    }
}

struct PatternWalk<'p> {
    text: &'p str,
    groups: Vec<&'p Expr>,
    looks: Vec<&'p Expr>,
    /// Groups that the current place is inside of.
    open: Vec<usize>,
    /// Back-references that are being followed.
    depth: usize,
    nodes: usize,
    /// Size of the look-arounds, which are no part of the hull.
    size: usize,
    limit: usize,
}

impl<'p> PatternWalk<'p> {
    fn piece(&mut self, expr: &'p Expr) -> Result<PatternPiece, Refused> {
        self.spend(1)?;
        Ok(match expr {
            Expr::Empty => PatternPiece::of(Hir::empty(), 0),
            Expr::Any { newline, crlf } => PatternPiece::of(dot(*newline, *crlf), 1),
            Expr::Assertion(assertion) => self.assertion(*assertion, expr)?,
            Expr::GeneralNewline { .. } => general_newline(),
            Expr::Literal { val, casei } => self.literal(val, *casei)?,
            Expr::Delegate { inner, casei } => self.class(inner, *casei)?,
            Expr::Concat(subs) => self.concat(subs)?,
            Expr::Alt(subs) => self.alternation(subs)?,
            Expr::Group(sub) => self.group(sub)?,
            Expr::Repeat { child, lo, hi, .. } => self.repetition(child, *lo, *hi)?,
            Expr::LookAround(child, which) => self.look(child, *which, expr)?,
            Expr::AtomicGroup(child) => self.atomic(child, expr)?,
            Expr::Backref { group, casei } => self.back(*group, *casei, expr)?,
            _ => return Err(self.refuse(LookaroundFault::Unsupported(name(expr)), expr)),
        })
    }

    fn concat(&mut self, subs: &'p [Expr]) -> Result<PatternPiece, Refused> {
        let mut whole = PatternPiece::of(Hir::empty(), 0);
        let mut hirs = Vec::with_capacity(subs.len());
        for sub in subs {
            let piece = self.piece(sub)?;
            // What one part sees beyond itself is inside the match as far as the next one reaches.
            whole.ahead = piece.ahead.max(whole.ahead.saturating_sub(piece.min));
            whole.behind = whole.behind.max(piece.behind.saturating_sub(whole.min));
            whole.min = whole.min.saturating_add(piece.min);
            whole.max = whole.max.zip(piece.max).map(|(a, b)| a.saturating_add(b));
            hirs.push(piece.hir);
        }
        whole.hir = Hir::concat(hirs);
        Ok(whole)
    }

    fn alternation(&mut self, subs: &'p [Expr]) -> Result<PatternPiece, Refused> {
        let mut hirs = Vec::with_capacity(subs.len());
        let mut whole: Option<PatternPiece> = None;
        for sub in subs {
            let mut piece = self.piece(sub)?;
            hirs.push(std::mem::replace(&mut piece.hir, Hir::empty()));
            whole = Some(match whole {
                None => piece,
                Some(whole) => PatternPiece {
                    hir: whole.hir,
                    min: whole.min.min(piece.min),
                    max: whole.max.zip(piece.max).map(|(a, b)| a.max(b)),
                    ahead: whole.ahead.max(piece.ahead),
                    behind: whole.behind.max(piece.behind),
                },
            });
        }
        let whole = whole.unwrap_or_else(|| PatternPiece::of(Hir::empty(), 0));
        Ok(PatternPiece {
            hir: Hir::alternation(hirs),
            ..whole
        })
    }

    fn group(&mut self, sub: &'p Expr) -> Result<PatternPiece, Refused> {
        let number = self
            .groups
            .iter()
            .position(|known| std::ptr::eq(*known, sub));
        self.open.extend(number);
        let piece = self.piece(sub);
        self.open
            .truncate(self.open.len() - usize::from(number.is_some()));
        piece
    }

    fn repetition(
        &mut self,
        child: &'p Expr,
        lo: usize,
        hi: usize,
    ) -> Result<PatternPiece, Refused> {
        let piece = self.piece(child)?;
        if hi == 0 {
            return Ok(PatternPiece::of(Hir::empty(), 0));
        }
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let most = (hi != usize::MAX).then_some(hi);
        let max = match (piece.max, most) {
            (Some(0), _) => Some(0),
            (Some(max), Some(most)) => Some(max.saturating_mul(most)),
            _ => None,
        };
        Ok(PatternPiece {
            min: piece.min.saturating_mul(lo),
            max,
            hir: Hir::repetition(Repetition {
                min: count(lo),
                max: most.map(count),
                greedy: true,
                sub: Box::new(piece.hir),
            }),
            ..piece
        })
    }

    fn look(
        &mut self,
        child: &'p Expr,
        which: LookAround,
        expr: &'p Expr,
    ) -> Result<PatternPiece, Refused> {
        let piece = self.piece(child)?;
        let is_ahead = matches!(which, LookAround::LookAhead | LookAround::LookAheadNeg);
        let Some(max) = piece.max else {
            let what = if is_ahead {
                "look-ahead"
            } else {
                "look-behind"
            };
            return Err(self.refuse(LookaroundFault::Unbounded(what), expr));
        };
        self.size = self.size.saturating_add(size(&piece.hir));
        let nothing = PatternPiece::of(Hir::empty(), 0);
        Ok(if is_ahead {
            nothing.seeing(piece.behind, max.saturating_add(piece.ahead))
        } else {
            nothing.seeing(max.saturating_add(piece.behind), piece.ahead)
        })
    }

    /// What an atomic group matches is settled by what else it could have matched, which may end later.
    fn atomic(&mut self, child: &'p Expr, expr: &'p Expr) -> Result<PatternPiece, Refused> {
        let piece = self.piece(child)?;
        let beyond = match (piece.max, child) {
            // One character more tells that a run of a class is over.
            (_, Expr::Repeat { child, .. }) if is_one_char(child) => 1,
            (Some(max), _) => max - piece.min,
            (None, _) => return Err(self.refuse(LookaroundFault::Unbounded("atomic group"), expr)),
        };
        Ok(PatternPiece {
            ahead: piece.ahead.saturating_add(beyond),
            ..piece
        })
    }

    fn back(&mut self, group: usize, casei: bool, expr: &'p Expr) -> Result<PatternPiece, Refused> {
        let number = group.wrapping_sub(1);
        let Some(&sub) = self.groups.get(number) else {
            let message = format!("there is no group {group} to refer back to");
            return Err(Refused::Syntax {
                message,
                span: 0..0,
            });
        };
        if self.open.contains(&number) || self.depth >= DEPTH {
            return Err(self.refuse(LookaroundFault::Recursive, expr));
        }
        self.depth += 1;
        let piece = self.group(sub);
        self.depth -= 1;
        let piece = piece?;
        // It compares text: what its group looked at is not looked at again.
        let hir = without_looks(&piece.hir);
        Ok(PatternPiece {
            hir: if casei { folded(&hir) } else { hir },
            ahead: 0,
            behind: 0,
            ..piece
        })
    }

    fn literal(&mut self, text: &str, casei: bool) -> Result<PatternPiece, Refused> {
        self.spend(text.len())?;
        let hir = Hir::literal(text.as_bytes());
        let hir = if casei { folded(&hir) } else { hir };
        Ok(PatternPiece::of(hir, text.chars().count()))
    }

    fn class(&mut self, inner: &str, casei: bool) -> Result<PatternPiece, Refused> {
        let hir = regex_syntax::ParserBuilder::new()
            .case_insensitive(casei)
            .build()
            .parse(inner);
        match hir {
            Ok(hir) => Ok(PatternPiece::of(hir, 1)),
            Err(error) => Err(Refused::Syntax {
                message: match error {
                    regex_syntax::Error::Parse(error) => error.kind().to_string(),
                    regex_syntax::Error::Translate(error) => error.kind().to_string(),
                    other => other.to_string(),
                },
                span: 0..0,
            }),
        }
    }

    fn assertion(&mut self, assertion: Assertion, expr: &Expr) -> Result<PatternPiece, Refused> {
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
            _ => return Err(self.refuse(LookaroundFault::Unsupported("`\\Z`"), expr)),
        };
        Ok(PatternPiece::of(Hir::look(look), 0).seeing(behind, ahead))
    }

    /// Counts what is built, so that back-references to back-references stay cheap to refuse.
    fn spend(&mut self, nodes: usize) -> Result<(), Refused> {
        self.nodes = self.nodes.saturating_add(nodes);
        // An expression has more nodes than states, but not by much.
        if self.nodes / 4 > self.limit.saturating_add(self.text.len()) {
            return Err(Refused::TooBig {
                states: self.nodes,
                limit: self.limit,
            });
        }
        Ok(())
    }

    fn refuse(&self, fault: LookaroundFault, expr: &Expr) -> Refused {
        let look = self
            .looks
            .iter()
            .position(|known| std::ptr::eq(*known, expr));
        let written = written_looks(self.text);
        let span = match (look, &fault) {
            // A count that differs means that the text is not read as it is here, say by a comment.
            (Some(look), _) if written.len() == self.looks.len() => written[look].clone(),
            _ => 0..0,
        };
        Refused::Around { fault, span }
    }
}

fn name(expr: &Expr) -> &'static str {
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
        Expr::Any { .. } | Expr::Delegate { .. } => true,
        Expr::Literal { val, .. } => val.chars().count() == 1,
        Expr::Group(sub) => is_one_char(sub),
        _ => false,
    }
}

fn dot(newline: bool, crlf: bool) -> Hir {
    Hir::dot(match (newline, crlf) {
        (true, _) => Dot::AnyChar,
        (false, false) => Dot::AnyCharExceptLF,
        (false, true) => Dot::AnyCharExceptCRLF,
    })
}

/// `\R`; after a `\r` it needs to see whether a `\n` follows.
fn general_newline() -> PatternPiece {
    let range = |start, end| ClassUnicodeRange::new(start, end);
    let one = ClassUnicode::new([
        range('\n', '\r'),
        range('\u{85}', '\u{85}'),
        range('\u{2028}', '\u{2029}'),
    ]);
    let hir = Hir::alternation(vec![
        Hir::literal(*b"\r\n"),
        Hir::class(Class::Unicode(one)),
    ]);
    PatternPiece {
        hir,
        min: 1,
        max: Some(2),
        ahead: 1,
        behind: 0,
    }
}

/// What differs from a match of `hir` at most in case.
fn folded(hir: &Hir) -> Hir {
    let fold = |mut class: ClassUnicode| {
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
        HirKind::Class(Class::Bytes(class)) => match class.to_unicode_class() {
            Some(class) => fold(class),
            None => hir.clone(),
        },
        HirKind::Capture(capture) => folded(&capture.sub),
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(folded(&repetition.sub)),
            ..repetition.clone()
        }),
        HirKind::Concat(subs) => Hir::concat(subs.iter().map(folded).collect()),
        HirKind::Alternation(subs) => Hir::alternation(subs.iter().map(folded).collect()),
        HirKind::Empty | HirKind::Look(_) => hir.clone(),
    }
}

/// Where look-arounds stand in the text, in the order in which they open.
fn written_looks(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut looks: Vec<Range<usize>> = Vec::new();
    // Open parentheses: which look-around each is, if it is one.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut class_depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        match byte {
            b'\\' => at += 1,
            b'[' => {
                class_depth += 1;
                // A `]` that comes first stands for itself.
                at += usize::from(rest.get(1) == Some(&b'^'));
                at += usize::from(bytes.get(at + 1) == Some(&b']'));
            }
            b']' => class_depth = class_depth.saturating_sub(1),
            b'(' if class_depth == 0 => {
                let is_look = [&b"(?="[..], b"(?!", b"(?<=", b"(?<!"]
                    .iter()
                    .any(|start| rest.starts_with(start));
                open.push(is_look.then_some(looks.len()));
                if is_look {
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

    fn around(text: &str) -> Result<Around, Refused> {
        let refused = Refused::LookAround {
            what: "look-around",
            span: 0..0,
        };
        parse(text, &PatternLimits::default(), refused)
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
            let got = around(text).unwrap_or_else(|refused| panic!("{text}: {refused:?}"));
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
    fn what_cannot_be_confirmed_on_a_window_is_refused_at_its_place() {
        let unbounded = |what| LookaroundFault::Unbounded(what);
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
                LookaroundFault::TooFar {
                    side: "ahead",
                    chars: 300,
                },
                "",
            ),
            (
                "(?<=(?:ab){200})c",
                LookaroundFault::TooFar {
                    side: "behind",
                    chars: 400,
                },
                "",
            ),
            (r"a\Kb(?=c)", LookaroundFault::Unsupported(r"`\K`"), ""),
            (r"a\Gb(?=c)", LookaroundFault::Unsupported(r"`\G`"), ""),
            (
                r"(a)?b(?(1)c|d)",
                LookaroundFault::Unsupported("a conditional"),
                "",
            ),
            (r"(a|b\1)+c", LookaroundFault::Recursive, ""),
            (
                r"(?<n>a\g<n>?b)(?=c)",
                LookaroundFault::Unsupported("a subroutine"),
                "",
            ),
            (r"a(?=b)\Z", LookaroundFault::Unsupported(r"`\Z`"), ""),
            (
                r"(a)\k<1+0>(?=b)",
                LookaroundFault::Unsupported("a back-reference with a recursion level"),
                "",
            ),
            (
                "a(*FAIL)(?=b)",
                LookaroundFault::Unsupported("a backtracking verb"),
                "",
            ),
            (
                "a(?~cd)(?=b)",
                LookaroundFault::Unsupported("an absent operator"),
                "",
            ),
        ];
        for (text, want, place) in cases {
            match around(text) {
                Err(Refused::Around { fault, span }) => {
                    assert_eq!((fault, &text[span]), (want, place), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn four_nodes_for_each_state_and_each_byte_are_built_and_no_more() {
        let mut walk = PatternWalk {
            text: "0123456789",
            groups: Vec::new(),
            looks: Vec::new(),
            open: Vec::new(),
            depth: 0,
            nodes: 0,
            size: 0,
            limit: 90,
        };
        assert!(walk.spend(4 * 100 + 3).is_ok());
        let Err(Refused::TooBig { states, limit }) = walk.spend(1) else {
            panic!("{} nodes were built", walk.nodes);
        };
        assert_eq!((states, limit), (404, 90));
        assert!(walk.spend(usize::MAX).is_err(), "not counted past the end");
    }

    #[test]
    fn hostile_references_are_refused_before_they_are_expanded() {
        let mut doubling = "(a)".to_owned();
        (1..40).for_each(|group| doubling += &format!(r"(\{group}\{group})"));
        let mut chain = "(a)".to_owned();
        (1..4000).for_each(|group| chain += &format!(r"(\{group})"));
        assert!(matches!(around(&doubling), Err(Refused::TooBig { .. })));
        assert!(matches!(
            around(&chain),
            Err(Refused::Around {
                fault: LookaroundFault::Recursive,
                ..
            })
        ));
        for text in ["(", r"(?=a)\9", "(?<=", r"\1", "(?=a)[", "(?=a)(?-u:x)"] {
            assert!(around(text).is_err(), "{text}");
        }
    }
}
